/*
 * Tests of node/ among others: the keeper's role comes from another node, and goes to one,
 * and each step of that is cut.
 */
#include "node_fetch.h"
#include "node_peers_disk.h"

#define CHANNEL    50u
#define GENERATION (100ull << GENERATION_SHIFT)
#define PIECE      (256u << 10)
#define PIECES     (POOL / PIECE)

static const struct cluster *cluster(void)
{
	return &world.node->cluster;
}

/* The peer is asked whether it keeps what the directory says that it does. */
static void peer_has(unsigned peer, uint64_t generation, bool secondary)
{
	REPLY(want_ask(peer, MSG_TYPE_HAVE), had, .generation = generation, .size = SMALL,
		.flags = PUT_SOFTPIN, .secondary = secondary);
	settle();
}

/* ---- to become a keeper -------------------------------------------------- */

static void ask_keep(
	uint32_t channel, const char *key, uint64_t generation, uint64_t size)
{
	if (fake.peers[0].link == 0)
		link_opens(0);
	ASK(0, channel, keep, .key = text(key), .generation = generation, .size = size,
		.from = peer_id(0), .timeout_ns = WAIT);
}

static struct msg_kept want_kept(uint32_t channel)
{
	struct msg_kept msg;

	WANT_ANSWER(0, channel, kept, &msg);
	return msg;
}

static void want_refusal(uint32_t channel, int code)
{
	assert_int_equal(want_answer_error(0, channel), code);
	assert_int_equal(cluster()->keeping, 0);
	assert_int_equal(cluster()->keeping_bytes, 0);
}

static void want_keeper(const char *key)
{
	assert_true(is_kept(key));
	assert_int_equal(role_in(key, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(key, peer_id(0)), DIR_SECONDARY);
	assert_int_equal(cluster()->keeping, 0);
	assert_int_equal(cluster()->keeping_bytes, 0);
}

static void test_takes_over(void **state)
{
	const uint64_t sizes[] = {SMALL, LARGE};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t generation = GENERATION + (i << GENERATION_SHIFT);

		keeps(0, KEY, generation, sizes[i], DIR_SOFTPIN);
		ask_keep(CHANNEL, KEY, generation, sizes[i]);
		if (sizes[i] <= INLINE_LIMIT) {
			gives(0, generation, sizes[i]);
		} else {
			leases(0, generation, sizes[i], checksum_of(KEY, sizes[i]));
			moved(0, sizes[i]);
			want_unlease(0);
		}
		assert_int_equal(want_kept(CHANNEL).generation, generation);
		want_keeper(KEY);
		assert_int_equal(slot_of(KEY)->size, sizes[i]);
		/* Its answer was lost: asked again, it is moved no second time. */
		ask_keep(CHANNEL, KEY, generation, sizes[i]);
		assert_int_equal(want_kept(CHANNEL).generation, generation);
		want_keeper(KEY);
		assert_int_equal(node_master(world.node)->cluster.kept, i + 1);
		removed_by(1, KEY, generation);
		assert_null(slot_of(KEY));
	}
}

static void test_copy_that_is_here_is_not_moved(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	get(&guest, KEY);
	gives(0, GENERATION, SMALL);
	want_object(&guest, SMALL);
	assert_false(is_kept(KEY));
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	(void)want_kept(CHANNEL);
	want_keeper(KEY);
}

static void test_count_of_reads_comes_with_it(void **state)
{
	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	REPLY(want_ask(0, MSG_TYPE_REPLICA_ASK), replica, .generation = GENERATION,
		.size = SMALL, .checksum = checksum_of(KEY, SMALL),
		.expires_in_ns = UINT64_MAX, .value = value_of(SMALL),
		.flags = PUT_SOFTPIN | REPLICA_COUNTED, .readers_left = 2);
	settle();
	assert_int_equal(want_kept(CHANNEL).readers_left, 2);
	for (unsigned i = 0; i < 2; i++) {
		want_keeper(KEY);
		ASK(0, CHANNEL, read_at, .key = text(KEY), .generation = GENERATION);
		if (i == 1) /* the giver's copy ends as well */
			REPLY(want_ask(0, MSG_TYPE_DROP), done, .generation = GENERATION);
		settle();
		WANT_ANSWER(0, CHANNEL, done, &(struct msg_done){.generation = 0});
	}
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

static void test_no_credit(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, POOL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, POOL);
	want_refusal(CHANNEL, ERR_NO_SPACE);
	ask_keep(CHANNEL, KEY, GENERATION, UINT64_MAX);
	want_refusal(CHANNEL, ERR_NO_SPACE);
	/* As much as the puts of this node leave above its watermark. */
	(void)start(&guest, "large", POOL - LARGE - POOL / 100, PUT_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, LARGE);
	want_refusal(CHANNEL, ERR_NO_SPACE);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	assert_int_equal(cluster()->stats.keeps_refused, 3);
}

static void test_node_whose_puts_wait_has_no_credit(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)start(&guest, "large", POOL / 2, PUT_SOFTPIN);
	send_start(&guest, "larger", POOL / 2 + PIECE, PUT_SOFTPIN, WAIT);
	settle();
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_NO_SPACE);
}

