/*
 * Tests of node/: who waits for a key or for room, until when, and batches of it.
 */
#include "node_guest.h"

/* ---- waiting ------------------------------------------------------------- */

static void test_get_waits_for_the_put_to_end(void **state)
{
	struct guest reader = attach(), writer = attach();
	struct msg_put_started started;
	struct msg_found found;

	(void)state;
	send_get(reader.lane, "k", GET_WAIT, 5 * SECOND);
	started = start(&writer, "k", 1, 0);
	want_nothing(reader.lane);
	end(&writer, started);
	WANT(reader.lane, found, &found);
	assert_int_equal(found.slot, started.slot);
}

static void test_get_times_out_on_the_clock(void **state)
{
	struct guest guest = attach();

	(void)state;
	send_get(guest.lane, "k", GET_WAIT, 5 * SECOND);
	assert_true(sim_advance(&world, 5 * SECOND - 1));
	want_nothing(guest.lane);
	assert_true(sim_advance(&world, 1));
	want_error(guest.lane, ERR_TIMEOUT, "k");
}

static void test_put_waits_for_a_put_and_finds_its_object(void **state)
{
	struct guest first = attach(), second = attach();
	struct msg_put_started started = start(&first, "k", 1, 0);

	(void)state;
	send_put(&second, "k", "2", 5 * SECOND);
	want_nothing(second.lane);
	end(&first, started);
	want_error(second.lane, ERR_EXISTS, "k");
}

static void test_put_takes_over_from_an_aborted_and_a_dead_one(void **state)
{
	struct guest first = attach(), second = attach(), third = attach();
	struct msg_put_started started = start(&first, "k", 1, 0);

	(void)state;
	send_start(&second, "k", 2, 0, 5 * SECOND);
	send_put(&third, "k", "3", 5 * SECOND);
	SEND(first.lane, put_abort, .slot = started.slot, .life = started.life);
	(void)want_done(first.lane);
	WANT(second.lane, put_started, &started);
	want_nothing(third.lane);
	sim_process_end(&world, second.pid);
	(void)want_done(third.lane);
	assert_get(&third, "k", "3");
}

static void test_put_takes_over_from_a_removed_and_a_late_one(void **state)
{
	struct guest first = attach(), second = attach();
	struct msg_put_started started = start(&first, "k", 1, 0);

	(void)state;
	send_put(&second, "k", "2", 5 * SECOND);
	SEND(first.lane, remove, .key = text("k"));
	(void)want_done(first.lane);
	(void)want_done(second.lane);
	SEND(first.lane, put_end, .slot = started.slot, .life = started.life);
	want_error(first.lane, ERR_REMOVED, "removed");
	started = start(&first, "late", 1, 0);
	send_put(&second, "late", "2", 90 * SECOND);
	assert_true(sim_advance(&world, 60 * SECOND - 1));
	want_nothing(second.lane);
	assert_true(sim_advance(&world, 1));
	(void)want_done(second.lane);
	SEND(first.lane, put_end, .slot = started.slot, .life = started.life);
	want_error(first.lane, ERR_TIMEOUT, "deadline");
}

static void test_put_behind_a_put_times_out(void **state)
{
	struct guest first = attach(), second = attach();

	(void)state;
	(void)start(&first, "k", 1, 0);
	send_put(&second, "k", "2", SECOND);
	assert_true(sim_advance(&world, SECOND));
	want_error(second.lane, ERR_TIMEOUT, "another put of the key k");
	send_put(&second, "k", "2", 0);
	want_error(second.lane, ERR_TIMEOUT, "another put of the key k");
}

static void test_put_without_room_waits_and_says_what_is_missing(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	end(&guest, start(&guest, "big", POOL - 8192, PUT_SOFTPIN));
	send_start(&other, "k", 100000, 0, 2 * SECOND);
	assert_true(sim_advance(&world, 2 * SECOND));
	want_error(other.lane, ERR_NO_SPACE, "no room for 100000 bytes");
	send_start(&other, "k", 100000, 0, 2 * SECOND);
	want_nothing(other.lane);
	SEND(guest.lane, remove, .key = text("big"));
	(void)want_done(guest.lane);
	WANT(other.lane, put_started, &(struct msg_put_started){0});
}

