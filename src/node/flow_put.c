/*
 * flow_put.c - make an object: PUT_START and PUT_END in two steps, or PUT in one.
 *
 *   START --room--> STARTED --PUT_START--> answer PUT_STARTED; the writer copies, PUT_END
 *     |  ^             '--PUT--> ENDING (the value is in its run) -> ENDED -> answer DONE
 *     |  |                                      SAVING (flow_durable.c) <-'
 *     |  |                                         '--> SPREADING (flow_spread.c), of several
 *     |  |                                              replicas
 *     |  |
 *     |  '--woken-- KEY    another put of the key is under way
 *     |  '--granted-- TURN <- ROOM    no hole: wait in the queue for a run
 *     '--> EXISTS, TOO_LARGE: answer
 *
 * A state is named after what the flow waits for, or the gate it stands at. Time is over
 * only after one more look: what came in the same moment counts.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <string.h>

enum put_state {
	PUTS_START,
	PUTS_KEY,
	PUTS_BEFORE_ROOM,
	PUTS_ROOM,
	PUTS_TURN,
	PUTS_STARTED,
	PUTS_ENDING,
	PUTS_ENDED,
	PUTS_SAVING,
	PUTS_SPREADING
};

/* ---- decode -------------------------------------------------------------- */

static void put_decoded(
	struct op *op, struct msg_bytes key, uint64_t size, uint32_t flags)
{
	op->key.data = key.data;
	op->key.size = (uint32_t)key.size;
	op->size = size;
	op->flags = flags;
	op->state = PUTS_START;
}

int put_start_decode(struct op *op)
{
	struct msg_put_start msg;
	int err = msg_put_start_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	put_decoded(op, msg.key, msg.size, msg.flags);
	op->ttl_ns = msg.ttl_ns;
	op->readers = msg.readers;
	op->replicas = msg.replicas;
	op->number = msg.op;
	op->deadline = msg.timeout_ns; /* a duration until put_begin() */
	return 0;
}

int put_decode(struct op *op)
{
	struct msg_put msg;
	int err = msg_put_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	put_decoded(op, msg.key, msg.value.size, msg.flags);
	op->value = msg.value;
	op->ttl_ns = msg.ttl_ns;
	op->readers = msg.readers;
	op->replicas = msg.replicas;
	op->number = msg.op;
	op->deadline = msg.timeout_ns;
	return 0;
}

static bool put_is_small(const struct op *op)
{
	return op->service->type == MSG_TYPE_PUT;
}

/* ---- START --------------------------------------------------------------- */

/* The put itself, from its start to its end, has at least the time of the setting. */
static uint64_t put_deadline(const struct node *node, const struct op *op, uint64_t now)
{
	return MAX(op->deadline, time_after(now, node->config.put_timeout));
}

static enum put_verdict put_try(
	struct node *node, struct op *op, uint64_t now, uint32_t *ret_slot)
{
	struct put_request put = {
		.key = op->key,
		.size = op->size,
		.softpin = op->flags & PUT_SOFTPIN,
		.durable = op->flags & PUT_DURABLE,
		.replace = op->flags & PUT_REPLACE,
		.ttl_ns = op->ttl_ns,
		.readers = op->readers,
		.wanted = keepers_wanted(op->replicas),
		.required = op->flags & PUT_REQUIRED,
		.writer = op_client_ref(node, op),
		.op = op->number,
		.deadline = put_deadline(node, op, now),
	};
	struct ticket *ticket = op->ticket.state == TICKET_GRANTED ? &op->ticket : NULL;

	return master_put_start(&node->master, &put, ticket, ret_slot);
}

static void put_is_started(struct node *node, struct op *op, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];

	op->slot = slot;
	op->life = slot_life_of(
		atomic_load_explicit(&there->state, memory_order_relaxed));
	/* At once, so that nothing ever writes into a run
	 * whose put another repeat ended. */
	if (put_is_small(op) && op->size > 0)
		memcpy(node->share->pool + there->off, op->value.data, op->size);
	op->state = PUTS_STARTED;
}

