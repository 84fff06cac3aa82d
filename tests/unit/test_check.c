/*
 * Tests of base/check.h and base/attr.h.
 */
#include "base/check.h"

#include "base/attr.h"
#include "unit.h"

#include <stdlib.h>

static void check_holds(void *arg)
{
	(void)arg;
	CHECK(1 + 1 == 2);
	CHECK_SLOW(1 + 1 == 2);
}

static void check_breaks(void *arg)
{
	CHECK(arg != NULL);
}

static void check_not_reached(void *arg)
{
	(void)arg;
	NOT_REACHED("a test got here");
}

static void test_check(void **state)
{
	(void)state;
	assert_false(unit_aborts(check_holds, NULL));
	assert_true(unit_aborts(check_breaks, NULL));
	assert_true(unit_aborts(check_not_reached, NULL));
}

static bool count_call(int *calls)
{
	(*calls)++;
	return true;
}

static void test_check_evaluates(void **state)
{
	int calls = 0;

	(void)state;
	CHECK(count_call(&calls));
	assert_int_equal(calls, 1);
	CHECK_SLOW(count_call(&calls));
#ifdef CENOTE_CHECK_SLOW
	assert_int_equal(calls, 2);
#else
	assert_int_equal(calls, 1);
#endif
}

static void test_min_max(void **state)
{
	int i = 3;

	(void)state;
	assert_int_equal(MIN(2, 1), 1);
	assert_int_equal(MAX(2, 1), 2);
	assert_int_equal(MIN(MIN(5, 4), MAX(3, 6)), 4);
	assert_int_equal(MAX(MAX(1, 9), MIN(7, 8)), 9);
	assert_int_equal(MIN(i++, 10), 3);
	assert_int_equal(MAX(i++, 0), 4);
	assert_int_equal(i, 5);
}

static void add_one(int **at)
{
	(**at)++;
}

static void test_cleanup(void **state)
{
	int ended = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		int *guard CLEANUP(add_one) = &ended;

		assert_int_equal(*guard, i);
	}
	assert_int_equal(ended, 3);
}

static void test_container_of(void **state)
{
	struct outer {
		int before;
		int inner;
	} outer = {1, 2};

	(void)state;
	assert_ptr_equal(container_of(&outer.inner, struct outer, inner), &outer);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_check),
	cmocka_unit_test(test_check_evaluates),
	cmocka_unit_test(test_min_max),
	cmocka_unit_test(test_cleanup),
	cmocka_unit_test(test_container_of),
};

UNIT_MAIN(tests)
