/*
 * errand.c - calls of the directory that nobody waits for: they are repeated until the
 * directory has answered.
 *
 *   errand_add -> [waits its turn] -> under way --answered--> done
 *                       ^----- not answered, CLUSTER_RETRY -----'
 *
 * Those of one key are done one after the other, as they came: what was said last holds. A node
 * that leaves an entry and is fetching the object once more leaves that to the fetch.
 *
 * All of them only bring an entry up to date sooner than whoever meets it would have to, so
 * what does not fit may be left out.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* Only makes the entry better; with others it costs less, and whoever waits for this node is
 * served first. */
static bool errand_may_wait(const struct errand *errand)
{
	return errand->kind == ERRAND_CONFIRM || errand->kind == ERRAND_LOADED;
}

void errand_add(struct node *node, const struct errand *like)
{
	struct cluster *cluster = &node->cluster;
	struct errand *errand;

	if (!cluster->there)
		return;
	errand = cluster->errand_count < ERRAND_LIMIT
			 ? malloc(sizeof(*errand) + like->key_size)
			 : NULL;
	if (errand == NULL) {
		cluster->stats.errands_lost++;
		return;
	}
	*errand = *like;
	if (like->key_size > 0)
		memcpy(errand + 1, like->key, like->key_size);
	errand->key = (const unsigned char *)(errand + 1);
	if (errand->token == 0)
		errand->token = cluster_token(node);
	list_init(&errand->entry);
	if (!errand_may_wait(errand) || cluster->errand_count >= ERRANDS_AT_ONCE)
		cluster->errand_pause_ns = 0;
	else if (list_is_empty(&cluster->errands))
		cluster->errand_pause_ns = node_now(node) + ERRAND_PAUSE_NS;
	list_add_tail(&cluster->errands, &errand->entry);
	errand->number = cluster->errand_numbers++;
	cluster->errand_count++;
	cluster->stats.errands++;
}

void errand_simple(struct node *node, enum errand_kind kind, const struct dir_id *id,
	uint64_t generation)
{
	const struct errand errand = {.kind = kind, .id = *id, .generation = generation};

	errand_add(node, &errand);
}

void errand_announce(struct node *node, const struct dir_id *id, struct msg_bytes key,
	uint64_t generation)
{
	const struct errand errand = {
		.kind = ERRAND_ANNOUNCE,
		.id = *id,
		.generation = generation,
		.key = key.data,
		.key_size = (uint32_t)key.size,
	};

	errand_add(node, &errand);
}

void errand_leave(
	struct node *node, const struct dir_id *id, uint64_t hash, uint64_t generation)
{
	const struct errand errand = {
		.kind = ERRAND_LEAVE,
		.id = *id,
		.generation = generation,
		.hash = hash,
	};

	errand_add(node, &errand);
}

static bool list_has_errand(const struct list *list, enum errand_kind kind,
	const struct dir_id *id, uint64_t generation)
{
	list_for_each (at, list) {
		const struct errand *errand = container_of(at, struct errand, entry);

		if (errand->kind == kind && errand->generation == generation &&
			dir_id_is(&errand->id, id))
			return true;
	}
	return false;
}

bool errand_is_there(const struct node *node, enum errand_kind kind,
	const struct dir_id *id, uint64_t generation)
{
	return list_has_errand(&node->cluster.errands, kind, id, generation) ||
	       list_has_errand(&node->cluster.errands_out, kind, id, generation);
}

/* ---- what came of it ----------------------------------------------------- */

/* `gone`: the entry has not this copy's generation any more, so the copy must go. What has come to
 * be kept here meanwhile must not, if the directory has only forgotten it; nor is it a copy. */
static void copy_is_settled(struct node *node, const struct errand *errand, bool gone)
{
	struct index_key key = key_of(node, errand->key, errand->key_size);
	struct errand announce = *errand;
	struct held held;
	uint64_t generation;
	bool there = master_held_look(&node->master, &key, errand->generation, &held);

	if (there && !gone)
		master_held_list(&node->master, &held);
	if (there && held.softpin && !held.secondary) {
		announce.kind = ERRAND_ANNOUNCE;
		/* Its disk may not have it yet; a KEEP ends with the role, or without. */
		if (!held.durable ||
			!keep_is_under_way(node, &errand->id, errand->generation))
			errand_add(node, &announce);
		return;
	}
	if (gone && master_end_generation(&node->master, &key, errand->generation,
			    node_now(node), &generation) == 0)
		waiters_wake(node, key.hash);
}

