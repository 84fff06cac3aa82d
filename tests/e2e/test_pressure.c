/*
 * Tests of memory pressure with a disk behind it: more is wanted in the pool at once than it
 * has room for. Somebody always gets on, and whoever cannot is told.
 */
#include "e2e_disk.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define KIB       (1ull << 10)
#define MIB       (1ull << 20)
#define CLIENTS   4

/* ---- K6-01: two that want more than half each ---------------------------- */

enum {
	GREEDY = 19 /* objects of 1 MiB: 60 % of a pool of 32 MiB */
};

struct greed {
	struct cenote_get_item items[GREEDY];
	struct e2e_number_key keys[GREEDY];
	uint64_t numbers[GREEDY];
};

/* The numbers that it is told, in one batch; how many came. */
static int greed_get(struct cenote *store, struct greed *greed, const char *numbers)
{
	const struct cenote_get_options options = {.timeout_ms = 5000};
	char *next = (char *)(uintptr_t)numbers;
	int got = 0;

	for (int i = 0; i < GREEDY; i++) {
		greed->numbers[i] = strtoull(next, &next, 10);
		e2e_number(&greed->keys[i], greed->numbers[i]);
		greed->items[i] = (struct cenote_get_item){
			.key = KEY(greed->keys[i].text)};
	}
	(void)cenote_get_batch(store, greed->items, GREEDY, &options);
	for (int i = 0; i < GREEDY; i++) {
		int result = greed->items[i].result;

		got += result == 0;
		if (result != 0 && result != CENOTE_ERR_NO_SPACE &&
			result != CENOTE_ERR_TIMEOUT)
			e2e_fail(__FILE__, __LINE__, "get of %s: %s", greed->keys[i].text,
				cenote_error_name(result));
	}
	return got;
}

/* It holds what came until it is told so. */
static void role_greedy(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct greed greed;

	for (;;) {
		e2e_self_say(self, "%d", greed_get(store, &greed, e2e_self_hear(self)));
		e2e_self_await(self, "drop");
		for (int i = 0; i < GREEDY; i++) {
			if (greed.items[i].result != 0)
				continue;
			E2E_BYTES(greed.items[i].view.data, MIB, greed.numbers[i]);
			E2E_OK(cenote_release(store, &greed.items[i].view));
		}
		e2e_self_say(self, "dropped");
	}
}

static int number_of(struct e2e_role *role)
{
	return atoi(e2e_role_hear(role));
}

/* The next objects that are only on disk, as a text. */
static const char *cold_numbers(struct cenote *store, uint64_t *next)
{
	static char text[GREEDY * 8];
	size_t length = 0;

	for (int i = 0; i < GREEDY; i++) {
		*next = e2e_number_on_disk(store, *next, 100 - *next) + 1;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%llu ",
			(unsigned long long)*next - 1);
	}
	return text;
}

static void drop(struct e2e_role *role)
{
	e2e_role_tell(role, "drop");
	e2e_role_expect(role, "dropped");
}

