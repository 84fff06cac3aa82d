/*
 * main.c - run seeds, each in a process of its own, and some of them twice.
 *
 * A seed whose two runs do not have equal traces has failed like one that broke a rule:
 * without that no failure could be repeated.
 */
#include "sim/cluster/cluster.h"

#ifdef CENOTE_PLANTS
#include "sim/plant.h"
#endif

#include "base/check.h"
#include "base/option.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SECONDS_MOST 120 /* of one seed: then it hangs */
#define SEEDS_DEFAULT    "1-200"
#define STEPS_DEFAULT    40000
#define TWICE_EVERY      8 /* a seed of so many is run twice */
#define JOBS_MOST        64
#define TEXT_OF_NAME(n)  #n
#define TEXT_OF(n)       TEXT_OF_NAME(n)

struct settings {
	const char *seeds, *plant;
	uint64_t seed, steps, jobs;
	bool stop, print, coverage, help;
};

static const struct option_spec specs[] = {
	{.name = "seeds",
		.type = OPTION_TEXT,
		.value_name = "FROM-TO",
		.default_text = SEEDS_DEFAULT,
		.help = "Run these seeds. Only the default ones must see everything that "
			"is "
			"worth seeing.",
		.offset = offsetof(struct settings, seeds)},
	{.name = "seed",
		.type = OPTION_NUMBER,
		.default_text = "0",
		.help = "Run this one alone.",
		.offset = offsetof(struct settings, seed)},
	{.name = "steps",
		.type = OPTION_NUMBER,
		.default_text = TEXT_OF(STEPS_DEFAULT),
		.help = "Steps of a run, before its quiet end.",
		.min = 1,
		.max = 1000000000,
		.offset = offsetof(struct settings, steps)},
	{.name = "jobs",
		.type = OPTION_NUMBER,
		.default_text = "1",
		.help = "Seeds at a time.",
		.min = 1,
		.max = JOBS_MOST,
		.offset = offsetof(struct settings, jobs)},
	{.name = "stop",
		.type = OPTION_FLAG,
		.help = "Begin no seed after one that failed.",
		.offset = offsetof(struct settings, stop)},
#ifdef CENOTE_PLANTS
	{.name = "plant",
		.type = OPTION_TEXT,
		.value_name = "NAME",
		.default_text = "NONE",
		.help = "Run with this bug of base/plant.def or base/plant_cluster.def.",
		.offset = offsetof(struct settings, plant)},
#endif
	{.name = "print",
		.type = OPTION_FLAG,
		.help = "Print everything that happens.",
		.offset = offsetof(struct settings, print)},
	{.name = "coverage",
		.type = OPTION_FLAG,
		.help = "Print how often what is worth seeing was seen.",
		.offset = offsetof(struct settings, coverage)},
	{.name = "help",
		.type = OPTION_FLAG,
		.help = "Print this text, and exit.",
		.offset = offsetof(struct settings, help)},
};

struct jobs {
	const struct settings *settings;
	const char *program;
	struct cover *covers; /* by place of the seed; the processes share them */
	uint64_t from, count, next;
	pid_t pids[JOBS_MOST];
	uint64_t places[JOBS_MOST];
	uint64_t passed, failed;
};

/* ---- a seed -------------------------------------------------------------- */

static bool is_equal_again(const struct settings *settings, uint64_t seed, uint64_t hash)
{
	struct cover *cover = calloc(1, sizeof(*cover));
	uint64_t again;

	CHECK(cover != NULL);
	again = sim_run(seed, settings->steps, false, cover);
	free(cover);
	if (again != hash)
		(void)fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", seed);
	return again == hash;
}

static _Noreturn void run_seed(
	const struct settings *settings, uint64_t seed, struct cover *cover)
{
	struct rlimit limit = {CPU_SECONDS_MOST, CPU_SECONDS_MOST};
	bool equal = true;
	uint64_t hash;

	CHECK(setrlimit(RLIMIT_CPU, &limit) == 0);
	(void)setvbuf(stdout, NULL, settings->print ? _IOLBF : _IOFBF, 1 << 16);
	hash = sim_run(seed, settings->steps, settings->print, cover);
	if (settings->seed != 0 || seed % TWICE_EVERY == 0)
		equal = is_equal_again(settings, seed, hash);
	(void)fflush(stdout);
	exit(equal ? 0 : 1);
}

/* ---- all of them --------------------------------------------------------- */

