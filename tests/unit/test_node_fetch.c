/*
 * Tests of node/ among others: what GET, LEASE and STAT find on other nodes, and how its bytes
 * come here. test_node_fetch_ends.c has how that may fail, test_node_replica.c the other side.
 */
#include "node_fetch.h"

/* ---- hits ---------------------------------------------------------------- */

static void test_small_value_comes_with_the_answer(void **state)
{
	struct guest guest = guest_of();
	struct msg_replica_ask ask;

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	get(&guest, KEY);
	ask = want_replica_ask(0);
	assert_int_equal(ask.generation, 100);
	assert_int_equal(ask.inline_limit, INLINE_LIMIT);
	assert_int_equal(ask.timeout_ns, WAIT);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
	assert_int_equal(count_asks(0, MSG_TYPE_UNLEASE), 0);
	assert_int_equal(world.node->cluster.stats.fetches, 1);
}

static void test_large_one_is_moved_under_a_lease(void **state)
{
	struct guest guest = guest_of();
	const struct peer_fetch *what = &fake.moves[0].what;
	uint64_t sent;

	(void)state;
	keeps(0, KEY, 100, LARGE, DIR_SOFTPIN);
	get(&guest, KEY);
	sent = world.now_ns;
	turn(10 * MS);
	leases(0, 100, LARGE, 0);
	assert_true(fake.moves[0].there);
	assert_int_equal(what->peer, fake.peers[0].place);
	assert_int_equal(what->generation, 100);
	assert_int_equal(what->size, LARGE);
	assert_int_equal(what->seed, hash_key(KEY, strlen(KEY), 0));
	assert_int_equal(what->deadline_ns, sent + LEASE / 100 * 98);
	assert_memory_equal(what->ticket.bytes, ticket_bytes, 16);
	want_nothing(guest.lane);
	assert_int_equal(count_asks(0, MSG_TYPE_UNLEASE), 0);
	moved(0, LARGE);
	want_unlease(0);
	want_object(&guest, LARGE);
	turn(ERRAND_PAUSE_NS);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void test_what_the_source_says_of_it_is_known_here(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), replica, .generation = 100,
		.size = SMALL, .checksum = checksum_of(KEY, SMALL),
		.expires_in_ns = 20 * SECOND, .flags = PUT_SOFTPIN | REPLICA_COUNTED,
		.readers_left = 3, .value = value_of(SMALL));
	settle();
	want_object(&guest, SMALL);
	SEND(guest.lane, stat, .key = text(KEY));
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.flags, PUT_SOFTPIN | STAT_IN_POOL);
	assert_int_equal(stated.generation, 100);
	assert_int_equal(stated.expires_in_ns, 20 * SECOND);
	assert_int_equal(stated.readers_left, 3);
	assert_true(world.share.slots[stated.slot].counted);
}

static void test_empty_value(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, 0, 0);
	get(&guest, KEY);
	gives(0, 100, 0);
	want_object(&guest, 0);
}

static void test_lease_of_what_another_node_has(void **state)
{
	struct guest guest = guest_of();
	struct msg_leased leased;

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	SEND(guest.lane, lease, .key = text(KEY), .timeout_ns = WAIT);
	settle();
	gives(0, 100, SMALL);
	WANT(guest.lane, leased, &leased);
	assert_int_equal(leased.generation, 100);
	assert_int_equal(node_master(world.node)->pinned, 0);
}

static void test_copies_are_asked_before_the_keeper(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	peer_copies(2, KEY, 100);
	get(&guest, KEY);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	gives(2, 100, SMALL);
	want_object(&guest, SMALL);
}

/* ---- many at once -------------------------------------------------------- */

static void test_many_ask_and_one_question_is_asked(void **state)
{
	struct guest others[20];
	uint64_t queries;

	(void)state;
	keeps(0, KEY, 100, LARGE, 0);
	queries = world.node->cluster.stats.queries;
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		others[i] = guest_of();
		get(&others[i], KEY);
	}
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 1);
	assert_int_equal(world.node->cluster.stats.queries, queries + 1);
	leases(0, 100, LARGE, 0);
	moved(0, LARGE);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++)
		want_object(&others[i], LARGE);
	assert_int_equal(world.node->cluster.stats.fetches, 1);
	assert_int_equal(world.node->cluster.stats.fetches_joined, ARRAY_LEN(others) - 1);
}

