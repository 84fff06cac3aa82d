/*
 * task_put.c - clients that put, in one message or in two.
 *
 *   PUT -> ANSWER
 *   START -> STARTED (the bytes, half by half) -> END -> ENDED
 *               '--sometimes--> ABORT
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "model/core_pattern.h"

#include <stdlib.h>

enum put_stage {
	PUTS_BEGIN,
	PUTS_ANSWER,
	PUTS_STARTED,
	PUTS_HALF,
	PUTS_ENDED,
	PUTS_ABORTED
};

#define SMALL_MOST (60u << 10)

/* ---- begin --------------------------------------------------------------- */

static uint64_t choose_size(struct sim *sim)
{
	if (sim_chance(sim, sim->profile.large))
		return (66u << 10) +
		       sim_pick(sim, sim->profile.size_most - (66u << 10) + 1);
	if (sim_chance(sim, 10))
		return 8 + sim_pick(sim, SMALL_MOST);
	return 8 + sim_pick(sim, 1000);
}

/* By its number, and not by chance: the rest of a seed is as without it. */
static void choose_replicas(struct put *put)
{
	if (!put->softpin || put->readers > 0 || put->id % 3 != 0)
		return;
	put->replicas = (uint16_t)(2 + put->id / 3 % 2);
	put->required = put->id / 6 % 3 == 0;
}

static struct put *put_make(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	const struct sim_profile *profile = &sim->profile;
	struct put *put = ledger_put(sim, proc->task.key, proc->host->index);

	put->size = choose_size(sim);
	put->softpin = sim_chance(sim, profile->softpin);
	put->replace = sim_chance(sim, profile->replace);
	put->durable = put->softpin && sim_chance(sim, profile->durable) &&
		       proc->host->has_disk;
	if (sim_chance(sim, profile->ttl))
		put->ttl_ns = 100 * NS_MS + sim_about(sim, 3 * NS_S);
	if (sim_chance(sim, profile->readers))
		put->readers = (uint16_t)(1 + sim_pick(sim, 3));
	choose_replicas(put);
	return put;
}

static uint32_t put_flags(const struct put *put)
{
	return (put->softpin ? PUT_SOFTPIN : 0u) | (put->durable ? PUT_DURABLE : 0u) |
	       (put->replace ? PUT_REPLACE : 0u) | (put->required ? PUT_REQUIRED : 0u);
}

static size_t put_encode_small(struct proc *proc, const struct put *put, uint8_t *value)
{
	struct sim *sim = proc->host->sim;
	struct msg_put msg = {.key = sim_key_bytes(sim, put->key),
		.flags = put_flags(put),
		.readers = put->readers,
		.replicas = put->replicas,
		.ttl_ns = put->ttl_ns,
		.op = ++proc->ops,
		.timeout_ns = proc->task.timeout_ns,
		.value = {value, put->size}};

	pattern_fill(value, put->size, put->id);
	return msg_put_encode(sim->out, sizeof(sim->out), &msg);
}

static size_t put_encode_start(struct proc *proc, const struct put *put)
{
	struct sim *sim = proc->host->sim;
	struct msg_put_start msg = {.key = sim_key_bytes(sim, put->key),
		.size = put->size,
		.flags = put_flags(put),
		.readers = put->readers,
		.replicas = put->replicas,
		.ttl_ns = put->ttl_ns,
		.op = ++proc->ops,
		.timeout_ns = proc->task.timeout_ns};

	return msg_put_start_encode(sim->out, sizeof(sim->out), &msg);
}

