/*
 * end.c - the quiet end of a run: no trouble is left, and all that waits must end.
 *
 *   gather   what was begun is finished; what is held is released
 *   settle   errands, queries, fetches and leases run out; every epoch is complete; what has a
 *            time to live is over
 *   agree    nodes and directory have the same (end_check.c)
 *   read     one last client of each node reads every key: all find the same
 *   clean    everything is removed; nothing is left anywhere
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <string.h>

#define GATHER_NS             (60 * NS_S)
#define QUIET_NS              (40 * NS_S)
#define ONE_NS                (30 * NS_S) /* for one task of a last client */
#define RESTS_OF_SHORT_LEASES 10
#define RELEASE_NS            (500 * NS_MS) /* shorter than any lease but those of short_leases */
#define REST_NS               (2 * NS_S)
#define STEPS_MOST            2000000u

typedef bool (*condition_fn)(struct sim *sim);

static void run_until(
	struct sim *sim, condition_fn condition, uint64_t most_ns, const char *what)
{
	uint64_t end_ns = sim->now_ns + most_ns;
	uint64_t steps = sim->step + STEPS_MOST;

	while (!condition(sim)) {
		if (sim->now_ns > end_ns || sim->step > steps)
			sim_fail(sim, "%s", what);
		sim_turn(sim);
	}
}

static struct proc *proc_at(struct sim *sim, unsigned i)
{
	return &sim->hosts[i / SIM_PROCS].procs[i % SIM_PROCS];
}

static unsigned procs_count(const struct sim *sim)
{
	return sim->profile.hosts * SIM_PROCS;
}

/* ---- gather -------------------------------------------------------------- */

static bool proc_is_idle(const struct proc *proc)
{
	return !proc->alive || (proc->task.kind == TASK_NONE && proc->tell_count == 0 &&
				       proc->call.stage == CALL_NONE);
}

static bool all_are_idle(struct sim *sim)
{
	for (unsigned i = 0; i < procs_count(sim); i++) {
		if (!proc_is_idle(proc_at(sim, i)))
			return false;
	}
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!host_is_awake(&sim->hosts[i]))
			return false;
	}
	return true;
}

static void attach_all(struct sim *sim)
{
	for (unsigned i = 0; i < procs_count(sim); i++) {
		struct proc *proc = proc_at(sim, i);

		if (i % SIM_PROCS == SIM_JANITOR)
			proc_start(proc);
		if (proc->alive)
			task_begin(proc, TASK_ATTACH, 0);
	}
	run_until(sim, all_are_idle, GATHER_NS, "a client cannot attach");
}

/* False: no client holds anything, or has a read to report. */
static bool release_one(struct proc *proc)
{
	if (!proc->alive)
		return false;
	for (unsigned i = 0; i < SIM_VIEWS && proc->read == NULL; i++) {
		if (!proc->views[i].open)
			continue;
		task_begin(proc, TASK_RELEASE, proc->views[i].key);
		proc->task.view = &proc->views[i];
		return true;
	}
	if (proc->read != NULL)
		task_begin(proc, TASK_REPORT, proc->read->key);
	return proc->task.kind != TASK_NONE;
}

static void release_all(struct sim *sim)
{
	bool more = true;

	while (more) {
		more = false;
		for (unsigned i = 0; i < procs_count(sim); i++)
			more |= release_one(proc_at(sim, i));
		run_until(sim, all_are_idle, GATHER_NS, "a release does not end");
	}
}

static void gather(struct sim *sim)
{
	trace_event(&sim->trace, "---- gather");
	sim->phase = SIM_GATHER;
	chaos_heal(sim);
	for (unsigned i = 0; i < procs_count(sim); i++)
		proc_at(sim, i)->born_ns = UINT64_MAX;
	run_until(sim, all_are_idle, GATHER_NS,
		"a call does not end, though nothing fails");
	attach_all(sim);
	release_all(sim);
}

/* ---- settle -------------------------------------------------------------- */

