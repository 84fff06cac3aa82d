/*
 * bench_result.c - the rows and figures of a small bench, for people and as JSON.
 */
#include "tools/bench_result.h"

#include "base/bytes.h"
#include "base/check.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_SIZE (64u << 10)

/* ---- gather -------------------------------------------------------------- */

void result_row(struct bench_result *result, struct series *series)
{
	CHECK(result->row_count < BENCH_ROWS_MAX);
	result->rows[result->row_count++] = series;
}

void result_aimed(struct bench_result *result, const char *name, double value,
	enum aim aim, double aimed)
{
	struct figure *figure = result->figures;
	const struct figure *end = figure + result->figure_count;

	while (figure < end && strcmp(figure->name, name) != 0)
		figure++;
	if (figure == end) {
		CHECK(result->figure_count < BENCH_FIGURES_MAX);
		result->figure_count++;
		*figure = (struct figure){.name = name, .aim = aim, .aimed = aimed};
	}
	CHECK(figure->count < BENCH_RUNS_MAX);
	figure->values[figure->count++] = value;
}

void result_figure(struct bench_result *result, const char *name, double value)
{
	result_aimed(result, name, value, AIM_NONE, 0);
}

void result_note(struct bench_result *result, const char *note)
{
	CHECK(result->note_count < BENCH_NOTES_MAX);
	result->notes[result->note_count++] = note;
}

const char *result_time(char *text, size_t size, double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	unsigned unit = 0;

	for (; ns >= 1000 && unit < 3; unit++)
		ns /= 1000;
	(void)snprintf(text, size, "%.*f %s",
		ns < 10    ? 2
		: ns < 100 ? 1
			   : 0,
		ns, units[unit]);
	return text;
}

static double row_rate(struct series *row)
{
	double ns = series_percentile(row, 50);

	return ns > 0 ? (double)row->bytes / ns : 0;
}

/* ---- for people ---------------------------------------------------------- */

static void print_head(const struct bench_result *result)
{
	char pool[TEXT_MAX];

	(void)printf("%s: pool %s on pages of %" PRIu64 " KiB, runs %" PRIu32,
		result->bench, format_size(pool, sizeof(pool), result->pool_bytes),
		result->page_size >> 10, result->runs);
	if (result->cpu >= 0)
		(void)printf(", %s on CPU %d",
			result->node_is_ours ? "all processes"
					     : "this process and its peer (not the node)",
			result->cpu);
	(void)printf("\n");
	for (uint32_t i = 0; i < result->note_count; i++)
		(void)printf("%s\n", result->notes[i]);
}

static void print_rows(const struct bench_result *result)
{
	char p50[TEXT_MAX], p99[TEXT_MAX], p999[TEXT_MAX];

	(void)printf("\n%-24s %9s %10s %10s %10s %8s\n", "", "count", "p50", "p99",
		"p99.9", "GB/s");
	for (uint32_t i = 0; i < result->row_count; i++) {
		struct series *row = result->rows[i];

		(void)printf("%-24s %9zu %10s %10s %10s", row->name, row->count,
			result_time(p50, sizeof(p50), series_percentile(row, 50)),
			result_time(p99, sizeof(p99), series_percentile(row, 99)),
			result_time(p999, sizeof(p999), series_percentile(row, 99.9)));
		if (row->bytes > 0)
			(void)printf(" %8.2f", row_rate(row));
		(void)printf("\n");
	}
}

static void print_figures(struct bench_result *result)
{
	(void)printf(
		"\n%-32s %10s   %s\n", "median of the runs", "", "lowest .. highest");
	for (uint32_t i = 0; i < result->figure_count; i++) {
		struct figure *figure = &result->figures[i];
		double median = median_of(figure->values, figure->count);
		bool is_met = figure->aim == AIM_AT_LEAST ? median >= figure->aimed
							  : median <= figure->aimed;

		(void)printf("%-32s %10.4g   %.4g .. %.4g", figure->name, median,
			figure->values[0], figure->values[figure->count - 1]);
		if (figure->aim != AIM_NONE)
			(void)printf("   (at %s %g: %s)",
				figure->aim == AIM_AT_LEAST ? "least" : "most",
				figure->aimed, is_met ? "met" : "MISSED");
		(void)printf("\n");
	}
}

/* ---- as JSON ------------------------------------------------------------- */

static void json_rows(struct json *json, const struct bench_result *result)
{
	json_object_begin(json, "rows");
	for (uint32_t i = 0; i < result->row_count; i++) {
		struct series *row = result->rows[i];

		json_object_begin(json, row->name);
		json_u64(json, "count", row->count);
		json_f64(json, "p50_us", series_percentile(row, 50) / 1000);
		json_f64(json, "p99_us", series_percentile(row, 99) / 1000);
		json_f64(json, "p999_us", series_percentile(row, 99.9) / 1000);
		if (row->bytes > 0)
			json_f64(json, "gb_per_s", row_rate(row));
		json_object_end(json);
	}
	json_object_end(json);
}

static int print_json(struct bench_result *result)
{
	char *text = malloc(JSON_SIZE);
	struct json json;
	int exit_code;

	if (text == NULL) {
		tool_complain("bench: no memory");
		return TOOL_FAILED;
	}
	json_init(&json, text, JSON_SIZE);
	json_object_begin(&json, NULL);
	json_str(&json, "profile", result->bench);
	json_u64(&json, "runs", result->runs);
	json_u64(&json, "page_size", result->page_size);
	json_u64(&json, "pool_bytes", result->pool_bytes);
	json_i64(&json, "cpu", result->cpu);
	json_bool(&json, "node_is_pinned", result->node_is_ours && result->cpu >= 0);
	for (uint32_t i = 0; i < result->figure_count; i++) {
		struct figure *figure = &result->figures[i];

		json_f64(&json, figure->name, median_of(figure->values, figure->count));
	}
	json_rows(&json, result);
	json_object_end(&json);
	exit_code = tool_print_json(&json);
	free(text);
	return exit_code;
}

int result_print(struct bench_result *result, bool json)
{
	for (uint32_t i = 0; i < result->row_count; i++) {
		if (!result->rows[i]->is_short)
			continue;
		tool_complain(
			"bench: no memory for the times of %s", result->rows[i]->name);
		return TOOL_FAILED;
	}
	if (json)
		return print_json(result);
	print_head(result);
	print_rows(result);
	print_figures(result);
	return tool_flush();
}
