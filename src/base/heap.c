/*
 * heap.c - binary min-heap of ids by time, with the place of each id known.
 *
 * Invariants: no entry comes before its parent; pos[id] is the entry's index + 1 for each
 * id that is in, and 0 for each that is not.
 */
#include "base/heap.h"

#include "base/check.h"

#include <string.h>

static bool heap_before(const struct heap_entry *a, const struct heap_entry *b)
{
	if (a->when != b->when)
		return a->when < b->when;
	return a->id < b->id;
}

static void heap_place(struct heap *heap, uint32_t index, struct heap_entry entry)
{
	heap->entries[index] = entry;
	heap->pos[entry.id] = index + 1;
}

/* Move the hole at `index` up until `entry` may stand in it; returns where it is then. */
static uint32_t heap_rise(struct heap *heap, uint32_t index, struct heap_entry entry)
{
	while (index > 0) {
		uint32_t parent = (index - 1) / 2;

		if (!heap_before(&entry, &heap->entries[parent]))
			break;
		heap_place(heap, index, heap->entries[parent]);
		index = parent;
	}
	return index;
}

static uint32_t heap_sink(struct heap *heap, uint32_t index, struct heap_entry entry)
{
	/* In 64 bits, as 2 * index + 1 may pass 32. */
	for (uint64_t child = 2ull * index + 1; child < heap->count;
		child = 2ull * index + 1) {
		if (child + 1 < heap->count &&
			heap_before(&heap->entries[child + 1], &heap->entries[child]))
			child++;
		if (!heap_before(&heap->entries[child], &entry))
			break;
		heap_place(heap, index, heap->entries[child]);
		index = (uint32_t)child;
	}
	return index;
}

/* Put `entry` where it belongs, given a hole at `index`. */
static void heap_settle(struct heap *heap, uint32_t index, struct heap_entry entry)
{
	index = heap_rise(heap, index, entry);
	index = heap_sink(heap, index, entry);
	heap_place(heap, index, entry);
}

void heap_init(
	struct heap *heap, struct heap_entry *entries, uint32_t *pos, uint32_t limit)
{
	CHECK(limit < UINT32_MAX);
	heap->entries = entries;
	heap->pos = pos;
	heap->count = 0;
	heap->limit = limit;
	if (limit > 0)
		memset(pos, 0, limit * sizeof(*pos));
}

void heap_set(struct heap *heap, uint32_t id, uint64_t when)
{
	struct heap_entry entry = {.when = when, .id = id};
	uint32_t index;

	CHECK(id < heap->limit);
	if (heap->pos[id] != 0) {
		index = heap->pos[id] - 1;
	} else {
		CHECK(heap->count < heap->limit);
		index = heap->count++;
	}
	heap_settle(heap, index, entry);
}

void heap_remove(struct heap *heap, uint32_t id)
{
	struct heap_entry last;
	uint32_t index;

	CHECK(id < heap->limit);
	if (heap->pos[id] == 0)
		return;

	index = heap->pos[id] - 1;
	heap->pos[id] = 0;
	last = heap->entries[--heap->count];
	if (last.id != id)
		heap_settle(heap, index, last);
}

uint64_t heap_min(const struct heap *heap, uint32_t *ret_id)
{
	if (heap->count == 0)
		return UINT64_MAX;
	if (ret_id != NULL)
		*ret_id = heap->entries[0].id;
	return heap->entries[0].when;
}

bool heap_check(const struct heap *heap)
{
	uint32_t in = 0;

	if (heap->count > heap->limit)
		return false;
	for (uint32_t i = 0; i < heap->count; i++) {
		const struct heap_entry *entry = &heap->entries[i];

		if (entry->id >= heap->limit || heap->pos[entry->id] != i + 1)
			return false;
		if (i > 0 && heap_before(entry, &heap->entries[(i - 1) / 2]))
			return false;
	}
	for (uint32_t id = 0; id < heap->limit; id++)
		in += heap->pos[id] != 0;
	return in == heap->count;
}
