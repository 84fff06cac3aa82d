/*
 * batch.c - batches of what is asked for by key and answered at once: see batch_priv.h.
 */
#include "client/batch_priv.h"

#include "base/check.h"

#include <stdlib.h>

/* ---- items, todo --------------------------------------------------------- */

void items_fail(const struct items *items, int err)
{
	for (size_t i = 0; i < items->count; i++)
		*items_result(items, i) = err;
}

size_t items_failed(const struct items *items)
{
	size_t failed = 0;

	for (size_t i = 0; i < items->count; i++)
		failed += *items_result(items, i) < 0;
	return failed;
}

void todo_fail(const struct todo *todo, const struct items *items, int err)
{
	for (size_t i = 0; i < todo->count; i++)
		*items_result(items, todo->indices[i]) = err;
}

struct attachment *items_begin(struct cenote *store, const struct items *items)
{
	struct attachment *attachment = NULL;
	int err = 0;

	if (items->base == NULL && items->count > 0) {
		/* There is no place for a result. */
		(void)client_fail(ERR_BAD_ARGUMENT, "%zu items at NULL", items->count);
		return NULL;
	}
	attachment = store_attachment(store, &err);
	if (attachment == NULL)
		items_fail(items, err);
	return attachment;
}

int todo_init(struct todo *todo, const struct items *items)
{
	int err = 0;

	*todo = (struct todo){.indices = calloc(items->count + 1, sizeof(size_t))};
	if (todo->indices == NULL) {
		err = client_fail(
			ERR_NO_MEMORY, "no memory for a batch of %zu", items->count);
		items_fail(items, err);
	}
	return err;
}

void todo_fini(struct todo *todo)
{
	free(todo->indices);
}

void todo_drop_faulty(
	struct todo *todo, const struct items *items, enum fault_point point)
{
	size_t left = 0;

	for (size_t i = 0; i < todo->count; i++) {
		size_t index = todo->indices[i];
		int err = client_fault(point);

		*items_result(items, index) = err;
		if (err == 0)
			todo->indices[left++] = index;
	}
	todo->count = left;
}

/* ---- ask ----------------------------------------------------------------- */

/* Encode as many as fit; the number of those. */
static size_t batch_pack(
	struct batch *batch, const size_t *indices, size_t count, size_t *ret_size)
{
	struct msg_pack pack;
	size_t packed = 0;

	batch->rest = call_rest(&batch->call);
	msg_pack_init(&pack, batch->call.lane->out, MSG_SIZE_MAX);
	while (packed < count && packed < BATCH_ITEMS && pack.used < BATCH_BYTES) {
		size_t size = batch->ops->encode(batch, indices[packed],
			msg_pack_tail(&pack), msg_pack_room(&pack));

		if (size == 0)
			break;
		msg_pack_add(&pack, size);
		packed++;
	}
	*ret_size = msg_pack_finish(&pack, MSG_TYPE_BATCH);
	return packed;
}

/* Hand out the replies of one message. */
static int batch_unpack(struct batch *batch, const size_t *indices, size_t count)
{
	struct call *call = &batch->call;
	struct msg_batch_done done;
	struct msg_bytes reply;
	int err = call_expect(call, MSG_TYPE_BATCH_DONE);

	if (err != 0)
		return err;
	if (msg_batch_done_decode(call->lane->in, call->reply_size, &done) != 0)
		return reply_broken(MSG_TYPE_BATCH_DONE);
	for (size_t i = 0; i < count; i++) {
		if (msg_unpack(&done.replies, &reply) != 1)
			return reply_broken(MSG_TYPE_BATCH_DONE);
		batch->ops->reply(batch, indices[i], reply.data, reply.size);
	}
	return 0;
}

/* One message: of the first items as many as fit. The number that had a reply, or an
 * error. */
