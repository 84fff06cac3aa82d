/*
 * Tests of node/ among others: what it gives to nodes that ask, and takes back.
 */
#include "node_fetch.h"
#include "node_peers_disk.h"

#define CHANNEL 50u

static uint64_t leases_outstanding(void)
{
	return node_master(world.node)->leases.count;
}

/* A put of a guest's, in a cluster. */
static uint64_t put_value(
	struct guest *guest, const char *key, uint64_t size, uint32_t flags)
{
	SEND(guest->lane, put, .key = text(key), .op = ++guest->ops, .flags = flags,
		.timeout_ns = WAIT, .value = value_of(size));
	settle();
	return want_done(guest->lane);
}

static uint64_t put_object(struct guest *guest, const char *key, uint64_t size)
{
	struct msg_put_started started;

	send_start(guest, key, size, PUT_SOFTPIN, WAIT);
	settle();
	WANT(guest->lane, put_started, &started);
	write_object(world.share.pool + started.off, size);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	return want_done(guest->lane);
}

static void ask_replica(unsigned peer, uint64_t generation, uint32_t limit)
{
	ASK(peer, CHANNEL, replica_ask, .key = text(KEY), .generation = generation,
		.timeout_ns = WAIT, .inline_limit = limit);
}

static struct msg_replica want_replica(unsigned peer)
{
	struct msg_replica msg;

	WANT_ANSWER(peer, CHANNEL, replica, &msg);
	return msg;
}

static void want_refusal(unsigned peer, int code)
{
	assert_int_equal(want_answer_error(peer, CHANNEL), code);
}

/* ---- REPLICA_ASK --------------------------------------------------------- */

static void test_small_value_goes_with_the_answer(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_value(&guest, KEY, SMALL, PUT_SOFTPIN);
	struct msg_replica msg;

	(void)state;
	link_opens(0);
	for (int i = 0; i < 2; i++) {
		ask_replica(0, i == 0 ? generation : 0, INLINE_LIMIT);
		msg = want_replica(0);
		assert_int_equal(msg.generation, generation);
		assert_int_equal(msg.size, SMALL);
		assert_int_equal(msg.length_ns, 0);
		assert_int_equal(msg.flags, PUT_SOFTPIN);
		assert_int_equal(msg.expires_in_ns, UINT64_MAX);
		assert_int_equal(msg.checksum, checksum_of(KEY, SMALL));
		assert_int_equal(msg.value.size, SMALL);
		assert_memory_equal(msg.value.data, value_of(SMALL).data, SMALL);
	}
	assert_int_equal(leases_outstanding(), 0);
	assert_int_equal(fake.offers, 0);
}

static void test_large_one_is_leased_and_offered(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_object(&guest, KEY, LARGE);
	uint32_t slot = master_find_key(KEY);
	struct msg_replica msg;

	(void)state;
	link_opens(0);
	ask_replica(0, generation, INLINE_LIMIT);
	msg = want_replica(0);
	assert_int_equal(msg.value.size, 0);
	assert_int_equal(msg.size, LARGE);
	assert_int_equal(msg.slot, slot);
	assert_int_equal(msg.life, node_life(world.node, slot));
	assert_in_range(msg.length_ns, world.config.lease_min, world.config.lease_max);
	assert_int_equal(fake.offers, 1);
	assert_int_equal(fake.offer.slot, slot);
	assert_int_equal(fake.offer.generation, generation);
	assert_int_equal(fake.offer.off, world.share.slots[slot].off);
	assert_int_equal(fake.offer.size, LARGE);
	assert_int_equal(leases_outstanding(), 1);
	for (int i = 0; i < 2; i++) { /* a second one ends nothing */
		ASK(0, CHANNEL, unlease, .epoch = msg.epoch, .life = msg.life,
			.slot = msg.slot, .grant = msg.grant);
		WANT_ANSWER(0, CHANNEL, done, &(struct msg_done){.generation = 0});
		assert_int_equal(leases_outstanding(), 0);
	}
	assert_int_equal(fake.withdrawn, 2);
	assert_int_equal(node_master(world.node)->stats.leases_ignored, 1);
}

static void test_limit_of_who_asks_counts(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_value(&guest, KEY, SMALL, 0);
	link_opens(0);
	ask_replica(0, 0, SMALL - 1);
	assert_true(want_replica(0).length_ns > 0);
	ask_replica(0, 0, SMALL);
	assert_int_equal(want_replica(0).length_ns, 0);
}

static void test_other_generation_is_not_here(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_value(&guest, KEY, SMALL, 0);

	(void)state;
	link_opens(0);
	ask_replica(0, generation + 1, INLINE_LIMIT);
	want_refusal(0, ERR_NOT_FOUND);
	SEND(guest.lane, remove, .key = text(KEY));
	settle();
	(void)want_done(guest.lane);
	ask_replica(0, generation, INLINE_LIMIT);
	want_refusal(0, ERR_NOT_FOUND);
	for (unsigned i = 0; i < PEERS; i++) /* nobody else is asked for it */
		assert_int_equal(count_asks(i, MSG_TYPE_REPLICA_ASK), 0);
}

