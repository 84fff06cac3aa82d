/*
 * dir_redis.h - the directory on a Redis, or on a Redis Cluster.
 *
 * Each entry is one key, `<cluster>:o:<32 hex digits of its id>`, changed by one script at a
 * time (src/dir/lua, whose common.lua says what is in it); the members are one more,
 * `<cluster>:members`. Nothing else of the server is touched, but for a key with the epoch:
 * `<cluster>:e`, or on each master of a cluster `<cluster>:e:{tag}`.
 *
 * A call whose connection breaks is made again, at the master that has its slot then, until
 * its time is over: all of them may be repeated (dir.h). What the answers prove is told by
 * the epoch that was read after them, in the same pipeline; see redis_epoch.c.
 *
 * The server must be Redis 5 or newer, or speak as it does. It must not evict
 * (maxmemory-policy noeviction), and what it loses when a master fails, the nodes announce
 * again.
 *
 * Units     ns of CLOCK_BOOTTIME.
 * Memory    dir_redis_open() copies the configuration's texts.
 * Errors    ERR_BAD_ARGUMENT, ERR_IO, ERR_NO_MEMORY, with a text that says what was wrong.
 *           That no server is there is none: it is tried for ever.
 * Thread    the loop's. All of `events` comes from inside dir_redis_turn(); `warn` also from
 *           inside loop_turn().
 * Order     dir_redis_open, then dir_redis_turn() in each turn of the loop, and again when
 *           dir_redis_next() has come; calls that were started go out in it.
 *           dir_redis_close() tells nobody of calls under way.
 */
#ifndef DIR_DIR_REDIS_H
#define DIR_DIR_REDIS_H

#include "base/attr.h"
#include "dir/dir.h"
#include "io/loop.h"
#include "io/tls.h"

#define DIR_REDIS_TIMEOUT_NS 3000000000ull
#define DIR_REDIS_NAME_MAX   64u

struct dir_redis;

struct dir_redis_config {
	const char *url;           /* dir/redis_url.h */
	const char *password_file; /* NULL: the URL's password, if there is one */
	const char *cluster;       /* 1 to 64 of A-Z a-z 0-9 _ . - */
	struct tls_config tls; /* of rediss://; host NULL: the one that is connected to */
	uint64_t timeout_ns;   /* of a call; 0 = DIR_REDIS_TIMEOUT_NS */
	struct loop *loop;
	struct dir_events events;
	/* Something worth a line in the log; the same text at most once a minute. */
	void (*warn)(void *ctx, const char *text);
	void *warn_ctx;
};

/* What has happened so far, and what is now. */
struct dir_redis_info {
	uint64_t calls, unavailable; /* calls that ended; without an answer */
	uint64_t repeated;           /* sent once more, for whatever reason */
	uint64_t moved, asked;       /* followed to another master */
	uint64_t connections;        /* that stood */
	uint64_t maps;               /* of slots, taken over */
	uint64_t epochs_begun;       /* by this node */
	uint32_t domains;            /* masters that have slots, */
	uint32_t ready;              /* and are connected */
	bool is_cluster;
};

int dir_redis_open(struct dir_redis **ret, const struct dir_redis_config *config,
	char *detail, size_t detail_size) MUST_CHECK;
void dir_redis_close(struct dir_redis *dir); /* NULL is fine */

void dir_redis_dir(struct dir_redis *dir, struct dir *ret_dir);
void dir_redis_info(const struct dir_redis *dir, struct dir_redis_info *ret);

uint64_t dir_redis_next(const struct dir_redis *dir);
void dir_redis_turn(struct dir_redis *dir, uint64_t now);

#endif
