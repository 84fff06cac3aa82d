/*
 * cmd_put.c - cenote put: a file, or what comes in, as an object.
 *
 * A regular file is read straight into the pool. Where the size is not known in advance
 * the input is gathered first, since an object has its size from the start. That of a file
 * in /proc is said to be 0, and is not known.
 */
#include "base/bytes.h"
#include "tools/progress.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_STEP (4u << 20)
#define PUT_SAID  INT_MIN /* of what failed on this side, and was said */

struct put_options {
	struct tool_common common;
	bool softpin;
	bool durable;
	bool replace;
	bool progress;
	bool json;
	bool replicas_required;
	uint64_t ttl_ns;
	uint64_t readers;
	uint64_t replicas;
};

static const struct option_spec put_specs[] = {
	{.name = "softpin",
		.type = OPTION_FLAG,
		.help = "Keep it until it is removed: it may leave the pool for the "
			"node's disk or another node, and comes back when it is read. "
			"Without, it may be dropped for others.",
		.offset = offsetof(struct put_options, softpin)},
	{.name = "durable",
		.type = OPTION_FLAG,
		.help = "End only when it is on the node's disk, where it outlives the "
			"host. Fails without a disk, and if that cannot take it.",
		.offset = offsetof(struct put_options, durable)},
	{.name = "replace",
		.type = OPTION_FLAG,
		.help = "Put it in the place of what the key has. Who reads the old "
			"object goes on reading it.",
		.offset = offsetof(struct put_options, replace)},
	{.name = "ttl",
		.type = OPTION_DURATION,
		.help = "Remove it so long after the put.",
		.min = 1000 * 1000,
		.offset = offsetof(struct put_options, ttl_ns)},
	{.name = "readers",
		.type = OPTION_NUMBER,
		.help = "Remove it after so many reads have ended.",
		.min = 1,
		.max = UINT16_MAX,
		.offset = offsetof(struct put_options, readers)},
	{.name = "replicas",
		.type = OPTION_NUMBER,
		.help = "With --softpin, in a cluster: so many nodes are to keep it. It "
			"ends when they do, or no other will now, and says so if fewer "
			"keep it (--json: how many).",
		.min = 1,
		.max = CENOTE_REPLICAS_MAX,
		.offset = offsetof(struct put_options, replicas)},
	{.name = "replicas-required",
		.type = OPTION_FLAG,
		.help = "Wait for them, and fail, with nothing put, if fewer keep it by "
			"the deadline; what it was to --replace is gone then.",
		.offset = offsetof(struct put_options, replicas_required)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print what was put as JSON.",
		.offset = offsetof(struct put_options, json)},
	{.name = "progress",
		.type = OPTION_FLAG,
		.help = "Show progress even if stderr is no terminal.",
		.offset = offsetof(struct put_options, progress)},
	TOOL_COMMON_OPTIONS,
};

struct put_source {
	int fd;
	const char *name;
	struct progress progress;
	uint64_t done;
};

/* Up to `size` bytes; fewer only at the end of the input. -1: said why. */
static ssize_t put_read(struct put_source *source, char *to, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t got = read(source->fd, to + have, MIN(size - have, READ_STEP));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			progress_end(&source->progress);
			tool_complain("%s: %s", source->name, strerror(errno));
			return -1;
		}
		if (got == 0)
			break;
		have += (size_t)got;
		source->done += (size_t)got;
		progress_update(&source->progress, source->done, source->name);
	}
	return (ssize_t)have;
}

/* All bytes of the input, which must be as many. False: said why. */
static bool put_fill(struct put_source *source, const struct cenote_writer *writer)
{
	ssize_t got = put_read(source, writer->data, (size_t)writer->size), more = 0;
	bool whole = got >= 0 && (uint64_t)got == writer->size;
	char byte;

	if (whole)
		more = put_read(source, &byte, 1);
	if (got >= 0 && more >= 0 && (!whole || more > 0))
		tool_complain("%s: became %s while it was read", source->name,
			whole ? "longer" : "shorter");
	return whole && more == 0;
}

/* A file of known size, read in place. What cenote_seal() returned, or PUT_SAID. */
static int put_file(struct cenote *store, const char *key, struct put_source *source,
	uint64_t size, const struct cenote_put_options *options)
{
	struct cenote_writer writer;
	int result;

	result = cenote_create(store, cenote_key(key), size, options, &writer);
	if (result != 0)
		return result;
	if (!put_fill(source, &writer)) {
		(void)cenote_abort(store, &writer);
		return PUT_SAID;
	}
	return cenote_seal(store, &writer);
}

