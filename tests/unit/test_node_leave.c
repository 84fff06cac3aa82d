/*
 * Tests of node/leave.c: a node ends in order, and peers that do.
 */
#include "node_fetch.h"

#define GENERATION (100ull << GENERATION_SHIFT)
#define CHANNEL    50u

static void leave_now(void)
{
	node_leave(world.node);
	settle();
}

static void want_told(void)
{
	for (unsigned peer = 0; peer < PEERS; peer++)
		assert_int_equal(count_asks(peer, MSG_TYPE_LEAVING), 1);
}

static void want_not_told(void)
{
	for (unsigned peer = 0; peer < PEERS; peer++)
		assert_int_equal(count_asks(peer, MSG_TYPE_LEAVING), 0);
	assert_false(node_has_left(world.node));
}

static void want_left(void)
{
	want_told();
	for (unsigned peer = 0; peer < PEERS; peer++)
		REPLY(want_ask(peer, MSG_TYPE_LEAVING), done, .generation = 0);
	settle();
	assert_true(node_has_left(world.node));
}

static bool is_member(void)
{
	struct dir_member me = {.node = peer_id(0), .endpoint = "peer0:1"};
	struct dir_member others[DIR_HOLDERS];
	bool found = false;

	(void)peer_calls(0, (struct dir_call){.op = DIR_OP_RENEW,
				    .bury_ns = 3600 * SECOND,
				    .member = &me,
				    .members = others});
	for (uint32_t i = 0; i < fake.peers[0].answered.member_count; i++)
		found |= others[i].node == THIS_ID;
	return found;
}

static void put_value(struct guest *guest, const char *key)
{
	send_put(guest, key, "value", WAIT);
	settle();
	(void)want_done(guest->lane);
}

static uint64_t put_large(struct guest *guest)
{
	struct msg_put_started started = start(guest, KEY, LARGE, PUT_SOFTPIN);

	write_object(world.share.pool + started.off, LARGE);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	return want_done(guest->lane);
}

/* Peer 0 reads what is here. */
static struct msg_replica reads(uint64_t generation)
{
	struct msg_replica msg;

	if (fake.peers[0].link == 0)
		link_opens(0);
	ASK(0, CHANNEL, replica_ask, .key = text(KEY), .generation = generation,
		.timeout_ns = WAIT);
	WANT_ANSWER(0, CHANNEL, replica, &msg);
	return msg;
}

static void test_leaves_at_once(void **state)
{
	struct guest guest = guest_of();
	struct msg_found found;

	(void)state;
	put_value(&guest, KEY);
	turn(SECOND);
	assert_true(is_member());
	assert_false(node_has_left(world.node));
	leave_now();
	assert_false(is_member());
	want_told();
	send_put(&guest, "more", "value", WAIT);
	settle();
	want_error(guest.lane, ERR_UNAVAILABLE, "ended");
	get(&guest, KEY);
	WANT(guest.lane, found, &found);
	want_left();
	/* Nothing more is said: a beat would be a sign of life. */
	turn(5 * SECOND);
	assert_false(is_member());
	for (unsigned peer = 0; peer < PEERS; peer++)
		assert_null(find_ask(peer, MSG_TYPE_BEAT));
	assert_int_equal(entry_of(KEY) != 0, true);
}

static void test_transfers_end_first(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_large(&guest);
	struct msg_replica lease = reads(generation);

	(void)state;
	leave_now();
	want_not_told();
	ASK(0, CHANNEL + 1, replica_ask, .key = text(KEY), .generation = generation,
		.timeout_ns = WAIT);
	assert_int_equal(want_answer_error(0, CHANNEL + 1), ERR_UNAVAILABLE);
	turn(LEAVE_WAIT_NS / 2);
	want_not_told();
	ASK(0, CHANNEL + 2, unlease, .epoch = lease.epoch, .life = lease.life,
		.slot = lease.slot, .grant = lease.grant);
	want_left();
}

static void test_waits_no_longer_than_it_may(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)reads(put_large(&guest));
	leave_now();
	turn(LEAVE_WAIT_NS);
	want_told();
	turn(LEAVE_TELL_NS); /* no peer answers */
	assert_true(node_has_left(world.node));
}

static void test_directory_is_away(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_value(&guest, KEY);
	fake.dir_waits = true;
	leave_now();
	turn(LEAVE_WAIT_NS + LEAVE_TELL_NS);
	want_left();
	fake.dir_waits = false;
	settle(); /* the answer is nobody's */
}

