/*
 * master_priv.h - what the files of core/ share about a master's inside.
 *
 * map.c         the daemon's own key map: which slot is the key's
 * state.c       the moves of an object between its states and lists
 * put.c         an object's way in
 * generation.c  the numbers of the puts
 * end.c         by word of the owner: objects, and what is on its way, end
 * copy.c        copies of what other nodes have
 * held.c        all that is here, for a directory
 * left.c        what left without a word of the owner
 * hand.c        the keeper's role goes to another node, or comes from one
 * reclaim.c     judge the coldest, evict, keep the watermarks
 * window.c      choose and clear a range
 * relocate.c    move an object by copy
 * disk.c        the table of what is on disk, and the changes of its index
 * save.c        from the pool to the disk
 * load.c        and back
 * turning.c     room that is kept for loads
 * place.c       room for what is in the way of a window
 * room.c        the queue of tickets
 */
#ifndef CORE_MASTER_PRIV_H
#define CORE_MASTER_PRIV_H

#include "core/master.h"

#include "base/check.h"

/* A wake-up within this time of the last one is not armed again: a hot object would make
 * every release a message. */
#define REARM_NS 10000000ull

/* A smaller object is not worth a move of its own, nor a wait, so that it need not be read
 * back: it is written and read together with others. */
#define KEEP_LEAST (64u << 10)

/* Why an object may not be freed now; a set. */
enum block_reason {
	BLOCK_HOLD = 1,
	BLOCK_PIN = 2,
	BLOCK_LEASE = 4,
	BLOCK_COPY = 8,
	BLOCK_IO = 16,
	BLOCK_SPARED = 32 /* a copy that may be the last */
};

/* The run in the pool of the largest softpin object on disk, in full pages (disk.c). */
uint64_t disk_largest(const struct disk *disk);

static inline struct slot *slot_at(const struct master *master, uint32_t slot)
{
	return &master->share->slots[slot];
}

static inline struct object *object_at(const struct master *master, uint32_t slot)
{
	return &master->objects[slot];
}

static inline enum slot_kind kind_at(const struct master *master, uint32_t slot)
{
	return slot_kind_of(atomic_load_explicit(
		&slot_at(master, slot)->state, memory_order_relaxed));
}

static inline uint64_t life_at(const struct master *master, uint32_t slot)
{
	return slot_life_of(atomic_load_explicit(
		&slot_at(master, slot)->state, memory_order_relaxed));
}

static inline uint32_t nslots_of(const struct master *master)
{
	return atomic_load_explicit(&master->share->header->nslots, memory_order_relaxed);
}

static inline uint64_t run_bytes(const struct master *master, uint32_t slot)
{
	return extent_size_bytes(&master->extents, object_at(master, slot)->block);
}

static inline uint32_t slots_available(const struct master *master)
{
	return master->free_slots + nslots_of(master) - master->slots_used;
}

static inline uint64_t free_bytes(const struct master *master)
{
	return extent_total_bytes(&master->extents, EXTENT_FREE);
}

/* Another node keeps the object, so that this copy may go like one of the cache. */
static inline bool is_secondary(const struct master *master, uint32_t slot)
{
	return (slot_at(master, slot)->flags & SLOT_SECONDARY) != 0;
}

/* A softpin object that this node has promised to keep: in the pool, or on its disk. */
static inline bool must_be_kept(const struct master *master, uint32_t slot)
{
	return slot_at(master, slot)->flags & SLOT_SOFTPIN && !is_secondary(master, slot);
}

static inline struct index_key slot_index_key(const struct master *master, uint32_t slot)
{
	const struct slot *there = slot_at(master, slot);

	return (struct index_key){
		slot_key(master->share, there), there->klen, there->hash};
}

/* On disk as well, and so free to go, if nothing else blocks it. Of LENT ones some are not
 * on disk, but secondary. */
static inline bool object_is_clean(const struct object *object)
{
	return object->list == OBJECT_CLEAN || object->list == OBJECT_LENT ||
	       object->list == OBJECT_LARGE;
}

/* Granted tickets have a claim to as many slots: no one else gets the last ones. */
static inline bool slots_are_out(const struct master *master)
{
	return slots_available(master) <= master->room.granted_count;
}

/* The run of the largest object that was handed over lately. */
static inline uint64_t hand_largest(const struct master *master)
{
	return MAX(master->hand.largest, master->hand.largest_before);
}

/* The run of the largest object that must be able to come back: from the disk, or from the
 * node that it was handed to. */
