/*
 * e2e.c - the runner: a process for each case, and the end of all that it left.
 *
 * The runner is the subreaper of everything that a case starts: whatever loses its parent
 * becomes a child of the runner, which so finds and kills it by its pid. Where it may, it
 * lives in a mount namespace of its own, so that no mount outlasts it.
 */
#include "e2e_priv.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_LIMIT_MS 240000
#define FULL_LIMIT_MS 3600000

struct tally {
	unsigned passed, failed, skipped;
};

/* ---- processes ----------------------------------------------------------- */

static bool reap_within(pid_t pid, int limit_ms, int *ret_status)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};
	uint64_t last = e2e_now_ms() + (uint64_t)limit_ms;
	int ready;

	do {
		uint64_t now = e2e_now_ms();

		ready = poll(&end, 1, now < last ? (int)(last - now) : 0);
	} while (ready < 0 && errno == EINTR);
	if (fd >= 0)
		(void)close(fd);
	return ready == 1 && waitpid(pid, ret_status, 0) == pid;
}

bool e2e_reap(pid_t pid, int *ret_status)
{
	return reap_within(pid, E2E_DEADLINE_MS, ret_status);
}

const char *e2e_status_text(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status))
		(void)snprintf(text, size, "SIG%s", sigabbrev_np(WTERMSIG(status)));
	else
		(void)snprintf(text, size, "exit status %d", WEXITSTATUS(status));
	return text;
}

void e2e_end_with_parent(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(E2E_EXIT_FAIL);
}

/* Kill every child of this process that is left; those that they leave come next. */
static void kill_children(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		char *text = e2e_read_file(path), *next = text, *end;

		for (;;) {
			long pid = strtol(next, &end, 10);

			if (end == next)
				break;
			(void)kill((pid_t)pid, SIGKILL);
			next = end;
		}
		if (next != text)
			(void)waitpid(-1, NULL, 0);
		free(text);
	}
}

/* ---- one case ------------------------------------------------------------ */

static int case_main(const struct e2e_case *cases, size_t count, char **argv)
{
	struct e2e *t = calloc(1, sizeof(*t));

	(void)snprintf(t->dir, sizeof(t->dir), "%s", argv[3]);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(cases[i].name, argv[2]) == 0)
			cases[i].run(t);
	}
	e2e_roles_end(t);
	e2e_nodes_end(t);
	free(t);
	return 0;
}

static int case_start(const char *program, const char *name, const char *dir)
{
	pid_t parent = getpid(), pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	e2e_end_with_parent(parent);
	(void)execl("/proc/self/exe", program, "--case", name, dir, (char *)NULL);
	_exit(127);
}

static void case_report(struct tally *tally, const char *program, const char *name,
	const char *dir, const char *why)
{
	if (why == NULL) {
		tally->passed++;
		(void)printf("ok      %s\n", name);
		return;
	}
	tally->failed++;
	e2e_dir_show(dir);
	(void)printf("FAILED  %s: %s\n  again: %s %s\n", name, why, program, name);
}

static void case_run(struct tally *tally, const char *program, const struct e2e_case *one,
	size_t index)
{
	char dir[E2E_PATH_MAX], text[64];
	const char *alarm;
	int status = 0;
	bool ended;
	pid_t pid;

	e2e_dir_make(dir, sizeof(dir), index);
	pid = case_start(program, one->name, dir);
	ended = pid > 0 &&
		reap_within(pid, e2e_is_full() ? FULL_LIMIT_MS : CASE_LIMIT_MS, &status);
	kill_children();
	alarm = e2e_dir_alarm(dir);
	if (!ended)
		case_report(tally, program, one->name, dir, "it did not end");
	else if (alarm != NULL)
		case_report(tally, program, one->name, dir, alarm);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == E2E_EXIT_SKIP)
		tally->skipped++, (void)printf("skipped %s\n", one->name);
	else
		case_report(tally, program, one->name, dir,
			status == 0 ? NULL : e2e_status_text(status, text, sizeof(text)));
	(void)fflush(stdout);
	e2e_dir_remove(dir);
}

void e2e_skip(const char *why)
{
	(void)printf("        %s\n", why);
	(void)fflush(stdout);
	_exit(E2E_EXIT_SKIP);
}

bool e2e_has_faults(void)
{
	/* A reset of no point at all: only a build without faults does not even look. */
	return cenote_inject_fault("", "reset", 0, 0, 0) != CENOTE_ERR_NOT_SUPPORTED;
}

void e2e_need_faults(void)
{
	if (!e2e_has_faults())
		e2e_skip("needs fault points, which only debug builds have");
}

void e2e_default_signals(void)
{
	(void)signal(SIGSEGV, SIG_DFL);
	(void)signal(SIGBUS, SIG_DFL);
	(void)signal(SIGABRT, SIG_DFL);
}

bool e2e_is_slow(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return false;
#endif
}

bool e2e_is_full(void)
{
	const char *value = getenv("CENOTE_TEST_FULL");

	return value != NULL && strcmp(value, "1") == 0;
}

uint64_t e2e_second_ms(void)
{
	return e2e_is_slow() ? 5000 : 1000;
}

const char *e2e_dir(const struct e2e *t)
{
	return t->dir;
}

/* ---- all cases ----------------------------------------------------------- */

static void runner_prepare(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (unshare(CLONE_NEWNS) == 0)
		(void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	e2e_dir_sweep();
}

static int run_all(const char *program, const char *pattern, const struct e2e_case *cases,
	size_t count)
{
	struct tally tally = {0};

	runner_prepare();
	for (size_t i = 0; i < count; i++) {
		if (fnmatch(pattern, cases[i].name, 0) == 0)
			case_run(&tally, program, &cases[i], i);
	}
	if (tally.passed + tally.failed + tally.skipped == 0) {
		(void)fprintf(stderr, "%s: no case %s\n", program, pattern);
		return 2;
	}
	(void)printf("%u passed, %u failed", tally.passed, tally.failed);
	if (tally.skipped > 0)
		(void)printf(", %u skipped", tally.skipped);
	(void)printf("\n");
	return tally.failed != 0;
}

int e2e_main(int argc, char **argv, const struct e2e_case *cases, size_t case_count,
	const struct e2e_role_spec *roles, size_t role_count)
{
	const char *word = argc > 1 ? argv[1] : "*";

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(word, "--role") == 0)
		return e2e_self_main(argc, argv, roles, role_count);
	if (strcmp(word, "--case") == 0 && argc == 4)
		return case_main(cases, case_count, argv);
	if (strcmp(word, "--list") == 0) {
		for (size_t i = 0; i < case_count; i++)
			(void)printf("%s\n", cases[i].name);
		return 0;
	}
	return run_all(argv[0], word, cases, case_count);
}
