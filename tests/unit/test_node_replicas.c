/*
 * Tests of node/ among others: a put that several nodes are to keep, and what becomes of that
 * when nodes go; each step is cut.
 */
#include "node_fetch.h"
#include "node_peers_disk.h"

#define CHANNEL    50u
#define GENERATION (100ull << GENERATION_SHIFT)

static const struct cluster_stats *stats(void)
{
	return &world.node->cluster.stats;
}

static unsigned count_keeps(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PEERS; i++)
		count += count_asks(i, MSG_TYPE_KEEP);
	return count;
}

/* ---- puts ---------------------------------------------------------------- */

static void put_of(struct guest *guest, uint16_t replicas, uint32_t flags)
{
	SEND(guest->lane, put, .key = text(KEY), .op = ++guest->ops, .replicas = replicas,
		.flags = flags, .timeout_ns = WAIT, .value = text("value"));
	settle();
}

static void want_keepers(struct guest *guest, uint16_t keepers)
{
	struct msg_done msg;

	WANT(guest->lane, done, &msg);
	assert_int_equal(msg.keepers, keepers);
	assert_int_equal(msg.generation, entry_of(KEY));
	assert_true(is_kept(KEY));
	assert_int_equal(slot_of(KEY)->generation, msg.generation);
}

/* What it was asked; the ask stays. */
static struct msg_keep want_keep(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_KEEP);
	struct msg_keep msg;

	assert_int_equal(msg_keep_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.generation, entry_of(KEY));
	assert_int_equal(msg.key.size, strlen(KEY));
	return msg;
}

/* The peer has the bytes, and tells the directory. */
static void peer_keeps_too(unsigned peer, uint64_t from)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(KEY),
						  .generation = entry_of(KEY),
						  .from = from}),
		DIR_DONE);
}

static void peer_answers(unsigned peer)
{
	REPLY(want_ask(peer, MSG_TYPE_KEEP), kept, .generation = entry_of(KEY));
	settle();
}

static void peer_takes(unsigned peer)
{
	struct msg_keep msg = want_keep(peer);

	peer_keeps_too(peer, msg.from);
	peer_answers(peer);
}

static void refuses(unsigned peer, int err)
{
	reply_error(want_ask(peer, MSG_TYPE_KEEP), err);
	settle();
}

static void test_put_ends_when_two_keep_it(void **state)
{
	struct guest guest = guest_of();
	struct msg_keep msg;

	(void)state;
	credit(1, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	want_nothing(guest.lane);
	msg = want_keep(1);
	assert_int_equal(msg.from, 0);
	assert_int_equal(msg.durable, 0);
	assert_int_equal(msg.size, 5);
	assert_int_equal(count_keeps(), 1);
	peer_takes(1);
	want_keepers(&guest, 2);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(stats()->spread, 1);
	turn(10 * SECOND);
	assert_int_equal(count_keeps(), 0);
}

static void test_put_in_two_steps(void **state)
{
	struct guest guest = guest_of();
	struct msg_put_started started;

	(void)state;
	credit(1, MIB);
	SEND(guest.lane, put_start, .key = text(KEY), .size = LARGE, .replicas = 2,
		.flags = PUT_SOFTPIN, .op = ++guest.ops, .timeout_ns = WAIT);
	settle();
	WANT(guest.lane, put_started, &started);
	assert_int_equal(count_keeps(), 0);
	for (unsigned i = 0; i < 2; i++) {
		SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
			.timeout_ns = WAIT);
		settle();
		if (i == 0)
			peer_takes(1);
		want_keepers(&guest, 2); /* also when its answer was lost */
	}
	assert_int_equal(stats()->spread, 1);
}

static void test_each_on_a_node_of_its_own(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	credit(2, MIB);
	put_of(&guest, 8, PUT_SOFTPIN);
	assert_int_equal(count_keeps(), 2);
	peer_takes(0);
	want_nothing(guest.lane);
	peer_takes(2);
	want_keepers(&guest, 3);
	assert_int_equal(count_keeps(), 0);
}

static void test_nobody_has_room(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 2, PUT_SOFTPIN);
	want_keepers(&guest, 1);
	/* It is made up for when somebody has. */
	turn(5 * SECOND);
	assert_int_equal(count_keeps(), 0);
	credit(2, MIB);
	turn(5 * SECOND);
	assert_int_equal(want_keep(2).from, 0);
	peer_takes(2);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(2)), DIR_KEEPER);
	assert_int_equal(stats()->rebuilt, 1);
	assert_int_equal(stats()->rebuilt_bytes, 5);
	turn(10 * SECOND);
	assert_int_equal(count_keeps(), 0);
	assert_string_equal(rebuild_state_text(world.node), "off");
	assert_int_equal(world.node->cluster.rebuilder.left, 0);
}

static void test_one_refuses_and_another_takes(void **state)
{
	const int refusals[] = {ERR_NO_SPACE, ERR_UNAVAILABLE, ERR_NOT_SUPPORTED};
	struct guest guest = guest_of();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		unsigned first;

		credit(0, MIB);
		credit(1, MIB);
		put_of(&guest, 2, PUT_SOFTPIN);
		first = find_ask(0, MSG_TYPE_KEEP) != NULL ? 0 : 1;
		refuses(first, refusals[i]);
		want_nothing(guest.lane);
		peer_takes(1 - first);
		want_keepers(&guest, 2);
		removed_by(2, KEY, entry_of(KEY));
	}
}

/* The directory answers as the time is over: then nobody is asked any more. */
static void test_nobody_is_asked_after_the_deadline(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	refuses(0, ERR_TOO_MANY);
	fake.dir_waits = true;
	turn(100 * MS);
	want_nothing(guest.lane);
	world.now_ns += WAIT;
	fake.dir_waits = false;
	assert_true(fake_step_dir());
	settle();
	want_keepers(&guest, 1);
	assert_int_equal(count_keeps(), 0);
}

static void test_busy_one_is_asked_again(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	for (unsigned i = 0; i < 3; i++) {
		refuses(0, ERR_TOO_MANY);
		assert_int_equal(count_keeps(), 0);
		turn(SWAPOUT_PAUSE_NS);
	}
	peer_takes(0);
	want_keepers(&guest, 2);
}

