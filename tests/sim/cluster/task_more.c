/*
 * task_more.c - clients that end and that look: remove, by key and by prefix, stat, list.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <string.h>

enum ask_stage {
	ASKS_SEND,
	ASKS_ANSWER
};

/* ---- remove -------------------------------------------------------------- */

static void remove_judge(struct proc *proc, int code)
{
	struct host *host = proc->host;
	struct ending *ending = proc->task.ending;
	struct msg_done done;

	if (code == ERR_NOT_FOUND) {
		if (proc->call.sends > 1)
			return; /* nobody knows what the first has done */
		ending->refused = true;
		judge_not_found(host, proc->task.key, proc->call.began_ns, code);
		return;
	}
	if (code != 0) {
		judge_refused(host, proc->task.key, proc->call.began_ns, UINT64_MAX, code,
			"a remove");
		return;
	}
	if (msg_done_decode(proc->call.reply->bytes, proc->call.reply->size, &done) != 0)
		sim_fail(host->sim, "a remove was answered by something else");
	ending->answered_ns = host->sim->now_ns;
	ending->generation = done.generation;
	sim_cover(host->sim, COVER_REMOVED);
}

void remove_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct task *task = &proc->task;
	int code;

	if (task->stage == ASKS_SEND) {
		struct msg_remove msg = {.key = sim_key_bytes(sim, task->key)};

		task->ending = ledger_ending(
			sim, ENDING_REMOVE, task->key, proc->host->index);
		call_begin(proc, msg_remove_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, proc->index == SIM_JANITOR || sim_chance(sim, 50));
		task->stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code != ERR_RPC_FAIL)
		remove_judge(proc, code);
	task->result = code;
	task_end(proc);
}

/* ---- remove by prefix ---------------------------------------------------- */

static bool has_prefix(const struct sim *sim, uint32_t key, char prefix)
{
	return sim->ledger.keys[key].bytes[0] == (uint8_t)prefix;
}

static void prefix_begins(struct proc *proc, char prefix)
{
	struct sim *sim = proc->host->sim;

	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		if (has_prefix(sim, key, prefix))
			(void)ledger_ending(sim, ENDING_PREFIX, key, proc->host->index);
	}
}

/* Those that began with this task: the last of their host's. */
static void prefix_answered(struct proc *proc)
{
	struct sim *sim = proc->host->sim;

	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		list_for_each (at, &sim->ledger.keys[key].endings) {
			struct ending *ending = container_of(at, struct ending, entry);

			if (ending->kind == ENDING_PREFIX &&
				ending->host == proc->host->index &&
				ending->began_ns == proc->task.began_ns)
				ending->answered_ns = sim->now_ns;
		}
	}
	sim_cover(sim, COVER_REMOVED_PREFIX);
}

void remove_prefix_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	char prefix = (char)sim->ledger.keys[proc->task.key].bytes[0];
	int code;

	if (proc->task.stage == ASKS_SEND) {
		struct msg_remove_prefix msg = {.prefix = {&prefix, 1}};

		proc->task.began_ns = sim->now_ns;
		prefix_begins(proc, prefix);
		call_begin(proc,
			msg_remove_prefix_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, false);
		proc->task.stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code == 0)
		prefix_answered(proc);
	else if (code != ERR_RPC_FAIL)
		judge_refused(proc->host, proc->task.key, proc->call.began_ns, UINT64_MAX,
			code, "a remove by prefix");
	task_end(proc);
}

/* ---- look ---------------------------------------------------------------- */

/* It was confirmed in the directory, which a stat believes, and then ended otherwise: the entry goes
 * when its node has reached the directory. */
static bool is_being_undone(const struct sim *sim, const struct put *put)
{
	uint64_t since = put->began_ns - MIN(put->began_ns, SIM_SETTLE_NS);

	return put->failed && put->unsure &&
	       trouble_was_at(sim, put->host, since, put->over_ns) &&
	       !trouble_paused_at(
		       sim, put->host, put->over_ns, sim->now_ns, SIM_SETTLE_NS);
}

static void stat_judge(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	const struct ledger_key *key = &sim->ledger.keys[proc->task.key];
	struct msg_stated stated;

	if (msg_stated_decode(proc->call.reply->bytes, proc->call.reply->size, &stated) !=
		0)
		sim_fail(sim, "a stat was answered by something else");
	list_for_each (at, &key->puts) {
		const struct put *put = container_of(at, struct put, entry);

		if (put->size == stated.size &&
			(!put->failed || is_being_undone(sim, put)) &&
			(put->generation == 0 || put->repeated ||
				put->generation == stated.generation))
			return;
	}
	sim_fail(sim, "a stat of key %s tells of what was never put",
		key_name(sim, proc->task.key));
}

void stat_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	int code;

	if (proc->task.stage == ASKS_SEND) {
		struct msg_stat msg = {.key = sim_key_bytes(sim, proc->task.key)};

		call_begin(proc, msg_stat_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, false);
		proc->task.stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code == 0)
		stat_judge(proc);
	else if (code != ERR_RPC_FAIL && code != ERR_NOT_FOUND && code != ERR_LOST)
		judge_refused(proc->host, proc->task.key, proc->call.began_ns, UINT64_MAX,
			code, "a stat");
	task_end(proc);
}

static void list_judge(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct msg_listed listed;
	struct msg_entry entry;

	if (msg_listed_decode(proc->call.reply->bytes, proc->call.reply->size, &listed) !=
		0)
		sim_fail(sim, "a list was answered by something else");
	while (msg_entry_next(&listed.entries, &entry) == 1) {
		const uint8_t *bytes = entry.key.data;
		uint32_t key = entry.key.size < 2 ? SIM_KEYS : (uint32_t)(bytes[1] - 'A');

		if (key >= sim->profile.keys ||
			entry.key.size != sim->ledger.keys[key].size ||
			memcmp(bytes, sim->ledger.keys[key].bytes, entry.key.size) != 0)
			sim_fail(sim, "a list has a key that was never put");
	}
}

void list_step(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	int code;

	if (proc->task.stage == ASKS_SEND) {
		struct msg_list msg = {.prefix = {"", 0}};

		call_begin(proc, msg_list_encode(sim->out, sizeof(sim->out), &msg),
			UINT64_MAX, false);
		proc->task.stage = ASKS_ANSWER;
		return;
	}
	code = call_code(proc);
	if (code == 0)
		list_judge(proc);
	else if (code != ERR_RPC_FAIL)
		judge_refused(proc->host, proc->task.key, proc->call.began_ns, UINT64_MAX,
			code, "a list");
	task_end(proc);
}
