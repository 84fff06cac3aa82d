/*
 * bench_station.c - run the station: ranks as processes, their deaths noticed, their
 * tallies merged.
 *
 * The ranks are forked before they attach, and the parent is not attached while it forks,
 * so that no process uses what another one connected. A rank that is killed ends the run,
 * unless it was said that another one is to go on in its place.
 */
#include "tools/bench.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/station_log.h"
#include "tools/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WATCH_TERM_NS (200l * 1000 * 1000)
#define END_TERM_NS   (2000ull * 1000 * 1000) /* for the pool's use to be back */
#define NODES_MAX     16

struct station {
	const struct bench_options *options;
	struct station_job job;
	const char *sockets[NODES_MAX];
	char *names; /* of the sockets */
	struct station_shared *shared;
	size_t shared_size;
	pid_t *pids; /* 0: ended */
	uint32_t running;
	FILE *log; /* NULL: none is wanted */
	struct progress progress;
};

/* ---- before and after ---------------------------------------------------- */

static bool station_read_node(const char *stats, struct station_node *ret)
{
	if (!report_bytes_in_use(stats, &ret->in_use))
		return false;
	/* Without a disk there are no such numbers. */
	(void)stats_u64(stats, "disk.size", &ret->disk_size);
	(void)stats_u64(stats, "disk.bytes", &ret->disk_bytes);
	(void)stats_u64(stats, "disk.used", &ret->disk_used);
	(void)stats_u64(stats, "counters.loaded_bytes", &ret->loaded_bytes);
	(void)stats_u64(stats, "counters.saved_bytes", &ret->saved_bytes);
	return true;
}

static int station_ask_node(const struct bench_options *options, const char *socket,
	struct station_node *ret, uint64_t *ret_high)
{
	struct tool_common common = options->common;
	struct station_node node = {0};
	struct cenote *store;
	const void *base;
	size_t pool = 0;
	char *stats = NULL, *config = NULL;
	int result;

