/*
 * flow_keep.c - become a keeper of an object, in the place of the node that asks for it, of another
 * one that is gone, or beside those there are: KEEP.
 *
 *   START --no credit--> NO_SPACE, TOO_MANY: nothing has begun
 *     '--> LOOK --not here--> FETCH (flow_fetch.c) --pinned--.
 *            '--here------------------------------------------> kept in its slot, ASK
 *                                                               or SAVE, if it is durable
 *     SAVE --on disk here--> ASK
 *     ASK --HAND_OVER--> ASKED --the entry has this node as its keeper--> KEPT
 *      ^                   |--it has not--> NOT_FOUND, EXISTS; announced, so that the directory
 *      '---- no answer ----'                says whether the copy is secondary, or goes
 *
 * Of what several nodes are to keep it takes nobody's role beside its own, unless that one is to go
 * all the same. What this node is offering to a peer itself it takes over from nobody, until the
 * peer has answered: the giver may have become a keeper by that very offer. Of what is being removed
 * by its prefix (swept.c) it takes over nothing: REMOVED, and the giver removes it. That may be so
 * for long, so nobody asks again at once.
 *
 * The slot says that the object is kept before the directory does: killed between the two, this
 * node announces it as a keeper, and becomes secondary if the giver is one still. The giver
 * drops its role only on the answer, or when it finds this node in the entry. So both may keep
 * it for a while, and never neither.
 *
 * Once the slot says so, the hand-over is finished whatever becomes of the giver: an op that
 * ends first leaves it to an errand, and asking again is harmless. Until then no announcement
 * makes the object secondary (keep_is_under_way()): the entry may name this node a moment later.
 *
 * Credit is room that is free, or has what may be dropped, beyond the upper watermark and what
 * has been promised. But where a copy would come to lie in turning room (core/turning.c) it could
 * not stay, and is not fetched. A node whose own puts wait has none, so that of two full nodes
 * neither gives to the other; one that was started a moment ago, and looks the emptiest to all,
 * takes one object at a time.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>

enum keep_state {
	KEEPS_START,
	KEEPS_LOOK,
	KEEPS_SAVE,
	KEEPS_ASK,
	KEEPS_ASKED
};

int keep_decode(struct op *op)
{
	struct msg_keep msg;
	int err = msg_keep_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->generation = msg.generation;
	op->size = msg.size;
	op->from = msg.from;
	op->saves = msg.durable != 0;
	op->fewer = msg.fewer != 0;
	op->deadline = msg.timeout_ns; /* a duration until keep_run() */
	return 0;
}

/* A fetch has left what it found in their place. */
static void keep_read_again(struct op *op)
{
	struct msg_keep msg;

	if (msg_keep_decode(op->message, op->message_size, &msg) != 0)
		NOT_REACHED("it was read before");
	op->generation = msg.generation;
	op->size = msg.size;
}

/* ---- credit -------------------------------------------------------------- */

uint64_t keep_credit(const struct node *node)
{
	uint64_t reserve = node->share->header->pool_size / 1000 * node->config.high +
			   node->cluster.keeping_bytes;
	struct pool_use use;
	uint64_t spare;

	if (PLANTED(NO_CREDIT))
		return node->share->header->pool_size;
	if (node_is_drained(node) || !list_is_empty(&node->master.room.waiting))
		return 0;
	master_use(&node->master, &use);
	spare = use.free + use.inactive + use.active;
	return spare > reserve ? spare - reserve : 0;
}

static uint32_t keeps_limit(const struct node *node)
{
	return node_now(node) - node->started_ns < KEEPS_FEW_NS ? 1 : KEEPS_AT_ONCE;
}

static uint64_t keep_bytes(const struct op *op)
{
	return master_run_bytes(op->size, op->key.size);
}

static void keep_count(struct node *node, struct op *op, uint64_t bytes)
{
	op->begun = true;
	op->promised = bytes;
	node->cluster.keeping++;
	node->cluster.keeping_bytes += bytes;
}

static void keep_uncount(struct node *node, struct op *op)
{
	if (!op->begun)
		return;
	op->begun = false;
	node->cluster.keeping--;
	node->cluster.keeping_bytes -= op->promised;
}

/* ---- answers ------------------------------------------------------------- */

static void keep_fail(struct node *node, struct op *op, int err, const char *why)
{
	char key[NODE_KEY_TEXT];

	keep_uncount(node, op);
	op_error(node, op, err,
		"generation %" PRIu64 " of the key %s is not kept here: %s",
		op->generation, key_text(op->key.data, op->key.size, key), why);
}

