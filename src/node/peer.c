/*
 * peer.c - the other nodes: who they are, whether they live, the connection to each.
 *
 * The directory names the members; each is asked over a connection that this node makes,
 * and tells every BEAT_NS that it lives. One that does not answer for SUSPECT_NS is asked
 * nothing more, and what it was asked ends; until GONE_NS it is still taken to have whatever
 * it may have. Time in which this node itself did not run counts for nobody's silence.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STALL_NS 500000000ull

static struct peer *peer_at(struct node *node, uint32_t place)
{
	return &node->cluster.peers[place];
}

static const char *peer_text(const struct peer *peer, char text[64])
{
	(void)snprintf(text, 64, "%016" PRIx64, peer->id);
	return text;
}

static void peers_look_soon(struct node *node)
{
	node->cluster.peers_due_ns = 0;
}

/* ---- who they are -------------------------------------------------------- */

bool peer_is_live(const struct node *node, const struct peer *peer)
{
	if (peer->state == PEER_FREE || peer->left)
		return false;
	return peer->state == PEER_UP || node_now(node) - peer->heard_ns < GONE_NS;
}

bool peer_is_being_met(const struct node *node, const struct peer *peer)
{
	switch (peer->state) {
	case PEER_DOWN:
	case PEER_CONNECTING:
	case PEER_GREETING:
		/* It neither was up nor could not be reached, as yet. */
		return peer->backoff_ns == 0 && peer->endpoint[0] != '\0' &&
		       !peer->left && node_now(node) - peer->heard_ns < SUSPECT_NS;
	case PEER_FREE:
	case PEER_UP:
	case PEER_CLOSING:
		break;
	}
	return false;
}

uint32_t peer_find(const struct node *node, uint64_t id)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (node->cluster.peers[place].state != PEER_FREE &&
			node->cluster.peers[place].id == id)
			return place;
	}
	return PEER_LIMIT;
}

/* One that nobody has heard of for long, if there is no other. */
static uint32_t peer_find_place(struct node *node)
{
	uint32_t stale = PEER_LIMIT;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = peer_at(node, place);

		if (peer->state == PEER_FREE)
			return place;
		if (peer->state == PEER_DOWN && !peer_is_live(node, peer) &&
			node_now(node) - peer->member_ns > GONE_NS &&
			(stale == PEER_LIMIT ||
				peer->heard_ns < peer_at(node, stale)->heard_ns))
			stale = place;
	}
	return stale;
}

static void peer_set_endpoint(struct peer *peer, const char *endpoint)
{
	(void)snprintf(peer->endpoint, sizeof(peer->endpoint), "%s", endpoint);
}

uint32_t peer_meet(
	struct node *node, uint64_t id, uint64_t incarnation, const char *endpoint)
{
	uint32_t place = peer_find(node, id);
	struct peer *peer;

	if (place == PEER_LIMIT) {
		place = peer_find_place(node);
		if (place == PEER_LIMIT)
			return PEER_LIMIT;
		peer = peer_at(node, place);
		graves_forget_peer(node, place);
		/* As if cut: before it was met it may have removed what is here. */
		*peer = (struct peer){.state = PEER_DOWN, .id = id, .was_cut = true};
		list_init(&peer->asks);
		peer->heard_ns = node_now(node);
		peers_look_soon(node);
	}
	peer = peer_at(node, place);
	if (peer->incarnation != 0 && peer->incarnation != incarnation)
		rebuild_peer_is_gone(node);
	peer->incarnation = incarnation;
	if (strcmp(peer->endpoint, endpoint) != 0) {
		peer_set_endpoint(peer, endpoint);
		peer->replaced = false; /* it was somewhere else already */
		peer->retry_ns = 0;
		peers_look_soon(node);
	}
	return place;
}

uint32_t peer_note(struct node *node, uint64_t id, uint64_t incarnation)
{
	uint32_t place = peer_meet(node, id, incarnation, "");

	if (place != PEER_LIMIT && peer_at(node, place)->endpoint[0] == '\0') {
		peer_at(node, place)->heard_ns = 0;
		peer_at(node, place)->was_gone = true;
	}
	return place;
}

void peer_heard(struct node *node, uint32_t place)
{
	struct peer *peer = peer_at(node, place);

	peer->heard_ns = peer->answered_ns = node_now(node);
}

void peer_note_generation(struct node *node, uint32_t place, uint64_t generation)
{
	peer_at(node, place)->generation = generation;
	master_note_generation(&node->master, generation);
}

