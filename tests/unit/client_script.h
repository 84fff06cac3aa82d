/*
 * client_script.h - for the tests of the client library: a daemon that a test scripts.
 *
 * It is a thread with real segments and a real socket. It answers HELLO by itself and
 * hands every other message to the test's `serve`.
 */
#ifndef UNIT_CLIENT_SCRIPT_H
#define UNIT_CLIENT_SCRIPT_H

#include "base/check.h"
#include "base/hash.h"
#include "ipc/process.h"
#include "ipc/segment.h"
#include "ipc/socket.h"
#include "share/index.h"
#include "unit.h"
#include "wire/msg.h"

#include <cenote/cenote.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define POOL_SIZE (4u << 20)
#define LANES     16

struct script;

/* One message of a lane. */
struct request {
	struct script *script;
	int lane;
	enum msg_type type;
	const void *data;
	size_t size;
};

struct script {
	char dir_path[64], socket_path[96], detail[256];
	struct segment_dir dir;
	int listener, wake[2];
	pthread_t thread;
	int lanes[LANES];
	uint32_t hellos;                 /* that came */
	struct msg_welcome welcome;      /* what HELLO is answered with */
	bool long_welcome;               /* with more bytes than a WELCOME has */
	void (*serve)(struct request *); /* the test's */
	unsigned char out[MSG_SIZE_MAX];
	int step;    /* the test's */
	uint64_t op; /* the test's */
	_Atomic uint32_t unpins, aborts;
	struct cenote *store;
};

/* Lose the connection in place of an answer. */
static inline void hang_up(struct request *request)
{
	(void)shutdown(request->lane, SHUT_RDWR);
}

static inline void reply(struct request *request, size_t size)
{
	CHECK(size > 0);
	/* A test may have closed its store already. */
	if (socket_send(request->lane, request->script->out, size, NULL, 0, 0) != 0)
		hang_up(request);
}

