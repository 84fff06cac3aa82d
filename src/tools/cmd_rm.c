/*
 * cmd_rm.c - cenote rm: end objects, by key, by prefix, by regular expression.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct rm_options {
	struct tool_common common;
	const char *prefix;
	const char *regex;
};

static const struct option_spec rm_specs[] = {
	{.name = "prefix",
		.type = OPTION_TEXT,
		.value_name = "PREFIX",
		.help = "Remove every object whose key begins so, on all nodes; \"\" is "
			"all.",
		.offset = offsetof(struct rm_options, prefix)},
	{.name = "regex",
		.type = OPTION_TEXT,
		.value_name = "REGEX",
		.help = "Remove every object in whose key this POSIX extended regular "
			"expression matches any part.",
		.offset = offsetof(struct rm_options, regex)},
	TOOL_COMMON_OPTIONS,
};

/* One that is absent counts as done. */
static int rm_result(const char *key, int result, size_t *removed)
{
	char text[TOOL_KEY_TEXT_MAX];

	if (result == 0) {
		(*removed)++;
		return TOOL_OK;
	}
	if (result != CENOTE_ERR_NOT_FOUND)
		return tool_failed("rm", key, result);
	(void)printf(
		"absent \"%s\"\n", tool_key_text(text, sizeof(text), key, strlen(key)));
	return TOOL_OK;
}

static int rm_keys(struct cenote *store, int count, char **keys)
{
	size_t removed = 0;
	int result = TOOL_OK;

	for (int i = 0; i < count; i++) {
		int answer = cenote_remove(store, cenote_key(keys[i]));

		if (rm_result(keys[i], answer, &removed) != TOOL_OK)
			result = TOOL_FAILED;
	}
	(void)printf("removed %zu of %d\n", removed, count);
	return result;
}

static int rm_counted(int result, const char *what, uint64_t removed)
{
	if (result != 0)
		return tool_failed("rm", what, result);
	(void)printf("removed %" PRIu64 " objects\n", removed);
	return TOOL_OK;
}

static int rm_prefix(struct cenote *store, const char *prefix)
{
	uint64_t removed = 0;
	int result = cenote_remove_prefix(store, cenote_key(prefix), &removed);

	return rm_counted(result, prefix[0] != '\0' ? prefix : NULL, removed);
}

static int rm_regex(struct cenote *store, const char *regex)
{
	uint64_t removed = 0;
	int result = cenote_remove_regex(store, regex, &removed);

	return rm_counted(result, NULL, removed); /* the reason names it */
}

static bool rm_is_sane(const struct rm_options *options, int count)
{
	if (count == 0 && options->prefix == NULL && options->regex == NULL)
		tool_complain("rm: a KEY, --prefix=PREFIX or --regex=REGEX is needed");
	else if (options->prefix != NULL && options->regex != NULL)
		tool_complain("rm: --prefix and --regex do not go together; put the "
			      "prefix into the expression: --regex='^PREFIX.*...'");
	else
		return true;
	return false;
}

static int rm_run(const void *arg, int count, char **operands)
{
	const struct rm_options *options = arg;
	struct cenote *store;
	int result = TOOL_OK;

	if (!rm_is_sane(options, count))
		return TOOL_USAGE;
	if (tool_connect(&options->common, false, &store) != TOOL_OK)
		return TOOL_FAILED;
	if (count > 0)
		result = rm_keys(store, count, operands);
	if (options->prefix != NULL && rm_prefix(store, options->prefix) != TOOL_OK)
		result = TOOL_FAILED;
	if (options->regex != NULL && rm_regex(store, options->regex) != TOOL_OK)
		result = TOOL_FAILED;
	cenote_close(store);
	return result == TOOL_OK ? tool_flush() : result;
}

const struct tool_command tool_rm = {
	.name = "rm",
	.operands = "KEY...\n--prefix=PREFIX\n--regex=REGEX",
	.summary = "remove objects",
	.text = "Does not wait for readers: running reads finish, new ones find "
		"nothing.\n"
		"A key without an object is reported as absent and counts as done.\n"
		"With --prefix or --regex the number of objects that were removed is "
		"printed.",
	.operand_min = 0,
	.operand_max = 1 << 20,
	.options = {rm_specs, ARRAY_LEN(rm_specs)},
	.options_size = sizeof(struct rm_options),
	.run = rm_run,
};