/* False: it has answered. */
static bool keep_admit(struct node *node, struct op *op)
{
	uint64_t credit = keep_credit(node);

	/* Its bytes are not moved in vain, and again whenever it is offered. */
	if (master_find(&node->master, &op->key) == SLOT_NONE &&
		!master_keep_fits(&node->master, op->size, op->key.size))
		credit = 0;
	if (op->size > master_largest(&node->master, op->key.size) ||
		keep_bytes(op) > credit) {
		node->cluster.stats.keeps_refused++;
		op_error(node, op, ERR_NO_SPACE,
			"an object of %" PRIu64 " bytes is not taken over: %" PRIu64
			" bytes could be",
			op->size, credit);
		return false;
	}
	if (node->cluster.keeping >= keeps_limit(node)) {
		node->cluster.stats.keeps_refused++;
		op_error(node, op, ERR_TOO_MANY,
			"%" PRIu32 " objects are being taken over, which is the limit",
			node->cluster.keeping);
		return false;
	}
	return true;
}

/* ---- the directory ------------------------------------------------------- */

static void keep_errand(struct node *node, const struct op *op, enum errand_kind kind)
{
	const struct errand errand = {
		.kind = kind,
		.id = op->id,
		.generation = op->generation,
		.node = kind == ERRAND_HAND_OVER ? op->from : 0,
		.key = op->key.data,
		.key_size = op->key.size,
	};

	errand_add(node, &errand);
}

static void keep_ask(struct node *node, struct op *op)
{
	struct query *query;

	if (node_now(node) >= op->deadline) {
		node->stats.timeouts++;
		keep_errand(node, op, ERRAND_HAND_OVER);
		keep_fail(node, op, ERR_UNAVAILABLE, "the directory did not answer");
		return;
	}
	query = directory_is_away(node, &op->id)
			? NULL
			: query_new(node, DIR_OP_HAND_OVER, &op->id);
	if (query == NULL) {
		unsettled_add(node, op);
		return;
	}
	query->call.generation = op->generation;
	query->call.from = op->from;
	query->call.fewer = op->fewer;
	op->state = KEEPS_ASKED;
	op_set_deadline(node, op);
	query_start_for(node, op, query);
}

/* It was taken for gone. If it is back, it may have announced that it keeps the object before the
 * directory named this node. */
static void keep_dead_one_looks(struct node *node, const struct op *op)
{
	uint32_t place = peer_find(node, op->from);

	if (op->from != 0 && place != PEER_LIMIT && place != op->lane->link->peer)
		peer_is_overtaken(node, place);
}

static void keep_kept(struct node *node, struct op *op)
{
	const struct msg_kept msg = {
		.generation = op->generation,
		.readers_left = op->readers,
	};

	node->cluster.kept++;
	keep_dead_one_looks(node, op);
	keep_uncount(node, op);
	op_reply(node, op, msg_kept_encode(node->out, sizeof(node->out), &msg));
}

/* It was kept here already, and given away while the directory was asked, which has this node as its
 * keeper now. If it cannot be, the directory hears of it. */
static void keep_once_more(struct node *node, struct op *op)
{
	keep_errand(node, op, ERRAND_ANNOUNCE);
	op->state = KEEPS_LOOK;
	op_wake(node, op);
}

static void keep_asked(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->query->call;
	struct held held;
	int err;

	if (!op->query->ended && node_now(node) < op->deadline) {
		op_set_deadline(node, op);
		return;
	}
	err = op->query->ended ? call->err : ERR_UNAVAILABLE;
	if (err == 0 && call->verdict != DIR_DONE && !PLANTED(HANDED_REMOVED))
		err = call->verdict == DIR_EXISTS ? ERR_EXISTS : ERR_NOT_FOUND;
	if (err == 0 && op->from != 0) /* else whoever asks sees to it */
		rebuild_has_taken(node, call);
	query_leave(node, op, NULL);
	op->state = KEEPS_ASK;
	if (err == ERR_NOT_FOUND || err == ERR_EXISTS) {
		keep_errand(node, op, ERRAND_ANNOUNCE);
		keep_fail(node, op, err,
			err == ERR_EXISTS
				? "it has keepers enough, or is one already"
				: "the directory has the giver as no keeper of it");
	} else if (err != 0) {
		unsettled_add(node, op); /* and then once more */
	} else if (!master_held_look(&node->master, &op->key, op->generation, &held)) {
		keep_fail(node, op, ERR_REMOVED, "it was removed meanwhile");
	} else if (held.secondary) {
		keep_once_more(node, op);
	} else {
		keep_kept(node, op);
	}
}

