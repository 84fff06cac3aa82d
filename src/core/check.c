/*
 * check.c - every invariant of the master, proved from scratch.
 */
#include "core/master_priv.h"

#define REQUIRE(cond, what)          \
	do {                         \
		if (!(cond))         \
			return what; \
	} while (0)

struct tally {
	uint64_t bytes[OBJECT_LIST_COUNT];
	uint64_t counts[OBJECT_LIST_COUNT];
	uint64_t pins, mapped, free_slots, outrun;
};

static bool kind_fits_list(enum slot_kind kind, enum object_list list)
{
	switch (list) {
	case OBJECT_FREE:
		return kind == SLOT_FREE;
	case OBJECT_WRITING:
		return kind == SLOT_WRITING;
	case OBJECT_INACTIVE:
	case OBJECT_ACTIVE:
	case OBJECT_DIRTY:
	case OBJECT_SPENT:
	case OBJECT_CLEAN:
	case OBJECT_LENT:
	case OBJECT_LARGE:
	case OBJECT_SAVING:
	case OBJECT_PARKED:
	case OBJECT_MOVING:
		return kind == SLOT_READY;
	case OBJECT_CONDEMNED:
		return kind == SLOT_CONDEMNED;
	case OBJECT_LIST_COUNT:
		break;
	}
	return false;
}

static const char *check_run(const struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);
	const struct extent *extent = extent_record(
		&master->extents, object_at(master, slot)->block);
	uint64_t align;

	REQUIRE(extent->kind == EXTENT_USED && extent->owner == slot,
		"a slot's run is not its own");
	REQUIRE(extent_off_bytes(&master->extents, object_at(master, slot)->block) ==
			there->off,
		"a slot's run lies elsewhere");
	REQUIRE(run_bytes(master, slot) ==
			extent_round(slot_run_size(there->size, there->klen), &align),
		"a slot's run has another size");
	return NULL;
}

static const char *check_flags(const struct master *master, uint32_t slot, uint64_t now)
{
	const struct slot *there = slot_at(master, slot);
	const struct object *object = object_at(master, slot);
	struct index_key key = {slot_key(master->share, there), there->klen, there->hash};
	bool want = atomic_load_explicit(&there->want, memory_order_relaxed);
	bool off_lists = object->list == OBJECT_CONDEMNED ||
			 object->list == OBJECT_PARKED;
	bool ready = kind_at(master, slot) == SLOT_READY;
	bool open_put = object->list == OBJECT_WRITING &&
			!(there->flags &
				(SLOT_COPY | SLOT_DOOMED | SLOT_LATE | SLOT_OUTRUN));

	REQUIRE(object->mapped == (ready || open_put), "in the key map, or not, wrongly");
	REQUIRE(!object->mapped || map_find(master, &key) == slot,
		"the key map finds another slot");
	REQUIRE(!object->indexed || (ready && index_has(master->share, slot)),
		"the shared index lacks a slot or has one that ended");
	REQUIRE(ready || !index_has(master->share, slot),
		"the shared index has a slot that is not READY");
	REQUIRE(!off_lists || want || object->relook || heap_has(&master->timers, slot),
		"off the lists, and nobody will tell");
	/* The client that holds may have let go by now, but its message is on its way;
	 * what the daemon itself blocks must still be so. */
	REQUIRE(object->list != OBJECT_CONDEMNED || want, "condemned without asking");
	REQUIRE(object->pins == 0 || ready || object->list == OBJECT_CONDEMNED,
		"pinned, and neither READY nor CONDEMNED");
	REQUIRE(!ready || there->generation != 0, "READY without a generation");
	REQUIRE(!ready || !(there->flags &
				  (SLOT_COPY | SLOT_TAKEN | SLOT_OUTRUN | SLOT_REPLACES)),
		"READY, and marked as a copy, as taken, as outrun or to replace another");
	REQUIRE(!ready || !(there->flags & SLOT_EXPIRES) ||
			there->expires == UINT64_MAX || object->list == OBJECT_MOVING ||
			heap_has(&master->timers, slot),
		"a time to live that nobody watches");
	(void)now;
	return NULL;
}

