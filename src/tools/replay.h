/*
 * replay.h - a trace against a node: for each request its prefix is read, block by block
 * up to the first that is missing, and what is missing is put.
 *
 * Blocks are cache objects. Every byte of every block read is checked.
 */
#ifndef TOOLS_REPLAY_H
#define TOOLS_REPLAY_H

#include "base/hist.h"
#include "tools/progress.h"
#include "tools/tool.h"
#include "tools/trace.h"

#define REPLAY_ERROR_MAX 400

struct replay_job {
	struct cenote *store;
	const struct trace *trace;
	uint64_t block_bytes;
	int64_t timeout_ms; /* of each call */
	struct progress *progress;
};

struct replay_result {
	uint64_t requests; /* done */
	uint64_t touches;  /* block ids of those */
	uint64_t prefix_hits;
	uint64_t puts, put_exists, failed_puts, failed_gets;
	uint64_t wrong_bytes;
	uint64_t put_bytes, get_bytes;
	uint64_t took_ns;
	struct hist get_ns, miss_ns, put_ns;
	char first_error[REPLAY_ERROR_MAX];
	bool broken_off; /* interrupted, or too many failures */
};

/* TOOL_FAILED: no memory for a block. */
int replay_run(const struct replay_job *job, struct replay_result *ret);

/* Of the blocks asked for, those found before the first miss of their request. */
double replay_hit_ratio(const struct replay_result *result);

bool replay_passed(const struct replay_result *result);

#endif
