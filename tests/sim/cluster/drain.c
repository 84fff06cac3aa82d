/*
 * drain.c - nodes are emptied, and those that say that they are empty may be thrown away.
 *
 *   drain_plan --a client there asks--> drained --its client asks again--> serves
 *                                         '--empty, after a while--> off, with pool and disk
 *
 * Of an empty node nothing is missed: that is checked by keeper_lost().
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "node/node_priv.h"

enum ask_stage {
	ASKS_SEND,
	ASKS_ANSWER
};

bool host_is_drained(const struct host *host)
{
	return host_is_up(host) && node_is_drained(host->world.node);
}

bool host_was_drained(const struct host *host, uint64_t since)
{
	return host_is_drained(host) ||
	       (host->drained_ns != 0 && host->drained_ns >= since);
}

/* ---- orders -------------------------------------------------------------- */

void drain_plan(struct host *host)
{
	host->drain_wish = host_is_drained(host) ? DRAIN_WISH_END : DRAIN_WISH_BEGIN;
}

bool drain_choose(struct proc *proc)
{
	struct host *host = proc->host;

	if (host->drain_wish == DRAIN_WISH_NONE)
		return false;
	task_begin(proc, TASK_DRAIN, 0);
	return true;
}

void drain_task_step(struct proc *proc)
{
	struct host *host = proc->host;
	struct sim *sim = host->sim;
	struct msg_drain msg = {.begin = host->drain_wish == DRAIN_WISH_BEGIN};
	int code;

	if (proc->task.stage == ASKS_SEND) {
		host->drain_wish = DRAIN_WISH_NONE;
		call_begin(proc, msg_drain_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, false);
		proc->task.stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code != 0 && code != ERR_RPC_FAIL)
		sim_fail(sim, "host %u: a drain is refused: %s", host->index,
			err_name(code));
	if (code == 0)
		sim_cover(sim, host_is_drained(host) ? COVER_DRAINED : COVER_UNDRAINED);
	task_end(proc);
}

/* ---- empty --------------------------------------------------------------- */

static bool is_empty(const struct host *host)
{
	return host_is_up(host) && host->world.node->cluster.drain.state == DRAIN_EMPTY;
}

/* What it keeps, though it says that it keeps nothing. */
static void check_is_empty(struct host *host)
{
	struct sim *sim = host->sim;

	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			const struct put *put = container_of(at, struct put, entry);

			if (put_must_be_there(sim, put, sim->now_ns, sim->now_ns) &&
				host_keeps(host, key, put->generation))
				sim_fail(sim,
					"host %u says that it is empty, and keeps put "
					"%" PRIu64 " of key %s",
					host->index, put->id, key_name(sim, key));
		}
	}
}

static void empty_look(struct host *host)
{
	struct sim *sim = host->sim;

	if (!is_empty(host)) {
		host->leave_ns = 0;
		return;
	}
	if (host->leave_ns == 0) {
		sim_cover(sim, COVER_EMPTY);
		check_is_empty(host);
		host->leave_ns = sim->now_ns + sim_about(sim, 2 * NS_S);
	}
	if (host->leave_ns > sim->now_ns || sim->phase == SIM_GATHER ||
		!host_is_awake(host))
		return;
	sim_cover(sim, COVER_THROWN_AWAY);
	host->leave_ns = 0;
	host->was_empty = true;
	host_kill(host, true);
}

void drains_look(struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct host *host = &sim->hosts[i];

		if (host_is_drained(host))
			host->drained_ns = sim->now_ns;
		empty_look(host);
	}
}

uint64_t drains_next(const struct sim *sim)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].leave_ns != 0 && sim->phase != SIM_GATHER)
			next = MIN(next, sim->hosts[i].leave_ns);
	}
	return next;
}
