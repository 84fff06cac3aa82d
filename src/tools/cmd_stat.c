/*
 * cmd_stat.c - cenote stat: one object, or the node.
 */
#include "base/bytes.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct stat_options {
	struct tool_common common;
	bool json;
	bool config;
	bool check;
};

static const struct option_spec stat_specs[] = {
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print JSON; of the node, just as the daemon gives it.",
		.offset = offsetof(struct stat_options, json)},
	{.name = "config",
		.type = OPTION_FLAG,
		.help = "Show the daemon's settings as they are in force.",
		.offset = offsetof(struct stat_options, config)},
	{.name = "check",
		.type = OPTION_FLAG,
		.help = "Let the daemon prove its invariants; \"ok\", or what is broken.",
		.offset = offsetof(struct stat_options, check)},
	TOOL_COMMON_OPTIONS,
};

static int stat_object_json(const char *key, const struct cenote_stat *stat)
{
	char text[6 * CENOTE_KEY_LIMIT + 256];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_str(&json, "key", key);
	json_u64(&json, "size", stat->size);
	json_u64(&json, "generation", stat->generation);
	json_bool(&json, "softpin", stat->softpin);
	json_bool(&json, "in_pool", stat->in_pool);
	json_bool(&json, "on_disk", stat->on_disk);
	json_u64(&json, "holds", stat->holds);
	json_i64(&json, "expires_in_ms", stat->expires_in_ms);
	json_u64(&json, "readers_left", stat->readers_left);
	json_object_end(&json);
	return tool_print_json(&json);
}

static const char *stat_place(const struct cenote_stat *stat)
{
	if (stat->in_pool)
		return stat->on_disk ? "pool, and disk" : "pool";
	return stat->on_disk ? "disk" : "another node";
}

static int stat_object_print(const struct cenote_stat *stat)
{
	char text[TEXT_MAX];

	(void)printf("size        %" PRIu64 " (%s)\n", stat->size,
		format_size(text, sizeof(text), stat->size));
	(void)printf("kind        %s\n", stat->softpin ? "softpin" : "cache");
	(void)printf("lies in     %s\n", stat_place(stat));
	(void)printf("holds       %u\n", stat->holds);
	(void)printf("generation  %016" PRIx64 "\n", stat->generation);
	if (stat->readers_left > 0)
		(void)printf("reads left  %u\n", stat->readers_left);
	if (stat->expires_in_ms >= 0)
		(void)printf("expires in  %" PRId64 " ms\n", stat->expires_in_ms);
	return tool_flush();
}

static int stat_object(struct cenote *store, const char *key, bool json)
{
	struct cenote_stat stat;
	int result = cenote_stat(store, cenote_key(key), &stat);

	if (result != 0)
		return tool_failed("stat", key, result);
	return json ? stat_object_json(key, &stat) : stat_object_print(&stat);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* All of the numbers of pool and disk are bytes but those that count things. */
static bool stat_is_size(const char *path)
{
	static const char *const counts[] = {"pool.objects", "pool.slots",
		"pool.slots_limit", "pool.leases", "pool.waiting", "disk.objects",
		"disk.objects_only", "disk.object_limit", "disk.changes",
		"disk.jobs_under_way", "disk.loads_under_way", "disk.adopted_at_start",
		"disk.dropped_at_start", "disk.refused_at_start"};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		if (strcmp(path, counts[i]) == 0)
			return false;
	}
	return starts_with(path, "pool.") || starts_with(path, "disk.") ||
	       ends_with(path, "_bytes") || ends_with(path, "_size");
}

/* A histogram of times is named as one: "room_wait_ns.p50". */
static bool stat_is_time(const char *path)
{
	return ends_with(path, "_ns") || strstr(path, "_ns.") != NULL;
}

static int stat_line(void *arg, const char *path, const char *value, size_t value_size)
{
	const char *json = arg;
	char text[TEXT_MAX];
	uint64_t number;

	if (stat_is_size(path) && stats_u64(json, path, &number))
		(void)printf("%-34s %16.*s  %s\n", path, (int)value_size, value,
			format_size(text, sizeof(text), number));
	else if (stat_is_time(path) && !ends_with(path, ".count") &&
		 stats_u64(json, path, &number))
		(void)printf("%-34s %16.*s  %s\n", path, (int)value_size, value,
			format_duration(text, sizeof(text), number));
	else
		(void)printf("%-34s %16.*s\n", path, (int)value_size, value);
	return 0;
}

static int stat_node(struct cenote *store, enum cenote_info what, bool as_it_is)
{
	char *text;
	int result = cenote_info(store, what, &text);

	if (result != 0)
		return tool_failed("stat", NULL, result);
	if (as_it_is || what == CENOTE_INFO_CHECK)
		(void)puts(text);
	else if (!stats_walk(text, stat_line, text))
		tool_complain("stat: the daemon's answer is not JSON");
	result = tool_flush();
	if (what == CENOTE_INFO_CHECK && strcmp(text, "ok") != 0)
		result = TOOL_FAILED;
	cenote_free(text);
	return result;
}

static int stat_run(const void *arg, int count, char **operands)
{
	const struct stat_options *options = arg;
	enum cenote_info what = CENOTE_INFO_STATS;
	struct cenote *store;
	int result;

	if (count > 0 && (options->config || options->check)) {
		tool_complain("stat: --config and --check are of the node, not of a KEY");
		return TOOL_USAGE;
	}
	if (options->config)
		what = CENOTE_INFO_CONFIG;
	if (options->check)
		what = CENOTE_INFO_CHECK;
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = count > 0 ? stat_object(store, operands[0], options->json)
			   : stat_node(store, what, options->json);
	cenote_close(store);
	return result;
}

const struct tool_command tool_stat = {
	.name = "stat",
	.operands = "[KEY]",
	.summary = "show an object, or the node: bytes by state and counters",
	.text = "Protects nothing and counts as no use. Of an object it says where its "
		"bytes are:\n"
		"in the pool, on disk, or both; or on another node.",
	.operand_min = 0,
	.operand_max = 1,
	.options = {stat_specs, ARRAY_LEN(stat_specs)},
	.options_size = sizeof(struct stat_options),
	.run = stat_run,
};
