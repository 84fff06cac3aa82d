/*
 * end.c - by word of their owner objects end, and what is on its way never becomes one.
 *
 * A put or a copy that is not READY yet is marked, and keeps its run until whoever brings its
 * bytes says that it is done: then it is told so. What is being read from the disk ends with
 * its entry, see load.c.
 */
#include "core/master_priv.h"

#include "base/err.h"

#include <string.h>

/* What is to end. */
struct order {
	const struct index_key *key; /* or NULL: */
	const void *prefix;          /* all keys that begin so */
	uint32_t prefix_size;
	uint64_t generation; /* 0: any */
	uint64_t below;      /* 0: not bounded */
};

static bool is_generation_meant(const struct order *order, uint64_t generation)
{
	if (order->generation != 0)
		return generation == order->generation;
	return order->below == 0 || (generation != 0 && generation < order->below);
}

static bool is_meant(
	const struct master *master, uint32_t slot, const struct order *order)
{
	const struct slot *there = slot_at(master, slot);

	if (!is_generation_meant(order, there->generation))
		return false;
	if (order->key != NULL)
		return slot_has_key(master, slot, order->key);
	return there->klen >= order->prefix_size &&
	       memcmp(slot_key(master->share, there), order->prefix,
		       order->prefix_size) == 0;
}

/* It could still become READY, and the word of an owner is all that keeps it from that. */
static bool can_be_doomed(const struct master *master, uint32_t slot)
{
	uint32_t flags = slot_at(master, slot)->flags;

	return !(flags & (SLOT_DOOMED | SLOT_LATE)) &&
	       (!(flags & SLOT_COPY) || is_being_fetched(master, slot));
}

static void doom(struct master *master, uint32_t slot)
{
	slot_at(master, slot)->flags |= SLOT_DOOMED;
	if (object_at(master, slot)->mapped)
		map_del(master, slot);
	heap_remove(&master->timers, slot);
}

/* In the queues of clients from `cid` on; the last is of what no client writes.
 * *ret_generation: of one of them, if nothing better is known. */
static uint32_t doom_meant(struct master *master, uint32_t cid, const struct order *order,
	uint64_t *ret_generation)
{
	uint32_t count = 0;

	for (; cid <= CLIENT_LIMIT; cid++) {
		uint32_t slot = master->writing[cid].head;

		for (; slot != SLOT_NONE; slot = object_at(master, slot)->next) {
			if (!can_be_doomed(master, slot) ||
				!is_meant(master, slot, order))
				continue;
			doom(master, slot);
			if (*ret_generation == 0)
				*ret_generation = slot_at(master, slot)->generation;
			count++;
		}
	}
	return count;
}

/* What has the key in the pool. */
static bool end_in_pool(struct master *master, uint32_t slot, const struct order *order,
	uint64_t now, uint64_t *ret_generation)
{
	if (!is_meant(master, slot, order))
		return false;
	*ret_generation = slot_at(master, slot)->generation;
	if (kind_at(master, slot) == SLOT_READY)
		object_end(master, slot, now);
	else
		doom(master, slot);
	return true;
}

static bool end_on_disk(struct master *master, const struct order *order, uint64_t now,
	uint64_t *ret_generation)
{
	uint32_t entry = master_disk_find(master, order->key);
	uint64_t generation;

	if (entry == DISK_NONE)
		return false;
	generation = disk_entry(&master->disk, entry)->generation;
	if (!is_generation_meant(order, generation))
		return false;
	*ret_generation = generation;
	disk_end(master, entry, now);
	return true;
}

static int end_meant(struct master *master, const struct order *order, uint64_t now,
	uint64_t *ret_generation)
{
	uint32_t slot = map_find(master, order->key);
	uint64_t ended = order->generation;
	bool any;

	if (slot != SLOT_NONE)
		any = end_in_pool(master, slot, order, now, &ended);
	else
		any = end_on_disk(master, order, now, &ended);
	/* Puts that the key map does not have are there only if some were outrun. */
	any |= doom_meant(master, master->outrun > 0 ? 0 : CLIENT_LIMIT, order, &ended) >
	       0;
	if (!any)
		return ERR_NOT_FOUND;
	master->stats.removes++;
	*ret_generation = ended;
	return 0;
}

int master_end_generation(struct master *master, const struct index_key *key,
	uint64_t generation, uint64_t now, uint64_t *ret_generation)
{
	const struct order order = {.key = key, .generation = generation};

	return end_meant(master, &order, now, ret_generation);
}

int master_end_below(struct master *master, const struct index_key *key, uint64_t below,
	uint64_t now, uint64_t *ret_generation)
{
	const struct order order = {.key = key, .below = below};

	return end_meant(master, &order, now, ret_generation);
}

int master_remove(struct master *master, const struct index_key *key, uint64_t now)
{
	uint64_t generation;

	return master_end_generation(master, key, 0, now, &generation);
}

uint32_t master_doom_prefix(
	struct master *master, const void *prefix, uint32_t prefix_size)
{
	const struct order order = {.prefix = prefix, .prefix_size = prefix_size};
	uint64_t generation = 0;

	return doom_meant(master, 0, &order, &generation);
}