static inline uint64_t turning_need(const struct master *master)
{
	return MAX(disk_largest(&master->disk), hand_largest(master));
}

/* The same for all but loads: where something may come back one more is kept, as turning room
 * is. */
static inline bool slots_are_short(const struct master *master)
{
	uint32_t kept = master->disk.stored > 0 || hand_largest(master) > 0 ? 1 : 0;

	return slots_available(master) <= master->room.granted_count + kept;
}

/* ---- map.c --------------------------------------------------------------- */
uint32_t map_find(const struct master *master, const struct index_key *key);
void map_add(struct master *master, uint32_t slot);
void map_del(struct master *master, uint32_t slot);
bool slot_has_key(
	const struct master *master, uint32_t slot, const struct index_key *key);

/* ---- generation.c -------------------------------------------------------- */
bool generation_is_good(uint64_t generation);
/* No number up to the stored bound is given again. */
void generation_recover(struct master *master);
/* Of an object that is found at a start, or comes in. */
void generation_adopt(struct master *master, uint64_t generation);
uint64_t generation_next(struct master *master, uint64_t wall_us);
/* The next that is above this one, which may come from outside; 0: any. */
uint64_t generation_above(struct master *master, uint64_t wall_us, uint64_t above);

static inline void master_is_told(struct master *master, uint64_t now)
{
	master->now_ns = now;
}

/* ---- state.c ------------------------------------------------------------- */
uint32_t slot_alloc(struct master *master);
/* Whose slot it is from now on, and where its bytes and its key lie. */
void slot_name(struct master *master, uint32_t slot, uint32_t block,
	const struct index_key *key, uint64_t size);
/* A slot's private half as a new object has it. */
void object_begin(struct object *object);
/* The list that holds a slot of list `list`. */
struct object_queue *object_queue_of(
	struct master *master, uint32_t slot, enum object_list list);
void object_place(struct master *master, uint32_t slot, enum object_list list);
unsigned object_blocked(const struct master *master, uint32_t slot, uint64_t now);
/* Show a sealed slot to readers and put it on the list of its kind. */
void object_show(struct master *master, uint32_t slot);
/* The same, and in the key map, for one that was moved, read or fetched to its slot. */
void object_arrive(struct master *master, uint32_t slot, bool active, uint64_t now);
/* A READY object leaves its place, which is free now or with the last hold. What there is of
 * it elsewhere stays: it is moved, or dropped as it is on disk. */
void object_condemn(struct master *master, uint32_t slot, uint64_t now);
/* End a READY object, here and on disk. */
void object_end(struct master *master, uint32_t slot, uint64_t now);
/* Free a CONDEMNED object if nothing blocks it. */
void object_settle(struct master *master, uint32_t slot, uint64_t now);
/* Free a WRITING slot whose writer is out. */
void object_drop(struct master *master, uint32_t slot);
/* A READY object that is blocked leaves the lists. False: it is not blocked after all. */
bool object_park(struct master *master, uint32_t slot, uint64_t now);
/* On the list of a READY object's kind. */
void object_list_ready(struct master *master, uint32_t slot, bool active);
/* The same, for one that was parked. */
void object_unpark(struct master *master, uint32_t slot, bool active);
/* Unpark it if it is parked and nothing blocks it any more. */
void object_look(struct master *master, uint32_t slot, uint64_t now);
/* Set the slot's one timer to the next time that matters to it. */
void object_arm(struct master *master, uint32_t slot, uint64_t now);

/* ---- load.c -------------------------------------------------------------- */
/* A run for what comes from elsewhere: the ticket's, or one that no one waits for, or in the
 * turning room. */
uint32_t load_run(struct master *master, uint64_t size, uint32_t klen,
	struct ticket *ticket, uint64_t now);
/* A slot for it, WRITING and marked as a copy. */
uint32_t arrival_open(
	struct master *master, uint32_t block, const struct copy_request *what);

/* ---- copy.c -------------------------------------------------------------- */
/* The slot is on its way here from another node. */
bool is_being_fetched(const struct master *master, uint32_t slot);
/* The unfinished put that was outrun, or SLOT_NONE. */
uint32_t outrun_find(const struct master *master, uint32_t writer, uint64_t op);
/* The key has an object here, so that a put of it cannot become one. */
bool key_is_taken(struct master *master, const struct index_key *key);
/* The slot is about to be its key's object; what is under way for the key is outrun. */
void key_claim(struct master *master, uint32_t slot);