/* What another node keeps may leave at any time, and is on disk only until an I/O's end. */
static const char *check_secondary(const struct master *master, uint32_t slot)
{
	const struct object *object = object_at(master, slot);
	enum object_list list = (enum object_list)object->list;

	REQUIRE(list != OBJECT_DIRTY && list != OBJECT_SPENT && list != OBJECT_LARGE &&
			list != OBJECT_CLEAN,
		"secondary, and on a list of what is kept");
	REQUIRE(!object->urgent, "secondary, and to be written out");
	REQUIRE(object->disk == DISK_NONE || list == OBJECT_CONDEMNED ||
			disk_entry(&master->disk, object->disk)->doomed,
		"secondary, and on disk");
	REQUIRE(list != OBJECT_WRITING || slot_at(master, slot)->flags & SLOT_COPY,
		"a put that is secondary");
	return NULL;
}

/* Its number was given before any that comes, also after a restart. */
static const char *check_generation(const struct master *master, uint32_t slot)
{
	uint64_t bound = master->share->header->generation_bound;

	REQUIRE(is_secondary(master, slot) ||
			object_at(master, slot)->list == OBJECT_CONDEMNED ||
			slot_at(master, slot)->generation <= master->last_generation,
		"a generation above the last");
	REQUIRE(bound == 0 || master->last_generation <= bound,
		"a generation above the stored bound");
	return NULL;
}

static const char *check_slot(
	const struct master *master, uint32_t slot, uint64_t now, struct tally *tally)
{
	const struct object *object = object_at(master, slot);
	const char *broken;

	REQUIRE(kind_fits_list(kind_at(master, slot), (enum object_list)object->list),
		"a slot's state and its list disagree");
	tally->counts[object->list]++;
	tally->pins += object->pins;
	tally->mapped += object->mapped;
	if (object->list == OBJECT_FREE) {
		REQUIRE(object->pins == 0 && !object->mapped &&
				!heap_has(&master->timers, slot),
			"a free slot is pinned, mapped or armed");
		return NULL;
	}
	broken = check_run(master, slot);
	if (broken != NULL)
		return broken;
	tally->bytes[object->list] += run_bytes(master, slot);
	tally->outrun += object->list == OBJECT_WRITING &&
			 slot_at(master, slot)->flags & SLOT_OUTRUN;
	broken = check_flags(master, slot, now);
	if (broken == NULL && is_secondary(master, slot))
		broken = check_secondary(master, slot);
	return broken != NULL ? broken : check_generation(master, slot);
}

static const char *check_queue(const struct master *master,
	const struct object_queue *queue, enum object_list list, uint64_t *ret_count)
{
	uint32_t count = 0, last = SLOT_NONE;

	for (uint32_t slot = queue->head; slot != SLOT_NONE;
		slot = object_at(master, slot)->next) {
		REQUIRE(object_at(master, slot)->list == list, "a list has a stranger");
		REQUIRE(object_at(master, slot)->prev == last,
			"a list's links are broken");
		REQUIRE(count++ < nslots_of(master), "a list has a cycle");
		last = slot;
	}
	REQUIRE(queue->tail == last && queue->count == count, "a list's ends are wrong");
	*ret_count += count;
	return NULL;
}

static const char *check_queues(const struct master *master, const struct tally *tally)
{
	uint64_t counts[OBJECT_LIST_COUNT] = {0};
	const struct {
		const struct object_queue *queue;
		enum object_list list;
	} queues[] = {
		{&master->lru.inactive, OBJECT_INACTIVE},
		{&master->lru.active, OBJECT_ACTIVE},
		{&master->dirty, OBJECT_DIRTY},
		{&master->spent, OBJECT_SPENT},
		{&master->clean, OBJECT_CLEAN},
		{&master->lent, OBJECT_LENT},
		{&master->large, OBJECT_LARGE},
		{&master->saving, OBJECT_SAVING},
		{&master->parked, OBJECT_PARKED},
		{&master->moving, OBJECT_MOVING},
		{&master->condemned, OBJECT_CONDEMNED},
	};
	const char *broken = NULL;

	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]) && broken == NULL; i++)
		broken = check_queue(
			master, queues[i].queue, queues[i].list, &counts[queues[i].list]);
	for (uint32_t cid = 0; cid <= CLIENT_LIMIT && broken == NULL; cid++)
		broken = check_queue(master, &master->writing[cid], OBJECT_WRITING,
			&counts[OBJECT_WRITING]);
	if (broken != NULL)
		return broken;
	for (unsigned list = OBJECT_WRITING; list < OBJECT_LIST_COUNT; list++) {
		REQUIRE(counts[list] == tally->counts[list], "a slot is on no list");
		REQUIRE(master->bytes_of[list] == tally->bytes[list],
			"bytes by state do not add up");
	}
	return NULL;
}

