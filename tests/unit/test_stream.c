/*
 * Tests of io/stream.h in the clear, over real sockets: ways up, large bytes, back-pressure,
 * and every kind of end. How names are answered is the test's own: getaddrinfo() is here.
 */
#include "stream_fixture.h"

#include "io/listener.h"

#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>

static struct loop loop;
static struct end a, b;
static sem_t slow_gate, slow_left;
static unsigned slow_asked;
static uint16_t name_port; /* where the addresses of names lead */

/* ---- names --------------------------------------------------------------- */

typedef int (*getaddrinfo_fn)(
	const char *, const char *, const struct addrinfo *, struct addrinfo **);

static getaddrinfo_fn real_getaddrinfo;

/* "six.test": ::1 alone. "both.test": ::1, then 127.0.0.1. "slow.test": waits for the gate,
 * then 127.0.0.1. "none.test": no such host. Others as ever. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **ret)
{
	struct addrinfo *first, *second;
	int error;

	if (strstr(host, ".test") == NULL || (hints->ai_flags & AI_NUMERICHOST) != 0)
		return real_getaddrinfo(host, port, hints, ret);
	if (strcmp(host, "none.test") == 0)
		return EAI_NONAME;
	if (strcmp(host, "slow.test") == 0) {
		while (sem_wait(&slow_gate) != 0)
			continue;
	}
	error = real_getaddrinfo(strcmp(host, "slow.test") == 0 ? "127.0.0.1" : "::1",
		port, hints, &first);
	if (error == 0 && strcmp(host, "both.test") == 0) {
		error = real_getaddrinfo("127.0.0.1", port, hints, &second);
		if (error == 0)
			first->ai_next = second;
	}
	*ret = first;
	if (strcmp(host, "slow.test") == 0)
		(void)sem_post(&slow_left);
	return error;
}

static int setup(void **state)
{
	union {
		void *plain;
		getaddrinfo_fn call;
	} symbol = {dlsym(RTLD_NEXT, "getaddrinfo")};

	(void)state;
	(void)alarm(STUCK_AFTER);
	real_getaddrinfo = symbol.call;
	end_init(&a, 16 * MIB);
	end_init(&b, 16 * MIB);
	slow_asked = 0;
	return loop_open(&loop) || sem_init(&slow_gate, 0, 0) ||
	       sem_init(&slow_left, 0, 0);
}

static int teardown(void **state)
{
	(void)state;
	end_fini(&a);
	end_fini(&b);
	loop_close(&loop);
	for (; slow_asked > 0;
		slow_asked--) /* the next test is not to meet its threads */
		assert_int_equal(sem_wait(&slow_left), 0);
	return sem_destroy(&slow_gate) || sem_destroy(&slow_left);
}

static void open_at(struct end *end, const char *host, uint16_t port)
{
	struct address address = address_of(host, port);

	assert_int_equal(
		stream_open(&end->stream, &loop, &address, NULL, &end_events, end), 0);
	assert_int_equal(end->ups + end->downs, 0);
}

static void open_slow(struct end *end)
{
	slow_asked++;
	open_at(end, "slow.test", name_port);
}

static void pair_up(void)
{
	pair_open(&loop, &a, &b, NULL, NULL);
	turn_until(&loop, a.ups == 1 && b.ups == 1);
}

static void send_all(struct end *end, const void *bytes, size_t size)
{
	assert_int_equal(stream_send(&end->stream, bytes, size), 0);
}

/* ---- the way up ---------------------------------------------------------- */

static void test_bytes_go_both_ways_and_keep_their_order(void **state)
{
	size_t size = 12 * MIB + 3;
	unsigned char *there = pattern_new(size, 1), *back = pattern_new(size, 2);

	(void)state;
	pair_up();
	for (size_t at = 0; at < size; at += MIB + 1) {
		size_t part = MIN(MIB + 1, size - at);

		send_all(&a, there + at, part);
		send_all(&b, back + at, part);
	}
	turn_until(&loop, a.got_size == size && b.got_size == size);
	assert_memory_equal(b.got, there, size);
	assert_memory_equal(a.got, back, size);
	assert_int_equal(stream_waiting(&a.stream) + stream_waiting(&b.stream), 0);
	free(there);
	free(back);
}

static void test_what_is_sent_before_up_waits(void **state)
{
	struct address address;
	uint16_t port;
	int listener = listen_at(AF_INET, 8, &port);

	(void)state;
	address = address_of("127.0.0.1", port);
	assert_int_equal(
		stream_open(&a.stream, &loop, &address, NULL, &end_events, &a), 0);
	send_all(&a, "early", 5);
	assert_int_equal(stream_waiting(&a.stream), 5);
	turn_until(&loop, a.ups == 1);
	assert_int_equal(
		stream_take(&b.stream, &loop, accept_at(listener), NULL, &end_events, &b),
		0);
	turn_until(&loop, b.got_size == 5);
	assert_memory_equal(b.got, "early", 5);
	(void)close(listener);
}