static bool is_handing_over(const struct node *node)
{
	for (uint32_t i = 0; i < HAND_LIMIT; i++) {
		if (node->cluster.swapouts[i].busy)
			return true;
	}
	return node->cluster.keeping > 0;
}

static bool is_yielding(const struct node *node)
{
	for (uint32_t i = 0; i < YIELDS_AT_ONCE; i++) {
		if (node->cluster.yieldings[i].asked > 0)
			return true;
	}
	return false;
}

static const char *host_is_busy(const struct sim *sim, const struct host *host)
{
	const struct node *node = host->world.node;
	const struct cluster *cluster = &node->cluster;

	if (cluster->errand_count > 0)
		return "has errands";
	if (!list_is_empty(&cluster->superseded))
		return "has not told who holds what it has replaced";
	if (cluster->fetches_used > 0)
		return "fetches";
	if (node->ops_used > 0)
		return "serves";
	if (is_handing_over(node))
		return "hands over what it keeps";
	/* One that is drained leaves that to others. */
	if (!host_is_drained(host) &&
		(cluster->rebuilder.claims || cluster->rebuilder.pass == REBUILD_CLAIMS))
		return "claims what it has copies of";
	if (is_yielding(node))
		return "asks who else keeps what it keeps";
	if (node->pins_used > 0)
		return "has pins";
	if (node->master.leases.count > 0)
		return "has leases";
	if (host->has_disk &&
		(!sim_tier_is_quiet(&host->tier) || node->master.disk.changes.count > 0))
		return "is busy with its disk";
	if (cluster->announcer.busy)
		return "announces";
	for (unsigned i = 0; i < sim->registry.domains; i++) {
		if (!cluster->domains[i].complete || cluster->domains[i].wanted ||
			cluster->domains[i].epoch != dir_mem_epoch(sim->registry.mem, i))
			return "has an epoch that is not complete";
	}
	return NULL;
}

/* The first that is, and why; NULL: none. */
static const char *sim_is_busy(const struct sim *sim, unsigned *ret_host)
{
	for (*ret_host = 0; *ret_host < sim->profile.hosts; ++*ret_host) {
		const char *busy = host_is_busy(sim, &sim->hosts[*ret_host]);

		if (busy != NULL)
			return busy;
	}
	*ret_host = 0;
	if (!list_is_empty(&sim->transfers))
		return "has transfers";
	return NULL;
}

static bool is_settled(struct sim *sim)
{
	unsigned host;

	return sim_is_busy(sim, &host) == NULL && put_find_short(sim, true) == NULL;
}

static void settle_until(struct sim *sim, uint64_t until_ns)
{
	unsigned host;

	while (!is_settled(sim)) {
		const char *busy = sim_is_busy(sim, &host);
		const struct put *put = put_find_short(sim, true);

		if (put != NULL)
			until_ns = MAX(
				until_ns, put_swept_until(sim, put) + SIM_SETTLE_NS);
		if (sim->now_ns > until_ns && busy == NULL && put != NULL)
			sim_fail(sim,
				"nothing fails, and put %" PRIu64
				" of key %s has fewer keepers than it could",
				put->id, key_name(sim, put->key));
		if (sim->now_ns > until_ns)
			sim_fail(sim, "nothing fails, and host %u still %s", host, busy);
		sim_turn(sim);
	}
}

/* Past this nothing with a time to live is there any more. */
static uint64_t last_expiry_ns(const struct sim *sim)
{
	uint64_t last = sim->now_ns + SIM_SETTLE_NS;

	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			const struct put *put = container_of(at, struct put, entry);

			last = MAX(last, put->began_ns + put->ttl_ns / 8 * 10 +
						 (put->ttl_ns > 0 ? SIM_SETTLE_NS : 0));
		}
	}
	return last;
}

/* ---- rest ---------------------------------------------------------------- */

