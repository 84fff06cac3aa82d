/*
 * segment_pool.c - index and pool: adopted as they are found, or made anew.
 *
 * Adopted is what a whole header vouches for; its magic is written last, so files that
 * were never finished have none. Whether what the index says is true is for the core to
 * judge. New files have a new inode: a client of the old ones keeps what it has mapped.
 */
#include "ipc/segment.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "ipc/ipc_priv.h"
#include "ipc/memory.h"
#include "ipc/process.h"
#include "ipc/segment_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_SLOTS_FIRST 1024u  /* at least */
#define SEGMENT_SLOT_BYTES  65536u /* of the pool a slot at first: 16,384 slots a GiB */

/* ---- what is there ------------------------------------------------------- */

/* The files of an earlier run. */
struct old_files {
	struct share_header header; /* a copy, all zero if there was none */
	struct stat index, pool;
	bool is_there;
	bool has_clients; /* a process of its client table still lives */
	const char *flaw; /* NULL: adoptable */
};

static const char *old_flaw(const struct old_files *old)
{
	const struct share_header *header = &old->header;
	uint32_t nslots = atomic_load(&header->nslots);
	uint32_t log2 = atomic_load(&header->log2_buckets);

	if (header->magic != SHARE_MAGIC)
		return "its header is not whole";
	if (header->version != SHARE_VERSION)
		return "it is of another version";
	if (header->pool_size == 0 || header->pool_size > 1ull << 46 ||
		header->slots_limit != share_slots_limit(header->pool_size) ||
		nslots == 0 || nslots > header->slots_limit ||
		log2 < SHARE_LOG2_BUCKETS_MIN ||
		log2 > share_log2_buckets(header->slots_limit) + 1)
		return "its header has numbers that cannot be";
	if ((uint64_t)old->index.st_size != share_index_size(header->slots_limit))
		return "the index file has been cut";
	if ((uint64_t)old->pool.st_size != header->pool_size ||
		(uint64_t)old->pool.st_blocks * 512 < header->pool_size)
		return "the pool file is not whole";
	return NULL;
}

/* Whether a process of the table of `fd` still lives. */
static bool old_has_clients(int fd)
{
	size_t size = CLIENT_LIMIT * sizeof(struct share_client);
	struct share_client *clients = malloc(size);
	bool lives = false;
	int pidfd;

	if (clients == NULL ||
		pread(fd, clients, size, SHARE_CLIENTS_OFFSET) != (ssize_t)size)
		memset(clients, 0, clients != NULL ? size : 0);
	for (uint32_t i = 0; clients != NULL && i < CLIENT_LIMIT && !lives; i++) {
		if (atomic_load(&clients[i].state) == SHARE_CLIENT_FREE)
			continue;
		if (process_open(clients[i].pid, clients[i].start_time, &pidfd) != 0)
			continue;
		lives = true;
		(void)close(pidfd);
	}
	free(clients);
	return lives;
}

static void old_find(const struct segment_dir *dir, struct old_files *ret_old)
{
	struct old_files old = {.flaw = "it has no pool"};
	int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
	int index = openat(dir->dir_fd, SEGMENT_INDEX, flags);
	int pool = openat(dir->dir_fd, SEGMENT_POOL, flags);

	old.is_there = index >= 0 || pool >= 0;
	if (index >= 0 && fstat(index, &old.index) == 0 && pool >= 0 &&
		fstat(pool, &old.pool) == 0) {
		if (pread(index, &old.header, sizeof(old.header), 0) !=
			(ssize_t)sizeof(old.header))
			memset(&old.header, 0, sizeof(old.header));
		old.flaw = old_flaw(&old);
		old.has_clients = old.flaw == NULL && old_has_clients(index);
	}
	ipc_close(&index);
	ipc_close(&pool);
	*ret_old = old;
}

/* ---- map ----------------------------------------------------------------- */

static int segment_open_rw(const struct segment_dir *dir, const char *name, int create)
{
	return openat(dir->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | create, 0600);
}

static int segment_pool_map(struct segment_dir *dir, const struct segment_detail *detail)
{
	int index = segment_open_rw(dir, SEGMENT_INDEX, 0);
	int pool = segment_open_rw(dir, SEGMENT_POOL, 0);
	void *index_base = NULL, *pool_base = NULL;
	int err = index >= 0 && pool >= 0 ? 0 : ERR_IO;

	if (err == 0)
		err = segment_map(index, dir->index_size, true, &index_base);
	if (err == 0)
		err = segment_map(pool, dir->pool_size, true, &pool_base);
	if (err != 0) {
		(void)ipc_fail(err, detail->text, detail->size, "map the files in %s: %s",
			dir->path, strerror(errno));
		segment_unmap(index_base, dir->index_size);
	} else {
		share_init(&dir->share, index_base, pool_base);
	}
	ipc_close(&index);
	ipc_close(&pool);
	return err;
}

void segment_pool_unmap(struct segment_dir *dir)
{
	segment_unmap(dir->share.index, dir->index_size);
	segment_unmap(dir->share.pool, dir->pool_size);
	memset(&dir->share, 0, sizeof(dir->share));
}

