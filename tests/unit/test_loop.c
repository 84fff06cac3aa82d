/*
 * Tests of io/loop.h: sources, timer and signals of a loop that waits for real.
 */
#include "io/loop.h"

#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

static struct loop loop;
static int taken;

/* A pipe whose reader is in the loop. */
struct feed {
	struct loop_source source;
	int in;
	unsigned calls;
	struct feed *removes;
};

static void feed_on_ready(struct loop_source *source)
{
	struct feed *feed = container_of(source, struct feed, source);
	char byte;

	feed->calls++;
	assert_int_equal(read(source->fd, &byte, 1), 1);
	if (feed->removes != NULL)
		loop_remove(&loop, &feed->removes->source);
	feed->removes = NULL;
}

static void feed_open(struct feed *feed)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	*feed = (struct feed){.source = {fds[0], feed_on_ready}, .in = fds[1]};
	assert_int_equal(loop_add(&loop, &feed->source), 0);
}

static void feed_close(struct feed *feed)
{
	(void)close(feed->source.fd);
	(void)close(feed->in);
}

static int setup(void **state)
{
	(void)state;
	taken = 0;
	return loop_open(&loop);
}

static int teardown(void **state)
{
	(void)state;
	loop_close(&loop);
	return 0;
}

static void turn(bool wait)
{
	assert_int_equal(loop_turn(&loop, wait, &taken), 0);
}

static void test_source_is_called_until_it_is_read(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed);
	turn(false);
	assert_int_equal(feed.calls, 0);
	assert_int_equal(write(feed.in, "ab", 2), 2);
	turn(true);
	turn(true);
	assert_int_equal(feed.calls, 2);
	turn(false);
	assert_int_equal(feed.calls, 2);
	feed_close(&feed);
}

static void test_removed_source_is_not_called_in_the_same_turn(void **state)
{
	struct feed a, b;

	(void)state;
	feed_open(&a);
	feed_open(&b);
	a.removes = &b;
	b.removes = &a;
	assert_int_equal(write(a.in, "x", 1), 1);
	assert_int_equal(write(b.in, "x", 1), 1);
	turn(true);
	assert_int_equal(a.calls + b.calls, 1);
	turn(false);
	assert_int_equal(a.calls + b.calls, 1);
	feed_close(&a);
	feed_close(&b);
}

static void count_on_ready(struct loop_source *source)
{
	container_of(source, struct feed, source)->calls++;
}

static void test_source_is_called_for_what_it_wants(void **state)
{
	struct feed feed = {.source = {.on_ready = count_on_ready}};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	feed.source.fd = fds[0];
	feed.in = fds[1];
	assert_int_equal(loop_add(&loop, &feed.source), 0);
	turn(false); /* it can be written, which is not asked for */
	assert_int_equal(feed.calls, 0);
	loop_want(&loop, &feed.source, true, true);
	turn(true);
	assert_int_equal(feed.calls, 1);
	assert_int_equal(write(feed.in, "x", 1), 1);
	loop_want(&loop, &feed.source, false, false);
	turn(false);
	assert_int_equal(feed.calls, 1);
	loop_want(&loop, &feed.source, true, false);
	turn(true);
	assert_int_equal(feed.calls, 2);
	loop_want(&loop, &feed.source, false, false);
	(void)close(feed.in);
	turn(true); /* that the other end is gone is told all the same */
	assert_int_equal(feed.calls, 3);
	(void)close(fds[0]);
}

static void test_timer_ends_a_wait_and_can_be_turned_off(void **state)
{
	uint64_t when = loop_boot_ns() + 2000000;

	(void)state;
	loop_set_timer(&loop, when);
	turn(true);
	assert_true(loop_boot_ns() >= when);
	assert_int_equal(loop.timer_when, UINT64_MAX);
	loop_set_timer(&loop, 0); /* long ago: at once */
	turn(true);
	loop_set_timer(&loop, loop_boot_ns() + 3600000000000ull);
	loop_set_timer(&loop, UINT64_MAX);
	turn(false);
}

static void test_signal_is_told(void **state)
{
	static const int signals[] = {SIGUSR1, SIGUSR2, 0};

	(void)state;
	assert_int_equal(loop_take_signals(&loop, signals), 0);
	turn(false);
	assert_int_equal(taken, 0);
	assert_int_equal(raise(SIGUSR2), 0);
	turn(true);
	assert_int_equal(taken, SIGUSR2);
	turn(false);
	assert_int_equal(taken, 0);
}

static void test_random_bytes_differ(void **state)
{
	unsigned char a[32] = {0}, b[32] = {0};

	(void)state;
	loop_random(a, sizeof(a));
	loop_random(b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_true(loop_wall_us() > 1700000000000000ull);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_source_is_called_until_it_is_read),
	TEST(test_removed_source_is_not_called_in_the_same_turn),
	TEST(test_source_is_called_for_what_it_wants),
	TEST(test_timer_ends_a_wait_and_can_be_turned_off),
	TEST(test_signal_is_told),
	TEST(test_random_bytes_differ),
};

UNIT_MAIN(tests)
