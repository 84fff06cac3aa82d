/*
 * memory.c - the limits on memory: the tmpfs, the machine, the control groups.
 *
 * Pages of the page cache that nobody used lately are counted as available in a group, as
 * the kernel drops them before it kills.
 */
#include "ipc/memory.h"

#include "ipc/ipc_priv.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#define LARGE_PAGE (2u << 20)

static void limit_lower(struct memory_limit *limit, uint64_t available, const char *what)
{
	if (available >= limit->available)
		return;
	limit->available = available;
	(void)snprintf(limit->what, sizeof(limit->what), "%s", what);
}

static void limit_by_tmpfs(struct memory_limit *limit, int dir_fd)
{
	struct statvfs fs;

	/* A tmpfs mounted without a limit has no blocks at all. */
	if (fstatvfs(dir_fd, &fs) == 0 && fs.f_blocks > 0)
		limit_lower(limit, (uint64_t)fs.f_bavail * fs.f_frsize,
			"the free space of the tmpfs (its size option)");
}

/* The number behind `name` at the start of a line. */
static bool find_number(const char *text, const char *name, uint64_t *ret_value)
{
	size_t length = strlen(name);

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) != 0)
			continue;
		*ret_value = strtoull(line + length, NULL, 10);
		return true;
	}
	return false;
}

static void limit_by_machine(struct memory_limit *limit, const char *root)
{
	char path[512], text[4096];
	uint64_t kib;

	(void)snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (ipc_read_file(path, text, sizeof(text)) > 0 &&
		find_number(text, "MemAvailable:", &kib))
		limit_lower(limit, kib * 1024, "MemAvailable of /proc/meminfo");
}

/* The names of one version's files. */
struct group_files {
	const char *base; /* where the groups lie */
	const char *limit, *usage, *cache;
};

static const struct group_files group_v1 = {
	"/sys/fs/cgroup/memory",
	"memory.limit_in_bytes",
	"memory.usage_in_bytes",
	"total_inactive_file ",
};
static const struct group_files group_v2 = {
	"/sys/fs/cgroup",
	"memory.max",
	"memory.current",
	"inactive_file ",
};

static bool group_number(const char *group, const char *name, uint64_t *ret_value)
{
	char path[1024], text[64];

	if (snprintf(path, sizeof(path), "%s/%s", group, name) >= (int)sizeof(path))
		return false;
	if (ipc_read_file(path, text, sizeof(text)) <= 0 || text[0] < '0' ||
		text[0] > '9')
		return false; /* also "max" */
	*ret_value = strtoull(text, NULL, 10);
	return true;
}

static void limit_by_group(struct memory_limit *limit, const struct group_files *files,
	const char *root, const char *group)
{
	char path[1024], text[8192], what[256];
	uint64_t most, used, cache = 0;

	if (!group_number(group, files->limit, &most) ||
		!group_number(group, files->usage, &used))
		return;
	(void)snprintf(path, sizeof(path), "%s/memory.stat", group);
	if (ipc_read_file(path, text, sizeof(text)) > 0)
		(void)find_number(text, files->cache, &cache);
	used -= cache < used ? cache : used;
	(void)snprintf(what, sizeof(what),
		"the memory limit of the control group (%s/%s)", group + strlen(root),
		files->limit);
	limit_lower(limit, most > used ? most - used : 0, what);
}

/* The group of this process and all above it. In a container the path may be that of the
 * host and not be there; the topmost directory then is the container's group. */
static void limit_by_groups(struct memory_limit *limit, const struct group_files *files,
	const char *root, const char *own)
{
	char group[768];
	size_t top;

	(void)snprintf(group, sizeof(group), "%s%s", root, files->base);
	top = strlen(group);
	(void)snprintf(group + top, sizeof(group) - top, "%s", own);
	for (;;) {
		char *slash = strrchr(group, '/');

		limit_by_group(limit, files, root, group);
		if (slash == NULL || (size_t)(slash - group) < top)
			return;
		*slash = '\0';
	}
}

/* A line of /proc/self/cgroup is "number:controllers:path"; version 2 names none. */
static void limit_by_cgroups(struct memory_limit *limit, const char *root)
{
	char path[512], text[4096], *next;

	(void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if (ipc_read_file(path, text, sizeof(text)) <= 0)
		return;
	for (char *line = strtok_r(text, "\n", &next); line != NULL;
		line = strtok_r(NULL, "\n", &next)) {
		char *names = strchr(line, ':');
		char *own = names != NULL ? strchr(names + 1, ':') : NULL;

		if (own == NULL)
			continue;
		*own++ = '\0';
		if (names[1] == '\0')
			limit_by_groups(limit, &group_v2, root, own);
		else if (strstr(names, "memory") != NULL)
			limit_by_groups(limit, &group_v1, root, own);
	}
}

void memory_available(int dir_fd, const char *root, struct memory_limit *ret_limit)
{
	struct memory_limit limit = {.available = UINT64_MAX};

	limit_by_tmpfs(&limit, dir_fd);
	limit_by_machine(&limit, root);
	limit_by_cgroups(&limit, root);
	*ret_limit = limit;
}

void memory_hint_large(void *start, size_t size)
{
	size_t skip = (size_t)(-(uintptr_t)start % LARGE_PAGE);

	if (size >= skip + LARGE_PAGE)
		(void)madvise((unsigned char *)start + skip,
			(size - skip) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
}
