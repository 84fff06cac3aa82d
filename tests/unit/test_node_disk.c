/*
 * Tests of node/ with a disk: what leaves the pool, what is durable, what is removed, and
 * what is told when the disk fails.
 */
#include "node_disk.h"

/* ---- out and in ---------------------------------------------------------- */

static void test_softpin_beyond_the_pool_is_all_readable(void **state)
{
	struct guest guest = attach();
	char key[16];

	(void)state;
	crowd(&guest, 12, MIB);
	for (unsigned i = 0; i < 12; i++) {
		(void)snprintf(key, sizeof(key), "p%u", i);
		want_bytes(&guest, key, MIB);
	}
	assert_true(node_master(world.node)->stats.loads > 0);
}

static void test_small_values_lie_in_the_index_and_come_back(void **state)
{
	struct guest guest = attach();

	(void)state;
	send_object(&guest, "small", 1000, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	(void)want_done(guest.lane);
	lose_host(&guest);
	assert_int_equal(stat_of(&guest, "small").flags, PUT_SOFTPIN | STAT_ON_DISK);
	want_bytes(&guest, "small", 1000);
}

static void test_stat_tells_where_the_bytes_are(void **state)
{
	struct guest guest = attach();
	struct msg_stated stated;
	uint64_t generation;

	(void)state;
	generation = object(&guest, "k", MIB);
	stated = stat_of(&guest, "k");
	assert_int_equal(stated.flags, PUT_SOFTPIN | STAT_IN_POOL);
	SEND(guest.lane, remove, .key = text("k"));
	(void)want_done(guest.lane);
	put_on_disk(&guest, "k", MIB);
	stated = stat_of(&guest, "k");
	assert_int_equal(stated.flags, PUT_SOFTPIN | STAT_ON_DISK);
	assert_int_equal(stated.size, MIB);
	assert_int_equal(stated.slot, SLOT_NONE);
	assert_true(stated.generation > generation);
	want_bytes(&guest, "k", MIB);
	stated = stat_of(&guest, "k");
	assert_int_equal(stated.flags, PUT_SOFTPIN | STAT_IN_POOL | STAT_ON_DISK);
}

static void test_put_of_a_key_on_disk_exists(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	send_put(&guest, "k", "v", SECOND);
	want_error(guest.lane, ERR_EXISTS, "1048576 bytes, on disk");
}

/* Else their room would be given away, and the next start had two records of it. */
static void test_more_on_disk_than_may_be_is_left_alone(void **state)
{
	struct guest guest = attach();
	uint64_t limit = tier.setup.object_limit;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	send_object(&guest, "l", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	(void)want_done(guest.lane);
	sim_kill_daemon(&world);
	tier.setup.object_limit = 1;
	assert_int_equal(sim_start_daemon(&world), ERR_TOO_MANY);
	sim_kill_daemon(&world);
	tier.setup.object_limit = limit;
	assert_int_equal(sim_start_daemon(&world), 0);
	guest = attach();
	want_bytes(&guest, "k", MIB);
	want_bytes(&guest, "l", MIB);
}

static void test_what_is_on_disk_outlives_the_daemon(void **state)
{
	struct guest guest = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	sim_kill_daemon(&world);
	assert_int_equal(sim_start_daemon(&world), 0);
	guest = attach();
	want_bytes(&guest, "k", MIB);
}

/* ---- removals ------------------------------------------------------------ */

static void test_remove_is_answered_after_the_disk_has_it(void **state)
{
	struct guest guest = attach();
	uint64_t generation;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	generation = stat_of(&guest, "k").generation;
	assert_true(generation_on_disk(generation));
	SEND(guest.lane, remove, .key = text("k"));
	want_nothing(guest.lane);
	assert_true(generation_on_disk(generation));
	pass(SECOND);
	(void)want_done(guest.lane);
	assert_false(generation_on_disk(generation));
	SEND(guest.lane, remove, .key = text("k"));
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
}

/* Who comes second must not be told "gone" of what could still come back. */
static void test_second_remover_waits_as_well(void **state)
{
	struct guest guest = attach(), other = attach();

	(void)state;
	put_on_disk(&guest, "k", MIB);
	SEND(guest.lane, remove, .key = text("k"));
	SEND(other.lane, remove, .key = text("k"));
	want_nothing(other.lane);
	pass(SECOND);
	(void)want_done(guest.lane);
	want_error(other.lane, ERR_NOT_FOUND, "no object");
}

static void test_remove_that_the_disk_refuses_is_told_and_done_later(void **state)
{
	struct guest guest = attach();
	uint64_t generation;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	generation = stat_of(&guest, "k").generation;
	tier.trouble.io = 100;
	SEND(guest.lane, remove, .key = text("k"));
	pass(9 * SECOND);
	want_nothing(guest.lane);
	pass(2 * SECOND);
	want_error(guest.lane, ERR_IO, "could not be deleted yet");
	send_get(guest.lane, "k", 0, SECOND);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	tier.trouble.io = 0;
	pass(5 * SECOND);
	assert_false(generation_on_disk(generation));
}

static void test_take_is_answered_after_the_disk_has_it(void **state)
{
	struct guest guest = attach();
	struct msg_found found;
	uint64_t generation;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	send_get(guest.lane, "k", 0, SECOND);
	pass(SECOND);
	WANT(guest.lane, found, &found);
	generation = world.share.slots[found.slot].generation;
	SEND(guest.lane, take, .slot = found.slot, .life = found.life, .op = 77);
	want_nothing(guest.lane);
	pass(SECOND);
	assert_int_equal(want_done(guest.lane), generation);
	assert_false(generation_on_disk(generation));
}

static void test_last_counted_read_is_answered_after_the_disk_has_it(void **state)
{
	struct guest guest = attach();
	struct msg_stated stated;

	(void)state;
	SEND(guest.lane, put, .key = text("k"), .op = ++guest.ops, .readers = 2,
		.flags = PUT_SOFTPIN | PUT_DURABLE, .timeout_ns = SECOND,
		.value = text("value"));
	pass(SECOND);
	(void)want_done(guest.lane);
	stated = stat_of(&guest, "k");
	SEND(guest.lane, read, .key = text("k"), .generation = stated.generation,
		.sequence = 1);
	(void)want_done(guest.lane);
	SEND(guest.lane, read, .key = text("k"), .generation = stated.generation,
		.sequence = 2);
	want_nothing(guest.lane);
	pass(SECOND);
	(void)want_done(guest.lane);
	assert_false(generation_on_disk(stated.generation));
}

/* ---- durable puts -------------------------------------------------------- */

static void test_durable_needs_a_disk(void **state)
{
	struct guest guest = attach();

	(void)state;
	SEND(guest.lane, put, .key = text("k"), .op = 1, .flags = PUT_DURABLE,
		.timeout_ns = SECOND, .value = text("v"));
	want_error(guest.lane, ERR_NOT_SUPPORTED, "no disk");
	send_start(&guest, "k", 100000, PUT_DURABLE, SECOND);
	want_error(guest.lane, ERR_NOT_SUPPORTED, "no disk");
}

static void test_durable_put_outlives_the_host(void **state)
{
	struct guest guest = attach();
	struct msg_found found;

	(void)state;
	SEND(guest.lane, put, .key = text("small"), .op = ++guest.ops,
		.flags = PUT_SOFTPIN | PUT_DURABLE, .timeout_ns = SECOND,
		.value = text("value"));
	want_nothing(guest.lane);
	pass(SECOND);
	(void)want_done(guest.lane);
	send_object(&guest, "large", MIB, PUT_SOFTPIN | PUT_DURABLE);
	want_nothing(guest.lane);
	pass(SECOND);
	(void)want_done(guest.lane);
	lose_host(&guest);
	want_bytes(&guest, "large", MIB);
	send_get(guest.lane, "small", 0, SECOND);
	pass(SECOND);
	WANT(guest.lane, found, &found);
	assert_value(found.slot, "value");
}

static void test_durable_put_that_fails_is_no_put(void **state)
{
	struct guest guest = attach();

	(void)state;
	tier.trouble.io = 100;
	send_object(&guest, "k", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	want_error(guest.lane, ERR_IO, "could not be made durable");
	send_get(guest.lane, "k", 0, 0);
	want_error(guest.lane, ERR_NOT_FOUND, "no object");
	tier.trouble.io = 0;
	pass(2 * SECOND);
	send_object(&guest, "k", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(2 * SECOND);
	(void)want_done(guest.lane);
	assert_sound();
}

static void test_durable_put_onto_a_full_disk_is_refused_at_its_deadline(void **state)
{
	struct guest guest = attach();

	(void)state;
	send_object(&guest, "a", MIB, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	(void)want_done(guest.lane);
	send_object(&guest, "b", MIB + MIB / 2, PUT_SOFTPIN | PUT_DURABLE);
	pass(SECOND);
	want_nothing(guest.lane);
	pass(5 * SECOND);
	want_error(guest.lane, ERR_NO_SPACE, "could not be made durable");
	want_bytes(&guest, "a", MIB);
}

static void test_end_of_a_durable_put_is_repeated_after_a_restart(void **state)
{
	struct guest guest = attach();
	struct guest again = guest;
	struct msg_put_started started;

	(void)state;
	SEND(guest.lane, tell, .slot = SLOT_NONE);
	send_start(&guest, "k", MIB, PUT_SOFTPIN | PUT_DURABLE, SECOND);
	WANT(guest.lane, put_started, &started);
	write_bytes("k", started.off, MIB);
	tier.trouble.slow = 100;
	SEND(guest.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	assert_sound();
	sim_kill_daemon(&world);
	tier.trouble.slow = 0;
	assert_int_equal(sim_start_daemon(&world), 0);
	hello(&again, guest.welcome.token, 0);
	WANT(again.lane, welcome, &again.welcome);
	SEND(again.lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = SECOND);
	want_nothing(again.lane);
	pass(SECOND);
	assert_true(generation_on_disk(want_done(again.lane)));
}

/* ---- INFO ---------------------------------------------------------------- */

static void test_info_has_the_disk(void **state)
{
	struct guest guest = attach();
	struct msg_info_text info;

	(void)state;
	put_on_disk(&guest, "k", MIB);
	SEND(guest.lane, info, .what = 0);
	WANT(guest.lane, info_text, &info);
	assert_non_null(memmem(info.text.data, info.text.size, "\"only_bytes\"", 12));
	assert_non_null(
		memmem(info.text.data, info.text.size, "\"page_table_bytes\"", 18));
}

/* ---- the log ------------------------------------------------------------- */

static unsigned troubles, wells;

static void count_line(void *ctx, const char *line, size_t length)
{
	(void)ctx, (void)length;
	troubles += strstr(line, "event=disk_trouble error=IO") != NULL;
	wells += strstr(line, "event=disk_well") != NULL;
}

static void durable_put(struct guest *guest, bool works)
{
	send_object(guest, "k", 8192, PUT_DURABLE);
	pass(3 * SECOND);
	if (works)
		(void)want_done(guest->lane);
	else
		want_error(guest->lane, ERR_IO, "could not be made durable");
}

static void test_trouble_is_told_once_a_minute_and_its_end_once(void **state)
{
	static const struct log log = {.level = LOG_LEVEL_INFO, .write = count_line};
	struct guest guest;

	(void)state;
	sim_kill_daemon(&world);
	world.config.log = &log;
	assert_int_equal(sim_start_daemon(&world), 0);
	guest = attach();
	troubles = wells = 0;
	tier.trouble.io = 100;
	durable_put(&guest, false);
	durable_put(&guest, false);
	assert_int_equal(troubles, 1);
	pass(60 * SECOND);
	durable_put(&guest, false);
	assert_int_equal(troubles, 2);
	assert_int_equal(wells, 0);
	tier.trouble.io = 0;
	pass(3 * SECOND);
	durable_put(&guest, true);
	assert_int_equal(troubles, 2);
	assert_int_equal(wells, 1);
}

static const struct CMUnitTest tests[] = {
	ON_DISK(test_softpin_beyond_the_pool_is_all_readable),
	ON_DISK(test_small_values_lie_in_the_index_and_come_back),
	ON_DISK(test_stat_tells_where_the_bytes_are),
	ON_DISK(test_put_of_a_key_on_disk_exists),
	ON_DISK(test_what_is_on_disk_outlives_the_daemon),
	ON_DISK(test_more_on_disk_than_may_be_is_left_alone),
	ON_DISK(test_remove_is_answered_after_the_disk_has_it),
	ON_DISK(test_second_remover_waits_as_well),
	ON_DISK(test_remove_that_the_disk_refuses_is_told_and_done_later),
	ON_DISK(test_take_is_answered_after_the_disk_has_it),
	ON_DISK(test_last_counted_read_is_answered_after_the_disk_has_it),
	TEST(test_durable_needs_a_disk),
	ON_DISK(test_durable_put_outlives_the_host),
	ON_DISK(test_durable_put_that_fails_is_no_put),
	TEST_ON_DISK(test_durable_put_onto_a_full_disk_is_refused_at_its_deadline,
		setup_small_disk),
	ON_DISK(test_end_of_a_durable_put_is_repeated_after_a_restart),
	ON_DISK(test_info_has_the_disk),
	ON_DISK(test_trouble_is_told_once_a_minute_and_its_end_once),
};

UNIT_MAIN(tests)
