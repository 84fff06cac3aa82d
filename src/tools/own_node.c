/*
 * own_node.c - start `cenoted` beside this program, and end it.
 */
#include "tools/own_node.h"

#include "tools/interrupt.h"
#include "tools/tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_TERM_MS      60000
#define END_TERM_MS        60000
#define OWN_NODE_ARGUMENTS 16

bool own_node_is_wanted(const char *socket)
{
	const char *environment = getenv("CENOTE_SOCKET");

	return socket == NULL && (environment == NULL || environment[0] == '\0');
}

/* ---- its directory ------------------------------------------------------- */

static const char *own_node_parent(void)
{
	const char *given = getenv("TMPDIR");

	if (given != NULL && given[0] != '\0')
		return given;
	/* A tmpfs already, for those who may not mount one. */
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

int own_directory_make(char path[OWN_DIRECTORY_MAX])
{
	const char *parent = own_node_parent();
	int length = snprintf(path, OWN_DIRECTORY_MAX, "%s/cenote-XXXXXX", parent);

	if (length < 0 || length >= OWN_DIRECTORY_MAX) {
		path[0] = '\0';
		tool_complain(
			"%s: too long a path for a socket in it; set TMPDIR", parent);
		return TOOL_FAILED;
	}
	if (mkdtemp(path) != NULL)
		return TOOL_OK;
	path[0] = '\0';
	tool_complain("%s: no directory can be made: %s", parent, strerror(errno));
	return TOOL_FAILED;
}

static int own_node_make_directory(struct own_node *node)
{
	if (own_directory_make(node->directory) != TOOL_OK)
		return TOOL_FAILED;
	(void)snprintf(
		node->socket, sizeof(node->socket), "%s/cenote.sock", node->directory);
	(void)snprintf(node->shm, sizeof(node->shm), "%s/shm", node->directory);
	(void)snprintf(node->log, sizeof(node->log), "%s/log", node->directory);
	return TOOL_OK;
}

/* ---- the directory of its disk tier --------------------------------------- */

static int own_node_make_disk(struct own_node *node, const char *parent)
{
	int length;

	if (parent == NULL)
		return TOOL_OK;
	length = snprintf(node->disk, sizeof(node->disk), "%s/cenote-XXXXXX", parent);
	if (length < 0 || (size_t)length >= sizeof(node->disk)) {
		node->disk[0] = '\0';
		tool_complain("--disk: %s: too long a path", parent);
		return TOOL_FAILED;
	}
	if (mkdir(parent, 0700) == 0)
		node->disk_parent = parent;
	if (mkdtemp(node->disk) != NULL)
		return TOOL_OK;
	node->disk[0] = '\0';
	tool_complain("--disk: %s: no directory can be made in it: %s", parent,
		strerror(errno));
	return TOOL_FAILED;
}

/* ---- and their end --------------------------------------------------------- */

/* A directory of ours that has only files; false: it is still there. */
static bool directory_remove(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		(void)closedir(directory);
	return rmdir(path) == 0;
}

static int own_node_remove_disk(struct own_node *node)
{
	int result = TOOL_OK;

	if (node->disk[0] != '\0' && !directory_remove(node->disk)) {
		tool_complain("%s: cannot be removed: %s", node->disk, strerror(errno));
		result = TOOL_FAILED;
	}
	/* Others may have put something there meanwhile. */
	if (node->disk_parent != NULL)
		(void)rmdir(node->disk_parent);
	node->disk[0] = '\0';
	node->disk_parent = NULL;
	return result;
}

static int own_node_remove_directory(struct own_node *node)
{
	if (node->directory[0] == '\0')
		return TOOL_OK;
	(void)unlink(node->socket);
	(void)unlink(node->log);
	/* What a daemon that died leaves: its mount, if it made one, and the files. */
	(void)umount2(node->shm, MNT_DETACH | UMOUNT_NOFOLLOW);
	(void)directory_remove(node->shm);
	if (rmdir(node->directory) != 0) {
		tool_complain(
			"%s: cannot be removed: %s", node->directory, strerror(errno));
		return TOOL_FAILED;
	}
	node->directory[0] = '\0';
	return TOOL_OK;
}

/* ---- the daemon ---------------------------------------------------------- */

/* The daemon beside this program, else the one on the search path. */
static void own_node_program(char *path, size_t path_size)
{
	if (!tool_find_beside("cenoted", path, path_size))
		(void)snprintf(path, path_size, "cenoted");
}

/* execvp() takes what it does not write as if it would. */
static char *own_argument(const char *text)
{
	union {
		const char *given;
		char *taken;
	} argument = {.given = text};

	return argument.taken;
}

/* In the child. Its group is its own, so that Ctrl-C reaches it through us only. */
_Noreturn static void own_node_exec(const struct own_node *node,
	const struct own_node_options *options, int ready_fd, pid_t parent)
{
	char program[4096], pool[40], run[OWN_NODE_PATH_MAX + 16], ready[40];
	char disk[OWN_NODE_DISK_MAX + 16], disk_size[40];
	char exit_rule[] = "--on-exit=free";
	char *argv[OWN_NODE_ARGUMENTS] = {program, pool, run, ready, exit_rule};
	size_t count = 5;
	int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	interrupt_forget();
	own_node_program(program, sizeof(program));
	if (node->disk[0] != '\0') {
		(void)snprintf(disk, sizeof(disk), "--disk=%s", node->disk);
		(void)snprintf(disk_size, sizeof(disk_size), "--disk-size=%" PRIu64,
			options->disk_bytes);
		argv[count++] = disk;
		argv[count++] = disk_size;
	}
	for (const char *const *more = options->more;
		more != NULL && *more != NULL && count < OWN_NODE_ARGUMENTS - 1; more++)
		argv[count++] = own_argument(*more);
	(void)snprintf(pool, sizeof(pool), "--pool=%" PRIu64, options->pool_bytes);
	(void)snprintf(run, sizeof(run), "--run-dir=%s", node->directory);
	(void)snprintf(ready, sizeof(ready), "--ready-fd=%d", ready_fd);
	if (log >= 0) {
		(void)dup2(log, STDOUT_FILENO);
		(void)dup2(log, STDERR_FILENO);
	}
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	(void)execvp(program, argv);
	(void)fprintf(stderr, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

/* Whether the daemon says that it listens; false: it ended, or says nothing. */
static bool own_node_wait_ready(int fd)
{
	uint64_t end_ns = tool_now_ns() + READY_TERM_MS * 1000000ull;
	char line[256] = "";
	size_t have = 0;

	while (memchr(line, '\n', have) == NULL && have < sizeof(line)) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		uint64_t now = tool_now_ns();
		ssize_t got;

		if (interrupt_came() || now >= end_ns)
			return false;
		if (poll(&poll_fd, 1, (int)((end_ns - now) / 1000000) + 1) < 1)
			continue;
		got = read(fd, line + have, sizeof(line) - have);
		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		have += got > 0 ? (size_t)got : 0;
	}
	return have > 5 && memcmp(line, "ready", 5) == 0;
}

static void own_node_show_log(const struct own_node *node)
{
	FILE *log = fopen(node->log, "re");
	char line[512];

	if (log == NULL)
		return;
	while (fgets(line, sizeof(line), log) != NULL)
		(void)fprintf(stderr, "cenoted: %s", line);
	(void)fclose(log);
}

static int own_node_spawn(struct own_node *node, const struct own_node_options *options)
{
	pid_t parent = getpid();
	bool ready;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0) {
		tool_complain("pipe: %s", strerror(errno));
		return TOOL_FAILED;
	}
	node->pid = fork();
	if (node->pid == 0) {
		(void)fcntl(fds[1], F_SETFD, 0);
		own_node_exec(node, options, fds[1], parent);
	}
	(void)close(fds[1]);
	if (node->pid < 0) {
		node->pid = 0;
		tool_complain("fork: %s", strerror(errno));
		(void)close(fds[0]);
		return TOOL_FAILED;
	}
	ready = own_node_wait_ready(fds[0]);
	(void)close(fds[0]);
	node->failed = !ready;
	if (!ready && !interrupt_came()) {
		tool_complain("the node did not start:");
		own_node_show_log(node);
	}
	return ready ? TOOL_OK : TOOL_FAILED;
}

int own_node_start(struct own_node *node, const struct own_node_options *options)
{
	int result;

	*node = (struct own_node){0};
	interrupt_catch();
	result = own_node_make_directory(node);
	if (result == TOOL_OK)
		result = own_node_make_disk(node, options->disk);
	if (result == TOOL_OK)
		result = own_node_spawn(node, options);
	return result;
}

/* Freeing gigabytes takes its time; but a daemon that hangs must not hang us. */
static void own_node_kill_if_late(const struct own_node *node)
{
	struct pollfd poll_fd = {.events = POLLIN};

	poll_fd.fd = (int)syscall(SYS_pidfd_open, node->pid, 0);
	if (poll_fd.fd < 0)
		return;
	while (poll(&poll_fd, 1, END_TERM_MS) < 0 && errno == EINTR)
		continue;
	if (poll_fd.revents == 0) {
		tool_complain("cenoted %d does not end, it is killed", (int)node->pid);
		(void)kill(node->pid, SIGKILL);
	}
	(void)close(poll_fd.fd);
}

static int own_node_reap(struct own_node *node)
{
	int status = 0;
	pid_t ended;

	(void)kill(node->pid, SIGTERM);
	own_node_kill_if_late(node);
	do {
		ended = waitpid(node->pid, &status, 0);
	} while (ended < 0 && errno == EINTR);
	if (ended < 0) {
		tool_complain("cenoted %d: %s", (int)node->pid, strerror(errno));
		return TOOL_FAILED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return TOOL_OK;
	if (node->failed)
		return TOOL_FAILED;
	if (WIFSIGNALED(status))
		tool_complain("cenoted died of signal %d:", WTERMSIG(status));
	else
		tool_complain("cenoted ended with status %d:", WEXITSTATUS(status));
	own_node_show_log(node);
	return TOOL_FAILED;
}

int own_node_stop(struct own_node *node)
{
	int result = node->pid == 0 ? TOOL_OK : own_node_reap(node);

	node->pid = 0;
	if (own_node_remove_disk(node) != TOOL_OK)
		result = TOOL_FAILED;
	if (own_node_remove_directory(node) != TOOL_OK)
		result = TOOL_FAILED;
	return result;
}
