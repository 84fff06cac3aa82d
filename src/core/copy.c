/*
 * copy.c - copies of what other nodes have: they come in, and what is kept here becomes one
 * when another node keeps it.
 *
 *   master_copy_start --> a slot WRITING, marked as a copy --fetched--> master_copy_done
 *     --> READY in that slot, secondary: INACTIVE, or LENT in the turning room
 *   READY --master_yield--> the same
 *
 * A secondary object goes as one of the cache does, also if it is softpin, and is never
 * written to the disk. A restart keeps it, and drops what is still being fetched.
 *
 * A put of the key may be under way when a copy of it comes in, and the other way round:
 * neither knows of the other before it ends. Whichever is READY first has the key. A copy
 * that comes second is given up. A put that comes second is *outrun*: it leaves the key map
 * and looks again at its end, since by then the copy may have gone.
 */
#include "core/master_priv.h"

#include "base/err.h"

/* ---- a put and a copy of one key ----------------------------------------- */

uint32_t outrun_find(const struct master *master, uint32_t writer, uint64_t op)
{
	uint32_t slot = master->writing[writer % CLIENT_LIMIT].head;

	if (master->outrun == 0)
		return SLOT_NONE;
	for (; slot != SLOT_NONE; slot = object_at(master, slot)->next) {
		const struct slot *there = slot_at(master, slot);

		if (there->flags & SLOT_OUTRUN && there->writer == writer &&
			there->op == op)
			break;
	}
	return slot;
}

bool key_is_taken(struct master *master, const struct index_key *key)
{
	return master_find(master, key) != SLOT_NONE || disk_has(master, key);
}

void key_claim(struct master *master, uint32_t slot)
{
	struct index_key key = slot_index_key(master, slot);
	uint32_t other = map_find(master, &key);

	if (other == SLOT_NONE)
		return;
	CHECK(kind_at(master, other) == SLOT_WRITING);
	map_del(master, other);
	slot_at(master, other)->flags |= SLOT_OUTRUN;
	master->outrun++;
}

/* ---- copies on their way ------------------------------------------------- */

/* Not read from the disk, nor moved. */
bool is_being_fetched(const struct master *master, uint32_t slot)
{
	const struct relocating *move = &master->room.move;

	return kind_at(master, slot) == SLOT_WRITING &&
	       slot_at(master, slot)->flags & SLOT_COPY &&
	       object_at(master, slot)->disk == DISK_NONE &&
	       !(move->busy && move->to == slot);
}

/* One that was ended meanwhile is in nobody's way. */
static bool is_on_its_way(const struct master *master, const struct index_key *key)
{
	uint32_t slot = master->writing[CLIENT_LIMIT].head;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->next)
		if (is_being_fetched(master, slot) &&
			!(slot_at(master, slot)->flags & SLOT_DOOMED) &&
			slot_has_key(master, slot, key))
			return true;
	return false;
}

enum load_verdict master_copy_start(struct master *master,
	const struct copy_request *copy, struct ticket *ticket, uint64_t now,
	uint32_t *ret_slot)
{
	uint32_t block;

	if (key_is_taken(master, &copy->key) || is_on_its_way(master, &copy->key)) {
		if (ticket != NULL)
			master_room_cancel(master, ticket);
		return LOAD_GONE;
	}
	block = load_run(master, copy->size, copy->key.size, ticket, now);
	reclaim_start_if_low(master);
	if (block == EXTENT_NONE)
		return LOAD_NO_ROOM;
	*ret_slot = arrival_open(master, block, copy);
	slot_at(master, *ret_slot)->flags |= SLOT_SECONDARY;
	master_note_generation(master, copy->generation);
	return LOAD_STARTED;
}

void master_copy_know(
	struct master *master, uint32_t slot, const struct copy_request *said)
{
	struct slot *there = slot_at(master, slot);

	CHECK(is_being_fetched(master, slot));
	there->expires = said->expires;
	there->counted = said->counted;
	there->readers_left = said->readers_left;
	there->wanted = keepers_wanted(said->wanted);
	there->flags &= ~(uint32_t)(SLOT_EXPIRES | SLOT_DURABLE | SLOT_UNLISTED);
	there->flags |= (said->expires != UINT64_MAX ? SLOT_EXPIRES : 0u) |
			(said->durable ? SLOT_DURABLE : 0u) |
			(said->unlisted ? SLOT_UNLISTED : 0u);
}

static void copy_show(struct master *master, uint32_t slot, uint64_t now)
{
	object_at(master, slot)->read = true; /* as it is about to be */
	key_claim(master, slot);
	object_arrive(master, slot, false, now);
	master->cluster.copies++;
	master->cluster.copied_bytes += slot_at(master, slot)->size;
}

int master_copy_done(
	struct master *master, uint32_t slot, int err, uint64_t checksum, uint64_t now)
{
	struct slot *there = slot_at(master, slot);
	struct index_key key = slot_index_key(master, slot);

	CHECK(is_being_fetched(master, slot));
	if (there->flags & SLOT_DOOMED)
		err = ERR_REMOVED;
	else if (err == 0 && key_is_taken(master, &key))
		err = ERR_EXISTS;
	if (err != 0) {
		object_drop(master, slot);
		return err;
	}
	there->checksum = checksum;
	copy_show(master, slot, now);
	return 0;
}

/* ---- to be one ----------------------------------------------------------- */

/* The mark comes before the record goes: a restart between finds both, and goes by the
 * mark. */
void master_yield(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object = object_at(master, slot);
	enum object_list list;

	CHECK(kind_at(master, slot) == SLOT_READY);
	if (is_secondary(master, slot))
		return;
	slot_at(master, slot)->flags |= SLOT_SECONDARY;
	object->urgent = false;
	save_end(master, slot, now);
	list = (enum object_list)object->list;
	/* The others get on their lists when what they wait for has ended. */
	if (list != OBJECT_PARKED && list != OBJECT_MOVING && list != OBJECT_SAVING)
		object_list_ready(master, slot, list == OBJECT_ACTIVE);
}

void master_spare_copies(struct master *master, uint64_t until, uint64_t now)
{
	bool ends = until <= now && master->spare_until > now;

	master->spare_until = until;
	if (!ends)
		return;
	master_look_all(master, now);
	room_event(master);
}

void master_yield_stored(struct master *master, uint32_t entry, uint64_t now)
{
	CHECK(disk_is_only(disk_entry(&master->disk, entry)));
	left_entry(master, entry, false); /* no copy of it stays */
	disk_end(master, entry, now);
}
