/*
 * e2e_disk.c - a node with a disk, and its directory.
 */
#include "e2e_disk.h"

#include "e2e_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With less on the file system nothing is given back to it. */
#define KEPT_BYTES ((8ull << 20) + 4096)
#define BATCH      512
#define PUSH_LEAST (64ull << 10)
#define PUSH_MOST  2048

const char *e2e_disk_dir(const struct e2e *t)
{
	static char path[E2E_PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s/disk", e2e_dir(t));
	return path;
}

struct e2e_node *e2e_disk_start(struct e2e *t, const char *pool, const char *disk_size)
{
	return e2e_node_start(t, "--pool", pool, "--disk", e2e_disk_dir(t), "--disk-size",
		disk_size, "--disk-objects", "65536", NULL);
}

/* ---- numbered objects ---------------------------------------------------- */

const struct e2e_number_key *e2e_number(struct e2e_number_key *key, uint64_t number)
{
	(void)snprintf(
		key->text, sizeof(key->text), "o/%llu", (unsigned long long)number);
	return key;
}

int e2e_put_number(
	struct cenote *store, uint64_t number, uint64_t size, int64_t timeout_ms)
{
	const struct cenote_put_options options = {
		.softpin = true, .timeout_ms = timeout_ms};
	struct e2e_number_key key;
	void *data = malloc(size + 1);
	int err;

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, number);
	err = cenote_put(
		store, cenote_key(e2e_number(&key, number)->text), data, size, &options);
	free(data);
	return err;
}

void e2e_put_numbers(struct cenote *store, uint64_t first, uint64_t count, uint64_t size)
{
	for (uint64_t i = first; i < first + count; i++) {
		int err = e2e_put_number(store, i, size, E2E_DEADLINE_MS);

		if (err != 0)
			e2e_fail(__FILE__, __LINE__, "put of %llu: %s (%s)",
				(unsigned long long)i, cenote_error_name(err),
				cenote_error_detail());
	}
}

void e2e_verify_numbers(
	struct cenote *store, uint64_t first, uint64_t count, uint64_t size)
{
	struct e2e_number_key key;

	for (uint64_t i = first; i < first + count; i++)
		e2e_verify(store, e2e_number(&key, i)->text, size, i);
}

void e2e_put_durable_numbers(
	struct cenote *store, uint64_t first, uint64_t count, uint64_t size)
{
	const struct cenote_put_options durable = {.softpin = true, .durable = true};
	struct e2e_number_key key;
	void *data = malloc(size);

	E2E_TRUE(data != NULL);
	for (uint64_t i = first; i < first + count; i++) {
		e2e_fill(data, size, i);
		E2E_OK(cenote_put(store, cenote_key(e2e_number(&key, i)->text), data,
			size, &durable));
	}
	free(data);
}

bool e2e_number_is_in_pool(struct cenote *store, uint64_t number)
{
	struct e2e_number_key key;
	struct cenote_stat stat;

	E2E_OK(cenote_stat(store, cenote_key(e2e_number(&key, number)->text), &stat));
	return stat.in_pool;
}

uint64_t e2e_number_on_disk(struct cenote *store, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		if (!e2e_number_is_in_pool(store, i))
			return i;
	}
	e2e_fail(__FILE__, __LINE__, "none of %llu objects has left the pool",
		(unsigned long long)count);
}

static bool is_in_pool(struct cenote *store, const char *key)
{
	struct cenote_stat stat;

	E2E_OK(cenote_stat(store, cenote_key(key), &stat));
	return stat.in_pool;
}

void e2e_push_out(struct cenote *store, const char *key)
{
	struct cenote_view view;
	char other[32];
	uint64_t count = 0, size;

	E2E_OK(cenote_get(store, cenote_key(key), NULL, &view));
	size = MAX(view.size, PUSH_LEAST);
	E2E_OK(cenote_release(store, &view));
	for (; is_in_pool(store, key); count++) {
		E2E_TRUE(count < PUSH_MOST);
		(void)snprintf(
			other, sizeof(other), "push/%llu", (unsigned long long)count);
		e2e_put_softpin(store, other, size, count);
	}
	while (count > 0) {
		(void)snprintf(
			other, sizeof(other), "push/%llu", (unsigned long long)--count);
		E2E_OK(cenote_remove(store, cenote_key(other)));
	}
}

