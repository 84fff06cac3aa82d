/*
 * Random commands and ends of jobs, in any order and with errors, against a list of what
 * each key must be. A softpin object that was acknowledged is in the pool or on disk at any
 * moment, with its own bytes, also after the daemon or the host went down; the index has the
 * record of all that is on disk; at the end all of it can be read, and nothing is left of what
 * was removed.
 *
 *     test_disk_random                  all seeds
 *     DISK_SEED=7 test_disk_random      one
 */
#include "base/rng.h"
#include "disk_fixture.h"

#define KEYS     14u
#define JOBS     3u
#define HOLDS    3u
#define SEEDS    12u
#define STEPS    6000u
#define VERSIONS 16u

/* One object of a key. */
struct version {
	uint64_t generation, size;
	uint8_t byte;
	bool softpin;
};

/* What a key must be: the last version, or nothing. */
struct expected {
	char name[80];
	bool there, saved; /* saved: it was on disk */
	struct version last;
	/* Removed or given up, with nobody answered yet: a start may find them again. */
	struct version removed[VERSIONS];
	uint32_t removed_count;
};

struct world {
	struct drive drive;
	struct rng rng;
	struct expected keys[KEYS];
	struct {
		bool busy;
		struct drive_write job;
	} writes[JOBS];
	struct {
		bool busy;
		struct drive_commit job;
	} commit;
	struct {
		bool busy;
		struct drive_load job;
		uint64_t generation;
		uint32_t key;
	} loads[JOBS];
	struct {
		bool busy;
		uint32_t slot;
		uint8_t byte;
	} holds[HOLDS];
	struct {
		struct ticket ticket;
		bool is_load;
		uint32_t key;
		uint64_t size;
	} wait;            /* while its ticket is not idle */
	uint64_t done[16]; /* how often each kind of step did something */
};

static uint32_t pick(struct world *world, uint32_t below)
{
	return (uint32_t)rng_below(&world->rng, below);
}

static struct expected *pick_key(struct world *world)
{
	return &world->keys[pick(world, KEYS)];
}

static int pick_err(struct world *world)
{
	if (!rng_chance(&world->rng, 8))
		return 0;
	return rng_chance(&world->rng, 50) ? ERR_IO : ERR_NO_SPACE;
}

static uint64_t pick_size(struct world *world)
{
	switch (pick(world, 4)) {
	case 0:
		return 1 + pick(world, 3000);
	case 1:
		return 1 + pick(world, 60 * 1024);
	default:
		return 1 + pick(world, 20 * 1024);
	}
}

/* ---- what must hold at any moment ---------------------------------------------------- */

static void end(struct expected *key)
{
	assert_true(key->removed_count < VERSIONS);
	key->removed[key->removed_count++] = key->last;
	key->there = false;
}

static void check_key(struct world *world, struct expected *key)
{
	struct drive *drive = &world->drive;
	uint32_t slot = core_find(&drive->core, key->name);
	uint32_t entry = drive_find(drive, key->name);

	if (!key->there) {
		if (slot != SLOT_NONE || entry != DISK_NONE)
			fail_msg("%s is there after its end", key->name);
		return;
	}
	if (slot == SLOT_NONE && entry == DISK_NONE) {
		if (key->last.softpin)
			fail_msg("%s is lost", key->name);
		end(key); /* a cache object may go */
		return;
	}
	if (slot != SLOT_NONE) {
		assert_int_equal(
			core_slot(&drive->core, slot)->generation, key->last.generation);
		key->saved |= master_is_saved(&drive->core.master, slot);
		return;
	}
	assert_int_equal(disk_entry(&drive->core.master.disk, entry)->generation,
		key->last.generation);
}

/* The index has what the core believes to be there. */
static void check_records(struct drive *drive)
{
	const struct disk *disk = &drive->core.master.disk;

	for (uint32_t entry = 0; entry < disk->used; entry++) {
		const struct disk_entry *there = disk_entry(disk, entry);
		const struct drive_record *record;

		if (there->state != DISK_STORED)
			continue;
		record = drive_record(drive, &there->id);
		assert_non_null(record);
		assert_int_equal(record->is.generation, there->generation);
	}
}

static void check(struct world *world)
{
	check_records(&world->drive);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct expected *key = &world->keys[i];

		check_key(world, key);
		if (key->removed_count > 0 && !drive_ends(&world->drive, key->name))
			key->removed_count = 0;
	}
	for (uint32_t i = 0; i < HOLDS; i++) {
		const struct slot *slot;

		if (!world->holds[i].busy)
			continue;
		slot = core_slot(&world->drive.core, world->holds[i].slot);
		assert_int_equal(
			world->drive.core.share.pool[slot->off], world->holds[i].byte);
		assert_int_equal(world->drive.core.share.pool[slot->off + slot->size - 1],
			world->holds[i].byte);
	}
}

