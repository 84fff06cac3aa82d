/*
 * option.c - options from the command line into a struct, by their table.
 *
 * getopt_long() splits argv; what a value means, and what is said about a wrong one, is
 * decided here, so that every program of the tree says it alike.
 */
#include "base/option.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_COUNT_MAX 64

/* What getopt_long() returns for the option at index 0; the others follow. Above every
 * letter, so that the two cannot be mistaken. */
#define OPTION_LONG_FIRST 0x100

static void *option_field(const struct option_spec *spec, void *options)
{
	return (char *)options + spec->offset;
}

static bool parse_number(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' ||
			__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return false;
	}
	*ret = value;
	return true;
}

static bool parse_integer(const char *text, int64_t *ret)
{
	bool negative = *text == '-';
	uint64_t value;

	if (!parse_number(text + negative, &value) || value > INT64_MAX)
		return false;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return true;
}

/* "70%" or "0.5%". */
static bool parse_permille(const char *text, uint64_t *ret)
{
	char digits[24];
	size_t length = strlen(text);
	uint64_t whole, tenth = 0;
	char *point;

	if (length < 2 || length > sizeof(digits) || text[length - 1] != '%')
		return false;
	memcpy(digits, text, length - 1);
	digits[length - 1] = '\0';
	point = strchr(digits, '.');
	if (point != NULL) {
		if (strlen(point) != 2 || !parse_number(point + 1, &tenth))
			return false;
		*point = '\0';
	}
	if (!parse_number(digits, &whole) || __builtin_mul_overflow(whole, 10, &whole))
		return false;
	return !__builtin_add_overflow(whole, tenth, ret);
}

static bool parse_choice(const char *choices, const char *text, uint64_t *ret)
{
	size_t length = strlen(text);

	for (uint64_t i = 0;; i++) {
		size_t word = strcspn(choices, "|");

		if (word == length && strncmp(choices, text, word) == 0) {
			*ret = i;
			return true;
		}
		if (choices[word] == '\0')
			return false;
		choices += word + 1;
	}
}

static bool parse_time(const char *text, uint64_t *ret)
{
	if (strcmp(text, "forever") == 0) {
		*ret = OPTION_FOREVER;
		return true;
	}
	return parse_duration(text, ret) == 0;
}

static bool option_in_range(const struct option_spec *spec, uint64_t value)
{
	return value >= spec->min && (spec->max == 0 || value <= spec->max);
}

static bool option_in_signed_range(const struct option_spec *spec, int64_t value)
{
	return spec->max == 0 ||
	       (value >= (int64_t)spec->min && value <= (int64_t)spec->max);
}

static bool option_read_u64(
	const struct option_spec *spec, const char *text, uint64_t *ret)
{
	switch (spec->type) {
	case OPTION_SIZE:
		return parse_size(text, ret) == 0 && option_in_range(spec, *ret);
	case OPTION_NUMBER:
		return parse_number(text, ret) && option_in_range(spec, *ret);
	case OPTION_DURATION:
		return parse_time(text, ret) && option_in_range(spec, *ret);
	case OPTION_PERMILLE:
		return parse_permille(text, ret) && option_in_range(spec, *ret);
	case OPTION_CHOICE:
		return parse_choice(spec->choices, text, ret);
	case OPTION_FLAG:
	case OPTION_INTEGER:
	case OPTION_TEXT:
		break;
	}
	NOT_REACHED("not a field of uint64_t");
}

static const char *option_format(
	enum option_type type, uint64_t value, char *text, size_t text_size);

/* "from 1M to 16T" where both ends are given, and so on. */
static void option_want_range(const struct option_spec *spec, const char *what,
	const char *example, char *want, size_t want_size)
{
	char min[TEXT_MAX], max[TEXT_MAX];

	option_format(spec->type, spec->min, min, sizeof(min));
	option_format(spec->type, spec->max, max, sizeof(max));
	if (spec->max != 0)
		(void)snprintf(want, want_size, "%s from %s to %s", what, min, max);
	else if (spec->min != 0)
		(void)snprintf(want, want_size, "%s of at least %s", what, min);
	else
		(void)snprintf(want, want_size, "%s such as %s", what, example);
}

/* What may be given, for "... is needed". */
static void option_want(const struct option_spec *spec, char *want, size_t want_size)
{
	switch (spec->type) {
	case OPTION_FLAG:
		(void)snprintf(want, want_size, "no value");
		return;
	case OPTION_SIZE:
		option_want_range(spec, "a size", "640M or 2G", want, want_size);
		return;
	case OPTION_NUMBER:
		option_want_range(spec, "a whole number", "200", want, want_size);
		return;
	case OPTION_INTEGER:
		option_want_range(spec, "a whole number", "3 or -1", want, want_size);
		return;
	case OPTION_DURATION:
		option_want_range(
			spec, "a duration", "250ms, 10s or forever", want, want_size);
		return;
	case OPTION_PERMILLE:
		option_want_range(spec, "a share", "70% or 0.5%", want, want_size);
		return;
	case OPTION_TEXT:
		(void)snprintf(want, want_size, "a text");
		return;
	case OPTION_CHOICE:
		(void)snprintf(want, want_size, "one of %s", spec->choices);
		return;
	}
}

