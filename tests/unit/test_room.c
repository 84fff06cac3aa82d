/*
 * Room in the pool: the queue of tickets, eviction, windows, copies, objects that are
 * blocked and woken, and that nothing works when nothing is due.
 */
#include "core_fixture.h"

#define POOL (256 * KIB)

/* Without watermarks, so that all that leaves leaves for a ticket. */
static void open_pool(struct core *core)
{
	core_open(core, POOL, 128, 128);
	core->master.config.low_permille = 0;
}

static void wait_for(struct core *core, struct ticket *ticket, uint64_t size)
{
	ticket_init(ticket);
	master_room_wait(&core->master, ticket, size, 1);
	core_assert(core);
}

/* The next ticket that got its run. */
static struct ticket *granted(struct core *core)
{
	return master_room_granted(&core->master);
}

/* Objects "0", "1", ... of one size from the pool's start on, until it is full. */
static uint32_t fill(struct core *core, uint64_t size, bool softpin)
{
	uint32_t count = 0;
	char key[8];

	for (; core_use(core).largest_hole >= size; count++) {
		(void)snprintf(key, sizeof(key), "%u", count);
		(void)core_put(core, key, size, softpin);
	}
	return count;
}

/* The object's bytes are still those that core_put() wrote in `slot`. */
static void assert_bytes(struct core *core, const char *key, uint32_t byte)
{
	uint32_t slot = core_find(core, key);
	const struct slot *there;

	assert_int_not_equal(slot, SLOT_NONE);
	there = core_slot(core, slot);
	for (uint64_t i = 0; i < there->size; i++)
		assert_int_equal(core->share.pool[there->off + i], byte);
}

/* ---- tickets ------------------------------------------------------------------------- */

static void test_ticket_is_granted_and_used(void **state)
{
	struct core core;
	struct ticket ticket;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	(void)core_put(&core, "all", POOL, CORE_SOFTPIN);
	put = core_request(&core, "a", 16 * KIB, CORE_CACHE);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_null(granted(&core));
	assert_int_equal(core_remove(&core, "all"), 0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_null(granted(&core));
	assert_int_equal(core_use(&core).granted, 16 * KIB);
	assert_int_equal(
		master_put_start(&core.master, &put, &ticket, &slot), PUT_STARTED);
	assert_int_equal(ticket.state, TICKET_IDLE);
	assert_int_equal(core_use(&core).granted, 0);
	assert_int_equal(core_end(&core, slot), 0);
	core_close(&core);
}

static void test_ticket_is_given_back(void **state)
{
	struct core core;
	struct ticket ticket;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	(void)core_put(&core, "a", 100, CORE_CACHE);
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	/* Granted, and not yet fetched. */
	master_room_cancel(&core.master, &ticket);
	core_assert(&core);
	assert_null(granted(&core));
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	/* The put does not need it: the key was put meanwhile. */
	put = core_request(&core, "a", 16 * KIB, CORE_CACHE);
	assert_int_equal(
		master_put_start(&core.master, &put, &ticket, &slot), PUT_EXISTS);
	assert_int_equal(ticket.state, TICKET_IDLE);
	assert_int_equal(core_use(&core).granted, 0);
	wait_for(&core, &ticket, 16 * KIB);
	master_room_cancel(&core.master, &ticket); /* while it waits */
	master_room_cancel(&core.master, &ticket); /* harmless */
	core_run(&core);
	assert_null(granted(&core));
	core_close(&core);
}

static void test_tickets_are_served_in_order(void **state)
{
	struct core core;
	struct ticket tickets[4];
	uint32_t count;

	(void)state;
	open_pool(&core);
	count = fill(&core, 16 * KIB, CORE_SOFTPIN);
	assert_int_equal(count, 16);
	for (uint32_t i = 0; i < 4; i++)
		wait_for(&core, &tickets[i], 16 * KIB);
	core_run(&core);
	for (uint32_t i = 0; i < 4; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "%u", 5 * i % 16);
		assert_int_equal(core_remove(&core, key), 0);
		core_run(&core);
		assert_ptr_equal(granted(&core), &tickets[i]);
		assert_null(granted(&core));
	}
	core_close(&core);
}

