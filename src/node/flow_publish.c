/*
 * flow_publish.c - the directory's part of a put: the bytes are whole, and are to be known to
 * all nodes before they are READY here.
 *
 *   NAME (a generation) -> SEND --PUBLISH--> SENT
 *     SENT --done, the epoch is complete, as when it was sent--> true: READY; it is
 *                                    confirmed later
 *          --done, it is not----> ASK (every live node) --nobody has it--> CONFIRM --> true
 *                                    '--somebody has--> taken out --> EXISTS
 *          --it replaced another--> TELL (its holders, to end that one) --> as above, but
 *                                     ASK as well if that was being put by who is down
 *                                     '--it was ended meanwhile--> true: who ended it waits
 *                                        for that
 *          --exists--> VERIFY (its holders) --one has it--> EXISTS
 *                         '--none has: stale--> CLEAR (taken out) --> SEND
 *          --a tombstone of a later generation--> NAME
 *          --not answered--> SEND again, until the deadline; one that replaces has an errand
 *                            see then whether it did, and what is older ended everywhere
 *
 * The entry is provisional until it is confirmed, so that whoever announces what is there
 * already wins. Readers who find the entry early wait at this node for the put to end.
 */
#include "node/fetch_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>

enum publish_state {
	PUBLISH_NAME,
	PUBLISH_SEND,
	PUBLISH_SENT,
	PUBLISH_TELL,
	PUBLISH_ASK,
	PUBLISH_ASKED,
	PUBLISH_CONFIRM,
	PUBLISH_VERIFY,
	PUBLISH_CLEAR
};

/* ---- ends ---------------------------------------------------------------- */

/* Without a tombstone, which would end whatever is older and not announced yet. */
static void entry_undo(struct node *node, const struct dir_id *id, uint64_t generation)
{
	const struct errand errand = {.kind = ERRAND_LEAVE,
		.id = *id,
		.generation = generation,
		.at_once = true};

	if (generation != 0) /* else it was not published */
		errand_add(node, &errand);
}

/* The same of a put that replaces, and of which nobody knows whether it was published. If it was,
 * nobody has told whoever holds what it has replaced. */
static void replacing_undo(struct node *node, struct msg_bytes key, uint64_t generation)
{
	const struct errand errand = {
		.kind = ERRAND_UNDO,
		.id = dir_id_of_key(key.data, (uint32_t)key.size),
		.generation = generation,
		.key_size = (uint32_t)key.size,
		.key = key.data,
	};

	errand_add(node, &errand);
}

static void unheard_undo(struct node *node, struct op *op)
{
	if (op->unheard == 0)
		return;
	replacing_undo(node, (struct msg_bytes){op->key.data, op->key.size}, op->unheard);
	op->unheard = 0;
}

void publish_undone(
	struct node *node, const struct errand *errand, const struct query *query)
{
	const struct dir_call *call = &query->call;
	uint64_t there = call->entry.generation;
	bool was_there = call->verdict == DIR_DONE;
	/* Or it may have been there, and another has come in its place, or it was removed. */
	bool is_over = there == 0 ? call->buried >= errand->generation
				  : there > errand->generation &&
					    query_knows_all(node, query);

	if (was_there)
		holders_drop(node, errand->key, errand->key_size, &call->entry);
	if (was_there || is_over)
		older_drop(node, errand->key, errand->key_size, errand->generation);
}

/* What the directory said of the publishing is not needed any more. */
static void publish_leave_published(struct node *node, struct op *op)
{
	if (op->published != NULL)
		query_free(node, op->published);
	op->published = NULL;
}

/* What the put has replaced in the directory is over, here as well, though the put's end did
 * not come to end it. */
static void publish_leave_replaced(struct node *node, struct op *op)
{
	const struct dir_entry *old;

	if (op->published == NULL)
		return;
	old = &op->published->call.entry;
	if (old->generation != op->generation)
		holders_drop(node, op->key.data, op->key.size, old);
	publish_leave_published(node, op);
}

