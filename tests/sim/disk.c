#include "disk.h"

#include "base/attr.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static struct sim_tier *tier_of(void *ctx)
{
	return ctx;
}

static void broken(struct sim_tier *tier, const char *text)
{
	tier->setup.fail(tier->setup.ctx, text);
	NOT_REACHED("a broken promise was taken lightly");
}

/* ---- what jobs may touch ------------------------------------------------- */

static bool ranges_meet(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

static bool writes_disk(const struct sim_job *job)
{
	return job->kind == SIM_JOB_WRITE || job->kind == SIM_JOB_PUNCH;
}

static bool writes_pool(const struct sim_job *job)
{
	return job->kind == SIM_JOB_READ || job->kind == SIM_JOB_FETCH;
}

/* The n-th range of the pool that a job touches. */
static bool pool_range(
	const struct sim_job *job, uint32_t at, uint64_t *ret_off, uint64_t *ret_size)
{
	*ret_off = *ret_size = 0;
	if (at >= job->count)
		return false;
	if (job->pieces != NULL) {
		*ret_off = job->pieces[at].pool_off;
		*ret_size = job->pieces[at].size;
	} else if (job->kind == SIM_JOB_COMMIT && !job->changes[at].drop &&
		   job->changes[at].record.key != NULL &&
		   job->changes[at].record.off == TIER_ON_INDEX) {
		*ret_off = job->changes[at].value;
		*ret_size = job->changes[at].record.size;
	}
	return true;
}

static bool pools_meet(const struct sim_job *a, const struct sim_job *b)
{
	uint64_t off, size, other, other_size;

	for (uint32_t i = 0; pool_range(a, i, &off, &size); i++) {
		for (uint32_t j = 0; pool_range(b, j, &other, &other_size); j++) {
			if (ranges_meet(off, size, other, other_size))
				return true;
		}
	}
	return false;
}

static void check_against(
	struct sim_tier *tier, const struct sim_job *job, const struct sim_job *other)
{
	if ((writes_disk(job) || writes_disk(other)) &&
		ranges_meet(job->off, job->size, other->off, other->size))
		broken(tier, "two jobs touch the same bytes of the disk, one writes");
	if ((writes_pool(job) || writes_pool(other)) && pools_meet(job, other))
		broken(tier, "two jobs touch the same bytes of the pool, one writes");
}

static void check_is_unused(struct sim_tier *tier, const struct sim_job *job)
{
	for (uint32_t i = 0; i < tier->committed.count; i++) {
		const struct tier_record *record = &tier->committed.records[i]->record;

		if (record->off != TIER_ON_INDEX &&
			ranges_meet(job->off, job->size, record->off, record->size))
			broken(tier, "a range is written that the index refers to");
	}
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		const struct sim_job *commit = &tier->jobs[i];

		for (uint32_t j = 0; commit->kind == SIM_JOB_COMMIT && j < commit->count;
			j++) {
			const struct tier_change *change = &commit->changes[j];

			if (!change->drop && change->record.off != TIER_ON_INDEX &&
				ranges_meet(job->off, job->size, change->record.off,
					change->record.size))
				broken(tier,
					"a range is written that a commit refers to");
		}
	}
}

/* The bytes lie in the run of a slot that is being copied to, and in no other. */
static void check_is_load(struct sim_tier *tier, uint64_t off, uint64_t size)
{
	const struct share *share = tier->setup.share;
	uint32_t nslots = atomic_load(&share->header->nslots);
	bool found = false;

	for (uint32_t at = 0; at < nslots; at++) {
		const struct slot *slot = &share->slots[at];
		enum slot_kind kind = slot_kind_of(atomic_load(&slot->state));

		if (kind == SLOT_FREE || slot->klen == 0 ||
			!ranges_meet(off, size, slot->off,
				slot_run_size(slot->size, slot->klen)))
			continue;
		if (kind != SLOT_WRITING || !(slot->flags & SLOT_COPY) ||
			slot->off != off || slot->size != size)
			broken(tier, "bytes are read into the run of another object");
		found = true;
	}
	if (size > 0 && !found)
		broken(tier, "bytes are read to where no load is");
}

