/*
 * chaos.c - what goes wrong while the clients work: kills, stops, faults, clock jumps.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <stdlib.h>

static bool due(struct sim *sim, unsigned per_10000)
{
	return sim_pick(sim, 10000) < per_10000;
}

static struct proc *some_proc(struct sim *sim)
{
	struct proc *proc = &sim->procs[sim_pick(sim, sim->profile.procs)];

	return proc->alive ? proc : NULL;
}

static void stop_one(struct sim *sim)
{
	struct proc *proc = some_proc(sim);
	uint64_t ns;

	if (proc == NULL)
		return;
	ns = sim_chance(sim, 30) ? sim_pick(sim, 20 * NS_S) : sim_pick(sim, 20 * NS_MS);
	proc->stopped_until_ns = sim->world.now_ns + ns;
	if (ns > NS_S)
		sim_cover(sim, COVER_CLIENT_STOPPED);
	trace_event(&sim->trace, "process %u stops for %" PRIu64 " ns", proc->index, ns);
}

static void close_one(struct sim *sim)
{
	struct proc *proc = some_proc(sim);
	struct thread *thread;

	if (proc == NULL || proc->stopped_until_ns > sim->world.now_ns)
		return;
	thread = &proc->threads[sim_pick(sim, SIM_THREADS)];
	if (thread->conn == NULL)
		return;
	sim_cover(sim, COVER_LANE_CLOSED);
	thread_close(sim, thread);
}

static void kill_daemon(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;

	if (daemon->node == NULL || daemon->kill_after > 0)
		return;
	if (sim_chance(sim, 40)) {
		daemon_kill(sim);
		return;
	}
	daemon->kill_after = 1 + sim_pick(sim, 40);
	trace_event(&sim->trace, "daemon is to die");
}

/* Any of the daemon's; more often the one that makes a move last. */
static enum fault_point node_point(struct sim *sim)
{
	enum fault_point point;

	if (sim_chance(sim, 25))
		return FAULT_NODE_BEFORE_MOVE_PUBLISH;
	do {
		point = (enum fault_point)sim_pick(sim, FAULT_POINT_COUNT);
	} while (fault_point_is_client(point));
	return point;
}

static void arm_one(struct sim *sim)
{
	enum fault_point point;
	int64_t from, times;

	if (!FAULT_BUILD || sim->daemon.node == NULL)
		return;
	point = node_point(sim);
	from = 1 + (int64_t)sim_pick(sim, 4);
	times = 1 + (int64_t)sim_pick(sim, 2);
	trace_event(&sim->trace, "fault at %s", fault_point_name(point));
	switch (sim_pick(sim, 6)) {
	case 0:
		daemon_arm(sim, point, FAULT_KILL, 0, from, 1);
		break;
	case 1:
	case 2:
		daemon_arm(sim, point, FAULT_RETURN_ERROR, SIM_INJECTED, from, times);
		break;
	default:
		daemon_arm(sim, point, FAULT_SLEEP, (int64_t)sim_pick(sim, 300), from,
			times);
		break;
	}
}

static void jump_clock(struct sim *sim)
{
	int64_t day = 86400ll * 1000000;
	int64_t by = (int64_t)sim_pick(sim, 2 * (uint64_t)day) - day;

	sim->world.wall_us = (uint64_t)((int64_t)sim->world.wall_us + by);
	sim_cover(sim, COVER_CLOCK_JUMPED);
	trace_event(&sim->trace, "the wall clock jumps by %" PRId64 " us", by);
}

void chaos_step(struct sim *sim)
{
	const struct sim_profile *profile = &sim->profile;
	struct proc *proc;

	if (due(sim, profile->kills)) {
		proc = some_proc(sim);
		if (proc != NULL)
			proc_kill(sim, proc);
	}
	if (due(sim, profile->stops))
		stop_one(sim);
	if (due(sim, profile->closes))
		close_one(sim);
	if (due(sim, profile->daemon_kills))
		kill_daemon(sim);
	if (due(sim, profile->faults))
		arm_one(sim);
	if (due(sim, 2))
		jump_clock(sim);
	if (due(sim, sim->world.disk_is_full ? 200 : 3)) {
		sim->world.disk_is_full = !sim->world.disk_is_full;
		sim->disk_was_full = true;
		trace_event(&sim->trace, "the memory's disk is full: %d",
			sim->world.disk_is_full);
	}
	disk_chaos_step(sim);
}

void chaos_end(struct sim *sim)
{
	sim->world.disk_is_full = false;
	disk_chaos_end(sim);
	sim->daemon.kill_after = 0;
	for (unsigned i = 0; FAULT_BUILD && i < FAULT_POINT_COUNT; i++) {
		if (!fault_point_is_client((enum fault_point)i))
			daemon_arm(sim, (enum fault_point)i, FAULT_RESET, 0, 0, 0);
	}
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		sim->procs[i].stopped_until_ns = 0;
		sim->procs[i].born_again_ns = UINT64_MAX;
	}
}
