/*
 * turning.c - room that is kept for loads, so that whatever is on disk can come back also
 * when all else is full of what cannot leave.
 *
 * Likewise for what was lately handed over to another node, and a reader here may want back.
 *
 * It is the end of the pool, from `off` on. Free bytes there are withheld from all but loads
 * and copies of what other nodes have; what lies there is on disk as well, or secondary
 * (LENT), or ended and still held. It is as large as the largest of these objects; one that is
 * to be dropped for its disk copy and is larger stays in the pool (LARGE) until the range has
 * grown, by a window for the part that is missing. At the end, so that it never parts the rest
 * of the pool.
 */
#include "core/master_priv.h"

#define PAGE           4096u
#define COST_OF_UNREAD (1u << 16) /* dearer than any number of bytes that were read */

/* ---- the range ----------------------------------------------------------- */

static uint64_t pool_size(const struct master *master)
{
	return master->share->header->pool_size;
}

/* The block that has the byte at `off`. */
static uint32_t block_at(const struct master *master, uint64_t off)
{
	const struct extent_map *map = &master->extents;
	uint32_t block = map->last;

	while (extent_off_bytes(map, block) > off)
		block = extent_prev(map, block);
	return block;
}

/* Where a range of at least `bytes` at the end begins, and in which block: not inside a used
 * run. */
static uint64_t range_begin(
	const struct master *master, uint64_t bytes, uint32_t *ret_block)
{
	uint64_t off = (pool_size(master) - bytes) / PAGE * PAGE;

	*ret_block = block_at(master, off);
	if (extent_record(&master->extents, *ret_block)->kind == EXTENT_USED)
		off = extent_off_bytes(&master->extents, *ret_block);
	return off;
}

static bool is_cached_copy(const struct master *master, uint32_t slot)
{
	enum object_list list = (enum object_list)object_at(master, slot)->list;

	return (list == OBJECT_INACTIVE || list == OBJECT_ACTIVE) &&
	       is_secondary(master, slot);
}

/* Free, or to be had elsewhere as well, or only waiting for its readers to end. */
static bool block_is_clean(const struct master *master, uint32_t block)
{
	const struct extent *extent = extent_record(&master->extents, block);
	const struct object *object;

	if (extent->kind != EXTENT_USED)
		return true;
	if (extent->owner == SLOT_NONE)
		return false;
	object = object_at(master, extent->owner);
	return object_is_clean(object) || object->list == OBJECT_CONDEMNED ||
	       is_cached_copy(master, extent->owner) ||
	       (object->list == OBJECT_PARKED &&
		       (master_is_saved(master, extent->owner) ||
			       is_secondary(master, extent->owner)));
}

static bool range_is_clean(const struct master *master, uint32_t block)
{
	for (; block != EXTENT_NONE; block = extent_next(&master->extents, block)) {
		/* What is in it already was let in as a load. */
		if (!turning_has(master, block) && !block_is_clean(master, block))
			return false;
	}
	return true;
}

/* Every object on disk gets on the list of its place and size. */
static void relist(struct master *master)
{
	struct object_queue *queues[] = {&master->clean, &master->lent, &master->large};

	for (size_t i = 0; i < ARRAY_LEN(queues); i++) {
		uint32_t left = queues[i]->count;

		/* From the tail to the head, so that the order stays. */
		for (uint32_t slot = queues[i]->tail, before; left-- > 0; slot = before) {
			before = object_at(master, slot)->prev;
			object_list_ready(master, slot, false);
		}
	}
}

/* Secondary ones are on no list of relist()'s while they are outside. */
static void lend_copies(struct master *master)
{
	const struct extent_map *map = &master->extents;
	uint32_t block = extent_window_first(map, EXTENT_TURNING);

	for (; block != EXTENT_NONE; block = extent_next(map, block)) {
		const struct extent *extent = extent_record(map, block);

		if (extent->kind == EXTENT_USED && extent->owner != SLOT_NONE &&
			is_cached_copy(master, extent->owner))
			object_list_ready(master, extent->owner, false);
	}
}

static void range_set(struct master *master, uint64_t off)
{
	struct turning *turning = &master->room.turning;
	struct extent_map *map = &master->extents;

	if (turning->size > 0)
		extent_window_close(map, EXTENT_TURNING);
	turning->off = off;
	turning->size = pool_size(master) - off;
	if (turning->size > 0)
		extent_window_open(map, EXTENT_TURNING, map->last, off, turning->size);
	if (turning->size >= turning_need(master))
		turning->short_since_start = false;
	relist(master);
	if (turning->size > 0)
		lend_copies(master);
	room_event(master);
}

/* ---- grow and shrink ----------------------------------------------------- */

/* An object in the way of the exact edge goes, since from now on it could come back: else
 * all of it would be in the range. */
