/*
 * The model test of core: random commands to a master and to a naive one, every answer
 * and every byte compared, all invariants after every step (with many objects after
 * every 1,000th).
 *
 *     core_model                                  the table below; ends with "N passed"
 *     core_model --config NAME --seed N --steps N [--objects N] [--trace]
 *
 * A seed also draws how often each command comes, so that seeds differ in kind. Each run
 * ends by giving everything back: then the pool must be free, to the byte.
 */
#include "core_world.h"

#include "base/attr.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1024u * KIB)

/* Few objects, checked after every step, come first. */
static const struct world_config configs[] = {
	{"tiny", 64 * KIB, 64, 64, 40, 1500, 24 * KIB, 20, 3, 20, 20, 0, 300, 6000,
		false},
	{"few-slots", 256 * KIB, 16, 48, 60, 900, 30 * KIB, 10, 1, 10, 10, 0, 200, 6000,
		false},
	{"cache", 256 * KIB, 64, 64, 60, 6 * KIB, 100 * KIB, 15, 1, 0, 10, 0, 200, 6000,
		false},
	{"softpin", 256 * KIB, 64, 64, 48, 5 * KIB, 60 * KIB, 20, 1, 70, 10, 0, 250, 6000,
		false},
	{"mixed", 1 * MIB, 64, 64, 60, 20 * KIB, 500 * KIB, 20, 2, 30, 20, 0, 150, 6000,
		false},
	{"small-objects", 4 * MIB, 512, 0, 6000, 1 * KIB, 64 * KIB, 5, 0, 10, 10, 0, 12,
		60000, false},
	{"large-pool", 16 * MIB, 4096, 0, 3000, 8 * KIB, 1 * MIB, 5, 0, 20, 10, 0, 10,
		60000, false},
};

/* With a disk: what is said of keys above holds over restarts and failing jobs, too. */
static const struct world_config disk_configs[] = {
	{"disk", 256 * KIB, 64, 64, 60, 5 * KIB, 60 * KIB, 20, 1, 80, 10, 2 * MIB, 300,
		6000, false},
	{"disk-full", 256 * KIB, 64, 64, 60, 5 * KIB, 60 * KIB, 20, 1, 90, 5, 192 * KIB,
		300, 6000, false},
	{"disk-small", 128 * KIB, 64, 96, 120, 700, 20 * KIB, 10, 1, 60, 10, 1 * MIB, 200,
		6000, false},
	{"disk-cache", 256 * KIB, 64, 64, 60, 6 * KIB, 100 * KIB, 15, 1, 20, 10, 1 * MIB,
		200, 6000, false},
};

/* With other nodes, whose objects are copied, and which take over what is here. */
static const struct world_config cluster_configs[] = {
	{"cluster", 256 * KIB, 64, 64, 24, 4 * KIB, 60 * KIB, 15, 1, 50, 15, 0, 100, 6000,
		true},
	{"cluster-slots", 256 * KIB, 16, 48, 40, 900, 30 * KIB, 10, 1, 30, 10, 0, 60,
		6000, true},
	{"cluster-disk", 256 * KIB, 64, 64, 30, 5 * KIB, 60 * KIB, 20, 1, 70, 10, 1 * MIB,
		100, 6000, true},
};

/* ---- commands ------------------------------------------------------------------------ */

static void do_put_end(struct world *world)
{
	if (world->nputs > 0)
		client_put_end(world, (uint32_t)rng_below(&world->rng, world->nputs),
			rng_chance(&world->rng, 12));
}

static void do_give(struct world *world)
{
	if (world->nholds > 0)
		client_give(world, (uint32_t)rng_below(&world->rng, world->nholds));
}

static void do_unpin(struct world *world)
{
	if (world->npins > 0)
		daemon_unpin(world, (uint32_t)rng_below(&world->rng, world->npins));
}

static void do_ticket(struct world *world)
{
	struct world_ticket *ticket =
		&world->tickets[rng_below(&world->rng, WORLD_TICKETS)];

	if (ticket->fetched)
		client_ticket_use(world, ticket, rng_chance(&world->rng, 10));
	else if (ticket->used && rng_chance(&world->rng, 4))
		client_ticket_use(world, ticket, true);
}

