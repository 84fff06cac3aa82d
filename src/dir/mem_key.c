/*
 * mem_key.c - the commands of dir.h on one key.
 *
 * Each looks at what is there, decides by generations, and only then changes anything, so
 * that a refusal for want of room leaves all as it was.
 */
#include "dir/mem_key.h"

#include "base/check.h"
#include "base/err.h"
#include "dir/dir_entry.h"

#include <string.h>

/* One command under way. */
struct run {
	struct mem_key *key;
	struct dir_call *call;
	uint64_t now;
	bool full, changed;
};

static uint64_t later(uint64_t now, uint64_t span)
{
	return span > UINT64_MAX - now ? UINT64_MAX : now + span;
}

static int say(struct run *run, enum dir_verdict verdict)
{
	run->call->verdict = verdict;
	return 0;
}

/* ---- parts of a key ------------------------------------------------------ */

void mem_key_init(struct mem_key *key, struct dir_id id)
{
	*key = (struct mem_key){
		.id = id, .expires = UINT64_MAX, .lost_until = UINT64_MAX};
}

static void entry_end(struct mem_key *key)
{
	key->there = (struct dir_entry){.generation = 0};
	key->memo = (struct mem_memo){.until = 0};
	key->expires = UINT64_MAX;
	key->lost_until = UINT64_MAX;
}

static void waiters_tidy(struct mem_key *key, uint64_t now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < key->waiter_count; i++) {
		if (key->waiters[i].until > now)
			key->waiters[kept++] = key->waiters[i];
	}
	key->waiter_count = kept;
}

static void tokens_tidy(struct mem_key *key, uint64_t now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < key->token_count; i++) {
		if (key->tokens[i].until > now)
			key->tokens[kept++] = key->tokens[i];
	}
	key->token_count = kept;
}

bool mem_key_look(const struct mem_key *key, uint64_t now, struct dir_entry *ret)
{
	if (key->there.generation == 0 || key->expires <= now || key->lost_until <= now)
		return false;
	*ret = key->there;
	return true;
}

void mem_key_tidy(struct mem_key *key, uint64_t now)
{
	if (key->expires <= now || key->lost_until <= now)
		entry_end(key);
	if (key->memo.until <= now)
		key->memo = (struct mem_memo){.until = 0};
	if (key->buried_until <= now)
		key->buried = key->buried_until = 0;
	waiters_tidy(key, now);
	tokens_tidy(key, now);
}

bool mem_key_is_empty(const struct mem_key *key)
{
	return key->there.generation == 0 && key->buried == 0 && key->waiter_count == 0 &&
	       key->token_count == 0;
}

/* The caller holds the entry as `role`. */
static bool hold(struct run *run, enum dir_role role)
{
	const struct dir_holder holder = {run->call->node, run->call->incarnation, role};
	struct mem_key *key = run->key;

	if (!dir_entry_set(&key->there, &holder))
		return false;
	if (role != DIR_LOADING)
		key->lost_until = UINT64_MAX;
	run->changed = true;
	return true;
}

/* One tombstone is enough: of the highest generation, for as long as the longest. */
static void bury(struct run *run, uint64_t generation, uint64_t span)
{
	struct mem_key *key = run->key;

	key->buried = MAX(key->buried, generation);
	key->buried_until = MAX(key->buried_until, later(run->now, span));
	run->changed = true;
}

/* ---- publish, announce --------------------------------------------------- */

static void take_waiters(struct run *run)
{
	struct mem_key *key = run->key;
	struct dir_call *call = run->call;

	call->waiter_count = key->waiter_count;
	for (uint32_t i = 0; i < key->waiter_count; i++)
		call->waiters[i] = key->waiters[i].node;
	run->changed |= key->waiter_count > 0;
	key->waiter_count = 0;
}

/* The entry that stands is the work of this very command: the same answer again. */
static bool repeat(struct run *run)
{
	const struct mem_memo *memo = &run->key->memo;
	struct dir_call *call = run->call;

	if (memo->until == 0 || memo->op != call->op || memo->node != call->node)
		return false;
	call->entry = memo->old;
	call->waiter_count = memo->waiter_count;
	memcpy(call->waiters, memo->waiters, sizeof(memo->waiters));
	call->verdict = memo->verdict;
	return true;
}

/* Make the entry that the call describes in the place of what is there. */
static int replace(
	struct run *run, uint32_t flags, enum dir_role role, enum dir_verdict verdict)
{
	struct mem_key *key = run->key;
	struct dir_call *call = run->call;

