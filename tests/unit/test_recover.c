/*
 * A restart at every instant: what is kept, what is dropped and why, and that nothing
 * that may stand in the shared index can break it.
 */
#include "core_fixture.h"

#include "base/rng.h"

#define POOL (256 * KIB)

static void open_small(struct core *core)
{
	core_open(core, POOL, 64, 64);
}

static void set_state(struct core *core, uint32_t slot, enum slot_kind kind)
{
	core_slot(core, slot)->state = SLOT_STATE(kind, core_life(core, slot));
}

/* The next start drops one slot, for this reason. */
static void assert_dropped(struct core *core, enum drop_reason reason)
{
	struct recovery recovery;

	core_restart(core, &recovery);
	for (unsigned i = 0; i < DROP_REASONS; i++)
		assert_int_equal(recovery.dropped[i], i == reason);
	assert_true(strlen(drop_reason_text(reason)) > 0);
}

/* ---- kept ---------------------------------------------------------------------------- */

static void test_objects_are_kept(void **state)
{
	struct core core;
	struct recovery recovery;
	char longest[KEY_LIMIT + 1];
	uint32_t slots[4], found;
	uint64_t generation;

	(void)state;
	memset(longest, 'k', KEY_LIMIT);
	longest[KEY_LIMIT] = '\0';
	open_small(&core);
	slots[0] = core_put(&core, "cache", 20 * KIB, CORE_CACHE);
	slots[1] = core_put(&core, "softpin", 300, CORE_SOFTPIN);
	slots[2] = core_put(&core, longest, 0, CORE_SOFTPIN);
	slots[3] = core_put(&core, "gone", 300, CORE_SOFTPIN);
	assert_int_equal(core_remove(&core, "gone"), 0);
	generation = core.generation;
	(void)core_get(&core, 1, "softpin");
	core_restart(&core, &recovery);
	assert_int_equal(recovery.found, 3);
	assert_int_equal(recovery.adopted, 3);
	assert_int_equal(recovery.writing + recovery.draining, 0);
	assert_int_equal(core_find(&core, "cache"), slots[0]);
	assert_int_equal(core_find(&core, "softpin"), slots[1]);
	assert_int_equal(core_find(&core, longest), slots[2]);
	assert_int_equal(core_find(&core, "gone"), SLOT_NONE);
	found = core_get(&core, 0, longest);
	assert_int_equal(found, slots[2]);
	core_give(&core, 0, found);
	core_give(&core, 1, slots[1]); /* holds outlive the daemon */
	assert_int_equal(core_list(&core, slots[1]), OBJECT_DIRTY);
	/* A new object is newer than all that were found. */
	(void)core_put(&core, "new", 10, CORE_CACHE);
	assert_true(core.generation > generation - 4096);
	assert_true(core.generation > core_slot(&core, slots[2])->generation);
	core_close(&core);
}

/* Also when the daemon that held the answers dies right before the client asks again. */
static void test_repeats_are_known_after_a_restart(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint64_t generation = 0;
	uint32_t slot, again = SLOT_NONE;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	(void)core_get(&core, 0, "a");
	core_restart(&core, &recovery);
	assert_int_equal(
		master_put_start(&core.master, &put, NULL, &again), PUT_REPEATED);
	assert_int_equal(again, slot);
	assert_int_equal(master_put_end(&core.master, slot, core_life(&core, slot),
				 put.writer, core.now, 0, &generation),
		0);
	assert_int_equal(generation, core.generation);
	assert_int_equal(master_take(&core.master, slot, core_life(&core, slot),
				 put.writer, 9, core.now),
		0);
	core_restart(&core, &recovery);
	assert_int_equal(recovery.draining, 1);
	assert_int_equal(master_take(&core.master, slot, core_life(&core, slot),
				 put.writer, 9, core.now),
		0);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_put_of_the_living_is_finished(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t slot, again = SLOT_NONE;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 3000, CORE_CACHE);
	put.ttl_ns = 700;
	slot = core_start(&core, &put);
	core_restart(&core, &recovery);
	assert_int_equal(recovery.found, 1);
	assert_int_equal(recovery.writing, 1);
	assert_int_equal(core_use(&core).writing, 3072);
	assert_int_equal(master_next(&core.master), core.now + CORE_TIMEOUT);
	assert_int_equal(
		master_put_start(&core.master, &put, NULL, &again), PUT_REPEATED);
	assert_int_equal(again, slot);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(core_find(&core, "a"), slot);
	assert_int_equal(core_slot(&core, slot)->expires, core.now + 700);
	core_close(&core);
}

