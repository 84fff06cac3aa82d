/*
 * cmd_replay.c - cenote replay: a recorded trace of requests, against a node given or its
 * own.
 */
#include "base/bytes.h"
#include "tools/interrupt.h"
#include "tools/own_node.h"
#include "tools/replay.h"
#include "tools/report.h"
#include "tools/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct replay_options {
	struct tool_common common;
	uint64_t pool_bytes;
	uint64_t block_bytes;
	bool json;
	bool progress;
};

static const struct option_spec replay_specs[] = {
	{.name = "pool",
		.type = OPTION_SIZE,
		.default_text = "1G",
		.min = 1 << 20,
		.help = "Pool of the node that it starts itself.",
		.offset = offsetof(struct replay_options, pool_bytes)},
	{.name = "block-bytes",
		.type = OPTION_SIZE,
		.default_text = "64K",
		.min = 1,
		.max = 1ull << 32,
		.help = "Size of the object that a hash id stands for.",
		.offset = offsetof(struct replay_options, block_bytes)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print the summary as JSON.",
		.offset = offsetof(struct replay_options, json)},
	{.name = "progress",
		.type = OPTION_FLAG,
		.help = "Show progress even if stderr is no terminal.",
		.offset = offsetof(struct replay_options, progress)},
	TOOL_COMMON_OPTIONS,
};

/* What the node says of itself, before and after. */
struct replay_node {
	uint64_t pool, in_use, evicted, ghost_hits;
};

static int replay_ask_node(struct cenote *store, struct replay_node *ret)
{
	char *text;
	int result = cenote_info(store, CENOTE_INFO_STATS, &text);
	bool whole;

	if (result != 0)
		return tool_failed("replay", NULL, result);
	whole = report_bytes_in_use(text, &ret->in_use) &&
		stats_u64(text, "pool.size", &ret->pool) &&
		stats_u64(text, "counters.evicted", &ret->evicted) &&
		stats_u64(text, "counters.ghost_hits", &ret->ghost_hits);
	cenote_free(text);
	if (whole)
		return TOOL_OK;
	tool_complain("replay: the daemon's statistics lack a number");
	return TOOL_FAILED;
}

static int replay_print_json(const struct replay_job *job,
	const struct replay_result *result, const struct replay_node *before,
	const struct replay_node *after)
{
	char text[4096];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_u64(&json, "pool_bytes", after->pool);
	json_u64(&json, "block_bytes", job->block_bytes);
	json_u64(&json, "requests", result->requests);
	json_u64(&json, "touches", result->touches);
	json_u64(&json, "distinct_blocks", trace_distinct(job->trace));
	json_u64(&json, "prefix_hits", result->prefix_hits);
	json_f64(&json, "prefix_hit_ratio", replay_hit_ratio(result));
	json_u64(&json, "wrong_bytes", result->wrong_bytes);
	json_u64(&json, "puts", result->puts);
	json_u64(&json, "put_exists", result->put_exists);
	json_u64(&json, "failed_puts", result->failed_puts);
	json_u64(&json, "failed_gets", result->failed_gets);
	json_u64(&json, "evicted", after->evicted - before->evicted);
	json_u64(&json, "ghost_hits", after->ghost_hits - before->ghost_hits);
	json_u64(&json, "bytes_in_use_end", after->in_use);
	json_f64(&json, "seconds", (double)result->took_ns / 1e9);
	json_f64(&json, "gb_per_s",
		report_rate(result->put_bytes + result->get_bytes, result->took_ns));
	json_object_begin(&json, "latency");
	report_latency_json(&json, "get_hit", &result->get_ns);
	report_latency_json(&json, "get_miss", &result->miss_ns);
	report_latency_json(&json, "put", &result->put_ns);
	json_object_end(&json);
	if (result->first_error[0] != '\0')
		json_str(&json, "first_error", result->first_error);
	json_bool(&json, "passed", replay_passed(result));
	json_object_end(&json);
	return tool_print_json(&json);
}

