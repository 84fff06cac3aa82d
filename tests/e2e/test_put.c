/*
 * Tests of putting: in one call, in parts, in two steps; for a time, for good, and where
 * there is no room.
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

/* ---- put ----------------------------------------------------------------- */

static void put_get_remove(struct e2e *t)
{
	struct cenote *store = start(t);

	e2e_put(store, "key", 100000, 1);
	E2E_EQ(cenote_exists(store, KEY("key")), 1);
	e2e_verify(store, "key", 100000, 1);
	E2E_TRUE(e2e_in_use(store) >= 100000);
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void put_of_an_existing_key_changes_nothing(struct e2e *t)
{
	struct cenote *store = start(t);
	unsigned char *other = malloc(200000);

	E2E_TRUE(other != NULL);
	e2e_fill(other, 200000, 2);
	e2e_put(store, "small", 100, 1);
	e2e_put(store, "large", 150000, 1);
	E2E_ERR(cenote_put(store, KEY("small"), other, 200000, NULL), CENOTE_ERR_EXISTS);
	E2E_DETAIL("small");
	E2E_ERR(cenote_put(store, KEY("large"), other, 10, NULL), CENOTE_ERR_EXISTS);
	e2e_verify(store, "small", 100, 1);
	e2e_verify(store, "large", 150000, 1);
	free(other);
	cenote_close(store);
}

static void put_parts_are_joined(struct e2e *t)
{
	static const uint64_t sizes[] = {0, 1, 70001, 0, 5};
	struct cenote *store = start(t);
	struct cenote_part parts[ARRAY_LEN(sizes)];
	unsigned char *whole = malloc(70007);
	uint64_t at = 0;

	E2E_TRUE(whole != NULL);
	e2e_fill(whole, 70007, 3);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		parts[i].data = whole + at;
		parts[i].size = sizes[i];
		at += sizes[i];
	}
	E2E_OK(cenote_put_parts(store, KEY("large"), parts, 5, NULL));
	e2e_verify(store, "large", 70007, 3);
	E2E_OK(cenote_put_parts(store, KEY("small"), parts, 2, NULL));
	e2e_verify(store, "small", 1, 3);
	E2E_OK(cenote_put_parts(store, KEY("empty"), NULL, 0, NULL));
	e2e_verify(store, "empty", 0, 3);
	free(whole);
	cenote_close(store);
}

static void create_is_invisible_until_sealed(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer writer;
	struct cenote_view view;

	E2E_OK(cenote_create(store, KEY("key"), 100000, NULL, &writer));
	E2E_EQ(writer.size, 100000);
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	E2E_ERR(cenote_get(store, KEY("key"), NULL, &view), CENOTE_ERR_NOT_FOUND);
	e2e_fill(writer.data, writer.size, 4);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "key", 100000, 4);
	E2E_TRUE(cenote_seal(store, &writer) < 0);
	E2E_TRUE(cenote_abort(store, &writer) < 0);
	e2e_verify(store, "key", 100000, 4);
	cenote_close(store);
}

static void abort_leaves_nothing(struct e2e *t)
{
	struct cenote *store = start(t);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY("key"), 1 << 20, NULL, &writer));
	E2E_TRUE(e2e_in_use(store) >= 1 << 20);
	e2e_fill(writer.data, writer.size, 5);
	E2E_OK(cenote_abort(store, &writer));
	e2e_expect_in_use(store, 0);
	E2E_TRUE(cenote_abort(store, &writer) < 0);
	E2E_TRUE(cenote_seal(store, &writer) < 0);
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	e2e_put(store, "key", 10, 6);
	e2e_verify(store, "key", 10, 6);
	cenote_close(store);
}

static void close_aborts_writers_and_ends_views(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node), *other = e2e_connect(node);
	struct cenote_writer writer;
	struct cenote_view view;

	e2e_put(store, "held", 1000, 1);
	E2E_OK(cenote_get(other, KEY("held"), NULL, &view));
	E2E_OK(cenote_create(other, KEY("open"), 1 << 20, NULL, &writer));
	E2E_OK(cenote_remove(store, KEY("held")));
	E2E_TRUE(e2e_in_use(store) > 1 << 20);
	cenote_close(other);
	e2e_expect_in_use(store, 0);
	e2e_put(store, "open", 10, 2);
	cenote_close(store);
	cenote_close(NULL);
}

