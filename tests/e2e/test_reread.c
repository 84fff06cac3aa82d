/*
 * Tests of reads from the disk while what they read ends, moves, or is spoiled: the bytes
 * that were put, or an error.
 */
#include "e2e_disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define KEY_SIZE  32
#define MIB       ((uint64_t)1 << 20)
#define KIB       ((uint64_t)1 << 10)

static struct cenote_key name(char *text, const char *what, uint64_t i)
{
	(void)snprintf(text, KEY_SIZE, "%s %llu", what, (unsigned long long)i);
	return KEY(text);
}

static void node_sleeps_at(struct cenote *store, const char *point, int64_t ms)
{
	E2E_OK(cenote_inject_fault_local_master(store, point, "sleep", ms, 0, -1));
}

static void node_wakes_at(struct cenote *store, const char *point)
{
	E2E_OK(cenote_inject_fault_local_master(store, point, "reset", 0, 0, 0));
}

/* ---- a slow read, and the place it reads from ---------------------------- */

#define SLOW_SIZE (4 * MIB)

static void role_slow(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	unsigned char *copy = malloc(SLOW_SIZE);

	E2E_TRUE(copy != NULL);
	e2e_self_say(self, "there");
	while (strcmp(e2e_self_hear(self), "get") == 0) {
		uint64_t size = 0;
		int err;

		memset(copy, 0xa5, SLOW_SIZE);
		err = cenote_get_into(store, KEY("k"), copy, SLOW_SIZE, NULL, &size);
		if (err == 0) {
			E2E_EQ(size, SLOW_SIZE);
			E2E_BYTES(copy, SLOW_SIZE, 7);
		} else {
			E2E_ERR(err, CENOTE_ERR_NOT_FOUND);
		}
		e2e_self_say(self, err == 0 ? "bytes" : "none");
	}
	free(copy);
	cenote_close(store);
}

struct slow_world {
	struct e2e *t;
	struct cenote *store;
	struct e2e_role *reader;
	const char *point;
};

/* So many others that the disk has to give them the place of what is removed. */
static void reuse_the_place(struct cenote *store, const char *what)
{
	const struct cenote_put_options options = {.softpin = true, .timeout_ms = 500};
	unsigned char *data = malloc(SLOW_SIZE);
	char key[KEY_SIZE];
	int err = 0;

	E2E_TRUE(data != NULL);
	for (uint64_t i = 0; err == 0; i++) {
		E2E_TRUE(i < 64);
		e2e_fill(data, SLOW_SIZE, 100 + i);
		err = cenote_put(store, name(key, what, i), data, SLOW_SIZE, &options);
	}
	E2E_ERR(err, CENOTE_ERR_NO_SPACE);
	free(data);
}

static uint64_t remove_others(struct cenote *store, const char *what, bool verify)
{
	char key[KEY_SIZE];
	uint64_t i = 0;

	for (; cenote_exists(store, name(key, what, i)) == 1; i++) {
		if (verify)
			e2e_verify(store, key, SLOW_SIZE, 100 + i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	return i;
}

/* `k`, which is on disk, is removed while it is being read, and what comes then wants its
 * place. */
static void slow_read_of_what_is_removed(const struct slow_world *world)
{
	struct cenote *store = world->store;
	uint64_t hits;

	e2e_disk_settle(store);
	node_sleeps_at(store, world->point, 1500);
	hits = e2e_node_hits(store, world->point);
	e2e_role_tell(world->reader, "get");
	E2E_UNTIL(e2e_node_hits(store, world->point) > hits, E2E_DEADLINE_MS);
	E2E_OK(cenote_remove(store, KEY("k")));
	reuse_the_place(store, "other");
	(void)e2e_role_hear(world->reader);
	node_wakes_at(store, world->point);
	/* As many as there was room for, each as it was put. */
	E2E_TRUE(remove_others(store, "other", true) > 0);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	e2e_disk_settle(store);
}

static void k2_slow_reads(struct e2e *t, const char *point, int rounds)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "64M");
	struct slow_world world = {.t = t, .store = e2e_connect(node), .point = point};

	world.reader = e2e_role_start(t, node, "slow", NULL);
	e2e_role_expect(world.reader, "there");
	for (int round = 0; round < rounds; round++) {
		e2e_put_softpin(world.store, "k", SLOW_SIZE, 7);
		e2e_push_out(world.store, "k");
		slow_read_of_what_is_removed(&world);
	}
	e2e_role_tell(world.reader, "end");
	e2e_role_end(world.reader);
	e2e_expect_disk_base(t, world.store);
	cenote_close(world.store);
}

