/*
 * What a directory is told of a node: all that it holds, each once, wherever that goes in
 * the meantime; what left it; and what another node keeps from now on.
 */
#include "copy_fixture.h"

#define POOL   (64 * KIB)
#define OTHERS 24u

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
	core->master.config.low_permille = 0;
	core->master.config.clustered = true;
}

static void open_disk(struct drive *drive)
{
	drive_open_usual(drive);
	drive->core.master.config.clustered = true;
}

/* ---- the walk ------------------------------------------------------------- */

struct walk {
	struct core *core;
	uint64_t cursor;
	struct held met[64];
	uint32_t count;
};

/* One look. False: the walk has ended. */
static bool walk_look(struct walk *walk, uint32_t budget)
{
	struct held held;

	if (master_held_next(&walk->core->master, &walk->cursor, budget, &held)) {
		assert_true(walk->count < ARRAY_LEN(walk->met));
		walk->met[walk->count++] = held;
		return true;
	}
	return walk->cursor != UINT64_MAX;
}

static struct walk walk_all(struct core *core, uint32_t budget)
{
	struct walk walk = {.core = core};

	for (uint32_t i = 0; walk_look(&walk, budget); i++)
		assert_true(i < 10000);
	/* It stays at the end. */
	assert_false(walk_look(&walk, budget));
	return walk;
}

/* How often it was met. */
static uint32_t walk_count(
	const struct walk *walk, const char *key, const struct held **ret)
{
	struct disk_id id = disk_id_of(key, (uint32_t)strlen(key));
	uint32_t count = 0;

	for (uint32_t i = 0; i < walk->count; i++) {
		if (memcmp(&walk->met[i].id, &id, sizeof(id)) != 0)
			continue;
		*ret = &walk->met[i];
		count++;
	}
	return count;
}

static const struct held *walk_find(const struct walk *walk, const char *key)
{
	const struct held *held = NULL;

	assert_int_equal(walk_count(walk, key, &held), 1);
	return held;
}

static void test_walk_over_nothing(void **state)
{
	struct core core;
	struct drive drive;

	(void)state;
	open_small(&core);
	assert_int_equal(walk_all(&core, 1000).count, 0);
	assert_int_equal(walk_all(&core, 1).count, 0);
	core_close(&core);
	open_disk(&drive);
	assert_int_equal(walk_all(&drive.core, 3).count, 0);
	drive_close(&drive);
}

static void test_walk_over_the_pool(void **state)
{
	static const uint32_t budgets[] = {1, 2, 7, 100000};
	struct core core;
	struct put_request put;
	uint64_t generations[2];
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "softpin", 300, CORE_SOFTPIN);
	generations[0] = core.generation;
	put = core_request(&core, "cache", 20, CORE_CACHE);
	put.ttl_ns = 5000;
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	generations[1] = core.generation;
	(void)copy_of(&core, "secondary", 77);
	/* Not these: under way, and ended. */
	put = core_request(&core, "put", 10, CORE_CACHE);
	(void)core_start(&core, &put);
	(void)copy_start(&core, "copy", 10, COPY_GENERATION(3));
	(void)core_put(&core, "gone", 10, CORE_CACHE);
	(void)core_get(&core, 0, "gone");
	assert_int_equal(core_remove(&core, "gone"), 0);

	for (size_t i = 0; i < ARRAY_LEN(budgets); i++) {
		struct walk walk = walk_all(&core, budgets[i]);
		const struct held *held = walk_find(&walk, "softpin");

		assert_int_equal(walk.count, 3);
		assert_int_equal(held->generation, generations[0]);
		assert_int_equal(held->size, 300);
		assert_int_equal(held->expires, UINT64_MAX);
		assert_true(held->softpin && !held->secondary);
		held = walk_find(&walk, "cache");
		assert_int_equal(held->generation, generations[1]);
		assert_int_equal(held->expires, core.now + 5000);
		assert_true(!held->softpin && !held->secondary);
		held = walk_find(&walk, "secondary");
		assert_int_equal(held->generation, COPY_GENERATION(500));
		assert_int_equal(held->size, 77);
		assert_true(held->softpin && held->secondary);
	}
	core_close(&core);
}

