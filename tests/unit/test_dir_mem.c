/*
 * Tests of dir/dir_mem.h: calls delayed, lost and reordered, and what befalls the server.
 * What the commands do is in test_dir.c.
 */
#include "dir/dir_mem.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

#define DOMAINS 2u
#define NODES   2u
#define DONE    8u

struct end {
	struct dir_mem_port port;
	struct dir dir;
	struct dir_call *done[DONE]; /* in the order of their ends */
	uint32_t done_count;
	uint64_t epoch[DOMAINS];
	uint32_t told[DOMAINS];
	uint32_t
		told_when_done; /* epochs of domain 0 that were told before the last end */
};

static struct dir_mem *mem;
static struct end ends[NODES];

static void on_done(void *ctx, struct dir_call *call)
{
	struct end *end = ctx;

	assert_true(end->done_count < DONE);
	end->done[end->done_count++] = call;
	end->told_when_done = end->told[0];
}

static void on_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	struct end *end = ctx;

	assert_true(domain < DOMAINS);
	end->epoch[domain] = epoch;
	end->told[domain]++;
}

static int setup(void **state)
{
	const struct dir_mem_config config = {
		.domains = DOMAINS, .seed = 3, .undo_limit = 4};
	int err = dir_mem_new(&mem, &config);

	(void)state;
	for (uint32_t i = 0; err == 0 && i < NODES; i++) {
		const struct dir_events events = {&ends[i], on_done, on_epoch};

		ends[i] = (struct end){.done_count = 0};
		dir_mem_open_port(&ends[i].port, mem, &events, &ends[i].dir);
	}
	return err;
}

static int teardown(void **state)
{
	(void)state;
	assert_null(dir_mem_check(mem));
	for (uint32_t i = 0; i < NODES; i++)
		dir_mem_close_port(&ends[i].port);
	dir_mem_free(mem);
	return 0;
}

/* A key of domain 0, unless it is odd. */
static struct dir_call make(enum dir_op op, uint64_t key, uint64_t generation)
{
	struct dir_call call = {
		.op = op,
		.id = {{key, 1}},
		.node = 1,
		.incarnation = 1,
		.generation = generation,
		.bury_ns = 1000,
	};

	list_init(&call.list_entry);
	return call;
}

static void start(struct end *end, struct dir_call *call)
{
	end->dir.start(end->dir.ctx, call);
	assert_int_equal(call->err, 0);
}

static void apply(struct end *end, struct dir_call *call)
{
	assert_int_equal(dir_mem_apply(&end->port, call), 0);
}

static void publish(uint64_t key, uint64_t generation)
{
	struct dir_call call = make(DIR_OP_PUBLISH, key, generation);

	start(&ends[0], &call);
	apply(&ends[0], &call);
	dir_mem_answer(&ends[0].port, &call);
	assert_int_equal(call.verdict, DIR_DONE);
	ends[0].done_count = 0;
}

static bool is_there(uint64_t key)
{
	const struct dir_id id = {{key, 1}};
	struct dir_entry entry;

	return dir_mem_look(mem, &id, &entry);
}

/* ---- calls --------------------------------------------------------------- */

static void test_nothing_happens_by_itself(void **state)
{
	struct dir_call call = make(DIR_OP_PUBLISH, 0, 5);

	(void)state;
	start(&ends[0], &call);
	assert_false(is_there(0));
	assert_ptr_equal(list_first(&ends[0].port.queued), &call.list_entry);
	apply(&ends[0], &call);
	assert_true(is_there(0));
	assert_ptr_equal(list_first(&ends[0].port.applied), &call.list_entry);
	assert_int_equal(ends[0].done_count, 0);
	dir_mem_answer(&ends[0].port, &call);
	assert_int_equal(ends[0].done_count, 1);
	assert_ptr_equal(ends[0].done[0], &call);
	assert_int_equal(call.domain, 0);
	assert_int_equal(call.epoch, dir_mem_epoch(mem, 0));
}

static void test_calls_are_reordered(void **state)
{
	struct dir_call first = make(DIR_OP_PUBLISH, 0, 5),
			second = make(DIR_OP_PUBLISH, 0, 6);

	(void)state;
	start(&ends[0], &first);
	start(&ends[1], &second);
	apply(&ends[1], &second);
	apply(&ends[0], &first);
	assert_int_equal(second.verdict, DIR_DONE);
	assert_int_equal(first.verdict, DIR_EXISTS);
	dir_mem_answer(&ends[0].port, &first);
	dir_mem_answer(&ends[1].port, &second);
}

