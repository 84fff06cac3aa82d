/*
 * store.c - a disk tier from its opening to its end, and its table of calls.
 *
 *   home (directory, lock) -> walk of the index -> (damaged: aside, anew) -> sizes
 *   -> catalog -> queue (threads) ... queue closes, catalog, home (lock)
 */
#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "tier/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- what is there ------------------------------------------------------- */

static int store_make_new(struct store *store, const struct tell *tell)
{
	int err = home_reset(&store->home, tell);

	store->info.is_new = true;
	return err != 0 ? err : catalog_make(&store->home, tell);
}

/* The index is of this data file, and of this version. */
static int store_judge_head(const struct store *store, const struct tell *tell)
{
	const struct found *found = &store->found;

	if (found->version != STORE_VERSION)
		return tell_fail(tell, ERR_VERSION,
			"%s/" STORE_INDEX " is of version %" PRIu32
			", this cenoted has version %u",
			store->home.path, found->version, STORE_VERSION);
	if (memcmp(found->uuid, store->home.uuid, STORE_UUID) != 0)
		return tell_fail(tell, ERR_CORRUPT,
			"%s: objects and " STORE_INDEX
			" do not belong together: put the right one back, or remove "
			"both to start with an empty disk",
			store->home.path);
	return 0;
}

/* Bytes that the index has in use; ERR_CORRUPT, and then why. */
static int store_read_index(struct store *store, struct walk_end *end)
{
	int fd = openat(
		store->home.dir_fd, STORE_INDEX, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int err;

	*end = (struct walk_end){.index_end = 0};
	if (fd < 0)
		return ERR_IO;
	err = walk_index(fd, found_add, &store->found, end);
	if (err == 0 && !store->found.has_head) {
		end->why = "should have the index's own entry";
		err = ERR_CORRUPT;
	}
	(void)close(fd);
	return err;
}

static int store_set_aside(
	struct store *store, const struct walk_end *end, const struct tell *tell)
{
	int err;

	found_free(&store->found);
	found_init(&store->found);
	err = home_set_aside(&store->home, store->config.disk_size, tell);
	if (err != 0)
		return err;
	tell_warn(tell,
		"%s/" STORE_INDEX " is damaged (page %" PRIu64
		" %s): it is now index.bad, and the disk starts empty",
		store->home.path, end->page, end->why);
	return store_make_new(store, tell);
}

/* What was cut off of the data file reads as zeros, and fails its checksums. */
static void store_warn_of_loss(const struct store *store, const struct tell *tell)
{
	const struct found *found = &store->found;
	struct stat file;

	if (fstat(store->home.data_fd, &file) == 0 &&
		(uint64_t)file.st_size < found->data_end + (uint64_t)HOME_DATA_AT)
		tell_warn(tell,
			"%s/objects has %" PRIu64 " bytes of at least %" PRIu64
			": objects in the rest are lost",
			store->home.path, (uint64_t)file.st_size,
			found->data_end + (uint64_t)HOME_DATA_AT);
	if (found->skipped_count > 0)
		tell_warn(tell,
			"%s/" STORE_INDEX " has %" PRIu64
			" entries that are not valid: they are deleted",
			store->home.path, found->skipped_count);
}

static int store_adopt(struct store *store, const struct tell *tell)
{
	struct walk_end end;
	int err = store_read_index(store, &end);

	if (err == ERR_CORRUPT)
		return store_set_aside(store, &end, tell);
	if (err != 0)
		return tell_fail(tell, err, "%s/" STORE_INDEX ": %s", store->home.path,
			err_text(err));
	err = store_judge_head(store, tell);
	if (err == 0)
		err = home_check_sizes(&store->home, store->config.disk_size,
			store->found.data_end, end.index_end, tell);
	if (err != 0)
		return err;
	store_warn_of_loss(store, tell);
	found_sort(&store->found);
	store->info.objects = store->found.count;
	store->info.skipped = store->found.skipped_count;
	return 0;
}

static int store_find(struct store *store, const struct tell *tell)
{
	if (store->home.has_index)
		return store_adopt(store, tell);
	if (store->home.has_data)
		tell_warn(tell,
			"%s/" STORE_INDEX
			" is missing: what objects has cannot be found, the disk starts "
			"empty",
			store->home.path);
	return store_make_new(store, tell);
}

/* ---- open and close ------------------------------------------------------ */

void store_count_backed(struct store *store)
{
	atomic_store(&store->backed, file_backed(store->home.data_fd));
}

static int store_start(struct store *store, const struct tell *tell)
{
	int err = home_set_length(&store->home, tell);

	if (err == 0)
		err = catalog_open(&store->catalog, &store->home, tell);
	if (err != 0)
		return err;
	err = catalog_purge(
		&store->catalog, store->found.skipped, store->found.skipped_count);
	if (err != 0)
		return tell_fail(tell, err, "%s/" STORE_INDEX ": %s", store->home.path,
			err_text(err));
	store_count_backed(store);
	err = queue_open(store);
	if (err != 0)
		return tell_fail(tell, err, "no threads for the disk (--disk-threads)");
	return 0;
}

int store_open(struct store **ret, const struct store_config *config, char *detail,
	size_t detail_size)
{
	const struct tell tell = {detail, detail_size, config->ctx, config->warn};
	struct store *store = calloc(1, sizeof(*store));
	int err;

	if (store == NULL)
		return tell_fail(&tell, ERR_NO_MEMORY, "no memory for the disk tier");
	store->config = *config;
	found_init(&store->found);
	err = home_open(&store->home, config, &tell);
	if (err == 0)
		err = store_find(store, &tell);
	if (err == 0)
		err = store_start(store, &tell);
	if (err != 0) {
		store_close(store);
		return err;
	}
	*ret = store;
	return 0;
}

void store_close(struct store *store)
{
	if (store == NULL)
		return;
	queue_close(store);
	catalog_close(&store->catalog);
	found_free(&store->found);
	home_close(&store->home);
	free(store);
}

void store_info(const struct store *store, struct store_info *ret)
{
	struct statvfs fs;

	*ret = store->info;
	ret->index_size = store->home.index_size;
	ret->data_size = store->home.data_size;
	ret->direct = store->home.direct;
	memcpy(ret->uuid, store->home.uuid, sizeof(ret->uuid));
	ret->backed = atomic_load(&store->backed) + catalog_backed(&store->catalog);
	ret->free_bytes = fstatvfs(store->home.data_fd, &fs) == 0
				  ? (uint64_t)fs.f_bavail * fs.f_frsize
				  : 0;
}

/* ---- env_tier ------------------------------------------------------------ */

static struct store *store_of(void *ctx)
{
	return ctx;
}

int store_flush(struct store *store)
{
	uint64_t ended = atomic_load(&store->writes_ended);

	if (ended == store->writes_flushed)
		return 0;
	while (fdatasync(store->home.data_fd) != 0) {
		if (errno != EINTR)
			return file_error(errno);
	}
	store->writes_flushed = ended;
	return 0;
}

static bool store_adopt_next(void *ctx, uint64_t at, struct tier_record *ret)
{
	return found_get(&store_of(ctx)->found, at, ret);
}

static void store_check_range(const struct store *store, uint64_t off, uint64_t size)
{
	CHECK(off % TIER_BLOCK == 0 && off <= store->home.data_size &&
		size <= store->home.data_size - off);
}

static void store_move(struct store *store, enum job_kind kind, uint32_t number,
	uint64_t off, struct tier_piece *pieces, uint32_t count)
{
	struct store_job *job = queue_job(store, kind, number);
	uint64_t size = 0;

	CHECK(count > 0 && count <= TIER_PIECES);
	for (uint32_t i = 0; i < count; i++)
		size += align_up_u64(pieces[i].size, TIER_BLOCK);
	store_check_range(store, off, size);
	job->off = off;
	job->pieces = pieces;
	job->count = count;
	queue_add(store, job);
}

static void store_write(void *ctx, uint32_t number, uint64_t off,
	struct tier_piece *pieces, uint32_t count)
{
	store_move(store_of(ctx), JOB_WRITE, number, off, pieces, count);
}

static void store_read(void *ctx, uint32_t number, uint64_t off, struct tier_piece *piece)
{
	store_move(store_of(ctx), JOB_READ, number, off, piece, 1);
}

static void store_fetch(
	void *ctx, uint32_t number, struct tier_id id, struct tier_piece *piece)
{
	struct store_job *job = queue_job(store_of(ctx), JOB_FETCH, number);

	job->id = id;
	job->pieces = piece;
	job->count = 1;
	queue_add(store_of(ctx), job);
}

static void store_commit(
	void *ctx, uint32_t number, const struct tier_change *changes, uint32_t count)
{
	struct store_job *job = queue_job(store_of(ctx), JOB_COMMIT, number);

	CHECK(count <= TIER_PIECES);
	job->changes = changes;
	job->count = count;
	queue_add(store_of(ctx), job);
}

static void store_keys(void *ctx, uint32_t number, const struct tier_id *ids,
	uint32_t count, void *buffer, size_t size)
{
	struct store_job *job = queue_job(store_of(ctx), JOB_KEYS, number);

	job->ids = ids;
	job->count = count;
	job->buffer = buffer;
	job->buffer_size = size;
	queue_add(store_of(ctx), job);
}

static void store_punch(void *ctx, uint32_t number, uint64_t off, uint64_t size)
{
	struct store_job *job = queue_job(store_of(ctx), JOB_PUNCH, number);

	store_check_range(store_of(ctx), off, size);
	job->off = off;
	job->size = size;
	queue_add(store_of(ctx), job);
}

static uint64_t store_backed(void *ctx)
{
	return atomic_load(&store_of(ctx)->backed);
}

void store_env(struct store *store, struct env_tier *ret_env)
{
	*ret_env = (struct env_tier){
		.ctx = store,
		.data_size = store->home.data_size,
		.object_limit = store->config.object_limit,
		.adopt = store_adopt_next,
		.write = store_write,
		.read = store_read,
		.fetch = store_fetch,
		.commit = store_commit,
		.keys = store_keys,
		.punch = store_punch,
		.backed = store_backed,
	};
}
