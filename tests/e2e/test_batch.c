/*
 * Tests of batches: each key has its own result.
 */
#include "e2e.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text)  cenote_key(text)
#define KEYS_MAX   10000
#define NAMES_SIZE 24

/* Names of keys, in memory that lasts as long as the case. */
static struct cenote_key numbered(const char *prefix, unsigned number)
{
	static char names[KEYS_MAX][NAMES_SIZE];

	E2E_TRUE(number < KEYS_MAX);
	(void)snprintf(names[number], NAMES_SIZE, "%s%u", prefix, number);
	return KEY(names[number]);
}

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

/* ---- put ----------------------------------------------------------------- */

static void k12_01_put_of_new_existing_and_duplicate_keys(struct e2e *t)
{
	static const int want[] = {0, CENOTE_ERR_EXISTS, CENOTE_ERR_EXISTS, 0,
		CENOTE_ERR_EXISTS, CENOTE_ERR_BAD_KEY, 0};
	static unsigned char one[100000], two[100000];
	const struct cenote_part first = {one, 1000}, second = {two, 1000},
				 large = {two, sizeof(two)};
	struct cenote *store = start(t);
	struct cenote_put_item items[] = {
		{KEY("new"), &first, 1, 77},
		{KEY("same"), &first, 1, 77},
		{KEY("other"), &second, 1, 77},
		{KEY("twice"), &first, 1, 77},
		{KEY("twice"), &second, 1, 77},
		{KEY(""), &first, 1, 77},
		{KEY("large"), &large, 1, 77},
	};

	e2e_fill(one, sizeof(one), 1);
	e2e_fill(two, sizeof(two), 2);
	e2e_put(store, "same", 1000, 1);
	e2e_put(store, "other", 1000, 1);
	E2E_EQ(cenote_put_batch(store, items, ARRAY_LEN(items), NULL), 4);
	for (size_t i = 0; i < ARRAY_LEN(items); i++)
		E2E_EQ(items[i].result, want[i]);
	e2e_verify(store, "new", 1000, 1);
	e2e_verify(store, "same", 1000, 1);
	e2e_verify(store, "other", 1000, 1);
	e2e_verify(store, "twice", 1000, 1);
	e2e_verify(store, "large", sizeof(two), 2);
	E2E_EQ(cenote_put_batch(store, items, 0, NULL), 0);
	cenote_close(store);
}

static void put_of_more_than_the_pool_stores_all_in_turn(struct e2e *t)
{
	enum {
		COUNT = 64,
		SIZE = 1 << 20
	};
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	static struct cenote_put_item items[COUNT];
	static struct cenote_part parts[COUNT];
	unsigned char *data = malloc((size_t)COUNT * SIZE);
	char key[NAMES_SIZE];

	E2E_TRUE(data != NULL);
	for (unsigned i = 0; i < COUNT; i++) {
		e2e_fill(data + (size_t)i * SIZE, SIZE, i);
		parts[i] = (struct cenote_part){data + (size_t)i * SIZE, SIZE};
		items[i] = (struct cenote_put_item){numbered("k", i), &parts[i], 1, 77};
	}
	E2E_EQ(cenote_put_batch(store, items, COUNT, NULL), 0);
	for (unsigned i = 0; i < COUNT; i++)
		E2E_EQ(items[i].result, 0);
	/* What is there is whole; there is as much as the pool can hold. */
	E2E_TRUE(e2e_stat(store, "pool.objects") >= 12);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		if (cenote_exists(store, KEY(key)) == 1)
			e2e_verify(store, key, SIZE, i);
	}
	E2E_EQ(cenote_exists(store, KEY("k63")), 1);
	free(data);
	e2e_check(store);
	cenote_close(store);
}

static void create_gives_a_writer_for_each_key(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_create_item items[12];

	e2e_put(store, "k3", 10, 1);
	for (unsigned i = 0; i < ARRAY_LEN(items); i++) {
		items[i] = (struct cenote_create_item){
			.key = numbered("k", i), .size = 1000 + 100000 * i, .result = 77};
	}
	items[5].size = 1ull << 40;
	E2E_EQ(cenote_create_batch(store, items, ARRAY_LEN(items), NULL), 2);
	for (unsigned i = 0; i < ARRAY_LEN(items); i++) {
		int want = i == 3 ? CENOTE_ERR_EXISTS : i == 5 ? CENOTE_ERR_TOO_LARGE : 0;

		E2E_EQ(items[i].result, want);
		if (want != 0)
			continue;
		E2E_EQ(items[i].writer.size, items[i].size);
		E2E_EQ(cenote_exists(store, items[i].key), 0);
		e2e_fill(items[i].writer.data, items[i].size, i);
		E2E_OK(i == 7 ? cenote_abort(store, &items[i].writer)
			      : cenote_seal(store, &items[i].writer));
		E2E_EQ(cenote_exists(store, items[i].key), i != 7);
	}
	e2e_verify(store, "k11", 1101000, 11);
	E2E_EQ(e2e_stat(store, "pool.objects"), 10);
	cenote_close(store);
}

