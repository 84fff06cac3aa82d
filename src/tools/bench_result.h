/*
 * bench_result.h - what a small bench found: rows of times, figures with their aims.
 *
 * A row is a series. A figure has a value for each run and is shown as their median; it
 * stands at the top of the JSON under its own name.
 *
 * Memory    embedded; series, names and notes are the caller's until it is printed.
 * Thread    one.
 */
#ifndef TOOLS_BENCH_RESULT_H
#define TOOLS_BENCH_RESULT_H

#include "tools/bench_series.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_RUNS_MAX    101
#define BENCH_ROWS_MAX    48
#define BENCH_FIGURES_MAX 48
#define BENCH_NOTES_MAX   8

enum aim {
	AIM_NONE,
	AIM_AT_LEAST,
	AIM_AT_MOST
};

struct figure {
	const char *name;
	enum aim aim;
	double aimed;
	double values[BENCH_RUNS_MAX];
	uint32_t count;
};

struct bench_result {
	const char *bench;
	uint32_t runs;
	uint64_t page_size; /* of the pool */
	uint64_t pool_bytes;
	int cpu;           /* that everything is pinned to; -1: not pinned */
	bool node_is_ours; /* so that it is pinned too */
	struct series *rows[BENCH_ROWS_MAX];
	uint32_t row_count;
	struct figure figures[BENCH_FIGURES_MAX];
	uint32_t figure_count;
	const char *notes[BENCH_NOTES_MAX];
	uint32_t note_count;
};

void result_row(struct bench_result *result, struct series *series);
/* A value of the figure `name`, which begins with its first value. */
void result_figure(struct bench_result *result, const char *name, double value);
/* The same, with what it should be. */
void result_aimed(struct bench_result *result, const char *name, double value,
	enum aim aim, double aimed);
/* A whole sentence, shown to people. */
void result_note(struct bench_result *result, const char *note);

/* "31.4 ns", "8.53 us", "12.1 ms" */
const char *result_time(char *text, size_t size, double ns);

/* TOOL_OK, or TOOL_FAILED: it could not be written, or a series is short. */
int result_print(struct bench_result *result, bool json);

#endif
