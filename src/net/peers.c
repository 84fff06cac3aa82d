/*
 * peers.c - struct env_peer over connections: its calls, its reports, begin and end.
 */
#include "net/peers.h"

#include "base/check.h"
#include "base/err.h"
#include "io/listener.h"
#include "net/peers_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_MAX (STREAM_WHY_MAX + ADDRESS_TEXT_MAX + 96)

static struct peers *peers_of(void *ctx)
{
	return ctx;
}

void peers_warn(struct peers *peers, const char *host, const char *text)
{
	const struct peers_events *events = &peers->config.events;
	char more[WARN_MAX];
	uint64_t kept;

	if (!hush_may_tell(&peers->hush, host, loop_boot_ns(), &kept))
		return;
	if (kept == 0) {
		events->warn(events->ctx, text);
		return;
	}
	(void)snprintf(more, sizeof(more), "%s (and %" PRIu64 " times more since then)",
		text, kept);
	events->warn(events->ctx, more);
}

int peers_send_frame(struct peers *peers, struct stream *stream, uint32_t channel,
	const void *message, size_t size)
{
	CHECK(size >= MSG_HEADER_SIZE && size <= MSG_SIZE_MAX);
	frame_write(peers->frame, channel, size);
	memcpy(peers->frame + FRAME_HEADER_SIZE, message, size);
	return stream_send(stream, peers->frame, FRAME_HEADER_SIZE + size);
}

/* ---- reports ------------------------------------------------------------- */

void peers_report(struct peers *peers, struct report *report)
{
	list_add_tail(&peers->reports, &report->entry);
}

static void report_tell(struct peers *peers, struct report *report)
{
	const struct peers_events *events = &peers->config.events;
	struct outward *outward;
	struct inward *inward;
	struct fetch_refused *refused;
	struct link_id id;

	switch (report->kind) {
	case REPORT_DOWN:
		outward = container_of(report, struct outward, report);
		outward->state = OUTWARD_NONE;
		events->peer_down(events->ctx, (uint32_t)(outward - peers->outwards),
			outward->err, outward->why);
		return;
	case REPORT_CLOSE:
		inward = container_of(report, struct inward, report);
		id = inward_id(inward);
		inward_free(inward);
		events->link_close(events->ctx, id);
		return;
	case REPORT_FETCH:
		refused = container_of(report, struct fetch_refused, report);
		events->fetch(events->ctx, (uint32_t)(refused - peers->refused),
			ERR_TRANSFER_FAIL, 0);
		return;
	}
}

bool peers_turn(struct peers *peers, uint64_t now)
{
	bool any = false;

	list_for_each_safe (entry, &peers->rising)
		outward_due(container_of(entry, struct outward, rising), now);
	inward_due(peers, now);
	/* Each has one report at most, and a caller waits before he tries again. */
	while (!list_is_empty(&peers->reports)) {
		struct list *entry = list_first(&peers->reports);

		list_del(entry);
		report_tell(peers, container_of(entry, struct report, entry));
		any = true;
	}
	return any;
}

uint64_t peers_next(const struct peers *peers)
{
	uint64_t next = inward_next(peers);

	if (!list_is_empty(&peers->reports))
		return 0;
	list_for_each (entry, &peers->rising)
		next = MIN(
			next, outward_next(container_of(entry, struct outward, rising)));
	return next;
}

/* ---- env_peer ------------------------------------------------------------ */

static struct outward *outward_of(void *ctx, uint32_t peer)
{
	CHECK(peer < PEER_LIMIT);
	return &peers_of(ctx)->outwards[peer];
}

static void env_connect(void *ctx, uint32_t peer, const char *endpoint)
{
	outward_connect(outward_of(ctx, peer), endpoint);
}

static void env_send(
	void *ctx, uint32_t peer, uint32_t channel, const void *message, size_t size)
{
	outward_send(outward_of(ctx, peer), channel, message, size);
}

static void env_close(void *ctx, uint32_t peer)
{
	outward_end(outward_of(ctx, peer), ERR_UNAVAILABLE, "closed by this node");
}

static void env_answer(void *ctx, struct link_id link, uint32_t channel,
	const void *message, size_t size)
{
	struct inward *inward = inward_of(peers_of(ctx), link);

	if (inward != NULL)
		inward_answer(inward, channel, message, size);
}

static void env_close_link(void *ctx, struct link_id link)
{
	struct inward *inward = inward_of(peers_of(ctx), link);

	if (inward != NULL)
		inward_end(inward);
}

static int env_offer(
	void *ctx, const struct peer_offer *offer, struct peer_ticket *ret_ticket)
{
	return bulk_offer(peers_of(ctx)->bulk, offer, ret_ticket);
}

static void env_withdraw(void *ctx, const struct peer_ticket *ticket)
{
	bulk_withdraw(peers_of(ctx)->bulk, ticket);
}

