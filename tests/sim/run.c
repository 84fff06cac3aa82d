/*
 * run.c - one run: who goes next, and when time passes.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sim_fail(struct sim *sim, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)fflush(stdout);
	(void)fprintf(stderr,
		"seed %" PRIu64 ", step %" PRIu64 ", event %" PRIu64 ": %s\n", sim->seed,
		sim->step, sim->trace.events, text);
	_exit(1);
}

uint64_t sim_delay(struct sim *sim)
{
	uint64_t roll = sim_pick(sim, 100);

	if (roll < 70)
		return sim_pick(sim, 50 * NS_US);
	if (roll < 97 || sim->phase != SIM_CHAOS)
		return sim_pick(sim, 2 * NS_MS);
	return sim_pick(sim, 800 * NS_MS);
}

/* ---- who can go ---------------------------------------------------------- */

enum choice_kind {
	CHOICE_THREAD,
	CHOICE_TO_NODE,
	CHOICE_TO_CLIENT,
	CHOICE_DISK,
	CHOICE_TURN
};

struct choice {
	enum choice_kind kind;
	struct thread *thread;
	struct conn *conn;
};

#define CHOICES_MOST (SIM_PROCS * SIM_THREADS + 2 * SIM_CONNS + 4)

static unsigned choices_of_conns(struct sim *sim, struct choice *choices)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SIM_CONNS; i++) {
		struct conn *conn = &sim->conns[i];

		if (conn->id == 0)
			continue;
		if (conn_due_to_node(sim, conn) != NULL)
			choices[count++] = (struct choice){CHOICE_TO_NODE, NULL, conn};
		if (conn->thread != NULL &&
			conn->thread->proc->stopped_until_ns <= sim->world.now_ns &&
			conn_due(sim, &conn->to_client) != NULL)
			choices[count++] = (struct choice){CHOICE_TO_CLIENT, NULL, conn};
	}
	return count;
}

static unsigned find_choices(struct sim *sim, struct choice *choices)
{
	unsigned count = choices_of_conns(sim, choices);

	for (unsigned i = 0; i < SIM_PROCS * SIM_THREADS; i++) {
		struct thread *thread =
			&sim->procs[i / SIM_THREADS].threads[i % SIM_THREADS];

		if (thread_can_step(sim, thread))
			choices[count++] = (struct choice){CHOICE_THREAD, thread, NULL};
	}
	if (disk_is_due(sim)) {
		choices[count++] = (struct choice){CHOICE_DISK, NULL, NULL};
		choices[count++] = (struct choice){CHOICE_DISK, NULL, NULL};
	}
	/* Twice: the daemon is at least as quick as a client. */
	if (daemon_is_due(sim)) {
		choices[count++] = (struct choice){CHOICE_TURN, NULL, NULL};
		choices[count++] = (struct choice){CHOICE_TURN, NULL, NULL};
	}
	return count;
}

/* ---- time ---------------------------------------------------------------- */

static void pass(struct sim *sim, uint64_t ns)
{
	sim->world.now_ns += ns;
	sim->world.wall_us += ns / NS_US;
}

/* Nobody can go on now: the next moment at which somebody can. */
static void pass_to_next(struct sim *sim)
{
	uint64_t now = sim->world.now_ns;
	uint64_t next = MIN(conn_next(sim), proc_next(sim));

	next = MIN(next, sim->daemon.node != NULL ? node_next(sim->daemon.node)
						  : sim->daemon.start_ns);
	if (sim->has_disk && sim->daemon.node != NULL)
		next = MIN(next, sim_tier_next(&sim->tier));
	pass(sim, next > now && next != UINT64_MAX ? next - now : sim_pick(sim, NS_MS));
}

static void pass_some(struct sim *sim)
{
	uint64_t roll = sim_pick(sim, 1000);

	if (roll == 0 && sim->phase == SIM_CHAOS)
		pass(sim, sim_pick(sim, NS_S));
	else if (roll < 10)
		pass(sim, sim_pick(sim, 20 * NS_MS));
	else
		pass(sim, sim_pick(sim, 20 * NS_US));
}