/* It looks the emptiest to all. */
static void test_new_node_takes_one_at_a_time(void **state)
{
	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	keeps(0, "other", GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	ask_keep(CHANNEL + 1, "other", GENERATION, SMALL);
	assert_int_equal(want_answer_error(0, CHANNEL + 1), ERR_TOO_MANY);
	gives(0, GENERATION, SMALL);
	(void)want_kept(CHANNEL);
	turn(KEEPS_FEW_NS);
	for (uint32_t i = 0; i <= KEEPS_AT_ONCE; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "k%u", i);
		keeps(0, key, GENERATION, SMALL, DIR_SOFTPIN);
		ask_keep(CHANNEL + i, key, GENERATION, SMALL);
	}
	assert_int_equal(want_answer_error(0, CHANNEL + KEEPS_AT_ONCE), ERR_TOO_MANY);
	link_closes(0);
	assert_int_equal(cluster()->keeping, 0);
	assert_int_equal(cluster()->keeping_bytes, 0);
}

static void test_other_object_has_the_key(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	send_put(&guest, KEY, "mine", WAIT);
	settle();
	(void)want_done(guest.lane);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_NOT_FOUND);
	assert_get(&guest, KEY, "mine");
}

static void test_nobody_has_it(void **state)
{
	(void)state;
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_NOT_FOUND);
}

/* ---- of a prefix that is being removed ----------------------------------- */

static void prefix_is_removed_by(unsigned peer, const char *prefix, uint64_t before)
{
	struct msg_done done;

	if (fake.peers[peer].link == 0)
		link_opens(peer);
	ASK(peer, CHANNEL, drop_prefix, .before = before, .now = 1,
		.prefix = text(prefix));
	WANT_ANSWER(peer, CHANNEL, done, &done);
	assert_int_equal(done.generation, 0);
}

/* The giver's part may last: it removes there what it has not given away. */
static void test_takes_over_nothing_that_is_being_removed(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	prefix_is_removed_by(1, "k", GENERATION + 1);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_REMOVED);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
	assert_int_equal(cluster()->stats.keeps_refused, 1);
	/* Nor if a reader has brought a copy here since. */
	get(&guest, KEY);
	gives(0, GENERATION, SMALL);
	want_object(&guest, SMALL);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_REMOVED);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	/* By then that is over, or has failed. */
	turn(60 * SECOND);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	(void)want_kept(CHANNEL);
	want_keeper(KEY);
}

static void test_takes_over_what_a_removal_by_prefix_leaves(void **state)
{
	(void)state;
	prefix_is_removed_by(1, "k", GENERATION);
	prefix_is_removed_by(1, "keys", GENERATION + 1);
	prefix_is_removed_by(1, "l", GENERATION + 1);
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	gives(0, GENERATION, SMALL);
	(void)want_kept(CHANNEL);
	want_keeper(KEY);
}

static void test_removed_by_prefix_before_the_bytes_come(void **state)
{
	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	prefix_is_removed_by(1, "k", GENERATION + 1);
	want_refusal(CHANNEL, ERR_REMOVED);
	gives(0, GENERATION, SMALL);
	assert_null(slot_of(KEY));
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
}

/* Its own walk is over, and a peer's may not be. */
static void test_takes_over_nothing_that_it_is_removing(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	SEND(guest.lane, remove_prefix, .prefix = text("k"));
	settle();
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_REMOVED);
	for (unsigned i = 0; i < PEERS; i++)
		REPLY(want_ask(i, MSG_TYPE_DROP_PREFIX), done, .generation = 0);
	settle();
	(void)want_done(guest.lane);
	assert_null(slot_of(KEY));
}

/* So many are remembered, and the last of them. */
static void test_many_prefixes_are_removed(void **state)
{
	char key[16];

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	for (unsigned i = 0; i < 2000; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		prefix_is_removed_by(1, key, GENERATION + 1);
	}
	prefix_is_removed_by(1, "k", GENERATION + 1);
	assert_int_equal(cluster()->swept_count, 1024);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_REMOVED);
	turn(60 * SECOND);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	assert_int_equal(cluster()->swept_count, 0);
}

/* ---- cut: this node takes over ------------------------------------------- */