static void do_tells(struct world *world)
{
	world_tell_all(world, rng_chance(&world->rng, 15));
}

static void do_bogus_tell(struct world *world)
{
	uint32_t nslots = world->share.header->nslots;

	master_tell(&world->master, (uint32_t)rng_below(&world->rng, nslots + 2u),
		world->now);
}

static void do_advance(struct world *world)
{
	static const uint64_t spans[] = {1000, 2000000, 20000000, 150000000};

	world_advance(world, rng_below(&world->rng, spans[rng_below(&world->rng, 4)]));
}

static void do_room(struct world *world)
{
	world_room(world, 1 + (uint32_t)rng_below(&world->rng, 30),
		rng_chance(&world->rng, 50));
}

static void do_move(struct world *world)
{
	world_move(world, rng_chance(&world->rng, 85));
}

static void do_client(struct world *world)
{
	uint32_t client = (uint32_t)rng_below(&world->rng, WORLD_CLIENTS);

	if (!world->clients[client].live) {
		world_client_add(world, client);
		master_look_all(&world->master, world->now);
	} else if (rng_chance(&world->rng, 30)) {
		client_die(world, client);
	}
}

static void do_grow(struct world *world)
{
	if (master_wants_slots(&world->master) && rng_chance(&world->rng, 20))
		world_grow(world);
}

static void do_restart(struct world *world)
{
	if (!rng_chance(&world->rng, 20))
		return;
	world_restart(world);
	world_audit(world);
}

static void do_look_all(struct world *world)
{
	master_look_all(&world->master, world->now);
}

static void do_save_done(struct world *world)
{
	disk_save_done(world, true);
}

static void do_commit_done(struct world *world)
{
	disk_commit_done(world, true);
}

static void do_load(struct world *world)
{
	disk_load_step(world, true);
}

static const struct command {
	void (*run)(struct world *world);
	uint32_t weight;
} commands[] = {
	{client_put, 100},
	{do_put_end, 100},
	{client_put_repeat, 5},
	{client_name, 20},
	{client_get, 60},
	{do_give, 60},
	{client_remove, 20},
	{client_take, 8},
	{daemon_pin, 6},
	{do_unpin, 10},
	{do_ticket, 100},
	{do_tells, 20},
	{do_bogus_tell, 2},
	{do_advance, 25},
	{do_room, 40},
	{do_move, 40},
	{do_client, 4},
	{do_grow, 2},
	{do_restart, 2},
	{do_look_all, 1},
	{disk_save, 40},
	{do_save_done, 40},
	{disk_commit, 30},
	{do_commit_done, 30},
	{do_load, 60},
	{disk_trim, 2},
	{copy_begin, 60},
	{copy_step, 60},
	{cluster_end, 10},
	{cluster_doom, 1},
	{cluster_yield, 10},
};

/* ---- the end ------------------------------------------------------------------------- */

static uint32_t tickets_waiting(const struct world *world)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < WORLD_TICKETS; i++)
		count += world->tickets[i].used && !world->tickets[i].fetched;
	return count;
}

/* Clients and daemon let go of all they have, but for waiting tickets. */
static void let_go(struct world *world)
{
	while (world->nholds > 0)
		do_give(world);
	while (world->npins > 0)
		do_unpin(world);
	while (world->nputs > 0)
		do_put_end(world);
	while (world->master.room.move.busy)
		do_move(world);
	disk_cancel_loads(world);
	copy_end_all(world);
}

static void give_granted_back(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_TICKETS; i++)
		if (world->tickets[i].fetched)
			client_ticket_use(world, &world->tickets[i], true);
}

/* Nothing is in the way but cache objects: every ticket must get its room. */
static void drain_tickets(struct world *world)
{
	uint32_t rounds = 0;

	while (tickets_waiting(world) > 0) {
		(void)disk_settle(world);
		world_room(world, 50, true);
		give_granted_back(world);
		world_move(world, true);
		world_advance(world, 100000000);
		if (++rounds > 100)
			world_fail(world, "%u tickets never get room",
				tickets_waiting(world));
	}
	give_granted_back(world);
}

