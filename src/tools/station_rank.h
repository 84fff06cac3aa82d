/*
 * station_rank.h - one rank of the station: a client process that puts, reads and removes
 * what the plan gives to it, and counts.
 *
 * Memory    struct station_shared lies in memory that all ranks and their parent map;
 *           each rank writes its own tally only.
 * Thread    one for each rank.
 */
#ifndef TOOLS_STATION_RANK_H
#define TOOLS_STATION_RANK_H

#include "base/hist.h"
#include "tools/station_barrier.h"
#include "tools/station_plan.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STATION_ERROR_MAX    400
#define STATION_FAILURES_MAX 64 /* in all; then the run is broken off */

/* What is measured apart. The first STATION_KINDS are puts, the next gets, by kind. */
enum station_work {
	STATION_PUT,
	STATION_GET = STATION_PUT + STATION_KINDS,
	STATION_WAIT = STATION_GET +
		       STATION_KINDS, /* a get that came before the put's end */
	STATION_REMOVE,
	STATION_WORKS
};

struct station_tally {
	uint64_t puts, gets, removes;
	uint64_t failed_puts, failed_gets, failed_removes;
	uint64_t lost_objects; /* put, and not there when its owner removed it */
	uint64_t wrong_bytes;
	uint64_t put_bytes, get_bytes;
	struct hist latency[STATION_WORKS]; /* ns */
	char first_error[STATION_ERROR_MAX];
};

struct station_shared {
	struct station_barrier barrier;
	_Atomic uint32_t steps_done;
	_Atomic uint32_t failures;
	uint64_t start_ns, end_ns; /* monotonic, by rank 0 */
	uint64_t *step_end_ns;     /* of each step of the plan; by rank 0 */
	struct station_tally *tallies;
};

struct station_job {
	const struct station_plan *plan;
	struct station_shared *shared;
	const char *socket; /* NULL: the library's default */
	int64_t timeout_ms; /* of each call */
	bool flip;          /* one byte of `flipped` is written wrong */
	struct station_object flipped;
	int log_fd; /* of station_log_open(); -1: nothing is logged */
};

/* The process's whole work, from attaching on. Its exit status: 0, or 1 if it could not.
 */
int station_rank_run(const struct station_job *job, uint32_t rank);

#endif
