/*
 * stats.h - numbers out of the daemon's JSON.
 *
 * A value is named by its path: {"bytes":{"free":1}} has "bytes.free", an element of an
 * array its index: "clients.0.pid".
 *
 * Errors    what is not JSON ends the walk; values before that were seen.
 * Thread    any.
 */
#ifndef TOOLS_STATS_H
#define TOOLS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATS_PATH_MAX 160

/* Of a value: "12", "true", or the inside of a string as it stands in the JSON. A
 * non-zero return ends the walk. */
typedef int (*stats_each_fn)(
	void *arg, const char *path, const char *value, size_t value_size);

/* Every value in the order of the text; whether it was JSON to its end, or `each` ended
 * it. */
bool stats_walk(const char *json, stats_each_fn each, void *arg);

/* Whether there is a number of this path that fits into 64 bits; *ret is set only then.
 */
bool stats_u64(const char *json, const char *path, uint64_t *ret);

/* Whether there is a value of this path, and it is this text. */
bool stats_is(const char *json, const char *path, const char *text);

#endif
