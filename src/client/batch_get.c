/*
 * batch_get.c - batches that end in holds: get, get_into, touch, take.
 *
 *   find each in the index -> ask for those missing, without a wait
 *     -> ask again for those absent, with the wait, if it was asked for
 *
 * What is done with a hold is the caller's `held`: keep a view, copy, or nothing. Keys
 * that are there are done with before anything waits for those that are not.
 */
#include "client/batch_priv.h"

#include <stdlib.h>

/* A batch of holds. */
struct fetch {
	const struct items *items;
	/* The item's hold stands; returns its result. */
	int (*held)(const struct items *items, size_t index, const struct held *held);
	bool wait;
	bool waiting;       /* this round waits for what is absent */
	struct todo todo;   /* to be asked for in this round */
	struct todo absent; /* answered NOT_FOUND, or removed just then */
};

static void fetch_settle(
	struct fetch *fetch, size_t index, int err, const struct held *held)
{
	*items_result(fetch->items,
		index) = err == 0 ? fetch->held(fetch->items, index, held) : err;
	if (err == ERR_NOT_READY || (err == ERR_NOT_FOUND && fetch->wait))
		fetch->absent.indices[fetch->absent.count++] = index;
}

static void fetch_find(struct fetch *fetch, struct attachment *attachment)
{
	for (size_t i = 0; i < fetch->items->count; i++) {
		struct cenote_key key = *items_key(fetch->items, i);
		struct held held;
		int err;

		switch (held_find(attachment, key, HOLD_HEAT, &held)) {
		case HOLD_OK:
			fetch_settle(fetch, i, 0, &held);
			break;
		case HOLD_TOO_MANY:
			fetch_settle(fetch, i, held_too_many(key), NULL);
			break;
		case HOLD_NO:
			err = client_check_key(key);
			*items_result(fetch->items, i) = err;
			if (err == 0)
				fetch->todo.indices[fetch->todo.count++] = i;
			break;
		}
	}
}

static size_t fetch_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct fetch *fetch = batch->arg;
	const struct cenote_key *key = items_key(batch->items, index);
	struct msg_get msg = {
		.key = {.data = key->data, .size = key->size},
		.flags = fetch->waiting ? GET_WAIT : 0,
		.timeout_ns = batch->rest,
	};

	return msg_get_encode(buffer, size, &msg);
}

static void fetch_reply(struct batch *batch, size_t index, const void *reply, size_t size)
{
	struct held held;
	int err = held_take_up(&batch->call, reply, size, *items_key(batch->items, index),
		HOLD_HEAT, &held);

	fetch_settle(batch->arg, index, err, &held);
}

/* Turn what was absent into what is to be asked for. */
static bool fetch_again(struct fetch *fetch)
{
	struct todo todo = fetch->todo;

	fetch->todo = fetch->absent;
	fetch->absent = todo;
	fetch->absent.count = 0;
	return fetch->todo.count > 0;
}

/* Ask until each has its answer; a whole failure is the result of those without one. */
static void fetch_ask(struct fetch *fetch, struct cenote *store, uint64_t deadline)
{
	static const struct batch_ops ops = {fetch_encode, fetch_reply};
	struct batch batch = {
		.items = fetch->items, .ops = &ops, .judge = CALL_DAEMON, .arg = fetch};
	int err = call_begin(&batch.call, store, deadline);

	if (err != 0) {
		todo_fail(&fetch->todo, fetch->items, err);
		return;
	}
	do {
		todo_drop_faulty(
			&fetch->todo, fetch->items, FAULT_CLIENT_BEFORE_GET_SEND);
		err = batch_ask(&batch, &fetch->todo);
		fetch->waiting = fetch->wait;
	} while (fetch_again(fetch) && err == 0 && call_rest(&batch.call) > 0);
	/* What was put and removed again until the end. */
	if (fetch->todo.count > 0)
		todo_fail(&fetch->todo, fetch->items,
			err != 0 ? err : client_fail_plain(ERR_TIMEOUT));
	call_end(&batch.call);
}

/* The whole batch; the number of items that failed. */
static size_t fetch_all(struct cenote *store, const struct items *items,
	const struct cenote_get_options *options,
	int (*held)(const struct items *items, size_t index, const struct held *held))
{
	struct fetch fetch = {
		.items = items,
		.held = held,
		.wait = options && options->wait,
	};
	struct attachment *attachment = items_begin(store, items);
	int64_t timeout_ms = options ? options->timeout_ms : 0;
	uint64_t deadline;
	int err;

	if (attachment == NULL || todo_init(&fetch.todo, items) != 0)
		return items->count;
	err = todo_init(&fetch.absent, items);
	if (err == 0) {
		err = client_check_timeout(timeout_ms);
		if (err != 0)
			items_fail(items, err);
	}
	if (err == 0) {
		fetch_find(&fetch, attachment);
		if (fetch.todo.count > 0 &&
			client_deadline(timeout_ms, CALL_TIMEOUT_MS, &deadline) == 0)
			fetch_ask(&fetch, store, deadline);
	}
	todo_fini(&fetch.todo);
	todo_fini(&fetch.absent);
	return items_failed(items);
}

/* ---- what is done with a hold -------------------------------------------- */

static int get_item_held(const struct items *items, size_t index, const struct held *held)
{
	struct cenote_get_item *item = items_at(items, index);

	return held_view(held, &item->view);
}