static void test_giver_dies_before_the_bytes(void **state)
{
	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	(void)want_replica_ask(0);
	link_closes(0);
	peer_goes(0);
	assert_int_equal(cluster()->keeping, 0);
	assert_int_equal(cluster()->fetches_used, 0);
	assert_null(slot_of(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
}

static void bytes_come_and_directory_waits(void)
{
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	hold_directory();
	gives(0, GENERATION, SMALL);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
}

/* What was begun is finished: the giver learns of it when it announces what it has. */
static void test_giver_dies_before_the_hand_over(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	link_closes(0);
	peer_goes(0);
	let_directory_go();
	turn(SECOND);
	want_keeper(KEY);
}

static void test_giver_dies_before_the_answer(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	directory_decides();
	link_closes(0);
	let_directory_go();
	turn(SECOND);
	want_keeper(KEY);
}

static void lose_answers(void)
{
	struct list *first;

	directory_decides();
	while ((first = list_first(&fake.port.applied)) != NULL)
		dir_mem_lose(
			&fake.port, container_of(first, struct dir_call, list_entry));
}

static void test_answer_of_the_directory_is_lost(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	lose_answers();
	assert_null(find_answer(0, CHANNEL));
	let_directory_go();
	turn(SECOND);
	(void)want_kept(CHANNEL);
	want_keeper(KEY);
}

/* The giver is told at its deadline that it is not known, and the directory later. */
static void test_directory_is_away(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	directory_goes();
	let_directory_go();
	turn(2 * WAIT);
	want_refusal(CHANNEL, ERR_UNAVAILABLE);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	want_keeper(KEY);
	/* The giver, which was told that it failed, has to look. */
	assert_non_null(find_ask(0, MSG_TYPE_REPLACED));
}

/* That it was not here could not be told, and is true no more. */
static void test_was_not_here_before_the_hand_over(void **state)
{
	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	directory_goes();
	link_opens(1);
	ASK(1, CHANNEL, replica_ask, .key = text(KEY), .generation = GENERATION,
		.timeout_ns = WAIT, .may_leave = 1);
	assert_int_equal(want_answer_error(1, CHANNEL), ERR_NOT_FOUND);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = GENERATION, .size = SMALL,
		.flags = PUT_SOFTPIN);
	others_have_not();
	gives(0, GENERATION, SMALL);
	assert_true(is_kept(KEY));
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	(void)want_kept(CHANNEL);
	want_keeper(KEY);
}

static void test_removed_before_the_hand_over(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	entry_goes(1, KEY, GENERATION);
	let_directory_go();
	turn(SECOND);
	want_refusal(CHANNEL, ERR_NOT_FOUND);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

static void test_removed_before_the_answer(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	directory_decides();
	removed_by_and(1, KEY, GENERATION, false);
	let_directory_go();
	turn(SECOND);
	want_refusal(CHANNEL, ERR_REMOVED);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

/* Another was faster: what is here is a copy. */
static void test_given_to_another_meanwhile(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_HAND_OVER,
					       .id = id_of(KEY),
					       .generation = GENERATION,
					       .from = peer_id(0)}),
		DIR_DONE);
	let_directory_go();
	turn(SECOND);
	want_refusal(CHANNEL, ERR_NOT_FOUND);
	assert_true(is_kept(KEY));
	peer_has(1, GENERATION, false);
	assert_non_null(slot_of(KEY));
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

/* A directory that went back names who kept it once: that is not enough to drop the role. */
static void test_named_keeper_has_a_copy(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	(void)peer_calls(1, (struct dir_call){.op = DIR_OP_HAND_OVER,
				    .id = id_of(KEY),
				    .generation = GENERATION,
				    .from = peer_id(0)});
	let_directory_go();
	turn(SECOND);
	want_refusal(CHANNEL, ERR_NOT_FOUND);
	/* It puts right what the directory has of it, and this node announces once more. */
	peer_announces_copy(1, KEY, GENERATION, SMALL);
	peer_has(1, GENERATION, true);
	assert_true(is_kept(KEY));
	turn(SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

/* That its bytes are here is told to a directory that has forgotten it meanwhile. */
static void test_forgotten_after_the_hand_over(void **state)
{
	(void)state;
	bytes_come_and_directory_waits();
	directory_answers();
	(void)want_kept(CHANNEL);
	turn(10 * ERRAND_PAUSE_NS);
	dir_mem_flush(fake.mem, 0);
	let_directory_go();
	turn(SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

/* A directory that forgot was told of a copy, which went again, and not yet of the keeper. */
static void test_put_asks_whoever_may_keep_it(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(0);
	peer_announces_copy(1, KEY, GENERATION, SMALL);
	peer_has_no_more(1, KEY, GENERATION);
	send_put(&guest, KEY, "mine", WAIT);
	settle();
	peer_has(0, GENERATION, false);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	reply_error(want_ask(2, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	want_error(guest.lane, ERR_EXISTS, "has an object");
	assert_int_equal(entry_of(KEY), GENERATION);
}

/* Who kept it is asked when it has given that away already. */
static void test_put_of_what_is_being_handed_over(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	keeps(0, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	send_put(&guest, KEY, "mine", WAIT);
	settle();
	peer_takes_over(1, 0, KEY, GENERATION);
	reply_error(want_ask(0, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	settle();
	want_nothing(guest.lane);
	assert_int_equal(entry_of(KEY), GENERATION);
	turn(CLUSTER_RETRY);
	peer_has(1, GENERATION, false);
	settle();
	want_error(guest.lane, ERR_EXISTS, "has an object");
	assert_int_equal(entry_of(KEY), GENERATION);
}

/* A peer has taken it for gone, and claimed what it keeps. */
static void test_told_that_it_was_gone(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation;

	(void)state;
	SEND(guest.lane, put, .key = text(KEY), .op = ++guest.ops, .flags = PUT_SOFTPIN,
		.timeout_ns = WAIT, .value = text("value"));
	settle();
	generation = want_done(guest.lane);
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_HAND_OVER,
					       .id = id_of(KEY),
					       .generation = generation,
					       .from = THIS_ID}),
		DIR_DONE);
	turn(SECOND);
	assert_true(is_kept(KEY));
	link_opens(0);
	ASK(0, 5, replaced, .node = THIS_ID);
	peer_has(0, generation, false);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

/* ---- to give it away ----------------------------------------------------- */

static void put_piece(struct guest *guest, unsigned number)
{
	struct msg_put_started started;
	char key[16];

	(void)snprintf(key, sizeof(key), "o%u", number);
	started = start(guest, key, PIECE, PUT_SOFTPIN);
	write_object(world.share.pool + started.off, PIECE);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	(void)want_done(guest->lane);
}

/* The giver, which is asked whether it keeps it too, does so only until the directory has the role
 * as handed over. */
static void test_offered_once_more_while_it_is_doubted(void **state)
{
	struct guest guest = guest_of();
	uint64_t generation;

	(void)state;
	put_piece(&guest, 0);
	generation = entry_of("o0");
	dir_mem_set_away(fake.mem, 0, true);
	dir_mem_flush(fake.mem, 0);
	dir_mem_set_away(fake.mem, 0, false);
	keeps(0, "o0", generation, PIECE, DIR_SOFTPIN);
	turn(SECOND);
	assert_int_equal(role_in("o0", THIS_ID), DIR_SECONDARY);
	hold_directory();
	ask_keep(CHANNEL, "o0", generation, PIECE);
	REPLY(want_ask(0, MSG_TYPE_HAVE), had, .generation = generation, .size = PIECE,
		.flags = PUT_SOFTPIN);
	settle();
	assert_true(is_kept("o0"));
	let_directory_go();
	assert_int_equal(want_kept(CHANNEL).generation, generation);
	want_keeper("o0");
}

/* As full as it can be: whatever leaves can only leave to another node. */
static struct guest full_guest(void)
{
	struct guest guest = guest_of();

	for (unsigned i = 0; i < PIECES; i++)
		put_piece(&guest, i);
	return guest;
}

struct offer {
	char key[16];
	uint64_t generation;
};

static struct offer want_offer(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_KEEP);
	struct offer offer;
	struct msg_keep msg;

	assert_int_equal(msg_keep_decode(ask->bytes, ask->size, &msg), 0);
	assert_in_range(msg.key.size, 2, sizeof(offer.key) - 1);
	memcpy(offer.key, msg.key.data, msg.key.size);
	offer.key[msg.key.size] = '\0';
	offer.generation = msg.generation;
	assert_int_equal(msg.size, PIECE);
	assert_int_equal(msg.generation, entry_of(offer.key));
	return offer;
}

/* The peer has the bytes, and tells the directory. */
static void peer_takes_role(unsigned peer, const struct offer *offer)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(offer->key),
						  .generation = offer->generation,
						  .from = THIS_ID}),
		DIR_DONE);
}

static void peer_answers(unsigned peer, const struct offer *offer)
{
	REPLY(want_ask(peer, MSG_TYPE_KEEP), kept, .generation = offer->generation);
	settle();
}

static struct offer peer_takes_one(unsigned peer)
{
	struct offer offer = want_offer(peer);

	peer_takes_role(peer, &offer);
	peer_answers(peer, &offer);
	return offer;
}

/* The peer has room for one object alone. */
static struct offer offered(void)
{
	credit(0, PIECE);
	fake.peers[0].free_bytes = 0;
	while (count_asks(0, MSG_TYPE_KEEP) > 1)
		reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_NO_SPACE);
	settle();
	return want_offer(0);
}

static struct offer offered_when_full(void)
{
	(void)full_guest();
	return offered();
}

static void test_full_node_gives_to_a_peer(void **state)
{
	struct guest guest = full_guest();
	struct msg_put_started started;
	struct offer first;

	(void)state;
	turn(SECOND);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
	send_start(&guest, "more", PIECE, PUT_SOFTPIN, WAIT);
	credit(0, 2 * POOL);
	first = peer_takes_one(0);
	while (find_ask(0, MSG_TYPE_KEEP) != NULL)
		(void)peer_takes_one(0);
	WANT(guest.lane, put_started, &started);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	(void)want_done(guest.lane);
	while (find_ask(0, MSG_TYPE_KEEP) != NULL)
		(void)peer_takes_one(0);
	assert_int_equal(role_in(first.key, peer_id(0)), DIR_KEEPER);
	assert_null(slot_of(first.key));
	assert_int_equal(role_in(first.key, THIS_ID), 0);
	assert_true(is_kept("more"));
	assert_int_equal(cluster()->stats.swapouts_failed, 0);
	/* With the watermark reached it is at rest. */
	turn(10 * SECOND);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
}

static void piece_comes(unsigned peer, uint64_t generation)
{
	leases(peer, generation, PIECE, 0);
	write_object(world.share.pool + fake.moves[0].what.pool_off, PIECE);
	move_ends(0, 0, 0);
	settle();
}

/* Of a full pool: given to a peer, and read again where only what may go can lie. */
static struct offer given_and_read(struct guest *guest)
{
	struct offer offer;

	send_start(guest, "more", PIECE, PUT_SOFTPIN, WAIT);
	offer = offered();
	peer_takes_role(0, &offer);
	peer_answers(0, &offer);
	turn(2 * WAIT);
	want_error(guest->lane, ERR_NO_SPACE, "no peer");
	assert_null(slot_of(offer.key));
	get(guest, offer.key);
	piece_comes(0, offer.generation);
	want_object(guest, PIECE);
	assert_false(is_kept(offer.key));
	return offer;
}

/* Room is kept for the largest of what was given away, however full the pool is. */
static void test_what_was_given_can_be_read_again(void **state)
{
	struct guest guest = full_guest();

	(void)state;
	(void)given_and_read(&guest);
}

/* Its keeper is gone, and the copy cannot be kept where it lies. Nothing else is looked up for it. */
static void test_copy_that_cannot_be_claimed_holds_nothing_up(void **state)
{
	struct guest guest = full_guest();
	struct offer offer = given_and_read(&guest);
	uint64_t looks;

	(void)state;
	peer_goes(0);
	turn(5 * SECOND);
	assert_false(is_kept(offer.key));
	assert_int_equal(cluster()->rebuilder.lent_count, 1);
	assert_false(cluster()->rebuilder.claims);
	assert_false(cluster()->rebuilder.wanted);
	looks = cluster()->stats.queries;
	turn(10 * SECOND);
	/* To be named, alone. */
	assert_int_equal(cluster()->stats.queries, looks + 10 * SECOND / RENEW_NS);
}

/* It is there once more, where it can stay. */
static void test_copy_that_could_not_be_claimed_is_when_it_can_be(void **state)
{
	struct guest guest = full_guest();
	struct offer offer = given_and_read(&guest);
	struct index_key key = key_of(world.node, offer.key, (uint32_t)strlen(offer.key));
	const char *other = strcmp(offer.key, "o0") == 0 ? "o1" : "o0";
	uint64_t generation;

	(void)state;
	peer_copies(1, offer.key, offer.generation);
	peer_goes(0);
	turn(5 * SECOND);
	assert_int_equal(cluster()->rebuilder.lent_count, 1);
	SEND(guest.lane, remove, .key = text(other));
	settle();
	(void)want_done(guest.lane);
	assert_int_equal(master_end_generation(node_master(world.node), &key,
				 offer.generation, world.now_ns, &generation),
		0);
	get(&guest, offer.key);
	piece_comes(1, offer.generation);
	want_object(&guest, PIECE);
	turn(2 * SECOND);
	assert_true(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_KEEPER);
	assert_int_equal(cluster()->stats.claimed, 1);
	assert_int_equal(cluster()->rebuilder.lent_count, 0);
}

/* That it went, and its slot at once to another, could not be told, and is true no more. */
static void test_copy_that_went_is_kept_before_that_is_told(void **state)
{
	struct guest guest = full_guest();
	struct offer offer = given_and_read(&guest);
	struct dir_id id = id_of(offer.key);
	struct dir_entry entry;
	uint32_t slot = master_find_key(offer.key);
	char key[16];

	(void)state;
	turn(SECOND);
	world.node->cluster.errand_retry_ns = world.now_ns + 60 * SECOND;
	keeps(0, KEY, GENERATION, PIECE, DIR_SOFTPIN);
	get(&guest, KEY);
	piece_comes(0, GENERATION);
	want_object(&guest, PIECE);
	assert_int_equal(master_find_key(KEY), slot);
	assert_null(slot_of(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_SECONDARY);
	for (unsigned i = 0; i < PIECES / 2; i++) {
		(void)snprintf(key, sizeof(key), "o%u", i);
		if (strcmp(key, offer.key) == 0)
			continue;
		SEND(guest.lane, remove, .key = text(key));
		settle();
		(void)want_done(guest.lane);
	}
	ask_keep(CHANNEL, offer.key, offer.generation, PIECE);
	piece_comes(0, offer.generation);
	(void)want_kept(CHANNEL);
	/* The directory hears of what waited, one after the other. */
	world.node->cluster.errand_retry_ns = 0;
	hold_directory();
	turn(10 * ERRAND_PAUSE_NS);
	directory_decides();
	want_keeper(offer.key);
	assert_true(dir_mem_look(fake.mem, &id, &entry));
	assert_int_equal(entry.flags, DIR_SOFTPIN);
	let_directory_go();
}

/* Nor is that room for what it is to keep, though much else here may go. */
static void test_takes_over_nothing_that_could_not_stay(void **state)
{
	struct guest guest = full_guest();
	struct offer offer;
	struct pool_use use;
	char key[16];

	(void)state;
	send_start(&guest, "more", PIECE, PUT_SOFTPIN, WAIT);
	offer = offered();
	peer_takes_role(0, &offer);
	peer_answers(0, &offer);
	turn(2 * WAIT);
	want_error(guest.lane, ERR_NO_SPACE, "no peer");
	for (unsigned i = 0; i < PIECES; i++) {
		(void)snprintf(key, sizeof(key), "o%u", i);
		if (strcmp(key, offer.key) == 0)
			continue;
		SEND(guest.lane, remove, .key = text(key));
		settle();
		(void)want_done(guest.lane);
	}
	for (unsigned i = 0; i < 2 * PIECES; i++) {
		struct msg_put_started started;

		(void)snprintf(key, sizeof(key), "c%u", i);
		started = start(&guest, key, PIECE / 2, 0);
		SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
			.timeout_ns = WAIT);
		settle();
		(void)want_done(guest.lane);
	}
	master_use(node_master(world.node), &use);
	assert_true(use.turning >= PIECE);
	assert_true(use.largest_hole < PIECE);
	assert_true(use.inactive + use.active > 4 * PIECE);
	keeps(0, KEY, GENERATION, PIECE, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, PIECE);
	want_refusal(CHANNEL, ERR_NO_SPACE);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
}

static void test_chooses_one_with_credit(void **state)
{
	(void)state;
	(void)full_guest();
	fake.peers[0].free_bytes = PIECE - 1; /* too little */
	credit(2, PIECE);
	(void)want_offer(2);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
	assert_int_equal(count_asks(1, MSG_TYPE_KEEP), 0);
}

static void test_both_full(void **state)
{
	struct guest guest = full_guest();

	(void)state;
	send_start(&guest, "more", PIECE, PUT_SOFTPIN, 2 * SECOND);
	turn(3 * SECOND);
	want_error(guest.lane, ERR_NO_SPACE, "no peer");
	for (unsigned i = 0; i < PEERS; i++)
		assert_int_equal(count_asks(i, MSG_TYPE_KEEP), 0);
	assert_true(is_kept("o0"));
	assert_int_equal(keep_credit(world.node), 0);
}

static void test_refused(void **state)
{
	struct offer offer;

	(void)state;
	(void)full_guest();
	credit(0, PIECE);
	offer = want_offer(0);
	fake.peers[0].free_bytes = 0;
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_NO_SPACE);
	turn(SECOND);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
	assert_true(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_KEEPER);
	assert_int_equal(cluster()->stats.swapouts_refused, 1);
	assert_int_equal(cluster()->stats.swapouts_failed, 0);
}

/* Of what has replicas: another may take it, and nothing has gone wrong. */
static void test_peer_keeps_it_already(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_EXISTS);
	turn(SECOND);
	assert_true(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_KEEPER);
	assert_int_equal(cluster()->stats.swapouts_failed, 0);
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_NO_SPACE); /* it was asked again */
	credit(1, PIECE);
	(void)want_offer(1);
}

