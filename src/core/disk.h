/*
 * disk.h - what lies on the node's disk: a table of objects, their runs, and what is to be
 * changed in the index.
 *
 * An entry follows one object from the moment at which its bytes begin to leave:
 *
 *   FREE --disk_save--> SAVING --written, committed--> STORED --disk_end--> ENDING --> FREE
 *                         |  '--failed--> FREE             '--slot: also in the pool, or not
 *                         '--disk_end: doomed, FREE after the I/O and the commit
 *
 * Only the index on disk is the truth at a restart. Its changes are queued here in the order
 * in which they were decided, also while an earlier one of the same entry is under way: the
 * index knows a record by its id alone, and a drop that came behind the record of what has
 * the key next would take that. An extent is used again only after the commit that dropped
 * its record. Entries cost memory (up to 170 bytes with run and timers) so that whether a
 * key is on disk is known without a look at the disk; keys are not kept.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME.
 * Memory    arrays for `object_limit` entries, given at init, used as they are needed.
 * Errors    verdicts; see each.
 * Thread    the loop thread.
 */
#ifndef CORE_DISK_H
#define CORE_DISK_H

#include "base/heap.h"
#include "core/extent.h"
#include "core/object.h"
#include "share/index.h"

#define DISK_NONE        UINT32_MAX
#define DISK_GRANULE     4096u
#define DISK_INLINE      1024u         /* values up to this size lie in the index */
#define DISK_BATCH       1024u         /* objects of one write, changes of one commit */
#define DISK_WRITE_BYTES (17ull << 18) /* of small objects that are written together */
#define DISK_RETRY_NS    1000000000ull
#define DISK_TRIM_LEAST  (4ull << 20) /* with less in use nothing is given back */
#define DISK_ON_INDEX    UINT64_MAX

struct disk_config {
	uint64_t data_size;      /* of the data file; 0: there is no disk */
	uint32_t object_limit;   /* entries */
	uint32_t cache_permille; /* of data_size that cache objects may have */
};

enum disk_state {
	DISK_FREE,
	DISK_SAVING,
	DISK_STORED,
	DISK_ENDING
};

enum disk_change {
	DISK_NO_CHANGE,
	DISK_PUT,
	DISK_DROP
};

/* 128 bits of the key's hash, alike in every pool. */
struct disk_id {
	uint64_t word[2];
};

struct disk_entry {
	struct disk_id id;
	uint64_t hash; /* of the key, as this pool has it */
	uint64_t size, generation, checksum;
	uint64_t expires;    /* UINT64_MAX = never; counts here while it has no slot */
	uint32_t block;      /* its run; EXTENT_NONE: the value lies in the index */
	uint32_t chain;      /* next of the same bucket, or of the free ones */
	uint32_t slot;       /* its place in the pool; SLOT_NONE: only on disk */
	uint32_t prev, next; /* of the cache's queue */
	uint32_t change_prev, change_next; /* of the queue of changes */
	uint16_t readers_left, klen;
	uint8_t state;      /* enum disk_state */
	uint8_t change;     /* enum disk_change: what is queued */
	uint8_t committing; /* enum disk_change: what is under way; another may be queued */
	uint8_t softpin : 1; /* else a cache object */
	uint8_t counted : 1; /* readers_left counts */
	uint8_t writing : 1; /* its bytes are on their way */
	uint8_t indexed : 1; /* the index has, or may have, its record */
	uint8_t doomed : 1;  /* ended while SAVING */
	uint8_t loading : 1; /* `slot` is WRITING, being read into */
	uint8_t corrupt : 1; /* its bytes were not what they should be */
	uint8_t durable : 1; /* whoever keeps it is to have it on disk */
	uint8_t wanted;      /* nodes that are to keep it */
};
_Static_assert(sizeof(struct disk_entry) == 96, "an entry");

struct disk_queue {
	uint32_t head, tail;
	uint32_t count;
};

struct disk {
	struct disk_config config;
	struct disk_entry *entries;
	uint32_t *map; /* heads of the chains, by hash */
	uint32_t map_mask;
	struct extent_map extents;
	struct heap largest; /* softpin entries, by UINT64_MAX - their run in the pool */
	uint64_t run_limit;  /* the pool's size: what is larger cannot come back */
	struct heap timers;  /* ends of the time to live of what is only on disk */
	struct disk_queue changes; /* oldest at the head */
	struct disk_queue cache;   /* the one that left last at the head */
	uint32_t free_head, used;  /* entries from `used` on were never used */
	uint32_t count, stored;    /* not FREE; STORED */
	uint32_t only;             /* STORED, with no READY slot */
	uint64_t bytes, cache_bytes,
		only_bytes;    /* of values: not FREE; cache; disk only */
	uint64_t saving_bytes; /* of pool runs whose I/O is under way */
	uint32_t writing;      /* entries whose bytes are on their way */
	uint32_t committing;   /* entries of the commit that is under way */
	int error;             /* of the last job that failed, 0 since one was good */
	uint64_t retry_ns;     /* with an error: not before */
	uint32_t trim_at;      /* granules: how far this round of trimming has come */
	bool trimming;         /* a round is under way */
	/* At the last round: bytes in use at its start, taken of the file system at its end. */
	uint64_t trimmed_used, trimmed_backed;
};

/* ---- at the start and end ------------------------------------------------ */

/* How much memory disk_init() takes; 0 without a disk. */
size_t disk_memory_size(const struct disk_config *config);
void disk_init(struct disk *disk, const struct disk_config *config, void *memory);

/* The name of a key, wherever it is. */
struct disk_id disk_id_of(const void *key, uint32_t size);

static inline bool disk_is_there(const struct disk *disk)
{
	return disk->config.data_size > 0;
}

static inline struct disk_entry *disk_entry(const struct disk *disk, uint32_t entry)
{
	return &disk->entries[entry];
}

#endif
