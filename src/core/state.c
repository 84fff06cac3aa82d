/*
 * state.c - the moves of an object between its states and lists.
 *
 *   FREE --master_put_start--> WRITING --object_show--> INACTIVE, ACTIVE or DIRTY (READY)
 *   FREE --arrival_open--> WRITING --object_arrive--> the same, or CLEAN or LENT (READY)
 *   READY --object_park--> PARKED --object_unpark--> READY
 *   READY --relocate_start--> MOVING --master_move_done--> CONDEMNED
 *   READY, PARKED, MOVING --object_condemn--> CONDEMNED --object_settle--> FREE
 *   WRITING --object_drop--> FREE
 *
 * An object off the lists reclaim takes from has `want` set before the look that saw a
 * hold (ask, then look), so its last release comes as a message.
 */
#include "core/master_priv.h"

#include "base/plant.h"

#include <string.h>

/* ---- slots --------------------------------------------------------------- */

void object_begin(struct object *object)
{
	object->disk = DISK_NONE;
	object->read = object->urgent = false;
	object->hits = 0;
	object->refused = 0;
}

uint32_t slot_alloc(struct master *master)
{
	uint32_t slot = master->free_head;

	if (slot != SLOT_NONE) {
		master->free_head = object_at(master, slot)->chain;
		master->free_slots--;
	} else if (master->slots_used < nslots_of(master)) {
		slot = master->slots_used++;
	} else {
		return SLOT_NONE;
	}
	object_begin(object_at(master, slot));
	return slot;
}

void slot_name(struct master *master, uint32_t slot, uint32_t block,
	const struct index_key *key, uint64_t size)
{
	struct slot *there = slot_at(master, slot);

	object_at(master, slot)->block = block;
	object_at(master, slot)->woken_ns = 0;
	there->off = extent_off_bytes(&master->extents, block);
	there->size = size;
	there->klen = (uint16_t)key->size;
	memcpy(key->size <= KEY_INLINE ? there->key
				       : master->share->pool + there->off + size,
		key->data, key->size);
	there->hash = key->hash;
}

static void slot_release(struct master *master, uint32_t slot)
{
	object_at(master, slot)->chain = master->free_head;
	master->free_head = slot;
	master->free_slots++;
}

/* ---- lists --------------------------------------------------------------- */

struct object_queue *object_queue_of(
	struct master *master, uint32_t slot, enum object_list list)
{
	const struct slot *there = slot_at(master, slot);

	switch (list) {
	case OBJECT_WRITING:
		if (there->flags & SLOT_COPY)
			return &master->writing[CLIENT_LIMIT];
		return &master->writing[there->writer % CLIENT_LIMIT];
	case OBJECT_INACTIVE:
		return &master->lru.inactive;
	case OBJECT_ACTIVE:
		return &master->lru.active;
	case OBJECT_DIRTY:
		return &master->dirty;
	case OBJECT_SPENT:
		return &master->spent;
	case OBJECT_CLEAN:
		return &master->clean;
	case OBJECT_LENT:
		return &master->lent;
	case OBJECT_LARGE:
		return &master->large;
	case OBJECT_SAVING:
		return &master->saving;
	case OBJECT_PARKED:
		return &master->parked;
	case OBJECT_MOVING:
		return &master->moving;
	case OBJECT_CONDEMNED:
		return &master->condemned;
	case OBJECT_FREE:
	case OBJECT_LIST_COUNT:
		break;
	}
	NOT_REACHED("no such list");
}

void object_place(struct master *master, uint32_t slot, enum object_list list)
{
	struct object *object = object_at(master, slot);
	enum object_list old = (enum object_list)object->list;
	uint64_t bytes = run_bytes(master, slot);

	if (old != OBJECT_FREE) {
		object_unlink(object_queue_of(master, slot, old), master->objects, slot);
		master->bytes_of[old] -= bytes;
	}
	object->list = list & 15u;
	if (list == OBJECT_FREE)
		return;
	master->bytes_of[list] += bytes;
	/* Of what is cold, what another node keeps goes first. */
	if (list == OBJECT_INACTIVE && is_secondary(master, slot))
		object_push_tail(&master->lru.inactive, master->objects, slot);
	else
		object_push_head(
			object_queue_of(master, slot, list), master->objects, slot);
}

/* ---- what blocks an object ----------------------------------------------- */

