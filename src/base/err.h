/*
 * err.h - the one list of errors, for functions, wire and people alike.
 *
 * Functions return 0 or one of these negative numbers as an int.
 *
 * Memory    names and texts are constants of the program.
 * Errors    none: a number that is not in the list has the name "UNKNOWN". An armed fault
 *           may return any negative number, so such numbers do turn up.
 * Thread    any.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum err {
#define ERR(name, number, text) ERR_##name = (number),
#include "base/err.def"
#undef ERR
};

/* "NOT_FOUND" for ERR_NOT_FOUND. */
const char *err_name(int err);

/* One line for people, without a full stop. */
const char *err_text(int err);

#endif
