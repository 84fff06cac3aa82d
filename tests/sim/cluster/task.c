/*
 * task.c - what a client does next.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

struct msg_bytes sim_key_bytes(const struct sim *sim, uint32_t key)
{
	const struct ledger_key *there = &sim->ledger.keys[key];

	return (struct msg_bytes){there->bytes, there->size};
}

struct index_key sim_key(const struct host *host, uint32_t key)
{
	const struct ledger_key *there = &host->sim->ledger.keys[key];

	return (struct index_key){
		.data = there->bytes,
		.size = there->size,
		.hash = hash_key(
			there->bytes, there->size, host->world.share.header->hash_seed),
	};
}

uint32_t sim_key_of(const struct host *host, uint32_t slot)
{
	const struct share *share = &host->world.share;
	const struct slot *there = &share->slots[slot];

	for (uint32_t key = 0; key < host->sim->profile.keys; key++) {
		const struct ledger_key *known = &host->sim->ledger.keys[key];

		if (there->klen == known->size &&
			memcmp(slot_key(share, there), known->bytes, known->size) == 0)
			return key;
	}
	return SIM_KEYS;
}

void task_begin(struct proc *proc, enum task_kind kind, uint32_t key)
{
	static const char *const names[] = {"nothing", "attach", "get", "reread",
		"release", "take", "report", "put", "remove", "remove_prefix", "stat",
		"list", "drain"};
	struct sim *sim = proc->host->sim;

	proc->task = (struct task){.kind = kind, .key = key, .began_ns = sim->now_ns};
	trace_event(&sim->trace, "client %u.%u: %s %s", proc->host->index, proc->index,
		names[kind], key_name(sim, key));
}

void task_end(struct proc *proc)
{
	struct sim *sim = proc->host->sim;

	call_end(proc);
	proc->task.kind = TASK_NONE;
	proc->wait_ns = sim->now_ns +
			(proc->index == SIM_JANITOR
					? 0
					: sim_about(sim, sim->profile.think_ns));
}

/* ---- choice -------------------------------------------------------------- */

static struct view *view_find_open(struct proc *proc)
{
	unsigned first = (unsigned)sim_pick(proc->host->sim, SIM_VIEWS);

	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		struct view *view = &proc->views[(first + i) % SIM_VIEWS];

		if (view->open)
			return view;
	}
	return NULL;
}

/* With what it holds: read, let go, take. */
static void choose_for_view(struct proc *proc, struct view *view)
{
	uint64_t roll = sim_pick(proc->host->sim, 10);

	task_begin(proc,
		roll < 3   ? TASK_REREAD
		: roll < 8 ? TASK_RELEASE
			   : TASK_TAKE,
		view->key);
	proc->task.view = view;
}

static uint64_t choose_timeout(struct sim *sim)
{
	if (sim_chance(sim, 20))
		return sim_pick(sim, 200 * NS_MS);
	return 300 * NS_MS + sim_pick(sim, 5 * NS_S);
}

static enum task_kind choose_kind(struct sim *sim)
{
	uint64_t roll = sim_pick(sim, 100);

	if (roll < 44)
		return TASK_GET;
	if (roll < 78)
		return TASK_PUT;
	if (roll < 93 && sim->profile.removes < 100 &&
		!sim_chance(sim, sim->profile.removes))
		return TASK_PUT;
	if (roll < 91)
		return TASK_REMOVE;
	if (roll < 93)
		return TASK_REMOVE_PREFIX;
	return roll < 97 ? TASK_STAT : TASK_LIST;
}

/* Often what another is at as well. */
static uint32_t choose_key(struct sim *sim)
{
	if (sim_chance(sim, 80))
		sim->crowded_key = (uint32_t)sim_pick(sim, sim->profile.keys);
	return sim->crowded_key;
}

void task_choose(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct view *view = view_find_open(proc);

	if (proc->read != NULL) {
		task_begin(proc, TASK_REPORT, proc->read->key);
		return;
	}
	if (drain_choose(proc))
		return;
	if (view != NULL && sim_chance(sim, 50)) {
		choose_for_view(proc, view);
		return;
	}
	task_begin(proc, choose_kind(sim), choose_key(sim));
	proc->task.timeout_ns = choose_timeout(sim);
	if (proc->task.kind == TASK_GET) {
		proc->task.flags = sim_chance(sim, 15) ? GET_WAIT : 0;
		proc->task.by_message = sim_chance(sim, 30);
	}
}

void task_step(struct proc *proc)
{
	switch (proc->task.kind) {
	case TASK_ATTACH:
		if (proc->call.stage == CALL_NONE)
			call_begin(proc, 0, UINT64_MAX, true);
		else
			task_end(proc);
		return;
	case TASK_GET:
		get_step(proc);
		return;
	case TASK_REREAD:
		reread_step(proc);
		return;
	case TASK_RELEASE:
		release_step(proc);
		return;
	case TASK_TAKE:
		take_step(proc);
		return;
	case TASK_REPORT:
		report_step(proc);
		return;
	case TASK_PUT:
		put_step(proc);
		return;
	case TASK_REMOVE:
		remove_step(proc);
		return;
	case TASK_REMOVE_PREFIX:
		remove_prefix_step(proc);
		return;
	case TASK_STAT:
		stat_step(proc);
		return;
	case TASK_LIST:
		list_step(proc);
		return;
	case TASK_DRAIN:
		drain_task_step(proc);
		return;
	case TASK_NONE:
		break;
	}
	NOT_REACHED("no such task");
}
