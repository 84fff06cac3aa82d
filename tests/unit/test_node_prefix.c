/*
 * Tests of node/: REMOVE_PREFIX, by a node alone, with a disk, and among others.
 */
#include "node_disk.h"
#include "node_peers.h"

#include "node/node_priv.h"

static void put_many(struct guest *guest, const char *prefix, unsigned count)
{
	char key[32];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(key, sizeof(key), "%s%u", prefix, i);
		send_put(guest, key, "value", SECOND);
		if (world.before_new != NULL)
			settle();
		(void)want_done(guest->lane);
	}
}

static struct guest attach_settled(void)
{
	struct guest guest = attach();

	settle();
	return guest;
}

static void send_prefix(struct guest *guest, const char *prefix)
{
	SEND(guest->lane, remove_prefix, .prefix = text(prefix));
	if (world.before_new != NULL)
		settle();
}

static uint64_t objects(void)
{
	struct pool_use use;

	master_use(node_master(world.node), &use);
	return use.objects;
}

static uint32_t graves(void)
{
	return world.node->cluster.grave_count;
}

/* ---- alone --------------------------------------------------------------- */

static void test_what_begins_so_goes_and_is_counted(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_many(&guest, "a/", 200);
	put_many(&guest, "b/", 3);
	put_many(&guest, "a", 1);
	send_prefix(&guest, "a/");
	assert_int_equal(want_done(guest.lane), 200);
	assert_int_equal(objects(), 4);
	send_prefix(&guest, "a/");
	assert_int_equal(want_done(guest.lane), 0);
	send_prefix(&guest, "");
	assert_int_equal(want_done(guest.lane), 4);
	assert_int_equal(used_bytes(), 0);
}

static void test_unfinished_puts_pass_their_keys_on(void **state)
{
	struct guest guest = attach(), other = attach(), third = attach();
	struct msg_put_started started = start(&guest, "a/1", 5, 0);

	(void)state;
	send_put(&other, "a/1", "value", 60 * SECOND); /* waits for the first */
	want_nothing(other.lane);
	send_prefix(&third, "a/");
	assert_int_equal(want_done(third.lane), 0);
	(void)want_done(other.lane);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life);
	want_error(guest.lane, ERR_REMOVED, "");
	assert_get(&other, "a/1", "value");
}

/* It takes an op for each object, and leaves none to others for long. */
static void test_ops_run_out(void **state)
{
	struct guest guest = attach(), others[15];

	(void)state;
	put_many(&guest, "a/", 40);
	for (unsigned i = 0; i < 15; i++) {
		others[i] = attach();
		send_get(others[i].lane, "x", GET_WAIT, 60 * SECOND);
	}
	send_prefix(&guest, "a/");
	want_nothing(guest.lane);
	assert_int_equal(objects(), 40);
	assert_true(sim_advance(&world, 5 * SECOND));
	want_nothing(guest.lane);
	sim_process_end(&world, others[0].pid);
	assert_true(sim_advance(&world, SECOND));
	assert_int_equal(want_done(guest.lane), 40);
	/* For ten seconds it waits for one. */
	put_many(&guest, "a/", 1);
	others[0] = attach();
	send_get(others[0].lane, "x", GET_WAIT, 60 * SECOND);
	send_prefix(&guest, "a/");
	assert_true(sim_advance(&world, 11 * SECOND));
	want_error(guest.lane, ERR_TOO_MANY, "0 objects were removed");
}

static void test_client_that_goes_ends_its_removal(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	put_many(&guest, "a/", 200);
	assert_int_equal(
		fault_arm(&world.faults, "NodeBeforeCondemn", FAULT_SLEEP, 1000, 5, -1),
		0);
	send_prefix(&guest, "a/");
	want_nothing(guest.lane);
	sim_process_end(&world, guest.pid);
	assert_true(sim_settle(&world));
	assert_int_equal(world.node->ops_used, 0);
	assert_int_equal(objects(), 196);
	assert_int_equal(
		fault_arm(&world.faults, "NodeBeforeCondemn", FAULT_RESET, 0, 0, 0), 0);
	send_prefix(&other, "a/");
	assert_int_equal(want_done(other.lane), 196);
}

static void test_one_that_fails_is_told_and_the_rest_goes(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_many(&guest, "a/", 100);
	assert_int_equal(fault_arm(&world.faults, "NodeBeforeCondemn", FAULT_RETURN_ERROR,
				 ERR_RPC_FAIL, 7, 1),
		0);
	send_prefix(&guest, "a/");
	want_error(guest.lane, ERR_RPC_FAIL, "99 objects were removed");
	send_prefix(&guest, "a/");
	assert_int_equal(want_done(guest.lane), 1);
}

/* ---- on disk ------------------------------------------------------------- */

