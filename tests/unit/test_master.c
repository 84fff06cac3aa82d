/*
 * The master's door, one verdict at a time: put, end, abort, remove, take, pin, ttl, list,
 * clients that die, slots that run out, and what an object costs.
 */
#include "core_fixture.h"

#include <sys/mman.h>

#define POOL (256 * KIB)

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
}

static enum put_verdict start(
	struct core *core, const struct put_request *put, uint32_t *ret_slot)
{
	enum put_verdict verdict = master_put_start(&core->master, put, NULL, ret_slot);

	core_assert(core);
	return verdict;
}

/* ---- put ----------------------------------------------------------------------------- */

static void test_put_and_find(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 1000, CORE_CACHE);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(core_find(&core, "b"), SLOT_NONE);
	assert_int_equal(core_get(&core, 1, "a"), slot);
	assert_int_equal(core_slot(&core, slot)->size, 1000);
	core_give(&core, 1, slot);
	assert_int_equal(core_use(&core).inactive, 1024);
	assert_int_equal(core_remove(&core, "a"), 0);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_unfinished_put_is_invisible(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	slot = core_start(&core, &put);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(core_use(&core).writing, 256);
	assert_int_equal(master_client_put(&core.master, core.clients[0].cid), slot);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(master_client_put(&core.master, core.clients[0].cid), SLOT_NONE);
	core_close(&core);
}

static void test_put_verdicts(void **state)
{
	struct core core;
	struct put_request put, other, large;
	uint32_t slot, again = SLOT_NONE;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	other = core_request(&core, "a", 20, CORE_CACHE);
	slot = core_start(&core, &put);
	assert_int_equal(start(&core, &other, &again), PUT_BUSY);
	assert_int_equal(again, slot);
	assert_int_equal(start(&core, &put, &again), PUT_REPEATED);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(start(&core, &other, &again), PUT_EXISTS);
	assert_int_equal(start(&core, &put, &again), PUT_REPEATED);
	assert_int_equal(again, slot);
	/* The number is each client's own. */
	put.writer = core.clients[1].ref;
	assert_int_equal(start(&core, &put, &again), PUT_EXISTS);
	large = core_request(&core, "b", POOL + 1, CORE_CACHE);
	assert_int_equal(start(&core, &large, &again), PUT_TOO_LARGE);
	large = core_request(&core, "b", UINT64_MAX, CORE_CACHE);
	assert_int_equal(start(&core, &large, &again), PUT_TOO_LARGE);
	large = core_request(&core, "b", POOL, CORE_CACHE);
	assert_int_equal(start(&core, &large, &again), PUT_NO_ROOM);
	core_close(&core);
}

static void test_empty_object(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "empty", 0, CORE_SOFTPIN);
	assert_int_equal(core_get(&core, 0, "empty"), slot);
	assert_int_equal(core_slot(&core, slot)->size, 0);
	assert_int_equal(core_use(&core).dirty, 256);
	core_give(&core, 0, slot);
	core_close(&core);
}

static void test_largest_fits(void **state)
{
	char longest[KEY_LIMIT + 1];
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	memset(longest, 'k', KEY_LIMIT);
	longest[KEY_LIMIT] = '\0';
	open_small(&core);
	for (int i = 0; i < 2; i++) {
		const char *key = i == 0 ? "short" : longest;
		uint64_t largest = master_largest(&core.master, (uint32_t)strlen(key));

		assert_int_equal(largest, i == 0 ? POOL : POOL - KEY_LIMIT);
		put = core_request(&core, key, largest + 1, CORE_CACHE);
		assert_int_equal(start(&core, &put, &slot), PUT_TOO_LARGE);
		slot = core_put(&core, key, largest, CORE_CACHE);
		assert_int_equal(core_use(&core).free, 0);
		assert_int_equal(core_get(&core, 0, key), slot);
		core_give(&core, 0, slot);
		assert_int_equal(core_remove(&core, key), 0);
	}
	core_close(&core);
}