/* ---- get ----------------------------------------------------------------- */

/* 1,000 keys, every third of which is there. */
static void get_of_1000_keys_hits_and_misses(struct e2e *t)
{
	enum {
		COUNT = 1000
	};
	static struct cenote_get_item items[COUNT];
	struct cenote *store = start(t);

	for (unsigned i = 0; i < COUNT; i++) {
		items[i] = (struct cenote_get_item){
			.key = numbered("k", i), .result = 77};
		if (i % 3 == 0)
			e2e_put(store, items[i].key.data, i % 9 == 0 ? 70000 : i, i);
	}
	E2E_EQ(cenote_get_batch(store, items, COUNT, NULL), COUNT - 334);
	for (unsigned i = 0; i < COUNT; i++) {
		E2E_EQ(items[i].result, i % 3 == 0 ? 0 : CENOTE_ERR_NOT_FOUND);
		if (i % 3 != 0)
			continue;
		E2E_EQ(items[i].view.size, i % 9 == 0 ? 70000 : i);
		E2E_BYTES(items[i].view.data, items[i].view.size, i);
		E2E_OK(cenote_release(store, &items[i].view));
	}
	e2e_check(store);
	cenote_close(store);
}

/* Kilobytes of memory that this process uses. */
static uint64_t resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	E2E_TRUE(file != NULL && fscanf(file, "%*s %lu", &pages) == 1);
	(void)fclose(file);
	return pages * 4;
}

