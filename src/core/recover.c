/*
 * recover.c - rebuild the master from the shared index, whatever instant the last one
 * died at.
 *
 *   read   validate each slot, sort those that hold by address (the timers' heap serves)
 *   place  give each its run again, in that order, and its list
 *   join   the key map, the shared index, timers; finish what was sealed, drop doubles
 *
 * What does not hold is dropped with a reason, never served. Readers go on hitting all
 * the time: a READY slot that is kept is not written to, except `want`.
 */
#include "core/master_priv.h"

#include "base/hash.h"

#include <string.h>

const char *drop_reason_text(enum drop_reason reason)
{
	switch (reason) {
	case DROP_BAD_STATE:
		return "state damaged";
	case DROP_BAD_RANGE:
		return "range outside the pool";
	case DROP_OVERLAP:
		return "bytes of another object";
	case DROP_BAD_KEY:
		return "key damaged";
	case DROP_WRITER_GONE:
		return "writer gone";
	case DROP_UNFINISHED:
		return "unfinished relocation";
	case DROP_READ_OUT:
		return "read out";
	case DROP_OLDER:
		return "other generation kept";
	case DROP_REASONS:
		break;
	}
	NOT_REACHED("no such reason");
}

static bool range_is_good(const struct master *master, const struct slot *slot)
{
	uint64_t pool = master->share->header->pool_size;
	uint64_t align, run;

	if (slot->klen == 0 || slot->klen > KEY_LIMIT || slot->size > pool)
		return false;
	run = extent_round(slot_run_size(slot->size, slot->klen), &align);
	return slot->off % align == 0 && run <= pool && slot->off <= pool - run;
}

static bool key_is_good(const struct master *master, const struct slot *slot)
{
	const uint8_t *key = slot_key(master->share, slot);

	return memchr(key, 0, slot->klen) == NULL &&
	       hash_key(key, slot->klen, master->config.hash_seed) == slot->hash;
}

static bool writer_lives(const struct master *master, uint32_t writer)
{
	const struct share_client *client =
		&master->share->clients[writer % CLIENT_LIMIT];

	return atomic_load_explicit(&client->state, memory_order_relaxed) ==
		       SHARE_CLIENT_LIVE &&
	       client_ref(writer % CLIENT_LIMIT, client->incarnation) == writer;
}

/* DROP_REASONS: keep it. */
static enum drop_reason judge(const struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);

	if (kind_at(master, slot) > SLOT_CONDEMNED)
		return DROP_BAD_STATE;
	if (kind_at(master, slot) == SLOT_WRITING && there->flags & SLOT_COPY)
		return DROP_UNFINISHED; /* its key may not be there yet */
	if (!range_is_good(master, there))
		return DROP_BAD_RANGE;
	if (!key_is_good(master, there))
		return DROP_BAD_KEY;
	if (kind_at(master, slot) == SLOT_WRITING && !(there->flags & SLOT_SEALED))
		return writer_lives(master, there->writer) ? DROP_REASONS
							   : DROP_WRITER_GONE;
	if (kind_at(master, slot) == SLOT_CONDEMNED)
		return there->generation != 0 ? DROP_REASONS : DROP_BAD_STATE;
	return generation_is_good(there->generation) ? DROP_REASONS : DROP_BAD_STATE;
}

static void drop(struct master *master, uint32_t slot, enum drop_reason reason,
	struct recovery *ret)
{
	if (kind_at(master, slot) != SLOT_CONDEMNED)
		ret->dropped[reason]++;
	slot_free(slot_at(master, slot));
}

static void read_slots(struct master *master, struct recovery *ret)
{
	for (uint32_t slot = 0; slot < nslots_of(master); slot++) {
		const struct slot *there = slot_at(master, slot);
		enum slot_kind kind = kind_at(master, slot);
		enum drop_reason reason;

		if (kind == SLOT_FREE && life_at(master, slot) == 0)
			continue;
		master->slots_used = slot + 1;
		if (kind == SLOT_FREE)
			continue;
		ret->found += kind != SLOT_CONDEMNED;
		reason = judge(master, slot);
		if (reason == DROP_WRITER_GONE)
			left_put(master, slot);
		if (reason != DROP_REASONS) {
			drop(master, slot, reason, ret);
			continue;
		}
		heap_set(&master->timers, slot, there->off);
		/* What came from another node was not given here. */
		if (is_secondary(master, slot))
			master_note_generation(master, there->generation);
		else if (generation_is_good(there->generation))
			generation_adopt(master, there->generation);
	}
}

/* Of two READY slots of one key the higher generation is the key's. */
static void map_newest(struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);
	struct index_key key = {slot_key(master->share, there), there->klen, there->hash};
	uint32_t other = map_find(master, &key);

	if (other != SLOT_NONE && slot_at(master, other)->generation >= there->generation)
		return;
	if (other != SLOT_NONE)
		map_del(master, other);
	map_add(master, slot);
}

/* What a slot that is kept can have no more: a take that did not come to its end has not
 * been, a put is never secondary, and its number may be damaged. */