static void evict_crossing(struct master *master, uint64_t bytes, uint64_t now)
{
	uint32_t block, slot;
	uint64_t off = range_begin(master, bytes, &block);

	if (off + bytes + PAGE > pool_size(master) ||
		extent_record(&master->extents, block)->kind != EXTENT_USED)
		return;
	slot = extent_record(&master->extents, block)->owner;
	if (slot != SLOT_NONE &&
		(object_is_clean(object_at(master, slot)) ||
			is_cached_copy(master, slot)) &&
		object_blocked(master, slot, now) == 0)
		reclaim_evict(master, slot, now);
}

bool turning_settle(struct master *master, uint64_t now)
{
	uint64_t bytes = turning_need(master);
	uint64_t checked = master->room.window.off, off;
	uint32_t block;

	if (!range_is_clean(
		    master, extent_window_first(&master->extents, EXTENT_CLEARING)))
		return false;
	window_close(master);
	master->room.turning.ticket.state = TICKET_IDLE;
	/* A larger one that came since has to wait for another round. */
	bytes = MIN(bytes, (pool_size(master) - checked) / PAGE * PAGE);
	evict_crossing(master, bytes, now);
	off = range_begin(master, bytes, &block);
	range_set(master, off);
	return true;
}

static enum window_result grow(struct master *master, uint64_t now, uint32_t *budget)
{
	struct room *room = &master->room;
	uint64_t end = room->turning.size > 0 ? room->turning.off : pool_size(master);
	enum window_result result;
	uint32_t block;
	uint64_t off;

	if (room->turning.stuck)
		return WINDOW_WAITS;
	if (room->window.owner != NULL && room->window.owner != &room->turning.ticket) {
		/* What it waits for may be objects that wait for us. */
		if (now < room->turning.preempt_ns)
			return WINDOW_WAITS;
		window_close(master);
	}
	if (room->window.owner == NULL) {
		off = range_begin(master, turning_need(master), &block);
		if (off >= end)
			return WINDOW_WAITS;
		room->turning.ticket.state = TICKET_WAITING;
		window_open_at(master, &room->turning.ticket, block, off, end, now);
	}
	result = window_clear(master, now, budget);
	if (room->window.owner != &room->turning.ticket)
		room->turning.ticket.state = TICKET_IDLE;
	room->turning.stuck = result == WINDOW_AGAIN || result == WINDOW_HOPELESS;
	if (room->turning.stuck)
		room->turning.preempt_ns = now + SWEEP_PERIOD_NS;
	return result;
}

/* Somebody waits for more than the rest of the pool has. */
static bool is_in_the_way(const struct master *master)
{
	list_for_each (at, &master->room.waiting) {
		const struct ticket *ticket = container_of(at, struct ticket, entry);

		if (ticket->run_bytes > pool_size(master) - master->room.turning.size)
			return true;
	}
	return false;
}

/* Smaller when somebody waits for room, and it has been too large for a while: growing again
 * is dear. */
static void shrink(struct master *master, uint64_t target, uint64_t now)
{
	struct turning *turning = &master->room.turning;
	uint64_t off = pool_size(master);
	uint32_t block;

	if (turning->size == 0 || target > turning->size - turning->size / 4) {
		turning->idle_ns = 0;
		return;
	}
	if (turning->idle_ns == 0)
		turning->idle_ns = now;
	if (list_is_empty(&master->room.waiting) ||
		(now - turning->idle_ns < TURNING_IDLE_NS && !is_in_the_way(master)))
		return;
	if (target > 0)
		off = range_begin(master, target, &block);
	if (off > turning->off)
		range_set(master, off);
}

enum window_result turning_run(struct master *master, uint64_t now, uint32_t *budget)
{
	hand_forget(master, now);
	if (turning_is_due(master))
		return grow(master, now, budget);
	if (master->room.window.owner == &master->room.turning.ticket) {
		window_close(master); /* the large one has ended meanwhile */
		master->room.turning.ticket.state = TICKET_IDLE;
	}
	shrink(master, turning_need(master), now);
	return WINDOW_WAITS;
}

/* ---- start --------------------------------------------------------------- */

/* Where the clean blocks at the end of the pool begin. */
static uint64_t clean_begin(const struct master *master)
{
	const struct extent_map *map = &master->extents;
	uint64_t off = pool_size(master);

	for (uint32_t block = map->last;
		block != EXTENT_NONE && block_is_clean(master, block);
		block = extent_prev(map, block))
		off = extent_off_bytes(map, block);
	return off;
}

void turning_restore(struct master *master)
{
	uint64_t first = clean_begin(master);
	uint64_t bytes = MIN(turning_need(master), pool_size(master) - first);
	uint32_t block;

	if (bytes > 0)
		range_set(master, MAX(range_begin(master, bytes, &block), first));
	/* What was being removed may be there again, larger than what was kept for the rest:
	 * the range grows for it as it would for one that is being saved. */
	master->room.turning.short_since_start = turning_is_due(master);
}

