/*
 * e2e_pool.c - objects of the pattern, and what the daemon says of its pool.
 */
#include "e2e_priv.h"

#include "tools/stats.h"

#include <stdlib.h>
#include <string.h>

uint64_t e2e_stat(struct cenote *store, const char *path)
{
	char *text = NULL;
	uint64_t value = 0;

	E2E_OK(cenote_info(store, CENOTE_INFO_STATS, &text));
	if (!stats_u64(text, path, &value))
		e2e_fail(__FILE__, __LINE__, "no number %s in %s", path, text);
	cenote_free(text);
	return value;
}

uint64_t e2e_in_use(struct cenote *store)
{
	char *text = NULL;
	uint64_t size = 0, free_bytes = 0, withheld = 0;

	E2E_OK(cenote_info(store, CENOTE_INFO_STATS, &text));
	E2E_TRUE(stats_u64(text, "pool.size", &size));
	E2E_TRUE(stats_u64(text, "pool.free", &free_bytes));
	E2E_TRUE(stats_u64(text, "pool.withheld", &withheld));
	cenote_free(text);
	return size - free_bytes - withheld;
}

void e2e_expect_in_use(struct cenote *store, uint64_t bytes)
{
	E2E_UNTIL(e2e_in_use(store) == bytes, e2e_second_ms());
}

void e2e_check(struct cenote *store)
{
	char *text = NULL;

	E2E_OK(cenote_info(store, CENOTE_INFO_CHECK, &text));
	if (strcmp(text, "ok") != 0)
		e2e_fail(__FILE__, __LINE__, "the check says: %s", text);
	cenote_free(text);
}

static void put(struct cenote *store, const char *key, uint64_t size, uint64_t seed,
	const struct cenote_put_options *options)
{
	unsigned char *data = malloc(size + 1);
	int err;

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, seed);
	err = cenote_put(store, cenote_key(key), data, size, options);
	free(data);
	if (err != 0)
		e2e_fail(__FILE__, __LINE__, "put of %s: %s (%s)", key,
			cenote_error_name(err), cenote_error_detail());
}

void e2e_put(struct cenote *store, const char *key, uint64_t size, uint64_t seed)
{
	put(store, key, size, seed, NULL);
}

void e2e_put_softpin(struct cenote *store, const char *key, uint64_t size, uint64_t seed)
{
	const struct cenote_put_options options = {.softpin = true};

	put(store, key, size, seed, &options);
}

void e2e_verify(struct cenote *store, const char *key, uint64_t size, uint64_t seed)
{
	struct cenote_view view;
	int err = cenote_get(store, cenote_key(key), NULL, &view);

	if (err != 0)
		e2e_fail(__FILE__, __LINE__, "get of %s: %s (%s)", key,
			cenote_error_name(err), cenote_error_detail());
	E2E_EQ(view.size, size);
	E2E_BYTES(view.data, size, seed);
	E2E_OK(cenote_release(store, &view));
}