static void test_walk_over_the_disk(void **state)
{
	struct drive drive;
	struct drive_load load;
	struct walk walk;
	uint64_t generation;

	(void)state;
	open_disk(&drive);
	(void)drive_put(&drive, "disk", 10 * KIB, CORE_SOFTPIN);
	generation = drive.core.generation;
	drive_move(&drive, "disk");
	(void)drive_put(&drive, "both", 500, CORE_SOFTPIN);
	(void)drive_save(&drive, "both");
	(void)drive_put(&drive, "pool", 10, CORE_CACHE);
	for (unsigned loading = 0; loading < 2; loading++) {
		if (loading)
			assert_int_equal(drive_load_begin(&drive, "disk", NULL, &load),
				LOAD_STARTED);
		walk = walk_all(&drive.core, 5);
		assert_int_equal(walk.count, 3);
		assert_int_equal(walk_find(&walk, "disk")->generation, generation);
		assert_int_equal(walk_find(&walk, "disk")->size, 10 * KIB);
		assert_true(walk_find(&walk, "disk")->softpin);
		assert_false(walk_find(&walk, "disk")->secondary);
		assert_int_equal(walk_find(&walk, "both")->size, 500);
		assert_false(walk_find(&walk, "pool")->softpin);
	}
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	drive_close(&drive);
}

static void key_of(char *key, size_t size, uint32_t i)
{
	(void)snprintf(key, size, "o%u", i);
}

/* Between any two looks some come back from the disk, or all leave the pool for it. */
static void shuffle(struct drive *drive, uint32_t i)
{
	char key[8];

	if (i % 5 == 0)
		drive_crowd(drive, DRIVE_POOL - drive->core.master.room.turning.size);
	for (uint32_t n = 0; n < 6; n++) {
		key_of(key, sizeof(key), (i * 11 + n) % OTHERS);
		if (core_find(&drive->core, key) == SLOT_NONE)
			(void)drive_load(drive, key);
	}
}

static void test_walk_while_objects_move(void **state)
{
	const struct held *held;
	struct drive drive;
	struct walk walk;
	char key[8];

	(void)state;
	for (uint32_t start = 0; start < 8; start++) {
		open_disk(&drive);
		for (uint32_t i = 0; i < OTHERS; i++) {
			key_of(key, sizeof(key), i);
			(void)drive_put(&drive, key, 4 * KIB, CORE_SOFTPIN);
			(void)drive_save(&drive, key);
		}
		for (uint32_t i = 0; i < start; i++)
			shuffle(&drive, i);
		walk = (struct walk){.core = &drive.core};
		for (uint32_t i = start; walk_look(&walk, 1); i++)
			shuffle(&drive, i);
		assert_int_equal(walk.count, OTHERS);
		for (uint32_t i = 0; i < OTHERS; i++) {
			key_of(key, sizeof(key), i);
			assert_int_equal(walk_count(&walk, key, &held), 1);
		}
		assert_true(drive.core.master.stats.loads > 50);
		assert_true(drive.core.master.stats.dropped > 50);
		drive_close(&drive);
	}
}

/* The slot that a copy out of a window ends in may be one that a walk by slots has passed. */
static void test_walk_while_slots_change(void **state)
{
	struct core core;
	struct walk walk;
	struct ticket ticket;
	const struct held *held;
	char key[8];

	(void)state;
	for (uint32_t looks = 0; looks < 24; looks++) {
		open_small(&core);
		for (uint32_t i = 0; i < 16; i++) {
			key_of(key, sizeof(key), i);
			(void)core_put(&core, key, 4 * KIB, CORE_SOFTPIN);
		}
		for (uint32_t i = 0; i < 16; i += 2) {
			key_of(key, sizeof(key), i);
			assert_int_equal(core_remove(&core, key), 0);
		}
		walk = (struct walk){.core = &core};
		for (uint32_t i = 0; i < looks; i++)
			(void)walk_look(&walk, 1);
		ticket_init(&ticket);
		master_room_wait(&core.master, &ticket, POOL / 2, 1);
		core_run(&core);
		assert_ptr_equal(master_room_granted(&core.master), &ticket);
		assert_true(core.master.stats.relocated >= 4);
		while (walk_look(&walk, 1))
			;
		assert_int_equal(walk.count, 8);
		for (uint32_t i = 1; i < 16; i += 2) {
			key_of(key, sizeof(key), i);
			assert_int_equal(walk_count(&walk, key, &held), 1);
		}
		master_room_cancel(&core.master, &ticket);
		core_close(&core);
	}
}

