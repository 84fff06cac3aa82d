/*
 * Tests of base/option.h.
 */
#include "base/option.h"

#include "base/err.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

struct settings {
	uint64_t pool;
	uint64_t ranks;
	uint64_t timeout;
	uint64_t live;
	uint64_t huge;
	int64_t times;
	const char *socket;
	bool json;
};

static const struct option_spec specs[] = {
	{"pool", 'p', OPTION_SIZE, NULL, "1G", "Size of the pool.", NULL, 1 << 20, 0,
		offsetof(struct settings, pool)},
	{"ranks", 0, OPTION_NUMBER, NULL, "8", "Client processes.", NULL, 1, 256,
		offsetof(struct settings, ranks)},
	{"timeout", 't', OPTION_DURATION, NULL, "10s", "How long to wait.", NULL, 0, 0,
		offsetof(struct settings, timeout)},
	{"live", 0, OPTION_PERMILLE, NULL, "70%", "Live bytes.", NULL, 0, 0,
		offsetof(struct settings, live)},
	{"huge", 0, OPTION_CHOICE, NULL, "auto", "Huge pages.", "auto|always|never", 0, 0,
		offsetof(struct settings, huge)},
	{"times", 0, OPTION_INTEGER, NULL, NULL, "How often; -1 is for ever.", NULL, -1,
		1000, offsetof(struct settings, times)},
	{"socket", 0, OPTION_TEXT, "PATH", NULL, "The daemon's socket.", NULL, 0, 0,
		offsetof(struct settings, socket)},
	{"json", 'j', OPTION_FLAG, NULL, NULL, "Print JSON.", NULL, 0, 0,
		offsetof(struct settings, json)},
};

static const struct option_table table = {specs, ARRAY_LEN(specs)};

/* Parses the words of `line`; the operands, joined by '|', come back in `operands`. */
static int parse(
	const char *line, struct settings *settings, char *operands, char *message)
{
	static char copy[512];
	char *argv[32] = {copy};
	int argc = 0, count = 0, result;

	(void)snprintf(copy, sizeof(copy), "program %s", line);
	for (char *at = strtok(copy, " "); at != NULL; at = strtok(NULL, " "))
		argv[argc++] = at;
	message[0] = '\0';
	operands[0] = '\0';
	result = option_parse(table, argc, argv, settings, &count, message);
	for (int i = 1; i <= count; i++) {
		strcat(operands, argv[i]);
		strcat(operands, "|");
	}
	return result;
}

static void test_defaults(void **state)
{
	struct settings settings;
	char operands[512], message[OPTION_MESSAGE_MAX];

	(void)state;
	memset(&settings, 0xff, sizeof(settings));
	assert_int_equal(parse("", &settings, operands, message), 0);
	assert_true(settings.pool == 1ull << 30);
	assert_true(settings.ranks == 8);
	assert_true(settings.timeout == 10000000000ull);
	assert_true(settings.live == 700);
	assert_true(settings.huge == 0);
	assert_true(settings.times == 0);
	assert_null(settings.socket);
	assert_false(settings.json);
	assert_string_equal(operands, "");
}

static void test_values(void **state)
{
	struct settings settings;
	char operands[512], message[OPTION_MESSAGE_MAX];

	(void)state;
	assert_int_equal(
		parse("--pool=640M --ranks 3 -t forever --live 0.5% --huge never "
		      "--times -1 --socket /run/x -j",
			&settings, operands, message),
		0);
	assert_true(settings.pool == 640ull << 20);
	assert_true(settings.ranks == 3);
	assert_true(settings.timeout == OPTION_FOREVER);
	assert_true(settings.live == 5);
	assert_true(settings.huge == 2);
	assert_true(settings.times == -1);
	assert_string_equal(settings.socket, "/run/x");
	assert_true(settings.json);
}

