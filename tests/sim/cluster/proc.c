/*
 * proc.c - clients: one process with one connection, which does one thing at a time.
 *
 *   born --HELLO--> attached ... killed --> another is born in its place
 *
 * A request lives until its answer. If the connection breaks first the client comes back with
 * its token and asks again, with the same number, or gives up: then nobody knows what became
 * of it. What it holds stays readable meanwhile, and hits go on while no daemon runs.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "model/core_pattern.h"

#include <stdlib.h>
#include <string.h>

#define LATE_NS (15 * NS_S) /* beyond its timeout no answer takes so long */

/* ---- processes ----------------------------------------------------------- */

static void proc_tell(struct holder *holder, uint32_t slot)
{
	struct proc *proc = container_of(holder, struct proc, holder);

	CHECK(proc->tell_count < SIM_TELLS);
	proc->tells[proc->tell_count++] = slot;
}

void proc_init(struct host *host)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		struct proc *proc = &host->procs[i];

		proc->host = host;
		proc->index = i;
		proc->born_ns = i < host->sim->profile.procs && i != SIM_JANITOR
					? host->sim->now_ns
					: UINT64_MAX;
	}
}

void proc_fini(struct proc *proc)
{
	call_end(proc);
}

void proc_start(struct proc *proc)
{
	struct host *host = proc->host;
	unsigned index = proc->index;

	call_end(proc);
	memset(proc, 0, sizeof(*proc));
	proc->host = host;
	proc->index = index;
	proc->holder.tell = proc_tell;
	proc->alive = true;
	proc->born_ns = UINT64_MAX;
	proc->pid = sim_process(&host->world, SIM_UID);
	trace_event(&host->sim->trace, "client %u.%u starts", host->index, index);
}

void proc_kill(struct proc *proc)
{
	struct host *host = proc->host;
	struct sim *sim = host->sim;

	trace_event(&sim->trace, "client %u.%u killed", host->index, proc->index);
	sim_cover(sim, COVER_CLIENT_KILLED);
	if (proc->task.put != NULL && proc->task.put->over_ns == 0)
		proc->task.put->over_ns = sim->now_ns;
	call_end(proc);
	proc->alive = false;
	memset(proc->views, 0, sizeof(proc->views));
	memset(&proc->task, 0, sizeof(proc->task));
	proc->born_ns = sim->now_ns + sim_about(sim, 200 * NS_MS);
	sim_process_end(&host->world, proc->pid);
	host->is_dirty |= host_is_up(host);
}

void procs_host_lost(struct host *host)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		if (host->procs[i].alive)
			proc_kill(&host->procs[i]);
	}
}

/* ---- calls --------------------------------------------------------------- */

void call_begin(struct proc *proc, size_t size, uint64_t timeout_ns, bool repeats)
{
	struct call *call = &proc->call;

	CHECK(call->stage == CALL_NONE);
	call->stage = CALL_CONNECT;
	call->timeout_ns = timeout_ns;
	call->repeats = repeats;
	if (size == 0)
		return;
	call->message = malloc(size);
	CHECK(call->message != NULL);
	memcpy(call->message, proc->host->sim->out, size);
	call->size = size;
}

void call_end(struct proc *proc)
{
	free(proc->call.message);
	free(proc->call.reply);
	memset(&proc->call, 0, sizeof(proc->call));
}

int call_code(const struct proc *proc)
{
	const struct sim_message *reply = proc->call.reply;
	struct msg_error error;

	if (reply == NULL)
		return ERR_RPC_FAIL;
	if (msg_error_decode(reply->bytes, reply->size, &error) != 0)
		return 0;
	return error.code;
}

static void call_send(struct proc *proc)
{
	struct call *call = &proc->call;
	struct host *host = proc->host;

	if (call->message == NULL) {
		call->stage = CALL_ANSWERED;
		return;
	}
	if (call->sends++ == 0)
		call->began_ns = host->sim->now_ns;
	/* It may be made twice from here on: removed between the two, and seen in both. */
	if (call->sends > 1 && proc->task.put != NULL)
		proc->task.put->repeated = true;
	call->sent_ns = host->sim->now_ns;
	call->stage = CALL_SENT;
	host_tick(host);
	(void)sim_send(&host->world, proc->lane, call->message, call->size);
	host_called(host);
}

/* The connection broke before the answer came. */
static void call_is_cut(struct proc *proc)
{
	struct call *call = &proc->call;

	call->stage = call->repeats ? CALL_CONNECT : CALL_ANSWERED;
	if (call->repeats)
		sim_cover(proc->host->sim, COVER_ASKED_AGAIN);
}

