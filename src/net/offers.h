/*
 * offers.h - tickets: who bears one may read one object, once.
 *
 * A ticket is 96 random bits and the number of its entry. It is no secret from the node that
 * made it, and is told over a control connection alone.
 *
 * Memory    offers_init() allocates `limit` entries.
 * Errors    ERR_NO_MEMORY; ERR_TOO_MANY; ERR_NOT_FOUND: not made here, used, or withdrawn.
 * Thread    its owner's, who guards it.
 */
#ifndef NET_OFFERS_H
#define NET_OFFERS_H

#include "base/attr.h"
#include "base/list.h"
#include "io/env.h"

struct offer_entry {
	struct list entry; /* in offers.free, or on no list while it is out */
	struct peer_ticket ticket;
	struct peer_offer offer;
};

struct offers {
	struct offer_entry *entries;
	uint32_t limit;
	struct list free; /* the one that was free longest first */
};

int offers_init(struct offers *offers, uint32_t limit) MUST_CHECK;
void offers_fini(struct offers *offers);

int offers_make(struct offers *offers, const struct peer_offer *offer,
	struct peer_ticket *ret_ticket) MUST_CHECK;
/* It was used or is not wanted any more: take what it was for. */
int offers_take(struct offers *offers, const struct peer_ticket *ticket,
	struct peer_offer *ret_offer) MUST_CHECK;

#endif
