/*
 * Tests of what is done with many keys at once: remove by prefix, list and remove by regular
 * expression, and a list that takes many pages.
 */
#include "e2e_disk.h"

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define MIB       (1ull << 20)

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

static void expect_prefix(struct cenote *store, const char *prefix, uint64_t want)
{
	uint64_t count = UINT64_MAX;

	E2E_OK(cenote_remove_prefix(store, KEY(prefix), &count));
	E2E_EQ(count, want);
}

static int count_entry(void *arg, const struct cenote_list_entry *entry)
{
	(void)entry;
	++*(unsigned *)arg;
	return 0;
}

static unsigned count_of(struct cenote *store, const char *prefix)
{
	unsigned count = 0;

	E2E_OK(cenote_list(store, KEY(prefix), count_entry, &count));
	return count;
}

/* ---- by prefix ----------------------------------------------------------- */

static void a_prefix_ends_its_keys_and_no_others(struct e2e *t)
{
	static const char *const keys[] = {
		"a", "a/", "a/1", "a/2", "a/2/3", "ab", "A/1", "b/a/1", "\xff", "\xff/1"};
	struct cenote *store = start(t);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		e2e_put(store, keys[i], i % 2 ? 100 : 100000, i);
	expect_prefix(store, "nothing", 0);
	expect_prefix(store, "a/2/3/4", 0);
	E2E_EQ(e2e_stat(store, "pool.objects"), ARRAY_LEN(keys));
	expect_prefix(store, "a/", 4);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		E2E_EQ(cenote_exists(store, KEY(keys[i])),
			strncmp(keys[i], "a/", 2) != 0);
	expect_prefix(store, "a/", 0);
	expect_prefix(store, "\xff", 2);
	expect_prefix(store, "ab", 1); /* a whole key */
	e2e_verify(store, "a", 100000, 0);
	expect_prefix(store, "", 3);
	E2E_EQ(count_of(store, ""), 0);
	E2E_OK(cenote_remove_prefix(store, KEY("a"), NULL));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void what_is_no_prefix_is_refused(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_key nul = {"a\0", 2}, null = {NULL, 2}, too_long = {NULL, 1025};
	char text[CENOTE_KEY_LIMIT + 1];
	uint64_t count = 77;

	memset(text, 'k', sizeof(text));
	text[CENOTE_KEY_LIMIT] = '\0';
	too_long.data = text;
	e2e_put(store, text, 10, 1);
	E2E_ERR(cenote_remove_prefix(store, nul, &count), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_remove_prefix(store, too_long, &count), CENOTE_ERR_BAD_KEY);
	E2E_DETAIL("1025");
	E2E_ERR(cenote_remove_prefix(store, null, &count), CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(count, 77);
	e2e_verify(store, text, 10, 1);
	expect_prefix(store, text, 1); /* the longest there is */
	cenote_close(store);
}

static void readers_finish_and_the_next_put_is_another(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_view old, new;

	e2e_put_softpin(store, "a/1", 100000, 1);
	e2e_put(store, "a/2", 100, 2);
	E2E_OK(cenote_get(store, KEY("a/1"), NULL, &old));
	expect_prefix(store, "a/", 2);
	E2E_ERR(cenote_get(store, KEY("a/1"), NULL, &new), CENOTE_ERR_NOT_FOUND);
	e2e_put(store, "a/1", 200000, 3);
	E2E_OK(cenote_get(store, KEY("a/1"), NULL, &new));
	E2E_TRUE(new.generation > old.generation);
	E2E_BYTES(old.data, 100000, 1);
	E2E_BYTES(new.data, 200000, 3);
	E2E_OK(cenote_release(store, &old));
	E2E_OK(cenote_release(store, &new));
	e2e_verify(store, "a/1", 200000, 3);
	expect_prefix(store, "a/1", 1);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* More than the daemon looks at in one go, some of it with long keys. */
static void thousands_go_in_one_call(struct e2e *t)
{
	const unsigned count = e2e_is_slow() ? 8000 : 20000;
	struct cenote *store = start(t);
	char key[200];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(key, sizeof(key), "%s/%0*u", i % 4 ? "go" : "stay",
			i % 100 ? 1 : 150, i);
		E2E_OK(cenote_put(store, KEY(key), "abcdefg", i % 7, NULL));
	}
	expect_prefix(store, "go/", count - count / 4);
	E2E_EQ(count_of(store, "go/"), 0);
	E2E_EQ(count_of(store, ""), count / 4);
	expect_prefix(store, "stay/", count / 4);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- by prefix, against puts under way ----------------------------------- */

static void a_put_that_began_before_ends_removed(struct e2e *t)
{
	const struct cenote_put_options options = {.softpin = true};
	struct cenote *store = start(t);
	struct cenote_create_item items[] = {
		{.key = KEY("a/2"), .size = 10}, {.key = KEY("a/3"), .size = MIB}};
	struct cenote_writer writer, other;
	uint64_t count;

	E2E_OK(cenote_create(store, KEY("a/1"), 100000, &options, &writer));
	E2E_OK(cenote_create(store, KEY("b/1"), 100000, &options, &other));
	E2E_EQ(cenote_create_batch(store, items, 2, NULL), 0);
	E2E_OK(cenote_remove_prefix(store, KEY("a/"), &count));
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	E2E_ERR(cenote_seal(store, &items[0].writer), CENOTE_ERR_REMOVED);
	E2E_ERR(cenote_seal(store, &items[1].writer), CENOTE_ERR_REMOVED);
	E2E_EQ(count_of(store, "a/"), 0);
	e2e_fill(other.data, other.size, 1);
	E2E_OK(cenote_seal(store, &other)); /* its key begins otherwise */
	e2e_verify(store, "b/1", 100000, 1);
	e2e_put(store, "a/1", 1000, 2); /* one that began later */
	e2e_verify(store, "a/1", 1000, 2);
	expect_prefix(store, "", 2);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void nor_does_one_that_replaces_come_back(struct e2e *t)
{
	const struct cenote_put_options replace = {.replace = true};
	struct cenote *store = start(t);
	struct cenote_writer writer;
	uint64_t count;

	e2e_put(store, "a/1", 100000, 1);
	E2E_OK(cenote_create(store, KEY("a/1"), 200000, &replace, &writer));
	E2E_OK(cenote_remove_prefix(store, KEY("a/"), &count));
	E2E_EQ(cenote_exists(store, KEY("a/1")), 0);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	E2E_EQ(cenote_exists(store, KEY("a/1")), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void role_begin(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY("a/theirs"), MIB, NULL, &writer));
	e2e_self_say(self, "begun");
	e2e_self_await(self, "seal");
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	e2e_self_say(self, "removed");
	cenote_close(store);
}

static void nor_does_one_of_another_process_after_a_restart(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role = e2e_role_start(t, node, "begin", NULL);
	uint64_t count;

	e2e_role_expect(role, "begun");
	e2e_put_softpin(store, "a/ours", 1000, 1);
	e2e_put_softpin(store, "b", 1000, 2);
	E2E_OK(cenote_remove_prefix(store, KEY("a/"), &count));
	e2e_node_kill(node);
	e2e_node_restart(node);
	E2E_EQ(count_of(store, ""), 1);
	e2e_role_tell(role, "seal");
	e2e_role_expect(role, "removed");
	e2e_role_end(role);
	E2E_EQ(count_of(store, ""), 1);
	e2e_verify(store, "b", 1000, 2);
	expect_prefix(store, "", 1);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

struct putter {
	const struct e2e_node *node;
	atomic_bool *is_over;
	unsigned number;
	_Atomic unsigned ended; /* puts, of the keys 0 and on */
};

static void *put_all_the_time(void *arg)
{
	struct putter *putter = arg;
	struct cenote *store = e2e_connect(putter->node);
	static const unsigned char data[100000];
	char key[64];

	for (unsigned i = 0; !atomic_load(putter->is_over); i++) {
		int err;

		(void)snprintf(key, sizeof(key), "a/%u/%u", putter->number, i);
		err = cenote_put(store, KEY(key), data, i % 2 ? 100 : sizeof(data), NULL);
		if (err != CENOTE_ERR_REMOVED)
			E2E_OK(err);
		atomic_store(&putter->ended, i + 1);
	}
	cenote_close(store);
	return NULL;
}

/* Whatever was put by then is gone afterwards, however many are being put. */
static void it_sees_all_that_was_put_before(struct e2e *t)
{
	enum {
		PUTTERS = 3
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct putter putters[PUTTERS];
	pthread_t threads[PUTTERS];
	atomic_bool is_over = false;
	uint64_t total = 0, count;
	char key[64];

	for (unsigned i = 0; i < PUTTERS; i++) {
		putters[i] = (struct putter){
			.node = node, .is_over = &is_over, .number = i};
		E2E_EQ(pthread_create(&threads[i], NULL, put_all_the_time, &putters[i]),
			0);
	}
	for (int round = 0; round < (e2e_is_slow() ? 100 : 300); round++) {
		unsigned ended[PUTTERS];

		E2E_UNTIL(atomic_load(&putters[round % PUTTERS].ended) > (unsigned)round,
			E2E_DEADLINE_MS);
		for (unsigned i = 0; i < PUTTERS; i++)
			ended[i] = atomic_load(&putters[i].ended);
		E2E_OK(cenote_remove_prefix(store, KEY("a/"), &count));
		total += count;
		for (unsigned i = 0; i < PUTTERS; i++) {
			unsigned last = ended[i] - 1;

			for (unsigned at = last - MIN(last, 9u);
				ended[i] > 0 && at <= last; at++) {
				(void)snprintf(key, sizeof(key), "a/%u/%u", i, at);
				E2E_EQ(cenote_exists(store, KEY(key)), 0);
			}
		}
	}
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < PUTTERS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	E2E_TRUE(total > 0);
	E2E_OK(cenote_remove_prefix(store, KEY("a/"), &count));
	E2E_EQ(count_of(store, ""), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- by prefix, with a disk ---------------------------------------------- */

static void what_is_on_disk_goes_and_stays_away(struct e2e *t)
{
	enum {
		COUNT = 60
	};
	struct e2e_node *node = e2e_disk_start(t, "16M", "128M");
	struct cenote *store = e2e_connect(node);

	e2e_put_durable_numbers(store, 0, COUNT, MIB); /* most are on disk alone */
	e2e_put_softpin(store, "other", MIB, 1);
	e2e_put_softpin(store, "o/small", 100, 1);
	E2E_TRUE(e2e_stat(store, "disk.objects_only") >= COUNT - 16);
	expect_prefix(store, "o/", COUNT + 1);
	E2E_EQ(count_of(store, "o/"), 0);
	E2E_EQ(cenote_exists(store, KEY("o/0")), 0);
	e2e_verify(store, "other", MIB, 1);
	e2e_push_out(store, "other");
	cenote_close(store);
	e2e_node_kill(node);
	e2e_lose_pool(node);
	e2e_node_restart(node);
	store = e2e_connect(node);
	E2E_EQ(count_of(store, ""), 1);
	e2e_verify(store, "other", MIB, 1);
	expect_prefix(store, "o", 1);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* ---- by regular expression ----------------------------------------------- */

static void expect_regex(struct cenote *store, const char *pattern, uint64_t want)
{
	unsigned listed = 0;
	uint64_t count = UINT64_MAX;

	E2E_OK(cenote_list_regex(store, KEY(""), pattern, count_entry, &listed));
	E2E_EQ(listed, want);
	E2E_OK(cenote_remove_regex(store, pattern, &count));
	E2E_EQ(count, want);
	listed = 0;
	E2E_OK(cenote_list_regex(store, KEY(""), pattern, count_entry, &listed));
	E2E_EQ(listed, 0);
}

static void an_expression_matches_any_part_of_a_key(struct e2e *t)
{
	static const char *const keys[] = {"step/7/logits", "step/7/rewards",
		"step/17/logits", "step/8/logits", "run/step/7", "step/7", "7", "a\nb",
		"\xff\x01"};
	struct cenote *store = start(t);
	unsigned listed = 0;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		e2e_put(store, keys[i], i % 2 ? 100 : 100000, i);
	E2E_OK(cenote_list_regex(store, KEY("step/"), "7/", count_entry, &listed));
	E2E_EQ(listed, 3); /* the prefix as well */
	expect_regex(store, "^nothing", 0);
	expect_regex(store, "^step/7/", 2);
	expect_regex(store, "/(8|9)/", 1);
	expect_regex(store, "7$", 3);
	expect_regex(store, "^a.b$", 1); /* a newline is a byte as any other */
	expect_regex(store, "s{2}|step/[0-9]{2}/", 1);
	E2E_OK(cenote_remove_regex(store, ".", NULL));
	E2E_EQ(count_of(store, ""), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void what_is_no_expression_is_refused_with_the_reason(struct e2e *t)
{
	static const char *const bad[] = {"(", "[a", "a{2,1}", "a\\", "[[:none:]]"};
	struct cenote *store = start(t);
	uint64_t count = 77;
	unsigned listed = 0;

	e2e_put(store, "a", 100, 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char reason[200];
		regex_t regex;
		int code = regcomp(&regex, bad[i], REG_EXTENDED);

		E2E_TRUE(code != 0);
		(void)regerror(code, &regex, reason, sizeof(reason));
		E2E_ERR(cenote_remove_regex(store, bad[i], &count),
			CENOTE_ERR_BAD_ARGUMENT);
		E2E_DETAIL(reason);
		E2E_DETAIL(bad[i]);
		E2E_ERR(cenote_list_regex(store, KEY(""), bad[i], count_entry, &listed),
			CENOTE_ERR_BAD_ARGUMENT);
		E2E_DETAIL(reason);
	}
	E2E_ERR(cenote_remove_regex(store, NULL, &count), CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(count, 77);
	E2E_EQ(listed, 0);
	e2e_verify(store, "a", 100, 1);
	cenote_close(store);
}

static int end_at_once(void *arg, const struct cenote_list_entry *entry)
{
	++*(unsigned *)arg;
	return (int)entry->size;
}

static void a_list_ends_when_it_is_told_to(struct e2e *t)
{
	struct cenote *store = start(t);
	unsigned listed = 0;

	e2e_put(store, "a/1", 41, 1);
	e2e_put(store, "a/2", 41, 1);
	e2e_put(store, "b/1", 100, 1);
	E2E_EQ(cenote_list_regex(store, KEY(""), "^a", end_at_once, &listed), 41);
	E2E_EQ(listed, 1);
	E2E_EQ(cenote_list_regex(store, KEY("b"), "1", end_at_once, &listed), 100);
	E2E_EQ(listed, 2);
	cenote_close(store);
}

/* Of three that are listed the second is answered as if somebody else had removed it. */
static void what_vanished_meanwhile_is_done_but_not_counted(struct e2e *t)
{
	static const char *const point = "ClientBeforeRemoveSend";
	struct cenote *store;
	uint64_t count = 77;

	e2e_need_faults();
	store = start(t);
	e2e_put(store, "a/1", 100, 1);
	e2e_put(store, "a/2", 100, 1);
	e2e_put(store, "a/3", 100, 1);
	E2E_OK(cenote_inject_fault(point, "return_error", CENOTE_ERR_NOT_FOUND, 2, 1));
	E2E_OK(cenote_remove_regex(store, "^a/", &count));
	E2E_EQ(count, 2);
	E2E_EQ(count_of(store, "a/"), 1);

	/* Any other error is told, and the rest is removed all the same. */
	e2e_put(store, "a/x", 100, 1);
	e2e_put(store, "a/y", 100, 1);
	E2E_OK(cenote_inject_fault(point, "reset", 0, 0, 0));
	E2E_OK(cenote_inject_fault(point, "return_error", CENOTE_ERR_IO, 1, 1));
	count = 77;
	E2E_ERR(cenote_remove_regex(store, "^a/", &count), CENOTE_ERR_IO);
	E2E_DETAIL("1 of 3");
	E2E_EQ(count, 77);
	E2E_EQ(count_of(store, "a/"), 1);
	cenote_close(store);
}

static void *remove_by_regex(void *arg)
{
	const struct putter *putter = arg;
	struct cenote *store = e2e_connect(putter->node);
	uint64_t *removed = malloc(sizeof(*removed));

	E2E_TRUE(removed != NULL);
	E2E_OK(cenote_remove_regex(store, "^a/.*[0-9]$", removed));
	cenote_close(store);
	return removed;
}

/* Of all who remove the same objects each is told of its own. */
static void together_they_count_each_object_once(struct e2e *t)
{
	enum {
		REMOVERS = 4,
		COUNT = 3000
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct putter putter = {.node = node};
	pthread_t threads[REMOVERS];
	uint64_t total = 0;
	char key[300];

	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(key, sizeof(key), "a/%0*u", i % 10 ? 1 : 200, i);
		E2E_OK(cenote_put(store, KEY(key), "abc", 3, NULL));
	}
	e2e_put(store, "a/x", 100, 1);
	for (int i = 0; i < REMOVERS; i++)
		E2E_EQ(pthread_create(&threads[i], NULL, remove_by_regex, &putter), 0);
	for (int i = 0; i < REMOVERS; i++) {
		void *removed;

		E2E_EQ(pthread_join(threads[i], &removed), 0);
		total += *(uint64_t *)removed;
		free(removed);
	}
	E2E_EQ(total, COUNT);
	E2E_EQ(count_of(store, ""), 1);
	e2e_check(store);
	cenote_close(store);
}

/* ---- pages --------------------------------------------------------------- */

struct pages {
	struct cenote *store;
	unsigned count;
	unsigned char seen[1000];
};

/* Another list, and calls of other kinds, in the midst of one. */
static int see_and_list(void *arg, const struct cenote_list_entry *entry)
{
	struct pages *pages = arg;
	unsigned number = (unsigned)strtoul(entry->key, NULL, 10);

	E2E_EQ(entry->key_size, 1000);
	E2E_TRUE(number < 1000);
	E2E_EQ(pages->seen[number], 0);
	pages->seen[number] = 1;
	if (pages->count++ % 100 == 0) {
		E2E_EQ(count_of(pages->store, "0"), 1000);
		E2E_EQ(cenote_exists(pages->store, KEY(entry->key)), 1);
	}
	return 0;
}

/* A thousand keys of a thousand bytes are at least eight messages; some are on disk. */
static void a_list_takes_as_many_pages_as_it_needs(struct e2e *t)
{
	const struct cenote_put_options softpin = {.softpin = true, .durable = true};
	struct e2e_node *node = e2e_disk_start(t, "16M", "256M");
	struct cenote *store = e2e_connect(node);
	struct pages *pages = calloc(1, sizeof(*pages));
	unsigned char *data = calloc(1, 40000);
	char key[1001];

	E2E_TRUE(pages != NULL && data != NULL);
	pages->store = store;
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(key, sizeof(key), "%04u/%0995u", i, i);
		E2E_OK(cenote_put(store, KEY(key), data, 40000, &softpin));
	}
	e2e_disk_settle(store);
	E2E_TRUE(e2e_stat(store, "disk.objects_only") > 100);
	E2E_OK(cenote_list(store, KEY(""), see_and_list, pages));
	E2E_EQ(pages->count, 1000);
	expect_prefix(store, "0", 1000);
	e2e_expect_disk_base(t, store);
	free(data);
	free(pages);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(begin)};

static const struct e2e_case cases[] = {
	E2E_CASE(a_prefix_ends_its_keys_and_no_others),
	E2E_CASE(what_is_no_prefix_is_refused),
	E2E_CASE(readers_finish_and_the_next_put_is_another),
	E2E_CASE(thousands_go_in_one_call),
	E2E_CASE(a_put_that_began_before_ends_removed),
	E2E_CASE(nor_does_one_that_replaces_come_back),
	E2E_CASE(nor_does_one_of_another_process_after_a_restart),
	E2E_CASE(it_sees_all_that_was_put_before),
	E2E_CASE(what_is_on_disk_goes_and_stays_away),
	E2E_CASE(an_expression_matches_any_part_of_a_key),
	E2E_CASE(what_is_no_expression_is_refused_with_the_reason),
	E2E_CASE(a_list_ends_when_it_is_told_to),
	E2E_CASE(what_vanished_meanwhile_is_done_but_not_counted),
	E2E_CASE(together_they_count_each_object_once),
	E2E_CASE(a_list_takes_as_many_pages_as_it_needs),
};

E2E_MAIN(cases, roles)
