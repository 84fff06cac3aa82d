/*
 * task.c - what a thread does next, and the tasks that neither hold nor put.
 *
 * An answer is judged when its client reads it: it must have been true at some look of the
 * oracle since the question was first sent.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>

enum ask_stage {
	ASKS_ASK,
	ASKS_ANSWER
};

#define BATCH_VALUE 600ull
#define END_DISK_NS (10 * NS_S) /* that an end waits for the disk */

/* ---- choose -------------------------------------------------------------- */

static unsigned views_open(const struct proc *proc)
{
	unsigned open = 0;

	for (unsigned i = 0; i < SIM_VIEWS; i++)
		open += proc->views[i].open;
	return open;
}

/* The other threads of the process have nothing under way. */
static bool is_alone(const struct thread *thread)
{
	for (unsigned i = 0; i < SIM_THREADS; i++) {
		const struct thread *other = &thread->proc->threads[i];

		if (other != thread &&
			(other->task.kind != TASK_NONE || other->tell_count > 0))
			return false;
	}
	return true;
}

static enum task_kind choose_kind(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;
	uint64_t roll = sim_pick(sim, 100);

	if (!proc->attached)
		return TASK_ATTACH;
	if (proc->orphan_count > 0)
		return TASK_ORPHAN;
	if (proc->read_count > 0 && proc->reporting == NULL &&
		(sim->phase != SIM_CHAOS || sim_chance(sim, 50)))
		return TASK_REPORT;
	if (sim->phase == SIM_HEAL || views_open(proc) > sim->profile.views)
		return TASK_RELEASE;
	if (sim_chance(sim, sim->profile.leases))
		return sim_chance(sim, 60) ? TASK_LEASE : TASK_LEASE_END;
	if (roll < 2)
		return is_alone(thread) && views_open(proc) == 0 && proc->read_count == 0
			       ? TASK_BYE
			       : TASK_RELEASE;
	if (roll < 36)
		return proc->read_only ? TASK_GET : TASK_PUT;
	if (roll < 56)
		return TASK_GET;
	if (roll < 63)
		return TASK_REMOVE;
	if (roll < 70)
		return TASK_TAKE;
	if (roll < 75)
		return TASK_RELEASE;
	if (roll < 82)
		return TASK_READ;
	if (roll < 85)
		return TASK_TOUCH;
	if (roll < 88)
		return TASK_EXISTS;
	if (roll < 91)
		return TASK_STAT;
	if (roll < 93)
		return TASK_LIST;
	if (roll < 94)
		return TASK_INFO;
	return TASK_BATCH;
}

/* Any key; more often the one whose object is on the move, if there is one. */
static uint32_t choose_key(struct sim *sim)
{
	const struct node *node = sim->daemon.node;
	const struct sim_object *moving = NULL;
	uint32_t key;

	if (node != NULL && node->master.room.move.busy)
		moving = sim->oracle.slots[node->master.room.move.from].object;
	if (moving != NULL && sim_chance(sim, 30))
		return moving->put->key;
	if (sim->has_disk && sim_chance(sim, 25) && disk_choose_key(sim, &key))
		return key;
	return (uint32_t)sim_pick(sim, sim->profile.keys);
}

void task_choose(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	enum task_kind kind = choose_kind(sim, thread);

	memset(task, 0, sizeof(*task));
	task->kind = kind;
	task->key = choose_key(sim);
	task->heat = sim_chance(sim, 70) && task->kind != TASK_EXISTS ? HOLD_HEAT
								      : HOLD_COLD;
	task->keep = kind != TASK_PUT && sim_chance(sim, 40);
	task->timeout_ns = sim_chance(sim, 5) ? UINT64_MAX : sim_pick(sim, NS_S);
	if (task->kind == TASK_GET && sim_chance(sim, 20))
		task->flags = GET_WAIT;
	if (task->kind == TASK_PUT)
		put_begin(sim, thread);
	if (task->kind == TASK_ORPHAN)
		orphan_begin(sim, thread);
	if (task->kind == TASK_REPORT)
		thread->proc->reporting = thread;
	if ((kind == TASK_LEASE || kind == TASK_LEASE_END) && !lease_begin(sim, thread))
		task->kind = TASK_NONE;
	if (task->kind == TASK_BYE)
		thread->proc->leaving = true;
}