static void remove_all(struct world *world, bool softpin_only)
{
	for (uint32_t key = 0; key < world->config->keys; key++) {
		uint32_t id = naive_find(&world->naive, key);

		if (id == NAIVE_NONE ||
			(softpin_only && !naive_at(&world->naive, id)->softpin))
			continue;
		world_sync(world, key);
		if (master_remove(&world->master, &world->keys[key].key, world->now) !=
			naive_remove(&world->naive, key))
			world_fail(world, "key %u is not removed", key);
	}
}

/* A ticket for the whole pool sweeps up all whose last release nobody told of. */
static void sweep_up(struct world *world)
{
	struct ticket ticket;

	ticket_init(&ticket);
	/* A failure may still keep the disk from being tried. */
	for (unsigned i = 0; i < 10; i++) {
		(void)disk_settle(world);
		world_advance(world, DISK_RETRY_NS);
	}
	master_room_wait(&world->master, &ticket, world->config->pool_size, 1);
	for (unsigned i = 0; i < 20 && ticket.state == TICKET_WAITING; i++) {
		while (master_room_run(&world->master, world->now, 10000))
			;
		world_advance(world, SWEEP_PERIOD_NS);
	}
	if (ticket.state != TICKET_GRANTED ||
		master_room_granted(&world->master) != &ticket)
		world_fail(world, "the whole pool cannot be had");
	master_room_cancel(&world->master, &ticket);
}

static void finish(struct world *world)
{
	struct pool_use use;

	let_go(world);
	give_granted_back(world);
	world_check(world);
	world_audit(world);
	remove_all(world, true);
	world_tell_all(world, true);
	drain_tickets(world);
	world_check(world);
	world_audit(world);
	remove_all(world, false);
	sweep_up(world);
	world_check(world);
	world_audit(world);
	master_use(&world->master, &use);
	if (use.free != use.size || use.objects != 0 || world->master.pinned != 0 ||
		world->master.condemned.count != 0 || world->master.disk.count != 0 ||
		world->master.room.granted_count != 0)
		world_fail(world, "%" PRIu64 " of %" PRIu64 " bytes came back", use.free,
			use.size);
}

/* ---- a run --------------------------------------------------------------------------- */

struct progress {
	uint64_t seed, steps, step;
	struct master_stats stats; /* of all seeds */
	struct master_cluster_stats cluster;
	uint64_t restarts, granted, outrun;
};

static void progress_add(struct progress *progress, struct world *world)
{
	const uint64_t *adds = (const uint64_t *)&world->stats;
	uint64_t *sums = (uint64_t *)&progress->stats;

	world_count(world);
	for (size_t i = 0; i < sizeof(progress->stats) / sizeof(*sums); i++)
		sums[i] += adds[i];
	progress->restarts += world->restarts;
	progress->granted += world->granted;
	progress->cluster.copies += world->cluster.copies;
	progress->cluster.spared += world->cluster.spared;
	progress->cluster.clocks_refused += world->cluster.clocks_refused;
	progress->outrun += world->outrun;
}

/* So that one sees what was tried at all. */
static void progress_print(const struct progress *progress)
{
	const struct master_stats *stats = &progress->stats;

	(void)printf("     puts %" PRIu64 " takes %" PRIu64 " expired %" PRIu64
		     " evicted %" PRIu64 " ghost hits %" PRIu64 " parked %" PRIu64
		     "+%" PRIu64 "+%" PRIu64 " woken %" PRIu64 " sweeps %" PRIu64 "\n",
		stats->puts, stats->takes, stats->expired, stats->evicted,
		stats->ghost_hits, stats->parked_hold, stats->parked_pin,
		stats->parked_both, stats->woken, stats->sweeps);
	(void)printf("     tickets granted %" PRIu64 " windows %" PRIu64
		     " given up %" PRIu64 " relocated %" PRIu64 " restarts %" PRIu64 "\n",
		progress->granted, stats->windows, stats->windows_given_up,
		stats->relocated, progress->restarts);
	if (progress->cluster.copies > 0)
		(void)printf("     copies %" PRIu64 " spared %" PRIu64 " outrun %" PRIu64
			     " clocks refused %" PRIu64 "\n",
			progress->cluster.copies, progress->cluster.spared,
			progress->outrun, progress->cluster.clocks_refused);
}

