/*
 * The allocator against hand-made layouts, against a naive model that keeps one number
 * for each granule, and under the loads that textbook TLSF fails.
 */
#include "core/extent.h"

#include "base/attr.h"
#include "base/rng.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE 256u
#define KIB     1024ull
#define MIB     (1024 * KIB)
#define GIB     (1024 * MIB)

/* The cases count in granules. */
static uint64_t bytes(uint64_t granules)
{
	return granules * GRANULE;
}

static uint32_t off_of(const struct extent_map *map, uint32_t rec)
{
	return extent_record(map, rec)->off;
}

struct fixture {
	struct extent_map map;
	struct extent *records;
	uint32_t limit;
};

static void fixture_open(struct fixture *fix, uint64_t granules, uint32_t runs)
{
	fix->limit = EXTENT_RECORDS(runs);
	fix->records = malloc(fix->limit * sizeof(fix->records[0]));
	assert_non_null(fix->records);
	memset(fix->records, 0xa5, fix->limit * sizeof(fix->records[0]));
	extent_map_init(&fix->map, fix->records, fix->limit, bytes(granules), GRANULE);
	assert_true(extent_map_check(&fix->map));
}

/* Records that were never needed are as they came. */
static void fixture_close(struct fixture *fix)
{
	const uint8_t *from = (const uint8_t *)&fix->records[fix->map.high];
	const uint8_t *end = (const uint8_t *)&fix->records[fix->limit];

	assert_true(extent_map_check(&fix->map));
	for (; from < end; from++)
		assert_int_equal(*from, 0xa5);
	free(fix->records);
}

static uint32_t place(struct fixture *fix, uint64_t off, uint64_t size)
{
	uint32_t rec = extent_alloc_at(&fix->map, bytes(off), bytes(size), 1);

	assert_true(extent_map_check(&fix->map));
	return rec;
}

static uint32_t alloc(struct fixture *fix, uint64_t size, uint64_t align)
{
	uint32_t rec = extent_alloc(&fix->map, bytes(size), bytes(align), 1);

	assert_true(extent_map_check(&fix->map));
	return rec;
}

static void release(struct fixture *fix, uint32_t rec)
{
	extent_free(&fix->map, rec);
	assert_true(extent_map_check(&fix->map));
}

static uint32_t take(
	struct fixture *fix, enum extent_window which, uint64_t off, uint64_t size)
{
	uint32_t rec = extent_window_take(&fix->map, which, bytes(off), bytes(size), 1);

	assert_true(extent_map_check(&fix->map));
	return rec;
}

/* The layout as text, "U4 F12 W8": kind and granules of each block by address. */
static void assert_layout(const struct fixture *fix, const char *want)
{
	static const char letters[] = "?FUW";
	char text[256] = "";
	size_t length = 0;
	uint32_t rec = extent_first(&fix->map);

	for (; rec != EXTENT_NONE; rec = extent_next(&fix->map, rec)) {
		const struct extent *block = extent_record(&fix->map, rec);

		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%c%u",
			length > 0 ? " " : "", letters[block->kind], block->size);
		assert_true(length < sizeof(text));
	}
	assert_string_equal(text, want);
}

static void test_whole_space(void **state)
{
	struct fixture fix;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 1000, 4);
	assert_int_equal(extent_largest_fit(&fix.map, 1), bytes(1000));
	rec = alloc(&fix, 1000, 4096);
	assert_int_equal(rec, 0);
	assert_int_equal(extent_off_bytes(&fix.map, rec), 0);
	assert_int_equal(extent_size_bytes(&fix.map, rec), bytes(1000));
	assert_int_equal(extent_record(&fix.map, rec)->owner, 1);
	assert_int_equal(extent_total_bytes(&fix.map, EXTENT_FREE), 0);
	assert_int_equal(extent_largest_fit(&fix.map, 1), 0);
	assert_int_equal(alloc(&fix, 1, 1), EXTENT_NONE);
	release(&fix, rec);
	assert_layout(&fix, "F1000");
	assert_int_equal(fix.map.high, 1);
	fixture_close(&fix);
}

static void test_sizes_round_up(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;

	(void)state;
	fixture_open(&fix, 100, 10);
	assert_int_not_equal(extent_alloc(map, 0, 1, 1), EXTENT_NONE);
	assert_int_not_equal(extent_alloc(map, 1, 1, 1), EXTENT_NONE);
	assert_int_not_equal(extent_alloc(map, GRANULE, 1, 1), EXTENT_NONE);
	assert_int_not_equal(extent_alloc(map, GRANULE + 1, 1, 1), EXTENT_NONE);
	assert_layout(&fix, "U1 U1 U1 U2 F95");
	assert_int_equal(extent_alloc(map, bytes(95) + 1, 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc(map, bytes(1ull << 32), 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc(map, UINT64_MAX, 1, 1), EXTENT_NONE);
	assert_int_not_equal(extent_alloc(map, bytes(95) - 1, 1, 1), EXTENT_NONE);
	assert_layout(&fix, "U1 U1 U1 U2 U95");
	fixture_close(&fix);
}

static void test_largest_space(void **state)
{
	struct fixture fix;
	uint64_t most = UINT32_MAX - 1ull;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, most, 4);
	rec = alloc(&fix, most, 1);
	assert_int_not_equal(rec, EXTENT_NONE);
	release(&fix, rec);
	assert_int_not_equal(place(&fix, most - 1, 1), EXTENT_NONE);
	assert_int_equal(extent_largest_fit(&fix.map, 1), bytes(most - 1));
	rec = alloc(&fix, 1ull << 31, bytes(1ull << 31));
	assert_int_equal(off_of(&fix.map, rec), 0);
	assert_int_equal(alloc(&fix, 1ull << 31, 1ull << 31), EXTENT_NONE);
	assert_int_not_equal(alloc(&fix, (1ull << 31) - 3, 1ull << 31), EXTENT_NONE);
	assert_layout(&fix, "U2147483648 U2147483645 U1");
	fixture_close(&fix);
}

static void test_round(void **state)
{
	uint64_t align = 0;

	(void)state;
	assert_int_equal(extent_round(1, &align), 256);
	assert_int_equal(align, 256);
	assert_int_equal(extent_round(16383, &align), 16384);
	assert_int_equal(align, 256);
	assert_int_equal(extent_round(16384, &align), 16384);
	assert_int_equal(align, 4096);
	assert_int_equal(extent_round(16385, &align), 20480);
	assert_true(extent_round(UINT64_MAX - 4096, &align) >= UINT64_MAX - 4096);
	assert_true(extent_round(UINT64_MAX, &align) == UINT64_MAX);
}

static void test_alignment_leaves_front_free(void **state)
{
	struct fixture fix;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 100, 10);
	alloc(&fix, 3, 1);
	rec = alloc(&fix, 20, 16);
	assert_int_equal(off_of(&fix.map, rec), 16);
	assert_layout(&fix, "U3 F13 U20 F64");
	assert_int_equal(extent_largest_fit(&fix.map, bytes(16)), bytes(52));
	assert_int_equal(extent_largest_fit(&fix.map, bytes(64)), bytes(36));
	assert_int_equal(extent_largest_fit(&fix.map, bytes(128)), 0);
	assert_int_equal(extent_largest_fit(&fix.map, 1), bytes(64));
	release(&fix, rec);
	assert_layout(&fix, "U3 F97");
	fixture_close(&fix);
}

