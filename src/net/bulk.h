/*
 * bulk.h - the bytes of objects, moved between nodes by a thread of its own.
 *
 * It reads what was fetched into the pool, over data connections that it keeps for the next,
 * and sends what tickets were made for. One thread does both, a chunk of each transfer in
 * turn.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME.
 * Memory    bulk_open() allocates its tables; a fetch's place in the pool is the thread's
 *           from bulk_fetch() to done().
 * Errors    bulk_open: ERR_NO_MEMORY, ERR_IO. Of a fetch, by done(): ERR_LEASE_EXPIRED, the
 *           ticket is not good any more, or the object was not kept for so long; ERR_CORRUPT,
 *           the bytes are not those that were sent; ERR_TIMEOUT, its deadline came;
 *           ERR_TRANSFER_FAIL, the rest: no connection, broken, stopped.
 * Thread    all of it the loop thread's, done() and warn() come from inside loop_turn().
 */
#ifndef NET_BULK_H
#define NET_BULK_H

#include "base/attr.h"
#include "io/env.h"
#include "io/stream.h"
#include "share/layout.h"

struct bulk;

struct bulk_config {
	struct loop *loop; /* where done() and warn() come from */
	struct tls *tls;   /* for connections that it makes; NULL: in the clear */
	const struct share *share;
	uint32_t offers;
	void *ctx;
	void (*done)(void *ctx, uint32_t fetch, int err, uint64_t checksum);
	void (*warn)(void *ctx, const char *host, const char *text);
};

int bulk_open(struct bulk **ret, const struct bulk_config *config) MUST_CHECK;
/* Joins the thread. No event comes after it, and nothing goes into the pool. NULL is fine. */
void bulk_close(struct bulk *bulk);

/* Fetch number `number`, which is not under way, from the node at `address`. */
void bulk_fetch(struct bulk *bulk, uint32_t number, const struct peer_fetch *what,
	const struct address *address);
/* Have it end; nothing, if it is not under way. */
void bulk_stop(struct bulk *bulk, uint32_t number);
/* End all of this node's, with the connections to it. */
void bulk_end_peer(struct bulk *bulk, uint32_t peer);

/* ERR_TOO_MANY. */
int bulk_offer(struct bulk *bulk, const struct peer_offer *offer,
	struct peer_ticket *ret_ticket) MUST_CHECK;
void bulk_withdraw(struct bulk *bulk, const struct peer_ticket *ticket);

/* Go on with a data connection whose greeting came and is still to be answered: from inside
 * its data(), see stream_leave(). ERR_TOO_MANY: it stays where it was. */
int bulk_take(
	struct bulk *bulk, struct stream *stream, const struct address *from) MUST_CHECK;

#endif
