/*
 * holders.c - who holds an object is told to end it: by an op that waits for that, or by
 * graves, for which nobody waits.
 *
 *   tell_begin -> DROP to each that is up --all have answered, or the deadline--> tell_leave
 *
 * An op that ends first leaves a grave for those whose answer it has not heard.
 */
#include "node/remove_priv.h"

#include "base/plant.h"

/* Each may wait for its disk as long as this node for its own. */
#define HOLDERS_WAIT_NS (END_WAIT_NS + GONE_NS)

/* ---- who they are -------------------------------------------------------- */

static uint64_t all_places(const struct node *node)
{
	uint64_t places = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (node->cluster.peers[place].state != PEER_FREE)
			places |= 1ull << place;
	}
	return places;
}

uint64_t drop_places(struct node *node, const struct dir_entry *entry, bool *ret_unknown)
{
	uint64_t places = 0;

	*ret_unknown = false;
	/* A repeat is answered without them. */
	if (entry->holder_count == 0)
		return all_places(node);
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		uint32_t place = peer_find(node, entry->holders[i].node);

		if (entry->holders[i].node == node->cluster.id)
			continue;
		if (place == PEER_LIMIT) {
			*ret_unknown = true;
			place = peer_note(node, entry->holders[i].node,
				entry->holders[i].incarnation);
		}
		if (place != PEER_LIMIT)
			places |= 1ull << place;
	}
	return places;
}

/* What a node that is up may give until it hears of this: below it. An order to end whatever is
 * there must not end what comes later, in case it is heard late: by a node that had stood still.
 * Of a clock that is far ahead of this node's, which is not believed here, it has what it has. */
static uint64_t heard_in_time(struct node *node, uint32_t place)
{
	return MAX(generation_of_now(node), node->cluster.peers[place].generation) +
	       (2 * SUSPECT_NS / 1000 << GENERATION_SHIFT);
}

size_t drop_message(struct node *node, uint32_t place, const void *key, uint32_t key_size,
	uint64_t generation)
{
	const struct msg_drop msg = {
		.key = {key, key_size},
		.generation = generation,
		.before = heard_in_time(node, place),
	};

	return msg_drop_encode(node->out, sizeof(node->out), &msg);
}

size_t gave_way_message(
	struct node *node, const void *key, uint32_t key_size, uint64_t generation)
{
	const struct msg_drop msg = {.key = {key, key_size}, .generation = generation};

	return msg_drop_encode(node->out, sizeof(node->out), &msg);
}

/* ---- for an op ----------------------------------------------------------- */

static void told(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;
	struct msg_done done;

	err = ask_error_of(err, message, size);
	if (err == 0 && msg_done_decode(message, size, &done) != 0)
		err = ERR_PROTOCOL;
	if (err == 0) {
		op->found = op->had = true;
		if (op->ends == 0)
			op->generation = MAX(op->generation, done.generation);
	} else if (err != ERR_NOT_FOUND) {
		op->unreached_peers |= 1ull << ask->peer;
		op->disk_late |= err == ERR_IO;
		if (op->ends == 0)
			op->unheard_peers |= 1ull << ask->peer;
	}
	if (list_is_empty(&op->asks) || op->to_tell != 0)
		op_wake(node, op);
}

static void told_nobody(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	(void)node, (void)ask, (void)err, (void)message, (void)size;
}

/* False: too many asks are under way. */
static bool tell_one(struct node *node, struct op *op, uint32_t place)
{
	size_t size;

	if (!peer_is_up(&node->cluster.peers[place])) {
		op->unreached_peers |= 1ull << place;
		return true;
	}
	size = op->gives_way
		       ? gave_way_message(node, op->key.data, op->key.size, op->ends)
		       : drop_message(node, place, op->key.data, op->key.size, op->ends);
	if (PLANTED(UNTOLD_HOLDER))
		return ask_send(node, place, size, told_nobody) != NULL;
	return ask_send_for(node, op, place, size, told) != NULL;
}

void tell_begin(struct node *node, struct op *op, uint64_t places)
{
	op->to_tell = places;
	op->unreached_peers = 0;
	op->disk_late = op->had = false;
	op->deadline = time_after(node_now(node), HOLDERS_WAIT_NS);
}

bool tell_all(struct node *node, struct op *op)
{
	bool is_held_up = publish_holds_up(node, &op->key, op->ends);

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if ((op->to_tell >> place & 1) == 0)
			continue;
		if (!tell_one(node, op, place))
			break;
		op->to_tell &= ~(1ull << place);
	}
	if (op->to_tell == 0 && list_is_empty(&op->asks) && !is_held_up)
		return true;
	if (node_now(node) >= op->deadline)
		return true;
	if (op->to_tell == 0 && list_is_empty(&op->asks))
		waiters_add(node, op);
	else if (list_is_empty(&op->asks))
		unsettled_add(node, op);
	else
		op_set_deadline(node, op);
	return false;
}