static void run_seed(const struct world_config *config, uint64_t seed, uint64_t steps,
	bool trace, struct progress *progress)
{
	struct world *world = world_open(config, seed, trace);
	uint32_t weights[ARRAY_LEN(commands)], total = 0;
	uint32_t each = config->nslots > 64 || config->keys > 64 ? 1000 : 1;

	progress->seed = seed;
	progress->steps = steps;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		weights[i] = commands[i].weight *
			     (uint32_t)(1 + rng_below(&world->rng, 8));
		total += weights[i];
	}
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t dice = rng_below(&world->rng, total);
		size_t which = 0;

		progress->step = step;
		for (; dice >= weights[which]; which++)
			dice -= weights[which];
		commands[which].run(world);
		if (step % each == 0)
			world_check(world);
		if (step % 1000 == 0)
			world_audit(world);
	}
	finish(world);
	progress_add(progress, world);
	world_close(world);
}

/* In a process of its own, so that a failed CHECK is one failure and has its command. */
static bool run_config(const struct world_config *config, uint64_t first, uint32_t seeds,
	uint64_t steps, bool trace)
{
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	bool passed;
	pid_t child;

	CHECK(progress != MAP_FAILED);
	(void)fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (uint32_t i = 0; i < seeds; i++)
			run_seed(config, first + i, steps, trace, progress);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	(void)printf("%s %s: %u seeds of %" PRIu64 " steps\n", passed ? "ok  " : "FAIL",
		config->name, seeds, steps);
	progress_print(progress);
	if (!passed)
		(void)printf("failed at step %" PRIu64 "; again: core_model --config %s "
			     "--seed %" PRIu64 " --steps %" PRIu64 " --objects %u\n",
			progress->step, config->name, progress->seed, progress->steps,
			config->keys);
	(void)munmap(progress, sizeof(*progress));
	return passed;
}

static const struct world_config *config_at(size_t i)
{
	if (i < ARRAY_LEN(configs))
		return &configs[i];
	i -= ARRAY_LEN(configs);
	if (i < ARRAY_LEN(disk_configs))
		return &disk_configs[i];
	i -= ARRAY_LEN(disk_configs);
	return i < ARRAY_LEN(cluster_configs) ? &cluster_configs[i] : NULL;
}

static bool run_table(void)
{
	unsigned passed = 0, failed = 0;
	const struct world_config *config;

	for (size_t i = 0; (config = config_at(i)) != NULL; i++) {
		bool good = run_config(config, 1, config->seeds, config->steps, false);

		passed += good;
		failed += !good;
	}
	(void)printf("%u passed, %u failed\n", passed, failed);
	return failed == 0;
}

static const struct world_config *config_named(const char *name)
{
	const struct world_config *config;

	for (size_t i = 0; (config = config_at(i)) != NULL; i++)
		if (strcmp(config->name, name) == 0)
			return config;
	return NULL;
}

static int usage(void)
{
	(void)fputs("core_model [--config NAME] [--seed N] [--seeds N] [--steps N] "
		    "[--objects N] [--trace]\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const struct world_config *base = &configs[0];
	struct world_config config;
	uint64_t seed = 1, seeds = 1, steps = 0, objects = 0;
	bool trace = false;

	if (argc == 1)
		return run_table() ? 0 : 1;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--trace") == 0) {
			trace = true;
			continue;
		}
		if (strcmp(argv[i], "--config") == 0)
			base = config_named(value);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--seeds") == 0)
			seeds = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--steps") == 0)
			steps = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--objects") == 0)
			objects = strtoull(value, NULL, 10);
		else
			return usage();
		i++;
	}
	if (base == NULL || seeds == 0)
		return usage();
	config = *base;
	if (objects != 0)
		config.keys = (uint32_t)objects;
	if (!run_config(&config, seed, (uint32_t)seeds, steps != 0 ? steps : config.steps,
		    trace)) {
		(void)puts("0 passed, 1 failed");
		return 1;
	}
	(void)puts("1 passed, 0 failed");
	return 0;
}
