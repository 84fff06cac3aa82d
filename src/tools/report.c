/*
 * report.c - latencies as lines and as JSON; what of a node's pool is in use.
 */
#include "tools/report.h"

#include "base/bytes.h"
#include "tools/stats.h"

#include <inttypes.h>
#include <stdio.h>

void report_latency_head(void)
{
	(void)printf("%-16s %10s %10s %10s %10s\n", "", "count", "p50", "p99", "max");
}

void report_latency(const char *name, const struct hist *hist)
{
	char p50[TEXT_MAX], p99[TEXT_MAX], max[TEXT_MAX];

	if (hist_count(hist) == 0)
		return;
	(void)printf("%-16s %10" PRIu64 " %10s %10s %10s\n", name, hist_count(hist),
		format_duration(p50, sizeof(p50), hist_percentile(hist, 50)),
		format_duration(p99, sizeof(p99), hist_percentile(hist, 99)),
		format_duration(max, sizeof(max), hist_max(hist)));
}

void report_latency_json(struct json *json, const char *name, const struct hist *hist)
{
	json_object_begin(json, name);
	json_u64(json, "count", hist_count(hist));
	json_f64(json, "p50_us", (double)hist_percentile(hist, 50) / 1000);
	json_f64(json, "p99_us", (double)hist_percentile(hist, 99) / 1000);
	json_f64(json, "max_us", (double)hist_max(hist) / 1000);
	json_object_end(json);
}

double report_rate(uint64_t bytes, uint64_t ns)
{
	return ns == 0 ? 0 : (double)bytes / (double)ns;
}

bool report_bytes_in_use(const char *stats_json, uint64_t *ret)
{
	uint64_t size, free, withheld;

	if (!stats_u64(stats_json, "pool.size", &size) ||
		!stats_u64(stats_json, "pool.free", &free) ||
		!stats_u64(stats_json, "pool.withheld", &withheld))
		return false;
	/* What is withheld is free, but kept for whom it was cleared. */
	*ret = size - free - withheld;
	return true;
}
