/*
 * Tests of objects on their way between pool and disk: every call sees the same bytes
 * wherever they are, and what is removed or put again meanwhile is not mixed up.
 */
#include "e2e_disk.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define KIB       (1ull << 10)
#define MIB       (1ull << 20)

/* ---- K7-03: every call, wherever the bytes are --------------------------- */

#define ODD (MIB - 4095)

static void by_get(struct cenote *store, const char *key)
{
	e2e_verify(store, key, ODD, 7);
}

static void by_get_into(struct cenote *store, const char *key)
{
	static unsigned char buffer[ODD + 1];
	uint64_t size = 0;

	E2E_OK(cenote_get_into(store, KEY(key), buffer, sizeof(buffer), NULL, &size));
	E2E_EQ(size, ODD);
	E2E_BYTES(buffer, ODD, 7);
}

static void by_short_buffer(struct cenote *store, const char *key)
{
	unsigned char buffer[100];
	uint64_t size = 0;

	E2E_ERR(cenote_get_into(store, KEY(key), buffer, sizeof(buffer), NULL, &size),
		CENOTE_ERR_BUFFER_TOO_SMALL);
	E2E_EQ(size, 0);
	by_get(store, key);
}

static void by_batch(struct cenote *store, const char *key)
{
	struct cenote_get_item item = {.key = KEY(key)};

	E2E_EQ(cenote_get_batch(store, &item, 1, NULL), 0);
	E2E_EQ(item.view.size, ODD);
	E2E_BYTES(item.view.data, ODD, 7);
	E2E_OK(cenote_release(store, &item.view));
}

static void by_batch_into(struct cenote *store, const char *key)
{
	static unsigned char buffer[ODD];
	struct cenote_get_into_item item = {
		.key = KEY(key), .buffer = buffer, .buffer_size = sizeof(buffer)};

	E2E_EQ(cenote_get_into_batch(store, &item, 1, NULL), 0);
	E2E_EQ(item.size, ODD);
	E2E_BYTES(buffer, ODD, 7);
}

static void by_lease(struct cenote *store, const char *key)
{
	struct cenote_lease lease;

	E2E_OK(cenote_lease(store, KEY(key), 0, &lease));
	by_get(store, key);
	E2E_OK(cenote_lease_release(store, &lease));
}

static void by_stat(struct cenote *store, const char *key)
{
	struct cenote_stat stat;

	E2E_OK(cenote_stat(store, KEY(key), &stat));
	E2E_TRUE(stat.size == ODD && stat.softpin && stat.expires_in_ms == -1);
	E2E_TRUE(stat.in_pool || stat.on_disk);
	E2E_EQ(cenote_exists(store, KEY(key)), 1);
	E2E_OK(cenote_touch(store, KEY(key)));
	E2E_OK(cenote_wait(store, KEY(key), 1000));
	E2E_ERR(cenote_put(store, KEY(key), "x", 1, NULL), CENOTE_ERR_EXISTS);
	by_get(store, key);
}

static void by_take(struct cenote *store, const char *key)
{
	struct cenote_view view;

	E2E_OK(cenote_take(store, KEY(key), NULL, &view));
	E2E_EQ(view.size, ODD);
	E2E_BYTES(view.data, ODD, 7);
	E2E_OK(cenote_release(store, &view));
	E2E_EQ(cenote_exists(store, KEY(key)), 0);
	e2e_put_softpin(store, key, ODD, 7);
}

static const struct {
	const char *name;
	void (*read)(struct cenote *store, const char *key);
} reads[] = {
	{"get", by_get},
	{"get_into", by_get_into},
	{"get_into, too short", by_short_buffer},
	{"get_batch", by_batch},
	{"get_into_batch", by_batch_into},
	{"lease", by_lease},
	{"stat, exists, touch, wait, put", by_stat},
	{"take", by_take},
};

