/*
 * Tests of wire/msg.h: each message there and back, cut at each byte, and random bytes.
 *
 * Every message is made from random numbers by a function that msg.def writes, so that a
 * new line there is tested without a line here.
 */
#include "wire/msg.h"

#include "base/attr.h"
#include "base/err.h"
#include "base/rng.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 2048

static uint8_t text[TEXT_SIZE]; /* without NUL, so that any piece of it is a key */

static void text_init(void)
{
	struct rng rng;

	rng_init(&rng, 1);
	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = (uint8_t)(1 + rng_below(&rng, 255));
}

static struct msg_bytes make_bytes(struct rng *rng, size_t least, size_t most)
{
	size_t size = least + rng_below(rng, most - least + 1);

	return (struct msg_bytes){
		.data = text + rng_below(rng, TEXT_SIZE - size), .size = size};
}

static bool same_bytes(struct msg_bytes a, struct msg_bytes b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* make_NAME(): a message of random fields. */
#define U8(name)    msg->name = (uint8_t)rng_next(rng);
#define U16(name)   msg->name = (uint16_t)rng_next(rng);
#define U32(name)   msg->name = (uint32_t)rng_next(rng);
#define U64(name)   msg->name = rng_next(rng);
#define I32(name)   msg->name = (int32_t)rng_next(rng);
#define I64(name)   msg->name = (int64_t)rng_next(rng);
#define ID(name)    memcpy(msg->name, text + rng_below(rng, TEXT_SIZE - 16), 16);
#define KEY(name)   msg->name = make_bytes(rng, 1, MSG_KEY_MAX);
#define TEXT(name)  msg->name = make_bytes(rng, 0, MSG_TEXT_MAX);
#define BYTES(name) msg->name = make_bytes(rng, 0, 1500);
#define MSG(number, NAME, name, fields)                                  \
	static void make_##name(struct rng *rng, struct msg_##name *msg) \
	{                                                                \
		fields                                                   \
	}
#include "wire/msg.def"
#undef MSG
#undef U8
#undef U16
#undef U32
#undef U64
#undef I32
#undef I64
#undef ID
#undef KEY
#undef TEXT
#undef BYTES

/* same_NAME() */
#define U8(name)    same = same && a->name == b->name;
#define U16(name)   U8(name)
#define U32(name)   U8(name)
#define U64(name)   U8(name)
#define I32(name)   U8(name)
#define I64(name)   U8(name)
#define ID(name)    same = same && memcmp(a->name, b->name, 16) == 0;
#define KEY(name)   same = same && same_bytes(a->name, b->name);
#define TEXT(name)  KEY(name)
#define BYTES(name) KEY(name)
#define MSG(number, NAME, name, fields)                                                 \
	static bool same_##name(const struct msg_##name *a, const struct msg_##name *b) \
	{                                                                               \
		bool same = true;                                                       \
                                                                                        \
		fields return same;                                                     \
	}
#include "wire/msg.def"
#undef MSG
#undef U8
#undef U16
#undef U32
#undef U64
#undef I32
#undef I64
#undef ID
#undef KEY
#undef TEXT
#undef BYTES

/* There and back; every cut, one byte more, and every buffer too small is refused. The
 * message lies at the end of its own allocation, so that a sanitizer sees a step beyond.
 */
#define MSG(number, NAME, name, fields)                                               \
	static void check_##name(struct rng *rng)                                     \
	{                                                                             \
		struct msg_##name msg, back;                                          \
		unsigned char buffer[8192];                                           \
		enum msg_type type;                                                   \
		size_t size;                                                          \
                                                                                      \
		make_##name(rng, &msg);                                               \
		size = msg_##name##_encode(buffer, sizeof(buffer), &msg);             \
		assert_true(size >= MSG_HEADER_SIZE);                                 \
		assert_int_equal(msg_type(buffer, size, &type), 0);                   \
		assert_int_equal(type, MSG_TYPE_##NAME);                              \
		assert_string_equal(msg_name(type), #NAME);                           \
		assert_int_equal(msg_##name##_decode(buffer, size, &back), 0);        \
		assert_true(same_##name(&msg, &back));                                \
		for (size_t cut = 0; cut < size; cut++) {                             \
			unsigned char *copy = malloc(cut + 1);                        \
                                                                                      \
			memcpy(copy, buffer, cut);                                    \
			assert_int_equal(                                             \
				msg_##name##_decode(copy, cut, &back), ERR_PROTOCOL); \
			assert_int_equal(msg_##name##_encode(copy, cut, &msg), 0);    \
			free(copy);                                                   \
		}                                                                     \
		assert_int_equal(                                                     \
			msg_##name##_decode(buffer, size + 1, &back), ERR_PROTOCOL);  \
		assert_true(same_##name(&msg, &back));                                \
	}
#include "wire/msg.def"
#undef MSG

static void test_roundtrip(void **state)
{
	struct rng rng;

	(void)state;
	text_init();
	rng_init(&rng, 2);
	for (int i = 0; i < 20; i++) {
#define MSG(number, NAME, name, fields) check_##name(&rng);
#include "wire/msg.def"
#undef MSG
	}
}

/* Decode by its type, as a server does. Returns the result, and reads what it got. */
static int decode_any(const void *message, size_t size)
{
	enum msg_type type;
	int err = msg_type(message, size, &type);

	if (err != 0)
		return err;
	switch (type) {
#define MSG(number, NAME, name, fields)                         \
	case MSG_TYPE_##NAME: {                                 \
		struct msg_##name msg;                          \
                                                                \
		err = msg_##name##_decode(message, size, &msg); \
		if (err == 0)                                   \
			assert_true(same_##name(&msg, &msg));   \
		return err;                                     \
	}
#include "wire/msg.def"
#undef MSG
	}
	return ERR_INTERNAL;
}

/* One random message in `buffer`. */
static size_t encode_any(struct rng *rng, void *buffer, size_t size)
{
	switch (rng_below(rng, 6)) {
	case 0: {
		struct msg_put put;

		make_put(rng, &put);
		return msg_put_encode(buffer, size, &put);
	}
	case 1: {
		struct msg_welcome welcome;

		make_welcome(rng, &welcome);
		return msg_welcome_encode(buffer, size, &welcome);
	}
	case 2: {
		struct msg_fault fault;

		make_fault(rng, &fault);
		return msg_fault_encode(buffer, size, &fault);
	}
	case 3: {
		struct msg_batch batch;

		make_batch(rng, &batch);
		return msg_batch_encode(buffer, size, &batch);
	}
	case 4: {
		struct msg_error error;

		make_error(rng, &error);
		return msg_error_encode(buffer, size, &error);
	}
	default: {
		struct msg_get get;

		make_get(rng, &get);
		return msg_get_encode(buffer, size, &get);
	}
	}
}

static void test_garbage(void **state)
{
	unsigned counts[3] = {0};
	unsigned char buffer[8192];
	struct rng rng;

	(void)state;
	text_init();
	rng_init(&rng, 3);
	for (int i = 0; i < 100000; i++) {
		size_t size = encode_any(&rng, buffer, sizeof(buffer));
		unsigned char *copy;
		int err;

		assert_true(size > 0);
		for (uint64_t n = rng_below(&rng, 4); n > 0; n--)
			buffer[rng_below(&rng, rng_chance(&rng, 50) ? 24 : size)] =
				rng_chance(&rng, 50) ? 0 : (uint8_t)rng_next(&rng);
		if (rng_chance(&rng, 20))
			size = rng_below(&rng, size + 1);
		copy = malloc(size + 1);
		memcpy(copy, buffer, size);
		err = decode_any(copy, size);
		assert_true(err == 0 || err == ERR_PROTOCOL || err == ERR_BAD_KEY);
		counts[err == 0 ? 0 : err == ERR_PROTOCOL ? 1 : 2]++;
		free(copy);
	}
	/* Each way out was taken, or the inputs are too tame. */
	assert_true(counts[0] > 1000 && counts[1] > 1000 && counts[2] > 100);
}

static void test_keys(void **state)
{
	unsigned char buffer[4096];
	struct msg_remove msg, back = {.key = {.size = 77}};
	size_t size;

	(void)state;
	text_init();
	assert_int_equal(msg_key_check(text, 0), ERR_BAD_KEY);
	assert_int_equal(msg_key_check(text, 1), 0);
	assert_int_equal(msg_key_check(text, MSG_KEY_MAX), 0);
	assert_int_equal(msg_key_check(text, MSG_KEY_MAX + 1), ERR_BAD_KEY);
	assert_int_equal(msg_key_check("a\0b", 3), ERR_BAD_KEY);

	msg.key = (struct msg_bytes){.data = text, .size = MSG_KEY_MAX + 1};
	assert_int_equal(msg_remove_encode(buffer, sizeof(buffer), &msg), 0);
	msg.key = (struct msg_bytes){.data = "a\0b", .size = 3};
	size = msg_remove_encode(buffer, sizeof(buffer), &msg);
	assert_int_equal(msg_remove_decode(buffer, size, &back), ERR_BAD_KEY);
	msg.key.size = 0;
	size = msg_remove_encode(buffer, sizeof(buffer), &msg);
	assert_int_equal(msg_remove_decode(buffer, size, &back), ERR_BAD_KEY);
	assert_int_equal(back.key.size, 77);
	/* A broken frame outweighs a bad key. */
	assert_int_equal(msg_remove_decode(buffer, size + 1, &back), ERR_PROTOCOL);
}

static void test_header(void **state)
{
	unsigned char buffer[64];
	struct msg_bye msg = {.reason = 5};
	size_t size = msg_bye_encode(buffer, sizeof(buffer), &msg);
	static const unsigned char want[] = {62, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0};
	struct msg_tell tell;
	enum msg_type type;

	(void)state;
	assert_int_equal(size, sizeof(want));
	assert_memory_equal(buffer, want, sizeof(want));
	assert_int_equal(msg_tell_decode(buffer, size, &tell), ERR_PROTOCOL);
	buffer[2] = 1;
	assert_int_equal(msg_type(buffer, size, &type), ERR_PROTOCOL);
	buffer[2] = 0;
	buffer[0] = 63;
	assert_int_equal(msg_type(buffer, size, &type), ERR_PROTOCOL);
	assert_string_equal(msg_name((enum msg_type)63), "UNKNOWN");
}

static void test_size_limits(void **state)
{
	unsigned char *buffer = malloc(MSG_SIZE_MAX + 1),
		      *value = calloc(1, MSG_SIZE_MAX);
	struct msg_put put = {
		.key = {.data = text, .size = MSG_KEY_MAX},
		.value = {.data = value, .size = MSG_SMALL_MAX},
	};
	struct msg_info_text info = {.text = {.data = value}};

	(void)state;
	text_init();
	assert_true(msg_put_encode(buffer, MSG_SIZE_MAX, &put) > MSG_SMALL_MAX);
	info.text.size = MSG_SIZE_MAX - MSG_HEADER_SIZE;
	assert_int_equal(
		msg_info_text_encode(buffer, MSG_SIZE_MAX + 1, &info), MSG_SIZE_MAX);
	assert_int_equal(msg_info_text_decode(buffer, MSG_SIZE_MAX, &info), 0);
	info.text.size++;
	assert_int_equal(msg_info_text_encode(buffer, MSG_SIZE_MAX + 1, &info), 0);
	free(buffer);
	free(value);
}

static void test_pack(void **state)
{
	unsigned char buffer[512];
	struct msg_bytes messages, one;
	struct msg_pack pack;
	struct msg_batch batch;
	uint32_t count = 0;

	(void)state;
	msg_pack_init(&pack, buffer, sizeof(buffer));
	for (;; count++) {
		struct msg_unpin unpin = {.slot = count, .life = count * 7ull};
		size_t size = msg_unpin_encode(
			msg_pack_tail(&pack), msg_pack_room(&pack), &unpin);

		if (size == 0)
			break;
		msg_pack_add(&pack, size);
	}
	assert_int_equal(count, (sizeof(buffer) - 12) / 20);
	assert_int_equal(
		msg_batch_decode(buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH), &batch),
		0);
	assert_int_equal(batch.count, count);
	messages = batch.requests;
	for (uint32_t i = 0; i < count; i++) {
		struct msg_unpin unpin;

		assert_int_equal(msg_unpack(&messages, &one), 1);
		assert_int_equal(msg_unpin_decode(one.data, one.size, &unpin), 0);
		assert_int_equal(unpin.slot, i);
		assert_int_equal(unpin.life, i * 7ull);
	}
	assert_int_equal(msg_unpack(&messages, &one), 0);
	messages = batch.requests;
	messages.size = 19;
	assert_int_equal(msg_unpack(&messages, &one), ERR_PROTOCOL);
	messages.size = 3;
	assert_int_equal(msg_unpack(&messages, &one), ERR_PROTOCOL);
}

static void test_entries(void **state)
{
	unsigned char buffer[300];
	struct msg_entry entry = {
		.key = {.data = "k/1", .size = 3}, .size = 9, .flags = 1};
	struct msg_bytes entries = {.data = buffer};
	struct msg_entry back;
	size_t count = 0, size;

	(void)state;
	for (;; entries.size += size, count++) {
		entry.size = count;
		size = msg_entry_encode(
			buffer + entries.size, sizeof(buffer) - entries.size, &entry);
		if (size == 0)
			break;
	}
	assert_int_equal(count, sizeof(buffer) / 17);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(msg_entry_next(&entries, &back), 1);
		assert_int_equal(back.size, i);
		assert_int_equal(back.flags, 1);
		assert_memory_equal(back.key.data, "k/1", 3);
	}
	assert_int_equal(msg_entry_next(&entries, &back), 0);
	entries = (struct msg_bytes){.data = buffer, .size = 16};
	assert_int_equal(msg_entry_next(&entries, &back), ERR_PROTOCOL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_roundtrip),
	cmocka_unit_test(test_garbage),
	cmocka_unit_test(test_keys),
	cmocka_unit_test(test_header),
	cmocka_unit_test(test_size_limits),
	cmocka_unit_test(test_pack),
	cmocka_unit_test(test_entries),
};

UNIT_MAIN(tests)
