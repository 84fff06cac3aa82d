/*
 * env.h - the world behind four small tables, so that a node runs alike on a kernel and
 * in a simulation.
 *
 * The node calls these and nothing else that could block, wait or differ between two
 * runs. Events come the other way, through node_on_*() (node/node.h), never from inside a
 * call that the node made.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME; µs of the wall clock.
 * Errors    0 or a negative number of base/err.def.
 * Thread    the loop thread.
 */
#ifndef IO_ENV_H
#define IO_ENV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct env_clock {
	void *ctx;
	uint64_t (*boot_ns)(void *ctx);
	uint64_t (*wall_us)(void *ctx);
};

/* A connection of a client's; 0 is none. A client may have several: one a busy thread. */
struct lane_id {
	uint64_t value;
};

/* What tells a process from every other that ever had its pid. */
struct env_process {
	uint32_t pid;
	uint64_t start_time; /* clock ticks since boot */
};

/* Which segments go with a message, as descriptors. */
struct env_grant {
	uint32_t cid;
	uint32_t incarnation;
	bool pool_writable;
};

struct env_net {
	void *ctx;
	/* Send one message, with descriptors if `grant` is not NULL. A lane that cannot
	 * take it is closed, and its close is reported like any other. */
	void (*send)(void *ctx, struct lane_id lane, const void *message, size_t size,
		const struct env_grant *grant);
	void (*close)(void *ctx, struct lane_id lane);
	/* Report the end of the process at the lane's other end as that of client `cid`;
	 * who is watched already stays so, and the process is only told. */
	int (*watch_lane)(void *ctx, struct lane_id lane, uint32_t cid,
		struct env_process *ret_process);
	/* The same for a process known from an earlier run. ERR_NOT_FOUND: it is gone. */
	int (*watch_process)(void *ctx, const struct env_process *process, uint32_t cid);
	void (*unwatch)(void *ctx, uint32_t cid);
};

/* The shared segments' files. Later also the disk tier's. */
struct env_disk {
	void *ctx;
	/* Allocate the index file up to `bytes` from `offset`, so that no one meets a
	 * hole. */
	int (*index_extend)(void *ctx, uint64_t offset, uint64_t bytes);
	/* Create a zeroed counts file for `nslots`, or open one of an earlier run. */
	int (*holds_make)(void *ctx, uint32_t cid, uint32_t incarnation, uint32_t nslots,
		_Atomic uint16_t **ret_counts);
	int (*holds_open)(void *ctx, uint32_t cid, uint32_t incarnation,
		_Atomic uint16_t **ret_counts);
	int (*holds_extend)(void *ctx, uint32_t cid, uint32_t nslots);
	void (*holds_drop)(void *ctx, uint32_t cid, uint32_t incarnation);
};

struct env_random {
	void *ctx;
	void (*fill)(void *ctx, void *buffer, size_t size);
};

struct env {
	struct env_clock clock;
	struct env_net net;
	struct env_disk disk;
	struct env_random random;
	/* End this process as by SIGKILL; does not return. For faults, else NULL. */
	void (*die)(void *ctx);
	void *die_ctx;
};

#endif
