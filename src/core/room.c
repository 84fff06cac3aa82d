#include "core/room.h"

#include "core/master_priv.h"

void ticket_init(struct ticket *ticket)
{
	list_init(&ticket->entry);
	ticket->block = EXTENT_NONE;
	ticket->state = TICKET_IDLE;
	ticket->is_load = false;
}

#define SMALL_RUN (256u << 10)

static struct ticket *ticket_of(struct list *entry)
{
	return container_of(entry, struct ticket, entry);
}

void ticket_grant(struct master *master, struct ticket *ticket, uint32_t block)
{
	ticket->block = block;
	ticket->state = TICKET_GRANTED;
	if (ticket == &master->room.place.ticket)
		list_del(&ticket->entry);
	else
		list_move_tail(&master->room.granted, &ticket->entry);
	master->room.granted_count++;
	master->granted_bytes += extent_size_bytes(&master->extents, block);
	if (master->room.window.owner == ticket)
		window_close(master);
	place_forget(master, ticket);
	room_event(master);
}

uint32_t ticket_spend(struct master *master, struct ticket *ticket, uint64_t run_bytes)
{
	uint32_t block = ticket->block;

	CHECK(ticket->state == TICKET_GRANTED && ticket->run_bytes == run_bytes);
	list_del(&ticket->entry);
	master->room.granted_count--;
	master->granted_bytes -= extent_size_bytes(&master->extents, block);
	ticket->block = EXTENT_NONE;
	ticket->state = TICKET_IDLE;
	return block;
}

static bool ticket_try(struct master *master, struct ticket *ticket, uint64_t now)
{
	uint32_t block;

	if (ticket->is_load ? !turning_slot(master, now) : slots_are_short(master))
		return false;
	block = extent_alloc(
		&master->extents, ticket->run_bytes, ticket->align, SLOT_NONE);
	if (block == EXTENT_NONE && ticket->is_load)
		block = turning_take(master, ticket->run_bytes, ticket->align, now);
	if (block == EXTENT_NONE)
		return false;
	ticket_grant(master, ticket, block);
	return true;
}

void master_room_wait(
	struct master *master, struct ticket *ticket, uint64_t size, uint32_t klen)
{
	CHECK(ticket->state == TICKET_IDLE);
	ticket->run_bytes = extent_round(
		slot_run_size(size, (uint16_t)klen), &ticket->align);
	ticket->state = TICKET_WAITING;
	ticket->is_load = false;
	list_add_tail(&master->room.waiting, &ticket->entry);
	room_event(master);
}

void master_room_wait_load(
	struct master *master, struct ticket *ticket, uint64_t size, uint32_t klen)
{
	master_room_wait(master, ticket, size, klen);
	ticket->is_load = true;
}

void master_room_cancel(struct master *master, struct ticket *ticket)
{
	list_del(&ticket->entry);
	place_forget(master, ticket);
	if (master->room.window.owner == ticket)
		window_close(master);
	if (ticket->state == TICKET_GRANTED)
		extent_free(&master->extents,
			ticket_spend(master, ticket, ticket->run_bytes));
	ticket->state = TICKET_IDLE;
	room_event(master);
}

struct ticket *master_room_granted(struct master *master)
{
	struct list *first = list_first(&master->room.granted);

	if (first == NULL)
		return NULL;
	list_del(first);
	return ticket_of(first);
}

/* Whether the object's run, with the holes beside it, is enough for the ticket. */
static bool run_suffices(
	const struct master *master, uint32_t slot, const struct ticket *ticket)
{
	const struct extent_map *map = &master->extents;
	uint32_t block = object_at(master, slot)->block;
	uint32_t before = extent_prev(map, block);
	uint32_t after = extent_next(map, block);
	uint64_t start = extent_off_bytes(map, block);
	uint64_t end = start + extent_size_bytes(map, block);

	if (before != EXTENT_NONE && extent_record(map, before)->kind == EXTENT_FREE)
		start = extent_off_bytes(map, before);
	if (after != EXTENT_NONE && extent_record(map, after)->kind == EXTENT_FREE)
		end += extent_size_bytes(map, after);
	return align_up_u64(start, ticket->align) + ticket->run_bytes <= end;
}

/* One round over all tickets. */
struct round {
	uint64_t now;
	uint32_t *budget;
	uint32_t coldest; /* judged once for all of them; SLOT_NONE = not yet */
};

static uint32_t round_victim(struct master *master, struct round *round)
{
	enum object_list list = OBJECT_FREE;

	if (round->coldest != SLOT_NONE)
		list = (enum object_list)object_at(master, round->coldest)->list;
	if (list != OBJECT_INACTIVE && list != OBJECT_ACTIVE && list != OBJECT_CLEAN)
		round->coldest = reclaim_victim(master, round->now, round->budget);
	return round->coldest;
}

/* Choose windows until one is being cleared, or none can be. Each turn has parked
 * something or lowered copy_limit, so that the turns end. */
static enum window_result make_window(
	struct master *master, struct ticket *ticket, uint32_t near, struct round *round)
{
	enum window_result result = WINDOW_AGAIN;

	while (result == WINDOW_AGAIN) {
		if (!window_choose(master, ticket, near, round->now))
			return WINDOW_HOPELESS;
		result = window_clear(master, round->now, round->budget);
		near = SLOT_NONE;
	}
	return result;
}

/* Small ones need no window while there is something to write out: what becomes clean will
 * do, and is chosen for its heat, not for its place. */
