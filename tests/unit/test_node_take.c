/*
 * Tests of node/ among others: TAKE, of which one in the whole cluster wins, and reads that
 * are counted where the object is kept.
 */
#include "node_peers.h"

#include "node/node_priv.h"

#define KEY "key"

static struct guest attach_settled(void)
{
	struct guest guest = attach();

	settle();
	return guest;
}

static uint64_t put_counted(struct guest *guest, const char *key, uint16_t readers)
{
	SEND(guest->lane, put, .key = text(key), .op = ++guest->ops, .readers = readers,
		.timeout_ns = SECOND, .value = text("value"));
	settle();
	return want_done(guest->lane);
}

/* The guest holds what it takes, as the library sees to it. */
struct held_slot {
	uint32_t slot;
	uint64_t life;
	uint64_t op;
};

static struct held_slot hold(struct guest *guest, const char *key)
{
	struct msg_found found;
	_Atomic uint16_t *counts;

	send_get(guest->lane, key, 0, SECOND);
	settle();
	WANT(guest->lane, found, &found);
	counts = sim_counts(&world, guest->welcome.cid, guest->welcome.incarnation);
	counts[found.slot]++;
	SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
	return (struct held_slot){found.slot, found.life, ++guest->ops};
}

static void release(struct guest *guest, struct held_slot held)
{
	sim_counts(&world, guest->welcome.cid, guest->welcome.incarnation)[held.slot]--;
	SEND(guest->lane, tell, .slot = held.slot);
	settle();
}

static void send_take(struct guest *guest, struct held_slot held)
{
	SEND(guest->lane, take, .slot = held.slot, .life = held.life, .op = held.op);
	settle();
}

static void reply_done(unsigned peer, enum msg_type type, uint64_t generation)
{
	REPLY(want_ask(peer, type), done, .generation = generation);
	settle();
}

static uint64_t drop_generation(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_DROP);
	struct msg_drop msg;

	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	return msg.generation;
}

static uint32_t graves(void)
{
	return world.node->cluster.grave_count;
}

static void peer_takes(unsigned peer, const char *key, uint64_t generation)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_TAKE_OUT,
						  .id = id_of(key),
						  .generation = generation,
						  .bury_ns = SECOND * 60,
						  .token = 77}),
		DIR_DONE);
}

static void guest_goes(struct guest *guest)
{
	sim_process_end(&world, guest->pid);
	settle();
}

/* ---- take ---------------------------------------------------------------- */

static void test_winner_is_told_when_the_copies_are_gone(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_copies(0, KEY, generation);
	send_take(&guest, held);
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(drop_generation(0), generation);
	reply_done(0, MSG_TYPE_DROP, generation);
	assert_int_equal(want_done(guest.lane), generation);
	/* A repeat is answered alike, and asks nobody. */
	fake.dir_waits = true;
	send_take(&guest, held);
	assert_int_equal(want_done(guest.lane), generation);
	fake.dir_waits = false;
	release(&guest, held);
	assert_int_equal(used_bytes(), 0);
}

static void test_of_two_here_one_wins(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot mine = hold(&guest, KEY), theirs = hold(&other, KEY);

	(void)state;
	/* Both have asked before either is answered. */
	fake.dir_waits = true;
	send_take(&guest, mine);
	send_take(&other, theirs);
	fake.dir_waits = false;
	settle();
	assert_int_equal(want_done(guest.lane), generation);
	want_error(other.lane, ERR_NOT_FOUND, "somebody else");
	release(&guest, mine);
	release(&other, theirs);
}

static void test_who_took_it_elsewhere_wins(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_takes(0, KEY, generation);
	send_take(&guest, held);
	want_error(guest.lane, ERR_NOT_FOUND, "somebody else");
	/* Its word to this node is on its way; nobody finds the object meanwhile. */
	send_get(guest.lane, KEY, 0, SECOND);
	settle();
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
	release(&guest, held);
	assert_int_equal(used_bytes(), 0);
}

static void test_take_waits_for_the_directory(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	dir_mem_set_away(fake.mem, 0, true);
	send_take(&guest, held);
	turn(5 * SECOND);
	want_nothing(guest.lane);
	for (unsigned i = 0; i < PEERS; i++)
		assert_null(find_ask(i, MSG_TYPE_DROP));
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_int_equal(want_done(guest.lane), generation);
	release(&guest, held);
}

