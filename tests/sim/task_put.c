/*
 * task_put.c - threads that put: in one message, or start, write piece by piece, end.
 *
 *   BEGIN -> SMALL -> SMALL_ANSWER
 *         '-> START -> STARTED -> WRITE ... -> CHECK -> END -> ENDED
 *                                                    '-> ABORT -> ABORTED
 *
 * After a failed end the writer aborts, until it is told that there is nothing to abort.
 * A put whose start may have been done without the client's knowing is an orphan: it is
 * looked for in the shared index, and aborted. So nothing of any put may be left.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

enum put_stage {
	PUTS_SMALL,
	PUTS_SMALL_ANSWER,
	PUTS_START,
	PUTS_STARTED,
	PUTS_WRITE,
	PUTS_CHECK,
	PUTS_END,
	PUTS_ENDED,
	PUTS_ABORT,
	PUTS_ABORTED
};

/* ---- what is put --------------------------------------------------------- */

static uint64_t choose_size(struct sim *sim, uint32_t key)
{
	uint64_t pool = sim->world.share.header->pool_size;
	uint64_t klen = sim->oracle.keys[key].size;
	uint64_t largest = pool - (klen > KEY_INLINE ? klen : 0);

	if (sim->profile.all_small)
		return sim_pick(sim, 300);
	switch (sim_pick(sim, 20)) {
	case 0:
		return 0;
	case 1:
		return 1 + sim_pick(sim, 64);
	case 2:
		return largest / 2 + sim_pick(sim, largest / 2);
	case 3:
		return sim_chance(sim, 20) ? largest + sim_pick(sim, 2) : 256;
	case 4:
	case 5:
	case 6:
		return sim_pick(sim, pool / 4);
	default:
		return sim_pick(sim, sim->profile.size_most) + 1;
	}
}

static uint64_t choose_timeout(struct sim *sim)
{
	switch (sim_pick(sim, 6)) {
	case 0:
		return 0;
	case 1:
		return sim_pick(sim, NS_MS);
	case 2:
		return sim_pick(sim, 5 * NS_S);
	default:
		return sim_pick(sim, 300 * NS_MS);
	}
}

static uint32_t put_flags(const struct put *put)
{
	return (put->softpin ? PUT_SOFTPIN : 0u) | (put->durable ? PUT_DURABLE : 0u);
}

void put_begin(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct proc *proc = thread->proc;
	uint64_t size = choose_size(sim, task->key);
	bool small = size <= sim->config.small_limit && sim_chance(sim, 60);

	task->put = oracle_put(sim, proc->ref, ++proc->ops, task->key, size,
		sim_chance(sim, sim->profile.softpin),
		sim_chance(sim, sim->profile.ttl) ? 1 + sim_pick(sim, 2 * NS_S) : 0);
	task->put->durable = sim_chance(sim, sim->has_disk ? sim->profile.durable : 1);
	if (sim_chance(sim, sim->profile.readers))
		task->put->readers = (uint16_t)(1 + sim_pick(sim, 5));
	task->timeout_ns = choose_timeout(sim);
	task->done = 0;
	task->stage = small ? PUTS_SMALL : PUTS_START;
	trace_event(&sim->trace,
		"process %u.%u puts key %" PRIu32 ", %" PRIu64 " bytes%s%s", proc->index,
		thread->index, task->key, size, task->put->softpin ? ", softpin" : "",
		small ? ", small" : "");
}

void put_begin_as(
	struct sim *sim, struct thread *thread, struct put *put, uint64_t timeout_ns)
{
	struct task *task = &thread->task;

	(void)sim;
	*task = (struct task){.kind = TASK_PUT,
		.stage = PUTS_START,
		.key = put->key,
		.put = put,
		.timeout_ns = timeout_ns,
		.keep = true};
}

/* ---- in one message ------------------------------------------------------ */

static int put_small(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct put *put = task->put;
	const struct oracle_key *key = &sim->oracle.keys[put->key];
	unsigned char *value = malloc(put->size + 1);
	struct msg_put msg = {.key = {key->bytes, key->size},
		.flags = put_flags(put),
		.readers = put->readers,
		.ttl_ns = put->ttl_ns,
		.op = put->op,
		.timeout_ns = task->timeout_ns,
		.value = {value, put->size}};

	CHECK(value != NULL);
	pattern_fill(value, 0, put->size, put->id);
	call_begin(sim, thread, msg_put_encode(sim->out, sizeof(sim->out), &msg),
		task->timeout_ns);
	call_asks(sim, thread, ASKED_PUT, put->key)->put = task->put;
	free(value);
	return PUTS_SMALL_ANSWER;
}

