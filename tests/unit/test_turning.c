/*
 * The room that is kept for loads: whatever is on disk comes back in it, no put gets it, it
 * grows before it must, and a restart finds it as it was.
 */
#include "disk_fixture.h"

#define LARGE_POOL MIB

/* ---- turning room -------------------------------------------------------------------- */

/* Softpin objects until no put starts any more; returns how many. */
static uint32_t fill_by(struct drive *drive, const char *prefix, uint64_t size)
{
	for (uint32_t count = 0;; count++) {
		struct put_request put;
		char key[16];
		uint32_t slot;

		(void)snprintf(key, sizeof(key), "%s%u", prefix, count);
		put = core_request(&drive->core, key, size, CORE_SOFTPIN);
		if (master_put_start(&drive->core.master, &put, NULL, &slot) ==
			PUT_NO_ROOM)
			return count;
		drive_fill(drive, slot);
		assert_int_equal(core_end(&drive->core, slot), 0);
	}
}

static uint32_t fill(struct drive *drive, const char *prefix)
{
	return fill_by(drive, prefix, 4 * KIB);
}

/* Nothing is written out. */
static void fail_disk(struct drive *drive)
{
	drive->core.master.disk.error = ERR_IO;
	drive->core.master.disk.retry_ns = UINT64_MAX;
}

static uint64_t turning(const struct drive *drive)
{
	return drive->core.master.room.turning.size;
}

/* The pool is full of what cannot leave, also for want of a disk; whatever is on disk comes
 * back, one after the other, in the room that no put gets. */
static void test_all_on_disk_comes_back_in_a_full_pool(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct ticket put_ticket;
	uint32_t slots[3];

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "b", 20 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "c", 40 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	(void)drive_save(&drive, "b");
	drive_move(&drive, "c");
	assert_int_equal(drive_use(&drive).objects_only, 3);
	assert_int_equal(turning(&drive), 40 * KIB);
	assert_int_equal(core_use(&drive.core).withheld, 40 * KIB);

	fail_disk(&drive);
	assert_int_equal(fill(&drive, "f"), (DRIVE_POOL - 40 * KIB) / (4 * KIB));
	ticket_init(&put_ticket);
	master_room_wait(&drive.core.master, &put_ticket, 4 * KIB, 1);
	core_run(&drive.core);
	assert_null(master_room_granted(&drive.core.master));
	assert_int_equal(core_use(&drive.core).withheld, 40 * KIB);

	for (uint32_t round = 0; round < 3; round++) {
		/* At once: a load needs no ticket for it. */
		assert_int_equal(
			drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
		assert_int_equal(drive_load_end(&drive, &load, 0), 0);
		slots[0] = load.slot;
		assert_int_equal(core_list(&drive.core, slots[0]), OBJECT_LENT);
		drive_assert_bytes(&drive, "a", 1);
		slots[1] = drive_load(&drive, "b");
		drive_assert_bytes(&drive, "b", 2);
		slots[2] = drive_load(&drive, "c");
		drive_assert_bytes(&drive, "c", 3);
		core_run(&drive.core);
		assert_null(master_room_granted(&drive.core.master));
	}

	/* With a reader on what is there, a load waits for the reader. */
	assert_int_equal(core_get(&drive.core, 0, "c"), slots[2]);
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_NO_ROOM);
	core_give(&drive.core, 0, slots[2]);
	core_deliver(&drive.core);
	(void)drive_load(&drive, "a");
	master_room_cancel(&drive.core.master, &put_ticket);
	drive_close(&drive);
}

/* A load that waits gets what a reader gives back, before any put. */
static void test_a_load_waits_for_a_reader(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct ticket put_ticket, load_ticket;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "b", 40 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	drive_move(&drive, "b");
	fail_disk(&drive);
	(void)fill(&drive, "f");
	slot = drive_load(&drive, "a");
	assert_int_equal(core_get(&drive.core, 0, "a"), slot);
	ticket_init(&put_ticket);
	ticket_init(&load_ticket);
	master_room_wait(&drive.core.master, &put_ticket, 4 * KIB, 1);
	master_room_wait_load(&drive.core.master, &load_ticket, 40 * KIB, 1);
	core_run(&drive.core);
	assert_null(master_room_granted(&drive.core.master));
	core_give(&drive.core, 0, slot);
	core_deliver(&drive.core);
	core_run(&drive.core);
	assert_ptr_equal(master_room_granted(&drive.core.master), &load_ticket);
	assert_null(master_room_granted(&drive.core.master));
	assert_int_equal(
		drive_load_begin(&drive, "b", &load_ticket, &load), LOAD_STARTED);
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	drive_assert_bytes(&drive, "b", 2);
	core_run(&drive.core);
	assert_null(master_room_granted(&drive.core.master));
	master_room_cancel(&drive.core.master, &put_ticket);
	drive_close(&drive);
}

