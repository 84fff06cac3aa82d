/*
 * buffer_priv.h - bytes that come in at one end and go out at the other.
 *
 * Memory    grows as it must, and has none while it is empty.
 * Errors    ERR_NO_MEMORY: nothing was added.
 * Thread    its owner's.
 */
#ifndef IO_BUFFER_PRIV_H
#define IO_BUFFER_PRIV_H

#include "base/attr.h"

#include <stddef.h>

struct buffer {
	unsigned char *bytes;
	size_t start, end, capacity;
};

static inline size_t buffer_size(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

int buffer_add(struct buffer *buffer, const void *bytes, size_t size) MUST_CHECK;
/* Take the first `size` bytes off. */
void buffer_take(struct buffer *buffer, size_t size);
void buffer_fini(struct buffer *buffer);

#endif
