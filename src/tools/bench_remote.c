/*
 * bench_remote.c - gets of what another node has, beside raw TCP, and the directory's rate.
 *
 *   16m   an object of 16 MiB is put on one node and got on the other: beside as many bytes
 *         over one raw TCP stream between two processes. Nothing is pinned
 *   4k    the same with 4 KiB: beside the sum of a socket's round trip, a Redis's, that reads
 *         and changes a hash in one script, and a TCP stream's. All processes are on one CPU
 *   ops   batches of small puts: calls of the directory a second, beside what
 *         redis-benchmark finds for SET with as many commands in flight
 *
 * With --socket and --peer-socket the nodes are given, and --redis-port says where their
 * Redis is; it is not pinned then, and neither are they.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "tools/net_base.h"
#include "tools/own_cluster.h"
#include "tools/stats.h"

#include "base/attr.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REMOTE_16M   (16u << 20)
#define REMOTE_4K    4096u
#define REMOTE_GETS  1000u /* of 4 KiB, in a run */
#define REMOTE_BATCH 64u   /* puts of the rate in one call; also redis-benchmark's -P */
#define REMOTE_OPS   200u  /* batches of a run */

struct remote_bench {
	struct micro *micro;
	struct cenote *source; /* the other node */
	unsigned char *memory; /* REMOTE_16M bytes */
	struct sender sender;
	int redis; /* a connection to it; -1: none */
	uint64_t next;
	struct series tcp_16m, get_16m, socket_4k, redis_4k, tcp_4k, get_4k;
};

/* ---- gets ---------------------------------------------------------------- */

/* The next `count` of the other node's. */
static int remote_put(struct remote_bench *bench, uint64_t size, uint32_t count)
{
	const struct cenote_put_options options = {.softpin = true};
	char text[MICRO_KEY_SIZE + 1];
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++)
		err = cenote_put(bench->source,
			micro_key(text, "remote", bench->next + i), bench->memory, size,
			&options);
	return err == 0 ? TOOL_OK : micro_failed("bench: put on the other node", err);
}

static int remote_get(struct remote_bench *bench, struct series *series)
{
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, "remote", bench->next++);
	struct cenote_view view;
	uint64_t start_ns = tool_now_ns();
	int err = cenote_get(bench->micro->store, key, NULL, &view);

	if (err != 0)
		return micro_failed("bench: get from the other node", err);
	series_add(series, (double)(tool_now_ns() - start_ns));
	(void)cenote_release(bench->micro->store, &view);
	return TOOL_OK;
}

/* The last `count` that were got. */
static int remote_remove(struct remote_bench *bench, uint32_t count)
{
	char text[MICRO_KEY_SIZE + 1];
	int err = 0;

	for (uint32_t i = 1; i <= count && err == 0; i++)
		err = cenote_remove(
			bench->micro->store, micro_key(text, "remote", bench->next - i));
	return err == 0 ? TOOL_OK : micro_failed("bench: remove", err);
}

static bool add_timed(struct series *series, uint64_t ns)
{
	if (ns > 0)
		series_add(series, (double)ns);
	return ns > 0;
}

/* ---- rounds -------------------------------------------------------------- */

static int round_16m(struct remote_bench *bench)
{
	if (!add_timed(&bench->tcp_16m,
		    sender_fetch(&bench->sender, bench->memory, REMOTE_16M)) ||
		remote_put(bench, REMOTE_16M, 1) != TOOL_OK ||
		remote_get(bench, &bench->get_16m) != TOOL_OK)
		return TOOL_FAILED;
	return remote_remove(bench, 1);
}

static int round_4k(struct remote_bench *bench)
{
	if (!add_timed(&bench->socket_4k, echo_round(&bench->micro->echo, 64, 64)) ||
		!add_timed(&bench->redis_4k, redis_round(bench->redis)) ||
		!add_timed(&bench->tcp_4k,
			sender_fetch(&bench->sender, bench->memory, REMOTE_4K)))
		return TOOL_FAILED;
	return remote_get(bench, &bench->get_4k);
}