static void test_end_and_abort(void **state)
{
	struct core core;
	struct put_request put;
	uint64_t life, generation;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	slot = core_start(&core, &put);
	life = core_life(&core, slot);
	/* Another writer, another life, another slot. */
	assert_int_equal(master_put_end(&core.master, slot, life, core.clients[1].ref,
				 core.now, 0, &generation),
		ERR_NOT_FOUND);
	assert_int_equal(master_put_end(&core.master, slot, life + 1, put.writer,
				 core.now, 0, &generation),
		ERR_NOT_FOUND);
	assert_int_equal(master_put_end(&core.master, UINT32_MAX, life, put.writer,
				 core.now, 0, &generation),
		ERR_NOT_FOUND);
	assert_int_equal(master_put_abort(&core.master, slot, life + 1, put.writer),
		ERR_NOT_FOUND);
	assert_int_equal(master_put_abort(&core.master, slot, life, put.writer), 0);
	core_assert_empty(&core);
	assert_int_equal(
		master_put_abort(&core.master, slot, life, put.writer), ERR_NOT_FOUND);
	assert_int_equal(master_put_end(&core.master, slot, life, put.writer, core.now, 0,
				 &generation),
		ERR_NOT_FOUND);
	/* What is READY cannot be aborted. */
	slot = core_put(&core, "b", 10, CORE_CACHE);
	assert_int_equal(master_put_abort(&core.master, slot, core_life(&core, slot),
				 core.clients[0].ref),
		ERR_NOT_FOUND);
	core_close(&core);
}

static void test_generations_rise(void **state)
{
	struct core core;
	uint64_t first;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 10, CORE_CACHE);
	first = core.generation;
	(void)core_put(&core, "b", 10, CORE_CACHE);
	assert_true(core.generation > first);
	assert_int_equal(core.generation & 4095, 7); /* the salt of this start */
	core_close(&core);
}

static void test_late_put(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot, other;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	put.deadline = core.now + 500;
	slot = core_start(&core, &put);
	assert_int_equal(master_next(&core.master), core.now + 500);
	core.now += 499;
	assert_int_equal(master_advance(&core.master, core.now), SLOT_NONE);
	core.now++;
	assert_int_equal(master_advance(&core.master, core.now), slot);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	/* The key passes on, the run stays. */
	assert_int_equal(core_use(&core).writing, 256);
	other = core_put(&core, "a", 20, CORE_CACHE);
	assert_int_not_equal(other, slot);
	assert_int_equal(core_end(&core, slot), ERR_TIMEOUT);
	assert_int_equal(core_find(&core, "a"), other);
	assert_int_equal(core_use(&core).writing, 0);
	core_close(&core);
}