uint32_t peers_live_ids(const struct node *node, uint64_t *nodes)
{
	uint32_t count = 0;

	nodes[count++] = node->cluster.id;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (peer_is_up(&node->cluster.peers[place]))
			nodes[count++] = node->cluster.peers[place].id;
	}
	return count;
}

uint32_t peers_up(const struct node *node)
{
	uint32_t count = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++)
		count += peer_is_up(&node->cluster.peers[place]);
	return count;
}

uint64_t peers_without_disk(const struct node *node)
{
	uint64_t places = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (node->cluster.peers[place].no_disk)
			places |= 1ull << place;
	}
	return places;
}

bool peers_any_beside(const struct node *node, uint64_t places)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (peer_is_up(&node->cluster.peers[place]) && !(places >> place & 1))
			return true;
	}
	return false;
}

uint64_t peers_suspect(const struct node *node)
{
	uint64_t places = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];

		if (!peer_is_up(peer) && peer_is_live(node, peer))
			places |= 1ull << place;
	}
	return places;
}

bool peers_are_up(const struct node *node)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];

		if (peer->state != PEER_FREE && !peer_is_up(peer))
			return false;
	}
	return true;
}

/* ---- the connection ------------------------------------------------------ */

/* The address is known to be of another: nothing is asked of it. */
static void peer_refuse(struct node *node, uint32_t place, const char *why)
{
	struct peer *peer = peer_at(node, place);
	char id[64], quoted[256];

	node->cluster.stats.refused++;
	if (peer->refused_ns == 0 || node_now(node) - peer->refused_ns >= TELL_AGAIN_NS) {
		peer->refused_ns = node_now(node);
		log_line(node->config.log, LOG_LEVEL_WARNING, "peer_refused",
			"node=%s endpoint=%s msg=\"%s\"", peer_text(peer, id),
			peer->endpoint, log_quote(quoted, sizeof(quoted), why));
	}
	peer->state = PEER_CLOSING;
	node->env.peer.close(node->env.peer.ctx, place);
}

static void peer_is_up_now(struct node *node, uint32_t place)
{
	struct peer *peer = peer_at(node, place);
	char id[64];

	peer->state = PEER_UP;
	peer->backoff_ns = 0;
	peer->beating = false;
	peer->beat_ns = node_now(node);
	peer_heard(node, place);
	log_line(node->config.log, LOG_LEVEL_INFO, "peer_up", "node=%s endpoint=%s",
		peer_text(peer, id), peer->endpoint);
	/* It, or this node, may have been away while things were removed, or it died before it
	 * had told this one. */
	if (peer->was_cut)
		announce_all(node);
	peer->was_gone = peer->was_cut = peer->left = peer->replaced = false;
	peer->no_disk = false;
	rebuild_peer_is_up(node);
	graves_tell(node, place);
	replaced_tell(node, place);
	overtaken_tell(node, place);
	cluster_changed(node);
	fetches_look_again(node);
	peers_look_soon(node);
}

static void peer_greeted(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct peer *peer = peer_at(node, ask->peer);
	struct msg_peer_welcome msg;
	struct msg_error refusal;
	char why[256];

	if (err != 0 || peer->state != PEER_GREETING)
		return;
	if (msg_error_decode(message, size, &refusal) == 0) {
		(void)snprintf(why, sizeof(why), "it refuses this node: %.*s",
			(int)MIN(refusal.text.size, 200u),
			(const char *)refusal.text.data);
		peer_refuse(node, ask->peer, why);
		return;
	}
	if (msg_peer_welcome_decode(message, size, &msg) != 0 ||
		msg.version != WIRE_VERSION) {
		peer_refuse(node, ask->peer, "it does not answer as a node does");
		return;
	}
	if (msg.node != peer->id) {
		(void)snprintf(
			why, sizeof(why), "node %016" PRIx64 " answers there", msg.node);
		peer_refuse(node, ask->peer, why);
		return;
	}
	if (peer->incarnation != msg.incarnation)
		rebuild_peer_is_gone(node);
	peer->incarnation = msg.incarnation;
	peer_note_generation(node, ask->peer, msg.generation);
	peer_is_up_now(node, ask->peer);
}

