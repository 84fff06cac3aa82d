/*
 * wire.c - connections between nodes.
 *
 *   dial -> LINK --accepted--> UP --> messages both ways --> CLOSE to each end --> gone
 *             '--nobody listens--> CLOSE to the dialer
 *
 * As TCP has it: order is kept within a connection, and not between two; what a cut holds up
 * arrives late, or the connection breaks and it is lost; each end learns of a break in its own
 * time, so that the dialed one may still have the old connection, and read what came over it,
 * when the next one stands. A daemon's death closes its connections; that of a host tells
 * nobody for long.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define QUIET_DEATH_NS (4 * NS_S)

/* ---- who reaches whom ---------------------------------------------------- */

bool hosts_are_joined(const struct sim *sim, const struct host *a, const struct host *b)
{
	return !sim->cut[a->index][b->index] && !sim->cut[b->index][a->index];
}

static bool is_cut(const struct sim *sim, const struct wire *wire, enum wire_end to)
{
	return sim->cut[wire->hosts[!to]->index][wire->hosts[to]->index];
}

/* ---- frames -------------------------------------------------------------- */

static struct frame *frame_new(enum frame_kind kind, const void *bytes, size_t size)
{
	struct frame *frame = calloc(1, sizeof(*frame) + size);

	CHECK(frame != NULL);
	frame->kind = kind;
	frame->size = size;
	list_init(&frame->entry);
	if (size > 0)
		memcpy(frame->bytes, bytes, size);
	return frame;
}

static struct frame *frame_first(const struct wire *wire, enum wire_end end)
{
	struct list *first = list_first(&wire->queues[end]);

	return first == NULL ? NULL : container_of(first, struct frame, entry);
}

/* An end that has closed hears nothing more but of that. */
static void frame_push(
	struct sim *sim, struct wire *wire, enum wire_end end, struct frame *frame)
{
	struct list *last = list_last(&wire->queues[end]);

	if (wire->deaf[end] && !frame->is_local) {
		free(frame);
		return;
	}
	frame->due_ns = sim->now_ns + sim_about(sim, sim->profile.far_ns);
	if (last != NULL)
		frame->due_ns = MAX(
			frame->due_ns, container_of(last, struct frame, entry)->due_ns);
	list_add_tail(&wire->queues[end], &frame->entry);
}

static void queue_drop(struct list *queue)
{
	list_for_each_safe (at, queue) {
		list_del(at);
		free(container_of(at, struct frame, entry));
	}
}

static void push_close(
	struct sim *sim, struct wire *wire, enum wire_end end, bool is_local)
{
	struct frame *frame = frame_new(FRAME_CLOSE, NULL, 0);

	frame->is_local = is_local;
	frame_push(sim, wire, end, frame);
}

/* ---- connections --------------------------------------------------------- */

static struct wire *wire_of(struct list *entry)
{
	return container_of(entry, struct wire, entry);
}

/* The daemon at that end is still the one that had it. */
static bool end_lives(const struct wire *wire, enum wire_end end)
{
	const struct host *host = wire->hosts[end];

	return wire->open[end] && host_is_up(host) && host->life == wire->lives[end];
}

struct wire *wire_find(const struct host *host, uint32_t place)
{
	list_for_each (at, &host->sim->wires) {
		struct wire *wire = wire_of(at);

		if (wire->hosts[WIRE_DIALER] == host && wire->place == place &&
			end_lives(wire, WIRE_DIALER) && !wire->deaf[WIRE_DIALER])
			return wire;
	}
	return NULL;
}

static struct wire *wire_find_link(const struct host *host, uint64_t link)
{
	list_for_each (at, &host->sim->wires) {
		struct wire *wire = wire_of(at);

		if (wire->hosts[WIRE_DIALED] == host && wire->link == link &&
			end_lives(wire, WIRE_DIALED) && !wire->deaf[WIRE_DIALED])
			return wire;
	}
	return NULL;
}

static struct host *host_at(struct sim *sim, const char *endpoint)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (strcmp(sim->hosts[i].endpoint, endpoint) == 0)
			return &sim->hosts[i];
	}
	sim_fail(sim, "a node dials %s, where nobody ever was", endpoint);
}

