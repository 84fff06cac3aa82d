/*
 * task_get.c - clients that hold: get, read again, let go, take, report an ended read.
 *
 *   FIND --hit--> held                        the shared index, as the library looks
 *     '--miss--> ANSWER --found--> held       or the daemon, whose pin becomes a hold
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "share/index.h"

enum get_stage {
	GETS_FIND,
	GETS_ANSWER
};

enum ask_stage {
	ASKS_SEND,
	ASKS_ANSWER
};

#define TRIES_MOST 50u

/* ---- holds --------------------------------------------------------------- */

static struct view *view_find_free(struct proc *proc)
{
	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		if (!proc->views[i].open)
			return &proc->views[i];
	}
	view_close(proc, &proc->views[0]);
	return &proc->views[0];
}

/* The hold on `slot` is good; all of its bytes are read. */
static struct view *view_open(struct proc *proc, uint32_t slot)
{
	struct host *host = proc->host;
	const struct slot *there = &host->world.share.slots[slot];
	struct view *view = view_find_free(proc);

	*view = (struct view){
		.open = true,
		.key = proc->task.key,
		.slot = slot,
		.life = slot_life_of(atomic_load(&there->state)),
		.off = there->off,
		.size = there->size,
		.generation = there->generation,
	};
	view->put = judge_bytes(host->sim, view->key, host->world.share.pool + view->off,
		view->size, view->generation);
	trace_event(&host->sim->trace,
		"client %u.%u holds slot %" PRIu32 ", put %" PRIu64
		", generation %" PRIx64,
		host->index, proc->index, slot, view->put->id, view->generation);
	if (view->put->host != host->index)
		sim_cover(host->sim, COVER_READ_FROM_FAR);
	return view;
}

void view_close(struct proc *proc, struct view *view)
{
	struct host *host = proc->host;

	view_read(proc, view);
	if (!hold_give(&proc->holder, host->world.share.slots, view->slot))
		sim_fail(host->sim, "a count was gone while its owner had it");
	view->open = false;
	if (view->put->readers > 0 && proc->read == NULL) {
		proc->read = view->put;
		proc->read_generation = view->generation;
	}
}

/* ---- get ----------------------------------------------------------------- */

static void get_is_held(struct proc *proc, uint32_t slot, uint64_t began_ns)
{
	struct view *view = view_open(proc, slot);

	judge_found(proc->host, view->put, view->generation, began_ns);
	proc->task.found = view->put;
	proc->task.result = 0;
	if (proc->index == SIM_JANITOR)
		view_close(proc, view);
	task_end(proc);
}

static void get_find(struct proc *proc)
{
	struct host *host = proc->host;
	struct sim *sim = host->sim;
	struct task *task = &proc->task;
	struct index_key key = sim_key(host, task->key);
	struct msg_get msg = {.key = sim_key_bytes(sim, task->key),
		.flags = task->flags,
		.timeout_ns = task->timeout_ns};
	uint32_t slot;

	if (task->tries++ > TRIES_MOST)
		sim_fail(sim, "a key was found %u times, and never could be held",
			TRIES_MOST);
	if (proc->attached && !task->by_message &&
		index_find(&host->world.share, &proc->holder, &key, HOLD_HEAT, &slot) ==
			HOLD_OK) {
		sim_cover(sim, host_is_up(host) ? COVER_HIT : COVER_HIT_WHILE_DOWN);
		get_is_held(proc, slot, sim->now_ns);
		return;
	}
	call_begin(proc, msg_get_encode(sim->out, sizeof(sim->out), &msg),
		task->timeout_ns, proc->index == SIM_JANITOR);
	task->stage = GETS_ANSWER;
}

/* The daemon's pin becomes a hold. */
static void get_found(struct proc *proc, const struct msg_found *found)
{
	struct host *host = proc->host;
	struct sim *sim = host->sim;
	struct index_key key = sim_key(host, proc->task.key);
	struct msg_unpin unpin = {.slot = found->slot, .life = found->life};
	uint64_t began_ns = proc->call.began_ns;
	bool held = index_try(&host->world.share, &proc->holder, &key, found->slot,
			    HOLD_HEAT) == HOLD_OK;

	proc_send(proc, msg_unpin_encode(sim->out, sizeof(sim->out), &unpin));
	call_end(proc);
	if (held) {
		get_is_held(proc, found->slot, began_ns);
		return;
	}
	sim_cover(sim, COVER_PIN_LATE);
	proc->task.stage = GETS_FIND;
}