static bool saving_suffices(const struct master *master, const struct ticket *ticket)
{
	uint64_t small = MIN(SMALL_RUN, master->share->header->pool_size / 64);

	return ticket->run_bytes <= small && master->clean.count == 0 &&
	       master->lru.inactive.count + master->lru.active.count == 0 &&
	       (master->saving.count > 0 || master->hand.bytes > 0 ||
		       (save_is_wanted(master) &&
			       disk_has_room(master, ticket->run_bytes)));
}

/* While its window waits for something, what can go elsewhere may do as well. */
static enum window_result take_coldest(
	struct master *master, struct ticket *ticket, struct round *round)
{
	uint32_t victim = round_victim(master, round);

	if (victim == SLOT_NONE || !run_suffices(master, victim, ticket) ||
		reclaim_keeps(master, victim, round->now))
		return WINDOW_WAITS;
	reclaim_evict(master, victim, round->now);
	return ticket_try(master, ticket, round->now) ? WINDOW_DONE : WINDOW_WAITS;
}

/* Progress for one ticket: the coldest object if that is enough, else a window. */
static enum window_result make_room(
	struct master *master, struct ticket *ticket, struct round *round)
{
	enum window_result result;
	uint32_t victim;

	if (master->room.window.owner == ticket) {
		result = window_clear(master, round->now, round->budget);
		if (result == WINDOW_WAITS)
			return take_coldest(master, ticket, round);
		if (result != WINDOW_AGAIN)
			return result;
	}
	if (!window_is_possible(master, ticket))
		return WINDOW_HOPELESS;
	if (!ticket->is_load && saving_suffices(master, ticket))
		return WINDOW_WAITS;
	for (;;) {
		bool short_of_slots = slots_are_short(master);

		victim = round_victim(master, round);
		if (victim == SLOT_NONE && *round->budget == 0)
			return WINDOW_MORE;
		if (victim == SLOT_NONE && short_of_slots)
			return WINDOW_HOPELESS;
		if (victim == SLOT_NONE ||
			!(short_of_slots || run_suffices(master, victim, ticket)))
			break;
		if (!short_of_slots && reclaim_keeps(master, victim, round->now))
			return WINDOW_WAITS;
		reclaim_evict(master, victim, round->now);
		if (ticket_try(master, ticket, round->now))
			return WINDOW_DONE;
	}
	/* An end of a lease comes before a window would be clear. */
	if (victim == SLOT_NONE && round->now < master->room.quiet_ns &&
		master->room.quiet_rounds < 2)
		return WINDOW_WAITS;
	result = make_window(master, ticket, victim, round);
	if (result != WINDOW_HOPELESS)
		return result;
	if (ticket == &master->room.place.ticket) {
		place_cancel(master);
		master->room.place.stuck = true;
	} else if (place_start(master, ticket)) {
		master->room.stuck = false; /* it comes first now */
	}
	return result;
}

/* False: something was freed, and the oldest come first again. */
static bool serve_round(struct master *master, struct round *round, bool *ret_more)
{
	struct room *room = &master->room;
	enum window_result result;

	room->stuck = true;
	place_run(master, round->now);
	*ret_more = turning_run(master, round->now, round->budget) == WINDOW_MORE;
	if (*ret_more)
		return true;
	list_for_each_safe (at, &room->waiting) {
		struct ticket *ticket = ticket_of(at);
		bool has_window = room->window.owner == ticket;

		if (ticket_try(master, ticket, round->now) && has_window)
			return false;
	}
	list_for_each_safe (at, &room->waiting) {
		struct ticket *ticket = ticket_of(at);

		if (room->window.owner != NULL && room->window.owner != ticket)
			continue;
		result = make_room(master, ticket, round);
		*ret_more = result == WINDOW_MORE;
		if (*ret_more)
			return true;
		if (!room->stuck)
			return false;
		/* It waits for the disk, and those behind it must not take what comes. */
		if (result == WINDOW_WAITS && room->window.owner == NULL)
			return true;
	}
	return true;
}

/* Serve the tickets in order. True: the budget is spent, there is more to do. */
static bool serve(struct master *master, uint64_t now, uint32_t *budget)
{
	struct round round = {now, budget, SLOT_NONE};
	uint64_t freed = master->stats.freed, examined = master->stats.examined;
	bool more = false;

	master->room.parked_other = false;
	while (!serve_round(master, &round, &more))
		;
	master->stats.scans += master->stats.examined != examined;
	master->stats.scans_that_freed += master->stats.freed != freed;
	return more;
}

/* The backstop for releases that nobody told of: look at all that waits for one. */
static void sweep_if_due(struct master *master, uint64_t now)
{
	struct room *room = &master->room;

	if (now - room->swept_ns < SWEEP_PERIOD_NS)
		return;
	room->swept_ns = now;
	master->stats.sweeps++;
	master_look_all(master, now);
}

static bool anyone_waits(const struct master *master)
{
	return !list_is_empty(&master->room.waiting) ||
	       (turning_is_due(master) && !master->room.turning.stuck);
}

bool master_room_run(struct master *master, uint64_t now, uint32_t budget)
{
	struct room *room = &master->room;
	bool more;

	master_is_told(master, now);
	if (room_is_due(master) || (anyone_waits(master) && now >= room->retry_ns)) {
		if (serve(master, now, &budget))
			room->stuck = false;
		else if (anyone_waits(master))
			sweep_if_due(master, now);
		room->retry_ns = now + SWEEP_PERIOD_NS;
	}
	more = reclaim_refill(master, now, &budget);
	/* What this turn freed may be what an older ticket waits for. */
	return more || room_is_due(master);
}
