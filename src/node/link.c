/*
 * link.c - other nodes ask: each request is served as a client's is, on a lane of its own.
 *
 *   node_on_link -> stranger --PEER_HELLO--> a peer's --node_on_link_close--> gone
 *
 * The lane of a request lives from its arrival to its answer, and its channel is the
 * other side's. What a link has under way ends with it: a lease that was granted runs to its
 * end unless it is given back.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct link *link_find(struct node *node, struct link_id id)
{
	list_for_each (at, &node->cluster.links) {
		struct link *link = container_of(at, struct link, entry);

		if (link->id.value == id.value)
			return link;
	}
	return NULL;
}

/* ---- connections --------------------------------------------------------- */

static void link_close(struct node *node, struct link *link)
{
	if (link->closing)
		return;
	link->closing = true;
	node->env.peer.close_link(node->env.peer.ctx, link->id);
}

void node_on_link(struct node *node, struct link_id id, const char *address)
{
	struct link *link = calloc(1, sizeof(*link));

	node_tick(node);
	if (link == NULL) {
		node->env.peer.close_link(node->env.peer.ctx, id);
		return;
	}
	link->id = id;
	link->peer = PEER_LIMIT;
	list_init(&link->lanes);
	(void)snprintf(link->address, sizeof(link->address), "%s", address);
	list_add_tail(&node->cluster.links, &link->entry);
}

void node_on_link_close(struct node *node, struct link_id id)
{
	struct link *link = link_find(node, id);
	struct list *first;

	node_tick(node);
	if (link == NULL)
		return;
	link->closing = true;
	while ((first = list_first(&link->lanes)) != NULL) {
		struct lane *lane = container_of(first, struct lane, link_entry);

		/* With its request it is done. */
		lane_leave(node, lane, NULL);
		if (lane->link != NULL)
			link_lane_done(node, lane);
	}
	list_del(&link->entry);
	free(link);
}

/* ---- requests ------------------------------------------------------------ */

static struct lane *link_lane_new(struct node *node, struct link *link, uint32_t channel)
{
	struct list *entry = list_first(&node->free_lanes);
	struct lane *lane;

	if (entry == NULL)
		return NULL;
	list_del(entry);
	lane = container_of(entry, struct lane, entry);
	*lane = (struct lane){.link = link, .channel = channel};
	list_init(&lane->entry);
	list_init(&lane->client_entry);
	list_init(&lane->ops);
	list_init(&lane->pins);
	list_add_tail(&link->lanes, &lane->link_entry);
	node->cluster.lanes_used++;
	return lane;
}

void link_lane_done(struct node *node, struct lane *lane)
{
	lane_drop_pins(node, lane);
	list_del(&lane->link_entry);
	lane->link = NULL;
	list_add_head(&node->free_lanes, &lane->entry);
	node->cluster.lanes_used--;
}

static void link_refuse(struct node *node, struct link *link, uint32_t channel, int code,
	const char *text)
{
	struct msg_error msg = {.code = code, .text = {text, strlen(text)}};

	node->env.peer.answer(node->env.peer.ctx, link->id, channel, node->out,
		msg_error_encode(node->out, sizeof(node->out), &msg));
}

/* Who does not greet as it must is told so, once in the log, and nothing else. */
static void link_end(struct node *node, struct link *link, uint32_t channel, int code,
	const char *text)
{
	char quoted[512];

	node->cluster.stats.refused++;
	if (!link->told)
		log_line(node->config.log, LOG_LEVEL_WARNING, "peer_refused",
			"address=%s error=%s msg=\"%s\"", link->address, err_name(code),
			log_quote(quoted, sizeof(quoted), text));
	link->told = true;
	link_refuse(node, link, channel, code, text);
	link_close(node, link);
}

void node_on_link_message(struct node *node, struct link_id id, uint32_t channel,
	const void *message, size_t size)
{
	struct link *link = link_find(node, id);
	const struct service *service;
	struct lane *lane;
	enum msg_type type;
	bool known;

	node_tick(node);
	if (link == NULL || link->closing)
		return;
	known = msg_type(message, size, &type) == 0;
	service = known ? service_find(type) : NULL;
	if (link->peer == PEER_LIMIT && (!known || type != MSG_TYPE_PEER_HELLO)) {
		link_end(node, link, channel, ERR_PROTOCOL,
			"this connection has not said PEER_HELLO");
		return;
	}
	if (service == NULL || !(service->flags & SERVICE_PEER)) {
		link_refuse(node, link, channel, ERR_PROTOCOL,
			"no request of another node has this type");
		return;
	}
	if (link->peer != PEER_LIMIT)
		node->cluster.peers[link->peer].heard_ns = node_now(node);
	lane = link_lane_new(node, link, channel);
	if (lane == NULL) {
		link_refuse(node, link, channel, ERR_TOO_MANY,
			"this node has too many connections (--max-lanes)");
		return;
	}
	node->cluster.stats.asks_served++;
	serve_message(node, lane, service, message, size);
}

