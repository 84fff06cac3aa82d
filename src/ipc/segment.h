/*
 * segment.h - the files of share/layout.h: made, adopted, grown, passed and freed.
 *
 * One directory on tmpfs has `lock`, `index`, `pool` and `holds.<cid>.<incarnation>`, all
 * 0600: clients get descriptors, never paths. As root the directory is a tmpfs of its own
 * with huge pages, mounted over the one that was given.
 *
 *   none --open--> locked --(old files hold: adopt | else: check room, make)--> mapped
 *   mapped --close--> files stay, for the next daemon        --free--> nothing stays
 *
 * A file that a client may have mapped is never cut: a new pool is new files.
 *
 * Units     bytes.
 * Memory    `struct segment_dir` is the caller's; mappings last until close or free.
 * Errors    0 or a negative number of base/err.def. `detail` then has it in words: what
 *           was wanted, what there is, which limit, the option to change.
 *           ERR_BUSY: another daemon has the files, or clients a pool of another size.
 *           ERR_NO_MEMORY: the system has not enough.
 * Thread    one: the loop's, or main's before it.
 */
#ifndef IPC_SEGMENT_H
#define IPC_SEGMENT_H

#include "base/attr.h"
#include "share/layout.h"

#include <stdbool.h>

#define SEGMENT_PAGE      4096u
#define SEGMENT_HUGE_PAGE (2u << 20)

struct segment_config {
	const char *path;   /* the directory; made if missing */
	uint64_t pool_size; /* rounded up to the page size */
	bool own_mount;     /* mount a tmpfs of our own if this process may */
	bool huge_pages;    /* on that mount */
};

struct segment_dir {
	char path[512];
	int base_fd; /* the directory below our mount, locked while it is set up and used
		      */
	int dir_fd;
	int lock_fd;
	bool is_mounted; /* our own tmpfs */
	bool is_huge;    /* huge pages may be expected */
	bool is_new;     /* the pool was made, not adopted */
	uint32_t slots_limit;
	uint64_t pool_size; /* rounded */
	struct share share;
	uint64_t index_size;
	_Atomic uint16_t *counts[CLIENT_LIMIT]; /* mapped count files, or NULL */
	uint32_t incarnations[CLIENT_LIMIT];    /* of those */
	char warning[256]; /* "" or what the operator should know: cold start and why, no
			      tmpfs */
};

/*
 * Lock the directory, adopt the files in it or make new ones, and map them. share.header
 * is valid then. A pool of another size whose clients live is refused, without clients it
 * is replaced.
 */
int segment_open(struct segment_dir *dir, const struct segment_config *config,
	char *detail, size_t detail_size) MUST_CHECK;

/* Unmap and unlock; the files stay. NULL-safe, also after a failed open. */
void segment_close(struct segment_dir *dir);

/* Take everything away: memory goes back in slices, then the files, then our mount; then
 * like after segment_close(). What clients that live have mapped stays theirs: with
 * `has_clients` the pool is not cut, and its memory goes with the last of them. */
void segment_free(struct segment_dir *dir, bool has_clients);

/* The page size that the pool's pages really have, 2 MiB or 4 KiB, judged by its start,
 * which is touched for that. */
uint64_t segment_page_size(const struct segment_dir *dir);

/* ---- what struct env_disk asks for --------------------------------------- */

/* Allocate [offset, offset + bytes) of the index file. */
int segment_index_extend(
	struct segment_dir *dir, uint64_t offset, uint64_t bytes) MUST_CHECK;

/* A new zeroed counts file with `nslots` counts allocated, mapped; an older one of the
 * same name is unlinked. */
int segment_holds_make(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	uint32_t nslots, _Atomic uint16_t **ret_counts) MUST_CHECK;
/* One of an earlier run, allocated for all slots of the index; ERR_NOT_FOUND. */
int segment_holds_open(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	_Atomic uint16_t **ret_counts) MUST_CHECK;
/* Allocate more of a counts file that is mapped. */
int segment_holds_extend(
	struct segment_dir *dir, uint32_t cid, uint32_t nslots) MUST_CHECK;
/* Unmap and unlink. */
void segment_holds_drop(struct segment_dir *dir, uint32_t cid, uint32_t incarnation);

/* ---- what a client gets -------------------------------------------------- */

enum segment_fd {
	SEGMENT_FD_INDEX,
	SEGMENT_FD_HOLDS,
	SEGMENT_FD_POOL,
	SEGMENT_FDS
};

/* Descriptors opened anew, so that each has the access that its client may have: index
 * read-only, holds writable, pool as said. The caller closes them once they are sent. */
int segment_grant(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	bool pool_writable, int ret_fds[SEGMENT_FDS]) MUST_CHECK;

/* Map a segment shared, kept out of core dumps and of forked children. */
int segment_map(int fd, uint64_t size, bool writable, void **ret_base) MUST_CHECK;
void segment_unmap(void *base, uint64_t size);

#endif
