/*
 * window.c - choose the range that is cheapest to clear for one ticket, and clear it.
 *
 * The choice slides a range over all blocks by address. A byte costs by what must happen
 * to it: nothing if free; what is on disk and a cold cache object are dropped, a hot one is
 * dearer; a softpin object is written out or, small or without a disk, copied elsewhere: the
 * sooner it will be read, the dearer; what is blocked now costs most, since the window would
 * have to wait for it. Ranges that the copies could not leave, for lack of bytes elsewhere,
 * do not count, nor does the turning room. Only lists are looked at for this, no hold: an object that turns out held
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
	COST_COPY = 4,   /* or to be written out */
	COST_UNREAD = 8, /* the same, of what a reader will come for; and up to */
	COST_AGE = 12,   /* so much more for the oldest of these, which is read next */
	COST_SAVING = 6,
	COST_WAIT = 64,
	COST_WRITER = 256
};

/* Blocks looked at on each side of the coldest object before all of the pool is. */
#define NEAR_BLOCKS 4096u

/* What a range must have room for. */
struct demand {
	uint64_t run_bytes, align;
	bool by_eviction; /* of free bytes and the cache alone, outside the window */
	bool for_place;   /* outside room.place's range */
	bool large_too;   /* whatever could be copied now */
};

/* The blocks that are in the range now. */
struct sweep {
	uint64_t cost;
	uint64_t copy_bytes; /* that must find a place outside */
	uint64_t free_bytes, cache_bytes;
	uint64_t waits;    /* blocks that something must release first */
	uint64_t no_place; /* blocks of objects too large to be copied now */
	uint64_t withheld; /* blocks of the window */
	uint64_t turning;  /* blocks of the turning room */
	uint64_t avoided;  /* blocks of room.place's range */
};

struct range {
	uint32_t first, last; /* blocks */
	uint64_t cost;
	bool waits;
};

/* ---- choose -------------------------------------------------------------------------- */

/* Readers come in the order of the puts: the newest will be in use last. Without a disk all
 * are copied, at one price. */
static uint64_t unread_cost(const struct master *master, uint32_t slot)
{
	uint64_t newest = master->last_generation >> GENERATION_SHIFT;
	uint64_t oldest = slot_at(master, master->dirty.tail)->generation >>
			  GENERATION_SHIFT;
	uint64_t mine = slot_at(master, slot)->generation >> GENERATION_SHIFT;
	uint64_t age = mine < newest ? newest - mine : 0;

	if (!disk_is_usable(master))
		return COST_COPY;
	if (newest <= oldest)
		return COST_UNREAD;
	return COST_UNREAD + MIN(age * COST_AGE / (newest - oldest), (uint64_t)COST_AGE);
}

/* A softpin object that is not on disk. */
static void sweep_dirty(
	const struct master *master, uint64_t bytes, struct sweep *sweep, uint64_t sign)
{
	sweep->copy_bytes += sign * bytes;
	if (bytes >= master->room.copy_limit)
		sweep->no_place += sign;
}

static void sweep_object(const struct master *master, uint32_t block, struct sweep *sweep,
	uint64_t sign, uint64_t *ret_weight)
{
	uint64_t bytes = extent_size_bytes(&master->extents, block);
	uint32_t slot = extent_record(&master->extents, block)->owner;

	switch ((enum object_list)object_at(master, slot)->list) {
	case OBJECT_CLEAN:
	case OBJECT_INACTIVE:
		*ret_weight = COST_COLD;
		if (object_at(master, slot)->list == OBJECT_CLEAN &&
			!object_at(master, slot)->read)
			*ret_weight = COST_UNREAD;
		sweep->cache_bytes += sign * bytes;
		break;
	case OBJECT_ACTIVE:
		*ret_weight = COST_HOT;
		sweep->cache_bytes += sign * bytes;
		break;
	case OBJECT_SPENT:
		*ret_weight = COST_COPY;
		sweep_dirty(master, bytes, sweep, sign);
		break;
	case OBJECT_DIRTY:
		*ret_weight = unread_cost(master, slot);
		sweep_dirty(master, bytes, sweep, sign);
		break;
	case OBJECT_SAVING:
		*ret_weight = COST_SAVING;
		sweep->waits += sign;
		break;
	case OBJECT_PARKED:
	case OBJECT_MOVING:
	case OBJECT_CONDEMNED:
	case OBJECT_LARGE:
		*ret_weight = COST_WAIT;
		break;
	case OBJECT_LENT:
	case OBJECT_WRITING:
	case OBJECT_FREE:
	case OBJECT_LIST_COUNT:
		break;
	}
}

