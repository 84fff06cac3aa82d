/*
 * node_guest.h - for the tests of node/: a world in memory, and a client that speaks the
 * protocol message by message.
 *
 * The clock turns only when a test turns it. Each case begins with a started daemon and
 * ends with a check of node and core.
 */
#ifndef UNIT_NODE_GUEST_H
#define UNIT_NODE_GUEST_H

#include "../sim/world.h"

#include "base/err.h"
#include "unit.h"
#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull
#define POOL   (4u << 20)

static struct sim_world world;

/* ---- a client of the test ------------------------------------------------ */

struct guest {
	uint32_t pid;
	struct lane_id lane;
	struct msg_welcome welcome;
	uint64_t ops;
};

static const char *const no_tokens = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

static inline struct msg_bytes text(const char *chars)
{
	return (struct msg_bytes){chars, strlen(chars)};
}

/* Encode a message of a kind and send it. */
#define SEND(at, name, ...)                                                          \
	do {                                                                         \
		static unsigned char buffer_[MSG_SIZE_MAX];                          \
		struct msg_##name msg_ = {__VA_ARGS__};                              \
		size_t size_ = msg_##name##_encode(buffer_, sizeof(buffer_), &msg_); \
                                                                                     \
		assert_true(size_ > 0);                                              \
		assert_true(sim_send(&world, (at), buffer_, size_));                 \
	} while (0)

/* Settle, and decode the answer, which must be of a kind; its bytes stay for a while. */
static struct sim_message *kept[64];
static unsigned kept_next;

static inline struct sim_message *answer(struct lane_id lane)
{
	struct sim_message *message;

	assert_true(sim_settle(&world));
	message = sim_receive(&world, lane);
	free(kept[kept_next % 64]);
	kept[kept_next++ % 64] = message;
	return message;
}

#define WANT(at, name, ret)                                                              \
	do {                                                                             \
		struct sim_message *message_ = answer(at);                               \
                                                                                         \
		assert_non_null(message_);                                               \
		assert_int_equal(                                                        \
			msg_##name##_decode(message_->bytes, message_->size, (ret)), 0); \
	} while (0)

static inline void want_nothing(struct lane_id lane)
{
	assert_null(answer(lane));
}

/* An ERROR of this number whose text has `part` in it. */
static inline void want_error(struct lane_id lane, int code, const char *part)
{
	struct msg_error msg;
	char copy[MSG_TEXT_MAX + 1];

	WANT(lane, error, &msg);
	memcpy(copy, msg.text.data, msg.text.size);
	copy[msg.text.size] = '\0';
	if (msg.code != code || strstr(copy, part) == NULL)
		fail_msg("error %d \"%s\"; wanted %d with \"%s\"", msg.code, copy, code,
			part);
}

static inline uint64_t want_done(struct lane_id lane)
{
	struct msg_done msg;

	WANT(lane, done, &msg);
	return msg.generation;
}

static inline void hello(struct guest *guest, const void *token, uint32_t flags)
{
	struct msg_hello msg = {.version = WIRE_VERSION, .flags = flags};
	unsigned char buffer[64];

	memcpy(msg.token, token, 16);
	guest->lane = sim_connect(&world, guest->pid);
	assert_true(sim_send(&world, guest->lane, buffer,
		msg_hello_encode(buffer, sizeof(buffer), &msg)));
}

static inline struct guest attach_as(uint32_t uid, uint32_t flags)
{
	struct guest guest = {.pid = sim_process(&world, uid)};

	hello(&guest, no_tokens, flags);
	WANT(guest.lane, welcome, &guest.welcome);
	return guest;
}

static inline struct guest attach(void)
{
	return attach_as(0, 0);
}

/* ---- set up -------------------------------------------------------------- */

static inline int open_world(uint32_t nslots, void (*tweak)(struct node_config *config))
{
	struct sim_setup setup = {
		.pool_size = POOL, .nslots = nslots, .seed = 1, .tweak = tweak};

	sim_world_open(&world, &setup);
	return sim_start_daemon(&world);
}

static inline int setup(void **state)
{
	(void)state;
	return open_world(4096, NULL);
}

static inline void few_ops(struct node_config *config)
{
	config->max_ops = 16;
}

static inline int setup_few_ops(void **state)
{
	(void)state;
	return open_world(4096, few_ops);
}

static inline int setup_few_slots(void **state)
{
	(void)state;
	return open_world(64, NULL);
}

static inline int setup_full_disk(void **state)
{
	int err = setup_few_slots(state);

	world.disk_is_full = true;
	return err;
}

static inline void assert_sound(void)
{
	const char *broken;

	assert_true(sim_settle(&world));
	broken = node_check(world.node);
	if (broken != NULL)
		fail_msg("%s", broken);
}

static inline int teardown(void **state)
{
	(void)state;
	if (world.node != NULL)
		assert_sound();
	sim_world_close(&world);
	for (unsigned i = 0; i < 64; i++) {
		free(kept[i]);
		kept[i] = NULL;
	}
	return 0;
}

static inline uint64_t used_bytes(void)
{
	struct pool_use use;

	master_use(node_master(world.node), &use);
	return use.size - use.free;
}

/* ---- puts of the test ---------------------------------------------------- */

static inline void send_put(
	struct guest *guest, const char *key, const char *value, uint64_t timeout)
{
	SEND(guest->lane, put, .key = text(key), .op = ++guest->ops,
		.timeout_ns = timeout, .value = text(value));
}

static inline void put(struct guest *guest, const char *key, const char *value)
{
	send_put(guest, key, value, SECOND);
	(void)want_done(guest->lane);
}

static inline void send_start(struct guest *guest, const char *key, uint64_t size,
	uint32_t flags, uint64_t timeout)
{
	SEND(guest->lane, put_start, .key = text(key), .size = size, .flags = flags,
		.op = ++guest->ops, .timeout_ns = timeout);
}

static inline struct msg_put_started start(
	struct guest *guest, const char *key, uint64_t size, uint32_t flags)
{
	struct msg_put_started started;

	send_start(guest, key, size, flags, SECOND);
	WANT(guest->lane, put_started, &started);
	return started;
}

static inline void end(struct guest *guest, struct msg_put_started started)
{
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life);
	(void)want_done(guest->lane);
}

static inline void send_get(
	struct lane_id lane, const char *key, uint32_t flags, uint64_t timeout)
{
	SEND(lane, get, .key = text(key), .flags = flags, .timeout_ns = timeout);
}

static inline void assert_value(uint32_t slot, const char *value)
{
	const struct slot *there = &world.share.slots[slot];

	assert_int_equal(there->size, strlen(value));
	assert_memory_equal(world.share.pool + there->off, value, strlen(value));
}

/* The key has this value, by message; the pin is given back. */
static inline void assert_get(struct guest *guest, const char *key, const char *value)
{
	struct msg_found found;

	send_get(guest->lane, key, 0, SECOND);
	WANT(guest->lane, found, &found);
	assert_value(found.slot, value);
	SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
}

#define TEST(name)           cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_IN(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