static void test_a_lost_call_may_have_been_done(void **state)
{
	struct dir_call before = make(DIR_OP_PUBLISH, 0, 5),
			after = make(DIR_OP_PUBLISH, 2, 5);

	(void)state;
	start(&ends[0], &before);
	start(&ends[0], &after);
	dir_mem_lose(&ends[0].port, &before);
	apply(&ends[0], &after);
	dir_mem_lose(&ends[0].port, &after);
	assert_int_equal(before.err, ERR_UNAVAILABLE);
	assert_int_equal(after.err, ERR_UNAVAILABLE);
	assert_int_equal(after.epoch, 0);
	assert_false(is_there(0));
	assert_true(is_there(2));
}

static void test_a_port_that_closes_forgets_its_calls(void **state)
{
	struct dir_call waits = make(DIR_OP_PUBLISH, 0, 5),
			done = make(DIR_OP_PUBLISH, 2, 5);
	const struct dir_events events = {&ends[0], on_done, on_epoch};

	(void)state;
	start(&ends[0], &waits);
	start(&ends[0], &done);
	apply(&ends[0], &done);
	dir_mem_close_port(&ends[0].port);
	assert_true(list_is_empty(&waits.list_entry) && list_is_empty(&done.list_entry));
	assert_int_equal(ends[0].done_count, 0);
	assert_false(is_there(0));
	assert_true(is_there(2));
	dir_mem_open_port(&ends[0].port, mem, &events, &ends[0].dir);
}

static struct dir_call again;

/* A call that is started by the end of another. */
static void on_done_start_again(void *ctx, struct dir_call *call)
{
	on_done(ctx, call);
	if (call != &again)
		start(ctx, &again);
}

static void test_run_does_all_there_is(void **state)
{
	struct dir_call call = make(DIR_OP_PUBLISH, 0, 5);

	(void)state;
	again = make(DIR_OP_CONFIRM, 0, 5);
	ends[0].port.events.done = on_done_start_again;
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(ends[0].done_count, 2);
	assert_int_equal(again.verdict, DIR_DONE);
	assert_int_equal(ends[1].told[0] + ends[1].told[1], 2);
	ends[0].done_count = 0;
	start(&ends[0], &call);
	assert_false(dir_mem_run(mem, 1));
	assert_int_equal(ends[0].done_count, 1);
	assert_true(dir_mem_run(mem, 1));
	assert_int_equal(ends[0].done_count, 2);
}

/* ---- epochs -------------------------------------------------------------- */

static void test_epoch_is_told_when_it_is_told(void **state)
{
	uint64_t epoch = dir_mem_epoch(mem, 0);

	(void)state;
	assert_true(dir_mem_has_news(&ends[0].port, 0));
	dir_mem_tell(&ends[0].port, 0);
	assert_int_equal(ends[0].epoch[0], epoch);
	assert_false(dir_mem_has_news(&ends[0].port, 0));
	dir_mem_flush(mem, 0);
	assert_int_not_equal(dir_mem_epoch(mem, 0), epoch);
	assert_true(dir_mem_has_news(&ends[0].port, 0));
	assert_int_equal(ends[0].told[0], 1);
	dir_mem_tell(&ends[0].port, 0);
	dir_mem_tell(&ends[0].port, 0); /* once more, the same */
	assert_int_equal(ends[0].told[0], 3);
}

static void test_answer_brings_the_news_before_it(void **state)
{
	struct dir_call call = make(DIR_OP_LOOKUP, 0, 0);

	(void)state;
	start(&ends[0], &call);
	apply(&ends[0], &call);
	dir_mem_answer(&ends[0].port, &call);
	assert_int_equal(ends[0].told_when_done, 1);
	assert_int_equal(ends[0].epoch[0], call.epoch);
}

static void test_old_answer_is_no_news(void **state)
{
	struct dir_call old = make(DIR_OP_LOOKUP, 0, 0),
			young = make(DIR_OP_LOOKUP, 0, 0);

	(void)state;
	start(&ends[0], &old);
	apply(&ends[0], &old);
	dir_mem_flush(mem, 0);
	start(&ends[0], &young);
	apply(&ends[0], &young);
	dir_mem_answer(&ends[0].port, &young);
	dir_mem_answer(&ends[0].port, &old);
	assert_int_not_equal(old.epoch, young.epoch);
	assert_int_equal(ends[0].epoch[0], young.epoch);
	assert_int_equal(ends[0].told[0], 1);
}

