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
	uint64_t last_generation;
	struct master_config config;
	struct master_stats stats;
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
	uint16_t readers_left, klen;
	bool softpin, counted;
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
	uint64_t ttl_ns;   /* 0 = none */
	uint32_t writer;   /* client_ref() */
	uint64_t op;       /* the client's number of this put */
	uint16_t readers;  /* removed after so many ended reads; 0 = not counted */
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
 * *ret_generation is set. ERR_TIMEOUT, ERR_REMOVED: the put is over, its run is free;
 * ERR_NOT_FOUND: no such put of this writer. `wall_us`: the wall clock, for the
 * generation.
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

/* 0: ended, or its put is doomed. ERR_NOT_FOUND: nothing under the key. */
int master_remove(struct master *master, const struct index_key *key, uint64_t now);

/* Report number `sequence` of client `cid`: one of its reads of this generation ended. 0:
 * counted, now or before; the last of `readers` removes the object. ERR_NOT_FOUND: there
 * is no such object that counts, any more. */
int master_read_ended(struct master *master, uint32_t cid, uint64_t sequence,
	const struct index_key *key, uint64_t generation, uint64_t now);

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
 * the next to be written; ERR_NO_SPACE, ERR_IO: not now; `now`: see disk.retry_ns. */
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
/* Whether an object of so many bytes could come in beside what is held, written and
 * promised to batches now. */
bool master_load_fits(struct master *master, uint64_t size, uint32_t klen, uint64_t now);
/* Bytes that a batch has been promised, and has loaded or given up (negative). */
void master_load_promise(struct master *master, int64_t run_bytes);

/* Space that the file system may have back: more is taken there than twice what lives.
 * It is nobody's until master_trim_done(). `backed`: what the data file takes. */
bool master_trim_next(struct master *master, uint64_t backed, uint64_t *ret_off,
	uint64_t *ret_size, uint32_t *ret_run);
void master_trim_done(struct master *master, uint32_t run);

/* The next entry at or after `entry` that is on disk and not READY in the pool. */
uint32_t master_disk_list(const struct master *master, uint32_t entry);

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
