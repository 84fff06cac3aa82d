/*
 * bench.h - the settings of all benches, and the station as a run: its ranks, its verdict.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "tools/station_rank.h"
#include "tools/tool.h"

struct bench_options {
	struct tool_common common;
	uint64_t pool_bytes;
	uint64_t ranks;
	uint64_t steps;
	uint64_t live;
	uint64_t reads; /* enum bench_reads */
	uint64_t seed;
	bool flip_byte;
	bool json;
	bool progress;
	/* Of all but the station. */
	uint64_t runs;
	bool quick;
	const char *svg; /* NULL: no charts */
};

enum bench_reads {
	BENCH_READS_MANY,
	BENCH_READS_ONCE
};

/* What a run came to; the tallies of all ranks are merged in `all`. */
struct station_result {
	struct station_plan plan;
	struct station_tally all;
	uint64_t *step_ns; /* how long each step took */
	uint64_t in_use_base, in_use_end;
	bool in_use_known; /* whether the node could be asked at the end */
	uint64_t took_ns;
	uint32_t steps_done;
	uint32_t deaths;
	bool broken_off; /* by a death, an interrupt or too many failures */
	bool flip;
};

/* Whether it passed, all in all. */
bool station_passed(const struct station_result *result);

/* Median time for a byte moved, in the last quarter of the steps against the second; 0:
 * too few steps to tell. */
double station_flatness(const struct station_result *result);

/* Run it on the node that `socket` names. TOOL_FAILED: it could not be run at all. */
int station_run(const struct bench_options *options, const char *socket,
	struct station_result *ret);
void station_result_fini(struct station_result *result);

void station_print(const struct station_result *result);
int station_print_json(const struct station_result *result);

#endif
