/*
 * Copies of what other nodes have: how they come in, what ends them on the way, that they
 * go before all else, and what a put of the same key makes of it.
 */
#include "copy_fixture.h"

#define POOL (64 * KIB)

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
	core->master.config.low_permille = 0; /* nothing leaves but for a ticket */
	core->master.config.clustered = true;
}

/* ---- in ------------------------------------------------------------------ */

static void check_copy(struct core *core, const char *key)
{
	struct copy_request copy = copy_request(key, 3000, COPY_GENERATION(500));
	struct index_key at = core_key(key);
	const struct slot *there;
	uint32_t slot;

	copy.counted = true;
	copy.readers_left = 3;
	copy.expires = core->now + 700;
	slot = copy_start_like(core, &copy);
	there = core_slot(core, slot);
	assert_int_equal(core_find(core, key), SLOT_NONE);
	assert_int_equal(core_use(core).objects, 0);
	assert_int_equal(copy_end(core, slot, 0), 0);
	assert_int_equal(core_find(core, key), slot);
	assert_int_equal(core_list(core, slot), OBJECT_INACTIVE);
	assert_int_equal(there->flags, SLOT_SOFTPIN | SLOT_SECONDARY | SLOT_EXPIRES);
	assert_int_equal(there->generation, COPY_GENERATION(500));
	assert_int_equal(there->checksum, COPY_CHECKSUM);
	assert_int_equal(there->size, 3000);
	assert_int_equal(there->counted, 1);
	assert_int_equal(there->readers_left, 3);
	assert_int_equal(there->expires, core->now + 700);
	assert_memory_equal(slot_key(&core->share, there), at.data, at.size);
	core_give(core, 1, core_get(core, 1, key));
	assert_int_equal(master_next(&core->master), core->now + 700);
	assert_int_equal(core->master.cluster.copies, 1);
	assert_int_equal(core->master.cluster.copied_bytes, 3000);
}

static void test_copy_becomes_an_object(void **state)
{
	char longest[KEY_LIMIT + 1];
	struct core core;

	(void)state;
	memset(longest, 'k', KEY_LIMIT);
	longest[KEY_LIMIT] = '\0';
	open_small(&core);
	check_copy(&core, "a");
	core_close(&core);
	open_small(&core);
	check_copy(&core, longest);
	core_close(&core);
}

static void test_copy_of_a_cache_object(void **state)
{
	struct copy_request copy = copy_request("a", 100, COPY_GENERATION(500));
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	copy.softpin = false;
	slot = copy_start_like(&core, &copy);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(core_slot(&core, slot)->flags, SLOT_SECONDARY);
	core_close(&core);
}

static void test_failed_copy_leaves_nothing(void **state)
{
	struct core core;

	(void)state;
	open_small(&core);
	assert_int_equal(copy_end(&core, copy_start(&core, "a", 100, COPY_GENERATION(1)),
				 ERR_TRANSFER_FAIL),
		ERR_TRANSFER_FAIL);
	core_assert_empty(&core);
	assert_int_equal(core.master.cluster.copies, 0);
	assert_none_left(&core);
	core_close(&core);
}

/* ---- what is in the way --------------------------------------------------- */

/* It is told so, and a ticket that it had is given back. */
static void assert_gone(struct core *core, const char *key)
{
	struct copy_request copy = copy_request(key, 100, COPY_GENERATION(600));
	uint64_t free_bytes = core_use(core).free;
	struct ticket ticket;
	uint32_t slot;

	assert_int_equal(copy_try(core, &copy, NULL, &slot), LOAD_GONE);
	ticket_init(&ticket);
	master_room_wait_load(&core->master, &ticket, copy.size, copy.key.size);
	core_run(core);
	assert_ptr_equal(master_room_granted(&core->master), &ticket);
	assert_int_equal(copy_try(core, &copy, &ticket, &slot), LOAD_GONE);
	assert_int_equal(ticket.state, TICKET_IDLE);
	assert_int_equal(core_use(core).free, free_bytes);
}

static void test_ready_or_coming_is_in_the_way(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 100, CORE_CACHE);
	assert_gone(&core, "a");
	slot = copy_start(&core, "b", 100, COPY_GENERATION(500));
	assert_gone(&core, "b");
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_gone(&core, "b");
	core_close(&core);
}