static void put_answer_repeated(struct node *node, struct op *op, uint64_t generation)
{
	op->generation = generation;
	op->began = node_now(node);
	op->saves = op->flags & PUT_DURABLE;
	op->required = op->flags & PUT_REQUIRED;
	op->keepers = op->replicas > 1 ? 1 : 0;
	op->spread_until = op->deadline;
	op->id = dir_id_of_key(op->key.data, op->key.size);
	op->state = PUTS_SAVING;
}

/* The same put came before, and its answer was lost. */
static void put_is_repeated(struct node *node, struct op *op, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	uint64_t state = atomic_load_explicit(&there->state, memory_order_relaxed);

	if (slot_kind_of(state) == SLOT_WRITING && there->size == op->size)
		put_is_started(node, op, slot);
	else if (slot_kind_of(state) == SLOT_READY && put_is_small(op))
		put_answer_repeated(node, op, there->generation);
	else
		put_answer_exists(node, op, slot);
}

/* A durable put that came before may still be on disk: it is not told to have failed before
 * it has gone there. */
static bool put_undoes_earlier(const struct node *node, const struct op *op)
{
	return (op->flags & PUT_DURABLE) && op->lane->client->repeats &&
	       master_disk_ends(&node->master, &op->key);
}

/* Another put of the key is under way, or what was removed there is still on disk. */
static void put_wait_key(struct node *node, struct op *op, uint64_t now)
{
	if (now < op->deadline) {
		op->state = PUTS_KEY;
		waiters_add(node, op);
	} else if (put_undoes_earlier(node, op)) {
		op->state = PUTS_SAVING;
		op->saves = true;
		op->put_failure = ERR_TIMEOUT;
		op->deadline = time_after(now, END_WAIT_NS);
		durable_run(node, op);
	} else {
		put_is_late(node, op);
	}
}

/* A put that is started again was not answered. If it was doomed or late by then, nothing
 * leads to it any more, and its writer will not end it. */
static void put_drop_earlier(struct node *node, struct op *op)
{
	const struct master *master = &node->master;
	uint32_t slot = master_client_put(master, op->lane->client->cid);
	const struct slot *there;

	if (!op->lane->client->repeats)
		return;
	while (slot != SLOT_NONE) {
		there = &node->share->slots[slot];
		if (there->op == op->number && !master->objects[slot].mapped)
			break;
		slot = master->objects[slot].next;
	}
	if (slot == SLOT_NONE)
		return;
	publish_undo(node, slot);
	(void)master_put_abort(&node->master, slot,
		slot_life_of(atomic_load_explicit(&there->state, memory_order_relaxed)),
		op_client_ref(node, op));
}

/* It was begun before, and its answer was lost: its writer goes on with it, or it would stay
 * as it is. */
static bool put_is_under_way(const struct node *node, const struct op *op)
{
	const struct master *master = &node->master;
	uint32_t slot = master_client_put(master, op->lane->client->cid);

	while (slot != SLOT_NONE && node->share->slots[slot].op != op->number)
		slot = master->objects[slot].next;
	return slot != SLOT_NONE;
}

/* A node that is emptied keeps nothing new. */
static bool put_is_turned_away(struct node *node, struct op *op)
{
	if (!node_is_drained(node) || put_is_under_way(node, op))
		return false;
	if (op->ticket.state != TICKET_IDLE)
		master_room_cancel(&node->master, &op->ticket);
	op_error(node, op, ERR_UNAVAILABLE,
		"this node is being drained or ended, and takes no puts: put on "
		"another");
	return true;
}

/* True: go on at once, in the new state. */
static bool put_start(struct node *node, struct op *op)
{
	uint64_t now = node_now(node);
	uint32_t slot = SLOT_NONE;

	/* It may have waited, for room or its key, since it was looked at. */
	if (put_is_turned_away(node, op))
		return false;
	switch (put_try(node, op, now, &slot)) {
	case PUT_STARTED:
		put_is_started(node, op, slot);
		return true;
	case PUT_REPEATED:
		put_is_repeated(node, op, slot);
		return op->stage == OP_RUNNING &&
		       (op->state == PUTS_STARTED || op->state == PUTS_SAVING);
	case PUT_EXISTS:
		put_answer_exists(node, op, slot);
		return false;
	case PUT_BUSY:
		put_wait_key(node, op, now);
		return false;
	case PUT_NO_ROOM:
		op->state = PUTS_BEFORE_ROOM;
		return true;
	case PUT_TOO_LARGE:
		put_refuse_large(node, op);
		return false;
	}
	NOT_REACHED("no such verdict");
}