/* ---- one of them, later ------------------------------------------------------ */

static struct held held_of(struct core *core, const char *key)
{
	struct walk walk = walk_all(core, 100);

	return *walk_find(&walk, key);
}

static void test_find_what_was_held(void **state)
{
	struct drive drive;
	struct held held;
	uint32_t slot, found;

	(void)state;
	open_disk(&drive);
	slot = drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	held = held_of(&drive.core, "a");
	assert_true(master_held_find(&drive.core.master, &held, &found));
	assert_int_equal(found, slot);
	drive_move(&drive, "a");
	assert_true(master_held_find(&drive.core.master, &held, &found));
	assert_int_equal(found, SLOT_NONE);
	assert_int_equal(core_remove(&drive.core, "a"), 0);
	assert_false(master_held_find(&drive.core.master, &held, &found));
	drive_sync(&drive);
	/* Another object of the key is another. */
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	assert_false(master_held_find(&drive.core.master, &held, &found));
	master_held_end(&drive.core.master, &held, drive.core.now);
	master_held_yield(&drive.core.master, &held, drive.core.now);
	assert_false(is_secondary(&drive.core, core_find(&drive.core, "a")));
	drive_close(&drive);
}

static void test_end_and_yield_what_was_held(void **state)
{
	struct drive drive;
	struct held held;
	uint32_t slot;

	(void)state;
	for (unsigned on_disk = 0; on_disk < 2; on_disk++) {
		open_disk(&drive);
		slot = drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
		held = held_of(&drive.core, "a");
		if (on_disk)
			drive_move(&drive, "a");
		master_held_end(&drive.core.master, &held, drive.core.now);
		core_assert(&drive.core);
		drive_assert_nothing(&drive);

		slot = drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
		held = held_of(&drive.core, "a");
		if (on_disk)
			drive_move(&drive, "a");
		master_held_yield(&drive.core.master, &held, drive.core.now);
		core_assert(&drive.core);
		assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
		assert_int_equal(core_find(&drive.core, "a"), on_disk ? SLOT_NONE : slot);
		assert_true(on_disk || is_secondary(&drive.core, slot));
		/* A copy stays in the pool alone. */
		if (on_disk)
			assert_left(&drive.core, "a", held.generation, false);
		assert_none_left(&drive.core);
		drive_close(&drive);
	}
}

/* ---- what left -------------------------------------------------------------- */

static void test_evicted(void **state)
{
	struct core core;
	uint64_t generation;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 16 * KIB, CORE_CACHE);
	generation = core.generation;
	core_crowd(&core, POOL);
	assert_left(&core, "a", generation, false);
	assert_none_left(&core);
	/* A node alone tells nobody. */
	core.master.config.clustered = false;
	(void)core_put(&core, "a", 16 * KIB, CORE_CACHE);
	core_crowd(&core, POOL);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_none_left(&core);
	core_close(&core);
}

/* By word of an owner: who asked tells the directory. */
static void test_removed_is_not_told(void **state)
{
	struct core core;
	uint64_t generation;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 100, CORE_CACHE);
	assert_int_equal(core_remove(&core, "a"), 0);
	(void)core_put(&core, "a", 100, CORE_CACHE);
	assert_int_equal(copy_remove(&core, "a", core.generation, &generation), 0);
	slot = core_put(&core, "a", 100, CORE_CACHE);
	assert_int_equal(core_get(&core, 0, "a"), slot);
	assert_int_equal(master_take(&core.master, slot, core_life(&core, slot),
				 core.clients[0].ref, 9, core.now),
		0);
	assert_none_left(&core);
	core_close(&core);
}

static uint64_t put_like(struct core *core, const char *key, uint64_t size,
	uint64_t ttl_ns, uint16_t readers)
{
	struct put_request put = core_request(core, key, size, CORE_SOFTPIN);
	uint32_t slot;

	put.ttl_ns = ttl_ns;
	put.readers = readers;
	slot = core_start(core, &put);
	assert_int_equal(core_end(core, slot), 0);
	return core->generation;
}

static int read_ended(
	struct core *core, const char *key, uint64_t sequence, uint64_t generation)
{
	struct index_key at = core_key(key);
	int err = master_read_ended(&core->master, core->clients[0].cid, sequence, &at,
		generation, core->now);

	core_assert(core);
	return err;
}

