/*
 * Tests of node/: restarts, growth, moves and every fault point.
 */
#include "node_disk.h"

/* ---- restart ------------------------------------------------------------- */

static void restart(void)
{
	sim_kill_daemon(&world);
	assert_int_equal(sim_start_daemon(&world), 0);
}

static void test_restart_keeps_objects_puts_and_clients(void **state)
{
	struct guest guest = attach();
	struct msg_put_started started = start(&guest, "open", 3, 0);
	struct msg_put_started again;

	(void)state;
	put(&guest, "k", "value");
	restart();
	assert_int_equal(world.recovery.adopted, 1);
	assert_int_equal(world.recovery.writing, 1);
	hello(&guest, guest.welcome.token, 0);
	WANT(guest.lane, welcome, &guest.welcome);
	assert_int_equal(guest.welcome.epoch, 2);
	assert_get(&guest, "k", "value");
	guest.ops -= 2; /* the start once more, as if its answer had been lost */
	send_start(&guest, "open", 3, 0, SECOND);
	WANT(guest.lane, put_started, &again);
	assert_int_equal(again.slot, started.slot);
	memcpy(world.share.pool + again.off, "abc", 3);
	end(&guest, started);
	assert_get(&guest, "open", "abc");
}

static void test_restart_ends_clients_that_died_meanwhile(void **state)
{
	struct guest guest = attach(), stays = attach();

	(void)state;
	(void)start(&guest, "open", 50000, 0);
	put(&stays, "k", "v");
	sim_kill_daemon(&world);
	sim_process_end(&world, guest.pid);
	assert_int_equal(sim_start_daemon(&world), 0);
	assert_int_equal(world.recovery.dropped[DROP_WRITER_GONE], 1);
	assert_int_equal(world.share.clients[guest.welcome.cid].state, SHARE_CLIENT_FREE);
	assert_null(world.holds[guest.welcome.cid].counts);
	assert_true(used_bytes() < 50000);
	assert_int_equal(world.share.clients[stays.welcome.cid].state, SHARE_CLIENT_LIVE);
}

static void test_start_repeated_after_a_remove_leaves_no_earlier_run(void **state)
{
	struct guest guest = attach(), other = attach();
	struct msg_put_started started = start(&guest, "k", 50000, 0);

	(void)state;
	SEND(other.lane, remove, .key = text("k"));
	(void)want_done(other.lane);
	restart();
	hello(&guest, guest.welcome.token, 0);
	WANT(guest.lane, welcome, &guest.welcome);
	guest.ops--;
	started = start(&guest, "k", 50000, 0);
	assert_int_equal(node_master(world.node)->writing[guest.welcome.cid].count, 1);
	end(&guest, started);
	assert_true(used_bytes() < 100000);
}

static void test_start_without_a_counts_file_is_refused(void **state)
{
	struct guest guest = attach();
	struct sim_holds *holds = &world.holds[guest.welcome.cid];

	(void)state;
	sim_kill_daemon(&world);
	holds->incarnation++;
	assert_int_equal(sim_start_daemon(&world), ERR_NOT_FOUND);
	holds->incarnation--;
	assert_int_equal(sim_start_daemon(&world), 0);
}

/* ---- slots grow ---------------------------------------------------------- */

static void test_slots_grow_while_bytes_are_free(void **state)
{
	struct guest guest = attach();

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%u", i);
		put(&guest, key, "v");
	}
	assert_int_equal(atomic_load(&world.share.header->nslots), 4096);
	assert_int_equal(node_master(world.node)->stats.evicted, 0);
	assert_get(&guest, "k0", "v");
}

static void test_growth_that_fails_is_tried_again_after_a_second(void **state)
{
	struct guest guest = attach();

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%u", i);
		put(&guest, key, "v");
	}
	assert_int_equal(atomic_load(&world.share.header->nslots), 64);
	assert_true(node_master(world.node)->stats.evicted > 0);
	world.disk_is_full = false;
	assert_true(sim_advance(&world, SECOND));
	assert_int_equal(atomic_load(&world.share.header->nslots), 4096);
}

/* ---- admin, faults ------------------------------------------------------- */

