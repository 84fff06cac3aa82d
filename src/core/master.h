/*
 * master.h - the local master: the one door to all that a node's pool holds.
 *
 * It decides and keeps account; it does no I/O, reads no clock, takes no lock and
 * allocates nothing after master_init(). Facts and `now` come in, decisions go out, and
 * the caller (node/, the simulator, the model test) does what was decided. The truth at a
 * restart is the shared index, not what stands in here: stores are ordered so that every
 * instant can be recovered by master_recover().
 *
 * Units     sizes in bytes; `now` and every time in ns of CLOCK_BOOTTIME.
 * Memory    master_memory_size() bytes from the caller, zeroed, until the master's end.
 * Errors    0 or a negative number of base/err.def; verdicts that are no fault are enums.
 * Thread    the loop thread.
 * Order     init, then recover (also of an empty pool), then anything.
 */
#ifndef CORE_MASTER_H
#define CORE_MASTER_H

#include "base/heap.h"
#include "base/hist.h"
#include "base/list.h"
#include "core/disk.h"
#include "core/extent.h"
#include "core/lease.h"
#include "core/lru.h"
#include "core/object.h"
#include "core/room.h"
#include "share/index.h"

#define POOL_GRANULE     256u
#define GENERATION_SHIFT 12 /* 52 bits of clock in µs above 12 random bits */

struct master_config {
	uint32_t low_permille;  /* of the pool, free: background reclaim starts below */
	uint32_t high_permille; /* and works until so much is free */
	uint64_t hash_seed;
	uint16_t generation_salt; /* 12 random bits, new at each start */
	struct disk_config disk;
	bool clustered; /* what leaves is told: master_left_next() */
};

/* Counters that only rise, and histograms are the node's. */
struct master_stats {
	uint64_t puts, removes, takes, expired, evicted, evicted_bytes;
	uint64_t scans, scans_that_freed; /* reclaim runs */
	uint64_t examined;                /* objects taken off a list to judge */
	uint64_t freed;                   /* of those */
	/* Of those, parked: why, leases and holds alone or together, and the rest. */
	uint64_t parked_lease, parked_hold, parked_both, parked_pin, parked_io;
	uint64_t woken, told, sweeps;
	uint64_t reads_counted;
	uint64_t ghost_hits;
	uint64_t relocated, relocated_bytes;
	uint64_t windows, windows_given_up;
	uint64_t writes;                 /* to the data file, of one or more objects */
	uint64_t saves, saved_bytes;     /* objects written out */
	uint64_t loads, loaded_bytes;    /* objects read back */
	uint64_t dropped, dropped_bytes; /* that are on disk, out of the pool */
	uint64_t save_errors, load_errors, corrupt;
	uint64_t leases, leases_released, leases_ignored; /* granted; ended early; vain */
};

/* The same, of what a node alone does not have. */
struct master_cluster_stats {
	uint64_t copies, copied_bytes; /* objects fetched from other nodes */
	uint64_t spared, spared_bytes; /* secondary ones, out of the pool for room */
	uint64_t handed, handed_bytes; /* whose keeper is another node now; runs */
	uint64_t kept, kept_bytes;     /* whose keeper this node has become; runs */
	uint64_t clocks_refused;       /* over a day ahead: see generation.c */
};

/* Objects whose keeper another node is becoming. */
#define HAND_LIMIT 8u

struct handing {
	uint64_t generation; /* 0: it was only on disk */
	uint64_t bytes;      /* of its run; 0: there is none */
};

struct hand {
	struct handing under_way[HAND_LIMIT];
	uint64_t bytes;    /* of those */
	uint64_t limit;    /* of a run that some node would take; 0: none takes any */
	uint32_t others;   /* nodes beside this one */
	bool expected;     /* some will take some soon, if none does now */
	bool first;        /* they are given to before the disk is, */
	bool barren;       /* but none under way, nor found lately that they would take */
	uint64_t since_ns; /* when this period began; see hand_forget() */
	uint64_t largest;  /* run of all that was handed over in it, */
	uint64_t largest_before; /* and in the one before */
};

