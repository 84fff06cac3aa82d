/*
 * put.c - an object's way in, while its client writes the bytes.
 *
 *   FREE --master_put_start--> WRITING, in the key map --master_put_end--> sealed, READY
 *   WRITING --master_put_abort, or the client dies--> FREE
 *
 * Under WRITING it may lose the key: DOOMED by a removal (end.c), LATE past its deadline,
 * OUTRUN by what was READY first (copy.c). Its run stays reserved all the same until the
 * client ends it, and is told so, or dies. An outrun put may have the key again by then.
 *
 * A put in the place of another object (SLOT_REPLACES) begins outrun, since what has the key
 * keeps it until the end, and then ends that.
 */
#include "core/master_priv.h"

#include "base/err.h"

uint64_t master_largest(const struct master *master, uint32_t klen)
{
	return master->share->header->pool_size - (klen > KEY_INLINE ? klen : 0);
}

static enum put_verdict verdict_on_existing(
	const struct master *master, const struct put_request *put, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);

	if (there->writer == put->writer && there->op == put->op)
		return PUT_REPEATED;
	return kind_at(master, slot) == SLOT_READY ? PUT_EXISTS : PUT_BUSY;
}

static void slot_fill(struct master *master, uint32_t slot, uint32_t block,
	const struct put_request *put)
{
	struct slot *there = slot_at(master, slot);

	slot_name(master, slot, block, &put->key, put->size);
	there->generation = 0;
	there->checksum = 0;
	there->expires = 0;
	there->lease_end = put->ttl_ns;
	there->writer = put->writer;
	there->counted = put->readers > 0;
	there->readers_left = put->readers;
	there->wanted = put->wanted;
	there->namespace_id = 0;
	there->flags = (put->softpin ? SLOT_SOFTPIN : 0u) |
		       (put->replace ? SLOT_REPLACES | SLOT_OUTRUN : 0u) |
		       (put->durable ? SLOT_DURABLE : 0u) |
		       (put->required ? SLOT_REQUIRED : 0u) |
		       (put->ttl_ns != 0 ? SLOT_EXPIRES : 0u);
	there->op = put->op;
}

/* The run for a put: the ticket's, or a hole that no one waits for. */
static uint32_t put_run(
	struct master *master, const struct put_request *put, struct ticket *ticket)
{
	uint64_t align;
	uint64_t bytes = extent_round(
		slot_run_size(put->size, (uint16_t)put->key.size), &align);

	if (ticket != NULL)
		return ticket_spend(master, ticket, bytes);
	if (!list_is_empty(&master->room.waiting) || slots_are_short(master))
		return EXTENT_NONE;
	return extent_alloc(&master->extents, bytes, align, SLOT_NONE);
}

/* While a record is being deleted the key waits: after a kill the old object must not come
 * back in place of a new one that was evicted. */
static bool is_on_disk(
	struct master *master, const struct index_key *key, enum put_verdict *ret_verdict)
{
	*ret_verdict = PUT_EXISTS;
	if (disk_has(master, key))
		return true;
	*ret_verdict = PUT_BUSY;
	return master_disk_ends(master, key);
}

/* What this put meets: itself, if it is a repeat; SLOT_NONE: nothing that matters to it. */
static uint32_t put_meets(const struct master *master, const struct put_request *put)
{
	uint32_t slot = outrun_find(master, put->writer, put->op);

	if (slot == SLOT_NONE)
		slot = map_find(master, &put->key);
	if (slot != SLOT_NONE && put->replace &&
		verdict_on_existing(master, put, slot) != PUT_REPEATED)
		slot = SLOT_NONE;
	return slot;
}

enum put_verdict master_put_start(struct master *master, const struct put_request *put,
	struct ticket *ticket, uint32_t *ret_slot)
{
	uint32_t slot = put_meets(master, put);
	enum put_verdict verdict;
	uint32_t block;

	if (slot == SLOT_NONE && !put->replace &&
		is_on_disk(master, &put->key, &verdict)) {
		if (ticket != NULL)
			master_room_cancel(master, ticket);
		*ret_slot = SLOT_NONE;
		return verdict;
	}
	if (slot != SLOT_NONE || put->size > master_largest(master, put->key.size)) {
		if (ticket != NULL)
			master_room_cancel(master, ticket);
		if (slot == SLOT_NONE)
			return PUT_TOO_LARGE;
		*ret_slot = slot;
		return verdict_on_existing(master, put, slot);
	}
	block = put_run(master, put, ticket);
	reclaim_start_if_low(master);
	if (block == EXTENT_NONE)
		return PUT_NO_ROOM;

	slot = slot_alloc(master);
	CHECK(slot != SLOT_NONE);
	extent_set_owner(&master->extents, block, slot);
	slot_fill(master, slot, block, put);
	slot_publish(slot_at(master, slot));
	object_place(master, slot, OBJECT_WRITING);
	if (put->replace)
		master->outrun++;
	else
		map_add(master, slot);
	if (put->deadline != UINT64_MAX)
		heap_set(&master->timers, slot, put->deadline);
	master->stats.puts++;
	*ret_slot = slot;
	return PUT_STARTED;
}

