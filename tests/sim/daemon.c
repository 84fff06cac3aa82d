/*
 * daemon.c - the node as a process: started, called, and killed at any moment.
 *
 *   none --daemon_start--> runs --daemon_kill--> none
 *                               --death inside a call (longjmp)--> none
 *
 * The memory that is shared stays as the daemon left it; its private memory is gone.
 *
 * Each call of the node to its world is a moment at which the oracle looks, the daemon may
 * die, and a client may take a step: so what happens inside the node's calls is seen, too.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- calls to the world -------------------------------------------------- */

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
}

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

static void env_die(void *ctx)
{
	trace_event(&sim_of(ctx)->trace, "daemon dies at a fault point");
	sim_cover(sim_of(ctx), COVER_DAEMON_KILLED_AT_POINT);
	daemon_dies(sim_of(ctx));
}

static struct env daemon_env(struct sim *sim)
{
	return (struct env){
		.clock = {sim, env_boot_ns, env_wall_us},
		.net = {sim, env_send, env_close, env_watch_lane, env_watch_process,
			env_unwatch},
		.disk = {sim, env_index_extend, env_holds_make, env_holds_open,
			env_holds_extend, env_holds_drop},
		.random = {sim, env_fill},
		.die = env_die,
		.die_ctx = sim,
	};
}

/* ---- faults -------------------------------------------------------------- */

static void daemon_take_point(struct sim *sim, enum fault_point point)
{
	struct daemon *daemon = &sim->daemon;
	uint64_t fired = cover_take_point(sim->cover, &daemon->faults, point);

	if (daemon->armed[point] == FAULT_SLEEP)
		sim->cover->events[COVER_FAULT_SLEPT] += fired;
	if (daemon->armed[point] == FAULT_RETURN_ERROR)
		sim->cover->events[COVER_FAULT_FAILED] += fired;
	daemon->armed[point] = FAULT_NONE;
}

void daemon_arm(struct sim *sim, enum fault_point point, enum fault_action action,
	int64_t value, int64_t from_hit, int64_t times)
{
	struct daemon *daemon = &sim->daemon;

	daemon_take_point(sim, point);
	if (fault_arm(&daemon->faults, fault_point_name(point), action, value, from_hit,
		    times) != 0)
		sim_fail(sim, "a point could not be armed");
	daemon->armed[point] = action;
	if (action == FAULT_RETURN_ERROR)
		sim->errors_armed = true;
}

struct daemon_call {
	enum daemon_event event;
	struct lane_id lane;
	const void *message;
	size_t size;
	uint32_t cid;
};

/* ---- what a call did ----------------------------------------------------- */

static void cover_stats(struct sim *sim, const struct node *node)
{
	const struct master *master = &node->master;
	const struct master_stats *was = &sim->daemon.stats;
	const struct master_stats *is = &master->stats;
	uint64_t *events = sim->cover->events;

	events[COVER_WINDOW] += is->windows - was->windows;
	events[COVER_WINDOW_GIVEN_UP] += is->windows_given_up - was->windows_given_up;
	events[COVER_RELOCATED] += is->relocated - was->relocated;
	events[COVER_EVICTED] += is->evicted - was->evicted;
	events[COVER_GHOST_HIT] += is->ghost_hits - was->ghost_hits;
	events[COVER_PUT_WAITED] += hist_count(&node->room_wait_ns) - sim->daemon.waits >
				    node->stats.timeouts - sim->daemon.timeouts;
	sim->daemon.waits = hist_count(&node->room_wait_ns);
	sim->daemon.timeouts = node->stats.timeouts;
	events[COVER_PARKED] += is->parked_hold + is->parked_pin + is->parked_both -
				was->parked_hold - was->parked_pin - was->parked_both;
}

static void cover_waking(
	struct sim *sim, const struct master *master, enum daemon_event event)
{
	const struct master_stats *was = &sim->daemon.stats;
	uint64_t woken = master->stats.woken - was->woken;
	bool freed = master->condemned.count < sim->daemon.condemned;
	uint64_t *events = sim->cover->events;

