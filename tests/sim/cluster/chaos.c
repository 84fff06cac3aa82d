/*
 * chaos.c - storms and calms. In a storm something goes wrong now and then, and is repaired
 * after a while; in a calm everything is whole, and after SIM_SETTLE_NS nothing may fail any
 * more. Clients die and wall clocks jump in both.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdlib.h>

enum repair_kind {
	REPAIR_WAY,      /* from one host to another */
	REPAIR_OFFICE,   /* a host's way to the directory */
	REPAIR_REGISTRY, /* everybody's */
	REPAIR_SPEED     /* of the directory */
};

struct repair {
	struct list entry;
	enum repair_kind kind;
	unsigned a, b;
	uint64_t due_ns;
};

/* ---- repairs ------------------------------------------------------------- */

static void repair_do(struct sim *sim, const struct repair *repair)
{
	struct host *host = &sim->hosts[repair->a];

	switch (repair->kind) {
	case REPAIR_WAY:
		sim->cut[repair->a][repair->b] = false;
		if (!sim->cut[repair->b][repair->a]) {
			trouble_ends(sim, TROUBLE_CUT, repair->a, repair->b);
			trouble_ends(sim, TROUBLE_CUT, repair->b, repair->a);
		}
		return;
	case REPAIR_OFFICE:
		registry_cut(sim, host, false);
		trouble_ends(sim, TROUBLE_DIR, repair->a, 0);
		return;
	case REPAIR_REGISTRY:
		registry_cut(sim, NULL, false);
		trouble_ends(sim, TROUBLE_DIR, TROUBLE_ALL, REPAIR_REGISTRY);
		return;
	case REPAIR_SPEED:
		sim->registry.slow = false;
		trouble_ends(sim, TROUBLE_DIR, TROUBLE_ALL, REPAIR_SPEED);
		return;
	}
	NOT_REACHED("no such repair");
}

static void repair_plan(
	struct sim *sim, enum repair_kind kind, unsigned a, unsigned b, uint64_t due_ns)
{
	struct repair *repair = calloc(1, sizeof(*repair));

	CHECK(repair != NULL);
	*repair = (struct repair){.kind = kind, .a = a, .b = b, .due_ns = due_ns};
	list_add_tail(&sim->repairs, &repair->entry);
}

static void repairs_step(struct sim *sim, uint64_t until_ns)
{
	list_for_each_safe (at, &sim->repairs) {
		struct repair *repair = container_of(at, struct repair, entry);

		if (repair->due_ns > until_ns)
			continue;
		repair_do(sim, repair);
		list_del(at);
		free(repair);
	}
}

/* Mostly shorter than anybody's patience, sometimes longer than all. */
static uint64_t how_long(struct sim *sim)
{
	uint64_t roll = sim_pick(sim, 10);

	if (roll < 4)
		return sim_pick(sim, 300 * NS_MS);
	return roll < 8 ? sim_pick(sim, 2 * NS_S) : sim_pick(sim, 8 * NS_S);
}

/* ---- troubles ------------------------------------------------------------ */

static struct host *some_host(struct sim *sim)
{
	return &sim->hosts[sim_pick(sim, sim->profile.hosts)];
}

static void cut_way(struct sim *sim, unsigned a, unsigned b, uint64_t until_ns)
{
	if (a == b || sim->cut[a][b])
		return;
	trace_event(&sim->trace, "from host %u to %u nothing goes through", a, b);
	sim->cut[a][b] = true;
	trouble_begins(sim, TROUBLE_CUT, a, b);
	repair_plan(sim, REPAIR_WAY, a, b, until_ns);
}

static void cut_office(struct sim *sim, struct host *host, uint64_t until_ns)
{
	if (host->office.cut)
		return;
	trace_event(&sim->trace, "host %u cannot reach the directory", host->index);
	sim_cover(sim, COVER_DIR_CUT);
	registry_cut(sim, host, true);
	trouble_begins(sim, TROUBLE_DIR, host->index, 0);
	repair_plan(sim, REPAIR_OFFICE, host->index, 0, until_ns);
}

static void cut_one_way(struct sim *sim)
{
	unsigned a = some_host(sim)->index, b = some_host(sim)->index;
	uint64_t until_ns = sim->now_ns + how_long(sim);

	sim_cover(sim, COVER_CUT_ONE_WAY);
	cut_way(sim, a, b, until_ns);
}

