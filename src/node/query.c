/*
 * query.c - calls of the directory, and who waits for them.
 *
 *   query_new -> filled in -> query_start_for --node_on_dir--> ended, the op woken
 *                               --query_leave--> its end goes to `done`, or to nobody
 *                          '-> query_start --node_on_dir--> `done`
 *
 * A directory may change something and lose the answer. Who leaves a query that changes
 * something therefore leaves `done` behind, which puts right what came of it.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

struct query_key {
	uint32_t size;
	unsigned char bytes[];
};

struct query *query_new(struct node *node, enum dir_op kind, const struct dir_id *id)
{
	struct cluster *cluster = &node->cluster;
	struct list *entry = list_first(&cluster->free_queries);
	struct query *query;

	if (entry == NULL)
		return NULL;
	query = container_of(entry, struct query, entry);
	list_del(entry);
	cluster->queries_used++;
	cluster->stats.queries++;
	query->op = NULL;
	query->done = NULL;
	query->owner = NULL;
	query->fetch = NULL;
	query->ended = false;
	query->call = (struct dir_call){
		.op = kind,
		.node = cluster->id,
		.incarnation = cluster->incarnation,
	};
	if (id != NULL)
		query->call.id = *id;
	list_init(&query->call.list_entry);
	return query;
}

void query_free(struct node *node, struct query *query)
{
	if (query->op != NULL)
		query->op->query = NULL;
	query->op = NULL;
	list_add_head(&node->cluster.free_queries, &query->entry);
	node->cluster.queries_used--;
}

void query_free_owner(struct query *query)
{
	free(query->owner);
	query->owner = NULL;
}

void query_own_key(struct query *query, const void *key, uint32_t size)
{
	struct query_key *own = malloc(sizeof(*own) + size);

	if (own == NULL)
		return;
	own->size = size;
	memcpy(own->bytes, key, size);
	query->owner = own;
}

struct msg_bytes query_key(const struct query *query)
{
	const struct query_key *own = query->owner;

	return own == NULL ? (struct msg_bytes){NULL, 0}
			   : (struct msg_bytes){own->bytes, own->size};
}

struct query *query_keep(struct op *op)
{
	struct query *query = op->query;

	CHECK(query->ended);
	op->query = NULL;
	query->op = NULL;
	return query;
}

static void query_send(struct node *node, struct query *query)
{
	query->complete = complete_epoch(node, &query->call.id);
	node->cluster.dir.start(node->cluster.dir.ctx, &query->call);
}

bool query_knows_all(const struct node *node, const struct query *query)
{
	const struct dir_call *call = &query->call;

	return call->err == 0 && query->complete == call->epoch &&
	       epoch_is_complete(node, call->domain, call->epoch);
}

void query_start_for(struct node *node, struct op *op, struct query *query)
{
	CHECK(op->query == NULL);
	op->query = query;
	query->op = op;
	query_send(node, query);
}

void query_start(struct node *node, struct query *query, query_done_fn done)
{
	query->done = done;
	query_send(node, query);
}

void query_leave(struct node *node, struct op *op, query_done_fn done)
{
	struct query *query = op->query;

	if (query == NULL)
		return;
	op->query = NULL;
	query->op = NULL;
	query->done = done;
	if (!query->ended)
		return;
	if (done != NULL)
		done(node, query);
	query_free(node, query);
}

void query_set_live(struct node *node, struct query *query)
{
	query->call.live = query->live;
	query->call.live_count = peers_live_ids(node, query->live);
}

void node_on_dir(struct node *node, struct dir_call *call)
{
	struct query *query = container_of(call, struct query, call);

	node_tick(node);
	CHECK(!query->ended);
	query->ended = true;
	node->cluster.stats.queries_failed += call->err != 0;
	/* Ours are higher from now on, whoever gave it. */
	if (call->err == 0 && call->entry.generation != 0)
		master_note_generation(&node->master, call->entry.generation);
	if (query->op != NULL) {
		op_wake(node, query->op);
		return;
	}
	if (query->done != NULL)
		query->done(node, query);
	query_free(node, query);
}
