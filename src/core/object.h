/*
 * object.h - the private half of a slot, and the lists that objects are on.
 *
 * Every slot that is not FREE is on exactly one list, which says what may happen to it:
 *
 *   WRITING    being put (a list per client), or on its way here: moved, read from the
 *              disk, fetched from another node
 *   INACTIVE, ACTIVE   cache objects and secondary ones, which another node keeps; reclaim
 *              takes from INACTIVE's tail
 *   DIRTY      softpin, not on disk: may not be dropped, only written out or relocated
 *   LARGE      the same, larger than the turning room: stays until that has grown
 *   SAVING     being written out; readable, its run stays until the I/O's end
 *   SPENT      the same, and a reader has had it: written out before others
 *   CLEAN      on disk as well: free for the asking
 *   LENT       the same, or secondary, in the turning room: only loads may have its place
 *   PARKED     READY but held or pinned when reclaim met it; the last release wakes it
 *   MOVING     being copied to another run
 *   CONDEMNED  ended; its bytes go with the last hold
 *
 * Memory    one array of struct object, by slot number, given at init.
 * Thread    the loop thread.
 */
#ifndef CORE_OBJECT_H
#define CORE_OBJECT_H

#include "share/layout.h"

#include <stdbool.h>

enum object_list {
	OBJECT_FREE,
	OBJECT_WRITING,
	OBJECT_INACTIVE,
	OBJECT_ACTIVE,
	OBJECT_DIRTY,
	OBJECT_SPENT,
	OBJECT_CLEAN,
	OBJECT_LENT,
	OBJECT_LARGE,
	OBJECT_SAVING,
	OBJECT_PARKED,
	OBJECT_MOVING,
	OBJECT_CONDEMNED,
	OBJECT_LIST_COUNT
};

struct object {
	uint32_t prev, next; /* in its list, by slot number; SLOT_NONE at the ends */
	uint32_t chain;      /* next of the same map bucket */
	uint32_t block;      /* its run's record in the extent map */
	uint32_t disk;       /* its entry on disk; DISK_NONE */
	uint16_t pins;       /* the daemon's own short holds */
	uint8_t list : 4;    /* enum object_list */
	uint8_t refused : 4; /* when another node last did not take it: hand.c; 0 = never */
	uint8_t mapped : 1;  /* in the map: the one object of its key */
	uint8_t active : 1;  /* where it was when it was parked */
	uint8_t indexed : 1; /* in the shared index */
	uint8_t relook : 1;  /* parked without `want`: a timer looks again */
	uint8_t read : 1;    /* a reader has had it since it came */
	uint8_t urgent : 1;  /* to be written out before others */
	uint8_t hits : 2;    /* scans that found it used, up to 3 */
	uint64_t woken_ns;   /* when a client's message last woke it; 0 = never */
};

_Static_assert(OBJECT_LIST_COUNT <= 16, "a list's number has four bits");
_Static_assert(sizeof(struct object) == 32, "two objects a cache line");

/* A list of slots; the newest at the head. */
struct object_queue {
	uint32_t head, tail;
	uint32_t count;
};

void object_queue_init(struct object_queue *queue);
void object_push_head(struct object_queue *queue, struct object *objects, uint32_t slot);
void object_push_tail(struct object_queue *queue, struct object *objects, uint32_t slot);
/* Nearer to the tail than `before`, by one; SLOT_NONE: at the head. */
void object_push_behind(struct object_queue *queue, struct object *objects, uint32_t slot,
	uint32_t before);
void object_unlink(struct object_queue *queue, struct object *objects, uint32_t slot);

#endif
