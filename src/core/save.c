/*
 * save.c - objects go from the pool to the disk, and stay in the pool until their place is
 * needed.
 *
 *   DIRTY --master_save_next--> SAVING --written--> (change queued) --committed--> CLEAN
 *
 * Chosen are, in this order: what is urgent (a window is being cleared, a put is durable),
 * what has been read (in the life of a rollout there is seldom a second time), then what is
 * unread, the newest first, since readers come in the order of the puts. The very newest, a
 * sixteenth of the pool, are left alone as long as there are others: they may be on their
 * way to a reader.
 */
#include "core/master_priv.h"

#include "base/err.h"
#include "base/hash.h"

#define READ_LOOKS 1024u /* objects at the old end that one choice looks at */

/* ---- how much ------------------------------------------------------------ */

bool disk_is_usable(const struct master *master)
{
	return disk_is_there(&master->disk) && master->disk.error == 0;
}

/* Bytes that tickets wait for, and that the watermarks miss. */
static uint64_t save_need(const struct master *master)
{
	const struct room *room = &master->room;
	uint64_t need = 0;

	list_for_each (at, &room->waiting)
		need += container_of(at, struct ticket, entry)->run_bytes;
	if (room->refilling)
		need += master->share->header->pool_size / 1000 *
			master->config.high_permille;
	return need;
}

/* Bytes that are free, or could be without the disk or another node, or soon will be. */
static uint64_t save_have(const struct master *master)
{
	const struct extent_map *map = &master->extents;
	uint64_t window = 0;

	if (extent_window_is_open(map, EXTENT_CLEARING))
		window = master->room.window.size -
			 extent_window_missing(map, EXTENT_CLEARING);
	return free_bytes(master) + window + master->bytes_of[OBJECT_CLEAN] +
	       master->bytes_of[OBJECT_SAVING] + master->bytes_of[OBJECT_INACTIVE] +
	       master->bytes_of[OBJECT_ACTIVE] + master->hand.bytes;
}

/* Tickets that find bytes, but no slot. */
static bool slots_are_wanted(const struct master *master)
{
	return slots_are_short(master) && !list_is_empty(&master->room.waiting) &&
	       master->clean.count + master->saving.count == 0;
}

bool save_is_wanted(const struct master *master)
{
	return master->dirty.count + master->spent.count > 0 &&
	       (save_need(master) > save_have(master) || slots_are_wanted(master));
}

/* ---- choose -------------------------------------------------------------- */

struct choice {
	struct master *master;
	uint32_t slots[DISK_BATCH];
	uint32_t count, limit;
	uint64_t bytes; /* on disk */
	bool on_index;  /* all of them, or none */
};

static uint64_t disk_bytes(const struct master *master, uint32_t slot)
{
	return align_up_u64(slot_at(master, slot)->size, DISK_GRANULE);
}

/* False: enough are chosen. */
static bool choose(struct choice *choice, uint32_t slot)
{
	bool on_index = slot_at(choice->master, slot)->size <= DISK_INLINE;

	if (choice->count == 0)
		choice->on_index = on_index;
	if (on_index == choice->on_index) {
		choice->slots[choice->count++] = slot;
		choice->bytes += on_index ? 0 : disk_bytes(choice->master, slot);
	}
	return choice->count < choice->limit && choice->bytes < DISK_WRITE_BYTES;
}

bool object_was_read(struct master *master, uint32_t slot)
{
	struct object *object = object_at(master, slot);

	if (!object->read && hold_used(&master->watch, slot))
		object->read = true;
	return object->read;
}

void save_harvest(struct master *master, uint32_t limit)
{
	uint32_t slot = master->dirty.tail, before;

	for (; slot != SLOT_NONE && limit > 0; slot = before, limit--) {
		before = object_at(master, slot)->prev;
		if (!object_at(master, slot)->urgent && object_was_read(master, slot))
			object_place(master, slot, OBJECT_SPENT);
	}
}