/* Bytes that went from a keeper to another, or to a reader, so far. */
static uint64_t bytes_moved(const struct sim *sim)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct node *node = sim->hosts[i].world.node;

		bytes += node->master.cluster.kept_bytes +
			 node->master.cluster.handed_bytes +
			 node->cluster.stats.fetched_bytes;
	}
	return bytes;
}

static void pass(struct sim *sim, uint64_t ns)
{
	uint64_t until_ns = sim->now_ns + ns;

	while (sim->now_ns < until_ns)
		sim_turn(sim);
}

/* Nobody asks for anything: after a while nodes do not pass to each other what they keep. */
static void rest(struct sim *sim)
{
	/* With leases that are too short a second keeper is found by luck, at some time. */
	unsigned tries = sim->profile.short_leases ? RESTS_OF_SHORT_LEASES : 1;
	uint64_t before;

	trace_event(&sim->trace, "---- rest");
	pass(sim, REST_NS);
	do {
		before = bytes_moved(sim);
		pass(sim, REST_NS);
	} while (bytes_moved(sim) != before && --tries > 0);
	/* Who is short tries again for ever; where there is no room, in vain. */
	if (bytes_moved(sim) != before &&
		!(sim->profile.is_tight && put_find_short(sim, false) != NULL))
		sim_fail(sim,
			"nothing is asked for, and %" PRIu64
			" bytes went from node to node",
			bytes_moved(sim) - before);
}

static void settle(struct sim *sim)
{
	uint64_t until_ns = last_expiry_ns(sim);

	trace_event(&sim->trace, "---- settle");
	while (sim->now_ns < until_ns)
		sim_turn(sim);
	settle_until(sim, sim->now_ns + QUIET_NS);
	end_check(sim, false);
	rest(sim);
}

/* ---- the last clients ---------------------------------------------------- */

static struct proc *janitor(struct sim *sim, unsigned host)
{
	return &sim->hosts[host].procs[SIM_JANITOR];
}

static struct task *janitor_does(
	struct sim *sim, unsigned host, enum task_kind kind, uint32_t key)
{
	struct proc *proc = janitor(sim, host);

	task_begin(proc, kind, key);
	proc->task.timeout_ns = 5 * NS_S;
	run_until(sim, all_are_idle, ONE_NS, "a task of a last client does not end");
	return &proc->task;
}

/* Who had counted its reads died before all had heard that they were over, as somebody could not be
 * told, and the directory has forgotten it, too. */
static bool end_is_forgotten(const struct sim *sim, const struct put *put)
{
	uint64_t since = put->read_out_ns - MIN(put->read_out_ns, SIM_SETTLE_NS);

	return sim->registry.forgot_ns > put->read_out_ns &&
	       trouble_was(sim, since, put->read_out_ns) &&
	       keeper_was_away(sim, SIM_HOSTS, put, put->read_out_ns, sim->now_ns);
}

/* A keeper took what it had counted with it, and who has it now had a copy of earlier. */
static bool count_is_lost(const struct sim *sim, const struct put *put)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (put->kept_ns[i] != 0 && sim->hosts[i].lost_ns > put->began_ns)
			return true;
	}
	return false;
}

static void check_may_be_read(struct sim *sim, unsigned host, const struct put *put)
{
	if (put_has_expired(put, sim->now_ns - SIM_SETTLE_NS))
		sim_fail(sim,
			"host %u: put %" PRIu64 " of key %s is past its time to live",
			host, put->id, key_name(sim, put->key));
	if (put->readers > 0 && put->reports_done >= put->readers && !put->repeated &&
		put->softpin && !end_is_forgotten(sim, put) && !count_is_lost(sim, put))
		sim_fail(sim,
			"host %u: put %" PRIu64
			" of key %s is there after all of its reads",
			host, put->id, key_name(sim, put->key));
}

/* A node that met the keeper's new pool knows that it is lost, another does not. */
static int answer_class(int code)
{
	return code == ERR_LOST ? ERR_UNAVAILABLE : code;
}

