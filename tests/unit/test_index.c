/*
 * The shared bucket arrays: what is found, what a damaged or a full array leads to, and
 * that old arrays serve readers on.
 */
#include "core_fixture.h"

/* A share of READY slots without a master: keys "k0", "k1", ... with hashes of ours. */
struct shelf {
	struct share share;
	struct holder holder;
	char keys[256][8];
};

static void no_tell(struct holder *holder, uint32_t slot)
{
	(void)holder;
	(void)slot;
}

static void shelf_open(struct shelf *shelf)
{
	memset(shelf, 0, sizeof(*shelf));
	share_init(&shelf->share, core_memory(share_index_size(256)), core_memory(4096));
	shelf->share.header->slots_limit = 256;
	shelf->share.header->nslots = 256;
	shelf->share.header->pool_size = 4096;
	shelf->share.header->log2_buckets = SHARE_LOG2_BUCKETS_MIN;
	shelf->holder.counts = calloc(256, sizeof(shelf->holder.counts[0]));
	shelf->holder.tell = no_tell;
	assert_non_null(shelf->holder.counts);
}

static void shelf_close(struct shelf *shelf)
{
	for (uint32_t slot = 0; slot < 256; slot++)
		assert_int_equal(shelf->holder.counts[slot] & HOLD_COUNT, 0);
	free(shelf->share.index);
	free(shelf->share.pool);
	free(shelf->holder.counts);
}

static void shelf_fill(struct shelf *shelf, uint32_t slot, uint64_t hash)
{
	struct slot *there = &shelf->share.slots[slot];

	(void)snprintf(shelf->keys[slot], sizeof(shelf->keys[slot]), "k%u", slot);
	there->klen = (uint16_t)strlen(shelf->keys[slot]);
	memcpy(there->key, shelf->keys[slot], there->klen);
	there->hash = hash;
	slot_publish(there);
	slot_ready(there);
}

static bool shelf_finds(struct shelf *shelf, uint32_t slot)
{
	const struct slot *there = &shelf->share.slots[slot];
	struct index_key key = {shelf->keys[slot], there->klen, there->hash};
	uint32_t found = SLOT_NONE;

	if (index_find(&shelf->share, &shelf->holder, &key, HOLD_COLD, &found) != HOLD_OK)
		return false;
	assert_int_equal(found, slot);
	assert_true(hold_give(&shelf->holder, shelf->share.slots, found));
	return true;
}

static void test_add_find_del(void **state)
{
	struct shelf shelf;

	(void)state;
	shelf_open(&shelf);
	for (uint32_t slot = 0; slot < 90; slot++) {
		shelf_fill(&shelf, slot, hash_key(&slot, sizeof(slot), 1));
		assert_false(shelf_finds(&shelf, slot));
		assert_true(index_add(&shelf.share, slot));
		assert_true(index_has(&shelf.share, slot));
	}
	for (uint32_t slot = 0; slot < 90; slot++)
		assert_true(shelf_finds(&shelf, slot));
	for (uint32_t slot = 0; slot < 90; slot += 2)
		index_del(&shelf.share, slot);
	for (uint32_t slot = 0; slot < 90; slot++) {
		assert_int_equal(shelf_finds(&shelf, slot), slot % 2);
		assert_int_equal(index_has(&shelf.share, slot), slot % 2);
	}
	index_del(&shelf.share, 0); /* harmless */
	shelf_close(&shelf);
}

/* Equal hashes, so equal tags and buckets: the keys tell them apart. */
static void test_equal_hashes(void **state)
{
	struct shelf shelf;

	(void)state;
	shelf_open(&shelf);
	for (uint32_t slot = 0; slot < 16; slot++) {
		shelf_fill(&shelf, slot, 0x1234567812345678ull);
		assert_true(index_add(&shelf.share, slot));
	}
	for (uint32_t slot = 0; slot < 16; slot++)
		assert_true(shelf_finds(&shelf, slot));
	shelf_close(&shelf);
}

/* Sixteen entries fill a pair of buckets for good: none of them has another place. */
static void test_full_pair_refuses(void **state)
{
	struct shelf shelf;

	(void)state;
	shelf_open(&shelf);
	for (uint32_t slot = 0; slot < 17; slot++) {
		shelf_fill(&shelf, slot, 0x1234567812345678ull);
		assert_int_equal(index_add(&shelf.share, slot), slot < 16);
	}
	assert_false(shelf_finds(&shelf, 16));
	index_del(&shelf.share, 3);
	assert_true(index_add(&shelf.share, 16));
	assert_true(shelf_finds(&shelf, 16));
	assert_false(shelf_finds(&shelf, 3));
	shelf_close(&shelf);
}

/* Both buckets of a key are full, but an entry in them can go to its other bucket. */
static void test_kick(void **state)
{
	struct shelf shelf;
	uint32_t slot = 0;

	(void)state;
	shelf_open(&shelf);
	for (; slot < 7; slot++)
		shelf_fill(&shelf, slot, 0x1234567812345678ull);
	/* In the first bucket of the same number, with another second one. */
	shelf_fill(&shelf, slot++, 0x0000000000000008ull);
	for (; slot < 17; slot++)
		shelf_fill(&shelf, slot, 0x1234567812345678ull);
	for (uint32_t i = 0; i < slot; i++)
		assert_true(index_add(&shelf.share, i));
	for (uint32_t i = 0; i < slot; i++)
		assert_true(shelf_finds(&shelf, i));
	shelf_close(&shelf);
}

