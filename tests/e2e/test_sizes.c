/*
 * Tests of sizes: 0 to the pool, 64 bits from end to end.
 */
#include "e2e.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)

static void put_verify_remove(struct cenote *store, uint64_t size)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "size/%" PRIu64, size);
	e2e_put(store, key, size, size);
	e2e_verify(store, key, size, size);
	E2E_OK(cenote_remove(store, KEY(key)));
}

static void empty_objects_are_there(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
	struct cenote_writer writer;
	struct cenote_view view = {0};
	struct cenote_stat stat;
	uint64_t size = 77;

	E2E_OK(cenote_put(store, KEY("put"), NULL, 0, NULL));
	E2E_OK(cenote_create(store, KEY("create"), 0, NULL, &writer));
	E2E_OK(cenote_seal(store, &writer));
	E2E_EQ(cenote_exists(store, KEY("put")), 1);
	E2E_OK(cenote_get(store, KEY("put"), NULL, &view));
	E2E_TRUE(view.size == 0 && view.data != NULL);
	E2E_OK(cenote_release(store, &view));
	E2E_OK(cenote_get_into(store, KEY("create"), NULL, 0, NULL, &size));
	E2E_EQ(size, 0);
	E2E_OK(cenote_stat(store, KEY("create"), &stat));
	E2E_EQ(stat.size, 0);
	E2E_ERR(cenote_put(store, KEY("put"), NULL, 0, NULL), CENOTE_ERR_EXISTS);
	E2E_OK(cenote_take(store, KEY("put"), NULL, &view));
	E2E_OK(cenote_release(store, &view));
	E2E_OK(cenote_remove(store, KEY("create")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void sizes_around(struct e2e *t, const char *option, uint64_t limit)
{
	struct e2e_node *node = e2e_node_start(
		t, "--pool", "64M", "--small-limit", option, NULL);
	struct cenote *store = e2e_connect(node);

	for (uint64_t size = limit > 3 ? limit - 3 : 0; size <= limit + 3; size++)
		put_verify_remove(store, size);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
	e2e_node_stop(node);
}

static void sizes_around_the_small_limit(struct e2e *t)
{
	sizes_around(t, "64K", 65536);
	sizes_around(t, "0", 0);
	sizes_around(t, "1000", 1000);
	sizes_around(t, "120K", 122880);
}

static void the_longest_key_with_the_largest_small_value(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(
		t, "--pool", "64M", "--small-limit", "120K", NULL);
	struct cenote *store = e2e_connect(node);
	char key[CENOTE_KEY_LIMIT + 1];

	memset(key, 'k', CENOTE_KEY_LIMIT);
	key[CENOTE_KEY_LIMIT] = '\0';
	e2e_put(store, key, 122880, 1);
	e2e_verify(store, key, 122880, 1);
	cenote_close(store);
}

static void sizes_from_1_byte_to_64_mib(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "160M", NULL));

	for (uint64_t size = 1; size <= 64u << 20; size *= 4) {
		put_verify_remove(store, size);
		put_verify_remove(store, size + 255);
	}
	put_verify_remove(store, 64u << 20);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- K5-09 --------------------------------------------------------------- */

#define PUTTERS 16

struct putting {
	struct cenote *store;
	unsigned thread;
	unsigned log2_max;       /* sizes up to here by every thread */
	unsigned log2_largest;   /* above it each size by one of them */
	_Atomic unsigned *taken; /* of those */
};

static void put_one_size(const struct putting *putting, unsigned log2, unsigned which)
{
	static const int64_t add[] = {-1, 0, 28};
	uint64_t size = (uint64_t)((int64_t)(1ull << log2) + add[which]);
	struct cenote_writer writer;
	char key[64];

	(void)snprintf(key, sizeof(key), "%u/%u/%u", putting->thread, log2, which);
	E2E_OK(cenote_create(putting->store, KEY(key), size,
		&(struct cenote_put_options){.softpin = true}, &writer));
	E2E_EQ(writer.size, size);
	e2e_fill(writer.data, size, size + putting->thread);
	E2E_OK(cenote_seal(putting->store, &writer));
	e2e_verify(putting->store, key, size, size + putting->thread);
	E2E_OK(cenote_remove(putting->store, KEY(key)));
}

static void *put_sizes(void *arg)
{
	const struct putting *putting = arg;
	unsigned large = (putting->log2_largest - putting->log2_max) * 3, one;

	for (unsigned log2 = 10; log2 <= putting->log2_max; log2++) {
		for (unsigned which = 0; which < 3; which++)
			put_one_size(putting, log2, which);
	}
	while ((one = atomic_fetch_add(putting->taken, 1)) < large)
		put_one_size(putting, putting->log2_max + 1 + one / 3, one % 3);
	return NULL;
}

/* The largest fit only one or two at a time: the others wait, and none fails. */
static void k5_09_powers_of_two_from_16_threads(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "640M", NULL));
	struct putting putting[PUTTERS];
	pthread_t threads[PUTTERS];
	_Atomic unsigned taken = 0;

	for (unsigned i = 0; i < PUTTERS; i++) {
		putting[i] = (struct putting){
			store, i, e2e_is_slow() ? 18 : 21, 28, &taken};
		E2E_TRUE(pthread_create(&threads[i], NULL, put_sizes, &putting[i]) == 0);
	}
	for (unsigned i = 0; i < PUTTERS; i++)
		E2E_TRUE(pthread_join(threads[i], NULL) == 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- too large ----------------------------------------------------------- */

static void the_largest_object_fits_and_one_byte_more_does_not(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	uint64_t largest = e2e_stat(store, "pool.largest_object"), began = e2e_now_ms();
	struct cenote_writer writer;
	char text[32];

	E2E_ERR(cenote_create(store, KEY("k"), largest + 1, NULL, &writer),
		CENOTE_ERR_TOO_LARGE);
	(void)snprintf(text, sizeof(text), "%" PRIu64, largest);
	E2E_DETAIL(text);
	(void)snprintf(text, sizeof(text), "%" PRIu64, largest + 1);
	E2E_DETAIL(text);
	E2E_TRUE(e2e_now_ms() - began < e2e_second_ms());
	e2e_put_softpin(store, "k", largest, 1);
	e2e_verify(store, "k", largest, 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	/* A cache object of this size leaves for the next, or for the watermark: it may
	 * be gone at once, but its put works. */
	e2e_put(store, "l", largest, 2);
	e2e_put(store, "m", largest, 3);
	E2E_EQ(cenote_exists(store, KEY("l")), 0);
	(void)cenote_remove(store, KEY("m"));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void k3_09_sizes_beyond_32_bits_are_named_in_full(struct e2e *t)
{
	static const uint64_t sizes[] = {(1ull << 31) + 1, (1ull << 32) - 1, 1ull << 32,
		(1ull << 32) + 1, (1ull << 32) + 100, 1ull << 40, INT64_MAX, 1ull << 63,
		UINT64_MAX - 1023, UINT64_MAX};
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	struct cenote_writer writer;
	char text[32];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		/* Refused by its size alone: nobody reads so many bytes at "x". */
		E2E_ERR(cenote_put(store, KEY("k"), "x", sizes[i], NULL),
			CENOTE_ERR_TOO_LARGE);
		E2E_ERR(cenote_create(store, KEY("k"), sizes[i], NULL, &writer),
			CENOTE_ERR_TOO_LARGE);
		(void)snprintf(text, sizeof(text), "%" PRIu64, sizes[i]);
		E2E_DETAIL(text);
	}
	E2E_EQ(e2e_in_use(store), 0);
	e2e_check(store);
	cenote_close(store);
}

static void parts_whose_sum_overflows_are_refused(struct e2e *t)
{
	const struct cenote_part parts[] = {{"x", UINT64_MAX}, {"y", 2}};
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "16M", NULL));
	int err = cenote_put_parts(store, KEY("k"), parts, 2, NULL);

	E2E_TRUE(err == CENOTE_ERR_TOO_LARGE || err == CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	E2E_EQ(e2e_in_use(store), 0);
	cenote_close(store);
}

/* MemAvailable, in bytes. */
static uint64_t memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kib = 0;
	char line[128];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	}
	if (file != NULL)
		(void)fclose(file);
	return kib << 10;
}