static void test_on_disk_is_in_the_way(void **state)
{
	struct drive drive;
	struct drive_load load;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	drive_move(&drive, "a");
	assert_gone(&drive.core, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_gone(&drive.core, "a");
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	drive_close(&drive);
}

/* Another node may have better bytes than those that are spoiled here. */
static void test_damaged_on_disk_is_not_in_the_way(void **state)
{
	struct drive drive;
	struct drive_load load;
	uint64_t generation;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	drive.core.master.config.clustered = true;
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	generation = drive.core.generation;
	drive_move(&drive, "a");
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(drive_load_end(&drive, &load, ERR_CORRUPT), ERR_CORRUPT);
	slot = copy_start(&drive.core, "a", 10 * KIB, generation);
	assert_left(&drive.core, "a", generation, false);
	assert_int_equal(copy_end(&drive.core, slot, 0), 0);
	drive_sync(&drive);
	assert_int_equal(drive_records(&drive), 0);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	drive_close(&drive);
}

static void test_no_room(void **state)
{
	struct copy_request copy = copy_request("b", 40 * KIB, COPY_GENERATION(500));
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 40 * KIB, CORE_SOFTPIN);
	assert_int_equal(copy_try(&core, &copy, NULL, &slot), LOAD_NO_ROOM);
	ticket_init(&ticket);
	master_room_wait_load(&core.master, &ticket, copy.size, copy.key.size);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core_remove(&core, "a"), 0);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_int_equal(copy_try(&core, &copy, &ticket, &slot), LOAD_STARTED);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	core_close(&core);
}

/* ---- ended on the way ----------------------------------------------------- */

static void test_removal_dooms_a_copy(void **state)
{
	const uint64_t mine = COPY_GENERATION(500);
	struct core core;
	uint64_t ended = 0;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = copy_start(&core, "a", 100, mine);
	assert_int_equal(core_remove(&core, "b"), ERR_NOT_FOUND);
	assert_int_equal(
		copy_remove(&core, "a", COPY_GENERATION(501), &ended), ERR_NOT_FOUND);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(core_remove(&core, "a"), 0);

	slot = copy_start(&core, "a", 100, mine);
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(core_remove(&core, "a"), ERR_NOT_FOUND);
	assert_int_equal(copy_end(&core, slot, 0), ERR_REMOVED);

	for (unsigned any = 0; any < 2; any++) {
		slot = copy_start(&core, "a", 100, mine);
		assert_int_equal(copy_remove(&core, "a", any ? 0 : mine, &ended), 0);
		assert_int_equal(ended, mine);
		/* Also when it failed. */
		assert_int_equal(copy_end(&core, slot, any ? ERR_IO : 0), ERR_REMOVED);
	}
	core_assert_empty(&core);
	assert_none_left(&core);
	core_close(&core);
}

/* One that is ended takes no key from the next. */
static void test_copy_beside_a_doomed_one(void **state)
{
	struct core core;
	uint32_t old, new;

	(void)state;
	open_small(&core);
	old = copy_start(&core, "a", 100, COPY_GENERATION(500));
	assert_int_equal(core_remove(&core, "a"), 0);
	new = copy_start(&core, "a", 200, COPY_GENERATION(600));
	assert_int_equal(copy_end(&core, new, 0), 0);
	assert_int_equal(copy_end(&core, old, 0), ERR_REMOVED);
	assert_int_equal(core_find(&core, "a"), new);
	core_close(&core);
}

static void test_doom_prefix(void **state)
{
	struct core core;
	struct drive drive;
	struct drive_load load;
	struct put_request put;
	uint32_t copy, other, slot, late;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "step/1/ready", 100, CORE_CACHE);
	copy = copy_start(&core, "step/1/copy", 100, COPY_GENERATION(500));
	other = copy_start(&core, "step/2", 100, COPY_GENERATION(500));
	put = core_request(&core, "step/1/late", 100, CORE_CACHE);
	put.deadline = core.now;
	late = core_start(&core, &put);
	assert_int_equal(core_advance(&core, 0), 1);
	put = core_request(&core, "step/1/put", 100, CORE_CACHE);
	put.writer = core.clients[2].ref;
	slot = core_start(&core, &put);
	assert_int_equal(master_doom_prefix(&core.master, "step/1/", 7), 2);
	core_assert(&core);
	assert_int_equal(master_doom_prefix(&core.master, "step/1/", 7), 0);
	assert_int_equal(copy_end(&core, copy, 0), ERR_REMOVED);
	assert_int_equal(copy_end(&core, other, 0), 0);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	assert_int_equal(core_end(&core, late), ERR_TIMEOUT);
	assert_int_not_equal(core_find(&core, "step/1/ready"), SLOT_NONE);
	core_close(&core);

	/* What is read from the disk is there already. */
	drive_open_usual(&drive);
	(void)drive_put(&drive, "step/1/disk", 10 * KIB, CORE_SOFTPIN);
	drive_move(&drive, "step/1/disk");
	assert_int_equal(
		drive_load_begin(&drive, "step/1/disk", NULL, &load), LOAD_STARTED);
	assert_int_equal(master_doom_prefix(&drive.core.master, "step/1/", 7), 0);
	assert_int_equal(drive_load_end(&drive, &load, 0), 0);
	drive_close(&drive);
}

