/*
 * Tests of node/ among others: REMOVE by a client, and DROP by which nodes tell each other.
 */
#include "node_peers_disk.h"

#include "node/remove_priv.h"

#define KEY "key"

static void send_remove(struct guest *guest, const char *key)
{
	SEND(guest->lane, remove, .key = text(key));
	settle();
}

/* The put of a guest's, in a cluster. */
static uint64_t put_here(struct guest *guest, const char *key, const char *value)
{
	send_put(guest, key, value, SECOND);
	settle();
	return want_done(guest->lane);
}

static struct guest attach_settled(void)
{
	struct guest guest = attach();

	settle();
	return guest;
}

static void want_drop(unsigned peer, const char *key, uint64_t generation)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_DROP);
	struct msg_drop msg;

	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.key.size, strlen(key));
	assert_memory_equal(msg.key.data, key, msg.key.size);
	assert_int_equal(msg.generation, generation);
}

static void reply_done(unsigned peer, uint64_t generation)
{
	REPLY(want_ask(peer, MSG_TYPE_DROP), done, .generation = generation);
	settle();
}

static void reply_absent(unsigned peer)
{
	reply_error(want_ask(peer, MSG_TYPE_DROP), ERR_NOT_FOUND);
	settle();
}

static void answer_drops_absent(void)
{
	for (unsigned peer = 0; peer < PEERS; peer++) {
		while (count_asks(peer, MSG_TYPE_DROP) > 0)
			reply_absent(peer);
	}
}

static unsigned drops(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PEERS; i++)
		count += count_asks(i, MSG_TYPE_DROP);
	return count;
}

static uint32_t graves(void)
{
	return world.node->cluster.grave_count;
}

static void reply_drop_error(unsigned peer, int code)
{
	reply_error(want_ask(peer, MSG_TYPE_DROP), code);
	settle();
}

static enum dir_verdict peer_announces(
	unsigned peer, const char *key, uint64_t generation)
{
	return peer_calls(peer, (struct dir_call){.op = DIR_OP_ANNOUNCE,
					.id = id_of(key),
					.generation = generation,
					.wanted = 1,
					.role = DIR_KEEPER});
}

/* What peer 0 had stays removed, also when the directory forgets. */
static void want_no_return(uint64_t generation)
{
	turn(60 * SECOND);
	assert_int_equal(peer_announces(0, KEY, generation), DIR_REMOVED);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	assert_int_equal(peer_announces(0, KEY, generation), DIR_REMOVED);
}

static void guest_goes(struct guest *guest)
{
	sim_process_end(&world, guest->pid);
	settle();
}

/* Nothing is known under the epoch that begins: this node has announced all, peer 0 not. */
static void directory_forgets(void)
{
	fake.peers[0].has_finished = false;
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
}

/* ---- the directory knows ------------------------------------------------- */

static void test_own_object_is_gone_everywhere(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	assert_int_equal(entry_of(KEY), generation);
	send_remove(&guest, KEY);
	assert_int_equal(want_done(guest.lane), generation);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(used_bytes(), 0);
	assert_int_equal(drops(), 0);
	assert_int_equal(graves(), 0);
}

static void test_every_holder_ends_it_before_the_answer(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_copies(1, KEY, 50);
	assert_int_equal(
		peer_calls(2, (struct dir_call){.op = DIR_OP_JOIN, .id = id_of(KEY)}),
		DIR_DONE);
	send_remove(&guest, KEY);
	assert_int_equal(entry_of(KEY), 0);
	for (unsigned i = 0; i < PEERS; i++) {
		want_nothing(guest.lane);
		want_drop(i, KEY, 50);
		if (i == 2) /* it was only loading */
			reply_absent(i);
		else
			reply_done(i, 50);
	}
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(graves(), 0);
}

static void test_own_object_ends_before_its_copies_say_so(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	peer_copies(1, KEY, generation);
	send_remove(&guest, KEY);
	want_nothing(guest.lane);
	assert_int_equal(used_bytes(), 0);
	want_drop(1, KEY, generation);
	assert_int_equal(drops(), 1);
	reply_done(1, generation);
	assert_int_equal(want_done(guest.lane), generation);
}

static void test_absent_key_asks_nobody(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	send_remove(&guest, KEY);
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
	assert_int_equal(drops(), 0);
}

static void test_unfinished_put_never_ends(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	struct msg_put_started started = start(&guest, KEY, 5, 0);

	(void)state;
	send_remove(&other, KEY);
	assert_int_equal(want_done(other.lane), 0);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life);
	settle();
	want_error(guest.lane, ERR_REMOVED, "");
	assert_int_equal(entry_of(KEY), 0);
}

static void test_put_that_began_before_does_not_bring_it_back(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	struct msg_put_started started = start(&guest, KEY, 5, 0);

	(void)state;
	peer_keeps(0, KEY, 50);
	send_remove(&other, KEY);
	reply_done(0, 50);
	assert_int_equal(want_done(other.lane), 50);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life);
	settle();
	want_error(guest.lane, ERR_REMOVED, "");
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(used_bytes(), 0);
}

/* Somebody else has taken it out, and his word is on its way. */
static void test_object_that_the_directory_forgot_ends(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_TAKE_OUT,
					       .id = id_of(KEY),
					       .generation = generation}),
		DIR_DONE);
	send_remove(&guest, KEY);
	for (unsigned i = 0; i < PEERS; i++) {
		want_nothing(guest.lane);
		want_drop(i, KEY, generation);
		reply_absent(i);
	}
	assert_int_equal(want_done(guest.lane), generation);
	assert_int_equal(used_bytes(), 0);
}

/* ---- holders that cannot be told ----------------------------------------- */

static void test_who_was_away_hears_of_it_later(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_goes(0);
	send_remove(&guest, KEY);
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(graves(), 1);
	/* What it announces meanwhile is known to be gone. */
	assert_int_equal(peer_announces(0, KEY, 50), DIR_REMOVED);
	peer_comes(0);
	want_drop(0, KEY, 50);
	assert_int_equal(graves(), 1);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
	turn(10 * SECOND);
	assert_int_equal(drops(), 0);
}

static void test_connection_that_breaks_delays_nobody(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_copies(1, KEY, 50);
	send_remove(&guest, KEY);
	reply_done(1, 50);
	want_nothing(guest.lane);
	peer_goes(0);
	assert_int_equal(want_done(guest.lane), 50);
	/* Also if this node forgets: for an hour the directory knows. */
	turn(60 * SECOND);
	assert_int_equal(peer_announces(0, KEY, 50), DIR_REMOVED);
	peer_comes(0);
	want_drop(0, KEY, 50);
	reply_absent(0);
	assert_int_equal(graves(), 0);
}

static void test_directory_is_told_though_it_is_slow(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_keeps(0, "other", 60);
	send_remove(&guest, KEY);
	send_remove(&other, "other");
	fake.dir_waits = true;
	peer_goes(0);
	want_nothing(guest.lane);
	guest_goes(&guest);
	turn(3 * SECOND);
	assert_int_equal(want_done(other.lane), 60);
	fake.dir_waits = false;
	turn(60 * SECOND);
	assert_int_equal(peer_announces(0, KEY, 50), DIR_REMOVED);
	assert_int_equal(peer_announces(0, "other", 60), DIR_REMOVED);
}

static void test_holder_whose_disk_is_slow_is_told(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	send_remove(&guest, KEY);
	reply_drop_error(0, ERR_IO);
	want_error(guest.lane, ERR_IO, "another node's disk");
	/* And asked again, until it is done. */
	turn(2 * SECOND);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
}

static void test_holder_that_says_nothing_is_left_in_the_end(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	send_remove(&guest, KEY);
	turn(12 * SECOND);
	want_nothing(guest.lane);
	turn(2 * SECOND);
	want_error(guest.lane, ERR_UNAVAILABLE, "1 nodes");
	assert_int_equal(count_asks(0, MSG_TYPE_DROP), 2); /* the op's, and the grave's */
	reply_done(0, 50);
	assert_int_equal(graves(), 1);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
}

static void test_holder_that_refuses_is_asked_again(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	send_remove(&guest, KEY);
	reply_drop_error(0, ERR_TOO_MANY);
	assert_int_equal(want_done(guest.lane), 50);
	/* At once by its grave, and then once a second. */
	want_drop(0, KEY, 50);
	reply_drop_error(0, ERR_TOO_MANY);
	assert_int_equal(drops(), 0);
	turn(SECOND);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
}