static void send_drain(struct guest *guest)
{
	SEND(guest->lane, drain, .begin = true);
	settle();
	(void)want_done(guest->lane);
}

/* The peer that is to keep it, too, is offered the role of this node as well: with both it is one
 * keeper, however it answers. */
static void test_role_goes_to_who_was_asked_to_keep_it_too(void **state)
{
	struct guest guest = guest_of(), other = guest_of();
	struct msg_done msg;

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	send_drain(&other);
	assert_int_equal(count_asks(0, MSG_TYPE_KEEP), 2);
	peer_keeps_too(0, THIS_ID);
	peer_answers(0); /* beside this node, */
	WANT(guest.lane, done, &msg);
	assert_int_equal(msg.keepers, 1);
	peer_answers(0); /* in its place */
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
}

static void test_peer_dies_before_it_keeps_it(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	(void)want_keep(0);
	peer_goes(0);
	want_keepers(&guest, 1);
	assert_int_equal(role_in(KEY, peer_id(0)), 0);
}

/* The directory says so. */
static void test_answer_of_the_peer_is_lost(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	peer_keeps_too(0, 0);
	refuses(0, ERR_TIMEOUT);
	want_keepers(&guest, 2);
	assert_int_equal(count_keeps(), 0);
}

static void test_deadline_without_an_answer(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	turn(WAIT - SECOND);
	want_nothing(guest.lane);
	turn(SECOND);
	want_keepers(&guest, 1);
}

static void test_directory_is_away(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	hold_directory();
	put_of(&guest, 2, PUT_SOFTPIN);
	directory_answers(); /* published */
	directory_goes();
	let_directory_go();
	turn(SECOND);
	assert_int_equal(count_keeps(), 0);
	want_nothing(guest.lane);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	peer_takes(0);
	want_keepers(&guest, 2);
}

static void test_removed_while_it_spreads(void **state)
{
	struct guest guest = guest_of();
	struct msg_done msg;

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	(void)want_keep(0);
	removed_by(1, KEY, entry_of(KEY));
	refuses(0, ERR_NOT_FOUND);
	WANT(guest.lane, done, &msg);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
	assert_int_equal(count_keeps(), 0);
}

static void test_client_dies_while_it_spreads(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	(void)want_keep(0);
	leave(&guest);
	settle();
	peer_takes(0);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
}

static void test_what_makes_no_sense(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 2, 0);
	want_error(guest.lane, ERR_BAD_ARGUMENT, "softpin");
	put_of(&guest, KEEPERS_LIMIT + 1, PUT_SOFTPIN);
	want_error(guest.lane, ERR_BAD_ARGUMENT, "9 replicas, of which there can be 8");
	put_of(&guest, 1, PUT_SOFTPIN);
	want_keepers(&guest, 0);
}

/* ---- required ------------------------------------------------------------ */

static void announces(unsigned peer, uint64_t generation, uint64_t size, uint16_t wanted)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_ANNOUNCE,
						  .id = id_of(KEY),
						  .generation = generation,
						  .size = size,
						  .flags = DIR_SOFTPIN,
						  .wanted = wanted,
						  .role = DIR_KEEPER}),
		DIR_DONE);
}

static void want_undone(struct guest *guest, int err, const char *why)
{
	want_error(guest->lane, err, why);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

static void test_required_without_room(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	turn(WAIT - SECOND);
	want_nothing(guest.lane);
	turn(SECOND);
	want_undone(&guest, ERR_NO_SPACE, "1 of 2 nodes");
	put_of(&guest, 1, PUT_SOFTPIN);
	want_keepers(&guest, 0);
}

static void test_required_with_too_few_nodes(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	for (unsigned i = 0; i < PEERS; i++)
		peer_goes(i);
	turn(5 * SECOND);
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	turn(WAIT);
	want_undone(&guest, ERR_UNAVAILABLE, "1 of 2 nodes");
}

static void test_required_on_disks_that_are_not_there(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	refuses(0, ERR_NOT_SUPPORTED);
	want_undone(&guest, ERR_NOT_SUPPORTED, "disk");
}

/* Who became a keeper too late ends its copy. */
static void test_required_is_undone_everywhere(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	credit(0, MIB);
	put_of(&guest, 3, PUT_SOFTPIN | PUT_REQUIRED);
	peer_takes(0);
	turn(WAIT);
	REPLY(want_ask(0, MSG_TYPE_DROP), done, .generation = 1);
	settle();
	want_undone(&guest, ERR_NO_SPACE, "2 of 3 nodes");
}

/* An older object is to be announced yet, which a tombstone would end. */
static void test_undone_after_the_directory_forgot(void **state)
{
	struct guest guest = guest_of();
	struct msg_drop drop;

	(void)state;
	directory_forgets(1);
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	others_have_not();
	turn(WAIT);
	for (unsigned i = 0; i < PEERS; i++) {
		struct fake_ask *ask = want_ask(i, MSG_TYPE_DROP);

		assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &drop), 0);
		assert_int_equal(drop.before, 0); /* it gave way */
		reply_error(ask, ERR_NOT_FOUND);
	}
	settle();
	want_undone(&guest, ERR_NO_SPACE, "1 of 2 nodes");
	announces(1, 50, SMALL, 1);
	assert_int_equal(entry_of(KEY), 50);
	turn(SECOND);
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	announces(1, 50, SMALL, 1);
	assert_int_equal(entry_of(KEY), 50);
}

static void test_undone_though_its_client_is_gone(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	directory_forgets(1);
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	others_have_not();
	turn(WAIT);
	sim_process_end(&world, guest.pid);
	settle();
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	announces(1, 50, SMALL, 1);
	assert_int_equal(entry_of(KEY), 50);
}

static void test_required_when_one_comes(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 2, PUT_SOFTPIN | PUT_REQUIRED);
	turn(SECOND);
	credit(1, MIB);
	peer_takes(1);
	want_keepers(&guest, 2);
}

/* ---- to be one keeper more ----------------------------------------------- */

