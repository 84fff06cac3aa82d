/*
 * tier_priv.h - what a node does with its disk: the jobs under way there, and objects on
 * their way back into the pool.
 *
 *   job    one call of env.tier and its end; fixed in number and by kind
 *   load   one object that is being read back, for all who ask for it
 *
 *   job:   FREE --job_start--> BEFORE --gate--> RUNNING --node_on_tier--> AFTER --gate-->
 *          done, FREE
 *   load:  (no room) ROOM --granted--> QUEUE --a job is free--> READ --> done
 *             '--------- nobody waits for it any more ---------> done
 *
 * Units     bytes, ns.
 * Memory    all from node_new(). What a job's call points to lies in the job until its end,
 *           whoever asked for it.
 * Thread    the loop thread.
 */
#ifndef NODE_TIER_PRIV_H
#define NODE_TIER_PRIV_H

#include "base/list.h"
#include "core/master.h"
#include "io/env.h"

#define TIER_SAVES        16u /* writes under way at once */
#define TIER_COMMITS      1u  /* what comes meanwhile goes together in the next */
#define TIER_LISTS        2u
#define TIER_PUNCHES      1u
#define TIER_KEYS_SIZE    (128u * 1024)
#define NODE_LOAD_BUCKETS 1024u

_Static_assert(TIER_PIECES == DISK_BATCH && TIER_BLOCK == DISK_GRANULE &&
		       TIER_ON_INDEX == DISK_ON_INDEX,
	"core and env speak of the same");

enum job_kind {
	JOB_SAVE,
	JOB_COMMIT,
	JOB_PUNCH,
	JOB_KEYS,
	JOB_LOAD, /* all that are left: somebody waits for each */
	JOB_KINDS
};

enum job_stage {
	JOB_FREE,
	JOB_BEFORE,
	JOB_RUNNING,
	JOB_AFTER
};

struct save_memory {
	uint32_t entries[TIER_PIECES];
	uint64_t checksums[TIER_PIECES];
	struct tier_piece pieces[TIER_PIECES];
};

struct commit_memory {
	uint32_t entries[TIER_PIECES];
	uint64_t hashes[TIER_PIECES]; /* of the keys, to wake who waits */
	struct tier_change changes[TIER_PIECES];
};

struct node;
struct op;
struct job;

/* A page of keys came, or err: see keys_next(). The op waits for it no more. */
typedef void (*keys_done_fn)(
	struct node *node, struct op *op, const struct job *job, int err);

struct keys_memory {
	keys_done_fn done;
	bool alone; /* no op waits for it */
	uint32_t entries[TIER_PIECES];
	uint64_t generations[TIER_PIECES]; /* to know an entry again */
	struct tier_id ids[TIER_PIECES];
	unsigned char keys[TIER_KEYS_SIZE];
};

struct job {
	enum job_kind kind;
	enum job_stage stage;
	int err;
	uint32_t count;
	uint64_t began_ns;
	uint64_t off, size; /* in the data file; off: or TIER_ON_INDEX */
	union {
		struct save_memory *save;
		struct commit_memory *commit;
		struct keys_memory *keys;
	};
	struct tier_piece piece; /* of a load */
	struct load *load;
	struct op *op; /* that asked for keys; NULL: it was cancelled */
	uint32_t run;  /* of a punch */
};

enum load_state {
	LOADS_FREE,
	LOADS_ROOM,
	LOADS_QUEUE,
	LOADS_READ
};

struct load {
	struct list entry;       /* of its bucket, or free */
	struct list queue_entry; /* of tier.in_room or tier.queue, in those states */
	enum load_state state;
	uint32_t disk;       /* the entry that it reads, */
	uint64_t generation; /* which may be another object's by now */
	uint64_t hash;
	uint32_t slot;    /* its place in the pool, from QUEUE on */
	uint32_t waiters; /* ops whose `load` it is */
	uint64_t
		promised; /* bytes of its run that a batch was promised; see load_begin() */
	struct ticket ticket;
};

