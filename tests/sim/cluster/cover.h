/*
 * cover.h - how often what is worth seeing was seen.
 *
 * Memory    plain numbers, in memory that the processes of a run share.
 */
#ifndef SIM_CLUSTER_COVER_H
#define SIM_CLUSTER_COVER_H

#include <stdbool.h>
#include <stdint.h>

enum cover_event {
#define COVER(name, text)       COVER_##name,
#define COVER_EXTRA(name, text) COVER_##name,
#include "sim/cluster/cover.def"
	COVER_EVENTS
};

struct cover {
	uint64_t events[COVER_EVENTS];
};

void cover_add(struct cover *sum, const struct cover *cover);
void cover_print(const struct cover *cover);
/* The number of events that had to be seen and were not; each is named. */
unsigned cover_missing(const struct cover *cover);

#endif
