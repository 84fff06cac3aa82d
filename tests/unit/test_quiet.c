/*
 * Room where leases keep everything: what is under one is met once, what comes while all is
 * quiet is not met at all, and no window is cleared before a lease has had time to end.
 */
#include "core_fixture.h"

#define OBJECT   (4 * KIB)
#define OBJECTS  64u
#define POOL     (OBJECTS * OBJECT)
#define LONG_NS  60000000000ull
#define SHORT_NS 500000000ull

static void lease(struct core *core, const char *key, uint64_t length_ns)
{
	uint32_t slot = core_find(core, key);

	assert_int_not_equal(slot, SLOT_NONE);
	(void)master_lease(&core->master, slot, length_ns, core->now);
	core_assert(core);
}

/* A pool full of cache objects "0", "1", ..., all of them under leases. */
static void open_leased(struct core *core, uint64_t length_ns)
{
	char key[8];

	core_open(core, POOL, 2 * OBJECTS, 2 * OBJECTS);
	core->master.config.low_permille = 0;
	for (uint32_t i = 0; i < OBJECTS; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)core_put(core, key, OBJECT, CORE_CACHE);
		lease(core, key, length_ns);
	}
	assert_int_equal(core_use(core).free, 0);
}

static void wait_for(struct core *core, struct ticket *ticket, uint64_t size)
{
	ticket_init(ticket);
	master_room_wait(&core->master, ticket, size, 1);
	core_assert(core);
}

/* All are parked, and the first quiet period has begun. */
static void open_quiet(struct core *core, struct ticket *ticket)
{
	open_leased(core, LONG_NS);
	wait_for(core, ticket, OBJECT);
	core_run(core);
	assert_null(master_room_granted(&core->master));
	assert_int_equal(core->master.parked.count, OBJECTS);
	assert_int_equal(core->master.stats.examined, OBJECTS);
	assert_int_equal(core->master.stats.parked_lease, OBJECTS);
	assert_int_equal(core->master.room.quiet_ns, core->now + SWEEP_PERIOD_NS);
}

/* An end of a lease comes before a window would be clear. */
static void test_no_window_in_the_first_period(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_quiet(&core, &ticket);
	for (uint32_t i = 0; i < 9; i++) {
		struct ticket other;

		(void)core_advance(&core, SWEEP_PERIOD_NS / 10);
		wait_for(&core, &other, OBJECT); /* an event, each time */
		core_run(&core);
		assert_int_equal(core.master.stats.windows, 0);
		master_room_cancel(&core.master, &other);
	}
	(void)core_advance(&core, SWEEP_PERIOD_NS / 10);
	core_run(&core);
	assert_int_equal(core.master.stats.windows, 1);
	assert_int_equal(core.master.stats.examined, OBJECTS);
	assert_null(master_room_granted(&core.master));
	core_close(&core);
}

/* What has come since is likely to be under a lease as well: it is met after the period. */
static void test_what_comes_in_a_period_is_met_after_it(void **state)
{
	struct core core;
	struct ticket ticket, other;
	struct put_request put;
	uint32_t slot;

	(void)state;
	core_open(&core, POOL, 2 * OBJECTS, 2 * OBJECTS);
	core.master.config.low_permille = 0;
	put = core_request(&core, "new", OBJECT, CORE_CACHE);
	slot = core_start(&core, &put);
	(void)core_put(&core, "leased", POOL - OBJECT, CORE_CACHE);
	lease(&core, "leased", LONG_NS);
	wait_for(&core, &ticket, OBJECT);
	core_run(&core);
	assert_int_equal(core.master.stats.examined, 1);
	assert_int_equal(core_end(&core, slot), 0);
	(void)core_advance(&core, SWEEP_PERIOD_NS - 1);
	wait_for(&core, &other, OBJECT); /* an event */
	core_run(&core);
	assert_int_equal(core.master.stats.examined, 1);
	assert_null(master_room_granted(&core.master));
	assert_true(master_next(&core.master) <= core.now + SWEEP_PERIOD_NS);
	(void)core_advance(&core, SWEEP_PERIOD_NS);
	core_run(&core);
	assert_int_equal(core.master.stats.examined, 2);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_int_equal(core_find(&core, "new"), SLOT_NONE);
	master_room_cancel(&core.master, &other);
	core_close(&core);
}

