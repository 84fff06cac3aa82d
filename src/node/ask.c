/*
 * ask.c - requests to other nodes: each ends once, with an answer or with why there is none.
 *
 * Its channel is its place among all asks, and a serial number above it, so that an answer
 * that comes when nobody waits any more is known. It has no deadline of its own: who waits
 * has one, and a peer that is silent for SUSPECT_NS ends all that was asked of it.
 */
#include "node/node_priv.h"

#include "base/check.h"

#define ASK_PLACE_BITS 16

_Static_assert(ASK_LIMIT <= 1u << ASK_PLACE_BITS, "a channel names every place");

static uint32_t ask_channel(const struct node *node, const struct ask *ask)
{
	return (uint32_t)(ask - node->cluster.asks) | ask->serial << ASK_PLACE_BITS;
}

static struct ask *ask_of_channel(
	const struct node *node, uint32_t peer, uint32_t channel)
{
	uint32_t place = channel & ((1u << ASK_PLACE_BITS) - 1);
	struct ask *ask;

	if (place >= ASK_LIMIT)
		return NULL;
	ask = &node->cluster.asks[place];
	if (ask->done == NULL || ask->peer != peer || ask_channel(node, ask) != channel)
		return NULL;
	return ask;
}

static void ask_free(struct node *node, struct ask *ask)
{
	ask->done = NULL;
	ask->op = NULL;
	ask->owner = NULL;
	list_del(&ask->op_entry);
	list_move_tail(&node->cluster.free_asks, &ask->entry);
	node->cluster.asks_used--;
}

static void ask_end(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct ask was = *ask;

	list_init(&was.op_entry); /* what `done` sees is on no list any more */
	list_init(&was.entry);
	ask_free(node, ask);
	node->cluster.stats.asks_failed += err != 0;
	was.done(node, &was, err, message, size);
}

struct ask *ask_send(struct node *node, uint32_t place, size_t size, ask_done_fn done)
{
	struct cluster *cluster = &node->cluster;
	struct list *entry = list_first(&cluster->free_asks);
	struct peer *peer = &cluster->peers[place];
	struct ask *ask;

	if (entry == NULL)
		return NULL;
	CHECK(size > 0);
	ask = container_of(entry, struct ask, entry);
	ask->peer = place;
	ask->serial = (ask->serial + 1) & 0xffff;
	ask->done = done;
	ask->sent_ns = node_now(node);
	list_move_tail(&peer->asks, &ask->entry);
	cluster->asks_used++;
	cluster->stats.asked++;
	if (peer->state == PEER_UP || peer->state == PEER_GREETING)
		node->env.peer.send(node->env.peer.ctx, place, ask_channel(node, ask),
			node->out, size);
	else
		cluster->asks_hopeless = true;
	return ask;
}

struct ask *ask_send_for(
	struct node *node, struct op *op, uint32_t place, size_t size, ask_done_fn done)
{
	struct ask *ask = ask_send(node, place, size, done);

	if (ask == NULL)
		return NULL;
	ask->op = op;
	list_add_tail(&op->asks, &ask->op_entry);
	return ask;
}

void ask_forget(struct node *node, struct ask *ask)
{
	ask_free(node, ask);
}

void asks_forget_all(struct node *node, struct op *op)
{
	list_for_each_safe (at, &op->asks)
		ask_free(node, container_of(at, struct ask, op_entry));
}

void asks_fail(struct node *node, uint32_t place, int err)
{
	struct peer *peer = &node->cluster.peers[place];
	struct list *first;

	/* From the start each time: an end may forget or send others. Those that are sent
	 * meanwhile come behind, and fail alike. */
	while ((first = list_first(&peer->asks)) != NULL)
		ask_end(node, container_of(first, struct ask, entry), err, NULL, 0);
}

void asks_step(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	if (!cluster->asks_hopeless)
		return;
	cluster->asks_hopeless = false;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		enum peer_state state = cluster->peers[place].state;

		if (state != PEER_UP && state != PEER_GREETING)
			asks_fail(node, place, ERR_UNAVAILABLE);
	}
}

void node_on_peer_answer(struct node *node, uint32_t place, uint32_t channel,
	const void *message, size_t size)
{
	struct ask *ask;

	node_tick(node);
	if (place >= PEER_LIMIT)
		return;
	ask = ask_of_channel(node, place, channel);
	if (ask == NULL)
		return; /* nobody waits for it any more */
	/* Before it is greeted it may be another, with the address of one that is gone. */
	if (peer_is_up(&node->cluster.peers[place]))
		peer_heard(node, place);
	ask_end(node, ask, 0, message, size);
}

int ask_error_of(int err, const void *message, size_t size)
{
	struct msg_error msg;
	enum msg_type type;

	if (err != 0)
		return err;
	if (msg_type(message, size, &type) != 0)
		return ERR_PROTOCOL;
	if (type != MSG_TYPE_ERROR)
		return 0;
	if (msg_error_decode(message, size, &msg) != 0 || msg.code >= 0)
		return ERR_PROTOCOL;
	return msg.code;
}