static void peer_has(unsigned peer, uint16_t wanted)
{
	announces(peer, GENERATION, SMALL, wanted);
}

static void gives_wanted(unsigned peer, uint16_t wanted)
{
	REPLY(want_ask(peer, MSG_TYPE_REPLICA_ASK), replica, .generation = GENERATION,
		.size = SMALL, .checksum = checksum_of(KEY, SMALL),
		.expires_in_ns = UINT64_MAX, .flags = PUT_SOFTPIN, .wanted = wanted,
		.value = value_of(SMALL));
	settle();
}

static void ask_keep(uint64_t from)
{
	if (fake.peers[0].link == 0)
		link_opens(0);
	ASK(0, CHANNEL, keep, .key = text(KEY), .generation = GENERATION, .size = SMALL,
		.from = from, .timeout_ns = WAIT);
}

static void want_kept(void)
{
	struct msg_kept msg;

	WANT_ANSWER(0, CHANNEL, kept, &msg);
	assert_int_equal(msg.generation, GENERATION);
	assert_true(is_kept(KEY));
	assert_int_equal(slot_of(KEY)->wanted, 2);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

static void test_keeps_beside_another(void **state)
{
	(void)state;
	peer_has(0, 2);
	ask_keep(0);
	gives_wanted(0, 2);
	want_kept();
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	ask_keep(0);
	want_kept();
	/* Two roles on one node would be one. */
	ask_keep(peer_id(0));
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_EXISTS);
	settle();
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
}

/* The directory has forgotten that the giver keeps it. */
static void test_role_is_not_taken_beside_its_own(void **state)
{
	(void)state;
	peer_has(0, 2);
	ask_keep(0);
	gives_wanted(0, 2);
	want_kept();
	peer_has_no_more(0, KEY, GENERATION);
	ask_keep(peer_id(0));
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_EXISTS);
	assert_true(is_kept(KEY));
}

/* Who gives it had nobody who would keep it, too. */
static void test_what_is_lacking_is_seen_to_by_who_takes_it(void **state)
{
	(void)state;
	peer_has(0, 2);
	ask_keep(peer_id(0));
	gives_wanted(0, 2);
	want_kept();
	assert_int_equal(count_keeps(), 0);
	credit(1, MIB);
	turn(2 * SECOND);
	assert_int_equal(want_keep(1).from, 0);
	peer_takes(1);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
}

/* Asked by who would leave the role to it. */
static void says_it_keeps(unsigned peer)
{
	REPLY(want_ask(peer, MSG_TYPE_HAVE), had, .generation = GENERATION, .size = SMALL,
		.flags = PUT_SOFTPIN);
	settle();
}

static void test_there_are_enough_already(void **state)
{
	(void)state;
	peer_has(0, 2);
	peer_has(1, 2);
	ask_keep(0);
	if (find_ask(0, MSG_TYPE_REPLICA_ASK) != NULL)
		gives_wanted(0, 2);
	else
		gives_wanted(1, 2);
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_EXISTS);
	turn(SECOND);
	says_it_keeps(0);
	assert_true(is_kept(KEY)); /* until both have said so */
	says_it_keeps(1);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

static void test_takes_the_place_of_a_dead_one(void **state)
{
	(void)state;
	peer_has(0, 2);
	peer_has(1, 2);
	peer_goes(1);
	turn(5 * SECOND);
	ask_keep(peer_id(1));
	gives_wanted(0, 2);
	want_kept();
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_SECONDARY);
}

static void test_durable_without_a_disk(void **state)
{
	(void)state;
	peer_has(0, 2);
	link_opens(0);
	ASK(0, CHANNEL, keep, .key = text(KEY), .generation = GENERATION, .size = SMALL,
		.durable = 1, .timeout_ns = WAIT);
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_NOT_SUPPORTED);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLICA_ASK), 0);
}

/* By then it was announced as kept, with all the rest. */
static void test_durable_that_the_disk_does_not_take(void **state)
{
	(void)state;
	peer_has(0, 2);
	tier.trouble.io = tier.trouble.slow = 100;
	link_opens(0);
	ASK(0, CHANNEL, keep, .key = text(KEY), .generation = GENERATION, .size = SMALL,
		.durable = 1, .timeout_ns = WAIT);
	gives_wanted(0, 2);
	assert_true(is_kept(KEY));
	turn(200 * MS);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
	dir_mem_flush(fake.mem, 0);
	turn(200 * MS);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	turn(5 * SECOND);
	assert_int_equal(want_answer_error(0, CHANNEL), ERR_IO);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
	tier.trouble.io = tier.trouble.slow = 0;
}

/* ---- rebuild ------------------------------------------------------------- */

static void put_on_two(unsigned peer)
{
	struct guest guest = guest_of();

	credit(peer, MIB);
	put_of(&guest, 2, PUT_SOFTPIN);
	peer_takes(peer);
	want_keepers(&guest, 2);
	fake.peers[peer].free_bytes = 0;
	turn(SECOND);
}

static void test_lost_keeper_is_replaced(void **state)
{
	(void)state;
	put_on_two(0);
	peer_goes(0);
	credit(1, MIB);
	turn(SECOND);
	assert_int_equal(count_keeps(), 0); /* it may be back */
	turn(2 * SECOND);
	assert_int_equal(want_keep(1).from, peer_id(0));
	peer_takes(1);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_SECONDARY);
	assert_int_equal(stats()->rebuilt, 1);
	turn(10 * SECOND);
	assert_int_equal(count_keeps(), 0);
	assert_string_equal(rebuild_state_text(world.node), "off");
}

static void test_keeper_that_is_back_in_time_is_not_replaced(void **state)
{
	(void)state;
	put_on_two(0);
	fake.peers[1].free_bytes = MIB;
	peer_goes(0);
	turn(SECOND);
	peer_comes(0);
	turn(10 * SECOND);
	assert_int_equal(count_keeps(), 0);
	assert_int_equal(stats()->rebuilt, 0);
}