static const char *check_room(const struct master *master)
{
	const struct room *room = &master->room;
	const struct extent_map *map = &master->extents;
	uint32_t granted = 0;
	uint64_t granted_bytes = 0;

	for (uint32_t block = extent_first(map); block != EXTENT_NONE;
		block = extent_next(map, block)) {
		const struct extent *extent = extent_record(map, block);

		if (extent->kind != EXTENT_USED || extent->owner != SLOT_NONE)
			continue;
		granted++;
		granted_bytes += extent_size_bytes(map, block);
	}
	REQUIRE(granted == room->granted_count && granted_bytes == master->granted_bytes,
		"granted runs do not add up");
	REQUIRE(slots_available(master) >= granted,
		"a granted ticket has no slot to claim");
	list_for_each (at, &room->waiting) {
		const struct ticket *ticket = container_of(at, struct ticket, entry);

		REQUIRE(ticket->state == TICKET_WAITING,
			"a waiting ticket is not waiting");
	}
	list_for_each (at, &room->granted) {
		const struct ticket *ticket = container_of(at, struct ticket, entry);

		REQUIRE(ticket->state == TICKET_GRANTED && ticket->block != EXTENT_NONE,
			"a granted ticket has no run");
	}
	REQUIRE((room->window.owner != NULL) ==
			extent_window_is_open(map, EXTENT_CLEARING),
		"a window without an owner, or an owner without");
	REQUIRE(room->window.owner == NULL || room->window.owner->state == TICKET_WAITING,
		"a window's owner does not wait");
	if (room->move.busy) {
		enum object_list from =
			(enum object_list)object_at(master, room->move.from)->list;

		REQUIRE(from == OBJECT_MOVING || from == OBJECT_CONDEMNED,
			"a move's source is on another list");
		REQUIRE(object_at(master, room->move.to)->list == OBJECT_WRITING &&
				slot_at(master, room->move.to)->flags & SLOT_COPY,
			"a move's copy is none");
	}
	REQUIRE(master->moving.count <= room->move.busy, "moving, and no move");
	return NULL;
}

static const char *check_sums(const struct master *master, const struct tally *tally)
{
	struct pool_use use;
	uint32_t free_slots = 0;

	master_use(master, &use);
	REQUIRE(use.free + use.withheld + use.granted + use.writing + use.inactive +
				use.active + use.dirty + use.spent + use.clean +
				use.lent + use.large + use.saving + use.parked +
				use.moving + use.condemned ==
			use.size,
		"the bytes by state are not the pool");
	REQUIRE(master->pinned == tally->pins, "pins do not add up");
	REQUIRE(master->outrun == tally->outrun, "puts that were outrun do not add up");
	REQUIRE(master->left_count <= LEFT_LIMIT, "more has left than there is room for");
	for (uint32_t slot = master->free_head; slot != SLOT_NONE;
		slot = object_at(master, slot)->chain) {
		REQUIRE(object_at(master, slot)->list == OBJECT_FREE,
			"a used slot is free");
		REQUIRE(free_slots++ < nslots_of(master), "the free slots have a cycle");
	}
	REQUIRE(free_slots == master->free_slots, "free slots do not add up");
	REQUIRE(free_slots + nslots_of(master) - master->slots_used ==
			tally->counts[OBJECT_FREE],
		"a free slot is lost");
	return NULL;
}

/* ---- the disk ------------------------------------------------------------ */

