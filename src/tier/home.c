/*
 * home.c - the directory of a disk tier: whose it is, what is in it, and how large it may
 * get.
 *
 *   lock       flock'ed by the daemon that has the directory; its pid is in it
 *   objects    the data file: a block with its header, then the objects' blocks; sparse
 *   index      LMDB; has the data file's uuid
 *   index.bad  an index that was damaged, kept for who wants to look at it; what it takes
 *              is taken off the data file's size
 *
 * Whatever else lies there is not touched. A data file is made before its index, and the
 * index under another name first, so that a file `index` is always whole, and one without
 * the data file that belongs to it is a mistake of somebody's, which is refused.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/store_priv.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOME_LOCK      "lock"
#define HOME_DATA      "objects"
#define HOME_BAD_INDEX "index.bad"
#define HOME_MAGIC     0x736b736964746e63ull
#define HOME_INDEX_MIN (16ull << 20)
#define HOME_DISK_MIN  (2 * HOME_INDEX_MIN)
#define HOME_OTHERS    (2ull * TIER_BLOCK) /* the header, the lock */

struct home_header {
	uint64_t magic;
	uint32_t version, spare;
	uint8_t uuid[STORE_UUID];
	uint64_t check; /* XXH3-64 of what stands before */
};
_Static_assert(sizeof(struct home_header) == 40, "on disk");

#define HOME_HEADER_CHECKED offsetof(struct home_header, check)

/* ---- texts --------------------------------------------------------------- */

int tell_fail(const struct tell *tell, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (tell->detail_size > 0)
		(void)vsnprintf(tell->detail, tell->detail_size, format, args);
	va_end(args);
	return err;
}

void tell_warn(const struct tell *tell, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (tell->warn != NULL)
		tell->warn(tell->ctx, text);
}

int file_error(int number)
{
	return number == ENOSPC || number == EDQUOT ? ERR_NO_SPACE : ERR_IO;
}

static int home_fail(const struct home *home, const struct tell *tell, const char *name)
{
	int err = errno == EACCES || errno == EPERM || errno == EROFS ? ERR_NOT_PERMITTED
								      : file_error(errno);

	return tell_fail(tell, err, "%s/%s: %s", home->path, name, strerror(errno));
}

uint64_t file_backed(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 ? (uint64_t)file.st_blocks * 512 : 0;
}

/* ---- sizes --------------------------------------------------------------- */

static uint64_t home_index_size(uint64_t disk_size)
{
	uint64_t size = disk_size / 8 / (64u << 10) * (64u << 10);

	return size > HOME_INDEX_MIN ? size : HOME_INDEX_MIN;
}

/* 0: there is no room for any. `taken`: by what is not ours to use. */
static uint64_t home_data_size(uint64_t disk_size, uint64_t taken)
{
	uint64_t others = home_index_size(disk_size) + HOME_OTHERS + taken;

	return disk_size > others ? (disk_size - others) / TIER_BLOCK * TIER_BLOCK : 0;
}