/* ---- make ---------------------------------------------------------------- */

static uint32_t segment_first_slots(const struct segment_dir *dir)
{
	uint64_t slots = dir->pool_size / SEGMENT_SLOT_BYTES;

	slots = MAX(slots, (uint64_t)SEGMENT_SLOTS_FIRST);
	return (uint32_t)MIN(slots, (uint64_t)dir->slots_limit);
}

static uint64_t segment_slots_end(uint32_t nslots)
{
	return SHARE_SLOTS_OFFSET + (uint64_t)nslots * sizeof(struct slot);
}

static uint64_t segment_buckets_bytes(uint32_t log2)
{
	return (1ull << log2) * sizeof(struct bucket);
}

/* Refuse before anything is touched if the system would run out. What the old files take
 * comes back, unless somebody still has them mapped. */
static int segment_check_room(const struct segment_dir *dir, const struct old_files *old,
	const struct segment_detail *detail)
{
	uint32_t nslots = segment_first_slots(dir);
	uint64_t wanted = dir->pool_size + segment_slots_end(nslots) +
			  segment_buckets_bytes(share_log2_buckets(nslots));
	char wanted_text[TEXT_MAX], available_text[TEXT_MAX];
	struct memory_limit limit;

	memory_available(dir->dir_fd, "", &limit);
	if (!old->has_clients && limit.available < UINT64_MAX / 2)
		limit.available += (uint64_t)(old->index.st_blocks +
					      old->pool.st_blocks) *
				   512;
	if (wanted <= limit.available)
		return 0;
	return ipc_fail(ERR_NO_MEMORY, detail->text, detail->size,
		"a pool of %" PRIu64 " bytes needs %s (%" PRIu64
		" bytes) in %s, but %s (%" PRIu64
		" bytes) are available by %s: choose a smaller --pool",
		dir->pool_size, format_size(wanted_text, sizeof(wanted_text), wanted),
		wanted, dir->path,
		format_size(available_text, sizeof(available_text), limit.available),
		limit.available, limit.what);
}

/* A file of full length, of which nothing is allocated yet. */
static int segment_create(const struct segment_dir *dir, const char *name, uint64_t size)
{
	int fd = segment_open_rw(dir, name, O_CREAT | O_EXCL);

	if (fd >= 0 && ftruncate(fd, (off_t)size) != 0)
		ipc_close(&fd);
	return fd;
}

/* 0 or -errno. */
static int segment_create_pool(const struct segment_dir *dir)
{
	int fd = segment_create(dir, SEGMENT_POOL, dir->pool_size);
	int err = fd < 0 ? -errno : segment_allocate(fd, 0, dir->pool_size);

	ipc_close(&fd);
	return err;
}

static int segment_create_index(const struct segment_dir *dir)
{
	uint32_t nslots = segment_first_slots(dir);
	uint32_t log2 = share_log2_buckets(nslots);
	int fd = segment_create(dir, SEGMENT_INDEX, dir->index_size);
	int err = fd < 0 ? -errno : segment_allocate(fd, 0, segment_slots_end(nslots));

	if (err == 0)
		err = segment_allocate(fd, share_buckets_offset(dir->slots_limit, log2),
			segment_buckets_bytes(log2));
	ipc_close(&fd);
	return err;
}

static void segment_unlink_pool(const struct segment_dir *dir)
{
	(void)unlinkat(dir->dir_fd, SEGMENT_INDEX, 0);
	(void)unlinkat(dir->dir_fd, SEGMENT_POOL, 0);
}

static int segment_write_header(struct segment_dir *dir)
{
	struct share_header *header = dir->share.header;
	uint32_t nslots = segment_first_slots(dir);

	if (getrandom(header->pool_id, sizeof(header->pool_id), 0) !=
			(ssize_t)sizeof(header->pool_id) ||
		getrandom(&header->hash_seed, sizeof(header->hash_seed), 0) !=
			(ssize_t)sizeof(header->hash_seed))
		return ERR_IO;
	header->version = SHARE_VERSION;
	header->slots_limit = dir->slots_limit;
	header->pool_size = dir->pool_size;
	header->page_size = dir->is_huge ? SEGMENT_HUGE_PAGE : SEGMENT_PAGE;
	atomic_store(&header->nslots, nslots);
	atomic_store(&header->log2_buckets, share_log2_buckets(nslots));
	atomic_thread_fence(memory_order_seq_cst);
	header->magic = SHARE_MAGIC;
	return 0;
}

static int segment_make(struct segment_dir *dir, const struct old_files *old,
	const struct segment_detail *detail)
{
	int err = segment_check_room(dir, old, detail);

	if (err != 0)
		return err;
	segment_unlink_pool(dir);
	segment_holds_sweep(dir, true);
	err = segment_create_pool(dir);
	if (err == 0)
		err = segment_create_index(dir);
	if (err != 0) {
		segment_unlink_pool(dir);
		return ipc_fail(err == -ENOSPC || err == -ENOMEM ? ERR_NO_MEMORY : ERR_IO,
			detail->text, detail->size,
			"reserve a pool of %" PRIu64 " bytes in %s: %s", dir->pool_size,
			dir->path, strerror(-err));
	}
	err = segment_pool_map(dir, detail);
	if (err == 0 && segment_write_header(dir) != 0)
		err = ipc_fail(ERR_IO, detail->text, detail->size, "getrandom: %s",
			strerror(errno));
	dir->is_new = true;
	return err;
}

