/*
 * The size mix of the station in the core alone: puts in order by ranks at work, reads in
 * between, thousands of steps. No put may fail: each has its run within a bounded number of
 * turns of the daemon's loop, whatever the holes look like by then.
 *
 *     core_mix                                the table below; ends with "N passed"
 *     core_mix --config NAME [--seed N] [--seeds N] [--steps N] [--live PERMILLE]
 *
 * Without a disk the objects stay in the pool, and room for the large ones is made by moving
 * others; with one, what was read leaves, and what is read comes back.
 */
#include "core_mix.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB          ((uint64_t)1 << 20)
#define GIB          ((uint64_t)1 << 30)
#define TURN_NS      100000ull
#define ROOM_BUDGET  256u
#define COMMIT_TURNS 10u
#define CHECK_STEPS  20u /* a check after so many */
#define SLOTS        8192u
#define STEP_LIMIT   400000u /* turns of a step: somebody is stuck */
#define SETTLE_LIMIT 100000u

/* A put may wait as long as it takes to copy, or to write out, the pool this many times. */
#define COPIES (8 * MIX_COPY_RATE)
#define WRITES (8 * MIX_DISK_RATE)

static const struct mix_config configs[] = {
	{"live-70", 2 * GIB, 0, 700, 4, 2000, true, true, COPIES},
	{"small-pool", 512 * MIB, 0, 700, 2, 1000, false, false, COPIES},
	{"large-pool", 16 * GIB, 0, 700, 8, 2000, false, true, COPIES},
	{"disk-95", 512 * MIB, 2 * GIB, 950, 6, 200, false, true, WRITES},
	{"disk-95-once", 2 * GIB, 8 * GIB, 950, 2, 300, true, true, WRITES},
	{"disk-200", 512 * MIB, 2 * GIB, 2000, 2, 200, false, true, WRITES},
};

void mix_fail(const struct mix *mix, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)fprintf(stderr, "core_mix: turn %" PRIu64 ": ", mix->turn);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

uint64_t mix_turns(const struct mix *mix, uint64_t bytes, uint64_t rate)
{
	return 1 + bytes * rate / mix->config->pool;
}

/* ---- memory -------------------------------------------------------------- */

/* Address space; what is never written costs nothing. */
static void *space_new(size_t size)
{
	void *space = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(space != MAP_FAILED);
	return space;
}