static void slot_mend(struct master *master, uint32_t slot)
{
	struct slot *there = slot_at(master, slot);
	uint32_t wrong = SLOT_COPY | SLOT_TAKEN;

	if (kind_at(master, slot) == SLOT_CONDEMNED)
		return;
	if (kind_at(master, slot) == SLOT_WRITING)
		wrong |= SLOT_SECONDARY;
	if (kind_at(master, slot) == SLOT_READY)
		wrong |= SLOT_REPLACES;
	if (kind_at(master, slot) == SLOT_READY || there->flags & SLOT_SEALED)
		wrong |= SLOT_OUTRUN;
	there->flags &= ~wrong;
	there->wanted = keepers_wanted(there->wanted);
	if (!generation_is_good(there->generation))
		there->generation = 0; /* not given yet: it is a put */
}

static void place_slots(struct master *master, struct recovery *ret)
{
	uint32_t slot;

	while (heap_min(&master->timers, &slot) != UINT64_MAX) {
		struct slot *there = slot_at(master, slot);
		uint64_t align;
		uint64_t run = extent_round(
			slot_run_size(there->size, there->klen), &align);
		uint32_t block;

		heap_remove(&master->timers, slot);
		block = extent_alloc_at(&master->extents, there->off, run, slot);
		if (block == EXTENT_NONE) {
			drop(master, slot, DROP_OVERLAP, ret);
			continue;
		}
		object_begin(object_at(master, slot));
		object_at(master, slot)->block = block;
		slot_mend(master, slot);
		switch (kind_at(master, slot)) {
		case SLOT_READY:
			slot_want(there, false);
			object_list_ready(master, slot, false);
			map_newest(master, slot);
			break;
		case SLOT_WRITING:
			object_place(master, slot, OBJECT_WRITING);
			break;
		case SLOT_CONDEMNED:
			object_place(master, slot, OBJECT_CONDEMNED);
			break;
		case SLOT_FREE:
			NOT_REACHED("free slots were not read");
		}
	}
}

static void join_ready(
	struct master *master, uint32_t slot, uint64_t now, struct recovery *ret)
{
	struct object *object = object_at(master, slot);

	object->indexed = index_has(master->share, slot);
	if (!object->mapped) {
		ret->dropped[DROP_OLDER]++;
		object_condemn(master, slot, now);
		return;
	}
	if (slot_at(master, slot)->counted && slot_at(master, slot)->readers_left == 0) {
		ret->dropped[DROP_READ_OUT]++;
		object_condemn(master, slot, now);
		return;
	}
	if (!object->indexed)
		object->indexed = index_add(master->share, slot);
	ret->adopted++;
	object_arm(master, slot, now);
}

/* Its replacement is whole. */
static void end_replaced(struct master *master, uint32_t slot, uint32_t old, uint64_t now,
	struct recovery *ret)
{
	if (kind_at(master, old) == SLOT_READY) {
		ret->adopted--;
		ret->dropped[DROP_OLDER]++;
		object_condemn(master, old, now);
	} else {
		key_claim(master, slot);
	}
}

static void join_writing(struct master *master, uint32_t slot, uint64_t now,
	uint64_t put_timeout_ns, struct recovery *ret)
{
	struct slot *there = slot_at(master, slot);
	struct index_key key = {slot_key(master->share, there), there->klen, there->hash};
	bool taken = map_find(master, &key) != SLOT_NONE;

	if (there->flags & SLOT_SEALED) {
		if (taken && there->flags & SLOT_REPLACES) {
			taken = false;
			end_replaced(master, slot, map_find(master, &key), now, ret);
		}
		if (taken) {
			ret->dropped[DROP_OLDER]++;
			object_drop(master, slot);
			return;
		}
		there->lease_end = 0;
		there->flags &= ~(uint32_t)SLOT_REPLACES;
		map_add(master, slot);
		object_show(master, slot);
		object_arm(master, slot, now);
		ret->adopted++;
		return;
	}
	ret->writing++;
	if (there->flags & SLOT_REPLACES)
		taken = true; /* until its end */
	if (taken && !(there->flags & (SLOT_DOOMED | SLOT_LATE)))
		there->flags |= SLOT_OUTRUN;
	master->outrun += (there->flags & SLOT_OUTRUN) != 0;
	if (there->flags & (SLOT_DOOMED | SLOT_LATE))
		return;
	if (!(there->flags & SLOT_OUTRUN))
		map_add(master, slot);
	heap_set(&master->timers, slot, now + put_timeout_ns);
}

void master_recover(struct master *master, uint64_t now, uint64_t put_timeout_ns,
	struct recovery *ret)
{
	memset(ret, 0, sizeof(*ret));
	master->leases.epoch = atomic_load_explicit(
		&master->share->header->epoch, memory_order_relaxed);
	master_is_told(master, now);
	generation_recover(master);
	reads_recover(master);
	read_slots(master, ret);
	place_slots(master, ret);
	index_repair(master->share);
	for (uint32_t slot = master->slots_used; slot-- > 0;) {
		struct object *object = object_at(master, slot);

		if (object->list == OBJECT_FREE) {
			object->chain = master->free_head;
			master->free_head = slot;
			master->free_slots++;
		} else if (kind_at(master, slot) == SLOT_READY) {
			join_ready(master, slot, now, ret);
		}
	}
	for (uint32_t slot = 0; slot < master->slots_used; slot++) {
		if (object_at(master, slot)->list == OBJECT_WRITING)
			join_writing(master, slot, now, put_timeout_ns, ret);
		else if (object_at(master, slot)->list == OBJECT_CONDEMNED) {
			slot_want(slot_at(master, slot), true);
			object_settle(master, slot, now);
		}
	}
	ret->draining = master->condemned.count;
	reclaim_start_if_low(master);
}