/* Not so what wakes: its lease is over. */
static void test_what_wakes_is_met_at_once(void **state)
{
	struct core core;
	struct ticket ticket;
	struct lease_token token;
	uint32_t slot;

	(void)state;
	open_leased(&core, LONG_NS);
	assert_int_equal(core_remove(&core, "5"), 0);
	core_run(&core);
	(void)core_advance(&core, LONG_NS); /* 5's bytes are free now */
	slot = core_put(&core, "again", OBJECT, CORE_CACHE);
	token = master_lease(&core.master, slot, LONG_NS, core.now);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "%u", i);
		if (i != 5)
			lease(&core, key, LONG_NS);
	}
	wait_for(&core, &ticket, OBJECT);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core.master.stats.examined, OBJECTS);
	assert_true(core.master.room.quiet_ns > core.now);
	assert_true(master_lease_release(&core.master, &token, core.now));
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	assert_int_equal(core.master.stats.examined, OBJECTS + 1);
	assert_int_equal(core_find(&core, "again"), SLOT_NONE);
	core_close(&core);
}

/* A hold may end at any moment: the scan that met one begins no quiet period. */
static void test_holds_are_not_quiet(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_leased(&core, LONG_NS);
	(void)core_get(&core, 0, "7");
	wait_for(&core, &ticket, OBJECT);
	(void)master_room_run(&core.master, core.now, 2 * OBJECTS);
	core_assert(&core);
	assert_int_equal(core.master.stats.parked_both, 1);
	assert_int_equal(core.master.room.quiet_ns, 0);
	assert_int_equal(core.master.stats.windows, 1);
	core_close(&core);
}

/* Each object is met when it is parked and when it goes: an end of its lease wakes it once. */
static void test_two_examined_for_each_freed(void **state)
{
	struct core core;
	const struct master_stats *stats = &core.master.stats;
	uint32_t count = 0;

	(void)state;
	open_leased(&core, SHORT_NS);
	for (uint32_t turn = 0; turn < 10000; turn++) {
		struct put_request put;
		struct ticket ticket;
		uint32_t slot;
		char key[16];

		(void)core_advance(&core, 1000000);
		(void)snprintf(key, sizeof(key), "new%u", count);
		put = core_request(&core, key, OBJECT, CORE_CACHE);
		wait_for(&core, &ticket, OBJECT);
		core_run(&core);
		if (master_room_granted(&core.master) == NULL) {
			master_room_cancel(&core.master, &ticket);
			continue;
		}
		assert_int_equal(master_put_start(&core.master, &put, &ticket, &slot),
			PUT_STARTED);
		assert_int_equal(core_end(&core, slot), 0);
		lease(&core, key, SHORT_NS);
		count++;
	}
	assert_true(stats->freed > 10 * OBJECTS);
	if (stats->examined * 10 > stats->freed * 21)
		fail_msg("examined %llu, freed %llu", (unsigned long long)stats->examined,
			(unsigned long long)stats->freed);
	core_close(&core);
}

/* Who looks at it, or lets go of it, does not wake it: its lease blocks it all the same. */
static void test_parked_by_a_lease_is_left_alone(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_quiet(&core, &ticket);
	slot = core_get(&core, 0, "3");
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	assert_int_equal(core_slot(&core, slot)->want, 0);
	core_give(&core, 0, slot);
	assert_int_equal(core.ntells, 0); /* nobody is asked to tell */
	assert_int_equal(core_find(&core, "3"), slot);
	master_pin(&core.master, slot);
	master_unpin(&core.master, slot, core.now);
	master_tell(&core.master, slot, core.now);
	master_look_all(&core.master, core.now);
	core_assert(&core);
	core_run(&core);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	assert_int_equal(core.master.stats.woken, 0);
	assert_int_equal(core.master.stats.examined, OBJECTS);
	assert_null(master_room_granted(&core.master));
	core_close(&core);
}

/* A lease that comes when it is parked for another reason is what it waits for then. */
static void test_a_lease_on_what_is_parked(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	core_open(&core, POOL, 2 * OBJECTS, 2 * OBJECTS);
	core.master.config.low_permille = 0;
	slot = core_put(&core, "a", POOL, CORE_CACHE);
	assert_int_equal(core_get(&core, 0, "a"), slot);
	wait_for(&core, &ticket, OBJECT);
	core_run(&core);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	lease(&core, "a", SHORT_NS);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_run(&core);
	assert_null(master_room_granted(&core.master));
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	assert_int_equal(core_advance(&core, SHORT_NS), 1);
	core_run(&core);
	assert_ptr_equal(master_room_granted(&core.master), &ticket);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_window_in_the_first_period),
	cmocka_unit_test(test_what_comes_in_a_period_is_met_after_it),
	cmocka_unit_test(test_what_wakes_is_met_at_once),
	cmocka_unit_test(test_holds_are_not_quiet),
	cmocka_unit_test(test_two_examined_for_each_freed),
	cmocka_unit_test(test_parked_by_a_lease_is_left_alone),
	cmocka_unit_test(test_a_lease_on_what_is_parked),
};

UNIT_MAIN(tests)
