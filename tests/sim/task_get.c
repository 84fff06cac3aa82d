/*
 * task_get.c - threads that hold: get, take, touch, exists, read, release.
 *
 *   FIND -> TAKE -> LOOK -> COMPARE -> HELD     a hit in the steps of hold.h
 *     |  \_____index_find()_______/             or in one, as the library does it
 *     '-> ASK -> ANSWER -> TRY -> UNPIN -> HELD, or FIND again
 *   HELD -> (TAKE_ASK -> TAKE_ANSWER) -> READ ... -> GIVE -> GIVE_LOOK
 *
 * Every arrow is a moment at which the thread's process may be stopped or killed.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <string.h>

enum get_stage {
	GETS_FIND,
	GETS_TAKE,
	GETS_LOOK,
	GETS_COMPARE,
	GETS_ASK,
	GETS_ANSWER,
	GETS_TRY,
	GETS_UNPIN,
	GETS_HELD,
	GETS_TAKE_ASK,
	GETS_TAKE_ANSWER,
	GETS_READ,
	GETS_GIVE,
	GETS_GIVE_LOOK,
	GETS_END
};

#define TRIES_MOST 50u

static struct index_key key_of(const struct sim *sim, uint32_t key)
{
	const struct oracle_key *there = &sim->oracle.keys[key];

	return (struct index_key){there->bytes, there->size, there->hash};
}

/* ---- views --------------------------------------------------------------- */

static struct view *view_find_free(struct proc *proc)
{
	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		if (!proc->views[i].open)
			return &proc->views[i];
	}
	NOT_REACHED("no view is free");
}

/* The hold on `slot` is good: it must be of an object of the key that is there now. */
static void view_open(struct sim *sim, struct thread *thread, uint32_t slot)
{
	struct task *task = &thread->task;
	const struct slot *there = &sim->world.share.slots[slot];
	const struct oracle_slot *seen = &sim->oracle.slots[slot];
	struct view *view = view_find_free(thread->proc);
	uint64_t state = atomic_load(&there->state);

	if (seen->object == NULL || seen->state != state)
		sim_fail(sim, "a hold on slot %" PRIu32 ", which has no object", slot);
	if (seen->object->put->key != task->key)
		sim_fail(sim, "a hold on slot %" PRIu32 ", which has another key", slot);
	*view = (struct view){
		.open = true,
		.busy = true,
		.key = task->key,
		.slot = slot,
		.life = slot_life_of(state),
		.off = there->off,
		.size = there->size,
		.object = seen->object,
	};
	task->view = view;
	task->slot = slot;
	thread->proc->hints[task->key] = slot;
	trace_event(&sim->trace, "process %u.%u holds slot %" PRIu32, thread->proc->index,
		thread->index, slot);
}

void view_read(struct sim *sim, struct view *view)
{
	const unsigned char *bytes = sim->world.share.pool + view->off;
	uint64_t off = 0, size = view->size;

	if (size > 512) {
		off = sim_pick(sim, size);
		size = MIN(size - off, 4096ull);
	}
	if (!pattern_is(bytes + off, off, size, view->object->put->id))
		sim_fail(sim, "wrong bytes in slot %" PRIu32 ", read under a hold",
			view->slot);
	if (slot_kind_of(atomic_load(&sim->world.share.slots[view->slot].state)) ==
		SLOT_CONDEMNED)
		sim_cover(sim, COVER_READ_CONDEMNED);
}

/* ---- a hit --------------------------------------------------------------- */

/* Some slot number that a bucket might give: often the right one, else an old one. */
static uint32_t candidate(
	const struct sim *sim, const struct proc *proc, uint32_t key, bool old)
{
	uint32_t nslots = atomic_load(&sim->world.share.header->nslots);

	for (uint32_t slot = 0; !old && slot < nslots; slot++) {
		const struct sim_object *object = sim->oracle.slots[slot].object;

		if (object != NULL && object->put->key == key)
			return slot;
	}
	return proc->hints[key];
}

