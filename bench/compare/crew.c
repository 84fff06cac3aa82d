/*
 * crew.c - client processes that put and remove batches, all at once.
 *
 * A process connects, makes one round that is not timed, and waits for the others; the
 * time runs from the first one's start to the last one's end.
 */
#include "compare.h"

#include "base/attr.h"
#include "tools/interrupt.h"
#include "tools/tool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CREW_MAX 64u

struct crew {
	pthread_barrier_t barrier;
	uint64_t start_ns[CREW_MAX], end_ns[CREW_MAX];
};

/* ---- in the child -------------------------------------------------------- */

static bool member_round(const struct rival *rival, const struct crew_work *work,
	void *store, const struct compare_key *keys)
{
	return rival->put_all(store, keys, work->depth, work->data, work->size) &&
	       rival->remove_all(store, keys, work->depth);
}

static bool member_work(struct crew *crew, uint32_t number, const struct rival *rival,
	const struct crew_work *work, void *store)
{
	struct compare_key keys[COMPARE_BATCH];
	char prefix[16];
	bool right = true;

	(void)snprintf(prefix, sizeof(prefix), "crew-%u", number);
	for (uint32_t i = 0; i < work->depth; i++)
		compare_key(&keys[i], prefix, i);
	if (!member_round(rival, work, store, keys))
		return false;
	(void)pthread_barrier_wait(&crew->barrier);
	crew->start_ns[number] = tool_now_ns();
	for (uint32_t i = 0; i < work->rounds && right; i++)
		right = member_round(rival, work, store, keys);
	crew->end_ns[number] = tool_now_ns();
	/* Nobody detaches while others are being timed. */
	if (right)
		(void)pthread_barrier_wait(&crew->barrier);
	return right;
}

_Noreturn static void member_main(struct crew *crew, uint32_t number,
	const struct rival *rival, const struct crew_work *work)
{
	void *store = rival->open(work->socket);
	bool right = store != NULL && member_work(crew, number, rival, work, store);

	if (store != NULL)
		rival->close(store);
	_exit(right ? 0 : 1);
}

/* ---- in the parent ------------------------------------------------------- */

static struct crew *crew_new(uint32_t clients)
{
	struct crew *crew = mmap(NULL, sizeof(*crew), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	if (crew == MAP_FAILED)
		return NULL;
	(void)pthread_barrierattr_init(&shared);
	(void)pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	(void)pthread_barrier_init(&crew->barrier, &shared, clients);
	return crew;
}

/* They are a group of their own, which is named after the first: to be waited for and
 * ended as one. */
static bool crew_start(struct crew *crew, const struct rival *rival,
	const struct crew_work *work, pid_t *ret_group)
{
	pid_t parent = getpid(), group = 0;

	for (uint32_t i = 0; i < work->clients; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			interrupt_forget();
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == parent)
				member_main(crew, i, rival, work);
			_exit(1);
		}
		if (pid < 0)
			return false;
		if (i == 0)
			*ret_group = group = pid;
		(void)setpgid(pid, group);
	}
	return true;
}

/* The first that fails ends the others, which may wait for it. */
static bool crew_wait(pid_t group, bool right)
{
	int status;

	if (group == 0)
		return false;
	for (;;) {
		if (!right)
			(void)kill(-group, SIGKILL);
		if (waitpid(-group, &status, 0) > 0)
			right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
		else if (errno != EINTR)
			return right; /* none is left */
	}
}

double crew_run(const struct rival *rival, const struct crew_work *work)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0;
	struct crew *crew = crew_new(work->clients);
	pid_t group = 0;
	double ns = 0;
	bool right;

	if (crew == NULL)
		return 0;
	right = crew_start(crew, rival, work, &group);
	if (crew_wait(group, right)) {
		for (uint32_t i = 0; i < work->clients; i++) {
			start_ns = MIN(start_ns, crew->start_ns[i]);
			end_ns = MAX(end_ns, crew->end_ns[i]);
		}
		ns = (double)(end_ns - start_ns) /
		     (2.0 * work->clients * work->depth * work->rounds);
	} else {
		tool_complain("compare: a client of %s failed", rival->name);
	}
	(void)munmap(crew, sizeof(*crew));
	return ns;
}