static void cut_both_ways(struct sim *sim)
{
	unsigned a = some_host(sim)->index, b = some_host(sim)->index;
	uint64_t until_ns = sim->now_ns + how_long(sim);

	cut_way(sim, a, b, until_ns);
	cut_way(sim, b, a, until_ns);
}

/* One against all others, maybe without the directory. */
static void isolate(struct sim *sim)
{
	struct host *host = some_host(sim);
	uint64_t until_ns = sim->now_ns + how_long(sim);

	sim_cover(sim, COVER_ISOLATED);
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		cut_way(sim, host->index, i, until_ns);
		cut_way(sim, i, host->index, until_ns);
	}
	if (sim_chance(sim, 50))
		cut_office(sim, host, until_ns);
}

static void break_one(struct sim *sim)
{
	uint64_t skip = sim_pick(sim, 20);

	list_for_each (at, &sim->wires) {
		if (skip-- > 0)
			continue;
		wire_break(sim, container_of(at, struct wire, entry));
		return;
	}
}

static void kill_this(struct sim *sim, struct host *host, bool with_host)
{
	if (!host_is_up(host))
		return;
	if (!with_host && !host->leaves && host_is_awake(host) && sim_chance(sim, 30))
		host_leave(host);
	else if (with_host || sim_chance(sim, 50))
		host_kill(host, with_host);
	else
		host->kill_after = 1 + sim_pick(sim, 60);
}

static void kill_one(struct sim *sim, bool with_host)
{
	kill_this(sim, some_host(sim), with_host);
}

static void stop_one(struct sim *sim)
{
	struct host *host = some_host(sim);

	if (!host_is_awake(host))
		return;
	host->stopped_ns = sim->now_ns + how_long(sim) / 2 + 1;
	trace_event(&sim->trace, "host %u stops for a while", host->index);
	sim_cover(sim, COVER_STOPPED);
	trouble_begins(sim, TROUBLE_STOPPED, host->index, 0);
}

static void registry_goes(struct sim *sim)
{
	if (sim->registry.away)
		return;
	trace_event(&sim->trace, "nobody can reach the directory");
	sim_cover(sim, COVER_DIR_AWAY);
	registry_cut(sim, NULL, true);
	trouble_begins(sim, TROUBLE_DIR, TROUBLE_ALL, REPAIR_REGISTRY);
	repair_plan(sim, REPAIR_REGISTRY, 0, 0, sim->now_ns + how_long(sim));
}

static void slow_registry(struct sim *sim, uint64_t until_ns)
{
	trace_event(&sim->trace, "the directory is slow");
	sim->registry.slow = true;
	trouble_begins(sim, TROUBLE_DIR, TROUBLE_ALL, REPAIR_SPEED);
	repair_plan(sim, REPAIR_SPEED, 0, 0, until_ns);
}

static void registry_slows(struct sim *sim)
{
	if (!sim->registry.slow)
		slow_registry(sim, sim->now_ns + how_long(sim));
}

static void registry_fails(struct sim *sim, bool all)
{
	unsigned domain = (unsigned)sim_pick(sim, sim->registry.domains);

	trace_event(&sim->trace, "the directory forgets %s of domain %u",
		all ? "all" : "the last", domain);
	sim_cover(sim, all ? COVER_DIR_FLUSHED : COVER_DIR_FAILED_OVER);
	trouble_note(sim, TROUBLE_DIR, TROUBLE_ALL, SIM_HOSTS);
	registry_forget(sim, domain, all);
}

/* One that is away for long, and a directory that does not remember what it has. */
static void isolate_and_forget(struct sim *sim)
{
	struct host *host = some_host(sim);
	uint64_t until_ns = sim->now_ns + 4 * NS_S + sim_pick(sim, 6 * NS_S);

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		cut_way(sim, host->index, i, until_ns);
		cut_way(sim, i, host->index, until_ns);
	}
	cut_office(sim, host, until_ns);
	registry_fails(sim, true);
	/* Others have to notice. */
	sim->phase_end_ns = MAX(sim->phase_end_ns, until_ns);
}

/* Who has copies of what one host alone keeps finds out that it is gone, and the directory is slow:
 * the others are at it as well. */
static void lose_only_keeper(struct sim *sim)
{
	struct host *host = host_find_only_keeper(sim);
	uint64_t until_ns = sim->now_ns + 5 * NS_S + sim_pick(sim, 2 * NS_S);

	if (host == NULL || !host_is_up(host))
		return;
	host_kill(host, true);
	host->start_ns = MAX(host->start_ns, until_ns);
	if (!sim->registry.slow)
		slow_registry(sim, until_ns);
	sim->phase_end_ns = MAX(sim->phase_end_ns, until_ns);
}