static void hit_counts(struct sim *sim)
{
	sim_cover(sim, COVER_HIT);
	if (sim->daemon.node == NULL)
		sim_cover(sim, COVER_HIT_WHILE_DOWN);
}

static int after_miss(const struct task *task)
{
	return task->kind == TASK_TOUCH || task->kind == TASK_EXISTS ? GETS_END
								     : GETS_ASK;
}

static int get_find(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct index_key key = key_of(sim, task->key);
	uint32_t slot = 0;

	if (task->tries++ > TRIES_MOST)
		sim_fail(sim, "a key was there %u times, and never could be held",
			TRIES_MOST);
	if (sim_chance(sim, sim->profile.split)) {
		task->slot = candidate(sim, thread->proc, task->key, sim_chance(sim, 30));
		task->state = atomic_load_explicit(
			&sim->world.share.slots[task->slot].state, memory_order_acquire);
		return slot_kind_of(task->state) == SLOT_READY ? GETS_TAKE
							       : after_miss(task);
	}
	if (index_find(&sim->world.share, &thread->proc->holder, &key, task->heat,
		    &slot) != HOLD_OK)
		return after_miss(task);
	hit_counts(sim);
	view_open(sim, thread, slot);
	return GETS_HELD;
}

static int get_take(struct thread *thread)
{
	struct task *task = &thread->task;

	CHECK(hold_take(&thread->proc->holder, task->slot, task->heat));
	task->taking = true;
	return GETS_LOOK;
}

/* A failed hold goes back by give, with its look at `want`. */
static void get_back(struct sim *sim, struct thread *thread)
{
	thread->task.taking = false;
	if (!hold_give(&thread->proc->holder, sim->world.share.slots, thread->task.slot))
		sim_fail(sim, "a count was gone while its owner had it");
}

static int get_look(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct slot *slot = &sim->world.share.slots[task->slot];

	if (atomic_load_explicit(&slot->state, memory_order_seq_cst) == task->state)
		return GETS_COMPARE;
	sim_cover(sim, COVER_HIT_LATE);
	get_back(sim, thread);
	return after_miss(task);
}

static int get_compare(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct slot *slot = &sim->world.share.slots[task->slot];
	struct index_key key = key_of(sim, task->key);

	if (slot->klen != key.size ||
		memcmp(slot_key(&sim->world.share, slot), key.data, key.size) != 0) {
		get_back(sim, thread);
		return after_miss(task);
	}
	task->taking = false;
	/* It may have ended since the second look: the hold is good all the same. */
	if (atomic_load(&slot->state) != task->state) {
		struct view *view = view_find_free(thread->proc);
		struct sim_object *object = oracle_find(
			&sim->oracle, task->key, slot->generation);

		if (object == NULL)
			sim_fail(
				sim, "slot %" PRIu32 " has what no put made", task->slot);
		*view = (struct view){.open = true,
			.busy = true,
			.key = task->key,
			.slot = task->slot,
			.life = slot_life_of(task->state),
			.off = slot->off,
			.size = slot->size,
			.object = object};
		task->view = view;
		return GETS_HELD;
	}
	hit_counts(sim);
	view_open(sim, thread, task->slot);
	return GETS_HELD;
}

/* ---- a miss -------------------------------------------------------------- */

static int get_ask(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	const struct oracle_key *key = &sim->oracle.keys[task->key];
	struct msg_get msg = {.key = {key->bytes, key->size},
		.flags = task->flags,
		.timeout_ns = task->timeout_ns};

	call_begin(sim, thread, msg_get_encode(sim->out, sizeof(sim->out), &msg),
		task->timeout_ns);
	call_asks(sim, thread, ASKED_LOOK, task->key);
	return GETS_ANSWER;
}