/* ---- one step ------------------------------------------------------------ */

static void start_what_is_due(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		if (!sim->procs[i].alive &&
			sim->procs[i].born_again_ns <= sim->world.now_ns)
			proc_start(sim, &sim->procs[i]);
	}
	if (sim->daemon.node == NULL && sim->daemon.start_ns <= sim->world.now_ns)
		daemon_start(sim);
	else if (sim->daemon.node != NULL && sim_chance(sim, 20))
		(void)daemon_report_exit(sim);
}

void sim_step_once(struct sim *sim)
{
	struct choice choices[CHOICES_MOST];
	const struct choice *choice;
	unsigned count = 0;

	sim->step++;
	pass_some(sim);
	for (unsigned tries = 0; count == 0 && tries < 10; tries++) {
		start_what_is_due(sim);
		count = find_choices(sim, choices);
		if (count == 0)
			pass_to_next(sim);
	}
	if (count == 0)
		return;
	choice = &choices[sim_pick(sim, count)];
	switch (choice->kind) {
	case CHOICE_THREAD:
		thread_step(sim, choice->thread);
		break;
	case CHOICE_TO_NODE:
		conn_deliver_to_node(sim, choice->conn);
		break;
	case CHOICE_TO_CLIENT:
		conn_deliver_to_client(sim, choice->conn);
		break;
	case CHOICE_DISK:
		disk_step(sim);
		break;
	case CHOICE_TURN:
		daemon_step(sim);
		break;
	}
	proc_check_all(sim);
	lease_check_all(sim);
	trace_bytes(&sim->trace, &sim->rng.state[0], sizeof(sim->rng.state[0]));
}

/* ---- a run --------------------------------------------------------------- */

/* With a disk most worlds have more to keep than their pools can: about two of three keys
 * have an object. */
static uint64_t choose_live(struct sim *sim, uint64_t pool)
{
	uint64_t live = pool / 10 * (5 + sim_pick(sim, 25));

	return MAX(live / sim->profile.keys * 3, 64ull);
}

/* The pool, and what is put into it: mostly a small one; a large one, in which relocations
 * are made in pieces; or one of so many small objects that slots run out before bytes. */
static void choose_pool(struct sim *sim)
{
	static const uint64_t pools[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10};
	static const unsigned keys[] = {8, 20, SIM_KEYS};
	struct sim_profile *profile = &sim->profile;
	uint64_t roll = sim_pick(sim, 10);
	struct sim_setup setup = {.pool_size = pools[sim_pick(sim, ARRAY_LEN(pools))],
		.nslots = (uint32_t)(16 + sim_pick(sim, 48)),
		.seed = sim->seed};

	profile->keys = keys[sim_pick(sim, ARRAY_LEN(keys))];
	if (roll == 0) {
		setup.pool_size = 12 << 20;
		setup.nslots = 256;
		profile->keys = 8;
	} else if (roll == 1) {
		setup.pool_size = pools[0];
		profile->keys = SIM_KEYS;
		profile->all_small = true;
	}
	profile->size_most = setup.pool_size / (sim_chance(sim, 50) ? 16 : 64);
	if (profile->keys == SIM_KEYS)
		profile->size_most = setup.pool_size / 128;
	if (profile->disk && !profile->all_small)
		profile->size_most = choose_live(sim, setup.pool_size);
	sim_world_open(&sim->world, &setup);
}

/* Two of three worlds have a disk. */
static void choose_disk_profile(struct sim *sim, bool calm)
{
	struct sim_profile *profile = &sim->profile;

	profile->leases = sim_chance(sim, 60) ? (unsigned)sim_pick(sim, 15) : 0;
	profile->disk = sim_chance(sim, 67);
	if (!profile->disk)
		return;
	profile->softpin = 40 + (unsigned)sim_pick(sim, 60);
	profile->durable = sim_chance(sim, 60) ? (unsigned)sim_pick(sim, 40) : 0;
	profile->troubles = calm ? 0 : (unsigned)sim_pick(sim, 30);
	profile->rots = sim_chance(sim, 40) ? (unsigned)sim_pick(sim, 20) : 0;
	profile->host_losses = !calm && sim_chance(sim, 40)
				       ? 1 + (unsigned)sim_pick(sim, 5)
				       : 0;
}