struct master {
	struct share *share;
	struct object *objects;
	uint32_t *map; /* heads of the key map's chains */
	uint32_t map_mask;
	struct extent_map extents;
	struct heap
		timers; /* by slot: deadline of a put, end of a time to live, re-look */
	struct lru lru;
	struct object_queue writing[CLIENT_LIMIT + 1]; /* by cid; the last: relocations */
	struct object_queue dirty, spent, clean, lent, large, saving, parked, moving,
		condemned;
	uint64_t bytes_of[OBJECT_LIST_COUNT]; /* of runs; FREE: see extents */
	uint64_t granted_bytes;               /* runs that tickets hold */
	struct hold_watch watch;
	struct room room;
	struct disk disk;
	struct lease_book leases;
	uint32_t free_slots, free_head; /* by object.chain */
	uint32_t slots_used;            /* slots from here on were never used */
	uint64_t pinned;                /* pins in all */
	uint64_t last_generation;       /* given, or known of: the next is higher */
	uint64_t noted_generation;      /* of another node, not believed yet; 0 = none */
	uint64_t now_ns;                /* when the master was last told the time */
	uint32_t outrun;                /* unfinished puts with SLOT_OUTRUN */
	struct left *left;              /* ring of LEFT_LIMIT, see left.c */
	uint32_t left_first, left_count;
	bool left_lost;
	uint64_t spare_until; /* no softpin copy goes before; see master_spare_copies() */
	struct hand hand;
	struct master_config config;
	struct master_stats stats;
	struct master_cluster_stats cluster;
	struct hist lease_end_ns; /* of what reclaim met under a lease: how long it has */
};

size_t master_memory_size(uint32_t slots_limit, const struct disk_config *disk);
void master_init(struct master *master, struct share *share,
	const struct master_config *config, void *memory);

/* ---- restart ------------------------------------------------------------- */

enum drop_reason {
	DROP_BAD_STATE,   /* no such state, or bytes that were never sealed */
	DROP_BAD_RANGE,   /* offset or size outside the pool */
	DROP_OVERLAP,     /* bytes that another object has */
	DROP_BAD_KEY,     /* key or hash do not hold */
	DROP_WRITER_GONE, /* unfinished, and its writer's process has ended */
	DROP_UNFINISHED,  /* a relocation's copy */
	DROP_READ_OUT,    /* the last of its counted reads has ended */
	DROP_OLDER,       /* a newer or an equal generation of the key is there */
	DROP_REASONS
};

const char *drop_reason_text(enum drop_reason reason);

struct recovery {
	uint64_t found;    /* slots that had, or were getting, an object */
	uint64_t adopted;  /* READY now */
	uint64_t writing;  /* unfinished puts of living writers, kept */
	uint64_t draining; /* condemned, still held */
	uint64_t dropped[DROP_REASONS];
};

/* Rebuild everything from the shared index. The clients that live are already known
 * through master_client_add(). `put_timeout_ns`: the deadline that unfinished puts get.
 */
void master_recover(struct master *master, uint64_t now, uint64_t put_timeout_ns,
	struct recovery *ret);

/* What the index on disk has of an object. */
struct disk_record {
	struct disk_id id;
	uint64_t hash; /* of the key, with this pool's seed */
	uint64_t off;  /* in the data file, or DISK_ON_INDEX */
	uint64_t size, generation, checksum;
	uint64_t expires; /* UINT64_MAX = never */
	uint16_t readers_left, klen, wanted;
	bool softpin, counted, durable;
};

/* After master_recover(), for each record that the start found, by rising `off`. 0: it is
 * adopted, or older than what the pool has and about to be dropped (see master_changes()).
 * ERR_CORRUPT: it cannot be right, or it is there twice; it is left alone. ERR_TOO_MANY. */
int master_disk_adopt(
	struct master *master, const struct disk_record *record, uint64_t now);
/* After the last. */
void master_disk_adopted(struct master *master);

/* ---- clients ------------------------------------------------------------- */

void master_client_add(struct master *master, uint32_t cid, _Atomic uint16_t *counts);
/* Its process is proven gone: its puts vanish, its holds end. Call master_client_put()
 * first for each of its puts when somebody may wait for their keys. */
