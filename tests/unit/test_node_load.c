/*
 * Tests of node/ with a disk: who waits for what comes back from it, by GET, LEASE and LIST.
 */
#include "node_disk.h"

#define MS 1000000ull

/* ---- loads --------------------------------------------------------------- */

static void test_many_ask_and_the_disk_is_read_once(void **state)
{
	struct guest guest = attach(), others[20];
	uint64_t reads;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	reads = tier.reads;
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		others[i] = attach();
		send_get(others[i].lane, "k", 0, SECOND);
	}
	pass(SECOND);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		struct msg_found found;

		WANT(others[i].lane, found, &found);
		assert_true(bytes_are(found.slot, "k", MIB));
	}
	assert_int_equal(tier.reads, reads + 1);
	assert_int_equal(node_master(world.node)->pinned, ARRAY_LEN(others));
}

static void test_each_waits_with_its_own_deadline(void **state)
{
	struct guest guest = attach(), other = attach();
	struct msg_found found;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	tier.trouble.slow = 100;
	tier.setup.seed = 3;
	send_get(guest.lane, "k", 0, 1);
	send_get(other.lane, "k", 0, 5 * SECOND);
	pass(2);
	want_error(guest.lane, ERR_TIMEOUT, "not read from the disk in time");
	want_nothing(other.lane);
	pass(3 * SECOND);
	WANT(other.lane, found, &found);
}

static void test_who_leaves_does_not_take_the_load_away(void **state)
{
	struct guest guest = attach(), other = attach();
	struct msg_found found;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	send_get(guest.lane, "k", 0, SECOND);
	send_get(other.lane, "k", 0, SECOND);
	sim_disconnect(&world, guest.lane);
	pass(SECOND);
	WANT(other.lane, found, &found);
	assert_int_equal(node_master(world.node)->pinned, 1);
}

static void test_load_that_nobody_waits_for_ends_sound(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	send_get(other.lane, "k", 0, SECOND);
	sim_disconnect(&world, other.lane);
	assert_sound();
	pass(SECOND);
	assert_sound();
	assert_int_equal(node_master(world.node)->pinned, 0);
	want_bytes(&guest, "k", MIB);
}

static void want_pinned(struct guest *guest, const char *key)
{
	struct msg_found found;

	send_get(guest->lane, key, 0, 5 * SECOND);
	pass(SECOND);
	WANT(guest->lane, found, &found);
}

/* Put "k" and "other" on disk alone, and hold all of the pool: what puts can have, and "other" in
 * the room that is kept for loads. */
