/*
 * task_lease.c - leases, as readers on other nodes have them.
 *
 *   ASK -> ANSWER: a lease, trusted for 0.98 of its length from the moment of the question
 *   END -> ENDED: given back, once or more, in time or late
 *
 * While its reader trusts it, the bytes stay where they are, whatever happens to the object.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

enum lease_stage {
	LEASES_ASK,
	LEASES_ANSWER
};

static struct sim_lease *lease_choose(struct sim *sim, bool open)
{
	unsigned from = (unsigned)sim_pick(sim, SIM_LEASES);

	for (unsigned i = 0; i < SIM_LEASES; i++) {
		struct sim_lease *lease = &sim->leases[(from + i) % SIM_LEASES];

		if (lease->open == open && !lease->busy)
			return lease;
	}
	return NULL;
}

bool lease_begin(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	task->stage = LEASES_ASK;
	task->lease = lease_choose(sim, task->kind == TASK_LEASE_END);
	if (task->lease != NULL)
		task->lease->busy = true;
	return task->lease != NULL;
}

/* ---- ask for one --------------------------------------------------------- */

static void lease_ask(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct oracle_key *key = &sim->oracle.keys[task->key];
	struct msg_lease msg = {
		.key = {key->bytes, key->size},
		.length_ns = sim_chance(sim, 30) ? 0 : 1 + sim_pick(sim, NS_S),
		.timeout_ns = task->timeout_ns,
	};

	call_begin(sim, thread, msg_lease_encode(sim->out, sizeof(sim->out), &msg),
		task->timeout_ns);
	call_asks(sim, thread, ASKED_LOOK, task->key);
	trace_event(&sim->trace, "process %u.%u wants a lease of key %" PRIu32,
		thread->proc->index, thread->index, task->key);
}

static void lease_open(
	struct sim *sim, struct thread *thread, const struct msg_leased *msg)
{
	struct task *task = &thread->task;
	struct sim_lease *lease = task->lease;
	uint64_t sent_ns = thread->call.sent_ns;
	const struct slot *slot = &sim->world.share.slots[msg->slot];
	struct sim_object *object = oracle_find(&sim->oracle, task->key, msg->generation);

	if (object == NULL || !object_was_alive(object, thread->call.since))
		sim_fail(sim, "a lease of key %" PRIu32 ", of what was not there",
			task->key);
	if (msg->length_ns == 0 || msg->length_ns > sim->config.lease_max)
		sim_fail(sim, "a lease of %" PRIu64 " ns", msg->length_ns);
	*lease = (struct sim_lease){
		.open = true,
		.token = *msg,
		.key = task->key,
		.off = slot->off,
		.size = slot->size,
		.object = object,
		.good_ns = sent_ns + msg->length_ns / 100 * 98,
		.over_ns = sent_ns + msg->length_ns,
	};
	sim_cover(sim, COVER_LEASE);
}

static void lease_answer(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct call *call = &thread->call;
	struct msg_leased msg;
	int code;

	task->lease->busy = false;
	if (call->reply == NULL)
		return;
	code = reply_error(sim, call->reply, call->reply_size);
	if (code == 0 && msg_leased_decode(call->reply, call->reply_size, &msg) != 0)
		sim_fail(sim, "a lease was answered by something else");
	if (code == 0)
		lease_open(sim, thread, &msg);
	else if (code == ERR_NOT_FOUND) {
		if (!oracle_was_absent(&sim->oracle, task->key, call->since))
			sim_fail(sim,
				"NOT_FOUND, but key %" PRIu32 " was there all the time",
				task->key);
	} else if (!away_is_explained(sim, call, task->key, code, false) &&
		   !error_is_explained(sim, code)) {
		sim_fail(sim, "a lease failed: %s", err_name(code));
	}
}

/* ---- end one ------------------------------------------------------------- */