/* It is back, and has another pool: so the directory has its keeper under an old incarnation. */
static void test_keeper_without_its_pool_is_replaced(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_of(&guest, 2, PUT_SOFTPIN);
	want_keepers(&guest, 1);
	{
		struct fake_peer *at = &fake.peers[0];

		at->answered = (struct dir_call){.op = DIR_OP_HAND_OVER,
			.node = peer_id(0),
			.incarnation = 77,
			.id = id_of(KEY),
			.generation = entry_of(KEY)};
		at->dir.start(at->dir.ctx, &at->answered);
		assert_int_equal(dir_mem_apply(&at->port, &at->answered), 0);
		dir_mem_answer(&at->port, &at->answered);
		assert_int_equal(at->answered.verdict, DIR_DONE);
	}
	peer_goes(0);
	peer_comes(0);
	credit(0, MIB);
	turn(3 * SECOND);
	assert_int_equal(want_keep(0).from, 0); /* its role of old goes as it fetches */
	refuses(0, ERR_NO_SPACE);
	credit(2, MIB);
	turn(5 * SECOND);
	assert_int_equal(want_keep(2).from, peer_id(0));
	peer_takes(2);
	assert_int_equal(role_in(KEY, peer_id(2)), DIR_KEEPER);
	assert_int_equal(stats()->rebuilt, 1);
}

static void test_rebuild_is_refused_and_cut(void **state)
{
	(void)state;
	put_on_two(0);
	peer_goes(0);
	credit(1, MIB);
	turn(2 * SECOND);
	refuses(1, ERR_TOO_MANY);
	turn(SWAPOUT_PAUSE_NS);
	peer_goes(1); /* while it takes it over */
	turn(SECOND);
	assert_int_equal(count_keeps(), 0);
	credit(2, MIB);
	turn(5 * SECOND);
	assert_int_equal(want_keep(2).from, peer_id(0));
	peer_keeps_too(2, peer_id(0));
	refuses(2, ERR_TIMEOUT); /* its answer is lost */
	turn(5 * SECOND);
	assert_int_equal(count_keeps(), 0);
	assert_int_equal(role_in(KEY, peer_id(2)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(world.node->cluster.rebuilder.left, 0);
}

static void test_removed_while_it_is_rebuilt(void **state)
{
	(void)state;
	put_on_two(0);
	peer_goes(0);
	credit(1, MIB);
	turn(2 * SECOND);
	(void)want_keep(1);
	removed_by(2, KEY, entry_of(KEY));
	refuses(1, ERR_NOT_FOUND);
	turn(5 * SECOND);
	assert_int_equal(count_keeps(), 0);
	assert_int_equal(entry_of(KEY), 0);
	assert_string_equal(rebuild_state_text(world.node), "off");
}

/* 1 KiB a second: the second begins when the first is paid for. */
static void test_rebuild_has_a_rate(void **state)
{
	struct guest guest = guest_of();
	static const char *keys[] = {"a", "b", "c"};

	(void)state;
	credit(0, MIB);
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
		struct dir_call call = {.op = DIR_OP_HAND_OVER, .id = id_of(keys[i])};

		SEND(guest.lane, put, .key = text(keys[i]), .op = ++guest.ops,
			.replicas = 2, .flags = PUT_SOFTPIN, .timeout_ns = WAIT,
			.value = value_of(2048));
		settle();
		call.generation = entry_of(keys[i]);
		assert_int_equal(peer_calls(0, call), DIR_DONE);
		REPLY(want_ask(0, MSG_TYPE_KEEP), kept, .generation = call.generation);
		settle();
		(void)want_done(guest.lane);
	}
	world.node->config.rebuild_rate = 1024;
	peer_goes(0);
	credit(1, MIB);
	turn(2 * SECOND + SECOND / 2);
	assert_int_equal(count_keeps(), 1);
	turn(2 * SECOND);
	assert_int_equal(count_keeps(), 2);
	turn(2 * SECOND);
	assert_int_equal(count_keeps(), 3);
}

static uint64_t size_asked(unsigned peer)
{
	const struct fake_ask *ask = want_ask(peer, MSG_TYPE_KEEP);
	struct msg_keep msg;

	assert_int_equal(msg_keep_decode(ask->bytes, ask->size, &msg), 0);
	return msg.size;
}

/* What was refused for want of room holds up nothing that is smaller. */
static void test_rebuild_of_one_that_fits_nowhere_holds_up_no_other(void **state)
{
	struct guest guest = guest_of();
	const struct {
		const char *key;
		uint64_t size;
	} puts[] = {{"a", 4096}, {"b", 1024}};

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(puts); i++) {
		SEND(guest.lane, put, .key = text(puts[i].key), .op = ++guest.ops,
			.replicas = 2, .flags = PUT_SOFTPIN, .timeout_ns = WAIT,
			.value = value_of(puts[i].size));
		settle();
		(void)want_done(guest.lane);
	}
	turn(SECOND);
	/* So that one is asked after the other. */
	world.node->config.rebuild_rate = 40960;
	credit(1, MIB);
	for (unsigned i = 0; i < 1000 && count_keeps() == 0; i++)
		turn(SECOND / 200);
	assert_int_equal(size_asked(1), 4096);
	fake.peers[1].is_silent = true; /* no beat says that it has room */
	refuses(1, ERR_NO_SPACE);
	turn(SECOND / 5);
	assert_int_equal(size_asked(1), 1024);
}

/* Its bytes are there. */
static void test_who_has_a_copy_becomes_a_keeper_first(void **state)
{
	(void)state;
	put_on_two(0);
	assert_int_equal(peer_calls(2, (struct dir_call){.op = DIR_OP_LOADED,
					       .id = id_of(KEY),
					       .generation = entry_of(KEY)}),
		DIR_DONE);
	credit(1, MIB);
	credit(2, 1);
	peer_goes(0);
	turn(3 * SECOND);
	assert_int_equal(count_keeps(), 1);
	assert_int_equal(want_keep(2).from, peer_id(0));
	refuses(2, ERR_NO_SPACE);
	turn(SECOND);
	peer_takes(1);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
}

/* ---- more than are wanted ------------------------------------------------ */

/* After the directory has forgotten, both peers are in it before this node. */
static void others_announce(uint64_t generation)
{
	dir_mem_flush(fake.mem, 0);
	announces(0, generation, 5, 2);
	announces(1, generation, 5, 2);
	turn(SECOND);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
}

