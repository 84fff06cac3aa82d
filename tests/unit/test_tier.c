/*
 * Tests of tier/store.h: bytes there and back, the index, the records of the next start.
 */
#include "tier_fixture.h"

#include "base/attr.h"

#include <sys/resource.h>

/* ---- bytes --------------------------------------------------------------- */

/* Write from one place of the pool, read to another: what was there, and nothing behind. */
static void there_and_back(
	struct rig *rig, uint64_t off, uint64_t from, uint64_t to, uint64_t size)
{
	struct tier_piece out = {.pool_off = from, .size = size, .seed = size + 1};
	struct tier_piece in = {.pool_off = to, .size = size, .seed = size + 1};

	fill(rig->pool + from, size, size ^ from);
	memset(rig->pool + to - 1, 0xa5, size + 4098);
	assert_int_equal(rig_write(rig, off, &out, 1), 0);
	assert_int_equal(rig_read(rig, off, &in), 0);
	assert_memory_equal(rig->pool + from, rig->pool + to, size);
	assert_true(out.checksum == hash_key(rig->pool + from, size, size + 1));
	assert_true(in.checksum == out.checksum);
	assert_int_equal(rig->pool[to - 1], 0xa5);
	for (uint64_t i = 0; i < 4097; i++)
		assert_int_equal(rig->pool[to + size + i], 0xa5);
}

static void test_sizes(void **state)
{
	static const uint64_t sizes[] = {1, 2, 511, 512, 2047, 2048, 2049, 4095, 4096,
		4097, 8192, 16383, 65536, 65537, 256 << 10, 1 << 20, (4 << 20) - 1,
		4 << 20, (4 << 20) + 1, (4 << 20) + 4096, (8 << 20) + 5000, 9 << 20};
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		there_and_back(rig, i * 4096, 16 * MIB, 32 * MIB, sizes[i]);
}

static void test_alignments(void **state)
{
	static const uint64_t sizes[] = {
		1, 256, 2500, 4096, 5000, 12288, 20000, 5 * MIB + 7};
	static const uint64_t places[] = {0, 1, 256, 512, 3840, 4095};
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		for (size_t j = 0; j < ARRAY_LEN(places); j++)
			there_and_back(rig, 4096 * (i + j), 16 * MIB + places[j],
				32 * MIB + places[(i + j) % ARRAY_LEN(places)], sizes[i]);
	}
}

/* The last block of the data file is as good as the first, and is the last. */
static void test_whole_file(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	there_and_back(rig, 0, 16 * MIB, 32 * MIB, 4096);
	there_and_back(rig, rig->env.data_size - 4096, 16 * MIB, 32 * MIB, 4096);
	there_and_back(rig, rig->env.data_size - 5 * MIB, 16 * MIB, 32 * MIB, 5 * MIB);
	assert_int_equal(rig->env.data_size % 4096, 0);
}

/* A write of many pieces puts each on the next block; they are read one by one. */
static void batch(struct rig *rig, uint32_t count, uint64_t step, uint64_t seed)
{
	static struct tier_piece pieces[TIER_PIECES];
	uint64_t at = 0, off = 8192;
	struct rng rng;

	rng_init(&rng, seed);
	for (uint32_t i = 0; i < count; i++) {
		pieces[i] = (struct tier_piece){.pool_off = at,
			.size = 1 + rng_next(&rng) % (2 * step),
			.seed = i};
		fill(rig->pool + at, pieces[i].size, seed + i);
		at = align_up_u64(at + pieces[i].size, rng_next(&rng) % 2 ? 256 : 4096);
	}
	assert_true(at < 48 * MIB);
	assert_int_equal(rig_write(rig, off, pieces, count), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct tier_piece in = {
			.pool_off = 48 * MIB, .size = pieces[i].size, .seed = i};

		assert_int_equal(rig_read(rig, off, &in), 0);
		assert_memory_equal(
			rig->pool + 48 * MIB, rig->pool + pieces[i].pool_off, in.size);
		assert_true(in.checksum == pieces[i].checksum);
		assert_true(in.checksum ==
			    hash_key(rig->pool + pieces[i].pool_off, in.size, i));
		off += align_up_u64(in.size, 4096);
	}
}

static void test_batches(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	batch(rig, 2, 3 * MIB, 1);
	batch(rig, 7, 3 * MIB, 2);
	batch(rig, 100, 200000, 3);
	batch(rig, TIER_PIECES, 2500, 4);
	batch(rig, TIER_PIECES, 12000, 5);
}

