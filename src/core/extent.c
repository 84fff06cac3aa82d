/*
 * extent.c - TLSF (two-level segregated fit) with its boundary tags in a side array.
 *
 * Blocks tile the space and are linked by address. A free one is also in the bin of its
 * size, a list: 32 bins for each power of two, found by two bitmaps. Bins up to 63
 * granules hold one size each, later ones sizes that differ by up to 1/32.
 *
 *     FREE -> USED         extent_alloc, extent_alloc_at
 *     USED -> FREE         extent_free; in a window WITHHELD
 *     USED -> USED, USED   extent_split
 *     FREE -> WITHHELD     extent_window_open
 *     WITHHELD -> USED     extent_window_take
 *     WITHHELD -> USED     extent_window_claim; what it leaves becomes FREE
 *     WITHHELD -> FREE     extent_window_close
 *     any hole -> SPARE    merged into the block before it (block_join)
 *     SPARE -> the rest    cut off a block (block_cut)
 *
 * A search takes three steps, until one finds a hole:
 *
 * 1. The best of the first EXTENT_LOOKS blocks of the request's own bin. Without it no
 *    hole of exactly the right size is used again, unless it is the smallest size of
 *    its bin: a pool of a few fixed sizes then fails one put in five at 90 % load.
 * 2. The first fit among the first EXTENT_LOOKS blocks of each larger bin, smallest bin
 *    first. From size + align on any block fits, so one look is enough there.
 * 3. The same without the limit of looks. This makes the promise of the header true. It
 *    is bounded by the blocks of the bins below size + align, all of which have the
 *    size, or nearly, and miss it by alignment. A million such holes cost 0.1 s.
 *
 * A request that fails stays impossible until a block with room for it comes into a
 * bin; `refused` remembers one, and bin_add() forgets it. So a ticket that is tried
 * after every free does not walk every time.
 *
 * Invariants, proved by extent_map_check(): records[0] is the first block, since a
 * merge keeps the lower record; no FREE block lies in a window, no WITHHELD one outside
 * and no block across an edge; two neighbours on one side of all edges are never both
 * holes. That the first block of a window keeps its record follows: it is cut off once and
 * never merges with what lies before it.
 */
#include "core/extent.h"

#include "base/attr.h"
#include "base/bytes.h"
#include "base/check.h"

#include <stddef.h>

#define EXTENT_LOOKS 16

static uint32_t bin_of(uint32_t size)
{
	uint32_t log2;

	if (size < EXTENT_FANOUT)
		return size;
	log2 = 31 - (uint32_t)__builtin_clz(size);
	return (log2 - 4) * EXTENT_FANOUT + ((size >> (log2 - 5)) & (EXTENT_FANOUT - 1));
}

static uint32_t bin_max_size(uint32_t bin)
{
	uint32_t shift = bin / EXTENT_FANOUT;

	if (shift == 0)
		return bin;
	shift--;
	return ((EXTENT_FANOUT + bin % EXTENT_FANOUT) << shift) + (1u << shift) - 1;
}

/* The lowest bin from `bin` up that has a block, or EXTENT_NONE. */
static uint32_t bin_above(const struct extent_map *map, uint32_t bin)
{
	uint32_t level = bin / EXTENT_FANOUT;
	uint32_t bins, levels;

	if (bin >= EXTENT_BINS)
		return EXTENT_NONE;
	bins = map->bins[level] & (UINT32_MAX << bin % EXTENT_FANOUT);
	if (bins == 0) {
		levels = map->levels & (UINT32_MAX << (level + 1));
		if (levels == 0)
			return EXTENT_NONE;
		level = (uint32_t)__builtin_ctz(levels);
		bins = map->bins[level];
	}
	return level * EXTENT_FANOUT + (uint32_t)__builtin_ctz(bins);
}