/* What this node keeps beside that peer is not offered to it again before all else was. */
static void test_peer_keeps_much_already(void **state)
{
	struct guest guest = full_guest();
	bool met[PIECES] = {false};

	(void)state;
	send_start(&guest, "more", PIECE, PUT_SOFTPIN, WAIT);
	credit(0, PIECE);
	for (unsigned i = 0; i < PIECES; i++) {
		struct offer offer = want_offer(0);
		unsigned number = (unsigned)atoi(offer.key + 1);

		assert_false(met[number]);
		met[number] = true;
		reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_EXISTS);
		turn(10 * MS);
	}
	/* And then not in vain again and again. */
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
	turn(SECOND);
	(void)want_offer(0);
}

/* ---- cut: this node gives ------------------------------------------------ */

static void test_peer_dies_before_the_hand_over(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_goes(0);
	turn(SECOND);
	assert_true(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_KEEPER);
	assert_int_equal(cluster()->stats.swapouts_failed, 1);
	/* There is another. */
	credit(1, PIECE);
	(void)want_offer(1);
}

/* Nothing is freed without its word: while it is away, this node has the only copy that can
 * be read. */
static void test_peer_dies_after_the_hand_over(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_takes_role(0, &offer);
	peer_goes(0);
	turn(2 * SECOND);
	assert_true(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, THIS_ID), DIR_SECONDARY);
	peer_comes(0);
	turn(SECOND);
	assert_int_equal(role_in(offer.key, peer_id(0)), DIR_KEEPER);
	assert_true(is_kept(offer.key));
	peer_answers(0, &offer);
	assert_false(is_kept(offer.key));
}

