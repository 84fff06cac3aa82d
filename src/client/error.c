/*
 * error.c - what exactly was wrong, for the thread that called.
 */
#include "client/client_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char error_detail[1200];

const char *cenote_error_name(int error)
{
	return err_name(error);
}

const char *cenote_error_text(int error)
{
	return err_text(error);
}

const char *cenote_error_detail(void)
{
	return error_detail;
}

int client_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error_detail, sizeof(error_detail), format, args);
	va_end(args);
	return err;
}

int client_fail_plain(int err)
{
	return client_fail(err, "%s", err_text(err));
}

int client_fail_socket(const struct cenote *store, int err)
{
	switch (err) {
	case ERR_TIMEOUT:
		return client_fail(err, "the daemon at %s did not answer in time",
			store->socket_path);
	case ERR_PROTOCOL:
		return client_fail(err, "the daemon at %s sent a broken message",
			store->socket_path);
	default:
		return client_fail(err, "the connection to %s: %s", store->socket_path,
			strerror(errno));
	}
}

int client_check_key(struct cenote_key key)
{
	if (key.data == NULL || key.size == 0)
		return client_fail(ERR_BAD_KEY, "key of 0 bytes: it takes 1 to %d",
			CENOTE_KEY_LIMIT);
	if (key.size > CENOTE_KEY_LIMIT)
		return client_fail(ERR_BAD_KEY, "key of %zu bytes: the limit is %d",
			key.size, CENOTE_KEY_LIMIT);
	if (msg_key_check(key.data, key.size) != 0)
		return client_fail(
			ERR_BAD_KEY, "key of %zu bytes: it has a NUL byte", key.size);
	return 0;
}

int client_bad_timeout(int64_t timeout_ms)
{
	return client_fail(ERR_BAD_ARGUMENT,
		"timeout of %" PRId64 " ms: it takes 0 and more, or CENOTE_FOREVER",
		timeout_ms);
}

int client_deadline(int64_t timeout_ms, int64_t default_ms, uint64_t *ret_deadline)
{
	int err = client_check_timeout(timeout_ms);
	uint64_t span;

	if (err != 0)
		return err;
	if (timeout_ms == 0)
		timeout_ms = default_ms;
	if (timeout_ms == CENOTE_FOREVER ||
		__builtin_mul_overflow((uint64_t)timeout_ms, 1000000u, &span) ||
		__builtin_add_overflow(socket_now(), span, ret_deadline))
		*ret_deadline = UINT64_MAX;
	return 0;
}

void cenote_free(void *memory)
{
	free(memory);
}
