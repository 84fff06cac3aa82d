/*
 * buffer.c - one block; its bytes move to the front only where that makes enough room for
 * what they cost.
 */
#include "io/buffer_priv.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_MIN 4096u

/* Room for `more` bytes behind the end. */
static int buffer_reserve(struct buffer *buffer, size_t more)
{
	size_t size = buffer_size(buffer);
	size_t capacity = MAX((size_t)BUFFER_MIN, (size_t)round_up_pow2(size + more));
	unsigned char *bytes;

	if (more <= buffer->capacity - buffer->end)
		return 0;
	if (size + more <= buffer->capacity && buffer->start >= size) {
		memcpy(buffer->bytes, buffer->bytes + buffer->start, size);
	} else {
		bytes = malloc(capacity);
		if (bytes == NULL)
			return ERR_NO_MEMORY;
		if (size > 0)
			memcpy(bytes, buffer->bytes + buffer->start, size);
		free(buffer->bytes);
		buffer->bytes = bytes;
		buffer->capacity = capacity;
	}
	buffer->start = 0;
	buffer->end = size;
	return 0;
}

int buffer_add(struct buffer *buffer, const void *bytes, size_t size)
{
	int err = buffer_reserve(buffer, size);

	if (err != 0 || size == 0)
		return err;
	memcpy(buffer->bytes + buffer->end, bytes, size);
	buffer->end += size;
	return 0;
}

void buffer_take(struct buffer *buffer, size_t size)
{
	CHECK(size <= buffer_size(buffer));
	buffer->start += size;
	if (buffer->start == buffer->end)
		buffer_fini(buffer);
}

void buffer_fini(struct buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct buffer){.bytes = NULL};
}
