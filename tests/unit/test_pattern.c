/*
 * Tests of tools/pattern.h.
 */
#include "tools/pattern.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define SIZE 20011u

static void test_round_trip(void **state)
{
	unsigned char *bytes = malloc(SIZE + 8);

	(void)state;
	assert_non_null(bytes);
	for (uint64_t size = 0; size <= SIZE;
		size = size < 64 ? size + 1 : size * 3 / 2 + 1) {
		for (unsigned shift = 0; shift < 8; shift += 3) {
			pattern_write(bytes + shift, size, size + 7);
			assert_true(pattern_wrong(bytes + shift, size, size + 7) == 0);
		}
	}
	free(bytes);
}

static void test_writes_no_further(void **state)
{
	unsigned char bytes[64];

	(void)state;
	for (size_t size = 0; size < sizeof(bytes); size++) {
		memset(bytes, 0xa5, sizeof(bytes));
		pattern_write(bytes, size, 3);
		for (size_t i = size; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0xa5);
	}
}

/* Each bit of each byte, wherever it lies in a word or a block. */
static void test_finds_one_flipped_bit(void **state)
{
	unsigned char *bytes = malloc(SIZE);

	(void)state;
	assert_non_null(bytes);
	pattern_write(bytes, SIZE, 42);
	for (size_t at = 0; at < SIZE; at += at < 100 || at > SIZE - 100 ? 1 : 97) {
		unsigned char bit = (unsigned char)(1u << (at % 8));

		bytes[at] ^= bit;
		assert_true(pattern_wrong(bytes, SIZE, 42) == 1);
		bytes[at] ^= bit;
	}
	assert_true(pattern_wrong(bytes, SIZE, 42) == 0);
	free(bytes);
}

static void test_counts_every_wrong_byte(void **state)
{
	unsigned char *bytes = malloc(SIZE);

	(void)state;
	assert_non_null(bytes);
	pattern_write(bytes, SIZE, 42);
	for (size_t at = 0; at < SIZE; at++)
		bytes[at] = (unsigned char)~bytes[at];
	assert_true(pattern_wrong(bytes, SIZE, 42) == SIZE);
	free(bytes);
}

/* Bytes of another object, of another generation, or of another place. */
static void test_finds_strange_bytes(void **state)
{
	uint64_t one = pattern_seed("a/1", 3, 7), other = pattern_seed("a/2", 3, 7);
	uint64_t later = pattern_seed("a/1", 3, 8);
	unsigned char *bytes = malloc(SIZE);

	(void)state;
	assert_non_null(bytes);
	pattern_write(bytes, SIZE, one);
	assert_true(pattern_wrong(bytes, SIZE, other) > SIZE / 2);
	assert_true(pattern_wrong(bytes, SIZE, later) > SIZE / 2);
	for (size_t shift = 1; shift < 4200; shift = shift * 2 + 1)
		assert_true(pattern_wrong(bytes + shift, SIZE - shift, one) >
			    (SIZE - shift) / 2);
	memset(bytes, 0, SIZE);
	assert_true(pattern_wrong(bytes, SIZE, one) > SIZE / 2);
	free(bytes);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_round_trip),
	cmocka_unit_test(test_writes_no_further),
	cmocka_unit_test(test_finds_one_flipped_bit),
	cmocka_unit_test(test_counts_every_wrong_byte),
	cmocka_unit_test(test_finds_strange_bytes),
};

UNIT_MAIN(tests)
