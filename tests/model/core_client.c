/*
 * The clients' side of the model test: what processes of the node do with objects, and
 * the daemon for them by message.
 */
#include "core_world.h"

#include "core_pattern.h"

#include "base/err.h"

#include <inttypes.h>

static bool any_client(struct world *world, uint32_t *ret_client)
{
	*ret_client = (uint32_t)rng_below(&world->rng, WORLD_CLIENTS);
	return world->clients[*ret_client].live;
}

static uint64_t life_of(const struct world *world, uint32_t slot)
{
	return slot_life_of(world->share.slots[slot].state);
}

/* ---- put ----------------------------------------------------------------------------- */

static uint64_t any_size(struct world *world, uint32_t klen)
{
	const struct world_config *config = world->config;
	struct rng *rng = &world->rng;
	uint64_t largest = master_largest(&world->master, klen);

	if (rng_chance(rng, config->pool_percent)) {
		if (rng_chance(rng, 30))
			return largest + rng_below(rng, 2);
		return rng_below(rng, largest + 1);
	}
	if (rng_chance(rng, config->large_percent))
		return rng_below(rng, config->size_large + 1);
	/* Few sizes, so that runs are reused as they are; and any. */
	if (rng_chance(rng, 50))
		return config->size_typical;
	return rng_below(rng, config->size_typical * 2 + 1);
}

static void put_write(struct world *world, struct world_put *put)
{
	const struct naive_object *object = naive_at(&world->naive, put->id);

	pattern_fill(world->share.pool + world->share.slots[put->slot].off, object->size,
		object->number);
	put->written = true;
}

static void put_started(struct world *world, uint32_t key, uint32_t client,
	const struct put_request *request, uint32_t slot)
{
	struct world_put *put = &world->puts[world->nputs++];
	const struct slot *there = &world->share.slots[slot];

	*put = (struct world_put){
		.id = naive_start(&world->naive, key, request),
		.client = client,
		.slot = slot,
		.life = life_of(world, slot),
	};
	world->id_of[slot] = put->id;
	memset(world->share.pool + there->off, 0xdb, request->size);
	if (rng_chance(&world->rng, 50))
		put_write(world, put);
}

/* NO_ROOM is only said when there is none, or others were first. */
static void check_no_room(const struct world *world, const struct put_request *put)
{
	const struct master *master = &world->master;
	uint32_t nslots = world->share.header->nslots;
	uint64_t align;
	uint64_t bytes = extent_round(
		slot_run_size(put->size, (uint16_t)put->key.size), &align);

	if (list_is_empty(&master->room.waiting) &&
		master->free_slots + nslots - master->slots_used >
			master->room.granted_count + (master->disk.stored > 0) &&
		extent_largest_fit(&master->extents, align) >= bytes)
		world_fail(world, "no room for %" PRIu64 " bytes, where there is", bytes);
}

static enum put_verdict put_start(struct world *world, uint32_t key, uint32_t client,
	const struct put_request *put, struct ticket *ticket)
{
	uint32_t slot = SLOT_NONE, id;
	bool others_wait = !list_is_empty(&world->master.room.waiting);
	enum put_verdict verdict, right;
	bool new;

	world_sync(world, key);
	verdict = master_put_start(&world->master, put, ticket, &slot);
	right = naive_verdict(
		&world->naive, key, put->writer, put->op, put->replace, &id);
	new = verdict == PUT_STARTED || verdict == PUT_NO_ROOM ||
	      verdict == PUT_TOO_LARGE;
	world_trace(world,
		"put key %u size %" PRIu64 " op %" PRIu64 ": verdict %d slot %u", key,
		put->size, put->op, (int)verdict, slot);
	/* Who put it is not kept on disk. */
	if (verdict == PUT_EXISTS && right == PUT_REPEATED && disk_world_has(world) &&
		(slot == SLOT_NONE || world->share.slots[slot].writer == 0))
		right = PUT_EXISTS;
	if (verdict == PUT_BUSY && slot == SLOT_NONE && right == PUT_STARTED &&
		master_disk_ends(&world->master, &put->key))
		return verdict;
	if (right == PUT_STARTED &&
		put->size > master_largest(&world->master, put->key.size))
		right = PUT_TOO_LARGE;
	if (verdict == PUT_NO_ROOM && ticket == NULL && right == PUT_STARTED)
		check_no_room(world, put);
	else if (verdict != right)
		world_fail(world, "put of key %u: verdict %d, not %d", key, (int)verdict,
			(int)right);
	if (!new &&slot != SLOT_NONE && world->id_of[slot] != id)
		world_fail(world, "put of key %u: slot %u is another's", key, slot);
	if (verdict == PUT_STARTED && ticket == NULL && others_wait)
		world_fail(world, "put of key %u overtook those that wait", key);
	if (verdict == PUT_STARTED)
		put_started(world, key, client, put, slot);
	return verdict;
}