void wire_dial(struct host *host, uint32_t place, const char *endpoint)
{
	struct sim *sim = host->sim;
	struct wire *wire = calloc(1, sizeof(*wire));

	CHECK(wire != NULL);
	if (wire_find(host, place) != NULL)
		sim_fail(
			sim, "host %u dials place %" PRIu32 " twice", host->index, place);
	wire->hosts[WIRE_DIALER] = host;
	wire->hosts[WIRE_DIALED] = host_at(sim, endpoint);
	wire->lives[WIRE_DIALER] = host->life;
	wire->open[WIRE_DIALER] = true;
	wire->place = place;
	wire->link = ++sim->last_wire;
	wire->patience_ns = NS_S + sim_pick(sim, 5 * NS_S);
	list_init(&wire->queues[WIRE_DIALER]);
	list_init(&wire->queues[WIRE_DIALED]);
	list_add_tail(&sim->wires, &wire->entry);
	frame_push(sim, wire, WIRE_DIALED, frame_new(FRAME_LINK, NULL, 0));
}

static void wire_settle(struct wire *wire)
{
	for (int end = 0; end < WIRE_ENDS; end++) {
		if (wire->open[end] || !list_is_empty(&wire->queues[end]))
			return;
	}
	list_del(&wire->entry);
	free(wire);
}

/* ---- what daemons say ---------------------------------------------------- */

/* A byte of a value flips, which only its checksum tells. */
static void frame_spoil(struct sim *sim, struct frame *frame)
{
	struct msg_replica msg;

	if (msg_replica_decode(frame->bytes, frame->size, &msg) != 0 ||
		msg.value.size == 0 || !noise_is_due(sim))
		return;
	trace_event(&sim->trace, "a byte of a value flips");
	sim_cover(sim, COVER_CORRUPTED);
	frame->bytes[frame->size - 1 - sim_pick(sim, msg.value.size)] ^= 1;
}

static void wire_push(struct sim *sim, struct wire *wire, enum wire_end to,
	uint32_t channel, const void *message, size_t size)
{
	struct frame *frame = frame_new(FRAME_MESSAGE, message, size);

	frame->channel = channel;
	frame_spoil(sim, frame);
	frame_push(sim, wire, to, frame);
}

static void trace_message(struct sim *sim, unsigned host, enum msg_type type,
	const void *message, size_t size)
{
	struct msg_drop drop;
	struct msg_keep keep;
	struct msg_error error;

	if (msg_drop_decode(message, size, &drop) == 0)
		trace_event(&sim->trace, "host %u sends a peer DROP of %.2s %" PRIx64,
			host, (const char *)drop.key.data, drop.generation);
	else if (msg_keep_decode(message, size, &keep) == 0)
		trace_event(&sim->trace,
			"host %u sends a peer KEEP of %.2s %" PRIx64 "%s", host,
			(const char *)keep.key.data, keep.generation,
			keep.from == 0 ? "" : ", in place of another");
	else if (msg_error_decode(message, size, &error) == 0)
		trace_event(&sim->trace, "host %u sends a peer ERROR %s %.*s", host,
			err_name(error.code), (int)MIN(error.text.size, 120u),
			(const char *)error.text.data);
	else
		trace_event(&sim->trace, "host %u sends a peer %s", host, msg_name(type));
}

static void check_message(
	struct sim *sim, const struct host *host, const void *message, size_t size)
{
	enum msg_type type;

	if (msg_type(message, size, &type) != 0)
		sim_fail(sim, "host %u sent another what is no message", host->index);
	trace_message(sim, host->index, type, message, size);
}

void wire_send(struct host *host, uint32_t place, uint32_t channel, const void *message,
	size_t size)
{
	struct wire *wire = wire_find(host, place);

	check_message(host->sim, host, message, size);
	if (wire == NULL)
		return;
	hand_message(wire, WIRE_DIALED, message, size, false);
	wire_push(host->sim, wire, WIRE_DIALED, channel, message, size);
}

void wire_answer(struct host *host, uint64_t link, uint32_t channel, const void *message,
	size_t size)
{
	struct wire *wire = wire_find_link(host, link);

	check_message(host->sim, host, message, size);
	if (wire == NULL)
		return;
	hand_message(wire, WIRE_DIALER, message, size, false);
	wire_push(host->sim, wire, WIRE_DIALER, channel, message, size);
}