/* Its bytes are being written out, those that lie in the index with the commit; or its
 * record is to say how often it was read before it may leave. */
static bool object_has_io(const struct master *master, uint32_t slot)
{
	uint32_t entry = object_at(master, slot)->disk;
	const struct disk_entry *there;

	if (entry == DISK_NONE)
		return false;
	there = disk_entry(&master->disk, entry);
	if (there->state == DISK_STORED)
		return disk_is_being_put(there);
	return there->state == DISK_SAVING &&
	       (there->writing || there->committing != DISK_NO_CHANGE);
}

static bool is_spared(const struct master *master, uint32_t slot, uint64_t now)
{
	return now < master->spare_until && kind_at(master, slot) == SLOT_READY &&
	       (slot_at(master, slot)->flags & (SLOT_SOFTPIN | SLOT_SECONDARY)) ==
		       (SLOT_SOFTPIN | SLOT_SECONDARY);
}

unsigned object_blocked(const struct master *master, uint32_t slot, uint64_t now)
{
	const struct relocating *move = &master->room.move;
	unsigned why = 0;

	if (!PLANTED(SKIPPED_LOOK) && hold_look(&master->watch, slot))
		why |= BLOCK_HOLD;
	if (!PLANTED(UNCOUNTED_PIN) && object_at(master, slot)->pins > 0)
		why |= BLOCK_PIN;
	if (!PLANTED(IGNORED_LEASE) && slot_at(master, slot)->lease_end > now)
		why |= BLOCK_LEASE;
	if (move->busy && move->from == slot)
		why |= BLOCK_COPY;
	if (object_has_io(master, slot))
		why |= BLOCK_IO;
	if (is_spared(master, slot, now))
		why |= BLOCK_SPARED;
	return why;
}

void object_arm(struct master *master, uint32_t slot, uint64_t now)
{
	const struct slot *there = slot_at(master, slot);
	const struct object *object = object_at(master, slot);
	bool off_lists = object->list == OBJECT_PARKED ||
			 object->list == OBJECT_CONDEMNED;
	bool leased = lease_outstanding(&master->leases, slot, life_at(master, slot)) > 0;
	uint64_t when = UINT64_MAX;

	if (object->list != OBJECT_CONDEMNED && there->flags & SLOT_EXPIRES)
		when = there->expires;
	if ((off_lists || leased) && there->lease_end > now && there->lease_end < when)
		when = there->lease_end;
	if (object->list == OBJECT_PARKED && is_spared(master, slot, now))
		when = MIN(when, master->spare_until);
	if (object->list == OBJECT_PARKED && object->relook && now + REARM_NS < when)
		when = now + REARM_NS;
	if (when == UINT64_MAX)
		heap_remove(&master->timers, slot);
	else
		heap_set(&master->timers, slot, when);
}

/* ---- the moves ----------------------------------------------------------- */

static enum object_list clean_list(const struct master *master, uint32_t slot)
{
	if (turning_has(master, object_at(master, slot)->block))
		return OBJECT_LENT;
	if (must_be_kept(master, slot) && !PLANTED(NO_TURNING) &&
		run_bytes(master, slot) > master->room.turning.size)
		return OBJECT_LARGE;
	return OBJECT_CLEAN;
}

void object_list_ready(struct master *master, uint32_t slot, bool active)
{
	bool lent = is_secondary(master, slot) &&
		    turning_has(master, object_at(master, slot)->block);

	if (lent || master_is_saved(master, slot))
		object_place(master, slot, clean_list(master, slot));
	else if (must_be_kept(master, slot))
		object_place(master, slot,
			object_at(master, slot)->read ? OBJECT_SPENT : OBJECT_DIRTY);
	else
		object_place(master, slot, active ? OBJECT_ACTIVE : OBJECT_INACTIVE);
	room_event(master);
}

void object_show(struct master *master, uint32_t slot)
{
	struct slot *there = slot_at(master, slot);
	uint64_t cached = (master->bytes_of[OBJECT_ACTIVE] +
				  master->bytes_of[OBJECT_INACTIVE]) /
			  POOL_GRANULE;
	bool back_soon = !(there->flags & SLOT_SOFTPIN) &&
			 lru_ghost_take(&master->lru, there->hash, cached);

	slot_ready(there);
	object_at(master, slot)->indexed = index_add(master->share, slot);
	object_list_ready(master, slot, back_soon);
	master->stats.ghost_hits += back_soon;
}