/* Also one of a single question. */
static bool call_is_batch(const struct call *call)
{
	enum msg_type type;

	return call->message != NULL && msg_type(call->message, call->size, &type) == 0 &&
	       type == MSG_TYPE_BATCH;
}

/* The object in a slot that the daemon pinned for us. */
static void check_found(struct sim *sim, uint32_t key, const struct msg_found *found)
{
	const struct slot *slot;
	uint64_t state;

	if (found->slot >= atomic_load(&sim->world.share.header->nslots))
		sim_fail(sim, "FOUND in slot %" PRIu32 ", which there is not",
			found->slot);
	slot = &sim->world.share.slots[found->slot];
	state = atomic_load(&slot->state);
	if (slot_life_of(state) == found->life &&
		(slot->klen != sim->oracle.keys[key].size ||
			memcmp(slot_key(&sim->world.share, slot),
				sim->oracle.keys[key].bytes, slot->klen) != 0))
		sim_fail(sim, "FOUND in slot %" PRIu32 ", which has another key",
			found->slot);
}

void get_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size)
{
	int code = reply_error(sim, reply, size);
	uint64_t waited = sim->world.now_ns - call->sent_ns;
	struct msg_found found;

	if (code == 0) {
		if (msg_found_decode(reply, size, &found) != 0)
			sim_fail(sim, "a get was answered by something else");
		if (!oracle_was_present(&sim->oracle, asked->key, call->since) &&
			!oracle_may_have_missed(&sim->oracle, asked->key, call->since))
			sim_fail(sim, "FOUND, but key %" PRIu32 " had nothing",
				asked->key);
		check_found(sim, asked->key, &found);
		sim_cover(sim, COVER_MISS_FOUND);
	} else if (code == ERR_NOT_FOUND) {
		if (!oracle_was_absent(&sim->oracle, asked->key, call->since))
			sim_fail(sim,
				"NOT_FOUND, but key %" PRIu32 " was there all the time",
				asked->key);
	} else if (away_is_explained(sim, call, asked->key, code, call_is_batch(call))) {
		return;
	} else if (code == ERR_TIMEOUT) {
		if (waited < call->timeout_ns)
			sim_fail(sim, "a get ended before its time");
		if (!oracle_was_absent(&sim->oracle, asked->key, call->since))
			sim_fail(sim,
				"TIMEOUT, but key %" PRIu32 " was there all the time",
				asked->key);
		sim_cover(sim, COVER_GET_TIMEOUT);
	} else if (!error_is_explained(sim, code)) {
		sim_fail(sim, "a get failed: %s", err_name(code));
	}
}

static int get_answer(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct call *call = &thread->call;
	bool gave_up = call->gave_up;
	struct msg_found found;
	int next = GETS_END;

	if (call->reply != NULL) {
		get_judge(sim, call, &call->asked[0], call->reply, call->reply_size);
		if (msg_found_decode(call->reply, call->reply_size, &found) == 0) {
			if (task->flags & GET_WAIT && call->asked[0].before == NULL)
				sim_cover(sim, COVER_GET_WAITED);
			task->slot = found.slot;
			task->life = found.life;
			task->pinned = true;
			task->pin_conn = thread->conn;
			task->pin_conn_id = thread->conn == NULL ? 0 : thread->conn->id;
			task->pinned = thread->conn != NULL;
			task->then = GETS_FIND;
			next = GETS_TRY;
		}
	}
	if (gave_up) {
		sim_cover(sim, COVER_GAVE_UP);
		task->then = GETS_END;
		next = next == GETS_TRY ? GETS_UNPIN : GETS_END;
	}
	call_end(thread);
	return next;
}

static int get_try(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct index_key key = key_of(sim, task->key);

	task->then = GETS_FIND;
	if (index_try(&sim->world.share, &thread->proc->holder, &key, task->slot,
		    task->heat) == HOLD_OK) {
		view_open(sim, thread, task->slot);
		task->then = GETS_HELD;
	} else {
		sim_cover(sim, COVER_PIN_LATE);
	}
	return GETS_UNPIN;
}

