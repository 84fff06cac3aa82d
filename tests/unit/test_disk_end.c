/*
 * The end of objects that have a disk: removed at each step of their way to it and back,
 * read out, or over.
 */
#include "disk_fixture.h"

/* ---- removed at each step ------------------------------------------------------------ */

static void test_removed_before_it_is_written(void **state)
{
	struct drive drive;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_false(drive_ends(&drive, "a"));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* Neither the pool's run nor the disk's is anybody's before the I/O's end. */
static void test_removed_while_it_is_written(void **state)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &write);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(core_remove(&drive.core, "a"), ERR_NOT_FOUND);
	assert_false(drive_ends(&drive, "a")); /* no record of it will ever be */
	assert_int_equal(core_use(&drive.core).condemned, 5 * 4096);
	assert_int_equal(drive_use(&drive).used, 5 * 4096);
	drive_write_end(&drive, &write, 0);
	assert_int_equal(core_use(&drive.core).condemned, 0);
	assert_false(drive_commit_begin(&drive, &commit));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_removed_while_a_write_fails(void **state)
{
	struct drive drive;
	struct drive_write write;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &write);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_write_end(&drive, &write, ERR_IO);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_removed_before_its_commit(void **state)
{
	struct drive drive;
	struct drive_commit commit;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_write_out(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_false(drive_ends(&drive, "a"));
	assert_false(drive_commit_begin(&drive, &commit));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* The record comes, and goes by the next commit; until then the remover waits. With `err`
 * nobody knows whether it came. */
static void removed_while_it_is_committed(uint64_t size, int err)
{
	struct drive drive;
	struct drive_commit commit;

	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_write_out(&drive, "a");
	drive_must_commit(&drive, &commit);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_true(drive_ends(&drive, "a"));
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_not_equal(core_use(&drive.core).condemned, 0);
	drive_commit_end(&drive, &commit, err);
	drive.core.now += DISK_RETRY_NS;
	assert_int_equal(core_use(&drive.core).condemned, 0);
	assert_true(drive_ends(&drive, "a"));
	drive_must_commit(&drive, &commit);
	assert_true(commit.changes[0].drop);
	assert_true(drive_ends(&drive, "a"));
	drive_commit_end(&drive, &commit, 0);
	assert_false(drive_ends(&drive, "a"));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_removed_while_it_is_committed(void **state)
{
	(void)state;
	removed_while_it_is_committed(20000, 0);
	removed_while_it_is_committed(1000, 0);
	removed_while_it_is_committed(20000, ERR_IO);
	removed_while_it_is_committed(1000, ERR_IO);
}

static void test_removed_when_it_is_in_both_places(void **state)
{
	struct drive drive;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_true(drive_ends(&drive, "a"));
	/* The extent is not free before the commit. */
	assert_int_equal(drive_use(&drive).used, 5 * 4096);
	assert_int_equal(core_use(&drive.core).objects, 0);
	drive_assert_nothing(&drive);
	assert_false(drive_ends(&drive, "a"));
	drive_close(&drive);
}

static void test_removed_when_it_is_only_on_disk(void **state)
{
	struct drive drive;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(core_remove(&drive.core, "a"), ERR_NOT_FOUND);
	assert_true(drive_ends(&drive, "a")); /* so this one waits as well */
	drive_assert_nothing(&drive);
	assert_int_equal(core_remove(&drive.core, "a"), ERR_NOT_FOUND);
	assert_false(drive_ends(&drive, "a"));
	drive_close(&drive);
}

/* Before or after the end of the read the drop is committed: what is being read from is
 * nobody's meanwhile, also when the key has another object. */
static void removed_while_it_is_read(uint64_t size, bool committed_first)
{
	struct drive drive;
	struct drive_load load;
	uint64_t used;

	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_move(&drive, "a");
	used = drive_use(&drive).used;
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_true(drive_ends(&drive, "a"));
	assert_int_equal(drive_use(&drive).used, used);
	if (committed_first) {
		drive_sync(&drive);
		assert_false(drive_ends(&drive, "a"));
		assert_int_equal(drive_use(&drive).used, used);
		(void)drive_put(&drive, "a", size, CORE_SOFTPIN);
		(void)drive_save(&drive, "a");
		assert_int_equal(drive_use(&drive).used, 2 * used);
	}
	assert_int_equal(drive_load_end(&drive, &load, 0), ERR_NOT_FOUND);
	drive_sync(&drive);
	assert_int_equal(drive_use(&drive).used, committed_first ? used : 0);
	if (committed_first) {
		drive_assert_bytes(&drive, "a", 2);
		assert_int_equal(core_remove(&drive.core, "a"), 0);
	}
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_removed_while_it_is_read(void **state)
{
	(void)state;
	removed_while_it_is_read(20000, false);
	removed_while_it_is_read(20000, true);
	removed_while_it_is_read(1000, false);
	removed_while_it_is_read(1000, true);
}

/* Removed while a client holds it: the holder's bytes stay, and the disk's go. */
static void test_removed_while_it_is_held(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	slot = core_get(&drive.core, 0, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	assert_int_equal(drive_use(&drive).used, 0);
	assert_int_equal(core_use(&drive.core).condemned, 5 * 4096);
	core_give(&drive.core, 0, slot);
	core_deliver(&drive.core);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* ---- a life's end -------------------------------------------------------------------- */

static void test_ttl_of_what_is_only_on_disk(void **state)
{
	struct drive drive;
	struct put_request put;

	(void)state;
	drive_open_usual(&drive);
	put = core_request(&drive.core, "a", 20000, CORE_SOFTPIN);
	put.ttl_ns = 5000000000;
	(void)drive_put_like(&drive, &put);
	drive_move(&drive, "a");
	assert_true(master_next(&drive.core.master) <= drive.core.now + put.ttl_ns);
	(void)core_advance(&drive.core, put.ttl_ns - 1);
	assert_int_not_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(drive.core.master.stats.expired, 0);
	(void)core_advance(&drive.core, 1);
	core_assert(&drive.core);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(drive.core.master.stats.expired, 1);
	assert_true(drive_ends(&drive, "a"));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* It goes on where the object is, in the pool again or at a start. */
static void test_ttl_travels(void **state)
{
	struct drive drive;
	struct put_request put;
	uint64_t end;

	(void)state;
	drive_open_usual(&drive);
	put = core_request(&drive.core, "a", 20000, CORE_SOFTPIN);
	put.ttl_ns = 5000000000;
	end = drive.core.now + put.ttl_ns;
	(void)drive_put_like(&drive, &put);
	put = core_request(&drive.core, "b", 1000, CORE_SOFTPIN);
	put.ttl_ns = 6000000000;
	(void)drive_put_like(&drive, &put);
	(void)drive_save(&drive, "b");
	drive_move(&drive, "a");
	(void)core_advance(&drive.core, 1000000000);
	assert_int_equal(core_slot(&drive.core, drive_load(&drive, "a"))->expires, end);
	(void)core_advance(&drive.core, end - drive.core.now);
	core_assert(&drive.core);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 1);
	assert_int_equal(drive_reboot(&drive), 0); /* its clock begins at 1 s */
	assert_int_not_equal(drive_find(&drive, "b"), DISK_NONE);
	(void)core_advance(&drive.core, 6000000000);
	assert_int_equal(drive_find(&drive, "b"), DISK_NONE);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* While it is being read back its time ends. */
static void test_ttl_ends_during_a_load(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct put_request put;

	(void)state;
	drive_open_usual(&drive);
	put = core_request(&drive.core, "a", 20000, CORE_SOFTPIN);
	put.ttl_ns = 5000000000;
	(void)drive_put_like(&drive, &put);
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	(void)core_advance(&drive.core, put.ttl_ns);
	core_assert(&drive.core);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(drive_load_end(&drive, &load, 0), ERR_NOT_FOUND);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static int end_read(struct drive *drive, uint64_t sequence)
{
	struct index_key key = core_key("a");
	int err = master_read_ended(&drive->core.master, drive->core.clients[0].cid,
		sequence, &key, drive->core.generation, drive->core.now);

	core_assert(&drive->core);
	return err;
}

static void put_counted(struct drive *drive, uint16_t readers)
{
	struct put_request put = core_request(&drive->core, "a", 20000, CORE_SOFTPIN);

	put.readers = readers;
	(void)drive_put_like(drive, &put);
}

/* No room comes of it now; it does when what blocks it is over. */
static void assert_stays(struct drive *drive, const char *key)
{
	struct ticket ticket;

	ticket_init(&ticket);
	master_room_wait(&drive->core.master, &ticket,
		DRIVE_POOL - drive->core.master.room.turning.size, 1);
	core_run(&drive->core);
	assert_null(master_room_granted(&drive->core.master));
	assert_int_not_equal(core_find(&drive->core, key), SLOT_NONE);
	drive_sync(drive);
	assert_ptr_equal(master_room_granted(&drive->core.master), &ticket);
	assert_int_equal(core_find(&drive->core, key), SLOT_NONE);
	master_room_cancel(&drive->core.master, &ticket);
	core_assert(&drive->core);
}

/* The count is where the object is: in the slot, in the record, in the slot again. It does
 * not leave the pool before its record has the count. */
static void test_readers_left_travels(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	put_counted(&drive, 6);
	assert_int_equal(end_read(&drive, 1), 0);
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_only_record(&drive)->is.readers_left, 5);
	core_read(&drive.core, 0, "a");
	assert_int_equal(end_read(&drive, 2), 0);
	assert_false(drive_ends(&drive, "a")); /* the pool has the count */
	assert_stays(&drive, "a");
	assert_int_equal(drive.core.master.stats.parked_io, 1);
	assert_int_equal(drive_only_record(&drive)->is.readers_left, 4);
	/* A report that comes after the object has left. */
	assert_int_equal(end_read(&drive, 3), 0);
	assert_int_equal(end_read(&drive, 3), 0); /* said twice */
	assert_true(drive_ends(&drive, "a"));
	drive_sync(&drive);
	assert_false(drive_ends(&drive, "a"));
	assert_int_equal(drive_only_record(&drive)->is.readers_left, 3);
	slot = drive_load(&drive, "a");
	assert_int_equal(core_slot(&drive.core, slot)->readers_left, 3);
	assert_int_equal(end_read(&drive, 4), 0);
	assert_int_equal(end_read(&drive, 5), 0);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	assert_int_equal(end_read(&drive, 6), 0);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_true(drive_ends(&drive, "a"));
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* Counted while it is read back, and while its record is being committed. */
static void test_readers_left_changes_under_io(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct drive_commit commit;

	(void)state;
	drive_open_usual(&drive);
	put_counted(&drive, 5);
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(end_read(&drive, 1), 0);
	drive_must_commit(&drive, &commit);
	assert_int_equal(end_read(&drive, 2), 0);
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	assert_int_equal(core_slot(&drive.core, load.slot)->readers_left, 3);
	assert_int_equal(end_read(&drive, 3), 0);
	drive_commit_end(&drive, &commit, 0);
	assert_stays(&drive, "a"); /* until the record has what came since */
	assert_int_equal(drive_only_record(&drive)->is.readers_left, 2);
	assert_int_equal(end_read(&drive, 4), 0);
	assert_int_equal(end_read(&drive, 5), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* The last read ends when the object is only on disk. */
static void test_last_read_ends_on_disk(void **state)
{
	struct drive drive;

	(void)state;
	drive_open_usual(&drive);
	put_counted(&drive, 1);
	drive_move(&drive, "a");
	assert_int_equal(end_read(&drive, 1), 0);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_true(drive_ends(&drive, "a"));
	assert_int_equal(end_read(&drive, 2), ERR_NOT_FOUND);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_removed_before_it_is_written),
	cmocka_unit_test(test_removed_while_it_is_written),
	cmocka_unit_test(test_removed_while_a_write_fails),
	cmocka_unit_test(test_removed_before_its_commit),
	cmocka_unit_test(test_removed_while_it_is_committed),
	cmocka_unit_test(test_removed_when_it_is_in_both_places),
	cmocka_unit_test(test_removed_when_it_is_only_on_disk),
	cmocka_unit_test(test_removed_while_it_is_read),
	cmocka_unit_test(test_removed_while_it_is_held),
	cmocka_unit_test(test_ttl_of_what_is_only_on_disk),
	cmocka_unit_test(test_ttl_travels),
	cmocka_unit_test(test_ttl_ends_during_a_load),
	cmocka_unit_test(test_readers_left_travels),
	cmocka_unit_test(test_readers_left_changes_under_io),
	cmocka_unit_test(test_last_read_ends_on_disk),
};

UNIT_MAIN(tests)
