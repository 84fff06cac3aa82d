/*
 * Tests of what comes back from the disk: once for all who ask, and never more than fits.
 */
#include "e2e_disk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define KEY_SIZE  32
#define MIB       ((uint64_t)1 << 20)
#define KIB       ((uint64_t)1 << 10)

static struct cenote_key name(char *text, const char *what, uint64_t i)
{
	(void)snprintf(text, KEY_SIZE, "%s %llu", what, (unsigned long long)i);
	return KEY(text);
}

static void node_sleeps_at(struct cenote *store, const char *point, int64_t ms)
{
	E2E_OK(cenote_inject_fault_local_master(store, point, "sleep", ms, 0, -1));
}

/* ---- one read for all ---------------------------------------------------- */

#define CLIENTS 64
#define LARGE   (16 * MIB)

static void role_reader(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	const struct cenote_get_options options = {.timeout_ms = E2E_DEADLINE_MS};
	bool copies = e2e_self_number(self, 0) % 2 == 1;
	unsigned char *copy = malloc(copies ? LARGE : 1);
	struct cenote_view view;
	uint64_t size = 0;

	E2E_TRUE(copy != NULL);
	e2e_self_say(self, "there");
	e2e_self_await(self, "go");
	if (copies) {
		E2E_OK(cenote_get_into(store, KEY("k"), copy, LARGE, &options, &size));
		E2E_EQ(size, LARGE);
		E2E_BYTES(copy, LARGE, 7);
		e2e_self_say(self, "read");
		e2e_self_await(self, "end");
	} else {
		E2E_OK(cenote_get(store, KEY("k"), &options, &view));
		E2E_EQ(view.size, LARGE);
		E2E_BYTES(view.data, LARGE, 7);
		e2e_self_say(self, "read");
		e2e_self_await(self, "end");
		E2E_OK(cenote_release(store, &view));
	}
	free(copy);
	cenote_close(store);
}

static void k11_01_64_clients_load_one_object_once(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *readers[CLIENTS];
	struct cenote_stat stat;
	uint64_t loads, read;
	char number[16];

	e2e_put_softpin(store, "k", LARGE, 7);
	e2e_push_out(store, "k");
	for (int i = 0; i < CLIENTS; i++) {
		(void)snprintf(number, sizeof(number), "%d", i);
		readers[i] = e2e_role_start(t, node, "reader", number, NULL);
	}
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_expect(readers[i], "there");
	e2e_disk_settle(store);
	loads = e2e_stat(store, "counters.loads");
	read = e2e_stat(store, "counters.loaded_bytes");
	/* So slow that all ask before it is there. */
	if (e2e_has_faults())
		node_sleeps_at(store, "NodeBeforeDiskRead", 3000);
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_tell(readers[i], "go");
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_expect(readers[i], "read");
	E2E_EQ(e2e_stat(store, "counters.loads"), loads + 1);
	E2E_EQ(e2e_stat(store, "counters.loaded_bytes"), read + LARGE);
	if (e2e_has_faults())
		E2E_EQ(e2e_node_hits(store, "NodeBeforeDiskRead"), 1);
	E2E_EQ(e2e_in_use(store), LARGE);
	E2E_OK(cenote_stat(store, KEY("k"), &stat));
	E2E_EQ(stat.holds, CLIENTS / 2);
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_tell(readers[i], "end");
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_end(readers[i]);
	e2e_check(store);
	cenote_close(store);
}

/* ---- two batches that are too large together ----------------------------- */

#define BATCH  38 /* objects of 1 MiB: 60 % of the pool */
#define FILLER 70

