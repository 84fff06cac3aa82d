/*
 * segment_holds.c - the counts files, one a client.
 *
 * Their pages are 4 KiB also where files get huge ones: what a client has in use of its
 * file is mostly less than one of those. So they are allocated by touching them in a
 * mapping that asks for small pages, not by fallocate().
 */
#include "ipc/segment.h"

#include "base/check.h"
#include "base/err.h"
#include "ipc/ipc_priv.h"
#include "ipc/segment_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct holds_name {
	char text[48];
};

static struct holds_name holds_name(uint32_t cid, uint32_t incarnation)
{
	struct holds_name name;

	(void)snprintf(
		name.text, sizeof(name.text), SEGMENT_HOLDS "%u.%u", cid, incarnation);
	return name;
}

static uint64_t holds_size(const struct segment_dir *dir)
{
	return share_holds_size(dir->slots_limit);
}

/* Allocate the file's first `bytes` through its mapping. */
static int holds_allocate(
	const struct segment_dir *dir, int fd, void *base, uint64_t bytes)
{
	int done, err;

	bytes = MIN(bytes, holds_size(dir));
	do {
		done = madvise(base, bytes, MADV_POPULATE_WRITE);
	} while (done != 0 && (errno == EINTR || errno == EAGAIN));
	if (done == 0)
		return 0;
	if (errno != EINVAL)
		return errno == ENOMEM || errno == EFAULT ? ERR_NO_MEMORY : ERR_IO;
	err = segment_allocate(fd, 0, bytes); /* a kernel before 5.14 */
	if (err == 0)
		return 0;
	return err == -ENOSPC || err == -ENOMEM ? ERR_NO_MEMORY : ERR_IO;
}

/* Map an open file and allocate what `nslots` need of it. */
static int holds_map(struct segment_dir *dir, int fd, uint32_t cid, uint32_t incarnation,
	uint32_t nslots)
{
	void *base;
	int err = segment_map(fd, holds_size(dir), true, &base);

	if (err != 0)
		return err;
	(void)madvise(base, holds_size(dir), MADV_NOHUGEPAGE);
	err = holds_allocate(dir, fd, base, share_holds_size(nslots));
	if (err != 0) {
		segment_unmap(base, holds_size(dir));
		return err;
	}
	dir->counts[cid] = base;
	dir->incarnations[cid] = incarnation;
	return 0;
}

static void holds_unmap(struct segment_dir *dir, uint32_t cid)
{
	segment_unmap(dir->counts[cid], holds_size(dir));
	dir->counts[cid] = NULL;
}

int segment_holds_make(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	uint32_t nslots, _Atomic uint16_t **ret_counts)
{
	struct holds_name name = holds_name(cid, incarnation);
	int fd, err;

	CHECK(cid < CLIENT_LIMIT && dir->counts[cid] == NULL &&
		nslots <= dir->slots_limit);
	(void)unlinkat(dir->dir_fd, name.text, 0);
	fd = openat(dir->dir_fd, name.text,
		O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == ENOSPC || errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO;
	err = ftruncate(fd, (off_t)holds_size(dir)) == 0 ? 0 : ERR_IO;
	if (err == 0)
		err = holds_map(dir, fd, cid, incarnation, nslots);
	ipc_close(&fd);
	if (err != 0) {
		(void)unlinkat(dir->dir_fd, name.text, 0);
		return err;
	}
	*ret_counts = dir->counts[cid];
	return 0;
}

int segment_holds_open(struct segment_dir *dir, uint32_t cid, uint32_t incarnation,
	_Atomic uint16_t **ret_counts)
{
	struct holds_name name = holds_name(cid, incarnation);
	uint32_t nslots = atomic_load(&dir->share.header->nslots);
	int fd, err;

	CHECK(cid < CLIENT_LIMIT && dir->counts[cid] == NULL);
	fd = openat(dir->dir_fd, name.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
	/* The client may have made it any size: a short one would be a SIGBUS here. */
	err = ftruncate(fd, (off_t)holds_size(dir)) == 0 ? 0 : ERR_IO;
	if (err == 0)
		err = holds_map(dir, fd, cid, incarnation, nslots);
	ipc_close(&fd);
	if (err == 0)
		*ret_counts = dir->counts[cid];
	return err;
}

int segment_holds_extend(struct segment_dir *dir, uint32_t cid, uint32_t nslots)
{
	struct holds_name name;
	int fd, err;

	CHECK(cid < CLIENT_LIMIT && dir->counts[cid] != NULL &&
		nslots <= dir->slots_limit);
	name = holds_name(cid, dir->incarnations[cid]);
	fd = openat(dir->dir_fd, name.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return ERR_IO;
	err = holds_allocate(dir, fd, dir->counts[cid], share_holds_size(nslots));
	ipc_close(&fd);
	return err;
}

void segment_holds_drop(struct segment_dir *dir, uint32_t cid, uint32_t incarnation)
{
	struct holds_name name = holds_name(cid, incarnation);

	CHECK(cid < CLIENT_LIMIT);
	if (dir->counts[cid] != NULL && dir->incarnations[cid] == incarnation)
		holds_unmap(dir, cid);
	(void)unlinkat(dir->dir_fd, name.text, 0);
}

void segment_holds_unmap_all(struct segment_dir *dir)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		holds_unmap(dir, cid);
}

/* Whether the client table names this file. */
static bool holds_is_known(const struct segment_dir *dir, const char *name)
{
	unsigned cid, incarnation;
	const struct share_client *client;

	if (sscanf(name, SEGMENT_HOLDS "%u.%u", &cid, &incarnation) != 2 ||
		cid >= CLIENT_LIMIT)
		return false;
	client = &dir->share.clients[cid];
	return atomic_load(&client->state) != SHARE_CLIENT_FREE &&
	       client->incarnation == incarnation;
}

void segment_holds_sweep(struct segment_dir *dir, bool all)
{
	int fd = openat(dir->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;

	if (entries == NULL) {
		ipc_close(&fd);
		return;
	}
	for (struct dirent *entry = readdir(entries); entry != NULL;
		entry = readdir(entries)) {
		if (strncmp(entry->d_name, SEGMENT_HOLDS, strlen(SEGMENT_HOLDS)) != 0)
			continue;
		if (all || !holds_is_known(dir, entry->d_name))
			(void)unlinkat(dir->dir_fd, entry->d_name, 0);
	}
	(void)closedir(entries);
}
