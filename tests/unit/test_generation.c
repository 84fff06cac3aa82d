/*
 * The numbers of the puts: given before the end if asked for, kept over restarts, never
 * given twice, and not led astray by a clock that has jumped.
 */
#include "copy_fixture.h"

#define POOL   (64 * KIB)
#define SECOND 1000000ull
#define DAY    (24 * 3600 * SECOND)
#define WALL   (1700000000 * SECOND)

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
}

static void restart(struct core *core)
{
	struct recovery recovery;

	core_restart(core, &recovery);
}

static int name_of(struct core *core, uint32_t slot, uint64_t life, uint64_t wall_us,
	uint64_t *ret_generation)
{
	int err = master_put_name(&core->master, slot, life, core->clients[0].ref,
		wall_us, 0, ret_generation);

	core_assert(core);
	return err;
}

static uint32_t start(struct core *core, const char *key)
{
	struct put_request put = core_request(core, key, 10, CORE_SOFTPIN);

	return core_start(core, &put);
}

static int end_at(struct core *core, uint32_t slot, uint64_t wall_us)
{
	int err = master_put_end(&core->master, slot, core_life(core, slot),
		core->clients[0].ref, core->now, wall_us, &core->generation);

	core_assert(core);
	return err;
}

/* The number of a put that comes and goes. */
static uint64_t number(struct core *core, uint64_t wall_us)
{
	assert_int_equal(end_at(core, start(core, "number"), wall_us), 0);
	assert_int_equal(core_remove(core, "number"), 0);
	return core->generation;
}

/* The clock of such a number. */
static uint64_t clock_at(struct core *core, uint64_t wall_us)
{
	return number(core, wall_us) >> GENERATION_SHIFT;
}

static void note(struct core *core, uint64_t generation)
{
	master_note_generation(&core->master, generation);
	core_assert(core);
}

static uint64_t refused(const struct core *core)
{
	return core->master.cluster.clocks_refused;
}

/* ---- names ------------------------------------------------------------------ */

static void test_name_is_given_once(void **state)
{
	struct core core;
	uint64_t name = 0, again = 0, life;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start(&core, "a");
	life = core_life(&core, slot);
	assert_int_equal(name_of(&core, slot, life, WALL, &name), 0);
	assert_int_equal(name, WALL << GENERATION_SHIFT | 7);
	assert_int_equal(core_kind(&core, slot), SLOT_WRITING);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_true(number(&core, WALL) > name);
	assert_int_equal(name_of(&core, slot, life, WALL + 5, &again), 0);
	assert_int_equal(again, name);
	assert_int_equal(end_at(&core, slot, WALL + 9), 0);
	assert_int_equal(core.generation, name);
	assert_int_equal(core_slot(&core, slot)->generation, name);
	/* Its answer was lost, and it is asked for again. */
	again = 0;
	assert_int_equal(name_of(&core, slot, life, WALL + 5, &again), 0);
	assert_int_equal(again, name);
	core_close(&core);
}

static void test_no_name(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t name = 7, life;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start(&core, "a");
	life = core_life(&core, slot);
	assert_int_equal(name_of(&core, slot, life + 1, WALL, &name), ERR_NOT_FOUND);
	assert_int_equal(name_of(&core, SLOT_NONE, life, WALL, &name), ERR_NOT_FOUND);
	assert_int_equal(master_put_name(&core.master, slot, life, core.clients[1].ref,
				 WALL, 0, &name),
		ERR_NOT_FOUND);
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(name_of(&core, slot, life, WALL, &name), ERR_REMOVED);
	assert_int_equal(core_kind(&core, slot), SLOT_WRITING);
	assert_int_equal(end_at(&core, slot, WALL), ERR_REMOVED);
	assert_int_equal(name_of(&core, slot, life, WALL, &name), ERR_NOT_FOUND);

	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	put.deadline = core.now;
	slot = core_start(&core, &put);
	assert_int_equal(core_advance(&core, 0), 1);
	assert_int_equal(
		name_of(&core, slot, core_life(&core, slot), WALL, &name), ERR_TIMEOUT);
	assert_int_equal(name, 7);
	core_close(&core);
}