static void put_wait(
	struct world *world, uint32_t key, uint32_t client, const struct put_request *put)
{
	struct world_ticket *ticket = world->tickets;

	while (ticket->used)
		if (++ticket == world->tickets + WORLD_TICKETS)
			return;
	ticket->used = true;
	ticket->turn = world->next_turn++;
	ticket->key = key;
	ticket->client = client;
	ticket->put = *put;
	world_trace(world, "ticket %" PRIu64 " for %" PRIu64 " bytes", ticket->turn,
		put->size);
	master_room_wait(&world->master, &ticket->ticket, put->size, put->key.size);
}

void client_put(struct world *world)
{
	uint32_t key = world_any_key(world), client;
	struct rng *rng = &world->rng;
	struct put_request put = {.key = world->keys[key].key};

	if (!any_client(world, &client) || world->nputs == WORLD_PUTS)
		return;
	put.size = any_size(world, put.key.size);
	put.softpin = rng_chance(rng, world->config->softpin_percent);
	put.ttl_ns = rng_chance(rng, world->config->ttl_percent)
			     ? 1 + rng_below(rng, 300000000)
			     : 0;
	put.replace = world->config->clustered && rng_chance(rng, 15);
	put.writer = world_writer(world, client);
	put.op = ++world->next_op;
	put.deadline = rng_chance(rng, 50) ? UINT64_MAX
					   : world->now + rng_below(rng, 500000000);
	if (put_start(world, key, client, &put, NULL) == PUT_NO_ROOM &&
		rng_chance(rng, 70))
		put_wait(world, key, client, &put);
}

void client_ticket_use(struct world *world, struct world_ticket *ticket, bool cancel)
{
	if (ticket->fetched && !cancel && world->nputs < WORLD_PUTS)
		(void)put_start(world, ticket->key, ticket->client, &ticket->put,
			&ticket->ticket);
	else
		master_room_cancel(&world->master, &ticket->ticket);
	if (ticket->ticket.state != TICKET_IDLE)
		world_fail(world, "a used ticket is not idle");
	world_trace(world, "ticket %" PRIu64 " %s", ticket->turn,
		cancel ? "cancelled" : "used");
	world_ticket_forget(world, ticket);
}

static void put_forget(struct world *world, uint32_t at)
{
	world->puts[at] = world->puts[--world->nputs];
}

/* A number that is given now, or was given as the put's name. */
static void check_number(struct world *world, uint64_t name, uint64_t generation)
{
	if (name != 0 ? generation != name : generation <= world->last_generation)
		world_fail(world, "generation %" PRIu64 " does not rise", generation);
	world->last_generation = MAX(world->last_generation, generation);
}

static uint64_t any_wall_clock(struct world *world)
{
	/* It may jump. */
	world->wall_us += rng_below(&world->rng, 100);
	if (rng_chance(&world->rng, 5))
		world->wall_us -= 1000;
	return world->wall_us + (rng_chance(&world->rng, 1) ? 1ull << 47 : 0);
}

void client_name(struct world *world)
{
	struct world_put *put;
	struct naive_object *object;
	uint64_t generation = 0;
	int err, right;

	if (world->nputs == 0)
		return;
	put = &world->puts[rng_below(&world->rng, world->nputs)];
	object = naive_at(&world->naive, put->id);
	world_sync(world, object->key);
	err = master_put_name(&world->master, put->slot, put->life,
		world_writer(world, put->client), any_wall_clock(world), 0, &generation);
	right = naive_name(&world->naive, put->id);
	world_trace(world, "name of put in slot %u: %d", put->slot, err);
	if (err != right)
		world_fail(world, "name of a put: %d, not %d", err, right);
	if (err != 0)
		return;
	check_number(world, object->generation, generation);
	object->generation = generation;
}

static void check_ended(struct world *world, const struct world_put *put, uint64_t name,
	uint64_t generation)
{
	uint64_t again = 0;
	int err = master_put_end(&world->master, put->slot, put->life,
		world_writer(world, put->client), world->now, world->wall_us, &again);

	check_number(world, name, generation);
	if (err != 0 || again != generation)
		world_fail(world, "the repeat of an end: %d", err);
}

/* The end must find the put exactly as the naive master has it. */
static void put_end(struct world *world, const struct world_put *put)
{
	uint64_t generation = 0, name = naive_at(&world->naive, put->id)->generation;
	int err, right;

	world_sync(world, naive_at(&world->naive, put->id)->key);
	err = master_put_end(&world->master, put->slot, put->life,
		world_writer(world, put->client), world->now, any_wall_clock(world),
		&generation);
	right = naive_end(&world->naive, put->id, world->now, generation);
	world_trace(world, "end of put in slot %u: %d", put->slot, err);
	if (err != right)
		world_fail(world, "end of a put: %d, not %d", err, right);
	world->outrun += err == ERR_EXISTS;
	if (err == 0)
		check_ended(world, put, name, generation);
}

