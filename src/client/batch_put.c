/*
 * batch_put.c - put_batch and create_batch.
 *
 *   chunk: start all -> copy each -> end all -> those that found no room, one by one
 *
 * A chunk holds runs while others of it are started, so it must not wait there: each
 * start is given a moment, and what does not get room in it, or is not published in it, is
 * put alone once the chunk's runs are sealed. So two batches can never wait for each
 * other's room. Within a chunk no key comes twice, hence a second put of a key finds the
 * first one sealed.
 */
#include "client/batch_priv.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS 50000000ull

/* One item on its way. */
struct putting {
	struct put put;
	uint64_t hash;                 /* of its key, to tell keys apart at a glance */
	struct attachment *attachment; /* NULL: not started */
	struct msg_put_started started;
	bool is_unknown; /* it may have been done: not to be put again */
};

struct put_batch {
	struct items items;
	struct putting *puttings; /* by item */
	struct cenote *store;
	uint64_t deadline;
	bool may_be_small; /* values may go in one message */
	bool may_wait;     /* to the deadline: nothing is held meanwhile */
};

/* A failure that time may heal: for room, for another put, or to be published. */
static bool is_for_want_of_time(int err)
{
	return err == ERR_NO_SPACE || err == ERR_TIMEOUT || err == ERR_UNAVAILABLE;
}

/* ---- start --------------------------------------------------------------- */

static bool putting_is_small(const struct batch *batch, const struct putting *putting)
{
	const struct put_batch *puts = batch->arg;

	return puts->may_be_small &&
	       putting->put.size <= batch->call.lane->attachment->small_limit;
}

static size_t start_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct put_batch *puts = batch->arg;
	const struct putting *putting = &puts->puttings[index];
	uint64_t timeout = batch->rest;

	if (!puts->may_wait)
		timeout = MIN(timeout, PATIENCE_NS);
	if (putting_is_small(batch, putting))
		return put_small_encode(
			&putting->put, batch->call.lane, buffer, size, timeout);
	return put_start_encode(&putting->put, buffer, size, timeout);
}

static void start_reply(struct batch *batch, size_t index, const void *reply, size_t size)
{
	const struct put_batch *puts = batch->arg;
	struct putting *putting = &puts->puttings[index];
	int err;

	if (putting_is_small(batch, putting)) {
		err = put_done(reply, size, &putting->put.keepers);
		if (err == 0)
			err = client_fault(FAULT_CLIENT_AFTER_SMALL_PUT);
	} else {
		err = put_started(batch->call.lane->attachment, reply, size,
			putting->put.size, &putting->started);
		if (err == 0)
			putting->attachment = batch->call.lane->attachment;
	}
	*items_result(batch->items, index) = err;
}

/* Abort what was started, or may have been, of items that failed without the daemon's
 * word. */
static void start_undo(
	struct put_batch *puts, struct batch *batch, const struct todo *todo)
{
	for (size_t i = 0; i < todo->count; i++) {
		struct putting *putting = &puts->puttings[todo->indices[i]];
		const struct orphan unknown = {
			.attachment = batch->call.lane->attachment,
			.slot = SLOT_NONE,
			.op = putting->put.op,
		};

		if (putting->attachment != NULL)
			put_abort(&batch->call, putting->attachment,
				putting->started.slot, putting->started.life);
		else if (unknown.attachment != NULL &&
			 *items_result(batch->items, todo->indices[i]) < 0 &&
			 !putting_is_small(batch, putting))
			orphan_add(puts->store, &unknown);
		putting->attachment = NULL;
	}
}

/* Meet the point before each; what it fails is not asked for. */
static void start_meet_faults(struct batch *batch, struct todo *todo)
{
	const struct put_batch *puts = batch->arg;
	size_t left = 0;

	for (size_t i = 0; i < todo->count; i++) {
		size_t index = todo->indices[i];
		int err = client_fault(putting_is_small(batch, &puts->puttings[index])
					       ? FAULT_CLIENT_BEFORE_SMALL_PUT_SEND
					       : FAULT_CLIENT_BEFORE_PUT_START_SEND);

		*items_result(batch->items, index) = err;
		if (err == 0)
			todo->indices[left++] = index;
	}
	todo->count = left;
}