static int into_item_held(
	const struct items *items, size_t index, const struct held *held)
{
	struct cenote_get_into_item *item = items_at(items, index);

	return held_copy(
		held, item->buffer, item->buffer ? item->buffer_size : 0, &item->size);
}

static int touch_item_held(
	const struct items *items, size_t index, const struct held *held)
{
	(void)items, (void)index;
	held_give(held);
	return 0;
}

size_t cenote_get_batch(struct cenote *store, struct cenote_get_item *items, size_t count,
	const struct cenote_get_options *options)
{
	struct items all = ITEMS(items, count);

	return fetch_all(store, &all, options, get_item_held);
}

size_t cenote_get_into_batch(struct cenote *store, struct cenote_get_into_item *items,
	size_t count, const struct cenote_get_options *options)
{
	struct items all = ITEMS(items, count);

	return fetch_all(store, &all, options, into_item_held);
}

size_t cenote_touch_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count)
{
	struct items all = ITEMS(items, count);

	return fetch_all(store, &all, NULL, touch_item_held);
}

/* ---- take ---------------------------------------------------------------- */

/* What is held is removed, each by its one taker. */
struct taking {
	const struct items *items;
	struct cenote *store;
	uint64_t first_op;
};

static int taking_held(const struct taking *taking, const struct cenote_get_item *item,
	struct held *ret_held)
{
	ret_held->slot = item->view.slot;
	ret_held->attachment = store_owner(taking->store, item->view.data);
	return ret_held->attachment != NULL ? 0 : ERR_INTERNAL;
}

static size_t taking_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct taking *taking = batch->arg;
	struct held held;

	if (taking_held(taking, items_at(batch->items, index), &held) != 0 ||
		held.attachment != batch->call.lane->attachment) {
		batch->err = client_fail_plain(ERR_STALE);
		return 0;
	}
	return take_encode(&held, taking->first_op + index, buffer, size);
}

static void taking_reply(
	struct batch *batch, size_t index, const void *reply, size_t size)
{
	int err = reply_expect(reply, size, MSG_TYPE_DONE);

	*items_result(batch->items,
		index) = err == 0 ? client_fault(FAULT_CLIENT_AFTER_TAKE) : err;
}

/* End the holds of those that somebody else took, or nobody could be asked about. */
static void taking_give_back(const struct taking *taking, const struct todo *todo)
{
	for (size_t i = 0; i < todo->count; i++) {
		struct cenote_get_item *item = items_at(taking->items, todo->indices[i]);
		struct held held;

		if (item->result == 0 || taking_held(taking, item, &held) != 0)
			continue;
		held_give(&held);
		item->view = (struct cenote_view){.data = NULL};
	}
}

static void taking_run(struct taking *taking, const struct todo *all, uint64_t deadline)
{
	static const struct batch_ops ops = {taking_encode, taking_reply};
	struct batch batch = {
		.items = taking->items, .ops = &ops, .judge = CALL_DAEMON, .arg = taking};
	struct todo todo;
	int err = todo_init(&todo, taking->items);

	if (err == 0) {
		for (; todo.count < all->count; todo.count++)
			todo.indices[todo.count] = all->indices[todo.count];
		todo_drop_faulty(&todo, taking->items, FAULT_CLIENT_AFTER_TAKE_HOLD);
		err = call_begin(&batch.call, taking->store, deadline);
	}
	if (err == 0) {
		(void)batch_ask(&batch, &todo);
		call_end(&batch.call);
	} else {
		todo_fail(all, taking->items, err);
	}
	taking_give_back(taking, all);
	todo_fini(&todo);
}

/* Somebody else was the taker: with a wait the next object under the key will do. */
static void taking_wait(struct cenote *store, const struct items *items,
	const struct todo *todo, uint64_t deadline)
{
	for (size_t i = 0; i < todo->count; i++) {
		struct cenote_get_item *item = items_at(items, todo->indices[i]);
		struct cenote_get_options options = {.wait = true};
		uint64_t now = socket_now();

		if (item->result != ERR_NOT_FOUND)
			continue;
		options.timeout_ms = deadline == UINT64_MAX ? CENOTE_FOREVER
				     : deadline <= now
					     ? 1
					     : (int64_t)((deadline - now) / 1000000) + 1;
		item->result = cenote_take(store, item->key, &options, &item->view);
	}
}

size_t cenote_take_batch(struct cenote *store, struct cenote_get_item *items,
	size_t count, const struct cenote_get_options *options)
{
	struct items all = ITEMS(items, count);
	struct taking taking = {.items = &all, .store = store};
	struct todo todo;
	uint64_t deadline;
	int err;

	if (items_begin(store, &all) == NULL || todo_init(&todo, &all) != 0)
		return count;
	err = client_deadline(
		options ? options->timeout_ms : 0, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = client_fault(FAULT_CLIENT_BEFORE_TAKE_SEND);
	if (err == 0) {
		taking.first_op = 1 + atomic_fetch_add_explicit(&store->last_op, count,
					      memory_order_relaxed);
		(void)fetch_all(store, &all, options, get_item_held);
		for (size_t i = 0; i < count; i++) {
			if (items[i].result == 0)
				todo.indices[todo.count++] = i;
		}
		if (todo.count > 0)
			taking_run(&taking, &todo, deadline);
		if (options && options->wait)
			taking_wait(store, &all, &todo, deadline);
	} else {
		items_fail(&all, err);
	}
	todo_fini(&todo);
	return items_failed(&all);
}
