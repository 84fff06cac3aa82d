#include "core_world.h"

#include "core_pattern.h"

#include "base/attr.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void world_fail(const struct world *world, const char *format, ...)
{
	va_list args;

	(void)world;
	va_start(args, format);
	(void)fputs("core_model: ", stderr);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

void world_trace(const struct world *world, const char *format, ...)
{
	va_list args;

	if (!world->trace)
		return;
	va_start(args, format);
	(void)printf("%" PRIu64 " ", world->now);
	(void)vprintf(format, args);
	(void)putchar('\n');
	(void)fflush(stdout);
	va_end(args);
}

/* ---- memory -------------------------------------------------------------------------- */

static void *memory_new(size_t size)
{
	void *memory = aligned_alloc(4096, align_up_u64(size, 4096));

	CHECK(memory != NULL);
	memset(memory, 0, align_up_u64(size, 4096));
	return memory;
}

static void keys_make(struct world *world)
{
	uint64_t seed = world->share.header->hash_seed;

	world->keys = calloc(world->config->keys, sizeof(world->keys[0]));
	CHECK(world->keys != NULL);
	for (uint32_t i = 0; i < world->config->keys; i++) {
		struct world_key *key = &world->keys[i];
		uint32_t size = (uint32_t)snprintf(
			(char *)key->data, sizeof(key->data), "key/%u/%u", i % 3, i);
		uint32_t limit = rng_chance(&world->rng, 10) ? KEY_LIMIT : 40;

		if (rng_chance(&world->rng, 40))
			for (uint32_t to = size + (uint32_t)rng_below(
							  &world->rng, limit - size + 1);
				size < to; size++)
				key->data[size] = 'k';
		key->key = (struct index_key){
			key->data, size, hash_key(key->data, size, seed)};
	}
}

static struct disk_config disk_of(const struct world_config *config)
{
	return (struct disk_config){
		.data_size = config->disk_size,
		.object_limit = config->keys * 2,
		.cache_permille = 300,
	};
}

static void master_open(struct world *world)
{
	struct master_config config = {
		.low_permille = 10,
		.high_permille = 20,
		.hash_seed = world->share.header->hash_seed,
		.generation_salt = (uint16_t)rng_below(&world->rng, 4096),
		.disk = disk_of(world->config),
		.clustered = world->config->clustered,
	};

	memset(world->memory, 0, world->memory_size);
	master_init(&world->master, &world->share, &config, world->memory);
}

static void share_make(struct world *world)
{
	const struct world_config *config = world->config;
	uint32_t limit = config->slots_limit != 0 ? config->slots_limit
						  : share_slots_limit(config->pool_size);
	struct share_header *header;

	share_init(&world->share, memory_new(share_index_size(limit)),
		memory_new(config->pool_size));
	header = world->share.header;
	header->magic = SHARE_MAGIC;
	header->version = SHARE_VERSION;
	header->slots_limit = limit;
	header->pool_size = config->pool_size;
	header->hash_seed = rng_next(&world->rng);
	header->page_size = 4096;
	header->nslots = config->nslots;
	header->log2_buckets = share_log2_buckets(config->nslots);
}

struct world *world_open(const struct world_config *config, uint64_t seed, bool trace)
{
	struct world *world = calloc(1, sizeof(*world));
	struct recovery recovery;
	struct disk_config disk = disk_of(config);
	uint32_t limit;

	CHECK(world != NULL);
	world->config = config;
	world->trace = trace;
	rng_init(&world->rng, seed);
	world->now = 1000000000;
	world->wall_us = 1ull << 50;
	share_make(world);
	limit = world->share.header->slots_limit;
	keys_make(world);
	disk_open(world);
	naive_init(&world->naive, config->keys,
		config->keys + WORLD_PUTS + WORLD_HOLDS + WORLD_PINS + WORLD_COPIES + 1);
	world->id_of = calloc(limit, sizeof(world->id_of[0]));
	CHECK(world->id_of != NULL);
	world->memory_size = master_memory_size(limit, &disk);
	world->memory = memory_new(world->memory_size);
	master_open(world);
	for (uint32_t i = 0; i < WORLD_TICKETS; i++)
		ticket_init(&world->tickets[i].ticket);
	master_recover(&world->master, world->now, WORLD_TIMEOUT_NS, &recovery);
	master_disk_adopted(&world->master);
	for (uint32_t i = 0; i < WORLD_CLIENTS; i++)
		world_client_add(world, i);
	return world;
}

void world_close(struct world *world)
{
	naive_fini(&world->naive);
	disk_close(world);
	for (uint32_t i = 0; i < WORLD_CLIENTS; i++)
		free(world->clients[i].holder.counts);
	free(world->memory);
	free(world->share.index);
	free(world->share.pool);
	free(world->keys);
	free(world->id_of);
	free(world);
}

/* ---- clients come -------------------------------------------------------------------- */

uint32_t world_writer(const struct world *world, uint32_t client)
{
	const struct world_client *at = &world->clients[client];

	return client_ref(at->cid, at->incarnation);
}

static void on_tell(struct holder *holder, uint32_t slot)
{
	struct world *world = container_of(holder, struct world_client, holder)->world;

	/* A full socket loses the message. */
	if (world->ntells < WORLD_TELLS)
		world->tells[world->ntells++] = slot;
}

void world_client_add(struct world *world, uint32_t client)
{
	struct world_client *at = &world->clients[client];
	struct share_client *entry;
	uint32_t limit = world->share.header->slots_limit;

	at->world = world;
	at->cid = client == 0 ? CLIENT_LIMIT - 1 : client;
	at->incarnation = ++world->share.header->last_incarnation;
	at->live = true;
	at->holder.tell = on_tell;
	free(at->holder.counts);
	at->holder.counts = calloc(limit, sizeof(at->holder.counts[0]));
	CHECK(at->holder.counts != NULL);
	entry = &world->share.clients[at->cid];
	entry->incarnation = at->incarnation;
	entry->state = SHARE_CLIENT_LIVE;
	master_client_add(&world->master, at->cid, at->holder.counts);
}

void world_tell_all(struct world *world, bool lose)
{
	for (uint32_t i = 0; i < world->ntells && !lose; i++)
		master_tell(&world->master, world->tells[i], world->now);
	world_trace(world, "%u tells %s", world->ntells, lose ? "lost" : "delivered");
	world->ntells = 0;
}

/* ---- checks -------------------------------------------------------------------------- */

void world_verify(const struct world *world, uint32_t id, uint32_t slot)
{
	const struct naive_object *object = naive_at(&world->naive, id);
	const struct slot *there = &world->share.slots[slot];
	const struct index_key *key = &world->keys[object->key].key;

	if (there->size != object->size || there->generation != object->generation)
		world_fail(world, "slot %u has another object than put %" PRIu64, slot,
			object->number);
	if (there->klen != key->size ||
		memcmp(slot_key(&world->share, there), key->data, key->size) != 0)
		world_fail(world, "slot %u of put %" PRIu64 " has another key", slot,
			object->number);
	if (!pattern_is(world->share.pool + there->off, object->size, object->number))
		world_fail(world, "slot %u has not the bytes of put %" PRIu64, slot,
			object->number);
}

void world_missed(struct world *world, uint32_t key)
{
	uint32_t id = naive_find(&world->naive, key);
	uint64_t generation = 0;

	if (id != NAIVE_NONE)
		generation = naive_at(&world->naive, id)->generation;
	if (!naive_evict(&world->naive, key))
		world_fail(world, "key %u is lost", key);
	told_expect(world, key, generation, false);
}

void world_sync(struct world *world, uint32_t key)
{
	const struct index_key *name = &world->keys[key].key;

	if (naive_find(&world->naive, key) != NAIVE_NONE &&
		master_find(&world->master, name) == SLOT_NONE &&
		master_disk_find(&world->master, name) == DISK_NONE)
		world_missed(world, key);
}

static void audit_disk(struct world *world, uint32_t key, uint32_t id)
{
	uint32_t entry = master_disk_find(&world->master, &world->keys[key].key);

	if (id == NAIVE_NONE && entry != DISK_NONE)
		world_fail(world, "key %u is back on disk", key);
	if (id == NAIVE_NONE)
		return;
	if (entry == DISK_NONE)
		world_missed(world, key);
	else if (disk_entry(&world->master.disk, entry)->generation !=
		 naive_at(&world->naive, id)->generation)
		world_fail(world, "key %u is on disk with another generation", key);
}

static void audit_key(struct world *world, uint32_t key)
{
	uint32_t slot = master_find(&world->master, &world->keys[key].key);
	uint32_t id = naive_find(&world->naive, key);

	if (slot == SLOT_NONE) {
		audit_disk(world, key, id);
		return;
	}
	if (id == NAIVE_NONE)
		world_fail(world, "key %u is back in slot %u", key, slot);
	if (world->id_of[slot] != id)
		world_fail(world, "key %u is in slot %u of another put", key, slot);
	world_verify(world, id, slot);
}

static uint32_t count_listed(struct world *world, const char *prefix)
{
	uint32_t next = 0, count = 0;

	while (next != SLOT_NONE) {
		uint32_t slot = master_list(&world->master, next, prefix,
			(uint32_t)strlen(prefix),
			1 + (uint32_t)rng_below(&world->rng, 50), &next);

		count += slot != SLOT_NONE;
	}
	return count;
}

static uint32_t count_disk(const struct world *world)
{
	uint32_t count = 0;

	for (uint32_t entry = 0;
		(entry = master_disk_list(&world->master, entry)) != DISK_NONE; entry++)
		count++;
	return count;
}

void world_audit(struct world *world)
{
	uint32_t objects = 0, first = 0;
	struct pool_use use;

	for (uint32_t key = 0; key < world->config->keys; key++) {
		audit_key(world, key);
		objects += naive_find(&world->naive, key) != NAIVE_NONE;
		first += naive_find(&world->naive, key) != NAIVE_NONE && key % 3 == 0;
	}
	master_use(&world->master, &use);
	if (use.objects + world->master.disk.only != objects)
		world_fail(world, "%" PRIu64 " objects in use, %u known", use.objects,
			objects);
	held_audit(world);
	if (count_listed(world, "key/") + count_disk(world) != objects ||
		(!disk_world_has(world) && count_listed(world, "key/0/") != first))
		world_fail(world, "the list is not what is there");
}

/* With nothing due, a turn does nothing: nobody polls. */
static void check_idle(struct world *world)
{
	struct master *master = &world->master;
	struct master_stats before = master->stats;

	if (master_next(master) <= world->now)
		return;
	if (master_advance(master, world->now) != SLOT_NONE)
		world_fail(world, "a timer was due before master_next()");
	if (master_room_run(master, world->now, 100))
		world_fail(world, "more to do, with nothing to do before");
	if (memcmp(&before, &master->stats, sizeof(before)) != 0)
		world_fail(world, "an idle master worked");
}

void world_check(struct world *world)
{
	const char *broken = core_check(&world->master, world->now);

	if (broken != NULL)
		world_fail(world, "core_check: %s", broken);
	check_idle(world);
}

uint32_t world_any_key(struct world *world)
{
	/* Half of the work on a few hot keys. */
	uint32_t keys = world->config->keys;

	if (keys > 8 && rng_chance(&world->rng, 50))
		keys = keys / 8;
	return (uint32_t)rng_below(&world->rng, keys);
}

/* ---- the daemon ---------------------------------------------------------------------- */

void world_ticket_forget(struct world *world, struct world_ticket *ticket)
{
	(void)world;
	ticket_init(&ticket->ticket);
	ticket->used = false;
	ticket->fetched = false;
}

void world_count(struct world *world)
{
	uint64_t *sums = (uint64_t *)&world->stats;
	const uint64_t *adds = (const uint64_t *)&world->master.stats;

	for (size_t i = 0; i < sizeof(world->stats) / sizeof(*sums); i++)
		sums[i] += adds[i];
	world->cluster.copies += world->master.cluster.copies;
	world->cluster.spared += world->master.cluster.spared;
	world->cluster.clocks_refused += world->master.cluster.clocks_refused;
}

static uint32_t loads_under_way(const struct world *world)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < WORLD_LOADS; i++)
		count += world->disk.loads[i].used &&
			 world->disk.loads[i].slot != SLOT_NONE;
	return count;
}