void task_end(struct sim *sim, struct thread *thread)
{
	(void)sim;
	CHECK(thread->call.stage == CALL_NONE && !thread->run.open);
	memset(&thread->task, 0, sizeof(thread->task));
}

/* ---- answers ------------------------------------------------------------- */

int reply_error(const struct sim *sim, const void *reply, size_t size)
{
	struct msg_error error;

	(void)sim;
	return msg_error_decode(reply, size, &error) == 0 ? error.code : 0;
}

bool error_is_explained(struct sim *sim, int code)
{
	sim->errors_seen++;
	if (code == ERR_TOO_MANY)
		return sim->config.max_ops < 64;
	if (code == ERR_NO_MEMORY)
		return sim->disk_was_full;
	return code == SIM_INJECTED && sim->errors_armed;
}

/* What ended, and whose record could not be deleted in time. */
bool end_is_late(struct sim *sim, const struct call *call, int code)
{
	if (code != ERR_IO || !sim->has_disk ||
		sim->world.now_ns - call->sent_ns < END_DISK_NS)
		return false;
	sim_cover(sim, COVER_REMOVE_LATE);
	return true;
}

void remove_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size)
{
	int code = reply_error(sim, reply, size);
	struct msg_done done;

	if (code != 0 && code != ERR_NOT_FOUND) {
		if (!end_is_late(sim, call, code) && !error_is_explained(sim, code))
			sim_fail(sim, "a remove failed: %s", err_name(code));
		return;
	}
	if (code == 0 && msg_done_decode(reply, size, &done) != 0)
		sim_fail(sim, "a remove was answered by something else");
	if (asked->before != NULL && asked->before->ended == 0)
		sim_fail(sim,
			"key %" PRIu32 " was told removed, and has its object still",
			asked->key);
	if (code == ERR_NOT_FOUND) {
		if (!oracle_was_absent(&sim->oracle, asked->key, call->since))
			sim_fail(sim,
				"NOT_FOUND, but key %" PRIu32 " was there all the time",
				asked->key);
		sim_cover(sim, COVER_REMOVE_NOT_FOUND);
	}
}

void stat_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size)
{
	int code = reply_error(sim, reply, size);
	const struct sim_object *object;
	struct msg_stated stated;

	if (code == ERR_NOT_FOUND) {
		if (!oracle_was_absent(&sim->oracle, asked->key, call->since))
			sim_fail(sim,
				"NOT_FOUND, but key %" PRIu32 " was there all the time",
				asked->key);
		return;
	}
	if (code != 0) {
		if (!error_is_explained(sim, code))
			sim_fail(sim, "a stat failed: %s", err_name(code));
		return;
	}
	if (msg_stated_decode(reply, size, &stated) != 0)
		sim_fail(sim, "a stat was answered by something else");
	object = oracle_find(&sim->oracle, asked->key, stated.generation);
	if (object == NULL &&
		oracle_may_have_missed(&sim->oracle, asked->key, call->since))
		return;
	if (object == NULL || !object_was_alive(object, call->since))
		sim_fail(sim, "a stat of key %" PRIu32 " told what was not there",
			asked->key);
	if (stated.size != object->put->size ||
		((stated.flags & PUT_SOFTPIN) != 0) != object->put->softpin ||
		(stated.expires_in_ns == UINT64_MAX) != (object->put->ttl_ns == 0))
		sim_fail(sim, "a stat of key %" PRIu32 " told other things", asked->key);
}

static void answer_judge(struct sim *sim, const struct call *call,
	const struct asked *asked, bool is_get, const void *reply, size_t size)
{
	switch (asked->kind) {
	case ASKED_PUT:
		put_judge_small(sim, call, asked, reply, size);
		return;
	case ASKED_REMOVE:
		remove_judge(sim, call, asked, reply, size);
		return;
	case ASKED_LOOK:
		if (is_get)
			get_judge(sim, call, asked, reply, size);
		else
			stat_judge(sim, call, asked, reply, size);
		return;
	case ASKED_NOTHING:
	case ASKED_START:
	case ASKED_END:
	case ASKED_TAKE:
	case ASKED_READ:
		break;
	}
	NOT_REACHED("not asked here");
}

/* ---- remove, stat -------------------------------------------------------- */

static struct msg_bytes key_bytes(const struct sim *sim, uint32_t key)
{
	return (struct msg_bytes){
		sim->oracle.keys[key].bytes, sim->oracle.keys[key].size};
}

