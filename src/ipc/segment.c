/*
 * segment.c - the directory of the segments: whose it is, what it lies on, and its end.
 *
 * Two locks keep a second daemon out: one on the directory below our mount, so that two
 * who start at once do not both mount, and one on the file `lock` within, which a daemon
 * that finds the mount in place takes. Both end with the process.
 */
#include "ipc/segment.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "ipc/ipc_priv.h"
#include "ipc/mount.h"
#include "ipc/segment_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_SLICE     (64ull << 20) /* given back at a time */
#define SEGMENT_ALLOC_MAX (1ull << 30)
#define SEGMENT_SLACK     (64ull << 20) /* of our mount, for what huge pages round up */

/* ---- the directory ------------------------------------------------------- */

/* Make the directory, and those above it; its full name goes to dir->path. */
static int segment_make_path(
	struct segment_dir *dir, const char *path, const struct segment_detail *detail)
{
	char parent[sizeof(dir->path)], full[PATH_MAX];

	if (snprintf(parent, sizeof(parent), "%s", path) >= (int)sizeof(parent))
		return ipc_fail(ERR_BAD_ARGUMENT, detail->text, detail->size,
			"the path of the segments is too long: --shm-dir takes %zu bytes",
			sizeof(parent) - 1);
	for (char *at = strchr(parent, '/'); at != NULL; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(parent, 0755);
		*at = '/';
	}
	(void)mkdir(path, 0700);
	if (realpath(path, full) == NULL || strlen(full) >= sizeof(dir->path))
		return ipc_fail(ERR_IO, detail->text, detail->size, "directory %s: %s",
			path, strerror(errno));
	memcpy(dir->path, full, strlen(full) + 1);
	return 0;
}

/* The pid that the lock's owner wrote into it, for the one who was refused. */
static int segment_refuse(
	const struct segment_dir *dir, const struct segment_detail *detail)
{
	char path[sizeof(dir->path) + 8], pid[16];

	(void)snprintf(path, sizeof(path), "%s/" SEGMENT_LOCK, dir->path);
	if (ipc_read_file(path, pid, sizeof(pid)) <= 0)
		(void)snprintf(pid, sizeof(pid), "not known");
	return ipc_fail(ERR_BUSY, detail->text, detail->size,
		"another cenoted (pid %.*s) uses %s: choose another --shm-dir",
		(int)strcspn(pid, "\n"), pid, dir->path);
}

static int segment_lock(int fd)
{
	int done;

	do {
		done = flock(fd, LOCK_EX | LOCK_NB);
	} while (done != 0 && errno == EINTR);
	return done == 0 ? 0 : -errno;
}

static int segment_open_base(struct segment_dir *dir, const struct segment_detail *detail)
{
	int err;

	dir->base_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->base_fd < 0)
		return ipc_fail(ERR_IO, detail->text, detail->size, "directory %s: %s",
			dir->path, strerror(errno));
	err = segment_lock(dir->base_fd);
	if (err == -EWOULDBLOCK)
		return segment_refuse(dir, detail);
	if (err != 0)
		return ipc_fail(ERR_IO, detail->text, detail->size, "lock %s: %s",
			dir->path, strerror(-err));
	return 0;
}

static int segment_open_lock(struct segment_dir *dir, const struct segment_detail *detail)
{
	char pid[16];
	int length, err;

	dir->lock_fd = openat(dir->dir_fd, SEGMENT_LOCK,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (dir->lock_fd < 0)
		return ipc_fail(ERR_IO, detail->text, detail->size,
			"%s/" SEGMENT_LOCK ": %s", dir->path, strerror(errno));
	err = segment_lock(dir->lock_fd);
	if (err == -EWOULDBLOCK)
		return segment_refuse(dir, detail);
	length = snprintf(pid, sizeof(pid), "%d\n", getpid());
	if (err != 0 || ftruncate(dir->lock_fd, 0) != 0 ||
		pwrite(dir->lock_fd, pid, (size_t)length, 0) != length)
		return ipc_fail(ERR_IO, detail->text, detail->size,
			"%s/" SEGMENT_LOCK ": %s", dir->path, strerror(errno));
	return 0;
}

/* ---- the mount ----------------------------------------------------------- */

/* Room for everything there can ever be: tmpfs takes only what is used of it. */
static uint64_t segment_mount_size(uint64_t pool_size)
{
	uint32_t limit = share_slots_limit(pool_size);

	return align_up_u64(pool_size, SEGMENT_HUGE_PAGE) + share_index_size(limit) +
	       CLIENT_LIMIT * align_up_u64(share_holds_size(limit), SEGMENT_PAGE) +
	       SEGMENT_SLACK;
}

/* Have our own tmpfs at the path, if that is wanted and may be. */
static void segment_mount(struct segment_dir *dir, const struct segment_config *config)
{
	uint64_t size = segment_mount_size(config->pool_size);
	struct mount_info info;

	mount_find(dir->path, &info);
	if (info.is_ours && mount_resize(dir->path, size) != 0)
		(void)ipc_fail(0, dir->warning, sizeof(dir->warning),
			"the tmpfs at %s keeps its size: %s", dir->path, strerror(errno));
	else if (!info.is_ours && config->own_mount &&
		 mount_make(dir->path, size, config->huge_pages) == 0)
		mount_find(dir->path, &info);
	if (!info.is_tmpfs)
		(void)ipc_fail(0, dir->warning, sizeof(dir->warning),
			"%s is not on a tmpfs: objects will be written to its disk",
			dir->path);
	dir->is_mounted = info.is_ours;
	dir->is_huge = info.is_huge;
}

/* ---- open, close, free --------------------------------------------------- */

static int segment_open_files(struct segment_dir *dir,
	const struct segment_config *config, const struct segment_detail *detail)
{
	int err = segment_make_path(dir, config->path, detail);

	if (err == 0)
		err = segment_open_base(dir, detail);
	if (err != 0)
		return err;
	segment_mount(dir, config);
	dir->pool_size = align_up_u64(
		config->pool_size, dir->is_huge ? SEGMENT_HUGE_PAGE : SEGMENT_PAGE);
	dir->slots_limit = share_slots_limit(dir->pool_size);
	dir->index_size = share_index_size(dir->slots_limit);
	dir->dir_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->dir_fd < 0)
		return ipc_fail(ERR_IO, detail->text, detail->size, "directory %s: %s",
			dir->path, strerror(errno));
	err = segment_open_lock(dir, detail);
	if (err == 0)
		err = segment_pool_open(dir, detail);
	return err;
}

