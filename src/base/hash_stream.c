/*
 * hash_stream.c - the library's own state in our memory, with vectors picked at run time
 * where that is to be had (see hash.c).
 */
#include "base/hash_stream.h"

#define XXH_STATIC_LINKING_ONLY /* what a state is made of */
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct hash_stream), "state");

static XXH3_state_t *state_of(struct hash_stream *hash)
{
	return (XXH3_state_t *)(void *)hash->state;
}

void hash_stream_init(struct hash_stream *hash, uint64_t seed)
{
	(void)XXH3_64bits_reset_withSeed(state_of(hash), seed);
}

void hash_stream_add(struct hash_stream *hash, const void *bytes, size_t size)
{
	if (size > 0)
		(void)XXH3_64bits_update(state_of(hash), bytes, size);
}

uint64_t hash_stream_sum(const struct hash_stream *hash)
{
	return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash->state);
}
