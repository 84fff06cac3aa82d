/*
 * yield.c - this node keeps an object, and the directory has enough other keepers of it: the
 * role is given up, once it is certain that so many have it.
 *
 *   announced, and secondary in the entry --no other is up-----------------> kept as before;
 *     |                                       announced again when one is back, or gone
 *     |--all keepers are gone--HAND_OVER from one--> kept as before, and so says the entry
 *     '--HAVE to the others--> as many as are wanted keep it, and nothing has changed since:
 *                          |   secondary here
 *                          '--one has a copy, or nothing: the entry is wrong; announced again,
 *                             and by then that one has put it right
 *
 * The directory alone is not to be believed. One that went back to an earlier state names who
 * kept the object then: who has given it away since, and whose copy may go or is gone. Nor is
 * the other's word enough, if both ask each other: a directory that goes back may have told
 * either that it is the other. So it counts only under an epoch that is complete, and is so
 * still when the others have answered.
 *
 * While a hand-over of the object is under way, to this node or from it, that decides. What is
 * only on the disk and was announced in a walk, without its key, stays kept here until a reader
 * comes, who brings the key; then it is announced again.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

/* ---- whom to ask --------------------------------------------------------- */

/* What an entry says of who else keeps the object. */
struct named {
	bool any;        /* somebody does, and this node is secondary */
	uint64_t places; /* of those that can be asked, a bit each */
	uint32_t count;  /* of these */
};

static struct named keepers_named(const struct node *node, const struct dir_entry *entry)
{
	struct named named = {0};
	bool is_secondary = false, any = false;

	for (uint32_t i = 0; i < entry->holder_count; i++) {
		const struct dir_holder *holder = &entry->holders[i];
		uint32_t place = peer_find(node, holder->node);

		if (holder->node == node->cluster.id) {
			is_secondary = holder->role == DIR_SECONDARY;
			continue;
		}
		any |= holder->role == DIR_KEEPER;
		if (holder->role != DIR_KEEPER || place == PEER_LIMIT ||
			!peer_is_up(&node->cluster.peers[place]) ||
			node->cluster.peers[place].incarnation != holder->incarnation)
			continue;
		named.places |= 1ull << place;
		named.count++;
	}
	named.any = is_secondary && any;
	return named;
}

/* Once that has ended without effect it is announced again. */
static bool is_passing(
	struct node *node, const struct dir_id *id, const struct held *held)
{
	return swapout_doubt(node, held) || keep_is_under_way(node, id, held->generation);
}

/* Announced once more, with all that is there. */
static void yield_doubt(struct node *node, uint32_t domain)
{
	if (domain < DIR_DOMAINS)
		node->cluster.domains[domain].doubtful = true;
}

/* ---- nobody's word ------------------------------------------------------- */

static void yield_took_back(struct node *node, struct query *query)
{
	const struct dir_call *call = &query->call;
	const struct cluster *cluster = &node->cluster;
	bool is_taken = call->err == 0 && call->verdict == DIR_DONE;
	uint32_t slot;

	if (is_taken) {
		node->cluster.stats.claimed++;
		role_is_taken(node, call->from);
		rebuild_has_taken(node, call);
	}
	/* Else another was faster, say, or it is not here any more. */
	if (!is_taken || !master_held_find(&node->master, &query->held, &slot))
		yield_doubt(node, cluster->dir.domain_of(cluster->dir.ctx, &call->id));
}

/* Another claimed the role while this node could not be reached, say, and is gone with it. Claims
 * look at copies alone (rebuild.c), and this one is kept. */
static void yield_take_back(struct node *node, const struct query *of, uint64_t dead)
{
	struct query *query = query_new(node, DIR_OP_HAND_OVER, &of->call.id);

	if (query == NULL) {
		yield_doubt(node, of->call.domain);
		return;
	}
	query->held = of->held;
	query->call.generation = of->held.generation;
	query->call.from = dead;
	query_start(node, query, yield_took_back);
}