static void arm_one(struct sim *sim)
{
	struct host *host = some_host(sim);
	enum fault_point point;
	bool kills = sim_chance(sim, 25);

	if (!FAULT_BUILD || !host_is_up(host))
		return;
	do {
		point = (enum fault_point)sim_pick(sim, FAULT_POINT_COUNT);
	} while (fault_point_is_client(point));
	trace_event(&sim->trace, "host %u: fault at %s", host->index,
		fault_point_name(point));
	CHECK(fault_arm(&host->world.faults, fault_point_name(point),
		      kills ? FAULT_KILL : FAULT_SLEEP, (int64_t)sim_pick(sim, 400),
		      1 + (int64_t)sim_pick(sim, 4), 1) == 0);
	trouble_note(sim, TROUBLE_STOPPED, host->index, SIM_HOSTS);
}

static void trouble_choose(struct sim *sim)
{
	if (sim->profile.hands && sim_chance(sim, 50)) {
		snare_set(sim);
		return;
	}
	if (sim->profile.heirs && sim_chance(sim, 30)) {
		lose_only_keeper(sim);
		return;
	}
	switch (sim_pick(sim, 16)) {
	case 0:
	case 1:
		cut_one_way(sim);
		return;
	case 2:
		cut_both_ways(sim);
		return;
	case 3:
		isolate(sim);
		return;
	case 4:
		break_one(sim);
		return;
	case 5:
	case 6:
		kill_one(sim, false);
		return;
	case 7:
		kill_one(sim, true);
		return;
	case 8:
		stop_one(sim);
		return;
	case 9:
		cut_office(sim, some_host(sim), sim->now_ns + how_long(sim));
		return;
	case 10:
		registry_goes(sim);
		return;
	case 11:
		registry_slows(sim);
		return;
	case 12:
		registry_fails(sim, true);
		return;
	case 13:
		registry_fails(sim, false);
		return;
	case 14:
		isolate_and_forget(sim);
		return;
	default:
		arm_one(sim);
		return;
	}
}

/* ---- hand-overs ---------------------------------------------------------- */

/* A client somewhere that has nothing to do removes the object just then. */
static void remove_handed(struct sim *sim, uint32_t key)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct proc *proc = &sim->hosts[i].procs[0];

		if (!proc->alive || proc->task.kind != TASK_NONE || proc->read != NULL)
			continue;
		sim_cover(sim, COVER_CUT_REMOVED);
		proc->wait_ns = sim->now_ns;
		task_begin(proc, TASK_REMOVE, key);
		return;
	}
}

static void cut_hand_over(struct sim *sim, const struct snare *snare)
{
	struct host *giver = snare->giver, *taker = snare->taker;
	struct host *one = sim_chance(sim, 50) ? giver : taker;
	uint64_t until_ns = sim->now_ns + how_long(sim);

	trace_event(
		&sim->trace, "cut while host %u gives to %u", giver->index, taker->index);
	if (snare->key < SIM_KEYS && sim_chance(sim, 50)) {
		remove_handed(sim, snare->key);
		return;
	}
	switch (sim_pick(sim, 8)) {
	case 0:
	case 1:
		kill_this(sim, one, false);
		return;
	case 2:
		kill_this(sim, one, true);
		return;
	case 3:
		kill_this(sim, giver, sim_chance(sim, 50));
		kill_this(sim, taker, false);
		return;
	case 4:
		cut_way(sim, giver->index, taker->index, until_ns);
		cut_way(sim, taker->index, giver->index, until_ns);
		return;
	case 5:
		cut_office(sim, one, until_ns);
		return;
	case 6:
		registry_goes(sim);
		return;
	default:
		registry_fails(sim, sim_chance(sim, 50));
		return;
	}
}

static void snare_look(struct sim *sim)
{
	struct snare snare;

	if (snare_sprung(sim, &snare) && sim->phase == SIM_STORM)
		cut_hand_over(sim, &snare);
}

static void drain_some(struct sim *sim)
{
	sim->drain_ns = sim->now_ns + sim_about(sim, 6 * NS_S);
	drain_plan(some_host(sim));
}

/* ---- what excuses nobody ------------------------------------------------- */

