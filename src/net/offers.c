/*
 * offers.c - a table of entries, found by the number that their tickets begin with.
 */
#include "net/offers.h"

#include "base/err.h"
#include "io/loop.h"

#include <stdlib.h>
#include <string.h>

int offers_init(struct offers *offers, uint32_t limit)
{
	list_init(&offers->free);
	offers->limit = limit;
	offers->entries = calloc(limit, sizeof(offers->entries[0]));
	if (offers->entries == NULL)
		return ERR_NO_MEMORY;
	for (uint32_t i = 0; i < limit; i++)
		list_add_tail(&offers->free, &offers->entries[i].entry);
	return 0;
}

void offers_fini(struct offers *offers)
{
	free(offers->entries);
	offers->entries = NULL;
}

int offers_make(struct offers *offers, const struct peer_offer *offer,
	struct peer_ticket *ret_ticket)
{
	struct list *entry = list_first(&offers->free);
	struct offer_entry *made;
	uint32_t number;

	if (entry == NULL)
		return ERR_TOO_MANY;
	list_del(entry);
	made = container_of(entry, struct offer_entry, entry);
	made->offer = *offer;
	number = (uint32_t)(made - offers->entries);
	loop_random(made->ticket.bytes, sizeof(made->ticket.bytes));
	memcpy(made->ticket.bytes, &number, sizeof(number));
	*ret_ticket = made->ticket;
	return 0;
}

/* In the same time wherever they differ: who guesses learns nothing from it. */
static bool tickets_are_equal(const struct peer_ticket *a, const struct peer_ticket *b)
{
	unsigned char differ = 0;

	for (size_t i = 0; i < sizeof(a->bytes); i++)
		differ |= a->bytes[i] ^ b->bytes[i];
	return differ == 0;
}

int offers_take(struct offers *offers, const struct peer_ticket *ticket,
	struct peer_offer *ret_offer)
{
	struct offer_entry *made;
	uint32_t number;

	memcpy(&number, ticket->bytes, sizeof(number));
	if (number >= offers->limit)
		return ERR_NOT_FOUND;
	made = &offers->entries[number];
	if (!list_is_empty(&made->entry) || !tickets_are_equal(&made->ticket, ticket))
		return ERR_NOT_FOUND;
	*ret_offer = made->offer;
	list_add_tail(&offers->free, &made->entry);
	return 0;
}