static void test_info(void **state)
{
	struct guest guest = attach();
	struct msg_info_text info;

	(void)state;
	for (uint32_t what = 0; what < 3; what++) {
		SEND(guest.lane, info, .what = what);
		WANT(guest.lane, info_text, &info);
		assert_true(info.text.size > 1);
		if (what < 2)
			assert_memory_equal(info.text.data, "{", 1);
		else
			assert_memory_equal(info.text.data, "ok", 2);
	}
	SEND(guest.lane, info, .what = 99);
	want_error(guest.lane, ERR_BAD_ARGUMENT, "99");
}

#if FAULT_BUILD

static void arm(const char *point, enum fault_action action, int64_t value)
{
	assert_int_equal(fault_arm(&world.faults, point, action, value, 1, 1), 0);
}

static void test_sleep_delays_the_flow_and_nobody_else(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	arm("NodeBeforePutEndPublish", FAULT_SLEEP, 500);
	send_put(&guest, "k", "v", SECOND);
	want_nothing(guest.lane);
	put(&other, "o", "v");
	send_get(other.lane, "k", 0, 0);
	want_error(other.lane, ERR_NOT_FOUND, "k");
	assert_true(sim_advance(&world, SECOND / 2));
	(void)want_done(guest.lane);
	arm("NodeBeforeReply", FAULT_SLEEP, 500);
	send_get(guest.lane, "k", 0, 0);
	want_nothing(guest.lane);
	assert_true(sim_advance(&world, SECOND / 2));
	WANT(guest.lane, found, &(struct msg_found){0});
}

static void test_error_goes_to_the_client_unchanged_and_leaves_nothing(void **state)
{
	static const char *const points[] = {"NodeOnMessage", "NodeBeforePutStartPublish",
		"NodeAfterPutStartPublish", "NodeBeforeReply"};
	struct guest guest = attach();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		arm(points[i], FAULT_RETURN_ERROR, -4242);
		send_start(&guest, "k", 70000, 0, SECOND);
		want_error(guest.lane, -4242, "injected");
		assert_int_equal(used_bytes(), 0);
	}
	put(&guest, "k", "v");
	arm("NodeBeforeReply", FAULT_RETURN_ERROR, -4242);
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, -4242, "injected");
	assert_int_equal(node_master(world.node)->pinned, 0);
}

/* One of each request; whatever it answers is taken. The daemon may die of any. */
static void everything(struct guest *guest)
{
	static unsigned char buffer[MSG_SIZE_MAX], value[3000];
	static const char *const names[] = {"kept", "kept too"};
	struct msg_put put_msg = {.key = text("small"),
		.op = ++guest->ops,
		.timeout_ns = SECOND,
		.value = text("v")};
	struct msg_put_start start_msg = {.key = text("large"),
		.size = POOL / 2,
		.op = ++guest->ops,
		.timeout_ns = SECOND};
	struct msg_get get_msg = {.key = text("small")};
	struct msg_remove remove_msg = {.key = text("small")};
	struct msg_put_started started;
	struct msg_found found;
	struct msg_done done;
	struct sim_message *message = NULL;
	size_t size;

#define ASK(name, msg)                                                     \
	do {                                                               \
		size = msg_##name##_encode(buffer, sizeof(buffer), (msg)); \
		if (!sim_send(&world, guest->lane, buffer, size) ||        \
			!sim_advance(&world, 3 * SECOND))                  \
			return;                                            \
		message = answer(guest->lane);                             \
		assert_non_null(message);                                  \
	} while (0)

	ASK(put, &put_msg);
	ASK(get, &get_msg);
	if (msg_found_decode(message->bytes, message->size, &found) == 0) {
		struct msg_take take_msg = {found.slot, found.life, ++guest->ops};

		ASK(take, &take_msg);
	}
	put_msg.op = ++guest->ops;
	ASK(put, &put_msg);
	ASK(remove, &remove_msg);
	remove_msg.key = text("counted"); /* what an earlier fault left */
	ASK(remove, &remove_msg);
	put_msg.key = remove_msg.key;
	put_msg.readers = 1;
	put_msg.op = ++guest->ops;
	ASK(put, &put_msg);
	if (msg_done_decode(message->bytes, message->size, &done) == 0)
		ASK(read, &((struct msg_read){text("counted"), done.generation, 1}));
	ASK(put_start, &start_msg);
	if (msg_put_started_decode(message->bytes, message->size, &started) == 0)
		ASK(put_end, &((struct msg_put_end){started.slot, started.life, 0}));
	/* No room but by dropping the first. */
	start_msg.key = text("larger");
	start_msg.size = POOL / 4 * 3;
	start_msg.op = ++guest->ops;
	ASK(put_start, &start_msg);
	if (msg_put_started_decode(message->bytes, message->size, &started) == 0)
		ASK(put_abort, &((struct msg_put_abort){started.slot, started.life}));
	/* To the disk, out of the pool, and back: of two objects one finds room in what is
	 * kept for loads. */
	put_msg.flags = PUT_SOFTPIN | PUT_DURABLE;
	put_msg.readers = 0;
	put_msg.value = (struct msg_bytes){value, sizeof(value)};
	for (int i = 0; i < 2; i++) {
		remove_msg.key = put_msg.key = text(names[i]);
		ASK(remove, &remove_msg);
		put_msg.op = ++guest->ops;
		ASK(put, &put_msg);
	}
	start_msg.size = POOL - 4096;
	start_msg.op = ++guest->ops;
	ASK(put_start, &start_msg);
	if (msg_put_started_decode(message->bytes, message->size, &started) == 0)
		ASK(put_abort, &((struct msg_put_abort){started.slot, started.life}));
	get_msg.timeout_ns = SECOND;
	for (int i = 0; i < 2; i++) {
		get_msg.key = text(names[i]);
		ASK(get, &get_msg);
	}
#undef ASK
	sim_process_end(&world, guest->pid);
	(void)sim_settle(&world);
}

