/*
 * cmd_drain.c - cenote drain: empty a node, so that it can be taken away.
 */
#include "tools/interrupt.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define LOOK_AGAIN_NS 100000000
#define TELL_NS       1000000000ull /* at most so often */

struct drain_options {
	struct tool_common common;
	bool end;
	bool no_wait;
};

static const struct option_spec drain_specs[] = {
	{.name = "end",
		.type = OPTION_FLAG,
		.help = "Let the node take puts and copies again.",
		.offset = offsetof(struct drain_options, end)},
	{.name = "no-wait",
		.type = OPTION_FLAG,
		.help = "Begin, and do not wait until it is empty.",
		.offset = offsetof(struct drain_options, no_wait)},
	TOOL_COMMON_OPTIONS,
};

/* Where it stands: 1 it is empty, 0 not yet, or an error. */
static int drain_look(struct cenote *store, bool tell)
{
	uint64_t left = 0, on_disk = 0, handed = 0, durable = 0;
	bool empty;
	char *text;
	int result = cenote_info(store, CENOTE_INFO_STATS, &text);

	if (result != 0)
		return result;
	empty = stats_is(text, "cluster.drain.state", "empty");
	(void)stats_u64(text, "cluster.drain.kept_in_pool", &left);
	(void)stats_u64(text, "cluster.drain.only_on_disk", &on_disk);
	(void)stats_u64(text, "cluster.handed", &handed);
	(void)stats_u64(text, "cluster.drain.durable_and_no_disk", &durable);
	cenote_free(text);
	if (tell || empty) {
		(void)printf("%s: %" PRIu64 " objects left in the pool, %" PRIu64
			     " on disk alone; %" PRIu64 " handed over\n",
			empty ? "empty" : "moving", left, on_disk, handed);
		if (durable > 0 && !empty)
			(void)printf("  %" PRIu64 " of them are durable, and no other "
				     "node has a disk (--disk)\n",
				durable);
		(void)tool_flush();
	}
	return empty;
}

static int drain_wait(struct cenote *store)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
	uint64_t told_ns = 0;

	interrupt_catch();
	while (!interrupt_came()) {
		uint64_t now = tool_now_ns();
		bool tell = now - told_ns >= TELL_NS;
		int result = drain_look(store, tell);

		if (result < 0)
			return tool_failed("drain", NULL, result);
		if (result > 0)
			return TOOL_OK;
		if (tell)
			told_ns = now;
		(void)nanosleep(&pause, NULL);
	}
	tool_complain("drain: the node goes on without being waited for; 'cenote drain "
		      "--end' ends it");
	return TOOL_FAILED;
}

static int drain_run(const void *arg, int count, char **operands)
{
	const struct drain_options *options = arg;
	struct cenote *store;
	int result;

	(void)count, (void)operands;
	if (tool_connect(&options->common, false, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = cenote_drain(store, !options->end);
	if (result != 0)
		result = tool_failed("drain", NULL, result);
	else if (!options->end && !options->no_wait)
		result = drain_wait(store);
	cenote_close(store);
	return result;
}

const struct tool_command tool_drain = {
	.name = "drain",
	.operands = "",
	.summary = "empty a node of a cluster, so that it can be taken away",
	.text = "The node refuses puts from now on, and hands all softpin objects that "
		"it\n"
		"keeps to others, those on its disk as well. Ends when it keeps "
		"nothing;\n"
		"while the others have no room, or none of them has a disk for what is\n"
		"durable, it waits. A restart of the daemon ends the drain.",
	.operand_min = 0,
	.operand_max = 0,
	.options = {drain_specs, ARRAY_LEN(drain_specs)},
	.options_size = sizeof(struct drain_options),
	.run = drain_run,
};
