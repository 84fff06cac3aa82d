/*
 * Tests of the daemon's restart: what is adopted, what clients keep meanwhile, and what
 * becomes of files that are damaged, of another size, or left over.
 */
#include "e2e.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)

static void expect_log(const struct e2e_node *node, const char *words)
{
	char *log = e2e_node_log(node);

	if (strstr(log, words) == NULL)
		e2e_fail(__FILE__, __LINE__, "the log does not say \"%s\":\n%s", words,
			log);
	free(log);
}

static uint64_t size_of(int i)
{
	static const uint64_t sizes[] = {
		0, 1, 255, 256, 4096, 65536, 65537, 300000, 1 << 20};

	return sizes[(size_t)i % ARRAY_LEN(sizes)];
}

/* Long keys lie in the pool, short ones in the slot. */
static void key_of(int i, char *key, size_t size)
{
	(void)snprintf(key, size,
		i % 2 ? "key %d" : "a key longer than a slot can hold %020d", i);
}

static void put_some(struct cenote *store, int count)
{
	char key[64];

	for (int i = 0; i < count; i++) {
		key_of(i, key, sizeof(key));
		if (i % 3)
			e2e_put_softpin(store, key, size_of(i), (uint64_t)i);
		else
			e2e_put(store, key, size_of(i), (uint64_t)i);
	}
}

static void verify_some(struct cenote *store, int count)
{
	char key[64];

	for (int i = 0; i < count; i++) {
		key_of(i, key, sizeof(key));
		e2e_verify(store, key, size_of(i), (uint64_t)i);
	}
}

static int drop_entry(void *arg, const struct cenote_list_entry *entry)
{
	struct cenote_key key = {entry->key, entry->key_size};

	E2E_OK(cenote_remove(arg, key));
	return 0;
}

static void expect_base(struct cenote *store)
{
	E2E_OK(cenote_list(store, KEY(""), drop_entry, store));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
}

/* ---- what is adopted ----------------------------------------------------- */

static void every_sealed_object_is_there(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "128M", NULL);
	struct cenote *store = e2e_connect(node);

	put_some(store, 100);
	for (int round = 0; round < 3; round++) {
		e2e_node_kill(node);
		e2e_node_restart(node);
		verify_some(store, 100);
		e2e_check(store);
	}
	expect_log(node, "adopted 100 of 100 objects, dropped 0");
	e2e_node_stop(node); /* an orderly stop keeps them, too */
	e2e_node_restart(node);
	verify_some(store, 100);
	expect_base(store);
	cenote_close(store);
}

static void k2_07_views_and_hits_need_no_daemon(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view view;

	e2e_put_softpin(store, "held", 1 << 20, 1);
	e2e_put_softpin(store, "other", 1 << 20, 2);
	E2E_OK(cenote_get(store, KEY("held"), NULL, &view));
	e2e_node_kill(node);
	E2E_BYTES(view.data, view.size, 1);
	for (int i = 0; i < 1000; i++)
		e2e_verify(store, "other", 1 << 20, 2);
	E2E_EQ(cenote_exists(store, KEY("other")), 1);
	e2e_node_restart(node);

	/* The hold still stands: removed, the bytes stay until it ends. */
	E2E_OK(cenote_remove(store, KEY("held")));
	for (int i = 0; i < 100; i++) {
		e2e_put(store, "churn", 4 << 20, (uint64_t)i);
		E2E_OK(cenote_remove(store, KEY("churn")));
	}
	E2E_BYTES(view.data, view.size, 1);
	E2E_EQ(e2e_stat(store, "pool.condemned"), 1 << 20);
	E2E_OK(cenote_release(store, &view));
	expect_base(store);
	cenote_close(store);
}