static int remote_rounds(
	struct remote_bench *bench, uint32_t full, int (*round)(struct remote_bench *))
{
	uint32_t rounds = micro_rounds(bench->micro, full);
	int exit_code = TOOL_OK;

	for (uint32_t i = 0; i < rounds && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED : round(bench);
	return exit_code;
}

/* Put before, and removed after, so that no part of that is measured with the gets. */
static int remote_4k(struct remote_bench *bench)
{
	uint32_t count = micro_rounds(bench->micro, REMOTE_GETS);

	if (remote_put(bench, REMOTE_4K, count) != TOOL_OK ||
		remote_rounds(bench, REMOTE_GETS, round_4k) != TOOL_OK)
		return TOOL_FAILED;
	return remote_remove(bench, count);
}

/* Everyone on one CPU, or all of them on any. */
static void remote_pin(struct remote_bench *bench, int cpu)
{
	const struct own_cluster *cluster = bench->micro->place->cluster;

	if (cluster == NULL)
		return;
	for (int i = 0; i < OWN_CLUSTER_NODES; i++)
		cpu_pin_process(cluster->nodes[i].pid, cpu);
	cpu_pin_process(cluster->redis, cpu);
	cpu_pin_process(bench->sender.pid, cpu);
	cpu_pin_process(bench->micro->echo.pid, cpu);
	cpu_pin_process(getpid(), cpu);
}

/* ---- the directory's rate ------------------------------------------------ */

static int remote_queries(struct remote_bench *bench, uint64_t *ret)
{
	char *stats = micro_stats(bench->micro);
	bool known = stats != NULL && stats_u64(stats, "cluster.queries", ret);

	cenote_free(stats);
	if (!known)
		tool_complain("bench: the node is in no cluster");
	return known ? TOOL_OK : TOOL_FAILED;
}

static int remote_put_batch(struct remote_bench *bench)
{
	char texts[REMOTE_BATCH][MICRO_KEY_SIZE + 1];
	struct cenote_part part = {.data = bench->memory, .size = 64};
	struct cenote_put_item items[REMOTE_BATCH];
	struct cenote_key_item removals[REMOTE_BATCH];

	for (uint32_t i = 0; i < REMOTE_BATCH; i++) {
		struct cenote_key key = micro_key(texts[i], "ops", bench->next++);

		items[i] = (struct cenote_put_item){
			.key = key, .parts = &part, .count = 1};
		removals[i] = (struct cenote_key_item){.key = key};
	}
	if (cenote_put_batch(bench->micro->store, items, REMOTE_BATCH, NULL) > 0 ||
		cenote_remove_batch(bench->micro->store, removals, REMOTE_BATCH) > 0)
		return micro_failed("bench: a batch of puts or removes", items[0].result);
	return TOOL_OK;
}

static int remote_ops(struct remote_bench *bench)
{
	uint64_t before = 0, after = 0, start_ns;
	int exit_code = remote_queries(bench, &before);

	start_ns = tool_now_ns();
	if (exit_code == TOOL_OK)
		exit_code = remote_rounds(bench, REMOTE_OPS, remote_put_batch);
	start_ns = tool_now_ns() - start_ns;
	if (exit_code == TOOL_OK)
		exit_code = remote_queries(bench, &after);
	if (exit_code == TOOL_OK)
		result_figure(&bench->micro->result, "directory_ops_per_s",
			(double)(after - before) * 1e9 / (double)start_ns);
	return exit_code;
}

/* The second field of its second line: "SET","123456.78",... */
static void remote_redis_benchmark(struct remote_bench *bench, uint16_t port)
{
	char command[160], line[256];
	double rate = 0;
	FILE *output;

	(void)snprintf(command, sizeof(command),
		"redis-benchmark -p %u -t set -n %u -c 1 -P %u --csv 2> /dev/null", port,
		bench->micro->options->quick ? 20000u : 200000u, REMOTE_BATCH);
	output = popen(command, "re");
	while (output != NULL && fgets(line, sizeof(line), output) != NULL) {
		const char *field = strncmp(line, "\"SET\",\"", 7) == 0 ? line + 7 : NULL;

		if (field != NULL)
			rate = strtod(field, NULL);
	}
	if (output != NULL)
		(void)pclose(output);
	if (rate > 0)
		result_figure(&bench->micro->result, "redis_benchmark_set_per_s", rate);
}

/* ---- the bench ----------------------------------------------------------- */

static int remote_run(struct remote_bench *bench)
{
	struct bench_result *result = &bench->micro->result;
	double rounds;
	int exit_code;

	remote_pin(bench, -1);
	exit_code = remote_rounds(bench, 32, round_16m);
	remote_pin(bench, cpu_highest(-1));
	if (exit_code == TOOL_OK)
		exit_code = remote_4k(bench);
	remote_pin(bench, -1);
	if (exit_code == TOOL_OK)
		exit_code = remote_ops(bench);
	if (exit_code != TOOL_OK)
		return exit_code;
	remote_redis_benchmark(bench, bench->micro->place->redis_port);
	result_aimed(result, "ratio_16m_to_tcp",
		series_end_run(&bench->tcp_16m) / series_end_run(&bench->get_16m),
		AIM_AT_LEAST, 0.85);
	rounds = series_end_run(&bench->socket_4k) + series_end_run(&bench->redis_4k) +
		 series_end_run(&bench->tcp_4k);
	result_aimed(result, "ratio_4k_to_rtt", series_end_run(&bench->get_4k) / rounds,
		AIM_AT_MOST, 1.5);
	return TOOL_OK;
}

static int remote_begin(struct remote_bench *bench)
{
	const struct tool_common common = {
		.socket = bench->micro->place->peer_socket,
		.timeout_ns = bench->micro->options->common.timeout_ns,
	};
	int exit_code;

	bench->sender.fd = bench->redis = -1;
	bench->tcp_16m = (struct series){.name = "tcp_16m", .bytes = REMOTE_16M};
	bench->get_16m = (struct series){.name = "remote_get_16m", .bytes = REMOTE_16M};
	bench->socket_4k = (struct series){.name = "socket_round_trip"};
	bench->redis_4k = (struct series){.name = "directory_round_trip"};
	bench->tcp_4k = (struct series){.name = "tcp_round_trip_4k"};
	bench->get_4k = (struct series){.name = "remote_get_4k"};
	if (!sender_start(&bench->sender))
		return TOOL_FAILED;
	bench->redis = net_connect(bench->micro->place->redis_port);
	if (!redis_begin(bench->redis))
		return TOOL_FAILED;
	bench->memory = touched_new(REMOTE_16M);
	exit_code = bench->memory != NULL ? tool_connect(&common, false, &bench->source)
					  : TOOL_FAILED;
	if (exit_code == TOOL_OK)
		exit_code = micro_touch_pool(bench->micro);
	return exit_code;
}

static void remote_end(struct remote_bench *bench)
{
	cenote_close(bench->source);
	if (bench->redis >= 0)
		(void)close(bench->redis);
	sender_stop(&bench->sender);
	touched_free(bench->memory, REMOTE_16M);
}

int bench_remote(struct micro *micro)
{
	struct remote_bench bench = {.micro = micro};
	struct series *list[] = {&bench.tcp_16m, &bench.get_16m, &bench.socket_4k,
		&bench.redis_4k, &bench.tcp_4k, &bench.get_4k};
	int exit_code = remote_begin(&bench);

	result_note(&micro->result,
		"16m: one raw TCP stream / get of what the other node "
		"has, on all CPUs.");
	result_note(&micro->result,
		"4k: such a get / the three round trips, all processes "
		"on one CPU if the nodes are its own; --tls: these under TLS.");
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = remote_run(&bench);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		result_row(&micro->result, list[i]);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	remote_end(&bench);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		series_fini(list[i]);
	return exit_code;
}
