/*
 * Tests of puts that replace: who reads the old object goes on, who comes after finds the
 * new one, and in no moment is there neither.
 */
#include "e2e_disk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define MIB       (1ull << 20)

static const struct cenote_put_options replace = {.replace = true};
static const struct cenote_put_options replace_softpin = {
	.replace = true, .softpin = true};

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

static int put_seed(struct cenote *store, const char *key, uint64_t size, uint64_t seed,
	const struct cenote_put_options *options)
{
	unsigned char *data = malloc(size + 1);
	int err;

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, seed);
	err = cenote_put(store, KEY(key), data, size, options);
	free(data);
	return err;
}

static uint64_t generation(struct cenote *store, const char *key)
{
	struct cenote_stat stat;

	E2E_OK(cenote_stat(store, KEY(key), &stat));
	return stat.generation;
}

/* ---- one after the other ------------------------------------------------- */

static void replace_once(struct cenote *store, uint64_t old_size, uint64_t new_size)
{
	struct cenote_view old, new;

	e2e_put(store, "k", old_size, 1);
	E2E_OK(cenote_get(store, KEY("k"), NULL, &old));
	E2E_OK(put_seed(store, "k", new_size, 2, &replace));
	E2E_OK(cenote_get(store, KEY("k"), NULL, &new));
	E2E_TRUE(new.generation > old.generation);
	E2E_EQ(generation(store, "k"), new.generation);
	E2E_EQ(old.size, old_size);
	E2E_BYTES(old.data, old.size, 1);
	E2E_EQ(new.size, new_size);
	E2E_BYTES(new.data, new.size, 2);
	E2E_OK(cenote_release(store, &old));
	E2E_BYTES(new.data, new.size, 2);
	E2E_OK(cenote_release(store, &new));
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_expect_in_use(store, 0);
}

static void readers_of_the_old_go_on_and_others_get_the_new(struct e2e *t)
{
	static const uint64_t sizes[] = {0, 10, 65536, 65537, MIB};
	struct cenote *store = start(t);

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
			replace_once(store, sizes[i], sizes[j]);
	}
	e2e_check(store);
	cenote_close(store);
}

static void an_absent_key_is_put_as_by_any_put(struct e2e *t)
{
	struct cenote *store = start(t);

	E2E_OK(put_seed(store, "small", 100, 1, &replace));
	E2E_OK(put_seed(store, "large", 100000, 2, &replace));
	e2e_verify(store, "small", 100, 1);
	e2e_verify(store, "large", 100000, 2);
	E2E_OK(cenote_remove(store, KEY("small")));
	E2E_OK(put_seed(store, "small", 200, 3, &replace)); /* removed: absent again */
	e2e_verify(store, "small", 200, 3);
	E2E_ERR(put_seed(store, "small", 300, 4, NULL), CENOTE_ERR_EXISTS);
	e2e_verify(store, "small", 200, 3);
	E2E_EQ(e2e_stat(store, "pool.objects"), 2);
	cenote_close(store);
}

static void the_new_has_its_own_options(struct e2e *t)
{
	const struct cenote_put_options first = {.ttl_ms = 3600000, .readers = 5};
	struct cenote *store = start(t);
	struct cenote_stat stat;

	E2E_OK(put_seed(store, "k", 100, 1, &first));
	E2E_OK(put_seed(store, "k", 100, 2, &replace_softpin));
	E2E_OK(cenote_stat(store, KEY("k"), &stat));
	E2E_TRUE(stat.softpin);
	E2E_EQ(stat.expires_in_ms, -1);
	E2E_EQ(stat.readers_left, 0);
	for (int i = 0; i < 6; i++)
		e2e_verify(store, "k", 100, 2);
	E2E_OK(put_seed(store, "k", 100, 3, &replace));
	E2E_OK(cenote_stat(store, KEY("k"), &stat));
	E2E_TRUE(!stat.softpin);
	cenote_close(store);
}

