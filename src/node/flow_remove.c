/*
 * flow_remove.c - end an object: REMOVE by key, TAKE of the one that the caller holds, READ
 * when the last of its counted reads has ended.
 *
 *   START -> (core condemns) -> ENDED -> answer
 *
 * All answer at once, whoever reads: the bytes go with the last hold.
 */
#include "node/node_priv.h"

#include <inttypes.h>

enum remove_state {
	REMOVES_START,
	REMOVES_ENDED
};

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
	char key[NODE_KEY_TEXT];

	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_CONDEMN))
			return;
		if (master_remove(&node->master, &op->key, node_now(node)) != 0) {
			op_error(node, op, ERR_NOT_FOUND, "no object under the key %s",
				key_text(op->key.data, op->key.size, key));
			return;
		}
		/* A doomed put passes the key on to who waits for it. */
		waiters_wake(node, op->key.hash);
		op->state = REMOVES_ENDED;
	}
	if (op_gate(node, op, FAULT_NODE_AFTER_CONDEMN))
		op_done(node, op, 0);
}

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
	if (op->slot >= node_slots(node))
		return ERR_NOT_FOUND;
	op->generation = node->share->slots[op->slot].generation;
	return master_take(&node->master, op->slot, op->life, op_client_ref(node, op),
		op->number, node_now(node));
}

void take_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_TAKE_CONDEMN))
			return;
		if (take_end(node, op) != 0) {
			op_error(node, op, ERR_NOT_FOUND,
				"slot %" PRIu32
				" has not that object any more: somebody else "
				"removed or took it",
				op->slot);
			return;
		}
		op->state = REMOVES_ENDED;
	}
	if (op_gate(node, op, FAULT_NODE_AFTER_TAKE_CONDEMN))
		op_done(node, op, op->generation);
}

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
		op->state = REMOVES_ENDED;
	}
	if (op_gate(node, op, FAULT_NODE_AFTER_READ_COUNT))
		op_done(node, op, 0);
}
