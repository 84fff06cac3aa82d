/*
 * flow_replica.c - what other nodes ask of what this one has: REPLICA_ASK, UNLEASE, HAVE.
 *
 *   START --in the pool----------------------------------> a small value, or lease and ticket
 *     |  ^--woken-- KEY     a put of this generation is about to be READY
 *     |--on disk--> LOAD (flow_load.c) --pinned----------> the same
 *     '--not here-> NOT_FOUND; it is never looked for on yet other nodes
 *
 * A lease ends when it is given back, or by itself; the ticket is good for one transfer, and
 * whoever serves that looks at the lease before and after each piece.
 */
#include "node/fetch_priv.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/plant.h"

#include <inttypes.h>
#include <string.h>

enum replica_state {
	REPLICAS_START,
	REPLICAS_LOOK
};

/* ---- REPLICA_ASK --------------------------------------------------------- */

int replica_ask_decode(struct op *op)
{
	struct msg_replica_ask msg;
	int err = msg_replica_ask_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->generation = msg.generation;
	op->deadline = msg.timeout_ns; /* a duration until replica_run() */
	op->number = msg.inline_limit;
	op->found = msg.may_leave != 0;
	return 0;
}

/* Of a small value it is made once, for all who read it elsewhere; of a large one each piece
 * has its own on the way. */
static uint64_t replica_checksum(struct node *node, struct slot *slot)
{
	const void *key = slot_key(node->share, slot);

	if (slot->checksum == 0 && slot->size <= INLINE_LIMIT)
		slot->checksum = hash_key(node->share->pool + slot->off, slot->size,
			hash_key(key, slot->klen, 0));
	return slot->checksum;
}

static uint64_t slot_expires_in(const struct node *node, const struct slot *slot)
{
	uint64_t now = node_now(node);

	if (!(slot->flags & SLOT_EXPIRES))
		return UINT64_MAX;
	return slot->expires > now ? slot->expires - now : 0;
}

/* 0, or ERR_TOO_MANY: nothing was promised. */
static int replica_promise(struct node *node, uint32_t slot, struct msg_replica *msg)
{
	const struct slot *there = &node->share->slots[slot];
	const struct peer_offer offer = {
		.slot = slot,
		.life = node_life(node, slot),
		.generation = there->generation,
		.off = there->off,
		.size = there->size,
	};
	struct peer_ticket ticket;
	struct lease_token token;
	int err;

	msg->length_ns = lease_length(node, 0, there->size);
	token = master_lease(&node->master, slot, msg->length_ns, node_now(node));
	err = node->env.peer.offer(node->env.peer.ctx, &offer, &ticket);
	if (err != 0) {
		(void)master_lease_release(&node->master, &token, node_now(node));
		return err;
	}
	msg->epoch = token.epoch;
	msg->life = token.life;
	msg->slot = token.slot;
	msg->grant = token.grant;
	memcpy(msg->ticket, ticket.bytes, sizeof(msg->ticket));
	return 0;
}

static void replica_answer(struct node *node, struct op *op, uint32_t slot)
{
	struct slot *there = &node->share->slots[slot];
	struct msg_replica msg = {
		.generation = there->generation,
		.size = there->size,
		.checksum = replica_checksum(node, there),
		.expires_in_ns = slot_expires_in(node, there),
		.flags = (there->flags & SLOT_SOFTPIN ? PUT_SOFTPIN : 0u) |
			 (there->flags & SLOT_DURABLE ? PUT_DURABLE : 0u) |
			 (there->counted ? REPLICA_COUNTED : 0u),
		.readers_left = there->readers_left,
		.wanted = PLANTED(FORGOTTEN_WANTED) ? 1 : there->wanted,
	};

	node->cluster.stats.replicas++;
	if (there->size <= MIN(op->number, (uint64_t)INLINE_LIMIT)) {
		msg.value = (struct msg_bytes){
			node->share->pool + there->off, there->size};
		node->cluster.stats.replicas_inline++;
	} else if (replica_promise(node, slot, &msg) != 0) {
		op_error(node, op, ERR_TOO_MANY,
			"too many transfers to other nodes are under way");
		return;
	}
	op_reply(node, op, msg_replica_encode(node->out, sizeof(node->out), &msg));
}

