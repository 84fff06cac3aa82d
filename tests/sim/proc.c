/*
 * proc.c - clients: a process with threads, each with a connection of its own.
 *
 *   born --HELLO--> attached --BYE--> detached --HELLO--> ...
 *   any --proc_kill--> dead, seen later by its pidfd --> another is born in its place
 *
 * A request lives until its answer. If the connection breaks first, the thread comes back
 * with the client's token and asks again, with the same number: so do all but those whose
 * caller has given up and that leave nothing to tidy up.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t no_token[16];

/* ---- processes ----------------------------------------------------------- */

static void proc_tell(struct holder *holder, uint32_t slot)
{
	struct proc *proc = container_of(holder, struct proc, holder);
	struct thread *thread = proc->sim->running;

	CHECK(thread != NULL && thread->proc == proc);
	CHECK(thread->tell_count < SIM_TELLS);
	thread->tells[thread->tell_count++] = slot;
}

void proc_init(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		struct proc *proc = &sim->procs[i];

		proc->sim = sim;
		proc->index = i;
		proc->born_again_ns = UINT64_MAX;
		proc->holder.tell = proc_tell;
		for (unsigned j = 0; j < SIM_THREADS; j++) {
			proc->threads[j].proc = proc;
			proc->threads[j].index = j;
		}
	}
}

void proc_fini(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS * SIM_THREADS; i++)
		call_end(&sim->procs[i / SIM_THREADS].threads[i % SIM_THREADS]);
}

static void proc_clear(struct proc *proc)
{
	proc->attached = proc->leaving = false;
	proc->attaching = NULL;
	proc->ref = proc->epoch = 0;
	proc->orphan_count = proc->read_count = 0;
	proc->reporting = NULL;
	proc->read_sequence = 0;
	proc->holder.counts = NULL;
	memset(proc->views, 0, sizeof(proc->views));
	for (unsigned i = 0; i < SIM_THREADS; i++) {
		struct thread *thread = &proc->threads[i];

		call_end(thread);
		lease_drop(thread);
		memset(&thread->task, 0, sizeof(thread->task));
		memset(&thread->run, 0, sizeof(thread->run));
		thread->tell_count = 0;
	}
}

void proc_start(struct sim *sim, struct proc *proc)
{
	proc_clear(proc);
	proc->alive = true;
	proc->stopped_until_ns = 0;
	proc->born_again_ns = UINT64_MAX;
	proc->process.pid = 100 + proc->index; /* pids come again, start times do not */
	proc->process.start_time = ++sim->last_start_time;
	proc->read_only = proc->index != SIM_JANITOR && sim_chance(sim, 10);
	proc->ops = 0;
	trace_event(&sim->trace, "process %u starts%s", proc->index,
		proc->read_only ? ", read-only" : "");
}

static void cover_kill(struct sim *sim, const struct proc *proc)
{
	bool holds = false;

	for (unsigned i = 0; i < SIM_VIEWS; i++)
		holds |= proc->views[i].open;
	if (holds)
		sim_cover(sim, COVER_CLIENT_KILLED_HOLDING);
	for (unsigned i = 0; i < SIM_THREADS; i++) {
		const struct thread *thread = &proc->threads[i];

		if (thread->run.open)
			sim_cover(sim, COVER_CLIENT_KILLED_WRITING);
		if (thread->task.taking)
			sim_cover(sim, COVER_CLIENT_KILLED_TRYING);
		if (thread->task.pinned)
			sim_cover(sim, COVER_CLIENT_KILLED_PINNED);
		if (thread->task.giving || thread->tell_count > 0)
			sim_cover(sim, COVER_CLIENT_KILLED_UNTOLD);
	}
	if (sim->daemon.node == NULL)
		sim_cover(sim, COVER_CLIENT_KILLED_WHILE_DOWN);
	sim_cover(sim, COVER_CLIENT_KILLED);
}

