/*
 * Tests of node/ among others: LIST over all nodes, and the graves of what was removed.
 */
#include "node_peers.h"

#include "node/node_priv.h"

static struct guest attach_settled(void)
{
	struct guest guest = attach();

	settle();
	return guest;
}

static void put_here(struct guest *guest, const char *key)
{
	send_put(guest, key, "value", SECOND);
	settle();
	(void)want_done(guest->lane);
}

static void send_list(struct guest *guest, const char *prefix, uint64_t cursor)
{
	SEND(guest->lane, list, .prefix = text(prefix), .cursor = cursor);
	settle();
}

static struct msg_listed listed(struct guest *guest)
{
	struct msg_listed msg;

	WANT(guest->lane, listed, &msg);
	return msg;
}

static void want_keys(const struct msg_listed *msg, const char *keys)
{
	struct msg_bytes entries = msg->entries;
	struct msg_entry entry;
	char all[256] = "";
	uint32_t count = 0;

	while (msg_entry_next(&entries, &entry) == 1) {
		strncat(all, entry.key.data, entry.key.size);
		strcat(all, " ");
		count++;
	}
	assert_string_equal(all, keys);
	assert_int_equal(msg->count, count);
}

/* The place that a peer has at the node, as the cursor says it. */
static uint64_t first_of(unsigned peer)
{
	return (uint64_t)(fake.peers[peer].place + 1) << 32;
}

/* The peers in the order in which they are asked. */
static unsigned nth_peer(unsigned n)
{
	for (unsigned i = 0; i < PEERS; i++) {
		unsigned before = 0;

		for (unsigned j = 0; j < PEERS; j++)
			before += fake.peers[j].place < fake.peers[i].place;
		if (before == n)
			return i;
	}
	fail_msg("there are %u peers", PEERS);
	return 0;
}

static struct msg_list asked(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_LIST);
	struct msg_list msg;

	assert_int_equal(msg_list_decode(ask->bytes, ask->size, &msg), 0);
	return msg;
}

static void reply_keys(unsigned peer, const char *key, unsigned count, uint64_t next)
{
	static unsigned char entries[MSG_SIZE_MAX];
	const struct msg_entry entry = {.key = text(key), .size = 5};
	size_t used = 0;

	for (unsigned i = 0; i < count; i++)
		used += msg_entry_encode(entries + used, sizeof(entries) - used, &entry);
	REPLY(want_ask(peer, MSG_TYPE_LIST), listed, .next = next, .count = count,
		.entries = {entries, used});
	settle();
}

/* ---- list ---------------------------------------------------------------- */

static void put_copy_here(const char *key)
{
	struct copy_request copy = {
		.key = key_of(world.node, key, (uint32_t)strlen(key)),
		.size = 5,
		.generation = 50,
		.expires = UINT64_MAX,
	};
	struct master *master = node_master(world.node);
	uint32_t slot;

	assert_int_equal(master_copy_start(master, &copy, NULL, world.now_ns, &slot),
		LOAD_STARTED);
	assert_int_equal(master_copy_done(master, slot, 0, 1, world.now_ns), 0);
}

static void test_pages_of_all_nodes_come_in_turn(void **state)
{
	struct guest guest = attach_settled();
	unsigned first = nth_peer(0), second = nth_peer(1), third = nth_peer(2);
	struct msg_listed page;

	(void)state;
	put_here(&guest, "a1");
	put_here(&guest, "b1");
	put_copy_here("a2"); /* whoever keeps it tells it */
	send_list(&guest, "a", 0);
	page = listed(&guest);
	want_keys(&page, "a1 ");
	assert_int_equal(page.next, first_of(first));

	send_list(&guest, "a", page.next);
	want_nothing(guest.lane);
	assert_int_equal(asked(first).cursor, 0);
	assert_int_equal(asked(first).prefix.size, 1);
	assert_int_equal(asked(first).room, MSG_SIZE_MAX);
	reply_keys(first, "a2", 2, 700);
	page = listed(&guest);
	want_keys(&page, "a2 a2 ");
	assert_int_equal(page.next, first_of(first) + 700);

	send_list(&guest, "a", page.next);
	assert_int_equal(asked(first).cursor, 700);
	reply_keys(first, "", 0, UINT64_MAX);
	page = listed(&guest);
	assert_int_equal(page.next, first_of(second));

	send_list(&guest, "a", page.next);
	reply_keys(second, "a3", 1, UINT64_MAX);
	page = listed(&guest);
	want_keys(&page, "a3 ");
	send_list(&guest, "a", page.next);
	reply_keys(third, "a4", 1, UINT64_MAX);
	page = listed(&guest);
	want_keys(&page, "a4 ");
	assert_int_equal(page.next, UINT64_MAX);
}

