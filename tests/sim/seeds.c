/*
 * seeds.c - choose the seeds, run as many at a time as was asked for, and tell what came of it.
 */
#include "sim/seeds.h"

#ifdef CENOTE_PLANTS
#include "sim/plant.h"
#endif

#include "base/check.h"
#include "base/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MOST 64

struct settings {
	const char *seeds, *plant;
	uint64_t seed, steps, jobs;
	bool stop, print, coverage, help;
};

enum spec {
	SPEC_SEEDS,
	SPEC_SEED,
	SPEC_STEPS,
	SPEC_JOBS,
	SPEC_STOP,
#ifdef CENOTE_PLANTS
	SPEC_PLANT,
#endif
	SPEC_PRINT,
	SPEC_COVERAGE,
	SPEC_HELP
};

/* What is missing here is the simulator's. */
static struct option_spec specs[] = {
	[SPEC_SEEDS] = {.name = "seeds",
		.type = OPTION_TEXT,
		.value_name = "FROM-TO",
		.help = "Run these seeds. Only the default ones must see everything that "
			"is worth seeing.",
		.offset = offsetof(struct settings, seeds)},
	[SPEC_SEED] = {.name = "seed",
		.type = OPTION_NUMBER,
		.default_text = "0",
		.help = "Run this one alone.",
		.offset = offsetof(struct settings, seed)},
	[SPEC_STEPS] = {.name = "steps",
		.type = OPTION_NUMBER,
		.help = "Steps of a run, before its quiet end.",
		.min = 1,
		.max = 1000000000,
		.offset = offsetof(struct settings, steps)},
	[SPEC_JOBS] = {.name = "jobs",
		.type = OPTION_NUMBER,
		.default_text = "1",
		.help = "Seeds at a time.",
		.min = 1,
		.max = JOBS_MOST,
		.offset = offsetof(struct settings, jobs)},
	[SPEC_STOP] = {.name = "stop",
		.type = OPTION_FLAG,
		.help = "Begin no seed after one that failed.",
		.offset = offsetof(struct settings, stop)},
#ifdef CENOTE_PLANTS
	[SPEC_PLANT] = {.name = "plant",
		.type = OPTION_TEXT,
		.value_name = "NAME",
		.default_text = "NONE",
		.offset = offsetof(struct settings, plant)},
#endif
	[SPEC_PRINT] = {.type = OPTION_FLAG,
		.help = "Print everything that happens.",
		.offset = offsetof(struct settings, print)},
	[SPEC_COVERAGE] = {.name = "coverage",
		.type = OPTION_FLAG,
		.help = "Print how often what is worth seeing was seen.",
		.offset = offsetof(struct settings, coverage)},
	[SPEC_HELP] = {.name = "help",
		.type = OPTION_FLAG,
		.help = "Print this text, and exit.",
		.offset = offsetof(struct settings, help)},
};

struct jobs {
	const struct simulator *simulator;
	const struct settings *settings;
	const char *program;
	unsigned char *covers; /* by place of the seed; the processes share them */
	uint64_t from, count, next;
	pid_t pids[JOBS_MOST];
	uint64_t places[JOBS_MOST];
	uint64_t passed, failed;
};

static void *cover_of(const struct jobs *jobs, uint64_t place)
{
	return jobs->covers + place * jobs->simulator->cover_size;
}

/* ---- a seed -------------------------------------------------------------- */

static bool is_equal_again(const struct jobs *jobs, uint64_t seed, uint64_t hash)
{
	struct cover *cover = calloc(1, jobs->simulator->cover_size);
	uint64_t again;

	CHECK(cover != NULL);
	again = jobs->simulator->run(seed, jobs->settings->steps, false, cover);
	free(cover);
	if (again != hash)
		(void)fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", seed);
	return again == hash;
}

