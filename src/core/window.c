/*
 * window.c - choose the range that is cheapest to clear for one ticket, and clear it.
 *
 * The choice slides a range over all blocks by address. A byte costs by what must happen
 * to it: nothing if free; a cold cache object is dropped, a hot one is dearer; a softpin
 * object is copied elsewhere; what is blocked now costs most, since the window would have
 * to wait for it. Ranges that the copies could not leave, for lack of bytes elsewhere, do
 * not count. Only lists are looked at for this, no hold: an object that turns out held
 * while its window is being cleared is parked, and so costs more at the next choice.
 *
 * A copy that finds no hole gets one by the same search, over free bytes and the cache
 * alone. Where there is none either, the window is given up, and until something is freed
 * no range counts that has an object of that size to copy (room.copy_limit).
 */
#include "core/master_priv.h"

/* Cost of a granule, by what must happen to it. */
enum {
	COST_COLD = 1,
	COST_HOT = 2,
	COST_COPY = 4,
	COST_WAIT = 64,
	COST_WRITER = 256
};

/* Blocks looked at on each side of the coldest object before all of the pool is. */
#define NEAR_BLOCKS 4096u

/* What a range must have room for. */
struct demand {
	uint64_t run_bytes, align;
	bool by_eviction; /* of free bytes and the cache alone, outside the window */
};

/* The blocks that are in the range now. */
struct sweep {
	uint64_t cost;
	uint64_t copy_bytes; /* that must find a place outside */
	uint64_t free_bytes, cache_bytes;
	uint64_t waits;    /* blocks that something must release first */
	uint64_t no_place; /* blocks of objects too large to be copied now */
	uint64_t withheld; /* blocks of the window */
};

struct range {
	uint32_t first, last; /* blocks */
	uint64_t cost;
	bool waits;
};

/* ---- choose -------------------------------------------------------------------------- */

static void sweep_object(const struct master *master, uint32_t block, struct sweep *sweep,
	uint64_t sign, uint64_t *ret_weight)
{
	uint64_t bytes = extent_size_bytes(&master->extents, block);
	uint32_t slot = extent_record(&master->extents, block)->owner;

	switch ((enum object_list)object_at(master, slot)->list) {
	case OBJECT_INACTIVE:
		*ret_weight = COST_COLD;
		sweep->cache_bytes += sign * bytes;
		break;
	case OBJECT_ACTIVE:
		*ret_weight = COST_HOT;
		sweep->cache_bytes += sign * bytes;
		break;
	case OBJECT_DIRTY:
		*ret_weight = COST_COPY;
		sweep->copy_bytes += sign * bytes;
		if (bytes >= master->room.copy_limit)
			sweep->no_place += sign;
		break;
	case OBJECT_PARKED:
	case OBJECT_MOVING:
	case OBJECT_CONDEMNED:
		*ret_weight = COST_WAIT;
		break;
	case OBJECT_WRITING:
	case OBJECT_FREE:
	case OBJECT_LIST_COUNT:
		break;
	}
}

static void sweep_step(
	const struct master *master, uint32_t block, struct sweep *sweep, bool enter)
{
	const struct extent *extent = extent_record(&master->extents, block);
	uint64_t sign = enter ? 1 : UINT64_MAX; /* unsigned arithmetic wraps back */
	uint64_t weight = COST_WRITER;

	if (extent_in_window(&master->extents, block))
		sweep->withheld += sign;
	if (extent->kind != EXTENT_USED) {
		sweep->free_bytes += sign * extent_size_bytes(&master->extents, block);
		return;
	}
	if (extent->owner != SLOT_NONE)
		sweep_object(master, block, sweep, sign, &weight);
	sweep->cost += sign * weight * extent->size;
	if (weight >= COST_WAIT)
		sweep->waits += sign;
}

/* Where an aligned run inside [first block .. end) could start. */
static uint64_t range_start(const struct master *master, uint32_t first, uint64_t align)
{
	return align_up_u64(extent_off_bytes(&master->extents, first), align);
}