/* An aligned hole of exactly the size is taken before a better listed larger one. */
static void test_exact_aligned_hole_is_taken(void **state)
{
	struct fixture fix;
	uint32_t hole, rec;

	(void)state;
	fixture_open(&fix, 4000, 10);
	place(&fix, 0, 1024);
	hole = place(&fix, 1024, 1040); /* bin 1024..1055 */
	place(&fix, 2064, 16);
	rec = place(&fix, 2080, 1055); /* the same bin, aligned too, but larger */
	place(&fix, 3135, 1);
	release(&fix, hole);
	release(&fix, rec); /* now the head of the list */
	rec = alloc(&fix, 1040, 16);
	assert_int_equal(off_of(&fix.map, rec), 1024);
	assert_layout(&fix, "U1024 U1040 U16 F1055 U1 F864");
	fixture_close(&fix);
}

/*
 * An aligned hole of the right size at 0, behind `misfits` that are listed before it, and
 * a larger hole if asked for. Returns where 16 aligned granules are put.
 */
static uint32_t placed_behind(uint32_t misfits, bool larger)
{
	struct fixture fix;
	uint32_t recs[100];
	uint32_t good, rec, off;

	assert_true(misfits <= ARRAY_LEN(recs));
	fixture_open(&fix, 33 + misfits * 32 + 64, 2 * misfits + 4);
	good = place(&fix, 0, 16);
	place(&fix, 16, 17);
	for (uint32_t i = 0; i < misfits; i++) {
		recs[i] = place(&fix, 33 + 32 * i, 16);
		place(&fix, 49 + 32 * i, 16);
	}
	if (!larger)
		place(&fix, 33 + 32 * misfits, 64);
	release(&fix, good);
	for (uint32_t i = 0; i < misfits; i++)
		release(&fix, recs[i]);
	rec = alloc(&fix, 16, 16);
	assert_int_not_equal(rec, EXTENT_NONE);
	off = off_of(&fix.map, rec);
	if (!larger) {
		assert_int_equal(extent_largest_fit(&fix.map, bytes(16)), bytes(1));
		assert_int_equal(alloc(&fix, 16, 16), EXTENT_NONE);
	}
	fixture_close(&fix);
	return off;
}

/* 16 looks in the own bin, then a larger hole; the rest of the list if there is none.
 */
static void test_fit_behind_misfits(void **state)
{
	(void)state;
	assert_int_equal(placed_behind(15, true), 0);
	assert_true(placed_behind(16, true) > 33 + 32 * 16);
	assert_int_equal(placed_behind(15, false), 0);
	assert_int_equal(placed_behind(16, false), 0);
	assert_int_equal(placed_behind(100, false), 0);
}

/* What was refused is found once a free has made room, and other requests are not. */
static void test_refused_until_room(void **state)
{
	struct fixture fix;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 64, 10);
	place(&fix, 0, 1);
	rec = place(&fix, 1, 16);
	place(&fix, 41, 23);
	assert_int_equal(alloc(&fix, 16, 16), EXTENT_NONE);
	assert_int_equal(alloc(&fix, 16, 16), EXTENT_NONE);
	assert_int_equal(alloc(&fix, 17, 32), EXTENT_NONE);
	assert_int_not_equal(fix.map.refused_size, EXTENT_NONE);
	assert_int_not_equal(alloc(&fix, 9, 16), EXTENT_NONE);
	assert_layout(&fix, "U1 U16 F15 U9 U23");
	release(&fix, rec);
	assert_int_equal(off_of(&fix.map, alloc(&fix, 16, 16)), 16);
	assert_layout(&fix, "U1 F15 U16 U9 U23");
	fixture_close(&fix);
}

static void test_free_merges(void **state)
{
	static const char *const want[] = {"U8 F8 U8 F8", "F16 U8 F8", "U8 F24", "F32"};
	struct fixture fix;

	(void)state;
	for (uint32_t combo = 0; combo < 4; combo++) {
		uint32_t recs[3];

		fixture_open(&fix, 32, 10);
		for (uint32_t i = 0; i < 3; i++)
			recs[i] = alloc(&fix, 8, 1);
		if (combo & 1)
			release(&fix, recs[0]);
		if (combo & 2)
			release(&fix, recs[2]);
		release(&fix, recs[1]);
		assert_layout(&fix, want[combo]);
		assert_int_equal(extent_total_count(&fix.map, EXTENT_USED),
			3 - 1 - (combo & 1) - (combo >> 1));
		fixture_close(&fix);
	}
}

static void test_alloc_at(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;

	(void)state;
	fixture_open(&fix, 100, 10);
	assert_int_equal(off_of(map, place(&fix, 40, 20)), 40);
	assert_layout(&fix, "F40 U20 F40");
	assert_int_equal(place(&fix, 40, 20), EXTENT_NONE);
	assert_int_equal(place(&fix, 39, 2), EXTENT_NONE);
	assert_int_equal(place(&fix, 59, 2), EXTENT_NONE);
	assert_int_equal(place(&fix, 30, 40), EXTENT_NONE);
	assert_int_equal(place(&fix, 45, 1), EXTENT_NONE);
	assert_int_equal(place(&fix, 99, 2), EXTENT_NONE);
	assert_int_equal(place(&fix, 100, 1), EXTENT_NONE);
	assert_int_equal(place(&fix, 0, 101), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, 1, 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, bytes(60) + 255, 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, UINT64_MAX, 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, 0, UINT64_MAX, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, bytes(1ull << 32), 1, 1), EXTENT_NONE);
	assert_int_equal(extent_alloc_at(map, bytes(1ull << 55), 1, 1), EXTENT_NONE);
	assert_layout(&fix, "F40 U20 F40");
	assert_int_not_equal(place(&fix, 0, 40), EXTENT_NONE);
	assert_int_not_equal(place(&fix, 99, 1), EXTENT_NONE);
	assert_int_not_equal(extent_alloc_at(map, bytes(60), 300, 1), EXTENT_NONE);
	assert_layout(&fix, "U40 U20 U2 F37 U1");
	fixture_close(&fix);
}