static void an_open_put_is_finished_after_the_restart(struct e2e *t)
{
	const struct cenote_put_options options = {.softpin = true, .ttl_ms = 3600000};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer, aborted;
	struct cenote_stat stat;

	E2E_OK(cenote_create(store, KEY("open"), 1 << 20, &options, &writer));
	E2E_OK(cenote_create(store, KEY("aborted"), 1 << 20, &options, &aborted));
	e2e_fill(writer.data, writer.size / 2, 1);
	e2e_node_kill(node);
	e2e_fill(writer.data, writer.size, 1);
	e2e_node_restart(node);
	E2E_EQ(cenote_exists(store, KEY("open")), 0);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "open", 1 << 20, 1);
	E2E_OK(cenote_stat(store, KEY("open"), &stat));
	E2E_TRUE(stat.softpin && stat.expires_in_ms > 3000000 &&
		 stat.expires_in_ms <= 3600000);
	E2E_OK(cenote_abort(store, &aborted));
	expect_base(store);
	cenote_close(store);
}

static void a_release_that_nobody_heard_is_seen(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote *other = e2e_connect(node);
	struct cenote_view view, late;

	e2e_put_softpin(store, "a", 1 << 20, 1);
	e2e_put_softpin(store, "b", 1 << 20, 1);
	E2E_OK(cenote_get(other, KEY("a"), NULL, &view));
	E2E_OK(cenote_get(other, KEY("b"), NULL, &late));
	E2E_OK(cenote_remove(store, KEY("a")));
	E2E_OK(cenote_remove(store, KEY("b")));
	e2e_node_kill(node);
	E2E_OK(cenote_release(other, &view));
	e2e_node_restart(node);
	E2E_OK(cenote_release(other, &late));
	expect_base(store);
	cenote_close(other);
	cenote_close(store);
}

static void role_holder(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("old"), NULL, &view));
	E2E_OK(cenote_create(store, KEY("open"), 1 << 20, NULL, &writer));
	e2e_self_say(self, "holds");
	e2e_self_await(self, "never told");
}

static void who_died_while_it_was_down_leaves_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *holder;

	e2e_put_softpin(store, "old", 1 << 20, 1);
	holder = e2e_role_start(t, node, "holder", NULL);
	e2e_role_expect(holder, "holds");
	E2E_OK(cenote_remove(store, KEY("old")));
	e2e_node_kill(node);
	e2e_role_signal(holder, SIGKILL);
	e2e_node_restart(node);
	expect_log(node, "writer gone");
	E2E_EQ(cenote_exists(store, KEY("open")), 0);
	expect_base(store);
	cenote_close(store);
}

