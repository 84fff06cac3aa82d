/*
 * fetch_find.c - who has what is being fetched, and what it means that nobody has.
 *
 * The directory says; this node joins the entry in the same step, so that it is told of a
 * removal from then on. What the directory does not have is absent if all live nodes have
 * announced what they hold there; else each of them is asked, and if none has it the directory
 * once more: one may have answered before it was handed what another had handed over when that
 * one answered, and then it stands there. Who keeps it or has a copy is asked in turn, copies
 * first: they spread the load, and lie in memory.
 *
 * A node that does not answer now may have it: UNAVAILABLE, at once, for it is known by its
 * beats whether it is back; one to which the first connection is being made is waited for. One
 * that has a new pool, or that another node has replaced, has lost it: LOST if the object was to
 * stay, and that one kept it, or nobody does. One that has it no more, twice asked, makes the entry
 * wrong: it is taken out, and so is that of a cache object that nobody has, or none but nodes that
 * are gone.
 */
#include "node/fetch_priv.h"
#include "node/remove_priv.h"

#include "base/plant.h"

#include <inttypes.h>

/* How long a node is told, after one question, that a key was published. */
#define WAIT_LIMIT_NS 3600000000000ull

/* ---- this node itself ---------------------------------------------------- */

/* The entry has this node as a keeper, and yet the object is not here: it is being put, and
 * then the put sees to the entry, or the entry is wrong. */
static void fetch_meets_itself(struct node *node, struct fetch *fetch)
{
	struct index_key key = fetch_key(fetch);
	char text[NODE_KEY_TEXT];
	struct errand errand = {
		.kind = ERRAND_LEAVE,
		.id = fetch->id,
		.generation = fetch->generation,
		.hash = fetch->hash,
		.at_once = true,
	};

	fetch->is_being_put = put_is_named(node, &key, fetch->generation);
	if (fetch->is_being_put)
		return;
	log_line(node->config.log, LOG_LEVEL_WARNING, "entry_is_wrong",
		"key=%s generation=%" PRIu64
		" msg=\"the directory has this node as its keeper, and it is not here\"",
		key_text(key.data, key.size, text), fetch->generation);
	errand_add(node, &errand);
}

/* ---- LOOK ---------------------------------------------------------------- */

/* Of those who want to be told when the key is published. */
static uint64_t fetch_wait_ns(const struct node *node, const struct fetch *fetch)
{
	uint64_t now = node_now(node), last = now;

	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		const struct op *op = container_of(at, struct op, wait_entry);

		if (op->fetch == fetch && op->flags & GET_WAIT)
			last = MAX(last, op->deadline);
	}
	return MIN(last - now, WAIT_LIMIT_NS);
}

static void fetch_looked(struct node *node, struct query *query);

/* False: too much is under way. */
static bool fetch_ask_directory(
	struct node *node, struct fetch *fetch, enum dir_op kind, enum fetch_state state)
{
	struct query *query = query_new(node, kind, &fetch->id);

	if (query == NULL)
		return false;
	query->fetch = fetch;
	fetch->query = query;
	fetch->state = state;
	fetch->again = false;
	fetch->ended = 0;
	if (kind == DIR_OP_JOIN) {
		/* Who has come since all were asked does not share what they had answered. */
		if (!fetch->asked_all)
			fetch->looked = node->cluster.joins;
		query->call.wait_ns = fetch_wait_ns(node, fetch);
	} else {
		query->call.generation = fetch->generation;
		query->call.token = cluster_token(node);
		query->call.bury_ns = GRAVE_NS;
		/* As publishing does: what is older may be there; or who keeps it, which the
		 * directory has forgotten, while that node is away. */
		query->call.lost = !fetch->complete || fetch->unkept;
		query->call.asked = true;
		query->call.keepers = fetch->keepers;
		query_set_live(node, query);
	}
	query_start(node, query, fetch_looked);
	return true;
}

static void fetch_have(struct node *node, struct fetch *fetch);

