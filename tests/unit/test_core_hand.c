/*
 * The keeper's role: what a node without a disk gives to another, in what order and how much;
 * and what it means to have become a keeper.
 */
#include "copy_fixture.h"

bool relocate_start(struct master *master, uint32_t slot); /* core/master_priv.h */

#define POOL   (64 * KIB)
#define SECOND 1000000000ull
#define PIECE  (4 * KIB - 100) /* with its key a page is not full, nor two needed */

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
	core->master.config.low_permille = 0; /* only tickets want room */
	core->master.config.clustered = true;
}

/* All of the pool is kept. */
static unsigned fill_as(struct core *core, char name)
{
	char key[8];
	unsigned count = 0;

	for (; core_use(core).largest_hole >= 4 * KIB; count++) {
		(void)snprintf(key, sizeof(key), "%c%u", name, count);
		(void)core_put(core, key, PIECE, CORE_SOFTPIN);
	}
	return count;
}

static unsigned fill(struct core *core)
{
	return fill_as(core, 'k');
}

static void wait_for(struct core *core, struct ticket *ticket, uint64_t size)
{
	ticket_init(ticket);
	master_room_wait(&core->master, ticket, size, 2);
	core_run(core);
}

/* Full of what is kept, peers take any, and a put waits; how many there are. */
static unsigned open_pressed(struct core *core, struct ticket *ticket)
{
	unsigned count;

	open_small(core);
	count = fill(core);
	master_hand_allow(&core->master, POOL, 7);
	wait_for(core, ticket, PIECE);
	return count;
}

static void close_pressed(struct core *core, struct ticket *ticket)
{
	master_room_cancel(&core->master, ticket);
	core_close(core);
}

/* The next that is to go, or SLOT_NONE. */
static uint32_t next(struct core *core, uint32_t *ret_number)
{
	uint32_t slot;
	bool any = master_hand_next(&core->master, core->now, ret_number, &slot);

	core_assert(core);
	return any ? slot : SLOT_NONE;
}

static void done(struct core *core, uint32_t number, uint32_t slot, bool handed)
{
	struct held held;

	master_held_at(&core->master, slot, &held);
	master_hand_done(&core->master, number, &held, handed, core->now);
	core_run(core);
}

static void test_goes_only_if_room_is_wanted_and_to_be_had(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number;

	(void)state;
	open_small(&core);
	(void)fill(&core);
	assert_int_equal(next(&core, &number), SLOT_NONE);
	master_hand_allow(&core.master, POOL, 7);
	assert_int_equal(next(&core, &number), SLOT_NONE);
	wait_for(&core, &ticket, PIECE);
	master_hand_allow(&core.master, PIECE, 7); /* less than a run */
	assert_int_equal(next(&core, &number), SLOT_NONE);
	master_hand_allow(&core.master, 0, 7);
	assert_int_equal(next(&core, &number), SLOT_NONE);
	master_hand_allow(&core.master, POOL, 7);
	assert_int_not_equal(next(&core, &number), SLOT_NONE);
	/* As much as is wanted is under way. */
	assert_int_equal(next(&core, &number), SLOT_NONE);
	master_room_cancel(&core.master, &ticket);
	core_close(&core);
}

static void test_read_ones_go_first(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number;

	(void)state;
	(void)open_pressed(&core, &ticket);
	core_read(&core, 1, "k3");
	assert_int_equal(next(&core, &number), core_find(&core, "k3"));
	close_pressed(&core, &ticket);
}

static void test_unread_go_from_the_new_end(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number;
	char key[8];

	(void)state;
	/* But for the newest sixteenth of the pool, which is one. */
	(void)snprintf(key, sizeof(key), "k%u", open_pressed(&core, &ticket) - 2);
	assert_int_equal(next(&core, &number), core_find(&core, key));
	close_pressed(&core, &ticket);
}

/* Of small ones the sixteenth would be too many to be passed each time. */
static void test_few_of_the_newest_stay(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number;
	char key[8];

	(void)state;
	core_open(&core, 16 * MIB, 2048, 2048);
	core.master.config.low_permille = 0;
	(void)core_put(&core, "large", 15 * MIB, CORE_SOFTPIN);
	for (unsigned i = 0; i < 1500; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		(void)core_put(&core, key, 500, CORE_SOFTPIN);
	}
	master_hand_allow(&core.master, POOL, 7);
	wait_for(&core, &ticket, MIB);
	(void)snprintf(key, sizeof(key), "k%u", 1500 - 1 - 1024);
	assert_int_equal(next(&core, &number), core_find(&core, key));
	close_pressed(&core, &ticket);
}

