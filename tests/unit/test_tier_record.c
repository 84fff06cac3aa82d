/*
 * Tests of the record in the index, which is input when it is read back.
 */
#include "base/rng.h"
#include "tier/store_priv.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_NS 3600000000000ull

static const struct tier_id id = {{0x1122334455667788ull, 0x99aabbccddeeff00ull}};

static struct tier_record sample(uint64_t off, uint64_t size)
{
	return (struct tier_record){.id = id,
		.off = off,
		.size = size,
		.generation = 7,
		.checksum = 8,
		.ttl_ns = HOUR_NS,
		.readers_left = 3,
		.klen = 5,
		.flags = TIER_COUNTED | 4,
		.key = "a/key"};
}

static struct record_clock clock_at(uint64_t ns, uint8_t boot)
{
	struct record_clock clock = {.boot_ns = ns};

	memset(clock.boot_id, boot, sizeof(clock.boot_id));
	return clock;
}

static bool decode(const unsigned char *bytes, size_t size, struct record_clock clock,
	struct tier_record *ret)
{
	const unsigned char *value;

	return record_decode(bytes, size, id, &clock, ret, &value);
}

static void test_there_and_back(void **state)
{
	struct record_clock clock = clock_at(1000, 1);
	struct tier_record record = sample(TIER_ON_INDEX, 300), back;
	unsigned char bytes[RECORD_MAX], value[300];
	const unsigned char *found;
	size_t size;

	(void)state;
	memset(value, 9, sizeof(value));
	size = record_encode(bytes, &record, value, &clock);
	assert_int_equal(size, 56 + 32 + 5 + 300);
	assert_true(record_decode(bytes, size, id, &clock, &back, &found));
	assert_memory_equal(found, value, sizeof(value));
	assert_memory_equal(back.key, "a/key", 5);
	back.key = record.key;
	assert_memory_equal(&back, &record, sizeof(back));
}

/* The layout is little-endian, whatever the machine. */
static void test_bytes(void **state)
{
	struct record_clock clock = clock_at(1000, 1);
	struct tier_record record = sample(0x123000, 5000);
	unsigned char bytes[RECORD_MAX];
	static const unsigned char want[] = {1, 0, 5, 0, 4, 0, 0, 0x80, 0, 0x30, 0x12, 0,
		0, 0, 0, 0, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0,
		0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 'a', '/', 'k', 'e', 'y'};

	(void)state;
	record.ttl_ns = 0;
	assert_int_equal(record_encode(bytes, &record, NULL, &clock), 8 + sizeof(want));
	assert_memory_equal(bytes + 8, want, sizeof(want));
}

static void test_damage(void **state)
{
	struct record_clock clock = clock_at(1000, 1);
	struct tier_record record = sample(TIER_ON_INDEX, 100), back;
	unsigned char bytes[RECORD_MAX] = {0}, value[100] = {1};
	size_t size = record_encode(bytes, &record, value, &clock);
	const unsigned char *found;
	struct tier_id other = {{id.word[0], id.word[1] + 1}};

	(void)state;
	for (size_t bit = 0; bit < size * 8; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_false(decode(bytes, size, clock, &back));
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t less = 1; less <= size; less++)
		assert_false(decode(bytes, size - less, clock, &back));
	assert_false(decode(bytes, size + 1, clock, &back));
	assert_false(record_decode(bytes, size, other, &clock, &back, &found));
	assert_true(decode(bytes, size, clock, &back));
}

/* Bytes of chance, of every size, are never a record and never read past their end. */
static void test_chance(void **state)
{
	struct record_clock clock = clock_at(1, 1);
	struct tier_record back;
	struct rng rng;

	(void)state;
	rng_init(&rng, 5);
	for (size_t size = 0; size < 400; size++) {
		unsigned char *bytes = malloc(size + 1);

		for (size_t i = 0; i < size; i++)
			bytes[i] = (unsigned char)rng_next(&rng);
		if (size > 10) {
			bytes[8] = 1; /* the version, so that more is looked at */
			bytes[9] = 0;
		}
		assert_false(decode(bytes, size, clock, &back));
		free(bytes);
	}
}

/* On the same boot the time goes on; after another one all of it starts again. */
static void test_ttl(void **state)
{
	struct record_clock clock = clock_at(HOUR_NS, 1);
	struct tier_record record = sample(0, 4096), back;
	unsigned char bytes[RECORD_MAX];
	size_t size = record_encode(bytes, &record, NULL, &clock);

	(void)state;
	assert_true(decode(bytes, size, clock_at(HOUR_NS + 400, 1), &back));
	assert_int_equal(back.ttl_ns, HOUR_NS - 400);
	assert_true(decode(bytes, size, clock_at(2 * HOUR_NS, 1), &back));
	assert_int_equal(back.ttl_ns, 1);
	assert_true(decode(bytes, size, clock_at(5 * HOUR_NS, 2), &back));
	assert_int_equal(back.ttl_ns, HOUR_NS);
	assert_true(decode(bytes, size, clock_at(7, 1), &back)); /* cannot be that boot */
	assert_int_equal(back.ttl_ns, HOUR_NS);
	clock = clock_at(HOUR_NS, 0); /* the kernel tells no boot id */
	size = record_encode(bytes, &record, NULL, &clock);
	assert_true(decode(bytes, size, clock_at(2 * HOUR_NS, 0), &back));
	assert_int_equal(back.ttl_ns, HOUR_NS);
}

static void test_clock(void **state)
{
	static const uint8_t none[16];
	struct record_clock a, b;

	(void)state;
	record_clock_read(&a);
	record_clock_read(&b);
	assert_memory_equal(a.boot_id, b.boot_id, 16);
	assert_memory_not_equal(a.boot_id, none, 16);
	assert_true(a.boot_ns <= b.boot_ns);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_there_and_back),
	cmocka_unit_test(test_bytes),
	cmocka_unit_test(test_damage),
	cmocka_unit_test(test_chance),
	cmocka_unit_test(test_ttl),
	cmocka_unit_test(test_clock),
};

UNIT_MAIN(tests)
