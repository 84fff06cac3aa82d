/*
 * disk_fault.c - what happens to a disk when the daemon or the host ends, and what happens
 * to its bytes by themselves.
 */
#include "disk.h"

#include "base/attr.h"
#include "base/check.h"

#include <string.h>

/* ---- the daemon ---------------------------------------------------------- */

static void cut(struct sim_tier *tier, struct sim_job *job)
{
	unsigned share = (unsigned)rng_below(&tier->rng, 101);

	for (uint32_t block = 0; block < job->blocks; block++) {
		if (rng_chance(&tier->rng, share))
			sim_job_move(tier, job, block);
	}
	tier->cut_writes += job->kind == SIM_JOB_WRITE && job->left > 0;
	tier->cut_reads += job->kind == SIM_JOB_READ && job->left > 0;
}

static struct sim_job *first_commit(struct sim_tier *tier)
{
	struct sim_job *first = NULL;

	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		struct sim_job *job = &tier->jobs[i];

		if (job->kind == SIM_JOB_COMMIT &&
			(first == NULL || job->began < first->began))
			first = job;
	}
	return first;
}

void sim_tier_kill(struct sim_tier *tier)
{
	struct sim_job *commit;
	bool go_on = true;

	/* All of a commit, or nothing of it and of those behind it. */
	while ((commit = first_commit(tier)) != NULL) {
		sim_job_check(tier, commit);
		go_on = go_on && rng_chance(&tier->rng, 50);
		if (go_on && tier->trouble.io + tier->trouble.full == 0)
			sim_tier_commit_now(tier, commit);
		sim_job_free(commit);
	}
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		struct sim_job *job = &tier->jobs[i];

		if (job->kind == SIM_JOB_NONE)
			continue;
		sim_job_check(tier, job);
		cut(tier, job);
		sim_job_free(job);
	}
}

/* ---- the host ------------------------------------------------------------ */

static void garble(struct sim_tier *tier, unsigned char *bytes)
{
	for (unsigned i = 0; i < TIER_BLOCK; i += 8) {
		uint64_t word = rng_next(&tier->rng);

		memcpy(bytes + i, &word, sizeof(word));
	}
}

void sim_tier_lose_host(struct sim_tier *tier)
{
	uint64_t blocks = tier->setup.data_size / TIER_BLOCK;

	CHECK(sim_tier_is_quiet(tier));
	/* What was not flushed may have come to rest all the same. */
	if (rng_chance(&tier->rng, 50))
		sim_index_copy(&tier->committed, &tier->durable);
	for (uint64_t block = 0; block < blocks; block++) {
		unsigned char *bytes = tier->data + block * TIER_BLOCK;

		if (tier->written[block] == 0)
			continue;
		switch (rng_below(&tier->rng, 3)) {
		case 0:
			memcpy(bytes, tier->stable + block * TIER_BLOCK, TIER_BLOCK);
			break;
		case 1:
			garble(tier, bytes);
			break;
		default:
			break;
		}
	}
	memcpy(tier->stable, tier->data, tier->setup.data_size);
	memset(tier->written, 0, blocks * sizeof(tier->written[0]));
	sim_index_copy(&tier->durable, &tier->committed);
}

/* ---- rot ----------------------------------------------------------------- */

uint64_t sim_tier_rot(struct sim_tier *tier)
{
	struct sim_record *record;
	unsigned char *byte;
	uint64_t at;

	if (tier->committed.count == 0)
		return 0;
	record = tier->committed.records[rng_below(&tier->rng, tier->committed.count)];
	if (record->record.size == 0)
		return 0;
	at = rng_below(&tier->rng, record->record.size);
	byte = record->record.off == TIER_ON_INDEX ? &record->value[at]
						   : tier->data + record->record.off + at;
	*byte ^= (unsigned char)(1u << rng_below(&tier->rng, 8));
	if (record->record.off != TIER_ON_INDEX && rng_chance(&tier->rng, 50))
		tier->stable[record->record.off + at] = *byte;
	return record->record.generation;
}