/* Make the object leave the pool: one that was read goes before those that were not. */
static void chill(struct cenote *store, const char *key)
{
	struct cenote_stat stat = {.in_pool = true};

	e2e_verify(store, key, ODD, 7);
	for (uint64_t i = 0;; i++) {
		struct e2e_number_key other;

		E2E_OK(cenote_stat(store, KEY(key), &stat));
		if (!stat.in_pool)
			return;
		E2E_TRUE(i < 400);
		(void)cenote_remove(store, KEY(e2e_number(&other, i % 64)->text));
		e2e_put_numbers(store, i % 64, 1, MIB);
		if (i % 2 == 0)
			e2e_verify_numbers(store, i % 64, 1, MIB);
	}
}

/* Another client, whose get stands with the bytes on their way. */
static void role_reader(struct e2e_self *self)
{
	/* A take may come between: then for the object that comes next. */
	const struct cenote_get_options options = {.wait = true};
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view view;

	e2e_self_await(self, "get");
	E2E_OK(cenote_get(store, KEY("k"), &options, &view));
	E2E_EQ(view.size, ODD);
	E2E_BYTES(view.data, ODD, 7);
	E2E_OK(cenote_release(store, &view));
	e2e_self_say(self, "got");
	cenote_close(store);
}

static struct e2e_role *in_memory(
	struct e2e *t, struct e2e_node *node, struct cenote *store)
{
	(void)t, (void)node;
	e2e_verify(store, "k", ODD, 7);
	return NULL;
}

static struct e2e_role *on_disk(
	struct e2e *t, struct e2e_node *node, struct cenote *store)
{
	(void)t, (void)node;
	chill(store, "k");
	return NULL;
}

/* False: it was written out before anybody could look. */
static bool leave_slowly(struct cenote *store)
{
	struct cenote_stat stat;

	e2e_remove_all(store);
	e2e_put_softpin(store, "k", ODD, 7);
	e2e_verify(store, "k", ODD, 7);
	e2e_disk_settle(store);
	E2E_OK(cenote_inject_fault_local_master(
		store, "NodeAfterDiskWrite", "sleep", 500, 1, 1));
	for (uint64_t i = 0; e2e_node_hits(store, "NodeAfterDiskWrite") == 0; i++) {
		E2E_TRUE(i < 64);
		(void)e2e_put_number(store, i, MIB, 50);
	}
	E2E_OK(cenote_stat(store, KEY("k"), &stat));
	E2E_TRUE(stat.in_pool || stat.on_disk);
	return stat.in_pool && !stat.on_disk;
}

/* It is being written out: the job stands for a while with the bytes written, and in no
 * index. */
static struct e2e_role *leaving(
	struct e2e *t, struct e2e_node *node, struct cenote *store)
{
	int tries = 0;

	(void)t, (void)node;
	while (!leave_slowly(store))
		E2E_TRUE(++tries < 20);
	return NULL;
}

/* It is being read back, for somebody else. */
static struct e2e_role *coming(struct e2e *t, struct e2e_node *node, struct cenote *store)
{
	struct e2e_role *reader = e2e_role_start(t, node, "reader", NULL);

	chill(store, "k");
	E2E_OK(cenote_inject_fault_local_master(
		store, "NodeBeforeDiskRead", "sleep", 300, 1, 1));
	e2e_role_tell(reader, "get");
	E2E_UNTIL(e2e_node_hits(store, "NodeBeforeDiskRead") == 1, E2E_DEADLINE_MS);
	return reader;
}

static const struct {
	const char *name;
	/* Who else reads it then; NULL: nobody. */
	struct e2e_role *(*bring)(
		struct e2e *t, struct e2e_node *node, struct cenote *store);
} places[] = {
	{"in memory", in_memory},
	{"only on disk", on_disk},
	{"being written out", leaving},
	{"being read back", coming},
};

