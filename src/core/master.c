#include "core/master_priv.h"

#include "base/err.h"
#include "base/plant.h"

#include <string.h>

/* ---- memory -------------------------------------------------------------- */

struct plan {
	size_t objects, map, extents, entries, pos, ghost, leases, left, disk, total;
	uint32_t map_size, runs;
};

static size_t plan_add(struct plan *plan, size_t bytes)
{
	size_t at = plan->total;

	plan->total = at + align_up_u64(bytes, 64);
	return at;
}

static struct plan plan_memory(uint32_t slots_limit, const struct disk_config *disk)
{
	struct plan plan = {0};

	/* Tickets may have runs that no slot has yet; a put needs both. */
	plan.runs = slots_limit + 1;
	plan.map_size = (uint32_t)round_up_pow2(slots_limit / 4 + 1);
	plan.objects = plan_add(&plan, slots_limit * sizeof(struct object));
	plan.map = plan_add(&plan, plan.map_size * sizeof(uint32_t));
	plan.extents = plan_add(
		&plan, EXTENT_RECORDS((size_t)plan.runs) * sizeof(struct extent));
	plan.entries = plan_add(&plan, slots_limit * sizeof(struct heap_entry));
	plan.pos = plan_add(&plan, slots_limit * sizeof(uint32_t));
	plan.ghost = plan_add(
		&plan, sizeof(struct ghost_bucket) << lru_ghost_log2(slots_limit));
	plan.leases = plan_add(&plan, slots_limit * sizeof(struct lease_grants));
	plan.left = plan_add(&plan, LEFT_LIMIT * sizeof(struct left));
	plan.disk = plan_add(&plan, disk_memory_size(disk));
	return plan;
}

size_t master_memory_size(uint32_t slots_limit, const struct disk_config *disk)
{
	return plan_memory(slots_limit, disk).total;
}

void master_init(struct master *master, struct share *share,
	const struct master_config *config, void *memory)
{
	uint32_t slots_limit = share->header->slots_limit;
	struct plan plan = plan_memory(slots_limit, &config->disk);
	unsigned char *base = (unsigned char *)memory;

	memset(master, 0, sizeof(*master));
	master->share = share;
	master->config = *config;
	master->objects = (struct object *)(void *)(base + plan.objects);
	master->map = (uint32_t *)(void *)(base + plan.map);
	master->map_mask = plan.map_size - 1;
	extent_map_init(&master->extents, (struct extent *)(void *)(base + plan.extents),
		(uint32_t)EXTENT_RECORDS((size_t)plan.runs), share->header->pool_size,
		POOL_GRANULE);
	heap_init(&master->timers, (struct heap_entry *)(void *)(base + plan.entries),
		(uint32_t *)(void *)(base + plan.pos), slots_limit);
	lru_init(&master->lru, (struct ghost_bucket *)(void *)(base + plan.ghost),
		nslots_of(master));
	for (uint32_t cid = 0; cid <= CLIENT_LIMIT; cid++)
		object_queue_init(&master->writing[cid]);
	object_queue_init(&master->dirty);
	object_queue_init(&master->spent);
	object_queue_init(&master->clean);
	object_queue_init(&master->lent);
	object_queue_init(&master->large);
	object_queue_init(&master->saving);
	object_queue_init(&master->parked);
	object_queue_init(&master->moving);
	object_queue_init(&master->condemned);
	list_init(&master->room.waiting);
	list_init(&master->room.granted);
	master->room.copy_limit = UINT64_MAX;
	ticket_init(&master->room.turning.ticket);
	ticket_init(&master->room.place.ticket);
	lease_book_init(&master->leases,
		(struct lease_grants *)(void *)(base + plan.leases), slots_limit,
		atomic_load_explicit(&share->header->epoch, memory_order_relaxed));
	master->left = (struct left *)(void *)(base + plan.left);
	disk_init(&master->disk, &config->disk, base + plan.disk);
	master->disk.run_limit = share->header->pool_size;
	master->free_head = SLOT_NONE;
}

/* ---- clients ------------------------------------------------------------- */