/* ---- how they end -------------------------------------------------------- */

/* What was on its way to the other may still be read there, or is lost; what the dialer could
 * not get through to it is. */
static void hang_up(struct sim *sim, struct wire *wire, enum wire_end end)
{
	wire->deaf[end] = true;
	queue_drop(&wire->queues[end]);
	push_close(sim, wire, end, true);
	if (sim_chance(sim, 50) || (end == WIRE_DIALER && is_cut(sim, wire, !end)))
		queue_drop(&wire->queues[!end]);
	push_close(sim, wire, !end, false);
	if (end == WIRE_DIALER)
		transfers_break(sim, wire);
}

void wire_hang_up(struct host *host, uint32_t place)
{
	struct wire *wire = wire_find(host, place);

	if (wire != NULL)
		hang_up(host->sim, wire, WIRE_DIALER);
}

void wire_hang_up_link(struct host *host, uint64_t link)
{
	struct wire *wire = wire_find_link(host, link);

	if (wire != NULL)
		hang_up(host->sim, wire, WIRE_DIALED);
}

void wire_break(struct sim *sim, struct wire *wire)
{
	trace_event(&sim->trace, "connection %" PRIu64 " from %u to %u breaks",
		wire->link, wire->hosts[WIRE_DIALER]->index,
		wire->hosts[WIRE_DIALED]->index);
	sim_cover(sim, COVER_WIRE_BROKEN);
	trouble_note(sim, TROUBLE_CUT, wire->hosts[WIRE_DIALER]->index,
		wire->hosts[WIRE_DIALED]->index);
	for (int end = 0; end < WIRE_ENDS; end++) {
		if (wire->deaf[end])
			continue;
		queue_drop(&wire->queues[end]);
		wire->stuck_ns[end] = 0;
		if (wire->open[end])
			push_close(sim, wire, (enum wire_end)end, true);
	}
	transfers_break(sim, wire);
	wire_settle(wire);
}

static void end_died(
	struct sim *sim, struct wire *wire, enum wire_end end, bool with_host)
{
	struct list *last;

	wire->open[end] = false;
	wire->deaf[end] = true;
	queue_drop(&wire->queues[end]);
	if (with_host)
		queue_drop(&wire->queues[!end]);
	push_close(sim, wire, !end, with_host);
	last = list_last(&wire->queues[!end]);
	if (with_host && last != NULL)
		container_of(last, struct frame, entry)->due_ns += sim_pick(
			sim, QUIET_DEATH_NS);
}

void wire_host_died(struct host *host, bool with_host)
{
	list_for_each_safe (at, &host->sim->wires) {
		struct wire *wire = wire_of(at);

		for (int end = 0; end < WIRE_ENDS; end++) {
			if (wire->hosts[end] == host && wire->open[end] &&
				wire->lives[end] == host->life)
				end_died(host->sim, wire, (enum wire_end)end, with_host);
		}
		wire_settle(wire);
	}
}

/* ---- what arrives -------------------------------------------------------- */

bool wire_is_due(const struct sim *sim, const struct wire *wire, enum wire_end end)
{
	const struct frame *frame = frame_first(wire, end);

	if (frame == NULL || frame->due_ns > sim->now_ns)
		return false;
	if (wire->hosts[end]->stopped_ns > sim->now_ns)
		return false;
	return frame->is_local || !is_cut(sim, wire, end);
}

/* Somebody listens, or the dialer is told that nobody does. */
static void deliver_link(struct sim *sim, struct wire *wire)
{
	struct host *host = wire->hosts[WIRE_DIALED];
	struct event event = {.kind = EVENT_LINK, .link = wire->link};

	if (!host_is_up(host)) {
		push_close(sim, wire, WIRE_DIALER, false);
		return;
	}
	wire->lives[WIRE_DIALED] = host->life;
	wire->open[WIRE_DIALED] = true;
	frame_push(sim, wire, WIRE_DIALER, frame_new(FRAME_UP, NULL, 0));
	host_tell(host, &event);
}

