/*
 * Tests of tools/station_barrier.h.
 */
#include "tools/station_barrier.h"

#include "base/attr.h"
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#define ROUNDS 1000

struct one {
	struct station_barrier *barrier;
	uint32_t rank;
	uint32_t rounds;
};

static void *go_round(void *arg)
{
	struct one *one = arg;

	while (one->rounds < ROUNDS &&
		station_barrier_wait(one->barrier, one->rank, one->rounds))
		one->rounds++;
	return NULL;
}

static void test_all_go_on_together(void **state)
{
	_Atomic uint32_t arrived[3] = {0};
	struct station_barrier barrier = {.arrived = arrived, .ranks = 3};
	struct one ones[3];
	pthread_t threads[3];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(ones); i++) {
		ones[i] = (struct one){.barrier = &barrier, .rank = i};
		assert_int_equal(
			pthread_create(&threads[i], NULL, go_round, &ones[i]), 0);
	}
	for (uint32_t i = 0; i < ARRAY_LEN(ones); i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(ones[i].rounds, ROUNDS);
	}
	assert_int_equal(barrier.word, ROUNDS);
}

/* One dies in the barrier, whether or not it was the last to come; another comes in its place,
 * which may walk through rounds that are over. */
static void test_another_comes_in_its_place(void **state)
{
	_Atomic uint32_t arrived[2] = {0};
	struct station_barrier barrier = {.arrived = arrived, .ranks = 2};
	struct one one = {.barrier = &barrier, .rank = 0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, go_round, &one), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		atomic_store(&arrived[1], round + 1); /* and there it died */
		for (uint32_t again = round > 2 ? round - 2 : 0; again <= round; again++)
			assert_true(station_barrier_wait(&barrier, 1, again));
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(one.rounds, ROUNDS);
	assert_int_equal(barrier.word, ROUNDS);
}

static void test_a_stop_lets_all_go(void **state)
{
	_Atomic uint32_t arrived[2] = {0};
	struct station_barrier barrier = {.arrived = arrived, .ranks = 2};
	struct one one = {.barrier = &barrier, .rank = 0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, go_round, &one), 0);
	assert_true(station_barrier_wait(&barrier, 1, 0));
	assert_false(station_barrier_is_stopped(&barrier));
	while (atomic_load(&arrived[0]) < 2) /* it has been let go, and has come again */
		(void)sched_yield();
	station_barrier_stop(&barrier);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(one.rounds, 1);
	assert_false(station_barrier_wait(&barrier, 1, 1));
	assert_true(station_barrier_is_stopped(&barrier));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_go_on_together),
	cmocka_unit_test(test_another_comes_in_its_place),
	cmocka_unit_test(test_a_stop_lets_all_go),
};

UNIT_MAIN(tests)