static void put_send(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct put *put = put_make(proc);
	bool small = put->size <= SMALL_MOST && sim_chance(sim, 70);
	uint8_t *value;

	proc->task.put = put;
	trace_event(&sim->trace,
		"client %u.%u: put %" PRIu64 ", %" PRIu64 " bytes%s%s, %u replicas%s",
		proc->host->index, proc->index, put->id, put->size,
		put->softpin ? ", softpin" : "", put->replace ? ", replaces" : "",
		put->replicas, put->required ? " or nothing" : "");
	if (!small) {
		call_begin(
			proc, put_encode_start(proc, put), proc->task.timeout_ns, true);
		proc->task.stage = PUTS_STARTED;
		return;
	}
	value = malloc(put->size);
	CHECK(value != NULL);
	call_begin(proc, put_encode_small(proc, put, value), proc->task.timeout_ns, true);
	free(value);
	proc->task.stage = PUTS_ANSWER;
}

/* ---- ends ---------------------------------------------------------------- */

static void put_answered(struct proc *proc)
{
	struct put *put = proc->task.put;
	int code = call_code(proc);
	struct msg_done done = {.generation = 0};

	if (code == 0 && msg_done_decode(proc->call.reply->bytes, proc->call.reply->size,
				 &done) != 0)
		sim_fail(proc->host->sim, "a put was answered by something else");
	if (code != ERR_RPC_FAIL)
		judge_put(proc->host, put, &proc->call, code, &done);
	if (put->over_ns == 0)
		put->over_ns = proc->host->sim->now_ns;
	proc->task.result = code;
	task_end(proc);
}

/* Nothing of it was ever to be read. */
static void put_not_begun(struct proc *proc, int code)
{
	struct put *put = proc->task.put;
	const struct msg_done nothing = {.generation = 0};

	put->failed = true;
	put->over_ns = proc->host->sim->now_ns;
	judge_put(proc->host, put, &proc->call, code, &nothing);
	proc->task.result = code;
	task_end(proc);
}

/* ---- in two steps -------------------------------------------------------- */

static void put_started(struct proc *proc)
{
	const struct sim_message *reply = proc->call.reply;
	int code = call_code(proc);
	struct msg_put_started started;

	if (code != 0) {
		put_not_begun(proc, code);
		return;
	}
	if (msg_put_started_decode(reply->bytes, reply->size, &started) != 0)
		sim_fail(proc->host->sim,
			"a start of a put was answered by something else");
	proc->task.slot = started.slot;
	proc->task.life = started.life;
	proc->task.off = started.off;
	call_end(proc);
	pattern_fill(proc->host->world.share.pool + started.off,
		proc->task.put->size / 16 * 8, proc->task.put->id);
	proc->task.stage = PUTS_HALF;
}

static void put_finish(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct task *task = &proc->task;
	struct msg_put_abort abort = {.slot = task->slot, .life = task->life};
	struct msg_put_end end = {
		.slot = task->slot, .life = task->life, .timeout_ns = task->timeout_ns};

	pattern_fill(
		proc->host->world.share.pool + task->off, task->put->size, task->put->id);
	if (sim_chance(sim, 4)) {
		call_begin(proc, msg_put_abort_encode(sim->out, sizeof(sim->out), &abort),
			UINT64_MAX, true);
		task->stage = PUTS_ABORTED;
		return;
	}
	call_begin(proc, msg_put_end_encode(sim->out, sizeof(sim->out), &end),
		task->timeout_ns, true);
	task->stage = PUTS_ENDED;
}

static void put_aborted(struct proc *proc)
{
	proc->task.put->failed = true;
	proc->task.put->over_ns = proc->host->sim->now_ns;
	task_end(proc);
}

void put_step(struct proc *proc)
{
	switch ((enum put_stage)proc->task.stage) {
	case PUTS_BEGIN:
		put_send(proc);
		return;
	case PUTS_ANSWER:
	case PUTS_ENDED:
		put_answered(proc);
		return;
	case PUTS_STARTED:
		put_started(proc);
		return;
	case PUTS_HALF:
		put_finish(proc);
		return;
	case PUTS_ABORTED:
		put_aborted(proc);
		return;
	}
	NOT_REACHED("no such stage");
}
