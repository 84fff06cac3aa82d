/*
 * What a start makes of pool and disk: the daemon killed at each step, the host gone down,
 * records that cannot be.
 */
#include "disk_fixture.h"

static const char long_key[] =
	"a key that does not fit into the slot and lies behind the bytes";

/* ---- starts -------------------------------------------------------------------------- */

static void test_reboot(void **state)
{
	static const uint64_t sizes[] = {1, 1000, 5000, 20000, 50000};
	static const char *const keys[] = {"0", "1", "2", "3", long_key};
	struct drive drive;
	uint64_t generations[ARRAY_LEN(sizes)];

	(void)state;
	drive_open_usual(&drive);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		(void)drive_put(&drive, keys[i], sizes[i], i != 2);
		generations[i] = drive.core.generation;
		(void)drive_save(&drive, keys[i]);
	}
	assert_int_equal(drive_reboot(&drive), 0);
	assert_int_equal(drive_use(&drive).objects_only, ARRAY_LEN(sizes));
	assert_int_equal(core_use(&drive.core).objects, 0);
	/* What comes now is newer than all that is there. */
	(void)drive_put(&drive, "new", 100, CORE_SOFTPIN);
	assert_true(drive.core.generation > generations[ARRAY_LEN(sizes) - 1]);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint32_t slot = drive_load(&drive, keys[i]);

		drive_assert_bytes(&drive, keys[i], (uint8_t)(i + 1));
		assert_int_equal(
			core_slot(&drive.core, slot)->generation, generations[i]);
		assert_int_equal(
			(core_slot(&drive.core, slot)->flags & SLOT_SOFTPIN) != 0,
			i != 2);
		assert_int_equal(core_remove(&drive.core, keys[i]), 0);
	}
	assert_int_equal(core_remove(&drive.core, "new"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* What is in both places is in both afterwards, and is not written again. */
static void test_restart_keeps_both_places(void **state)
{
	struct drive drive;
	struct drive_write write;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_put(&drive, "c", 1000, CORE_SOFTPIN);
	(void)drive_save(&drive, "c");
	drive_move(&drive, "a");
	(void)drive_put(&drive, "b", 20000, CORE_SOFTPIN);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	(void)drive_put(&drive, "d", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "b");
	slot = core_find(&drive.core, "b");
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(core_find(&drive.core, "b"), slot);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_int_equal(drive_use(&drive).objects, 3);
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "d")), OBJECT_DIRTY);
	drive_save_first(&drive, "b");
	assert_false(drive_write_begin(&drive, &write));
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 3);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* Killed at each step of a save. `steps`: 0 while it is written, 1 before the commit, 2
 * after the index has it and before core knows. */
static void killed_during_a_save(uint64_t size, uint32_t steps)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	struct recovery recovery;
	uint32_t slot;

	drive_open_usual(&drive);
	slot = drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &write);
	if (steps > 0)
		drive_write_end(&drive, &write, 0);
	if (steps > 1) {
		drive_must_commit(&drive, &commit);
		drive_store(&drive, &commit.changes[0].record, commit.changes[0].value);
	}
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	assert_int_equal(master_is_saved(&drive.core.master, slot), steps > 1);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_killed_during_a_save(void **state)
{
	(void)state;
	for (uint32_t steps = 0; steps < 3; steps++) {
		killed_during_a_save(20000, steps);
		killed_during_a_save(1000, steps);
	}
}

static void test_killed_during_a_load(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(recovery.dropped[DROP_UNFINISHED], 1);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(core_use(&drive.core).writing, 0);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* The remover was not answered, so the object may be there again, but whole. */
static void test_killed_before_a_drop(void **state)
{
	struct drive drive;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* An object of 20,000 bytes has been on disk and was removed, and its record is there again:
 * a commit that the device had not done. */
static void bring_back_record(struct drive *drive)
{
	struct drive_record record;

	(void)drive_put(drive, "a", 20000, CORE_SOFTPIN);
	drive_move(drive, "a");
	record = *drive_only_record(drive);
	assert_int_equal(core_remove(&drive->core, "a"), 0);
	drive_sync(drive);
	assert_int_equal(drive_records(drive), 0);
	drive->index[0] = record;
}

/* The pool's is newer. */
static void test_an_older_record_is_dropped(void **state)
{
	struct drive drive;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	bring_back_record(&drive);
	(void)drive_put(&drive, "a", 30000, CORE_SOFTPIN);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_true(drive_ends(&drive, "a"));
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "a")), OBJECT_DIRTY);
	/* Written out beside it, the new one's record comes after the old one's end. */
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	assert_int_equal(drive_use(&drive).used, 8 * 4096);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 2);
	drive_close(&drive);
}

