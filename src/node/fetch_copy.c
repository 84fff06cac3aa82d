/*
 * fetch_copy.c - the bytes of what is being fetched come here.
 *
 *   ROOM (a run for it) -> GATE -> TURN (one of the transfers) -> ASK
 *     ASK --the bytes came with the answer-----------------> READY
 *      '--a lease and a ticket--> MOVE --whole, in time----> READY
 *
 * They go straight into their run, and are read by nobody before their checksum has been
 * compared. A lease counts from the moment the request for it was sent; it is given back on
 * every way out, at once.
 */
#include "node/fetch_priv.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/plant.h"

#include <string.h>

/* ---- leases of others ---------------------------------------------------- */

static void unleased(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	(void)node, (void)ask, (void)err, (void)message, (void)size;
}

/* Nobody waits for the answer: a lease that is not given back runs to its end. */
static void source_unlease(struct node *node, struct source_lease *lease)
{
	struct msg_unlease msg = {
		.epoch = lease->epoch,
		.life = lease->life,
		.slot = lease->slot,
		.grant = lease->grant,
	};
	int64_t value = 0;

	if (!lease->there)
		return;
	lease->there = false;
	if (PLANTED(KEPT_LEASE))
		return;
	/* What is ordered here befalls the message, as a network would lose it. */
	if (node_fault(node, FAULT_NODE_BEFORE_RELEASE_LEASE, &value) ==
		FAULT_RETURN_ERROR)
		return;
	memcpy(msg.ticket, lease->ticket.bytes, sizeof(msg.ticket));
	if (peer_is_up(&node->cluster.peers[lease->peer]))
		(void)ask_send(node, lease->peer,
			msg_unlease_encode(node->out, sizeof(node->out), &msg), unleased);
}

static void source_lease_take(
	struct source_lease *lease, uint32_t peer, const struct msg_replica *msg)
{
	*lease = (struct source_lease){
		.there = msg->length_ns != 0,
		.peer = peer,
		.epoch = msg->epoch,
		.life = msg->life,
		.slot = msg->slot,
		.grant = msg->grant,
	};
	memcpy(lease->ticket.bytes, msg->ticket, sizeof(lease->ticket.bytes));
}

/* ---- turns --------------------------------------------------------------- */

static void fetch_ask(struct node *node, struct fetch *fetch);

static bool turn_take(struct node *node, struct fetch *fetch)
{
	struct fetch **moving = node->cluster.moving;

	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		if (moving[i] != NULL)
			continue;
		moving[i] = fetch;
		fetch->number = i;
		return true;
	}
	return false;
}

static void turn_give(struct node *node, struct fetch *fetch)
{
	struct cluster *cluster = &node->cluster;
	struct list *first;

	if (fetch->number == PEER_TRANSFERS)
		return;
	cluster->moving[fetch->number] = NULL;
	fetch->number = PEER_TRANSFERS;
	/* One that fails at once gives its turn to the next here, and not by coming by once
	 * more. */
	if (cluster->giving_turns)
		return;
	cluster->giving_turns = true;
	while ((first = list_first(&cluster->fetch_turn)) != NULL) {
		struct fetch *next = container_of(first, struct fetch, queue_entry);

		if (!turn_take(node, next))
			break;
		list_del(first);
		fetch_ask(node, next);
	}
	cluster->giving_turns = false;
}

void fetch_turn(struct node *node, struct fetch *fetch)
{
	struct cluster *cluster = &node->cluster;

	fetch->state = FETCH_TURN;
	if (fetch->size <= INLINE_LIMIT ||
		(list_is_empty(&cluster->fetch_turn) && turn_take(node, fetch)))
		fetch_ask(node, fetch);
	else
		list_move_tail(&cluster->fetch_turn, &fetch->queue_entry);
}

/* ---- ROOM, GATE ---------------------------------------------------------- */

static void fetch_unpromise(struct node *node, struct fetch *fetch)
{
	if (fetch->promised > 0)
		master_load_promise(&node->master, -(int64_t)fetch->promised);
	fetch->promised = 0;
}

