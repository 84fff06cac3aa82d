/*
 * node_disk.h - the world of node_guest.h with a disk tier in memory beside it.
 *
 * Jobs of the disk take some time of the world's clock: sim_advance() lets them end.
 */
#ifndef UNIT_NODE_DISK_H
#define UNIT_NODE_DISK_H

#include "node_guest.h"

#include "base/hash.h"

#define MIB  (1u << 20)
#define DISK (16u << 20)

static struct sim_tier tier;

static inline void tier_failed(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("the node broke a promise to the disk: %s", text);
}

static inline void open_world_on_disk(uint64_t data_size)
{
	struct sim_setup setup = {.pool_size = POOL, .nslots = 4096, .seed = 1};
	struct sim_tier_setup disk = {
		.data_size = data_size,
		.object_limit = 1024,
		.seed = 1,
		.now_ns = &world.now_ns,
		.share = &world.share,
		.fail = tier_failed,
	};

	sim_world_open(&world, &setup);
	sim_tier_open(&tier, &disk);
	world.tier = &tier;
}

static inline int open_disk(uint64_t data_size)
{
	open_world_on_disk(data_size);
	return sim_start_daemon(&world);
}

static inline int setup_disk(void **state)
{
	(void)state;
	return open_disk(DISK);
}

static inline int setup_small_disk(void **state)
{
	(void)state;
	return open_disk(2 * MIB);
}

static inline int teardown_disk(void **state)
{
	int err = teardown(state);

	sim_tier_close(&tier);
	return err;
}

#define TEST_ON_DISK(name, setup) \
	cmocka_unit_test_setup_teardown(name, setup, teardown_disk)
#define ON_DISK(name) TEST_ON_DISK(name, setup_disk)

/* ---- objects with bytes -------------------------------------------------- */

static inline unsigned char byte_of(const char *key, uint64_t at)
{
	return (unsigned char)(hash_key(key, strlen(key), at / 512) + at);
}

static inline void write_bytes(const char *key, uint64_t off, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		world.share.pool[off + i] = byte_of(key, i);
}

static inline bool bytes_are(uint32_t slot, const char *key, uint64_t size)
{
	const struct slot *there = &world.share.slots[slot];

	if (there->size != size)
		return false;
	for (uint64_t i = 0; i < size; i++) {
		if (world.share.pool[there->off + i] != byte_of(key, i))
			return false;
	}
	return true;
}

static inline void pass(uint64_t ns)
{
	assert_true(sim_advance(&world, ns));
}

/* A put of `size` bytes, which may take its time; the last of its answers is left. */
static inline void send_object(
	struct guest *guest, const char *key, uint64_t size, uint32_t flags)
{
	struct msg_put_started started;

	send_start(guest, key, size, flags, 5 * SECOND);
	pass(SECOND);
	WANT(guest->lane, put_started, &started);
	write_bytes(key, started.off, size);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = 5 * SECOND);
}

static inline uint64_t object(struct guest *guest, const char *key, uint64_t size)
{
	send_object(guest, key, size, PUT_SOFTPIN);
	return want_done(guest->lane);
}

/* Fill the pool with softpin objects p0 ... until `keys` of them are there. */
static inline void crowd(struct guest *guest, unsigned keys, uint64_t size)
{
	char key[16];

	for (unsigned i = 0; i < keys; i++) {
		(void)snprintf(key, sizeof(key), "p%u", i);
		(void)object(guest, key, size);
	}
}

static inline struct msg_stated stat_of(struct guest *guest, const char *key)
{
	struct msg_stated stated;

	SEND(guest->lane, stat, .key = text(key));
	WANT(guest->lane, stated, &stated);
	return stated;
}

/* Put one object and have it leave the pool, for others that go again. */
static inline void put_on_disk(struct guest *guest, const char *key, uint64_t size)
{
	char other[16];
	unsigned count = 0;

	(void)object(guest, key, size);
	while (stat_of(guest, key).flags & STAT_IN_POOL) {
		assert_in_range(count, 0, 30);
		(void)snprintf(other, sizeof(other), "c%u", count++);
		(void)object(guest, other, MIB / 2);
	}
	while (count-- > 0) {
		(void)snprintf(other, sizeof(other), "c%u", count);
		SEND(guest->lane, remove, .key = text(other));
		pass(SECOND);
		(void)want_done(guest->lane);
	}
}

/* Loses the pool: all that there is is on disk then. */
static inline void lose_host(struct guest *guest)
{
	sim_process_end(&world, guest->pid);
	sim_kill_daemon(&world);
	sim_tier_lose_host(&tier);
	sim_world_lose(&world);
	assert_int_equal(sim_start_daemon(&world), 0);
	*guest = attach();
}

static inline void want_bytes(struct guest *guest, const char *key, uint64_t size)
{
	struct msg_found found;

	send_get(guest->lane, key, 0, 5 * SECOND);
	pass(SECOND);
	WANT(guest->lane, found, &found);
	assert_true(bytes_are(found.slot, key, size));
	SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
}

static inline uint64_t generation_on_disk(uint64_t generation)
{
	return sim_tier_find(&tier.committed, generation) != NULL;
}

#endif