/* The put goes, so that its answer is true. */
static void put_give_up(struct node *node, struct op *op)
{
	uint64_t hash = node->share->slots[op->slot].hash;

	unheard_undo(node, op);
	publish_leave_replaced(node, op);
	if (master_put_abort(
		    &node->master, op->slot, op->life, op_client_ref(node, op)) == 0)
		waiters_wake(node, hash);
	op->slot = SLOT_NONE;
}

static bool publish_exists(struct node *node, struct op *op, uint64_t generation)
{
	char key[NODE_KEY_TEXT];

	put_give_up(node, op);
	op_error(node, op, ERR_EXISTS,
		"the key %s has an object on another node, of generation %" PRIu64,
		key_text(op->key.data, op->key.size, key), generation);
	return false;
}

static bool publish_no_space(struct node *node, struct op *op)
{
	put_give_up(node, op);
	op_error(
		node, op, ERR_NO_SPACE, "the directory has no memory for one entry more");
	return false;
}

static bool publish_late(struct node *node, struct op *op, const char *why)
{
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	if (op->unheard == 0)
		entry_undo(node, &op->id, op->generation);
	put_give_up(node, op);
	op_error(node, op, ERR_UNAVAILABLE,
		"the key %s could not be published before the deadline: %s",
		key_text(op->key.data, op->key.size, key), why);
	return false;
}

/* Try again when something has changed, or soon; or it is too late. */
static bool publish_again(
	struct node *node, struct op *op, enum publish_state state, const char *why)
{
	op->cluster_state = state;
	if (node_now(node) >= op->deadline)
		return publish_late(node, op, why);
	unsettled_add(node, op);
	return false;
}

static bool publish_replaces(const struct node *node, const struct op *op)
{
	return node->share->slots[op->slot].flags & SLOT_REPLACES;
}

/* ---- NAME, SEND ---------------------------------------------------------- */

/* True: there is nothing to publish; the put's end says why. */
static bool publish_name(struct node *node, struct op *op, uint64_t above)
{
	uint64_t before = op->generation;

	if (master_put_name(&node->master, op->slot, op->life, op_client_ref(node, op),
		    node_wall_us(node), above, &op->generation) != 0 ||
		node_is_ready(node, op->slot))
		return true;
	if (op->generation != before)
		unheard_undo(node, op);
	op->cluster_state = PUBLISH_SEND;
	return false;
}

static struct query *publish_query(
	struct node *node, const struct op *op, enum dir_op kind)
{
	const struct slot *slot = &node->share->slots[op->slot];
	struct query *query = query_new(node, kind, &op->id);

	if (query == NULL)
		return NULL;
	query->call.generation = op->generation;
	query->call.size = slot->size;
	query->call.flags = slot->flags & SLOT_SOFTPIN ? DIR_SOFTPIN : 0;
	query->call.wanted = keepers_wanted(slot->wanted);
	query->call.replace = slot->flags & SLOT_REPLACES;
	/* Under WRITING it keeps the time to live. */
	query->call.ttl_ns = slot->flags & SLOT_EXPIRES ? entry_ttl(slot->lease_end) : 0;
	return query;
}

static void publish_start(
	struct node *node, struct op *op, enum dir_op kind, enum publish_state state)
{
	struct query *query = publish_query(node, op, kind);

	if (query == NULL) {
		unsettled_add(node, op);
		return;
	}
	op->cluster_state = state;
	op_set_deadline(node, op);
	query_start_for(node, op, query);
}

/* ---- SENT ---------------------------------------------------------------- */

static bool entry_names(const struct dir_entry *entry, uint64_t id)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].node == id)
			return true;
	}
	return false;
}

/* Nothing here ends what this generation of the node's own had replaced: its put died with an
 * earlier daemon. */
