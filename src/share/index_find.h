/*
 * index_find.h - the reader's half of the index, inline as that of hold.h is: a hit is
 * mostly these few instructions. Included by index.h, which tells what they do.
 */
#ifndef SHARE_INDEX_FIND_H
#define SHARE_INDEX_FIND_H

#include "share/hold.h"

/* A key with its hash (hash_key() with the pool's seed). */
struct index_key {
	const void *data;
	uint32_t size;
	uint64_t hash;
};

/* ---- where a key is ------------------------------------------------------ */

#define INDEX_LANES 0x0001000100010001ull

static inline uint16_t index_tag(uint64_t hash)
{
	return (uint16_t)(hash >> 48 | 1);
}

static inline uint32_t index_first(uint64_t hash, uint32_t log2)
{
	return (uint32_t)hash & ((1u << log2) - 1);
}

/* The other bucket of the same key: an odd step away, so never the first again. */
static inline uint32_t index_second(uint64_t hash, uint32_t log2)
{
	uint32_t mixed = (uint32_t)(hash >> 32) * 0x9E3779B1u;

	return ((uint32_t)hash ^ (mixed | 1)) & ((1u << log2) - 1);
}

/* ---- find ---------------------------------------------------------------- */

/* memcmp() == 0 without its call: most keys are a few words. */
static inline bool index_bytes_are(const uint8_t *a, const uint8_t *b, size_t size)
{
	uint64_t left, right;

	if (size < 8)
		return memcmp(a, b, size) == 0;
	for (size_t at = 0; at < size - 8; at += 8) {
		memcpy(&left, a + at, 8);
		memcpy(&right, b + at, 8);
		if (left != right)
			return false;
	}
	memcpy(&left, a + size - 8, 8);
	memcpy(&right, b + size - 8, 8);
	return left == right;
}

/* Like hold_try(), and the slot's key must be `key`. */
static inline enum hold_result index_try(const struct share *share, struct holder *holder,
	const struct index_key *key, uint32_t number, enum hold_heat heat)
{
	const struct slot *slot = &share->slots[number];
	enum hold_result result = hold_try(holder, share->slots, number, heat);

	if (result != HOLD_OK)
		return result;
	if (slot->klen == key->size &&
		index_bytes_are(slot_key(share, slot), key->data, key->size))
		return HOLD_OK;
	hold_give(holder, share->slots, number);
	return HOLD_NO;
}

/* Entries of four that have the tag, as set top bits of their lanes; seldom one more. */
static inline uint64_t index_matches(
	const struct bucket *bucket, unsigned word, uint16_t tag)
{
	uint64_t tags = atomic_load_explicit(&bucket->tags[word], memory_order_acquire);
	uint64_t differ = tags ^ INDEX_LANES * tag;

	return (differ - INDEX_LANES) & ~differ & INDEX_LANES << 15;
}

/* Hold the READY object under `key`. HOLD_OK: *ret_slot is held, to be ended by
 * hold_give(). HOLD_NO: not in the index; ask the daemon. */
static inline enum hold_result index_find(const struct share *share,
	struct holder *holder, const struct index_key *key, enum hold_heat heat,
	uint32_t *ret_slot)
{
	uint32_t nslots = atomic_load_explicit(
		&share->header->nslots, memory_order_acquire);
	uint32_t log2 = atomic_load_explicit(
		&share->header->log2_buckets, memory_order_acquire);
	const struct bucket *buckets = share_buckets(share, log2);
	const struct bucket *bucket = &buckets[index_first(key->hash, log2)];
	uint16_t tag = index_tag(key->hash);

	for (int which = 0; which < 2; which++) {
		/* Both words in one mask: which of them has the key is chance, and a
		 * branch on it would be mispredicted half the time. */
		uint64_t matches = index_matches(bucket, 0, tag) >> 1 |
				   index_matches(bucket, 1, tag);

		for (; matches != 0; matches &= matches - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(matches);
			uint32_t slot = atomic_load_explicit(
				&bucket->slots[bit / 16 + bit % 2 * 4],
				memory_order_relaxed);
			enum hold_result result;

			if (slot >= nslots)
				continue;
			hold_prefetch(holder, slot);
			/* The slot's second line. */
			__builtin_prefetch(&share->slots[slot].hash);
			result = index_try(share, holder, key, slot, heat);
			if (result == HOLD_NO)
				continue;
			*ret_slot = slot;
			return result;
		}
		bucket = &buckets[index_second(key->hash, log2)];
	}
	return HOLD_NO;
}

#endif