/* ---- ROOM ---------------------------------------------------------------- */

static void put_wait_room(struct node *node, struct op *op)
{
	op->state = PUTS_ROOM;
	op->began = node_now(node);
	node->stats.waits_room++;
	master_room_wait(&node->master, &op->ticket, op->size, op->key.size);
	op_set_deadline(node, op);
}

/* True: its turn has come. */
static bool put_has_room(struct node *node, struct op *op)
{
	uint64_t now = node_now(node);

	if (op->ticket.state != TICKET_GRANTED && now < op->deadline)
		return false;
	op_clear_deadline(node, op);
	hist_add(&node->room_wait_ns, now - op->began);
	if (op->ticket.state == TICKET_GRANTED) {
		op->state = PUTS_TURN;
		return true;
	}
	node->stats.timeouts++;
	put_no_room(node, op);
	return false;
}

/* ---- STARTED, ENDING, ENDED ---------------------------------------------- */

static void put_answer_started(struct node *node, struct op *op)
{
	struct msg_put_started msg = {
		.slot = op->slot,
		.life = op->life,
		.off = node->share->slots[op->slot].off,
	};

	op_reply(node, op, msg_put_started_encode(node->out, sizeof(node->out), &msg));
}

/* What both ways to end a put share; 0: it is READY. */
static int put_end(struct node *node, struct op *op)
{
	uint64_t hash = node->share->slots[op->slot].hash;
	int err = master_put_end(&node->master, op->slot, op->life,
		op_client_ref(node, op), node_now(node), node_wall_us(node),
		&op->generation);

	if (err != ERR_NOT_FOUND)
		waiters_wake(node, hash);
	return err;
}

/* READY: what is left to do. */
static void put_is_ready(struct node *node, struct op *op)
{
	const struct slot *slot = &node->share->slots[op->slot];

	op->size = slot->size;
	op->began = node_now(node);
	op->saves = slot->flags & SLOT_DURABLE;
	op->required = slot->flags & SLOT_REQUIRED;
	op->replicas = slot->wanted;
	op->keepers = op->replicas > 1 ? 1 : 0;
	op->spread_until = op->deadline;
}

/* It ends as by its owner's remove. But an older object, of a keeper that the directory has not heard
 * of since it forgot, does not end with it. */
void put_undo(struct node *node, struct op *op, int err)
{
	op->put_failure = err;
	op->undoing = true;
	op->ends = op->generation;
	op->began = node_now(node);
	op->deadline = time_after(op->began, END_WAIT_NS);
	if (!node->cluster.there)
		return;
	op->cluster_state = 0;
	op->gives_way = !directory_knows_all(node, &op->id);
	op->found = op->unreached = false;
	op->unreached_peers = 0;
}

bool put_undo_run(struct node *node, struct op *op)
{
	if (node->cluster.there && !removal_run(node, op))
		return false;
	op->deadline = time_after(op->began, END_WAIT_NS);
	return !end_waits(node, op);
}

void put_is_saved(struct node *node, struct op *op)
{
	if (op->replicas <= 1 || !node->cluster.there) {
		op_done(node, op, op->generation);
		return;
	}
	op->state = PUTS_SPREADING;
	spread_begin(op);
	spread_run(node, op);
}

/* What it replaced must not come back from the disk. */
static bool put_waits_for_end(struct node *node, struct op *op)
{
	if (op->replaces && op->key.data != NULL && !op->ending)
		op->deadline = time_after(node_now(node), END_WAIT_NS);
	op->ending = true;
	return op->key.data != NULL && end_waits(node, op);
}

