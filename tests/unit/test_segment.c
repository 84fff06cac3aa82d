/*
 * Tests of ipc/segment.h, on the tmpfs of /dev/shm and, as root, on one of its own.
 */
#include "ipc/segment.h"

#include "base/err.h"
#include "ipc/process.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB (1ull << 20)

struct world {
	char path[64], detail[512];
	struct segment_config config;
	struct segment_dir dir;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	(void)snprintf(world->path, sizeof(world->path), "/dev/shm/cenote-test-XXXXXX");
	assert_non_null(mkdtemp(world->path));
	world->config = (struct segment_config){
		.path = world->path, .pool_size = 3 * MIB + 5};
	*state = world;
	return 0;
}

static int entries_of(const char *path)
{
	DIR *entries = opendir(path);
	int count = 0;

	assert_non_null(entries);
	for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
		count += entry->d_name[0] != '.';
	(void)closedir(entries);
	return count;
}

/* Everything that was made is gone after segment_free(). */
static int teardown(void **state)
{
	struct world *world = *state;

	assert_int_equal(entries_of(world->path), 0);
	assert_int_equal(rmdir(world->path), 0);
	free(world);
	return 0;
}

static int reopen(struct world *world)
{
	return segment_open(
		&world->dir, &world->config, world->detail, sizeof(world->detail));
}

static void stat_of(struct world *world, const char *name, struct stat *ret)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", world->path, name);
	assert_int_equal(stat(path, ret), 0);
}

static void test_make(void **state)
{
	struct world *world = *state;
	const struct share_header *header;
	struct stat file;

	assert_int_equal(reopen(world), 0);
	assert_string_equal(world->dir.warning, "");
	assert_true(world->dir.is_new);
	header = world->dir.share.header;
	assert_true(header->magic == SHARE_MAGIC);
	assert_int_equal(header->version, SHARE_VERSION);
	assert_int_equal(header->pool_size, 3 * MIB + 4096);
	assert_int_equal(header->slots_limit, share_slots_limit(header->pool_size));
	assert_int_equal(header->nslots, 1024);
	assert_int_equal(header->log2_buckets, share_log2_buckets(1024));
	assert_int_equal(header->epoch, 0);
	stat_of(world, "pool", &file);
	assert_int_equal(file.st_size, header->pool_size);
	assert_true((uint64_t)file.st_blocks * 512 >= header->pool_size);
	assert_int_equal(file.st_mode & 0777, 0600);
	stat_of(world, "index", &file);
	assert_int_equal(file.st_size, share_index_size(header->slots_limit));
	assert_true((uint64_t)file.st_blocks * 512 >= SHARE_SLOTS_OFFSET + 1024 * 128);
	assert_int_equal(segment_page_size(&world->dir), SEGMENT_PAGE);
	segment_free(&world->dir, false);
	segment_close(&world->dir);
}

static void test_slots(void **state)
{
	struct world *world = *state;

	world->config.pool_size = 4096;
	assert_int_equal(reopen(world), 0);
	assert_int_equal(world->dir.share.header->slots_limit, 64);
	assert_int_equal(world->dir.share.header->nslots, 64);
	segment_free(&world->dir, false);
	world->config.pool_size = 256 * MIB;
	assert_int_equal(reopen(world), 0);
	assert_int_equal(world->dir.share.header->nslots, 4096);
	segment_free(&world->dir, false);
}

static void test_adopt(void **state)
{
	struct world *world = *state;
	_Atomic uint16_t *counts;
	uint8_t pool_id[16];

	assert_int_equal(reopen(world), 0);
	memcpy(pool_id, world->dir.share.header->pool_id, 16);
	world->dir.share.pool[12345] = 99;
	assert_int_equal(segment_holds_make(&world->dir, 3, 8, 1024, &counts), 0);
	counts[1000] = 5;
	world->dir.share.clients[3].state = SHARE_CLIENT_LIVE;
	world->dir.share.clients[3].incarnation = 8;
	assert_int_equal(segment_holds_make(&world->dir, 4, 9, 1024, &counts), 0);
	segment_close(&world->dir);

	assert_int_equal(reopen(world), 0);
	assert_false(world->dir.is_new);
	assert_memory_equal(pool_id, world->dir.share.header->pool_id, 16);
	assert_int_equal(world->dir.share.pool[12345], 99);
	assert_int_equal(segment_holds_open(&world->dir, 3, 8, &counts), 0);
	assert_int_equal(counts[1000], 5);
	/* The table did not name this one. */
	assert_int_equal(segment_holds_open(&world->dir, 4, 9, &counts), ERR_NOT_FOUND);
	segment_holds_drop(&world->dir, 3, 8);
	assert_int_equal(segment_holds_open(&world->dir, 3, 8, &counts), ERR_NOT_FOUND);
	segment_free(&world->dir, false);
}