/* What cannot be done is told once a minute, and once when it can be done again. */
struct trouble {
	bool there;
	uint64_t told_ns; /* 0 = never */
};

struct tier {
	struct job jobs[TIER_JOB_LIMIT];
	uint32_t jobs_used;
	struct save_item items[TIER_PIECES];
	struct save_memory *saves;
	struct commit_memory *commits;
	struct keys_memory *keys;
	struct load *loads;
	struct list free_loads, in_room, queue; /* queue: oldest first */
	struct list *load_buckets;              /* NODE_LOAD_BUCKETS, by entry */
	uint32_t loads_used;
	struct list listing; /* ops that wait for keys, or for a job, by wait_entry */
	struct trouble writing, reading, corrupt;
	uint64_t save_speed; /* bytes a second, of large writes lately; 0: none yet */
	/* What the start found. */
	uint64_t adopted, dropped, refused;
};

/* ---- tier.c: jobs -------------------------------------------------------- */

/* NULL: all of the kind are under way. */
struct job *job_new(struct node *node, enum job_kind kind);
void job_start(struct node *node, struct job *job);
/* Its gate is open again. */
void job_go_on(struct node *node, uint32_t number);

int tier_allocate(struct node *node);
/* After master_recover(): take over what is on disk. */
int tier_start(struct node *node) MUST_CHECK;
/* Start what can be started. True: there is more to do now. */
bool tier_step(struct node *node, uint64_t now);
uint64_t tier_next(const struct node *node);
void tier_trouble(struct node *node, struct trouble *trouble, const char *what, int err);
const char *tier_check(const struct node *node);

/* ---- flow_load.c --------------------------------------------------------- */

enum load_begin {
	LOAD_JOINED, /* it is under way, and the op has it as op->load */
	LOAD_ENDED,  /* there is no such object on disk any more */
	LOAD_REFUSED /* an item of a batch that does not fit beside what is held */
};

enum load_begin load_join(struct node *node, struct op *op, uint32_t entry);
/* Whether op->load still reads this entry's object. */
bool load_is_of(const struct node *node, const struct load *load, uint32_t entry);
/* The op waits for its load no more. */
void load_leave(struct node *node, struct op *op);
void load_has_room(struct node *node, struct load *load);
/* The core may have ended what is waited for, without a word. True: somebody was woken. */
bool loads_look(struct node *node);
/* Give free jobs to loads that have room. */
void loads_step(struct node *node);
void load_call(struct node *node, struct job *job, uint32_t number);
void load_job_done(struct node *node, struct job *job, int err);

/* ---- keys.c -------------------------------------------------------------- */

/* Ask for the keys of up to `limit` entries from one on. True: the op waits, for them or for a
 * job, and is then run again. False: there are no more. */
bool keys_ask(struct node *node, struct op *op, uint32_t from, uint32_t limit,
	keys_done_fn done);
/* The same of one entry, and for no op: `done` gets NULL for it. False: no job is free, or it
 * is not only on disk. */
bool keys_ask_one(struct node *node, uint32_t entry, keys_done_fn done);
/* The op waits for keys no more. */
void keys_leave(struct op *op);
/* Wake those for which a job is free. */
void keys_step(struct node *node);
void keys_call(struct node *node, struct job *job, uint32_t number);
void keys_job_done(struct node *node, struct job *job, int err);

/* Where one is among the keys of a job; zeroed at first. */
struct keys_at {
	uint32_t i;
	size_t off;
	uint32_t entry; /* of the key that came last; behind the last, where to go on */
};

struct msg_bytes;

/* The next key, of an entry that still is what it was. False: that was the last, or the next
 * did not fit into the page. */
bool keys_next(const struct node *node, const struct job *job, struct keys_at *at,
	struct msg_bytes *ret_key);

#endif
