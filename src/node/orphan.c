/*
 * orphan.c - what becomes of a removal whose op has gone, or waits no more, before the directory
 * has said whether the entry was taken out.
 *
 *   orphan_leave --taken out--> its holders are told, by graves
 *                --no answer--> of a key alone: all that is there ends now
 *                               of a generation: it is taken out later, by an errand
 *                               by a take: looked at later, since it may be another's
 */
#include "node/remove_priv.h"

#include <stdlib.h>
#include <string.h>

struct orphan {
	uint64_t generation, token;
	bool sole, gives_way;
	uint32_t key_size;
	unsigned char key[];
};

/* Of a key alone nothing is asked for later, when it may have another object. */
static void orphan_unheard(
	struct node *node, struct orphan *orphan, const struct dir_id *id)
{
	const struct errand errand = {
		.kind = orphan->sole ? ERRAND_SETTLE : ERRAND_TAKE_OUT,
		.id = *id,
		.generation = orphan->generation,
		.token = orphan->token,
		.gives_way = orphan->gives_way,
		.key_size = orphan->key_size,
		.key = orphan->key,
	};

	if (orphan->generation != 0)
		errand_add(node, &errand);
	else
		drop_everywhere(node, orphan->key, orphan->key_size);
}

static void orphan_done(struct node *node, struct query *query)
{
	struct orphan *orphan = query->owner;
	struct dir_call *call = &query->call;

	/* One that forgot names only some of the holders: all are told. */
	if (!query_knows_all(node, query))
		call->entry.holder_count = 0;
	if (call->err != 0)
		orphan_unheard(node, orphan, &call->id);
	else if (call->verdict == DIR_DONE)
		holders_end(node, orphan->key, orphan->key_size, call);
	query_free_owner(query);
}

void orphan_leave(struct node *node, struct op *op)
{
	struct orphan *orphan;

	if (op->query == NULL)
		return;
	orphan = malloc(sizeof(*orphan) + op->key.size);
	if (orphan == NULL) {
		query_leave(node, op, NULL);
		return;
	}
	*orphan = (struct orphan){
		.generation = op->ends,
		.token = op->token,
		.sole = op->sole,
		.gives_way = op->gives_way,
		.key_size = op->key.size,
	};
	memcpy(orphan->key, op->key.data, op->key.size);
	op->query->owner = orphan;
	query_leave(node, op, orphan_done);
}

void orphan_settle(struct node *node, const struct op *op)
{
	const struct errand errand = {
		.kind = ERRAND_SETTLE,
		.id = op->id,
		.generation = op->ends,
		.key_size = op->key.size,
		.key = op->own_key,
	};

	errand_add(node, &errand);
}

void drop_settle(
	struct node *node, const struct errand *errand, const struct query *query)
{
	const struct dir_entry gone = {.generation = errand->generation};

	/* Under an epoch that is not complete it may only have been forgotten: then it is
	 * announced again, unless a tombstone says that it was taken out. */
	if (query->call.entry.generation != errand->generation &&
		query_knows_all(node, query))
		holders_drop(node, errand->key, errand->key_size, &gone);
}