/* The highest bin below `bin` that has a block, or EXTENT_NONE. */
static uint32_t bin_below(const struct extent_map *map, uint32_t bin)
{
	uint32_t level = bin / EXTENT_FANOUT;
	uint32_t bins = 0;
	uint32_t levels;

	if (level < EXTENT_LEVELS)
		bins = map->bins[level] & ~(UINT32_MAX << bin % EXTENT_FANOUT);
	if (bins == 0) {
		levels = map->levels & ~(UINT32_MAX << level);
		if (levels == 0)
			return EXTENT_NONE;
		level = 31 - (uint32_t)__builtin_clz(levels);
		bins = map->bins[level];
	}
	return level * EXTENT_FANOUT + 31 - (uint32_t)__builtin_clz(bins);
}

/* Granules that `block` has from its first multiple of `align` on. */
static uint32_t block_room(const struct extent *block, uint64_t align)
{
	uint64_t skip = -(uint64_t)block->off & (align - 1);

	return skip < block->size ? block->size - (uint32_t)skip : 0;
}

static void bin_add(struct extent_map *map, uint32_t rec)
{
	struct extent *block = &map->records[rec];
	uint32_t bin = bin_of(block->size);
	uint32_t level = bin / EXTENT_FANOUT;
	uint32_t bit = 1u << bin % EXTENT_FANOUT;

	block->free_prev = EXTENT_NONE;
	block->free_next = EXTENT_NONE;
	if (map->bins[level] & bit) {
		block->free_next = map->heads[bin];
		map->records[block->free_next].free_prev = rec;
	}
	map->heads[bin] = rec;
	map->bins[level] |= bit;
	map->levels |= 1u << level;

	if (block_room(block, map->refused_align) >= map->refused_size)
		map->refused_size = EXTENT_NONE;
}

static void bin_del(struct extent_map *map, uint32_t rec)
{
	const struct extent *block = &map->records[rec];
	uint32_t bin, level;

	if (block->free_next != EXTENT_NONE)
		map->records[block->free_next].free_prev = block->free_prev;
	if (block->free_prev != EXTENT_NONE) {
		map->records[block->free_prev].free_next = block->free_next;
		return;
	}
	bin = bin_of(block->size);
	level = bin / EXTENT_FANOUT;
	map->heads[bin] = block->free_next;
	if (block->free_next != EXTENT_NONE)
		return;
	map->bins[level] &= ~(1u << bin % EXTENT_FANOUT);
	if (map->bins[level] == 0)
		map->levels &= ~(1u << level);
}

/* A block is counted, and listed if free, between block_enter() and block_leave(). */
static void block_enter(struct extent_map *map, uint32_t rec, enum extent_kind kind)
{
	struct extent *block = &map->records[rec];

	block->kind = (uint8_t)kind;
	map->totals[kind].granules += block->size;
	map->totals[kind].count++;
	if (kind == EXTENT_FREE)
		bin_add(map, rec);
}

static void block_leave(struct extent_map *map, uint32_t rec)
{
	const struct extent *block = &map->records[rec];

	map->totals[block->kind].granules -= block->size;
	map->totals[block->kind].count--;
	if (block->kind == EXTENT_FREE)
		bin_del(map, rec);
}

static uint32_t record_take(struct extent_map *map)
{
	uint32_t rec = map->spare;

	if (rec != EXTENT_NONE) {
		map->spare = map->records[rec].next;
		return rec;
	}
	CHECK(map->high < map->limit);
	return map->high++;
}

/* Shorten a block that has left to `size`; returns the new block behind it. */
static uint32_t block_cut(struct extent_map *map, uint32_t rec, uint32_t size)
{
	uint32_t tail = record_take(map);
	struct extent *block = &map->records[rec];

	CHECK(size > 0 && size < block->size);
	map->records[tail] = (struct extent){
		.off = block->off + size,
		.size = block->size - size,
		.prev = rec,
		.next = block->next,
	};
	if (block->next == EXTENT_NONE)
		map->last = tail;
	else
		map->records[block->next].prev = tail;
	block->next = tail;
	block->size = size;
	return tail;
}