/* ---- the end of all ------------------------------------------------------ */

void e2e_disk_settle(struct cenote *store)
{
	E2E_UNTIL(e2e_stat(store, "disk.jobs_under_way") == 0 &&
			  e2e_stat(store, "disk.changes") == 0,
		E2E_DEADLINE_MS);
}

struct doomed {
	char keys[BATCH][CENOTE_KEY_LIMIT + 1];
	struct cenote_key_item items[BATCH];
	size_t count;
};

static int doom(void *arg, const struct cenote_list_entry *entry)
{
	struct doomed *doomed = arg;
	char *key = doomed->keys[doomed->count];

	memcpy(key, entry->key, entry->key_size + 1);
	doomed->items[doomed->count++].key = cenote_key(key);
	return doomed->count == BATCH;
}

void e2e_remove_all(struct cenote *store)
{
	struct doomed *doomed = calloc(1, sizeof(*doomed));

	E2E_TRUE(doomed != NULL);
	do {
		doomed->count = 0;
		E2E_TRUE(cenote_list(store, cenote_key(""), doom, doomed) >= 0);
		(void)cenote_remove_batch(store, doomed->items, doomed->count);
		for (size_t i = 0; i < doomed->count; i++) {
			int err = doomed->items[i].result;

			/* Listed twice while it moved. */
			if (err != CENOTE_ERR_NOT_FOUND)
				E2E_OK(err);
		}
	} while (doomed->count > 0);
	free(doomed);
}

void e2e_expect_disk_base(const struct e2e *t, struct cenote *store)
{
	e2e_expect_in_use(store, 0);
	E2E_UNTIL(e2e_stat(store, "disk.used") == 0, E2E_DEADLINE_MS);
	E2E_EQ(e2e_stat(store, "disk.objects"), 0);
	E2E_EQ(e2e_stat(store, "disk.bytes"), 0);
	E2E_UNTIL(e2e_disk_file_backed(t, "objects") <= KEPT_BYTES, 10 * e2e_second_ms());
	e2e_check(store);
}

/* ---- the directory ------------------------------------------------------- */

static const char *file_path(const struct e2e *t, const char *name)
{
	static char path[E2E_PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", e2e_disk_dir(t), name);
	return path;
}

uint64_t e2e_disk_file_backed(const struct e2e *t, const char *name)
{
	struct stat file;

	return stat(file_path(t, name), &file) == 0 ? (uint64_t)file.st_blocks * 512 : 0;
}

void e2e_disk_damage(
	const struct e2e *t, const char *name, uint64_t off, uint64_t size, uint64_t seed)
{
	int fd = open(file_path(t, name), O_WRONLY | O_CLOEXEC);
	void *bytes = malloc(size);

	E2E_TRUE(fd >= 0 && bytes != NULL);
	e2e_fill(bytes, size, seed);
	E2E_EQ(pwrite(fd, bytes, size, (off_t)off), size);
	free(bytes);
	(void)close(fd);
}

void e2e_lose_pool(const struct e2e_node *node)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/pool", e2e_node_shm(node));
	E2E_EQ(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/index", e2e_node_shm(node));
	E2E_EQ(unlink(path), 0);
}

uint64_t e2e_log_count(const struct e2e_node *node, const char *words)
{
	char *log = e2e_node_log(node);
	uint64_t count = 0;

	for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
		count++;
	free(log);
	return count;
}

uint64_t e2e_node_hits(struct cenote *store, const char *point)
{
	uint64_t hits = 0, fired = 0;

	E2E_OK(cenote_get_fault_status_local_master(store, point, &hits, &fired));
	return hits;
}
