/*
 * A put in the place of another object: that stays until the end of the put, goes in the
 * same step wherever it is, and no restart finds neither of them.
 */
#include "copy_fixture.h"

#define POOL (64 * KIB)

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
	core->master.config.low_permille = 0;
	core->master.config.clustered = true;
}

/* Under way, with its bytes there. */
static uint32_t start_over(struct core *core, const char *key, struct put_request *ret)
{
	uint32_t slot;

	*ret = core_request(core, key, 200, CORE_SOFTPIN);
	ret->replace = true;
	slot = core_start(core, ret);
	memset(core->share.pool + core_slot(core, slot)->off, (int)slot, 200);
	return slot;
}

static void assert_is(struct core *core, const char *key, uint32_t slot)
{
	const struct slot *there = core_slot(core, slot);

	assert_int_equal(core_find(core, key), slot);
	assert_int_equal(core_kind(core, slot), SLOT_READY);
	assert_int_equal(there->flags & (SLOT_REPLACES | SLOT_OUTRUN), 0);
	for (uint64_t i = 0; i < there->size; i++)
		assert_int_equal(core->share.pool[there->off + i], slot);
}

static void test_old_stays_until_the_end(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t old;
	uint32_t slots[2], found = SLOT_NONE;

	(void)state;
	open_small(&core);
	slots[0] = core_put(&core, "a", 100, CORE_SOFTPIN);
	old = core.generation;
	slots[1] = start_over(&core, "a", &put);
	assert_is(&core, "a", slots[0]);
	assert_int_equal(
		master_put_start(&core.master, &put, NULL, &found), PUT_REPEATED);
	assert_int_equal(found, slots[1]);
	assert_int_equal(core_get(&core, 1, "a"), slots[0]);
	assert_int_equal(core_end(&core, slots[1]), 0);
	assert_true(core.generation > old);
	assert_is(&core, "a", slots[1]);
	/* Who reads the old one may go on. */
	assert_int_equal(core_kind(&core, slots[0]), SLOT_CONDEMNED);
	core_give(&core, 1, slots[0]);
	core_deliver(&core);
	assert_int_equal(core_kind(&core, slots[0]), SLOT_FREE);
	assert_int_equal(core_end(&core, slots[1]), 0); /* a repeat */
	assert_int_equal(core_use(&core).objects, 1);
	assert_none_left(&core);
	core_close(&core);
}

static void test_nothing_to_replace(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = start_over(&core, "a", &put);
	assert_int_equal(core_end(&core, slot), 0);
	assert_is(&core, "a", slot);
	core_close(&core);
}

static void test_given_up(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slots[2];

	(void)state;
	open_small(&core);
	slots[0] = core_put(&core, "a", 100, CORE_SOFTPIN);
	slots[1] = start_over(&core, "a", &put);
	assert_int_equal(master_put_abort(&core.master, slots[1],
				 core_life(&core, slots[1]), put.writer),
		0);
	core_assert(&core);
	assert_is(&core, "a", slots[0]);
	slots[1] = start_over(&core, "a", &put);
	put.writer = core.clients[1].ref;
	core_die(&core, 0);
	assert_is(&core, "a", slots[0]);
	assert_int_equal(core_use(&core).writing, 0);
	core_close(&core);
}

/* A removal ends what is there, and what would have come in its place. */
static void test_removed(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 100, CORE_SOFTPIN);
	slot = start_over(&core, "a", &put);
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	core_assert_empty(&core);
	core_close(&core);
}

/* The one that ends last has the key, whichever began first; one that would not replace what
 * is there is told. */
static void test_many_at_once(void **state)
{
	struct core core;
	struct put_request put, plain;
	uint32_t slots[3];

	(void)state;
	open_small(&core);
	plain = core_request(&core, "a", 100, CORE_CACHE);
	slots[0] = core_start(&core, &plain);
	slots[1] = start_over(&core, "a", &put);
	slots[2] = start_over(&core, "a", &put);
	assert_int_equal(core_end(&core, slots[2]), 0);
	assert_is(&core, "a", slots[2]);
	assert_int_equal(core_end(&core, slots[0]), ERR_EXISTS);
	assert_is(&core, "a", slots[2]);
	assert_int_equal(core_end(&core, slots[1]), 0);
	assert_is(&core, "a", slots[1]);
	assert_int_equal(core_use(&core).objects, 1);
	core_close(&core);
}

static void test_copy_is_replaced(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot, copy;

	(void)state;
	open_small(&core);
	copy = copy_of(&core, "a", 100);
	slot = start_over(&core, "a", &put);
	assert_int_equal(core_end(&core, slot), 0);
	assert_is(&core, "a", slot);
	assert_int_equal(core_kind(&core, copy), SLOT_FREE);
	assert_int_equal(core_list(&core, slot), OBJECT_DIRTY);
	/* And one that comes too late is given up. */
	slot = start_over(&core, "b", &put);
	copy = copy_start(&core, "b", 100, COPY_GENERATION(500));
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(copy_end(&core, copy, 0), ERR_EXISTS);
	assert_is(&core, "b", slot);
	core_close(&core);
}

