/*
 * heap.h - which of many ids comes due first: deadlines of waits, ends of leases.
 *
 * A binary min-heap of ids by `when`. An id is in it once at most, and can be moved or
 * taken out at any time. Ids of equal `when` come out smallest first, so that a run does
 * not depend on the order of its insertions.
 *
 * Units     `when` is any u64 that grows, mostly nanoseconds; ids are 0 .. limit-1.
 * Memory    the owner gives two arrays of `limit` items, and keeps them while it uses the
 *           heap; nothing here allocates.
 * Errors    none: an id out of range is the owner's bug, and CHECKed.
 * Thread    the owner's.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_entry {
	uint64_t when;
	uint32_t id;
};

struct heap {
	struct heap_entry *entries; /* [limit], the first `count` are the heap */
	uint32_t *pos; /* [limit], by id: its index in entries + 1; 0 = not in */
	uint32_t count;
	uint32_t limit;
};

void heap_init(
	struct heap *heap, struct heap_entry *entries, uint32_t *pos, uint32_t limit);

/* Put `id` in, or change its time. */
void heap_set(struct heap *heap, uint32_t id, uint64_t when);

/* Take `id` out; harmless when it is not in. */
void heap_remove(struct heap *heap, uint32_t id);

static inline bool heap_has(const struct heap *heap, uint32_t id)
{
	return heap->pos[id] != 0;
}

/* The first time and its id. UINT64_MAX when empty, and then *ret_id is untouched; it may
 * be NULL. */
uint64_t heap_min(const struct heap *heap, uint32_t *ret_id);

/* All invariants, in O(limit). */
bool heap_check(const struct heap *heap);

#endif