static bool is_put_of(
	const struct master *master, uint32_t slot, uint64_t life, uint32_t writer)
{
	return slot < nslots_of(master) && object_at(master, slot)->list != OBJECT_FREE &&
	       life_at(master, slot) == life && slot_at(master, slot)->writer == writer &&
	       !(slot_at(master, slot)->flags & SLOT_COPY);
}

int master_put_name(struct master *master, uint32_t slot, uint64_t life, uint32_t writer,
	uint64_t wall_us, uint64_t above, uint64_t *ret_generation)
{
	struct index_key key;
	struct slot *there;

	if (!is_put_of(master, slot, life, writer))
		return ERR_NOT_FOUND;
	there = slot_at(master, slot);
	if (kind_at(master, slot) == SLOT_WRITING) {
		if (there->flags & (SLOT_DOOMED | SLOT_LATE))
			return there->flags & SLOT_DOOMED ? ERR_REMOVED : ERR_TIMEOUT;
		key = slot_index_key(master, slot);
		if (there->generation == 0 && there->flags & SLOT_OUTRUN &&
			!(there->flags & SLOT_REPLACES) && key_is_taken(master, &key))
			return ERR_EXISTS;
		if (there->generation == 0 || there->generation <= above)
			there->generation = generation_above(master, wall_us, above);
	}
	*ret_generation = there->generation;
	return 0;
}

/* An unfinished put that was outrun has the key again if nothing else has. */
static bool put_regains(struct master *master, uint32_t slot)
{
	struct index_key key = slot_index_key(master, slot);

	if (key_is_taken(master, &key))
		return false;
	slot_at(master, slot)->flags &= ~(uint32_t)SLOT_OUTRUN;
	master->outrun--;
	key_claim(master, slot);
	map_add(master, slot);
	return true;
}

/* What had the key ends. That the new one is sealed comes first: a restart between finds both,
 * and goes on here. */
static void put_replaces(struct master *master, uint32_t slot, uint64_t now)
{
	struct index_key key = slot_index_key(master, slot);
	uint32_t old = map_find(master, &key);
	uint32_t entry;

	if (old != SLOT_NONE && kind_at(master, old) == SLOT_READY)
		object_end(master, old, now);
	entry = master_disk_find(master, &key);
	if (entry != DISK_NONE)
		disk_end(master, entry, now);
	atomic_thread_fence(memory_order_release);
	slot_at(master, slot)->flags &= ~(uint32_t)SLOT_REPLACES;
	key_claim(master, slot);
	map_add(master, slot);
}

/* Ordered so that a kill between any two stores is mended by master_recover(). */
static void put_seal(struct master *master, uint32_t slot, uint64_t now, uint64_t wall_us)
{
	struct slot *there = slot_at(master, slot);

	if (there->generation == 0)
		there->generation = generation_next(master, wall_us);
	if (there->flags & SLOT_EXPIRES)
		there->expires = now > UINT64_MAX - there->lease_end
					 ? UINT64_MAX
					 : now + there->lease_end;
	atomic_thread_fence(memory_order_release);
	there->flags |= SLOT_SEALED;
	atomic_thread_fence(memory_order_release);
	there->lease_end = 0;
	if (there->flags & SLOT_REPLACES)
		put_replaces(master, slot, now);
	object_show(master, slot);
	object_arm(master, slot, now);
}

int master_put_end(struct master *master, uint32_t slot, uint64_t life, uint32_t writer,
	uint64_t now, uint64_t wall_us, uint64_t *ret_generation)
{
	uint32_t flags;

	master_is_told(master, now);
	if (!is_put_of(master, slot, life, writer))
		return ERR_NOT_FOUND;
	flags = slot_at(master, slot)->flags;
	if (kind_at(master, slot) == SLOT_WRITING) {
		if (flags & (SLOT_DOOMED | SLOT_LATE)) {
			object_drop(master, slot);
			return flags & SLOT_DOOMED ? ERR_REMOVED : ERR_TIMEOUT;
		}
		if (flags & SLOT_REPLACES && flags & SLOT_OUTRUN) {
			slot_at(master, slot)->flags &= ~(uint32_t)SLOT_OUTRUN;
			master->outrun--;
		} else if (flags & SLOT_OUTRUN && !put_regains(master, slot)) {
			object_drop(master, slot);
			return ERR_EXISTS;
		}
		put_seal(master, slot, now, wall_us);
	}
	*ret_generation = slot_at(master, slot)->generation;
	return 0;
}

int master_put_abort(struct master *master, uint32_t slot, uint64_t life, uint32_t writer)
{
	if (!is_put_of(master, slot, life, writer) ||
		kind_at(master, slot) != SLOT_WRITING)
		return ERR_NOT_FOUND;
	object_drop(master, slot);
	return 0;
}