void client_put_end(struct world *world, uint32_t at, bool abort)
{
	struct world_put put = world->puts[at];
	uint32_t writer = world_writer(world, put.client);
	uint64_t generation;

	if (!put.written)
		put_write(world, &put);
	put_forget(world, at);
	if (!abort) {
		put_end(world, &put);
		return;
	}
	world_trace(world, "abort of put in slot %u", put.slot);
	if (master_put_abort(&world->master, put.slot, put.life, writer) != 0)
		world_fail(world, "an abort found no put");
	naive_abort(&world->naive, put.id);
	if (master_put_abort(&world->master, put.slot, put.life, writer) !=
			ERR_NOT_FOUND ||
		master_put_end(&world->master, put.slot, put.life, writer, world->now,
			world->wall_us, &generation) != ERR_NOT_FOUND)
		world_fail(world, "an aborted put is still there");
}

/* The same put again, as after a lost answer. */
void client_put_repeat(struct world *world)
{
	uint32_t key = world_any_key(world), client;
	uint32_t id = world->naive.current[key];
	struct put_request put = {.deadline = UINT64_MAX};

	/* Or one that was outrun. */
	for (uint32_t i = 0; i < world->nputs; i++)
		if (naive_at(&world->naive, world->puts[i].id)->outrun)
			id = world->puts[i].id;
	if (id == NAIVE_NONE || world->nputs == WORLD_PUTS)
		return;
	key = naive_at(&world->naive, id)->key;
	put.key = world->keys[key].key;
	put.size = naive_at(&world->naive, id)->size;
	put.writer = naive_at(&world->naive, id)->writer;
	put.op = naive_at(&world->naive, id)->op;
	for (client = 0; client < WORLD_CLIENTS; client++)
		if (world->clients[client].live &&
			world_writer(world, client) == put.writer)
			break;
	if (client < WORLD_CLIENTS)
		(void)put_start(world, key, client, &put, NULL);
}

/* ---- get ----------------------------------------------------------------------------- */

static void check_hit(struct world *world, uint32_t key, uint32_t slot)
{
	uint32_t id = naive_find(&world->naive, key);

	if (id == NAIVE_NONE)
		world_fail(world, "key %u is back in slot %u", key, slot);
	if (world->id_of[slot] != id)
		world_fail(world, "key %u hit slot %u of another put", key, slot);
	world_verify(world, id, slot);
}

/* Ask the daemon: it pins, the client turns the pin into a hold. */
static uint32_t get_by_message(
	struct world *world, uint32_t key, struct holder *holder, enum hold_heat heat)
{
	struct master *master = &world->master;
	uint32_t slot = master_find(master, &world->keys[key].key);

	if (slot == SLOT_NONE) {
		if (master_disk_find(master, &world->keys[key].key) != DISK_NONE)
			disk_load(world, key);
		else if (naive_find(&world->naive, key) != NAIVE_NONE)
			world_missed(world, key);
		return SLOT_NONE;
	}
	if (master->objects[slot].indexed)
		world_fail(world, "key %u is in the index and was not found", key);
	master_pin(master, slot);
	if (index_try(&world->share, holder, &world->keys[key].key, slot, heat) !=
		HOLD_OK)
		world_fail(world, "a pinned slot could not be held");
	master_unpin(master, slot, world->now);
	return slot;
}

void client_get(struct world *world)
{
	uint32_t key = world_any_key(world), client, slot = SLOT_NONE;
	enum hold_heat heat = rng_chance(&world->rng, 80) ? HOLD_HEAT : HOLD_COLD;
	struct world_hold *hold;
	struct holder *holder;

	if (!any_client(world, &client) || world->nholds == WORLD_HOLDS)
		return;
	holder = &world->clients[client].holder;
	if (index_find(&world->share, holder, &world->keys[key].key, heat, &slot) !=
		HOLD_OK)
		slot = get_by_message(world, key, holder, heat);
	world_trace(world, "client %u gets key %u: slot %u", client, key, slot);
	if (slot == SLOT_NONE)
		return;
	check_hit(world, key, slot);
	hold = &world->holds[world->nholds++];
	*hold = (struct world_hold){
		.id = world->id_of[slot],
		.client = client,
		.slot = slot,
		.life = life_of(world, slot),
	};
	naive_ref(&world->naive, hold->id);
}