void master_client_gone(struct master *master, uint32_t cid, uint64_t now);
/* One unfinished put of the client, or SLOT_NONE. */
uint32_t master_client_put(const struct master *master, uint32_t cid);
/* Look at everything that waits for a hold to end: after an attach, a death, a start. */
void master_look_all(struct master *master, uint64_t now);
/* A client says that its last hold of `slot` ended. Only means "look". */
void master_tell(struct master *master, uint32_t slot, uint64_t now);

/* ---- put ----------------------------------------------------------------- */

struct put_request {
	struct index_key key;
	uint64_t size;
	bool softpin, durable;
	/* In the place of what the key has: that stays READY until this put's end, which ends
	 * it in the same step. Any number may be under way at once; PUT_EXISTS never comes. */
	bool replace;
	uint64_t ttl_ns;   /* 0 = none */
	uint32_t writer;   /* client_ref() */
	uint64_t op;       /* the client's number of this put */
	uint16_t readers;  /* removed after so many ended reads; 0 = not counted */
	uint16_t wanted;   /* nodes that are to keep it, up to KEEPERS_LIMIT; 0 as 1 */
	bool required;     /* by its end; see SLOT_REQUIRED */
	uint64_t deadline; /* UINT64_MAX = none */
};

enum put_verdict {
	PUT_STARTED,   /* *ret_slot is WRITING, its bytes at slot->off */
	PUT_EXISTS,    /* *ret_slot has the key's object; SLOT_NONE: it is only on disk */
	PUT_REPEATED,  /* this very put is done, or under way, in *ret_slot */
	PUT_BUSY,      /* another put of the key is under way in *ret_slot; SLOT_NONE: the
			  * last object's record is being deleted */
	PUT_NO_ROOM,   /* no hole: take a ticket */
	PUT_TOO_LARGE, /* can never fit */
};

/* `ticket`: NULL, or a granted one, whose run is used or given back. */
enum put_verdict master_put_start(struct master *master, const struct put_request *put,
	struct ticket *ticket, uint32_t *ret_slot);

/* The largest object that a key of `klen` bytes can have in this pool. */
uint64_t master_largest(const struct master *master, uint32_t klen);

/*
 * The writer's bytes are whole. 0: READY (also when it already was: a repeat); then
 * *ret_generation is set. ERR_TIMEOUT, ERR_REMOVED, ERR_EXISTS (a copy from another node
 * was READY first, and is there still): the put is over, its run is free; ERR_NOT_FOUND: no
 * such put of this writer. `wall_us`: the wall clock, for the generation; one that is over a
 * day ahead of what can be is not followed, see generation.c.
 */
int master_put_end(struct master *master, uint32_t slot, uint64_t life, uint32_t writer,
	uint64_t now, uint64_t wall_us, uint64_t *ret_generation);

/* Give up a put; its run is free. 0, or ERR_NOT_FOUND. */
int master_put_abort(
	struct master *master, uint32_t slot, uint64_t life, uint32_t writer);

/* ---- look up, end -------------------------------------------------------- */

/* The READY object under the key, or SLOT_NONE. */
uint32_t master_find(const struct master *master, const struct index_key *key);

/* Keep a READY slot readable until master_unpin(). */
void master_pin(struct master *master, uint32_t slot);
void master_unpin(struct master *master, uint32_t slot, uint64_t now);

/* Whether slot and life still name one object; for what comes from outside. */
bool master_is_life(const struct master *master, uint32_t slot, uint64_t life);

/* 0: ended, or its put is doomed, or what of it was on its way here from another node.
 * ERR_NOT_FOUND: nothing under the key. */
int master_remove(struct master *master, const struct index_key *key, uint64_t now);

/* Report number `sequence` of client `cid`: one of its reads of this generation ended. 0:
 * counted, now or before; the last of `readers` removes the object. ERR_NOT_FOUND: there
 * is no such object that counts here, any more; in a cluster the keeper may count it. So it
 * is for a secondary copy, which counts nothing. The report is noted all the same: it comes
 * once, and is passed on once or is lost. */
int master_read_ended(struct master *master, uint32_t cid, uint64_t sequence,
	const struct index_key *key, uint64_t generation, uint64_t now);

/* The same for a read that ended on another node, which reports it once: nobody asks again. */
int master_read_counted(struct master *master, const struct index_key *key,
	uint64_t generation, uint64_t now);