static void test_epoch_may_be_read_later(void **state)
{
	struct dir_call call = make(DIR_OP_PUBLISH, 0, 5);

	(void)state;
	start(&ends[0], &call);
	apply(&ends[0], &call);
	dir_mem_flush(mem, 0);
	dir_mem_read_epoch(&ends[0].port, &call);
	dir_mem_answer(&ends[0].port, &call);
	assert_int_equal(call.verdict, DIR_DONE);
	assert_int_equal(call.epoch, dir_mem_epoch(mem, 0));
	assert_false(is_there(0));
}

static void test_same_seed_same_epochs(void **state)
{
	const struct dir_mem_config config = {
		.domains = DOMAINS, .seed = 3, .undo_limit = 4};
	struct dir_mem *other;

	(void)state;
	assert_int_equal(dir_mem_new(&other, &config), 0);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(dir_mem_epoch(mem, 1), dir_mem_epoch(other, 1));
		dir_mem_flush(mem, i % DOMAINS);
		dir_mem_flush(other, i % DOMAINS);
	}
	dir_mem_free(other);
}

/* ---- what befalls it ----------------------------------------------------- */

static void test_flush_forgets_one_domain(void **state)
{
	struct dir_member members[DIR_HOLDERS], own = {.node = 1, .endpoint = "a:1"};
	struct dir_call call = make(DIR_OP_RENEW, 0, 0);

	(void)state;
	publish(0, 5);
	publish(1, 5);
	call.member = &own;
	call.members = members;
	for (uint64_t node = 1; node <= 2; node++) {
		call.node = own.node = node;
		start(&ends[0], &call);
		assert_true(dir_mem_run(mem, 10));
		assert_int_equal(call.member_count, node - 1);
	}
	dir_mem_flush(mem, 0);
	assert_false(is_there(0));
	assert_true(is_there(1));
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(call.member_count, 0);
}

static void test_fail_over_loses_the_last_changes(void **state)
{
	uint64_t epoch = dir_mem_epoch(mem, 0);

	(void)state;
	publish(0, 5);
	publish(2, 5);
	publish(1, 5);
	publish(4, 5);
	assert_int_equal(dir_mem_fail_over(mem, 0, 2), 2);
	assert_true(is_there(0));
	assert_false(is_there(2));
	assert_false(is_there(4));
	assert_true(is_there(1)); /* of the other domain */
	assert_int_not_equal(dir_mem_epoch(mem, 0), epoch);
}

static void test_fail_over_brings_back_what_was_removed(void **state)
{
	struct dir_call call = make(DIR_OP_TAKE_OUT, 0, 5);

	(void)state;
	publish(0, 5);
	start(&ends[0], &call);
	apply(&ends[0], &call);
	dir_mem_answer(&ends[0].port, &call);
	assert_false(is_there(0));
	assert_int_equal(dir_mem_fail_over(mem, 0, 1), 1);
	assert_true(is_there(0));
	publish(0, 5); /* no tombstone either */
}

static void test_fail_over_loses_no_more_than_is_known(void **state)
{
	struct dir_call call = make(DIR_OP_LOOKUP, 0, 0);

	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		publish(2 * i, 5);
	start(&ends[0], &call); /* is no change */
	apply(&ends[0], &call);
	dir_mem_answer(&ends[0].port, &call);
	assert_int_equal(dir_mem_fail_over(mem, 0, 100), 4);
	assert_true(is_there(0));
	assert_true(is_there(2));
	assert_false(is_there(4));
	assert_false(is_there(10));
	assert_int_equal(dir_mem_fail_over(mem, 0, 100), 0);
}

static void test_away_and_back(void **state)
{
	struct dir_call call = make(DIR_OP_PUBLISH, 0, 5),
			other = make(DIR_OP_PUBLISH, 1, 5);
	uint64_t epoch = dir_mem_epoch(mem, 0);

	(void)state;
	dir_mem_set_away(mem, 0, true);
	start(&ends[0], &call);
	start(&ends[0], &other);
	assert_int_equal(dir_mem_apply(&ends[0].port, &call), ERR_UNAVAILABLE);
	assert_ptr_equal(list_first(&ends[0].port.queued), &call.list_entry);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	assert_int_equal(other.err, 0);
	assert_int_equal(ends[0].epoch[0], 0);
	assert_int_equal(ends[0].told[0], 1);
	dir_mem_set_away(mem, 0, false);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(ends[0].epoch[0], epoch);
	assert_int_equal(ends[1].told[0], 2);
}

