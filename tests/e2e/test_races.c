/*
 * Tests of clients that meet: at one key, at one object's end, and where reclaim works.
 */
#include "e2e.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)

static unsigned rounds(unsigned count)
{
	return e2e_is_slow() ? count / 2 : count;
}

/* ---- K1: what protects, and what does not -------------------------------- */

/* Ask for all keys over and over until told to end; never get one. */
static void role_ask(struct e2e_self *self)
{
	enum {
		COUNT = 200
	};
	static struct cenote_key_item items[COUNT];
	static char names[COUNT][16];
	struct cenote *store = e2e_self_connect(self);

	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k%u", i);
		items[i].key = KEY(names[i]);
	}
	do {
		struct cenote_stat stat;

		E2E_EQ(cenote_exists_batch(store, items, COUNT), 0);
		for (unsigned i = 0; i < COUNT; i++) {
			E2E_TRUE(cenote_exists(store, items[i].key) >= 0);
			(void)cenote_stat(store, items[i].key, &stat);
		}
		e2e_self_say(self, "asked");
	} while (strcmp(e2e_self_hear(self), "go on") == 0);
	cenote_close(store);
}

static void k1_01_exists_protects_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	unsigned char *data = malloc(1 << 20);
	struct e2e_role *asker;
	uint64_t slowest = 0;
	unsigned puts = 0;
	char key[32];

	E2E_TRUE(data != NULL);
	memset(data, 7, 1 << 20);
	/* To 90 %. */
	for (unsigned i = 0; i < 57; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		E2E_OK(cenote_put(store, KEY(key), data, 1 << 20, NULL));
	}
	asker = e2e_role_start(t, node, "ask", NULL);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t began = e2e_now_ms();

		(void)snprintf(key, sizeof(key), "new%u", i);
		E2E_OK(cenote_put(store, KEY(key), data, 1 << 20, NULL));
		slowest = e2e_now_ms() - began > slowest ? e2e_now_ms() - began : slowest;
		puts++;
		if (i % 8 == 7) {
			e2e_role_expect(asker, "asked");
			e2e_role_tell(asker, i == 399 ? "end" : "go on");
		}
	}
	e2e_role_end(asker);
	E2E_EQ(puts, 400);
	E2E_TRUE(slowest < e2e_second_ms());
	E2E_TRUE(e2e_stat(store, "counters.evicted") >= 390);
	/* The hold of a look lasts for an instant, and rarely meets reclaim. */
	E2E_TRUE(e2e_stat(store, "counters.parked_hold") < 40);
	E2E_EQ(cenote_exists(store, KEY("k0")), 0);
	free(data);
	e2e_check(store);
	cenote_close(store);
}

static void k1_03_remove_again_is_quick_and_tells_absent_apart(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	struct cenote_key_item items[] = {{.key = KEY("a")}, {.key = KEY("b")},
		{.key = KEY("c")}, {.key = KEY("d")}};
	struct cenote_view view;
	uint64_t began;

	for (unsigned i = 0; i < 4; i++)
		e2e_put(store, items[i].key.data, 100000, i);
	E2E_OK(cenote_remove(store, KEY("d")));
	E2E_OK(cenote_get(store, KEY("b"), NULL, &view));
	E2E_EQ(cenote_remove_batch(store, items, 4), 1);
	for (unsigned i = 0; i < 4; i++) {
		E2E_EQ(items[i].result, i == 3 ? CENOTE_ERR_NOT_FOUND : 0);
		E2E_EQ(cenote_exists(store, items[i].key), 0);
	}
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	began = e2e_now_ms();
	for (unsigned again = 0; again < 2; again++) {
		E2E_EQ(cenote_remove_batch(store, items, 4), 4);
		for (unsigned i = 0; i < 4; i++)
			E2E_EQ(items[i].result, CENOTE_ERR_NOT_FOUND);
	}
	E2E_TRUE(e2e_now_ms() - began < e2e_second_ms() / 4);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

struct twice {
	struct cenote *store;
	struct cenote_view view;
	pthread_barrier_t *both;
	unsigned released;
};

/* Release the view that the other thread has too, once a round. */
static void *release_the_same(void *arg)
{
	struct twice *twice = arg;

	for (unsigned round = 0; round < rounds(10000); round++) {
		struct cenote_view view;
		int err;

		(void)pthread_barrier_wait(twice->both);
		view = twice->view;
		err = cenote_release(twice->store, &view);
		E2E_TRUE(err == 0 || err == CENOTE_ERR_BAD_ARGUMENT);
		twice->released += err == 0;
		(void)pthread_barrier_wait(twice->both);
	}
	return NULL;
}

static void k1_05_of_two_releases_at_once_one_counts(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	struct twice twice = {.store = store};
	pthread_barrier_t both;
	pthread_t thread;

	E2E_TRUE(pthread_barrier_init(&both, NULL, 2) == 0);
	twice.both = &both;
	E2E_TRUE(pthread_create(&thread, NULL, release_the_same, &twice) == 0);
	for (unsigned round = 0; round < rounds(10000); round++) {
		unsigned before = twice.released;
		struct cenote_view view;
		int err;

		e2e_put(store, "k", 1000, round);
		E2E_OK(cenote_get(store, KEY("k"), NULL, &twice.view));
		view = twice.view;
		(void)pthread_barrier_wait(&both);
		err = cenote_release(store, &view);
		/* The other may still be at it: the daemon looks at the count meanwhile.
		 */
		E2E_OK(cenote_remove(store, KEY("k")));
		(void)pthread_barrier_wait(&both);
		E2E_TRUE(err == 0 || err == CENOTE_ERR_BAD_ARGUMENT);
		E2E_EQ((twice.released - before) + (err == 0), 1);
	}
	E2E_TRUE(pthread_join(thread, NULL) == 0);
	(void)pthread_barrier_destroy(&both);
	e2e_expect_in_use(store, 0);
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 0);
	e2e_check(store);
	cenote_close(store);
}

