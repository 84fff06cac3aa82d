/*
 * flow_prefix.c - remove all objects whose keys begin alike: REMOVE_PREFIX of a client, and
 * DROP_PREFIX, by which each other node is asked to do its part.
 *
 *   START (doom what is on its way, ask the peers) -> SLOTS -> KEYS -> WAIT -> answer
 *                                                      ^----------------'
 *                                                    something moved meanwhile
 *
 * Each node removes what it keeps, as REMOVE does, by an op of its own for each object,
 * AT_ONCE at a time. Copies that others keep only end here. What was put after the call began
 * stays, as its generation tells; what was put elsewhere before goes, though the clock there
 * may be ahead, since each peer takes what it has put until it is asked. One that cannot be
 * asked is waited for while it is live, and then gets a grave.
 *
 * An object can move behind the walk while that is under way. Then the walk is done again. Nor may
 * one come to be kept where the walk has been, or is over: no node takes over what is older than
 * the call from a node that has not removed it yet (swept.c). A new peer, or one that has been
 * restarted since it answered, does not know of that.
 */
#include "node/remove_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE     64u
#define WALK_BUDGET 16384u /* slots that one turn looks at */
#define WALKS_LIMIT 16u
#define STUCK_NS    END_WAIT_NS /* without an op for the next object */

enum prefix_state {
	PREFIX_START,
	PREFIX_SLOTS,
	PREFIX_KEYS,
	PREFIX_WAIT
};

/* ---- one object ---------------------------------------------------------- */

static void item_begin(struct node *node, struct op *op)
{
	if (node->cluster.there) {
		removal_begin(op, op->ends);
		return;
	}
	op->failure = master_end_generation(
		&node->master, &op->key, op->ends, node_now(node), &op->generation);
	op->state = REMOVES_ENDED;
}

static void item_run(struct node *node, struct op *op)
{
	if (op->state == REMOVES_START) {
		if (!op_gate(node, op, FAULT_NODE_BEFORE_CONDEMN))
			return;
		item_begin(node, op);
	}
	remove_go_on(node, op);
}

static const struct service item_service = {
	.type = MSG_TYPE_REMOVE,
	.flags = SERVICE_ITEM,
	.run = item_run,
	.cancel = remove_cancel,
};

/* False: not now. */
static bool item_start(
	struct node *node, struct op *op, struct msg_bytes key, uint64_t generation)
{
	void *own_key = malloc(key.size);
	struct op *item = NULL;

	if (own_key != NULL)
		item = op_new(
			node, op->lane, &item_service, op->message, op->message_size);
	if (item == NULL) {
		free(own_key);
		return false;
	}
	memcpy(own_key, key.data, key.size);
	item->own_key = own_key;
	item->key.data = own_key;
	item->key.size = (uint32_t)key.size;
	item->ends = generation;
	item->parent = op;
	list_add_tail(&op->batch.ops, &item->owner_entry);
	op->batch.left++;
	op_run(node, item);
	return true;
}

void prefix_item_done(struct node *node, struct op *op, const void *reply, size_t size)
{
	int err = ask_error_of(0, reply, size);

	CHECK(op->batch.left > 0);
	op->batch.left--;
	if (err == 0)
		op->size++;
	else if (err != ERR_NOT_FOUND && op->failure == 0)
		op->failure = err;
	op_wake(node, op);
}

/* False: no op is free for the next; the walk goes on when one of its own ends, or soon. */
static bool prefix_has_op(struct node *node, struct op *op, bool started)
{
	if (started)
		op->began = 0;
	else if (op->began == 0)
		op->began = node_now(node);
	if (!started && op->batch.left == 0)
		unsettled_add(node, op);
	return started;
}

static bool prefix_is_stuck(const struct node *node, const struct op *op)
{
	return op->batch.left == 0 && op->began != 0 &&
	       node_now(node) >= time_after(op->began, STUCK_NS);
}

/* ---- peers --------------------------------------------------------------- */

/* Who cannot be asked hears of it when it is back. What it puts meanwhile is to stay, so that
 * it ends what it had when it was heard of last: later, nobody knows how its clock goes. */
static void prefix_bury(struct node *node, struct op *op, uint32_t place)
{
	uint64_t known = node->cluster.peers[place].generation;

	if (known != 0)
		grave_dig(node, op->value.data, (uint32_t)op->value.size,
			MIN(op->ends, known + 1), GRAVE_PREFIX, 1ull << place);
}

