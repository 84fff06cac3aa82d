/*
 * hist.c - log-linear histogram.
 *
 * Row 0 holds the values below 16, one a bucket. Row r holds 2^(r+3) to 2^(r+4) - 1: the
 * four bits behind the leading one are the column.
 */
#include "base/hist.h"

#include "base/attr.h"

#include <string.h>

#define HIST_COLUMN_BITS 4

_Static_assert(HIST_COLUMNS == 1 << HIST_COLUMN_BITS, "columns");
_Static_assert(HIST_ROWS == 64 - HIST_COLUMN_BITS + 1, "a row for each power of two");

static uint32_t hist_bucket_of(uint64_t value)
{
	uint32_t row;

	if (value < HIST_COLUMNS)
		return (uint32_t)value;
	row = 64u - HIST_COLUMN_BITS - (uint32_t)__builtin_clzll(value);
	return row * HIST_COLUMNS + (uint32_t)(value >> (row - 1)) % HIST_COLUMNS;
}

/* The largest value that falls into the bucket. */
static uint64_t hist_bucket_end(uint32_t bucket)
{
	uint32_t row = bucket / HIST_COLUMNS;
	uint64_t column = bucket % HIST_COLUMNS;

	if (row == 0)
		return column;
	/* Wraps to UINT64_MAX in the last bucket, as it should. */
	return ((HIST_COLUMNS + column + 1) << (row - 1)) - 1;
}

void hist_init(struct hist *hist)
{
	memset(hist, 0, sizeof(*hist));
}

void hist_add(struct hist *hist, uint64_t value)
{
	hist->buckets[hist_bucket_of(value)]++;
	hist->count++;
	hist->max = MAX(hist->max, value);
}

void hist_merge(struct hist *into, const struct hist *from)
{
	for (uint32_t i = 0; i < ARRAY_LEN(into->buckets); i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	into->max = MAX(into->max, from->max);
}

/* Which value, in order of size and from 1, is the percentile. Done in whole numbers: in
 * doubles the 99.9th of 1,000 values would be the 1,000th. */
static uint64_t hist_rank(uint64_t count, double percent)
{
	uint64_t parts = 0;
	unsigned __int128 rank;

	if (percent >= 100)
		return count;
	if (percent > 0)
		parts = (uint64_t)(percent * 10000 + 0.5);
	rank = ((unsigned __int128)count * parts + 999999) / 1000000;
	return MAX((uint64_t)rank, 1u);
}

uint64_t hist_percentile(const struct hist *hist, double percent)
{
	uint64_t rank, seen = 0;

	if (hist->count == 0)
		return 0;
	rank = hist_rank(hist->count, percent);
	for (uint32_t i = 0; i < ARRAY_LEN(hist->buckets); i++) {
		seen += hist->buckets[i];
		if (seen >= rank)
			return MIN(hist_bucket_end(i), hist->max);
	}
	return hist->max;
}

uint64_t hist_max(const struct hist *hist)
{
	return hist->max;
}

uint64_t hist_count(const struct hist *hist)
{
	return hist->count;
}