static bool is_avoided(const struct master *master, uint32_t block)
{
	const struct place *place = &master->room.place;
	uint64_t off = extent_off_bytes(&master->extents, block);

	return off < place->avoid_end &&
	       off + extent_size_bytes(&master->extents, block) > place->avoid_off;
}

static void sweep_step(
	const struct master *master, uint32_t block, struct sweep *sweep, bool enter)
{
	const struct extent *extent = extent_record(&master->extents, block);
	uint64_t sign = enter ? 1 : UINT64_MAX; /* unsigned arithmetic wraps back */
	uint64_t weight = COST_WRITER;

	if (extent_in_window(&master->extents, EXTENT_CLEARING, block))
		sweep->withheld += sign;
	if (extent_in_window(&master->extents, EXTENT_TURNING, block))
		sweep->turning += sign;
	if (is_avoided(master, block))
		sweep->avoided += sign;
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
			 master->bytes_of[OBJECT_ACTIVE] +
			 master->bytes_of[OBJECT_CLEAN] - sweep->cache_bytes;

	if (sweep->turning != 0 || (demand->for_place && sweep->avoided != 0))
		return false;
	if (demand->large_too)
		return sweep->waits == 0 &&
		       sweep->copy_bytes <= free_bytes(master) - sweep->free_bytes;
	if (demand->by_eviction)
		return sweep->copy_bytes == 0 && sweep->waits == 0 &&
		       sweep->withheld == 0;
	if (disk_has_room(master, sweep->copy_bytes))
		return true;
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
	uint64_t fixed = master->room.turning.size;

	if (!disk_is_usable(master))
		fixed += master->bytes_of[OBJECT_DIRTY] + master->bytes_of[OBJECT_SPENT];
	return ticket->run_bytes <= master->share->header->pool_size - fixed;
}

static enum object_list list_of(const struct master *master, uint32_t block)
{
	const struct extent *extent = extent_record(&master->extents, block);

	if (extent->kind != EXTENT_USED || extent->owner == SLOT_NONE)
		return OBJECT_FREE;
	return (enum object_list)object_at(master, extent->owner)->list;
}

uint32_t window_obstacle(const struct master *master, const struct ticket *ticket,
	uint64_t *ret_off, uint64_t *ret_end)
{
	const struct extent_map *map = &master->extents;
	struct demand demand = {.run_bytes = ticket->run_bytes,
		.align = ticket->align,
		.large_too = true};
	struct range best = range_find(master, &demand, extent_first(map), UINT32_MAX);
	uint64_t largest = 0;
	uint32_t obstacle = SLOT_NONE;

	if (best.first == EXTENT_NONE || master->room.copy_limit == UINT64_MAX)
		return SLOT_NONE;
	*ret_off = extent_off_bytes(map, best.first);
	*ret_end = block_end(master, best.last);
	for (uint32_t block = best.first;
		block != EXTENT_NONE && extent_off_bytes(map, block) < *ret_end;
		block = extent_next(map, block)) {
		enum object_list list = list_of(master, block);

		if ((list == OBJECT_DIRTY || list == OBJECT_SPENT) &&
			extent_size_bytes(map, block) > largest) {
			largest = extent_size_bytes(map, block);
			obstacle = extent_record(map, block)->owner;
		}
	}
	return largest >= master->room.copy_limit ? obstacle : SLOT_NONE;
}

static void window_open(
	struct master *master, struct ticket *ticket, uint32_t near, uint64_t now)
{
	struct window *window = &master->room.window;

	window->owner = ticket;
	extent_window_open(
		&master->extents, EXTENT_CLEARING, near, window->off, window->size);
	window->missing = extent_window_missing(&master->extents, EXTENT_CLEARING);
	window->progress_ns = now;
	master->stats.windows++;
}

