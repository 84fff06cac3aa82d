/*
 * flow_remove.c - end an object: REMOVE by key, TAKE of the one that the caller holds, READ
 * when the last of its counted reads has ended.
 *
 *   START -> (core condemns) -> ENDED -> answer
 *                                 '--it is on disk--> DISK --the drop is committed--> answer
 *
 * They wait for no reader: the bytes go with the last hold. They wait for the disk, since
 * what was answered must not come back after a restart; so does who finds that somebody
 * else has just ended it.
 */
#include "node/node_priv.h"

#include <inttypes.h>

enum remove_state {
	REMOVES_START,
	REMOVES_ENDED,
	REMOVES_DISK
};

/* ---- the disk ------------------------------------------------------------ */

static void end_answer(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (op->failure != 0)
		op_error(node, op, op->failure, "no object under the key %s",
			key_text(op->key.data, op->key.size, key));
	else
		op_done(node, op, op->generation);
}

/* The record may be on disk for longer than anyone should wait. */
static void end_late(struct node *node, struct op *op)
{
	int error = node->master.disk.error;

	node->stats.timeouts++;
	op_error(node, op, ERR_IO,
		"removed here, but its record on disk could not be deleted yet (%s); it "
		"will be",
		error != 0 ? err_text(error) : "the disk is slow");
}

bool end_waits(struct node *node, struct op *op)
{
	waiters_del(op);
	if (!master_disk_ends(&node->master, &op->key))
		return false;
	if (node_now(node) < op->deadline)
		waiters_add(node, op);
	else
		end_late(node, op);
	return true;
}

static void end_on_disk(struct node *node, struct op *op)
{
	if (op->state != REMOVES_DISK) {
		op->state = REMOVES_DISK;
		op->deadline = time_after(node_now(node), END_WAIT_NS);
	}
	if (!end_waits(node, op))
		end_answer(node, op);
}

/* ---- REMOVE -------------------------------------------------------------- */

int remove_decode(struct op *op)
{
	struct msg_remove msg;
	int err = msg_remove_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	return 0;
}

void remove_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_CONDEMN))
			return;
		op->failure = master_remove(&node->master, &op->key, node_now(node));
		/* A doomed put passes the key on to who waits for it. */
		if (op->failure == 0)
			waiters_wake(node, op->key.hash);
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED && op->failure == 0 &&
		!op_gate(node, op, FAULT_NODE_AFTER_CONDEMN))
		return;
	end_on_disk(node, op);
}

void remove_cancel(struct node *node, struct op *op)
{
	(void)node;
	waiters_del(op);
}

/* ---- TAKE ---------------------------------------------------------------- */

int take_decode(struct op *op)
{
	struct msg_take msg;
	int err = msg_take_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->slot = msg.slot;
	op->life = msg.life;
	op->number = msg.op;
	return 0;
}

static int take_end(struct node *node, struct op *op)
{
	int err = 0;

	if (!master_is_life(&node->master, op->slot, op->life))
		return ERR_NOT_FOUND;
	op->generation = node->share->slots[op->slot].generation;
	if (tier_is_there(node)) /* the slot may be another's when the disk is done */
		err = op_own_key(op, node->share, op->slot);
	if (err == 0)
		err = master_take(&node->master, op->slot, op->life,
			op_client_ref(node, op), op->number, node_now(node));
	return err;
}

void take_run(struct node *node, struct op *op)
{
	int err;

	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_TAKE_CONDEMN))
			return;
		err = take_end(node, op);
		if (err != 0) {
			op_error(node, op, err,
				err == ERR_NOT_FOUND
					? "slot %" PRIu32 " has not that object any "
					  "more: somebody else removed or took it"
					: "slot %" PRIu32 ": no memory for its key",
				op->slot);
			return;
		}
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED &&
		!op_gate(node, op, FAULT_NODE_AFTER_TAKE_CONDEMN))
		return;
	end_on_disk(node, op);
}

/* ---- READ ---------------------------------------------------------------- */

int read_decode(struct op *op)
{
	struct msg_read msg;
	int err = msg_read_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->generation = msg.generation;
	op->number = msg.sequence;
	return 0;
}

void read_run(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_READ_COUNT))
			return;
		if (master_read_ended(&node->master, op->lane->client->cid, op->number,
			    &op->key, op->generation, node_now(node)) != 0) {
			op_error(node, op, ERR_NOT_FOUND,
				"no object that counts its reads under the key %s",
				key_text(op->key.data, op->key.size, key));
			return;
		}
		op->generation = 0;
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED && !op_gate(node, op, FAULT_NODE_AFTER_READ_COUNT))
		return;
	end_on_disk(node, op);
}