static uint64_t block_end(const struct master *master, uint32_t block)
{
	return extent_off_bytes(&master->extents, block) +
	       extent_size_bytes(&master->extents, block);
}

/* The window of a range: its used blocks as they are, and of free ones at its ends what is
 * needed. */
static void range_span(const struct master *master, const struct demand *demand,
	uint32_t first, uint32_t last, struct window *ret)
{
	const struct extent_map *map = &master->extents;
	uint64_t start = range_start(master, first, demand->align);
	uint64_t end = start + demand->run_bytes;

	if (extent_record(map, first)->kind == EXTENT_USED)
		start = extent_off_bytes(map, first);
	else if (start > block_end(master, first))
		start = block_end(master, first); /* too small to reach it */
	if (extent_record(map, last)->kind == EXTENT_USED)
		end = block_end(master, last);
	ret->off = start;
	ret->size = end - start;
}

/* Free bytes of the end blocks that the window of the range leaves out. */
static uint64_t left_out(const struct master *master, const struct demand *demand,
	uint32_t first, uint32_t last)
{
	const struct extent_map *map = &master->extents;
	struct window window;
	uint64_t bytes = 0;

	range_span(master, demand, first, last, &window);
	if (extent_record(map, first)->kind == EXTENT_FREE)
		bytes += window.off - extent_off_bytes(map, first);
	if (extent_record(map, last)->kind == EXTENT_FREE)
		bytes += block_end(master, last) - (window.off + window.size);
	return bytes;
}

/* What must be copied out of the range finds bytes outside, free or of the cache. */
static bool range_is_feasible(const struct master *master, const struct demand *demand,
	uint32_t first, uint32_t last, const struct sweep *sweep)
{
	uint64_t cache = master->bytes_of[OBJECT_INACTIVE] +
			 master->bytes_of[OBJECT_ACTIVE] - sweep->cache_bytes;

	if (demand->by_eviction)
		return sweep->copy_bytes == 0 && sweep->waits == 0 &&
		       sweep->withheld == 0;
	return sweep->no_place == 0 &&
	       sweep->copy_bytes <= free_bytes(master) - sweep->free_bytes + cache +
					    left_out(master, demand, first, last);
}

/* The cheapest range among the `limit` blocks from `first` on. */
static struct range range_find(const struct master *master, const struct demand *demand,
	uint32_t first, uint32_t limit)
{
	const struct extent_map *map = &master->extents;
	struct range best = {EXTENT_NONE, EXTENT_NONE, UINT64_MAX, false};
	struct sweep sweep = {0};
	uint32_t last = first;

	for (; last != EXTENT_NONE && limit > 0; last = extent_next(map, last), limit--) {
		bool fits = true;

		sweep_step(master, last, &sweep, true);
		/* Each range ends with the first block that makes it large enough. */
		while (fits &&
			range_start(master, first, demand->align) + demand->run_bytes <=
				block_end(master, last)) {
			if (sweep.cost < best.cost &&
				range_is_feasible(master, demand, first, last, &sweep))
				best = (struct range){
					first, last, sweep.cost, sweep.waits > 0};
			fits = first != last;
			sweep_step(master, first, &sweep, false);
			first = extent_next(map, first);
		}
	}
	return best;
}

/* The block to begin at so that every range around `near` is looked at. */
static uint32_t range_begin(
	const struct master *master, const struct ticket *ticket, uint32_t near)
{
	const struct extent_map *map = &master->extents;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < NEAR_BLOCKS && bytes < ticket->run_bytes; i++) {
		uint32_t before = extent_prev(map, near);

		if (before == EXTENT_NONE)
			break;
		near = before;
		bytes += extent_size_bytes(map, near);
	}
	return near;
}

bool window_is_possible(const struct master *master, const struct ticket *ticket)
{
	return ticket->run_bytes <=
	       master->share->header->pool_size - master->bytes_of[OBJECT_DIRTY];
}