static void test_what_is_only_on_disk_goes_too(void **state)
{
	struct guest guest = attach();
	struct disk_use use;

	(void)state;
	crowd(&guest, 12, MIB / 2); /* more than the pool has: p0 to p11 */
	(void)object(&guest, "q", MIB / 2);
	master_disk_use(node_master(world.node), &use);
	assert_true(use.objects_only > 0);
	send_prefix(&guest, "p");
	pass(SECOND);
	assert_int_equal(want_done(guest.lane), 12);
	assert_int_equal(stat_of(&guest, "q").size, MIB / 2);
	lose_host(&guest);
	master_disk_use(node_master(world.node), &use);
	assert_true(use.objects <= 1);
	send_prefix(&guest, "p");
	pass(SECOND);
	assert_int_equal(want_done(guest.lane), 0);
}

static void put_durable(struct guest *guest, const char *key)
{
	SEND(guest->lane, put, .key = text(key), .op = ++guest->ops,
		.flags = PUT_SOFTPIN | PUT_DURABLE, .timeout_ns = SECOND,
		.value = text("value"));
	pass(SECOND);
	(void)want_done(guest->lane);
}

static void test_many_small_ones_on_disk(void **state)
{
	struct guest guest = attach();
	struct disk_use use;
	char key[16];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof(key), "s%u", i);
		send_put(&guest, key, "value", SECOND);
		(void)want_done(guest.lane);
	}
	for (unsigned i = 0; i < 150; i++) {
		(void)snprintf(key, sizeof(key), "d%u", i);
		put_durable(&guest, key);
	}
	lose_host(&guest);
	master_disk_use(node_master(world.node), &use);
	assert_int_equal(use.objects_only, 150);
	send_prefix(&guest, "d1");
	pass(SECOND);
	assert_int_equal(want_done(guest.lane), 61);
	send_prefix(&guest, "");
	pass(SECOND);
	assert_int_equal(want_done(guest.lane), 89);
}

static void test_client_goes_while_keys_are_read(void **state)
{
	struct guest guest = attach(), other;

	(void)state;
	put_durable(&guest, "p");
	lose_host(&guest);
	other = attach();
	send_prefix(&guest, "p");
	want_nothing(guest.lane);
	sim_process_end(&world, guest.pid);
	pass(SECOND);
	assert_int_equal(world.node->ops_used, 0);
	send_prefix(&other, "p");
	pass(SECOND);
	assert_int_equal(want_done(other.lane), 1);
}

/* It is on disk when the pool is walked, and in the pool when the keys come. */
static void test_what_moves_under_the_walk_is_met_by_the_next(void **state)
{
	struct guest guest = attach(), other;
	struct msg_found found;

	(void)state;
	put_durable(&guest, "p");
	lose_host(&guest);
	other = attach();
	assert_int_equal(
		fault_arm(&world.faults, "NodeAfterDiskRead", FAULT_SLEEP, 500, 1, 1), 0);
	send_get(guest.lane, "p", 0, SECOND);
	pass(SECOND / 2);
	pass(node_next(world.node) - world.now_ns - 1);
	want_nothing(guest.lane);
	send_prefix(&other, "p");
	pass(SECOND);
	WANT(guest.lane, found, &found);
	assert_int_equal(want_done(other.lane), 1);
}

/* ---- among others -------------------------------------------------------- */

static struct msg_drop_prefix told(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_DROP_PREFIX);
	struct msg_drop_prefix msg;

	assert_int_equal(msg_drop_prefix_decode(ask->bytes, ask->size, &msg), 0);
	return msg;
}

static void reply_count(unsigned peer, uint64_t count)
{
	REPLY(want_ask(peer, MSG_TYPE_DROP_PREFIX), done, .generation = count);
	settle();
}

static void reply_all(uint64_t count)
{
	for (unsigned i = 0; i < PEERS; i++)
		reply_count(i, count);
}

static void test_all_nodes_do_their_part(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	put_many(&guest, "a/", 100);
	send_prefix(&guest, "a/");
	assert_int_equal(objects(), 0);
	assert_int_equal(entry_of("a/7"), 0);
	for (unsigned i = 0; i < PEERS; i++) {
		want_nothing(guest.lane);
		assert_int_equal(told(i).now, 1);
		assert_int_equal(told(i).prefix.size, 2);
		assert_true(told(i).before > world.node->master.last_generation);
		reply_count(i, 10 + i);
	}
	assert_int_equal(want_done(guest.lane), 133);
	assert_int_equal(graves(), 0);
}

