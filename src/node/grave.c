/*
 * grave.c - what was removed, for those who could not be told: peers that are away, and a
 * directory that forgets.
 *
 *   grave_dig -> a grave, with a bit for the place of each peer that has not heard of it
 *     the peer is up, or comes up --DROP--> answered: its bit is cleared
 *     no bit is left --> gone; or kept for GRAVE_NS, if the directory did not know all then
 *     a directory that forgot --> BURY, for each
 *
 * A peer hears of graves in their order, TELL_AT_ONCE at a time. What it refuses is told
 * again after TELL_RETRY_NS; what it did not answer before it went, when it is back. A grave
 * of which somebody is hearing is not freed.
 *
 * An unreached peer that stays away for longer than GRAVE_NS, or than GRAVE_LIMIT removals
 * last, announces what it has when it is back, like any other.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TELL_AT_ONCE  256u
#define TELL_RETRY_NS 1000000000ull
#define GRAVES_STEP   1024u /* freed or announced in one turn */

static struct grave *grave_of(struct list *entry)
{
	return container_of(entry, struct grave, entry);
}

static struct grave *grave_first(const struct node *node)
{
	struct list *first = list_first(&node->cluster.graves);

	return first != NULL ? grave_of(first) : NULL;
}

static struct grave *grave_next(const struct node *node, const struct grave *grave)
{
	struct list *next = grave->entry.next;

	return next != &node->cluster.graves ? grave_of(next) : NULL;
}

/* A directory that forgets is to hear of it. */
static bool grave_is_buried(enum grave_kind kind)
{
	return kind == GRAVE_OBJECT || kind == GRAVE_KEY || kind == GRAVE_OLDER;
}

/* ---- life ---------------------------------------------------------------- */

static void grave_free(struct node *node, struct grave *grave)
{
	struct cluster *cluster = &node->cluster;
	struct grave *next = grave_next(node, grave);

	CHECK(grave->telling == 0);
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (cluster->tellers[place].next == grave)
			cluster->tellers[place].next = next;
	}
	if (cluster->burying == grave)
		cluster->burying = next;
	cluster->stats.graves_lost += grave->unreached != 0;
	list_del(&grave->entry);
	cluster->grave_count--;
	free(grave);
}

static void grave_settle(struct node *node, struct grave *grave)
{
	if (grave->unreached == 0 && grave->telling == 0 && !grave->kept)
		grave_free(node, grave);
}

/* The oldest of which nobody is hearing. */
static void grave_free_oldest(struct node *node)
{
	list_for_each_safe (at, &node->cluster.graves) {
		struct grave *grave = grave_of(at);

		if (grave->telling != 0)
			continue;
		grave_free(node, grave);
		return;
	}
}

/* ---- telling ------------------------------------------------------------- */

static void tell_on(struct node *node, uint32_t place);

static void grave_told(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct teller *teller = &node->cluster.tellers[ask->peer];
	struct grave *grave = ask->owner;
	uint64_t bit = 1ull << ask->peer;

	err = ask_error_of(err, message, size);
	grave->telling &= ~bit;
	teller->under_way--;
	if (err == 0 || err == ERR_NOT_FOUND) {
		grave->unreached &= ~bit;
		node->cluster.stats.graves_told++;
	} else if (teller->retry_ns == 0) {
		teller->retry_ns = node_now(node) + TELL_RETRY_NS;
	}
	grave_settle(node, grave);
	tell_on(node, ask->peer);
}

static size_t grave_message(struct node *node, const struct grave *grave, uint32_t place)
{
	const struct msg_drop_prefix prefix = {
		.before = grave->generation,
		.prefix = {grave->key, grave->key_size},
	};
	const struct msg_drop older = {
		.key = {grave->key, grave->key_size},
		.before = grave->generation,
	};

	if (grave->kind == GRAVE_OLDER)
		return msg_drop_encode(node->out, sizeof(node->out), &older);
	if (grave->kind == GRAVE_PREFIX)
		return msg_drop_prefix_encode(node->out, sizeof(node->out), &prefix);
	if (grave->kind == GRAVE_GAVE_WAY)
		return gave_way_message(
			node, grave->key, grave->key_size, grave->generation);
	return drop_message(node, place, grave->key, grave->key_size, grave->generation);
}