static void test_no_offer_no_lease(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_object(&guest, KEY, LARGE);
	link_opens(0);
	fake.refuses_offers = true;
	ask_replica(0, 0, INLINE_LIMIT);
	want_refusal(0, ERR_TOO_MANY);
	assert_int_equal(leases_outstanding(), 0);
}

static void test_who_asks_early_waits_for_the_put(void **state)
{
	struct guest putter = guest_of();
	uint64_t generation;

	(void)state;
	directory_forgets(0);
	link_opens(1);
	SEND(putter.lane, put, .key = text(KEY), .op = ++putter.ops, .timeout_ns = WAIT,
		.value = value_of(SMALL));
	settle();
	generation = entry_of(KEY);
	assert_true(generation != 0);
	ask_replica(1, generation, INLINE_LIMIT);
	assert_null(find_answer(1, CHANNEL));
	others_have_not();
	assert_int_equal(want_done(putter.lane), generation);
	assert_int_equal(want_replica(1).generation, generation);
}

static void test_put_that_does_not_end_in_time(void **state)
{
	struct guest putter = guest_of();

	(void)state;
	directory_forgets(0);
	link_opens(1);
	SEND(putter.lane, put, .key = text(KEY), .op = ++putter.ops,
		.timeout_ns = 4 * WAIT, .value = value_of(SMALL));
	settle();
	ask_replica(1, entry_of(KEY), INLINE_LIMIT);
	turn(WAIT + 1);
	want_refusal(1, ERR_NOT_READY);
}

static void test_wrong_entry_is_left_by_who_is_in_it(void **state)
{
	(void)state;
	link_opens(0);
	keeps(0, KEY, 100, SMALL, 0);
	hands_over_to_this(0, KEY, 100);
	peer_copies(1, KEY, 100);
	ASK(0, CHANNEL, replica_ask, .key = text(KEY), .generation = 100,
		.timeout_ns = WAIT);
	want_refusal(0, ERR_NOT_FOUND);
	assert_int_equal(own_role_in(KEY), DIR_KEEPER);
	ASK(0, CHANNEL, replica_ask, .key = text(KEY), .generation = 100,
		.timeout_ns = WAIT, .may_leave = 1);
	want_refusal(0, ERR_NOT_FOUND);
	assert_int_equal(own_role_in(KEY), 0);
	assert_int_equal(entry_of(KEY), 100);
}

/* Its pool is the one that the entry is of: so the object was removed, and is not lost. */
static void test_what_a_keeper_has_no_more_is_over(void **state)
{
	(void)state;
	link_opens(0);
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	hands_over_to_this(0, KEY, 100);
	ASK(0, CHANNEL, replica_ask, .key = text(KEY), .generation = 100,
		.timeout_ns = WAIT, .may_leave = 1);
	want_refusal(0, ERR_NOT_FOUND);
	assert_int_equal(entry_of(KEY), 0);

	keeps(0, KEY, 200, SMALL, DIR_SOFTPIN);
	hands_over_to_this(0, KEY, 200);
	ASK(0, CHANNEL, have, .key = text(KEY), .generation = 200);
	want_refusal(0, ERR_NOT_FOUND);
	assert_int_equal(entry_of(KEY), 0);
}

static void test_link_that_breaks_leaves_a_lease_to_its_end(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_object(&guest, KEY, LARGE);
	link_opens(0);
	ask_replica(0, 0, INLINE_LIMIT);
	link_closes(0);
	assert_int_equal(leases_outstanding(), 1);
	assert_int_equal(node_master(world.node)->pinned, 0);
}

#if FAULT_BUILD

static void test_answer_that_is_not_sent_ends_its_lease(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_object(&guest, KEY, LARGE);
	link_opens(0);
	assert_int_equal(fault_arm(&world.faults, "NodeBeforeReply", FAULT_RETURN_ERROR,
				 -77, 1, 1),
		0);
	ask_replica(0, 0, INLINE_LIMIT);
	want_refusal(0, -77);
	assert_int_equal(leases_outstanding(), 0);
	assert_int_equal(fake.withdrawn, 1);
}

#endif

/* ---- what is on disk ----------------------------------------------------- */

/* Objects until the first of them has left the pool. */
static uint64_t put_on_disk_among_peers(struct guest *guest)
{
	uint64_t generation = put_object(guest, KEY, MIB);
	char key[16];

	for (unsigned i = 0; master_find_key(KEY) != SLOT_NONE; i++) {
		assert_in_range(i, 0, 10);
		(void)snprintf(key, sizeof(key), "c%u", i);
		send_start(guest, key, MIB, PUT_SOFTPIN, WAIT);
		turn(SECOND);
		(void)end_started(guest);
	}
	return generation;
}