void proc_kill(struct sim *sim, struct proc *proc)
{
	trace_event(&sim->trace, "process %u killed", proc->index);
	cover_kill(sim, proc);
	for (unsigned i = 0; i < SIM_THREADS; i++) {
		struct thread *thread = &proc->threads[i];

		if (thread->conn != NULL)
			conn_leave(sim, thread->conn);
		thread->conn = NULL;
		thread->hello_sent = thread->greeted = false;
	}
	proc_clear(proc);
	proc->alive = false;
	proc->gone_ns = sim->world.now_ns + sim_delay(sim);
	proc->born_again_ns = proc->gone_ns + sim_pick(sim, 200 * NS_MS);
}

enum proc_life proc_life_of(
	const struct sim *sim, const struct env_process *process, uint64_t *ret_gone_ns)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		const struct proc *proc = &sim->procs[i];

		if (proc->process.pid != process->pid ||
			proc->process.start_time != process->start_time)
			continue;
		*ret_gone_ns = proc->gone_ns;
		if (proc->alive)
			return PROC_LIVES;
		return proc->gone_ns > sim->world.now_ns ? PROC_DIES : PROC_GONE;
	}
	return PROC_GONE;
}

/* ---- calls --------------------------------------------------------------- */

void call_begin(struct sim *sim, struct thread *thread, size_t size, uint64_t timeout_ns)
{
	struct call *call = &thread->call;

	CHECK(call->stage == CALL_NONE);
	call->stage = CALL_CONNECT;
	call->timeout_ns = timeout_ns;
	call->give_up_ns = UINT64_MAX;
	if (size == 0)
		return;
	call->message = malloc(size);
	CHECK(call->message != NULL);
	memcpy(call->message, sim->out, size);
	call->size = size;
}

struct asked *call_asks(
	struct sim *sim, struct thread *thread, enum asked_kind kind, uint32_t key)
{
	struct call *call = &thread->call;
	struct asked *asked = &call->asked[call->asked_count++];

	CHECK(call->asked_count <= SIM_BATCH);
	*asked = (struct asked){.kind = kind, .key = key, .ref = thread->proc->ref};
	(void)sim;
	return asked;
}

void call_end(struct thread *thread)
{
	free(thread->call.message);
	free(thread->call.reply);
	memset(&thread->call, 0, sizeof(thread->call));
}

void call_again(struct thread *thread)
{
	struct call *call = &thread->call;

	free(call->reply);
	call->reply = NULL;
	call->reply_size = 0;
	call->stage = CALL_CONNECT;
}

static void call_is_answered(struct thread *thread)
{
	thread->call.stage = CALL_ANSWERED;
}

/* First time: what the answer will be judged by. */
static void call_first_sent(struct sim *sim, struct call *call)
{
	call->since = sim->oracle.looks;
	for (unsigned i = 0; i < call->asked_count; i++) {
		call->asked[i].before = sim->oracle.keys[call->asked[i].key].object;
		call->asked[i].since = call->since;
	}
	if (!call->patient && call->timeout_ns != UINT64_MAX && sim->phase == SIM_CHAOS &&
		sim_chance(sim, 5))
		call->give_up_ns = sim->world.now_ns + sim_pick(sim, 50 * NS_MS);
}

static void call_send(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	struct conn *conn = thread->conn;

	if (call->message == NULL) {
		call_is_answered(thread);
		return;
	}
	if (call->sends++ == 0)
		call_first_sent(sim, call);
	memcpy(conn->asked, call->asked, sizeof(conn->asked));
	conn->asked_count = call->asked_count;
	call->sent_ns = sim->world.now_ns;
	call->stage = CALL_SENT;
	conn_send(sim, conn, call->message, call->size);
}

static void thread_hello(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;
	struct msg_hello hello = {
		.version = WIRE_VERSION, .flags = proc->read_only ? HELLO_READ_ONLY : 0};
	size_t size;

	if (proc->attached)
		memcpy(hello.token, proc->token, sizeof(hello.token));
	else
		proc->attaching = thread;
	size = msg_hello_encode(sim->out, sizeof(sim->out), &hello);
	thread->hello_sent = true;
	conn_send(sim, thread->conn, sim->out, size);
}