/* The place of the removed object is taken by another, which this process holds. */
static void k1_05_a_late_release_does_not_end_the_hold_of_another(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	struct cenote_view old, late, view;

	e2e_put(store, "old", 100000, 1);
	E2E_OK(cenote_get(store, KEY("old"), NULL, &old));
	late = old;
	E2E_OK(cenote_release(store, &old));
	E2E_OK(cenote_remove(store, KEY("old")));
	e2e_put(store, "new", 100000, 2);
	E2E_OK(cenote_get(store, KEY("new"), NULL, &view));
	E2E_TRUE(view.data == late.data && view.slot == late.slot);
	E2E_ERR(cenote_release(store, &late), CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 1);
	E2E_OK(cenote_remove(store, KEY("new")));
	E2E_TRUE(e2e_in_use(store) >= 100000);
	E2E_BYTES(view.data, view.size, 2);
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

struct releasing {
	struct cenote *store;
	struct cenote_view view;
	pthread_barrier_t *both;
};

static void *release_in_thread(void *arg)
{
	struct releasing *releasing = arg;

	(void)pthread_barrier_wait(releasing->both);
	E2E_OK(cenote_release(releasing->store, &releasing->view));
	return NULL;
}

/* Remove and release at once, from two threads. */
static void remove_meets_release(struct cenote *store, pthread_barrier_t *both)
{
	struct releasing releasing = {.store = store, .both = both};
	pthread_t thread;

	E2E_OK(cenote_get(store, KEY("k"), NULL, &releasing.view));
	E2E_TRUE(pthread_create(&thread, NULL, release_in_thread, &releasing) == 0);
	(void)pthread_barrier_wait(both);
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_TRUE(pthread_join(thread, NULL) == 0);
}

static void k1_07_memory_comes_back_in_every_order(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	uint64_t done = 0, size = 3 << 20;
	pthread_barrier_t both;
	struct cenote_view view;

	E2E_TRUE(pthread_barrier_init(&both, NULL, 2) == 0);
	for (unsigned round = 0; done < 10 * (64ull << 20); round++, done += size) {
		struct cenote_writer writer;

		E2E_OK(cenote_create(store, KEY("k"), size, NULL, &writer));
		E2E_OK(cenote_seal(store, &writer));
		switch (round % 3) {
		case 0:
			E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
			E2E_OK(cenote_remove(store, KEY("k")));
			E2E_TRUE(e2e_in_use(store) >= size);
			E2E_OK(cenote_release(store, &view));
			break;
		case 1:
			E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
			E2E_OK(cenote_release(store, &view));
			E2E_OK(cenote_remove(store, KEY("k")));
			break;
		default:
			remove_meets_release(store, &both);
			break;
		}
		e2e_expect_in_use(store, 0);
	}
	(void)pthread_barrier_destroy(&both);
	e2e_check(store);
	cenote_close(store);
}

/* Half of them are touched; under pressure the others go first. */
static void k1_09_touch_keeps_warm_and_protects_nothing(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "32M", NULL));
	unsigned touched = 0, untouched = 0;
	char key[32];

	for (unsigned i = 0; i < 16; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		e2e_put(store, key, 1 << 20, i);
	}
	for (unsigned i = 0; i < 16; i += 2) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		E2E_OK(cenote_touch(store, KEY(key)));
	}
	for (unsigned i = 0; i < 24; i++) {
		(void)snprintf(key, sizeof(key), "press%u", i);
		e2e_put(store, key, 1 << 20, i);
	}
	for (unsigned i = 0; i < 16; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		*(i % 2 == 0 ? &touched : &untouched) += (unsigned)cenote_exists(
			store, KEY(key));
	}
	E2E_EQ(touched, 8);
	E2E_TRUE(untouched < 8);
	E2E_OK(cenote_touch(store, KEY("k0")));
	E2E_OK(cenote_remove(store, KEY("k0")));
	E2E_EQ(cenote_exists(store, KEY("k0")), 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K2, K3: two clients at one key -------------------------------------- */

/* Verify or put "key" as told: "get SIZE SEED", "put SIZE SEED". */
static void role_partner(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	unsigned char *data = malloc(16 << 20);

	E2E_TRUE(data != NULL);
	e2e_self_say(self, "attached");
	for (;;) {
		unsigned long long size, seed;
		char word[8];

		if (sscanf(e2e_self_hear(self), "%7s %llu %llu", word, &size, &seed) != 3)
			break;
		if (strcmp(word, "get") == 0) {
			e2e_verify(store, "key", size, seed);
			e2e_self_say(self, "OK");
		} else {
			e2e_fill(data, size, seed);
			e2e_self_say(self, "ready");
			e2e_self_await(self, "go");
			e2e_self_say(self, "%s",
				cenote_error_name(
					cenote_put(store, KEY("key"), data, size, NULL)));
		}
	}
	free(data);
	cenote_close(store);
}

static void tell_partner(
	struct e2e_role *partner, const char *word, uint64_t size, uint64_t seed)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s %llu %llu", word, (unsigned long long)size,
		(unsigned long long)seed);
	e2e_role_tell(partner, text);
}