static void test_take_waits_until_all_is_announced(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_takes(0, KEY, generation);
	fake.peers[1].has_finished = false;
	dir_mem_fail_over(fake.mem, 0, 0);
	fake.dir_waits = true;
	send_take(&guest, held);
	fake.dir_waits = false;
	turn(SECOND);
	want_nothing(guest.lane);
	fake.peers[1].has_finished = true;
	turn(SECOND);
	want_error(guest.lane, ERR_NOT_FOUND, "somebody else");
	release(&guest, held);
}

/* What it lacks had not been announced when it was given. */
static void test_answer_that_comes_late_is_not_believed(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);
	struct dir_call *call;

	(void)state;
	dir_mem_flush(fake.mem, 0);
	fake.dir_waits = true;
	send_take(&guest, held);
	call = container_of(list_first(&fake.port.queued), struct dir_call, list_entry);
	assert_int_equal(call->op, DIR_OP_TAKE_OUT);
	assert_int_equal(dir_mem_apply(&fake.port, call), 0);
	list_del(&call->list_entry);
	fake.dir_waits = false;
	turn(SECOND);
	assert_int_equal(entry_of(KEY), generation);
	assert_int_equal(call->verdict, DIR_ABSENT);
	dir_mem_answer(&fake.port, call);
	turn(SECOND);
	assert_int_equal(want_done(guest.lane), generation);
	release(&guest, held);
}

static void test_take_that_nobody_can_decide_fails(void **state)
{
	struct guest guest = attach_settled();
	struct held_slot held;

	(void)state;
	(void)put_counted(&guest, KEY, 0);
	held = hold(&guest, KEY);
	dir_mem_set_away(fake.mem, 0, true);
	send_take(&guest, held);
	turn(9 * SECOND);
	want_nothing(guest.lane);
	turn(2 * SECOND);
	want_error(guest.lane, ERR_UNAVAILABLE, "directory");
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	/* Nobody took it: it is there, and can be taken still. */
	held.op = ++guest.ops;
	send_take(&guest, held);
	(void)want_done(guest.lane);
	release(&guest, held);
}

/* The node's next call of this kind takes effect, and its answer is lost. */
static void lose_answer(enum dir_op op)
{
	struct list *first = list_first(&fake.port.queued);
	struct dir_call *call;

	assert_non_null(first);
	call = container_of(first, struct dir_call, list_entry);
	assert_int_equal(call->op, op);
	assert_int_equal(dir_mem_apply(&fake.port, call), 0);
	dir_mem_lose(&fake.port, call);
}

/* All that the node asks is lost. */
static void lose_calls(void)
{
	struct list *first;

	while ((first = list_first(&fake.port.queued)) != NULL)
		dir_mem_lose(
			&fake.port, container_of(first, struct dir_call, list_entry));
}

static void test_lost_answer_to_a_take_is_given_again(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_copies(1, KEY, generation);
	fake.dir_waits = true;
	send_take(&guest, held);
	lose_answer(DIR_OP_TAKE_OUT);
	settle();
	want_nothing(guest.lane);
	fake.dir_waits = false;
	turn(200 * MS);
	/* Who had it is not known any more: all are told. */
	for (unsigned i = 0; i < PEERS; i++)
		reply_done(i, MSG_TYPE_DROP, generation);
	assert_int_equal(want_done(guest.lane), generation);
	release(&guest, held);
}

/* It was taken out and nobody heard of it: it ends once the directory says so. */
static void test_take_whose_answer_was_never_heard_is_settled(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_copies(1, KEY, generation);
	fake.dir_waits = true;
	send_take(&guest, held);
	lose_answer(DIR_OP_TAKE_OUT);
	for (unsigned i = 0; i < 110; i++) {
		turn(100 * MS);
		lose_calls();
	}
	want_error(guest.lane, ERR_UNAVAILABLE, "directory");
	fake.dir_waits = false;
	turn(SECOND);
	for (unsigned i = 0; i < PEERS; i++) {
		assert_int_equal(drop_generation(i), generation);
		reply_done(i, MSG_TYPE_DROP, generation);
	}
	assert_int_equal(graves(), 0);
	release(&guest, held);
	assert_int_equal(used_bytes(), 0);
}

static void test_taker_that_goes_leaves_nothing(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	peer_copies(1, KEY, generation);
	fake.dir_waits = true;
	send_take(&guest, held);
	guest_goes(&guest);
	fake.dir_waits = false;
	settle();
	reply_done(1, MSG_TYPE_DROP, generation);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(used_bytes(), 0);
	assert_int_equal(graves(), 0);
}