static void test_ended_in_the_pool(void **state)
{
	struct index_key reads = core_key("reads");
	struct core core;
	uint64_t generation;

	(void)state;
	open_small(&core);
	generation = put_like(&core, "ttl", 100, 1000, 0);
	assert_int_equal(core_advance(&core, 1000), 1);
	assert_left(&core, "ttl", generation, true);
	for (unsigned elsewhere = 0; elsewhere < 2; elsewhere++) {
		generation = put_like(&core, "reads", 100, 0, 2);
		assert_int_equal(
			read_ended(&core, "reads", 2 * elsewhere + 1, generation), 0);
		assert_none_left(&core);
		if (elsewhere)
			assert_int_equal(master_read_counted(&core.master, &reads,
						 generation, core.now),
				0);
		else
			assert_int_equal(read_ended(&core, "reads", 2, generation), 0);
		assert_left(&core, "reads", generation, true);
	}
	core_assert_empty(&core);
	core_close(&core);
}

static void test_ended_on_disk(void **state)
{
	struct index_key reads = core_key("reads");
	struct drive drive;
	uint64_t generations[2];

	(void)state;
	open_disk(&drive);
	generations[0] = put_like(&drive.core, "ttl", 10 * KIB, 1000, 0);
	generations[1] = put_like(&drive.core, "reads", 10 * KIB, 0, 1);
	(void)drive_save(&drive, "ttl");
	drive_move(&drive, "reads");
	assert_int_not_equal(drive_find(&drive, "ttl"), DISK_NONE);
	assert_none_left(&drive.core); /* they are here, on disk */
	assert_int_equal(core_advance(&drive.core, 1000), 1);
	assert_left(&drive.core, "ttl", generations[0], true);
	/* One that ended elsewhere. */
	assert_int_equal(master_read_counted(&drive.core.master, &reads,
				 generations[1] + 1, drive.core.now),
		ERR_NOT_FOUND);
	assert_int_equal(master_read_counted(&drive.core.master, &reads, generations[1],
				 drive.core.now),
		0);
	assert_left(&drive.core, "reads", generations[1], true);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* A cache object that gives its place on disk is told of if it was only there. */
static void test_dropped_from_the_disk(void **state)
{
	struct drive drive;
	uint64_t generation;

	(void)state;
	drive_open(&drive, DRIVE_POOL, 64 * KIB, DRIVE_ENTRIES);
	drive.core.master.config.clustered = true;
	(void)drive_put(&drive, "only", 28 * KIB, CORE_CACHE);
	generation = drive.core.generation;
	drive_move(&drive, "only");
	(void)drive_put(&drive, "both", 28 * KIB, CORE_CACHE);
	(void)drive_save(&drive, "both");
	assert_none_left(&drive.core);
	(void)drive_put(&drive, "a", 60 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	assert_int_equal(drive_find(&drive, "only"), DISK_NONE);
	assert_int_not_equal(core_find(&drive.core, "both"), SLOT_NONE);
	assert_left(&drive.core, "only", generation, false);
	assert_none_left(&drive.core);
	drive_close(&drive);
}

/* The oldest stay when the ring is full, and it is said once that some are missing. */
static void test_more_left_than_can_be_kept(void **state)
{
	const uint32_t limit = 16384, more = 16390;
	struct core core;
	uint32_t told = 0;
	struct left left;
	char key[16];

	(void)state;
	open_small(&core);
	for (uint32_t i = 0; i < more; i++) {
		assert_false(i <= limit && core.master.left_lost);
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)put_like(&core, key, 1, 10, 0);
		assert_int_equal(core_advance(&core, 10), 1);
	}
	assert_true(master_left_lost(&core.master));
	assert_false(master_left_lost(&core.master));
	for (; master_left_next(&core.master, &left); told++) {
		struct disk_id id;

		(void)snprintf(key, sizeof(key), "%u", told);
		id = disk_id_of(key, (uint32_t)strlen(key));
		assert_memory_equal(&left.id, &id, sizeof(id));
	}
	assert_int_equal(told, limit);
	/* There is room again, behind what has been taken. */
	(void)put_like(&core, "again", 1, 10, 0);
	assert_int_equal(core_advance(&core, 10), 1);
	assert_left(&core, "again", core.generation, true);
	assert_none_left(&core);
	core_close(&core);
}

/* ---- yield ------------------------------------------------------------------ */

static void yield(struct core *core, uint32_t slot)
{
	master_yield(&core->master, slot, core->now);
	core_assert(core);
	assert_true(is_secondary(core, slot));
}

static void test_yield_in_the_pool(void **state)
{
	struct core core;
	uint64_t generation;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 40 * KIB, CORE_SOFTPIN);
	generation = core.generation;
	assert_int_equal(core_list(&core, slot), OBJECT_DIRTY);
	yield(&core, slot);
	yield(&core, slot);
	assert_int_equal(core_list(&core, slot), OBJECT_INACTIVE);
	assert_true(core_slot(&core, slot)->flags & SLOT_SOFTPIN);
	assert_int_equal(core_find(&core, "a"), slot);
	core_crowd(&core, POOL);
	assert_left(&core, "a", generation, false);
	core_close(&core);
}