static void prefix_told(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;
	struct msg_done done;
	int code = ask_error_of(err, message, size);

	if (code == 0 && msg_done_decode(message, size, &done) != 0)
		code = ERR_PROTOCOL;
	if (code == 0)
		op->size += done.generation;
	else if (err != 0) /* its connection broke */
		op->to_tell |= 1ull << ask->peer;
	else if (op->failure == 0)
		op->failure = code;
	if (code != 0 && err == 0)
		prefix_bury(node, op, ask->peer);
	op_wake(node, op);
}

/* False: not now. One that is live is most likely about to be up. */
static bool prefix_tell_one(struct node *node, struct op *op, uint32_t place)
{
	const struct peer *peer = &node->cluster.peers[place];
	const struct msg_drop_prefix msg = {
		.before = op->ends,
		.now = 1,
		.prefix = op->value,
	};

	if (peer_is_up(peer))
		return ask_send_for(node, op, place,
			       msg_drop_prefix_encode(node->out, sizeof(node->out), &msg),
			       prefix_told) != NULL;
	if (peer_is_live(node, peer) && node_now(node) < op->tell_until)
		return false;
	prefix_bury(node, op, place);
	return true;
}

/* True: all that can be asked are. */
static bool prefix_tell(struct node *node, struct op *op)
{
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if ((op->to_tell >> place & 1) != 0 && prefix_tell_one(node, op, place))
			op->to_tell &= ~(1ull << place);
	}
	return op->to_tell == 0;
}

/* ---- the walk ------------------------------------------------------------ */

/* Whether an object may have gone where the walk has been. */
static uint64_t moves_so_far(const struct node *node)
{
	return node->master.stats.relocated + node->master.stats.loads;
}

static void walk_begin(struct node *node, struct op *op)
{
	op->state = PREFIX_SLOTS;
	op->cursor = 0;
	op->number = moves_so_far(node);
	op->walks++;
	swept_add(node, op->value, op->before);
}

/* A copy that another node keeps, and takes out, since nobody takes it over from there meanwhile.
 * If that node may be gone the entry goes with the copy. */
static void copy_end(struct node *node, const struct slot *slot)
{
	struct index_key key = {slot_key(node->share, slot), slot->klen, slot->hash};
	struct dir_id id = dir_id_of_key(key.data, key.size);
	uint64_t generation = slot->generation;

	if (!peers_are_up(node))
		bury_later(node, key.data, key.size, generation, GRAVE_OBJECT);
	if (master_end_generation(
		    &node->master, &key, generation, node_now(node), &generation) == 0 &&
		peers_are_up(node))
		errand_leave(node, &id, key.hash, generation);
}

/* False: not now. */
static bool slot_end(struct node *node, struct op *op, uint32_t number)
{
	const struct slot *slot = &node->share->slots[number];
	struct msg_bytes key = {slot_key(node->share, slot), slot->klen};

	if (slot->generation >= op->ends)
		return true;
	if (slot->flags & SLOT_SECONDARY) {
		copy_end(node, slot);
		return true;
	}
	return prefix_has_op(node, op, item_start(node, op, key, slot->generation));
}

/* One slice of it. */
static void walk_slots(struct node *node, struct op *op)
{
	uint32_t end = (uint32_t)op->cursor + WALK_BUDGET, next;

	while (op->batch.left < AT_ONCE) {
		uint32_t at = (uint32_t)op->cursor, slot;

		if (at >= end) {
			op_wake(node, op);
			return;
		}
		slot = master_list(&node->master, at, op->value.data,
			(uint32_t)op->value.size, end - at, &next);
		if (slot != SLOT_NONE && !slot_end(node, op, slot)) {
			op->cursor = slot;
			return;
		}
		if (next == SLOT_NONE) {
			op->state = PREFIX_KEYS;
			op->cursor = 0;
			op_wake(node, op);
			return;
		}
		op->cursor = next;
	}
}

static bool key_is_meant(const struct node *node, const struct op *op, uint32_t entry,
	struct msg_bytes key)
{
	return disk_entry(&node->master.disk, entry)->generation < op->ends &&
	       key.size >= op->value.size &&
	       memcmp(key.data, op->value.data, op->value.size) == 0;
}

static void prefix_keys_came(
	struct node *node, struct op *op, const struct job *job, int err)
{
	struct keys_at at = {.i = 0};
	struct msg_bytes key;

	if (err != 0) {
		op->failure = err;
		op->state = PREFIX_WAIT;
		op_wake(node, op);
		return;
	}
	while (keys_next(node, job, &at, &key)) {
		uint64_t generation =
			disk_entry(&node->master.disk, at.entry)->generation;

		op->cursor = at.entry;
		if (key_is_meant(node, op, at.entry, key) &&
			!prefix_has_op(node, op, item_start(node, op, key, generation)))
			return;
	}
	op->cursor = at.entry;
	op_wake(node, op);
}

