/*
 * cmd_rm.c - cenote rm: end objects, by key or by prefix.
 */
#include "tools/listing.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RM_BATCH 256

struct rm_options {
	struct tool_common common;
	const char *prefix;
};

static const struct option_spec rm_specs[] = {
	{.name = "prefix",
		.type = OPTION_TEXT,
		.value_name = "PREFIX",
		.help = "Remove every object whose key begins so; \"\" is all.",
		.offset = offsetof(struct rm_options, prefix)},
	TOOL_COMMON_OPTIONS,
};

/* One that is absent counts as done; by prefix, another remover was merely faster. */
static int rm_result(const char *key, int result, bool tell, size_t *removed)
{
	char text[TOOL_KEY_TEXT_MAX];

	if (result == 0) {
		(*removed)++;
		return TOOL_OK;
	}
	if (result != CENOTE_ERR_NOT_FOUND)
		return tool_failed("rm", key, result);
	if (tell)
		(void)printf("absent \"%s\"\n",
			tool_key_text(text, sizeof(text), key, strlen(key)));
	return TOOL_OK;
}

static int rm_keys(struct cenote *store, int count, char **keys)
{
	size_t removed = 0;
	int result = TOOL_OK;

	for (int i = 0; i < count; i++) {
		int answer = cenote_remove(store, cenote_key(keys[i]));

		if (rm_result(keys[i], answer, true, &removed) != TOOL_OK)
			result = TOOL_FAILED;
	}
	(void)printf("removed %zu of %d\n", removed, count);
	return result;
}

static int rm_batch(struct cenote *store, const struct listing_entry *entries,
	size_t count, size_t *removed)
{
	struct cenote_key_item items[RM_BATCH];
	int result = TOOL_OK;

	for (size_t i = 0; i < count; i++)
		items[i] = (struct cenote_key_item){
			.key = {entries[i].key, entries[i].key_size}};
	(void)cenote_remove_batch(store, items, count);
	for (size_t i = 0; i < count; i++) {
		if (rm_result(entries[i].key, items[i].result, false, removed) != TOOL_OK)
			result = TOOL_FAILED;
	}
	return result;
}

static int rm_prefix(struct cenote *store, const char *prefix)
{
	struct listing listing;
	size_t removed = 0;
	int result = listing_read(&listing, store, prefix);

	for (size_t i = 0; i < listing.count; i += RM_BATCH) {
		size_t count = MIN(listing.count - i, (size_t)RM_BATCH);

		if (rm_batch(store, &listing.entries[i], count, &removed) != TOOL_OK)
			result = TOOL_FAILED;
	}
	if (result == TOOL_OK)
		(void)printf("removed %zu objects\n", removed);
	listing_fini(&listing);
	return result;
}

static int rm_run(const void *arg, int count, char **operands)
{
	const struct rm_options *options = arg;
	struct cenote *store;
	int result = TOOL_OK;

	if (count == 0 && options->prefix == NULL) {
		tool_complain("rm: a KEY or --prefix=PREFIX is needed");
		return TOOL_USAGE;
	}
	if (tool_connect(&options->common, false, &store) != TOOL_OK)
		return TOOL_FAILED;
	if (count > 0)
		result = rm_keys(store, count, operands);
	if (options->prefix != NULL && rm_prefix(store, options->prefix) != TOOL_OK)
		result = TOOL_FAILED;
	cenote_close(store);
	return result == TOOL_OK ? tool_flush() : result;
}

const struct tool_command tool_rm = {
	.name = "rm",
	.operands = "KEY...\n--prefix=PREFIX",
	.summary = "remove objects",
	.text = "Does not wait for readers: running reads finish, new ones find "
		"nothing.\n"
		"A key without an object is reported as absent and counts as done.",
	.operand_min = 0,
	.operand_max = 1 << 20,
	.options = {rm_specs, ARRAY_LEN(rm_specs)},
	.options_size = sizeof(struct rm_options),
	.run = rm_run,
};