/* False: not now. */
static bool grave_tell(struct node *node, struct grave *grave, uint32_t place)
{
	struct teller *teller = &node->cluster.tellers[place];
	uint64_t bit = 1ull << place;
	struct ask *ask;

	if ((grave->unreached & bit) == 0 || (grave->telling & bit) != 0)
		return true;
	if (teller->under_way >= TELL_AT_ONCE)
		return false;
	ask = ask_send(node, place, grave_message(node, grave, place), grave_told);
	if (ask == NULL) {
		teller->retry_ns = node_now(node) + CLUSTER_RETRY;
		return false;
	}
	ask->owner = grave;
	grave->telling |= bit;
	teller->under_way++;
	return true;
}

static void tell_on(struct node *node, uint32_t place)
{
	struct teller *teller = &node->cluster.tellers[place];

	if (!peer_is_up(&node->cluster.peers[place]))
		return;
	while (teller->next != NULL && grave_tell(node, teller->next, place))
		teller->next = grave_next(node, teller->next);
}

void graves_tell(struct node *node, uint32_t place)
{
	struct teller *teller = &node->cluster.tellers[place];

	if (PLANTED(FORGOTTEN_GRAVE))
		return;
	teller->next = grave_first(node);
	teller->retry_ns = 0;
	tell_on(node, place);
}

static void grave_is_new(struct node *node, struct grave *grave)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		struct teller *teller = &node->cluster.tellers[place];

		if ((grave->unreached >> place & 1) == 0 ||
			!peer_is_up(&node->cluster.peers[place]))
			continue;
		if (teller->next == NULL)
			teller->next = grave;
		tell_on(node, place);
	}
}

static void grave_add(
	struct node *node, const void *key, uint32_t key_size, const struct grave *like)
{
	struct cluster *cluster = &node->cluster;
	struct grave *grave;

	if (like->unreached == 0 && !like->kept)
		return;
	if (cluster->grave_count >= GRAVE_LIMIT)
		grave_free_oldest(node);
	grave = malloc(sizeof(*grave) + key_size);
	if (grave == NULL) {
		cluster->stats.graves_lost++;
		return;
	}
	*grave = *like;
	grave->made_ns = node_now(node);
	grave->key_size = key_size;
	if (key_size > 0)
		memcpy(grave->key, key, key_size);
	list_add_tail(&cluster->graves, &grave->entry);
	cluster->grave_count++;
	cluster->stats.graves++;
	grave_is_new(node, grave);
}

void grave_dig(struct node *node, const void *key, uint32_t key_size, uint64_t generation,
	enum grave_kind kind, uint64_t unreached)
{
	struct dir_id id = dir_id_of_key(key, key_size);
	const struct grave like = {
		.generation = generation,
		.kind = kind,
		.kept = grave_is_buried(kind) && !directory_knows_all(node, &id),
		.unreached = unreached,
	};

	grave_add(node, key, key_size, &like);
}

void grave_keep(struct node *node, const void *key, uint32_t key_size,
	uint64_t generation, uint64_t unreached)
{
	const struct grave like = {
		.generation = generation,
		.kind = GRAVE_KEY,
		.kept = true,
		.unreached = unreached,
	};

	grave_add(node, key, key_size, &like);
}

void graves_forget_peer(struct node *node, uint32_t place)
{
	node->cluster.tellers[place] = (struct teller){.next = NULL};
	list_for_each_safe (at, &node->cluster.graves) {
		struct grave *grave = grave_of(at);

		grave->unreached &= ~(1ull << place);
		grave_settle(node, grave);
	}
}

/* ---- the directory ------------------------------------------------------- */