static void ttl_ends_an_object_and_reads_do_not_renew_it(struct e2e *t)
{
	const struct cenote_put_options options = {.ttl_ms = 700};
	struct cenote *store = start(t);
	struct cenote_view view;
	struct cenote_stat stat;
	uint64_t began = e2e_now_ms();

	E2E_OK(cenote_put(store, KEY("small"), "abc", 3, &options));
	E2E_OK(cenote_put(store, KEY("held"), "abcd", 4, &options));
	E2E_OK(cenote_stat(store, KEY("small"), &stat));
	E2E_TRUE(stat.expires_in_ms >= 0 && stat.expires_in_ms <= 700);
	E2E_OK(cenote_get(store, KEY("held"), NULL, &view));
	/* Each look is also a touch and a get. */
	E2E_UNTIL(cenote_touch(store, KEY("small")) == CENOTE_ERR_NOT_FOUND, 20000);
	E2E_TRUE(e2e_now_ms() - began >= 700);
	E2E_ERR(cenote_get(store, KEY("small"), NULL, &view), CENOTE_ERR_NOT_FOUND);
	E2E_UNTIL(cenote_exists(store, KEY("held")) == 0, 20000);
	E2E_TRUE(memcmp(view.data, "abcd", 4) == 0);
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* ---- softpin ------------------------------------------------------------- */

static void softpin_outlives_any_number_of_cache_objects(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	char key[32];

	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(key, sizeof(key), "pinned/%u", i);
		e2e_put_softpin(store, key, 1 << 20, i);
	}
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "cache/%u", i);
		e2e_put(store, key, 1 << 20, i);
	}
	E2E_EQ(cenote_exists(store, KEY("cache/0")), 0);
	e2e_verify(store, "cache/99", 1 << 20, 99);
	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(key, sizeof(key), "pinned/%u", i);
		e2e_verify(store, key, 1 << 20, i);
	}
	e2e_check(store);
	cenote_close(store);
}

/* Fill the pool with softpin objects of 1 MiB; how many there are. */
static unsigned fill_softpin(struct cenote *store)
{
	const struct cenote_put_options options = {.softpin = true, .timeout_ms = 100};
	unsigned char *data = malloc(1 << 20);
	unsigned count = 0;
	char key[32];
	int err;

	do {
		(void)snprintf(key, sizeof(key), "pinned/%u", count);
		E2E_TRUE(data != NULL);
		e2e_fill(data, 1 << 20, count);
		err = cenote_put(store, KEY(key), data, 1 << 20, &options);
		count += err == 0;
	} while (err == 0);
	E2E_ERR(err, CENOTE_ERR_NO_SPACE);
	free(data);
	return count;
}

static void no_space_when_nothing_may_leave(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	unsigned count = fill_softpin(store);
	char key[32];

	E2E_DETAIL("1048576 bytes");
	E2E_DETAIL("softpin");
	E2E_TRUE(count >= 15);
	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(key, sizeof(key), "pinned/%u", i);
		e2e_verify(store, key, 1 << 20, i);
	}
	E2E_OK(cenote_remove(store, KEY("pinned/7")));
	e2e_put(store, "more", 1 << 20, 100);
	e2e_check(store);
	cenote_close(store);
}

static void role_put(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);

	e2e_self_say(self, "attached");
	e2e_put_softpin(store, e2e_self_arg(self, 0), e2e_self_number(self, 1), 7);
	e2e_self_say(self, "put");
	cenote_close(store);
}

static void put_waits_for_room(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "16M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role;
	uint64_t waits;

	(void)fill_softpin(store);
	waits = e2e_stat(store, "counters.waits_room");
	role = e2e_role_start(t, node, "put", "late", "1048576", NULL);
	e2e_role_expect(role, "attached");
	E2E_UNTIL(e2e_stat(store, "counters.waits_room") > waits, E2E_DEADLINE_MS);
	E2E_EQ(cenote_exists(store, KEY("late")), 0);
	E2E_OK(cenote_remove(store, KEY("pinned/3")));
	e2e_role_expect(role, "put");
	e2e_role_end(role);
	e2e_verify(store, "late", 1 << 20, 7);
	cenote_close(store);
}

static void objects_are_seen_by_other_processes(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role = e2e_role_start(t, node, "put", "theirs", "300000", NULL);

	e2e_role_expect(role, "attached");
	e2e_role_expect(role, "put");
	e2e_verify(store, "theirs", 300000, 7);
	e2e_role_end(role);
	e2e_verify(store, "theirs", 300000, 7);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(put)};

static const struct e2e_case cases[] = {
	E2E_CASE(put_get_remove),
	E2E_CASE(put_of_an_existing_key_changes_nothing),
	E2E_CASE(put_parts_are_joined),
	E2E_CASE(create_is_invisible_until_sealed),
	E2E_CASE(abort_leaves_nothing),
	E2E_CASE(close_aborts_writers_and_ends_views),
	E2E_CASE(ttl_ends_an_object_and_reads_do_not_renew_it),
	E2E_CASE(softpin_outlives_any_number_of_cache_objects),
	E2E_CASE(no_space_when_nothing_may_leave),
	E2E_CASE(put_waits_for_room),
	E2E_CASE(objects_are_seen_by_other_processes),
};

E2E_MAIN(cases, roles)
