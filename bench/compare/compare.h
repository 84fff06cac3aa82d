/*
 * compare.h - two stores behind one door, so that both are given the same work.
 *
 * Units     sizes in bytes, times in ns.
 * Memory    keys, data and buffers are the caller's; open() .. close().
 * Errors    false or NULL, and a line on stderr has said why. A value of another size, or
 *           with other bytes where they are compared, is an error.
 * Thread    a connection belongs to one thread.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "tools/own_node.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define COMPARE_KEY_SIZE 32
#define COMPARE_BATCH    64 /* keys in one call of put_all, remove_all */

/* NUL-terminated, all of the same length. */
struct compare_key {
	char text[COMPARE_KEY_SIZE + 1];
};

void compare_key(struct compare_key *key, const char *prefix, uint64_t number);

struct rival {
	const char *name;
	void *(*open)(const char *socket);
	void (*close)(void *store);
	bool (*put)(void *store, const struct compare_key *key, const void *data,
		size_t size);
	/* The bytes of each are there when it returns: in place, or received. `want` NULL:
	 * only their first and last are looked at. */
	bool (*get)(void *store, const struct compare_key *keys, size_t count,
		const void *want, size_t size);
	/* Many at once: a batch, or a pipeline. All values have the same bytes. */
	bool (*put_all)(void *store, const struct compare_key *keys, size_t count,
		const void *data, size_t size);
	bool (*remove_all)(void *store, const struct compare_key *keys, size_t count);
};

extern const struct rival rival_cenote, rival_redis;

/* Copy each into `buffer`, one after the other. */
bool compare_cenote_copy(void *store, const struct compare_key *keys, size_t count,
	void *buffer, const void *want, size_t size);
/* Let all of the pool be met once, as it is in a node that has run for a while. */
void compare_cenote_warm(void *store);
bool compare_cenote_pool(void *store, uint64_t *ret_size, uint64_t *ret_page_size);

/* ---- redis-server, for the length of the comparison ---------------------- */

struct own_redis {
	pid_t pid;          /* 0: not running */
	int log_fd;         /* what it says; -1: none */
	char directory[64]; /* made for it; "": none */
	char socket[OWN_NODE_PATH_MAX];
};

bool own_redis_start(struct own_redis *redis);
void own_redis_stop(struct own_redis *redis);

/* ---- the crew: many processes at once ------------------------------------ */

struct crew_work {
	const char *socket;
	uint32_t clients, depth, rounds;
	const void *data; /* of a value */
	size_t size;
};

/* Each client puts `depth` values and removes them, `rounds` times; all begin together.
 * Time for one put or remove, over all clients; 0: it failed. */
double crew_run(const struct rival *rival, const struct crew_work *work);

#endif