static bool ran_out(int result)
{
	return result == ERR_LEASE_EXPIRED || result == ERR_TIMEOUT ||
	       result == ERR_UNAVAILABLE;
}

/* In a tight pool there may be no room, and a cache object may go; a lease that is short may be
 * too short for one of them. */
static bool may_differ(const struct sim *sim, int result, int other)
{
	return sim->profile.is_tight ||
	       (sim->profile.short_leases && (ran_out(result) || ran_out(other)));
}

static bool no_lease_runs(struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].world.node->master.leases.count > 0)
			return false;
	}
	return true;
}

/* What every node finds. */
static void read_key(struct sim *sim, uint32_t key)
{
	unsigned first = (unsigned)sim_pick(sim, sim->profile.hosts);
	struct put *put = NULL;
	int result = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		unsigned host = (first + i) % sim->profile.hosts;
		const struct task *task = janitor_does(sim, host, TASK_GET, key);

		if (task->found != NULL)
			check_may_be_read(sim, host, task->found);
		if (i == 0) {
			put = task->found;
			result = task->result;
		}
		if (may_differ(sim, task->result, result))
			continue;
		if (task->found != put ||
			answer_class(task->result) != answer_class(result))
			sim_fail(sim,
				"key %s: host %u finds put %" PRIu64 " (%s), host %u put "
				"%" PRIu64 " (%s)",
				key_name(sim, key), first, put == NULL ? 0 : put->id,
				err_name(result), host,
				task->found == NULL ? 0 : task->found->id,
				err_name(task->result));
	}
	if (put != NULL)
		sim_cover(sim, COVER_ALL_AGREE);
	run_until(
		sim, no_lease_runs, RELEASE_NS, "a lease outlives the fetch it was for");
}

static void read_all(struct sim *sim)
{
	trace_event(&sim->trace, "---- read");
	for (uint32_t key = 0; key < sim->profile.keys; key++)
		read_key(sim, key);
	settle_until(sim, sim->now_ns + QUIET_NS);
	end_check(sim, true);
	rest(sim);
}

/* ---- clean --------------------------------------------------------------- */

static void remove_key(struct sim *sim, uint32_t key)
{
	unsigned host = (unsigned)sim_pick(sim, sim->profile.hosts);
	const struct task *task = janitor_does(sim, host, TASK_REMOVE, key);

	if (task->result != 0 && task->result != ERR_NOT_FOUND)
		sim_fail(sim, "host %u: key %s cannot be removed: %s", host,
			key_name(sim, key), err_name(task->result));
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		task = janitor_does(sim, i, TASK_GET, key);
		if (task->result != ERR_NOT_FOUND)
			sim_fail(sim, "host %u: key %s was removed, and a get is told %s",
				i, key_name(sim, key), err_name(task->result));
	}
}

static void check_is_empty(struct sim *sim, struct host *host)
{
	struct pool_use use;

	master_use(node_master(host->world.node), &use);
	/* What is withheld for loads goes with the next that needs it. */
	if (use.free + use.withheld != use.size || use.objects != 0)
		sim_fail(sim,
			"host %u: everything was removed, and of %" PRIu64
			" bytes %" PRIu64 " are free, %" PRIu64 " condemned, %" PRIu64
			" being written, %" PRIu64 " withheld, %" PRIu64
			" parked, %" PRIu64 " objects",
			host->index, use.size, use.free, use.condemned, use.writing,
			use.withheld, use.parked, use.objects);
}

static void clean(struct sim *sim)
{
	trace_event(&sim->trace, "---- clean");
	for (uint32_t key = 0; key < sim->profile.keys; key++)
		remove_key(sim, key);
	settle_until(sim, sim->now_ns + QUIET_NS);
	for (unsigned i = 0; i < sim->profile.hosts; i++)
		check_is_empty(sim, &sim->hosts[i]);
	end_check(sim, true);
}

void end_run(struct sim *sim)
{
	gather(sim);
	settle(sim);
	read_all(sim);
	clean(sim);
}
