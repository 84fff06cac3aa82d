/*
 * bench_filter.c - a seccomp filter that counts, in a process made for it.
 */
#include "tools/bench_filter.h"

#include "base/attr.h"
#include "tools/interrupt.h"
#include "tools/tool.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILTER_PLANTED 16u

/* Between the child and its parent. The handler finds it by this one pointer. */
struct filter_shared {
	volatile uint64_t count;
	volatile int64_t first;
	struct filter_count result;
	int done;
};

static struct filter_shared *filter_shared;

static void filter_on_call(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	if (filter_shared->first < 0)
		filter_shared->first = info->si_syscall;
	filter_shared->count++;
}

/* All but the return from the handler and the end of the process. */
static int filter_install(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
	struct sigaction action = {
		.sa_sigaction = filter_on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (sigaction(SIGSYS, &action, NULL) != 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		tool_complain("bench: seccomp: %s", strerror(errno));
		return -1;
	}
	return 0;
}

_Noreturn static void filter_child(const struct filter_work *work, pid_t parent)
{
	struct filter_count *result = &filter_shared->result;

	interrupt_forget();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || work->prepare(work->arg) != 0 || filter_install() != 0)
		_exit(1);
	for (unsigned i = 0; i < FILTER_PLANTED; i++)
		(void)syscall(SYS_getppid);
	result->planted = filter_shared->count;
	filter_shared->count = 0;
	filter_shared->first = -1;
	result->result = work->work(work->arg);
	result->calls = filter_shared->count;
	result->first = filter_shared->first;
	filter_shared->done = 1;
	_exit(0);
}

static int filter_wait(pid_t pid, struct filter_count *ret)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!filter_shared->done) {
		if (WIFSIGNALED(status))
			tool_complain("bench: the process under the filter died of "
				      "signal %d",
				WTERMSIG(status));
		return TOOL_FAILED;
	}
	*ret = filter_shared->result;
	if (ret->planted == FILTER_PLANTED)
		return TOOL_OK;
	tool_complain("bench: the filter does not count: it saw %llu of %u calls",
		(unsigned long long)ret->planted, FILTER_PLANTED);
	return TOOL_FAILED;
}

int filter_run(const struct filter_work *work, struct filter_count *ret)
{
	int exit_code = TOOL_FAILED;
	pid_t parent = getpid(), pid;

	filter_shared = mmap(NULL, sizeof(*filter_shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (filter_shared == MAP_FAILED) {
		tool_complain("bench: no memory");
		return TOOL_FAILED;
	}
	pid = fork();
	if (pid == 0)
		filter_child(work, parent);
	if (pid < 0)
		tool_complain("bench: fork: %s", strerror(errno));
	else
		exit_code = filter_wait(pid, ret);
	(void)munmap(filter_shared, sizeof(*filter_shared));
	filter_shared = NULL;
	return exit_code;
}
