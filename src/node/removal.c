/*
 * removal.c - an object ends in the whole cluster, for an op: the directory forgets it, and
 * all who hold it end it, before anybody is told that it is gone.
 *
 *   ASK --TAKE_OUT--> ASKED
 *     ASKED --taken out--> ended here, HOLDERS --all have answered--> over
 *                                          '--not all--> BURY
 *           --absent, and the directory knows all--> ended here --nothing was there--> over
 *                 ^------------ ASK, for that generation --it was there--'
 *           --absent again--> HOLDERS, of which nobody knows: all
 *           --absent, or no answer, or an older one than is here--> ended here, EVERYONE
 *     EVERYONE --a peer had it, of whatever generation--> EVERYONE, for that one, until none has
 *              --somebody had it--> BURY
 *              --nobody had it--> ASK once more, if the directory had answered
 *                                   --absent still--> over: NOT_FOUND, unless one did not say
 *                                                     whether it had
 *              --nobody, and not all could be asked--> ASK again, until the deadline
 *     BURY --the directory has a tombstone--> over
 *
 * Who could not be told gets a grave (grave.c), and the directory a tombstone before the answer,
 * since this node may be gone when they are back. Of all who take an object one wins, so that
 * only the directory can say who: without it a take waits.
 *
 * An op that ends before its removal does leaves it to be finished (orphan.c).
 */
#include "node/remove_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>

enum removal_state {
	REMOVAL_ASK,
	REMOVAL_ASKED,
	REMOVAL_HOLDERS,
	REMOVAL_EVERYONE,
	REMOVAL_BURY,
	REMOVAL_BURIED,
	REMOVAL_OVER
};

uint64_t generation_here(const struct node *node, const struct index_key *key)
{
	uint32_t slot = master_find(&node->master, key);
	uint32_t entry;

	if (slot != SLOT_NONE)
		return node->share->slots[slot].generation;
	entry = master_disk_find(&node->master, key);
	return entry != DISK_NONE ? disk_entry(&node->master.disk, entry)->generation : 0;
}

void removal_begin(struct op *op, uint64_t generation)
{
	op->ends = generation;
	op->cluster_state = REMOVAL_ASK;
	op->state = REMOVES_CLUSTER;
}

/* ---- ends ---------------------------------------------------------------- */

static void removal_over(struct op *op, int failure)
{
	op->failure = failure;
	op->cluster_state = REMOVAL_OVER;
}

static bool removal_is_late(const struct node *node, const struct op *op)
{
	return node_now(node) >= time_after(op->began, END_WAIT_NS);
}

static uint32_t count_live(const struct node *node, uint64_t places)
{
	uint32_t count = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++)
		count += (places >> place & 1) != 0 &&
			 peer_is_live(node, &node->cluster.peers[place]);
	return count;
}

/* How many of the peers that could not be asked may have it. */
static uint32_t live_unreached(const struct node *node, const struct op *op)
{
	return count_live(node, op->unreached_peers);
}

/* One that did not say whether it ended something is gone, and may be back with that. */
static bool unheard_is_gone(const struct node *node, const struct op *op)
{
	uint32_t count = 0;

	for (uint64_t places = op->unheard_peers; places != 0; places &= places - 1)
		count++;
	return count_live(node, op->unheard_peers) < count;
}

static void answer_unknown(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	op_error(node, op, ERR_UNAVAILABLE,
		"whether there is an object under the key %s is not known: the directory "
		"is "
		"away or has forgotten, and of the other nodes %" PRIu32
		" could not be asked%s",
		key_text(op->key.data, op->key.size, key), live_unreached(node, op),
		node->cluster.members_known ? "" : " nor all be named");
}

static void answer_not_taken(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	op_error(node, op, ERR_UNAVAILABLE,
		"whether somebody else took the object under the key %s is not known: "
		"the "
		"directory is away or has forgotten",
		key_text(op->key.data, op->key.size, key));
}

/* It ended, but not everywhere for sure. */
static void answer_partly(struct node *node, struct op *op, int err, uint32_t silent)
{
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	key_text(op->key.data, op->key.size, key);
	if (silent > 0)
		op_error(node, op, err,
			"the object under the key %s was removed, but %" PRIu32
			" nodes that have it did not say so in time; they are told again",
			key, silent);
	else
		op_error(node, op, err,
			"the object under the key %s was removed, but its record on "
			"another "
			"node's disk could not be deleted yet; it will be",
			key);
}

