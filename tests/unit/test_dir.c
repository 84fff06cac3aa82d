/*
 * Tests of dir/dir.h: one suite for the directory in memory, for one Redis and for a Redis
 * Cluster. Each case is run with all of them, as "name (mem)" and so on.
 */
#include "base/attr.h"
#include "base/err.h"
#include "base/rng.h"
#include "dir_rig.h"

#include <string.h>

#define G1   0x100ull
#define G2   0x200ull
#define G3   0x300ull
#define BURY (3600ull * 1000 * RIG_MS)

/* ---- words --------------------------------------------------------------- */

static struct dir_call publish_call(
	const struct rig_node *node, struct dir_id id, uint64_t generation)
{
	struct dir_call call = rig_call(node, DIR_OP_PUBLISH, id, generation);

	call.size = 1000 + generation;
	call.wanted = 1;
	return call;
}

static void publish(
	struct rig_node *node, struct dir_id id, uint64_t generation, uint32_t flags)
{
	struct dir_call call = publish_call(node, id, generation);

	call.flags = flags;
	rig_do(node, &call, DIR_DONE);
}

static void act(struct rig_node *node, enum dir_op op, struct dir_id id,
	uint64_t generation, enum dir_verdict verdict)
{
	struct dir_call call = rig_call(node, op, id, generation);

	call.bury_ns = BURY;
	rig_do(node, &call, verdict);
}

static struct dir_call announce_call(const struct rig_node *node, struct dir_id id,
	uint64_t generation, enum dir_role role)
{
	struct dir_call call = rig_call(node, DIR_OP_ANNOUNCE, id, generation);

	call.size = 1000 + generation;
	call.wanted = 1;
	call.role = role;
	return call;
}

static void announce(struct rig_node *node, struct dir_id id, uint64_t generation,
	enum dir_role role, enum dir_verdict verdict)
{
	struct dir_call call = announce_call(node, id, generation, role);

	rig_do(node, &call, verdict);
}

static void join(struct rig_node *node, struct dir_id id)
{
	act(node, DIR_OP_JOIN, id, 0, DIR_DONE);
}

static void wait_for(struct rig_node *node, struct dir_id id, uint64_t wait_ns)
{
	struct dir_call call = rig_call(node, DIR_OP_JOIN, id, 0);

	call.wait_ns = wait_ns;
	rig_do(node, &call, DIR_ABSENT);
}

static uint64_t generation_of(struct rig_node *node, struct dir_id id)
{
	struct dir_entry entry;

	return rig_look(node, id, &entry) ? entry.generation : 0;
}

static enum dir_role role_of(
	struct rig_node *node, struct dir_id id, const struct rig_node *who)
{
	struct dir_entry entry;

	return rig_look(node, id, &entry) ? rig_role(&entry, rig_number(who)) : 0;
}

static bool has_waiter(const struct dir_call *call, const struct rig_node *node)
{
	for (uint32_t i = 0; i < call->waiter_count; i++) {
		if (call->waiters[i] == rig_number(node))
			return true;
	}
	return false;
}

/* ---- publish, confirm ---------------------------------------------------- */

static void test_publish_makes_an_entry(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(node, id, G1);
	struct dir_entry entry;

	call.flags = DIR_SOFTPIN;
	call.wanted = 2;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, 0);
	assert_int_equal(call.waiter_count, 0);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.generation, G1);
	assert_int_equal(entry.size, 1000 + G1);
	assert_int_equal(entry.flags, DIR_SOFTPIN | DIR_PROVISIONAL);
	assert_int_equal(entry.wanted, 2);
	assert_int_equal(entry.holder_count, 1);
	assert_int_equal(entry.holders[0].node, rig_number(node));
	assert_int_equal(entry.holders[0].incarnation, rig_incarnation(node));
	assert_int_equal(entry.holders[0].role, DIR_KEEPER);
}

static void test_publish_again_is_done(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(node, id, G1);

	publish(node, id, G1, 0);
	join(other, id);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, 0);
	assert_int_equal(role_of(node, id, other), DIR_LOADING);
}

static void test_publish_meets_another(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(other, id, G2);

	publish(node, id, G1, 0);
	rig_do(other, &call, DIR_EXISTS);
	assert_int_equal(call.entry.generation, G1);
	assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	assert_int_equal(generation_of(node, id), G1);
	assert_int_equal(role_of(node, id, other), 0);
}

static void test_publish_replaces_and_says_so_again(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call;

	publish(node, id, G1, DIR_SOFTPIN);
	act(node, DIR_OP_CONFIRM, id, G1, DIR_DONE);
	for (int i = 0; i < 2; i++) {
		call = publish_call(other, id, G2);
		call.replace = true;
		rig_do(other, &call, DIR_DONE);
		assert_int_equal(call.entry.generation, G1);
		assert_int_equal(call.entry.flags, DIR_SOFTPIN);
		assert_int_equal(call.entry.holder_count, 1);
		assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	}
	assert_int_equal(generation_of(node, id), G2);
	assert_int_equal(role_of(node, id, node), 0);
	act(other, DIR_OP_CONFIRM, id, G2, DIR_DONE);
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, 0);
}

static void test_publish_replaces_no_higher(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(node, id, G1);

	publish(node, id, G2, 0);
	call.replace = true;
	rig_do(node, &call, DIR_EXISTS);
	assert_int_equal(call.entry.generation, G2);
	assert_int_equal(generation_of(node, id), G2);
}

static void test_publish_meets_its_own_number_of_another(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(other, id, G1);

	publish(node, id, G1, 0);
	for (int i = 0; i < 2; i++) {
		call.replace = i == 1;
		rig_do(other, &call, DIR_EXISTS);
		assert_int_equal(call.entry.generation, G1);
		assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	}
	assert_int_equal(role_of(node, id, other), 0);
}

static void test_publish_and_tombstones(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call;

	act(node, DIR_OP_BURY, id, G2, DIR_DONE);
	for (uint64_t generation = G1; generation <= G2; generation += G1) {
		call = publish_call(node, id, generation);
		rig_do(node, &call, DIR_REMOVED);
		assert_int_equal(call.buried, G2);
		assert_int_equal(call.entry.generation, 0);
	}
	publish(node, id, G3, 0);
	act(node, DIR_OP_LEAVE, id, G3, DIR_DONE);
	call = publish_call(node, id, G2); /* it is still there */
	rig_do(node, &call, DIR_REMOVED);
}

static void test_confirm(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_entry entry;

	act(node, DIR_OP_CONFIRM, id, G1, DIR_GONE);
	publish(node, id, G1, DIR_SOFTPIN);
	act(node, DIR_OP_CONFIRM, id, G2, DIR_GONE);
	act(node, DIR_OP_CONFIRM, id, G1, DIR_DONE);
	act(node, DIR_OP_CONFIRM, id, G1, DIR_DONE);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.flags, DIR_SOFTPIN);
}