/* The same, and it has no room for it again: then it is asked whether it keeps it. */
static void test_answer_is_lost_and_no_room(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_takes_role(0, &offer);
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_TIMEOUT);
	turn(SECOND);
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_NO_SPACE);
	turn(SECOND);
	peer_has(0, offer.generation, false);
	assert_false(is_kept(offer.key));
}

/* Its answer was lost with the connection: it is asked again, or another. */
static void test_answer_is_lost(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_takes_role(0, &offer);
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_TIMEOUT);
	turn(SECOND);
	assert_int_equal(role_in(offer.key, peer_id(0)), DIR_KEEPER);
	peer_answers(0, &offer);
	assert_false(is_kept(offer.key));
	assert_int_equal(cluster()->stats.swapouts_failed, 1);
}

/* The peer took it over, and is full: it may have it back once it has answered. */
static void test_offered_back_before_the_answer(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_takes_role(0, &offer);
	ask_keep(CHANNEL, offer.key, offer.generation, PIECE);
	want_refusal(CHANNEL, ERR_TOO_MANY);
	peer_answers(0, &offer);
	assert_false(is_kept(offer.key));
	assert_int_equal(role_in(offer.key, peer_id(0)), DIR_KEEPER);
}

static void test_removed_while_it_is_given(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	removed_by(1, offer.key, offer.generation);
	assert_null(slot_of(offer.key));
	reply_error(want_ask(0, MSG_TYPE_KEEP), ERR_NOT_FOUND);
	turn(SECOND);
	assert_null(slot_of(offer.key));
	assert_int_equal(entry_of(offer.key), 0);
}

