/*
 * flow_remove.c - end an object: REMOVE by key, TAKE of the one that the caller holds, READ
 * when the last of its counted reads has ended.
 *
 *   START -> (core condemns) -> ENDED -> answer
 *     |                  ^        '--it is on disk--> DISK --the drop is committed--> answer
 *     '--in a cluster--> CLUSTER (removal.c)
 *
 * A read that ended is counted where the object is kept:
 *
 *   START --not here--> LOOK --the keeper--> REPORTED --counted there--> answer
 *
 * They wait for no reader: the bytes go with the last hold. They wait for the disk, since
 * what was answered must not come back after a restart; so does who finds that somebody
 * else has just ended it.
 */
#include "node/remove_priv.h"

#include "base/hash.h"
#include "base/plant.h"

#include <inttypes.h>

/* ---- the disk ------------------------------------------------------------ */

static void take_refuse(struct node *node, struct op *op, int err)
{
	op_error(node, op, err,
		err == ERR_NOT_FOUND ? "slot %" PRIu32 " has not that object any "
				       "more: somebody else removed or took it"
				     : "slot %" PRIu32 ": no memory for its key",
		op->slot);
}

static void end_answer(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (op->failure != 0 && op->sole)
		take_refuse(node, op, op->failure);
	else if (op->failure != 0)
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

void end_on_disk(struct node *node, struct op *op)
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

static void remove_here(struct node *node, struct op *op)
{
	op->failure = master_remove(&node->master, &op->key, node_now(node));
	/* A doomed put passes the key on to who waits for it. */
	if (op->failure == 0)
		waiters_wake(node, op->key.hash);
	op->state = REMOVES_ENDED;
}

void remove_go_on(struct node *node, struct op *op)
{
	if (op->state == REMOVES_CLUSTER) {
		if (!removal_run(node, op))
			return;
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED && op->failure == 0 &&
		!op_gate(node, op, FAULT_NODE_AFTER_CONDEMN))
		return;
	end_on_disk(node, op);
}

void remove_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_CONDEMN))
			return;
		op->any = true;
		if (node->cluster.there)
			removal_begin(op, 0);
		else
			remove_here(node, op);
	}
	remove_go_on(node, op);
}

