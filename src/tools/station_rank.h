/*
 * station_rank.h - one rank of the station: a client process that puts, reads and removes
 * what the plan gives to it, and counts.
 *
 * What it has done is noted in memory that outlives it, so that another process can go on in its
 * place: it makes the call again that was cut, and those behind it.
 *
 * Memory    struct station_shared lies in memory that all ranks and their parent map;
 *           each rank writes its own tally and its own place only.
 * Thread    one for each rank.
 */
#ifndef TOOLS_STATION_RANK_H
#define TOOLS_STATION_RANK_H

#include "base/hist.h"
#include "cenote/cenote.h"
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
	uint64_t cut_gets; /* of what was seen before its put ended, which was then cut */
	uint64_t put_bytes, get_bytes;
	/* Puts, by how many nodes kept the object at their end. */
	uint64_t keepers[CENOTE_REPLICAS_MAX + 1];
	struct hist latency[STATION_WORKS]; /* ns */
	char first_error[STATION_ERROR_MAX];
};

/* Steps of which objects may live, weights apart. */
#define STATION_RING (STATION_LIFE_MAX + 1)

/* Where a rank is; written by its process alone, in words that are whole whenever that ends. */
struct station_place {
	_Atomic uint64_t at; /* the step; the lower 32 bits: its puts and gets made */
	_Atomic bool busy;   /* within a call */
	/* Of each object of these steps: it was put, by this rank, and not removed since. */
	_Atomic bool *stored[STATION_RING];
	struct station_object weights; /* the last that this rank put */
	_Atomic bool weights_stored;
};

struct station_shared {
	struct station_barrier barrier;
	_Atomic uint32_t steps_done;
	_Atomic uint32_t failures;
	_Atomic uint32_t steps_wanted; /* of the plan; less if its time is up before */
	uint64_t start_ns, end_ns;     /* monotonic, by rank 0 */
	uint64_t *step_end_ns;         /* of each step of the plan; by rank 0 */
	struct station_tally *tallies;
	struct station_place *places;
};

struct station_job {
	const struct station_plan *plan;
	struct station_shared *shared;
	const char *const *sockets; /* of the nodes; NULL: the library's default */
	bool restart;   /* ranks may be killed, and others go on in their place */
	uint32_t nodes; /* the ranks are spread over them in turn */
	uint16_t replicas;
	uint64_t span_ns;   /* no new step behind this; UINT64_MAX: those of the plan */
	int64_t timeout_ms; /* of each call */
	bool flip;          /* one byte of `flipped` is written wrong */
	struct station_object flipped;
	int log_fd; /* of station_log_open(); -1: nothing is logged */
};

/* The process's whole work, from attaching on, or, `again`, from where another one was that
 * was killed. Its exit status: 0, or 1 if it could not. */
int station_rank_run(const struct station_job *job, uint32_t rank, bool again);

#endif