bool window_choose(
	struct master *master, struct ticket *ticket, uint32_t coldest, uint64_t now)
{
	struct extent_map *map = &master->extents;
	struct window *window = &master->room.window;
	struct demand demand = {ticket->run_bytes, ticket->align, false};
	struct range best = {EXTENT_NONE, EXTENT_NONE, UINT64_MAX, true};

	if (coldest != SLOT_NONE)
		best = range_find(master, &demand,
			range_begin(master, ticket, object_at(master, coldest)->block),
			2 * NEAR_BLOCKS);
	if (best.first == EXTENT_NONE || best.waits)
		best = range_find(master, &demand, extent_first(map), UINT32_MAX);
	if (best.first == EXTENT_NONE)
		return false;

	window->owner = ticket;
	range_span(master, &demand, best.first, best.last, window);
	extent_window_open(map, best.first, window->off, window->size);
	window->missing = extent_window_missing(map);
	window->progress_ns = now;
	master->stats.windows++;
	return true;
}

void window_close(struct master *master)
{
	extent_window_close(&master->extents);
	master->room.window.owner = NULL;
	master->room.stuck = false; /* copy_limit stays: nothing was freed */
}

/* ---- clear --------------------------------------------------------------------------- */

/* Evict the object in `block`; returns the block that its bytes are in then. */
static uint32_t block_evict(struct master *master, uint32_t block, uint64_t now)
{
	const struct extent_map *map = &master->extents;
	enum extent_kind hole = extent_in_window(map, block) ? EXTENT_WITHHELD
							     : EXTENT_FREE;
	uint32_t before = extent_prev(map, block);
	uint32_t slot = extent_record(map, block)->owner;
	bool merges = before != EXTENT_NONE && extent_record(map, before)->kind == hole;

	reclaim_evict(master, slot, now);
	return merges && object_at(master, slot)->list == OBJECT_FREE ? before : block;
}

static void spend(struct master *master, uint32_t *budget)
{
	(*budget)--;
	master->stats.examined++;
}

/* What may be done with the object: WINDOW_DONE, or WINDOW_MORE, or WINDOW_AGAIN because
 * it turned out blocked. */
static enum window_result judge(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	if (*budget == 0)
		return WINDOW_MORE;
	spend(master, budget);
	if (object_blocked(master, slot, now) != 0 && object_park(master, slot, now))
		return WINDOW_AGAIN;
	return WINDOW_DONE;
}

static enum object_list list_of(const struct master *master, uint32_t block)
{
	const struct extent *extent = extent_record(&master->extents, block);

	if (extent->kind != EXTENT_USED || extent->owner == SLOT_NONE)
		return OBJECT_FREE;
	return (enum object_list)object_at(master, extent->owner)->list;
}

/* Free a range of cache objects. */
static enum window_result range_evict(
	struct master *master, const struct range *range, uint64_t now, uint32_t *budget)
{
	const struct extent_map *map = &master->extents;
	uint64_t end = block_end(master, range->last);

	for (uint32_t block = range->first;
		block != EXTENT_NONE && extent_off_bytes(map, block) < end;
		block = extent_next(map, block)) {
		enum window_result result;

		if (list_of(master, block) == OBJECT_FREE)
			continue;
		result = judge(master, extent_record(map, block)->owner, now, budget);
		if (result != WINDOW_DONE)
			return result;
		block = block_evict(master, block, now);
	}
	return WINDOW_DONE;
}

/* A slot beyond those that granted tickets have a claim to, if need be by evicting. */
static bool slot_make(struct master *master, uint64_t now, uint32_t *budget)
{
	while (slots_are_short(master)) {
		uint32_t victim = reclaim_victim(master, now, budget);

		if (victim == SLOT_NONE)
			return false;
		reclaim_evict(master, victim, now);
	}
	return true;
}