static void test_cut_off_is_one_node(void **state)
{
	struct dir_call cut = make(DIR_OP_PUBLISH, 0, 5),
			other = make(DIR_OP_PUBLISH, 2, 5);

	(void)state;
	dir_mem_set_cut(&ends[0].port, 0, true);
	start(&ends[0], &cut);
	start(&ends[1], &other);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(cut.err, ERR_UNAVAILABLE);
	assert_int_equal(other.err, 0);
	assert_int_equal(ends[0].epoch[0], 0);
	assert_int_equal(ends[1].epoch[0], dir_mem_epoch(mem, 0));
	dir_mem_set_cut(&ends[0].port, 0, false);
	assert_true(dir_mem_has_news(&ends[0].port, 0));
}

/* Repeats are known for so long, and no longer. */
static void test_what_a_repeat_needs_ends(void **state)
{
	struct dir_call out = make(DIR_OP_TAKE_OUT, 0, 0),
			call = make(DIR_OP_PUBLISH, 2, 5);
	struct dir_call wait = make(DIR_OP_JOIN, 2, 0);

	(void)state;
	out.token = 9;
	out.bury_ns = UINT64_MAX;
	wait.wait_ns = UINT64_MAX;
	publish(0, 5);
	start(&ends[0], &out);
	start(&ends[0], &wait);
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(call.waiter_count, 1);
	dir_mem_set_now(mem, DIR_REPEAT_NS - 1);
	start(&ends[0], &out);
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(out.verdict, DIR_DONE);
	assert_int_equal(call.waiter_count, 1);
	dir_mem_set_now(mem, DIR_REPEAT_NS);
	start(&ends[0], &out);
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	assert_int_equal(out.verdict, DIR_ABSENT);
	assert_int_equal(call.verdict, DIR_DONE);
	assert_int_equal(call.waiter_count, 0);
}

static void test_what_is_lost_is_forgotten(void **state)
{
	struct dir_call call = make(DIR_OP_PUBLISH, 0, 5);

	(void)state;
	call.flags = DIR_SOFTPIN;
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	call.op = DIR_OP_LEAVE;
	call.from = call.node;
	start(&ends[0], &call);
	assert_true(dir_mem_run(mem, 10));
	dir_mem_set_now(mem, DIR_LOST_NS - 1);
	assert_true(is_there(0));
	dir_mem_set_now(mem, DIR_LOST_NS);
	assert_false(is_there(0));
}

/* What is over leaves no trace, though its key is never met again. */
static void test_what_is_over_is_swept(void **state)
{
	struct dir_call call;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		call = make(DIR_OP_BURY, 2 * i, 5);
		start(&ends[0], &call);
		assert_true(dir_mem_run(mem, 10));
		ends[0].done_count = 0;
	}
	assert_int_equal(dir_mem_keys(mem, 0), 100);
	dir_mem_set_now(mem, 1000);
	for (uint64_t i = 0; i < 50; i++) {
		call = make(DIR_OP_LOOKUP, 1000000, 0);
		start(&ends[0], &call);
		assert_true(dir_mem_run(mem, 10));
		ends[0].done_count = 0;
	}
	assert_int_equal(dir_mem_keys(mem, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_nothing_happens_by_itself),
	TEST(test_calls_are_reordered),
	TEST(test_a_lost_call_may_have_been_done),
	TEST(test_a_port_that_closes_forgets_its_calls),
	TEST(test_run_does_all_there_is),
	TEST(test_epoch_is_told_when_it_is_told),
	TEST(test_answer_brings_the_news_before_it),
	TEST(test_old_answer_is_no_news),
	TEST(test_epoch_may_be_read_later),
	TEST(test_same_seed_same_epochs),
	TEST(test_flush_forgets_one_domain),
	TEST(test_fail_over_loses_the_last_changes),
	TEST(test_fail_over_brings_back_what_was_removed),
	TEST(test_fail_over_loses_no_more_than_is_known),
	TEST(test_away_and_back),
	TEST(test_cut_off_is_one_node),
	TEST(test_what_a_repeat_needs_ends),
	TEST(test_what_is_lost_is_forgotten),
	TEST(test_what_is_over_is_swept),
};

UNIT_MAIN(tests)