/* A second map made from the runs of the first, in either order, is the same. */
static void test_rebuild(void **state)
{
	struct fixture old, up, down;
	struct rng rng;
	uint32_t recs[300];

	(void)state;
	rng_init(&rng, 11);
	fixture_open(&old, 5000, 300);
	for (uint32_t i = 0; i < 300; i++)
		recs[i] = alloc(&old, 1 + rng_below(&rng, 30), 1);
	for (uint32_t i = 0; i < 300; i++) {
		if (recs[i] != EXTENT_NONE && rng_chance(&rng, 40))
			release(&old, recs[i]);
	}
	fixture_open(&up, 5000, 300);
	fixture_open(&down, 5000, 300);
	for (uint32_t rec = extent_first(&old.map); rec != EXTENT_NONE;
		rec = extent_next(&old.map, rec)) {
		const struct extent *block = extent_record(&old.map, rec);

		if (block->kind == EXTENT_USED)
			assert_int_not_equal(
				place(&up, block->off, block->size), EXTENT_NONE);
	}
	for (uint32_t rec = old.map.last; rec != EXTENT_NONE;
		rec = extent_prev(&old.map, rec)) {
		const struct extent *block = extent_record(&old.map, rec);

		if (block->kind == EXTENT_USED)
			assert_int_not_equal(
				place(&down, block->off, block->size), EXTENT_NONE);
	}
	for (uint32_t a = 0, b = 0, c = 0; a != EXTENT_NONE; a = extent_next(&old.map, a),
		      b = extent_next(&up.map, b), c = extent_next(&down.map, c)) {
		const struct extent *block = extent_record(&old.map, a);

		assert_int_equal(extent_record(&up.map, b)->off, block->off);
		assert_int_equal(extent_record(&up.map, b)->kind, block->kind);
		assert_int_equal(extent_record(&down.map, c)->off, block->off);
		assert_int_equal(extent_record(&down.map, c)->kind, block->kind);
	}
	fixture_close(&old);
	fixture_close(&up);
	fixture_close(&down);
}

/* With n runs in the worst layout, and windows whose edges cut four holes, all records are
 * used, and one more run is refused without a change, wherever it is asked for. */
static void test_records_exhausted(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	struct extent before[EXTENT_RECORDS(5)];

	(void)state;
	fixture_open(&fix, 220, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_not_equal(place(&fix, 20 + 40 * i, 20), EXTENT_NONE);
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(10), bytes(80));
	extent_window_open(map, EXTENT_TURNING, 0, bytes(130), bytes(80));
	assert_true(extent_map_check(map));
	assert_layout(
		&fix, "F10 W10 U20 W20 U20 W10 F10 U20 F10 W10 U20 W20 U20 W10 F10");
	assert_int_equal(map->high, map->limit);
	memcpy(before, fix.records, sizeof(before));
	assert_int_equal(extent_largest_fit(map, 1), 0);
	assert_int_equal(alloc(&fix, 1, 1), EXTENT_NONE);
	assert_int_equal(place(&fix, 0, 1), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 130, 1), EXTENT_NONE);
	assert_int_equal(
		extent_split(map, extent_next(map, map->windows[0].first), bytes(1), 1),
		EXTENT_NONE);
	extent_window_close(map, EXTENT_CLEARING);
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(42), bytes(10));
	memcpy(before, fix.records, sizeof(before));
	assert_int_equal(extent_window_claim(map, bytes(4), 1, 1), EXTENT_NONE);
	assert_true(extent_window_is_open(map, EXTENT_CLEARING));
	assert_memory_equal(before, fix.records, sizeof(before));
	extent_window_close(map, EXTENT_CLEARING);
	extent_window_close(map, EXTENT_TURNING);
	assert_layout(&fix, "F20 U20 F20 U20 F20 U20 F20 U20 F20 U20 F20");
	release(&fix, extent_next(map, 0));
	assert_int_equal(extent_largest_fit(map, 1), bytes(60));
	assert_int_not_equal(alloc(&fix, 60, 1), EXTENT_NONE);
	fixture_close(&fix);
}

static void test_window_withholds(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	uint32_t left, inside, right;

	(void)state;
	fixture_open(&fix, 100, 10);
	left = place(&fix, 10, 10);
	inside = place(&fix, 50, 10);
	right = place(&fix, 80, 10);
	assert_false(extent_window_is_open(map, EXTENT_CLEARING));
	extent_window_open(map, EXTENT_CLEARING, right, bytes(30), bytes(40));
	assert_true(extent_map_check(map));
	assert_true(extent_window_is_open(map, EXTENT_CLEARING));
	assert_layout(&fix, "F10 U10 F10 W20 U10 W10 F10 U10 F10");
	assert_int_equal(extent_window_missing(map, EXTENT_CLEARING), bytes(10));
	assert_true(extent_in_window(map, EXTENT_CLEARING, inside));
	assert_false(extent_in_window(map, EXTENT_CLEARING, left));
	assert_int_equal(extent_total_bytes(map, EXTENT_WITHHELD), bytes(30));
	assert_int_equal(extent_largest_fit(map, 1), bytes(10));
	assert_int_equal(alloc(&fix, 11, 1), EXTENT_NONE);
	assert_int_equal(place(&fix, 30, 5), EXTENT_NONE);
	assert_int_equal(place(&fix, 25, 10), EXTENT_NONE);

	/* Frees merge up to the edges and no further. */
	release(&fix, left);
	assert_layout(&fix, "F30 W20 U10 W10 F10 U10 F10");
	release(&fix, right);
	assert_layout(&fix, "F30 W20 U10 W10 F30");
	release(&fix, inside);
	assert_layout(&fix, "F30 W40 F30");
	assert_int_equal(extent_window_missing(map, EXTENT_CLEARING), 0);
	extent_window_close(map, EXTENT_CLEARING);
	assert_layout(&fix, "F100");
	fixture_close(&fix);
}