static void test_node_that_cannot_say_is_passed_over(void **state)
{
	struct guest guest = attach_settled();
	unsigned first = nth_peer(0), second = nth_peer(1), third = nth_peer(2);
	struct msg_listed page;

	(void)state;
	send_list(&guest, "", first_of(first));
	reply_error(want_ask(first, MSG_TYPE_LIST), ERR_IO);
	page = listed(&guest);
	want_keys(&page, "");
	assert_int_equal(page.next, first_of(second));
	/* It goes under the question. */
	send_list(&guest, "", page.next);
	(void)asked(second);
	peer_goes(second);
	page = listed(&guest);
	assert_int_equal(page.next, first_of(third));
	/* It is away already. */
	send_list(&guest, "", first_of(second));
	page = listed(&guest);
	assert_int_equal(page.next, first_of(third));
	/* What it says makes no sense. */
	send_list(&guest, "", page.next);
	REPLY(want_ask(third, MSG_TYPE_LIST), listed, .next = 7, .count = 2,
		.entries = {"\1\0", 2});
	settle();
	page = listed(&guest);
	want_keys(&page, "");
	assert_int_equal(page.next, UINT64_MAX);
	/* Nor does this cursor. */
	send_list(&guest, "", UINT64_MAX - 5);
	page = listed(&guest);
	assert_int_equal(page.next, UINT64_MAX);
}

static void test_peer_is_told_what_is_kept_here(void **state)
{
	struct guest guest = attach_settled();
	struct msg_listed page;

	(void)state;
	put_here(&guest, "a1");
	put_copy_here("a2");
	link_opens(1);
	ASK(1, 1, list, .prefix = text("a"));
	WANT_ANSWER(1, 1, listed, &page);
	want_keys(&page, "a1 ");
	assert_int_equal(page.next, UINT64_MAX); /* and is not sent on to others */
	ASK(1, 2, list, .prefix = text("a"), .cursor = first_of(2));
	WANT_ANSWER(1, 2, listed, &page);
	assert_int_equal(page.next, UINT64_MAX);
	/* No more than it has room for: a page's head, and half an entry. */
	put_here(&guest, "a3");
	ASK(1, 3, list, .prefix = text("a"), .room = 20 + 24);
	WANT_ANSWER(1, 3, listed, &page);
	want_keys(&page, "a1 ");
	ASK(1, 4, list, .prefix = text("a"), .cursor = page.next, .room = 20 + 24);
	WANT_ANSWER(1, 4, listed, &page);
	want_keys(&page, "a3 ");
}

/* Two pages of a batch come at once, and only one of them has room. */
static void test_page_that_does_not_fit_is_asked_for_again(void **state)
{
	static unsigned char buffer[1024];
	struct guest guest = attach_settled();
	unsigned first = nth_peer(0), second = nth_peer(1);
	struct msg_list one = {.cursor = first_of(first)},
			two = {.cursor = first_of(second)};
	struct msg_bytes message, replies;
	struct msg_batch_done done;
	struct msg_listed page;
	struct msg_pack pack;
	uint32_t room;

	(void)state;
	msg_pack_init(&pack, buffer, sizeof(buffer));
	msg_pack_add(
		&pack, msg_list_encode(msg_pack_tail(&pack), msg_pack_room(&pack), &one));
	msg_pack_add(
		&pack, msg_list_encode(msg_pack_tail(&pack), msg_pack_room(&pack), &two));
	assert_true(sim_send(
		&world, guest.lane, buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH)));
	settle();
	room = asked(second).room;
	reply_keys(first, "first", 4000, UINT64_MAX);
	reply_keys(second, "second", 4000, UINT64_MAX);
	want_nothing(guest.lane);
	assert_true(asked(second).room < room);
	reply_keys(second, "second", 10, 11);
	WANT(guest.lane, batch_done, &done);
	replies = done.replies;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(msg_unpack(&replies, &message), 1);
		assert_int_equal(msg_listed_decode(message.data, message.size, &page), 0);
		assert_int_equal(page.count, i == 0 ? 4000 : 10);
	}
}