static void role_batch(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_get_item items[BATCH];
	const struct cenote_get_options options = {.timeout_ms = E2E_DEADLINE_MS};
	uint64_t first = e2e_self_number(self, 0);
	struct e2e_number_key keys[BATCH];
	size_t failed;

	e2e_self_say(self, "there");
	while (strcmp(e2e_self_hear(self), "get") == 0) {
		for (uint64_t i = 0; i < BATCH; i++)
			items[i].key = KEY(e2e_number(&keys[i], first + i)->text);
		failed = cenote_get_batch(store, items, BATCH, &options);
		for (uint64_t i = 0; i < BATCH; i++) {
			if (items[i].result != 0) {
				E2E_ERR(items[i].result, CENOTE_ERR_NO_SPACE);
				continue;
			}
			E2E_EQ(items[i].view.size, MIB);
			E2E_BYTES(items[i].view.data, MIB, first + i);
		}
		e2e_self_say(self, "%zu", failed);
		e2e_self_await(self, "release");
		for (uint64_t i = 0; i < BATCH; i++)
			if (items[i].result == 0)
				E2E_OK(cenote_release(store, &items[i].view));
		e2e_self_say(self, "released");
	}
	cenote_close(store);
}

static uint64_t hear_number(struct e2e_role *role)
{
	return strtoull(e2e_role_hear(role), NULL, 10);
}

/* Nothing of either batch is in the pool: a third set has it. */
static void refill(struct cenote *store)
{
	struct e2e_number_key key;

	for (uint64_t i = 0; i < FILLER; i++)
		e2e_put_numbers(store, 1000 + i, 1, MIB);
	for (uint64_t i = 0; i < FILLER; i++)
		E2E_OK(cenote_remove(store, KEY(e2e_number(&key, 1000 + i)->text)));
	e2e_disk_settle(store);
}

static void release_both(struct e2e_role *a, struct e2e_role *b)
{
	e2e_role_tell(a, "release");
	e2e_role_tell(b, "release");
	e2e_role_expect(a, "released");
	e2e_role_expect(b, "released");
}

static void one_after_the_other(
	struct cenote *store, struct e2e_role *first, struct e2e_role *second)
{
	uint64_t refused;

	refill(store);
	e2e_role_tell(first, "get");
	E2E_EQ(hear_number(first), 0);
	e2e_role_tell(second, "get");
	refused = hear_number(second);
	/* 12 MiB too much, and some for edges. */
	E2E_TRUE(refused >= 12 && refused <= 20);
	release_both(first, second);
}

static void both_at_once(struct cenote *store, struct e2e_role *a, struct e2e_role *b)
{
	uint64_t refused_a, refused_b, began;

	refill(store);
	began = e2e_now_ms();
	e2e_role_tell(a, "get");
	e2e_role_tell(b, "get");
	refused_a = hear_number(a);
	refused_b = hear_number(b);
	/* Told at once, not by a deadline. */
	E2E_TRUE(e2e_now_ms() - began < E2E_DEADLINE_MS / 2);
	E2E_TRUE(refused_a == 0 || refused_b == 0);
	E2E_TRUE(refused_a + refused_b >= 12 && refused_a + refused_b <= 20);
	release_both(a, b);
}

static void two_batches_of_views_are_never_both_stuck(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *a, *b;

	e2e_put_numbers(store, 0, 2 * BATCH, MIB);
	a = e2e_role_start(t, node, "batch", "0", NULL);
	b = e2e_role_start(t, node, "batch", "38", NULL);
	e2e_role_expect(a, "there");
	e2e_role_expect(b, "there");
	for (int round = 0; round < (e2e_is_slow() ? 2 : 5); round++) {
		one_after_the_other(store, a, b);
		one_after_the_other(store, b, a);
		both_at_once(store, a, b);
	}
	e2e_role_tell(a, "end");
	e2e_role_tell(b, "end");
	e2e_role_end(a);
	e2e_role_end(b);
	e2e_check(store);
	cenote_close(store);
}