static void env_fetch(void *ctx, uint32_t fetch, const struct peer_fetch *what)
{
	struct peers *peers = peers_of(ctx);
	const struct outward *outward = outward_of(ctx, what->peer);

	CHECK(fetch < PEER_TRANSFERS);
	if (outward->state == OUTWARD_UP)
		bulk_fetch(peers->bulk, fetch, what, &outward->address);
	else
		peers_report(peers, &peers->refused[fetch].report);
}

static void env_stop_fetch(void *ctx, uint32_t fetch)
{
	CHECK(fetch < PEER_TRANSFERS);
	bulk_stop(peers_of(ctx)->bulk, fetch);
}

void peers_env(struct peers *peers, struct env_peer *ret_env)
{
	*ret_env = (struct env_peer){peers, env_connect, env_send, env_close, env_answer,
		env_close_link, env_offer, env_withdraw, env_fetch, env_stop_fetch};
}

/* ---- begin and end ------------------------------------------------------- */

static void on_bulk_done(void *ctx, uint32_t fetch, int err, uint64_t checksum)
{
	const struct peers_events *events = &peers_of(ctx)->config.events;

	events->fetch(events->ctx, fetch, err, checksum);
}

static void on_bulk_warn(void *ctx, const char *host, const char *text)
{
	peers_warn(peers_of(ctx), host, text);
}

static void peers_init(struct peers *peers)
{
	list_init(&peers->rising);
	list_init(&peers->free);
	list_init(&peers->pending);
	list_init(&peers->reports);
	peers->listener.fd = -1;
	peers->listen_again = UINT64_MAX;
	for (uint32_t i = 0; i < PEER_LIMIT; i++) {
		struct outward *outward = &peers->outwards[i];

		outward->peers = peers;
		list_init(&outward->rising);
		list_init(&outward->report.entry);
		outward->report.kind = REPORT_DOWN;
	}
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		list_init(&peers->refused[i].report.entry);
		peers->refused[i].report.kind = REPORT_FETCH;
	}
	for (uint32_t i = 0; i < PEERS_LINKS; i++) {
		struct inward *inward = &peers->inwards[i];

		inward->peers = peers;
		list_init(&inward->report.entry);
		inward->report.kind = REPORT_CLOSE;
		list_add_tail(&peers->free, &inward->entry);
	}
}

static int peers_open_bulk(struct peers *peers)
{
	const struct peers_config *config = &peers->config;
	const struct bulk_config bulk = {
		.loop = config->loop,
		.tls = config->secure == PEERS_SECURE_ALL ? config->tls : NULL,
		.share = config->share,
		.offers = config->offers,
		.ctx = peers,
		.done = on_bulk_done,
		.warn = on_bulk_warn,
	};

	return bulk_open(&peers->bulk, &bulk);
}

static int config_check(const struct peers_config *config, char *message, size_t size)
{
	bool is_secure = config->secure != PEERS_SECURE_NONE;

	if (is_secure != (config->tls != NULL) ||
		(is_secure && !tls_serves(config->tls))) {
		(void)snprintf(message, size,
			"connections between nodes need a key or certificates, or to be "
			"told to go without");
		return ERR_BAD_ARGUMENT;
	}
	if (config->offers == 0 || config->offers > PEERS_OFFERS_MAX) {
		(void)snprintf(message, size, "%u offers: there can be 1 to %u",
			config->offers, PEERS_OFFERS_MAX);
		return ERR_BAD_ARGUMENT;
	}
	return 0;
}

int peers_open(struct peers **ret, const struct peers_config *config, char *message,
	size_t message_size)
{
	int err = config_check(config, message, message_size);
	struct peers *peers;

	if (err != 0)
		return err;
	(void)snprintf(message, message_size, "no memory for connections to other nodes");
	peers = calloc(1, sizeof(*peers));
	if (peers == NULL)
		return ERR_NO_MEMORY;
	peers->config = *config;
	peers->inwards = calloc((size_t)PEERS_LINKS, sizeof(peers->inwards[0]));
	if (peers->inwards == NULL) {
		free(peers);
		return ERR_NO_MEMORY;
	}
	peers_init(peers);
	err = peers_open_bulk(peers);
	if (err == 0)
		err = inward_listen(peers, message, message_size);
	if (err != 0) {
		peers_close(peers);
		return err;
	}
	*ret = peers;
	return 0;
}

uint16_t peers_port(const struct peers *peers)
{
	return listener_port(peers->listener.fd);
}

void peers_close(struct peers *peers)
{
	if (peers == NULL)
		return;
	for (uint32_t i = 0; i < PEER_LIMIT; i++)
		stream_close(&peers->outwards[i].stream);
	inward_close_all(peers);
	bulk_close(peers->bulk);
	free(peers->inwards);
	free(peers);
}