static void hold_all(struct guest *guest)
{
	struct msg_put_started started;
	struct sim_message *message;
	char key[16];

	send_object(guest, "k", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	(void)want_done(guest->lane);
	send_object(guest, "other", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	(void)want_done(guest->lane);
	lose_host(guest);
	for (unsigned i = 0;; i++) {
		(void)snprintf(key, sizeof(key), "h%u", i);
		send_start(guest, key, MIB / 4, 0, SECOND);
		pass(2 * SECOND);
		message = answer(guest->lane);
		assert_non_null(message);
		if (msg_put_started_decode(message->bytes, message->size, &started) != 0)
			break;
		end(guest, started);
		want_pinned(guest, key);
	}
	want_pinned(guest, "other");
}

static void test_no_room_is_told_at_the_deadline(void **state)
{
	struct guest holder = attach(), guest;

	(void)state;
	hold_all(&holder);
	guest = attach();
	send_get(guest.lane, "k", 0, SECOND);
	pass(SECOND / 2);
	want_nothing(guest.lane);
	pass(SECOND);
	want_error(guest.lane, ERR_NO_SPACE, "until the deadline");
	assert_sound();
}

static void test_room_that_comes_back_ends_the_wait(void **state)
{
	struct guest holder = attach(), guest;
	struct msg_found found;

	(void)state;
	hold_all(&holder);
	guest = attach();
	send_get(guest.lane, "k", 0, 30 * SECOND);
	pass(SECOND);
	want_nothing(guest.lane);
	sim_process_end(&world, holder.pid);
	pass(2 * SECOND);
	WANT(guest.lane, found, &found);
	assert_true(bytes_are(found.slot, "k", MIB));
}

static void test_removed_while_loading_is_not_found(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	tier.trouble.slow = 100;
	send_get(other.lane, "k", 0, 5 * SECOND);
	assert_sound();
	SEND(guest.lane, remove, .key = text("k"));
	want_error(other.lane, ERR_NOT_FOUND, "no object under the key k");
	tier.trouble.slow = 0;
	pass(5 * SECOND);
	(void)want_done(guest.lane);
	assert_sound();
}

static void test_read_errors_are_told_and_not_kept(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	tier.trouble.io = 100;
	send_get(guest.lane, "k", 0, SECOND);
	pass(SECOND);
	want_error(guest.lane, ERR_IO, "could not be read from the disk");
	tier.trouble.io = 0;
	want_bytes(&guest, "k", MIB);
}

static void test_spoiled_bytes_are_never_served(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	assert_true(sim_tier_rot(&tier) != 0);
	send_get(guest.lane, "k", 0, SECOND);
	pass(SECOND);
	want_error(guest.lane, ERR_CORRUPT, "do not match their checksum");
	assert_int_equal(stat_of(&guest, "k").size, MIB);
}

/* More than there is room for at once: those that do not fit beside the others do not wait. */
static void test_batch_is_told_at_once_what_does_not_fit(void **state)
{
	unsigned char buffer[4096];
	struct guest guest = attach();
	struct msg_batch_done done;
	struct msg_bytes reply;
	struct msg_pack pack;
	unsigned found = 0, refused = 0;
	char key[16];

	(void)state;
	crowd(&guest, 12, MIB / 2);
	msg_pack_init(&pack, buffer, sizeof(buffer));
	for (unsigned i = 0; i < 12; i++) {
		struct msg_get get = {.timeout_ns = 5 * SECOND};

		(void)snprintf(key, sizeof(key), "p%u", i);
		get.key = text(key);
		msg_pack_add(&pack,
			msg_get_encode(msg_pack_tail(&pack), msg_pack_room(&pack), &get));
	}
	assert_true(sim_send(
		&world, guest.lane, buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH)));
	pass(SECOND);
	WANT(guest.lane, batch_done, &done);
	while (msg_unpack(&done.replies, &reply) == 1) {
		struct msg_found one;
		struct msg_error error;

		if (msg_found_decode(reply.data, reply.size, &one) == 0) {
			(void)snprintf(key, sizeof(key), "p%u", found + refused);
			assert_true(bytes_are(one.slot, key, MIB / 2));
			found++;
		} else {
			assert_int_equal(
				msg_error_decode(reply.data, reply.size, &error), 0);
			assert_int_equal(error.code, ERR_NO_SPACE);
			refused++;
		}
	}
	assert_int_equal(found + refused, 12);
	assert_in_range(found, 6, 8);
	assert_int_equal(node_master(world.node)->room.promised, 0);
}

static void send_get_in_batch(struct lane_id lane, const char *key, uint64_t timeout)
{
	const struct msg_get get = {.key = text(key), .timeout_ns = timeout};
	unsigned char buffer[512];
	struct msg_pack pack;

	msg_pack_init(&pack, buffer, sizeof(buffer));
	msg_pack_add(
		&pack, msg_get_encode(msg_pack_tail(&pack), msg_pack_room(&pack), &get));
	assert_true(
		sim_send(&world, lane, buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH)));
}

/* It fitted beside what was held when it asked, but what was to go for it is held since. */
static void test_batch_does_not_wait_for_what_others_came_to_hold(void **state)
{
	struct guest guest = attach(), holder, other;
	struct msg_batch_done done;
	struct msg_error error;
	struct msg_found found;
	struct msg_bytes reply;
	char key[16];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		(void)snprintf(key, sizeof(key), "p%u", i);
		send_object(&guest, key, MIB / 4 * 3, PUT_SOFTPIN | PUT_DURABLE);
		pass(SECOND);
		(void)want_done(guest.lane);
	}
	lose_host(&guest);
	holder = attach();
	want_pinned(&holder, "p0");
	want_pinned(&holder, "p1");
	want_pinned(&holder, "p2");
	/* What puts can have still; it cannot go before it is on disk. */
	tier.trouble.slow = 100;
	end(&guest, start(&guest, "dirty", MIB / 8 * 7, PUT_SOFTPIN));
	/* And what is kept for loads. */
	send_get(holder.lane, "p3", 0, 30 * SECOND);
	send_get_in_batch(guest.lane, "p4", 30 * SECOND);
	want_nothing(guest.lane);
	other = attach();
	send_get(other.lane, "dirty", 0, SECOND);
	WANT(other.lane, found, &found);
	pass(5 * SECOND);
	WANT(guest.lane, batch_done, &done);
	assert_int_equal(msg_unpack(&done.replies, &reply), 1);
	assert_int_equal(msg_error_decode(reply.data, reply.size, &error), 0);
	assert_int_equal(error.code, ERR_NO_SPACE);
	assert_int_equal(node_master(world.node)->room.promised, 0);
	assert_sound();
}

/* ---- list ---------------------------------------------------------------- */

static unsigned list_all(struct guest *guest, const char *prefix, unsigned *ret_pages)
{
	struct msg_listed listed = {.next = 0};
	unsigned count = 0;

	*ret_pages = 0;
	while (listed.next != UINT64_MAX) {
		struct msg_entry entry;

		SEND(guest->lane, list, .prefix = text(prefix), .cursor = listed.next);
		pass(100 * MS);
		WANT(guest->lane, listed, &listed);
		(*ret_pages)++;
		while (msg_entry_next(&listed.entries, &entry) == 1) {
			assert_int_equal(entry.flags, PUT_SOFTPIN);
			assert_memory_equal(entry.key.data, prefix, strlen(prefix));
			count++;
		}
	}
	return count;
}

