/* The simulated disk: what it keeps, what it loses, and what it does not let pass. */
#include "unit.h"

#include "disk.h"

#include "base/err.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define POOL  (256u << 10)
#define SLOTS 64u

struct world {
	uint64_t now_ns;
	struct share share;
	struct sim_tier tier;
	struct env_tier env;
};

static _Noreturn void give_up(void *ctx, const char *text)
{
	(void)ctx;
	(void)fprintf(stderr, "%s\n", text);
	abort();
}

static void setup(struct world *world)
{
	memset(world, 0, sizeof(*world));
	world->now_ns = 1;
	share_init(&world->share, calloc(1, share_index_size(SLOTS)), calloc(1, POOL));
	world->share.header->pool_size = POOL;
	world->share.header->slots_limit = SLOTS;
	atomic_store(&world->share.header->nslots, SLOTS);
	sim_tier_open(&world->tier, &(struct sim_tier_setup){.data_size = 1u << 20,
					    .object_limit = 8,
					    .seed = 1,
					    .now_ns = &world->now_ns,
					    .share = &world->share,
					    .fail = give_up});
	world->env = sim_tier_env(&world->tier);
	for (uint32_t i = 0; i < POOL; i++)
		world->share.pool[i] = (unsigned char)(i * 31 + i / 4096);
}

static void teardown(struct world *world)
{
	sim_tier_close(&world->tier);
	free(world->share.index);
	free(world->share.pool);
}

/* Until a job ends; its error. */
static int run(struct world *world, uint32_t wanted)
{
	uint32_t job = TIER_JOB_LIMIT;
	int err = 0;

	world->now_ns += 10000000000ull;
	while (!sim_tier_step(&world->tier, &job, &err))
		;
	assert_int_equal(job, wanted);
	return err;
}

static struct tier_change put_of(uint64_t off, uint64_t size, uint64_t generation)
{
	return (struct tier_change){.record = {.id = {{generation, 7}},
					    .off = off,
					    .size = size,
					    .generation = generation,
					    .klen = 3,
					    .key = "key"}};
}

static struct tier_piece store(struct world *world, uint64_t off, uint64_t size)
{
	struct tier_piece piece = {.pool_off = 8192, .size = size, .seed = 5};

	world->env.write(world->env.ctx, 0, off, &piece, 1);
	assert_int_equal(run(world, 0), 0);
	return piece;
}

static void commit(struct world *world, const struct tier_change *change)
{
	world->env.commit(world->env.ctx, 1, change, 1);
	assert_int_equal(run(world, 1), 0);
}

static void load_slot(
	struct world *world, enum slot_kind kind, uint64_t off, uint64_t size)
{
	struct slot *slot = &world->share.slots[3];

	slot->off = off;
	slot->size = size;
	slot->klen = 3;
	slot->flags = SLOT_COPY;
	atomic_store(&slot->state, SLOT_STATE(kind, 1));
}

/* ---- what it keeps ------------------------------------------------------- */

static void test_write_read(void **state)
{
	struct world world;
	struct tier_piece piece, back = {.pool_off = 65536, .size = 9000, .seed = 5};
	struct tier_record record;

	(void)state;
	setup(&world);
	piece = store(&world, 12288, 9000);
	assert_int_equal(piece.checksum, hash_key(world.share.pool + 8192, 9000, 5));
	commit(&world, &(struct tier_change){.drop = true, .record = {.id = {{9, 9}}}});
	commit(&world, &(struct tier_change[]){put_of(12288, 9000, 1)}[0]);
	assert_true(world.env.adopt(world.env.ctx, 0, &record));
	assert_int_equal(record.off, 12288);
	assert_false(world.env.adopt(world.env.ctx, 1, &record));
	load_slot(&world, SLOT_WRITING, 65536, 9000);
	memset(world.share.pool + 65536, 0, 9001);
	world.env.read(world.env.ctx, 2, 12288, &back);
	assert_int_equal(run(&world, 2), 0);
	assert_int_equal(back.checksum, piece.checksum);
	assert_memory_equal(world.share.pool + 65536, world.share.pool + 8192, 9000);
	assert_int_equal(world.share.pool[65536 + 9000], 0);
	teardown(&world);
}

static void test_value_in_index(void **state)
{
	struct world world;
	struct tier_change change = put_of(TIER_ON_INDEX, 100, 2);
	struct tier_piece piece = {.pool_off = 65536, .size = 100, .seed = 5};
	unsigned char keys[64];

	(void)state;
	setup(&world);
	change.value = 300;
	commit(&world, &change);
	load_slot(&world, SLOT_WRITING, 65536, 100);
	world.env.fetch(world.env.ctx, 2, change.record.id, &piece);
	assert_int_equal(run(&world, 2), 0);
	assert_memory_equal(world.share.pool + 65536, world.share.pool + 300, 100);
	world.env.keys(world.env.ctx, 3, (struct tier_id[]){{{5, 5}}, change.record.id},
		2, keys, sizeof(keys));
	assert_int_equal(run(&world, 3), 0);
	assert_memory_equal(keys, "\0\0\3\0key", 7);
	change.drop = true;
	commit(&world, &change);
	world.env.fetch(world.env.ctx, 2, change.record.id, &piece);
	assert_int_equal(run(&world, 2), ERR_NOT_FOUND);
	teardown(&world);
}