/* ---- steps of clients ---------------------------------------------------------------- */

static bool step_put_with(struct world *world, struct expected *key, uint64_t size,
	bool softpin, struct ticket *ticket)
{
	struct drive *drive = &world->drive;
	struct put_request put = core_request(&drive->core, key->name, size, softpin);
	uint32_t slot;
	enum put_verdict verdict = master_put_start(
		&drive->core.master, &put, ticket, &slot);

	core_assert(&drive->core);
	if (key->there)
		assert_int_equal(verdict, PUT_EXISTS);
	switch (verdict) {
	case PUT_EXISTS:
		assert_true(key->there);
		return false;
	case PUT_BUSY:
		assert_int_equal(slot, SLOT_NONE);
		assert_true(drive_ends(drive, key->name));
		return false;
	case PUT_NO_ROOM:
		return false;
	case PUT_STARTED:
		break;
	case PUT_REPEATED:
	case PUT_TOO_LARGE:
		fail_msg("verdict %d", verdict);
	}
	assert_false(drive_ends(drive, key->name));
	drive_fill(drive, slot);
	assert_int_equal(core_end(&drive->core, slot), 0);
	key->there = true;
	key->saved = false;
	key->last = (struct version){drive->core.generation, size, drive->byte, softpin};
	return true;
}

static bool step_put(struct world *world)
{
	return step_put_with(world, pick_key(world), pick_size(world),
		rng_chance(&world->rng, 75), NULL);
}

/* In the place of what the key has, which nothing waits for. Half of them go to the disk at
 * once. */
static bool step_replace(struct world *world)
{
	struct drive *drive = &world->drive;
	struct expected *key = pick_key(world);
	struct put_request put = core_request(
		&drive->core, key->name, pick_size(world), rng_chance(&world->rng, 75));
	uint32_t slot;

	put.replace = true;
	if (key->removed_count == VERSIONS ||
		master_put_start(&drive->core.master, &put, NULL, &slot) != PUT_STARTED)
		return false;
	core_assert(&drive->core);
	drive_fill(drive, slot);
	assert_int_equal(core_end(&drive->core, slot), 0);
	if (key->there)
		end(key);
	key->there = true;
	key->saved = false;
	key->last = (struct version){
		drive->core.generation, put.size, drive->byte, put.softpin};
	if (rng_chance(&world->rng, 50))
		drive_save_first(drive, key->name);
	return true;
}

static bool step_remove(struct world *world)
{
	struct expected *key = pick_key(world);
	int err = core_remove(&world->drive.core, key->name);

	assert_int_equal(err, key->there ? 0 : ERR_NOT_FOUND);
	if (key->there)
		end(key);
	return err == 0;
}

static bool step_save(struct world *world)
{
	struct expected *key = pick_key(world);

	if (core_find(&world->drive.core, key->name) == SLOT_NONE)
		return false;
	drive_save_first(&world->drive, key->name);
	return true;
}

static bool step_hold(struct world *world)
{
	struct core *core = &world->drive.core;
	uint32_t i = pick(world, HOLDS);
	struct expected *key = pick_key(world);

	if (world->holds[i].busy) {
		core_give(core, i, world->holds[i].slot);
		world->holds[i].busy = false;
		core_deliver(core);
		return true;
	}
	if (core_find(core, key->name) == SLOT_NONE)
		return false;
	if (rng_chance(&world->rng, 50))
		core_read(core, i, key->name);
	core_deliver(core);
	world->holds[i].slot = core_get(core, i, key->name);
	world->holds[i].byte = key->last.byte;
	world->holds[i].busy = true;
	return true;
}

/* ---- steps of the disk --------------------------------------------------------------- */

static bool step_write(struct world *world)
{
	uint32_t i = pick(world, JOBS);

	if (!world->writes[i].busy)
		return world->writes[i].busy = drive_write_begin(
			       &world->drive, &world->writes[i].job);
	drive_write_end(&world->drive, &world->writes[i].job, pick_err(world));
	world->writes[i].busy = false;
	return true;
}

static bool step_commit(struct world *world)
{
	int err;

	if (!world->commit.busy)
		return world->commit.busy = drive_commit_begin(
			       &world->drive, &world->commit.job);
	err = pick_err(world);
	/* Who says that it failed may have done it. */
	if (err != 0 && rng_chance(&world->rng, 50))
		drive_apply(&world->drive, &world->commit.job);
	drive_commit_end(&world->drive, &world->commit.job, err);
	world->commit.busy = false;
	return true;
}

