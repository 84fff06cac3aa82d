/*
 * core_mix.h - a master under the station profile, with time that is counted and bytes
 * that are not moved, for the test of the size mix.
 *
 * A *turn* is one turn of the daemon's loop. What would move bytes (a put's copy, a read,
 * a relocation, a job of the disk) takes turns by its size, and touches no byte: the pool
 * is address space without memory behind it.
 *
 * Units     turns where a name says so, else as master.h.
 * Memory    mix_open() to mix_close().
 * Errors    a difference ends the process with a message: mix_fail().
 * Thread    one.
 */
#ifndef MODEL_CORE_MIX_H
#define MODEL_CORE_MIX_H

#include "core/master.h"

#include "base/hist.h"
#include "base/rng.h"
#include "tools/station_plan.h"

#define MIX_RANKS      8u
#define MIX_STEPS_KEPT (STATION_LIFE_MAX + 1u)
#define MIX_SAVES      4u
#define MIX_SAVE_ITEMS 64u

struct mix_config {
	const char *name;
	uint64_t pool, disk; /* disk 0: none */
	uint32_t live;       /* permille of the pool, at the peak */
	uint32_t seeds, steps;
	bool reads_once;
	bool waits;          /* some puts must find no hole: else this tries nothing */
	uint32_t wait_limit; /* turns that a put may wait for room */
};

struct mix_object {
	struct station_object plan;
	struct index_key key;
	char name[STATION_KEY_MAX];
	bool ready;
};

/* The objects that were put in one step. */
struct mix_step {
	struct mix_object *objects;
	uint32_t count;
};

enum mix_doing {
	MIX_IDLE,
	MIX_PUT_WAITS, /* for a ticket, or until the key's record is gone */
	MIX_PUT_COPIES,
	MIX_LOAD_WAITS, /* for a ticket */
	MIX_LOADS,
	MIX_READS
};

struct mix_rank {
	struct mix *mix;
	struct holder holder;
	enum mix_doing doing;
	struct mix_object **puts, **reads;
	uint32_t put_count, read_count, put_at, read_at;
	struct mix_object *object; /* of what it does now */
	struct ticket ticket;
	bool granted;
	uint32_t slot;
	uint64_t life;
	uint64_t since; /* the turn in which it began to wait */
	uint64_t until; /* the turn in which its copy ends */
};

struct mix_save {
	uint32_t entries[MIX_SAVE_ITEMS];
	uint32_t count;
	uint64_t until;
};

struct mix {
	const struct mix_config *config;
	struct station_plan plan;
	struct rng rng;
	struct share share;
	struct master master;
	void *memory; /* the master's */
	uint64_t now, turn, op;
	struct mix_step steps[MIX_STEPS_KEPT]; /* by step % MIX_STEPS_KEPT */
	struct station_object *plans;          /* of one step, to derive it */
	struct mix_object weights;
	struct mix_rank ranks[MIX_RANKS];
	uint64_t move_until; /* 0: none is under way */
	struct mix_save saves[MIX_SAVES];
	uint32_t commit[DISK_BATCH];
	uint32_t commit_count;
	uint64_t commit_until;
	uint64_t puts, gets, waited; /* waited: puts that found no hole */
	struct hist wait_turns;      /* of those */
	uint64_t longest;            /* of the reads from disk, in turns */
};

__attribute__((format(printf, 2, 3))) _Noreturn void mix_fail(
	const struct mix *mix, const char *format, ...);

/* ---- core_mix.c: the daemon and its disk */

/* How long something of so many bytes is under way, at `rate` turns for a whole pool. */
uint64_t mix_turns(const struct mix *mix, uint64_t bytes, uint64_t rate);

/* ---- core_mix_rank.c: who puts and reads */

#define MIX_COPY_RATE 512u  /* turns to copy a pool full */
#define MIX_DISK_RATE 4096u /* and for one job of the disk to write or read as much */

void mix_ranks_open(struct mix *mix);
void mix_ranks_close(struct mix *mix);
/* Remove what ends with this step, and give each rank its puts and reads. */
void mix_step_begin(struct mix *mix, uint32_t step);
/* The next thing that the rank does, if it can. */
void mix_rank_turn(struct mix *mix, struct mix_rank *rank);
bool mix_rank_is_done(const struct mix_rank *rank);
/* Remove all that is left. */
void mix_end(struct mix *mix);

#endif
