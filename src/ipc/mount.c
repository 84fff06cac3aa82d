/*
 * mount.c - mounts, and what /proc/self/mountinfo tells of them.
 *
 * A line: id, parent, device, root, mount point, options, more fields, "-", type, source,
 * options of the file system. Of the lines whose mount point holds the path the longest
 * is the path's, of equal ones the last, which lies on top.
 */
#include "ipc/mount.h"

#include "base/err.h"
#include "ipc/ipc_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#define MOUNT_SOURCE "cenote"

/* Undo \040 and the like, in place. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text != '\0'; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
			text[2] >= '0' && text[2] <= '7' && text[3] >= '0' &&
			text[3] <= '7') {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
				       (text[3] - '0'));
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static bool is_within(const char *point, const char *path)
{
	size_t length = strlen(point);

	if (strcmp(point, "/") == 0)
		return true;
	return strncmp(path, point, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/');
}

/* One line; `best` is the length of the mount point that *info is of. */
static void parse_line(
	char *line, const char *path, size_t *best, struct mount_info *info)
{
	char *fields[5], *next, *tail = strstr(line, " - ");
	const char *type, *source, *options;

	if (tail == NULL)
		return;
	*tail = '\0';
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		fields[i] = strtok_r(i == 0 ? line : NULL, " ", &next);
	type = strtok_r(tail + 3, " ", &next);
	source = strtok_r(NULL, " ", &next);
	options = strtok_r(NULL, " ", &next);
	if (fields[4] == NULL || options == NULL)
		return;
	unescape(fields[4]);
	if (!is_within(fields[4], path) || strlen(fields[4]) < *best)
		return;
	*best = strlen(fields[4]);
	info->is_tmpfs = strcmp(type, "tmpfs") == 0;
	info->is_ours = info->is_tmpfs && strcmp(source, MOUNT_SOURCE) == 0 &&
			strcmp(fields[4], path) == 0;
	info->is_huge = info->is_tmpfs &&
			(strstr(options, "huge=always") != NULL ||
				strstr(options, "huge=within_size") != NULL);
}

void mount_parse(const char *table, const char *path, struct mount_info *ret_info)
{
	struct mount_info info = {.is_tmpfs = false};
	char *copy = strdup(table), *next;
	size_t best = 0;

	for (char *line = copy != NULL ? strtok_r(copy, "\n", &next) : NULL; line != NULL;
		line = strtok_r(NULL, "\n", &next))
		parse_line(line, path, &best, &info);
	free(copy);
	*ret_info = info;
}

void mount_find(const char *path, struct mount_info *ret_info)
{
	size_t size = 1u << 20; /* a machine full of containers has thousands of lines */
	char *text = malloc(size);

	*ret_info = (struct mount_info){.is_tmpfs = false};
	if (text != NULL && ipc_read_file("/proc/self/mountinfo", text, size) > 0)
		mount_parse(text, path, ret_info);
	free(text);
}

int mount_make(const char *path, uint64_t size, bool huge_pages)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char options[96];

	(void)snprintf(options, sizeof(options), "mode=0700,size=%" PRIu64 "%s", size,
		huge_pages ? ",huge=within_size" : "");
	if (mount(MOUNT_SOURCE, path, "tmpfs", flags, options) == 0)
		return 0;
	if (errno == EINVAL && huge_pages)
		return mount_make(path, size, false); /* a kernel without huge pages */
	return errno == EPERM || errno == EACCES ? ERR_NOT_PERMITTED : ERR_IO;
}

int mount_resize(const char *path, uint64_t size)
{
	const unsigned long flags = MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char options[64];

	(void)snprintf(options, sizeof(options), "size=%" PRIu64, size);
	if (mount(NULL, path, NULL, flags, options) == 0)
		return 0;
	return errno == EPERM ? ERR_NOT_PERMITTED : ERR_IO;
}

void mount_end(const char *path)
{
	(void)umount2(path, MNT_DETACH);
}
