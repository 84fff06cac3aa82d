/*
 * The lease book by hand, against releases that are late, foreign or repeated, and at
 * random against a list that remembers every grant ever made.
 */
#include "core/lease.h"

#include "base/attr.h"
#include "base/rng.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 4u
#define EPOCH 77u

struct fixture {
	struct lease_book book;
	struct lease_grants grants[SLOTS];
};

static void fixture_init(struct fixture *fix)
{
	memset(fix, 0, sizeof(*fix));
	lease_book_init(&fix->book, fix->grants, SLOTS, EPOCH);
}

static void test_release_ends_the_lease(void **state)
{
	struct fixture fix;
	struct lease_token one, two;

	(void)state;
	fixture_init(&fix);
	one = lease_grant(&fix.book, 1, 5);
	two = lease_grant(&fix.book, 1, 5);
	assert_int_equal(one.epoch, EPOCH);
	assert_int_equal(one.life, 5);
	assert_int_equal(one.slot, 1);
	assert_int_not_equal(one.grant, two.grant);
	assert_int_equal(lease_outstanding(&fix.book, 1, 5), 2);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_RELEASED);
	assert_int_equal(lease_release(&fix.book, &two), LEASE_LAST_RELEASED);
	assert_int_equal(lease_outstanding(&fix.book, 1, 5), 0);
	assert_int_equal(fix.book.count, 0);

	/* The next one begins anew. */
	one = lease_grant(&fix.book, 1, 5);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_LAST_RELEASED);
}

/* K1-05: a count of pins went to -1 by a release that came twice, and the next reader's
 * pin was gone. */
static void test_k1_05_double_release_is_ignored(void **state)
{
	struct fixture fix;
	struct lease_token one, two;

	(void)state;
	fixture_init(&fix);
	one = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_LAST_RELEASED);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_IGNORED);
	assert_int_equal(fix.book.count, 0);
	two = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_IGNORED);
	assert_int_equal(lease_outstanding(&fix.book, 0, 5), 1);
	assert_int_equal(lease_release(&fix.book, &two), LEASE_LAST_RELEASED);
}

/* K1-07: two releases of one object came in the order that nobody had thought of, and its
 * memory stayed for ever. */
static void test_k1_07_any_order_of_releases(void **state)
{
	static const uint8_t orders[][3] = {
		{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		struct fixture fix;
		struct lease_token tokens[3];

		fixture_init(&fix);
		for (uint32_t grant = 0; grant < 3; grant++)
			tokens[grant] = lease_grant(&fix.book, 2, 9);
		for (uint32_t step = 0; step < 3; step++) {
			assert_int_equal(
				lease_release(&fix.book, &tokens[orders[i][step]]),
				step < 2 ? LEASE_RELEASED : LEASE_LAST_RELEASED);
			assert_int_equal(lease_outstanding(&fix.book, 2, 9), 2 - step);
		}
		assert_int_equal(fix.book.count, 0);
	}
}

static void test_foreign_tokens_are_ignored(void **state)
{
	struct fixture fix;
	struct lease_token token, bad;

	(void)state;
	fixture_init(&fix);
	token = lease_grant(&fix.book, 3, 5);
	bad = token;
	bad.epoch++;
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	bad = token;
	bad.life--;
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	bad = token;
	bad.slot = 2; /* of another object */
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	bad.slot = SLOTS;
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	bad.slot = UINT32_MAX;
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	for (uint32_t i = 1; i < 300; i++) {
		bad = token;
		bad.grant = token.grant + i;
		assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
		bad.grant = token.grant - i;
		assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	}
	/* Of a slot that never had a grant, which is all zeros. */
	bad = (struct lease_token){.epoch = EPOCH, .slot = 0};
	assert_int_equal(lease_release(&fix.book, &bad), LEASE_IGNORED);
	assert_int_equal(lease_release(&fix.book, &token), LEASE_LAST_RELEASED);
}

/* The 64 youngest can be released; with one forgotten no release ends the lease early. */
static void test_past_64_the_oldest_is_forgotten(void **state)
{
	struct fixture fix;
	struct lease_token tokens[LEASE_GRANTS + 2];

	(void)state;
	fixture_init(&fix);
	for (uint32_t i = 0; i < LEASE_GRANTS; i++)
		tokens[i] = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_outstanding(&fix.book, 0, 5), LEASE_GRANTS);
	for (uint32_t i = LEASE_GRANTS; i < LEASE_GRANTS + 2; i++) {
		tokens[i] = lease_grant(&fix.book, 0, 5);
		assert_int_equal(lease_outstanding(&fix.book, 0, 5), LEASE_GRANTS);
		assert_int_equal(fix.book.count, LEASE_GRANTS);
	}
	assert_int_equal(lease_release(&fix.book, &tokens[0]), LEASE_IGNORED);
	assert_int_equal(lease_release(&fix.book, &tokens[1]), LEASE_IGNORED);
	for (uint32_t i = 2; i < LEASE_GRANTS + 2; i++)
		assert_int_equal(lease_release(&fix.book, &tokens[i]), LEASE_RELEASED);
	assert_int_equal(fix.book.count, 0);

	/* Also when it was the only one for long, until all ends have passed. */
	tokens[0] = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_release(&fix.book, &tokens[0]), LEASE_RELEASED);
	lease_forget(&fix.book, 0);
	tokens[0] = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_release(&fix.book, &tokens[0]), LEASE_LAST_RELEASED);
}

