/*
 * Tests of base/err.h.
 */
#include "base/err.h"

#include "base/attr.h"
#include "unit.h"

#include <limits.h>
#include <string.h>

static const struct {
	int number;
	const char *name;
	const char *text;
} list[] = {
#define ERR(name, number, text) {ERR_##name, #name, text},
#include "base/err.def"
#undef ERR
};

static void test_names_and_texts(void **state)
{
	(void)state;
	assert_true(ARRAY_LEN(list) > 20);
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		assert_string_equal(err_name(list[i].number), list[i].name);
		assert_string_equal(err_text(list[i].number), list[i].text);
		assert_true(strlen(list[i].text) > 0);
		assert_int_not_equal(list[i].text[strlen(list[i].text) - 1], '.');
	}
}

static void test_only_ok_is_not_negative(void **state)
{
	(void)state;
	assert_int_equal(ERR_OK, 0);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		assert_true(list[i].number < 0 || strcmp(list[i].name, "OK") == 0);
}

/* Programs and wire depend on these; a failure here means that one was changed. */
static void test_numbers_stay(void **state)
{
	static const int numbers[] = {0, -1, -10, -103, -200, -300, -400, -600, -601,
		-703, -704, -705, -707, -714, -715, -716, -717, -718, -719, -800, -801,
		-900, -901, -1010, -1012, -1013, -1014, -1103};

	(void)state;
	assert_int_equal(ARRAY_LEN(list), ARRAY_LEN(numbers));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		assert_int_equal(list[i].number, numbers[i]);
	assert_int_equal(ERR_NOT_FOUND, -704);
	assert_int_equal(ERR_NO_SPACE, -200);
	assert_int_equal(ERR_RPC_FAIL, -900);
	assert_int_equal(ERR_TIMEOUT, -901);
}

static void test_unknown(void **state)
{
	static const int numbers[] = {1, -2, -12345, INT_MIN, INT_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		assert_string_equal(err_name(numbers[i]), "UNKNOWN");
		assert_string_equal(err_text(numbers[i]), "unknown error");
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_names_and_texts),
	cmocka_unit_test(test_only_ok_is_not_negative),
	cmocka_unit_test(test_numbers_stay),
	cmocka_unit_test(test_unknown),
};

UNIT_MAIN(tests)
