/*
 * net_fixture.h - nodes as struct peers sees them, on one loop over the loopback: each has a
 * small share and pool of its own, and notes what is reported to it. And strangers: plain
 * sockets that say what a test wants.
 *
 * Nothing waits for time: rig_until() turns the loop until something holds, and peers_turn()
 * is told a time that a test may set ahead.
 */
#ifndef UNIT_NET_FIXTURE_H
#define UNIT_NET_FIXTURE_H

#include "base/err.h"
#include "base/hash.h"
#include "net/frame.h"
#include "net/peers.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define MIB         (1ul << 20)
#define POOL_SIZE   (80 * MIB)
#define SLOTS       128ul
#define LIFE        5u
#define STUCK_AFTER 120 /* s */
#define FAR_NS      3600000000000ull
#define LINKS_KEPT  64u
#define NOT_YET     1 /* no error: it is under way */

struct rig;

struct side {
	struct rig *rig;
	struct peers *peers;
	struct env_peer env;
	struct share share;
	unsigned char *index;
	bool echoes; /* answers what is asked with the same */
	bool inside; /* a call of env_peer is under way: nothing may be reported */
	/* what was reported */
	unsigned ups[PEER_LIMIT], downs[PEER_LIMIT];
	int down_err;
	char down_why[512];
	struct link_id links[LINKS_KEPT];
	char link_from[128];
	unsigned link_count, closes;
	struct link_id closed;
	unsigned answers, asked;
	uint32_t last_channel;
	uint64_t answer_sum; /* of the channels of all answers */
	unsigned char last[MSG_SIZE_MAX];
	size_t last_size;
	int fetch_err[PEER_TRANSFERS];
	uint64_t fetch_checksum[PEER_TRANSFERS];
	unsigned fetches;
	unsigned warns;
	char warning[512];
};

struct rig {
	struct loop loop;
	uint64_t ahead_ns; /* of the real clock */
	struct side a, b;
};

/* ---- events -------------------------------------------------------------- */

static inline struct side *side_of(void *ctx)
{
	struct side *side = ctx;

	assert_false(side->inside);
	return side;
}

static inline void on_peer_up(void *ctx, uint32_t peer)
{
	side_of(ctx)->ups[peer]++;
}

static inline void on_peer_down(void *ctx, uint32_t peer, int err, const char *why)
{
	struct side *side = side_of(ctx);

	side->downs[peer]++;
	side->down_err = err;
	(void)snprintf(side->down_why, sizeof(side->down_why), "%s", why);
}

static inline void side_note(
	struct side *side, uint32_t channel, const void *message, size_t size)
{
	side->last_channel = channel;
	side->last_size = size;
	memcpy(side->last, message, size);
}

static inline void on_peer_answer(
	void *ctx, uint32_t peer, uint32_t channel, const void *message, size_t size)
{
	struct side *side = side_of(ctx);

	assert_true(side->ups[peer] == side->downs[peer] + 1);
	side->answers++;
	side->answer_sum += channel;
	side_note(side, channel, message, size);
}

static inline void on_link(void *ctx, struct link_id link, const char *address)
{
	struct side *side = side_of(ctx);

	side->links[side->link_count++ % LINKS_KEPT] = link;
	(void)snprintf(side->link_from, sizeof(side->link_from), "%s", address);
}

static inline void on_link_message(void *ctx, struct link_id link, uint32_t channel,
	const void *message, size_t size)
{
	struct side *side = side_of(ctx);

	side->asked++;
	side_note(side, channel, message, size);
	if (!side->echoes)
		return;
	side->inside = true;
	side->env.answer(side->env.ctx, link, channel, message, size);
	side->inside = false;
}

static inline void on_link_close(void *ctx, struct link_id link)
{
	struct side *side = side_of(ctx);

	side->closes++;
	side->closed = link;
}

static inline void on_fetch(void *ctx, uint32_t fetch, int err, uint64_t checksum)
{
	struct side *side = side_of(ctx);

	assert_int_equal(side->fetch_err[fetch], NOT_YET);
	side->fetch_err[fetch] = err;
	side->fetch_checksum[fetch] = checksum;
	side->fetches++;
}

static inline void on_warn(void *ctx, const char *text)
{
	struct side *side = side_of(ctx);

	side->warns++;
	(void)snprintf(side->warning, sizeof(side->warning), "%s", text);
}

/* ---- nodes --------------------------------------------------------------- */

static inline struct peers_config side_config(
	struct side *side, enum peers_secure secure, struct tls *tls)
{
	return (struct peers_config){
		.loop = &side->rig->loop,
		.listen = {.host = "127.0.0.1"},
		.secure = secure,
		.tls = tls,
		.share = &side->share,
		.offers = 100,
		.events = {side, on_peer_up, on_peer_down, on_peer_answer, on_link,
			on_link_message, on_link_close, on_fetch, on_warn},
	};
}

static inline int side_start(struct side *side, const struct peers_config *config)
{
	char message[512] = "";
	int err = peers_open(&side->peers, config, message, sizeof(message));

	if (err == 0)
		peers_env(side->peers, &side->env);
	else
		(void)fprintf(stderr, "%s\n", message);
	return err;
}

static inline void side_share(struct rig *rig, struct side *side)
{
	size_t index_size = SHARE_SLOTS_OFFSET + SLOTS * sizeof(struct slot);
	void *pool = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(pool != MAP_FAILED);
	*side = (struct side){.rig = rig, .index = calloc(1, index_size)};
	assert_non_null(side->index);
	share_init(&side->share, side->index, pool);
	side->share.header->pool_size = POOL_SIZE;
	side->share.header->slots_limit = SLOTS;
}