/* One long transfer beside many short ones is forgotten after 64, though few run. */
static void test_long_one_beside_short_ones(void **state)
{
	struct fixture fix;
	struct lease_token slow, fast;

	(void)state;
	fixture_init(&fix);
	slow = lease_grant(&fix.book, 0, 5);
	for (uint32_t i = 1; i < LEASE_GRANTS; i++) {
		fast = lease_grant(&fix.book, 0, 5);
		assert_int_equal(lease_release(&fix.book, &fast), LEASE_RELEASED);
		assert_int_equal(lease_outstanding(&fix.book, 0, 5), 1);
	}
	fast = lease_grant(&fix.book, 0, 5);
	assert_int_equal(lease_outstanding(&fix.book, 0, 5), 1);
	assert_int_equal(lease_release(&fix.book, &slow), LEASE_IGNORED);
	assert_int_equal(lease_release(&fix.book, &fast), LEASE_RELEASED);
	assert_int_equal(fix.book.count, 0);
}

/* Short transfers one after another never fill the map. */
static void test_many_one_by_one(void **state)
{
	struct fixture fix;

	(void)state;
	fixture_init(&fix);
	for (uint32_t i = 0; i < 1000; i++) {
		struct lease_token token = lease_grant(&fix.book, 0, 5);

		assert_int_equal(lease_release(&fix.book, &token), LEASE_LAST_RELEASED);
	}
}

static void test_numbers_wrap(void **state)
{
	struct fixture fix;
	struct lease_token tokens[LEASE_GRANTS];

	(void)state;
	fixture_init(&fix);
	fix.grants[1] = (struct lease_grants){.life = 5, .base = UINT32_MAX - 20};
	for (uint32_t i = 0; i < LEASE_GRANTS; i++)
		tokens[i] = lease_grant(&fix.book, 1, 5);
	assert_int_equal(tokens[0].grant, UINT32_MAX - 20);
	assert_int_equal(tokens[LEASE_GRANTS - 1].grant, LEASE_GRANTS - 22);
	for (uint32_t i = 0; i < LEASE_GRANTS; i++) {
		assert_int_equal(lease_release(&fix.book, &tokens[i]),
			i < LEASE_GRANTS - 1 ? LEASE_RELEASED : LEASE_LAST_RELEASED);
		assert_int_equal(lease_release(&fix.book, &tokens[i]), LEASE_IGNORED);
	}
}

/* What an object had is nobody's after it, whether the book was told or not. */
static void test_slot_reuse(void **state)
{
	struct fixture fix;
	struct lease_token old[2 * LEASE_GRANTS], one;

	(void)state;
	for (uint32_t told = 0; told < 2; told++) {
		fixture_init(&fix);
		for (uint32_t i = 0; i < ARRAY_LEN(old); i++)
			old[i] = lease_grant(&fix.book, 1, 5);
		if (told) {
			lease_forget(&fix.book, 1);
			assert_int_equal(fix.book.count, 0);
			assert_int_equal(lease_outstanding(&fix.book, 1, 5), 0);
		}
		assert_int_equal(lease_outstanding(&fix.book, 1, 6), 0);
		one = lease_grant(&fix.book, 1, 6);
		assert_int_equal(fix.book.count, 1);
		assert_int_equal(lease_outstanding(&fix.book, 1, 5), 0);
		for (uint32_t i = 0; i < ARRAY_LEN(old); i++)
			assert_int_equal(
				lease_release(&fix.book, &old[i]), LEASE_IGNORED);
		assert_int_equal(lease_release(&fix.book, &one), LEASE_LAST_RELEASED);
	}
}

/* Forgetting while the object lives, as when all ends have passed. */
static void test_forget_in_one_life(void **state)
{
	struct fixture fix;
	struct lease_token old[3], one;

	(void)state;
	fixture_init(&fix);
	for (uint32_t i = 0; i < 3; i++)
		old[i] = lease_grant(&fix.book, 1, 5);
	lease_release(&fix.book, &old[1]);
	lease_forget(&fix.book, 1);
	lease_forget(&fix.book, 2);
	assert_int_equal(fix.book.count, 0);
	one = lease_grant(&fix.book, 1, 5);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(lease_release(&fix.book, &old[i]), LEASE_IGNORED);
	assert_int_equal(lease_outstanding(&fix.book, 1, 5), 1);
	assert_int_equal(lease_release(&fix.book, &one), LEASE_LAST_RELEASED);
}

static void break_slot(void *arg)
{
	struct fixture *fix = arg;

	lease_grant(&fix->book, SLOTS, 1);
}

