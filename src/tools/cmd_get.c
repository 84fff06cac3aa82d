/*
 * cmd_get.c - cenote get: an object's bytes into a file or to standard output.
 */
#include "tools/progress.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WRITE_STEP (4u << 20)

struct get_options {
	struct tool_common common;
	const char *output;
	bool wait;
	bool progress;
};

static const struct option_spec get_specs[] = {
	{.name = "output",
		.letter = 'o',
		.type = OPTION_TEXT,
		.value_name = "FILE",
		.help = "Write to this file, not to standard output.",
		.offset = offsetof(struct get_options, output)},
	{.name = "wait",
		.type = OPTION_FLAG,
		.help = "Wait for the key to be put.",
		.offset = offsetof(struct get_options, wait)},
	{.name = "progress",
		.type = OPTION_FLAG,
		.help = "Show progress even if stderr is no terminal.",
		.offset = offsetof(struct get_options, progress)},
	TOOL_COMMON_OPTIONS,
};

static int get_write(
	int fd, const char *name, const struct cenote_view *view, bool progress_on)
{
	const char *bytes = view->data;
	struct progress progress;
	uint64_t done = 0;

	progress_init(&progress, "get", view->size, progress_on);
	while (done < view->size) {
		size_t step = (size_t)MIN(view->size - done, (uint64_t)WRITE_STEP);
		ssize_t wrote = write(fd, bytes + done, step);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0) {
			progress_end(&progress);
			tool_complain("%s: %s", name, strerror(errno));
			return TOOL_FAILED;
		}
		done += (uint64_t)wrote;
		progress_update(&progress, done, name);
	}
	progress_end(&progress);
	return TOOL_OK;
}

/* The file is made only now, so that a failed get leaves none. */
static int get_save(const struct get_options *options, const struct cenote_view *view)
{
	const char *path = options->output;
	int fd, result;

	if (path == NULL || strcmp(path, "-") == 0)
		return get_write(
			STDOUT_FILENO, "standard output", view, options->progress);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0) {
		tool_complain("%s: %s", path, strerror(errno));
		return TOOL_FAILED;
	}
	result = get_write(fd, path, view, options->progress);
	if (close(fd) != 0 && result == TOOL_OK) {
		tool_complain("%s: %s", path, strerror(errno));
		result = TOOL_FAILED;
	}
	return result;
}

static int get_run(const void *arg, int count, char **operands)
{
	const struct get_options *options = arg;
	struct cenote_get_options get = {.wait = options->wait,
		.timeout_ms = tool_timeout_ms(options->common.timeout_ns)};
	struct cenote_view view;
	struct cenote *store;
	int result;

	(void)count;
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = cenote_get(store, cenote_key(operands[0]), &get, &view);
	if (result != 0) {
		result = tool_failed("get", operands[0], result);
	} else {
		result = get_save(options, &view);
		(void)cenote_release(store, &view);
	}
	cenote_close(store);
	return result;
}

const struct tool_command tool_get = {
	.name = "get",
	.operands = "KEY",
	.summary = "write an object's bytes to a file or to standard output",
	.text = "Reads the object in place. It stays readable until its last byte is "
		"written,\n"
		"even if it is removed meanwhile.",
	.operand_min = 1,
	.operand_max = 1,
	.options = {get_specs, ARRAY_LEN(get_specs)},
	.options_size = sizeof(struct get_options),
	.run = get_run,
};