/* What the directory's damaged index takes. */
static uint64_t home_bad_index(const struct home *home)
{
	struct stat file;

	if (fstatat(home->dir_fd, HOME_BAD_INDEX, &file, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	return (uint64_t)file.st_blocks * 512;
}

static int home_set_sizes(struct home *home, uint64_t disk_size, const struct tell *tell)
{
	uint64_t taken = home_bad_index(home);

	home->index_size = home_index_size(disk_size);
	home->data_size = home_data_size(disk_size, taken);
	if (home->data_size > 0)
		return 0;
	return tell_fail(tell, ERR_NO_SPACE,
		"%s/" HOME_BAD_INDEX " takes %" PRIu64 " of the %" PRIu64
		" bytes of --disk-size: remove it",
		home->path, taken, disk_size);
}

/* The least disk that has room for both. */
static uint64_t home_least_disk(uint64_t taken, uint64_t data_end, uint64_t index_end)
{
	uint64_t low = HOME_DISK_MIN, high = 1ull << 50;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (home_index_size(middle) >= index_end &&
			home_data_size(middle, taken) >= data_end)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

int home_check_sizes(const struct home *home, uint64_t disk_size, uint64_t data_end,
	uint64_t index_end, const struct tell *tell)
{
	if (data_end <= home->data_size && index_end <= home->index_size)
		return 0;
	return tell_fail(tell, ERR_NO_SPACE,
		"%s is in use up to byte %" PRIu64 " of " HOME_DATA " and %" PRIu64
		" of " STORE_INDEX ", which needs a disk of %" PRIu64
		" bytes; --disk-size is %" PRIu64,
		home->path, data_end, index_end,
		home_least_disk(home_bad_index(home), data_end, index_end), disk_size);
}

/* ---- directory, lock ----------------------------------------------------- */

static int home_open_dir(struct home *home, const char *path, const struct tell *tell)
{
	char full[PATH_MAX];

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return tell_fail(tell, errno == EACCES ? ERR_NOT_PERMITTED : ERR_IO,
			"directory %s cannot be made: %s", path, strerror(errno));
	if (realpath(path, full) == NULL || strlen(full) >= sizeof(home->path))
		return tell_fail(tell, ERR_IO, "directory %s: %s", path, strerror(errno));
	memcpy(home->path, full, strlen(full) + 1);
	home->dir_fd = open(home->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home->dir_fd < 0)
		return tell_fail(tell, errno == EACCES ? ERR_NOT_PERMITTED : ERR_IO,
			"directory %s: %s", home->path, strerror(errno));
	return 0;
}

/* A file of that name which no cenoted wrote is not ours to overwrite. */
static bool lock_is_foreign(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if ((text[i] < '0' || text[i] > '9') && text[i] != '\n' &&
			text[i] != '\0') /* as a loss of power may leave it */
			return true;
	}
	return false;
}

static int home_lock(struct home *home, const struct tell *tell)
{
	char pid[16];
	ssize_t length;
	int done;

	home->lock_fd = openat(
		home->dir_fd, HOME_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (home->lock_fd < 0)
		return home_fail(home, tell, HOME_LOCK);
	do {
		done = flock(home->lock_fd, LOCK_EX | LOCK_NB);
	} while (done != 0 && errno == EINTR);
	if (done != 0 && errno != EWOULDBLOCK)
		return home_fail(home, tell, HOME_LOCK);
	length = pread(home->lock_fd, pid, sizeof(pid) - 1, 0);
	length = length > 0 ? length : 0;
	pid[length] = '\0';
	if (lock_is_foreign(pid, (size_t)length))
		return tell_fail(tell, ERR_EXISTS,
			"%s/" HOME_LOCK
			" is not a file of cenoted's: choose another --disk",
			home->path);
	if (done != 0)
		return tell_fail(tell, ERR_BUSY,
			"another cenoted (pid %.*s) uses %s: choose another --disk",
			(int)strcspn(pid, "\n"), length > 0 ? pid : "not known",
			home->path);
	length = snprintf(pid, sizeof(pid), "%d\n", getpid());
	if (ftruncate(home->lock_fd, 0) != 0 ||
		pwrite(home->lock_fd, pid, (size_t)length, 0) != length)
		return home_fail(home, tell, HOME_LOCK);
	return 0;
}

/* ---- the data file ------------------------------------------------------- */

static unsigned char *home_block_new(void)
{
	unsigned char *block = aligned_alloc(TIER_BLOCK, TIER_BLOCK);

	if (block != NULL)
		memset(block, 0, TIER_BLOCK);
	return block;
}

static int home_open_data(struct home *home, int flags)
{
	home->data_fd = openat(home->dir_fd, HOME_DATA,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return home->data_fd >= 0 ? 0 : -errno;
}

/* Past the page cache if the file system lets us; some say so only when it is tried. */
static int home_find_data(struct home *home, const struct tell *tell)
{
	unsigned char *block = home_block_new();
	int err;

	if (block == NULL)
		return ERR_NO_MEMORY;
	err = home_open_data(home, O_DIRECT);
	home->direct = err == 0 && (pread(home->data_fd, block, TIER_BLOCK, 0) >= 0 ||
					   errno != EINVAL);
	free(block);
	if (home->direct)
		return 0;
	if (err != 0 && err != -EINVAL)
		return home_fail(home, tell, HOME_DATA);
	if (home->data_fd >= 0)
		(void)close(home->data_fd);
	if (home_open_data(home, 0) != 0)
		return home_fail(home, tell, HOME_DATA);
	tell_warn(tell,
		"%s: this file system has no direct I/O; objects go through the page "
		"cache",
		home->path);
	return 0;
}

static int home_judge_header(
	struct home *home, const unsigned char *block, const struct tell *tell)
{
	struct home_header header;

	memcpy(&header, block, sizeof(header));
	if (le64toh(header.magic) != HOME_MAGIC)
		return tell_fail(tell, ERR_CORRUPT,
			"%s/" HOME_DATA " is not a data file of cenoted's, or its header "
			"is lost: choose another --disk, or remove it and " STORE_INDEX,
			home->path);
	if (le32toh(header.version) != STORE_VERSION)
		return tell_fail(tell, ERR_VERSION,
			"%s is of version %" PRIu32 ", this cenoted has version %u",
			home->path, le32toh(header.version), STORE_VERSION);
	if (le64toh(header.check) != hash_bytes(&header, HOME_HEADER_CHECKED))
		return tell_fail(tell, ERR_CORRUPT,
			"%s/" HOME_DATA
			" has a damaged header: remove it and " STORE_INDEX,
			home->path);
	memcpy(home->uuid, header.uuid, STORE_UUID);
	home->has_data = true;
	return 0;
}

static int home_read_header(struct home *home, const struct tell *tell)
{
	unsigned char *block;
	struct stat file;
	int err;

	if (fstat(home->data_fd, &file) != 0)
		return home_fail(home, tell, HOME_DATA);
	if (!S_ISREG(file.st_mode))
		return tell_fail(tell, ERR_BAD_ARGUMENT, "%s/" HOME_DATA " is not a file",
			home->path);
	if (file.st_size == 0)
		return 0;
	block = home_block_new();
	if (block == NULL)
		return ERR_NO_MEMORY;
	err = pread(home->data_fd, block, TIER_BLOCK, 0) >= 0
		      ? home_judge_header(home, block, tell)
		      : home_fail(home, tell, HOME_DATA);
	free(block);
	return err;
}

static int home_find_index(struct home *home, const struct tell *tell)
{
	struct stat file;

	home->has_index = fstatat(home->dir_fd, STORE_INDEX, &file,
				  AT_SYMLINK_NOFOLLOW) == 0;
	if (!home->has_index && errno != ENOENT)
		return home_fail(home, tell, STORE_INDEX);
	if (home->has_index && !S_ISREG(file.st_mode))
		return tell_fail(tell, ERR_BAD_ARGUMENT,
			"%s/" STORE_INDEX " is not a file", home->path);
	if (home->has_index && !home->has_data)
		return tell_fail(tell, ERR_CORRUPT,
			"%s has a file " STORE_INDEX ", but " HOME_DATA
			" is missing or empty: put it back, or remove " STORE_INDEX
			" to start with an empty disk",
			home->path);
	return 0;
}

int home_open(
	struct home *home, const struct store_config *config, const struct tell *tell)
{
	int err;

	*home = (struct home){.dir_fd = -1, .lock_fd = -1, .data_fd = -1};
	if (config->disk_size < HOME_DISK_MIN || config->disk_size > 1ull << 50)
		return tell_fail(tell, ERR_BAD_ARGUMENT,
			"a disk of %" PRIu64 " bytes: --disk-size takes 32 MiB to 1 PiB",
			config->disk_size);
	err = home_open_dir(home, config->path, tell);
	if (err == 0)
		err = home_lock(home, tell);
	if (err == 0)
		err = home_set_sizes(home, config->disk_size, tell);
	if (err == 0)
		err = home_find_data(home, tell);
	if (err == 0)
		err = home_read_header(home, tell);
	return err != 0 ? err : home_find_index(home, tell);
}

void home_close(struct home *home)
{
	int *fds[] = {&home->data_fd, &home->dir_fd, &home->lock_fd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			(void)close(*fds[i]);
		*fds[i] = -1;
	}
}

/* ---- a new start --------------------------------------------------------- */

int home_reset(struct home *home, const struct tell *tell)
{
	struct home_header header = {
		.magic = htole64(HOME_MAGIC), .version = htole32(STORE_VERSION)};
	unsigned char *block = home_block_new();
	ssize_t wrote;

	if (block == NULL)
		return ERR_NO_MEMORY;
	loop_random(home->uuid, STORE_UUID);
	memcpy(header.uuid, home->uuid, STORE_UUID);
	header.check = htole64(hash_bytes(&header, HOME_HEADER_CHECKED));
	memcpy(block, &header, sizeof(header));
	wrote = ftruncate(home->data_fd, 0) == 0
			? pwrite(home->data_fd, block, TIER_BLOCK, 0)
			: -1;
	free(block);
	if (wrote >= 0 && wrote < (ssize_t)TIER_BLOCK)
		errno = ENOSPC;
	if (wrote != (ssize_t)TIER_BLOCK || fsync(home->data_fd) != 0 ||
		fsync(home->dir_fd) != 0)
		return home_fail(home, tell, HOME_DATA);
	return 0;
}

int home_set_aside(struct home *home, uint64_t disk_size, const struct tell *tell)
{
	if (renameat(home->dir_fd, STORE_INDEX, home->dir_fd, HOME_BAD_INDEX) != 0 ||
		fsync(home->dir_fd) != 0)
		return home_fail(home, tell, STORE_INDEX);
	home->has_index = false;
	return home_set_sizes(home, disk_size, tell);
}

int home_set_length(struct home *home, const struct tell *tell)
{
	uint64_t length = home->data_size + (uint64_t)HOME_DATA_AT;
	struct stat file;

	if (fstat(home->data_fd, &file) != 0)
		return home_fail(home, tell, HOME_DATA);
	if ((uint64_t)file.st_size == length)
		return 0;
	if (ftruncate(home->data_fd, (off_t)length) != 0 || fsync(home->data_fd) != 0)
		return home_fail(home, tell, HOME_DATA);
	return 0;
}