static void ask_one(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct msg_remove remove = {.key = key_bytes(sim, task->key)};
	struct msg_stat stat = {.key = key_bytes(sim, task->key)};
	bool is_remove = task->kind == TASK_REMOVE;

	call_begin(sim, thread,
		is_remove ? msg_remove_encode(sim->out, sizeof(sim->out), &remove)
			  : msg_stat_encode(sim->out, sizeof(sim->out), &stat),
		0);
	call_asks(sim, thread, is_remove ? ASKED_REMOVE : ASKED_LOOK, task->key);
	trace_event(&sim->trace, "process %u.%u %s key %" PRIu32, thread->proc->index,
		thread->index, is_remove ? "removes" : "asks for", task->key);
}

static void answer_one(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;

	if (call->reply != NULL)
		answer_judge(
			sim, call, &call->asked[0], false, call->reply, call->reply_size);
	if (call->gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	task_end(sim, thread);
}

/* ---- reads that ended -------------------------------------------------------------- */

void read_ended(struct proc *proc, struct sim_object *object)
{
	if (object->put->readers == 0)
		return;
	CHECK(proc->read_count < SIM_READS);
	proc->reads[proc->read_count++] = object;
}

static void read_ask(struct sim *sim, struct thread *thread)
{
	struct proc *proc = thread->proc;
	struct sim_object *object = proc->reads[0];
	struct msg_read msg = {.key = key_bytes(sim, object->put->key),
		.generation = object->generation,
		.sequence = ++proc->read_sequence};

	object->reports++;
	call_begin(sim, thread, msg_read_encode(sim->out, sizeof(sim->out), &msg), 0);
	thread->call.patient = true;
	call_asks(sim, thread, ASKED_READ, object->put->key)->object = object;
}

/* It counts once, however often it is asked: so ask until it is known to. */
static void read_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	struct proc *proc = thread->proc;
	struct sim_object *object = proc->reads[0];
	int code = reply_error(sim, call->reply, call->reply_size);

	if (code != 0 && code != ERR_NOT_FOUND) {
		if (!end_is_late(sim, call, code) && !error_is_explained(sim, code))
			sim_fail(sim, "the report of a read failed: %s", err_name(code));
		call_again(thread);
		return;
	}
	/* It may have been judged before the object came back with the daemon's death. */
	if (code == ERR_NOT_FOUND && object->ended == 0 && !object->revived)
		sim_fail(sim, "a read of key %" PRIu32 " was not counted, which is there",
			object->put->key);
	if (code == 0) {
		object->reports_done++;
		sim_cover(sim, COVER_READ_COUNTED);
		if (call->sends > 1)
			sim_cover(sim, COVER_READ_REPEATED);
	}
	proc->read_count--;
	memmove(proc->reads, proc->reads + 1, proc->read_count * sizeof(proc->reads[0]));
	proc->reporting = NULL;
	call_end(thread);
	task_end(sim, thread);
}

/* ---- list ---------------------------------------------------------------- */

static const char list_prefixes[][2] = {"", "a", "b"};

static void list_ask(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const char *prefix = list_prefixes[task->slot];
	struct msg_list msg = {
		.prefix = {prefix, strlen(prefix)}, .cursor = task->cursor};

	call_begin(sim, thread, msg_list_encode(sim->out, sizeof(sim->out), &msg), 0);
}

static bool has_prefix(const struct oracle_key *key, const char *prefix)
{
	return prefix[0] == '\0' || key->bytes[0] == (uint8_t)prefix[0];
}

static void list_begin(struct sim *sim, struct task *task)
{
	task->slot = (uint32_t)sim_pick(sim, ARRAY_LEN(list_prefixes));
	task->cursor = 0;
	task->done = sim->oracle.looks;
	task->life = atomic_load(&sim->world.share.header->epoch);
	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		struct sim_object *object = sim->oracle.keys[key].object;

		if (object == NULL ||
			!has_prefix(&sim->oracle.keys[key], list_prefixes[task->slot]))
			continue;
		task->listed[key].object = object;
		task->listed[key].moves = object->moves;
	}
}

static uint32_t key_find(const struct sim *sim, struct msg_bytes bytes)
{
	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		const struct oracle_key *there = &sim->oracle.keys[key];

		if (there->size == bytes.size &&
			memcmp(there->bytes, bytes.data, bytes.size) == 0)
			return key;
	}
	return SIM_KEYS;
}