/* Nobody tells the one who had the role. It may be back since this was asked for, and have
 * announced that it keeps the object before the directory named another. */
void role_is_taken(struct node *node, uint64_t from)
{
	uint32_t place = peer_find(node, from);

	node->cluster.kept++;
	if (from != 0 && place != PEER_LIMIT)
		peer_is_overtaken(node, place);
}

static void errand_settle(
	struct node *node, const struct errand *errand, const struct query *query)
{
	const struct dir_call *call = &query->call;

	if (errand->kind == ERRAND_LOADED)
		copy_is_settled(node, errand, call->verdict == DIR_GONE);
	if (errand->kind == ERRAND_TAKE_OUT && call->verdict == DIR_DONE &&
		errand->key_size > 0)
		holders_end(node, errand->key, errand->key_size, call);
	if (errand->kind == ERRAND_BURY)
		bury_settle(node, (struct msg_bytes){errand->key, errand->key_size},
			errand->generation, errand->older ? GRAVE_KEY : GRAVE_OBJECT,
			&call->entry);
	/* What was spoiled here others keep still, and are to be as many as before. */
	if (errand->kind == ERRAND_LEAVE && errand->node == node->cluster.id)
		lacking_tell(node, errand);
	if (errand->kind == ERRAND_SETTLE)
		drop_settle(node, errand, query);
	if (errand->kind == ERRAND_UNDO)
		publish_undone(node, errand, query);
	if (errand->kind == ERRAND_ANNOUNCE)
		announce_settle(
			node, query, (struct msg_bytes){errand->key, errand->key_size});
	if (errand->kind == ERRAND_HAND_OVER && call->verdict == DIR_DONE)
		role_is_taken(node, errand->node);
	/* Whoever looked at the entry before found that this node does not keep it. */
	if ((errand->kind == ERRAND_HAND_OVER || errand->kind == ERRAND_ANNOUNCE) &&
		call->verdict == DIR_DONE)
		rebuild_has_taken(node, call);
	/* The entry has another generation, or another keeper, or was forgotten. */
	if (errand->kind == ERRAND_HAND_OVER && call->verdict != DIR_DONE) {
		struct errand announce = *errand;

		announce.kind = ERRAND_ANNOUNCE;
		errand_add(node, &announce);
	}
}

static void errand_free(struct node *node, struct errand *errand)
{
	node->cluster.errand_count--;
	free(errand);
}

/* To be repeated, in its old place. */
static void errand_back(struct cluster *cluster, struct errand *errand)
{
	struct list *at = cluster->errands.next;

	while (at != &cluster->errands &&
		container_of(at, struct errand, entry)->number < errand->number)
		at = at->next;
	list_add_tail(at, &errand->entry);
}

static void errand_done(struct node *node, struct query *query)
{
	struct cluster *cluster = &node->cluster;
	struct errand *errand = query->owner;

	cluster->errands_under_way--;
	list_del(&errand->entry);
	if (query->call.err == 0) {
		errand_settle(node, errand, query);
		query->owner = NULL;
		errand_free(node, errand);
		return;
	}
	query->owner = NULL;
	cluster->errand_retry_ns = node_now(node) + CLUSTER_RETRY;
	errand_back(cluster, errand);
}

/* ---- begin --------------------------------------------------------------- */

static enum dir_op errand_op(enum errand_kind kind)
{
	switch (kind) {
	case ERRAND_CONFIRM:
		return DIR_OP_CONFIRM;
	case ERRAND_LOADED:
		return DIR_OP_LOADED;
	case ERRAND_LEAVE:
		return DIR_OP_LEAVE;
	case ERRAND_TAKE_OUT:
	case ERRAND_UNDO:
		return DIR_OP_TAKE_OUT;
	case ERRAND_BURY:
		return DIR_OP_BURY;
	case ERRAND_HAND_OVER:
		return DIR_OP_HAND_OVER;
	case ERRAND_ANNOUNCE:
		return DIR_OP_ANNOUNCE;
	case ERRAND_SETTLE:
		return DIR_OP_LOOKUP;
	}
	NOT_REACHED("no such errand");
}

/* What the errand is to announce. False: it is here no more. */
static bool errand_find(
	const struct node *node, const struct errand *errand, struct held *ret)
{
	struct index_key key = key_of(node, errand->key, errand->key_size);

	return master_held_look(&node->master, &key, errand->generation, ret);
}

