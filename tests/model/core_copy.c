/*
 * core_copy.c - the other nodes of the model test: what they have is copied, they take over
 * what is here, end what is there and on its way; and what a directory is told.
 */
#include "core_world.h"

#include "core_pattern.h"

#include "base/attr.h"
#include "base/err.h"

#include <inttypes.h>

#define COPY_CHECKSUM 0x1234u

static struct disk_id id_of_key(const struct world *world, uint32_t key)
{
	const struct index_key *name = &world->keys[key].key;

	return disk_id_of(name->data, name->size);
}

/* ---- copies -------------------------------------------------------------- */

static void copy_forget(struct world_copy *copy)
{
	copy->used = false;
	copy->granted = false;
	copy->slot = SLOT_NONE;
	ticket_init(&copy->ticket);
}

/* The key has nothing that is in a copy's way. */
static bool is_free(struct world *world, uint32_t key)
{
	world_sync(world, key);
	return naive_find(&world->naive, key) == NAIVE_NONE &&
	       !naive_is_coming(&world->naive, key);
}

static void copy_try(struct world *world, struct world_copy *copy)
{
	struct ticket *ticket = copy->granted ? &copy->ticket : NULL;
	bool free = is_free(world, copy->key);
	enum load_verdict verdict = master_copy_start(
		&world->master, &copy->copy, ticket, world->now, &copy->slot);

	world_trace(world, "copy of key %u: %d", copy->key, (int)verdict);
	if (free != (verdict != LOAD_GONE))
		world_fail(world, "copy of key %u: verdict %d", copy->key, (int)verdict);
	copy->granted = false;
	switch (verdict) {
	case LOAD_STARTED:
		copy->id = naive_copy(&world->naive, copy->key, &copy->copy);
		world->id_of[copy->slot] = copy->id;
		/* Before the first put it is only noted. */
		if (world->share.header->generation_bound != 0)
			world->last_generation = MAX(
				world->last_generation, copy->copy.generation);
		return;
	case LOAD_NO_ROOM:
		copy->slot = SLOT_NONE;
		if (rng_chance(&world->rng, 50))
			master_room_wait_load(&world->master, &copy->ticket,
				copy->copy.size, copy->copy.key.size);
		else
			master_room_wait(&world->master, &copy->ticket, copy->copy.size,
				copy->copy.key.size);
		return;
	case LOAD_GONE:
		copy_forget(copy);
		return;
	}
}

/* Their clock is ours, more or less. */
static uint64_t their_generation(struct world *world)
{
	world->theirs = MAX(
		world->theirs + 1, world->wall_us + rng_below(&world->rng, 10000) - 5000);
	return world->theirs << GENERATION_SHIFT | rng_below(&world->rng, 4096);
}

void copy_begin(struct world *world)
{
	struct rng *rng = &world->rng;
	struct world_copy *copy = &world->copies[rng_below(rng, WORLD_COPIES)];

	if (!world->config->clustered || copy->used)
		return;
	copy_forget(copy);
	copy->used = true;
	copy->key = world_any_key(world);
	copy->copy = (struct copy_request){
		.key = world->keys[copy->key].key,
		.size = rng_below(rng, rng_chance(rng, 10) ? world->config->size_large
							   : world->config->size_typical),
		.generation = their_generation(world),
		.expires = UINT64_MAX,
		.softpin = rng_chance(rng, 70),
	};
	if (rng_chance(rng, world->config->ttl_percent))
		copy->copy.expires = world->now + rng_below(rng, 300000000);
	copy_try(world, copy);
}