/* Lengthen a block that has left by the one behind it, whose record becomes spare. */
static void block_join(struct extent_map *map, uint32_t rec)
{
	struct extent *block = &map->records[rec];
	uint32_t tail = block->next;
	struct extent *gone = &map->records[tail];

	block->size += gone->size;
	block->next = gone->next;
	if (gone->next == EXTENT_NONE)
		map->last = rec;
	else
		map->records[gone->next].prev = rec;
	gone->kind = EXTENT_SPARE;
	gone->next = map->spare;
	map->spare = tail;
}

/* The window in which granule `off` lies, or EXTENT_WINDOWS. */
static enum extent_window window_at(const struct extent_map *map, uint32_t off)
{
	uint32_t which = 0;

	while (which < EXTENT_WINDOWS &&
		(off < map->windows[which].off || off >= map->windows[which].end))
		which++;
	return (enum extent_window)which;
}

/* Whether block `rec` is a hole that one of kind `kind` in `window` merges with. */
static bool block_merges(const struct extent_map *map, uint32_t rec,
	enum extent_kind kind, enum extent_window window)
{
	return rec != EXTENT_NONE && map->records[rec].kind == kind &&
	       window_at(map, map->records[rec].off) == window;
}

/* Make a block that has left a hole, merged with its neighbours; returns the whole. */
static uint32_t block_release(struct extent_map *map, uint32_t rec)
{
	struct extent *block = &map->records[rec];
	enum extent_window window = window_at(map, block->off);
	enum extent_kind kind = window == EXTENT_WINDOWS ? EXTENT_FREE : EXTENT_WITHHELD;

	block->owner = 0;
	if (block_merges(map, block->next, kind, window)) {
		block_leave(map, block->next);
		block_join(map, rec);
	}
	if (block_merges(map, block->prev, kind, window)) {
		rec = block->prev;
		block_leave(map, rec);
		block_join(map, rec);
	}
	block_enter(map, rec, kind);
	return rec;
}

/* Make granules [off, off + size) of a hole that has left a run, the rest free. */
static uint32_t block_carve(struct extent_map *map, uint32_t hole, uint32_t off,
	uint32_t size, uint32_t owner)
{
	uint32_t run = hole;
	uint32_t rest = EXTENT_NONE;

	if (off > map->records[hole].off)
		run = block_cut(map, hole, off - map->records[hole].off);
	if (size < map->records[run].size)
		rest = block_cut(map, run, size);
	block_enter(map, run, EXTENT_USED);
	map->records[run].owner = owner;
	if (run != hole)
		block_release(map, hole);
	if (rest != EXTENT_NONE)
		block_release(map, rest);
	return run;
}

/* Make `off` the start of a block, which it is unless it lies inside a hole. */
static uint32_t block_split(struct extent_map *map, uint32_t rec, uint32_t off)
{
	uint32_t tail;

	if (map->records[rec].off == off)
		return rec;
	CHECK(map->records[rec].kind == EXTENT_FREE);
	block_leave(map, rec);
	tail = block_cut(map, rec, off - map->records[rec].off);
	block_enter(map, rec, EXTENT_FREE);
	block_enter(map, tail, EXTENT_FREE);
	return tail;
}

/* The block in which `off` lies, walking from `rec`. */
static uint32_t block_seek(const struct extent_map *map, uint32_t rec, uint32_t off)
{
	while (extent_record(map, rec)->off > off)
		rec = extent_prev(map, rec);
	while (off - extent_record(map, rec)->off >= map->records[rec].size)
		rec = extent_next(map, rec);
	return rec;
}

/* Granules for a request from outside; 0 if no space could hold it. */
static uint32_t to_granules(const struct extent_map *map, uint64_t size_bytes)
{
	uint64_t last_byte = size_bytes > 0 ? size_bytes - 1 : 0;
	uint64_t last = last_byte >> map->granule_shift;

	return last < map->granule_count ? (uint32_t)last + 1 : 0;
}

