/*
 * bench.h - the settings of all benches, and the station as a run: its ranks, its verdict.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "tools/station_optimum.h"
#include "tools/station_rank.h"
#include "tools/tool.h"

struct bench_options {
	struct tool_common common;
	uint64_t pool_bytes;
	const char *disk; /* NULL: the node has none */
	uint64_t disk_bytes;
	uint64_t ranks;
	uint64_t steps;
	uint64_t live;
	uint64_t reads; /* enum bench_reads */
	uint64_t seed;
	bool flip_byte;
	const char *nodes; /* sockets with commas; NULL: one node */
	uint64_t replicas;
	bool restart; /* ranks that are killed */
	uint64_t span_ns;
	const char *log; /* NULL: kept nowhere */
	bool json;
	bool progress;
	/* Of all but the station. */
	uint64_t runs;
	bool quick;
	const char *svg;         /* NULL: no charts */
	uint64_t lease_ns;       /* of reclaim */
	const char *peer_socket; /* of remote; NULL: it starts nodes of its own */
	uint64_t redis_port;
	bool tls; /* of remote: between its own nodes */
};

enum bench_reads {
	BENCH_READS_MANY,
	BENCH_READS_ONCE
};

/* What a node says of itself, before and after. */
struct station_node {
	uint64_t pool, in_use;
	uint64_t disk_size; /* 0: there is no disk */
	uint64_t disk_bytes, disk_used;
	uint64_t loaded_bytes, saved_bytes;
};

/* What a run came to; the tallies of all ranks are merged in `all`. */
struct station_result {
	struct station_plan plan;
	struct station_tally all;
	uint64_t *step_ns; /* how long each step took */
	struct station_node base, end;
	bool end_known;         /* whether the node could be asked at the end */
	uint64_t reserve_bytes; /* of the pool, that its watermark keeps free */
	struct station_optimum optimum;
	bool optimum_known;
	uint64_t took_ns;
	uint32_t nodes;
	uint16_t replicas;
	uint32_t steps_done, steps_wanted;
	uint32_t restarts; /* ranks that were killed, and went on */
	uint32_t deaths;
	bool broken_off; /* by a death, an interrupt or too many failures */
	bool flip;
};

/* Whether it passed, all in all. */
bool station_passed(const struct station_result *result);

/* Whether pool and disk are as they were. */
bool station_is_back(const struct station_result *result);

/* Mean time of a step in the last quarter, over that in the second; 0: too few steps. */
double station_step_ratio(const struct station_result *result);

/* Bytes read back from disk over bytes read, and the least that it could have been. */
double station_swapped_share(const struct station_result *result);
double station_swapped_share_optimal(const struct station_result *result, bool whole);

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
