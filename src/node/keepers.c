/*
 * keepers.c - which of those that an entry has as keepers live.
 *
 * A node lives as long as it is heard of, with the pool that the entry is of. One that this node
 * has never heard of may have just come: only a list of members that is not old says that there
 * is none.
 */
#include "node/node_priv.h"

enum life holder_life(const struct node *node, const struct dir_holder *holder)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t place;

	if (holder->node == cluster->id)
		return holder->incarnation == cluster->incarnation ? LIFE_LIVES
								   : LIFE_GONE;
	place = peer_find(node, holder->node);
	if (place == PEER_LIMIT)
		return cluster->members_known &&
				       node_now(node) - cluster->renewed_ns < GONE_NS
			       ? LIFE_GONE
			       : LIFE_UNKNOWN;
	if (peer_is_up(&cluster->peers[place]) &&
		cluster->peers[place].incarnation != holder->incarnation)
		return LIFE_GONE;
	return peer_is_live(node, &cluster->peers[place]) ? LIFE_LIVES : LIFE_GONE;
}

uint64_t holder_bit(const struct node *node, const struct dir_holder *holder)
{
	uint32_t place = peer_find(node, holder->node);

	return place != PEER_LIMIT ? 1ull << place : 0;
}

static void keepers_add(
	const struct node *node, struct keepers *keepers, const struct dir_holder *holder)
{
	switch (holder_life(node, holder)) {
	case LIFE_LIVES:
		keepers->living++;
		keepers->own |= holder->node == node->cluster.id;
		if (keepers->first == 0 || holder->node < keepers->first)
			keepers->first = holder->node;
		keepers->places |= holder_bit(node, holder);
		return;
	case LIFE_GONE:
		keepers->dead = holder->node;
		return;
	case LIFE_UNKNOWN:
		keepers->unknown = true;
		return;
	}
}

void keepers_find(
	const struct node *node, const struct dir_entry *entry, struct keepers *ret)
{
	*ret = (struct keepers){.living = 0};
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		const struct dir_holder *holder = &entry->holders[i];

		if (holder->role == DIR_KEEPER)
			keepers_add(node, ret, holder);
		else if (holder->role == DIR_SECONDARY)
			ret->copies |= holder_bit(node, holder);
	}
}

uint64_t keepers_dead(const struct node *node, const struct dir_entry *entry)
{
	struct keepers keepers;

	keepers_find(node, entry, &keepers);
	return keepers.living > 0 || keepers.unknown ? 0 : keepers.dead;
}
