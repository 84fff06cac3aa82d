/*
 * Tests of what can be done with objects that are there: get, look, touch, remove, take.
 * What waits is in test_wait.c, batches are in test_batch.c.
 */
#include "e2e.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

/* ---- get ----------------------------------------------------------------- */

static void release_is_once(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_view view, copy;

	e2e_put(store, "key", 1000, 1);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &view));
	copy = view;
	E2E_OK(cenote_release(store, &view));
	E2E_TRUE(view.data == NULL && view.size == 0);
	E2E_ERR(cenote_release(store, &view), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_release(store, &copy), CENOTE_ERR_BAD_ARGUMENT);
	/* Nothing was given back that another view has. */
	E2E_OK(cenote_get(store, KEY("key"), NULL, &view));
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_BYTES(view.data, view.size, 1);
	E2E_TRUE(e2e_in_use(store) > 0);
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* Whether or not they would have waited. */
static void a_timeout_that_is_none_is_refused_on_a_hit_too(struct e2e *t)
{
	const struct cenote_get_options options = {.timeout_ms = -7};
	struct cenote *store = start(t);
	struct cenote_get_item items[2] = {{.key = KEY("key")}, {.key = KEY("absent")}};
	struct cenote_get_into_item into = {.key = KEY("key")};
	struct cenote_view view;
	uint64_t size;
	char byte;

	e2e_put(store, "key", 1, 1);
	for (size_t i = 0; i < 2; i++) {
		struct cenote_key key = items[i].key;

		E2E_ERR(cenote_get(store, key, &options, &view), CENOTE_ERR_BAD_ARGUMENT);
		E2E_DETAIL("-7 ms");
		E2E_ERR(cenote_get_into(store, key, &byte, 1, &options, &size),
			CENOTE_ERR_BAD_ARGUMENT);
		E2E_ERR(cenote_wait(store, key, -7), CENOTE_ERR_BAD_ARGUMENT);
		E2E_ERR(cenote_take(store, key, &options, &view),
			CENOTE_ERR_BAD_ARGUMENT);
	}
	E2E_EQ(cenote_get_batch(store, items, 2, &options), 2);
	E2E_EQ(items[0].result, CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(items[1].result, CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(cenote_get_into_batch(store, &into, 1, &options), 1);
	E2E_EQ(into.result, CENOTE_ERR_BAD_ARGUMENT);
	e2e_verify(store, "key", 1, 1);
	cenote_close(store);
}

static void views_outlive_remove_and_the_next_put(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_view old, new;

	e2e_put(store, "key", 500000, 1);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &old));
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_put(store, "key", 400000, 2);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &new));
	E2E_TRUE(old.generation != new.generation);
	E2E_BYTES(old.data, 500000, 1);
	E2E_BYTES(new.data, 400000, 2);
	E2E_OK(cenote_release(store, &old));
	E2E_OK(cenote_release(store, &new));
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void get_into_wants_a_buffer_that_is_large_enough(struct e2e *t)
{
	struct cenote *store = start(t);
	unsigned char *buffer = malloc(200000);
	uint64_t size = 77;

	E2E_TRUE(buffer != NULL);
	e2e_put(store, "key", 100000, 8);
	memset(buffer, 0, 200000);
	E2E_ERR(cenote_get_into(store, KEY("key"), buffer, 99999, NULL, &size),
		CENOTE_ERR_BUFFER_TOO_SMALL);
	E2E_DETAIL("99999");
	E2E_DETAIL("100000");
	E2E_EQ(size, 77);
	E2E_OK(cenote_get_into(store, KEY("key"), buffer, 100000, NULL, &size));
	E2E_EQ(size, 100000);
	E2E_BYTES(buffer, size, 8);
	memset(buffer, 0, 200000);
	E2E_OK(cenote_get_into(store, KEY("key"), buffer, 200000, NULL, &size));
	E2E_EQ(size, 100000);
	E2E_BYTES(buffer, size, 8);
	E2E_EQ(buffer[100000], 0);
	E2E_ERR(cenote_get_into(store, KEY("none"), buffer, 10, NULL, &size),
		CENOTE_ERR_NOT_FOUND);
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	free(buffer);
	cenote_close(store);
}

/* ---- looks --------------------------------------------------------------- */

