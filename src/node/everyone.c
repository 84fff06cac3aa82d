/*
 * everyone.c - ask all other nodes, for want of a directory that knows.
 *
 * Each that is up is asked. One that is live and cannot be asked, or does not answer, may
 * have anything: it leaves a mark in `unreached`, and whoever asked decides what that means
 * for it. So does a membership that nobody has told this node yet.
 *
 *   everyone_send -> one ask to each peer that is up --end--> done()
 *   everyone_have -> the same for an op, which the last one wakes
 */
#include "node/node_priv.h"

#include "base/check.h"

/* ---- to all -------------------------------------------------------------- */

bool everyone_send(struct node *node, const struct everyone *everyone, size_t size,
	uint64_t *ret_unreached)
{
	uint64_t unreached = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];
		struct ask *ask = NULL;

		if (!peer_is_live(node, peer) || everyone->skipped >> place & 1)
			continue;
		if (peer_is_up(peer))
			ask = ask_send(node, place, size, everyone->done);
		if (ask == NULL) {
			unreached |= 1ull << place;
			continue;
		}
		ask->op = everyone->op;
		ask->owner = everyone->owner;
		list_add_tail(everyone->asks, &ask->op_entry);
	}
	*ret_unreached = unreached;
	return unreached == 0 && node->cluster.members_known;
}

/* ---- HAVE ---------------------------------------------------------------- */

size_t have_message(struct node *node, const struct index_key *key, uint64_t generation)
{
	const struct msg_have msg = {
		.key = {key->data, key->size},
		.generation = generation,
	};

	return msg_have_encode(node->out, sizeof(node->out), &msg);
}

int had_read(int err, const void *message, size_t size, struct other *ret)
{
	struct msg_had msg;

	err = ask_error_of(err, message, size);
	if (err != 0)
		return err;
	if (msg_had_decode(message, size, &msg) != 0 || msg.generation == 0)
		return ERR_PROTOCOL;
	*ret = (struct other){
		.generation = msg.generation,
		.size = msg.size,
		.flags = msg.flags & PUT_SOFTPIN ? DIR_SOFTPIN : 0u,
		.secondary = msg.secondary != 0,
	};
	return 0;
}

int kept_read(int err, const void *message, size_t size, uint64_t generation,
	struct msg_kept *ret)
{
	err = ask_error_of(err, message, size);
	if (err != 0)
		return err;
	if (msg_kept_decode(message, size, ret) != 0 || ret->generation != generation)
		return ERR_PROTOCOL;
	return 0;
}

static void op_have_done(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;
	struct other other;

	err = had_read(err, message, size, &other);
	if (err == 0 && other.generation > op->other.generation) {
		op->found = true;
		op->other = other;
	}
	if (err != 0 && err != ERR_NOT_FOUND) {
		op->unreached = true;
		op->unreached_peers |= 1ull << ask->peer;
	}
	if (list_is_empty(&op->asks))
		op_wake(node, op);
}

bool everyone_have_but(struct node *node, struct op *op, const struct index_key *key,
	uint64_t generation, uint64_t skipped)
{
	const struct everyone everyone = {
		.asks = &op->asks,
		.op = op,
		.done = op_have_done,
		.skipped = skipped,
	};

	CHECK(list_is_empty(&op->asks));
	op->found = false;
	op->other = (struct other){.generation = 0};
	op->unreached = !everyone_send(node, &everyone,
		have_message(node, key, generation), &op->unreached_peers);
	return !list_is_empty(&op->asks);
}

bool everyone_have(struct node *node, struct op *op, const struct index_key *key,
	uint64_t generation)
{
	return everyone_have_but(node, op, key, generation, 0);
}