/* The directory may have this node for somebody who has it: it is told otherwise, by this node
 * itself, so that it does not undo what this node says later. */
static void replica_leave(struct node *node, const struct op *op)
{
	if (op->found && op->generation != 0 &&
		!fetch_takes_leave(node, &op->id, op->generation))
		errand_leave(node, &op->id, op->key.hash, op->generation);
}

static void replica_absent(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	replica_leave(node, op);
	op_error(node, op, ERR_NOT_FOUND,
		"generation %" PRIu64 " of the key %s is not on this node",
		op->generation, key_text(op->key.data, op->key.size, key));
}

/* It is being put, and known to the directory already. */
static void replica_wait(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	load_leave(node, op);
	if (node_now(node) < op->deadline) {
		waiters_add(node, op);
		return;
	}
	node->stats.timeouts++;
	op_error(node, op, ERR_NOT_READY, "the put of the key %s has not ended yet",
		key_text(op->key.data, op->key.size, key));
}

static bool is_wanted(const struct op *op, uint64_t generation)
{
	return op->generation == 0 || op->generation == generation;
}

static void replica_look(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);
	uint32_t entry = master_disk_find(&node->master, &op->key);

	if (slot != SLOT_NONE && is_wanted(op, node->share->slots[slot].generation)) {
		load_leave(node, op);
		replica_answer(node, op, slot);
	} else if (slot == SLOT_NONE && entry != DISK_NONE &&
		   is_wanted(op, disk_entry(&node->master.disk, entry)->generation)) {
		get_load(node, op, entry);
	} else if (op->generation != 0 && put_is_named(node, &op->key, op->generation)) {
		replica_wait(node, op);
	} else {
		load_leave(node, op);
		replica_absent(node, op);
	}
}

static void replica_unpin(struct node *node, struct op *op)
{
	lane_unpin(node, op->lane, op->slot, op->life);
	op->slot = SLOT_NONE;
}

/* The load has pinned op->slot; it may be removed since. */
static void replica_loaded(struct node *node, struct op *op)
{
	uint32_t slot = op->slot;

	hist_add(&node->load_wait_ns, node_now(node) - op->began);
	if (!node_is_ready(node, slot) ||
		!is_wanted(op, node->share->slots[slot].generation)) {
		replica_unpin(node, op);
		replica_look(node, op);
		return;
	}
	op->slot = SLOT_NONE; /* the pin goes with the lane, once this is answered */
	replica_answer(node, op, slot);
}

/* What is being handed over is read by its new keeper; others would keep this node from its
 * end. */
static void replica_refuse(struct node *node, struct op *op)
{
	load_leave(node, op);
	op_error(node, op, ERR_UNAVAILABLE,
		"this node ends, and serves no reads to others");
}

void replica_run(struct node *node, struct op *op)
{
	if (op->state == REPLICAS_START) {
		op->deadline = time_after(node_now(node), op->deadline);
		op->state = REPLICAS_LOOK;
	}
	waiters_del(op);
	if (op->slot == SLOT_NONE && node_is_leaving(node) && !swapouts_under_way(node))
		replica_refuse(node, op);
	else if (op->slot != SLOT_NONE)
		replica_loaded(node, op);
	else if (op->failure != 0)
		get_failed(node, op);
	else
		replica_look(node, op);
}

void replica_cancel(struct node *node, struct op *op)
{
	waiters_del(op);
	load_leave(node, op);
	if (op->slot != SLOT_NONE)
		replica_unpin(node, op);
}

/* ---- UNLEASE ------------------------------------------------------------- */

static bool lease_undo(
	struct node *node, const struct lease_token *token, const uint8_t *ticket_bytes)
{
	struct peer_ticket ticket;