/* Remove this very object, for the client that holds it. 0: it is the caller's (also on a
 * repeat of the same `op`). ERR_NOT_FOUND: somebody else ended it. */
int master_take(struct master *master, uint32_t slot, uint64_t life, uint32_t taker,
	uint64_t op, uint64_t now);

/* The next READY slot at or after `slot` whose key starts with the prefix, looking at no
 * more than `budget` slots; SLOT_NONE: none. *ret_next: where to go on, SLOT_NONE = end.
 */
uint32_t master_list(const struct master *master, uint32_t slot, const void *prefix,
	uint32_t prefix_size, uint32_t budget, uint32_t *ret_next);

/* ---- the disk ------------------------------------------------------------ */

/* The entry of an object that is on disk and not READY in the pool, or DISK_NONE. */
uint32_t master_disk_find(const struct master *master, const struct index_key *key);
/* An object of the key was ended, or a read of one that is only on disk, and its record does
 * not say so yet: the answer to who ended it waits. */
bool master_disk_ends(const struct master *master, const struct index_key *key);
/* For `durable`: the object in `slot` is on disk. Before, master_save_first() makes it
 * the next to be written, unless it is secondary, which never is; ERR_NO_SPACE, ERR_IO: not
 * now; `now`: see disk.retry_ns. */
bool master_is_saved(const struct master *master, uint32_t slot);
void master_save_first(struct master *master, uint32_t slot);

/* One object of a write: its bytes go from the pool to `disk.entries[entry]`. */
struct save_item {
	uint32_t entry;
	uint64_t pool_off, size, seed;
};

/*
 * What is to be written next, if anything: up to `limit` objects that lie one behind the
 * other on disk from *ret_off on, each from a multiple of DISK_GRANULE. Those of a write
 * are either all in the data file or all in the index (*ret_off DISK_ON_INDEX): these need
 * no write, only `checksums`. master_save_done() ends it, once; with an error nothing was
 * saved, the objects stay, and the disk is tried again after DISK_RETRY_NS.
 */
uint32_t master_save_next(struct master *master, uint64_t now, struct save_item *items,
	uint32_t limit, uint64_t *ret_off);
void master_save_done(struct master *master, const uint32_t *entries, uint32_t count,
	const uint64_t *checksums, int err, uint64_t now);

/* The oldest changes of the index that may be committed now, up to `limit`; they are under
 * way then. Commits end in the order in which they were taken. */
uint32_t master_changes(
	struct master *master, uint32_t *entries, uint32_t limit, uint64_t now);
/* What to store, or with `drop` to delete, for an entry under way. `value`: where in the
 * pool the bytes of one that lies in the index are. */
void master_change_get(const struct master *master, uint32_t entry, bool *ret_drop,
	struct disk_record *ret, uint64_t *ret_value);
void master_changes_done(struct master *master, const uint32_t *entries, uint32_t count,
	int err, uint64_t now);

/* Begin to read an entry's object back: a run for it, in *ret_slot, which stays WRITING. */
enum load_verdict {
	LOAD_STARTED,
	LOAD_NO_ROOM, /* take a ticket with master_room_wait_load() */
	LOAD_GONE,    /* it ended meanwhile, or is in the pool, or on its way there */
};
enum load_verdict master_load_start(struct master *master, uint32_t entry,
	const void *key, struct ticket *ticket, uint64_t now, uint32_t *ret_slot);
/* `checksum`: of the bytes that were read. 0: READY, and the caller pins it before anything
 * else happens. ERR_CORRUPT: not those that were written; the entry stays, marked.
 * ERR_NOT_FOUND: the object was ended meanwhile. Else `err` comes back. The slot is free
 * then. */
int master_load_done(
	struct master *master, uint32_t slot, int err, uint64_t checksum, uint64_t now);
/* Bytes of the pool that an object takes. */
uint64_t master_run_bytes(uint64_t size, uint32_t klen);
/* Whether so many more could come in beside what is held, written and promised to batches
 * now. */
bool master_load_fits(struct master *master, uint64_t run_bytes, uint64_t now);
/* Bytes that a batch has been promised, and has loaded or given up (negative). */
void master_load_promise(struct master *master, int64_t run_bytes);

/* Space that the file system may have back: more is taken there than twice what lives.
 * It is nobody's until master_trim_done(). `backed`: what the data file takes. */
