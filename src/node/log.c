/*
 * log.c - format a line and hand it on whole.
 */
#include "node/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LOG_LINE_MAX 2048

static void log_write_stderr(const char *line, size_t length)
{
	(void)fprintf(stderr, "%.*s", (int)length, line);
}

void log_line(const struct log *log, enum log_level level, const char *event,
	const char *fields, ...)
{
	char line[LOG_LINE_MAX];
	size_t length;
	va_list args;
	int used;

	if (log == NULL || level > log->level)
		return;
	used = snprintf(line, sizeof(line), "<%d>event=%s ", (int)level, event);
	length = (size_t)used;
	va_start(args, fields);
	used = vsnprintf(line + length, sizeof(line) - length - 1, fields, args);
	va_end(args);
	length += MIN((size_t)used, sizeof(line) - length - 2);
	line[length++] = '\n';
	line[length] = '\0';
	if (log->write != NULL)
		log->write(log->ctx, line, length);
	else
		log_write_stderr(line, length);
}

const char *log_quote(char *buffer, size_t size, const char *text)
{
	size_t at = 0;

	for (; *text != '\0' && at + 1 < size; text++)
		buffer[at++] = *text == '"' ? '\'' : (*text < ' ' ? ' ' : *text);
	buffer[at] = '\0';
	return buffer;
}