/* ---- here ---------------------------------------------------------------- */

static void ended_here(struct node *node, struct op *op, uint64_t generation)
{
	op->found = true;
	op->generation = MAX(op->generation, generation);
	waiters_wake(node, op->key.hash);
}

/* With what is newer than that which was taken out nothing is to be done. */
static void end_puts_here(struct node *node, struct op *op)
{
	uint64_t generation;

	if (op->ends == 0 || generation_here(node, &op->key) > op->ends)
		return;
	if (master_end_generation(
		    &node->master, &op->key, 0, node_now(node), &generation) == 0)
		waiters_wake(node, op->key.hash);
}

static void end_here(struct node *node, struct op *op)
{
	uint64_t generation;

	fetches_end(node, &op->key, op->ends);
	if (master_end_generation(
		    &node->master, &op->key, op->ends, node_now(node), &generation) == 0)
		ended_here(node, op, generation);
	if (op->any)
		end_puts_here(node, op);
}

/* The slot says from now on who took it, to who asks again. */
static void take_here(struct node *node, struct op *op)
{
	if (op->sole && master_take(&node->master, op->slot, op->life,
				op_client_ref(node, op), op->number, node_now(node)) == 0)
		waiters_wake(node, op->key.hash);
	end_here(node, op);
}

/* ---- the tombstone ------------------------------------------------------- */

static bool removal_ended(struct node *node, struct op *op)
{
	if (op->silent > 0 || op->disk_late) {
		answer_partly(
			node, op, op->silent > 0 ? ERR_UNAVAILABLE : ERR_IO, op->silent);
		return false;
	}
	removal_over(op, 0);
	return true;
}

static bool removal_bury_later(struct node *node, struct op *op)
{
	bury_later(node, op->key.data, op->key.size, op->ends, GRAVE_KEY);
	return removal_ended(node, op);
}

static bool removal_bury(struct node *node, struct op *op)
{
	struct query *query = query_new(node, DIR_OP_BURY, &op->id);

	if (query == NULL)
		return removal_bury_later(node, op);
	query->call.generation = op->ends;
	query->call.bury_ns = GRAVE_NS;
	op->cluster_state = REMOVAL_BURIED;
	op->deadline = time_after(node_now(node), GONE_NS);
	op_set_deadline(node, op);
	query_start_for(node, op, query);
	return false;
}

static bool removal_buried(struct node *node, struct op *op)
{
	int err;

	if (!op->query->ended && node_now(node) < op->deadline) {
		op_set_deadline(node, op);
		return false;
	}
	err = op->query->ended ? op->query->call.err : ERR_UNAVAILABLE;
	/* Somebody may have announced it since it was taken out. */
	if (err == 0)
		bury_settle(node, (struct msg_bytes){op->key.data, op->key.size},
			op->ends, GRAVE_KEY, &op->query->call.entry);
	query_leave(node, op, NULL);
	return err == 0 ? removal_ended(node, op) : removal_bury_later(node, op);
}

/* It ended: all who could be told have been. */
static bool removal_told(struct node *node, struct op *op, bool is_buried)
{
	op->silent = tell_leave(node, op);
	if (op->gives_way) {
		grave_dig(node, op->key.data, op->key.size, op->ends, GRAVE_GAVE_WAY,
			op->unreached_peers);
		return removal_ended(node, op);
	}
	if (op->keeperless)
		grave_keep(
			node, op->key.data, op->key.size, op->ends, op->unreached_peers);
	else
		grave_dig(node, op->key.data, op->key.size, op->ends, GRAVE_KEY,
			op->unreached_peers);
	/* The directory has a tombstone for all who may have it only if it names them, and if it
	 * has not forgotten that since. */
	if (is_buried && op->unreached_peers == 0 && !op->keeperless &&
		op->epoch == complete_epoch(node, &op->id))
		return removal_ended(node, op);
	/* A directory that is away is not waited for once more. */
	if (op->unsure || directory_is_away(node, &op->id))
		return removal_bury_later(node, op);
	op->cluster_state = REMOVAL_BURY;
	return true;
}

/* ---- the directory's answer ---------------------------------------------- */