/* What the slot of an entry, or of an object with one, must be. */
static const char *check_pair(const struct master *master, uint32_t entry)
{
	const struct disk_entry *there = disk_entry(&master->disk, entry);
	const struct object *object;

	if (there->slot == SLOT_NONE) {
		REQUIRE(there->state != DISK_SAVING && !there->loading,
			"an object is saved from, or loaded to, no slot");
		return NULL;
	}
	object = object_at(master, there->slot);
	REQUIRE(object->disk == entry, "an entry's slot is another's");
	REQUIRE(there->hash == slot_at(master, there->slot)->hash &&
			there->size == slot_at(master, there->slot)->size,
		"an entry and its slot differ");
	if (there->loading) {
		REQUIRE(object->list == OBJECT_WRITING, "a load's slot is not WRITING");
		return NULL;
	}
	REQUIRE(there->generation == slot_at(master, there->slot)->generation,
		"an entry and its slot are of two generations");
	REQUIRE(there->state == DISK_SAVING || object->list != OBJECT_SAVING,
		"an object is saved, and its entry does not know");
	REQUIRE(!there->doomed || object->list == OBJECT_CONDEMNED ||
			is_secondary(master, there->slot),
		"a doomed save of an object that lives");
	return NULL;
}

static const char *check_entry(const struct master *master, uint32_t entry)
{
	const struct disk *disk = &master->disk;
	const struct disk_entry *there = disk_entry(disk, entry);
	bool only = there->state == DISK_STORED &&
		    (there->slot == SLOT_NONE || there->loading);

	if (there->block != EXTENT_NONE) {
		const struct extent *run = extent_record(&disk->extents, there->block);

		REQUIRE(run->kind == EXTENT_USED && run->owner == entry,
			"an entry's run on disk is not its own");
		REQUIRE(extent_size_bytes(&disk->extents, there->block) ==
				align_up_u64(there->size, DISK_GRANULE),
			"an entry's run on disk has another size");
	}
	REQUIRE((there->block == EXTENT_NONE) == (there->size <= DISK_INLINE),
		"a value lies in the index, or not, wrongly");
	REQUIRE(there->generation <= master->last_generation,
		"a generation on disk above the last");
	REQUIRE(there->state != DISK_STORED || there->indexed,
		"stored, and no record in the index");
	REQUIRE(!there->writing || there->state == DISK_SAVING,
		"written, and not being saved");
	REQUIRE(there->state != DISK_ENDING || there->change == DISK_DROP ||
			there->committing == DISK_DROP || there->loading,
		"ended, and nothing will drop its record");
	REQUIRE(there->state != DISK_SAVING || there->writing || disk_is_being_put(there),
		"saved, and nothing will store its record");
	REQUIRE(!only || there->expires == UINT64_MAX || heap_has(&disk->timers, entry),
		"a time to live on disk that nobody watches");
	return check_pair(master, entry);
}

static const char *check_disk(const struct master *master)
{
	const struct disk *disk = &master->disk;
	uint64_t bytes = 0, cache_bytes = 0, only_bytes = 0, saving_bytes = 0;
	uint32_t count = 0, stored = 0, only = 0, writing = 0, committing = 0, queued = 0;

	for (uint32_t entry = 0; entry < disk->used; entry++) {
		const struct disk_entry *there = disk_entry(disk, entry);
		const char *broken;

		if (there->state == DISK_FREE)
			continue;
		broken = check_entry(master, entry);
		if (broken != NULL)
			return broken;
		count++;
		bytes += there->size;
		writing += there->writing;
		committing += there->committing != DISK_NO_CHANGE;
		queued += there->change != DISK_NO_CHANGE;
		if (there->writing)
			saving_bytes += run_bytes(master, there->slot);
		if (there->state != DISK_STORED)
			continue;
		stored++;
		cache_bytes += there->softpin ? 0 : there->size;
		if (there->slot == SLOT_NONE || there->loading) {
			only++;
			only_bytes += there->size;
		}
	}
	REQUIRE(count == disk->count && stored == disk->stored && only == disk->only,
		"the numbers of entries are wrong");
	REQUIRE(bytes == disk->bytes && cache_bytes == disk->cache_bytes &&
			only_bytes == disk->only_bytes &&
			saving_bytes == disk->saving_bytes,
		"the bytes on disk do not add up");
	REQUIRE(writing == disk->writing && committing == disk->committing &&
			queued == disk->changes.count,
		"what is under way to the disk does not add up");
	if (!disk_is_there(disk))
		return NULL;
	REQUIRE(extent_map_check(&disk->extents), "the disk's extent map is broken");
	REQUIRE(heap_check(&disk->largest) && heap_check(&disk->timers),
		"a heap of the disk is broken");
	return NULL;
}