/* A node that the directory names as a holder, and of which nobody has heard otherwise. */
static void test_holder_that_is_no_peer_gets_a_grave(void **state)
{
	struct guest guest = attach_settled();
	struct dir_call call = {
		.op = DIR_OP_ANNOUNCE,
		.id = id_of(KEY),
		.node = 0x999,
		.incarnation = 1,
		.generation = 50,
		.wanted = 1,
		.role = DIR_KEEPER,
	};
	struct fake_peer *through = &fake.peers[0];

	(void)state;
	turn(4 * SECOND); /* at the very start all would count as just heard of */
	through->dir.start(through->dir.ctx, &call);
	assert_int_equal(dir_mem_apply(&through->port, &call), 0);
	dir_mem_answer(&through->port, &call);
	send_remove(&guest, KEY);
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(graves(), 1);
	turn(60 * SECOND);
	assert_int_equal(peer_announces(0, KEY, 50), DIR_REMOVED);
}

/* The directory had forgotten it, and its keeper is none whom this node has met. */
static void test_object_of_an_unknown_keeper_gets_a_grave(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_announces_copy(1, KEY, 50, 5);
	send_remove(&guest, KEY);
	reply_absent(0);
	reply_done(1, 50);
	reply_absent(2);
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(graves(), 1);
	want_no_return(50);
}

/* ---- the directory does not know ----------------------------------------- */

static void test_forgetful_directory_is_not_believed(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	for (unsigned i = 0; i < PEERS; i++)
		want_drop(i, KEY, 0);
	reply_absent(1);
	reply_absent(2);
	want_nothing(guest.lane);
	reply_done(0, 60);
	answer_drops_absent();
	assert_int_equal(want_done(guest.lane), 60);
	/* The directory knows now, and hears of it once more if it forgets again. */
	assert_int_equal(peer_announces(0, KEY, 60), DIR_REMOVED);
	assert_int_equal(graves(), 1);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	assert_int_equal(peer_announces(0, KEY, 60), DIR_REMOVED);
	turn(3601 * SECOND);
	assert_int_equal(graves(), 0);
}

/* Its tombstone is gone before all who hold it have ended it, and may have announced it since. */
static void test_forgotten_while_holders_are_told(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_copies(1, KEY, 50);
	send_remove(&guest, KEY);
	want_drop(0, KEY, 50);
	want_drop(1, KEY, 50);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	peer_announces_copy(1, KEY, 50, 5);
	reply_done(0, 50);
	reply_done(1, 50);
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(peer_announces(1, KEY, 50), DIR_REMOVED);
}

/* By a clock that this node does not believe. */
static void test_all_are_asked_for_what_they_have_put(void **state)
{
	struct guest guest = attach_settled();
	uint64_t later = (world.wall_us + 2 * 86400 * 1000000ull) << GENERATION_SHIFT;
	struct fake_ask *ask;
	struct msg_drop msg;

	(void)state;
	fake.peers[1].generation = later;
	turn(SECOND);
	assert_true(world.node->master.last_generation < later);
	directory_forgets();
	send_remove(&guest, KEY);
	ask = want_ask(1, MSG_TYPE_DROP);
	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	assert_true(msg.before > later);
	ask = want_ask(0, MSG_TYPE_DROP);
	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	assert_true(msg.before < later);
}

/* The last to have it was not there when another was put over it, and removed. */
static void test_older_one_that_is_announced_before_the_tombstone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	reply_done(0, 60);
	answer_drops_absent();
	assert_int_equal(want_done(guest.lane), 60);
	dir_mem_flush(fake.mem, 0);
	assert_int_equal(peer_announces(1, KEY, 50), DIR_DONE);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
	want_drop(1, KEY, 50);
	assert_int_equal(peer_announces(1, KEY, 50), DIR_REMOVED);
}

/* What was put since stays. */
static void test_newer_one_outlives_the_tombstone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	reply_done(0, 60);
	answer_drops_absent();
	assert_int_equal(want_done(guest.lane), 60);
	dir_mem_flush(fake.mem, 0);
	assert_int_equal(peer_announces(1, KEY, 70), DIR_DONE);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 70);
}

static void test_nobody_has_it_and_all_were_asked(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	for (unsigned i = 0; i < PEERS; i++)
		reply_absent(i);
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
	assert_int_equal(graves(), 0);
}

/* Peer 1 says so before it has taken over what peer 0 had when it was told. */
static void handed_over_between_the_answers(void)
{
	reply_absent(1);
	reply_absent(2);
	peer_keeps(1, KEY, 50);
	reply_absent(0);
}

static void test_forgotten_and_handed_over_between_the_answers(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	handed_over_between_the_answers();
	assert_int_equal(entry_of(KEY), 0);
	for (unsigned i = 0; i < PEERS; i++)
		want_drop(i, KEY, 50);
	reply_absent(0);
	reply_absent(2);
	want_nothing(guest.lane);
	reply_done(1, 50);
	assert_int_equal(want_done(guest.lane), 50);
}

/* The directory had it when it was handed over, and may have it no more. */
static void test_forgotten_once_more_while_all_are_asked(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	dir_mem_flush(fake.mem, 0);
	reply_absent(0);
	want_nothing(guest.lane);
	for (unsigned i = 0; i < PEERS; i++) {
		want_drop(i, KEY, 0);
		reply_absent(i);
	}
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
}

static void test_of_several_generations_the_highest_is_buried(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_done(0, 60);
	reply_done(1, 70);
	reply_done(2, 0); /* an unfinished put */
	for (unsigned i = 0; i < PEERS; i++)
		want_drop(i, KEY, 70);
	answer_drops_absent();
	assert_int_equal(want_done(guest.lane), 70);
	assert_int_equal(peer_announces(0, KEY, 70), DIR_REMOVED);
}

static void test_removal_waits_for_a_node_that_may_have_it(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	peer_goes(0);
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	want_nothing(guest.lane);
	/* All are asked again, soon and when something has changed. */
	fake.peers[0].reachable = true;
	turn(SECOND);
	reply_absent(1);
	reply_absent(2);
	want_nothing(guest.lane);
	turn(100 * MS);
	reply_done(0, 60);
	reply_absent(1);
	reply_absent(2);
	answer_drops_absent(); /* once more, since one had it */
	assert_int_equal(want_done(guest.lane), 60);
}

static void test_removal_does_not_wait_for_ever(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	fake.peers[0].is_silent = true;
	send_remove(&guest, KEY);
	for (unsigned i = 0; i < 200; i++) {
		world.node->cluster.peers[fake.peers[0].place].heard_ns = world.now_ns;
		turn(100 * MS);
		for (unsigned peer = 1; peer < PEERS; peer++) {
			while (count_asks(peer, MSG_TYPE_DROP) > 0)
				reply_absent(peer);
		}
	}
	want_error(guest.lane, ERR_UNAVAILABLE, "1 could not be asked");
}

static void test_gone_node_delays_nobody(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	peer_goes(0);
	fake.peers[0].is_silent = true;
	turn(4 * SECOND);
	fake.peers[1].has_finished = false;
	turn(SECOND);
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
}

/* It ended the object, and the connection broke under its answer. */
static void test_node_that_did_not_answer_may_have_ended_it(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	peer_goes(0);
	want_nothing(guest.lane);
	peer_comes(0);
	for (unsigned i = 0; i < 3; i++) {
		answer_drops_absent();
		turn(100 * MS);
	}
	assert_int_equal(want_done(guest.lane), 0);
}

/* It may be back with the object, or without. */
static void test_node_that_did_not_answer_and_is_gone_is_waited_for(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	peer_goes(0);
	for (unsigned i = 0; i < 90; i++) {
		turn(100 * MS);
		answer_drops_absent();
	}
	want_nothing(guest.lane);
	for (unsigned i = 0; i < 20; i++) {
		turn(100 * MS);
		answer_drops_absent();
	}
	want_error(guest.lane, ERR_UNAVAILABLE, KEY);
}

