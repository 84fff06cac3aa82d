/*
 * fetch_priv.h - what the files of a fetch share.
 *
 *   flow_fetch.c   who waits for it, and its ends
 *   fetch_find.c   who has the object: the directory, or every live peer
 *   fetch_sources.c  who of them can be asked
 *   fetch_copy.c   its bytes come here
 *
 *   LOOK --holders--> ROOM -> GATE -> TURN -> ASK -> MOVE -> READY, a pin for each
 *    |  ^               ^                      '------'
 *    |  '- a newer one  |                         |- the source fails
 *    |     is wanted    '--- another source ------'- first: PAUSE -> REFRESH
 *    |
 *    |--the directory does not know--> HAVE --one has it--> ROOM
 *    |                                   '--nobody has--> REFRESH --still not--> absent
 *    |                                                       '--somebody does now--> ROOM
 *    '--absent, or stale: CLEAR--> absent
 *
 * In each state one thing is under way, whose end brings the next; what it has is given back
 * in one place, fetch_give_back(), whatever state it is left in.
 */
#ifndef NODE_FETCH_PRIV_H
#define NODE_FETCH_PRIV_H

#include "node/node_priv.h"

#define FETCH_ENDED_ANY UINT64_MAX /* in the place of a generation: each of them */

/* ---- flow_fetch.c -------------------------------------------------------- */

struct index_key fetch_key(const struct fetch *fetch);
static inline uint32_t fetch_index(const struct node *node, const struct fetch *fetch)
{
	return (uint32_t)(fetch - node->cluster.fetches);
}
/* How long somebody waits for it at most. */
uint64_t fetch_left_ns(const struct node *node, const struct fetch *fetch);

/* Ends of it, for all who wait. Each gives back what it has; who joined too late for what was
 * found begins it anew. */
void fetch_fail(struct node *node, struct fetch *fetch, int err);
void fetch_is_absent(struct node *node, struct fetch *fetch);
void fetch_is_unsettled(struct node *node, struct fetch *fetch);
void fetch_is_moot(struct node *node, struct fetch *fetch); /* they look again */
void fetch_is_ready(struct node *node, struct fetch *fetch, uint32_t slot);
/* It has nothing any more: it ends, or begins anew for who has come meanwhile. */
void fetch_stopped(struct node *node, struct fetch *fetch);

/* ---- fetch_find.c -------------------------------------------------------- */

void fetch_look(struct node *node, struct fetch *fetch);
/* The source in use does not give it. */
void fetch_source_failed(struct node *node, struct fetch *fetch, int err);
void fetch_refresh(struct node *node, struct fetch *fetch); /* its gate is open */

/* ---- fetch_sources.c ----------------------------------------------------- */

/* What the entry has this node as; DIR_LOADING: as nothing more. */
enum dir_role own_role(const struct node *node, const struct dir_entry *entry);
/* Who of an entry, other than this node, can be asked for it. */
void sources_find(struct node *node, const struct dir_entry *entry, struct sources *ret);
/* The next to be asked. False: there is none. */
bool sources_next(struct node *node, struct sources *sources, uint32_t *ret);
/* The list was read once more: what came of the earlier one still counts, and the source that
 * failed there is asked last. */
void sources_renew(
	struct sources *sources, const struct sources *old, uint32_t failed_place);
/* A put of this node has been given the generation, and is not READY yet. */
bool put_is_named(
	const struct node *node, const struct index_key *key, uint64_t generation);

/* ---- fetch_copy.c -------------------------------------------------------- */

void fetch_room(struct node *node, struct fetch *fetch);
void fetch_turn(struct node *node, struct fetch *fetch);
void fetch_past_gate(struct node *node, struct fetch *fetch, int err);
/* Give back room, slot, turn, ask and lease. False: bytes are on their way, which are stopped,
 * or the directory is asked; the end of that goes on. */
bool fetch_give_back(struct node *node, struct fetch *fetch);

#endif