/* ---- join, loaded -------------------------------------------------------- */

static void test_join_adds_a_loader(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(other, DIR_OP_JOIN, id, 0);

	rig_do(other, &call, DIR_ABSENT);
	publish(node, id, G1, 0);
	for (int i = 0; i < 2; i++) {
		rig_do(other, &call, DIR_DONE);
		assert_int_equal(call.entry.generation, G1);
		assert_int_equal(call.entry.size, 1000 + G1);
		assert_int_equal(call.entry.holder_count, 1);
		assert_int_equal(role_of(node, id, other), DIR_LOADING);
	}
}

static void test_join_leaves_a_role(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_JOIN, id, 0);

	publish(node, id, G1, 0);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	assert_int_equal(role_of(node, id, node), DIR_KEEPER);
}

static void test_join_of_a_new_incarnation(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id pinned = rig_id(rig), cache = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_JOIN, pinned, 0);

	publish(node, pinned, G1, DIR_SOFTPIN);
	call.incarnation++;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	assert_int_equal(call.entry.holders[0].incarnation, rig_incarnation(node));
	assert_int_equal(role_of(node, pinned, node), DIR_LOADING);
	/* Nobody has the bytes of what is only a cache: so it is gone. */
	publish(node, cache, G1, 0);
	call.id = cache;
	rig_do(node, &call, DIR_ABSENT);
	assert_int_equal(call.entry.generation, 0);
	assert_int_equal(generation_of(node, cache), 0);
}

static void test_loaded(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);

	act(other, DIR_OP_LOADED, id, G1, DIR_GONE);
	publish(node, id, G1, 0);
	join(other, id);
	act(other, DIR_OP_LOADED, id, G2, DIR_GONE);
	assert_int_equal(role_of(node, id, other), DIR_LOADING);
	act(other, DIR_OP_LOADED, id, G1, DIR_DONE);
	act(other, DIR_OP_LOADED, id, G1, DIR_DONE);
	assert_int_equal(role_of(node, id, other), DIR_SECONDARY);
	act(node, DIR_OP_LOADED, id, G1, DIR_DONE);
	assert_int_equal(role_of(node, id, node), DIR_KEEPER);
}

/* ---- waiters ------------------------------------------------------------- */

static void test_waiters_are_told_by_publish(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *a = rig_add_node(rig),
			*b = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call;

	wait_for(a, id, BURY);
	wait_for(b, id, BURY);
	wait_for(b, id, UINT64_MAX);
	assert_int_equal(generation_of(node, id), 0);
	for (int i = 0; i < 2; i++) {
		call = publish_call(node, id, G1);
		rig_do(node, &call, DIR_DONE);
		assert_int_equal(call.waiter_count, 2);
		assert_true(has_waiter(&call, a) && has_waiter(&call, b));
		assert_int_equal(call.entry.generation, 0);
	}
	act(node, DIR_OP_CONFIRM, id, G1, DIR_DONE);
	act(node, DIR_OP_LEAVE, id, G1, DIR_DONE);
	call = publish_call(node, id, G2);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.waiter_count, 0);
}

static void test_waiters_are_told_by_announce(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G1, DIR_KEEPER);

	wait_for(other, id, BURY);
	for (int i = 0; i < 2; i++) {
		rig_do(node, &call, DIR_DONE);
		assert_int_equal(call.waiter_count, 1);
		assert_true(has_waiter(&call, other));
	}
}

/* The tombstone of a witness has ended: so has what began before it and was as short. */
static bool may_be_published(struct dir_rig *rig, void *arg)
{
	const struct dir_id *id = arg;
	struct dir_call call = publish_call(&rig->nodes[0], *id, G1);

	rig_try(&rig->nodes[0], &call);
	assert_int_equal(call.err, 0);
	return call.verdict == DIR_DONE;
}

static void test_waiters_end(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig), witness = rig_id(rig);
	struct dir_call bury = rig_call(node, DIR_OP_BURY, witness, G1);
	struct dir_call call = publish_call(node, id, G1);

	act(node, DIR_OP_BURY, id, G1 - 1,
		DIR_DONE); /* so that the key outlives the wait */
	bury.bury_ns = 50 * RIG_MS;
	wait_for(other, id, 50 * RIG_MS);
	rig_do(node, &bury, DIR_DONE);
	rig_await(rig, 50 * RIG_MS, may_be_published, &witness);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.waiter_count, 0);
}

/* ---- leave --------------------------------------------------------------- */

static void test_leave_of_one_and_the_last(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *a = rig_add_node(rig),
			*b = rig_add_node(rig);
	struct dir_id id = rig_id(rig);

	publish(node, id, G1, 0);
	join(a, id);
	act(a, DIR_OP_LOADED, id, G1, DIR_DONE);
	join(b, id);
	act(node, DIR_OP_LEAVE, id, G2, DIR_GONE);
	act(node, DIR_OP_LEAVE, id, G1, DIR_DONE);
	act(node, DIR_OP_LEAVE, id, G1, DIR_GONE);
	assert_int_equal(generation_of(node, id), G1);
	act(a, DIR_OP_LEAVE, id, G1, DIR_DONE); /* b only loads */
	assert_int_equal(generation_of(node, id), 0);
	act(b, DIR_OP_LEAVE, id, G1, DIR_GONE);
}

static void test_leave_of_a_softpin_entry(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_LEAVE, id, G1);
	struct dir_entry entry;

	/* Somebody else says so, or it was a copy: it is lost, */
	call.from = rig_number(node);
	publish(node, id, G1, DIR_SOFTPIN);
	rig_do(node, &call, DIR_DONE);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.holder_count, 0);
	announce(node, id, G1, DIR_SECONDARY, DIR_DONE);
	call.from = 0;
	rig_do(node, &call, DIR_DONE);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.holder_count, 0);
	/* and with its keeper's own word it is over. */
	announce(node, id, G1, DIR_KEEPER, DIR_DONE); /* it is back */
	call.incarnation++;
	rig_do(node, &call, DIR_GONE);
	call.incarnation--;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
}

static uint32_t flags_of(struct rig_node *node, struct dir_id id)
{
	struct dir_entry entry;

	assert_true(rig_look(node, id, &entry));
	return entry.flags;
}