static bool own_put_is_lost(
	const struct node *node, const struct op *op, uint64_t generation)
{
	uint32_t slot = master_find(&node->master, &op->key);

	return !put_is_named(node, &op->key, generation) &&
	       (slot == SLOT_NONE || node->share->slots[slot].generation != generation);
}

/* The put of what was replaced was not over, and its node cannot be asked: it may be gone before
 * it has told the holders of what it had replaced itself. */
static bool publish_has_cut_short(const struct node *node, const struct op *op)
{
	const struct dir_entry *old = &op->published->call.entry;

	for (uint32_t i = 0; i < old->holder_count; i++) {
		const struct dir_holder *holder = &old->holders[i];
		uint32_t place = peer_find(node, holder->node);

		if ((old->flags & DIR_PROVISIONAL) != 0 && holder->role == DIR_KEEPER &&
			holder->node != node->cluster.id &&
			(place == PEER_LIMIT || !peer_is_up(&node->cluster.peers[place])))
			return true;
	}
	return op->cuts_short;
}

static bool publish_settle(struct node *node, struct op *op)
{
	/* What was not announced yet when it was sent may have replaced it since; and what it
	 * replaced when it was sent first is not known any more. */
	if (query_knows_all(node, op->published) && !publish_has_cut_short(node, op) &&
		!name_has_lapsed(node) && op->unheard == 0)
		return true;
	op->cluster_state = PUBLISH_ASK;
	return false;
}

/* Another put of this node, that is published and not READY, was replaced: it never will be. */
static void publish_dooms(struct node *node, const struct op *op, uint64_t generation)
{
	uint64_t ended;

	if (put_is_named(node, &op->key, generation) &&
		master_end_generation(
			&node->master, &op->key, generation, node_now(node), &ended) == 0)
		waiters_wake(node, op->key.hash);
}

/* True: the op goes on in its new state, or is published. */
static bool publish_accepted(struct node *node, struct op *op, bool *ret_published)
{
	const struct dir_entry *old;

	op->published = query_keep(op);
	old = &op->published->call.entry;
	if (old->generation != 0 && old->generation != op->generation) {
		op->unheard = 0;
		op->cuts_short = (old->flags & DIR_PROVISIONAL) != 0 &&
				 entry_names(old, node->cluster.id) &&
				 own_put_is_lost(node, op, old->generation);
		publish_dooms(node, op, old->generation);
		op->cluster_state = PUBLISH_TELL;
		if (!PLANTED(UNTOLD_REPLACED) && holders_tell(node, op, old))
			op_set_deadline(node, op);
		else
			op_wake(node, op);
		return false;
	}
	*ret_published = publish_settle(node, op);
	return !*ret_published;
}

static uint64_t holders_places(const struct node *node, const struct dir_entry *entry)
{
	uint64_t places = 0;

	for (uint32_t i = 0; i < entry->holder_count; i++) {
		uint32_t place = peer_find(node, entry->holders[i].node);

		if (entry->holders[i].role != DIR_LOADING && place != PEER_LIMIT)
			places |= 1ull << place;
	}
	return places;
}

static bool is_here(const struct node *node, const struct op *op)
{
	return master_find(&node->master, &op->key) != SLOT_NONE ||
	       master_disk_find(&node->master, &op->key) != DISK_NONE;
}

/* One that replaces, and is not READY yet: no other node can tell of it. */
static bool is_another_put_here(
	const struct node *node, const struct op *op, uint64_t generation)
{
	return generation != op->generation && put_is_named(node, &op->key, generation);
}