/* ---- its own disk -------------------------------------------------------- */

/* It is a copy again. Who asked has not been told otherwise, but the directory may have been, where
 * all was announced meanwhile. */
static void keep_undo(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);

	if (op->promised > 0 && slot != SLOT_NONE &&
		node->share->slots[slot].generation == op->generation) {
		master_yield(&node->master, slot, node_now(node));
		keep_errand(node, op, ERRAND_ANNOUNCE);
	}
}

/* Why it is not saved by now: 0, it may be yet. */
static int keep_save_failure(const struct node *node, const struct op *op)
{
	const struct disk *disk = &node->master.disk;

	if (node_now(node) >= op->deadline)
		return ERR_TIMEOUT;
	return disk->error != 0 && disk->retry_ns >= time_after(op->began, DISK_RETRY_NS)
		       ? disk->error
		       : 0;
}

static void keep_save(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);
	int err;

	if (slot == SLOT_NONE || node->share->slots[slot].generation != op->generation) {
		keep_fail(node, op, ERR_REMOVED, "it was removed meanwhile");
		return;
	}
	if (master_is_saved(&node->master, slot)) {
		op->state = KEEPS_ASK;
		keep_ask(node, op);
		return;
	}
	err = keep_save_failure(node, op);
	if (err == 0) {
		master_save_first(&node->master, slot);
		waiters_add(node, op);
		return;
	}
	keep_undo(node, op);
	keep_fail(node, op, err, "the disk does not take it");
}

/* ---- the bytes ----------------------------------------------------------- */

static void keep_found(struct node *node, struct op *op, uint32_t slot)
{
	uint64_t limit;
	int err = 0;

	if (!node_is_ready(node, slot) ||
		node->share->slots[slot].generation != op->generation) {
		keep_fail(node, op, ERR_NOT_FOUND, "the key has another object, or none");
		return;
	}
	if (op->slot == SLOT_NONE) {
		err = lane_pin(node, op->lane, slot, &limit);
		op->slot = slot; /* the pin goes with the lane */
	}
	if (err == 0 && !PLANTED(COUNTED_COPY))
		err = master_keep(&node->master, slot);
	if (err != 0) {
		keep_fail(node, op, err, "it cannot stay where it came to lie");
		return;
	}
	op->readers = node->share->slots[slot].readers_left;
	op->began = node_now(node);
	op->state = op->saves ? KEEPS_SAVE : KEEPS_ASK;
	if (op->saves) /* in case that it came as a copy of what was not yet */
		node->share->slots[slot].flags |= SLOT_DURABLE;
}

static void keep_not_here(struct node *node, struct op *op)
{
	bool is_late = node_now(node) >= op->deadline;

	if (op->failure != 0) {
		keep_fail(node, op, op->failure, "its bytes could not be got");
	} else if (op->fetched == FETCHED_ABSENT) {
		keep_fail(node, op, ERR_NOT_FOUND, "nobody has it");
	} else if (op->fetched == FETCHED_UNSETTLED || is_late) {
		node->stats.timeouts += is_late;
		fetch_leave(node, op);
		keep_fail(node, op, is_late ? ERR_TIMEOUT : ERR_UNAVAILABLE,
			"its bytes did not come");
	} else if (op->fetch != NULL) {
		waiters_add(node, op);
	} else {
		/* What it was counted for is read once more if this answers. */
		keep_uncount(node, op);
		if (fetch_join(node, op))
			keep_count(node, op, keep_bytes(op));
	}
}

static bool keep_is_here(const struct node *node, const struct op *op, struct held *ret)
{
	return master_held_look(&node->master, &op->key, op->generation, ret) &&
	       !ret->secondary;
}

/* Of what several nodes are to keep this one has a role already: with the asker's, that would be
 * two on one node. The directory would see that, unless it has forgotten either. If the role was
 * handed over before, and the answer was lost, the asker learns that as it announces the object. */
static bool keep_has_own_role(const struct node *node, const struct op *op)
{
	const struct peer *asker = &node->cluster.peers[op->lane->link->peer];
	struct held held;

	return op->from == asker->id && !op->fewer && keep_is_here(node, op, &held) &&
	       held.wanted > 1;
}