/* Runs that are left inside stay, and what was withheld merges over both edges. */
static void test_window_close_unfinished(void **state)
{
	struct fixture fix;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 100, 10);
	rec = place(&fix, 40, 10);
	place(&fix, 55, 5);
	extent_window_open(&fix.map, EXTENT_CLEARING, 0, bytes(20), bytes(60));
	release(&fix, rec);
	assert_layout(&fix, "F20 W35 U5 W20 F20");
	assert_int_equal(extent_window_missing(&fix.map, EXTENT_CLEARING), bytes(5));
	extent_window_close(&fix.map, EXTENT_CLEARING);
	assert_layout(&fix, "F55 U5 F40");
	fixture_close(&fix);
}

static void test_window_claim(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 100, 10);
	place(&fix, 0, 5);
	rec = place(&fix, 30, 10);
	extent_window_open(map, EXTENT_CLEARING, rec, bytes(20), bytes(40));
	release(&fix, rec);
	assert_layout(&fix, "U5 F15 W40 F40");
	rec = extent_window_claim(map, bytes(16), bytes(16), 77);
	assert_int_equal(off_of(map, rec), 32);
	assert_int_equal(extent_record(map, rec)->owner, 77);
	assert_false(extent_window_is_open(map, EXTENT_CLEARING));
	assert_layout(&fix, "U5 F27 U16 F52");
	assert_true(extent_map_check(map));

	/* All of it, from the start of the space to its end. */
	release(&fix, rec);
	release(&fix, extent_first(map));
	extent_window_open(map, EXTENT_CLEARING, 0, 0, bytes(100));
	assert_layout(&fix, "W100");
	assert_int_equal(alloc(&fix, 1, 1), EXTENT_NONE);
	rec = extent_window_claim(map, bytes(100), bytes(4096), 78);
	assert_int_equal(rec, 0);
	assert_layout(&fix, "U100");

	/* A window that is one used run. */
	extent_window_open(map, EXTENT_CLEARING, 0, 0, bytes(100));
	assert_int_equal(extent_window_missing(map, EXTENT_CLEARING), bytes(100));
	release(&fix, 0);
	assert_layout(&fix, "W100");
	extent_window_close(map, EXTENT_CLEARING);
	assert_layout(&fix, "F100");
	fixture_close(&fix);
}

/* A hole that reaches over both edges is cut twice. */
static void test_window_inside_one_hole(void **state)
{
	struct fixture fix;

	(void)state;
	fixture_open(&fix, 100, 10);
	extent_window_open(&fix.map, EXTENT_CLEARING, 0, bytes(40), bytes(20));
	assert_layout(&fix, "F40 W20 F40");
	assert_int_not_equal(alloc(&fix, 40, 1), EXTENT_NONE);
	assert_int_not_equal(alloc(&fix, 40, 1), EXTENT_NONE);
	assert_layout(&fix, "U40 W20 U40");
	assert_int_equal(alloc(&fix, 1, 1), EXTENT_NONE);
	assert_int_not_equal(extent_window_claim(&fix.map, bytes(20), 1, 1), EXTENT_NONE);
	assert_layout(&fix, "U40 U20 U40");
	fixture_close(&fix);
}

/* Holes on the two sides of a common edge stay two, and each window lives by itself. */
static void test_adjacent_windows(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	uint32_t left, right;

	(void)state;
	fixture_open(&fix, 100, 10);
	left = place(&fix, 40, 10);
	right = place(&fix, 50, 10);
	extent_window_open(map, EXTENT_TURNING, 0, bytes(50), bytes(50));
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(20), bytes(30));
	assert_layout(&fix, "F20 W20 U10 U10 W40");
	assert_int_equal(extent_window_first(map, EXTENT_TURNING), right);
	assert_int_equal(extent_window_missing(map, EXTENT_CLEARING), bytes(10));
	assert_int_equal(extent_window_missing(map, EXTENT_TURNING), bytes(10));
	assert_true(extent_in_window(map, EXTENT_TURNING, right));
	assert_false(extent_in_window(map, EXTENT_CLEARING, right));
	assert_false(extent_in_window(map, EXTENT_TURNING, left));
	release(&fix, left);
	release(&fix, right);
	assert_layout(&fix, "F20 W30 W50");
	assert_int_equal(extent_largest_fit(map, 1), bytes(20));
	extent_window_close(map, EXTENT_CLEARING);
	assert_true(extent_map_check(map));
	assert_layout(&fix, "F50 W50");
	assert_int_equal(extent_window_off(map, EXTENT_TURNING), bytes(50));
	assert_int_equal(extent_window_end(map, EXTENT_TURNING), bytes(100));
	assert_int_equal(extent_window_end(map, EXTENT_CLEARING), 0);

	extent_window_open(map, EXTENT_CLEARING, 0, bytes(10), bytes(40));
	assert_int_equal(extent_window_claim(map, bytes(40), 1, 1),
		extent_prev(map, extent_window_first(map, EXTENT_TURNING)));
	assert_layout(&fix, "F10 U40 W50");
	extent_window_close(map, EXTENT_TURNING);
	assert_true(extent_map_check(map));
	assert_layout(&fix, "F10 U40 F50");
	fixture_close(&fix);
}

