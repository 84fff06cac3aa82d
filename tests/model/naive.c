#include "naive.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

void naive_init(struct naive *naive, uint32_t keys, uint32_t limit)
{
	naive->keys = keys;
	naive->limit = limit;
	naive->last_number = 0;
	naive->objects = calloc(limit, sizeof(naive->objects[0]));
	naive->current = malloc(keys * sizeof(naive->current[0]));
	CHECK(naive->objects != NULL && naive->current != NULL);
	for (uint32_t key = 0; key < keys; key++)
		naive->current[key] = NAIVE_NONE;
}

void naive_fini(struct naive *naive)
{
	free(naive->objects);
	free(naive->current);
}

static void free_if_unused(struct naive_object *object)
{
	if (object->state == NAIVE_GONE && object->refs == 0)
		object->state = NAIVE_FREE;
}

void naive_ref(struct naive *naive, uint32_t id)
{
	naive_at(naive, id)->refs++;
}

void naive_unref(struct naive *naive, uint32_t id)
{
	CHECK(naive_at(naive, id)->refs > 0);
	naive_at(naive, id)->refs--;
	free_if_unused(naive_at(naive, id));
}

static void lose_key(struct naive *naive, uint32_t id)
{
	uint32_t *current = &naive->current[naive_at(naive, id)->key];

	if (*current == id)
		*current = NAIVE_NONE;
}

static void end_object(struct naive *naive, uint32_t id)
{
	lose_key(naive, id);
	naive_at(naive, id)->state = NAIVE_GONE;
	free_if_unused(naive_at(naive, id));
}

uint32_t naive_find(const struct naive *naive, uint32_t key)
{
	uint32_t id = naive->current[key];

	if (id == NAIVE_NONE || naive_at(naive, id)->state != NAIVE_READY)
		return NAIVE_NONE;
	return id;
}

enum put_verdict naive_verdict(const struct naive *naive, uint32_t key, uint32_t writer,
	uint64_t op, bool replace, uint32_t *ret_id)
{
	const struct naive_object *object;

	for (*ret_id = 0; *ret_id < naive->limit; ++*ret_id) {
		object = naive_at(naive, *ret_id);
		if (object->state == NAIVE_PUT && object->outrun &&
			object->writer == writer && object->op == op)
			return PUT_REPEATED;
	}
	*ret_id = naive->current[key];
	if (*ret_id == NAIVE_NONE)
		return PUT_STARTED;
	object = naive_at(naive, *ret_id);
	if (object->writer == writer && object->op == op)
		return PUT_REPEATED;
	if (replace)
		return PUT_STARTED;
	return object->state == NAIVE_READY ? PUT_EXISTS : PUT_BUSY;
}

static uint32_t record_new(struct naive *naive)
{
	uint32_t id = 0;

	while (naive->objects[id].state != NAIVE_FREE) {
		id++;
		CHECK(id < naive->limit);
	}
	return id;
}

uint32_t naive_start(struct naive *naive, uint32_t key, const struct put_request *put)
{
	uint32_t id = record_new(naive);

	naive->objects[id] = (struct naive_object){
		.state = NAIVE_PUT,
		.key = key,
		.number = ++naive->last_number,
		.size = put->size,
		.softpin = put->softpin,
		.ttl_ns = put->ttl_ns,
		.deadline = put->deadline,
		.writer = put->writer,
		.op = put->op,
		.outrun = put->replace,
		.replaces = put->replace,
	};
	if (!put->replace)
		naive->current[key] = id;
	return id;
}

/* It is about to be the key's object; a put that has the key loses it. */
static void claim_key(struct naive *naive, uint32_t id)
{
	uint32_t *current = &naive->current[naive_at(naive, id)->key];

	if (*current != NAIVE_NONE && *current != id)
		naive_at(naive, *current)->outrun = true;
	*current = id;
}

int naive_end(struct naive *naive, uint32_t id, uint64_t now, uint64_t generation)
{
	struct naive_object *object = naive_at(naive, id);

	if (object->state == NAIVE_READY)
		return 0;
	if (object->state == NAIVE_GONE)
		return ERR_NOT_FOUND;
	if (object->doomed || object->late) {
		end_object(naive, id);
		return object->doomed ? ERR_REMOVED : ERR_TIMEOUT;
	}
	if (object->replaces && naive_find(naive, object->key) != NAIVE_NONE)
		end_object(naive, naive_find(naive, object->key));
	if (object->outrun && naive_find(naive, object->key) != NAIVE_NONE) {
		end_object(naive, id);
		return ERR_EXISTS;
	}
	object->outrun = object->replaces = false;
	claim_key(naive, id);
	object->state = NAIVE_READY;
	object->generation = generation;
	object->expires = object->ttl_ns != 0 ? now + object->ttl_ns : UINT64_MAX;
	return 0;
}

void naive_abort(struct naive *naive, uint32_t id)
{
	end_object(naive, id);
}