static void test_who_lists_may_go(void **state)
{
	struct guest guest = attach_settled();
	unsigned first = nth_peer(0);

	(void)state;
	send_list(&guest, "", first_of(first));
	(void)asked(first);
	sim_process_end(&world, guest.pid);
	settle();
	assert_int_equal(world.node->ops_used, 0);
	reply_keys(first, "a", 1, UINT64_MAX);
}

/* ---- graves -------------------------------------------------------------- */

static const struct cluster *cluster(void)
{
	return &world.node->cluster;
}

static void dig(unsigned i, enum grave_kind kind, uint64_t places)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "g%u", i);
	grave_dig(world.node, key, (uint32_t)strlen(key), 100 + i, kind, places);
}

static uint64_t place_bit(unsigned peer)
{
	return 1ull << fake.peers[peer].place;
}

static uint64_t drop_generation(struct fake_ask *ask)
{
	struct msg_drop msg;

	assert_int_equal(msg_drop_decode(ask->bytes, ask->size, &msg), 0);
	return msg.generation;
}

static void test_grave_that_nobody_needs_is_not_dug(void **state)
{
	(void)state;
	dig(1, GRAVE_OBJECT, 0);
	dig(2, GRAVE_PREFIX, 0);
	assert_int_equal(cluster()->grave_count, 0);
	/* But for a directory that forgets. */
	dir_mem_set_away(fake.mem, 0, true);
	settle();
	dig(1, GRAVE_OBJECT, 0);
	dig(2, GRAVE_PREFIX, 0);
	assert_int_equal(cluster()->grave_count, 1);
	turn(3599 * SECOND);
	assert_int_equal(cluster()->grave_count, 1);
	turn(2 * SECOND);
	assert_int_equal(cluster()->grave_count, 0);
	assert_int_equal(cluster()->stats.graves_lost, 0);
}

static void test_graves_are_told_in_their_order(void **state)
{
	struct fake_ask *ask;
	unsigned told = 0;

	(void)state;
	peer_goes(1);
	for (unsigned i = 0; i < 600; i++)
		dig(i, GRAVE_OBJECT, place_bit(1));
	peer_comes(1);
	assert_int_equal(count_asks(1, MSG_TYPE_DROP), 256);
	while ((ask = find_ask(1, MSG_TYPE_DROP)) != NULL) {
		assert_int_equal(drop_generation(ask), 100 + told);
		REPLY(ask, done, .generation = 100 + told);
		told++;
		assert_true(count_asks(1, MSG_TYPE_DROP) <= 256);
	}
	assert_int_equal(told, 600);
	assert_int_equal(cluster()->grave_count, 0);
}

static void test_peer_goes_while_it_is_being_told(void **state)
{
	unsigned told = 0;

	(void)state;
	peer_goes(1);
	for (unsigned i = 0; i < 300; i++)
		dig(i, GRAVE_OBJECT, place_bit(1));
	peer_comes(1);
	for (unsigned i = 0; i < 100; i++)
		REPLY(want_ask(1, MSG_TYPE_DROP), done, .generation = 1);
	settle();
	assert_int_equal(cluster()->grave_count, 200);
	peer_goes(1);
	assert_null(graves_check(world.node));
	peer_comes(1);
	for (; find_ask(1, MSG_TYPE_DROP) != NULL; told++)
		reply_error(want_ask(1, MSG_TYPE_DROP), ERR_NOT_FOUND);
	assert_int_equal(told, 200);
	assert_int_equal(cluster()->grave_count, 0);
}

