/*
 * swept.c - prefixes under which this node has ended all that was older lately, or does so now.
 *
 *   swept_add (each walk of a removal by prefix) -> SWEPT_NS long, or until SWEPT_LIMIT others came
 *
 * Other nodes may still be removing there what they keep. What one of them handed to this node
 * meanwhile would come after its walk, or behind it, and stay. So this one takes nothing of it
 * over (flow_keep.c), and the giver, which keeps it still, ends it.
 *
 * The bound is the generation that the call began with, not what this node's own walk ends:
 * what a peer puts after it was asked is above the former alone, if the clock here is ahead.
 */
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>

#define SWEPT_NS    60000000000ull
#define SWEPT_LIMIT 1024u

static struct swept *swept_of(struct list *entry)
{
	return container_of(entry, struct swept, entry);
}

static void swept_forget(struct node *node, uint64_t now)
{
	struct cluster *cluster = &node->cluster;
	struct list *first;

	while ((first = list_first(&cluster->swept)) != NULL &&
		(now >= swept_of(first)->until_ns ||
			cluster->swept_count > SWEPT_LIMIT)) {
		list_del(first);
		free(swept_of(first));
		cluster->swept_count--;
	}
}

static struct swept *swept_find(const struct node *node, struct msg_bytes prefix)
{
	list_for_each (at, &node->cluster.swept) {
		struct swept *swept = swept_of(at);

		if (swept->size == prefix.size &&
			memcmp(swept->prefix, prefix.data, prefix.size) == 0)
			return swept;
	}
	return NULL;
}

static struct swept *swept_new(struct node *node, struct msg_bytes prefix)
{
	struct swept *swept = malloc(sizeof(*swept) + prefix.size);

	if (swept == NULL)
		return NULL;
	list_init(&swept->entry);
	swept->before = 0;
	swept->size = (uint32_t)prefix.size;
	if (prefix.size > 0)
		memcpy(swept->prefix, prefix.data, prefix.size);
	node->cluster.swept_count++;
	return swept;
}

void swept_add(struct node *node, struct msg_bytes prefix, uint64_t before)
{
	uint64_t now = node_now(node);
	struct swept *swept;

	if (!node->cluster.there)
		return;
	swept = swept_find(node, prefix);
	if (swept == NULL)
		swept = swept_new(node, prefix);
	if (swept == NULL)
		return;
	swept->before = MAX(swept->before, before);
	swept->until_ns = now + SWEPT_NS;
	list_move_tail(&node->cluster.swept, &swept->entry);
	swept_forget(node, now);
}

bool swept_has(struct node *node, const struct index_key *key, uint64_t generation)
{
	swept_forget(node, node_now(node));
	list_for_each (at, &node->cluster.swept) {
		const struct swept *swept = swept_of(at);

		if (generation < swept->before && key->size >= swept->size &&
			memcmp(key->data, swept->prefix, swept->size) == 0)
			return true;
	}
	return false;
}