static void list_entry(struct sim *sim, struct task *task, const struct msg_entry *entry)
{
	uint32_t key = key_find(sim, entry->key);

	if (key == SIM_KEYS ||
		!has_prefix(&sim->oracle.keys[key], list_prefixes[task->slot]))
		sim_fail(sim, "a list has a key that nobody put, or not this prefix");
	if (!oracle_was_present(&sim->oracle, key, task->done) &&
		!oracle_may_have_missed(&sim->oracle, key, task->done))
		sim_fail(sim, "a list has key %" PRIu32 ", which was not there", key);
	task->listed[key].seen++;
}

/* What was there from the beginning to the end must have come. Places on disk have other
 * numbers after a start. */
static void list_judge(struct sim *sim, const struct task *task)
{
	bool renumbered = sim->has_disk &&
			  task->life != atomic_load(&sim->world.share.header->epoch);

	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		const struct sim_object *object = task->listed[key].object;

		if (object == NULL || object->ended != 0)
			continue;
		if (object->moves != task->listed[key].moves || renumbered)
			sim->cover->events[COVER_LIST_MISSED] += task->listed[key].seen ==
								 0;
		else if (task->listed[key].seen != 1)
			sim_fail(sim, "a list has key %" PRIu32 " %u times", key,
				task->listed[key].seen);
	}
	sim_cover(sim, COVER_LIST);
}

/* False: the list is over. */
static bool list_answer(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct call *call = &thread->call;
	int code = reply_error(sim, call->reply, call->reply_size);
	struct msg_entry entry;
	struct msg_listed listed;
	uint32_t count = 0;
	int got;

	if (code != 0) {
		if (!disk_error_is_explained(sim, call, code) &&
			!error_is_explained(sim, code))
			sim_fail(sim, "a list failed: %s", err_name(code));
		return false;
	}
	if (msg_listed_decode(call->reply, call->reply_size, &listed) != 0)
		sim_fail(sim, "a list was answered by something else");
	while ((got = msg_entry_next(&listed.entries, &entry)) == 1) {
		list_entry(sim, task, &entry);
		count++;
	}
	if (got != 0 || count != listed.count)
		sim_fail(sim, "a list's page is broken");
	task->cursor = listed.next;
	if (listed.next != UINT64_MAX)
		return true;
	list_judge(sim, task);
	return false;
}

static void listing_step(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	bool more;

	if (task->stage == ASKS_ASK) {
		if (!task->begun)
			list_begin(sim, task);
		task->begun = true;
		list_ask(sim, thread);
		task->stage = ASKS_ANSWER;
		return;
	}
	more = thread->call.reply != NULL && !thread->call.gave_up &&
	       list_answer(sim, thread);
	call_end(thread);
	task->stage = ASKS_ASK;
	if (!more)
		task_end(sim, thread);
}

/* ---- info ---------------------------------------------------------------- */

static void info_ask(struct sim *sim, struct thread *thread)
{
	struct msg_info msg = {.what = (uint32_t)sim_pick(sim, 4)};

	thread->task.cursor = msg.what;
	call_begin(sim, thread, msg_info_encode(sim->out, sizeof(sim->out), &msg), 0);
}

static void info_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	struct msg_info_text info;
	int code;

	if (call->reply != NULL) {
		code = reply_error(sim, call->reply, call->reply_size);
		if (code == 0 &&
			msg_info_text_decode(call->reply, call->reply_size, &info) != 0)
			sim_fail(sim, "INFO was answered by something else");
		if (code == 0 && thread->task.cursor == 2 && SIM_ASKS_NODE &&
			(info.text.size != 2 || memcmp(info.text.data, "ok", 2) != 0))
			sim_fail(sim, "INFO finds something broken");
		if (code != 0 && thread->task.cursor < 3 &&
			!error_is_explained(sim, code))
			sim_fail(sim, "INFO failed: %s", err_name(code));
	}
	call_end(thread);
	task_end(sim, thread);
}

/* ---- batch --------------------------------------------------------------- */

enum batch_item {
	ITEM_PUT,
	ITEM_GET,
	ITEM_REMOVE,
	ITEM_STAT,
	ITEM_KINDS
};

static const char *const item_names[] = {"put", "get", "remove", "stat"};

