/*
 * flow_fetch.c - get what another node has, once for all who ask: who waits, and the ends.
 *
 * Whoever asks waits in the bucket of its key, with its own deadline, and has the fetch as
 * op->fetch. At most one question about a key is under way, here or at another node.
 *
 * What is found absent is so for those who had joined when the question was sent; for those
 * who came later it is asked once more. The pins are taken in the step that makes the object
 * READY. Errors are not kept. The last who leaves gives up all that the fetch has; only a
 * transfer that is under way must end first, since its bytes go where nobody else's may.
 */
#include "node/fetch_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- begin and end ------------------------------------------------------- */

struct index_key fetch_key(const struct fetch *fetch)
{
	return (struct index_key){fetch->key, fetch->key_size, fetch->hash};
}

static struct list *fetch_bucket(const struct node *node, const struct dir_id *id)
{
	return &node->cluster.fetch_buckets[id->word[0] % FETCH_BUCKETS];
}

static struct fetch *fetch_find_id(const struct node *node, const struct dir_id *id)
{
	list_for_each (at, fetch_bucket(node, id)) {
		struct fetch *fetch = container_of(at, struct fetch, entry);

		if (dir_id_is(&fetch->id, id))
			return fetch;
	}
	return NULL;
}

static struct fetch *fetch_find(
	const struct node *node, const struct dir_id *id, const struct index_key *key)
{
	list_for_each (at, fetch_bucket(node, id)) {
		struct fetch *fetch = container_of(at, struct fetch, entry);

		if (fetch->key_size == key->size &&
			memcmp(fetch->key, key->data, key->size) == 0)
			return fetch;
	}
	return NULL;
}

/* NULL: all are in use, some of them without an op, until the directory answers; or there is
 * no memory for the key. */
static struct fetch *fetch_new(struct node *node, const struct op *op)
{
	struct list *free = list_first(&node->cluster.free_fetches);
	struct fetch *fetch;

	if (free == NULL)
		return NULL;
	fetch = container_of(free, struct fetch, entry);
	fetch->key = malloc(op->key.size);
	if (fetch->key == NULL)
		return NULL;
	memcpy(fetch->key, op->key.data, op->key.size);
	fetch->key_size = op->key.size;
	fetch->hash = op->key.hash;
	fetch->id = op->id;
	fetch->waiters = 0;
	fetch->joined = fetch->listed = fetch->owes_leave = 0;
	fetch->generation = 0;
	fetch->promised = 0;
	list_move_tail(fetch_bucket(node, &op->id), &fetch->entry);
	node->cluster.fetches_used++;
	return fetch;
}

static void fetch_free(struct node *node, struct fetch *fetch)
{
	uint64_t generation = fetch->joined != 0 ? fetch->joined : fetch->owes_leave;

	CHECK(fetch->ticket.state == TICKET_IDLE && fetch->slot == SLOT_NONE);
	CHECK(fetch->query == NULL && fetch->ask == NULL && list_is_empty(&fetch->asks));
	CHECK(fetch->number == PEER_TRANSFERS && !fetch->lease.there);
	if (generation != 0)
		errand_leave(node, &fetch->id, fetch->hash, generation);
	free(fetch->key);
	fetch->key = NULL;
	fetch->state = FETCH_FREE;
	list_move_tail(&node->cluster.free_fetches, &fetch->entry);
	node->cluster.fetches_used--;
}

void fetch_stopped(struct node *node, struct fetch *fetch)
{
	if (fetch->waiters > 0)
		fetch_look(node, fetch);
	else
		fetch_free(node, fetch);
}

static void fetch_stop(struct node *node, struct fetch *fetch)
{
	if (fetch_give_back(node, fetch))
		fetch_stopped(node, fetch);
}

/* ---- who waits ----------------------------------------------------------- */

uint64_t fetch_left_ns(const struct node *node, const struct fetch *fetch)
{
	uint64_t now = node_now(node), last = now;

	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		const struct op *op = container_of(at, struct op, wait_entry);

		if (op->fetch == fetch)
			last = MAX(last, op->deadline);
	}
	return last == UINT64_MAX ? UINT64_MAX : last - now;
}

bool fetch_join(struct node *node, struct op *op)
{
	struct fetch *fetch = fetch_find(node, &op->id, &op->key);
	bool is_new = fetch == NULL;

	CHECK(op->fetch == NULL);
	if (is_new)
		fetch = fetch_new(node, op);
	if (fetch == NULL) {
		op_error(node, op, ERR_TOO_MANY,
			"%" PRIu32
			" keys are being looked for at other nodes, which is the limit "
			"(--max-ops)",
			node->cluster.fetches_used);
		return false;
	}
	node->cluster.stats.fetches_joined += !is_new;
	fetch->waiters++;
	op->fetch = fetch;
	op->fetch_joined = ++node->cluster.joins;
	op->began = node_now(node);
	waiters_add_for_bytes(node, op);
	if (is_new)
		fetch_look(node, fetch);
	return true;
}