/* On disk as well, only there, or on its way back. */
static void test_replaced_on_disk(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct put_request put;
	uint32_t slot;

	(void)state;
	for (unsigned where = 0; where < 3; where++) {
		drive_open_usual(&drive);
		(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
		if (where == 0)
			(void)drive_save(&drive, "a");
		else
			drive_move(&drive, "a");
		if (where == 2)
			assert_int_equal(
				drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
		slot = start_over(&drive.core, "a", &put);
		assert_true(where != 1 || drive_find(&drive, "a") != DISK_NONE);
		assert_int_equal(core_end(&drive.core, slot), 0);
		assert_is(&drive.core, "a", slot);
		if (where == 2)
			assert_int_equal(drive_load_end(&drive, &load, 0), ERR_NOT_FOUND);
		assert_is(&drive.core, "a", slot);
		drive_sync(&drive);
		assert_int_equal(drive_records(&drive), 0);
		drive_close(&drive);
	}
}

/* ---- restart --------------------------------------------------------------- */

static void restart(struct core *core, struct recovery *ret)
{
	core_restart(core, ret);
	core->master.config.low_permille = 0;
}

static void test_restart_before_the_end(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t slots[2];

	(void)state;
	open_small(&core);
	slots[0] = core_put(&core, "a", 100, CORE_SOFTPIN);
	slots[1] = start_over(&core, "a", &put);
	for (unsigned marked = 0; marked < 2; marked++) {
		/* Cut off in the end, before the seal: the mark was gone. */
		if (!marked)
			core_slot(&core, slots[1])->flags &= ~(uint32_t)SLOT_OUTRUN;
		restart(&core, &recovery);
		assert_int_equal(recovery.adopted, 1);
		assert_int_equal(recovery.writing, 1);
		assert_is(&core, "a", slots[0]);
	}
	assert_int_equal(core_end(&core, slots[1]), 0);
	assert_is(&core, "a", slots[1]);
	core_close(&core);
}

/* The same with nothing to replace: the key is not the put's before its end. */
static void test_restart_with_nothing_to_replace(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put, plain;
	uint32_t slots[2];

	(void)state;
	for (unsigned marked = 0; marked < 2; marked++) {
		open_small(&core);
		slots[0] = start_over(&core, "a", &put);
		if (!marked)
			core_slot(&core, slots[0])->flags &= ~(uint32_t)SLOT_OUTRUN;
		restart(&core, &recovery);
		assert_int_equal(recovery.writing, 1);
		plain = core_request(&core, "a", 100, CORE_CACHE);
		slots[1] = core_start(&core, &plain);
		assert_int_equal(core_end(&core, slots[0]), 0);
		assert_is(&core, "a", slots[0]);
		assert_int_equal(core_end(&core, slots[1]), ERR_EXISTS);
		assert_is(&core, "a", slots[0]);
		core_close(&core);
	}
}

/* The instants of the end after the seal: the old one is there still, is condemned, is gone;
 * and the mark is gone, too. */
static void test_restart_in_the_end(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t slots[2];

	(void)state;
	for (unsigned instant = 0; instant < 4; instant++) {
		struct slot *new;

		open_small(&core);
		slots[0] = core_put(&core, "a", 100, CORE_SOFTPIN);
		slots[1] = start_over(&core, "a", &put);
		new = core_slot(&core, slots[1]);
		new->generation = core.generation + (1 << GENERATION_SHIFT);
		new->flags = (new->flags & ~(uint32_t)SLOT_OUTRUN) | SLOT_SEALED;
		if (instant >= 1)
			core_slot(&core, slots[0])->state = SLOT_STATE(
				SLOT_CONDEMNED, core_life(&core, slots[0]));
		if (instant >= 2)
			core_slot(&core, slots[0])->state = SLOT_STATE(
				SLOT_FREE, core_life(&core, slots[0]) + 1);
		if (instant >= 3)
			new->flags &= ~(uint32_t)SLOT_REPLACES;
		/* Its writer need not live any more. */
		core.share.clients[core.clients[0].cid].state = SHARE_CLIENT_FREE;
		restart(&core, &recovery);
		assert_int_equal(recovery.adopted, 1);
		assert_int_equal(recovery.writing, 0);
		assert_int_equal(recovery.dropped[DROP_OLDER], instant == 0);
		assert_is(&core, "a", slots[1]);
		assert_int_equal(core_kind(&core, slots[0]), SLOT_FREE);
		core_close(&core);
	}
}

/* The record of the old one is there still, and gives way. */
static void test_restart_with_the_old_on_disk(void **state)
{
	struct drive drive;
	struct recovery recovery;
	struct put_request put;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	slot = start_over(&drive.core, "a", &put);
	assert_int_equal(core_end(&drive.core, slot), 0);
	assert_int_equal(drive_records(&drive), 1);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_is(&drive.core, "a", slot);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	drive_close(&drive);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_old_stays_until_the_end),
	cmocka_unit_test(test_nothing_to_replace),
	cmocka_unit_test(test_given_up),
	cmocka_unit_test(test_removed),
	cmocka_unit_test(test_many_at_once),
	cmocka_unit_test(test_copy_is_replaced),
	cmocka_unit_test(test_replaced_on_disk),
	cmocka_unit_test(test_restart_before_the_end),
	cmocka_unit_test(test_restart_with_nothing_to_replace),
	cmocka_unit_test(test_restart_in_the_end),
	cmocka_unit_test(test_restart_with_the_old_on_disk),
};

UNIT_MAIN(tests)
