/*
 * core_disk.c - the disk of the model test: jobs that core hands out, done later, in another
 * order, with errors, or cut by a restart.
 */
#include "core_world.h"

#include "core_pattern.h"

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>

bool disk_world_has(const struct world *world)
{
	return world->config->disk_size > 0;
}

void disk_open(struct world *world)
{
	struct world_disk *disk = &world->disk;

	if (!disk_world_has(world))
		return;
	disk->data = calloc(1, world->config->disk_size);
	disk->records = calloc(world->config->keys, sizeof(disk->records[0]));
	CHECK(disk->data != NULL && disk->records != NULL);
	for (uint32_t key = 0; key < world->config->keys; key++) {
		const struct index_key *name = &world->keys[key].key;

		hash_key128(name->data, name->size, disk->records[key].record.id.word);
	}
	for (uint32_t i = 0; i < WORLD_LOADS; i++)
		ticket_init(&disk->loads[i].ticket);
}

void disk_close(struct world *world)
{
	free(world->disk.data);
	free(world->disk.records);
}

static uint32_t key_of(const struct world *world, const struct disk_id *id)
{
	for (uint32_t key = 0; key < world->config->keys; key++) {
		const struct disk_id *other = &world->disk.records[key].record.id;

		if (other->word[0] == id->word[0] && other->word[1] == id->word[1])
			return key;
	}
	world_fail(world, "an id that is no key's");
}

/* ---- saves --------------------------------------------------------------- */

static void save_write(struct world *world, struct world_save *save, uint64_t *checksums)
{
	uint64_t off = save->off;

	for (uint32_t i = 0; i < save->count; i++) {
		const struct save_item *item = &save->items[i];
		const unsigned char *bytes = world->share.pool + item->pool_off;

		checksums[i] = hash_bytes_seed(bytes, item->size, item->seed);
		if (save->off == DISK_ON_INDEX)
			continue;
		if (off + item->size > world->config->disk_size)
			world_fail(world, "a write behind the end of the disk");
		memcpy(world->disk.data + off, bytes, item->size);
		off += align_up_u64(item->size, DISK_GRANULE);
	}
}

void disk_save(struct world *world)
{
	struct world_disk *disk = &world->disk;
	struct world_save *save = &disk->saves[disk->nsaves];

	if (!disk_world_has(world) || disk->nsaves == WORLD_SAVES)
		return;
	save->count = master_save_next(&world->master, world->now, save->items,
		1 + (uint32_t)rng_below(&world->rng, WORLD_SAVE_ITEMS), &save->off);
	if (save->count == 0)
		return;
	disk->nsaves++;
	world_trace(world, "save of %u at %" PRIu64, save->count, save->off);
}

void disk_save_done(struct world *world, bool may_fail)
{
	struct world_disk *disk = &world->disk;
	uint64_t checksums[WORLD_SAVE_ITEMS];
	uint32_t entries[WORLD_SAVE_ITEMS];
	struct world_save save;
	uint32_t at;
	int err = 0;

	if (disk->nsaves == 0)
		return;
	at = (uint32_t)rng_below(&world->rng, disk->nsaves);
	save = disk->saves[at];
	disk->saves[at] = disk->saves[--disk->nsaves];
	if (may_fail && rng_chance(&world->rng, 10))
		err = rng_chance(&world->rng, 50) ? ERR_IO : ERR_NO_SPACE;
	save_write(world, &save, checksums);
	for (uint32_t i = 0; i < save.count; i++)
		entries[i] = save.items[i].entry;
	world_trace(world, "save of %u done: %d", save.count, err);
	master_save_done(&world->master, entries, save.count, checksums, err, world->now);
}

/* ---- commits ------------------------------------------------------------- */

void disk_commit(struct world *world)
{
	struct world_disk *disk = &world->disk;

	if (!disk_world_has(world) || disk->ncommit > 0)
		return;
	disk->ncommit = master_changes(&world->master, disk->commit,
		1 + (uint32_t)rng_below(&world->rng, WORLD_COMMIT), world->now);
	world_trace(world, "commit of %u", disk->ncommit);
	for (uint32_t i = 0; i < disk->ncommit; i++) {
		struct world_change *change = &disk->changes[i];

		master_change_get(&world->master, disk->commit[i], &change->drop,
			&change->record, &change->value);
	}
}

static void change_apply(struct world *world, const struct world_change *change)
{
	struct world_record *record =
		&world->disk.records[key_of(world, &change->record.id)];

	record->there = !change->drop;
	if (change->drop)
		return;
	record->record = change->record;
	if (change->record.off == DISK_ON_INDEX && change->value != UINT64_MAX)
		memcpy(record->value, world->share.pool + change->value,
			change->record.size);
}

