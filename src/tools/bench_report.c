/*
 * bench_report.c - what a run of the station came to: the verdict, for people and as
 * JSON.
 */
#include "base/bytes.h"
#include "tools/bench.h"
#include "tools/bench_series.h"
#include "tools/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAT_STEPS_MIN 40
#define FLAT_FACTOR    2.0
#define QUARTERS       4

static const char *const work_names[STATION_WORKS] = {
	[STATION_PUT + STATION_SMALL] = "put_small",
	[STATION_PUT + STATION_PAYLOAD] = "put_payload",
	[STATION_PUT + STATION_BATCH] = "put_batch",
	[STATION_PUT + STATION_WEIGHTS] = "put_weights",
	[STATION_GET + STATION_SMALL] = "get_small",
	[STATION_GET + STATION_PAYLOAD] = "get_payload",
	[STATION_GET + STATION_BATCH] = "get_batch",
	[STATION_GET + STATION_WEIGHTS] = "get_weights",
	[STATION_WAIT] = "get_waited",
	[STATION_REMOVE] = "remove",
};

/* ---- step times ---------------------------------------------------------- */

static uint64_t station_quarter_ns(const struct station_result *result, uint32_t quarter)
{
	uint32_t from = result->plan.steps * quarter / QUARTERS;
	uint32_t to = result->plan.steps * (quarter + 1) / QUARTERS;
	uint64_t sum = 0;

	if (to > result->steps_done || from == to)
		return 0;
	for (uint32_t step = from; step < to; step++)
		sum += result->step_ns[step];
	return sum / (to - from);
}

/* Bytes that are put and read in a step, which differ a lot between steps. */
static double station_step_bytes(
	const struct station_plan *plan, uint32_t step, struct station_object *objects)
{
	double bytes = 0;

	for (uint32_t later = 0; later < 2 && later <= step; later++) {
		uint32_t count = station_plan_step(plan, step - later, objects);

		for (uint32_t i = 0; i < count; i++) {
			unsigned uses = later == 0 ? 1 : 0;

			for (unsigned at = 0; at < objects[i].reader_count; at++)
				uses += objects[i].readers[at].reads[later];
			bytes += (double)objects[i].size * uses;
		}
	}
	return bytes;
}

/* The lower quartile: what else runs on the machine makes steps slower, never faster. */
static double station_quarter_cost(const struct station_result *result, uint32_t quarter,
	struct station_object *objects, double *costs)
{
	uint32_t from = result->plan.steps * quarter / QUARTERS;
	uint32_t count = result->plan.steps * (quarter + 1) / QUARTERS - from;

	for (uint32_t i = 0; i < count; i++)
		costs[i] = (double)result->step_ns[from + i] /
			   station_step_bytes(&result->plan, from + i, objects);
	qsort(costs, count, sizeof(*costs), double_order);
	return costs[count / 4];
}

double station_flatness(const struct station_result *result)
{
	struct station_object *objects;
	double *costs, flatness = 0;

	if (result->plan.steps < FLAT_STEPS_MIN ||
		result->steps_done < result->plan.steps)
		return 0;
	objects = calloc(station_plan_width(&result->plan), sizeof(*objects));
	costs = calloc(result->plan.steps, sizeof(*costs));
	if (objects != NULL && costs != NULL)
		flatness = station_quarter_cost(result, 3, objects, costs) /
			   station_quarter_cost(result, 1, objects, costs);
	free(objects);
	free(costs);
	return flatness;
}

double station_step_ratio(const struct station_result *result)
{
	uint64_t second_ns = station_quarter_ns(result, 1);

	if (result->plan.steps < QUARTERS || second_ns == 0)
		return 0;
	return (double)station_quarter_ns(result, 3) / (double)second_ns;
}

/* ---- use and swap -------------------------------------------------------- */

bool station_is_back(const struct station_result *result)
{
	const struct station_node *base = &result->base, *end = &result->end;

	return end->in_use == base->in_use && end->disk_bytes == base->disk_bytes &&
	       end->disk_used == base->disk_used;
}

