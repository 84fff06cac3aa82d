/*
 * bytes.c - sizes and durations, from and to text.
 *
 * Both ways go by a table of units, so that what one module prints another can name.
 */
#include "base/bytes.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t value;
};

static const struct unit size_units[] = {
	{"", 1},
	{"B", 1},
	{"K", 1ull << 10},
	{"M", 1ull << 20},
	{"G", 1ull << 30},
	{"T", 1ull << 40},
	{"KiB", 1ull << 10},
	{"MiB", 1ull << 20},
	{"GiB", 1ull << 30},
	{"TiB", 1ull << 40},
};

static const struct unit duration_units[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000ull * 1000},
	{"s", 1000ull * 1000 * 1000},
	{"m", 60ull * 1000 * 1000 * 1000},
	{"h", 3600ull * 1000 * 1000 * 1000},
};

/* For printing, each a multiple of the one before. */
static const struct unit size_steps[] = {
	{"B", 1},
	{"KiB", 1ull << 10},
	{"MiB", 1ull << 20},
	{"GiB", 1ull << 30},
	{"TiB", 1ull << 40},
	{"PiB", 1ull << 50},
	{"EiB", 1ull << 60},
};

static const struct unit duration_steps[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000ull * 1000},
	{"s", 1000ull * 1000 * 1000},
};

/* The digits at *text, which then points behind them. */
static bool parse_digits(const char **text, uint64_t *ret_value)
{
	const char *at = *text;
	uint64_t value = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return false;
	}
	*text = at;
	*ret_value = value;
	return true;
}

static int parse_units(
	const char *text, const struct unit *units, size_t count, uint64_t *ret_value)
{
	uint64_t value;

	if (!parse_digits(&text, &value))
		return ERR_BAD_ARGUMENT;
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(text, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(value, units[i].value, &value))
			return ERR_BAD_ARGUMENT;
		*ret_value = value;
		return 0;
	}
	return ERR_BAD_ARGUMENT;
}

int parse_size(const char *text, uint64_t *ret_size_bytes)
{
	return parse_units(text, size_units, ARRAY_LEN(size_units), ret_size_bytes);
}

int parse_duration(const char *text, uint64_t *ret_ns)
{
	return parse_units(text, duration_units, ARRAY_LEN(duration_units), ret_ns);
}

static const char *format_steps(char *text, size_t text_size, uint64_t value,
	const struct unit *steps, size_t count)
{
	size_t at = 0;
	uint64_t whole, tenths;

	while (at + 1 < count && value >= steps[at + 1].value)
		at++;
	/* A rest is below 2^60, so ten of it fit. */
	whole = value / steps[at].value;
	tenths = (value % steps[at].value * 10 + steps[at].value / 2) / steps[at].value;
	if (tenths == 10) {
		whole++;
		tenths = 0;
	}
	/* 1023.97 KiB rounds to 1 MiB, not to 1024 KiB. */
	if (at + 1 < count && whole == steps[at + 1].value / steps[at].value) {
		whole = 1;
		at++;
	}

	if (tenths == 0)
		(void)snprintf(text, text_size, "%" PRIu64 " %s", whole, steps[at].name);
	else
		(void)snprintf(text, text_size, "%" PRIu64 ".%" PRIu64 " %s", whole,
			tenths, steps[at].name);
	return text;
}

const char *format_size(char *text, size_t text_size, uint64_t size_bytes)
{
	return format_steps(
		text, text_size, size_bytes, size_steps, ARRAY_LEN(size_steps));
}

const char *format_duration(char *text, size_t text_size, uint64_t ns)
{
	return format_steps(
		text, text_size, ns, duration_steps, ARRAY_LEN(duration_steps));
}

void bytes_zero(void *to, size_t size)
{
	memset(to, 0, size);
}
