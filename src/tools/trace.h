/*
 * trace.h - a public request trace in memory: for each request the ids of its blocks.
 *
 * The file has one JSON object a line with "hash_ids": an array of whole numbers. Other
 * members are skipped if they are numbers, strings, true, false or null.
 *
 * Units     ids are the file's.
 * Memory    trace_read() allocates, trace_fini() frees, also after a failure.
 * Errors    false, and `message` (TRACE_MESSAGE_MAX bytes) names the line.
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_MESSAGE_MAX 160

struct trace_request {
	size_t first; /* index of its first id */
	size_t count;
};

struct trace {
	uint64_t *ids; /* of all requests, one behind the other */
	size_t id_count, id_room;
	struct trace_request *requests;
	size_t request_count, request_room;
};

bool trace_read(struct trace *trace, FILE *file, char *message) MUST_CHECK;
void trace_fini(struct trace *trace);

/* How many different ids there are; UINT64_MAX: no memory to count them. */
uint64_t trace_distinct(const struct trace *trace);

#endif