void node_on_peer_up(struct node *node, uint32_t place)
{
	struct cluster *cluster = &node->cluster;
	struct msg_peer_hello msg = {
		.version = WIRE_VERSION,
		.node = cluster->id,
		.incarnation = cluster->incarnation,
		.generation = node->master.last_generation,
		.cluster = {cluster->name, strlen(cluster->name)},
		.endpoint = {cluster->endpoint, strlen(cluster->endpoint)},
	};
	struct peer *peer = peer_at(node, place);

	node_tick(node);
	if (peer->state != PEER_CONNECTING)
		return;
	peer->state = PEER_GREETING;
	peer->answered_ns = node_now(node);
	peers_look_soon(node);
	if (ask_send(node, place,
		    msg_peer_hello_encode(node->out, sizeof(node->out), &msg),
		    peer_greeted) == NULL)
		peer_refuse(node, place, "too many requests are under way to greet it");
}

void node_on_peer_down(struct node *node, uint32_t place, int err)
{
	struct peer *peer = peer_at(node, place);
	bool was_up = peer->state == PEER_UP || peer->state == PEER_CLOSING;
	char id[64];

	node_tick(node);
	if (peer->state == PEER_FREE)
		return;
	peer->state = PEER_DOWN;
	peer->was_cut |= was_up;
	peer->backoff_ns = peer->backoff_ns == 0
				   ? RECONNECT_NS
				   : MIN(2 * peer->backoff_ns, RECONNECT_MOST);
	peer->retry_ns = node_now(node) + peer->backoff_ns;
	log_line(node->config.log, was_up ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "peer_down",
		"node=%s endpoint=%s error=%s", peer_text(peer, id), peer->endpoint,
		err_name(err));
	asks_fail(node, place, ERR_UNAVAILABLE);
	cluster_changed(node);
	peers_look_soon(node);
}

static void peer_connect(struct node *node, uint32_t place)
{
	peer_at(node, place)->state = PEER_CONNECTING;
	node->env.peer.connect(node->env.peer.ctx, place, peer_at(node, place)->endpoint);
}

/* ---- whether they live --------------------------------------------------- */

void peer_take_beat(
	struct node *node, uint32_t place, uint64_t free_bytes, uint64_t generation)
{
	peer_at(node, place)->free_bytes = free_bytes;
	peer_note_generation(node, place, generation);
}

void peer_take_epochs(struct node *node, uint32_t place, uint64_t since_ns,
	const void *epochs, size_t size)
{
	struct peer *peer = peer_at(node, place);
	uint32_t count = (uint32_t)MIN(size / 8, (size_t)DIR_DOMAINS);
	bool changed = count != peer->epoch_count;

	/* Its own beats come in their order, but an answer may be older than the last of them. */
	if (since_ns < peer->epochs_ns)
		return;
	peer->epochs_ns = since_ns;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t epoch;

		memcpy(&epoch, (const unsigned char *)epochs + 8 * i, 8);
		changed |= peer->epochs[i] != le64toh(epoch);
		peer->epochs[i] = le64toh(epoch);
	}
	peer->epoch_count = count;
	if (changed)
		cluster_changed(node);
}

static void peer_beaten(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct msg_beaten msg;

	peer_at(node, ask->peer)->beating = false;
	if (err != 0 || msg_beaten_decode(message, size, &msg) != 0)
		return;
	overtaken_heard(node, ask);
	peer_take_beat(node, ask->peer, msg.free_bytes, msg.generation);
	peer_take_epochs(node, ask->peer, ask->sent_ns, msg.epochs.data, msg.epochs.size);
}

static void peer_beat(struct node *node, uint32_t place, uint64_t now)
{
	struct peer *peer = peer_at(node, place);
	uint8_t epochs[BEAT_EPOCHS_SIZE];
	struct msg_beat msg = {
		.free_bytes = keep_credit(node),
		.generation = node->master.last_generation,
		.epochs = {epochs, epochs_pack(node, epochs)},
	};

	peer->beat_ns = now + BEAT_NS;
	if (peer->beating)
		return;
	peer->beating = ask_send(node, place,
				msg_beat_encode(node->out, sizeof(node->out), &msg),
				peer_beaten) != NULL;
}

void peers_beat(struct node *node)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		struct peer *peer = peer_at(node, place);

		if (!peer_is_up(peer))
			continue;
		peer->beating = false; /* what it has not answered yet is of before */
		peer_beat(node, place, node_now(node));
	}
}

static void peer_is_suspect(struct node *node, uint32_t place)
{
	struct peer *peer = peer_at(node, place);
	char id[64];

	node->cluster.stats.suspects++;
	log_line(node->config.log, LOG_LEVEL_WARNING, "peer_silent",
		"node=%s endpoint=%s msg=\"it has not answered for %u ms\"",
		peer_text(peer, id), peer->endpoint, (unsigned)(SUSPECT_NS / 1000000));
	peer->state = PEER_CLOSING;
	node->env.peer.close(node->env.peer.ctx, place);
	asks_fail(node, place, ERR_UNAVAILABLE);
	cluster_changed(node);
}

