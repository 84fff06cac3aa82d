/*
 * Tests of tools/station_plan.h: the plan is the profile.
 */
#include "tools/station_plan.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define GIB (1ull << 30)
#define MIB (1ull << 20)

static struct station_plan make_plan(
	uint64_t pool, uint32_t ranks, uint32_t steps, uint32_t live, bool reads_once)
{
	struct station_plan plan = {.pool = pool,
		.seed = 5,
		.run = 0xabc,
		.ranks = ranks,
		.steps = steps,
		.live = live,
		.reads_once = reads_once};

	assert_true(station_plan_init(&plan));
	return plan;
}

static struct station_object *make_objects(const struct station_plan *plan)
{
	struct station_object *objects = calloc(
		station_plan_width(plan), sizeof(*objects));

	assert_non_null(objects);
	return objects;
}

/* The live bytes at the end of each step, by the plain definition. */
static uint64_t live_peak(const struct station_plan *plan)
{
	struct station_object *objects = make_objects(plan);
	uint64_t peak = 0;

	for (uint32_t now = 0; now < plan->steps; now++) {
		uint64_t live = 0;

		for (uint32_t step = 0; step <= now; step++) {
			uint32_t count = station_plan_step(plan, step, objects);

			for (uint32_t i = 0; i < count; i++) {
				if (now < step + objects[i].life)
					live += objects[i].size;
			}
		}
		peak = MAX(peak, live);
	}
	free(objects);
	return peak;
}