/* What is held or pinned has not changed, whatever became of the object. */
static void hold_verify(const struct world *world, const struct world_hold *hold)
{
	uint64_t state = world->share.slots[hold->slot].state;

	if (slot_life_of(state) != hold->life)
		world_fail(world, "slot %u was freed under a hold", hold->slot);
	if (slot_kind_of(state) != SLOT_READY && slot_kind_of(state) != SLOT_CONDEMNED)
		world_fail(world, "slot %u under a hold is in state %d", hold->slot,
			(int)slot_kind_of(state));
	world_verify(world, hold->id, hold->slot);
}

void client_give(struct world *world, uint32_t at)
{
	struct world_hold hold = world->holds[at];

	hold_verify(world, &hold);
	world_trace(world, "client %u gives slot %u", hold.client, hold.slot);
	if (!hold_give(
		    &world->clients[hold.client].holder, world->share.slots, hold.slot))
		world_fail(world, "a hold was not counted");
	naive_unref(&world->naive, hold.id);
	world->holds[at] = world->holds[--world->nholds];
}

/* ---- end ----------------------------------------------------------------------------- */

void client_remove(struct world *world)
{
	uint32_t key = world_any_key(world);
	int err;

	world_sync(world, key);
	err = master_remove(&world->master, &world->keys[key].key, world->now);
	world_trace(world, "remove key %u: %d", key, err);
	if (err != naive_remove(&world->naive, key))
		world_fail(world, "remove of key %u: %d", key, err);
}

void client_take(struct world *world)
{
	struct world_hold *hold;
	uint64_t op;
	int err;

	if (world->nholds == 0)
		return;
	hold = &world->holds[rng_below(&world->rng, world->nholds)];
	op = hold->took != 0 ? hold->took : ++world->next_op;
	world_sync(world, naive_at(&world->naive, hold->id)->key);
	err = master_take(&world->master, hold->slot, hold->life,
		world_writer(world, hold->client), op, world->now);
	world_trace(world, "client %u takes slot %u: %d", hold->client, hold->slot, err);
	if (err != naive_take(&world->naive, hold->id, world_writer(world, hold->client),
			   op))
		world_fail(world, "take of slot %u: %d", hold->slot, err);
	if (err == 0)
		hold->took = op;
}

void client_die(struct world *world, uint32_t client)
{
	struct world_client *at = &world->clients[client];
	uint32_t slot;

	if (!at->live)
		return;
	world_trace(world, "client %u dies", client);
	for (uint32_t i = 0; i < WORLD_TICKETS; i++)
		if (world->tickets[i].used && world->tickets[i].client == client)
			client_ticket_use(world, &world->tickets[i], true);
	for (uint32_t i = world->nholds; i-- > 0;)
		if (world->holds[i].client == client) {
			hold_verify(world, &world->holds[i]);
			naive_unref(&world->naive, world->holds[i].id);
			world->holds[i] = world->holds[--world->nholds];
		}
	for (uint32_t i = world->nputs; i-- > 0;)
		if (world->puts[i].client == client)
			put_forget(world, i);
	while (rng_chance(&world->rng, 50) &&
		(slot = master_client_put(&world->master, at->cid)) != SLOT_NONE)
		if (master_put_abort(&world->master, slot, life_of(world, slot),
			    world_writer(world, client)) != 0)
			world_fail(world, "a put of a dead client was not there");
	at->live = false;
	world->share.clients[at->cid].state = SHARE_CLIENT_FREE;
	naive_client_gone(&world->naive, world_writer(world, client));
	master_client_gone(&world->master, at->cid, world->now);
}

/* ---- pins ---------------------------------------------------------------------------- */

void daemon_pin(struct world *world)
{
	uint32_t key = world_any_key(world);
	uint32_t slot = master_find(&world->master, &world->keys[key].key);
	struct world_hold *pin = &world->pins[world->npins];

	if (slot == SLOT_NONE || world->npins == WORLD_PINS)
		return;
	check_hit(world, key, slot);
	world_trace(world, "pin slot %u", slot);
	master_pin(&world->master, slot);
	*pin = (struct world_hold){
		.id = world->id_of[slot],
		.slot = slot,
		.life = life_of(world, slot),
	};
	naive_ref(&world->naive, pin->id);
	world->npins++;
}

void daemon_unpin(struct world *world, uint32_t at)
{
	struct world_hold pin = world->pins[at];

	hold_verify(world, &pin);
	world_trace(world, "unpin slot %u", pin.slot);
	if (!master_is_life(&world->master, pin.slot, pin.life))
		world_fail(world, "a pinned slot has another life");
	master_unpin(&world->master, pin.slot, world->now);
	naive_unref(&world->naive, pin.id);
	world->pins[at] = world->pins[--world->npins];
}
