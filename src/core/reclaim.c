/*
 * reclaim.c - examine -> judge -> put back, or evict.
 *
 * A scan takes the coldest object off the inactive tail and judges it: used since the
 * last scan, it goes to the active list; blocked, it is parked and met no more until
 * something wakes it; else it may be evicted. Granting a hold touches no list: the marks
 * are read here.
 */
#include "core/master_priv.h"

/* Out of the pool with what is on disk: free for the asking. */
static void drop_clean(struct master *master, uint32_t slot, uint64_t bytes)
{
	object_forget_disk(master, slot);
	master->stats.dropped++;
	master->stats.dropped_bytes += bytes;
}

void reclaim_evict(struct master *master, uint32_t slot, uint64_t now)
{
	uint64_t bytes = run_bytes(master, slot);

	if (is_secondary(master, slot)) {
		master->cluster.spared++;
		master->cluster.spared_bytes += bytes;
		left_slot(master, slot, false);
	} else if (object_is_clean(object_at(master, slot))) {
		drop_clean(master, slot, bytes);
	} else {
		left_slot(master, slot, false);
		lru_ghost_put(&master->lru, slot_at(master, slot)->hash,
			(uint32_t)(bytes / POOL_GRANULE));
		master->stats.evicted++;
		master->stats.evicted_bytes += bytes;
	}
	master->stats.freed++;
	master->room.quiet_rounds = 0;
	object_condemn(master, slot, now);
}

static bool was_used(struct master *master, uint32_t slot)
{
	struct object *object = object_at(master, slot);

	if (!hold_used(&master->watch, slot))
		return false;
	if (object->hits < 3)
		object->hits++;
	return true;
}

static void spend(struct master *master, uint32_t *budget)
{
	(*budget)--;
	master->stats.examined++;
	if (master->room.woken > 0)
		master->room.woken--;
}

/* Where leases keep everything, what has come since is likely to be under one, too: it is
 * looked at in a while, together. */
static bool is_quiet(const struct master *master, uint64_t now)
{
	return now < master->room.quiet_ns && master->room.woken == 0;
}

static void be_quiet(struct master *master, uint64_t now)
{
	struct room *room = &master->room;

	room->woken = 0;
	if (master->parked.count == 0 || room->parked_other)
		return;
	room->quiet_ns = now + SWEEP_PERIOD_NS;
	room->quiet_rounds++;
}

/* Keep the active list to half of the cache's bytes. */
static void balance(struct master *master, uint32_t *budget)
{
	uint32_t rounds = master->lru.active.count;

	while (rounds-- > 0 && *budget > 0 &&
		master->bytes_of[OBJECT_ACTIVE] > master->bytes_of[OBJECT_INACTIVE]) {
		uint32_t slot = master->lru.active.tail;

		spend(master, budget);
		object_place(master, slot,
			was_used(master, slot) ? OBJECT_ACTIVE : OBJECT_INACTIVE);
	}
}

/* The object may go now; else it is parked. */
static bool may_go(struct master *master, uint32_t slot, uint64_t now)
{
	return object_blocked(master, slot, now) == 0 || !object_park(master, slot, now);
}

/* What is on disk and was read comes before what was not, the last written out first: that
 * will be read last. */
static uint32_t clean_victim(struct master *master, uint64_t now, uint32_t *budget)
{
	while (*budget > 0 && master->clean.count > 0 && !is_quiet(master, now)) {
		uint32_t slot = master->clean.tail;

		if (!object_was_read(master, slot))
			slot = master->clean.head;
		spend(master, budget);
		if (may_go(master, slot, now))
			return slot;
	}
	return SLOT_NONE;
}

static uint32_t cache_victim(struct master *master, uint64_t now, uint32_t *budget)
{
	while (*budget > 0 && !is_quiet(master, now)) {
		uint32_t slot;

		balance(master, budget);
		slot = master->lru.inactive.tail;
		if (slot == SLOT_NONE)
			slot = master->lru.active.tail;
		if (slot == SLOT_NONE)
			be_quiet(master, now);
		if (slot == SLOT_NONE || *budget == 0)
			return SLOT_NONE;

		spend(master, budget);
		if (was_used(master, slot))
			object_place(master, slot, OBJECT_ACTIVE);
		else if (may_go(master, slot, now))
			return slot;
	}
	return SLOT_NONE;
}

uint32_t reclaim_victim(struct master *master, uint64_t now, uint32_t *budget)
{
	uint32_t slot = clean_victim(master, now, budget);

	return slot != SLOT_NONE ? slot : cache_victim(master, now, budget);
}

bool reclaim_keeps(struct master *master, uint32_t slot, uint64_t now)
{
	if (object_at(master, slot)->list != OBJECT_CLEAN ||
		run_bytes(master, slot) < KEEP_LEAST || object_was_read(master, slot))
		return false;
	return lend_start(master, slot, now) != LEND_NOT ||
	       save_spent_first(master, run_bytes(master, slot));
}

void reclaim_start_if_low(struct master *master)
{
	uint64_t size = master->share->header->pool_size;

	if (free_bytes(master) < size / 1000 * master->config.low_permille)
		master->room.refilling = true;
}

/* A cache object that was hit again and again goes to the disk, if that has room. */
static bool keep_on_disk(struct master *master, uint32_t slot)
{
	const struct disk *disk = &master->disk;
	uint64_t limit = disk->config.data_size / 1000 * disk->config.cache_permille;

	if (object_is_clean(object_at(master, slot)) || is_secondary(master, slot) ||
		object_at(master, slot)->hits < 2 ||
		disk->cache_bytes + slot_at(master, slot)->size > limit ||
		!disk_has_room(master, slot_at(master, slot)->size))
		return false;
	master_save_first(master, slot);
	return true;
}

bool reclaim_refill(struct master *master, uint64_t now, uint32_t *budget)
{
	uint64_t high = master->share->header->pool_size / 1000 *
			master->config.high_permille;
	uint64_t freed = master->stats.freed, examined = master->stats.examined;
	bool more = false, saves = false;

	if (!master->room.refilling || master->room.refill_waits)
		return false;
	while (free_bytes(master) < high) {
		uint32_t slot = reclaim_victim(master, now, budget);

		more = slot == SLOT_NONE && *budget == 0;
		/* An object larger than the reserve goes only for a put that needs it. */
		if (slot == SLOT_NONE || run_bytes(master, slot) > high)
			break;
		if (reclaim_keeps(master, slot, now)) {
			saves = true;
			break;
		}
		if (keep_on_disk(master, slot))
			saves = true;
		else
			reclaim_evict(master, slot, now);
	}
	/* What is being written out is met again as it becomes clean. */
	saves |= (disk_is_usable(master) || hand_is_allowed(master)) &&
		 master->dirty.count + master->spent.count + master->saving.count > 0 &&
		 free_bytes(master) < high;
	master->stats.scans += master->stats.examined != examined;
	master->stats.scans_that_freed += master->stats.freed != freed;
	/* Full enough, or nothing to take: the next put below `low` tries again. */
	master->room.refilling = more || saves;
	master->room.refill_waits = !more && saves;
	return more;
}
