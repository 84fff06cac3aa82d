/*
 * Tests of tools/svg.h.
 */
#include "tools/svg.h"

#include "base/attr.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void test_round_up(void **state)
{
	static const double cases[][2] = {{0, 1}, {1, 1}, {1.1, 1.5}, {2, 2}, {2.7, 3},
		{5, 5}, {5.01, 7.5}, {7.6, 10}, {10, 10}, {11, 15}, {99, 100}, {220, 250},
		{1e6, 1e6}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_true(svg_round_up(cases[i][0]) == cases[i][1]);
	assert_true(svg_round_up(0.033) > 0.0399 && svg_round_up(0.033) < 0.0401);
	assert_true(svg_round_up(0.2) > 0.1999 && svg_round_up(0.2) < 0.2001);
}

static char *text_of(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, 1 << 16);

	assert_non_null(file);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
	assert_int_equal(fclose(file), 0);
	return text;
}

/* The points of the first line, which lie on the page and go the way the values go. */
static void points_check(const char *text)
{
	const char *at = strstr(text, "points=\"");
	double x[3], y[3];

	assert_non_null(at);
	at += strlen("points=\"");
	for (int i = 0; i < 3; i++) {
		char *end;

		x[i] = strtod(at, &end);
		y[i] = strtod(end + 1, &end);
		at = end + 1;
	}
	/* 10, 100, 1000 lie at equal distances; 5, 10, 20 go up the page. */
	assert_true(x[1] - x[0] > 300 && x[2] - x[1] > 300);
	assert_true(
		x[2] - x[1] - (x[1] - x[0]) < 0.2 && x[1] - x[0] - (x[2] - x[1]) < 0.2);
	assert_true(y[0] > y[1] && y[1] > y[2] && y[2] > 0);
	assert_true((y[1] - y[2]) / (y[0] - y[1]) > 1.99 &&
		    (y[1] - y[2]) / (y[0] - y[1]) < 2.01);
}

static void test_chart(void **state)
{
	static const struct svg_chart chart = {.title = "the title",
		.x_name = "objects",
		.y_name = "us",
		.lines = {{.name = "the line",
			.x = {10, 100, 1000},
			.y = {5, 10, 20},
			.count = 3}},
		.count = 1};
	char path[] = "/tmp/test_svg-XXXXXX";
	int fd = mkstemp(path);
	char *text;

	(void)state;
	assert_true(fd >= 0);
	(void)close(fd);
	assert_true(svg_write(path, &chart, 1));
	text = text_of(path);
	assert_true(strncmp(text, "<svg ", 5) == 0);
	assert_non_null(strstr(text, "the title"));
	assert_non_null(strstr(text, "the line"));
	assert_non_null(strstr(text, "</svg>\n"));
	points_check(text);
	free(text);
	assert_int_equal(unlink(path), 0);
}

static void test_no_file(void **state)
{
	static const struct svg_chart chart = {.title = ""};

	(void)state;
	assert_false(svg_write("/nonexistent/chart.svg", &chart, 1));
	assert_int_equal(errno, ENOENT);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_round_up),
	cmocka_unit_test(test_chart),
	cmocka_unit_test(test_no_file),
};

UNIT_MAIN(tests)
