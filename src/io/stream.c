/*
 * stream.c - the life of a stream: its events, its time to stand, its end.
 *
 * An event may close its stream; whoever calls one sets state->closed before and looks at
 * it after. Whoever finds a stream broken only notes it (stream_end), and shuts the socket
 * so that the loop calls for it: down() is told from there alone.
 */
#include "io/stream.h"

#include "base/check.h"
#include "base/err.h"
#include "io/stream_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what the loop watches ----------------------------------------------- */

static void state_drop_fd(struct stream_state *state)
{
	struct stream *stream = state->stream;

	if (stream->source.fd >= 0)
		loop_remove(stream->loop, &stream->source);
	stream->source.fd = -1;
	if (state->fd >= 0)
		(void)close(state->fd);
	state->fd = -1;
	resolve_drop(state->resolve);
	state->resolve = NULL;
}

bool stream_watch(struct stream_state *state, int fd, bool read, bool write)
{
	struct stream *stream = state->stream;
	int err;

	state_drop_fd(state);
	state->fd = fd;
	stream->source.fd = fd;
	err = loop_add(stream->loop, &stream->source);
	if (err != 0) {
		stream->source.fd = -1;
		stream_end(state, err, "no memory to watch the connection");
		return false;
	}
	state->wants_read = read;
	state->wants_write = write;
	loop_want(stream->loop, &stream->source, read, write);
	return true;
}

void stream_want_now(struct stream_state *state)
{
	bool read = state->ready == NULL || state->owner_reads;
	bool write = buffer_size(&state->sending) > 0 ||
		     (state->ready != NULL && state->owner_writes);

	if (state->phase != STREAM_SHAKING && state->phase != STREAM_UP)
		return;
	if (state->phase == STREAM_SHAKING) {
		read = true;
		write = false;
	}
	write = write || (state->session != NULL && tls_wants_write(state->session));
	if (read == state->wants_read && write == state->wants_write)
		return;
	state->wants_read = read;
	state->wants_write = write;
	loop_want(state->stream->loop, &state->stream->source, read, write);
}

/* ---- the end ------------------------------------------------------------- */

void stream_end(struct stream_state *state, int err, const char *format, ...)
{
	va_list args;

	if (state->phase >= STREAM_ENDING)
		return;
	state->phase = STREAM_ENDING;
	state->err = err;
	va_start(args, format);
	(void)vsnprintf(state->why, sizeof(state->why), format, args);
	va_end(args);
	if (state->fd >= 0)
		(void)shutdown(state->fd, SHUT_RDWR);
}

/* The last event. */
static void tell_down(struct stream_state *state)
{
	struct stream *stream = state->stream;

	state->phase = STREAM_DOWN;
	state_drop_fd(state);
	stream->events->down(stream->ctx, state->err, state->why);
}

/* ---- the way up ---------------------------------------------------------- */

/* False: the stream was closed meanwhile. */
static bool tell_up(struct stream_state *state)
{
	struct stream *stream = state->stream;
	bool closed = false;

	state->phase = STREAM_UP;
	state->closed = &closed;
	stream->events->up(stream->ctx);
	if (closed)
		return false;
	state->closed = NULL;
	return true;
}

/* True: the other end is proven. */
static bool state_shake(struct stream_state *state)
{
	int err = tls_shake(state->session);

	if (err != 0 && err != ERR_BUSY)
		stream_end(state, err, "%s", tls_why(state->session));
	return err == 0;
}

/* True: there is nothing to wait for before up(). */
static bool state_begin(struct stream_state *state)
{
	int err;

	if (state->tls == NULL)
		return true;
	err = tls_start(state->tls, state->fd, state->is_server, &state->session);
	if (err != 0) {
		stream_end(state, err, "no memory for TLS");
		return false;
	}
	state->phase = STREAM_SHAKING;
	return state_shake(state);
}

static bool tell_ready(struct stream_state *state)
{
	bool closed = false;

	state->closed = &closed;
	state->ready(state->stream->ctx);
	if (closed)
		return false;
	state->closed = NULL;
	return true;
}

/* What a stream that stands has to do. False: it was closed meanwhile. */
static bool state_move(struct stream_state *state)
{
	move_send(state);
	if (state->phase != STREAM_UP)
		return true;
	if (state->ready == NULL && !move_receive(state))
		return false;
	if (state->phase == STREAM_UP && state->ready != NULL)
		return tell_ready(state);
	return true;
}

static void stream_on_ready(struct loop_source *source)
{
	struct stream *stream = container_of(source, struct stream, source);
	struct stream_state *state = stream->state;
	bool stands = false;

	if (state->session != NULL)
		tls_ready(state->session);
	switch (state->phase) {
	case STREAM_RESOLVING:
		dial_resolved(state);
		break;
	case STREAM_CONNECTING:
		stands = dial_connected(state) && state_begin(state);
		break;
	case STREAM_SHAKING:
		stands = state_shake(state);
		break;
	case STREAM_UP:
	case STREAM_ENDING:
	case STREAM_DOWN:
		break;
	}
	if (stands && !tell_up(state))
		return;
	if (state->phase == STREAM_UP && !state_move(state))
		return;
	if (state->phase == STREAM_ENDING)
		tell_down(state);
	else
		stream_want_now(state);
}

