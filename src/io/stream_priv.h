/*
 * stream_priv.h - what an open stream is made of.
 *
 *   RESOLVING --dial_resolved--> CONNECTING --dial_connected--> SHAKING --stream_shake--> UP
 *                                    ^ |                           |                      |
 *   stream_take ---------------------' '--dial_next, no TLS--------|----------------------'
 *                                                                  v
 *   any --stream_end--> ENDING --down()--> DOWN
 *
 * Memory    the state is the stream's, from open or take to close.
 * Thread    the loop's.
 */
#ifndef IO_STREAM_PRIV_H
#define IO_STREAM_PRIV_H

#include "io/buffer_priv.h"
#include "io/resolve_priv.h"
#include "io/stream.h"
#include "io/tls_priv.h"

enum stream_phase {
	STREAM_RESOLVING,
	STREAM_CONNECTING,
	STREAM_SHAKING,
	STREAM_UP,
	STREAM_ENDING, /* broken; down() is still to come */
	STREAM_DOWN
};

struct stream_state {
	struct stream *stream;
	enum stream_phase phase;
	bool is_server;
	int fd; /* of the connection; -1: none yet */

	struct tls *tls; /* NULL: in the clear */
	struct tls_session *session;

	/* of the way up */
	struct address address;
	struct resolve *resolve;
	struct resolved found;
	uint32_t next;         /* of found, to be tried */
	uint64_t deadline;     /* to stand */
	uint64_t try_deadline; /* of this address, while there is another */

	struct buffer sending, received;
	void (*ready)(void *ctx);       /* the owner moves the bytes; else NULL */
	bool owner_reads, owner_writes; /* what he wants then */
	bool wants_read, wants_write;   /* as the loop knows it */
	int low;                        /* bytes that must be there; 0: as it was made */
	bool *closed; /* set by stream_close() for who is inside an event; else NULL */

	int err;
	char why[STREAM_WHY_MAX];
};

/* It has broken: down() comes with this, once the events get round to it. */
void stream_end(struct stream_state *state, int err, const char *format, ...)
	PRINTF_LIKE(3, 4);
/* Have the loop watch `fd` in the place of what it did; false: it ended. */
bool stream_watch(struct stream_state *state, int fd, bool read, bool write);
/* Tell the loop what is wanted now. */
void stream_want_now(struct stream_state *state);

/* stream_dial.c: each moves a stream on, to ENDING if it must. True: it is connected. */
void dial_resolved(struct stream_state *state);
bool dial_connected(struct stream_state *state);
/* The address that is being tried takes too long: on to the next. */
void dial_give_up(struct stream_state *state);
void dial_options(int fd);

/* stream_move.c */
void move_send(struct stream_state *state);
/* False: the stream was closed meanwhile, its state is gone. */
bool move_receive(struct stream_state *state);

#endif
