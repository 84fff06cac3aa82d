/*
 * Tests of base/list.h: each order of steps against the sequence of numbers it must
 * leave.
 */
#include "base/list.h"

#include "base/rng.h"
#include "unit.h"

#include <string.h>

struct item {
	struct list by_order;
	int number;
};

static struct item items[8];

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < (int)ARRAY_LEN(items); i++) {
		list_init(&items[i].by_order);
		items[i].number = i;
	}
	return 0;
}

static int number_of(struct list *at)
{
	return container_of(at, struct item, by_order)->number;
}

/* Forwards and, by way of prev, backwards. */
static void assert_list(struct list *head, const int *numbers, int count)
{
	struct list *last = head;
	int i = 0;

	list_for_each (at, head) {
		assert_true(i < count);
		assert_int_equal(number_of(at), numbers[i++]);
		assert_ptr_equal(at->prev, last);
		last = at;
	}
	assert_int_equal(i, count);
	assert_ptr_equal(head->prev, last);
	assert_int_equal(list_is_empty(head), count == 0);
	if (count == 0) {
		assert_null(list_first(head));
		assert_null(list_last(head));
	} else {
		assert_int_equal(number_of(list_first(head)), numbers[0]);
		assert_int_equal(number_of(list_last(head)), numbers[count - 1]);
	}
}

static void test_add(void **state)
{
	struct list head;

	(void)state;
	list_init(&head);
	assert_list(&head, NULL, 0);
	list_add_tail(&head, &items[0].by_order);
	list_add_tail(&head, &items[1].by_order);
	list_add_head(&head, &items[2].by_order);
	assert_list(&head, (int[]){2, 0, 1}, 3);
}

static void test_del(void **state)
{
	struct list head;

	(void)state;
	list_init(&head);
	for (int i = 0; i < 3; i++)
		list_add_tail(&head, &items[i].by_order);
	list_del(&items[1].by_order);
	assert_true(list_is_empty(&items[1].by_order));
	assert_list(&head, (int[]){0, 2}, 2);
	list_del(&items[1].by_order);
	assert_list(&head, (int[]){0, 2}, 2);
	list_del(&items[0].by_order);
	list_del(&items[2].by_order);
	assert_list(&head, NULL, 0);
}

static void test_move_tail(void **state)
{
	struct list a, b;

	(void)state;
	list_init(&a);
	list_init(&b);
	for (int i = 0; i < 3; i++)
		list_add_tail(&a, &items[i].by_order);
	list_move_tail(&a, &items[0].by_order);
	assert_list(&a, (int[]){1, 2, 0}, 3);
	list_move_tail(&a, &items[0].by_order);
	assert_list(&a, (int[]){1, 2, 0}, 3);
	list_move_tail(&b, &items[2].by_order);
	assert_list(&a, (int[]){1, 0}, 2);
	assert_list(&b, (int[]){2}, 1);
	list_move_tail(&b, &items[5].by_order);
	assert_list(&b, (int[]){2, 5}, 2);
}

static void test_delete_while_walking(void **state)
{
	struct list head;
	int seen = 0;

	(void)state;
	list_init(&head);
	for (int i = 0; i < 8; i++)
		list_add_tail(&head, &items[i].by_order);
	list_for_each_safe (at, &head) {
		seen++;
		if (number_of(at) % 2 == 0)
			list_del(at);
	}
	assert_int_equal(seen, 8);
	assert_list(&head, (int[]){1, 3, 5, 7}, 4);
	list_for_each_safe (at, &head)
		list_del(at);
	assert_list(&head, NULL, 0);
}

/* The naive list: an array. */
static void array_take(int *numbers, int *count, int number)
{
	for (int i = 0; i < *count; i++) {
		if (numbers[i] != number)
			continue;
		memmove(&numbers[i], &numbers[i + 1],
			(size_t)(*count - i - 1) * sizeof(*numbers));
		(*count)--;
		return;
	}
}

static void test_random(void **state)
{
	int numbers[ARRAY_LEN(items)] = {0};
	int count = 0;
	struct list head;
	struct rng rng;

	(void)state;
	list_init(&head);
	rng_init(&rng, 1);
	for (int step = 0; step < 20000; step++) {
		int number = (int)rng_below(&rng, ARRAY_LEN(items));
		struct list *entry = &items[number].by_order;

		array_take(numbers, &count, number);
		if (rng_chance(&rng, 40)) {
			list_del(entry);
		} else if (rng_chance(&rng, 50)) {
			list_move_tail(&head, entry);
			numbers[count++] = number;
		} else {
			list_del(entry);
			list_add_head(&head, entry);
			memmove(&numbers[1], numbers, (size_t)count * sizeof(*numbers));
			numbers[0] = number;
			count++;
		}
		assert_list(&head, numbers, count);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_add, setup),
	cmocka_unit_test_setup(test_del, setup),
	cmocka_unit_test_setup(test_move_tail, setup),
	cmocka_unit_test_setup(test_delete_while_walking, setup),
	cmocka_unit_test_setup(test_random, setup),
};

UNIT_MAIN(tests)
