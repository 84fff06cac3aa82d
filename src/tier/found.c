/*
 * found.c - the records that the start found, in memory until adopt() was through them.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/store_priv.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define FOUND_CHUNK (1u << 20) /* of keys */

struct found_head {
	uint32_t version, spare;
	uint8_t uuid[STORE_UUID];
	uint64_t check; /* XXH3-64 of what stands before */
};
_Static_assert(sizeof(struct found_head) == FOUND_HEAD_SIZE, "on disk");

#define FOUND_HEAD_CHECKED offsetof(struct found_head, check)

void found_init(struct found *found)
{
	*found = (struct found){.count = 0};
	record_clock_read(&found->clock);
}

void found_free(struct found *found)
{
	while (found->keys != NULL) {
		char *before;

		memcpy(&before, found->keys, sizeof(before));
		free(found->keys);
		found->keys = before;
	}
	free(found->records);
	free(found->skipped);
	found->records = NULL;
	found->skipped = NULL;
	found->count = 0;
	found->room = 0;
}

/* ---- the entry that tells whose index it is ------------------------------ */

void found_head_encode(
	unsigned char bytes[FOUND_HEAD_SIZE], const uint8_t uuid[STORE_UUID])
{
	struct found_head head = {.version = htole32(STORE_VERSION)};

	memcpy(head.uuid, uuid, STORE_UUID);
	head.check = htole64(hash_bytes(&head, FOUND_HEAD_CHECKED));
	memcpy(bytes, &head, sizeof(head));
}

static int found_head(struct found *found, const unsigned char *value, size_t size)
{
	struct found_head head;

	if (size != sizeof(head))
		return ERR_CORRUPT;
	memcpy(&head, value, sizeof(head));
	if (le64toh(head.check) != hash_bytes(&head, FOUND_HEAD_CHECKED))
		return ERR_CORRUPT;
	memcpy(found->uuid, head.uuid, STORE_UUID);
	found->version = le32toh(head.version);
	found->has_head = true;
	return 0;
}

/* ---- records ------------------------------------------------------------- */

/* A copy of the key that stays until found_free(). */
static const char *found_keep_key(struct found *found, const void *key, size_t size)
{
	char *copy;

	if (found->keys == NULL || found->keys_used + size > FOUND_CHUNK) {
		char *chunk = malloc(FOUND_CHUNK);

		if (chunk == NULL)
			return NULL;
		memcpy(chunk, &found->keys, sizeof(found->keys));
		found->keys = chunk;
		found->keys_used = sizeof(found->keys);
	}
	copy = found->keys + found->keys_used;
	memcpy(copy, key, size);
	found->keys_used += size;
	return copy;
}

static int found_keep(struct found *found, struct tier_record *record)
{
	if (found->count == found->room) {
		uint64_t room = found->room != 0 ? 2 * found->room : 1024;
		struct tier_record *grown = realloc(
			found->records, room * sizeof(*grown));

		if (grown == NULL)
			return ERR_NO_MEMORY;
		found->records = grown;
		found->room = room;
	}
	record->key = found_keep_key(found, record->key, record->klen);
	if (record->key == NULL)
		return ERR_NO_MEMORY;
	found->records[found->count++] = *record;
	if (record->off != TIER_ON_INDEX) {
		uint64_t end = record->off + align_up_u64(record->size, TIER_BLOCK);

		found->data_end = end > found->data_end ? end : found->data_end;
	}
	return 0;
}

static int found_skip(struct found *found, const unsigned char *id)
{
	unsigned char *grown = realloc(
		found->skipped, (found->skipped_count + 1) * RECORD_ID_SIZE);

	if (grown == NULL)
		return ERR_NO_MEMORY;
	found->skipped = grown;
	memcpy(grown + found->skipped_count++ * RECORD_ID_SIZE, id, RECORD_ID_SIZE);
	return 0;
}

int found_add(void *ctx, const unsigned char *key, size_t key_size,
	const unsigned char *value, size_t size)
{
	struct found *found = ctx;
	const unsigned char *inner;
	struct tier_record record;

	if (key_size == strlen(FOUND_HEAD_KEY) &&
		memcmp(key, FOUND_HEAD_KEY, key_size) == 0)
		return found_head(found, value, size);
	if (key_size != RECORD_ID_SIZE)
		return ERR_CORRUPT;
	if (!record_decode(
		    value, size, record_id_decode(key), &found->clock, &record, &inner))
		return found_skip(found, key);
	return found_keep(found, &record);
}

/* ---- adopt --------------------------------------------------------------- */

static int found_compare(const void *a, const void *b)
{
	const struct tier_record *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off); /* TIER_ON_INDEX is the largest */
}

void found_sort(struct found *found)
{
	if (found->count > 0)
		qsort(found->records, found->count, sizeof(found->records[0]),
			found_compare);
}

bool found_get(struct found *found, uint64_t at, struct tier_record *ret)
{
	uint64_t passed;

	if (at >= found->count) {
		found_free(found);
		return false;
	}
	*ret = found->records[at];
	passed = loop_boot_ns() - found->clock.boot_ns;
	if (ret->ttl_ns != 0)
		ret->ttl_ns = ret->ttl_ns > passed ? ret->ttl_ns - passed : 1;
	return true;
}