/* Late and doomed puts of a living writer stay reserved, and have no key. */
static void test_lost_puts_stay_reserved(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t late, doomed;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	put.deadline = core.now;
	late = core_start(&core, &put);
	assert_int_equal(core_advance(&core, 0), 1);
	put = core_request(&core, "a", 10, CORE_CACHE);
	doomed = core_start(&core, &put);
	assert_int_equal(core_remove(&core, "a"), 0);
	(void)core_put(&core, "a", 10, CORE_CACHE);
	core_restart(&core, &recovery);
	assert_int_equal(recovery.writing, 2);
	assert_int_equal(recovery.adopted, 1);
	assert_int_equal(master_next(&core.master), UINT64_MAX);
	assert_int_equal(core_end(&core, late), ERR_TIMEOUT);
	assert_int_equal(core_end(&core, doomed), ERR_REMOVED);
	assert_int_equal(core_use(&core).objects, 1);
	core_close(&core);
}

static void test_condemned_drains(void **state)
{
	struct core core;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	(void)core_get(&core, 0, "a");
	(void)core_put(&core, "b", 10, CORE_CACHE);
	(void)core_get(&core, 1, "b");
	assert_int_equal(core_remove(&core, "a"), 0);
	assert_int_equal(core_remove(&core, "b"), 0);
	core.clients[1].holder.counts[1] = 0; /* let go while no daemon ran */
	core_restart(&core, &recovery);
	assert_int_equal(recovery.found, 0);
	assert_int_equal(recovery.draining, 1);
	assert_int_equal(core_kind(&core, slot), SLOT_CONDEMNED);
	core_give(&core, 0, slot);
	core_deliver(&core);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_parked_is_an_object_again(void **state)
{
	struct core core;
	struct recovery recovery;
	struct ticket ticket;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", POOL, CORE_CACHE);
	(void)core_get(&core, 0, "a");
	ticket_init(&ticket);
	master_room_wait(&core.master, &ticket, 10, 1);
	core_run(&core);
	assert_int_equal(core_slot(&core, slot)->want, 1);
	core_restart(&core, &recovery);
	assert_int_equal(core_slot(&core, slot)->want, 0);
	assert_int_equal(core_list(&core, slot), OBJECT_INACTIVE);
	core_give(&core, 0, slot);
	assert_int_equal(core.ntells, 0);
	core_close(&core);
}

static void test_ttl_goes_on(void **state)
{
	struct core core;
	struct recovery recovery;
	struct put_request put;
	uint32_t slot;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_SOFTPIN);
	put.ttl_ns = 1000;
	slot = core_start(&core, &put);
	assert_int_equal(core_end(&core, slot), 0);
	core.now += 600;
	core_restart(&core, &recovery);
	assert_int_equal(master_next(&core.master), core.now + 400);
	core.now += 5000; /* past its end while no daemon ran */
	core_restart(&core, &recovery);
	assert_int_equal(core_advance(&core, 0), 1);
	core_assert_empty(&core);
	core_close(&core);
}

/* ---- between two stores of the end of a put ------------------------------------------ */

/* A put with a time to live whose end was cut off; sealed or not. */
static uint32_t open_cut_put(struct core *core, bool sealed, bool ttl_kept)
{
	struct put_request put;
	struct slot *there;
	uint32_t slot;

	open_small(core);
	put = core_request(core, "a", 10, CORE_SOFTPIN);
	put.ttl_ns = 1000;
	slot = core_start(core, &put);
	there = core_slot(core, slot);
	there->generation = 5000 << GENERATION_SHIFT;
	there->expires = core->now + 1000;
	if (sealed)
		there->flags |= SLOT_SEALED;
	if (!ttl_kept)
		there->lease_end = 0;
	return slot;
}