static int get_unpin(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct msg_unpin msg = {.slot = task->slot, .life = task->life};
	size_t size = msg_unpin_encode(sim->out, sizeof(sim->out), &msg);

	if (task->pinned && thread->conn == task->pin_conn && thread->conn != NULL &&
		thread->conn->id == task->pin_conn_id)
		(void)thread_send(sim, thread, size);
	task->pinned = false;
	return task->then;
}

/* ---- take ---------------------------------------------------------------- */

static int take_ask(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct msg_take msg = {.slot = task->view->slot,
		.life = task->view->life,
		.op = ++thread->proc->ops};
	struct asked *asked;

	call_begin(sim, thread, msg_take_encode(sim->out, sizeof(sim->out), &msg), 0);
	asked = call_asks(sim, thread, ASKED_TAKE, task->key);
	asked->slot = msg.slot;
	asked->life = msg.life;
	asked->op = msg.op;
	return GETS_TAKE_ANSWER;
}

static bool take_was_won(const struct sim_object *object, const struct asked *asked)
{
	return object->reason == END_TAKEN && object->taker == asked->ref &&
	       object->take_op == asked->op;
}

static void take_judge_lost(
	struct sim *sim, const struct view *view, const struct asked *asked)
{
	uint64_t state = atomic_load(&sim->world.share.slots[view->slot].state);

	if (take_was_won(view->object, asked))
		sim_fail(sim, "a take was won, and its client told NOT_FOUND");
	if (slot_kind_of(state) == SLOT_READY)
		sim_fail(sim, "a take of what is there was told NOT_FOUND");
	sim_cover(sim, COVER_TAKE_LOST);
}

static void take_judge_won(
	struct sim *sim, const struct view *view, const struct call *call)
{
	struct msg_done done;

	if (msg_done_decode(call->reply, call->reply_size, &done) != 0)
		sim_fail(sim, "a take was answered by something else");
	if (!take_was_won(view->object, &call->asked[0]))
		sim_fail(sim, "a take was told yours, and is another's");
	if (done.generation != view->object->generation)
		sim_fail(sim, "a take was told another generation");
	sim_cover(sim, COVER_TAKE_WON);
	if (call->sends > 1)
		sim_cover(sim, COVER_TAKE_REPEATED);
}

static int take_answer(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct call *call = &thread->call;
	bool again = false;

	if (call->reply != NULL) {
		int code = reply_error(sim, call->reply, call->reply_size);

		if (code == 0)
			take_judge_won(sim, task->view, call);
		else if (code == ERR_NOT_FOUND)
			take_judge_lost(sim, task->view, &call->asked[0]);
		else if (!end_is_late(sim, call, code) && !error_is_explained(sim, code))
			sim_fail(sim, "a take failed: %s", err_name(code));
		/* Relocated, or ended: the key says which. */
		again = code == ERR_NOT_FOUND && !call->gave_up;
	}
	if (call->gave_up)
		sim_cover(sim, COVER_GAVE_UP);
	call_end(thread);
	task->keep = false;
	task->then = again ? GETS_FIND : GETS_END;
	return again ? GETS_GIVE : GETS_READ;
}

/* ---- held ---------------------------------------------------------------- */

static int get_held(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	task->then = GETS_END;
	if (task->kind == TASK_TAKE)
		return GETS_TAKE_ASK;
	if (task->kind == TASK_TOUCH || task->kind == TASK_EXISTS)
		return GETS_GIVE;
	task->rounds = (unsigned)sim_pick(sim, 4);
	return GETS_READ;
}

static int get_read(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	view_read(sim, task->view);
	if (task->rounds > 0) {
		task->rounds--;
		if (sim_chance(sim, 10))
			thread->wait_until_ns = sim->world.now_ns +
						sim_pick(sim, 100 * NS_MS);
		return GETS_READ;
	}
	if (!task->keep)
		return GETS_GIVE;
	task->view->busy = false;
	return GETS_END;
}

