/*
 * world.h - the real world behind io/env.h: sockets, processes, segments, clocks.
 *
 * Events come from inside loop_turn() through struct world_events, never from inside a
 * call of the env's. A lane that is closed, by the other end, by a failed send or on
 * order, is reported exactly once, and its descriptor is closed then.
 *
 * Memory    world_open() allocates its tables; `dir` and `loop` outlive it.
 * Errors    0 or a negative number of base/err.def.
 * Thread    the loop thread.
 * Order     world_open, world_env, world_listen, loop_turn with world_turn after each,
 *           world_close.
 */
#ifndef IPC_WORLD_H
#define IPC_WORLD_H

#include "base/list.h"
#include "io/env.h"
#include "io/loop.h"
#include "ipc/segment.h"
#include "ipc/socket.h"

struct world_events {
	void *ctx;
	void (*open)(void *ctx, struct lane_id lane, uint32_t uid);
	void (*message)(void *ctx, struct lane_id lane, const void *message, size_t size);
	void (*close)(void *ctx, struct lane_id lane);
	void (*exit)(void *ctx, uint32_t cid);
};

struct world_lane {
	struct loop_source source; /* fd -1: the entry is free */
	struct list entry;         /* in world.free or world.closing, or in none */
	struct world *world;
	uint32_t life;   /* of the entry: a lane's id is never used again */
	uint32_t sender; /* pid that sent the last message */
	struct socket_peer peer;
};

struct world_process {
	struct loop_source source; /* a pidfd; -1: nobody is watched */
	struct world *world;
	struct env_process process;
};

struct world {
	struct loop *loop;
	struct segment_dir *dir;
	struct world_events events;
	struct loop_source listener;
	bool listens;
	struct world_lane *lanes;
	uint32_t lane_limit, lanes_open;
	struct list free, closing;
	struct world_process processes[CLIENT_LIMIT];
	unsigned char *buffer; /* the message that came */
};

int world_open(struct world *world, struct loop *loop, struct segment_dir *dir,
	uint32_t lane_limit) MUST_CHECK;
void world_close(struct world *world);

/* The tables that call this world. */
void world_env(struct world *world, struct env *ret_env);

/* Take connections at `listener` from now on, and report everything to `events`. */
int world_listen(
	struct world *world, int listener, const struct world_events *events) MUST_CHECK;
/* Take no more; the descriptor is the caller's again. */
void world_stop_listening(struct world *world);

/* Report what was closed; true: there was something. After each loop_turn(), and after
 * each turn of the node. */
bool world_turn(struct world *world);

#endif