static void test_taker_that_goes_before_an_answer_that_is_lost(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 0);
	struct held_slot held = hold(&guest, KEY);

	(void)state;
	fake.dir_waits = true;
	send_take(&guest, held);
	guest_goes(&guest);
	lose_answer(DIR_OP_TAKE_OUT);
	fake.dir_waits = false;
	turn(SECOND);
	for (unsigned i = 0; i < PEERS; i++)
		reply_done(i, MSG_TYPE_DROP, generation);
	assert_int_equal(used_bytes(), 0);
}

static void test_object_that_is_gone_cannot_be_taken(void **state)
{
	struct guest guest = attach_settled();
	struct msg_put_started started = start(&guest, KEY, 5, 0);
	struct held_slot none = {.slot = started.slot, .life = started.life + 1, .op = 9};

	(void)state;
	send_take(&guest, none);
	want_error(guest.lane, ERR_NOT_FOUND, "");
	none.life = started.life; /* a put that has not ended */
	send_take(&guest, none);
	want_error(guest.lane, ERR_NOT_FOUND, "");
}

/* ---- reads counted here -------------------------------------------------- */

static void send_read(
	struct guest *guest, const char *key, uint64_t generation, uint64_t sequence)
{
	SEND(guest->lane, read, .key = text(key), .generation = generation,
		.sequence = sequence);
	settle();
}

static void test_last_read_ends_the_copies_too(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 2);

	(void)state;
	peer_copies(1, KEY, generation);
	send_read(&guest, KEY, generation, 1);
	(void)want_done(guest.lane);
	assert_int_equal(entry_of(KEY), generation);
	send_read(&guest, KEY, generation, 2);
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(used_bytes(), 0);
	reply_done(1, MSG_TYPE_DROP, generation);
	(void)want_done(guest.lane);
	/* A repeat counts nothing. */
	send_read(&guest, KEY, generation, 2);
	(void)want_done(guest.lane);
	assert_int_equal(graves(), 0);
}

static void test_last_read_without_a_directory_tells_everyone(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 1);

	(void)state;
	peer_goes(0);
	dir_mem_set_away(fake.mem, 0, true);
	send_read(&guest, KEY, generation, 1);
	assert_int_equal(drop_generation(1), generation);
	reply_done(1, MSG_TYPE_DROP, generation);
	reply_error(want_ask(2, MSG_TYPE_DROP), ERR_NOT_FOUND);
	settle();
	(void)want_done(guest.lane);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_int_equal(entry_of(KEY), 0);
	peer_comes(0);
	reply_done(0, MSG_TYPE_DROP, generation);
	settle();
}

static void test_read_of_another_generation_counts_nothing(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 1);

	(void)state;
	send_read(&guest, KEY, generation + 1, 1);
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
	assert_get(&guest, KEY, "value");
}

/* ---- reads counted elsewhere --------------------------------------------- */

static void put_copy_here(const char *key, uint64_t generation)
{
	struct copy_request copy = {
		.key = key_of(world.node, key, (uint32_t)strlen(key)),
		.size = 5,
		.generation = generation,
		.expires = UINT64_MAX,
		.readers_left = 3,
		.counted = true,
	};
	struct master *master = node_master(world.node);
	uint32_t slot;

	assert_int_equal(master_copy_start(master, &copy, NULL, world.now_ns, &slot),
		LOAD_STARTED);
	memcpy(world.share.pool + world.share.slots[slot].off, "value", 5);
	assert_int_equal(master_copy_done(master, slot, 0, 1, world.now_ns), 0);
}

static void test_read_of_a_copy_is_counted_by_its_keeper(void **state)
{
	struct guest guest = attach_settled();
	struct msg_read_at msg;
	struct fake_ask *ask;

	(void)state;
	peer_keeps(1, KEY, 50);
	put_copy_here(KEY, 50);
	send_read(&guest, KEY, 50, 1);
	want_nothing(guest.lane);
	ask = want_ask(1, MSG_TYPE_READ_AT);
	assert_int_equal(msg_read_at_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.generation, 50);
	reply_done(1, MSG_TYPE_READ_AT, 0);
	(void)want_done(guest.lane);
	/* Once: a report that comes again is not passed on. */
	send_read(&guest, KEY, 50, 1);
	(void)want_done(guest.lane);
	assert_null(find_ask(1, MSG_TYPE_READ_AT));
	/* The keeper has it no more. */
	send_read(&guest, KEY, 50, 2);
	reply_error(want_ask(1, MSG_TYPE_READ_AT), ERR_NOT_FOUND);
	settle();
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
}

