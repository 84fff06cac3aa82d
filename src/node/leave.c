/*
 * leave.c - a node ends in order, so that nobody has to find out that it is gone.
 *
 *   OFF --node_leave--> ENDING --nothing is under way, or LEAVE_WAIT_NS--> RESIGN
 *     --the directory has answered, or LEAVE_TELL_NS--> TELL --all peers have, or the same--> OVER
 *
 * From the first it takes no puts and nothing that others would have it keep. What ends in
 * ENDING: transfers out of this node, hand-overs, what the directory and peers are still to be
 * told, and what was begun of puts and removals. Then it is no member any more, and peers take
 * it as gone. What it keeps it keeps: with its pool or its disk it comes back as the same node,
 * and is asked again.
 *
 * A peer that leaves is live no more from its word on: what only it has is UNAVAILABLE at once,
 * and no absence waits for it.
 */
#include "node/node_priv.h"

#include <inttypes.h>

bool node_is_leaving(const struct node *node)
{
	return node->cluster.leave.state != LEAVE_OFF;
}

bool leave_is_silent(const struct node *node)
{
	return node->cluster.leave.state >= LEAVE_TELL;
}

/* ---- ENDING -------------------------------------------------------------- */

/* Something of its own waits for the directory or for peers; what is got from there may be had
 * after the restart as well. */
static bool any_op_under_way(const struct node *node)
{
	for (uint32_t i = 0; i < node->config.max_ops; i++) {
		const struct op *op = &node->ops[i];

		if (op->stage != OP_FREE &&
			(op->query != NULL || !list_is_empty(&op->asks)))
			return true;
	}
	return false;
}

static bool any_peer_is_told(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct teller *teller = &cluster->tellers[place];

		if (peer_is_up(&cluster->peers[place]) &&
			(teller->next != NULL || teller->under_way > 0))
			return true;
	}
	return false;
}

static bool is_done(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	return cluster->lanes_used == 0 && cluster->keeping == 0 &&
	       !swapouts_under_way(node) && node->master.leases.count == 0 &&
	       cluster->errand_count == 0 && !cluster->renewing &&
	       !any_peer_is_told(node) && !any_op_under_way(node);
}

/* ---- RESIGN, TELL -------------------------------------------------------- */

static void leave_enter(struct node *node, enum leave_state state, uint64_t wait_ns)
{
	node->cluster.leave.state = state;
	node->cluster.leave.until_ns = node_now(node) + wait_ns;
}

static void resigned(struct node *node, struct query *query)
{
	(void)query;
	node->cluster.leave.resigned = true;
}

static void leave_resign(struct node *node)
{
	struct query *query = query_new(node, DIR_OP_RESIGN, NULL);

	leave_enter(node, LEAVE_RESIGN, LEAVE_TELL_NS);
	node->cluster.leave.resigned = query == NULL;
	if (query != NULL)
		query_start(node, query, resigned);
}

static void told(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	(void)ask, (void)err, (void)message, (void)size;
	node->cluster.leave.telling--;
}

static void leave_tell(struct node *node)
{
	const struct msg_leaving msg = {.reason = 0};

	leave_enter(node, LEAVE_TELL, LEAVE_TELL_NS);
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (!peer_is_up(&node->cluster.peers[place]))
			continue;
		node->cluster.leave.telling += ask_send(node, place,
						       msg_leaving_encode(node->out,
							       sizeof(node->out), &msg),
						       told) != NULL;
	}
}

/* ---- the turn ------------------------------------------------------------ */

bool leave_step(struct node *node, uint64_t now)
{
	const struct leave *leave = &node->cluster.leave;
	bool late = now >= leave->until_ns;

	if (leave->state == LEAVE_ENDING && (late || is_done(node))) {
		log_line(node->config.log, LOG_LEVEL_INFO, "leaving",
			"leases=%" PRIu64 " errands=%" PRIu32 "%s",
			node->master.leases.count, node->cluster.errand_count,
			late ? " msg=\"it did not wait for all that was under way\""
			     : "");
		leave_resign(node);
	} else if (leave->state == LEAVE_RESIGN && (late || leave->resigned)) {
		leave_tell(node);
	} else if (leave->state == LEAVE_TELL && (late || leave->telling == 0)) {
		leave_enter(node, LEAVE_OVER, 0);
		return true; /* whoever waits for it looks again */
	}
	return false;
}

uint64_t leave_next(const struct node *node)
{
	const struct leave *leave = &node->cluster.leave;

	if (leave->state == LEAVE_OFF || leave->state == LEAVE_OVER)
		return UINT64_MAX;
	return leave->until_ns;
}

void node_leave(struct node *node)
{
	if (node->cluster.there && !node_is_leaving(node))
		leave_enter(node, LEAVE_ENDING, LEAVE_WAIT_NS);
}

bool node_has_left(const struct node *node)
{
	return !node->cluster.there || node->cluster.leave.state == LEAVE_OVER;
}

/* ---- LEAVING ------------------------------------------------------------- */

void leaving_run(struct node *node, struct op *op)
{
	uint32_t place = op->lane->link->peer;
	struct msg_leaving msg;

	if (msg_leaving_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	op_done(node, op, 0);
	peer_leaves(node, place);
}