void remove_cancel(struct node *node, struct op *op)
{
	waiters_del(op);
	if (op->state == REMOVES_CLUSTER) {
		removal_cancel(node, op);
		return;
	}
	query_leave(node, op, NULL);
	asks_forget_all(node, op);
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

/* By which the directory knows that the same client asks once more. */
static uint64_t take_token(const struct node *node, const struct op *op)
{
	const struct {
		uint64_t node, ref, number;
	} name = {node->cluster.id, op_client_ref(node, op), op->number};
	uint64_t token = hash_key(&name, sizeof(name), 0);

	return token != 0 ? token : 1;
}

static bool take_is_decided(const struct node *node, const struct op *op)
{
	const struct slot *slot = &node->share->slots[op->slot];
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	return !node->cluster.there || slot->flags & SLOT_TAKEN ||
	       slot_kind_of(state) == SLOT_WRITING || PLANTED(TWO_WINNERS);
}

static int take_here(struct node *node, struct op *op)
{
	int err = 0;

	if (tier_is_there(node)) /* the slot may be another's when the disk is done */
		err = op_own_key(op, node->share, op->slot);
	if (err == 0)
		err = master_take(&node->master, op->slot, op->life,
			op_client_ref(node, op), op->number, node_now(node));
	op->state = REMOVES_ENDED;
	return err;
}

static int take_begin(struct node *node, struct op *op)
{
	int err;

	if (!master_is_life(&node->master, op->slot, op->life))
		return ERR_NOT_FOUND;
	op->generation = node->share->slots[op->slot].generation;
	if (take_is_decided(node, op))
		return take_here(node, op);
	err = op_own_key(op, node->share, op->slot);
	if (err != 0)
		return err;
	op->id = dir_id_of_key(op->key.data, op->key.size);
	op->sole = true;
	op->token = take_token(node, op);
	removal_begin(op, op->generation);
	return 0;
}

void take_run(struct node *node, struct op *op)
{
	int err;

	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_TAKE_CONDEMN))
			return;
		err = take_begin(node, op);
		if (err != 0) {
			take_refuse(node, op, err);
			return;
		}
	}
	if (op->state == REMOVES_CLUSTER) {
		if (!removal_run(node, op))
			return;
		op->state = REMOVES_ENDED;
	}
	if (op->state == REMOVES_ENDED && op->failure == 0 &&
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

void read_counted(struct node *node, struct op *op, uint64_t before)
{
	bool was_last = before == op->generation &&
			generation_here(node, &op->key) != op->generation;

	op->state = REMOVES_ENDED;
	if (!node->cluster.there || !was_last)
		return;
	op->found = true;
	left_take(node, &op->id, op->generation);
	removal_begin(op, op->generation);
}

static void read_refuse(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	op_error(node, op, ERR_NOT_FOUND,
		"no object that counts its reads under the key %s",
		key_text(op->key.data, op->key.size, key));
}

static void read_lost(struct node *node, struct op *op, int err)
{
	char key[NODE_KEY_TEXT];

	op_error(node, op, err,
		"a read of the object under the key %s was not counted, as %s",
		key_text(op->key.data, op->key.size, key),
		err == ERR_TOO_MANY ? "the daemon's questions are in use (--max-ops)"
				    : "the directory or its keeper cannot be asked");
}

/* Who keeps it is to count. Only once: a report that is lost delays the end, one that counts
 * twice would end it under its readers. */
static void read_look(struct node *node, struct op *op)
{
	struct query *query = query_new(node, DIR_OP_LOOKUP, &op->id);

	if (query == NULL) {
		read_lost(node, op, ERR_TOO_MANY);
		return;
	}
	op->state = REMOVES_LOOK;
	query_start_for(node, op, query);
}

/* True: it was counted here, or is to be counted elsewhere. */
static bool read_count(struct node *node, struct op *op)
{
	uint32_t cid = op->lane->client->cid;
	uint64_t before = generation_here(node, &op->key);
	bool is_new = op->number > node->share->clients[cid].read_sequence;
	int err = master_read_ended(
		&node->master, cid, op->number, &op->key, op->generation, node_now(node));

	if (err == 0)
		read_counted(node, op, is_new ? before : 0);
	else if (node->cluster.there)
		read_look(node, op);
	else
		read_refuse(node, op);
	return err == 0;
}

/* The place of who counts; PEER_LIMIT: this node, or nobody. */
static uint32_t read_keeper(const struct node *node, const struct op *op)
{
	const struct dir_entry *entry = &op->query->call.entry;

	if (entry->generation != op->generation)
		return PEER_LIMIT;
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].role == DIR_KEEPER)
			return peer_find(node, entry->holders[i].node);
	}
	return PEER_LIMIT;
}

static void read_reported(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;

	err = ask_error_of(err, message, size);
	if (err == 0)
		op_done(node, op, 0);
	else if (err == ERR_NOT_FOUND)
		read_refuse(node, op);
	else
		read_lost(node, op, err);
}

static void read_report(struct node *node, struct op *op)
{
	const struct msg_read_at msg = {
		.key = {op->key.data, op->key.size},
		.generation = op->generation,
	};
	int err = op->query->call.err;
	uint32_t keeper = err == 0 ? read_keeper(node, op) : PEER_LIMIT;

	query_free(node, op->query);
	op->state = REMOVES_REPORTED;
	if (err != 0 ||
		(keeper != PEER_LIMIT && !peer_is_up(&node->cluster.peers[keeper])))
		read_lost(node, op, ERR_UNAVAILABLE);
	else if (keeper == PEER_LIMIT)
		read_refuse(node, op);
	else if (ask_send_for(node, op, keeper,
			 msg_read_at_encode(node->out, sizeof(node->out), &msg),
			 read_reported) == NULL)
		read_lost(node, op, ERR_TOO_MANY);
}

void read_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_READ_COUNT))
			return;
		if (!read_count(node, op))
			return;
	}
	if (op->state == REMOVES_LOOK && op->query->ended)
		read_report(node, op);
	else if (op->state == REMOVES_CLUSTER && removal_run(node, op))
		op->state = REMOVES_ENDED;
	if ((op->state != REMOVES_ENDED && op->state != REMOVES_DISK) ||
		(op->state == REMOVES_ENDED &&
			!op_gate(node, op, FAULT_NODE_AFTER_READ_COUNT)))
		return;
	op->generation = 0;
	end_on_disk(node, op);
}