static void has(unsigned peer, uint64_t generation)
{
	REPLY(want_ask(peer, MSG_TYPE_HAVE), had, .generation = generation, .size = 5);
	settle();
}

/* One of two that a directory names may have given the object away since. */
static void test_role_is_left_to_as_many_as_are_wanted(void **state)
{
	uint64_t generation;

	(void)state;
	put_on_two(0);
	generation = entry_of(KEY);
	others_announce(generation);
	has(0, generation);
	assert_true(is_kept(KEY)); /* the other has not answered yet */
	peer_has_no_more(1, KEY, generation);
	reply_error(want_ask(1, MSG_TYPE_HAVE), ERR_NOT_FOUND);
	turn(SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(own_role_in(KEY), DIR_KEEPER);

	others_announce(generation);
	has(1, generation);
	assert_true(is_kept(KEY));
	has(0, generation);
	assert_false(is_kept(KEY));
}

/* One of them cannot be asked. */
static void test_role_is_left_to_nobody_who_is_silent(void **state)
{
	uint64_t generation;

	(void)state;
	put_on_two(0);
	generation = entry_of(KEY);
	others_announce(generation);
	has(0, generation);
	peer_goes(1);
	turn(2 * SECOND);
	assert_true(is_kept(KEY));
}

/* ---- to give the role away ------------------------------------------------ */

/* It had taken the role over before, and could not say so. */
static void test_role_was_taken_before(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_on_two(0);
	credit(1, MIB);
	send_drain(&guest);
	assert_int_equal(want_keep(1).from, THIS_ID);
	peer_keeps_too(1, THIS_ID);
	refuses(1, ERR_UNAVAILABLE);
	turn(SECOND);
	assert_true(is_kept(KEY));
	refuses(1, ERR_EXISTS);
	settle();
	has(0, entry_of(KEY));
	has(1, entry_of(KEY));
	assert_false(is_kept(KEY));
}

/* ---- claims -------------------------------------------------------------- */

static struct guest copy_of_wanted(unsigned peer, uint16_t wanted)
{
	struct guest guest = guest_of();

	peer_has(peer, wanted);
	get(&guest, KEY);
	gives_wanted(peer, wanted);
	want_object(&guest, SMALL);
	assert_false(is_kept(KEY));
	turn(SECOND);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
	return guest;
}

static struct guest copy_of(unsigned peer)
{
	return copy_of_wanted(peer, 1);
}

static void test_copy_of_a_dead_keeper_is_claimed(void **state)
{
	(void)state;
	(void)copy_of(0);
	peer_goes(0);
	turn(2 * SECOND);
	assert_false(is_kept(KEY));
	turn(2 * SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_SECONDARY);
	assert_int_equal(stats()->claimed, 1);
	/* It is back, and finds a keeper. */
	peer_comes(0);
	turn(5 * SECOND);
	assert_true(is_kept(KEY));
}

/* As a copy it is announced later than it was claimed, and was read earlier. */
static void test_copy_is_claimed_while_it_is_announced(void **state)
{
	(void)state;
	(void)copy_of(0);
	peer_has_no_more(0, KEY, GENERATION);
	hold_directory();
	dir_mem_tell(&fake.port, 0);
	settle();
	assert_int_equal(master_keep(node_master(world.node), master_find_key(KEY)), 0);
	let_directory_go();
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

/* Nor does it stay one since it is named as one a moment later. */
static void test_copy_is_claimed_before_it_is_named(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	peer_has(0, 1);
	get(&guest, KEY);
	gives_wanted(0, 1);
	want_object(&guest, SMALL);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_LOADING);
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_LEAVE,
					       .id = id_of(KEY),
					       .generation = GENERATION,
					       .from = peer_id(0)}),
		DIR_DONE);
	assert_int_equal(master_keep(node_master(world.node), master_find_key(KEY)), 0);
	turn(SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

/* What it is about to claim goes to another as well, before it says that it is empty. */
static void test_drained_node_ends_its_claims(void **state)
{
	struct guest guest = copy_of(0);

	(void)state;
	peer_goes(0);
	turn(2 * SECOND);
	fake.dir_waits = true;
	turn(1500 * MS);
	assert_string_equal(rebuild_state_text(world.node), "claiming");
	send_drain(&guest);
	turn(500 * MS);
	assert_false(is_kept(KEY));
	assert_string_equal(drain_state_text(world.node), "moving");
	fake.dir_waits = false;
	settle();
	assert_true(is_kept(KEY));
	credit(1, MIB);
	peer_takes(1);
	turn(SECOND);
	assert_false(is_kept(KEY));
	assert_string_equal(drain_state_text(world.node), "empty");
}

static void test_copy_is_not_claimed_while_a_keeper_lives(void **state)
{
	struct guest guest = guest_of();

	(void)state;
	peer_has(0, 2);
	peer_has(1, 2);
	get(&guest, KEY);
	gives_wanted(find_ask(0, MSG_TYPE_REPLICA_ASK) != NULL ? 0 : 1, 2);
	want_object(&guest, SMALL);
	peer_goes(0);
	turn(10 * SECOND);
	assert_false(is_kept(KEY));
	peer_goes(1);
	turn(10 * SECOND);
	assert_true(is_kept(KEY));
}

/* It is told that it was taken for gone: it has announced what it keeps before the claim took effect,
 * and heard that nobody else does. */
static void test_keeper_is_back_before_it_is_claimed(void **state)
{
	struct msg_replaced msg;
	struct fake_ask *ask;

	(void)state;
	(void)copy_of(0);
	peer_goes(0);
	turn(2 * SECOND + 900 * MS);
	hold_directory();
	turn(SECOND);
	while (!is_kept(KEY))
		directory_answers();
	link_opens(0);
	peer_has(0, 1);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	let_directory_go();
	turn(SECOND);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_SECONDARY);
	assert_null(find_ask(0, MSG_TYPE_REPLACED));
	peer_comes(0);
	ask = want_ask(0, MSG_TYPE_REPLACED);
	assert_int_equal(msg_replaced_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.node, peer_id(0));
	/* It has heard that: when it is up once more it is not told again. */
	fake.peers[0].is_silent = true;
	turn(2 * SECOND);
	assert_null(find_ask(0, MSG_TYPE_REPLACED));
	fake.peers[0].is_silent = false;
	turn(2 * SECOND);
	assert_int_equal(count_asks(0, MSG_TYPE_REPLACED), 0);
}

