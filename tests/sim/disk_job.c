/*
 * disk_job.c - how jobs go on: block by block, and then an end.
 */
#include "disk.h"

#include "base/attr.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SIM_PADDING 0xd5         /* what a block has behind the object's end */
#define SIM_SPARE   (4ull << 20) /* that the file system takes ahead for each write */

void sim_job_free(struct sim_job *job)
{
	free(job->moved);
	memset(job, 0, sizeof(*job));
}

/* ---- blocks -------------------------------------------------------------- */

/* The piece that the block of the job is of, and its offset there. */
static struct tier_piece *piece_at(
	const struct sim_job *job, uint32_t block, uint64_t *ret_off)
{
	uint32_t at = 0;
	uint64_t first = 0;

	while (first + sim_tier_blocks(job->pieces[at].size) <= block)
		first += sim_tier_blocks(job->pieces[at++].size);
	*ret_off = (block - first) * TIER_BLOCK;
	return &job->pieces[at];
}

static void block_write(struct sim_tier *tier, struct sim_job *job, uint32_t block)
{
	unsigned char *to = tier->data + job->off + (uint64_t)block * TIER_BLOCK;
	uint64_t off, place = job->off / TIER_BLOCK + block;

	if (job->kind == SIM_JOB_PUNCH) {
		memset(to, 0, TIER_BLOCK);
		tier->there[place] = 0;
	} else {
		const struct tier_piece *piece = piece_at(job, block, &off);
		uint64_t size = MIN(piece->size - off, (uint64_t)TIER_BLOCK);

		memcpy(to, tier->setup.share->pool + piece->pool_off + off, size);
		memset(to + size, SIM_PADDING, TIER_BLOCK - size);
		tier->there[place] = 1;
	}
	tier->written[place] = ++tier->begins;
}

static void block_read(struct sim_tier *tier, const struct sim_job *job, uint32_t block)
{
	uint64_t off;
	const struct tier_piece *piece = piece_at(job, block, &off);

	memcpy(tier->setup.share->pool + piece->pool_off + off,
		tier->data + job->off + (uint64_t)block * TIER_BLOCK,
		MIN(piece->size - off, (uint64_t)TIER_BLOCK));
}

void sim_job_move(struct sim_tier *tier, struct sim_job *job, uint32_t block)
{
	if (job->moved[block])
		return;
	job->moved[block] = 1;
	job->left--;
	if (job->kind == SIM_JOB_READ)
		block_read(tier, job, block);
	else
		block_write(tier, job, block);
}

static void job_move_some(struct sim_tier *tier, struct sim_job *job)
{
	uint32_t from, count;

	if (job->left == 0)
		return;
	sim_job_check(tier, job);
	from = (uint32_t)rng_below(&tier->rng, job->blocks);
	count = 1 + (uint32_t)rng_below(&tier->rng, job->blocks);
	for (uint32_t i = 0; i < count; i++)
		sim_job_move(tier, job, (from + i) % job->blocks);
}

static void job_move_all(struct sim_tier *tier, struct sim_job *job)
{
	for (uint32_t block = 0; block < job->blocks; block++)
		sim_job_move(tier, job, block);
}

/* ---- ends ---------------------------------------------------------------- */

static bool needs_space(const struct sim_tier *tier, const struct sim_job *job)
{
	if (job->kind == SIM_JOB_COMMIT)
		return true;
	if (job->kind != SIM_JOB_WRITE)
		return false;
	for (uint64_t i = 0; i < job->blocks; i++) {
		if (!tier->there[job->off / TIER_BLOCK + i])
			return true;
	}
	return false;
}

/* What the same commit drops makes no room for what it stores. */
static bool is_past_limit(const struct sim_tier *tier, const struct sim_job *job)
{
	uint32_t more = 0;

	for (uint32_t i = 0; job->kind == SIM_JOB_COMMIT && i < job->count; i++)
		more += !job->changes[i].drop &&
			sim_index_find(&tier->committed, job->changes[i].record.id) ==
				NULL;
	return more > 0 && tier->committed.count + more > tier->setup.object_limit;
}

/* What becomes of the job; some of its blocks may have moved all the same. */
static int job_fate(struct sim_tier *tier, const struct sim_job *job)
{
	if (job->kind != SIM_JOB_PUNCH && rng_chance(&tier->rng, tier->trouble.io))
		return ERR_IO;
	if (needs_space(tier, job) && rng_chance(&tier->rng, tier->trouble.full))
		return ERR_NO_SPACE;
	return is_past_limit(tier, job) ? ERR_NO_SPACE : 0;
}

