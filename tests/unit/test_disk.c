/*
 * Objects on their way to the disk, there, and back; what is put again over the record of
 * what was; a disk that fails, or is full.
 */
#include "disk_fixture.h"

static const char long_key[] =
	"a key that does not fit into the slot and lies behind the bytes";

/* ---- there and back ------------------------------------------------------------------ */

static void there_and_back(const char *key, uint64_t size, bool softpin)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	struct put_request put;
	uint64_t generation;
	uint32_t slot, again;

	drive_open_usual(&drive);
	slot = drive_put(&drive, key, size, softpin);
	generation = core_slot(&drive.core, slot)->generation;
	drive_save_first(&drive, key);
	drive_must_write(&drive, &write);
	assert_int_equal(write.count, 1);
	assert_int_equal(write.off == DISK_ON_INDEX, size <= DISK_INLINE);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_SAVING);
	assert_int_equal(core_find(&drive.core, key), slot);
	assert_false(master_is_saved(&drive.core.master, slot));
	drive_write_end(&drive, &write, 0);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_SAVING);
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 1);
	assert_false(commit.changes[0].drop);
	assert_int_equal(commit.changes[0].record.generation, generation);
	assert_false(master_is_saved(&drive.core.master, slot));
	drive_commit_end(&drive, &commit, 0);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_int_equal(drive_find(&drive, key), DISK_NONE); /* it is in the pool */
	assert_int_equal(drive_use(&drive).objects_only, 0);
	drive_sync(&drive);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_CLEAN);

	core_read(&drive.core, 0, key);
	drive_crowd(&drive, DRIVE_POOL - drive.core.master.room.turning.size);
	assert_int_equal(core_find(&drive.core, key), SLOT_NONE);
	assert_int_not_equal(drive_find(&drive, key), DISK_NONE);
	assert_int_equal(drive_use(&drive).objects_only, 1);
	assert_int_equal(drive_use(&drive).only_bytes, size);
	assert_int_equal(core_use(&drive.core).objects, 0);
	put = core_request(&drive.core, key, 10, CORE_SOFTPIN);
	assert_int_equal(
		master_put_start(&drive.core.master, &put, NULL, &again), PUT_EXISTS);
	assert_int_equal(again, SLOT_NONE);

	slot = drive_load(&drive, key);
	drive_assert_bytes(&drive, key, drive.byte);
	assert_int_equal(core_slot(&drive.core, slot)->generation, generation);
	assert_int_equal(core_slot(&drive.core, slot)->size, size);
	assert_int_equal(
		(core_slot(&drive.core, slot)->flags & SLOT_SOFTPIN) != 0, softpin);
	assert_int_equal(drive_find(&drive, key), DISK_NONE);
	assert_int_equal(drive_use(&drive).objects_only, 0);
	assert_false(drive_write_begin(&drive, &write)); /* it is there already */
	core_give(&drive.core, 0, core_get(&drive.core, 0, key));
	assert_int_equal(core_remove(&drive.core, key), 0);
	assert_true(drive_ends(&drive, key));
	drive_assert_nothing(&drive);
	assert_false(drive_ends(&drive, key));
	drive_close(&drive);
}

static void test_there_and_back(void **state)
{
	static const uint64_t sizes[] = {
		1, DISK_INLINE, DISK_INLINE + 1, 4096, 20000, 64 * KIB, 100 * KIB};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		there_and_back("a", sizes[i], CORE_SOFTPIN);
		there_and_back(long_key, sizes[i], CORE_SOFTPIN);
		there_and_back("a", sizes[i], CORE_CACHE);
	}
}

