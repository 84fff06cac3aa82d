/*
 * Tests of the node's statistics: each number is what a recount gives, at every moment.
 */
#include "e2e.h"

#include "tools/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)

static const char *const states[] = {"free", "withheld", "granted", "writing", "inactive",
	"active", "dirty", "spent", "clean", "lent", "large", "saving", "parked",
	"moving", "condemned"};

static char *stats_text(struct cenote *store)
{
	char *text = NULL;

	E2E_OK(cenote_info(store, CENOTE_INFO_STATS, &text));
	return text;
}

static uint64_t number_of(const char *text, const char *group, const char *name)
{
	uint64_t value = 0;
	char path[80];

	(void)snprintf(path, sizeof(path), "%s.%s", group, name);
	if (!stats_u64(text, path, &value))
		e2e_fail(__FILE__, __LINE__, "no number %s in %s", path, text);
	return value;
}

/* Bytes by state add up to the pool, and the largest hole is not larger than what is
 * free; the bytes that are not free. */
static uint64_t expect_sum(const char *text)
{
	uint64_t sum = 0, size = number_of(text, "pool", "size");

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		uint64_t bytes = number_of(text, "pool", states[i]);

		E2E_TRUE(bytes <= size);
		sum += bytes;
	}
	E2E_EQ(sum, size);
	E2E_TRUE(number_of(text, "pool", "largest_hole") <=
		 number_of(text, "pool", "free"));
	return size - number_of(text, "pool", "free");
}

/* A gauge that went below zero is a number of 20 digits. */
static int expect_small(void *arg, const char *path, const char *value, size_t size)
{
	(void)arg;
	if (size >= 18 && value[0] >= '0' && value[0] <= '9' &&
		strstr(path, "epoch") == NULL)
		e2e_fail(__FILE__, __LINE__, "%s is %.*s", path, (int)size, value);
	return 0;
}

static void expect_sane(struct cenote *store)
{
	char *text = stats_text(store);

	E2E_TRUE(stats_walk(text, expect_small, NULL));
	(void)expect_sum(text);
	cenote_free(text);
	e2e_check(store);
}

static void k14_01_gauges_after_removes_and_a_restart(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view view;
	char key[32];

	expect_sane(store);
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		e2e_put(store, key, i * 1111, i);
	}
	E2E_OK(cenote_get(store, KEY("k50"), NULL, &view));
	expect_sane(store);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 100; i++) {
			(void)snprintf(key, sizeof(key), "k%u", i);
			E2E_ERR(cenote_remove(store, KEY(key)),
				round == 0 ? 0 : CENOTE_ERR_NOT_FOUND);
		}
		expect_sane(store);
		E2E_EQ(e2e_stat(store, "pool.objects"), 0);
		E2E_TRUE(e2e_stat(store, "pool.condemned") > 50000);
	}
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 0);
	expect_sane(store);
	E2E_EQ(e2e_stat(store, "counters.removes"), 100);
	e2e_node_kill(node);
	e2e_node_restart(node);
	E2E_EQ(e2e_in_use(store), 0);
	E2E_EQ(e2e_stat(store, "node.clients"), 1);
	expect_sane(store);
	e2e_node_stop(node);
	e2e_node_restart(node);
	E2E_ERR(cenote_remove(store, KEY("k1")), CENOTE_ERR_NOT_FOUND);
	expect_sane(store);
	cenote_close(store);
}

static void k14_01_gauges_without_a_client_that_has_anything(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "1M", NULL));

	expect_sane(store);
	E2E_EQ(e2e_in_use(store), 0);
	E2E_EQ(e2e_stat(store, "pool.objects"), 0);
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 0);
	cenote_close(store);
}

