/*
 * dir_entry.c - the holders of an entry, in the order in which they came.
 */
#include "dir/dir_entry.h"

#include <string.h>

struct dir_holder *dir_entry_find(struct dir_entry *entry, uint64_t node)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].node == node)
			return &entry->holders[i];
	}
	return NULL;
}

bool dir_entry_set(struct dir_entry *entry, const struct dir_holder *holder)
{
	struct dir_holder *place = dir_entry_find(entry, holder->node);

	if (place == NULL && entry->holder_count == DIR_HOLDERS)
		return false;
	if (place == NULL)
		place = &entry->holders[entry->holder_count++];
	*place = *holder;
	return true;
}

void dir_entry_drop(struct dir_entry *entry, uint64_t node)
{
	struct dir_holder *place = dir_entry_find(entry, node);
	struct dir_holder *end = entry->holders + entry->holder_count;

	if (place == NULL)
		return;
	memmove(place, place + 1, (size_t)(end - place - 1) * sizeof(*place));
	entry->holder_count--;
}

bool dir_entry_has_bytes(const struct dir_entry *entry)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].role != DIR_LOADING)
			return true;
	}
	return false;
}

void dir_entry_hide_loader(struct dir_entry *entry, uint64_t node)
{
	const struct dir_holder *place = dir_entry_find(entry, node);

	if (place != NULL && place->role == DIR_LOADING)
		dir_entry_drop(entry, node);
}
