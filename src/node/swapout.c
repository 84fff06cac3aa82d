/*
 * swapout.c - what this node keeps and has no room for goes to a peer, which becomes its
 * keeper.
 *
 *   core wants room, and the disk has none or comes second (--swapout-first)
 *     --a peer has credit--> KEEP to it, under way
 *     --KEPT-------------------> the copy here is secondary, and may leave the pool at once;
 *                                announced, if it was announced as kept meanwhile
 *     --NO_SPACE---------------> as before; until its next beat the peer is asked for less alone
 *     --TOO_MANY---------------> as before; it has others to take over first
 *     --EXISTS-----------------> as before, and announced; it keeps it already, beside this node
 *                                or since an earlier offer: for a while others are offered first
 *     --NOT_SUPPORTED----------> as before; it has no disk, and is asked for nothing durable
 *     --another error, or none-> as before; and announced, unless the peer did not answer:
 *                                whether the peer is the keeper, the directory says
 *
 * Of the peers whose beats say that they would take it, the one with more credit of two at
 * random is asked, so that not all nodes give to the same one. The peer pulls the bytes as a
 * reader does (flow_replica.c). Nothing is freed here before its word.
 *
 * A node that is drained offers all that it keeps in the same way, see drain.c. Where the others
 * are too few for the keepers that an object is to have, who keeps it already will do.
 *
 * The count of an object's reads goes with the role. What was counted here after the peer had
 * read the count is reported to it.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"
#include "base/rng.h"

#include <string.h>

/* ---- whom to ask --------------------------------------------------------- */

static bool peer_would_take(const struct peer *peer, uint64_t bytes)
{
	return peer_is_up(peer) && peer->free_bytes > 0 && peer->free_bytes >= bytes;
}

uint32_t taker_choose(struct node *node, uint64_t bytes, uint64_t skipped)
{
	struct cluster *cluster = &node->cluster;
	uint32_t places[PEER_LIMIT], count = 0, one, other;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (peer_would_take(&cluster->peers[place], bytes) &&
			!(skipped >> place & 1))
			places[count++] = place;
	}
	if (count == 0)
		return PEER_LIMIT;
	one = places[rng_below(&cluster->rng, count)];
	other = places[rng_below(&cluster->rng, count)];
	return cluster->peers[other].free_bytes > cluster->peers[one].free_bytes ? other
										 : one;
}

void taker_asked(struct node *node, uint32_t place, uint64_t bytes)
{
	struct peer *peer = &node->cluster.peers[place];

	peer->free_bytes -= MIN(bytes, peer->free_bytes);
}

/* What is smaller may fit all the same: one that does not would hold up all others. */
void taker_refused(struct node *node, uint32_t place, uint64_t bytes, int err)
{
	struct peer *peer = &node->cluster.peers[place];

	peer->free_bytes += bytes;
	if (err == ERR_NO_SPACE)
		peer->free_bytes = MIN(peer->free_bytes, bytes - 1);
}

/* So many keepers as are wanted there cannot be without a node that is to go. */
static bool swapout_lowers(const struct node *node, const struct held *held)
{
	return node_is_drained(node) && held->wanted > peers_up(node);
}

/* Whom to offer it; PEER_LIMIT: nobody now. */
static uint32_t swapout_place(struct node *node, const struct held *held, uint64_t bytes)
{
	uint64_t skipped = held->durable ? peers_without_disk(node) : 0;
	uint32_t place = taker_choose(node, bytes, skipped);
	uint32_t first = (uint32_t)rng_below(&node->cluster.rng, PEER_LIMIT);

	if (place != PEER_LIMIT || !swapout_lowers(node, held))
		return place;
	/* Who keeps it already needs no room for it. */
	for (uint32_t i = 0; i < PEER_LIMIT; i++) {
		place = (first + i) % PEER_LIMIT;
		if (peer_is_up(&node->cluster.peers[place]) && !(skipped >> place & 1))
			return place;
	}
	return PEER_LIMIT;
}

bool swapout_needs_disk(const struct node *node, const struct held *held)
{
	return held->durable && !peers_any_beside(node, peers_without_disk(node));
}

/* The most that a peer would take. */
static uint64_t swapout_limit(const struct node *node)
{
	uint64_t limit = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];

		if (peer_is_up(peer))
			limit = MAX(limit, peer->free_bytes);
	}
	return limit;
}

/* ---- the end ------------------------------------------------------------- */

static void read_passed(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	(void)node, (void)ask, (void)err, (void)message, (void)size;
}

/* A report that is lost only delays the object's end. */
static void pass_reads(struct node *node, const struct swapout *swapout,
	const struct msg_kept *kept, uint32_t place)
{
	const struct msg_read_at msg = {
		.key = {swapout->key, swapout->key_size},
		.generation = swapout->held.generation,
	};
	const struct slot *there;
	uint32_t slot;

	if (!master_held_find(&node->master, &swapout->held, &slot) || slot == SLOT_NONE)
		return;
	there = &node->share->slots[slot];
	for (uint32_t left = there->readers_left;
		there->counted && left < kept->readers_left; left++)
		(void)ask_send(node, place,
			msg_read_at_encode(node->out, sizeof(node->out), &msg),
			read_passed);
}