static void test_yield_of_a_cache_object(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	yield(&core, slot);
	assert_int_equal(core_list(&core, slot), OBJECT_INACTIVE);
	core_close(&core);
}

/* While it is held, and waited for. */
static void test_yield_of_a_parked_one(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 40 * KIB, CORE_CACHE);
	assert_int_equal(core_get(&core, 0, "a"), slot);
	ticket_init(&ticket);
	master_room_wait(&core.master, &ticket, 40 * KIB, 1);
	core_run(&core);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	yield(&core, slot);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	master_room_cancel(&core.master, &ticket);
	core_close(&core);
}

/* The mark goes with it, also when it comes in the middle. */
static void test_yield_of_one_that_moves(void **state)
{
	struct core core;
	struct relocation move;
	struct ticket ticket;
	uint32_t place;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "gone", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "moved", 16 * KIB, CORE_SOFTPIN);
	(void)core_put(&core, "hole", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "last", 16 * KIB, CORE_SOFTPIN);
	assert_int_equal(core_remove(&core, "gone"), 0);
	assert_int_equal(core_remove(&core, "hole"), 0);
	ticket_init(&ticket);
	master_room_wait(&core.master, &ticket, 32 * KIB, 1);
	(void)master_room_run(&core.master, core.now, 100);
	assert_true(master_move_next(&core.master, &move));
	assert_int_equal(core_list(&core, move.from), OBJECT_MOVING);
	yield(&core, move.from);
	assert_int_equal(core_list(&core, move.from), OBJECT_MOVING);
	memcpy(core.share.pool + move.to_off, core.share.pool + move.from_off, move.size);
	master_move_done(&core.master, true, core.now);
	core_assert(&core);
	place = move.to;
	assert_true(is_secondary(&core, place));
	assert_int_equal(core_list(&core, place), OBJECT_INACTIVE);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	master_room_cancel(&core.master, &ticket);
	core_close(&core);
}

/* The record goes, the object stays, and leaves without a trace. */
static void test_yield_of_a_saved_one(void **state)
{
	struct drive drive;
	uint64_t generation;
	uint32_t slot;

	(void)state;
	open_disk(&drive);
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	generation = drive.core.generation;
	slot = drive_save(&drive, "a");
	assert_int_equal(core_list(&drive.core, slot), OBJECT_CLEAN);
	yield(&drive.core, slot);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_INACTIVE);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	drive_assert_bytes(&drive, "a", 1);
	drive_crowd(&drive, DRIVE_POOL);
	assert_left(&drive.core, "a", generation, false);
	assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

/* Killed before the record's end is committed. */
static void test_yield_and_restart(void **state)
{
	struct drive drive;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_disk(&drive);
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	slot = drive_save(&drive, "a");
	yield(&drive.core, slot);
	assert_int_equal(drive_records(&drive), 1);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	assert_true(is_secondary(&drive.core, slot));
	assert_int_equal(core_list(&drive.core, slot), OBJECT_INACTIVE);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	drive_assert_bytes(&drive, "a", 1);
	drive_close(&drive);
}

enum instant {
	CHOSEN, /* urgent, not yet being written */
	WRITING,
	QUEUED, /* its change */
	COMMITTING,
	INSTANTS
};

/* Begin to save "a" up to the instant. */
static void save_until(struct drive *drive, enum instant instant,
	struct drive_write *write, struct drive_commit *commit)
{
	drive_save_first(drive, "a");
	if (instant == CHOSEN)
		return;
	drive_must_write(drive, write);
	if (instant == WRITING)
		return;
	drive_write_end(drive, write, 0);
	if (instant == COMMITTING)
		drive_must_commit(drive, commit);
}