bool master_trim_next(struct master *master, uint64_t backed, uint64_t *ret_off,
	uint64_t *ret_size, uint32_t *ret_run);
void master_trim_done(struct master *master, uint32_t run);

/* The next entry at or after `entry` that is on disk and not READY in the pool. */
uint32_t master_disk_list(const struct master *master, uint32_t entry);

/* ---- a cluster ----------------------------------------------------------- */

/*
 * Give the put its generation, once; a repeat is answered alike, also after a restart,
 * unless it must be `above` what it was given. The slot stays WRITING, and master_put_end()
 * takes this one. ERR_NOT_FOUND, ERR_TIMEOUT, ERR_REMOVED as there, and ERR_EXISTS if it had
 * none yet; but the put is not over yet.
 */
int master_put_name(struct master *master, uint32_t slot, uint64_t life, uint32_t writer,
	uint64_t wall_us, uint64_t above, uint64_t *ret_generation);
/*
 * Some other node knows of this generation: ours are higher from now on. Any value may come
 * in. One that is over a day ahead of the time that has passed here since the last was given
 * is not believed before the wall clock of master_put_name() or master_put_end() agrees, nor
 * is any before the first put of a new pool, when nothing is known to judge it by: until
 * then the highest of these is kept. cluster.clocks_refused counts what was not believed in the
 * end.
 */
void master_note_generation(struct master *master, uint64_t generation);

/* What another node has, and this one fetches. */
struct copy_request {
	struct index_key key;
	uint64_t size, generation;
	uint64_t expires; /* here; UINT64_MAX = never */
	uint16_t readers_left, wanted;
	bool softpin, counted, durable;
	bool unlisted; /* no directory knows that it comes here */
};

/*
 * Begin to copy it: a run for it, in *ret_slot, which stays WRITING. LOAD_GONE: an object is
 * READY under the key, on its way here, or on disk; a put that is under way is none yet.
 * LOAD_NO_ROOM: take a ticket, with master_room_wait_load() if it may have turning room as
 * well. The caller has checked key, size and generation, which another node has sent.
 */
enum load_verdict master_copy_start(struct master *master,
	const struct copy_request *copy, struct ticket *ticket, uint64_t now,
	uint32_t *ret_slot);
/* What its source has said of it since, before it is done: all but what names it, and softpin. */
void master_copy_know(
	struct master *master, uint32_t slot, const struct copy_request *said);
/* 0: READY, secondary, and the caller pins it before anything else happens. ERR_REMOVED: its
 * generation was ended meanwhile. ERR_EXISTS: a put of the key was READY first. Else `err`
 * comes back. The slot is free then. `checksum`: of the bytes, kept for readers elsewhere. */
int master_copy_done(
	struct master *master, uint32_t slot, int err, uint64_t checksum, uint64_t now);

/* End this generation of the key, in the pool, on disk, and on its way into the pool, so that
 * a put that was given it ends with ERR_REMOVED; 0: any, and unfinished puts too.
 * *ret_generation: of what was ended; 0: of a put that had none yet. ERR_NOT_FOUND: there is
 * none of it. */
int master_end_generation(struct master *master, const struct index_key *key,
	uint64_t generation, uint64_t now, uint64_t *ret_generation);
/* The same of any generation below this; a put that was given none yet comes later. */
int master_end_below(struct master *master, const struct index_key *key, uint64_t below,
	uint64_t now, uint64_t *ret_generation);
/* Unfinished puts, and copies on their way, whose key begins so never become READY; how many.
 * What is there already is left alone, also what is being read from the disk. */
uint32_t master_doom_prefix(
	struct master *master, const void *prefix, uint32_t prefix_size);
/* Another node keeps it: this READY copy is secondary from now on, and may be dropped; its
 * record on disk goes. Twice does no harm. */
void master_yield(struct master *master, uint32_t slot, uint64_t now);
/* The same for what is only on disk (master_disk_find()): nothing stays here, and a load of
 * it ends with ERR_NOT_FOUND. */
void master_yield_stored(struct master *master, uint32_t entry, uint64_t now);

struct held;

/* How large a run, in bytes, may be that another node would keep in this one's place, as far
 * as is known; 0: none takes any, and then what could leave in no other way stays. `others`:
 * nodes that there are beside this one, of which those that keep an object cannot take it over. */