static int64_t batch_ask_some(struct batch *batch, const size_t *indices, size_t count)
{
	size_t size, packed;
	int err;

	do {
		packed = batch_pack(batch, indices, count, &size);
		if (packed == 0 && batch->err != 0)
			return batch->err;
		if (packed == 0)
			return client_fail(
				ERR_TOO_LARGE, "a request does not fit a message");
		err = call_exchange(&batch->call, size, batch->judge);
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = batch_unpack(batch, indices, packed);
	return err == 0 ? (int64_t)packed : err;
}

int batch_ask(struct batch *batch, const struct todo *todo)
{
	size_t done = 0;

	while (done < todo->count) {
		int64_t got = batch_ask_some(
			batch, todo->indices + done, todo->count - done);

		if (got < 0) {
			const struct todo rest = {
				todo->indices + done, todo->count - done};

			todo_fail(&rest, batch->items, (int)got);
			return (int)got;
		}
		done += (size_t)got;
	}
	return 0;
}

/* Ask once for what is to be asked. */
static void batch_until(struct cenote *store, const struct items *items,
	const struct batch_ops *ops, struct todo *todo, uint64_t deadline)
{
	struct batch batch = {.items = items, .ops = ops, .judge = CALL_DAEMON};
	int err;

	if (todo->count == 0)
		return;
	err = call_begin(&batch.call, store, deadline);
	if (err == 0) {
		(void)batch_ask(&batch, todo);
		call_end(&batch.call);
		return;
	}
	todo_fail(todo, items, err);
}

/* The same with the standing deadline. */
static void batch_once(struct cenote *store, const struct items *items,
	const struct batch_ops *ops, struct todo *todo)
{
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (err == 0)
		batch_until(store, items, ops, todo, deadline);
	else
		todo_fail(todo, items, err);
}

/* All items whose key is one. */
static void todo_add_valid(struct todo *todo, const struct items *items)
{
	for (size_t i = 0; i < items->count; i++) {
		int err = client_check_key(*items_key(items, i));

		*items_result(items, i) = err;
		if (err == 0)
			todo->indices[todo->count++] = i;
	}
}

/* ---- stat, exists -------------------------------------------------------- */

static size_t stat_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct cenote_key *key = items_key(batch->items, index);
	struct msg_stat msg = {.key = {.data = key->data, .size = key->size}};

	return msg_stat_encode(buffer, size, &msg);
}

static void stat_reply(struct batch *batch, size_t index, const void *reply, size_t size)
{
	struct cenote_stat_item *item = items_at(batch->items, index);

	item->result = stat_decode(reply, size, &item->stat);
}

static void exists_reply(
	struct batch *batch, size_t index, const void *reply, size_t size)
{
	struct cenote_stat stat;
	int err = stat_decode(reply, size, &stat);

	*items_result(batch->items, index) = err == 0               ? 1
					     : err == ERR_NOT_FOUND ? 0
								    : err;
}

size_t cenote_stat_batch(
	struct cenote *store, struct cenote_stat_item *items, size_t count)
{
	static const struct batch_ops ops = {stat_encode, stat_reply};
	struct items all = ITEMS(items, count);
	struct todo todo;

	if (items_begin(store, &all) == NULL || todo_init(&todo, &all) != 0)
		return count;
	todo_add_valid(&todo, &all);
	batch_once(store, &all, &ops, &todo);
	todo_fini(&todo);
	return items_failed(&all);
}

/* Those that the index shows need no message. */
static void exists_find(
	struct attachment *attachment, const struct items *items, struct todo *todo)
{
	size_t missing = 0;

	todo_add_valid(todo, items);
	for (size_t i = 0; i < todo->count; i++) {
		size_t index = todo->indices[i];
		struct held held;

		if (held_find(attachment, *items_key(items, index), HOLD_COLD, &held) ==
			HOLD_OK) {
			held_give(&held);
			*items_result(items, index) = 1;
		} else {
			todo->indices[missing++] = index;
		}
	}
	todo->count = missing;
}

size_t cenote_exists_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count)
{
	static const struct batch_ops ops = {stat_encode, exists_reply};
	struct items all = ITEMS(items, count);
	struct attachment *attachment = items_begin(store, &all);
	struct todo todo;

	if (attachment == NULL || todo_init(&todo, &all) != 0)
		return count;
	exists_find(attachment, &all, &todo);
	batch_once(store, &all, &ops, &todo);
	todo_fini(&todo);
	return items_failed(&all);
}

/* ---- remove -------------------------------------------------------------- */

static size_t remove_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct cenote_key *key = items_key(batch->items, index);
	struct msg_remove msg = {.key = {.data = key->data, .size = key->size}};

	return msg_remove_encode(buffer, size, &msg);
}

static void remove_reply(
	struct batch *batch, size_t index, const void *reply, size_t size)
{
	int err = removed(&batch->call, reply_expect(reply, size, MSG_TYPE_DONE));

	*items_result(batch->items,
		index) = err == 0 ? client_fault(FAULT_CLIENT_AFTER_REMOVE) : err;
}

size_t remove_all(struct cenote *store, struct cenote_key_item *items, size_t count,
	uint64_t deadline)
{
	static const struct batch_ops ops = {remove_encode, remove_reply};
	struct items all = ITEMS(items, count);
	struct todo todo;

	if (items_begin(store, &all) == NULL || todo_init(&todo, &all) != 0)
		return count;
	todo_add_valid(&todo, &all);
	todo_drop_faulty(&todo, &all, FAULT_CLIENT_BEFORE_REMOVE_SEND);
	batch_until(store, &all, &ops, &todo, deadline);
	todo_fini(&todo);
	return items_failed(&all);
}

size_t cenote_remove_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count)
{
	struct items all = ITEMS(items, count);
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (err == 0)
		return remove_all(store, items, count, deadline);
	items_fail(&all, err);
	return count;
}
