/*
 * waiters.c - who waits for a key to be put, or for another put of it to end.
 *
 * Ops are hashed by their key and woken by its hash alone: whoever is woken looks again,
 * and waits again if it was for nothing. Those of one key stay in the order of arrival.
 */
#include "node/node_priv.h"

struct list *waiters_bucket(const struct node *node, uint64_t hash)
{
	return &node->waiting[hash % NODE_WAIT_BUCKETS];
}

void waiters_add(struct node *node, struct op *op)
{
	node->stats.waits_key++;
	list_move_tail(waiters_bucket(node, op->key.hash), &op->wait_entry);
	op_set_deadline(node, op);
}

void waiters_add_for_bytes(struct node *node, struct op *op)
{
	uint64_t now = node_now(node);

	waiters_add(node, op);
	if (op->parent != NULL)
		heap_set(&node->timers, timer_of_op(node, op),
			MIN(op->deadline,
				time_after(now, MAX(now - op->began, WAIT_STUCK_NS))));
}

void waiters_del(struct op *op)
{
	list_del(&op->wait_entry);
	list_del(&op->id_entry);
}

void waiters_wake(struct node *node, uint64_t hash)
{
	list_for_each (at, waiters_bucket(node, hash)) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->key.hash == hash)
			op_wake(node, op);
	}
}

void waiters_wake_all(struct node *node)
{
	for (uint32_t i = 0; i < NODE_WAIT_BUCKETS; i++) {
		list_for_each (at, &node->waiting[i])
			op_wake(node, container_of(at, struct op, wait_entry));
	}
}
