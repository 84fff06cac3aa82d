/*
 * left.c - what left this node without a word of its owner, for the directory.
 *
 * A ring of names. When it is full the oldest stay, since they may be on their way out
 * already, and that something is missing is said once: the directory then learns of it from
 * those who ask here in vain.
 */
#include "core/master_priv.h"

static void left_add(struct master *master, const struct left *left)
{
	if (master->left_count == LEFT_LIMIT) {
		master->left_lost = true;
		return;
	}
	master->left[(master->left_first + master->left_count++) % LEFT_LIMIT] = *left;
}

static struct left left_of_slot(const struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);

	return (struct left){
		.id = disk_id_of(slot_key(master->share, there), there->klen),
		.generation = there->generation,
		.hash = there->hash,
		.slot = slot,
	};
}

void left_slot(struct master *master, uint32_t slot, bool ended)
{
	struct left left = left_of_slot(master, slot);

	left.ended = ended;
	if (master->config.clustered)
		left_add(master, &left);
}

void left_put(struct master *master, uint32_t slot)
{
	struct left left = left_of_slot(master, slot);

	left.undone = true;
	if (master->config.clustered && generation_is_good(left.generation))
		left_add(master, &left);
}

void left_entry(struct master *master, uint32_t entry, bool ended)
{
	const struct disk_entry *there = disk_entry(&master->disk, entry);

	if (!master->config.clustered)
		return;
	left_add(master, &(struct left){.id = there->id,
				 .generation = there->generation,
				 .hash = there->hash,
				 .slot = SLOT_NONE,
				 .ended = ended});
}

bool master_left_next(struct master *master, struct left *ret)
{
	if (master->left_count == 0)
		return false;
	*ret = master->left[master->left_first];
	master->left_first = (master->left_first + 1) % LEFT_LIMIT;
	master->left_count--;
	return true;
}

bool master_left_lost(struct master *master)
{
	bool lost = master->left_lost;

	master->left_lost = false;
	return lost;
}
