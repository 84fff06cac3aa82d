/*
 * cmd_bench.c - cenote bench station: the main workload, on a node given or its own.
 */
#include "tools/bench.h"
#include "tools/interrupt.h"
#include "tools/own_node.h"

#include <string.h>

static const struct option_spec bench_specs[] = {
	{.name = "pool",
		.type = OPTION_SIZE,
		.default_text = "1G",
		.min = 16 << 20,
		.help = "Pool of the node that it starts itself.",
		.offset = offsetof(struct bench_options, pool_bytes)},
	{.name = "ranks",
		.type = OPTION_NUMBER,
		.default_text = "8",
		.min = 1,
		.max = STATION_RANKS_MAX,
		.help = "Client processes.",
		.offset = offsetof(struct bench_options, ranks)},
	{.name = "steps",
		.type = OPTION_NUMBER,
		.default_text = "200",
		.min = 1,
		.max = 1000 * 1000,
		.help = "Steps of the job.",
		.offset = offsetof(struct bench_options, steps)},
	{.name = "live",
		.type = OPTION_PERMILLE,
		.default_text = "70%",
		.min = 10,
		.max = 4000,
		.help = "Live bytes at their peak, as a share of the pool.",
		.offset = offsetof(struct bench_options, live)},
	{.name = "reads",
		.type = OPTION_CHOICE,
		.choices = "1-2|1",
		.default_text = "1-2",
		.help = "1-2: each object is read once or twice by each of 1 to 8 ranks; "
			"1: "
			"once, by one.",
		.offset = offsetof(struct bench_options, reads)},
	{.name = "seed",
		.type = OPTION_NUMBER,
		.default_text = "1",
		.help = "Equal seeds make equal plans and equal bytes.",
		.offset = offsetof(struct bench_options, seed)},
	{.name = "flip-byte",
		.type = OPTION_FLAG,
		.help = "Write one byte wrong, in an object that is read once: the run "
			"must "
			"find it, and fail with wrong_bytes 1.",
		.offset = offsetof(struct bench_options, flip_byte)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print the summary as JSON.",
		.offset = offsetof(struct bench_options, json)},
	{.name = "progress",
		.type = OPTION_FLAG,
		.help = "Show progress even if stderr is no terminal.",
		.offset = offsetof(struct bench_options, progress)},
	TOOL_COMMON_OPTIONS,
};

static int bench_on(const struct bench_options *options, const char *socket)
{
	struct station_result result;
	int exit_code = station_run(options, socket, &result);

	if (exit_code != TOOL_OK)
		return exit_code;
	if (options->json)
		exit_code = station_print_json(&result);
	else
		station_print(&result);
	if (exit_code == TOOL_OK)
		exit_code = station_passed(&result) ? tool_flush() : TOOL_FAILED;
	station_result_fini(&result);
	return exit_code;
}

static int bench_run(const void *arg, int count, char **operands)
{
	const struct bench_options *options = arg;
	struct own_node node = {0};
	int result;

	(void)count;
	if (strcmp(operands[0], "station") != 0) {
		tool_complain(
			"bench: %s: no such profile; there is 'station'", operands[0]);
		return TOOL_USAGE;
	}
	interrupt_catch();
	if (!own_node_is_wanted(options->common.socket))
		return bench_on(options, options->common.socket);
	result = own_node_start(&node, options->pool_bytes);
	if (result == TOOL_OK)
		result = bench_on(options, node.socket);
	if (own_node_stop(&node) != TOOL_OK)
		result = TOOL_FAILED;
	return result;
}

const struct tool_command tool_bench = {
	.name = "bench",
	.operands = "station",
	.summary = "run the station profile and check every byte",
	.text = "Ranks are client processes. In each step every rank puts 31 small "
		"objects and 3\n"
		"payloads, and one rank a batch of 15 to 40 % of the pool; the weight "
		"set, of 20 to\n"
		"40 %, is replaced every 20 steps. Sizes are scaled so that live bytes "
		"reach --live\n"
		"at their peak; none is above 40 % of the pool. All objects are softpin. "
		"Each is\n"
		"read within two steps, in the order of the puts, released at once, "
		"every byte\n"
		"checked, and removed 1 to 3 steps after its put.\n"
		"\n"
		"It passes, with exit status 0, if no put, get or remove failed, no "
		"object was lost,\n"
		"no byte was wrong, the time for a byte is as good in the last quarter "
		"as in the\n"
		"second (to a factor of 2; 40 steps or more), and the pool's use is back "
		"where it\n"
		"was. Without --socket and $CENOTE_SOCKET it starts a node of its own, "
		"with --pool.",
	.operand_min = 1,
	.operand_max = 1,
	.options = {bench_specs, ARRAY_LEN(bench_specs)},
	.options_size = sizeof(struct bench_options),
	.run = bench_run,
};
