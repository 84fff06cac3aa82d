/*
 * Tests of the data connections of net/peers.h: objects of every size come whole and nowhere
 * else, and what each fetch ends with when something is wrong with its ticket, its lease, its
 * bytes, its source or its time.
 */
#include "net_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static struct rig rig;
static struct side *const a = &rig.a, *const b = &rig.b;

#define PEER 3u
#define SEED 0x1234567u

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, PEERS_SECURE_NONE, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

static void pattern_fill(unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word = (i + 1) * 0x9e3779b97f4a7c15ull;

		memcpy(bytes + i, &word, sizeof(word));
	}
}

static void connect_to_b(void)
{
	side_connect(a, PEER, b);
	rig_until(&rig, a->ups[PEER] == 1);
}

/* An object of b's, under a lease. */
static struct peer_offer object(uint32_t slot, uint64_t off, uint64_t size)
{
	atomic_store(&b->share.slots[slot].state, SLOT_STATE(SLOT_READY, LIFE));
	__atomic_store_n(&b->share.slots[slot].lease_end, UINT64_MAX, __ATOMIC_RELAXED);
	return (struct peer_offer){slot, LIFE, 7000 + slot, off, size};
}

static struct peer_ticket ticket_for(const struct peer_offer *offer)
{
	struct peer_ticket ticket;

	assert_int_equal(b->env.offer(b->env.ctx, offer, &ticket), 0);
	return ticket;
}

static struct peer_fetch fetch_of(
	const struct peer_offer *offer, const struct peer_ticket *ticket, uint64_t to)
{
	return (struct peer_fetch){.peer = PEER,
		.ticket = *ticket,
		.generation = offer->generation,
		.pool_off = to,
		.size = offer->size,
		.seed = SEED,
		.deadline_ns = loop_boot_ns() + FAR_NS};
}

static void begin(uint32_t number, const struct peer_fetch *fetch)
{
	a->fetch_err[number] = NOT_YET;
	a->inside = true;
	a->env.fetch(a->env.ctx, number, fetch);
	a->inside = false;
}

static int end_of(uint32_t number)
{
	rig_until(&rig, a->fetch_err[number] != NOT_YET);
	return a->fetch_err[number];
}

static int fetch_once(uint32_t number, const struct peer_offer *offer, uint64_t to)
{
	struct peer_ticket ticket = ticket_for(offer);
	struct peer_fetch fetch = fetch_of(offer, &ticket, to);

	begin(number, &fetch);
	return end_of(number);
}

/* ---- bytes ---------------------------------------------------------------- */

static void test_objects_of_every_size_come_whole(void **state)
{
	static const uint64_t sizes[] = {
		0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 5 * MIB + 12345, 64 * MIB};

	(void)state;
	connect_to_b();
	pattern_fill(b->share.pool, 65 * MIB);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct peer_offer offer = object(i, 1000ul * i, sizes[i]);
		unsigned char *to = a->share.pool + 4096 + i;
		const unsigned char *from = b->share.pool + offer.off;

		memset(to - 8, 0xee, sizes[i] + 16);
		assert_int_equal(fetch_once(i, &offer, 4096 + i), 0);
		assert_memory_equal(to, from, sizes[i]);
		assert_true(
			a->fetch_checksum[i] == hash_bytes_seed(from, sizes[i], SEED));
		for (size_t at = 1; at <= 8; at++) { /* and nothing beside it */
			assert_int_equal(to[-(ptrdiff_t)at], 0xee);
			assert_int_equal(to[sizes[i] + at - 1], 0xee);
		}
	}
	assert_int_equal(a->warns + b->warns, 0);
}

static void test_as_many_at_once_as_there_can_be(void **state)
{
	struct peer_offer offers[PEER_TRANSFERS];

	(void)state;
	connect_to_b();
	pattern_fill(b->share.pool, 65 * MIB);
	for (uint32_t round = 0; round < 3; round++) {
		a->fetches = 0;
		memset(a->share.pool, 0, 65 * MIB);
		for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
			struct peer_ticket ticket;
			struct peer_fetch fetch;

			offers[i] = object(i, i * MIB, MIB - 100ul * i);
			ticket = ticket_for(&offers[i]);
			fetch = fetch_of(&offers[i], &ticket, i * MIB);
			begin(i, &fetch);
		}
		rig_until(&rig, a->fetches == PEER_TRANSFERS);
		for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
			assert_int_equal(a->fetch_err[i], 0);
			assert_memory_equal(a->share.pool + i * MIB,
				b->share.pool + i * MIB, offers[i].size);
		}
	}
}