/* Past the deadline of the put itself, which its slot may not have shown yet. */
static bool put_is_late(const struct sim *sim, const struct put *put)
{
	return put->was_late ||
	       (put->started_ns != 0 &&
		       sim->world.now_ns - put->started_ns >= sim->config.put_timeout);
}

static bool is_late(const struct sim *sim, const struct call *call)
{
	return sim->world.now_ns - call->sent_ns >= call->timeout_ns;
}

static void check_in_time(struct sim *sim, const struct call *call, const char *what)
{
	if (!is_late(sim, call))
		sim_fail(sim, "a put was told %s before its time", what);
}

/* The disk could not take it: for now, or until the deadline. */
static bool durable_is_refused(
	struct sim *sim, const struct call *call, const struct put *put, int code)
{
	bool by_disk = code == ERR_IO || code == ERR_NO_SPACE;

	if (!put->durable || !sim->has_disk ||
		!(disk_error_is_explained(sim, call, code) ||
			((by_disk || code == ERR_TIMEOUT) && is_late(sim, call))))
		return false;
	sim_cover(sim, COVER_PUT_DURABLE_FAILED);
	return true;
}

/* What a start and a put in one message have in common. */
static void put_judge_refused(
	struct sim *sim, const struct call *call, const struct asked *asked, int code)
{
	const struct put *put = asked->put;
	const struct oracle_key *key = &sim->oracle.keys[put->key];
	uint64_t beside = key->size > KEY_INLINE ? key->size : 0;

	if (durable_is_refused(sim, call, put, code))
		return;
	switch (code) {
	case ERR_NOT_SUPPORTED:
		if (!put->durable || sim->has_disk)
			sim_fail(sim, "a put is not supported");
		break;
	case ERR_EXISTS:
		if (!oracle_was_present(&sim->oracle, put->key, call->since) &&
			!oracle_may_have_missed(&sim->oracle, put->key, call->since))
			sim_fail(
				sim, "EXISTS, but key %" PRIu32 " had nothing", put->key);
		sim_cover(sim, COVER_PUT_EXISTS);
		break;
	case ERR_TIMEOUT:
		check_in_time(sim, call, "TIMEOUT");
		break;
	case ERR_NO_SPACE:
		check_in_time(sim, call, "NO_SPACE");
		sim_cover(sim, COVER_PUT_NO_SPACE);
		break;
	case ERR_TOO_LARGE:
		if (put->size + beside <= sim->world.share.header->pool_size)
			sim_fail(sim, "%" PRIu64 " bytes are not too large", put->size);
		sim_cover(sim, COVER_PUT_TOO_LARGE);
		break;
	case ERR_REMOVED:
		if (!put->was_doomed &&
			!oracle_may_have_missed(&sim->oracle, put->key, call->since))
			sim_fail(sim, "REMOVED, but nobody removed key %" PRIu32,
				put->key);
		sim_cover(sim, COVER_PUT_REMOVED);
		break;
	case ERR_NOT_FOUND:
		/* Of two of the same put the one whose lane closed ended the other. */
		if (call->sends == 1)
			sim_fail(sim, "a put was lost by the daemon");
		break;
	default:
		if (!error_is_explained(sim, code))
			sim_fail(sim, "a put failed: %s", err_name(code));
		break;
	}
}

void put_judge_small(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size)
{
	int code = reply_error(sim, reply, size);
	const struct sim_object *object;
	struct msg_done done;

	if (code == ERR_TIMEOUT && put_is_late(sim, asked->put)) {
		sim_cover(sim, COVER_PUT_LATE);
		return;
	}
	if (code != 0) {
		put_judge_refused(sim, call, asked, code);
		return;
	}
	if (msg_done_decode(reply, size, &done) != 0)
		sim_fail(sim, "a put was answered by something else");
	object = oracle_find(&sim->oracle, asked->key, done.generation);
	if (object == NULL
			? !oracle_may_have_missed(&sim->oracle, asked->key, call->since)
			: object->put != asked->put)
		sim_fail(sim, "a put was told done, and made no object");
	sim_cover(sim, COVER_PUT_SMALL);
	if (call->sends > 1 && asked->put->objects == 1)
		sim_cover(sim, COVER_PUT_REPEATED);
}

static void put_small_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;

	if (call->reply != NULL)
		put_judge_small(
			sim, call, &call->asked[0], call->reply, call->reply_size);
	if (call->sends > 1 || call->reply == NULL)
		put_is_orphan(thread, thread->task.put);
	if (call->gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	task_end(sim, thread);
}

/* ---- in two steps -------------------------------------------------------- */