/* The end of a counted read of the old is nothing to the new. */
static void reads_of_the_old_do_not_count_for_the_new(struct e2e *t)
{
	const struct cenote_put_options counted = {.replace = true, .readers = 1};
	struct cenote *store = start(t);
	struct cenote_view old;

	E2E_OK(put_seed(store, "k", 100, 1, &counted));
	E2E_OK(cenote_get(store, KEY("k"), NULL, &old));
	E2E_OK(put_seed(store, "k", 100, 2, &counted));
	E2E_OK(cenote_release(store, &old));
	e2e_verify(store, "k", 100, 2);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* Its time to live ends with it. */
static void the_time_of_the_old_does_not_end_the_new(struct e2e *t)
{
	const struct cenote_put_options brief = {.ttl_ms = 300};
	struct cenote *store = start(t);

	E2E_OK(put_seed(store, "k", 100, 1, &brief));
	E2E_OK(put_seed(store, "other", 100, 1, &brief));
	E2E_OK(put_seed(store, "k", 100, 2, &replace));
	E2E_UNTIL(cenote_exists(store, KEY("other")) == 0, E2E_DEADLINE_MS);
	e2e_verify(store, "k", 100, 2);
	cenote_close(store);
}

/* ---- in two steps -------------------------------------------------------- */

static void the_old_is_there_until_the_new_is_sealed(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer writer;
	uint64_t before;

	e2e_put_softpin(store, "k", 100000, 1);
	before = generation(store, "k");
	E2E_OK(cenote_create(store, KEY("k"), 200000, &replace, &writer));
	e2e_fill(writer.data, writer.size, 2);
	E2E_EQ(cenote_exists(store, KEY("k")), 1);
	e2e_verify(store, "k", 100000, 1);
	E2E_EQ(generation(store, "k"), before);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "k", 200000, 2);
	E2E_TRUE(generation(store, "k") > before);

	before = generation(store, "k");
	E2E_OK(cenote_create(store, KEY("k"), 300000, &replace, &writer));
	E2E_OK(cenote_abort(store, &writer));
	e2e_verify(store, "k", 200000, 2);
	E2E_EQ(generation(store, "k"), before);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void a_remove_meanwhile_ends_both(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer writer;

	e2e_put(store, "k", 100000, 1);
	E2E_OK(cenote_create(store, KEY("k"), 200000, &replace, &writer));
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_expect_in_use(store, 0);
	e2e_put(store, "k", 1000, 3);
	e2e_verify(store, "k", 1000, 3);
	e2e_check(store);
	cenote_close(store);
}

static void role_begin(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY("k"), MIB, &replace, &writer));
	e2e_fill(writer.data, writer.size / 2, 9);
	e2e_self_say(self, "begun");
	e2e_self_await(self, "never");
}

static void a_death_before_the_end_leaves_the_old(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role;
	uint64_t before, in_use;

	e2e_put_softpin(store, "k", 100000, 1);
	before = generation(store, "k");
	in_use = e2e_in_use(store);
	role = e2e_role_start(t, node, "begin", NULL);
	e2e_role_expect(role, "begun");
	E2E_TRUE(e2e_in_use(store) >= in_use + MIB);
	e2e_role_signal(role, SIGKILL);
	e2e_expect_in_use(store, in_use);
	e2e_verify(store, "k", 100000, 1);
	E2E_EQ(generation(store, "k"), before);
	E2E_OK(put_seed(store, "k", 1000, 2, &replace)); /* nobody is in its way */
	e2e_verify(store, "k", 1000, 2);
	e2e_check(store);
	cenote_close(store);
}

/* ---- batches ------------------------------------------------------------- */