void window_open_at(struct master *master, struct ticket *ticket, uint32_t near,
	uint64_t off, uint64_t end, uint64_t now)
{
	master->room.window.off = off;
	master->room.window.size = end - off;
	window_open(master, ticket, near, now);
}

bool window_choose(
	struct master *master, struct ticket *ticket, uint32_t coldest, uint64_t now)
{
	struct extent_map *map = &master->extents;
	struct demand demand = {
		.run_bytes = ticket->run_bytes,
		.align = ticket->align,
		.for_place = ticket == &master->room.place.ticket,
	};
	struct range best = {EXTENT_NONE, EXTENT_NONE, UINT64_MAX, true};

	save_harvest(master, NEAR_BLOCKS);
	if (coldest != SLOT_NONE)
		best = range_find(master, &demand,
			range_begin(master, ticket, object_at(master, coldest)->block),
			2 * NEAR_BLOCKS);
	if (best.first == EXTENT_NONE || best.waits)
		best = range_find(master, &demand, extent_first(map), UINT32_MAX);
	if (best.first == EXTENT_NONE)
		return false;

	range_span(master, &demand, best.first, best.last, &master->room.window);
	window_open(master, ticket, best.first, now);
	return true;
}

void window_close(struct master *master)
{
	extent_window_close(&master->extents, EXTENT_CLEARING);
	master->room.window.owner = NULL;
	master->room.stuck = false; /* copy_limit stays: nothing was freed */
}

/* ---- clear --------------------------------------------------------------------------- */

