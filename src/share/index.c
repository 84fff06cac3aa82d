#include "share/index.h"

static uint32_t log2_now(const struct share *share, memory_order order)
{
	return atomic_load_explicit(&share->header->log2_buckets, order);
}

static uint16_t lane_tag(const struct bucket *bucket, unsigned lane)
{
	uint64_t word = atomic_load_explicit(
		&bucket->tags[lane / 4], memory_order_relaxed);

	return (uint16_t)(word >> lane % 4 * 16);
}

static uint32_t lane_slot(const struct bucket *bucket, unsigned lane)
{
	return atomic_load_explicit(&bucket->slots[lane], memory_order_relaxed);
}

static void lane_set(struct bucket *bucket, unsigned lane, uint16_t tag)
{
	_Atomic uint64_t *at = &bucket->tags[lane / 4];
	uint64_t word = atomic_load_explicit(at, memory_order_relaxed);
	unsigned shift = lane % 4 * 16;

	word = (word & ~(0xffffull << shift)) | (uint64_t)tag << shift;
	atomic_store_explicit(at, word, memory_order_release);
}

static void lane_fill(struct bucket *bucket, unsigned lane, uint64_t hash, uint32_t slot)
{
	atomic_store_explicit(&bucket->slots[lane], slot, memory_order_relaxed);
	lane_set(bucket, lane, index_tag(hash));
}

static bool bucket_put(struct bucket *bucket, uint64_t hash, uint32_t slot)
{
	for (unsigned lane = 0; lane < 8; lane++) {
		if (lane_tag(bucket, lane) != 0)
			continue;
		lane_fill(bucket, lane, hash, slot);
		return true;
	}
	return false;
}

/* Send one entry of a full bucket to its other bucket: the copy first, then overwrite, so
 * that a reader between sees it twice rather than never. */
static bool bucket_kick(struct share *share, uint32_t log2, uint32_t at, uint32_t slot)
{
	struct bucket *buckets = share_buckets(share, log2);
	struct bucket *bucket = &buckets[at];

	for (unsigned lane = 0; lane < 8; lane++) {
		uint32_t moved = lane_slot(bucket, lane);
		uint64_t hash = share->slots[moved].hash;
		uint32_t first = index_first(hash, log2);
		uint32_t other = first == at ? index_second(hash, log2) : first;

		if (!bucket_put(&buckets[other], hash, moved))
			continue;
		/* Empty before the number changes: the old tag never names the new slot.
		 */
		lane_set(bucket, lane, 0);
		lane_fill(bucket, lane, share->slots[slot].hash, slot);
		return true;
	}
	return false;
}

static bool add_to(struct share *share, uint32_t log2, uint32_t slot)
{
	struct bucket *buckets = share_buckets(share, log2);
	uint64_t hash = share->slots[slot].hash;
	uint32_t first = index_first(hash, log2);
	uint32_t second = index_second(hash, log2);

	return bucket_put(&buckets[first], hash, slot) ||
	       bucket_put(&buckets[second], hash, slot) ||
	       bucket_kick(share, log2, first, slot) ||
	       bucket_kick(share, log2, second, slot);
}

bool index_add(struct share *share, uint32_t slot)
{
	return add_to(share, log2_now(share, memory_order_relaxed), slot);
}

/* The entry of `slot` in one of its two buckets, of which `which` says the first. */
static struct bucket *bucket_of(const struct share *share, uint32_t slot, unsigned which)
{
	uint32_t log2 = log2_now(share, memory_order_relaxed);
	uint64_t hash = share->slots[slot].hash;

	return &share_buckets(share,
		log2)[which == 0 ? index_first(hash, log2) : index_second(hash, log2)];
}

/* Whoever has another tag need not be looked at. */
static void bucket_drop(struct bucket *bucket, uint16_t tag, uint32_t slot)
{
	for (unsigned word = 0; word < 2; word++) {
		uint64_t matches = index_matches(bucket, word, tag);

		for (; matches != 0; matches &= matches - 1) {
			unsigned lane = word * 4 +
					(unsigned)__builtin_ctzll(matches) / 16;

			if (lane_tag(bucket, lane) == tag &&
				lane_slot(bucket, lane) == slot)
				lane_set(bucket, lane, 0);
		}
	}
}

void index_del(struct share *share, uint32_t slot)
{
	uint32_t log2 = log2_now(share, memory_order_relaxed);
	struct bucket *buckets = share_buckets(share, log2);
	uint64_t hash = share->slots[slot].hash;

	bucket_drop(&buckets[index_first(hash, log2)], index_tag(hash), slot);
	bucket_drop(&buckets[index_second(hash, log2)], index_tag(hash), slot);
}

bool index_has(const struct share *share, uint32_t slot)
{
	for (unsigned which = 0; which < 2; which++) {
		const struct bucket *bucket = bucket_of(share, slot, which);

		for (unsigned lane = 0; lane < 8; lane++)
			if (lane_tag(bucket, lane) != 0 &&
				lane_slot(bucket, lane) == slot)
				return true;
	}
	return false;
}

static bool slot_is_ready(const struct share *share, uint32_t slot)
{
	return slot_kind_of(atomic_load_explicit(
		       &share->slots[slot].state, memory_order_relaxed)) == SLOT_READY;
}

void index_grow(struct share *share, uint32_t log2)
{
	uint32_t nslots = atomic_load_explicit(
		&share->header->nslots, memory_order_relaxed);
	struct bucket *buckets = share_buckets(share, log2);

	for (uint64_t at = 0; at < 1ull << log2; at++)
		for (unsigned word = 0; word < 2; word++)
			atomic_store_explicit(
				&buckets[at].tags[word], 0, memory_order_relaxed);
	for (uint32_t slot = 0; slot < nslots; slot++)
		if (slot_is_ready(share, slot))
			(void)add_to(share, log2, slot);
	atomic_store_explicit(&share->header->log2_buckets, log2, memory_order_release);
}

static bool entry_is_good(const struct share *share, uint32_t log2, uint32_t at,
	uint32_t slot, uint16_t tag)
{
	uint64_t hash;

	if (slot >= atomic_load_explicit(&share->header->nslots, memory_order_relaxed) ||
		!slot_is_ready(share, slot))
		return false;
	hash = share->slots[slot].hash;
	return tag == index_tag(hash) &&
	       (at == index_first(hash, log2) || at == index_second(hash, log2));
}

void index_repair(struct share *share)
{
	uint32_t log2 = log2_now(share, memory_order_relaxed);
	struct bucket *buckets = share_buckets(share, log2);

	for (uint32_t at = 0; at < 1u << log2; at++)
		for (unsigned lane = 0; lane < 8; lane++) {
			uint16_t tag = lane_tag(&buckets[at], lane);

			if (tag != 0 && !entry_is_good(share, log2, at,
						lane_slot(&buckets[at], lane), tag))
				lane_set(&buckets[at], lane, 0);
		}
}
