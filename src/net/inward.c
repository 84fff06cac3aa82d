/*
 * inward.c - connections that others make: taken, proven, greeted; then links, or data
 * connections that the helper thread goes on with.
 *
 * All come to one address. Where control is under TLS and data is not, the first byte tells
 * which it is to be: a TLS client begins with 0x16, a greeting does not. Strangers hold an
 * entry for STREAM_OPEN_NS at most, and the one who came first loses it when all are taken.
 */
#include "base/check.h"
#include "base/err.h"
#include "io/listener.h"
#include "net/peers_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_HANDSHAKE_BYTE 0x16
#define ACCEPTS_A_TURN     16
#define LISTEN_AGAIN_NS    100000000ull

static struct inward *inward_at(struct list *entry)
{
	return container_of(entry, struct inward, entry);
}

struct link_id inward_id(const struct inward *inward)
{
	uint32_t index = (uint32_t)(inward - inward->peers->inwards);

	return (struct link_id){(uint64_t)inward->life << 32 | (index + 1)};
}

struct inward *inward_of(struct peers *peers, struct link_id id)
{
	uint32_t index = (uint32_t)id.value - 1;
	struct inward *inward;

	if (index >= PEERS_LINKS)
		return NULL;
	inward = &peers->inwards[index];
	if (inward->state != INWARD_UP || inward->life != (uint32_t)(id.value >> 32))
		return NULL;
	return inward;
}

static void inward_warn(struct inward *inward, const char *why)
{
	char text[STREAM_WHY_MAX + ADDRESS_TEXT_MAX + 32], address[ADDRESS_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "the connection from %s is closed: %s",
		address_text(&inward->from, address), why);
	peers_warn(inward->peers, inward->from.host, text);
}

/* ---- the listener -------------------------------------------------------- */

static void listener_pause(struct peers *peers, uint64_t again)
{
	if (peers->listens)
		loop_remove(peers->config.loop, &peers->listener);
	peers->listens = false;
	peers->listen_again = again;
}

static void listener_resume(struct peers *peers)
{
	if (peers->listens || peers->listener.fd < 0)
		return;
	peers->listens = loop_add(peers->config.loop, &peers->listener) == 0;
	peers->listen_again = peers->listens ? UINT64_MAX
					     : loop_boot_ns() + LISTEN_AGAIN_NS;
}

/* ---- ends ---------------------------------------------------------------- */

/* For the next one. */
void inward_free(struct inward *inward)
{
	struct peers *peers = inward->peers;

	inward->state = INWARD_FREE;
	list_move_tail(&peers->free, &inward->entry);
	if (peers->listen_again == UINT64_MAX)
		listener_resume(peers);
}

void inward_end(struct inward *inward)
{
	struct peers *peers = inward->peers;

	switch (inward->state) {
	case INWARD_FREE:
	case INWARD_ENDED:
		return;
	case INWARD_PEEKING:
		loop_remove(peers->config.loop, &inward->peek);
		(void)close(inward->peek.fd);
		inward_free(inward);
		return;
	case INWARD_OPENING:
		stream_close(&inward->stream);
		inward_free(inward);
		return;
	case INWARD_UP:
		stream_close(&inward->stream);
		inward->state = INWARD_ENDED;
		peers_report(peers, &inward->report);
		return;
	}
}

static void inward_refuse(struct inward *inward, const char *why)
{
	inward_warn(inward, why);
	inward_end(inward);
}

/* ---- greetings ----------------------------------------------------------- */

static int inward_greet(struct inward *inward, uint8_t kind, enum net_verdict verdict)
{
	const struct greeting greeting = {NET_VERSION, kind, (uint8_t)verdict};
	unsigned char bytes[GREETING_SIZE];

	greeting_write(bytes, &greeting);
	return stream_send(&inward->stream, bytes, sizeof(bytes));
}

/* Told why, and closed. */
static void inward_turn_away(struct inward *inward, const struct greeting *theirs,
	enum net_verdict verdict, const char *why)
{
	(void)inward_greet(inward, theirs->kind, verdict); /* lost or not, it ends */
	inward_refuse(inward, why);
}

