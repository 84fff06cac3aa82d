/*
 * room.c - what the core asks for to make room: scans, moves, more slots.
 *
 * Each step does a bounded piece, so that a message never waits long: NODE_ROOM_BUDGET
 * objects judged, NODE_COPY_SLICE bytes of a move copied, or one growth of the index.
 *
 *   move:  idle --master_move_next--> copying, slice by slice --> gate -->
 * master_move_done grow:  wanted --> files allocated --> gate --> bucket array, nslots
 *
 * A growth that fails is no error: objects just stay as many as they are. It is tried
 * again after a second at the earliest.
 */
#include "node/node_priv.h"

#include <inttypes.h>
#include <string.h>

/* ---- moves --------------------------------------------------------------- */

static void move_finish(struct node *node, uint64_t now)
{
	uint64_t hash = node->share->slots[node->room.move.from].hash;
	int64_t value = 0;
	int err = 0;

	if (!gate_pass(node, GATE_MOVE, FAULT_NODE_BEFORE_MOVE_PUBLISH, &err))
		return;
	node->room.copying = false;
	master_move_done(&node->master, err == 0, now);
	waiters_wake(node, hash); /* it can be saved again */
	(void)node_fault(node, FAULT_NODE_AFTER_MOVE_PUBLISH, &value);
}

/* True: there is more to copy now. */
static bool move_step(struct node *node, uint64_t now)
{
	struct room_driver *room = &node->room;
	const struct relocation *move = &room->move;
	unsigned char *pool = node->share->pool;
	uint64_t piece;

	if (node->gates[GATE_MOVE].asleep)
		return false;
	if (!room->copying) {
		if (!master_move_next(&node->master, &room->move))
			return false;
		room->copying = true;
		room->copied = 0;
	}
	piece = MIN(move->size - room->copied, NODE_COPY_SLICE);
	memcpy(pool + move->to_off + room->copied, pool + move->from_off + room->copied,
		piece);
	room->copied += piece;
	if (room->copied == move->size)
		move_finish(node, now);
	return !node->gates[GATE_MOVE].asleep;
}

/* ---- slots --------------------------------------------------------------- */

static uint32_t grow_target(const struct node *node)
{
	uint32_t limit = node->share->header->slots_limit;
	uint32_t nslots = node_slots(node);

	return limit - nslots > NODE_SLOTS_STEP ? nslots + NODE_SLOTS_STEP : limit;
}

/* All memory that `nslots` slots need: slots, buckets, and a count of each client. */
static int grow_files(struct node *node, uint32_t nslots, uint32_t log2)
{
	const struct env_disk *disk = &node->env.disk;
	uint32_t limit = node->share->header->slots_limit;
	uint32_t old = node_slots(node);
	int err;

	err = disk->index_extend(disk->ctx,
		SHARE_SLOTS_OFFSET + (uint64_t)old * sizeof(struct slot),
		(uint64_t)(nslots - old) * sizeof(struct slot));
	if (err == 0)
		err = disk->index_extend(disk->ctx, share_buckets_offset(limit, log2),
			sizeof(struct bucket) << log2);
	for (uint32_t cid = 0; err == 0 && cid < CLIENT_LIMIT; cid++) {
		if (node->clients[cid].live)
			err = disk->holds_extend(disk->ctx, cid, nslots);
	}
	return err;
}

static void grow_failed(struct node *node, uint64_t now, uint32_t nslots, int err)
{
	node->room.grow_after = time_after(now, NODE_GROW_RETRY_NS);
	log_line(node->config.log, LOG_LEVEL_WARNING, "slots_not_grown",
		"slots=%" PRIu32 " wanted=%" PRIu32 " error=%s", node_slots(node), nslots,
		err_name(err));
}

static void grow_step(struct node *node, uint64_t now)
{
	uint32_t nslots = grow_target(node);
	uint32_t log2 = share_log2_buckets(nslots);
	int err;

	if (node->gates[GATE_GROW].asleep || now < node->room.grow_after ||
		nslots == node_slots(node) || !master_wants_slots(&node->master))
		return;
	/* Also after a sleep, in which a client may have come: it is allocated already
	 * then. */
	err = grow_files(node, nslots, log2);
	if (err == 0 && !gate_pass(node, GATE_GROW, FAULT_NODE_GROW_SLOTS, &err))
		return;
	if (err != 0) {
		grow_failed(node, now, nslots, err);
		return;
	}
	if (log2 > atomic_load_explicit(
			   &node->share->header->log2_buckets, memory_order_relaxed))
		index_grow(node->share, log2);
	master_slots_grown(&node->master, nslots);
	log_line(node->config.log, LOG_LEVEL_INFO, "slots_grown", "slots=%" PRIu32,
		nslots);
}

/* ---- the queue ----------------------------------------------------------- */

static void wake_granted(struct node *node)
{
	struct ticket *ticket;

	while ((ticket = master_room_granted(&node->master)) != NULL) {
		if (fetch_owns(node, ticket))
			fetch_has_room(node, ticket);
		else if (ticket->is_load)
			load_has_room(node, container_of(ticket, struct load, ticket));
		else
			op_wake(node, container_of(ticket, struct op, ticket));
	}
}

bool room_step(struct node *node, uint64_t now)
{
	bool more = master_room_run(&node->master, now, NODE_ROOM_BUDGET);

	grow_step(node, now);
	more |= move_step(node, now);
	wake_granted(node);
	return more;
}

uint64_t room_next(const struct node *node)
{
	const struct room_driver *room = &node->room;

	if (node->gates[GATE_GROW].asleep || !master_wants_slots(&node->master) ||
		grow_target(node) == node_slots(node))
		return UINT64_MAX;
	return room->grow_after;
}
