/*
 * adopt.c - take over what the index on disk has, after a start.
 *
 * The pool has been recovered by then. Of the pool's object and the disk's of one key the
 * higher generation is the key's; equal ones are one object, in two places.
 */
#include "core/master_priv.h"

#include "base/err.h"
#include "base/plant.h"

static bool record_is_good(const struct master *master, const struct disk_record *record)
{
	const struct disk_config *config = &master->disk.config;
	bool on_index = record->size <= DISK_INLINE;

	if (record->klen == 0 || record->klen > KEY_LIMIT ||
		!generation_is_good(record->generation) ||
		on_index != (record->off == DISK_ON_INDEX))
		return false;
	return on_index ||
	       (record->off % DISK_GRANULE == 0 && record->size <= config->data_size &&
		       record->off <= config->data_size - record->size);
}

/* The slot of the record's key, READY or being put, or SLOT_NONE. */
static uint32_t slot_of(const struct master *master, const struct disk_record *record)
{
	uint32_t slot = master->map[record->hash & master->map_mask] - 1;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->chain) {
		const struct slot *there = slot_at(master, slot);
		struct disk_id id;

		if (there->hash != record->hash || there->klen != record->klen)
			continue;
		id = disk_id_of(slot_key(master->share, there), there->klen);
		if (id.word[0] == record->id.word[0] && id.word[1] == record->id.word[1])
			return slot;
	}
	return SLOT_NONE;
}

/* Its take was decided, and the winner may have been told: it still reads it. */
static bool is_taken(const struct master *master, const struct disk_record *record)
{
	for (uint32_t slot = master->condemned.head; slot != SLOT_NONE;
		slot = object_at(master, slot)->next) {
		const struct slot *there = slot_at(master, slot);

		if (there->flags & SLOT_TAKEN && there->hash == record->hash &&
			there->generation == record->generation)
			return !PLANTED(TAKEN_BACK);
	}
	return false;
}

/* Its run, if nobody has it. */
static bool adopt_run(
	struct master *master, const struct disk_record *record, uint32_t *ret_block)
{
	*ret_block = EXTENT_NONE;
	if (record->off == DISK_ON_INDEX)
		return true;
	*ret_block = extent_alloc_at(&master->disk.extents, record->off,
		align_up_u64(record->size, DISK_GRANULE), DISK_NONE);
	return *ret_block != EXTENT_NONE;
}

static uint32_t adopt_entry(
	struct master *master, const struct disk_record *record, uint32_t block)
{
	struct disk_entry entry = {
		.id = record->id,
		.hash = record->hash,
		.size = record->size,
		.generation = record->generation,
		.checksum = record->checksum,
		.expires = record->expires,
		.block = block,
		.slot = SLOT_NONE,
		.readers_left = record->readers_left,
		.klen = record->klen,
		.wanted = (uint8_t)record->wanted,
		.softpin = record->softpin,
		.counted = record->counted,
		.durable = record->durable,
		.indexed = true,
	};
	uint32_t number = disk_entry_new(&master->disk, &entry);

	if (block != EXTENT_NONE)
		extent_set_owner(&master->disk.extents, block, number);
	disk_stored(&master->disk, number);
	return number;
}

/* The pool has the same object. */
static void adopt_slot(struct master *master, uint32_t entry, uint32_t slot,
	const struct disk_record *record)
{
	disk_entry(&master->disk, entry)->slot = slot;
	object_at(master, slot)->disk = entry;
	slot_at(master, slot)->checksum = record->checksum;
	/* Reads that were counted just before the end. */
	if (record->counted &&
		record->readers_left != slot_at(master, slot)->readers_left) {
		disk_entry(&master->disk, entry)->readers_left =
			slot_at(master, slot)->readers_left;
		disk_change(&master->disk, entry, DISK_PUT);
	}
	object_list_ready(master, slot, false);
}

static void adopt_meets(struct master *master, uint32_t entry, uint32_t slot,
	const struct disk_record *record, uint64_t now)
{
	struct slot *there = slot_at(master, slot);

	/* A kill came between the moment at which another node became the keeper and the
	 * end of the record. */
	if (kind_at(master, slot) == SLOT_READY && !is_secondary(master, slot) &&
		there->generation == record->generation) {
		adopt_slot(master, entry, slot, record);
		return;
	}
	disk_only(&master->disk, entry, true);
	/* A put of the key could only begin after what the record is of had ended. */
	if (kind_at(master, slot) != SLOT_READY ||
		there->generation >= record->generation)
		disk_end(master, entry, now);
	else
		object_condemn(master, slot, now);
}

int master_disk_adopt(
	struct master *master, const struct disk_record *record, uint64_t now)
{
	struct disk *disk = &master->disk;
	uint32_t block, entry, slot;

	if (!record_is_good(master, record) ||
		disk_find_id(disk, record->hash, &record->id) != DISK_NONE)
		return ERR_CORRUPT;
	if (disk_is_full_of_entries(disk))
		return ERR_TOO_MANY;
	if (!adopt_run(master, record, &block))
		return ERR_CORRUPT;
	generation_adopt(master, record->generation);
	entry = adopt_entry(master, record, block);
	slot = slot_of(master, record);
	if (slot != SLOT_NONE) {
		adopt_meets(master, entry, slot, record, now);
		return 0;
	}
	disk_only(disk, entry, true);
	if (record->expires <= now || (record->counted && record->readers_left == 0) ||
		is_taken(master, record))
		disk_end(master, entry, now);
	return 0;
}

void master_disk_adopted(struct master *master)
{
	if (!disk_is_there(&master->disk))
		return;
	turning_restore(master);
	reclaim_start_if_low(master);
}