static void test_doomed_put(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	put.deadline = core.now + 500;
	slot = core_start(&core, &put);
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(core_remove(&core, "a"), ERR_NOT_FOUND);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	assert_int_equal(core_end(&core, slot), ERR_REMOVED);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_puts_of_the_dead_vanish(void **state)
{
	struct core core;
	struct put_request put;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	(void)core_start(&core, &put);
	put = core_request(&core, "late", 10, CORE_CACHE);
	put.deadline = core.now;
	(void)core_start(&core, &put);
	assert_int_equal(core_advance(&core, 0), 1);
	put = core_request(&core, "b", 10, CORE_CACHE);
	put.writer = core.clients[1].ref;
	(void)core_start(&core, &put);
	core_die(&core, 0);
	assert_int_equal(core_use(&core).writing, 256);
	core_die(&core, 1);
	core_assert_empty(&core);
	core_close(&core);
}

/* ---- end ----------------------------------------------------------------------------- */

static void test_remove_while_held(void **state)
{
	struct core core;
	uint32_t slot, other;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	assert_int_equal(core_get(&core, 0, "a"), slot);
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	assert_int_equal(core_use(&core).condemned, 256);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	other = core_put(&core, "a", 10, CORE_CACHE);
	assert_int_not_equal(other, slot);
	core_give(&core, 0, slot);
	assert_int_equal(core.ntells, 1);
	assert_int_equal(core.tells[0], slot);
	core_deliver(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_FREE);
	assert_int_equal(core_find(&core, "a"), other);
	core_close(&core);
}

/* Two clients hold: only the last release frees. */
static void test_the_last_of_two_frees(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	(void)core_get(&core, 0, "a");
	(void)core_get(&core, 1, "a");
	assert_int_equal(core_remove(&core, "a"), 0);
	core_give(&core, 0, slot);
	core_deliver(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	core_give(&core, 1, slot);
	core_deliver(&core);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_condemned_goes_with_a_death(void **state)
{
	struct core core;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "a", 10, CORE_CACHE);
	(void)core_get(&core, 2, "a");
	assert_int_equal(core_remove(&core, "a"), 0);
	core_die(&core, 2);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_pins(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	master_pin(&core.master, slot);
	master_pin(&core.master, slot);
	assert_int_equal(core_remove(&core, "a"), 0);
	master_unpin(&core.master, slot, core.now);
	core_assert(&core);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	assert_true(master_is_life(&core.master, slot, core_life(&core, slot)));
	master_unpin(&core.master, slot, core.now);
	assert_false(master_is_life(&core.master, slot, core_life(&core, slot)));
	assert_false(master_is_life(&core.master, UINT32_MAX, 0));
	core_assert_empty(&core);
	core_close(&core);
}

static int take(struct core *core, uint32_t slot, uint32_t client, uint64_t op)
{
	int err = master_take(&core->master, slot, core_life(core, slot),
		core->clients[client].ref, op, core->now);

	core_assert(core);
	return err;
}

static void test_take_has_one_winner(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_SOFTPIN);
	(void)core_get(&core, 0, "a");
	(void)core_get(&core, 1, "a");
	assert_int_equal(take(&core, slot, 1, 77), 0);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(take(&core, slot, 1, 77), 0); /* the answer was lost */
	assert_int_equal(take(&core, slot, 1, 78), ERR_NOT_FOUND);
	assert_int_equal(take(&core, slot, 0, 77), ERR_NOT_FOUND);
	assert_int_equal(core_remove(&core, "a"), ERR_NOT_FOUND);
	core_give(&core, 0, slot);
	core_give(&core, 1, slot);
	core_deliver(&core);
	core_assert_empty(&core);
	assert_int_equal(take(&core, slot, 1, 77), ERR_NOT_FOUND);
	core_close(&core);
}

static void test_take_after_remove(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_SOFTPIN);
	(void)core_get(&core, 0, "a");
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(take(&core, slot, 0, 77), ERR_NOT_FOUND);
	/* Another object under the key is not the one that was held. */
	(void)core_put(&core, "a", 10, CORE_SOFTPIN);
	assert_int_equal(take(&core, slot, 0, 77), ERR_NOT_FOUND);
	assert_int_not_equal(core_find(&core, "a"), SLOT_NONE);
	core_give(&core, 0, slot);
	put = core_request(&core, "b", 10, CORE_CACHE);
	slot = core_start(&core, &put);
	assert_int_equal(take(&core, slot, 0, 77), ERR_NOT_FOUND); /* not READY */
	core_close(&core);
}

/* ---- ttl, list ----------------------------------------------------------------------- */

static void test_ttl(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	put.ttl_ns = 1000;
	slot = core_start(&core, &put);
	core.now += 5000; /* it counts from the end of the put */
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(master_next(&core.master), core.now + 1000);
	assert_int_equal(core_advance(&core, 999), 0);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(core_get(&core, 0, "a"), slot); /* a read does not renew it */
	assert_int_equal(core_advance(&core, 1), 1);
	assert_int_equal(core_find(&core, "a"), SLOT_NONE);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_assert_empty(&core);
	assert_int_equal(core.master.stats.expired, 1);
	core_close(&core);
}

static void test_ttl_without_end(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	put.ttl_ns = UINT64_MAX;
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	assert_int_equal(core_advance(&core, 1ull << 60), 0);
	assert_int_equal(core_find(&core, "a"), slot);
	core_close(&core);
}

static void test_list(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t next = 0, found = 0, calls = 0;

	(void)state;
	open_small(&core);
	(void)core_put(&core, "x/1", 10, CORE_CACHE);
	(void)core_put(&core, "y/1", 10, CORE_CACHE);
	(void)core_put(&core, "x/2", 10, CORE_SOFTPIN);
	(void)core_put(&core, "x/", 10, CORE_CACHE);
	(void)core_put(&core, "x", 10, CORE_CACHE);
	put = core_request(&core, "x/3", 10, CORE_CACHE);
	(void)core_start(&core, &put);
	while (next != SLOT_NONE) {
		uint32_t slot = master_list(&core.master, next, "x/", 2, 1, &next);

		found += slot != SLOT_NONE;
		calls++;
	}
	assert_int_equal(found, 3);
	assert_in_range(calls, 6, 7); /* one used slot each */
	assert_int_equal(master_list(&core.master, 0, "z", 1, 100, &next), SLOT_NONE);
	assert_int_equal(next, SLOT_NONE);
	core_close(&core);
}

/* ---- slots, index -------------------------------------------------------------------- */

static void put_number(struct core *core, uint32_t number, bool softpin)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "n%u", number);
	(void)core_put(core, key, 10, softpin);
}