static void test_removal_goes_on_without_a_directory(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	dir_mem_set_away(fake.mem, 0, true);
	send_remove(&guest, KEY);
	assert_int_equal(used_bytes(), 0);
	for (unsigned i = 0; i < PEERS; i++) {
		want_drop(i, KEY, 0);
		reply_absent(i);
	}
	assert_int_equal(want_done(guest.lane), generation);
	assert_int_equal(entry_of(KEY), generation);
	/* The entry goes when the directory is back. */
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
}

/* Peer 1 had nothing when it heard of it, and got a copy of peer 0, who had not heard yet. */
static void test_copy_that_is_made_while_all_are_told_ends_too(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	dir_mem_set_away(fake.mem, 0, true);
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	reply_done(0, 60);
	for (unsigned i = 0; i < PEERS; i++)
		want_drop(i, KEY, 60);
	reply_absent(0);
	reply_absent(2);
	want_nothing(guest.lane);
	reply_done(1, 60);
	/* Until nobody has it. */
	for (unsigned i = 0; i < PEERS; i++) {
		want_nothing(guest.lane);
		want_drop(i, KEY, 60);
		reply_absent(i);
	}
	assert_int_equal(want_done(guest.lane), 60);
}

static void test_copy_that_comes_here_while_all_are_told_ends_too(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	struct msg_found found;

	(void)state;
	dir_mem_set_away(fake.mem, 0, true);
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	send_get(other.lane, KEY, 0, SECOND);
	settle();
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 60, .size = 5);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), replica, .generation = 60, .size = 5,
		.expires_in_ns = UINT64_MAX, .value = text("value"));
	settle();
	WANT(other.lane, found, &found);
	SEND(other.lane, unpin, .slot = found.slot, .life = found.life);
	settle();
	assert_true(used_bytes() > 0);
	reply_done(0, 60);
	assert_int_equal(used_bytes(), 0);
	answer_drops_absent();
	assert_int_equal(want_done(guest.lane), 60);
}

/* The node's one call takes effect, and its answer is lost. */
static void lose_answer(void)
{
	struct list *first = list_first(&fake.port.queued);
	struct dir_call *call;

	assert_non_null(first);
	call = container_of(first, struct dir_call, list_entry);
	assert_int_equal(call->op, DIR_OP_TAKE_OUT);
	assert_int_equal(dir_mem_apply(&fake.port, call), 0);
	dir_mem_lose(&fake.port, call);
}

static void test_lost_answer_is_made_up_for(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_goes(0);
	fake.dir_waits = true;
	send_remove(&guest, KEY);
	lose_answer();
	settle();
	assert_int_equal(entry_of(KEY), 0);
	reply_absent(1);
	reply_absent(2);
	want_nothing(guest.lane);
	/* The directory knows the removal again, though not who had it. */
	fake.dir_waits = false;
	turn(200 * MS);
	want_drop(1, KEY, 50);
	want_drop(2, KEY, 50);
	reply_absent(1);
	reply_absent(2);
	assert_int_equal(want_done(guest.lane), 50);
	peer_comes(0);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
}

static void test_directory_that_does_not_answer_is_left(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	fake.dir_waits = true;
	send_remove(&guest, KEY);
	turn(9 * SECOND);
	want_nothing(guest.lane);
	turn(2 * SECOND);
	for (unsigned i = 0; i < PEERS; i++)
		reply_absent(i);
	assert_int_equal(want_done(guest.lane), generation);
	fake.dir_waits = false;
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
}

/* ---- who asked is gone --------------------------------------------------- */

static void test_removal_ends_though_its_client_did_before_the_directory(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	send_remove(&guest, KEY);
	guest_goes(&guest);
	fake.dir_waits = false;
	settle();
	assert_int_equal(entry_of(KEY), 0);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
}

static void test_removal_ends_though_its_client_did_and_no_answer_came(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	send_remove(&guest, KEY);
	guest_goes(&guest);
	lose_answer();
	settle();
	for (unsigned i = 0; i < PEERS; i++) {
		want_drop(i, KEY, 0);
		reply_absent(i);
	}
	fake.dir_waits = false;
}

static void test_holders_are_told_though_the_client_is_gone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_copies(1, KEY, 50);
	send_remove(&guest, KEY);
	reply_done(1, 50);
	guest_goes(&guest);
	assert_int_equal(graves(), 1);
	peer_goes(0); /* nobody knows whether it heard */
	peer_comes(0);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	assert_int_equal(graves(), 0);
	assert_int_equal(drops(), 0);
}

static void test_client_goes_while_its_removal_waits(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	peer_goes(0);
	send_remove(&guest, KEY);
	reply_absent(1);
	reply_absent(2);
	guest_goes(&guest);
	turn(SECOND);
	assert_int_equal(drops(), 0);
	assert_int_equal(world.node->ops_used, 0);
}

/* ---- an object whose time is over ---------------------------------------- */

/* The holders' clocks may be slower. */
static void test_holders_are_told_when_its_time_is_over(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops, .flags = PUT_SOFTPIN,
		.ttl_ns = 5 * SECOND, .timeout_ns = SECOND, .value = text("value"));
	settle();
	generation = want_done(guest.lane);
	peer_copies(0, KEY, generation);
	turn(4 * SECOND);
	assert_int_equal(drops(), 0);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
	want_drop(0, KEY, generation);
	reply_done(0, generation);
	assert_int_equal(drops(), 0);
}

/* A keeper that is gone takes nothing out. */
static void test_entry_outlasts_its_object_for_a_while_only(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops, .flags = PUT_SOFTPIN,
		.ttl_ns = 8 * SECOND, .timeout_ns = SECOND, .value = text("value"));
	settle();
	(void)want_done(guest.lane);
	node_dies();
	world.now_ns += 9 * SECOND;
	dir_mem_set_now(fake.mem, world.now_ns);
	assert_true(entry_of(KEY) > 0);
	world.now_ns += 2 * SECOND;
	dir_mem_set_now(fake.mem, world.now_ns);
	assert_int_equal(entry_of(KEY), 0);
	node_starts_again();
}

/* ---- an object in the place of another ----------------------------------- */

static void send_replace(struct guest *guest)
{
	SEND(guest->lane, put, .key = text(KEY), .op = ++guest->ops, .flags = PUT_REPLACE,
		.timeout_ns = SECOND, .value = text("newer"));
	settle();
}

static void test_put_that_replaces_has_the_old_one_ended(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_copies(1, KEY, 50);
	peer_copies(2, KEY, 50);
	peer_goes(2);
	send_replace(&guest);
	want_drop(0, KEY, 50);
	want_drop(1, KEY, 50);
	reply_done(0, 50);
	want_nothing(guest.lane);
	reply_drop_error(1, ERR_TOO_MANY);
	generation = want_done(guest.lane);
	assert_true(generation > 50);
	assert_int_equal(entry_of(KEY), generation);
	assert_int_equal(graves(), 2);
	want_drop(1, KEY, 50);
	reply_done(1, 50);
	peer_comes(2);
	want_drop(2, KEY, 50);
	reply_absent(2);
	assert_int_equal(graves(), 0);
}

static void reply_have_absent(unsigned peer)
{
	reply_error(want_ask(peer, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
}

/* Nobody else has what it has put, and it is not READY: another put does not take that for stale. */
static void test_put_meets_one_that_replaces_on_this_node(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	send_replace(&guest);
	want_drop(0, KEY, 50);
	generation = entry_of(KEY);
	send_put(&other, KEY, "value", SECOND);
	settle();
	want_error(other.lane, ERR_EXISTS, KEY);
	assert_int_equal(entry_of(KEY), generation);
	reply_done(0, 50);
	assert_int_equal(want_done(guest.lane), generation);
}

/* Who was putting in the place of a third died, perhaps before it had told anybody. */
static void test_put_that_replaces_one_cut_short_asks_all(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(1, KEY, 50);
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_PUBLISH,
					       .id = id_of(KEY),
					       .generation = 60,
					       .wanted = 1,
					       .replace = true}),
		DIR_DONE);
	peer_goes(0);
	send_replace(&guest);
	want_nothing(guest.lane);
	REPLY(want_ask(1, MSG_TYPE_HAVE), had, .generation = 50);
	reply_have_absent(2);
	want_drop(1, KEY, 50);
	reply_done(1, 50);
	reply_absent(2);
	want_nothing(guest.lane);
	reply_have_absent(1);
	reply_have_absent(2);
	generation = want_done(guest.lane);
	assert_true(generation > 60);
	assert_int_equal(entry_of(KEY), generation);
}

