/*
 * station_log.h - what the ranks of a station put, read and removed, and when: the input of
 * bench/optimum.py.
 *
 * Each rank gathers its events and appends them, some at a time, to one file that all share;
 * when they have ended, the parent sorts them by time and writes them as text.
 *
 * Memory    a log is embedded in its rank; the file ends with its last descriptor.
 * Errors    false or TOOL_FAILED; a rank whose events could not be written has none after.
 * Thread    a log belongs to one process.
 */
#ifndef TOOLS_STATION_LOG_H
#define TOOLS_STATION_LOG_H

#include "tools/station_plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define STATION_LOG_BATCH 256u

enum station_event_kind {
	STATION_EVENT_PUT, /* the bytes are whole, and about to be shown */
	STATION_EVENT_READ,
	STATION_EVENT_REMOVE,
	STATION_EVENT_TURNING /* the node's turning room has so many bytes */
};

struct station_event {
	uint64_t time_ns; /* monotonic */
	uint64_t bytes;
	uint32_t step;
	uint32_t object_step; /* with owner and sequence: which object */
	uint16_t owner, sequence;
	uint32_t kind; /* enum station_event_kind */
};

struct station_log {
	int fd; /* -1: nothing is logged */
	uint32_t count;
	struct station_event events[STATION_LOG_BATCH];
};

/* The file that ranks share; -1: there is none, and a line on stderr says why. */
int station_log_open(void);

/* `object` NULL: an event of the node. */
void station_log_add(struct station_log *log, uint32_t step, uint64_t time_ns,
	enum station_event_kind kind, const struct station_object *object,
	uint64_t bytes);
void station_log_flush(struct station_log *log);

/* All events of the file in the order of their times, a line each: step, time, event, key,
 * bytes. */
int station_log_print(int fd, FILE *out);

#endif
