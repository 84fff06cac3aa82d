/*
 * relocate.c - move an object to another run: copy, publish the copy, condemn the old
 * place.
 *
 * Objects are immutable, so the copy can be made while readers read; a crash between any
 * two steps leaves the old one, both (equal generations: one is dropped at the restart),
 * or the new one. The bytes are copied by the caller, in slices, one move at a time.
 */
#include "core/master_priv.h"

#include <string.h>

/* The copy's slot: WRITING, of no client, on the list of relocations. */
static void copy_open(struct master *master, uint32_t from, uint32_t to, uint32_t block)
{
	struct slot *copy = slot_at(master, to);
	const struct slot *old = slot_at(master, from);

	object_at(master, to)->block = block;
	object_at(master, to)->woken_ns = 0;
	object_at(master, to)->read = object_at(master, from)->read;
	object_at(master, to)->hits = object_at(master, from)->hits & 3;
	copy->off = extent_off_bytes(&master->extents, block);
	copy->size = old->size;
	copy->klen = old->klen;
	memcpy(copy->key, old->key, sizeof(copy->key));
	copy->hash = old->hash;
	copy->generation = old->generation;
	copy->checksum = old->checksum;
	copy->expires = old->expires;
	copy->lease_end = 0;
	copy->writer = old->writer;
	copy->op = old->op;
	copy->counted = old->counted;
	copy->readers_left = old->readers_left;
	copy->wanted = old->wanted;
	copy->namespace_id = old->namespace_id;
	copy->flags = old->flags | SLOT_COPY;
	slot_publish(copy);
	object_place(master, to, OBJECT_WRITING);
}

static bool can_move(const struct master *master)
{
	return !master->room.move.busy && !slots_are_short(master);
}

/* `block`: the run that the copy gets. False: EXTENT_NONE, there is none. */
static bool move_begin(struct master *master, uint32_t slot, uint32_t block)
{
	uint32_t to;

	if (block == EXTENT_NONE)
		return false;
	to = slot_alloc(master);
	extent_set_owner(&master->extents, block, to);
	copy_open(master, slot, to, block);
	object_at(master, slot)->active = object_at(master, slot)->list == OBJECT_ACTIVE;
	object_place(master, slot, OBJECT_MOVING);
	heap_remove(&master->timers, slot); /* its end waits for the copy's */
	master->room.move = (struct relocating){.busy = true, .from = slot, .to = to};
	return true;
}

bool relocate_start(struct master *master, uint32_t slot)
{
	uint64_t align;
	uint64_t bytes = extent_round(run_bytes(master, slot), &align);

	return can_move(master) &&
	       move_begin(master, slot,
		       extent_alloc(&master->extents, bytes, align, SLOT_NONE));
}

static bool can_be_lent(struct master *master, uint32_t slot, uint64_t now)
{
	return object_at(master, slot)->list == OBJECT_CLEAN &&
	       run_bytes(master, slot) >= KEEP_LEAST && !object_was_read(master, slot) &&
	       run_bytes(master, slot) <= master->room.turning.size &&
	       object_blocked(master, slot, now) == 0;
}

bool relocate_to(struct master *master, uint32_t slot, uint32_t block)
{
	return can_move(master) && move_begin(master, slot, block);
}

enum lend_result lend_start(struct master *master, uint32_t slot, uint64_t now)
{
	uint64_t align;
	uint64_t bytes = extent_round(run_bytes(master, slot), &align);

	if (!can_be_lent(master, slot, now))
		return LEND_NOT;
	if (master->room.move.busy)
		return LEND_LATER;
	if (!can_move(master) ||
		!move_begin(master, slot, turning_spare(master, bytes, align, now)))
		return LEND_NOT;
	return LEND_STARTED;
}

bool master_move_next(struct master *master, struct relocation *ret)
{
	const struct relocating *move = &master->room.move;
	const struct slot *from;

	if (!move->busy)
		return false;
	from = slot_at(master, move->from);
	ret->from = move->from;
	ret->to = move->to;
	ret->from_off = from->off;
	ret->to_off = slot_at(master, move->to)->off;
	ret->size = slot_run_size(from->size, from->klen);
	return true;
}

/* The source was ended meanwhile, or the copy could not be made. */
static void move_undo(struct master *master, uint32_t from, uint32_t to, uint64_t now)
{
	object_drop(master, to);
	if (kind_at(master, from) == SLOT_CONDEMNED) {
		object_settle(master, from, now);
		return;
	}
	object_list_ready(master, from, object_at(master, from)->active);
	object_arm(master, from, now);
}

void master_move_done(struct master *master, bool copied, uint64_t now)
{
	uint32_t from = master->room.move.from;
	uint32_t to = master->room.move.to;

	CHECK(master->room.move.busy);
	master->room.move.busy = false;
	room_event(master);
	if (!copied || kind_at(master, from) == SLOT_CONDEMNED) {
		move_undo(master, from, to, now);
		return;
	}
	if (object_at(master, from)->disk != DISK_NONE) {
		object_at(master, to)->disk = object_at(master, from)->disk;
		disk_entry(&master->disk, object_at(master, to)->disk)->slot = to;
		object_at(master, from)->disk = DISK_NONE;
	}
	map_del(master, from);
	/* Since the copy was opened, reads may have ended, and another node may have become
	 * the keeper. */
	slot_at(master, to)->readers_left = slot_at(master, from)->readers_left;
	slot_at(master, to)->flags |= slot_at(master, from)->flags &
				      (SLOT_SECONDARY | SLOT_UNLISTED);
	object_arrive(master, to, object_at(master, from)->active, now);
	master->stats.relocated++;
	master->stats.relocated_bytes += run_bytes(master, to);
	object_condemn(master, from, now);
}