static void k2_05_the_next_object_of_a_key_is_seen_in_full(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *partner = e2e_role_start(t, node, "partner", NULL);
	uint64_t random = 1;

	e2e_role_expect(partner, "attached");
	for (unsigned round = 0; round < rounds(5000); round++) {
		uint64_t size;

		random = random * 6364136223846793005u + 1442695040888963407u;
		size = round % 100 == 0 ? 3 << 20 : random >> 40 & 0x1ffff;
		e2e_put(store, "key", size, round);
		tell_partner(partner, "get", size, round);
		e2e_role_expect(partner, "OK");
		E2E_OK(cenote_remove(store, KEY("key")));
	}
	e2e_role_tell(partner, "end");
	e2e_role_end(partner);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static unsigned winner_of(struct e2e_role *partners[2])
{
	unsigned winner = 2;

	for (unsigned i = 0; i < 2; i++) {
		const char *said = e2e_role_hear(partners[i]);

		if (strcmp(said, "OK") == 0) {
			E2E_EQ(winner, 2);
			winner = i;
		} else if (strcmp(said, "EXISTS") != 0) {
			e2e_fail(__FILE__, __LINE__, "a put said %s", said);
		}
	}
	E2E_TRUE(winner < 2);
	return winner;
}

static void k3_09_of_two_puts_of_a_key_one_wins_whole(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *partners[2];
	unsigned won[2] = {0};

	for (unsigned i = 0; i < 2; i++) {
		partners[i] = e2e_role_start(t, node, "partner", NULL);
		e2e_role_expect(partners[i], "attached");
	}
	for (unsigned round = 0; round < rounds(2000); round++) {
		uint64_t size = round % 50 == 0 ? 8 << 20 : round % 5 == 0 ? 70000 : 4096;
		unsigned winner;

		for (unsigned i = 0; i < 2; i++) {
			tell_partner(partners[i], "put", size + i, 2 * round + i);
			e2e_role_expect(partners[i], "ready");
		}
		e2e_role_tell(partners[round % 2], "go");
		e2e_role_tell(partners[1 - round % 2], "go");
		winner = winner_of(partners);
		won[winner]++;
		E2E_EQ(cenote_exists(store, KEY("key")), 1);
		e2e_verify(store, "key", size + winner, 2 * round + winner);
		E2E_OK(cenote_remove(store, KEY("key")));
	}
	E2E_TRUE(won[0] > 0 && won[1] > 0);
	for (unsigned i = 0; i < 2; i++) {
		e2e_role_tell(partners[i], "end");
		e2e_role_end(partners[i]);
	}
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K3: what is not there yet, what goes -------------------------------- */

static void role_create_and_stall(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY("key"), 100000, NULL, &writer));
	e2e_fill(writer.data, writer.size / 2, 1);
	e2e_self_say(self, "half written");
	e2e_self_await(self, "go on");
	e2e_fill(writer.data, writer.size, 1);
	E2E_OK(cenote_seal(store, &writer));
	e2e_self_say(self, "sealed");
	e2e_self_await(self, "go on");
	cenote_close(store);
}

