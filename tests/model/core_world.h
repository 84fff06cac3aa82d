/*
 * core_world.h - a master, the memory it shares with its clients, the clients, and the
 * naive master beside them, for the model test.
 *
 * The test plays all that surrounds core: clients put bytes, hold and read through the
 * shared index, and tell of their last release, late or never; the daemon's loop asks
 * for room, copies, turns the clock, and dies. What a client reads under a hold must be
 * the bytes of the put that the record names.
 *
 * Memory    world_open() to world_close(); all of it is the world's.
 * Errors    a difference ends the process with a message: world_fail().
 * Thread    one.
 */
#ifndef MODEL_CORE_WORLD_H
#define MODEL_CORE_WORLD_H

#include "naive.h"

#include "base/rng.h"

#define WORLD_CLIENTS 6
#define WORLD_PUTS    64
#define WORLD_HOLDS   192
#define WORLD_PINS    24
#define WORLD_TICKETS 24
#define WORLD_TELLS   64

#define WORLD_LOADS      6
#define WORLD_SAVES      4
#define WORLD_SAVE_ITEMS 24
#define WORLD_COMMIT     40

#define WORLD_COPIES 6
#define WORLD_TOLD   256

#define WORLD_TIMEOUT_NS 5000000000ull

struct world_config {
	const char *name;
	uint64_t pool_size;
	uint32_t nslots, slots_limit; /* limit 0: by the pool's size */
	uint32_t keys;
	uint64_t size_typical, size_large;
	unsigned large_percent, pool_percent; /* sizes up to `large`, up to the pool */
	unsigned softpin_percent, ttl_percent;
	uint64_t disk_size;    /* 0: none */
	uint32_t seeds, steps; /* of a run without arguments */
	bool clustered;        /* there are other nodes */
};

struct world_key {
	uint8_t data[KEY_LIMIT];
	struct index_key key;
};

struct world_client {
	struct holder holder;
	struct world *world;
	uint32_t cid, incarnation;
	bool live;
};

/* A put under way, as its writer knows it. */
struct world_put {
	uint32_t id, client, slot;
	uint64_t life;
	bool written;
};

/* A hold of a client, or a pin of the daemon. */
struct world_hold {
	uint32_t id, client, slot;
	uint64_t life;
	uint64_t took; /* the number of its take, 0 = none */
};

struct world_ticket {
	struct ticket ticket;
	bool used;     /* waits, or granted and not yet fetched */
	bool fetched;  /* granted, the put may start */
	uint64_t turn; /* order of the queue */
	uint32_t key, client;
	struct put_request put;
};

/* A write under way. */
struct world_save {
	struct save_item items[WORLD_SAVE_ITEMS];
	uint32_t count;
	uint64_t off;
};

struct world_change {
	bool drop;
	struct disk_record record;
	uint64_t value;
};

struct world_load {
	struct ticket ticket;
	bool used, granted;
	uint32_t key, id, slot; /* SLOT_NONE: it waits for room */
	uint64_t size;
};

/* What the index has of a key. */
struct world_record {
	struct disk_record record;
	bool there;
	bool ends; /* at the last kill its end was under way */
	unsigned char value[DISK_INLINE];
};

struct world_disk {
	unsigned char *data;
	struct world_record *records; /* by key */
	struct world_save saves[WORLD_SAVES];
	struct world_load loads[WORLD_LOADS];
	uint32_t commit[WORLD_COMMIT];
	struct world_change changes[WORLD_COMMIT];
	uint32_t nsaves, ncommit;
};

/* A copy of what another node has. */
struct world_copy {
	struct ticket ticket;
	bool used, granted;
	uint32_t key, id, slot; /* SLOT_NONE: it waits for room */
	struct copy_request copy;
};

struct world {
	const struct world_config *config;
	struct rng rng;
	bool trace;
	struct share share;
	struct master master;
	void *memory; /* the master's */
	size_t memory_size;
	struct naive naive;
	struct world_key *keys;
	uint32_t *id_of; /* by slot: the record of the put it was last given to */
	uint64_t now, wall_us, next_op, next_turn, last_generation;

