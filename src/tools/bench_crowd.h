/*
 * bench_crowd.h - processes that are attached to the node while something is measured:
 * idle ones, and one that hits all the time and times itself.
 *
 * Units     ns.
 * Memory    crowd_init() .. crowd_fini(), which ends every process.
 * Errors    TOOL_FAILED, and a line on stderr has said why.
 * Thread    one.
 */
#ifndef TOOLS_BENCH_CROWD_H
#define TOOLS_BENCH_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CROWD_MAX 255

struct crowd_member {
	pid_t pid;
	int fd; /* our end; closing it ends the process */
};

/* What they share with us. */
struct crowd_shared {
	atomic_bool runs;
	_Atomic uint64_t median_ps; /* of a hit of the one that runs, CPU time */
	_Atomic uint64_t attach_ns[CROWD_MAX];
	_Atomic uint64_t table_bytes[CROWD_MAX]; /* page tables, by the attach */
};

struct crowd {
	const char *socket;
	int cpu; /* of the member that runs; -1: any */
	uint32_t objects;
	struct crowd_member members[CROWD_MAX];
	uint32_t count;
	struct crowd_shared *shared;
};

/* `objects` of hit_put() are there to be hit. */
int crowd_init(struct crowd *crowd, const char *socket, int cpu, uint32_t objects);
/* Until there are so many; member 0 can run. */
int crowd_grow(struct crowd *crowd, uint32_t count);
/* Let member 0 hit. */
int crowd_run(struct crowd *crowd);
/* Stop it: the CPU time of one of its hits, 0: it failed. */
double crowd_stop(struct crowd *crowd);
/* End all processes; more can be made afterwards. */
void crowd_end(struct crowd *crowd);
void crowd_fini(struct crowd *crowd);

/* CPU time of the calling thread. */
uint64_t crowd_cpu_ns(void);
/* A field of /proc/self/status in bytes, such as "VmPTE:". */
uint64_t crowd_status_bytes(const char *field);

#endif
