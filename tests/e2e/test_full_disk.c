/*
 * Tests of a disk whose file system others fill to the last byte, and free again: what was
 * acknowledged stays readable, puts are refused by their deadline, and work resumes by itself.
 * They need root, for a small file system of their own.
 */
#include "e2e_disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)

static const char *mount_dir(struct e2e *t)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/fs", e2e_dir(t));
	E2E_EQ(mkdir(path, 0755), 0);
	return path;
}

static void mount_tmpfs(const char *dir)
{
	if (mount("none", dir, "tmpfs", 0, "size=192m") != 0)
		e2e_skip("needs root, to mount a small tmpfs");
}

static void mount_ext4(struct e2e *t, const char *dir)
{
	char command[2048];

	(void)snprintf(command, sizeof(command),
		"truncate -s 192M %s/image && mkfs.ext4 -q -F %s/image && mount -o loop "
		"%s/image %s",
		e2e_dir(t), e2e_dir(t), e2e_dir(t), dir);
	if (system(command) != 0)
		e2e_skip("needs root, mkfs.ext4 and a loop device");
}

/* To the last byte. */
static void fill(const char *dir, char *path, size_t size)
{
	static unsigned char zeros[1 << 20];
	int fd;

	(void)snprintf(path, size, "%s/filler", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	E2E_TRUE(fd >= 0);
	for (size_t bytes = sizeof(zeros); bytes >= 512;) {
		if (write(fd, zeros, bytes) <= 0)
			bytes /= 2;
	}
	E2E_EQ(close(fd), 0);
}

/* Put until `refusals` in a row were refused, each by its deadline; how many were stored. */
static uint64_t put_until_refused(struct cenote *store, uint64_t first, int refusals)
{
	uint64_t stored = 0;

	while (refusals > 0) {
		uint64_t start = e2e_now_ms();
		int err = e2e_put_number(store, first + stored, MIB, 1500);

		if (err == 0) {
			stored++;
			continue;
		}
		E2E_ERR(err, CENOTE_ERR_NO_SPACE);
		E2E_TRUE(e2e_now_ms() - start <= 1500 + e2e_second_ms());
		refusals--;
	}
	return stored;
}

static void fill_and_free(struct e2e *t, const char *dir)
{
	char disk[512], filler[600];
	struct e2e_node *node;
	struct cenote *store;
	uint64_t stored, start;

	(void)snprintf(disk, sizeof(disk), "%s/disk", dir);
	node = e2e_node_start(t, "--pool", "32M", "--disk", disk, "--disk-size", "128M",
		"--disk-objects", "65536", NULL);
	store = e2e_connect(node);
	e2e_put_numbers(store, 0, 64, MIB);
	fill(dir, filler, sizeof(filler));
	stored = 64 + put_until_refused(store, 64, 3);
	E2E_DETAIL("file system is full");
	e2e_verify_numbers(store, 0, stored, MIB);
	/* Tried again all the while, and said once. */
	E2E_UNTIL(e2e_stat(store, "counters.save_errors") >= 3, E2E_DEADLINE_MS);
	E2E_EQ(e2e_log_count(node, "disk_trouble"), 1);

	/* The daemon may be killed with the disk full, and nothing changes. */
	e2e_node_kill(node);
	e2e_node_restart(node);
	e2e_verify_numbers(store, 0, stored, MIB);
	E2E_EQ(put_until_refused(store, stored, 1), 0);

	start = e2e_now_ms();
	E2E_EQ(unlink(filler), 0);
	e2e_put_numbers(store, stored, 1, MIB);
	E2E_TRUE(e2e_now_ms() - start <= 5 * e2e_second_ms());
	e2e_put_numbers(store, stored + 1, 31, MIB);
	(void)printf("%llu stored beside the filler, the next %llu ms after it went\n",
		(unsigned long long)stored, (unsigned long long)(e2e_now_ms() - start));
	e2e_verify_numbers(store, 0, stored + 32, MIB);
	e2e_remove_all(store);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
	e2e_node_stop(node);
}

static void k8_01_an_ext4_filled_from_outside_and_freed(struct e2e *t)
{
	const char *dir = mount_dir(t);

	mount_ext4(t, dir);
	fill_and_free(t, dir);
}

static void k8_01_a_tmpfs_filled_from_outside_and_freed(struct e2e *t)
{
	const char *dir = mount_dir(t);

	mount_tmpfs(dir);
	fill_and_free(t, dir);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k8_01_an_ext4_filled_from_outside_and_freed),
	E2E_CASE(k8_01_a_tmpfs_filled_from_outside_and_freed),
};

E2E_MAIN_ALONE(cases)