int segment_open(struct segment_dir *dir, const struct segment_config *config,
	char *detail, size_t detail_size)
{
	const struct segment_detail told = {.text = detail, .size = detail_size};
	int err;

	*dir = (struct segment_dir){.base_fd = -1, .dir_fd = -1, .lock_fd = -1};
	if (config->pool_size == 0 || config->pool_size > 1ull << 46)
		return ipc_fail(ERR_BAD_ARGUMENT, detail, detail_size,
			"a pool of %" PRIu64 " bytes: --pool takes 1 byte to 64 TiB",
			config->pool_size);
	err = segment_open_files(dir, config, &told);
	if (err != 0)
		segment_close(dir);
	return err;
}

void segment_close(struct segment_dir *dir)
{
	if (dir == NULL)
		return;
	segment_holds_unmap_all(dir);
	segment_pool_unmap(dir);
	ipc_close(&dir->lock_fd);
	ipc_close(&dir->dir_fd);
	ipc_close(&dir->base_fd);
}

/* A file of many pages goes in slices: one long call could not be interrupted. */
static void segment_shrink(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat file;

	if (fd < 0 || fstat(fd, &file) != 0)
		file.st_size = 0;
	for (uint64_t size = (uint64_t)file.st_size; size > 0;) {
		size -= size < SEGMENT_SLICE ? size : SEGMENT_SLICE;
		if (ftruncate(fd, (off_t)size) != 0)
			break;
	}
	ipc_close(&fd);
}

void segment_free(struct segment_dir *dir, bool has_clients)
{
	segment_holds_unmap_all(dir);
	segment_pool_unmap(dir);
	segment_holds_sweep(dir, true);
	if (!has_clients)
		segment_shrink(dir->dir_fd, SEGMENT_POOL);
	(void)unlinkat(dir->dir_fd, SEGMENT_POOL, 0);
	(void)unlinkat(dir->dir_fd, SEGMENT_INDEX, 0);
	(void)unlinkat(dir->dir_fd, SEGMENT_LOCK, 0);
	if (dir->is_mounted)
		mount_end(dir->path);
	segment_close(dir);
}

/* ---- for clients --------------------------------------------------------- */

static int segment_open_file(
	const struct segment_dir *dir, const char *name, bool writable, int *ret_fd)
{
	int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(dir->dir_fd, name, flags);

	if (fd < 0)
		return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
	*ret_fd = fd;
	return 0;
}

int segment_grant(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	bool pool_writable, int ret_fds[SEGMENT_FDS])
{
	int fds[SEGMENT_FDS] = {-1, -1, -1};
	char holds[48];
	int err;

	(void)snprintf(holds, sizeof(holds), SEGMENT_HOLDS "%u.%u", cid, incarnation);
	err = segment_open_file(dir, SEGMENT_INDEX, false, &fds[SEGMENT_FD_INDEX]);
	if (err == 0)
		err = segment_open_file(dir, holds, true, &fds[SEGMENT_FD_HOLDS]);
	if (err == 0)
		err = segment_open_file(
			dir, SEGMENT_POOL, pool_writable, &fds[SEGMENT_FD_POOL]);
	for (int i = 0; i < SEGMENT_FDS; i++) {
		if (err == 0)
			ret_fds[i] = fds[i];
		else
			ipc_close(&fds[i]);
	}
	return err;
}

int segment_map(int fd, uint64_t size, bool writable, void **ret_base)
{
	int access = PROT_READ | (writable ? PROT_WRITE : 0);
	void *base = mmap(NULL, size, access, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO;
	if (madvise(base, size, MADV_DONTFORK) != 0 ||
		madvise(base, size, MADV_DONTDUMP) != 0) {
		segment_unmap(base, size);
		return ERR_IO;
	}
	*ret_base = base;
	return 0;
}

void segment_unmap(void *base, uint64_t size)
{
	if (base != NULL)
		(void)munmap(base, size);
}

int segment_allocate(int fd, uint64_t offset, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t slice = bytes < SEGMENT_ALLOC_MAX ? bytes : SEGMENT_ALLOC_MAX;

		if (fallocate(fd, 0, (off_t)offset, (off_t)slice) != 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		offset += slice;
		bytes -= slice;
	}
	return 0;
}