/* A copy of what was removed may be left, of which nobody had told. */
static void test_keeper_leaves_before_a_copy(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *copy = rig_add_node(rig),
			*second = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(second, id, G1, DIR_KEEPER);

	publish(node, id, G1, DIR_SOFTPIN);
	join(copy, id);
	act(copy, DIR_OP_LOADED, id, G1, DIR_DONE);
	act(node, DIR_OP_LEAVE, id, G1, DIR_DONE);
	assert_int_equal(flags_of(node, id) & DIR_SOFTPIN, 0);
	call.flags = DIR_SOFTPIN;
	rig_do(second, &call, DIR_DONE); /* it was not known that this one keeps it */
	assert_int_equal(flags_of(node, id) & DIR_SOFTPIN, DIR_SOFTPIN);
	announce(node, id, G1, DIR_SECONDARY, DIR_DONE);
	act(node, DIR_OP_LEAVE, id, G1, DIR_DONE);
	assert_int_equal(flags_of(node, id) & DIR_SOFTPIN, DIR_SOFTPIN);
	act(second, DIR_OP_LEAVE, id, G1, DIR_DONE);
	act(copy, DIR_OP_LEAVE, id, G1, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
}

static void test_leave_of_another(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(other, DIR_OP_LEAVE, id, G1);

	publish(node, id, G1, 0);
	join(other, id);
	act(other, DIR_OP_LOADED, id, G1, DIR_DONE);
	call.from = rig_number(node);
	call.from_incarnation = rig_incarnation(node) + 1;
	rig_do(other, &call, DIR_GONE);
	call.from_incarnation--;
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(role_of(node, id, node), 0);
	assert_int_equal(role_of(node, id, other), DIR_SECONDARY);
	call.from = rig_number(other);
	call.from_incarnation = 0;
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
}

/* ---- take out ------------------------------------------------------------ */

static struct dir_call take_out_call(const struct rig_node *node, struct dir_id id,
	uint64_t generation, uint64_t token)
{
	struct dir_call call = rig_call(node, DIR_OP_TAKE_OUT, id, generation);

	call.token = token;
	call.bury_ns = BURY;
	return call;
}

static void test_take_out_tells_the_holders(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = take_out_call(other, id, 0, 71);

	rig_do(other, &call, DIR_ABSENT);
	publish(node, id, G1, 0);
	join(other, id);
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, G1);
	assert_int_equal(call.entry.holder_count, 2);
	assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	assert_int_equal(rig_role(&call.entry, rig_number(other)), DIR_LOADING);
	assert_int_equal(generation_of(node, id), 0);
	announce(node, id, G1, DIR_KEEPER, DIR_REMOVED);
}

static void test_take_out_of_a_generation(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = take_out_call(node, id, G1, 5);

	publish(node, id, G2, 0);
	rig_do(node, &call, DIR_ABSENT);
	assert_int_equal(generation_of(node, id), G2);
	call.generation = G2;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
}

static void test_take_out_knows_its_tokens(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call first = take_out_call(node, id, 0, 11);
	struct dir_call second = take_out_call(node, id, 0, 12);
	struct dir_call unnamed = take_out_call(node, id, 0, 0);

	publish(node, id, G1, 0);
	rig_do(node, &first, DIR_DONE);
	rig_do(node, &second, DIR_ABSENT);
	publish(node, id, G2, 0);
	rig_do(node, &first, DIR_DONE); /* and takes nothing */
	assert_int_equal(first.entry.generation, G1);
	assert_int_equal(first.entry.holder_count, 0);
	assert_int_equal(generation_of(node, id), G2);
	first.generation = G2; /* that is another matter */
	rig_do(node, &first, DIR_DONE);
	assert_int_equal(first.entry.holder_count, 1);
	rig_do(node, &first, DIR_DONE);
	assert_int_equal(first.entry.holder_count, 0);
	publish(node, id, G3, 0);
	rig_do(node, &unnamed, DIR_DONE);
	rig_do(node, &unnamed, DIR_ABSENT);
}

static void test_take_out_has_one_winner(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct dir_call calls[RIG_NODES];
	struct dir_id id = rig_id(rig);
	uint32_t winners = 0;

	while (rig->node_count < RIG_NODES)
		(void)rig_add_node(rig);
	publish(&rig->nodes[0], id, G1, 0);
	for (uint32_t i = 0; i < RIG_NODES; i++) {
		calls[i] = take_out_call(&rig->nodes[i], id, 0, 100 + i);
		rig_start(&rig->nodes[i], &calls[i]);
	}
	rig_wait(rig);
	for (uint32_t i = 0; i < RIG_NODES; i++) {
		assert_int_equal(calls[i].err, 0);
		winners += calls[i].verdict == DIR_DONE;
		assert_true(
			calls[i].verdict == DIR_DONE || calls[i].verdict == DIR_ABSENT);
	}
	assert_int_equal(winners, 1);
}

static void test_take_out_buries_as_long_as_needed(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	uint64_t live[] = {7, rig_number(node), 9};
	struct dir_id told = rig_id(rig), untold = rig_id(rig);
	struct dir_call call = take_out_call(node, told, 0, 1);

	publish(node, told, G1, 0);
	publish(node, untold, G1, 0);
	join(other, untold);
	call.bury_ns = RIG_MS;
	call.live = live;
	call.live_count = ARRAY_LEN(live);
	rig_do(node, &call, DIR_DONE);
	call.id = untold;
	rig_do(node, &call, DIR_DONE);
	/* What all were told of is remembered for a repeat, the other for bury_ns. */
	rig_await(rig, RIG_MS, may_be_published, &untold);
	assert_false(may_be_published(rig, &told));
}

static void test_take_out_of_what_is_lost_buries_nothing(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = take_out_call(node, id, G2, 1);

	publish(node, id, G2, 0);
	call.lost = true;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.entry.holder_count, 1);
	assert_int_equal(generation_of(node, id), 0);
	rig_do(node, &call, DIR_DONE); /* it is a repeat */
	assert_int_equal(call.entry.holder_count, 0);
	announce(other, id, G1, DIR_KEEPER, DIR_DONE);
	assert_int_equal(generation_of(node, id), G1);
}

static void test_take_out_of_what_another_has_come_to_keep(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call hand = rig_call(other, DIR_OP_HAND_OVER, id, G1);
	struct dir_call call = take_out_call(node, id, G1, 1);

	call.asked = true;
	call.keepers = rig_number(node) & 0xfffffffffffull;
	publish(node, id, G1, 0);
	join(other, id); /* no keeper */
	hand.from = rig_number(node);
	rig_do(other, &hand, DIR_DONE);
	rig_do(node, &call, DIR_EXISTS);
	assert_int_equal(call.entry.holder_count, 2);
	assert_int_equal(generation_of(node, id), G1);
	call.keepers = dir_keepers(&call.entry);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
	rig_do(node, &call, DIR_DONE); /* it is a repeat */
}

/* ---- hand over ----------------------------------------------------------- */

static void test_hand_over(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig),
			*third = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(other, DIR_OP_HAND_OVER, id, G1);

	call.from = rig_number(node);
	rig_do(other, &call, DIR_GONE);
	publish(node, id, G1, DIR_SOFTPIN);
	join(third, id);
	call.generation = G2;
	rig_do(other, &call, DIR_GONE);
	call.generation = G1;
	call.from = rig_number(third); /* which only loads */
	rig_do(other, &call, DIR_GONE);
	call.from = rig_number(node);
	rig_do(other, &call, DIR_DONE);
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(role_of(node, id, other), DIR_KEEPER);
	assert_int_equal(role_of(node, id, node), DIR_SECONDARY); /* until it leaves */
	call = rig_call(third, DIR_OP_HAND_OVER, id, G1);
	call.from = rig_number(node); /* which was faster with another */
	rig_do(third, &call, DIR_GONE);
}

