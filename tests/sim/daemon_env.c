/*
 * daemon_env.c - the world as the daemon has it: struct env over world.c, disk.c and the
 * connections.
 *
 * Each call of the node to its world is a moment at which the oracle looks, the daemon may
 * die, a client may take a step, and blocks may move on the disk: so what happens inside
 * the node's calls is seen, too.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <string.h>

static struct sim *sim_of(void *ctx)
{
	return ctx;
}

static _Noreturn void daemon_dies(struct sim *sim)
{
	CHECK(sim->daemon.in_call);
	longjmp(sim->daemon.death, 1);
}

/* A client goes on while the daemon is inside a call. */
static void someone_steps(struct sim *sim)
{
	struct proc *proc = &sim->procs[sim_pick(sim, SIM_PROCS)];
	struct thread *thread = &proc->threads[sim_pick(sim, SIM_THREADS)];
	struct thread *running = sim->running;

	if (!thread_can_step(sim, thread))
		return;
	sim->daemon.in_hook = sim->daemon.hooked = true;
	thread_step(sim, thread);
	sim->daemon.in_hook = false;
	sim->running = running;
}

static void daemon_calls(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;

	if (!daemon->in_call || daemon->in_hook)
		return;
	oracle_look(sim);
	if (daemon->kill_after > 0 && --daemon->kill_after == 0) {
		trace_event(&sim->trace, "daemon dies inside");
		sim_cover(sim, daemon->starting ? COVER_DAEMON_KILLED_IN_START
						: COVER_DAEMON_KILLED_INSIDE);
		daemon_dies(sim);
	}
	if (sim_chance(sim, 3))
		someone_steps(sim);
	if (sim->has_disk && sim_chance(sim, 3))
		sim_tier_move(&sim->tier);
}

/* ---- clock, random, net ------------------------------------------------------------ */

static uint64_t env_boot_ns(void *ctx)
{
	daemon_calls(sim_of(ctx));
	return sim_of(ctx)->world.now_ns;
}

static uint64_t env_wall_us(void *ctx)
{
	daemon_calls(sim_of(ctx));
	return sim_of(ctx)->world.wall_us;
}

static void env_fill(void *ctx, void *buffer, size_t size)
{
	unsigned char *bytes = buffer;

	daemon_calls(sim_of(ctx));
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)rng_next(&sim_of(ctx)->rng);
}

static void env_send(void *ctx, struct lane_id lane, const void *message, size_t size,
	const struct env_grant *grant)
{
	struct sim *sim = sim_of(ctx);
	struct conn *conn;
	enum msg_type type;

	daemon_calls(sim);
	conn = conn_find(sim, lane.value);
	if (msg_type(message, size, &type) != 0)
		sim_fail(sim, "the daemon sent what is no message");
	if (conn == NULL || !conn->node_open)
		sim_fail(sim, "the daemon sent %s to a lane that is closed",
			msg_name(type));
	if (grant != NULL &&
		sim_counts(&sim->world, grant->cid, grant->incarnation) == NULL)
		sim_fail(sim, "the daemon passed a counts file that is not there");
	trace_event(&sim->trace, "daemon sends %s on %" PRIu64, msg_name(type), conn->id);
	oracle_answers(sim, conn, message, size);
	conn->asked_count = 0;
	if (sim->phase == SIM_CHAOS && sim_pick(sim, 10000) < sim->profile.drops) {
		sim_cover(sim, COVER_LANE_BROKEN);
		conn_break(sim, conn);
		return;
	}
	conn_answer(sim, conn, message, size, grant);
}

static void env_close(void *ctx, struct lane_id lane)
{
	struct sim *sim = sim_of(ctx);
	struct conn *conn;

	daemon_calls(sim);
	conn = conn_find(sim, lane.value);
	if (conn != NULL && conn->node_open)
		conn_break(sim, conn);
}

static int daemon_watches(
	struct sim *sim, const struct env_process *process, uint32_t cid)
{
	struct env_process *watched = &sim->daemon.watched[cid];
	uint64_t gone_ns;

	if (proc_life_of(sim, process, &gone_ns) == PROC_GONE)
		return ERR_NOT_FOUND;
	if (watched->pid != 0 && (watched->pid != process->pid ||
					 watched->start_time != process->start_time))
		return ERR_BUSY;
	*watched = *process;
	return 0;
}

static int env_watch_lane(
	void *ctx, struct lane_id lane, uint32_t cid, struct env_process *ret_process)
{
	struct sim *sim = sim_of(ctx);
	const struct conn *conn;
	struct env_process process;
	int err;

	daemon_calls(sim);
	conn = conn_find(sim, lane.value);
	if (conn == NULL)
		sim_fail(sim, "the daemon watches a lane that is closed");
	process = conn->process;
	/* A join asks who is there, for a client that is watched already. */
	if (sim->daemon.watched[cid].pid != 0) {
		*ret_process = process;
		return 0;
	}
	err = daemon_watches(sim, &process, cid);
	if (err == 0)
		*ret_process = process;
	return err;
}

static int env_watch_process(void *ctx, const struct env_process *process, uint32_t cid)
{
	daemon_calls(sim_of(ctx));
	return daemon_watches(sim_of(ctx), process, cid);
}

