/*
 * Tests of base/bytes.h.
 */
#include "base/bytes.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

static void test_powers(void **state)
{
	(void)state;
	assert_false(is_power_of_two(0));
	assert_true(is_power_of_two(1));
	assert_false(is_power_of_two(3));
	assert_true(is_power_of_two(1ull << 63));
	assert_false(is_power_of_two(UINT64_MAX));
	assert_true(round_up_pow2(0) == 1);
	assert_true(round_up_pow2(1) == 1);
	assert_true(round_up_pow2(3) == 4);
	assert_true(round_up_pow2(4) == 4);
	assert_true(round_up_pow2((1ull << 62) + 1) == 1ull << 63);
	assert_true(round_up_pow2(1ull << 63) == 1ull << 63);
}

static void test_align(void **state)
{
	(void)state;
	assert_true(align_up_u64(0, 4096) == 0);
	assert_true(align_up_u64(1, 4096) == 4096);
	assert_true(align_up_u64(4096, 4096) == 4096);
	assert_true(align_up_u64(4097, 4096) == 8192);
	assert_true(align_up_u64(77, 1) == 77);
	assert_true(align_up_u64(UINT64_MAX - 4095, 4096) == UINT64_MAX - 4095);
}

static void test_parse_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
	} good[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"4096B", 4096},
		{"64K", 64 << 10},
		{"64k", 64 << 10},
		{"640M", 640ull << 20},
		{"1G", 1ull << 30},
		{"2GiB", 2ull << 30},
		{"3T", 3ull << 40},
		{"007M", 7ull << 20},
		{"18446744073709551615", UINT64_MAX},
		{"16777215T", 16777215ull << 40},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint64_t size = 12345;

		assert_int_equal(parse_size(good[i].text, &size), 0);
		assert_true(size == good[i].size);
	}
}

static void test_parse_size_refuses(void **state)
{
	static const char *const bad[] = {"", " ", "M", "-1", "+1", " 1", "1 ", "1 M",
		"1.5G", "1,5G", "0x10", "1KB", "1KK", "1MM", "1Z", "1G1", "ten", "1e3",
		"18446744073709551616", "99999999999999999999", "16777216T",
		"18446744073709551615K"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t size = 12345;

		assert_int_equal(parse_size(bad[i], &size), ERR_BAD_ARGUMENT);
		assert_true(size == 12345);
	}
}

static void test_parse_duration(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"0s", 0},
		{"100ns", 100},
		{"5us", 5000},
		{"250ms", 250000000},
		{"10s", 10000000000},
		{"2m", 120000000000},
		{"1h", 3600000000000},
		{"18446744073709551615ns", UINT64_MAX},
	};
	static const char *const bad[] = {"", "10", "0", "s", "-1s", "1.5s", "10 s",
		"10sec", "1d", "18446744073709551616ns", "18446744074s", "5124096h"};
	uint64_t ns = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(parse_duration(bad[i], &ns), ERR_BAD_ARGUMENT);
		assert_true(ns == 7);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(parse_duration(good[i].text, &ns), 0);
		assert_true(ns == good[i].ns);
	}
}

static void assert_size(uint64_t size, const char *want)
{
	char text[TEXT_MAX];

	assert_string_equal(format_size(text, sizeof(text), size), want);
}

static void test_format_size(void **state)
{
	(void)state;
	assert_size(0, "0 B");
	assert_size(1023, "1023 B");
	assert_size(1024, "1 KiB");
	assert_size(1536, "1.5 KiB");
	assert_size(640ull << 20, "640 MiB");
	assert_size(3ull << 29, "1.5 GiB");
	assert_size((1ull << 20) - 1, "1 MiB");
	assert_size((1ull << 20) - 52, "1023.9 KiB");
	assert_size(1024 + 51, "1 KiB");
	assert_size(1024 + 52, "1.1 KiB");
	assert_size(UINT64_MAX, "16 EiB");
	assert_size(UINT64_MAX / 8 * 7, "14 EiB");
}

static void assert_duration(uint64_t ns, const char *want)
{
	char text[TEXT_MAX];

	assert_string_equal(format_duration(text, sizeof(text), ns), want);
}

static void test_format_duration(void **state)
{
	(void)state;
	assert_duration(0, "0 ns");
	assert_duration(999, "999 ns");
	assert_duration(1000, "1 us");
	assert_duration(1550, "1.6 us");
	assert_duration(1500000, "1.5 ms");
	assert_duration(999960, "1 ms");
	assert_duration(90ull * 1000 * 1000 * 1000, "90 s");
	assert_duration(UINT64_MAX, "18446744073.7 s");
}

static void test_format_cuts(void **state)
{
	char text[6];

	(void)state;
	assert_string_equal(format_size(text, sizeof(text), 1536), "1.5 K");
	assert_string_equal(format_duration(text, 1, 1536), "");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_powers),
	cmocka_unit_test(test_align),
	cmocka_unit_test(test_parse_size),
	cmocka_unit_test(test_parse_size_refuses),
	cmocka_unit_test(test_parse_duration),
	cmocka_unit_test(test_format_size),
	cmocka_unit_test(test_format_duration),
	cmocka_unit_test(test_format_cuts),
};

UNIT_MAIN(tests)