/* True: the op goes on in its new state. */
static bool publish_met(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->query->call;
	const struct dir_entry *entry = &call->entry;
	/* Before all have announced, an entry may lack who keeps it. */
	uint64_t skipped = query_knows_all(node, op->query) ? ~holders_places(node, entry)
							    : 0;
	struct sources sources;
	bool is_new = op->met_generation != entry->generation;

	sources_find(node, entry, &sources);
	op->met_generation = entry->generation;
	op->met_keepers = dir_keepers(entry);
	op->met_softpin = entry->flags & DIR_SOFTPIN;
	op->met_away = sources.away || sources.strange || sources.unmet;
	query_free(node, op->query);
	if (is_here(node, op) || is_another_put_here(node, op, op->met_generation))
		return publish_exists(node, op, op->met_generation);
	/* Its keeper may be back already, or be another than this node knows: only members
	 * that were read since can tell. One that has ended in order is none, and is to be back:
	 * who has just started was not told. */
	if ((sources.gone || sources.strange) && op->met_softpin &&
		(is_new || node_now(node) - node->started_ns < GONE_NS)) {
		node->cluster.renew_ns = 0;
		return publish_again(node, op, PUBLISH_SEND, "its keeper is away");
	}
	op->cluster_state = PUBLISH_VERIFY;
	if (everyone_have_but(node, op, &op->key, op->met_generation, skipped))
		op_set_deadline(node, op);
	else
		op_wake(node, op);
	return false;
}

/* One that is to be replaced is later than this put, or, by rare chance, another node gave it the
 * same number: then this takes a generation above it. True: it does. */
static bool publish_is_behind(
	const struct node *node, const struct op *op, uint64_t generation)
{
	return publish_replaces(node, op) && generation >= op->generation;
}

static bool publish_answered(struct node *node, struct op *op, bool *ret_published)
{
	const struct dir_call *call = &op->query->call;
	uint64_t other = call->buried;

	switch (call->verdict) {
	case DIR_DONE:
		return publish_accepted(node, op, ret_published);
	case DIR_EXISTS:
		other = call->entry.generation;
		if (!publish_is_behind(node, op, other))
			return publish_met(node, op);
		query_free(node, op->query);
		*ret_published = publish_name(node, op, other);
		return !*ret_published;
	case DIR_REMOVED:
		query_free(node, op->query);
		if (other > op->generation && !publish_name(node, op, other))
			return true;
		*ret_published = true; /* removed: its end says so */
		(void)master_end_generation(
			&node->master, &op->key, op->generation, node_now(node), &other);
		return false;
	case DIR_ABSENT:
	case DIR_GONE:
	case DIR_OLDER:
	case DIR_REPLACED:
		break;
	}
	query_free(node, op->query);
	return publish_again(node, op, PUBLISH_SEND, "the directory gave no sense");
}

/* ---- ASK, CONFIRM -------------------------------------------------------- */

static void publish_ask(struct node *node, struct op *op)
{
	const struct dir_call *call = &op->published->call;
	uint64_t skipped = query_knows_all(node, op->published)
				   ? holders_places(node, &call->entry)
				   : 0;

	op->cluster_state = PUBLISH_ASKED;
	/* Those of what was replaced have been told to end that. */
	if (everyone_have_but(node, op, &op->key, 0, skipped))
		op_set_deadline(node, op);
	else
		op_wake(node, op);
}

/* What the directory has forgotten is replaced all the same: its holders end it, whoever they
 * are, and all are asked once more. True: the op goes on in its new state. */
static bool publish_replace_unknown(struct node *node, struct op *op, bool *ret_published)
{
	const struct dir_entry old = {.generation = op->other.generation};

	if (old.generation > op->generation) {
		*ret_published = publish_name(node, op, old.generation);
		return !*ret_published;
	}
	op->cluster_state = PUBLISH_TELL;
	if (holders_tell(node, op, &old))
		op_set_deadline(node, op);
	else
		op_wake(node, op);
	return false;
}

/* True: the op goes on in its new state. */
static bool publish_asked(struct node *node, struct op *op, bool *ret_published)
{
	if (op->found && op->other.generation != op->generation) {
		if (publish_replaces(node, op))
			return publish_replace_unknown(node, op, ret_published);
		entry_undo(node, &op->id, op->generation);
		return publish_exists(node, op, op->other.generation);
	}
	if (op->unreached)
		return publish_again(node, op, PUBLISH_ASK,
			"the directory has forgotten, and not every node can be asked");
	op->unheard = 0;
	publish_start(node, op, DIR_OP_CONFIRM, PUBLISH_CONFIRM);
	return false;
}