void master_client_add(struct master *master, uint32_t cid, _Atomic uint16_t *counts)
{
	hold_watch_add(&master->watch, cid, counts);
}

uint32_t master_client_put(const struct master *master, uint32_t cid)
{
	return master->writing[cid].head;
}

void master_client_gone(struct master *master, uint32_t cid, uint64_t now)
{
	while (master->writing[cid].head != SLOT_NONE)
		object_drop(master, master->writing[cid].head);
	hold_watch_drop(&master->watch, cid);
	master_look_all(master, now);
}

void master_look_all(struct master *master, uint64_t now)
{
	uint32_t next;

	for (uint32_t slot = master->condemned.head; slot != SLOT_NONE; slot = next) {
		next = object_at(master, slot)->next;
		object_settle(master, slot, now);
	}
	for (uint32_t slot = master->parked.head; slot != SLOT_NONE; slot = next) {
		next = object_at(master, slot)->next;
		if (object_blocked(master, slot, now) == 0) {
			object_unpark(master, slot, false);
			object_arm(master, slot, now);
		}
	}
}

void master_tell(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object;

	if (slot >= nslots_of(master))
		return;
	master->stats.told++;
	if (PLANTED(LOST_WAKE))
		return;
	object = object_at(master, slot);
	if (object->list == OBJECT_CONDEMNED) {
		object_settle(master, slot, now);
	} else if (object->list == OBJECT_PARKED && !object->relook) {
		unsigned why = object_blocked(master, slot, now);

		if (why & ~(unsigned)BLOCK_HOLD)
			return; /* its end is an event of its own */
		object->woken_ns = now;
		object_unpark(master, slot, why != 0);
		object_arm(master, slot, now);
	}
}

/* ---- look up, end -------------------------------------------------------- */

uint32_t master_find(const struct master *master, const struct index_key *key)
{
	uint32_t slot = map_find(master, key);

	if (slot == SLOT_NONE || kind_at(master, slot) != SLOT_READY)
		return SLOT_NONE;
	return slot;
}

void master_pin(struct master *master, uint32_t slot)
{
	CHECK(kind_at(master, slot) == SLOT_READY);
	CHECK(object_at(master, slot)->pins < UINT16_MAX);
	/* What a batch was given already counts against what it still asks for. */
	if (object_at(master, slot)->pins == 0)
		master->room.held_bytes += run_bytes(master, slot);
	object_at(master, slot)->pins++;
	master->pinned++;
}

void master_unpin(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object = object_at(master, slot);

	CHECK(object->pins > 0);
	object->pins--;
	master->pinned--;
	if (object->list == OBJECT_CONDEMNED) {
		object_settle(master, slot, now);
	} else {
		object_look(master, slot, now);
	}
}

bool master_is_life(const struct master *master, uint32_t slot, uint64_t life)
{
	return slot < nslots_of(master) && object_at(master, slot)->list != OBJECT_FREE &&
	       life_at(master, slot) == life;
}

/* Where the object of a held slot is READY: there, or where it was moved to. */
static uint32_t place_now(const struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);
	struct index_key key = {slot_key(master->share, there), there->klen, there->hash};
	uint32_t place = slot;

	if (kind_at(master, slot) == SLOT_CONDEMNED)
		place = map_find(master, &key);
	if (place == SLOT_NONE || kind_at(master, place) != SLOT_READY ||
		slot_at(master, place)->generation != there->generation)
		return SLOT_NONE;
	return place;
}

static void slot_taken(struct slot *slot, uint32_t taker, uint64_t op)
{
	slot->writer = taker;
	slot->op = op;
	atomic_thread_fence(memory_order_release);
	slot->flags |= SLOT_TAKEN;
	atomic_thread_fence(memory_order_release);
}