static void k2_03_a_read_that_waits_for_the_disk_is_of_its_object(struct e2e *t)
{
	e2e_need_faults();
	k2_slow_reads(t, "NodeBeforeDiskRead", 3);
}

static void k2_03_a_read_that_has_its_bytes_is_of_its_object(struct e2e *t)
{
	e2e_need_faults();
	k2_slow_reads(t, "NodeAfterDiskRead", 3);
}

/* The lease that a reader took is over long before its slow read ends. */
static void k2_01_a_read_longer_than_its_lease_is_whole(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "16M", "--disk",
		e2e_disk_dir(t), "--disk-size", "64M", "--lease-min", "100ms", NULL);
	struct slow_world world = {
		.t = t, .store = e2e_connect(node), .point = "NodeAfterDiskRead"};
	struct cenote_lease lease;

	e2e_need_faults();
	world.reader = e2e_role_start(t, node, "slow", NULL);
	e2e_role_expect(world.reader, "there");
	for (int round = 0; round < 3; round++) {
		e2e_put_softpin(world.store, "k", SLOW_SIZE, 7);
		E2E_OK(cenote_lease(world.store, KEY("k"), 100, &lease));
		E2E_EQ(lease.length_ms, 100);
		/* It keeps the object in the pool until it is over, and no longer. */
		e2e_push_out(world.store, "k");
		slow_read_of_what_is_removed(&world);
	}
	e2e_role_tell(world.reader, "end");
	e2e_role_end(world.reader);
	cenote_close(world.store);
}

/* ---- objects that were written together ---------------------------------- */

#define GROUP 24

static uint64_t group_size(uint64_t i, uint64_t version)
{
	return 3 * KIB + (i * 37 + version * 11) % 90 * KIB;
}

/* Some at random leave, come back, are removed and put again with another size, and leave
 * again, alone; all are right at any time. */
