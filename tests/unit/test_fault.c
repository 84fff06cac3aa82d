/*
 * Tests of fault/fault.h. A build without faults has only the case that says so.
 */
#include "fault/fault.h"

#include "base/err.h"
#include "unit.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if FAULT_BUILD

#define POINT FAULT_CLIENT_AFTER_HOLD
#define NAME  "ClientAfterHold"

static struct fault_table table;

static int setup(void **state)
{
	(void)state;
	fault_init(&table);
	return 0;
}

static void arm(enum fault_action action, int64_t value, int64_t from_hit, int64_t times)
{
	assert_int_equal(fault_arm(&table, NAME, action, value, from_hit, times), 0);
}

static void assert_counts(const char *name, uint64_t want_hits, uint64_t want_fired)
{
	uint64_t hits = UINT64_MAX, fired = UINT64_MAX;

	assert_int_equal(fault_status(&table, name, &hits, &fired), 0);
	assert_int_equal(hits, want_hits);
	assert_int_equal(fired, want_fired);
}

static void hit_expecting(enum fault_action want, int64_t want_value)
{
	int64_t value = 4711;

	assert_int_equal(fault_hit(&table, POINT, &value), want);
	assert_int_equal(value, want_value);
}

static void test_unarmed_hits_count(void **state)
{
	(void)state;
	assert_counts(NAME, 0, 0);
	hit_expecting(FAULT_NONE, 4711);
	hit_expecting(FAULT_NONE, 4711);
	assert_counts(NAME, 2, 0);
	assert_counts("ClientAfterTake", 0, 0);
}

static void test_defaults_are_the_next_hit_once(void **state)
{
	(void)state;
	hit_expecting(FAULT_NONE, 4711);
	arm(FAULT_RETURN_ERROR, -704, 0, 0);
	assert_counts(NAME, 0, 0);
	hit_expecting(FAULT_RETURN_ERROR, -704);
	hit_expecting(FAULT_NONE, 4711);
	assert_counts(NAME, 2, 1);
}

static void test_from_hit_and_times(void **state)
{
	(void)state;
	arm(FAULT_SLEEP, 250, 3, 2);
	hit_expecting(FAULT_NONE, 4711);
	hit_expecting(FAULT_NONE, 4711);
	hit_expecting(FAULT_SLEEP, 250);
	hit_expecting(FAULT_SLEEP, 250);
	hit_expecting(FAULT_NONE, 4711);
	assert_counts(NAME, 5, 2);
}

static void test_for_ever(void **state)
{
	(void)state;
	arm(FAULT_KILL, 0, 2, -1);
	hit_expecting(FAULT_NONE, 4711);
	for (int i = 0; i < 1000; i++)
		hit_expecting(FAULT_KILL, 4711);
	assert_counts(NAME, 1001, 1000);
}

static void test_any_negative_int_is_returned(void **state)
{
	static const int64_t values[] = {-1, -900, -12345, INT_MIN};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		arm(FAULT_RETURN_ERROR, values[i], 1, 1);
		hit_expecting(FAULT_RETURN_ERROR, values[i]);
	}
}

static void test_reset(void **state)
{
	(void)state;
	arm(FAULT_SLEEP, 1, 1, -1);
	hit_expecting(FAULT_SLEEP, 1);
	arm(FAULT_RESET, 0, 0, 0);
	assert_counts(NAME, 0, 0);
	hit_expecting(FAULT_NONE, 4711);
	assert_counts(NAME, 1, 0);
}

