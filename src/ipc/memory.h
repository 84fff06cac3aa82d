/*
 * memory.h - how much memory can be taken on a tmpfs before some limit of the system
 * hits; and large pages for private memory.
 *
 * Units     bytes.
 * Errors    none: a limit that cannot be read does not limit.
 * Thread    any.
 */
#ifndef IPC_MEMORY_H
#define IPC_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* The tightest limit, in words that follow "by". */
struct memory_limit {
	uint64_t available;
	char what[256];
};

/* `dir_fd`: the directory the files will lie in. `root`: "", or for tests the directory
 * whose proc/ and sys/ are read in place of the system's. */
void memory_available(int dir_fd, const char *root, struct memory_limit *ret_limit);

/* Ask for large pages where [start, start + size) has whole ones: for tables that are met
 * at random, where a page table's walk costs more than the look itself. A hint. */
void memory_hint_large(void *start, size_t size);

#endif