static void test_removal_is_told_first(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_large(&guest);

	(void)state;
	peer_calls(0, (struct dir_call){.op = DIR_OP_JOIN, .id = id_of(KEY)});
	peer_copies(0, KEY, generation);
	SEND(guest.lane, remove, .key = text(KEY));
	settle();
	(void)want_ask(0, MSG_TYPE_DROP);
	leave_now();
	want_not_told();
	REPLY(want_ask(0, MSG_TYPE_DROP), done, .generation = generation);
	settle();
	(void)want_done(guest.lane);
	turn(LEAVE_WAIT_NS / 4); /* an errand waits for others that may come */
	want_left();
}

static void test_hand_over_ends_first(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation = put_large(&guest);

	(void)state;
	fake.peers[0].free_bytes = 2 * POOL;
	turn(SECOND);
	SEND(guest.lane, drain, .begin = true);
	settle();
	(void)want_done(guest.lane);
	(void)want_ask(0, MSG_TYPE_KEEP);
	leave_now();
	want_not_told();
	/* The bytes are still given to the new keeper. */
	(void)reads(generation);
	turn(LEAVE_WAIT_NS / 4);
	want_not_told();
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_HAND_OVER,
					       .id = id_of(KEY),
					       .generation = generation,
					       .from = THIS_ID}),
		DIR_DONE);
	REPLY(want_ask(0, MSG_TYPE_KEEP), kept, .generation = generation);
	turn(LEAVE_WAIT_NS); /* of the lease */
	want_left();
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void test_nothing_new_is_taken_over(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)reads(put_large(&guest));
	leave_now();
	ASK(0, CHANNEL, keep, .key = text("other"), .generation = GENERATION,
		.size = SMALL, .timeout_ns = WAIT);
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_NO_SPACE);
}

/* ---- peers --------------------------------------------------------------- */

static void peer_leaves_in_order(unsigned peer)
{
	struct msg_done done;

	if (fake.peers[peer].link == 0)
		link_opens(peer);
	fake.peers[peer].reachable = false;
	ASK(peer, CHANNEL, leaving, .reason = 0);
	WANT_ANSWER(peer, CHANNEL, done, &done);
	link_closes(peer);
}

static void test_peer_that_leaves_is_gone_at_once(void **state)
{
	struct guest guest = guest_of();
	uint64_t before;

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	(void)want_ask(0, MSG_TYPE_REPLICA_ASK);
	before = world.now_ns;
	peer_leaves_in_order(0);
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
	get(&guest, KEY);
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
	/* What nobody has is so, without that node. */
	get(&guest, "other");
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(world.now_ns, before);
	assert_false(peer_is_live(world.node, &world.node->cluster.peers[0]));
	peer_comes(0);
	get(&guest, KEY);
	gives(0, GENERATION, SMALL);
	want_object(&guest, SMALL);
}

static void test_what_a_peer_that_left_keeps_is_not_put_anew(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	peer_leaves_in_order(0);
	send_put(&guest, KEY, "value", WAIT);
	settle();
	for (unsigned peer = 1; peer < PEERS; peer++) {
		if (find_ask(peer, MSG_TYPE_HAVE) != NULL)
			reply_error(want_ask(peer, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	}
	settle();
	want_error(guest.lane, ERR_EXISTS, KEY);
}

static void test_peer_that_left_is_told_what_it_missed(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	peer_leaves_in_order(0);
	SEND(guest.lane, remove, .key = text(KEY));
	settle();
	(void)want_done(guest.lane);
	assert_null(find_ask(0, MSG_TYPE_DROP));
	peer_comes(0);
	(void)want_ask(0, MSG_TYPE_DROP);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_leaves_at_once),
	AMONG_PEERS(test_transfers_end_first),
	AMONG_PEERS(test_waits_no_longer_than_it_may),
	AMONG_PEERS(test_directory_is_away),
	AMONG_PEERS(test_removal_is_told_first),
	AMONG_PEERS(test_hand_over_ends_first),
	AMONG_PEERS(test_nothing_new_is_taken_over),
	AMONG_PEERS(test_peer_that_leaves_is_gone_at_once),
	AMONG_PEERS(test_what_a_peer_that_left_keeps_is_not_put_anew),
	AMONG_PEERS(test_peer_that_left_is_told_what_it_missed),
};

UNIT_MAIN(tests)
