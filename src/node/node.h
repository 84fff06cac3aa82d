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
#include "dir/dir.h"
#include "fault/fault.h"
#include "io/env.h"
#include "node/config.h"

struct node;

/* What makes a node part of a cluster. */
struct node_cluster {
	struct dir dir;
	uint64_t id;          /* of this node, for good; never 0 */
	uint64_t incarnation; /* of its pool's content; never 0 */
	const char *name;     /* of the cluster; the caller's */
	const char *endpoint; /* where others reach this node; the caller's */
};

/* `share` is mapped with a valid header (ipc/segment.h
 * makes it); it outlives the node. */
int node_new(struct node **ret, const struct node_config *config, const struct env *env,
	struct share *share, struct fault_table *faults);
void node_free(struct node *node);
/* Before node_start(), if env.peer is there. */
int node_join_cluster(struct node *node, const struct node_cluster *cluster);

/* Adopt what is in the pool and on the disk, watch the clients that live. ERR_TOO_MANY: the disk has
 * more objects than may be there; nothing of it was changed. The log says which limit. */
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

/* ---- events of a cluster ------------------------------------------------- */

/* The connection to place `peer` stands; or does not, or no more. */
void node_on_peer_up(struct node *node, uint32_t peer);
void node_on_peer_down(struct node *node, uint32_t peer, int err);
/* What came back over it; its channel is that of the request, if there was one. */
void node_on_peer_answer(struct node *node, uint32_t peer, uint32_t channel,
	const void *message, size_t size);
/* Another node has connected, has asked, is gone. `address`: where from, for the log. */
void node_on_link(struct node *node, struct link_id link, const char *address);
void node_on_link_message(struct node *node, struct link_id link, uint32_t channel,
	const void *message, size_t size);
void node_on_link_close(struct node *node, struct link_id link);
/* A fetch has ended: 0 and the checksum of all bytes; ERR_LEASE_EXPIRED, ERR_CORRUPT,
 * ERR_TIMEOUT, ERR_TRANSFER_FAIL. */
void node_on_fetch(struct node *node, uint32_t number, int err, uint64_t checksum);
/* Of the directory: see dir/dir.h. */
void node_on_dir(struct node *node, struct dir_call *call);
void node_on_epoch(struct node *node, uint32_t domain, uint64_t epoch);

/* Do what is due, in bounded slices. True: call again at once, there is more. */
bool node_step(struct node *node);
/* When node_step() has something to do; UINT64_MAX = only after an event. */
uint64_t node_next(const struct node *node);

/* The node is to end in order, within seconds. It takes nothing new, ends what it has begun
 * with other nodes, and takes its leave of them and of the directory; its own clients are served
 * meanwhile. Over at once for a node that is alone. */
void node_leave(struct node *node);
bool node_has_left(const struct node *node);

/* For tests, the simulator and the admin calls. */
struct master *node_master(struct node *node);
/* NULL, or what is broken in the node or its core. */
const char *node_check(const struct node *node);

#endif