/* The end of both kinds of put; each gate leads to the next state. */
static void put_ending(struct node *node, struct op *op)
{
	int err;

	if (op->state == PUTS_ENDING) {
		if (!op->publishing &&
			!op_gate(node, op, FAULT_NODE_BEFORE_PUT_END_PUBLISH))
			return;
		if (!publish_run(node, op))
			return;
		op->replaces = node->share->slots[op->slot].flags & SLOT_REPLACES;
		err = put_end(node, op);
		if (err != 0) {
			publish_cancel(node, op, true);
			put_end_failed(node, op, err);
			return;
		}
		publish_done(node, op);
		put_is_ready(node, op);
		op->state = PUTS_ENDED;
		op->slot = SLOT_NONE; /* nothing to give back any more */
	}
	if (op->state == PUTS_ENDED) {
		if (!op_gate(node, op, FAULT_NODE_AFTER_PUT_END_PUBLISH))
			return;
		op->state = PUTS_SAVING;
	}
	if (op->state == PUTS_SPREADING)
		spread_run(node, op);
	else if (op->saves)
		durable_run(node, op);
	else if (!op->replaces || !put_waits_for_end(node, op))
		put_is_saved(node, op);
}

/* ---- the flow ------------------------------------------------------------ */

/* One step; true: go on with the next. */
static bool put_step(struct node *node, struct op *op)
{
	switch ((enum put_state)op->state) {
	case PUTS_KEY:
		waiters_del(op);
		op_clear_deadline(node, op);
		op->state = PUTS_START;
		return true;
	case PUTS_START:
		return op_gate(node, op, FAULT_NODE_BEFORE_PUT_START_PUBLISH) &&
		       put_start(node, op);
	case PUTS_BEFORE_ROOM:
		if (op_gate(node, op, FAULT_NODE_BEFORE_ROOM_WAIT))
			put_wait_room(node, op);
		return false;
	case PUTS_ROOM:
		return put_has_room(node, op);
	case PUTS_TURN:
		return op_gate(node, op, FAULT_NODE_AFTER_ROOM_GRANT) &&
		       put_start(node, op);
	case PUTS_STARTED:
		if (!op_gate(node, op, FAULT_NODE_AFTER_PUT_START_PUBLISH))
			return false;
		if (put_is_small(op)) {
			op->state = PUTS_ENDING;
			return true;
		}
		put_answer_started(node, op);
		return false;
	case PUTS_ENDING:
	case PUTS_ENDED:
	case PUTS_SAVING:
	case PUTS_SPREADING:
		put_ending(node, op);
		return false;
	}
	NOT_REACHED("no such state");
}

static bool put_replicas_are_sane(struct node *node, struct op *op)
{
	int err = 0;

	if (op->replicas > KEEPERS_LIMIT || !(op->flags & PUT_SOFTPIN) || op->readers > 0)
		err = ERR_BAD_ARGUMENT;
	else if (op->flags & PUT_REQUIRED && !node->cluster.there)
		err = ERR_NOT_SUPPORTED;
	if (err != 0)
		op_error(node, op, err, "%u replicas%s", op->replicas,
			op->replicas > KEEPERS_LIMIT ? ", of which there can be 8"
			: !(op->flags & PUT_SOFTPIN)
				? " of a cache object: only one that is softpin is kept"
			: op->readers > 0
				? " of an object that ends after a number of reads"
				: ": this node is alone (--directory)");
	return err == 0;
}

static bool put_is_sane(struct node *node, struct op *op)
{
	if (op->flags &
		~(uint32_t)(PUT_SOFTPIN | PUT_DURABLE | PUT_REPLACE | PUT_REQUIRED)) {
		op_error(node, op, ERR_NOT_SUPPORTED,
			"put flags 0x%" PRIx32 " are not known", op->flags);
		return false;
	}
	if (put_is_turned_away(node, op))
		return false;
	if ((op->flags & PUT_DURABLE) && !tier_is_there(node)) {
		op_error(node, op, ERR_NOT_SUPPORTED,
			"a durable put: this node has no disk (--disk)");
		return false;
	}
	if (op->replicas > 1 && !put_replicas_are_sane(node, op))
		return false;
	if (put_is_small(op) && op->size > node->config.small_limit) {
		op_error(node, op, ERR_TOO_LARGE,
			"a value of %" PRIu64
			" bytes in one message; the limit is %" PRIu64 " (--small-limit)",
			op->size, node->config.small_limit);
		return false;
	}
	return true;
}