/* ---- ended in place -------------------------------------------------------- */

static void test_end_of_one_generation(void **state)
{
	struct core core;
	uint64_t first, ended = 0;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 100, CORE_SOFTPIN);
	first = core.generation;
	assert_int_equal(
		copy_remove(&core, "a", first + (1 << 12), &ended), ERR_NOT_FOUND);
	assert_int_equal(ended, 0);
	assert_int_equal(copy_remove(&core, "a", first, &ended), 0);
	assert_int_equal(ended, first);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(copy_remove(&core, "a", first, &ended), ERR_NOT_FOUND);
	(void)core_put(&core, "a", 100, CORE_SOFTPIN);
	assert_int_equal(copy_remove(&core, "a", first, &ended), ERR_NOT_FOUND);
	assert_int_equal(copy_remove(&core, "a", 0, &ended), 0);
	assert_int_equal(ended, core.generation);
	assert_none_left(&core);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_end_of_one_generation_on_disk(void **state)
{
	struct drive drive;
	struct drive_load load;
	uint64_t mine, ended = 0;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	mine = drive.core.generation;
	drive_move(&drive, "a");
	assert_int_equal(copy_remove(&drive.core, "a", mine + 1, &ended), ERR_NOT_FOUND);
	assert_int_equal(drive_load_begin(&drive, "a", NULL, &load), LOAD_STARTED);
	assert_int_equal(copy_remove(&drive.core, "a", mine, &ended), 0);
	assert_int_equal(ended, mine);
	assert_int_equal(drive_load_end(&drive, &load, 0), ERR_NOT_FOUND);
	drive_assert_nothing(&drive);
	drive_close(&drive);
}

static int name(struct core *core, uint32_t slot, uint64_t *ret_generation)
{
	int err = master_put_name(&core->master, slot, core_life(core, slot),
		core_slot(core, slot)->writer, 1000, 0, ret_generation);

	core_assert(core);
	return err;
}

/* A put ends with the generation that it was given. */
static void test_end_of_a_named_put(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t given = 0, ended = 7;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 100, CORE_SOFTPIN);
	slot = core_start(&core, &put);
	assert_int_equal(
		copy_remove(&core, "a", COPY_GENERATION(9), &ended), ERR_NOT_FOUND);
	assert_int_equal(name(&core, slot, &given), 0);
	assert_int_equal(copy_remove(&core, "a", given + 1, &ended), ERR_NOT_FOUND);
	assert_int_equal(copy_remove(&core, "a", given, &ended), 0);
	assert_int_equal(ended, given);
	assert_int_equal(name(&core, slot, &given), ERR_REMOVED);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);

	slot = core_start(&core, &put);
	ended = 7;
	assert_int_equal(copy_remove(&core, "a", 0, &ended), 0);
	assert_int_equal(ended, 0); /* it had none yet */
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	core_assert_empty(&core);
	core_close(&core);
}

/* ---- a put and a copy of one key ------------------------------------------- */

/* A put of "a" is under way, and a copy of it has become READY. */
static uint32_t open_outrun(
	struct core *core, struct put_request *ret_put, uint32_t *ret_copy)
{
	uint32_t slot, copy;

	open_small(core);
	*ret_put = core_request(core, "a", 4000, CORE_SOFTPIN);
	slot = core_start(core, ret_put);
	copy = copy_start(core, "a", 100, COPY_GENERATION(500));
	assert_int_equal(core_find(core, "a"), SLOT_NONE);
	assert_int_equal(copy_end(core, copy, 0), 0);
	assert_int_equal(core_find(core, "a"), copy);
	assert_int_equal(core_kind(core, slot), SLOT_WRITING);
	*ret_copy = copy;
	return slot;
}

static void test_put_is_outrun(void **state)
{
	struct core core;
	struct put_request put, other;
	uint64_t generation;
	uint32_t slot, copy, found = SLOT_NONE;

	(void)state;
	slot = open_outrun(&core, &put, &copy);
	other = core_request(&core, "a", 10, CORE_CACHE);
	assert_int_equal(
		master_put_start(&core.master, &put, NULL, &found), PUT_REPEATED);
	assert_int_equal(found, slot);
	assert_int_equal(
		master_put_start(&core.master, &other, NULL, &found), PUT_EXISTS);
	assert_int_equal(found, copy);
	assert_int_equal(name(&core, slot, &generation), ERR_EXISTS);
	assert_int_equal(core_end(&core, slot), ERR_EXISTS);
	assert_int_equal(core_find(&core, "a"), copy);
	assert_int_equal(core_use(&core).writing, 0);
	assert_int_equal(core_end(&core, slot), ERR_NOT_FOUND);
	core_close(&core);
}