/* It was this node, by an earlier daemon. */
static void test_put_that_replaces_one_of_a_dead_daemon_asks_all(void **state)
{
	struct guest guest = attach_settled();
	struct fake_peer *through = &fake.peers[0];
	struct dir_call call = {
		.op = DIR_OP_PUBLISH,
		.id = id_of(KEY),
		.node = THIS_ID,
		.incarnation = 7,
		.generation = 60,
		.wanted = 1,
		.replace = true,
	};

	(void)state;
	peer_keeps(1, KEY, 50);
	through->dir.start(through->dir.ctx, &call);
	assert_int_equal(dir_mem_apply(&through->port, &call), 0);
	dir_mem_answer(&through->port, &call);
	assert_int_equal(call.verdict, DIR_DONE);
	send_replace(&guest);
	want_nothing(guest.lane);
	for (unsigned i = 0; i < PEERS; i++)
		reply_have_absent(i);
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

/* One whose put is over is replaced without that, though it is not confirmed yet. */
static void test_put_that_replaces_one_of_this_node_asks_nobody(void **state)
{
	struct guest guest = attach_settled();
	uint64_t old = put_here(&guest, KEY, "value");

	(void)state;
	send_replace(&guest);
	assert_true(want_done(guest.lane) > old);
}

static void test_client_goes_while_the_old_one_ends(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	send_replace(&guest);
	guest_goes(&guest);
	assert_true(graves() > 0);
	peer_goes(0); /* nobody knows whether it heard */
	peer_comes(0);
	want_drop(0, KEY, 50);
	while (count_asks(0, MSG_TYPE_DROP) > 0)
		reply_absent(0);
	assert_int_equal(graves(), 0);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
}

/* A peer takes out what has just been put here. */
static uint64_t peer_takes_out(unsigned peer)
{
	uint64_t generation = entry_of(KEY);

	assert_true(generation > 0);
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_TAKE_OUT,
						  .id = id_of(KEY),
						  .generation = generation,
						  .bury_ns = SECOND * 60}),
		DIR_DONE);
	return generation;
}

/* Who hears that the newer is over takes the older for over as well. */
static void test_drop_waits_for_what_the_put_replaced(void **state)
{
	struct guest guest = attach_settled();
	uint64_t old = put_here(&guest, KEY, "value"), generation;
	struct msg_done done;

	(void)state;
	peer_copies(0, KEY, old);
	send_replace(&guest);
	want_drop(0, KEY, old);
	link_opens(1);
	generation = peer_takes_out(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	ASK(1, 2, drop, .key = text(KEY), .generation = generation);
	assert_null(find_answer(1, 1));
	assert_null(find_answer(1, 2)); /* nor for who comes second */
	reply_done(0, old);
	WANT_ANSWER(1, 1, done, &done);
	assert_int_equal(done.generation, generation);
	assert_non_null(find_answer(1, 2));
	want_error(guest.lane, ERR_REMOVED, "");
	assert_int_equal(used_bytes(), 0);
}

static void test_drop_does_not_wait_for_ever(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops, .flags = PUT_REPLACE,
		.timeout_ns = 60 * SECOND, .value = text("newer"));
	settle();
	want_drop(0, KEY, 50);
	link_opens(1);
	generation = peer_takes_out(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	turn(5 * SECOND);
	assert_null(find_answer(1, 1));
	turn(6 * SECOND);
	assert_int_equal(want_answer_error(1, 1), ERR_UNAVAILABLE);
}

static void test_removal_waits_for_what_a_put_of_the_node_replaced(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	uint64_t old = put_here(&guest, KEY, "value");

	(void)state;
	peer_copies(0, KEY, old);
	send_replace(&guest);
	want_drop(0, KEY, old);
	send_remove(&other, KEY);
	want_nothing(other.lane);
	reply_done(0, old);
	assert_true(want_done(other.lane) > old);
	want_error(guest.lane, ERR_REMOVED, "");
	assert_int_equal(used_bytes(), 0);
}

/* ---- one that is published, or not, without an answer ---------------------- */

/* What waits takes effect, if it does, and no answer comes; nor to anything else. */
static void directory_goes_silent(bool decides)
{
	struct list *first;

	while ((first = list_first(&fake.port.queued)) != NULL) {
		struct dir_call *call = container_of(first, struct dir_call, list_entry);

		if (decides) {
			assert_int_equal(dir_mem_apply(&fake.port, call), 0);
			assert_int_equal(call->err, 0);
		}
		dir_mem_lose(&fake.port, call);
	}
	dir_mem_set_away(fake.mem, 0, true);
	fake.dir_waits = false;
}

/* To others, and not to this node yet. */
static void directory_is_there(void)
{
	fake.dir_waits = true;
	dir_mem_set_away(fake.mem, 0, false);
}

static void directory_is_back(void)
{
	directory_is_there();
	fake.dir_waits = false;
	turn(SECOND);
}

/* It was told that this failed. The generation that it was given, if it was published. */
static uint64_t replace_unheard(struct guest *guest, bool decides)
{
	fake.dir_waits = true;
	send_replace(guest);
	directory_goes_silent(decides);
	want_nothing(guest->lane);
	turn(2 * SECOND);
	want_error(guest->lane, ERR_UNAVAILABLE, KEY);
	assert_int_equal(drops(), 0);
	return entry_of(KEY);
}

static void want_drop_below(unsigned peer, const char *key, uint64_t before)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_DROP);
	struct msg_drop msg;

	want_drop(peer, key, 0);
	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.before, before);
}

/* Whoever has it, whom nobody can name any more. */
static void want_all_told(uint64_t generation)
{
	for (unsigned i = 0; i < PEERS; i++) {
		want_drop_below(i, KEY, generation);
		reply_absent(i);
	}
	assert_int_equal(drops(), 0);
	assert_int_equal(graves(), 0);
}

static void test_what_a_put_has_replaced_unheard_ends(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	generation = replace_unheard(&guest, true);
	assert_true(generation > 50);
	directory_is_back();
	assert_int_equal(entry_of(KEY), 0);
	want_all_told(generation);
	turn(60 * SECOND);
	assert_int_equal(peer_announces(0, KEY, 50), DIR_REMOVED);
	assert_true(put_here(&guest, KEY, "value") > generation);
}

static void test_what_a_put_has_not_replaced_stays(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	assert_int_equal(replace_unheard(&guest, false), 50);
	directory_is_back();
	assert_int_equal(entry_of(KEY), 50);
	assert_int_equal(drops(), 0);
	assert_int_equal(graves(), 0);
}

/* Its keeper is this node. */
static void test_own_object_that_a_put_has_replaced_unheard_ends(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	(void)put_here(&guest, KEY, "value");
	generation = replace_unheard(&guest, true);
	assert_get(&guest, KEY, "value");
	directory_is_back();
	assert_int_equal(entry_of(KEY), 0);
	want_all_told(generation);
	assert_int_equal(used_bytes(), 0);
}

static void test_own_object_that_a_put_has_not_replaced_stays(void **state)
{
	struct guest guest = attach_settled();
	uint64_t old = put_here(&guest, KEY, "value");

	(void)state;
	assert_int_equal(replace_unheard(&guest, false), old);
	directory_is_back();
	assert_int_equal(entry_of(KEY), old);
	assert_int_equal(drops(), 0);
	assert_get(&guest, KEY, "value");
}

/* By who looked for it at this node, say, and found nothing. */
static void test_put_that_has_replaced_unheard_is_taken_out_by_another(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	(void)replace_unheard(&guest, true);
	directory_is_there();
	generation = peer_takes_out(1);
	directory_is_back();
	want_all_told(generation);
}

static void test_put_that_has_replaced_unheard_is_replaced(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	generation = replace_unheard(&guest, true);
	directory_is_there();
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_PUBLISH,
					       .id = id_of(KEY),
					       .generation = generation + 1,
					       .wanted = 1,
					       .replace = true}),
		DIR_DONE);
	directory_is_back();
	assert_int_equal(entry_of(KEY), generation + 1);
	want_all_told(generation);
}