static void test_limit(void **state)
{
	struct world world;

	(void)state;
	setup(&world);
	for (uint64_t i = 1; i <= 9; i++) {
		struct tier_change change = put_of(TIER_ON_INDEX, 10, i);

		world.env.commit(world.env.ctx, 1, &change, 1);
		assert_int_equal(run(&world, 1), i <= 8 ? 0 : ERR_NO_SPACE);
	}
	assert_int_equal(world.tier.committed.count, 8);
	teardown(&world);
}

/* ---- what it loses ------------------------------------------------------- */

static void test_kill_cuts(void **state)
{
	struct world world;
	struct tier_piece piece = {.pool_off = 0, .size = 64 * TIER_BLOCK};
	uint64_t whole = 0;

	(void)state;
	setup(&world);
	for (int i = 0; i < 50; i++) {
		memset(world.tier.data, 0, 64 * TIER_BLOCK);
		world.env.write(world.env.ctx, 0, 0, &piece, 1);
		sim_tier_kill(&world.tier);
		assert_true(sim_tier_is_quiet(&world.tier));
		for (uint64_t block = 0; block < 64; block++)
			whole += memcmp(world.tier.data + block * TIER_BLOCK,
					 world.share.pool + block * TIER_BLOCK,
					 TIER_BLOCK) == 0;
	}
	assert_in_range(whole, 800, 2400);
	assert_in_range(world.tier.cut_writes, 40, 50);
	teardown(&world);
}

static void test_host_loss(void **state)
{
	struct world world;
	struct tier_change first = put_of(0, 9000, 1), second = put_of(16384, 9000, 2);
	uint64_t lost = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 32; seed++) {
		setup(&world);
		rng_init(&world.tier.rng, seed);
		(void)store(&world, 0, 9000);
		commit(&world, &first);
		(void)store(&world, 16384, 9000);
		world.tier.trouble.lying = true;
		commit(&world, &second);
		assert_non_null(sim_tier_find(&world.tier.committed, 2));
		sim_tier_lose_host(&world.tier);
		assert_non_null(sim_tier_find(&world.tier.committed, 1));
		assert_memory_equal(world.tier.data, world.share.pool + 8192, 9000);
		lost += sim_tier_find(&world.tier.committed, 2) == NULL ||
			memcmp(world.tier.data + 16384, world.share.pool + 8192, 9000) !=
				0;
		teardown(&world);
	}
	assert_in_range(lost, 16, 32);
}

static void test_rot(void **state)
{
	struct world world;

	(void)state;
	setup(&world);
	assert_int_equal(sim_tier_rot(&world.tier), 0);
	(void)store(&world, 0, 9000);
	commit(&world, &(struct tier_change[]){put_of(0, 9000, 4)}[0]);
	assert_int_equal(sim_tier_rot(&world.tier), 4);
	assert_memory_not_equal(world.tier.data, world.share.pool + 8192, 9000);
	teardown(&world);
}

/* ---- what it does not let pass ------------------------------------------- */

static void overlap(void *arg)
{
	struct world *world = arg;
	struct tier_piece one = {.size = 9000}, other = {.size = 100};

	world->env.write(world->env.ctx, 0, 0x40000, &one, 1);
	world->env.write(world->env.ctx, 1, 0x42000, &other, 1);
}

static void over_record(void *arg)
{
	struct world *world = arg;
	struct tier_piece piece = {.size = 100};

	world->env.write(world->env.ctx, 0, 8192, &piece, 1);
}

static void changed_pool(void *arg)
{
	struct world *world = arg;
	struct tier_piece piece = {.size = 9000};

	world->env.write(world->env.ctx, 0, 0x40000, &piece, 1);
	world->share.pool[8999]++;
	(void)run(world, 0);
}

static void ready_slot(void *arg)
{
	struct world *world = arg;
	struct tier_piece piece = {.pool_off = 65536, .size = 100};

	load_slot(world, SLOT_READY, 65536, 100);
	world->env.read(world->env.ctx, 0, 0, &piece);
}

static void unwritten_record(void *arg)
{
	struct world *world = arg;
	struct tier_piece piece = {.size = 9000};
	struct tier_change change = put_of(0x40000, 9000, 8);

	world->env.write(world->env.ctx, 0, 0x40000, &piece, 1);
	world->env.commit(world->env.ctx, 1, &change, 1);
}

static void test_promises(void **state)
{
	struct world world;

	(void)state;
	setup(&world);
	(void)store(&world, 0, 9000);
	commit(&world, &(struct tier_change[]){put_of(0, 9000, 4)}[0]);
	assert_true(unit_aborts(overlap, &world));
	assert_true(unit_aborts(over_record, &world));
	assert_true(unit_aborts(changed_pool, &world));
	assert_true(unit_aborts(ready_slot, &world));
	assert_true(unit_aborts(unwritten_record, &world));
	teardown(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_write_read),
	cmocka_unit_test(test_value_in_index),
	cmocka_unit_test(test_limit),
	cmocka_unit_test(test_kill_cuts),
	cmocka_unit_test(test_host_loss),
	cmocka_unit_test(test_rot),
	cmocka_unit_test(test_promises),
};

UNIT_MAIN(tests)