/* On the way to a connection that was greeted. */
static void call_connect(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;

	if (thread->conn != NULL && thread->greeted) {
		call_send(sim, thread);
	} else if (proc->attaching != NULL && proc->attaching != thread) {
		thread->wait_until_ns = sim->world.now_ns + NS_MS;
	} else if (thread->conn != NULL) {
		thread_hello(sim, thread);
	} else {
		if (sim->daemon.node != NULL && !sim->daemon.starting)
			thread->conn = conn_open(sim, thread);
		if (thread->conn == NULL)
			thread->wait_until_ns = sim->world.now_ns + 1 +
						sim_pick(sim, 20 * NS_MS);
	}
}

static void call_give_up(struct sim *sim, struct thread *thread)
{
	trace_event(&sim->trace, "process %u.%u gives its call up", thread->proc->index,
		thread->index);
	thread->call.gave_up = true;
	thread->call.give_up_ns = UINT64_MAX;
}

/* Whether it must have its answer, though its connection broke. */
static bool call_comes_again(const struct call *call)
{
	if (!call->gave_up)
		return true;
	return call->asked_count == 1 && call->asked[0].kind == ASKED_END;
}

void thread_close(struct sim *sim, struct thread *thread)
{
	trace_event(&sim->trace, "process %u.%u closes its connection",
		thread->proc->index, thread->index);
	conn_leave(sim, thread->conn);
	thread_receive(sim, thread, NULL);
}

/* ---- what comes in ------------------------------------------------------- */

static void thread_lost_conn(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;
	struct call *call = &thread->call;

	trace_event(&sim->trace, "process %u.%u: connection broke", proc->index,
		thread->index);
	thread->conn = NULL;
	thread->hello_sent = thread->greeted = false;
	if (proc->attaching == thread)
		proc->attaching = NULL;
	if (call->stage != CALL_SENT)
		return;
	if (call_comes_again(call))
		call->stage = CALL_CONNECT;
	else
		call_is_answered(thread);
}

static void proc_attach(struct sim *sim, struct proc *proc,
	const struct msg_welcome *welcome, const struct packet *packet)
{
	proc->attaching = NULL;
	proc->attached = true;
	proc->cid = welcome->cid;
	proc->incarnation = welcome->incarnation;
	proc->ref = client_ref(welcome->cid, welcome->incarnation);
	proc->epoch = (uint32_t)welcome->epoch;
	memcpy(proc->token, welcome->token, sizeof(proc->token));
	if (!packet->with_grant || packet->grant.cid != proc->cid ||
		packet->grant.incarnation != proc->incarnation ||
		packet->grant.pool_writable == proc->read_only)
		sim_fail(sim, "an attach passed no segments, or not those of the client");
	proc->holder.counts = sim_counts(&sim->world, proc->cid, proc->incarnation);
	if (proc->holder.counts == NULL)
		sim_fail(sim, "client %" PRIu32 " has no counts file", proc->cid);
}

/* An empty TELL, before the first hold: from then on only the process's end, or BYE, ends
 * the client. */
static void thread_is_here(struct sim *sim, struct thread *thread)
{
	struct msg_tell tell = {.slot = SLOT_NONE};

	conn_send(sim, thread->conn, sim->out,
		msg_tell_encode(sim->out, sizeof(sim->out), &tell));
}

static void thread_welcomed(
	struct sim *sim, struct thread *thread, const struct packet *packet)
{
	struct proc *proc = thread->proc;
	struct msg_welcome welcome;

	if (msg_welcome_decode(packet->bytes, packet->size, &welcome) != 0)
		sim_fail(sim, "an attach was answered by something else");
	if (memcmp(welcome.pool_id, sim->world.share.header->pool_id, 16) != 0 ||
		memcmp(welcome.token, no_token, 16) == 0)
		sim_fail(sim, "a WELCOME of another pool, or without a token");
	thread->greeted = true;
	if (!proc->attached) {
		proc_attach(sim, proc, &welcome, packet);
		thread_is_here(sim, thread);
	} else if (welcome.cid != proc->cid || welcome.incarnation != proc->incarnation ||
		   memcmp(welcome.token, proc->token, 16) != 0) {
		sim_fail(sim, "client %" PRIu32 " came back as another", proc->cid);
	} else if (welcome.epoch != proc->epoch) {
		proc->epoch = (uint32_t)welcome.epoch;
		sim_cover(sim, COVER_REATTACHED);
	} else {
		sim_cover(sim, COVER_SECOND_LANE);
	}
	trace_event(&sim->trace, "process %u.%u is client %" PRIu32, proc->index,
		thread->index, proc->cid);
}

