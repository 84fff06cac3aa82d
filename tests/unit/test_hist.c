/*
 * Tests of base/hist.h, against sorted arrays.
 */
#include "base/hist.h"

#include "base/attr.h"
#include "base/rng.h"
#include "unit.h"

#include <stdlib.h>

static void test_empty(void **state)
{
	struct hist hist;

	(void)state;
	hist_init(&hist);
	assert_true(hist_count(&hist) == 0);
	assert_true(hist_max(&hist) == 0);
	assert_true(hist_percentile(&hist, 50) == 0);
}

static void test_small_values_are_exact(void **state)
{
	struct hist hist;

	(void)state;
	hist_init(&hist);
	for (uint64_t value = 0; value < 32; value++)
		hist_add(&hist, value);
	for (uint64_t value = 0; value < 32; value++)
		assert_true(
			hist_percentile(&hist, (double)(value + 1) * 100 / 32) == value);
	assert_true(hist_max(&hist) == 31);
}

static void test_rank_is_exact(void **state)
{
	struct hist hist;

	(void)state;
	hist_init(&hist);
	for (int i = 0; i < 999; i++)
		hist_add(&hist, 1);
	hist_add(&hist, 20);
	assert_true(hist_percentile(&hist, 99.9) == 1);
	assert_true(hist_percentile(&hist, 99.91) == 20);
	assert_true(hist_percentile(&hist, 0) == 1);
	assert_true(hist_percentile(&hist, -5) == 1);
	assert_true(hist_percentile(&hist, 100) == 20);
	assert_true(hist_percentile(&hist, 1000) == 20);
}

/* One value alone is its own every percentile, wherever it lies in its bucket. */
static void test_edges_of_buckets(void **state)
{
	(void)state;
	for (int bit = 0; bit < 64; bit++) {
		for (int shift = -1; shift <= 1; shift++) {
			uint64_t value = (1ull << bit) + (uint64_t)shift;
			struct hist hist;

			hist_init(&hist);
			hist_add(&hist, value);
			assert_true(hist_percentile(&hist, 50) == value);
			hist_add(&hist, UINT64_MAX);
			assert_true(hist_percentile(&hist, 50) >= value);
			assert_true(hist_percentile(&hist, 50) - value <= value / 16);
			assert_true(hist_percentile(&hist, 100) == UINT64_MAX);
		}
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void test_random_against_sorted(void **state)
{
	static const double percents[] = {0.1, 1, 10, 50, 90, 99, 99.9, 100};
	static const uint64_t ranks[] = {10, 100, 1000, 5000, 9000, 9900, 9990, 10000};
	static uint64_t values[10000];
	struct hist hist;
	struct rng rng;

	(void)state;
	hist_init(&hist);
	rng_init(&rng, 5);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		values[i] = rng_next(&rng) >> rng_below(&rng, 64);
		hist_add(&hist, values[i]);
	}
	qsort(values, ARRAY_LEN(values), sizeof(values[0]), compare_u64);
	for (size_t i = 0; i < ARRAY_LEN(percents); i++) {
		uint64_t truth = values[ranks[i] - 1];
		uint64_t answer = hist_percentile(&hist, percents[i]);

		assert_true(answer >= truth && answer - truth <= truth / 16);
	}
}

static void test_merge(void **state)
{
	struct hist a, b, both;
	struct rng rng;

	(void)state;
	hist_init(&a);
	hist_init(&b);
	hist_init(&both);
	rng_init(&rng, 6);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = rng_below(&rng, 1000000);

		hist_add(i % 3 == 0 ? &a : &b, value);
		hist_add(&both, value);
	}
	hist_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof(a));
	assert_true(hist_count(&a) == 1000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_empty),
	cmocka_unit_test(test_small_values_are_exact),
	cmocka_unit_test(test_rank_is_exact),
	cmocka_unit_test(test_edges_of_buckets),
	cmocka_unit_test(test_random_against_sorted),
	cmocka_unit_test(test_merge),
};

UNIT_MAIN(tests)