static void test_window_take(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	uint32_t rec;

	(void)state;
	fixture_open(&fix, 100, 10);
	place(&fix, 70, 10);
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(20), bytes(20));
	extent_window_open(map, EXTENT_TURNING, 0, bytes(40), bytes(50));
	assert_layout(&fix, "F20 W20 W30 U10 W10 F10");

	/* Outside, over an edge, over a run, and what no space could have. */
	assert_int_equal(take(&fix, EXTENT_TURNING, 39, 1), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 39, 2), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_CLEARING, 39, 2), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 60, 11), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 75, 1), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 80, 11), EXTENT_NONE);
	assert_int_equal(take(&fix, EXTENT_TURNING, 90, 1), EXTENT_NONE);
	assert_int_equal(extent_window_take(map, EXTENT_TURNING, bytes(41) + 1, 1, 1),
		EXTENT_NONE);
	assert_int_equal(
		extent_window_take(map, EXTENT_TURNING, bytes(41), UINT64_MAX, 1),
		EXTENT_NONE);
	assert_int_equal(
		extent_window_take(map, EXTENT_TURNING, UINT64_MAX, 1, 1), EXTENT_NONE);
	assert_layout(&fix, "F20 W20 W30 U10 W10 F10");

	rec = extent_window_take(map, EXTENT_TURNING, bytes(50), bytes(5), 7);
	assert_layout(&fix, "F20 W20 W10 U5 W15 U10 W10 F10");
	assert_int_equal(extent_record(map, rec)->owner, 7);
	assert_int_equal(extent_window_missing(map, EXTENT_TURNING), bytes(15));
	assert_true(extent_window_is_open(map, EXTENT_TURNING));
	assert_int_equal(take(&fix, EXTENT_TURNING, 50, 1), EXTENT_NONE);
	assert_int_not_equal(take(&fix, EXTENT_TURNING, 40, 10), EXTENT_NONE);
	assert_int_not_equal(take(&fix, EXTENT_TURNING, 55, 15), EXTENT_NONE);
	assert_layout(&fix, "F20 W20 U10 U5 U15 U10 W10 F10");
	release(&fix, extent_window_first(map, EXTENT_TURNING));
	release(&fix, rec);
	assert_layout(&fix, "F20 W20 W15 U15 U10 W10 F10");
	fixture_close(&fix);
}

static void test_split(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	uint32_t rec, rest;

	(void)state;
	fixture_open(&fix, 100, 10);
	rec = place(&fix, 80, 20);
	rest = extent_split(map, rec, bytes(15), 9);
	assert_true(extent_map_check(map));
	assert_layout(&fix, "F80 U15 U5");
	assert_int_equal(off_of(map, rec), 80);
	assert_int_equal(extent_record(map, rec)->owner, 1);
	assert_int_equal(off_of(map, rest), 95);
	assert_int_equal(extent_record(map, rest)->owner, 9);

	/* In a window; its account stays. */
	extent_window_open(map, EXTENT_TURNING, 0, bytes(80), bytes(20));
	assert_int_not_equal(extent_split(map, rec, bytes(1), 2), EXTENT_NONE);
	assert_true(extent_map_check(map));
	assert_layout(&fix, "F80 U1 U14 U5");
	assert_int_equal(extent_window_missing(map, EXTENT_TURNING), bytes(20));
	release(&fix, rec);
	release(&fix, rest);
	assert_layout(&fix, "F80 W1 U14 W5");
	fixture_close(&fix);
}

static void break_double_free(void *arg)
{
	struct fixture *fix = arg;

	extent_free(&fix->map, extent_next(&fix->map, 0));
	extent_free(&fix->map, extent_next(&fix->map, 0));
}

static void break_front_edge(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(45), bytes(10));
}

static void break_back_edge(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(30), bytes(15));
}

static void break_second_window(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(0), bytes(10));
	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(60), bytes(10));
}

static void break_shared_granule(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_TURNING, 0, bytes(0), bytes(10));
	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(0), bytes(10));
}

static void break_take_of_closed(void *arg)
{
	struct fixture *fix = arg;

	extent_window_take(&fix->map, EXTENT_TURNING, 0, bytes(1), 1);
}

static void break_split_of_hole(void *arg)
{
	struct fixture *fix = arg;

	extent_split(&fix->map, 0, bytes(1), 1);
}

static void break_split_of_all(void *arg)
{
	struct fixture *fix = arg;

	extent_split(&fix->map, extent_next(&fix->map, 0), bytes(10), 1);
}

static void break_split_in_granule(void *arg)
{
	struct fixture *fix = arg;

	extent_split(&fix->map, extent_next(&fix->map, 0), bytes(5) + 1, 1);
}

static void break_early_claim(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(30), bytes(30));
	extent_window_claim(&fix->map, bytes(5), 1, 1);
}

static void break_large_claim(void *arg)
{
	struct fixture *fix = arg;

	extent_window_open(&fix->map, EXTENT_CLEARING, 0, bytes(1), bytes(10));
	extent_window_claim(&fix->map, bytes(10), bytes(2), 1);
}

static void break_odd_align(void *arg)
{
	struct fixture *fix = arg;

	extent_alloc(&fix->map, 1, bytes(3), 1);
}

static void break_large_space(void *arg)
{
	struct fixture *fix = arg;

	extent_map_init(&fix->map, fix->records, fix->limit, bytes(UINT32_MAX), GRANULE);
}

static void test_misuse_stops(void **state)
{
	static void (*const breaks[])(void *arg) = {break_double_free, break_front_edge,
		break_back_edge, break_second_window, break_shared_granule,
		break_take_of_closed, break_split_of_hole, break_split_of_all,
		break_split_in_granule, break_early_claim, break_large_claim,
		break_odd_align, break_large_space};
	struct fixture fix;

	(void)state;
	fixture_open(&fix, 100, 10);
	place(&fix, 40, 10);
	for (size_t i = 0; i < ARRAY_LEN(breaks); i++)
		assert_true(unit_aborts(breaks[i], &fix));
	fixture_close(&fix);
}

/* The check fails while the `size` bytes of `field` say `lie`, and only then. */
static void assert_seen(struct fixture *fix, void *field, size_t size, uint64_t lie)
{
	uint64_t truth = 0;

	assert_true(extent_map_check(&fix->map));
	memcpy(&truth, field, size);
	memcpy(field, &lie, size);
	assert_false(extent_map_check(&fix->map));
	memcpy(field, &truth, size);
}

#define DAMAGE(what, lie) assert_seen(&fix, &(what), sizeof(what), lie)