static void test_room_is_made_of_cache_objects_at_once(void **state)
{
	struct guest guest = attach();

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "c%u", i);
		end(&guest, start(&guest, key, 100000, 0));
	}
	end(&guest, start(&guest, "large", POOL / 2, 0));
	assert_sound();
}

static void test_closed_lane_leaves_queue_and_waiters(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	end(&guest, start(&guest, "big", POOL, PUT_SOFTPIN));
	send_start(&other, "k", 100000, 0, UINT64_MAX);
	want_nothing(other.lane);
	sim_disconnect(&world, other.lane);
	assert_sound();
	other = attach();
	send_get(other.lane, "w", GET_WAIT, UINT64_MAX);
	sim_disconnect(&world, other.lane);
	assert_sound();
	assert_int_equal(node_next(world.node), UINT64_MAX);
}

static void test_time_to_live(void **state)
{
	struct guest guest = attach();

	(void)state;
	SEND(guest.lane, put, .key = text("k"), .ttl_ns = 3 * SECOND, .op = 1,
		.timeout_ns = SECOND, .value = text("v"));
	(void)want_done(guest.lane);
	assert_true(sim_advance(&world, 3 * SECOND - 1));
	assert_get(&guest, "k", "v");
	assert_true(sim_advance(&world, 1));
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, ERR_NOT_FOUND, "k");
}

/* ---- batches ------------------------------------------------------------- */

static unsigned char pack_buffer[MSG_SIZE_MAX];

#define PACK(pack, name, ...)                                                 \
	do {                                                                  \
		struct msg_##name msg_ = {__VA_ARGS__};                       \
                                                                              \
		msg_pack_add((pack), msg_##name##_encode(msg_pack_tail(pack), \
					     msg_pack_room(pack), &msg_));    \
	} while (0)

static void send_pack(struct lane_id lane, struct msg_pack *pack)
{
	size_t size = msg_pack_finish(pack, MSG_TYPE_BATCH);

	assert_true(sim_send(&world, lane, pack->buffer, size));
}

/* The next answer of a batch as its type; its code if it is an ERROR. */
static int next_reply(struct msg_bytes *replies)
{
	struct msg_bytes message;
	struct msg_error error;
	enum msg_type type;

	assert_int_equal(msg_unpack(replies, &message), 1);
	assert_int_equal(msg_type(message.data, message.size, &type), 0);
	if (type != MSG_TYPE_ERROR)
		return (int)type;
	assert_int_equal(msg_error_decode(message.data, message.size, &error), 0);
	return error.code;
}

static void test_batch_answers_in_order_when_all_have_answered(void **state)
{
	struct guest guest = attach(), writer = attach();
	struct msg_batch_done done;
	struct msg_pack pack;

	(void)state;
	put(&guest, "a", "v");
	msg_pack_init(&pack, pack_buffer, sizeof(pack_buffer));
	PACK(&pack, get, .key = text("later"), .flags = GET_WAIT, .timeout_ns = SECOND);
	PACK(&pack, get, .key = text("a"));
	PACK(&pack, get, .key = text("absent"));
	PACK(&pack, batch, .count = 0);
	PACK(&pack, bye, .reason = 0);
	PACK(&pack, tell, .slot = 0);
	PACK(&pack, put, .key = text("b"), .op = 5, .value = text("w"));
	send_pack(guest.lane, &pack);
	memset(pack_buffer, 0xee, sizeof(pack_buffer));
	want_nothing(guest.lane);
	put(&writer, "later", "now");
	WANT(guest.lane, batch_done, &done);
	assert_int_equal(done.count, 7);
	assert_int_equal(next_reply(&done.replies), MSG_TYPE_FOUND);
	assert_int_equal(next_reply(&done.replies), MSG_TYPE_FOUND);
	assert_int_equal(next_reply(&done.replies), ERR_NOT_FOUND);
	assert_int_equal(next_reply(&done.replies), ERR_PROTOCOL);
	assert_int_equal(next_reply(&done.replies), ERR_PROTOCOL);
	assert_int_equal(next_reply(&done.replies), ERR_PROTOCOL);
	assert_int_equal(next_reply(&done.replies), MSG_TYPE_DONE);
	assert_int_equal(node_master(world.node)->pinned, 2);
}

