/*
 * cmd_fault.c - cenote fault: order a fault in the daemon, for tests. Debug builds only.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_options {
	struct tool_common common;
	uint64_t from_hit;
	int64_t times;
	bool list;
	bool json;
};

static const struct option_spec fault_specs[] = {
	{.name = "from-hit",
		.type = OPTION_NUMBER,
		.default_text = "1",
		.help = "Fire at this hit first.",
		.min = 1,
		.offset = offsetof(struct fault_options, from_hit)},
	{.name = "times",
		.type = OPTION_INTEGER,
		.default_text = "1",
		.help = "Fire so many times; -1 is for ever.",
		.offset = offsetof(struct fault_options, times)},
	{.name = "list",
		.type = OPTION_FLAG,
		.help = "List the points there are.",
		.offset = offsetof(struct fault_options, list)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print {name, hits, fired} of a point.",
		.offset = offsetof(struct fault_options, json)},
	TOOL_COMMON_OPTIONS,
};

#if defined(CENOTE_FAULTS) && CENOTE_FAULTS
static int fault_list(void)
{
#define FAULT_CLIENT_POINT(point, name, where) \
	(void)printf("%-7s %-30s %s\n", "client", name, where);
#define FAULT_NODE_POINT(point, name, where) \
	(void)printf("%-7s %-30s %s\n", "daemon", name, where);
#include "fault/points.def"
	return tool_flush();
}
#else
static int fault_list(void)
{
	tool_complain("fault: this is a release build, it has no points");
	return TOOL_FAILED;
}
#endif

static int fault_status(struct cenote *store, const char *name, bool as_json)
{
	uint64_t hits = 0, fired = 0;
	struct json json;
	char text[2048];
	int result = cenote_get_fault_status_local_master(store, name, &hits, &fired);

	if (result != 0)
		return tool_failed("fault", name, result);
	if (!as_json) {
		(void)printf(
			"%s: %" PRIu64 " hits, fired %" PRIu64 "\n", name, hits, fired);
		return tool_flush();
	}
	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_str(&json, "name", name);
	json_u64(&json, "hits", hits);
	json_u64(&json, "fired", fired);
	json_object_end(&json);
	return tool_print_json(&json);
}

static bool fault_value(const char *text, int64_t *ret)
{
	static const struct option_spec spec = {.name = "value", .type = OPTION_INTEGER};
	char message[OPTION_MESSAGE_MAX];

	return option_set(&spec, text, ret, message) == 0;
}

static int fault_run(const void *arg, int count, char **operands)
{
	const struct fault_options *options = arg;
	struct cenote *store;
	int64_t value = 0;
	int result;

	if (options->list)
		return fault_list();
	if (count == 0) {
		tool_complain("fault: a NAME or --list is needed");
		return TOOL_USAGE;
	}
	if (count == 3 && !fault_value(operands[2], &value)) {
		tool_complain("fault: VALUE %s: a whole number is needed", operands[2]);
		return TOOL_USAGE;
	}
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	if (count == 1) {
		result = fault_status(store, operands[0], options->json);
	} else {
		result = cenote_inject_fault_local_master(store, operands[0], operands[1],
			value, options->from_hit, options->times);
		if (result != 0)
			result = tool_failed("fault", operands[0], result);
	}
	cenote_close(store);
	return result;
}

const struct tool_command tool_fault = {
	.name = "fault",
	.operands = "NAME\nNAME ACTION [VALUE]\n--list",
	.summary = "order a fault in the daemon, or read its counts (debug builds)",
	.text = "ACTION at the point NAME of the daemon is one of: sleep (VALUE is ms),\n"
		"return_error (VALUE is a negative number), kill, reset. Without ACTION "
		"the\n"
		"counts are shown. Points of client processes are armed by the program "
		"itself,\n"
		"through the library. A release build has no points and answers "
		"NOT_SUPPORTED.",
	.operand_min = 0,
	.operand_max = 3,
	.options = {fault_specs, ARRAY_LEN(fault_specs)},
	.options_size = sizeof(struct fault_options),
	.run = fault_run,
};