/* By rare chance another node gave the same number. */
static void test_put_of_another_that_has_the_same_number_stays(void **state)
{
	struct guest guest = attach_settled();
	struct dir_call *call;
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	send_replace(&guest);
	call = container_of(list_first(&fake.port.queued), struct dir_call, list_entry);
	assert_int_equal(call->op, DIR_OP_PUBLISH);
	generation = call->generation;
	directory_goes_silent(false);
	turn(2 * SECOND);
	want_error(guest.lane, ERR_UNAVAILABLE, KEY);
	directory_is_there();
	assert_int_equal(peer_announces(1, KEY, generation), DIR_REPLACED);
	directory_is_back();
	assert_int_equal(entry_of(KEY), generation);
	assert_int_equal(drops(), 0);
}

static void test_client_goes_while_its_put_is_published_unheard(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	send_replace(&guest);
	guest_goes(&guest);
	directory_goes_silent(true);
	generation = entry_of(KEY);
	assert_true(generation > 50);
	directory_is_back();
	assert_int_equal(entry_of(KEY), 0);
	want_all_told(generation);
}

/* The answer to the first time is not remembered for ever. */
static void test_put_that_is_published_again_much_later_asks_all(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops, .flags = PUT_REPLACE,
		.timeout_ns = 60 * SECOND, .value = text("newer"));
	settle();
	directory_goes_silent(true);
	turn(DIR_REPEAT_NS + SECOND);
	directory_is_back();
	want_nothing(guest.lane);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = 50);
	reply_have_absent(1);
	reply_have_absent(2);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
	for (unsigned i = 1; i < PEERS; i++)
		reply_absent(i);
	want_nothing(guest.lane);
	for (unsigned i = 0; i < PEERS; i++)
		reply_have_absent(i);
	generation = want_done(guest.lane);
	assert_true(generation > 50);
	assert_int_equal(entry_of(KEY), generation);
}

/* Who hears that it is over takes what it has replaced for over as well. */
static void test_drop_waits_for_a_put_that_is_published_unheard(void **state)
{
	struct guest guest = attach_settled();
	struct msg_done done;
	uint64_t generation;

	(void)state;
	peer_keeps(0, KEY, 50);
	fake.dir_waits = true;
	send_replace(&guest);
	directory_goes_silent(true);
	link_opens(1);
	directory_is_there();
	generation = peer_takes_out(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	assert_null(find_answer(1, 1));
	directory_is_back();
	WANT_ANSWER(1, 1, done, &done);
	assert_int_equal(done.generation, generation);
	want_error(guest.lane, ERR_REMOVED, "");
	want_all_told(generation);
}

/* ---- a put that was published by an earlier daemon ------------------------ */

/* The directory has it, and the daemon dies before it hears of that. */
static struct msg_put_started publish_and_die(struct guest *guest)
{
	struct msg_put_started started = start(guest, KEY, 5, PUT_SOFTPIN);
	struct list *first;

	fake.dir_waits = true;
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	settle();
	while ((first = list_first(&fake.port.queued)) != NULL)
		assert_int_equal(
			dir_mem_apply(&fake.port,
				container_of(first, struct dir_call, list_entry)),
			0);
	node_dies();
	fake.dir_waits = false;
	assert_true(entry_of(KEY) > 0);
	return started;
}

/* Its answer was lost with the daemon, and the new one has yet to hear of the others. */
static void test_end_of_a_put_that_is_ready_waits_for_nobody(void **state)
{
	struct guest guest = attach_settled();
	struct msg_put_started started = start(&guest, KEY, 5, PUT_SOFTPIN);
	uint64_t generation;

	(void)state;
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	settle();
	generation = want_done(guest.lane);
	node_dies();
	for (unsigned i = 0; i < PEERS; i++)
		fake.peers[i].reachable = false;
	node_starts_again();
	hello(&guest, guest.welcome.token, 0);
	WANT(guest.lane, welcome, &guest.welcome);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	turn(2 * SECOND);
	assert_int_equal(want_done(guest.lane), generation);
	assert_int_equal(entry_of(KEY), generation);
}

/* The new one is not sure of the others, and the put's time is over. */
static void test_late_put_of_an_earlier_daemon_is_undone(void **state)
{
	struct guest guest = attach_settled();
	struct msg_put_started started = publish_and_die(&guest);

	(void)state;
	for (unsigned i = 0; i < PEERS; i++)
		fake.peers[i].reachable = false;
	node_starts_again();
	hello(&guest, guest.welcome.token, 0);
	WANT(guest.lane, welcome, &guest.welcome);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	turn(2 * SECOND);
	want_error(guest.lane, ERR_UNAVAILABLE, "not every node was heard");
	assert_int_equal(entry_of(KEY), 0);
}

static void test_put_whose_writer_died_with_the_daemon_is_undone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	(void)publish_and_die(&guest);
	sim_process_end(&world, guest.pid);
	node_starts_again();
	turn(SECOND);
	assert_int_equal(world.recovery.dropped[DROP_WRITER_GONE], 1);
	assert_int_equal(entry_of(KEY), 0);
}

/* It told all that it may be back soon, and this node was not there to hear it. */
static void test_put_waits_for_a_keeper_that_left_before_the_start(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_ANNOUNCE,
					       .id = id_of(KEY),
					       .generation = 50,
					       .size = 5,
					       .flags = DIR_SOFTPIN,
					       .wanted = 1,
					       .role = DIR_KEEPER}),
		DIR_DONE);
	(void)peer_calls(0, (struct dir_call){.op = DIR_OP_RESIGN});
	fake.peers[0].reachable = false;
	node_dies();
	node_starts_again();
	hello(&guest, guest.welcome.token, 0);
	WANT(guest.lane, welcome, &guest.welcome);
	send_put(&guest, KEY, "value", 10 * SECOND);
	turn(2 * SECOND);
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), 50);
	turn(GONE_NS);
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

/* ---- what comes about while a put is being published ---------------------- */

static void all_have_nothing(void)
{
	for (unsigned i = 0; i < PEERS; i++)
		reply_have_absent(i);
}

