/*
 * listing.c - gather what cenote_list() tells, and sort it.
 */
#include "tools/listing.h"

#include <stdlib.h>
#include <string.h>

static int listing_add(void *arg, const struct cenote_list_entry *entry)
{
	struct listing *listing = arg;
	struct listing_entry *added;

	if (listing->count == listing->room) {
		size_t room = MAX(listing->room * 2, 256u);
		void *more = reallocarray(
			listing->entries, room, sizeof(*listing->entries));

		if (more == NULL)
			return CENOTE_ERR_NO_MEMORY;
		listing->entries = more;
		listing->room = room;
	}
	added = &listing->entries[listing->count];
	added->key = malloc(entry->key_size + 1);
	if (added->key == NULL)
		return CENOTE_ERR_NO_MEMORY;
	memcpy(added->key, entry->key, entry->key_size);
	added->key[entry->key_size] = '\0';
	added->key_size = entry->key_size;
	added->size = entry->size;
	added->softpin = entry->softpin;
	listing->count++;
	return 0;
}

static int listing_order(const void *a, const void *b)
{
	const struct listing_entry *left = a, *right = b;

	return strcmp(left->key, right->key);
}

static int listing_ask(struct listing *listing, struct cenote *store, const char *prefix,
	const char *regex)
{
	if (regex == NULL)
		return cenote_list(store, cenote_key(prefix), listing_add, listing);
	return cenote_list_regex(store, cenote_key(prefix), regex, listing_add, listing);
}

int listing_read(struct listing *listing, struct cenote *store, const char *prefix,
	const char *regex)
{
	int result;

	*listing = (struct listing){0};
	result = listing_ask(listing, store, prefix, regex);
	if (result != 0)
		return tool_failed("ls", prefix[0] != '\0' ? prefix : NULL, result);
	if (listing->count > 0)
		qsort(listing->entries, listing->count, sizeof(*listing->entries),
			listing_order);
	return TOOL_OK;
}

void listing_fini(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->entries[i].key);
	free(listing->entries);
	*listing = (struct listing){0};
}