static void thread_refused(struct sim *sim, struct thread *thread, int code)
{
	struct proc *proc = thread->proc;

	trace_event(&sim->trace, "process %u.%u refused: %s", proc->index, thread->index,
		err_name(code));
	if (proc->attaching == thread)
		proc->attaching = NULL;
	if (code == ERR_STALE && proc->leaving) {
		thread->call.stale = true;
		call_is_answered(thread);
	} else if (code == ERR_STALE || !error_is_explained(sim, code)) {
		sim_fail(sim, "a living client may not attach: %s", err_name(code));
	}
	conn_leave(sim, thread->conn);
	thread->conn = NULL;
	thread->hello_sent = false;
	thread->wait_until_ns = sim->world.now_ns + sim_pick(sim, 20 * NS_MS);
}

void thread_receive(struct sim *sim, struct thread *thread, const struct packet *packet)
{
	struct call *call = &thread->call;
	int code;

	if (packet == NULL) {
		thread_lost_conn(sim, thread);
		return;
	}
	code = reply_error(sim, packet->bytes, packet->size);
	if (thread->hello_sent && !thread->greeted) {
		if (code != 0)
			thread_refused(sim, thread, code);
		else
			thread_welcomed(sim, thread, packet);
		return;
	}
	if (call->stage != CALL_SENT)
		sim_fail(sim, "process %u.%u got an answer to nothing",
			thread->proc->index, thread->index);
	call->reply = malloc(packet->size);
	CHECK(call->reply != NULL);
	memcpy(call->reply, packet->bytes, packet->size);
	call->reply_size = packet->size;
	call_is_answered(thread);
	trace_event(&sim->trace, "process %u.%u is answered %s", thread->proc->index,
		thread->index, code != 0 ? err_name(code) : "well");
}

bool thread_send(struct sim *sim, struct thread *thread, size_t size)
{
	if (thread->conn == NULL || !thread->greeted)
		return false;
	conn_send(sim, thread->conn, sim->out, size);
	return true;
}

/* ---- steps --------------------------------------------------------------- */

static bool has_view_to_end(const struct proc *proc)
{
	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		if (proc->views[i].open && !proc->views[i].busy)
			return true;
	}
	return false;
}

static bool call_can_step(const struct sim *sim, const struct thread *thread)
{
	const struct call *call = &thread->call;

	switch (call->stage) {
	case CALL_CONNECT:
		return thread->greeted || !thread->hello_sent;
	case CALL_SENT:
		return call->give_up_ns <= sim->world.now_ns;
	case CALL_NONE:
	case CALL_ANSWERED:
		break;
	}
	return true;
}

bool thread_can_step(const struct sim *sim, const struct thread *thread)
{
	const struct proc *proc = thread->proc;
	uint64_t now = sim->world.now_ns;

	if (!proc->alive || proc->stopped_until_ns > now)
		return false;
	if (thread->tell_count > 0)
		return true;
	if (thread->wait_until_ns > now || !call_can_step(sim, thread))
		return false;
	if (thread->task.kind != TASK_NONE || thread->call.stage != CALL_NONE)
		return true;
	if (proc->attached && !proc->leaving &&
		(proc->orphan_count > 0 ||
			(proc->read_count > 0 && proc->reporting == NULL)))
		return true;
	switch (sim->phase) {
	case SIM_CHAOS:
		return !proc->leaving && proc->index != SIM_JANITOR;
	case SIM_HEAL:
		return has_view_to_end(proc);
	case SIM_GATHER:
	case SIM_LEAVE:
		break;
	}
	return false;
}