static void inward_is_control(struct inward *inward)
{
	const struct peers_events *events = &inward->peers->config.events;
	char address[ADDRESS_TEXT_MAX];

	if (inward_greet(inward, NET_CONTROL, NET_WELCOME) != 0) {
		inward_end(inward);
		return;
	}
	inward->state = INWARD_UP;
	list_del(&inward->entry);
	events->link(
		events->ctx, inward_id(inward), address_text(&inward->from, address));
}

static void inward_is_data(struct inward *inward, const struct greeting *theirs)
{
	if (bulk_take(inward->peers->bulk, &inward->stream, &inward->from) != 0)
		inward_turn_away(
			inward, theirs, NET_FULL, "no more data connections are taken");
	else
		inward_free(inward);
}

/* What he wants, and whether he may: all of `size` is what came. */
static void inward_greeted(struct inward *inward, const void *bytes, size_t size)
{
	const enum peers_secure secure = inward->peers->config.secure;
	struct greeting theirs;
	char why[128];

	if (greeting_read(bytes, &theirs) != 0) {
		inward_refuse(inward, "it does not begin as a node's connection does");
		return;
	}
	if (theirs.version != NET_VERSION) {
		(void)snprintf(why, sizeof(why),
			"it speaks version %u of the protocol between nodes, this one %u",
			(unsigned)theirs.version, NET_VERSION);
		inward_turn_away(inward, &theirs, NET_OTHER_VERSION, why);
	} else if (theirs.kind == NET_CONTROL &&
		   (inward->is_secure || secure == PEERS_SECURE_NONE)) {
		inward_is_control(inward);
	} else if (theirs.kind == NET_DATA && size == GREETING_SIZE) {
		inward_is_data(inward, &theirs);
	} else {
		inward_turn_away(inward, &theirs, NET_REFUSED,
			theirs.kind == NET_CONTROL ? "it is not under TLS: that must be "
						     "the same on all nodes"
						   : "it is of no kind that is known");
	}
}

/* ---- events -------------------------------------------------------------- */

static void inward_on_up(void *ctx)
{
	(void)ctx; /* he has the word */
}

static size_t inward_on_data(void *ctx, const void *bytes, size_t size)
{
	struct inward *inward = ctx;
	const struct peers_events *events = &inward->peers->config.events;
	const unsigned char *at = bytes;
	uint32_t life = inward->life;
	struct frame frame;
	size_t used = 0;
	int got;

	if (inward->state == INWARD_OPENING) {
		if (size < GREETING_SIZE)
			return 0;
		used = GREETING_SIZE;
		inward_greeted(inward, at, size);
	}
	while (inward->state == INWARD_UP && inward->life == life) {
		got = frame_read(at + used, size - used, &frame);
		if (got == 0)
			break;
		if (got < 0) {
			inward_refuse(inward, "what came is no frame");
			break;
		}
		used += FRAME_HEADER_SIZE + frame.size;
		events->link_message(events->ctx, inward_id(inward), frame.channel,
			frame.message, frame.size);
	}
	return used;
}

static void inward_on_down(void *ctx, int err, const char *why)
{
	struct inward *inward = ctx;

	if (err != ERR_UNAVAILABLE && err != ERR_TIMEOUT)
		inward_warn(inward, why);
	inward_end(inward);
}

static const struct stream_events inward_events = {
	.up = inward_on_up, .data = inward_on_data, .down = inward_on_down};

/* ---- connections come ---------------------------------------------------- */

/* Go on with the connection, which is the stream's from here on. */
static void inward_open(struct inward *inward, int fd, bool is_secure)
{
	struct peers *peers = inward->peers;

	inward->state = INWARD_OPENING;
	inward->is_secure = is_secure;
	if (stream_take(&inward->stream, peers->config.loop, fd,
		    is_secure ? peers->config.tls : NULL, &inward_events, inward) != 0) {
		(void)close(fd);
		inward_free(inward);
	}
}