/* While somebody waits, a put does not slip in. */
static void test_puts_do_not_overtake(void **state)
{
	struct core core;
	struct ticket ticket;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_SOFTPIN);
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_int_equal(core_remove(&core, "3"), 0);
	put = core_request(&core, "a", 16 * KIB, CORE_CACHE);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* ---- eviction ------------------------------------------------------------------------ */

static void test_the_coldest_leaves(void **state)
{
	struct core core;
	struct ticket ticket;
	uint64_t examined;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_CACHE);
	core_read(&core, 0, "0");
	examined = core.master.stats.examined;
	wait_for(&core, &ticket, 16 * KIB);
	while (master_room_run(&core.master, core.now, 1))
		core_assert(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_not_equal(core_find(&core, "0"), SLOT_NONE);
	assert_int_equal(core_find(&core, "1"), SLOT_NONE);
	assert_int_not_equal(core_find(&core, "2"), SLOT_NONE);
	assert_int_equal(core_list(&core, core_find(&core, "0")), OBJECT_ACTIVE);
	assert_int_equal(core.master.stats.evicted, 1);
	/* The hot one, the cold one. */
	assert_int_equal(core.master.stats.examined - examined, 2);
	core_close(&core);
}

/* The mark of the object that had the slot before is not its own. */
static void test_a_new_object_is_cold(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	slot = core_put(&core, "old", POOL / 2, CORE_CACHE);
	core_read(&core, 0, "old");
	assert_int_equal(core_remove(&core, "old"), 0);
	assert_int_equal(core_put(&core, "new", POOL / 2, CORE_CACHE), slot);
	(void)core_put(&core, "other", POOL / 2, CORE_CACHE);
	wait_for(&core, &ticket, POOL / 2);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_equal(core_find(&core, "new"), SLOT_NONE);
	assert_int_not_equal(core_find(&core, "other"), SLOT_NONE);
	core_close(&core);
}

static void test_softpin_is_never_evicted(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_SOFTPIN);
	wait_for(&core, &ticket, 256);
	for (unsigned i = 0; i < 50; i++) {
		core_run(&core);
		(void)core_advance(&core, 100000000);
	}
	assert_null(granted(&core));
	assert_int_equal(core_use(&core).objects, 16);
	assert_int_equal(core.master.stats.evicted, 0);
	core_close(&core);
}

static void test_ghost_brings_back_active(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_CACHE);
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	master_room_cancel(&core.master, &ticket);
	assert_int_equal(core_find(&core, "0"), SLOT_NONE);
	slot = core_put(&core, "0", 16 * KIB, CORE_CACHE);
	assert_int_equal(core_list(&core, slot), OBJECT_ACTIVE);
	assert_int_equal(core.master.stats.ghost_hits, 1);
	core_close(&core);
}

/* Between the watermarks the pool is refilled in the background, and no further. */
static void test_watermarks(void **state)
{
	struct core core;
	uint64_t free;

	(void)state;
	core_open(&core, 4 * MIB, 512, 512);
	(void)fill(&core, 16 * KIB, CORE_CACHE);
	assert_int_equal(core_use(&core).free, 0);
	assert_int_equal(master_next(&core.master), 0);
	core_run(&core);
	free = core_use(&core).free;
	assert_true(free >= 4 * MIB / 1000 * 20);
	assert_true(free < 4 * MIB / 1000 * 20 + 16 * KIB);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	core_close(&core);
}

/* With nothing to take it stops, until the next put. */
static void test_refill_stops_with_nothing_to_take(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;
	uint64_t examined;

	(void)state;
	core_open(&core, 4 * MIB, 512, 512);
	(void)fill(&core, 16 * KIB, CORE_CACHE);
	for (uint32_t i = 0; i < 256; i++)
		master_pin(&core.master, i);
	put = core_request(&core, "x", 256, CORE_CACHE);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	core_run(&core);
	examined = core.master.stats.examined;
	assert_int_equal(examined, 256);
	assert_int_equal(core.master.stats.parked_pin, 256);
	assert_false(master_room_run(&core.master, core.now, 100));
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	core_run(&core);
	assert_int_equal(core.master.stats.examined, examined);
	for (uint32_t i = 0; i < 256; i++)
		master_unpin(&core.master, i, core.now);
	core_assert(&core);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	core_run(&core);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_STARTED);
	core_close(&core);
}