int naive_name(const struct naive *naive, uint32_t id)
{
	const struct naive_object *object = naive_at(naive, id);

	if (object->state == NAIVE_READY)
		return 0;
	if (object->state == NAIVE_GONE)
		return ERR_NOT_FOUND;
	if (object->doomed || object->late)
		return object->doomed ? ERR_REMOVED : ERR_TIMEOUT;
	if (object->generation == 0 && object->outrun && !object->replaces &&
		naive_find(naive, object->key) != NAIVE_NONE)
		return ERR_EXISTS;
	return 0;
}

uint32_t naive_copy(struct naive *naive, uint32_t key, const struct copy_request *copy)
{
	uint32_t id = record_new(naive);

	naive->objects[id] = (struct naive_object){
		.state = NAIVE_COPY,
		.key = key,
		.number = ++naive->last_number,
		.size = copy->size,
		.softpin = copy->softpin,
		.secondary = true,
		.expires = copy->expires,
		.generation = copy->generation,
	};
	return id;
}

bool naive_is_coming(const struct naive *naive, uint32_t key)
{
	for (uint32_t id = 0; id < naive->limit; id++) {
		const struct naive_object *object = naive_at(naive, id);

		if (object->state == NAIVE_COPY && object->key == key && !object->doomed)
			return true;
	}
	return false;
}

int naive_copy_done(struct naive *naive, uint32_t id, int err)
{
	struct naive_object *object = naive_at(naive, id);

	if (object->doomed)
		err = ERR_REMOVED;
	else if (err == 0 && naive_find(naive, object->key) != NAIVE_NONE)
		err = ERR_EXISTS;
	if (err != 0) {
		end_object(naive, id);
		return err;
	}
	claim_key(naive, id);
	object->state = NAIVE_READY;
	return 0;
}

static bool can_be_doomed(const struct naive_object *object)
{
	return (object->state == NAIVE_PUT || object->state == NAIVE_COPY) &&
	       !object->doomed && !object->late;
}

static void doom(struct naive *naive, uint32_t id)
{
	naive_at(naive, id)->doomed = true;
	lose_key(naive, id);
}

int naive_end_key(struct naive *naive, uint32_t key, uint64_t generation)
{
	int err = ERR_NOT_FOUND;

	for (uint32_t id = 0; id < naive->limit; id++) {
		struct naive_object *object = naive_at(naive, id);

		if (object->key != key ||
			(generation != 0 && object->generation != generation) ||
			(object->state != NAIVE_READY && !can_be_doomed(object)))
			continue;
		err = 0;
		if (object->state == NAIVE_READY)
			end_object(naive, id);
		else
			doom(naive, id);
	}
	return err;
}

int naive_remove(struct naive *naive, uint32_t key)
{
	return naive_end_key(naive, key, 0);
}

uint32_t naive_doom(struct naive *naive, uint32_t of, uint32_t rest)
{
	uint32_t count = 0;

	for (uint32_t id = 0; id < naive->limit; id++) {
		if (!can_be_doomed(naive_at(naive, id)) ||
			naive_at(naive, id)->key % of != rest)
			continue;
		doom(naive, id);
		count++;
	}
	return count;
}

int naive_take(struct naive *naive, uint32_t id, uint32_t taker, uint64_t op)
{
	struct naive_object *object = naive_at(naive, id);

	if (object->state == NAIVE_READY) {
		object->taker = taker;
		object->take_op = op;
		end_object(naive, id);
		return 0;
	}
	return object->taker == taker && object->take_op == op ? 0 : ERR_NOT_FOUND;
}

bool naive_evict(struct naive *naive, uint32_t key)
{
	uint32_t id = naive_find(naive, key);

	if (id == NAIVE_NONE ||
		(naive_at(naive, id)->softpin && !naive_at(naive, id)->secondary))
		return false;
	end_object(naive, id);
	return true;
}

void naive_advance(struct naive *naive, uint64_t now, uint32_t moving)
{
	for (uint32_t id = 0; id < naive->limit; id++) {
		struct naive_object *object = naive_at(naive, id);

		if (object->state == NAIVE_PUT && object->deadline <= now &&
			!object->doomed) {
			object->late = true;
			lose_key(naive, id);
		}
		if (object->state == NAIVE_READY && object->expires <= now &&
			id != moving)
			end_object(naive, id);
	}
}

void naive_client_gone(struct naive *naive, uint32_t writer)
{
	for (uint32_t id = 0; id < naive->limit; id++) {
		struct naive_object *object = naive_at(naive, id);

		if (object->state == NAIVE_PUT && object->writer == writer)
			end_object(naive, id);
	}
}

void naive_restart(struct naive *naive, uint64_t now, uint64_t put_timeout_ns)
{
	for (uint32_t id = 0; id < naive->limit; id++) {
		struct naive_object *object = naive_at(naive, id);

		if (object->state == NAIVE_PUT && !object->doomed && !object->late)
			object->deadline = now + put_timeout_ns;
	}
}
