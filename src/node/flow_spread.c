/*
 * flow_spread.c - the last step of a put with several replicas: it is READY here, and other nodes
 * become its keepers as well.
 *
 *   LOOK --LOOKUP--> LOOKED --enough keep it, or it was removed--> answer
 *    ^  ^              '--lacking--> ASKED (KEEP, of peers with credit) --all answered--> LOOK,
 *    |  |                                                 or answer, if enough have taken it
 *    |  '-----------------------------------------------------------------------'
 *    '---in a moment--- PAUSE, if a peer was busy; if nobody more can be asked, and it is required
 *                       else --> answer, with how many keep it
 *   the deadline --best effort--> answer, with how many keep it
 *              '--required--> UNDO: removed everywhere, as by its owner --> the error
 *
 * Who keeps it the directory says, so that a repeat of the put, or an answer that was lost, makes
 * no keeper too many. What a put does not reach is left to rebuild.c.
 */
#include "node/remove_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>

enum spread_state {
	SPREAD_LOOK,
	SPREAD_LOOKED,
	SPREAD_ASKED,
	SPREAD_PAUSE
};

void spread_begin(struct op *op)
{
	op->cluster_state = SPREAD_LOOK;
	op->deadline = op->spread_until;
	op->failure = 0;
	op->refused = 0;
}

/* ---- ends ---------------------------------------------------------------- */

static void spread_answer_failed(struct node *node, struct op *op)
{
	int err = op->put_failure;
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	op_error(node, op, err,
		"not put, since %u of %u nodes came to keep the key %s of %" PRIu64
		" bytes: %s; of %" PRIu32 " other nodes that are up",
		op->keepers, op->replicas, key_text(op->key.data, op->key.size, key),
		op->size,
		err == ERR_NO_SPACE        ? "the others have no room for it"
		: err == ERR_NOT_SUPPORTED ? "the others have no disk (--disk)"
					   : "no other could be asked in time",
		peers_up(node));
}

static void spread_done(struct node *node, struct op *op)
{
	asks_forget_all(node, op);
	query_leave(node, op, NULL);
	if (op->keepers < op->replicas)
		rebuild_is_short(node);
	op_done(node, op, op->generation);
}

static bool spread_undo(struct node *node, struct op *op)
{
	asks_forget_all(node, op);
	query_leave(node, op, NULL);
	put_undo(node, op, op->put_failure != 0 ? op->put_failure : ERR_UNAVAILABLE);
	return true;
}

/* Who was asked may have become a keeper in the place of this node: the same peer, of what had
 * no room here. */
static bool spread_is_kept_here(const struct node *node, const struct op *op)
{
	struct held held;

	return master_held_look(&node->master, &op->key, op->generation, &held) &&
	       !held.secondary && !swapout_has(node, &held);
}

/* No more can be done. True: go on. */
static bool spread_end(struct node *node, struct op *op)
{
	if (op->required && PLANTED(KEPT_REFUSED)) {
		op->put_failure = ERR_UNAVAILABLE;
		asks_forget_all(node, op);
		query_leave(node, op, NULL);
		spread_answer_failed(node, op);
		return false;
	}
	if (op->required)
		return spread_undo(node, op);
	if (op->keepers > 1 && !spread_is_kept_here(node, op))
		op->keepers--;
	spread_done(node, op);
	return false;
}

/* ---- to ask -------------------------------------------------------------- */

static void spread_answered(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;
	struct msg_kept msg;

	err = kept_read(err, message, size, op->generation, &msg);
	if (err == ERR_NO_SPACE || err == ERR_TOO_MANY)
		taker_refused(
			node, ask->peer, master_run_bytes(op->size, op->key.size), err);
	if (err == 0) {
		op->keepers++;
		node->cluster.stats.spread++;
	} else if (err == ERR_TOO_MANY) {
		op->spread_busy = true;
	} else if (err != ERR_EXISTS) {
		op->refused |= 1ull << ask->peer;
		op->put_failure = err == ERR_NO_SPACE || err == ERR_NOT_SUPPORTED
					  ? err
					  : ERR_UNAVAILABLE;
	}
	if (list_is_empty(&op->asks))
		op_wake(node, op);
}

static bool spread_ask(struct node *node, struct op *op, uint32_t place, uint64_t bytes)
{
	uint64_t now = node_now(node);
	const struct msg_keep msg = {
		.key = {op->key.data, op->key.size},
		.generation = op->generation,
		.size = op->size,
		.durable = op->saves,
		.timeout_ns = MIN(
			op->deadline == UINT64_MAX ? UINT64_MAX : op->deadline - now,
			SWAPOUT_WAIT_NS),
	};

	if (ask_send_for(node, op, place,
		    msg_keep_encode(node->out, sizeof(node->out), &msg),
		    spread_answered) == NULL)
		return false;
	taker_asked(node, place, bytes);
	return true;
}