static void inward_on_peek(struct loop_source *source)
{
	struct inward *inward = container_of(source, struct inward, peek);
	unsigned char first;
	ssize_t got = recv(source->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		inward_end(inward);
		return;
	}
	loop_remove(inward->peers->config.loop, source);
	inward_open(inward, source->fd, first == TLS_HANDSHAKE_BYTE);
}

static void inward_peek(struct inward *inward, int fd)
{
	inward->state = INWARD_PEEKING;
	inward->peek = (struct loop_source){.fd = fd, .on_ready = inward_on_peek};
	if (loop_add(inward->peers->config.loop, &inward->peek) == 0)
		return;
	(void)close(fd);
	inward_free(inward);
}

/* NULL: all are links. */
static struct inward *inward_new(struct peers *peers)
{
	if (list_is_empty(&peers->free) && !list_is_empty(&peers->pending))
		inward_end(inward_at(list_first(&peers->pending)));
	if (list_is_empty(&peers->free))
		return NULL;
	return inward_at(list_first(&peers->free));
}

static void inward_accept(struct inward *inward, int fd, const struct address *from)
{
	struct peers *peers = inward->peers;

	inward->life++;
	inward->from = *from;
	inward->deadline = loop_boot_ns() + STREAM_OPEN_NS;
	list_move_tail(&peers->pending, &inward->entry);
	if (peers->config.secure == PEERS_SECURE_CONTROL)
		inward_peek(inward, fd);
	else
		inward_open(inward, fd, peers->config.secure == PEERS_SECURE_ALL);
}

static void listener_on_ready(struct loop_source *source)
{
	struct peers *peers = container_of(source, struct peers, listener);

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct inward *inward = inward_new(peers);
		struct address from;
		int err, fd;

		if (inward == NULL) {
			peers_warn(peers, "all links",
				"as many connections as can be stand; others wait");
			listener_pause(peers, UINT64_MAX);
			return;
		}
		err = listener_accept(source->fd, &fd, &from);
		if (err == ERR_NO_MEMORY)
			listener_pause(peers, loop_boot_ns() + LISTEN_AGAIN_NS);
		if (err != 0)
			return;
		inward_accept(inward, fd, &from);
	}
}

/* ---- calls --------------------------------------------------------------- */

void inward_answer(
	struct inward *inward, uint32_t channel, const void *message, size_t size)
{
	if (peers_send_frame(inward->peers, &inward->stream, channel, message, size) != 0)
		inward_end(inward);
}

int inward_listen(struct peers *peers, char *message, size_t message_size)
{
	int err = listener_open(
		&peers->config.listen, &peers->listener.fd, message, message_size);

	if (err != 0)
		return err;
	peers->listener.on_ready = listener_on_ready;
	listener_resume(peers);
	if (peers->listens)
		return 0;
	(void)snprintf(message, message_size, "no memory to listen");
	return ERR_NO_MEMORY;
}

void inward_close_all(struct peers *peers)
{
	listener_pause(peers, UINT64_MAX);
	if (peers->listener.fd >= 0)
		(void)close(peers->listener.fd);
	peers->listener.fd = -1; /* nothing listens again */
	for (uint32_t i = 0; peers->inwards != NULL && i < PEERS_LINKS; i++)
		inward_end(&peers->inwards[i]);
}

/* ---- time ---------------------------------------------------------------- */

uint64_t inward_next(const struct peers *peers)
{
	uint64_t next = peers->listen_again;

	if (!list_is_empty(&peers->pending))
		next = MIN(next, inward_at(peers->pending.next)->deadline);
	return next;
}

void inward_due(struct peers *peers, uint64_t now)
{
	struct list *entry;

	while ((entry = list_first(&peers->pending)) != NULL &&
		now >= inward_at(entry)->deadline)
		inward_end(inward_at(entry));
	if (now >= peers->listen_again)
		listener_resume(peers);
}