static void k2_09_what_was_written_together_is_read_apart(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "256M");
	struct cenote *store = e2e_connect(node);
	uint64_t versions[GROUP] = {0}, random = 12345;
	char key[KEY_SIZE];

	for (uint64_t i = 0; i < GROUP; i++) {
		(void)name(key, "g", i);
		e2e_put_softpin(store, key, group_size(i, 0), i);
	}
	for (int round = 0; round < 12; round++) {
		e2e_push_out(store, "g 0");
		for (uint64_t i = 0; i < GROUP; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			(void)name(key, "g", i);
			if (random >> 62 == 0)
				continue; /* it stays on disk */
			e2e_verify(store, key, group_size(i, versions[i]),
				versions[i] * 1000 + i);
			if (random >> 62 == 1)
				continue;
			E2E_OK(cenote_remove(store, KEY(key)));
			versions[i]++;
			e2e_put_softpin(store, key, group_size(i, versions[i]),
				versions[i] * 1000 + i);
		}
	}
	for (uint64_t i = 0; i < GROUP; i++) {
		(void)name(key, "g", i);
		e2e_verify(
			store, key, group_size(i, versions[i]), versions[i] * 1000 + i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* Where the object's bytes begin in the data file. */
static uint64_t place_of(const struct e2e *t, uint64_t seed)
{
	unsigned char first[64], block[4096];
	char path[512];
	uint64_t off = 0;
	int fd;

	e2e_fill(first, sizeof(first), seed);
	(void)snprintf(path, sizeof(path), "%s/objects", e2e_disk_dir(t));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	E2E_TRUE(fd >= 0);
	while (pread(fd, block, sizeof(block), (off_t)off) == sizeof(block) &&
		memcmp(block, first, sizeof(first)) != 0)
		off += sizeof(block);
	E2E_TRUE(memcmp(block, first, sizeof(first)) == 0);
	(void)close(fd);
	return off;
}

static void k2_09_spoiled_bytes_are_an_error_of_their_key_alone(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "256M");
	struct cenote *store = e2e_connect(node);
	unsigned char copy[64 * KIB];
	struct cenote_view view;
	uint64_t size;
	char key[KEY_SIZE];

	for (uint64_t i = 0; i < GROUP; i++) {
		(void)name(key, "g", i);
		e2e_put_softpin(store, key, 64 * KIB, i);
	}
	for (uint64_t i = 0; i < GROUP; i++) {
		(void)name(key, "g", i);
		e2e_push_out(store, key);
	}
	e2e_disk_settle(store);
	e2e_disk_damage(t, "objects", place_of(t, 5) + 10 * KIB, 64, 999);
	E2E_ERR(cenote_get(store, KEY("g 5"), NULL, &view), CENOTE_ERR_CORRUPT);
	E2E_ERR(cenote_get_into(store, KEY("g 5"), copy, sizeof(copy), NULL, &size),
		CENOTE_ERR_CORRUPT);
	for (uint64_t i = 0; i < GROUP; i++) {
		(void)name(key, "g", i);
		if (i != 5)
			e2e_verify(store, key, 64 * KIB, i);
	}
	E2E_OK(cenote_remove(store, KEY("g 5")));
	e2e_put_softpin(store, "g 5", 64 * KIB, 5);
	e2e_verify(store, "g 5", 64 * KIB, 5);
	e2e_check(store);
	cenote_close(store);
}

/* ---- read what was put --------------------------------------------------- */

static void role_at_once(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	const char *word;

	e2e_self_say(self, "there");
	while (strcmp(word = e2e_self_hear(self), "end") != 0) {
		unsigned long long number = 0, size = 0;
		struct e2e_number_key key;

		E2E_EQ(sscanf(word, "%llu %llu", &number, &size), 2);
		e2e_verify(store, e2e_number(&key, number)->text, size, number);
		e2e_self_say(self, "right");
	}
	cenote_close(store);
}

/* Also of what moved in between; the pool is a twentieth of what is put. */
static void k2_11_a_get_after_a_put_sees_it_whole(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "32M", "512M");
	struct cenote *store = e2e_connect(node);
	struct e2e_role *reader = e2e_role_start(t, node, "at_once", NULL);
	uint64_t rounds = e2e_is_slow() ? 600 : 4000, random = 99, kept = 64;
	struct e2e_number_key key;
	uint64_t sizes[64] = {0};
	char text[64];

	e2e_role_expect(reader, "there");
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t *size = &sizes[i % kept], old = i - kept / 2;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		if (i >= kept)
			E2E_OK(cenote_remove(
				store, KEY(e2e_number(&key, i - kept)->text)));
		/* 1 B to 8 MiB, most of them small. */
		*size = 1 + (random >> 33) % ((uint64_t)1 << (1 + (random >> 40) % 23));
		e2e_put_numbers(store, i, 1, *size);
		(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)i,
			(unsigned long long)*size);
		e2e_role_tell(reader, text);
		e2e_role_expect(reader, "right");
		if (i >= kept / 2)
			e2e_verify(store, e2e_number(&key, old)->text, sizes[old % kept],
				old);
	}
	E2E_TRUE(e2e_stat(store, "counters.loads") > 0);
	e2e_role_tell(reader, "end");
	e2e_role_end(reader);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k2_01_a_read_longer_than_its_lease_is_whole),
	E2E_CASE(k2_03_a_read_that_waits_for_the_disk_is_of_its_object),
	E2E_CASE(k2_03_a_read_that_has_its_bytes_is_of_its_object),
	E2E_CASE(k2_09_what_was_written_together_is_read_apart),
	E2E_CASE(k2_09_spoiled_bytes_are_an_error_of_their_key_alone),
	E2E_CASE(k2_11_a_get_after_a_put_sees_it_whole),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(slow),
	E2E_ROLE(at_once),
};

E2E_MAIN(cases, roles)
