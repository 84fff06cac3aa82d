/*
 * Tests of node/ among others: a node is emptied of what others are to keep beside it, and of what
 * is to be on disk. (What has one keeper: test_node_keep.c.)
 */
#include "node_fetch.h"
#include "node_peers_disk.h"

#define CHANNEL 50u

static const struct cluster *cluster(void)
{
	return &world.node->cluster;
}

static void drain(struct guest *guest)
{
	SEND(guest->lane, drain, .begin = true);
	settle();
	(void)want_done(guest->lane);
}

static void want_state(const char *state)
{
	assert_string_equal(drain_state_text(world.node), state);
}

static void put_of(struct guest *guest, uint16_t replicas, uint32_t flags)
{
	SEND(guest->lane, put, .key = text(KEY), .op = ++guest->ops, .replicas = replicas,
		.flags = flags, .timeout_ns = WAIT, .value = text("value"));
	settle();
}

static struct msg_keep want_keep(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_KEEP);
	struct msg_keep msg;

	assert_int_equal(msg_keep_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.generation, entry_of(KEY));
	return msg;
}

static void peer_has_the_role(unsigned peer)
{
	struct msg_keep msg = want_keep(peer);

	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(KEY),
						  .generation = msg.generation,
						  .from = msg.from,
						  .fewer = msg.fewer != 0}),
		DIR_DONE);
}

static void peer_says_so(unsigned peer)
{
	REPLY(want_ask(peer, MSG_TYPE_KEEP), kept,
		.generation = want_keep(peer).generation);
	settle();
}

static void peer_takes(unsigned peer)
{
	peer_has_the_role(peer);
	peer_says_so(peer);
}

static void refuses(unsigned peer, int err)
{
	reply_error(want_ask(peer, MSG_TYPE_KEEP), err);
	settle();
}

/* Kept here and by the peer. */
static struct guest put_beside(unsigned peer)
{
	struct guest guest = guest_of();

	credit(peer, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	peer_takes(peer);
	(void)want_done(guest.lane);
	credit(peer, 0);
	return guest;
}

/* ---- replicas ------------------------------------------------------------ */

static void test_goes_to_who_does_not_keep_it(void **state)
{
	struct guest guest = put_beside(1);

	(void)state;
	credit(1, MIB);
	drain(&guest);
	assert_int_equal(want_keep(1).fewer, 0);
	credit(2, MIB);
	for (unsigned asked = 0; find_ask(2, MSG_TYPE_KEEP) == NULL; asked++) {
		assert_in_range(asked, 0, 100);
		want_state("moving");
		refuses(1, ERR_EXISTS);
		turn(SECOND);
	}
	peer_takes(2);
	turn(SECOND);
	want_state("empty");
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(2)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

/* The one other node keeps it beside this one, and is being given its role. */
static struct guest gives_way_to(unsigned peer)
{
	struct guest guest = put_beside(peer);

	for (unsigned other = 0; other < PEERS; other++) {
		if (other != peer)
			peer_goes(other);
	}
	turn(SECOND);
	drain(&guest);
	return guest;
}

static void want_copy(unsigned keeper)
{
	turn(SECOND);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(keeper)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

/* The one other node has it, and needs no room for it. */
static void test_who_keeps_it_will_do_where_nobody_else_is(void **state)
{
	(void)state;
	(void)gives_way_to(1);
	assert_int_equal(want_keep(1).fewer, 1);
	peer_takes(1);
	want_copy(1);
	want_state("empty");
}

/* The directory hears that this node keeps it when it does not any more, and this node does not
 * know that yet. */
static void test_announced_before_it_is_told(void **state)
{
	(void)state;
	(void)gives_way_to(1);
	peer_has_the_role(1);
	dir_mem_fail_over(fake.mem, 0, 0);
	settle();
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	peer_says_so(1);
	want_copy(1);
}

/* The same, and that it was heard is known last. */
static void test_told_before_the_announcement_is_answered(void **state)
{
	(void)state;
	(void)gives_way_to(1);
	peer_has_the_role(1);
	hold_directory();
	dir_mem_fail_over(fake.mem, 0, 0);
	dir_mem_tell(&fake.port, 0);
	settle();
	directory_decides();
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	peer_says_so(1);
	let_directory_go();
	want_copy(1);
}

static void test_too_few_are_there_and_none_has_room(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 8, PUT_SOFTPIN); /* which nobody else has room for */
	(void)want_done(guest.lane);
	drain(&guest);
	for (unsigned asked = 0; asked < 10; asked++) {
		unsigned peer = 0;

		while (peer < PEERS && find_ask(peer, MSG_TYPE_KEEP) == NULL)
			peer++;
		assert_in_range(peer, 0, PEERS - 1);
		refuses(peer, ERR_NO_SPACE);
		turn(SECOND);
	}
	want_state("moving");
	assert_true(is_kept(KEY));
}

/* The other side of it. */
static void test_gives_way_to_this_node(void **state)
{
	struct guest guest = put_beside(0);
	struct msg_kept said;

	(void)state;
	drain(&guest); /* so that it has no room for anything */
	link_opens(0);
	ASK(0, CHANNEL, keep, .key = text(KEY), .generation = entry_of(KEY), .size = 5,
		.from = peer_id(0), .fewer = 1, .timeout_ns = WAIT);
	WANT_ANSWER(0, CHANNEL, kept, &said);
	assert_int_equal(said.generation, entry_of(KEY));
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_SECONDARY);
}

/* While the directory is asked whether this node has the role of peer 0, it gives its own away. */
static void test_given_away_while_it_is_taken_over(void **state)
{
	struct guest guest = put_beside(0);
	struct msg_kept said;

	(void)state;
	link_opens(0);
	hold_directory();
	ASK(0, CHANNEL, keep, .key = text(KEY), .generation = entry_of(KEY), .size = 5,
		.from = peer_id(0), .fewer = 1, .timeout_ns = WAIT);
	drain(&guest);
	credit(1, MIB);
	peer_takes(1);
	assert_false(is_kept(KEY));
	let_directory_go();
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	WANT_ANSWER(0, CHANNEL, kept, &said);
	assert_true(is_kept(KEY));
}

/* ---- durable ------------------------------------------------------------- */

static struct guest put_durable(void)
{
	struct guest guest = guest_of();

