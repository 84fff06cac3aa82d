/*
 * peers_priv.h - what struct peers is made of.
 *
 * What ends, or cannot begin, inside a call of env_peer is only noted there, in a report, and
 * told by peers_turn(). The rest is told at once, since it comes from inside loop_turn().
 */
#ifndef NET_PEERS_PRIV_H
#define NET_PEERS_PRIV_H

#include "base/list.h"
#include "io/stream.h"
#include "net/bulk.h"
#include "net/frame.h"
#include "net/hush.h"
#include "net/peers.h"

enum report_kind {
	REPORT_DOWN,  /* of an outward connection */
	REPORT_CLOSE, /* of an inward one */
	REPORT_FETCH  /* that could not begin */
};

struct report {
	struct list entry; /* in peers.reports, or on no list */
	enum report_kind kind;
};

/*
 * To the node at one place.
 *
 *   NONE --connect--> DIALING --it stands--> GREETING --welcome--> UP
 *    ^                   |                      |                  |
 *    '--peers_turn()-- ENDED <------------------'------------------'
 */
enum outward_state {
	OUTWARD_NONE,
	OUTWARD_DIALING,
	OUTWARD_GREETING,
	OUTWARD_UP,
	OUTWARD_ENDED
};

struct outward {
	struct peers *peers;
	struct stream stream;
	enum outward_state state;
	uint32_t life; /* rises with each connection */
	struct address address;
	uint64_t deadline;    /* of the greeting */
	struct list rising;   /* in peers.rising, while it is not up */
	struct report report; /* its end, with */
	int err;
	char why[STREAM_WHY_MAX];
};

/*
 * One that another made.
 *
 *   FREE --accept--> PEEKING --the first byte--> OPENING --control--> UP
 *    ^                  |                          |  |                |
 *    |<-----------------'--------------------------'  '--data--> bulk_take(), FREE
 *    '--peers_turn()-- ENDED <-----------------------------------------'
 */
enum inward_state {
	INWARD_FREE,
	INWARD_PEEKING, /* whether it begins as TLS does */
	INWARD_OPENING, /* handshake and greeting */
	INWARD_UP,
	INWARD_ENDED
};

struct inward {
	struct peers *peers;
	struct stream stream;
	struct loop_source peek;
	enum inward_state state;
	bool is_secure;
	uint32_t life; /* of the entry: an id is never used again */
	struct address from;
	uint64_t deadline; /* to be UP */
	struct list entry; /* in peers.free or peers.pending, or on no list */
	struct report report;
};

struct fetch_refused {
	struct report report;
};

struct peers {
	struct peers_config config;
	struct bulk *bulk;
	struct loop_source listener; /* fd -1: none */
	bool listens;
	uint64_t listen_again; /* UINT64_MAX: it does, or waits for a connection to go */
	struct outward outwards[PEER_LIMIT];
	struct inward *inwards; /* [PEERS_LINKS] */
	struct fetch_refused refused[PEER_TRANSFERS];
	struct list rising;        /* outwards on their way up */
	struct list free, pending; /* inwards; pending: by their deadlines */
	struct list reports;
	struct hush hush;
	unsigned char frame[FRAME_SIZE_MAX]; /* being sent */
};

void peers_report(struct peers *peers, struct report *report);
void peers_warn(struct peers *peers, const char *host, const char *text);
/* 0: it went; what the stream does not take ends it. */
int peers_send_frame(struct peers *peers, struct stream *stream, uint32_t channel,
	const void *message, size_t size) MUST_CHECK;

/* outward.c */
void outward_connect(struct outward *outward, const char *endpoint);
void outward_send(
	struct outward *outward, uint32_t channel, const void *message, size_t size);
void outward_end(struct outward *outward, int err, const char *why);
void outward_due(struct outward *outward, uint64_t now);
uint64_t outward_next(const struct outward *outward);

/* inward.c */
int inward_listen(struct peers *peers, char *message, size_t message_size) MUST_CHECK;
void inward_close_all(struct peers *peers);
struct inward *inward_of(struct peers *peers, struct link_id id);
struct link_id inward_id(const struct inward *inward);
void inward_answer(
	struct inward *inward, uint32_t channel, const void *message, size_t size);
/* It was UP: its end is reported. Else it is free at once. */
void inward_end(struct inward *inward);
void inward_free(struct inward *inward);
void inward_due(struct peers *peers, uint64_t now);
uint64_t inward_next(const struct peers *peers);

#endif
