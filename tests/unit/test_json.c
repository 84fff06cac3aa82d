/*
 * Tests of base/json.h: each text must come out byte for byte.
 */
#include "base/json.h"

#include "base/err.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char buffer[4096];

static void assert_json(struct json *json, const char *want)
{
	assert_int_equal(json_finish(json), strlen(want));
	assert_string_equal(buffer, want);
}

static void test_nesting(void **state)
{
	struct json json;

	(void)state;
	json_init(&json, buffer, sizeof(buffer));
	json_object_begin(&json, NULL);
	json_u64(&json, "a", 1);
	json_array_begin(&json, "list");
	json_u64(&json, NULL, 1);
	json_object_begin(&json, NULL);
	json_object_end(&json);
	json_array_begin(&json, NULL);
	json_array_end(&json);
	json_object_begin(&json, NULL);
	json_str(&json, "k", "v");
	json_bool(&json, "t", true);
	json_object_end(&json);
	json_array_end(&json);
	json_object_begin(&json, "o");
	json_bool(&json, "f", false);
	json_object_end(&json);
	json_i64(&json, "z", -1);
	json_object_end(&json);
	assert_json(&json, "{\"a\":1,\"list\":[1,{},[],{\"k\":\"v\",\"t\":true}],"
			   "\"o\":{\"f\":false},\"z\":-1}");
}

static void test_numbers(void **state)
{
	struct json json;

	(void)state;
	json_init(&json, buffer, sizeof(buffer));
	json_array_begin(&json, NULL);
	json_u64(&json, NULL, UINT64_MAX);
	json_i64(&json, NULL, INT64_MIN);
	json_i64(&json, NULL, INT64_MAX);
	json_f64(&json, NULL, 0.5);
	json_f64(&json, NULL, 0.1);
	json_f64(&json, NULL, -3);
	json_f64(&json, NULL, 1e300);
	json_f64(&json, NULL, (double)NAN);
	json_f64(&json, NULL, (double)-INFINITY);
	json_array_end(&json);
	assert_json(&json, "[18446744073709551615,-9223372036854775808,"
			   "9223372036854775807,0.5,0.1,-3,1e+300,null,null]");
}

static void test_doubles_read_back(void **state)
{
	static const double values[] = {1.0 / 3, 0.1 + 0.2, 2.2250738585072014e-308,
		1.7976931348623157e308, 123456789.123456789, -5e-324};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct json json;

		json_init(&json, buffer, sizeof(buffer));
		json_f64(&json, NULL, values[i]);
		assert_true(json_finish(&json) > 0);
		assert_memory_equal(
			&(double){strtod(buffer, NULL)}, &values[i], sizeof(double));
	}
}

static void assert_str(const void *bytes, size_t size, const char *want)
{
	struct json json;

	json_init(&json, buffer, sizeof(buffer));
	json_str_n(&json, NULL, bytes, size);
	assert_json(&json, want);
}

#define ASSERT_STR(literal, want) assert_str(literal, sizeof(literal) - 1, want)

static void test_escapes(void **state)
{
	(void)state;
	ASSERT_STR("", "\"\"");
	ASSERT_STR("plain /text", "\"plain /text\"");
	ASSERT_STR("a\"b\\c", "\"a\\\"b\\\\c\"");
	ASSERT_STR(
		"\n\t\r\b\x01\x1f\x7f", "\"\\n\\t\\u000d\\u0008\\u0001\\u001f\\u007f\"");
	ASSERT_STR("a\0b", "\"a\\u0000b\"");
}

