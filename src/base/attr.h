/*
 * attr.h - names for the compiler extensions this tree uses, so that each is spelled
 * once.
 *
 * Units     CACHE_LINE_SIZE is bytes.
 * Memory    CLEANUP(fn) calls fn(&variable) when the variable's scope ends.
 */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stddef.h>

/* The line of every machine we build for; layouts shared with clients depend on it. */
#define CACHE_LINE_SIZE 64

#define MUST_CHECK                   __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, args) __attribute__((format(printf, format_at, args)))
#define CLEANUP(fn)                  __attribute__((cleanup(fn)))
/* For small steps that only become cheap where their arguments are constants. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Each use gets its own variable names, so that MIN(MIN(a, b), c) shadows nothing. */
#define ATTR_GLUE_NAMES(a, b) a##b
#define ATTR_GLUE(a, b)       ATTR_GLUE_NAMES(a, b)

/* NOLINTBEGIN(bugprone-macro-parentheses): a name being declared takes none. */
#define ATTR_PICK(a, b, op, name_a, name_b)                \
	({                                                 \
		__auto_type name_a = (a);                  \
		__auto_type name_b = (b);                  \
		(name_a) op(name_b) ? (name_a) : (name_b); \
	})
/* NOLINTEND(bugprone-macro-parentheses) */

/* The smaller and the larger of two; each argument is evaluated once. */
#define MIN(a, b) \
	ATTR_PICK(a, b, <, ATTR_GLUE(min_a_, __COUNTER__), ATTR_GLUE(min_b_, __COUNTER__))
#define MAX(a, b) \
	ATTR_PICK(a, b, >, ATTR_GLUE(max_a_, __COUNTER__), ATTR_GLUE(max_b_, __COUNTER__))

#endif