	take_waiters(run);
	entry_end(key);
	key->there = (struct dir_entry){
		.generation = call->generation,
		.size = call->size,
		.flags = flags,
		.wanted = call->wanted,
	};
	if (call->ttl_ns != 0)
		key->expires = later(run->now, call->ttl_ns);
	(void)hold(run, role);
	if (call->entry.generation != 0 || call->waiter_count > 0) {
		key->memo = (struct mem_memo){
			.until = later(run->now, DIR_REPEAT_NS),
			.op = call->op,
			.node = call->node,
			.role = call->role,
			.verdict = verdict,
			.old = call->entry,
			.waiter_count = call->waiter_count,
		};
		memcpy(key->memo.waiters, call->waiters, sizeof(call->waiters));
	}
	return say(run, verdict);
}

static int run_publish(struct run *run)
{
	struct dir_entry *there = &run->key->there;
	struct dir_call *call = run->call;

	if (run->key->buried >= call->generation)
		return say(run, DIR_REMOVED);
	if (there->generation == call->generation &&
		dir_entry_find(there, call->node) != NULL) {
		call->entry = (struct dir_entry){.generation = 0};
		return repeat(run) ? 0 : say(run, DIR_DONE);
	}
	if (there->generation != 0 &&
		(!call->replace || there->generation >= call->generation))
		return say(run, DIR_EXISTS);
	if (run->full && there->generation == 0)
		return ERR_NO_SPACE;
	/* Whoever holds it may be about to announce it. */
	if (there->generation != 0)
		bury(run, there->generation, DIR_REPEAT_NS);
	return replace(
		run, (call->flags & DIR_SOFTPIN) | DIR_PROVISIONAL, DIR_KEEPER, DIR_DONE);
}

/* Keepers other than the caller. */
static uint32_t other_keepers(const struct run *run)
{
	const struct dir_entry *there = &run->key->there;
	uint32_t count = 0;

	for (uint32_t i = 0; i < there->holder_count; i++)
		count += there->holders[i].role == DIR_KEEPER &&
			 there->holders[i].node != run->call->node;
	return count;
}

static int announce_same(struct run *run)
{
	struct dir_entry *there = &run->key->there;
	struct mem_memo *memo = &run->key->memo;
	struct dir_call *call = run->call;
	const struct dir_holder *own = dir_entry_find(there, call->node);
	bool again = own != NULL && repeat(run);
	bool is_same = again && memo->role == call->role;
	enum dir_role role = call->role;

	/* What it had from its disk it has still, though its pool is another. */
	if (is_same && own->incarnation == call->incarnation && own->role != DIR_LOADING)
		return 0;
	if (role == DIR_KEEPER && other_keepers(run) >= MAX((uint32_t)there->wanted, 1u))
		role = DIR_SECONDARY;
	if (run->full || !hold(run, role))
		return ERR_NO_SPACE;
	if (role == DIR_KEEPER)
		there->flags |= call->flags & DIR_SOFTPIN;
	/* Another role is no repeat, though who had what the entry replaced may not have been told. */
	if (again && !is_same) {
		again = memo->verdict == DIR_REPLACED;
		memo->role = call->role;
		memo->until = again ? later(run->now, DIR_REPEAT_NS) : 0;
	}
	if (again)
		return 0;
	take_waiters(run);
	call->entry = *there;
	return say(run, DIR_DONE);
}

static int run_announce(struct run *run)
{
	const struct dir_entry *there = &run->key->there;
	const struct dir_call *call = run->call;
	bool is_new = there->generation == 0;

	if (run->key->buried >= call->generation)
		return say(run, DIR_REMOVED);
	if (there->generation == call->generation)
		return announce_same(run);
	if (there->generation > call->generation && (there->flags & DIR_PROVISIONAL) == 0)
		return say(run, DIR_OLDER);
	if (run->full && is_new)
		return ERR_NO_SPACE;
	return replace(run, call->flags & DIR_SOFTPIN, call->role,
		is_new ? DIR_DONE : DIR_REPLACED);
}

static int run_confirm(struct run *run)
{
	struct mem_key *key = run->key;

	if (key->there.generation != run->call->generation)
		return say(run, DIR_GONE);
	key->there.flags &= ~(uint32_t)DIR_PROVISIONAL;
	key->memo = (struct mem_memo){.until = 0};
	run->changed = true;
	return say(run, DIR_DONE);
}

/* ---- copies -------------------------------------------------------------- */

static int join_waiter(struct run *run)
{
	struct mem_key *key = run->key;
	struct dir_call *call = run->call;
	uint32_t at = 0;

	while (at < key->waiter_count && key->waiters[at].node != call->node)
		at++;
	if ((run->full && !run->changed) || at == DIR_HOLDERS)
		return ERR_NO_SPACE;
	key->waiters[at] = (struct mem_waiter){
		call->node, later(run->now, call->wait_ns)};
	key->waiter_count = MAX(key->waiter_count, at + 1);
	run->changed = true;
	return say(run, DIR_ABSENT);
}