/* A larger one stays in the pool until the room has grown, also over what lies there. */
static void test_turning_room_grows(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20 * KIB, CORE_SOFTPIN);
	assert_int_equal(turning(&drive), 0);
	(void)drive_save(&drive, "a");
	assert_int_equal(turning(&drive), 20 * KIB);
	(void)drive_put(&drive, "b", 100, CORE_SOFTPIN);
	(void)drive_save(&drive, "b");
	assert_int_equal(turning(&drive), 20 * KIB);

	/* All of the pool is full, the part that will be missing with a dirty object. */
	assert_int_not_equal(fill(&drive, "f"), 0);
	for (uint32_t i = 0; i < 13; i++) { /* it lies on whole pages */
		char key[8];

		(void)snprintf(key, sizeof(key), "f%u", i);
		assert_int_equal(core_remove(&drive.core, key), 0);
	}
	slot = drive_put(&drive, "large", 48 * KIB, CORE_SOFTPIN);
	drive_save_first(&drive, "large");
	drive_sync(&drive);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_true(turning(&drive) >= 48 * KIB);
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "large")), OBJECT_CLEAN);
	drive_close(&drive);
}

/* While what lies in the way is held, the large one stays in the pool. */
static void test_turning_room_waits_to_grow(void **state)
{
	struct drive drive;
	struct ticket ticket;
	uint32_t slot, held;

	(void)state;
	drive_open_usual(&drive);
	slot = drive_put(&drive, "large", 120 * KIB, CORE_SOFTPIN);
	held = drive_put(&drive, "held", 100 * KIB, CORE_CACHE);
	assert_int_equal(core_get(&drive.core, 0, "held"), held);
	drive_save_first(&drive, "large");
	drive_sync(&drive);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LARGE);
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 60 * KIB, 1);
	core_run(&drive.core);
	assert_null(master_room_granted(&drive.core.master));
	assert_int_equal(core_find(&drive.core, "large"), slot);

	core_read(&drive.core, 1, "large");
	core_give(&drive.core, 0, held);
	core_deliver(&drive.core);
	drive_sync(&drive);
	assert_true(turning(&drive) >= 120 * KIB);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	master_room_cancel(&drive.core.master, &ticket);
	drive_crowd(&drive, DRIVE_POOL - turning(&drive));
	(void)drive_load(&drive, "large");
	drive_assert_bytes(&drive, "large", 1);
	drive_close(&drive);
}

/* Removed, but not yet from the index, as the daemon is killed: it is only on disk then, and
 * larger than the room, which grows as soon as it can. */
static void test_a_large_one_is_back_after_a_restart(void **state)
{
	struct drive drive;
	struct recovery recovery;
	uint32_t held;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "large", 120 * KIB, CORE_SOFTPIN);
	held = drive_put(&drive, "held", 100 * KIB, CORE_CACHE);
	assert_int_equal(core_get(&drive.core, 0, "held"), held);
	drive_save_first(&drive, "large");
	drive_sync(&drive);
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "large")), OBJECT_LARGE);
	assert_int_equal(core_remove(&drive.core, "large"), 0);
	(void)fill(&drive, "f");
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_not_equal(drive_find(&drive, "large"), DISK_NONE);
	core_give(&drive.core, 0, held);
	core_deliver(&drive.core);
	drive_sync(&drive);
	(void)drive_load(&drive, "large");
	drive_assert_bytes(&drive, "large", 1);
	drive_close(&drive);
}

/* After a start the room is there before the first put, with what it had lent. */
static void test_turning_room_outlives_a_restart(void **state)
{
	struct drive drive;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "b", 30 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	drive_move(&drive, "b");
	fail_disk(&drive);
	(void)fill(&drive, "f");
	slot = drive_load(&drive, "b");
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(turning(&drive), 40 * KIB);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_int_equal(fill(&drive, "g"), 0);
	fail_disk(&drive);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	(void)drive_load(&drive, "b");
	drive_assert_bytes(&drive, "b", 2);
	drive_close(&drive);
}