/* Start all of `todo`; on a whole failure nothing of it is left. */
static int start_all(struct put_batch *puts, struct batch *batch, struct todo *todo)
{
	static const struct batch_ops ops = {start_encode, start_reply};
	int err;

	batch->ops = &ops;
	batch->judge = CALL_DAEMON;
	start_meet_faults(batch, todo);
	err = batch_ask(batch, todo);
	if (err != 0) {
		start_undo(puts, batch, todo);
		/* Also those that had been started. */
		for (size_t i = 0; i < todo->count; i++) {
			struct putting *putting = &puts->puttings[todo->indices[i]];
			int *result = items_result(batch->items, todo->indices[i]);

			if (*result == 0 && !putting_is_small(batch, putting))
				*result = err;
		}
	}
	return err;
}

/* ---- copy, end ----------------------------------------------------------- */

/* Copy all that is started; what remains in `todo` is to be ended. */
static void copy_all(struct put_batch *puts, struct batch *batch, struct todo *todo)
{
	size_t left = 0;

	for (size_t i = 0; i < todo->count; i++) {
		size_t index = todo->indices[i];
		struct putting *putting = &puts->puttings[index];
		int err;

		if (putting->attachment == NULL)
			continue;
		err = put_copy(putting->attachment, &putting->put, putting->started.off);
		if (err == 0)
			err = client_fault(FAULT_CLIENT_BEFORE_PUT_END_SEND);
		*items_result(batch->items, index) = err;
		if (err == 0)
			todo->indices[left++] = index;
		else
			put_abort(&batch->call, putting->attachment,
				putting->started.slot, putting->started.life);
	}
	todo->count = left;
}

static size_t end_encode(struct batch *batch, size_t index, void *buffer, size_t size)
{
	const struct put_batch *puts = batch->arg;
	const struct putting *putting = &puts->puttings[index];
	struct msg_put_end msg = {
		.slot = putting->started.slot,
		.life = putting->started.life,
		.timeout_ns = batch->rest,
	};

	if (putting->attachment != batch->call.lane->attachment) {
		batch->err = client_fail(
			ERR_STALE, "the pool that this put was started in is gone");
		return 0;
	}
	return msg_put_end_encode(buffer, size, &msg);
}

static void end_reply(struct batch *batch, size_t index, const void *reply, size_t size)
{
	struct put_batch *puts = batch->arg;
	struct putting *putting = &puts->puttings[index];
	int err = put_ended(&batch->call, put_done(reply, size, &putting->put.keepers));

	putting->attachment = NULL;
	putting->is_unknown = err == ERR_UNAVAILABLE && batch->call.is_repeated;
	*items_result(batch->items,
		index) = err == 0 ? client_fault(FAULT_CLIENT_AFTER_PUT_END) : err;
}

static void end_all(struct put_batch *puts, struct batch *batch, const struct todo *todo)
{
	static const struct batch_ops ops = {end_encode, end_reply};

	batch->ops = &ops;
	batch->judge = CALL_DAEMON;
	if (batch_ask(batch, todo) == 0)
		return;
	for (size_t i = 0; i < todo->count; i++) {
		struct putting *putting = &puts->puttings[todo->indices[i]];

		if (putting->attachment != NULL)
			put_abort(&batch->call, putting->attachment,
				putting->started.slot, putting->started.life);
	}
}

/* ---- chunks -------------------------------------------------------------- */

/* Hashes, as bits: what is not in it was not met; what is may have been. */
struct seen {
	uint64_t bits[8];
};

static bool seen_add(struct seen *seen, uint64_t hash)
{
	uint64_t *word = &seen->bits[hash / 64 % 8], bit = 1ull << hash % 64;
	bool was = *word & bit;

	*word |= bit;
	return was;
}

