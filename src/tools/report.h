/*
 * report.h - the figures that long commands print at their end, for people and as JSON.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "base/hist.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

/* The head of a table, then a line for each kind of work that was done at all. */
void report_latency_head(void);
void report_latency(const char *name, const struct hist *hist);

/* "name": {"count", "p50_us", "p99_us", "max_us"} */
void report_latency_json(struct json *json, const char *name, const struct hist *hist);

/* Bytes a nanosecond, which is GB/s; 0 for no time. */
double report_rate(uint64_t bytes, uint64_t ns);

/* A node's bytes that hold objects, or may not be given out; from its statistics. */
bool report_bytes_in_use(const char *stats_json, uint64_t *ret);

#endif
