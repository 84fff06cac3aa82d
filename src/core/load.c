/*
 * load.c - objects come back from the disk; and how what comes from elsewhere gets its place.
 *
 *   STORED --master_load_start--> loading: a slot WRITING, marked as a copy
 *     --read--> master_load_done --> READY in that slot, CLEAN or LENT
 *
 * A restart drops the slot, as it does a relocation's copy. The entry stays until the read
 * has ended, whatever happens to the object meanwhile: nothing else may be written where it
 * is read from.
 */
#include "core/master_priv.h"

#include "base/err.h"
#include "base/plant.h"

/* ---- start --------------------------------------------------------------- */

static void slot_fill(struct master *master, uint32_t slot, uint32_t block,
	const struct copy_request *what)
{
	struct slot *there = slot_at(master, slot);

	slot_name(master, slot, block, &what->key, what->size);
	there->generation = what->generation;
	there->checksum = 0;
	there->expires = what->expires;
	there->lease_end = 0;
	there->writer = 0;
	there->op = 0;
	there->counted = what->counted;
	there->readers_left = what->readers_left;
	there->wanted = what->wanted;
	there->namespace_id = 0;
	there->flags = SLOT_COPY | (what->softpin ? SLOT_SOFTPIN : 0u) |
		       (what->durable ? SLOT_DURABLE : 0u) |
		       (what->expires != UINT64_MAX ? SLOT_EXPIRES : 0u);
}

uint32_t arrival_open(
	struct master *master, uint32_t block, const struct copy_request *what)
{
	uint32_t slot = slot_alloc(master);

	CHECK(slot != SLOT_NONE);
	extent_set_owner(&master->extents, block, slot);
	slot_fill(master, slot, block, what);
	slot_publish(slot_at(master, slot));
	object_place(master, slot, OBJECT_WRITING);
	return slot;
}

uint32_t load_run(struct master *master, uint64_t size, uint32_t klen,
	struct ticket *ticket, uint64_t now)
{
	uint64_t align;
	uint64_t bytes = extent_round(slot_run_size(size, (uint16_t)klen), &align);
	uint32_t block;

	if (ticket != NULL)
		return ticket_spend(master, ticket, bytes);
	if (!turning_slot(master, now))
		return EXTENT_NONE;
	block = EXTENT_NONE;
	if (list_is_empty(&master->room.waiting))
		block = extent_alloc(&master->extents, bytes, align, SLOT_NONE);
	if (block == EXTENT_NONE)
		block = turning_take(master, bytes, align, now);
	return block;
}

enum load_verdict master_load_start(struct master *master, uint32_t entry,
	const void *key, struct ticket *ticket, uint64_t now, uint32_t *ret_slot)
{
	struct disk_entry *there = disk_entry(&master->disk, entry);
	struct copy_request what = {
		.key = {key, there->klen, there->hash},
		.size = there->size,
		.generation = there->generation,
		.expires = there->expires,
		.readers_left = there->readers_left,
		.wanted = there->wanted,
		.softpin = there->softpin,
		.counted = there->counted,
		.durable = there->durable,
	};
	uint32_t block, slot;

	if (there->state != DISK_STORED || there->slot != SLOT_NONE) {
		if (ticket != NULL)
			master_room_cancel(master, ticket);
		return LOAD_GONE;
	}
	block = load_run(master, there->size, there->klen, ticket, now);
	reclaim_start_if_low(master);
	if (block == EXTENT_NONE)
		return LOAD_NO_ROOM;
	slot = arrival_open(master, block, &what);
	slot_at(master, slot)->checksum = there->checksum;
	there->slot = slot;
	there->loading = true;
	object_at(master, slot)->disk = entry;
	*ret_slot = slot;
	return LOAD_STARTED;
}

/* ---- done ---------------------------------------------------------------- */

/* The slot is given up, and the entry with it if only the read had kept it. */
static void load_undo(struct master *master, uint32_t slot)
{
	uint32_t entry = object_at(master, slot)->disk;
	struct disk_entry *there = disk_entry(&master->disk, entry);

	there->loading = false;
	there->slot = SLOT_NONE;
	object_at(master, slot)->disk = DISK_NONE;
	object_drop(master, slot);
	if (there->state == DISK_ENDING && !there->indexed &&
		there->committing == DISK_NO_CHANGE && there->change == DISK_NO_CHANGE)
		disk_entry_free(master, entry);
}

static void load_show(struct master *master, uint32_t slot, uint64_t now)
{
	uint32_t entry = object_at(master, slot)->disk;
	struct disk_entry *there = disk_entry(&master->disk, entry);

	disk_only(&master->disk, entry, false);
	there->loading = false;
	/* Reads may have been counted since the start. */
	slot_at(master, slot)->readers_left = there->readers_left;
	object_at(master, slot)->read = true; /* as it is about to be */
	object_arrive(master, slot, false, now);
	master->stats.loads++;
	master->stats.loaded_bytes += there->size;
}

int master_load_done(
	struct master *master, uint32_t slot, int err, uint64_t checksum, uint64_t now)
{
	uint32_t entry = object_at(master, slot)->disk;
	struct disk_entry *there = disk_entry(&master->disk, entry);

	CHECK(there->loading && there->slot == slot);
	if (there->state != DISK_STORED) {
		load_undo(master, slot);
		return ERR_NOT_FOUND;
	}
	if (err == 0 && !PLANTED(UNCHECKED_LOAD) && checksum != there->checksum)
		err = ERR_CORRUPT;
	if (err == ERR_CORRUPT) {
		there->corrupt = true;
		master->stats.corrupt++;
	}
	if (err != 0) {
		master->stats.load_errors++;
		load_undo(master, slot);
		return err;
	}
	load_show(master, slot, now);
	return 0;
}

/* ---- batches ------------------------------------------------------------- */

/* Bytes that someone holds now. One walk for all items of a batch. */
static uint64_t held_now(struct master *master, uint64_t now)
{
	uint64_t bytes = 0;

	if (master->room.held_ns == now)
		return master->room.held_bytes;
	for (uint32_t slot = 0; slot < master->slots_used; slot++) {
		enum slot_kind kind = kind_at(master, slot);

		if ((kind == SLOT_READY || kind == SLOT_CONDEMNED) &&
			(hold_look(&master->watch, slot) ||
				object_at(master, slot)->pins > 0))
			bytes += run_bytes(master, slot);
	}
	master->room.held_ns = now;
	master->room.held_bytes = bytes;
	return bytes;
}

uint64_t master_run_bytes(uint64_t size, uint32_t klen)
{
	uint64_t align;

	return extent_round(slot_run_size(size, (uint16_t)klen), &align);
}

bool master_load_fits(struct master *master, uint64_t run_bytes, uint64_t now)
{
	uint64_t used = held_now(master, now) + master->bytes_of[OBJECT_WRITING] +
			master->granted_bytes + master->room.promised;

	if (!disk_is_usable(master) && !hand_is_allowed(master) && !master->hand.expected)
		used += master->bytes_of[OBJECT_DIRTY] + master->bytes_of[OBJECT_SPENT];
	return used + run_bytes <= master->share->header->pool_size;
}

void master_load_promise(struct master *master, int64_t run_bytes)
{
	CHECK(run_bytes >= 0 || master->room.promised >= (uint64_t)-run_bytes);
	master->room.promised += (uint64_t)run_bytes;
}