static void trace_answer(const struct proc *proc)
{
	const struct sim_message *reply = proc->call.reply;
	struct msg_error error = {.text = {"", 0}};

	if (msg_error_decode(reply->bytes, reply->size, &error) != 0)
		error.code = 0;
	trace_event(&proc->host->sim->trace, "client %u.%u is answered: %s %.*s",
		proc->host->index, proc->index, err_name(error.code),
		(int)MIN(error.text.size, 120u), (const char *)error.text.data);
}

static void call_receive(struct proc *proc)
{
	struct call *call = &proc->call;

	call->reply = sim_receive(&proc->host->world, proc->lane);
	call->stage = CALL_ANSWERED;
	trace_answer(proc);
}

void proc_send(struct proc *proc, size_t size)
{
	struct host *host = proc->host;

	if (!proc->greeted || !proc_has_lane(proc))
		return;
	host_tick(host);
	(void)sim_send(&host->world, proc->lane, host->sim->out, size);
	host_called(host);
}

/* ---- steps --------------------------------------------------------------- */

static void check_is_answered(struct proc *proc)
{
	const struct call *call = &proc->call;
	struct sim *sim = proc->host->sim;

	if (call->timeout_ns != UINT64_MAX &&
		sim->now_ns > call->sent_ns + call->timeout_ns / 8 * 9 + LATE_NS &&
		!trouble_was_at(
			sim, proc->host->index, sim->now_ns - LATE_NS, sim->now_ns))
		sim_fail(sim, "client %u.%u has no answer long after its deadline",
			proc->host->index, proc->index);
}

static bool call_can_step(const struct proc *proc)
{
	const struct sim *sim = proc->host->sim;

	switch (proc->call.stage) {
	case CALL_SENT:
		return !proc_has_lane(proc) || proc_has_answer(proc);
	case CALL_CONNECT:
		if (proc->hello_sent && !proc->greeted)
			return !proc_has_lane(proc) || proc_has_answer(proc);
		break;
	case CALL_NONE:
		if (proc->task.kind == TASK_NONE &&
			(sim->phase == SIM_GATHER || proc->index == SIM_JANITOR))
			return false;
		break;
	case CALL_ANSWERED:
		break;
	}
	return proc->wait_ns <= sim->now_ns;
}

bool proc_can_step(const struct proc *proc)
{
	if (!proc->alive)
		return proc->born_ns <= proc->host->sim->now_ns;
	return proc->tell_count > 0 || call_can_step(proc);
}

static void tell_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct msg_tell tell = {.slot = proc->tells[--proc->tell_count]};

	proc_send(proc, msg_tell_encode(sim->out, sizeof(sim->out), &tell));
}

static void call_step(struct proc *proc)
{
	if (proc->call.stage == CALL_CONNECT) {
		if (proc_connect(proc))
			call_send(proc);
	} else if (proc_has_answer(proc)) {
		call_receive(proc);
	} else {
		proc->hello_sent = proc->greeted = false;
		call_is_cut(proc);
	}
}

void proc_step(struct proc *proc)
{
	if (!proc->alive)
		proc_start(proc);
	else if (proc->tell_count > 0)
		tell_step(proc);
	else if (proc->call.stage == CALL_CONNECT || proc->call.stage == CALL_SENT)
		call_step(proc);
	else if (proc->task.kind == TASK_NONE)
		task_choose(proc);
	else
		task_step(proc);
}

uint64_t proc_next(const struct proc *proc)
{
	const struct sim *sim = proc->host->sim;

	if (!proc->alive)
		return proc->born_ns;
	if (proc_can_step(proc))
		return sim->now_ns;
	return proc->wait_ns > sim->now_ns ? proc->wait_ns : UINT64_MAX;
}

/* ---- what must hold ------------------------------------------------------ */

static void view_check(struct proc *proc, const struct view *view)
{
	const struct share *share = &proc->host->world.share;
	const struct slot *slot = &share->slots[view->slot];
	uint64_t state = atomic_load(&slot->state);

	if (slot_life_of(state) != view->life || slot->off != view->off ||
		slot->generation != view->generation)
		sim_fail(proc->host->sim,
			"slot %" PRIu32 " of host %u changed while client %u.%u holds it",
			view->slot, proc->host->index, proc->host->index, proc->index);
}

void view_read(struct proc *proc, const struct view *view)
{
	if (!pattern_is(
		    proc->host->world.share.pool + view->off, view->size, view->put->id))
		sim_fail(proc->host->sim,
			"wrong bytes in slot %" PRIu32 " of host %u, held", view->slot,
			proc->host->index);
}

static void proc_check(struct proc *proc)
{
	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		if (proc->views[i].open)
			view_check(proc, &proc->views[i]);
	}
	if (proc->alive && proc->call.stage == CALL_SENT)
		check_is_answered(proc);
}

void procs_check(struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		for (unsigned j = 0; j < SIM_PROCS; j++)
			proc_check(&sim->hosts[i].procs[j]);
	}
}
