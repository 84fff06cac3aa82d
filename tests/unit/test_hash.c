/*
 * Tests of base/hash.h.
 */
#include "base/hash.h"

#include "base/attr.h"
#include "base/hash_stream.h"
#include "base/rng.h"
#include "unit.h"

#include <stdlib.h>

#define BYTES_SIZE (1u << 20)

static unsigned char *bytes_new(void)
{
	unsigned char *bytes = malloc(BYTES_SIZE);
	struct rng rng;

	assert_non_null(bytes);
	rng_init(&rng, 3);
	for (size_t i = 0; i < BYTES_SIZE; i++)
		bytes[i] = (unsigned char)rng_next(&rng);
	return bytes;
}

/* Numbers that lie on disk; those of the empty input and of one zero byte are published
 * with XXH3. */
static void test_known_values(void **state)
{
	(void)state;
	assert_true(hash_bytes("", 0) == 0x2d06800538d394c2ull);
	assert_true(hash_bytes("\0", 1) == 0xc44bdff4074eecdbull);
	assert_true(hash_bytes(NULL, 0) == hash_bytes("", 0));
	assert_true(hash_key(NULL, 0, 5) == hash_key("", 0, 5));
}

/* The name of the empty key is published with XXH3 too; the others are of this tree. */
static void test_key128(void **state)
{
	uint64_t hash[2], other[2];

	(void)state;
	hash_key128("", 0, hash);
	assert_true(hash[0] == 0x6001c324468d497full);
	assert_true(hash[1] == 0x99aa06d3014798d8ull);
	hash_key128("step/7/logits", 13, hash);
	hash_key128("step/7/logitt", 13, other);
	assert_true(hash[0] != other[0] && hash[1] != other[1]);
}

/* The inline hash and the dispatching one are built apart: each size up to well over the
 * longest key, where the algorithm changes its ways, and every alignment. */
static void test_both_agree(void **state)
{
	unsigned char *bytes = bytes_new();

	(void)state;
	for (size_t size = 0; size <= 2048; size++) {
		const unsigned char *at = bytes + size % 64;

		assert_true(hash_bytes(at, size) == hash_key(at, size, 0));
		assert_true(hash_bytes_seed(at, size, 0) == hash_bytes(at, size));
		assert_true(hash_bytes_seed(at, size, size + 7) ==
			    hash_key(at, size, size + 7));
	}
	for (size_t size = 4096; size <= BYTES_SIZE; size *= 2) {
		assert_true(hash_bytes(bytes, size) == hash_key(bytes, size, 0));
		assert_true(hash_bytes_seed(bytes, size, 9) == hash_key(bytes, size, 9));
	}
	free(bytes);
}

static void test_pieces_make_the_same_number(void **state)
{
	static const size_t pieces[] = {1, 7, 64, 255, 256, 257, 4096, 262144};
	unsigned char *bytes = bytes_new();
	struct hash_stream hash;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		size_t limit = MIN(pieces[i] * 300, (size_t)BYTES_SIZE), size = 0;

		hash_stream_init(&hash, i + 5);
		while (size < limit) {
			size_t piece = MIN(pieces[i], limit - size);

			hash_stream_add(&hash, bytes + size, piece);
			size += piece;
			if (size < 5000 || size == limit) /* more may follow each */
				assert_true(hash_stream_sum(&hash) ==
					    hash_bytes_seed(bytes, size, i + 5));
		}
	}
	hash_stream_init(&hash, 9);
	assert_true(hash_stream_sum(&hash) == hash_key(NULL, 0, 9));
	hash_stream_add(&hash, NULL, 0);
	assert_true(hash_stream_sum(&hash) == hash_key(NULL, 0, 9));
	free(bytes);
}

static void test_every_bit_counts(void **state)
{
	static const size_t sizes[] = {1, 3, 8, 16, 32, 128, 240, 241, 1024, 5000};
	unsigned char *bytes = bytes_new();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t before = hash_bytes(bytes, sizes[i]);

		for (size_t bit = 0; bit < sizes[i] * 8; bit++) {
			bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
			assert_true(hash_bytes(bytes, sizes[i]) != before);
			bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		}
		assert_true(hash_bytes(bytes, sizes[i]) == before);
	}
	free(bytes);
}

static void test_seed_counts(void **state)
{
	(void)state;
	assert_true(hash_key("key", 3, 1) != hash_key("key", 3, 2));
	assert_true(hash_key("key", 3, 1) == hash_key("key", 3, 1));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_known_values),
	cmocka_unit_test(test_key128),
	cmocka_unit_test(test_both_agree),
	cmocka_unit_test(test_pieces_make_the_same_number),
	cmocka_unit_test(test_every_bit_counts),
	cmocka_unit_test(test_seed_counts),
};

UNIT_MAIN(tests)