	common.socket = socket;
	if (tool_connect(&common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = cenote_info(store, CENOTE_INFO_STATS, &stats);
	if (result == 0)
		result = cenote_info(store, CENOTE_INFO_CONFIG, &config);
	if (result == 0)
		result = cenote_pool_region(store, &base, &pool);
	if (result != 0)
		(void)tool_failed("bench", NULL, result);
	else if (!station_read_node(stats, &node) || !stats_u64(config, "high", ret_high))
		tool_complain("bench: the daemon's statistics lack the pool's bytes");
	else
		node.pool = pool;
	cenote_free(stats);
	cenote_free(config);
	cenote_close(store);
	*ret = node;
	return node.pool != 0 ? TOOL_OK : TOOL_FAILED;
}

/* All nodes; the pool is the smallest of theirs, all else a sum. */
static int station_ask(
	const struct station *station, struct station_node *ret, uint64_t *ret_high)
{
	struct station_node all = {.pool = UINT64_MAX}, one;

	for (uint32_t i = 0; i < station->job.nodes; i++) {
		if (station_ask_node(station->options, station->sockets[i], &one,
			    ret_high) != TOOL_OK)
			return TOOL_FAILED;
		all.pool = MIN(all.pool, one.pool);
		all.in_use += one.in_use;
		all.disk_size += one.disk_size;
		all.disk_bytes += one.disk_bytes;
		all.disk_used += one.disk_used;
		all.loaded_bytes += one.loaded_bytes;
		all.saved_bytes += one.saved_bytes;
	}
	*ret = all;
	return TOOL_OK;
}

/* What dead ranks leave ends within a second; so the use is asked for until it is back.
 */
static void station_ask_end(const struct station *station, struct station_result *ret)
{
	uint64_t end_ns = tool_now_ns() + END_TERM_NS, high;

	do {
		ret->end_known = station_ask(station, &ret->end, &high) == TOOL_OK;
	} while (ret->end_known && !station_is_back(ret) && tool_now_ns() < end_ns);
}

/* ---- ranks --------------------------------------------------------------- */

/* Everything that ranks and parent share, in one anonymous piece. */
static bool station_share(struct station *station)
{
	const struct station_plan *plan = station->job.plan;
	size_t tallies = plan->ranks * sizeof(struct station_tally);
	size_t places = plan->ranks * sizeof(struct station_place);
	size_t ends = plan->steps * sizeof(uint64_t);
	size_t arrived = plan->ranks * sizeof(uint32_t);
	size_t stored = station_plan_width(plan) * sizeof(_Atomic bool);
	char *memory;

	station->shared_size = sizeof(struct station_shared) + tallies + places + ends +
			       arrived + plan->ranks * STATION_RING * stored;
	memory = mmap(NULL, station->shared_size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	station->shared = (struct station_shared *)(void *)memory;
	memory += sizeof(struct station_shared);
	station->shared->tallies = (struct station_tally *)(void *)memory;
	memory += tallies;
	station->shared->places = (struct station_place *)(void *)memory;
	memory += places;
	station->shared->step_end_ns = (uint64_t *)(void *)memory;
	memory += ends;
	station->shared->barrier.arrived = (_Atomic uint32_t *)(void *)memory;
	memory += arrived;
	for (uint32_t i = 0; i < plan->ranks * STATION_RING; i++) {
		station->shared->places[i / STATION_RING].stored[i % STATION_RING] =
			(_Atomic bool *)(void *)memory;
		memory += stored;
	}
	station->shared->steps_wanted = plan->steps;
	station->shared->barrier.ranks = plan->ranks;
	station->job.shared = station->shared;
	return true;
}

/* In the child; ends with it. */
_Noreturn static void station_child(
	struct station *station, uint32_t rank, bool again, pid_t parent)
{
	sigset_t none;

	interrupt_forget();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* The parent decides what an interrupt of the whole group means. */
	(void)signal(SIGINT, SIG_IGN);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(station_rank_run(&station->job, rank, again));
}

static bool station_fork(struct station *station, uint32_t rank, bool again)
{
	pid_t parent = getpid(), pid;

	(void)fflush(stdout);
	(void)fflush(stderr);
	pid = fork();
	if (pid == 0)
		station_child(station, rank, again, parent);
	if (pid < 0) {
		tool_complain("bench: fork: %s", strerror(errno));
		station_barrier_stop(&station->shared->barrier);
		return false;
	}
	station->pids[rank] = pid;
	station->running++;
	return true;
}

static void station_ended(
	struct station *station, uint32_t rank, int status, struct station_result *result)
{
	station->pids[rank] = 0;
	station->running--;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (station->options->restart && WIFSIGNALED(status) &&
		WTERMSIG(status) == SIGKILL &&
		!station_barrier_is_stopped(&station->shared->barrier)) {
		result->restarts++;
		(void)station_fork(station, rank, true);
		return;
	}
	result->deaths++;
	station_barrier_stop(&station->shared->barrier);
	progress_end(&station->progress);
	if (WIFSIGNALED(status))
		tool_complain("bench: rank %u died of signal %d", rank, WTERMSIG(status));
	else
		tool_complain(
			"bench: rank %u ended with status %d", rank, WEXITSTATUS(status));
}

static void station_reap(struct station *station, struct station_result *result)
{
	for (uint32_t rank = 0; rank < station->job.plan->ranks; rank++) {
		int status;

		if (station->pids[rank] != 0 && waitpid(station->pids[rank], &status,
							WNOHANG) == station->pids[rank])
			station_ended(station, rank, status, result);
	}
}

/* Until the last rank has ended. SIGCHLD is blocked, so that none is missed. */
static void station_watch(struct station *station, struct station_result *ret)
{
	const struct timespec term = {.tv_nsec = WATCH_TERM_NS};
	sigset_t children;

	(void)sigemptyset(&children);
	(void)sigaddset(&children, SIGCHLD);
	for (;;) {
		char note[64];
		uint32_t done = atomic_load(&station->shared->steps_done);

		station_reap(station, ret);
		if (station->running == 0)
			return;
		if (interrupt_came())
			station_barrier_stop(&station->shared->barrier);
		done = MIN(done, station->job.plan->steps);
		(void)snprintf(note, sizeof(note), "step %u of %u, %u failures", done,
			station->job.plan->steps,
			atomic_load(&station->shared->failures));
		progress_update(&station->progress, done, note);
		(void)sigtimedwait(&children, NULL, &term);
	}
}

/* ---- the result ---------------------------------------------------------- */

static void tally_merge(struct station_tally *into, const struct station_tally *from)
{
	bool tells_more = from->first_error[0] != '\0' &&
			  (into->first_error[0] == '\0' ||
				  (into->failed_puts == 0 && from->failed_puts > 0));

	into->puts += from->puts;
	into->gets += from->gets;
	into->removes += from->removes;
	into->failed_puts += from->failed_puts;
	into->failed_gets += from->failed_gets;
	into->failed_removes += from->failed_removes;
	into->lost_objects += from->lost_objects;
	into->wrong_bytes += from->wrong_bytes;
	into->cut_gets += from->cut_gets;
	for (unsigned i = 0; i < ARRAY_LEN(into->keepers); i++)
		into->keepers[i] += from->keepers[i];
	into->put_bytes += from->put_bytes;
	into->get_bytes += from->get_bytes;
	for (unsigned i = 0; i < STATION_WORKS; i++)
		hist_merge(&into->latency[i], &from->latency[i]);
	if (tells_more)
		memcpy(into->first_error, from->first_error, sizeof(into->first_error));
}

static void station_collect(struct station *station, struct station_result *ret)
{
	const struct station_shared *shared = station->shared;
	uint64_t before_ns = shared->start_ns;

	for (uint32_t rank = 0; rank < ret->plan.ranks; rank++)
		tally_merge(&ret->all, &shared->tallies[rank]);
	ret->steps_wanted = atomic_load(&shared->steps_wanted);
	ret->steps_done = MIN(atomic_load(&shared->steps_done), ret->steps_wanted);
	ret->broken_off = station_barrier_is_stopped(&shared->barrier);
	if (shared->end_ns > shared->start_ns)
		ret->took_ns = shared->end_ns - shared->start_ns;
	ret->flip = station->job.flip;
	for (uint32_t step = 0; step < ret->steps_done; step++) {
		ret->step_ns[step] = shared->step_end_ns[step] - before_ns;
		before_ns = shared->step_end_ns[step];
	}
}

void station_result_fini(struct station_result *result)
{
	free(result->step_ns);
	result->step_ns = NULL;
}

/* ---- the log ------------------------------------------------------------- */

/* Which is that of one node with a disk. */
static bool station_has_optimum(
	const struct station *station, const struct station_result *ret)
{
	return ret->base.disk_size > 0 && station->job.nodes == 1;
}

/* What is logged is wanted for itself, or to know the optimum. */
static bool station_is_logged(
	const struct station *station, const struct station_result *ret)
{
	return station->options->log != NULL || station_has_optimum(station, ret);
}

static FILE *station_log_file(const char *path)
{
	FILE *file = path != NULL ? fopen(path, "w+e") : tmpfile();

	if (file == NULL)
		tool_complain("bench: %s: %s", path != NULL ? path : "a file for the log",
			strerror(errno));
	return file;
}

/* Write the log down, and ask for the optimum of what was whole. */
static int station_end_log(struct station *station, struct station_result *ret)
{
	int result;

	if (station->log == NULL)
		return TOOL_OK;
	result = station_log_print(station->job.log_fd, station->log);
	if (result == TOOL_OK && station_has_optimum(station, ret) && !ret->broken_off)
		ret->optimum_known = station_optimum_ask(fileno(station->log),
			ret->plan.pool, ret->reserve_bytes, &ret->optimum);
	return result;
}

/* ---- the run ------------------------------------------------------------- */

static void station_work(struct station *station, struct station_result *ret)
{
	sigset_t children, before;

	(void)sigemptyset(&children);
	(void)sigaddset(&children, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &children, &before);
	progress_init(&station->progress, "station", ret->plan.steps,
		station->options->progress);
	/* Those that were forked see the stop, if not all could be. */
	for (uint32_t rank = 0; rank < ret->plan.ranks; rank++) {
		if (!station_fork(station, rank, false))
			break;
	}
	station_watch(station, ret);
	progress_end(&station->progress);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	station_collect(station, ret);
	station_ask_end(station, ret);
}

static int station_prepare(struct station *station, struct station_result *ret)
{
	const struct bench_options *options = station->options;

	ret->plan.ranks = (uint32_t)options->ranks;
	ret->plan.steps = (uint32_t)options->steps;
	ret->plan.live = (uint32_t)options->live;
	ret->plan.seed = options->seed;
	ret->plan.reads_once = options->reads == BENCH_READS_ONCE;
	ret->plan.run = tool_now_ns() ^ ((uint64_t)getpid() << 40);
	if (!station_plan_init(&ret->plan)) {
		tool_complain("bench: a pool of %" PRIu64
			      " bytes cannot be divided so; take a "
			      "larger one, or fewer --ranks",
			ret->plan.pool);
		return TOOL_FAILED;
	}
	station->job.plan = &ret->plan;
	station->job.flip = options->flip_byte;
	if (station->job.flip &&
		!station_plan_find_single(&ret->plan, &station->job.flipped)) {
		tool_complain("bench: no object of this plan is read just once, for "
			      "--flip-byte; take more --steps or another --seed");
		return TOOL_FAILED;
	}
	ret->step_ns = calloc(ret->plan.steps, sizeof(*ret->step_ns));
	station->pids = calloc(ret->plan.ranks, sizeof(*station->pids));
	if (station_is_logged(station, ret)) {
		/* Before the run, which may be long. */
		station->log = station_log_file(options->log);
		if (station->log == NULL)
			return TOOL_FAILED;
		station->job.log_fd = station_log_open();
		if (station->job.log_fd < 0)
			return TOOL_FAILED;
	}
	if (ret->step_ns != NULL && station->pids != NULL && station_share(station))
		return TOOL_OK;
	tool_complain("bench: no memory for %u steps of %u ranks", ret->plan.steps,
		ret->plan.ranks);
	return TOOL_FAILED;
}

/* Those that were named, or the one. */
static int station_find_nodes(struct station *station, const char *socket)
{
	char *name, *rest;

	station->job.sockets = station->sockets;
	station->sockets[0] = socket;
	station->job.nodes = 1;
	if (station->options->nodes == NULL)
		return TOOL_OK;
	station->job.nodes = 0;
	station->names = strdup(station->options->nodes);
	for (name = station->names; name != NULL; name = rest) {
		rest = strchr(name, ',');
		if (rest != NULL)
			*rest++ = '\0';
		if (name[0] == '\0') {
			tool_complain("bench: --nodes=%s: a name is empty",
				station->options->nodes);
			return TOOL_USAGE;
		}
		if (station->job.nodes == NODES_MAX) {
			tool_complain("bench: --nodes has more than %u", NODES_MAX);
			return TOOL_USAGE;
		}
		station->sockets[station->job.nodes++] = name;
	}
	return station->job.nodes > 0 ? TOOL_OK : TOOL_FAILED;
}

int station_run(const struct bench_options *options, const char *socket,
	struct station_result *ret)
{
	struct station station = {.options = options,
		.job = {.replicas = (uint16_t)options->replicas,
			.restart = options->restart,
			.span_ns = options->span_ns,
			.timeout_ms = tool_timeout_ms(options->common.timeout_ns),
			.log_fd = -1}};
	uint64_t high = 0;
	int result;

	memset(ret, 0, sizeof(*ret));
	result = station_find_nodes(&station, socket);
	if (result == TOOL_OK)
		result = station_ask(&station, &ret->base, &high);
	ret->nodes = station.job.nodes;
	ret->replicas = station.job.replicas;
	ret->plan.pool = ret->base.pool;
	ret->reserve_bytes = ret->base.pool / 1000 * high;
	if (result == TOOL_OK)
		result = station_prepare(&station, ret);
	if (result == TOOL_OK) {
		station_work(&station, ret);
		result = station_end_log(&station, ret);
	}
	if (station.job.log_fd >= 0)
		(void)close(station.job.log_fd);
	if (station.log != NULL)
		(void)fclose(station.log);
	if (station.shared != NULL)
		(void)munmap(station.shared, station.shared_size);
	free(station.pids);
	free(station.names);
	if (result != TOOL_OK)
		station_result_fini(ret);
	return result;
}