static bool load_begin(struct world *world, uint32_t key, struct ticket *ticket)
{
	uint32_t i = 0;

	while (i < JOBS && world->loads[i].busy)
		i++;
	if (i == JOBS || drive_find(&world->drive, world->keys[key].name) == DISK_NONE) {
		if (ticket != NULL)
			master_room_cancel(&world->drive.core.master, ticket);
		return false;
	}
	world->loads[i].busy = drive_load_begin(&world->drive, world->keys[key].name,
				       ticket, &world->loads[i].job) == LOAD_STARTED;
	world->loads[i].key = key;
	world->loads[i].generation = world->keys[key].last.generation;
	return world->loads[i].busy;
}

static void load_end(struct world *world, uint32_t i)
{
	const struct expected *key = &world->keys[world->loads[i].key];
	bool gone = !key->there || key->last.generation != world->loads[i].generation;
	int injected = pick_err(world);
	int err = drive_load_end(&world->drive, &world->loads[i].job, injected);

	world->loads[i].busy = false;
	assert_int_equal(err, gone ? ERR_NOT_FOUND : injected);
	if (err == 0)
		drive_assert_bytes(&world->drive, key->name, key->last.byte);
}

static bool step_load(struct world *world)
{
	uint32_t i = pick(world, JOBS);

	if (!world->loads[i].busy)
		return load_begin(world, pick(world, KEYS), NULL);
	load_end(world, i);
	return true;
}

/* ---- steps of the loop --------------------------------------------------------------- */

static void wait_granted(struct world *world)
{
	struct ticket *ticket = master_room_granted(&world->drive.core.master);
	struct expected *key = &world->keys[world->wait.key];

	if (ticket == NULL)
		return;
	assert_ptr_equal(ticket, &world->wait.ticket);
	check_key(world, key); /* it may have been evicted just now */
	if (world->wait.is_load && drive_find(&world->drive, key->name) != DISK_NONE &&
		key->last.size == world->wait.size)
		(void)load_begin(world, world->wait.key, ticket);
	else if (world->wait.is_load)
		master_room_cancel(&world->drive.core.master, ticket);
	else
		(void)step_put_with(world, key, world->wait.size, true, ticket);
	core_assert(&world->drive.core);
}

static bool step_wait(struct world *world)
{
	struct master *master = &world->drive.core.master;
	uint32_t key = pick(world, KEYS);
	const struct expected *there = &world->keys[key];

	if (world->wait.ticket.state != TICKET_IDLE) {
		if (!rng_chance(&world->rng, 10))
			return false;
		master_room_cancel(master, &world->wait.ticket);
		core_assert(&world->drive.core);
		return true;
	}
	world->wait.key = key;
	world->wait.is_load = drive_find(&world->drive, there->name) != DISK_NONE;
	world->wait.size = world->wait.is_load ? there->last.size : pick_size(world);
	if (world->wait.is_load)
		master_room_wait_load(master, &world->wait.ticket, world->wait.size,
			(uint32_t)strlen(there->name));
	else
		master_room_wait(master, &world->wait.ticket, world->wait.size,
			(uint32_t)strlen(there->name));
	core_assert(&world->drive.core);
	return true;
}

static bool step_run(struct world *world)
{
	core_run(&world->drive.core);
	wait_granted(world);
	return true;
}

static bool step_time(struct world *world)
{
	(void)core_advance(&world->drive.core, 1 + pick(world, DISK_RETRY_NS));
	core_assert(&world->drive.core);
	return true;
}

/* ---- starts -------------------------------------------------------------------------- */

/* What was removed may be back, if nobody was answered yet. */
static void revive(struct expected *key, uint64_t generation)
{
	for (uint32_t i = 0; i < key->removed_count; i++) {
		if (key->removed[i].generation == generation) {
			key->last = key->removed[i];
			key->there = key->saved = true;
		}
	}
}

/* What was acknowledged stays. */
static void after_start(struct world *world)
{
	for (uint32_t i = 0; i < KEYS; i++) {
		struct expected *key = &world->keys[i];
		uint32_t entry = drive_find(&world->drive, key->name);

		if (!key->there && entry != DISK_NONE)
			revive(key, disk_entry(&world->drive.core.master.disk, entry)
					    ->generation);
	}
	ticket_init(&world->wait.ticket);
	check(world);
}

/* Jobs end with the daemon; the index may have what was under way. */
static void jobs_end(struct world *world)
{
	memset(world->writes, 0, sizeof(world->writes));
	memset(world->loads, 0, sizeof(world->loads));
	if (world->commit.busy && rng_chance(&world->rng, 50))
		drive_apply(&world->drive, &world->commit.job);
	world->commit.busy = false;
}