static void test_batch_answers_that_do_not_fit_say_so(void **state)
{
	struct guest guest = attach();
	struct msg_batch_done done;
	struct msg_pack pack;
	char key[1000];
	int found = 0, too_large = 0;

	(void)state;
	memset(key, 'k', sizeof(key));
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(key + 990, 10, "%u", i);
		put(&guest, key, "v");
	}
	put(&guest, "short", "v");
	msg_pack_init(&pack, pack_buffer, sizeof(pack_buffer));
	PACK(&pack, list, .prefix = text("kk"), .cursor = 0);
	for (unsigned i = 0; i < 2000; i++)
		PACK(&pack, get, .key = text("short"));
	for (unsigned i = 0; i < 20; i++)
		PACK(&pack, info, .what = 0);
	send_pack(guest.lane, &pack);
	WANT(guest.lane, batch_done, &done);
	assert_int_equal(done.count, 2021);
	assert_int_equal(next_reply(&done.replies), MSG_TYPE_LISTED);
	for (unsigned i = 0; i < 2000; i++)
		found += next_reply(&done.replies) == MSG_TYPE_FOUND;
	for (unsigned i = 0; i < 20; i++)
		too_large += next_reply(&done.replies) == ERR_TOO_LARGE;
	assert_int_equal(found, 2000);
	assert_in_range(too_large, 1, 19);
}

static void test_broken_and_oversized_batches(void **state)
{
	struct guest guest = attach();
	struct msg_pack pack;

	(void)state;
	SEND(guest.lane, batch, .count = 1, .requests = text("garbage"));
	want_error(guest.lane, ERR_PROTOCOL, "batch");
	SEND(guest.lane, batch, .count = 0);
	want_error(guest.lane, ERR_PROTOCOL, "batch");
	msg_pack_init(&pack, pack_buffer, sizeof(pack_buffer));
	for (unsigned i = 0; i < 4097; i++)
		PACK(&pack, remove, .key = text("k"));
	send_pack(guest.lane, &pack);
	want_error(guest.lane, ERR_TOO_MANY, "4097 requests; the limit is 4096");
}

static void test_batch_of_a_closed_lane_leaves_nothing(void **state)
{
	struct guest guest = attach();
	struct msg_pack pack;

	(void)state;
	put(&guest, "a", "v");
	msg_pack_init(&pack, pack_buffer, sizeof(pack_buffer));
	PACK(&pack, get, .key = text("a"));
	PACK(&pack, put_start, .key = text("b"), .size = 50000, .op = 9);
	PACK(&pack, get, .key = text("never"), .flags = GET_WAIT,
		.timeout_ns = UINT64_MAX);
	send_pack(guest.lane, &pack);
	want_nothing(guest.lane);
	sim_disconnect(&world, guest.lane);
	assert_sound();
	assert_int_equal(node_master(world.node)->pinned, 0);
	assert_true(used_bytes() < 50000);
}

static const struct CMUnitTest tests[] = {
	TEST(test_get_waits_for_the_put_to_end),
	TEST(test_get_times_out_on_the_clock),
	TEST(test_put_waits_for_a_put_and_finds_its_object),
	TEST(test_put_takes_over_from_an_aborted_and_a_dead_one),
	TEST(test_put_takes_over_from_a_removed_and_a_late_one),
	TEST(test_put_behind_a_put_times_out),
	TEST(test_put_without_room_waits_and_says_what_is_missing),
	TEST(test_room_is_made_of_cache_objects_at_once),
	TEST(test_closed_lane_leaves_queue_and_waiters),
	TEST(test_time_to_live),
	TEST(test_batch_answers_in_order_when_all_have_answered),
	TEST(test_batch_answers_that_do_not_fit_say_so),
	TEST(test_broken_and_oversized_batches),
	TEST(test_batch_of_a_closed_lane_leaves_nothing),
};

UNIT_MAIN(tests)