static int option_refuse(const struct option_spec *spec, const char *text, char *message)
{
	char want[160];

	option_want(spec, want, sizeof(want));
	if (text == NULL)
		(void)snprintf(message, OPTION_MESSAGE_MAX, "--%s needs a value: %s",
			spec->name, want);
	else
		(void)snprintf(message, OPTION_MESSAGE_MAX, "--%s=%.80s: %s is needed",
			spec->name, text, want);
	return ERR_BAD_ARGUMENT;
}

int option_set(
	const struct option_spec *spec, const char *text, void *options, char *message)
{
	void *field = option_field(spec, options);
	uint64_t value;
	int64_t integer;

	switch (spec->type) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)field = text;
		return 0;
	case OPTION_INTEGER:
		if (!parse_integer(text, &integer) ||
			!option_in_signed_range(spec, integer))
			return option_refuse(spec, text, message);
		*(int64_t *)field = integer;
		return 0;
	case OPTION_SIZE:
	case OPTION_NUMBER:
	case OPTION_DURATION:
	case OPTION_PERMILLE:
	case OPTION_CHOICE:
		if (!option_read_u64(spec, text, &value))
			return option_refuse(spec, text, message);
		*(uint64_t *)field = value;
		return 0;
	}
	NOT_REACHED("an option without a type");
}

static void option_clear(const struct option_spec *spec, void *options)
{
	void *field = option_field(spec, options);

	switch (spec->type) {
	case OPTION_FLAG:
		*(bool *)field = false;
		return;
	case OPTION_TEXT:
		*(const char **)field = NULL;
		return;
	case OPTION_INTEGER:
		*(int64_t *)field = 0;
		return;
	case OPTION_SIZE:
	case OPTION_NUMBER:
	case OPTION_DURATION:
	case OPTION_PERMILLE:
	case OPTION_CHOICE:
		*(uint64_t *)field = 0;
		return;
	}
}

void option_defaults(struct option_table table, void *options)
{
	char message[OPTION_MESSAGE_MAX];

	for (size_t i = 0; i < table.count; i++) {
		const struct option_spec *spec = &table.specs[i];

		option_clear(spec, options);
		if (spec->default_text != NULL)
			CHECK(option_set(spec, spec->default_text, options, message) ==
				0);
	}
}

/* ---- the command line ---------------------------------------------------- */

struct option_line {
	struct option longs[OPTION_COUNT_MAX + 1];
	char shorts[2 * OPTION_COUNT_MAX + 3];
};

static void option_line_init(struct option_line *line, struct option_table table)
{
	char *at = line->shorts;

	CHECK(table.count <= OPTION_COUNT_MAX);
	memset(line, 0, sizeof(*line));
	/* Stop at an operand; and tell a missing value from an unknown option. */
	*at++ = '+';
	*at++ = ':';
	for (size_t i = 0; i < table.count; i++) {
		const struct option_spec *spec = &table.specs[i];
		bool valued = spec->type != OPTION_FLAG;

		line->longs[i].name = spec->name;
		line->longs[i].has_arg = valued ? required_argument : no_argument;
		line->longs[i].val = OPTION_LONG_FIRST + (int)i;
		if (spec->letter == 0)
			continue;
		*at++ = spec->letter;
		if (valued)
			*at++ = ':';
	}
}

static const struct option_spec *option_by_code(struct option_table table, int code)
{
	if (code >= OPTION_LONG_FIRST) {
		size_t index = (size_t)(code - OPTION_LONG_FIRST);

		return index < table.count ? &table.specs[index] : NULL;
	}
	for (size_t i = 0; i < table.count; i++) {
		if (code != 0 && table.specs[i].letter == code)
			return &table.specs[i];
	}
	return NULL;
}

/* getopt_long() was not content with argv[optind - 1]. */
static int option_complain(
	struct option_table table, int code, char **argv, char *message)
{
	const struct option_spec *spec = option_by_code(table, optopt);

	if (spec != NULL && code == ':')
		return option_refuse(spec, NULL, message);
	if (spec != NULL)
		(void)snprintf(
			message, OPTION_MESSAGE_MAX, "--%s takes no value", spec->name);
	else if (optopt != 0)
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"-%c: no such option; --help lists them", optopt);
	else
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"%.80s: no such option, or more than one begins so; --help lists "
			"them",
			argv[optind - 1]);
	return ERR_BAD_ARGUMENT;
}