static void test_refused(void **state)
{
	static const struct {
		const char *name;
		enum fault_action action;
		int64_t value, from_hit, times;
	} bad[] = {
		{"", FAULT_SLEEP, 1, 1, 1},
		{"NoSuchPoint", FAULT_SLEEP, 1, 1, 1},
		{"clientafterhold", FAULT_SLEEP, 1, 1, 1},
		{NAME, FAULT_NONE, 0, 1, 1},
		{NAME, (enum fault_action)99, 0, 1, 1},
		{NAME, FAULT_SLEEP, -1, 1, 1},
		{NAME, FAULT_RETURN_ERROR, 0, 1, 1},
		{NAME, FAULT_RETURN_ERROR, 5, 1, 1},
		{NAME, FAULT_RETURN_ERROR, (int64_t)INT_MIN - 1, 1, 1},
		{NAME, FAULT_KILL, 0, -1, 1},
		{NAME, FAULT_KILL, 0, 1, -2},
	};
	uint64_t hits = 1, fired = 2;

	(void)state;
	arm(FAULT_SLEEP, 9, 1, -1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(fault_arm(&table, bad[i].name, bad[i].action,
					 bad[i].value, bad[i].from_hit, bad[i].times),
			ERR_BAD_ARGUMENT);
	hit_expecting(FAULT_SLEEP, 9);
	assert_int_equal(
		fault_status(&table, "NoSuchPoint", &hits, &fired), ERR_BAD_ARGUMENT);
	assert_int_equal(hits, 1);
	assert_int_equal(fired, 2);
}

static void test_extreme_orders(void **state)
{
	(void)state;
	arm(FAULT_SLEEP, INT64_MAX, 1, INT64_MAX);
	hit_expecting(FAULT_SLEEP, INT64_MAX);
	arm(FAULT_SLEEP, 1, INT64_MAX, -1);
	hit_expecting(FAULT_NONE, 4711);
	assert_counts(NAME, 1, 0);
}

static void test_every_point(void **state)
{
	int clients = 0;

	(void)state;
	for (int i = 0; i < FAULT_POINT_COUNT; i++) {
		enum fault_point point = (enum fault_point)i;
		const char *name = fault_point_name(point);
		bool is_client = fault_point_is_client(point);
		int64_t value = 0;

		fault_init(&table);
		assert_non_null(name);
		assert_true(strlen(fault_point_where(point)) > 0);
		if (!fault_point_is_cluster(point))
			assert_int_equal(strncmp(name, is_client ? "Client" : "Node",
						 is_client ? 6 : 4),
				0);
		clients += is_client;
		/* Its own name and no other leads to it. */
		assert_counts(name, 0, 0);
		assert_int_equal(
			fault_arm(&table, name, FAULT_RETURN_ERROR, -1 - i, 1, 1), 0);
		assert_int_equal(fault_hit(&table, point, &value), FAULT_RETURN_ERROR);
		assert_int_equal(value, -1 - i);
		assert_counts(name, 1, 1);
	}
	assert_true(clients > 0 && clients < FAULT_POINT_COUNT);
}

static void test_name_of_both_sides(void **state)
{
	const char *name = fault_point_name(FAULT_NODE_COPY_AFTER_START);
	int64_t value = 0;

	(void)state;
	assert_string_equal(
		name, fault_point_name(FAULT_CLIENT_LOCAL_COPY_AFTER_PUT_START));
	assert_int_equal(fault_arm(&table, name, FAULT_SLEEP, 5, 1, 1), 0);
	assert_int_equal(
		fault_hit(&table, FAULT_NODE_COPY_AFTER_START, &value), FAULT_SLEEP);
	assert_int_equal(value, 5);
	assert_counts(name, 1, 1);
	assert_int_equal(
		fault_hit(&table, FAULT_CLIENT_LOCAL_COPY_AFTER_PUT_START, &value),
		FAULT_SLEEP);
	assert_counts(name, 2, 2);
	assert_int_equal(fault_arm(&table, name, FAULT_RESET, 0, 1, 1), 0);
	assert_counts(name, 0, 0);
}

static void test_parse(void **state)
{
	enum fault_action action = FAULT_NONE;

	(void)state;
	assert_int_equal(fault_action_parse("sleep", &action), 0);
	assert_int_equal(action, FAULT_SLEEP);
	assert_int_equal(fault_action_parse("return_error", &action), 0);
	assert_int_equal(action, FAULT_RETURN_ERROR);
	assert_int_equal(fault_action_parse("kill", &action), 0);
	assert_int_equal(action, FAULT_KILL);
	assert_int_equal(fault_action_parse("reset", &action), 0);
	assert_int_equal(action, FAULT_RESET);
	assert_int_equal(fault_action_parse("none", &action), ERR_BAD_ARGUMENT);
	assert_int_equal(fault_action_parse("", &action), ERR_BAD_ARGUMENT);
	assert_int_equal(fault_action_parse("Sleep", &action), ERR_BAD_ARGUMENT);
	assert_int_equal(action, FAULT_RESET);
}

#define THREADS 4
#define HITS    20000u

static void *hit_many(void *arg)
{
	uint64_t *fired = arg;

	for (unsigned i = 0; i < HITS; i++) {
		int64_t value = 0;

		*fired += fault_hit(&table, POINT, &value) == FAULT_SLEEP && value == 7;
	}
	return NULL;
}

/* However many threads race, exactly `times` hits fire. */
static void test_threads_count_exactly(void **state)
{
	uint64_t fired[THREADS] = {0};
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	(void)state;
	arm(FAULT_SLEEP, 7, 1000, 12345);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, hit_many, &fired[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		sum += fired[i];
	}
	assert_int_equal(sum, 12345);
	assert_counts(NAME, (uint64_t)THREADS * HITS, 12345);
}

struct race {
	atomic_bool over;
	_Atomic uint64_t fired;
	_Atomic uint64_t mixed; /* hits that saw parts of two orders */
};

static void *hit_until_over(void *arg)
{
	struct race *race = arg;

	while (!atomic_load(&race->over)) {
		int64_t value = 0;
		enum fault_action action = fault_hit(&table, POINT, &value);

		if (action == FAULT_NONE)
			continue;
		atomic_fetch_add(&race->fired, 1);
		if ((action == FAULT_SLEEP) != (value == 7) ||
			(action == FAULT_RETURN_ERROR) != (value == -7))
			atomic_fetch_add(&race->mixed, 1);
	}
	return NULL;
}

static void *arm_in_turn(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < HITS; i++) {
		if (i % 2 == 0)
			(void)!fault_arm(&table, NAME, FAULT_SLEEP, 7, 1, -1);
		else
			(void)!fault_arm(&table, NAME, FAULT_RETURN_ERROR, -7, 1, -1);
	}
	return NULL;
}

