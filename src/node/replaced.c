/*
 * replaced.c - nodes that are gone for good: another one is where they were.
 *
 * A node is known by an id that lies with what it keeps, on its disk or in its pool. A host
 * without a disk that was started anew has neither, and is another node with the same
 * endpoint. Two cannot be reached there: the old one is gone, and so is all that it had.
 *
 *   gone --another is up at its endpoint, or a peer says so--> replaced, told to all peers
 *     ^--- it is up itself, or was given another endpoint ------'
 *
 * Before that it is gone, and may come back with what it keeps; after it, what it alone kept
 * is lost. The node that stands in its place hears of it from those who knew it.
 *
 * Of one that is gone, but not replaced, others take over what it kept. Back already when such a
 * step takes effect, it may have announced what it keeps before, and heard of nobody else: it is
 * overtaken, is told that it was gone itself, and announces all once more. So does who gives an
 * object away and is answered before the step is done.
 *
 *   overtaken --it is up: REPLACED, of itself--> told --a later beat is answered--> it has heard
 *        ^------------- it is up once more --------'
 */
#include "node/node_priv.h"

#include <inttypes.h>
#include <string.h>

static void replaced_send(struct node *node, uint32_t place, uint64_t id)
{
	const struct msg_replaced msg = {.node = id};

	node->env.peer.send(node->env.peer.ctx, place, UINT32_MAX, node->out,
		msg_replaced_encode(node->out, sizeof(node->out), &msg));
}

void replaced_tell(struct node *node, uint32_t place)
{
	for (uint32_t other = 0; other < PEER_LIMIT; other++) {
		const struct peer *peer = &node->cluster.peers[other];

		if (peer->state != PEER_FREE && peer->replaced)
			replaced_send(node, place, peer->id);
	}
}

static void peer_is_replaced(struct node *node, struct peer *peer)
{
	peer->replaced = true;
	log_line(node->config.log, LOG_LEVEL_WARNING, "peer_replaced",
		"node=%016" PRIx64
		" endpoint=%s msg=\"another node is there; what this one alone kept is "
		"lost\"",
		peer->id, peer->endpoint);
	cluster_changed(node);
}

/* ---- what it is told itself ------------------------------------------------ */

void overtaken_tell(struct node *node, uint32_t place)
{
	struct peer *peer = &node->cluster.peers[place];

	if (!peer->overtaken || !peer_is_up(peer))
		return;
	replaced_send(node, place, peer->id);
	peer->told_ns = node_now(node);
}

void overtaken_heard(struct node *node, const struct ask *beat)
{
	struct peer *peer = &node->cluster.peers[beat->peer];

	if (peer->told_ns != 0 && beat->sent_ns > peer->told_ns)
		peer->overtaken = false;
}

void peer_is_overtaken(struct node *node, uint32_t place)
{
	struct peer *peer = &node->cluster.peers[place];

	peer->overtaken = true;
	peer->told_ns = 0;
	overtaken_tell(node, place);
}

/* ---- whether it is -------------------------------------------------------- */

static bool another_is_there(const struct node *node, const struct peer *peer)
{
	const struct cluster *cluster = &node->cluster;

	if (peer->endpoint[0] == '\0')
		return false;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *other = &cluster->peers[place];

		if (peer_is_up(other) && strcmp(other->endpoint, peer->endpoint) == 0)
			return true;
	}
	return strcmp(cluster->endpoint, peer->endpoint) == 0;
}

/* A member that has the endpoint of another is a mistake in somebody's settings, and lives. */
static bool is_no_member(const struct node *node, const struct peer *peer)
{
	return node_now(node) - peer->member_ns >= GONE_NS;
}

void peer_look_replaced(struct node *node, uint32_t place)
{
	struct peer *peer = &node->cluster.peers[place];

	if (peer->replaced || peer_is_live(node, peer) || !is_no_member(node, peer) ||
		!another_is_there(node, peer))
		return;
	peer_is_replaced(node, peer);
	for (uint32_t other = 0; other < PEER_LIMIT; other++) {
		if (peer_is_up(&node->cluster.peers[other]))
			replaced_send(node, other, peer->id);
	}
}

/* The place of the node, whether it was known before or not; PEER_LIMIT: none. */
static uint32_t replaced_place(struct node *node, uint64_t id)
{
	uint32_t place = peer_find(node, id);

	if (place != PEER_LIMIT || id == 0 || id == node->cluster.id)
		return place;
	return peer_note(node, id, 0);
}

void replaced_run(struct node *node, struct op *op)
{
	struct msg_replaced msg;
	uint32_t place = PEER_LIMIT;
	struct peer *peer;

	if (msg_replaced_decode(op->message, op->message_size, &msg) == 0) {
		place = replaced_place(node, msg.node);
		if (msg.node == node->cluster.id)
			announce_all(node); /* it was taken for gone */
	}
	if (place != PEER_LIMIT) {
		peer = &node->cluster.peers[place];
		if (!peer->replaced && !peer_is_live(node, peer))
			peer_is_replaced(node, peer);
	}
	op_done(node, op, 0);
}