static void test_removed_after_the_hand_over(void **state)
{
	struct offer offer = offered_when_full();

	(void)state;
	peer_takes_role(0, &offer);
	/* The entry still has this node, so that it is told. */
	removed_by(1, offer.key, offer.generation);
	assert_null(slot_of(offer.key));
	peer_answers(0, &offer);
	assert_null(slot_of(offer.key));
	assert_int_equal(entry_of(offer.key), 0);
}

/* ---- disk or peers ------------------------------------------------------- */

static uint64_t saves(void)
{
	return node_master(world.node)->stats.saves;
}

/* Twice what the pool has room for; peer 0 takes what it is offered. How many that was. */
static unsigned put_twice_the_pool(struct guest *guest, unsigned first)
{
	unsigned taken = 0;

	for (unsigned i = first; i < first + 2 * PIECES; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "o%u", i);
		send_start(guest, key, PIECE, PUT_SOFTPIN, WAIT);
		turn(SECOND);
		for (; find_ask(0, MSG_TYPE_KEEP) != NULL; taken++) {
			(void)peer_takes_one(0);
			turn(SECOND);
		}
		(void)end_started(guest);
	}
	return taken;
}

static void test_disk_comes_first(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	world.node->config.swapout_first = SWAPOUT_FIRST_DISK;
	credit(0, 8 * POOL);
	assert_int_equal(put_twice_the_pool(&guest, 0), 0);
	assert_true(saves() > 0);
}