void master_hand_allow(struct master *master, uint64_t limit, uint32_t others);
/* Whether there are such nodes, though none may be given anything just now: then what could leave
 * for them is in no load's way. */
void master_hand_expect(struct master *master, bool expected);
/* Whether such nodes come before the disk, which then gets what none of them would take. */
void master_hand_first(struct master *master, bool first);
/* An object that should leave for such a node, since room is wanted and the disk has none for
 * it, or comes second: in *ret_slot. It is under way as *ret_number until master_hand_done(). */
bool master_hand_next(
	struct master *master, uint64_t now, uint32_t *ret_number, uint32_t *ret_slot);
/* The same for one that the caller chooses: in `slot`, or with SLOT_NONE one that is only on
 * disk, with a run of so many bytes. HAND_LIMIT: so many are under way. */
uint32_t master_hand_take(struct master *master, uint32_t slot, uint64_t bytes);
/* Who was asked does not take this one, whatever room there is: others come first from now on. */
void master_hand_refused(struct master *master, const struct held *held, uint64_t now);
/* It is over. `handed`: another node has it, and keeps it; what is here of it is secondary
 * from now on (master_held_yield()), if it is still there. Else it stays as it was. */
void master_hand_done(struct master *master, uint32_t number, const struct held *held,
	bool handed, uint64_t now);
/* A copy that came now would lie where it can stay. Else it would have turning room, which is
 * for what comes and goes; one that is too large for that waits for room. */
bool master_keep_fits(const struct master *master, uint64_t size, uint32_t klen);
/* The reverse of master_yield(): this node has taken over to keep the READY copy. 0, also if
 * it did so before. ERR_NO_SPACE: it lies in turning room; ERR_BUSY: it is being moved, or was
 * being saved as it was yielded; ERR_NOT_PERMITTED: its generation is not believed, see
 * master_note_generation(). */
int master_keep(struct master *master, uint32_t slot);
/* It lies in turning room. */
bool master_is_lent(const struct master *master, uint32_t slot);

/* A node that keeps things may be gone for good: softpin copies, of which some may be the last,
 * do not leave the pool for room until then; 0: they may again. */
void master_spare_copies(struct master *master, uint64_t until, uint64_t now);

/* An object as a directory knows it. */
struct held {
	struct disk_id id;
	uint64_t generation, size;
	uint64_t expires; /* UINT64_MAX = never */
	uint64_t hash;    /* of the key, as this pool has it */
	uint16_t wanted;  /* nodes that are to keep it, at least 1 */
	bool softpin, secondary, durable;
	bool unlisted; /* see struct copy_request; until master_held_list() */
};

/* What is READY or on disk, from the cursor on (0: from the start), looking at no more than
 * `budget` places. False: nothing in these; *cursor is UINT64_MAX at the end. What is held
 * from the start to the end of a walk is met once, wherever it goes meanwhile. */
bool master_held_next(
	const struct master *master, uint64_t *cursor, uint32_t budget, struct held *ret);
/* What is READY in the slot. */
void master_held_at(const struct master *master, uint32_t slot, struct held *ret);
/* This generation of the key, READY or on disk. False: it is not here. */
bool master_held_look(const struct master *master, const struct index_key *key,
	uint64_t generation, struct held *ret);
/* Whether it is still there; *ret_slot: where it is READY, SLOT_NONE: it is only on disk. */
bool master_held_find(
	const struct master *master, const struct held *held, uint32_t *ret_slot);
/* A directory names this node as having it. */
void master_held_list(struct master *master, const struct held *held);
/* Its entry, if it is only on disk; DISK_NONE: it is not. */
uint32_t master_held_entry(const struct master *master, const struct held *held);
/* End it here, if it is still there. */
void master_held_end(struct master *master, const struct held *held, uint64_t now);
/* Another node keeps it: master_yield(), or master_yield_stored(). */
void master_held_yield(struct master *master, const struct held *held, uint64_t now);
/* Objects that left this node by no word of its owner's, in this order: evicted, dropped from
 * the disk, or their time was over, or the last of their reads had ended; and puts whose writer
 * was gone when the daemon started. False: no more.
 * They are kept until they are taken, up to a number; master_left_lost() tells, once, whether
 * some were not. By the time one is taken, the node may have the generation again. */