static void k6_01_two_batches_of_60_percent_are_never_both_stuck(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "32M", "256M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *a, *b;

	e2e_put_numbers(store, 0, 100, MIB);
	a = e2e_role_start(t, node, "greedy", NULL);
	b = e2e_role_start(t, node, "greedy", NULL);
	for (int round = 0; round < 8; round++) {
		char numbers[2][GREEDY * 8];
		int got_a, got_b;
		uint64_t next = 0;

		(void)strcpy(numbers[0], cold_numbers(store, &next));
		(void)strcpy(numbers[1], cold_numbers(store, &next));
		e2e_role_tell(a, numbers[0]);
		e2e_role_tell(b, numbers[1]);
		got_a = number_of(a);
		got_b = number_of(b);
		(void)printf("%d and %d of %d\n", got_a, got_b, GREEDY);
		E2E_TRUE(got_a == GREEDY || got_b == GREEDY);
		E2E_TRUE(got_a + got_b <= 32);
		/* The one lets go, and the other gets on. */
		drop(a);
		drop(b);
		e2e_role_tell(b, numbers[1]);
		E2E_EQ(number_of(b), GREEDY);
		drop(b);
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- K6-03: a stream through a small pool -------------------------------- */

/* How far each client is, for all of them to see. */
struct progress {
	_Atomic uint64_t ready;
	_Atomic uint64_t done[CLIENTS];
};

static struct progress *progress_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *memory;

	E2E_TRUE(fd >= 0 && ftruncate(fd, sizeof(struct progress)) == 0);
	memory = mmap(
		NULL, sizeof(struct progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	E2E_TRUE(memory != MAP_FAILED);
	(void)close(fd);
	return memory;
}

static void role_streamer(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	uint64_t me = e2e_self_number(self, 0), count = e2e_self_number(self, 1);
	struct progress *progress = progress_map(e2e_self_arg(self, 2));
	uint64_t least = count;

	/* From here on all are under way. */
	atomic_fetch_add(&progress->ready, 1);
	while (atomic_load(&progress->ready) < CLIENTS)
		(void)sched_yield();
	for (uint64_t i = 0; i < count; i++) {
		E2E_OK(e2e_put_number(store, me * 1000 + i, 4 * MIB, E2E_DEADLINE_MS));
		atomic_fetch_add(&progress->done[me], 1);
	}
	for (int i = 0; i < CLIENTS; i++) {
		uint64_t done = atomic_load(&progress->done[i]);

		least = done < least ? done : least;
	}
	e2e_self_say(self, "%llu", (unsigned long long)least);
	cenote_close(store);
}

static void k6_03_a_stream_sixteen_times_the_pool_is_taken_in_turns(struct e2e *t)
{
	uint64_t pool = (e2e_is_full() ? 64 : 32) * MIB;
	uint64_t each = (e2e_is_full() ? 1024 : 512) * MIB / (4 * MIB) / CLIENTS;
	struct e2e_node *node = e2e_disk_start(t, e2e_is_full() ? "64M" : "32M", "2G");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *roles[CLIENTS];
	char path[512], count[16], me[16];
	uint64_t least = 0;

	(void)snprintf(path, sizeof(path), "%s/progress", e2e_dir(t));
	(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)each);
	for (int i = 0; i < CLIENTS; i++) {
		(void)snprintf(me, sizeof(me), "%d", i);
		roles[i] = e2e_role_start(t, node, "streamer", me, count, path, NULL);
	}
	for (int i = 0; i < CLIENTS; i++) {
		uint64_t seen = (uint64_t)number_of(roles[i]);

		/* The first to end is the one that saw the others furthest behind. */
		least = i == 0 || seen < least ? seen : least;
		e2e_role_end(roles[i]);
	}
	(void)printf("when the first had put all its %llu, the last had put %llu\n",
		(unsigned long long)each, (unsigned long long)least);
	E2E_TRUE(2 * least >= each);
	for (uint64_t i = 0; i < CLIENTS; i++)
		e2e_verify_numbers(store, i * 1000, each, 4 * MIB);
	E2E_TRUE(e2e_stat(store, "disk.bytes") >= each * CLIENTS * 4 * MIB - pool);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K6-05: quarters of the pool ------------------------------------------ */

enum {
	QUARTERS = 16,
	ROUNDS = 12
};
#define QUARTER (8 * MIB - 64 * KIB)

/* Four objects at a time, two of them the same in all clients: what does not fit beside what
 * others hold is read alone then. */
static void role_quartet(struct e2e_self *self)
{
	const struct cenote_get_options options = {.timeout_ms = 20000};
	struct cenote *store = e2e_self_connect(self);
	uint64_t me = e2e_self_number(self, 0), together = 0;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t at[4] = {round % QUARTERS, (round * 5 + 1) % QUARTERS,
			(round * 7 + me * 3 + 2) % QUARTERS,
			(round * 11 + me * 5 + 3) % QUARTERS};
		struct cenote_get_item items[4];
		struct e2e_number_key keys[4];

		for (int i = 0; i < 4; i++)
			items[i] = (struct cenote_get_item){
				.key = KEY(e2e_number(&keys[i], at[i])->text)};
		(void)cenote_get_batch(store, items, 4, &options);
		for (int i = 0; i < 4; i++) {
			if (items[i].result != 0)
				continue;
			E2E_BYTES(items[i].view.data, QUARTER, at[i]);
			E2E_OK(cenote_release(store, &items[i].view));
			together++;
		}
		for (int i = 0; i < 4; i++) {
			struct cenote_view view;

			if (items[i].result == 0)
				continue;
			E2E_TRUE(items[i].result == CENOTE_ERR_NO_SPACE ||
				 items[i].result == CENOTE_ERR_TIMEOUT);
			E2E_OK(cenote_get(store, items[i].key, &options, &view));
			E2E_BYTES(view.data, QUARTER, at[i]);
			E2E_OK(cenote_release(store, &view));
		}
	}
	e2e_self_say(self, "%llu", (unsigned long long)together);
	cenote_close(store);
}

static void k6_05_quartets_of_quarters_make_progress(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "32M", "256M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *roles[CLIENTS];
	uint64_t loads;
	char me[16];

	e2e_put_numbers(store, 0, QUARTERS, QUARTER);
	for (int i = 0; i < CLIENTS; i++) {
		(void)snprintf(me, sizeof(me), "%d", i);
		roles[i] = e2e_role_start(t, node, "quartet", me, NULL);
	}
	for (int i = 0; i < CLIENTS; i++) {
		(void)printf("client %d: %d of %d in batches\n", i, number_of(roles[i]),
			4 * ROUNDS);
		e2e_role_end(roles[i]);
	}
	loads = e2e_stat(store, "counters.loads");
	(void)printf("%llu loads, %llu joined\n", (unsigned long long)loads,
		(unsigned long long)e2e_stat(store, "counters.loads_joined"));
	E2E_TRUE(loads <= 4 * ROUNDS * CLIENTS);
	E2E_EQ(e2e_stat(store, "counters.load_errors"), 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K6-07: a batch of twice the room ------------------------------------- */

enum {
	BATCH = 64
};

struct batch {
	struct cenote_put_item items[BATCH];
	struct cenote_part parts[BATCH];
	struct e2e_number_key keys[BATCH];
};

/* Of 1 MiB each; how many are stored. What is not has an error, and is not there. */
static int put_batch(
	struct cenote *store, struct batch *batch, uint64_t first, int64_t timeout_ms)
{
	const struct cenote_put_options options = {
		.softpin = true, .timeout_ms = timeout_ms};
	int stored = 0;

	for (uint64_t i = 0; i < BATCH; i++) {
		void *data = malloc(MIB);

		E2E_TRUE(data != NULL);
		e2e_fill(data, MIB, first + i);
		batch->parts[i] = (struct cenote_part){data, MIB};
		batch->items[i] = (struct cenote_put_item){
			KEY(e2e_number(&batch->keys[i], first + i)->text),
			&batch->parts[i], 1, 0};
	}
	(void)cenote_put_batch(store, batch->items, BATCH, &options);
	for (uint64_t i = 0; i < BATCH; i++) {
		int result = batch->items[i].result;

		free((void *)(uintptr_t)batch->parts[i].data);
		if (result != 0)
			E2E_ERR(result, CENOTE_ERR_NO_SPACE);
		E2E_EQ(cenote_exists(store, batch->items[i].key), result == 0);
		if (result == 0)
			e2e_verify_numbers(store, first + i, 1, MIB);
		stored += result == 0;
	}
	E2E_EQ(e2e_stat(store, "pool.writing"), 0);
	e2e_check(store);
	return stored;
}

static void k6_07_a_batch_of_twice_the_room_is_stored_or_named(struct e2e *t)
{
	struct e2e_node *alone = e2e_node_start(t, "--pool", "32M", NULL);
	struct e2e_node *node = e2e_disk_start(t, "32M", "256M");
	static struct batch batch;
	struct cenote *store = e2e_connect(alone);
	int stored = put_batch(store, &batch, 0, 300);

	(void)printf("without a disk %d of %d\n", stored, BATCH);
	E2E_TRUE(stored >= 28 && stored <= 32);
	/* What was named can be put once there is room. */
	e2e_remove_all(store);
	e2e_expect_in_use(store, 0);
	E2E_TRUE(put_batch(store, &batch, 1000, 300) >= 28);
	cenote_close(store);

	store = e2e_connect(node);
	E2E_EQ(put_batch(store, &batch, 0, E2E_DEADLINE_MS), BATCH);
	cenote_close(store);
}

/* ---- K6-09: a pool in which one load fits ---------------------------------- */

enum {
	ROTATION = 8,
	TURNS = 6
};
#define HALF (3 * MIB - 64 * KIB)

struct previous {
	struct cenote *store;
	struct cenote_view view;
	uint64_t number;
};

/* While the next is being waited for: read all of it, then let it go. */
static void *previous_run(void *arg)
{
	struct previous *previous = arg;

	for (int i = 0; i < 3; i++)
		E2E_BYTES(previous->view.data, previous->view.size, previous->number);
	E2E_OK(cenote_release(previous->store, &previous->view));
	return NULL;
}

static void role_rotator(struct e2e_self *self)
{
	const struct cenote_get_options options = {.timeout_ms = 30000};
	struct cenote *store = e2e_self_connect(self);
	uint64_t me = e2e_self_number(self, 0), full = 0;
	struct previous previous;
	bool holds = false;

	for (uint64_t turn = 0; turn < TURNS; turn++) {
		uint64_t number = (me + turn) % ROTATION;
		struct e2e_number_key key;
		struct cenote_view view = {0};
		pthread_t thread;
		int err;

		if (holds)
			E2E_EQ(pthread_create(&thread, NULL, previous_run, &previous), 0);
		err = cenote_get(
			store, KEY(e2e_number(&key, number)->text), &options, &view);
		if (holds)
			E2E_EQ(pthread_join(thread, NULL), 0);
		holds = err == 0;
		if (holds) {
			previous = (struct previous){store, view, number};
			continue;
		}
		E2E_ERR(err, CENOTE_ERR_NO_SPACE);
		full++;
		turn--; /* once more, with empty hands */
	}
	(void)previous_run(&previous);
	e2e_self_say(self, "%llu", (unsigned long long)full);
	cenote_close(store);
}

static void k6_09_loads_that_hold_their_last_are_never_stuck(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "6M", "128M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *roles[ROTATION];
	uint64_t start = e2e_now_ms();
	char me[16];

	e2e_put_numbers(store, 0, ROTATION, HALF);
	for (int i = 0; i < ROTATION; i++) {
		(void)snprintf(me, sizeof(me), "%d", i);
		roles[i] = e2e_role_start(t, node, "rotator", me, NULL);
	}
	for (int i = 0; i < ROTATION; i++) {
		(void)printf(
			"client %d was told \"full\" %d times\n", i, number_of(roles[i]));
		e2e_role_end(roles[i]);
	}
	(void)printf("%d loads by each of %d in %llu ms\n", TURNS, ROTATION,
		(unsigned long long)(e2e_now_ms() - start));
	e2e_verify_numbers(store, 0, ROTATION, HALF);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k6_01_two_batches_of_60_percent_are_never_both_stuck),
	E2E_CASE(k6_03_a_stream_sixteen_times_the_pool_is_taken_in_turns),
	E2E_CASE(k6_05_quartets_of_quarters_make_progress),
	E2E_CASE(k6_07_a_batch_of_twice_the_room_is_stored_or_named),
	E2E_CASE(k6_09_loads_that_hold_their_last_are_never_stuck),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(greedy),
	E2E_ROLE(streamer),
	E2E_ROLE(quartet),
	E2E_ROLE(rotator),
};

E2E_MAIN(cases, roles)
