/*
 * held.c - a walk over all objects of the node, in the pool or on its disk.
 *
 * An object may change its slot while the walk is under way, or go to the disk, or come
 * back: a walk by place could miss it in both. The hash of its key stays, so the walk goes
 * by that. Hashes that agree in as many low bits as tell apart the buckets of the larger of
 * the two maps are a group: one bucket of that map, and a part of one of the other's. The
 * cursor is the least hash to come, turned so that the group's bits are the highest: groups
 * come one after the other, and hashes within them by their other bits.
 *
 * Of two keys with one hash, which a full node has once in 100,000, one is passed over.
 */
#include "core/master_priv.h"

/* For the first hash of a group from `least` on; both turned. */
struct look {
	const struct master *master;
	unsigned bits; /* of the group */
	uint64_t least, best;
	bool found;
	uint32_t slot;  /* that has the best; SLOT_NONE: */
	uint32_t entry; /* this has */
};

static unsigned group_bits(const struct master *master)
{
	uint32_t mask = master->map_mask;

	if (disk_is_there(&master->disk))
		mask = MAX(mask, master->disk.map_mask);
	return mask == 0 ? 1 : 32 - (unsigned)__builtin_clz(mask);
}

static uint32_t group_of(const struct look *look, uint64_t turned)
{
	return (uint32_t)(turned >> (64 - look->bits));
}

static bool is_nearer(struct look *look, uint64_t hash)
{
	uint64_t turned = hash << (64 - look->bits) | hash >> look->bits;

	if (group_of(look, turned) != group_of(look, look->least) ||
		turned < look->least || (look->found && turned >= look->best))
		return false;
	look->found = true;
	look->best = turned;
	return true;
}

static void look_in_pool(struct look *look)
{
	const struct master *master = look->master;
	uint32_t slot = master->map[group_of(look, look->least) & master->map_mask] - 1;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->chain)
		if (kind_at(master, slot) == SLOT_READY &&
			is_nearer(look, slot_at(master, slot)->hash))
			look->slot = slot;
}

static void look_on_disk(struct look *look)
{
	const struct disk *disk = &look->master->disk;
	uint32_t entry;

	if (!disk_is_there(disk))
		return;
	entry = disk->map[group_of(look, look->least) & disk->map_mask] - 1;
	for (; entry != DISK_NONE; entry = disk_entry(disk, entry)->chain)
		if (disk_is_only(disk_entry(disk, entry)) &&
			is_nearer(look, disk_entry(disk, entry)->hash)) {
			look->entry = entry;
			look->slot = SLOT_NONE;
		}
}

void master_held_at(const struct master *master, uint32_t slot, struct held *ret)
{
	const struct slot *there = slot_at(master, slot);

	*ret = (struct held){
		.id = disk_id_of(slot_key(master->share, there), there->klen),
		.generation = there->generation,
		.size = there->size,
		.expires = there->flags & SLOT_EXPIRES ? there->expires : UINT64_MAX,
		.hash = there->hash,
		.wanted = keepers_wanted(there->wanted),
		.softpin = (there->flags & SLOT_SOFTPIN) != 0,
		.secondary = is_secondary(master, slot),
		.unlisted = (there->flags & SLOT_UNLISTED) != 0,
		.durable = (there->flags & SLOT_DURABLE) != 0,
	};
}

static void tell_entry(const struct master *master, uint32_t entry, struct held *ret)
{
	const struct disk_entry *there = disk_entry(&master->disk, entry);

	*ret = (struct held){
		.id = there->id,
		.generation = there->generation,
		.size = there->size,
		.expires = there->expires,
		.hash = there->hash,
		.wanted = keepers_wanted(there->wanted),
		.softpin = there->softpin,
		.durable = there->durable,
	};
}

bool master_held_next(
	const struct master *master, uint64_t *cursor, uint32_t budget, struct held *ret)
{
	struct look look = {
		.master = master, .bits = group_bits(master), .slot = SLOT_NONE};
	uint32_t last = (uint32_t)((1ull << look.bits) - 1);

	for (; budget > 0 && *cursor != UINT64_MAX; budget--) {
		uint32_t group;

		look.least = *cursor;
		look_in_pool(&look);
		look_on_disk(&look);
		if (look.found)
			break;
		group = group_of(&look, *cursor);
		*cursor = group == last ? UINT64_MAX : (group + 1ull) << (64 - look.bits);
	}
	if (!look.found)
		return false;
	*cursor = look.best == UINT64_MAX ? look.best : look.best + 1;
	if (look.slot != SLOT_NONE)
		master_held_at(master, look.slot, ret);
	else
		tell_entry(master, look.entry, ret);
	return true;
}

bool master_held_look(const struct master *master, const struct index_key *key,
	uint64_t generation, struct held *ret)
{
	uint32_t slot = master_find(master, key);
	uint32_t entry;

	if (slot != SLOT_NONE) {
		if (slot_at(master, slot)->generation != generation)
			return false;
		master_held_at(master, slot, ret);
		return true;
	}
	entry = master_disk_find(master, key);
	if (entry == DISK_NONE ||
		disk_entry(&master->disk, entry)->generation != generation)
		return false;
	tell_entry(master, entry, ret);
	return true;
}

/* ---- one of them, later -------------------------------------------------- */

static uint32_t held_slot(const struct master *master, const struct held *held)
{
	uint32_t slot = master->map[held->hash & master->map_mask] - 1;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->chain) {
		const struct slot *there = slot_at(master, slot);

		if (kind_at(master, slot) == SLOT_READY && there->hash == held->hash &&
			there->generation == held->generation)
			break;
	}
	return slot;
}

uint32_t master_held_entry(const struct master *master, const struct held *held)
{
	uint32_t entry = DISK_NONE;

	if (disk_is_there(&master->disk))
		entry = disk_find_id(&master->disk, held->hash, &held->id);
	if (entry != DISK_NONE &&
		(!disk_is_only(disk_entry(&master->disk, entry)) ||
			disk_entry(&master->disk, entry)->generation != held->generation))
		entry = DISK_NONE;
	return entry;
}

bool master_held_find(
	const struct master *master, const struct held *held, uint32_t *ret_slot)
{
	*ret_slot = held_slot(master, held);
	return *ret_slot != SLOT_NONE || master_held_entry(master, held) != DISK_NONE;
}

void master_held_end(struct master *master, const struct held *held, uint64_t now)
{
	uint32_t slot = held_slot(master, held);
	uint32_t entry = master_held_entry(master, held);

	if (slot != SLOT_NONE)
		object_end(master, slot, now);
	else if (entry != DISK_NONE)
		disk_end(master, entry, now);
}

void master_held_list(struct master *master, const struct held *held)
{
	uint32_t slot = held_slot(master, held);

	if (slot != SLOT_NONE)
		slot_at(master, slot)->flags &= ~(uint32_t)SLOT_UNLISTED;
}

void master_held_yield(struct master *master, const struct held *held, uint64_t now)
{
	uint32_t slot = held_slot(master, held);
	uint32_t entry = master_held_entry(master, held);

	if (slot != SLOT_NONE)
		master_yield(master, slot, now);
	else if (entry != DISK_NONE)
		master_yield_stored(master, entry, now);
}