	memcpy(ticket.bytes, ticket_bytes, sizeof(ticket.bytes));
	node->env.peer.withdraw(node->env.peer.ctx, &ticket);
	return master_lease_release(&node->master, token, node_now(node));
}

void replica_undo(struct node *node, const struct msg_replica *msg)
{
	const struct lease_token token = {
		.epoch = msg->epoch,
		.life = msg->life,
		.slot = msg->slot,
		.grant = msg->grant,
	};

	(void)lease_undo(node, &token, msg->ticket);
}

/* A late or a second one is harmless: it ends nothing. */
void unlease_run(struct node *node, struct op *op)
{
	struct msg_unlease msg;
	struct lease_token token;

	if (msg_unlease_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	token = (struct lease_token){
		.epoch = msg.epoch,
		.life = msg.life,
		.slot = msg.slot,
		.grant = msg.grant,
	};
	(void)lease_undo(node, &token, msg.ticket);
	op_done(node, op, 0);
}

/* ---- HAVE ---------------------------------------------------------------- */

int have_decode(struct op *op)
{
	struct msg_have msg;
	int err = msg_have_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->generation = msg.generation;
	return 0;
}

static bool have_slot(const struct node *node, const struct op *op, struct msg_had *ret)
{
	uint32_t slot = master_find(&node->master, &op->key);
	const struct slot *there;

	if (slot == SLOT_NONE || !is_wanted(op, node->share->slots[slot].generation))
		return false;
	there = &node->share->slots[slot];
	*ret = (struct msg_had){
		.generation = there->generation,
		.size = there->size,
		.flags = there->flags & SLOT_SOFTPIN ? PUT_SOFTPIN : 0u,
		.secondary = (there->flags & SLOT_SECONDARY) != 0,
	};
	return true;
}

static bool have_entry(const struct node *node, const struct op *op, struct msg_had *ret)
{
	uint32_t entry = master_disk_find(&node->master, &op->key);
	const struct disk_entry *there;

	if (entry == DISK_NONE)
		return false;
	there = disk_entry(&node->master.disk, entry);
	if (!is_wanted(op, there->generation))
		return false;
	*ret = (struct msg_had){
		.generation = there->generation,
		.size = there->size,
		.flags = there->softpin ? PUT_SOFTPIN : 0u,
	};
	return true;
}

/* Who asks for this very generation knows it from the directory, and what is being put counts
 * there. */
static bool have_put(const struct node *node, const struct op *op, struct msg_had *ret)
{
	if (op->generation == 0 || !put_is_named(node, &op->key, op->generation))
		return false;
	*ret = (struct msg_had){.generation = op->generation};
	return true;
}

/* Who asks for a generation may have it from an entry that names this node as its keeper. */
static void have_correct(struct node *node, const struct op *op)
{
	const struct dir_id id = dir_id_of_key(op->key.data, op->key.size);
	enum errand_kind kind;
	struct held held;
	bool is_here;

	if (op->generation == 0 || put_is_named(node, &op->key, op->generation))
		return;
	is_here = master_held_look(&node->master, &op->key, op->generation, &held);
	if (is_here && !held.secondary)
		return;
	kind = is_here ? ERRAND_ANNOUNCE : ERRAND_LEAVE;
	if (errand_is_there(node, kind, &id, op->generation))
		return;
	if (is_here)
		errand_announce(node, &id, (struct msg_bytes){op->key.data, op->key.size},
			op->generation);
	else
		errand_leave(node, &id, op->key.hash, op->generation);
}

void have_run(struct node *node, struct op *op)
{
	struct msg_had msg;
	char key[NODE_KEY_TEXT];

	have_correct(node, op);
	if (have_slot(node, op, &msg) || have_entry(node, op, &msg) ||
		have_put(node, op, &msg))
		op_reply(node, op, msg_had_encode(node->out, sizeof(node->out), &msg));
	else
		op_error(node, op, ERR_NOT_FOUND, "no object under the key %s",
			key_text(op->key.data, op->key.size, key));
}