static void check_update(struct sim_tier *tier, const struct tier_record *record)
{
	const struct sim_record *there = sim_index_find(&tier->committed, record->id);

	if (there == NULL || there->record.generation != record->generation)
		broken(tier, "a record is changed that is not there");
}

static void check_change(struct sim_tier *tier, const struct tier_change *change)
{
	const struct tier_record *record = &change->record;
	uint64_t pool = tier->setup.share->header->pool_size;

	if (change->drop)
		return;
	if (record->key == NULL) {
		check_update(tier, record);
		return;
	}
	if (record->klen == 0 || record->klen > KEY_LIMIT || record->generation == 0)
		broken(tier, "a record without a key or a generation");
	if (record->off == TIER_ON_INDEX) {
		if (record->size > TIER_INLINE || change->value > pool ||
			record->size > pool - change->value)
			broken(tier, "a record's value is too large, or not in the pool");
		return;
	}
	if (record->off % TIER_BLOCK != 0 || record->size == 0 ||
		record->off + record->size > tier->setup.data_size)
		broken(tier, "a record whose bytes are not in the data file");
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		if (writes_disk(&tier->jobs[i]) &&
			ranges_meet(tier->jobs[i].off, tier->jobs[i].size, record->off,
				record->size))
			broken(tier, "a record is stored whose bytes are being written");
	}
}

/* What must stay as it is while the job is under way. */
static uint64_t job_hash(const struct sim_tier *tier, const struct sim_job *job)
{
	const unsigned char *pool = tier->setup.share->pool;
	uint64_t hash = 0, off, size;

	for (uint32_t i = 0; job->kind != SIM_JOB_KEYS && pool_range(job, i, &off, &size);
		i++) {
		hash = hash_key(&off, sizeof(off), hash);
		hash = hash_key(&size, sizeof(size), hash);
		if (!writes_pool(job))
			hash = hash_key(pool + off, size, hash);
	}
	for (uint32_t i = 0; job->changes != NULL && i < job->count; i++) {
		const struct tier_record *record = &job->changes[i].record;

		hash = hash_key(&job->changes[i], sizeof(job->changes[i]), hash);
		if (!job->changes[i].drop && record->key != NULL)
			hash = hash_key(record->key, record->klen, hash);
	}
	if (job->kind == SIM_JOB_KEYS)
		hash = hash_key(job->ids, job->count * sizeof(job->ids[0]), hash);
	return hash;
}

void sim_job_check(struct sim_tier *tier, struct sim_job *job)
{
	if (job_hash(tier, job) != job->before)
		broken(tier, "what a job was given changed before its end");
	if (writes_pool(job))
		check_is_load(tier, job->pieces[0].pool_off, job->pieces[0].size);
}

/* ---- begin --------------------------------------------------------------- */

static uint64_t job_delay(struct sim_tier *tier)
{
	if (rng_chance(&tier->rng, tier->trouble.slow))
		return rng_below(&tier->rng, 2000000000);
	if (rng_chance(&tier->rng, 5))
		return rng_below(&tier->rng, 20000000);
	return rng_below(&tier->rng, 300000);
}

static struct sim_job *job_begin(
	struct sim_tier *tier, uint32_t number, enum sim_job_kind kind, uint32_t count)
{
	struct sim_job *job = &tier->jobs[number];

	if (number >= TIER_JOB_LIMIT || job->kind != SIM_JOB_NONE)
		broken(tier, "a job's number is in use, or beyond the limit");
	if (count == 0 || count > TIER_PIECES)
		broken(tier, "a job of nothing, or of too much");
	*job = (struct sim_job){.kind = kind,
		.began = ++tier->begins,
		.due_ns = *tier->setup.now_ns + job_delay(tier),
		.count = count};
	return job;
}

static void job_begun(struct sim_tier *tier, struct sim_job *job)
{
	if (job->size % TIER_BLOCK != 0 || job->off % TIER_BLOCK != 0 ||
		job->off + job->size > tier->setup.data_size)
		broken(tier, "a job's range is not of blocks of the data file");
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		const struct sim_job *other = &tier->jobs[i];

		if (other != job && other->kind != SIM_JOB_NONE)
			check_against(tier, job, other);
	}
	if (writes_disk(job))
		check_is_unused(tier, job);
	job->blocks = job->left = (uint32_t)(job->size / TIER_BLOCK);
	job->moved = sim_disk_alloc(job->blocks + 1, 1);
	job->before = job_hash(tier, job);
	sim_job_check(tier, job);
}