void bury_later(struct node *node, const void *key, uint32_t key_size,
	uint64_t generation, enum grave_kind kind)
{
	const struct errand errand = {
		.kind = ERRAND_BURY,
		.id = dir_id_of_key(key, key_size),
		.generation = generation,
		.older = kind == GRAVE_KEY,
		.key_size = key_size,
		.key = key,
	};

	errand_add(node, &errand);
}

void bury_settle(struct node *node, struct msg_bytes key, uint64_t generation,
	enum grave_kind kind, const struct dir_entry *found)
{
	struct errand errand = {
		.kind = ERRAND_TAKE_OUT,
		.generation = found->generation,
		.key_size = (uint32_t)key.size,
		.key = key.data,
	};

	if (key.size == 0 || found->generation == 0 || found->generation > generation)
		return;
	if (found->generation == generation) {
		/* It was announced to a directory that had forgotten its removal. */
		holders_drop(node, key.data, errand.key_size, found);
	} else if (kind == GRAVE_KEY) {
		/* Who removed the key knew nothing of this one, which was away, and is announced
		 * before the tombstone that would have kept it from that. */
		errand.id = dir_id_of_key(key.data, errand.key_size);
		errand_add(node, &errand);
	}
}

void graves_announce(struct node *node)
{
	node->cluster.burying = grave_first(node);
}

static bool errands_have_room(const struct node *node)
{
	return node->cluster.errand_count < ERRAND_LIMIT / 2;
}

static void bury_some(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	for (uint32_t i = 0;
		i < GRAVES_STEP && cluster->burying != NULL && errands_have_room(node);
		i++) {
		const struct grave *grave = cluster->burying;

		if (grave_is_buried(grave->kind))
			bury_later(node, grave->key, grave->key_size, grave->generation,
				grave->kind);
		cluster->burying = grave_next(node, grave);
	}
}

/* ---- the turn ------------------------------------------------------------ */

static void tell_again(struct node *node, uint64_t now)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		struct teller *teller = &node->cluster.tellers[place];

		if (teller->retry_ns == 0 || now < teller->retry_ns)
			continue;
		teller->retry_ns = 0;
		if (peer_is_up(&node->cluster.peers[place]))
			graves_tell(node, place);
	}
}

void graves_step(struct node *node, uint64_t now)
{
	struct grave *first;

	for (uint32_t i = 0; i < GRAVES_STEP; i++) {
		first = grave_first(node);
		if (first == NULL || now - first->made_ns < GRAVE_NS ||
			first->telling != 0)
			break;
		grave_free(node, first);
	}
	tell_again(node, now);
	bury_some(node);
}

uint64_t graves_next(const struct node *node)
{
	const struct grave *first = grave_first(node);
	uint64_t next = UINT64_MAX;

	if (first == NULL)
		return UINT64_MAX;
	if (node->cluster.burying != NULL && errands_have_room(node))
		return 0;
	/* What is being told is looked at again when that is answered. */
	if (first->telling == 0)
		next = first->made_ns + GRAVE_NS;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		uint64_t retry = node->cluster.tellers[place].retry_ns;

		if (retry != 0)
			next = MIN(next, retry);
	}
	return next;
}

/* ---- check --------------------------------------------------------------- */

const char *graves_check(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t count = 0, telling[PEER_LIMIT] = {0};

	list_for_each (at, &cluster->graves) {
		const struct grave *grave = grave_of(at);

		if (grave->unreached == 0 && !grave->kept)
			return "a grave is for nobody";
		if ((grave->telling & ~grave->unreached) != 0)
			return "a grave is told to who has heard of it";
		for (uint32_t place = 0; place < PEER_LIMIT; place++)
			telling[place] += (grave->telling >> place & 1) != 0;
		count++;
	}
	if (count != cluster->grave_count)
		return "the number of graves is wrong";
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (telling[place] != cluster->tellers[place].under_way)
			return "the number of graves that a peer is being told is wrong";
	}
	return NULL;
}
