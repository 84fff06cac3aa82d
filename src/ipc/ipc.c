#include "ipc/ipc_priv.h"

#include "base/err.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int ipc_fail(int err, char *detail, size_t detail_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (detail_size > 0)
		(void)vsnprintf(detail, detail_size, format, args);
	va_end(args);
	return err;
}

int ipc_read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got = 1;

	if (fd < 0)
		return ERR_IO;
	while (got > 0 && length < size - 1) {
		got = read(fd, text + length, size - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	}
	(void)close(fd);
	if (got < 0)
		return ERR_IO;
	text[length] = '\0';
	return (int)length;
}

void ipc_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}
