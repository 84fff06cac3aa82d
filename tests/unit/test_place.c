/*
 * Windows in two stages: what is in the way is larger than every hole, and a place for it is
 * made first.
 */
#include "core_fixture.h"

#define UNIT  (8 * KIB)
#define UNITS 32u
#define POOL  (UNITS * UNIT)

/* The pool by units from its start on: a digit n is a softpin object of n units, named by
 * its place in the text; a letter a hole of 1 ('a'), 2 ('b'), ... units. */
static void open_layout(struct core *core, const char *layout)
{
	char key[8];

	core_open(core, POOL, 64, 64);
	core->master.config.low_permille = 0;
	for (uint32_t i = 0; layout[i] != '\0'; i++) {
		bool hole = layout[i] >= 'a';
		uint64_t units = (uint64_t)(layout[i] - (hole ? 'a' - 1 : '0'));

		(void)snprintf(key, sizeof(key), "%u", i);
		(void)core_put(core, key, units * UNIT, CORE_SOFTPIN);
	}
	assert_int_equal(core_use(core).free, 0);
	for (uint32_t i = 0; layout[i] != '\0'; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		if (layout[i] >= 'a')
			assert_int_equal(core_remove(core, key), 0);
	}
}

/* Every object has the bytes that core_put() wrote: the number of its first slot, which is
 * its place in the text. */
static void assert_all_there(struct core *core, const char *layout)
{
	char key[8];

	for (uint32_t i = 0; layout[i] != '\0'; i++) {
		const struct slot *there;

		if (layout[i] >= 'a')
			continue;
		(void)snprintf(key, sizeof(key), "%u", i);
		assert_int_not_equal(core_find(core, key), SLOT_NONE);
		there = core_slot(core, core_find(core, key));
		assert_int_equal(there->size, (uint64_t)(layout[i] - '0') * UNIT);
		for (uint64_t byte = 0; byte < there->size; byte++)
			assert_int_equal(core->share.pool[there->off + byte], i);
	}
}

static void wait_for(struct core *core, struct ticket *ticket, uint64_t units)
{
	ticket_init(ticket);
	master_room_wait(&core->master, ticket, units * UNIT, 1);
	core_assert(core);
}

/* The object of 5 units is in every window of 15, and no hole is larger than 3 units. What is
 * small leaves the window first, then a place for the large one is made. */
static const char two_stages[] = "c2c2c15c1c1c1a";

static void test_two_stages(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_layout(&core, two_stages);
	assert_int_equal(core_use(&core).largest_hole, 3 * UNIT);
	wait_for(&core, &ticket, 15);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_int_equal(core_use(&core).granted, 15 * UNIT);
	assert_int_equal(core_use(&core).withheld, 0);
	assert_int_equal(core.master.room.place.ticket.state, TICKET_IDLE);
	assert_true(core.master.room.place.rounds >= 1);
	assert_all_there(&core, two_stages);
	core_close(&core);
}

/* The small ones of the window are out, and the place for the large one is being made: a copy
 * for it is under way. */
static void open_making(struct core *core, struct ticket *ticket)
{
	const struct ticket *place = &core->master.room.place.ticket;
	struct relocation move;

	open_layout(core, two_stages);
	wait_for(core, ticket, 15);
	for (uint32_t i = 0;; i++) {
		assert_true(i < 100);
		(void)master_room_run(&core->master, core->now, 8);
		core_assert(core);
		if (!master_move_next(&core->master, &move))
			continue;
		if (core->master.room.window.owner == place)
			break;
		memcpy(core->share.pool + move.to_off, core->share.pool + move.from_off,
			move.size);
		master_move_done(&core->master, true, core->now);
		core_assert(core);
	}
	assert_ptr_equal(core->master.room.place.owner, ticket);
	assert_int_equal(core->master.room.place.slot, core_find(core, "6"));
}

/* Nobody needs it any more. */
static void test_its_owner_gives_up(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_making(&core, &ticket);
	master_room_cancel(&core.master, &ticket);
	core_assert(&core);
	core_run(&core);
	assert_int_equal(core.master.room.place.ticket.state, TICKET_IDLE);
	assert_null(core.master.room.place.owner);
	assert_null(core.master.room.window.owner);
	assert_int_equal(core_use(&core).withheld, 0);
	assert_int_equal(core_use(&core).granted, 0);
	assert_all_there(&core, two_stages);
	core_close(&core);
}

/* What was in the way ends, as its place is made: the ticket has its run without. */
static void test_the_obstacle_ends(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_making(&core, &ticket);
	assert_int_equal(core_remove(&core, "6"), 0);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_int_equal(core.master.room.place.ticket.state, TICKET_IDLE);
	assert_int_equal(core_use(&core).granted, 15 * UNIT);
	assert_all_there(&core, "c2c2c1ec1c1c1a");
	core_close(&core);
}

/* Its holder keeps it where it is; the window comes when it is let go. */
static void test_the_obstacle_is_held(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_making(&core, &ticket);
	slot = core_get(&core, 0, "6");
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core_find(&core, "6"), slot);
	core_give(&core, 0, slot);
	core_deliver(&core);
	for (uint32_t i = 0; i < 20 && ticket.state == TICKET_WAITING; i++) {
		(void)core_advance(&core, SWEEP_PERIOD_NS);
		core_run(&core);
	}
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_all_there(&core, two_stages);
	core_close(&core);
}

/* Free are 16 units, 9 are wanted; but every object is larger than every hole, and none has
 * a place before another has one. */
static void test_hopeless(void **state)
{
	static const char layout[] = "d5d5d6d";
	struct core core;
	struct ticket ticket;
	struct master_stats before;

	(void)state;
	open_layout(&core, layout);
	wait_for(&core, &ticket, 9);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core.master.stats.relocated, 0);
	assert_int_equal(core.master.room.place.ticket.state, TICKET_IDLE);
	assert_null(core.master.room.window.owner);
	assert_int_equal(core_use(&core).withheld, 0);
	assert_int_equal(core_use(&core).granted, 0);
	/* Nothing works until something happens. */
	before = core.master.stats;
	assert_true(master_next(&core.master) > core.now);
	assert_false(master_room_run(&core.master, core.now, 100));
	assert_memory_equal(&before, &core.master.stats, sizeof(before));
	for (uint32_t i = 0; i < 20; i++) {
		(void)core_advance(&core, SWEEP_PERIOD_NS);
		core_run(&core);
	}
	assert_int_equal(core.master.stats.relocated, 0);
	assert_all_there(&core, layout);
	assert_int_equal(core_remove(&core, "3"), 0);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_two_stages),
	cmocka_unit_test(test_its_owner_gives_up),
	cmocka_unit_test(test_the_obstacle_ends),
	cmocka_unit_test(test_the_obstacle_is_held),
	cmocka_unit_test(test_hopeless),
};

UNIT_MAIN(tests)