static void get_failed(struct proc *proc, int code)
{
	struct host *host = proc->host;
	const struct task *task = &proc->task;
	uint64_t began_ns = proc->call.began_ns;

	if (code == ERR_NOT_FOUND || code == ERR_LOST)
		judge_not_found(host, task->key, began_ns, code);
	else if (code == ERR_TIMEOUT && task->flags & GET_WAIT)
		sim_cover(host->sim, COVER_WAITED_IN_VAIN);
	else if (code != ERR_RPC_FAIL)
		judge_refused(host, task->key, began_ns, task->timeout_ns, code, "a get");
	proc->task.result = code;
	task_end(proc);
}

static void get_answer(struct proc *proc)
{
	const struct sim_message *reply = proc->call.reply;
	int code = call_code(proc);
	struct msg_found found;

	if (code != 0) {
		get_failed(proc, code);
		return;
	}
	if (msg_found_decode(reply->bytes, reply->size, &found) != 0)
		sim_fail(proc->host->sim, "a get was answered by something else");
	if (proc->task.flags & GET_WAIT)
		sim_cover(proc->host->sim, COVER_WAITED);
	get_found(proc, &found);
}

void get_step(struct proc *proc)
{
	if (proc->task.stage == GETS_FIND)
		get_find(proc);
	else
		get_answer(proc);
}

/* ---- with what is held --------------------------------------------------- */

void reread_step(struct proc *proc)
{
	view_read(proc, proc->task.view);
	task_end(proc);
}

void release_step(struct proc *proc)
{
	view_close(proc, proc->task.view);
	task_end(proc);
}

static void take_judge(struct proc *proc, int code)
{
	struct host *host = proc->host;
	struct task *task = &proc->task;
	struct put *put = task->view->put;
	struct msg_done done;

	if (code == ERR_NOT_FOUND) {
		task->ending->refused = proc->call.sends == 1;
		sim_cover(host->sim, COVER_TAKE_LOST);
		return;
	}
	if (code != 0) {
		judge_refused(
			host, task->key, proc->call.began_ns, UINT64_MAX, code, "a take");
		return;
	}
	if (msg_done_decode(proc->call.reply->bytes, proc->call.reply->size, &done) != 0)
		sim_fail(host->sim, "a take was answered by something else");
	if (put->taken_ns != 0 && !put->repeated &&
		host->sim->registry.forgot_ns <=
			MIN(put->taken_ns, task->ending->began_ns))
		sim_fail(host->sim, "put %" PRIu64 " of key %s was taken twice", put->id,
			key_name(host->sim, put->key));
	put->taken_ns = task->ending->began_ns;
	task->ending->answered_ns = host->sim->now_ns;
	task->ending->generation = task->view->generation;
	sim_cover(host->sim, put->host == host->index ? COVER_TAKEN : COVER_TAKEN_FAR);
}

void take_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct task *task = &proc->task;
	int code;

	if (task->stage == ASKS_SEND) {
		struct msg_take msg = {.slot = task->view->slot,
			.life = task->view->life,
			.op = ++proc->ops};

		task->ending = ledger_ending(
			sim, ENDING_TAKE, task->key, proc->host->index);
		task->ending->put = task->view->put;
		call_begin(proc, msg_take_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, true);
		task->stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code != ERR_RPC_FAIL)
		take_judge(proc, code);
	view_close(proc, task->view);
	if (code == 0)
		proc->read = NULL; /* it is ended */
	task_end(proc);
}

void report_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct put *put = proc->read;
	int code;

	if (proc->task.stage == ASKS_SEND) {
		struct msg_read msg = {.key = sim_key_bytes(sim, put->key),
			.generation = proc->read_generation,
			.sequence = ++proc->reports};

		put->reports++;
		call_begin(proc, msg_read_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, true);
		proc->task.stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code == 0) {
		put->reports_done++;
		if (put->reports_done == put->readers)
			put->read_out_ns = sim->now_ns;
		sim_cover(sim, put->host == proc->host->index ? COVER_READ_COUNTED
							      : COVER_READ_COUNTED_FAR);
	} else if (code != ERR_NOT_FOUND && code != ERR_RPC_FAIL) {
		judge_refused(proc->host, put->key, proc->call.began_ns, UINT64_MAX, code,
			"a report");
	}
	proc->read = NULL;
	task_end(proc);
}
