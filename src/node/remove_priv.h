/*
 * remove_priv.h - what the flows that end objects share: REMOVE, TAKE, READ, and what other
 * nodes ask of the kind.
 *
 * Thread    the loop thread.
 */
#ifndef NODE_REMOVE_PRIV_H
#define NODE_REMOVE_PRIV_H

#include "node/node_priv.h"

/* op.state of each. */
enum remove_state {
	REMOVES_START,
	REMOVES_LOOK,     /* READ: the directory says who counts it */
	REMOVES_REPORTED, /* READ: and that node is counting it */
	REMOVES_CLUSTER,  /* removal.c has it */
	REMOVES_ENDED,
	REMOVES_PUT, /* DROP: a put that it ended is still ending another */
	REMOVES_DISK
};

/* ---- removal.c */

/* The generation that is READY under the key, or on disk; 0: none. */
uint64_t generation_here(const struct node *node, const struct index_key *key);
/* Begin the removal of this generation of op->key, 0: any, in the whole cluster. */
void removal_begin(struct op *op, uint64_t generation);
/* ---- holders.c */

/* Tell the peers at these places to end op->ends of op->key. */
void tell_begin(struct node *node, struct op *op, uint64_t places);
/* True: all have answered, or there is no more time. False: the op waits. Then op->had tells
 * whether one of them had it, and op->found whether anybody had; op->unreached_peers who may have
 * it still, op->disk_late whether one waits for its disk; op->generation is the highest that
 * ended, if any was to. */
bool tell_all(struct node *node, struct op *op);
/* Those that have not answered are left, and unreached; how many. */
uint32_t tell_leave(struct node *node, struct op *op);

/* ---- orphan.c */

/* The op waits no more for what the directory says of its removal. */
void orphan_leave(struct node *node, struct op *op);
/* A take ends that the directory may have done without an answer. */
void orphan_settle(struct node *node, const struct op *op);

/* ---- flow_remove.c */

/* From the step after the first on: elsewhere, and on the disk. */
void remove_go_on(struct node *node, struct op *op);
/* Answer, once the disk has forgotten what was ended; run again until then. */
void end_on_disk(struct node *node, struct op *op);
/* A read of op->generation was counted here, which had `before` ready under the key then: if
 * it was the last, the object ends everywhere. */
void read_counted(struct node *node, struct op *op, uint64_t before);

#endif
