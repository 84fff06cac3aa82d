/*
 * Tests of ipc/memory.h and ipc/mount.h, over texts like those of /proc and /sys.
 */
#include "ipc/memory.h"

#include "ipc/mount.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (1ull << 20)

struct world {
	char root[64];
	int dir_fd;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	(void)snprintf(world->root, sizeof(world->root), "/dev/shm/cenote-memory-XXXXXX");
	assert_non_null(mkdtemp(world->root));
	world->dir_fd = open(world->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(world->dir_fd >= 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -r %s", world->root);
	assert_int_equal(system(command), 0);
	(void)close(world->dir_fd);
	free(world);
	return 0;
}

/* Write a file below the root, with the directories that it needs. */
static void place(struct world *world, const char *path, const char *text)
{
	char full[256];
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", world->root, path);
	for (char *at = full + strlen(world->root) + 1; (at = strchr(at, '/')) != NULL;
		at++) {
		*at = '\0';
		(void)mkdir(full, 0700);
		*at = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void expect(struct world *world, uint64_t available, const char *what)
{
	struct memory_limit limit;

	memory_available(world->dir_fd, world->root, &limit);
	assert_int_equal(limit.available, available);
	assert_non_null(strstr(limit.what, what));
}

static void test_machine(void **state)
{
	struct world *world = *state;

	place(world, "/proc/meminfo",
		"MemTotal: 9 kB\nXMemAvailable: 1 kB\nMemAvailable:    2048 kB\n");
	expect(world, 2 * MIB, "/proc/meminfo");
}

static void test_group_v2(void **state)
{
	struct world *world = *state;

	place(world, "/proc/meminfo", "MemAvailable: 10240 kB\n");
	place(world, "/proc/self/cgroup", "0::/a/b\n");
	place(world, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	place(world, "/sys/fs/cgroup/a/b/memory.current", "4096\n");
	expect(world, 10 * MIB, "/proc/meminfo");
	place(world, "/sys/fs/cgroup/a/memory.max", "5242880\n");
	place(world, "/sys/fs/cgroup/a/memory.current", "3145728\n");
	expect(world, 2 * MIB, "/sys/fs/cgroup/a/memory.max");
	place(world, "/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 1048576\n");
	expect(world, 3 * MIB, "/sys/fs/cgroup/a/memory.max");
	/* Used beyond the limit. */
	place(world, "/sys/fs/cgroup/a/b/memory.max", "4095\n");
	expect(world, 0, "/sys/fs/cgroup/a/b/memory.max");
}

/* A container that sees its own group at the top, and the host's path. */
static void test_group_v2_container(void **state)
{
	struct world *world = *state;

	place(world, "/proc/self/cgroup", "0::/kube/pod/x\n");
	place(world, "/sys/fs/cgroup/memory.max", "2097152\n");
	place(world, "/sys/fs/cgroup/memory.current", "1048576\n");
	expect(world, MIB, "/sys/fs/cgroup/memory.max");
}

static void test_group_v1(void **state)
{
	struct world *world = *state;

	place(world, "/proc/self/cgroup", "11:cpu,cpuacct:/q\n7:memory:/docker/y\n");
	place(world, "/sys/fs/cgroup/memory/docker/y/memory.limit_in_bytes", "3145728\n");
	place(world, "/sys/fs/cgroup/memory/docker/y/memory.usage_in_bytes", "2097152\n");
	place(world, "/sys/fs/cgroup/memory/docker/y/memory.stat",
		"inactive_file 1\ntotal_inactive_file 4096\n");
	expect(world, MIB + 4096, "memory.limit_in_bytes");
}

static void test_mounts(void **state)
{
	static const char table[] =
		"21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
		"22 21 0:21 / /dev/shm rw - tmpfs tmpfs rw,size=9k\n"
		"23 22 0:22 / /dev/shm/cenote rw shared:7 master:1 - tmpfs cenote "
		"rw,size=6k,huge=within_size\n"
		"24 21 0:23 / /srv/a\\040b rw - tmpfs cenote rw,huge=advise\n"
		"25 21 0:24 / /twice rw - tmpfs cenote rw\n"
		"26 25 0:25 / /twice rw - ext4 /dev/vdb rw\n"
		"a line that is none\n";
	static const struct {
		const char *path;
		bool is_tmpfs, is_ours, is_huge;
	} cases[] = {
		{"/", false, false, false},
		{"/dev/shm", true, false, false},
		{"/dev/shmx", false, false, false},
		{"/dev/shm/cenote", true, true, true},
		{"/dev/shm/cenote/below", true, false, true},
		{"/srv/a b", true, true, false},
		{"/twice", false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mount_info info;

		mount_parse(table, cases[i].path, &info);
		assert_int_equal(info.is_tmpfs, cases[i].is_tmpfs);
		assert_int_equal(info.is_ours, cases[i].is_ours);
		assert_int_equal(info.is_huge, cases[i].is_huge);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_machine),
	CASE(test_group_v2),
	CASE(test_group_v2_container),
	CASE(test_group_v1),
	cmocka_unit_test(test_mounts),
};

UNIT_MAIN(tests)