/* One holder less; the entry may end with it. */
static void let_go(struct run *run, uint64_t node)
{
	struct mem_key *key = run->key;

	dir_entry_drop(&key->there, node);
	run->changed = true;
	if (dir_entry_has_bytes(&key->there))
		return;
	if ((key->there.flags & DIR_SOFTPIN) == 0)
		entry_end(key);
	else if (key->lost_until == UINT64_MAX)
		key->lost_until = later(run->now, DIR_LOST_NS);
}

static int run_join(struct run *run)
{
	struct dir_entry *there = &run->key->there;
	struct dir_call *call = run->call;
	const struct dir_holder *own = dir_entry_find(there, call->node);

	if (own != NULL && own->incarnation == call->incarnation) {
		dir_entry_hide_loader(&call->entry, call->node);
		return say(run, DIR_DONE);
	}
	/* What an earlier incarnation had is gone. */
	if (own != NULL)
		let_go(run, call->node);
	if (there->generation == 0) {
		call->entry = *there;
		return call->wait_ns > 0 ? join_waiter(run) : say(run, DIR_ABSENT);
	}
	dir_entry_hide_loader(&call->entry, call->node);
	if ((run->full && !run->changed) || !hold(run, DIR_LOADING))
		return ERR_NO_SPACE;
	return say(run, DIR_DONE);
}

static int run_loaded(struct run *run)
{
	struct dir_entry *there = &run->key->there;
	const struct dir_call *call = run->call;
	const struct dir_holder *own = dir_entry_find(there, call->node);

	if (there->generation != call->generation)
		return say(run, DIR_GONE);
	if (own != NULL && own->incarnation == call->incarnation &&
		own->role == DIR_KEEPER)
		return say(run, DIR_DONE);
	return hold(run, DIR_SECONDARY) ? say(run, DIR_DONE) : ERR_NO_SPACE;
}

static int run_leave(struct run *run)
{
	struct mem_key *key = run->key;
	const struct dir_call *call = run->call;
	bool is_own = call->from == 0;
	uint64_t who = is_own ? call->node : call->from;
	uint64_t incarnation = is_own ? call->incarnation : call->from_incarnation;
	const struct dir_holder *place = dir_entry_find(&key->there, who);

	if (key->there.generation != call->generation || place == NULL ||
		(incarnation != 0 && place->incarnation != incarnation))
		return say(run, DIR_GONE);
	/* Nobody keeps it any more: so it is over, and will not be lost with the last copy. */
	if (is_own && place->role == DIR_KEEPER && other_keepers(run) == 0)
		key->there.flags &= ~(uint32_t)DIR_SOFTPIN;
	let_go(run, who);
	return say(run, DIR_DONE);
}

/* One keeper more. */
static int keep_too(struct run *run)
{
	struct dir_entry *there = &run->key->there;

	if (other_keepers(run) >= there->wanted)
		return say(run, DIR_EXISTS);
	return say(run, hold(run, DIR_KEEPER) ? DIR_DONE : DIR_GONE);
}

static int run_hand_over(struct run *run)
{
	struct dir_entry *there = &run->key->there;
	const struct dir_call *call = run->call;
	const struct dir_holder *own = dir_entry_find(there, call->node);
	struct dir_holder *from = dir_entry_find(there, call->from);
	bool keeps = own != NULL && own->role == DIR_KEEPER;

	if (there->generation != call->generation)
		return say(run, DIR_GONE);
	if (call->from == 0 && !keeps)
		return keep_too(run);
	if (from == NULL || from->role != DIR_KEEPER)
		return say(run, keeps ? DIR_DONE : DIR_GONE);
	/* Two roles on one node would be one. */
	if (keeps && from != own && !call->fewer)
		return say(run, DIR_EXISTS);
	if (own != NULL || there->holder_count < DIR_HOLDERS)
		from->role = DIR_SECONDARY;
	else
		dir_entry_drop(there, call->from);
	(void)hold(run, DIR_KEEPER);
	return say(run, DIR_DONE);
}

/* ---- the end ------------------------------------------------------------- */

static bool is_live(const struct dir_call *call, uint64_t node)
{
	for (uint32_t i = 0; i < call->live_count; i++) {
		if (call->live[i] == node)
			return true;
	}
	return false;
}

static bool all_are_live(const struct run *run)
{
	const struct dir_entry *there = &run->key->there;

	for (uint32_t i = 0; i < there->holder_count; i++) {
		if (!is_live(run->call, there->holders[i].node))
			return false;
	}
	return true;
}