/* ---- windows ------------------------------------------------------------------------- */

/* Neighbours leave, although colder ones lie elsewhere in pieces. */
static void test_window_evicts_neighbours(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_CACHE);
	wait_for(&core, &ticket, 48 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_equal(core.master.stats.windows, 1);
	assert_int_equal(core.master.stats.evicted, 3);
	assert_int_equal(core_use(&core).objects, 13);
	assert_int_equal(core_use(&core).withheld, 0);
	core_close(&core);
}

/* Every other object is gone: half of the pool is free and no run of two fits. */
static void open_chequered(struct core *core, bool softpin)
{
	char key[8];

	open_pool(core);
	assert_int_equal(fill(core, 16 * KIB, softpin), 16);
	for (uint32_t i = 0; i < 16; i += 2) {
		(void)snprintf(key, sizeof(key), "%u", i);
		assert_int_equal(core_remove(core, key), 0);
	}
	assert_int_equal(core_use(core).largest_hole, 16 * KIB);
	assert_int_equal(core_use(core).free, POOL / 2);
}

static void test_fragmentation_is_cured_by_copies(void **state)
{
	struct core core;
	struct ticket ticket;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_chequered(&core, CORE_SOFTPIN);
	put = core_request(&core, "large", POOL / 2, CORE_SOFTPIN);
	assert_int_equal(master_put_start(&core.master, &put, NULL, &slot), PUT_NO_ROOM);
	wait_for(&core, &ticket, POOL / 2);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_equal(
		master_put_start(&core.master, &put, &ticket, &slot), PUT_STARTED);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(core_use(&core).free, 0);
	assert_int_equal(core_use(&core).objects, 9);
	assert_true(core.master.stats.relocated >= 4);
	for (uint32_t i = 1; i < 16; i += 2) {
		char key[8];

		(void)snprintf(key, sizeof(key), "%u", i);
		assert_bytes(&core, key, i);
		core_give(&core, 1, core_get(&core, 1, key));
	}
	core_close(&core);
}

/* A copy's own room is made by evicting a range of the cache, and no more than that. */
static void test_copy_into_evicted_cache(void **state)
{
	struct core core;
	struct ticket ticket;
	struct put_request put;
	uint32_t slot;
	char key[8];

	(void)state;
	open_pool(&core);
	slot = core_put(&core, "moved", 40 * KIB, CORE_SOFTPIN);
	(void)core_put(&core, "gone", 24 * KIB, CORE_CACHE);
	put = core_request(&core, "open1", 64 * KIB, CORE_CACHE);
	(void)core_start(&core, &put);
	for (uint32_t i = 0; i < 12; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)core_put(&core, key, 4 * KIB, CORE_CACHE);
	}
	put = core_request(&core, "open2", 80 * KIB, CORE_CACHE);
	(void)core_start(&core, &put);
	assert_int_equal(core_remove(&core, "gone"), 0);
	wait_for(&core, &ticket, 64 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_bytes(&core, "moved", slot);
	assert_int_equal(core.master.stats.evicted, 10);
	assert_int_equal(core.master.stats.relocated, 1);
	core_close(&core);
}

