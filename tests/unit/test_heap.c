/*
 * Tests of base/heap.h: cases by hand, and random steps against an array of times.
 */
#include "base/heap.h"

#include "base/attr.h"
#include "base/rng.h"
#include "unit.h"

#define LIMIT 64

struct world {
	struct heap heap;
	struct heap_entry entries[LIMIT];
	uint32_t pos[LIMIT];
};

static void world_init(struct world *world, uint32_t limit)
{
	heap_init(&world->heap, world->entries, world->pos, limit);
}

static void test_empty(void **state)
{
	struct world world;
	uint32_t id = 77;

	(void)state;
	world_init(&world, LIMIT);
	assert_int_equal(world.heap.count, 0);
	assert_true(heap_min(&world.heap, &id) == UINT64_MAX);
	assert_int_equal(id, 77);
	heap_remove(&world.heap, 5);
	assert_true(heap_check(&world.heap));
	world_init(&world, 0);
	assert_true(heap_check(&world.heap));
}

static void test_set_and_change(void **state)
{
	struct world world;
	struct heap *heap = &world.heap;
	uint32_t id;

	(void)state;
	world_init(&world, LIMIT);
	heap_set(heap, 3, 300);
	heap_set(heap, 1, 100);
	heap_set(heap, 2, 200);
	assert_int_equal(heap_min(heap, &id), 100);
	assert_int_equal(id, 1);
	heap_set(heap, 1, 400);
	assert_int_equal(heap->count, 3);
	assert_int_equal(heap_min(heap, &id), 200);
	assert_int_equal(id, 2);
	heap_set(heap, 3, 50);
	assert_int_equal(heap_min(heap, NULL), 50);
	heap_remove(heap, 3);
	heap_remove(heap, 3);
	assert_false(heap_has(heap, 3));
	assert_true(heap_has(heap, 2));
	assert_int_equal(heap_min(heap, NULL), 200);
	assert_true(heap_check(heap));
}

static void test_ties_by_id(void **state)
{
	struct world world;
	uint32_t id;

	(void)state;
	world_init(&world, LIMIT);
	for (uint32_t i = 0; i < LIMIT; i++)
		heap_set(&world.heap, (i * 37 + 11) % LIMIT, 5);
	for (uint32_t i = 0; i < LIMIT; i++) {
		assert_int_equal(heap_min(&world.heap, &id), 5);
		assert_int_equal(id, i);
		heap_remove(&world.heap, id);
	}
	assert_int_equal(world.heap.count, 0);
}

/* The naive heap: a time for each id, UINT64_MAX for none. */
static uint64_t naive_min(const uint64_t *whens, uint32_t *ret_id)
{
	uint64_t best = UINT64_MAX;

	for (uint32_t id = 0; id < LIMIT; id++) {
		if (whens[id] < best) {
			best = whens[id];
			*ret_id = id;
		}
	}
	return best;
}

static void random_run(uint64_t seed)
{
	uint64_t whens[LIMIT];
	struct world world;
	struct rng rng;

	rng_init(&rng, seed);
	world_init(&world, LIMIT);
	for (uint32_t id = 0; id < LIMIT; id++)
		whens[id] = UINT64_MAX;

	for (int step = 0; step < 5000; step++) {
		uint32_t id = (uint32_t)rng_below(&rng, LIMIT);
		uint32_t naive_id = UINT32_MAX;

		if (rng_chance(&rng, 60)) {
			whens[id] = rng_below(&rng, 100);
			heap_set(&world.heap, id, whens[id]);
		} else {
			if (rng_chance(&rng, 50))
				(void)heap_min(&world.heap, &id);
			whens[id] = UINT64_MAX;
			heap_remove(&world.heap, id);
		}
		id = UINT32_MAX;
		assert_true(heap_check(&world.heap));
		assert_true(heap_min(&world.heap, &id) == naive_min(whens, &naive_id));
		assert_int_equal(id, naive_id);
	}
}

static void test_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++)
		random_run(seed);
}

static void test_check_sees_damage(void **state)
{
	struct world world;
	struct heap *heap = &world.heap;

	(void)state;
	world_init(&world, LIMIT);
	for (uint32_t id = 0; id < 10; id++)
		heap_set(heap, id, (uint64_t)id * 10);
	assert_true(heap_check(heap));
	heap->entries[0].when = 1000;
	assert_false(heap_check(heap));
	heap->entries[0].when = 0;
	heap->pos[4] = 1;
	assert_false(heap_check(heap));
	heap->pos[4] = 5;
	heap->pos[20] = 3;
	assert_false(heap_check(heap));
	heap->pos[20] = 0;
	assert_true(heap_check(heap));
}

static void set_out_of_range(void *arg)
{
	heap_set(arg, LIMIT, 1);
}

static void test_id_out_of_range_is_a_bug(void **state)
{
	struct world world;

	(void)state;
	world_init(&world, LIMIT);
	assert_true(unit_aborts(set_out_of_range, &world.heap));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_empty),
	cmocka_unit_test(test_set_and_change),
	cmocka_unit_test(test_ties_by_id),
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_check_sees_damage),
	cmocka_unit_test(test_id_out_of_range_is_a_bug),
};

UNIT_MAIN(tests)
