/*
 * Tests of node/: who may attach, what may be said, and what is answered at once.
 */
#include "node_guest.h"

/* ---- attach -------------------------------------------------------------- */

static void test_attach_gives_grant_and_token(void **state)
{
	struct guest guest = {.pid = sim_process(&world, 0)};
	struct sim_message *message;

	(void)state;
	hello(&guest, no_tokens, 0);
	message = answer(guest.lane);
	assert_non_null(message);
	assert_true(message->has_grant);
	assert_true(message->grant.pool_writable);
	assert_int_equal(
		msg_welcome_decode(message->bytes, message->size, &guest.welcome), 0);
	assert_int_equal(guest.welcome.pool_size, POOL);
	assert_int_equal(guest.welcome.epoch, 1);
	assert_memory_not_equal(guest.welcome.token, no_tokens, 16);
	assert_memory_equal(
		guest.welcome.token, world.share.clients[guest.welcome.cid].token, 16);
}

static void test_other_version_is_refused_with_both_numbers(void **state)
{
	struct lane_id lane = sim_connect(&world, sim_process(&world, 0));

	(void)state;
	SEND(lane, hello, .version = 99);
	want_error(lane, ERR_VERSION, "protocol 99, this daemon 2");
}

static void test_uid_must_be_listed(void **state)
{
	struct lane_id lane = sim_connect(&world, sim_process(&world, 1234));

	(void)state;
	SEND(lane, hello, .version = WIRE_VERSION);
	want_error(lane, ERR_NOT_PERMITTED, "user id 1234");
}

static void test_token_joins_a_lane_of_the_same_process_only(void **state)
{
	struct guest guest = attach();
	struct guest second = guest;
	struct guest thief = {.pid = sim_process(&world, 0)};
	struct sim_message *message;

	(void)state;
	hello(&second, guest.welcome.token, 0);
	message = answer(second.lane);
	assert_non_null(message);
	assert_false(message->has_grant);
	assert_int_equal(
		msg_welcome_decode(message->bytes, message->size, &second.welcome), 0);
	assert_int_equal(second.welcome.cid, guest.welcome.cid);
	hello(&thief, guest.welcome.token, 0);
	want_error(thief.lane, ERR_NOT_PERMITTED, "not the one that asks");
	hello(&thief, "0123456789abcdef", 0);
	want_error(thief.lane, ERR_STALE, "attach again");
}

static void test_client_257_is_refused_and_room_comes_back(void **state)
{
	struct guest guests[CLIENT_LIMIT];
	struct lane_id lane;

	(void)state;
	for (uint32_t i = 0; i < CLIENT_LIMIT; i++)
		guests[i] = attach();
	lane = sim_connect(&world, sim_process(&world, 0));
	SEND(lane, hello, .version = WIRE_VERSION);
	want_error(lane, ERR_TOO_MANY, "256 clients");
	sim_process_end(&world, guests[7].pid);
	assert_true(sim_settle(&world));
	SEND(lane, hello, .version = WIRE_VERSION);
	WANT(lane, welcome, &guests[7].welcome);
	assert_int_equal(guests[7].welcome.cid, 7);
}

static void test_closed_lanes_leave_the_client_until_its_end(void **state)
{
	struct guest guest = attach();
	uint32_t cid = guest.welcome.cid;

	(void)state;
	SEND(guest.lane, tell, .slot = SLOT_NONE);
	sim_disconnect(&world, guest.lane);
	assert_sound();
	assert_int_equal(world.share.clients[cid].state, SHARE_CLIENT_LIVE);
	sim_process_end(&world, guest.pid);
	assert_sound();
	assert_int_equal(world.share.clients[cid].state, SHARE_CLIENT_FREE);
	assert_null(world.holds[cid].counts);
}

/* Nobody can have its token: the WELCOME was never taken up. */
static void test_client_that_was_never_heard_ends_with_its_lane(void **state)
{
	struct guest guest = attach();
	uint32_t cid = guest.welcome.cid;

	(void)state;
	sim_disconnect(&world, guest.lane);
	assert_sound();
	assert_int_equal(world.share.clients[cid].state, SHARE_CLIENT_FREE);
	assert_null(world.holds[cid].counts);
}

static void test_bye_ends_the_client_at_once(void **state)
{
	struct guest guest = attach();

	(void)state;
	(void)start(&guest, "unfinished", 5000, 0);
	SEND(guest.lane, bye, .reason = 0);
	(void)want_done(guest.lane);
	assert_int_equal(world.share.clients[guest.welcome.cid].state, SHARE_CLIENT_FREE);
	assert_int_equal(used_bytes(), 0);
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, ERR_PROTOCOL, "HELLO");
}