static int put_start(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct put *put = task->put;
	const struct oracle_key *key = &sim->oracle.keys[put->key];
	struct msg_put_start msg = {.key = {key->bytes, key->size},
		.size = put->size,
		.flags = put_flags(put),
		.readers = put->readers,
		.ttl_ns = put->ttl_ns,
		.op = put->op,
		.timeout_ns = task->timeout_ns};

	call_begin(sim, thread, msg_put_start_encode(sim->out, sizeof(sim->out), &msg),
		task->timeout_ns);
	call_asks(sim, thread, ASKED_START, put->key)->put = task->put;
	return PUTS_STARTED;
}

/* The run is ours. */
static void run_open(struct sim *sim, struct thread *thread)
{
	struct put *put = thread->task.put;
	struct msg_put_started msg;
	const struct slot *slot;

	if (msg_put_started_decode(thread->call.reply, thread->call.reply_size, &msg) !=
			0 ||
		msg.slot >= atomic_load(&sim->world.share.header->nslots))
		sim_fail(sim, "a start was answered by something else");
	slot = &sim->world.share.slots[msg.slot];
	if (slot->op != put->op || slot->size != put->size || slot->off != msg.off)
		sim_fail(sim, "PUT_STARTED in a slot of another put");
	thread->run = (struct run){.open = true,
		.slot = msg.slot,
		.life = msg.life,
		.off = msg.off,
		.epoch = (uint32_t)atomic_load(&sim->world.share.header->epoch),
		.put = put};
	if (thread->call.sends > 1)
		sim_cover(sim, COVER_PUT_REPEATED);
}