static void share_open(struct mix *mix)
{
	struct share_header *header;

	share_init(&mix->share, space_new(share_index_size(SLOTS)),
		mmap(NULL, mix->config->pool, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	CHECK((void *)mix->share.pool != MAP_FAILED);
	header = mix->share.header;
	header->magic = SHARE_MAGIC;
	header->version = SHARE_VERSION;
	header->slots_limit = SLOTS;
	header->nslots = SLOTS;
	header->pool_size = mix->config->pool;
	header->hash_seed = rng_next(&mix->rng);
	header->page_size = 4096;
	header->log2_buckets = share_log2_buckets(SLOTS);
}

static void master_open(struct mix *mix)
{
	struct master_config config = {
		.low_permille = 10,
		.high_permille = 20,
		.hash_seed = mix->share.header->hash_seed,
		.disk = {.data_size = mix->config->disk,
			.object_limit = SLOTS,
			.cache_permille = 500},
	};
	struct recovery recovery;

	mix->memory = space_new(master_memory_size(SLOTS, &config.disk));
	master_init(&mix->master, &mix->share, &config, mix->memory);
	master_recover(&mix->master, mix->now, 1, &recovery);
	master_disk_adopted(&mix->master);
}

static struct mix *mix_open(const struct mix_config *config, uint64_t seed)
{
	struct mix *mix = calloc(1, sizeof(*mix));

	CHECK(mix != NULL);
	mix->config = config;
	mix->now = 1000000000;
	rng_init(&mix->rng, seed);
	mix->plan = (struct station_plan){
		.pool = config->pool,
		.seed = seed,
		.ranks = MIX_RANKS,
		.steps = config->steps,
		.live = config->live,
		.reads_once = config->reads_once,
	};
	CHECK(station_plan_init(&mix->plan));
	mix->plans = calloc(station_plan_width(&mix->plan), sizeof(mix->plans[0]));
	CHECK(mix->plans != NULL);
	share_open(mix);
	master_open(mix);
	mix_ranks_open(mix);
	return mix;
}

static void mix_close(struct mix *mix)
{
	mix_ranks_close(mix);
	(void)munmap(mix->memory, master_memory_size(SLOTS, &mix->master.config.disk));
	(void)munmap(mix->share.index, share_index_size(SLOTS));
	(void)munmap(mix->share.pool, mix->config->pool);
	free(mix->plans);
	free(mix);
}

/* ---- the disk ------------------------------------------------------------ */

static void save_turn(struct mix *mix, struct mix_save *save)
{
	struct save_item items[MIX_SAVE_ITEMS];
	uint64_t checksums[MIX_SAVE_ITEMS] = {0}, off, bytes = 0;

	if (save->count > 0 && mix->turn >= save->until) {
		master_save_done(
			&mix->master, save->entries, save->count, checksums, 0, mix->now);
		save->count = 0;
	}
	if (save->count > 0)
		return;
	save->count = master_save_next(
		&mix->master, mix->now, items, MIX_SAVE_ITEMS, &off);
	for (uint32_t i = 0; i < save->count; i++) {
		save->entries[i] = items[i].entry;
		bytes += items[i].size;
	}
	save->until = mix->turn + mix_turns(mix, bytes, MIX_DISK_RATE);
}

static void commit_turn(struct mix *mix)
{
	if (mix->commit_count > 0 && mix->turn >= mix->commit_until) {
		master_changes_done(
			&mix->master, mix->commit, mix->commit_count, 0, mix->now);
		mix->commit_count = 0;
	}
	if (mix->commit_count > 0)
		return;
	mix->commit_count = master_changes(
		&mix->master, mix->commit, DISK_BATCH, mix->now);
	mix->commit_until = mix->turn + COMMIT_TURNS;
}

static void disk_turn(struct mix *mix)
{
	if (mix->config->disk == 0)
		return;
	for (uint32_t i = 0; i < MIX_SAVES; i++)
		save_turn(mix, &mix->saves[i]);
	commit_turn(mix);
}

/* ---- the daemon ---------------------------------------------------------- */

static void move_turn(struct mix *mix)
{
	struct relocation move;

	if (!master_move_next(&mix->master, &move))
		return;
	if (mix->move_until == 0)
		mix->move_until = mix->turn + mix_turns(mix, move.size, MIX_COPY_RATE);
	if (mix->turn < mix->move_until)
		return;
	mix->move_until = 0;
	master_move_done(&mix->master, true, mix->now);
}

static void room_turn(struct mix *mix)
{
	struct ticket *ticket;

	(void)master_room_run(&mix->master, mix->now, ROOM_BUDGET);
	while ((ticket = master_room_granted(&mix->master)) != NULL)
		container_of(ticket, struct mix_rank, ticket)->granted = true;
}

static void turn(struct mix *mix)
{
	uint32_t first = (uint32_t)rng_below(&mix->rng, MIX_RANKS);

	mix->turn++;
	mix->now += TURN_NS;
	for (uint32_t i = 0; i < MIX_RANKS; i++)
		mix_rank_turn(mix, &mix->ranks[(first + i) % MIX_RANKS]);
	while (master_advance(&mix->master, mix->now) != SLOT_NONE)
		;
	disk_turn(mix);
	room_turn(mix);
	move_turn(mix);
}

/* ---- a run --------------------------------------------------------------- */

static bool all_done(const struct mix *mix)
{
	for (uint32_t i = 0; i < MIX_RANKS; i++)
		if (!mix_rank_is_done(&mix->ranks[i]))
			return false;
	return true;
}

static void check(const struct mix *mix)
{
	const char *broken = core_check(&mix->master, mix->now);

	if (broken != NULL)
		mix_fail(mix, "core_check: %s", broken);
}

static void run_step(struct mix *mix, uint32_t step)
{
	uint64_t end = mix->turn + STEP_LIMIT;

	mix_step_begin(mix, step);
	while (!all_done(mix)) {
		turn(mix);
		if (mix->turn > end)
			mix_fail(mix, "step %u does not end", step);
	}
	if (step % CHECK_STEPS == 0)
		check(mix);
}

/* All is removed: the pool and the disk are free, to the byte. */
static void settle(struct mix *mix)
{
	const struct disk *disk = &mix->master.disk;
	uint64_t end = mix->turn + SETTLE_LIMIT;
	struct pool_use use;

	mix_end(mix);
	do {
		turn(mix);
		master_use(&mix->master, &use);
		if (mix->turn > end)
			mix_fail(mix,
				"%" PRIu64 " of %" PRIu64 " bytes came back, %" PRIu64
				" withheld, %u objects on disk",
				use.free, use.size, use.withheld, disk->count);
	} while (use.free + use.withheld != use.size || disk->count > 0 ||
		 mix->master.room.move.busy);
	check(mix);
}

static double seconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void mix_print(const struct mix *mix, uint64_t seed, double began)
{
	const struct master_stats *stats = &mix->master.stats;

	(void)printf("     seed %" PRIu64 ": %.1f s, peak %" PRIu64
		     "%% of the pool; puts %" PRIu64 " reads %" PRIu64
		     ", no hole for %" PRIu64 ", turns p50 %" PRIu64 " p99 %" PRIu64
		     " max %" PRIu64 "\n",
		seed, seconds() - began, mix->plan.peak * 100 / mix->config->pool,
		mix->puts, mix->gets, mix->waited, hist_percentile(&mix->wait_turns, 50),
		hist_percentile(&mix->wait_turns, 99), hist_max(&mix->wait_turns));
	(void)printf("       windows %" PRIu64 " given up %" PRIu64 " relocated %" PRIu64
		     " (%" PRIu64 " MiB); saved %" PRIu64 " loaded %" PRIu64
		     " dropped %" PRIu64 ", longest load %" PRIu64 " turns of %" PRIu64
		     "\n",
		stats->windows, stats->windows_given_up, stats->relocated,
		stats->relocated_bytes / MIB, stats->saves, stats->loads, stats->dropped,
		mix->longest, mix->turn);
}

static void run_seed(const struct mix_config *config, uint64_t seed)
{
	double began = seconds();
	struct mix *mix = mix_open(config, seed);

	for (uint32_t step = 0; step < config->steps; step++)
		run_step(mix, step);
	settle(mix);
	if (config->waits && mix->waited == 0)
		mix_fail(mix, "every put found a hole");
	if (config->disk > 0 && mix->master.stats.saves == 0)
		mix_fail(mix, "nothing went to the disk");
	mix_print(mix, seed, began);
	(void)fflush(stdout);
	mix_close(mix);
}

/* In a process of its own, so that a failed CHECK is one failure and has its command. */
static bool run_config(const struct mix_config *config, uint64_t first, uint64_t seeds)
{
	bool passed = true;

	for (uint64_t seed = first; seed < first + seeds && passed; seed++) {
		int status = 0;
		pid_t child;

		(void)fflush(stdout);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			run_seed(config, seed);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (!passed)
			(void)printf("again: core_mix --config %s --seed %" PRIu64
				     " --steps %u\n",
				config->name, seed, config->steps);
	}
	(void)printf("%s %s: %" PRIu64 " seeds of %u steps\n", passed ? "ok  " : "FAIL",
		config->name, seeds, config->steps);
	return passed;
}

static bool run_table(void)
{
	unsigned passed = 0, failed = 0;

	for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
		bool good = run_config(&configs[i], 1, configs[i].seeds);

		passed += good;
		failed += !good;
	}
	(void)printf("%u passed, %u failed\n", passed, failed);
	return failed == 0;
}

static int usage(void)
{
	(void)fputs("core_mix [--config NAME] [--seed N] [--seeds N] [--steps N] "
		    "[--live PERMILLE]\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct mix_config config = configs[0];
	uint64_t seed = 1, seeds = 1, steps = 0, live = 0;

	if (argc == 1)
		return run_table() ? 0 : 1;
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];
		bool known = false;

		if (strcmp(argv[i], "--config") == 0)
			for (size_t j = 0; j < ARRAY_LEN(configs); j++)
				if (strcmp(configs[j].name, value) == 0)
					config = configs[j], known = true;
		if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(value, NULL, 10), known = true;
		if (strcmp(argv[i], "--seeds") == 0)
			seeds = strtoull(value, NULL, 10), known = true;
		if (strcmp(argv[i], "--steps") == 0)
			steps = strtoull(value, NULL, 10), known = true;
		if (strcmp(argv[i], "--live") == 0)
			live = strtoull(value, NULL, 10), known = true;
		if (!known)
			return usage();
	}
	if (argc % 2 == 0)
		return usage();
	if (live != 0)
		config.live = (uint32_t)live;
	if (steps != 0)
		config.steps = (uint32_t)steps;
	return run_config(&config, seed, seeds) ? 0 : 1;
}