static inline void reply_done(struct request *request)
{
	struct msg_done msg = {.generation = 7};

	reply(request, msg_done_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static inline void reply_error(struct request *request, int code, const char *text)
{
	struct msg_error msg = {.code = code, .text = {text, strlen(text)}};

	reply(request, msg_error_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static inline void reply_found(struct request *request, uint32_t slot, uint64_t life)
{
	struct msg_found msg = {.slot = slot, .life = life};

	reply(request, msg_found_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static inline void reply_started(struct request *request, uint64_t off)
{
	struct msg_put_started msg = {.slot = 3, .life = 9, .off = off};

	reply(request, msg_put_started_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static inline void welcome(struct script *script, int lane, const struct msg_hello *hello)
{
	static const uint8_t none[16];
	int fds[SEGMENT_FDS];
	size_t count = 0, size;

	script->hellos++;
	if (memcmp(hello->token, none, 16) == 0) {
		count = SEGMENT_FDS;
		CHECK(segment_grant(&script->dir, 0, 1, true, fds) == 0);
	}
	size = msg_welcome_encode(script->out, MSG_SIZE_MAX, &script->welcome);
	if (script->long_welcome)
		size = 4096;
	CHECK(socket_send(lane, script->out, size, fds, count, 0) == 0);
	while (count > 0)
		(void)close(fds[--count]);
}

static inline void handle(struct script *script, int lane, const void *data, size_t size)
{
	struct request request = {
		.script = script, .lane = lane, .data = data, .size = size};
	struct msg_hello hello;

	CHECK(msg_type(data, size, &request.type) == 0);
	if (request.type == MSG_TYPE_HELLO) {
		CHECK(msg_hello_decode(data, size, &hello) == 0);
		welcome(script, lane, &hello);
	} else if (request.type == MSG_TYPE_BYE) {
		reply_done(&request);
	} else if (request.type == MSG_TYPE_UNPIN) {
		script->unpins++;
	} else if (request.type == MSG_TYPE_TELL) {
		return; /* one-way; the first says that the WELCOME has come */
	} else if (request.type == MSG_TYPE_PUT_ABORT) {
		script->aborts++;
		reply_done(&request);
	} else {
		script->serve(&request);
	}
}

static inline void accept_lane(struct script *script)
{
	for (int i = 0; i < LANES; i++) {
		if (script->lanes[i] < 0) {
			CHECK(socket_accept(script->listener, &script->lanes[i]) == 0);
			return;
		}
	}
	NOT_REACHED("more lanes than the script has room for");
}

static inline void *script_run(void *arg)
{
	struct script *script = arg;
	unsigned char *in = malloc(MSG_SIZE_MAX);

	for (;;) {
		struct pollfd entries[LANES + 2] = {
			{.fd = script->wake[0], .events = POLLIN},
			{.fd = script->listener, .events = POLLIN},
		};

		for (int i = 0; i < LANES; i++)
			entries[i + 2] = (struct pollfd){script->lanes[i], POLLIN, 0};
		CHECK(poll(entries, LANES + 2, -1) > 0);
		if (entries[0].revents != 0)
			break;
		if (entries[1].revents != 0)
			accept_lane(script);
		for (int i = 0; i < LANES; i++) {
			int64_t size;

			if (entries[i + 2].fd < 0 || entries[i + 2].revents == 0)
				continue;
			size = socket_receive(
				script->lanes[i], in, MSG_SIZE_MAX, 0, NULL);
			if (size > 0) {
				handle(script, script->lanes[i], in, (size_t)size);
			} else {
				(void)close(script->lanes[i]);
				script->lanes[i] = -1;
			}
		}
	}
	free(in);
	return NULL;
}

static inline int setup(void **state)
{
	struct script *script = calloc(1, sizeof(*script));
	struct segment_config config = {.path = script->dir_path, .pool_size = POOL_SIZE};
	_Atomic uint16_t *counts;

	(void)snprintf(script->dir_path, sizeof(script->dir_path),
		"/dev/shm/cenote-client-XXXXXX");
	assert_non_null(mkdtemp(script->dir_path));
	(void)snprintf(script->socket_path, sizeof(script->socket_path), "%s/s",
		script->dir_path);
	assert_int_equal(segment_open(&script->dir, &config, script->detail,
				 sizeof(script->detail)),
		0);
	assert_int_equal(segment_holds_make(&script->dir, 0, 1, 1024, &counts), 0);
	assert_int_equal(socket_listen(script->socket_path, 0600, &script->listener,
				 script->detail, sizeof(script->detail)),
		0);
	script->welcome = (struct msg_welcome){
		.version = WIRE_VERSION,
		.incarnation = 1,
		.small_limit = 100,
		.token = {1},
		.pool_size = POOL_SIZE,
		.index_size = script->dir.index_size,
		.holds_size = share_holds_size(script->dir.slots_limit),
	};
	memcpy(script->welcome.pool_id, script->dir.share.header->pool_id, 16);
	memset(script->lanes, -1, sizeof(script->lanes));
	assert_int_equal(pipe2(script->wake, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&script->thread, NULL, script_run, script), 0);
	*state = script;
	return 0;
}

static inline int teardown(void **state)
{
	struct script *script = *state;

	cenote_close(script->store);
	assert_int_equal(write(script->wake[1], "x", 1), 1);
	assert_int_equal(pthread_join(script->thread, NULL), 0);
	for (int i = 0; i < LANES; i++) {
		if (script->lanes[i] >= 0)
			(void)close(script->lanes[i]);
	}
	(void)close(script->listener);
	(void)close(script->wake[0]);
	(void)close(script->wake[1]);
	(void)unlink(script->socket_path);
	segment_free(&script->dir, false);
	assert_int_equal(rmdir(script->dir_path), 0);
	free(script);
	return 0;
}

static inline int connect_to(struct script *script)
{
	struct cenote_connect_options options = {.socket_path = script->socket_path};

	return cenote_connect(&script->store, &options);
}

/* An object in a slot, not in the index: it is served by message. */
static inline void place(struct script *script, uint32_t at, const char *key,
	uint64_t off, uint64_t size, enum slot_kind kind)
{
	struct slot *slot = &script->dir.share.slots[at];

	slot->off = off;
	slot->size = size;
	slot->klen = (uint16_t)strlen(key);
	memcpy(slot->key, key, slot->klen);
	slot->hash = hash_key(key, slot->klen, script->dir.share.header->hash_seed);
	slot->generation = 77;
	slot->state = SLOT_STATE(kind, 5);
}

static inline uint32_t counts_of(struct script *script)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < 1024; i++)
		total += script->dir.counts[0][i] & HOLD_COUNT;
	return total;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
