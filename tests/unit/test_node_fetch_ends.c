/*
 * Tests of node/ among others: how what is being got from another node ends without it: by its
 * sources, by a removal, for want of room, or because nobody waits any more.
 */
#include "node_fetch.h"

/* ---- sources fail -------------------------------------------------------- */

static void test_next_source_after_a_new_look(void **state)
{
	struct guest guest = guest_of();
	unsigned first, second;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_copies(1, KEY, 100);
	peer_copies(2, KEY, 100);
	get(&guest, KEY);
	first = count_asks(1, MSG_TYPE_REPLICA_ASK) > 0 ? 1 : 2;
	second = 3 - first;
	reply_error(want_ask(first, MSG_TYPE_REPLICA_ASK), ERR_TRANSFER_FAIL);
	settle();
	assert_int_equal(world.node->cluster.stats.fetch_retries, 1);
	/* Each once more, the one that failed last. */
	reply_error(want_ask(second, MSG_TYPE_REPLICA_ASK), ERR_IO);
	settle();
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_IO);
	settle();
	gives(first, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_error_of_the_only_source(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	fails_twice(&guest, 0, ERR_NO_SPACE);
	want_error(guest.lane, ERR_NO_SPACE, "from node 0000000000000101");
	assert_int_equal(own_role_in(KEY), 0);
}

static void test_new_list_is_used_after_a_failure(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	peer_copies(2, KEY, 100);
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_TRANSFER_FAIL);
	settle();
	gives(2, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_newer_generation_is_met_at_the_second_look(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	get(&guest, KEY);
	keeps(1, KEY, 200, LARGE, 0);
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_NOT_FOUND);
	settle();
	leases(1, 200, LARGE, 0);
	moved(0, LARGE);
	want_object(&guest, LARGE);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void test_source_breaks_off(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_copies(1, KEY, 100);
	get(&guest, KEY);
	(void)want_ask(1, MSG_TYPE_REPLICA_ASK);
	peer_goes(1);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_what_nobody_can_be_asked_for_fails_at_once(void **state)
{
	struct guest guest = guest_of();
	uint64_t before;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_goes(0);
	before = world.now_ns;
	for (int i = 0; i < 3; i++) {
		get(&guest, KEY);
		want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
	}
	assert_int_equal(world.now_ns, before);
	assert_int_equal(own_role_in(KEY), 0);
	peer_comes(0);
	get(&guest, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

/* The node's, which is started again and has met nobody yet; peer 0 keeps the key. */
static struct guest guest_of_a_new_start(bool is_slow, bool is_reachable)
{
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	fake.peers[0].is_slow = is_slow;
	fake.peers[0].reachable = is_reachable;
	node_dies();
	node_starts_again();
	return guest_of();
}

/* Right after its own start a node has not met the others yet: that one is to be waited for. */
static void test_source_that_is_being_met_is_waited_for(void **state)
{
	struct guest guest = guest_of_a_new_start(true, true);

	(void)state;
	assert_true(fake.peers[0].connecting);
	get(&guest, KEY);
	turn(SUSPECT_NS / 2);
	want_nothing(guest.lane);
	fake.peers[0].is_slow = false;
	turn(CLUSTER_RETRY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_source_that_is_not_met_in_time_is_away(void **state)
{
	struct guest guest = guest_of_a_new_start(true, true);

	(void)state;
	get(&guest, KEY);
	turn(SUSPECT_NS + CLUSTER_RETRY);
	others_have_not();
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
}

/* Its entry tells what it has, though it cannot be asked yet. */
static void test_stat_of_what_one_has_that_is_being_met(void **state)
{
	struct guest guest = guest_of_a_new_start(true, true);
	struct msg_stated stated;

	(void)state;
	SEND(guest.lane, stat, .key = text(KEY));
	turn(CLUSTER_RETRY);
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.generation, 100);
	assert_int_equal(stated.size, SMALL);
}

static void test_source_that_cannot_be_reached_at_first_is_away(void **state)
{
	struct guest guest = guest_of_a_new_start(false, false);
	uint64_t before;

	(void)state;
	before = world.now_ns;
	get(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
	assert_int_equal(world.now_ns, before);
}

static void test_member_that_is_gone_may_come_back(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	keeps(0, "cached", 101, SMALL, 0);
	peer_joins(0, 1); /* and is no member from now on */
	peer_goes(0);
	turn(5 * SECOND);
	get(&guest, KEY);
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
	get(&guest, "cached");
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of("cached"), 0);
	peer_joins(
		0, 3600 * SECOND); /* it is back, and this node has not read that yet */
	send_put(&guest, KEY, "value", WAIT);
	turn(SECOND);
	want_error(guest.lane, ERR_EXISTS, KEY);
	assert_int_equal(entry_of(KEY), 100);
}

static void test_lost_with_the_keepers_pool(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps_as(0, 99, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_LOST, "generation 100");
	keeps_as(0, 99, "cached", 101, SMALL, 0);
	get(&guest, "cached");
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of("cached"), 0);
}

/* Peer 0 keeps the key, and then it is neither heard of nor a member. */
static void keeper_is_gone(struct guest *guest)
{
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_joins(0, 1);
	peer_goes(0);
	turn(5 * SECOND);
	get(guest, KEY);
	want_error(guest->lane, ERR_UNAVAILABLE, "node 0000000000000101");
}

static void want_lost(struct guest *guest)
{
	get(guest, KEY);
	others_have_not();
	want_error(guest->lane, ERR_LOST, "node 0000000000000101");
	SEND(guest->lane, stat, .key = text(KEY));
	settle();
	others_have_not();
	want_error(guest->lane, ERR_LOST, "generation 100");
}

/* Peer 1 is at the endpoint of peer 0 from now on. */
static void peer_takes_the_place(void)
{
	(void)strcpy(fake.peers[1].endpoint, fake.peers[0].endpoint);
	peer_joins(1, 3600 * SECOND);
	turn(2 * SECOND);
}

static void test_lost_with_a_node_whose_place_is_anothers(void **state)
{
	struct guest guest = guest_of();
	struct msg_replaced msg;
	struct fake_ask *ask;

	(void)state;
	keeper_is_gone(&guest);
	peer_takes_the_place();
	want_lost(&guest);
	for (unsigned peer = 1; peer < PEERS; peer++) {
		ask = want_ask(peer, MSG_TYPE_REPLACED);
		assert_int_equal(msg_replaced_decode(ask->bytes, ask->size, &msg), 0);
		assert_int_equal(msg.node, peer_id(0));
	}
	/* What is lost is in nobody's way. */
	send_put(&guest, KEY, "value", WAIT);
	turn(SECOND);
	assert_true(entry_of(KEY) > 100);
}

static void test_lost_as_a_peer_says(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeper_is_gone(&guest);
	link_opens(1);
	ASK(1, 1, replaced, .node = peer_id(0));
	want_lost(&guest);
	ASK(1, 1, replaced, .node = peer_id(2)); /* which is up */
	ASK(1, 1, replaced, .node = THIS_ID);
	ASK(1, 1, replaced, .node = 0);
	keeps(2, "other", 101, SMALL, DIR_SOFTPIN);
	get(&guest, "other");
	(void)want_ask(2, MSG_TYPE_REPLICA_ASK);
}

static void test_node_with_a_new_endpoint_is_not_gone(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeper_is_gone(&guest);
	peer_takes_the_place();
	want_lost(&guest);
	(void)strcpy(fake.peers[0].endpoint, "other:1");
	peer_joins(0, 3600 * SECOND);
	peer_comes(0);
	get(&guest, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_member_with_the_endpoint_of_another_is_not_gone(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_goes(0);
	peer_takes_the_place();
	turn(5 * SECOND);
	get(&guest, KEY);
	want_error(guest.lane, ERR_UNAVAILABLE, "node 0000000000000101");
}

/* Its pool is another than the entry says, by what this node knew of it: that may be the older. */
static void test_who_has_it_may_have_a_newer_pool(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	turn(SECOND / 2); /* the members were read before */
	keeps_as(0, 99, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	want_nothing(guest.lane);
	turn(CLUSTER_RETRY);
	others_have_not();
	want_error(guest.lane, ERR_LOST, "generation 100");
}

/* The entry does not name who has taken it over since. */
static void test_what_another_has_is_not_lost(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_LEAVE,
					       .id = id_of(KEY),
					       .generation = 100,
					       .from = peer_id(0)}),
		DIR_DONE);
	assert_int_equal(entry_of(KEY), 100);
	SEND(guest.lane, stat, .key = text(KEY));
	settle();
	REPLY(want_ask(1, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL,
		.flags = PUT_SOFTPIN);
	others_have_not();
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.generation, 100);
	get(&guest, KEY);
	REPLY(want_ask(1, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL,
		.flags = PUT_SOFTPIN);
	others_have_not();
	gives(1, 100, SMALL);
	want_object(&guest, SMALL);
}

/* It may have it. */
static void test_what_one_that_does_not_answer_may_have_is_not_lost(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps_as(0, 99, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_goes(2);
	get(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_UNAVAILABLE, "generation 100");
}

static void test_stale_entry_is_taken_out(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	for (int i = 0; i < 2; i++) {
		want_nothing(guest.lane);
		assert_int_equal(entry_of(KEY), 100);
		reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_NOT_FOUND);
		settle();
	}
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of(KEY), 0);
}

/* It may have just come: the members are read once more before it counts as gone. */
static void test_keeper_that_is_not_known(void **state)
{
	struct guest guest = guest_of();
	uint64_t before;

	(void)state;
	node_keeps(0, peer_id(PEERS), 1, KEY, 100, SMALL, DIR_SOFTPIN);
	turn(RENEW_NS / 2);
	before = world.node->cluster.renewed_ns;
	assert_in_range(world.now_ns - before, 2 * CLUSTER_RETRY, RENEW_NS);
	get(&guest, KEY);
	turn(CLUSTER_RETRY);
	assert_true(world.node->cluster.renewed_ns > before);
	want_error(guest.lane, ERR_UNAVAILABLE, "generation 100");
	assert_int_equal(peer_find(world.node, peer_id(PEERS)), PEER_LIMIT);
}

/* Who kept it is asked twice, and the second time has given it away. */
static void test_what_is_being_handed_over_is_found(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_NOT_FOUND);
	settle();
	peer_takes_over(1, 0, KEY, 100);
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_NOT_FOUND);
	settle();
	want_nothing(guest.lane);
	gives(1, 100, SMALL);
	want_object(&guest, SMALL);
	assert_int_equal(entry_of(KEY), 100);
}

/* What peer 0 kept was removed, by the word of peer 0 itself, and a directory that went back has it
 * again, with a copy whose pool is lost. */
static void test_what_its_keeper_has_no_more_is_not_lost_with_a_copy(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	keeps_as(1, 99, KEY, 100, SMALL, DIR_SOFTPIN); /* as a copy, since peer 0 does */
	get(&guest, KEY);
	fails_twice(&guest, 0, ERR_NOT_FOUND);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of(KEY), 0);
}

/* The same of what this node kept. */
static void test_what_this_node_has_no_more_is_not_lost_with_a_copy(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	hands_over_to_this(0, KEY, 100);
	keeps_as(1, 99, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of(KEY), 0);
}

static void test_wrong_bytes(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, DIR_SOFTPIN);
	keeps(0, "cached", 101, LARGE, 0);
	for (int i = 0; i < 2; i++) {
		get(&guest, i == 0 ? KEY : "cached");
		for (int j = 0; j < 2; j++) {
			leases(0, 100 + (uint64_t)i, LARGE, 1);
			move_ends(0, 0, 2);
			settle();
			want_unlease(0);
		}
		want_error(guest.lane, i == 0 ? ERR_CORRUPT : ERR_NOT_FOUND, "");
	}
	assert_int_equal(entry_of(KEY), 100);
	assert_int_equal(entry_of("cached"), 0);
}

static void test_small_value_with_wrong_bytes(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_copies(1, KEY, 100);
	get(&guest, KEY);
	REPLY(want_ask(1, MSG_TYPE_REPLICA_ASK), replica, .generation = 100,
		.size = SMALL, .checksum = 77, .expires_in_ns = UINT64_MAX,
		.value = value_of(SMALL));
	settle();
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_answers_that_make_no_sense(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), replica, .generation = 100,
		.size = SMALL, .value = value_of(SMALL - 1));
	settle();
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), replica, .generation = 101,
		.size = SMALL, .life = 4, .length_ns = LEASE, .value = value_of(SMALL));
	settle();
	want_unlease_of(0, 4);
	want_error(guest.lane, ERR_PROTOCOL, "node 0000000000000101");
	get(&guest, KEY);
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), done, .generation = 100);
	settle();
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

