/*
 * trace.h - what happened in a run, as one number and, if asked, as lines.
 *
 * Two runs of one seed must have equal numbers: that is what makes a failure repeat.
 *
 * Memory    the run embeds it.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace {
	const uint64_t *now_ns; /* the world's clock */
	bool print;
	uint64_t hash;
	uint64_t events;
};

void trace_event(struct trace *trace, const char *format, ...) PRINTF_LIKE(2, 3);

/* Add bytes that are not worth a line. */
void trace_bytes(struct trace *trace, const void *bytes, size_t size);

#endif
