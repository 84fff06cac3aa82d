/*
 * e2e_check.c - checks, and the pattern of the bytes.
 */
#include "e2e_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t e2e_now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void e2e_fail(const char *file, int line, const char *format, ...)
{
	const char *base = strrchr(file, '/');
	char text[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)printf("  %s:%d: %s\n", base != NULL ? base + 1 : file, line, text);
	(void)fflush(stdout);
	/* Not exit(): other threads may still be at work. */
	_exit(E2E_EXIT_FAIL);
}

void e2e_eq(const char *file, int line, const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		e2e_fail(file, line, "%s is %" PRIu64 " (%" PRId64 "), not %" PRIu64,
			what, got, (int64_t)got, want);
}

void e2e_answer(const char *file, int line, const char *call, int got, int want)
{
	if (got == want)
		return;
	if (got >= 0)
		e2e_fail(file, line, "%s answered %d, not %s", call, got,
			want == 0 ? "0" : cenote_error_name(want));
	e2e_fail(file, line, "%s answered %s (%s), not %s", call, cenote_error_name(got),
		cenote_error_detail(), want == 0 ? "0" : cenote_error_name(want));
}

void e2e_detail(const char *file, int line, const char *words)
{
	if (strstr(cenote_error_detail(), words) == NULL)
		e2e_fail(file, line, "the detail \"%s\" has no \"%s\"",
			cenote_error_detail(), words);
}

/* ---- the pattern --------------------------------------------------------- */

/* The word number `index`: differs in place, in object, and from its neighbours. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;

	return word ^ word >> 29;
}

void e2e_fill(void *data, uint64_t size, uint64_t seed)
{
	unsigned char *at = data;
	uint64_t index = 0;

	for (; size - index * 8 >= 8 && size >= 8; index++) {
		uint64_t word = word_at(seed, index);

		memcpy(at + index * 8, &word, 8);
	}
	if (size % 8 != 0) {
		uint64_t word = word_at(seed, index);

		memcpy(at + index * 8, &word, size % 8);
	}
}

uint64_t e2e_wrong_at(const void *data, uint64_t size, uint64_t seed)
{
	const unsigned char *at = data;

	for (uint64_t index = 0; index * 8 < size; index++) {
		uint64_t word = word_at(seed, index);
		uint64_t count = size - index * 8 < 8 ? size - index * 8 : 8;

		if (memcmp(at + index * 8, &word, count) != 0)
			return index * 8;
	}
	return UINT64_MAX;
}

void e2e_bytes(const char *file, int line, const void *data, uint64_t size, uint64_t seed)
{
	uint64_t wrong = e2e_wrong_at(data, size, seed);

	if (wrong != UINT64_MAX)
		e2e_fail(file, line, "wrong bytes at offset %" PRIu64 " of %" PRIu64,
			wrong, size);
}