static int replay_print(const struct replay_job *job, const struct replay_result *result,
	const struct replay_node *before, const struct replay_node *after)
{
	char pool[TEXT_MAX], block[TEXT_MAX];

	(void)printf("replay: %" PRIu64 " of %zu requests, blocks of %s, pool %s\n\n",
		result->requests, job->trace->request_count,
		format_size(block, sizeof(block), job->block_bytes),
		format_size(pool, sizeof(pool), after->pool));
	report_latency_head();
	report_latency("get, hit", &result->get_ns);
	report_latency("get, miss", &result->miss_ns);
	report_latency("put", &result->put_ns);
	(void)printf("\n%" PRIu64 " touches of %" PRIu64 " blocks, %" PRIu64
		     " prefix hits: %.4f\n",
		result->touches, trace_distinct(job->trace), result->prefix_hits,
		replay_hit_ratio(result));
	(void)printf("%" PRIu64 " puts, %" PRIu64 " found it there, %" PRIu64
		     " evicted\n",
		result->puts, result->put_exists, after->evicted - before->evicted);
	(void)printf("%.1f s, %.2f GB/s\n", (double)result->took_ns / 1e9,
		report_rate(result->put_bytes + result->get_bytes, result->took_ns));
	(void)printf("failed puts %" PRIu64 ", failed gets %" PRIu64
		     ", wrong bytes %" PRIu64 "\n",
		result->failed_puts, result->failed_gets, result->wrong_bytes);
	if (result->first_error[0] != '\0')
		(void)printf("first: %s\n", result->first_error);
	(void)printf("%s\n", replay_passed(result) ? "passed" : "FAILED");
	return tool_flush();
}

static int replay_with(const struct replay_options *options, struct cenote *store,
	const struct trace *trace)
{
	struct progress progress;
	struct replay_job job = {.store = store,
		.trace = trace,
		.block_bytes = options->block_bytes,
		.timeout_ms = tool_timeout_ms(options->common.timeout_ns),
		.progress = &progress};
	struct replay_node before, after;
	struct replay_result result;
	int exit_code = replay_ask_node(store, &before);

	progress_init(&progress, "replay", trace->request_count, options->progress);
	if (exit_code == TOOL_OK)
		exit_code = replay_run(&job, &result);
	progress_end(&progress);
	if (exit_code == TOOL_OK && replay_ask_node(store, &after) != TOOL_OK) {
		exit_code = TOOL_FAILED;
		if (result.first_error[0] != '\0')
			tool_complain("replay: first: %s", result.first_error);
	}
	if (exit_code == TOOL_OK)
		exit_code = options->json
				    ? replay_print_json(&job, &result, &before, &after)
				    : replay_print(&job, &result, &before, &after);
	if (exit_code == TOOL_OK && !replay_passed(&result))
		exit_code = TOOL_FAILED;
	return exit_code;
}

static int replay_on(const struct replay_options *options, const char *socket,
	const struct trace *trace)
{
	struct tool_common common = options->common;
	struct cenote *store;
	int result;

	common.socket = socket;
	if (tool_connect(&common, false, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = replay_with(options, store, trace);
	cenote_close(store);
	return result;
}

static int replay_open(const char *path, struct trace *trace)
{
	char message[TRACE_MESSAGE_MAX];
	FILE *file = fopen(path, "re");
	bool good;

	if (file == NULL) {
		tool_complain("replay: %s: %s", path, strerror(errno));
		return TOOL_FAILED;
	}
	good = trace_read(trace, file, message);
	(void)fclose(file);
	if (good)
		return TOOL_OK;
	tool_complain("replay: %s: %s", path, message);
	trace_fini(trace);
	return TOOL_FAILED;
}

static int replay_main(const void *arg, int count, char **operands)
{
	const struct replay_options *options = arg;
	struct own_node node = {0};
	struct trace trace;
	int result;

	(void)count;
	if (replay_open(operands[0], &trace) != TOOL_OK)
		return TOOL_FAILED;
	interrupt_catch();
	if (own_node_is_wanted(options->common.socket)) {
		result = own_node_start(&node,
			&(struct own_node_options){.pool_bytes = options->pool_bytes});
		if (result == TOOL_OK)
			result = replay_on(options, node.socket, &trace);
		if (own_node_stop(&node) != TOOL_OK)
			result = TOOL_FAILED;
	} else {
		result = replay_on(options, options->common.socket, &trace);
	}
	trace_fini(&trace);
	return result;
}

const struct tool_command tool_replay = {
	.name = "replay",
	.operands = "FILE",
	.summary = "replay a trace of requests, and check every byte",
	.text = "FILE has a JSON object a line with \"hash_ids\", the ids of a request's "
		"blocks.\n"
		"For each request the blocks are read in order up to the first that is "
		"missing;\n"
		"it and those behind it are put, as cache objects. One that is there "
		"already\n"
		"(EXISTS) is no failure. The hit ratio counts the blocks read before the "
		"first\n"
		"miss.\n"
		"\n"
		"Exits with 0 if no put failed and no byte was wrong. Without --socket "
		"and\n"
		"$CENOTE_SOCKET it starts a node of its own, with --pool.",
	.operand_min = 1,
	.operand_max = 1,
	.options = {replay_specs, ARRAY_LEN(replay_specs)},
	.options_size = sizeof(struct replay_options),
	.run = replay_main,
};