/* ---- left.c -------------------------------------------------------------- */
#define LEFT_LIMIT 16384u /* names that wait to be told */

void left_slot(struct master *master, uint32_t slot, bool ended);
/* A put that a start has dropped, and that may have been published. */
void left_put(struct master *master, uint32_t slot);
void left_entry(struct master *master, uint32_t entry, bool ended);

/* ---- hand.c -------------------------------------------------------------- */
/* Some other node would keep what cannot go to the disk. */
bool hand_is_allowed(const struct master *master);
/* Other nodes take what should leave, and the disk waits. */
bool hand_goes_first(const struct master *master);
/* For what was handed over long ago no room is kept any more. */
void hand_forget(struct master *master, uint64_t now);

/* ---- read.c -------------------------------------------------------------- */

/* Before READY slots are judged: what reports were counted last. */
void reads_recover(struct master *master);

/* ---- reclaim.c ----------------------------------------------------------- */
/* The coldest cache object that nothing blocks, still on its list; SLOT_NONE: none, or
 * the budget is spent. */
uint32_t reclaim_victim(struct master *master, uint64_t now, uint32_t *budget);
/* Out of the pool, and gone, unless it is on disk. */
void reclaim_evict(struct master *master, uint32_t slot, uint64_t now);
/* The victim is on disk, but will be read: it goes to the turning room, or what was read is
 * on its way out. */
bool reclaim_keeps(struct master *master, uint32_t slot, uint64_t now);
/* Work between the watermarks. True: the budget is spent, there is more to do. */
bool reclaim_refill(struct master *master, uint64_t now, uint32_t *budget);
void reclaim_start_if_low(struct master *master);

/* ---- window.c ------------------------------------------------------------ */
enum window_result {
	WINDOW_DONE,
	WINDOW_WAITS,    /* for a copy, a release, the end of a put */
	WINDOW_MORE,     /* the budget is spent */
	WINDOW_AGAIN,    /* given up: something in it turned out blocked, choose again */
	WINDOW_HOPELESS, /* given up */
};
/* Whether a window for the ticket could be cleared, if all but softpin objects went. */
bool window_is_possible(const struct master *master, const struct ticket *ticket);
/* Open the cheapest window for the ticket. False: none that could be cleared.
 * `coldest`: where to look first, or SLOT_NONE. */
bool window_choose(
	struct master *master, struct ticket *ticket, uint32_t coldest, uint64_t now);
/* Clear what can be cleared now; WINDOW_DONE: the ticket's run is claimed. */
enum window_result window_clear(struct master *master, uint64_t now, uint32_t *budget);
/* No window from here on; what it has withheld is for all tickets. */
void window_close(struct master *master);

/* The largest object of the best range for the ticket that is too large to be copied now, and
 * the range; SLOT_NONE: that is not what is in the way. */
uint32_t window_obstacle(const struct master *master, const struct ticket *ticket,
	uint64_t *ret_off, uint64_t *ret_end);
/* The same for a range that is given; its edges lie in no used run. `near`: any block. */
void window_open_at(struct master *master, struct ticket *ticket, uint32_t near,
	uint64_t off, uint64_t end, uint64_t now);

/* ---- disk.c -------------------------------------------------------------- */
/* SAVING or STORED, and not ended. */
bool disk_lives(const struct disk_entry *entry);
/* STORED, and not READY in the pool. */
bool disk_is_only(const struct disk_entry *entry);
/* Its record is to be stored, or another count of reads in it. */
bool disk_is_being_put(const struct disk_entry *entry);
/* Whether the key's object is on disk. One whose bytes are damaged counts as absent, and
 * goes. */
bool disk_has(struct master *master, const struct index_key *key);
uint32_t disk_find(const struct disk *disk, const struct index_key *key);
uint32_t disk_find_id(const struct disk *disk, uint64_t hash, const struct disk_id *id);
bool disk_is_full_of_entries(const struct disk *disk);
uint32_t disk_entry_new(struct disk *disk, const struct disk_entry *like);
void disk_entry_free(struct master *master, uint32_t entry);
/* Its record is in the index. */
void disk_stored(struct disk *disk, uint32_t entry);
/* A STORED entry is, or is no more, all there is of the object. */
void disk_only(struct disk *disk, uint32_t entry, bool only);
void disk_change(struct disk *disk, uint32_t entry, enum disk_change change);
/* The object ends; a STORED entry may still have a slot. */
void disk_end(struct master *master, uint32_t entry, uint64_t now);
void disk_judge(struct master *master, int err, uint64_t now);

