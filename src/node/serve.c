/*
 * serve.c - from a message to the flow that serves it.
 *
 * What comes in is not trusted: a frame that is broken ends its lane, since nobody knows
 * what the other side believes; anything else that is wrong is answered, and the lane
 * goes on.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/hash.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void one_way_run(struct node *node, struct op *op);

/* By type, so that a batch need not search for each of its items. */
#define SERVICE(TYPE, flags, decode, run, cancel) \
	[MSG_TYPE_##TYPE] = {MSG_TYPE_##TYPE, flags, decode, run, cancel}

static const struct service services[] = {
	SERVICE(HELLO, SERVICE_STRANGER, hello_decode, hello_run, hello_cancel),
	SERVICE(BYE, 0, NULL, bye_run, NULL),
	SERVICE(PUT_START, SERVICE_ITEM | SERVICE_PUTS, put_start_decode, put_run,
		put_cancel),
	SERVICE(PUT, SERVICE_ITEM | SERVICE_PUTS, put_decode, put_run, put_cancel),
	SERVICE(PUT_END, SERVICE_ITEM | SERVICE_PUTS, put_end_decode, put_end_run,
		put_end_cancel),
	SERVICE(PUT_ABORT, SERVICE_ITEM | SERVICE_PUTS, put_abort_decode, put_abort_run,
		NULL),
	SERVICE(GET, SERVICE_ITEM, get_decode, get_run, get_cancel),
	SERVICE(LEASE, 0, lease_decode, get_run, get_cancel),
	SERVICE(LEASE_END, 0, NULL, lease_end_run, NULL),
	SERVICE(UNPIN, SERVICE_ONE_WAY, NULL, one_way_run, NULL),
	SERVICE(TELL, SERVICE_ONE_WAY, NULL, one_way_run, NULL),
	SERVICE(REMOVE, SERVICE_ITEM, remove_decode, remove_run, remove_cancel),
	SERVICE(TAKE, SERVICE_ITEM, take_decode, take_run, remove_cancel),
	SERVICE(READ, SERVICE_ITEM, read_decode, read_run, remove_cancel),
	SERVICE(STAT, SERVICE_ITEM, stat_decode, stat_run, stat_cancel),
	SERVICE(LIST, SERVICE_ITEM | SERVICE_PEER | SERVICE_LOCAL, NULL, list_run,
		list_cancel),
	SERVICE(INFO, SERVICE_ITEM, NULL, info_run, NULL),
	SERVICE(DRAIN, SERVICE_PUTS, NULL, drain_run, NULL),
	SERVICE(FAULT, SERVICE_ITEM | SERVICE_QUIET, NULL, fault_run, NULL),
	SERVICE(FAULT_STATUS, SERVICE_ITEM | SERVICE_QUIET, NULL, fault_status_run, NULL),
	SERVICE(BATCH, 0, NULL, batch_run, batch_cancel),
	SERVICE(REMOVE_PREFIX, 0, NULL, remove_prefix_run, remove_prefix_cancel),

	SERVICE(PEER_HELLO, SERVICE_PEER | SERVICE_QUIET, NULL, peer_hello_run, NULL),
	SERVICE(BEAT, SERVICE_PEER | SERVICE_QUIET, NULL, beat_run, NULL),
	SERVICE(PUBLISHED, SERVICE_PEER | SERVICE_ONE_WAY, NULL, published_run, NULL),
	SERVICE(REPLACED, SERVICE_PEER | SERVICE_ONE_WAY, NULL, replaced_run, NULL),
	SERVICE(LACKING, SERVICE_PEER | SERVICE_ONE_WAY, NULL, lacking_run, NULL),
	SERVICE(LEAVING, SERVICE_PEER | SERVICE_QUIET, NULL, leaving_run, NULL),
	SERVICE(REPLICA_ASK, SERVICE_PEER, replica_ask_decode, replica_run,
		replica_cancel),
	SERVICE(UNLEASE, SERVICE_PEER, NULL, unlease_run, NULL),
	SERVICE(HAVE, SERVICE_PEER, have_decode, have_run, NULL),
	SERVICE(DROP, SERVICE_PEER, drop_decode, drop_run, remove_cancel),
	SERVICE(DROP_PREFIX, SERVICE_PEER, NULL, remove_prefix_run, remove_prefix_cancel),
	SERVICE(KEEP, SERVICE_PEER, keep_decode, keep_run, keep_cancel),
	SERVICE(READ_AT, SERVICE_PEER, read_at_decode, read_at_run, remove_cancel),
};

const struct service *service_find(enum msg_type type)
{
	if (type >= ARRAY_LEN(services) || services[type].run == NULL)
		return NULL;
	return &services[type];
}

/* ---- what may be served -------------------------------------------------- */

static int service_permit(
	const struct node *node, const struct op *op, const char **ret_why)
{
	const struct client *client = op->lane->client;
	uint32_t flags = op->service->flags;

	if (op->lane->link != NULL)
		return 0; /* link.c has seen to it */
	if ((flags & (SERVICE_PEER | SERVICE_LOCAL)) == SERVICE_PEER) {
		*ret_why = "only other nodes ask that";
		return ERR_NOT_PERMITTED;
	}
	if (client == NULL && !(flags & SERVICE_STRANGER)) {
		*ret_why = "this connection has not said HELLO";
		return ERR_PROTOCOL;
	}
	if (client != NULL && op->service->type == MSG_TYPE_HELLO) {
		*ret_why = "this connection has said HELLO already";
		return ERR_PROTOCOL;
	}
	if (client != NULL && (flags & SERVICE_PUTS) &&
		node->share->clients[client->cid].read_only) {
		*ret_why = "this client attached read-only and may not put";
		return ERR_NOT_PERMITTED;
	}
	return 0;
}

bool service_begin(struct node *node, struct op *op)
{
	const char *why = "";
	int err = service_permit(node, op, &why);

	if (err == 0 && op->service->decode != NULL) {
		err = op->service->decode(op);
		why = err == ERR_BAD_KEY
			      ? "the key is empty, longer than 1024 bytes, or has a NUL"
			      : "its fields are not those of its type";
	}
	if (err == 0 && op->key.data != NULL) {
		op->key.hash = hash_key(
			op->key.data, op->key.size, node->share->header->hash_seed);
		if (node->cluster.there)
			op->id = dir_id_of_key(op->key.data, op->key.size);
	}
	if (err != 0)
		op_error(node, op, err, "%s: %s", msg_name(op->service->type), why);
	return err == 0;
}

/* ---- one-way messages ---------------------------------------------------- */

/* Neither carries authority: a wrong one does nothing. */
static void one_way_apply(
	struct node *node, struct lane *lane, const void *message, size_t size)
{
	struct msg_unpin unpin;
	struct msg_tell tell;

	node->stats.one_way++;
	if (lane->client == NULL)
		return;
	if (msg_unpin_decode(message, size, &unpin) == 0)
		lane_unpin(node, lane, unpin.slot, unpin.life);
	else if (msg_tell_decode(message, size, &tell) == 0 &&
		 tell.slot < node_slots(node))
		master_tell(&node->master, tell.slot, node_now(node));
}

static void one_way_run(struct node *node, struct op *op)
{
	one_way_apply(node, op->lane, op->message, op->message_size);
	op_done(node, op, 0);
}

/* ---- arrival ------------------------------------------------------------- */

/* A whole message of some type, known or not. */
static bool frame_is_whole(const void *message, size_t size, uint16_t *ret_type)
{
	uint32_t body;

	if (size < MSG_HEADER_SIZE || size > MSG_SIZE_MAX)
		return false;
	memcpy(ret_type, message, 2);
	memcpy(&body, (const unsigned char *)message + 4, 4);
	*ret_type = le16toh(*ret_type);
	return le32toh(body) == size - MSG_HEADER_SIZE;
}

static void serve_unknown(struct node *node, struct lane *lane, uint16_t type)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "no request has the type %u", type);
	lane_error(node, lane, ERR_PROTOCOL, text);
}

