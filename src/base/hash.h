/*
 * hash.h - hashes of keys and checksums of bytes, both XXH3-64.
 *
 * hash_key() is inline, for the short keys of the hit path; hash_bytes() picks the widest
 * vectors of the machine, for whole objects. hash_key(.., 0) and hash_bytes() give equal
 * numbers, and these never change: checksums lie on disk and travel between nodes.
 *
 * Errors    none; a size of 0 is fine, with any pointer.
 * Thread    any.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

/* What the library does in a loop of its own is not worth inlining. */
#define HASH_SHORT 240u

uint64_t hash_key_long(const void *key, size_t size, uint64_t seed);

static inline uint64_t hash_key(const void *key, size_t size, uint64_t seed)
{
	return size <= HASH_SHORT ? XXH3_64bits_withSeed(key, size, seed)
				  : hash_key_long(key, size, seed);
}

uint64_t hash_bytes(const void *bytes, size_t size);
/* The same numbers as hash_key() gives with this seed. */
uint64_t hash_bytes_seed(const void *bytes, size_t size, uint64_t seed);

/* XXH3-128, low word first: so many bits that two keys never have the same. */
void hash_key128(const void *key, size_t size, uint64_t ret[2]);

#endif