static void test_sealed_put_is_completed(void **state)
{
	struct recovery recovery;

	(void)state;
	for (unsigned ttl_kept = 0; ttl_kept < 2; ttl_kept++) {
		struct core core;
		uint32_t slot = open_cut_put(&core, true, ttl_kept);

		core.share.clients[core.clients[0].cid].state = SHARE_CLIENT_FREE;
		core_restart(&core, &recovery);
		assert_int_equal(recovery.adopted, 1);
		assert_int_equal(core_find(&core, "a"), slot);
		core_give(&core, 1, core_get(&core, 1, "a"));
		assert_int_equal(core_slot(&core, slot)->lease_end, 0);
		assert_int_equal(master_next(&core.master), core.now + 1000);
		assert_int_equal(
			core_slot(&core, slot)->generation, 5000 << GENERATION_SHIFT);
		core_close(&core);
	}
}

/* Cut off before the seal: the writer ends it again, and the time starts then. */
static void test_unsealed_end_is_repeated(void **state)
{
	struct recovery recovery;
	struct core core;
	uint32_t slot = open_cut_put(&core, false, true);

	(void)state;
	core.now += 123;
	core_restart(&core, &recovery);
	assert_int_equal(recovery.writing, 1);
	assert_int_equal(core_end(&core, slot), 0);
	assert_int_equal(core_slot(&core, slot)->expires, core.now + 1000);
	core_close(&core);
}

static void test_sealed_put_meets_another(void **state)
{
	struct core core;
	struct put_request put;
	uint32_t slot, older;

	(void)state;
	open_small(&core);
	older = core_put(&core, "a", 10, CORE_CACHE);
	put = core_request(&core, "b", 10, CORE_CACHE);
	slot = core_start(&core, &put);
	core_slot(&core, slot)->key[0] = 'a';
	core_slot(&core, slot)->hash = core_slot(&core, older)->hash;
	core_slot(&core, slot)->generation = core.generation + 1;
	core_slot(&core, slot)->flags |= SLOT_SEALED;
	assert_dropped(&core, DROP_OLDER);
	assert_int_equal(core_find(&core, "a"), older);
	core_close(&core);
}

/* A take that was cut off has not been. */
static void test_cut_take(void **state)
{
	struct core core;
	struct recovery recovery;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	(void)core_get(&core, 0, "a");
	(void)core_get(&core, 1, "a");
	core_slot(&core, slot)->writer = core.clients[1].ref;
	core_slot(&core, slot)->op = 55;
	core_slot(&core, slot)->flags |= SLOT_TAKEN;
	core_restart(&core, &recovery);
	assert_int_equal(recovery.adopted, 1);
	assert_int_equal(master_take(&core.master, slot, core_life(&core, slot),
				 core.clients[0].ref, 56, core.now),
		0);
	assert_int_equal(master_take(&core.master, slot, core_life(&core, slot),
				 core.clients[1].ref, 55, core.now),
		ERR_NOT_FOUND);
	core_close(&core);
}

/* ---- relocations --------------------------------------------------------------------- */

/* A copy of "a" is about to be published. */
static struct relocation open_move(struct core *core)
{
	struct relocation move;
	struct ticket ticket;

	open_small(core);
	(void)core_put(core, "a", 16 * KIB, CORE_SOFTPIN);
	(void)core_put(core, "gone", 16 * KIB, CORE_CACHE);
	(void)core_put(core, "rest", POOL - 48 * KIB, CORE_SOFTPIN);
	ticket_init(&ticket);
	master_room_wait(&core->master, &ticket, 32 * KIB, 1);
	(void)master_room_run(&core->master, core->now, 100);
	assert_true(master_move_next(&core->master, &move));
	memcpy(core->share.pool + move.to_off, core->share.pool + move.from_off,
		move.size);
	master_room_cancel(&core->master, &ticket);
	return move;
}

static void test_unfinished_copy_is_dropped(void **state)
{
	struct core core;
	struct relocation move = open_move(&core);

	(void)state;
	assert_dropped(&core, DROP_UNFINISHED);
	assert_int_equal(core_find(&core, "a"), move.from);
	assert_int_equal(core_kind(&core, move.to), SLOT_FREE);
	core_close(&core);
}

