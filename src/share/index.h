/*
 * index.h - find an object's slot by its key, in the shared bucket arrays.
 *
 * The arrays are only a cache of the daemon's own map: a missing entry costs the client a
 * message, a wrong one a vain hold; never a wrong answer. So entries are read without any
 * version: tag and slot number may be torn, and the slot validates itself (hold.h).
 *
 * Two buckets a key, the first preferred, one kick when both are full. Deleting stores an
 * empty tag; there are no tombstones. Growth copies into a bigger array and then shows
 * it; old arrays stay as they are for readers that still probe them.
 *
 * Thread    index_find: any client thread. The rest: the daemon's loop thread.
 */
#ifndef SHARE_INDEX_H
#define SHARE_INDEX_H

#include "share/index_find.h"

/* Enter slot number `slot`; its hash is in the slot. False: both buckets are full, the
 * key will be served by message. */
bool index_add(struct share *share, uint32_t slot);

/* Take `slot` out of the current array, if it is in. */
void index_del(struct share *share, uint32_t slot);

/* Whether `slot` can be found: for checks. */
bool index_has(const struct share *share, uint32_t slot);

/* Copy everything into the (allocated, zeroed) array of 2^log2 buckets and show it. */
void index_grow(struct share *share, uint32_t log2);

/* Drop every entry that no READY slot backs: at a restart, before missing ones are added.
 */
void index_repair(struct share *share);

#endif
