/*
 * rival_cenote.c - the calls on Cenote: in place, and batches.
 */
#include "compare.h"

#include "base/check.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <cenote/cenote.h>
#include <string.h>

static const struct cenote_put_options put_options = {.softpin = true};

static struct cenote_key key_of(const struct compare_key *key)
{
	return (struct cenote_key){.data = key->text, .size = COMPARE_KEY_SIZE};
}

static bool said(const char *verb, const char *key, int err)
{
	return err == 0 || (tool_failed(verb, key, err), false);
}

static void *cenote_rival_open(const char *socket)
{
	struct cenote_connect_options options = {.socket_path = socket};
	struct cenote *store = NULL;

	(void)said("compare: connect", NULL, cenote_connect(&store, &options));
	return store;
}

static void cenote_rival_close(void *store)
{
	cenote_close(store);
}

static bool cenote_rival_put(
	void *store, const struct compare_key *key, const void *data, size_t size)
{
	return said("compare: put", key->text,
		cenote_put(store, key_of(key), data, size, &put_options));
}

/* Whether it is the value. Its ends are read in any case, as by a reader. */
static bool is_value(const void *data, size_t size, const void *want, size_t want_size)
{
	const volatile unsigned char *bytes = data;

	if (size != want_size)
		return false;
	if (want != NULL)
		return memcmp(data, want, size) == 0;
	(void)bytes[0];
	(void)bytes[size - 1];
	return true;
}

static bool cenote_rival_get(void *store, const struct compare_key *keys, size_t count,
	const void *want, size_t size)
{
	struct cenote_view view;
	bool right = true;

	for (size_t i = 0; i < count && right; i++) {
		int err = cenote_get(store, key_of(&keys[i]), NULL, &view);

		if (err != 0)
			return said("compare: get", keys[i].text, err);
		right = is_value(view.data, view.size, want, size);
		(void)cenote_release(store, &view);
	}
	if (!right)
		tool_complain("compare: Cenote gave another value");
	return right;
}

bool compare_cenote_copy(void *store, const struct compare_key *keys, size_t count,
	void *buffer, const void *want, size_t size)
{
	uint64_t got;
	bool right = true;

	for (size_t i = 0; i < count && right; i++) {
		int err = cenote_get_into(
			store, key_of(&keys[i]), buffer, size, NULL, &got);

		if (err != 0)
			return said("compare: get_into", keys[i].text, err);
		right = is_value(buffer, got, want, size);
	}
	if (!right)
		tool_complain("compare: Cenote gave another value");
	return right;
}

static bool cenote_rival_put_all(void *store, const struct compare_key *keys,
	size_t count, const void *data, size_t size)
{
	struct cenote_part part = {.data = data, .size = size};
	struct cenote_put_item items[COMPARE_BATCH];

	CHECK(count <= COMPARE_BATCH);
	for (size_t i = 0; i < count; i++)
		items[i] = (struct cenote_put_item){
			.key = key_of(&keys[i]), .parts = &part, .count = 1};
	if (cenote_put_batch(store, items, count, &put_options) == 0)
		return true;
	tool_complain("compare: a put of a batch failed");
	return false;
}

static bool cenote_rival_remove_all(
	void *store, const struct compare_key *keys, size_t count)
{
	struct cenote_key_item items[COMPARE_BATCH];

	CHECK(count <= COMPARE_BATCH);
	for (size_t i = 0; i < count; i++)
		items[i] = (struct cenote_key_item){.key = key_of(&keys[i])};
	if (cenote_remove_batch(store, items, count) == 0)
		return true;
	tool_complain("compare: a remove of a batch failed");
	return false;
}

/* ---- the pool ------------------------------------------------------------ */

static bool pool_stat(void *store, const char *name, uint64_t *ret)
{
	char *text = NULL;
	int err = cenote_info(store, CENOTE_INFO_STATS, &text);

	if (err != 0)
		return said("compare: info", NULL, err);
	if (!stats_u64(text, name, ret))
		*ret = 0;
	cenote_free(text);
	return true;
}

bool compare_cenote_pool(void *store, uint64_t *ret_size, uint64_t *ret_page_size)
{
	return pool_stat(store, "pool.size", ret_size) &&
	       pool_stat(store, "pool.page_size", ret_page_size);
}

void compare_cenote_warm(void *store)
{
	struct cenote_writer writer;
	uint64_t largest;

	if (!pool_stat(store, "pool.largest_hole", &largest))
		return;
	largest -= largest / 16; /* its bookkeeping */
	if (cenote_create(store, cenote_key("warm"), largest, NULL, &writer) == 0)
		(void)cenote_abort(store, &writer);
}

const struct rival rival_cenote = {
	.name = "cenote",
	.open = cenote_rival_open,
	.close = cenote_rival_close,
	.put = cenote_rival_put,
	.get = cenote_rival_get,
	.put_all = cenote_rival_put_all,
	.remove_all = cenote_rival_remove_all,
};