void put_run(struct node *node, struct op *op)
{
	if (op->state == PUTS_START && op->began == 0) {
		if (!put_is_sane(node, op))
			return;
		put_drop_earlier(node, op);
		op->began = node_now(node);
		op->deadline = time_after(op->began, op->deadline);
	}
	while (put_step(node, op))
		;
}

/* True: there is nothing else to give back. */
static bool put_leaves(struct node *node, struct op *op)
{
	waiters_del(op);
	if (op->undoing && node->cluster.there)
		removal_cancel(node, op);
	else if (op->state == PUTS_SPREADING)
		spread_cancel(node, op);
	return op->undoing || op->state == PUTS_SPREADING;
}

void put_cancel(struct node *node, struct op *op)
{
	uint32_t slot = op->slot;
	uint64_t hash;

	if (put_leaves(node, op))
		return;
	publish_cancel(node, op, true);
	if (op->ticket.state != TICKET_IDLE)
		master_room_cancel(&node->master, &op->ticket);
	if (slot == SLOT_NONE)
		return;
	op->slot = SLOT_NONE;
	hash = node->share->slots[slot].hash;
	if (master_put_abort(&node->master, slot, op->life, op_client_ref(node, op)) == 0)
		waiters_wake(node, hash);
}

/* ---- PUT_END, PUT_ABORT -------------------------------------------------- */

int put_end_decode(struct op *op)
{
	struct msg_put_end msg;
	int err = msg_put_end_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->slot = msg.slot;
	op->life = msg.life;
	op->deadline = msg.timeout_ns; /* a duration until put_end_run() */
	op->state = PUTS_ENDING;
	return 0;
}

/* By the time that it is READY its slot may be another's. */
static bool put_needs_key(const struct slot *slot)
{
	return slot->flags & (SLOT_DURABLE | SLOT_REPLACES) || slot->wanted > 1;
}

void put_end_run(struct node *node, struct op *op)
{
	if (op->state != PUTS_ENDING || op->publishing) {
		put_ending(node, op);
		return;
	}
	if (op->slot >= node_slots(node)) {
		put_end_failed(node, op, ERR_NOT_FOUND);
		return;
	}
	if (op->began == 0) {
		op->began = node_now(node);
		op->deadline = time_after(op->began, op->deadline);
	}
	if (!put_needs_key(&node->share->slots[op->slot]) ||
		op_own_key(op, node->share, op->slot) == 0)
		put_ending(node, op);
	else
		op_error(node, op, ERR_NO_MEMORY, "no memory for the key of a put");
}

/* After an error the writer is over, says the library. But a closed lane is no answer: it
 * asks again over another. */
void put_end_cancel(struct node *node, struct op *op)
{
	if (put_leaves(node, op))
		return;
	publish_cancel(node, op, false);
	if (op->failed && op->slot != SLOT_NONE && op->slot < node_slots(node))
		put_cancel(node, op);
}

int put_abort_decode(struct op *op)
{
	struct msg_put_abort msg;
	int err = msg_put_abort_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->slot = msg.slot;
	op->life = msg.life;
	return 0;
}

static bool put_is_own(const struct node *node, const struct op *op)
{
	return node_life(node, op->slot) == op->life && !node_is_ready(node, op->slot) &&
	       node->share->slots[op->slot].writer == op_client_ref(node, op);
}

void put_abort_run(struct node *node, struct op *op)
{
	uint64_t hash;

	if (op->slot >= node_slots(node)) {
		put_end_failed(node, op, ERR_NOT_FOUND);
		return;
	}
	hash = node->share->slots[op->slot].hash;
	if (put_is_own(node, op))
		publish_undo(node, op->slot);
	if (master_put_abort(
		    &node->master, op->slot, op->life, op_client_ref(node, op)) != 0) {
		put_end_failed(node, op, ERR_NOT_FOUND);
		return;
	}
	waiters_wake(node, hash);
	op_done(node, op, 0);
}