/* ---- this node in the entry ---------------------------------------------- */

static void test_entry_that_has_this_node_wrongly_as_keeper(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	hands_over_to_this(0, KEY, 100);
	peer_copies(1, KEY, 100);
	assert_int_equal(own_role_in(KEY), DIR_KEEPER);
	get(&guest, KEY);
	gives(1, 100, SMALL);
	want_object(&guest, SMALL);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void test_entry_that_has_nobody_but_this_node(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	hands_over_to_this(0, KEY, 100);
	get(&guest, KEY);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of(KEY), 0);
}

static void test_put_that_is_being_published_is_not_there_yet(void **state)
{
	struct guest guest = guest_of(), putter = guest_of(), waiter = guest_of();
	struct msg_found found;

	(void)state;
	directory_forgets(0);
	send_put(&putter, KEY, "value", WAIT);
	settle();
	assert_true(entry_of(KEY) != 0);
	wait_for(&waiter, KEY);
	get(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	(void)want_done(putter.lane);
	WANT(waiter.lane, found, &found);
	assert_value(found.slot, "value");
	assert_int_equal(own_role_in(KEY), DIR_KEEPER);
}

/* ---- removals ------------------------------------------------------------ */

static void test_removed_while_its_entry_is_on_its_way(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	hold_directory();
	get(&guest, KEY);
	directory_decides();
	removed_by(0, KEY, 100);
	let_directory_go();
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_removed_while_a_source_is_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	removed_by(0, KEY, 100);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	leases(0, 100, LARGE, 0);
	want_unlease(0);
	assert_int_equal(world.node->cluster.fetches_used, 0);
}

static void test_removed_while_its_bytes_are_on_their_way(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	removed_by(0, KEY, 100);
	want_unlease(0);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(used_bytes(), 0);
}

static void test_removed_as_its_bytes_are_there(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	drop_comes(0, KEY, 100);
	moved(0, LARGE); /* before it heard that it was stopped */
	assert_int_equal(master_find_key(KEY), SLOT_NONE);
	want_unlease(0);
	fails_twice(&guest, 0, ERR_NOT_FOUND);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

/* The directory forgets that it was, and hears of it from this node once more: nobody else would
 * take out what it names then. */
static void test_removed_while_it_is_announced(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
	entry_goes(0, KEY, 100);
	dir_mem_flush(fake.mem, 0);
	hold_directory();
	dir_mem_tell(&fake.port, 0);
	settle();
	directory_decides();
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
	drop_comes(0, KEY, 100);
	assert_null(slot_of(KEY));
	let_directory_go();
	assert_int_equal(entry_of(KEY), 0);
}

static void test_removed_and_put_anew_meanwhile(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	removed_by_and(0, KEY, 100, false);
	keeps(1, KEY, 200, SMALL, 0);
	settle();
	gives(1, 200, SMALL);
	want_object(&guest, SMALL);
}

static void test_copy_that_came_too_late_goes(void **state)
{
	struct guest guest = guest_of();
	struct msg_found found;

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	get(&guest, KEY);
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_TAKE_OUT,
					       .id = id_of(KEY),
					       .bury_ns = 60 * SECOND}),
		DIR_DONE);
	gives(0, 100, SMALL);
	WANT(guest.lane, found, &found);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(master_find_key(KEY), SLOT_NONE);
}

