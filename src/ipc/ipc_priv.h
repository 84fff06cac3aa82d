/*
 * ipc_priv.h - what the files of this folder share: texts of failures, files of /proc.
 */
#ifndef IPC_PRIV_H
#define IPC_PRIV_H

#include "base/attr.h"

#include <stddef.h>

/* Write a text into a caller's buffer; returns `err`, so that a failure is one line. */
int ipc_fail(int err, char *detail, size_t detail_size, const char *format, ...)
	PRINTF_LIKE(4, 5);

/* The start of a small file, NUL-ended: its length, or ERR_IO. */
int ipc_read_file(const char *path, char *text, size_t size) MUST_CHECK;

/* close() unless it is -1, and make it -1. */
void ipc_close(int *fd);

#endif
