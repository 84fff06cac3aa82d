/*
 * bench_series.c - exact percentiles: all values are kept, and sorted when asked.
 */
#include "tools/bench_series.h"

#include <stdlib.h>

#define SERIES_FIRST 1024

int double_order(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

double median_of(double *values, size_t count)
{
	if (count == 0)
		return 0;
	qsort(values, count, sizeof(*values), double_order);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static bool series_grow(struct series *series)
{
	size_t size = series->size == 0 ? SERIES_FIRST : series->size * 2;
	double *values = realloc(series->values, size * sizeof(*values));

	if (values == NULL)
		return false;
	series->values = values;
	series->size = size;
	return true;
}

void series_add(struct series *series, double ns)
{
	if (series->count == series->size && !series_grow(series)) {
		series->is_short = true;
		return;
	}
	series->values[series->count++] = ns;
}

double series_end_run(struct series *series)
{
	size_t first = series->run_first;

	series->run_first = series->count;
	return median_of(series->values + first, series->count - first);
}

double series_percentile(struct series *series, double percent)
{
	size_t rank;

	if (series->count == 0)
		return 0;
	qsort(series->values, series->count, sizeof(*series->values), double_order);
	rank = (size_t)((double)series->count * percent / 100);
	/* Rounded up, but not by what a fraction has too much. */
	if ((double)rank < (double)series->count * percent / 100 - 1e-6)
		rank++;
	rank = rank == 0 ? 1 : rank > series->count ? series->count : rank;
	return series->values[rank - 1];
}

void series_fini(struct series *series)
{
	free(series->values);
	series->values = NULL;
	series->count = series->size = series->run_first = 0;
}
