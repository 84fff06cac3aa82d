/*
 * master_priv.h - what the files of core/ share about a master's inside.
 *
 * map.c       the daemon's own key map: which slot is the key's
 * state.c     the moves of an object between its states and lists
 * reclaim.c   judge the coldest, evict, keep the watermarks
 * window.c    choose and clear a range
 * relocate.c  move an object by copy
 * room.c      the queue of tickets
 */
#ifndef CORE_MASTER_PRIV_H
#define CORE_MASTER_PRIV_H

#include "core/master.h"

#include "base/check.h"

/* A wake-up within this time of the last one is not armed again: a hot object would make
 * every release a message. */
#define REARM_NS 10000000ull

/* Why an object may not be freed now; a set. */
enum block_reason {
	BLOCK_HOLD = 1,
	BLOCK_PIN = 2,
	BLOCK_LEASE = 4,
	BLOCK_COPY = 8
};

static inline struct slot *slot_at(const struct master *master, uint32_t slot)
{
	return &master->share->slots[slot];
}

static inline struct object *object_at(const struct master *master, uint32_t slot)
{
	return &master->objects[slot];
}

static inline enum slot_kind kind_at(const struct master *master, uint32_t slot)
{
	return slot_kind_of(atomic_load_explicit(
		&slot_at(master, slot)->state, memory_order_relaxed));
}

static inline uint64_t life_at(const struct master *master, uint32_t slot)
{
	return slot_life_of(atomic_load_explicit(
		&slot_at(master, slot)->state, memory_order_relaxed));
}

static inline uint32_t nslots_of(const struct master *master)
{
	return atomic_load_explicit(&master->share->header->nslots, memory_order_relaxed);
}

static inline uint64_t run_bytes(const struct master *master, uint32_t slot)
{
	return extent_size_bytes(&master->extents, object_at(master, slot)->block);
}

static inline uint32_t slots_available(const struct master *master)
{
	return master->free_slots + nslots_of(master) - master->slots_used;
}

static inline uint64_t free_bytes(const struct master *master)
{
	return extent_total_bytes(&master->extents, EXTENT_FREE);
}

/* Granted tickets have a claim to as many slots: no one else gets the last ones. */
static inline bool slots_are_short(const struct master *master)
{
	return slots_available(master) <= master->room.granted_count;
}

/* ---- map.c --------------------------------------------------------------- */
uint32_t map_find(const struct master *master, const struct index_key *key);
void map_add(struct master *master, uint32_t slot);
void map_del(struct master *master, uint32_t slot);

/* ---- state.c ------------------------------------------------------------- */
uint32_t slot_alloc(struct master *master);
/* The list that holds a slot of list `list`. */
struct object_queue *object_queue_of(
	struct master *master, uint32_t slot, enum object_list list);
void object_place(struct master *master, uint32_t slot, enum object_list list);
unsigned object_blocked(const struct master *master, uint32_t slot, uint64_t now);
/* Show a sealed slot to readers and put it on the list of its kind. */
void object_show(struct master *master, uint32_t slot);
/* End a READY object; its bytes go now, or with the last hold. */
void object_condemn(struct master *master, uint32_t slot, uint64_t now);
/* Free a CONDEMNED object if nothing blocks it. */
void object_settle(struct master *master, uint32_t slot, uint64_t now);
/* Free a WRITING slot whose writer is out. */
void object_drop(struct master *master, uint32_t slot);
/* A READY object that is blocked leaves the lists. False: it is not blocked after all. */
bool object_park(struct master *master, uint32_t slot, uint64_t now);
/* On the list of a READY object's kind. */
void object_list_ready(struct master *master, uint32_t slot, bool active);
/* The same, for one that was parked. */
void object_unpark(struct master *master, uint32_t slot, bool active);
/* Set the slot's one timer to the next time that matters to it. */
void object_arm(struct master *master, uint32_t slot, uint64_t now);

/* ---- read.c ---- */
/* Before READY slots are judged: what reports were counted last. */
void reads_recover(struct master *master);

/* ---- read.c -------------------------------------------------------------- */

/* Before READY slots are judged: what reports were counted last. */
void reads_recover(struct master *master);

/* ---- reclaim.c ----------------------------------------------------------- */
/* The coldest cache object that nothing blocks, still on its list; SLOT_NONE: none, or
 * the budget is spent. */
uint32_t reclaim_victim(struct master *master, uint64_t now, uint32_t *budget);
void reclaim_evict(struct master *master, uint32_t slot, uint64_t now);
/* Work between the watermarks. True: the budget is spent, there is more to do. */
bool reclaim_refill(struct master *master, uint64_t now, uint32_t *budget);
void reclaim_start_if_low(struct master *master);

/* ---- window.c ------------------------------------------------------------ */
enum window_result {
	WINDOW_DONE,
	WINDOW_WAITS,    /* for a copy, a release, the end of a put */
	WINDOW_MORE,     /* the budget is spent */
	WINDOW_AGAIN,    /* given up: something in it turned out blocked, choose again */
	WINDOW_HOPELESS, /* given up */
};
/* Whether a window for the ticket could be cleared, if all but softpin objects went. */
bool window_is_possible(const struct master *master, const struct ticket *ticket);
/* Open the cheapest window for the ticket. False: none that could be cleared.
 * `coldest`: where to look first, or SLOT_NONE. */
bool window_choose(
	struct master *master, struct ticket *ticket, uint32_t coldest, uint64_t now);
/* Clear what can be cleared now; WINDOW_DONE: the ticket's run is claimed. */
enum window_result window_clear(struct master *master, uint64_t now, uint32_t *budget);
/* No window from here on; what it has withheld is for all tickets. */
void window_close(struct master *master);

/* ---- relocate.c ---------------------------------------------------------- */
/* Begin to move `slot` to another run. False: no run, no slot, or a move is under way. */
bool relocate_start(struct master *master, uint32_t slot);

/* ---- room.c -------------------------------------------------------------- */
void ticket_grant(struct master *master, struct ticket *ticket, uint32_t block);
/* Take the run, of `run_bytes`, out of a granted ticket, which is idle then. */
uint32_t ticket_spend(struct master *master, struct ticket *ticket, uint64_t run_bytes);
/* Something changed that a waiting ticket could use. */
static inline void room_event(struct master *master)
{
	master->room.stuck = false;
	master->room.copy_limit = UINT64_MAX;
}

static inline bool room_is_due(const struct room *room)
{
	return !room->stuck && !list_is_empty(&room->waiting);
}

#endif
