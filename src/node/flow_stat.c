/*
 * flow_stat.c - whether there is an object, and what it is: STAT.
 *
 * It protects nothing and heats nothing. What is here is told at once; what other nodes have
 * is asked for, of the directory or of all of them.
 *
 *   START --not here--> LOOK ----> answer
 *     ^                   |--the directory does not know--> HAVE (all) --one has it--> answer
 *     |                   |          nobody has it: AGAIN (as LOOK) --> answer
 *     |                   |--a put that may not be over--> VERIFY (holders) --> answer
 *     |                   '--nobody is said to have it any more--> LOST (all) --> answer
 *     '--- nobody can tell: again, until STAT_WAIT_NS
 */
#include "node/fetch_priv.h"

#include "base/check.h"

#include <inttypes.h>

/* As STAT has no deadline of its own. */
#define STAT_WAIT_NS 5000000000ull

enum stat_state {
	STATS_START,
	STATS_LOOK,
	STATS_HAVE,
	STATS_AGAIN,
	STATS_VERIFY,
	STATS_LOST
};

/* ---- STAT ---------------------------------------------------------------- */

int stat_decode(struct op *op)
{
	struct msg_stat msg;
	int err = msg_stat_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	return 0;
}

static uint64_t expires_in(uint64_t expires, uint64_t now)
{
	if (expires == UINT64_MAX)
		return UINT64_MAX;
	return expires > now ? expires - now : 0;
}

static void stat_slot(const struct node *node, uint32_t slot, struct msg_stated *msg)
{
	const struct slot *there = &node->share->slots[slot];

	msg->size = there->size;
	msg->generation = there->generation;
	msg->expires_in_ns = expires_in(
		there->flags & SLOT_EXPIRES ? there->expires : UINT64_MAX,
		node_now(node));
	msg->flags = (there->flags & SLOT_SOFTPIN ? PUT_SOFTPIN : 0u) | STAT_IN_POOL |
		     (master_is_saved(&node->master, slot) ? STAT_ON_DISK : 0u);
	msg->readers_left = there->readers_left;
	msg->holds = hold_count(&node->master.watch, slot, CLIENT_LIMIT);
	msg->slot = slot;
	msg->life = node_life(node, slot);
}

static void stat_entry(const struct node *node, uint32_t entry, struct msg_stated *msg)
{
	const struct disk_entry *there = disk_entry(&node->master.disk, entry);

	msg->size = there->size;
	msg->generation = there->generation;
	msg->expires_in_ns = expires_in(there->expires, node_now(node));
	msg->flags = (there->softpin ? PUT_SOFTPIN : 0u) | STAT_ON_DISK;
	msg->readers_left = there->counted ? there->readers_left : 0;
}

static void stat_absent(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	op_error(node, op, ERR_NOT_FOUND, "no object under the key %s",
		key_text(op->key.data, op->key.size, key));
}

/* ---- STAT of what other nodes have --------------------------------------- */

static void stat_other(struct node *node, struct op *op, uint64_t generation,
	uint64_t size, uint32_t flags)
{
	const struct msg_stated msg = {
		.size = size,
		.generation = generation,
		.expires_in_ns = UINT64_MAX, /* who has it knows */
		.flags = flags & DIR_SOFTPIN ? PUT_SOFTPIN : 0u,
		.slot = SLOT_NONE,
	};

	op_reply(node, op, msg_stated_encode(node->out, sizeof(node->out), &msg));
}

static void stat_again(struct node *node, struct op *op)
{
	op->state = STATS_START;
	unsettled_wait(node, op);
}

/* Who is said to have it is not known, or not as the entry has it; the directory can say. */
static void stat_strange(struct node *node, struct op *op)
{
	node->cluster.renew_ns = 0;
	stat_again(node, op);
}

static void stat_have(struct node *node, struct op *op);

static void stat_ask(struct node *node, struct op *op, enum stat_state state)
{
	struct query *query = query_new(node, DIR_OP_LOOKUP, &op->id);

	if (query == NULL) {
		stat_again(node, op);
		return;
	}
	op->state = state;
	op_set_deadline(node, op);
	query_start_for(node, op, query);
}

static void stat_look(struct node *node, struct op *op)
{
	if (op->deadline == UINT64_MAX)
		op->deadline = time_after(node_now(node), STAT_WAIT_NS);
	if (directory_is_away(node, &op->id)) {
		op->dir_answered = false;
		stat_have(node, op);
		return;
	}
	stat_ask(node, op, STATS_LOOK);
}

static void stat_have(struct node *node, struct op *op)
{
	op->state = STATS_HAVE;
	if (!everyone_have(node, op, &op->key, 0))
		op_wake(node, op);
}

/* That nobody has it the directory is to confirm, as for a get. */
static void stat_had(struct node *node, struct op *op)
{
	if (op->found)
		stat_other(
			node, op, op->other.generation, op->other.size, op->other.flags);
	else if (op->dir_answered && !op->unreached)
		stat_ask(node, op, STATS_AGAIN);
	else
		stat_again(node, op);
}

/* Whether those who are said to have it do. They are asked for no generation, as for this one
 * they would count what is being put. */
static void stat_verify(struct node *node, struct op *op, uint64_t places)
{
	op->state = STATS_VERIFY;
	if (!everyone_have_but(node, op, &op->key, 0, ~places))
		op_wake(node, op);
}