static void test_held_one_stays(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number, slot;
	char key[8];

	(void)state;
	(void)snprintf(key, sizeof(key), "k%u", open_pressed(&core, &ticket) - 2);
	slot = core_get(&core, 1, key);
	assert_int_not_equal(next(&core, &number), slot);
	assert_int_equal(core_list(&core, slot), OBJECT_PARKED);
	core_give(&core, 1, slot);
	close_pressed(&core, &ticket);
}

/* Room for the first that is given is kept for it, the next serves the put. */
static void test_handed_over_makes_room(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number, slot;
	unsigned handed = 0;

	(void)state;
	(void)open_pressed(&core, &ticket);
	while (ticket.state == TICKET_WAITING && handed < 4) {
		slot = next(&core, &number);
		assert_int_not_equal(slot, SLOT_NONE);
		done(&core, number, slot, true);
		handed++;
	}
	assert_in_range(handed, 1, 2);
	assert_int_equal(core.master.cluster.handed, handed);
	assert_int_equal(core.master.hand.bytes, 0);
	assert_int_equal(core.master.hand.largest, 4 * KIB);
	(void)master_room_granted(&core.master);
	master_room_cancel(&core.master, &ticket);
	core_run(&core);
	assert_true(core_use(&core).turning >= 4 * KIB);
	core_close(&core);
}

/* But not for ever. */
static void test_room_for_handed_over_is_given_back(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number, slot;

	(void)state;
	(void)open_pressed(&core, &ticket);
	while (ticket.state == TICKET_WAITING) {
		slot = next(&core, &number);
		done(&core, number, slot, true);
	}
	(void)master_room_granted(&core.master);
	master_room_cancel(&core.master, &ticket);
	master_hand_allow(&core.master, 0, 7);
	(void)fill_as(&core, 'm');
	wait_for(&core, &ticket, PIECE);
	core.now += 299 * SECOND;
	core_run(&core);
	assert_int_equal(ticket.state, TICKET_WAITING);
	assert_true(core_use(&core).turning >= 4 * KIB);
	core.now += 301 * SECOND;
	for (unsigned i = 0; i < 2; i++, core.now += 2 * SECOND)
		core_run(&core);
	core_run(&core);
	assert_int_equal(ticket.state, TICKET_GRANTED);
	assert_int_equal(core_use(&core).turning, 0);
	(void)master_room_granted(&core.master);
	close_pressed(&core, &ticket);
}

static void test_not_handed_over_stays_as_it_was(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number, slot;

	(void)state;
	(void)open_pressed(&core, &ticket);
	slot = next(&core, &number);
	done(&core, number, slot, false);
	assert_false(is_secondary(&core, slot));
	assert_int_equal(core_list(&core, slot), OBJECT_DIRTY);
	assert_int_equal(core.master.hand.bytes, 0);
	assert_int_equal(core.master.hand.largest, 0);
	close_pressed(&core, &ticket);
}

/* Whom it is offered to keeps it already. */
static void refuse(struct core *core, uint32_t number, uint32_t slot)
{
	struct held held;

	master_held_at(&core->master, slot, &held);
	master_hand_refused(&core->master, &held, core->now);
	done(core, number, slot, false);
}

/* One that was read, a few unread ones, and the newest: each once, before any comes again. */
static void test_refused_ones_let_others_pass(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number, slot;
	unsigned count;
	uint64_t met = 0;

	(void)state;
	count = open_pressed(&core, &ticket);
	core_read(&core, 1, "k3");
	for (unsigned i = 0; i < count; i++) {
		slot = next(&core, &number);
		assert_int_not_equal(slot, SLOT_NONE);
		assert_false(met >> slot & 1);
		met |= 1ull << slot;
		refuse(&core, number, slot);
	}
	assert_int_equal(next(&core, &number), SLOT_NONE);
	assert_true(core.master.hand.barren); /* the disk comes first, if there is one */
	core.now += SECOND;
	assert_int_equal(next(&core, &number), core_find(&core, "k3"));
	close_pressed(&core, &ticket);
}

/* What is urgent is looked for at that end. */
static void test_refused_one_is_saved_after_what_is_urgent(void **state)
{
	struct drive drive;
	struct held held;
	uint32_t slots[3];

	(void)state;
	drive_open(&drive, DRIVE_POOL, DRIVE_DATA, DRIVE_ENTRIES);
	for (unsigned i = 0; i < 3; i++)
		slots[i] = drive_put(
			&drive, (const char *[]){"a", "b", "c"}[i], PIECE, CORE_SOFTPIN);
	master_save_first(&drive.core.master, slots[1]);
	master_held_at(&drive.core.master, slots[2], &held);
	master_hand_refused(&drive.core.master, &held, drive.core.now);
	core_assert(&drive.core);
	assert_int_equal(drive.core.master.dirty.tail, slots[1]);
	assert_int_equal(drive.core.master.objects[slots[1]].prev, slots[2]);
	assert_int_equal(drive.core.master.dirty.head, slots[0]);
	drive_close(&drive);
}

