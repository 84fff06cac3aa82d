/*
 * end.c - the quiet end of a run: no more faults, and all that waits must end.
 *
 *   gather   what was begun is finished, every client is attached to the daemon
 *   press    a put that needs most of the pool, maybe a remove of all: holds stand in the way
 *   heal     what is held is released; nothing may stay parked or ended without a holder
 *   fill     a small disk and its pool take what they can, and all of it can be read
 *   clean    a last client wakes who waits, removes everything, and fills the whole pool
 *   leave    all clients end; nothing of them may be left
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <string.h>

/* Each wait that a run can begin is over by then. */
#define GATHER_NS  (30 * NS_S)
#define QUIET_NS   (5 * NS_S)
#define STEPS_MOST 1000000u

typedef bool (*condition_fn)(struct sim *sim);

static void run_until(
	struct sim *sim, condition_fn condition, uint64_t most_ns, const char *what)
{
	uint64_t end = sim->world.now_ns + most_ns;
	uint64_t steps = sim->step + STEPS_MOST;

	while (!condition(sim)) {
		if (sim->world.now_ns > end || sim->step > steps)
			sim_fail(sim, "%s", what);
		sim_step_once(sim);
	}
}

static struct thread *thread_at(struct sim *sim, unsigned i)
{
	return &sim->procs[i / SIM_THREADS].threads[i % SIM_THREADS];
}

#define THREADS (SIM_PROCS * SIM_THREADS)

/* ---- what is quiet ------------------------------------------------------- */

static bool thread_is_idle(const struct thread *thread)
{
	return thread->task.kind == TASK_NONE && thread->tell_count == 0 &&
	       thread->proc->orphan_count == 0 && thread->proc->read_count == 0;
}

/* It waits for ever: for a key; or, while others hold what they have, for room in which to
 * read from the disk. */
static bool thread_waits(const struct sim *sim, const struct thread *thread)
{
	const struct task *task = &thread->task;
	bool for_key = task->kind == TASK_GET && task->flags & GET_WAIT;
	bool for_room = sim->has_disk && sim->phase == SIM_GATHER &&
			(task->kind == TASK_GET || task->kind == TASK_TAKE ||
				task->kind == TASK_LEASE);

	return (for_key || for_room) && task->timeout_ns == UINT64_MAX &&
	       thread->call.stage == CALL_SENT && !thread->call.gave_up;
}

static bool conns_are_quiet(const struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		if (conn->id != 0 && (!list_is_empty(&conn->to_node) ||
					     (conn->thread != NULL &&
						     !list_is_empty(&conn->to_client))))
			return false;
	}
	return true;
}

static bool ends_are_told(const struct sim *sim)
{
	uint64_t gone_ns;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		const struct env_process *watched = &sim->daemon.watched[cid];

		if (watched->pid != 0 &&
			proc_life_of(sim, watched, &gone_ns) != PROC_LIVES)
			return false;
	}
	return true;
}

/* All have come to rest, but for who waits for a key. */
static bool is_quiet(struct sim *sim)
{
	for (unsigned i = 0; i < THREADS; i++) {
		const struct thread *thread = thread_at(sim, i);

		if (!thread->proc->alive)
			continue;
		if (!thread_is_idle(thread) && !thread_waits(sim, thread))
			return false;
		if (sim->phase == SIM_HEAL && thread_can_step(sim, thread))
			return false;
	}
	return sim->daemon.node != NULL && !daemon_is_due(sim) && disk_is_quiet(sim) &&
	       ends_are_told(sim) && conns_are_quiet(sim);
}

static bool is_quiet_for_long(struct sim *sim)
{
	uint64_t next;

	if (!is_quiet(sim))
		return false;
	next = node_next(sim->daemon.node);
	return next == UINT64_MAX || next > sim->world.now_ns + NS_S;
}

/* ---- gather -------------------------------------------------------------- */

/* Every thread that has nothing to do gets a connection. */
static void attach_all(struct sim *sim)
{
	for (unsigned i = 0; i < THREADS; i++) {
		struct thread *thread = thread_at(sim, i);

		if (!thread->proc->alive || thread->task.kind != TASK_NONE)
			continue;
		memset(&thread->task, 0, sizeof(thread->task));
		thread->task.kind = TASK_ATTACH;
	}
}

static void gather(struct sim *sim)
{
	sim->phase = SIM_GATHER;
	chaos_end(sim);
	trace_event(&sim->trace, "gather");
	run_until(
		sim, is_quiet, GATHER_NS, "something did not end, though nothing fails");
	attach_all(sim);
	run_until(sim, is_quiet, QUIET_NS, "a client could not attach");
	/* Whose releases were lost so far is looked at when the next client attaches. */
	sim->tell_lost = false;
	proc_start(sim, &sim->procs[SIM_JANITOR]);
	attach_all(sim);
	run_until(sim, is_quiet, QUIET_NS, "the last client could not attach");
}

/* ---- janitor --------------------------------------------------------------- */