static void test_absent_is_shared_by_those_who_asked_before(void **state)
{
	struct guest early = guest_of(), late = guest_of();

	(void)state;
	hold_directory();
	get(&early, KEY);
	directory_decides();
	keeps(0, KEY, 100, SMALL, 0);
	get(&late, KEY);
	let_directory_go();
	want_error(early.lane, ERR_NOT_FOUND, "no object");
	gives(0, 100, SMALL);
	want_object(&late, SMALL);
}

static void test_each_waits_with_its_own_deadline(void **state)
{
	struct guest hasty = guest_of(), patient = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	send_get(hasty.lane, KEY, 0, 10 * MS);
	get(&patient, KEY);
	assert_int_equal(want_replica_ask(0).timeout_ns, WAIT);
	turn(20 * MS);
	want_error(hasty.lane, ERR_TIMEOUT, "not got from another node in time");
	gives(0, 100, SMALL);
	want_object(&patient, SMALL);
}

static int setup_large_pool(void **state)
{
	const struct sim_setup large = {.pool_size = 4 * POOL, .nslots = 4096, .seed = 1};

	(void)state;
	sim_world_open(&world, &large);
	return fake_start();
}

static void test_no_more_transfers_than_there_are_places(void **state)
{
	struct guest others[PEER_TRANSFERS + 3];
	char key[16];

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		keeps(0, key, 100 + i, MEDIUM, 0);
		others[i] = guest_of();
		get(&others[i], key);
	}
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), PEER_TRANSFERS);
	reply_error(want_ask(0, MSG_TYPE_REPLICA_ASK), ERR_TRANSFER_FAIL);
	settle();
	/* It looks once more, and is behind the others then. */
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), PEER_TRANSFERS);
	sim_disconnect(&world, others[1].lane);
	sim_disconnect(&world, others[2].lane);
	settle();
	assert_sound();
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		if (sim_lane_is_open(&world, others[i].lane))
			sim_disconnect(&world, others[i].lane);
	}
	settle();
	assert_int_equal(world.node->cluster.fetches_used, 0);
}

/* ---- absent, and waiting ------------------------------------------------- */

static void test_absent(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	get(&guest, KEY);
	want_error(guest.lane, ERR_NOT_FOUND, "no object under the key");
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(count_asks(i, MSG_TYPE_HAVE), 0);
}

static void test_wait_ends_when_it_is_published_elsewhere(void **state)
{
	struct guest guest = guest_of();
	uint64_t queries;

	(void)state;
	wait_for(&guest, KEY);
	want_nothing(guest.lane);
	queries = world.node->cluster.stats.queries;
	turn(2 * SECOND); /* nobody polls: only the membership is renewed */
	assert_in_range(world.node->cluster.stats.queries - queries, 2, 3);
	keeps(0, KEY, 100, SMALL, 0);
	assert_int_equal(fake.peers[0].answered.waiter_count, 1);
	assert_int_equal(fake.peers[0].answered.waiters[0], THIS_ID);
	published(0, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_wait_ends_when_it_is_put_here(void **state)
{
	struct guest guest = guest_of(), putter = guest_of();
	struct msg_found found;

	(void)state;
	wait_for(&guest, KEY);
	send_put(&putter, KEY, "value", SECOND);
	settle();
	(void)want_done(putter.lane);
	WANT(guest.lane, found, &found);
	assert_value(found.slot, "value");
}

static void test_published_while_the_answer_is_on_its_way(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	hold_directory();
	wait_for(&guest, KEY);
	directory_decides();
	keeps(0, KEY, 100, SMALL, 0);
	published(0, KEY);
	let_directory_go();
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_wait_is_over_at_its_deadline(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	wait_for(&guest, KEY);
	turn(WAIT + 1);
	want_error(guest.lane, ERR_TIMEOUT, "was not put in time");
}

static void test_wait_is_registered_again_after_a_loss(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	wait_for(&guest, KEY);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	others_have_not(); /* it looked before all had announced what they have */
	want_nothing(guest.lane);
	keeps(1, KEY, 100, SMALL, 0);
	assert_int_equal(fake.peers[1].answered.waiter_count, 1);
	published(1, KEY);
	gives(1, 100, SMALL);
	want_object(&guest, SMALL);
}

/* ---- the directory is away, or has forgotten ----------------------------- */

static void test_directory_away_all_are_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_goes();
	get(&guest, KEY);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL);
	REPLY(want_ask(1, MSG_TYPE_HAVE), had, .generation = 200, .size = SMALL,
		.flags = PUT_SOFTPIN);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	gives(1, 200, SMALL);
	want_object(&guest, SMALL);
}

/* That not all is announced here it hears before it is asked. */
static void want_beat_first(unsigned peer)
{
	const struct fake_ask *ask = want_ask(peer, MSG_TYPE_BEAT);
	struct msg_beat msg;

	assert_int_equal(msg_beat_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.epochs.size, 0);
	list_for_each (at, &fake.asks) {
		const struct fake_ask *first = container_of(at, struct fake_ask, entry);

		if (first == ask)
			return;
		assert_false(first->peer == peer && first->type == MSG_TYPE_HAVE);
	}
}

/* A copy of peer 0's object that came while the directory was away. */
static void fetch_unlisted(struct guest *guest)
{
	directory_goes();
	for (unsigned i = 0; i < PEERS; i++)
		fake.peers[i].is_silent = true;
	get(guest, KEY);
	for (unsigned i = 0; i < PEERS; i++) {
		want_beat_first(i);
		fake.peers[i].is_silent = false;
	}
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL,
		.flags = PUT_SOFTPIN);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	gives(0, 100, SMALL);
	want_object(guest, SMALL);
	assert_true(slot_of(KEY)->flags & SLOT_UNLISTED);
}