void world_restart(struct world *world)
{
	struct recovery recovery;
	struct pool_use use;
	uint32_t moving = world->master.room.move.busy, puts = 0;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		puts += world->master.writing[cid].count;
	master_use(&world->master, &use);
	for (uint32_t i = 0; i < WORLD_TICKETS; i++)
		world_ticket_forget(world, &world->tickets[i]);
	for (; world->npins > 0; world->npins--)
		naive_unref(&world->naive, world->pins[world->npins - 1].id);
	told_settle(world);
	moving += loads_under_way(world) + copy_kill(world);
	disk_kill(world);
	world->half_copied = false;
	world->restarts++;
	world_count(world);

	master_open(world);
	for (uint32_t i = 0; i < WORLD_CLIENTS; i++)
		if (world->clients[i].live)
			master_client_add(&world->master, world->clients[i].cid,
				world->clients[i].holder.counts);
	master_recover(&world->master, world->now, WORLD_TIMEOUT_NS, &recovery);
	naive_restart(&world->naive, world->now, WORLD_TIMEOUT_NS);
	world_trace(world, "restart: adopted %" PRIu64 " writing %" PRIu64,
		recovery.adopted, recovery.writing);
	if (recovery.adopted != use.objects || recovery.writing != puts)
		world_fail(world,
			"adopted %" PRIu64 " of %" PRIu64 ", kept %" PRIu64 " of %u puts",
			recovery.adopted, use.objects, recovery.writing, puts);
	for (unsigned reason = 0; reason < DROP_REASONS; reason++)
		if (recovery.dropped[reason] != (reason == DROP_UNFINISHED ? moving : 0))
			world_fail(world, "dropped %" PRIu64 ": %s",
				recovery.dropped[reason],
				drop_reason_text((enum drop_reason)reason));
	if (recovery.found != recovery.adopted + recovery.writing + moving)
		world_fail(world, "found %" PRIu64, recovery.found);
	disk_adopt(world);
}