static bool same_key(const struct putting *a, const struct putting *b)
{
	return a->hash == b->hash && a->put.key.size == b->put.key.size &&
	       memcmp(a->put.key.data, b->put.key.data, a->put.key.size) == 0;
}

/* How many of the first items make a chunk: no key twice, and together no more than an
 * eighth of the pool, or one. */
static size_t chunk_count(const struct put_batch *puts, const size_t *indices,
	size_t count, uint64_t pool_size)
{
	struct seen seen = {0};
	uint64_t bytes = 0;
	size_t taken = 0;

	for (; taken < count && taken < BATCH_ITEMS; taken++) {
		const struct putting *next = &puts->puttings[indices[taken]];

		bytes += MIN(next->put.size, pool_size);
		if (taken > 0 && bytes > pool_size / 8)
			break;
		if (!seen_add(&seen, next->hash))
			continue;
		for (size_t i = 0; i < taken; i++) {
			if (same_key(&puts->puttings[indices[i]], next))
				return taken;
		}
	}
	return taken;
}

static void chunk_alone(struct put_batch *puts, const size_t *indices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct putting *putting = &puts->puttings[indices[i]];
		int *result = items_result(&puts->items, indices[i]);

		if (count == 1 || (is_for_want_of_time(*result) && !putting->is_unknown))
			*result = put_run(&putting->put, puts->store, puts->deadline);
	}
}

static void chunk_put(struct put_batch *puts, const size_t *indices, size_t count)
{
	struct batch batch = {.items = &puts->items, .arg = puts};
	size_t started[BATCH_ITEMS];
	struct todo todo = {.indices = started, .count = count};
	const struct todo all = {.indices = started, .count = count};
	int err;

	memcpy(started, indices, count * sizeof(*indices));
	err = call_begin(&batch.call, puts->store, puts->deadline);
	if (err != 0) {
		todo_fail(&all, &puts->items, err);
		return;
	}
	err = start_all(puts, &batch, &todo);
	if (err == 0) {
		copy_all(puts, &batch, &todo);
		end_all(puts, &batch, &todo);
	}
	call_end(&batch.call);
	if (err == 0)
		chunk_alone(puts, indices, count);
}

/* ---- put_batch ----------------------------------------------------------- */

static int puts_init(struct put_batch *puts, struct cenote *store,
	const struct items *items, const struct cenote_put_options *options,
	int64_t default_ms)
{
	int err = client_deadline(
		options ? options->timeout_ms : 0, default_ms, &puts->deadline);

	puts->items = *items;
	puts->store = store;
	puts->puttings = NULL;
	if (err == 0)
		err = put_permit(store);
	if (err == 0) {
		puts->puttings = calloc(items->count + 1, sizeof(*puts->puttings));
		if (puts->puttings == NULL)
			err = client_fail(ERR_NO_MEMORY, "no memory for a batch of %zu",
				items->count);
	}
	if (err != 0)
		items_fail(items, err);
	return err;
}

static int put_item_init(
	struct put_batch *puts, size_t index, const struct cenote_put_options *options)
{
	const struct cenote_put_item *item = items_at(&puts->items, index);
	struct putting *putting = &puts->puttings[index];
	int err;

	if (item->parts == NULL && item->count > 0)
		return client_fail(ERR_BAD_ARGUMENT, "%zu parts at NULL", item->count);
	err = put_init(
		&putting->put, puts->store, item->key, item->parts, item->count, options);
	if (err == 0)
		putting->hash = hash_key(item->key.data, item->key.size, 0);
	return err;
}