static void peer_look_gone(struct node *node, struct peer *peer, uint64_t now)
{
	char id[64];

	if (peer_is_live(node, peer)) {
		peer->was_gone =
			false; /* it was heard of again, or this node had stood still */
		return;
	}
	if (now - peer->member_ns < GONE_NS)
		peer->was_cut = true;
	if (peer->was_gone)
		return;
	peer->was_gone = true;
	announce_all(node); /* what it has removed, and told nobody */
	rebuild_peer_is_gone(node);
	log_line(node->config.log, LOG_LEVEL_WARNING, "peer_gone",
		"node=%s endpoint=%s msg=\"it was not heard of for %u ms\"",
		peer_text(peer, id), peer->endpoint, (unsigned)(GONE_NS / 1000000));
	cluster_changed(node);
}

/* Nobody waits for it, nor is it missed: all that it had to tell it has told. */
void peer_leaves(struct node *node, uint32_t place)
{
	struct peer *peer = peer_at(node, place);
	char id[64];

	peer->left = peer->was_gone = peer->was_cut = true;
	/* What it keeps is not put anew, as if it were no more, before it could be back. */
	peer->member_ns = node_now(node);
	log_line(node->config.log, LOG_LEVEL_INFO, "peer_left", "node=%s endpoint=%s",
		peer_text(peer, id), peer->endpoint);
	if (peer->state == PEER_UP || peer->state == PEER_GREETING) {
		peer->state = PEER_CLOSING;
		node->env.peer.close(node->env.peer.ctx, place);
	}
	asks_fail(node, place, ERR_UNAVAILABLE);
	cluster_changed(node);
}

/* When the peer is to be looked at again. */
static uint64_t peer_step(struct node *node, uint32_t place, uint64_t now)
{
	struct peer *peer = peer_at(node, place);
	uint64_t next = UINT64_MAX;

	switch (peer->state) {
	case PEER_FREE:
		return UINT64_MAX;
	case PEER_UP:
		if (now - peer->answered_ns >= SUSPECT_NS) {
			peer_is_suspect(node, place);
			break;
		}
		if (now >= peer->beat_ns)
			peer_beat(node, place, now);
		next = MIN(peer->beat_ns, peer->answered_ns + SUSPECT_NS);
		break;
	case PEER_GREETING:
		if (now - peer->answered_ns >= SUSPECT_NS)
			peer_is_suspect(node, place);
		next = peer->answered_ns + SUSPECT_NS;
		break;
	case PEER_DOWN:
		if (peer->endpoint[0] == '\0') /* only an entry has named it yet */
			break;
		/* One that nobody names any more is gone for good, or will be named again. */
		if (now >= peer->retry_ns &&
			(peer_is_live(node, peer) || now - peer->member_ns < GONE_NS))
			peer_connect(node, place);
		else if (now < peer->retry_ns)
			next = peer->retry_ns;
		break;
	case PEER_CONNECTING:
	case PEER_CLOSING:
		break;
	}
	peer_look_gone(node, peer, now);
	peer_look_replaced(node, place);
	if (!peer->was_gone)
		next = MIN(next, peer->heard_ns + GONE_NS);
	return MAX(next, now + 1);
}

/* Who was not looked at meanwhile is not to blame. */
static void peers_forgive(struct node *node, uint64_t now)
{
	struct cluster *cluster = &node->cluster;
	uint64_t stall = now - cluster->stepped_ns;

	cluster->stepped_ns = now;
	if (stall < STALL_NS)
		return;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		struct peer *peer = peer_at(node, place);

		if (peer->state == PEER_FREE)
			continue;
		peer->heard_ns = MIN(now, peer->heard_ns + stall);
		peer->answered_ns = MIN(now, peer->answered_ns + stall);
	}
}

void peers_step(struct node *node, uint64_t now)
{
	struct cluster *cluster = &node->cluster;
	uint64_t next = UINT64_MAX;

	peers_forgive(node, now);
	if (now < cluster->peers_due_ns)
		return;
	cluster->peers_due_ns = UINT64_MAX;
	for (uint32_t place = 0; place < PEER_LIMIT; place++)
		next = MIN(next, peer_step(node, place, now));
	/* A step may have changed what the next one is to look at. */
	cluster->peers_due_ns = MIN(cluster->peers_due_ns, next);
}
