#include "core/master_priv.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/plant.h"

#include <string.h>

/* ---- memory -------------------------------------------------------------- */

struct disk_plan {
	size_t entries, map, extents, heaps[2], positions[2], total;
	uint32_t map_size, records;
};

static size_t plan_add(struct disk_plan *plan, size_t bytes)
{
	size_t at = plan->total;

	plan->total = at + align_up_u64(bytes, 64);
	return at;
}

static struct disk_plan plan_disk(const struct disk_config *config)
{
	struct disk_plan plan = {0};
	size_t limit = config->object_limit;

	/* A write's run is split among its objects, and a trim has one for itself. */
	plan.records = (uint32_t)EXTENT_RECORDS(limit + 1);
	plan.map_size = (uint32_t)round_up_pow2(limit / 4 + 1);
	plan.entries = plan_add(&plan, limit * sizeof(struct disk_entry));
	plan.map = plan_add(&plan, plan.map_size * sizeof(uint32_t));
	plan.extents = plan_add(&plan, plan.records * sizeof(struct extent));
	for (int i = 0; i < 2; i++) {
		plan.heaps[i] = plan_add(&plan, limit * sizeof(struct heap_entry));
		plan.positions[i] = plan_add(&plan, limit * sizeof(uint32_t));
	}
	return plan;
}

size_t disk_memory_size(const struct disk_config *config)
{
	return config->data_size > 0 ? plan_disk(config).total : 0;
}

static void queue_init(struct disk_queue *queue)
{
	*queue = (struct disk_queue){.head = DISK_NONE, .tail = DISK_NONE};
}

void disk_init(struct disk *disk, const struct disk_config *config, void *memory)
{
	struct disk_plan plan;
	unsigned char *base = memory;

	*disk = (struct disk){
		.config = *config, .free_head = DISK_NONE, .trimmed_used = UINT64_MAX};
	queue_init(&disk->changes);
	queue_init(&disk->cache);
	if (!disk_is_there(disk))
		return;
	plan = plan_disk(config);
	disk->entries = (struct disk_entry *)(void *)(base + plan.entries);
	disk->map = (uint32_t *)(void *)(base + plan.map);
	disk->map_mask = plan.map_size - 1;
	extent_map_init(&disk->extents, (struct extent *)(void *)(base + plan.extents),
		plan.records, config->data_size, DISK_GRANULE);
	heap_init(&disk->largest, (struct heap_entry *)(void *)(base + plan.heaps[0]),
		(uint32_t *)(void *)(base + plan.positions[0]), config->object_limit);
	heap_init(&disk->timers, (struct heap_entry *)(void *)(base + plan.heaps[1]),
		(uint32_t *)(void *)(base + plan.positions[1]), config->object_limit);
}

/* ---- queues -------------------------------------------------------------- */

/* The cache's queue links by prev and next, that of changes by links of its own. */
static uint32_t *link_of(
	struct disk *disk, const struct disk_queue *queue, uint32_t entry, bool next)
{
	struct disk_entry *there = disk_entry(disk, entry);

	if (queue == &disk->cache)
		return next ? &there->next : &there->prev;
	return next ? &there->change_next : &there->change_prev;
}

static void queue_push(
	struct disk *disk, struct disk_queue *queue, uint32_t entry, bool at_head)
{
	uint32_t *end = at_head ? &queue->head : &queue->tail;
	uint32_t old = *end;

	*link_of(disk, queue, entry, at_head) = old;
	*link_of(disk, queue, entry, !at_head) = DISK_NONE;
	if (old != DISK_NONE)
		*link_of(disk, queue, old, !at_head) = entry;
	else
		queue->head = queue->tail = entry;
	*end = entry;
	queue->count++;
}

static void queue_unlink(struct disk *disk, struct disk_queue *queue, uint32_t entry)
{
	uint32_t prev = *link_of(disk, queue, entry, false);
	uint32_t next = *link_of(disk, queue, entry, true);

	CHECK(queue->count > 0);
	if (prev != DISK_NONE)
		*link_of(disk, queue, prev, true) = next;
	else
		queue->head = next;
	if (next != DISK_NONE)
		*link_of(disk, queue, next, false) = prev;
	else
		queue->tail = prev;
	queue->count--;
}

/* ---- the map ------------------------------------------------------------- */