/* All of the input in one piece of memory, to be freed; NULL: said why. */
static char *put_gather(struct put_source *source, size_t *ret_size)
{
	size_t size = 0, room = 64 << 10;
	char *bytes = NULL;

	for (;;) {
		char *more = realloc(bytes, room);
		ssize_t got;

		if (more == NULL)
			tool_complain("%s: no memory for %zu bytes", source->name, room);
		got = more == NULL ? -1 : put_read(source, more + size, room - size);
		if (more != NULL)
			bytes = more;
		if (got < 0) {
			free(bytes);
			return NULL;
		}
		size += (size_t)got;
		if (size < room) {
			*ret_size = size;
			return bytes;
		}
		room *= 2;
	}
}

static int put_stream(struct cenote *store, const char *key, struct put_source *source,
	const struct cenote_put_options *options)
{
	size_t size = 0;
	char *bytes = put_gather(source, &size);
	int result;

	if (bytes == NULL)
		return PUT_SAID;
	result = cenote_put(store, cenote_key(key), bytes, size, options);
	free(bytes);
	return result;
}

static int put_print_json(const char *key, const struct put_source *source, int keepers)
{
	char text[6 * CENOTE_KEY_LIMIT + 256];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_str(&json, "key", key);
	json_u64(&json, "size", source->done);
	json_u64(&json, "keepers", (uint64_t)keepers);
	json_object_end(&json);
	return tool_print_json(&json);
}

/* `result`: of the put. */
static int put_report(const struct put_options *options, const char *key,
	const struct put_source *source, int result)
{
	if (result == PUT_SAID)
		return TOOL_FAILED;
	if (result < 0)
		return tool_failed("put", key, result);
	if (options->json)
		return put_print_json(
			key, source, result > 0 ? result : options->softpin);
	if (options->replicas > 1 && (uint64_t)result < options->replicas)
		tool_complain("put: %s: kept by %d of %u nodes so far", key, result,
			(unsigned)options->replicas);
	return TOOL_OK;
}

static int put_from(const struct put_options *options, const char *key,
	struct put_source *source, const struct stat *stat)
{
	struct cenote_put_options put = {
		.softpin = options->softpin,
		.durable = options->durable,
		.replace = options->replace,
		.ttl_ms = options->ttl_ns / (1000 * 1000),
		.readers = (uint16_t)options->readers,
		.replicas = (uint16_t)options->replicas,
		.replicas_required = options->replicas_required,
		.timeout_ms = tool_timeout_ms(options->common.timeout_ns),
	};
	struct cenote *store;
	bool sized = S_ISREG(stat->st_mode) && stat->st_size > 0 &&
		     lseek(source->fd, 0, SEEK_CUR) == 0;
	int result;

	progress_init(&source->progress, "put",
		sized ? (uint64_t)stat->st_size : UINT64_MAX, options->progress);
	/* A bar without an end says nothing. */
	source->progress.shown = source->progress.shown && sized;
	if (tool_connect(&options->common, false, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = sized ? put_file(store, key, source, (uint64_t)stat->st_size, &put)
		       : put_stream(store, key, source, &put);
	progress_end(&source->progress);
	result = put_report(options, key, source, result);
	cenote_close(store);
	return result;
}

static int put_run(const void *arg, int count, char **operands)
{
	const struct put_options *options = arg;
	const char *path = count > 1 ? operands[1] : "-";
	bool standard = strcmp(path, "-") == 0;
	struct put_source source = {.name = standard ? "standard input" : path};
	struct stat stat;
	int result;

	source.fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (source.fd < 0 || fstat(source.fd, &stat) != 0) {
		tool_complain("%s: %s", source.name, strerror(errno));
		result = TOOL_FAILED;
	} else {
		result = put_from(options, operands[0], &source, &stat);
	}
	if (!standard && source.fd >= 0)
		(void)close(source.fd);
	return result;
}

const struct tool_command tool_put = {
	.name = "put",
	.operands = "KEY [FILE]",
	.summary = "store a file, or standard input, under a key",
	.text = "Stores the bytes of FILE, or of standard input if it is not given or "
		"\"-\".\n"
		"Objects never change: a key that has one is refused with EXISTS, "
		"unless\n"
		"--replace gives it a new one.\n"
		"Without --softpin it is a cache object, which may be dropped for "
		"others.",
	.operand_min = 1,
	.operand_max = 2,
	.options = {put_specs, ARRAY_LEN(put_specs)},
	.options_size = sizeof(struct put_options),
	.run = put_run,
};