static uint64_t to_align(const struct extent_map *map, uint64_t align_bytes)
{
	uint64_t align = align_bytes >> map->granule_shift;

	CHECK(is_power_of_two(align_bytes));
	return align > 0 ? align : 1;
}

/* The first fit, or for `best` the smallest, among the first `looks` of the bin. */
static uint32_t bin_search(const struct extent_map *map, uint32_t bin, uint32_t size,
	uint64_t align, uint32_t looks, bool best)
{
	uint32_t found = EXTENT_NONE;
	uint32_t rec = map->heads[bin];

	for (; rec != EXTENT_NONE && looks > 0; looks--) {
		const struct extent *block = &map->records[rec];

		if (block_room(block, align) >= size &&
			(found == EXTENT_NONE ||
				block->size < map->records[found].size)) {
			found = rec;
			if (!best || block->size == size)
				break;
		}
		rec = block->free_next;
	}
	return found;
}

/* The head comment tells the steps; the third repeats the second without its limit. */
static uint32_t hole_search(const struct extent_map *map, uint32_t size, uint64_t align)
{
	const uint32_t looks[] = {EXTENT_LOOKS, UINT32_MAX};
	uint32_t own = bin_of(size);

	for (uint32_t step = 0; step < 2; step++) {
		for (uint32_t bin = bin_above(map, own); bin != EXTENT_NONE;
			bin = bin_above(map, bin + 1)) {
			uint32_t rec = bin_search(
				map, bin, size, align, looks[step], bin == own);

			if (rec != EXTENT_NONE)
				return rec;
		}
	}
	return EXTENT_NONE;
}

void extent_map_init(struct extent_map *map, struct extent *records, uint32_t limit,
	uint64_t size_bytes, uint32_t granule_bytes)
{
	uint64_t count;

	CHECK(is_power_of_two(granule_bytes));
	count = size_bytes / granule_bytes;
	CHECK(count > 0 && count < UINT32_MAX);
	CHECK(limit >= EXTENT_RECORDS(1));

	*map = (struct extent_map){
		.records = records,
		.limit = limit,
		.run_limit = (limit - EXTENT_RECORDS(0)) / 2,
		.high = 1,
		.spare = EXTENT_NONE,
		.granule_count = (uint32_t)count,
		.granule_shift = (uint32_t)__builtin_ctz(granule_bytes),
		.refused_size = EXTENT_NONE,
		.refused_align = 1,
	};
	records[0] = (struct extent){
		.size = (uint32_t)count,
		.prev = EXTENT_NONE,
		.next = EXTENT_NONE,
	};
	block_enter(map, 0, EXTENT_FREE);
}

static bool is_full(const struct extent_map *map)
{
	return map->totals[EXTENT_USED].count == map->run_limit;
}

uint32_t extent_alloc(
	struct extent_map *map, uint64_t size_bytes, uint64_t align_bytes, uint32_t owner)
{
	uint32_t size = to_granules(map, size_bytes);
	uint64_t align = to_align(map, align_bytes);
	const struct extent *hole;
	uint32_t rec, off;

	if (size == 0 || is_full(map))
		return EXTENT_NONE;
	if (size >= map->refused_size && align >= map->refused_align)
		return EXTENT_NONE;
	rec = hole_search(map, size, align);
	if (rec == EXTENT_NONE) {
		map->refused_size = size;
		map->refused_align = align;
		return EXTENT_NONE;
	}
	hole = &map->records[rec];
	off = hole->off + hole->size - block_room(hole, align);
	block_leave(map, rec);
	return block_carve(map, rec, off, size, owner);
}

