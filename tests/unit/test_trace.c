/*
 * Tests of tools/trace.h.
 */
#include "tools/trace.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

static bool read_text(struct trace *trace, const char *text, char *message)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	bool good;

	assert_non_null(file);
	message[0] = '\0';
	good = trace_read(trace, file, message);
	assert_int_equal(fclose(file), 0);
	return good;
}

static void test_requests(void **state)
{
	static const char text[] =
		"{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, "
		"\"hash_ids\": [46, 47, 48]}\n"
		"{\"hash_ids\":[46,18446744073709551615],\"note\":\"a \\\"b\\\" } ]\"}\n"
		"\n"
		" { \"hash_ids\" : [ ] , \"ok\" : true , \"x\" : -1.5e3 } \n"
		"{\"hash_ids\": [47]}";
	char message[TRACE_MESSAGE_MAX];
	struct trace trace;

	(void)state;
	assert_true(read_text(&trace, text, message));
	assert_int_equal(trace.request_count, 4);
	assert_int_equal(trace.id_count, 6);
	assert_int_equal(trace.requests[0].count, 3);
	assert_int_equal(trace.requests[1].first, 3);
	assert_int_equal(trace.requests[1].count, 2);
	assert_int_equal(trace.requests[2].count, 0);
	assert_int_equal(trace.requests[3].first, 5);
	assert_true(trace.ids[2] == 48);
	assert_true(trace.ids[4] == UINT64_MAX);
	assert_true(trace_distinct(&trace) == 4);
	trace_fini(&trace);
}

static void test_grows(void **state)
{
	char *text = malloc(1 << 20), message[TRACE_MESSAGE_MAX];
	size_t length = 0;
	struct trace trace;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < 5000; i++)
		length += (size_t)snprintf(text + length, (1 << 20) - length,
			"{\"hash_ids\": [%u, %u, %u]}\n", i, i + 1, i / 2);
	assert_true(read_text(&trace, text, message));
	assert_int_equal(trace.request_count, 5000);
	assert_int_equal(trace.id_count, 15000);
	assert_true(trace.ids[14999] == 2499);
	assert_true(trace_distinct(&trace) == 5001);
	trace_fini(&trace);
	free(text);
}

static void test_refuses(void **state)
{
	static const char *const texts[] = {
		"{\"hash_ids\": [1, 2]\n",
		"{\"hash_ids\": [1, 2}\n",
		"{\"hash_ids\": [1 2]}\n",
		"{\"hash_ids\": [1,]}\n",
		"{\"hash_ids\": [-1]}\n",
		"{\"hash_ids\": [1.5]}\n",
		"{\"hash_ids\": [18446744073709551616]}\n",
		"{\"hash_ids\": 1}\n",
		"{\"hash_ids\": [1]} x\n",
		"{\"hash_ids\": [1], \"hash_ids\": [2]}\n",
		"{\"other\": [1]}\n",
		"{\"other\": 1}\n",
		"{\"hash_ids: [1]}\n",
		"{\"hash_ids\": [1],}\n",
		"{hash_ids: [1]}\n",
		"[1]\n",
		"{}\n",
		"x\n",
	};
	char text[256], message[TRACE_MESSAGE_MAX];
	struct trace trace;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		(void)snprintf(text, sizeof(text), "{\"hash_ids\": [5]}\n%s", texts[i]);
		assert_false(read_text(&trace, text, message));
		assert_string_equal(message,
			"line 2: not an object with \"hash_ids\": [whole numbers]");
		trace_fini(&trace);
	}
}

static void test_nothing_in_it(void **state)
{
	char message[TRACE_MESSAGE_MAX];
	struct trace trace;

	(void)state;
	assert_false(read_text(&trace, "\n", message));
	assert_string_equal(message, "has no block ids");
	trace_fini(&trace);
	assert_false(read_text(&trace, "{\"hash_ids\": []}\n", message));
	trace_fini(&trace);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_requests),
	cmocka_unit_test(test_grows),
	cmocka_unit_test(test_refuses),
	cmocka_unit_test(test_nothing_in_it),
};

UNIT_MAIN(tests)