size_t cenote_put_batch(struct cenote *store, struct cenote_put_item *items, size_t count,
	const struct cenote_put_options *options)
{
	struct items all = ITEMS(items, count);
	struct attachment *attachment = items_begin(store, &all);
	struct put_batch puts = {.may_be_small = true};
	struct todo todo;

	if (attachment == NULL || todo_init(&todo, &all) != 0)
		return count;
	if (puts_init(&puts, store, &all, options, CALL_TIMEOUT_MS) == 0) {
		for (size_t i = 0; i < count; i++) {
			items[i].result = put_item_init(&puts, i, options);
			if (items[i].result == 0)
				todo.indices[todo.count++] = i;
		}
	}
	for (size_t done = 0, taken; done < todo.count; done += taken) {
		const size_t *indices = todo.indices + done;

		taken = chunk_count(
			&puts, indices, todo.count - done, attachment->pool_size);
		if (taken == 1)
			chunk_alone(&puts, indices, 1);
		else
			chunk_put(&puts, indices, taken);
	}
	for (size_t i = 0; i < todo.count; i++) {
		if (items[todo.indices[i]].result == 0)
			items[todo.indices[i]].result =
				puts.puttings[todo.indices[i]].put.keepers;
	}
	free(puts.puttings);
	todo_fini(&todo);
	return items_failed(&all);
}

/* ---- create_batch -------------------------------------------------------- */

/* Make writers of what is started; how many there are. */
static size_t writers_make(const struct put_batch *puts, struct batch *batch)
{
	size_t made = 0;

	for (size_t i = 0; i < puts->items.count; i++) {
		struct cenote_create_item *item = items_at(&puts->items, i);
		struct putting *putting = &puts->puttings[i];
		struct attachment *attachment = putting->attachment;

		if (attachment == NULL)
			continue;
		putting->attachment = NULL;
		item->result = put_writer(&batch->call, attachment, &putting->started,
			item->size, &item->writer);
		if (item->result == 0)
			made++;
	}
	return made;
}

/* Until something is held it may be waited for. */
static void writers_wait(
	struct put_batch *puts, struct batch *batch, const struct todo *todo)
{
	puts->may_wait = true;
	for (size_t i = 0; i < todo->count; i++) {
		struct todo one = {.indices = todo->indices + i, .count = 1};

		if (!is_for_want_of_time(*items_result(&puts->items, todo->indices[i])))
			continue;
		if (start_all(puts, batch, &one) != 0 || writers_make(puts, batch) > 0)
			return;
	}
}

static void writers_start(struct put_batch *puts, const struct todo *todo)
{
	struct batch batch = {.items = &puts->items, .arg = puts};
	struct todo copy;
	int err = todo_init(&copy, &puts->items);

	if (err == 0)
		err = call_begin(&batch.call, puts->store, puts->deadline);
	if (err != 0) {
		todo_fail(todo, &puts->items, err);
	} else {
		for (; copy.count < todo->count; copy.count++)
			copy.indices[copy.count] = todo->indices[copy.count];
		puts->may_wait = todo->count == 1;
		if (start_all(puts, &batch, &copy) == 0 &&
			writers_make(puts, &batch) == 0 && !puts->may_wait)
			writers_wait(puts, &batch, todo);
		call_end(&batch.call);
	}
	todo_fini(&copy);
}

size_t cenote_create_batch(struct cenote *store, struct cenote_create_item *items,
	size_t count, const struct cenote_put_options *options)
{
	struct items all = ITEMS(items, count);
	struct put_batch puts = {.may_be_small = false};
	struct todo todo;

	if (items_begin(store, &all) == NULL || todo_init(&todo, &all) != 0)
		return count;
	if (puts_init(&puts, store, &all, options, CREATE_TIMEOUT_MS) == 0) {
		for (size_t i = 0; i < count; i++) {
			items[i].result = put_init(&puts.puttings[i].put, store,
				items[i].key, NULL, 0, options);
			puts.puttings[i].put.size = items[i].size;
			if (items[i].result == 0)
				todo.indices[todo.count++] = i;
		}
	}
	if (todo.count > 0)
		writers_start(&puts, &todo);
	free(puts.puttings);
	todo_fini(&todo);
	return items_failed(&all);
}