static void test_read_only_client_may_not_put(void **state)
{
	struct guest guest = attach_as(0, HELLO_READ_ONLY);

	(void)state;
	send_put(&guest, "k", "v", SECOND);
	want_error(guest.lane, ERR_NOT_PERMITTED, "read-only");
}

/* ---- protocol ------------------------------------------------------------ */

static void test_unknown_type_is_answered_and_the_lane_goes_on(void **state)
{
	const unsigned char unknown[8] = {0x39, 0x30};
	struct guest guest = attach();

	(void)state;
	assert_true(sim_send(&world, guest.lane, unknown, sizeof(unknown)));
	want_error(guest.lane, ERR_PROTOCOL, "12345");
	SEND(guest.lane, found, .slot = 1); /* known, but no request */
	want_error(guest.lane, ERR_PROTOCOL, "21");
	put(&guest, "k", "v");
}

static void test_broken_frame_closes_the_lane(void **state)
{
	const unsigned char broken[9] = {20, 0, 0, 0, 200};
	struct guest guest = attach();

	(void)state;
	assert_true(sim_send(&world, guest.lane, broken, sizeof(broken)));
	assert_true(sim_settle(&world));
	assert_false(sim_lane_is_open(&world, guest.lane));
}

static void test_broken_body_is_answered(void **state)
{
	const unsigned char body[9] = {20, 0, 0, 0, 1, 0, 0, 0, 7};
	struct guest guest = attach();

	(void)state;
	assert_true(sim_send(&world, guest.lane, body, sizeof(body)));
	want_error(guest.lane, ERR_PROTOCOL, "GET");
	put(&guest, "k", "v");
}

static void test_second_request_before_the_answer_is_refused(void **state)
{
	struct guest guest = attach();

	(void)state;
	send_get(guest.lane, "k", GET_WAIT, UINT64_MAX);
	want_nothing(guest.lane);
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, ERR_PROTOCOL, "second request");
}

static void test_all_ops_in_use_names_the_limit(void **state)
{
	struct guest guests[17];

	(void)state;
	for (int i = 0; i < 17; i++)
		guests[i] = attach();
	for (int i = 0; i < 16; i++)
		send_get(guests[i].lane, "k", GET_WAIT, UINT64_MAX);
	send_get(guests[16].lane, "k", 0, 0);
	want_error(guests[16].lane, ERR_TOO_MANY, "all 16 operations");
	sim_process_end(&world, guests[3].pid);
	assert_true(sim_settle(&world));
	put(&guests[16], "k", "v");
}

/* ---- put, get, remove ---------------------------------------------------- */

static void test_small_put_is_one_round_trip_and_repeats_harmlessly(void **state)
{
	struct guest guest = attach();
	uint64_t generation;

	(void)state;
	send_put(&guest, "k", "value", SECOND);
	generation = want_done(guest.lane);
	assert_true(generation > 0);
	guest.ops--; /* the same put again, as after a lost answer */
	send_put(&guest, "k", "value", SECOND);
	assert_int_equal(want_done(guest.lane), generation);
	send_put(&guest, "k", "other", SECOND);
	want_error(guest.lane, ERR_EXISTS, "the key k has an object of 5 bytes");
	assert_get(&guest, "k", "value");
}

static void test_put_in_two_steps(void **state)
{
	struct guest guest = attach();
	struct msg_put_started started = start(&guest, "k", 6, PUT_SOFTPIN);
	struct msg_stated stated;

	(void)state;
	memcpy(world.share.pool + started.off, "object", 6);
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, ERR_NOT_FOUND, "k");
	end(&guest, started);
	end(&guest, started); /* a repeat */
	assert_get(&guest, "k", "object");
	SEND(guest.lane, stat, .key = text("k"));
	WANT(guest.lane, stated, &stated);
	assert_int_equal(stated.size, 6);
	assert_int_equal(stated.flags, PUT_SOFTPIN | STAT_IN_POOL);
	assert_int_equal(stated.expires_in_ns, UINT64_MAX);
	SEND(guest.lane, put_end, .slot = 4000000, .life = 1);
	want_error(guest.lane, ERR_NOT_FOUND, "no put");
}

