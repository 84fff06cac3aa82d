/*
 * Tests of tools/bench_series.h.
 */
#include "tools/bench_series.h"

#include "unit.h"

static void test_median(void **state)
{
	double one[] = {7}, odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};

	(void)state;
	assert_true(median_of(one, 0) == 0);
	assert_true(median_of(one, 1) == 7);
	assert_true(median_of(odd, 3) == 5);
	assert_true(median_of(even, 4) == 2.5);
	assert_true(even[0] == 1 && even[3] == 4);
}

static void test_runs(void **state)
{
	struct series series = {.name = "runs"};

	(void)state;
	assert_true(series_end_run(&series) == 0);
	for (int i = 0; i < 3; i++)
		series_add(&series, 10 - i);
	assert_true(series_end_run(&series) == 9);
	/* The first run is not in the second one's median. */
	for (int i = 0; i < 5; i++)
		series_add(&series, 100 + i);
	assert_true(series_end_run(&series) == 102);
	assert_true(series_end_run(&series) == 0);
	assert_int_equal(series.count, 8);
	series_fini(&series);
	assert_int_equal(series.count, 0);
}

/* 1 .. 1000 from the largest down. */
static void test_percentiles(void **state)
{
	struct series series = {.name = "percentiles"};

	(void)state;
	assert_true(series_percentile(&series, 50) == 0);
	for (int i = 1000; i > 0; i--)
		series_add(&series, i);
	assert_true(series_percentile(&series, 0) == 1);
	assert_true(series_percentile(&series, 50) == 500);
	assert_true(series_percentile(&series, 99) == 990);
	assert_true(series_percentile(&series, 99.9) == 999);
	assert_true(series_percentile(&series, 99.95) == 1000);
	assert_true(series_percentile(&series, 100) == 1000);
	series_fini(&series);
	series_add(&series, 3);
	assert_true(series_percentile(&series, 99.9) == 3);
	series_fini(&series);
}

/* More than are allocated at first. */
static void test_many(void **state)
{
	struct series series = {.name = "many"};

	(void)state;
	for (int i = 0; i < 5000; i++)
		series_add(&series, i % 100);
	assert_false(series.is_short);
	assert_int_equal(series.count, 5000);
	assert_true(series_end_run(&series) == 49.5);
	series_fini(&series);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_median),
	cmocka_unit_test(test_runs),
	cmocka_unit_test(test_percentiles),
	cmocka_unit_test(test_many),
};

UNIT_MAIN(tests)
