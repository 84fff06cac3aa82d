/*
 * flow_durable.c - the last step of a durable put: it is READY, and answered once it is on
 * disk.
 *
 *   SAVING --saved--> DONE, or spread (flow_spread.c)
 *      '--ended by its owner--> DONE
 *      '--a write failed, or the deadline--> removed again, so that it can be put once more
 *                 --its record, which may be on disk all the same, is gone--> the error
 *
 * It is found again by its key and generation, since it may be moved meanwhile. Whatever may
 * have changed wakes it by its key: a commit, a failed write, a move.
 */
#include "node/node_priv.h"

#include "base/plant.h"

#include <inttypes.h>

enum durable_look {
	DURABLE_SAVED,
	DURABLE_ENDED,
	DURABLE_NOT_YET
};

static enum durable_look durable_look(struct node *node, const struct op *op)
{
	const struct master *master = &node->master;
	uint32_t slot = master_find(master, &op->key);
	uint32_t entry = master_disk_find(master, &op->key);

	if (slot != SLOT_NONE && node->share->slots[slot].generation == op->generation) {
		if (master_is_saved(master, slot) ||
			(PLANTED(EARLY_DURABLE) &&
				master->objects[slot].disk != DISK_NONE))
			return DURABLE_SAVED;
		master_save_first(&node->master, slot);
		return DURABLE_NOT_YET;
	}
	if (entry != DISK_NONE &&
		disk_entry(&master->disk, entry)->generation == op->generation)
		return DURABLE_SAVED;
	return DURABLE_ENDED;
}

/* Why it cannot be saved: a write that failed since it asked, or the deadline; 0: neither. */
static int durable_failure(const struct node *node, const struct op *op)
{
	const struct disk *disk = &node->master.disk;
	bool is_late = node_now(node) >= op->deadline;
	struct disk_use use;

	if (disk->error != 0 &&
		(is_late || disk->retry_ns >= time_after(op->began, DISK_RETRY_NS)))
		return disk->error;
	if (!is_late)
		return 0;
	master_disk_use(&node->master, &use);
	return use.free + use.cache_bytes < op->size ? ERR_NO_SPACE : ERR_TIMEOUT;
}

static void durable_answer_failed(struct node *node, struct op *op)
{
	int err = op->put_failure;
	struct disk_use use;

	node->stats.timeouts += err == ERR_TIMEOUT;
	master_disk_use(&node->master, &use);
	op_error(node, op, err,
		"not put, since %" PRIu64
		" bytes could not be made durable: %s; of %" PRIu64
		" bytes on disk %" PRIu64 " are free",
		op->size,
		err == ERR_TIMEOUT ? "the disk did not take them in time" : err_text(err),
		use.size, use.free);
}

/* Not here any more from now on, so that a repeat of it is not answered by what goes. */
static void durable_undo(struct node *node, struct op *op, int err)
{
	uint64_t generation;

	put_undo(node, op, err);
	if (master_end_generation(
		    &node->master, &op->key, op->ends, node_now(node), &generation) != 0)
		return;
	op->found = true;
	waiters_wake(node, op->key.hash);
}

/* True: it waits, or has answered. False: it has failed. */
static bool durable_wait(struct node *node, struct op *op)
{
	int err;

	waiters_del(op);
	switch (durable_look(node, op)) {
	case DURABLE_SAVED:
		put_is_saved(node, op);
		return true;
	case DURABLE_ENDED:
		op_done(node, op, op->generation);
		return true;
	case DURABLE_NOT_YET:
		break;
	}
	err = durable_failure(node, op);
	if (err == 0)
		waiters_add(node, op);
	else
		durable_undo(node, op, err);
	return err == 0;
}

void durable_run(struct node *node, struct op *op)
{
	if (op->put_failure == 0 && durable_wait(node, op))
		return;
	if (op->undoing ? put_undo_run(node, op) : !end_waits(node, op))
		durable_answer_failed(node, op);
}