static bool step_restart(struct world *world)
{
	struct recovery recovery;

	jobs_end(world);
	assert_int_equal(drive_restart(&world->drive, &recovery), 0);
	after_start(world);
	return true;
}

/* The host goes down: only the disk is left, and what was only in the pool is gone. */
static bool step_reboot(struct world *world)
{
	memset(world->holds, 0, sizeof(world->holds));
	jobs_end(world);
	assert_int_equal(drive_reboot(&world->drive), 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct expected *key = &world->keys[i];
		uint32_t entry = drive_find(&world->drive, key->name);

		if (entry != DISK_NONE &&
			disk_entry(&world->drive.core.master.disk, entry)->generation ==
				key->last.generation)
			continue;
		if (key->there && key->last.softpin && key->saved)
			fail_msg("%s is lost with the host", key->name);
		key->there = false;
	}
	after_start(world);
	return true;
}

/* ---- the run ------------------------------------------------------------------------- */

struct step {
	const char *name;
	bool (*run)(struct world *world);
	uint32_t weight;
};

static const struct step steps[] = {
	{"put", step_put, 140},
	{"replace", step_replace, 60},
	{"remove", step_remove, 60},
	{"save", step_save, 60},
	{"hold", step_hold, 60},
	{"write", step_write, 200},
	{"commit", step_commit, 160},
	{"load", step_load, 160},
	{"wait", step_wait, 80},
	{"run", step_run, 150},
	{"time", step_time, 20},
	{"restart", step_restart, 2},
	{"reboot", step_reboot, 1},
};

static void step(struct world *world)
{
	uint32_t weights = 0, at;
	size_t i = 0;

	for (size_t j = 0; j < ARRAY_LEN(steps); j++)
		weights += steps[j].weight;
	at = pick(world, weights);
	for (; at >= steps[i].weight; i++)
		at -= steps[i].weight;
	world->done[i] += steps[i].run(world);
	check(world);
}

/* No faults any more, and nobody holds anything. */
static void heal(struct world *world)
{
	struct drive *drive = &world->drive;

	for (uint32_t i = 0; i < HOLDS; i++) {
		if (world->holds[i].busy)
			core_give(&drive->core, i, world->holds[i].slot);
		world->holds[i].busy = false;
	}
	core_deliver(&drive->core);
	for (uint32_t i = 0; i < JOBS; i++) {
		if (world->writes[i].busy)
			drive_write_end(drive, &world->writes[i].job, 0);
		if (world->loads[i].busy)
			load_end(world, i);
	}
	if (world->commit.busy)
		drive_commit_end(drive, &world->commit.job, 0);
	master_room_cancel(&drive->core.master, &world->wait.ticket);
	drive->core.now += DISK_RETRY_NS;
	drive_sync(drive);
	check(world);
}

static void run(uint64_t seed)
{
	static struct world world;
	struct drive *drive = &world.drive;

	memset(&world, 0, sizeof(world));
	rng_init(&world.rng, seed);
	drive_open(drive, DRIVE_POOL, 192 * KIB + pick(&world, 128) * DISK_GRANULE,
		4 + pick(&world, 24));
	ticket_init(&world.wait.ticket);
	for (uint32_t i = 0; i < KEYS; i++)
		(void)snprintf(world.keys[i].name, sizeof(world.keys[i].name), "%u%.*s",
			i, i % 3 == 0 ? 60 : 0,
			" is the number of this key, which is so long that it lies "
			"elsewhere");
	for (uint32_t i = 0; i < STEPS; i++)
		step(&world);
	heal(&world);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct expected *key = &world.keys[i];

		check_key(&world, key);
		if (!key->there)
			continue;
		if (core_find(&drive->core, key->name) == SLOT_NONE)
			(void)drive_load(drive, key->name);
		drive_assert_bytes(drive, key->name, key->last.byte);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		(void)core_remove(&drive->core, world.keys[i].name);
	drive_assert_nothing(drive);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (world.done[i] == 0)
			fail_msg("no step of kind %s did anything", steps[i].name);
	}
	drive_close(drive);
}

static void test_random(void **state)
{
	const char *seed = getenv("DISK_SEED");

	(void)state;
	if (seed != NULL) {
		run(strtoull(seed, NULL, 10));
		return;
	}
	for (uint64_t i = 1; i <= SEEDS; i++) {
		(void)printf("DISK_SEED=%lu test_disk_random\n", (unsigned long)i);
		run(i);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
};

UNIT_MAIN(tests)