struct disk_id disk_id_of(const void *key, uint32_t size)
{
	struct disk_id id;

	hash_key128(key, size, id.word);
	return id;
}

static bool same_id(const struct disk_id *a, const struct disk_id *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static uint32_t *head_of(const struct disk *disk, uint64_t hash)
{
	return &disk->map[hash & disk->map_mask];
}

/* Heads hold entry number + 1, so that zeroed memory is an empty map. */
static void map_enter(struct disk *disk, uint32_t entry)
{
	uint32_t *head = head_of(disk, disk_entry(disk, entry)->hash);

	disk_entry(disk, entry)->chain = *head - 1;
	*head = entry + 1;
}

static void map_leave(struct disk *disk, uint32_t entry)
{
	uint32_t *head = head_of(disk, disk_entry(disk, entry)->hash);
	uint32_t at = *head - 1;

	if (at == entry) {
		*head = disk_entry(disk, entry)->chain + 1;
		return;
	}
	while (disk_entry(disk, at)->chain != entry)
		at = disk_entry(disk, at)->chain;
	disk_entry(disk, at)->chain = disk_entry(disk, entry)->chain;
}

bool disk_lives(const struct disk_entry *entry)
{
	return entry->state == DISK_STORED ||
	       (entry->state == DISK_SAVING && !entry->doomed);
}

uint32_t disk_find_id(const struct disk *disk, uint64_t hash, const struct disk_id *id)
{
	uint32_t at = *head_of(disk, hash) - 1;

	for (; at != DISK_NONE; at = disk_entry(disk, at)->chain) {
		const struct disk_entry *entry = disk_entry(disk, at);

		if (entry->hash == hash && disk_lives(entry) && same_id(&entry->id, id))
			return at;
	}
	return DISK_NONE;
}

/* Whether any entry has the hash: the id costs more than this look. */
static bool hash_is_there(const struct disk *disk, uint64_t hash)
{
	uint32_t at;

	if (disk->count == 0)
		return false;
	at = *head_of(disk, hash) - 1;
	while (at != DISK_NONE && disk_entry(disk, at)->hash != hash)
		at = disk_entry(disk, at)->chain;
	return at != DISK_NONE;
}

uint32_t disk_find(const struct disk *disk, const struct index_key *key)
{
	struct disk_id id;

	if (!hash_is_there(disk, key->hash))
		return DISK_NONE;
	id = disk_id_of(key->data, key->size);
	return disk_find_id(disk, key->hash, &id);
}

uint32_t master_disk_find(const struct master *master, const struct index_key *key)
{
	uint32_t entry = disk_find(&master->disk, key);

	if (entry == DISK_NONE || !disk_is_only(disk_entry(&master->disk, entry)))
		return DISK_NONE;
	return entry;
}

bool disk_has(struct master *master, const struct index_key *key)
{
	uint32_t entry = master_disk_find(master, key);

	if (entry == DISK_NONE || !disk_entry(&master->disk, entry)->corrupt)
		return entry != DISK_NONE;
	left_entry(master, entry, false);
	disk_end(master, entry, 0);
	return false;
}

bool disk_is_being_put(const struct disk_entry *entry)
{
	return entry->change == DISK_PUT || entry->committing == DISK_PUT;
}

/* Its deletion, or a new count of reads of what is only on disk. */
static bool change_matters(const struct disk_entry *entry)
{
	if (disk_lives(entry))
		return entry->slot == SLOT_NONE && disk_is_being_put(entry);
	return entry->committing != DISK_NO_CHANGE || entry->change == DISK_DROP;
}

bool master_disk_ends(const struct master *master, const struct index_key *key)
{
	const struct disk *disk = &master->disk;
	struct disk_id id;
	uint32_t at;

	if (PLANTED(EARLY_REMOVE) || !hash_is_there(disk, key->hash))
		return false;
	id = disk_id_of(key->data, key->size);
	for (at = *head_of(disk, key->hash) - 1; at != DISK_NONE;
		at = disk_entry(disk, at)->chain) {
		const struct disk_entry *entry = disk_entry(disk, at);

		if (same_id(&entry->id, &id) && change_matters(entry))
			return true;
	}
	return false;
}

uint32_t master_disk_list(const struct master *master, uint32_t entry)
{
	for (; entry < master->disk.used; entry++) {
		if (disk_is_only(disk_entry(&master->disk, entry)))
			return entry;
	}
	return DISK_NONE;
}

/* ---- entries ------------------------------------------------------------- */

bool disk_is_full_of_entries(const struct disk *disk)
{
	return disk->free_head == DISK_NONE && disk->used >= disk->config.object_limit;
}

uint32_t disk_entry_new(struct disk *disk, const struct disk_entry *like)
{
	uint32_t entry = disk->free_head;

	if (entry != DISK_NONE)
		disk->free_head = disk_entry(disk, entry)->chain;
	else if (disk->used < disk->config.object_limit)
		entry = disk->used++;
	else
		return DISK_NONE;
	*disk_entry(disk, entry) = *like;
	map_enter(disk, entry);
	disk->count++;
	disk->bytes += like->size;
	return entry;
}

void disk_entry_free(struct master *master, uint32_t entry)
{
	struct disk *disk = &master->disk;
	struct disk_entry *there = disk_entry(disk, entry);

	CHECK(!there->writing && there->committing == DISK_NO_CHANGE && !there->loading &&
		there->change == DISK_NO_CHANGE);
	if (there->block != EXTENT_NONE)
		extent_free(&disk->extents, there->block);
	map_leave(disk, entry);
	disk->count--;
	disk->bytes -= there->size;
	there->state = DISK_FREE;
	there->chain = disk->free_head;
	disk->free_head = entry;
	/* What could not be saved for want of space may go now. */
	room_event(master);
}

/* The softpin objects on disk decide how large the turning room must be. */
static uint64_t pool_run(const struct disk_entry *entry)
{
	uint64_t align;

	return align_up_u64(
		extent_round(slot_run_size(entry->size, entry->klen), &align), 4096);
}

uint64_t disk_largest(const struct disk *disk)
{
	uint64_t min = disk_is_there(disk) ? heap_min(&disk->largest, NULL) : UINT64_MAX;

	return PLANTED(NO_TURNING) ? 0 : UINT64_MAX - min;
}

void disk_stored(struct disk *disk, uint32_t entry)
{
	struct disk_entry *there = disk_entry(disk, entry);

	there->state = DISK_STORED;
	disk->stored++;
	if (there->softpin && pool_run(there) <= disk->run_limit)
		heap_set(&disk->largest, entry, UINT64_MAX - pool_run(there));
	if (there->softpin)
		return;
	queue_push(disk, &disk->cache, entry, true);
	disk->cache_bytes += there->size;
}

void disk_only(struct disk *disk, uint32_t entry, bool only)
{
	struct disk_entry *there = disk_entry(disk, entry);

	disk->only += only ? 1u : UINT32_MAX; /* unsigned arithmetic wraps back */
	disk->only_bytes += only ? there->size : 0 - there->size;
	if (only && there->expires != UINT64_MAX)
		heap_set(&disk->timers, entry, there->expires);
	else
		heap_remove(&disk->timers, entry);
}

bool disk_is_only(const struct disk_entry *entry)
{
	return entry->state == DISK_STORED &&
	       (entry->slot == SLOT_NONE || entry->loading);
}

/* It is stored no more, as far as anyone can see. */
static void unstore(struct disk *disk, uint32_t entry)
{
	struct disk_entry *there = disk_entry(disk, entry);

	if (disk_is_only(there))
		disk_only(disk, entry, false);
	disk->stored--;
	if (there->softpin) {
		heap_remove(&disk->largest, entry);
		return;
	}
	queue_unlink(disk, &disk->cache, entry);
	disk->cache_bytes -= there->size;
}

/* ---- changes ------------------------------------------------------------- */

/* A change that is queued keeps its place, whatever it becomes. */
void disk_change(struct disk *disk, uint32_t entry, enum disk_change change)
{
	struct disk_entry *there = disk_entry(disk, entry);

	CHECK(change == DISK_DROP || disk_lives(there));
	if (there->change == DISK_NO_CHANGE)
		queue_push(disk, &disk->changes, entry, false);
	there->change = (uint8_t)change;
}

static void change_cancel(struct disk *disk, uint32_t entry)
{
	struct disk_entry *there = disk_entry(disk, entry);

	CHECK(there->change != DISK_NO_CHANGE);
	queue_unlink(disk, &disk->changes, entry);
	there->change = DISK_NO_CHANGE;
}

void disk_end(struct master *master, uint32_t entry, uint64_t now)
{
	struct disk *disk = &master->disk;
	struct disk_entry *there = disk_entry(disk, entry);

	CHECK(disk_lives(there));
	if (there->state == DISK_STORED) {
		unstore(disk, entry);
		there->state = DISK_ENDING;
		if (PLANTED(EARLY_REUSE) && there->block != EXTENT_NONE) {
			extent_free(&disk->extents, there->block);
			there->block = EXTENT_NONE;
		}
		disk_change(disk, entry, DISK_DROP);
		return;
	}
	there->doomed = true;
	if (there->writing)
		return;
	if (there->committing != DISK_NO_CHANGE) {
		if (!PLANTED(DOOMED_SAVED))
			disk_change(disk, entry, DISK_DROP);
		return;
	}
	change_cancel(disk, entry);
	save_detach(master, entry, now);
	disk_entry_free(master, entry);
}

uint32_t master_changes(
	struct master *master, uint32_t *entries, uint32_t limit, uint64_t now)
{
	struct disk *disk = &master->disk;
	uint32_t count = 0;

	if (disk->committing > 0 || (disk->error != 0 && now < disk->retry_ns))
		return 0;
	for (; count < limit && disk->changes.head != DISK_NONE; count++) {
		uint32_t entry = disk->changes.head;
		struct disk_entry *there = disk_entry(disk, entry);

		/* With a full index what makes room must not fail with what needs it. */
		if (disk->error != 0 && count > 0 &&
			there->change != disk_entry(disk, entries[0])->committing)
			break;
		there->committing = there->change;
		change_cancel(disk, entry);
		entries[count] = entry;
	}
	disk->committing = count;
	return count;
}

void master_change_get(const struct master *master, uint32_t entry, bool *ret_drop,
	struct disk_record *ret, uint64_t *ret_value)
{
	const struct disk *disk = &master->disk;
	const struct disk_entry *there = disk_entry(disk, entry);
	bool in_pool = there->slot != SLOT_NONE && !there->loading;

	*ret_drop = there->committing == DISK_DROP;
	*ret = (struct disk_record){
		.id = there->id,
		.hash = there->hash,
		.off = there->block == EXTENT_NONE
			       ? DISK_ON_INDEX
			       : extent_off_bytes(&disk->extents, there->block),
		.size = there->size,
		.generation = there->generation,
		.checksum = there->checksum,
		.expires = there->expires,
		.readers_left = there->readers_left,
		.klen = there->klen,
		.wanted = there->wanted,
		.softpin = there->softpin,
		.counted = there->counted,
		.durable = there->durable,
	};
	*ret_value = in_pool ? slot_at(master, there->slot)->off : UINT64_MAX;
}

/* A change of the entry has failed: what could not be saved is in the pool as it was, and its
 * record is dropped; all else is tried again, or in its stead what was decided since. All
 * before anything that came later. */
static void change_failed(
	struct master *master, uint32_t entry, enum disk_change change, uint64_t now)
{
	struct disk *disk = &master->disk;
	struct disk_entry *there = disk_entry(disk, entry);

	if (there->change != DISK_NO_CHANGE) {
		change = (enum disk_change)there->change;
		change_cancel(disk, entry);
	}
	if (there->state == DISK_SAVING) {
		master->stats.save_errors++;
		save_detach(master, entry, now);
		if (PLANTED(FREED_IN_INDEX)) {
			disk_entry_free(master, entry);
			return;
		}
		/* Whoever failed may have done it all the same. */
		there->state = DISK_ENDING;
		there->doomed = false;
	}
	there->change = (uint8_t)(there->state == DISK_ENDING ? DISK_DROP : change);
	queue_push(disk, &disk->changes, entry, true);
}

static void put_committed(struct master *master, uint32_t entry, uint64_t now)
{
	struct disk_entry *there = disk_entry(&master->disk, entry);

	there->indexed = true;
	if (there->doomed) {
		save_detach(master, entry, now);
		there->state = DISK_ENDING;
		there->doomed = false;
	}
	if (there->state == DISK_ENDING)
		return; /* its drop is queued */
	if (there->state == DISK_SAVING)
		save_finish(master, entry);
	if (there->slot != SLOT_NONE && !there->loading)
		object_look(master, there->slot, now);
}

static void drop_committed(struct master *master, uint32_t entry)
{
	struct disk_entry *there = disk_entry(&master->disk, entry);

	there->indexed = false;
	if (!there->loading) /* else its bytes are still being read */
		disk_entry_free(master, entry);
}

void master_changes_done(struct master *master, const uint32_t *entries, uint32_t count,
	int err, uint64_t now)
{
	struct disk *disk = &master->disk;

	CHECK(count == disk->committing);
	disk->committing = 0;
	disk_judge(master, err, now);
	/* From the last, so that those that are tried again keep their order. */
	for (uint32_t i = count; i-- > 0;) {
		uint32_t entry = entries[err != 0 ? i : count - 1 - i];
		struct disk_entry *there = disk_entry(disk, entry);
		enum disk_change change = (enum disk_change)there->committing;

		there->committing = DISK_NO_CHANGE;
		if (err != 0)
			change_failed(master, entry, change, now);
		else if (change == DISK_PUT)
			put_committed(master, entry, now);
		else
			drop_committed(master, entry);
	}
	room_event(master);
}

/* A job has ended: is the disk to be trusted with more? */
void disk_judge(struct master *master, int err, uint64_t now)
{
	struct disk *disk = &master->disk;

	disk->error = err;
	disk->retry_ns = err != 0 ? now + DISK_RETRY_NS : 0;
	if (err == 0)
		room_event(master);
}

/* ---- time ---------------------------------------------------------------- */

bool master_disk_expire(struct master *master, uint64_t now, uint64_t *ret_hash)
{
	struct disk *disk = &master->disk;
	uint32_t entry;

	if (!disk_is_there(disk) || heap_min(&disk->timers, &entry) > now)
		return false;
	master->stats.expired++;
	*ret_hash = disk_entry(disk, entry)->hash;
	left_entry(master, entry, true);
	disk_end(master, entry, now);
	return true;
}

/* ---- trimming ------------------------------------------------------------ */

/* One round goes over all free space once, from the lowest address. */
bool master_trim_next(struct master *master, uint64_t backed, uint64_t *ret_off,
	uint64_t *ret_size, uint32_t *ret_run)
{
	struct disk *disk = &master->disk;
	struct extent_map *map = &disk->extents;
	uint64_t used;

	if (!disk_is_there(disk))
		return false;
	used = extent_total_bytes(map, EXTENT_USED);
	if (!disk->trimming) {
		/* Nor again with nothing given back or taken since. */
		if (backed <= 2 * MAX(used, DISK_TRIM_LEAST) ||
			(used == disk->trimmed_used && backed == disk->trimmed_backed))
			return false;
		disk->trimming = true;
		disk->trim_at = 0;
		disk->trimmed_used = used;
	}
	for (uint32_t block = extent_first(map); block != EXTENT_NONE;
		block = extent_next(map, block)) {
		const struct extent *extent = extent_record(map, block);

		if (extent->off < disk->trim_at || extent->kind != EXTENT_FREE)
			continue;
		*ret_off = extent_off_bytes(map, block);
		*ret_size = extent_size_bytes(map, block);
		disk->trim_at = extent->off + extent->size;
		*ret_run = extent_alloc_at(map, *ret_off, *ret_size, DISK_NONE);
		return *ret_run != EXTENT_NONE;
	}
	disk->trimming = false;
	disk->trimmed_backed = backed;
	return false;
}

void master_trim_done(struct master *master, uint32_t run)
{
	extent_free(&master->disk.extents, run);
	room_event(master);
}

/* ---- for people ---------------------------------------------------------- */

void master_disk_use(const struct master *master, struct disk_use *ret)
{
	const struct disk *disk = &master->disk;

	*ret = (struct disk_use){
		.size = disk->config.data_size,
		.bytes = disk->bytes,
		.cache_bytes = disk->cache_bytes,
		.only_bytes = disk->only_bytes,
		.saving_bytes = disk->saving_bytes,
		.objects = disk->count,
		.objects_only = disk->only,
		.object_limit = disk->config.object_limit,
		.changes = disk->changes.count + disk->committing,
		.error = disk->error,
	};
	if (!disk_is_there(disk))
		return;
	ret->used = extent_total_bytes(&disk->extents, EXTENT_USED);
	ret->free = extent_total_bytes(&disk->extents, EXTENT_FREE);
	ret->largest_hole = extent_largest_fit(&disk->extents, DISK_GRANULE);
}
