/*
 * hold.h - how a client reads an object in place while the daemon may free it.
 *
 * Reader:  take (count + 1) -> look at the slot's state again -> use the bytes -> give
 * Daemon:  ask (want = 1), condemn, then look at all counts -> free if nobody holds
 *
 * Why it is safe: the count's increment, the second read of the state, the store of
 * CONDEMNED and the look are all seq_cst, so in their single order either the look sees
 * the hold or the reader sees CONDEMNED. `want` works alike between give and park: *ask,
 * then look*. Weaker orders were each shown to fail (tests/model).
 *
 *   FREE --slot_publish--> WRITING --slot_ready--> READY --slot_condemn--> CONDEMNED
 *    ^                        |                                                |
 *    +------slot_free---------+----------------------slot_free-----------------+
 *
 * Memory    a holder's counts are its own file; the daemon only clears HOLD_REF, and
 *           zeroes a file once its process is gone. It stores no count otherwise.
 * Thread    the reader's half: any thread of the client, wait-free. The daemon's half:
 *           its loop thread.
 */
#ifndef SHARE_HOLD_H
#define SHARE_HOLD_H

#include "share/layout.h"

#include <stdbool.h>
#include <string.h>

#define HOLD_REF   0x8000u /* the slot was used since the last reclaim scan */
#define HOLD_COUNT 0x7fffu
#define HOLD_LIMIT 0x7f00u /* leaves 255 racing threads below HOLD_REF */

/* ---- the reader's half --------------------------------------------------- */

/* One process's way to hold objects. */
struct holder {
	_Atomic uint16_t *counts; /* by slot number */
	/* Tell the daemon to look at `slot`; must not block, may drop the message. */
	void (*tell)(struct holder *holder, uint32_t slot);
};

enum hold_result {
	HOLD_NO,
	HOLD_OK,
	HOLD_TOO_MANY
};
enum hold_heat {
	HOLD_COLD,
	HOLD_HEAT
}; /* HOLD_HEAT marks the object as used */

static inline bool hold_take(struct holder *holder, uint32_t slot, enum hold_heat heat)
{
	_Atomic uint16_t *count = &holder->counts[slot];
	uint16_t old = atomic_fetch_add_explicit(count, 1, memory_order_seq_cst);

	if (__builtin_expect((old & HOLD_COUNT) >= HOLD_LIMIT, 0)) {
		atomic_fetch_sub_explicit(count, 1, memory_order_seq_cst);
		return false;
	}
	if (heat == HOLD_HEAT && !(old & HOLD_REF))
		atomic_fetch_or_explicit(count, HOLD_REF, memory_order_relaxed);
	return true;
}

/* The hold's line may come while the slot's line is on its way. */
static inline void hold_prefetch(const struct holder *holder, uint32_t slot)
{
	__builtin_prefetch(&holder->counts[slot], 1);
}

/* End one hold. False: there was none, the caller released twice. */
static inline bool hold_give(
	struct holder *holder, const struct slot *slots, uint32_t slot)
{
	uint16_t old = atomic_fetch_sub_explicit(
		&holder->counts[slot], 1, memory_order_seq_cst);

	if ((old & HOLD_COUNT) == 0)
		return false;
	if ((old & HOLD_COUNT) == 1 &&
		atomic_load_explicit(&slots[slot].want, memory_order_seq_cst))
		holder->tell(holder, slot);
	return true;
}

/* Hold slot number `slot` if it is READY. Every failure after the take goes through give,
 * with its look at `want`: a quiet clear would lose a wake-up. */
static inline enum hold_result hold_try(struct holder *holder, const struct slot *slots,
	uint32_t slot, enum hold_heat heat)
{
	uint64_t before = atomic_load_explicit(&slots[slot].state, memory_order_acquire);

	if (slot_kind_of(before) != SLOT_READY)
		return HOLD_NO;
	if (!hold_take(holder, slot, heat))
		return HOLD_TOO_MANY;
	if (atomic_load_explicit(&slots[slot].state, memory_order_seq_cst) != before) {
		hold_give(holder, slots, slot);
		return HOLD_NO;
	}
	return HOLD_OK;
}

/* ---- the daemon's half --------------------------------------------------- */

/* The counts of every client that is not yet proven gone, densely. */
struct hold_watch {
	_Atomic uint16_t *counts[CLIENT_LIMIT];
	uint32_t cids[CLIENT_LIMIT];
	uint32_t count;
};

void hold_watch_add(struct hold_watch *watch, uint32_t cid, _Atomic uint16_t *counts);
void hold_watch_drop(struct hold_watch *watch, uint32_t cid);

/* Whether any client holds the slot. */
static inline bool hold_look(const struct hold_watch *watch, uint32_t slot)
{
	unsigned held = 0;

	for (uint32_t i = 0; i < watch->count; i++)
		held |= atomic_load_explicit(
			&watch->counts[i][slot], memory_order_seq_cst);
	return (held & HOLD_COUNT) != 0;
}

/* Whether any client used the slot since the last call; clears the marks. */
bool hold_used(const struct hold_watch *watch, uint32_t slot);

/* The number of holds on the slot, of one client or of all (`cid` = CLIENT_LIMIT). */
uint32_t hold_count(const struct hold_watch *watch, uint32_t slot, uint32_t cid);

static inline void slot_want(struct slot *slot, bool want)
{
	atomic_store_explicit(&slot->want, want, memory_order_seq_cst);
}

/* The fields are written; show the slot to its writer. */
static inline void slot_publish(struct slot *slot)
{
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	atomic_store_explicit(&slot->state, SLOT_STATE(SLOT_WRITING, slot_life_of(state)),
		memory_order_release);
}

/* The bytes are whole; show them to readers. */
static inline void slot_ready(struct slot *slot)
{
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	atomic_store_explicit(&slot->state, SLOT_STATE(SLOT_READY, slot_life_of(state)),
		memory_order_release);
}

/* No new reader from here on. The caller looks afterwards, and frees if nobody holds. */
static inline void slot_condemn(struct slot *slot)
{
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	slot_want(slot, true);
	atomic_store_explicit(&slot->state,
		SLOT_STATE(SLOT_CONDEMNED, slot_life_of(state)), memory_order_seq_cst);
}

/* After a look that began after slot_condemn() and saw nothing, or when the writer of a
 * WRITING slot is out. Only then may the slot's memory be handed out. */
static inline void slot_free(struct slot *slot)
{
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	atomic_store_explicit(&slot->want, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->state,
		SLOT_STATE(SLOT_FREE, slot_life_of(state) + 1), memory_order_release);
}

#endif