static void role_copies(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_get_into_item items[BATCH];
	const struct cenote_get_options options = {.timeout_ms = E2E_DEADLINE_MS};
	uint64_t first = e2e_self_number(self, 0);
	struct e2e_number_key keys[BATCH];
	unsigned char *copy = malloc(BATCH * MIB);

	E2E_TRUE(copy != NULL);
	for (uint64_t i = 0; i < BATCH; i++)
		items[i] = (struct cenote_get_into_item){
			.key = KEY(e2e_number(&keys[i], first + i)->text),
			.buffer = copy + i * MIB,
			.buffer_size = MIB,
		};
	e2e_self_say(self, "there");
	e2e_self_await(self, "get");
	E2E_EQ(cenote_get_into_batch(store, items, BATCH, &options), 0);
	for (uint64_t i = 0; i < BATCH; i++) {
		E2E_EQ(items[i].size, MIB);
		E2E_BYTES(items[i].buffer, MIB, first + i);
	}
	free(copy);
	cenote_close(store);
}

/* They hold one object at a time, so that both succeed. */
static void two_batches_of_copies_both_succeed(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *a, *b;

	e2e_put_numbers(store, 0, 2 * BATCH, MIB);
	refill(store);
	a = e2e_role_start(t, node, "copies", "0", NULL);
	b = e2e_role_start(t, node, "copies", "38", NULL);
	e2e_role_expect(a, "there");
	e2e_role_expect(b, "there");
	e2e_role_tell(a, "get");
	e2e_role_tell(b, "get");
	e2e_role_end(a);
	e2e_role_end(b);
	e2e_check(store);
	cenote_close(store);
}

/* ---- all at one key ------------------------------------------------------ */

#define THREADS    8
#define STORMS     20 /* at most */
#define HOT        3
#define HOT_SIZE   (256 * KIB)
#define PRESS_SIZE (7 * MIB - HOT_SIZE) /* 1 MiB of the pool is for loads */

struct storm {
	struct cenote *store;
	atomic_uint_fast64_t versions, gets, misses;
	int rounds;
};

/* The size tells the version, and that the bytes. */
static void storm_put(struct storm *storm, const char *key)
{
	uint64_t version = atomic_fetch_add(&storm->versions, 1);
	uint64_t size = HOT_SIZE + version % 4096;
	const struct cenote_put_options options = {.softpin = true};
	unsigned char *data = malloc(size);
	int err;

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, size);
	err = cenote_put(storm->store, KEY(key), data, size, &options);
	E2E_TRUE(err == 0 || err == CENOTE_ERR_EXISTS || err == CENOTE_ERR_REMOVED);
	free(data);
}

static void storm_get(struct storm *storm, const char *key)
{
	struct cenote_view view;
	int err = cenote_get(storm->store, KEY(key), NULL, &view);

	if (err == CENOTE_ERR_NOT_FOUND) {
		atomic_fetch_add(&storm->misses, 1);
		return;
	}
	E2E_OK(err);
	E2E_BYTES(view.data, view.size, view.size);
	E2E_OK(cenote_release(storm->store, &view));
	atomic_fetch_add(&storm->gets, 1);
}

/* With it no other has room in the pool. */
static void storm_press(struct storm *storm, int thread)
{
	char key[KEY_SIZE];

	(void)name(key, "press", (uint64_t)thread);
	e2e_put_softpin(storm->store, key, PRESS_SIZE, (uint64_t)thread);
	e2e_verify(storm->store, key, PRESS_SIZE, (uint64_t)thread);
	E2E_OK(cenote_remove(storm->store, KEY(key)));
}

struct storm_thread {
	struct storm *storm;
	int number; /* of all that ever ran */
};

static void *storm_run(void *arg)
{
	struct storm_thread *self = arg;
	uint64_t random = (uint64_t)self->number + 1;
	char key[KEY_SIZE];

	for (int round = 0; round < self->storm->rounds; round++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		(void)name(key, "hot", (random >> 50) % HOT);
		switch ((random >> 40) % 8) {
		case 0: {
			int err = cenote_remove(self->storm->store, KEY(key));

			E2E_TRUE(err == 0 || err == CENOTE_ERR_NOT_FOUND);
			break;
		}
		case 1:
		case 2:
			storm_put(self->storm, key);
			break;
		case 3:
			storm_press(self->storm, self->number);
			break;
		default:
			storm_get(self->storm, key);
			break;
		}
	}
	return NULL;
}