uint32_t tell_leave(struct node *node, struct op *op)
{
	uint64_t silent = op->to_tell;
	uint32_t count = 0;

	list_for_each (at, &op->asks)
		silent |= 1ull << container_of(at, struct ask, op_entry)->peer;
	asks_forget_all(node, op);
	op->to_tell = 0;
	op->unreached_peers |= silent;
	for (; silent != 0; silent &= silent - 1)
		count++;
	return count;
}

/* ---- for an op that tells for another reason ----------------------------- */

static void holder_told(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;

	err = ask_error_of(err, message, size);
	if (err != 0 && err != ERR_NOT_FOUND)
		grave_dig(node, op->key.data, op->key.size, op->ends, GRAVE_OBJECT,
			1ull << ask->peer);
	if (list_is_empty(&op->asks))
		op_wake(node, op);
}

bool holders_tell(struct node *node, struct op *op, const struct dir_entry *entry)
{
	bool unknown;
	uint64_t places = drop_places(node, entry, &unknown), left = 0;

	op->ends = entry->generation;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		size_t size;

		if ((places >> place & 1) == 0)
			continue;
		size = drop_message(node, place, op->key.data, op->key.size, op->ends);
		if (!peer_is_up(&node->cluster.peers[place]) ||
			ask_send_for(node, op, place, size, holder_told) == NULL)
			left |= 1ull << place;
	}
	grave_dig(node, op->key.data, op->key.size, op->ends, GRAVE_OBJECT, left);
	return !list_is_empty(&op->asks);
}

void holders_leave(struct node *node, struct op *op)
{
	uint64_t pending = op->to_tell;

	list_for_each (at, &op->asks) {
		const struct ask *ask = container_of(at, struct ask, op_entry);

		if (ask->done == told || ask->done == holder_told)
			pending |= 1ull << ask->peer;
	}
	op->to_tell = 0;
	asks_forget_all(node, op);
	if (pending != 0 && op->ends != 0)
		grave_dig(node, op->key.data, op->key.size, op->ends,
			op->gives_way ? GRAVE_GAVE_WAY : GRAVE_OBJECT, pending);
}

/* ---- for nobody ---------------------------------------------------------- */

static void drop_here(
	struct node *node, const void *key, uint32_t key_size, uint64_t generation)
{
	struct index_key local = key_of(node, key, key_size);

	fetches_end(node, &local, generation);
	if (master_end_generation(
		    &node->master, &local, generation, node_now(node), &generation) == 0)
		waiters_wake(node, local.hash);
}

static void holders_bury(struct node *node, const void *key, uint32_t key_size,
	const struct dir_entry *entry, enum grave_kind kind)
{
	bool unknown;

	if (entry->generation == 0)
		return;
	grave_dig(node, key, key_size, entry->generation, kind,
		drop_places(node, entry, &unknown));
	drop_here(node, key, key_size, entry->generation);
}

void holders_drop(struct node *node, const void *key, uint32_t key_size,
	const struct dir_entry *entry)
{
	holders_bury(node, key, key_size, entry, GRAVE_OBJECT);
}

void holders_give_way(struct node *node, const void *key, uint32_t key_size,
	const struct dir_entry *entry)
{
	holders_bury(node, key, key_size, entry, GRAVE_GAVE_WAY);
}

void holders_end(struct node *node, const void *key, uint32_t key_size,
	const struct dir_call *call)
{
	if (call->lost)
		holders_give_way(node, key, key_size, &call->entry);
	else
		holders_drop(node, key, key_size, &call->entry);
}

void older_drop(
	struct node *node, const void *key, uint32_t key_size, uint64_t generation)
{
	struct index_key local = key_of(node, key, key_size);
	uint64_t ended;

	grave_dig(node, key, key_size, generation, GRAVE_OLDER, all_places(node));
	fetches_end(node, &local, 0);
	if (master_end_below(&node->master, &local, generation, node_now(node), &ended) ==
		0)
		waiters_wake(node, local.hash);
}

void drop_everywhere(struct node *node, const void *key, uint32_t key_size)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (peer_is_up(&node->cluster.peers[place]))
			(void)ask_send(node, place,
				drop_message(node, place, key, key_size, 0), told_nobody);
	}
	drop_here(node, key, key_size, 0);
}