/* A batch's items ask for no more than can be there at once. */
static bool fetch_is_promised(struct node *node, struct fetch *fetch)
{
	uint64_t bytes = master_run_bytes(fetch->size, fetch->key_size);

	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		const struct op *op = container_of(at, struct op, wait_entry);

		if (op->fetch == fetch && op->parent == NULL)
			return true;
	}
	if (!master_load_fits(&node->master, bytes, node_now(node)))
		return false;
	fetch->promised = bytes;
	master_load_promise(&node->master, (int64_t)fetch->promised);
	return true;
}

/* No other node is to blame. */
static void fetch_fail_here(struct node *node, struct fetch *fetch, int err)
{
	fetch->sources.named = 0;
	fetch_fail(node, fetch, err);
}

static void fetch_gate(struct node *node, struct fetch *fetch)
{
	int err = 0;

	fetch->state = FETCH_GATE;
	if (gate_pass(node, GATE_FETCHES + fetch_index(node, fetch),
		    FAULT_NODE_COPY_AFTER_START, &err))
		fetch_past_gate(node, fetch, err);
}

void fetch_past_gate(struct node *node, struct fetch *fetch, int err)
{
	if (err != 0)
		fetch_fail_here(node, fetch, err);
	else
		fetch_turn(node, fetch);
}

static void fetch_wait_for_room(struct node *node, struct fetch *fetch)
{
	fetch->state = FETCH_ROOM;
	list_move_tail(&node->cluster.fetch_room, &fetch->queue_entry);
	node->stats.waits_room++;
	master_room_wait_load(
		&node->master, &fetch->ticket, fetch->size, fetch->key_size);
}

static void fetch_place(struct node *node, struct fetch *fetch, struct ticket *ticket)
{
	const struct copy_request copy = {
		.key = fetch_key(fetch),
		.size = fetch->size,
		.generation = fetch->generation,
		.expires = UINT64_MAX, /* the source says */
		.softpin = fetch->flags & DIR_SOFTPIN,
	};

	switch (master_copy_start(
		&node->master, &copy, ticket, node_now(node), &fetch->slot)) {
	case LOAD_STARTED:
		fetch_unpromise(node, fetch);
		fetch_gate(node, fetch);
		return;
	case LOAD_NO_ROOM:
		fetch_wait_for_room(node, fetch);
		return;
	case LOAD_GONE:
		fetch_is_moot(node, fetch);
		return;
	}
	NOT_REACHED("no such verdict");
}

void fetch_room(struct node *node, struct fetch *fetch)
{
	if (fetch->size > master_largest(&node->master, fetch->key_size)) {
		fetch_fail_here(node, fetch, ERR_TOO_LARGE);
		return;
	}
	if (fetch->promised == 0 && !fetch_is_promised(node, fetch)) {
		node->cluster.stats.fetches_refused++;
		fetch_fail_here(node, fetch, ERR_NO_SPACE);
		return;
	}
	fetch_place(node, fetch, NULL);
}

void fetch_has_room(struct node *node, struct ticket *ticket)
{
	struct fetch *fetch = container_of(ticket, struct fetch, ticket);

	CHECK(fetch->state == FETCH_ROOM);
	list_del(&fetch->queue_entry);
	fetch_place(node, fetch, ticket);
}

/* ---- the end ------------------------------------------------------------- */

static void fetch_commit(struct node *node, struct fetch *fetch, uint64_t checksum)
{
	struct errand errand = {
		.kind = ERRAND_LOADED,
		.id = fetch->id,
		.generation = fetch->generation,
		.key = fetch->key,
		.key_size = fetch->key_size,
	};
	uint32_t slot = fetch->slot;

	fetch->slot = SLOT_NONE;
	if (master_copy_done(&node->master, slot, 0, checksum, node_now(node)) != 0) {
		fetch_is_moot(node, fetch); /* it was removed meanwhile */
		return;
	}
	node->cluster.stats.fetches++;
	node->cluster.stats.fetched_bytes += fetch->size;
	fetch->joined = 0;
	if (fetch->owes_leave == fetch->generation)
		fetch->owes_leave = 0;
	errand_add(node, &errand);
	fetch_is_ready(node, fetch, slot);
}