/* Points that one run of everything() does not come by. */
static bool is_rare(enum fault_point point)
{
	return point == FAULT_NODE_BEFORE_MOVE_PUBLISH ||
	       point == FAULT_NODE_AFTER_MOVE_PUBLISH || point == FAULT_NODE_GROW_SLOTS;
}

static void try_everything(struct guest *guest)
{
	struct msg_hello msg = {.version = WIRE_VERSION};
	unsigned char buffer[64];
	struct sim_message *message;

	guest->pid = sim_process(&world, 0);
	guest->lane = sim_connect(&world, guest->pid);
	if (!sim_send(&world, guest->lane, buffer,
		    msg_hello_encode(buffer, sizeof(buffer), &msg)) ||
		!sim_advance(&world, SECOND))
		return;
	message = answer(guest->lane);
	assert_non_null(message);
	if (msg_welcome_decode(message->bytes, message->size, &guest->welcome) == 0)
		everything(guest);
}

static void test_every_point_with_every_action_ends_sound(void **state)
{
	static const enum fault_action actions[] = {
		FAULT_SLEEP, FAULT_RETURN_ERROR, FAULT_KILL};

	(void)state;
	for (int point = 0; point < FAULT_POINT_COUNT; point++) {
		const char *name = fault_point_name((enum fault_point)point);

		if (fault_point_is_client((enum fault_point)point) ||
			fault_point_is_cluster((enum fault_point)point))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
			struct guest guest = {.ops = 0};
			uint64_t hits, fired;

			arm(name, actions[i], actions[i] == FAULT_SLEEP ? 100 : -77);
			try_everything(&guest);
			if (actions[i] != FAULT_KILL &&
				!is_rare((enum fault_point)point)) {
				assert_int_equal(
					fault_status(&world.faults, name, &hits, &fired),
					0);
				assert_int_equal(fired, 1);
			}
			assert_true(world.node == NULL || actions[i] != FAULT_KILL ||
				    is_rare((enum fault_point)point));
			sim_process_end(&world, guest.pid);
			if (world.node == NULL)
				assert_int_equal(sim_start_daemon(&world), 0);
			assert_true(sim_advance(&world, SECOND));
			assert_sound();
			assert_int_equal(node_master(world.node)->pinned, 0);
			for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
				assert_null(world.holds[cid].counts);
		}
	}
}

#endif

/* ---- moves --------------------------------------------------------------- */