/* Another number stands in the way: also a repeat gets a higher one, once. */
static void test_name_above_another(void **state)
{
	struct core core;
	uint64_t other = COPY_GENERATION(WALL + 60 * SECOND), name = 0, above = 0, life;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start(&core, "a");
	life = core_life(&core, slot);
	assert_int_equal(name_of(&core, slot, life, WALL, &name), 0);
	assert_int_equal(master_put_name(&core.master, slot, life, core.clients[0].ref,
				 WALL, other, &above),
		0);
	core_assert(&core);
	assert_true(above > other);
	assert_int_equal(master_put_name(&core.master, slot, life, core.clients[0].ref,
				 WALL, other, &name),
		0);
	assert_int_equal(name, above);
	/* Nothing is above this. */
	assert_int_equal(master_put_name(&core.master, slot, life, core.clients[0].ref,
				 WALL, UINT64_MAX, &name),
		0);
	core_assert(&core);
	assert_true(name > above && name < above + (2ull << GENERATION_SHIFT));
	assert_int_equal(end_at(&core, slot, WALL), 0);
	assert_int_equal(core.generation, name);
	core_close(&core);
}

/* What was published under it is met by the same number. */
static void test_name_outlives_a_restart(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t name = 0, again = 0;
	uint32_t slot, found = SLOT_NONE;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	slot = core_start(&core, &put);
	assert_int_equal(name_of(&core, slot, core_life(&core, slot), WALL, &name), 0);
	restart(&core);
	assert_int_equal(
		master_put_start(&core.master, &put, NULL, &found), PUT_REPEATED);
	assert_int_equal(found, slot);
	assert_true(number(&core, WALL) > name);
	assert_int_equal(
		name_of(&core, slot, core_life(&core, slot), WALL + 1, &again), 0);
	assert_int_equal(again, name);
	restart(&core);
	assert_int_equal(end_at(&core, slot, WALL + 2), 0);
	assert_int_equal(core.generation, name);
	core_close(&core);
}

/* Nor is one given again that went with its writer. */
static void test_name_of_a_dead_client(void **state)
{
	struct core core;
	uint64_t name = 0;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start(&core, "a");
	assert_int_equal(name_of(&core, slot, core_life(&core, slot), WALL, &name), 0);
	core.share.clients[core.clients[0].cid].state = SHARE_CLIENT_FREE;
	restart(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_FREE);
	core_attach(&core, 0);
	assert_true(number(&core, WALL) > name);
	core_close(&core);
}

/* ---- never twice ------------------------------------------------------------ */

/* The object is gone, the wall clock has stepped back, the random bits are the same. */
static void test_no_number_comes_again(void **state)
{
	struct core core;
	uint64_t last;

	(void)state;
	open_small(&core);
	last = number(&core, WALL);
	for (unsigned i = 0; i < 5; i++) {
		uint64_t next;

		restart(&core);
		next = number(&core, WALL - i * SECOND);
		assert_true(next > last);
		last = number(&core, WALL - i * SECOND);
		assert_true(last > next);
	}
	core_close(&core);
}

/* The header is written every 10 s, not with each put. */
static void test_bound_is_stored_ahead(void **state)
{
	const struct share_header *header;
	struct core core;
	uint64_t bound, last;

	(void)state;
	open_small(&core);
	header = core.share.header;
	assert_int_equal(header->generation_bound, 0);
	last = number(&core, WALL);
	bound = header->generation_bound;
	assert_true(bound > last);
	assert_int_equal(
		number(&core, WALL + 9 * SECOND) >> GENERATION_SHIFT, WALL + 9 * SECOND);
	assert_int_equal(header->generation_bound, bound);
	last = number(&core, WALL + 11 * SECOND);
	assert_true(last > bound);
	assert_true(header->generation_bound > last);
	assert_true(
		header->generation_bound >> GENERATION_SHIFT <= WALL + 21 * SECOND + 1);
	core_close(&core);
}

/* In a pool of a daemon that stored no bound the slots say what was given. */
static void test_pool_without_a_bound(void **state)
{
	struct core core;
	uint64_t last;

	(void)state;
	open_small(&core);
	assert_int_equal(end_at(&core, start(&core, "a"), WALL), 0);
	last = core.generation;
	core.share.header->generation_bound = 0;
	core.share.header->generation_ns = 0;
	restart(&core);
	assert_true(number(&core, WALL - SECOND) > last);
	/* Nothing tells that this is too far. */
	core.share.header->generation_bound = 0;
	restart(&core);
	assert_int_equal(clock_at(&core, WALL + 9 * DAY), WALL + 9 * DAY);
	assert_int_equal(refused(&core), 0);
	core_close(&core);
}

static void test_damaged_bound(void **state)
{
	struct core core;

	(void)state;
	open_small(&core);
	(void)number(&core, WALL);
	core.share.header->generation_bound = UINT64_MAX;
	restart(&core);
	assert_int_equal(clock_at(&core, WALL + SECOND), WALL + SECOND);
	/* Of another boot of the host: the time since says nothing. */
	core.share.header->generation_ns = UINT64_MAX;
	restart(&core);
	assert_int_equal(clock_at(&core, WALL + 9 * DAY), WALL + 9 * DAY);
	core_close(&core);
}