static void test_a_condemned_object_may_still_be_read(void **state)
{
	struct peer_offer offer = object(1, 0, 100);

	(void)state;
	connect_to_b();
	atomic_store(&b->share.slots[1].state, SLOT_STATE(SLOT_CONDEMNED, LIFE));
	assert_int_equal(fetch_once(0, &offer, 0), 0);
}

/* Writes that nobody has ordered: what ThreadSanitizer would say of them is meant. */
__attribute__((no_sanitize("thread"))) static void flip(volatile unsigned char *byte)
{
	*byte ^= 1;
}

static _Atomic bool flips;

static void *flipper(void *arg)
{
	unsigned char *bytes = arg;

	while (atomic_load(&flips)) {
		for (size_t at = 0; at < 64 * MIB; at += 8192)
			flip(bytes + at);
	}
	return NULL;
}

/* A bit is noticed that changes between the moments in which its byte is sent and its checksum
 * is computed; before them it was so when it was asked for. So it takes some tries. */
static void test_bits_that_change_on_the_way_are_corrupt(void **state)
{
	struct peer_offer offer = object(1, 0, 64 * MIB);
	pthread_t thread;
	int err;

	(void)state;
	connect_to_b();
	pattern_fill(b->share.pool, 64 * MIB);
	atomic_store(&flips, true);
	assert_int_equal(pthread_create(&thread, NULL, flipper, b->share.pool), 0);
	while ((err = fetch_once(0, &offer, 0)) == 0)
		continue;
	atomic_store(&flips, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(err, ERR_CORRUPT);
	assert_int_equal(fetch_once(0, &offer, 0), 0);
}

/* ---- tickets and leases ---------------------------------------------------- */

static void test_a_ticket_is_good_once(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket ticket = ticket_for(&offer);
	struct peer_fetch fetch = fetch_of(&offer, &ticket, 0);

	(void)state;
	connect_to_b();
	begin(0, &fetch);
	assert_int_equal(end_of(0), 0);
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	fetch.ticket.bytes[0] ^= 1; /* another's entry, and none that is out */
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	memset(&fetch.ticket, 0xff, sizeof(fetch.ticket));
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	assert_int_equal(fetch_once(0, &offer, 0), 0); /* the connection is as it was */
}

static void test_a_ticket_that_was_withdrawn(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket ticket = ticket_for(&offer);
	struct peer_fetch fetch = fetch_of(&offer, &ticket, 0);

	(void)state;
	connect_to_b();
	b->env.withdraw(b->env.ctx, &ticket);
	b->env.withdraw(b->env.ctx, &ticket);
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
}

static void test_tickets_have_a_number_that_can_be_out(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket tickets[100], more;

	(void)state;
	connect_to_b();
	for (uint32_t i = 0; i < 100; i++)
		tickets[i] = ticket_for(&offer);
	for (uint32_t i = 1; i < 100; i++)
		assert_memory_not_equal(&tickets[i], &tickets[0], sizeof(more));
	assert_int_equal(b->env.offer(b->env.ctx, &offer, &more), ERR_TOO_MANY);
	b->env.withdraw(b->env.ctx, &tickets[50]);
	more = ticket_for(&offer);
	assert_memory_not_equal(&more, &tickets[50], sizeof(more));
	b->env.withdraw(b->env.ctx, &tickets[50]); /* not the new one */
	assert_int_equal(b->env.offer(b->env.ctx, &offer, &more), ERR_TOO_MANY);
}

static void test_a_lease_that_is_over(void **state)
{
	struct peer_offer offer = object(1, 0, 3 * MIB);

	(void)state;
	connect_to_b();
	__atomic_store_n(
		&b->share.slots[1].lease_end, loop_boot_ns() - 1, __ATOMIC_RELAXED);
	assert_int_equal(fetch_once(0, &offer, 0), ERR_LEASE_EXPIRED);
	__atomic_store_n(&b->share.slots[1].lease_end, 0, __ATOMIC_RELAXED);
	assert_int_equal(fetch_once(0, &offer, 0), ERR_LEASE_EXPIRED);
	__atomic_store_n(&b->share.slots[1].lease_end, UINT64_MAX, __ATOMIC_RELAXED);
	assert_int_equal(fetch_once(0, &offer, 0), 0);
}

static void test_another_life_or_state(void **state)
{
	static const uint64_t states[] = {SLOT_STATE(SLOT_READY, LIFE + 1),
		SLOT_STATE(SLOT_FREE, LIFE), SLOT_STATE(SLOT_WRITING, LIFE)};
	struct peer_offer offer = object(1, 0, 100);

	(void)state;
	connect_to_b();
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		atomic_store(&b->share.slots[1].state, states[i]);
		assert_int_equal(fetch_once(0, &offer, 0), ERR_LEASE_EXPIRED);
	}
}

