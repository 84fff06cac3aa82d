/*
 * hash_stream.h - the checksum of bytes that come piece by piece: the same numbers as
 * hash_bytes_seed() gives for all of them at once.
 *
 * Memory    the caller embeds it; nothing is allocated.
 * Errors    none.
 * Thread    its owner's.
 */
#ifndef BASE_HASH_STREAM_H
#define BASE_HASH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define HASH_STREAM_SIZE 576u

struct hash_stream {
	_Alignas(64) unsigned char state[HASH_STREAM_SIZE];
};

void hash_stream_init(struct hash_stream *hash, uint64_t seed);
void hash_stream_add(struct hash_stream *hash, const void *bytes, size_t size);
/* Of what was added until now; more may follow. */
uint64_t hash_stream_sum(const struct hash_stream *hash);

#endif