void fetch_look(struct node *node, struct fetch *fetch)
{
	fetch->refreshed = fetch->asked_all = fetch->dir_knows = false;
	fetch->complete = fetch->unreached = false;
	fetch->is_being_put = fetch->unkept = false;
	fetch->generation = fetch->size = fetch->keepers = 0;
	fetch->sources = (struct sources){.count = 0};
	fetch->state = FETCH_TURN; /* it has nothing yet */
	if (directory_is_away(node, &fetch->id)) {
		fetch->again = false;
		fetch->ended = 0;
		fetch->looked = node->cluster.joins;
		fetch_have(node, fetch);
		return;
	}
	if (!fetch_ask_directory(node, fetch, DIR_OP_JOIN, FETCH_LOOK))
		fetch_is_unsettled(node, fetch);
}

/* The entry is what is to be fetched from now on. */
static void fetch_found(
	struct node *node, struct fetch *fetch, const struct dir_entry *entry)
{
	fetch->generation = entry->generation;
	fetch->size = entry->size;
	fetch->flags = entry->flags;
	fetch->unkept = dir_keeper_count(entry) == 0;
	fetch->keepers = dir_keepers(entry);
	sources_find(node, entry, &fetch->sources);
	if (own_role(node, entry) == DIR_KEEPER)
		fetch_meets_itself(node, fetch);
}

static void fetch_go(struct node *node, struct fetch *fetch);

static void fetch_look_done(
	struct node *node, struct fetch *fetch, const struct dir_call *call)
{
	const struct dir_entry *entry = &call->entry;

	if (call->err == 0 && call->verdict == DIR_DONE) {
		fetch_found(node, fetch, entry);
		fetch_go(node, fetch);
	} else if (fetch->complete || PLANTED(BELIEVED_ABSENT)) {
		fetch_is_absent(node, fetch);
	} else {
		fetch->dir_epoch = call->epoch;
		fetch_have(node, fetch);
	}
}

/* Nobody has it, nor does the directory by now. One that has forgotten meanwhile proves nothing. */
static void fetch_have_refreshed(
	struct node *node, struct fetch *fetch, const struct dir_call *call)
{
	if (call->err == 0 && call->epoch == fetch->dir_epoch)
		fetch_is_absent(node, fetch);
	else
		fetch_is_unsettled(node, fetch);
}

static void fetch_refresh_done(
	struct node *node, struct fetch *fetch, const struct dir_call *call)
{
	const struct dir_entry *entry = &call->entry;
	struct sources old = fetch->sources;

	fetch->refreshed = true;
	if (call->err == 0 && call->verdict == DIR_DONE &&
		entry->generation == fetch->generation) {
		fetch_found(node, fetch, entry);
		sources_renew(&fetch->sources, &old, fetch->source);
	} else if (call->err == 0 && (call->verdict == DIR_DONE || fetch->complete)) {
		fetch->refreshed = fetch->asked_all = false;
		if (fetch_give_back(node, fetch))
			fetch_look_done(node, fetch, call);
		return;
	} else if (fetch->generation == 0) {
		fetch_have_refreshed(node, fetch, call);
		return;
	}
	fetch_go(node, fetch);
}

static void fetch_clear_done(
	struct node *node, struct fetch *fetch, const struct dir_call *call)
{
	if (call->err != 0) {
		fetch_is_unsettled(node, fetch);
		return;
	}
	fetch->joined = 0;
	if (call->verdict != DIR_DONE) {
		fetch_stopped(node, fetch); /* it has changed: they look again */
		return;
	}
	holders_end(node, fetch->key, fetch->key_size, call);
	fetch->again = true; /* who waits for the key is not known to the directory yet */
	fetch_is_absent(node, fetch);
}

/* Whether this node is in the entry for the sake of the fetch alone. */
static void fetch_note_join(
	struct node *node, struct fetch *fetch, const struct query *query)
{
	const struct dir_call *call = &query->call;
	const struct dir_entry *entry = &call->entry;
	struct index_key key = fetch_key(fetch);

