/*
 * orphan.c - puts that nobody will end, and which the daemon must hear of.
 *
 * A put whose call failed for want of an answer may be under way all the same, and its
 * run would stay reserved for as long as this process lives. So it is noted, and aborted
 * over the next lane that works. Where the answer to its start never came, the slot is
 * found in the shared index by the writer and its number of the put.
 */
#include "client/client_priv.h"

#include <stdlib.h>

#define ORPHANS_PER_CALL 16

void orphan_add(struct cenote *store, const struct orphan *orphan)
{
	pthread_mutex_lock(&store->lock);
	if (store->orphan_count == store->orphans_size) {
		size_t size = store->orphans_size * 2 + 16;
		struct orphan *more = realloc(store->orphans, size * sizeof(*more));

		if (more != NULL) {
			store->orphans = more;
			store->orphans_size = size;
		}
	}
	/* Without memory it stays reserved until this process ends. */
	if (store->orphan_count < store->orphans_size)
		store->orphans[store->orphan_count++] = *orphan;
	pthread_mutex_unlock(&store->lock);
}

static bool orphan_take(struct cenote *store, struct orphan *ret_orphan)
{
	bool is_there;

	pthread_mutex_lock(&store->lock);
	is_there = store->orphan_count > 0;
	if (is_there)
		*ret_orphan = store->orphans[--store->orphan_count];
	pthread_mutex_unlock(&store->lock);
	return is_there;
}

/* Whether slot number `at` is the orphan's; what is read may be in motion, the daemon
 * compares again. */
static bool orphan_is(const struct orphan *orphan, uint32_t at)
{
	const struct attachment *attachment = orphan->attachment;
	const struct slot *slot = &attachment->share.slots[at];
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
	const volatile uint32_t *writer = &slot->writer;
	const volatile uint64_t *op = &slot->op;

	return slot_kind_of(state) == SLOT_WRITING &&
	       *writer == client_ref(attachment->cid, attachment->incarnation) &&
	       *op == orphan->op;
}

static bool orphan_find(struct orphan *orphan)
{
	uint32_t nslots = atomic_load_explicit(
		&orphan->attachment->share.header->nslots, memory_order_acquire);

	for (uint32_t at = 0; orphan->slot == SLOT_NONE && at < nslots; at++) {
		if (!orphan_is(orphan, at))
			continue;
		orphan->slot = at;
		orphan->life = slot_life_of(
			atomic_load_explicit(&orphan->attachment->share.slots[at].state,
				memory_order_relaxed));
	}
	return orphan->slot != SLOT_NONE;
}

/* 0: the daemon has heard of it. */
static int orphan_abort(struct call *call, const struct orphan *orphan)
{
	struct msg_put_abort msg = {.slot = orphan->slot, .life = orphan->life};
	int err;

	do {
		err = call_exchange(call,
			msg_put_abort_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_CLIENT);
	} while (err == CALL_AGAIN && call->lane->attachment == orphan->attachment);
	return err == CALL_AGAIN ? 0 : err;
}

void orphans_flush(struct call *call)
{
	struct orphan orphan;

	for (int i = 0; i < ORPHANS_PER_CALL && orphan_take(call->store, &orphan); i++) {
		if (orphan.attachment != call->lane->attachment || !orphan_find(&orphan))
			continue;
		if (orphan_abort(call, &orphan) != 0) {
			orphan_add(call->store, &orphan);
			return;
		}
	}
}
