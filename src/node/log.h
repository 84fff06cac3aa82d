/*
 * log.h - one line an event, for people and journald: "<6>event=attached client=3
 * pid=77".
 *
 * Memory    `struct log` is the caller's and outlives who was given it; NULL is silent.
 * Errors    none: a line that cannot be written is lost, a long one is cut.
 * Thread    the loop thread.
 */
#ifndef NODE_LOG_H
#define NODE_LOG_H

#include "base/attr.h"

#include <stddef.h>

/* The numbers are sd-daemon(3)'s; in the order of the
 * setting's choices from "error" on. */
enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

struct log {
	enum log_level level; /* the last that is written */
	/* One line with its end; NULL: to stderr. */
	void (*write)(void *ctx, const char *line, size_t length);
	void *ctx;
};

/* `fields` is logfmt: a=1 b="two words". */
void log_line(const struct log *log, enum log_level level, const char *event,
	const char *fields, ...) PRINTF_LIKE(4, 5);

/* Copy `text` as the inside of a quoted value: no quotes, no control characters. */
const char *log_quote(char *buffer, size_t size, const char *text);

#endif