static struct thread *janitor(struct sim *sim)
{
	return &sim->procs[SIM_JANITOR].threads[0];
}

static bool janitor_is_idle(struct sim *sim)
{
	return thread_is_idle(janitor(sim));
}

static void janitor_remove(struct sim *sim, uint32_t key)
{
	struct task *task = &janitor(sim)->task;

	memset(task, 0, sizeof(*task));
	task->kind = TASK_REMOVE;
	task->key = key;
	run_until(sim, janitor_is_idle, QUIET_NS, "a remove does not end");
	if (sim->oracle.keys[key].object != NULL)
		sim_fail(sim, "key %" PRIu32 " cannot be removed", key);
}

static struct put *janitor_try(
	struct sim *sim, uint32_t key, uint64_t size, uint64_t timeout_ns)
{
	struct thread *thread = janitor(sim);
	struct put *put = oracle_put(
		sim, thread->proc->ref, ++thread->proc->ops, key, size, true, 0);

	put_begin_as(sim, thread, put, timeout_ns);
	run_until(sim, janitor_is_idle, QUIET_NS, "a put does not end");
	return put;
}

static void janitor_put(struct sim *sim, uint32_t key, uint64_t size)
{
	if (janitor_try(sim, key, size, 4 * NS_S)->object == NULL)
		sim_fail(sim, "%" PRIu64 " bytes do not fit into an empty pool", size);
}

static void remove_all(struct sim *sim)
{
	for (uint32_t key = 0; key < sim->profile.keys; key++)
		janitor_remove(sim, key);
}

/* ---- press ------------------------------------------------------------------------- */

static void press(struct sim *sim)
{
	uint64_t pool = sim->world.share.header->pool_size;
	uint32_t key = (uint32_t)sim_pick(sim, sim->profile.keys);

	trace_event(&sim->trace, "press");
	(void)janitor_try(sim, key, pool / 4 * 3, sim_pick(sim, 300 * NS_MS));
	if (sim_chance(sim, sim->has_disk ? 30 : 70))
		remove_all(sim);
}

/* ---- heal ---------------------------------------------------------------- */

/* Of a list of those that wait for a release: who all wait for a key still hold theirs. */
static void check_none_waits(struct sim *sim, uint32_t slot, const char *what)
{
	const struct master *master = node_master(sim->daemon.node);

	for (; slot != SLOT_NONE; slot = master->objects[slot].next) {
		if (!hold_look(&master->watch, slot))
			sim_fail(sim,
				"slot %" PRIu32 " %s, and nobody holds it: a wake-up was "
				"lost",
				slot, what);
	}
}

static void check_nothing_sleeps(struct sim *sim)
{
	const struct node *node = sim->daemon.node;
	const struct master *master = &node->master;

	for (uint32_t i = 0; i < node->config.max_lanes; i++) {
		struct list *first = list_first(&node->lanes[i].pins);

		if (node->lanes[i].id.value != 0 && first != NULL)
			sim_fail(sim, "slot %" PRIu32 " stays pinned for lane %" PRIu64,
				container_of(first, struct pin, entry)->slot,
				node->lanes[i].id.value);
	}
	if (master->room.granted_count != 0 || !list_is_empty(&master->room.waiting))
		sim_fail(sim, "a ticket is left over");
	if (master->room.move.busy)
		sim_fail(sim, "a relocation is left over");
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (master->writing[cid].count != 0)
			sim_fail(sim,
				"a put of client %" PRIu32 " in slot %" PRIu32
				" is left over",
				cid, master->writing[cid].head);
	}
	if (sim->tell_lost)
		return;
	check_none_waits(sim, master->parked.head, "is parked");
	check_none_waits(sim, master->condemned.head, "ended");
}

static void heal(struct sim *sim)
{
	sim->phase = SIM_HEAL;
	trace_event(&sim->trace, "heal");
	run_until(sim, is_quiet_for_long, QUIET_NS,
		"what was released does not come to rest");
	check_nothing_sleeps(sim);
}

/* ---- read back --------------------------------------------------------------------- */

static void janitor_get(struct sim *sim, uint32_t key)
{
	struct thread *thread = janitor(sim);
	struct task *task = &thread->task;
	const struct sim_object *object = sim->oracle.keys[key].object;
	uint64_t moves = object != NULL ? object->moves : 0;

	memset(task, 0, sizeof(*task));
	task->kind = TASK_GET;
	task->key = key;
	task->timeout_ns = 4 * NS_S;
	run_until(sim, janitor_is_idle, QUIET_NS, "a get does not end");
	if (object == NULL || object->ended != 0)
		return;
	/* It may have left again since. */
	if (object->places == 0 && object->moves == moves && object->put->softpin &&
		!object->bad)
		sim_fail(sim, "key %" PRIu32 " cannot be read back", key);
	if (object->moves > 0)
		sim_cover(sim, COVER_READ_BACK);
}

