/*
 * listing.h - objects whose keys look alike, gathered and sorted by key.
 *
 * Memory    listing_fini() frees all; an entry's key is valid until then.
 * Errors    listing_read() says what went wrong on stderr.
 */
#ifndef TOOLS_LISTING_H
#define TOOLS_LISTING_H

#include "tools/tool.h"

struct listing_entry {
	char *key; /* NUL-terminated */
	size_t key_size;
	uint64_t size;
	bool softpin;
};

struct listing {
	struct listing_entry *entries;
	size_t count;
	size_t room;
};

/* Those whose key begins with `prefix` and matches `regex`, NULL: any. TOOL_OK or
 * TOOL_FAILED; `listing` is to be finished in both cases. */
int listing_read(struct listing *listing, struct cenote *store, const char *prefix,
	const char *regex);
void listing_fini(struct listing *listing);

#endif