/* The window of a ticket that waits for a writer gives way: what it waits for may be the
 * large object itself. */
static void test_turning_room_comes_before_a_window(void **state)
{
	struct drive drive;
	struct put_request put;
	struct ticket ticket;
	uint32_t open;

	(void)state;
	drive_open(&drive, LARGE_POOL, 2 * LARGE_POOL, DRIVE_ENTRIES);
	put = core_request(&drive.core, "open", 512 * KIB, CORE_SOFTPIN);
	open = core_start(&drive.core, &put);
	(void)drive_put(&drive, "large", 300 * KIB, CORE_SOFTPIN);
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 600 * KIB, 1);
	core_run(&drive.core);
	assert_ptr_equal(drive.core.master.room.window.owner, &ticket);
	drive_sync(&drive);
	assert_true(turning(&drive) >= 300 * KIB);
	assert_null(master_room_granted(&drive.core.master));
	assert_int_equal(master_put_abort(&drive.core.master, open,
				 core_life(&drive.core, open), put.writer),
		0);
	drive_sync(&drive);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	master_room_cancel(&drive.core.master, &ticket);
	drive_close(&drive);
}

/* ---- smaller again ------------------------------------------------------------------- */

/* 100 KiB are kept, and 4 KiB would do. All else is full. */
static void open_too_large(struct drive *drive)
{
	drive_open_usual(drive);
	(void)drive_put(drive, "large", 100 * KIB, CORE_SOFTPIN);
	(void)drive_put(drive, "small", 4 * KIB, CORE_SOFTPIN);
	(void)drive_save(drive, "small");
	drive_move(drive, "large");
	assert_int_equal(core_remove(&drive->core, "large"), 0);
	drive_sync(drive);
	fail_disk(drive);
	(void)fill(drive, "f");
	assert_int_equal(turning(drive), 100 * KIB);
}

/* Growing again is dear: so not before it has been too large for a while. */
static void test_turning_room_shrinks_late(void **state)
{
	struct drive drive;
	struct ticket ticket;

	(void)state;
	open_too_large(&drive);
	(void)core_advance(&drive.core, 10 * TURNING_IDLE_NS);
	core_run(&drive.core);
	assert_int_equal(turning(&drive), 100 * KIB); /* nobody wants it */
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 50 * KIB, 1);
	core_run(&drive.core);
	(void)core_advance(&drive.core, TURNING_IDLE_NS - 1);
	core_run(&drive.core);
	assert_int_equal(turning(&drive), 100 * KIB);
	assert_null(master_room_granted(&drive.core.master));
	(void)core_advance(&drive.core, SWEEP_PERIOD_NS);
	core_run(&drive.core);
	assert_int_equal(turning(&drive), 4 * KIB);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	master_room_cancel(&drive.core.master, &ticket);
	drive_close(&drive);
}

/* At once for who could not have room beside it. */
static void test_turning_room_is_in_the_way(void **state)
{
	struct drive drive;
	struct ticket ticket;

	(void)state;
	open_too_large(&drive);
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 156 * KIB, 1);
	core_run(&drive.core);
	assert_int_equal(turning(&drive), 100 * KIB);
	master_room_cancel(&drive.core.master, &ticket);
	master_room_wait(&drive.core.master, &ticket, 157 * KIB, 1);
	core_run(&drive.core);
	assert_int_equal(turning(&drive), 4 * KIB);
	master_room_cancel(&drive.core.master, &ticket);
	drive_close(&drive);
}

/* ---- slots --------------------------------------------------------------------------- */

/* Slots are full before bytes: one is kept for loads, and then what lies in the room gives
 * its own. */