static void test_data_that_is_left_comes_again_with_more(void **state)
{
	unsigned char *bytes = pattern_new(3 * MIB, 3);
	size_t size = 3 * MIB - 3 * MIB % 100003;

	(void)state;
	pair_up();
	b.unit = 100003; /* more than one read gives */
	send_all(&a, bytes, 3 * MIB);
	turn_until(&loop, b.got_size == size);
	assert_memory_equal(b.got, bytes, size);
	assert_true(b.shown_max >= b.unit);
	free(bytes);
}

static void test_ipv6_and_names_lead_there(void **state)
{
	int listener = listen_at(AF_INET6, 8, &name_port);

	(void)state;
	if (listener < 0)
		skip();
	open_at(&a, "::1", name_port);
	open_at(&b, "six.test", name_port);
	turn_until(&loop, a.ups == 1 && b.ups == 1);
	(void)close(listener);
}

static void test_addresses_are_tried_in_turn(void **state)
{
	int listener = listen_at(AF_INET, 8, &name_port);

	(void)state;
	open_at(&a, "both.test", name_port); /* nobody listens at ::1 */
	turn_until(&loop, a.ups == 1);
	assert_int_equal(a.downs, 0);
	(void)close(listener);
}

static void test_a_listener_tells_where_from(void **state)
{
	struct address at = address_of("::", 0), from;
	char message[256];
	int listener, fd, err, again;

	(void)state;
	err = listener_open(&at, &listener, message, sizeof(message));
	if (err != 0) /* no IPv6 here */
		at = address_of("0.0.0.0", 0);
	if (err != 0)
		err = listener_open(&at, &listener, message, sizeof(message));
	assert_int_equal(err, 0);
	assert_int_equal(listener_accept(listener, &fd, &from), ERR_BUSY);
	open_at(&a, "127.0.0.1", listener_port(listener));
	turn_until(&loop, a.ups == 1);
	assert_int_equal(listener_accept(listener, &fd, &from), 0);
	assert_string_equal(from.host, "127.0.0.1");
	assert_true(from.port != 0);
	at.port = listener_port(listener);
	assert_int_equal(
		listener_open(&at, &again, message, sizeof(message)), ERR_UNAVAILABLE);
	assert_non_null(strstr(message, strerror(EADDRINUSE)));
	at = address_of("none.test", 1);
	assert_int_equal(
		listener_open(&at, &again, message, sizeof(message)), ERR_UNAVAILABLE);
	assert_non_null(strstr(message, "none.test:1"));
	(void)close(fd);
	(void)close(listener);
}

/* ---- ends ---------------------------------------------------------------- */

static void test_no_such_host_is_told(void **state)
{
	(void)state;
	open_at(&a, "none.test", 1);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	assert_int_equal(a.ups, 0);
	assert_non_null(strstr(a.why, "none.test"));
}

static void test_refusal_is_told_with_the_address(void **state)
{
	uint16_t port;
	char expected[64];

	(void)state;
	(void)close(listen_at(AF_INET, 8, &port));
	open_at(&a, "127.0.0.1", port);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	(void)snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
	assert_non_null(strstr(a.why, expected));
	assert_non_null(strstr(a.why, strerror(ECONNREFUSED)));
	turn_idle(&loop);
	assert_int_equal(a.downs, 1);
}

static void test_the_other_end_closes(void **state)
{
	(void)state;
	pair_up();
	send_all(&b, "last words", 10);
	stream_close(&b.stream);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.got_size, 10);
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	assert_int_equal(b.downs, 0);
	send_all(&a, "to nobody", 9); /* after down(): nothing happens */
	turn_idle(&loop);
	assert_int_equal(a.downs, 1);
}

/* With a signal, this program would end here. */
static void test_sending_to_who_is_gone_is_no_signal(void **state)
{
	unsigned char *bytes = pattern_new(MIB, 4);

	(void)state;
	pair_up();
	send_all(&b, bytes, 100);
	turn_until(&loop, a.got_size == 100);
	send_all(&a, bytes, 100); /* unread there, so that the close is a reset */
	stream_close(&b.stream);
	for (int i = 0; i < 8; i++)
		send_all(&a, bytes, MIB);
	assert_int_equal(a.downs, 0); /* never from inside a call */
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	free(bytes);
}

#define PRESSURE (STREAM_SEND_LIMIT + 8 * MIB) /* more than the sockets take of it */

