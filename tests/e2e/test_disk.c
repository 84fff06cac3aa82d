/*
 * Tests of the disk tier's files: what a start adopts, refuses and leaves alone, how few
 * writes they are made by, what is left of them after deaths and after removing all, and
 * what happens when writing fails.
 */
#include "e2e_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define KIB       (1ull << 10)
#define MIB       (1ull << 20)
#define ERR_IO    (-1103)

static const char *path_of(const struct e2e *t, const char *name)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", e2e_disk_dir(t), name);
	return path;
}

/* ---- restarts ------------------------------------------------------------ */

/* Every object is somewhere exactly once: what is only on disk, and what is in the pool. */
static void expect_accounts(struct cenote *store, uint64_t count, uint64_t size)
{
	e2e_disk_settle(store);
	E2E_EQ(e2e_stat(store, "disk.objects_only") + e2e_stat(store, "pool.objects"),
		count);
	E2E_EQ(e2e_stat(store, "disk.bytes"), e2e_stat(store, "disk.objects") * size);
	E2E_EQ(e2e_stat(store, "disk.used"), e2e_stat(store, "disk.bytes"));
	E2E_EQ(e2e_stat(store, "disk.refused_at_start"), 0);
	e2e_check(store);
}

static void second_daemon_is_refused(struct e2e *t)
{
	struct e2e_node *second = e2e_node_new(t, "--pool", "16M", "--disk",
		e2e_disk_dir(t), "--disk-size", "256M", NULL);

	E2E_TRUE(!e2e_node_up(second));
	E2E_TRUE(e2e_node_wait(second) != 0);
	E2E_EQ(e2e_log_count(second, "another cenoted"), 1);
}

