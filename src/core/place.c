/*
 * place.c - a place for an object that is in the way of a window and larger than every hole.
 *
 * Without a disk a window's softpin objects are copied elsewhere. Where one is larger than
 * every hole, and than what eviction alone could make, the window would be hopeless though
 * half of the pool may be free in smaller holes: then a place for that object is made first,
 * as for a ticket at the head of the queue, by copying the smaller ones that lie between
 * holes somewhere outside the range that is to be cleared.
 *
 *   IDLE --place_start--> WAITING --granted--> GRANTED --copy begins--> IDLE
 *
 * Each round takes one object out of the range for good, but the range may be another the
 * next time: so there is a limit of rounds for a ticket.
 */
#include "core/master_priv.h"

#define PLACE_ROUNDS 64u

void place_cancel(struct master *master)
{
	struct ticket *ticket = &master->room.place.ticket;

	if (ticket->state == TICKET_WAITING) {
		list_del(&ticket->entry);
		if (master->room.window.owner == ticket)
			window_close(master);
	} else if (ticket->state == TICKET_GRANTED) {
		extent_free(&master->extents,
			ticket_spend(master, ticket, ticket->run_bytes));
	}
	ticket->state = TICKET_IDLE;
}

void place_forget(struct master *master, const struct ticket *owner)
{
	struct place *place = &master->room.place;

	if (place->owner != owner)
		return;
	place_cancel(master);
	place->owner = NULL;
}

bool place_start(struct master *master, const struct ticket *owner)
{
	struct place *place = &master->room.place;
	uint32_t slot;

	if (place->ticket.state != TICKET_IDLE || place->stuck)
		return false;
	if (place->owner != owner)
		place->rounds = 0;
	if (place->rounds == PLACE_ROUNDS)
		return false;
	slot = window_obstacle(master, owner, &place->avoid_off, &place->avoid_end);
	if (slot == SLOT_NONE)
		return false;
	place->owner = owner;
	place->rounds++;
	place->slot = slot;
	place->life = life_at(master, slot);
	place->ticket.run_bytes = extent_round(
		run_bytes(master, slot), &place->ticket.align);
	place->ticket.state = TICKET_WAITING;
	list_add_head(&master->room.waiting, &place->ticket.entry);
	return true;
}

/* The object is where it was, and may be copied. */
static bool can_begin(const struct master *master, uint64_t now)
{
	const struct place *place = &master->room.place;
	enum object_list list = (enum object_list)object_at(master, place->slot)->list;

	return (list == OBJECT_DIRTY || list == OBJECT_SPENT) &&
	       life_at(master, place->slot) == place->life &&
	       object_blocked(master, place->slot, now) == 0;
}

void place_run(struct master *master, uint64_t now)
{
	struct place *place = &master->room.place;
	uint32_t block;

	if (place->ticket.state != TICKET_GRANTED || master->room.move.busy)
		return;
	block = ticket_spend(master, &place->ticket, place->ticket.run_bytes);
	if (!can_begin(master, now) || !relocate_to(master, place->slot, block))
		extent_free(&master->extents, block);
}