/* All jobs at once: large and small, reads and writes, each with its own end. */
static void test_many_jobs(void **state)
{
	static struct tier_piece pieces[TIER_JOB_LIMIT];
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		uint64_t size = i % 8 == 0 ? 500000 : 5000 + i;

		pieces[i] = (struct tier_piece){.pool_off = i * MIB / 2, .size = size};
		fill(rig->pool + pieces[i].pool_off, size, i);
		rig_begin(rig, i);
		rig->env.write(rig->env.ctx, i, i * MIB, &pieces[i], 1);
	}
	rig_wait(rig);
	memset(rig->pool, 0, RIG_POOL);
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		uint64_t checksum = pieces[i].checksum;

		assert_int_equal(rig->ends[i], 0);
		pieces[i].seed = 0;
		pieces[i].checksum = ~checksum;
		rig_begin(rig, i);
		rig->env.read(rig->env.ctx, i, i * MIB, &pieces[i]);
		rig_wait(rig);
		assert_true(pieces[i].checksum == checksum);
	}
}

/* ---- the index ----------------------------------------------------------- */

static void test_fetch(void **state)
{
	static const uint64_t sizes[] = {0, 1, 100, 700, TIER_INLINE - 1, TIER_INLINE};
	struct rig *rig = *state;
	struct tier_change changes[ARRAY_LEN(sizes)];
	char keys[ARRAY_LEN(sizes)][RIG_KEY_SIZE];
	struct tier_piece in = {.pool_off = MIB, .seed = 4};

	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		changes[i] = store_of(i, TIER_ON_INDEX, sizes[i], keys[i]);
		changes[i].value = i * 4096 + 77;
		fill(rig->pool + changes[i].value, sizes[i], i);
	}
	assert_int_equal(rig_commit(rig, changes, ARRAY_LEN(sizes)), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		in.size = sizes[i];
		memset(rig->pool + MIB, 0x5a, 4096);
		assert_int_equal(rig_fetch(rig, changes[i].record.id, &in), 0);
		assert_memory_equal(
			rig->pool + MIB, rig->pool + changes[i].value, in.size);
		assert_int_equal(rig->pool[MIB + in.size], 0x5a);
		assert_true(in.checksum == hash_key(rig->pool + MIB, in.size, 4));
	}
	in.size = 99; /* not what was stored */
	assert_int_equal(rig_fetch(rig, changes[2].record.id, &in), ERR_CORRUPT);
	assert_int_equal(rig_fetch(rig, drop_of(77).record.id, &in), ERR_NOT_FOUND);
}

static uint64_t found_count(struct rig *rig)
{
	struct tier_record record;
	uint64_t at = 0;

	while (rig->env.adopt(rig->env.ctx, at, &record))
		at++;
	assert_false(rig->env.adopt(rig->env.ctx, 0, &record)); /* they are given back */
	return at;
}

/* Changes of one commit are made in their order; the last one of a key stays. */
static void test_order(void **state)
{
	struct rig *rig = *state;
	char key[RIG_KEY_SIZE];
	struct tier_change changes[4];
	struct tier_record record;

	assert_int_equal(rig_open(rig), 0);
	changes[0] = store_of(1, 0, 4096, key);
	changes[1] = drop_of(1);
	changes[2] = store_of(1, 8192, 5000, key);
	changes[3] = drop_of(2); /* there is none: fine */
	assert_int_equal(rig_commit(rig, changes, 4), 0);
	rig_reopen(rig);
	assert_true(rig->env.adopt(rig->env.ctx, 0, &record));
	assert_int_equal(record.off, 8192);
	assert_int_equal(found_count(rig), 1);
	assert_int_equal(rig_commit(rig, changes, 2), 0);
	rig_reopen(rig);
	assert_int_equal(found_count(rig), 0);
}