/* True: the op goes on in its new state. */
static bool publish_confirmed(struct node *node, struct op *op, bool *ret_published)
{
	uint64_t other = op->query->call.entry.generation;
	bool is_gone = op->query->call.verdict == DIR_GONE;

	query_free(node, op->query);
	/* The directory has forgotten it, or it was replaced by what was announced. */
	if (is_gone && (other == 0 || publish_replaces(node, op)))
		return publish_again(
			node, op, PUBLISH_SEND, "the directory has forgotten it again");
	if (is_gone)
		return publish_exists(node, op, other);
	op->confirmed = true;
	*ret_published = true;
	return false;
}

/* ---- VERIFY, CLEAR ------------------------------------------------------- */

static bool publish_verified(struct node *node, struct op *op)
{
	struct query *query;

	/* Who keeps it and cannot be asked may have it. */
	if (op->found || ((op->unreached || op->met_away) && op->met_softpin))
		return publish_exists(node, op, op->met_generation);
	query = query_new(node, DIR_OP_TAKE_OUT, &op->id);
	if (query == NULL)
		return publish_again(node, op, PUBLISH_SEND, "too much is under way");
	query->call.generation = op->met_generation;
	query->call.token = cluster_token(node);
	/* Holders that hear of it later would end this put as well, were it not above. */
	query->call.bury_ns = GRAVE_NS;
	/* It may be later than an object that the directory has forgotten. But what was removed is
	 * to have a tombstone, which is on its way. */
	query->call.lost = !directory_knows_all(node, &op->id) &&
			   !errand_is_there(
				   node, ERRAND_BURY, &op->id, op->met_generation);
	/* Who has given its role to another meanwhile has it no more. */
	query->call.asked = true;
	query->call.keepers = op->met_keepers;
	query_set_live(node, query);
	op->cluster_state = PUBLISH_CLEAR;
	op_set_deadline(node, op);
	query_start_for(node, op, query);
	return false;
}

/* True: the op goes on in its new state. */
static bool publish_cleared(struct node *node, struct op *op, bool *ret_published)
{
	const struct dir_call *call = &op->query->call;
	bool is_kept = call->verdict == DIR_EXISTS;

	/* Who could not be asked may have it still. */
	if (call->verdict == DIR_DONE)
		holders_end(node, op->key.data, op->key.size, call);
	query_free(node, op->query);
	if (is_kept)
		return publish_again(
			node, op, PUBLISH_SEND, "another has come to keep it");
	/* Who has it still must not come before this put when it is back. */
	*ret_published = publish_name(node, op, op->met_generation);
	return !*ret_published;
}

/* ---- the flow ------------------------------------------------------------ */

static bool publish_may_have_replaced(const struct node *node, const struct op *op)
{
	return op->cluster_state == PUBLISH_SENT && op->query != NULL &&
	       node->share->slots[op->slot].flags & SLOT_REPLACES;
}

/* What a query brought. True: go on. */
static bool publish_has_answer(struct node *node, struct op *op, bool *ret_published)
{
	int err = op->query->call.err;

	if (err == ERR_NO_SPACE) {
		query_free(node, op->query);
		return publish_no_space(node, op);
	}
	if (err != 0) {
		if (publish_may_have_replaced(node, op))
			op->unheard = op->generation;
		query_free(node, op->query);
		return publish_again(node, op, PUBLISH_SEND, "the directory is away");
	}
	switch ((enum publish_state)op->cluster_state) {
	case PUBLISH_SENT:
		return publish_answered(node, op, ret_published);
	case PUBLISH_CONFIRM:
		return publish_confirmed(node, op, ret_published);
	case PUBLISH_CLEAR:
		return publish_cleared(node, op, ret_published);
	case PUBLISH_NAME:
	case PUBLISH_SEND:
	case PUBLISH_TELL:
	case PUBLISH_ASK:
	case PUBLISH_ASKED:
	case PUBLISH_VERIFY:
		break;
	}
	NOT_REACHED("no query is under way in that state");
}