/* ---- save.c -------------------------------------------------------------- */
bool disk_is_usable(const struct master *master);
/* More should be written out than is on its way. */
bool save_is_wanted(const struct master *master);
bool disk_has_room(const struct master *master, uint64_t bytes);
void save_detach(struct master *master, uint32_t entry, uint64_t now);
void save_finish(struct master *master, uint32_t entry);
/* What a READY object has on disk, or on its way there, ends; in the pool it stays. */
void save_end(struct master *master, uint32_t slot, uint64_t now);
/* Whether a reader has had it since it came; looks at the clients' marks. */
bool object_was_read(struct master *master, uint32_t slot);
/* Softpin objects that were read since the last look become SPENT; looks at `limit`. */
void save_harvest(struct master *master, uint32_t limit);
/* What was read is written out before others, up to so many bytes. False: there is none, nor
 * anything on its way to the disk. */
bool save_spent_first(struct master *master, uint64_t bytes);
/* It leaves the pool, and stays on disk. */
void object_forget_disk(struct master *master, uint32_t slot);
/* It leaves the disk; in the pool it stays, if it is there. */
void disk_drop(struct master *master, uint32_t entry, uint64_t now);

/* ---- turning.c ----------------------------------------------------------- */
/* A run for a load, in the turning room; EXTENT_NONE: there is none, or what lies there is
 * in use. */
uint32_t turning_take(
	struct master *master, uint64_t run_bytes, uint64_t align, uint64_t now);
/* The same for an object that could as well leave the pool: at the expense of no other that
 * is unread. */
uint32_t turning_spare(
	struct master *master, uint64_t run_bytes, uint64_t align, uint64_t now);
/* A slot for a load, if need be of an object that lies there; false: all are in use. */
bool turning_slot(struct master *master, uint64_t now);
/* Whether the block lies there. */
static inline bool turning_has(const struct master *master, uint32_t block)
{
	return extent_in_window(&master->extents, EXTENT_TURNING, block);
}
/* Objects wait for it to grow. */
static inline bool turning_is_due(const struct master *master)
{
	return turning_need(master) > master->room.turning.size;
}
/* Grow towards the largest, or shrink. WINDOW_WAITS also when there is nothing to do. */
enum window_result turning_run(struct master *master, uint64_t now, uint32_t *budget);
/* The window that was opened for it has nothing but free and clean bytes: it is the turning
 * room now. False: not yet. */
bool turning_settle(struct master *master, uint64_t now);
/* After a start. */
void turning_restore(struct master *master);

/* ---- place.c ------------------------------------------------------------- */
/* Queue for a place for what is in the way of `owner`'s window. False: it is of no use. */
bool place_start(struct master *master, const struct ticket *owner);
void place_cancel(struct master *master);
/* The owner has its run, or wants none any more. */
void place_forget(struct master *master, const struct ticket *owner);
/* The place has been granted: begin to copy, as soon as it can be. */
void place_run(struct master *master, uint64_t now);

/* ---- relocate.c ---------------------------------------------------------- */
/* Begin to move `slot` to another run. False: no run, no slot, or a move is under way. */
bool relocate_start(struct master *master, uint32_t slot);
/* The same to a run that the caller has; it stays the caller's if this is false. */
bool relocate_to(struct master *master, uint32_t slot, uint32_t block);
/* A CLEAN object that nobody has read yet need not be read back if there is a place for it
 * in the turning room. */
enum lend_result {
	LEND_STARTED,
	LEND_LATER, /* another move is under way */
	LEND_NOT
};
enum lend_result lend_start(struct master *master, uint32_t slot, uint64_t now);

/* ---- room.c -------------------------------------------------------------- */
void ticket_grant(struct master *master, struct ticket *ticket, uint32_t block);
/* Take the run, of `run_bytes`, out of a granted ticket, which is idle then. */
uint32_t ticket_spend(struct master *master, struct ticket *ticket, uint64_t run_bytes);
/* Something changed that a waiting ticket could use. */
static inline void room_event(struct master *master)
{
	master->room.stuck = false;
	master->room.refill_waits = false;
	master->room.turning.stuck = false;
	master->room.place.stuck = false;
	master->room.window.holds_unread = false;
	master->room.copy_limit = UINT64_MAX;
}

static inline bool room_is_due(const struct master *master)
{
	return !master->room.stuck &&
	       (!list_is_empty(&master->room.waiting) || turning_is_due(master));
}

#endif