/* The pool is rounded up; what the statistics say is what can be stored. */
static void k14_03_the_limit_shown_is_the_limit_enforced(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "10000001", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t size = e2e_stat(store, "pool.size");
	struct cenote_writer writer;
	char *text = NULL;
	char shown[64];

	E2E_TRUE(size >= 10000001 && size <= 10000001 + (2u << 20));
	E2E_EQ(size % e2e_stat(store, "pool.page_size"), 0);
	E2E_EQ(e2e_stat(store, "pool.free"), size);
	E2E_EQ(e2e_stat(store, "pool.largest_hole"), size);
	E2E_OK(cenote_create(store, KEY("all"), size, NULL, &writer));
	E2E_EQ(e2e_stat(store, "pool.free"), 0);
	E2E_OK(cenote_abort(store, &writer));
	E2E_ERR(cenote_create(store, KEY("more"), size + 1, NULL, &writer),
		CENOTE_ERR_TOO_LARGE);
	(void)snprintf(shown, sizeof(shown), "%" PRIu64, size);
	E2E_DETAIL(shown);
	E2E_OK(cenote_info(store, CENOTE_INFO_CONFIG, &text));
	E2E_TRUE(strstr(text, "\"pool\":10000001") != NULL);
	cenote_free(text);
	cenote_close(store);
}

static void each_object_is_counted_in_its_state(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	struct cenote_writer writer;
	struct cenote_view view;

	e2e_put(store, "cache", 1 << 20, 1);
	E2E_EQ(e2e_stat(store, "pool.inactive") + e2e_stat(store, "pool.active"),
		1 << 20);
	e2e_put_softpin(store, "softpin", 2 << 20, 1);
	E2E_EQ(e2e_stat(store, "pool.dirty"), 2 << 20);
	E2E_OK(cenote_create(store, KEY("open"), 3 << 20, NULL, &writer));
	E2E_EQ(e2e_stat(store, "pool.writing"), 3 << 20);
	E2E_EQ(e2e_stat(store, "clients.0.puts_under_way"), 1);
	E2E_OK(cenote_get(store, KEY("cache"), NULL, &view));
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 1);
	E2E_EQ(e2e_stat(store, "clients.0.held_bytes"), 1 << 20);
	E2E_OK(cenote_remove(store, KEY("cache")));
	E2E_EQ(e2e_stat(store, "pool.condemned"), 1 << 20);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	E2E_OK(cenote_abort(store, &writer));
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 2 << 20);
	expect_sane(store);
	cenote_close(store);
}

static void get_all(struct cenote *store, unsigned count, unsigned first)
{
	for (unsigned i = first; i < count; i++) {
		struct cenote_view view;
		char key[32];

		(void)snprintf(key, sizeof(key), "d%u", i);
		E2E_OK(cenote_get(store, KEY(key), NULL, &view));
		E2E_BYTES(view.data, view.size, i);
		E2E_OK(cenote_release(store, &view));
		expect_sane(store);
	}
}

/* Three times the pool: while it moves out and back, and as each object ends. */
static void k14_01_gauges_with_a_disk(struct e2e *t)
{
	enum {
		COUNT = 96,
		SIZE = 1 << 20
	};
	char disk[256];
	struct e2e_node *node;
	struct cenote *store;
	char key[32];

	(void)snprintf(disk, sizeof(disk), "%s/disk", e2e_dir(t));
	node = e2e_node_start(
		t, "--pool", "32M", "--disk", disk, "--disk-size", "256M", NULL);
	store = e2e_connect(node);
	E2E_EQ(e2e_stat(store, "disk.bytes"), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(key, sizeof(key), "d%u", i);
		e2e_put_softpin(store, key, SIZE, i);
		expect_sane(store);
	}
	E2E_TRUE(e2e_stat(store, "disk.only_bytes") >= (COUNT - 32) * SIZE);
	E2E_EQ(e2e_stat(store, "disk.objects"), e2e_stat(store, "disk.bytes") / SIZE);
	E2E_TRUE(e2e_stat(store, "pool.turning") >= SIZE);
	get_all(store, COUNT, 0);
	E2E_TRUE(e2e_stat(store, "counters.loaded_bytes") >= (COUNT - 32) * SIZE);
	E2E_EQ(e2e_stat(store, "counters.loaded_bytes"),
		e2e_stat(store, "counters.loads") * SIZE);
	E2E_TRUE(e2e_stat(store, "counters.dropped_bytes") >= (COUNT - 32) * SIZE);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(key, sizeof(key), "d%u", i);
		E2E_OK(cenote_remove(store, KEY(key)));
		expect_sane(store);
	}
	E2E_EQ(e2e_in_use(store), 0);
	E2E_EQ(e2e_stat(store, "pool.objects"), 0);
	E2E_EQ(e2e_stat(store, "disk.bytes"), 0);
	E2E_EQ(e2e_stat(store, "disk.used"), 0);
	E2E_EQ(e2e_stat(store, "disk.objects"), 0);
	cenote_close(store);
}