/* The entry wants two keepers, and has one. */
static void test_one_keeper_more(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig),
			*third = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = publish_call(node, id, G1);
	struct dir_call more = rig_call(other, DIR_OP_HAND_OVER, id, G1);
	struct dir_call hand;

	call.flags = DIR_SOFTPIN;
	rig_do(other, &more, DIR_GONE);
	call.wanted = 2;
	rig_do(node, &call, DIR_DONE);
	more.generation = G2;
	rig_do(other, &more, DIR_GONE);
	more.generation = G1;
	join(other, id);
	rig_do(other, &more, DIR_DONE);
	rig_do(other, &more, DIR_DONE); /* its answer was lost */
	assert_int_equal(role_of(node, id, node), DIR_KEEPER);
	assert_int_equal(role_of(node, id, other), DIR_KEEPER);
	more = rig_call(third, DIR_OP_HAND_OVER, id, G1);
	rig_do(third, &more, DIR_EXISTS);
	assert_int_equal(role_of(node, id, third), 0);
	/* Who keeps it already cannot take over from the other. */
	hand = rig_call(other, DIR_OP_HAND_OVER, id, G1);
	hand.from = rig_number(node);
	rig_do(other, &hand, DIR_EXISTS);
	assert_int_equal(role_of(node, id, node), DIR_KEEPER);
	hand = rig_call(third, DIR_OP_HAND_OVER, id, G1);
	hand.from = rig_number(node);
	rig_do(third, &hand, DIR_DONE);
	assert_int_equal(role_of(node, id, node), DIR_SECONDARY);
	assert_int_equal(role_of(node, id, other), DIR_KEEPER);
	assert_int_equal(role_of(node, id, third), DIR_KEEPER);
	more = rig_call(node, DIR_OP_HAND_OVER, id, G1);
	rig_do(node, &more, DIR_EXISTS);
	/* Unless one keeper will do. */
	hand = rig_call(third, DIR_OP_HAND_OVER, id, G1);
	hand.from = rig_number(other);
	hand.fewer = true;
	rig_do(third, &hand, DIR_DONE);
	rig_do(third, &hand, DIR_DONE);
	assert_int_equal(role_of(node, id, other), DIR_SECONDARY);
	assert_int_equal(role_of(node, id, third), DIR_KEEPER);
	rig_do(node, &more, DIR_DONE);
}

/* ---- announce, bury ------------------------------------------------------ */

static void test_announce_makes_an_entry(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G1, DIR_SECONDARY);
	struct dir_entry entry;

	call.flags = DIR_SOFTPIN;
	call.wanted = 3;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, 0);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.flags, DIR_SOFTPIN);
	assert_int_equal(entry.wanted, 3);
	assert_int_equal(entry.size, 1000 + G1);
	assert_int_equal(entry.holder_count, 1);
	assert_int_equal(rig_role(&entry, rig_number(node)), DIR_SECONDARY);
}

static void test_announce_of_the_same(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *a = &rig->nodes[0], *b = rig_add_node(rig),
			*c = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(a, id, G1, DIR_KEEPER);

	call.wanted = 2;
	rig_do(a, &call, DIR_DONE);
	announce(b, id, G1, DIR_KEEPER, DIR_DONE);
	call = announce_call(c, id, G1, DIR_KEEPER);
	rig_do(c, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, G1);
	assert_int_equal(call.entry.holder_count, 3);
	assert_int_equal(rig_role(&call.entry, rig_number(a)), DIR_KEEPER);
	assert_int_equal(rig_role(&call.entry, rig_number(b)), DIR_KEEPER);
	assert_int_equal(rig_role(&call.entry, rig_number(c)), DIR_SECONDARY);
	announce(b, id, G1, DIR_KEEPER, DIR_DONE); /* its own role is no other's */
	assert_int_equal(role_of(a, id, b), DIR_KEEPER);
}

static void test_announce_against_another(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(other, id, G2, DIR_KEEPER);

	announce(node, id, G1, DIR_KEEPER, DIR_DONE);
	for (int i = 0; i < 2; i++) {
		rig_do(other, &call, DIR_REPLACED);
		assert_int_equal(call.entry.generation, G1);
		assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
	}
	call = announce_call(node, id, G1, DIR_KEEPER);
	rig_do(node, &call, DIR_OLDER);
	assert_int_equal(call.entry.generation, G2);
	assert_int_equal(generation_of(node, id), G2);
}

static void test_announce_replaces_a_provisional_one(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);

	publish(node, id, G2, 0);
	announce(other, id, G1, DIR_KEEPER, DIR_REPLACED);
	assert_int_equal(generation_of(node, id), G1);
	act(node, DIR_OP_CONFIRM, id, G2, DIR_GONE);
}

/* Its pool was lost, and the object is on its disk. */
static void test_announce_again_by_a_new_incarnation(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G2, DIR_KEEPER);
	struct dir_call join = rig_call(node, DIR_OP_JOIN, id, 0);

	announce(other, id, G1, DIR_KEEPER, DIR_DONE);
	call.flags = DIR_SOFTPIN;
	rig_do(node, &call, DIR_REPLACED);
	call.incarnation++;
	rig_do(node, &call, DIR_REPLACED);
	assert_int_equal(call.entry.generation, G1);
	join.incarnation = call.incarnation;
	rig_do(node, &join, DIR_DONE);
	assert_int_equal(join.entry.holder_count, 1);
	assert_int_equal(join.entry.holders[0].incarnation, call.incarnation);
	assert_int_equal(join.entry.holders[0].role, DIR_KEEPER);
	/* It asks for the object before it says that it is here. */
	join.incarnation = ++call.incarnation;
	rig_do(node, &join, DIR_DONE);
	rig_do(node, &call, DIR_REPLACED);
	rig_do(node, &join, DIR_DONE);
	assert_int_equal(join.entry.holder_count, 1);
	assert_int_equal(join.entry.holders[0].role, DIR_KEEPER);
}

/* A copy comes to be kept right after it was announced. */
static void test_announce_again_in_another_role(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G1, DIR_SECONDARY);
	struct dir_entry entry;

	wait_for(other, id, BURY);
	for (int i = 0; i < 2; i++) {
		rig_do(node, &call, DIR_DONE);
		assert_true(has_waiter(&call, other));
	}
	call.role = DIR_KEEPER;
	call.flags = DIR_SOFTPIN;
	for (int i = 0; i < 2; i++) {
		rig_do(node, &call, DIR_DONE);
		assert_int_equal(rig_role(&call.entry, rig_number(node)), DIR_KEEPER);
		assert_true(rig_look(node, id, &entry));
		assert_int_equal(rig_role(&entry, rig_number(node)), DIR_KEEPER);
		assert_int_equal(entry.flags, DIR_SOFTPIN);
	}
	call.role = DIR_SECONDARY;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(role_of(node, id, node), DIR_SECONDARY);
}