static void test_peers_come_first(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	world.node->config.swapout_first = SWAPOUT_FIRST_PEER;
	credit(0, 8 * POOL);
	assert_true(put_twice_the_pool(&guest, 0) >= PIECES);
	assert_in_range(saves(), 0, 2); /* what lay where room was made for another */
	/* The disk has what they have no room for. */
	credit(0, 0);
	assert_int_equal(put_twice_the_pool(&guest, 2 * PIECES), 0);
	assert_true(saves() > 0);
}

static void test_disk_gets_what_peers_would_not_take(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	world.node->config.swapout_first = SWAPOUT_FIRST_PEER;
	credit(0, PIECE - 1);
	assert_int_equal(put_twice_the_pool(&guest, 0), 0);
	assert_true(saves() > 0);
}

static void test_faster_one_comes_first(void **state)
{
	bool *first = &node_master(world.node)->hand.first;

	(void)state;
	turn(SECOND);
	assert_false(*first);
	world.node->cluster.fetch_speed = 2000;
	turn(SECOND);
	assert_false(*first); /* what the disk costs is not known yet */
	world.node->tier.save_speed = 1000;
	turn(SECOND);
	assert_true(*first);
	world.node->cluster.swapout_speed = 500;
	turn(SECOND);
	assert_false(*first);
}

static void test_both_are_measured(void **state)
{
	struct guest guest = guest_of();
	uint64_t taken = 0;

	(void)state;
	speed_note(&taken, SPEED_LEAST - 1, SECOND);
	assert_int_equal(taken, 0);
	speed_note(&taken, SPEED_LEAST, SECOND / 2);
	assert_int_equal(taken, 2 * SPEED_LEAST);
	speed_note(&taken, SPEED_LEAST, SECOND);
	assert_in_range(taken, SPEED_LEAST, 2 * SPEED_LEAST - 1);
	(void)put_twice_the_pool(&guest, 0);
	assert_true(world.node->tier.save_speed > 0);
}

/* ---- drain --------------------------------------------------------------- */

static void send_drain(struct guest *guest, bool begin)
{
	SEND(guest->lane, drain, .begin = begin);
	settle();
	(void)want_done(guest->lane);
}

static void test_drained_node_gives_all_it_keeps(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	for (unsigned i = 0; i < 12; i++)
		put_piece(&guest, i);
	keeps(1, KEY, GENERATION, SMALL, DIR_SOFTPIN); /* a copy is no matter */
	get(&guest, KEY);
	gives(1, GENERATION, SMALL);
	want_object(&guest, SMALL);
	send_drain(&guest, true);
	turn(SECOND);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0); /* none has room */
	assert_string_equal(drain_state_text(world.node), "moving");
	assert_int_equal(drain_left(world.node), 12);
	credit(0, 2 * POOL);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), HAND_LIMIT);
	for (unsigned left = 12; left > 0; left--) {
		assert_int_equal(drain_left(world.node), left);
		(void)peer_takes_one(0);
		turn(SECOND);
	}
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 0);
	assert_string_equal(drain_state_text(world.node), "empty");
	assert_int_equal(role_in("o0", peer_id(0)), DIR_KEEPER);
}

static void test_drained_node_takes_nothing_new(void **state)
{
	struct guest guest = guest_of();
	struct msg_put_started started = start(&guest, "o0", PIECE, PUT_SOFTPIN);

	(void)state;
	credit(0, 2 * POOL);
	send_drain(&guest, true);
	send_put(&guest, "more", "value", WAIT);
	want_error(guest.lane, ERR_UNAVAILABLE, "drained");
	keeps(1, KEY, GENERATION, SMALL, DIR_SOFTPIN);
	ask_keep(CHANNEL, KEY, GENERATION, SMALL);
	want_refusal(CHANNEL, ERR_NO_SPACE);
	/* What had begun is ended, and then given away. */
	turn(SECOND);
	assert_string_equal(drain_state_text(world.node), "moving");
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	settle();
	(void)want_done(guest.lane);
	turn(SECOND);
	(void)peer_takes_one(0);
	turn(SECOND);
	assert_string_equal(drain_state_text(world.node), "empty");
	send_drain(&guest, false);
	assert_string_equal(drain_state_text(world.node), "off");
	send_put(&guest, "more", "value", WAIT);
	settle();
	(void)want_done(guest.lane);
}

/* It was removed, or its peer has gone: the walk meets what is left once more. */
static void test_drain_is_cut(void **state)
{
	struct guest guest = guest_of();
	struct offer offer;

	(void)state;
	put_piece(&guest, 0);
	put_piece(&guest, 1);
	credit(0, 2 * POOL);
	send_drain(&guest, true);
	offer = want_offer(0);
	removed_by(1, offer.key, offer.generation);
	peer_goes(0);
	turn(SECOND);
	assert_string_equal(drain_state_text(world.node), "moving");
	assert_int_equal(drain_left(world.node), 1);
	credit(2, 2 * POOL);
	(void)peer_takes_one(2);
	turn(SECOND);
	assert_string_equal(drain_state_text(world.node), "empty");
}

/* ---- what others keep as well -------------------------------------------- */

/* After the directory has forgotten, peer 0 announces first that it keeps what lies on the disk of
 * this node alone, and is enough. */
static void disk_comes_second(const char *key, uint64_t generation)
{
	assert_null(slot_of(key));
	dir_mem_flush(fake.mem, 0);
	keeps(0, key, generation, PIECE, DIR_SOFTPIN);
	turn(SECOND);
	assert_int_equal(role_in(key, peer_id(0)), DIR_KEEPER);
	assert_int_equal(role_in(key, THIS_ID), DIR_SECONDARY);
	assert_null(find_ask(0, MSG_TYPE_HAVE)); /* for want of its key */
}