/* The cheapest window has an object that has no place to go; another has only small ones. */
static void test_window_that_cannot_be_cleared_is_passed_over(void **state)
{
	struct core core;
	struct ticket ticket;
	char key[8];

	(void)state;
	open_pool(&core);
	/* 100K, free 20K, 100K: to move either 100K there is no hole. */
	(void)core_put(&core, "big1", 100 * KIB, CORE_SOFTPIN);
	(void)core_put(&core, "gone", 20 * KIB, CORE_CACHE);
	(void)core_put(&core, "big2", 100 * KIB, CORE_SOFTPIN);
	/* 36K: 4K objects, every other one gone. */
	for (uint32_t i = 0; i < 9; i++) {
		(void)snprintf(key, sizeof(key), "s%u", i);
		(void)core_put(&core, key, 4 * KIB, CORE_SOFTPIN);
	}
	for (uint32_t i = 0; i < 9; i += 2) {
		(void)snprintf(key, sizeof(key), "s%u", i);
		assert_int_equal(core_remove(&core, key), 0);
	}
	assert_int_equal(core_remove(&core, "gone"), 0);
	wait_for(&core, &ticket, 28 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_equal(core_use(&core).objects, 6);
	core_close(&core);
}

static void test_copy_given_up_is_tried_again(void **state)
{
	struct core core;
	struct ticket ticket;
	struct relocation move;

	(void)state;
	open_chequered(&core, CORE_SOFTPIN);
	wait_for(&core, &ticket, 32 * KIB);
	(void)master_room_run(&core.master, core.now, 100);
	assert_true(master_move_next(&core.master, &move));
	assert_int_equal(core_list(&core, move.from), OBJECT_MOVING);
	assert_int_equal(core_use(&core).moving, 16 * KIB);
	master_move_done(&core.master, false, core.now);
	core_assert(&core);
	assert_int_equal(core_list(&core, move.from), OBJECT_DIRTY);
	assert_int_equal(core_kind(&core, move.to), SLOT_FREE);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

static void test_remove_under_a_copy(void **state)
{
	struct core core;
	struct ticket ticket;
	struct relocation move;
	char key[8];

	(void)state;
	open_chequered(&core, CORE_SOFTPIN);
	wait_for(&core, &ticket, 32 * KIB);
	(void)master_room_run(&core.master, core.now, 100);
	assert_true(master_move_next(&core.master, &move));
	(void)snprintf(key, sizeof(key), "%u", move.from);
	assert_int_equal(core_remove(&core, key), 0);
	assert_int_equal(core_find(&core, key), SLOT_NONE);
	/* The copy reads those bytes still. */
	assert_int_equal(core_kind(&core, move.from), SLOT_CONDEMNED);
	master_move_done(&core.master, true, core.now);
	core_assert(&core);
	assert_int_equal(core_kind(&core, move.from), SLOT_FREE);
	assert_int_equal(core_kind(&core, move.to), SLOT_FREE);
	assert_int_equal(core_find(&core, key), SLOT_NONE);
	assert_int_equal(core.master.stats.relocated, 0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* Who held the old place reads on, and can take the object. */
static void test_hold_and_take_across_a_move(void **state)
{
	struct core core;
	struct ticket ticket;
	struct relocation move;
	uint32_t slot;
	uint64_t life;
	char key[8];

	(void)state;
	open_chequered(&core, CORE_SOFTPIN);
	wait_for(&core, &ticket, 32 * KIB);
	(void)master_room_run(&core.master, core.now, 100);
	assert_true(master_move_next(&core.master, &move));
	(void)snprintf(key, sizeof(key), "%u", move.from);
	slot = core_get(&core, 1, key);
	assert_int_equal(slot, move.from);
	life = core_life(&core, slot);
	memcpy(core.share.pool + move.to_off, core.share.pool + move.from_off, move.size);
	master_move_done(&core.master, true, core.now);
	core_assert(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	assert_int_equal(core_find(&core, key), move.to);
	assert_bytes(&core, key, slot);
	assert_int_equal(core.share.pool[core_slot(&core, slot)->off], slot);

	assert_int_equal(
		master_take(&core.master, slot, life, core.clients[1].ref, 5, core.now),
		0);
	core_assert(&core);
	assert_int_equal(core_find(&core, key), SLOT_NONE);
	assert_int_equal(core_kind(&core, move.to), SLOT_FREE);
	assert_int_equal(
		master_take(&core.master, slot, life, core.clients[1].ref, 5, core.now),
		0);
	assert_int_equal(
		master_take(&core.master, slot, life, core.clients[2].ref, 5, core.now),
		ERR_NOT_FOUND);
	core_give(&core, 1, slot);
	core_deliver(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_FREE);
	core_close(&core);
}

static void test_ttl_ends_after_a_move(void **state)
{
	struct core core;
	struct ticket ticket;
	struct relocation move;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	put = core_request(&core, "short", 16 * KIB, CORE_SOFTPIN);
	put.ttl_ns = 1000;
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	(void)core_put(&core, "gone", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "rest", POOL - 48 * KIB, CORE_SOFTPIN);
	wait_for(&core, &ticket, 32 * KIB);
	(void)master_room_run(&core.master, core.now, 100);
	assert_true(master_move_next(&core.master, &move));
	assert_int_equal(move.from, slot);
	assert_int_equal(core_advance(&core, 2000), 0); /* it waits for the copy */
	memcpy(core.share.pool + move.to_off, core.share.pool + move.from_off, move.size);
	master_move_done(&core.master, true, core.now);
	assert_int_equal(core_find(&core, "short"), move.to);
	assert_int_equal(core_advance(&core, 0), 1);
	assert_int_equal(core_find(&core, "short"), SLOT_NONE);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* A window that must wait keeps its place; smaller ones pass outside of it. */
static void test_smaller_tickets_pass(void **state)
{
	struct core core;
	struct ticket large, small, equal;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	put = core_request(&core, "open", 128 * KIB, CORE_CACHE);
	slot = core_start(&core, &put); /* its writer takes its time */
	(void)core_put(&core, "pin1", 16 * KIB, CORE_SOFTPIN);
	(void)core_put(&core, "tmp", 32 * KIB, CORE_CACHE);
	(void)core_put(&core, "pin2", 80 * KIB, CORE_SOFTPIN);
	assert_int_equal(core_use(&core).free, 0);
	wait_for(&core, &large, 144 * KIB);
	wait_for(&core, &small, 16 * KIB);
	wait_for(&core, &equal, 144 * KIB);
	core_run(&core);
	assert_ptr_equal(granted(&core), &small);
	assert_null(granted(&core));
	assert_int_equal(core_end(&core, slot), 0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &large);
	assert_null(granted(&core));
	master_room_cancel(&core.master, &large);
	core_run(&core);
	assert_ptr_equal(granted(&core), &equal);
	core_close(&core);
}

/* With nothing freed in it for a second the window opens; what it kept is for all. */
static void test_idle_window_is_given_up(void **state)
{
	struct core core;
	struct ticket large, small;
	uint32_t slot;
	struct put_request put;

	(void)state;
	open_pool(&core);
	put = core_request(&core, "open", 128 * KIB, CORE_CACHE);
	slot = core_start(&core, &put);
	(void)core_put(&core, "tmp", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "pin", 112 * KIB, CORE_SOFTPIN);
	wait_for(&core, &large, 144 * KIB);
	core_run(&core);
	assert_null(granted(&core));
	assert_int_equal(core_use(&core).withheld, 16 * KIB);
	wait_for(&core, &small, 16 * KIB);
	core_run(&core);
	assert_null(granted(&core)); /* the only hole is the window's */
	for (unsigned i = 0; i < 9; i++) {
		(void)core_advance(&core, WINDOW_IDLE_NS / 10);
		core_run(&core);
		assert_null(granted(&core));
	}
	assert_int_equal(core.master.stats.windows_given_up, 0);
	(void)core_advance(&core, WINDOW_IDLE_NS / 10);
	assert_true(master_next(&core.master) <= core.now);
	core_run(&core);
	assert_int_equal(core.master.stats.windows_given_up, 1);
	assert_ptr_equal(granted(&core), &small);
	assert_int_equal(core_end(&core, slot), 0);
	master_room_cancel(&core.master, &small);
	core_run(&core);
	assert_ptr_equal(granted(&core), &large);
	core_close(&core);
}

static void test_cancel_closes_the_window(void **state)
{
	struct core core;
	struct ticket large, small;
	struct put_request put;

	(void)state;
	open_pool(&core);
	put = core_request(&core, "open", 128 * KIB, CORE_CACHE);
	(void)core_start(&core, &put);
	(void)core_put(&core, "tmp", 16 * KIB, CORE_CACHE);
	(void)core_put(&core, "pin", 112 * KIB, CORE_SOFTPIN);
	wait_for(&core, &large, 144 * KIB);
	core_run(&core);
	wait_for(&core, &small, 16 * KIB);
	core_run(&core);
	assert_null(granted(&core));
	master_room_cancel(&core.master, &large);
	core_assert(&core);
	core_run(&core);
	assert_ptr_equal(granted(&core), &small);
	core_close(&core);
}

/* The window is clear, but granted tickets have a claim to the last slots. */
static void test_window_waits_for_a_slot(void **state)
{
	struct core core;
	struct ticket large, small[3];
	struct put_request put;
	uint32_t slot;

	(void)state;
	core_open(&core, POOL, 4, 4);
	(void)core_put(&core, "pin", 60 * KIB, CORE_SOFTPIN);
	(void)core_put(&core, "tmp", 4 * KIB, CORE_CACHE);
	put = core_request(&core, "open", 64 * KIB, CORE_CACHE);
	slot = core_start(&core, &put);
	assert_int_equal(core_remove(&core, "tmp"), 0);
	wait_for(&core, &large, 160 * KIB);
	core_run(&core);
	assert_int_equal(core.master.stats.windows, 1); /* it waits for the writer */
	for (unsigned i = 0; i < 3; i++) {
		wait_for(&core, &small[i], 1 * KIB);
		core_run(&core);
	}
	assert_ptr_equal(granted(&core), &small[0]);
	assert_ptr_equal(granted(&core), &small[1]);
	assert_null(granted(&core)); /* two slots were left */
	assert_int_equal(
		master_put_abort(&core.master, slot, core_life(&core, slot), put.writer),
		0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &small[2]);
	assert_null(granted(&core));
	assert_int_equal(extent_window_missing(&core.master.extents, EXTENT_CLEARING), 0);
	for (unsigned i = 0; i < 3; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "s%u", i);
		put = core_request(&core, key, 1 * KIB, CORE_SOFTPIN);
		assert_int_equal(master_put_start(&core.master, &put, &small[i], &slot),
			PUT_STARTED);
		assert_int_equal(core_end(&core, slot), 0);
	}
	core_run(&core);
	assert_null(granted(&core));
	assert_int_equal(core_remove(&core, "s1"), 0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &large);
	core_close(&core);
}

/* ---- parked -------------------------------------------------------------------------- */

/* One object fills the pool, a client holds it, a ticket waits: it was parked. */
static uint32_t open_parked(struct core *core, struct ticket *ticket)
{
	uint32_t slot;

	open_pool(core);
	slot = core_put(core, "held", POOL, CORE_CACHE);
	(void)core_get(core, 0, "held");
	wait_for(core, ticket, 16 * KIB);
	core_run(core);
	assert_null(granted(core));
	assert_int_equal(core_list(core, slot), OBJECT_PARKED);
	assert_int_equal(core_kind(core, slot), SLOT_READY);
	assert_int_equal(core_slot(core, slot)->want, 1);
	assert_int_equal(core->master.stats.parked_hold, 1);
	return slot;
}

/* A blocked object is met once, however often room is asked for. */
static void test_parked_is_examined_once(void **state)
{
	struct core core;
	struct ticket ticket;
	uint64_t examined;

	(void)state;
	(void)open_parked(&core, &ticket);
	examined = core.master.stats.examined;
	for (unsigned i = 0; i < 100; i++) {
		(void)core_advance(&core, 7000000);
		core_run(&core);
	}
	assert_int_equal(core.master.stats.examined, examined);
	assert_true(core.master.stats.scans < 20);
	core_close(&core);
}

static void test_parked_woken_by_tell(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	slot = open_parked(&core, &ticket);
	core_give(&core, 0, slot);
	assert_int_equal(core.ntells, 1);
	core_deliver(&core);
	core_run(&core); /* in the same turn of the loop */
	assert_ptr_equal(granted(&core), &ticket);
	assert_int_equal(core_find(&core, "held"), SLOT_NONE);
	core_close(&core);
}

static void test_parked_woken_by_death(void **state)
{
	struct core core;
	struct ticket ticket;

	(void)state;
	(void)open_parked(&core, &ticket);
	core_die(&core, 0);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

static void test_parked_woken_by_unpin(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	slot = core_put(&core, "pinned", POOL, CORE_CACHE);
	master_pin(&core.master, slot);
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	assert_int_equal(core.master.stats.parked_pin, 1);
	master_unpin(&core.master, slot, core.now);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* The message was lost: the sweep finds it within its period. */
static void test_parked_woken_by_sweep(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	slot = open_parked(&core, &ticket);
	core_give(&core, 0, slot);
	core.ntells = 0;
	core_run(&core);
	assert_null(granted(&core));
	assert_true(master_next(&core.master) <= core.now + SWEEP_PERIOD_NS);
	(void)core_advance(&core, SWEEP_PERIOD_NS);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* A stream of other events does not keep the sweep away. */
static void test_sweep_is_not_starved(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	slot = open_parked(&core, &ticket);
	core_give(&core, 0, slot);
	core.ntells = 0;
	for (unsigned i = 0; i < 15 && ticket.state == TICKET_WAITING; i++) {
		struct ticket other;

		(void)core_advance(&core, SWEEP_PERIOD_NS / 10);
		wait_for(&core, &other, 16 * KIB);
		core_run(&core);
		master_room_cancel(&core.master, &other);
	}
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* Ask, then look: who lets go before the question shows is seen by the look. */
static void test_ask_then_look(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	slot = open_parked(&core, &ticket);
	/* Still wanted: the last release tells, and not before. */
	(void)core_get(&core, 1, "held");
	core_give(&core, 0, slot);
	assert_int_equal(core.ntells, 1);
	core_deliver(&core);
	core_run(&core);
	/* Held by another, it was met again within 10 ms: a timer looks, nobody is asked. */
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	assert_int_equal(core_slot(&core, slot)->want, 0);
	core_give(&core, 1, slot);
	assert_int_equal(core.ntells, 0);
	assert_int_equal(core_advance(&core, 10000000), 1);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* Hits go on, and a parked object can be removed. */
static void test_parked_is_served_and_removed(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	slot = open_parked(&core, &ticket);
	assert_int_equal(core_get(&core, 1, "held"), slot);
	assert_int_equal(core_find(&core, "held"), slot);
	assert_int_equal(core_remove(&core, "held"), 0);
	assert_int_equal(core_list(&core, slot), OBJECT_CONDEMNED);
	core_give(&core, 0, slot);
	core_give(&core, 1, slot);
	core_deliver(&core);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

static void test_parked_by_both(void **state)
{
	struct lease_token lease;
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_pool(&core);
	slot = core_put(&core, "a", POOL, CORE_CACHE);
	lease = master_lease(&core.master, slot, 60000000000ull, core.now);
	(void)core_get(&core, 0, "a");
	wait_for(&core, &ticket, 16 * KIB);
	core_run(&core);
	assert_int_equal(core.master.stats.parked_both, 1);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_run(&core);
	assert_null(granted(&core));
	assert_true(master_lease_release(&core.master, &lease, core.now));
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* A held softpin object is not copied: its bytes would be there twice and free nothing. */
static void test_held_softpin_is_parked(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_chequered(&core, CORE_SOFTPIN);
	for (uint32_t i = 1; i < 16; i += 2) {
		char key[8];

		(void)snprintf(key, sizeof(key), "%u", i);
		slot = core_get(&core, 0, key);
	}
	wait_for(&core, &ticket, 48 * KIB);
	core_run(&core);
	assert_null(granted(&core));
	assert_int_equal(core.master.stats.relocated, 0);
	assert_true(core_use(&core).parked > 0);
	for (uint32_t i = 1; i < 16; i += 2)
		core_give(&core, 0, i);
	(void)slot;
	core_deliver(&core);
	core_run(&core);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

/* ---- at rest ------------------------------------------------------------------------- */

static void test_idle_does_nothing(void **state)
{
	struct core core;
	struct ticket ticket;
	struct master_stats before;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 16 * KIB, CORE_SOFTPIN);
	core_run(&core);
	before = core.master.stats;
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	assert_false(master_room_run(&core.master, core.now, 100));
	assert_memory_equal(&before, &core.master.stats, sizeof(before));
	wait_for(&core, &ticket, 16 * KIB);
	assert_int_equal(master_next(&core.master), 0);
	core_run(&core);
	before = core.master.stats;
	assert_true(master_next(&core.master) > core.now);
	assert_false(master_room_run(&core.master, core.now, 100));
	assert_memory_equal(&before, &core.master.stats, sizeof(before));
	master_room_cancel(&core.master, &ticket);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	core_close(&core);
}

/* Objects of one size in a full pool: one is examined for each that is freed. */
static void test_examined_per_freed(void **state)
{
	struct core core;
	const struct master_stats *stats = &core.master.stats;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 4 * KIB, CORE_CACHE);
	for (uint32_t i = 0; i < 1000; i++) {
		struct put_request put;
		struct ticket ticket;
		uint32_t slot;
		char key[16];

		(void)snprintf(key, sizeof(key), "new%u", i);
		put = core_request(&core, key, 4 * KIB, CORE_CACHE);
		if (master_put_start(&core.master, &put, NULL, &slot) == PUT_NO_ROOM) {
			wait_for(&core, &ticket, 4 * KIB);
			core_run(&core);
			assert_ptr_equal(granted(&core), &ticket);
			assert_int_equal(
				master_put_start(&core.master, &put, &ticket, &slot),
				PUT_STARTED);
		}
		assert_int_equal(core_end(&core, slot), 0);
		core_run(&core);
	}
	assert_true(stats->freed >= 1000);
	if (stats->examined * 100 > stats->freed * 105)
		fail_msg("examined %llu, freed %llu", (unsigned long long)stats->examined,
			(unsigned long long)stats->freed);
	core_close(&core);
}

/* The budget bounds a turn, and the work ends for the smallest budget too. */
static void test_budget(void **state)
{
	struct core core;
	struct ticket ticket;
	uint32_t turns = 0;

	(void)state;
	open_pool(&core);
	(void)fill(&core, 4 * KIB, CORE_CACHE);
	wait_for(&core, &ticket, 128 * KIB);
	for (bool more = true; more; turns++) {
		uint64_t examined = core.master.stats.examined;

		assert_true(turns < 1000);
		more = master_room_run(&core.master, core.now, 1);
		core_assert(&core);
		assert_true(core.master.stats.examined - examined <= 1);
	}
	assert_true(turns >= 32);
	assert_ptr_equal(granted(&core), &ticket);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_ticket_is_granted_and_used),
	cmocka_unit_test(test_ticket_is_given_back),
	cmocka_unit_test(test_tickets_are_served_in_order),
	cmocka_unit_test(test_puts_do_not_overtake),
	cmocka_unit_test(test_the_coldest_leaves),
	cmocka_unit_test(test_a_new_object_is_cold),
	cmocka_unit_test(test_softpin_is_never_evicted),
	cmocka_unit_test(test_ghost_brings_back_active),
	cmocka_unit_test(test_watermarks),
	cmocka_unit_test(test_refill_stops_with_nothing_to_take),
	cmocka_unit_test(test_window_evicts_neighbours),
	cmocka_unit_test(test_fragmentation_is_cured_by_copies),
	cmocka_unit_test(test_copy_into_evicted_cache),
	cmocka_unit_test(test_window_that_cannot_be_cleared_is_passed_over),
	cmocka_unit_test(test_copy_given_up_is_tried_again),
	cmocka_unit_test(test_remove_under_a_copy),
	cmocka_unit_test(test_hold_and_take_across_a_move),
	cmocka_unit_test(test_ttl_ends_after_a_move),
	cmocka_unit_test(test_smaller_tickets_pass),
	cmocka_unit_test(test_idle_window_is_given_up),
	cmocka_unit_test(test_cancel_closes_the_window),
	cmocka_unit_test(test_window_waits_for_a_slot),
	cmocka_unit_test(test_parked_is_examined_once),
	cmocka_unit_test(test_parked_woken_by_tell),
	cmocka_unit_test(test_parked_woken_by_death),
	cmocka_unit_test(test_parked_woken_by_unpin),
	cmocka_unit_test(test_parked_woken_by_sweep),
	cmocka_unit_test(test_sweep_is_not_starved),
	cmocka_unit_test(test_ask_then_look),
	cmocka_unit_test(test_parked_is_served_and_removed),
	cmocka_unit_test(test_parked_by_both),
	cmocka_unit_test(test_held_softpin_is_parked),
	cmocka_unit_test(test_idle_does_nothing),
	cmocka_unit_test(test_examined_per_freed),
	cmocka_unit_test(test_budget),
};
UNIT_MAIN(tests)
