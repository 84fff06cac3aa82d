/*
 * redis_conn.h - a connection to one Redis server that makes itself again, and carries
 * commands and their answers in order.
 *
 *   IDLE --redis_conn_aim--> DOWN --due--> OPENING --stands--> GREETING --answered--> READY
 *                             ^---------------'-----------------'---broken----------'
 *
 * The greeting gives the password, asks the server who it is (`life`, is_cluster,
 * is_replica) and has it load the scripts. After a failure it waits for 10 ms, and doubles
 * that up to 1 s until redis_conn_is_good().
 *
 * Units     bytes; ns of CLOCK_BOOTTIME.
 * Memory    embedded by its owner; freed by redis_conn_fini(). A reply is valid during its
 *           redis_reply_fn.
 * Errors    none come back: what befalls it is told by down(), with the reason.
 * Thread    the loop's. Events and replies come from inside loop_turn(), redis_conn_due() and
 *           redis_conn_break(); the latter may be called from inside any of them.
 */
#ifndef DIR_REDIS_CONN_H
#define DIR_REDIS_CONN_H

#include "base/attr.h"
#include "dir/redis_script.h"
#include "io/stream.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#define REDIS_BACKOFF_LEAST_NS 10000000ull
#define REDIS_BACKOFF_MOST_NS  1000000000ull
#define REDIS_WORD_MAX         64u
#define REDIS_WHY_MAX          512u

/* What all connections of a directory have in common. */
struct redis_access {
	struct loop *loop;
	const char *user, *password; /* NULL or "": none */
	bool use_tls;
	struct tls_config tls; /* host NULL: the one that is connected to */
	struct redis_scripts *scripts;
	uint64_t silence_ns; /* it is broken if an answer takes so long */
};

/* NULL: the connection broke before it came. */
typedef void (*redis_reply_fn)(void *ctx, const redisReply *reply);

struct redis_conn_events {
	void (*up)(void *ctx); /* READY */
	void (*down)(void *ctx, const char *why);
};

enum redis_conn_state {
	REDIS_CONN_IDLE,
	REDIS_CONN_DOWN,
	REDIS_CONN_OPENING,
	REDIS_CONN_GREETING,
	REDIS_CONN_READY
};

/* Who takes the answer that comes next. */
struct redis_wait {
	redis_reply_fn fn;
	void *ctx;
};

/* The server's own words for itself; another life never has the same two. */
struct redis_life {
	char run_id[REDIS_WORD_MAX]; /* of the process */
	char replid[REDIS_WORD_MAX]; /* of its time as a master */
};

struct redis_conn {
	const struct redis_access *access;
	const struct redis_conn_events *events;
	void *ctx;
	enum redis_conn_state state;
	struct address address;
	struct stream stream;
	struct tls *tls;
	redisReader *reader;
	redisReplyObjectFunctions
		functions; /* of the reader: its own, but for a limit, */
	void *(*make_array)(const redisReadTask *, int); /* and what it was before */
	bool reading; /* answers are being taken from the reader */
	uint64_t retry_ns, backoff_ns;
	uint64_t heard_ns; /* when it last had nothing to wait for, or said something */
	struct redis_wait *waits; /* ring of [wait_limit], a power of two */
	uint32_t wait_first, wait_count, wait_limit;
	char *out; /* commands that were not sent yet */
	size_t out_size, out_limit;
	uint32_t greetings; /* answers that the greeting lacks */
	uint32_t scripts_loaded;
	struct redis_life life;
	bool is_cluster, is_replica;
	char policy[REDIS_WORD_MAX]; /* what it does when its memory is full */
};

void redis_conn_init(struct redis_conn *conn, const struct redis_access *access,
	const struct redis_conn_events *events, void *ctx);
/* What waits for answers is told NULL; no down() comes. */
void redis_conn_fini(struct redis_conn *conn);

/* Connect there from now on, at once; NULL: nowhere. If it stood, that breaks it. */
void redis_conn_aim(struct redis_conn *conn, const struct address *address);
void redis_conn_break(struct redis_conn *conn, const char *why);
/* It has proven useful: the next failure begins to count anew. */
void redis_conn_is_good(struct redis_conn *conn);
/* The server was seen elsewhere: if it is to be tried again, then now. */
void redis_conn_hurry(struct redis_conn *conn);

static inline bool redis_conn_is_ready(const struct redis_conn *conn)
{
	return conn->state == REDIS_CONN_READY;
}

/* Add a command to those that redis_conn_flush() sends. False: it is not ready, or there is
 * no memory, and fn will not be called. */
bool redis_conn_add(struct redis_conn *conn, int argc, const char **argv,
	const size_t *sizes, redis_reply_fn fn, void *ctx) MUST_CHECK;
/* The same, of words. */
bool redis_conn_add_words(struct redis_conn *conn, const char *const *words,
	redis_reply_fn fn, void *ctx) MUST_CHECK;
void redis_conn_flush(struct redis_conn *conn);
/* What an answer to INFO says of who it is. */
void redis_conn_learn(struct redis_conn *conn, const redisReply *reply);

uint64_t redis_conn_next(const struct redis_conn *conn);
void redis_conn_due(struct redis_conn *conn, uint64_t now);

#endif