/* A run at this place, if it lies in one hole of kind `kind`; the walk begins at `near`. */
static uint32_t block_take(struct extent_map *map, uint32_t near, enum extent_kind kind,
	uint64_t off_bytes, uint64_t size_bytes, uint32_t owner)
{
	uint32_t size = to_granules(map, size_bytes);
	uint64_t off = off_bytes >> map->granule_shift;
	const struct extent *hole;
	uint32_t rec;

	if (size == 0 || is_full(map) || off << map->granule_shift != off_bytes ||
		off > map->granule_count - size)
		return EXTENT_NONE;
	rec = block_seek(map, near, (uint32_t)off);
	hole = &map->records[rec];
	if (hole->kind != kind || off + size > (uint64_t)hole->off + hole->size)
		return EXTENT_NONE;
	block_leave(map, rec);
	return block_carve(map, rec, (uint32_t)off, size, owner);
}

uint32_t extent_alloc_at(
	struct extent_map *map, uint64_t off_bytes, uint64_t size_bytes, uint32_t owner)
{
	return block_take(map, map->last, EXTENT_FREE, off_bytes, size_bytes, owner);
}

void extent_free(struct extent_map *map, uint32_t rec)
{
	enum extent_window window = window_at(map, extent_record(map, rec)->off);

	CHECK(map->records[rec].kind == EXTENT_USED);
	if (window != EXTENT_WINDOWS)
		map->windows[window].used -= map->records[rec].size;
	block_leave(map, rec);
	block_release(map, rec);
}

uint32_t extent_split(
	struct extent_map *map, uint32_t rec, uint64_t size_bytes, uint32_t owner)
{
	uint32_t rest;

	CHECK(extent_record(map, rec)->kind == EXTENT_USED);
	CHECK(size_bytes > 0 && size_bytes < extent_size_bytes(map, rec));
	CHECK(size_bytes % (1ull << map->granule_shift) == 0);
	if (is_full(map))
		return EXTENT_NONE;
	block_leave(map, rec);
	rest = block_cut(map, rec, (uint32_t)(size_bytes >> map->granule_shift));
	block_enter(map, rec, EXTENT_USED);
	block_enter(map, rest, EXTENT_USED);
	map->records[rest].owner = owner;
	return rest;
}

uint64_t extent_largest_fit(const struct extent_map *map, uint64_t align_bytes)
{
	uint64_t align = to_align(map, align_bytes);
	uint32_t bin = is_full(map) ? EXTENT_NONE : bin_below(map, EXTENT_BINS);
	uint32_t best = 0;

	for (; bin != EXTENT_NONE && best < bin_max_size(bin);
		bin = bin_below(map, bin)) {
		uint32_t rec = map->heads[bin];

		while (rec != EXTENT_NONE && best < bin_max_size(bin)) {
			uint32_t room = block_room(&map->records[rec], align);

			best = MAX(best, room);
			rec = map->records[rec].free_next;
		}
	}
	return (uint64_t)best << map->granule_shift;
}

/* Window `which` at [off, end) shares no granule with another. */
static bool window_is_apart(const struct extent_map *map, enum extent_window which,
	uint32_t off, uint32_t end)
{
	for (uint32_t i = 0; i < EXTENT_WINDOWS; i++) {
		const struct extent_range *other = &map->windows[i];

		if (i != which && off < other->end && end > other->off)
			return false;
	}
	return true;
}

void extent_window_open(struct extent_map *map, enum extent_window which, uint32_t near,
	uint64_t off_bytes, uint64_t size_bytes)
{
	struct extent_range *window = &map->windows[which];
	uint64_t space_bytes = (uint64_t)map->granule_count << map->granule_shift;
	uint32_t off = (uint32_t)(off_bytes >> map->granule_shift);
	uint32_t end = off + (uint32_t)(size_bytes >> map->granule_shift);
	uint32_t rec;

	CHECK(!extent_window_is_open(map, which));
	CHECK((off_bytes | size_bytes) % (1ull << map->granule_shift) == 0);
	CHECK(size_bytes > 0 && size_bytes <= space_bytes);
	CHECK(off_bytes <= space_bytes - size_bytes);
	CHECK(window_is_apart(map, which, off, end));

	rec = block_split(map, block_seek(map, near, off), off);
	*window = (struct extent_range){.off = off, .end = end, .first = rec};
	for (; rec != EXTENT_NONE && map->records[rec].off < end;
		rec = map->records[rec].next) {
		const struct extent *block = &map->records[rec];

		if (block->size > end - block->off)
			block_split(map, rec, end);
		if (block->kind == EXTENT_USED) {
			window->used += block->size;
			continue;
		}
		block_leave(map, rec);
		block_enter(map, rec, EXTENT_WITHHELD);
	}
}