/* What this node alone keeps. Those who are to end what is older may hear of that late: so the
 * tombstone lasts. */
static void undo_fill(const struct node *node, struct query *query)
{
	const struct dir_entry own = {
		.holder_count = 1,
		.holders = {{.node = node->cluster.id, .role = DIR_KEEPER}},
	};

	query->call.asked = true;
	query->call.keepers = dir_keepers(&own);
}

/* False: no query is free. */
static bool errand_start(struct node *node, struct errand *errand)
{
	struct query *query = query_new(node, errand_op(errand->kind), &errand->id);
	struct held held;

	if (query == NULL)
		return false;
	query->owner = errand;
	query->call.generation = errand->generation;
	query->call.from = errand->node;
	query->call.token = errand->token;
	query->call.bury_ns = GRAVE_NS;
	query->call.lost = errand->gives_way;
	if (errand->kind == ERRAND_UNDO)
		undo_fill(node, query);
	else
		query_set_live(node, query);
	if (errand->kind == ERRAND_ANNOUNCE && errand_find(node, errand, &held))
		announce_fill(node, query, &held);
	node->cluster.errands_under_way++;
	list_move_tail(&node->cluster.errands_out, &errand->entry);
	query_start(node, query, errand_done);
	return true;
}

/* One of the same key is under way: they take effect in their order. */
static bool errand_is_behind(const struct cluster *cluster, const struct errand *errand)
{
	list_for_each (at, &cluster->errands_out) {
		const struct errand *other = container_of(at, struct errand, entry);

		if (dir_id_is(&other->id, &errand->id))
			return true;
	}
	return false;
}

/* What had left this node is here again, and may have come to be kept while the directory could not
 * be told. Its key nobody needs. */
static bool errand_is_back(const struct node *node, const struct errand *errand)
{
	const struct held held = {
		.id = {{errand->id.word[0], errand->id.word[1]}},
		.generation = errand->generation,
		.hash = errand->hash,
	};
	uint32_t slot;

	return master_held_find(&node->master, &held, &slot);
}

/* What is being fetched has been joined anew, or will be; or there is nothing to tell of. */
static bool errand_is_moot(struct node *node, const struct errand *errand)
{
	struct held held;

	if (errand->kind == ERRAND_ANNOUNCE)
		return !errand_find(node, errand, &held);
	if (errand->kind == ERRAND_HAND_OVER)
		return !errand_find(node, errand, &held) || held.secondary;
	if (errand->kind != ERRAND_LEAVE || errand->node != 0)
		return false;
	return errand_is_back(node, errand) ||
	       (!errand->at_once &&
		       fetch_takes_leave(node, &errand->id, errand->generation));
}

void errands_step(struct node *node, uint64_t now)
{
	struct cluster *cluster = &node->cluster;
	struct list *first;

	if (now < MAX(cluster->errand_retry_ns, cluster->errand_pause_ns))
		return;
	while (cluster->errands_under_way < ERRANDS_AT_ONCE &&
		(first = list_first(&cluster->errands)) != NULL) {
		struct errand *errand = container_of(first, struct errand, entry);

		if (errand_is_behind(cluster, errand))
			return;
		if (errand_is_moot(node, errand)) {
			list_del(first);
			errand_free(node, errand);
		} else if (!errand_start(node, errand)) {
			return;
		}
	}
}

uint64_t errands_next(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	struct list *first = list_first(&cluster->errands);

	/* An answer is what it waits for. */
	if (first == NULL || cluster->errands_under_way >= ERRANDS_AT_ONCE ||
		errand_is_behind(cluster, container_of(first, struct errand, entry)))
		return UINT64_MAX;
	return MAX(cluster->errand_retry_ns, cluster->errand_pause_ns);
}

/* ---- waiters ------------------------------------------------------------- */

void tell_waiters(struct node *node, const struct dir_call *call)
{
	struct msg_published msg;

	memcpy(msg.id, &call->id, sizeof(msg.id));
	for (uint32_t i = 0; i < call->waiter_count; i++) {
		uint32_t place = peer_find(node, call->waiters[i]);

		if (place == PEER_LIMIT || !peer_is_up(&node->cluster.peers[place]))
			continue; /* it looks again when it is up */
		node->env.peer.send(node->env.peer.ctx, place, UINT32_MAX, node->out,
			msg_published_encode(node->out, sizeof(node->out), &msg));
	}
}
