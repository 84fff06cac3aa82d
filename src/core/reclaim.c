/*
 * reclaim.c - examine -> judge -> put back, or evict.
 *
 * A scan takes the coldest object off the inactive tail and judges it: used since the
 * last scan, it goes to the active list; blocked, it is parked and met no more until
 * something wakes it; else it may be evicted. Granting a hold touches no list: the marks
 * are read here.
 */
#include "core/master_priv.h"

void reclaim_evict(struct master *master, uint32_t slot, uint64_t now)
{
	uint64_t bytes = run_bytes(master, slot);

	lru_ghost_put(&master->lru, slot_at(master, slot)->hash,
		(uint32_t)(bytes / POOL_GRANULE));
	master->stats.evicted++;
	master->stats.evicted_bytes += bytes;
	master->stats.freed++;
	object_condemn(master, slot, now);
}

/* Keep the active list to half of the cache's bytes. */
static void balance(struct master *master, uint32_t *budget)
{
	uint32_t rounds = master->lru.active.count;

	while (rounds-- > 0 && *budget > 0 &&
		master->bytes_of[OBJECT_ACTIVE] > master->bytes_of[OBJECT_INACTIVE]) {
		uint32_t slot = master->lru.active.tail;

		(*budget)--;
		master->stats.examined++;
		if (hold_used(&master->watch, slot))
			object_place(master, slot, OBJECT_ACTIVE);
		else
			object_place(master, slot, OBJECT_INACTIVE);
	}
}

uint32_t reclaim_victim(struct master *master, uint64_t now, uint32_t *budget)
{
	while (*budget > 0) {
		uint32_t slot;

		balance(master, budget);
		slot = master->lru.inactive.tail;
		if (slot == SLOT_NONE)
			slot = master->lru.active.tail;
		if (slot == SLOT_NONE || *budget == 0)
			return SLOT_NONE;

		(*budget)--;
		master->stats.examined++;
		if (hold_used(&master->watch, slot))
			object_place(master, slot, OBJECT_ACTIVE);
		else if (object_blocked(master, slot, now) == 0 ||
			 !object_park(master, slot, now))
			return slot;
	}
	return SLOT_NONE;
}

void reclaim_start_if_low(struct master *master)
{
	uint64_t size = master->share->header->pool_size;

	if (free_bytes(master) < size / 1000 * master->config.low_permille)
		master->room.refilling = true;
}

bool reclaim_refill(struct master *master, uint64_t now, uint32_t *budget)
{
	uint64_t high = master->share->header->pool_size / 1000 *
			master->config.high_permille;
	uint64_t freed = master->stats.freed;
	bool more = false;

	if (!master->room.refilling)
		return false;
	while (free_bytes(master) < high) {
		uint32_t slot = reclaim_victim(master, now, budget);

		more = slot == SLOT_NONE && *budget == 0;
		/* An object larger than the reserve goes only for a put that needs it. */
		if (slot == SLOT_NONE || run_bytes(master, slot) > high)
			break;
		reclaim_evict(master, slot, now);
	}
	master->stats.scans++;
	master->stats.scans_that_freed += master->stats.freed != freed;
	/* Full enough, or nothing to take: the next put below `low` tries again. */
	master->room.refilling = more;
	return more;
}