/* False: the put is over. */
static bool put_started(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	bool gave_up = call->gave_up;
	int code = SIM_INJECTED;

	if (call->reply != NULL)
		code = reply_error(sim, call->reply, call->reply_size);
	if (code == 0)
		run_open(sim, thread);
	else if (call->reply != NULL)
		put_judge_refused(sim, call, &call->asked[0], code);
	if (code != 0 && (call->sends > 1 || call->reply == NULL))
		put_is_orphan(thread, thread->task.put);
	if (gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	thread->task.stage = gave_up ? PUTS_ABORT : PUTS_WRITE;
	return code == 0;
}

static int put_write(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct put *put = task->put;
	unsigned char *run = sim->world.share.pool + thread->run.off;
	uint64_t piece = MIN(
		put->size - task->done, 1 + sim_pick(sim, MAX(put->size / 3, 64ull)));

	pattern_fill(run + task->done, task->done, piece, put->id);
	task->done += piece;
	if (sim->phase == SIM_CHAOS && sim_chance(sim, 8))
		thread->wait_until_ns = sim->world.now_ns +
					sim_pick(sim, 2 * sim->profile.put_timeout_ns);
	return task->done < put->size ? PUTS_WRITE : PUTS_CHECK;
}

static int put_check(struct sim *sim, struct thread *thread)
{
	const struct put *put = thread->task.put;

	if (!pattern_is(sim->world.share.pool + thread->run.off, 0, put->size, put->id))
		sim_fail(sim, "slot %" PRIu32 " was written to by others than its writer",
			thread->run.slot);
	return !thread->task.keep && sim_chance(sim, 10) ? PUTS_ABORT : PUTS_END;
}

static int put_end(struct sim *sim, struct thread *thread)
{
	struct msg_put_end msg = {.slot = thread->run.slot, .life = thread->run.life};

	if (thread->task.put->durable)
		msg.timeout_ns = choose_timeout(sim);
	call_begin(sim, thread, msg_put_end_encode(sim->out, sizeof(sim->out), &msg),
		msg.timeout_ns);
	call_asks(sim, thread, ASKED_END, thread->task.put->key)->put = thread->task.put;
	thread->run.open = false;
	return PUTS_ENDED;
}

static void put_judge_ended(struct sim *sim, const struct call *call, int code)
{
	const struct put *put = call->asked[0].put;

	if (durable_is_refused(sim, call, put, code))
		return;
	switch (code) {
	case ERR_TIMEOUT:
		if (!put_is_late(sim, put))
			sim_fail(sim, "a put's end was told TIMEOUT before its time");
		sim_cover(sim, COVER_PUT_LATE);
		break;
	case ERR_REMOVED:
		if (!put->was_doomed &&
			!oracle_may_have_missed(&sim->oracle, put->key, call->since))
			sim_fail(sim, "REMOVED, but nobody removed key %" PRIu32,
				put->key);
		sim_cover(sim, COVER_PUT_REMOVED);
		break;
	case ERR_NOT_FOUND:
		if (call->sends == 1)
			sim_fail(sim, "a put was lost by the daemon");
		if (put->object != NULL && put->object->ended == 0)
			sim_cover(sim, COVER_SEAL_LOST);
		break;
	default:
		if (!error_is_explained(sim, code))
			sim_fail(sim, "a put's end failed: %s", err_name(code));
		break;
	}
}

/* False: the put is over. */
static bool put_ended(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	const struct put *put = thread->task.put;
	int code = reply_error(sim, call->reply, call->reply_size);
	const struct sim_object *object;
	struct msg_done done;

	if (code != 0) {
		put_judge_ended(sim, call, code);
	} else {
		if (msg_done_decode(call->reply, call->reply_size, &done) != 0)
			sim_fail(sim, "a put's end was answered by something else");
		object = oracle_find(&sim->oracle, put->key, done.generation);
		if (object == NULL ? !oracle_may_have_missed(
					     &sim->oracle, put->key, call->since)
				   : object->put != put)
			sim_fail(sim, "a put was told done, and made no object");
		sim_cover(sim, COVER_PUT_LARGE);
		if (thread->run.epoch != atomic_load(&sim->world.share.header->epoch))
			sim_cover(sim, COVER_PUT_ENDED_AFTER_KILL);
	}
	call_end(thread);
	thread->task.stage = PUTS_ABORT;
	return code == SIM_INJECTED;
}

static int put_abort(struct sim *sim, struct thread *thread)
{
	struct msg_put_abort msg = {.slot = thread->run.slot, .life = thread->run.life};

	thread->task.tries = thread->run.open ? 0 : 1; /* its end may have been done */
	call_begin(
		sim, thread, msg_put_abort_encode(sim->out, sizeof(sim->out), &msg), 0);
	call_asks(sim, thread, ASKED_LOOK, thread->task.put->key);
	thread->run.open = false;
	return PUTS_ABORTED;
}

/* False: the put is over. */
static bool put_aborted(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	int code = reply_error(sim, call->reply, call->reply_size);

	if (call->reply == NULL)
		code = SIM_INJECTED;
	else if (code == ERR_NOT_FOUND && call->sends == 1 && thread->task.tries == 0)
		sim_fail(sim, "a put was lost by the daemon");
	else if (code != 0 && code != ERR_NOT_FOUND && !error_is_explained(sim, code))
		sim_fail(sim, "an abort failed: %s", err_name(code));
	if (code == 0)
		sim_cover(sim, COVER_PUT_ABORTED);
	call_end(thread);
	thread->task.stage = PUTS_ABORT;
	return code != 0 && code != ERR_NOT_FOUND;
}

/* ---- orphans ------------------------------------------------------------- */

void put_is_orphan(struct thread *thread, struct put *put)
{
	struct proc *proc = thread->proc;

	CHECK(proc->orphan_count < SIM_ORPHANS);
	proc->orphans[proc->orphan_count++] = put;
}

void orphan_begin(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;
	struct task *task = &thread->task;
	struct put *put = proc->orphans[--proc->orphan_count];
	uint32_t nslots = atomic_load(&sim->world.share.header->nslots);

	task->kind = TASK_NONE;
	for (uint32_t at = 0; at < nslots; at++) {
		const struct slot *slot = &sim->world.share.slots[at];
		uint64_t state = atomic_load(&slot->state);

		if (slot_kind_of(state) != SLOT_WRITING || slot->flags & SLOT_COPY ||
			slot->writer != put->ref || slot->op != put->op)
			continue;
		trace_event(&sim->trace,
			"process %u.%u aborts the orphan in slot %" PRIu32, proc->index,
			thread->index, at);
		*task = (struct task){.kind = TASK_PUT, .stage = PUTS_ABORT, .put = put};
		thread->run = (struct run){
			.slot = at, .life = slot_life_of(state), .put = put};
	}
}

void put_step(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	bool more = true;

	switch ((enum put_stage)task->stage) {
	case PUTS_SMALL:
		task->stage = put_small(sim, thread);
		break;
	case PUTS_SMALL_ANSWER:
		put_small_answer(sim, thread);
		break;
	case PUTS_START:
		task->stage = put_start(sim, thread);
		break;
	case PUTS_STARTED:
		more = put_started(sim, thread);
		break;
	case PUTS_WRITE:
		task->stage = put_write(sim, thread);
		break;
	case PUTS_CHECK:
		task->stage = put_check(sim, thread);
		break;
	case PUTS_END:
		task->stage = put_end(sim, thread);
		break;
	case PUTS_ENDED:
		more = put_ended(sim, thread);
		break;
	case PUTS_ABORT:
		task->stage = put_abort(sim, thread);
		break;
	case PUTS_ABORTED:
		more = put_aborted(sim, thread);
		break;
	}
	if (!more)
		task_end(sim, thread);
}