/* ---- begin --------------------------------------------------------------- */

static struct stream_state *state_new(struct stream *stream, struct loop *loop,
	struct tls *tls, const struct stream_events *events, void *ctx)
{
	struct stream_state *state = calloc(1, sizeof(*state));

	*stream = (struct stream){
		.source = {.fd = -1, .on_ready = stream_on_ready},
		.loop = loop,
		.events = events,
		.ctx = ctx,
		.state = state,
	};
	if (state == NULL)
		return NULL;
	state->stream = stream;
	state->tls = tls;
	state->fd = -1;
	state->deadline = loop_boot_ns() + STREAM_OPEN_NS;
	state->try_deadline = UINT64_MAX;
	return state;
}

int stream_open(struct stream *stream, struct loop *loop, const struct address *address,
	struct tls *tls, const struct stream_events *events, void *ctx)
{
	struct stream_state *state = state_new(stream, loop, tls, events, ctx);
	int err, fd;

	if (state == NULL)
		return ERR_NO_MEMORY;
	state->phase = STREAM_RESOLVING;
	state->address = *address;
	err = resolve_start(&state->resolve, address, &fd);
	if (err == 0) {
		stream->source.fd = fd;
		err = loop_add(loop, &stream->source);
		if (err != 0)
			stream->source.fd = -1;
	}
	if (err != 0)
		stream_close(stream);
	return err;
}

int stream_take(struct stream *stream, struct loop *loop, int fd, struct tls *tls,
	const struct stream_events *events, void *ctx)
{
	struct stream_state *state;

	*stream = (struct stream){.source = {.fd = -1}};
	if (tls != NULL && !tls_serves(tls))
		return ERR_BAD_ARGUMENT;
	state = state_new(stream, loop, tls, events, ctx);
	if (state == NULL)
		return ERR_NO_MEMORY;
	state->phase = STREAM_CONNECTING;
	state->is_server = true;
	dial_options(fd);
	/* That it can be written is how the loop calls, and that is soon. */
	if (stream_watch(state, fd, false, true))
		return 0;
	state->fd = -1; /* it stays the caller's */
	stream_close(stream);
	return ERR_NO_MEMORY;
}

void stream_close(struct stream *stream)
{
	struct stream_state *state = stream->state;

	if (state == NULL)
		return;
	if (state->closed != NULL)
		*state->closed = true;
	state_drop_fd(state);
	tls_stop(state->session);
	buffer_fini(&state->sending);
	buffer_fini(&state->received);
	free(state);
	stream->state = NULL;
}

void stream_abort(struct stream *stream)
{
	const struct linger none = {.l_onoff = 1};

	if (stream->state != NULL && stream->state->fd >= 0)
		(void)setsockopt(
			stream->state->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	stream_close(stream);
}

/* ---- time ---------------------------------------------------------------- */

uint64_t stream_next(const struct stream *stream)
{
	const struct stream_state *state = stream->state;

	if (state == NULL || state->phase >= STREAM_UP)
		return UINT64_MAX;
	return MIN(state->deadline, state->try_deadline);
}

void stream_due(struct stream *stream, uint64_t now)
{
	struct stream_state *state = stream->state;

	if (now < stream_next(stream))
		return;
	if (now >= state->deadline)
		stream_end(state, ERR_TIMEOUT, "no connection within %u s",
			(unsigned)(STREAM_OPEN_NS / 1000000000u));
	else if (state->phase == STREAM_CONNECTING)
		dial_give_up(state);
	else
		state->try_deadline = UINT64_MAX; /* this one answers */
	if (state->phase == STREAM_ENDING)
		tell_down(state);
}

/* ---- by the owner himself ------------------------------------------------ */

void stream_go_direct(struct stream *stream, void (*ready)(void *ctx))
{
	struct stream_state *state = stream->state;

	CHECK(state->phase == STREAM_UP && ready != NULL);
	if (state->session != NULL)
		tls_read_no_further(state->session);
	state->ready = ready;
	state->owner_reads = true;
	state->owner_writes = false;
}

void stream_want(struct stream *stream, bool read, bool write)
{
	struct stream_state *state = stream->state;

	state->owner_reads = read;
	state->owner_writes = write;
	stream_want_now(state);
}

/* ---- to another thread --------------------------------------------------- */

void stream_leave(struct stream *stream, struct stream *ret)
{
	struct stream_state *state = stream->state;

	CHECK(state->phase == STREAM_UP && buffer_size(&state->received) == 0);
	loop_remove(stream->loop, &stream->source);
	if (state->closed != NULL)
		*state->closed = true;
	state->closed = NULL;
	*ret = *stream;
	ret->loop = NULL;
	ret->source.fd = -1; /* in no loop */
	state->stream = ret;
	*stream = (struct stream){.source = {.fd = -1}};
}

int stream_join(struct stream *stream, struct loop *loop,
	const struct stream_events *events, void *ctx)
{
	int err;

	stream->loop = loop;
	stream->events = events;
	stream->ctx = ctx;
	stream->source.fd = stream->state->fd;
	err = loop_add(loop, &stream->source);
	if (err != 0) {
		stream->source.fd = -1;
		return err;
	}
	stream->state->wants_read = true;
	stream->state->wants_write = false;
	stream_want_now(stream->state);
	return 0;
}