/* extent_map_check() sees each lie: it would be no proof otherwise. */
static void test_check_sees_damage(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;
	struct extent_range *clearing, *turning;
	uint32_t run, hole, withheld, spare, gone[2];

	(void)state;
	fixture_open(&fix, 100, 10);
	place(&fix, 10, 10);
	gone[0] = place(&fix, 30, 10);
	gone[1] = place(&fix, 50, 5);
	run = place(&fix, 60, 10);
	release(&fix, gone[0]);
	release(&fix, gone[1]);
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(80), bytes(10));
	extent_window_open(map, EXTENT_TURNING, 0, bytes(90), bytes(5));
	assert_layout(&fix, "F10 U10 F40 U10 F10 W10 W5 F5");
	hole = extent_next(map, run);
	withheld = extent_next(map, hole);
	clearing = &map->windows[EXTENT_CLEARING];
	turning = &map->windows[EXTENT_TURNING];
	spare = map->spare;
	assert_int_not_equal(spare, EXTENT_NONE);

	DAMAGE(fix.records[run].off, 61);
	DAMAGE(fix.records[run].size, 9);
	DAMAGE(fix.records[run].size, 0);
	DAMAGE(fix.records[run].prev, hole);
	DAMAGE(fix.records[run].next, withheld);
	DAMAGE(fix.records[run].next, EXTENT_NONE);
	DAMAGE(fix.records[run].next, map->high);
	DAMAGE(fix.records[run].kind, EXTENT_FREE);
	DAMAGE(fix.records[run].kind, EXTENT_SPARE);
	DAMAGE(fix.records[run].kind, EXTENT_KINDS);
	DAMAGE(fix.records[hole].kind, EXTENT_USED);
	DAMAGE(fix.records[hole].kind, EXTENT_WITHHELD);
	DAMAGE(fix.records[hole].free_prev, run);
	DAMAGE(fix.records[hole].free_next, hole);
	DAMAGE(fix.records[hole].free_next, EXTENT_NONE);
	DAMAGE(fix.records[withheld].kind, EXTENT_FREE);
	DAMAGE(fix.records[spare].kind, EXTENT_FREE);
	DAMAGE(fix.records[spare].next, spare);
	DAMAGE(map->spare, EXTENT_NONE);
	DAMAGE(map->spare, run);
	DAMAGE(map->high, map->high + 1);
	DAMAGE(map->high, map->high - 1);
	DAMAGE(map->last, run);
	DAMAGE(map->granule_count, 101);
	DAMAGE(map->totals[EXTENT_FREE].granules, 1);
	DAMAGE(map->totals[EXTENT_FREE].count, 1);
	DAMAGE(map->totals[EXTENT_USED].count, 1);
	DAMAGE(clearing->off, 79);
	DAMAGE(clearing->end, 91);
	DAMAGE(clearing->end, 95);
	DAMAGE(clearing->end, 85);
	DAMAGE(clearing->first, run);
	DAMAGE(clearing->first, turning->first);
	DAMAGE(clearing->used, 1);
	DAMAGE(turning->off, 89);
	DAMAGE(turning->off, 80);
	DAMAGE(turning->off, 95);
	DAMAGE(turning->end, 100);
	DAMAGE(turning->end, 101);
	DAMAGE(turning->end, 90);
	DAMAGE(turning->first, withheld);
	DAMAGE(turning->used, 1);
	DAMAGE(map->levels, 0);
	DAMAGE(map->levels, map->levels | 1u << 31);
	DAMAGE(map->bins[0], 0);
	DAMAGE(map->bins[0], map->bins[0] | 1u << 9);
	DAMAGE(map->heads[10], EXTENT_NONE);
	DAMAGE(map->heads[10], run);
	DAMAGE(map->refused_size, 10);
	fixture_close(&fix);
}

/* Windows that share a run, with both accounts right, are seen too. */
static void test_check_sees_overlap(void **state)
{
	struct fixture fix;
	struct extent_map *map = &fix.map;

	(void)state;
	fixture_open(&fix, 100, 10);
	place(&fix, 90, 5);
	extent_window_open(map, EXTENT_CLEARING, 0, bytes(80), bytes(10));
	extent_window_open(map, EXTENT_TURNING, 0, bytes(90), bytes(5));
	assert_true(extent_map_check(map));
	map->windows[EXTENT_CLEARING].end = 95;
	map->windows[EXTENT_CLEARING].used = 5;
	assert_false(extent_map_check(map));
	map->windows[EXTENT_CLEARING].end = 90;
	map->windows[EXTENT_CLEARING].used = 0;
	fixture_close(&fix);
}

/*
 * The model: one number for each granule, 0 where it is free, and the windows' ranges.
 * `recs` are the map's records of the runs, in no order.
 */
#define MODEL_GRANULES 700
#define MODEL_RUNS     64

struct model {
	struct fixture fix;
	struct rng rng;
	uint32_t granules;
	uint32_t run_limit;
	uint32_t owner_at[MODEL_GRANULES];
	struct {
		uint32_t off, end;
	} windows[EXTENT_WINDOWS];
	uint32_t recs[MODEL_RUNS];
	uint32_t run_count;
	uint32_t last_owner;
};

static bool model_is_open(const struct model *model, uint32_t which)
{
	return model->windows[which].off < model->windows[which].end;
}

/* The window of granule `at`, or EXTENT_WINDOWS. */
static uint32_t model_window_at(const struct model *model, uint32_t at)
{
	for (uint32_t which = 0; which < EXTENT_WINDOWS; which++) {
		if (at >= model->windows[which].off && at < model->windows[which].end)
			return which;
	}
	return EXTENT_WINDOWS;
}

/* Granules from `off` on that are nobody's and lie in `window`; in none: those that
 * extent_alloc() may give out in one piece. */
static uint32_t model_room_in(const struct model *model, uint32_t window, uint32_t off)
{
	uint32_t at = off;

	while (at < model->granules && model->owner_at[at] == 0 &&
		model_window_at(model, at) == window)
		at++;
	return at - off;
}

static uint32_t model_room(const struct model *model, uint32_t off)
{
	return model_room_in(model, EXTENT_WINDOWS, off);
}

static uint32_t model_largest(const struct model *model, uint32_t align)
{
	uint32_t best = 0;

	if (model->run_count == model->run_limit)
		return 0;
	for (uint32_t off = 0; off < model->granules; off += align)
		best = MAX(best, model_room(model, off));
	return best;
}

static void model_fill(struct model *model, uint32_t off, uint32_t size, uint32_t owner)
{
	for (uint32_t at = off; at < off + size; at++) {
		assert_true((model->owner_at[at] == 0) == (owner != 0));
		model->owner_at[at] = owner;
	}
}

/* A new run of the map: it must lie where the model has nothing. */
static void model_add(struct model *model, uint32_t rec, uint32_t size, uint32_t align)
{
	const struct extent *block = extent_record(&model->fix.map, rec);

	assert_int_equal(block->kind, EXTENT_USED);
	assert_int_equal(block->owner, model->last_owner);
	assert_int_equal(block->size, size);
	assert_int_equal(block->off % align, 0);
	model_fill(model, block->off, size, block->owner);
	model->recs[model->run_count++] = rec;
}