static void test_put_here_comes_first(void **state)
{
	struct guest guest = guest_of(), putter = guest_of();
	struct msg_found found;

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	entry_goes(0, KEY, 100); /* and this node has not heard of it yet */
	send_put(&putter, KEY, "value", SECOND);
	settle();
	(void)want_done(putter.lane);
	WANT(guest.lane, found, &found);
	assert_value(found.slot, "value");
	want_unlease(0);
	assert_int_equal(world.node->cluster.fetches_used, 0);
}

/* ---- nobody waits any more ----------------------------------------------- */

static void assert_nothing_left(void)
{
	settle();
	assert_sound();
	assert_int_equal(world.node->cluster.fetches_used, 0);
	assert_int_equal(used_bytes(), 0);
	assert_int_equal(own_role_in(KEY), 0);
}

static void test_last_one_leaves_during_the_look(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	hold_directory();
	get(&guest, KEY);
	directory_decides();
	leave(&guest);
	let_directory_go();
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	assert_nothing_left();
}

static void test_another_one_comes_after_the_last_has_left(void **state)
{
	struct guest guest = guest_of(), other = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	hold_directory();
	get(&guest, KEY);
	directory_decides();
	leave(&guest);
	get(&other, KEY);
	let_directory_go();
	gives(0, 100, SMALL);
	want_object(&other, SMALL);
}