/* ---- the others' word ---------------------------------------------------- */

static bool yield_stands(struct node *node, const struct yielding *yielding)
{
	return epoch_is_complete(node, yielding->domain, yielding->epoch) &&
	       node->cluster.kept == yielding->kept &&
	       !is_passing(node, &yielding->id, &yielding->held);
}

static void yield_answered(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct yielding *yielding = ask->owner;
	struct other other;

	CHECK(yielding->asked > 0);
	yielding->asked--;
	err = had_read(err, message, size, &other);
	yielding->silent |= err == ERR_UNAVAILABLE;
	yielding->keepers += err == 0 && !other.secondary;
	if (yielding->asked > 0)
		return;
	if (yielding->keepers >= yielding->wanted && yield_stands(node, yielding))
		master_held_yield(&node->master, &yielding->held, node_now(node));
	else if (!yielding->silent) /* else all is announced once that one is back */
		yield_doubt(node, yielding->domain);
}

static struct yielding *yielding_find_free(struct cluster *cluster)
{
	for (uint32_t i = 0; i < YIELDS_AT_ONCE; i++) {
		if (cluster->yieldings[i].asked == 0)
			return &cluster->yieldings[i];
	}
	return NULL;
}

/* Of the peers each. */
static void yield_ask(struct node *node, const struct query *query, struct msg_bytes key,
	uint64_t places)
{
	struct index_key name = key_of(node, key.data, (uint32_t)key.size);
	struct yielding *yielding = yielding_find_free(&node->cluster);
	const struct dir_call *call = &query->call;

	if (yielding == NULL) {
		yield_doubt(node, call->domain);
		return;
	}
	*yielding = (struct yielding){
		.held = query->held,
		.id = call->id,
		.domain = call->domain,
		.epoch = call->epoch,
		.kept = query->kept,
		.wanted = keepers_wanted(call->entry.wanted),
	};
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		struct ask *ask = NULL;

		if ((places >> place & 1) != 0)
			ask = ask_send(node, place,
				have_message(node, &name, query->held.generation),
				yield_answered);
		if (ask == NULL)
			continue;
		ask->owner = yielding;
		yielding->asked++;
	}
	if (yielding->asked == 0)
		yield_doubt(node, call->domain);
}

void yield_run(struct node *node, const struct query *query, struct msg_bytes key)
{
	const struct dir_call *call = &query->call;
	const struct held *held = &query->held;
	struct named named = keepers_named(node, &call->entry);
	bool enough = named.count >= keepers_wanted(call->entry.wanted);
	uint64_t dead = enough ? 0 : keepers_dead(node, &call->entry);

	if (!named.any || is_passing(node, &call->id, held))
		return;
	if ((!held->softpin || PLANTED(BELIEVED_ENTRY)) && named.count > 0)
		master_held_yield(&node->master, held, node_now(node));
	else if (held->softpin && !epoch_is_complete(node, call->domain, call->epoch))
		yield_doubt(node, call->domain);
	else if (held->softpin && dead != 0)
		yield_take_back(node, query, dead);
	else if (held->softpin && enough && key.data != NULL)
		yield_ask(node, query, key, named.places);
	else if (held->softpin && enough && call->domain < DIR_DOMAINS)
		node->cluster.domains[call->domain].nameless = true;
}

void yield_loaded(struct node *node, uint32_t slot)
{
	const struct cluster *cluster = &node->cluster;
	const struct slot *there = &node->share->slots[slot];
	const struct msg_bytes key = {slot_key(node->share, there), there->klen};
	const struct dir_id id = dir_id_of_key(key.data, there->klen);
	uint32_t domain;

	if (!cluster->there || (there->flags & SLOT_SECONDARY) != 0)
		return;
	domain = cluster->dir.domain_of(cluster->dir.ctx, &id);
	if (domain < DIR_DOMAINS && cluster->domains[domain].nameless)
		errand_announce(node, &id, key, there->generation);
}
