/*
 * compare.c - Cenote beside Redis, which is reached over its Unix socket: get and put of
 * one client, small puts and removes of many.
 *
 * Both servers run all the time. Within a run the two alternate in slices, so that what
 * drifts on the machine touches both; figures are medians over the runs. Both are given
 * the same keys, the same bytes, the same number of processes and the same depth of batch
 * or pipeline. A get of Redis ends when its client has all bytes; Cenote's get gives them
 * in place, and get_into copies them, so that both ways are seen.
 *
 * The one client shares a CPU with the servers, as in the other benches: left alone they
 * are on one at times and on two at others, and a call takes two to three times as long
 * then, of either store. The many clients and the servers may run anywhere.
 */
#include "compare.h"

#include "base/attr.h"
#include "tools/bench_base.h"
#include "tools/bench_result.h"
#include "tools/interrupt.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_4K 4096u
#define SIZE_1M (1u << 20)
#define SIZE_2K 2048u

#define KEYS_4K     256u
#define KEYS_1M     32u
#define RING        64u         /* objects of the puts that live at once */
#define SOURCE      (64u << 20) /* whence the puts are fed, in turns */
#define SLICES      8u          /* of each kind in a run */
#define SLICE_GETS  40u
#define SLICE_BIG   8u  /* of 1 MiB */
#define HITS        64u /* that are timed together */
#define CREW_SLICES 4u
#define CREW_ROUNDS 150u

enum {
	CENOTE,
	REDIS,
	RIVALS
};

static const struct rival *const rivals[RIVALS] = {&rival_cenote, &rival_redis};

struct compare_options {
	uint64_t runs, clients, depth, pool_bytes;
	bool json, help;
};

static const struct option_spec compare_specs[] = {
	{.name = "runs",
		.type = OPTION_NUMBER,
		.default_text = "5",
		.min = 1,
		.max = BENCH_RUNS_MAX,
		.help = "Runs of which the medians are shown.",
		.offset = offsetof(struct compare_options, runs)},
	{.name = "clients",
		.type = OPTION_NUMBER,
		.default_text = "8",
		.min = 1,
		.max = 64,
		.help = "Client processes of the small puts and removes.",
		.offset = offsetof(struct compare_options, clients)},
	{.name = "depth",
		.type = OPTION_NUMBER,
		.default_text = "32",
		.min = 1,
		.max = COMPARE_BATCH,
		.help = "Of their pipelines and batches.",
		.offset = offsetof(struct compare_options, depth)},
	{.name = "pool",
		.type = OPTION_SIZE,
		.default_text = "512M",
		.min = 256 << 20,
		.help = "Pool of the Cenote node.",
		.offset = offsetof(struct compare_options, pool_bytes)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print JSON.",
		.offset = offsetof(struct compare_options, json)},
	{.name = "help",
		.letter = 'h',
		.type = OPTION_FLAG,
		.help = "Show this help.",
		.offset = offsetof(struct compare_options, help)},
};

/* What is timed of both; of Cenote also the copying gets. */
struct rows {
	struct series get_4k, get_1m, put_1m, small;
	struct series copy_4k, copy_1m;
};

struct compare {
	const struct compare_options *options;
	struct own_node node;
	struct own_redis redis;
	cpu_set_t cpus; /* that we may use */
	void *stores[RIVALS];
	unsigned char *source, *target;
	uint64_t source_at;
	struct compare_key keys_4k[KEYS_4K], keys_1m[KEYS_1M], ring[RING];
	uint64_t next[RIVALS]; /* of the ring */
	struct rows rows[RIVALS];
	struct bench_result result;
};

void compare_key(struct compare_key *key, const char *prefix, uint64_t number)
{
	int length = snprintf(key->text, sizeof(key->text), "compare/%s/", prefix);

	(void)snprintf(key->text + length, sizeof(key->text) - (size_t)length,
		"%0*" PRIu64, COMPARE_KEY_SIZE - length, number);
}

static const char *socket_of(const struct compare *compare, int which)
{
	return which == CENOTE ? compare->node.socket : compare->redis.socket;
}

/* ---- gets ---------------------------------------------------------------- */