static void test_second_refuses(void **state)
{
	struct world *world = *state;
	struct segment_dir second;
	char pid[16];

	assert_int_equal(reopen(world), 0);
	assert_int_equal(segment_open(&second, &world->config, world->detail,
				 sizeof(world->detail)),
		ERR_BUSY);
	(void)snprintf(pid, sizeof(pid), "pid %d", getpid());
	assert_non_null(strstr(world->detail, pid));
	assert_non_null(strstr(world->detail, "--shm-dir"));
	segment_free(&world->dir, false);
}

/* Cut or spoil a file of a closed directory. */
static void spoil(struct world *world, const char *name, off_t size, off_t at)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", world->path, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (size >= 0)
		assert_int_equal(ftruncate(fd, size), 0);
	else
		assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, at), 4);
	(void)close(fd);
}

static void test_cold_start(void **state)
{
	static const struct {
		const char *name;
		off_t size, at;
	} cases[] = {
		{"index", 0, 0},
		{"index", 100, 0},
		{"index", 70000, 0},
		{"pool", 0, 0},
		{"pool", 4096, 0},
		{"pool", 99999999, 0},
		{"index", -1, offsetof(struct share_header, magic)},
		{"index", -1, offsetof(struct share_header, version)},
		{"index", -1, offsetof(struct share_header, slots_limit)},
		{"index", -1, offsetof(struct share_header, pool_size)},
		{"index", -1, offsetof(struct share_header, nslots)},
		{"index", -1, offsetof(struct share_header, log2_buckets)},
	};
	struct world *world = *state;
	struct stat before, after;

	assert_int_equal(reopen(world), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		world->dir.share.pool[0] = 1;
		segment_close(&world->dir);
		stat_of(world, "pool", &before);
		spoil(world, cases[i].name, cases[i].size, cases[i].at);
		assert_int_equal(reopen(world), 0);
		assert_true(world->dir.is_new);
		assert_non_null(strstr(world->dir.warning, "cold start"));
		assert_int_equal(world->dir.share.pool[0], 0);
		stat_of(world, "pool", &after);
		assert_true(before.st_ino != after.st_ino);
	}
	segment_free(&world->dir, false);
}

static void test_other_size(void **state)
{
	struct world *world = *state;
	struct share_client *client;

	assert_int_equal(reopen(world), 0);
	client = &world->dir.share.clients[7];
	client->state = SHARE_CLIENT_LIVE;
	client->pid = (uint32_t)getpid();
	assert_int_equal(process_start_time(client->pid, &client->start_time), 0);
	segment_close(&world->dir);
	world->config.pool_size = 8 * MIB;
	assert_int_equal(reopen(world), ERR_BUSY);
	assert_non_null(strstr(world->detail, "living clients"));
	assert_non_null(strstr(world->detail, "--pool 3149824"));

	/* Its client is another process now. */
	world->config.pool_size = 3149824;
	assert_int_equal(reopen(world), 0);
	assert_false(world->dir.is_new);
	world->dir.share.clients[7].start_time++;
	segment_close(&world->dir);
	world->config.pool_size = 8 * MIB;
	assert_int_equal(reopen(world), 0);
	assert_true(world->dir.is_new);
	assert_int_equal(world->dir.share.header->pool_size, 8 * MIB);
	assert_non_null(strstr(world->dir.warning, "3149824"));
	segment_free(&world->dir, false);
}

static void test_no_room(void **state)
{
	struct world *world = *state;

	/* An old pool stays when its successor cannot be. */
	assert_int_equal(reopen(world), 0);
	segment_close(&world->dir);
	world->config.pool_size = 1ull << 45;
	assert_int_equal(reopen(world), ERR_NO_MEMORY);
	assert_non_null(strstr(world->detail, "35184372088832"));
	assert_non_null(strstr(world->detail, "available by"));
	assert_non_null(strstr(world->detail, "--pool"));
	world->config.pool_size = 0;
	assert_int_equal(reopen(world), ERR_BAD_ARGUMENT);
	world->config.pool_size = 3 * MIB + 5;
	assert_int_equal(reopen(world), 0);
	assert_false(world->dir.is_new);
	segment_free(&world->dir, false);
}