static uint32_t model_size(struct model *model)
{
	if (rng_chance(&model->rng, 10))
		return 1 + (uint32_t)rng_below(&model->rng, model->granules);
	return 1 + (uint32_t)rng_below(&model->rng, 1ull << rng_below(&model->rng, 8));
}

static uint32_t model_align(struct model *model)
{
	if (rng_chance(&model->rng, 50))
		return 1;
	return 1u << rng_below(&model->rng, 8);
}

static void model_alloc(struct model *model)
{
	uint32_t size = model_size(model);
	uint32_t align = model_align(model);
	uint32_t largest = model_largest(model, align);
	uint32_t rec;

	if (largest > 0 && rng_chance(&model->rng, 10))
		size = largest;
	assert_int_equal(
		extent_largest_fit(&model->fix.map, bytes(align)), bytes(largest));
	rec = extent_alloc(
		&model->fix.map, bytes(size), bytes(align), ++model->last_owner);
	assert_true((rec != EXTENT_NONE) == (size <= largest));
	if (rec != EXTENT_NONE) {
		assert_true(model_room(model, off_of(&model->fix.map, rec)) >= size);
		model_add(model, rec, size, align);
	}
}

static void model_alloc_at(struct model *model)
{
	uint32_t size = model_size(model);
	uint32_t off = (uint32_t)rng_below(&model->rng, model->granules);
	bool fits = model->run_count < model->run_limit && model_room(model, off) >= size;
	uint32_t rec = extent_alloc_at(
		&model->fix.map, bytes(off), bytes(size), ++model->last_owner);

	assert_true((rec != EXTENT_NONE) == fits);
	if (fits) {
		assert_int_equal(off_of(&model->fix.map, rec), off);
		model_add(model, rec, size, 1);
	}
}

static void model_free(struct model *model)
{
	uint32_t i, rec;
	const struct extent *block;

	if (model->run_count == 0)
		return;
	i = (uint32_t)rng_below(&model->rng, model->run_count);
	rec = model->recs[i];
	model->recs[i] = model->recs[--model->run_count];
	block = extent_record(&model->fix.map, rec);
	model_fill(model, block->off, block->size, 0);
	extent_free(&model->fix.map, rec);
}

static bool model_is_inside_run(const struct model *model, uint32_t off)
{
	return off > 0 && off < model->granules && model->owner_at[off] != 0 &&
	       model->owner_at[off] == model->owner_at[off - 1];
}

/* A range that ends no run in its middle and leaves the other window alone. */
static void model_window_open(struct model *model, enum extent_window which)
{
	uint32_t off = (uint32_t)rng_below(&model->rng, model->granules);
	uint32_t end = off + 1 + (uint32_t)rng_below(&model->rng, model->granules - off);
	uint32_t near = model->fix.map.last;

	while (model_is_inside_run(model, off))
		off--;
	if (model_window_at(model, off) != EXTENT_WINDOWS)
		off = model->windows[model_window_at(model, off)].end;
	while (model_is_inside_run(model, end))
		end++;
	for (uint32_t at = off; at < end; at++) {
		if (model_window_at(model, at) != EXTENT_WINDOWS)
			end = at; /* next to it */
	}
	if (off >= end)
		return;
	if (model->run_count > 0)
		near = model->recs[rng_below(&model->rng, model->run_count)];
	extent_window_open(&model->fix.map, which, near, bytes(off), bytes(end - off));
	model->windows[which].off = off;
	model->windows[which].end = end;
}

static void model_window_close(struct model *model, enum extent_window which)
{
	extent_window_close(&model->fix.map, which);
	model->windows[which].off = model->windows[which].end = 0;
}

static void model_window_claim(struct model *model)
{
	uint32_t align = model_align(model);
	uint32_t off = (uint32_t)align_up_u64(model->windows[EXTENT_CLEARING].off, align);
	uint32_t end = model->windows[EXTENT_CLEARING].end;
	uint32_t rec, size;

	if (extent_window_missing(&model->fix.map, EXTENT_CLEARING) > 0 || off >= end) {
		model_window_close(model, EXTENT_CLEARING);
		return;
	}
	size = 1 + (uint32_t)rng_below(&model->rng, end - off);
	rec = extent_window_claim(
		&model->fix.map, bytes(size), bytes(align), ++model->last_owner);
	assert_true((rec == EXTENT_NONE) == (model->run_count == model->run_limit));
	if (rec == EXTENT_NONE)
		return;
	model->windows[EXTENT_CLEARING].off = model->windows[EXTENT_CLEARING].end = 0;
	assert_int_equal(off_of(&model->fix.map, rec), off);
	model_add(model, rec, size, align);
}

static void model_window_take(struct model *model, enum extent_window which)
{
	uint32_t start = model->windows[which].off;
	uint32_t end = model->windows[which].end;
	uint32_t off = start + (uint32_t)rng_below(&model->rng, end - start);
	uint32_t size = model_size(model);
	uint32_t rec;
	bool fits;

	if (rng_chance(&model->rng, 10))
		off = (uint32_t)rng_below(&model->rng, model->granules);
	fits = model->run_count < model->run_limit &&
	       model_room_in(model, which, off) >= size;
	rec = extent_window_take(
		&model->fix.map, which, bytes(off), bytes(size), ++model->last_owner);
	assert_true((rec != EXTENT_NONE) == fits);
	if (fits) {
		assert_int_equal(off_of(&model->fix.map, rec), off);
		model_add(model, rec, size, 1);
	}
}

static void model_split(struct model *model)
{
	struct extent_map *map = &model->fix.map;
	uint32_t rec, rest, off, size, keep;

	if (model->run_count == 0)
		return;
	rec = model->recs[rng_below(&model->rng, model->run_count)];
	off = off_of(map, rec);
	size = extent_record(map, rec)->size;
	if (size == 1)
		return;
	keep = 1 + (uint32_t)rng_below(&model->rng, size - 1);
	rest = extent_split(map, rec, bytes(keep), ++model->last_owner);
	assert_true((rest == EXTENT_NONE) == (model->run_count == model->run_limit));
	if (rest == EXTENT_NONE)
		return;
	model_fill(model, off + keep, size - keep, 0);
	assert_int_equal(off_of(map, rec), off);
	assert_int_equal(extent_record(map, rec)->size, keep);
	assert_int_equal(off_of(map, rest), off + keep);
	model_add(model, rest, size - keep, 1);
}