/* A damaged one in a slot is no number either. */
static void test_damaged_number(void **state)
{
	struct core core;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start(&core, "a");
	assert_int_equal(end_at(&core, slot, WALL), 0);
	core_slot(&core, slot)->generation = UINT64_MAX;
	core_restart(&core, &recovery);
	assert_int_equal(recovery.dropped[DROP_BAD_STATE], 1);
	/* Of a put that somebody still writes it is given anew. */
	slot = start(&core, "b");
	core_slot(&core, slot)->generation = UINT64_MAX;
	core_restart(&core, &recovery);
	assert_int_equal(recovery.writing, 1);
	assert_int_equal(end_at(&core, slot, WALL), 0);
	assert_true(core.generation >> GENERATION_SHIFT < WALL + DAY);
	assert_int_equal(clock_at(&core, WALL + 60 * SECOND), WALL + 60 * SECOND);
	core_close(&core);
}

/* What is on disk counts, also in a new pool. */
static void test_numbers_on_disk(void **state)
{
	struct drive drive;
	uint64_t last;

	(void)state;
	drive_open_usual(&drive);
	assert_int_equal(end_at(&drive.core, start(&drive.core, "a"), WALL), 0);
	last = drive.core.generation;
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_reboot(&drive), 0);
	assert_int_equal(number(&drive.core, WALL - DAY), last + (1 << GENERATION_SHIFT));
	assert_int_equal(
		clock_at(&drive.core, WALL + 3600 * SECOND), WALL + 3600 * SECOND);
	drive_close(&drive);
}

/* ---- a wall clock that jumps ------------------------------------------------- */

static void test_clock_that_jumps_ahead(void **state)
{
	struct core core;

	(void)state;
	open_small(&core);
	assert_int_equal(clock_at(&core, WALL), WALL);
	assert_int_equal(clock_at(&core, WALL + 3600 * SECOND), WALL + 3600 * SECOND);
	assert_int_equal(clock_at(&core, WALL + 400 * DAY), WALL + 3600 * SECOND + 1);
	assert_int_equal(clock_at(&core, UINT64_MAX), WALL + 3600 * SECOND + 2);
	assert_int_equal(refused(&core), 2);
	/* When it is right again it is followed again. */
	assert_int_equal(clock_at(&core, WALL + 3601 * SECOND), WALL + 3601 * SECOND);
	core_close(&core);
}

/* Days without a put are no jump, also with a restart between. */
static void test_days_that_pass(void **state)
{
	struct core core;

	(void)state;
	for (unsigned restarts = 0; restarts < 3; restarts++) {
		open_small(&core);
		assert_int_equal(clock_at(&core, WALL), WALL);
		if (restarts == 1)
			restart(&core);
		core.now += 40 * DAY * 1000;
		if (restarts == 2)
			restart(&core);
		assert_int_equal(clock_at(&core, WALL + 40 * DAY), WALL + 40 * DAY);
		assert_int_equal(refused(&core), 0);
		core_close(&core);
	}
}

/* The time goes on for the clock while it is not followed. */
static void test_days_of_a_wrong_clock(void **state)
{
	struct core core;
	uint64_t last;

	(void)state;
	open_small(&core);
	last = clock_at(&core, WALL);
	for (unsigned day = 1; day < 10; day++) {
		uint64_t next;

		core.now += DAY * 1000;
		/* So many numbers that the bound has to go on. */
		core.master.last_generation = core.share.header->generation_bound;
		next = clock_at(&core, WALL + 4000 * DAY);
		assert_true(next > last && next < WALL + DAY);
		last = next;
	}
	assert_int_equal(refused(&core), 9);
	assert_int_equal(clock_at(&core, WALL + 10 * DAY), WALL + 10 * DAY);
	assert_int_equal(refused(&core), 9);
	core_close(&core);
}

/* ---- other nodes -------------------------------------------------------------- */

static void test_note_raises(void **state)
{
	struct core core;
	uint64_t theirs = COPY_GENERATION(WALL + 60 * SECOND);

	(void)state;
	open_small(&core);
	(void)number(&core, WALL);
	note(&core, theirs);
	assert_true(number(&core, WALL + SECOND) > theirs);
	note(&core, COPY_GENERATION(WALL)); /* known, and more */
	note(&core, 0);
	note(&core, UINT64_MAX);
	assert_int_equal(clock_at(&core, WALL + SECOND), WALL + 60 * SECOND + 2);
	/* A restart does not fall behind it. */
	theirs = COPY_GENERATION(WALL + 600 * SECOND);
	note(&core, theirs);
	restart(&core);
	assert_true(number(&core, WALL + SECOND) > theirs);
	assert_int_equal(refused(&core), 0);
	core_close(&core);
}