static void test_last_one_leaves_while_all_are_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	get(&guest, KEY);
	(void)want_ask(1, MSG_TYPE_HAVE);
	leave(&guest);
	assert_nothing_left();
}

static void test_last_one_leaves_while_a_source_is_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leave(&guest);
	assert_nothing_left();
	leases(0, 100, LARGE, 0);
	want_unlease(0);
	assert_false(fake.moves[0].there);
}

static void test_last_one_leaves_during_the_transfer(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	leave(&guest);
	assert_true(fake.moves[0].stopped);
	assert_true(used_bytes() > 0);
	settle();
	want_unlease(0);
	assert_nothing_left();
}

static void test_another_one_comes_while_the_transfer_is_stopped(void **state)
{
	struct guest guest = guest_of(), other = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	leave(&guest);
	send_get(other.lane, KEY, 0, WAIT);
	settle();
	want_unlease(0);
	leases(0, 100, LARGE, 0);
	moved(0, LARGE);
	want_object(&other, LARGE);
}

static void test_transfer_that_ends_well_though_it_was_stopped(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	leave(&guest);
	moved(0, LARGE);
	want_unlease(0);
	assert_true(master_find_key(KEY) != SLOT_NONE);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void test_last_one_leaves_during_the_second_look(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	hold_directory();
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_IO);
	settle();
	leave(&guest);
	assert_int_equal(used_bytes(), 0);
	let_directory_go();
	assert_nothing_left();
}