	fetch->dir_knows = call->err == 0;
	fetch->complete = query_knows_all(node, query);
	if (call->err != 0)
		return;
	fetch->joined = 0;
	fetch->listed = call->verdict == DIR_DONE ? entry->generation : 0;
	if (call->verdict == DIR_DONE && own_role(node, entry) != DIR_KEEPER &&
		generation_here(node, &key) != entry->generation)
		fetch->joined = entry->generation;
}

static bool fetch_has_ended(const struct fetch *fetch, uint64_t generation)
{
	return fetch->ended != 0 &&
	       (fetch->ended == FETCH_ENDED_ANY || fetch->ended == generation);
}

static void fetch_looked(struct node *node, struct query *query)
{
	const struct dir_call *call = &query->call;
	struct fetch *fetch = query->fetch;
	enum fetch_state state = fetch->state;
	struct index_key key = fetch_key(fetch);

	fetch->query = NULL;
	query->fetch = NULL;
	if (state == FETCH_CLEAR) {
		fetch_clear_done(node, fetch, call);
		return;
	}
	fetch_note_join(node, fetch, query);
	if (fetch->waiters == 0 || generation_here(node, &key) != 0) {
		fetch_is_moot(node, fetch);
	} else if (fetch_has_ended(fetch, call->entry.generation)) {
		if (fetch_give_back(node, fetch))
			fetch_stopped(node, fetch);
	} else if (state == FETCH_LOOK) {
		fetch_look_done(node, fetch, call);
	} else {
		fetch_refresh_done(node, fetch, call);
	}
}

/* ---- HAVE ---------------------------------------------------------------- */

static void fetch_have_done(struct node *node, struct fetch *fetch)
{
	if (fetch_has_ended(fetch, fetch->generation))
		fetch_stopped(node, fetch);
	else if (fetch->generation != 0)
		fetch_go(node, fetch);
	else if (!fetch->dir_knows || fetch->unreached ||
		 !fetch_ask_directory(node, fetch, DIR_OP_JOIN, FETCH_REFRESH))
		fetch_is_unsettled(node, fetch);
}

/* One more has it: the highest generation counts, copies stand first. */
static void fetch_take_other(
	struct fetch *fetch, const struct other *other, uint32_t place)
{
	struct sources *sources = &fetch->sources;
	struct source source = {.peer = (uint8_t)place};

	if (other->generation < fetch->generation)
		return;
	if (other->generation > fetch->generation) {
		*sources = (struct sources){.count = 0};
		fetch->generation = other->generation;
		fetch->size = other->size;
		fetch->flags = other->flags;
	}
	if (sources->count == PEER_LIMIT)
		return;
	sources->list[sources->count++] = source;
	if (other->secondary) {
		sources->list[sources->count - 1] = sources->list[0];
		sources->list[0] = source;
	}
}

static void fetch_had(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct fetch *fetch = ask->owner;
	struct other other;

	err = had_read(err, message, size, &other);
	if (err == 0)
		fetch_take_other(fetch, &other, ask->peer);
	else if (err != ERR_NOT_FOUND)
		fetch->unreached = true;
	if (list_is_empty(&fetch->asks))
		fetch_have_done(node, fetch);
}

static void fetch_have(struct node *node, struct fetch *fetch)
{
	const struct everyone everyone = {
		.asks = &fetch->asks,
		.owner = fetch,
		.done = fetch_had,
	};
	struct index_key key = fetch_key(fetch);
	uint64_t places;

	if (!fetch->dir_knows)
		epoch_reopen(node, &fetch->id);
	fetch->state = FETCH_HAVE;
	fetch->asked_all = true;
	fetch->sources.count = 0;
	fetch->unreached = !everyone_send(
		node, &everyone, have_message(node, &key, 0), &places);
	if (list_is_empty(&fetch->asks))
		fetch_have_done(node, fetch);
}

/* ---- nobody has it ------------------------------------------------------- */

/* The entry is taken out, before anybody is told that there is nothing. */
static void fetch_clear(struct node *node, struct fetch *fetch)
{
	if (!fetch_give_back(node, fetch))
		return;
	if (!fetch->dir_knows ||
		!fetch_ask_directory(node, fetch, DIR_OP_TAKE_OUT, FETCH_CLEAR))
		fetch_is_unsettled(node, fetch);
}

