/*
 * daemon.c - the node as a process: started, called, and killed at any moment.
 *
 *   none --daemon_start--> runs --daemon_kill--> none
 *                               --death inside a call (longjmp)--> none
 *
 * The memory that is shared stays as the daemon left it; its private memory is gone.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>

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
	uint32_t job;
	int err;
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

/* Its bytes, or its record, are on their way to the disk. */
static bool has_io(const struct master *master, const struct object *object)
{
	const struct disk_entry *entry;

	if (object->disk == DISK_NONE)
		return false;
	entry = &master->disk.entries[object->disk];
	return entry->state == DISK_SAVING || entry->committing != DISK_NO_CHANGE ||
	       entry->change != DISK_NO_CHANGE;
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
		!(master->room.move.busy && master->room.move.from == slot) &&
		sim->world.share.slots[slot].lease_end <= sim->world.now_ns &&
		!has_io(master, object))
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
	const char *broken = SIM_ASKS_NODE ? node_check(node) : NULL;
	struct msg_tell tell;
	struct msg_lease_end end;

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
	/* The last one sets it to 0: then whoever waited for it was looked at. */
	if (!sim->daemon.hooked && event == DAEMON_MESSAGE &&
		master->stats.leases_released > sim->daemon.stats.leases_released &&
		msg_lease_end_decode(call->message, call->size, &end) == 0 &&
		sim->world.share.slots[end.slot].lease_end == 0)
		check_looked(sim, end.slot);
	sim_check_holes(&sim->world);
	cover_stats(sim, node);
	cover_waking(sim, master, event);
	cover_slots(sim, master);
	disk_cover_call(sim);
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

static void cover_death(struct sim *sim)
{
	const struct master *master = node_master(sim->daemon.node);

	if (master->room.move.busy)
		sim_cover(sim, COVER_DAEMON_KILLED_COPYING);
	if (master->room.window.owner != NULL)
		sim_cover(sim, COVER_DAEMON_KILLED_CLEARING);
	disk_cover_death(sim);
}

/* Its jobs end before its memory goes. */
static void daemon_is_dead(struct sim *sim)
{
	struct daemon *daemon = &sim->daemon;

	cover_death(sim);
	disk_daemon_dies(sim);
	node_free(daemon->node);
	daemon->node = NULL;
	daemon->has_more = daemon->dirty = false;
	daemon->kill_after = 0;
	memset(daemon->watched, 0, sizeof(daemon->watched));
	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++)
		daemon_take_point(sim, (enum fault_point)i);
	fault_init(&daemon->faults);
	conn_daemon_died(sim);
	oracle_daemon_died(sim);
	daemon->start_ns = sim->world.now_ns +
			   (sim_chance(sim, 20) ? sim_pick(sim, 3 * NS_S)
						: sim_pick(sim, 50 * NS_MS));
}

void daemon_kill(struct sim *sim)
{
	trace_event(&sim->trace, "daemon killed");
	sim_cover(sim, COVER_DAEMON_KILLED);
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
	case DAEMON_TIER:
		node_on_tier(daemon->node, call->job, call->err);
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
	memset(&daemon->seen, 0, sizeof(daemon->seen));
	daemon->condemned = 0;
	daemon->waits = daemon->timeouts = 0;
	daemon->idle_steps = 0;
	if (sim->phase == SIM_CHAOS && sim_chance(sim, 10))
		daemon->kill_after = 1 + sim_pick(sim, 12);
	if (!daemon_call(sim, &call))
		return;
	daemon->kill_after = 0;
	sim->tell_lost = false;
	oracle_daemon_started(sim);
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

void daemon_tier(struct sim *sim, uint32_t job, int err)
{
	struct daemon_call call = {.event = DAEMON_TIER, .job = job, .err = err};

	trace_event(&sim->trace, "job %" PRIu32 " ends: %s", job, err_name(err));
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
	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		const struct sim_object *object = sim->oracle.keys[key].object;

		if (object != NULL && object->places == 0 && object->put->ttl_ns != 0 &&
			object->expires <= sim->world.now_ns)
			sim_fail(sim, "key %" PRIu32 " is past its time to live on disk",
				key);
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

/* Whether the op waits for something that is still to come. */
static bool waits_well(const struct sim *sim, const struct op *op)
{
	const struct master *master = &sim->daemon.node->master;
	enum msg_type type = op->service->type;
	bool there = master_find(master, &op->key) != SLOT_NONE;

	/* A read goes on to its end, whatever became of the object. */
	if (type == MSG_TYPE_GET || type == MSG_TYPE_LEASE)
		return !there &&
		       ((op->load != NULL && op->load->state == LOADS_READ) ||
			       (op->load != NULL) ==
				       (master_disk_find(master, &op->key) != DISK_NONE));
	if (type == MSG_TYPE_LIST)
		return true;
	if (type == MSG_TYPE_REMOVE || type == MSG_TYPE_TAKE)
		return master_disk_ends(master, &op->key);
	if (type ==
		MSG_TYPE_READ) /* it may be on its way back, and its count to the disk */
		return master->disk.committing > 0 || master->disk.changes.count > 0;
	return op->saves || master_disk_ends(master, &op->key) ||
	       (!there && is_being_put(sim, op->key.hash));
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
		if (op->service->type == MSG_TYPE_REMOVE)
			sim_cover(sim, COVER_REMOVE_WAITED);
		if (!waits_well(sim, op))
			sim_fail(sim, "a %s waits for what has come",
				msg_name(op->service->type));
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
