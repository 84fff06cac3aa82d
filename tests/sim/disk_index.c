/*
 * disk_index.c - the records of a simulated disk, as they are and as they would outlive the
 * host, and what a commit does to both.
 */
#include "disk.h"

#include "base/attr.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define SIM_RECORD_BYTES 256u /* that a record takes in the index file, with its key */

void *sim_disk_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	CHECK(memory != NULL);
	return memory;
}

uint64_t sim_tier_blocks(uint64_t size)
{
	return (size + TIER_BLOCK - 1) / TIER_BLOCK;
}

/* ---- records ------------------------------------------------------------- */

static void record_unref(struct sim_record *record)
{
	if (--record->refs == 0)
		free(record);
}

void sim_index_clear(struct sim_index *index)
{
	while (index->count > 0)
		record_unref(index->records[--index->count]);
}

void sim_index_copy(struct sim_index *to, const struct sim_index *from)
{
	for (uint32_t i = 0; i < from->count; i++)
		from->records[i]->refs++;
	sim_index_clear(to);
	to->count = from->count;
	if (from->count > 0)
		memcpy(to->records, from->records,
			from->count * sizeof(struct sim_record *));
}

static bool id_is(struct tier_id a, struct tier_id b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

const struct sim_record *sim_index_find(const struct sim_index *index, struct tier_id id)
{
	for (uint32_t i = 0; i < index->count; i++) {
		if (id_is(index->records[i]->record.id, id))
			return index->records[i];
	}
	return NULL;
}

const struct sim_record *sim_tier_find(const struct sim_index *index, uint64_t generation)
{
	for (uint32_t i = 0; i < index->count; i++) {
		if (index->records[i]->record.generation == generation)
			return index->records[i];
	}
	return NULL;
}

const unsigned char *sim_tier_bytes(
	const struct sim_tier *tier, const struct sim_record *record)
{
	if (record->record.off == TIER_ON_INDEX)
		return record->value;
	return tier->data + record->record.off;
}

static void index_drop(struct sim_index *index, struct tier_id id)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < index->count; i++) {
		if (id_is(index->records[i]->record.id, id))
			record_unref(index->records[i]);
		else
			index->records[kept++] = index->records[i];
	}
	index->count = kept;
}

/* The record as the change wants it. */
static struct sim_record *record_new(
	struct sim_tier *tier, const struct tier_change *change)
{
	struct sim_record *record = sim_disk_alloc(1, sizeof(*record));
	const struct tier_record *from = &change->record;

	if (from->key == NULL) {
		*record = *sim_index_find(&tier->committed, from->id);
		record->record.readers_left = from->readers_left;
	} else {
		record->record = *from;
		memcpy(record->key, from->key, from->klen);
		if (from->off == TIER_ON_INDEX)
			memcpy(record->value, tier->setup.share->pool + change->value,
				from->size);
	}
	record->refs = 1;
	record->record.key = record->key;
	return record;
}

static void index_add(struct sim_index *index, struct sim_record *record)
{
	uint32_t at = index->count;

	while (at > 0 && index->records[at - 1]->record.off > record->record.off) {
		index->records[at] = index->records[at - 1];
		at--;
	}
	index->records[at] = record;
	index->count++;
}

/* ---- commits ------------------------------------------------------------- */

/* What was written before the job with this number began is durable. */
static void flush(struct sim_tier *tier, uint64_t began)
{
	for (uint64_t block = 0; block < sim_tier_blocks(tier->setup.data_size);
		block++) {
		if (tier->written[block] == 0 || tier->written[block] >= began)
			continue;
		memcpy(tier->stable + block * TIER_BLOCK, tier->data + block * TIER_BLOCK,
			TIER_BLOCK);
		tier->written[block] = 0;
	}
}

/* What it all takes. */
void sim_tier_count(struct sim_tier *tier)
{
	uint64_t index = (uint64_t)tier->committed.count * SIM_RECORD_BYTES;
	uint64_t blocks = sim_tier_blocks(index);

	for (uint64_t block = 0; block < sim_tier_blocks(tier->setup.data_size); block++)
		blocks += tier->there[block];
	tier->backed = blocks * TIER_BLOCK + tier->spare;
}

void sim_tier_commit_now(struct sim_tier *tier, const struct sim_job *job)
{
	for (uint32_t i = 0; i < job->count; i++) {
		const struct tier_change *change = &job->changes[i];
		struct sim_record *record = change->drop ? NULL
							 : record_new(tier, change);

		index_drop(&tier->committed, change->record.id);
		CHECK(tier->committed.count < tier->setup.object_limit + TIER_PIECES);
		if (record != NULL)
			index_add(&tier->committed, record);
	}
	tier->lied = tier->trouble.lying;
	if (!tier->lied) {
		flush(tier, job->began);
		sim_index_copy(&tier->durable, &tier->committed);
	}
	sim_tier_count(tier);
}