/* Small objects go together, one behind the other; those of the index by themselves. */
static void test_small_ones_go_together(void **state)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	char key[8];

	(void)state;
	drive_open_usual(&drive);
	for (uint32_t i = 0; i < 10; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)drive_put(&drive, key, i < 6 ? 5000 : 100, CORE_SOFTPIN);
		drive_save_first(&drive, key);
	}
	for (uint32_t i = 0; i < 2; i++) {
		drive_must_write(&drive, &write);
		assert_int_equal(write.count, write.off == DISK_ON_INDEX ? 4 : 6);
		drive_write_end(&drive, &write, 0);
	}
	assert_false(drive_write_begin(&drive, &write));
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 10);
	drive_commit_end(&drive, &commit, 0);
	assert_int_equal(drive_use(&drive).used, 6 * 2 * DISK_GRANULE);
	/* Each one's run is its own. */
	for (uint32_t i = 0; i < 10; i += 2) {
		(void)snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(core_remove(&drive.core, key), 0);
	}
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 5);
	assert_int_equal(drive_use(&drive).used, 3 * 2 * DISK_GRANULE);
	drive_close(&drive);
}

/* Tickets that wait are reason enough to write out, and get their room by it. */
static void test_a_put_that_waits_gets_room(void **state)
{
	struct drive drive;
	struct ticket ticket;
	char key[8];

	(void)state;
	drive_open_usual(&drive);
	for (uint32_t i = 0; i < 16; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)drive_put(&drive, key, 16 * KIB, CORE_SOFTPIN);
	}
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0); /* nobody asked */
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 48 * KIB, 1);
	drive_sync(&drive);
	assert_ptr_equal(master_room_granted(&drive.core.master), &ticket);
	master_room_cancel(&drive.core.master, &ticket);
	for (uint32_t i = 0; i < 16; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		if (core_find(&drive.core, key) == SLOT_NONE)
			(void)drive_load(&drive, key);
		drive_assert_bytes(&drive, key, (uint8_t)(i + 1));
	}
	drive_close(&drive);
}

/* ---- put again ----------------------------------------------------------------------- */

/* The key waits for the commit that drops the old record, or the old object could come back
 * in place of a new one. */
static void put_again(uint64_t size, int err)
{
	struct drive drive;
	struct drive_commit commit;

	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_put_waits(&drive, "a");
	drive_must_commit(&drive, &commit);
	assert_true(commit.changes[0].drop);
	drive_assert_put_waits(&drive, "a");
	drive_commit_end(&drive, &commit, err);
	if (err != 0) {
		drive_assert_put_waits(&drive, "a");
		drive.core.now += DISK_RETRY_NS;
		drive_sync(&drive);
	}
	(void)drive_put(&drive, "a", size, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", drive.byte);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_put_again_waits_for_the_drop(void **state)
{
	(void)state;
	put_again(20000, 0);
	put_again(1000, 0);
	put_again(20000, ERR_NO_SPACE);
	put_again(1000, ERR_NO_SPACE);
}

/* The record is just coming as its object is removed: the key waits for its end. */
static void test_put_again_while_the_old_one_is_committed(void **state)
{
	struct drive drive;
	struct drive_commit commit;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_write_out(&drive, "a");
	drive_must_commit(&drive, &commit);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_put_waits(&drive, "a");
	drive_commit_end(&drive, &commit, 0);
	drive_assert_put_waits(&drive, "a");
	drive_sync(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	drive_close(&drive);
}

/* Removed as it is written: no record will come, and nobody waits. */
static void test_put_again_while_the_old_one_is_written(void **state)
{
	struct drive drive;
	struct drive_write first, second;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &first);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &second);
	drive_write_end(&drive, &second, 0);
	drive_write_end(&drive, &first, 0);
	drive_sync(&drive);
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 2);
	drive_close(&drive);
}

/* A change of the record of "a" is under way: it comes, or has another count of reads. */
static void old_one_is_committed(
	struct drive *drive, uint64_t size, bool counted, struct drive_commit *ret)
{
	struct put_request put = core_request(&drive->core, "a", size, CORE_SOFTPIN);
	struct index_key key = core_key("a");