	struct world_client clients[WORLD_CLIENTS];
	struct world_put puts[WORLD_PUTS];
	struct world_hold holds[WORLD_HOLDS];
	struct world_hold pins[WORLD_PINS];
	struct world_ticket tickets[WORLD_TICKETS];
	uint32_t tells[WORLD_TELLS];
	uint32_t nputs, nholds, npins, ntells;
	struct world_disk disk;
	struct world_copy copies[WORLD_COPIES];
	struct left told
		[WORLD_TOLD]; /* what has left, and the naive master does not know yet */
	uint32_t ntold;
	uint64_t theirs; /* the last clock of other nodes */
	bool half_copied;
	struct master_stats stats; /* of the masters before this one */
	struct master_cluster_stats cluster;
	uint64_t outrun; /* puts that ended because a copy was first */
	uint64_t restarts, granted;
};

/* ---- core_world.c: memory, checks, the daemon's side */

/* A caller's seed and configuration always make the same world. */
struct world *world_open(const struct world_config *config, uint64_t seed, bool trace);
void world_close(struct world *world);

__attribute__((format(printf, 2, 3))) _Noreturn void world_fail(
	const struct world *world, const char *format, ...);
__attribute__((format(printf, 2, 3))) void world_trace(
	const struct world *world, const char *format, ...);

/* All invariants of the master, and that an idle one stays idle. */
void world_check(struct world *world);
/* Every key, every byte, by the daemon's own door. */
void world_audit(struct world *world);
/* The bytes of record `id` lie whole in `slot`. */
void world_verify(const struct world *world, uint32_t id, uint32_t slot);

uint32_t world_writer(const struct world *world, uint32_t client);
uint32_t world_any_key(struct world *world);
/* A record that the master no longer has must be one it may evict. */
void world_missed(struct world *world, uint32_t key);
/* The same, if the master no longer has it. */
void world_sync(struct world *world, uint32_t key);
void world_client_add(struct world *world, uint32_t client);
/* The daemon dies and another starts on the same memory. */
void world_restart(struct world *world);
/* The counters of this master join those of the earlier ones. */
void world_count(struct world *world);
void world_grow(struct world *world);
/* Deliver, or lose, all that waits in the sockets. */
void world_tell_all(struct world *world, bool lose);
void world_advance(struct world *world, uint64_t ns);
/* Let the master make room with `budget` a turn, for one turn or until it rests. */
void world_room(struct world *world, uint32_t budget, bool until_rest);
void world_move(struct world *world, bool copied);
void world_ticket_forget(struct world *world, struct world_ticket *ticket);

/* ---- core_disk.c: the disk's side; without a disk each does nothing */

bool disk_world_has(const struct world *world);
void disk_open(struct world *world);
void disk_close(struct world *world);
/* Begin, or end, one job; each ends well, or if it may fail. */
void disk_save(struct world *world);
void disk_save_done(struct world *world, bool may_fail);
void disk_commit(struct world *world);
void disk_commit_done(struct world *world, bool may_fail);
void disk_load(struct world *world, uint32_t key);
void disk_load_step(struct world *world, bool may_fail);
void disk_trim(struct world *world);
/* A ticket that may be a load's. */
bool disk_granted(struct world *world, struct ticket *ticket);
/* Bring all jobs to their end; true: something is left. */
bool disk_settle(struct world *world);
void disk_cancel_loads(struct world *world);
void disk_kill(struct world *world);
void disk_adopt(struct world *world);

/* ---- core_copy.c: other nodes; each does nothing if there are none */

/* Begin a copy, or bring one further. */
void copy_begin(struct world *world);
void copy_step(struct world *world);
bool copy_granted(struct world *world, struct ticket *ticket);
void copy_end_all(struct world *world);
/* Those under way, which a kill drops. */
uint32_t copy_kill(struct world *world);
void cluster_end(struct world *world);
void cluster_doom(struct world *world);
void cluster_yield(struct world *world);
/* The directory must have been told that this has left. */
void told_expect(struct world *world, uint32_t key, uint64_t generation, bool ended);
/* What was evicted is known to be: nothing else was told. */
void told_settle(struct world *world);
void told_expired(struct world *world, uint32_t moving);
/* All that is held, as a walk finds it. */
void held_audit(struct world *world);

/* ---- core_client.c: the clients' side */

void client_put(struct world *world);
void client_put_end(struct world *world, uint32_t at, bool abort);
void client_put_repeat(struct world *world);
void client_name(struct world *world);
void client_ticket_use(struct world *world, struct world_ticket *ticket, bool cancel);
void client_get(struct world *world);
void client_give(struct world *world, uint32_t at);
void client_remove(struct world *world);
void client_take(struct world *world);
void client_die(struct world *world, uint32_t client);
void daemon_pin(struct world *world);
void daemon_unpin(struct world *world, uint32_t at);

#endif