static void kill_client(struct sim *sim)
{
	struct proc *proc = &some_host(sim)->procs[sim_pick(sim, SIM_JANITOR)];

	if (proc->alive)
		proc_kill(proc);
}

/* By less than the day that nobody believes. */
static void jump_clock(struct sim *sim)
{
	struct host *host = some_host(sim);
	int64_t hour = 3600ll * 1000000;
	int64_t by = (int64_t)sim_pick(sim, 8 * (uint64_t)hour) - 4 * hour;
	int64_t off = (int64_t)(host_boot_ns(host) / NS_US) + host->wall_us + by -
		      (int64_t)SIM_WALL_US;

	/* All of them together stay within it, too. */
	if (off < -5 * hour || off > 5 * hour)
		return;
	host->wall_us += by;
	sim_cover(sim, COVER_CLOCK_JUMPED);
	trace_event(&sim->trace, "the wall clock of host %u jumps by %" PRId64 " us",
		host->index, by);
}

bool noise_is_due(struct sim *sim)
{
	if (sim->phase != SIM_STORM || sim_pick(sim, 10000) >= sim->profile.noise)
		return false;
	trouble_note(sim, TROUBLE_DIR, TROUBLE_ALL, SIM_HOSTS);
	return true;
}

/* ---- weather ------------------------------------------------------------- */

static bool is_whole(const struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!host_is_awake(&sim->hosts[i]))
			return false;
	}
	return list_is_empty(&sim->repairs);
}

void chaos_init(struct sim *sim)
{
	sim->phase = SIM_CALM;
	sim->phase_end_ns = sim->now_ns + NS_S + sim_pick(sim, 5 * NS_S);
	sim->gust_ns = sim->now_ns + NS_S;
	sim->drain_ns = sim->now_ns + 3 * NS_S;
}

void chaos_fini(struct sim *sim)
{
	repairs_step(sim, UINT64_MAX);
}

void chaos_heal(struct sim *sim)
{
	repairs_step(sim, UINT64_MAX);
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct host *host = &sim->hosts[i];

		if (host->leaves)
			host_kill(host, false);
		host->start_ns = MIN(host->start_ns, sim->now_ns);
		host->stopped_ns = MIN(host->stopped_ns, sim->now_ns);
		host->kill_after = 0;
		for (unsigned at = 0; FAULT_BUILD && at < FAULT_POINT_COUNT; at++) {
			if (!fault_point_is_client((enum fault_point)at))
				CHECK(fault_arm(&host->world.faults,
					      fault_point_name((enum fault_point)at),
					      FAULT_RESET, 0, 0, 0) == 0);
		}
	}
}

static void phase_ends(struct sim *sim)
{
	bool calm = sim->phase == SIM_STORM;

	sim->phase = calm ? SIM_CALM : SIM_STORM;
	trace_event(&sim->trace, "---- %s", calm ? "calm" : "storm");
	if (calm)
		chaos_heal(sim);
	sim->phase_end_ns = sim->now_ns +
			    (calm ? sim->profile.calm_ns : sim->profile.storm_ns);
}

static void gust(struct sim *sim)
{
	sim->gust_ns = sim->now_ns + sim_about(sim, sim->profile.gust_ns);
	if (sim_chance(sim, 10))
		kill_client(sim);
	if (sim_chance(sim, 5))
		jump_clock(sim);
	if (sim->phase == SIM_STORM && (sim->profile.wild || is_whole(sim)))
		trouble_choose(sim);
}

void chaos_step(struct sim *sim)
{
	repairs_step(sim, sim->now_ns);
	if (sim->profile.drains)
		drains_look(sim);
	if (sim->phase == SIM_GATHER)
		return;
	snare_look(sim);
	if (sim->profile.drains && sim->drain_ns <= sim->now_ns)
		drain_some(sim);
	if (sim->phase_end_ns <= sim->now_ns)
		phase_ends(sim);
	if (sim->gust_ns <= sim->now_ns)
		gust(sim);
}

uint64_t chaos_next(const struct sim *sim)
{
	uint64_t next = sim->phase == SIM_GATHER ? UINT64_MAX
						 : MIN(sim->phase_end_ns, sim->gust_ns);

	next = MIN(next, drains_next(sim));
	if (sim->profile.drains && sim->phase != SIM_GATHER)
		next = MIN(next, sim->drain_ns);

	list_for_each (at, &sim->repairs)
		next = MIN(next, container_of(at, struct repair, entry)->due_ns);
	return next;
}
