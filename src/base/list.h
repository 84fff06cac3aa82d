/*
 * list.h - doubly linked intrusive list.
 *
 * Memory    the caller embeds `struct list`; nothing here allocates.
 * State     an entry outside any list points at itself, so list_del() twice is harmless
 *           and list_is_empty(&x->entry) means "x is on no list".
 * Thread    none of its own: the owner of the head guards the list.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

/* NOLINTBEGIN(bugprone-macro-parentheses): a name being declared takes none. */

/* Walk from first to last; `at` is declared by the loop. The list must stay as it is. */
#define list_for_each(at, head) \
	for (struct list *at = (head)->next; at != (head); at = at->next)

/* The same, but the body may take `at` off the list. It may not touch the next entry. */
#define list_for_each_safe(at, head)                                              \
	for (struct list *at = (head)->next, *at##_next = at->next; at != (head); \
		at = at##_next, at##_next = at->next)

/* NOLINTEND(bugprone-macro-parentheses) */

static inline void list_init(struct list *list)
{
	list->prev = list;
	list->next = list;
}

static inline bool list_is_empty(const struct list *list)
{
	return list->next == list;
}

static inline struct list *list_first(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

static inline struct list *list_last(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->prev;
}

static inline void list_add_head(struct list *head, struct list *entry)
{
	entry->prev = head;
	entry->next = head->next;
	head->next->prev = entry;
	head->next = entry;
}

static inline void list_add_tail(struct list *head, struct list *entry)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void list_del(struct list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	list_init(entry);
}

/* Make `entry` the last of `head`, whatever list it is on, if any. */
static inline void list_move_tail(struct list *head, struct list *entry)
{
	list_del(entry);
	list_add_tail(head, entry);
}

#endif