/* What was announced meanwhile may have replaced it. */
static void test_epoch_that_was_not_complete_when_it_was_sent(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	directory_forgets();
	fake.dir_waits = true;
	send_put(&guest, KEY, "value", 10 * SECOND);
	settle();
	fake.peers[0].has_finished = true;
	turn(SECOND);
	fake.dir_waits = false;
	settle();
	want_nothing(guest.lane);
	all_have_nothing();
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

static struct dir_call *queued_call(enum dir_op op)
{
	list_for_each (at, &fake.port.queued) {
		struct dir_call *call = container_of(at, struct dir_call, list_entry);

		if (call->op == op)
			return call;
	}
	return NULL;
}

/* To others its entry was that of a node that is gone. */
static void test_node_that_is_no_member_when_its_put_was_published(void **state)
{
	struct guest guest = attach_settled();
	struct dir_call *call;

	(void)state;
	fake.dir_waits = true;
	send_put(&guest, KEY, "value", 10 * SECOND);
	turn(4 * SECOND);
	call = queued_call(DIR_OP_PUBLISH);
	assert_non_null(call);
	assert_int_equal(dir_mem_apply(&fake.port, call), 0);
	dir_mem_answer(&fake.port, call);
	settle();
	want_nothing(guest.lane);
	fake.dir_waits = false;
	settle();
	want_nothing(guest.lane);
	all_have_nothing();
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

/* ---- gates --------------------------------------------------------------- */

static void test_gates_delay_what_is_done_once(void **state)
{
	struct guest guest = attach_settled();
	uint64_t hits, fired;

	(void)state;
	peer_keeps(0, KEY, 50);
	assert_int_equal(
		fault_arm(&world.faults, "NodeBeforeCondemn", FAULT_SLEEP, 1000, 1, 1),
		0);
	assert_int_equal(
		fault_arm(&world.faults, "NodeAfterCondemn", FAULT_SLEEP, 1000, 1, 1), 0);
	send_remove(&guest, KEY);
	assert_int_equal(entry_of(KEY), 50);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
	reply_done(0, 50);
	turn(999 * MS);
	want_nothing(guest.lane);
	turn(MS);
	assert_int_equal(want_done(guest.lane), 50);
	assert_int_equal(
		fault_status(&world.faults, "NodeAfterCondemn", &hits, &fired), 0);
	assert_int_equal(hits, 1);
}

static void test_gate_that_fails_leaves_nothing(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	assert_int_equal(fault_arm(&world.faults, "NodeAfterCondemn", FAULT_RETURN_ERROR,
				 ERR_RPC_FAIL, 1, 1),
		0);
	send_remove(&guest, KEY);
	reply_done(0, 50);
	want_error(guest.lane, ERR_RPC_FAIL, "injected");
	assert_int_equal(world.node->ops_used, 0);
}

/* ---- many at once -------------------------------------------------------- */

static int setup_many(void **state)
{
	const struct sim_setup setup = {
		.pool_size = POOL, .nslots = 4096, .seed = 1, .tweak = NULL};

	(void)state;
	sim_world_open(&world, &setup);
	world.config.max_ops = 16384;
	return fake_start();
}

#define MANY 3000u

static void send_many(struct guest *guest)
{
	static unsigned char buffer[MSG_SIZE_MAX];
	struct msg_pack pack;

	msg_pack_init(&pack, buffer, sizeof(buffer));
	for (unsigned i = 0; i < MANY; i++) {
		char key[16];
		struct msg_remove msg;

		(void)snprintf(key, sizeof(key), "k%u", i);
		msg = (struct msg_remove){.key = text(key)};
		msg_pack_add(&pack, msg_remove_encode(msg_pack_tail(&pack),
					    msg_pack_room(&pack), &msg));
	}
	assert_true(sim_send(
		&world, guest->lane, buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH)));
}

/* More asks than there are: those that find none wait, and all come to their end. */
static void test_batches_wait_for_asks(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	struct guest *both[] = {&guest, &other};
	bool was_full = false;

	(void)state;
	directory_forgets();
	send_many(&guest);
	send_many(&other);
	settle();
	while (drops() > 0) {
		was_full |= world.node->cluster.asks_used == ASK_LIMIT;
		for (unsigned i = 0; i < PEERS; i++) {
			while (find_ask(i, MSG_TYPE_DROP) != NULL)
				reply_error(find_ask(i, MSG_TYPE_DROP), ERR_NOT_FOUND);
		}
		turn(200 * MS);
	}
	assert_true(was_full);
	for (unsigned i = 0; i < 2; i++) {
		struct msg_batch_done done;

		WANT(both[i]->lane, batch_done, &done);
		assert_int_equal(done.count, MANY);
	}
}

/* ---- what peers ask ------------------------------------------------------ */

static void test_drop_ends_that_generation_alone(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");
	struct msg_done done;

	(void)state;
	link_opens(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation - 1);
	assert_int_equal(want_answer_error(1, 1), ERR_NOT_FOUND);
	assert_get(&guest, KEY, "value");
	ASK(1, 2, drop, .key = text(KEY), .generation = generation);
	WANT_ANSWER(1, 2, done, &done);
	assert_int_equal(done.generation, generation);
	assert_int_equal(used_bytes(), 0);
	assert_int_equal(drops(), 0); /* nobody is asked further */
}

/* It may have been given before what it finds here was put. */
static void test_drop_of_any_ends_nothing_that_comes_later(void **state)
{
	struct guest guest = attach_settled();
	struct index_key key = key_of(world.node, KEY, strlen(KEY));
	uint64_t generation = put_here(&guest, KEY, "value");
	struct msg_done done;

	(void)state;
	(void)start(&guest, "unfinished", 5, 0);
	link_opens(1);
	ASK(1, 1, drop, .key = text("unfinished"), .before = UINT64_MAX);
	assert_int_equal(want_answer_error(1, 1), ERR_NOT_FOUND);
	ASK(1, 2, drop, .key = text(KEY), .before = generation);
	assert_int_equal(want_answer_error(1, 2), ERR_NOT_FOUND);
	assert_int_equal(generation_here(world.node, &key), generation);
	ASK(1, 3, drop, .key = text(KEY), .before = generation + 1);
	WANT_ANSWER(1, 3, done, &done);
	assert_int_equal(done.generation, generation);
	assert_int_equal(generation_here(world.node, &key), 0);
}

/* It has been published and waits to be confirmed: then the removal comes. */
static void test_drop_ends_a_put_that_is_being_published(void **state)
{
	struct guest guest = attach_settled();
	struct msg_done done;
	uint64_t generation;

	(void)state;
	directory_forgets();
	send_put(&guest, KEY, "value", 10 * SECOND);
	settle();
	generation = entry_of(KEY);
	assert_true(generation > 0);
	link_opens(1);
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_TAKE_OUT,
					       .id = id_of(KEY),
					       .generation = generation,
					       .bury_ns = SECOND * 60}),
		DIR_DONE);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	WANT_ANSWER(1, 1, done, &done);
	assert_int_equal(done.generation, generation);
	for (unsigned i = 0; i < PEERS; i++)
		reply_error(want_ask(i, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	turn(SECOND);
	want_error(guest.lane, ERR_REMOVED, "");
	assert_int_equal(used_bytes(), 0);
}

/* Under the epoch that has begun one has not announced yet, and may be away. */
static void test_who_was_told_keeps_a_tombstone(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value"),
		 other = put_here(&guest, "other", "value");

	(void)state;
	directory_forgets();
	link_opens(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation, .before = UINT64_MAX);
	ASK(1, 2, drop, .key = text("other"), .generation = other); /* gave way */
	assert_int_equal(graves(), 1);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	assert_int_equal(peer_announces(0, KEY, generation), DIR_REMOVED);
	assert_int_equal(peer_announces(0, "other", other), DIR_DONE);
}

/* It is gone, so that what it has counts as absent, and comes back before the hour is over. */
static void test_node_that_had_not_announced_brings_nothing_back(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	directory_forgets();
	peer_goes(0);
	turn(4 * SECOND);
	generation = put_here(&guest, KEY, "value");
	send_remove(&guest, KEY);
	assert_int_equal(want_done(guest.lane), generation);
	want_no_return(50);
}

static void meets_a_stale_entry(void)
{
	directory_forgets();
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_PUBLISH,
					       .id = id_of(KEY),
					       .generation = 100,
					       .wanted = 1}),
		DIR_DONE);
	peer_goes(1);
}

static void put_past_it(struct guest *guest)
{
	send_put(guest, KEY, "value", 10 * SECOND);
	settle();
	for (unsigned i = 0; i < PEERS; i += 2)
		reply_error(
			want_ask(i, MSG_TYPE_HAVE), ERR_NOT_FOUND); /* the stale one */
	settle();
	assert_true(entry_of(KEY) > 100);
}

/* A put that meets a stale entry, and takes it out, does not know of an older object that was not
 * announced again yet. */
static void test_stale_entry_of_a_forgotten_key_leaves_no_tombstone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	meets_a_stale_entry();
	put_past_it(&guest);
	assert_int_equal(peer_announces(1, KEY, 50), DIR_REPLACED);
	for (unsigned i = 0; i < PEERS; i += 2)
		reply_error(want_ask(i, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	turn(10 * SECOND);
	assert_int_equal(entry_of(KEY), 50);
}

/* But if it was removed, and the directory is to have a tombstone, it has it before the put. */
static void test_stale_entry_of_what_was_removed_leaves_one(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	meets_a_stale_entry();
	world.node->cluster.errand_retry_ns = world.now_ns + 60 * SECOND;
	bury_later(world.node, KEY, (uint32_t)strlen(KEY), 100, GRAVE_OBJECT);
	put_past_it(&guest);
	assert_int_equal(peer_announces(1, KEY, 50), DIR_REMOVED);
}

/* To who meets what it publishes it would be gone. */
static void test_who_is_no_member_any_more_does_not_publish(void **state)
{
	struct guest guest = attach_settled();
	const struct dir_call *call;

	(void)state;
	fake.dir_waits = true;
	turn(4 * SECOND);
	send_put(&guest, KEY, "value", 10 * SECOND);
	settle();
	list_for_each (at, &fake.port.queued) {
		call = container_of(at, struct dir_call, list_entry);
		assert_int_not_equal(call->op, DIR_OP_PUBLISH);
	}
	fake.dir_waits = false;
	settle();
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

/* What undoes it comes before what was to be undone. */
static void test_late_put_leaves_no_entry_though_its_publishing_is_later(void **state)
{
	struct guest guest = attach_settled();
	struct dir_call *publish;

	(void)state;
	fake.dir_waits = true;
	send_put(&guest, KEY, "value", SECOND);
	publish = container_of(
		list_first(&fake.port.queued), struct dir_call, list_entry);
	assert_int_equal(publish->op, DIR_OP_PUBLISH);
	turn(2 * SECOND);
	want_error(guest.lane, ERR_UNAVAILABLE, KEY);
	list_move_tail(&fake.port.queued, &publish->list_entry);
	fake.dir_waits = false;
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
}

/* Forgotten, and put elsewhere before it was announced again: the later of the two gives way, and
 * its tombstone would end the earlier. */
static void test_put_that_gave_way_leaves_no_tombstone(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	dir_mem_flush(fake.mem, 0);
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_PUBLISH,
					       .id = id_of(KEY),
					       .generation = generation + 1,
					       .wanted = 1}),
		DIR_DONE);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), generation);
	want_drop(0, KEY, generation + 1);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	announce_all(world.node);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), generation);
	assert_get(&guest, KEY, "value");
	reply_done(0, generation + 1);
	assert_int_equal(graves(), 0);
}