static void test_a_slot_is_kept_for_loads(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "b", 8 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "c", 8 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	(void)drive_save(&drive, "b");
	core_read(&drive.core, 0, "a");
	core_read(&drive.core, 0, "b");
	drive_move(&drive, "c");
	assert_int_equal(drive_use(&drive).objects_only, 3);
	fail_disk(&drive);
	/* No slot is left for puts, nor bytes for anything outside the room. */
	(void)drive_put(&drive, "rest", 184 * KIB, CORE_SOFTPIN);
	assert_int_equal(fill_by(&drive, "f", POOL_GRANULE), DRIVE_SLOTS - 2);
	assert_int_equal(core_use(&drive.core).free, 2 * POOL_GRANULE);
	for (uint32_t round = 0; round < 3; round++) {
		slot = drive_load(&drive, "b");
		assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
		drive_assert_bytes(&drive, "b", 2);
		(void)drive_load(&drive, "c");
		drive_assert_bytes(&drive, "c", 3);
		assert_int_equal(core_find(&drive.core, "b"), SLOT_NONE);
	}
	drive_close(&drive);
}

/* ---- lent ---------------------------------------------------------------------------- */

/* `count` objects of 100 KiB, "a", "b", ..., are in the pool, on disk, and unread. */
static void open_unread(struct drive *drive, uint32_t count)
{
	drive_open(drive, LARGE_POOL, 2 * LARGE_POOL, DRIVE_ENTRIES);
	for (uint32_t i = 0; i < count; i++) {
		char key[2] = {(char)('a' + i), '\0'};

		(void)drive_put(drive, key, 100 * KIB, CORE_SOFTPIN);
		(void)drive_save(drive, key);
	}
	assert_int_equal(turning(drive), 100 * KIB);
}

static void crowd_all(struct drive *drive)
{
	drive_crowd(drive, LARGE_POOL - turning(drive));
}

/* What nobody has read moves to the room, and need not be read back. */
static void test_unread_is_lent(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	open_unread(&drive, 2);
	core_read(&drive.core, 0, "b");
	crowd_all(&drive);
	slot = core_find(&drive.core, "a");
	assert_int_not_equal(slot, SLOT_NONE);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_int_equal(core_slot(&drive.core, slot)->off, LARGE_POOL - turning(&drive));
	assert_true(master_is_saved(&drive.core.master, slot));
	drive_assert_bytes(&drive, "a", 1);
	assert_int_equal(core_find(&drive.core, "b"), SLOT_NONE);
	assert_int_equal(drive.core.master.stats.relocated, 1);
	assert_int_equal(drive.core.master.stats.dropped, 1);
	(void)drive_load(&drive, "b");
	drive_assert_bytes(&drive, "b", 2);
	drive_close(&drive);
}

/* It stays there as long as it is unread; a load takes its place all the same. */
static void test_lent_stays_until_it_is_read(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	open_unread(&drive, 1);
	crowd_all(&drive);
	(void)drive_put(&drive, "b", 100 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "b");
	crowd_all(&drive);
	assert_int_not_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(core_find(&drive.core, "b"), SLOT_NONE); /* there is no place */

	core_read(&drive.core, 0, "a");
	(void)drive_put(&drive, "c", 100 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "c");
	crowd_all(&drive);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	slot = core_find(&drive.core, "c");
	assert_int_not_equal(slot, SLOT_NONE);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);

	fail_disk(&drive);
	(void)fill_by(&drive, "f", 28 * KIB);
	assert_int_equal(core_list(&drive.core, drive_load(&drive, "a")), OBJECT_LENT);
	assert_int_equal(core_find(&drive.core, "c"), SLOT_NONE);
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* A small one is read back together with others: that is cheaper than a move. */
static void test_small_ones_are_not_lent(void **state)
{
	struct drive drive;

	(void)state;
	drive_open(&drive, LARGE_POOL, 2 * LARGE_POOL, DRIVE_ENTRIES);
	(void)drive_put(&drive, "a", 60 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	crowd_all(&drive);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(drive.core.master.stats.relocated, 0);
	drive_close(&drive);
}

/* The only object is on its way to the room, its old place is what a ticket waits for. */
static void open_lending(
	struct drive *drive, struct ticket *ticket, struct relocation *move)
{
	open_unread(drive, 1);
	ticket_init(ticket);
	master_room_wait(&drive->core.master, ticket, LARGE_POOL - turning(drive), 1);
	(void)master_room_run(&drive->core.master, drive->core.now, 8);
	core_assert(&drive->core);
	assert_true(master_move_next(&drive->core.master, move));
	assert_int_equal(core_list(&drive->core, move->from), OBJECT_MOVING);
	assert_int_equal(move->to_off, LARGE_POOL - turning(drive));
	assert_null(master_room_granted(&drive->core.master));
}

static void test_lending_is_given_up(void **state)
{
	struct drive drive;
	struct ticket ticket;
	struct relocation move;

	(void)state;
	open_lending(&drive, &ticket, &move);
	master_move_done(&drive.core.master, false, drive.core.now);
	core_assert(&drive.core);
	assert_int_equal(core_find(&drive.core, "a"), move.from);
	assert_int_equal(core_list(&drive.core, move.from), OBJECT_CLEAN);
	core_run(&drive.core); /* and tried again */
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "a")), OBJECT_LENT);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	drive_close(&drive);
}