static bool publish_has_replaced(const struct node *node, const struct op *op)
{
	const struct dir_entry *old;

	if (op->published == NULL)
		return op->unheard != 0 || publish_may_have_replaced(node, op);
	old = &op->published->call.entry;
	return old->generation != 0 && old->generation != op->generation;
}

bool publish_holds_up(struct node *node, const struct index_key *key, uint64_t generation)
{
	/* One that replaces is outrun until it is READY. */
	if (generation == 0 || node->master.outrun == 0 ||
		!put_is_named(node, key, generation))
		return false;
	for (uint32_t i = 0; i < node->config.max_ops; i++) {
		struct op *op = &node->ops[i];

		if (op->stage != OP_RUNNING || !op->publishing ||
			op->generation != generation || op->key.hash != key->hash ||
			!publish_has_replaced(node, op))
			continue;
		op_wake(node, op);
		return true;
	}
	return false;
}

/* It was ended in its turn, and all whom it was to tell of what it has replaced have answered. */
static bool publish_is_over(const struct node *node, const struct op *op)
{
	return op->published != NULL && publish_has_replaced(node, op) &&
	       node_life(node, op->slot) == op->life &&
	       node->share->slots[op->slot].flags & SLOT_DOOMED &&
	       (op->cluster_state != PUBLISH_TELL || list_is_empty(&op->asks));
}

/* One step. True: go on with the next. */
static bool publish_step(struct node *node, struct op *op, bool *ret_published)
{
	switch ((enum publish_state)op->cluster_state) {
	case PUBLISH_NAME:
		/* What a repeat finds READY is not published once more, nor undone. */
		if (!node_is_ready(node, op->slot) && !peers_are_heard(node))
			return publish_again(node, op, PUBLISH_NAME,
				"not every node was heard since the start");
		*ret_published = publish_name(node, op, 0);
		return !*ret_published;
	case PUBLISH_SEND:
		publish_leave_replaced(node, op);
		/* One that replaces, once sent, waits for its answer, past its deadline. */
		if (directory_is_away(node, &op->id))
			return publish_again(
				node, op, PUBLISH_SEND, "the directory is away");
		if (name_has_lapsed(node))
			return publish_again(node, op, PUBLISH_SEND,
				"this node is not among the members yet");
		publish_start(node, op, DIR_OP_PUBLISH, PUBLISH_SENT);
		return false;
	case PUBLISH_SENT:
	case PUBLISH_CONFIRM:
	case PUBLISH_CLEAR:
		if (op->query == NULL) /* none was free */
			return publish_again(
				node, op, PUBLISH_SEND, "too much is under way");
		if (!op->query->ended)
			break;
		return publish_has_answer(node, op, ret_published);
	case PUBLISH_TELL:
		if (!list_is_empty(&op->asks))
			break;
		if (publish_holds_up(
			    node, &op->key, op->published->call.entry.generation)) {
			waiters_add(node, op);
			break;
		}
		*ret_published = publish_settle(node, op);
		return !*ret_published;
	case PUBLISH_ASK:
		/* Since it was sent: to others its entry was that of nobody, and may be gone. */
		if (name_has_lapsed(node))
			return publish_again(node, op, PUBLISH_ASK,
				"this node is not among the members yet");
		publish_ask(node, op);
		return false;
	case PUBLISH_ASKED:
		if (!list_is_empty(&op->asks))
			break;
		return publish_asked(node, op, ret_published);
	case PUBLISH_VERIFY:
		if (!list_is_empty(&op->asks))
			break;
		return publish_verified(node, op);
	}
	/* Woken by its deadline, with something under way. What replaces another waits for the
	 * answer, which comes in bounded time: the other may have gone already. */
	if (node_now(node) < op->deadline || publish_may_have_replaced(node, op))
		return false;
	publish_leave_replaced(node, op);
	publish_cancel(node, op, true);
	return publish_late(node, op, "no answer came in time");
}

