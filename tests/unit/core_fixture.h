/*
 * core_fixture.h - a master over plain memory with three clients, for the tests of core.
 * With a disk it is what disk_fixture.h makes of it.
 *
 * Every helper that changes something ends with core_check(). The wall clock stands
 * still, so that generations must rise by themselves.
 *
 * Memory    core_open() to core_close(). core_restart() keeps what is shared.
 * Errors    a cmocka assertion.
 * Thread    one.
 */
#ifndef UNIT_CORE_FIXTURE_H
#define UNIT_CORE_FIXTURE_H

#include "core/master.h"

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

#define CORE_CLIENTS 3u
#define CORE_TIMEOUT 1000000000ull
#define CORE_SOFTPIN true
#define CORE_CACHE   false

struct core;

struct core_client {
	struct holder holder;
	struct core *core;
	uint32_t cid, ref;
};

struct core {
	struct share share;
	struct master master;
	void *memory;
	size_t memory_size;
	struct disk_config disk;
	struct core_client clients[CORE_CLIENTS];
	uint32_t tells[32], ntells;
	uint64_t now, op, generation;
};

static inline void *core_memory(size_t size)
{
	void *memory = aligned_alloc(4096, align_up_u64(size, 4096));

	assert_non_null(memory);
	memset(memory, 0, align_up_u64(size, 4096));
	return memory;
}

static inline void core_assert(struct core *core)
{
	const char *broken = core_check(&core->master, core->now);

	if (broken != NULL)
		fail_msg("core_check: %s", broken);
}

static inline void core_on_tell(struct holder *holder, uint32_t slot)
{
	struct core *core = container_of(holder, struct core_client, holder)->core;

	assert_true(core->ntells < ARRAY_LEN(core->tells));
	core->tells[core->ntells++] = slot;
}

/* A client's process starts, or comes back under a new incarnation. */
static inline void core_attach(struct core *core, uint32_t client)
{
	struct core_client *at = &core->clients[client];
	struct share_client *entry;

	at->core = core;
	at->cid = client + 1;
	at->ref = client_ref(at->cid, ++core->share.header->last_incarnation);
	at->holder.tell = core_on_tell;
	free(at->holder.counts);
	at->holder.counts = calloc(
		core->share.header->slots_limit, sizeof(at->holder.counts[0]));
	assert_non_null(at->holder.counts);
	entry = &core->share.clients[at->cid];
	entry->incarnation = core->share.header->last_incarnation;
	entry->state = SHARE_CLIENT_LIVE;
	master_client_add(&core->master, at->cid, at->holder.counts);
}

static inline void core_die(struct core *core, uint32_t client)
{
	core->share.clients[core->clients[client].cid].state = SHARE_CLIENT_FREE;
	master_client_gone(&core->master, core->clients[client].cid, core->now);
	core_assert(core);
}

static inline void core_master(struct core *core, struct recovery *ret)
{
	struct master_config config = {
		.low_permille = 10,
		.high_permille = 20,
		.hash_seed = core->share.header->hash_seed,
		.generation_salt = 7,
		.disk = core->disk,
	};

	memset(core->memory, 0, core->memory_size);
	master_init(&core->master, &core->share, &config, core->memory);
	for (uint32_t i = 0; i < CORE_CLIENTS; i++)
		if (core->clients[i].ref != 0 &&
			core->share.clients[core->clients[i].cid].state ==
				SHARE_CLIENT_LIVE)
			master_client_add(&core->master, core->clients[i].cid,
				core->clients[i].holder.counts);
	master_recover(&core->master, core->now, CORE_TIMEOUT, ret);
	core_assert(core);
}

static inline void core_open_disk(struct core *core, uint64_t pool_size, uint32_t nslots,
	uint32_t slots_limit, const struct disk_config *disk)
{
	struct recovery recovery;
	struct share_header *header;

	memset(core, 0, sizeof(*core));
	core->disk = *disk;
	core->now = 1000000000;
	share_init(&core->share, core_memory(share_index_size(slots_limit)),
		core_memory(pool_size));
	header = core->share.header;
	header->slots_limit = slots_limit;
	header->pool_size = pool_size;
	header->hash_seed = 42;
	header->nslots = nslots;
	header->log2_buckets = share_log2_buckets(nslots);
	core->memory_size = master_memory_size(slots_limit, disk);
	core->memory = core_memory(core->memory_size);
	core_master(core, &recovery);
	for (uint32_t i = 0; i < CORE_CLIENTS; i++)
		core_attach(core, i);
}

static inline void core_open(
	struct core *core, uint64_t pool_size, uint32_t nslots, uint32_t slots_limit)
{
	struct disk_config none = {0};

	core_open_disk(core, pool_size, nslots, slots_limit, &none);
}

static inline void core_restart(struct core *core, struct recovery *ret)
{
	core_master(core, ret);
}

static inline void core_close(struct core *core)
{
	core_assert(core);
	for (uint32_t i = 0; i < CORE_CLIENTS; i++)
		free(core->clients[i].holder.counts);
	free(core->share.index);
	free(core->share.pool);
	free(core->memory);
}