static void save_rest(struct drive *drive, enum instant instant,
	const struct drive_write *write, const struct drive_commit *commit, int err)
{
	if (instant == WRITING)
		drive_write_end(drive, write, err);
	else if (instant == COMMITTING)
		drive_commit_end(drive, commit, err);
}

/* At each instant of a save that ends well or badly; and then it may be removed as well. */
static void yield_while_saving(enum instant instant, int err, bool removed)
{
	struct drive drive;
	struct drive_write write;
	struct drive_commit commit;
	uint32_t slot;

	open_disk(&drive);
	slot = drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	save_until(&drive, instant, &write, &commit);
	yield(&drive.core, slot);
	drive_assert_bytes(&drive, "a", 1);
	if (removed)
		assert_int_equal(core_remove(&drive.core, "a"), 0);
	save_rest(&drive, instant, &write, &commit, err);
	drive.core.now += DISK_RETRY_NS;
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	assert_int_equal(drive_use(&drive).objects, 0);
	if (!removed) {
		drive_assert_bytes(&drive, "a", 1);
		assert_int_equal(core_list(&drive.core, slot), OBJECT_INACTIVE);
		drive_crowd(&drive, DRIVE_POOL);
	}
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static void test_yield_while_it_is_saved(void **state)
{
	(void)state;
	for (enum instant instant = 0; instant < INSTANTS; instant++)
		for (unsigned how = 0; how < 4; how++)
			yield_while_saving(instant, how & 1 ? ERR_IO : 0, how & 2);
}

/* Where it lies only loads may lie, and it may stay. */
static void test_yield_in_the_turning_room(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	open_disk(&drive);
	(void)drive_put(&drive, "other", 40 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "a", 40 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "other");
	drive_move(&drive, "a");
	(void)drive_put(&drive, "fill", DRIVE_POOL - 40 * KIB, CORE_SOFTPIN);
	slot = drive_load(&drive, "a");
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	yield(&drive.core, slot);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 1);
	(void)drive_load(&drive, "other");
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	drive_close(&drive);
}

static void test_yield_of_what_is_only_on_disk(void **state)
{
	struct drive drive;
	struct drive_load load;

	(void)state;
	for (unsigned loading = 0; loading < 2; loading++) {
		open_disk(&drive);
		(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
		drive_move(&drive, "a");
		if (loading)
			assert_int_equal(
				drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
		master_yield_stored(
			&drive.core.master, drive_find(&drive, "a"), drive.core.now);
		core_assert(&drive.core);
		assert_int_equal(drive_find(&drive, "a"), DISK_NONE);
		if (loading)
			assert_int_equal(drive_load_end(&drive, &load, 0), ERR_NOT_FOUND);
		assert_left(&drive.core, "a", drive.core.generation, false);
		assert_none_left(&drive.core);
		drive_assert_nothing(&drive);
		/* And it may come as a copy. */
		(void)copy_of(&drive.core, "a", 10 * KIB);
		drive_close(&drive);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_walk_over_nothing),
	cmocka_unit_test(test_walk_over_the_pool),
	cmocka_unit_test(test_walk_over_the_disk),
	cmocka_unit_test(test_walk_while_objects_move),
	cmocka_unit_test(test_walk_while_slots_change),
	cmocka_unit_test(test_find_what_was_held),
	cmocka_unit_test(test_end_and_yield_what_was_held),
	cmocka_unit_test(test_evicted),
	cmocka_unit_test(test_removed_is_not_told),
	cmocka_unit_test(test_ended_in_the_pool),
	cmocka_unit_test(test_ended_on_disk),
	cmocka_unit_test(test_dropped_from_the_disk),
	cmocka_unit_test(test_more_left_than_can_be_kept),
	cmocka_unit_test(test_yield_in_the_pool),
	cmocka_unit_test(test_yield_of_a_cache_object),
	cmocka_unit_test(test_yield_of_a_parked_one),
	cmocka_unit_test(test_yield_of_one_that_moves),
	cmocka_unit_test(test_yield_of_a_saved_one),
	cmocka_unit_test(test_yield_and_restart),
	cmocka_unit_test(test_yield_while_it_is_saved),
	cmocka_unit_test(test_yield_in_the_turning_room),
	cmocka_unit_test(test_yield_of_what_is_only_on_disk),
};

UNIT_MAIN(tests)