static uint64_t fetch_seed(const struct fetch *fetch)
{
	return hash_key(fetch->key, fetch->key_size, 0);
}

/* All bytes are in their run. Whether they are those that were put. */
static int fetch_verify(const struct fetch *fetch, uint64_t checksum)
{
	if (fetch->checksum == 0 || PLANTED(UNCHECKED_FETCH))
		return 0;
	return fetch->checksum == checksum ? 0 : ERR_CORRUPT;
}

/* ---- ASK ----------------------------------------------------------------- */

static void fetch_begin_move(
	struct node *node, struct fetch *fetch, uint64_t sent_ns, uint64_t length_ns)
{
	const struct slot *slot = &node->share->slots[fetch->slot];
	const struct peer_fetch what = {
		.peer = fetch->lease.peer,
		.ticket = fetch->lease.ticket,
		.generation = fetch->generation,
		.pool_off = slot->off,
		.size = slot->size,
		.seed = fetch_seed(fetch),
		.deadline_ns = time_after(sent_ns, length_ns / 100 * 98),
	};

	fetch->state = FETCH_MOVE;
	fetch->stopping = false;
	fetch->moved_ns = node_now(node);
	node->env.peer.fetch(node->env.peer.ctx, fetch->number, &what);
}

static void fetch_take_inline(
	struct node *node, struct fetch *fetch, const struct msg_replica *msg)
{
	unsigned char *to = node->share->pool + node->share->slots[fetch->slot].off;
	uint64_t checksum;

	if (fetch->size > 0)
		memcpy(to, msg->value.data, fetch->size);
	turn_give(node, fetch);
	checksum = hash_key(to, fetch->size, fetch_seed(fetch));
	if (fetch_verify(fetch, checksum) == 0)
		fetch_commit(node, fetch, checksum);
	else
		fetch_source_failed(node, fetch, ERR_CORRUPT);
}

/* It is what was asked for, and as it was to come. */
static bool replica_is_right(const struct fetch *fetch, const struct msg_replica *msg)
{
	if (msg->generation != fetch->generation || msg->size != fetch->size)
		return false;
	return msg->length_ns != 0 ? fetch->number != PEER_TRANSFERS
				   : msg->value.size == msg->size;
}

static void fetch_take_replica(struct node *node, struct fetch *fetch,
	const struct ask *ask, const struct msg_replica *msg)
{
	const struct copy_request said = {
		.expires = time_after(node_now(node), msg->expires_in_ns),
		.readers_left = msg->readers_left,
		.wanted = msg->wanted,
		.counted = (msg->flags & REPLICA_COUNTED) != 0,
		.durable = (msg->flags & PUT_DURABLE) != 0,
		.unlisted = fetch->listed != fetch->generation,
	};

	source_lease_take(&fetch->lease, ask->peer, msg);
	if (!replica_is_right(fetch, msg)) {
		source_unlease(node, &fetch->lease);
		turn_give(node, fetch);
		fetch_source_failed(node, fetch, ERR_PROTOCOL);
		return;
	}
	master_copy_know(&node->master, fetch->slot, &said);
	fetch->checksum = msg->checksum;
	if (fetch->lease.there)
		fetch_begin_move(node, fetch, ask->sent_ns, msg->length_ns);
	else
		fetch_take_inline(node, fetch, msg);
}

static void fetch_answered(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct fetch *fetch = ask->owner;
	struct source_lease lease;
	struct msg_replica msg;

	err = ask_error_of(err, message, size);
	if (err == 0 && msg_replica_decode(message, size, &msg) != 0)
		err = ERR_PROTOCOL;
	if (fetch == NULL) { /* nobody wants it any more */
		if (err != 0)
			return;
		source_lease_take(&lease, ask->peer, &msg);
		source_unlease(node, &lease);
		return;
	}
	fetch->ask = NULL;
	if (err == 0) {
		fetch_take_replica(node, fetch, ask, &msg);
		return;
	}
	turn_give(node, fetch);
	fetch_source_failed(node, fetch, err);
}