/* Start to copy `slot` to a run outside the window, if need be into evicted cache. */
static enum window_result clear_by_copy(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	struct demand demand = {.by_eviction = true};

	demand.run_bytes = extent_round(run_bytes(master, slot), &demand.align);
	if (!slot_make(master, now, budget) && *budget == 0)
		return WINDOW_MORE;
	/* Each turn parks or evicts something, so that the turns end. */
	while (!relocate_start(master, slot)) {
		struct range range = range_find(
			master, &demand, extent_first(&master->extents), UINT32_MAX);

		if (range.first == EXTENT_NONE || slots_are_short(master)) {
			master->room.copy_limit = demand.run_bytes;
			return WINDOW_AGAIN;
		}
		if (range_evict(master, &range, now, budget) == WINDOW_MORE)
			return WINDOW_MORE;
	}
	return WINDOW_WAITS;
}

/* The softpin objects, one at a time; before the cache, which would be lost in vain if a
 * copy has no place. */
static enum window_result clear_dirty(
	struct master *master, uint64_t now, uint32_t *budget)
{
	const struct extent_map *map = &master->extents;

	for (uint32_t block = map->window_first;
		block != EXTENT_NONE && extent_in_window(map, block);
		block = extent_next(map, block)) {
		uint32_t slot = extent_record(map, block)->owner;
		enum window_result result = WINDOW_AGAIN;

		if (list_of(master, block) != OBJECT_DIRTY)
			continue;
		if (master->room.move.busy)
			return WINDOW_WAITS;
		if (*budget == 0)
			return WINDOW_MORE;
		if (object_blocked(master, slot, now) == 0 ||
			!object_park(master, slot, now))
			result = clear_by_copy(master, slot, now, budget);
		/* Spent last, so that a turn of the least budget evicts something. */
		if (*budget > 0)
			spend(master, budget);
		return result;
	}
	return WINDOW_DONE;
}

/* A small hot neighbour is worth a copy, if a hole for it is at hand. */
static bool worth_a_copy(const struct master *master, uint32_t slot)
{
	return object_at(master, slot)->list == OBJECT_ACTIVE &&
	       run_bytes(master, slot) <= master->room.window.size / 16;
}

static enum window_result clear_cache(
	struct master *master, uint64_t now, uint32_t *budget)
{
	const struct extent_map *map = &master->extents;

	for (uint32_t block = map->window_first;
		block != EXTENT_NONE && extent_in_window(map, block);
		block = extent_next(map, block)) {
		uint32_t slot = extent_record(map, block)->owner;
		enum object_list list = list_of(master, block);
		enum window_result result;

		if (list != OBJECT_INACTIVE && list != OBJECT_ACTIVE)
			continue;
		result = judge(master, slot, now, budget);
		if (result != WINDOW_DONE)
			return result;
		if (!worth_a_copy(master, slot) || !relocate_start(master, slot))
			block = block_evict(master, block, now);
	}
	return WINDOW_WAITS;
}

static void window_claim(struct master *master, struct ticket *ticket)
{
	uint32_t block = extent_window_claim(
		&master->extents, ticket->run_bytes, ticket->align, SLOT_NONE);

	/* There are records for as many runs as slots, and a slot is at hand. */
	CHECK(block != EXTENT_NONE);
	master->room.window.owner = NULL;
	ticket_grant(master, ticket, block);
}

enum window_result window_clear(struct master *master, uint64_t now, uint32_t *budget)
{
	struct window *window = &master->room.window;
	enum window_result result = clear_dirty(master, now, budget);
	uint64_t missing;

	if (result == WINDOW_DONE || result == WINDOW_WAITS)
		result = clear_cache(master, now, budget);
	missing = extent_window_missing(&master->extents);
	if (missing == 0 && slot_make(master, now, budget)) {
		window_claim(master, window->owner);
		return WINDOW_DONE;
	}
	if (missing == 0 && *budget == 0)
		return WINDOW_MORE;
	if (missing < window->missing) {
		window->missing = missing;
		window->progress_ns = now;
	}
	if (result == WINDOW_AGAIN ||
		(result == WINDOW_WAITS && now - window->progress_ns >= WINDOW_IDLE_NS)) {
		window_close(master);
		master->stats.windows_given_up++;
		return result == WINDOW_AGAIN ? WINDOW_AGAIN : WINDOW_HOPELESS;
	}
	return result;
}
