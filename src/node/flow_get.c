/*
 * flow_get.c - answer a reader whose own look into the shared index found nothing: GET, and
 * LEASE, which is a GET for somebody on another node.
 *
 *   START --in the pool--> pin -> answer; the reader turns the pin into a hold, and unpins
 *     |  ^--woken-- KEY
 *     |--on disk--> LOAD (flow_load.c) --pinned--> answer
 *     '--absent--> NOT_FOUND, or wait for the key if asked
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>

/* What a transfer takes before any was measured: 1 GB/s, which is 1 ns a byte. */
#define LEASE_BASE_NS     1000000000ull
#define LEASE_NS_PER_BYTE 1u
#define LEASE_SPARE       4u

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

int lease_decode(struct op *op)
{
	struct msg_lease msg;
	int err = msg_lease_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->length_ns = msg.length_ns;
	op->deadline = msg.timeout_ns;
	return 0;
}

/* ---- answers ------------------------------------------------------------- */

static uint64_t lease_length(const struct node *node, const struct op *op, uint64_t size)
{
	uint64_t length = op->length_ns;

	if (length == 0)
		length = MAX(node->config.lease_min,
			LEASE_BASE_NS + LEASE_SPARE * LEASE_NS_PER_BYTE * size);
	return MIN(length, node->config.lease_max);
}

/* It stands before the answer leaves. */
static size_t lease_make(struct node *node, const struct op *op, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	uint64_t length = lease_length(node, op, there->size);
	struct lease_token token = master_lease(
		&node->master, slot, length, node_now(node));
	struct msg_leased msg = {
		.epoch = token.epoch,
		.life = token.life,
		.slot = token.slot,
		.grant = token.grant,
		.generation = there->generation,
		.length_ns = length,
	};

	return msg_leased_encode(node->out, sizeof(node->out), &msg);
}

static void get_found(struct node *node, struct op *op, uint32_t slot)
{
	struct msg_found msg = {.slot = slot, .life = node_life(node, slot)};
	uint64_t limit;

	if (op->service->type == MSG_TYPE_LEASE) {
		op_reply(node, op, lease_make(node, op, slot));
		return;
	}
	if (lane_pin(node, op->lane, slot, &limit) != 0) {
		op_error(node, op, ERR_TOO_MANY,
			"%" PRIu64 " answers wait to be taken up, which is the limit",
			limit);
		return;
	}
	op_reply(node, op, msg_found_encode(node->out, sizeof(node->out), &msg));
}

/* ---- absent, or on disk -------------------------------------------------- */

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

static void get_failed(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	op_error(node, op, op->failure,
		"the object under the key %s could not be read "
		"from the disk: %s",
		key_text(op->key.data, op->key.size, key), err_text(op->failure));
}

static void get_no_room(struct node *node, struct op *op, const char *when)
{
	struct pool_use use;

	master_use(&node->master, &use);
	op_error(node, op, ERR_NO_SPACE,
		"no room to read %" PRIu64 " bytes back from the disk %s: of %" PRIu64
		" bytes %" PRIu64 " are free, the largest hole has %" PRIu64 "; %" PRIu64
		" are held or leased, %" PRIu64 " ended and still held, %" PRIu64
		" being written",
		op->size, when, use.size, use.free, use.largest_hole, use.parked,
		use.condemned, use.writing);
}

/* Its time is over while the load is under way. */
static void get_late(struct node *node, struct op *op)
{
	bool in_room = op->load->state == LOADS_ROOM;
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	load_leave(node, op);
	if (in_room)
		get_no_room(node, op, "until the deadline");
	else
		op_error(node, op, ERR_TIMEOUT,
			"the object under the key %s was not read from the disk in time",
			key_text(op->key.data, op->key.size, key));
}

static void get_load(struct node *node, struct op *op, uint32_t entry)
{
	/* A batch is given what is there before it is asked what else fits beside that. */
	if (batch_is_starting(op)) {
		op_wake(node, op);
		return;
	}
	op->size = disk_entry(&node->master.disk, entry)->size;
	if (op->load != NULL && !load_is_of(node, op->load, entry))
		load_leave(node, op);
	if (op->load == NULL) {
		switch (load_join(node, op, entry)) {
		case LOAD_JOINED:
			op->began = node_now(node);
			break;
		case LOAD_ENDED:
			get_absent(node, op);
			return;
		case LOAD_REFUSED:
			get_no_room(node, op, "beside what else is wanted now");
			return;
		}
	}
	if (node_now(node) < op->deadline)
		waiters_add(node, op);
	else
		get_late(node, op);
}

/* ---- the flow ------------------------------------------------------------ */

static void get_look(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);
	uint32_t entry;

	if (slot != SLOT_NONE) {
		load_leave(node, op);
		get_found(node, op, slot);
		return;
	}
	entry = master_disk_find(&node->master, &op->key);
	if (entry != DISK_NONE) {
		get_load(node, op, entry);
		return;
	}
	load_leave(node, op);
	get_absent(node, op);
}

static void get_unpin(struct node *node, struct op *op)
{
	lane_unpin(node, op->lane, op->slot, op->life);
	op->slot = SLOT_NONE;
}

/* The load has pinned op->slot. */
static void get_loaded(struct node *node, struct op *op)
{
	struct msg_found msg = {.slot = op->slot, .life = op->life};
	bool is_ready = node_is_ready(node, op->slot);
	size_t size;

	hist_add(&node->load_wait_ns, node_now(node) - op->began);
	if (op->service->type != MSG_TYPE_LEASE) {
		op->slot = SLOT_NONE; /* the pin is the answer's */
		op_reply(node, op, msg_found_encode(node->out, sizeof(node->out), &msg));
		return;
	}
	size = is_ready ? lease_make(node, op, op->slot) : 0;
	get_unpin(node, op);
	if (is_ready)
		op_reply(node, op, size);
	else
		get_look(node, op); /* it was removed since */
}

void get_run(struct node *node, struct op *op)
{
	if (op->state == GETS_START) {
		op->deadline = time_after(node_now(node), op->deadline);
		op->state = GETS_LOOK;
	}
	waiters_del(op);
	if (op->slot != SLOT_NONE)
		get_loaded(node, op);
	else if (op->failure != 0)
		get_failed(node, op);
	else
		get_look(node, op);
}

void get_cancel(struct node *node, struct op *op)
{
	waiters_del(op);
	load_leave(node, op);
	if (op->slot != SLOT_NONE)
		get_unpin(node, op);
}

/* ---- the end of a lease -------------------------------------------------- */

void lease_end_run(struct node *node, struct op *op)
{
	struct msg_lease_end msg;
	struct lease_token token;

	if (msg_lease_end_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	token = (struct lease_token){
		.epoch = msg.epoch,
		.life = msg.life,
		.slot = msg.slot,
		.grant = msg.grant,
	};
	if (master_lease_release(&node->master, &token, node_now(node)))
		op_done(node, op, 0);
	else
		op_error(node, op, ERR_NOT_FOUND,
			"no such lease is outstanding: it was released, its object is "
			"gone, or the daemon was started again");
}
