/*
 * flow_drop.c - what other nodes ask this one to end.
 *
 *   DROP     START -> (core condemns) -> ENDED -> PUT -> DISK -> answer
 *   READ_AT  START -> (core counts) --the last of `readers`--> removed everywhere -> answer
 *
 * Who asks to drop one generation has taken the entry out of the directory, or will: nobody
 * else is asked.
 */
#include "node/remove_priv.h"

#include <inttypes.h>

/* ---- DROP ---------------------------------------------------------------- */

int drop_decode(struct op *op)
{
	struct msg_drop msg;
	int err = msg_drop_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->ends = msg.generation;
	op->before = msg.before;
	return 0;
}

static int drop_end(struct node *node, struct op *op)
{
	fetches_end(node, &op->key, op->ends);
	if (op->ends == 0)
		return master_end_below(&node->master, &op->key, op->before,
			node_now(node), &op->generation);
	return master_end_generation(
		&node->master, &op->key, op->ends, node_now(node), &op->generation);
}

/* Whoever was away may bring it back when the directory has forgotten that it was removed. It may
 * have forgotten by now: then what this node announces, and has on its way, would stand there as
 * what nobody has any more, and who asks to end it may not know of that. */
static void drop_bury(struct node *node, struct op *op)
{
	struct dir_id id = dir_id_of_key(op->key.data, op->key.size);

	if (op->failure == 0)
		grave_dig(node, op->key.data, op->key.size, op->ends, GRAVE_OBJECT, 0);
	if (complete_epoch(node, &id) == 0)
		errand_simple(node, ERRAND_BURY, &id, op->ends);
}

/* True: it waits, or has answered. */
static bool drop_is_held_up(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	waiters_del(op);
	if (!publish_holds_up(node, &op->key, op->ends))
		return false;
	if (node_now(node) < op->deadline)
		waiters_add(node, op);
	else
		op_error(node, op, ERR_UNAVAILABLE,
			"removed here, but what it had replaced under the key %s is not "
			"over everywhere yet",
			key_text(op->key.data, op->key.size, key));
	return true;
}

void drop_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_CONDEMN))
			return;
		op->failure = drop_end(node, op);
		/* A doomed put passes the key on to who waits for it. */
		if (op->failure == 0)
			waiters_wake(node, op->key.hash);
		if (op->ends != 0 && op->before != 0)
			drop_bury(node, op);
		/* Who asks all cannot reach the directory; this node may. */
		if (op->failure == 0 && op->ends == 0 && op->generation != 0)
			bury_later(node, op->key.data, op->key.size, op->generation,
				GRAVE_OBJECT);
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED) {
		if (op->failure == 0 && !op_gate(node, op, FAULT_NODE_AFTER_CONDEMN))
			return;
		op->state = REMOVES_PUT;
		op->deadline = time_after(node_now(node), END_WAIT_NS);
	}
	if (op->state == REMOVES_PUT && drop_is_held_up(node, op))
		return;
	end_on_disk(node, op);
}

/* ---- READ_AT ------------------------------------------------------------- */

int read_at_decode(struct op *op)
{
	struct msg_read_at msg;
	int err = msg_read_at_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->generation = msg.generation;
	return 0;
}

/* False: it has answered. */
static bool read_at_count(struct node *node, struct op *op)
{
	uint64_t before = generation_here(node, &op->key);
	char key[NODE_KEY_TEXT];

	if (master_read_counted(
		    &node->master, &op->key, op->generation, node_now(node)) == 0) {
		read_counted(node, op, before);
		return true;
	}
	op_error(node, op, ERR_NOT_FOUND,
		"no object that counts its reads under the key %s on this node",
		key_text(op->key.data, op->key.size, key));
	return false;
}

void read_at_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_READ_COUNT))
			return;
		if (!read_at_count(node, op))
			return;
	}
	if (op->state == REMOVES_CLUSTER) {
		if (!removal_run(node, op))
			return;
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED && !op_gate(node, op, FAULT_NODE_AFTER_READ_COUNT))
		return;
	op->generation = 0;
	end_on_disk(node, op);
}
