/*
 * put_refusal.c - why a put was not done, in words: the answers of flow_put.c that end it.
 */
#include "node/node_priv.h"

#include <inttypes.h>
#include <stdio.h>

void put_refuse_large(struct node *node, struct op *op)
{
	uint64_t largest = master_largest(&node->master, op->key.size);

	op_error(node, op, ERR_TOO_LARGE,
		"an object of %" PRIu64 " bytes under a key of %" PRIu32
		" bytes; the largest that this pool of %" PRIu64
		" bytes can have is %" PRIu64,
		op->size, op->key.size, node->share->header->pool_size, largest);
}

/* `slot` SLOT_NONE: it is only on disk. */
void put_answer_exists(struct node *node, struct op *op, uint32_t slot)
{
	uint32_t entry = slot == SLOT_NONE ? master_disk_find(&node->master, &op->key)
					   : DISK_NONE;
	uint64_t size = slot != SLOT_NONE    ? node->share->slots[slot].size
			: entry != DISK_NONE ? disk_entry(&node->master.disk, entry)->size
					     : 0;
	char key[NODE_KEY_TEXT];

	op_error(node, op, ERR_EXISTS, "the key %s has an object of %" PRIu64 " bytes%s",
		key_text(op->key.data, op->key.size, key), size,
		slot == SLOT_NONE ? ", on disk" : "");
}

/* What keeps the disk from taking what may leave for it. */
static const char *put_disk_text(
	const struct node *node, uint64_t size, char *text, size_t text_size)
{
	struct disk_use use;

	if (!tier_is_there(node))
		return "there is no disk (--disk)";
	master_disk_use(&node->master, &use);
	if (use.error == ERR_NO_SPACE)
		return "its file system is full, or the index (an eighth of --disk-size)";
	if (use.error != 0)
		return err_text(use.error);
	if (use.objects >= use.object_limit)
		(void)snprintf(text, text_size,
			"the disk has %" PRIu64
			" objects, which is the limit (--disk-objects)",
			use.objects);
	else if (use.largest_hole < size)
		(void)snprintf(text, text_size,
			"the disk is full: of %" PRIu64 " bytes (--disk-size) %" PRIu64
			" are free, at most %" PRIu64 " of them in one piece",
			use.size, use.free, use.largest_hole);
	else
		(void)snprintf(text, text_size, "the disk takes them");
	return text;
}

/* The same of other nodes. */
static const char *put_peers_text(const struct node *node)
{
	if (!node->cluster.there)
		return "";
	return node->master.hand.limit > 0 ? "; peers take some of them"
					   : "; no peer has room for one of them";
}

void put_no_room(struct node *node, struct op *op)
{
	struct pool_use use;
	char disk[160];

	master_use(&node->master, &use);
	master_room_cancel(&node->master, &op->ticket);
	op_error(node, op, ERR_NO_SPACE,
		"no room for %" PRIu64 " bytes until the deadline: of %" PRIu64
		" bytes %" PRIu64 " are free, the largest hole has %" PRIu64 "; %" PRIu64
		" are of objects that may not leave (softpin) before they are on disk%s: "
		"%s%s; %" PRIu64 " held or ended and still held, %" PRIu64
		" being written; %" PRIu64 " stay free of puts, for reading back the "
		"largest object that has left the pool",
		op->size, use.size, use.free, use.largest_hole,
		use.dirty + use.spent + use.large + use.saving,
		node->cluster.there ? " or another node" : "",
		put_disk_text(node, op->size, disk, sizeof(disk)), put_peers_text(node),
		use.parked + use.condemned, use.writing, use.turning);
}

void put_is_late(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	op_error(node, op, ERR_TIMEOUT,
		master_disk_ends(&node->master, &op->key)
			? "what was removed under the key %s was not deleted from the "
			  "disk "
			  "in time"
			: "another put of the key %s did not end in time",
		key_text(op->key.data, op->key.size, key));
}

void put_end_failed(struct node *node, struct op *op, int err)
{
	op->slot = SLOT_NONE;
	switch (err) {
	case ERR_TIMEOUT:
		op_error(node, op, err, "the put's own deadline passed before its end");
		return;
	case ERR_REMOVED:
		op_error(node, op, err, "the key was removed before its put ended");
		return;
	default:
		op_error(node, op, err,
			"no put of this client is under way there; it was aborted, "
			"or the pool is another one");
		return;
	}
}