static void test_a_reader_who_stops_is_back_pressure(void **state)
{
	unsigned char *bytes = pattern_new(PRESSURE, 5), *read_back = malloc(MIB);
	size_t got = 0, waiting;
	uint16_t port;
	int listener = listen_at(AF_INET, 8, &port), fd;

	(void)state;
	assert_non_null(read_back);
	open_at(&a, "127.0.0.1", port);
	turn_until(&loop, a.ups == 1);
	fd = accept_at(listener);
	send_all(&a, bytes, PRESSURE); /* at first nothing waits, so all of it is taken */
	waiting = stream_waiting(&a.stream);
	assert_true(waiting > STREAM_SEND_LIMIT && waiting < PRESSURE);
	assert_int_equal(stream_send(&a.stream, bytes, 1), ERR_BUSY);
	assert_int_equal(stream_waiting(&a.stream), waiting);
	while (got < PRESSURE) {
		ssize_t part = recv(fd, read_back, MIN(MIB, PRESSURE - got), 0);

		if (part < 0) {
			assert_int_equal(errno, EAGAIN);
			turn(&loop, true);
			continue;
		}
		assert_true(part > 0);
		assert_memory_equal(read_back, bytes + got, part);
		got += (size_t)part;
	}
	assert_int_equal(stream_waiting(&a.stream), 0);
	send_all(&a, bytes, 1);
	(void)close(fd);
	(void)close(listener);
	free(bytes);
	free(read_back);
}

/* ---- time ---------------------------------------------------------------- */

/* Connections that nobody accepts: once they fill a listener's queue, who connects gets no
 * answer at all. */