static void k7_03_every_call_sees_the_same_bytes_everywhere(struct e2e *t)
{
	struct e2e_role *other;
	struct e2e_node *node;
	struct cenote *store;

	e2e_need_faults();
	node = e2e_disk_start(t, "32M", "256M");
	store = e2e_connect(node);
	e2e_put_softpin(store, "k", ODD, 7);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		for (size_t j = 0; j < ARRAY_LEN(reads); j++) {
			(void)printf("%s, %s\n", places[i].name, reads[j].name);
			other = places[i].bring(t, node, store);
			reads[j].read(store, "k");
			if (other == NULL)
				continue;
			e2e_role_expect(other, "got");
			e2e_role_end(other);
		}
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- K7-05, K7-07: one move, of one version ------------------------------ */

/* Read back again and again, an object is not written again: it is on disk already. */
static void k7_05_an_object_is_written_out_once(struct e2e *t)
{
	enum {
		COUNT = 64
	};
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);

	e2e_put_numbers(store, 0, COUNT, MIB);
	for (int round = 0; round < 5; round++)
		e2e_verify_numbers(store, 0, COUNT, MIB);
	e2e_disk_settle(store);
	E2E_TRUE(e2e_stat(store, "counters.saves") <= COUNT);
	E2E_TRUE(e2e_stat(store, "counters.loads") > 4 * COUNT / 2);
	E2E_EQ(e2e_stat(store, "disk.used"), e2e_stat(store, "disk.objects") * MIB);
	E2E_EQ(e2e_stat(store, "node.pins"), 0);
	e2e_check(store);
	cenote_close(store);
}

/* k of the first version is being moved while it is removed and put again. */
static void stall_and_replace(struct cenote *store, const char *point)
{
	struct e2e_number_key key;

	e2e_remove_all(store);
	e2e_disk_settle(store);
	e2e_put_softpin(store, "k", MIB, 1);
	e2e_verify(store, "k", MIB, 1);
	E2E_OK(cenote_inject_fault_local_master(store, point, "sleep", 500, 1, 1));
	for (uint64_t i = 0; e2e_node_hits(store, point) == 0; i++) {
		E2E_TRUE(i < 64);
		(void)e2e_put_number(store, i, MIB, 50);
	}
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_put_softpin(store, "k", MIB + 1, 2);
	e2e_verify(store, "k", MIB + 1, 2);
	for (uint64_t i = 0; i < 64; i++)
		(void)cenote_remove(store, KEY(e2e_number(&key, i)->text));
}

static void k7_07_the_new_version_wins_over_a_stalled_move(struct e2e *t)
{
	static const char *const points[] = {"NodeBeforeDiskWrite", "NodeAfterDiskWrite",
		"NodeBeforeDiskCommit", "NodeAfterDiskCommit"};
	struct e2e_node *node;
	struct cenote *store;

	e2e_need_faults();
	node = e2e_disk_start(t, "32M", "256M");
	store = e2e_connect(node);
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		struct cenote_stat stat = {.in_pool = true};

		(void)printf("stalled at %s\n", points[i]);
		stall_and_replace(store, points[i]);
		for (uint64_t j = 0; stat.in_pool; j++) {
			E2E_TRUE(j < 128);
			e2e_put_numbers(store, 100 + j, 1, MIB);
			E2E_OK(cenote_stat(store, KEY("k"), &stat));
		}
		e2e_verify(store, "k", MIB + 1, 2);
		e2e_node_kill(node);
		e2e_node_restart(node);
		e2e_verify(store, "k", MIB + 1, 2);
		e2e_check(store);
	}
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* ---- K7-09: the disk's limit --------------------------------------------- */

/* Cache objects that were read twice go to the disk, the oldest leave it: no put waits. */
static void k7_09_plain_objects_never_fill_the_disk(struct e2e *t)
{
	enum {
		COUNT = 400
	};
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);
	struct e2e_number_key key;

	for (uint64_t i = 0; i < COUNT; i++) {
		e2e_put(store, e2e_number(&key, i)->text, MIB, i);
		for (int reading = 0; reading < 3; reading++)
			e2e_verify(store, key.text, MIB, i);
		E2E_TRUE(e2e_stat(store, "disk.cache_bytes") <=
			 e2e_stat(store, "disk.size") / 2);
	}
	E2E_TRUE(e2e_disk_file_backed(t, "objects") + e2e_disk_file_backed(t, "index") <=
		 128 * MIB);
	/* Softpin takes all of their room: none of them is in its way. */
	e2e_put_numbers(store, 1000, 130, MIB);
	e2e_verify_numbers(store, 1000, 130, MIB);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K7-15: no staging ---------------------------------------------------- */