/* On its way to another node it is moved, to the place of another. */
static void test_moved_one_is_not_chosen_again(void **state)
{
	struct ticket tickets[3];
	struct core core;
	uint32_t number, slot;

	(void)state;
	(void)open_pressed(&core, &tickets[0]);
	core_read(&core, 1, "k3");
	slot = next(&core, &number);
	assert_int_equal(slot, core_find(&core, "k3"));
	assert_int_equal(core_remove(&core, "k5"), 0);
	assert_true(relocate_start(&core.master, slot));
	core_run(&core);
	assert_int_not_equal(core_find(&core, "k3"), slot);
	core_read(&core, 1, "k3");
	wait_for(&core, &tickets[1], PIECE);
	wait_for(&core, &tickets[2], PIECE);
	slot = next(&core, &number);
	assert_int_not_equal(slot, SLOT_NONE);
	assert_int_not_equal(slot, core_find(&core, "k3"));
	for (unsigned i = 0; i < 2; i++)
		master_room_cancel(&core.master, &tickets[i]);
	close_pressed(&core, &tickets[2]);
}

/* ---- to have become one -------------------------------------------------- */

static void test_copy_is_kept(void **state)
{
	struct recovery recovery;
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = copy_of(&core, "a", PIECE);
	assert_int_equal(core_list(&core, slot), OBJECT_INACTIVE);
	for (int i = 0; i < 2; i++) { /* twice does no harm */
		assert_int_equal(master_keep(&core.master, slot), 0);
		core_assert(&core);
		assert_int_equal(core_list(&core, slot), OBJECT_SPENT);
		assert_false(is_secondary(&core, slot));
		assert_int_equal(core.master.cluster.kept, 1);
	}
	core_restart(&core, &recovery);
	slot = core_find(&core, "a");
	assert_int_equal(core_list(&core, slot), OBJECT_DIRTY);
	assert_false(is_secondary(&core, slot));
	master_yield(&core.master, slot, core.now);
	assert_true(is_secondary(&core, slot));
	core_close(&core);
}

/* Its clock is years ahead: this node's would follow it. */
static void test_unbelievable_generation_is_not_kept(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "mine", 100, CORE_SOFTPIN);
	slot = copy_start(&core, "a", PIECE, COPY_GENERATION(1ull << 50));
	assert_int_equal(copy_end(&core, slot, 0), 0);
	assert_int_equal(master_keep(&core.master, slot), ERR_NOT_PERMITTED);
	assert_true(is_secondary(&core, slot));
	core_close(&core);
}

/* All nodes there are keep it already. */
static void test_what_every_node_keeps_stays(void **state)
{
	struct ticket ticket;
	struct core core;
	uint32_t number;

	(void)state;
	open_small(&core);
	(void)fill(&core);
	for (uint32_t slot = 0; slot < core.master.slots_used; slot++)
		core.share.slots[slot].wanted = 3;
	wait_for(&core, &ticket, PIECE);
	master_hand_allow(&core.master, POOL, 2);
	assert_int_equal(next(&core, &number), SLOT_NONE);
	master_hand_allow(&core.master, POOL, 3);
	assert_int_not_equal(next(&core, &number), SLOT_NONE);
	master_room_cancel(&core.master, &ticket);
	core_close(&core);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_goes_only_if_room_is_wanted_and_to_be_had),
	cmocka_unit_test(test_what_every_node_keeps_stays),
	cmocka_unit_test(test_read_ones_go_first),
	cmocka_unit_test(test_unread_go_from_the_new_end),
	cmocka_unit_test(test_few_of_the_newest_stay),
	cmocka_unit_test(test_held_one_stays),
	cmocka_unit_test(test_handed_over_makes_room),
	cmocka_unit_test(test_room_for_handed_over_is_given_back),
	cmocka_unit_test(test_not_handed_over_stays_as_it_was),
	cmocka_unit_test(test_refused_ones_let_others_pass),
	cmocka_unit_test(test_refused_one_is_saved_after_what_is_urgent),
	cmocka_unit_test(test_moved_one_is_not_chosen_again),
	cmocka_unit_test(test_copy_is_kept),
	cmocka_unit_test(test_unbelievable_generation_is_not_kept),
};

UNIT_MAIN(tests)