/* The other was faster: this one stays a copy. */
static void test_of_two_claimants_one_keeps_it(void **state)
{
	(void)state;
	(void)copy_of(0);
	peer_copies(1, KEY, GENERATION);
	peer_goes(0);
	turn(2 * SECOND + 900 * MS);
	hold_directory();
	turn(SECOND);
	while (!is_kept(KEY))
		directory_answers();
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	assert_int_equal(peer_calls(1, (struct dir_call){.op = DIR_OP_HAND_OVER,
					       .id = id_of(KEY),
					       .generation = GENERATION,
					       .from = peer_id(0)}),
		DIR_DONE);
	let_directory_go();
	turn(SECOND);
	says_it_keeps(1);
	assert_non_null(slot_of(KEY));
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

static void test_removed_before_it_is_claimed(void **state)
{
	(void)state;
	(void)copy_of(0);
	peer_goes(0);
	turn(2 * SECOND);
	hold_directory();
	turn(2 * SECOND);
	while (!is_kept(KEY))
		directory_answers();
	entry_goes(1, KEY, GENERATION);
	let_directory_go();
	turn(SECOND);
	assert_null(slot_of(KEY));
	assert_int_equal(entry_of(KEY), 0);
}

/* Only who looks the key up is answered. */
static void directory_answers_of(const char *key)
{
	struct dir_id id = id_of(key);

	dir_mem_set_now(fake.mem, world.now_ns);
	list_for_each_safe (at, &fake.port.queued) {
		struct dir_call *call = container_of(at, struct dir_call, list_entry);

		if (call->op != DIR_OP_LOOKUP || !dir_id_is(&call->id, &id))
			continue;
		assert_int_equal(dir_mem_apply(&fake.port, call), 0);
		dir_mem_answer(&fake.port, call);
		return;
	}
	fail_msg("nothing is asked of %s", key);
}

/* What this node keeps from now on is looked at before the directory hears of that. */
static void is_claimed_and_looked_at(bool is_named)
{
	if (!is_named)
		peer_has_no_more(0, KEY, GENERATION);
	peer_goes(0);
	turn(2 * SECOND + 900 * MS);
	hold_directory();
	turn(SECOND);
	while (!is_kept(KEY))
		directory_answers();
	turn(MS);
	directory_answers_of(KEY);
	settle();
	if (is_named)
		peer_has_no_more(0, KEY, GENERATION);
	let_directory_go();
	turn(SECOND);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(count_keeps(), 0);
}

static void claimed_it_gets_another_keeper(bool is_named)
{
	(void)copy_of_wanted(0, 2);
	credit(1, MIB);
	is_claimed_and_looked_at(is_named);
	turn(SECOND);
	assert_int_equal(want_keep(1).from, 0);
	peer_takes(1);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
}

/* The directory has forgotten who kept it. */
static void test_claimed_from_nobody_it_gets_another_keeper(void **state)
{
	(void)state;
	claimed_it_gets_another_keeper(false);
}

/* It is a keeper by its announcement. */
static void test_claimed_from_one_that_was_none_it_gets_another_keeper(void **state)
{
	(void)state;
	claimed_it_gets_another_keeper(true);
}

static void test_directory_is_away_when_it_is_claimed(void **state)
{
	(void)state;
	(void)copy_of(0);
	directory_goes();
	peer_goes(0);
	turn(10 * SECOND);
	assert_false(is_kept(KEY));
	dir_mem_set_away(fake.mem, 0, false);
	peer_joins(1, 3600 * SECOND);
	peer_joins(2, 3600 * SECOND);
	turn(5 * SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

/* It could not be reached for a while, and what it keeps another claimed, which is gone since. */
static void put_that_was_claimed(unsigned peer)
{
	struct guest guest = guest_of();

	put_of(&guest, 1, PUT_SOFTPIN);
	turn(SECOND);
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(KEY),
						  .generation = entry_of(KEY),
						  .from = THIS_ID}),
		DIR_DONE);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
	peer_goes(peer);
}

static void test_role_comes_back_from_a_dead_claimant(void **state)
{
	(void)state;
	put_that_was_claimed(1);
	turn(2 * SECOND);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY); /* it may be back */
	turn(3 * SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_SECONDARY);
	assert_int_equal(stats()->claimed, 1);
}

/* A third was faster. */
static void test_role_is_not_taken_back_twice(void **state)
{
	(void)state;
	put_that_was_claimed(1);
	turn(2 * SECOND + 900 * MS);
	hold_directory();
	turn(SECOND);
	assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_HAND_OVER,
					       .id = id_of(KEY),
					       .generation = entry_of(KEY),
					       .from = peer_id(1)}),
		DIR_DONE);
	let_directory_go();
	turn(SECOND);
	says_it_keeps(0);
	assert_false(is_kept(KEY));
	assert_int_equal(role_in(KEY, peer_id(0)), DIR_KEEPER);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_SECONDARY);
}

/* Others want the room. */
static void test_copy_that_may_be_the_last_is_spared(void **state)
{
	struct guest guest = copy_of(0);

	(void)state;
	peer_goes(0);
	send_start(&guest, "large", POOL, PUT_SOFTPIN, 20 * SECOND);
	turn(SECOND);
	assert_non_null(slot_of(KEY));
	turn(9 * SECOND);
	assert_true(is_kept(KEY));
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
}

static void test_copy_is_spared_for_a_while_only(void **state)
{
	struct guest guest = copy_of(0);
	struct msg_put_started started;

	(void)state;
	directory_goes(); /* so that nothing can be claimed */
	peer_goes(0);
	send_start(&guest, "large", POOL, PUT_SOFTPIN, 60 * SECOND);
	turn(5 * SECOND);
	assert_non_null(slot_of(KEY));
	turn(10 * SECOND);
	assert_null(slot_of(KEY));
	WANT(guest.lane, put_started, &started);
}