static void test_another_generation_or_size_is_not_taken(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket ticket = ticket_for(&offer);
	struct peer_fetch fetch = fetch_of(&offer, &ticket, 0);

	(void)state;
	connect_to_b();
	memset(a->share.pool, 0xee, 200);
	fetch.generation++;
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	fetch.generation--;
	fetch.ticket = ticket_for(&offer);
	fetch.size = 99;
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	for (size_t i = 0; i < 200; i++)
		assert_int_equal(a->share.pool[i], 0xee);
}

/* ---- a source that reads and waits: the test itself reads -------------------- */

struct reader {
	int fd;
	unsigned char ask[CHUNK_ASK_SIZE];
};

static void reader_open(struct reader *reader, const struct peer_offer *offer)
{
	const struct peer_ticket ticket = ticket_for(offer);
	struct chunk_ask ask = {.seed = SEED};
	unsigned char welcome[GREETING_SIZE];

	reader->fd = stranger_connect(peers_port(b->peers));
	stranger_greet(reader->fd, NET_VERSION, NET_DATA, 0);
	assert_true(stranger_hear(&rig, reader->fd, welcome, sizeof(welcome)));
	memcpy(ask.ticket, ticket.bytes, sizeof(ask.ticket));
	chunk_ask_write(reader->ask, &ask);
	stranger_say(reader->fd, reader->ask, sizeof(reader->ask));
}

/* The next chunk's status: of its head, or of its tail with the bytes taken. */
static uint32_t reader_chunk(struct reader *reader, uint64_t *ret_size)
{
	static unsigned char bytes[PEER_CHUNK];
	unsigned char small[CHUNK_HEAD_SIZE];
	struct chunk_head head;
	struct chunk_tail tail;

	*ret_size = 0;
	assert_true(stranger_hear(&rig, reader->fd, small, CHUNK_HEAD_SIZE));
	assert_int_equal(chunk_head_read(small, &head), 0);
	if (head.status != CHUNK_HOLDS)
		return head.status;
	assert_true(head.size <= sizeof(bytes));
	assert_true(stranger_hear(&rig, reader->fd, bytes, head.size));
	assert_true(stranger_hear(&rig, reader->fd, small, CHUNK_TAIL_SIZE));
	assert_int_equal(chunk_tail_read(small, &tail), 0);
	*ret_size = head.size;
	return tail.status;
}

/* More than sockets take: the source has to wait in the midst of it. What is done to the
 * slot then breaks the transfer off before its end. */
static void broken_off_by(uint64_t state, uint64_t lease_end)
{
	struct peer_offer offer = object(1, 0, 64 * MIB);
	struct reader reader;
	uint64_t size = 0, total = 0;
	uint32_t status;

	reader_open(&reader, &offer);
	assert_int_equal(reader_chunk(&reader, &size), CHUNK_HOLDS);
	assert_int_equal(size, PEER_CHUNK);
	atomic_store(&b->share.slots[1].state, state);
	__atomic_store_n(&b->share.slots[1].lease_end, lease_end, __ATOMIC_RELAXED);
	while ((status = reader_chunk(&reader, &size)) == CHUNK_HOLDS)
		total += size;
	assert_int_equal(status, CHUNK_OVER);
	assert_true(total < 40 * MIB);
	(void)object(1, 0, 100);
	stranger_say(reader.fd, reader.ask, sizeof(reader.ask)); /* it was used */
	assert_int_equal(reader_chunk(&reader, &size), CHUNK_NO_TICKET);
	(void)close(reader.fd);
}