/* The answer to the first may have been lost, and with it who had what it replaced. */
static void test_announce_again_what_has_replaced_another(void **state)
{
	static const enum dir_role roles[] = {
		DIR_SECONDARY, DIR_KEEPER, DIR_KEEPER, DIR_SECONDARY, DIR_SECONDARY};
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G2, DIR_SECONDARY);
	struct dir_call hand = rig_call(node, DIR_OP_HAND_OVER, id, G2);

	announce(other, id, G1, DIR_KEEPER, DIR_DONE);
	for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
		call.role = roles[i];
		rig_do(node, &call, DIR_REPLACED);
		assert_int_equal(call.entry.generation, G1);
		assert_int_equal(rig_role(&call.entry, rig_number(other)), DIR_KEEPER);
		assert_int_equal(role_of(node, id, node), roles[i]);
	}
	/* A repeat does not undo what came between. */
	rig_do(node, &hand, DIR_DONE);
	rig_do(node, &call, DIR_REPLACED);
	assert_int_equal(role_of(node, id, node), DIR_KEEPER);
}

static void test_announce_after_a_removal(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = announce_call(node, id, G1, DIR_KEEPER);
	struct dir_call out = take_out_call(node, id, 0, 3);

	/* Right after what replaced something, whose repeat is known: */
	announce(node, id, G1, DIR_KEEPER, DIR_DONE);
	announce(node, id, G2, DIR_KEEPER, DIR_REPLACED);
	rig_do(node, &out, DIR_DONE);
	announce(node, id, G2, DIR_KEEPER, DIR_REMOVED);
	rig_do(node, &call, DIR_REMOVED);
	assert_int_equal(call.buried, G2);
	announce(node, id, G3, DIR_KEEPER, DIR_DONE);
	announce(node, id, G1, DIR_KEEPER, DIR_REMOVED);
}

static void test_bury(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);

	announce(node, id, G2, DIR_KEEPER, DIR_DONE);
	act(node, DIR_OP_BURY, id, G1, DIR_DONE);
	assert_int_equal(generation_of(node, id), G2);
	announce(node, id, G1, DIR_KEEPER, DIR_REMOVED);
	act(node, DIR_OP_BURY, id, G2, DIR_DONE);
	act(node, DIR_OP_BURY, id, G2, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
	act(node, DIR_OP_BURY, id, G1, DIR_DONE);
	announce(node, id, G2, DIR_KEEPER, DIR_REMOVED);
}

static void test_tombstones_end(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig), longer = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_BURY, longer, G1);

	call.bury_ns = BURY;
	rig_do(node, &call, DIR_DONE);
	call.bury_ns = 30 * RIG_MS; /* the longer one counts */
	rig_do(node, &call, DIR_DONE);
	call.id = id;
	rig_do(node, &call, DIR_DONE);
	rig_await(rig, 30 * RIG_MS, may_be_published, &id);
	assert_false(may_be_published(rig, &longer));
}

static void test_tombstone_ends_beside_an_entry(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig), witness = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_BURY, id, G2);

	call.bury_ns = 60 * RIG_MS;
	rig_do(node, &call, DIR_DONE);
	announce(node, id, G3, DIR_KEEPER, DIR_DONE);
	announce(node, id, G1, DIR_KEEPER, DIR_REMOVED);
	call.id = witness;
	rig_do(node, &call, DIR_DONE);
	rig_await(rig, 60 * RIG_MS, may_be_published, &witness);
	announce(node, id, G1, DIR_KEEPER, DIR_OLDER);
	assert_int_equal(generation_of(node, id), G3);
}

/* ---- time to live -------------------------------------------------------- */

static bool is_absent(struct dir_rig *rig, void *arg)
{
	const struct dir_id *id = arg;

	return generation_of(&rig->nodes[0], *id) == 0;
}

static void test_time_to_live_ends(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id published = rig_id(rig), announced = rig_id(rig);
	struct dir_call call = publish_call(node, published, G1);

	call.ttl_ns = 200 * RIG_MS;
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(generation_of(node, published), G1);
	call = announce_call(node, announced, G1, DIR_KEEPER);
	call.ttl_ns = 200 * RIG_MS;
	rig_do(node, &call, DIR_DONE);
	act(node, DIR_OP_BURY, announced, G1 - 1, DIR_DONE); /* which outlives it */
	rig_await(rig, 200 * RIG_MS, is_absent, &published);
	rig_await(rig, 1, is_absent, &announced);
	act(node, DIR_OP_JOIN, announced, 0, DIR_ABSENT);
	act(node, DIR_OP_LEAVE, published, G1, DIR_GONE);
	publish(node, announced, G1, 0); /* not removed by anyone */
}

static void test_time_to_live_goes_with_its_entry(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig), witness = rig_id(rig);
	struct dir_call call = publish_call(node, id, G1);

	call.ttl_ns = 60 * RIG_MS;
	rig_do(node, &call, DIR_DONE);
	call = publish_call(node, id, G2);
	call.replace = true;
	rig_do(node, &call, DIR_DONE);
	call = publish_call(node, witness, G1);
	call.ttl_ns = 60 * RIG_MS;
	rig_do(node, &call, DIR_DONE);
	rig_await(rig, 60 * RIG_MS, is_absent, &witness);
	assert_int_equal(generation_of(node, id), G2);
}

/* ---- members ------------------------------------------------------------- */

static struct dir_member others[DIR_HOLDERS];

static struct dir_call renew_call(
	const struct rig_node *node, struct dir_member *member, uint64_t span_ns)
{
	struct dir_call call = rig_call(node, DIR_OP_RENEW, (struct dir_id){{0, 0}}, 0);

	*member = (struct dir_member){
		.node = call.node,
		.incarnation = call.incarnation,
		.free_bytes = UINT64_MAX - call.node,
		.endpoint = "[fe80::1%eth0]:7450",
	};
	call.member = member;
	call.members = others;
	call.bury_ns = span_ns;
	return call;
}

static void test_members_see_each_other(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_member member;
	struct dir_call call = renew_call(node, &member, BURY);

	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.member_count, 0);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.member_count, 0);
	call = renew_call(other, &member, BURY);
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(call.member_count, 1);
	assert_int_equal(others[0].node, rig_number(node));
	assert_int_equal(others[0].incarnation, rig_incarnation(node));
	assert_int_equal(others[0].free_bytes, UINT64_MAX - rig_number(node));
	assert_string_equal(others[0].endpoint, "[fe80::1%eth0]:7450");
	act(node, DIR_OP_RESIGN, (struct dir_id){{0, 0}}, 0, DIR_DONE);
	rig_do(other, &call, DIR_DONE);
	assert_int_equal(call.member_count, 0);
}