static void read_piece(struct guest *guest, const char *key)
{
	struct msg_found found;

	get(guest, key);
	turn(SECOND);
	WANT(guest->lane, found, &found);
	SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
	settle();
}

static void test_read_from_disk_is_yielded_to_who_keeps_it(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_twice_the_pool(&guest, 0);
	disk_comes_second("o0", entry_of("o0"));
	read_piece(&guest, "o0");
	assert_true(is_kept("o0"));
	peer_has(0, entry_of("o0"), false);
	assert_non_null(slot_of("o0"));
	assert_false(is_kept("o0"));
}

static void test_read_from_disk_is_kept_if_nobody_else_does(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	(void)put_twice_the_pool(&guest, 0);
	disk_comes_second("o0", entry_of("o0"));
	read_piece(&guest, "o0");
	peer_has(0, entry_of("o0"), true);
	assert_true(is_kept("o0"));
}

static void test_read_from_disk_asks_nobody_as_a_rule(void **state)
{
	struct guest guest = guest_of();
	uint64_t errands;

	(void)state;
	(void)put_twice_the_pool(&guest, 0);
	assert_null(slot_of("o0"));
	errands = cluster()->stats.errands;
	read_piece(&guest, "o0");
	assert_int_equal(cluster()->stats.errands, errands);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_takes_over),
	AMONG_PEERS(test_copy_that_is_here_is_not_moved),
	AMONG_PEERS(test_count_of_reads_comes_with_it),
	AMONG_PEERS(test_no_credit),
	AMONG_PEERS(test_node_whose_puts_wait_has_no_credit),
	AMONG_PEERS(test_new_node_takes_one_at_a_time),
	AMONG_PEERS(test_other_object_has_the_key),
	AMONG_PEERS(test_nobody_has_it),
	AMONG_PEERS(test_takes_over_nothing_that_is_being_removed),
	AMONG_PEERS(test_takes_over_what_a_removal_by_prefix_leaves),
	AMONG_PEERS(test_removed_by_prefix_before_the_bytes_come),
	AMONG_PEERS(test_takes_over_nothing_that_it_is_removing),
	AMONG_PEERS(test_many_prefixes_are_removed),
	AMONG_PEERS(test_giver_dies_before_the_bytes),
	AMONG_PEERS(test_giver_dies_before_the_hand_over),
	AMONG_PEERS(test_giver_dies_before_the_answer),
	AMONG_PEERS(test_answer_of_the_directory_is_lost),
	AMONG_PEERS(test_directory_is_away),
	AMONG_PEERS(test_offered_once_more_while_it_is_doubted),
	AMONG_PEERS(test_was_not_here_before_the_hand_over),
	AMONG_PEERS(test_removed_before_the_hand_over),
	AMONG_PEERS(test_removed_before_the_answer),
	AMONG_PEERS(test_given_to_another_meanwhile),
	AMONG_PEERS(test_named_keeper_has_a_copy),
	AMONG_PEERS(test_forgotten_after_the_hand_over),
	AMONG_PEERS(test_put_asks_whoever_may_keep_it),
	AMONG_PEERS(test_put_of_what_is_being_handed_over),
	AMONG_PEERS(test_told_that_it_was_gone),
	AMONG_PEERS(test_full_node_gives_to_a_peer),
	AMONG_PEERS(test_what_was_given_can_be_read_again),
	AMONG_PEERS(test_copy_that_cannot_be_claimed_holds_nothing_up),
	AMONG_PEERS(test_copy_that_could_not_be_claimed_is_when_it_can_be),
	AMONG_PEERS(test_copy_that_went_is_kept_before_that_is_told),
	AMONG_PEERS(test_takes_over_nothing_that_could_not_stay),
	AMONG_PEERS(test_chooses_one_with_credit),
	AMONG_PEERS(test_both_full),
	AMONG_PEERS(test_refused),
	AMONG_PEERS(test_peer_keeps_it_already),
	AMONG_PEERS(test_peer_keeps_much_already),
	AMONG_PEERS(test_peer_dies_before_the_hand_over),
	AMONG_PEERS(test_peer_dies_after_the_hand_over),
	AMONG_PEERS(test_answer_is_lost),
	AMONG_PEERS(test_answer_is_lost_and_no_room),
	AMONG_PEERS(test_offered_back_before_the_answer),
	AMONG_PEERS(test_removed_while_it_is_given),
	AMONG_PEERS(test_removed_after_the_hand_over),
	DISK_AMONG_PEERS(test_read_from_disk_is_yielded_to_who_keeps_it),
	DISK_AMONG_PEERS(test_read_from_disk_is_kept_if_nobody_else_does),
	DISK_AMONG_PEERS(test_read_from_disk_asks_nobody_as_a_rule),
	DISK_AMONG_PEERS(test_disk_comes_first),
	DISK_AMONG_PEERS(test_peers_come_first),
	DISK_AMONG_PEERS(test_disk_gets_what_peers_would_not_take),
	DISK_AMONG_PEERS(test_faster_one_comes_first),
	DISK_AMONG_PEERS(test_both_are_measured),
	AMONG_PEERS(test_drained_node_gives_all_it_keeps),
	AMONG_PEERS(test_drained_node_takes_nothing_new),
	AMONG_PEERS(test_drain_is_cut),
};

UNIT_MAIN(tests)
