/*
 * peers.h - the real connections to other nodes, behind struct env_peer.
 *
 * One address is listened at. The connections between two nodes are of two kinds (frame.h):
 * control, whose frames the loop thread sends and takes; and data, over which a thread of its
 * own moves objects from pool to pool (bulk.h). Who connects says which, once it is proven
 * that he may.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME.
 * Memory    peers_open() allocates its tables. `loop`, `tls` and `share` outlive it; what
 *           events point to is theirs for the call alone.
 * Errors    peers_open: ERR_BAD_ARGUMENT, ERR_UNAVAILABLE, ERR_NOT_PERMITTED, ERR_IO,
 *           ERR_NO_MEMORY, with a text. What befalls connections comes as events.
 * Thread    the loop thread.
 * Order     peers_open, peers_env; then peers_turn() after each loop_turn() and after each
 *           turn of the node, and again when peers_next() has come. peers_close() joins the
 *           thread: nothing is written into the pool after it, and no event comes.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include "base/attr.h"
#include "io/address.h"
#include "io/env.h"
#include "io/loop.h"
#include "io/tls.h"
#include "share/layout.h"

struct peers;

/* Which connections are under TLS; what is not is read by whoever can see the network, and
 * without any, whoever can connect is taken for a node. */
enum peers_secure {
	PEERS_SECURE_NONE,
	PEERS_SECURE_CONTROL, /* and data goes in the clear to who has a ticket */
	PEERS_SECURE_ALL
};

/* Each is that of node.h with the same name. From inside loop_turn() or peers_turn(), never
 * from inside a call of env_peer. */
struct peers_events {
	void *ctx;
	void (*peer_up)(void *ctx, uint32_t peer);
	/* `why` says it for people. */
	void (*peer_down)(void *ctx, uint32_t peer, int err, const char *why);
	void (*peer_answer)(void *ctx, uint32_t peer, uint32_t channel,
		const void *message, size_t size);
	void (*link)(void *ctx, struct link_id link, const char *address);
	void (*link_message)(void *ctx, struct link_id link, uint32_t channel,
		const void *message, size_t size);
	void (*link_close)(void *ctx, struct link_id link);
	void (*fetch)(void *ctx, uint32_t fetch, int err, uint64_t checksum);
	/* Worth a line in the log: someone was refused, or broke the protocol. Once a minute
	 * for each host at most. */
	void (*warn)(void *ctx, const char *text);
};

struct peers_config {
	struct loop *loop;
	struct address listen; /* port 0: any, see peers_port() */
	enum peers_secure secure;
	struct tls *tls; /* NULL with PEERS_SECURE_NONE, and only then */
	const struct share *share;
	uint32_t offers; /* tickets that may be out at once, 1 to PEERS_OFFERS_MAX */
	struct peers_events events;
};

#define PEERS_OFFERS_MAX (1u << 20)
#define PEERS_LINKS      (4 * PEER_LIMIT) /* connections that others made, proven or not */

int peers_open(struct peers **ret, const struct peers_config *config, char *message,
	size_t message_size) MUST_CHECK;
void peers_close(struct peers *peers); /* NULL is fine */

void peers_env(struct peers *peers, struct env_peer *ret_env);
uint16_t peers_port(const struct peers *peers);

/* Report what was begun or ended inside calls, and what is due; true: there was something. */
bool peers_turn(struct peers *peers, uint64_t now);
/* When peers_turn() has something to do; UINT64_MAX = only after an event. */
uint64_t peers_next(const struct peers *peers);

#endif