static void job_start(struct jobs *jobs, unsigned at)
{
	uint64_t place = jobs->next++;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_seed(jobs->settings, jobs->from + place, &jobs->covers[place]);
	jobs->pids[at] = pid;
	jobs->places[at] = place;
}

static void job_ended(struct jobs *jobs, unsigned at, int status)
{
	uint64_t seed = jobs->from + jobs->places[at];

	jobs->pids[at] = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		jobs->passed++;
		return;
	}
	jobs->failed++;
	if (WIFSIGNALED(status))
		printf("seed %" PRIu64 " died of signal %d\n", seed, WTERMSIG(status));
	printf("seed %" PRIu64 " FAILED, again: %s --seed %" PRIu64 " --steps %" PRIu64
	       " --print\n",
		seed, jobs->program, seed, jobs->settings->steps);
	(void)fflush(stdout);
}

static void job_wait(struct jobs *jobs)
{
	int status;
	pid_t pid = wait(&status);

	CHECK(pid > 0);
	for (unsigned at = 0; at < JOBS_MOST; at++) {
		if (jobs->pids[at] == pid)
			job_ended(jobs, at, status);
	}
}

static bool has_next(const struct jobs *jobs)
{
	return jobs->next < jobs->count && !(jobs->settings->stop && jobs->failed > 0);
}

static void run_all(struct jobs *jobs)
{
	uint64_t done = 0;

	while (done < jobs->next || has_next(jobs)) {
		for (unsigned at = 0; at < jobs->settings->jobs; at++) {
			if (jobs->pids[at] == 0 && has_next(jobs))
				job_start(jobs, at);
		}
		job_wait(jobs);
		done = jobs->passed + jobs->failed;
		if (done % 10 == 0 && jobs->count > 10) {
			printf("%" PRIu64 " of %" PRIu64 " seeds\n", done, jobs->count);
			(void)fflush(stdout);
		}
	}
}

/* The seeds as one test: what they had to see. */
static void judge_cover(struct jobs *jobs, bool must_see)
{
	struct cover *sum = calloc(1, sizeof(*sum));

	CHECK(sum != NULL);
	for (uint64_t i = 0; i < jobs->count; i++)
		cover_add(sum, &jobs->covers[i]);
	if (jobs->settings->coverage)
		cover_print(sum);
	if (must_see && cover_missing(sum) > 0)
		jobs->failed++;
	else if (must_see)
		jobs->passed++;
	free(sum);
}

/* ---- main ---------------------------------------------------------------- */

/* "7-12" */
static bool parse_seeds(const char *text, uint64_t *ret_from, uint64_t *ret_count)
{
	char *end;
	uint64_t from = strtoull(text, &end, 10);
	uint64_t to = *end == '-' ? strtoull(end + 1, &end, 10) : from;

	if (end == text || *end != '\0' || to < from || to - from >= 1000000)
		return false;
	*ret_from = from;
	*ret_count = to - from + 1;
	return true;
}

/* False: there is no such bug. */
static bool plant(const struct settings *settings)
{
#ifdef CENOTE_PLANTS
	return plant_arm(settings->plant);
#else
	(void)settings;
	return true;
#endif
}

static bool is_default(const struct settings *settings)
{
	return settings->seed == 0 && settings->steps >= STEPS_DEFAULT &&
	       strcmp(settings->seeds, SEEDS_DEFAULT) == 0;
}

int main(int argc, char **argv)
{
	struct option_table table = OPTION_TABLE(specs);
	char message[OPTION_MESSAGE_MAX] = "--seeds is FROM-TO";
	struct settings settings;
	struct jobs jobs = {.settings = &settings, .program = argv[0]};
	int operands;

	if (option_parse(table, argc, argv, &settings, &operands, message) != 0 ||
		!parse_seeds(settings.seeds, &jobs.from, &jobs.count) ||
		!plant(&settings)) {
		(void)fprintf(stderr, "sim_cluster: %s\n", message);
		return 2;
	}
	if (settings.help) {
		printf("usage: sim_cluster [OPTION]...\n\n");
		option_help(stdout, table);
		return 0;
	}
	if (settings.seed != 0) {
		jobs.from = settings.seed;
		jobs.count = 1;
	}
	jobs.covers = mmap(NULL, jobs.count * sizeof(struct cover),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(jobs.covers != MAP_FAILED);
	run_all(&jobs);
	judge_cover(&jobs, is_default(&settings));
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", jobs.passed, jobs.failed);
	return jobs.failed == 0 ? 0 : 1;
}
