/*
 * tool.c - what the subcommands share: errors as lines, attaching, keys as text.
 */
#include "tools/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void tool_complain(const char *format, ...)
{
	va_list args;

	(void)fflush(stdout);
	(void)fputs("cenote: ", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
}

int tool_failed(const char *verb, const char *key, int error)
{
	const char *detail = cenote_error_detail();
	char text[TOOL_KEY_TEXT_MAX];

	if (detail == NULL || detail[0] == '\0')
		detail = cenote_error_text(error);
	if (key == NULL)
		tool_complain("%s: %s: %s", verb, cenote_error_name(error), detail);
	else
		tool_complain("%s \"%s\": %s: %s", verb,
			tool_key_text(text, sizeof(text), key, strlen(key)),
			cenote_error_name(error), detail);
	return TOOL_FAILED;
}

int tool_connect(
	const struct tool_common *common, bool read_only, struct cenote **ret_store)
{
	struct cenote_connect_options options = {
		.socket_path = common->socket,
		.read_only = read_only,
		.timeout_ms = tool_timeout_ms(common->timeout_ns),
	};
	int result = cenote_connect(ret_store, &options);

	return result == 0 ? TOOL_OK : tool_failed("connect", NULL, result);
}

int64_t tool_timeout_ms(uint64_t timeout_ns)
{
	uint64_t ms = timeout_ns / (1000 * 1000);

	if (timeout_ns == OPTION_FOREVER || ms > INT64_MAX)
		return CENOTE_FOREVER;
	return ms == 0 ? 1 : (int64_t)ms;
}

uint64_t tool_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

bool tool_find_beside(const char *name, char *path, size_t path_size)
{
	ssize_t length = readlink("/proc/self/exe", path, path_size - 1);
	char *slash;

	if (length <= 0)
		return false;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL || (size_t)(slash + 1 - path) + strlen(name) >= path_size)
		return false;
	(void)strcpy(slash + 1, name);
	return access(path, R_OK) == 0;
}

/* Bytes of the character at `at` that can be shown as they are; 0: it must be escaped. */
static size_t key_plain_length(const unsigned char *at, size_t size)
{
	size_t length = 1;

	if (*at < 0x80)
		return *at >= 0x20 && *at != 0x7f && *at != '"' && *at != '\\' ? 1 : 0;
	/* UTF-8, by its lead byte and the count of bytes that go on. */
	if (*at < 0xc2 || *at > 0xf4)
		return 0;
	length = *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
	if (length > size)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

const char *tool_key_text(char *text, size_t text_size, const char *key, size_t key_size)
{
	size_t length = 0, plain;

	for (size_t i = 0; i < key_size; i += MAX(plain, (size_t)1)) {
		const unsigned char *at = (const unsigned char *)key + i;

		/* Room for "\xNN", the mark of a cut key and the NUL. */
		if (length + 4 + 3 + 1 > text_size) {
			length += (size_t)snprintf(
				text + length, text_size - length, "...");
			break;
		}
		plain = key_plain_length(at, key_size - i);
		if (plain > 0)
			memcpy(text + length, at, plain);
		else
			(void)snprintf(text + length, text_size - length, "\\x%02x", *at);
		length += plain > 0 ? plain : 4;
	}
	text[length] = '\0';
	return text;
}

int tool_print_json(struct json *json)
{
	int64_t length = json_finish(json);

	if (length < 0) {
		tool_complain("the JSON needs %zu bytes, %zu are there", json->length + 1,
			json->size);
		return TOOL_FAILED;
	}
	(void)puts(json->text);
	return tool_flush();
}

int tool_flush(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return TOOL_OK;
	tool_complain("standard output: %s", strerror(errno));
	return TOOL_FAILED;
}
