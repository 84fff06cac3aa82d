/*
 * cmd_bench.c - cenote bench: the main workload, and one kind of work at a time beside
 * what the machine can do; on a node given or its own.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"

#include <string.h>

#define BENCH_DISK_DIR "/var/tmp"

static const struct option_spec bench_specs[] = {
	{.name = "pool",
		.type = OPTION_SIZE,
		.default_text = "1G",
		.min = 16 << 20,
		.help = "Pool of the node that it starts itself.",
		.offset = offsetof(struct bench_options, pool_bytes)},
	{.name = "disk",
		.type = OPTION_TEXT,
		.value_name = "DIR",
		.help = "Give the node that it starts itself a disk tier, in a new "
			"directory under "
			"this one, which is removed at the end.",
		.offset = offsetof(struct bench_options, disk)},
	{.name = "disk-size",
		.type = OPTION_SIZE,
		.default_text = "16G",
		.min = 64ull << 20,
		.help = "Bytes that this disk tier may take.",
		.offset = offsetof(struct bench_options, disk_bytes)},
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
		.help = "Live bytes at their peak, as a share of the pool; more than the "
			"pool needs "
			"--disk.",
		.offset = offsetof(struct bench_options, live)},
	{.name = "reads",
		.type = OPTION_CHOICE,
		.choices = "1-2|1",
		.default_text = "1-2",
		.help = "1-2: each object is read once or twice by each of 1 to 8 ranks, "
			"in "
			"the step of its put or the next; 1: once, by one, in the next, "
			"so "
			"that the reads come in the order of the puts.",
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
	{.name = "nodes",
		.type = OPTION_TEXT,
		.value_name = "SOCKETS",
		.help = "Spread the ranks of the station over the nodes of a cluster: "
			"their "
			"sockets, with commas between, in place of --socket.",
		.offset = offsetof(struct bench_options, nodes)},
	{.name = "replicas",
		.type = OPTION_NUMBER,
		.default_text = "1",
		.min = 1,
		.max = CENOTE_REPLICAS_MAX,
		.help = "Nodes that are to keep each object of the station.",
		.offset = offsetof(struct bench_options, replicas)},
	{.name = "restart",
		.type = OPTION_FLAG,
		.help = "A rank of the station that is killed ends nothing: another goes "
			"on in its place as soon as its node answers, within 60 s. The "
			"call that was cut is made again, and is no failure.",
		.offset = offsetof(struct bench_options, restart)},
	{.name = "for",
		.type = OPTION_DURATION,
		.default_text = "forever",
		.value_name = "TIME",
		.help = "The station begins no step after so long, even if there are "
			"more.",
		.offset = offsetof(struct bench_options, span_ns)},
	{.name = "log",
		.type = OPTION_TEXT,
		.value_name = "FILE",
		.help = "Write every put, read and remove of the station there: step, "
			"monotonic "
			"ns, event, key, bytes.",
		.offset = offsetof(struct bench_options, log)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print the summary as JSON.",
		.offset = offsetof(struct bench_options, json)},
	{.name = "progress",
		.type = OPTION_FLAG,
		.help = "Show progress even if stderr is no terminal.",
		.offset = offsetof(struct bench_options, progress)},
	{.name = "runs",
		.type = OPTION_NUMBER,
		.default_text = "5",
		.min = 1,
		.max = BENCH_RUNS_MAX,
		.help = "Runs of which the medians are shown (not of the station).",
		.offset = offsetof(struct bench_options, runs)},
	{.name = "quick",
		.type = OPTION_FLAG,
		.help = "A tenth of the work in each run, and growth to 10,000 objects: "
			"to see that it works (not of the station).",
		.offset = offsetof(struct bench_options, quick)},
	{.name = "svg",
		.type = OPTION_TEXT,
		.value_name = "FILE",
		.help = "Draw the charts of growth into this file.",
		.offset = offsetof(struct bench_options, svg)},
	{.name = "lease",
		.type = OPTION_DURATION,
		.default_text = "2s",
		.min = 100 * 1000 * 1000,
		.max = 30ull * 1000 * 1000 * 1000,
		.help = "Length of the leases of reclaim; the rate of the puts follows "
			"from it.",
		.offset = offsetof(struct bench_options, lease_ns)},
	{.name = "peer-socket",
		.type = OPTION_TEXT,
		.value_name = "PATH",
		.help = "With --socket, of remote: the socket of the node that is read "
			"from.",
		.offset = offsetof(struct bench_options, peer_socket)},
	{.name = "redis-port",
		.type = OPTION_NUMBER,
		.default_text = "6379",
		.min = 1,
		.max = 65535,
		.help = "With --peer-socket: the port on this host of the nodes' "
			"directory.",
		.offset = offsetof(struct bench_options, redis_port)},
	{.name = "tls",
		.type = OPTION_FLAG,
		.help = "Nodes that remote starts speak under TLS, as nodes do unless "
			"told otherwise; without this in the clear, as the raw round "
			"trips beside them.",
		.offset = offsetof(struct bench_options, tls)},
	TOOL_COMMON_OPTIONS,
};

/* ---- what is run --------------------------------------------------------- */