static void batches_replace_too(struct e2e *t)
{
	static unsigned char bytes[3][100000];
	struct cenote *store = start(t);
	struct cenote_part parts[3] = {
		{bytes[0], 1000}, {bytes[1], 100000}, {bytes[2], 50}};
	/* A key twice: the second is put after the first, so it stays. */
	struct cenote_put_item puts[] = {
		{.key = KEY("a"), .parts = &parts[0], .count = 1},
		{.key = KEY("b"), .parts = &parts[1], .count = 1},
		{.key = KEY("c"), .parts = &parts[1], .count = 1},
		{.key = KEY("a"), .parts = &parts[2], .count = 1}};
	struct cenote_create_item creates[] = {
		{.key = KEY("b"), .size = 70000}, {.key = KEY("d"), .size = 10}};
	struct cenote_view old;

	for (unsigned i = 0; i < 3; i++)
		e2e_fill(bytes[i], parts[i].size, 10 + i);
	e2e_put(store, "a", 2000, 1);
	e2e_put_softpin(store, "b", 200000, 2);
	E2E_OK(cenote_get(store, KEY("b"), NULL, &old));
	E2E_EQ(cenote_put_batch(store, puts, 4, NULL), 3);
	E2E_EQ(puts[0].result, CENOTE_ERR_EXISTS);
	E2E_EQ(puts[1].result, CENOTE_ERR_EXISTS);
	E2E_EQ(puts[3].result, CENOTE_ERR_EXISTS);
	E2E_EQ(cenote_put_batch(store, puts, 4, &replace), 0);
	e2e_verify(store, "a", 50, 12);
	e2e_verify(store, "b", 100000, 11);
	e2e_verify(store, "c", 100000, 11);
	E2E_BYTES(old.data, 200000, 2);
	E2E_EQ(cenote_create_batch(store, creates, 2, &replace), 0);
	e2e_verify(store, "b", 100000, 11);
	for (unsigned i = 0; i < 2; i++) {
		e2e_fill(creates[i].writer.data, creates[i].size, 20 + i);
		E2E_OK(cenote_seal(store, &creates[i].writer));
	}
	e2e_verify(store, "b", 70000, 20);
	e2e_verify(store, "d", 10, 21);
	E2E_BYTES(old.data, 200000, 2);
	E2E_OK(cenote_release(store, &old));
	E2E_EQ(e2e_stat(store, "pool.objects"), 4);
	e2e_check(store);
	cenote_close(store);
}

/* ---- clients that meet --------------------------------------------------- */

static void a_put_under_way_is_not_waited_for(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer writer;

	for (uint64_t size = 100; size <= 300000; size = size * 3000) {
		E2E_OK(cenote_create(store, KEY("k"), 2000, NULL, &writer));
		E2E_OK(put_seed(store, "k", size, 7, &replace));
		e2e_verify(store, "k", size, 7);
		E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_EXISTS);
		e2e_verify(store, "k", size, 7);
		E2E_OK(cenote_remove(store, KEY("k")));
		e2e_expect_in_use(store, 0);
	}
	e2e_check(store);
	cenote_close(store);
}

static void of_those_that_replace_the_last_to_end_stays(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer first, second, third;

	E2E_OK(cenote_create(store, KEY("k"), 1000, &replace, &first));
	E2E_OK(cenote_create(store, KEY("k"), 2000, &replace, &second));
	E2E_OK(cenote_create(store, KEY("k"), 3000, &replace, &third));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_put(store, "k", 100, 0); /* there is nothing yet that it would meet */
	e2e_fill(first.data, first.size, 1);
	e2e_fill(second.data, second.size, 2);
	e2e_verify(store, "k", 100, 0);
	E2E_OK(cenote_seal(store, &second));
	e2e_verify(store, "k", 2000, 2);
	E2E_OK(cenote_seal(store, &first));
	e2e_verify(store, "k", 1000, 1);
	E2E_OK(cenote_abort(store, &third));
	e2e_verify(store, "k", 1000, 1);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void role_put(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);

	e2e_self_say(self, "attached");
	e2e_self_say(self, "%s", cenote_error_name(put_seed(store, "k", 100, 8, NULL)));
	cenote_close(store);
}

/* It waited for the end of a put that is outrun now. */
static void who_waits_for_the_key_finds_the_new_there(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t waits = e2e_stat(store, "counters.waits_key");
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("k"), 2000, NULL, &writer));
	role = e2e_role_start(t, node, "put", NULL);
	e2e_role_expect(role, "attached");
	E2E_UNTIL(e2e_stat(store, "counters.waits_key") > waits, E2E_DEADLINE_MS);
	E2E_OK(put_seed(store, "k", 3000, 7, &replace));
	e2e_role_expect(role, "EXISTS");
	e2e_role_end(role);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_EXISTS);
	e2e_verify(store, "k", 3000, 7);
	cenote_close(store);
}

/* An object is one number over and over, of a size that depends on it; so a mix of two is
 * seen. */
#define WORDS_MAX 20000u

static size_t words_of(uint64_t number)
{
	return number % 3 == 0 ? WORDS_MAX : 1 + number % 100;
}

static int put_number(struct cenote *store, uint64_t number, uint64_t *words)
{
	for (size_t i = 0; i < words_of(number); i++)
		words[i] = number;
	return cenote_put(store, KEY("k"), words, words_of(number) * 8, &replace_softpin);
}

