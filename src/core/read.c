/*
 * read.c - objects that end after a number of ended reads (`readers`).
 *
 * A client reports each read that ended, in the order of its own sequence, and asks again
 * when it heard no answer. So that a report counts once, also across a kill of the daemon,
 * the last one is noted in the client's entry before the slot changes:
 *
 *   invalidate the note -> slot, life, new count -> sequence (now it counts) -> the slot
 *
 * A restart finds either an old sequence, and the report comes again, or the new one, and
 * carries out what the note says. A report that is not counted here is noted all the same:
 * it may be passed on to the node that counts, but only once, since a read that counts twice
 * would end the object before its time, and one that is lost only later.
 */
#include "core/master_priv.h"

#include "base/err.h"

static uint16_t valid_mark(uint64_t sequence)
{
	return (uint16_t)sequence;
}

static void note(struct share_client *client, uint64_t sequence, uint32_t slot,
	uint64_t life, uint16_t left)
{
	client->read_valid = (uint16_t)~valid_mark(client->read_sequence);
	atomic_thread_fence(memory_order_release);
	client->read_slot = slot;
	client->read_life = life;
	client->read_left = left;
	client->read_valid = valid_mark(sequence);
	atomic_thread_fence(memory_order_release);
	client->read_sequence = sequence;
	atomic_thread_fence(memory_order_release);
}

/* The object has left the pool between the end of the read and the report, which is answered
 * when its record has the count (master_disk_ends()). */
static bool read_ended_on_disk(struct master *master, const struct index_key *key,
	uint64_t generation, uint64_t now)
{
	uint32_t entry = master_disk_find(master, key);
	struct disk_entry *there;

	if (entry == DISK_NONE)
		return false;
	there = disk_entry(&master->disk, entry);
	if (there->generation != generation || !there->counted)
		return false;
	there->readers_left--;
	master->stats.reads_counted++;
	if (there->readers_left > 0) {
		disk_change(&master->disk, entry, DISK_PUT);
		return true;
	}
	master->stats.removes++;
	left_entry(master, entry, true);
	disk_end(master, entry, now);
	return true;
}

/* It stays in the pool until its record has the new count. */
static void read_note_on_disk(struct master *master, uint32_t slot)
{
	uint32_t entry = object_at(master, slot)->disk;
	struct disk_entry *there;

	if (entry == DISK_NONE)
		return;
	there = disk_entry(&master->disk, entry);
	there->readers_left = slot_at(master, slot)->readers_left;
	/* A save's own record is made when its commit begins. One that is doomed goes, whatever
	 * it says. */
	if (disk_lives(there) &&
		(there->state == DISK_STORED || there->committing != DISK_NO_CHANGE))
		disk_change(&master->disk, entry, DISK_PUT);
}

static bool counts_here(const struct master *master, uint32_t slot, uint64_t generation)
{
	return slot != SLOT_NONE && slot_at(master, slot)->generation == generation &&
	       slot_at(master, slot)->counted && !is_secondary(master, slot);
}

static void read_ended_in_pool(
	struct master *master, uint32_t slot, uint16_t left, uint64_t now)
{
	slot_at(master, slot)->readers_left = left;
	read_note_on_disk(master, slot);
	master->stats.reads_counted++;
	if (left > 0)
		return;
	master->stats.removes++;
	left_slot(master, slot, true);
	object_end(master, slot, now);
}

int master_read_ended(struct master *master, uint32_t cid, uint64_t sequence,
	const struct index_key *key, uint64_t generation, uint64_t now)
{
	struct share_client *client = &master->share->clients[cid];
	uint32_t slot = master_find(master, key);
	uint16_t left;

	if (sequence <= client->read_sequence)
		return 0;
	if (slot == SLOT_NONE && read_ended_on_disk(master, key, generation, now)) {
		note(client, sequence, SLOT_NONE, 0, 0);
		return 0;
	}
	if (!counts_here(master, slot, generation)) {
		note(client, sequence, SLOT_NONE, 0, 0);
		return ERR_NOT_FOUND;
	}
	left = (uint16_t)(slot_at(master, slot)->readers_left - 1);
	note(client, sequence, slot, life_at(master, slot), left);
	read_ended_in_pool(master, slot, left, now);
	return 0;
}

/* Carry out what a client's note says, if the daemon was killed before it could. */
static void redo(struct master *master, const struct share_client *client)
{
	struct slot *there;

	if (client->read_sequence == 0 ||
		client->read_valid != valid_mark(client->read_sequence) ||
		client->read_slot >= nslots_of(master) ||
		kind_at(master, client->read_slot) != SLOT_READY ||
		life_at(master, client->read_slot) != client->read_life)
		return;
	there = slot_at(master, client->read_slot);
	if (there->counted && there->readers_left == client->read_left + 1)
		there->readers_left = client->read_left;
}

void reads_recover(struct master *master)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		redo(master, &master->share->clients[cid]);
}

int master_read_counted(struct master *master, const struct index_key *key,
	uint64_t generation, uint64_t now)
{
	uint32_t slot = master_find(master, key);

	if (slot == SLOT_NONE)
		return read_ended_on_disk(master, key, generation, now) ? 0
									: ERR_NOT_FOUND;
	if (!counts_here(master, slot, generation))
		return ERR_NOT_FOUND;
	read_ended_in_pool(
		master, slot, (uint16_t)(slot_at(master, slot)->readers_left - 1), now);
	return 0;
}