static void stat_tells_what_there_is(struct e2e *t)
{
	const struct cenote_put_options options = {.ttl_ms = 60000};
	struct cenote *store = start(t);
	struct cenote_stat stat = {.size = 77};
	struct cenote_view one, two;

	E2E_ERR(cenote_stat(store, KEY("key"), &stat), CENOTE_ERR_NOT_FOUND);
	E2E_EQ(stat.size, 77);
	e2e_put_softpin(store, "key", 12345, 1);
	E2E_OK(cenote_stat(store, KEY("key"), &stat));
	E2E_EQ(stat.size, 12345);
	E2E_EQ(stat.expires_in_ms, -1);
	E2E_EQ(stat.holds, 0);
	E2E_TRUE(stat.softpin);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &one));
	E2E_OK(cenote_get(store, KEY("key"), NULL, &two));
	E2E_OK(cenote_stat(store, KEY("key"), &stat));
	E2E_EQ(stat.holds, 2);
	E2E_EQ(stat.generation, one.generation);
	E2E_OK(cenote_release(store, &one));
	E2E_OK(cenote_release(store, &two));
	E2E_OK(cenote_put(store, KEY("timed"), "x", 1, &options));
	E2E_OK(cenote_stat(store, KEY("timed"), &stat));
	E2E_TRUE(stat.expires_in_ms > 0 && stat.expires_in_ms <= 60000);
	E2E_TRUE(!stat.softpin && stat.size == 1);
	cenote_close(store);
}

struct listing {
	unsigned count, stop_at;
	unsigned char seen[5000];
};

static int listing_add(void *arg, const struct cenote_list_entry *entry)
{
	struct listing *listing = arg;
	unsigned number;

	E2E_EQ(entry->key_size, strlen(entry->key));
	E2E_TRUE(sscanf(entry->key, "a/%u", &number) == 1 && number < 5000);
	E2E_EQ(entry->size, number % 7);
	E2E_TRUE(entry->softpin == (number % 2 == 1));
	E2E_EQ(listing->seen[number], 0);
	listing->seen[number] = 1;
	return ++listing->count == listing->stop_at ? 42 : 0;
}

static void list_finds_each_key_of_a_prefix_once(struct e2e *t)
{
	static struct listing listing;
	struct cenote *store = start(t);
	char key[32];

	for (unsigned i = 0; i < 5000; i++) {
		const struct cenote_put_options options = {.softpin = i % 2 == 1};

		(void)snprintf(key, sizeof(key), "a/%u", i);
		E2E_OK(cenote_put(store, KEY(key), "abcdefg", i % 7, &options));
	}
	e2e_put(store, "b/1", 10, 1);
	e2e_put(store, "a", 10, 1);
	E2E_OK(cenote_list(store, KEY("a/"), listing_add, &listing));
	E2E_EQ(listing.count, 5000);
	memset(&listing, 0, sizeof(listing));
	listing.stop_at = 10;
	E2E_EQ(cenote_list(store, KEY("a/"), listing_add, &listing), 42);
	E2E_EQ(listing.count, 10);
	E2E_OK(cenote_list(store, KEY("c"), listing_add, &listing));
	E2E_EQ(listing.count, 10);
	cenote_close(store);
}

static int count_entry(void *arg, const struct cenote_list_entry *entry)
{
	(void)entry;
	++*(unsigned *)arg;
	return 0;
}

static void list_without_a_prefix_has_all(struct e2e *t)
{
	struct cenote *store = start(t);
	unsigned count = 0;

	E2E_OK(cenote_list(store, KEY(""), count_entry, &count));
	E2E_EQ(count, 0);
	e2e_put(store, "one", 10, 1);
	e2e_put(store, "two", 70000, 1);
	E2E_OK(cenote_list(store, KEY(""), count_entry, &count));
	E2E_EQ(count, 2);
	cenote_close(store);
}

static void touch_and_remove_tell_absent_apart(struct e2e *t)
{
	struct cenote *store = start(t);

	E2E_ERR(cenote_touch(store, KEY("key")), CENOTE_ERR_NOT_FOUND);
	E2E_ERR(cenote_remove(store, KEY("key")), CENOTE_ERR_NOT_FOUND);
	e2e_put(store, "key", 1000, 1);
	E2E_OK(cenote_touch(store, KEY("key")));
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_ERR(cenote_remove(store, KEY("key")), CENOTE_ERR_NOT_FOUND);
	E2E_DETAIL("key");
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void take_is_get_and_remove(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_view view;

	e2e_put(store, "key", 100000, 1);
	E2E_OK(cenote_take(store, KEY("key"), NULL, &view));
	E2E_BYTES(view.data, view.size, 1);
	E2E_EQ(view.size, 100000);
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	E2E_ERR(cenote_take(store, KEY("key"), NULL, &view), CENOTE_ERR_NOT_FOUND);
	e2e_put(store, "key", 100, 2);
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(release_is_once),
	E2E_CASE(a_timeout_that_is_none_is_refused_on_a_hit_too),
	E2E_CASE(views_outlive_remove_and_the_next_put),
	E2E_CASE(get_into_wants_a_buffer_that_is_large_enough),
	E2E_CASE(stat_tells_what_there_is),
	E2E_CASE(list_finds_each_key_of_a_prefix_once),
	E2E_CASE(list_without_a_prefix_has_all),
	E2E_CASE(touch_and_remove_tell_absent_apart),
	E2E_CASE(take_is_get_and_remove),
};

E2E_MAIN_ALONE(cases)