/* Two threads arm in turn while others hit and one reads: no hit acts on half an order.
 */
static void test_arming_during_hits(void **state)
{
	struct race race = {false, 0, 0};
	pthread_t hitters[2], armers[2];
	uint64_t hits, fired;

	(void)state;
	arm(FAULT_SLEEP, 7, 1, -1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&hitters[i], NULL, hit_until_over, &race), 0);
	/* So that some fire for certain, before the orders begin to change. */
	while (atomic_load(&race.fired) == 0) {
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&armers[i], NULL, arm_in_turn, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(fault_status(&table, NAME, &hits, &fired), 0);
		assert_int_equal(hits, fired);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(armers[i], NULL), 0);
	atomic_store(&race.over, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(hitters[i], NULL), 0);
	assert_true(atomic_load(&race.fired) > 0);
	assert_int_equal(atomic_load(&race.mixed), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_unarmed_hits_count, setup),
	cmocka_unit_test_setup(test_defaults_are_the_next_hit_once, setup),
	cmocka_unit_test_setup(test_from_hit_and_times, setup),
	cmocka_unit_test_setup(test_for_ever, setup),
	cmocka_unit_test_setup(test_any_negative_int_is_returned, setup),
	cmocka_unit_test_setup(test_reset, setup),
	cmocka_unit_test_setup(test_refused, setup),
	cmocka_unit_test_setup(test_extreme_orders, setup),
	cmocka_unit_test_setup(test_every_point, setup),
	cmocka_unit_test_setup(test_name_of_both_sides, setup),
	cmocka_unit_test(test_parse),
	cmocka_unit_test_setup(test_threads_count_exactly, setup),
	cmocka_unit_test_setup(test_arming_during_hits, setup),
};

#else

static void test_not_supported(void **state)
{
	enum fault_action action = FAULT_KILL;
	uint64_t hits = 1, fired = 2;
	struct fault_table table;
	int64_t value = 3;

	(void)state;
	fault_init(&table);
	assert_int_equal(fault_arm(&table, "ClientAfterHold", FAULT_SLEEP, 1, 1, 1),
		ERR_NOT_SUPPORTED);
	assert_int_equal(fault_status(&table, "ClientAfterHold", &hits, &fired),
		ERR_NOT_SUPPORTED);
	assert_int_equal(fault_action_parse("sleep", &action), ERR_NOT_SUPPORTED);
	assert_int_equal(fault_hit(&table, FAULT_CLIENT_AFTER_HOLD, &value), FAULT_NONE);
	assert_null(fault_point_name(FAULT_CLIENT_AFTER_HOLD));
	assert_null(fault_point_where(FAULT_CLIENT_AFTER_HOLD));
	assert_int_equal(action, FAULT_KILL);
	assert_int_equal(hits, 1);
	assert_int_equal(fired, 2);
	assert_int_equal(value, 3);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_supported)};

#endif

UNIT_MAIN(tests)
