/*
 * Tests of a pool that is full, with a disk to go to: room for all, nothing lost, and
 * nothing in the way that should not be.
 */
#include "e2e_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text)  cenote_key(text)
#define KEY_SIZE   32
#define MIB        ((uint64_t)1 << 20)
#define POOL       (64 * MIB)
#define SMALL      2048u
#define SMALL_MOST 40000
#define GROUP      256
#define PUTTERS    20

/* ---- many keys at once --------------------------------------------------- */

static struct cenote_key name(char *text, const char *what, int i)
{
	(void)snprintf(text, KEY_SIZE, "%s %d", what, i);
	return KEY(text);
}

/* Object number i of them has the seed i. */
static void put_group(struct cenote *store, int first, bool softpin)
{
	static unsigned char bytes[GROUP][SMALL];
	static char names[GROUP][KEY_SIZE];
	const struct cenote_put_options options = {.softpin = softpin};
	struct cenote_part parts[GROUP];
	struct cenote_put_item items[GROUP];

	for (int i = 0; i < GROUP; i++) {
		e2e_fill(bytes[i], SMALL, (uint64_t)(first + i));
		parts[i] = (struct cenote_part){bytes[i], SMALL};
		items[i] = (struct cenote_put_item){
			.key = name(names[i], "small", first + i),
			.parts = &parts[i],
			.count = 1,
		};
	}
	E2E_EQ(cenote_put_batch(store, items, GROUP, &options), 0);
}

/* How many of the first `count` are there. */
static int count_there(struct cenote *store, const char *what, int count)
{
	static char names[GROUP][KEY_SIZE];
	struct cenote_key_item items[GROUP];
	int there = 0;

	for (int first = 0; first < count; first += GROUP) {
		int some = count - first < GROUP ? count - first : GROUP;

		for (int i = 0; i < some; i++)
			items[i].key = name(names[i], what, first + i);
		E2E_EQ(cenote_exists_batch(store, items, (size_t)some), 0);
		for (int i = 0; i < some; i++)
			there += items[i].result == 1;
	}
	return there;
}

/* ---- large among small ones ---------------------------------------------- */

static void role_putter(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	const struct cenote_put_options options = {
		.softpin = e2e_self_number(self, 1) != 0};
	uint64_t number = e2e_self_number(self, 0), size = POOL / 20;
	unsigned char *data = malloc(size);
	char key[KEY_SIZE];

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, number);
	e2e_self_say(self, "there");
	e2e_self_await(self, "go");
	E2E_OK(cenote_put(store, name(key, "large", (int)number), data, size, &options));
	e2e_self_say(self, "put");
	free(data);
	cenote_close(store);
}

static void twenty_put_at_once(struct e2e *t, struct e2e_node *node, bool softpin)
{
	struct e2e_role *putters[PUTTERS];
	char number[16];

	for (int i = 0; i < PUTTERS; i++) {
		(void)snprintf(number, sizeof(number), "%d", i);
		putters[i] = e2e_role_start(
			t, node, "putter", number, softpin ? "1" : "0", NULL);
	}
	for (int i = 0; i < PUTTERS; i++)
		e2e_role_expect(putters[i], "there");
	for (int i = 0; i < PUTTERS; i++)
		e2e_role_tell(putters[i], "go");
	for (int i = 0; i < PUTTERS; i++)
		e2e_role_expect(putters[i], "put");
	for (int i = 0; i < PUTTERS; i++)
		e2e_role_end(putters[i]);
}

static void fill_with_small(
	struct cenote *store, bool softpin, uint64_t limit, int *ret_count)
{
	*ret_count = 0;
	while (e2e_in_use(store) < limit) {
		E2E_TRUE(*ret_count + GROUP <= SMALL_MOST);
		put_group(store, *ret_count, softpin);
		*ret_count += GROUP;
	}
}

