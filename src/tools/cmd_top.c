/*
 * cmd_top.c - cenote top: what a node's pool is full of and what happens in it, live.
 */
#include "base/bytes.h"
#include "tools/interrupt.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOP_BAR_WIDTH 40

struct top_options {
	struct tool_common common;
	uint64_t interval_ns;
	bool once;
	bool json;
};

static const struct option_spec top_specs[] = {
	{.name = "interval",
		.letter = 'i',
		.type = OPTION_DURATION,
		.default_text = "1s",
		.min = 50 * 1000 * 1000,
		.max = 3600ull * 1000 * 1000 * 1000,
		.help = "How often it is drawn.",
		.offset = offsetof(struct top_options, interval_ns)},
	{.name = "once",
		.type = OPTION_FLAG,
		.help = "Draw it once, without rates, and end.",
		.offset = offsetof(struct top_options, once)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "With --once: the node's statistics as JSON.",
		.offset = offsetof(struct top_options, json)},
	TOOL_COMMON_OPTIONS,
};

static const struct {
	const char *path, *name;
} top_states[] = {
	{"pool.free", "free"},
	{"pool.withheld", "free, being cleared"},
	{"pool.granted", "granted to puts"},
	{"pool.writing", "being written"},
	{"pool.dirty", "softpin"},
	{"pool.active", "cache, active"},
	{"pool.inactive", "cache, inactive"},
	{"pool.parked", "in use"},
	{"pool.moving", "being moved"},
	{"pool.condemned", "removed, still read"},
};

static const struct {
	const char *path, *name;
} top_rates[] = {
	{"counters.puts", "puts"},
	{"counters.removes", "removes"},
	{"counters.takes", "takes"},
	{"counters.evicted", "evicted"},
	{"counters.evicted_bytes", "evicted bytes"},
	{"counters.relocated_bytes", "relocated bytes"},
	{"counters.messages", "messages"},
	{"counters.waits_room", "waits for room"},
	{"counters.waits_key", "waits for a key"},
	{"counters.errors", "errors"},
};

static uint64_t top_number(const char *json, const char *path)
{
	uint64_t value = 0;

	return json != NULL && stats_u64(json, path, &value) ? value : 0;
}

static void top_bar(const char *name, uint64_t bytes, uint64_t size)
{
	char bar[TOP_BAR_WIDTH + 1], text[TEXT_MAX];
	double share = size == 0 ? 0 : (double)bytes / (double)size;
	int full = (int)(share * TOP_BAR_WIDTH + 0.5);

	memset(bar, '.', TOP_BAR_WIDTH);
	memset(bar, '#', (size_t)MIN(full, TOP_BAR_WIDTH));
	bar[TOP_BAR_WIDTH] = '\0';
	(void)printf("%-20s [%s] %5.1f%%  %s\n", name, bar, share * 100,
		format_size(text, sizeof(text), bytes));
}

static void top_rate(const char *name, const char *path, const char *now,
	const char *before, uint64_t passed_ns)
{
	uint64_t value = top_number(now, path);

	(void)printf("%-20s %16" PRIu64, name, value);
	if (before != NULL && passed_ns > 0)
		(void)printf("  %12.0f /s", (double)(value - top_number(before, path)) *
						    1e9 / (double)passed_ns);
	(void)putchar('\n');
}

static void top_draw(const char *now, const char *before, uint64_t passed_ns)
{
	uint64_t size = top_number(now, "pool.size");
	char pool[TEXT_MAX], hole[TEXT_MAX];

	(void)printf("pool %s · %" PRIu64 " objects · largest hole %s · %" PRIu64
		     " clients\n\n",
		format_size(pool, sizeof(pool), size), top_number(now, "pool.objects"),
		format_size(hole, sizeof(hole), top_number(now, "pool.largest_hole")),
		top_number(now, "node.clients"));
	for (size_t i = 0; i < ARRAY_LEN(top_states); i++)
		top_bar(top_states[i].name, top_number(now, top_states[i].path), size);
	(void)putchar('\n');
	for (size_t i = 0; i < ARRAY_LEN(top_rates); i++)
		top_rate(top_rates[i].name, top_rates[i].path, now, before, passed_ns);
}

static int top_once(struct cenote *store, bool as_json)
{
	char *text;
	int result = cenote_info(store, CENOTE_INFO_STATS, &text);

	if (result != 0)
		return tool_failed("top", NULL, result);
	if (as_json)
		(void)puts(text);
	else
		top_draw(text, NULL, 0);
	cenote_free(text);
	return tool_flush();
}

static void top_pause(uint64_t interval_ns)
{
	struct timespec pause = {.tv_sec = (time_t)(interval_ns / 1000000000),
		.tv_nsec = (long)(interval_ns % 1000000000)};

	(void)nanosleep(&pause, NULL);
}

static int top_live(struct cenote *store, uint64_t interval_ns)
{
	char *before = NULL, *now;
	uint64_t before_ns = 0, now_ns;
	int result = TOOL_OK;

	interrupt_catch();
	while (result == TOOL_OK && !interrupt_came()) {
		int answer = cenote_info(store, CENOTE_INFO_STATS, &now);

		if (answer != 0) {
			result = tool_failed("top", NULL, answer);
			break;
		}
		now_ns = tool_now_ns();
		(void)fputs(isatty(STDOUT_FILENO) == 1 ? "\x1b[H\x1b[J" : "\n", stdout);
		top_draw(now, before, now_ns - before_ns);
		result = tool_flush();
		cenote_free(before);
		before = now;
		before_ns = now_ns;
		top_pause(interval_ns);
	}
	cenote_free(before);
	return result;
}

static int top_run(const void *arg, int count, char **operands)
{
	const struct top_options *options = arg;
	struct cenote *store;
	int result;

	(void)count, (void)operands;
	if (options->json && !options->once) {
		tool_complain("top: --json goes with --once");
		return TOOL_USAGE;
	}
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = options->once ? top_once(store, options->json)
			       : top_live(store, options->interval_ns);
	cenote_close(store);
	return result;
}

const struct tool_command tool_top = {
	.name = "top",
	.operands = "",
	.summary = "watch a node: bytes by state, and what happens a second",
	.text = "Draws until it is interrupted.",
	.operand_min = 0,
	.operand_max = 0,
	.options = {top_specs, ARRAY_LEN(top_specs)},
	.options_size = sizeof(struct top_options),
	.run = top_run,
};