/* Evict the object in `block`; returns the block that its bytes are in then. */
static uint32_t block_evict(struct master *master, uint32_t block, uint64_t now)
{
	const struct extent_map *map = &master->extents;
	enum extent_kind hole = extent_in_window(map, EXTENT_CLEARING, block)
					? EXTENT_WITHHELD
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

static bool is_for_turning(const struct master *master)
{
	return master->room.window.owner == &master->room.turning.ticket;
}

/* Without a disk: copy it elsewhere, one at a time. */
static enum window_result clear_one_by_copy(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	enum window_result result = WINDOW_AGAIN;

	if (master->room.move.busy)
		return WINDOW_WAITS;
	if (*budget == 0)
		return WINDOW_MORE;
	if (object_blocked(master, slot, now) == 0 || !object_park(master, slot, now))
		result = clear_by_copy(master, slot, now, budget);
	/* Spent last, so that a turn of the least budget evicts something. */
	if (*budget > 0)
		spend(master, budget);
	return result;
}

/* There is no place for what is unread before an event: the end of a copy, or of a write. */
static bool must_wait(const struct master *master)
{
	return master->room.move.busy || master->room.window.holds_unread;
}

/* Copy what a reader will come for to another place, into free bytes or such as may be had at
 * once; or wait for what was read to leave. WINDOW_HOPELESS: neither. */
static enum window_result displace(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	struct demand demand = {.by_eviction = true};
	struct range range;

	if (object_blocked(master, slot, now) != 0 || slots_are_short(master))
		return WINDOW_HOPELESS;
	if (relocate_start(master, slot))
		return WINDOW_WAITS;
	demand.run_bytes = extent_round(run_bytes(master, slot), &demand.align);
	range = range_find(master, &demand, extent_first(&master->extents), UINT32_MAX);
	if (range.first != EXTENT_NONE &&
		range.cost <= demand.run_bytes / POOL_GRANULE * COST_HOT) {
		if (range_evict(master, &range, now, budget) == WINDOW_MORE)
			return WINDOW_MORE;
		if (relocate_start(master, slot))
			return WINDOW_WAITS;
	}
	if (!save_spent_first(master, demand.run_bytes))
		return WINDOW_HOPELESS;
	master->room.window.holds_unread = true;
	master->room.window.progress_ns = now; /* the I/O's end is an event of its own */
	return WINDOW_WAITS;
}

/* The same for one that is on disk: the turning room will do. */
static enum window_result keep(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	if (lend_start(master, slot, now) != LEND_NOT)
		return WINDOW_WAITS;
	return displace(master, slot, now, budget);
}

/* With one: copied elsewhere, if it will be read and a place can be had; else written out,
 * whoever reads it. */
static enum window_result clear_one_by_disk(
	struct master *master, uint32_t slot, uint64_t now, uint32_t *budget)
{
	enum window_result result = WINDOW_HOPELESS;
	bool unread = object_at(master, slot)->list == OBJECT_DIRTY &&
		      !is_for_turning(master);

	if (object_at(master, slot)->urgent || (unread && must_wait(master)))
		return WINDOW_WAITS;
	if (*budget == 0)
		return WINDOW_MORE;
	if (unread && run_bytes(master, slot) >= KEEP_LEAST)
		result = displace(master, slot, now, budget);
	else if (unread && object_blocked(master, slot, now) == 0 &&
		 relocate_start(master, slot))
		result = WINDOW_WAITS;
	/* Spent last, so that a turn of the least budget evicts something. */
	if (*budget > 0)
		spend(master, budget);
	if (result != WINDOW_HOPELESS)
		return result;
	master_save_first(master, slot);
	return WINDOW_WAITS;
}

/* The softpin objects; before the cache, which would be lost in vain if a copy has no
 * place. */
static enum window_result clear_dirty(
	struct master *master, uint64_t now, uint32_t *budget)
{
	const struct extent_map *map = &master->extents;
	enum window_result result = WINDOW_DONE;

	for (uint32_t block = extent_window_first(map, EXTENT_CLEARING);
		block != EXTENT_NONE && extent_in_window(map, EXTENT_CLEARING, block);
		block = extent_next(map, block)) {
		uint32_t slot = extent_record(map, block)->owner;
		enum object_list list = list_of(master, block);

		if (list == OBJECT_SAVING) {
			/* The I/O's end is an event of its own. */
			master->room.window.progress_ns = now;
			result = WINDOW_WAITS;
		}
		if (list != OBJECT_DIRTY && list != OBJECT_SPENT)
			continue;
		if (!disk_has_room(master, slot_at(master, slot)->size))
			return clear_one_by_copy(master, slot, now, budget);
		result = clear_one_by_disk(master, slot, now, budget);
		if (result == WINDOW_MORE)
			return result;
	}
	return result;
}

/* A small hot neighbour is worth a copy, if a hole for it is at hand. */
static bool worth_a_copy(const struct master *master, uint32_t slot)
{
	return object_at(master, slot)->list == OBJECT_ACTIVE &&
	       run_bytes(master, slot) <= master->room.window.size / 16;
}

/* What is on disk already, or kept elsewhere, may stay where turning room is made. */
static enum window_result clear_cache(
	struct master *master, uint64_t now, uint32_t *budget)
{
	const struct extent_map *map = &master->extents;

	for (uint32_t block = extent_window_first(map, EXTENT_CLEARING);
		block != EXTENT_NONE && extent_in_window(map, EXTENT_CLEARING, block);
		block = extent_next(map, block)) {
		uint32_t slot = extent_record(map, block)->owner;
		enum object_list list = list_of(master, block);
		enum window_result result;

		if (list != OBJECT_INACTIVE && list != OBJECT_ACTIVE &&
			(list != OBJECT_CLEAN || is_for_turning(master)))
			continue;
		if (is_for_turning(master) && is_secondary(master, slot))
			continue;
		if (list == OBJECT_CLEAN && must_wait(master) &&
			run_bytes(master, slot) >= KEEP_LEAST &&
			!object_was_read(master, slot))
			continue;
		if (list == OBJECT_CLEAN && run_bytes(master, slot) >= KEEP_LEAST &&
			!object_was_read(master, slot)) {
			result = keep(master, slot, now, budget);
			if (result == WINDOW_MORE)
				return result;
			if (result == WINDOW_WAITS)
				continue;
		}
		result = judge(master, slot, now, budget);
		if (result != WINDOW_DONE)
			return result;
		if (worth_a_copy(master, slot) && relocate_start(master, slot))
			continue;
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
	missing = extent_window_missing(&master->extents, EXTENT_CLEARING);
	if (is_for_turning(master)) {
		if (turning_settle(master, now))
			return WINDOW_DONE;
	} else if (missing == 0 && slot_make(master, now, budget)) {
		window_claim(master, window->owner);
		return WINDOW_DONE;
	} else if (missing == 0 && *budget == 0) {
		return WINDOW_MORE;
	}
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