#define PIECE (64u << 10)

/* The pool full of objects that may not leave, and then every other removed. */
static void fragment(struct guest *guest)
{
	char key[8];

	for (unsigned i = 0; i < POOL / PIECE; i++) {
		struct msg_put_started started;

		(void)snprintf(key, sizeof(key), "p%u", i);
		started = start(guest, key, PIECE, PUT_SOFTPIN);
		memset(world.share.pool + started.off, (int)i, PIECE);
		end(guest, started);
	}
	for (unsigned i = 0; i < POOL / PIECE; i += 2) {
		(void)snprintf(key, sizeof(key), "p%u", i);
		SEND(guest->lane, remove, .key = text(key));
		(void)want_done(guest->lane);
	}
}

static void assert_pieces(struct guest *guest)
{
	for (unsigned i = 1; i < POOL / PIECE; i += 2) {
		struct msg_found found;
		const unsigned char *bytes;
		char key[8];

		(void)snprintf(key, sizeof(key), "p%u", i);
		send_get(guest->lane, key, 0, 0);
		WANT(guest->lane, found, &found);
		bytes = world.share.pool + world.share.slots[found.slot].off;
		for (unsigned at = 0; at < PIECE; at++)
			assert_int_equal(bytes[at], i);
		SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
	}
}

static void test_moves_make_room_and_keep_the_bytes(void **state)
{
	struct guest guest = attach();

	(void)state;
	fragment(&guest);
	end(&guest, start(&guest, "large", POOL / 4, 0));
	assert_true(node_master(world.node)->stats.relocated > 0);
	assert_pieces(&guest);
}

#if FAULT_BUILD

static void test_moves_with_faults(void **state)
{
	static const char *const points[] = {
		"NodeBeforeMovePublish", "NodeAfterMovePublish"};
	struct guest guest = attach();

	(void)state;
	fragment(&guest);
	arm(points[0], FAULT_SLEEP, 200);
	send_start(&guest, "slow", POOL / 4, 0, SECOND);
	want_nothing(guest.lane);
	assert_true(sim_advance(&world, SECOND / 5));
	WANT(guest.lane, put_started, &(struct msg_put_started){0});
	arm(points[0], FAULT_RETURN_ERROR, -5);
	send_start(&guest, "again", POOL / 8, 0, SECOND);
	assert_true(sim_advance(&world, SECOND / 2));
	WANT(guest.lane, put_started, &(struct msg_put_started){0});
	assert_pieces(&guest);
}

static void test_moves_survive_a_kill(void **state)
{
	static const char *const points[] = {
		"NodeBeforeMovePublish", "NodeAfterMovePublish"};
	struct guest guest = attach();

	(void)state;
	fragment(&guest);
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		arm(points[i], FAULT_KILL, 0);
		send_start(&guest, "large", POOL / 4, 0, SECOND);
		assert_false(sim_settle(&world));
		assert_int_equal(sim_start_daemon(&world), 0);
		assert_sound();
		hello(&guest, guest.welcome.token, 0);
		WANT(guest.lane, welcome, &guest.welcome);
		assert_pieces(&guest);
	}
}

#endif

static const struct CMUnitTest tests[] = {
	TEST(test_restart_keeps_objects_puts_and_clients),
	TEST(test_restart_ends_clients_that_died_meanwhile),
	TEST(test_start_repeated_after_a_remove_leaves_no_earlier_run),
	TEST(test_start_without_a_counts_file_is_refused),
	TEST_IN(test_slots_grow_while_bytes_are_free, setup_few_slots),
	TEST_IN(test_growth_that_fails_is_tried_again_after_a_second, setup_full_disk),
	TEST(test_info),
	TEST(test_moves_make_room_and_keep_the_bytes),
#if FAULT_BUILD
	TEST(test_sleep_delays_the_flow_and_nobody_else),
	TEST(test_error_goes_to_the_client_unchanged_and_leaves_nothing),
	TEST_ON_DISK(test_every_point_with_every_action_ends_sound, setup_disk),
	TEST(test_moves_with_faults),
	TEST(test_moves_survive_a_kill),
#endif
};

UNIT_MAIN(tests)
