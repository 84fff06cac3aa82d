/*
 * disk.h - a disk tier in memory, with the ways in which a disk fails.
 *
 *   write, read, fetch, commit, keys, punch --> under way --sim_tier_step--> ended, told
 *                                                 '--sim_tier_kill--> cut: any of its blocks
 *
 * A job's 4 KiB blocks move one by one, in any order, while the job is under way; jobs end
 * in any order, commits in theirs. The index has two versions: what is committed, and what
 * would outlive the host; a flush that lies lets them part. So has each block of data.
 *
 * What the node promises is checked here: no two jobs touch the same bytes unless both read
 * them; a range of the disk is not written while the committed index refers to it; what a
 * job was given stays as it was until its end; bytes are read only into the run of a load.
 *
 *   disk.c        the calls of struct env_tier, what is checked
 *   disk_index.c  records, and what a commit does to them
 *   disk_job.c    how jobs go on and end
 *   disk_fault.c  deaths of the daemon and of the host, bytes that rot
 *
 * Units     bytes; ns of the world's clock.
 * Memory    from sim_tier_open() to sim_tier_close(); `share` and `now_ns` are the caller's.
 * Errors    a broken promise ends in setup.fail(), which does not return.
 * Thread    one.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "base/rng.h"
#include "io/env.h"
#include "share/layout.h"

/* Percent of the jobs that go wrong. */
struct sim_trouble {
	unsigned io;   /* ERR_IO */
	unsigned full; /* writes to new blocks, and commits: ERR_NO_SPACE */
	unsigned slow; /* take up to 2 s */
	bool lying;    /* commits are told done, and nothing of them is durable */
};

struct sim_tier_setup {
	uint64_t data_size, object_limit;
	uint64_t seed;
	const uint64_t *now_ns;
	struct share *share;
	/* What is told of a broken promise. */
	void (*fail)(void *ctx, const char *text);
	void *ctx;
};

/* A record of the index; versions of the index share it. */
struct sim_record {
	unsigned refs;
	struct tier_record record;
	uint8_t key[KEY_LIMIT];
	unsigned char value[TIER_INLINE]; /* of one that lies in the index */
};

/* By rising offset; those with their value inside last. */
struct sim_index {
	struct sim_record **records;
	uint32_t count;
};

enum sim_job_kind {
	SIM_JOB_NONE,
	SIM_JOB_WRITE,
	SIM_JOB_READ,
	SIM_JOB_FETCH,
	SIM_JOB_COMMIT,
	SIM_JOB_KEYS,
	SIM_JOB_PUNCH
};

struct sim_job {
	enum sim_job_kind kind;
	uint64_t began; /* number of its begin, among all jobs */
	uint64_t due_ns;
	uint64_t off, size; /* of the range on disk, in whole blocks */
	struct tier_piece *pieces;
	const struct tier_change *changes;
	const struct tier_id *ids; /* of keys; of a fetch: &id */
	struct tier_id id;
	uint32_t count; /* of pieces, changes or ids */
	unsigned char *buffer;
	size_t buffer_size;
	uint64_t before;      /* hash of what must stay as it is */
	unsigned char *moved; /* by block */
	uint32_t blocks, left;
};

struct sim_tier {
	struct sim_tier_setup setup;
	struct sim_trouble trouble;
	struct rng rng;
	unsigned char *data, *stable; /* as read; as it would outlive the host */
	uint64_t *
		written; /* by block: when last, in numbers of begins; 0 = not since a flush */
	unsigned char *there; /* by block: it takes space */
	struct sim_index committed, durable;
	struct sim_job jobs[TIER_JOB_LIMIT];
	uint64_t begins; /* of jobs, so far */
	uint64_t spare; /* bytes that writes took beside, until a punch gives them back */
	uint64_t backed;
	bool lied;                             /* the last commit is not durable */
	uint64_t reads, cut_writes, cut_reads; /* counts */
};

void sim_tier_open(struct sim_tier *tier, const struct sim_tier_setup *setup);
void sim_tier_close(struct sim_tier *tier);
struct env_tier sim_tier_env(struct sim_tier *tier);

/* ---- disk_job.c ---------------------------------------------------------- */

/* When the next job can go on; UINT64_MAX: none is under way. */
uint64_t sim_tier_next(const struct sim_tier *tier);
/* Move some blocks of one job that is due, if there is one. */
void sim_tier_move(struct sim_tier *tier);
/* Let one job that is due go on. True: it has ended, and the node is to be told. */
bool sim_tier_step(struct sim_tier *tier, uint32_t *ret_job, int *ret_err);
bool sim_tier_is_quiet(const struct sim_tier *tier);
/* Whether a job of the kind is under way. */
bool sim_tier_has(const struct sim_tier *tier, enum sim_job_kind kind);

/* ---- disk_fault.c -------------------------------------------------------- */

/* The daemon's process ends: jobs end with it, done or not. Call it before the memory that
 * they were given is freed. */
void sim_tier_kill(struct sim_tier *tier);
/* The host stops and comes back, after sim_tier_kill(). */
void sim_tier_lose_host(struct sim_tier *tier);
/* A byte of a stored object flips; the object's generation, 0: there is none with bytes. */
uint64_t sim_tier_rot(struct sim_tier *tier);

/* ---- for who looks on ---------------------------------------------------- */

/* The record of the generation in the committed index, or in the durable one; NULL. */
const struct sim_record *sim_tier_find(
	const struct sim_index *index, uint64_t generation);
const unsigned char *sim_tier_bytes(
	const struct sim_tier *tier, const struct sim_record *record);

/* ---- among these files --------------------------------------------------- */

void *sim_disk_alloc(size_t count, size_t size);
void sim_tier_commit_now(struct sim_tier *tier, const struct sim_job *job);
void sim_tier_count(struct sim_tier *tier);
void sim_job_move(struct sim_tier *tier, struct sim_job *job, uint32_t block);
void sim_job_free(struct sim_job *job);
/* Whether the job's memory and ranges are as they must be; else fails. */
void sim_job_check(struct sim_tier *tier, struct sim_job *job);
void sim_index_clear(struct sim_index *index);
void sim_index_copy(struct sim_index *to, const struct sim_index *from);
const struct sim_record *sim_index_find(const struct sim_index *index, struct tier_id id);
uint64_t sim_tier_blocks(uint64_t size);

#endif