static bool is_negative_number(const char *text)
{
	return text[0] == '-' && text[1] != '\0' &&
	       strspn(text + 1, "0123456789") == strlen(text + 1);
}

int option_parse(struct option_table table, int argc, char **argv, void *options,
	int *ret_count, char *message)
{
	struct option_line line;
	int count = 0, result = 0;
	bool ended = false;

	option_line_init(&line, table);
	option_defaults(table, options);
	opterr = 0;
	optind = 0; /* glibc: forget what an earlier parse left; on no argument, to get to
		       1 */
	(void)getopt_long(MIN(argc, 1), argv, line.shorts, line.longs, NULL);
	while (result == 0 && optind < argc) {
		const struct option_spec *spec;
		bool is_operand = ended || is_negative_number(argv[optind]);
		int code = is_operand ? -1
				      : getopt_long(argc, argv, line.shorts, line.longs,
						NULL);

		if (code == -1) {
			ended = ended ||
				(!is_operand && strcmp(argv[optind - 1], "--") == 0);
			/* Behind what was read already, so nothing is lost. */
			if (optind < argc)
				argv[1 + count++] = argv[optind++];
			continue;
		}
		spec = code == '?' || code == ':' ? NULL : option_by_code(table, code);
		result = spec != NULL ? option_set(spec, optarg, options, message)
				      : option_complain(table, code, argv, message);
	}
	if (result == 0)
		*ret_count = count;
	return result;
}

/* ---- values as text ------------------------------------------------------ */

struct option_unit {
	const char *name;
	uint64_t value;
};

/* The largest unit of which the value is a whole number of; falling, and ends with 1. */
static const char *option_format_unit(
	const struct option_unit *units, uint64_t value, char *text, size_t text_size)
{
	while (units->value > 1 && (value == 0 || value % units->value != 0))
		units++;
	(void)snprintf(
		text, text_size, "%" PRIu64 "%s", value / units->value, units->name);
	return text;
}

static const char *option_format_duration(uint64_t ns, char *text, size_t text_size)
{
	/* No minutes: "60s" is what a table of settings has, and not "1m". */
	static const struct option_unit units[] = {{"s", 1000ull * 1000 * 1000},
		{"ms", 1000 * 1000}, {"us", 1000}, {"ns", 1}};

	if (ns == OPTION_FOREVER)
		(void)snprintf(text, text_size, "forever");
	else if (ns == 0)
		(void)snprintf(text, text_size, "0s");
	else
		option_format_unit(units, ns, text, text_size);
	return text;
}

static const char *option_format(
	enum option_type type, uint64_t value, char *text, size_t text_size)
{
	static const struct option_unit sizes[] = {{"T", 1ull << 40}, {"G", 1ull << 30},
		{"M", 1ull << 20}, {"K", 1ull << 10}, {"", 1}};

	switch (type) {
	case OPTION_SIZE:
		return option_format_unit(sizes, value, text, text_size);
	case OPTION_DURATION:
		return option_format_duration(value, text, text_size);
	case OPTION_PERMILLE:
		if (value % 10 == 0)
			(void)snprintf(text, text_size, "%" PRIu64 "%%", value / 10);
		else
			(void)snprintf(text, text_size, "%" PRIu64 ".%" PRIu64 "%%",
				value / 10, value % 10);
		return text;
	case OPTION_INTEGER:
		(void)snprintf(text, text_size, "%" PRId64, (int64_t)value);
		return text;
	case OPTION_FLAG:
	case OPTION_NUMBER:
	case OPTION_TEXT:
	case OPTION_CHOICE:
		break;
	}
	(void)snprintf(text, text_size, "%" PRIu64, value);
	return text;
}

static const char *option_choice_text(
	const char *choices, uint64_t index, char *text, size_t text_size)
{
	while (index-- > 0)
		choices += strcspn(choices, "|") + 1;
	(void)snprintf(text, text_size, "%.*s", (int)strcspn(choices, "|"), choices);
	return text;
}

const char *option_value_text(
	const struct option_spec *spec, const void *options, char *text, size_t text_size)
{
	const void *field = (const char *)options + spec->offset;

	switch (spec->type) {
	case OPTION_FLAG:
		return *(const bool *)field ? "yes" : "no";
	case OPTION_TEXT:
		return *(const char *const *)field != NULL ? *(const char *const *)field
							   : "";
	case OPTION_CHOICE:
		return option_choice_text(
			spec->choices, *(const uint64_t *)field, text, text_size);
	case OPTION_SIZE:
	case OPTION_NUMBER:
	case OPTION_DURATION:
	case OPTION_PERMILLE:
	case OPTION_INTEGER:
		return option_format(
			spec->type, *(const uint64_t *)field, text, text_size);
	}
	NOT_REACHED("an option without a type");
}