static void env_unwatch(void *ctx, uint32_t cid)
{
	daemon_calls(sim_of(ctx));
	sim_of(ctx)->daemon.watched[cid].pid = 0;
}

/* ---- segments ---------------------------------------------------------------------- */

static int env_index_extend(void *ctx, uint64_t offset, uint64_t bytes)
{
	struct sim_world *world = &sim_of(ctx)->world;

	daemon_calls(sim_of(ctx));
	return sim_env(world).disk.index_extend(world, offset, bytes);
}

static int env_holds_make(void *ctx, uint32_t cid, uint32_t incarnation, uint32_t nslots,
	_Atomic uint16_t **ret_counts)
{
	struct sim_world *world = &sim_of(ctx)->world;

	daemon_calls(sim_of(ctx));
	return sim_env(world).disk.holds_make(
		world, cid, incarnation, nslots, ret_counts);
}

static int env_holds_open(
	void *ctx, uint32_t cid, uint32_t incarnation, _Atomic uint16_t **ret_counts)
{
	struct sim_world *world = &sim_of(ctx)->world;

	daemon_calls(sim_of(ctx));
	return sim_env(world).disk.holds_open(world, cid, incarnation, ret_counts);
}

static int env_holds_extend(void *ctx, uint32_t cid, uint32_t nslots)
{
	struct sim_world *world = &sim_of(ctx)->world;

	daemon_calls(sim_of(ctx));
	return sim_env(world).disk.holds_extend(world, cid, nslots);
}

static void env_holds_drop(void *ctx, uint32_t cid, uint32_t incarnation)
{
	struct sim_world *world = &sim_of(ctx)->world;

	daemon_calls(sim_of(ctx));
	sim_env(world).disk.holds_drop(world, cid, incarnation);
}

/* ---- the disk tier ----------------------------------------------------------------- */

static struct env_tier tier_below(void *ctx)
{
	daemon_calls(sim_of(ctx));
	return sim_tier_env(&sim_of(ctx)->tier);
}

static bool env_adopt(void *ctx, uint64_t at, struct tier_record *ret)
{
	struct env_tier tier = tier_below(ctx);

	return tier.adopt(tier.ctx, at, ret);
}

static void env_write(
	void *ctx, uint32_t job, uint64_t off, struct tier_piece *pieces, uint32_t count)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " writes %" PRIu32 " at %" PRIu64,
		job, count, off);
	tier.write(tier.ctx, job, off, pieces, count);
}

static void env_read(void *ctx, uint32_t job, uint64_t off, struct tier_piece *piece)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " reads at %" PRIu64, job, off);
	tier.read(tier.ctx, job, off, piece);
}

static void env_fetch(
	void *ctx, uint32_t job, struct tier_id id, struct tier_piece *piece)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " fetches", job);
	tier.fetch(tier.ctx, job, id, piece);
}

static void env_commit(
	void *ctx, uint32_t job, const struct tier_change *changes, uint32_t count)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " commits %" PRIu32, job, count);
	tier.commit(tier.ctx, job, changes, count);
}

static void env_keys(void *ctx, uint32_t job, const struct tier_id *ids, uint32_t count,
	void *buffer, size_t size)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " asks for keys", job);
	tier.keys(tier.ctx, job, ids, count, buffer, size);
}

static void env_punch(void *ctx, uint32_t job, uint64_t off, uint64_t size)
{
	struct env_tier tier = tier_below(ctx);

	trace_event(&sim_of(ctx)->trace, "job %" PRIu32 " punches at %" PRIu64, job, off);
	sim_cover(sim_of(ctx), COVER_TRIMMED);
	tier.punch(tier.ctx, job, off, size);
}

static uint64_t env_backed(void *ctx)
{
	struct env_tier tier = tier_below(ctx);

	return tier.backed(tier.ctx);
}

static struct env_tier daemon_tier_env(struct sim *sim)
{
	if (!sim->has_disk)
		return (struct env_tier){.ctx = NULL};
	return (struct env_tier){
		.ctx = sim,
		.data_size = sim->tier.setup.data_size,
		.object_limit = sim->tier.setup.object_limit,
		.adopt = env_adopt,
		.write = env_write,
		.read = env_read,
		.fetch = env_fetch,
		.commit = env_commit,
		.keys = env_keys,
		.punch = env_punch,
		.backed = env_backed,
	};
}

static void env_die(void *ctx)
{
	trace_event(&sim_of(ctx)->trace, "daemon dies at a fault point");
	sim_cover(sim_of(ctx), COVER_DAEMON_KILLED_AT_POINT);
	daemon_dies(sim_of(ctx));
}

struct env daemon_env(struct sim *sim)
{
	return (struct env){
		.clock = {sim, env_boot_ns, env_wall_us},
		.net = {sim, env_send, env_close, env_watch_lane, env_watch_process,
			env_unwatch},
		.disk = {sim, env_index_extend, env_holds_make, env_holds_open,
			env_holds_extend, env_holds_drop},
		.tier = daemon_tier_env(sim),
		.random = {sim, env_fill},
		.die = env_die,
		.die_ctx = sim,
	};
}