/* ---- adopt --------------------------------------------------------------- */

/* Allocate again what is in use: costs nothing where it is there. */
static int segment_fill_index(struct segment_dir *dir)
{
	uint32_t nslots = atomic_load(&dir->share.header->nslots);
	uint32_t log2 = atomic_load(&dir->share.header->log2_buckets);
	int err = segment_index_extend(dir, 0, segment_slots_end(nslots));

	if (err == 0)
		err = segment_index_extend(dir,
			share_buckets_offset(dir->slots_limit, log2),
			segment_buckets_bytes(log2));
	return err;
}

static int segment_adopt(struct segment_dir *dir, const struct segment_detail *detail)
{
	int err = segment_pool_map(dir, detail);

	if (err != 0)
		return err;
	if (segment_fill_index(dir) != 0)
		return ipc_fail(ERR_NO_MEMORY, detail->text, detail->size,
			"allocate the index in %s: %s", dir->path, strerror(errno));
	segment_holds_sweep(dir, false);
	return 0;
}

static int segment_refuse_size(const struct segment_dir *dir, const struct old_files *old,
	const struct segment_detail *detail)
{
	return ipc_fail(ERR_BUSY, detail->text, detail->size,
		"the pool in %s has %" PRIu64 " bytes and living clients, %" PRIu64
		" bytes are asked for: end the clients, or start with --pool %" PRIu64,
		dir->path, old->header.pool_size, dir->pool_size, old->header.pool_size);
}

int segment_pool_open(struct segment_dir *dir, const struct segment_detail *detail)
{
	struct old_files old;

	old_find(dir, &old);
	if (old.flaw == NULL && old.header.pool_size == dir->pool_size)
		return segment_adopt(dir, detail);
	if (old.flaw == NULL && old.has_clients)
		return segment_refuse_size(dir, &old, detail);
	if (old.flaw != NULL && old.is_there)
		(void)ipc_fail(0, dir->warning, sizeof(dir->warning),
			"cold start, the pool found in %s is dropped: %s", dir->path,
			old.flaw);
	else if (old.flaw == NULL)
		(void)ipc_fail(0, dir->warning, sizeof(dir->warning),
			"cold start, the pool found in %s is dropped: it has %" PRIu64
			" bytes",
			dir->path, old.header.pool_size);
	return segment_make(dir, &old, detail);
}

/* ---- afterwards ---------------------------------------------------------- */

int segment_index_extend(struct segment_dir *dir, uint64_t offset, uint64_t bytes)
{
	int fd, err;

	CHECK(offset <= dir->index_size && bytes <= dir->index_size - offset);
	fd = segment_open_rw(dir, SEGMENT_INDEX, 0);
	err = fd < 0 ? -errno : segment_allocate(fd, offset, bytes);
	ipc_close(&fd);
	if (err == 0)
		return 0;
	return err == -ENOSPC || err == -ENOMEM ? ERR_NO_MEMORY : ERR_IO;
}

/* The number of a line "Name:   1234 kB" of smaps, if it is that line. */
static void smaps_number(const char *line, const char *name, uint64_t *kib)
{
	size_t length = strlen(name);

	if (strncmp(line, name, length) == 0)
		*kib = strtoull(line + length, NULL, 10);
}

/* How much of the pool's mapping is there, and how much of that on huge pages. */
static void smaps_read(
	FILE *smaps, const struct segment_dir *dir, uint64_t *ret_rss, uint64_t *ret_huge)
{
	char line[512], start[24];
	bool inside = false;

	(void)snprintf(
		start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)dir->share.pool);
	while (fgets(line, sizeof(line), smaps) != NULL) {
		/* A mapping's first line alone has an address before its first blank. */
		if (strchr(line, '-') != NULL && strchr(line, '-') < strchr(line, ' '))
			inside = strncmp(line, start, strlen(start)) == 0;
		if (!inside)
			continue;
		smaps_number(line, "Rss:", ret_rss);
		smaps_number(line, "ShmemPmdMapped:", ret_huge);
	}
}

uint64_t segment_page_size(const struct segment_dir *dir)
{
	uint64_t rss = 0, huge = 0;
	FILE *smaps;

	if (dir->pool_size < SEGMENT_HUGE_PAGE ||
		madvise(dir->share.pool, SEGMENT_HUGE_PAGE, MADV_POPULATE_WRITE) != 0)
		return SEGMENT_PAGE;
	smaps = fopen("/proc/self/smaps", "re");
	if (smaps == NULL)
		return SEGMENT_PAGE;
	smaps_read(smaps, dir, &rss, &huge);
	(void)fclose(smaps);
	return huge > 0 && huge * 2 >= rss ? SEGMENT_HUGE_PAGE : SEGMENT_PAGE;
}