/* Nobody can say, and there is no more time. */
static bool removal_too_late(struct node *node, struct op *op)
{
	if (!op->sole) {
		answer_unknown(node, op);
		return false;
	}
	if (op->unsure)
		orphan_settle(node, op);
	answer_not_taken(node, op);
	return false;
}

static bool removal_unknown(struct node *node, struct op *op);

static bool removal_ask(struct node *node, struct op *op)
{
	struct query *query;

	if (removal_is_late(node, op))
		return removal_too_late(node, op);
	if (directory_is_away(node, &op->id)) {
		op->dir_answered = op->confirms = false;
		return removal_unknown(node, op);
	}
	query = query_new(node, DIR_OP_TAKE_OUT, &op->id);
	if (query == NULL) {
		unsettled_add(node, op);
		return false;
	}
	query->call.generation = op->ends;
	query->call.token = op->token;
	query->call.bury_ns = GRAVE_NS;
	query->call.lost = op->gives_way;
	/* Who has not announced it is told by the tombstone. */
	if (directory_knows_all(node, &op->id))
		query_set_live(node, query);
	op->cluster_state = REMOVAL_ASKED;
	op->deadline = time_after(op->began, END_WAIT_NS);
	op_set_deadline(node, op);
	query_start_for(node, op, query);
	return false;
}

static bool removal_again(struct node *node, struct op *op)
{
	op->cluster_state = REMOVAL_ASK;
	if (removal_is_late(node, op))
		return removal_too_late(node, op);
	op->deadline = time_after(op->began, END_WAIT_NS);
	unsettled_add(node, op);
	return false;
}

/* Who keeps it has not been able to announce it since the directory forgot. */
static bool keeper_is_unknown(const struct dir_entry *entry)
{
	return (entry->flags & DIR_SOFTPIN) != 0 && dir_keeper_count(entry) == 0;
}

/* True: go on. */
static bool removal_done(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->query->call;
	const struct dir_entry *entry = &call->entry, nobody = {.generation = 0};
	bool unknown, ignored;
	uint64_t places = drop_places(node, entry, &unknown);

	/* One that forgot names only who has announced again so far. */
	op->keeperless = keeper_is_unknown(entry);
	if (!query_knows_all(node, op->query) || op->keeperless)
		places |= drop_places(node, &nobody, &ignored);
	/* A holder that nobody has named yet would never hear of it. */
	if (unknown && !node->cluster.members_known && !removal_is_late(node, op)) {
		op->deadline = time_after(op->began, END_WAIT_NS);
		unsettled_add(node, op);
		return false;
	}
	op->ends = op->generation = entry->generation;
	op->found = true;
	query_free(node, op->query);
	take_here(node, op);
	tell_begin(node, op, places);
	op->cluster_state = REMOVAL_HOLDERS;
	return true;
}

/* True: go on. What is here all the same is not known to the directory, or was published
 * since it was asked. */
static bool removal_absent(struct node *node, struct op *op)
{
	bool was_found = op->found, any = op->ends == 0, ignored;

	query_free(node, op->query);
	if (any && unheard_is_gone(node, op))
		return removal_again(node, op);
	/* Who has announced all has it no more: it may have been what is gone. */
	op->found |= any && op->unheard_peers != 0;
	end_here(node, op);
	if (any && op->generation != 0) {
		op->ends = op->generation;
		op->cluster_state = REMOVAL_ASK;
		return true;
	}
	/* Whoever took it out may not have told all yet. */
	if (was_found && !any) {
		const struct dir_entry nobody = {.generation = 0};

		tell_begin(node, op, drop_places(node, &nobody, &ignored));
		op->cluster_state = REMOVAL_HOLDERS;
		return true;
	}
	removal_over(op, any && op->found ? 0 : ERR_NOT_FOUND); /* a put without a name */
	return true;
}

static void removal_everyone(struct node *node, struct op *op)
{
	const struct dir_entry nobody = {.generation = 0};
	bool unknown;

	end_here(node, op);
	tell_begin(node, op, drop_places(node, &nobody, &unknown));
	op->cluster_state = REMOVAL_EVERYONE;
}

/* True: go on. */
static bool removal_unknown(struct node *node, struct op *op)
{
	if (op->sole)
		return removal_again(node, op);
	removal_everyone(node, op);
	return true;
}