static void fill(int *fillers, int count, const void *at, socklen_t size)
{
	const struct sockaddr *address = at;

	for (int i = 0; i < count; i++) {
		fillers[i] = socket(address->sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(
			connect(fillers[i], address, size) == 0 || errno == EINPROGRESS);
	}
}

static int black_hole(uint16_t *ret_port, int *fillers, int count)
{
	int listener = listen_at(AF_INET, BACKLOG_NONE, ret_port);
	const struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(*ret_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	fill(fillers, count, &at, sizeof(at));
	return listener;
}

static void test_a_black_hole_ends_by_the_clock(void **state)
{
	int fillers[4], listener;
	uint64_t before = loop_boot_ns(), due;
	uint16_t port;

	(void)state;
	listener = black_hole(&port, fillers, 4);
	open_at(&a, "127.0.0.1", port);
	turn_idle(&loop);
	due = stream_next(&a.stream);
	assert_true(due >= before + STREAM_OPEN_NS);
	assert_true(due <= loop_boot_ns() + STREAM_OPEN_NS);
	stream_due(&a.stream, due - 1);
	assert_int_equal(a.downs, 0);
	stream_due(&a.stream, due);
	assert_int_equal(a.downs, 1);
	assert_int_equal(a.err, ERR_TIMEOUT);
	assert_int_equal(stream_next(&a.stream), UINT64_MAX);
	stream_due(&a.stream, UINT64_MAX - 1);
	assert_int_equal(a.downs, 1);
	for (int i = 0; i < 4; i++)
		(void)close(fillers[i]);
	(void)close(listener);
}

/* Behind ::1 is nothing, and the next address has its share of the time. */
static void test_a_black_hole_does_not_hide_the_next_address(void **state)
{
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct address address;
	int listener = listen_at(AF_INET, 8, &name_port), hole, fillers[4];
	uint64_t due;

	(void)state;
	v6.sin6_port = htons(name_port);
	hole = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (hole < 0 || bind(hole, (void *)&v6, sizeof(v6)) != 0)
		skip();
	assert_int_equal(listen(hole, BACKLOG_NONE), 0);
	fill(fillers, 4, &v6, sizeof(v6));
	address = address_of("both.test", name_port);
	assert_int_equal(
		stream_open(&a.stream, &loop, &address, NULL, &end_events, &a), 0);
	turn(&loop, true); /* the name is known, ::1 is tried */
	turn_idle(&loop);
	due = stream_next(&a.stream);
	assert_true(due < loop_boot_ns() + STREAM_OPEN_NS / 3 * 2);
	assert_int_equal(a.ups + a.downs, 0);
	stream_due(&a.stream, due);
	assert_int_equal(a.ups + a.downs, 0);
	turn_until(&loop, a.ups == 1);
	for (int i = 0; i < 4; i++)
		(void)close(fillers[i]);
	(void)close(hole);
	(void)close(listener);
}

static void test_a_name_that_is_not_answered_ends_by_the_clock(void **state)
{
	(void)state;
	open_slow(&a);
	turn_idle(&loop);
	assert_int_equal(a.downs, 0);
	stream_due(&a.stream, stream_next(&a.stream));
	assert_int_equal(a.err, ERR_TIMEOUT);
	assert_int_equal(sem_post(&slow_gate), 0); /* the thread goes by itself */
}

static void test_closing_while_a_name_is_looked_up(void **state)
{
	int listener = listen_at(AF_INET, 8, &name_port);

	(void)state;
	open_slow(&a);
	stream_close(&a.stream);
	assert_int_equal(sem_post(&slow_gate), 0);
	open_slow(&b);
	assert_int_equal(sem_post(&slow_gate), 0);
	turn_until(&loop, b.ups == 1);
	assert_int_equal(a.ups + a.downs, 0);
	(void)close(listener);
}

static void test_one_that_stands_has_no_clock(void **state)
{
	(void)state;
	pair_up();
	assert_int_equal(stream_next(&a.stream), UINT64_MAX);
	assert_int_equal(stream_next(&b.stream), UINT64_MAX);
	stream_due(&a.stream, loop_boot_ns() + 100 * STREAM_OPEN_NS);
	send_all(&a, "x", 1);
	turn_until(&loop, b.got_size == 1);
}

/* ---- closing from inside ------------------------------------------------- */

static void close_now(struct end *end)
{
	stream_close(&end->stream);
	end->then = NULL;
}

static void test_closing_from_inside_up(void **state)
{
	(void)state;
	pair_open(&loop, &a, &b, NULL, NULL);
	a.then = close_now;
	turn_until(&loop, end_is_down(&b));
	assert_int_equal(a.ups, 1);
	assert_int_equal(a.downs, 0);
}

static void test_closing_from_inside_data(void **state)
{
	unsigned char *bytes = pattern_new(MIB, 6);

	(void)state;
	pair_up();
	b.then = close_now;
	send_all(&a, bytes, MIB);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(b.shows, 1);
	assert_int_equal(b.downs, 0);
	free(bytes);
}

static void test_closing_from_inside_down(void **state)
{
	(void)state;
	pair_up();
	a.then = close_now;
	stream_close(&b.stream);
	turn_until(&loop, end_is_down(&a));
	assert_null(a.stream.state);
	stream_close(&a.stream);
}

/* ---- by the owner himself ------------------------------------------------ */

#define DIRECT_SIZE (6 * MIB + 5)

static void direct_read(void *ctx)
{
	struct end *end = ctx;
	int64_t got;

	while ((got = stream_read(&end->stream, end->got + end->got_size,
			end->got_limit - end->got_size)) > 0)
		end->got_size += (size_t)got;
}

static unsigned char *direct_bytes;
static size_t direct_sent;

static void direct_write(void *ctx)
{
	struct end *end = ctx;
	int64_t sent = 0;

	do {
		direct_sent += (size_t)sent;
		sent = stream_write(&end->stream, direct_bytes + direct_sent,
			DIRECT_SIZE - direct_sent, false);
	} while (sent > 0 && direct_sent < DIRECT_SIZE);
	stream_want(&end->stream, true, direct_sent < DIRECT_SIZE);
}

static void go_direct(struct end *end)
{
	end->then = NULL;
	stream_go_direct(&end->stream, end == &a ? direct_write : direct_read);
}

static void test_the_owner_moves_the_bytes_himself(void **state)
{
	(void)state;
	direct_bytes = pattern_new(DIRECT_SIZE, 7);
	direct_sent = 0;
	pair_open(&loop, &a, &b, NULL, NULL);
	a.then = b.then = go_direct;
	turn_until(&loop, b.got_size == DIRECT_SIZE);
	assert_memory_equal(b.got, direct_bytes, DIRECT_SIZE);
	assert_int_equal(b.shows, 0);
	stream_close(&b.stream);
	turn_until(&loop, a.stream.state != NULL && stream_read(&a.stream, a.got, 1) < 0);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	free(direct_bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_bytes_go_both_ways_and_keep_their_order),
	TEST(test_what_is_sent_before_up_waits),
	TEST(test_data_that_is_left_comes_again_with_more),
	TEST(test_ipv6_and_names_lead_there),
	TEST(test_addresses_are_tried_in_turn),
	TEST(test_a_listener_tells_where_from),
	TEST(test_no_such_host_is_told),
	TEST(test_refusal_is_told_with_the_address),
	TEST(test_the_other_end_closes),
	TEST(test_sending_to_who_is_gone_is_no_signal),
	TEST(test_a_reader_who_stops_is_back_pressure),
	TEST(test_a_black_hole_ends_by_the_clock),
	TEST(test_a_black_hole_does_not_hide_the_next_address),
	TEST(test_a_name_that_is_not_answered_ends_by_the_clock),
	TEST(test_closing_while_a_name_is_looked_up),
	TEST(test_one_that_stands_has_no_clock),
	TEST(test_closing_from_inside_up),
	TEST(test_closing_from_inside_data),
	TEST(test_closing_from_inside_down),
	TEST(test_the_owner_moves_the_bytes_himself),
};

UNIT_MAIN(tests)