/* Though the claims of the first are not made yet. */
static void test_copies_are_spared_anew_when_another_peer_goes(void **state)
{
	struct guest guest = copy_of(0);

	(void)state;
	directory_goes();
	peer_goes(1);
	turn(15 * SECOND);
	peer_goes(0);
	send_start(&guest, "large", POOL, PUT_SOFTPIN, 60 * SECOND);
	turn(9 * SECOND);
	assert_non_null(slot_of(KEY));
	turn(2 * SECOND);
	assert_null(slot_of(KEY));
}

/* ---- bit rot ------------------------------------------------------------- */

/* Kept by the peer, too, and here on the disk alone, as the host was off. */
static struct guest put_on_two_disks(unsigned peer)
{
	struct guest guest = guest_of();

	credit(peer, MIB);
	put_of(&guest, 2, PUT_SOFTPIN | PUT_DURABLE);
	turn(SECOND);
	peer_takes(peer);
	want_keepers(&guest, 2);
	credit(peer, 0);
	node_loses_its_pool(&guest);
	assert_int_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	assert_int_equal(role_in(KEY, peer_id(peer)), DIR_KEEPER);
	return guest_of();
}

static void test_spoiled_bytes_are_read_from_the_other_and_it_is_told(void **state)
{
	struct guest guest = put_on_two_disks(1);
	struct msg_lacking msg;
	struct fake_ask *ask;

	(void)state;
	assert_int_equal(sim_tier_rot(&tier), entry_of(KEY));
	get(&guest, KEY);
	turn(SECOND);
	assert_int_not_equal(role_in(KEY, THIS_ID), DIR_KEEPER);
	ask = want_ask(1, MSG_TYPE_LACKING);
	assert_int_equal(msg_lacking_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.generation, entry_of(KEY));
	assert_int_equal(msg.key.size, strlen(KEY));
	gives(1, entry_of(KEY), 5);
	want_object(&guest, 5);
	turn(SECOND);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
	assert_int_equal(own_role_in(KEY), DIR_SECONDARY);
	assert_false(is_kept(KEY));
}

/* The other side: nobody has come or gone since all was well. */
static void test_one_whose_bytes_are_spoiled_elsewhere_is_made_up_for(void **state)
{
	uint64_t generation;

	(void)state;
	put_on_two(0);
	generation = entry_of(KEY);
	link_opens(0);
	ASK(0, CHANNEL, lacking, .key = text("other"), .generation = generation);
	ASK(0, CHANNEL, lacking, .key = text(KEY), .generation = generation);
	turn(5 * SECOND);
	assert_int_equal(count_keeps(), 0); /* it keeps it, says the directory */
	peer_has_no_more(0, KEY, generation);
	turn(10 * SECOND);
	assert_int_equal(count_keeps(), 0);
	credit(2, MIB);
	ASK(0, CHANNEL, lacking, .key = text(KEY), .generation = generation);
	turn(SECOND);
	assert_int_equal(want_keep(2).from, 0);
	peer_takes(2);
	turn(SECOND);
	assert_int_equal(role_in(KEY, peer_id(2)), DIR_KEEPER);
	assert_int_equal(stats()->rebuilt, 1);
	assert_string_equal(rebuild_state_text(world.node), "off");
}

static bool is_being_rebuilt(const char *key)
{
	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		const struct rebuild *rebuild = &world.node->cluster.rebuilder.list[i];

		if (rebuild->state != REBUILD_FREE &&
			rebuild->held.generation == entry_of(key))
			return true;
	}
	return false;
}

/* Without letting anything else happen. */
static void lacking_comes(unsigned peer, const char *key)
{
	struct msg_lacking msg = {.key = text(key), .generation = entry_of(key)};
	unsigned char buffer[256];

	node_on_link_message(world.node, (struct link_id){fake.peers[peer].link}, CHANNEL,
		buffer, msg_lacking_encode(buffer, sizeof(buffer), &msg));
}

/* Of more than are looked up at once, the one that is not. */
static const char *put_more_than_are_rebuilt_at_once(struct guest *guest)
{
	static const char *keys[REBUILDS_AT_ONCE + 1] = {
		"a", "b", "c", "d", "e", "f", "g", "h", "i"};
	const char *ahead = NULL;

	for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
		SEND(guest->lane, put, .key = text(keys[i]), .op = ++guest->ops,
			.replicas = 2, .flags = PUT_SOFTPIN, .timeout_ns = WAIT,
			.value = text("value"));
		settle();
		(void)want_done(guest->lane);
	}
	hold_directory();
	turn(2 * SECOND);
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
		if (!is_being_rebuilt(keys[i]))
			ahead = keys[i];
	}
	assert_non_null(ahead);
	return ahead;
}

/* A peer keeps it too, so that its place is free for another. */
static void is_looked_up_and_kept_by(unsigned peer, const char *key)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(key),
						  .generation = entry_of(key)}),
		DIR_DONE);
	directory_answers_of(key);
	assert_false(is_being_rebuilt(key));
}

/* The walk over all that is kept has not met it yet, and does then. */
static void test_one_whose_bytes_are_spoiled_elsewhere_is_ahead_of_the_walk(void **state)
{
	struct guest guest = guest_of();
	const char *ahead = put_more_than_are_rebuilt_at_once(&guest);

	(void)state;
	link_opens(0);
	is_looked_up_and_kept_by(0, strcmp(ahead, "a") == 0 ? "c" : "a");
	is_looked_up_and_kept_by(0, strcmp(ahead, "b") == 0 ? "c" : "b");
	lacking_comes(0, ahead);
	assert_true(is_being_rebuilt(ahead));
	settle();
	fake.peers[1].free_bytes = MIB;
	turn(SECOND);
	let_directory_go();
	turn(SECOND);
	assert_int_equal(count_keeps(), REBUILDS_AT_ONCE - 1); /* each once */
}