static void copy_done(struct world *world, struct world_copy *copy)
{
	struct slot *there = &world->share.slots[copy->slot];
	const struct naive_object *object = naive_at(&world->naive, copy->id);
	int err = rng_chance(&world->rng, 10) ? ERR_TRANSFER_FAIL : 0;
	uint32_t slot = copy->slot;
	int got, right;

	world_sync(world, copy->key);
	if (err == 0)
		pattern_fill(
			world->share.pool + there->off, object->size, object->number);
	right = naive_copy_done(&world->naive, copy->id, err);
	got = master_copy_done(&world->master, slot, err, COPY_CHECKSUM, world->now);
	world_trace(world, "copy of key %u to slot %u done: %d", copy->key, slot, got);
	if (got != right)
		world_fail(world, "copy of key %u: %d, not %d", copy->key, got, right);
	if (got == 0) {
		if (there->checksum != COPY_CHECKSUM || !(there->flags & SLOT_SECONDARY))
			world_fail(world, "a copy that is none");
		world_verify(world, copy->id, slot);
	}
	copy_forget(copy);
}

void copy_step(struct world *world)
{
	struct world_copy *copy = &world->copies[rng_below(&world->rng, WORLD_COPIES)];

	if (!world->config->clustered || !copy->used)
		return;
	if (copy->slot != SLOT_NONE) {
		copy_done(world, copy);
	} else if (copy->granted) {
		copy_try(world, copy);
	} else if (rng_chance(&world->rng, 5)) {
		master_room_cancel(&world->master, &copy->ticket);
		copy_forget(copy);
	}
}

bool copy_granted(struct world *world, struct ticket *ticket)
{
	for (uint32_t i = 0; i < WORLD_COPIES; i++) {
		if (ticket != &world->copies[i].ticket)
			continue;
		world->copies[i].granted = true;
		return true;
	}
	return false;
}

void copy_end_all(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_COPIES; i++) {
		struct world_copy *copy = &world->copies[i];

		if (!copy->used)
			continue;
		if (copy->slot != SLOT_NONE) {
			copy_done(world, copy);
			continue;
		}
		master_room_cancel(&world->master, &copy->ticket);
		copy_forget(copy);
	}
}

uint32_t copy_kill(struct world *world)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < WORLD_COPIES; i++) {
		struct world_copy *copy = &world->copies[i];

		if (copy->used && copy->slot != SLOT_NONE) {
			naive_abort(&world->naive, copy->id);
			count++;
		}
		copy_forget(copy);
	}
	return count;
}

/* ---- by word of others ---------------------------------------------------- */

/* A generation of the key: what is there, or on its way, or neither. */
static uint64_t any_generation(struct world *world, uint32_t key)
{
	uint64_t generation = 0;

	for (uint32_t id = 0; id < world->naive.limit; id++) {
		const struct naive_object *object = naive_at(&world->naive, id);

		if (object->state != NAIVE_FREE && object->key == key &&
			(generation == 0 || rng_chance(&world->rng, 50)))
			generation = object->generation;
	}
	return generation;
}

void cluster_end(struct world *world)
{
	uint32_t key = world_any_key(world);
	uint64_t generation, ended = 0;
	int err, right;

	if (!world->config->clustered)
		return;
	world_sync(world, key);
	generation = any_generation(world, key);
	err = master_end_generation(
		&world->master, &world->keys[key].key, generation, world->now, &ended);
	right = naive_end_key(&world->naive, key, generation);
	world_trace(
		world, "end of key %u, generation %" PRIx64 ": %d", key, generation, err);
	if (err != right || (err == 0 && generation != 0 && ended != generation))
		world_fail(world, "end of key %u: %d, not %d", key, err, right);
}

void cluster_doom(struct world *world)
{
	uint32_t rest = (uint32_t)rng_below(&world->rng, 3);
	char prefix[] = "key/0/";
	uint32_t count, right;

	if (!world->config->clustered)
		return;
	prefix[4] = (char)('0' + rest);
	count = master_doom_prefix(&world->master, prefix, sizeof(prefix) - 1);
	right = naive_doom(&world->naive, 3, rest);
	world_trace(world, "doom of %s: %u", prefix, count);
	if (count != right)
		world_fail(world, "%u doomed, not %u", count, right);
}

