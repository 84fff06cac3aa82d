/*
 * Tests of objects that end after a number of reads (`readers`).
 */
#include "e2e.h"

#include <pthread.h>
#include <stdio.h>

#define KEY(text) cenote_key(text)
#define SIZE      100000ull

static void put_counted(
	struct cenote *store, const char *key, uint16_t readers, uint64_t seed)
{
	const struct cenote_put_options options = {.softpin = true, .readers = readers};
	static unsigned char data[SIZE];

	e2e_fill(data, sizeof(data), seed);
	E2E_OK(cenote_put(store, KEY(key), data, sizeof(data), &options));
}

static uint16_t readers_left(struct cenote *store, const char *key)
{
	struct cenote_stat stat;

	E2E_OK(cenote_stat(store, KEY(key), &stat));
	return stat.readers_left;
}

static void the_last_of_three_reads_ends_it(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	static unsigned char buffer[SIZE];
	struct cenote_view view, other;
	uint64_t size;

	put_counted(store, "k", 3, 1);
	E2E_EQ(readers_left(store, "k"), 3);
	e2e_verify(store, "k", SIZE, 1);
	E2E_EQ(readers_left(store, "k"), 2);
	E2E_OK(cenote_get_into(store, KEY("k"), buffer, sizeof(buffer), NULL, &size));
	E2E_EQ(readers_left(store, "k"), 1);
	E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
	E2E_OK(cenote_get(store, KEY("k"), NULL, &other));
	E2E_EQ(readers_left(store, "k"), 1); /* what is not over does not count */
	E2E_OK(cenote_release(store, &view));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	E2E_BYTES(other.data, other.size, 1); /* a running read finishes */
	E2E_OK(cenote_release(store, &other));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void what_reads_nothing_counts_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	unsigned char small[10];
	uint64_t size;

	put_counted(store, "k", 1, 1);
	E2E_EQ(cenote_exists(store, KEY("k")), 1);
	E2E_OK(cenote_touch(store, KEY("k")));
	E2E_OK(cenote_wait(store, KEY("k"), 1000));
	E2E_ERR(cenote_get_into(store, KEY("k"), small, sizeof(small), NULL, &size),
		CENOTE_ERR_BUFFER_TOO_SMALL);
	E2E_EQ(readers_left(store, "k"), 1);
	e2e_verify(store, "k", SIZE, 1);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_check(store);
	cenote_close(store);
}

static void role_reader(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
	e2e_self_say(self, "holds");
	e2e_self_await(self, "release");
	E2E_OK(cenote_release(store, &view));
	e2e_self_say(self, "released");
	e2e_self_await(self, "leave");
	cenote_close(store);
}

static void a_read_that_a_death_ends_does_not_count(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *dies, *reads;

	put_counted(store, "k", 2, 1);
	dies = e2e_role_start(t, node, "reader", NULL);
	reads = e2e_role_start(t, node, "reader", NULL);
	e2e_role_expect(dies, "holds");
	e2e_role_expect(reads, "holds");
	e2e_role_signal(dies, SIGKILL);
	E2E_UNTIL(e2e_stat(store, "node.clients") == 2, e2e_second_ms());
	E2E_EQ(readers_left(store, "k"), 2);
	e2e_role_tell(reads, "release");
	e2e_role_expect(reads, "released");
	E2E_EQ(readers_left(store, "k"), 1);
	e2e_verify(store, "k", SIZE, 1);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_role_tell(reads, "leave");
	e2e_role_end(reads);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* Reads that end while no daemon runs are reported when there is one. */
static void reads_are_counted_across_a_restart(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view views[3];

	put_counted(store, "k", 4, 1);
	for (int i = 0; i < 3; i++)
		E2E_OK(cenote_get(store, KEY("k"), NULL, &views[i]));
	E2E_OK(cenote_release(store, &views[0]));
	e2e_node_kill(node);
	E2E_OK(cenote_release(store, &views[1]));
	E2E_OK(cenote_release(store, &views[2]));
	e2e_node_restart(node);
	E2E_EQ(readers_left(store, "k"), 1); /* the call took the two reports along */
	e2e_node_kill(node);
	e2e_node_restart(node);
	E2E_EQ(readers_left(store, "k"), 1);
	e2e_verify(store, "k", SIZE, 1);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

struct hands {
	const struct e2e_node *node;
	int number;
};

static void *take_part(void *arg)
{
	const struct hands *hands = arg;
	const struct cenote_get_options options = {.wait = true};
	struct cenote *store = e2e_connect(hands->node);
	struct cenote_view view;
	char key[24];

	for (int i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		E2E_OK(cenote_get(store, KEY(key), &options, &view));
		E2E_BYTES(view.data, view.size, (uint64_t)i);
		E2E_OK(cenote_release(store, &view));
	}
	cenote_close(store);
	return NULL;
}

/* Eight readers with a client each, every object for all of them: nobody removes. */
static void eight_readers_use_all_up(struct e2e *t)
{
	enum {
		READERS = 8
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct hands hands[READERS];
	pthread_t threads[READERS];
	char key[24];

	for (int i = 0; i < READERS; i++) {
		hands[i] = (struct hands){node, i};
		E2E_EQ(pthread_create(&threads[i], NULL, take_part, &hands[i]), 0);
	}
	for (int i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		put_counted(store, key, READERS, (uint64_t)i);
	}
	for (int i = 0; i < READERS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	E2E_EQ(e2e_stat(store, "counters.reads_counted"), 200 * READERS);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(the_last_of_three_reads_ends_it),
	E2E_CASE(what_reads_nothing_counts_nothing),
	E2E_CASE(a_read_that_a_death_ends_does_not_count),
	E2E_CASE(reads_are_counted_across_a_restart),
	E2E_CASE(eight_readers_use_all_up),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(reader),
};

E2E_MAIN(cases, roles)