/* The key is needed when the slot may be another's already. */
static bool publish_begin(struct node *node, struct op *op)
{
	if (op->key.data == NULL && op_own_key(op, node->share, op->slot) != 0) {
		op_error(node, op, ERR_NO_MEMORY, "no memory for the key of a put");
		return false;
	}
	op->id = dir_id_of_key(op->key.data, op->key.size);
	/* By an earlier daemon it may have been published: then it is to be undone as well. */
	op->generation = node->share->slots[op->slot].generation;
	if (publish_replaces(node, op) && !node_is_ready(node, op->slot))
		op->unheard = op->generation;
	op->publishing = true;
	op->cluster_state = PUBLISH_NAME;
	return true;
}

bool publish_run(struct node *node, struct op *op)
{
	bool published = false;

	if (!node->cluster.there)
		return true;
	if (!op->publishing && node_life(node, op->slot) != op->life)
		return true;
	if (!op->publishing && !publish_begin(node, op))
		return false;
	waiters_del(op); /* the unsettled */
	if (publish_is_over(node, op))
		return true; /* removed: its end says so */
	while (publish_step(node, op, &published))
		;
	return published;
}

void publish_done(struct node *node, struct op *op)
{
	op->publishing = false;
	if (op->published == NULL)
		return;
	tell_waiters(node, &op->published->call);
	if (!op->confirmed)
		errand_simple(node, ERRAND_CONFIRM, &op->id, op->generation);
	publish_leave_published(node, op);
}

/* A put that is left may be taken up again. What it has replaced is over all the same. */
static void publish_left(struct node *node, struct query *query)
{
	const struct dir_call *call = &query->call;
	struct msg_bytes key = query_key(query);

	if (key.data == NULL)
		return;
	if (call->err == 0 && call->verdict == DIR_DONE &&
		call->entry.generation != call->generation)
		holders_drop(node, key.data, (uint32_t)key.size, &call->entry);
	query_free_owner(query);
}

/* Nobody knows any more whether it was published. */
static void publish_orphaned(struct node *node, struct query *query)
{
	const struct dir_call *call = &query->call;
	struct msg_bytes key = query_key(query);

	if (call->op != DIR_OP_PUBLISH)
		return;
	if (key.data == NULL || (call->err == 0 && call->verdict == DIR_DONE))
		entry_undo(node, &call->id, call->generation);
	else
		replacing_undo(node, key, call->generation);
	publish_left(node, query);
}

void publish_cancel(struct node *node, struct op *op, bool dropped)
{
	if (!op->publishing)
		return;
	if (publish_may_have_replaced(node, op))
		query_own_key(op->query, op->key.data, op->key.size);
	else if (dropped && op->unheard == 0)
		entry_undo(node, &op->id, op->generation);
	if (dropped)
		unheard_undo(node, op);
	query_leave(node, op, dropped ? publish_orphaned : publish_left);
	publish_leave_replaced(node, op);
	holders_leave(node, op);
	waiters_wake(node, op->key.hash); /* whom it has held up */
}

void publish_undo(struct node *node, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	struct dir_id id;

	if (!node->cluster.there)
		return;
	if (there->flags & SLOT_REPLACES && there->generation != 0) {
		replacing_undo(node,
			(struct msg_bytes){slot_key(node->share, there), there->klen},
			there->generation);
		return;
	}
	id = dir_id_of_key(slot_key(node->share, there), there->klen);
	entry_undo(node, &id, there->generation);
}
