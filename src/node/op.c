/*
 * op.c - the life of one message being served: arrival, waits, answer, end.
 *
 * Whatever an op may be waiting for is taken off it in op_free(), so that a late event
 * finds nobody. A fault that delays parks the op at its gate; the answer itself is one
 * such place, for which the finished message is kept.
 */
#include "node/node_priv.h"

#include "base/bytes.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- begin and end ------------------------------------------------------- */

struct op *op_new(struct node *node, struct lane *lane, const struct service *service,
	const void *message, size_t size)
{
	struct list *entry = list_first(&node->free_ops);
	struct op *op;

	if (entry == NULL)
		return NULL;
	list_del(entry);
	node->ops_used++;
	op = container_of(entry, struct op, entry);
	bytes_zero(&op->lane, sizeof(*op) - offsetof(struct op, lane));
	op->lane = lane;
	op->service = service;
	op->stage = OP_ARRIVED;
	op->message = message;
	op->message_size = size;
	op->slot = SLOT_NONE;
	op->deadline = UINT64_MAX;
	return op;
}

/* Memory that hardly any op has. */
static void op_free_memory(struct op *op)
{
	if (op->kept == NULL && op->own_key == NULL && op->reply == NULL &&
		op->batch.replies == NULL)
		return;
	free(op->kept);
	free(op->own_key);
	free(op->reply);
	free(op->batch.replies);
	op->kept = op->own_key = op->reply = op->batch.replies = NULL;
}

static void op_free(struct node *node, struct op *op)
{
	struct lane *lane = op->lane;

	CHECK(op->stage != OP_FREE && op->ticket.state == TICKET_IDLE);

	CHECK(op->load == NULL && op->job == NULL && op->fetch == NULL);
	CHECK(op->query == NULL && list_is_empty(&op->asks));
	CHECK(list_is_empty(&op->batch.ops));
	op_clear_deadline(node, op);
	list_del(&op->entry);
	list_del(&op->owner_entry);
	list_del(&op->wait_entry);
	list_del(&op->id_entry);
	if (op->lane != NULL && op->lane->request == op)
		op->lane->request = NULL;
	if (node->arriving == op)
		node->arriving = NULL;
	op_free_memory(op);
	op->stage = OP_FREE;
	list_add_head(&node->free_ops, &op->entry);
	node->ops_used--;
	if (lane->link != NULL && op->parent == NULL)
		link_lane_done(node, lane);
}

/* Give back what the flow has and waits for. */
static void op_drop(struct node *node, struct op *op)
{
	if (op->stage == OP_REPLYING)
		reply_undo(node, op->lane, op->reply, op->reply_size);
	else if (op->stage == OP_RUNNING && op->service->cancel != NULL)
		op->service->cancel(node, op);
}

void op_cancel(struct node *node, struct op *op)
{
	op_drop(node, op);
	op_free(node, op);
}

/* ---- run ----------------------------------------------------------------- */

static void op_send(struct node *node, struct op *op, const void *reply, size_t size);

/* Those of every message: its arrival and its answer. */
static bool op_passes_gates(const struct op *op)
{
	return op->parent == NULL && !(op->service->flags & SERVICE_QUIET);
}

void op_run(struct node *node, struct op *op)
{
	node->running = op;
	switch (op->stage) {
	case OP_ARRIVED:
		if (op_passes_gates(op) && !op_gate(node, op, FAULT_NODE_ON_MESSAGE))
			return;
		op->stage = OP_RUNNING;
		if (!service_begin(node, op))
			return;
		op->service->run(node, op);
		return;
	case OP_RUNNING:
		op->service->run(node, op);
		return;
	case OP_REPLYING:
		op_send(node, op, op->reply, op->reply_size);
		return;
	case OP_FREE:
		break;
	}
	NOT_REACHED("a free op runs");
}

void op_wake(struct node *node, struct op *op)
{
	if (list_is_empty(&op->entry))
		list_add_tail(&node->ready, &op->entry);
}

void op_on_timer(struct node *node, struct op *op)
{
	if (op->asleep) {
		op->asleep = false;
		op->slept = true;
	}
	op_wake(node, op);
}

void op_set_deadline(struct node *node, struct op *op)
{
	if (op->deadline != UINT64_MAX)
		heap_set(&node->timers, timer_of_op(node, op), op->deadline);
}

void op_clear_deadline(struct node *node, struct op *op)
{
	uint32_t timer = timer_of_op(node, op);

	if (heap_has(&node->timers, timer))
		heap_remove(&node->timers, timer);
}

/* What points into the message follows it into its copy. */
static void op_rebase(struct op *op, const void *from, const unsigned char *to)
{
	const unsigned char *base = from;

	op->message = to + ((const unsigned char *)op->message - base);
	if (op->key.data != NULL && op->own_key == NULL)
		op->key.data = to + ((const unsigned char *)op->key.data - base);
	if (op->value.data != NULL)
		op->value.data = to + ((const unsigned char *)op->value.data - base);
}

void op_keep(struct node *node, struct op *op)
{
	const void *from = op->message;

	op->kept = malloc(op->message_size);
	if (op->kept == NULL) {
		op_drop(node, op);
		op_error(node, op, ERR_NO_MEMORY,
			"no memory to keep a request of %zu bytes while it waits",
			op->message_size);
		return;
	}
	memcpy(op->kept, from, op->message_size);
	op_rebase(op, from, op->kept);
	list_for_each (at, &op->batch.ops)
		op_rebase(container_of(at, struct op, owner_entry), from, op->kept);
}