/* From a queue's old end. False: enough. */
static bool choose_old(
	struct choice *choice, const struct object_queue *queue, bool urgent)
{
	struct master *master = choice->master;
	uint32_t slot = queue->tail;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->prev) {
		if (urgent && !object_at(master, slot)->urgent)
			return true;
		if (!choose(choice, slot))
			return false;
	}
	return true;
}

/* Those that are unread, from the newest on. */
static void choose_new(struct choice *choice, uint64_t skip_bytes)
{
	struct master *master = choice->master;
	uint32_t slot = master->dirty.head;
	uint64_t skipped = 0;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->next) {
		if (skipped < skip_bytes) {
			skipped += run_bytes(master, slot);
			continue;
		}
		if (!choose(choice, slot))
			return;
	}
}

static void choose_all(struct choice *choice)
{
	struct master *master = choice->master;

	if (!choose_old(choice, &master->dirty, true) || choice->count > 0 ||
		!save_is_wanted(master) || hand_goes_first(master))
		return;
	save_harvest(master, READ_LOOKS);
	if (!choose_old(choice, &master->spent, false) || choice->count > 0)
		return;
	choose_new(choice, master->share->header->pool_size / 16);
	if (choice->count == 0)
		choose_new(choice, 0);
}

/* ---- room on disk -------------------------------------------------------- */

/* Cache objects give their place, the oldest first. */
static void cache_give(struct master *master, uint64_t bytes, uint64_t now)
{
	struct disk *disk = &master->disk;
	uint32_t entry = disk->cache.tail;

	for (uint64_t given = 0; given < bytes && entry != DISK_NONE;) {
		const struct disk_entry *there = disk_entry(disk, entry);
		uint32_t next = there->prev;

		/* What lies in the turning room must be able to leave it. */
		if (there->slot == SLOT_NONE ||
			!turning_has(master, object_at(master, there->slot)->block)) {
			given += align_up_u64(there->size, DISK_GRANULE);
			if (disk_is_only(there))
				left_entry(master, entry, false);
			disk_drop(master, entry, now);
		}
		entry = next;
	}
}

/* A run for what is chosen, or for the first of it. EXTENT_NONE: no room now. */
static uint32_t save_run(struct choice *choice)
{
	struct extent_map *map = &choice->master->disk.extents;
	uint32_t run = extent_alloc(map, choice->bytes, DISK_GRANULE, DISK_NONE);

	if (run != EXTENT_NONE || choice->count == 1)
		return run;
	choice->count = 1;
	choice->bytes = disk_bytes(choice->master, choice->slots[0]);
	return extent_alloc(map, choice->bytes, DISK_GRANULE, DISK_NONE);
}

bool disk_has_room(const struct master *master, uint64_t bytes)
{
	const struct disk *disk = &master->disk;

	return disk_is_usable(master) && !disk_is_full_of_entries(disk) &&
	       bytes <= extent_total_bytes(&disk->extents, EXTENT_FREE) +
				disk->cache_bytes;
}

/* ---- begin --------------------------------------------------------------- */

static uint32_t save_entry(struct master *master, uint32_t slot, uint32_t run)
{
	struct slot *there = slot_at(master, slot);
	const uint8_t *key = slot_key(master->share, there);
	struct disk_entry entry = {
		.id = disk_id_of(key, there->klen),
		.hash = there->hash,
		.size = there->size,
		.generation = there->generation,
		.expires = there->flags & SLOT_EXPIRES ? there->expires : UINT64_MAX,
		.block = run,
		.slot = slot,
		.readers_left = there->readers_left,
		.klen = there->klen,
		.state = DISK_SAVING,
		.wanted = (uint8_t)there->wanted,
		.softpin = (there->flags & SLOT_SOFTPIN) != 0,
		.durable = (there->flags & SLOT_DURABLE) != 0,
		.counted = there->counted != 0,
		.writing = true,
	};
	uint32_t number = disk_entry_new(&master->disk, &entry);

	CHECK(number != DISK_NONE);
	if (run != EXTENT_NONE)
		extent_set_owner(&master->disk.extents, run, number);
	object_at(master, slot)->disk = number;
	object_place(master, slot, OBJECT_SAVING);
	master->disk.saving_bytes += run_bytes(master, slot);
	master->disk.writing++;
	return number;
}

