/*
 * stream_fixture.h - two ends of a connection over the loopback, on one loop.
 *
 * Nothing here waits for time: turn_until() turns the loop until something holds; alarm()
 * ends a test in which it never does.
 */
#ifndef UNIT_STREAM_FIXTURE_H
#define UNIT_STREAM_FIXTURE_H

#include "base/err.h"
#include "base/hash.h"
#include "io/stream.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MIB          (1ul << 20)
#define STUCK_AFTER  120 /* s */
#define END_RUNNING  1   /* no error */
#define BACKLOG_NONE 0

struct end {
	struct stream stream;
	unsigned ups, downs;
	int err;
	char why[STREAM_WHY_MAX];
	unsigned char *got; /* what came, in order */
	size_t got_size, got_limit;
	size_t unit; /* data() takes multiples of it */
	size_t shown_max;
	unsigned shows;
	void (*then)(struct end *end); /* from inside each event, after it is noted */
};

/* ---- events -------------------------------------------------------------- */

static inline void end_then(struct end *end)
{
	if (end->then != NULL)
		end->then(end);
}

static inline void end_up(void *ctx)
{
	struct end *end = ctx;

	end->ups++;
	end_then(end);
}

static inline size_t end_data(void *ctx, const void *bytes, size_t size)
{
	struct end *end = ctx;
	size_t taken = size - size % end->unit;

	end->shows++;
	if (size > end->shown_max)
		end->shown_max = size;
	assert_true(end->ups == 1 && end->downs == 0);
	assert_true(taken <= end->got_limit - end->got_size);
	memcpy(end->got + end->got_size, bytes, taken);
	end->got_size += taken;
	end_then(end);
	return taken;
}

static inline void end_down(void *ctx, int err, const char *why)
{
	struct end *end = ctx;

	end->downs++;
	end->err = err;
	(void)snprintf(end->why, sizeof(end->why), "%s", why);
	end_then(end);
}

static const struct stream_events end_events = {
	.up = end_up, .data = end_data, .down = end_down};

static inline void end_init(struct end *end, size_t limit)
{
	*end = (struct end){.got = malloc(limit + 1), .got_limit = limit, .unit = 1};
	assert_non_null(end->got);
	end->err = END_RUNNING;
}

static inline void end_fini(struct end *end)
{
	stream_close(&end->stream);
	free(end->got);
	end->got = NULL;
}

static inline bool end_is_down(const struct end *end)
{
	return end->downs > 0;
}

/* ---- the loop ------------------------------------------------------------ */

static inline void turn(struct loop *loop, bool wait)
{
	int taken_signal;

	assert_int_equal(loop_turn(loop, wait, &taken_signal), 0);
}

#define turn_until(loop, cond)              \
	do {                                \
		while (!(cond))             \
			turn((loop), true); \
	} while (0)

/* What is ready now, and what that makes ready, and so on. */
static inline void turn_idle(struct loop *loop)
{
	for (int i = 0; i < 20; i++)
		turn(loop, false);
}

/* ---- sockets ------------------------------------------------------------- */

/* Listen at the loopback of `family`; -1: the machine has none. */
static inline int listen_at(int family, int backlog, uint16_t *ret_port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	void *at = family == AF_INET ? (void *)&v4 : (void *)&v6;
	socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_port = 0;
	if (fd < 0 && family == AF_INET6)
		return -1;
	if (bind(fd, at, size) != 0) {
		assert_int_equal(family, AF_INET6);
		(void)close(fd);
		return -1;
	}
	assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, at, &size), 0);
	*ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return fd;
}

static inline struct address address_of(const char *host, uint16_t port)
{
	struct address address = {.port = port};

	(void)snprintf(address.host, sizeof(address.host), "%s", host);
	return address;
}

/* The next connection, once it has come. */
static inline int accept_at(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

/* Both ends of one connection; the handshake is still to come. */
static inline void pair_open(struct loop *loop, struct end *client, struct end *server,
	struct tls *client_tls, struct tls *server_tls)
{
	uint16_t port;
	int listener = listen_at(AF_INET, 8, &port);
	struct address address = address_of("127.0.0.1", port);

	assert_int_equal(stream_open(&client->stream, loop, &address, client_tls,
				 &end_events, client),
		0);
	assert_int_equal(client->ups + client->downs, 0);
	turn(loop, true);
	assert_int_equal(stream_take(&server->stream, loop, accept_at(listener),
				 server_tls, &end_events, server),
		0);
	assert_int_equal(server->ups + server->downs, 0);
	(void)close(listener);
}

/* Bytes that differ from place to place. */
static inline unsigned char *pattern_new(size_t size, uint64_t seed)
{
	unsigned char *bytes = malloc(size + 8);

	assert_non_null(bytes);
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = (i + seed) * 0x9e3779b97f4a7c15ull;

		memcpy(bytes + i, &word, sizeof(word));
	}
	return bytes;
}

#endif
