/*
 * lru.h - cache objects by heat: an inactive and an active list, and a ghost of what
 * left.
 *
 * New objects enter the inactive list. A scan takes from its tail: used since the last
 * scan means to the active list, else the object may be evicted. The active list is kept
 * to half of the bytes by sending its tail, unless used, to the inactive head. The ghost
 * remembers recent evictions by the key's hash: a key that comes back before as much was
 * evicted as both lists hold would have been hit in a cache of twice the size, and enters
 * the active list (the refault distance of Linux' mm/workingset.c).
 *
 * Units     sizes in granules of the pool.
 * Memory    the ghost's table is given at init: 8 bytes an entry.
 * Thread    the loop thread.
 */
#ifndef CORE_LRU_H
#define CORE_LRU_H

#include "core/object.h"

#define GHOST_WAYS 8u

struct ghost_entry {
	uint32_t print; /* of the key's hash; 0 = empty */
	uint32_t when;  /* lru.evicted when it left */
};

/* One cache line: a key's entry is in the bucket that its print's low bits name. */
struct ghost_bucket {
	struct ghost_entry entries[GHOST_WAYS];
};
_Static_assert(sizeof(struct ghost_bucket) == 64, "one cache line");

struct lru {
	struct object_queue active, inactive;
	struct ghost_bucket *ghost;
	uint32_t ghost_log2; /* buckets in use */
	uint32_t evicted;    /* granules that left; wraps */
};

/* `ghost`: zeroed, room for lru_ghost_log2(slots_limit). */
void lru_init(struct lru *lru, struct ghost_bucket *ghost, uint32_t nslots);

/* Buckets for so many slots, as a power of two: four entries a slot, since losing one
 * block's entry breaks the prefix chain behind it. */
uint32_t lru_ghost_log2(uint32_t nslots);

/* More slots: split the buckets, as often as it takes. */
void lru_ghost_grow(struct lru *lru, uint32_t nslots);

/* Whether the key left within the last `cached` granules of evictions; forgets it. */
bool lru_ghost_take(struct lru *lru, uint64_t hash, uint64_t cached);

/* A key leaves with a run of so many granules. */
void lru_ghost_put(struct lru *lru, uint64_t hash, uint32_t granules);

#endif