void object_arrive(struct master *master, uint32_t slot, bool active, uint64_t now)
{
	struct slot *there = slot_at(master, slot);

	object_list_ready(master, slot, active);
	map_add(master, slot);
	/* A restart takes a READY copy for an object, and a WRITING one for half of one: the
	 * mark must outlive the state. */
	slot_ready(there);
	there->flags &= ~(uint32_t)SLOT_COPY;
	object_at(master, slot)->indexed = index_add(master->share, slot);
	object_arm(master, slot, now);
}

/* The run and the slot are nobody's any more. */
static void object_free(struct master *master, uint32_t slot)
{
	struct object *object = object_at(master, slot);
	uint32_t block = object->block;

	heap_remove(&master->timers, slot);
	lease_forget(&master->leases, slot);
	object_place(master, slot, OBJECT_FREE);
	(void)hold_used(&master->watch, slot); /* a new object must not look used */
	slot_free(slot_at(master, slot));
	extent_free(&master->extents, block);
	slot_release(master, slot);
	room_event(master);
}

void object_settle(struct master *master, uint32_t slot, uint64_t now)
{
	if (object_blocked(master, slot, now) == 0)
		object_free(master, slot);
	else
		object_arm(master, slot, now);
}

void object_condemn(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object = object_at(master, slot);

	slot_condemn(slot_at(master, slot));
	if (object->indexed)
		index_del(master->share, slot);
	object->indexed = false;
	if (object->mapped)
		map_del(master, slot);
	object_place(master, slot, OBJECT_CONDEMNED);
	object_settle(master, slot, now);
}

void object_end(struct master *master, uint32_t slot, uint64_t now)
{
	save_end(master, slot, now);
	object_condemn(master, slot, now);
}

void object_drop(struct master *master, uint32_t slot)
{
	CHECK(kind_at(master, slot) == SLOT_WRITING);
	if (object_at(master, slot)->mapped)
		map_del(master, slot);
	if (slot_at(master, slot)->flags & SLOT_OUTRUN)
		master->outrun--;
	object_free(master, slot);
}

static void count_parked(struct master *master, unsigned why)
{
	if ((why & BLOCK_HOLD) && (why & BLOCK_LEASE))
		master->stats.parked_both++;
	else if (why & BLOCK_HOLD)
		master->stats.parked_hold++;
	else if (why & BLOCK_LEASE)
		master->stats.parked_lease++;
	else if (why & BLOCK_IO)
		master->stats.parked_io++;
	else
		master->stats.parked_pin++;
}

bool object_park(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object = object_at(master, slot);
	bool rearm = object->woken_ns == 0 || now - object->woken_ns >= REARM_NS;
	unsigned why;

	if (rearm)
		slot_want(slot_at(master, slot), true);
	why = object_blocked(master, slot, now);
	if (why == 0) {
		slot_want(slot_at(master, slot), false);
		return false;
	}
	/* A lease's end is known; and an end before is told by who releases it. */
	if (why & BLOCK_LEASE)
		slot_want(slot_at(master, slot), false);
	count_parked(master, why);
	if (why != BLOCK_LEASE)
		master->room.parked_other = true;
	if (why & BLOCK_LEASE)
		hist_add(&master->lease_end_ns, slot_at(master, slot)->lease_end - now);
	object->active = object->list == OBJECT_ACTIVE;
	object->relook = !rearm;
	object_place(master, slot, OBJECT_PARKED);
	object_arm(master, slot, now);
	return true;
}

void object_look(struct master *master, uint32_t slot, uint64_t now)
{
	if (object_at(master, slot)->list != OBJECT_PARKED ||
		object_blocked(master, slot, now) != 0)
		return;
	object_unpark(master, slot, false);
	object_arm(master, slot, now);
}

void object_unpark(struct master *master, uint32_t slot, bool active)
{
	struct object *object = object_at(master, slot);

	slot_want(slot_at(master, slot), false);
	object->relook = false;
	object_list_ready(master, slot, active);
	if (object->list == OBJECT_INACTIVE || object->list == OBJECT_CLEAN) {
		struct object_queue *queue = object_queue_of(
			master, slot, (enum object_list)object->list);

		/* It has been the coldest before. */
		object_unlink(queue, master->objects, slot);
		object_push_tail(queue, master->objects, slot);
		master->room.woken++;
	}
	master->stats.woken++;
}
