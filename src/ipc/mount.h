/*
 * mount.h - a tmpfs of our own, with huge pages.
 *
 * Units     bytes.
 * Errors    ERR_NOT_PERMITTED: this process may not mount. ERR_IO: it failed otherwise.
 * Thread    any.
 */
#ifndef IPC_MOUNT_H
#define IPC_MOUNT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mount_info {
	bool is_tmpfs;
	bool is_ours; /* mounted by mount_make() at this very path */
	bool is_huge; /* its files get huge pages where they can */
};

/* What `path`, absolute and without links, lies on. `table`: the text of
 * /proc/self/mountinfo. */
void mount_parse(const char *table, const char *path, struct mount_info *ret_info);
void mount_find(const char *path, struct mount_info *ret_info);

int mount_make(const char *path, uint64_t size, bool huge_pages) MUST_CHECK;
int mount_resize(const char *path, uint64_t size) MUST_CHECK;
/* Out of sight at once, gone with its last user. */
void mount_end(const char *path);

#endif