/* Of one key no more than one copy is on its way here that may become its object. */
static const char *check_copies(const struct master *master)
{
	uint32_t slot = master->writing[CLIENT_LIMIT].head;

	for (; slot != SLOT_NONE; slot = object_at(master, slot)->next) {
		struct index_key key = slot_index_key(master, slot);
		uint32_t other = object_at(master, slot)->next;

		REQUIRE(slot_at(master, slot)->flags & SLOT_COPY,
			"on its way here, and no copy");
		if (!is_being_fetched(master, slot))
			continue;
		REQUIRE(is_secondary(master, slot), "fetched, and not secondary");
		for (; other != SLOT_NONE; other = object_at(master, other)->next)
			REQUIRE(!is_being_fetched(master, other) ||
					(slot_at(master, slot)->flags |
						slot_at(master, other)->flags) &
						SLOT_DOOMED ||
					!slot_has_key(master, other, &key),
				"two copies of one key on their way");
	}
	return NULL;
}

static bool may_lie_in_turning(const struct master *master, uint32_t slot)
{
	const struct object *object = object_at(master, slot);
	enum object_list list = (enum object_list)object->list;

	return list == OBJECT_LENT || list == OBJECT_CONDEMNED ||
	       slot_at(master, slot)->flags & SLOT_COPY ||
	       (list == OBJECT_WRITING && object->disk != DISK_NONE) ||
	       (list == OBJECT_PARKED &&
		       (object->disk != DISK_NONE || is_secondary(master, slot)));
}

/* Nothing but what could leave at once lies in the turning room, and it is large enough for
 * all that is only on disk. */
static const char *check_turning(const struct master *master)
{
	const struct turning *turning = &master->room.turning;
	const struct extent_map *map = &master->extents;

	REQUIRE(extent_window_is_open(map, EXTENT_TURNING) == (turning->size > 0),
		"the turning room and its window disagree");
	for (uint32_t block = extent_first(map); block != EXTENT_NONE;
		block = extent_next(map, block)) {
		const struct extent *extent = extent_record(map, block);
		bool inside = turning_has(master, block);

		if (extent->kind != EXTENT_USED || extent->owner == SLOT_NONE)
			continue;
		REQUIRE(object_at(master, extent->owner)->list != OBJECT_LENT || inside,
			"lent, and not in the turning room");
		REQUIRE(!inside || may_lie_in_turning(master, extent->owner),
			"the turning room has what could not leave");
	}
	for (uint32_t entry = 0; entry < master->disk.used; entry++) {
		const struct disk_entry *there = disk_entry(&master->disk, entry);
		uint64_t align, run;

		if (there->state != DISK_STORED || there->slot != SLOT_NONE ||
			!there->softpin)
			continue;
		run = extent_round(slot_run_size(there->size, there->klen), &align);
		REQUIRE(turning->size >= run || turning->short_since_start ||
				run > master->share->header->pool_size,
			"an object on disk has no room to come back");
	}
	return NULL;
}

const char *core_check(const struct master *master, uint64_t now)
{
	struct tally tally = {0};
	const char *broken = NULL;

	for (uint32_t slot = 0; slot < nslots_of(master) && broken == NULL; slot++)
		broken = check_slot(master, slot, now, &tally);
	if (broken == NULL)
		broken = check_queues(master, &tally);
	if (broken == NULL)
		broken = check_copies(master);
	if (broken == NULL)
		broken = check_room(master);
	if (broken == NULL)
		broken = check_disk(master);
	if (broken == NULL)
		broken = check_turning(master);
	if (broken == NULL)
		broken = check_sums(master, &tally);
	REQUIRE(broken == NULL, broken);
	REQUIRE(extent_map_check(&master->extents), "the extent map is broken");
	REQUIRE(heap_check(&master->timers), "the timers' heap is broken");
	return NULL;
}