static void test_copies_of_what_is_kept_here_go_first(void **state)
{
	struct guest guest = attach_settled();
	uint64_t generation;

	(void)state;
	put_many(&guest, "a/", 1);
	generation = entry_of("a/0");
	peer_copies(1, "a/0", generation);
	send_prefix(&guest, "a/");
	reply_all(0);
	want_nothing(guest.lane);
	REPLY(want_ask(1, MSG_TYPE_DROP), done, .generation = generation);
	settle();
	assert_int_equal(want_done(guest.lane), 1);
}

static void put_copy_here(const char *key, uint64_t generation)
{
	struct copy_request copy = {
		.key = key_of(world.node, key, (uint32_t)strlen(key)),
		.size = 5,
		.generation = generation,
		.expires = UINT64_MAX,
	};
	struct master *master = node_master(world.node);
	uint32_t slot;

	assert_int_equal(master_copy_start(master, &copy, NULL, world.now_ns, &slot),
		LOAD_STARTED);
	assert_int_equal(master_copy_done(master, slot, 0, 1, world.now_ns), 0);
}

static void test_copies_here_end_and_are_not_counted(void **state)
{
	struct guest guest = attach_settled();
	struct dir_id id = id_of("a/1");
	struct dir_entry entry;

	(void)state;
	peer_keeps(1, "a/1", 50);
	put_copy_here("a/1", 50);
	assert_int_equal(objects(), 1);
	send_prefix(&guest, "a/");
	assert_int_equal(objects(), 0);
	reply_count(0, 0);
	reply_count(1, 1);
	reply_count(2, 0);
	assert_int_equal(want_done(guest.lane), 1);
	/* Nobody asks here for it any more. */
	assert_true(dir_mem_look(fake.mem, &id, &entry));
	assert_int_equal(entry.holder_count, 1);
}

static void test_entry_of_a_keeper_that_is_gone_goes_with_the_copy(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_keeps(1, "a/1", 50);
	put_copy_here("a/1", 50);
	peer_goes(1);
	turn(4 * SECOND);
	send_prefix(&guest, "a/");
	settle();
	assert_int_equal(entry_of("a/1"), 0);
}

static void test_what_is_put_meanwhile_stays(void **state)
{
	struct guest guest = attach_settled(), other = attach_settled();

	(void)state;
	put_many(&guest, "a/", 2);
	fake.dir_waits = true;
	send_prefix(&guest, "a/");
	fake.dir_waits = false;
	settle();
	put_many(&other, "a/new", 1);
	reply_all(0);
	assert_int_equal(want_done(guest.lane), 2);
	assert_get(&other, "a/new0", "value");
}

static void test_who_is_away_hears_of_the_prefix_later(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	fake.peers[0].generation = 70;
	turn(SECOND);
	peer_goes(0);
	send_prefix(&guest, "a/");
	reply_count(1, 3);
	peer_goes(2); /* under the question */
	turn(2 * SECOND);
	want_nothing(guest.lane);
	turn(2 * SECOND);
	assert_int_equal(want_done(guest.lane), 3);
	assert_int_equal(graves(), 2);
	/* What it put since it was heard of last is to stay. */
	fake.peers[0].generation = 90;
	peer_comes(0);
	assert_int_equal(told(0).before, 71);
	assert_int_equal(told(0).now, 0);
	reply_count(0, 1);
	peer_comes(2);
	assert_int_equal(told(2).before, 11);
	reply_count(2, 1);
	assert_int_equal(graves(), 0);
}

static void test_who_is_away_for_a_moment_is_waited_for(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	peer_goes(0);
	send_prefix(&guest, "a/");
	reply_count(1, 0);
	peer_goes(2); /* under the question */
	want_nothing(guest.lane);
	peer_comes(0);
	peer_comes(2);
	assert_int_equal(told(0).now, 1);
	assert_int_equal(told(2).now, 1);
	reply_count(0, 1);
	want_nothing(guest.lane);
	reply_count(2, 4);
	assert_int_equal(want_done(guest.lane), 5);
	assert_int_equal(graves(), 0);
}

static void test_node_that_fails_is_told(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	send_prefix(&guest, "a/");
	reply_count(0, 1);
	reply_error(want_ask(1, MSG_TYPE_DROP_PREFIX), ERR_TOO_MANY);
	settle();
	want_nothing(guest.lane);
	reply_count(2, 1);
	want_error(guest.lane, ERR_TOO_MANY, "2 objects were removed");
	reply_count(1, 1); /* the grave's */
	assert_int_equal(graves(), 0);
}

static void test_client_that_goes_leaves_the_word_to_graves(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	put_many(&guest, "a/", 100);
	fake.dir_waits = true;
	send_prefix(&guest, "a/");
	reply_count(0, 1);
	sim_process_end(&world, guest.pid);
	settle();
	fake.dir_waits = false;
	turn(SECOND);
	assert_int_equal(world.node->ops_used, 0);
	assert_int_equal(world.node->cluster.queries_used, 0);
	assert_int_equal(graves(), 2);
	for (unsigned i = 1; i < PEERS; i++) {
		while (count_asks(i, MSG_TYPE_DROP_PREFIX) > 0)
			reply_count(i, 1);
	}
	assert_int_equal(graves(), 0);
}

