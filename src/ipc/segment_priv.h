/*
 * segment_priv.h - what the files of a segment directory are called, and who does what:
 * segment.c the directory, segment_pool.c index and pool, segment_holds.c the counts.
 */
#ifndef IPC_SEGMENT_PRIV_H
#define IPC_SEGMENT_PRIV_H

#include "ipc/segment.h"

#define SEGMENT_LOCK  "lock"
#define SEGMENT_INDEX "index"
#define SEGMENT_POOL  "pool"
#define SEGMENT_HOLDS "holds." /* and <cid>.<incarnation> */

/* Where a failure is told. */
struct segment_detail {
	char *text;
	size_t size;
};

/* Adopt index and pool, or make them; either way both are mapped then. */
int segment_pool_open(struct segment_dir *dir, const struct segment_detail *detail);
void segment_pool_unmap(struct segment_dir *dir);

/* Unlink the counts files of none of the clients of the table, or all. */
void segment_holds_sweep(struct segment_dir *dir, bool all);
void segment_holds_unmap_all(struct segment_dir *dir);

/* fallocate() in slices, so that a signal costs little. 0 or -errno. */
int segment_allocate(int fd, uint64_t offset, uint64_t bytes);

#endif
