/*
 * conn.c - what lies between clients and daemon: messages on their way.
 *
 * A connection keeps the order of what is sent in one direction, and nothing else: each
 * packet is late by as much as the seed says, and its end arrives behind what was sent
 * before it. What a client sent on a connection that it closed is read before what it
 * sends on a later one: it lay in the socket before that was there. The daemon's death loses what it had not read; what it had sent is lost or
 * still arrives, as the seed says.
 */
#include "sim/sim.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static struct packet *packet_new(enum packet_kind kind, const void *bytes, size_t size)
{
	struct packet *packet = calloc(1, sizeof(*packet) + size);

	CHECK(packet != NULL);
	packet->kind = kind;
	packet->size = size;
	list_init(&packet->entry);
	if (size > 0)
		memcpy(packet->bytes, bytes, size);
	return packet;
}

static void packet_queue(struct sim *sim, struct list *queue, struct packet *packet)
{
	struct list *last = list_last(queue);

	packet->due_ns = sim->world.now_ns + sim_delay(sim);
	if (last != NULL) {
		uint64_t before = container_of(last, struct packet, entry)->due_ns;

		packet->due_ns = MAX(packet->due_ns, before);
	}
	list_add_tail(queue, &packet->entry);
}

static void queue_drop(struct list *queue)
{
	list_for_each_safe (at, queue) {
		list_del(at);
		free(container_of(at, struct packet, entry));
	}
}

void conn_init(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		list_init(&sim->conns[i].to_node);
		list_init(&sim->conns[i].to_client);
	}
}

void conn_fini(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		queue_drop(&sim->conns[i].to_node);
		queue_drop(&sim->conns[i].to_client);
	}
}

void conn_host_lost(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		queue_drop(&sim->conns[i].to_node);
		queue_drop(&sim->conns[i].to_client);
		sim->conns[i].id = 0;
	}
}

struct conn *conn_find(struct sim *sim, uint64_t id)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		if (sim->conns[i].id == id)
			return &sim->conns[i];
	}
	return NULL;
}

/* The place is free for another once both ends are closed and all has arrived. */
static void conn_settle(struct conn *conn)
{
	if (conn->thread == NULL)
		queue_drop(&conn->to_client);
	if (conn->thread == NULL && !conn->node_open && list_is_empty(&conn->to_node))
		conn->id = 0;
}

struct conn *conn_open(struct sim *sim, struct thread *thread)
{
	struct conn *conn = conn_find(sim, 0);

	if (conn == NULL)
		return NULL;
	conn->id = ++sim->last_conn;
	conn->process = thread->proc->process;
	conn->thread = thread;
	conn->node_open = false;
	conn->asked_count = 0;
	packet_queue(sim, &conn->to_node, packet_new(PACKET_OPEN, NULL, 0));
	return conn;
}

void conn_leave(struct sim *sim, struct conn *conn)
{
	conn->thread = NULL;
	if (sim->daemon.node != NULL)
		packet_queue(sim, &conn->to_node, packet_new(PACKET_CLOSE, NULL, 0));
	conn_settle(conn);
}

void conn_send(struct sim *sim, struct conn *conn, const void *message, size_t size)
{
	packet_queue(sim, &conn->to_node, packet_new(PACKET_MESSAGE, message, size));
}

void conn_answer(struct sim *sim, struct conn *conn, const void *message, size_t size,
	const struct env_grant *grant)
{
	struct packet *packet;

	if (conn->thread == NULL)
		return;
	packet = packet_new(PACKET_MESSAGE, message, size);
	if (grant != NULL) {
		packet->with_grant = true;
		packet->grant = *grant;
	}
	packet_queue(sim, &conn->to_client, packet);
}

/* What was sent on a connection before this one of the process, which is closed. */
static bool is_overtaking(const struct sim *sim, const struct conn *conn)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *other = &sim->conns[i];

		if (other->id != 0 && other->id < conn->id && other->thread == NULL &&
			other->process.pid == conn->process.pid &&
			other->process.start_time == conn->process.start_time &&
			!list_is_empty(&other->to_node))
			return true;
	}
	return false;
}

struct packet *conn_due_to_node(const struct sim *sim, const struct conn *conn)
{
	if (sim->daemon.node == NULL || list_is_empty(&conn->to_node) ||
		is_overtaking(sim, conn))
		return NULL;
	return conn_due(sim, &conn->to_node);
}

struct packet *conn_due(const struct sim *sim, const struct list *queue)
{
	struct list *first = list_first(queue);
	struct packet *packet;

	if (first == NULL)
		return NULL;
	packet = container_of(first, struct packet, entry);
	return packet->due_ns <= sim->world.now_ns ? packet : NULL;
}

void conn_deliver_to_node(struct sim *sim, struct conn *conn)
{
	struct packet *packet = conn_due(sim, &conn->to_node);

	list_del(&packet->entry);
	switch (packet->kind) {
	case PACKET_OPEN:
		conn->node_open = true;
		daemon_open(sim, conn);
		break;
	case PACKET_MESSAGE:
		if (conn->node_open)
			daemon_message(sim, conn, packet->bytes, packet->size);
		break;
	case PACKET_CLOSE:
		if (conn->node_open)
			daemon_close(sim, conn);
		break;
	}
	free(packet);
	conn_settle(conn);
}

void conn_deliver_to_client(struct sim *sim, struct conn *conn)
{
	struct packet *packet = conn_due(sim, &conn->to_client);
	struct thread *thread = conn->thread;

	list_del(&packet->entry);
	if (packet->kind == PACKET_CLOSE) {
		conn_leave(sim, conn);
		thread_receive(sim, thread, NULL);
	} else {
		thread_receive(sim, thread, packet);
	}
	free(packet);
	conn_settle(conn);
}

/* The daemon's end is closed: what the client has not been told of that, it will be. */
static void conn_close_node(struct sim *sim, struct conn *conn)
{
	conn->node_open = false;
	conn->asked_count = 0;
	if (conn->thread != NULL)
		packet_queue(sim, &conn->to_client, packet_new(PACKET_CLOSE, NULL, 0));
}

void conn_daemon_died(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		struct conn *conn = &sim->conns[i];

		if (conn->id == 0)
			continue;
		queue_drop(&conn->to_node);
		if (sim_chance(sim, 50))
			queue_drop(&conn->to_client);
		conn_close_node(sim, conn);
		conn_settle(conn);
	}
}

void conn_break(struct sim *sim, struct conn *conn)
{
	struct packet *closing = packet_new(PACKET_CLOSE, NULL, 0);

	queue_drop(&conn->to_node);
	packet_queue(sim, &conn->to_node, closing);
	if (conn->thread != NULL)
		packet_queue(sim, &conn->to_client, packet_new(PACKET_CLOSE, NULL, 0));
}

uint64_t conn_next(const struct sim *sim)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];
		struct list *first = list_first(&conn->to_node);

		if (first != NULL && sim->daemon.node != NULL)
			next = MIN(
				next, container_of(first, struct packet, entry)->due_ns);
		first = list_first(&conn->to_client);
		if (first != NULL && conn->thread != NULL &&
			conn->thread->proc->stopped_until_ns <= sim->world.now_ns)
			next = MIN(
				next, container_of(first, struct packet, entry)->due_ns);
	}
	return next;
}