static void test_slots_run_out(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot;

	(void)state;
	core_open(&core, POOL, 64, 256);
	assert_true(master_wants_slots(&core.master)); /* few are left from the start */
	for (uint32_t i = 0; i < 64; i++)
		put_number(&core, i, CORE_SOFTPIN);
	put = core_request(&core, "more", 10, CORE_CACHE);
	assert_int_equal(start(&core, &put, &slot), PUT_NO_ROOM);
	assert_true(master_wants_slots(&core.master));
	assert_true(core_use(&core).free > POOL / 2);
	index_grow(&core.share, 5);
	master_slots_grown(&core.master, 192);
	core_assert(&core);
	assert_false(master_wants_slots(&core.master));
	assert_int_equal(start(&core, &put, &slot), PUT_STARTED);
	master_slots_grown(&core.master, 256);
	core_assert(&core);
	assert_false(master_wants_slots(&core.master)); /* that is all there can be */
	core_close(&core);
}

/* A key whose buckets are full is served by message, and joins a bigger array. */
static void test_full_buckets(void **state)
{
	struct core core;
	struct put_request put;
	struct index_key at;
	uint32_t slot = SLOT_NONE, found;

	(void)state;
	core_open(&core, POOL, 64, 256);
	for (uint32_t i = 0; i < 20; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%02u", i);
		put = core_request(&core, key, 10, CORE_CACHE);
		put.key.hash = 0x0000000000000018ull; /* another pair with more buckets */
		if (i >= 16)
			put.key.hash = 0x0000000000000008ull;
		slot = core_start(&core, &put);
		assert_int_equal(core_end(&core, slot), 0);
		assert_int_equal(core.master.objects[slot].indexed, i < 16);
	}
	at = (struct index_key){"k19", 3, 0x0000000000000008ull};
	assert_int_equal(
		index_find(&core.share, &core.clients[0].holder, &at, HOLD_COLD, &found),
		HOLD_NO);
	assert_int_equal(master_find(&core.master, &at), slot);
	assert_int_equal(
		index_try(&core.share, &core.clients[0].holder, &at, slot, HOLD_COLD),
		HOLD_OK);
	core_give(&core, 0, slot);

	index_grow(&core.share, 5);
	master_slots_grown(&core.master, 192);
	core_assert(&core);
	assert_true(core.master.objects[slot].indexed);
	assert_int_equal(
		index_find(&core.share, &core.clients[0].holder, &at, HOLD_COLD, &found),
		HOLD_OK);
	core_give(&core, 0, found);
	core_close(&core);
}

/* ---- reuse, memory ------------------------------------------------------------------- */

/* Sizes one after the other, each until the pool is full, each removed. */
static void test_fill_and_remove_by_size(void **state)
{
	static const uint64_t sizes[] = {
		4 * KIB, 8 * MIB, 300 * KIB, 1 * KIB, 300 * KIB, 8 * MIB, 4 * KIB};
	struct core core;
	char key[16];

	(void)state;
	core_open(&core, 64 * MIB, 65536, 65536);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t stored = 0;
		uint32_t count = 0, slot;

		for (;; count++, stored += sizes[i]) {
			struct put_request put;

			(void)snprintf(key, sizeof(key), "o%u", count);
			put = core_request(&core, key, sizes[i], CORE_SOFTPIN);
			if (master_put_start(&core.master, &put, NULL, &slot) !=
				PUT_STARTED)
				break;
			assert_int_equal(
				master_put_end(&core.master, slot, core_life(&core, slot),
					put.writer, core.now, 0, &core.generation),
				0);
		}
		assert_true(stored >= 64 * MIB / 100 * 95);
		core_assert(&core);
		/* Every other first, so that holes must join. */
		for (uint32_t at = 0; at < 2 * count; at++) {
			struct index_key gone;

			(void)snprintf(
				key, sizeof(key), "o%u", at < count ? at : at - count);
			gone = core_key(key);
			if ((at < count) == (at % 2 == 0))
				(void)master_remove(&core.master, &gone, core.now);
		}
		for (uint32_t at = 0; at < count; at++) {
			(void)snprintf(key, sizeof(key), "o%u", at);
			assert_int_equal(core_find(&core, key), SLOT_NONE);
		}
		core_assert_empty(&core);
	}
	core_close(&core);
}

/* Memory that shows which pages were ever touched. */
static void *pages_new(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(pages != MAP_FAILED);
	return pages;
}