static void test_peer_has_this_node_do_its_part(void **state)
{
	struct guest guest = attach_settled();
	uint64_t before;
	struct msg_done done;

	(void)state;
	put_many(&guest, "a/", 70);
	before = entry_of("a/7");
	link_opens(1);
	/* A grave's: what is as new or newer stays. */
	ASK(1, 1, drop_prefix, .before = before, .prefix = text("a/"));
	WANT_ANSWER(1, 1, done, &done);
	assert_int_equal(done.generation, 7);
	/* A client's: all that is here by now, though its clock is behind. */
	ASK(1, 2, drop_prefix, .before = before, .now = 1, .prefix = text("a/"));
	WANT_ANSWER(1, 2, done, &done);
	assert_int_equal(done.generation, 63);
	for (unsigned i = 0; i < PEERS; i++)
		assert_null(find_ask(i, MSG_TYPE_DROP_PREFIX)); /* it tells nobody */
	ASK(1, 3, drop_prefix, .before = UINT64_MAX / 2, .prefix = text(""));
	WANT_ANSWER(1, 3, done, &done);
	assert_int_equal(done.generation, 0);
}

static void test_link_breaks_under_a_prefix(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	put_many(&guest, "a/", 70);
	link_opens(1);
	fake.dir_waits = true;
	ASK(1, 1, drop_prefix, .before = generation_of_now(world.node), .now = 1,
		.prefix = text("a/"));
	assert_null(find_answer(1, 1));
	assert_true(world.node->ops_used > 64);
	link_closes(1);
	assert_int_equal(world.node->ops_used, 0);
	assert_int_equal(world.node->cluster.lanes_used, 0);
	fake.dir_waits = false;
	settle();
	/* What was begun is done. */
	assert_int_equal(objects(), 6);
	assert_int_equal(world.node->cluster.queries_used, 0);
}

static void test_without_a_directory_the_prefix_goes_too(void **state)
{
	struct guest guest = attach_settled();

	(void)state;
	put_many(&guest, "a/", 2);
	dir_mem_set_away(fake.mem, 0, true);
	send_prefix(&guest, "a/");
	assert_int_equal(objects(), 0);
	reply_all(0);
	want_nothing(guest.lane);
	for (unsigned i = 0; i < PEERS; i++) {
		assert_int_equal(count_asks(i, MSG_TYPE_DROP), 2);
		reply_error(want_ask(i, MSG_TYPE_DROP), ERR_NOT_FOUND);
		reply_error(want_ask(i, MSG_TYPE_DROP), ERR_NOT_FOUND);
	}
	settle();
	assert_int_equal(want_done(guest.lane), 2);
	dir_mem_set_away(fake.mem, 0, false);
	turn(SECOND);
	assert_int_equal(entry_of("a/0"), 0);
	assert_int_equal(entry_of("a/1"), 0);
}

static const struct CMUnitTest tests[] = {
	TEST(test_what_begins_so_goes_and_is_counted),
	TEST(test_unfinished_puts_pass_their_keys_on),
	TEST_IN(test_ops_run_out, setup_few_ops),
	TEST(test_client_that_goes_ends_its_removal),
	TEST(test_one_that_fails_is_told_and_the_rest_goes),
	ON_DISK(test_what_is_only_on_disk_goes_too),
	ON_DISK(test_many_small_ones_on_disk),
	ON_DISK(test_client_goes_while_keys_are_read),
	ON_DISK(test_what_moves_under_the_walk_is_met_by_the_next),
	AMONG_PEERS(test_all_nodes_do_their_part),
	AMONG_PEERS(test_copies_of_what_is_kept_here_go_first),
	AMONG_PEERS(test_copies_here_end_and_are_not_counted),
	AMONG_PEERS(test_entry_of_a_keeper_that_is_gone_goes_with_the_copy),
	AMONG_PEERS(test_what_is_put_meanwhile_stays),
	AMONG_PEERS(test_who_is_away_hears_of_the_prefix_later),
	AMONG_PEERS(test_who_is_away_for_a_moment_is_waited_for),
	AMONG_PEERS(test_node_that_fails_is_told),
	AMONG_PEERS(test_client_that_goes_leaves_the_word_to_graves),
	AMONG_PEERS(test_peer_has_this_node_do_its_part),
	AMONG_PEERS(test_link_breaks_under_a_prefix),
	AMONG_PEERS(test_without_a_directory_the_prefix_goes_too),
};

UNIT_MAIN(tests)
