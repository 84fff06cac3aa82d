/*
 * progress.h - how far a long command is, on stderr.
 *
 * On a terminal one line is drawn over and over; elsewhere, if asked for, a line is
 * written for each tenth of the work.
 *
 * Units     `done` and `total` in whatever the caller counts.
 * Memory    embedded; `label` is the caller's.
 * Thread    one.
 */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *label;
	uint64_t total;
	uint64_t drawn_ns; /* when, last; monotonic */
	uint64_t tenths;   /* lines written so far, where it is no terminal */
	bool shown;
	bool terminal;
};

/* `asked`: show it even if stderr is no terminal. */
void progress_init(
	struct progress *progress, const char *label, uint64_t total, bool asked);

/* Draws at most ten times a second. `note` follows the bar. */
void progress_update(struct progress *progress, uint64_t done, const char *note);

/* Take the line away, before anything else is printed. */
void progress_end(struct progress *progress);

#endif