	put.readers = counted ? 5 : 0;
	(void)drive_put_like(drive, &put);
	if (counted) {
		(void)drive_save(drive, "a");
		assert_int_equal(
			master_read_ended(&drive->core.master, drive->core.clients[0].cid,
				1, &key, drive->core.generation, drive->core.now),
			0);
	} else {
		drive_write_out(drive, "a");
	}
	drive_must_commit(drive, ret);
	assert_false(ret->changes[0].drop);
}

/* A put in its place does not wait, and may have been written out before that commit ends.
 * `done`: the index has done it, whatever it says. */
static void put_over(uint64_t size, bool counted, int err, bool done)
{
	struct drive drive;
	struct drive_commit commit;
	struct put_request put;

	drive_open_usual(&drive);
	old_one_is_committed(&drive, size, counted, &commit);
	put = core_request(&drive.core, "a", size, CORE_SOFTPIN);
	put.replace = true;
	(void)drive_put_like(&drive, &put);
	drive_write_out(&drive, "a");
	if (err != 0 && done)
		drive_apply(&drive, &commit);
	drive_commit_end(&drive, &commit, err);
	assert_true(drive_ends(&drive, "a"));
	drive.core.now += DISK_RETRY_NS;
	drive_sync(&drive);
	assert_false(drive_ends(&drive, "a"));
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	assert_int_equal(drive_use(&drive).objects, 1);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 2);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_put_over_the_old_one_while_it_is_committed(void **state)
{
	(void)state;
	for (uint32_t counted = 0; counted < 2; counted++) {
		for (uint32_t done = 0; done < 2; done++) {
			put_over(20000, counted, ERR_IO, done);
			put_over(1000, counted, ERR_IO, done);
		}
		put_over(20000, counted, 0, true);
		put_over(1000, counted, 0, true);
	}
}

static void assert_kept_later(struct drive *drive, uint32_t slot)
{
	master_yield(&drive->core.master, slot, drive->core.now);
	core_assert(&drive->core);
	assert_int_equal(master_keep(&drive->core.master, slot), ERR_BUSY);
	core_assert(&drive->core);
}

/* Another node has become the keeper while it was written out, and gives the role back before
 * that has ended. */
static void kept_again(uint64_t size, bool is_written)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	uint32_t slot;

	drive_open_usual(&drive);
	slot = drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &write);
	if (!is_written)
		assert_kept_later(&drive, slot);
	drive_write_end(&drive, &write, 0);
	if (is_written) {
		drive_must_commit(&drive, &commit);
		assert_kept_later(&drive, slot);
		assert_false(drive_write_begin(&drive, &write));
		drive_commit_end(&drive, &commit, 0);
	}
	assert_int_equal(master_keep(&drive.core.master, slot), 0);
	core_assert(&drive.core);
	drive_move(&drive, "a");
	assert_int_equal(drive_use(&drive).objects, 1);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_kept_again_while_it_is_saved(void **state)
{
	(void)state;
	kept_again(20000, false);
	kept_again(20000, true);
	kept_again(1000, false);
	kept_again(1000, true);
}

/* ---- errors -------------------------------------------------------------------------- */

static void test_a_failed_write_is_tried_again(void **state)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	slot = drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "a");
	drive_must_write(&drive, &write);
	drive_write_end(&drive, &write, ERR_IO);
	assert_int_equal(drive_use(&drive).error, ERR_IO);
	assert_int_equal(drive_use(&drive).used, 0);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_DIRTY);
	assert_false(drive_commit_begin(&drive, &commit));
	drive_save_first(&drive, "a");
	assert_false(drive_write_begin(&drive, &write));
	drive.core.now += DISK_RETRY_NS - 1;
	assert_false(drive_write_begin(&drive, &write));
	drive.core.now++;
	drive_must_write(&drive, &write);
	/* One try at a time. */
	(void)drive_put(&drive, "b", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "b");
	assert_int_equal(master_save_next(&drive.core.master, drive.core.now,
				 &write.items[1], 1, &write.off),
		0);
	drive_write_end(&drive, &write, 0);
	assert_int_equal(drive_use(&drive).error, 0);
	drive_sync(&drive);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_int_equal(drive_records(&drive), 2);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* The object is in the pool alone again. Its record may be there, as far as anyone knows, and
 * is dropped before another one comes. `done`: the index has done what it could not say. */