/* Each has the default deadline, and the pool nothing but what is in their way. */
static void twenty_large_puts_move_small_softpin_ones(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "256M");
	struct cenote *store = e2e_connect(node);
	char key[KEY_SIZE];
	int count;

	fill_with_small(store, true, POOL / 100 * 97, &count);
	twenty_put_at_once(t, node, true);
	E2E_EQ(count_there(store, "small", count), count);
	E2E_EQ(count_there(store, "large", PUTTERS), PUTTERS);
	for (int i = 0; i < count; i += 37) {
		(void)name(key, "small", i);
		e2e_verify(store, key, SMALL, (uint64_t)i);
	}
	for (int i = 0; i < PUTTERS; i++) {
		(void)name(key, "large", i);
		e2e_verify(store, key, POOL / 20, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

static void twenty_large_puts_drop_small_cache_ones(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	uint64_t evicted;
	char key[KEY_SIZE];
	int count;

	fill_with_small(store, false, POOL / 100 * 97, &count);
	evicted = e2e_stat(store, "counters.evicted");
	twenty_put_at_once(t, node, false);
	E2E_TRUE(e2e_stat(store, "counters.evicted") > evicted);
	E2E_TRUE(count_there(store, "large", PUTTERS) > 0);
	for (int i = 0; i < PUTTERS; i++) {
		(void)name(key, "large", i);
		if (cenote_exists(store, KEY(key)) == 1)
			e2e_verify(store, key, POOL / 20, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- exists while the pool is pressed ------------------------------------ */

#define PROBED 56

static void role_prober(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_key_item items[PROBED];
	char names[PROBED][KEY_SIZE];
	uint64_t rounds = e2e_self_number(self, 0);

	for (int i = 0; i < PROBED; i++)
		items[i].key = name(names[i], "old", i);
	e2e_self_say(self, "probes");
	for (uint64_t round = 0; round < rounds; round++) {
		E2E_EQ(cenote_exists_batch(store, items, PROBED), 0);
		for (int i = 0; i < PROBED; i++)
			E2E_EQ(items[i].result, 1);
		if (round == rounds / 2)
			e2e_self_say(self, "half");
	}
	e2e_self_say(self, "done");
	cenote_close(store);
}

/* Nine tenths of the pool are probed again and again, and move out for what is put. */
static void k1_01_exists_keeps_nothing_from_the_disk(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *prober;
	uint64_t saves;
	char key[KEY_SIZE];
	int put = 0;

	for (int i = 0; i < PROBED; i++) {
		(void)name(key, "old", i);
		e2e_put_softpin(store, key, MIB, (uint64_t)i);
	}
	saves = e2e_stat(store, "counters.saves");
	prober = e2e_role_start(t, node, "prober", "1000", NULL);
	e2e_role_expect(prober, "probes");
	for (; put < 200; put++) {
		(void)name(key, "new", put);
		e2e_put_softpin(store, key, MIB, (uint64_t)put);
	}
	E2E_TRUE(e2e_stat(store, "counters.saves") > saves);
	E2E_TRUE(e2e_stat(store, "counters.dropped") >= 100);
	E2E_EQ(e2e_stat(store, "pool.leases"), 0);
	e2e_role_expect(prober, "half");
	e2e_role_expect(prober, "done");
	e2e_role_end(prober);
	E2E_EQ(count_there(store, "new", put), put);
	for (int i = 0; i < PROBED; i += 5) {
		(void)name(key, "old", i);
		e2e_verify(store, key, MIB, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- the contract of softpin --------------------------------------------- */

/* Its time to live is counted from its put: nothing that reads it starts it anew. */
static void read_until_it_ends(struct cenote *store, const char *key, uint64_t size)
{
	struct cenote_stat stat;
	int64_t before = INT64_MAX;
	struct cenote_lease lease;
	struct cenote_view view;

	while (cenote_stat(store, KEY(key), &stat) == 0) {
		E2E_TRUE(stat.softpin && stat.expires_in_ms <= before);
		before = stat.expires_in_ms;
		if (cenote_lease(store, KEY(key), 100, &lease) == 0)
			E2E_OK(cenote_lease_release(store, &lease));
		(void)cenote_touch(store, KEY(key));
		if (cenote_get(store, KEY(key), NULL, &view) != 0)
			break;
		E2E_BYTES(view.data, size, 7);
		E2E_OK(cenote_release(store, &view));
	}
	E2E_ERR(cenote_get(store, KEY(key), NULL, &view), CENOTE_ERR_NOT_FOUND);
	E2E_ERR(cenote_touch(store, KEY(key)), CENOTE_ERR_NOT_FOUND);
	E2E_EQ(cenote_exists(store, KEY(key)), 0);
}

static void put_with_ttl(
	struct cenote *store, const char *key, uint64_t size, uint64_t ms)
{
	const struct cenote_put_options options = {.softpin = true, .ttl_ms = ms};
	unsigned char *data = malloc(size);

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, 7);
	E2E_OK(cenote_put(store, KEY(key), data, size, &options));
	free(data);
}

static void k13_01_reads_do_not_renew_what_was_given_at_put(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	struct cenote_stat stat;
	uint64_t began = e2e_now_ms(), ended;

	put_with_ttl(store, "k", MIB, 1500);
	read_until_it_ends(store, "k", MIB);
	ended = e2e_now_ms() - began;
	E2E_TRUE(ended >= 1500 && ended < 1500 + e2e_second_ms());
	/* The same where it leaves the pool and comes back in between. */
	began = e2e_now_ms();
	put_with_ttl(store, "k", MIB, 5000);
	e2e_push_out(store, "k");
	read_until_it_ends(store, "k", MIB);
	ended = e2e_now_ms() - began;
	E2E_TRUE(ended >= 5000 && ended < 5000 + e2e_second_ms());
	/* A cache object stays one, however it is read. */
	e2e_put(store, "cache", MIB, 1);
	for (int i = 0; i < 10; i++)
		e2e_verify(store, "cache", MIB, 1);
	E2E_OK(cenote_stat(store, KEY("cache"), &stat));
	E2E_TRUE(!stat.softpin);
	e2e_put_softpin(store, "softpin", MIB, 1);
	e2e_verify(store, "softpin", MIB, 1);
	E2E_OK(cenote_stat(store, KEY("softpin"), &stat));
	E2E_TRUE(stat.softpin && stat.expires_in_ms == -1);
	e2e_check(store);
	cenote_close(store);
}

static void k13_03_a_full_pool_moves_something_to_the_disk(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "256M");
	struct cenote *store = e2e_connect(node);
	char key[KEY_SIZE];

	for (int i = 0; i < 63; i++) {
		(void)name(key, "k", i);
		e2e_put_softpin(store, key, MIB, (uint64_t)i);
	}
	e2e_put_softpin(store, "one more", 4 * MIB, 100);
	E2E_TRUE(e2e_stat(store, "disk.objects") > 0);
	for (int i = 0; i < 63; i++) {
		(void)name(key, "k", i);
		e2e_verify(store, key, MIB, (uint64_t)i);
	}
	e2e_verify(store, "one more", 4 * MIB, 100);
	e2e_check(store);
	cenote_close(store);
}

/* ---- every path that frees memory ---------------------------------------- */

#define PINNED 24

static void expect_pinned(struct cenote *store)
{
	char key[KEY_SIZE];

	E2E_EQ(count_there(store, "pinned", PINNED), PINNED);
	for (int i = 0; i < PINNED; i++) {
		(void)name(key, "pinned", i);
		e2e_verify(store, key, MIB, (uint64_t)i);
	}
}

/* A putter that dies, with a put under way and objects that are whole. */
static void role_dying(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;
	char key[KEY_SIZE];

	for (int i = 0; i < PINNED; i++) {
		(void)name(key, "pinned", i);
		e2e_put_softpin(store, key, MIB, (uint64_t)i);
	}
	E2E_OK(cenote_create(store, KEY("unfinished"), MIB, NULL, &writer));
	e2e_self_say(self, "put");
	e2e_self_await(self, "never told");
}

static void flood(struct cenote *store, const char *what, bool softpin)
{
	char key[KEY_SIZE];

	for (int i = 0; i < 30; i++) {
		(void)name(key, what, i);
		if (softpin)
			e2e_put_softpin(store, key, 3 * MIB, (uint64_t)i);
		else
			e2e_put(store, key, 3 * MIB, (uint64_t)i);
	}
	for (int i = 0; softpin && i < 30; i++)
		E2E_OK(cenote_remove(store, name(key, what, i)));
}

static void faults(struct cenote *store, const char *point, int64_t times)
{
	E2E_OK(cenote_inject_fault_local_master(
		store, point, "return_error", CENOTE_ERR_IO, 0, times));
}

static void faults_end(struct cenote *store, const char *point)
{
	E2E_OK(cenote_inject_fault_local_master(store, point, "reset", 0, 0, 0));
}

/* Saves fail at each of their points while room is wanted. */
static void failed_saves_lose_nothing(struct cenote *store)
{
	static const struct {
		const char *point, *what;
	} saves[] = {
		{"NodeBeforeDiskWrite", "unwritten"},
		{"NodeAfterDiskWrite", "written"},
		{"NodeBeforeDiskCommit", "uncommitted"},
		{"NodeAfterDiskCommit", "committed"},
	};

	for (size_t i = 0; i < ARRAY_LEN(saves); i++) {
		faults(store, saves[i].point, 1);
		flood(store, saves[i].what, true);
		faults_end(store, saves[i].point);
		expect_pinned(store);
	}
}

static void failed_load_loses_nothing(struct cenote *store)
{
	struct cenote_view view;

	e2e_push_out(store, "pinned 3");
	faults(store, "NodeAfterDiskRead", 1);
	E2E_ERR(cenote_get(store, KEY("pinned 3"), NULL, &view), CENOTE_ERR_IO);
	faults_end(store, "NodeAfterDiskRead");
	e2e_verify(store, "pinned 3", MIB, 3);
}

static void k13_05_only_its_owner_ends_a_softpin_object(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "1G");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *dying = e2e_role_start(t, node, "dying", NULL);
	char key[KEY_SIZE];

	e2e_role_expect(dying, "put");
	e2e_role_signal(dying, SIGKILL);
	E2E_UNTIL(e2e_stat(store, "pool.writing") == 0, e2e_second_ms());
	expect_pinned(store);
	flood(store, "cache", false);
	expect_pinned(store);
	flood(store, "softpin", true);
	expect_pinned(store);
	if (e2e_has_faults()) {
		failed_saves_lose_nothing(store);
		failed_load_loses_nothing(store);
	}
	e2e_node_kill(node);
	e2e_node_restart(node);
	expect_pinned(store);
	e2e_node_stop(node);
	e2e_node_restart(node);
	expect_pinned(store);
	for (int i = 0; i < PINNED; i++)
		E2E_OK(cenote_remove(store, name(key, "pinned", i)));
	E2E_EQ(count_there(store, "pinned", PINNED), 0);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(twenty_large_puts_move_small_softpin_ones),
	E2E_CASE(twenty_large_puts_drop_small_cache_ones),
	E2E_CASE(k1_01_exists_keeps_nothing_from_the_disk),
	E2E_CASE(k13_01_reads_do_not_renew_what_was_given_at_put),
	E2E_CASE(k13_03_a_full_pool_moves_something_to_the_disk),
	E2E_CASE(k13_05_only_its_owner_ends_a_softpin_object),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(putter),
	E2E_ROLE(prober),
	E2E_ROLE(dying),
};

E2E_MAIN(cases, roles)