/* All but peer 2 are there from the start. */
static int setup_peers_one_unknown(void **state)
{
	const struct sim_setup setup = {.pool_size = POOL, .nslots = 4096, .seed = 1};
	int err;

	(void)state;
	sim_world_open(&world, &setup);
	fake_open();
	for (unsigned i = 0; i < 2; i++)
		peer_joins(i, 3600 * SECOND);
	err = sim_start_daemon(&world);
	if (err == 0)
		turn(SECOND);
	return err;
}

/* Who could not tell this node what it had removed may have died before they met. */
static void test_what_is_here_is_announced_to_whom_this_node_meets(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	assert_int_equal(peer_calls(2, (struct dir_call){.op = DIR_OP_TAKE_OUT,
					       .id = id_of(KEY),
					       .generation = generation,
					       .lost = true}),
		DIR_DONE);
	assert_int_equal(peer_announces(2, KEY, generation + 1), DIR_DONE);
	turn(SECOND);
	assert_int_not_equal(used_bytes(), 0);
	peer_joins(2, 3600 * SECOND);
	peer_comes(2);
	assert_int_equal(used_bytes(), 0);
}

static uint64_t put_durable(struct guest *guest, const char *key)
{
	SEND(guest->lane, put, .key = text(key), .op = ++guest->ops,
		.flags = PUT_SOFTPIN | PUT_DURABLE, .timeout_ns = SECOND,
		.value = text("value"));
	turn(SECOND);
	return want_done(guest->lane);
}

static void test_answers_wait_for_the_disk(void **state)
{
	struct guest guest = attach_settled();
	uint64_t first = put_durable(&guest, KEY), second = put_durable(&guest, "other");
	struct msg_done done;

	(void)state;
	assert_true(generation_on_disk(first));
	link_opens(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = first);
	assert_null(find_answer(1, 1));
	ASK(1, 2, drop, .key = text(KEY), .generation = first);
	assert_null(find_answer(1, 2)); /* nor is it gone for who comes second */
	turn(SECOND);
	WANT_ANSWER(1, 1, done, &done);
	assert_int_equal(want_answer_error(1, 2), ERR_NOT_FOUND);
	assert_false(generation_on_disk(first));
	peer_copies(0, "other", second);
	send_remove(&guest, "other");
	turn(SECOND);
	want_nothing(guest.lane);
	reply_done(0, second);
	assert_int_equal(want_done(guest.lane), second);
	assert_false(generation_on_disk(second));
}

static uint64_t put_large(struct guest *guest, const char *key)
{
	struct msg_put_started started;

	send_start(guest, key, MIB / 2, PUT_SOFTPIN, 5 * SECOND);
	turn(SECOND);
	WANT(guest->lane, put_started, &started);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = 5 * SECOND);
	settle();
	return want_done(guest->lane);
}

/* Only its record has the key, which the others are to be told. */
static void test_what_is_only_on_disk_and_replaces_another_has_that_ended(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_large(&guest, KEY);
	char other[16];

	(void)state;
	for (unsigned i = 0; stat_of(&guest, KEY).flags & STAT_IN_POOL; i++) {
		assert_in_range(i, 0, 30);
		(void)snprintf(other, sizeof(other), "c%u", i);
		(void)put_large(&guest, other);
	}
	dir_mem_flush(fake.mem, 0);
	assert_int_equal(peer_announces(0, KEY, 50), DIR_DONE);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), generation);
	want_drop(0, KEY, 50);
	reply_done(0, 50);
}

static void test_client_may_not_drop(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	SEND(guest.lane, drop, .key = text(KEY), .generation = 1);
	want_error(guest.lane, ERR_NOT_PERMITTED, "");
}

/* A link that breaks while what it asked waits at a fault's gate. */
static void test_link_breaks_under_a_drop(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");

	(void)state;
	assert_int_equal(
		fault_arm(&world.faults, "NodeBeforeCondemn", FAULT_SLEEP, 1000, 1, 1),
		0);
	link_opens(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	assert_null(find_answer(1, 1));
	assert_int_equal(world.node->cluster.lanes_used, 1);
	link_closes(1);
	assert_int_equal(world.node->cluster.lanes_used, 0);
	turn(2 * SECOND);
	assert_get(&guest, KEY, "value");
	link_opens(1);
	ASK(1, 1, drop, .key = text(KEY), .generation = generation);
	assert_non_null(find_answer(1, 1));
}

/* ---- since the start ----------------------------------------------------- */

static int setup_peers_one_unheard(void **state)
{
	const struct sim_setup setup = {.pool_size = POOL, .nslots = 4096, .seed = 1};
	int err;

	(void)state;
	sim_world_open(&world, &setup);
	fake_open();
	for (unsigned i = 0; i < PEERS; i++)
		peer_joins(i, 3600 * SECOND);
	fake.peers[1].reachable = false;
	err = sim_start_daemon(&world);
	if (err == 0)
		turn(SECOND / 10);
	return err;
}

/* Its generation could be below that of an object which the others have removed. */
static void test_put_waits_until_all_members_were_heard(void **state)
{
	struct guest guest = attach_settled();
	uint64_t later = world.node->master.last_generation + (1ull << 40);

	(void)state;
	send_put(&guest, KEY, "value", 10 * SECOND);
	settle();
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), 0);
	fake.peers[1].generation = later;
	peer_comes(1);
	for (unsigned i = 0; i < PEERS; i++)
		if (find_ask(i, MSG_TYPE_HAVE) != NULL)
			reply_error(find_ask(i, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	turn(SECOND);
	assert_true(want_done(guest.lane) > later);
}

/* ---- durable ------------------------------------------------------------- */

/* It could be read until then, and was. */
static void test_durable_put_that_fails_ends_everywhere(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	tier.trouble.io = 100;
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops,
		.flags = PUT_SOFTPIN | PUT_DURABLE, .timeout_ns = 10 * SECOND,
		.value = text("value"));
	settle();
	generation = entry_of(KEY);
	peer_copies(0, KEY, generation);
	turn(100 * MS);
	want_nothing(guest.lane);
	want_drop(0, KEY, generation);
	reply_done(0, generation);
	tier.trouble.io = 0;
	turn(3 * SECOND);
	want_error(guest.lane, ERR_IO, "could not be made durable");
	assert_int_equal(entry_of(KEY), 0);
	(void)put_here(&guest, KEY, "again");
}

/* What is here is not announced yet. */
static void test_directory_that_went_back_has_an_older_one(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_here(&guest, KEY, "value");
	struct dir_call *call;

	(void)state;
	fake.dir_waits = true;
	dir_mem_flush(fake.mem, 0);
	peer_keeps(0, KEY, 50);
	send_remove(&guest, KEY);
	settle();
	call = container_of(list_first(&fake.port.queued), struct dir_call, list_entry);
	assert_int_equal(call->op, DIR_OP_TAKE_OUT);
	assert_int_equal(dir_mem_apply(&fake.port, call), 0);
	dir_mem_answer(&fake.port, call);
	settle();
	fake.dir_waits = false;
	for (unsigned i = 0; i < PEERS; i++)
		want_drop(i, KEY, 0);
	reply_done(0, 50);
	reply_absent(1);
	reply_absent(2);
	for (unsigned i = 0; i < PEERS; i++) {
		want_drop(i, KEY, generation);
		reply_absent(i);
	}
	assert_int_equal(want_done(guest.lane), generation);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
}