/* ---- churn --------------------------------------------------------------- */

static int told_to_end(struct e2e_self *self, unsigned round)
{
	/* Every 16 rounds the test is asked whether to go on. */
	if (round % 16 != 0)
		return 0;
	e2e_self_say(self, "round");
	return strcmp(e2e_self_hear(self), "end") == 0;
}

/* Put, read, hold, abort and remove objects of all sizes until told to end. */
static void role_churn(struct e2e_self *self)
{
	uint64_t seed = e2e_self_number(self, 0), random = seed + 1;
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view held = {0};

	for (unsigned round = 1; !told_to_end(self, round); round++) {
		struct cenote_writer writer;
		struct cenote_view view;
		char key[32];
		int err;

		random = random * 6364136223846793005u + 1442695040888963407u;
		(void)snprintf(key, sizeof(key), "c%u", (unsigned)(random >> 40) % 200);
		switch (random >> 60) {
		case 0 ... 7:
			err = cenote_create(
				store, KEY(key), (random >> 44) % 700000, NULL, &writer);
			if (err == CENOTE_ERR_EXISTS)
				break;
			E2E_OK(err);
			e2e_fill(writer.data, writer.size, 1);
			err = random >> 60 == 0 ? cenote_abort(store, &writer)
						: cenote_seal(store, &writer);
			E2E_TRUE(err == 0 || err == CENOTE_ERR_REMOVED);
			break;
		case 8 ... 11:
			err = cenote_get(store, KEY(key), NULL, &view);
			if (err == CENOTE_ERR_NOT_FOUND)
				break;
			E2E_OK(err);
			E2E_BYTES(view.data, view.size, 1);
			if (held.data != NULL)
				E2E_OK(cenote_release(store, &held));
			held = view;
			break;
		default:
			err = cenote_remove(store, KEY(key));
			E2E_TRUE(err == 0 || err == CENOTE_ERR_NOT_FOUND);
			break;
		}
	}
	if (held.data != NULL)
		E2E_OK(cenote_release(store, &held));
	cenote_close(store);
}

static void k14_05_bytes_by_state_add_up_in_each_of_1000_samples(struct e2e *t)
{
	enum {
		CHURNERS = 3,
		SAMPLES = 1000
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "24M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *churners[CHURNERS];
	uint64_t busy = 0;
	char number[16];

	for (unsigned i = 0; i < CHURNERS; i++) {
		(void)snprintf(number, sizeof(number), "%u", i);
		churners[i] = e2e_role_start(t, node, "churn", number, NULL);
	}
	for (unsigned sample = 0; sample < SAMPLES; sample++) {
		char *text = stats_text(store);

		busy += expect_sum(text) > 0;
		cenote_free(text);
		e2e_role_expect(churners[sample % CHURNERS], "round");
		e2e_role_tell(churners[sample % CHURNERS],
			sample + CHURNERS >= SAMPLES ? "end" : "go on");
	}
	E2E_TRUE(busy > SAMPLES / 2);
	for (unsigned i = 0; i < CHURNERS; i++)
		e2e_role_end(churners[i]);
	E2E_TRUE(e2e_stat(store, "counters.evicted") > 0);
	expect_sane(store);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(churn)};

static const struct e2e_case cases[] = {
	E2E_CASE(k14_01_gauges_after_removes_and_a_restart),
	E2E_CASE(k14_01_gauges_without_a_client_that_has_anything),
	E2E_CASE(k14_03_the_limit_shown_is_the_limit_enforced),
	E2E_CASE(k14_01_gauges_with_a_disk),
	E2E_CASE(each_object_is_counted_in_its_state),
	E2E_CASE(k14_05_bytes_by_state_add_up_in_each_of_1000_samples),
};

E2E_MAIN(cases, roles)