/* The copy is published and the old place not yet condemned: either is the object, a
 * reader of the other goes on. */
static void test_doubled_object(void **state)
{
	for (unsigned marked = 0; marked < 2; marked++) {
		struct core core;
		struct relocation move = open_move(&core);
		uint32_t kept;

		(void)state;
		(void)core_get(&core, 0, "a");
		set_state(&core, move.to, SLOT_READY);
		if (!marked)
			core_slot(&core, move.to)->flags &= ~(uint32_t)SLOT_COPY;
		assert_dropped(&core, DROP_OLDER);
		kept = core_find(&core, "a");
		assert_true(kept == move.from || kept == move.to);
		assert_int_equal(core_slot(&core, kept)->flags & SLOT_COPY, 0);
		assert_int_equal(core.share.pool[core_slot(&core, kept)->off], move.from);
		core_give(&core, 0, move.from);
		core_deliver(&core);
		assert_int_equal(core_use(&core).condemned, 0);
		assert_int_equal(core_use(&core).objects,
			2 + (core_find(&core, "gone") != SLOT_NONE));
		core_close(&core);
	}
}

/* ---- dropped ------------------------------------------------------------------------- */

static void test_bad_state(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	for (unsigned kind = SLOT_CONDEMNED + 1; kind < 8; kind++) {
		slot = core_put(&core, "a", 10, CORE_CACHE);
		set_state(&core, slot, (enum slot_kind)kind);
		assert_dropped(&core, DROP_BAD_STATE);
		core_assert_empty(&core);
	}
	slot = core_put(&core, "a", 10, CORE_CACHE);
	core_slot(&core, slot)->generation = 0;
	assert_dropped(&core, DROP_BAD_STATE);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_bad_range(void **state)
{
	const struct {
		uint64_t off, size;
		uint16_t klen;
	} bad[] = {
		{POOL, 10, 1},
		{POOL - 256, 257, 1},
		{128, 10, 1},       /* not on a granule */
		{256, 16 * KIB, 1}, /* not on a page */
		{0, POOL + 1, 1},
		{0, UINT64_MAX, 1},
		{UINT64_MAX, 10, 1},
		{UINT64_MAX - 255, 256, 1},
		{0, 10, 0},
		{0, 10, KEY_LIMIT + 1},
		{0, POOL, 40},
	};
	struct core core;

	(void)state;
	open_small(&core);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint32_t slot = core_put(&core, "a", 10, CORE_CACHE);

		core_slot(&core, slot)->off = bad[i].off;
		core_slot(&core, slot)->size = bad[i].size;
		core_slot(&core, slot)->klen = bad[i].klen;
		assert_dropped(&core, DROP_BAD_RANGE);
		core_assert_empty(&core);
	}
	core_close(&core);
}

