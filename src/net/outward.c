/*
 * outward.c - control connections to other nodes: dialled, greeted, and what comes back.
 */
#include "base/check.h"
#include "base/err.h"
#include "net/peers_priv.h"

#include <stdio.h>
#include <string.h>

static uint32_t outward_place(const struct outward *outward)
{
	return (uint32_t)(outward - outward->peers->outwards);
}

void outward_end(struct outward *outward, int err, const char *why)
{
	if (outward->state == OUTWARD_NONE || outward->state == OUTWARD_ENDED)
		return;
	outward->state = OUTWARD_ENDED;
	outward->err = err;
	(void)snprintf(outward->why, sizeof(outward->why), "%s", why);
	list_del(&outward->rising);
	/* The system would go on trying to deliver: an order to end an object, say, that comes
	 * long after whoever gave it was answered. */
	stream_abort(&outward->stream);
	bulk_end_peer(outward->peers->bulk, outward_place(outward));
	peers_report(outward->peers, &outward->report);
}

/* The same, and worth a line: not merely that nobody is there. */
static void outward_fail(struct outward *outward, int err, const char *why)
{
	char text[STREAM_WHY_MAX + ADDRESS_TEXT_MAX + 4], address[ADDRESS_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s: %s",
		address_text(&outward->address, address), why);
	peers_warn(outward->peers, outward->address.host, text);
	outward_end(outward, err, why);
}

/* ---- events -------------------------------------------------------------- */

static void outward_on_up(void *ctx)
{
	struct outward *outward = ctx;
	const struct greeting greeting = {.version = NET_VERSION, .kind = NET_CONTROL};
	unsigned char bytes[GREETING_SIZE];
	int err;

	outward->state = OUTWARD_GREETING;
	outward->deadline = loop_boot_ns() + STREAM_OPEN_NS;
	greeting_write(bytes, &greeting);
	err = stream_send(&outward->stream, bytes, sizeof(bytes));
	if (err != 0)
		outward_end(outward, err, "no memory to greet it");
}

static void outward_refused(struct outward *outward, const struct greeting *greeting)
{
	char why[128];

	switch ((enum net_verdict)greeting->verdict) {
	case NET_OTHER_VERSION:
	case NET_WELCOME:
		(void)snprintf(why, sizeof(why),
			"it speaks version %u of the protocol between nodes, this one %u",
			(unsigned)greeting->version, NET_VERSION);
		outward_fail(outward, ERR_VERSION, why);
		return;
	case NET_REFUSED:
		outward_fail(outward, ERR_NOT_PERMITTED,
			"it takes no such connections: what is under TLS must be the "
			"same "
			"on all nodes");
		return;
	case NET_FULL:
		outward_fail(outward, ERR_TOO_MANY, "it takes no more connections");
		return;
	}
	outward_fail(outward, ERR_PROTOCOL, "it refuses this node, and says not why");
}

/* The other end has greeted. */
static void outward_greeted(struct outward *outward, const void *bytes)
{
	struct peers *peers = outward->peers;
	struct greeting greeting;

	if (greeting_read(bytes, &greeting) != 0) {
		outward_fail(outward, ERR_PROTOCOL, "it does not answer as a node does");
		return;
	}
	if (greeting.verdict != NET_WELCOME || greeting.version != NET_VERSION) {
		outward_refused(outward, &greeting);
		return;
	}
	outward->state = OUTWARD_UP;
	list_del(&outward->rising);
	peers->config.events.peer_up(peers->config.events.ctx, outward_place(outward));
}

static size_t outward_on_data(void *ctx, const void *bytes, size_t size)
{
	struct outward *outward = ctx;
	const struct peers_events *events = &outward->peers->config.events;
	const unsigned char *at = bytes;
	uint32_t life = outward->life;
	struct frame frame;
	size_t used = 0;
	int got;

	if (outward->state == OUTWARD_GREETING) {
		if (size < GREETING_SIZE)
			return 0;
		used = GREETING_SIZE;
		outward_greeted(outward, at);
	}
	while (outward->state == OUTWARD_UP && outward->life == life) {
		got = frame_read(at + used, size - used, &frame);
		if (got == 0)
			break;
		if (got < 0) {
			outward_fail(outward, ERR_PROTOCOL, "what came is no frame");
			break;
		}
		used += FRAME_HEADER_SIZE + frame.size;
		events->peer_answer(events->ctx, outward_place(outward), frame.channel,
			frame.message, frame.size);
	}
	return used;
}

static void outward_on_down(void *ctx, int err, const char *why)
{
	if (err == ERR_UNAVAILABLE || err == ERR_TIMEOUT)
		outward_end(ctx, err, why);
	else
		outward_fail(ctx, err, why);
}

static const struct stream_events outward_events = {
	.up = outward_on_up, .data = outward_on_data, .down = outward_on_down};

/* ---- calls --------------------------------------------------------------- */

void outward_connect(struct outward *outward, const char *endpoint)
{
	struct peers *peers = outward->peers;
	struct address address;
	char why[STREAM_WHY_MAX];
	int err;

	if (outward->state != OUTWARD_NONE)
		return;
	outward->state = OUTWARD_DIALING;
	outward->life++;
	list_add_tail(&peers->rising, &outward->rising);
	err = address_parse(endpoint, 0, &address, why, sizeof(why));
	if (err != 0) {
		outward_end(outward, err, why);
		return;
	}
	outward->address = address;
	err = stream_open(&outward->stream, peers->config.loop, &address,
		peers->config.tls, &outward_events, outward);
	if (err != 0)
		outward_end(outward, err, "no memory for a connection");
}

void outward_send(
	struct outward *outward, uint32_t channel, const void *message, size_t size)
{
	int err;

	if (outward->state != OUTWARD_UP)
		return;
	err = peers_send_frame(outward->peers, &outward->stream, channel, message, size);
	if (err != 0)
		outward_end(outward, ERR_UNAVAILABLE,
			err == ERR_BUSY ? "it does not take what is sent to it"
					: "no memory for what is sent to it");
}

/* ---- time ---------------------------------------------------------------- */

uint64_t outward_next(const struct outward *outward)
{
	return outward->state == OUTWARD_GREETING ? outward->deadline
						  : stream_next(&outward->stream);
}

void outward_due(struct outward *outward, uint64_t now)
{
	if (outward->state == OUTWARD_DIALING)
		stream_due(&outward->stream, now);
	else if (outward->state == OUTWARD_GREETING && now >= outward->deadline)
		outward_end(outward, ERR_TIMEOUT, "it does not greet");
}
