/*
 * Tests of a disk that was damaged by others, while the daemon runs or before its start: what
 * is not right any more is told and can be put again, all else is served, and nothing ever
 * reads as bytes that were not put.
 */
#include "e2e_disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define MIB       (1ull << 20)

/* ---- K7-01: bytes that are spoiled --------------------------------------- */

/* One byte of each block of the data file, behind its header. */
static void spoil_all(struct e2e *t)
{
	char path[512];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/objects", e2e_disk_dir(t));
	fd = open(path, O_RDWR | O_CLOEXEC);
	E2E_TRUE(fd >= 0);
	for (off_t at = 4096; at < (off_t)(96 * MIB); at += 4096) {
		unsigned char byte;

		E2E_EQ(pread(fd, &byte, 1, at + 77), 1);
		byte = (unsigned char)~byte;
		E2E_EQ(pwrite(fd, &byte, 1, at + 77), 1);
	}
	E2E_EQ(close(fd), 0);
}

static int find_key(void *arg, const struct cenote_list_entry *entry)
{
	return strcmp(entry->key, arg) == 0;
}

/* Never bytes, never an empty success; a put over it works. */
static void expect_spoiled(struct cenote *store, uint64_t number)
{
	static unsigned char buffer[MIB];
	struct e2e_number_key key;
	struct cenote_view view;
	uint64_t size;

	e2e_number(&key, number);
	E2E_ERR(cenote_get(store, KEY(key.text), NULL, &view), CENOTE_ERR_CORRUPT);
	E2E_DETAIL(key.text);
	E2E_ERR(cenote_get_into(
			store, KEY(key.text), buffer, sizeof(buffer), NULL, &size),
		CENOTE_ERR_CORRUPT);
	E2E_ERR(cenote_take(store, KEY(key.text), NULL, &view), CENOTE_ERR_CORRUPT);
	e2e_put_numbers(store, number, 1, MIB);
	e2e_verify_numbers(store, number, 1, MIB);
	(void)cenote_list(store, KEY(""), find_key, key.text);
	E2E_EQ(cenote_list(store, KEY(key.text), find_key, key.text), 1);
	E2E_OK(cenote_remove(store, KEY(key.text)));
	E2E_EQ(cenote_exists(store, KEY(key.text)), 0);
	E2E_EQ(cenote_list(store, KEY(key.text), find_key, key.text), 0);
}

static void k7_01_spoiled_bytes_are_told_and_put_again(struct e2e *t)
{
	enum {
		COUNT = 64
	};
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);
	struct e2e_number_key key;
	uint64_t spoiled = 0;
	bool on_disk[COUNT];

	e2e_put_numbers(store, 0, COUNT, MIB);
	e2e_disk_settle(store);
	for (uint64_t i = 0; i < COUNT; i++)
		on_disk[i] = !e2e_number_is_in_pool(store, i);
	spoil_all(t);
	for (uint64_t i = 0; i < COUNT; i++) {
		if (!on_disk[i])
			continue;
		if (spoiled++ < 5)
			expect_spoiled(store, i);
		else
			E2E_OK(cenote_remove(store, KEY(e2e_number(&key, i)->text)));
	}
	E2E_TRUE(spoiled > 20);
	E2E_TRUE(e2e_stat(store, "counters.corrupt") > 0);
	E2E_EQ(e2e_log_count(node, "disk_trouble"), 1); /* not one an object */
	e2e_check(store);
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* Cut while it is in use: what lay behind is told, what comes later is right. */
static void k7_01_a_file_that_is_cut_short_is_told(struct e2e *t)
{
	enum {
		COUNT = 64
	};
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);
	struct e2e_number_key key;
	struct cenote_view view;
	uint64_t lost = 0;
	char path[512];

	e2e_put_numbers(store, 0, COUNT, MIB);
	e2e_disk_settle(store);
	(void)snprintf(path, sizeof(path), "%s/objects", e2e_disk_dir(t));
	E2E_EQ(truncate(path, 8 * MIB), 0);
	for (uint64_t i = 0; i < COUNT; i++) {
		int err = cenote_get(store, KEY(e2e_number(&key, i)->text), NULL, &view);

		if (err == 0) {
			E2E_BYTES(view.data, view.size, i);
			E2E_OK(cenote_release(store, &view));
			continue;
		}
		E2E_TRUE(err == CENOTE_ERR_CORRUPT || err == CENOTE_ERR_IO);
		lost++;
		/* An error of the device may pass: its owner decides. */
		if (err == CENOTE_ERR_IO)
			E2E_OK(cenote_remove(store, KEY(key.text)));
		e2e_put_numbers(store, i, 1, MIB);
	}
	E2E_TRUE(lost > 16);
	e2e_verify_numbers(store, 0, COUNT, MIB);
	e2e_check(store);
	cenote_close(store);
}