static int list_key(void *arg, const struct cenote_list_entry *entry)
{
	(void)entry;
	++*(unsigned *)arg;
	return 0;
}

static void expect_seen(struct cenote *store, bool is_seen)
{
	struct cenote_key_item key = {.key = KEY("key"), .result = 77};
	struct cenote_get_item get = {.key = KEY("key"), .result = 77};
	struct cenote_stat stat;
	struct cenote_view view;
	unsigned listed = 0;

	E2E_EQ(cenote_exists(store, KEY("key")), is_seen);
	E2E_EQ(cenote_exists_batch(store, &key, 1), 0);
	E2E_EQ(key.result, is_seen);
	E2E_ERR(cenote_stat(store, KEY("key"), &stat),
		is_seen ? 0 : CENOTE_ERR_NOT_FOUND);
	E2E_ERR(cenote_touch(store, KEY("key")), is_seen ? 0 : CENOTE_ERR_NOT_FOUND);
	E2E_OK(cenote_list(store, KEY(""), list_key, &listed));
	E2E_EQ(listed, is_seen);
	E2E_ERR(cenote_get(store, KEY("key"), NULL, &view),
		is_seen ? 0 : CENOTE_ERR_NOT_FOUND);
	E2E_EQ(cenote_get_batch(store, &get, 1, NULL), !is_seen);
	if (!is_seen)
		return;
	E2E_BYTES(view.data, 100000, 1);
	E2E_BYTES(get.view.data, 100000, 1);
	E2E_OK(cenote_release(store, &view));
	E2E_OK(cenote_release(store, &get.view));
}

static void k3_11_unsealed_objects_are_invisible(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role = e2e_role_start(t, node, "create_and_stall", NULL);

	e2e_role_expect(role, "half written");
	expect_seen(store, false);
	e2e_role_tell(role, "go on");
	e2e_role_expect(role, "sealed");
	expect_seen(store, true);
	e2e_role_tell(role, "go on");
	e2e_role_end(role);
	expect_seen(store, true);
	cenote_close(store);
}

static void role_hold(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY(e2e_self_arg(self, 0)), NULL, &view));
	e2e_self_say(self, "held");
	e2e_self_await(self, "go on");
	E2E_BYTES(view.data, view.size, 2);
	E2E_OK(cenote_release(store, &view));
	cenote_close(store);
}