/* The copy left before: the put has the key again. */
static void test_outrun_put_goes_on(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t generation;
	uint32_t slot, copy;

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		slot = open_outrun(&core, &put, &copy);
		if (how == 1)
			assert_int_equal(core_advance(&core, core.now + CORE_TIMEOUT), 0);
		core_crowd(&core, POOL - 4096); /* all but the put */
		assert_int_equal(core_find(&core, "a"), SLOT_NONE);
		assert_left(&core, "a", COPY_GENERATION(500), false);
		if (how == 2)
			assert_int_equal(name(&core, slot, &generation), 0);
		assert_int_equal(core_end(&core, slot), 0);
		assert_int_equal(core_find(&core, "a"), slot);
		assert_true(how != 2 || core.generation == generation);
		assert_true(core.generation > COPY_GENERATION(500));
		core_close(&core);
	}
}

/* Two puts of the key by then: the first to end has it. */
static void test_outrun_put_meets_another_put(void **state)
{
	struct core core;
	struct put_request put, other;
	uint32_t slots[2], copy;

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		slots[0] = open_outrun(&core, &put, &copy);
		core_crowd(&core, POOL - 4096);
		other = core_request(&core, "a", 10, CORE_CACHE);
		other.writer = core.clients[1].ref;
		slots[1] = core_start(&core, &other);
		assert_int_equal(core_end(&core, slots[first]), 0);
		assert_int_equal(core_find(&core, "a"), slots[first]);
		assert_int_equal(core_end(&core, slots[!first]), ERR_EXISTS);
		assert_int_equal(core_find(&core, "a"), slots[first]);
		core_close(&core);
	}
}

static void test_put_of_what_is_being_copied_is_first(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot, copy;

	(void)state;
	open_small(&core);
	copy = copy_start(&core, "a", 100, COPY_GENERATION(500));
	put = core_request(&core, "a", 5000, CORE_SOFTPIN);
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(copy_end(&core, copy, 0), ERR_EXISTS);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(core_list(&core, slot), OBJECT_DIRTY);
	assert_int_equal(core_use(&core).writing, 0);
	core_close(&core);
}

/* The put's object is only on disk when the copy ends, and when the outrun put does. */
static void test_first_on_disk(void **state)
{
	struct drive drive;
	struct put_request put;
	uint32_t copy, outrun;

	(void)state;
	drive_open_usual(&drive);
	put = core_request(&drive.core, "a", 4000, CORE_SOFTPIN);
	outrun = core_start(&drive.core, &put);
	(void)copy_of(&drive.core, "a", 100);
	assert_int_equal(core_remove(&drive.core, "b"), ERR_NOT_FOUND);
	drive_crowd(&drive, DRIVE_POOL - 4 * KIB); /* without the copy */
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	copy = copy_start(&drive.core, "a", 100, COPY_GENERATION(500));
	(void)drive_put(&drive, "a", 10 * KIB, CORE_SOFTPIN);
	(void)drive_save(&drive, "a");
	core_read(&drive.core, 0, "a");
	drive_crowd(&drive, DRIVE_POOL - 24 * KIB);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_not_equal(drive_find(&drive, "a"), DISK_NONE);
	assert_int_equal(copy_end(&drive.core, copy, 0), ERR_EXISTS);
	assert_int_equal(core_end(&drive.core, outrun), ERR_EXISTS);
	drive_close(&drive);
}

/* A put that was outrun ends like any other. */
static void test_ends_of_an_outrun_put(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t ended;
	uint32_t slot, copy;

	(void)state;
	slot = open_outrun(&core, &put, &copy);
	assert_int_equal(
		master_put_abort(&core.master, slot, core_life(&core, slot), put.writer),
		0);
	core_assert(&core);
	assert_int_equal(core_use(&core).writing, 0);
	core_close(&core);

	slot = open_outrun(&core, &put, &copy);
	core_die(&core, 0);
	assert_int_equal(core_use(&core).writing, 0);
	assert_int_equal(core_find(&core, "a"), copy);
	core_close(&core);

	/* A removal reaches both. */
	slot = open_outrun(&core, &put, &copy);
	assert_int_equal(copy_remove(&core, "a", 0, &ended), 0);
	assert_int_equal(ended, COPY_GENERATION(500));
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	core_assert_empty(&core);
	core_close(&core);

	/* One of the copy's generation does not, */
	slot = open_outrun(&core, &put, &copy);
	assert_int_equal(copy_remove(&core, "a", COPY_GENERATION(500), &ended), 0);
	assert_int_equal(core_end(&core, slot), 0);
	core_close(&core);

	/* nor one of all keys that begin so leave it. */
	slot = open_outrun(&core, &put, &copy);
	assert_int_equal(master_doom_prefix(&core.master, "a", 1), 1);
	core_assert(&core);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	assert_int_equal(core_find(&core, "a"), copy);
	core_close(&core);
}