/* The daemon has the file; only the next start finds it gone, and says so. */
static void k7_01_a_file_that_is_deleted_is_told_at_the_next_start(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);
	char path[512];

	e2e_put_numbers(store, 0, 64, MIB);
	e2e_disk_settle(store);
	(void)snprintf(path, sizeof(path), "%s/objects", e2e_disk_dir(t));
	E2E_EQ(unlink(path), 0);
	e2e_verify_numbers(store, 0, 64, MIB);
	cenote_close(store);
	e2e_node_kill(node);
	E2E_TRUE(!e2e_node_up(node));
	E2E_TRUE(e2e_node_wait(node) != 0);
	E2E_EQ(e2e_log_count(node, "objects is missing"), 1);
}

/* ---- K7-13: the disk is lost --------------------------------------------- */

/* What was in memory as well as on disk is not lost with the disk: it is written again before
 * it leaves. */
static void k7_13_a_lost_disk_costs_what_was_only_there(struct e2e *t)
{
	enum {
		COUNT = 64
	};
	struct e2e_node *node = e2e_disk_start(t, "32M", "128M");
	struct cenote *store = e2e_connect(node);
	struct e2e_number_key key;
	struct cenote_view view;
	bool in_pool[COUNT];
	char command[600];

	e2e_put_numbers(store, 0, COUNT, MIB);
	e2e_verify_numbers(store, 0, COUNT, MIB);
	e2e_disk_settle(store);
	for (uint64_t i = 0; i < COUNT; i++)
		in_pool[i] = e2e_number_is_in_pool(store, i);
	E2E_TRUE(e2e_stat(store, "pool.clean") + e2e_stat(store, "pool.lent") > 0);
	e2e_node_kill(node);
	(void)snprintf(command, sizeof(command), "rm -r %s", e2e_disk_dir(t));
	E2E_EQ(system(command), 0);
	e2e_node_restart(node);
	e2e_put_numbers(store, 1000, 40, MIB);
	for (uint64_t i = 0; i < COUNT; i++) {
		if (in_pool[i])
			e2e_verify_numbers(store, i, 1, MIB);
		else
			E2E_ERR(cenote_get(store, KEY(e2e_number(&key, i)->text), NULL,
					&view),
				CENOTE_ERR_NOT_FOUND);
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- K10-05: each file -------------------------------------------------------------- */

enum {
	DAMAGED_COUNT = 48
};

/* Whatever is there has the right bytes; how many are. */
static uint64_t right_or_an_error(struct cenote *store)
{
	struct e2e_number_key key;
	struct cenote_view view;
	uint64_t right = 0;

	for (uint64_t i = 0; i < DAMAGED_COUNT; i++) {
		int err = cenote_get(store, KEY(e2e_number(&key, i)->text), NULL, &view);

		if (err == 0) {
			E2E_BYTES(view.data, view.size, i);
			E2E_OK(cenote_release(store, &view));
			right++;
		} else if (err != CENOTE_ERR_NOT_FOUND && err != CENOTE_ERR_CORRUPT &&
			   err != CENOTE_ERR_IO) {
			e2e_fail(__FILE__, __LINE__, "get of %s: %s (%s)", key.text,
				cenote_error_name(err), cenote_error_detail());
		}
	}
	return right;
}

/* A command of the shell, which finds the directory as $disk and the file as $file. */
static void shell(const char *command)
{
	int status = system(command);

	if (status != 0)
		e2e_fail(__FILE__, __LINE__, "%s: %d", command, status);
}

#define KEEP_GOOD "cp -r --sparse=always $disk $disk.good"
#define BACK_GOOD "rm -r $disk && cp -r --sparse=always $disk.good $disk"

/* It works, or says what is wrong with which file and ends; never anything else. */
static void expect_start_or_words(
	struct e2e *t, struct e2e_node *node, const char *file, const char *how)
{
	struct cenote *store;
	uint64_t right;
	int status;

	if (!e2e_node_up(node)) {
		char *log = e2e_node_log(node), *last = log;

		for (char *at = log; (at = strstr(at, "start_refused")) != NULL; at++)
			last = at;
		last[strcspn(last, "\n")] = '\0';
		status = e2e_node_wait(node);
		E2E_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
		(void)printf("%s, %s: %s\n", file, how, last);
		if (strstr(last, e2e_disk_dir(t)) == NULL)
			e2e_fail(__FILE__, __LINE__, "no file is named");
		free(log);
		return;
	}
	store = e2e_connect(node);
	right = right_or_an_error(store);
	(void)printf("%s, %s: starts, %llu of %d readable\n", file, how,
		(unsigned long long)right, DAMAGED_COUNT);
	if (strcmp(file, "lock") == 0) /* in which is nothing to lose */
		E2E_EQ(right, DAMAGED_COUNT);
	e2e_put_numbers(store, 1000, 40, MIB);
	e2e_verify_numbers(store, 1000, 40, MIB);
	e2e_check(store);
	cenote_close(store);
	e2e_node_kill(node);
}

/* Each persistent file, in each way, with the pool gone too. */
static void damage_each(struct e2e *t, struct e2e_node *node, const char *file)
{
	static const struct {
		const char *how, *command;
	} ways[] = {
		{"truncated to nothing", "truncate -s 0 $disk/$file"},
		{"cut in the first page", "truncate -s 100 $disk/$file"},
		{"cut in half", "truncate -s $(($(stat -c %s $disk/$file) / 8192 * "
				"4096)) $disk/$file"},
		{"its first 16 pages zeroed",
			"dd if=/dev/zero of=$disk/$file bs=4096 count=16 conv=notrunc "
			"status=none"},
		{"its pages from the third on zeroed",
			"dd if=/dev/zero of=$disk/$file bs=4096 count=60 seek=2 "
			"conv=notrunc "
			"status=none"},
		{"bytes flipped in its head", "dd if=/dev/urandom of=$disk/$file bs=1 "
					      "count=20 seek=30 conv=notrunc "
					      "status=none"},
		{"bytes flipped in its body",
			"dd if=/dev/urandom of=$disk/$file bs=64 count=1024 seek=200 "
			"conv=notrunc status=none"},
		{"missing", "rm $disk/$file"},
	};

	E2E_EQ(setenv("file", file, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		shell(BACK_GOOD);
		shell(ways[i].command);
		e2e_lose_pool(node);
		expect_start_or_words(t, node, file, ways[i].how);
		/* The next needs a pool to lose. */
		shell(BACK_GOOD);
		e2e_node_restart(node);
		e2e_node_kill(node);
	}
}

static void k10_05_each_damaged_file_ends_in_a_start_or_in_words(struct e2e *t)
{
	struct e2e_node *node = e2e_disk_start(t, "16M", "128M");
	struct cenote *store = e2e_connect(node);

	/* Values in the index, and objects of the data file. */
	e2e_put_durable_numbers(store, 0, DAMAGED_COUNT / 2, 1000);
	e2e_put_durable_numbers(store, DAMAGED_COUNT / 2, DAMAGED_COUNT / 2, MIB + 5);
	cenote_close(store);
	e2e_node_kill(node);
	E2E_EQ(setenv("disk", e2e_disk_dir(t), 1), 0);
	shell(KEEP_GOOD);
	damage_each(t, node, "index");
	damage_each(t, node, "objects");
	damage_each(t, node, "lock");
}

static const struct e2e_case cases[] = {
	E2E_CASE(k7_01_spoiled_bytes_are_told_and_put_again),
	E2E_CASE(k7_01_a_file_that_is_cut_short_is_told),
	E2E_CASE(k7_01_a_file_that_is_deleted_is_told_at_the_next_start),
	E2E_CASE(k7_13_a_lost_disk_costs_what_was_only_there),
	E2E_CASE(k10_05_each_damaged_file_ends_in_a_start_or_in_words),
};

E2E_MAIN_ALONE(cases)