static void test_removed_while_it_is_lent(void **state)
{
	struct drive drive;
	struct ticket ticket;
	struct relocation move;

	(void)state;
	open_lending(&drive, &ticket, &move);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_true(drive_ends(&drive, "a"));
	master_move_done(&drive.core.master, true, drive.core.now);
	core_assert(&drive.core);
	assert_int_equal(core_use(&drive.core).objects, 0);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	drive_close(&drive);
}

static void test_killed_while_it_is_lent(void **state)
{
	struct drive drive;
	struct ticket ticket;
	struct relocation move;
	struct recovery recovery;

	(void)state;
	open_lending(&drive, &ticket, &move);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(recovery.dropped[DROP_UNFINISHED], 1);
	assert_int_equal(core_find(&drive.core, "a"), move.from);
	assert_int_equal(core_list(&drive.core, move.from), OBJECT_CLEAN);
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* Room for so many bytes comes of what is written out; an object that was read has it. */
static void make_room(struct drive *drive, const char *key, uint64_t size)
{
	struct ticket ticket;

	ticket_init(&ticket);
	master_room_wait(&drive->core.master, &ticket, size, 1);
	drive_sync(drive);
	assert_ptr_equal(master_room_granted(&drive->core.master), &ticket);
	master_room_cancel(&drive->core.master, &ticket);
	(void)drive_put(drive, key, size, CORE_SOFTPIN);
	core_read(&drive->core, 0, key);
}

/* There is no place for what is unread: what was read is written out, and leaves instead. */
static void test_spent_leaves_before_unread(void **state)
{
	struct drive drive;
	uint32_t slot;
	char key[8];

	(void)state;
	open_unread(&drive, 1);
	crowd_all(&drive);
	slot = drive_put(&drive, "b", 100 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "b");
	for (uint32_t i = 0; i < 8; i++) {
		(void)snprintf(key, sizeof(key), "s%u", i);
		(void)drive_put(&drive, key, 100 * KIB, CORE_SOFTPIN);
		core_read(&drive.core, 0, key);
	}
	make_room(&drive, "x", 300 * KIB);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_CLEAN);
	assert_int_not_equal(core_use(&drive.core).spent, 0);
	/* By its place and list it is the first to go now. */
	make_room(&drive, "y", 100 * KIB);
	assert_int_equal(core_find(&drive.core, "b"), slot);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_CLEAN);
	drive_assert_bytes(&drive, "a", 1);
	drive_assert_bytes(&drive, "b", 2);
	drive_close(&drive);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_on_disk_comes_back_in_a_full_pool),
	cmocka_unit_test(test_a_load_waits_for_a_reader),
	cmocka_unit_test(test_turning_room_grows),
	cmocka_unit_test(test_turning_room_waits_to_grow),
	cmocka_unit_test(test_a_large_one_is_back_after_a_restart),
	cmocka_unit_test(test_turning_room_outlives_a_restart),
	cmocka_unit_test(test_turning_room_comes_before_a_window),
	cmocka_unit_test(test_turning_room_shrinks_late),
	cmocka_unit_test(test_turning_room_is_in_the_way),
	cmocka_unit_test(test_a_slot_is_kept_for_loads),
	cmocka_unit_test(test_unread_is_lent),
	cmocka_unit_test(test_lent_stays_until_it_is_read),
	cmocka_unit_test(test_small_ones_are_not_lent),
	cmocka_unit_test(test_lending_is_given_up),
	cmocka_unit_test(test_removed_while_it_is_lent),
	cmocka_unit_test(test_killed_while_it_is_lent),
	cmocka_unit_test(test_spent_leaves_before_unread),
};

UNIT_MAIN(tests)