/* What was given a number before it was outrun ends by that. */
static void test_named_put_is_outrun(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t given = 0, again = 0, ended = 0;
	uint32_t slot, copy;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 100, CORE_SOFTPIN);
	slot = core_start(&core, &put);
	assert_int_equal(name(&core, slot, &given), 0);
	copy = copy_of(&core, "a", 100);
	assert_int_equal(name(&core, slot, &again), 0);
	assert_int_equal(again, given);
	assert_int_equal(copy_remove(&core, "a", given, &ended), 0);
	assert_int_equal(ended, given);
	assert_int_equal(core_find(&core, "a"), copy);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	core_close(&core);
}

static void test_outrun_put_is_late(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 100, CORE_SOFTPIN);
	put.deadline = core.now + 10;
	slot = core_start(&core, &put);
	(void)copy_of(&core, "a", 100);
	assert_int_equal(core_advance(&core, 10), 1);
	core_assert(&core);
	assert_int_equal(core_end(&core, slot), ERR_TIMEOUT);
	core_close(&core);
}

/* ---- restart --------------------------------------------------------------- */

static void restart(struct core *core, struct recovery *ret)
{
	core_restart(core, ret);
	core->master.config.low_permille = 0;
	core->master.config.clustered = true;
}

static void test_restart_keeps_what_is_ready(void **state)
{
	struct core core;
	struct recovery recovery;
	uint32_t ready, half;

	(void)state;
	open_small(&core);
	ready = copy_of(&core, "ready", 3000);
	half = copy_start(&core, "half", 3000, COPY_GENERATION(600));
	restart(&core, &recovery);
	assert_int_equal(recovery.adopted, 1);
	assert_int_equal(recovery.dropped[DROP_UNFINISHED], 1);
	assert_int_equal(core_find(&core, "ready"), ready);
	assert_int_equal(core_kind(&core, half), SLOT_FREE);
	assert_true(is_secondary(&core, ready));
	assert_int_equal(core_list(&core, ready), OBJECT_INACTIVE);
	assert_none_left(&core);
	core_crowd(&core, POOL);
	assert_left(&core, "ready", COPY_GENERATION(500), false);
	core_close(&core);
}

/* Killed between the state and the mark. */
static void test_restart_of_a_copy_just_shown(void **state)
{
	struct core core;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = copy_of(&core, "a", 3000);
	core_slot(&core, slot)->flags |= SLOT_COPY;
	restart(&core, &recovery);
	assert_int_equal(recovery.adopted, 1);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_true(is_secondary(&core, slot));
	core_close(&core);
}

/* Also if the put's mark is missing, or the copy. */
static void test_restart_of_an_outrun_put(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t slot, copy, found = SLOT_NONE;

	(void)state;
	for (unsigned marked = 0; marked < 2; marked++) {
		slot = open_outrun(&core, &put, &copy);
		if (!marked)
			core_slot(&core, slot)->flags &= ~(uint32_t)SLOT_OUTRUN;
		restart(&core, &recovery);
		assert_int_equal(recovery.writing, 1);
		assert_int_equal(recovery.adopted, 1);
		assert_int_equal(core_find(&core, "a"), copy);
		assert_int_equal(
			master_put_start(&core.master, &put, NULL, &found), PUT_REPEATED);
		assert_int_equal(found, slot);
		assert_int_equal(master_next(&core.master), core.now + CORE_TIMEOUT);
		assert_int_equal(core_end(&core, slot), ERR_EXISTS);
		core_close(&core);
	}
	slot = open_outrun(&core, &put, &copy);
	core_slot(&core, copy)->hash++; /* damaged */
	restart(&core, &recovery);
	assert_int_equal(recovery.dropped[DROP_BAD_KEY], 1);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(core_find(&core, "a"), slot);
	core_close(&core);
}

/* ---- out ------------------------------------------------------------------- */