	if (event == DAEMON_MESSAGE && master->stats.told > was->told) {
		events[COVER_WOKEN_BY_TELL] += woken;
		events[COVER_FREED_BY_TELL] += freed;
	} else if (event == DAEMON_EXIT) {
		events[COVER_WOKEN_BY_DEATH] += woken;
		events[COVER_FREED_BY_DEATH] += freed;
	} else if (event == DAEMON_STEP && master->stats.sweeps > was->sweeps) {
		events[COVER_WOKEN_BY_SWEEP] += woken;
		events[COVER_FREED_BY_SWEEP] += freed;
	}
}

static void cover_slots(struct sim *sim, const struct master *master)
{
	uint32_t nslots = atomic_load(&master->share->header->nslots);

	if (sim->daemon.nslots != 0 && nslots > sim->daemon.nslots)
		sim_cover(sim, COVER_SLOTS_GROWN);
	sim->daemon.nslots = nslots;
	if (master->free_slots + nslots - master->slots_used <=
			master->room.granted_count &&
		!list_is_empty(&master->room.waiting))
		sim_cover(sim, COVER_SLOTS_FULL);
}

/* Who looked at the slot left it off the lists only if something blocks it still; not after
 * a client's step in between, whose message is on its way. */
static void check_looked(struct sim *sim, uint32_t slot)
{
	const struct master *master = node_master(sim->daemon.node);
	const struct object *object = &master->objects[slot];

	if (object->list != OBJECT_CONDEMNED &&
		(object->list != OBJECT_PARKED || object->relook))
		return;
	if (!hold_look(&master->watch, slot) && object->pins == 0 &&
		!(master->room.move.busy && master->room.move.from == slot))
		sim_fail(sim, "slot %" PRIu32 " waits for nobody, and was not woken",
			slot);
}

static void check_all_looked(struct sim *sim)
{
	for (uint32_t slot = 0; slot < sim->daemon.nslots; slot++)
		check_looked(sim, slot);
}

static void daemon_called(struct sim *sim, const struct daemon_call *call)
{
	enum daemon_event event = call->event;
	struct node *node = sim->daemon.node;
	const struct master *master = node_master(node);
	const char *broken = node_check(node);
	struct msg_tell tell;

	if (broken != NULL)
		sim_fail(sim, "node_check: %s", broken);
	if (!sim->daemon.hooked &&
		(event == DAEMON_START ||
			(event == DAEMON_EXIT && !node->clients[call->cid].live)))
		check_all_looked(sim);
	if (!sim->daemon.hooked && event == DAEMON_MESSAGE &&
		master->stats.told > sim->daemon.stats.told &&
		msg_tell_decode(call->message, call->size, &tell) == 0 &&
		tell.slot < sim->daemon.nslots)
		check_looked(sim, tell.slot);
	sim_check_holes(&sim->world);
	cover_stats(sim, node);
	cover_waking(sim, master, event);
	cover_slots(sim, master);
	sim->daemon.stats = master->stats;
	sim->daemon.condemned = master->condemned.count;
	sim->daemon.dirty |= event != DAEMON_STEP;
}

/* ---- life ---------------------------------------------------------------- */

void daemon_init(struct sim *sim)
{
	fault_init(&sim->daemon.faults);
}

void daemon_fini(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;

	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++)
		daemon_take_point(sim, (enum fault_point)i);
	node_free(daemon->node);
	daemon->node = NULL;
}

/* What others see of its death. */
static void daemon_is_dead(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;

	daemon->node = NULL;
	daemon->has_more = daemon->dirty = false;
	daemon->kill_after = 0;
	memset(daemon->watched, 0, sizeof(daemon->watched));
	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++)
		daemon_take_point(sim, (enum fault_point)i);
	fault_init(&daemon->faults);
	conn_daemon_died(sim);
	daemon->start_ns = sim->world.now_ns +
			   (sim_chance(sim, 20) ? sim_pick(sim, 3 * NS_S)
						: sim_pick(sim, 50 * NS_MS));
}