int op_own_key(struct op *op, const struct share *share, uint32_t slot)
{
	const struct slot *there = &share->slots[slot];

	if (op->own_key == NULL)
		op->own_key = malloc(KEY_LIMIT);
	if (op->own_key == NULL || there->klen > KEY_LIMIT)
		return ERR_NO_MEMORY;
	memcpy(op->own_key, slot_key(share, there), there->klen);
	op->key = (struct index_key){op->own_key, there->klen, there->hash};
	return 0;
}

/* ---- faults -------------------------------------------------------------- */

static void op_sleep(struct node *node, struct op *op, int64_t ms)
{
	op->asleep = true;
	heap_set(&node->timers, timer_of_op(node, op),
		time_after(node_now(node), fault_ns(ms)));
}

bool op_gate(struct node *node, struct op *op, enum fault_point point)
{
	int64_t value = 0;

	if (op->slept) {
		op->slept = false;
		return true;
	}
	switch (node_fault(node, point, &value)) {
	case FAULT_SLEEP:
		op_sleep(node, op, value);
		return false;
	case FAULT_RETURN_ERROR:
		/* Nobody can be told, and a fault never skips a step. */
		if (op->service->flags & SERVICE_ONE_WAY)
			return true;
		op->failed = true;
		op_drop(node, op);
		op_error(node, op, (int)value, "a fault was injected");
		return false;
	case FAULT_NONE:
	case FAULT_KILL:
	case FAULT_RESET:
		break;
	}
	return true;
}

/* The gate in front of the answer. False: the op sleeps; `reply` and `size` may become
 * another answer. */
static bool op_gate_reply(
	struct node *node, struct op *op, const void **reply, size_t *size)
{
	struct msg_error msg = {.text = {"a fault was injected", 20}};
	int64_t value = 0;

	switch (node_fault(node, FAULT_NODE_BEFORE_REPLY, &value)) {
	case FAULT_SLEEP:
		op->reply = malloc(*size);
		if (op->reply == NULL)
			return true;
		memcpy(op->reply, *reply, *size);
		op->reply_size = *size;
		op->stage = OP_REPLYING;
		op_sleep(node, op, value);
		return false;
	case FAULT_RETURN_ERROR:
		reply_undo(node, op->lane, *reply, *size);
		op->with_grant = false;
		msg.code = (int32_t)value;
		*reply = node->out;
		*size = msg_error_encode(node->out, sizeof(node->out), &msg);
		return true;
	case FAULT_NONE:
	case FAULT_KILL:
	case FAULT_RESET:
		break;
	}
	return true;
}

/* ---- answers ------------------------------------------------------------- */

static void op_send(struct node *node, struct op *op, const void *reply, size_t size)
{
	const struct client *client = op->lane->client;
	struct env_grant grant;

	if (op->with_grant) {
		grant.cid = client->cid;
		grant.incarnation = node->share->clients[client->cid].incarnation;
		grant.pool_writable = !node->share->clients[client->cid].read_only;
	}
	if (op->lane->link != NULL)
		link_answer(node, op->lane, reply, size);
	else
		node->env.net.send(node->env.net.ctx, op->lane->id, reply, size,
			op->with_grant ? &grant : NULL);
	if (op->with_grant) {
		int64_t value = 0;

		(void)node_fault(node, FAULT_NODE_AFTER_ATTACH_ANSWER, &value);
	}
	op_free(node, op);
}

void op_reply(struct node *node, struct op *op, size_t size)
{
	const void *reply = node->out;

	CHECK(size > 0);
	if (op->service->flags & SERVICE_ONE_WAY) {
		op_free(node, op);
		return;
	}
	op_clear_deadline(node, op);
	if (op->parent != NULL) {
		struct op *parent = op->parent;
		uint32_t item = op->item;

		op_free(node, op);
		if (parent->service->run == batch_run)
			batch_add_reply(node, parent, item, reply, size);
		else
			prefix_item_done(node, parent, reply, size);
		return;
	}
	if (!op_passes_gates(op) || op_gate_reply(node, op, &reply, &size))
		op_send(node, op, reply, size);
}

void op_done(struct node *node, struct op *op, uint64_t generation)
{
	struct msg_done msg = {.generation = generation, .keepers = op->keepers};

	op_reply(node, op, msg_done_encode(node->out, sizeof(node->out), &msg));
}

void op_error(struct node *node, struct op *op, int code, const char *format, ...)
{
	char text[MSG_TEXT_MAX];
	struct msg_error msg = {.code = code, .text = {.data = text}};
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	msg.text.size = strlen(text);
	node->stats.errors++;
	op_reply(node, op, msg_error_encode(node->out, sizeof(node->out), &msg));
}

size_t op_reply_room(const struct op *op)
{
	return op->parent == NULL ? MSG_SIZE_MAX : batch_reply_room(&op->parent->batch);
}

uint32_t op_client_ref(const struct node *node, const struct op *op)
{
	return client_ref_of(node, op->lane->client);
}

const char *key_text(const void *key, size_t size, char *text)
{
	const unsigned char *bytes = key;
	size_t at = 0;

	for (size_t i = 0; i < size; i++) {
		bool plain = bytes[i] > ' ' && bytes[i] < 0x7f && bytes[i] != '"';

		if (at + 8 > NODE_KEY_TEXT) {
			(void)snprintf(text + at, NODE_KEY_TEXT - at, "...");
			return text;
		}
		at += (size_t)snprintf(text + at, NODE_KEY_TEXT - at,
			plain ? "%c" : "\\x%02x", bytes[i]);
	}
	text[at] = '\0';
	return text;
}