static void test_last_one_leaves_while_the_entry_is_taken_out(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps_as(0, 99, KEY, 100, LARGE, 0);
	hold_directory();
	get(&guest, KEY);
	directory_answers();
	assert_int_equal(entry_of(KEY), 100);
	leave(&guest);
	let_directory_go();
	assert_int_equal(entry_of(KEY), 0);
	assert_nothing_left();
}

static void test_last_one_leaves_while_it_waits_for_room(void **state)
{
	struct guest guest = guest_of(), holder = guest_of();
	struct msg_put_started started;

	(void)state;
	send_start(&holder, "writing", POOL - MIB, 0, WAIT);
	settle();
	WANT(holder.lane, put_started, &started);
	keeps(0, KEY, 100, 2 * MIB, 0);
	get(&guest, KEY);
	want_nothing(guest.lane);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	leave(&guest);
	settle();
	assert_int_equal(world.node->cluster.fetches_used, 0);
	assert_int_equal(own_role_in(KEY), 0);
}

static void test_room_that_comes_ends_the_wait_for_it(void **state)
{
	struct guest guest = guest_of(), late = guest_of(), holder = guest_of();
	struct msg_put_started started;

	(void)state;
	send_start(&holder, "writing", POOL - MIB, 0, 2 * WAIT);
	settle();
	WANT(holder.lane, put_started, &started);
	keeps(0, KEY, 100, 2 * MIB, 0);
	send_get(late.lane, KEY, 0, SECOND);
	get(&guest, KEY);
	turn(SECOND + 1);
	want_error(late.lane, ERR_NO_SPACE, "from another node until the deadline");
	SEND(holder.lane, put_abort, .slot = started.slot, .life = started.life);
	settle();
	leases(0, 100, 2 * MIB, 0);
	moved(0, 2 * MIB);
	want_object(&guest, 2 * MIB);
}