/* One slice of a rival's gets of one size, each beginning at another key. */
static bool get_slice(struct compare *compare, int which, const struct compare_key *keys,
	size_t key_count, size_t size, unsigned rounds, struct series *series)
{
	/* A hit takes less than the clock's own time: many are timed together. */
	size_t together = which == CENOTE ? MIN(HITS, key_count) : 1;

	for (unsigned i = 0; i < rounds; i++) {
		size_t at = (i * 37u) % (key_count - together + 1);
		uint64_t start_ns = tool_now_ns();

		if (!rivals[which]->get(
			    compare->stores[which], keys + at, together, NULL, size))
			return false;
		series_add(series, (double)(tool_now_ns() - start_ns) / (double)together);
	}
	return true;
}

static bool copy_slice(struct compare *compare, const struct compare_key *keys,
	size_t key_count, size_t size, unsigned rounds, struct series *series)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start_ns = tool_now_ns();

		if (!compare_cenote_copy(compare->stores[CENOTE],
			    keys + (i * 37u) % key_count, 1, compare->target, NULL, size))
			return false;
		series_add(series, (double)(tool_now_ns() - start_ns));
	}
	return true;
}

static bool get_both(struct compare *compare, int which)
{
	struct rows *rows = &compare->rows[which];

	if (!get_slice(compare, which, compare->keys_4k, KEYS_4K, SIZE_4K, SLICE_GETS,
		    &rows->get_4k) ||
		!get_slice(compare, which, compare->keys_1m, KEYS_1M, SIZE_1M, SLICE_BIG,
			&rows->get_1m))
		return false;
	if (which != CENOTE)
		return true;
	return copy_slice(compare, compare->keys_4k, KEYS_4K, SIZE_4K, SLICE_GETS,
		       &rows->copy_4k) &&
	       copy_slice(compare, compare->keys_1m, KEYS_1M, SIZE_1M, SLICE_BIG,
		       &rows->copy_1m);
}

/* Every value, byte for byte. */
static bool check(struct compare *compare, int which)
{
	const struct rival *rival = rivals[which];
	void *store = compare->stores[which];

	for (size_t i = 0; i < KEYS_4K; i++) {
		if (!rival->get(store, &compare->keys_4k[i], 1,
			    compare->source + i * SIZE_4K, SIZE_4K))
			return false;
	}
	for (size_t i = 0; i < KEYS_1M; i++) {
		const unsigned char *want = compare->source + i * SIZE_1M;

		if (!rival->get(store, &compare->keys_1m[i], 1, want, SIZE_1M))
			return false;
		if (which == CENOTE && !compare_cenote_copy(store, &compare->keys_1m[i],
					       1, compare->target, want, SIZE_1M))
			return false;
	}
	return true;
}

/* ---- puts ---------------------------------------------------------------- */

static const unsigned char *fresh_source(struct compare *compare, size_t size)
{
	if (compare->source_at + size > SOURCE)
		compare->source_at = 0;
	compare->source_at += size;
	return compare->source + compare->source_at - size;
}

/* Around a ring: the oldest is removed first, which is not timed. The last put of the
 * slice is compared. */
static bool put_ring(struct compare *compare, int which)
{
	const struct rival *rival = rivals[which];
	void *store = compare->stores[which];
	const unsigned char *data = NULL;
	const struct compare_key *key = NULL;

	for (unsigned i = 0; i < SLICE_BIG; i++) {
		uint64_t start_ns;

		key = &compare->ring[compare->next[which] % RING];
		if (compare->next[which]++ >= RING && !rival->remove_all(store, key, 1))
			return false;
		data = fresh_source(compare, SIZE_1M);
		start_ns = tool_now_ns();
		if (!rival->put(store, key, data, SIZE_1M))
			return false;
		series_add(
			&compare->rows[which].put_1m, (double)(tool_now_ns() - start_ns));
	}
	return rival->get(store, key, 1, data, SIZE_1M);
}

static bool crew(struct compare *compare, int which)
{
	struct crew_work work = {
		.socket = socket_of(compare, which),
		.clients = (uint32_t)compare->options->clients,
		.depth = (uint32_t)compare->options->depth,
		.rounds = CREW_ROUNDS,
		.data = compare->source,
		.size = SIZE_2K,
	};
	double ns = crew_run(rivals[which], &work);

	if (ns > 0)
		series_add(&compare->rows[which].small, ns);
	return ns > 0;
}

