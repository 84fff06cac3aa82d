/*
 * The lists, and the ghost: who is remembered, for how long, and through growth.
 */
#include "core/lru.h"

#include "base/hash.h"
#include "unit.h"

#include <stdlib.h>

static struct ghost_bucket *ghost_new(uint32_t nslots)
{
	struct ghost_bucket *ghost = calloc(
		1u << lru_ghost_log2(nslots), sizeof(struct ghost_bucket));

	assert_non_null(ghost);
	return ghost;
}

static void test_queue(void **state)
{
	struct object objects[4] = {0};
	struct object_queue queue;

	(void)state;
	object_queue_init(&queue);
	object_push_head(&queue, objects, 1);
	object_push_head(&queue, objects, 2);
	object_push_tail(&queue, objects, 3);
	assert_int_equal(queue.head, 2);
	assert_int_equal(queue.tail, 3);
	assert_int_equal(queue.count, 3);
	object_unlink(&queue, objects, 1);
	assert_int_equal(objects[2].next, 3);
	assert_int_equal(objects[3].prev, 2);
	object_unlink(&queue, objects, 2);
	assert_int_equal(queue.head, 3);
	object_unlink(&queue, objects, 3);
	assert_int_equal(queue.head, SLOT_NONE);
	assert_int_equal(queue.tail, SLOT_NONE);
	assert_int_equal(queue.count, 0);
}

static void test_ghost_within_the_distance(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(64);

	(void)state;
	lru_init(&lru, ghost, 64);
	assert_false(lru_ghost_take(&lru, 1ull << 32, 1000));
	lru_ghost_put(&lru, 1ull << 32, 4);
	lru_ghost_put(&lru, 2ull << 32, 10);
	/* 10 granules left after the first one did. */
	assert_true(lru_ghost_take(&lru, 1ull << 32, 10));
	assert_false(lru_ghost_take(&lru, 1ull << 32, 10)); /* forgotten */
	lru_ghost_put(&lru, 3ull << 32, 4);
	lru_ghost_put(&lru, 4ull << 32, 11);
	assert_false(lru_ghost_take(&lru, 3ull << 32, 10));
	free(ghost);
}

static void test_ghost_keeps_the_latest_of_a_key(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(64);

	(void)state;
	lru_init(&lru, ghost, 64);
	lru_ghost_put(&lru, 7ull << 32, 1);
	lru_ghost_put(&lru, 8ull << 32, 100);
	lru_ghost_put(&lru, 7ull << 32, 1);
	assert_true(lru_ghost_take(&lru, 7ull << 32, 0));
	assert_false(lru_ghost_take(&lru, 7ull << 32, 1000));
	free(ghost);
}

/* Nine keys of one bucket: the one that left first goes. */
static void test_ghost_replaces_the_oldest(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(64);
	uint32_t buckets = 1u << lru_ghost_log2(64);

	(void)state;
	lru_init(&lru, ghost, 64);
	for (uint64_t i = 1; i <= GHOST_WAYS + 1; i++)
		lru_ghost_put(&lru, (i * buckets) << 32, 1);
	assert_false(lru_ghost_take(&lru, (1ull * buckets) << 32, 1000));
	for (uint64_t i = 2; i <= GHOST_WAYS + 1; i++)
		assert_true(lru_ghost_take(&lru, (i * buckets) << 32, 1000));
	free(ghost);
}

static void test_ghost_grow_forgets_nothing(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(4096);
	uint32_t kept = 0;

	(void)state;
	lru_init(&lru, ghost, 64);
	for (uint64_t i = 0; i < 100; i++)
		lru_ghost_put(&lru, hash_key(&i, sizeof(i), 5), 1);
	lru_ghost_grow(&lru, 65);
	lru_ghost_grow(&lru, 4096);
	assert_int_equal(lru.ghost_log2, lru_ghost_log2(4096));
	for (uint64_t i = 0; i < 100; i++)
		kept += lru_ghost_take(&lru, hash_key(&i, sizeof(i), 5), 1000);
	/* 100 keys in 32 buckets of 8: at most a few overflowed before the growth. */
	assert_in_range(kept, 97, 100);
	free(ghost);
}

/* Four entries a slot: all of the keys that a cache of as many slots has just lost. */
static void test_ghost_holds_four_keys_a_slot(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(4096);
	uint32_t kept = 0;

	(void)state;
	lru_init(&lru, ghost, 4096);
	for (uint64_t i = 0; i < 8192; i++)
		lru_ghost_put(&lru, hash_key(&i, sizeof(i), 5), 1);
	for (uint64_t i = 0; i < 8192; i++)
		kept += lru_ghost_take(&lru, hash_key(&i, sizeof(i), 5), 8192);
	assert_in_range(kept, 8100, 8192);
	free(ghost);
}

/* The count of granules wraps after 1 TiB. */
static void test_ghost_wraps(void **state)
{
	struct lru lru;
	struct ghost_bucket *ghost = ghost_new(64);

	(void)state;
	lru_init(&lru, ghost, 64);
	lru.evicted = UINT32_MAX - 1;
	lru_ghost_put(&lru, 5ull << 32, 1);
	lru_ghost_put(&lru, 6ull << 32, 9);
	assert_int_equal(lru.evicted, 8);
	assert_true(lru_ghost_take(&lru, 5ull << 32, 9));
	free(ghost);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_queue),
	cmocka_unit_test(test_ghost_within_the_distance),
	cmocka_unit_test(test_ghost_keeps_the_latest_of_a_key),
	cmocka_unit_test(test_ghost_replaces_the_oldest),
	cmocka_unit_test(test_ghost_grow_forgets_nothing),
	cmocka_unit_test(test_ghost_holds_four_keys_a_slot),
	cmocka_unit_test(test_ghost_wraps),
};
UNIT_MAIN(tests)