static void fetch_lets_go(struct fetch *fetch, struct op *op)
{
	CHECK(fetch->waiters > 0);
	fetch->waiters--;
	op->fetch = NULL;
}

void fetch_leave(struct node *node, struct op *op)
{
	struct fetch *fetch = op->fetch;

	if (fetch == NULL)
		return;
	fetch_lets_go(fetch, op);
	if (fetch->waiters == 0)
		fetch_stop(node, fetch);
}

/* ---- ends ---------------------------------------------------------------- */

static void fetch_tell(
	struct node *node, struct fetch *fetch, struct op *op, enum fetched fetched)
{
	fetch_lets_go(fetch, op);
	op->fetched = fetched;
	op->size = fetch->size;
	op->generation = fetch->generation;
	op->number = fetch->sources.named;
	op_wake(node, op);
}

static void fetch_tell_all(
	struct node *node, struct fetch *fetch, enum fetched fetched, int failure)
{
	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->fetch != fetch)
			continue;
		op->failure = failure;
		fetch_tell(node, fetch, op, fetched);
	}
	fetch_stop(node, fetch);
}

void fetch_fail(struct node *node, struct fetch *fetch, int err)
{
	node->cluster.stats.fetch_errors++;
	fetch_tell_all(node, fetch, FETCHED_OBJECT, err);
}

void fetch_is_unsettled(struct node *node, struct fetch *fetch)
{
	fetch_tell_all(node, fetch, FETCHED_UNSETTLED, 0);
}

void fetch_is_moot(struct node *node, struct fetch *fetch)
{
	fetch_tell_all(node, fetch, FETCHED_NOTHING, 0);
}

void fetch_is_absent(struct node *node, struct fetch *fetch)
{
	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->fetch != fetch)
			continue;
		if (op->fetch_joined > fetch->looked)
			continue;
		if (fetch->again && op->flags & GET_WAIT)
			continue; /* it may be there by now */
		fetch_tell(node, fetch, op, FETCHED_ABSENT);
	}
	fetch_stop(node, fetch);
}

void fetch_is_ready(struct node *node, struct fetch *fetch, uint32_t slot)
{
	list_for_each (at, waiters_bucket(node, fetch->hash)) {
		struct op *op = container_of(at, struct op, wait_entry);
		uint64_t limit;

		if (op->fetch != fetch)
			continue;
		if (lane_pin(node, op->lane, slot, &limit) == 0) {
			op->slot = slot;
			op->life = node_life(node, slot);
		}
		fetch_tell(node, fetch, op,
			op->slot == slot ? FETCHED_OBJECT : FETCHED_NOTHING);
	}
	fetch_stop(node, fetch);
}

/* ---- what happens elsewhere ---------------------------------------------- */

/* Whether what the fetch has found, if anything, is to be looked for again later. */
static bool fetch_has_not_found(const struct fetch *fetch)
{
	switch (fetch->state) {
	case FETCH_LOOK:
	case FETCH_HAVE:
	case FETCH_REFRESH:
	case FETCH_CLEAR:
		return true;
	case FETCH_FREE:
	case FETCH_ROOM:
	case FETCH_GATE:
	case FETCH_TURN:
	case FETCH_ASK:
	case FETCH_MOVE:
	case FETCH_PAUSE:
		break;
	}
	return false;
}

static void fetch_end(struct node *node, struct fetch *fetch, uint64_t generation)
{
	/* A look that is under way may bring it. */
	if (fetch_has_not_found(fetch)) {
		if (fetch->ended != FETCH_ENDED_ANY)
			fetch->ended = generation;
		return;
	}
	if (generation == FETCH_ENDED_ANY || generation == fetch->generation)
		fetch_is_moot(node, fetch);
}

void fetches_end(struct node *node, const struct index_key *key, uint64_t generation)
{
	struct fetch *fetch;
	struct dir_id id;

	if (!node->cluster.there || node->cluster.fetches_used == 0)
		return;
	id = dir_id_of_key(key->data, key->size);
	fetch = fetch_find(node, &id, key);
	if (fetch != NULL)
		fetch_end(node, fetch, generation == 0 ? FETCH_ENDED_ANY : generation);
}

void fetches_end_prefix(
	struct node *node, const void *prefix, uint32_t prefix_size, uint64_t before)
{
	struct cluster *cluster = &node->cluster;