/* What it is looked up for then was decided before. */
static void test_one_whose_bytes_are_spoiled_elsewhere_while_it_is_looked_up(void **state)
{
	uint64_t generation;

	(void)state;
	put_on_two(0);
	generation = entry_of(KEY);
	credit(1, MIB);
	link_opens(0);
	hold_directory();
	lacking_comes(0, KEY);
	settle();
	assert_true(is_being_rebuilt(KEY));
	directory_decides();
	peer_has_no_more(0, KEY, generation);
	lacking_comes(0, KEY);
	let_directory_go();
	assert_false(is_being_rebuilt(KEY));
	assert_int_equal(count_keeps(), 0);
	turn(3 * SECOND);
	assert_int_equal(want_keep(1).from, 0);
	peer_takes(1);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
}

/* While this node is drained it sees to nothing. */
static void test_one_whose_bytes_are_spoiled_elsewhere_is_seen_to_after_a_drain(
	void **state)
{
	struct guest guest = guest_of();

	(void)state;
	put_on_two(0);
	link_opens(0);
	send_drain(&guest);
	turn(SECOND);
	peer_has_no_more(0, KEY, entry_of(KEY));
	lacking_comes(0, KEY);
	turn(SECOND);
	SEND(guest.lane, drain, .begin = false);
	settle();
	(void)want_done(guest.lane);
	credit(1, MIB);
	turn(3 * SECOND);
	assert_int_equal(want_keep(1).from, 0);
	peer_takes(1);
	assert_int_equal(role_in(KEY, peer_id(1)), DIR_KEEPER);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_put_ends_when_two_keep_it),
	AMONG_PEERS(test_put_in_two_steps),
	AMONG_PEERS(test_each_on_a_node_of_its_own),
	AMONG_PEERS(test_nobody_has_room),
	AMONG_PEERS(test_one_refuses_and_another_takes),
	AMONG_PEERS(test_nobody_is_asked_after_the_deadline),
	AMONG_PEERS(test_busy_one_is_asked_again),
	AMONG_PEERS(test_role_goes_to_who_was_asked_to_keep_it_too),
	AMONG_PEERS(test_peer_dies_before_it_keeps_it),
	AMONG_PEERS(test_answer_of_the_peer_is_lost),
	AMONG_PEERS(test_deadline_without_an_answer),
	AMONG_PEERS(test_directory_is_away),
	AMONG_PEERS(test_removed_while_it_spreads),
	AMONG_PEERS(test_client_dies_while_it_spreads),
	AMONG_PEERS(test_what_makes_no_sense),
	AMONG_PEERS(test_required_without_room),
	AMONG_PEERS(test_required_with_too_few_nodes),
	AMONG_PEERS(test_required_on_disks_that_are_not_there),
	AMONG_PEERS(test_required_is_undone_everywhere),
	AMONG_PEERS(test_undone_after_the_directory_forgot),
	AMONG_PEERS(test_undone_though_its_client_is_gone),
	AMONG_PEERS(test_required_when_one_comes),
	AMONG_PEERS(test_keeps_beside_another),
	AMONG_PEERS(test_role_is_not_taken_beside_its_own),
	AMONG_PEERS(test_what_is_lacking_is_seen_to_by_who_takes_it),
	AMONG_PEERS(test_there_are_enough_already),
	AMONG_PEERS(test_takes_the_place_of_a_dead_one),
	AMONG_PEERS(test_durable_without_a_disk),
	DISK_AMONG_PEERS(test_durable_that_the_disk_does_not_take),
	AMONG_PEERS(test_lost_keeper_is_replaced),
	AMONG_PEERS(test_keeper_that_is_back_in_time_is_not_replaced),
	AMONG_PEERS(test_keeper_without_its_pool_is_replaced),
	AMONG_PEERS(test_rebuild_is_refused_and_cut),
	AMONG_PEERS(test_removed_while_it_is_rebuilt),
	AMONG_PEERS(test_rebuild_has_a_rate),
	AMONG_PEERS(test_rebuild_of_one_that_fits_nowhere_holds_up_no_other),
	AMONG_PEERS(test_who_has_a_copy_becomes_a_keeper_first),
	AMONG_PEERS(test_role_is_left_to_as_many_as_are_wanted),
	AMONG_PEERS(test_role_is_left_to_nobody_who_is_silent),
	AMONG_PEERS(test_role_was_taken_before),
	AMONG_PEERS(test_copy_of_a_dead_keeper_is_claimed),
	AMONG_PEERS(test_copy_is_claimed_while_it_is_announced),
	AMONG_PEERS(test_copy_is_claimed_before_it_is_named),
	AMONG_PEERS(test_drained_node_ends_its_claims),
	AMONG_PEERS(test_copy_is_not_claimed_while_a_keeper_lives),
	AMONG_PEERS(test_keeper_is_back_before_it_is_claimed),
	AMONG_PEERS(test_of_two_claimants_one_keeps_it),
	AMONG_PEERS(test_removed_before_it_is_claimed),
	AMONG_PEERS(test_claimed_from_nobody_it_gets_another_keeper),
	AMONG_PEERS(test_claimed_from_one_that_was_none_it_gets_another_keeper),
	AMONG_PEERS(test_directory_is_away_when_it_is_claimed),
	AMONG_PEERS(test_role_comes_back_from_a_dead_claimant),
	AMONG_PEERS(test_role_is_not_taken_back_twice),
	DISK_AMONG_PEERS(test_spoiled_bytes_are_read_from_the_other_and_it_is_told),
	AMONG_PEERS(test_one_whose_bytes_are_spoiled_elsewhere_is_made_up_for),
	AMONG_PEERS(test_one_whose_bytes_are_spoiled_elsewhere_is_ahead_of_the_walk),
	AMONG_PEERS(test_one_whose_bytes_are_spoiled_elsewhere_while_it_is_looked_up),
	AMONG_PEERS(test_one_whose_bytes_are_spoiled_elsewhere_is_seen_to_after_a_drain),
	AMONG_PEERS(test_copy_that_may_be_the_last_is_spared),
	AMONG_PEERS(test_copy_is_spared_for_a_while_only),
	AMONG_PEERS(test_copies_are_spared_anew_when_another_peer_goes),
};

UNIT_MAIN(tests)