/* Every field comes back, by rising offset, what lies in the index last. */
static void test_adopt(void **state)
{
	static const uint64_t offs[] = {40960, TIER_ON_INDEX, 0, 8192};
	struct rig *rig = *state;
	struct tier_change changes[4];
	char keys[4][RIG_KEY_SIZE];
	struct tier_record record;
	static const uint32_t order[] = {2, 3, 0, 1};
	struct store_info info;

	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(found_count(rig), 0);
	for (uint32_t i = 0; i < 4; i++) {
		changes[i] = store_of(i, offs[i], i == 1 ? 33 : 4096 * i + 5, keys[i]);
		changes[i].record.flags = TIER_COUNTED | i;
		changes[i].record.readers_left = (uint16_t)(65535 - i);
	}
	assert_int_equal(rig_commit(rig, changes, 4), 0);
	rig_reopen(rig);
	store_info(rig->store, &info);
	assert_int_equal(info.objects, 4);
	assert_int_equal(info.skipped, 0);
	assert_string_equal(rig->warnings, "");
	for (uint32_t i = 0; i < 4; i++) {
		const struct tier_record *want = &changes[order[i]].record;

		assert_true(rig->env.adopt(rig->env.ctx, i, &record));
		assert_memory_equal(&record.id, &want->id, sizeof(want->id));
		assert_true(record.off == want->off && record.size == want->size);
		assert_true(record.generation == want->generation);
		assert_true(record.checksum == want->checksum);
		assert_int_equal(record.flags, want->flags);
		assert_int_equal(record.readers_left, want->readers_left);
		assert_int_equal(record.ttl_ns, 0);
		assert_int_equal(record.klen, want->klen);
		assert_memory_equal(record.key, want->key, want->klen);
	}
	assert_false(rig->env.adopt(rig->env.ctx, 4, &record));
}

/* A change without a key counts reads: all else stays, the value and the time too. */
static void test_recount(void **state)
{
	struct rig *rig = *state;
	char keys[3][RIG_KEY_SIZE];
	struct tier_change changes[3] = {store_of(0, TIER_ON_INDEX, 700, keys[0]),
		store_of(1, 8192, 9000, keys[1]), store_of(2, 0, 1, keys[2])};
	struct tier_piece in = {.pool_off = MIB, .size = 700};
	struct tier_record record;

	assert_int_equal(rig_open(rig), 0);
	fill(rig->pool, 700, 9);
	changes[0].record.ttl_ns = 3600000000000ull;
	changes[0].record.readers_left = changes[1].record.readers_left = 9;
	assert_int_equal(rig_commit(rig, changes, 2), 0);
	memset(rig->pool, 0, 700);
	for (uint32_t i = 0; i < 3; i++) {
		changes[i].record.key = NULL;
		changes[i].record.readers_left = 4;
	}
	changes[1].record.generation++; /* not that object any more */
	assert_int_equal(rig_commit(rig, changes, 3), 0);
	rig_reopen(rig);
	assert_true(rig->env.adopt(rig->env.ctx, 0, &record));
	assert_int_equal(record.readers_left, 9);
	assert_true(rig->env.adopt(rig->env.ctx, 1, &record));
	assert_int_equal(record.readers_left, 4);
	assert_true(record.ttl_ns > 3500000000000ull);
	assert_int_equal(record.klen, RIG_KEY_SIZE - 1);
	assert_memory_equal(record.key, keys[0], record.klen);
	assert_false(rig->env.adopt(rig->env.ctx, 2, &record));
	assert_int_equal(rig_fetch(rig, changes[0].record.id, &in), 0);
	fill(rig->pool, 700, 9);
	assert_memory_equal(rig->pool, rig->pool + MIB, 700);
}

static void test_long_key(void **state)
{
	struct rig *rig = *state;
	char key[1024], small[RIG_KEY_SIZE];
	struct tier_change change = store_of(5, TIER_ON_INDEX, TIER_INLINE, small);
	struct tier_piece in = {.pool_off = MIB, .size = TIER_INLINE};
	struct tier_record record;

	assert_int_equal(rig_open(rig), 0);
	fill((unsigned char *)key, sizeof(key), 3);
	fill(rig->pool, TIER_INLINE, 4);
	change.record.key = key;
	change.record.klen = sizeof(key);
	assert_int_equal(rig_commit(rig, &change, 1), 0);
	rig_reopen(rig);
	assert_true(rig->env.adopt(rig->env.ctx, 0, &record));
	assert_int_equal(record.klen, sizeof(key));
	assert_memory_equal(record.key, key, sizeof(key));
	assert_int_equal(rig_fetch(rig, change.record.id, &in), 0);
	assert_memory_equal(rig->pool, rig->pool + MIB, TIER_INLINE);
}