static void k8_03_files_are_adopted_and_foreign_ones_left_alone(struct e2e *t)
{
	const uint64_t count = e2e_is_full() ? 520 : 120;
	struct e2e_node *node = e2e_disk_start(t, "32M", e2e_is_full() ? "1G" : "256M");
	struct cenote *store = e2e_connect(node);
	struct stat before, after;
	uint64_t backed;
	int fd;

	fd = open(path_of(t, "precious.txt"), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
	E2E_EQ(write(fd, "not yours", 9), 9);
	E2E_EQ(close(fd), 0);
	E2E_EQ(stat(path_of(t, "precious.txt"), &before), 0);
	e2e_put_numbers(store, 0, count, MIB);
	e2e_disk_settle(store);
	backed = e2e_disk_file_backed(t, "objects");
	E2E_TRUE(backed > (count - 40) * MIB);
	for (int i = 0; i < 20; i++) {
		e2e_node_kill(node);
		e2e_node_restart(node);
		if (i % 5 == 0)
			second_daemon_is_refused(t);
		expect_accounts(store, count, MIB);
	}
	e2e_verify_numbers(store, 0, count, MIB);
	E2E_TRUE(e2e_disk_file_backed(t, "objects") <= backed + 32 * MIB);
	E2E_EQ(stat(path_of(t, "precious.txt"), &after), 0);
	E2E_TRUE(after.st_ino == before.st_ino && after.st_size == 9 &&
		 after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
		 after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

static void k10_01_what_is_on_disk_outlives_every_kind_of_stop(struct e2e *t)
{
	enum {
		COUNT = 200,
		SIZE = 200 * 1024
	};
	struct e2e_node *node = e2e_disk_start(t, "16M", "128M");
	struct cenote *store = e2e_connect(node);

	e2e_put_durable_numbers(store, 0, COUNT, SIZE);
	E2E_EQ(e2e_stat(store, "disk.objects"), COUNT);
	e2e_node_stop(node);
	e2e_node_restart(node);
	expect_accounts(store, COUNT, SIZE);
	e2e_verify_numbers(store, 0, COUNT, SIZE);
	e2e_node_kill(node);
	e2e_node_restart(node);
	expect_accounts(store, COUNT, SIZE);
	e2e_verify_numbers(store, 0, COUNT, SIZE);
	cenote_close(store);

	/* Twice, since the first start after it might have spoiled what the second needs. */
	for (int i = 0; i < 2; i++) {
		e2e_node_kill(node);
		e2e_lose_pool(node);
		e2e_node_restart(node);
		store = e2e_connect(node);
		E2E_EQ(e2e_stat(store, "disk.adopted_at_start"), COUNT);
		E2E_EQ(e2e_stat(store, "disk.objects_only"), COUNT);
		expect_accounts(store, COUNT, SIZE);
		e2e_verify_numbers(store, 0, COUNT, SIZE);
		cenote_close(store);
	}
}

/* Longer than the second after which what failed is tried again, the disk does nothing. */
static void expect_idle(struct cenote *store)
{
	uint64_t jobs, until;

	e2e_disk_settle(store);
	jobs = e2e_stat(store, "counters.jobs");
	for (int i = 0; i < 200; i++) /* turns of its loop */
		(void)e2e_stat(store, "counters.jobs");
	until = e2e_now_ms() + 1500;
	E2E_UNTIL(e2e_now_ms() > until, 10000);
	E2E_EQ(e2e_stat(store, "counters.jobs"), jobs);
}

/* Small values lie in the index. Adopting them is one walk, before clients may attach. */
static void k10_07_many_objects_on_disk_are_adopted(struct e2e *t)
{
	enum {
		COUNT = 40000,
		CHUNK = 500,
		SIZE = 1000
	};
	struct e2e_node *node = e2e_disk_start(t, "16M", "512M");
	struct cenote *store = e2e_connect(node);
	const struct cenote_put_options softpin = {
		.softpin = true, .timeout_ms = E2E_DEADLINE_MS};
	static struct cenote_put_item items[CHUNK];
	static struct e2e_number_key keys[CHUNK];
	static struct cenote_part parts[CHUNK];
	static unsigned char data[CHUNK][SIZE];
	uint64_t start, took;

	for (uint64_t i = 0; i < COUNT; i += CHUNK) {
		for (uint64_t j = 0; j < CHUNK; j++) {
			e2e_fill(data[j], SIZE, i + j);
			parts[j] = (struct cenote_part){data[j], SIZE};
			items[j] = (struct cenote_put_item){
				KEY(e2e_number(&keys[j], i + j)->text), &parts[j], 1, 0};
		}
		E2E_EQ(cenote_put_batch(store, items, CHUNK, &softpin), 0);
	}
	e2e_disk_settle(store);
	E2E_TRUE(e2e_stat(store, "disk.objects_only") > 20000);
	e2e_node_kill(node);
	start = e2e_now_ms();
	e2e_node_restart(node);
	took = e2e_now_ms() - start;
	(void)printf("%llu objects on disk, ready after %llu ms\n",
		(unsigned long long)e2e_stat(store, "disk.objects"),
		(unsigned long long)took);
	E2E_EQ(e2e_stat(store, "disk.objects_only") + e2e_stat(store, "pool.objects"),
		COUNT);
	for (uint64_t i = 0; i < COUNT; i += 97)
		e2e_verify_numbers(store, i, 1, SIZE);
	expect_idle(store); /* a large index is not mistaken for space to give back */
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	expect_idle(store);
	cenote_close(store);
}

/* ---- writes -------------------------------------------------------------- */

/* Of a size that does not lie in the index. */
static void k8_05_small_objects_are_written_together(struct e2e *t)
{
	enum {
		COUNT = 1200
	};
	struct e2e_node *node = e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	uint64_t writes, bytes;

	e2e_put_numbers(store, 0, COUNT, 256 * KIB);
	e2e_disk_settle(store);
	writes = e2e_stat(store, "counters.writes");
	bytes = e2e_stat(store, "counters.saved_bytes");
	(void)printf("%llu MiB by %llu writes of %llu KiB in the mean\n",
		(unsigned long long)(bytes / MIB), (unsigned long long)writes,
		(unsigned long long)(bytes / writes / KIB));
	E2E_TRUE(bytes >= (COUNT / 4 - 64) * MIB);
	E2E_TRUE(bytes / writes >= 4 * MIB);
	cenote_close(store);
}

static bool stats_say(struct cenote *store, const char *words)
{
	char *text = NULL;
	bool said;

	E2E_OK(cenote_info(store, CENOTE_INFO_STATS, &text));
	said = strstr(text, words) != NULL;
	cenote_free(text);
	return said;
}

/* The thread that writes fails at each write, then no more. */
static void k8_09_writing_that_fails_is_told_and_recovers(struct e2e *t)
{
	struct e2e_node *node;
	struct cenote *store;
	uint64_t stored = 0, start;
	int err;

	e2e_need_faults();
	node = e2e_disk_start(t, "32M", "256M");
	store = e2e_connect(node);
	E2E_OK(cenote_inject_fault_local_master(
		store, "NodeBeforeDiskWrite", "return_error", ERR_IO, 1, -1));
	while ((err = e2e_put_number(store, stored, MIB, 1500)) == 0)
		stored++;
	E2E_ERR(err, CENOTE_ERR_NO_SPACE);
	E2E_DETAIL("input or output failed");
	E2E_TRUE(stored >= 28);
	E2E_TRUE(stats_say(store, "\"error\":\"IO\""));
	e2e_verify_numbers(store, 0, stored, MIB);
	E2E_UNTIL(e2e_stat(store, "counters.save_errors") >= 3, E2E_DEADLINE_MS);
	/* K7-11: tried each second, told once a minute. */
	E2E_EQ(e2e_log_count(node, "disk_trouble"), 1);

	E2E_OK(cenote_inject_fault_local_master(
		store, "NodeBeforeDiskWrite", "reset", 0, 0, 0));
	start = e2e_now_ms();
	e2e_put_numbers(store, stored, 1, MIB);
	E2E_TRUE(e2e_now_ms() - start <= 5 * e2e_second_ms());
	E2E_TRUE(stats_say(store, "\"error\":\"\""));
	E2E_EQ(e2e_log_count(node, "disk_well"), 1);
	e2e_put_numbers(store, stored + 1, 64, MIB);
	e2e_verify_numbers(store, 0, stored + 65, MIB);
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* Without work and without trouble nothing is said, and nothing is done. */
static void k7_11_an_idle_disk_is_silent(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "128M");
	struct cenote *store = e2e_connect(node);
	uint64_t lines;

	e2e_put_numbers(store, 0, 40, MIB);
	e2e_verify_numbers(store, 0, 40, MIB);
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	lines = e2e_log_count(node, "\n");
	expect_idle(store);
	E2E_EQ(e2e_log_count(node, "\n"), lines);
	E2E_EQ(e2e_log_count(node, "level=warning"), 0);
	cenote_close(store);
}

/* ---- deaths -------------------------------------------------------------- */

/* Puts without end: each makes something else leave the pool. */
static void role_evicter(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	uint64_t number = e2e_self_number(self, 0);

	for (uint64_t i = 0;; i++) {
		int err = e2e_put_number(
			store, number + i, 100 * KIB + i % 7 * 33333, E2E_DEADLINE_MS);

		if (err != CENOTE_ERR_NO_SPACE)
			E2E_OK(err);
		if (i % 16 == 15)
			e2e_self_say(self, "on");
	}
}

/* Client or daemon die in the middle of some thousand evictions; then all is removed. */
static void k8_07_deaths_while_evicting_leave_no_files(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "256M");
	struct cenote *store = e2e_connect(node);
	char first[32];

	for (uint64_t round = 0; round < 10; round++) {
		struct e2e_role *evicter;
		uint64_t words = 4 + round * 7919 % 13;

		(void)snprintf(first, sizeof(first), "%llu",
			(unsigned long long)(round * 1000000));
		evicter = e2e_role_start(t, node, "evicter", first, NULL);
		while (words-- > 0)
			e2e_role_expect(evicter, "on");
		if (round % 3 != 0)
			e2e_node_kill(node);
		e2e_role_signal(evicter, SIGKILL);
		if (round % 3 != 0)
			e2e_node_restart(node);
		e2e_check(store);
		if (round % 2 == 1) {
			e2e_remove_all(store);
			e2e_expect_disk_base(t, store);
		}
	}
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k8_03_files_are_adopted_and_foreign_ones_left_alone),
	E2E_CASE(k10_01_what_is_on_disk_outlives_every_kind_of_stop),
	E2E_CASE(k10_07_many_objects_on_disk_are_adopted),
	E2E_CASE(k8_05_small_objects_are_written_together),
	E2E_CASE(k8_09_writing_that_fails_is_told_and_recovers),
	E2E_CASE(k7_11_an_idle_disk_is_silent),
	E2E_CASE(k8_07_deaths_while_evicting_leave_no_files),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(evicter),
};

E2E_MAIN(cases, roles)
