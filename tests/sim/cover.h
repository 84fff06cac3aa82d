/*
 * cover.h - how often what is worth seeing was seen: events, and hits of fault points.
 *
 * Memory    plain numbers, in memory that the processes of a run share.
 */
#ifndef SIM_COVER_H
#define SIM_COVER_H

#include "fault/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum cover_event {
#define COVER(name, text)       COVER_##name,
#define COVER_EXTRA(name, text) COVER_##name,
#include "sim/cover.def"
	COVER_EVENTS
};

struct cover {
	uint64_t events[COVER_EVENTS];
	uint64_t hits[FAULT_POINT_COUNT];
	uint64_t fired[FAULT_POINT_COUNT];
};

/* Add what the daemon's table counted at a point; the number of firings. */
uint64_t cover_take_point(
	struct cover *cover, struct fault_table *faults, enum fault_point point);
void cover_add(struct cover *sum, const struct cover *cover);
void cover_print(const struct cover *cover);
/* The number of events that had to be seen and were not; each is named. */
unsigned cover_missing(const struct cover *cover);

#endif
