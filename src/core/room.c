#include "core/room.h"

#include "core/master_priv.h"

void ticket_init(struct ticket *ticket)
{
	list_init(&ticket->entry);
	ticket->block = EXTENT_NONE;
	ticket->state = TICKET_IDLE;
}

static struct ticket *ticket_of(struct list *entry)
{
	return container_of(entry, struct ticket, entry);
}

void ticket_grant(struct master *master, struct ticket *ticket, uint32_t block)
{
	ticket->block = block;
	ticket->state = TICKET_GRANTED;
	list_move_tail(&master->room.granted, &ticket->entry);
	master->room.granted_count++;
	master->granted_bytes += extent_size_bytes(&master->extents, block);
	if (master->room.window.owner == ticket)
		window_close(master);
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

static bool ticket_try(struct master *master, struct ticket *ticket)
{
	uint32_t block;

	if (slots_are_short(master))
		return false;
	block = extent_alloc(
		&master->extents, ticket->run_bytes, ticket->align, SLOT_NONE);
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
	list_add_tail(&master->room.waiting, &ticket->entry);
	room_event(master);
}

void master_room_cancel(struct master *master, struct ticket *ticket)
{
	list_del(&ticket->entry);
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
	if (list != OBJECT_INACTIVE && list != OBJECT_ACTIVE)
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

/* Progress for one ticket: the coldest object if that is enough, else a window. */
static enum window_result make_room(
	struct master *master, struct ticket *ticket, struct round *round)
{
	uint32_t victim;

	if (master->room.window.owner == ticket) {
		enum window_result result = window_clear(
			master, round->now, round->budget);

		if (result != WINDOW_AGAIN)
			return result;
	}
	if (!window_is_possible(master, ticket))
		return WINDOW_HOPELESS;
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
		reclaim_evict(master, victim, round->now);
		if (ticket_try(master, ticket))
			return WINDOW_DONE;
	}
	return make_window(master, ticket, victim, round);
}

/* False: something was freed, and the oldest come first again. */
static bool serve_round(struct master *master, struct round *round, bool *ret_more)
{
	struct room *room = &master->room;

	room->stuck = true;
	list_for_each_safe (at, &room->waiting) {
		struct ticket *ticket = ticket_of(at);
		bool has_window = room->window.owner == ticket;

		if (ticket_try(master, ticket) && has_window)
			return false;
	}
	list_for_each_safe (at, &room->waiting) {
		struct ticket *ticket = ticket_of(at);

		if (room->window.owner != NULL && room->window.owner != ticket)
			continue;
		*ret_more = make_room(master, ticket, round) == WINDOW_MORE;
		if (*ret_more)
			return true;
		if (!room->stuck)
			return false;
	}
	return true;
}

/* Serve the tickets in order. True: the budget is spent, there is more to do. */
static bool serve(struct master *master, uint64_t now, uint32_t *budget)
{
	struct round round = {now, budget, SLOT_NONE};
	uint64_t freed = master->stats.freed;
	bool more = false;

	while (!serve_round(master, &round, &more))
		;
	master->stats.scans++;
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

bool master_room_run(struct master *master, uint64_t now, uint32_t budget)
{
	struct room *room = &master->room;
	bool more;

	if (room_is_due(room) ||
		(!list_is_empty(&room->waiting) && now >= room->retry_ns)) {
		if (serve(master, now, &budget))
			room->stuck = false;
		else if (!list_is_empty(&room->waiting))
			sweep_if_due(master, now);
		room->retry_ns = now + SWEEP_PERIOD_NS;
	}
	more = reclaim_refill(master, now, &budget);
	/* What this turn freed may be what an older ticket waits for. */
	return more || room_is_due(room);
}