static void cover_death(struct sim *sim)
{
	const struct master *master = node_master(sim->daemon.node);

	if (master->room.move.busy)
		sim_cover(sim, COVER_DAEMON_KILLED_COPYING);
	if (master->room.window.owner != NULL)
		sim_cover(sim, COVER_DAEMON_KILLED_CLEARING);
}

void daemon_kill(struct sim *sim)
{
	trace_event(&sim->trace, "daemon killed");
	sim_cover(sim, COVER_DAEMON_KILLED);
	cover_death(sim);
	node_free(sim->daemon.node);
	daemon_is_dead(sim);
}

static int daemon_do(struct sim *sim, const struct daemon_call *call)
{
	struct daemon *daemon = &sim->daemon;
	struct recovery recovery;
	int err;

	switch (call->event) {
	case DAEMON_START:
		err = node_start(daemon->node, &recovery);
		if (err == 0 && recovery.adopted > 0)
			sim_cover(sim, COVER_DAEMON_ADOPTED);
		if (err == 0 && recovery.writing > 0)
			sim_cover(sim, COVER_DAEMON_KEPT_PUT);
		return err;
	case DAEMON_OPEN:
		node_on_open(daemon->node, call->lane, SIM_UID);
		return 0;
	case DAEMON_MESSAGE:
		node_on_message(daemon->node, call->lane, call->message, call->size);
		return 0;
	case DAEMON_CLOSE:
		node_on_close(daemon->node, call->lane);
		return 0;
	case DAEMON_EXIT:
		node_on_exit(daemon->node, call->cid);
		return 0;
	case DAEMON_STEP:
		daemon->has_more = node_step(daemon->node);
		return 0;
	}
	NOT_REACHED("no such event");
}

/* False: it died of it. */
static bool daemon_call(struct sim *sim, const struct daemon_call *call)
{
	struct daemon *daemon = &sim->daemon;
	int err;

	daemon->starting = call->event == DAEMON_START;
	daemon->hooked = false;
	daemon->in_call = true;
	if (setjmp(daemon->death) != 0) {
		daemon->in_call = false;
		oracle_look(sim);
		cover_death(sim);
		node_free(daemon->node);
		daemon_is_dead(sim);
		return false;
	}
	err = daemon_do(sim, call);
	daemon->in_call = false;
	if (err != 0)
		sim_fail(sim, "the daemon does not start: %s", err_name(err));
	oracle_look(sim);
	daemon_called(sim, call);
	daemon->starting = false;
	return true;
}

void daemon_start(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;
	struct daemon_call call = {.event = DAEMON_START};
	struct env env = daemon_env(sim);

	trace_event(&sim->trace, "daemon starts");
	if (node_new(&daemon->node, &sim->config, &env, &sim->world.share,
		    &daemon->faults) != 0)
		sim_fail(sim, "no memory for a node");
	memset(&daemon->stats, 0, sizeof(daemon->stats));
	daemon->condemned = 0;
	daemon->waits = daemon->timeouts = 0;
	daemon->idle_steps = 0;
	if (sim->phase == SIM_CHAOS && sim_chance(sim, 10))
		daemon->kill_after = 1 + sim_pick(sim, 12);
	if (!daemon_call(sim, &call))
		return;
	daemon->kill_after = 0;
	sim->tell_lost = false;
}

void daemon_open(struct sim *sim, struct conn *conn)
{
	struct daemon_call call = {.event = DAEMON_OPEN, .lane = {conn->id}};

	(void)daemon_call(sim, &call);
}

void daemon_message(struct sim *sim, struct conn *conn, const void *message, size_t size)
{
	struct daemon_call call = {.event = DAEMON_MESSAGE,
		.lane = {conn->id},
		.message = message,
		.size = size};
	enum msg_type type;

	if (msg_type(message, size, &type) != 0)
		sim_fail(sim, "a client sent what is no message");
	trace_event(&sim->trace, "daemon gets %s on %" PRIu64, msg_name(type), conn->id);
	(void)daemon_call(sim, &call);
}

