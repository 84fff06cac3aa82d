/*
 * hash.c - the checksum of large buffers, with vectors picked at run time.
 *
 * The plain XXH3_64bits() of a distribution's library is built for the oldest machine and
 * is 8 times slower on whole objects than the dispatching one, which x86 alone has.
 */
/* Before our own header: it asks for the library's functions by their own names, which
 * base/hash.h then takes away from whoever includes it. */
#if defined(__x86_64__)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#endif

#include "base/hash.h"

uint64_t hash_key_long(const void *key, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, size, seed);
}

uint64_t hash_bytes(const void *bytes, size_t size)
{
#if defined(__x86_64__)
	return XXH3_64bits_dispatch(bytes, size);
#else
	return XXH3_64bits(bytes, size);
#endif
}

uint64_t hash_bytes_seed(const void *bytes, size_t size, uint64_t seed)
{
#if defined(__x86_64__)
	return XXH3_64bits_withSeed_dispatch(bytes, size, seed);
#else
	return XXH3_64bits_withSeed(bytes, size, seed);
#endif
}

void hash_key128(const void *key, size_t size, uint64_t ret[2])
{
	XXH128_hash_t hash = XXH3_128bits(key, size);

	ret[0] = hash.low64;
	ret[1] = hash.high64;
}