/* Before what is as cold, though it came last; and a key of it is no hot one. */
static void test_secondary_goes_first(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 16 * KIB, CORE_CACHE);
	(void)copy_of(&core, "b", 16 * KIB);
	(void)core_put(&core, "c", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "d", 16 * KIB, CORE_CACHE);
	core_crowd(&core, 16 * KIB);
	assert_int_equal(core_find(&core, "b"), SLOT_NONE);
	assert_left(&core, "b", COPY_GENERATION(500), false);
	assert_none_left(&core);
	assert_int_equal(core.master.cluster.spared, 1);
	assert_int_equal(core.master.cluster.spared_bytes, 16 * KIB);
	assert_int_equal(core.master.stats.evicted, 0);
	slot = core_put(&core, "b", 16 * KIB, CORE_CACHE);
	assert_int_equal(core_list(&core, slot), OBJECT_INACTIVE);
	assert_int_equal(core.master.stats.ghost_hits, 0);
	core_crowd(&core, 16 * KIB);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	core_close(&core);
}

/* One that is read stays while others are cold. */
static void test_hot_secondary_stays(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 16 * KIB, CORE_CACHE);
	slot = copy_of(&core, "b", 16 * KIB);
	(void)core_put(&core, "c", 32 * KIB, CORE_CACHE);
	core_read(&core, 0, "b");
	core_crowd(&core, 16 * KIB);
	assert_int_equal(core_find(&core, "b"), slot);
	assert_int_equal(core_list(&core, slot), OBJECT_ACTIVE);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	core_close(&core);
}

/* The caller's pin, and then a reader, keep what has just come. */
static void test_copy_is_kept_while_it_is_used(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = copy_of(&core, "a", 40 * KIB);
	master_pin(&core.master, slot);
	ticket_init(&ticket);
	master_room_wait(&core.master, &ticket, 40 * KIB, 1);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core_get(&core, 0, "a"), slot);
	master_unpin(&core.master, slot, core.now);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_left(&core, "a", COPY_GENERATION(500), false);
	master_room_cancel(&core.master, &ticket);
	core_close(&core);
}

static void test_end_of_time(void **state)
{
	struct copy_request copy = copy_request("a", 100, COPY_GENERATION(500));
	struct core core;

	(void)state;
	open_small(&core);
	copy.expires = core.now + 1000;
	assert_int_equal(copy_end(&core, copy_start_like(&core, &copy), 0), 0);
	assert_int_equal(core_advance(&core, 999), 0);
	assert_int_equal(core_advance(&core, 1), 1);
	assert_left(&core, "a", COPY_GENERATION(500), false);
	core_assert_empty(&core);
	core_close(&core);
}

/* The keeper counts; the report is noted, and a repeat of it is known. */
static void test_reads_are_not_counted_here(void **state)
{
	struct copy_request copy = copy_request("a", 100, COPY_GENERATION(500));
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	copy.counted = true;
	copy.readers_left = 1;
	slot = copy_start_like(&core, &copy);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(master_read_ended(&core.master, core.clients[0].cid, 1,
				 &copy.key, copy.generation, core.now),
		ERR_NOT_FOUND);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(core_slot(&core, slot)->readers_left, 1);
	assert_int_equal(master_read_ended(&core.master, core.clients[0].cid, 1,
				 &copy.key, copy.generation, core.now),
		0);
	assert_int_equal(core_find(&core, "a"), slot);
	core_close(&core);
}

/* ---- beside a disk ----------------------------------------------------------- */

/* Asked for, or hot. */
static void test_never_on_disk(void **state)
{
	struct drive drive;
	struct copy_request copy = copy_request("b", 10 * KIB, COPY_GENERATION(500));
	uint32_t slots[2];

	(void)state;
	drive_open_usual(&drive);
	copy.softpin = false;
	slots[0] = copy_of(&drive.core, "a", 10 * KIB);
	slots[1] = copy_start_like(&drive.core, &copy);
	assert_int_equal(copy_end(&drive.core, slots[1], 0), 0);
	drive_save_first(&drive, "a");
	drive_sync(&drive);
	assert_int_equal(core_list(&drive.core, slots[0]), OBJECT_INACTIVE);
	/* As often as a cache object must be hit to be kept on disk. */
	drive.core.master.objects[slots[0]].hits = 3;
	drive.core.master.objects[slots[1]].hits = 3;
	drive.core.master.config.low_permille = 900;
	drive.core.master.config.high_permille = 1000;
	for (uint32_t i = 0; i < 8; i++) {
		struct put_request put;
		uint32_t slot;
		char key[8];

		(void)snprintf(key, sizeof(key), "p%u", i);
		put = core_request(&drive.core, key, 1 * KIB, CORE_CACHE);
		slot = core_start(&drive.core, &put);
		assert_int_equal(core_end(&drive.core, slot), 0);
		drive_sync(&drive);
	}
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	assert_int_equal(core_find(&drive.core, "b"), SLOT_NONE);
	assert_int_equal(drive.core.master.cluster.spared, 2);
	assert_int_equal(drive_records(&drive), 0);
	drive_close(&drive);
}