	put_of(&guest, 1, PUT_SOFTPIN | PUT_DURABLE);
	turn(SECOND);
	(void)want_done(guest.lane);
	return guest;
}

static void test_durable_goes_to_a_disk(void **state)
{
	struct guest guest = put_durable();

	(void)state;
	drain(&guest);
	for (unsigned i = 0; i < PEERS; i++) {
		credit(i, MIB);
		assert_int_equal(want_keep(i).durable, 1);
		refuses(i, ERR_NOT_SUPPORTED);
		turn(SECOND);
	}
	/* None of them is asked again. */
	turn(10 * SECOND);
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(count_asks(i, MSG_TYPE_KEEP), 0);
	want_state("moving");
	assert_int_equal(cluster()->drain.needed_disk, 1);
	/* It was started anew, and has one now. */
	peer_goes(1);
	peer_comes(1);
	turn(SECOND);
	peer_takes(1);
	turn(SECOND);
	want_state("empty");
	assert_int_equal(cluster()->drain.needed_disk, 0);
}

/* Its host was off: it is on disk alone. */
static struct guest put_durable_and_lose_the_pool(void)
{
	struct guest guest = put_durable();

	node_loses_its_pool(&guest);
	assert_null(slot_of(KEY));
	return guest_of();
}

static void test_durable_that_is_on_disk_alone(void **state)
{
	struct guest guest = put_durable_and_lose_the_pool();

	(void)state;
	credit(1, MIB);
	drain(&guest);
	turn(SECOND);
	assert_int_equal(want_keep(1).durable, 1);
	peer_takes(1);
	turn(SECOND);
	want_state("empty");
}

/* And who reads it elsewhere may come to keep it. */
static void test_durable_that_was_read_back(void **state)
{
	struct msg_replica replica;

	(void)state;
	(void)put_durable_and_lose_the_pool();
	link_opens(0);
	ASK(0, CHANNEL, replica_ask, .key = text(KEY), .timeout_ns = WAIT);
	turn(SECOND);
	WANT_ANSWER(0, CHANNEL, replica, &replica);
	assert_int_equal(replica.flags, PUT_SOFTPIN | PUT_DURABLE);
	assert_int_equal(slot_of(KEY)->flags & SLOT_DURABLE, SLOT_DURABLE);
}

/* ---- puts ---------------------------------------------------------------- */

/* It came before the order, and nothing here says that it is there until it has room. */
static void test_put_that_waits_for_room_is_refused(void **state)
{
	struct guest guest = guest_of(), other = guest_of();
	struct msg_put_started started = start(&guest, "held", 3 * MIB, 0);
	struct msg_found found;

	(void)state;
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	(void)want_done(guest.lane);
	get(&guest, "held");
	WANT(guest.lane, found, &found);
	send_start(&other, KEY, 3 * MIB, PUT_SOFTPIN, WAIT);
	settle();
	assert_int_equal(world.node->stats.waits_room, 1);
	drain(&guest);
	turn(SECOND);
	want_state("empty");
	want_nothing(other.lane);
	SEND(guest.lane, unpin, .slot = found.slot, .life = found.life);
	settle();
	want_error(other.lane, ERR_UNAVAILABLE, "is being drained");
	assert_null(slot_of(KEY));
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_goes_to_who_does_not_keep_it),
	AMONG_PEERS(test_who_keeps_it_will_do_where_nobody_else_is),
	AMONG_PEERS(test_announced_before_it_is_told),
	AMONG_PEERS(test_told_before_the_announcement_is_answered),
	AMONG_PEERS(test_too_few_are_there_and_none_has_room),
	AMONG_PEERS(test_gives_way_to_this_node),
	AMONG_PEERS(test_given_away_while_it_is_taken_over),
	DISK_AMONG_PEERS(test_durable_goes_to_a_disk),
	DISK_AMONG_PEERS(test_durable_that_is_on_disk_alone),
	DISK_AMONG_PEERS(test_durable_that_was_read_back),
	AMONG_PEERS(test_put_that_waits_for_room_is_refused),
};

UNIT_MAIN(tests)