static void walk_keys(struct node *node, struct op *op)
{
	if (op->batch.left >= AT_ONCE)
		return;
	if (tier_is_there(node) && keys_ask(node, op, (uint32_t)op->cursor,
					   AT_ONCE - op->batch.left, prefix_keys_came))
		return;
	op->state = PREFIX_WAIT;
	op_wake(node, op);
}

/* ---- the flow ------------------------------------------------------------ */

/* 0, or it has answered. */
static int prefix_read(struct node *node, struct op *op)
{
	struct msg_drop_prefix drop;
	struct msg_remove_prefix msg;
	int err;

	if (op->service->type == MSG_TYPE_REMOVE_PREFIX) {
		err = msg_remove_prefix_decode(op->message, op->message_size, &msg);
		op->value = msg.prefix;
		op->ends = generation_of_now(node);
		op->before = op->ends;
	} else {
		err = msg_drop_prefix_decode(op->message, op->message_size, &drop);
		op->value = drop.prefix;
		op->ends = op->before = drop.before;
		if (drop.now != 0)
			op->ends = MAX(op->ends, node->master.last_generation + 1);
	}
	if (err != 0)
		refuse_broken(node, op);
	return err;
}

static void prefix_start(struct node *node, struct op *op)
{
	bool unknown;

	if (prefix_read(node, op) != 0)
		return;
	/* Later puts have more. */
	master_note_generation(&node->master, op->ends - 1);
	op->batch.left = 0;
	fetches_end_prefix(node, op->value.data, (uint32_t)op->value.size, op->ends);
	if (master_doom_prefix(&node->master, op->value.data, (uint32_t)op->value.size) >
		0)
		waiters_wake_all(node);
	if (op->lane->link == NULL && node->cluster.there)
		op->to_tell = drop_places(
			node, &(struct dir_entry){.generation = 0}, &unknown);
	op->tell_until = time_after(node_now(node), END_WAIT_NS);
	walk_begin(node, op);
	op_wake(node, op);
}

static void prefix_answer(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (op->failure == 0)
		op_done(node, op, op->size);
	else
		op_error(node, op, op->failure,
			"%" PRIu64
			" objects were removed, but not all whose keys begin with %s: %s",
			op->size, key_text(op->value.data, op->value.size, key),
			op->failure == ERR_TOO_MANY
				? "the daemon's operations are in use (--max-ops)"
				: err_text(op->failure));
}

static void prefix_wait(struct node *node, struct op *op)
{
	if (op->batch.left > 0)
		return;
	if (op->failure == 0 && op->number != moves_so_far(node) &&
		op->walks < WALKS_LIMIT) {
		walk_begin(node, op);
		op_wake(node, op);
		return;
	}
	if (list_is_empty(&op->asks) && op->to_tell == 0)
		prefix_answer(node, op);
}

static void prefix_stuck(struct node *node, struct op *op)
{
	op->failure = ERR_TOO_MANY;
	op->state = PREFIX_WAIT;
	prefix_wait(node, op);
}

void remove_prefix_run(struct node *node, struct op *op)
{
	if (op->state == PREFIX_START) {
		prefix_start(node, op);
		return;
	}
	if (op->job != NULL)
		return; /* its keys come */
	list_del(&op->wait_entry);
	if (op->to_tell != 0 && !prefix_tell(node, op))
		unsettled_add(node, op);
	if (op->state != PREFIX_WAIT && prefix_is_stuck(node, op)) {
		prefix_stuck(node, op);
		return;
	}
	switch ((enum prefix_state)op->state) {
	case PREFIX_START:
		break;
	case PREFIX_SLOTS:
		walk_slots(node, op);
		return;
	case PREFIX_KEYS:
		walk_keys(node, op);
		return;
	case PREFIX_WAIT:
		prefix_wait(node, op);
		return;
	}
}

void remove_prefix_cancel(struct node *node, struct op *op)
{
	uint64_t pending = op->to_tell;

	keys_leave(op);
	list_for_each_safe (at, &op->batch.ops)
		op_cancel(node, container_of(at, struct op, owner_entry));
	list_for_each (at, &op->asks)
		pending |= 1ull << container_of(at, struct ask, op_entry)->peer;
	asks_forget_all(node, op);
	op->to_tell = 0;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if ((pending >> place & 1) != 0)
			prefix_bury(node, op, place);
	}
}
