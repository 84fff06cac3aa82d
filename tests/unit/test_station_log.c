/*
 * Tests of tools/station_log.h.
 */
#include "tools/station_log.h"

#include "base/attr.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *printed(int fd)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(station_log_print(fd, out), 0);
	(void)fclose(out);
	return text;
}

static void test_by_time(void **state)
{
	const struct station_object object = {.step = 3, .owner = 1, .sequence = 12};
	const struct station_object other = {.step = 4, .owner = 0, .sequence = 7};
	struct station_log one = {.fd = station_log_open()}, two = {.fd = one.fd};
	char *text;

	(void)state;
	assert_true(one.fd >= 0);
	station_log_add(&one, 4, 50, STATION_EVENT_READ, &object, 100);
	station_log_add(&one, 6, 90, STATION_EVENT_REMOVE, &object, 100);
	station_log_add(&two, 3, 40, STATION_EVENT_PUT, &object, 100);
	station_log_add(&two, 4, 45, STATION_EVENT_TURNING, NULL, 4096);
	/* At one moment the put comes first. */
	station_log_add(&one, 4, 60, STATION_EVENT_READ, &other, 5);
	station_log_add(&two, 4, 60, STATION_EVENT_PUT, &other, 5);
	station_log_flush(&one);
	station_log_flush(&two);
	text = printed(one.fd);
	assert_string_equal(text, "3 40 put 3.1.12 100\n"
				  "4 45 turning - 4096\n"
				  "4 50 read 3.1.12 100\n"
				  "4 60 put 4.0.7 5\n"
				  "4 60 read 4.0.7 5\n"
				  "6 90 remove 3.1.12 100\n");
	free(text);
	(void)close(one.fd);
}

/* More than a batch, and nothing of it twice. */
static void test_many(void **state)
{
	struct station_log log = {.fd = station_log_open()};
	const struct station_object object = {.step = 1};
	unsigned lines = 0;
	char *text;

	(void)state;
	for (unsigned i = 0; i < 3 * STATION_LOG_BATCH + 5; i++)
		station_log_add(&log, 1, 1000 - i, STATION_EVENT_READ, &object, i);
	station_log_flush(&log);
	station_log_flush(&log);
	text = printed(log.fd);
	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	assert_int_equal(lines, 3 * STATION_LOG_BATCH + 5);
	assert_memory_equal(text, "1 228 read 1.0.0 772\n", 21);
	free(text);
	(void)close(log.fd);
}

static void test_nothing_is_logged(void **state)
{
	struct station_log log = {.fd = -1};

	(void)state;
	for (unsigned i = 0; i < 2 * STATION_LOG_BATCH; i++)
		station_log_add(&log, 0, i, STATION_EVENT_TURNING, NULL, i);
	assert_int_equal(log.count, 0);
	station_log_flush(&log);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_by_time),
	cmocka_unit_test(test_many),
	cmocka_unit_test(test_nothing_is_logged),
};

UNIT_MAIN(tests)