struct left {
	struct disk_id id;
	uint64_t generation;
	uint64_t hash; /* of the key, as this pool has it */
	uint32_t slot; /* where it was: its key lies there until something else does */
	bool ended;    /* for good, everywhere: the owner's removal in advance */
	bool undone;   /* a put that never came to its end: nobody has it */
};
bool master_left_next(struct master *master, struct left *ret);
bool master_left_lost(struct master *master);

/* ---- leases -------------------------------------------------------------- */

/* Promise that the READY object in `slot` stays readable for `length_ns` from now. */
struct lease_token master_lease(
	struct master *master, uint32_t slot, uint64_t length_ns, uint64_t now);
/* The transfer has ended. False: no such grant is outstanding (any more). */
bool master_lease_release(
	struct master *master, const struct lease_token *token, uint64_t now);

/* ---- time ---------------------------------------------------------------- */

/* When master_advance() or master_room_run() has something to do; UINT64_MAX = never. */
uint64_t master_next(const struct master *master);

/* Do one thing that is due: a put's deadline, the end of a time to live, a re-look. The
 * slot, whose key somebody may wait for, or SLOT_NONE when nothing is due. */
uint32_t master_advance(struct master *master, uint64_t now);
/* The same for what is only on disk. True: an object's time to live was over; *ret_hash is
 * its key's. */
bool master_disk_expire(struct master *master, uint64_t now, uint64_t *ret_hash);

/* ---- room ---------------------------------------------------------------- */

/* Queue `ticket` for a run of an object. It is granted by master_room_run(). */
void master_room_wait(
	struct master *master, struct ticket *ticket, uint64_t size, uint32_t klen);
/* The same for a load, which may have turning room. */
void master_room_wait_load(
	struct master *master, struct ticket *ticket, uint64_t size, uint32_t klen);
/* Leave the queue, or give a granted run back. */
void master_room_cancel(struct master *master, struct ticket *ticket);

/* Serve the queue and keep the watermarks, examining at most `budget` objects. True:
 * there is more to do now. Granted tickets come out of master_room_granted(), oldest
 * first. */
bool master_room_run(struct master *master, uint64_t now, uint32_t budget);
struct ticket *master_room_granted(struct master *master);

/* A copy that the caller must make, from run to run: the bytes [from_off, +size) to
 * to_off. */
struct relocation {
	uint32_t from, to; /* slots */
	uint64_t from_off, to_off, size;
};

/* The copy to make now, if any. It stays the same until master_move_done(). */
bool master_move_next(struct master *master, struct relocation *ret);
/* The copy is published, the old place condemned. `copied` false: given up. */
void master_move_done(struct master *master, bool copied, uint64_t now);

/* Slots are running out while bytes are free: the caller should allocate more of the
 * index and call master_slots_grown(). */
bool master_wants_slots(const struct master *master);
void master_slots_grown(struct master *master, uint32_t nslots);

/* ---- for people ---------------------------------------------------------- */

/* Bytes of the pool by state; they add up to its size at any moment. */
struct pool_use {
	uint64_t size, free, withheld, granted, writing, inactive, active, dirty, spent,
		clean, lent, large, saving, parked, moving, condemned;
	uint64_t largest_hole;
	uint64_t turning; /* bytes of the range, counted above by what lies there */
	uint64_t objects; /* READY */
};

/* The disk, as it is: `bytes` of values, `used` and `free` of the data file. */
struct disk_use {
	uint64_t size, used, free, largest_hole;
	uint64_t bytes, cache_bytes, only_bytes, saving_bytes;
	uint64_t objects, objects_only, object_limit, changes;
	int error; /* why nothing is written out now; 0: it is */
};

void master_disk_use(const struct master *master, struct disk_use *ret);

/* Bytes that are ended and still held by a client, or by any (`cid` = CLIENT_LIMIT). */
uint64_t master_held_bytes(const struct master *master, uint32_t cid);

void master_use(const struct master *master, struct pool_use *ret);

/* Every invariant: NULL, or what is broken (a static text). O(slots). */
const char *core_check(const struct master *master, uint64_t now);

#endif
