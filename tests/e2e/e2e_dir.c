/*
 * e2e_dir.c - the directories in which cases run: "/var/tmp/cenote-e2e.PID.NUMBER" of the
 * runner's pid, so that those of a killed runner are told from those in use. Not in /tmp,
 * which may be a tmpfs: disks of nodes lie in them.
 */
#include "e2e_priv.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_PARENT "/var/tmp/"
#define DIR_PREFIX "cenote-e2e."
#define TAIL_BYTES 4000

char *e2e_read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL, part[4096];
	size_t size = 0, length;
	FILE *memory = open_memstream(&text, &size);

	while (file != NULL && (length = fread(part, 1, sizeof(part), file)) > 0)
		(void)fwrite(part, 1, length, memory);
	if (file != NULL)
		(void)fclose(file);
	(void)fclose(memory);
	return text;
}

void e2e_dir_make(char *path, size_t size, size_t index)
{
	(void)snprintf(path, size, DIR_PARENT DIR_PREFIX "%d.%zu", getpid(), index);
	/* Clients of other users are to reach the sockets in it. */
	if (mkdir(path, 0755) != 0)
		e2e_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
}

/* The innermost mounts come last in the table: one round takes what nothing lies on. */
static bool unmount_within(const char *path)
{
	char *table = e2e_read_file("/proc/self/mountinfo"), *next;
	size_t length = strlen(path);
	bool any = false;

	for (char *line = strtok_r(table, "\n", &next); line != NULL;
		line = strtok_r(NULL, "\n", &next)) {
		char point[E2E_PATH_MAX];

		if (sscanf(line, "%*s %*s %*s %*s %255s", point) == 1 &&
			strncmp(point, path, length) == 0 && point[length] == '/' &&
			umount2(point, MNT_DETACH) == 0)
			any = true;
	}
	free(table);
	return any;
}

static int remove_one(
	const char *path, const struct stat *stat, int type, struct FTW *where)
{
	(void)stat, (void)type, (void)where;
	return remove(path);
}

void e2e_dir_remove(const char *path)
{
	while (unmount_within(path))
		;
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void e2e_dir_sweep(void)
{
	DIR *dir = opendir(DIR_PARENT);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char path[sizeof(DIR_PARENT) + sizeof(entry->d_name)];
		int pid;

		if (sscanf(entry->d_name, DIR_PREFIX "%d.", &pid) != 1 ||
			kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		(void)snprintf(path, sizeof(path), DIR_PARENT "%s", entry->d_name);
		e2e_dir_remove(path);
	}
	if (dir != NULL)
		(void)closedir(dir);
}

/* ---- what its daemons said ----------------------------------------------- */

/* The log of the daemon number `index`; NULL past the last. */
static char *log_of(const char *path, size_t index)
{
	char log[E2E_PATH_MAX + 16];

	(void)snprintf(log, sizeof(log), "%s/%zu/log", path, index);
	return access(log, R_OK) == 0 ? e2e_read_file(log) : NULL;
}

void e2e_dir_show(const char *path)
{
	for (size_t i = 0; i < E2E_NODES_MAX; i++) {
		char *text = log_of(path, i), *tail = text;

		if (text == NULL)
			break;
		if (strlen(text) > TAIL_BYTES)
			tail = text + strlen(text) - TAIL_BYTES;
		(void)printf("  daemon %zu said last:\n%s\n", i, tail);
		free(text);
	}
}

const char *e2e_dir_alarm(const char *path)
{
	static const struct {
		const char *words, *why;
	} alarms[] = {
		{"ERROR: AddressSanitizer", "AddressSanitizer stopped the daemon"},
		{"ERROR: LeakSanitizer", "the daemon leaked memory"},
		{"runtime error:", "UBSan stopped the daemon"},
		{"check failed", "a CHECK of the daemon failed"},
	};
	const char *why = NULL;

	for (size_t i = 0; i < E2E_NODES_MAX && why == NULL; i++) {
		char *text = log_of(path, i);

		if (text == NULL)
			break;
		for (size_t j = 0; j < ARRAY_LEN(alarms); j++) {
			if (strstr(text, alarms[j].words) != NULL)
				why = alarms[j].why;
		}
		free(text);
	}
	return why;
}
