/*
 * Tests of leases and holds that end: each once, in any order, and then the memory is back.
 */
#include "e2e_disk.h"

#include <pthread.h>
#include <stdatomic.h>

#define KEY(text) cenote_key(text)
#define MIB       ((uint64_t)1 << 20)
#define POOL      (64 * MIB)

/* ---- tokens -------------------------------------------------------------- */

struct release_twice {
	struct cenote *store;
	struct cenote_lease lease;
	pthread_barrier_t start, end;
	atomic_int released, refused;
	int rounds;
};

static void release_once(struct release_twice *world)
{
	int err = cenote_lease_release(world->store, &world->lease);

	E2E_TRUE(err == 0 || err == CENOTE_ERR_NOT_FOUND);
	atomic_fetch_add(err == 0 ? &world->released : &world->refused, 1);
}

static void *release_thread(void *arg)
{
	struct release_twice *world = arg;

	for (int i = 0; i < world->rounds; i++) {
		(void)pthread_barrier_wait(&world->start);
		release_once(world);
		(void)pthread_barrier_wait(&world->end);
	}
	return NULL;
}

static void k1_05_of_two_releases_of_a_token_at_once_one_counts(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct release_twice world = {
		.store = e2e_connect(node), .rounds = e2e_is_slow() ? 4000 : 10000};
	pthread_t thread;

	E2E_EQ(pthread_barrier_init(&world.start, NULL, 2), 0);
	E2E_EQ(pthread_barrier_init(&world.end, NULL, 2), 0);
	e2e_put_softpin(world.store, "k", MIB, 1);
	E2E_EQ(pthread_create(&thread, NULL, release_thread, &world), 0);
	for (int i = 1; i <= world.rounds; i++) {
		E2E_OK(cenote_lease(world.store, KEY("k"), 30000, &world.lease));
		(void)pthread_barrier_wait(&world.start);
		release_once(&world);
		(void)pthread_barrier_wait(&world.end);
		E2E_EQ(world.released, i);
		E2E_EQ(world.refused, i);
	}
	E2E_EQ(pthread_join(thread, NULL), 0);
	E2E_EQ(e2e_stat(world.store, "pool.leases"), 0);
	E2E_EQ(e2e_stat(world.store, "counters.leases_released"), world.rounds);
	E2E_OK(cenote_remove(world.store, KEY("k")));
	e2e_expect_in_use(world.store, 0);
	e2e_check(world.store);
	cenote_close(world.store);
	(void)pthread_barrier_destroy(&world.start);
	(void)pthread_barrier_destroy(&world.end);
}

