/*
 * Tests of tools/stats.h.
 */
#include "tools/stats.h"

#include "base/attr.h"
#include "unit.h"

#include <string.h>

static const char text[] =
	"{\"node\":{\"up_ns\":12,\"name\":\"a \\\"free\\\": 9\"},\n \"pool\": {\"size\": "
	"18446744073709551615, \"free\" : 5}, \"clients\":[{\"pid\":7},{\"pid\":8}],"
	"\"none\":[],\"empty\":{},\"ok\":true,\"minus\":-3,\"real\":1.5}";

static void test_numbers(void **state)
{
	uint64_t value = 99;

	(void)state;
	assert_true(stats_u64(text, "node.up_ns", &value));
	assert_true(value == 12);
	assert_true(stats_u64(text, "pool.size", &value));
	assert_true(value == UINT64_MAX);
	assert_true(stats_u64(text, "pool.free", &value));
	assert_true(value == 5);
	assert_true(stats_u64(text, "clients.1.pid", &value));
	assert_true(value == 8);
}

static void test_no_numbers(void **state)
{
	static const char *const paths[] = {"free", "pool", "pool.fre", "pool.free.x",
		"ok", "minus", "real", "node.name", "clients.2.pid", "none", "empty", ""};
	uint64_t value = 99;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_false(stats_u64(text, paths[i], &value));
	assert_false(stats_u64("{\"a\":18446744073709551616}", "a", &value));
	assert_true(value == 99);
}

static void test_texts(void **state)
{
	static const char json[] = "{\"a\":{\"b\":\"empty\"},\"c\":true,\"d\":[\"x\"]}";

	(void)state;
	assert_true(stats_is(json, "a.b", "empty"));
	assert_false(stats_is(json, "a.b", "empt"));
	assert_false(stats_is(json, "a.b", "empty "));
	assert_false(stats_is(json, "a", "empty"));
	assert_true(stats_is(json, "c", "true"));
	assert_true(stats_is(json, "d.0", "x"));
}

static int count_values(void *arg, const char *path, const char *value, size_t value_size)
{
	unsigned *count = arg;

	(void)path, (void)value;
	assert_true(value_size > 0);
	(*count)++;
	return 0;
}

static void test_walk(void **state)
{
	unsigned count = 0;

	(void)state;
	assert_true(stats_walk(text, count_values, &count));
	assert_int_equal(count, 9);
}

static void test_not_json(void **state)
{
	static const char *const texts[] = {"", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1",
		"{\"a\":1,}", "[1,", "{\"a\":1}}", "{\"a", "{a:1}"};
	char deep[200];
	unsigned count = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_false(stats_walk(texts[i], count_values, &count));
	memset(deep, '[', sizeof(deep));
	deep[sizeof(deep) - 1] = '\0';
	assert_false(stats_walk(deep, count_values, &count));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_numbers),
	cmocka_unit_test(test_no_numbers),
	cmocka_unit_test(test_texts),
	cmocka_unit_test(test_walk),
	cmocka_unit_test(test_not_json),
};

UNIT_MAIN(tests)
