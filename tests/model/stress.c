/*
 * stress.c - the hold protocol of share/ under load, kills and stops.
 *
 * Clients of two threads read objects in place and compare every word; one daemon
 * publishes, evicts, moves and removes them. Here clients are stopped and killed, and the
 * daemon killed, at random; a timer signal holds every process up between any two
 * instructions. From time to time all come to rest: then no object may be parked or
 * condemned (a lost wake-up), no count set and no memory missing (a leftover).
 *
 * With --threads all parts are threads of one process, without kills, for
 * ThreadSanitizer. A run ends by the clock, and passes by what it counted.
 *
 * Thread    the main thread alone.
 */
#include "stress.h"

#include "base/rng.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

enum {
	HANG_S = 60,
	HOLDUP_US = 300
};

/* Hold the thread up for some ns to some 10 us at whatever instruction it was. */
static void hold_up(int signal)
{
	struct timespec now;

	(void)signal;
	clock_gettime(CLOCK_MONOTONIC, &now);
	spin((uint64_t)now.tv_nsec * 2654435761u >> 7 & 0x7fff);
}

static void hold_up_start(void)
{
	struct sigaction action = {.sa_handler = hold_up, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, HOLDUP_US}, {0, HOLDUP_US}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

enum {
	DAEMON = CLIENTS,
	PARTS
};

struct control {
	struct stress *stress;
	struct rng rng;
	pid_t pids[PARTS];
	pthread_t threads[PARTS];
	struct client *clients[CLIENTS];
	bool stopped[CLIENTS];
	unsigned killed, daemons, rests, strange;
	uint64_t least; /* hits that a run must verify */
};

static void part_run(struct stress *stress, uint32_t part)
{
	hold_up_start();
	if (part == DAEMON)
		(void)daemon_main(stress);
	else
		(void)client_main(client_new(stress, part));
}

static void part_start(struct control *control, uint32_t part)
{
	struct stress *stress = control->stress;

	if (stress->threads) {
		if (part != DAEMON)
			control->clients[part] = client_new(stress, part);
		CHECK(pthread_create(&control->threads[part], NULL,
			      part == DAEMON ? daemon_main : client_main,
			      part == DAEMON ? (void *)stress : control->clients[part]) ==
			0);
		return;
	}
	control->pids[part] = fork();
	CHECK(control->pids[part] >= 0);
	if (control->pids[part] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		part_run(stress, part);
		_exit(0);
	}
}

/* Wait for a part's end; anything but the expected one is a failure of its own. */
static void part_reap(struct control *control, uint32_t part, int signal)
{
	int status;

	CHECK(waitpid(control->pids[part], &status, 0) == control->pids[part]);
	if (signal != 0 ? !WIFSIGNALED(status) || WTERMSIG(status) != signal
			: status != 0)
		control->strange++;
}

static void part_kill(struct control *control, uint32_t part)
{
	kill(control->pids[part], SIGKILL);
	part_reap(control, part, SIGKILL);
	if (part == DAEMON)
		control->daemons++;
	else
		control->stopped[part] = false;
	control->killed += part != DAEMON;
	part_start(control, part);
}

static void resume(struct control *control, uint32_t part)
{
	if (control->stopped[part])
		kill(control->pids[part], SIGCONT);
	control->stopped[part] = false;
}

static void disturb(struct control *control)
{
	uint32_t part = (uint32_t)rng_below(&control->rng, CLIENTS);
	uint64_t what = rng_below(&control->rng, 16);

	if (what == 0) {
		part_kill(control, DAEMON);
	} else if (what < 8) {
		part_kill(control, part);
	} else if (what < 11) {
		kill(control->pids[part], SIGSTOP);
		control->stopped[part] = true;
	} else {
		resume(control, part);
	}
}

/* A part that ended by itself is a failure of its own, and would be waited for in vain.
 */
static bool all_live(struct control *control)
{
	for (uint32_t part = 0; part < PARTS && !control->stress->threads; part++)
		if (waitpid(control->pids[part], NULL, WNOHANG) != 0) {
			control->strange++;
			return false;
		}
	return true;
}

/* Bring all to rest and have it checked. False: they never came to rest. */
static bool rest(struct control *control, bool last)
{
	struct stress *stress = control->stress;
	uint64_t end = now_ms() + HANG_S * 1000ull;
	uint32_t pause, seen;

	for (uint32_t part = 0; part < CLIENTS; part++)
		resume(control, part);
	pause = atomic_fetch_add(&stress->pause, 1) + 1;
	while ((seen = atomic_load(&stress->checked)) != pause) {
		struct timespec second = {1, 0};

		futex_wait(&stress->checked, seen, &second);
		if (now_ms() > end || !all_live(control))
			return false;
	}
	control->rests++;
	atomic_store(&stress->stop, last);
	atomic_fetch_add(&stress->pause, 1);
	futex_wake(&stress->pause);
	return true;
}

/* Until the end, and on a slow machine some more, for the hits a run must have. */
static bool goes_on(const struct control *control, uint64_t end_ms)
{
	uint64_t now = now_ms();

	return now < end_ms || (atomic_load(&control->stress->hits) < control->least &&
				       now < end_ms + HANG_S * 1000ull);
}

/* The pauses here pace the faults; nothing is concluded from them. */
static bool run(struct control *control, unsigned seconds)
{
	uint64_t end = now_ms() + seconds * 1000ull;
	bool rested = true;

	for (uint32_t part = 0; part < PARTS; part++)
		part_start(control, part);
	for (unsigned turn = 1; rested && goes_on(control, end); turn++) {
		(void)poll(NULL, 0, (int)rng_below(&control->rng, 40));
		if (!control->stress->threads)
			disturb(control);
		if (turn % 4 == 0)
			rested = rest(control, false);
	}
	rested = rested && rest(control, true);
	for (uint32_t part = 0; part < PARTS && rested; part++)
		if (control->stress->threads)
			pthread_join(control->threads[part], NULL);
		else
			part_reap(control, part, 0);
	for (uint32_t part = 0; part < CLIENTS; part++)
		free(control->clients[part]);
	return rested;
}

static void *shared_new(size_t size)
{
	void *memory = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static struct stress *stress_new(bool threads, uint64_t seed)
{
	struct stress *stress = shared_new(sizeof(*stress));
	struct share_header *header;

	share_init(&stress->share, shared_new(share_index_size(SLOTS)),
		shared_new((size_t)CHUNKS * CHUNK));
	header = stress->share.header;
	header->slots_limit = SLOTS;
	header->hash_seed = seed;
	atomic_store(&header->nslots, SLOTS);
	atomic_store(&header->log2_buckets, share_log2_buckets(SLOTS));
	for (uint32_t i = 0; i < CLIENTS; i++)
		stress->counts[i] = shared_new(share_holds_size(SLOTS));
	stress->threads = threads;
	stress->seed = seed;
	stress->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	stress->address.sun_family = AF_UNIX; /* a name of the kernel's choice */
	CHECK(bind(stress->listener, (struct sockaddr *)&stress->address,
		      sizeof(stress->address.sun_family)) == 0);
	stress->address_size = sizeof(stress->address);
	CHECK(getsockname(stress->listener, (struct sockaddr *)&stress->address,
		      &stress->address_size) == 0);
	CHECK(listen(stress->listener, CONNECTIONS) == 0);
	return stress;
}

static bool report(const struct control *control, bool rested)
{
	struct stress *s = control->stress;
	bool good = rested && s->wrong == 0 && s->stuck == 0 && s->left == 0 &&
		    control->strange == 0 && s->hits >= control->least;

	printf("%lu hits verified, %u clients and %u daemons killed, %u rests\n",
		(unsigned long)s->hits, control->killed, control->daemons,
		control->rests);
	printf("%lu published, %lu evicted, %lu moved, %lu removed, %lu parked\n",
		(unsigned long)s->published, (unsigned long)s->evicted,
		(unsigned long)s->moved, (unsigned long)s->removed,
		(unsigned long)s->parked);
	printf("%lu wrong reads, %lu lost wake-ups, %lu left over, %u strange ends\n",
		(unsigned long)s->wrong, (unsigned long)s->stuck, (unsigned long)s->left,
		control->strange);
	if (!rested)
		printf("not all came to rest within %d s\n", HANG_S);
	if (s->hits < control->least)
		printf("fewer than %lu hits\n", (unsigned long)control->least);
	printf("%d passed, %d failed\n", good, !good);
	return good;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
		{"seed", required_argument, NULL, 'r'},
		{"least", required_argument, NULL, 'l'},
		{"threads", no_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	struct control control = {.least = 10000};
	unsigned seconds = 20;
	uint64_t seed = 1;
	bool threads = false, rested;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == '?') {
			fputs("stress [--seconds N] [--seed N] [--least HITS] "
			      "[--threads]\n",
				stderr);
			return 2;
		}
		seconds = c == 's' ? (unsigned)atoi(optarg) : seconds;
		seed = c == 'r' ? strtoull(optarg, NULL, 10) : seed;
		control.least = c == 'l' ? strtoull(optarg, NULL, 10) : control.least;
		threads = threads || c == 't';
	}
	control.stress = stress_new(threads, seed);
	rng_init(&control.rng, seed);
	rested = run(&control, seconds);
	return report(&control, rested) ? 0 : 1;
}
