/*
 * bench_crowd.c - attached processes, driven by one byte each way over a socket pair.
 *
 *   fork -> attach -> 'a' to us -> waits
 *                        'r' from us -> hits -> 'g' to us, hits on while shared->runs
 *                                                   -> 's' to us -> waits
 *                        end of file -> detaches, ends
 */
#include "tools/bench_crowd.h"

#include "tools/bench_micro.h"
#include "tools/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CROWD_BLOCK 1000u /* hits that are timed together */

uint64_t crowd_cpu_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t crowd_status_bytes(const char *field)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t kib = 0;

	if (status == NULL)
		return 0;
	while (fgets(line, sizeof(line), status) != NULL) {
		if (strncmp(line, field, strlen(field)) == 0)
			kib = strtoull(line + strlen(field), NULL, 10);
	}
	(void)fclose(status);
	return kib << 10;
}

/* ---- in the child -------------------------------------------------------- */

static bool member_say(int fd, char what)
{
	return send(fd, &what, 1, MSG_NOSIGNAL) == 1;
}

static char member_hear(int fd)
{
	char what = 0;

	while (recv(fd, &what, 1, 0) < 0 && errno == EINTR)
		continue;
	return what;
}

/* Hit until told to stop; the median of the blocks. */
static int member_hit(
	struct crowd *crowd, struct cenote *store, struct hit_set *set, int fd)
{
	struct series series = {.name = "hit"};
	int err = 0;

	do {
		uint64_t start_ns = crowd_cpu_ns();

		err = hit_some(store, set, CROWD_BLOCK);
		series_add(&series, (double)(crowd_cpu_ns() - start_ns) / CROWD_BLOCK);
		if (series.count == 1)
			(void)member_say(fd, 'g');
	} while (err == 0 &&
		 atomic_load_explicit(&crowd->shared->runs, memory_order_relaxed));
	atomic_store(&crowd->shared->median_ps,
		err == 0 ? (uint64_t)(series_end_run(&series) * 1000) : 0);
	series_fini(&series);
	return err;
}

_Noreturn static void member_main(struct crowd *crowd, uint32_t number, int fd)
{
	struct cenote_connect_options options = {.socket_path = crowd->socket};
	uint64_t start_ns, tables = crowd_status_bytes("VmPTE:");
	struct cenote *store;
	struct hit_set set;
	int err;

	if (number == 0)
		(void)cpu_pin(crowd->cpu);
	start_ns = tool_now_ns();
	err = cenote_connect(&store, &options);
	if (err != 0) {
		(void)tool_failed("bench: connect", NULL, err);
		_exit(1);
	}
	atomic_store(&crowd->shared->attach_ns[number], tool_now_ns() - start_ns);
	atomic_store(&crowd->shared->table_bytes[number],
		crowd_status_bytes("VmPTE:") - tables);
	if (!hit_set_init(&set, number == 0 ? crowd->objects : 1, number))
		_exit(1);
	if (!member_say(fd, 'a'))
		_exit(1);
	while (err == 0 && member_hear(fd) == 'r') {
		err = member_hit(crowd, store, &set, fd);
		(void)member_say(fd, 's');
	}
	cenote_close(store);
	_exit(err != 0);
}

/* ---- in the parent ------------------------------------------------------- */

int crowd_init(struct crowd *crowd, const char *socket, int cpu, uint32_t objects)
{
	*crowd = (struct crowd){.socket = socket, .cpu = cpu, .objects = objects};
	crowd->shared = mmap(NULL, sizeof(*crowd->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (crowd->shared != MAP_FAILED)
		return TOOL_OK;
	crowd->shared = NULL;
	tool_complain("bench: no memory");
	return TOOL_FAILED;
}

static int crowd_add(struct crowd *crowd)
{
	struct crowd_member *member = &crowd->members[crowd->count];
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
		tool_complain("bench: socketpair: %s", strerror(errno));
		return TOOL_FAILED;
	}
	member->pid = fork();
	if (member->pid == 0) {
		interrupt_forget();
		(void)signal(SIGINT, SIG_IGN);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Or the others' ends would never be closed. */
		for (uint32_t i = 0; i < crowd->count; i++)
			(void)close(crowd->members[i].fd);
		(void)close(fds[0]);
		if (getppid() == parent)
			member_main(crowd, crowd->count, fds[1]);
		_exit(1);
	}
	(void)close(fds[1]);
	member->fd = fds[0];
	if (member->pid < 0) {
		tool_complain("bench: fork: %s", strerror(errno));
		(void)close(fds[0]);
		return TOOL_FAILED;
	}
	crowd->count++;
	return member_hear(member->fd) == 'a' ? TOOL_OK : TOOL_FAILED;
}

int crowd_grow(struct crowd *crowd, uint32_t count)
{
	int exit_code = TOOL_OK;

	while (exit_code == TOOL_OK && crowd->count < count)
		exit_code = interrupt_came() ? TOOL_FAILED : crowd_add(crowd);
	return exit_code;
}

int crowd_run(struct crowd *crowd)
{
	atomic_store(&crowd->shared->runs, true);
	return member_say(crowd->members[0].fd, 'r') &&
			       member_hear(crowd->members[0].fd) == 'g'
		       ? TOOL_OK
		       : TOOL_FAILED;
}

double crowd_stop(struct crowd *crowd)
{
	atomic_store(&crowd->shared->runs, false);
	if (member_hear(crowd->members[0].fd) != 's')
		return 0;
	return (double)atomic_load(&crowd->shared->median_ps) / 1000;
}

void crowd_end(struct crowd *crowd)
{
	if (crowd->shared != NULL)
		atomic_store(&crowd->shared->runs, false);
	for (uint32_t i = 0; i < crowd->count; i++)
		(void)close(crowd->members[i].fd);
	for (uint32_t i = 0; i < crowd->count; i++) {
		while (waitpid(crowd->members[i].pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	crowd->count = 0;
}

void crowd_fini(struct crowd *crowd)
{
	crowd_end(crowd);
	if (crowd->shared != NULL)
		(void)munmap(crowd->shared, sizeof(*crowd->shared));
	crowd->shared = NULL;
}