static bool is_alone(struct dir_rig *rig, void *arg)
{
	struct dir_member member;
	struct dir_call call = renew_call(arg, &member, BURY);

	(void)rig;
	rig_do(arg, &call, DIR_DONE);
	return call.member_count == 0;
}

static void test_members_end(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_member member;
	struct dir_call call = renew_call(node, &member, 300 * RIG_MS);

	rig_do(node, &call, DIR_DONE);
	assert_false(is_alone(rig, other));
	rig_await(rig, 300 * RIG_MS, is_alone, other);
}

/* ---- limits -------------------------------------------------------------- */

static void test_entry_names_so_many_and_no_more(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_JOIN, id, 0);
	struct dir_entry entry;

	publish(node, id, G1, 0);
	for (uint64_t i = 1; i < DIR_HOLDERS; i++) {
		call.node = i;
		rig_do(node, &call, DIR_DONE);
	}
	call.node = DIR_HOLDERS;
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_NO_SPACE);
	assert_int_equal(call.entry.generation, 0);
	call.op = DIR_OP_LOADED;
	call.generation = G1;
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_NO_SPACE);
	call = announce_call(node, id, G1, DIR_SECONDARY);
	call.node = DIR_HOLDERS;
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_NO_SPACE);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.holder_count, DIR_HOLDERS);
	/* And one for another is no more. */
	call = rig_call(node, DIR_OP_HAND_OVER, id, G1);
	call.node = DIR_HOLDERS;
	call.from = rig_number(node);
	rig_do(node, &call, DIR_DONE);
}

static void test_waiters_and_members_are_limited(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_member member;
	struct dir_call call;

	for (uint64_t i = 1; i <= DIR_HOLDERS + 1; i++) {
		call = rig_call(node, DIR_OP_JOIN, id, 0);
		call.node = i;
		call.wait_ns = BURY;
		rig_try(node, &call);
		assert_int_equal(call.err, i <= DIR_HOLDERS ? 0 : ERR_NO_SPACE);
		call = renew_call(node, &member, BURY);
		call.node = member.node = i;
		rig_try(node, &call);
		assert_int_equal(call.err, i <= DIR_HOLDERS ? 0 : ERR_NO_SPACE);
	}
	call = publish_call(node, id, G1);
	rig_do(node, &call, DIR_DONE);
	assert_int_equal(call.waiter_count, DIR_HOLDERS);
}

static void test_tokens_are_limited(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = rig_id(rig);
	struct dir_call call;

	for (uint64_t i = 1; i <= DIR_TOKENS + 1; i++) {
		publish(node, id, G1 + i, 0);
		call = take_out_call(node, id, 0, i);
		rig_do(node, &call, DIR_DONE);
		assert_int_equal(call.entry.holder_count, 1);
	}
	for (uint64_t i = 2; i <= DIR_TOKENS + 1; i++) {
		call = take_out_call(node, id, 0, i);
		rig_do(node, &call, DIR_DONE);
		assert_int_equal(call.entry.generation, G1 + i);
	}
	call = take_out_call(node, id, 0, 1);
	rig_do(node, &call, DIR_ABSENT);
}

static void test_numbers_are_whole(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_id id = {{UINT64_MAX - rig->next_id, UINT64_MAX}};
	struct dir_call call = publish_call(node, id, UINT64_MAX);
	struct dir_entry entry;

	call.node = UINT64_MAX;
	call.incarnation = UINT64_MAX;
	call.size = UINT64_MAX;
	call.wanted = UINT16_MAX;
	rig_do(node, &call, DIR_DONE);
	assert_true(rig_look(node, id, &entry));
	assert_int_equal(entry.generation, UINT64_MAX);
	assert_int_equal(entry.size, UINT64_MAX);
	assert_int_equal(entry.wanted, UINT16_MAX);
	assert_int_equal(entry.holders[0].node, UINT64_MAX);
	assert_int_equal(entry.holders[0].incarnation, UINT64_MAX);
}

static void test_many_at_once(void **state)
{
	enum {
		MANY = 300
	};
	static struct dir_call calls[MANY];
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);

	for (uint32_t i = 0; i < MANY; i++) {
		calls[i] = publish_call(node, rig_id(rig), G1 + i);
		rig_start(node, &calls[i]);
	}
	rig_wait(rig);
	for (uint32_t i = 0; i < MANY; i++) {
		struct dir_id id = calls[i].id;

		assert_int_equal(calls[i].err, 0);
		assert_int_equal(calls[i].verdict, DIR_DONE);
		assert_int_equal(
			calls[i].domain, node->dir.domain_of(node->dir.ctx, &id));
		calls[i] = rig_call(other, DIR_OP_LOOKUP, id, 0);
		rig_start(other, &calls[i]);
	}
	rig_wait(rig);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(calls[i].entry.generation, G1 + i);
}

/* ---- the same as in memory ----------------------------------------------- */

#define RANDOM_KEYS  6u
#define RANDOM_CALLS 3000u
#define RANDOM_SEEN  5u /* times that each command has to give each of its verdicts */

static uint64_t random_node(struct rng *rng)
{
	return 1 + rng_below(rng, 4);
}

/* What each command can say. */
static const struct random_op {
	enum dir_op op;
	uint32_t verdicts, weight;
} random_ops[] = {
	{DIR_OP_PUBLISH, 1u << DIR_DONE | 1u << DIR_EXISTS | 1u << DIR_REMOVED, 20},
	{DIR_OP_CONFIRM, 1u << DIR_DONE | 1u << DIR_GONE, 10},
	{DIR_OP_JOIN, 1u << DIR_DONE | 1u << DIR_ABSENT, 15},
	{DIR_OP_LOOKUP, 1u << DIR_DONE | 1u << DIR_ABSENT, 5},
	{DIR_OP_LOADED, 1u << DIR_DONE | 1u << DIR_GONE, 10},
	{DIR_OP_LEAVE, 1u << DIR_DONE | 1u << DIR_GONE, 10},
	{DIR_OP_TAKE_OUT, 1u << DIR_DONE | 1u << DIR_ABSENT | 1u << DIR_EXISTS, 5},
	{DIR_OP_HAND_OVER, 1u << DIR_DONE | 1u << DIR_GONE | 1u << DIR_EXISTS, 10},
	{DIR_OP_ANNOUNCE,
		1u << DIR_DONE | 1u << DIR_REMOVED | 1u << DIR_OLDER | 1u << DIR_REPLACED,
		20},
	{DIR_OP_BURY, 1u << DIR_DONE, 2},
};

static const struct random_op *random_op(struct rng *rng)
{
	uint32_t sum = 0, at = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(random_ops); i++)
		sum += random_ops[i].weight;
	sum = (uint32_t)rng_below(rng, sum);
	while (sum >= random_ops[at].weight)
		sum -= random_ops[at++].weight;
	return &random_ops[at];
}

/* Generations rise with time, so that tombstones are left behind. */
static struct dir_call random_call(struct dir_rig *rig, struct rng *rng)
{
	static const uint64_t live[] = {1, 2, 3};

