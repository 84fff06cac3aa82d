/*
 * stream_dial.c - the way to a connection: a host's addresses, tried one after another.
 *
 * An address that does not answer may use up a share of the time that is left for all, so
 * that one behind a black hole does not hide the next.
 */
#include "base/check.h"
#include "base/err.h"
#include "io/stream_priv.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

/* A host that is gone is noticed within about three seconds, whether or not something was
 * sent to it. */
#define KEEPALIVE_S     1
#define KEEPALIVE_TIMES 3
#define UNANSWERED_MS   3000

static void option_set(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

void dial_options(int fd)
{
	option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S);
	option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S);
	option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TIMES);
	option_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS);
}

/* Begin to connect; else errno. */
static int dial_try(struct stream_state *state, const union socket_address *at)
{
	int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return errno;
	dial_options(fd);
	if (connect(fd, &at->any, socket_address_size(at)) != 0 && errno != EINPROGRESS) {
		int number = errno;

		(void)close(fd);
		return number;
	}
	(void)stream_watch(state, fd, false, true);
	return 0;
}

static void dial_end(struct stream_state *state, int number)
{
	char text[ADDRESS_TEXT_MAX], tried[ADDRESS_TEXT_MAX];

	stream_end(state, ERR_UNAVAILABLE, "cannot connect to %s (%s): %s",
		address_text(&state->address, text),
		socket_address_text(&state->found.at[state->next - 1], tried),
		strerror(number));
}

static void dial_share_time(struct stream_state *state)
{
	uint64_t now = loop_boot_ns();
	uint64_t left = state->deadline > now ? state->deadline - now : 0;

	state->try_deadline = UINT64_MAX;
	if (state->next < state->found.count)
		state->try_deadline = now + left / (state->found.count - state->next + 1);
}

/* Try the next address, and the next, until one is under way; `number`: errno of the one
 * before. */
static void dial_next(struct stream_state *state, int number)
{
	while (state->next < state->found.count) {
		number = dial_try(state, &state->found.at[state->next++]);
		if (number == 0) {
			dial_share_time(state);
			return;
		}
	}
	dial_end(state, number);
}

void dial_resolved(struct stream_state *state)
{
	resolve_result(state->resolve, &state->found);
	if (state->found.count == 0) {
		stream_end(state, ERR_UNAVAILABLE, "%s: the host is not found: %s",
			state->address.host, state->found.why);
		return;
	}
	state->phase = STREAM_CONNECTING;
	dial_next(state, 0);
}

bool dial_connected(struct stream_state *state)
{
	int number = 0;
	socklen_t size = sizeof(number);

	CHECK(getsockopt(state->fd, SOL_SOCKET, SO_ERROR, &number, &size) == 0);
	if (number == 0)
		return true;
	if (state->is_server)
		stream_end(state, ERR_UNAVAILABLE, "%s", strerror(number));
	else
		dial_next(state, number);
	return false;
}

void dial_give_up(struct stream_state *state)
{
	dial_next(state, ETIMEDOUT);
}