static void fetch_ask(struct node *node, struct fetch *fetch)
{
	const struct source *source = &fetch->sources.list[fetch->source];
	const struct msg_replica_ask msg = {
		.key = {fetch->key, fetch->key_size},
		.generation = fetch->generation,
		.timeout_ns = fetch_left_ns(node, fetch),
		.inline_limit = INLINE_LIMIT,
		.may_leave = source->may_leave,
	};

	fetch->ask = ask_send(node, source->peer,
		msg_replica_ask_encode(node->out, sizeof(node->out), &msg),
		fetch_answered);
	if (fetch->ask == NULL) {
		fetch_is_unsettled(node, fetch);
		return;
	}
	fetch->ask->owner = fetch;
	fetch->state = FETCH_ASK;
}

/* ---- MOVE ---------------------------------------------------------------- */

/* Nobody wanted it any more, and it did not come. */
static void fetch_was_stopped(struct node *node, struct fetch *fetch)
{
	if (fetch_give_back(node, fetch))
		fetch_stopped(node, fetch);
}

void node_on_fetch(struct node *node, uint32_t number, int err, uint64_t checksum)
{
	struct fetch *fetch;

	CHECK(number < PEER_TRANSFERS);
	fetch = node->cluster.moving[number];
	CHECK(fetch != NULL && fetch->state == FETCH_MOVE);
	node_tick(node);
	source_unlease(node, &fetch->lease);
	fetch->state = FETCH_TURN; /* no bytes are on their way any more */
	turn_give(node, fetch);
	if (err == 0) {
		speed_note(&node->cluster.fetch_speed, fetch->size,
			node_now(node) - fetch->moved_ns);
		err = fetch_verify(fetch, checksum);
	} else if (err == ERR_TIMEOUT) {
		err = ERR_LEASE_EXPIRED; /* which was its deadline */
	}
	if (err == 0)
		fetch_commit(node, fetch, checksum);
	else if (fetch->stopping)
		fetch_was_stopped(node, fetch);
	else
		fetch_source_failed(node, fetch, err);
}

/* ---- giving back --------------------------------------------------------- */

static void gate_leave(struct node *node, uint32_t gate)
{
	if (heap_has(&node->timers, timer_of_gate(node, gate)))
		heap_remove(&node->timers, timer_of_gate(node, gate));
	node->gates[gate] = (struct gate){.asleep = false};
}

/* The answer, if it brings a lease, gives that back. */
static void fetch_leave_ask(struct fetch *fetch)
{
	if (fetch->ask != NULL)
		fetch->ask->owner = NULL;
	fetch->ask = NULL;
}

static void fetch_leave_asks(struct node *node, struct fetch *fetch)
{
	list_for_each_safe (at, &fetch->asks)
		ask_forget(node, container_of(at, struct ask, op_entry));
}

bool fetch_give_back(struct node *node, struct fetch *fetch)
{
	if (fetch->state == FETCH_MOVE) {
		if (!fetch->stopping)
			node->env.peer.stop_fetch(node->env.peer.ctx, fetch->number);
		fetch->stopping = true;
		return false;
	}
	if (fetch->state == FETCH_GATE || fetch->state == FETCH_PAUSE)
		gate_leave(node, GATE_FETCHES + fetch_index(node, fetch));
	fetch_leave_ask(fetch);
	fetch_leave_asks(node, fetch);
	list_del(&fetch->queue_entry);
	if (fetch->ticket.state != TICKET_IDLE)
		master_room_cancel(&node->master, &fetch->ticket);
	fetch_unpromise(node, fetch);
	if (fetch->slot != SLOT_NONE)
		(void)master_copy_done(
			&node->master, fetch->slot, ERR_TIMEOUT, 0, node_now(node));
	fetch->slot = SLOT_NONE;
	if (fetch->query != NULL)
		return false;
	fetch->state = FETCH_TURN; /* it has nothing */
	turn_give(node, fetch);
	return true;
}