static void test_grave_waits_for_the_last_of_several(void **state)
{
	(void)state;
	peer_goes(0);
	dig(1, GRAVE_OBJECT, place_bit(0) | place_bit(1) | place_bit(2));
	assert_int_equal(count_asks(1, MSG_TYPE_DROP), 1);
	REPLY(want_ask(1, MSG_TYPE_DROP), done, .generation = 101);
	REPLY(want_ask(2, MSG_TYPE_DROP), done, .generation = 101);
	assert_int_equal(cluster()->grave_count, 1);
	/* Its place becomes another's: it will never hear. */
	graves_forget_peer(world.node, fake.peers[0].place);
	assert_int_equal(cluster()->grave_count, 0);
}

static void test_old_graves_go(void **state)
{
	(void)state;
	peer_goes(0);
	dig(1, GRAVE_OBJECT, place_bit(0));
	turn(1800 * SECOND);
	dig(2, GRAVE_PREFIX, place_bit(0));
	turn(1801 * SECOND);
	assert_int_equal(cluster()->grave_count, 1);
	assert_int_equal(cluster()->stats.graves_lost, 1);
	peer_joins(0, SECOND * 60); /* its membership has ended too */
	peer_comes(0);
	assert_null(find_ask(0, MSG_TYPE_DROP));
	REPLY(want_ask(0, MSG_TYPE_DROP_PREFIX), done, .generation = 0);
	assert_int_equal(cluster()->grave_count, 0);
}

/* Before the directory hears of the grave again, somebody announces what lies in it. */
static void test_who_announced_the_dead_is_told(void **state)
{
	(void)state;
	peer_goes(0);
	dig(1, GRAVE_OBJECT, place_bit(0));
	dir_mem_flush(fake.mem, 0);
	fake.dir_waits = true;
	peer_keeps(1, "g1", 101);
	assert_int_equal(entry_of("g1"), 101);
	fake.dir_waits = false;
	turn(SECOND);
	assert_int_equal(entry_of("g1"), 0);
	assert_int_equal(drop_generation(want_ask(1, MSG_TYPE_DROP)), 101);
	REPLY(want_ask(1, MSG_TYPE_DROP), done, .generation = 101);
}

static void test_oldest_grave_makes_room(void **state)
{
	(void)state;
	peer_goes(0);
	for (unsigned i = 0; i < GRAVE_LIMIT + 2; i++)
		dig(i, GRAVE_PREFIX, place_bit(0));
	assert_int_equal(cluster()->grave_count, GRAVE_LIMIT);
	assert_int_equal(cluster()->stats.graves_lost, 2);
}

static void test_directory_that_forgot_hears_of_all_graves(void **state)
{
	char key[16];

	(void)state;
	peer_goes(0);
	for (unsigned i = 0; i < 2000; i++)
		dig(i, GRAVE_OBJECT, place_bit(0));
	dig(7, GRAVE_PREFIX, place_bit(0));
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
	for (unsigned i = 0; i < 2000; i++) {
		(void)snprintf(key, sizeof(key), "g%u", i);
		assert_int_equal(peer_calls(0, (struct dir_call){.op = DIR_OP_ANNOUNCE,
						       .id = id_of(key),
						       .generation = 100 + i,
						       .wanted = 1,
						       .role = DIR_KEEPER}),
			DIR_REMOVED);
	}
	assert_int_equal(cluster()->errand_count, 0);
}

static const struct CMUnitTest tests[] = {
	AMONG_PEERS(test_pages_of_all_nodes_come_in_turn),
	AMONG_PEERS(test_node_that_cannot_say_is_passed_over),
	AMONG_PEERS(test_peer_is_told_what_is_kept_here),
	AMONG_PEERS(test_page_that_does_not_fit_is_asked_for_again),
	AMONG_PEERS(test_who_lists_may_go),
	AMONG_PEERS(test_grave_that_nobody_needs_is_not_dug),
	AMONG_PEERS(test_graves_are_told_in_their_order),
	AMONG_PEERS(test_peer_goes_while_it_is_being_told),
	AMONG_PEERS(test_grave_waits_for_the_last_of_several),
	AMONG_PEERS(test_old_graves_go),
	AMONG_PEERS(test_who_announced_the_dead_is_told),
	AMONG_PEERS(test_oldest_grave_makes_room),
	AMONG_PEERS(test_directory_that_forgot_hears_of_all_graves),
};

UNIT_MAIN(tests)