static void test_operands(void **state)
{
	static const struct {
		const char *line, *operands;
		bool json;
	} cases[] = {
		{"a b c", "a|b|c|", false},
		{"a --json b", "a|b|", true},
		{"-j a -p 2G b -t 1s c", "a|b|c|", true},
		{"a -- --json -p", "a|--json|-p|", false},
		{"-- -- a", "--|a|", false},
		{"Name return_error -900 --json", "Name|return_error|-900|", true},
		{"-900", "-900|", false},
		{"- a", "-|a|", false},
		{"-jp 3G -5 x", "-5|x|", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings settings;
		char operands[512], message[OPTION_MESSAGE_MAX];

		assert_int_equal(parse(cases[i].line, &settings, operands, message), 0);
		assert_string_equal(operands, cases[i].operands);
		assert_int_equal(settings.json, cases[i].json);
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
		{"--pool=12Q", "--pool=12Q: a size of at least 1M is needed"},
		{"--pool=4K", "--pool=4K: a size of at least 1M is needed"},
		{"-p x", "--pool=x: a size of at least 1M is needed"},
		{"--ranks=0", "--ranks=0: a whole number from 1 to 256 is needed"},
		{"--ranks=257", "--ranks=257: a whole number from 1 to 256 is needed"},
		{"--ranks=-1", "--ranks=-1: a whole number from 1 to 256 is needed"},
		{"--ranks=99999999999999999999", "--ranks=99999999999999999999: a whole "
						 "number from 1 to 256 is needed"},
		{"--timeout=10", "--timeout=10: a duration such as 250ms, 10s or forever "
				 "is needed"},
		{"--live=70", "--live=70: a share such as 70% or 0.5% is needed"},
		{"--live=1.25%", "--live=1.25%: a share such as 70% or 0.5% is needed"},
		{"--live=%", "--live=%: a share such as 70% or 0.5% is needed"},
		{"--huge=alw", "--huge=alw: one of auto|always|never is needed"},
		{"--times=x", "--times=x: a whole number from -1 to 1000 is needed"},
		{"--times=-2", "--times=-2: a whole number from -1 to 1000 is needed"},
		{"--times=1001",
			"--times=1001: a whole number from -1 to 1000 is needed"},
		{"--pool", "--pool needs a value: a size of at least 1M"},
		{"a -p", "--pool needs a value: a size of at least 1M"},
		{"--json=yes", "--json takes no value"},
		{"-x", "-x: no such option; --help lists them"},
		{"-jx", "-x: no such option; --help lists them"},
		{"--polo=1", "--polo=1: no such option, or more than one begins so; "
			     "--help lists them"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings settings;
		char operands[512], message[OPTION_MESSAGE_MAX];

		assert_int_equal(parse(cases[i].line, &settings, operands, message),
			ERR_BAD_ARGUMENT);
		assert_string_equal(message, cases[i].message);
	}
}

/* What is printed reads back as the same value. */
static void test_round_trip(void **state)
{
	static const char *const lines[] = {
		"--pool=1M --timeout=0s --live=0% --huge=auto --times=-1",
		"--pool=1500000 --timeout=90s --live=33.3% --huge=always --ranks=256",
		"--pool=3T --timeout=2h --live=200% --huge=never --times=7",
		"--pool=1536M --timeout=1500us --live=0.1%",
		"--pool=18446744073709551615 --timeout=forever",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct settings a, b = {0};
		char operands[512], message[OPTION_MESSAGE_MAX], text[OPTION_VALUE_MAX];

		assert_int_equal(parse(lines[i], &a, operands, message), 0);
		for (size_t at = 0; at < 6; at++) {
			const char *value = option_value_text(
				&specs[at], &a, text, sizeof(text));

			assert_int_equal(option_set(&specs[at], value, &b, message), 0);
		}
		assert_memory_equal(&a, &b, offsetof(struct settings, socket));
	}
}

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	print(out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void print_help(FILE *out)
{
	option_help(out, table);
}

static void print_values(FILE *out)
{
	struct settings settings;

	option_defaults(table, &settings);
	option_print(out, table, &settings);
}

static void print_page(FILE *out)
{
	static const struct option_section sections[] = {
		{"DESCRIPTION", ".dot first, a\\b, and a-b.\n\nSecond.\n    as it stands",
			{NULL, 0}, false},
		{"OPTIONS", NULL, {specs, ARRAY_LEN(specs)}, false},
		{NULL, NULL, {NULL, 0}, false},
	};
	static const struct option_page page = {
		"program", "1", "0.1.0", "does a thing", "[OPTION]...\n--man", sections};

	option_man(out, &page);
}

static void test_help(void **state)
{
	char *text = printed(print_help);

	(void)state;
	assert_non_null(strstr(
		text, "  -p, --pool SIZE           Size of the pool. (default 1G)\n"));
	assert_non_null(strstr(text, "      --huge auto|always|never\n"));
	for (size_t i = 0; i < table.count; i++)
		assert_non_null(strstr(text, specs[i].name));
	for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
		assert_true(strcspn(at, "\n") <= 80);
	free(text);
}

static void test_print(void **state)
{
	char *text = printed(print_values);

	(void)state;
	assert_string_equal(text, "pool = 1G\nranks = 8\ntimeout = 10s\nlive = 70%\n"
				  "huge = auto\ntimes = 0\nsocket = \njson = no\n");
	free(text);
}

static void test_json(void **state)
{
	struct settings settings;
	struct json json;
	char text[256];

	(void)state;
	option_defaults(table, &settings);
	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	option_json(&json, table, &settings);
	json_object_end(&json);
	assert_true(json_finish(&json) > 0);
	assert_string_equal(text,
		"{\"pool\":1073741824,\"ranks\":8,\"timeout\":10000000000,"
		"\"live\":700,\"huge\":\"auto\",\"times\":0,\"socket\":\"\","
		"\"json\":false}");
}

static void test_man(void **state)
{
	char *text = printed(print_page);

	(void)state;
	assert_non_null(strstr(text, ".TH \"program\" \"1\""));
	assert_non_null(
		strstr(text, "\n\\&.dot first, a\\eb, and a\\-b.\n.PP\nSecond.\n"));
	assert_non_null(strstr(text, ".nf\n    as it stands\n.fi\n"));
	assert_non_null(strstr(text, ".TP\n.BI \"\\-p, \\-\\-pool \" \"SIZE\"\n"
				     "Size of the pool.\nDefault: \\fB1G\\fR.\n"));
	assert_non_null(strstr(text, ".TP\n.B \"\\-j, \\-\\-json\"\nPrint JSON.\n"));
	free(text);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_defaults),
	cmocka_unit_test(test_values),
	cmocka_unit_test(test_operands),
	cmocka_unit_test(test_errors),
	cmocka_unit_test(test_round_trip),
	cmocka_unit_test(test_help),
	cmocka_unit_test(test_print),
	cmocka_unit_test(test_json),
	cmocka_unit_test(test_man),
};

UNIT_MAIN(tests)