static void test_utf8_stays(void **state)
{
	(void)state;
	ASSERT_STR("\u00e9\u20ac\U0001f600", "\"\u00e9\u20ac\U0001f600\"");
	/* First and last character of each length, and both sides of the surrogates. */
	ASSERT_STR("\xc2\x80\xdf\xbf", "\"\xc2\x80\xdf\xbf\"");
	ASSERT_STR("\xe0\xa0\x80\xef\xbf\xbf", "\"\xe0\xa0\x80\xef\xbf\xbf\"");
	ASSERT_STR("\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\"");
	ASSERT_STR("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
		"\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"");
}

static void test_no_utf8_is_escaped(void **state)
{
	(void)state;
	ASSERT_STR("\x80", "\"\\u0080\"");
	ASSERT_STR("\xff\xfe", "\"\\u00ff\\u00fe\"");
	ASSERT_STR("\xc3", "\"\\u00c3\"");
	ASSERT_STR("\xc3(", "\"\\u00c3(\"");
	ASSERT_STR("\xe2\x82", "\"\\u00e2\\u0082\"");
	ASSERT_STR("\xf0\x9f\x98", "\"\\u00f0\\u009f\\u0098\"");
	ASSERT_STR("\xe2\x82z", "\"\\u00e2\\u0082z\"");
	ASSERT_STR("\xc0\x80", "\"\\u00c0\\u0080\"");
	ASSERT_STR("\xe0\x9f\xbf", "\"\\u00e0\\u009f\\u00bf\"");
	ASSERT_STR("\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"");
	ASSERT_STR("\xf0\x8f\xbf\xbf", "\"\\u00f0\\u008f\\u00bf\\u00bf\"");
	ASSERT_STR("\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"");
	ASSERT_STR("\xf8\x88\x80\x80", "\"\\u00f8\\u0088\\u0080\\u0080\"");
}

static void test_every_byte(void **state)
{
	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		char bytes[3] = {'<', (char)byte, '>'};
		struct json json;

		json_init(&json, buffer, sizeof(buffer));
		json_str_n(&json, NULL, bytes, sizeof(bytes));
		assert_true(json_finish(&json) >= 5);
		for (const char *at = buffer; *at != '\0'; at++)
			assert_in_range(*at, 0x20, 0x7e);
	}
}

static void test_names_are_escaped(void **state)
{
	struct json json;

	(void)state;
	json_init(&json, buffer, sizeof(buffer));
	json_object_begin(&json, NULL);
	json_u64(&json, "a\"b", 1);
	json_u64(&json, "", 2);
	json_object_end(&json);
	assert_json(&json, "{\"a\\\"b\":1,\"\":2}");
}

static void write_sample(struct json *json, char *text, size_t size)
{
	json_init(json, text, size);
	json_object_begin(json, NULL);
	json_str(json, "key", "caf\xc3\xa9 \x01");
	json_u64(json, "n", 12345);
	json_object_end(json);
}

/* At every size that is too small: the error, nothing beyond the end, and the length that
 * would have done. Exact blocks from the heap, so that a sanitizer sees one byte too far.
 */
static void test_too_small(void **state)
{
	size_t length = strlen("{\"key\":\"caf\xc3\xa9 \\u0001\",\"n\":12345}");
	struct json json;

	(void)state;
	for (size_t size = 1; size <= length + 1; size++) {
		char *text = malloc(size);
		int64_t result;

		assert_non_null(text);
		write_sample(&json, text, size);
		result = json_finish(&json);
		assert_int_equal(json.length, length);
		if (size == length + 1) {
			assert_int_equal(result, length);
			assert_int_equal(text[length], 0);
		} else {
			assert_int_equal(result, ERR_BUFFER_TOO_SMALL);
			assert_int_equal(text[0], 0);
		}
		free(text);
	}
	write_sample(&json, NULL, 0);
	assert_int_equal(json_finish(&json), ERR_BUFFER_TOO_SMALL);
}

static void name_in_array(void *arg)
{
	json_array_begin(arg, NULL);
	json_u64(arg, "name", 1);
}

static void no_name_in_object(void *arg)
{
	json_object_begin(arg, NULL);
	json_u64(arg, NULL, 1);
}

static void wrong_end(void *arg)
{
	json_object_begin(arg, NULL);
	json_array_end(arg);
}

static void left_open(void *arg)
{
	json_object_begin(arg, NULL);
	(void)!json_finish(arg);
}

static void two_at_the_top(void *arg)
{
	json_u64(arg, NULL, 1);
	json_u64(arg, NULL, 2);
}

static void too_deep(void *arg)
{
	for (int i = 0; i <= JSON_DEPTH_MAX; i++)
		json_array_begin(arg, NULL);
}

static void test_misuse_is_a_bug(void **state)
{
	static void (*const wrongs[])(void *) = {name_in_array, no_name_in_object,
		wrong_end, left_open, two_at_the_top, too_deep};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrongs); i++) {
		struct json json;

		json_init(&json, buffer, sizeof(buffer));
		assert_true(unit_aborts(wrongs[i], &json));
	}
}

static void test_deepest(void **state)
{
	struct json json;

	(void)state;
	json_init(&json, buffer, sizeof(buffer));
	for (int i = 0; i < JSON_DEPTH_MAX / 2; i++) {
		json_array_begin(&json, NULL);
		json_object_begin(&json, NULL);
		json_u64(&json, "n", 1);
		if (i + 1 < JSON_DEPTH_MAX / 2)
			json_array_begin(&json, "a");
		if (i + 1 < JSON_DEPTH_MAX / 2)
			json_array_end(&json);
		json_object_end(&json);
	}
	for (int i = 0; i < JSON_DEPTH_MAX / 2; i++)
		json_array_end(&json);
	assert_true(json_finish(&json) > 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_nesting),
	cmocka_unit_test(test_numbers),
	cmocka_unit_test(test_doubles_read_back),
	cmocka_unit_test(test_escapes),
	cmocka_unit_test(test_utf8_stays),
	cmocka_unit_test(test_no_utf8_is_escaped),
	cmocka_unit_test(test_every_byte),
	cmocka_unit_test(test_names_are_escaped),
	cmocka_unit_test(test_too_small),
	cmocka_unit_test(test_misuse_is_a_bug),
	cmocka_unit_test(test_deepest),
};

UNIT_MAIN(tests)