static void test_bad_key(void **state)
{
	struct core core;
	uint32_t slot;

	(void)state;
	open_small(&core);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	core_slot(&core, slot)->key[0] = 'b';
	assert_dropped(&core, DROP_BAD_KEY);
	slot = core_put(&core, "a", 10, CORE_CACHE);
	core_slot(&core, slot)->hash ^= 1;
	assert_dropped(&core, DROP_BAD_KEY);
	slot = core_put(&core, "abc", 10, CORE_CACHE);
	core_slot(&core, slot)->key[1] = 0;
	core_slot(&core, slot)->hash = hash_key("a\0c", 3, 42);
	assert_dropped(&core, DROP_BAD_KEY);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_overlap(void **state)
{
	struct core core;
	uint32_t first, second;

	(void)state;
	open_small(&core);
	first = core_put(&core, "a", 1000, CORE_CACHE);
	second = core_put(&core, "b", 1000, CORE_CACHE);
	core_slot(&core, second)->off = core_slot(&core, first)->off + 768;
	assert_dropped(&core, DROP_OVERLAP);
	assert_int_equal(core_find(&core, "a"), first);
	assert_int_equal(core_find(&core, "b"), SLOT_NONE);
	core_close(&core);
}

static void test_writer_gone(void **state)
{
	struct core core;
	struct put_request put;

	(void)state;
	open_small(&core);
	put = core_request(&core, "a", 10, CORE_CACHE);
	(void)core_start(&core, &put);
	core.share.clients[core.clients[0].cid].state = SHARE_CLIENT_DYING;
	assert_dropped(&core, DROP_WRITER_GONE);
	core_assert_empty(&core);
	/* Another process has its entry. */
	core_attach(&core, 0);
	put = core_request(&core, "a", 10, CORE_CACHE);
	(void)core_start(&core, &put);
	core.share.clients[core.clients[0].cid].incarnation++;
	assert_dropped(&core, DROP_WRITER_GONE);
	core_assert_empty(&core);
	core_close(&core);
}

static void test_older_generation(void **state)
{
	struct core core;
	uint32_t slots[2];

	(void)state;
	for (unsigned newer = 0; newer < 2; newer++) {
		open_small(&core);
		slots[0] = core_put(&core, "a", 10, CORE_CACHE);
		slots[1] = core_put(&core, "b", 10, CORE_CACHE);
		core_slot(&core, slots[1])->key[0] = 'a';
		core_slot(&core, slots[1])->hash = core_slot(&core, slots[0])->hash;
		core_slot(&core, slots[newer])->generation += 1ull << 30;
		assert_dropped(&core, DROP_OLDER);
		assert_int_equal(core_find(&core, "a"), slots[newer]);
		assert_int_equal(core_use(&core).objects, 1);
		core_close(&core);
	}
}

/* Entries that are wrong go, those that are missing come. */
static void test_index_is_repaired(void **state)
{
	struct core core;
	struct recovery recovery;
	char key[8];

	(void)state;
	open_small(&core);
	for (uint32_t i = 0; i < 40; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		(void)core_put(&core, key, 10, CORE_CACHE);
	}
	memset(share_buckets(&core.share, 4), 0x5b, 8 * sizeof(struct bucket));
	memset(share_buckets(&core.share, 4) + 8, 0, 8 * sizeof(struct bucket));
	core_restart(&core, &recovery);
	assert_int_equal(recovery.adopted, 40);
	for (uint32_t i = 0; i < 40; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		core_give(&core, 0, core_get(&core, 0, key));
	}
	core_close(&core);
}

/* ---- whatever stands there ----------------------------------------------------------- */

static void open_busy(struct core *core)
{
	char key[64];

	open_small(core);
	for (uint32_t i = 0; i < 30; i++) {
		struct put_request put;

		(void)snprintf(key, sizeof(key), "%u/%.*s", i, i % 3 * 20,
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
		put = core_request(core, key, i * 500, i % 2);
		put.ttl_ns = i % 5 == 0 ? 1000 + i : 0;
		put.writer = core->clients[i % 3].ref;
		(void)core_start(core, &put);
		if (i % 7 != 0)
			assert_int_equal(core_end(core, i), 0);
	}
	for (uint32_t i = 1; i < 30; i += 4) {
		(void)snprintf(key, sizeof(key), "%u/%.*s", i, i % 3 * 20,
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
		if (i % 7 != 0)
			(void)core_get(core, i % 3, key);
		if (i % 8 == 1)
			(void)core_remove(core, key);
	}
}

/* It starts, its invariants hold, and it goes on working. */
static void assert_works(struct core *core)
{
	struct recovery recovery;
	uint64_t dropped = 0;
	uint32_t slot;

	core_restart(core, &recovery);
	for (unsigned i = 0; i < DROP_REASONS; i++)
		dropped += recovery.dropped[i];
	assert_int_equal(recovery.found, recovery.adopted + recovery.writing + dropped);
	assert_int_equal(recovery.adopted, core_use(core).objects);
	assert_int_equal(recovery.draining, core->master.condemned.count);
	(void)core_remove(core, "new");
	slot = core_find(core, "new");
	if (slot == SLOT_NONE && core_use(core).largest_hole >= 256 &&
		core->master.free_slots > 0)
		(void)core_put(core, "new", 10, CORE_SOFTPIN);
	(void)core_advance(core, 500);
	core_run(core);
}

static void test_bit_flips(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	for (unsigned round = 0; round < 3000; round++) {
		struct core core;
		uint8_t *bytes;

		open_busy(&core);
		bytes = (uint8_t *)core.share.slots;
		for (uint64_t flips = 1 + rng_below(&rng, 6); flips > 0; flips--) {
			uint64_t bit = rng_below(&rng, 30 * sizeof(struct slot) * 8);

			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		assert_works(&core);
		core_close(&core);
	}
}

/* Zeroed, garbled or copied pieces of the slots and of the client table. */
static void test_garbage(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 2);
	for (unsigned round = 0; round < 3000; round++) {
		struct core core;
		uint8_t *bytes;
		uint64_t size, from, at;

		open_busy(&core);
		bytes = (uint8_t *)core.share.slots;
		size = 64 * sizeof(struct slot);
		if (rng_chance(&rng, 25)) {
			bytes = (uint8_t *)core.share.clients;
			size = CLIENT_LIMIT * sizeof(struct share_client);
		}
		from = rng_below(&rng, size);
		at = rng_below(&rng, size);
		switch (rng_below(&rng, 4)) {
		case 0: /* cut off */
			memset(bytes + from, 0, size - from);
			break;
		case 1:
			for (; from < size && rng_below(&rng, 400) != 0; from++)
				bytes[from] = (uint8_t)rng_next(&rng);
			break;
		case 2: /* one slot is there twice */
			memmove(bytes + from / 64 * 64, bytes + at / 64 * 64, 64);
			break;
		default:
			memset(bytes + from, 0xff, size - from);
			break;
		}
		assert_works(&core);
		core_close(&core);
	}
}

/* Garbage that gets past every single check: fields are plausible, states any. */
static void test_plausible_garbage(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 3);
	for (unsigned round = 0; round < 3000; round++) {
		struct core core;

		open_busy(&core);
		for (uint32_t slot = 0; slot < 64; slot++) {
			struct slot *there = core_slot(&core, slot);

			there->state = SLOT_STATE(
				rng_below(&rng, 4), rng_next(&rng) >> 3);
			there->off = rng_below(&rng, POOL / 256) * 256;
			there->size = rng_below(&rng, 5000);
			there->klen = (uint16_t)(1 + rng_below(&rng, 2));
			there->key[0] = (uint8_t)('a' + rng_below(&rng, 3));
			there->key[1] = 'x';
			there->hash = hash_key(there->key, there->klen, 42);
			there->generation = rng_below(&rng, 100);
			there->flags = (uint32_t)rng_below(&rng, 128);
			there->expires = core.now + rng_below(&rng, 1000);
			there->writer = core.clients[rng_below(&rng, 3)].ref;
			there->lease_end = rng_below(&rng, 2) * core.now;
			core.clients[0].holder.counts[slot] = (uint16_t)rng_below(
				&rng, 2);
		}
		assert_works(&core);
		core_close(&core);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_objects_are_kept),
	cmocka_unit_test(test_repeats_are_known_after_a_restart),
	cmocka_unit_test(test_put_of_the_living_is_finished),
	cmocka_unit_test(test_lost_puts_stay_reserved),
	cmocka_unit_test(test_condemned_drains),
	cmocka_unit_test(test_parked_is_an_object_again),
	cmocka_unit_test(test_ttl_goes_on),
	cmocka_unit_test(test_sealed_put_is_completed),
	cmocka_unit_test(test_unsealed_end_is_repeated),
	cmocka_unit_test(test_sealed_put_meets_another),
	cmocka_unit_test(test_cut_take),
	cmocka_unit_test(test_unfinished_copy_is_dropped),
	cmocka_unit_test(test_doubled_object),
	cmocka_unit_test(test_bad_state),
	cmocka_unit_test(test_bad_range),
	cmocka_unit_test(test_bad_key),
	cmocka_unit_test(test_overlap),
	cmocka_unit_test(test_writer_gone),
	cmocka_unit_test(test_older_generation),
	cmocka_unit_test(test_index_is_repaired),
	cmocka_unit_test(test_bit_flips),
	cmocka_unit_test(test_garbage),
	cmocka_unit_test(test_plausible_garbage),
};
UNIT_MAIN(tests)