	return (struct dir_call){
		.op = random_op(rng)->op,
		.id = {{rng_below(rng, RANDOM_KEYS), 99}},
		.node = random_node(rng),
		.incarnation = 1 + rng_below(rng, 2),
		.generation = 1 + rig->next_id / 60 + rng_below(rng, 4),
		.size = rng_below(rng, 100),
		.flags = rng_chance(rng, 50) ? DIR_SOFTPIN : 0,
		.wanted = (uint16_t)rng_below(rng, 3),
		.role = rng_chance(rng, 50) ? DIR_SECONDARY : DIR_KEEPER,
		.replace = rng_chance(rng, 50),
		.lost = rng_chance(rng, 50),
		.from = rng_chance(rng, 25) ? 0 : random_node(rng),
		.from_incarnation = rng_below(rng, 3),
		.token = rng_below(rng, 6),
		.wait_ns = rng_chance(rng, 50) ? BURY : 0,
		.bury_ns = BURY,
		.live = live,
		.live_count = (uint32_t)rng_below(rng, 4),
		.asked = rng_chance(rng, 50),
		.keepers = rng_below(rng, 4),
	};
}

static void assert_same_entry(const struct dir_entry *a, const struct dir_entry *b)
{
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->wanted, b->wanted);
	assert_int_equal(a->holder_count, b->holder_count);
	for (uint32_t i = 0; i < a->holder_count; i++) {
		uint32_t at = 0;

		while (a->holders[i].node != b->holders[at].node)
			assert_true(++at < b->holder_count);
		assert_int_equal(a->holders[i].role, b->holders[at].role);
		assert_int_equal(a->holders[i].incarnation, b->holders[at].incarnation);
	}
}

static void assert_same_waiters(const struct dir_call *a, const struct dir_call *b)
{
	assert_int_equal(a->waiter_count, b->waiter_count);
	for (uint32_t i = 0; i < a->waiter_count; i++) {
		uint32_t at = 0;

		while (a->waiters[i] != b->waiters[at])
			assert_true(++at < b->waiter_count);
	}
}

/* The run has met all that can be met. */
static void assert_all_seen(uint32_t seen[DIR_OP_RESIGN + 1][DIR_REPLACED + 1])
{
	for (uint32_t i = 0; i < ARRAY_LEN(random_ops); i++) {
		for (uint32_t verdict = 0; verdict <= DIR_REPLACED; verdict++) {
			bool possible = (random_ops[i].verdicts & 1u << verdict) != 0;
			uint32_t count = seen[random_ops[i].op][verdict];

			if (possible ? count < RANDOM_SEEN : count > 0)
				fail_msg("op %d said %u %u times", random_ops[i].op,
					verdict, count);
		}
	}
}

/* Each command, in whatever state, does what it does in memory. */
static void test_random_commands_agree(void **state)
{
	const struct dir_mem_config config = {.domains = 1, .seed = 1, .undo_limit = 1};
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0];
	struct dir_rig model = {.kind = RIG_MEM, .now = 1};
	uint32_t seen[DIR_OP_RESIGN + 1][DIR_REPLACED + 1] = {{0}};
	struct rig_node *mirror;
	struct rng rng;

	rng_init(&rng, 20240601);
	assert_int_equal(dir_mem_new(&model.mem, &config), 0);
	mirror = rig_add_node(&model);
	for (uint32_t i = 0; i < RANDOM_CALLS; i++) {
		struct dir_call call = random_call(rig, &rng), same = call;

		rig_try(node, &call);
		rig_try(mirror, &same);
		rig->next_id++;
		if (call.verdict != same.verdict || call.err != same.err)
			fail_msg("call %u: op %d says %d (%d), not %d (%d)", i, call.op,
				call.verdict, call.err, same.verdict, same.err);
		seen[call.op][call.verdict]++;
		assert_same_entry(&call.entry, &same.entry);
		assert_same_waiters(&call, &same);
		if (call.verdict == DIR_REMOVED ||
			(call.op == DIR_OP_TAKE_OUT && call.verdict == DIR_ABSENT))
			assert_int_equal(call.buried, same.buried);
		assert_null(dir_mem_check(model.mem));
	}
	assert_all_seen(seen);
	rig_drop_node(mirror);
	dir_mem_free(model.mem);
}

/* ---- epochs, trouble ----------------------------------------------------- */

static void set_full(struct dir_rig *rig, bool full)
{
	struct redis_rig *servers;
	size_t count;

	if (rig->kind == RIG_MEM) {
		for (uint32_t i = 0; i < 3; i++)
			dir_mem_set_full(rig->mem, i, full);
		return;
	}
	servers = rig_servers(rig->kind, &count);
	for (size_t i = 0; i < count; i++)
		redis_rig_do(&servers[i], "CONFIG SET maxmemory %d", full ? 1 : 0);
}

static void test_full_memory_refuses_what_is_new(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	struct dir_id id = rig_id(rig), none = rig_id(rig);
	struct dir_call calls[] = {publish_call(node, none, G1),
		announce_call(node, none, G1, DIR_KEEPER),
		rig_call(node, DIR_OP_BURY, none, G1),
		rig_call(other, DIR_OP_JOIN, id, 0)};
	struct dir_call hand = rig_call(other, DIR_OP_HAND_OVER, id, G1);
	struct dir_call out = take_out_call(node, id, 0, 1);
	struct dir_member member;
	struct dir_call renew = renew_call(node, &member, BURY);

	publish(node, id, G1, 0);
	set_full(rig, true);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		calls[i].bury_ns = BURY;
		rig_try(calls[i].node == rig_number(node) ? node : other, &calls[i]);
		assert_int_equal(calls[i].err, ERR_NO_SPACE);
	}
	rig_do(node, &renew, DIR_DONE);
	act(node, DIR_OP_CONFIRM, id, G1, DIR_DONE);
	act(node, DIR_OP_JOIN, id, 0, DIR_DONE);
	hand.from = rig_number(node);
	rig_do(other, &hand, DIR_DONE);
	assert_int_equal(role_of(node, id, other), DIR_KEEPER);
	rig_do(node, &out, DIR_DONE);
	assert_int_equal(generation_of(node, id), 0);
	set_full(rig, false);
	publish(node, none, G1, 0);
}

static bool all_told(struct dir_rig *rig, void *arg)
{
	const uint64_t *before = arg;
	uint32_t count = rig->kind == RIG_SINGLE ? 1 : 3;

	for (uint32_t i = 0; i < rig->node_count; i++) {
		for (uint32_t domain = 0; domain < count; domain++) {
			uint64_t epoch = rig->nodes[i].epoch[domain];

			if (epoch == 0 || (before != NULL && epoch == before[domain]))
				return false;
		}
	}
	return true;
}