static void test_put_waits_for_a_dead_member_until_it_is_gone(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	send_put(&guest, KEY, "value", 10 * SECOND);
	turn(2 * SECOND);
	want_nothing(guest.lane);
	turn(2 * SECOND);
	assert_int_equal(entry_of(KEY), want_done(guest.lane));
}

/* All who can be asked have nothing, but the directory has taken out what was there. */
static void test_removal_that_was_not_answered_is_not_absent(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(0, KEY, 50);
	peer_goes(0);
	turn(4 * SECOND);
	fake.dir_waits = true;
	send_remove(&guest, KEY);
	lose_answer();
	settle();
	reply_absent(1);
	reply_absent(2);
	want_nothing(guest.lane);
	fake.dir_waits = false;
	turn(200 * MS);
	reply_absent(1);
	reply_absent(2);
	assert_int_equal(want_done(guest.lane), 50);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_own_object_is_gone_everywhere),
	AMONG_PEERS(test_every_holder_ends_it_before_the_answer),
	AMONG_PEERS(test_own_object_ends_before_its_copies_say_so),
	AMONG_PEERS(test_absent_key_asks_nobody),
	AMONG_PEERS(test_unfinished_put_never_ends),
	AMONG_PEERS(test_put_that_began_before_does_not_bring_it_back),
	AMONG_PEERS(test_object_that_the_directory_forgot_ends),
	AMONG_PEERS(test_who_was_away_hears_of_it_later),
	AMONG_PEERS(test_connection_that_breaks_delays_nobody),
	AMONG_PEERS(test_directory_is_told_though_it_is_slow),
	AMONG_PEERS(test_holder_whose_disk_is_slow_is_told),
	AMONG_PEERS(test_holder_that_says_nothing_is_left_in_the_end),
	AMONG_PEERS(test_holder_that_refuses_is_asked_again),
	AMONG_PEERS(test_holder_that_is_no_peer_gets_a_grave),
	AMONG_PEERS(test_object_of_an_unknown_keeper_gets_a_grave),
	AMONG_PEERS(test_forgetful_directory_is_not_believed),
	AMONG_PEERS(test_forgotten_while_holders_are_told),
	AMONG_PEERS(test_all_are_asked_for_what_they_have_put),
	AMONG_PEERS(test_older_one_that_is_announced_before_the_tombstone),
	AMONG_PEERS(test_newer_one_outlives_the_tombstone),
	AMONG_PEERS(test_nobody_has_it_and_all_were_asked),
	AMONG_PEERS(test_forgotten_and_handed_over_between_the_answers),
	AMONG_PEERS(test_forgotten_once_more_while_all_are_asked),
	AMONG_PEERS(test_of_several_generations_the_highest_is_buried),
	AMONG_PEERS(test_removal_waits_for_a_node_that_may_have_it),
	AMONG_PEERS(test_removal_does_not_wait_for_ever),
	AMONG_PEERS(test_gone_node_delays_nobody),
	AMONG_PEERS(test_node_that_did_not_answer_may_have_ended_it),
	AMONG_PEERS(test_node_that_did_not_answer_and_is_gone_is_waited_for),
	AMONG_PEERS(test_removal_goes_on_without_a_directory),
	AMONG_PEERS(test_copy_that_is_made_while_all_are_told_ends_too),
	AMONG_PEERS(test_copy_that_comes_here_while_all_are_told_ends_too),
	AMONG_PEERS(test_lost_answer_is_made_up_for),
	AMONG_PEERS(test_directory_that_does_not_answer_is_left),
	AMONG_PEERS(test_removal_ends_though_its_client_did_before_the_directory),
	AMONG_PEERS(test_removal_ends_though_its_client_did_and_no_answer_came),
	AMONG_PEERS(test_holders_are_told_though_the_client_is_gone),
	AMONG_PEERS(test_client_goes_while_its_removal_waits),
	AMONG_PEERS(test_holders_are_told_when_its_time_is_over),
	AMONG_PEERS(test_entry_outlasts_its_object_for_a_while_only),
	AMONG_PEERS(test_put_that_replaces_has_the_old_one_ended),
	AMONG_PEERS(test_put_meets_one_that_replaces_on_this_node),
	AMONG_PEERS(test_put_that_replaces_one_cut_short_asks_all),
	AMONG_PEERS(test_put_that_replaces_one_of_a_dead_daemon_asks_all),
	AMONG_PEERS(test_put_that_replaces_one_of_this_node_asks_nobody),
	AMONG_PEERS(test_client_goes_while_the_old_one_ends),
	AMONG_PEERS(test_drop_waits_for_what_the_put_replaced),
	AMONG_PEERS(test_drop_does_not_wait_for_ever),
	AMONG_PEERS(test_removal_waits_for_what_a_put_of_the_node_replaced),
	AMONG_PEERS(test_what_a_put_has_replaced_unheard_ends),
	AMONG_PEERS(test_what_a_put_has_not_replaced_stays),
	AMONG_PEERS(test_own_object_that_a_put_has_replaced_unheard_ends),
	AMONG_PEERS(test_own_object_that_a_put_has_not_replaced_stays),
	AMONG_PEERS(test_put_that_has_replaced_unheard_is_taken_out_by_another),
	AMONG_PEERS(test_put_that_has_replaced_unheard_is_replaced),
	AMONG_PEERS(test_put_of_another_that_has_the_same_number_stays),
	AMONG_PEERS(test_client_goes_while_its_put_is_published_unheard),
	AMONG_PEERS(test_put_that_is_published_again_much_later_asks_all),
	AMONG_PEERS(test_drop_waits_for_a_put_that_is_published_unheard),
	AMONG_PEERS(test_end_of_a_put_that_is_ready_waits_for_nobody),
	AMONG_PEERS(test_late_put_of_an_earlier_daemon_is_undone),
	AMONG_PEERS(test_put_whose_writer_died_with_the_daemon_is_undone),
	AMONG_PEERS(test_put_waits_for_a_keeper_that_left_before_the_start),
	AMONG_PEERS(test_epoch_that_was_not_complete_when_it_was_sent),
	AMONG_PEERS(test_node_that_is_no_member_when_its_put_was_published),
	AMONG_PEERS(test_gates_delay_what_is_done_once),
	AMONG_PEERS(test_gate_that_fails_leaves_nothing),
	cmocka_unit_test_setup_teardown(
		test_batches_wait_for_asks, setup_many, teardown_peers),
	AMONG_PEERS(test_drop_ends_that_generation_alone),
	AMONG_PEERS(test_drop_of_any_ends_nothing_that_comes_later),
	AMONG_PEERS(test_drop_ends_a_put_that_is_being_published),
	AMONG_PEERS(test_who_was_told_keeps_a_tombstone),
	AMONG_PEERS(test_node_that_had_not_announced_brings_nothing_back),
	AMONG_PEERS(test_stale_entry_of_a_forgotten_key_leaves_no_tombstone),
	AMONG_PEERS(test_stale_entry_of_what_was_removed_leaves_one),
	AMONG_PEERS(test_who_is_no_member_any_more_does_not_publish),
	AMONG_PEERS(test_late_put_leaves_no_entry_though_its_publishing_is_later),
	AMONG_PEERS(test_put_that_gave_way_leaves_no_tombstone),
	cmocka_unit_test_setup_teardown(test_put_waits_until_all_members_were_heard,
		setup_peers_one_unheard, teardown_peers),
	cmocka_unit_test_setup_teardown(test_put_waits_for_a_dead_member_until_it_is_gone,
		setup_peers_one_unheard, teardown_peers),
	AMONG_PEERS(test_removal_that_was_not_answered_is_not_absent),
	cmocka_unit_test_setup_teardown(
		test_what_is_here_is_announced_to_whom_this_node_meets,
		setup_peers_one_unknown, teardown_peers),
	AMONG_PEERS(test_directory_that_went_back_has_an_older_one),
	DISK_AMONG_PEERS(test_answers_wait_for_the_disk),
	DISK_AMONG_PEERS(test_durable_put_that_fails_ends_everywhere),
	DISK_AMONG_PEERS(test_what_is_only_on_disk_and_replaces_another_has_that_ended),
	AMONG_PEERS(test_client_may_not_drop),
	AMONG_PEERS(test_link_breaks_under_a_drop),
};

UNIT_MAIN(tests)
