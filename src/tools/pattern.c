/*
 * pattern.c - write and check patterns at the speed of memory.
 */
#include "tools/pattern.h"

#include "base/attr.h"
#include "base/hash.h"

#include <string.h>

#define PATTERN_STEP 0x9e3779b97f4a7c15ull /* odd, so words repeat after 2^64 only */
#define BLOCK_WORDS  512                   /* checked at once; 4 KiB */

static inline uint64_t pattern_word(uint64_t counter)
{
	counter ^= counter >> 29;
	return counter + (counter << 13);
}

uint64_t pattern_seed(const char *key, size_t key_size, uint64_t generation)
{
	return hash_key(key, key_size, generation);
}

void pattern_write(void *to, uint64_t size, uint64_t seed)
{
	char *at = to;
	uint64_t words = size / 8, last;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t word = pattern_word(seed + i * PATTERN_STEP);

		memcpy(at + i * 8, &word, 8);
	}
	last = pattern_word(seed + words * PATTERN_STEP);
	if (size % 8 != 0)
		memcpy(at + words * 8, &last, size % 8);
}

/* Zero if all words are right. */
static uint64_t pattern_block_differs(const char *at, uint64_t words, uint64_t counter)
{
	uint64_t differs = 0;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, at + i * 8, 8);
		differs |= word ^ pattern_word(counter + i * PATTERN_STEP);
	}
	return differs;
}

static uint64_t pattern_bytes_wrong(const char *at, uint64_t size, uint64_t counter)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < size; i++) {
		uint64_t word = pattern_word(counter + i / 8 * PATTERN_STEP);
		char bytes[8];

		memcpy(bytes, &word, 8);
		wrong += at[i] != bytes[i % 8];
	}
	return wrong;
}

uint64_t pattern_wrong(const void *bytes, uint64_t size, uint64_t seed)
{
	const char *at = bytes;
	uint64_t words = size / 8, wrong = 0;

	for (uint64_t i = 0; i < words; i += BLOCK_WORDS) {
		uint64_t count = MIN(words - i, (uint64_t)BLOCK_WORDS);
		uint64_t counter = seed + i * PATTERN_STEP;

		if (pattern_block_differs(at + i * 8, count, counter) != 0)
			wrong += pattern_bytes_wrong(at + i * 8, count * 8, counter);
	}
	return wrong +
	       pattern_bytes_wrong(at + words * 8, size % 8, seed + words * PATTERN_STEP);
}