static void stat_verified(struct node *node, struct op *op)
{
	if (op->found)
		stat_other(
			node, op, op->other.generation, op->other.size, op->other.flags);
	else if (op->unreached)
		stat_again(node, op);
	else
		stat_absent(node, op);
}

/* As a get does (fetch_find.c): the entry may lack who has taken it over. */
static void stat_lost(
	struct node *node, struct op *op, uint64_t generation, uint64_t last_node)
{
	op->state = STATS_LOST;
	op->generation = generation;
	op->number = last_node;
	if (!everyone_have(node, op, &op->key, 0))
		op_wake(node, op);
}

static void stat_is_lost(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (op->found)
		stat_other(
			node, op, op->other.generation, op->other.size, op->other.flags);
	else if (op->unreached)
		stat_again(node, op);
	else
		op_error(node, op, ERR_LOST,
			"every copy of the object under the key %s is gone, generation "
			"%" PRIu64 ", the last on node %016" PRIx64,
			key_text(op->key.data, op->key.size, key), op->generation,
			op->number);
}

static uint64_t sources_places(const struct sources *sources)
{
	uint64_t places = 0;

	for (uint32_t i = 0; i < sources->count; i++)
		places |= 1ull << sources->list[i].peer;
	return places;
}

/* What of it is said to be there and cannot be had is told as a get tells it. `complete`: all have
 * announced what they have, or been asked; `announced`: the first. */
static void stat_found(struct node *node, struct op *op, const struct dir_entry *entry,
	bool complete, bool announced)
{
	bool provisional = entry->flags & DIR_PROVISIONAL;
	bool softpin = entry->flags & DIR_SOFTPIN;
	struct sources sources;
	bool is_away;

	sources_find(node, entry, &sources);
	is_away = sources.away || sources.unmet || (softpin && sources.gone);
	if (provisional && sources.count > 0 && complete)
		stat_verify(node, op, sources_places(&sources));
	else if (provisional && sources.count > 0)
		stat_have(node, op);
	else if (provisional && is_away)
		stat_again(node, op);
	else if (sources.count > 0 || is_away)
		stat_other(node, op, entry->generation, entry->size, entry->flags);
	else if (sources.strange)
		stat_strange(node, op);
	else if (softpin && sources.lost && (announced || sources.named != 0))
		stat_lost(node, op, entry->generation, sources.named);
	else if (softpin && sources.lost && !complete)
		stat_have(node, op);
	else
		stat_absent(node, op);
}

static void stat_looked(struct node *node, struct op *op)
{
	struct query *query = op->query;
	const struct dir_call *call = &query->call;
	bool asked_all = op->state == STATS_AGAIN;
	bool found = call->err == 0 && call->verdict == DIR_DONE;
	/* What it does not have is absent. */
	bool announced = query_knows_all(node, query);
	bool complete = announced ||
			(asked_all && call->err == 0 && call->epoch == op->dir_epoch);
	struct dir_entry entry = call->entry;

	op->dir_answered = call->err == 0;
	op->dir_epoch = call->epoch;
	query_free(node, query);
	if (found)
		stat_found(node, op, &entry, complete, announced);
	else if (complete)
		stat_absent(node, op);
	else if (asked_all)
		stat_again(node, op);
	else
		stat_have(node, op);
}

/* What is under way takes too long. */
static void stat_late(struct node *node, struct op *op)
{
	stat_cancel(node, op);
	stat_again(node, op);
}

static void stat_elsewhere(struct node *node, struct op *op)
{
	bool is_late = node_now(node) >= op->deadline;

	switch ((enum stat_state)op->state) {
	case STATS_START:
		if (is_late)
			stat_again(node, op);
		else
			stat_look(node, op);
		return;
	case STATS_LOOK:
	case STATS_AGAIN:
		if (op->query->ended)
			stat_looked(node, op);
		else if (is_late)
			stat_late(node, op);
		return;
	case STATS_HAVE:
		if (list_is_empty(&op->asks))
			stat_had(node, op);
		else if (is_late)
			stat_late(node, op);
		return;
	case STATS_VERIFY:
		if (list_is_empty(&op->asks))
			stat_verified(node, op);
		else if (is_late)
			stat_late(node, op);
		return;
	case STATS_LOST:
		if (list_is_empty(&op->asks))
			stat_is_lost(node, op);
		else if (is_late)
			stat_late(node, op);
		return;
	}
	NOT_REACHED("a stat is in no such state");
}

void stat_cancel(struct node *node, struct op *op)
{
	list_del(&op->wait_entry);
	query_leave(node, op, NULL);
	asks_forget_all(node, op);
}

void stat_run(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);
	uint32_t entry = master_disk_find(&node->master, &op->key);
	struct msg_stated msg = {.slot = SLOT_NONE};

	list_del(&op->wait_entry);
	if (slot == SLOT_NONE && entry == DISK_NONE) {
		if (node->cluster.there)
			stat_elsewhere(node, op);
		else
			stat_absent(node, op);
		return;
	}
	stat_cancel(node, op);
	if (slot != SLOT_NONE)
		stat_slot(node, slot, &msg);
	else
		stat_entry(node, entry, &msg);
	op_reply(node, op, msg_stated_encode(node->out, sizeof(node->out), &msg));
}
