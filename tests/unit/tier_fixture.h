/*
 * tier_fixture.h - a store in a directory of its own, driven one job at a time or many.
 *
 * The directory is made under $TMPDIR, else /tmp: on a disk, where direct I/O is real.
 */
#ifndef UNIT_TIER_FIXTURE_H
#define UNIT_TIER_FIXTURE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/rng.h"
#include "tier/store.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB         (1ull << 20)
#define RIG_POOL    (64 * MIB)
#define RIG_NOT_YET 1 /* no error: the job is under way */

struct rig {
	char path[256]; /* of the directory */
	char detail[512], warnings[2048];
	struct loop loop;
	struct store_config config;
	struct store *store;
	struct env_tier env;
	unsigned char *pool;
	int ends[TIER_JOB_LIMIT];
	uint32_t under_way;
};

static inline void rig_done(void *ctx, uint32_t job, int err)
{
	struct rig *rig = ctx;

	assert_true(job < TIER_JOB_LIMIT && rig->ends[job] == RIG_NOT_YET);
	rig->ends[job] = err;
	rig->under_way--;
}

static inline void rig_warn(void *ctx, const char *text)
{
	struct rig *rig = ctx;
	size_t used = strlen(rig->warnings);

	(void)snprintf(rig->warnings + used, sizeof(rig->warnings) - used, "%s\n", text);
}

static inline int rig_open(struct rig *rig)
{
	int err;

	rig->detail[0] = rig->warnings[0] = '\0';
	rig->under_way = 0;
	err = store_open(&rig->store, &rig->config, rig->detail, sizeof(rig->detail));
	if (err == 0)
		store_env(rig->store, &rig->env);
	else
		rig->store = NULL;
	return err;
}

static inline void rig_close(struct rig *rig)
{
	store_close(rig->store);
	rig->store = NULL;
}

static inline void rig_reopen(struct rig *rig)
{
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
}

/* ---- begin and end ------------------------------------------------------- */

static inline void rig_init(struct rig *rig, const char *parent)
{
	memset(rig, 0, sizeof(*rig));
	(void)snprintf(rig->path, sizeof(rig->path), "%s/cenote-tier-XXXXXX", parent);
	assert_non_null(mkdtemp(rig->path));
	assert_int_equal(loop_open(&rig->loop), 0);
	rig->pool = mmap(NULL, RIG_POOL, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(rig->pool != MAP_FAILED);
	rig->config = (struct store_config){
		.path = rig->path,
		.disk_size = 256 * MIB,
		.object_limit = 1000,
		.threads = 3,
		.pool = rig->pool,
		.pool_size = RIG_POOL,
		.loop = &rig->loop,
		.ctx = rig,
		.done = rig_done,
		.warn = rig_warn,
	};
}

static inline int rig_setup(void **state)
{
	const char *parent = getenv("TMPDIR");
	struct rig *rig = malloc(sizeof(*rig));

	assert_non_null(rig);
	rig_init(rig, parent != NULL && parent[0] != '\0' ? parent : "/tmp");
	*state = rig;
	return 0;
}

/* In memory, for what takes very many commits and is not about the disk. */
static inline int rig_setup_memory(void **state)
{
	struct rig *rig = malloc(sizeof(*rig));

	assert_non_null(rig);
	rig_init(rig, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	*state = rig;
	return 0;
}

static inline void rig_path(const struct rig *rig, const char *name, char path[512])
{
	(void)snprintf(path, 512, "%s/%s", rig->path, name);
}

static inline int rig_teardown(void **state)
{
	struct rig *rig = *state;
	DIR *dir = opendir(rig->path);

	rig_close(rig);
	for (struct dirent *at = dir != NULL ? readdir(dir) : NULL; at != NULL;
		at = readdir(dir))
		(void)unlinkat(dirfd(dir), at->d_name, 0);
	if (dir != NULL)
		(void)closedir(dir);
	assert_int_equal(rmdir(rig->path), 0);
	loop_close(&rig->loop);
	(void)munmap(rig->pool, RIG_POOL);
	free(rig);
	return 0;
}

/* ---- jobs ---------------------------------------------------------------- */

static inline void rig_begin(struct rig *rig, uint32_t job)
{
	rig->ends[job] = RIG_NOT_YET;
	rig->under_way++;
}

/* Until all jobs have ended. */
static inline void rig_wait(struct rig *rig)
{
	int signal;

	while (rig->under_way > 0)
		assert_int_equal(loop_turn(&rig->loop, true, &signal), 0);
}

static inline int rig_end(struct rig *rig, uint32_t job)
{
	rig_wait(rig);
	return rig->ends[job];
}

static inline int rig_write(
	struct rig *rig, uint64_t off, struct tier_piece *pieces, uint32_t count)
{
	rig_begin(rig, 0);
	rig->env.write(rig->env.ctx, 0, off, pieces, count);
	return rig_end(rig, 0);
}

static inline int rig_read(struct rig *rig, uint64_t off, struct tier_piece *piece)
{
	rig_begin(rig, 0);
	rig->env.read(rig->env.ctx, 0, off, piece);
	return rig_end(rig, 0);
}

static inline int rig_fetch(struct rig *rig, struct tier_id id, struct tier_piece *piece)
{
	rig_begin(rig, 0);
	rig->env.fetch(rig->env.ctx, 0, id, piece);
	return rig_end(rig, 0);
}

static inline int rig_commit(
	struct rig *rig, const struct tier_change *changes, uint32_t count)
{
	rig_begin(rig, 0);
	rig->env.commit(rig->env.ctx, 0, changes, count);
	return rig_end(rig, 0);
}

static inline int rig_punch(struct rig *rig, uint64_t off, uint64_t size)
{
	rig_begin(rig, 0);
	rig->env.punch(rig->env.ctx, 0, off, size);
	return rig_end(rig, 0);
}

/* ---- objects ------------------------------------------------------------- */

static inline void fill(unsigned char *bytes, uint64_t size, uint64_t seed)
{
	struct rng rng;
	uint64_t word = 0;

	rng_init(&rng, seed);
	for (uint64_t i = 0; i < size; i++) {
		if (i % 8 == 0)
			word = rng_next(&rng);
		bytes[i] = (unsigned char)(word >> 8 * (i % 8));
	}
}

/* The id of object number `number`, and its key in `key`. */
#define RIG_KEY_SIZE 24
static inline struct tier_id id_of(uint64_t number, char key[RIG_KEY_SIZE])
{
	struct tier_id id;

	(void)snprintf(key, RIG_KEY_SIZE, "object/%016llx", (unsigned long long)number);
	hash_key128(key, RIG_KEY_SIZE - 1, id.word);
	return id;
}

/* A change that stores object `number`; its key lies in `key`. */
static inline struct tier_change store_of(
	uint64_t number, uint64_t off, uint64_t size, char key[RIG_KEY_SIZE])
{
	struct tier_change change = {.record = {.off = off,
					     .size = size,
					     .generation = number + 1,
					     .checksum = number * 3,
					     .klen = RIG_KEY_SIZE - 1,
					     .key = key}};

	change.record.id = id_of(number, key);
	return change;
}

static inline struct tier_change drop_of(uint64_t number)
{
	char key[RIG_KEY_SIZE];
	struct tier_change change = {.drop = true};

	change.record.id = id_of(number, key);
	return change;
}

#endif