static void tier_write(void *ctx, uint32_t number, uint64_t off,
	struct tier_piece *pieces, uint32_t count)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_WRITE, count);

	job->off = off;
	job->pieces = pieces;
	for (uint32_t i = 0; i < count; i++)
		job->size += sim_tier_blocks(pieces[i].size) * TIER_BLOCK;
	job_begun(tier, job);
}

static void tier_read(void *ctx, uint32_t number, uint64_t off, struct tier_piece *piece)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_READ, 1);

	job->off = off;
	job->pieces = piece;
	job->size = sim_tier_blocks(piece->size) * TIER_BLOCK;
	tier->reads++;
	job_begun(tier, job);
}

static void tier_fetch(
	void *ctx, uint32_t number, struct tier_id id, struct tier_piece *piece)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_FETCH, 1);

	job->id = id;
	job->pieces = piece;
	tier->reads++;
	job_begun(tier, job);
}

static void tier_commit(
	void *ctx, uint32_t number, const struct tier_change *changes, uint32_t count)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_COMMIT, count);

	job->changes = changes;
	for (uint32_t i = 0; i < count; i++)
		check_change(tier, &changes[i]);
	job_begun(tier, job);
}

static void tier_keys(void *ctx, uint32_t number, const struct tier_id *ids,
	uint32_t count, void *buffer, size_t size)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_KEYS, count);

	job->ids = ids;
	job->buffer = buffer;
	job->buffer_size = size;
	job_begun(tier, job);
}

static void tier_punch(void *ctx, uint32_t number, uint64_t off, uint64_t size)
{
	struct sim_tier *tier = tier_of(ctx);
	struct sim_job *job = job_begin(tier, number, SIM_JOB_PUNCH, 1);

	job->off = off;
	job->size = size;
	job_begun(tier, job);
}

static bool tier_adopt(void *ctx, uint64_t at, struct tier_record *ret)
{
	struct sim_tier *tier = tier_of(ctx);

	if (at >= tier->committed.count)
		return false;
	*ret = tier->committed.records[at]->record;
	return true;
}

static uint64_t tier_backed(void *ctx)
{
	return tier_of(ctx)->backed;
}

/* ---- open, close --------------------------------------------------------- */

void sim_tier_open(struct sim_tier *tier, const struct sim_tier_setup *setup)
{
	uint64_t blocks = setup->data_size / TIER_BLOCK;
	size_t records = setup->object_limit + TIER_PIECES;

	memset(tier, 0, sizeof(*tier));
	CHECK(setup->data_size % TIER_BLOCK == 0);
	tier->setup = *setup;
	rng_init(&tier->rng, setup->seed);
	tier->data = sim_disk_alloc(1, setup->data_size);
	tier->stable = sim_disk_alloc(1, setup->data_size);
	tier->written = sim_disk_alloc(blocks, sizeof(tier->written[0]));
	tier->there = sim_disk_alloc(blocks, 1);
	tier->committed.records = sim_disk_alloc(records, sizeof(struct sim_record *));
	tier->durable.records = sim_disk_alloc(records, sizeof(struct sim_record *));
}

void sim_tier_close(struct sim_tier *tier)
{
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++)
		sim_job_free(&tier->jobs[i]);
	sim_index_clear(&tier->committed);
	sim_index_clear(&tier->durable);
	free(tier->committed.records);
	free(tier->durable.records);
	free(tier->data);
	free(tier->stable);
	free(tier->written);
	free(tier->there);
	memset(tier, 0, sizeof(*tier));
}

struct env_tier sim_tier_env(struct sim_tier *tier)
{
	return (struct env_tier){
		.ctx = tier,
		.data_size = tier->setup.data_size,
		.object_limit = tier->setup.object_limit,
		.adopt = tier_adopt,
		.write = tier_write,
		.read = tier_read,
		.fetch = tier_fetch,
		.commit = tier_commit,
		.keys = tier_keys,
		.punch = tier_punch,
		.backed = tier_backed,
	};
}