void serve_message(struct node *node, struct lane *lane, const struct service *service,
	const void *message, size_t size)
{
	bool one_way = service->flags & SERVICE_ONE_WAY;
	struct op *op;

	if (!one_way && lane->request != NULL) {
		lane_error(node, lane, ERR_PROTOCOL,
			"a second request on this connection before the first was "
			"answered");
		return;
	}
	op = op_new(node, lane, service, message, size);
	if (op == NULL && one_way)
		one_way_apply(node, lane, message, size);
	if (op == NULL && !one_way) {
		char text[96];

		(void)snprintf(text, sizeof(text),
			"all %" PRIu64 " operations of the daemon are in use (--max-ops)",
			node->config.max_ops);
		lane_error(node, lane, ERR_TOO_MANY, text);
	}
	if (op == NULL) {
		if (lane->link != NULL)
			link_lane_done(node, lane);
		return;
	}
	list_add_tail(&lane->ops, &op->owner_entry);
	if (!one_way)
		lane->request = op;
	node->arriving = op;
	op_run(node, op);
	if (node->arriving == op)
		op_keep(node, op);
	node->arriving = node->running = NULL;
}

void node_on_message(
	struct node *node, struct lane_id id, const void *message, size_t size)
{
	struct lane *lane = lane_find(node, id);
	const struct service *service;
	enum msg_type known;
	uint16_t type;