/* The object is removed, its slot and memory another's: the old token means nothing. */
static void k1_05_a_token_does_not_end_the_lease_of_another_object(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);

	for (int i = 0; i < 100; i++) {
		struct cenote_lease old, new;

		e2e_put_softpin(store, "k", 60 * MIB, 1);
		E2E_OK(cenote_lease(store, KEY("k"), 30000, &old));
		E2E_OK(cenote_remove(store, KEY("k")));
		E2E_OK(cenote_lease_release(store, &old));
		/* It only fits where the first one was. */
		e2e_put_softpin(store, "other", 60 * MIB, 2);
		E2E_OK(cenote_lease(store, KEY("other"), 30000, &new));
		E2E_TRUE(old.slot == new.slot);
		E2E_ERR(cenote_lease_release(store, &old), CENOTE_ERR_NOT_FOUND);
		E2E_EQ(e2e_stat(store, "pool.leases"), 1);
		E2E_OK(cenote_remove(store, KEY("other")));
		E2E_EQ(e2e_stat(store, "pool.condemned"), 60 * MIB);
		E2E_ERR(cenote_lease_release(store, &old), CENOTE_ERR_NOT_FOUND);
		E2E_EQ(e2e_stat(store, "pool.condemned"), 60 * MIB);
		E2E_OK(cenote_lease_release(store, &new));
		e2e_expect_in_use(store, 0);
		if (e2e_is_slow() && i == 4)
			break;
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- orders -------------------------------------------------------------- */

enum last {
	LAST_RELEASE,
	LAST_LEASE,
	LAST_REMOVE,
	LAST_EVENTS
};

struct ending {
	struct cenote *store;
	struct cenote_view view;
	struct cenote_lease lease;
	enum last event;
	pthread_barrier_t *start;
};

static void ending_run(struct ending *ending, enum last event)
{
	switch (event) {
	case LAST_RELEASE:
		E2E_OK(cenote_release(ending->store, &ending->view));
		break;
	case LAST_LEASE:
		E2E_OK(cenote_lease_release(ending->store, &ending->lease));
		break;
	case LAST_REMOVE:
		E2E_OK(cenote_remove(ending->store, KEY("k")));
		break;
	case LAST_EVENTS:
		break;
	}
}

static void *ending_thread(void *arg)
{
	struct ending *ending = arg;

	(void)pthread_barrier_wait(ending->start);
	ending_run(ending, ending->event);
	return NULL;
}

static void ending_at_once(struct ending *ending)
{
	struct ending endings[LAST_EVENTS];
	pthread_t threads[LAST_EVENTS];
	pthread_barrier_t start;

	E2E_EQ(pthread_barrier_init(&start, NULL, LAST_EVENTS), 0);
	for (int i = 0; i < LAST_EVENTS; i++) {
		endings[i] = *ending;
		endings[i].event = (enum last)i;
		endings[i].start = &start;
		E2E_EQ(pthread_create(&threads[i], NULL, ending_thread, &endings[i]), 0);
	}
	for (int i = 0; i < LAST_EVENTS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	(void)pthread_barrier_destroy(&start);
}

/* All orders of the three, and all at once, until ten pools full have gone by. */
static void k1_07_orders(struct cenote *store)
{
	static const enum last orders[][LAST_EVENTS] = {
		{LAST_RELEASE, LAST_LEASE, LAST_REMOVE},
		{LAST_RELEASE, LAST_REMOVE, LAST_LEASE},
		{LAST_LEASE, LAST_RELEASE, LAST_REMOVE},
		{LAST_LEASE, LAST_REMOVE, LAST_RELEASE},
		{LAST_REMOVE, LAST_RELEASE, LAST_LEASE},
		{LAST_REMOVE, LAST_LEASE, LAST_RELEASE},
	};
	size_t kinds = ARRAY_LEN(orders) + 1;

	for (uint64_t round = 0, bytes = 0; bytes < 10 * POOL; round++) {
		struct ending ending = {.store = store};

		e2e_put_softpin(store, "k", 16 * MIB, round);
		bytes += 16 * MIB;
		E2E_OK(cenote_get(store, KEY("k"), NULL, &ending.view));
		E2E_OK(cenote_lease(store, KEY("k"), 30000, &ending.lease));
		if (round % kinds == ARRAY_LEN(orders)) {
			ending_at_once(&ending);
		} else {
			for (int i = 0; i < LAST_EVENTS; i++)
				ending_run(&ending, orders[round % kinds][i]);
		}
		e2e_expect_in_use(store, 0);
	}
	E2E_EQ(e2e_stat(store, "pool.leases"), 0);
	e2e_check(store);
}

static void k1_07_memory_comes_back_after_hold_lease_and_remove(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);

	k1_07_orders(store);
	cenote_close(store);
}

static void k1_07_memory_comes_back_also_with_a_disk(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "256M");
	struct cenote *store = e2e_connect(node);

	k1_07_orders(store);
	E2E_EQ(e2e_stat(store, "disk.objects"), 0);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k1_05_of_two_releases_of_a_token_at_once_one_counts),
	E2E_CASE(k1_05_a_token_does_not_end_the_lease_of_another_object),
	E2E_CASE(k1_07_memory_comes_back_after_hold_lease_and_remove),
	E2E_CASE(k1_07_memory_comes_back_also_with_a_disk),
};

E2E_MAIN_ALONE(cases)
