/*
 * cmd_ls.c - cenote ls: which objects there are.
 */
#include "base/bytes.h"
#include "tools/listing.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_options {
	struct tool_common common;
	const char *regex;
	bool json;
};

static const struct option_spec ls_specs[] = {
	{.name = "regex",
		.type = OPTION_TEXT,
		.value_name = "REGEX",
		.help = "Only keys in which this POSIX extended regular expression "
			"matches any part.",
		.offset = offsetof(struct ls_options, regex)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print an array of {key, size, softpin}.",
		.offset = offsetof(struct ls_options, json)},
	TOOL_COMMON_OPTIONS,
};

static int ls_print_json(const struct listing *listing)
{
	struct json json;
	size_t size = 16;
	char *text;
	int result;

	/* A key's byte becomes six at most. */
	for (size_t i = 0; i < listing->count; i++)
		size += listing->entries[i].key_size * 6 + 80;
	text = malloc(size);
	if (text == NULL) {
		tool_complain("ls: no memory for %zu bytes of JSON", size);
		return TOOL_FAILED;
	}
	json_init(&json, text, size);
	json_array_begin(&json, NULL);
	for (size_t i = 0; i < listing->count; i++) {
		const struct listing_entry *entry = &listing->entries[i];

		json_object_begin(&json, NULL);
		json_str_n(&json, "key", entry->key, entry->key_size);
		json_u64(&json, "size", entry->size);
		json_bool(&json, "softpin", entry->softpin);
		json_object_end(&json);
	}
	json_array_end(&json);
	result = tool_print_json(&json);
	free(text);
	return result;
}

static int ls_print(const struct listing *listing)
{
	char key[4 * CENOTE_KEY_LIMIT + 8], size[TEXT_MAX];
	uint64_t total = 0;

	for (size_t i = 0; i < listing->count; i++) {
		const struct listing_entry *entry = &listing->entries[i];

		total += entry->size;
		(void)printf("%14" PRIu64 "  %-7s  %s\n", entry->size,
			entry->softpin ? "softpin" : "cache",
			tool_key_text(key, sizeof(key), entry->key, entry->key_size));
	}
	(void)printf("%zu objects, %s\n", listing->count,
		format_size(size, sizeof(size), total));
	return tool_flush();
}

static int ls_run(const void *arg, int count, char **operands)
{
	const struct ls_options *options = arg;
	struct listing listing;
	struct cenote *store;
	int result;

	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = listing_read(
		&listing, store, count > 0 ? operands[0] : "", options->regex);
	cenote_close(store);
	if (result == TOOL_OK)
		result = options->json ? ls_print_json(&listing) : ls_print(&listing);
	listing_fini(&listing);
	return result;
}

const struct tool_command tool_ls = {
	.name = "ls",
	.operands = "[PREFIX]",
	.summary = "list objects, all or by prefix or regular expression",
	.text = "Sorted by key. An object that is put or removed meanwhile may be listed "
		"or not.\n"
		"Bytes of a key that do not print are shown as \\xNN.",
	.operand_min = 0,
	.operand_max = 1,
	.options = {ls_specs, ARRAY_LEN(ls_specs)},
	.options_size = sizeof(struct ls_options),
	.run = ls_run,
};