static void test_what_is_on_disk_is_read_back_and_leased(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_on_disk_among_peers(&guest);
	struct msg_replica msg;
	struct msg_had had;

	(void)state;
	link_opens(0);
	ASK(0, CHANNEL, have, .key = text(KEY), .generation = generation);
	WANT_ANSWER(0, CHANNEL, had, &had);
	assert_int_equal(had.size, MIB);
	assert_int_equal(had.flags, PUT_SOFTPIN);
	ask_replica(0, generation + 1, INLINE_LIMIT);
	want_refusal(0, ERR_NOT_FOUND);
	ask_replica(0, generation, INLINE_LIMIT);
	turn(SECOND);
	msg = want_replica(0);
	assert_int_equal(msg.generation, generation);
	assert_int_equal(msg.checksum, checksum_of(KEY, MIB)); /* as it was written out */
	assert_int_equal(leases_outstanding(), 1);
	assert_int_equal(node_master(world.node)->pinned, 0);
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(count_asks(i, MSG_TYPE_REPLICA_ASK), 0);
}

static void test_link_that_breaks_while_the_disk_reads(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_on_disk_among_peers(&guest);
	link_opens(0);
	ask_replica(0, 0, INLINE_LIMIT);
	assert_null(find_answer(0, CHANNEL));
	link_closes(0);
	turn(SECOND);
	assert_int_equal(leases_outstanding(), 0);
	assert_int_equal(node_master(world.node)->pinned, 0);
}

/* ---- HAVE ---------------------------------------------------------------- */

static void ask_have(unsigned peer, uint64_t generation)
{
	ASK(peer, CHANNEL, have, .key = text(KEY), .generation = generation);
}

static void test_have(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation;
	struct msg_had had;

	(void)state;
	link_opens(0);
	ask_have(0, 0);
	want_refusal(0, ERR_NOT_FOUND);
	generation = put_value(&guest, KEY, SMALL, PUT_SOFTPIN);
	ask_have(0, 0);
	WANT_ANSWER(0, CHANNEL, had, &had);
	assert_int_equal(had.generation, generation);
	assert_int_equal(had.size, SMALL);
	assert_int_equal(had.flags, PUT_SOFTPIN);
	assert_int_equal(had.secondary, 0);
	ask_have(0, generation);
	WANT_ANSWER(0, CHANNEL, had, &had);
	ask_have(0, generation + 1);
	want_refusal(0, ERR_NOT_FOUND);
}

static void test_have_of_a_copy(void **state)
{
	struct guest guest = guest_of();
	struct msg_had had;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
	link_opens(0);
	ask_have(0, 100);
	WANT_ANSWER(0, CHANNEL, had, &had);
	assert_int_equal(had.secondary, 1);
	/* And it is given as any other. */
	ask_replica(0, 100, INLINE_LIMIT);
	assert_int_equal(want_replica(0).size, SMALL);
}

static void test_have_of_what_is_being_published(void **state)
{
	struct guest putter = guest_of();
	struct msg_had had;

	(void)state;
	directory_forgets(0);
	link_opens(1);
	SEND(putter.lane, put, .key = text(KEY), .op = ++putter.ops, .timeout_ns = WAIT,
		.value = value_of(SMALL));
	settle();
	ask_have(1, 0);
	want_refusal(1, ERR_NOT_FOUND);
	ask_have(1, entry_of(KEY));
	WANT_ANSWER(1, CHANNEL, had, &had);
	assert_int_equal(had.generation, entry_of(KEY));
	others_have_not();
	(void)want_done(putter.lane);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_small_value_goes_with_the_answer),
	AMONG_PEERS(test_large_one_is_leased_and_offered),
	AMONG_PEERS(test_limit_of_who_asks_counts),
	AMONG_PEERS(test_other_generation_is_not_here),
	AMONG_PEERS(test_no_offer_no_lease),
	AMONG_PEERS(test_who_asks_early_waits_for_the_put),
	AMONG_PEERS(test_put_that_does_not_end_in_time),
	AMONG_PEERS(test_wrong_entry_is_left_by_who_is_in_it),
	AMONG_PEERS(test_what_a_keeper_has_no_more_is_over),
	AMONG_PEERS(test_link_that_breaks_leaves_a_lease_to_its_end),
#if FAULT_BUILD
	AMONG_PEERS(test_answer_that_is_not_sent_ends_its_lease),
#endif
	cmocka_unit_test_setup_teardown(test_what_is_on_disk_is_read_back_and_leased,
		setup_disk_among_peers, teardown_disk_among_peers),
	cmocka_unit_test_setup_teardown(test_link_that_breaks_while_the_disk_reads,
		setup_disk_among_peers, teardown_disk_among_peers),
	AMONG_PEERS(test_have),
	AMONG_PEERS(test_have_of_a_copy),
	AMONG_PEERS(test_have_of_what_is_being_published),
};

UNIT_MAIN(tests)
