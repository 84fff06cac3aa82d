/*
 * superseded.c - what an announcement has replaced in the directory ends where it is held.
 *
 *   superseded_add --the key is known--> its holders are told
 *        '--it is only on disk--> [waits its turn] --read--> its holders are told
 *
 * The directory knows keys by their ids alone, and holders are told the key. Of what is only on
 * disk it is read from there, one after the other, as it seldom comes to that.
 */
#include "node/node_priv.h"

#include <stdlib.h>

static void superseded_tell(struct node *node, const struct held *held,
	const struct dir_entry *old, struct msg_bytes key)
{
	if (old->generation > held->generation)
		holders_give_way(node, key.data, (uint32_t)key.size, old);
	else
		holders_drop(node, key.data, (uint32_t)key.size, old);
}

void superseded_add(struct node *node, const struct held *held,
	const struct dir_entry *old, struct msg_bytes key)
{
	struct superseded *superseded;

	if (key.data != NULL) {
		superseded_tell(node, held, old, key);
		return;
	}
	superseded = malloc(sizeof(*superseded));
	if (superseded == NULL)
		return;
	*superseded = (struct superseded){.held = *held, .old = *old};
	list_add_tail(&node->cluster.superseded, &superseded->entry);
}

static struct superseded *superseded_first(const struct node *node)
{
	struct list *first = list_first(&node->cluster.superseded);

	return first != NULL ? container_of(first, struct superseded, entry) : NULL;
}

static void superseded_free(struct superseded *superseded)
{
	list_del(&superseded->entry);
	free(superseded);
}

static void superseded_key_came(
	struct node *node, struct op *op, const struct job *job, int err)
{
	struct superseded *superseded = superseded_first(node);
	struct keys_at at = {.i = 0};
	struct msg_bytes key;

	(void)op;
	node->cluster.superseded_is_read = false;
	if (err == 0 && keys_next(node, job, &at, &key))
		superseded_tell(node, &superseded->held, &superseded->old, key);
	else if (master_held_entry(&node->master, &superseded->held) == DISK_NONE)
		return; /* it is in the pool by now, where the next step finds its key */
	superseded_free(superseded);
}

void superseded_step(struct node *node)
{
	struct superseded *superseded;

	while (!node->cluster.superseded_is_read &&
		(superseded = superseded_first(node)) != NULL) {
		const struct held *held = &superseded->held;
		const struct slot *there;
		uint32_t slot;

		if (!master_held_find(&node->master, held, &slot)) {
			superseded_free(
				superseded); /* whoever ended it since knew the key */
			continue;
		}
		if (slot == SLOT_NONE) {
			node->cluster.superseded_is_read = keys_ask_one(node,
				master_held_entry(&node->master, held),
				superseded_key_came);
			return;
		}
		there = &node->share->slots[slot];
		superseded_tell(node, held, &superseded->old,
			(struct msg_bytes){slot_key(node->share, there), there->klen});
		superseded_free(superseded);
	}
}
