/*
 * fault.h - make a named step of this process late, failing or deadly, on order.
 *
 * The flows of client and daemon ask fault_hit() at the points of points.def and do what
 * it says themselves: sleep, return the number, or kill their process. A fault delays or
 * fails a real step and never skips one. A hit is counted whether or not its point is
 * armed.
 *
 * With -DCENOTE_FAULTS=1 all of this is there. Without, fault_hit() is the constant
 * FAULT_NONE, the table is empty, and no name of a point or action is in the program.
 *
 * Units     `value` is ms for FAULT_SLEEP, the number to return for FAULT_RETURN_ERROR.
 * Memory    the table has a fixed size and is embedded, one per process.
 * Errors    ERR_BAD_ARGUMENT: unknown name, or an order that makes no sense.
 *           ERR_NOT_SUPPORTED: always, in a build without faults.
 * Thread    any number hit, arm and read at once. A hit never waits. One that meets its
 *           point being armed may go uncounted, and then does nothing.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(CENOTE_FAULTS) && CENOTE_FAULTS
#define FAULT_BUILD 1
#else
#define FAULT_BUILD 0
#endif

enum fault_point {
#define FAULT_CLIENT_POINT(point, name, where) FAULT_##point,
#define FAULT_NODE_POINT(point, name, where)   FAULT_##point,
#include "fault/points.def"
	FAULT_POINT_COUNT
};

enum fault_action {
	FAULT_NONE,
	FAULT_SLEEP,        /* go on after `value` ms */
	FAULT_RETURN_ERROR, /* end the call with `value`, unchanged */
	FAULT_KILL,         /* SIGKILL to the own process */
	FAULT_RESET /* only to fault_arm(): disarm the point and zero its counts */
};

#if FAULT_BUILD

struct fault_entry {
	_Atomic uint64_t word; /* version, action and hits; fault.c has the layout */
	_Atomic int64_t value;
	_Atomic int64_t from_hit;
	_Atomic int64_t times;
};

struct fault_table {
	struct fault_entry entries[FAULT_POINT_COUNT];
};

/* Count a hit and say what to do. *ret_value is set for SLEEP and RETURN_ERROR only. */
enum fault_action fault_hit(
	struct fault_table *table, enum fault_point point, int64_t *ret_value);

#else

struct fault_table {
	char nothing;
};

static inline enum fault_action fault_hit(
	struct fault_table *table, enum fault_point point, int64_t *ret_value)
{
	(void)table, (void)point, (void)ret_value;
	return FAULT_NONE;
}

#endif

void fault_init(struct fault_table *table);

/*
 * Order `action` at the point `name` (of both sides, if each has one), from its
 * `from_hit`-th hit after this call on, for `times` hits. 0 means 1 for both, `times` -1
 * means for ever. What was armed there before is forgotten, and the counts start at 0. Refused: a FAULT_SLEEP below 0, a
 * FAULT_RETURN_ERROR that is no negative int.
 */
int fault_arm(struct fault_table *table, const char *name, enum fault_action action,
	int64_t value, int64_t from_hit, int64_t times) MUST_CHECK;

/* Hits and firings of the point `name` since it was last armed or reset. */
int fault_status(struct fault_table *table, const char *name, uint64_t *ret_hits,
	uint64_t *ret_fired) MUST_CHECK;

/* "sleep", "return_error", "kill", "reset". */
int fault_action_parse(const char *text, enum fault_action *ret_action) MUST_CHECK;

/* For lists and for tests that walk all points; NULL in a build without faults. */
const char *fault_point_name(enum fault_point point);
const char *fault_point_where(enum fault_point point);

/* Whether the point sits in client processes; the others sit in the daemon. */
bool fault_point_is_client(enum fault_point point);
/* Whether a daemon that is alone never meets it. */
bool fault_point_is_cluster(enum fault_point point);

#endif
