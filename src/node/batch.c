/*
 * batch.c - several requests in one message, answered by one.
 *
 *   begin (read the count, make room for the answers) -> start each item in order
 *   -> items answer, at once or later -> the last one's answer ends the batch
 *
 * The answers lie in a buffer in the order in which they came, and are put in the order
 * of the requests at the end. Each item that has not answered yet keeps REPLY_SIZE_MIN
 * bytes of the buffer, so that a long answer never takes the room of a short one behind
 * it.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The largest answer of a request that changes something: PUT_STARTED. */
#define REPLY_SIZE_MIN 28u
_Static_assert(
	BATCH_LIMIT *REPLY_SIZE_MIN <= MSG_SIZE_MAX / 8 * 7, "room for longer ones");

enum batch_state {
	BATCH_START,
	BATCH_ITEMS
};

bool batch_is_starting(const struct op *op)
{
	return op->parent != NULL && op->parent->state == BATCH_START;
}

/* How many messages there are. False: something is wrong with one. */
static bool batch_count(struct msg_bytes requests, uint32_t *ret_count)
{
	struct msg_bytes message;
	uint32_t count = 0;
	int got;

	while ((got = msg_unpack(&requests, &message)) == 1)
		count++;
	*ret_count = count;
	return got == 0;
}

/* 0, or it has answered. */
static int batch_begin(struct node *node, struct op *op, struct msg_bytes *ret_requests)
{
	struct batch *batch = &op->batch;
	struct msg_batch msg;
	uint32_t count;

	if (msg_batch_decode(op->message, op->message_size, &msg) != 0 ||
		!batch_count(msg.requests, &count) || count != msg.count || count == 0) {
		op_error(node, op, ERR_PROTOCOL,
			"a batch whose requests are broken or not as many as it says");
		return ERR_PROTOCOL;
	}
	if (count > BATCH_LIMIT) {
		op_error(node, op, ERR_TOO_MANY,
			"a batch of %" PRIu32 " requests; the limit is %u", count,
			BATCH_LIMIT);
		return ERR_TOO_MANY;
	}
	batch->replies = malloc(count * sizeof(batch->replies[0]) + MSG_SIZE_MAX);
	if (batch->replies == NULL) {
		op_error(node, op, ERR_NO_MEMORY,
			"no memory for the answers of a batch of %" PRIu32, count);
		return ERR_NO_MEMORY;
	}
	memset(batch->replies, 0, count * sizeof(batch->replies[0]));
	batch->bytes = (unsigned char *)(batch->replies + count);
	batch->count = batch->left = count;
	batch->used = 0;
	*ret_requests = msg.requests;
	return 0;
}

static void batch_refuse_item(
	struct node *node, struct op *op, uint32_t item, int code, const char *text)
{
	struct msg_error msg = {.code = code, .text = {text, strlen(text)}};
	size_t size = msg_error_encode(node->out, sizeof(node->out), &msg);

	batch_add_reply(node, op, item, node->out, size);
}

static void batch_start_item(
	struct node *node, struct op *op, uint32_t item, struct msg_bytes message)
{
	const struct service *service;
	enum msg_type type;
	struct op *started;

	service = msg_type(message.data, message.size, &type) == 0 ? service_find(type)
								   : NULL;
	if (service == NULL || !(service->flags & SERVICE_ITEM)) {
		batch_refuse_item(node, op, item, ERR_PROTOCOL,
			"this type of message may not be in a batch");
		return;
	}
	started = op_new(node, op->lane, service, message.data, message.size);
	if (started == NULL) {
		batch_refuse_item(node, op, item, ERR_TOO_MANY,
			"all operations of the daemon are in use (--max-ops)");
		return;
	}
	started->parent = op;
	started->item = item;
	list_add_tail(&op->batch.ops, &started->owner_entry);
	op_run(node, started);
}

/* All have answered. Answers that came in the order of their requests lie as they are to be
 * sent, and are mostly one piece. */
static void batch_finish(struct node *node, struct op *op)
{
	const struct batch *batch = &op->batch;
	struct msg_pack pack;

	msg_pack_init(&pack, node->out, sizeof(node->out));
	for (uint32_t i = 0; i < batch->count;) {
		const struct batch_reply *first = &batch->replies[i];
		uint32_t size = 0, count = 0;

		for (; i < batch->count && batch->replies[i].off == first->off + size;
			i++, count++)
			size += batch->replies[i].size;
		memcpy(msg_pack_tail(&pack), batch->bytes + first->off, size);
		msg_pack_add_all(&pack, size, count);
	}
	op_reply(node, op, msg_pack_finish(&pack, MSG_TYPE_BATCH_DONE));
}

void batch_run(struct node *node, struct op *op)
{
	struct msg_bytes requests, message;
	uint32_t count;

	if (op->state == BATCH_START) {
		if (batch_begin(node, op, &requests) != 0)
			return;
		node->stats.batches++;
		/* The last answer must not end the batch while it is being started. */
		count = op->batch.count;
		op->batch.left++;
		for (uint32_t i = 0; i < count && msg_unpack(&requests, &message) == 1;
			i++)
			batch_start_item(node, op, i, message);
		op->batch.left--;
		op->state = BATCH_ITEMS;
	}
	if (op->batch.left == 0)
		batch_finish(node, op);
}

void batch_cancel(struct node *node, struct op *op)
{
	struct batch *batch = &op->batch;

	list_for_each_safe (at, &batch->ops)
		op_cancel(node, container_of(at, struct op, owner_entry));
	for (uint32_t i = 0; batch->replies != NULL && i < batch->count; i++) {
		const struct batch_reply *reply = &batch->replies[i];

		if (reply->size > 0)
			reply_undo(
				node, op->lane, batch->bytes + reply->off, reply->size);
	}
}

/* What can be said in `room` bytes instead of an answer that is too long for it. */
static size_t batch_shorten(void *out, size_t room, const void *reply, size_t size)
{
	struct msg_error msg;

	if (msg_error_decode(reply, size, &msg) != 0) {
		msg.code = ERR_TOO_LARGE;
		msg.text = (struct msg_bytes){"the batch's answer is full", 26};
	}
	msg.text.size = MIN(msg.text.size, room - MSG_HEADER_SIZE - 6);
	return msg_error_encode(out, room, &msg);
}

size_t batch_reply_room(const struct batch *batch)
{
	return MSG_SIZE_MAX - MSG_HEADER_SIZE - 4 - batch->used -
	       (size_t)(batch->left - 1) * REPLY_SIZE_MIN;
}

void batch_add_reply(
	struct node *node, struct op *op, uint32_t item, const void *reply, size_t size)
{
	struct batch *batch = &op->batch;
	size_t room = batch_reply_room(batch);
	unsigned char *to = batch->bytes + batch->used;

	if (size <= room) {
		memcpy(to, reply, size);
	} else {
		reply_undo(node, op->lane, reply, size);
		size = batch_shorten(to, room, reply, size);
	}
	CHECK(size > 0 && batch->left > 0);
	batch->replies[item] = (struct batch_reply){
		.off = (uint32_t)batch->used, .size = (uint32_t)size};
	batch->used += size;
	batch->left--;
	if (batch->left == 0)
		op_wake(node, op);
}
