/*
 * Tests of very many objects on disk: what each costs in memory, and the limit on their
 * number.
 */
#include "e2e_disk.h"

#include <stdio.h>
#include <string.h>

#define KEY_BYTES   100
#define VALUE_BYTES 100
#define BATCH       512
#define STATED      170 /* as --help says of --disk-objects */

/* A key of 100 bytes, and no other has it. */
static struct cenote_key name(char *text, uint64_t i)
{
	int size = snprintf(text, KEY_BYTES + 1, "many/%llu/", (unsigned long long)i);

	memset(text + size, 'k', (size_t)(KEY_BYTES - size));
	text[KEY_BYTES] = '\0';
	return cenote_key(text);
}

/* How many of `count` objects were put; those that were not have the `error`. */
static uint64_t put_many(struct cenote *store, uint64_t first, uint64_t count,
	int64_t timeout_ms, int error)
{
	static char keys[BATCH][KEY_BYTES + 1];
	static unsigned char values[BATCH][VALUE_BYTES];
	const struct cenote_put_options options = {
		.softpin = true, .timeout_ms = timeout_ms};
	struct cenote_part parts[BATCH];
	struct cenote_put_item items[BATCH];
	uint64_t put = 0;

	for (uint64_t i = 0; i < count; i++) {
		e2e_fill(values[i], VALUE_BYTES, first + i);
		parts[i] = (struct cenote_part){values[i], VALUE_BYTES};
		items[i] = (struct cenote_put_item){
			.key = name(keys[i], first + i), .parts = &parts[i], .count = 1};
	}
	(void)cenote_put_batch(store, items, count, &options);
	for (uint64_t i = 0; i < count; i++) {
		if (items[i].result != 0)
			E2E_ERR(items[i].result, error);
		put += items[i].result == 0;
	}
	return put;
}

static void put_all(struct cenote *store, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i += BATCH)
		E2E_EQ(put_many(store, i, BATCH, E2E_DEADLINE_MS, 0), BATCH);
}

static void verify_many(struct cenote *store, uint64_t first, uint64_t end, uint64_t step)
{
	char key[KEY_BYTES + 1];

	for (uint64_t i = first; i < end; i += step) {
		(void)name(key, i);
		e2e_verify(store, key, VALUE_BYTES, i);
	}
}

/* Memory of the daemon that no other process shares and no file backs. */
static uint64_t own_memory(const struct e2e_node *node)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", e2e_node_pid(node));
	file = fopen(path, "re");
	E2E_TRUE(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
			break;
	(void)fclose(file);
	E2E_TRUE(kib > 0);
	return (uint64_t)kib << 10;
}

/* All that grows is what is only on disk: the pool has been full for long by then. */
static void k15_01_many_keys_cost_what_is_stated(struct e2e *t)
{
	struct e2e_node *node;
	struct cenote *store;
	uint64_t begin = 40 * BATCH, end = (e2e_is_slow() ? 240 : 600) * BATCH;
	uint64_t before, after, objects, each;

	node = e2e_node_start(
		t, "--pool", "4M", "--disk", e2e_disk_dir(t), "--disk-size", "4G", NULL);
	store = e2e_connect(node);
	put_all(store, 0, begin);
	e2e_disk_settle(store);
	before = own_memory(node);
	objects = e2e_stat(store, "disk.objects");
	E2E_TRUE(objects > begin / 2);
	put_all(store, begin, end);
	e2e_disk_settle(store);
	after = own_memory(node);
	objects = e2e_stat(store, "disk.objects") - objects;
	each = (after - before) / objects;
	(void)printf("        %llu objects more on disk: %llu bytes of memory for each\n",
		(unsigned long long)objects, (unsigned long long)each);
	E2E_TRUE(objects > (end - begin) / 2);
	verify_many(store, 0, end, 97);
	e2e_check(store);
	cenote_close(store);
	if (e2e_is_slow())
		e2e_skip("a sanitizer's own memory is counted with the daemon's");
	E2E_TRUE(each <= STATED);
}

#define LIMIT "2048"

/* One more than may be on disk finds no room, hears why, and harms nobody. */
static void k15_01_the_limit_on_their_number_is_named(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "1M", "--disk",
		e2e_disk_dir(t), "--disk-size", "256M", "--disk-objects", LIMIT, NULL);
	struct cenote *store = e2e_connect(node);
	const struct cenote_put_options options = {.softpin = true, .timeout_ms = 500};
	uint64_t count = 0, more;
	char key[KEY_BYTES + 1];
	struct cenote_key none;

	do {
		more = put_many(store, count, 64, 2000, CENOTE_ERR_NO_SPACE);
		count += more;
	} while (more == 64);
	E2E_TRUE(count > 2048);
	E2E_TRUE(e2e_stat(store, "disk.objects") <= 2048);
	E2E_EQ(e2e_stat(store, "disk.object_limit"), 2048);
	none = name(key, count);
	E2E_ERR(cenote_put(store, none, key, VALUE_BYTES, &options), CENOTE_ERR_NO_SPACE);
	E2E_DETAIL("disk-objects");
	E2E_DETAIL(LIMIT);
	verify_many(store, 0, count, 1);
	/* Room comes back with removals, by itself. */
	for (uint64_t i = 0; i < 256; i++)
		E2E_OK(cenote_remove(store, name(key, i)));
	E2E_EQ(put_many(store, count, 128, E2E_DEADLINE_MS, 0), 128);
	verify_many(store, 256, count + 128, 1);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k15_01_many_keys_cost_what_is_stated),
	E2E_CASE(k15_01_the_limit_on_their_number_is_named),
};

E2E_MAIN_ALONE(cases)
