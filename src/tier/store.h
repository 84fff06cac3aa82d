/*
 * store.h - the real disk tier behind struct env_tier: one directory, one data file, one
 * index, threads that move the bytes.
 *
 * Units     bytes.
 * Memory    store_open() allocates everything, a bounce buffer for each thread included;
 *           the pool outlives the store. The texts of `warn` and `detail` are copied by
 *           who wants to keep them.
 * Errors    ERR_BUSY: another daemon has the directory; ERR_VERSION, ERR_CORRUPT: what is
 *           there is of another version, or does not belong together; ERR_NO_SPACE: it
 *           holds more than `disk_size`; ERR_BAD_ARGUMENT, ERR_NOT_PERMITTED, ERR_IO,
 *           ERR_NO_MEMORY. `detail` says it in words that name the file.
 *           A damaged index is no error: it is moved aside with a warning.
 * Thread    the loop thread; `done` is called on it, from inside loop_turn() and never
 *           from inside a call of the env's.
 * Order     store_open, store_env; store_close waits for the jobs under way, whose ends
 *           are then told to nobody. What they point to may go after it.
 */
#ifndef TIER_STORE_H
#define TIER_STORE_H

#include "base/attr.h"
#include "io/env.h"
#include "io/loop.h"

struct store;

struct store_config {
	const char *path;
	uint64_t disk_size; /* of all files together */
	uint64_t object_limit;
	uint32_t threads; /* that read and write the data file */
	unsigned char *pool;
	uint64_t pool_size;
	struct loop *loop;
	void *ctx;
	void (*done)(void *ctx, uint32_t job, int err);
	/* Something worth a line in the log, while it opens. */
	void (*warn)(void *ctx, const char *text);
};

struct store_info {
	uint64_t index_size, data_size; /* that the files may have */
	uint64_t backed;                /* that they take */
	uint64_t free_bytes;            /* of the file system */
	uint64_t objects, skipped;      /* records found; that were not valid */
	uint8_t uuid[16];               /* new whenever it starts empty */
	bool is_new;                    /* it starts empty */
	bool direct;                    /* past the page cache */
};

int store_open(struct store **ret, const struct store_config *config, char *detail,
	size_t detail_size) MUST_CHECK;
void store_close(struct store *store); /* NULL is fine */

void store_env(struct store *store, struct env_tier *ret_env);
void store_info(const struct store *store, struct store_info *ret);

#endif