/* It was done before, for the same asker. */
static bool token_answers(struct run *run)
{
	struct dir_call *call = run->call;

	for (uint32_t i = 0; call->token != 0 && i < run->key->token_count; i++) {
		const struct mem_token *token = &run->key->tokens[i];

		if (token->token != call->token ||
			(call->generation != 0 && token->generation != call->generation))
			continue;
		call->entry = (struct dir_entry){.generation = token->generation};
		return true;
	}
	return false;
}

/* The oldest gives way. */
static void token_add(struct run *run, uint64_t generation)
{
	struct mem_key *key = run->key;

	if (run->call->token == 0)
		return;
	if (key->token_count == DIR_TOKENS)
		memmove(key->tokens, key->tokens + 1,
			--key->token_count * sizeof(key->tokens[0]));
	key->tokens[key->token_count++] = (struct mem_token){
		run->call->token, generation, later(run->now, DIR_REPEAT_NS)};
}

static int run_take_out(struct run *run)
{
	struct mem_key *key = run->key;
	const struct dir_call *call = run->call;
	uint64_t generation = key->there.generation;

	if (token_answers(run))
		return say(run, DIR_DONE);
	if (generation == 0 || (call->generation != 0 && call->generation != generation))
		return say(run, DIR_ABSENT);
	if (call->asked && call->keepers != dir_keepers(&key->there))
		return say(run, DIR_EXISTS);
	if (!call->lost)
		bury(run, generation, all_are_live(run) ? DIR_REPEAT_NS : call->bury_ns);
	token_add(run, generation);
	entry_end(key);
	return say(run, DIR_DONE);
}

static int run_bury(struct run *run)
{
	struct mem_key *key = run->key;
	const struct dir_call *call = run->call;

	if (key->there.generation == call->generation)
		entry_end(key);
	else if (run->full)
		return ERR_NO_SPACE;
	bury(run, call->generation, call->bury_ns);
	return say(run, DIR_DONE);
}

/* ---- one command --------------------------------------------------------- */

static int run_op(struct run *run)
{
	switch (run->call->op) {
	case DIR_OP_PUBLISH:
		return run_publish(run);
	case DIR_OP_CONFIRM:
		return run_confirm(run);
	case DIR_OP_JOIN:
		return run_join(run);
	case DIR_OP_LOADED:
		return run_loaded(run);
	case DIR_OP_LEAVE:
		return run_leave(run);
	case DIR_OP_TAKE_OUT:
		return run_take_out(run);
	case DIR_OP_HAND_OVER:
		return run_hand_over(run);
	case DIR_OP_ANNOUNCE:
		return run_announce(run);
	case DIR_OP_BURY:
		return run_bury(run);
	case DIR_OP_LOOKUP:
	case DIR_OP_RENEW:
	case DIR_OP_RESIGN:
		break;
	}
	NOT_REACHED("it changes no key");
}

int mem_key_run(struct mem_key *key, struct dir_call *call, uint64_t now, bool full,
	bool *ret_changed)
{
	struct run run = {.key = key, .call = call, .now = now, .full = full};
	int err;

	mem_key_tidy(key, now);
	call->entry = key->there;
	call->buried = 0;
	if (call->op == DIR_OP_PUBLISH || call->op == DIR_OP_ANNOUNCE ||
		call->op == DIR_OP_TAKE_OUT)
		call->buried = key->buried;
	call->waiter_count = 0;
	err = run_op(&run);
	*ret_changed = run.changed;
	return err;
}

/* ---- check --------------------------------------------------------------- */

static const char *holders_check(const struct dir_entry *entry)
{
	if (entry->holder_count > DIR_HOLDERS)
		return "an entry has too many holders";
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		enum dir_role role = entry->holders[i].role;

		if (role < DIR_LOADING || role > DIR_KEEPER)
			return "a holder has no role";
		for (uint32_t j = 0; j < i; j++) {
			if (entry->holders[i].node == entry->holders[j].node)
				return "a node holds an entry twice";
		}
	}
	return NULL;
}

const char *mem_key_check(const struct mem_key *key)
{
	const struct dir_entry *there = &key->there;

	if (there->generation == 0 && there->holder_count > 0)
		return "no entry has holders";
	if (there->generation == 0 &&
		(key->memo.until != 0 || key->expires != UINT64_MAX ||
			key->lost_until != UINT64_MAX))
		return "what is not there ends";
	if (there->generation != 0 &&
		dir_entry_has_bytes(there) != (key->lost_until == UINT64_MAX))
		return "an entry is lost and has bytes, or neither";
	if ((key->buried == 0) != (key->buried_until == 0))
		return "half a tombstone";
	if (key->waiter_count > DIR_HOLDERS || key->token_count > DIR_TOKENS)
		return "a key has too many waiters or tokens";
	return holders_check(there);
}