	if (lane == NULL || lane->closing)
		return;
	node_tick(node);
	node->stats.messages++;
	if (lane->client != NULL)
		lane->client->heard = true;
	if (!frame_is_whole(message, size, &type)) {
		log_line(node->config.log, LOG_LEVEL_WARNING, "broken_frame",
			"uid=%" PRIu32 " size=%zu", lane->uid, size);
		lane_error(node, lane, ERR_PROTOCOL,
			"the length of the message is not the one it says");
		lane_close(node, lane);
		return;
	}
	service = msg_type(message, size, &known) == 0 ? service_find(known) : NULL;
	if (service == NULL)
		serve_unknown(node, lane, type);
	else
		serve_message(node, lane, service, message, size);
}

/* ---- answers that were not sent ------------------------------------------ */

static void reply_undo_put(
	struct node *node, struct lane *lane, const void *reply, size_t size)
{
	struct msg_put_started msg;
	uint64_t hash;

	if (msg_put_started_decode(reply, size, &msg) != 0 || lane->client == NULL)
		return;
	hash = node->share->slots[msg.slot].hash;
	if (master_put_abort(&node->master, msg.slot, msg.life,
		    client_ref_of(node, lane->client)) == 0)
		waiters_wake(node, hash);
}

static void reply_undo_found(
	struct node *node, struct lane *lane, const void *reply, size_t size)
{
	struct msg_found msg;

	if (msg_found_decode(reply, size, &msg) == 0)
		lane_unpin(node, lane, msg.slot, msg.life);
}

static void reply_undo_replica(struct node *node, const void *reply, size_t size)
{
	struct msg_replica msg;

	if (msg_replica_decode(reply, size, &msg) == 0 && msg.length_ns != 0)
		replica_undo(node, &msg);
}

static void reply_undo_leased(struct node *node, const void *reply, size_t size)
{
	struct lease_token token;
	struct msg_leased msg;

	if (msg_leased_decode(reply, size, &msg) != 0)
		return;
	token = (struct lease_token){
		.epoch = msg.epoch,
		.life = msg.life,
		.slot = msg.slot,
		.grant = msg.grant,
	};
	(void)master_lease_release(&node->master, &token, node_now(node));
}

void reply_undo(struct node *node, struct lane *lane, const void *reply, size_t size)
{
	struct msg_bytes message;
	struct msg_batch_done done;

	if (msg_batch_done_decode(reply, size, &done) != 0) {
		reply_undo_put(node, lane, reply, size);
		reply_undo_found(node, lane, reply, size);
		reply_undo_leased(node, reply, size);
		reply_undo_replica(node, reply, size);
		return;
	}
	while (msg_unpack(&done.replies, &message) == 1) {
		reply_undo_put(node, lane, message.data, message.size);
		reply_undo_found(node, lane, message.data, message.size);
	}
}
