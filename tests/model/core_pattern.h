/*
 * core_pattern.h - bytes that say which put wrote them, and where in it they stand.
 *
 * Thread    any; inline, nothing is kept.
 */
#ifndef MODEL_CORE_PATTERN_H
#define MODEL_CORE_PATTERN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_word(uint64_t number, uint64_t at)
{
	return (number * 0x9e3779b97f4a7c15ull) ^ (at * 0xd1342543de82ef95ull);
}

static inline void pattern_fill(uint8_t *bytes, uint64_t size, uint64_t number)
{
	uint64_t at = 0, word;

	for (; size - at >= sizeof(word); at += sizeof(word)) {
		word = pattern_word(number, at);
		memcpy(bytes + at, &word, sizeof(word));
	}
	word = pattern_word(number, at);
	memcpy(bytes + at, &word, size - at);
}

static inline bool pattern_is(const uint8_t *bytes, uint64_t size, uint64_t number)
{
	uint64_t at = 0, word;

	for (; size - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		if (word != pattern_word(number, at))
			return false;
	}
	word = pattern_word(number, at);
	return memcmp(bytes + at, &word, size - at) == 0;
}

#endif