/* Another node keeps it from now on. What is only on disk is gone by that. */
void cluster_yield(struct world *world)
{
	uint32_t key = world_any_key(world), slot, entry, id;
	const struct index_key *name = &world->keys[key].key;

	if (!world->config->clustered)
		return;
	world_sync(world, key);
	id = naive_find(&world->naive, key);
	if (id == NAIVE_NONE)
		return;
	slot = master_find(&world->master, name);
	world_trace(world, "yield of key %u, slot %u", key, slot);
	if (slot != SLOT_NONE) {
		master_yield(&world->master, slot, world->now);
		naive_at(&world->naive, id)->secondary = true;
		return;
	}
	entry = master_disk_find(&world->master, name);
	master_yield_stored(&world->master, entry, world->now);
	told_expect(world, key, naive_at(&world->naive, id)->generation, false);
	(void)naive_end_key(&world->naive, key, naive_at(&world->naive, id)->generation);
}

/* ---- what is told ---------------------------------------------------------- */

static void told_take(struct world *world)
{
	struct left left;

	while (master_left_next(&world->master, &left)) {
		if (world->ntold == WORLD_TOLD)
			world_fail(world, "more is told than has left");
		world->told[world->ntold++] = left;
	}
	if (master_left_lost(&world->master))
		world_fail(world, "what left was not told");
}

void told_expect(struct world *world, uint32_t key, uint64_t generation, bool ended)
{
	struct disk_id id = id_of_key(world, key);

	if (!world->config->clustered)
		return;
	told_take(world);
	for (uint32_t i = 0; i < world->ntold; i++) {
		const struct left *left = &world->told[i];

		if (left->id.word[0] != id.word[0] || left->id.word[1] != id.word[1] ||
			left->generation != generation || left->ended != ended)
			continue;
		world->told[i] = world->told[--world->ntold];
		return;
	}
	world_fail(world, "key %u has left, and nobody was told", key);
}

void told_settle(struct world *world)
{
	if (!world->config->clustered)
		return;
	for (uint32_t key = 0; key < world->config->keys; key++)
		world_sync(world, key);
	told_take(world);
	if (world->ntold > 0)
		world_fail(world, "generation %" PRIx64 " is here, and was told of",
			world->told[0].generation);
}

void told_expired(struct world *world, uint32_t moving)
{
	for (uint32_t id = 0; world->config->clustered && id < world->naive.limit; id++) {
		const struct naive_object *object = naive_at(&world->naive, id);

		if (object->state == NAIVE_READY && object->expires <= world->now &&
			id != moving)
			told_expect(world, object->key, object->generation,
				!object->secondary);
	}
}

/* ---- what is held ----------------------------------------------------------- */

static uint32_t key_of(const struct world *world, const struct disk_id *id)
{
	for (uint32_t key = 0; key < world->config->keys; key++) {
		struct disk_id other = id_of_key(world, key);

		if (other.word[0] == id->word[0] && other.word[1] == id->word[1])
			return key;
	}
	world_fail(world, "an id that is no key's");
}

static void held_check(struct world *world, const struct held *held)
{
	uint32_t id = naive_find(&world->naive, key_of(world, &held->id));
	const struct naive_object *object;

	if (id == NAIVE_NONE)
		world_fail(world, "held, and not there");
	object = naive_at(&world->naive, id);
	if (held->generation != object->generation || held->size != object->size ||
		held->expires != object->expires || held->softpin != object->softpin ||
		held->secondary != object->secondary)
		world_fail(world, "key %u is held as another", object->key);
}

void held_audit(struct world *world)
{
	uint64_t cursor = 0;
	uint32_t held = 0, objects = 0;

	if (!world->config->clustered)
		return;
	while (cursor != UINT64_MAX) {
		struct held at;

		if (!master_held_next(&world->master, &cursor,
			    1 + (uint32_t)rng_below(&world->rng, 50), &at))
			continue;
		held_check(world, &at);
		held++;
	}
	for (uint32_t key = 0; key < world->config->keys; key++)
		objects += naive_find(&world->naive, key) != NAIVE_NONE;
	if (held != objects)
		world_fail(world, "%u are held, %u known", held, objects);
}