/* What kind of world the seed has. */
static void choose_profile(struct sim *sim)
{
	bool calm = sim_chance(sim, 15);

	sim->profile = (struct sim_profile){
		.softpin = (unsigned)sim_pick(sim, 90),
		.ttl = (unsigned)sim_pick(sim, 30),
		.readers = sim_chance(sim, 50) ? (unsigned)sim_pick(sim, 50) : 0,
		.split = (unsigned)sim_pick(sim, 100),
		.kills = calm ? 0 : (unsigned)sim_pick(sim, 40),
		.stops = (unsigned)sim_pick(sim, 30),
		.closes = calm ? 0 : (unsigned)sim_pick(sim, 40),
		.daemon_kills = calm ? 0 : (unsigned)sim_pick(sim, 30),
		.faults = sim_chance(sim, 70) ? (unsigned)sim_pick(sim, 80) : 0,
		.drops = calm ? 0 : (unsigned)sim_pick(sim, 60),
		.lost_tells = sim_chance(sim, 50) ? (unsigned)sim_pick(sim, 60) : 0,
		.procs = 2 + (unsigned)sim_pick(sim, SIM_PROCS - 2),
		.views = (unsigned)sim_pick(sim, 5),
		.put_timeout_ns = 50 * NS_MS + sim_pick(sim, 2 * NS_S),
	};
	choose_disk_profile(sim, calm);
	choose_pool(sim);
	sim->config = sim->world.config;
	sim->config.uids[sim->config.uid_count++] = SIM_UID;
	sim->config.put_timeout = sim->profile.put_timeout_ns;
	sim->config.small_limit = 256 + sim_pick(sim, 64 << 10);
	sim->config.max_ops = sim_chance(sim, 20) ? 16 : 64;
	sim->config.max_pins = 64;
	sim->config.max_lanes = 64;
	sim->config.low = sim_pick(sim, 100);
	sim->config.high = sim->config.low + sim_pick(sim, 100);
	sim->config.lease_min = 1 + sim_pick(sim, 500 * NS_MS);
	sim->config.lease_max = sim->config.lease_min + sim_pick(sim, 500 * NS_MS);
	sim->config.disk_cache = sim_pick(sim, 1001);
	if (sim->profile.disk) {
		sim->config.disk = "disk";
		disk_open(sim);
	}
}

static void sim_open(
	struct sim *sim, uint64_t seed, uint64_t steps, bool print, struct cover *cover)
{
	sim->seed = seed;
	sim->steps = steps;
	sim->cover = cover;
	rng_init(&sim->rng, seed);
	choose_profile(sim);
	sim->trace.now_ns = &sim->world.now_ns;
	sim->trace.print = print;
	conn_init(sim);
	daemon_init(sim);
	proc_init(sim);
	oracle_init(sim);
	for (unsigned i = 0; i < sim->profile.procs; i++)
		proc_start(sim, &sim->procs[i]);
}

static void sim_close(struct sim *sim)
{
	daemon_fini(sim);
	proc_fini(sim);
	conn_fini(sim);
	oracle_fini(sim);
	if (sim->has_disk)
		sim_tier_close(&sim->tier);
	sim_world_close(&sim->world);
}

uint64_t sim_run(uint64_t seed, uint64_t steps, bool print, struct cover *cover)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	uint64_t hash;

	CHECK(sim != NULL);
	sim_open(sim, seed, steps, print, cover);
	while (sim->step < steps) {
		chaos_step(sim);
		sim_step_once(sim);
	}
	end_run(sim);
	hash = sim->trace.hash;
	sim_close(sim);
	free(sim);
	return hash;
}