static uint64_t station_swapped_bytes(const struct station_result *result)
{
	return result->end.loaded_bytes - result->base.loaded_bytes;
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

double station_swapped_share(const struct station_result *result)
{
	return share_of(station_swapped_bytes(result), result->all.get_bytes);
}

/* NAN: it is not known. */
double station_swapped_share_optimal(const struct station_result *result, bool whole)
{
	const struct station_optimum *optimum = &result->optimum;

	if (!result->optimum_known)
		return NAN;
	return share_of(whole ? optimum->swapped_bytes_whole : optimum->swapped_bytes,
		optimum->read_bytes);
}

/* NAN: it is not known, or nothing at all had to be read back. */
static double station_ratio_to_optimal(const struct station_result *result, bool whole)
{
	double optimal = station_swapped_share_optimal(result, whole);

	return optimal > 0 ? station_swapped_share(result) / optimal : NAN;
}

bool station_passed(const struct station_result *result)
{
	const struct station_tally *all = &result->all;

	return !result->broken_off && result->deaths == 0 && all->failed_puts == 0 &&
	       all->failed_gets == 0 && all->failed_removes == 0 &&
	       all->lost_objects == 0 && all->wrong_bytes == 0 &&
	       station_flatness(result) <= FLAT_FACTOR && result->end_known &&
	       station_is_back(result);
}

/* ---- for people ---------------------------------------------------------- */

static void print_moved(const struct station_result *result)
{
	const struct station_tally *all = &result->all;
	char put[TEXT_MAX], got[TEXT_MAX];

	(void)printf("%" PRIu64 " puts, %" PRIu64 " gets, %" PRIu64
		     " removes in %.1f s\n",
		all->puts, all->gets, all->removes, (double)result->took_ns / 1e9);
	for (unsigned i = 1; i < ARRAY_LEN(all->keepers) && result->replicas > 1; i++) {
		if (all->keepers[i] > 0)
			(void)printf("%" PRIu64 " puts kept by %u nodes at their end\n",
				all->keepers[i], i);
	}
	(void)printf("put %s, got and checked %s: %.2f GB/s\n",
		format_size(put, sizeof(put), all->put_bytes),
		format_size(got, sizeof(got), all->get_bytes),
		report_rate(all->put_bytes + all->get_bytes, result->took_ns));
}

static void print_swapped(const struct station_result *result)
{
	char out[TEXT_MAX], back[TEXT_MAX];

	if (result->base.disk_size == 0 || !result->end_known)
		return;
	(void)printf("written out %s, read back %s: %.2f %% of the bytes read",
		format_size(out, sizeof(out),
			result->end.saved_bytes - result->base.saved_bytes),
		format_size(back, sizeof(back), station_swapped_bytes(result)),
		100 * station_swapped_share(result));
	if (result->optimum_known)
		(void)printf("; the optimum is %.2f %%, with the whole pool %.2f %%",
			100 * station_swapped_share_optimal(result, false),
			100 * station_swapped_share_optimal(result, true));
	(void)printf("\n");
}

static void print_steps(const struct station_result *result)
{
	double flatness = station_flatness(result);

	(void)printf("steps %u of %u", result->steps_done, result->plan.steps);
	for (uint32_t quarter = 0; quarter < QUARTERS; quarter++)
		(void)printf("%s %.1f", quarter == 0 ? ", mean by quarter:" : " ",
			(double)station_quarter_ns(result, quarter) / 1e6);
	(void)printf(" ms");
	if (flatness > 0)
		(void)printf(
			"; time for a byte, last quarter against second: %.2f", flatness);
	(void)printf("\n");
}

static void print_verdict(const struct station_result *result)
{
	const struct station_tally *all = &result->all;

	(void)printf("failed puts %" PRIu64 ", failed gets %" PRIu64
		     ", failed removes %" PRIu64 ", lost objects %" PRIu64
		     ", wrong bytes %" PRIu64 "\n",
		all->failed_puts, all->failed_gets, all->failed_removes,
		all->lost_objects, all->wrong_bytes);
	if (result->end_known)
		(void)printf("in use: %" PRIu64 " bytes before, %" PRIu64 " at the end\n",
			result->base.in_use, result->end.in_use);
	if (result->end_known && result->base.disk_size > 0)
		(void)printf("on disk: %" PRIu64 " bytes before, %" PRIu64
			     " at the end\n",
			result->base.disk_bytes, result->end.disk_bytes);
	if (result->restarts > 0)
		(void)printf("%u ranks were killed and went on, %" PRIu64
			     " gets of what they had not put were made again\n",
			result->restarts, all->cut_gets);
	if (all->first_error[0] != '\0')
		(void)printf("first: %s\n", all->first_error);
	if (result->broken_off)
		(void)printf("broken off after step %u, %u ranks died\n",
			result->steps_done, result->deaths);
	(void)printf("%s\n", station_passed(result) ? "passed" : "FAILED");
}

void station_print(const struct station_result *result)
{
	const struct station_plan *plan = &result->plan;
	char pool[TEXT_MAX], peak[TEXT_MAX];

	if (result->nodes > 1)
		(void)printf("%u nodes, %u replicas\n", result->nodes, result->replicas);
	(void)printf(
		"station: %u ranks, %u steps, pool %s, live bytes up to %s (%u.%u %%), "
		"seed %" PRIu64 "%s\n\n",
		plan->ranks, plan->steps, format_size(pool, sizeof(pool), plan->pool),
		format_size(peak, sizeof(peak), plan->peak), plan->live / 10,
		plan->live % 10, plan->seed, result->flip ? ", one byte flipped" : "");
	report_latency_head();
	for (unsigned work = 0; work < STATION_WORKS; work++)
		report_latency(work_names[work], &result->all.latency[work]);
	(void)printf("\n");
	print_moved(result);
	print_swapped(result);
	print_steps(result);
	print_verdict(result);
}

/* ---- as JSON ------------------------------------------------------------- */

static void json_given(struct json *json, const struct station_plan *plan)
{
	json_str(json, "profile", "station");
	json_u64(json, "pool_bytes", plan->pool);
	json_u64(json, "ranks", plan->ranks);
	json_u64(json, "steps", plan->steps);
	json_u64(json, "live_permille", plan->live);
	json_u64(json, "live_bytes_peak", plan->peak);
	json_bool(json, "reads_once", plan->reads_once);
	json_u64(json, "seed", plan->seed);
}

static void json_tally(struct json *json, const struct station_result *result)
{
	const struct station_tally *all = &result->all;

	json_u64(json, "puts", all->puts);
	json_u64(json, "gets", all->gets);
	json_u64(json, "removes", all->removes);
	json_u64(json, "failed_puts", all->failed_puts);
	json_u64(json, "failed_gets", all->failed_gets);
	json_u64(json, "failed_removes", all->failed_removes);
	json_u64(json, "lost_objects", all->lost_objects);
	json_u64(json, "wrong_bytes", all->wrong_bytes);
	json_array_begin(json, "puts_by_keepers");
	for (unsigned i = 1; i <= result->replicas && result->replicas > 1; i++)
		json_u64(json, NULL, all->keepers[i]);
	json_array_end(json);
	json_u64(json, "bytes_in_use_base", result->base.in_use);
	if (result->end_known)
		json_u64(json, "bytes_in_use_end", result->end.in_use);
	json_u64(json, "dead_ranks", result->deaths);
	json_u64(json, "restarted_ranks", result->restarts);
	json_u64(json, "gets_of_cut_puts", all->cut_gets);
	json_u64(json, "put_bytes", all->put_bytes);
	json_u64(json, "get_bytes", all->get_bytes);
	json_f64(json, "seconds", (double)result->took_ns / 1e9);
	json_f64(json, "gb_per_s",
		report_rate(all->put_bytes + all->get_bytes, result->took_ns));
}

static void json_disk(struct json *json, const struct station_result *result)
{
	const struct station_node *base = &result->base, *end = &result->end;

	if (base->disk_size == 0 || !result->end_known)
		return;
	json_u64(json, "disk_bytes_base", base->disk_bytes);
	json_u64(json, "disk_bytes_end", end->disk_bytes);
	json_u64(json, "disk_used_base", base->disk_used);
	json_u64(json, "disk_used_end", end->disk_used);
	json_u64(json, "bytes_written_out", end->saved_bytes - base->saved_bytes);
	json_u64(json, "bytes_read_back", station_swapped_bytes(result));
	if (result->optimum_known)
		json_u64(json, "turning_bytes", result->optimum.turning_bytes);
	json_f64(json, "swapped_share", station_swapped_share(result));
	json_f64(json, "swapped_share_optimal",
		station_swapped_share_optimal(result, false));
	json_f64(json, "ratio_swapped_to_optimal",
		station_ratio_to_optimal(result, false));
	json_f64(json, "swapped_share_optimal_whole_pool",
		station_swapped_share_optimal(result, true));
}

static void json_latencies(struct json *json, const struct station_result *result)
{
	json_object_begin(json, "latency");
	for (unsigned work = 0; work < STATION_WORKS; work++)
		report_latency_json(json, work_names[work], &result->all.latency[work]);
	json_object_end(json);
	json_array_begin(json, "step_ms_by_quarter");
	for (uint32_t quarter = 0; quarter < QUARTERS; quarter++)
		json_f64(json, NULL, (double)station_quarter_ns(result, quarter) / 1e6);
	json_array_end(json);
	json_f64(json, "step_ratio_last_to_second_quarter", station_step_ratio(result));
	json_f64(json, "flatness", station_flatness(result));
}

int station_print_json(const struct station_result *result)
{
	char text[8192];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_given(&json, &result->plan);
	json_u64(&json, "nodes", result->nodes);
	json_u64(&json, "replicas", result->replicas);
	json_u64(&json, "steps_done", result->steps_done);
	json_tally(&json, result);
	json_disk(&json, result);
	json_latencies(&json, result);
	if (result->all.first_error[0] != '\0')
		json_str(&json, "first_error", result->all.first_error);
	json_bool(&json, "passed", station_passed(result));
	json_object_end(&json);
	return tool_print_json(&json);
}