/* ---- runs ---------------------------------------------------------------- */

static bool slices(
	struct compare *compare, unsigned count, bool (*slice)(struct compare *, int))
{
	for (unsigned i = 0; i < count * RIVALS; i++) {
		if (interrupt_came() || !slice(compare, (int)(i % RIVALS)))
			return false;
	}
	return true;
}

static double end_run(struct compare *compare, size_t row)
{
	struct series *cenote = (struct series *)((char *)&compare->rows[CENOTE] + row);
	struct series *redis = (struct series *)((char *)&compare->rows[REDIS] + row);
	double ns = series_end_run(cenote);

	return ns > 0 ? series_end_run(redis) / ns : 0;
}

/* All three on one CPU, or where they please. */
static void place(struct compare *compare, bool together)
{
	const pid_t pids[] = {0, compare->node.pid, compare->redis.pid};
	cpu_set_t set = compare->cpus;

	if (together && compare->result.cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(compare->result.cpu, &set);
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		(void)sched_setaffinity(pids[i], sizeof(set), &set);
}

static bool run(struct compare *compare)
{
	struct bench_result *result = &compare->result;

	place(compare, true);
	for (int which = 0; which < RIVALS; which++) {
		if (!check(compare, which))
			return false;
	}
	if (!slices(compare, SLICES, get_both) || !slices(compare, SLICES, put_ring))
		return false;
	place(compare, false);
	if (!slices(compare, CREW_SLICES, crew))
		return false;
	result_aimed(result, "ratio_get_4k",
		end_run(compare, offsetof(struct rows, get_4k)), AIM_AT_LEAST, 100);
	result_aimed(result, "ratio_get_1m",
		end_run(compare, offsetof(struct rows, get_1m)), AIM_AT_LEAST, 1000);
	result_aimed(result, "ratio_put_1m",
		end_run(compare, offsetof(struct rows, put_1m)), AIM_AT_LEAST, 2);
	result_aimed(result, "ratio_put_remove_2k_8_clients",
		end_run(compare, offsetof(struct rows, small)), AIM_AT_LEAST, 2);
	return true;
}

/* ---- begin and end ------------------------------------------------------- */

static bool fill(struct compare *compare, int which)
{
	const struct rival *rival = rivals[which];
	void *store = compare->stores[which];

	for (size_t i = 0; i < KEYS_4K; i++) {
		if (!rival->put(store, &compare->keys_4k[i],
			    compare->source + i * SIZE_4K, SIZE_4K))
			return false;
	}
	for (size_t i = 0; i < KEYS_1M; i++) {
		if (!rival->put(store, &compare->keys_1m[i],
			    compare->source + i * SIZE_1M, SIZE_1M))
			return false;
	}
	/* The ring comes once before it counts. */
	for (size_t i = 0; i < RING; i++, compare->next[which]++) {
		if (!rival->put(store, &compare->ring[i], compare->source, SIZE_1M))
			return false;
	}
	return true;
}

static bool begin(struct compare *compare)
{
	const struct own_node_options node = {.pool_bytes = compare->options->pool_bytes};
	struct bench_result *result = &compare->result;

	for (size_t i = 0; i < KEYS_4K; i++)
		compare_key(&compare->keys_4k[i], "4k", i);
	for (size_t i = 0; i < KEYS_1M; i++)
		compare_key(&compare->keys_1m[i], "1m", i);
	for (size_t i = 0; i < RING; i++)
		compare_key(&compare->ring[i], "ring", i);
	compare->source = touched_new(SOURCE);
	compare->target = touched_new(SIZE_1M);
	if (compare->source == NULL || compare->target == NULL)
		return false;
	for (size_t i = 0; i < SOURCE; i += 8)
		memcpy(compare->source + i, &(uint64_t){i * 0x9e3779b97f4a7c15ull}, 8);
	if (own_node_start(&compare->node, &node) != TOOL_OK ||
		!own_redis_start(&compare->redis))
		return false;
	for (int which = 0; which < RIVALS; which++) {
		compare->stores[which] = rivals[which]->open(socket_of(compare, which));
		if (compare->stores[which] == NULL)
			return false;
		if (which == CENOTE)
			compare_cenote_warm(compare->stores[which]);
		if (!fill(compare, which))
			return false;
	}
	return compare_cenote_pool(
		compare->stores[CENOTE], &result->pool_bytes, &result->page_size);
}

static void end(struct compare *compare)
{
	for (int which = 0; which < RIVALS; which++) {
		struct rows *rows = &compare->rows[which];
		struct series *all[] = {&rows->get_4k, &rows->copy_4k, &rows->get_1m,
			&rows->copy_1m, &rows->put_1m, &rows->small};

		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			series_fini(all[i]);
		if (compare->stores[which] != NULL)
			rivals[which]->close(compare->stores[which]);
	}
	own_redis_stop(&compare->redis);
	touched_free(compare->source, SOURCE);
	touched_free(compare->target, SIZE_1M);
}

static void name_rows(struct compare *compare)
{
	static const struct rows names[RIVALS] = {
		{.get_4k = {.name = "cenote get 4k"},
			.get_1m = {.name = "cenote get 1m"},
			.copy_4k = {.name = "cenote get_into 4k", .bytes = SIZE_4K},
			.copy_1m = {.name = "cenote get_into 1m", .bytes = SIZE_1M},
			.put_1m = {.name = "cenote put 1m", .bytes = SIZE_1M},
			.small = {.name = "cenote put+remove 2k"}},
		{.get_4k = {.name = "redis GET 4k", .bytes = SIZE_4K},
			.get_1m = {.name = "redis GET 1m", .bytes = SIZE_1M},
			.put_1m = {.name = "redis SET 1m", .bytes = SIZE_1M},
			.small = {.name = "redis SET+DEL 2k"}},
	};
	struct rows *cenote = &compare->rows[CENOTE], *redis = &compare->rows[REDIS];
	struct series *shown[] = {&cenote->get_4k, &cenote->copy_4k, &redis->get_4k,
		&cenote->get_1m, &cenote->copy_1m, &redis->get_1m, &cenote->put_1m,
		&redis->put_1m, &cenote->small, &redis->small};

	memcpy(compare->rows, names, sizeof(names));
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		result_row(&compare->result, shown[i]);
}

static int compare_all(const struct compare_options *options)
{
	struct compare *compare = calloc(1, sizeof(*compare));
	int exit_code = TOOL_OK;
	char note[128];

	if (compare == NULL)
		return TOOL_FAILED;
	compare->options = options;
	compare->redis.log_fd = -1;
	compare->result = (struct bench_result){.bench = "compare",
		.runs = (uint32_t)options->runs,
		.node_is_ours = true,
		.cpu = cpu_highest(-1)};
	if (sched_getaffinity(0, sizeof(compare->cpus), &compare->cpus) != 0)
		compare->result.cpu = -1;
	(void)snprintf(note, sizeof(note),
		"put+remove: %" PRIu64 " processes, %" PRIu64
		" in a batch or pipeline, on any CPU; the time is of one, over all.",
		options->clients, options->depth);
	result_note(&compare->result, note);
	name_rows(compare);
	if (!begin(compare))
		exit_code = TOOL_FAILED;
	for (uint64_t i = 0; i < options->runs && exit_code == TOOL_OK; i++)
		exit_code = run(compare) ? TOOL_OK : TOOL_FAILED;
	if (exit_code == TOOL_OK)
		exit_code = result_print(&compare->result, options->json);
	end(compare);
	if (own_node_stop(&compare->node) != TOOL_OK)
		exit_code = TOOL_FAILED;
	free(compare);
	return exit_code;
}

int main(int argc, char **argv)
{
	struct option_table table = OPTION_TABLE(compare_specs);
	struct compare_options options;
	char message[OPTION_MESSAGE_MAX];
	int count = 0;

	option_defaults(table, &options);
	if (option_parse(table, argc, argv, &options, &count, message) != 0 ||
		count > 0) {
		tool_complain(
			"compare: %s", count > 0 ? "there are no operands" : message);
		return TOOL_USAGE;
	}
	if (options.help) {
		(void)printf("Usage: run [OPTION]...\n\n"
			     "Cenote beside Redis over its Unix socket, in one run.\n\n");
		option_help(stdout, table);
		return tool_flush();
	}
	return compare_all(&options);
}
