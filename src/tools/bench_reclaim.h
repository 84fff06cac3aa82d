/*
 * bench_reclaim.h - what the parts of the bench of reclaim share.
 *
 * Units     bytes, ns; leases in ms.
 * Memory    a part and its puts live as long as its threads.
 * Errors    TOOL_FAILED, and a line on stderr has said why.
 * Thread    a part's atomic fields and its own puts by its threads, all else by one.
 */
#ifndef TOOLS_BENCH_RECLAIM_H
#define TOOLS_BENCH_RECLAIM_H

#include "tools/bench_micro.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RECLAIM_SIZE     (1u << 20)
#define RECLAIM_TRANSFER 30 /* a transfer takes such a part of its lease */

enum reclaim_figure {
	FIGURE_EXAMINED, /* for each that was freed */
	FIGURE_SCANS,    /* share of those that freed */
	FIGURE_WAITED,   /* share of the puts that found no room at once */
	FIGURE_UNLEASED, /* share that was evicted before its lease came */
	RECLAIM_FIGURES
};

struct reclaim_bench {
	struct micro *micro;
	int64_t lease_ms;
	unsigned char *source; /* RECLAIM_SIZE bytes */
	uint64_t free_bytes;   /* of the empty pool */
	uint32_t capacity;     /* objects that it has room for */
	const char *release_names[RECLAIM_FIGURES], *ttl_names[RECLAIM_FIGURES];
	struct series put_release, put_ttl, room, trip;
};

/* Of the node, so far. */
struct reclaim_counts {
	uint64_t examined, freed, scans, scans_that_freed, waits, free, size;
};

enum reclaim_put_state {
	PUT_NOT_YET,
	PUT_LEASED,
	PUT_UNLEASED
};

struct reclaim_put {
	_Atomic int state; /* stored after the others */
	struct cenote_lease lease;
	uint64_t took_ns;
	uint64_t release_ns; /* when its transfer ends */
};

struct reclaim_part {
	struct reclaim_bench *bench;
	bool releases;
	const char *name; /* in the keys */
	const char *const *figures;
	struct series *series;
	struct reclaim_put *puts;
	uint32_t warm; /* puts until counting begins */
	uint32_t count;
	uint64_t interval_ns, start_ns;
	_Atomic uint32_t done;     /* puts */
	_Atomic uint32_t unleased; /* puts whose object was gone before its lease */
	_Atomic int err;           /* the first that came */
	atomic_bool ended;
};

/* Sleep until then. */
void reclaim_pause(uint64_t when_ns);
/* Puts so far that found no room at once. */
int reclaim_waits(struct micro *micro, uint64_t *ret);
/* Until the pool is as empty as it was. */
int reclaim_wait_empty(struct reclaim_bench *bench);

/* bench_reclaim_room.c: from the release of a lease to the room of a put that waits. */
int reclaim_room_run(struct reclaim_bench *bench);

#endif