static void k12_03_partial_answers_leave_nothing_behind(struct e2e *t)
{
	enum {
		COUNT = 100,
		ABSENT = 30
	};
	struct cenote_get_item items[COUNT];
	struct cenote *store = start(t);
	uint64_t base, resident = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		items[i].key = numbered("k", i);
		if (i >= ABSENT)
			e2e_put(store, items[i].key.data, 1000, i);
	}
	base = e2e_in_use(store);
	for (unsigned round = 0; round < 1000; round++) {
		E2E_EQ(cenote_get_batch(store, items, COUNT, NULL), ABSENT);
		for (unsigned i = ABSENT; i < COUNT; i++)
			E2E_OK(cenote_release(store, &items[i].view));
		if (round == 100)
			resident = resident_kib();
	}
	/* A leak of one item a round would be 9 MiB and more. */
	E2E_TRUE(e2e_is_slow() || resident_kib() < resident + 2048);
	E2E_EQ(e2e_in_use(store), base);
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 0);
	E2E_EQ(e2e_stat(store, "node.pins"), 0);
	E2E_EQ(e2e_stat(store, "node.operations"), 1);
	for (unsigned i = ABSENT; i < COUNT; i++)
		E2E_OK(cenote_remove(store, items[i].key));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void get_of_one_key_twice_gives_two_views(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_get_item items[] = {
		{.key = KEY("k")}, {.key = KEY("none")}, {.key = KEY("k")}};

	e2e_put(store, "k", 1000, 1);
	E2E_EQ(cenote_get_batch(store, items, 3, NULL), 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_OK(cenote_release(store, &items[0].view));
	E2E_TRUE(e2e_in_use(store) > 0);
	E2E_BYTES(items[2].view.data, 1000, 1);
	E2E_OK(cenote_release(store, &items[2].view));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void get_into_fills_each_buffer_that_is_large_enough(struct e2e *t)
{
	enum {
		COUNT = 50
	};
	struct cenote_get_into_item items[COUNT];
	unsigned char *data = malloc(COUNT * 70000);
	struct cenote *store = start(t);

	E2E_TRUE(data != NULL);
	for (unsigned i = 0; i < COUNT; i++) {
		items[i] = (struct cenote_get_into_item){.key = numbered("k", i),
			.buffer = data + (size_t)i * 70000,
			.buffer_size = i % 5 == 1 ? 69999 : 70000};
		if (i % 5 != 2)
			e2e_put(store, items[i].key.data, 70000, i);
	}
	E2E_EQ(cenote_get_into_batch(store, items, COUNT, NULL), 20);
	for (unsigned i = 0; i < COUNT; i++) {
		int want = i % 5 == 1   ? CENOTE_ERR_BUFFER_TOO_SMALL
			   : i % 5 == 2 ? CENOTE_ERR_NOT_FOUND
					: 0;

		E2E_EQ(items[i].result, want);
		if (want != 0)
			continue;
		E2E_EQ(items[i].size, 70000);
		E2E_BYTES(items[i].buffer, 70000, i);
	}
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 0);
	free(data);
	cenote_close(store);
}

static void get_that_waits_has_one_deadline_for_all(struct e2e *t)
{
	const struct cenote_get_options options = {.wait = true, .timeout_ms = 300};
	struct cenote_get_item items[20];
	struct cenote *store = start(t);
	uint64_t began = e2e_now_ms();

	for (unsigned i = 0; i < ARRAY_LEN(items); i++)
		items[i] = (struct cenote_get_item){.key = numbered("k", i)};
	e2e_put(store, "k0", 10, 1);
	E2E_EQ(cenote_get_batch(store, items, ARRAY_LEN(items), &options), 19);
	E2E_TRUE(e2e_now_ms() - began >= 299);
	E2E_TRUE(e2e_now_ms() - began < 300 + e2e_second_ms());
	E2E_OK(items[0].result);
	E2E_OK(cenote_release(store, &items[0].view));
	for (unsigned i = 1; i < ARRAY_LEN(items); i++)
		E2E_EQ(items[i].result, CENOTE_ERR_TIMEOUT);
	cenote_close(store);
}

/* ---- looks, remove ------------------------------------------------------- */

static void looks_at_10000_keys(struct e2e *t)
{
	enum {
		COUNT = KEYS_MAX
	};
	static struct cenote_key_item keys[COUNT];
	static struct cenote_stat_item stats[COUNT];
	struct cenote *store = start(t);

	for (unsigned i = 0; i < COUNT; i++) {
		keys[i].key = stats[i].key = numbered("k", i);
		if (i % 2 == 0)
			E2E_OK(cenote_put(store, keys[i].key, "abcdefgh", i % 8, NULL));
	}
	E2E_EQ(cenote_exists_batch(store, keys, COUNT), 0);
	for (unsigned i = 0; i < COUNT; i++)
		E2E_EQ(keys[i].result, i % 2 == 0);
	E2E_EQ(cenote_stat_batch(store, stats, COUNT), COUNT / 2);
	for (unsigned i = 0; i < COUNT; i++) {
		E2E_EQ(stats[i].result, i % 2 == 0 ? 0 : CENOTE_ERR_NOT_FOUND);
		E2E_TRUE(i % 2 != 0 || stats[i].stat.size == i % 8);
	}
	E2E_EQ(cenote_touch_batch(store, keys, COUNT), COUNT / 2);
	E2E_EQ(cenote_remove_batch(store, keys, COUNT), COUNT / 2);
	for (unsigned i = 0; i < COUNT; i++)
		E2E_EQ(keys[i].result, i % 2 == 0 ? 0 : CENOTE_ERR_NOT_FOUND);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void k12_05_a_group_is_removed_in_one_call(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_key_item group[] = {{.key = KEY("g/k")}, {.key = KEY("g/v")},
		{.key = KEY("g/index")}, {.key = KEY("g/meta")}};
	struct cenote_view view;

	for (unsigned i = 0; i < 4; i++)
		e2e_put(store, group[i].key.data, 1000 + 100000 * i, i);
	E2E_OK(cenote_get(store, KEY("g/meta"), NULL, &view));
	E2E_EQ(cenote_remove_batch(store, group, 4), 0);
	for (unsigned i = 0; i < 4; i++) {
		E2E_EQ(group[i].result, 0);
		E2E_EQ(cenote_exists(store, group[i].key), 0);
	}
	E2E_BYTES(view.data, view.size, 3);
	E2E_OK(cenote_release(store, &view));
	E2E_EQ(cenote_remove_batch(store, group, 4), 4);
	for (unsigned i = 0; i < 4; i++)
		E2E_EQ(group[i].result, CENOTE_ERR_NOT_FOUND);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void remove_of_one_key_twice_tells_the_second_apart(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_key_item items[] = {{.key = KEY("k")}, {.key = KEY("k")},
		{.key = KEY("")}, {.key = KEY("l")}};

	e2e_put(store, "k", 1000, 1);
	e2e_put(store, "l", 1000, 1);
	E2E_EQ(cenote_remove_batch(store, items, 4), 2);
	E2E_EQ(items[0].result, 0);
	E2E_EQ(items[1].result, CENOTE_ERR_NOT_FOUND);
	E2E_EQ(items[2].result, CENOTE_ERR_BAD_KEY);
	E2E_EQ(items[3].result, 0);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* ---- take ---------------------------------------------------------------- */

/* Take all keys in batches, beginning at another place than the others; say how many. */
static void role_take(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	unsigned count = (unsigned)e2e_self_number(self, 0), won = 0;
	unsigned offset = (unsigned)e2e_self_number(self, 1);
	struct cenote_get_item items[20];

	e2e_self_say(self, "attached");
	e2e_self_await(self, "go on");
	for (unsigned at = 0; at < count; at += ARRAY_LEN(items)) {
		for (unsigned i = 0; i < ARRAY_LEN(items); i++)
			items[i].key = numbered("k", (at + i + offset) % count);
		(void)cenote_take_batch(store, items, ARRAY_LEN(items), NULL);
		for (unsigned i = 0; i < ARRAY_LEN(items); i++) {
			unsigned key = (at + i + offset) % count;

			if (items[i].result != 0) {
				E2E_ERR(items[i].result, CENOTE_ERR_NOT_FOUND);
				continue;
			}
			E2E_EQ(items[i].view.size, 100 + key);
			E2E_BYTES(items[i].view.data, items[i].view.size, key);
			E2E_OK(cenote_release(store, &items[i].view));
			won++;
		}
	}
	e2e_self_say(self, "%u", won);
	cenote_close(store);
}

static void k18_03_each_object_is_taken_by_one_of_8_processes(struct e2e *t)
{
	enum {
		COUNT = 2000,
		TAKERS = 8
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *takers[TAKERS];
	unsigned sum = 0;

	for (unsigned i = 0; i < COUNT; i++)
		e2e_put(store, numbered("k", i).data, 100 + i, i);
	for (unsigned i = 0; i < TAKERS; i++) {
		/* In pairs that begin at the same place, so that they meet. */
		char offset[16];

		(void)snprintf(offset, sizeof(offset), "%u", i / 2 * 500);
		takers[i] = e2e_role_start(t, node, "take", "2000", offset, NULL);
		e2e_role_expect(takers[i], "attached");
	}
	for (unsigned i = 0; i < TAKERS; i++)
		e2e_role_tell(takers[i], "go on");
	for (unsigned i = 0; i < TAKERS; i++) {
		sum += (unsigned)strtoul(e2e_role_hear(takers[i]), NULL, 10);
		e2e_role_end(takers[i]);
	}
	E2E_EQ(sum, COUNT);
	E2E_EQ(e2e_stat(store, "pool.objects"), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void take_of_one_key_twice_has_one_winner(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_get_item items[] = {
		{.key = KEY("k")}, {.key = KEY("k")}, {.key = KEY("none")}};

	e2e_put(store, "k", 100000, 1);
	E2E_EQ(cenote_take_batch(store, items, 3, NULL), 2);
	E2E_OK(items[0].result);
	E2E_EQ(items[1].result, CENOTE_ERR_NOT_FOUND);
	E2E_EQ(items[2].result, CENOTE_ERR_NOT_FOUND);
	E2E_BYTES(items[0].view.data, 100000, 1);
	E2E_OK(cenote_release(store, &items[0].view));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(take)};

static const struct e2e_case cases[] = {
	E2E_CASE(k12_01_put_of_new_existing_and_duplicate_keys),
	E2E_CASE(put_of_more_than_the_pool_stores_all_in_turn),
	E2E_CASE(create_gives_a_writer_for_each_key),
	E2E_CASE(get_of_1000_keys_hits_and_misses),
	E2E_CASE(k12_03_partial_answers_leave_nothing_behind),
	E2E_CASE(get_of_one_key_twice_gives_two_views),
	E2E_CASE(get_into_fills_each_buffer_that_is_large_enough),
	E2E_CASE(get_that_waits_has_one_deadline_for_all),
	E2E_CASE(looks_at_10000_keys),
	E2E_CASE(k12_05_a_group_is_removed_in_one_call),
	E2E_CASE(remove_of_one_key_twice_tells_the_second_apart),
	E2E_CASE(k18_03_each_object_is_taken_by_one_of_8_processes),
	E2E_CASE(take_of_one_key_twice_has_one_winner),
};

E2E_MAIN(cases, roles)