void world_grow(struct world *world)
{
	struct share_header *header = world->share.header;
	uint32_t nslots = header->nslots;
	uint32_t more = nslots / 2 + 1, log2;

	if (nslots == header->slots_limit)
		return;
	nslots = nslots + more < header->slots_limit ? nslots + more
						     : header->slots_limit;
	log2 = share_log2_buckets(nslots);
	world_trace(world, "grow to %u slots", nslots);
	if (log2 > header->log2_buckets)
		index_grow(&world->share, log2);
	master_slots_grown(&world->master, nslots);
}

void world_advance(struct world *world, uint64_t ns)
{
	const struct object_queue *moving = &world->master.moving;
	uint32_t rounds = 0;
	uint64_t hash;

	told_settle(world);
	world->now += ns;
	world_trace(world, "advance by %" PRIu64, ns);
	while (master_disk_expire(&world->master, world->now, &hash))
		;
	while (master_advance(&world->master, world->now) != SLOT_NONE)
		if (++rounds > 4 * world->share.header->slots_limit + 64)
			world_fail(world, "master_advance() does not end");
	told_expired(world, moving->count != 0 ? world->id_of[moving->head] : NAIVE_NONE);
	naive_advance(&world->naive, world->now,
		moving->count != 0 ? world->id_of[moving->head] : NAIVE_NONE);
}

