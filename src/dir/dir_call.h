/*
 * dir_call.h - what both directories do with a call: hold it against dir.h, clear it.
 *
 * Memory    the call is its owner's.
 * Errors    none.
 * Thread    the loop thread.
 */
#ifndef DIR_DIR_CALL_H
#define DIR_DIR_CALL_H

#include "dir/dir.h"

/* Stops the program if the caller has left out what its command needs. */
void dir_call_check(const struct dir_call *call);
/* Nothing has come of it. */
void dir_call_clear(struct dir_call *call);
void dir_call_fail(struct dir_call *call, int err);

#endif