static size_t item_put(struct sim *sim, struct thread *thread, uint32_t key,
	struct msg_pack *pack, struct put **ret_put)
{
	unsigned char value[BATCH_VALUE];
	struct msg_put msg = {
		.key = key_bytes(sim, key), .timeout_ns = thread->task.timeout_ns};
	struct put *put = oracle_put(sim, thread->proc->ref, ++thread->proc->ops, key,
		sim_pick(sim, MIN(BATCH_VALUE, sim->config.small_limit)),
		sim_chance(sim, sim->profile.softpin), 0);

	pattern_fill(value, 0, put->size, put->id);
	put->durable = sim->has_disk && sim_chance(sim, sim->profile.durable / 2);
	msg.flags = (put->softpin ? PUT_SOFTPIN : 0u) | (put->durable ? PUT_DURABLE : 0u);
	msg.op = put->op;
	msg.value = (struct msg_bytes){value, put->size};
	*ret_put = put;
	return msg_put_encode(msg_pack_tail(pack), msg_pack_room(pack), &msg);
}

static void batch_add(struct sim *sim, struct thread *thread, struct msg_pack *pack)
{
	uint32_t key = (uint32_t)sim_pick(sim, sim->profile.keys);
	struct msg_get get = {
		.key = key_bytes(sim, key), .timeout_ns = thread->task.timeout_ns};
	struct msg_remove remove = {.key = key_bytes(sim, key)};
	struct msg_stat stat = {.key = key_bytes(sim, key)};
	enum batch_item item = (enum batch_item)sim_pick(sim, ITEM_KINDS);
	struct asked *asked = call_asks(sim, thread, ASKED_LOOK, key);
	size_t size = 0;

	if (item == ITEM_PUT && thread->proc->read_only)
		item = ITEM_GET;
	asked->is_get = item == ITEM_GET;
	trace_event(&sim->trace, "process %u.%u, batch: %s key %" PRIu32,
		thread->proc->index, thread->index, item_names[item], key);
	switch (item) {
	case ITEM_PUT:
		asked->kind = ASKED_PUT;
		size = item_put(sim, thread, key, pack, &asked->put);
		break;
	case ITEM_GET:
		size = msg_get_encode(msg_pack_tail(pack), msg_pack_room(pack), &get);
		break;
	case ITEM_REMOVE:
		asked->kind = ASKED_REMOVE;
		size = msg_remove_encode(
			msg_pack_tail(pack), msg_pack_room(pack), &remove);
		break;
	case ITEM_STAT:
		size = msg_stat_encode(msg_pack_tail(pack), msg_pack_room(pack), &stat);
		break;
	case ITEM_KINDS:
		NOT_REACHED("no such item");
	}
	msg_pack_add(pack, size);
}

static void batch_ask(struct sim *sim, struct thread *thread)
{
	struct msg_pack pack;
	uint64_t count = 1 + sim_pick(sim, SIM_BATCH);

	thread->task.timeout_ns = sim_pick(sim, NS_S);
	msg_pack_init(&pack, sim->out, sizeof(sim->out));
	for (uint64_t i = 0; i < count; i++)
		batch_add(sim, thread, &pack);
	call_begin(sim, thread, msg_pack_finish(&pack, MSG_TYPE_BATCH),
		thread->task.timeout_ns);
}

/* A pin that came in a batch goes back at once. */
static void batch_unpin(struct sim *sim, struct thread *thread, struct msg_bytes reply)
{
	struct msg_found found;
	struct msg_unpin unpin;

	if (msg_found_decode(reply.data, reply.size, &found) != 0)
		return;
	unpin = (struct msg_unpin){found.slot, found.life};
	(void)thread_send(
		sim, thread, msg_unpin_encode(sim->out, sizeof(sim->out), &unpin));
}

static void batch_judge(struct sim *sim, struct thread *thread)
{
	const struct call *call = &thread->call;
	struct msg_batch_done done;
	struct msg_bytes reply;
	unsigned count = 0;
	int got;

	if (msg_batch_done_decode(call->reply, call->reply_size, &done) != 0 ||
		done.count != call->asked_count)
		sim_fail(sim, "a batch was answered by something else");
	while ((got = msg_unpack(&done.replies, &reply)) == 1 &&
		count < call->asked_count) {
		const struct asked *asked = &call->asked[count++];

		answer_judge(sim, call, asked, asked->is_get, reply.data, reply.size);
		batch_unpin(sim, thread, reply);
	}
	if (got != 0 || count != call->asked_count)
		sim_fail(sim, "a batch has not as many answers as questions");
	sim_cover(sim, COVER_BATCH);
}