static void deliver_close(struct wire *wire, enum wire_end end)
{
	struct event event = {
		.kind = end == WIRE_DIALER ? EVENT_PEER_DOWN : EVENT_LINK_CLOSE,
		.number = wire->place,
		.link = wire->link,
		.err = ERR_UNAVAILABLE,
	};
	bool is_known = end_lives(wire, end);

	/* The other's frames that were on their way come to nobody. */
	wire->open[end] = false;
	wire->deaf[end] = true;
	queue_drop(&wire->queues[end]);
	if (is_known)
		host_tell(wire->hosts[end], &event);
}

static void deliver_message(
	struct wire *wire, enum wire_end end, const struct frame *frame)
{
	struct event event = {
		.kind = end == WIRE_DIALER ? EVENT_PEER_ANSWER : EVENT_LINK_MESSAGE,
		.number = wire->place,
		.link = wire->link,
		.channel = frame->channel,
		.message = frame->bytes,
		.size = frame->size,
	};

	if (!end_lives(wire, end))
		return;
	hand_message(wire, end, frame->bytes, frame->size, true);
	host_tell(wire->hosts[end], &event);
}

void wire_deliver(struct sim *sim, struct wire *wire, enum wire_end end)
{
	struct frame *frame = frame_first(wire, end);
	struct event up = {.kind = EVENT_PEER_UP, .number = wire->place};

	list_del(&frame->entry);
	wire->stuck_ns[end] = 0;
	switch (frame->kind) {
	case FRAME_LINK:
		deliver_link(sim, wire);
		break;
	case FRAME_UP:
		if (end_lives(wire, end))
			host_tell(wire->hosts[end], &up);
		break;
	case FRAME_MESSAGE:
		deliver_message(wire, end, frame);
		break;
	case FRAME_CLOSE:
		if (end == WIRE_DIALER)
			transfers_break(sim, wire);
		deliver_close(wire, end);
		break;
	}
	free(frame);
}

/* ---- time ---------------------------------------------------------------- */

static void look_at(struct sim *sim, struct wire *wire, enum wire_end end)
{
	const struct frame *frame = frame_first(wire, end);

	if (frame == NULL || frame->is_local || !is_cut(sim, wire, end))
		wire->stuck_ns[end] = 0;
	else if (wire->stuck_ns[end] == 0)
		wire->stuck_ns[end] = sim->now_ns;
}

void wires_look(struct sim *sim)
{
	list_for_each_safe (at, &sim->wires) {
		look_at(sim, wire_of(at), WIRE_DIALER);
		look_at(sim, wire_of(at), WIRE_DIALED);
		wire_settle(wire_of(at));
	}
}

static uint64_t breaks_ns(const struct wire *wire)
{
	uint64_t next = UINT64_MAX;

	for (int end = 0; end < WIRE_ENDS; end++) {
		if (wire->stuck_ns[end] != 0)
			next = MIN(next, wire->stuck_ns[end] + wire->patience_ns);
	}
	return next;
}

bool wires_lose_patience(struct sim *sim)
{
	list_for_each (at, &sim->wires) {
		if (breaks_ns(wire_of(at)) > sim->now_ns)
			continue;
		wire_break(sim, wire_of(at));
		return true;
	}
	return false;
}

static uint64_t queue_next(
	const struct sim *sim, const struct wire *wire, enum wire_end end)
{
	const struct frame *frame = frame_first(wire, end);

	if (frame == NULL || (!frame->is_local && is_cut(sim, wire, end)))
		return UINT64_MAX;
	return MAX(frame->due_ns, wire->hosts[end]->stopped_ns);
}

uint64_t wires_next(const struct sim *sim)
{
	uint64_t next = UINT64_MAX;

	list_for_each (at, &sim->wires) {
		next = MIN(next, queue_next(sim, wire_of(at), WIRE_DIALER));
		next = MIN(next, queue_next(sim, wire_of(at), WIRE_DIALED));
		next = MIN(next, breaks_ns(wire_of(at)));
	}
	return next;
}

void wires_free(struct sim *sim)
{
	list_for_each_safe (at, &sim->wires) {
		queue_drop(&wire_of(at)->queues[WIRE_DIALER]);
		queue_drop(&wire_of(at)->queues[WIRE_DIALED]);
		list_del(at);
		free(wire_of(at));
	}
}