uint64_t extent_window_missing(const struct extent_map *map, enum extent_window which)
{
	return (uint64_t)map->windows[which].used << map->granule_shift;
}

/* From here on a release in the old range makes free blocks. */
static struct extent_range window_finish(struct extent_map *map, enum extent_window which)
{
	struct extent_range window = map->windows[which];

	map->windows[which] = (struct extent_range){0};
	return window;
}

uint32_t extent_window_claim(
	struct extent_map *map, uint64_t size_bytes, uint64_t align_bytes, uint32_t owner)
{
	uint32_t size = to_granules(map, size_bytes);
	uint64_t align = to_align(map, align_bytes);
	uint32_t rec = extent_window_first(map, EXTENT_CLEARING);
	const struct extent *hole = &map->records[rec];

	CHECK(map->windows[EXTENT_CLEARING].used == 0);
	CHECK(size > 0 && block_room(hole, align) >= size);
	if (is_full(map))
		return EXTENT_NONE;
	window_finish(map, EXTENT_CLEARING);
	block_leave(map, rec);
	return block_carve(
		map, rec, hole->off + hole->size - block_room(hole, align), size, owner);
}

uint32_t extent_window_take(struct extent_map *map, enum extent_window which,
	uint64_t off_bytes, uint64_t size_bytes, uint32_t owner)
{
	struct extent_range *window = &map->windows[which];
	uint32_t rec = extent_window_first(map, which);

	if (off_bytes < extent_window_off(map, which) ||
		off_bytes >= extent_window_end(map, which))
		return EXTENT_NONE;
	rec = block_take(map, rec, EXTENT_WITHHELD, off_bytes, size_bytes, owner);
	if (rec != EXTENT_NONE)
		window->used += map->records[rec].size;
	return rec;
}

void extent_window_close(struct extent_map *map, enum extent_window which)
{
	struct extent_range window;
	uint32_t rec = extent_window_first(map, which);

	window = window_finish(map, which);
	while (rec != EXTENT_NONE && map->records[rec].off < window.end) {
		if (map->records[rec].kind == EXTENT_WITHHELD) {
			block_leave(map, rec);
			rec = block_release(map, rec);
		}
		rec = map->records[rec].next;
	}
}

/* One block against its neighbours and the windows; `next` is NULL behind the last. */
static bool block_check(const struct extent_map *map, const struct extent *block,
	const struct extent *next)
{
	uint64_t end = (uint64_t)block->off + block->size;
	enum extent_window window = window_at(map, block->off);

	if (block->size == 0)
		return false;
	for (uint32_t which = 0; which < EXTENT_WINDOWS; which++) {
		if (block->off < map->windows[which].off && end > map->windows[which].off)
			return false;
	}
	if (window != EXTENT_WINDOWS && end > map->windows[window].end)
		return false;
	if (block->kind == (window != EXTENT_WINDOWS ? EXTENT_FREE : EXTENT_WITHHELD))
		return false;
	if (next == NULL)
		return end == map->granule_count;
	return next->off == end &&
	       (block->kind == EXTENT_USED || next->kind != block->kind ||
		       window_at(map, next->off) != window);
}