/* On one boot the time goes on while no daemon runs; it never becomes "none". */
static void test_ttl(void **state)
{
	struct rig *rig = *state;
	char keys[2][RIG_KEY_SIZE];
	struct tier_change changes[2] = {
		store_of(1, 0, 4096, keys[0]), store_of(2, 4096, 4096, keys[1])};
	uint64_t before, passed;
	struct tier_record record;

	assert_int_equal(rig_open(rig), 0);
	changes[0].record.ttl_ns = 3600000000000ull;
	changes[1].record.ttl_ns = 1;
	before = loop_boot_ns();
	assert_int_equal(rig_commit(rig, changes, 2), 0);
	rig_reopen(rig);
	assert_true(rig->env.adopt(rig->env.ctx, 0, &record));
	passed = loop_boot_ns() - before;
	assert_true(record.ttl_ns < 3600000000000ull);
	assert_true(record.ttl_ns >= 3600000000000ull - passed);
	assert_true(rig->env.adopt(rig->env.ctx, 1, &record));
	assert_int_equal(record.ttl_ns, 1);
}

static void test_keys(void **state)
{
	struct rig *rig = *state;
	char keys[3][RIG_KEY_SIZE];
	struct tier_change changes[3];
	struct tier_id ids[4];
	unsigned char buffer[512];
	uint16_t length;

	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < 3; i++) {
		changes[i] = store_of(i, 4096 * i, 4096, keys[i]);
		ids[i == 2 ? 3 : i] = changes[i].record.id;
	}
	ids[2] = drop_of(9).record.id;
	assert_int_equal(rig_commit(rig, changes, 3), 0);
	rig_begin(rig, 7);
	rig->env.keys(rig->env.ctx, 7, ids, 4, buffer, sizeof(buffer));
	assert_int_equal(rig_end(rig, 7), 0);
	memcpy(&length, buffer, 2);
	assert_int_equal(length, RIG_KEY_SIZE - 1);
	assert_memory_equal(buffer + 2, keys[0], length);
	assert_memory_equal(buffer + 4 + length, keys[1], length);
	assert_memory_equal(buffer + 4 + 2 * length, "\0\0", 2);
	assert_memory_equal(buffer + 8 + 2 * length, keys[2], length);
	/* Room for two of them. */
	rig_begin(rig, 7);
	rig->env.keys(rig->env.ctx, 7, ids, 4, buffer, 8 + 2 * RIG_KEY_SIZE);
	assert_int_equal(rig_end(rig, 7), 0);
	assert_memory_equal(buffer + 4 + length, keys[1], length);
	assert_memory_equal(buffer + 4 + 2 * length, "\0\0\0\0", 4);
}

/* What is stored, dropped and stored again at random is what the next start finds, and each
 * of the many shapes that the index takes meanwhile passes the look at its pages. */
static void test_churn(void **state)
{
	enum {
		KEYS = 3000,
		ROUNDS = 120
	};
	static struct tier_change changes[TIER_PIECES];
	static char keys[TIER_PIECES][RIG_KEY_SIZE];
	static uint64_t size_of[KEYS]; /* 0: not stored */
	struct rig *rig = *state;
	uint64_t live = 0;
	struct tier_record record;
	struct rng rng;

	memset(size_of, 0, sizeof(size_of));
	rng_init(&rng, 11);
	assert_int_equal(rig_open(rig), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t count = 1 + (uint32_t)(rng_next(&rng) % (round % 4 ? 40 : 1024));

		for (uint32_t i = 0; i < count; i++) {
			uint64_t number = rng_next(&rng) % KEYS;
			bool drop = rng_next(&rng) % 8 < (round / 30 % 2 ? 6 : 3);
			uint64_t size = 1 + rng_next(&rng) % TIER_INLINE;

			changes[i] = drop ? drop_of(number)
					  : store_of(
						    number, TIER_ON_INDEX, size, keys[i]);
			size_of[number] = drop ? 0 : size;
		}
		assert_int_equal(rig_commit(rig, changes, count), 0);
		if (round % 5 == 0) {
			rig_reopen(rig);
			assert_string_equal(rig->warnings, "");
		}
	}
	rig_reopen(rig);
	for (uint64_t i = 0; i < KEYS; i++)
		live += size_of[i] != 0;
	for (uint64_t i = 0; rig->env.adopt(rig->env.ctx, i, &record); i++) {
		assert_int_equal(record.size, size_of[record.generation - 1]);
		live--;
	}
	assert_int_equal(live, 0);
}

/* ---- the file system ----------------------------------------------------- */