static void save_item(struct master *master, uint32_t entry, struct save_item *ret)
{
	const struct slot *there = slot_at(
		master, disk_entry(&master->disk, entry)->slot);

	*ret = (struct save_item){
		.entry = entry,
		.pool_off = there->off,
		.size = there->size,
		.seed = hash_key(slot_key(master->share, there), there->klen, 0),
	};
}

/* The chosen ones, in the runs that `run` is cut into. */
static void save_begin(struct choice *choice, uint32_t run, struct save_item *items)
{
	struct master *master = choice->master;
	struct extent_map *map = &master->disk.extents;

	for (uint32_t i = 0; i < choice->count; i++) {
		uint32_t rest = EXTENT_NONE;

		if (run != EXTENT_NONE && i + 1 < choice->count)
			rest = extent_split(map, run,
				disk_bytes(master, choice->slots[i]), DISK_NONE);
		save_item(master, save_entry(master, choice->slots[i], run), &items[i]);
		run = rest;
	}
}

uint32_t master_save_next(struct master *master, uint64_t now, struct save_item *items,
	uint32_t limit, uint64_t *ret_off)
{
	struct disk *disk = &master->disk;
	struct choice choice = {.master = master, .limit = MIN(limit, DISK_BATCH)};
	uint32_t run = EXTENT_NONE;

	if (!disk_is_there(disk) || master->dirty.count + master->spent.count == 0)
		return 0;
	/* After an error one object tries it alone. */
	if (disk->error != 0) {
		if (now < disk->retry_ns || disk->writing + disk->committing > 0)
			return 0;
		choice.limit = 1;
	}
	choice.limit = MIN(choice.limit, disk->config.object_limit - disk->count);
	if (choice.limit == 0) {
		cache_give(master, DISK_GRANULE, now);
		return 0;
	}
	choose_all(&choice);
	if (choice.count == 0)
		return 0;
	*ret_off = DISK_ON_INDEX;
	if (!choice.on_index) {
		run = save_run(&choice);
		if (run == EXTENT_NONE) {
			cache_give(master, choice.bytes, now);
			return 0;
		}
		*ret_off = extent_off_bytes(&disk->extents, run);
	}
	master->stats.writes += run != EXTENT_NONE;
	save_begin(&choice, run, items);
	return choice.count;
}

/* ---- end ----------------------------------------------------------------- */

/* Entry and slot part: the object is in the pool alone, or ended there as well. */
void save_detach(struct master *master, uint32_t entry, uint64_t now)
{
	uint32_t slot = disk_entry(&master->disk, entry)->slot;
	struct object *object = object_at(master, slot);

	disk_entry(&master->disk, entry)->slot = SLOT_NONE;
	object->disk = DISK_NONE;
	object->urgent = false;
	if (object->list == OBJECT_CONDEMNED)
		object_settle(master, slot, now);
	else if (object->list == OBJECT_SAVING)
		object_list_ready(master, slot, false);
}

void save_end(struct master *master, uint32_t slot, uint64_t now)
{
	struct object *object = object_at(master, slot);
	bool saved = master_is_saved(master, slot);

	if (object->disk == DISK_NONE ||
		!disk_lives(disk_entry(&master->disk, object->disk)))
		return;
	disk_end(master, object->disk, now);
	if (saved) {
		disk_entry(&master->disk, object->disk)->slot = SLOT_NONE;
		object->disk = DISK_NONE;
	}
}

/* The index has it. */
void save_finish(struct master *master, uint32_t entry)
{
	struct disk_entry *there = disk_entry(&master->disk, entry);
	struct object *object = object_at(master, there->slot);

	disk_stored(&master->disk, entry);
	object->urgent = false;
	master->stats.saves++;
	master->stats.saved_bytes += there->size;
	if (object->list == OBJECT_SAVING)
		object_list_ready(master, there->slot, false);
}