static void test_peak(void **state)
{
	static const struct {
		uint64_t pool;
		uint32_t ranks, steps, live;
		bool once;
	} cases[] = {
		{GIB, 8, 50, 700, false},
		{GIB, 8, 50, 950, false},
		{GIB, 8, 30, 2000, false},
		{64 * MIB, 2, 45, 700, false},
		{64 * GIB, 8, 25, 700, false},
		{30 * GIB, 64, 21, 900, false},
		{512 * MIB, 8, 60, 950, true},
		{512 * MIB, 8, 60, 2000, true},
		{256 * MIB, 1, 1, 500, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct station_plan plan = make_plan(cases[i].pool, cases[i].ranks,
			cases[i].steps, cases[i].live, cases[i].once);
		uint64_t asked = cases[i].pool / 1000 * cases[i].live;

		assert_true(plan.peak == live_peak(&plan));
		/* Of one step, all objects may be as large as they may be. */
		if (cases[i].steps == 1)
			continue;
		assert_true(plan.peak <= asked + cases[i].live);
		assert_true(plan.peak >= asked - asked / 100);
	}
}

static void test_counts(void **state)
{
	struct station_plan plan = make_plan(GIB, 8, 60, 700, false);
	struct station_object *objects = make_objects(&plan);

	(void)state;
	for (uint32_t step = 0; step < plan.steps; step++) {
		uint32_t count = station_plan_step(&plan, step, objects);
		uint32_t of[8][STATION_KINDS] = {{0}};

		for (uint32_t i = 0; i < count; i++)
			of[objects[i].owner][objects[i].kind]++;
		for (uint32_t rank = 0; rank < 8; rank++) {
			assert_int_equal(of[rank][STATION_SMALL], 31);
			assert_int_equal(of[rank][STATION_PAYLOAD], 3);
			assert_int_equal(of[rank][STATION_BATCH], step % 8 == rank);
			assert_int_equal(of[rank][STATION_WEIGHTS],
				step % 20 == 0 && step / 20 % 8 == rank);
		}
	}
	assert_int_equal(station_plan_step(&plan, plan.steps, objects), 0);
	free(objects);
}

/* Within the profile's bounds, all of them by one scale. */
static void test_sizes(void **state)
{
	struct station_plan plan = make_plan(8 * GIB, 8, 200, 700, false);
	struct station_object *objects = make_objects(&plan);
	const double low[] = {256, 10 * 1048576.0, 0.15 * 8 * GIB, 0.20 * 8 * GIB};
	const double high[] = {10240, 13 * 1048576.0, 0.40 * 8 * GIB, 0.40 * 8 * GIB};
	double scale = (double)plan.scale / 4294967296.0;
	double least[STATION_KINDS], most[STATION_KINDS] = {0};

	(void)state;
	for (unsigned kind = 0; kind < STATION_KINDS; kind++)
		least[kind] = 1e18;
	for (uint32_t step = 0; step < plan.steps; step++) {
		uint32_t count = station_plan_step(&plan, step, objects);

		for (uint32_t i = 0; i < count; i++) {
			double size = (double)objects[i].size;

			assert_true(size <= 0.4 * 8 * GIB);
			least[objects[i].kind] = MIN(least[objects[i].kind], size);
			most[objects[i].kind] = MAX(most[objects[i].kind], size);
		}
	}
	for (unsigned kind = 0; kind < STATION_KINDS; kind++) {
		double spread = (high[kind] - low[kind]) * scale;
		double slack = kind == STATION_WEIGHTS ? 0.5 : 0.1;

		assert_true(least[kind] >= low[kind] * scale - 1);
		assert_true(most[kind] <= high[kind] * scale + 1);
		assert_true(least[kind] <= low[kind] * scale + slack * spread);
		assert_true(most[kind] >= high[kind] * scale - slack * spread);
	}
	free(objects);
}

static void test_none_above_its_share(void **state)
{
	(void)state;
	for (int once = 0; once < 2; once++) {
		struct station_plan plan = make_plan(GIB, 8, 30, 2000, once);
		struct station_object *objects = make_objects(&plan);
		uint64_t most = 0;

		for (uint32_t step = 0; step < plan.steps; step++) {
			uint32_t count = station_plan_step(&plan, step, objects);

			for (uint32_t i = 0; i < count; i++)
				most = MAX(most, objects[i].size);
		}
		assert_true(most <= GIB / 10 * 4 + 1);
		free(objects);
	}
}

/* Read once or twice by each of its readers, within two steps, and before its removal. */
static void check_reads(
	const struct station_plan *plan, const struct station_object *object)
{
	for (uint32_t i = 0; i < object->reader_count; i++) {
		const struct station_reader *reader = &object->readers[i];
		unsigned reads = reader->reads[0] + reader->reads[1];

		assert_true(reader->rank < plan->ranks);
		assert_true(reads >= 1 && reads <= (plan->reads_once ? 1 : 2));
		if (object->life == 1)
			assert_int_equal(reader->reads[1], 0);
		/* In the order of the puts. */
		if (plan->reads_once)
			assert_int_equal(reader->reads[0], 0);
		for (uint32_t other = 0; other < i; other++)
			assert_int_not_equal(object->readers[other].rank, reader->rank);
	}
}

static void test_reads_and_lives(void **state)
{
	(void)state;
	for (int once = 0; once < 2; once++) {
		struct station_plan plan = make_plan(GIB, 8, 41, 700, once);
		struct station_object *objects = make_objects(&plan);
		unsigned readers[STATION_READERS_MAX + 1] = {0},
						       lives[STATION_LIFE_MAX + 1] = {0};

		for (uint32_t step = 0; step < plan.steps; step++) {
			uint32_t count = station_plan_step(&plan, step, objects);

			for (uint32_t i = 0; i < count; i++) {
				check_reads(&plan, &objects[i]);
				readers[objects[i].reader_count]++;
				if (objects[i].kind == STATION_WEIGHTS)
					assert_int_equal(
						objects[i].life, step < 40 ? 20 : 2);
				else
					lives[objects[i].life]++;
			}
		}
		assert_int_equal(readers[0], 0);
		assert_true(readers[1] > 0);
		for (unsigned i = 2; i <= STATION_READERS_MAX; i++)
			assert_int_equal(readers[i] > 0, !once);
		assert_int_equal(lives[0], 0);
		assert_int_equal(lives[1] > 0, !once);
		for (unsigned i = 2; i <= STATION_LIFE_MAX; i++)
			assert_true(lives[i] > 0);
		free(objects);
	}
}

static void test_order(void **state)
{
	struct station_plan plan = make_plan(GIB, 5, 21, 700, false);
	struct station_object *objects = make_objects(&plan);

	(void)state;
	for (uint32_t step = 0; step < plan.steps; step++) {
		uint32_t count = station_plan_step(&plan, step, objects);

		assert_true(count <= station_plan_width(&plan));
		for (uint32_t i = 1; i < count; i++) {
			const struct station_object *a = &objects[i - 1],
						    *b = &objects[i];

			assert_true(a->sequence < b->sequence ||
				    (a->sequence == b->sequence && a->owner < b->owner));
		}
	}
	free(objects);
}

static void test_repeats(void **state)
{
	struct station_plan one = make_plan(GIB, 8, 30, 700, false);
	struct station_plan two = make_plan(GIB, 8, 30, 700, false);
	struct station_plan other = one;
	struct station_object *a = make_objects(&one), *b = make_objects(&one);

	(void)state;
	other.seed++;
	assert_true(station_plan_init(&other));
	assert_true(one.scale == two.scale && one.peak == two.peak);
	/* Any step, without those before it. */
	for (uint32_t step = 30; step-- > 0;) {
		uint32_t count = station_plan_step(&one, step, a);

		assert_int_equal(station_plan_step(&two, step, b), count);
		assert_memory_equal(a, b, count * sizeof(*a));
		(void)station_plan_step(&other, step, b);
		assert_memory_not_equal(a, b, count * sizeof(*a));
	}
	free(a);
	free(b);
}

/* No two objects that live at one time have the same key; and one key's successive
 * objects have other bytes. */
static void test_keys(void **state)
{
	enum {
		RECENT = 4
	};
	struct station_plan plan = make_plan(GIB, 3, 25, 700, false);
	struct station_object *recent[RECENT];
	uint32_t counts[RECENT] = {0};

	(void)state;
	for (unsigned i = 0; i < RECENT; i++)
		recent[i] = make_objects(&plan);
	for (uint32_t step = 0; step < plan.steps; step++) {
		counts[step % RECENT] = station_plan_step(
			&plan, step, recent[step % RECENT]);
		for (uint32_t i = 0; i < counts[step % RECENT]; i++) {
			char key[STATION_KEY_MAX], there[STATION_KEY_MAX];

			(void)station_object_key(&plan, &recent[step % RECENT][i], key);
			for (unsigned at = 0; at < RECENT; at++) {
				for (uint32_t j = 0; j < counts[at]; j++) {
					const struct station_object *object =
						&recent[at][j];

					if ((at == step % RECENT && i == j) ||
						object->step + object->life <= step)
						continue;
					(void)station_object_key(&plan, object, there);
					assert_string_not_equal(key, there);
				}
			}
		}
	}
	for (unsigned i = 0; i < RECENT; i++)
		free(recent[i]);
}

static void test_seeds_differ(void **state)
{
	struct station_plan plan = make_plan(GIB, 2, 10, 700, false);
	struct station_object object = {.owner = 1, .sequence = 3, .step = 1};
	char key[STATION_KEY_MAX], again[STATION_KEY_MAX];
	size_t size = station_object_key(&plan, &object, key);
	uint64_t seed = station_object_seed(&plan, &object, key, size);

	(void)state;
	object.step += 4;
	assert_int_equal(station_object_key(&plan, &object, again), size);
	assert_string_equal(key, again);
	assert_true(station_object_seed(&plan, &object, again, size) != seed);
}

static void test_single(void **state)
{
	struct station_plan plan = make_plan(GIB, 8, 4, 700, false);
	struct station_object single;

	(void)state;
	assert_true(station_plan_find_single(&plan, &single));
	assert_int_equal(single.reader_count, 1);
	assert_int_equal(single.readers[0].reads[0] + single.readers[0].reads[1], 1);
	assert_int_equal(single.step, 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_peak),
	cmocka_unit_test(test_counts),
	cmocka_unit_test(test_sizes),
	cmocka_unit_test(test_none_above_its_share),
	cmocka_unit_test(test_reads_and_lives),
	cmocka_unit_test(test_order),
	cmocka_unit_test(test_repeats),
	cmocka_unit_test(test_keys),
	cmocka_unit_test(test_seeds_differ),
	cmocka_unit_test(test_single),
};

UNIT_MAIN(tests)