static void test_a_lease_that_ends_midway_breaks_it_off(void **state)
{
	(void)state;
	broken_off_by(SLOT_STATE(SLOT_READY, LIFE), 1);
}

static void test_a_life_that_ends_midway_breaks_it_off(void **state)
{
	(void)state;
	broken_off_by(SLOT_STATE(SLOT_READY, LIFE + 1), UINT64_MAX);
}

static void test_a_reader_who_goes_away_harms_nobody(void **state)
{
	struct peer_offer offer = object(1, 0, 64 * MIB);
	struct reader reader;
	uint64_t size;

	(void)state;
	for (int i = 0; i < 10; i++) {
		reader_open(&reader, &offer);
		assert_int_equal(reader_chunk(&reader, &size), CHUNK_HOLDS);
		(void)close(reader.fd);
	}
	connect_to_b();
	offer.size = 100;
	assert_int_equal(fetch_once(0, &offer, 0), 0);
}

/* ---- a source that misbehaves: the test itself is it ------------------------- */

struct source {
	uint16_t port;
	int listener, control, data;
	struct peer_fetch fetch;
};

/* a is connected to it, has begun fetch 0 of `size` bytes, and has asked for them. */
static void source_open(struct source *source, uint64_t size)
{
	unsigned char ask[CHUNK_ASK_SIZE];

	source->listener = stranger_listen(&source->port);
	side_connect_port(a, PEER, source->port);
	source->control = stranger_accept(&rig, source->listener, NET_CONTROL);
	rig_until(&rig, a->ups[PEER] == 1);
	source->fetch = (struct peer_fetch){.peer = PEER,
		.generation = 9,
		.pool_off = MIB,
		.size = size,
		.seed = SEED,
		.deadline_ns = loop_boot_ns() + FAR_NS};
	begin(0, &source->fetch);
	source->data = stranger_accept(&rig, source->listener, NET_DATA);
	assert_true(stranger_hear(&rig, source->data, ask, sizeof(ask)));
}

static void source_close(struct source *source)
{
	(void)close(source->data);
	(void)close(source->control);
	(void)close(source->listener);
}

static void source_head(struct source *source, uint32_t status, uint64_t size)
{
	const struct chunk_head head = {status, 9, size};
	unsigned char bytes[CHUNK_HEAD_SIZE];

	chunk_head_write(bytes, &head);
	stranger_say(source->data, bytes, sizeof(bytes));
}

static void source_tail(struct source *source, uint32_t status, uint64_t checksum)
{
	const struct chunk_tail tail = {status, checksum};
	unsigned char bytes[CHUNK_TAIL_SIZE];

	chunk_tail_write(bytes, &tail);
	stranger_say(source->data, bytes, sizeof(bytes));
}

static void test_a_wrong_checksum_is_corrupt(void **state)
{
	struct source source;

	(void)state;
	source_open(&source, 5);
	source_head(&source, CHUNK_HOLDS, 5);
	stranger_say(source.data, "bytes", 5);
	source_tail(&source, CHUNK_HOLDS, hash_bytes_seed("bytez", 5, SEED));
	assert_int_equal(end_of(0), ERR_CORRUPT);
	assert_true(stranger_is_closed(&rig, source.data));
	source_close(&source);
}

static void test_a_tail_without_a_lease_does_not_count(void **state)
{
	struct source source;

	(void)state;
	source_open(&source, 5);
	source_head(&source, CHUNK_HOLDS, 5);
	stranger_say(source.data, "bytes", 5);
	source_tail(&source, CHUNK_OVER, hash_bytes_seed("bytes", 5, SEED));
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	source_close(&source);
}

static void test_chunks_that_are_none_fail(void **state)
{
	struct source source;

	(void)state;
	source_open(&source, 5);
	stranger_say(source.data, "no head of a chunk at all", CHUNK_HEAD_SIZE);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	assert_true(stranger_is_closed(&rig, source.data));
	assert_int_equal(a->warns, 1);
	source_close(&source);
}

static void test_a_chunk_of_a_wrong_size_fails(void **state)
{
	struct source source;

	(void)state;
	source_open(&source, 2 * MIB);
	source_head(&source, CHUNK_HOLDS, 2 * MIB);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	assert_true(stranger_is_closed(&rig, source.data));
	source_close(&source);
}