static void test_abort_frees_the_run(void **state)
{
	struct guest guest = attach();
	struct msg_put_started started = start(&guest, "k", 100000, 0);

	(void)state;
	SEND(guest.lane, put_abort, .slot = started.slot, .life = started.life);
	(void)want_done(guest.lane);
	assert_int_equal(used_bytes(), 0);
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life);
	want_error(guest.lane, ERR_NOT_FOUND, "no put");
}

static void test_too_large_names_the_largest(void **state)
{
	struct guest guest = attach();

	(void)state;
	send_start(&guest, "k", POOL + 1, 0, SECOND);
	want_error(guest.lane, ERR_TOO_LARGE, "4194304");
	end(&guest, start(&guest, "k", POOL, 0));
}

static void test_remove_and_take(void **state)
{
	struct guest guest = attach();
	struct msg_found found;

	(void)state;
	put(&guest, "k", "v");
	SEND(guest.lane, remove, .key = text("k"));
	(void)want_done(guest.lane);
	SEND(guest.lane, remove, .key = text("k"));
	want_error(guest.lane, ERR_NOT_FOUND, "k");
	put(&guest, "t", "v");
	send_get(guest.lane, "t", 0, 0);
	WANT(guest.lane, found, &found);
	SEND(guest.lane, take, .slot = found.slot, .life = found.life, .op = 70);
	(void)want_done(guest.lane);
	SEND(guest.lane, take, .slot = found.slot, .life = found.life, .op = 70);
	(void)want_done(guest.lane);
	SEND(guest.lane, take, .slot = found.slot, .life = found.life, .op = 71);
	want_error(guest.lane, ERR_NOT_FOUND, "somebody else");
	SEND(guest.lane, unpin, .slot = found.slot, .life = found.life);
	assert_sound();
	assert_int_equal(used_bytes(), 0);
}

static void test_pins_end_with_their_lane(void **state)
{
	struct guest guest = attach();
	struct msg_found found;

	(void)state;
	put(&guest, "k", "v");
	send_get(guest.lane, "k", 0, 0);
	WANT(guest.lane, found, &found);
	assert_int_equal(node_master(world.node)->pinned, 1);
	SEND(guest.lane, unpin, .slot = found.slot, .life = found.life + 1);
	assert_int_equal(node_master(world.node)->pinned, 1);
	sim_disconnect(&world, guest.lane);
	assert_sound();
	assert_int_equal(node_master(world.node)->pinned, 0);
}

static void test_list_comes_in_pages(void **state)
{
	struct guest guest = attach();
	struct msg_bytes entries;
	struct msg_entry entry;
	struct msg_listed listed = {.next = 0};
	char key[600];
	unsigned seen = 0, pages = 0;

	(void)state;
	memset(key, 'x', sizeof(key));
	for (unsigned i = 0; i < 400; i++) {
		(void)snprintf(key + 590, 10, "%u", i);
		put(&guest, key, "v");
	}
	put(&guest, "other", "v");
	while (listed.next != UINT64_MAX) {
		SEND(guest.lane, list, .prefix = text("xx"), .cursor = listed.next);
		WANT(guest.lane, listed, &listed);
		entries = listed.entries;
		while (msg_entry_next(&entries, &entry) == 1)
			seen++;
		pages++;
	}
	assert_int_equal(seen, 400);
	assert_int_equal(pages, 2);
}

static const struct CMUnitTest tests[] = {
	TEST(test_attach_gives_grant_and_token),
	TEST(test_other_version_is_refused_with_both_numbers),
	TEST(test_uid_must_be_listed),
	TEST(test_token_joins_a_lane_of_the_same_process_only),
	TEST(test_client_257_is_refused_and_room_comes_back),
	TEST(test_closed_lanes_leave_the_client_until_its_end),
	TEST(test_client_that_was_never_heard_ends_with_its_lane),
	TEST(test_bye_ends_the_client_at_once),
	TEST(test_read_only_client_may_not_put),
	TEST(test_unknown_type_is_answered_and_the_lane_goes_on),
	TEST(test_broken_frame_closes_the_lane),
	TEST(test_broken_body_is_answered),
	TEST(test_second_request_before_the_answer_is_refused),
	TEST_IN(test_all_ops_in_use_names_the_limit, setup_few_ops),
	TEST(test_small_put_is_one_round_trip_and_repeats_harmlessly),
	TEST(test_put_in_two_steps),
	TEST(test_abort_frees_the_run),
	TEST(test_too_large_names_the_largest),
	TEST(test_remove_and_take),
	TEST(test_pins_end_with_their_lane),
	TEST(test_list_comes_in_pages),
};

UNIT_MAIN(tests)