static void test_list_has_what_is_in_the_pool_and_on_disk(void **state)
{
	struct guest guest = attach();
	unsigned pages;

	(void)state;
	crowd(&guest, 12, MIB / 2);
	(void)object(&guest, "other", 1000);
	assert_true(node_master(world.node)->disk.only > 0);
	assert_int_equal(list_all(&guest, "p", &pages), 12);
	assert_int_equal(list_all(&guest, "", &pages), 13);
	assert_int_equal(list_all(&guest, "other", &pages), 1);
	assert_int_equal(list_all(&guest, "nothing", &pages), 0);
}

static void test_list_whose_caller_is_gone_ends_sound(void **state)
{
	struct guest guest = attach(), others[4];

	(void)state;
	crowd(&guest, 12, MIB / 2);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		others[i] = attach();
		SEND(others[i].lane, list, .prefix = text(""),
			.cursor = world.share.header->slots_limit);
	}
	assert_sound();
	sim_disconnect(&world, others[0].lane);
	sim_disconnect(&world, others[3].lane);
	pass(SECOND);
	for (unsigned i = 1; i < 3; i++) {
		struct msg_listed listed;

		WANT(others[i].lane, listed, &listed);
		assert_true(listed.count > 0);
	}
}

/* ---- leases -------------------------------------------------------------- */

static struct msg_leased lease(struct guest *guest, const char *key, uint64_t length)
{
	struct msg_leased leased;

	SEND(guest->lane, lease, .key = text(key), .length_ns = length,
		.timeout_ns = 5 * SECOND);
	pass(SECOND);
	WANT(guest->lane, leased, &leased);
	return leased;
}

static void test_lease_has_a_length_within_the_settings(void **state)
{
	struct guest guest = attach();

	(void)state;
	put(&guest, "k", "v");
	assert_int_equal(lease(&guest, "k", 0).length_ns, 2 * SECOND);
	assert_int_equal(lease(&guest, "k", 5 * MS).length_ns, 5 * MS);
	assert_int_equal(lease(&guest, "k", 100 * SECOND).length_ns, 30 * SECOND);
	SEND(guest.lane, lease, .key = text("none"), .timeout_ns = SECOND);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

static void test_lease_ends_once(void **state)
{
	struct guest guest = attach();
	struct msg_leased leased;

	(void)state;
	put(&guest, "k", "v");
	leased = lease(&guest, "k", 0);
	SEND(guest.lane, lease_end, .epoch = leased.epoch, .life = leased.life,
		.slot = leased.slot, .grant = leased.grant);
	(void)want_done(guest.lane);
	SEND(guest.lane, lease_end, .epoch = leased.epoch, .life = leased.life,
		.slot = leased.slot, .grant = leased.grant);
	want_error(guest.lane, ERR_NOT_FOUND, "no such lease");
	SEND(guest.lane, lease_end, .epoch = 9, .life = 9, .slot = 99999999, .grant = 9);
	want_error(guest.lane, ERR_NOT_FOUND, "no such lease");
}

static void test_lease_of_what_is_on_disk_loads_it(void **state)
{
	struct guest guest = attach();
	struct msg_leased leased;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	leased = lease(&guest, "k", 10 * SECOND);
	assert_true(bytes_are(leased.slot, "k", MIB));
	assert_int_equal(node_master(world.node)->pinned, 0);
	/* What else wants room does not get its. */
	crowd(&guest, 6, MIB / 2);
	assert_true(bytes_are(leased.slot, "k", MIB));
	assert_int_equal(world.share.slots[leased.slot].generation, leased.generation);
}

static const struct CMUnitTest tests[] = {
	ON_DISK(test_many_ask_and_the_disk_is_read_once),
	ON_DISK(test_each_waits_with_its_own_deadline),
	ON_DISK(test_who_leaves_does_not_take_the_load_away),
	ON_DISK(test_load_that_nobody_waits_for_ends_sound),
	ON_DISK(test_no_room_is_told_at_the_deadline),
	ON_DISK(test_room_that_comes_back_ends_the_wait),
	ON_DISK(test_removed_while_loading_is_not_found),
	ON_DISK(test_read_errors_are_told_and_not_kept),
	ON_DISK(test_spoiled_bytes_are_never_served),
	ON_DISK(test_batch_is_told_at_once_what_does_not_fit),
	ON_DISK(test_batch_does_not_wait_for_what_others_came_to_hold),
	ON_DISK(test_list_has_what_is_in_the_pool_and_on_disk),
	ON_DISK(test_list_whose_caller_is_gone_ends_sound),
	ON_DISK(test_lease_has_a_length_within_the_settings),
	ON_DISK(test_lease_ends_once),
	ON_DISK(test_lease_of_what_is_on_disk_loads_it),
};

UNIT_MAIN(tests)
