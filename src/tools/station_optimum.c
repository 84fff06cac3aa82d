/*
 * station_optimum.c - run the script, read its one line of JSON.
 */
#include "tools/station_optimum.h"

#include "tools/interrupt.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIMUM_PYTHON "/usr/bin/python3"

static bool optimum_find(char *path, size_t path_size)
{
	return tool_find_beside("optimum.py", path, path_size) ||
	       tool_find_beside("../share/cenote/optimum.py", path, path_size);
}

struct optimum_args {
	char script[4096], pool[40], reserve[40], log[40];
};

/* In the child. */
_Noreturn static void optimum_exec(struct optimum_args *args, int log_fd, int out_fd)
{
	char python[] = OPTIMUM_PYTHON;
	char *argv[] = {python, args->script, args->pool, args->reserve, args->log, NULL};

	interrupt_forget();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)fcntl(log_fd, F_SETFD, 0);
	(void)dup2(out_fd, STDOUT_FILENO);
	(void)execv(argv[0], argv);
	(void)fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* All that the child writes, as text. */
static void optimum_read(int fd, char *text, size_t size)
{
	size_t have = 0;

	while (have + 1 < size) {
		ssize_t got = read(fd, text + have, size - 1 - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	text[have] = '\0';
}

static bool optimum_end(pid_t pid)
{
	int status;
	pid_t ended;

	do {
		ended = waitpid(pid, &status, 0);
	} while (ended < 0 && errno == EINTR);
	return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool optimum_run(
	struct optimum_args *args, int log_fd, char *text, size_t text_size)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		optimum_exec(args, log_fd, fds[1]);
	(void)close(fds[1]);
	if (pid > 0)
		optimum_read(fds[0], text, text_size);
	(void)close(fds[0]);
	return pid > 0 && optimum_end(pid);
}

bool station_optimum_ask(
	int fd, uint64_t pool, uint64_t reserve, struct station_optimum *ret)
{
	struct station_optimum found;
	struct optimum_args args;
	char text[512];

	if (!optimum_find(args.script, sizeof(args.script))) {
		tool_complain("bench: the optimum is not known: there is no optimum.py "
			      "beside this program, or in ../share/cenote");
		return false;
	}
	(void)snprintf(args.pool, sizeof(args.pool), "--pool=%" PRIu64, pool);
	(void)snprintf(args.reserve, sizeof(args.reserve), "--reserve=%" PRIu64, reserve);
	(void)snprintf(args.log, sizeof(args.log), "/proc/self/fd/%d", fd);
	if (!optimum_run(&args, fd, text, sizeof(text)) ||
		!stats_u64(text, "turning_bytes", &found.turning_bytes) ||
		!stats_u64(text, "read_bytes", &found.read_bytes) ||
		!stats_u64(text, "swapped_bytes", &found.swapped_bytes) ||
		!stats_u64(text, "swapped_bytes_whole", &found.swapped_bytes_whole)) {
		tool_complain("bench: the optimum is not known: %s failed", args.script);
		return false;
	}
	*ret = found;
	return true;
}