static uint64_t keepers_places(const struct node *node, const struct dir_entry *entry)
{
	uint64_t places = 0;

	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].role == DIR_KEEPER)
			places |= holder_bit(node, &entry->holders[i]);
	}
	return places;
}

/* False: it waits. */
static bool spread_pause(struct node *node, struct op *op, uint64_t pause_ns)
{
	op->spread_busy = false;
	op->cluster_state = SPREAD_PAUSE;
	op->pause_ns = time_after(node_now(node), pause_ns);
	unsettled_add(node, op);
	heap_set(&node->timers, timer_of_op(node, op), MIN(op->pause_ns, op->deadline));
	return false;
}

/* None of the others would take it now. True: go on. */
static bool spread_has_nobody(struct node *node, struct op *op, uint64_t skipped)
{
	/* One without a disk will not have one by then. */
	if (!op->required || op->put_failure == ERR_NOT_SUPPORTED)
		return spread_end(node, op);
	if (peers_any_beside(node, skipped))
		op->put_failure = ERR_NO_SPACE;
	op->refused = 0;
	return spread_pause(node, op, BEAT_NS);
}

/* True: go on. */
static bool spread_to(struct node *node, struct op *op, const struct dir_entry *entry)
{
	uint64_t keep = keepers_places(node, entry), skipped = keep | op->refused;
	uint64_t bytes = master_run_bytes(op->size, op->key.size);
	unsigned lacking = (unsigned)op->replicas - op->keepers;

	for (; lacking > 0; lacking--) {
		uint32_t place = taker_choose(node, bytes, skipped);

		if (place == PEER_LIMIT || !spread_ask(node, op, place, bytes))
			break;
		skipped |= 1ull << place;
	}
	if (list_is_empty(&op->asks))
		return spread_has_nobody(node, op, keep);
	op->cluster_state = SPREAD_ASKED;
	op_set_deadline(node, op);
	return false;
}

/* ---- to look ------------------------------------------------------------- */

static bool spread_look(struct node *node, struct op *op)
{
	struct query *query = directory_is_away(node, &op->id)
				      ? NULL
				      : query_new(node, DIR_OP_LOOKUP, &op->id);

	if (query == NULL) {
		unsettled_add(node, op);
		return false;
	}
	op->cluster_state = SPREAD_LOOKED;
	op_set_deadline(node, op);
	query_start_for(node, op, query);
	return false;
}

/* True: go on. */
static bool spread_looked(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->query->call;
	struct dir_entry entry = call->entry;
	bool is_known = call->err == 0 && call->verdict == DIR_DONE &&
			entry.generation == op->generation;
	bool is_over = call->err == 0 && !is_known;
	struct held held;

	query_free(node, op->query);
	op->cluster_state = SPREAD_LOOK;
	if (is_over &&
		!master_held_look(&node->master, &op->key, op->generation, &held)) {
		op_done(node, op, op->generation); /* removed meanwhile */
		return false;
	}
	if (!is_known) { /* a directory that forgot hears of it again */
		unsettled_add(node, op);
		return false;
	}
	op->keepers = dir_keeper_count(&entry);
	if (op->keepers >= op->replicas) {
		spread_done(node, op);
		return false;
	}
	/* The answer may have come with the deadline. */
	if (node_now(node) >= op->deadline)
		return spread_end(node, op);
	return spread_to(node, op, &entry);
}

/* ---- the flow ------------------------------------------------------------ */

/* One step. True: go on with the next. */
static bool spread_step(struct node *node, struct op *op)
{
	if (node_now(node) >= op->deadline && !(op->query != NULL && op->query->ended))
		return spread_end(node, op);
	switch ((enum spread_state)op->cluster_state) {
	case SPREAD_PAUSE:
		if (node_now(node) < op->pause_ns)
			return spread_pause(node, op, op->pause_ns - node_now(node));
		return spread_look(node, op);
	case SPREAD_LOOK:
		return spread_look(node, op);
	case SPREAD_LOOKED:
		return op->query->ended && spread_looked(node, op);
	case SPREAD_ASKED:
		if (PLANTED(EARLY_LEVEL)) {
			op->keepers = op->replicas;
			spread_done(node, op);
			return false;
		}
		if (!list_is_empty(&op->asks))
			return false;
		if (op->keepers >= op->replicas && spread_is_kept_here(node, op)) {
			spread_done(node, op);
			return false;
		}
		if (op->spread_busy)
			return spread_pause(node, op, SWAPOUT_PAUSE_NS);
		op->cluster_state = SPREAD_LOOK;
		return true;
	}
	NOT_REACHED("no such state");
}

void spread_run(struct node *node, struct op *op)
{
	waiters_del(op); /* the unsettled */
	while (!op->undoing && spread_step(node, op))
		;
	if (op->undoing && put_undo_run(node, op))
		spread_answer_failed(node, op);
}

void spread_cancel(struct node *node, struct op *op)
{
	asks_forget_all(node, op);
	query_leave(node, op, NULL);
}