void disk_commit_done(struct world *world, bool may_fail)
{
	struct world_disk *disk = &world->disk;
	uint32_t count = disk->ncommit;
	int err = 0;

	if (count == 0)
		return;
	if (may_fail && rng_chance(&world->rng, 10))
		err = ERR_NO_SPACE;
	for (uint32_t i = 0; i < count && err == 0; i++)
		change_apply(world, &disk->changes[i]);
	disk->ncommit = 0;
	world_trace(world, "commit of %u done: %d", count, err);
	master_changes_done(&world->master, disk->commit, count, err, world->now);
}

/* ---- loads --------------------------------------------------------------- */

static struct world_load *load_of(struct world *world, uint32_t key)
{
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		struct world_load *load = &world->disk.loads[i];

		if (load->used && load->key == key)
			return load;
	}
	return NULL;
}

static void load_end(struct world_load *load)
{
	load->used = false;
	load->granted = false;
	load->slot = SLOT_NONE;
	ticket_init(&load->ticket);
}

static void load_try(struct world *world, struct world_load *load)
{
	const struct index_key *key = &world->keys[load->key].key;
	struct ticket *ticket = load->granted ? &load->ticket : NULL;
	uint32_t entry = master_disk_find(&world->master, key);
	const struct disk_entry *there;

	load->granted = false;
	if (entry == DISK_NONE) {
		if (ticket != NULL)
			master_room_cancel(&world->master, ticket);
		load_end(load);
		return;
	}
	there = disk_entry(&world->master.disk, entry);
	/* The room was for another generation of the key. */
	if (ticket != NULL && there->size != load->size) {
		master_room_cancel(&world->master, ticket);
		ticket = NULL;
	}
	load->size = there->size;
	load->id = naive_find(&world->naive, load->key);
	switch (master_load_start(
		&world->master, entry, key->data, ticket, world->now, &load->slot)) {
	case LOAD_STARTED:
		world_trace(world, "load of key %u to slot %u", load->key, load->slot);
		world->id_of[load->slot] = load->id;
		naive_ref(&world->naive, load->id);
		return;
	case LOAD_NO_ROOM:
		master_room_wait_load(
			&world->master, &load->ticket, there->size, key->size);
		return;
	case LOAD_GONE:
		load_end(load);
		return;
	}
}

void disk_load(struct world *world, uint32_t key)
{
	if (load_of(world, key) != NULL)
		return;
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		struct world_load *load = &world->disk.loads[i];

		if (load->used)
			continue;
		*load = (struct world_load){.used = true, .key = key, .slot = SLOT_NONE};
		ticket_init(&load->ticket);
		load_try(world, load);
		return;
	}
}

bool disk_granted(struct world *world, struct ticket *ticket)
{
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		if (ticket != &world->disk.loads[i].ticket)
			continue;
		world->disk.loads[i].granted = true;
		return true;
	}
	return false;
}

static uint64_t load_read(struct world *world, const struct world_load *load)
{
	const struct slot *there = &world->share.slots[load->slot];
	const struct world_record *record = &world->disk.records[load->key];
	uint32_t entry = world->master.objects[load->slot].disk;
	const struct disk_entry *from = disk_entry(&world->master.disk, entry);
	const struct index_key *key = &world->keys[load->key].key;
	const unsigned char *bytes = record->value;

	if (from->block != EXTENT_NONE)
		bytes = world->disk.data +
			extent_off_bytes(&world->master.disk.extents, from->block);
	memcpy(world->share.pool + there->off, bytes, there->size);
	return hash_bytes_seed(world->share.pool + there->off, there->size,
		hash_key(key->data, key->size, 0));
}

static void load_done(struct world *world, struct world_load *load, bool may_fail)
{
	int err = may_fail && rng_chance(&world->rng, 10) ? ERR_IO : 0;
	bool lives = naive_find(&world->naive, load->key) == load->id &&
		     naive_at(&world->naive, load->id)->state == NAIVE_READY;
	uint64_t checksum = err == 0 ? load_read(world, load) : 0;
	int got = master_load_done(&world->master, load->slot, err, checksum, world->now);

	world_trace(world, "load of key %u done: %d", load->key, got);
	if (got != (lives ? err : ERR_NOT_FOUND))
		world_fail(world, "load of key %u: %d, object %s, read %d", load->key,
			got, lives ? "lives" : "ended", err);
	if (got == 0)
		world_verify(world, load->id, load->slot);
	naive_unref(&world->naive, load->id);
	load_end(load);
}

void disk_load_step(struct world *world, bool may_fail)
{
	struct world_load *load = &world->disk.loads[rng_below(&world->rng, WORLD_LOADS)];

	if (!load->used)
		return;
	if (load->slot != SLOT_NONE) {
		load_done(world, load, may_fail);
	} else if (load->granted) {
		load_try(world, load);
	} else if (rng_chance(&world->rng, 5)) {
		master_room_cancel(&world->master, &load->ticket);
		load_end(load);
	}
}