static void test_copy_of_what_is_still_there_stays(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, DIR_SOFTPIN);
	fetch_unlisted(&guest);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_false(slot_of(KEY)->flags & SLOT_UNLISTED);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

/* It was removed meanwhile, and the directory does not know that any more. */
static void test_copy_of_what_is_not_there_goes(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	fetch_unlisted(&guest);
	dir_mem_flush(fake.mem, 0);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

static void test_directory_away_and_nobody_has_it(void **state)
{
	struct guest guest = guest_of();
	uint64_t end;

	(void)state;
	directory_goes();
	get(&guest, KEY);
	end = world.now_ns + WAIT;
	while (world.now_ns < end) {
		others_have_not();
		turn(100 * MS);
	}
	want_error(guest.lane, ERR_UNAVAILABLE, "cannot be told");
}

static void test_directory_comes_back(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	directory_goes();
	get(&guest, KEY);
	others_have_not();
	want_nothing(guest.lane);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

static void test_forgotten_all_are_asked_and_nobody_has_it(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	get(&guest, KEY);
	want_nothing(guest.lane);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

/* Peer 1 says so before it has taken over what peer 0 had when it was asked. */
static void handed_over_between_the_answers(void)
{
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	keeps(1, KEY, 100, SMALL, DIR_SOFTPIN);
	reply_error(want_ask(0, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
}

static void test_forgotten_and_handed_over_between_the_answers(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	get(&guest, KEY);
	handed_over_between_the_answers();
	gives(1, 100, SMALL);
	want_object(&guest, SMALL);
}

/* The directory had it when it was handed over, and may have it no more. */
static void test_forgotten_once_more_while_all_are_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	get(&guest, KEY);
	dir_mem_flush(fake.mem, 0);
	others_have_not();
	want_nothing(guest.lane);
	turn(CLUSTER_RETRY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

/* It is told what was asked for it, and not what others had said before. */
static void test_who_comes_after_all_were_asked_shares_nothing(void **state)
{
	struct guest guest = guest_of(), late = guest_of();

	(void)state;
	directory_forgets(0);
	get(&guest, KEY);
	get(&late, KEY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	want_nothing(late.lane);
	others_have_not();
	want_error(late.lane, ERR_NOT_FOUND, "no object");
}

static void test_forgotten_and_one_cannot_be_asked(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	peer_goes(2);
	get(&guest, KEY);
	others_have_not();
	want_nothing(guest.lane);
	peer_comes(2);
	others_have_not(); /* asked before it came */
	turn(CLUSTER_RETRY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_forgotten_copy_and_all_are_asked_when_it_fails(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	keeps(1, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	for (int i = 0; i < 2; i++) {
		reply_error(want_ask(1, MSG_TYPE_REPLICA_ASK), ERR_IO);
		settle();
	}
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL);
	settle();
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
}

/* One who cannot say now may keep it: it stays in the directory, and nobody is told that it is not
 * there. */
static void test_forgotten_copy_and_one_does_not_say(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	keeps(1, KEY, 100, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	fails_twice(&guest, 1, ERR_NOT_FOUND);
	reply_error(want_ask(0, MSG_TYPE_HAVE), ERR_TOO_MANY);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), 100);
}

/* Who had a copy is told to end it, and keeps no tombstone: who keeps the object may be back. */
static void test_copy_without_a_keeper_is_taken_out(void **state)
{
	struct guest guest = guest_of();
	struct msg_drop drop;
	struct fake_ask *ask;

	(void)state;
	peer_announces_copy(1, KEY, 100, SMALL);
	get(&guest, KEY);
	fails_twice(&guest, 1, ERR_NOT_FOUND);
	ask = want_ask(1, MSG_TYPE_DROP);
	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &drop), 0);
	assert_int_equal(drop.generation, 100);
	assert_int_equal(drop.before, 0);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

/* What is removed, and announced once more to a directory that has forgotten that, is there in an
 * entry that names nobody until that hears of the removal again. */
static void is_named_by_a_copy_that_is_gone(void)
{
	directory_forgets(0);
	peer_announces_copy(1, KEY, 100, SMALL);
	peer_has_no_more(1, KEY, 100);
}

static void test_entry_of_nobody_is_not_lost_before_all_have_announced(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	is_named_by_a_copy_that_is_gone();
	get(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	assert_int_equal(entry_of(KEY), 0);
}

/* ---- STAT ---------------------------------------------------------------- */

static void ask_stat(struct guest *guest, const char *key)
{
	SEND(guest->lane, stat, .key = text(key));
	settle();
}

static void test_stat_of_what_another_node_has(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;

	(void)state;
	keeps(0, KEY, 100, LARGE, DIR_SOFTPIN);
	ask_stat(&guest, KEY);
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.generation, 100);
	assert_int_equal(stated.size, LARGE);
	assert_int_equal(stated.flags, PUT_SOFTPIN);
	assert_int_equal(own_role_in(KEY), 0);
	ask_stat(&guest, "other");
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_stat_without_the_directory(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;

	(void)state;
	directory_goes();
	ask_stat(&guest, KEY);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 100, .size = SMALL);
	settle();
	want_nothing(guest.lane);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.generation, 100);
	ask_stat(&guest, KEY);
	for (int i = 0; i < 60; i++) {
		others_have_not();
		turn(100 * MS);
	}
	want_error(guest.lane, ERR_UNAVAILABLE, "cannot be told");
}

static void test_stat_of_what_is_handed_over_between_the_answers(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;

	(void)state;
	directory_forgets(0);
	ask_stat(&guest, KEY);
	handed_over_between_the_answers();
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.generation, 100);
	ask_stat(&guest, "other");
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_stat_while_it_is_forgotten_once_more(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	ask_stat(&guest, KEY);
	dir_mem_flush(fake.mem, 0);
	others_have_not();
	want_nothing(guest.lane);
	turn(CLUSTER_RETRY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_stat_of_an_entry_of_nobody(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	is_named_by_a_copy_that_is_gone();
	ask_stat(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	/* All have, and nobody has. */
	fake.peers[0].has_finished = true;
	turn(SECOND);
	ask_stat(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_LOST, "generation 100");
}

static void test_stat_of_what_is_lost(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps_as(0, 99, KEY, 100, SMALL, DIR_SOFTPIN);
	ask_stat(&guest, KEY);
	others_have_not();
	want_error(guest.lane, ERR_LOST, "generation 100");
}

static void test_stat_of_a_put_that_may_not_be_over(void **state)
{
	struct guest guest = guest_of();
	struct msg_stated stated;
	struct fake_ask *ask;
	struct msg_have have;

	(void)state;
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_PUBLISH,
					       .id = id_of(KEY),
					       .generation = 100,
					       .size = LARGE,
					       .wanted = 1}),
		DIR_DONE);
	ask_stat(&guest, KEY);
	assert_int_equal(count_asks(1, MSG_TYPE_HAVE), 0);
	ask = want_ask(0, MSG_TYPE_HAVE);
	assert_int_equal(msg_have_decode(ask->bytes, ask->size, &have), 0);
	assert_int_equal(have.generation, 0); /* else what is being put would count */
	REPLY(ask, had, .generation = 100, .size = LARGE);
	settle();
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.size, LARGE);
	ask_stat(&guest, KEY);
	reply_error(want_ask(0, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_stat_is_left_under_way(void **state)
{
	struct guest guest = guest_of(), other = guest_of();

	(void)state;
	hold_directory();
	ask_stat(&guest, KEY);
	leave(&guest);
	let_directory_go();
	directory_goes();
	ask_stat(&other, KEY);
	leave(&other);
	settle();
	assert_sound();
}

/* ---- for people ---------------------------------------------------------- */

static void test_info_tells_of_the_cluster(void **state)
{
	static const char *const parts[] = {"\"cluster\":{\"node\":\"0000000000000100\"",
		"\"name\":\"test\"", "\"members\":[{\"node\":\"0000000000000101\"",
		"\"state\":\"up\",\"endpoint\":\"peer0:1\"", "\"complete\":true",
		"\"fetches\":1", "\"leases_outstanding\":0",
		"\"fetch_wait_ns\":{\"count\":1"};
	struct guest guest = guest_of();
	struct msg_info_text info;
	char *copy;

	(void)state;
	keeps(0, KEY, 100, SMALL, 0);
	get(&guest, KEY);
	gives(0, 100, SMALL);
	want_object(&guest, SMALL);
	SEND(guest.lane, info, .what = 0);
	WANT(guest.lane, info_text, &info);
	copy = calloc(1, info.text.size + 1);
	assert_non_null(copy);
	memcpy(copy, info.text.data, info.text.size);
	for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
		if (strstr(copy, parts[i]) == NULL)
			fail_msg("no %s in %s", parts[i], copy);
	}
	free(copy);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_small_value_comes_with_the_answer),
	AMONG_PEERS(test_large_one_is_moved_under_a_lease),
	AMONG_PEERS(test_what_the_source_says_of_it_is_known_here),
	AMONG_PEERS(test_empty_value),
	AMONG_PEERS(test_lease_of_what_another_node_has),
	AMONG_PEERS(test_copies_are_asked_before_the_keeper),
	AMONG_PEERS(test_many_ask_and_one_question_is_asked),
	AMONG_PEERS(test_absent_is_shared_by_those_who_asked_before),
	AMONG_PEERS(test_each_waits_with_its_own_deadline),
	cmocka_unit_test_setup_teardown(test_no_more_transfers_than_there_are_places,
		setup_large_pool, teardown_peers),
	AMONG_PEERS(test_absent),
	AMONG_PEERS(test_wait_ends_when_it_is_published_elsewhere),
	AMONG_PEERS(test_wait_ends_when_it_is_put_here),
	AMONG_PEERS(test_published_while_the_answer_is_on_its_way),
	AMONG_PEERS(test_wait_is_over_at_its_deadline),
	AMONG_PEERS(test_wait_is_registered_again_after_a_loss),
	AMONG_PEERS(test_directory_away_all_are_asked),
	AMONG_PEERS(test_copy_of_what_is_still_there_stays),
	AMONG_PEERS(test_copy_of_what_is_not_there_goes),
	AMONG_PEERS(test_directory_away_and_nobody_has_it),
	AMONG_PEERS(test_directory_comes_back),
	AMONG_PEERS(test_forgotten_all_are_asked_and_nobody_has_it),
	AMONG_PEERS(test_forgotten_and_handed_over_between_the_answers),
	AMONG_PEERS(test_forgotten_once_more_while_all_are_asked),
	AMONG_PEERS(test_who_comes_after_all_were_asked_shares_nothing),
	AMONG_PEERS(test_forgotten_and_one_cannot_be_asked),
	AMONG_PEERS(test_forgotten_copy_and_all_are_asked_when_it_fails),
	AMONG_PEERS(test_forgotten_copy_and_one_does_not_say),
	AMONG_PEERS(test_copy_without_a_keeper_is_taken_out),
	AMONG_PEERS(test_entry_of_nobody_is_not_lost_before_all_have_announced),
	AMONG_PEERS(test_stat_of_what_another_node_has),
	AMONG_PEERS(test_stat_without_the_directory),
	AMONG_PEERS(test_stat_of_what_is_handed_over_between_the_answers),
	AMONG_PEERS(test_stat_while_it_is_forgotten_once_more),
	AMONG_PEERS(test_stat_of_an_entry_of_nobody),
	AMONG_PEERS(test_stat_of_what_is_lost),
	AMONG_PEERS(test_stat_of_a_put_that_may_not_be_over),
	AMONG_PEERS(test_stat_is_left_under_way),
	AMONG_PEERS(test_info_tells_of_the_cluster),
};

UNIT_MAIN(tests)