void master_save_done(struct master *master, const uint32_t *entries, uint32_t count,
	const uint64_t *checksums, int err, uint64_t now)
{
	struct disk *disk = &master->disk;

	disk_judge(master, err, now);
	for (uint32_t i = 0; i < count; i++) {
		struct disk_entry *there = disk_entry(disk, entries[i]);

		CHECK(there->state == DISK_SAVING && there->writing);
		there->writing = false;
		disk->writing--;
		disk->saving_bytes -= run_bytes(master, there->slot);
		if (err != 0 || there->doomed) {
			master->stats.save_errors += err != 0;
			save_detach(master, entries[i], now);
			disk_entry_free(master, entries[i]);
			continue;
		}
		there->checksum = checksums[i];
		slot_at(master, there->slot)->checksum = checksums[i];
		disk_change(disk, entries[i], DISK_PUT);
	}
	room_event(master);
}

/* ---- what is wanted of it ------------------------------------------------ */

bool master_is_saved(const struct master *master, uint32_t slot)
{
	uint32_t entry = object_at(master, slot)->disk;

	return entry != DISK_NONE &&
	       disk_entry(&master->disk, entry)->state == DISK_STORED;
}

void master_save_first(struct master *master, uint32_t slot)
{
	struct object *object = object_at(master, slot);

	if (!disk_is_there(&master->disk) || object->disk != DISK_NONE ||
		is_secondary(master, slot))
		return;
	if (object->list != OBJECT_DIRTY) {
		if (object->list != OBJECT_INACTIVE && object->list != OBJECT_ACTIVE &&
			object->list != OBJECT_SPENT && object->list != OBJECT_PARKED)
			return; /* it is on its way elsewhere: asked for again then */
		slot_want(slot_at(master, slot), false);
		object_place(master, slot, OBJECT_DIRTY);
	}
	object->urgent = true;
	object_unlink(&master->dirty, master->objects, slot);
	object_push_tail(&master->dirty, master->objects, slot);
}

bool save_spent_first(struct master *master, uint64_t bytes)
{
	uint64_t marked = 0;
	uint32_t slot, before;

	if (!disk_has_room(master, bytes))
		return false;
	save_harvest(master, READ_LOOKS);
	slot = master->spent.tail;
	for (; slot != SLOT_NONE && marked < bytes; slot = before) {
		before = object_at(master, slot)->prev;
		marked += run_bytes(master, slot);
		master_save_first(master, slot);
	}
	return marked > 0 || master->saving.count > 0 ||
	       (master->dirty.count > 0 && object_at(master, master->dirty.tail)->urgent);
}

/* ---- out of the pool ----------------------------------------------------- */

void object_forget_disk(struct master *master, uint32_t slot)
{
	struct disk *disk = &master->disk;
	struct object *object = object_at(master, slot);
	struct disk_entry *there = disk_entry(disk, object->disk);

	CHECK(there->state == DISK_STORED && !there->loading);
	there->slot = SLOT_NONE;
	if (slot_at(master, slot)->flags & SLOT_EXPIRES)
		there->expires = slot_at(master, slot)->expires;
	disk_only(disk, object->disk, true);
	object->disk = DISK_NONE;
}

void disk_drop(struct master *master, uint32_t entry, uint64_t now)
{
	uint32_t slot = disk_entry(&master->disk, entry)->slot;
	bool in_pool = slot != SLOT_NONE && !disk_entry(&master->disk, entry)->loading;

	disk_end(master, entry, now);
	if (!in_pool)
		return;
	disk_entry(&master->disk, entry)->slot = SLOT_NONE;
	object_at(master, slot)->disk = DISK_NONE;
	if (object_is_clean(object_at(master, slot)))
		object_list_ready(master, slot, false);
}
