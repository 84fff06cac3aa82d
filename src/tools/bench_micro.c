/*
 * bench_micro.c - what the small benches share: the store, the peer of the round trip,
 * keys, the result.
 */
#include "tools/bench_micro.h"

#include "base/attr.h"
#include "tools/interrupt.h"
#include "tools/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define QUICK_PART 10u

static const struct {
	const char *name;
	micro_fn run;
} benches[] = {
	{"hit", bench_hit},
	{"put", bench_put},
	{"get", bench_get},
	{"batch", bench_batch},
	{"clients", bench_clients},
	{"growth", bench_growth},
	{"reclaim", bench_reclaim},
	{"disk", bench_disk},
	{"remote", bench_remote},
};

micro_fn micro_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(benches); i++) {
		if (strcmp(benches[i].name, name) == 0)
			return benches[i].run;
	}
	return NULL;
}

uint32_t micro_rounds(const struct micro *micro, uint32_t full)
{
	uint32_t part = full / QUICK_PART;

	if (!micro->options->quick)
		return full;
	return part == 0 ? 1 : part;
}

int micro_failed(const char *verb, int error)
{
	return tool_failed(verb, NULL, error);
}

struct cenote_key micro_key(char *text, const char *prefix, uint64_t number)
{
	int length = snprintf(text, MICRO_KEY_SIZE + 1, "bench/%s/", prefix);

	(void)snprintf(text + length, (size_t)(MICRO_KEY_SIZE + 1 - length), "%0*" PRIu64,
		MICRO_KEY_SIZE - length, number);
	return (struct cenote_key){.data = text, .size = MICRO_KEY_SIZE};
}

char *micro_stats(struct micro *micro)
{
	char *text = NULL;
	int err = cenote_info(micro->store, CENOTE_INFO_STATS, &text);

	if (err == 0)
		return text;
	(void)micro_failed("bench", err);
	return NULL;
}

int micro_touch_pool(struct micro *micro)
{
	struct cenote_writer writer;
	char key[MICRO_KEY_SIZE + 1];
	uint64_t largest = 0;
	char *stats;

	/* In a node of others it would push their objects out. */
	if (micro->node == NULL)
		return TOOL_OK;
	stats = micro_stats(micro);
	if (stats == NULL)
		return TOOL_FAILED;
	(void)stats_u64(stats, "pool.largest_hole", &largest);
	cenote_free(stats);
	largest -= largest / 16; /* its bookkeeping, and what is being freed */
	if (cenote_create(micro->store, micro_key(key, "touch", 0), largest, NULL,
		    &writer) == 0)
		(void)cenote_abort(micro->store, &writer);
	return TOOL_OK;
}

static int micro_begin(struct micro *micro)
{
	char *stats;

	/* Forked before anything is attached. */
	if (!echo_start(&micro->echo))
		return TOOL_FAILED;
	if (tool_connect(&micro->options->common, false, &micro->store) != TOOL_OK)
		return TOOL_FAILED;
	stats = micro_stats(micro);
	if (stats == NULL)
		return TOOL_FAILED;
	(void)stats_u64(stats, "pool.page_size", &micro->result.page_size);
	(void)stats_u64(stats, "pool.size", &micro->result.pool_bytes);
	cenote_free(stats);
	return TOOL_OK;
}

int micro_run(micro_fn bench, const char *name, const struct bench_options *options,
	const struct bench_place *place)
{
	struct bench_options mine = *options;
	struct micro micro = {
		.options = &mine,
		.place = place,
		.socket = place->socket,
		.node = place->node,
		.other_cpu = place->other_cpu,
		.runs = (uint32_t)options->runs,
		.echo = {.fd = -1},
		.result = {.bench = name,
			.runs = (uint32_t)options->runs,
			.cpu = place->cpu,
			.node_is_ours = place->node != NULL},
	};
	int exit_code;

	mine.common.socket = place->socket;
	exit_code = micro_begin(&micro);
	if (exit_code == TOOL_OK)
		exit_code = bench(&micro);
	cenote_close(micro.store);
	echo_stop(&micro.echo);
	if (exit_code == TOOL_OK && interrupt_came())
		exit_code = TOOL_FAILED;
	return exit_code;
}