/* ---- take ---------------------------------------------------------------- */

/* A gap for a load: blocks from `first` on, as few bytes of LENT objects as can be. */
struct gap {
	uint32_t first;
	uint64_t off, cost;
};

static uint64_t block_end(const struct master *master, uint32_t block)
{
	return extent_off_bytes(&master->extents, block) +
	       extent_size_bytes(&master->extents, block);
}

/* Of what must go for the block's bytes. */
static uint64_t block_cost(struct master *master, uint32_t block)
{
	const struct extent *extent = extent_record(&master->extents, block);
	uint64_t bytes = extent_size_bytes(&master->extents, block);

	if (extent->kind != EXTENT_USED)
		return 0;
	return object_at(master, extent->owner)->read ? bytes : bytes * COST_OF_UNREAD;
}

/* Whether the block's bytes could be had; *ret_cost: of what must go for it. */
static bool block_can_go(
	struct master *master, uint32_t block, uint64_t now, uint64_t *ret_cost)
{
	const struct extent *extent = extent_record(&master->extents, block);
	uint32_t slot = extent->owner;

	*ret_cost = 0;
	if (extent->kind != EXTENT_USED)
		return true;
	if (slot == SLOT_NONE || object_at(master, slot)->list != OBJECT_LENT)
		return false;
	if (object_blocked(master, slot, now) != 0 && object_park(master, slot, now))
		return false;
	(void)object_was_read(master, slot);
	*ret_cost = block_cost(master, block);
	return true;
}

/* Slides over the range: [first .. last] are blocks that could go. */
static struct gap gap_find(
	struct master *master, uint64_t bytes, uint64_t align, uint64_t now)
{
	const struct extent_map *map = &master->extents;
	struct gap best = {.first = EXTENT_NONE, .cost = UINT64_MAX};
	uint32_t first = extent_window_first(map, EXTENT_TURNING);
	uint64_t cost = 0;

	for (uint32_t last = first; last != EXTENT_NONE; last = extent_next(map, last)) {
		uint64_t more;

		if (!block_can_go(master, last, now, &more)) {
			first = extent_next(map, last);
			cost = 0;
			continue;
		}
		cost += more;
		for (; first != EXTENT_NONE; first = extent_next(map, first)) {
			uint64_t off = align_up_u64(extent_off_bytes(map, first), align);

			if (off + bytes > block_end(master, last))
				break;
			if (cost < best.cost)
				best = (struct gap){first, off, cost};
			cost -= block_cost(master, first);
			if (first == last) {
				first = extent_next(map, first);
				break;
			}
		}
		if (best.cost == 0)
			break;
	}
	return best;
}

bool turning_slot(struct master *master, uint64_t now)
{
	uint32_t slot = master->lent.tail, before;

	for (; slots_are_out(master) && slot != SLOT_NONE; slot = before) {
		before = object_at(master, slot)->prev;
		if (object_blocked(master, slot, now) == 0 ||
			!object_park(master, slot, now))
			reclaim_evict(master, slot, now);
	}
	return !slots_are_out(master);
}

static uint32_t take(struct master *master, uint64_t run_bytes, uint64_t align,
	uint64_t cost_limit, uint64_t now)
{
	const struct extent_map *map = &master->extents;
	struct gap place;

	if (run_bytes > master->room.turning.size)
		return EXTENT_NONE;
	place = gap_find(master, run_bytes, align, now);
	if (place.first == EXTENT_NONE || place.cost > cost_limit)
		return EXTENT_NONE;
	for (uint32_t block = place.first;
		block != EXTENT_NONE &&
		extent_off_bytes(map, block) < place.off + run_bytes;
		block = extent_next(map, block)) {
		uint32_t before = extent_prev(map, block);
		uint32_t slot = extent_record(map, block)->owner;

		if (extent_record(map, block)->kind != EXTENT_USED)
			continue;
		/* Its block may become one with the hole before it. */
		if (before != EXTENT_NONE && turning_has(master, before) &&
			extent_record(map, before)->kind == EXTENT_WITHHELD)
			block = before;
		reclaim_evict(master, slot, now);
	}
	return extent_window_take(
		&master->extents, EXTENT_TURNING, place.off, run_bytes, SLOT_NONE);
}

uint32_t turning_take(
	struct master *master, uint64_t run_bytes, uint64_t align, uint64_t now)
{
	return take(master, run_bytes, align, UINT64_MAX, now);
}

uint32_t turning_spare(
	struct master *master, uint64_t run_bytes, uint64_t align, uint64_t now)
{
	/* Less than the least that is unread, a granule. */
	return take(master, run_bytes, align, POOL_GRANULE * COST_OF_UNREAD - 1, now);
}