/* The blocks tile the space, and the counters are right. */
static bool chain_check(const struct extent_map *map)
{
	struct extent_total totals[EXTENT_KINDS] = {0};
	uint32_t prev = EXTENT_NONE;
	uint32_t rec = 0;

	for (; rec != EXTENT_NONE; prev = rec, rec = map->records[rec].next) {
		const struct extent *block = &map->records[rec];
		const struct extent *next = NULL;

		if (block->next != EXTENT_NONE) {
			if (block->next >= map->high)
				return false;
			next = &map->records[block->next];
		}
		if (block->prev != prev || block->kind == EXTENT_SPARE ||
			block->kind >= EXTENT_KINDS || !block_check(map, block, next))
			return false;
		totals[block->kind].granules += block->size;
		totals[block->kind].count++;
	}
	for (uint32_t kind = 0; kind < EXTENT_KINDS; kind++) {
		if (totals[kind].granules != map->totals[kind].granules ||
			totals[kind].count != map->totals[kind].count)
			return false;
	}
	return prev == map->last && map->records[0].off == 0 &&
	       totals[EXTENT_USED].count <= map->run_limit;
}

/* A window is a range of its own and begins with its first block; what is used in it. */
static bool window_check(const struct extent_map *map, enum extent_window which)
{
	const struct extent_range *window = &map->windows[which];
	uint64_t used = 0;
	uint32_t rec = window->first;

	if (!extent_window_is_open(map, which))
		return window->used == 0;
	if (window->off > window->end || window->end > map->granule_count ||
		!window_is_apart(map, which, window->off, window->end))
		return false;
	if (rec >= map->high || map->records[rec].kind == EXTENT_SPARE ||
		map->records[rec].off != window->off)
		return false;
	for (; rec != EXTENT_NONE && map->records[rec].off < window->end;
		rec = map->records[rec].next) {
		if (map->records[rec].kind == EXTENT_USED)
			used += map->records[rec].size;
	}
	return used == window->used;
}

/* The blocks of one bin, added to `*count`, which ends one that is a circle. */
static bool bin_check(const struct extent_map *map, uint32_t bin, uint32_t *count)
{
	uint32_t prev = EXTENT_NONE;
	uint32_t rec = map->heads[bin];

	for (; rec != EXTENT_NONE; prev = rec, rec = map->records[rec].free_next) {
		const struct extent *block;

		if (rec >= map->high || ++*count > map->totals[EXTENT_FREE].count)
			return false;
		block = &map->records[rec];
		if (block->kind != EXTENT_FREE || block->free_prev != prev ||
			bin_of(block->size) != bin ||
			block_room(block, map->refused_align) >= map->refused_size)
			return false;
	}
	return prev != EXTENT_NONE;
}

/* Every free block is in the bin of its size, and the bitmaps say which have any. */
static bool bins_check(const struct extent_map *map)
{
	uint32_t count = 0;

	for (uint32_t bin = 0; bin < EXTENT_BINS; bin++) {
		bool has = map->bins[bin / EXTENT_FANOUT] & 1u << bin % EXTENT_FANOUT;

		if (has && !bin_check(map, bin, &count))
			return false;
	}
	for (uint32_t level = 0; level < 32; level++) {
		bool has = level < EXTENT_LEVELS && map->bins[level] != 0;

		if (has != (bool)(map->levels >> level & 1))
			return false;
	}
	return count == map->totals[EXTENT_FREE].count;
}

/* Every record ever taken is a block or spare. */
static bool spares_check(const struct extent_map *map)
{
	uint32_t count = map->totals[EXTENT_FREE].count + map->totals[EXTENT_USED].count +
			 map->totals[EXTENT_WITHHELD].count;
	uint32_t rec = map->spare;

	for (; rec != EXTENT_NONE; rec = map->records[rec].next) {
		if (rec >= map->high || map->records[rec].kind != EXTENT_SPARE ||
			++count > map->high)
			return false;
	}
	return count == map->high && map->high <= map->limit;
}

bool extent_map_check(const struct extent_map *map)
{
	if (!chain_check(map) || !bins_check(map) || !spares_check(map))
		return false;
	for (uint32_t which = 0; which < EXTENT_WINDOWS; which++) {
		if (!window_check(map, (enum extent_window)which))
			return false;
	}
	return true;
}