static inline void rig_open(
	struct rig *rig, enum peers_secure secure, struct tls *tls_a, struct tls *tls_b)
{
	struct peers_config config;

	(void)alarm(STUCK_AFTER);
	rig->ahead_ns = 0;
	assert_int_equal(loop_open(&rig->loop), 0);
	side_share(rig, &rig->a);
	side_share(rig, &rig->b);
	config = side_config(&rig->a, secure, tls_a);
	assert_int_equal(side_start(&rig->a, &config), 0);
	config = side_config(&rig->b, secure, tls_b);
	assert_int_equal(side_start(&rig->b, &config), 0);
}

static inline void side_close(struct side *side)
{
	peers_close(side->peers);
	side->peers = NULL;
	(void)munmap(side->share.pool, POOL_SIZE);
	free(side->index);
}

static inline void rig_close(struct rig *rig)
{
	side_close(&rig->a);
	side_close(&rig->b);
	loop_close(&rig->loop);
}

static inline uint64_t side_next(const struct side *side)
{
	return side->peers != NULL ? peers_next(side->peers) : UINT64_MAX;
}

static inline void side_turn(struct side *side)
{
	if (side->peers != NULL)
		(void)peers_turn(side->peers, loop_boot_ns() + side->rig->ahead_ns);
}

static inline void rig_turn(struct rig *rig, bool wait)
{
	uint64_t next = MIN(side_next(&rig->a), side_next(&rig->b));
	int signal;

	loop_set_timer(&rig->loop, next);
	assert_int_equal(loop_turn(&rig->loop, wait, &signal), 0);
	side_turn(&rig->a);
	side_turn(&rig->b);
}

#define rig_until(rig, cond)                   \
	do {                                   \
		while (!(cond))                \
			rig_turn((rig), true); \
	} while (0)

/* What is ready, and what that makes ready. */
static inline void rig_idle(struct rig *rig)
{
	for (int i = 0; i < 20; i++)
		rig_turn(rig, false);
}

/* ---- calls, from inside which nothing may be reported --------------------- */

static inline void side_connect_port(struct side *side, uint32_t peer, uint16_t port)
{
	char endpoint[64];

	(void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", port);
	side->inside = true;
	side->env.connect(side->env.ctx, peer, endpoint);
	side->inside = false;
}

static inline void side_connect(struct side *side, uint32_t peer, const struct side *to)
{
	side_connect_port(side, peer, peers_port(to->peers));
}

static inline void side_hang_up(struct side *side, uint32_t peer)
{
	side->inside = true;
	side->env.close(side->env.ctx, peer);
	side->inside = false;
}

/* A message of any size that there can be, made of one number. */
static inline size_t message_make(unsigned char *message, size_t size, uint32_t number)
{
	struct msg_info_text msg = {.text = {message + MSG_HEADER_SIZE, 0}};
	size_t made;

	assert_true(size >= MSG_HEADER_SIZE && size <= MSG_SIZE_MAX);
	for (size_t i = MSG_HEADER_SIZE; i < size; i++)
		message[i] = (unsigned char)(number * 7 + i);
	msg.text.size = size - MSG_HEADER_SIZE;
	made = msg_info_text_encode(message, size, &msg);
	assert_int_equal(made, size);
	return made;
}

static inline void side_ask(
	struct side *side, uint32_t peer, uint32_t channel, size_t size)
{
	static unsigned char message[MSG_SIZE_MAX];

	(void)message_make(message, size, channel);
	side->inside = true;
	side->env.send(side->env.ctx, peer, channel, message, size);
	side->inside = false;
}

/* ---- strangers ----------------------------------------------------------- */

static inline int stranger_connect(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (void *)&at, sizeof(at)), 0);
	return fd;
}

static inline void stranger_say(int fd, const void *bytes, size_t size)
{
	assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

static inline void stranger_greet(int fd, uint16_t version, uint8_t kind, uint8_t verdict)
{
	const struct greeting greeting = {version, kind, verdict};
	unsigned char bytes[GREETING_SIZE];

	greeting_write(bytes, &greeting);
	stranger_say(fd, bytes, sizeof(bytes));
}

/* Turn the loop until these bytes have come; false: the other end closed it before. */
static inline bool stranger_hear(struct rig *rig, int fd, void *bytes, size_t size)
{
	unsigned char *at = bytes;

	while (size > 0) {
		ssize_t got = recv(fd, at, size, MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return false;
		if (got > 0) {
			at += got;
			size -= (size_t)got;
			continue;
		}
		assert_int_equal(errno, EAGAIN);
		rig_turn(rig, false);
	}
	return true;
}

/* Whatever is said first, the connection is closed. */
static inline bool stranger_is_closed(struct rig *rig, int fd)
{
	unsigned char byte;

	while (stranger_hear(rig, fd, &byte, 1))
		continue;
	return true;
}

static inline int stranger_listen(uint16_t *ret_port)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret_port = 0;
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (void *)&at, size), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (void *)&at, &size), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

/* The next who connects, his greeting read and welcomed. */
static inline int stranger_accept(struct rig *rig, int listener, uint8_t kind)
{
	unsigned char bytes[GREETING_SIZE];
	struct greeting greeting;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		assert_int_equal(errno, EAGAIN);
		rig_turn(rig, false);
	}
	assert_true(stranger_hear(rig, fd, bytes, sizeof(bytes)));
	assert_int_equal(greeting_read(bytes, &greeting), 0);
	assert_int_equal(greeting.version, NET_VERSION);
	assert_int_equal(greeting.kind, kind);
	stranger_greet(fd, NET_VERSION, kind, NET_WELCOME);
	return fd;
}

#endif