static void test_too_many_is_said(void **state)
{
	struct shelf shelf;
	struct index_key key;
	uint32_t slot;

	(void)state;
	shelf_open(&shelf);
	shelf_fill(&shelf, 5, 77);
	assert_true(index_add(&shelf.share, 5));
	key = (struct index_key){"k5", 2, 77};
	shelf.holder.counts[5] = HOLD_LIMIT;
	assert_int_equal(index_find(&shelf.share, &shelf.holder, &key, HOLD_COLD, &slot),
		HOLD_TOO_MANY);
	shelf.holder.counts[5] = 0;
	shelf_close(&shelf);
}

static void test_long_key_behind_the_bytes(void **state)
{
	struct shelf shelf;
	char text[KEY_LIMIT];
	struct index_key key = {text, sizeof(text), 99};
	struct slot *there;
	uint32_t slot;

	(void)state;
	shelf_open(&shelf);
	memset(text, 'x', sizeof(text));
	there = &shelf.share.slots[7];
	there->off = 256;
	there->size = 100;
	there->klen = sizeof(text);
	there->hash = 99;
	memcpy(shelf.share.pool + 356, text, sizeof(text));
	slot_ready(there);
	assert_true(index_add(&shelf.share, 7));
	assert_int_equal(
		index_find(&shelf.share, &shelf.holder, &key, HOLD_COLD, &slot), HOLD_OK);
	assert_int_equal(slot, 7);
	assert_true(hold_give(&shelf.holder, shelf.share.slots, slot));
	text[1000] = 'y';
	assert_int_equal(
		index_find(&shelf.share, &shelf.holder, &key, HOLD_COLD, &slot), HOLD_NO);
	shelf_close(&shelf);
}

/* Every array is complete by itself: a reader may still probe the one before. */
static void test_grow(void **state)
{
	struct shelf shelf;

	(void)state;
	shelf_open(&shelf);
	for (uint32_t slot = 0; slot < 80; slot++) {
		shelf_fill(&shelf, slot, hash_key(&slot, sizeof(slot), 1));
		assert_true(index_add(&shelf.share, slot));
	}
	memset(share_buckets(&shelf.share, 5), 0xff, 32 * sizeof(struct bucket));
	index_grow(&shelf.share, 5);
	assert_int_equal(shelf.share.header->log2_buckets, 5);
	for (uint32_t slot = 0; slot < 80; slot++)
		assert_true(shelf_finds(&shelf, slot));
	shelf.share.header->log2_buckets = 4;
	for (uint32_t slot = 0; slot < 80; slot++)
		assert_true(shelf_finds(&shelf, slot));
	shelf_close(&shelf);
}

/* What a torn entry may show: a tag with another slot's number. */
static void test_wrong_entry_is_a_miss(void **state)
{
	struct shelf shelf;
	struct bucket *buckets;

	(void)state;
	shelf_open(&shelf);
	shelf_fill(&shelf, 1, 0x1111000000000002ull);
	shelf_fill(&shelf, 2, 0x2222000000000003ull);
	assert_true(index_add(&shelf.share, 1));
	buckets = share_buckets(&shelf.share, 4);
	for (unsigned lane = 0; lane < 8; lane++)
		buckets[2].slots[lane] = 2;
	assert_false(shelf_finds(&shelf, 1));
	for (unsigned lane = 0; lane < 8; lane++)
		buckets[2].slots[lane] = 256;
	assert_false(shelf_finds(&shelf, 1));
	shelf_close(&shelf);
}

static void test_repair(void **state)
{
	struct shelf shelf;
	struct bucket *buckets;

	(void)state;
	shelf_open(&shelf);
	for (uint32_t slot = 0; slot < 40; slot++) {
		shelf_fill(&shelf, slot, hash_key(&slot, sizeof(slot), 1));
		assert_true(index_add(&shelf.share, slot));
	}
	slot_condemn(&shelf.share.slots[3]);
	slot_free(&shelf.share.slots[4]);
	shelf.share.slots[5].hash ^= 1ull << 60; /* the tag is another's */
	shelf.share.slots[6].hash ^= 1;          /* the bucket is another's */
	index_repair(&shelf.share);
	for (uint32_t slot = 0; slot < 40; slot++)
		assert_int_equal(index_has(&shelf.share, slot), slot < 3 || slot > 6);

	/* Whatever stands there, only what is true stays. */
	buckets = share_buckets(&shelf.share, 4);
	memset(buckets, 0xa5, 16 * sizeof(*buckets));
	index_repair(&shelf.share);
	for (uint32_t at = 0; at < 16; at++)
		assert_true(buckets[at].tags[0] == 0 && buckets[at].tags[1] == 0);
	shelf_close(&shelf);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_add_find_del),
	cmocka_unit_test(test_equal_hashes),
	cmocka_unit_test(test_full_pair_refuses),
	cmocka_unit_test(test_kick),
	cmocka_unit_test(test_too_many_is_said),
	cmocka_unit_test(test_long_key_behind_the_bytes),
	cmocka_unit_test(test_grow),
	cmocka_unit_test(test_wrong_entry_is_a_miss),
	cmocka_unit_test(test_repair),
};
UNIT_MAIN(tests)