/* Turning room of 40 KiB, and the rest full of what cannot leave. */
static void open_full(struct drive *drive)
{
	uint32_t slot;

	drive_open_usual(drive);
	drive->core.master.config.clustered = true;
	(void)drive_put(drive, "disk", 40 * KIB, CORE_SOFTPIN);
	drive_move(drive, "disk");
	assert_int_equal(drive->core.master.room.turning.size, 40 * KIB);
	drive->core.master.disk.error = ERR_IO;
	drive->core.master.disk.retry_ns = UINT64_MAX;
	for (uint32_t i = 0;; i++) {
		struct put_request put;
		char key[8];

		(void)snprintf(key, sizeof(key), "f%u", i);
		put = core_request(&drive->core, key, 12 * KIB, CORE_SOFTPIN);
		if (master_put_start(&drive->core.master, &put, NULL, &slot) !=
			PUT_STARTED)
			break;
		drive_fill(drive, slot);
		assert_int_equal(core_end(&drive->core, slot), 0);
	}
}

/* What lies in the turning room goes for a load, and for another copy. */
static void test_copy_in_the_turning_room(void **state)
{
	struct drive drive;
	struct copy_request copy = copy_request("c", 30 * KIB, COPY_GENERATION(600));
	uint32_t slot;

	(void)state;
	open_full(&drive);
	slot = copy_start(&drive.core, "a", 30 * KIB, COPY_GENERATION(500));
	assert_int_equal(copy_try(&drive.core, &copy, NULL, &slot), LOAD_NO_ROOM);
	slot = drive.core.master.writing[CLIENT_LIMIT].head;
	assert_int_equal(copy_end(&drive.core, slot, 0), 0);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_true(is_secondary(&drive.core, slot));

	slot = copy_start_like(&drive.core, &copy);
	assert_left(&drive.core, "a", COPY_GENERATION(500), false);
	assert_int_equal(copy_end(&drive.core, slot, 0), 0);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);

	slot = drive_load(&drive, "disk");
	assert_left(&drive.core, "c", COPY_GENERATION(600), false);
	assert_int_equal(core_find(&drive.core, "c"), SLOT_NONE);
	drive_assert_bytes(&drive, "disk", 1);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_none_left(&drive.core);
	drive_close(&drive);
}

/* Held there, it is parked, and lent again when it is given back. */
static void test_held_copy_in_the_turning_room(void **state)
{
	struct drive drive;
	struct drive_load load;
	uint32_t slot;

	(void)state;
	open_full(&drive);
	slot = copy_of(&drive.core, "a", 30 * KIB);
	assert_int_equal(core_get(&drive.core, 0, "a"), slot);
	assert_int_equal(drive_load_begin(&drive, "disk", NULL, &load), LOAD_NO_ROOM);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_PARKED);
	core_give(&drive.core, 0, slot);
	core_deliver(&drive.core);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	(void)drive_load(&drive, "disk");
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	drive_close(&drive);
}

/* A start finds the turning room with the copy in it. */
static void test_restart_with_a_copy_in_the_turning_room(void **state)
{
	struct drive drive;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_full(&drive);
	slot = copy_of(&drive.core, "a", 30 * KIB);
	assert_int_equal(drive_restart(&drive, &recovery), 0);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	assert_int_equal(drive.core.master.room.turning.size, 40 * KIB);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_true(is_secondary(&drive.core, slot));
	(void)drive_load(&drive, "disk");
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	drive_close(&drive);
}

/* The turning room grows over a copy, which may stay, and is lent from then on; and shrinks
 * again. */
static void test_turning_room_grows_over_a_copy(void **state)
{
	struct drive drive;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "large", 100 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "between", 60 * KIB, CORE_CACHE);
	slot = copy_of(&drive.core, "a", 96 * KIB);
	drive_save_first(&drive, "large");
	drive_sync(&drive);
	assert_true(drive.core.master.room.turning.size >= 96 * KIB);
	assert_int_equal(core_find(&drive.core, "a"), slot);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	assert_int_equal(core_remove(&drive.core, "large"), 0);
	drive_sync(&drive);
	core_run(&drive.core);
	core_advance(&drive.core, 0);
	drive.core.now += TURNING_IDLE_NS;
	drive_crowd(&drive, 200 * KIB);
	assert_int_equal(core_find(&drive.core, "a"), SLOT_NONE);
	drive_close(&drive);
}