static void sum_pieces(struct sim_tier *tier, struct sim_job *job)
{
	for (uint32_t i = 0; i < job->count; i++) {
		struct tier_piece *piece = &job->pieces[i];

		piece->checksum = hash_key(tier->setup.share->pool + piece->pool_off,
			piece->size, piece->seed);
	}
}

static int fetch_end(struct sim_tier *tier, struct sim_job *job)
{
	const struct sim_record *record = sim_index_find(&tier->committed, job->id);

	if (record == NULL || record->record.off != TIER_ON_INDEX)
		return ERR_NOT_FOUND;
	memcpy(tier->setup.share->pool + job->pieces[0].pool_off, record->value,
		MIN(record->record.size, job->pieces[0].size));
	return 0;
}

static void keys_end(struct sim_tier *tier, struct sim_job *job)
{
	size_t used = 0;

	for (uint32_t i = 0; i < job->count; i++) {
		const struct sim_record *record = sim_index_find(
			&tier->committed, job->ids[i]);
		uint16_t klen = record == NULL ? 0 : record->record.klen;

		/* Room for the lengths of all that follow. */
		if (used + klen + 2ull * (job->count - i) > job->buffer_size)
			klen = 0;
		memcpy(job->buffer + used, &klen, sizeof(klen));
		if (klen > 0)
			memcpy(job->buffer + used + 2, record->key, klen);
		used += 2ull + klen;
	}
}

static int job_end(struct sim_tier *tier, struct sim_job *job)
{
	int err = job_fate(tier, job);

	sim_job_check(tier, job);
	if (err != 0) {
		job_move_some(tier, job);
		return err;
	}
	job_move_all(tier, job);
	switch (job->kind) {
	case SIM_JOB_WRITE:
		tier->spare += SIM_SPARE;
		break;
	case SIM_JOB_READ:
		break;
	case SIM_JOB_FETCH:
		err = fetch_end(tier, job);
		break;
	case SIM_JOB_COMMIT:
		sim_tier_commit_now(tier, job);
		break;
	case SIM_JOB_PUNCH:
		tier->spare = 0;
		sim_tier_count(tier);
		break;
	case SIM_JOB_KEYS:
		keys_end(tier, job);
		break;
	case SIM_JOB_NONE:
		NOT_REACHED("no job");
	}
	if (job->pieces != NULL)
		sum_pieces(tier, job);
	return err;
}

/* ---- which goes on ------------------------------------------------------- */

/* Commits end in the order in which they began. */
static bool is_first(const struct sim_tier *tier, const struct sim_job *job)
{
	for (uint32_t i = 0; job->kind == SIM_JOB_COMMIT && i < TIER_JOB_LIMIT; i++) {
		if (tier->jobs[i].kind == SIM_JOB_COMMIT &&
			tier->jobs[i].began < job->began)
			return false;
	}
	return true;
}

static struct sim_job *job_choose(struct sim_tier *tier)
{
	uint32_t from = (uint32_t)rng_below(&tier->rng, TIER_JOB_LIMIT);

	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		struct sim_job *job = &tier->jobs[(from + i) % TIER_JOB_LIMIT];

		if (job->kind != SIM_JOB_NONE && job->due_ns <= *tier->setup.now_ns &&
			is_first(tier, job))
			return job;
	}
	return NULL;
}

uint64_t sim_tier_next(const struct sim_tier *tier)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		const struct sim_job *job = &tier->jobs[i];

		if (job->kind != SIM_JOB_NONE && is_first(tier, job))
			next = MIN(next, job->due_ns);
	}
	return next;
}

void sim_tier_move(struct sim_tier *tier)
{
	struct sim_job *job = job_choose(tier);

	if (job != NULL)
		job_move_some(tier, job);
}

bool sim_tier_step(struct sim_tier *tier, uint32_t *ret_job, int *ret_err)
{
	struct sim_job *job = job_choose(tier);

	if (job == NULL)
		return false;
	if (job->left > 0 && rng_chance(&tier->rng, 50)) {
		job_move_some(tier, job);
		return false;
	}
	*ret_job = (uint32_t)(job - tier->jobs);
	*ret_err = job_end(tier, job);
	sim_job_free(job);
	return true;
}

bool sim_tier_is_quiet(const struct sim_tier *tier)
{
	return sim_tier_next(tier) == UINT64_MAX;
}

bool sim_tier_has(const struct sim_tier *tier, enum sim_job_kind kind)
{
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		if (tier->jobs[i].kind == kind)
			return true;
	}
	return false;
}