static uint64_t number_of(const struct cenote_view *view)
{
	const uint64_t *words = view->data;

	E2E_TRUE(view->size >= 8);
	E2E_EQ(view->size, words_of(words[0]) * 8);
	for (size_t i = 0; i < view->size / 8; i++)
		E2E_EQ(words[i], words[0]);
	return words[0];
}

struct meeting {
	const struct e2e_node *node;
	atomic_bool is_over;
	_Atomic uint64_t ended; /* number of the last put that has ended, of one writer */
	uint64_t first;         /* number of a writer */
};

/* What it finds never gets older, and never is nothing. */
static void *read_all_the_time(void *arg)
{
	struct meeting *meeting = arg;
	struct cenote *store = e2e_connect(meeting->node);
	uint64_t last_generation = 0;

	while (!atomic_load(&meeting->is_over)) {
		uint64_t ended = atomic_load(&meeting->ended), number;
		struct cenote_view view;

		E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
		number = number_of(&view);
		E2E_TRUE(number >= ended);
		E2E_TRUE(view.generation >= last_generation);
		last_generation = view.generation;
		E2E_OK(cenote_release(store, &view));
		E2E_EQ(cenote_exists(store, KEY("k")), 1);
	}
	cenote_close(store);
	return NULL;
}

static void readers_find_the_old_or_the_new(struct e2e *t)
{
	enum {
		READERS = 3
	};
	struct meeting meeting = {.node = e2e_node_start(t, "--pool", "64M", NULL)};
	struct cenote *store = e2e_connect(meeting.node);
	static uint64_t words[WORDS_MAX];
	pthread_t threads[READERS];
	uint64_t count = e2e_is_slow() ? 1500 : 5000;

	E2E_OK(put_number(store, 0, words));
	for (int i = 0; i < READERS; i++)
		E2E_EQ(pthread_create(&threads[i], NULL, read_all_the_time, &meeting), 0);
	for (uint64_t number = 1; number <= count; number++) {
		E2E_OK(put_number(store, number, words));
		atomic_store(&meeting.ended, number);
	}
	atomic_store(&meeting.is_over, true);
	for (int i = 0; i < READERS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void *write_all_the_time(void *arg)
{
	struct meeting *meeting = arg;
	struct cenote *store = e2e_connect(meeting->node);
	uint64_t *words = malloc(WORDS_MAX * 8);
	uint64_t last_generation = 0;

	E2E_TRUE(words != NULL);
	for (uint64_t i = 0; i < (e2e_is_slow() ? 300u : 1000u); i++) {
		struct cenote_view view;

		E2E_OK(put_number(store, meeting->first + i, words));
		E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
		(void)number_of(&view);
		E2E_TRUE(view.generation > last_generation);
		last_generation = view.generation;
		E2E_OK(cenote_release(store, &view));
	}
	free(words);
	cenote_close(store);
	return NULL;
}

static void writers_of_one_key_all_succeed(struct e2e *t)
{
	enum {
		WRITERS = 4
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct meeting meetings[WRITERS];
	pthread_t threads[WRITERS];

	for (uint64_t i = 0; i < WRITERS; i++) {
		meetings[i] = (struct meeting){.node = node, .first = i * 1000000};
		E2E_EQ(pthread_create(
			       &threads[i], NULL, write_all_the_time, &meetings[i]),
			0);
	}
	for (int i = 0; i < WRITERS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- no room, restarts, the disk ----------------------------------------- */

static void without_room_for_both_the_old_stays(struct e2e *t)
{
	const struct cenote_put_options brief = {
		.replace = true, .softpin = true, .timeout_ms = 100};
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	uint64_t before;

	e2e_put_softpin(store, "k", 10 * MIB, 1);
	before = generation(store, "k");
	E2E_ERR(put_seed(store, "k", 10 * MIB, 2, &brief), CENOTE_ERR_NO_SPACE);
	E2E_ERR(put_seed(store, "k", 20 * MIB, 2, &brief), CENOTE_ERR_TOO_LARGE);
	e2e_verify(store, "k", 10 * MIB, 1);
	E2E_EQ(generation(store, "k"), before);
	E2E_OK(put_seed(store, "k", 4 * MIB, 3, &brief));
	E2E_OK(put_seed(store, "k", 10 * MIB, 4, &brief)); /* the first one's room */
	e2e_verify(store, "k", 10 * MIB, 4);
	e2e_check(store);
	cenote_close(store);
}

static void a_restart_finds_the_new_alone(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view old;

	e2e_put_softpin(store, "k", 100000, 1);
	e2e_put_softpin(store, "small", 100, 1);
	E2E_OK(cenote_get(store, KEY("k"), NULL, &old));
	E2E_OK(put_seed(store, "k", 200000, 2, &replace_softpin));
	E2E_OK(put_seed(store, "small", 200, 2, &replace_softpin));
	e2e_node_kill(node);
	e2e_verify(store, "k", 200000, 2); /* a hit, without a daemon */
	e2e_node_restart(node);
	e2e_verify(store, "k", 200000, 2);
	e2e_verify(store, "small", 200, 2);
	E2E_BYTES(old.data, old.size, 1);
	E2E_EQ(e2e_stat(store, "pool.objects"), 2);
	E2E_OK(cenote_release(store, &old));
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_OK(cenote_remove(store, KEY("small")));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void one_that_is_open_is_finished_after_a_restart(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	uint64_t before;

	e2e_put_softpin(store, "k", 100000, 1);
	before = generation(store, "k");
	E2E_OK(cenote_create(store, KEY("k"), 200000, &replace_softpin, &writer));
	e2e_fill(writer.data, writer.size, 2);
	e2e_node_kill(node);
	e2e_node_restart(node);
	e2e_verify(store, "k", 100000, 1);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "k", 200000, 2);
	E2E_TRUE(generation(store, "k") > before);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* Neither a restart nor the loss of the pool brings the old one back. */
static void what_is_on_disk_is_replaced(struct e2e *t)
{
	const struct cenote_put_options durable = {
		.replace = true, .softpin = true, .durable = true};
	struct e2e_node *node = e2e_disk_start(t, "16M", "128M");
	struct cenote *store = e2e_connect(node);

	e2e_put_softpin(store, "k", MIB, 1);
	e2e_push_out(store, "k");
	E2E_OK(put_seed(store, "k", 2 * MIB, 2, &replace_softpin));
	e2e_verify(store, "k", 2 * MIB, 2);
	e2e_node_kill(node);
	e2e_node_restart(node);
	e2e_verify(store, "k", 2 * MIB, 2);

	e2e_push_out(store, "k");
	E2E_OK(put_seed(store, "k", MIB, 3, &durable));
	E2E_OK(put_seed(store, "small", 100, 4, &durable));
	E2E_OK(put_seed(store, "small", 200, 5, &durable));
	cenote_close(store);
	e2e_node_kill(node);
	e2e_lose_pool(node);
	e2e_node_restart(node);
	store = e2e_connect(node);
	E2E_EQ(e2e_stat(store, "disk.adopted_at_start"), 2);
	e2e_verify(store, "k", MIB, 3);
	e2e_verify(store, "small", 200, 5);
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_OK(cenote_remove(store, KEY("small")));
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(begin), E2E_ROLE(put)};

static const struct e2e_case cases[] = {
	E2E_CASE(readers_of_the_old_go_on_and_others_get_the_new),
	E2E_CASE(an_absent_key_is_put_as_by_any_put),
	E2E_CASE(the_new_has_its_own_options),
	E2E_CASE(reads_of_the_old_do_not_count_for_the_new),
	E2E_CASE(the_time_of_the_old_does_not_end_the_new),
	E2E_CASE(the_old_is_there_until_the_new_is_sealed),
	E2E_CASE(a_remove_meanwhile_ends_both),
	E2E_CASE(a_death_before_the_end_leaves_the_old),
	E2E_CASE(batches_replace_too),
	E2E_CASE(a_put_under_way_is_not_waited_for),
	E2E_CASE(of_those_that_replace_the_last_to_end_stays),
	E2E_CASE(who_waits_for_the_key_finds_the_new_there),
	E2E_CASE(readers_find_the_old_or_the_new),
	E2E_CASE(writers_of_one_key_all_succeed),
	E2E_CASE(without_room_for_both_the_old_stays),
	E2E_CASE(a_restart_finds_the_new_alone),
	E2E_CASE(one_that_is_open_is_finished_after_a_restart),
	E2E_CASE(what_is_on_disk_is_replaced),
};

E2E_MAIN(cases, roles)