static void test_misuse_stops(void **state)
{
	struct fixture fix;

	(void)state;
	fixture_init(&fix);
	assert_true(unit_aborts(break_slot, &fix));
}

/*
 * The naive one: every grant ever made, with what became of it. A slot's grants are
 * forgotten oldest first, so that no two that are outstanding are 64 or more apart.
 */
#define NAIVE_STEPS 8000u

struct naive_grant {
	struct lease_token token;
	uint32_t number; /* among those of its slot */
	bool outstanding;
};

struct naive {
	struct fixture fix;
	struct rng rng;
	struct naive_grant *all;
	uint32_t count;
	struct {
		uint64_t life;
		uint32_t granted;
		bool forgotten;
	} slots[SLOTS];
};

static uint32_t naive_outstanding(const struct naive *naive, uint32_t slot)
{
	uint32_t outstanding = 0;

	for (uint32_t i = 0; i < naive->count; i++)
		outstanding += naive->all[i].outstanding &&
			       naive->all[i].token.slot == slot;
	return outstanding;
}

static void naive_grant(struct naive *naive, uint32_t slot)
{
	struct naive_grant *grant = &naive->all[naive->count];
	uint32_t number = naive->slots[slot].granted++;

	for (uint32_t i = 0; i < naive->count; i++) {
		struct naive_grant *old = &naive->all[i];

		if (old->token.slot == slot && old->outstanding &&
			number - old->number >= LEASE_GRANTS) {
			old->outstanding = false;
			naive->slots[slot].forgotten = true;
		}
	}
	grant->token = lease_grant(&naive->fix.book, slot, naive->slots[slot].life);
	grant->number = number;
	grant->outstanding = true;
	naive->count++;
}

/* Any one, also a second time; mostly the next after it that is outstanding. */
static void naive_release(struct naive *naive)
{
	bool any = rng_chance(&naive->rng, 10);
	enum lease_release want = LEASE_IGNORED;
	struct naive_grant *grant;
	uint32_t slot;

	if (naive->count == 0)
		return;
	grant = &naive->all[rng_below(&naive->rng, naive->count)];
	while (!any && !grant->outstanding && grant + 1 < naive->all + naive->count)
		grant++;
	slot = grant->token.slot;
	if (grant->outstanding) {
		grant->outstanding = false;
		want = naive_outstanding(naive, slot) == 0 &&
				       !naive->slots[slot].forgotten
			       ? LEASE_LAST_RELEASED
			       : LEASE_RELEASED;
	}
	assert_int_equal(lease_release(&naive->fix.book, &grant->token), want);
}

/* The object goes, and the book is told or learns it from the next life's first grant; or
 * all ends of a living one have passed. */
static void naive_end(struct naive *naive, uint32_t slot)
{
	bool is_gone = rng_chance(&naive->rng, 50);

	if (!is_gone || rng_chance(&naive->rng, 50))
		lease_forget(&naive->fix.book, slot);
	if (is_gone)
		naive->slots[slot].life++;
	for (uint32_t i = 0; i < naive->count; i++) {
		if (naive->all[i].token.slot == slot)
			naive->all[i].outstanding = false;
	}
	naive->slots[slot].forgotten = false;
	naive_grant(naive, slot);
}

static void test_random_against_naive(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct naive naive = {0};

		rng_init(&naive.rng, seed);
		fixture_init(&naive.fix);
		naive.all = calloc(NAIVE_STEPS, sizeof(naive.all[0]));
		assert_non_null(naive.all);
		for (uint32_t i = 0; i < NAIVE_STEPS; i++) {
			uint32_t slot = (uint32_t)rng_below(&naive.rng, SLOTS);
			uint64_t dice = rng_below(&naive.rng, 1000);
			/* Now more come than go, now fewer. */
			uint64_t grants = i / 1000 % 2 == 0 ? 700 : 300;

			if (dice < grants)
				naive_grant(&naive, slot);
			else if (dice < 995)
				naive_release(&naive);
			else
				naive_end(&naive, slot);
			assert_int_equal(lease_outstanding(&naive.fix.book, slot,
						 naive.slots[slot].life),
				naive_outstanding(&naive, slot));
		}
		free(naive.all);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_release_ends_the_lease),
	cmocka_unit_test(test_k1_05_double_release_is_ignored),
	cmocka_unit_test(test_k1_07_any_order_of_releases),
	cmocka_unit_test(test_foreign_tokens_are_ignored),
	cmocka_unit_test(test_past_64_the_oldest_is_forgotten),
	cmocka_unit_test(test_long_one_beside_short_ones),
	cmocka_unit_test(test_many_one_by_one),
	cmocka_unit_test(test_numbers_wrap),
	cmocka_unit_test(test_slot_reuse),
	cmocka_unit_test(test_forget_in_one_life),
	cmocka_unit_test(test_misuse_stops),
	cmocka_unit_test(test_random_against_naive),
};

UNIT_MAIN(tests)