static void test_note_that_is_too_far_ahead(void **state)
{
	struct core core;

	(void)state;
	open_small(&core);
	(void)number(&core, WALL);
	note(&core, COPY_GENERATION(WALL + 2 * DAY));
	assert_int_equal(clock_at(&core, WALL + SECOND), WALL + SECOND);
	assert_int_equal(refused(&core), 1);
	/* It was judged once. */
	assert_int_equal(clock_at(&core, WALL + 2 * SECOND), WALL + 2 * SECOND);
	assert_int_equal(refused(&core), 1);
	core_close(&core);
}

/* This node began with a clock that stood years behind: another node and the wall clock,
 * which was set since, say the same. */
static void test_note_and_wall_clock_agree(void **state)
{
	const uint64_t wrong = 1000 * SECOND;
	struct core core;
	uint64_t theirs = COPY_GENERATION(WALL - SECOND);

	(void)state;
	open_small(&core);
	assert_int_equal(clock_at(&core, wrong), wrong);
	assert_int_equal(clock_at(&core, WALL), wrong + 1);
	assert_int_equal(refused(&core), 1);
	note(&core, theirs);
	assert_true(number(&core, WALL) > theirs);
	assert_int_equal(clock_at(&core, WALL + SECOND), WALL + SECOND);
	assert_int_equal(refused(&core), 2);
	core_close(&core);
}

/* With nothing to judge by, the highest is kept until there is. */
static void test_note_in_a_new_pool(void **state)
{
	struct core core;
	uint64_t theirs = COPY_GENERATION(WALL + 60 * SECOND);

	(void)state;
	open_small(&core);
	note(&core, theirs);
	note(&core, COPY_GENERATION(WALL));
	assert_int_equal(core.master.last_generation, 0);
	assert_true(number(&core, WALL) > theirs);
	core_close(&core);

	open_small(&core);
	note(&core, COPY_GENERATION(WALL + 4 * DAY));
	assert_int_equal(clock_at(&core, WALL), WALL);
	assert_int_equal(refused(&core), 1);
	core_close(&core);

	/* The others have had no put for days. */
	open_small(&core);
	note(&core, COPY_GENERATION(WALL - 4 * DAY));
	assert_int_equal(clock_at(&core, WALL), WALL);
	assert_int_equal(refused(&core), 0);
	core_close(&core);
}

/* What is copied is known of. */
static void test_copy_raises(void **state)
{
	struct core core;
	uint64_t theirs = COPY_GENERATION(WALL + 60 * SECOND);

	(void)state;
	open_small(&core);
	(void)number(&core, WALL);
	(void)copy_start(&core, "a", 10, theirs);
	assert_true(number(&core, WALL) > theirs);
	core_close(&core);

	/* But one that cannot be right does no harm, also after a restart. */
	open_small(&core);
	(void)number(&core, WALL);
	assert_int_equal(
		copy_end(&core,
			copy_start(&core, "a", 10, COPY_GENERATION(WALL + 99 * DAY)), 0),
		0);
	restart(&core);
	assert_int_not_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(clock_at(&core, WALL + 30 * SECOND), WALL + 30 * SECOND);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_name_is_given_once),
	cmocka_unit_test(test_no_name),
	cmocka_unit_test(test_name_above_another),
	cmocka_unit_test(test_name_outlives_a_restart),
	cmocka_unit_test(test_name_of_a_dead_client),
	cmocka_unit_test(test_no_number_comes_again),
	cmocka_unit_test(test_bound_is_stored_ahead),
	cmocka_unit_test(test_pool_without_a_bound),
	cmocka_unit_test(test_damaged_bound),
	cmocka_unit_test(test_damaged_number),
	cmocka_unit_test(test_numbers_on_disk),
	cmocka_unit_test(test_clock_that_jumps_ahead),
	cmocka_unit_test(test_days_that_pass),
	cmocka_unit_test(test_days_of_a_wrong_clock),
	cmocka_unit_test(test_note_raises),
	cmocka_unit_test(test_note_that_is_too_far_ahead),
	cmocka_unit_test(test_note_and_wall_clock_agree),
	cmocka_unit_test(test_note_in_a_new_pool),
	cmocka_unit_test(test_copy_raises),
};

UNIT_MAIN(tests)
