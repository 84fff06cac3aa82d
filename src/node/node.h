/*
 * node.h - one node of Cenote: the local master with its clients, over a given world.
 *
 * Memory    node_new() allocates all it needs (address space for the largest index; pages
 *           are used as they are touched); node_free() frees it. The segments stay.
 * Errors    negative numbers of base/err.def.
 * Thread    one: the loop thread calls everything here; ten nodes fit in one process.
 * Order     node_new, node_start (adopts the pool), then events; node_step after each
 *           batch of events, and again when node_next() has come.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "core/master.h"
#include "fault/fault.h"
#include "io/env.h"
#include "node/config.h"

struct node;

/* `share` is mapped with a valid header (ipc/segment.h
 * makes it); it outlives the node. */
int node_new(struct node **ret, const struct node_config *config, const struct env *env,
	struct share *share, struct fault_table *faults);
void node_free(struct node *node);

/* Adopt what is in the pool, watch the clients that live. */
int node_start(struct node *node, struct recovery *ret);

/* ---- events -------------------------------------------------------------- */

/* A lane was accepted: `uid` of the process at its other end. */
void node_on_open(struct node *node, struct lane_id lane, uint32_t uid);
/* One whole message came; it is copied or done with on return. */
void node_on_message(
	struct node *node, struct lane_id lane, const void *message, size_t size);
void node_on_close(struct node *node, struct lane_id lane);
/* The watched process of client `cid` has ended. */
void node_on_exit(struct node *node, uint32_t cid);

/* Job number `job` of env.tier has ended: 0, or its error. */
void node_on_tier(struct node *node, uint32_t job, int err);

/* Do what is due, in bounded slices. True: call again at once, there is more. */
bool node_step(struct node *node);
/* When node_step() has something to do; UINT64_MAX = only after an event. */
uint64_t node_next(const struct node *node);

/* For tests, the simulator and the admin calls. */
struct master *node_master(struct node *node);
/* NULL, or what is broken in the node or its core. */
const char *node_check(const struct node *node);

#endif