static void test_punch(void **state)
{
	struct rig *rig = *state;
	struct tier_piece piece = {.pool_off = 0, .size = 8 * MIB};
	struct tier_change drop = drop_of(1);
	uint64_t before, with;

	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(rig_commit(rig, &drop, 1), 0);
	before = rig->env.backed(rig->env.ctx);
	fill(rig->pool, 8 * MIB, 1);
	assert_int_equal(rig_write(rig, 16 * MIB, &piece, 1), 0);
	assert_int_equal(rig_commit(rig, &drop, 1), 0);
	with = rig->env.backed(rig->env.ctx);
	assert_true(with >= before + 8 * MIB);
	assert_int_equal(rig_punch(rig, 16 * MIB, 8 * MIB), 0);
	assert_true(rig->env.backed(rig->env.ctx) <= with - 8 * MIB);
	assert_int_equal(rig_read(rig, 16 * MIB, &piece), 0);
	for (uint64_t i = 0; i < 8 * MIB; i++)
		assert_int_equal(rig->pool[i], 0);
}

/* All files together stay within the size, with every byte of the data file written. */
static void test_limit(void **state)
{
	struct rig *rig = *state;
	struct tier_piece piece = {.size = 32 * MIB};
	struct tier_change drop = drop_of(1);
	uint64_t taken = 0;
	struct stat file;
	char path[512];
	static const char *const names[] = {"lock", "objects", "index"};

	rig->config.disk_size = 64 * MIB;
	assert_int_equal(rig_open(rig), 0);
	for (uint64_t off = 0; off < rig->env.data_size; off += piece.size) {
		piece.size = MIN(32 * MIB, rig->env.data_size - off);
		assert_int_equal(rig_write(rig, off, &piece, 1), 0);
	}
	assert_int_equal(rig_commit(rig, &drop, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		rig_path(rig, names[i], path);
		assert_int_equal(stat(path, &file), 0);
		taken += (uint64_t)file.st_blocks * 512;
	}
	assert_true(taken <= 64 * MIB);
	assert_true(rig->env.data_size >= 47 * MIB);
}

static uint32_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	(void)closedir(dir);
	return count;
}

static void test_descriptors(void **state)
{
	struct rig *rig = *state;
	uint32_t before = descriptors(), open;
	char key[RIG_KEY_SIZE];
	struct tier_piece piece = {.size = 6 * MIB};

	assert_int_equal(rig_open(rig), 0);
	open = descriptors();
	assert_true(open <= before + 6);
	for (uint32_t i = 0; i < 40; i++) {
		struct tier_change change = store_of(i, 4096 * i, 4096, key);

		assert_int_equal(rig_write(rig, 0, &piece, 1), 0);
		assert_int_equal(rig_commit(rig, &change, 1), 0);
	}
	assert_int_equal(descriptors(), open);
	for (uint32_t i = 0; i < 5; i++)
		rig_reopen(rig);
	assert_int_equal(descriptors(), open);
	rig_close(rig);
	assert_int_equal(descriptors(), before);
}

/* A close waits for the jobs: their memory may go after it. */
static void test_close_waits(void **state)
{
	struct rig *rig = *state;
	struct tier_piece *pieces = calloc(8, sizeof(*pieces));
	struct tier_piece in = {.pool_off = 32 * MIB, .size = 4 * MIB};

	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < 8; i++) {
		pieces[i] = (struct tier_piece){.pool_off = i * 4 * MIB, .size = 4 * MIB};
		fill(rig->pool + pieces[i].pool_off, 4 * MIB, i);
		rig_begin(rig, i);
		rig->env.write(rig->env.ctx, i, i * 4 * MIB, &pieces[i], 1);
	}
	rig_close(rig);
	free(pieces);
	assert_int_equal(rig->under_way, 8); /* told to nobody */
	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rig_read(rig, i * 4 * MIB, &in), 0);
		assert_memory_equal(
			rig->pool + 32 * MIB, rig->pool + i * 4 * MIB, 4 * MIB);
	}
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

static const struct CMUnitTest tests[] = {
	RIG_TEST(test_sizes),
	RIG_TEST(test_alignments),
	RIG_TEST(test_whole_file),
	RIG_TEST(test_batches),
	RIG_TEST(test_many_jobs),
	RIG_TEST(test_fetch),
	RIG_TEST(test_order),
	RIG_TEST(test_adopt),
	RIG_TEST(test_recount),
	RIG_TEST(test_long_key),
	RIG_TEST(test_ttl),
	RIG_TEST(test_keys),
	RIG_TEST(test_churn),
	RIG_TEST(test_punch),
	RIG_TEST(test_limit),
	RIG_TEST(test_descriptors),
	RIG_TEST(test_close_waits),
};

UNIT_MAIN(tests)