/* True: it has answered. All else that this node has of it ends, or did. */
static bool keep_is_swept(struct node *node, struct op *op)
{
	if (!swept_has(node, &op->key, op->generation))
		return false;
	fetch_leave(node, op);
	node->cluster.stats.keeps_refused++;
	keep_fail(node, op, ERR_REMOVED, "all under its prefix is being removed");
	return true;
}

static void keep_look(struct node *node, struct op *op)
{
	uint32_t slot = op->slot != SLOT_NONE ? op->slot
					      : master_find(&node->master, &op->key);
	uint32_t entry = master_disk_find(&node->master, &op->key);

	if (keep_is_swept(node, op))
		return;
	if (slot == SLOT_NONE && entry == DISK_NONE) {
		keep_not_here(node, op);
		return;
	}
	fetch_leave(node, op);
	if (keep_has_own_role(node, op) && PLANTED(TWO_ROLES)) {
		keep_kept(node, op);
	} else if (keep_has_own_role(node, op)) {
		keep_fail(node, op, ERR_EXISTS,
			"this node keeps it already, in its own right");
	} else if (slot != SLOT_NONE) {
		keep_found(node, op, slot);
	} else if (disk_entry(&node->master.disk, entry)->generation == op->generation) {
		/* Only what is kept here is on disk here. */
		op->readers = disk_entry(&node->master.disk, entry)->readers_left;
		op->state = KEEPS_ASK;
	} else {
		keep_fail(node, op, ERR_NOT_FOUND, "the key has another object");
	}
	if (op->stage == OP_RUNNING && op->state == KEEPS_SAVE)
		keep_save(node, op);
	else if (op->stage == OP_RUNNING && op->state == KEEPS_ASK)
		keep_ask(node, op);
}

/* ---- the flow ------------------------------------------------------------ */

/* Two nodes that each have the other's word for one object would both drop it. */
static bool keep_is_being_given(const struct node *node, const struct op *op)
{
	struct held held;

	return master_held_look(&node->master, &op->key, op->generation, &held) &&
	       swapout_has(node, &held);
}

/* False: it has answered. */
static bool keep_begin(struct node *node, struct op *op)
{
	struct held held;
	bool is_here;

	op->deadline = time_after(node_now(node), op->deadline);
	if (op->saves && !tier_is_there(node)) {
		keep_fail(node, op, ERR_NOT_SUPPORTED,
			"it is to be on disk, and there is none (--disk)");
		return false;
	}
	if (keep_is_being_given(node, op)) {
		node->cluster.stats.keeps_refused++;
		op_error(node, op, ERR_TOO_MANY, "it is being given to another node");
		return false;
	}
	/* Of one that is kept here already no more room is wanted. */
	is_here = keep_is_here(node, op, &held);
	if (!is_here && !keep_admit(node, op))
		return false;
	keep_count(node, op, is_here ? 0 : keep_bytes(op));
	return true;
}

void keep_run(struct node *node, struct op *op)
{
	waiters_del(op);
	keep_read_again(op);
	switch ((enum keep_state)op->state) {
	case KEEPS_START:
		if (!keep_begin(node, op))
			return;
		op->state = KEEPS_LOOK;
		keep_look(node, op);
		return;
	case KEEPS_LOOK:
		keep_look(node, op);
		return;
	case KEEPS_SAVE:
		keep_save(node, op);
		return;
	case KEEPS_ASK:
		keep_ask(node, op);
		return;
	case KEEPS_ASKED:
		keep_asked(node, op);
		return;
	}
	NOT_REACHED("no such state");
}

bool keep_is_under_way(
	const struct node *node, const struct dir_id *id, uint64_t generation)
{
	for (uint32_t i = 0; node->cluster.keeping > 0 && i < node->config.max_ops; i++) {
		const struct op *op = &node->ops[i];

		if (op->stage == OP_RUNNING && op->service->run == keep_run &&
			op->state >= KEEPS_SAVE && op->generation == generation &&
			dir_id_is(&op->id, id))
			return true;
	}
	return errand_is_there(node, ERRAND_HAND_OVER, id, generation);
}

void keep_cancel(struct node *node, struct op *op)
{
	waiters_del(op);
	fetch_leave(node, op);
	keep_read_again(op);
	if (op->state >= KEEPS_ASK) {
		query_leave(node, op, NULL);
		keep_errand(node, op, ERRAND_HAND_OVER);
	} else if (op->state == KEEPS_SAVE) {
		keep_undo(node, op);
	}
	keep_uncount(node, op);
}