/* Also over one that is held, which is lent when it is given back. */
static void test_turning_room_grows_over_a_held_copy(void **state)
{
	struct drive drive;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	drive_open_usual(&drive);
	(void)drive_put(&drive, "large", 100 * KIB, CORE_SOFTPIN);
	(void)drive_put(&drive, "between", 60 * KIB, CORE_CACHE);
	slot = copy_of(&drive.core, "a", 96 * KIB);
	assert_int_equal(core_get(&drive.core, 0, "a"), slot);
	ticket_init(&ticket);
	master_room_wait(&drive.core.master, &ticket, 200 * KIB, 1);
	core_run(&drive.core);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_PARKED);
	master_room_cancel(&drive.core.master, &ticket);
	drive_save_first(&drive, "large");
	drive_sync(&drive);
	assert_true(drive.core.master.room.turning.size >= 96 * KIB);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_PARKED);
	core_give(&drive.core, 0, slot);
	core_deliver(&drive.core);
	assert_int_equal(core_list(&drive.core, slot), OBJECT_LENT);
	drive_close(&drive);
}

/* What its source says of it while it comes. */
static void test_copy_is_known_better(void **state)
{
	struct core core;
	struct copy_request said;
	uint32_t slot;

	(void)state;
	open_small(&core);
	said = (struct copy_request){.expires = core.now + 50,
		.counted = true,
		.readers_left = 4,
		.wanted = 2,
		.durable = true};
	slot = copy_start(&core, "a", 100, COPY_GENERATION(500));
	master_copy_know(&core.master, slot, &said);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(core_slot(&core, slot)->counted, 1);
	assert_int_equal(core_slot(&core, slot)->readers_left, 4);
	assert_int_equal(core_advance(&core, 50), 1);
	slot = copy_start(&core, "a", 100, COPY_GENERATION(500));
	said.expires = core.now + 50;
	master_copy_know(&core.master, slot, &said);
	said = (struct copy_request){.expires = UINT64_MAX};
	master_copy_know(&core.master, slot, &said);
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_copy_becomes_an_object),
	cmocka_unit_test(test_copy_of_a_cache_object),
	cmocka_unit_test(test_failed_copy_leaves_nothing),
	cmocka_unit_test(test_ready_or_coming_is_in_the_way),
	cmocka_unit_test(test_on_disk_is_in_the_way),
	cmocka_unit_test(test_damaged_on_disk_is_not_in_the_way),
	cmocka_unit_test(test_no_room),
	cmocka_unit_test(test_removal_dooms_a_copy),
	cmocka_unit_test(test_copy_beside_a_doomed_one),
	cmocka_unit_test(test_doom_prefix),
	cmocka_unit_test(test_end_of_one_generation),
	cmocka_unit_test(test_end_of_one_generation_on_disk),
	cmocka_unit_test(test_end_of_a_named_put),
	cmocka_unit_test(test_put_is_outrun),
	cmocka_unit_test(test_outrun_put_goes_on),
	cmocka_unit_test(test_outrun_put_meets_another_put),
	cmocka_unit_test(test_put_of_what_is_being_copied_is_first),
	cmocka_unit_test(test_first_on_disk),
	cmocka_unit_test(test_ends_of_an_outrun_put),
	cmocka_unit_test(test_named_put_is_outrun),
	cmocka_unit_test(test_outrun_put_is_late),
	cmocka_unit_test(test_restart_keeps_what_is_ready),
	cmocka_unit_test(test_restart_of_a_copy_just_shown),
	cmocka_unit_test(test_restart_of_an_outrun_put),
	cmocka_unit_test(test_secondary_goes_first),
	cmocka_unit_test(test_hot_secondary_stays),
	cmocka_unit_test(test_copy_is_kept_while_it_is_used),
	cmocka_unit_test(test_end_of_time),
	cmocka_unit_test(test_reads_are_not_counted_here),
	cmocka_unit_test(test_never_on_disk),
	cmocka_unit_test(test_copy_in_the_turning_room),
	cmocka_unit_test(test_held_copy_in_the_turning_room),
	cmocka_unit_test(test_restart_with_a_copy_in_the_turning_room),
	cmocka_unit_test(test_turning_room_grows_over_a_copy),
	cmocka_unit_test(test_turning_room_grows_over_a_held_copy),
	cmocka_unit_test(test_copy_is_known_better),
};

UNIT_MAIN(tests)