/* Put until nothing more is taken, neither by the pool nor by a disk that is small. */
static void fill(struct sim *sim)
{
	uint64_t pool = sim->world.share.header->pool_size;
	unsigned refused = 0;

	if (!sim->has_disk || sim->tier.setup.data_size > 2 * pool)
		return;
	trace_event(&sim->trace, "fill");
	for (uint32_t key = 0; key < sim->profile.keys && refused < 3; key++) {
		if (sim->oracle.keys[key].object != NULL)
			continue;
		if (janitor_try(sim, key, 1 + sim_pick(sim, pool / 3), 50 * NS_MS)
				->object == NULL)
			refused++;
	}
	if (refused == 3)
		sim_cover(sim, COVER_ALL_FULL);
}

/* What is there can be read, wherever it is. */
static void read_back(struct sim *sim)
{
	trace_event(&sim->trace, "read back");
	for (uint32_t key = 0; key < sim->profile.keys; key++)
		janitor_get(sim, key);
	run_until(sim, is_quiet, QUIET_NS, "what was read back does not come to rest");
	disk_check_rest(sim);
}

/* ---- clean ------------------------------------------------------------------------- */

static bool nobody_waits(struct sim *sim)
{
	for (unsigned i = 0; i < THREADS; i++) {
		if (thread_at(sim, i)->proc->alive &&
			thread_waits(sim, thread_at(sim, i)))
			return false;
	}
	return is_quiet(sim);
}

static void wake_all(struct sim *sim)
{
	for (unsigned i = 0; i < THREADS; i++) {
		struct thread *thread = thread_at(sim, i);
		uint32_t key = thread->task.key;

		if (thread->proc->alive && thread_waits(sim, thread) &&
			sim->oracle.keys[key].object == NULL)
			janitor_put(sim, key, 100);
	}
	run_until(sim, nobody_waits, QUIET_NS, "a get waits for a key that is there");
}

static void check_is_empty(struct sim *sim)
{
	struct pool_use use;

	master_use(node_master(sim->daemon.node), &use);
	if (use.free != use.size || use.objects != 0)
		sim_fail(sim,
			"everything was removed, and of %" PRIu64 " bytes %" PRIu64
			" are free, %" PRIu64 " condemned, %" PRIu64 " being written",
			use.size, use.free, use.condemned, use.writing);
	disk_check_empty(sim);
	if (sim->daemon.node->ops_used != 0 && !sim->config.max_ops)
		sim_fail(sim, "an operation is left over");
}

static bool is_empty(struct sim *sim)
{
	return is_quiet_for_long(sim);
}

static void clean(struct sim *sim)
{
	uint64_t pool = sim->world.share.header->pool_size;

	trace_event(&sim->trace, "clean");
	remove_all(sim);
	wake_all(sim);
	remove_all(sim);
	/* Whatever release was not told of: who waits for room gets it all the same. */
	janitor_put(sim, 0, pool - KEY_LIMIT);
	janitor_remove(sim, 0);
	run_until(sim, is_empty, QUIET_NS, "an empty node does not come to rest");
	check_is_empty(sim);
}

/* ---- leave --------------------------------------------------------------- */

static bool all_have_left(struct sim *sim)
{
	for (unsigned i = 0; i < THREADS; i++) {
		if (thread_at(sim, i)->proc->alive && !thread_is_idle(thread_at(sim, i)))
			return false;
	}
	return is_quiet(sim);
}

static void check_nobody_is_left(struct sim *sim)
{
	const struct node *node = sim->daemon.node;

	if (node->clients_live != 0)
		sim_fail(sim, "a client is left over");
	if (node->lanes_used != 0)
		sim_fail(sim, "a connection is left over");
	if (node->ops_used != 0)
		sim_fail(sim, "an operation is left over");
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (sim->world.holds[cid].counts != NULL)
			sim_fail(sim,
				"the counts file of client %" PRIu32 " is left over",
				cid);
	}
}

static void leave(struct sim *sim)
{
	sim->phase = SIM_LEAVE;
	trace_event(&sim->trace, "leave");
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		struct proc *proc = &sim->procs[i];

		if (!proc->alive || !proc->attached || sim_chance(sim, 50))
			continue;
		memset(&proc->threads[0].task, 0, sizeof(proc->threads[0].task));
		proc->threads[0].task.kind = TASK_BYE;
		proc->leaving = true;
	}
	run_until(sim, all_have_left, QUIET_NS, "a good-bye does not end");
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		if (sim->procs[i].alive)
			proc_kill(sim, &sim->procs[i]);
		sim->procs[i].born_again_ns = UINT64_MAX;
	}
	run_until(sim, all_have_left, QUIET_NS, "the end of a process is not noticed");
	check_nobody_is_left(sim);
}

void end_run(struct sim *sim)
{
	gather(sim);
	press(sim);
	heal(sim);
	fill(sim);
	read_back(sim);
	clean(sim);
	leave(sim);
	daemon_kill(sim);
	daemon_start(sim);
	check_is_empty(sim);
	check_nobody_is_left(sim);
	trace_bytes(&sim->trace, sim->world.index,
		share_index_size(sim->world.share.header->slots_limit));
}