/* An entry that names nobody tells nothing while not all have announced what they have: the copy
 * that made it may have been ended by a removal that the directory has forgotten. */
static bool entry_says_lost(const struct fetch *fetch)
{
	return fetch->sources.lost && (fetch->complete || fetch->sources.named != 0);
}

static void fetch_has_no_source(struct node *node, struct fetch *fetch)
{
	const struct sources *sources = &fetch->sources;
	bool softpin = fetch->flags & DIR_SOFTPIN;

	if (fetch->is_being_put) {
		fetch_is_absent(node, fetch);
	} else if (sources->strange) {
		node->cluster.renew_ns = 0; /* the directory can say who it is */
		fetch_is_unsettled(node, fetch);
	} else if (sources->unmet) {
		fetch_is_unsettled(node, fetch);
	} else if (!fetch->complete && !fetch->asked_all) {
		if (fetch_give_back(node, fetch))
			fetch_have(node, fetch);
	} else if (softpin && sources->corrupt) {
		fetch_fail(node, fetch, ERR_CORRUPT);
	} else if (sources->away || (softpin && sources->gone)) {
		fetch_fail(node, fetch, ERR_UNAVAILABLE);
	} else if (sources->error != 0) {
		fetch_fail(node, fetch, sources->error);
	} else if (softpin && sources->lost && !fetch->asked_all) {
		/* An entry may lack who has taken it over; nobody is told so lightly. */
		if (fetch_give_back(node, fetch))
			fetch_have(node, fetch);
	} else if (softpin && entry_says_lost(fetch)) {
		fetch_fail(node, fetch, fetch->unreached ? ERR_UNAVAILABLE : ERR_LOST);
	} else if ((sources->missing && !fetch->refreshed) ||
		   (!fetch->complete && fetch->unreached)) {
		fetch_is_unsettled(node, fetch);
	} else {
		fetch_clear(node, fetch);
	}
}

/* Ask the next source, or decide what their end means. */
static void fetch_go(struct node *node, struct fetch *fetch)
{
	if (!sources_next(node, &fetch->sources, &fetch->source))
		fetch_has_no_source(node, fetch);
	else if (fetch->slot == SLOT_NONE)
		fetch_room(node, fetch);
	else
		fetch_turn(node, fetch);
}

/* ---- the next source ----------------------------------------------------- */

void fetch_refresh(struct node *node, struct fetch *fetch)
{
	if (!fetch_ask_directory(node, fetch, DIR_OP_JOIN, FETCH_REFRESH)) {
		fetch->refreshed = true;
		fetch_go(node, fetch);
	}
}

/* The list may have changed since it was read. */
static void fetch_pause(struct node *node, struct fetch *fetch)
{
	int err = 0;

	fetch->state = FETCH_PAUSE;
	if (!gate_pass(node, GATE_FETCHES + fetch_index(node, fetch),
		    FAULT_NODE_BEFORE_REFRESH, &err))
		return;
	if (err == 0) {
		fetch_refresh(node, fetch);
		return;
	}
	/* As if the directory had not answered. */
	fetch->refreshed = true;
	fetch->dir_knows = fetch->complete = false;
	fetch_go(node, fetch);
}

void fetch_source_failed(struct node *node, struct fetch *fetch, int err)
{
	const struct peer *peer =
		&node->cluster.peers[fetch->sources.list[fetch->source].peer];
	struct sources *sources = &fetch->sources;

	node->cluster.stats.fetch_retries++;
	sources->named = peer->id;
	if (err == ERR_CORRUPT)
		sources->corrupt = true;
	else if (err == ERR_NOT_FOUND)
		sources->missing = true;
	else if (err == ERR_UNAVAILABLE || !peer_is_up(peer))
		sources->away = true;
	else
		sources->error = err;
	if (fetch->dir_knows && !fetch->refreshed)
		fetch_pause(node, fetch);
	else
		fetch_go(node, fetch);
}