static void test_a_source_that_closes_midway(void **state)
{
	struct source source;

	(void)state;
	source_open(&source, 5);
	source_head(&source, CHUNK_HOLDS, 5);
	stranger_say(source.data, "byt", 3);
	(void)shutdown(source.data, SHUT_RDWR);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	source_close(&source);
}

/* Three of five bytes have come, then nothing more. */
static void source_stalls(struct source *source)
{
	memset(a->share.pool + MIB, 0, 16);
	source_open(source, 5);
	source_head(source, CHUNK_HOLDS, 5);
	stranger_say(source->data, "byt", 3);
}

/* Nothing that is sent after the end gets into the pool: the connection is gone. */
static void nothing_comes_after(struct source *source)
{
	unsigned char before[16];

	memcpy(before, a->share.pool + MIB, sizeof(before));
	(void)!send(source->data, "es", 2, MSG_NOSIGNAL);
	assert_true(stranger_is_closed(&rig, source->data));
	assert_memory_equal(before, a->share.pool + MIB, sizeof(before));
}

static void test_stopping_ends_it(void **state)
{
	struct source source;

	(void)state;
	source_stalls(&source);
	a->env.stop_fetch(a->env.ctx, 0);
	a->env.stop_fetch(a->env.ctx, 0);
	assert_int_equal(a->fetch_err[0], NOT_YET);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	nothing_comes_after(&source);
	a->env.stop_fetch(a->env.ctx, 0); /* of one that is over */
	source_close(&source);
}

static void test_a_source_that_stalls_ends_by_the_deadline(void **state)
{
	struct source source;
	uint64_t deadline = loop_boot_ns() + 30000000;
	struct peer_fetch fetch;

	(void)state;
	source_stalls(&source);
	fetch = source.fetch; /* another, with little time, on a connection of its own */
	fetch.deadline_ns = deadline;
	begin(1, &fetch);
	assert_int_equal(end_of(1), ERR_TIMEOUT);
	assert_true(loop_boot_ns() >= deadline);
	assert_int_equal(a->fetch_err[0], NOT_YET);
	source_close(&source);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
}

static void test_a_deadline_that_has_passed(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket ticket = ticket_for(&offer);
	struct peer_fetch fetch = fetch_of(&offer, &ticket, 0);

	(void)state;
	connect_to_b();
	fetch.deadline_ns = 0;
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_TIMEOUT);
}

static void test_closing_the_peer_ends_all_of_its_fetches(void **state)
{
	struct source source;

	(void)state;
	source_stalls(&source);
	for (uint32_t i = 1; i < PEER_TRANSFERS; i++) /* most wait for a connection */
		begin(i, &source.fetch);
	side_hang_up(a, PEER);
	rig_until(&rig, a->fetches == PEER_TRANSFERS);
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++)
		assert_int_equal(a->fetch_err[i], ERR_TRANSFER_FAIL);
	nothing_comes_after(&source);
	rig_until(&rig, a->downs[PEER] == 1);
	source_close(&source);
}

static void test_a_control_connection_that_breaks_ends_them_too(void **state)
{
	struct source source;

	(void)state;
	source_stalls(&source);
	(void)shutdown(source.control, SHUT_RDWR);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	rig_until(&rig, a->downs[PEER] == 1);
	nothing_comes_after(&source);
	source_close(&source);
}

static void test_no_connection_no_fetch(void **state)
{
	struct peer_offer offer = object(1, 0, 100);
	struct peer_ticket ticket = ticket_for(&offer);
	struct peer_fetch fetch = fetch_of(&offer, &ticket, 0);

	(void)state;
	begin(0, &fetch);
	assert_int_equal(a->fetches, 0);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	connect_to_b();
	fetch.peer = PEER + 1;
	begin(0, &fetch);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
	fetch.peer = PEER;
	begin(0, &fetch);
	assert_int_equal(end_of(0), 0);
}

static void test_nothing_comes_after_the_close(void **state)
{
	struct source source;

	(void)state;
	source_stalls(&source);
	peers_close(a->peers);
	a->peers = NULL;
	nothing_comes_after(&source);
	assert_int_equal(a->fetch_err[0], NOT_YET); /* and nothing is told */
	source_close(&source);
}