/* Bytes of each kind, those missing in the windows, and what each granule is. */
static void model_compare(const struct model *model)
{
	const struct extent_map *map = &model->fix.map;
	uint32_t counts[EXTENT_KINDS] = {0};
	uint32_t missing[EXTENT_WINDOWS + 1] = {0};
	uint32_t rec = extent_first(map);

	assert_true(extent_map_check(map));
	for (uint32_t at = 0; at < model->granules; at++) {
		uint32_t window = model_window_at(model, at);
		enum extent_kind kind = window == EXTENT_WINDOWS ? EXTENT_FREE
								 : EXTENT_WITHHELD;

		if (at == off_of(map, rec) + extent_record(map, rec)->size)
			rec = extent_next(map, rec);
		if (model->owner_at[at] != 0) {
			kind = EXTENT_USED;
			missing[window]++;
			assert_int_equal(
				extent_record(map, rec)->owner, model->owner_at[at]);
		}
		assert_int_equal(extent_record(map, rec)->kind, kind);
		counts[kind]++;
	}
	for (uint32_t kind = 0; kind < EXTENT_KINDS; kind++)
		assert_int_equal(extent_total_bytes(map, kind), bytes(counts[kind]));
	for (uint32_t which = 0; which < EXTENT_WINDOWS; which++) {
		assert_int_equal(
			extent_window_missing(map, which), bytes(missing[which]));
		assert_int_equal(
			extent_window_is_open(map, which), model_is_open(model, which));
		assert_int_equal(
			extent_window_off(map, which), bytes(model->windows[which].off));
	}
	assert_int_equal(extent_total_count(map, EXTENT_USED), model->run_count);
}

static void model_window_step(struct model *model, enum extent_window which)
{
	uint64_t dice = rng_below(&model->rng, 100);

	if (!model_is_open(model, which))
		model_window_open(model, which);
	else if (which == EXTENT_CLEARING &&
		 (extent_window_missing(&model->fix.map, which) == 0 || dice < 25))
		model_window_claim(model);
	else if (which == EXTENT_TURNING && dice < 10)
		model_window_close(model, which);
	else
		model_window_take(model, which);
}

static void model_step(struct model *model)
{
	uint64_t dice = rng_below(&model->rng, 100);

	if (dice < 40)
		model_alloc(model);
	else if (dice < 47)
		model_alloc_at(model);
	else if (dice < 86)
		model_free(model);
	else if (dice < 90)
		model_split(model);
	else
		model_window_step(model, dice < 95 ? EXTENT_CLEARING : EXTENT_TURNING);
}

static void test_random_against_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct model model = {.run_limit = seed % 3 == 0 ? 12 : MODEL_RUNS};

		rng_init(&model.rng, seed);
		model.granules = 1 + (uint32_t)rng_below(&model.rng, MODEL_GRANULES);
		fixture_open(&model.fix, model.granules, model.run_limit);
		for (uint32_t i = 0; i < 10000; i++) {
			model_step(&model);
			model_compare(&model);
		}
		fixture_close(&model.fix);
	}
}

/*
 * A pool held at 90 % load by removing random objects before each put, as a cache does
 * in its steady state. Returns how many puts found no hole.
 */
static uint32_t failed_puts(const uint64_t *sizes, uint32_t size_count, uint32_t puts)
{
	const uint64_t pool_bytes = 16 * GIB;
	const uint32_t runs = 600000;
	struct rng rng;
	struct fixture fix;
	uint32_t *recs = malloc(runs * sizeof(recs[0]));
	uint32_t count = 0;
	uint32_t failed = 0;

	assert_non_null(recs);
	rng_init(&rng, 3);
	fixture_open(&fix, pool_bytes / GRANULE, runs);
	for (uint32_t i = 0; i < puts; i++) {
		uint64_t align;
		uint64_t size = extent_round(sizes[rng_below(&rng, size_count)], &align);

		while (extent_total_bytes(&fix.map, EXTENT_USED) + size >
			pool_bytes / 10 * 9) {
			uint32_t victim = (uint32_t)rng_below(&rng, count);

			extent_free(&fix.map, recs[victim]);
			recs[victim] = recs[--count];
		}
		recs[count] = extent_alloc(&fix.map, size, align, i);
		if (recs[count] == EXTENT_NONE)
			failed++;
		else
			count++;
	}
	fixture_close(&fix);
	free(recs);
	return failed;
}

static void test_fixed_sizes_at_90_percent(void **state)
{
	static const uint64_t binary[] = {64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB};
	static const uint64_t decimal[] = {100000, 700000, 1500000, 5000000, 20000000};

	(void)state;
	assert_int_equal(failed_puts(binary, ARRAY_LEN(binary), 300000), 0);
	assert_int_equal(failed_puts(decimal, ARRAY_LEN(decimal), 300000), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_whole_space),
	cmocka_unit_test(test_sizes_round_up),
	cmocka_unit_test(test_largest_space),
	cmocka_unit_test(test_round),
	cmocka_unit_test(test_alignment_leaves_front_free),
	cmocka_unit_test(test_exact_aligned_hole_is_taken),
	cmocka_unit_test(test_fit_behind_misfits),
	cmocka_unit_test(test_refused_until_room),
	cmocka_unit_test(test_free_merges),
	cmocka_unit_test(test_alloc_at),
	cmocka_unit_test(test_rebuild),
	cmocka_unit_test(test_records_exhausted),
	cmocka_unit_test(test_window_withholds),
	cmocka_unit_test(test_window_close_unfinished),
	cmocka_unit_test(test_window_claim),
	cmocka_unit_test(test_window_inside_one_hole),
	cmocka_unit_test(test_adjacent_windows),
	cmocka_unit_test(test_window_take),
	cmocka_unit_test(test_split),
	cmocka_unit_test(test_misuse_stops),
	cmocka_unit_test(test_check_sees_damage),
	cmocka_unit_test(test_check_sees_overlap),
	cmocka_unit_test(test_random_against_model),
	cmocka_unit_test(test_fixed_sizes_at_90_percent),
};

UNIT_MAIN(tests)
