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
};

struct window {
	struct ticket *owner; /* NULL: no window is open */
	uint64_t off, size;
	uint64_t progress_ns; /* when something in it was last freed */
	uint64_t missing;     /* bytes in use then */
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
	struct relocating move;
	/* Runs of this size and above could not be copied out of a window, since when
	 * nothing was freed. */
	uint64_t copy_limit;
	bool refilling; /* between the watermarks */
	bool stuck;     /* nobody can progress until an event, or until retry_ns */
	uint64_t retry_ns;
	uint64_t swept_ns; /* last sweep over parked and condemned */
};

void ticket_init(struct ticket *ticket);

#endif