static uint64_t pages_touched(void *pages, size_t size)
{
	static unsigned char in[1 << 20];
	uint64_t count = 0;

	assert_true(size / 4096 + 1 <= sizeof(in));
	assert_int_equal(mincore(pages, size, in), 0);
	for (size_t i = 0; i < (size + 4095) / 4096; i++)
		count += in[i] & 1;
	return count * 4096;
}

static void put_of(struct core *core, uint32_t number, uint64_t size, bool softpin)
{
	struct put_request put = {
		.key = {&number, sizeof(number), hash_key(&number, sizeof(number), 42)},
		.size = size,
		.softpin = softpin,
		.deadline = UINT64_MAX,
		.writer = 1,
		.op = number,
	};
	struct ticket ticket;
	uint32_t slot;

	ticket_init(&ticket);
	if (master_put_start(&core->master, &put, NULL, &slot) != PUT_STARTED) {
		master_room_wait(&core->master, &ticket, size, put.key.size);
		while (master_room_run(&core->master, core->now, 64))
			;
		assert_ptr_equal(master_room_granted(&core->master), &ticket);
		assert_int_equal(master_put_start(&core->master, &put, &ticket, &slot),
			PUT_STARTED);
	}
	assert_int_equal(master_put_end(&core->master, slot, core_life(core, slot), 1,
				 core->now, 0, &core->generation),
		0);
}

/* A million objects in a full pool, after half as many were evicted for them: what that costs
 * beside the pool, touched page by touched page, with slots in steps of 65,536. */
static void test_memory_of_a_million_objects(void **state)
{
	const uint32_t nslots = 1u << 20, limit = 2u << 20;
	struct master_config config = {.low_permille = 10,
		.high_permille = 20,
		.hash_seed = 42,
		.generation_salt = 7};
	struct recovery recovery;
	struct core core = {.now = 1000};
	size_t index_size = share_index_size(limit);
	size_t private_size = master_memory_size(limit, &config.disk);
	void *index = pages_new(index_size), *pool = pages_new(2048 * MIB);
	void *private = pages_new(private_size);
	uint64_t touched, objects;

	(void)state;
	share_init(&core.share, index, pool);
	core.share.header->slots_limit = limit;
	core.share.header->nslots = nslots;
	core.share.header->pool_size = 2048 * MIB;
	core.share.header->log2_buckets = share_log2_buckets(nslots);
	master_init(&core.master, &core.share, &config, private);
	master_recover(&core.master, core.now, CORE_TIMEOUT, &recovery);
	for (uint32_t i = 0; i < 1600000; i++)
		put_of(&core, i, 1024 + i % 5 * 256, CORE_CACHE);
	core_assert(&core);
	objects = core_use(&core).objects;
	touched = pages_touched(index, index_size) + pages_touched(private, private_size);
	print_message("%llu objects, %llu evicted, %.1f bytes each\n",
		(unsigned long long)objects,
		(unsigned long long)core.master.stats.evicted,
		(double)touched / (double)objects);
	assert_true(objects >= 1000000);
	assert_true(core.master.stats.evicted > 500000);
	assert_true(touched <= 288 * objects);
	(void)munmap(index, index_size);
	(void)munmap(pool, 2048 * MIB);
	(void)munmap(private, private_size);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_put_and_find),
	cmocka_unit_test(test_unfinished_put_is_invisible),
	cmocka_unit_test(test_put_verdicts),
	cmocka_unit_test(test_empty_object),
	cmocka_unit_test(test_largest_fits),
	cmocka_unit_test(test_end_and_abort),
	cmocka_unit_test(test_generations_rise),
	cmocka_unit_test(test_late_put),
	cmocka_unit_test(test_doomed_put),
	cmocka_unit_test(test_puts_of_the_dead_vanish),
	cmocka_unit_test(test_remove_while_held),
	cmocka_unit_test(test_the_last_of_two_frees),
	cmocka_unit_test(test_condemned_goes_with_a_death),
	cmocka_unit_test(test_pins),
	cmocka_unit_test(test_take_has_one_winner),
	cmocka_unit_test(test_take_after_remove),
	cmocka_unit_test(test_ttl),
	cmocka_unit_test(test_ttl_without_end),
	cmocka_unit_test(test_list),
	cmocka_unit_test(test_slots_run_out),
	cmocka_unit_test(test_full_buckets),
	cmocka_unit_test(test_fill_and_remove_by_size),
	cmocka_unit_test(test_memory_of_a_million_objects),
};
UNIT_MAIN(tests)