static void k3_13_remove_of_all_kinds_has_a_result_each(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_key_item twice[] = {{.key = KEY("twice")}, {.key = KEY("twice")}};
	struct cenote_writer writer;
	struct e2e_role *holder;
	struct cenote_view view;

	E2E_ERR(cenote_remove(store, KEY("absent")), CENOTE_ERR_NOT_FOUND);
	E2E_OK(cenote_create(store, KEY("written"), 100000, NULL, &writer));
	E2E_OK(cenote_remove(store, KEY("written")));
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	e2e_put(store, "own", 100000, 1);
	E2E_OK(cenote_get(store, KEY("own"), NULL, &view));
	E2E_OK(cenote_remove(store, KEY("own")));
	E2E_BYTES(view.data, view.size, 1);
	e2e_put(store, "theirs", 100000, 2);
	holder = e2e_role_start(t, node, "hold", "theirs", NULL);
	e2e_role_expect(holder, "held");
	E2E_OK(cenote_remove(store, KEY("theirs")));
	E2E_ERR(cenote_remove(store, KEY("theirs")), CENOTE_ERR_NOT_FOUND);
	e2e_put(store, "twice", 10, 3);
	E2E_EQ(cenote_remove_batch(store, twice, 2), 1);
	E2E_EQ(twice[0].result, 0);
	E2E_EQ(twice[1].result, CENOTE_ERR_NOT_FOUND);
	E2E_OK(cenote_release(store, &view));
	e2e_role_tell(holder, "go on");
	e2e_role_end(holder);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void k3_03_the_end_of_one_client_ends_only_its_own_puts(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *writer = e2e_role_start(t, node, "create_and_stall", NULL);
	struct e2e_role *other;

	e2e_role_expect(writer, "half written");
	e2e_put(store, "theirs", 1000, 2);
	other = e2e_role_start(t, node, "hold", "theirs", NULL);
	e2e_role_expect(other, "held");
	e2e_role_signal(other, SIGKILL);
	E2E_UNTIL(e2e_stat(store, "node.clients") == 2, e2e_second_ms());
	e2e_role_tell(writer, "go on");
	e2e_role_expect(writer, "sealed");
	e2e_verify(store, "key", 100000, 1);
	e2e_role_tell(writer, "go on");
	e2e_role_end(writer);
	cenote_close(store);
}

/* ---- many threads at few keys -------------------------------------------- */

struct crowd {
	struct cenote *store;
	unsigned thread;
};

static void *crowd_works(void *arg)
{
	const struct crowd *crowd = arg;
	uint64_t random = crowd->thread * 977 + 1;

	for (unsigned round = 0; round < rounds(3000); round++) {
		struct cenote_view view;
		unsigned char data[600];
		unsigned number;
		char key[16];
		int err;

		random = random * 6364136223846793005u + 1442695040888963407u;
		number = (unsigned)(random >> 33) % 8;
		(void)snprintf(key, sizeof(key), "k%u", number);
		switch (random >> 62) {
		case 0:
			e2e_fill(data, 500 + number, number);
			err = cenote_put(
				crowd->store, KEY(key), data, 500 + number, NULL);
			E2E_TRUE(err == 0 || err == CENOTE_ERR_EXISTS);
			break;
		case 1:
			err = cenote_remove(crowd->store, KEY(key));
			E2E_TRUE(err == 0 || err == CENOTE_ERR_NOT_FOUND);
			break;
		default:
			err = random >> 61 & 1
				      ? cenote_get(crowd->store, KEY(key), NULL, &view)
				      : cenote_take(crowd->store, KEY(key), NULL, &view);
			if (err == CENOTE_ERR_NOT_FOUND)
				break;
			E2E_OK(err);
			E2E_EQ(view.size, 500 + number);
			E2E_BYTES(view.data, view.size, number);
			E2E_OK(cenote_release(crowd->store, &view));
			break;
		}
	}
	return NULL;
}

static void threads_of_one_store_put_get_take_and_remove_8_keys(struct e2e *t)
{
	enum {
		THREADS = 8
	};
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	struct crowd crowd[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		crowd[i] = (struct crowd){store, i};
		E2E_TRUE(pthread_create(&threads[i], NULL, crowd_works, &crowd[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		E2E_TRUE(pthread_join(threads[i], NULL) == 0);
	for (unsigned i = 0; i < 8; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "k%u", i);
		(void)cenote_remove(store, KEY(key));
	}
	e2e_expect_in_use(store, 0);
	E2E_EQ(e2e_stat(store, "clients.0.holds"), 0);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(ask),
	E2E_ROLE(partner),
	E2E_ROLE(create_and_stall),
	E2E_ROLE(hold),
};

static const struct e2e_case cases[] = {
	E2E_CASE(k1_01_exists_protects_nothing),
	E2E_CASE(k1_03_remove_again_is_quick_and_tells_absent_apart),
	E2E_CASE(k1_05_of_two_releases_at_once_one_counts),
	E2E_CASE(k1_05_a_late_release_does_not_end_the_hold_of_another),
	E2E_CASE(k1_07_memory_comes_back_in_every_order),
	E2E_CASE(k1_09_touch_keeps_warm_and_protects_nothing),
	E2E_CASE(k2_05_the_next_object_of_a_key_is_seen_in_full),
	E2E_CASE(k3_03_the_end_of_one_client_ends_only_its_own_puts),
	E2E_CASE(k3_09_of_two_puts_of_a_key_one_wins_whole),
	E2E_CASE(k3_11_unsealed_objects_are_invisible),
	E2E_CASE(k3_13_remove_of_all_kinds_has_a_result_each),
	E2E_CASE(threads_of_one_store_put_get_take_and_remove_8_keys),
};

E2E_MAIN(cases, roles)