void daemon_close(struct sim *sim, struct conn *conn)
{
	struct daemon_call call = {.event = DAEMON_CLOSE, .lane = {conn->id}};

	trace_event(&sim->trace, "daemon sees %" PRIu64 " closed", conn->id);
	if (!daemon_call(sim, &call))
		return;
	conn->node_open = false;
	conn->asked_count = 0;
}

bool daemon_report_exit(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;
	uint64_t gone_ns;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		struct daemon_call call = {.event = DAEMON_EXIT, .cid = cid};
		struct env_process *watched = &daemon->watched[cid];

		if (watched->pid == 0 ||
			proc_life_of(sim, watched, &gone_ns) != PROC_GONE)
			continue;
		trace_event(
			&sim->trace, "daemon is told of the end of client %" PRIu32, cid);
		watched->pid = 0;
		(void)daemon_call(sim, &call);
		return true;
	}
	return false;
}

bool daemon_is_due(const struct sim *sim)
{
	const struct daemon *daemon = &sim->daemon;

	return daemon->node != NULL &&
	       (daemon->has_more || daemon->dirty ||
		       node_next(daemon->node) <= sim->world.now_ns);
}

/* What is over is ended in the turn that finds nothing more to do. */
static void check_nothing_is_due(struct sim *sim)
{
	const struct master *master = node_master(sim->daemon.node);
	const struct share *share = &sim->world.share;

	for (uint32_t slot = 0; slot < sim->daemon.nslots; slot++) {
		const struct slot *there = &share->slots[slot];

		if (slot_kind_of(atomic_load(&there->state)) == SLOT_READY &&
			there->flags & SLOT_EXPIRES &&
			there->expires <= sim->world.now_ns &&
			master->objects[slot].list != OBJECT_MOVING)
			sim_fail(sim, "slot %" PRIu32 " is past its time to live", slot);
	}
}

/* Whether a put of the key is under way, for which another may wait. */
static bool is_being_put(const struct sim *sim, uint64_t hash)
{
	for (uint32_t at = 0; at < sim->daemon.nslots; at++) {
		const struct slot *slot = &sim->world.share.slots[at];

		if (slot_kind_of(atomic_load(&slot->state)) == SLOT_WRITING &&
			slot->hash == hash &&
			!(slot->flags & (SLOT_LATE | SLOT_DOOMED | SLOT_COPY)))
			return true;
	}
	return false;
}

/* Who waits for a key waits for something that has not happened yet. */
static void check_waiters(struct sim *sim)
{
	const struct node *node = sim->daemon.node;

	for (uint32_t i = 0; i < node->config.max_ops; i++) {
		const struct op *op = &node->ops[i];

		if (op->stage != OP_RUNNING || op->asleep ||
			list_is_empty(&op->wait_entry) || !list_is_empty(&op->entry))
			continue;
		if (master_find(&node->master, &op->key) != SLOT_NONE)
			sim_fail(sim, "a request waits for a key that is there");
		if (op->service->type != MSG_TYPE_GET && !is_being_put(sim, op->key.hash))
			sim_fail(sim, "a put waits for another that is not there");
	}
}

void daemon_step(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;
	struct daemon_call call = {.event = DAEMON_STEP};
	bool was_asked = daemon->dirty || daemon->has_more;

	daemon->dirty = false;
	if (!daemon_call(sim, &call) || daemon->has_more)
		return;
	check_nothing_is_due(sim);
	check_waiters(sim);
	daemon->idle_steps = was_asked ? 0 : daemon->idle_steps + 1;
	if (daemon->idle_steps > 1000 && node_next(daemon->node) <= sim->world.now_ns)
		sim_fail(sim, "the daemon turns and turns and has nothing to do");
}
