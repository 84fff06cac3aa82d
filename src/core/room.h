/*
 * room.h - who waits for room in the pool, and the one window that is being cleared.
 *
 * A put or load that finds no hole takes a ticket; tickets are served in order. For the
 * first that can progress, reclaim ends the coldest object if its run is large enough, or
 * opens a *window*: the range of the ticket's size that is cheapest to clear. Nothing new
 * is put there while cache objects in it are dropped and others are relocated. A ticket
 * whose window cannot be completed now keeps its place and lets others pass outside it;
 * with nothing freed in it for a second the window is given up and another is chosen.
 *
 * Memory    a ticket is embedded in the operation that waits.
 * Thread    the loop thread.
 */
#ifndef CORE_ROOM_H
#define CORE_ROOM_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_IDLE_NS  1000000000ull
#define SWEEP_PERIOD_NS 100000000ull
#define TURNING_IDLE_NS 2000000000ull

enum ticket_state {
	TICKET_IDLE,
	TICKET_WAITING,
	TICKET_GRANTED
};

struct ticket {
	struct list entry;  /* in room.waiting or room.granted */
	uint64_t run_bytes; /* as the extent map is asked for them */
	uint64_t align;
	uint32_t block; /* of the granted run */
	enum ticket_state state;
	bool is_load; /* turning room will do */
};

/*
 * Turning room: the end of the pool, from `off` on, free or clean, as large as the largest
 * softpin object on disk or handed over, so that each can always come back. Only loads have
 * their runs in it. A larger object stays in the pool until the range has grown: `ticket` opens
 * a window for the part that is missing.
 */
struct turning {
	uint64_t off, size; /* size 0: none */
	struct ticket ticket;
	bool stuck;          /* it cannot grow until an event */
	uint64_t preempt_ns; /* until then another's window is left alone */
	uint64_t
		idle_ns; /* since when it has been larger than it must be; 0: it is not */
	bool short_since_start; /* for something on disk that came back with a restart */
};

/* For an object that a window cannot do away with: see place.c. */
struct place {
	struct ticket ticket;
	const struct ticket *owner; /* whose window it is for */
	uint32_t slot, rounds;
	uint64_t life;
	uint64_t avoid_off, avoid_end; /* of the pool: what that window will clear */
	bool stuck;                    /* there is none until an event */
};

struct window {
	struct ticket *owner; /* NULL: no window is open */
	uint64_t off, size;
	uint64_t progress_ns; /* when something in it was last freed */
	uint64_t missing;     /* bytes in use then */
	bool holds_unread;    /* and waits, until an event, for a place for it */
};

struct relocating {
	bool busy;
	uint32_t from, to; /* slots */
};

struct room {
	struct list waiting;    /* oldest first */
	struct list granted;    /* not yet fetched by master_room_granted() */
	uint32_t granted_count; /* granted runs that no put has used or given back */
	struct window window;
	struct turning turning;
	struct place place;
	uint64_t promised; /* bytes of runs that batches of loads will need */
	uint64_t held_ns,
		held_bytes; /* when holds were last counted, and what they hold */
	struct relocating move;
	/* Runs of this size and above could not be copied out of a window, since when
	 * nothing was freed. */
	uint64_t copy_limit;
	bool refilling;    /* between the watermarks */
	bool refill_waits; /* for an event: there is nothing to take now */
	/* All that could be taken is under leases: until then only what woke is examined. */
	uint64_t quiet_ns;
	uint32_t quiet_rounds; /* so often in a row, with nothing freed between */
	uint32_t woken;        /* objects back on the lists, and not examined since */
	bool parked_other;     /* the last scan met a block that was no lease */
	bool stuck;            /* nobody can progress until an event, or until retry_ns */
	uint64_t retry_ns;
	uint64_t swept_ns; /* last sweep over parked and condemned */
};

void ticket_init(struct ticket *ticket);

#endif
