/*
 * fetch_sources.c - who of those that an entry names can be asked, and in what order.
 *
 * Copies come before keepers, and each in random order, so that the load spreads. Of the
 * others it notes why they cannot be asked: one that has another pool has lost what it had, and
 * so has one whose endpoint is another node's now; one that is away may come back with it, and
 * so may, some day, one that is gone: neither heard of nor a member any more. Of one that this
 * node, having just started, is about to meet it is soon known which of these it is.
 */
#include "node/fetch_priv.h"

#include "base/check.h"
#include "base/rng.h"

#include <string.h>

/* A list of members that is so new tells that who is not in it is none. */
#define FRESH_NS (CLUSTER_RETRY + CLUSTER_RETRY / 2)

/* ---- of an entry --------------------------------------------------------- */

static void sources_add(struct sources *sources, struct rng *rng, uint32_t first,
	uint32_t place, bool may_leave)
{
	uint32_t at = sources->count++;
	uint32_t other = first + (uint32_t)rng_below(rng, at - first + 1);

	CHECK(at < PEER_LIMIT);
	sources->list[at] = sources->list[other];
	sources->list[other] = (struct source){(uint8_t)place, may_leave, false};
}

static bool members_are_fresh(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	return cluster->members_known && node_now(node) - cluster->renewed_ns < FRESH_NS;
}

/* Nobody knows of it any more. */
static bool holder_is_gone(struct node *node, struct sources *sources, uint32_t place)
{
	const struct cluster *cluster = &node->cluster;
	uint64_t now = node_now(node);

	if (place == PEER_LIMIT) {
		if (members_are_fresh(node))
			return true;
		sources->strange = true;
		return false;
	}
	return !peer_is_live(node, &cluster->peers[place]) &&
	       now - cluster->renewed_ns < GONE_NS &&
	       now - cluster->peers[place].member_ns >= GONE_NS;
}

/* The place of a holder that can be asked, else PEER_LIMIT. */
static uint32_t holder_place(
	struct node *node, struct sources *sources, const struct dir_holder *holder)
{
	uint32_t place = peer_find(node, holder->node);

	if (place != PEER_LIMIT && peer_is_up(&node->cluster.peers[place])) {
		if (node->cluster.peers[place].incarnation == holder->incarnation)
			return place;
		/* It has another pool, unless the entry is newer than what is known of it. */
		if (members_are_fresh(node))
			sources->lost = true;
		else
			sources->strange = true;
	} else if (place != PEER_LIMIT && node->cluster.peers[place].replaced) {
		sources->lost = true;
	} else if (holder_is_gone(node, sources, place)) {
		sources->gone = true;
	} else if (place != PEER_LIMIT &&
		   peer_is_being_met(node, &node->cluster.peers[place])) {
		sources->unmet = true;
	} else {
		sources->away = true;
	}
	sources->named = holder->node;
	return PEER_LIMIT;
}

static void sources_find_role(struct node *node, const struct dir_entry *entry,
	enum dir_role role, struct rng *rng, struct sources *sources)
{
	uint32_t first = sources->count;

	for (uint32_t i = 0; i < entry->holder_count; i++) {
		const struct dir_holder *holder = &entry->holders[i];
		uint32_t place;

		if (holder->role != role || holder->node == node->cluster.id)
			continue;
		place = holder_place(node, sources, holder);
		if (place != PEER_LIMIT)
			sources_add(sources, rng, first, place,
				role == DIR_SECONDARY || !(entry->flags & DIR_SOFTPIN));
	}
}

enum dir_role own_role(const struct node *node, const struct dir_entry *entry)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		const struct dir_holder *holder = &entry->holders[i];

		if (holder->node == node->cluster.id &&
			holder->incarnation == node->cluster.incarnation)
			return holder->role;
	}
	return DIR_LOADING;
}

void sources_find(struct node *node, const struct dir_entry *entry, struct sources *ret)
{
	struct rng *rng = &node->cluster.rng;

	*ret = (struct sources){.count = 0};
	sources_find_role(node, entry, DIR_SECONDARY, rng, ret);
	/* A copy that is lost tells nothing of what is kept: a keeper says what became of it. */
	if (dir_keeper_count(entry) > 0)
		ret->lost = false;
	sources_find_role(node, entry, DIR_KEEPER, rng, ret);
	/* The entry of what nobody has any more stays for a while, to say so. */
	ret->lost |= ret->count == 0 && !ret->away && !ret->gone && !ret->strange &&
		     !ret->unmet && own_role(node, entry) != DIR_KEEPER;
}

/* ---- one after the other ------------------------------------------------- */

bool sources_next(struct node *node, struct sources *sources, uint32_t *ret)
{
	for (uint32_t i = 0; i < sources->count; i++) {
		struct source *source = &sources->list[i];

		if (source->tried)
			continue;
		source->tried = true;
		if (peer_is_up(&node->cluster.peers[source->peer])) {
			*ret = i;
			return true;
		}
		sources->away = true;
		sources->named = node->cluster.peers[source->peer].id;
	}
	return false;
}

void sources_renew(
	struct sources *sources, const struct sources *old, uint32_t failed_place)
{
	uint8_t failed = old->list[failed_place].peer;

	sources->corrupt = old->corrupt;
	sources->error = old->error;
	if (sources->named == 0)
		sources->named = old->named;
	for (uint32_t i = 0; i + 1 < sources->count; i++) {
		struct source source = sources->list[i];

		if (source.peer != failed)
			continue;
		memmove(&sources->list[i], &sources->list[i + 1],
			(sources->count - i - 1) * sizeof(source));
		sources->list[sources->count - 1] = source;
		return;
	}
}

/* ---- puts under way ------------------------------------------------------ */

bool put_is_named(
	const struct node *node, const struct index_key *key, uint64_t generation)
{
	const struct master *master = &node->master;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		for (uint32_t slot = master->writing[cid].head; slot != SLOT_NONE;
			slot = master->objects[slot].next) {
			const struct slot *there = &node->share->slots[slot];

			if (there->generation == generation && there->hash == key->hash &&
				there->klen == key->size &&
				memcmp(slot_key(node->share, there), key->data,
					key->size) == 0)
				return true;
		}
	}
	return false;
}