/* ---- connections are kept ----------------------------------------------------- */

static void test_a_connection_is_used_again(void **state)
{
	struct source source;
	unsigned char ask[CHUNK_ASK_SIZE];

	(void)state;
	source_open(&source, 5);
	for (int i = 0; i < 5; i++) {
		source_head(&source, CHUNK_HOLDS, 5);
		stranger_say(source.data, "bytes", 5);
		source_tail(&source, CHUNK_HOLDS, hash_bytes_seed("bytes", 5, SEED));
		assert_int_equal(end_of(0), 0);
		begin(0, &source.fetch);
		assert_true(stranger_hear(&rig, source.data, ask, sizeof(ask)));
	}
	source_head(&source, CHUNK_OVER, 0); /* not after a source's own refusal either */
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	begin(0, &source.fetch);
	assert_true(stranger_hear(&rig, source.data, ask, sizeof(ask)));
	assert_int_equal(accept(source.listener, NULL, NULL), -1);
	source_close(&source);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
}

static void test_one_that_was_closed_meanwhile_is_not(void **state)
{
	struct source source;
	unsigned char ask[CHUNK_ASK_SIZE];

	(void)state;
	source_open(&source, 5);
	source_head(&source, CHUNK_OVER, 0);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	stranger_say(source.data, "?", 1); /* what nobody asked for: it is closed */
	assert_true(stranger_is_closed(&rig, source.data));
	begin(0, &source.fetch);
	(void)close(source.data);
	source.data = stranger_accept(&rig, source.listener, NET_DATA);
	assert_true(stranger_hear(&rig, source.data, ask, sizeof(ask)));
	source_close(&source);
	assert_int_equal(end_of(0), ERR_TRANSFER_FAIL);
}

static void test_a_peer_has_a_few(void **state)
{
	struct source source;
	int more[16];
	unsigned count = 0;

	(void)state;
	source_open(&source, 5);
	for (uint32_t i = 1; i < 8; i++)
		begin(i, &source.fetch);
	for (; count < 3; count++)
		more[count] = stranger_accept(&rig, source.listener, NET_DATA);
	rig_idle(&rig);
	assert_int_equal(accept(source.listener, NULL, NULL), -1);
	/* One that ends gives its connection to the next who waits. */
	source_head(&source, CHUNK_OVER, 0);
	assert_int_equal(end_of(0), ERR_LEASE_EXPIRED);
	source_head(&source, CHUNK_OVER, 0);
	rig_until(&rig, a->fetches == 2);
	while (count > 0)
		(void)close(more[--count]);
	source_close(&source);
	rig_until(&rig, a->fetches == 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_objects_of_every_size_come_whole),
	TEST(test_as_many_at_once_as_there_can_be),
	TEST(test_a_condemned_object_may_still_be_read),
	TEST(test_bits_that_change_on_the_way_are_corrupt),
	TEST(test_a_ticket_is_good_once),
	TEST(test_a_ticket_that_was_withdrawn),
	TEST(test_tickets_have_a_number_that_can_be_out),
	TEST(test_a_lease_that_is_over),
	TEST(test_another_life_or_state),
	TEST(test_another_generation_or_size_is_not_taken),
	TEST(test_a_lease_that_ends_midway_breaks_it_off),
	TEST(test_a_life_that_ends_midway_breaks_it_off),
	TEST(test_a_reader_who_goes_away_harms_nobody),
	TEST(test_a_wrong_checksum_is_corrupt),
	TEST(test_a_tail_without_a_lease_does_not_count),
	TEST(test_chunks_that_are_none_fail),
	TEST(test_a_chunk_of_a_wrong_size_fails),
	TEST(test_a_source_that_closes_midway),
	TEST(test_stopping_ends_it),
	TEST(test_a_source_that_stalls_ends_by_the_deadline),
	TEST(test_a_deadline_that_has_passed),
	TEST(test_closing_the_peer_ends_all_of_its_fetches),
	TEST(test_a_control_connection_that_breaks_ends_them_too),
	TEST(test_no_connection_no_fetch),
	TEST(test_nothing_comes_after_the_close),
	TEST(test_a_connection_is_used_again),
	TEST(test_one_that_was_closed_meanwhile_is_not),
	TEST(test_a_peer_has_a_few),
};

UNIT_MAIN(tests)