static void k10_07_many_objects_are_adopted(struct e2e *t)
{
	enum {
		COUNT = 100000,
		CHUNK = 1000
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "256M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_put_item items[CHUNK];
	static char keys[CHUNK][32];
	struct cenote_part part = {"0123456789abcdef", 16};
	struct cenote_view view;

	for (int i = 0; i < COUNT; i += CHUNK) {
		for (int j = 0; j < CHUNK; j++) {
			(void)snprintf(keys[j], sizeof(keys[j]), "%d", i + j);
			items[j] = (struct cenote_put_item){KEY(keys[j]), &part, 1, 0};
		}
		E2E_EQ(cenote_put_batch(store, items, CHUNK, NULL), 0);
	}
	e2e_node_kill(node);
	/* First gets are served before there is a daemon at all. */
	for (int i = 0; i < COUNT; i += 1111) {
		(void)snprintf(keys[0], sizeof(keys[0]), "%d", i);
		E2E_OK(cenote_get(store, KEY(keys[0]), NULL, &view));
		E2E_EQ(view.size, 16);
		E2E_OK(cenote_release(store, &view));
	}
	e2e_node_restart(node);
	expect_log(node, "adopted 100000 of 100000 objects, dropped 0");
	E2E_EQ(e2e_stat(store, "pool.objects"), COUNT);
	e2e_check(store);
	cenote_close(store);
}

/* ---- what is damaged ----------------------------------------------------- */

static void damage(const struct e2e_node *node, const char *file, off_t off, size_t size,
	uint64_t seed)
{
	char path[512];
	unsigned char bytes[4096];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", e2e_node_shm(node), file);
	e2e_fill(bytes, sizeof(bytes), seed);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	E2E_TRUE(fd >= 0);
	for (size_t done = 0; done < size; done += sizeof(bytes))
		E2E_TRUE(
			pwrite(fd, bytes,
				size - done < sizeof(bytes) ? size - done : sizeof(bytes),
				off + (off_t)done) > 0);
	close(fd);
}

/* Whatever the files say: it starts, and works. */
static void expect_start(struct e2e_node *node)
{
	struct cenote *store;

	e2e_node_restart(node);
	store = e2e_connect(node);
	(void)cenote_remove(store, KEY("after"));
	e2e_put(store, "after", 1 << 20, 5);
	e2e_verify(store, "after", 1 << 20, 5);
	e2e_check(store);
	cenote_close(store);
	e2e_node_kill(node);
}

static void k10_05_damaged_files_end_in_a_start(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	char path[512];

	put_some(store, 50);
	cenote_close(store);
	e2e_node_kill(node);
	for (uint64_t seed = 1; seed <= 20; seed++) { /* slots */
		damage(node, "index", (off_t)(65536 + seed * 1000), 700, seed);
		expect_start(node);
	}
	damage(node, "index", 4096, 16384, 1); /* the client table */
	expect_start(node);
	damage(node, "index", 0, 64, 1); /* the header */
	expect_start(node);
	(void)snprintf(path, sizeof(path), "%s/index", e2e_node_shm(node));
	E2E_EQ(truncate(path, 10), 0);
	expect_start(node);
	E2E_EQ(truncate(path, 0), 0);
	expect_start(node);
	(void)snprintf(path, sizeof(path), "%s/pool", e2e_node_shm(node));
	E2E_EQ(truncate(path, 4096), 0);
	expect_start(node);
}

/* A damaged object is dropped with a reason; the others are served. */
static void what_does_not_hold_is_dropped_with_a_reason(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);

	e2e_put_softpin(store, "first", 1000, 1);
	e2e_put_softpin(store, "second", 1000, 2);
	cenote_close(store);
	e2e_node_kill(node);
	damage(node, "index", 65536 + 32, 8, 1); /* the first slot's key */
	e2e_node_restart(node);
	expect_log(node, "adopted 1 of 2 objects, dropped 1");
	expect_log(node, "key damaged");
	store = e2e_connect(node);
	e2e_verify(store, "second", 1000, 2);
	e2e_check(store);
	cenote_close(store);
}

/* ---- what is left over --------------------------------------------------- */

/* Bytes of all files in the node's shm directory. */
static uint64_t shm_bytes(const struct e2e_node *node)
{
	DIR *dir = opendir(e2e_node_shm(node));
	uint64_t bytes = 0;
	struct dirent *entry;

	E2E_TRUE(dir != NULL);
	while ((entry = readdir(dir)) != NULL) {
		struct stat st;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
			S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	}
	closedir(dir);
	return bytes;
}

static void k9_03_leftovers_are_taken_up_or_replaced(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t bytes;

	put_some(store, 20);
	cenote_close(store);
	bytes = shm_bytes(node);
	for (int i = 0; i < 10; i++) {
		e2e_node_kill(node);
		e2e_node_restart(node);
		E2E_EQ(shm_bytes(node), bytes);
	}
	store = e2e_connect(node);
	verify_some(store, 20);
	cenote_close(store);
	e2e_node_stop(node);
}

static const struct e2e_case cases[] = {
	E2E_CASE(every_sealed_object_is_there),
	E2E_CASE(k2_07_views_and_hits_need_no_daemon),
	E2E_CASE(an_open_put_is_finished_after_the_restart),
	E2E_CASE(a_release_that_nobody_heard_is_seen),
	E2E_CASE(who_died_while_it_was_down_leaves_nothing),
	E2E_CASE(k10_07_many_objects_are_adopted),
	E2E_CASE(k10_05_damaged_files_end_in_a_start),
	E2E_CASE(what_does_not_hold_is_dropped_with_a_reason),
	E2E_CASE(k9_03_leftovers_are_taken_up_or_replaced),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(holder),
};

E2E_MAIN(cases, roles)
