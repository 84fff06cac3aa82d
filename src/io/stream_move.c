/*
 * stream_move.c - bytes of a stream that stands: out of the queue, in to data().
 *
 * What comes is read into the stack and shown from there; only what data() leaves is kept.
 */
#include "base/check.h"
#include "base/err.h"
#include "io/stream_priv.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE (64u << 10)
/* So much of one stream, then the others have their turn. */
#define TURN_SIZE (256u << 10)

static bool is_for_later(int number)
{
	return number == EAGAIN || number == EINTR;
}

/* ---- the connection itself ----------------------------------------------- */

static int64_t broken(struct stream_state *state, int err, const char *why)
{
	stream_end(state, err, "%s", why);
	return err;
}

static int64_t raw_read(struct stream_state *state, void *bytes, size_t size)
{
	ssize_t got;

	if (state->session != NULL) {
		int64_t moved = tls_read(state->session, bytes, size);

		return moved < 0 ? broken(state, (int)moved, tls_why(state->session))
				 : moved;
	}
	got = recv(state->fd, bytes, size, 0);
	if (got > 0)
		return got;
	if (got == 0)
		return broken(
			state, ERR_UNAVAILABLE, "the other end closed the connection");
	return is_for_later(errno) ? 0 : broken(state, ERR_UNAVAILABLE, strerror(errno));
}

static int64_t raw_write(
	struct stream_state *state, const void *bytes, size_t size, bool more)
{
	ssize_t sent;

	if (state->session != NULL) {
		int64_t moved = tls_write(state->session, bytes, size, more);

		return moved < 0 ? broken(state, (int)moved, tls_why(state->session))
				 : moved;
	}
	sent = send(state->fd, bytes, size, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
	if (sent >= 0)
		return sent;
	return is_for_later(errno) ? 0 : broken(state, ERR_UNAVAILABLE, strerror(errno));
}

/* ---- out ----------------------------------------------------------------- */

void move_send(struct stream_state *state)
{
	struct buffer *sending = &state->sending;

	while (state->phase == STREAM_UP && buffer_size(sending) > 0) {
		int64_t sent = raw_write(state, sending->bytes + sending->start,
			buffer_size(sending), false);

		if (sent <= 0)
			break;
		buffer_take(sending, (size_t)sent);
	}
}

int stream_send(struct stream *stream, const void *bytes, size_t size)
{
	struct stream_state *state = stream->state;
	int64_t sent = 0;
	int err = 0;

	if (state->phase > STREAM_UP || size == 0)
		return 0;
	if (buffer_size(&state->sending) > STREAM_SEND_LIMIT)
		return ERR_BUSY;
	if (state->phase == STREAM_UP && buffer_size(&state->sending) == 0)
		sent = raw_write(state, bytes, size, false);
	if (sent < 0)
		return 0; /* down() says it */
	if ((size_t)sent < size)
		err = buffer_add(
			&state->sending, (const char *)bytes + sent, size - (size_t)sent);
	if (err != 0 && sent > 0) {
		stream_end(state, err, "no memory for what is sent");
		return 0; /* a part of it went: nothing may follow */
	}
	stream_want_now(state);
	return err;
}

size_t stream_waiting(const struct stream *stream)
{
	return stream->state != NULL ? buffer_size(&stream->state->sending) : 0;
}

/* ---- in ------------------------------------------------------------------ */

/* What data() took; -1: it closed the stream. */
static int64_t show(struct stream_state *state, const void *bytes, size_t size)
{
	struct stream *stream = state->stream;
	bool closed = false;
	size_t taken;

	state->closed = &closed;
	taken = stream->events->data(stream->ctx, bytes, size);
	if (closed)
		return -1;
	state->closed = NULL;
	CHECK(taken <= size);
	return (int64_t)taken;
}

static void keep(struct stream_state *state, const void *bytes, size_t size)
{
	if (buffer_add(&state->received, bytes, size) != 0)
		stream_end(state, ERR_NO_MEMORY, "no memory for what came");
	else if (buffer_size(&state->received) > STREAM_RECEIVE_LIMIT)
		stream_end(state, ERR_PROTOCOL, "%u bytes came that make no whole",
			STREAM_RECEIVE_LIMIT);
}

/* Show bytes that came, with those that were left before. False: it was closed. */
static bool deliver(struct stream_state *state, const void *bytes, size_t size)
{
	struct buffer *received = &state->received;
	bool is_fresh = buffer_size(received) == 0;
	int64_t taken;

	if (!is_fresh) {
		keep(state, bytes, size);
		if (state->phase != STREAM_UP)
			return true;
		bytes = received->bytes + received->start;
		size = buffer_size(received);
	}
	taken = show(state, bytes, size);
	if (taken < 0)
		return false;
	if (!is_fresh)
		buffer_take(received, (size_t)taken);
	else if ((size_t)taken < size)
		keep(state, (const char *)bytes + taken, size - (size_t)taken);
	return true;
}

bool move_receive(struct stream_state *state)
{
	unsigned char bytes[READ_SIZE];
	size_t total = 0;

	while (state->phase == STREAM_UP && state->ready == NULL) {
		int64_t got = raw_read(state, bytes, sizeof(bytes));

		if (got <= 0)
			break;
		total += (size_t)got;
		if (!deliver(state, bytes, (size_t)got))
			return false;
		/* What TLS has in hand the loop would not tell of: it is read to its end. */
		if (state->session == NULL &&
			((size_t)got < sizeof(bytes) || total >= TURN_SIZE))
			break;
		if (state->session != NULL && total >= TURN_SIZE)
			tls_rest(state->session);
	}
	return true;
}

/* ---- by the owner himself ------------------------------------------------ */

int64_t stream_read(struct stream *stream, void *bytes, size_t size)
{
	struct stream_state *state = stream->state;

	if (state->phase != STREAM_UP)
		return state->err != 0 ? state->err : 0;
	return raw_read(state, bytes, size);
}

int64_t stream_write(struct stream *stream, const void *bytes, size_t size, bool more)
{
	struct stream_state *state = stream->state;

	if (state->phase != STREAM_UP)
		return state->err != 0 ? state->err : 0;
	return raw_write(state, bytes, size, more);
}

void stream_want_bytes(struct stream *stream, size_t size)
{
	struct stream_state *state = stream->state;
	int low = 1;

	/* Of a record that has come in part, that part is not to be waited for. */
	if (state->session != NULL)
		size -= MIN(size, TLS_RECORD_MAX);
	if (size > 1)
		low = (int)MIN(size, (size_t)INT_MAX);
	if (low == state->low)
		return;
	state->low = low;
	(void)setsockopt(state->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}
