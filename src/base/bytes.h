/*
 * bytes.h - arithmetic on sizes, and sizes and durations as people write them.
 *
 * Units     sizes are bytes, K = 1024; durations are ns.
 * Memory    texts are written into the caller's buffer, NUL-ended and cut to fit.
 *           TEXT_MAX bytes hold any of them.
 * Errors    ERR_BAD_ARGUMENT: not a number with a known unit, or above 64 bits; the
 *           caller tells its user which setting it was.
 * Thread    any.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 32

static inline bool is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

/* `align` is a power of two, and `value` at most UINT64_MAX - align + 1: check what comes
 * from outside before. */
static inline uint64_t align_up_u64(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/* The smallest power of two not below `value`, which is at most 2^63; 1 for 0. */
static inline uint64_t round_up_pow2(uint64_t value)
{
	return value <= 1 ? 1 : 1ull << (64 - __builtin_clzll(value - 1));
}

/* For some hundred bytes: the C library's vectors. A compiler that knows the size would
 * write "rep stos", which takes three times as long. */
void bytes_zero(void *to, size_t size);

/* "4096", "64K", "640M", "1G", "2T", "2GiB": digits and at most one unit. No fractions:
 * "1.5G" is refused, "1536M" says it. */
int parse_size(const char *text, uint64_t *ret_size_bytes) MUST_CHECK;

/* "100ns", "5us", "250ms", "10s", "2m", "1h": the unit must be there. */
int parse_duration(const char *text, uint64_t *ret_ns) MUST_CHECK;

/* "512 B", "640 MiB", "1.5 GiB": rounded to a tenth. Returns `text`. */
const char *format_size(char *text, size_t text_size, uint64_t size_bytes);

/* "800 ns", "1.5 ms", "90 s": rounded to a tenth. Returns `text`. */
const char *format_duration(char *text, size_t text_size, uint64_t ns);

#endif