static void held_announce(
	struct node *node, const struct held *held, struct msg_bytes key)
{
	const struct dir_id id = dir_id_of(&held->id);

	errand_announce(node, &id, key, held->generation);
}

static void swapout_announce(struct node *node, const struct swapout *swapout)
{
	held_announce(node, &swapout->held,
		(struct msg_bytes){swapout->key, swapout->key_size});
}

/* The same would be said of it again, and all others would wait behind it. Where there was no
 * answer, asking again may bring that. */
static bool is_of_the_object(int err)
{
	return err != ERR_NO_SPACE && err != ERR_TOO_MANY && err != ERR_UNAVAILABLE &&
	       err != ERR_TIMEOUT;
}

static void swapout_failed(
	struct node *node, const struct swapout *swapout, uint32_t place, int err)
{
	struct cluster *cluster = &node->cluster;
	struct peer *peer = &cluster->peers[place];
	uint64_t bytes = node->master.hand.under_way[swapout - cluster->swapouts].bytes;

	if (is_of_the_object(err))
		master_hand_refused(&node->master, &swapout->held, node_now(node));
	if (swapout->doubted)
		swapout_announce(node, swapout);
	/* It has no room; or others to take over first, or keeps this one beside this node; or it
	 * can keep nothing durable. */
	if (err == ERR_NO_SPACE || err == ERR_TOO_MANY || err == ERR_EXISTS ||
		err == ERR_NOT_SUPPORTED) {
		taker_refused(node, place, bytes, err);
		peer->no_disk |= err == ERR_NOT_SUPPORTED;
		cluster->stats.swapouts_refused++;
		if (err != ERR_NO_SPACE || swapout->fewer)
			cluster->swapout_retry_ns = node_now(node) + SWAPOUT_PAUSE_NS;
		if (err == ERR_EXISTS && !swapout->doubted)
			swapout_announce(node, swapout);
		return;
	}
	cluster->stats.swapouts_failed++;
	cluster->swapout_retry_ns = node_now(node) + CLUSTER_RETRY;
	/* That it is back, or gone, is a reason to announce all. */
	if (err != ERR_UNAVAILABLE && !swapout->doubted)
		swapout_announce(node, swapout);
}

static bool swapout_is_handed(int err)
{
	if (PLANTED(KEPT_ROLE))
		return false;
	return err == 0 || (PLANTED(BELIEVED_SILENCE) && err == ERR_UNAVAILABLE);
}

static void swapout_answered(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct swapout *swapout = ask->owner;
	struct msg_kept msg = {.generation = 0};

	CHECK(swapout->busy);
	err = kept_read(err, message, size, swapout->held.generation, &msg);
	if (err == 0)
		pass_reads(node, swapout, &msg, ask->peer);
	else
		swapout_failed(node, swapout, ask->peer, err);
	/* That may have come to the directory after the peer had the role. */
	if (err == 0 && swapout->announced)
		swapout_announce(node, swapout);
	if (err == 0)
		speed_note(&node->cluster.swapout_speed, swapout->held.size,
			node_now(node) - ask->sent_ns);
	swapout->busy = false;
	master_hand_done(&node->master, (uint32_t)(swapout - node->cluster.swapouts),
		&swapout->held, swapout_is_handed(err), node_now(node));
}

/* ---- begin --------------------------------------------------------------- */

/* False: too many asks are under way. */
static bool swapout_ask(struct node *node, struct swapout *swapout, uint32_t place)
{
	const struct msg_keep msg = {
		.key = {swapout->key, swapout->key_size},
		.generation = swapout->held.generation,
		.size = swapout->held.size,
		.from = node->cluster.id,
		.durable = swapout->held.durable,
		.fewer = swapout->fewer,
		.timeout_ns = SWAPOUT_WAIT_NS,
	};
	struct ask *ask = ask_send(node, place,
		msg_keep_encode(node->out, sizeof(node->out), &msg), swapout_answered);

	if (ask == NULL)
		return false;
	ask->owner = swapout;
	return true;
}

/* As number `number` of the core's. */
static bool swapout_begin(
	struct node *node, uint32_t number, const struct held *held, struct msg_bytes key)
{
	struct cluster *cluster = &node->cluster;
	struct swapout *swapout = &cluster->swapouts[number];
	uint64_t bytes = node->master.hand.under_way[number].bytes;
	uint32_t place = swapout_place(node, held, bytes);