static inline struct index_key core_key(const char *text)
{
	uint32_t size = (uint32_t)strlen(text);

	return (struct index_key){text, size, hash_key(text, size, 42)};
}

static inline struct slot *core_slot(struct core *core, uint32_t slot)
{
	return &core->share.slots[slot];
}

static inline uint64_t core_life(struct core *core, uint32_t slot)
{
	return slot_life_of(core_slot(core, slot)->state);
}

static inline enum slot_kind core_kind(struct core *core, uint32_t slot)
{
	return slot_kind_of(core_slot(core, slot)->state);
}

static inline enum object_list core_list(struct core *core, uint32_t slot)
{
	return (enum object_list)core->master.objects[slot].list;
}

static inline struct put_request core_request(
	struct core *core, const char *key, uint64_t size, bool softpin)
{
	return (struct put_request){
		.key = core_key(key),
		.size = size,
		.softpin = softpin,
		.writer = core->clients[0].ref,
		.op = ++core->op,
		.deadline = UINT64_MAX,
	};
}

/* The put is under way. */
static inline uint32_t core_start(struct core *core, const struct put_request *put)
{
	uint32_t slot = SLOT_NONE;

	assert_int_equal(master_put_start(&core->master, put, NULL, &slot), PUT_STARTED);
	core_assert(core);
	return slot;
}

static inline int core_end(struct core *core, uint32_t slot)
{
	int err = master_put_end(&core->master, slot, core_life(core, slot),
		core_slot(core, slot)->writer, core->now, 1000, &core->generation);

	core_assert(core);
	return err;
}

/* A READY object whose bytes are all its slot number at the time. */
static inline uint32_t core_put(
	struct core *core, const char *key, uint64_t size, bool softpin)
{
	struct put_request put = core_request(core, key, size, softpin);
	uint32_t slot = core_start(core, &put);

	memset(core->share.pool + core_slot(core, slot)->off, (int)slot, size);
	assert_int_equal(core_end(core, slot), 0);
	return slot;
}

static inline uint32_t core_find(struct core *core, const char *key)
{
	struct index_key at = core_key(key);

	return master_find(&core->master, &at);
}

static inline int core_remove(struct core *core, const char *key)
{
	struct index_key at = core_key(key);
	int err = master_remove(&core->master, &at, core->now);

	core_assert(core);
	return err;
}

/* A client's hold by the shared index. */
static inline uint32_t core_get(struct core *core, uint32_t client, const char *key)
{
	struct index_key at = core_key(key);
	uint32_t slot = SLOT_NONE;

	assert_int_equal(index_find(&core->share, &core->clients[client].holder, &at,
				 HOLD_COLD, &slot),
		HOLD_OK);
	return slot;
}

static inline void core_give(struct core *core, uint32_t client, uint32_t slot)
{
	assert_true(hold_give(&core->clients[client].holder, core->share.slots, slot));
}

/* A client reads the object, and its hold has ended. */
static inline void core_read(struct core *core, uint32_t client, const char *key)
{
	struct index_key at = core_key(key);
	uint32_t slot = SLOT_NONE;

	assert_int_equal(index_find(&core->share, &core->clients[client].holder, &at,
				 HOLD_HEAT, &slot),
		HOLD_OK);
	core_give(core, client, slot);
}

/* Deliver what clients have told. */
static inline void core_deliver(struct core *core)
{
	for (uint32_t i = 0; i < core->ntells; i++) {
		master_tell(&core->master, core->tells[i], core->now);
		core_assert(core);
	}
	core->ntells = 0;
}

/* Turns of the loop until it rests, with the copies it asks for. */
static inline void core_run(struct core *core)
{
	struct relocation move;
	bool more = true;

	for (uint32_t i = 0; more; i++) {
		assert_true(i < 100000);
		more = master_room_run(&core->master, core->now, 8);
		core_assert(core);
		if (!master_move_next(&core->master, &move))
			continue;
		memcpy(core->share.pool + move.to_off, core->share.pool + move.from_off,
			move.size);
		master_move_done(&core->master, true, core->now);
		core_assert(core);
		more = true;
	}
}

/* How much was due by then, in the pool and on disk. */
static inline uint32_t core_advance(struct core *core, uint64_t ns)
{
	uint32_t count = 0;
	uint64_t hash;

	core->now += ns;
	while (master_advance(&core->master, core->now) != SLOT_NONE ||
		master_disk_expire(&core->master, core->now, &hash)) {
		core_assert(core);
		count++;
	}
	return count;
}

static inline struct pool_use core_use(struct core *core)
{
	struct pool_use use;

	master_use(&core->master, &use);
	return use;
}

static inline void core_assert_empty(struct core *core)
{
	struct pool_use use = core_use(core);

	core_assert(core);
	assert_int_equal(use.free, use.size);
	assert_int_equal(use.objects, 0);
	assert_int_equal(core->master.pinned, 0);
}

#endif