enum {
	THREADS = 64
};

struct crowd {
	struct cenote *store;
	pthread_barrier_t start;
	uint64_t size;
};

struct member {
	pthread_t thread;
	struct crowd *crowd;
	uint64_t number;
};

static void *member_run(void *arg)
{
	struct member *member = arg;
	struct crowd *crowd = member->crowd;

	(void)pthread_barrier_wait(&crowd->start);
	e2e_verify_numbers(crowd->store, member->number, 1, crowd->size);
	return NULL;
}

static void k7_15_large_reads_and_64_at_once(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "64M", "256M");
	struct crowd crowd = {.size = 300 * KIB + 123};
	struct member members[THREADS];
	struct cenote *store = e2e_connect(node);

	/* Of no whole number of blocks, and larger than any buffer there might be. */
	e2e_put_numbers(store, 500, 1, 25 * MIB + 77);
	e2e_verify_numbers(store, 500, 1, 25 * MIB + 77);
	e2e_put_numbers(store, 501, 4, 25 * MIB + 78);
	for (int round = 0; round < 2; round++) {
		e2e_verify_numbers(store, 500, 1, 25 * MIB + 77);
		e2e_verify_numbers(store, 501, 4, 25 * MIB + 78);
	}
	e2e_remove_all(store);

	e2e_put_numbers(store, 0, 400, crowd.size);
	crowd.store = store;
	E2E_EQ(pthread_barrier_init(&crowd.start, NULL, THREADS), 0);
	for (uint64_t i = 0, number = 0; i < THREADS; i++, number++) {
		number = e2e_number_on_disk(store, number, 400 - number);
		members[i] = (struct member){.crowd = &crowd, .number = number};
	}
	for (int i = 0; i < THREADS; i++)
		E2E_EQ(pthread_create(&members[i].thread, NULL, member_run, &members[i]),
			0);
	for (int i = 0; i < THREADS; i++)
		E2E_EQ(pthread_join(members[i].thread, NULL), 0);
	(void)pthread_barrier_destroy(&crowd.start);
	E2E_EQ(e2e_stat(store, "counters.load_errors"), 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K7-17: who a node is ------------------------------------------------- */

/* The same disk by another name, of a node with other paths: what is on it is its own. */
static void k7_17_another_address_is_the_same_disk(struct e2e *t)
{
	struct e2e_node *first = e2e_disk_start(t, "32M", "128M"), *second;
	struct cenote *store = e2e_connect(first);
	char alias[512];
	uint64_t there;

	e2e_put_numbers(store, 0, 64, MIB);
	e2e_disk_settle(store);
	there = e2e_stat(store, "disk.objects");
	cenote_close(store);
	e2e_node_stop(first);
	(void)snprintf(alias, sizeof(alias), "%s/alias", e2e_dir(t));
	E2E_EQ(symlink(e2e_disk_dir(t), alias), 0);
	second = e2e_node_start(t, "--pool", "64M", "--disk", alias, "--disk-size",
		"128M", "--disk-objects", "65536", NULL);
	store = e2e_connect(second);
	E2E_EQ(e2e_stat(store, "disk.adopted_at_start"), there);
	for (uint64_t i = 0; i < 64; i++) {
		struct e2e_number_key key;

		if (cenote_exists(store, KEY(e2e_number(&key, i)->text)) == 0)
			continue;
		e2e_verify_numbers(store, i, 1, MIB);
		there--;
	}
	E2E_EQ(there, 0);
	e2e_put_numbers(store, 100, 100, MIB / 2);
	e2e_verify_numbers(store, 100, 100, MIB / 2);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k7_03_every_call_sees_the_same_bytes_everywhere),
	E2E_CASE(k7_05_an_object_is_written_out_once),
	E2E_CASE(k7_07_the_new_version_wins_over_a_stalled_move),
	E2E_CASE(k7_09_plain_objects_never_fill_the_disk),
	E2E_CASE(k7_15_large_reads_and_64_at_once),
	E2E_CASE(k7_17_another_address_is_the_same_disk),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(reader),
};

E2E_MAIN(cases, roles)