/* It does not answer in time. True: go on. */
static bool removal_unheard(struct node *node, struct op *op)
{
	if (!removal_is_late(node, op)) {
		op_set_deadline(node, op);
		return false;
	}
	orphan_leave(node, op);
	op->unsure = !op->sole; /* a take is settled by its end */
	return removal_unknown(node, op);
}

/* True: it is over. */
static bool removal_nobody(struct op *op)
{
	removal_over(op, op->found || op->unheard_peers != 0 ? 0 : ERR_NOT_FOUND);
	return true;
}

/* A directory that went back has an older one, and what is here is not announced to it yet. */
static bool removal_is_outdated(const struct node *node, const struct op *op)
{
	return op->any && !query_knows_all(node, op->query) &&
	       generation_here(node, &op->key) > op->query->call.entry.generation;
}

static bool removal_answered(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->query->call;
	bool knows_all = query_knows_all(node, op->query);
	bool is_confirmed = op->confirms && call->err == 0 && call->verdict != DIR_DONE &&
			    call->epoch == op->dir_epoch;

	op->confirms = false;
	op->dir_answered = call->err == 0;
	op->dir_epoch = call->epoch;
	op->epoch = knows_all ? call->epoch : 0;
	if (call->err == 0 && call->verdict == DIR_DONE) {
		if (!removal_is_outdated(node, op))
			return removal_done(node, op);
		op->found = true;
		op->generation = call->entry.generation;
	}
	if (call->err == 0 && (PLANTED(BELIEVED_ABSENT) || knows_all))
		return removal_absent(node, op);
	op->unsure |= call->err != 0;
	query_free(node, op->query);
	return is_confirmed ? removal_nobody(op) : removal_unknown(node, op);
}

/* Who said that it has nothing may have got a copy since, of one who had not heard yet. */
static bool removal_repeats(struct node *node, struct op *op)
{
	if (!op->any || !op->had || removal_is_late(node, op))
		return false;
	removal_everyone(node, op);
	return true;
}

/* All who could be asked have answered. True: go on, or over. */
static bool removal_judged(struct node *node, struct op *op)
{
	uint64_t generation = MAX(op->generation, op->ends);

	if (op->found && generation != 0) {
		op->generation = op->ends = generation;
		return removal_repeats(node, op) || removal_told(node, op, false);
	}
	(void)tell_leave(node, op);
	/* What the directory may have taken out was there. */
	if (op->unsure || unheard_is_gone(node, op) || live_unreached(node, op) > 0 ||
		!node->cluster.members_known)
		return removal_again(node, op);
	if (!op->dir_answered)
		return removal_nobody(op);
	/* As for a get (fetch_find.c): it may have been handed over between the answers. */
	op->confirms = true;
	op->cluster_state = REMOVAL_ASK;
	return true;
}

/* ---- the flow ------------------------------------------------------------ */

/* One step. True: go on with the next. */
static bool removal_step(struct node *node, struct op *op)
{
	switch ((enum removal_state)op->cluster_state) {
	case REMOVAL_ASK:
		return removal_ask(node, op);
	case REMOVAL_ASKED:
		return op->query->ended ? removal_answered(node, op)
					: removal_unheard(node, op);
	case REMOVAL_HOLDERS:
		return tell_all(node, op) && removal_told(node, op, true);
	case REMOVAL_EVERYONE:
		return tell_all(node, op) && removal_judged(node, op);
	case REMOVAL_BURY:
		return removal_bury(node, op);
	case REMOVAL_BURIED:
		return removal_buried(node, op);
	case REMOVAL_OVER:
		break;
	}
	return false;
}

bool removal_run(struct node *node, struct op *op)
{
	if (op->began == 0) {
		op->began = node_now(node);
		op->deadline = time_after(op->began, END_WAIT_NS);
	}
	if (op->token == 0)
		op->token = cluster_token(node);
	waiters_del(op); /* the unsettled */
	while (removal_step(node, op))
		;
	return op->cluster_state == REMOVAL_OVER;
}

void removal_cancel(struct node *node, struct op *op)
{
	if (op->query != NULL && op->cluster_state == REMOVAL_BURIED) {
		bury_later(node, op->key.data, op->key.size, op->ends, GRAVE_KEY);
		query_leave(node, op, NULL);
	}
	orphan_leave(node, op);
	holders_leave(node, op);
}