	for (uint32_t i = 0; cluster->fetches_used > 0 && i < cluster->fetch_limit; i++) {
		struct fetch *fetch = &cluster->fetches[i];

		if (fetch->state == FETCH_FREE || fetch->key_size < prefix_size ||
			memcmp(fetch->key, prefix, prefix_size) != 0)
			continue;
		if (fetch_has_not_found(fetch))
			fetch->ended = FETCH_ENDED_ANY;
		else if (fetch->generation < before)
			fetch_is_moot(node, fetch);
	}
}

bool fetch_takes_leave(struct node *node, const struct dir_id *id, uint64_t generation)
{
	struct fetch *fetch;

	if (!node->cluster.there)
		return false;
	fetch = fetch_find_id(node, id);
	if (fetch != NULL)
		fetch->owes_leave = generation;
	return fetch != NULL;
}

void fetches_published(struct node *node, const struct dir_id *id)
{
	struct fetch *fetch = fetch_find_id(node, id);

	if (fetch != NULL)
		fetch->again = true;
	list_for_each (at, &node->cluster.waiting_ids[id->word[0] % FETCH_BUCKETS]) {
		struct op *op = container_of(at, struct op, id_entry);

		if (dir_id_is(&op->id, id))
			op_wake(node, op);
	}
}

void fetches_look_again(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	for (uint32_t i = 0; i < FETCH_BUCKETS; i++) {
		list_for_each (at, &cluster->fetch_buckets[i])
			container_of(at, struct fetch, entry)->again = true;
		list_for_each (at, &cluster->waiting_ids[i])
			op_wake(node, container_of(at, struct op, id_entry));
	}
}

bool fetch_owns(const struct node *node, const struct ticket *ticket)
{
	const struct cluster *cluster = &node->cluster;
	uintptr_t at = (uintptr_t)ticket, first = (uintptr_t)cluster->fetches;

	return at >= first && at < first + cluster->fetch_limit * sizeof(struct fetch);
}

void fetch_go_on(struct node *node, uint32_t index)
{
	struct fetch *fetch = &node->cluster.fetches[index];
	uint32_t gate = GATE_FETCHES + index;

	node->gates[gate].slept = false; /* and here it goes on */
	if (fetch->state == FETCH_GATE)
		fetch_past_gate(node, fetch, 0);
	else if (fetch->state == FETCH_PAUSE)
		fetch_refresh(node, fetch);
	else
		NOT_REACHED("a fetch goes on that does not sleep");
}

/* ---- check --------------------------------------------------------------- */

static const char *fetch_check(
	const struct node *node, const struct fetch *fetch, uint32_t index)
{
	bool is_query = fetch->query != NULL;
	uint32_t waiters = 0;

	if (fetch->state == FETCH_FREE)
		return fetch->key == NULL && fetch->slot == SLOT_NONE
			       ? NULL
			       : "a free fetch has something";
	list_for_each (at, waiters_bucket(node, fetch->hash))
		waiters += container_of(at, struct op, wait_entry)->fetch == fetch;
	if (waiters != fetch->waiters)
		return "the number of those who wait for a fetch is wrong";
	if (waiters == 0 && fetch->state != FETCH_MOVE && !is_query)
		return "nobody waits for a fetch";
	if (is_query != (fetch->state == FETCH_LOOK || fetch->state == FETCH_REFRESH ||
				fetch->state == FETCH_CLEAR))
		return "a fetch and its query disagree";
	if (is_query && fetch->query->fetch != fetch)
		return "a query is of another fetch";
	if ((fetch->ask != NULL) != (fetch->state == FETCH_ASK) ||
		list_is_empty(&fetch->asks) != (fetch->state != FETCH_HAVE))
		return "a fetch asks in the wrong state";
	if ((fetch->ticket.state == TICKET_WAITING) && fetch->state != FETCH_ROOM)
		return "a fetch waits for room in the wrong state";
	if (fetch->state == FETCH_MOVE && node->cluster.moving[fetch->number] != fetch)
		return "a transfer is of another fetch";
	if (fetch->state == FETCH_GATE || fetch->state == FETCH_PAUSE) {
		if (!node->gates[GATE_FETCHES + index].asleep)
			return "a fetch sleeps for ever";
	}
	return NULL;
}

const char *fetches_check(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t used = 0;

	for (uint32_t i = 0; i < cluster->fetch_limit; i++) {
		const struct fetch *fetch = &cluster->fetches[i];
		const char *broken = fetch_check(node, fetch, i);

		if (broken != NULL)
			return broken;
		used += fetch->state != FETCH_FREE;
	}
	return used == cluster->fetches_used ? NULL : "the number of fetches is wrong";
}