static void test_epochs_are_told_and_answered(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *other = rig_add_node(rig);
	static const enum dir_op ops[] = {DIR_OP_JOIN, DIR_OP_LOOKUP, DIR_OP_TAKE_OUT};

	rig_until(rig, all_told, NULL); /* also without a call */
	assert_memory_equal(node->epoch, other->epoch, sizeof(node->epoch));
	for (uint32_t i = 0; i < 30; i++) {
		struct dir_call call = rig_call(
			node, ops[i % ARRAY_LEN(ops)], rig_id(rig), 0);

		rig_do(node, &call, DIR_ABSENT);
		assert_int_equal(
			call.domain, node->dir.domain_of(node->dir.ctx, &call.id));
		assert_int_equal(call.epoch, node->epoch[call.domain]);
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(node->told[i], rig->kind != RIG_SINGLE || i == 0);
}

static void flush_all(struct dir_rig *rig)
{
	struct redis_rig *servers;
	size_t count;

	for (uint32_t i = 0; rig->kind == RIG_MEM && i < 3; i++)
		dir_mem_flush(rig->mem, i);
	if (rig->kind == RIG_MEM)
		return;
	servers = rig_servers(rig->kind, &count);
	for (size_t i = 0; i < count; i++)
		redis_rig_do(&servers[i], "FLUSHALL");
}

static void test_flush_begins_an_epoch(void **state)
{
	struct dir_rig *rig = rig_begin(state);
	struct rig_node *node = &rig->nodes[0], *quiet = rig_add_node(rig);
	struct dir_id id = rig_id(rig);
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);
	uint64_t before[DIR_DOMAINS];

	publish(node, id, G1, 0);
	rig_until(rig, all_told, NULL);
	memcpy(before, node->epoch, sizeof(before));
	flush_all(rig);
	rig_do(node, &call, DIR_ABSENT);
	assert_true(call.epoch != 0 && call.epoch != before[call.domain]);
	assert_int_equal(node->epoch[call.domain], call.epoch); /* and was told before */
	rig_until(rig, all_told, before); /* who asks nothing hears of it, too */
	assert_memory_equal(node->epoch, quiet->epoch, sizeof(before));
	publish(node, id, G1, 0);
}

static void set_away(struct dir_rig *rig, bool away)
{
	struct redis_rig *servers;
	size_t count;

	for (uint32_t i = 0; rig->kind == RIG_MEM && i < 3; i++)
		dir_mem_set_away(rig->mem, i, away);
	if (rig->kind == RIG_MEM)
		return;
	servers = rig_servers(rig->kind, &count);
	for (size_t i = 0; i < count; i++) {
		if (away)
			redis_rig_pause(&servers[i]);
		else
			redis_rig_go_on(&servers[i]);
	}
}

static bool all_lost(struct dir_rig *rig, void *arg)
{
	uint32_t count = rig->kind == RIG_SINGLE ? 1 : 3;

	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		if (rig->nodes[0].epoch[i] != 0)
			return false;
	}
	return true;
}

static void test_nobody_answers(void **state)
{
	struct dir_rig *rig = *state;
	struct rig_node *node;
	struct dir_call call;
	struct dir_id id;
	uint64_t before[DIR_DOMAINS];

	rig->timeout_ns = 300 * RIG_MS;
	node = &rig_begin(state)->nodes[0];
	id = rig_id(rig);
	call = publish_call(node, id, G1);
	rig_insist(node, &call, DIR_DONE);
	rig_until(rig, all_told, NULL);
	memcpy(before, node->epoch, sizeof(before));
	set_away(rig, true);
	call = take_out_call(node, id, 0, 1);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	assert_int_equal(call.entry.generation, 0);
	assert_int_equal(call.epoch, 0);
	rig_until(rig, all_lost, NULL);
	set_away(rig, false);
	rig_until(rig, all_told, NULL);
	assert_memory_equal(node->epoch, before, sizeof(before)); /* nothing was lost */
	rig_insist(node, &call, DIR_DONE);
}

/* ---- all of them, everywhere --------------------------------------------- */

static enum rig_kind mem = RIG_MEM, single = RIG_SINGLE, cluster = RIG_CLUSTER;

#define TEST_OF(name, kind)                                                  \
	{                                                                    \
#name " (" #kind ")", name, rig_setup, rig_teardown, &(kind) \
	}
#define TEST(name) TEST_OF(name, mem), TEST_OF(name, single), TEST_OF(name, cluster)

static const struct CMUnitTest tests[] = {
	TEST(test_publish_makes_an_entry),
	TEST(test_publish_again_is_done),
	TEST(test_publish_meets_another),
	TEST(test_publish_replaces_and_says_so_again),
	TEST(test_publish_replaces_no_higher),
	TEST(test_publish_meets_its_own_number_of_another),
	TEST(test_publish_and_tombstones),
	TEST(test_confirm),
	TEST(test_join_adds_a_loader),
	TEST(test_join_leaves_a_role),
	TEST(test_join_of_a_new_incarnation),
	TEST(test_loaded),
	TEST(test_waiters_are_told_by_publish),
	TEST(test_waiters_are_told_by_announce),
	TEST(test_waiters_end),
	TEST(test_leave_of_one_and_the_last),
	TEST(test_leave_of_a_softpin_entry),
	TEST(test_keeper_leaves_before_a_copy),
	TEST(test_leave_of_another),
	TEST(test_take_out_tells_the_holders),
	TEST(test_take_out_of_a_generation),
	TEST(test_take_out_knows_its_tokens),
	TEST(test_take_out_has_one_winner),
	TEST(test_take_out_buries_as_long_as_needed),
	TEST(test_take_out_of_what_is_lost_buries_nothing),
	TEST(test_take_out_of_what_another_has_come_to_keep),
	TEST(test_hand_over),
	TEST(test_one_keeper_more),
	TEST(test_announce_makes_an_entry),
	TEST(test_announce_of_the_same),
	TEST(test_announce_against_another),
	TEST(test_announce_replaces_a_provisional_one),
	TEST(test_announce_again_by_a_new_incarnation),
	TEST(test_announce_again_in_another_role),
	TEST(test_announce_again_what_has_replaced_another),
	TEST(test_announce_after_a_removal),
	TEST(test_bury),
	TEST(test_tombstones_end),
	TEST(test_tombstone_ends_beside_an_entry),
	TEST(test_time_to_live_ends),
	TEST(test_time_to_live_goes_with_its_entry),
	TEST(test_members_see_each_other),
	TEST(test_members_end),
	TEST(test_entry_names_so_many_and_no_more),
	TEST(test_waiters_and_members_are_limited),
	TEST(test_tokens_are_limited),
	TEST(test_numbers_are_whole),
	TEST(test_many_at_once),
	TEST(test_random_commands_agree),
	TEST(test_full_memory_refuses_what_is_new),
	TEST(test_epochs_are_told_and_answered),
	TEST(test_flush_begins_an_epoch),
	TEST(test_nobody_answers),
};

UNIT_MAIN(tests)