int master_take(struct master *master, uint32_t slot, uint64_t life, uint32_t taker,
	uint64_t op, uint64_t now)
{
	struct slot *there;
	uint32_t place;

	if (!master_is_life(master, slot, life))
		return ERR_NOT_FOUND;
	there = slot_at(master, slot);
	if (there->flags & SLOT_TAKEN)
		return there->writer == taker && there->op == op ? 0 : ERR_NOT_FOUND;
	place = place_now(master, slot);
	if (place == SLOT_NONE)
		return ERR_NOT_FOUND;
	slot_taken(slot_at(master, place), taker, op);
	object_end(master, place, now);
	if (place != slot)
		slot_taken(there, taker, op);
	master->stats.takes++;
	return 0;
}

uint32_t master_list(const struct master *master, uint32_t slot, const void *prefix,
	uint32_t prefix_size, uint32_t budget, uint32_t *ret_next)
{
	for (; slot < master->slots_used; slot++) {
		const struct slot *there = slot_at(master, slot);

		if (budget-- == 0) {
			*ret_next = slot;
			return SLOT_NONE;
		}
		if (kind_at(master, slot) == SLOT_READY &&
			object_at(master, slot)->mapped && there->klen >= prefix_size &&
			memcmp(slot_key(master->share, there), prefix, prefix_size) ==
				0) {
			*ret_next = slot + 1;
			return slot;
		}
	}
	*ret_next = SLOT_NONE;
	return SLOT_NONE;
}

/* ---- time ---------------------------------------------------------------- */

uint64_t master_next(const struct master *master)
{
	const struct room *room = &master->room;
	uint64_t when = heap_min(&master->timers, NULL);

	if ((room->refilling && !room->refill_waits) || room_is_due(master))
		return 0;
	if (disk_is_there(&master->disk))
		when = MIN(when, heap_min(&master->disk.timers, NULL));
	if ((!list_is_empty(&room->waiting) ||
		    (turning_is_due(master) && !room->turning.stuck)) &&
		room->retry_ns < when)
		when = room->retry_ns;
	return when;
}

/* Past its deadline: the key passes on, the run stays until the writer ends it or dies.
 */
static void put_is_late(struct master *master, uint32_t slot)
{
	slot_at(master, slot)->flags |= SLOT_LATE;
	if (object_at(master, slot)->mapped)
		map_del(master, slot);
	heap_remove(&master->timers, slot);
}

static void object_is_due(struct master *master, uint32_t slot, uint64_t now)
{
	const struct slot *there = slot_at(master, slot);
	struct object *object = object_at(master, slot);

	if (there->lease_end <= now)
		lease_forget(&master->leases, slot);
	if (object->list == OBJECT_CONDEMNED) {
		object_settle(master, slot, now);
		return;
	}
	if (there->flags & SLOT_EXPIRES && there->expires <= now) {
		master->stats.expired++;
		left_slot(master, slot, !is_secondary(master, slot));
		object_end(master, slot, now);
		return;
	}
	if (object->list == OBJECT_PARKED) {
		object->woken_ns = 0; /* it has been left alone long enough: ask now */
		object_unpark(master, slot, object_blocked(master, slot, now) != 0);
	}
	object_arm(master, slot, now);
}

uint32_t master_advance(struct master *master, uint64_t now)
{
	uint32_t slot;

	master_is_told(master, now);
	if (heap_min(&master->timers, &slot) > now)
		return SLOT_NONE;
	if (kind_at(master, slot) == SLOT_WRITING)
		put_is_late(master, slot);
	else
		object_is_due(master, slot, now);
	return slot;
}

/* ---- slots --------------------------------------------------------------- */

bool master_wants_slots(const struct master *master)
{
	uint32_t nslots = nslots_of(master);

	return nslots < master->share->header->slots_limit &&
	       slots_available(master) < nslots / 16 + 64;
}

void master_slots_grown(struct master *master, uint32_t nslots)
{
	CHECK(nslots > nslots_of(master) && nslots <= master->share->header->slots_limit);
	atomic_store_explicit(
		&master->share->header->nslots, nslots, memory_order_release);
	lru_ghost_grow(&master->lru, nslots);
	/* A bigger array has other buckets that are full. */
	for (uint32_t slot = 0; slot < master->slots_used; slot++)
		if (kind_at(master, slot) == SLOT_READY)
			object_at(master, slot)->indexed = index_has(master->share, slot);
	room_event(master);
}