static void batch_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	int code;

	for (unsigned i = 0; i < call->asked_count; i++) {
		if (call->asked[i].kind == ASKED_PUT &&
			(call->sends > 1 || call->reply == NULL))
			put_is_orphan(thread, call->asked[i].put);
	}

	if (call->reply != NULL) {
		code = reply_error(sim, call->reply, call->reply_size);
		if (code == 0)
			batch_judge(sim, thread);
		else if (!error_is_explained(sim, code))
			sim_fail(sim, "a batch failed: %s", err_name(code));
	}
	if (call->gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	task_end(sim, thread);
}

/* ---- bye ----------------------------------------------------------------- */

static void bye_ask(struct sim *sim, struct thread *thread)
{
	struct msg_bye msg = {0};

	call_begin(sim, thread, msg_bye_encode(sim->out, sizeof(sim->out), &msg), 0);
	thread->call.patient = true;
}

static void proc_detach(struct sim *sim, struct proc *proc, bool ended)
{
	sim_cover(sim, COVER_CLIENT_BYE);
	trace_event(&sim->trace, "process %u has said good-bye", proc->index);
	proc->attached = proc->leaving = false;
	proc->holder.counts = NULL;
	proc->ops = 0;
	proc->orphan_count = 0;
	proc->read_sequence = 0;
	for (unsigned i = 0; i < SIM_THREADS; i++) {
		struct thread *thread = &proc->threads[i];

		/* One connection may be used again, as a stranger's. */
		if (thread->conn != NULL && (i > 0 || !ended || sim_chance(sim, 50))) {
			conn_leave(sim, thread->conn);
			thread->conn = NULL;
		}
		thread->hello_sent = thread->greeted = false;
	}
}

static void bye_answer(struct sim *sim, struct thread *thread)
{
	struct call *call = &thread->call;
	struct proc *proc = thread->proc;
	int code = 0;

	if (call->reply != NULL)
		code = reply_error(sim, call->reply, call->reply_size);
	if (code != 0 && !error_is_explained(sim, code))
		sim_fail(sim, "a good-bye failed: %s", err_name(code));
	call_end(thread);
	task_end(sim, thread);
	proc_detach(sim, proc,
		code == 0); /* whatever the answer: it has let go of everything */
}

/* ---- steps --------------------------------------------------------------- */

static void ask_step(struct sim *sim, struct thread *thread,
	void (*ask)(struct sim *, struct thread *),
	void (*answer)(struct sim *, struct thread *))
{
	if (thread->task.stage == ASKS_ASK) {
		ask(sim, thread);
		thread->task.stage = ASKS_ANSWER;
		return;
	}
	answer(sim, thread);
}

static void attach_ask(struct sim *sim, struct thread *thread)
{
	call_begin(sim, thread, 0, 0);
}

static void attach_answer(struct sim *sim, struct thread *thread)
{
	call_end(thread);
	task_end(sim, thread);
}

void task_step(struct sim *sim, struct thread *thread)
{
	switch (thread->task.kind) {
	case TASK_ATTACH:
		ask_step(sim, thread, attach_ask, attach_answer);
		return;
	case TASK_GET:
	case TASK_TAKE:
	case TASK_TOUCH:
	case TASK_EXISTS:
	case TASK_READ:
	case TASK_RELEASE:
		get_step(sim, thread);
		return;
	case TASK_PUT:
		put_step(sim, thread);
		return;
	case TASK_REMOVE:
	case TASK_STAT:
		ask_step(sim, thread, ask_one, answer_one);
		return;
	case TASK_LIST:
		listing_step(sim, thread);
		return;
	case TASK_BATCH:
		ask_step(sim, thread, batch_ask, batch_answer);
		return;
	case TASK_INFO:
		ask_step(sim, thread, info_ask, info_answer);
		return;
	case TASK_REPORT:
		ask_step(sim, thread, read_ask, read_answer);
		return;
	case TASK_LEASE:
	case TASK_LEASE_END:
		lease_step(sim, thread);
		return;
	case TASK_BYE:
		ask_step(sim, thread, bye_ask, bye_answer);
		return;
	case TASK_ORPHAN:
	case TASK_NONE:
		break;
	}
	NOT_REACHED("a thread without a task");
}