void link_answer(struct node *node, struct lane *lane, const void *message, size_t size)
{
	node->env.peer.answer(
		node->env.peer.ctx, lane->link->id, lane->channel, message, size);
}

/* ---- PEER_HELLO ---------------------------------------------------------- */

/* 0, or it has answered. */
static int hello_refuse(
	struct node *node, struct op *op, const struct msg_peer_hello *msg)
{
	struct cluster *cluster = &node->cluster;
	struct link *link = op->lane->link;
	char text[512];
	int err = 0;

	if (msg->version != WIRE_VERSION) {
		err = ERR_VERSION;
		(void)snprintf(text, sizeof(text),
			"the node speaks protocol %" PRIu32 ", this one %u", msg->version,
			WIRE_VERSION);
	} else if (msg->cluster.size != strlen(cluster->name) ||
		   memcmp(msg->cluster.data, cluster->name, msg->cluster.size) != 0) {
		err = ERR_NOT_PERMITTED;
		(void)snprintf(text, sizeof(text),
			"the node is of cluster \"%.*s\", this one of \"%s\" (--cluster)",
			(int)MIN(msg->cluster.size, 64u), (const char *)msg->cluster.data,
			cluster->name);
	} else if (leave_is_silent(node)) {
		err = ERR_UNAVAILABLE;
		(void)snprintf(text, sizeof(text), "this node ends");
	} else if (msg->node == 0 || msg->node == cluster->id) {
		err = ERR_NOT_PERMITTED;
		(void)snprintf(text, sizeof(text),
			"the node has the id %016" PRIx64
			", which is this one's: was its pool or disk copied?",
			msg->node);
	}
	if (err != 0) {
		link_end(node, link, op->lane->channel, err, text);
		op_cancel(node, op); /* it has been answered */
	}
	return err;
}

void peer_hello_run(struct node *node, struct op *op)
{
	const struct cluster *cluster = &node->cluster;
	struct msg_peer_welcome answer = {
		.version = WIRE_VERSION,
		.node = cluster->id,
		.incarnation = cluster->incarnation,
		.generation = node->master.last_generation,
	};
	char endpoint[DIR_ENDPOINT_MAX];
	struct msg_peer_hello msg;

	if (msg_peer_hello_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	if (hello_refuse(node, op, &msg) != 0)
		return;
	(void)snprintf(endpoint, sizeof(endpoint), "%.*s",
		(int)MIN(msg.endpoint.size, sizeof(endpoint) - 1),
		(const char *)msg.endpoint.data);
	op->lane->link->peer = peer_meet(node, msg.node, msg.incarnation, endpoint);
	if (op->lane->link->peer == PEER_LIMIT) {
		op_error(node, op, ERR_TOO_MANY,
			"this node knows %u others, which is the limit", PEER_LIMIT);
		return;
	}
	node->cluster.peers[op->lane->link->peer].left = false;
	peer_note_generation(node, op->lane->link->peer, msg.generation);
	/* It could not tell this node what it published meanwhile. */
	fetches_look_again(node);
	op_reply(
		node, op, msg_peer_welcome_encode(node->out, sizeof(node->out), &answer));
}

/* ---- BEAT, PUBLISHED ----------------------------------------------------- */

void beat_run(struct node *node, struct op *op)
{
	uint32_t place = op->lane->link->peer;
	uint8_t epochs[BEAT_EPOCHS_SIZE];
	struct msg_beaten answer;
	struct msg_beat msg;

	if (msg_beat_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	peer_take_beat(node, place, msg.free_bytes, msg.generation);
	peer_take_epochs(node, place, node_now(node), msg.epochs.data, msg.epochs.size);
	answer = (struct msg_beaten){
		.free_bytes = keep_credit(node),
		.generation = node->master.last_generation,
		.epochs = {epochs, epochs_pack(node, epochs)},
	};
	op_reply(node, op, msg_beaten_encode(node->out, sizeof(node->out), &answer));
}

void published_run(struct node *node, struct op *op)
{
	struct msg_published msg;
	struct dir_id id;

	if (msg_published_decode(op->message, op->message_size, &msg) == 0) {
		memcpy(&id, msg.id, sizeof(id));
		fetches_published(node, &id);
	}
	op_done(node, op, 0);
}