static void end_ask(struct sim *sim, struct thread *thread)
{
	const struct sim_lease *lease = thread->task.lease;
	const struct msg_leased *token = &lease->token;
	struct msg_lease_end msg = {token->epoch, token->life, token->slot, token->grant};

	/* Its reader has let go of the bytes. */
	thread->task.lease->good_ns = 0;
	call_begin(
		sim, thread, msg_lease_end_encode(sim->out, sizeof(sim->out), &msg), 0);
	call_asks(sim, thread, ASKED_LOOK, lease->key);
	thread->task.lease->ends_asked++;
	trace_event(&sim->trace, "process %u.%u ends its lease of slot %" PRIu32,
		thread->proc->index, thread->index, token->slot);
}

/* Why an end may be told that there is no such lease. */
static bool end_is_vain(
	const struct sim *sim, const struct sim_lease *lease, const struct call *call)
{
	return lease->ended || lease->ends_asked > 1 || call->sends > 1 ||
	       lease->over_ns <= sim->world.now_ns ||
	       atomic_load(&sim->world.share.header->epoch) != lease->token.epoch;
}

static void end_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	struct sim_lease *lease = thread->task.lease;
	int code = SIM_INJECTED;

	lease->busy = false;
	if (call->reply != NULL) {
		code = reply_error(sim, call->reply, call->reply_size);
		if (code == 0 && lease->ended)
			sim_fail(sim, "a lease of slot %" PRIu32 " ended twice",
				lease->token.slot);
		if (code == ERR_NOT_FOUND && !end_is_vain(sim, lease, call))
			sim_fail(sim, "a lease of slot %" PRIu32 " is not known",
				lease->token.slot);
		if (code != 0 && code != ERR_NOT_FOUND && !error_is_explained(sim, code))
			sim_fail(sim, "the end of a lease failed: %s", err_name(code));
	}
	if (code == 0)
		sim_cover(sim, COVER_LEASE_ENDED);
	if (code == ERR_NOT_FOUND)
		sim_cover(sim, lease->ended ? COVER_LEASE_ENDED_TWICE : COVER_LEASE_LATE);
	lease->ended |= code == 0 || code == ERR_NOT_FOUND;
	/* Some come a second time. */
	lease->open = sim_chance(sim, 40);
}

/* ---- steps --------------------------------------------------------------- */

void lease_step(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	bool is_end = task->kind == TASK_LEASE_END;

	if (task->stage == LEASES_ASK) {
		if (is_end)
			end_ask(sim, thread);
		else
			lease_ask(sim, thread);
		task->stage = LEASES_ANSWER;
		return;
	}
	if (is_end)
		end_answer(sim, thread);
	else
		lease_answer(sim, thread);
	if (thread->call.gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	task_end(sim, thread);
}

void lease_drop(struct thread *thread)
{
	if (thread->task.lease != NULL)
		*thread->task.lease = (struct sim_lease){.open = false};
}

void lease_forget_all(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_LEASES; i++)
		sim->leases[i] = (struct sim_lease){.open = false};
}

/* ---- what must hold ------------------------------------------------------ */

static void check_lease(struct sim *sim, const struct sim_lease *lease)
{
	const struct slot *slot = &sim->world.share.slots[lease->token.slot];
	uint64_t state = atomic_load(&slot->state);
	enum slot_kind kind = slot_kind_of(state);

	if (slot_life_of(state) != lease->token.life ||
		(kind != SLOT_READY && kind != SLOT_CONDEMNED))
		sim_fail(sim, "slot %" PRIu32 " was freed under a lease",
			lease->token.slot);
	if (slot->off != lease->off || slot->size != lease->size ||
		slot->generation != lease->object->generation)
		sim_fail(
			sim, "slot %" PRIu32 " changed under a lease", lease->token.slot);
	if (kind == SLOT_CONDEMNED)
		sim_cover(sim, COVER_LEASE_CONDEMNED);
	if (sim_chance(sim, 2) && !pattern_is(sim->world.share.pool + lease->off, 0,
					  lease->size, lease->object->put->id))
		sim_fail(sim, "wrong bytes in slot %" PRIu32 ", read under a lease",
			lease->token.slot);
}

void lease_check_all(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_LEASES; i++) {
		if (sim->leases[i].open && sim->leases[i].good_ns > sim->world.now_ns)
			check_lease(sim, &sim->leases[i]);
	}
}
