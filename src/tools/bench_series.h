/*
 * bench_series.h - times of one kind of work, run by run, and what they come to.
 *
 *	struct series put = {.name = "put_1m", .bytes = 1 << 20};
 *
 *	series_add(&put, ns); ...
 *	median_ns = series_end_run(&put); ...
 *	series_percentile(&put, 99.9);
 *	series_fini(&put);
 *
 * Units     ns of one operation, with fractions where many were timed together.
 * Memory    grows as it is added to; series_fini() frees it. `name` is the caller's.
 * Errors    what finds no memory is not added; `is_short` says so.
 * Thread    one.
 */
#ifndef TOOLS_BENCH_SERIES_H
#define TOOLS_BENCH_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct series {
	const char *name;
	uint64_t bytes; /* moved by one operation; 0: no rate is shown */
	double *values; /* of all runs, those of ended runs in order */
	size_t count, size;
	size_t run_first; /* where the present run begins */
	bool is_short;
};

/* For qsort(). */
int double_order(const void *a, const void *b);

/* The middle of the values, or the mean of the two middle ones; sorts them. 0 of none. */
double median_of(double *values, size_t count);

void series_add(struct series *series, double ns);
/* The median of what was added since the last end. */
double series_end_run(struct series *series);
/* Over all runs: the least value that `percent` of all do not exceed; sorts them. */
double series_percentile(struct series *series, double percent);
void series_fini(struct series *series);

#endif
