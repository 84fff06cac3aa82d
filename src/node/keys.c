/*
 * keys.c - the keys of what is only on disk, for who walks over them, a page at a time.
 *
 *   keys_ask --a job is free--> under way --> the op's keys_done_fn
 *       '--none is--> the op waits, and is run again
 *
 * They lie in the index there, and nowhere else.
 */
#include "node/node_priv.h"

#include <string.h>

/* The entries of a page, from one on; 0: there are no more. */
static uint32_t keys_gather(
	struct node *node, struct keys_memory *memory, uint32_t from, uint32_t limit)
{
	uint32_t entry = master_disk_list(&node->master, from);
	uint32_t count = 0;

	while (entry != DISK_NONE && count < limit) {
		const struct disk_entry *there = disk_entry(&node->master.disk, entry);

		memory->entries[count] = entry;
		memory->generations[count] = there->generation;
		memory->ids[count] = (struct tier_id){
			{there->id.word[0], there->id.word[1]}};
		count++;
		entry = master_disk_list(&node->master, entry + 1);
	}
	return count;
}

bool keys_ask(struct node *node, struct op *op, uint32_t from, uint32_t limit,
	keys_done_fn done)
{
	struct job *job = job_new(node, JOB_KEYS);

	list_move_tail(&node->tier.listing, &op->wait_entry);
	if (job == NULL)
		return true;
	job->count = keys_gather(node, job->keys, from, MIN(limit, TIER_PIECES));
	if (job->count == 0) {
		list_del(&op->wait_entry);
		return false;
	}
	job->keys->done = done;
	job->keys->alone = false;
	op->job = job;
	job->op = op;
	job_start(node, job);
	return true;
}

bool keys_ask_one(struct node *node, uint32_t entry, keys_done_fn done)
{
	struct job *job = job_new(node, JOB_KEYS);

	if (job == NULL)
		return false;
	job->count = keys_gather(node, job->keys, entry, 1);
	if (job->count == 0)
		return false;
	job->keys->done = done;
	job->keys->alone = true;
	job_start(node, job);
	return true;
}

void keys_leave(struct op *op)
{
	list_del(&op->wait_entry);
	if (op->job != NULL)
		op->job->op = NULL;
	op->job = NULL;
}

void keys_call(struct node *node, struct job *job, uint32_t number)
{
	node->env.tier.keys(node->env.tier.ctx, number, job->keys->ids, job->count,
		job->keys->keys, sizeof(job->keys->keys));
}

void keys_job_done(struct node *node, struct job *job, int err)
{
	struct op *op = job->op;

	tier_trouble(node, &node->tier.reading, "reading from the disk", err);
	if (op == NULL && !job->keys->alone)
		return;
	if (op != NULL) {
		op->job = NULL;
		list_del(&op->wait_entry);
	}
	job->keys->done(node, op, job, err);
}

void keys_step(struct node *node)
{
	list_for_each_safe (at, &node->tier.listing) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->job == NULL && job_new(node, JOB_KEYS) != NULL)
			op_wake(node, op);
	}
}

/* ---- what came ----------------------------------------------------------- */

/* Whether the entry still is what it was, and only on disk. */
static bool keys_stands(
	const struct node *node, const struct keys_memory *memory, uint32_t i)
{
	uint32_t entry = memory->entries[i];

	return master_disk_list(&node->master, entry) == entry &&
	       disk_entry(&node->master.disk, entry)->generation ==
		       memory->generations[i];
}

/* The next of the packed keys; false: there are no more. */
static bool keys_unpack(
	const struct keys_memory *memory, size_t *at, struct msg_bytes *ret)
{
	uint16_t size;

	if (*at + sizeof(size) > sizeof(memory->keys))
		return false;
	memcpy(&size, memory->keys + *at, sizeof(size));
	*at += sizeof(size);
	if (size > sizeof(memory->keys) - *at)
		return false;
	*ret = (struct msg_bytes){memory->keys + *at, size};
	*at += size;
	return true;
}

bool keys_next(const struct node *node, const struct job *job, struct keys_at *at,
	struct msg_bytes *ret_key)
{
	const struct keys_memory *memory = job->keys;

	for (; at->i < job->count; at->i++) {
		uint32_t i = at->i;

		at->entry = memory->entries[i];
		if (!keys_unpack(memory, &at->off, ret_key))
			return false;
		if (!keys_stands(node, memory, i))
			continue;
		/* As the first of its page it would have fitted: there is no record. */
		if (ret_key->size == 0 && i > 0)
			return false;
		if (ret_key->size == 0)
			continue;
		at->i++;
		return true;
	}
	at->entry = memory->entries[job->count - 1] + 1;
	return false;
}