/* Of two tickets the older gets room first if it asks for no more. */
static void check_turn(struct world *world, const struct world_ticket *granted)
{
	for (uint32_t i = 0; i < WORLD_TICKETS; i++) {
		const struct world_ticket *other = &world->tickets[i];

		if (other->used && !other->fetched && other->turn < granted->turn &&
			other->ticket.run_bytes <= granted->ticket.run_bytes &&
			other->ticket.align <= granted->ticket.align)
			world_fail(world, "ticket %" PRIu64 " overtook %" PRIu64,
				granted->turn, other->turn);
	}
}

static bool room_turn(struct world *world, uint32_t budget)
{
	struct master *master = &world->master;
	struct ticket *ticket;
	uint64_t examined = master->stats.examined;
	bool more = master_room_run(master, world->now, budget);

	if (master->stats.examined - examined > budget)
		world_fail(world, "examined more than the budget");
	while ((ticket = master_room_granted(master)) != NULL) {
		struct world_ticket *granted = container_of(
			ticket, struct world_ticket, ticket);

		if (disk_granted(world, ticket) || copy_granted(world, ticket))
			continue;

		world_trace(world, "ticket %" PRIu64 " granted", granted->turn);
		check_turn(world, granted);
		granted->fetched = true;
		world->granted++;
	}
	return more;
}

void world_room(struct world *world, uint32_t budget, bool until_rest)
{
	uint32_t rounds = 0;

	world_trace(world, "room, budget %u%s", budget, until_rest ? ", until rest" : "");
	while (room_turn(world, budget) && until_rest)
		if (++rounds > 8 * world->share.header->slots_limit + 1000)
			world_fail(world, "master_room_run() does not rest");
}

void world_move(struct world *world, bool copied)
{
	struct relocation move, again;
	unsigned char *pool = world->share.pool;

	if (!master_move_next(&world->master, &move))
		return;
	if (!world->half_copied && rng_chance(&world->rng, 30)) {
		memcpy(pool + move.to_off, pool + move.from_off, move.size / 2);
		world->half_copied = true;
		return;
	}
	if (!master_move_next(&world->master, &again) ||
		memcmp(&move, &again, sizeof(move)) != 0)
		world_fail(world, "a move under way changed");
	memcpy(pool + move.to_off, pool + move.from_off, copied ? move.size : 0);
	world->half_copied = false;
	world->id_of[move.to] = world->id_of[move.from];
	world_trace(world, "move %u to %u %s", move.from, move.to,
		copied ? "done" : "given up");
	master_move_done(&world->master, copied, world->now);
}
