/*
 * cmd_wait.c - cenote wait: until a key has an object.
 */
#include "tools/tool.h"

#include <string.h>

struct wait_options {
	struct tool_common common;
	bool json;
};

static const struct option_spec wait_specs[] = {
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print {key, ready, waited_ms}.",
		.offset = offsetof(struct wait_options, json)},
	TOOL_COMMON_OPTIONS,
};

static int wait_print_json(const char *key, bool ready, uint64_t waited_ns)
{
	char text[6 * CENOTE_KEY_LIMIT + 128];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_str(&json, "key", key);
	json_bool(&json, "ready", ready);
	json_u64(&json, "waited_ms", waited_ns / (1000 * 1000));
	json_object_end(&json);
	return tool_print_json(&json);
}

static int wait_run(const void *arg, int count, char **operands)
{
	const struct wait_options *options = arg;
	const char *key = operands[0];
	struct cenote *store;
	uint64_t start_ns;
	int result;

	(void)count;
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	start_ns = tool_now_ns();
	result = cenote_wait(
		store, cenote_key(key), tool_timeout_ms(options->common.timeout_ns));
	if (options->json && (result == 0 || result == CENOTE_ERR_TIMEOUT))
		(void)wait_print_json(key, result == 0, tool_now_ns() - start_ns);
	if (result != 0)
		result = tool_failed("wait", key, result);
	cenote_close(store);
	return result;
}

const struct tool_command tool_wait = {
	.name = "wait",
	.operands = "KEY",
	.summary = "wait until a key has an object",
	.text = "Exits with 0 as soon as it has one, with 1 after --timeout.",
	.operand_min = 1,
	.operand_max = 1,
	.options = {wait_specs, ARRAY_LEN(wait_specs)},
	.options_size = sizeof(struct wait_options),
	.run = wait_run,
};
