/*
 * Tests of base/rng.h.
 */
#include "base/rng.h"

#include "base/attr.h"
#include "unit.h"

static void test_same_seed_same_run(void **state)
{
	struct rng a, b, c;
	int equal = 0;

	(void)state;
	rng_init(&a, 42);
	rng_init(&b, 42);
	rng_init(&c, 43);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = rng_next(&a);

		assert_true(value == rng_next(&b));
		equal += value == rng_next(&c);
	}
	assert_int_equal(equal, 0);
}

/* The published generator from the state {1, 2, 3, 4}; and the published splitmix64 from
 * the seed 0, which spreads a seed over the state. */
static void test_known_values(void **state)
{
	static const uint64_t values[] = {11520, 0, 1509978240, 1215971899390074240};
	static const uint64_t spread[] = {0xe220a8397b1dcdafull, 0x6e789e6aa1b965f4ull,
		0x06c45d188009454full, 0xf88bb8a8724c81ecull};
	struct rng rng = {{1, 2, 3, 4}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		assert_true(rng_next(&rng) == values[i]);
	rng_init(&rng, 0);
	for (size_t i = 0; i < ARRAY_LEN(spread); i++)
		assert_true(rng.state[i] == spread[i]);
}

static void test_below_is_even(void **state)
{
	int counts[10] = {0};
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	for (int i = 0; i < 100000; i++) {
		uint64_t value = rng_below(&rng, 10);

		assert_true(value < 10);
		counts[value]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(counts[i], 9500, 10500);
}

static void test_below_edges(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	for (int i = 0; i < 1000; i++) {
		assert_true(rng_below(&rng, 1) == 0);
		assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
	}
}

static void below_zero(void *arg)
{
	(void)rng_below(arg, 0);
}

static void test_below_zero_is_a_bug(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	assert_true(unit_aborts(below_zero, &rng));
}

static void test_chance(void **state)
{
	struct rng rng;
	int hits = 0;

	(void)state;
	rng_init(&rng, 7);
	for (int i = 0; i < 10000; i++) {
		assert_false(rng_chance(&rng, 0));
		assert_true(rng_chance(&rng, 100));
		hits += rng_chance(&rng, 30);
	}
	assert_in_range(hits, 2800, 3200);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_same_seed_same_run),
	cmocka_unit_test(test_known_values),
	cmocka_unit_test(test_below_is_even),
	cmocka_unit_test(test_below_edges),
	cmocka_unit_test(test_below_zero_is_a_bug),
	cmocka_unit_test(test_chance),
};

UNIT_MAIN(tests)
