/*
 * drain.c - a node is emptied, so that it can be taken away: DRAIN.
 *
 *   OFF --DRAIN--> WALK --all that is kept was met, and there was some--> WALK, in a while
 *                   | ^--------- its key came ----------.
 *                   | '-met what is only on disk--> KEY-'
 *                   '--nothing is kept, and no put or claim is under way--> EMPTY
 *   any --DRAIN, to end it--> OFF
 *
 * A node that is drained refuses puts and takes over nothing. What it keeps goes to peers as
 * by a swapout, as many at a time; what is only on disk they have read back piece by piece
 * (flow_replica.c). What is durable goes to peers that have a disk, and stays while there is none.
 * Copies and cache objects stay, for nobody has a right to them. It is forgotten with the daemon: a restarted one serves again.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>

#define DRAIN_BUDGET  1024u /* places that one look at what is held passes */
#define DRAIN_AT_ONCE 64u   /* looks of a step */

/* ---- what is offered ----------------------------------------------------- */

/* The walk goes on in any case: what was not offered is met by the next. */
static void drain_key_came(
	struct node *node, struct op *op, const struct job *job, int err)
{
	struct drain *drain = &node->cluster.drain;
	struct keys_at at = {0};
	struct msg_bytes key;
	struct disk_id id;
	struct held held;

	(void)op;
	if (drain->state != DRAIN_KEY)
		return; /* it was ended meanwhile */
	drain->state = DRAIN_WALK;
	if (err != 0)
		drain->retry_ns = node_now(node) + CLUSTER_RETRY;
	if (err != 0 || !keys_next(node, job, &at, &key))
		return;
	held = drain->held;
	id = disk_id_of(key.data, (uint32_t)key.size);
	if (id.word[0] != held.id.word[0] || id.word[1] != held.id.word[1])
		return; /* it came back into the pool, and another is next */
	if (swapout_offer(node, &held, SLOT_NONE, key,
		    master_run_bytes(held.size, (uint32_t)key.size)))
		return;
	/* None has room: its key is not read again before they have said so once more. */
	drain->cursor = drain->before;
	drain->retry_ns = node_now(node) + BEAT_NS;
}

/* False: not now. */
static bool drain_offer(struct node *node, const struct held *held)
{
	struct drain *drain = &node->cluster.drain;
	const struct slot *there;
	struct msg_bytes key;
	uint32_t slot;

	if (!master_held_find(&node->master, held, &slot) || swapout_has(node, held))
		return true;
	if (swapout_needs_disk(node, held)) {
		drain->need_disk++;
		return true;
	}
	if (slot == SLOT_NONE) {
		if (!swapout_is_free(node) ||
			!keys_ask_one(node, master_held_entry(&node->master, held),
				drain_key_came))
			return false;
		drain->held = *held;
		drain->state = DRAIN_KEY;
		return true;
	}
	there = &node->share->slots[slot];
	key = (struct msg_bytes){slot_key(node->share, there), there->klen};
	return swapout_offer(
		node, held, slot, key, master_run_bytes(held->size, (uint32_t)key.size));
}

/* ---- the walk ------------------------------------------------------------ */

static bool any_put_under_way(const struct node *node)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (node->master.writing[cid].count > 0)
			return true;
	}
	return false;
}

static void drain_walked(struct node *node)
{
	struct drain *drain = &node->cluster.drain;
	bool any = drain->any || node->cluster.keeping > 0 || any_put_under_way(node) ||
		   node->cluster.rebuilder.pass == REBUILD_CLAIMS ||
		   node->cluster.rebuilder.looking > 0;

	drain->cursor = 0;
	drain->any = false;
	drain->needed_disk = drain->need_disk;
	drain->need_disk = 0;
	if (any && !PLANTED(EMPTY_EARLY)) {
		drain->retry_ns = node_now(node) + CLUSTER_RETRY;
		return;
	}
	drain->state = DRAIN_EMPTY;
	log_line(node->config.log, LOG_LEVEL_INFO, "drained",
		"handed=%" PRIu64 " bytes=%" PRIu64
		" msg=\"this node keeps nothing any more\"",
		node->master.cluster.handed, node->master.cluster.handed_bytes);
}

/* One look at what is held. False: not now. */
static bool drain_look(struct node *node)
{
	struct drain *drain = &node->cluster.drain;
	struct held held;

	if (drain->state != DRAIN_WALK || drain->retry_ns > node_now(node))
		return false;
	if (drain->cursor == UINT64_MAX) {
		drain_walked(node);
		return false;
	}
	drain->before = drain->cursor;
	if (!master_held_next(&node->master, &drain->cursor, DRAIN_BUDGET, &held) ||
		!held.softpin || held.secondary)
		return true;
	drain->any = true;
	if (drain_offer(node, &held))
		return true;
	drain->cursor = drain->before;
	return false;
}

bool drain_step(struct node *node)
{
	for (uint32_t i = 0; i < DRAIN_AT_ONCE; i++) {
		if (!drain_look(node))
			return false;
	}
	return true;
}

uint64_t drain_next(const struct node *node)
{
	const struct drain *drain = &node->cluster.drain;

	/* Else an answer or a beat is what it waits for. */
	return drain->state == DRAIN_WALK && drain->retry_ns > node_now(node)
		       ? drain->retry_ns
		       : UINT64_MAX;
}

/* ---- for people ---------------------------------------------------------- */

bool node_is_drained(const struct node *node)
{
	return node->cluster.drain.state != DRAIN_OFF || node_is_leaving(node);
}

const char *drain_state_text(const struct node *node)
{
	switch (node->cluster.drain.state) {
	case DRAIN_OFF:
		return "off";
	case DRAIN_WALK:
	case DRAIN_KEY:
		return "moving";
	case DRAIN_EMPTY:
		return "empty";
	}
	NOT_REACHED("no such state");
}

uint64_t drain_left(const struct node *node)
{
	uint64_t count = 0;

	for (uint32_t slot = 0; slot < node->master.slots_used; slot++)
		count += node_is_ready(node, slot) &&
			 (node->share->slots[slot].flags &
				 (SLOT_SOFTPIN | SLOT_SECONDARY)) == SLOT_SOFTPIN;
	return count;
}

void drain_run(struct node *node, struct op *op)
{
	struct drain *drain = &node->cluster.drain;
	struct msg_drain msg;

	if (msg_drain_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	if (!node->cluster.there) {
		op_error(node, op, ERR_NOT_SUPPORTED,
			"this node is alone: what it keeps has nowhere to go "
			"(--directory)");
		return;
	}
	if (msg.begin != 0 && drain->state == DRAIN_OFF)
		*drain = (struct drain){.state = DRAIN_WALK};
	if (msg.begin == 0)
		drain->state = DRAIN_OFF;
	log_line(node->config.log, LOG_LEVEL_INFO, "drain", "state=%s",
		drain_state_text(node));
	op_done(node, op, 0);
}