/* The message of a release: it may be lost, and then nobody tells. */
static void thread_tell(struct sim *sim, struct thread *thread)
{
	struct msg_tell tell = {.slot = thread->tells[--thread->tell_count]};
	size_t size = msg_tell_encode(sim->out, sizeof(sim->out), &tell);

	if (sim_chance(sim, sim->profile.lost_tells) || !thread_send(sim, thread, size)) {
		sim->tell_lost = true;
		sim_cover(sim, COVER_TELL_LOST);
	}
}

void thread_step(struct sim *sim, struct thread *thread)
{
	sim->running = thread;
	if (thread->tell_count > 0)
		thread_tell(sim, thread);
	else if (thread->call.stage == CALL_CONNECT)
		call_connect(sim, thread);
	else if (thread->call.stage == CALL_SENT)
		call_give_up(sim, thread);
	else if (thread->task.kind == TASK_NONE)
		task_choose(sim, thread);
	else
		task_step(sim, thread);
	sim->running = NULL;
}

static uint64_t thread_next(const struct sim *sim, const struct thread *thread)
{
	uint64_t now = sim->world.now_ns;
	uint64_t next = UINT64_MAX;

	if (thread->wait_until_ns > now)
		next = thread->wait_until_ns;
	if (thread->call.stage == CALL_SENT && thread->call.give_up_ns > now)
		next = MIN(next, thread->call.give_up_ns);
	return next;
}

uint64_t proc_next(const struct sim *sim)
{
	uint64_t now = sim->world.now_ns;
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < SIM_PROCS; i++) {
		const struct proc *proc = &sim->procs[i];

		if (!proc->alive) {
			next = MIN(next, proc->born_again_ns);
			if (proc->gone_ns > now)
				next = MIN(next, proc->gone_ns);
		} else if (proc->stopped_until_ns > now) {
			next = MIN(next, proc->stopped_until_ns);
		}
		for (unsigned j = 0; j < SIM_THREADS && proc->alive; j++)
			next = MIN(next, thread_next(sim, &proc->threads[j]));
	}
	return next;
}

/* ---- what must hold ------------------------------------------------------ */

static void check_view(struct sim *sim, const struct proc *proc, const struct view *view)
{
	const struct slot *slot = &sim->world.share.slots[view->slot];
	uint64_t state = atomic_load(&slot->state);
	enum slot_kind kind = slot_kind_of(state);

	if (slot_life_of(state) != view->life ||
		(kind != SLOT_READY && kind != SLOT_CONDEMNED))
		sim_fail(sim, "slot %" PRIu32 " was freed while process %u holds it",
			view->slot, proc->index);
	if (slot->off != view->off || slot->size != view->size ||
		slot->generation != view->object->generation)
		sim_fail(sim, "slot %" PRIu32 " changed while process %u holds it",
			view->slot, proc->index);
}

static void check_run(struct sim *sim, const struct proc *proc, const struct run *run)
{
	const struct slot *slot = &sim->world.share.slots[run->slot];
	uint64_t state = atomic_load(&slot->state);

	if (state != SLOT_STATE(SLOT_WRITING, run->life) || slot->off != run->off ||
		slot->writer != proc->ref)
		sim_fail(sim,
			"slot %" PRIu32 " was taken from process %u, which writes there",
			run->slot, proc->index);
}

static void check_pin(struct sim *sim, const struct task *task)
{
	uint64_t state = atomic_load(&sim->world.share.slots[task->slot].state);

	if (!task->pinned || task->pin_conn->id != task->pin_conn_id ||
		!task->pin_conn->node_open)
		return;
	if (slot_life_of(state) != task->life)
		sim_fail(sim, "slot %" PRIu32 " was freed though it is pinned",
			task->slot);
}

void proc_check_all(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		const struct proc *proc = &sim->procs[i];

		for (unsigned j = 0; j < SIM_VIEWS; j++) {
			if (proc->views[j].open)
				check_view(sim, proc, &proc->views[j]);
		}
		for (unsigned j = 0; j < SIM_THREADS; j++) {
			if (proc->threads[j].run.open)
				check_run(sim, proc, &proc->threads[j].run);
			check_pin(sim, &proc->threads[j].task);
		}
	}
}
