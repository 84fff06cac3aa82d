/*
 * hist.h - a histogram of latencies that takes any u64 and never allocates.
 *
 * Log-linear: one row for each power of two from 16 on, 16 equal buckets in it, so that a
 * percentile is at most 1/16 above the truth, and below 32 exact.
 *
 * Units     any; mostly nanoseconds.
 * Memory    about 8 KiB, embedded by the owner. All zero is an empty histogram.
 * Errors    none; an empty one answers 0 to everything.
 * Thread    one writer; merge those of several threads after they ended.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>

#define HIST_COLUMNS 16
#define HIST_ROWS    61 /* values below 16, then 2^4 .. 2^63 */

struct hist {
	uint64_t buckets[HIST_ROWS * HIST_COLUMNS];
	uint64_t count;
	uint64_t max;
};

void hist_init(struct hist *hist);
void hist_add(struct hist *hist, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);

/* The least value that at least `percent` of all values do not exceed, rounded up to the
 * end of its bucket, but never above the maximum. `percent` has 4 decimals. */
uint64_t hist_percentile(const struct hist *hist, double percent);

uint64_t hist_max(const struct hist *hist);
uint64_t hist_count(const struct hist *hist);

#endif