static int bench_station(
	const struct bench_options *options, const struct bench_place *place)
{
	struct station_result result;
	int exit_code = station_run(options, place->socket, &result);

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

static int bench_on(const char *name, const struct bench_options *options,
	const struct bench_place *place)
{
	micro_fn micro = micro_find(name);

	return micro == NULL ? bench_station(options, place)
			     : micro_run(micro, name, options, place);
}

static int bench_check(const char *name, const struct bench_options *options)
{
	const char *wrong = NULL;

	if (micro_find(name) == NULL && strcmp(name, "station") != 0) {
		tool_complain("bench: %s: no such profile; there are station, hit, put, "
			      "get, batch, clients, growth, reclaim, disk and remote",
			name);
		return TOOL_USAGE;
	}
	if (options->svg != NULL && strcmp(name, "growth") != 0)
		wrong = "--svg goes with growth";
	else if (options->log != NULL && strcmp(name, "station") != 0)
		wrong = "--log goes with the station";
	else if (options->nodes != NULL && strcmp(name, "station") != 0)
		wrong = "--nodes goes with the station";
	else if (options->nodes != NULL && options->common.socket != NULL)
		wrong = "--nodes and --socket exclude each other";
	else if (options->tls &&
		 (strcmp(name, "remote") != 0 || options->peer_socket != NULL))
		wrong = "--tls goes with remote and nodes of its own";
	else if (options->peer_socket != NULL
			 ? strcmp(name, "remote") != 0 ||
				   own_node_is_wanted(options->common.socket)
			 : strcmp(name, "remote") == 0 &&
				   !own_node_is_wanted(options->common.socket))
		wrong = "--peer-socket goes with remote and --socket or $CENOTE_SOCKET";
	else if (options->disk != NULL &&
		 (options->nodes != NULL || !own_node_is_wanted(options->common.socket)))
		wrong = "--disk goes with a node of its own, not with --socket, --nodes "
			"or "
			"$CENOTE_SOCKET";
	if (wrong == NULL)
		return TOOL_OK;
	tool_complain("bench: %s", wrong);
	return TOOL_USAGE;
}

/* What the bench needs and was not said. */
static struct bench_options bench_complete(
	const char *name, const struct bench_options *options)
{
	struct bench_options mine = *options;

	if (mine.disk == NULL && strcmp(name, "disk") == 0)
		mine.disk = BENCH_DISK_DIR;
	return mine;
}

/* Bytes from a disk come by many threads; remote pins by itself. */
static bool bench_is_pinned(const char *name)
{
	return micro_find(name) != NULL && strcmp(name, "disk") != 0 &&
	       strcmp(name, "remote") != 0;
}

static int bench_run_remote(
	const struct bench_options *options, struct bench_place *place)
{
	struct own_cluster cluster;
	int result;

	place->socket = options->common.socket;
	place->peer_socket = options->peer_socket;
	place->redis_port = (uint16_t)options->redis_port;
	if (options->peer_socket != NULL)
		return bench_on("remote", options, place);
	result = own_cluster_start(&cluster, options->pool_bytes, options->tls);
	place->cluster = &cluster;
	place->peer_socket = cluster.nodes[0].socket;
	place->socket = cluster.nodes[1].socket;
	place->node = &cluster.nodes[1];
	place->redis_port = cluster.redis_port;
	if (result == TOOL_OK)
		result = bench_on("remote", options, place);
	if (own_cluster_stop(&cluster) != TOOL_OK)
		result = TOOL_FAILED;
	return result;
}

static int bench_run(const void *arg, int count, char **operands)
{
	const struct bench_options mine = bench_complete(operands[0], arg);
	const struct bench_options *options = &mine;
	struct own_node node = {0};
	struct bench_place place = {.cpu = -1, .other_cpu = -1};
	int result = bench_check(operands[0], options);

	(void)count;
	if (result != TOOL_OK)
		return result;
	interrupt_catch();
	if (strcmp(operands[0], "remote") == 0)
		return bench_run_remote(options, &place);
	if (bench_is_pinned(operands[0])) {
		/* Before the node is started: it is to be there too. */
		place.cpu = cpu_highest(-1);
		place.other_cpu = cpu_highest(place.cpu);
		place.cpu = cpu_pin(place.cpu);
	}
	place.socket = options->common.socket;
	if (options->nodes != NULL || !own_node_is_wanted(options->common.socket))
		return bench_on(operands[0], options, &place);
	result = own_node_start(
		&node, &(struct own_node_options){.pool_bytes = options->pool_bytes,
			       .disk = options->disk,
			       .disk_bytes = options->disk_bytes});
	place.socket = node.socket;
	place.node = &node;
	if (result == TOOL_OK)
		result = bench_on(operands[0], options, &place);
	if (own_node_stop(&node) != TOOL_OK)
		result = TOOL_FAILED;
	return result;
}

const struct tool_command tool_bench = {
	.name = "bench",
	.operands =
		"station\nhit\nput\nget\nbatch\nclients\ngrowth\nreclaim\ndisk\nremote",
	.summary = "measure a node: the main workload, or one kind of work at a time",
	.text = "The station is the main workload. Ranks are client processes. In each "
		"step every\n"
		"rank puts 31 small objects and 3 payloads, and one rank a batch of 15 "
		"to 40 % of\n"
		"the pool; the weight set, of 20 to 40 %, is replaced every 20 steps. "
		"Sizes are\n"
		"scaled so that live bytes reach --live at their peak; none is above 40 "
		"% of the\n"
		"pool. All objects are softpin. Each is read within two steps, in the "
		"order of\n"
		"the puts, released at once, every byte checked, and removed 1 to 3 "
		"steps after\n"
		"its put.\n"
		"\n"
		"It passes, with exit status 0, if no put, get or remove failed, no "
		"object was\n"
		"lost, no byte was wrong, the time for a byte is as good in the last "
		"quarter as\n"
		"in the second (to a factor of 2; 40 steps or more), and the use of pool "
		"and disk\n"
		"is back where it was.\n"
		"\n"
		"With a disk it also says which share of the bytes read had to be read "
		"back from\n"
		"disk, and the least that it could have been: the fractional offline "
		"optimum of\n"
		"the log for a memory of the pool less the largest turning room that the "
		"node had\n"
		"and what --high keeps free, as optimum.py works it out (it lies beside "
		"this\n"
		"program, or in ../share/cenote, and needs /usr/bin/python3; where it is "
		"not\n"
		"there, the optimum is null). The same for all of the pool is a bound "
		"that no\n"
		"node could get below.\n"
		"\n"
		"The others measure one kind of work beside what the machine can do: a "
		"round trip\n"
		"between two processes over a raw pair of sockets, with messages of the "
		"same\n"
		"size, and a copy, the better of memcpy and streaming stores, between "
		"memory that\n"
		"was touched before. All processes are pinned to one CPU (but not a node "
		"that is\n"
		"given). Baseline and store alternate within a run; the figures are "
		"medians of\n"
		"--runs. The exit status says whether it could be measured, not how fast "
		"it was.\n"
		"\n"
		"hit: get and release in place, its system calls counted by a filter, "
		"and its\n"
		"time with 1, 8 and 64 clients attached. put, get: 4 KiB, 1 MiB and 64 "
		"MiB.\n"
		"batch: 64 objects of 1 KiB to 1 MiB in a call. clients: attach, page "
		"tables,\n"
		"hits and removes with up to 250 clients. growth: from 1,000 objects to "
		"a\n"
		"million. reclaim: objects of 1 MiB, each leased once, put at 1.1 times "
		"the rate\n"
		"at which the leases let go of the pool: what reclaim examines for each "
		"that it\n"
		"frees, with leases released early and with leases that run out. disk: "
		"objects of\n"
		"16 MiB and 256 KiB that leave a full pool for --disk (/var/tmp) and "
		"come "
		"back,\n"
		"beside plain direct I/O there, with as many threads; it is not pinned. "
		"remote:\n"
		"gets of what another node has, beside raw TCP and the round trips that "
		"they\n"
		"take, and calls of the directory a second; it starts two nodes and a\n"
		"redis-server.\n"
		"\n"
		"Without --socket and $CENOTE_SOCKET it starts a node of its own, with "
		"--pool.",
	.operand_min = 1,
	.operand_max = 1,
	.options = {bench_specs, ARRAY_LEN(bench_specs)},
	.options_size = sizeof(struct bench_options),
	.run = bench_run,
};