static void k3_09_an_object_of_4_gib_and_1_byte_is_whole(struct e2e *t)
{
	const uint64_t size = (1ull << 32) + 1, edge = 1 << 20;
	struct cenote_writer writer;
	struct cenote_view view;
	struct cenote *store;
	unsigned char *at;

	if (memory_available() < 8ull << 30)
		e2e_skip("needs 8 GiB of free memory");
	store = e2e_connect(e2e_node_start(t, "--pool", "4200M", NULL));
	E2E_OK(cenote_create(store, KEY("k"), size, NULL, &writer));
	E2E_EQ(writer.size, size);
	/* Places whose numbers differ only beyond 32 bits must not be one. */
	at = writer.data;
	e2e_fill(at, edge, 1);
	e2e_fill(at + (1ull << 31), edge, 2);
	e2e_fill(at + size - edge, edge, 3);
	E2E_OK(cenote_seal(store, &writer));
	E2E_OK(cenote_get(store, KEY("k"), NULL, &view));
	E2E_EQ(view.size, size);
	E2E_BYTES(view.data, edge, 1);
	E2E_BYTES((const unsigned char *)view.data + (1ull << 31), edge, 2);
	E2E_BYTES((const unsigned char *)view.data + size - edge, edge, 3);
	E2E_OK(cenote_release(store, &view));
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(empty_objects_are_there),
	E2E_CASE(sizes_around_the_small_limit),
	E2E_CASE(the_longest_key_with_the_largest_small_value),
	E2E_CASE(sizes_from_1_byte_to_64_mib),
	E2E_CASE(k5_09_powers_of_two_from_16_threads),
	E2E_CASE(the_largest_object_fits_and_one_byte_more_does_not),
	E2E_CASE(k3_09_sizes_beyond_32_bits_are_named_in_full),
	E2E_CASE(parts_whose_sum_overflows_are_refused),
	E2E_CASE(k3_09_an_object_of_4_gib_and_1_byte_is_whole),
};

E2E_MAIN_ALONE(cases)