static _Noreturn void run_seed(const struct jobs *jobs, uint64_t place)
{
	const struct simulator *simulator = jobs->simulator;
	const struct settings *settings = jobs->settings;
	struct rlimit limit = {simulator->cpu_seconds_most, simulator->cpu_seconds_most};
	uint64_t seed = jobs->from + place;
	bool equal = true;
	uint64_t hash;

	CHECK(setrlimit(RLIMIT_CPU, &limit) == 0);
	(void)setvbuf(stdout, NULL, settings->print ? _IOLBF : _IOFBF, 1 << 16);
	hash = simulator->run(
		seed, settings->steps, settings->print, cover_of(jobs, place));
	if (settings->seed != 0 || seed % simulator->twice_every == 0)
		equal = is_equal_again(jobs, seed, hash);
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
		run_seed(jobs, place);
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
	       " --%s\n",
		seed, jobs->program, seed, jobs->settings->steps,
		jobs->simulator->print_option);
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
	const struct simulator *simulator = jobs->simulator;
	struct cover *sum = calloc(1, simulator->cover_size);

	CHECK(sum != NULL);
	for (uint64_t i = 0; i < jobs->count; i++)
		simulator->cover_add(sum, cover_of(jobs, i));
	if (jobs->settings->coverage)
		simulator->cover_print(sum);
	if (must_see && simulator->cover_missing(sum) > 0)
		jobs->failed++;
	else if (must_see)
		jobs->passed++;
	free(sum);
}

/* ---- the command line ---------------------------------------------------- */

static struct option_table table_of(const struct simulator *simulator)
{
#ifdef CENOTE_PLANTS
	static char plant_help[128];

	(void)snprintf(plant_help, sizeof(plant_help), "Run with this bug of %s.",
		simulator->plant_lists);
	specs[SPEC_PLANT].help = plant_help;
#endif
	specs[SPEC_SEEDS].default_text = simulator->seeds;
	specs[SPEC_STEPS].default_text = simulator->steps;
	specs[SPEC_PRINT].name = simulator->print_option;
	return OPTION_TABLE(specs);
}

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
static bool plant(const struct simulator *simulator, const struct settings *settings)
{
#ifdef CENOTE_PLANTS
	if (!plant_arm(settings->plant)) {
		(void)fprintf(stderr, "%s: no bug %s in %s\n", simulator->name,
			settings->plant, simulator->plant_lists);
		return false;
	}
#endif
	(void)simulator;
	(void)settings;
	return true;
}

static bool is_default(struct option_table table, const struct settings *settings)
{
	struct settings defaults;

	option_defaults(table, &defaults);
	return settings->seed == 0 && settings->steps >= defaults.steps &&
	       strcmp(settings->seeds, defaults.seeds) == 0;
}

int seeds_main(const struct simulator *simulator, int argc, char **argv)
{
	struct option_table table = table_of(simulator);
	char message[OPTION_MESSAGE_MAX] = "--seeds is FROM-TO";
	struct settings settings;
	struct jobs jobs = {
		.simulator = simulator, .settings = &settings, .program = argv[0]};
	int operands;

	if (option_parse(table, argc, argv, &settings, &operands, message) != 0 ||
		!parse_seeds(settings.seeds, &jobs.from, &jobs.count)) {
		(void)fprintf(stderr, "%s: %s\n", simulator->name, message);
		return 2;
	}
	if (settings.help) {
		printf("usage: %s [OPTION]...\n\n", simulator->name);
		option_help(stdout, table);
		return 0;
	}
	if (!plant(simulator, &settings))
		return 2;
	if (settings.seed != 0) {
		jobs.from = settings.seed;
		jobs.count = 1;
	}
	jobs.covers = mmap(NULL, jobs.count * simulator->cover_size,
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(jobs.covers != MAP_FAILED);
	run_all(&jobs);
	judge_cover(&jobs, is_default(table, &settings));
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", jobs.passed, jobs.failed);
	return jobs.failed == 0 ? 0 : 1;
}