/* ---- batches ------------------------------------------------------------- */

static void test_batch_asks_for_no_more_than_can_be_there(void **state)
{
	struct guest guest = guest_of();
	unsigned refused = 0, asked;
	char key[16];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		keeps(0, key, 100 + i, MIB, 0);
	}
	send_batch_of_gets(&guest, 6);
	settle();
	asked = count_asks(0, MSG_TYPE_REPLICA_ASK);
	assert_in_range(asked, 2, 4);
	for (unsigned i = 0; i < asked; i++) {
		reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_IO);
		settle();
	}
	for (unsigned i = 0; i < asked; i++) {
		reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_IO);
		settle();
	}
	refused = batch_errors(&guest, ERR_NO_SPACE, ERR_IO, 6);
	assert_int_equal(refused, 6 - asked);
	assert_int_equal(world.node->cluster.stats.fetches_refused, refused);
}

static void test_too_large_for_this_pool(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, 2 * POOL, 0);
	get(&guest, KEY);
	want_error(guest.lane, ERR_TOO_LARGE, "could not be got");
	assert_int_equal(own_role_in(KEY), 0);
}

/* ---- faults -------------------------------------------------------------- */

#if FAULT_BUILD

static void arm(enum fault_point point, enum fault_action action, int64_t value)
{
	assert_int_equal(
		fault_arm(&world.faults, fault_point_name(point), action, value, 1, 1),
		0);
}

static void test_fault_delays_the_copy(void **state)
{
	struct guest guest = guest_of(), other = guest_of(), third = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	arm(FAULT_NODE_COPY_AFTER_START, FAULT_SLEEP, 500);
	get(&guest, KEY);
	get(&third, KEY);
	turn(400 * MS);
	get(&other, KEY);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	leave(&third);
	turn(100 * MS);
	leases(0, 100, LARGE, 0);
	moved(0, LARGE);
	want_object(&guest, LARGE);
	want_object(&other, LARGE);
}

static void test_last_one_leaves_while_a_fault_delays(void **state)
{
	struct guest guest = guest_of(), other = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	arm(FAULT_NODE_COPY_AFTER_START, FAULT_SLEEP, 500);
	get(&guest, KEY);
	leave(&guest);
	assert_nothing_left();
	get(&other, KEY); /* in the same place: it does not sleep */
	leases(0, 100, LARGE, 0);
	arm(FAULT_NODE_BEFORE_REFRESH, FAULT_SLEEP, 500);
	move_ends(0, ERR_TRANSFER_FAIL, 0);
	settle();
	assert_int_equal(world.node->cluster.fetches[0].state == FETCH_PAUSE ||
				 world.node->cluster.fetches_used == 1,
		1);
	leave(&other);
	assert_nothing_left();
	turn(SECOND);
	assert_sound();
}

static void test_fault_fails_the_copy(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	arm(FAULT_NODE_COPY_AFTER_START, FAULT_RETURN_ERROR, -77);
	get(&guest, KEY);
	want_error(guest.lane, -77, "");
	assert_nothing_left();
}

