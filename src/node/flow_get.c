/*
 * flow_get.c - answer a reader whose own look into the shared index found nothing.
 *
 *   START --found--> pin -> answer FOUND; the reader turns the pin into a hold, and
 * unpins |  ^--woken-- KEY
 *     '--absent--> NOT_FOUND, or wait for the key if asked
 */
#include "node/node_priv.h"

#include <inttypes.h>

enum get_state {
	GETS_START,
	GETS_LOOK
};

int get_decode(struct op *op)
{
	struct msg_get msg;
	int err = msg_get_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->flags = msg.flags;
	op->deadline = msg.timeout_ns; /* a duration until get_run() */
	return 0;
}

static void get_found(struct node *node, struct op *op, uint32_t slot)
{
	uint64_t state = atomic_load_explicit(
		&node->share->slots[slot].state, memory_order_relaxed);
	struct msg_found msg = {.slot = slot, .life = slot_life_of(state)};
	uint64_t limit;

	if (lane_pin(node, op->lane, slot, &limit) != 0) {
		op_error(node, op, ERR_TOO_MANY,
			"%" PRIu64 " answers wait to be taken up, which is the limit",
			limit);
		return;
	}
	op_reply(node, op, msg_found_encode(node->out, sizeof(node->out), &msg));
}

static void get_absent(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	key_text(op->key.data, op->key.size, key);
	if (!(op->flags & GET_WAIT)) {
		op_error(node, op, ERR_NOT_FOUND, "no object under the key %s", key);
		return;
	}
	if (node_now(node) < op->deadline) {
		waiters_add(node, op);
		return;
	}
	node->stats.timeouts++;
	op_error(node, op, ERR_TIMEOUT, "the key %s was not put in time", key);
}

void get_run(struct node *node, struct op *op)
{
	uint32_t slot;

	if (op->state == GETS_START) {
		op->deadline = time_after(node_now(node), op->deadline);
		op->state = GETS_LOOK;
	}
	waiters_del(op);
	slot = master_find(&node->master, &op->key);
	if (slot == SLOT_NONE)
		get_absent(node, op);
	else
		get_found(node, op, slot);
}

void get_cancel(struct node *node, struct op *op)
{
	(void)node;
	waiters_del(op);
}
