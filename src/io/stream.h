/*
 * stream.h - a TCP connection on a loop, in the clear or under TLS, that never blocks.
 *
 *	stream_open(&stream, loop, address, tls, events, ctx);    to another host
 *	stream_take(&stream, loop, fd, tls, events, ctx);         one that was accepted
 *	... up, data ..., down                                    events, never from inside a call
 *	stream_close(&stream);                                    no event follows
 *
 * Events come from inside loop_turn(), and from stream_due(). After down() no other comes,
 * and the owner closes the stream, then or later. An address is tried at once, a name is
 * looked up aside, and its addresses are tried in turn.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME.
 * Memory    struct stream is its owner's, who keeps it until stream_close(), which may be
 *           called from inside an event and frees what it has. What is sent is copied where
 *           the socket does not take it at once, and may be sent before up().
 * Errors    ERR_NO_MEMORY, ERR_IO: no descriptor or thread; ERR_BUSY: more than
 *           STREAM_SEND_LIMIT bytes wait already; ERR_BAD_ARGUMENT: `tls` is only good for
 *           connecting. What befalls a connection comes as down(): ERR_UNAVAILABLE, it could
 *           not be made or broke; ERR_NOT_PERMITTED, the other end could not be proven, or
 *           it does not accept us; ERR_TIMEOUT, it did not stand before STREAM_OPEN_NS;
 *           ERR_PROTOCOL, STREAM_RECEIVE_LIMIT bytes came of which data() took none;
 *           ERR_NO_MEMORY; with a text that says it for people.
 * Thread    the loop's.
 */
#ifndef IO_STREAM_H
#define IO_STREAM_H

#include "base/attr.h"
#include "io/address.h"
#include "io/loop.h"
#include "io/tls.h"

#define STREAM_OPEN_NS       3000000000ull
#define STREAM_SEND_LIMIT    (64u << 20)
#define STREAM_RECEIVE_LIMIT (64u << 20)
#define STREAM_WHY_MAX       256u

struct stream_events {
	/* It stands, and the other end is who it must be. */
	void (*up)(void *ctx);
	/* Bytes came; how many of them were taken. The rest comes again, with what follows. */
	size_t (*data)(void *ctx, const void *bytes, size_t size);
	void (*down)(void *ctx, int err, const char *why);
};

struct stream {
	struct loop_source source;
	struct loop *loop;
	const struct stream_events *events;
	void *ctx;
	struct stream_state *state; /* NULL: closed */
};

/* `tls` NULL: in the clear. */
int stream_open(struct stream *stream, struct loop *loop, const struct address *address,
	struct tls *tls, const struct stream_events *events, void *ctx) MUST_CHECK;
/* The descriptor is the stream's if it returns 0. */
int stream_take(struct stream *stream, struct loop *loop, int fd, struct tls *tls,
	const struct stream_events *events, void *ctx) MUST_CHECK;
/* 0 also where it has broken, and down() is on its way. */
int stream_send(struct stream *stream, const void *bytes, size_t size) MUST_CHECK;
/* Bytes that were sent and wait in memory for the socket. */
size_t stream_waiting(const struct stream *stream);
/* One that is closed, or zeroed, may be closed again. */
void stream_close(struct stream *stream);
/* The same, and what the other end has not received yet it never will. */
void stream_abort(struct stream *stream);
/* When stream_due() is to be called; UINT64_MAX = never. It ends what took too long to
 * stand. */
uint64_t stream_next(const struct stream *stream);
void stream_due(struct stream *stream, uint64_t now);

/* ---- large bytes, without a copy ----------------------------------------- */

/*
 * From inside up(), from inside data() that takes all of its bytes, or after stream_join():
 * the owner reads and writes by himself from now on. ready() comes in the place of data()
 * whenever what stream_want() asked for may be possible; reading is, at first. It reads until
 * there is no more, or calls itself again: what TLS has in hand the loop does not tell of.
 */
void stream_go_direct(struct stream *stream, void (*ready)(void *ctx));
/* Bytes moved; 0: none for now; negative: it broke, and down() is on its way. After a 0 of a
 * write the same bytes come again, with what follows. `more`: others follow at once. */
int64_t stream_read(struct stream *stream, void *bytes, size_t size) MUST_CHECK;
int64_t stream_write(
	struct stream *stream, const void *bytes, size_t size, bool more) MUST_CHECK;
void stream_want(struct stream *stream, bool read, bool write);
/* Have ready() wait until about `size` bytes can be read at once, or the end; at first one is
 * enough. They must be on their way. The system may call earlier. */
void stream_want_bytes(struct stream *stream, size_t size);

/* ---- to another thread --------------------------------------------------- */

/*
 * From inside data() of one that takes all of its bytes: leave the loop, as by a close, and
 * be `ret` from now on, which its new owner has join a loop of his. No event comes between.
 */
void stream_leave(struct stream *stream, struct stream *ret);
/* After an error it can only be closed. */
int stream_join(struct stream *stream, struct loop *loop,
	const struct stream_events *events, void *ctx) MUST_CHECK;

#endif
