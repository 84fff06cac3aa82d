/*
 * dir_entry.h - who holds an entry.
 *
 * Memory    the entry is its owner's.
 * Errors    none, but dir_entry_set() where the entry is full.
 * Thread    any, one at a time.
 */
#ifndef DIR_DIR_ENTRY_H
#define DIR_DIR_ENTRY_H

#include "dir/dir.h"

/* NULL: it is not one. */
struct dir_holder *dir_entry_find(struct dir_entry *entry, uint64_t node);
/* Add the node, or change what it is. False: there is no room for one more. */
bool dir_entry_set(struct dir_entry *entry, const struct dir_holder *holder);
/* The others keep their order. */
void dir_entry_drop(struct dir_entry *entry, uint64_t node);
/* Somebody has the bytes. */
bool dir_entry_has_bytes(const struct dir_entry *entry);
/* As dir.h shows it to who joins: without itself, if it is only loading. */
void dir_entry_hide_loader(struct dir_entry *entry, uint64_t node);

#endif