	CHECK(!swapout->busy && key.size <= KEY_LIMIT);
	swapout->doubted = swapout->announced = false;
	swapout->fewer = swapout_lowers(node, held);
	swapout->held = *held;
	swapout->key_size = (uint32_t)key.size;
	memcpy(swapout->key, key.data, key.size);
	swapout->busy = place != PEER_LIMIT && swapout_ask(node, swapout, place);
	if (!swapout->busy) {
		cluster->swapout_retry_ns = node_now(node) + CLUSTER_RETRY;
		master_hand_done(
			&node->master, number, &swapout->held, false, node_now(node));
		return false;
	}
	if (PLANTED(FREED_EARLY))
		master_held_yield(&node->master, held, node_now(node));
	taker_asked(node, place, bytes);
	return true;
}

/* What is in the slot. */
static bool swapout_begin_slot(struct node *node, uint32_t number, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	struct held held;

	master_held_at(&node->master, slot, &held);
	return swapout_begin(node, number, &held,
		(struct msg_bytes){slot_key(node->share, there), there->klen});
}

bool swapout_is_free(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;
	bool any = false;

	for (uint32_t i = 0; i < HAND_LIMIT; i++)
		any |= !cluster->swapouts[i].busy;
	return any && node_now(node) >= cluster->swapout_retry_ns &&
	       !node_is_leaving(node);
}

bool swapouts_under_way(const struct node *node)
{
	for (uint32_t i = 0; i < HAND_LIMIT; i++) {
		if (node->cluster.swapouts[i].busy)
			return true;
	}
	return false;
}

/* Its number; HAND_LIMIT: it is not. */
static uint32_t swapout_find(const struct node *node, const struct held *held)
{
	uint32_t i = 0;

	for (; i < HAND_LIMIT; i++) {
		const struct swapout *swapout = &node->cluster.swapouts[i];

		if (swapout->busy && swapout->held.hash == held->hash &&
			swapout->held.generation == held->generation)
			break;
	}
	return i;
}

bool swapout_has(const struct node *node, const struct held *held)
{
	return swapout_find(node, held) != HAND_LIMIT;
}

bool swapout_doubt(struct node *node, const struct held *held)
{
	uint32_t number = swapout_find(node, held);

	if (number == HAND_LIMIT)
		return false;
	node->cluster.swapouts[number].doubted = true;
	return true;
}

void swapout_overtaken(struct node *node, const struct query *query)
{
	const struct held *held = &query->held;
	uint32_t number = swapout_find(node, held);
	const struct slot *there;
	uint32_t slot;

	if (number != HAND_LIMIT) {
		node->cluster.swapouts[number].announced = true;
		return;
	}
	if (!master_held_find(&node->master, held, &slot) || slot == SLOT_NONE)
		return;
	there = &node->share->slots[slot];
	if ((there->flags & SLOT_SECONDARY) != 0)
		held_announce(node, held,
			(struct msg_bytes){slot_key(node->share, there), there->klen});
}

bool swapout_offer(struct node *node, const struct held *held, uint32_t slot,
	struct msg_bytes key, uint64_t bytes)
{
	uint32_t number;

	if (!swapout_is_free(node) || swapout_place(node, held, bytes) == PEER_LIMIT)
		return false;
	number = master_hand_take(&node->master, slot, bytes);
	return number != HAND_LIMIT && swapout_begin(node, number, held, key);
}

/* By what both have cost lately; until both are known the disk, which asks nothing of others. */
static bool peers_are_first(const struct node *node)
{
	uint64_t disk = node->tier.save_speed, peers = node->cluster.swapout_speed;

	switch ((enum swapout_first)node->config.swapout_first) {
	case SWAPOUT_FIRST_DISK:
		return false;
	case SWAPOUT_FIRST_PEER:
		return true;
	case SWAPOUT_FIRST_AUTO:
		break;
	}
	if (peers == 0)
		peers = node->cluster.fetch_speed;
	return disk > 0 && peers > disk;
}

void swapouts_step(struct node *node, uint64_t now)
{
	uint32_t number, slot;

	master_hand_first(&node->master, peers_are_first(node));

	do {
		uint64_t limit = node_is_leaving(node) ? 0 : swapout_limit(node);
		bool now_too = now >= node->cluster.swapout_retry_ns;

		master_hand_expect(&node->master, limit > 0);
		master_hand_allow(&node->master, now_too ? limit : 0, peers_up(node));
	} while (master_hand_next(&node->master, now, &number, &slot) &&
		 swapout_begin_slot(node, number, slot));
}

uint64_t swapouts_next(const struct node *node)
{
	uint64_t retry_ns = node->cluster.swapout_retry_ns;

	/* Else an answer or a beat is what it waits for. */
	return retry_ns > node_now(node) ? retry_ns : UINT64_MAX;
}

const char *swapouts_check(const struct node *node)
{
	for (uint32_t i = 0; i < HAND_LIMIT; i++) {
		if (node->cluster.swapouts[i].busy !=
			(node->master.hand.under_way[i].bytes > 0))
			return "what is being handed over is not what the core knows of";
	}
	return NULL;
}
