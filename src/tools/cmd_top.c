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

struct top_line {
	const char *path, *name;
};

/* Of the pool; together they are its size. */
static const struct top_line top_states[] = {
	{"pool.free", "free"},
	{"pool.withheld", "free, kept"},
	{"pool.granted", "granted to puts"},
	{"pool.writing", "being written"},
	{"pool.dirty", "softpin"},
	{"pool.spent", "softpin, read"},
	{"pool.saving", "softpin, on its way"},
	{"pool.clean", "on disk as well"},
	{"pool.lent", "the same, lent room"},
	{"pool.large", "the same, too large"},
	{"pool.active", "cache, active"},
	{"pool.inactive", "cache, inactive"},
	{"pool.parked", "in use"},
	{"pool.moving", "being moved"},
	{"pool.condemned", "removed, still read"},
};

/* What happens; shown as a total, and a second. */
static const struct top_line top_rates[] = {
	{"counters.puts", "puts"},
	{"counters.removes", "removes"},
	{"counters.takes", "takes"},
	{"counters.messages", "messages"},
	{"counters.errors", "errors"},
	{"counters.waits_room", "waits for room"},
	{"counters.waits_key", "waits for a key"},
	{"counters.examined", "examined"},
	{"counters.freed", "freed"},
	{"counters.scans", "scans"},
	{"counters.scans_that_freed", "scans that freed"},
	{"counters.parked_lease", "parked: lease"},
	{"counters.parked_hold", "parked: hold"},
	{"counters.parked_both", "parked: both"},
	{"counters.parked_io", "parked: disk"},
	{"counters.parked_pin", "parked: answer"},
	{"counters.leases", "leases"},
	{"counters.leases_released", "released early"},
	{"counters.evicted_bytes", "evicted bytes"},
	{"counters.relocated_bytes", "relocated bytes"},
};

/* The same, of a node with a disk. */
static const struct top_line top_disk_rates[] = {
	{"counters.saved_bytes", "written out, bytes"},
	{"counters.loaded_bytes", "read back, bytes"},
	{"counters.dropped_bytes", "left the pool, bytes"},
	{"counters.loads", "loads"},
	{"counters.save_errors", "failed writes"},
	{"counters.load_errors", "failed reads"},
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

static void top_lines(const struct top_line *lines, size_t count, const char *now,
	const char *before, uint64_t passed_ns)
{
	for (size_t i = 0; i < count; i++)
		top_rate(lines[i].name, lines[i].path, now, before, passed_ns);
}

static const char *top_size(char text[TEXT_MAX], const char *now, const char *path)
{
	return format_size(text, TEXT_MAX, top_number(now, path));
}

static void top_head(const char *now)
{
	char pool[TEXT_MAX], hole[TEXT_MAX], turning[TEXT_MAX];

	(void)printf("pool %s · %" PRIu64
		     " objects · largest hole %s · turning room %s\n",
		top_size(pool, now, "pool.size"), top_number(now, "pool.objects"),
		top_size(hole, now, "pool.largest_hole"),
		top_size(turning, now, "pool.turning"));
	(void)printf("%" PRIu64 " clients · %" PRIu64 " requests under way, %" PRIu64
		     " of them wait for room · %" PRIu64 " leases\n\n",
		top_number(now, "node.clients"), top_number(now, "node.operations"),
		top_number(now, "pool.waiting"), top_number(now, "pool.leases"));
}

/* "", or the name of the error for which nothing is written out now. */
struct top_error {
	char text[64];
};

static int top_find_error(
	void *arg, const char *path, const char *value, size_t value_size)
{
	struct top_error *error = arg;

	if (strcmp(path, "disk.error") != 0)
		return 0;
	(void)snprintf(error->text, sizeof(error->text), "%.*s", (int)value_size, value);
	return 1;
}

static void top_disk(const char *now)
{
	uint64_t size = top_number(now, "disk.size");
	char files[TEXT_MAX], bytes[TEXT_MAX], only[TEXT_MAX], saving[TEXT_MAX];
	struct top_error error = {""};

	(void)stats_walk(now, top_find_error, &error);
	(void)printf("\ndisk: %" PRIu64 " objects of %s, %" PRIu64
		     " of %s only there · files %s\n"
		     "%s on its way out · %" PRIu64 " changes of the index · %" PRIu64
		     " loads under way%s%s\n\n",
		top_number(now, "disk.objects"), top_size(bytes, now, "disk.bytes"),
		top_number(now, "disk.objects_only"),
		top_size(only, now, "disk.only_bytes"),
		top_size(files, now, "disk.backed"),
		top_size(saving, now, "disk.saving_bytes"),
		top_number(now, "disk.changes"), top_number(now, "disk.loads_under_way"),
		error.text[0] != '\0' ? " · NOT WRITING: " : "", error.text);
	top_bar("used", top_number(now, "disk.used"), size);
	top_bar("free", top_number(now, "disk.free"), size);
}

static void top_draw(const char *now, const char *before, uint64_t passed_ns)
{
	uint64_t size = top_number(now, "pool.size");
	bool has_disk = top_number(now, "disk.size") > 0;

	top_head(now);
	for (size_t i = 0; i < ARRAY_LEN(top_states); i++)
		top_bar(top_states[i].name, top_number(now, top_states[i].path), size);
	if (has_disk)
		top_disk(now);
	(void)putchar('\n');
	top_lines(top_rates, ARRAY_LEN(top_rates), now, before, passed_ns);
	if (has_disk)
		top_lines(top_disk_rates, ARRAY_LEN(top_disk_rates), now, before,
			passed_ns);
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