/* ---- trimming ------------------------------------------------------------ */

void disk_trim(struct world *world)
{
	uint64_t off, size;
	uint32_t run;

	if (!disk_world_has(world) ||
		!master_trim_next(&world->master,
			rng_below(&world->rng, 2 * world->config->disk_size), &off, &size,
			&run))
		return;
	memset(world->disk.data + off, 0xee, size);
	master_trim_done(&world->master, run);
}

/* ---- all to the end ------------------------------------------------------ */

bool disk_settle(struct world *world)
{
	struct world_disk *disk = &world->disk;
	bool any = false;

	if (!disk_world_has(world))
		return false;
	for (uint32_t i = 0; i < 64; i++) {
		disk_save(world);
		disk_save_done(world, false);
		disk_commit(world);
		disk_commit_done(world, false);
	}
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		struct world_load *load = &disk->loads[i];

		if (load->used && load->slot != SLOT_NONE)
			load_done(world, load, false);
		else if (load->used && load->granted)
			load_try(world, load);
		any |= load->used;
	}
	return any || disk->nsaves + disk->ncommit > 0;
}

void disk_cancel_loads(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		struct world_load *load = &world->disk.loads[i];

		if (!load->used)
			continue;
		if (load->slot != SLOT_NONE) {
			load_done(world, load, false);
			continue;
		}
		master_room_cancel(&world->master, &load->ticket);
		load_end(load);
	}
}

/* ---- restart ------------------------------------------------------------- */

/* What is under way ends with the process, done or not. */
void disk_kill(struct world *world)
{
	struct world_disk *disk = &world->disk;
	uint64_t checksums[WORLD_SAVE_ITEMS];

	if (!disk_world_has(world))
		return;
	for (uint32_t key = 0; key < world->config->keys; key++)
		disk->records[key].ends = master_disk_ends(
			&world->master, &world->keys[key].key);
	for (; disk->nsaves > 0; disk->nsaves--)
		if (rng_chance(&world->rng, 50))
			save_write(world, &disk->saves[disk->nsaves - 1], checksums);
	if (rng_chance(&world->rng, 50))
		for (uint32_t i = 0; i < disk->ncommit; i++)
			change_apply(world, &disk->changes[i]);
	disk->ncommit = 0;
	for (uint32_t i = 0; i < WORLD_LOADS; i++) {
		if (disk->loads[i].used && disk->loads[i].slot != SLOT_NONE)
			naive_unref(&world->naive, disk->loads[i].id);
		load_end(&disk->loads[i]);
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct world_record *const *left = a;
	const struct world_record *const *right = b;

	if ((*left)->record.off != (*right)->record.off)
		return (*left)->record.off < (*right)->record.off ? -1 : 1;
	return 0;
}

/* An object whose end was not answered may be there again: it is ended again. It may have
 * pushed out a copy of a lower generation, which came in since. */
static void adopted_key(struct world *world, uint32_t key)
{
	const struct index_key *name = &world->keys[key].key;
	uint32_t entry = master_disk_find(&world->master, name);
	uint32_t id = naive_find(&world->naive, key);
	uint64_t generation;

	if (entry == DISK_NONE)
		return;
	generation = disk_entry(&world->master.disk, entry)->generation;
	if (id != NAIVE_NONE && naive_at(&world->naive, id)->generation == generation)
		return;
	if (!world->disk.records[key].ends ||
		(id != NAIVE_NONE && !naive_evict(&world->naive, key)))
		world_fail(world, "key %u is back on disk", key);
	/* Its generation alone: a put of the key may be under way. */
	if (master_end_generation(
		    &world->master, name, generation, world->now, &generation) != 0)
		world_fail(world, "key %u on disk cannot be removed", key);
}

void disk_adopt(struct world *world)
{
	struct world_record **sorted;
	uint32_t count = 0;

	if (!disk_world_has(world))
		return;
	sorted = calloc(world->config->keys, sizeof(sorted[0]));
	CHECK(sorted != NULL);
	for (uint32_t key = 0; key < world->config->keys; key++)
		if (world->disk.records[key].there)
			sorted[count++] = &world->disk.records[key];
	qsort(sorted, count, sizeof(sorted[0]), by_offset);
	for (uint32_t i = 0; i < count; i++) {
		int err = master_disk_adopt(
			&world->master, &sorted[i]->record, world->now);

		if (err != 0)
			world_fail(world, "a record is not adopted: %d", err);
	}
	master_disk_adopted(&world->master);
	free(sorted);
	for (uint32_t key = 0; key < world->config->keys; key++)
		adopted_key(world, key);
}