static void failed_commit(uint64_t size, bool done)
{
	struct drive drive;
	struct drive_commit commit;
	uint32_t slot;

	drive_open_usual(&drive);
	slot = drive_put(&drive, "a", size, CORE_SOFTPIN);
	drive_write_out(&drive, "a");
	drive_must_commit(&drive, &commit);
	if (done)
		drive_apply(&drive, &commit);
	drive_commit_end(&drive, &commit, ERR_NO_SPACE);
	assert_int_equal(drive_use(&drive).error, ERR_NO_SPACE);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_DIRTY);
	assert_false(master_is_saved(&drive.core.master, slot));
	assert_int_equal(drive_use(&drive).changes, 1);
	assert_true(drive_ends(&drive, "a"));
	assert_false(drive_commit_begin(&drive, &commit));
	drive.core.now += DISK_RETRY_NS;
	drive_write_out(&drive, "a");
	assert_int_equal(core_list(&drive.core, slot), OBJECT_SAVING);
	assert_int_equal(drive_use(&drive).objects, 2); /* and its bytes lie elsewhere */
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 2);
	assert_true(commit.changes[0].drop);
	assert_false(commit.changes[1].drop);
	drive_commit_end(&drive, &commit, 0);
	assert_true(master_is_saved(&drive.core.master, slot));
	assert_int_equal(drive_only_record(&drive)->is.generation, drive.core.generation);
	assert_int_equal(drive_use(&drive).error, 0);
	assert_int_equal(drive_use(&drive).objects, 1);
	assert_false(drive_ends(&drive, "a"));
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_a_failed_commit_is_tried_again(void **state)
{
	(void)state;
	for (uint32_t done = 0; done < 2; done++) {
		failed_commit(20000, done);
		failed_commit(1000, done);
	}
}

/* It stays queued until it is done. */
static void test_a_failed_drop_is_tried_again(void **state)
{
	struct drive drive;
	struct drive_commit commit;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	for (uint32_t i = 0; i < 3; i++) {
		drive_must_commit(&drive, &commit);
		assert_true(commit.changes[0].drop);
		drive_commit_end(&drive, &commit, ERR_IO);
		assert_true(drive_ends(&drive, "a"));
		assert_false(drive_commit_begin(&drive, &commit));
		drive.core.now += DISK_RETRY_NS;
	}
	assert_int_equal(drive_records(&drive), 1);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void put_counted(struct drive *drive, const char *key)
{
	struct put_request put = core_request(&drive->core, key, 20000, CORE_SOFTPIN);

	put.readers = 5;
	(void)drive_put_like(drive, &put);
	(void)drive_save(drive, key);
}

/* With a full index a drop makes room, and must not fail with a store that finds none. */
static void test_commits_of_one_kind_after_an_error(void **state)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	struct index_key key = core_key("counted");

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "gone", 20000, CORE_SOFTPIN);
	(void)drive_save(&drive, "gone");
	put_counted(&drive, "counted");
	assert_int_equal(core_remove(&drive.core, "gone"), 0);
	assert_int_equal(master_read_ended(&drive.core.master, drive.core.clients[0].cid,
				 1, &key, drive.core.generation, drive.core.now),
		0);
	(void)drive_put(&drive, "failed", 20000, CORE_SOFTPIN);
	drive_save_first(&drive, "failed");
	drive_must_write(&drive, &write);
	drive_write_end(&drive, &write, ERR_NO_SPACE);
	drive.core.now += DISK_RETRY_NS;
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 1);
	assert_true(commit.changes[0].drop);
	drive_commit_end(&drive, &commit, ERR_NO_SPACE);
	drive.core.now += DISK_RETRY_NS;
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 1);
	assert_true(commit.changes[0].drop);
	drive_commit_end(&drive, &commit, 0);
	drive_must_commit(&drive, &commit);
	assert_int_equal(commit.count, 1);
	assert_false(commit.changes[0].drop);
	drive_commit_end(&drive, &commit, 0);
	assert_int_equal(drive_only_record(&drive)->is.readers_left, 4);
	drive_close(&drive);
}

