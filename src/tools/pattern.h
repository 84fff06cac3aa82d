/*
 * pattern.h - bytes that a process can write and another can check, knowing only the
 * seed.
 *
 * Word i of a pattern is a one-to-one mix of seed + i * step. So two words of one pattern
 * are equal only if they are the same word, and bytes that are shifted, missing, doubled
 * or of another object are found. Plain adds, shifts and xors, which compilers turn into
 * vectors.
 *
 * Units     bytes; 8 to a word, in the machine's order.
 * Thread    any.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Equal texts and equal generations have equal seeds; others, with all likelihood, not.
 */
uint64_t pattern_seed(const char *key, size_t key_size, uint64_t generation);

void pattern_write(void *to, uint64_t size, uint64_t seed);

/* How many of the bytes differ from what pattern_write() writes. */
uint64_t pattern_wrong(const void *bytes, uint64_t size, uint64_t seed);

#endif