static void test_grow(void **state)
{
	struct world *world = *state;
	_Atomic uint16_t *counts;
	struct stat file;

	assert_int_equal(reopen(world), 0);
	assert_int_equal(segment_holds_make(&world->dir, 0, 1, 1024, &counts), 0);
	stat_of(world, "holds.0.1", &file);
	assert_int_equal(file.st_size, share_holds_size(world->dir.slots_limit));
	assert_int_equal(file.st_blocks * 512, 4096);
	assert_int_equal(segment_holds_extend(&world->dir, 0, 3000), 0);
	stat_of(world, "holds.0.1", &file);
	assert_int_equal(file.st_blocks * 512, 8192);
	stat_of(world, "index", &file);
	assert_int_equal(segment_index_extend(&world->dir,
				 SHARE_SLOTS_OFFSET + 1024 * 128, 1024 * 128),
		0);
	{
		off_t before = file.st_blocks * 512;

		stat_of(world, "index", &file);
		assert_int_equal(file.st_blocks * 512, before + 1024 * 128);
	}
	segment_free(&world->dir, false);
}

static void test_grant(void **state)
{
	struct world *world = *state;
	_Atomic uint16_t *counts;
	int fds[SEGMENT_FDS];
	void *base;

	assert_int_equal(reopen(world), 0);
	assert_int_equal(segment_grant(&world->dir, 1, 1, true, fds), ERR_NOT_FOUND);
	assert_int_equal(segment_holds_make(&world->dir, 1, 1, 64, &counts), 0);
	assert_int_equal(segment_grant(&world->dir, 1, 1, false, fds), 0);
	/* mmap says what the descriptor's own mode allows. */
	assert_int_equal(segment_map(fds[SEGMENT_FD_INDEX], 4096, true, &base), ERR_IO);
	assert_int_equal(segment_map(fds[SEGMENT_FD_POOL], 4096, true, &base), ERR_IO);
	assert_int_equal(segment_map(fds[SEGMENT_FD_INDEX], 4096, false, &base), 0);
	assert_true(*(uint64_t *)base == SHARE_MAGIC);
	assert_int_equal(mprotect(base, 4096, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	segment_unmap(base, 4096);
	assert_int_equal(segment_map(fds[SEGMENT_FD_HOLDS], 128, true, &base), 0);
	((_Atomic uint16_t *)base)[63] = 4;
	assert_int_equal(counts[63], 4);
	segment_unmap(base, 128);
	for (int i = 0; i < SEGMENT_FDS; i++)
		(void)close(fds[i]);
	assert_int_equal(segment_grant(&world->dir, 1, 1, true, fds), 0);
	assert_int_equal(segment_map(fds[SEGMENT_FD_POOL], 4096, true, &base), 0);
	segment_unmap(base, 4096);
	for (int i = 0; i < SEGMENT_FDS; i++)
		(void)close(fds[i]);
	segment_free(&world->dir, false);
}

static void test_own_mount(void **state)
{
	struct world *world = *state;
	_Atomic uint16_t *counts;
	struct stat file;

	world->config.own_mount = true;
	world->config.huge_pages = true;
	world->config.pool_size = 5 * MIB;
	assert_int_equal(reopen(world), 0);
	if (!world->dir.is_mounted) {
		segment_free(&world->dir, false);
		skip(); /* this user may not mount */
	}
	if (world->dir.is_huge) {
		assert_int_equal(world->dir.share.header->pool_size, 6 * MIB);
		print_message("page size: %lu\n", segment_page_size(&world->dir));
	}
	assert_int_equal(segment_holds_make(&world->dir, 0, 1, 1024, &counts), 0);
	stat_of(world, "holds.0.1", &file);
	assert_int_equal(file.st_blocks * 512, 4096);
	segment_close(&world->dir);

	/* The next daemon finds the mount, and adopts. */
	assert_int_equal(reopen(world), 0);
	assert_true(world->dir.is_mounted);
	assert_false(world->dir.is_new);
	segment_free(&world->dir, false);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_make),
	CASE(test_slots),
	CASE(test_adopt),
	CASE(test_second_refuses),
	CASE(test_cold_start),
	CASE(test_other_size),
	CASE(test_no_room),
	CASE(test_grow),
	CASE(test_grant),
	CASE(test_own_mount),
};

UNIT_MAIN(tests)