/* Wrong bytes are never READY; what the disk has stays until its owner removes it. */
static void test_wrong_bytes_are_not_loaded(void **state)
{
	struct drive drive;
	struct drive_load load;
	uint32_t entry;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	drive.data[drive_only_record(&drive)->is.off + 19999] ^= 1;
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(drive_load_end(&drive, &load, 0), ERR_CORRUPT);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	entry = drive_find(&drive, "a");
	assert_int_not_equal(entry, DISK_NONE);
	assert_true(disk_entry(&drive.core.master.disk, entry)->corrupt);
	assert_int_equal(core_use(&drive.core).objects, 0);
	assert_int_equal(core_use(&drive.core).writing, 0);
	assert_int_equal(drive.core.master.stats.corrupt, 1);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* An owner who puts it again need not remove it first. */
static void test_wrong_bytes_are_put_again(void **state)
{
	struct drive drive;
	struct drive_load load;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	drive.data[drive_only_record(&drive)->is.off] ^= 1;
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(drive_load_end(&drive, &load, 0), ERR_CORRUPT);
	drive_assert_put_waits(&drive, "a");
	drive_sync(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", drive.byte);
	assert_int_equal(drive_records(&drive), 1);
	drive_close(&drive);
}

static void test_a_failed_read_changes_nothing(void **state)
{
	struct drive drive;
	struct drive_load load;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(drive_load_end(&drive, &load, ERR_IO), ERR_IO);
	assert_int_equal(core_use(&drive.core).writing, 0);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	(void)drive_load(&drive, "a");
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* One read at a time; while it is under way the object is still only on disk. */
static void test_one_load_of_an_object(void **state)
{
	struct drive drive;
	struct drive_load load;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 20000, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(core_kind(&drive.core, load.slot), SLOT_WRITING);
	assert_int_equal(drive_use(&drive).objects_only, 1);
	assert_int_equal(master_load_start(&drive.core.master, load.entry, "a", NULL,
				 drive.core.now, &slot),
		LOAD_GONE);
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	assert_int_equal(master_load_start(&drive.core.master, load.entry, "a", NULL,
				 drive.core.now, &slot),
		LOAD_GONE);
	drive_close(&drive);
}

/* ---- full ---------------------------------------------------------------------------- */

/* What finds no room on disk stays in the pool, until there is some. */
static void test_full_disk(void **state)
{
	struct drive drive;
	struct drive_write write;
	uint32_t slot;

	(void)state;
	drive_open(&drive, DRIVE_POOL, 64 * KIB, DRIVE_ENTRIES);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	slot = drive_put(&drive, "b", 30 * KIB, CORE_SOFTPIN);
	drive_save_first(&drive, "b");
	assert_false(drive_write_begin(&drive, &write));
	assert_int_equal(core_list(&drive.core, slot), OBJECT_DIRTY);
	assert_int_equal(drive_use(&drive).error, 0);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_false(drive_write_begin(&drive, &write)); /* before the commit */
	(void)drive_save(&drive, "b");
	drive_close(&drive);
}

static void test_full_index(void **state)
{
	struct drive drive;
	struct drive_write write;

	(void)state;
	drive_open(&drive, DRIVE_POOL, DRIVE_DATA, 2);
	(void)drive_put(&drive, "a", 100, CORE_SOFTPIN);
	(void)drive_put(&drive, "b", 5000, CORE_SOFTPIN);
	(void)drive_put(&drive, "c", 5000, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	(void)drive_save(&drive, "b");
	drive_save_first(&drive, "c");
	assert_false(drive_write_begin(&drive, &write));
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_false(drive_write_begin(&drive, &write));
	(void)drive_save(&drive, "c");
	drive_close(&drive);
}

/* Softpin objects take the place of cache objects, which stay in the pool if they are
 * there: the one that left first goes first. */
static void test_cache_gives_its_place(void **state)
{
	struct drive drive;

	(void)state;
	drive_open(&drive, DRIVE_POOL, 64 * KIB, DRIVE_ENTRIES);
	(void)drive_put(&drive, "a", 32 * KIB, CORE_CACHE);
	(void)drive_put(&drive, "b", 32 * KIB, CORE_CACHE);
	(void)drive_save(&drive, "a");
	(void)drive_save(&drive, "b");
	assert_int_equal(drive_use(&drive).cache_bytes, 64 * KIB);
	(void)drive_put(&drive, "c", 20 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "c");
	assert_int_equal(drive_use(&drive).cache_bytes, 32 * KIB);
	assert_int_equal(
		core_list(&drive.core, core_find(&drive.core, "a")), OBJECT_INACTIVE);
	assert_true(master_is_saved(&drive.core.master, core_find(&drive.core, "b")));
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

/* ---- trimming ------------------------------------------------------------------------ */

static void test_trim(void **state)
{
	struct drive drive;
	struct drive_write write;
	uint64_t off, size;
	uint32_t run;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 100 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_false(master_trim_next(
		&drive.core.master, 2 * DISK_TRIM_LEAST, &off, &size, &run));
	assert_true(master_trim_next(
		&drive.core.master, 2 * DISK_TRIM_LEAST + 1, &off, &size, &run));
	core_assert(&drive.core);
	drive_assert_unused(&drive, off, size);
	assert_int_equal(size, DRIVE_DATA - 100 * KIB);

	/* Nobody gets what is being given back. */
	(void)drive_put(&drive, "b", 20 * KIB, CORE_SOFTPIN);
	drive_save_first(&drive, "b");
	assert_false(drive_write_begin(&drive, &write));
	master_trim_done(&drive.core.master, run);
	core_assert(&drive.core);
	(void)drive_save(&drive, "b");

	/* The round goes on from there, and ends. */
	for (uint32_t rounds = 0; master_trim_next(
		     &drive.core.master, 2 * DISK_TRIM_LEAST + 1, &off, &size, &run);
		rounds++) {
		assert_true(rounds < 4);
		drive_assert_unused(&drive, off, size);
		master_trim_done(&drive.core.master, run);
		core_assert(&drive.core);
		if (!drive.core.master.disk.trimming)
			break;
	}
	drive_close(&drive);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_there_and_back),
	cmocka_unit_test(test_small_ones_go_together),
	cmocka_unit_test(test_a_put_that_waits_gets_room),
	cmocka_unit_test(test_put_again_waits_for_the_drop),
	cmocka_unit_test(test_put_again_while_the_old_one_is_committed),
	cmocka_unit_test(test_put_again_while_the_old_one_is_written),
	cmocka_unit_test(test_put_over_the_old_one_while_it_is_committed),
	cmocka_unit_test(test_kept_again_while_it_is_saved),
	cmocka_unit_test(test_a_failed_write_is_tried_again),
	cmocka_unit_test(test_a_failed_commit_is_tried_again),
	cmocka_unit_test(test_a_failed_drop_is_tried_again),
	cmocka_unit_test(test_commits_of_one_kind_after_an_error),
	cmocka_unit_test(test_wrong_bytes_are_not_loaded),
	cmocka_unit_test(test_wrong_bytes_are_put_again),
	cmocka_unit_test(test_a_failed_read_changes_nothing),
	cmocka_unit_test(test_one_load_of_an_object),
	cmocka_unit_test(test_full_disk),
	cmocka_unit_test(test_full_index),
	cmocka_unit_test(test_cache_gives_its_place),
	cmocka_unit_test(test_trim),
};

UNIT_MAIN(tests)