static void test_read_that_nobody_can_count_is_lost(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(1, KEY, 50);
	put_copy_here(KEY, 50);
	dir_mem_set_away(fake.mem, 0, true);
	send_read(&guest, KEY, 50, 1);
	want_error(guest.lane, ERR_UNAVAILABLE, "not counted");
	dir_mem_set_away(fake.mem, 0, false);
	settle();
	peer_goes(1);
	send_read(&guest, KEY, 50, 2);
	want_error(guest.lane, ERR_UNAVAILABLE, "not counted");
	peer_comes(1);
	send_read(&guest, KEY, 50, 3);
	peer_goes(1);
	want_error(guest.lane, ERR_UNAVAILABLE, "not counted");
	peer_comes(1);
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_TAKE_OUT,
					       .id = id_of(KEY),
					       .generation = 50}),
		DIR_DONE);
	send_read(&guest, KEY, 50, 4);
	want_error(guest.lane, ERR_NOT_FOUND, KEY);
}

static void test_reader_that_goes_waits_for_nobody(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();

	(void)state;
	peer_keeps(1, KEY, 50);
	put_copy_here(KEY, 50);
	send_read(&guest, KEY, 50, 1);
	(void)want_ask(1, MSG_TYPE_READ_AT);
	guest_goes(&guest);
	fake.dir_waits = true;
	send_read(&other, KEY, 50, 1);
	guest_goes(&other);
	fake.dir_waits = false;
	settle();
	assert_int_equal(world.node->ops_used, 0);
	assert_int_equal(world.node->cluster.queries_used, 0);
	reply_done(1, MSG_TYPE_READ_AT, 0);
}

static void test_peers_read_is_counted_here(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 2);
	struct msg_done done;

	(void)state;
	peer_copies(1, KEY, generation);
	link_opens(1);
	ASK(1, 1, read_at, .key = text(KEY), .generation = generation);
	WANT_ANSWER(1, 1, done, &done);
	ASK(1, 2, read_at, .key = text(KEY), .generation = generation + 1);
	assert_int_equal(want_answer_error(1, 2), ERR_NOT_FOUND);
	/* The last: the copies end first, that of who asks as well. */
	ASK(1, 3, read_at, .key = text(KEY), .generation = generation);
	assert_null(find_answer(1, 3));
	assert_int_equal(drop_generation(1), generation);
	reply_done(1, MSG_TYPE_DROP, generation);
	WANT_ANSWER(1, 3, done, &done);
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(used_bytes(), 0);
	ASK(1, 4, read_at, .key = text(KEY), .generation = generation);
	assert_int_equal(want_answer_error(1, 4), ERR_NOT_FOUND);
}

static void test_peer_that_goes_under_its_last_read(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation = put_counted(&guest, KEY, 1);

	(void)state;
	peer_copies(1, KEY, generation);
	link_opens(1);
	ASK(1, 1, read_at, .key = text(KEY), .generation = generation);
	(void)want_ask(1, MSG_TYPE_DROP);
	link_closes(1);
	peer_goes(1);
	assert_int_equal(graves(), 1);
	peer_comes(1);
	reply_done(1, MSG_TYPE_DROP, generation);
	assert_int_equal(graves(), 0);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_winner_is_told_when_the_copies_are_gone),
	AMONG_PEERS(test_of_two_here_one_wins),
	AMONG_PEERS(test_who_took_it_elsewhere_wins),
	AMONG_PEERS(test_take_waits_for_the_directory),
	AMONG_PEERS(test_take_waits_until_all_is_announced),
	AMONG_PEERS(test_answer_that_comes_late_is_not_believed),
	AMONG_PEERS(test_take_that_nobody_can_decide_fails),
	AMONG_PEERS(test_lost_answer_to_a_take_is_given_again),
	AMONG_PEERS(test_take_whose_answer_was_never_heard_is_settled),
	AMONG_PEERS(test_taker_that_goes_leaves_nothing),
	AMONG_PEERS(test_taker_that_goes_before_an_answer_that_is_lost),
	AMONG_PEERS(test_object_that_is_gone_cannot_be_taken),
	AMONG_PEERS(test_last_read_ends_the_copies_too),
	AMONG_PEERS(test_last_read_without_a_directory_tells_everyone),
	AMONG_PEERS(test_read_of_another_generation_counts_nothing),
	AMONG_PEERS(test_read_of_a_copy_is_counted_by_its_keeper),
	AMONG_PEERS(test_read_that_nobody_can_count_is_lost),
	AMONG_PEERS(test_reader_that_goes_waits_for_nobody),
	AMONG_PEERS(test_peers_read_is_counted_here),
	AMONG_PEERS(test_peer_that_goes_under_its_last_read),
};

UNIT_MAIN(tests)