static void test_fault_fails_the_second_look(void **state)
{
	struct guest guest = guest_of();
	uint64_t queries;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_copies(1, KEY, 100);
	get(&guest, KEY);
	arm(FAULT_NODE_BEFORE_REFRESH, FAULT_RETURN_ERROR, -900);
	queries = world.node->cluster.stats.queries;
	reply_error(want_ask(1, MSG_TYPE_REPLICA_ASK), ERR_TRANSFER_FAIL);
	settle();
	assert_int_equal(world.node->cluster.stats.queries, queries);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_fault_loses_the_release(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	get(&guest, KEY);
	leases(0, 100, LARGE, 0);
	arm(FAULT_NODE_BEFORE_RELEASE_LEASE, FAULT_RETURN_ERROR, -900);
	moved(0, LARGE);
	want_object(&guest, LARGE);
	assert_int_equal(count_asks(0, MSG_TYPE_UNLEASE), 0);
}

#endif

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_next_source_after_a_new_look),
	AMONG_PEERS(test_error_of_the_only_source),
	AMONG_PEERS(test_new_list_is_used_after_a_failure),
	AMONG_PEERS(test_newer_generation_is_met_at_the_second_look),
	AMONG_PEERS(test_source_breaks_off),
	AMONG_PEERS(test_what_nobody_can_be_asked_for_fails_at_once),
	AMONG_PEERS(test_source_that_is_being_met_is_waited_for),
	AMONG_PEERS(test_source_that_is_not_met_in_time_is_away),
	AMONG_PEERS(test_stat_of_what_one_has_that_is_being_met),
	AMONG_PEERS(test_source_that_cannot_be_reached_at_first_is_away),
	AMONG_PEERS(test_member_that_is_gone_may_come_back),
	AMONG_PEERS(test_lost_with_the_keepers_pool),
	AMONG_PEERS(test_lost_with_a_node_whose_place_is_anothers),
	AMONG_PEERS(test_lost_as_a_peer_says),
	AMONG_PEERS(test_node_with_a_new_endpoint_is_not_gone),
	AMONG_PEERS(test_member_with_the_endpoint_of_another_is_not_gone),
	AMONG_PEERS(test_who_has_it_may_have_a_newer_pool),
	AMONG_PEERS(test_what_another_has_is_not_lost),
	AMONG_PEERS(test_what_one_that_does_not_answer_may_have_is_not_lost),
	AMONG_PEERS(test_stale_entry_is_taken_out),
	AMONG_PEERS(test_keeper_that_is_not_known),
	AMONG_PEERS(test_what_is_being_handed_over_is_found),
	AMONG_PEERS(test_what_its_keeper_has_no_more_is_not_lost_with_a_copy),
	AMONG_PEERS(test_what_this_node_has_no_more_is_not_lost_with_a_copy),
	AMONG_PEERS(test_wrong_bytes),
	AMONG_PEERS(test_small_value_with_wrong_bytes),
	AMONG_PEERS(test_answers_that_make_no_sense),
	AMONG_PEERS(test_entry_that_has_this_node_wrongly_as_keeper),
	AMONG_PEERS(test_entry_that_has_nobody_but_this_node),
	AMONG_PEERS(test_put_that_is_being_published_is_not_there_yet),
	AMONG_PEERS(test_removed_while_its_entry_is_on_its_way),
	AMONG_PEERS(test_removed_while_a_source_is_asked),
	AMONG_PEERS(test_removed_while_its_bytes_are_on_their_way),
	AMONG_PEERS(test_removed_as_its_bytes_are_there),
	AMONG_PEERS(test_removed_while_it_is_announced),
	AMONG_PEERS(test_removed_and_put_anew_meanwhile),
	AMONG_PEERS(test_copy_that_came_too_late_goes),
	AMONG_PEERS(test_put_here_comes_first),
	AMONG_PEERS(test_last_one_leaves_during_the_look),
	AMONG_PEERS(test_another_one_comes_after_the_last_has_left),
	AMONG_PEERS(test_last_one_leaves_while_all_are_asked),
	AMONG_PEERS(test_last_one_leaves_while_a_source_is_asked),
	AMONG_PEERS(test_last_one_leaves_during_the_transfer),
	AMONG_PEERS(test_another_one_comes_while_the_transfer_is_stopped),
	AMONG_PEERS(test_transfer_that_ends_well_though_it_was_stopped),
	AMONG_PEERS(test_last_one_leaves_during_the_second_look),
	AMONG_PEERS(test_last_one_leaves_while_the_entry_is_taken_out),
	AMONG_PEERS(test_last_one_leaves_while_it_waits_for_room),
	AMONG_PEERS(test_room_that_comes_ends_the_wait_for_it),
	AMONG_PEERS(test_batch_asks_for_no_more_than_can_be_there),
	AMONG_PEERS(test_too_large_for_this_pool),
#if FAULT_BUILD
	AMONG_PEERS(test_fault_delays_the_copy),
	AMONG_PEERS(test_last_one_leaves_while_a_fault_delays),
	AMONG_PEERS(test_fault_fails_the_copy),
	AMONG_PEERS(test_fault_fails_the_second_look),
	AMONG_PEERS(test_fault_loses_the_release),
#endif
};

UNIT_MAIN(tests)