/* A put of the key is under way: what was on disk had ended before it began. */
static void test_a_record_meets_a_put(void **state)
{
	struct drive drive;
	struct put_request put;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	bring_back_record(&drive);
	put = core_request(&drive.core, "a", 30000, CORE_SOFTPIN);
	slot = core_start(&drive.core, &put);
	drive_fill(&drive, slot);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(recovery.writing, 1);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(core_end(&drive.core, slot), 0);
	drive_assert_bytes(&drive, "a", 2);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	drive_close(&drive);
}

/* The pool's is older: it cannot be what the key means. */
static void test_a_newer_record_wins(void **state)
{
	struct drive drive;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	drive_only_record(&drive)->is.generation += 1ull << GENERATION_SHIFT;
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_not_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(core_use(&drive.core).objects, 0);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

static void flip_off(struct disk_record *record)
{
	record->off += 512;
}

static void move_past_the_end(struct disk_record *record)
{
	record->off = DRIVE_DATA - 4096;
}

static void move_far_away(struct disk_record *record)
{
	record->off = UINT64_MAX - 4095;
}

static void size_of_everything(struct disk_record *record)
{
	record->size = UINT64_MAX;
}

static void size_in_the_index(struct disk_record *record)
{
	record->size = 100;
}

static void value_of_the_index(struct disk_record *record)
{
	record->off = DISK_ON_INDEX;
}

static void no_key(struct disk_record *record)
{
	record->klen = 0;
}

static void endless_key(struct disk_record *record)
{
	record->klen = UINT16_MAX;
}

static void no_generation(struct disk_record *record)
{
	record->generation = 0;
}

/* They are left alone, and what lies there is used as if they were not. */
static void test_records_that_cannot_be(void **state)
{
	static void (*const spoils[])(struct disk_record * record) = {flip_off,
		move_past_the_end, move_far_away, size_of_everything, size_in_the_index,
		value_of_the_index, no_key, endless_key, no_generation};
	struct drive drive;
	struct recovery recovery;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spoils); i++) {
		drive_open_usual(&drive);
		(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
		drive_move(&drive, "a");
		spoils[i](&drive_only_record(&drive)->is);
		if (drive_restart(&drive, &recovery) != 1)
			fail_msg("spoil %zu was adopted", i);
		assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
		assert_int_equal(drive_use(&drive).objects, 0);
		drive_close(&drive);
	}
}

/* Of two records that claim the same bytes the first by offset is kept. */
static void test_records_that_overlap(void **state)
{
	struct drive drive;
	struct drive_record *record;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	record = drive_only_record(&drive);
	(void)drive_put(&drive, "b", 20000, CORE_SOFTPIN);
	drive_move(&drive, "b");
	for (uint32_t i = 0; i < DRIVE_RECORDS; i++) {
		if (drive.index[i].live && &drive.index[i] != record)
			drive.index[i].is.off = record->is.off + 4096;
	}
	assert_int_equal(drive_restart(&drive, &recovery), 1);
	assert_int_equal(drive_find(&drive, "b"), DISK_NONE);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

static void test_a_record_twice(void **state)
{
	struct drive drive;
	struct recovery recovery;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	for (uint32_t i = 0; i < DRIVE_RECORDS; i++) {
		if (!drive.index[i].live) {
			drive.index[i] = *drive_only_record(&drive);
			drive.index[i].is.off += 256 * KIB;
			break;
		}
	}
	assert_int_equal(drive_restart(&drive, &recovery), 1);
	assert_int_equal(drive_use(&drive).objects, 1);
	drive_close(&drive);
}

static void test_too_many_records(void **state)
{
	struct drive drive;
	char key[8];

	(void)state;
	drive_open_usual(&drive);
	for (uint32_t i = 0; i < 5; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)drive_put(&drive, key, 5000, CORE_SOFTPIN);
		(void)drive_save(&drive, key);
	}
	drive.config.object_limit = 3;
	assert_int_equal(drive_reboot(&drive), 2);
	assert_int_equal(drive_use(&drive).objects, 3);
	drive_close(&drive);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_reboot),
	cmocka_unit_test(test_restart_keeps_both_places),
	cmocka_unit_test(test_killed_during_a_save),
	cmocka_unit_test(test_killed_during_a_load),
	cmocka_unit_test(test_killed_before_a_drop),
	cmocka_unit_test(test_an_older_record_is_dropped),
	cmocka_unit_test(test_a_record_meets_a_put),
	cmocka_unit_test(test_a_newer_record_wins),
	cmocka_unit_test(test_records_that_cannot_be),
	cmocka_unit_test(test_records_that_overlap),
	cmocka_unit_test(test_a_record_twice),
	cmocka_unit_test(test_too_many_records),
};

UNIT_MAIN(tests)