static int get_give(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;
	struct holder *holder = &thread->proc->holder;
	uint32_t slot = task->view->slot;
	uint16_t old;

	if (sim->daemon.node == NULL)
		sim_cover(sim, COVER_RELEASE_WHILE_DOWN);
	if (task->kind == TASK_GET || task->kind == TASK_RELEASE)
		read_ended(thread->proc, task->view->object);
	task->view->open = false;
	task->slot = slot;
	trace_event(&sim->trace, "process %u.%u gives slot %" PRIu32, thread->proc->index,
		thread->index, slot);
	if (!sim_chance(sim, sim->profile.split)) {
		if (!hold_give(holder, sim->world.share.slots, slot))
			sim_fail(sim, "a count was gone while its owner had it");
		return task->then;
	}
	old = atomic_fetch_sub_explicit(&holder->counts[slot], 1, memory_order_seq_cst);
	if ((old & HOLD_COUNT) == 0)
		sim_fail(sim, "a count was gone while its owner had it");
	task->giving = (old & HOLD_COUNT) == 1;
	return GETS_GIVE_LOOK;
}

static int get_give_look(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	if (task->giving && atomic_load_explicit(&sim->world.share.slots[task->slot].want,
				    memory_order_seq_cst))
		thread->proc->holder.tell(&thread->proc->holder, task->slot);
	task->giving = false;
	return task->then;
}

/* ---- the views that a process has ---------------------------------------- */

static struct view *view_choose(struct sim *sim, struct proc *proc)
{
	unsigned from = (unsigned)sim_pick(sim, SIM_VIEWS);

	for (unsigned i = 0; i < SIM_VIEWS; i++) {
		struct view *view = &proc->views[(from + i) % SIM_VIEWS];

		if (view->open && !view->busy)
			return view;
	}
	return NULL;
}

static int get_begin(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	if (task->kind != TASK_READ && task->kind != TASK_RELEASE)
		return GETS_FIND;
	task->view = view_choose(sim, thread->proc);
	if (task->view == NULL)
		return GETS_END;
	task->view->busy = true;
	task->keep = task->kind == TASK_READ;
	task->then = GETS_END;
	return GETS_READ;
}

void get_step(struct sim *sim, struct thread *thread)
{
	struct task *task = &thread->task;

	if (!task->begun) {
		task->begun = true;
		task->stage = get_begin(sim, thread);
	}
	switch ((enum get_stage)task->stage) {
	case GETS_FIND:
		task->stage = get_find(sim, thread);
		break;
	case GETS_TAKE:
		task->stage = get_take(thread);
		break;
	case GETS_LOOK:
		task->stage = get_look(sim, thread);
		break;
	case GETS_COMPARE:
		task->stage = get_compare(sim, thread);
		break;
	case GETS_ASK:
		task->stage = get_ask(sim, thread);
		break;
	case GETS_ANSWER:
		task->stage = get_answer(sim, thread);
		break;
	case GETS_TRY:
		task->stage = get_try(sim, thread);
		break;
	case GETS_UNPIN:
		task->stage = get_unpin(sim, thread);
		break;
	case GETS_HELD:
		task->stage = get_held(sim, thread);
		break;
	case GETS_TAKE_ASK:
		task->stage = take_ask(sim, thread);
		break;
	case GETS_TAKE_ANSWER:
		task->stage = take_answer(sim, thread);
		break;
	case GETS_READ:
		task->stage = get_read(sim, thread);
		break;
	case GETS_GIVE:
		task->stage = get_give(sim, thread);
		break;
	case GETS_GIVE_LOOK:
		task->stage = get_give_look(sim, thread);
		break;
	case GETS_END:
		break;
	}
	if (task->stage == GETS_END)
		task_end(sim, thread);
}