static void storm_blows(struct storm *storm, int first)
{
	struct storm_thread threads[THREADS];
	pthread_t ids[THREADS];

	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct storm_thread){storm, first + i};
		E2E_EQ(pthread_create(&ids[i], NULL, storm_run, &threads[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		E2E_EQ(pthread_join(ids[i], NULL), 0);
}

static void k11_03_8_threads_get_evict_and_remove_one_key(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "8M", "256M");
	struct storm storm = {
		.store = e2e_connect(node), .rounds = e2e_is_slow() ? 40 : 200};
	char key[KEY_SIZE];

	/* Where the disk is slow a storm may be over before anything has gone there. */
	for (int first = 0;
		first < STORMS * THREADS && e2e_stat(storm.store, "counters.loads") == 0;
		first += THREADS)
		storm_blows(&storm, first);
	E2E_TRUE(storm.gets > 0 && storm.misses > 0);
	E2E_TRUE(e2e_stat(storm.store, "counters.loads") > 0);
	E2E_EQ(e2e_stat(storm.store, "disk.loads_under_way"), 0);
	E2E_EQ(e2e_stat(storm.store, "node.pins"), 0);
	for (uint64_t i = 0; i < HOT; i++)
		(void)cenote_remove(storm.store, name(key, "hot", i));
	e2e_expect_disk_base(t, storm.store);
	cenote_close(storm.store);
}

/* ---- absent keys --------------------------------------------------------- */

struct absent {
	struct cenote *store;
	atomic_bool end;
	atomic_uint_fast64_t asked;
};

static void *absent_ask(void *arg)
{
	struct absent *absent = arg;
	struct cenote_view view;

	while (!absent->end) {
		E2E_ERR(cenote_get(absent->store, KEY("absent"), NULL, &view),
			CENOTE_ERR_NOT_FOUND);
		absent->asked++;
	}
	return NULL;
}

/* The disk is not asked for what is not there, and no stale "no" hides a put. */
static void k11_05_absent_keys_cost_the_disk_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "256M");
	struct absent absent = {.store = e2e_connect(node)};
	struct cenote *store = absent.store;
	pthread_t ids[16];
	uint64_t loads;
	char key[KEY_SIZE];

	e2e_put_numbers(store, 0, 24, MIB);
	e2e_disk_settle(store);
	loads = e2e_stat(store, "counters.loads");
	for (int i = 0; i < 16; i++)
		E2E_EQ(pthread_create(&ids[i], NULL, absent_ask, &absent), 0);
	E2E_UNTIL(absent.asked > 1000, E2E_DEADLINE_MS);
	for (uint64_t i = 0; i < 200; i++) {
		(void)name(key, "new", i);
		E2E_EQ(cenote_exists(store, KEY(key)), 0);
		e2e_put_softpin(store, key, 1000, i);
		e2e_verify(store, key, 1000, i);
		E2E_OK(cenote_remove(store, KEY(key)));
		E2E_EQ(cenote_exists(store, KEY(key)), 0);
	}
	absent.end = true;
	for (int i = 0; i < 16; i++)
		E2E_EQ(pthread_join(ids[i], NULL), 0);
	E2E_EQ(e2e_stat(store, "counters.loads"), loads);
	e2e_put_softpin(store, "absent", 1000, 1);
	e2e_verify(store, "absent", 1000, 1);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k11_01_64_clients_load_one_object_once),
	E2E_CASE(two_batches_of_views_are_never_both_stuck),
	E2E_CASE(two_batches_of_copies_both_succeed),
	E2E_CASE(k11_03_8_threads_get_evict_and_remove_one_key),
	E2E_CASE(k11_05_absent_keys_cost_the_disk_nothing),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(reader),
	E2E_ROLE(batch),
	E2E_ROLE(copies),
};

E2E_MAIN(cases, roles)