/* ---- for people ---------------------------------------------------------- */

void master_use(const struct master *master, struct pool_use *ret)
{
	const struct extent_map *map = &master->extents;

	*ret = (struct pool_use){
		.size = master->share->header->pool_size,
		.free = extent_total_bytes(map, EXTENT_FREE),
		.withheld = extent_total_bytes(map, EXTENT_WITHHELD),
		.granted = master->granted_bytes,
		.writing = master->bytes_of[OBJECT_WRITING],
		.inactive = master->bytes_of[OBJECT_INACTIVE],
		.active = master->bytes_of[OBJECT_ACTIVE],
		.dirty = master->bytes_of[OBJECT_DIRTY],
		.spent = master->bytes_of[OBJECT_SPENT],
		.clean = master->bytes_of[OBJECT_CLEAN],
		.lent = master->bytes_of[OBJECT_LENT],
		.large = master->bytes_of[OBJECT_LARGE],
		.saving = master->bytes_of[OBJECT_SAVING],
		.turning = master->room.turning.size,
		.parked = master->bytes_of[OBJECT_PARKED],
		.moving = master->bytes_of[OBJECT_MOVING],
		.condemned = master->bytes_of[OBJECT_CONDEMNED],
		.largest_hole = extent_largest_fit(map, POOL_GRANULE),
		.objects = master->lru.active.count + master->lru.inactive.count +
			   (uint64_t)master->dirty.count + master->spent.count +
			   master->clean.count + master->lent.count +
			   master->large.count + master->saving.count +
			   master->parked.count + master->moving.count,
	};
}

uint64_t master_held_bytes(const struct master *master, uint32_t cid)
{
	uint64_t bytes = 0;

	for (uint32_t slot = master->condemned.head; slot != SLOT_NONE;
		slot = object_at(master, slot)->next) {
		if (hold_count(&master->watch, slot, cid) > 0)
			bytes += run_bytes(master, slot);
	}
	return bytes;
}

/* ---- leases -------------------------------------------------------------- */

struct lease_token master_lease(
	struct master *master, uint32_t slot, uint64_t length_ns, uint64_t now)
{
	struct slot *there = slot_at(master, slot);
	uint64_t end = length_ns > UINT64_MAX - now ? UINT64_MAX : now + length_ns;
	uint64_t life = life_at(master, slot);
	bool unknown = there->lease_end > now &&
		       lease_outstanding(&master->leases, slot, life) == 0;
	struct lease_token token;

	CHECK(kind_at(master, slot) == SLOT_READY);
	if (there->lease_end <= now)
		lease_forget(&master->leases, slot);
	/* Stored before the answer leaves: it judges. */
	if (end > there->lease_end)
		there->lease_end = end;
	master->stats.leases++;
	token = lease_grant(&master->leases, slot, life);
	/* With its end the grants go, and one that is parked may wake. */
	object_arm(master, slot, now);
	/* One that was granted before a restart, or was forgotten, still runs. */
	if (unknown)
		master->leases.grants[slot].forgotten = true;
	return token;
}

bool master_lease_release(
	struct master *master, const struct lease_token *token, uint64_t now)
{
	struct object *object;

	switch (lease_release(&master->leases, token)) {
	case LEASE_IGNORED:
		master->stats.leases_ignored++;
		return false;
	case LEASE_RELEASED:
		master->stats.leases_released++;
		return true;
	case LEASE_LAST_RELEASED:
		break;
	}
	master->stats.leases_released++;
	slot_at(master, token->slot)->lease_end = 0;
	object = object_at(master, token->slot);
	if (object->list == OBJECT_CONDEMNED) {
		object_settle(master, token->slot, now);
	} else if (object->list == OBJECT_PARKED) {
		/* Also if it is held: nobody was asked to tell while the lease ran. */
		object_unpark(master, token->slot,
			object_blocked(master, token->slot, now) != 0);
		object_arm(master, token->slot, now);
	}
	return true;
}
