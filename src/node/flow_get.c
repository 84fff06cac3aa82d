/*
 * flow_get.c - answer a reader whose own look into the shared index found nothing: GET, and
 * LEASE, which is a GET for somebody on another node.
 *
 *   START --in the pool--> pin -> answer; the reader turns the pin into a hold, and unpins
 *     |  ^--woken-- KEY
 *     |--on disk--> LOAD (flow_load.c) --pinned--> answer
 *     |--not here, among others--> FETCH (flow_fetch.c) --pinned--> answer
 *     '--absent--> NOT_FOUND, or wait for the key if asked
 *
 * Who waits for a key is woken by its put here, and by the node that published it elsewhere,
 * and then looks again.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>

#define LEASE_BASE_NS 1000000000ull
#define LEASE_SPARE   4u
#define LEASE_SPEED   1000000000ull /* bytes a second, before any was measured */

#define FROM_DISK  "back from the disk"
#define FROM_NODE  "from another node"
#define NOT_BESIDE "beside what else is wanted now"

/* Who waits for a key for so long asks the directory once more: it may have forgotten. */
#define WAIT_AGAIN_NS 1800000000000ull

enum get_state {
	GETS_START,
	GETS_LOOK
};

int get_decode(struct op *op)
{
	struct msg_get msg;
	int err = msg_get_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->flags = msg.flags;
	op->deadline = msg.timeout_ns; /* a duration until get_run() */
	return 0;
}

int lease_decode(struct op *op)
{
	struct msg_lease msg;
	int err = msg_lease_decode(op->message, op->message_size, &msg);

	if (err != 0)
		return err;
	op->key.data = msg.key.data;
	op->key.size = (uint32_t)msg.key.size;
	op->length_ns = msg.length_ns;
	op->deadline = msg.timeout_ns;
	return 0;
}

/* ---- answers ------------------------------------------------------------- */

uint64_t lease_length(const struct node *node, uint64_t wanted_ns, uint64_t size)
{
	uint64_t speed = node->cluster.fetch_speed != 0 ? node->cluster.fetch_speed
							: LEASE_SPEED;
	double transfer_ns = (double)size * 1e9 / (double)speed;
	uint64_t length = wanted_ns;

	if (length == 0 && transfer_ns * LEASE_SPARE >= (double)node->config.lease_max)
		return node->config.lease_max;
	if (length == 0)
		length = MAX(node->config.lease_min,
			LEASE_BASE_NS + LEASE_SPARE * (uint64_t)transfer_ns);
	return MIN(length, node->config.lease_max);
}

/* It stands before the answer leaves. */
static size_t lease_make(struct node *node, const struct op *op, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	uint64_t length = lease_length(node, op->length_ns, there->size);
	struct lease_token token = master_lease(
		&node->master, slot, length, node_now(node));
	struct msg_leased msg = {
		.epoch = token.epoch,
		.life = token.life,
		.slot = token.slot,
		.grant = token.grant,
		.generation = there->generation,
		.length_ns = length,
	};

	return msg_leased_encode(node->out, sizeof(node->out), &msg);
}

static void get_found(struct node *node, struct op *op, uint32_t slot)
{
	struct msg_found msg = {.slot = slot, .life = node_life(node, slot)};
	uint64_t limit;

	if (op->service->type == MSG_TYPE_LEASE) {
		op_reply(node, op, lease_make(node, op, slot));
		return;
	}
	if (lane_pin(node, op->lane, slot, &limit) != 0) {
		op_error(node, op, ERR_TOO_MANY,
			"%" PRIu64
			" answers wait to be taken up, which is the limit (--max-pins)",
			limit);
		return;
	}
	op_reply(node, op, msg_found_encode(node->out, sizeof(node->out), &msg));
}

/* ---- absent -------------------------------------------------------------- */

/* Among others it is woken by its key's name as well. */
static void get_wait(struct node *node, struct op *op)
{
	uint64_t again = time_after(node_now(node), WAIT_AGAIN_NS);
	struct cluster *cluster = &node->cluster;

	waiters_add(node, op);
	if (!cluster->there)
		return;
	list_move_tail(
		&cluster->waiting_ids[op->id.word[0] % FETCH_BUCKETS], &op->id_entry);
	heap_set(&node->timers, timer_of_op(node, op), MIN(op->deadline, again));
}

static void get_absent(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	key_text(op->key.data, op->key.size, key);
	if (!(op->flags & GET_WAIT)) {
		op_error(node, op, ERR_NOT_FOUND, "no object under the key %s", key);
		return;
	}
	if (node_now(node) < op->deadline) {
		get_wait(node, op);
		return;
	}
	node->stats.timeouts++;
	op_error(node, op, ERR_TIMEOUT, "the key %s was not put in time", key);
}

/* ---- on disk ------------------------------------------------------------- */

/* `whence`: where the bytes are. */
static void get_no_room(
	struct node *node, struct op *op, const char *whence, const char *when)
{
	struct pool_use use;

	master_use(&node->master, &use);
	op_error(node, op, ERR_NO_SPACE,
		"no room to read %" PRIu64 " bytes %s %s: of %" PRIu64 " bytes %" PRIu64
		" are free, the largest hole has %" PRIu64 "; %" PRIu64
		" are held or leased, %" PRIu64 " ended and still held, %" PRIu64
		" being written",
		op->size, whence, when, use.size, use.free, use.largest_hole, use.parked,
		use.condemned, use.writing);
}

/* What fitted when a batch asked may fit no longer, as others have found and hold what was
 * free then: those who hold what each other waits for would do so until the deadline.
 * `promised`: 0: to none yet. */
static bool get_is_stuck(
	struct node *node, const struct op *op, uint64_t promised, uint64_t size)
{
	uint64_t more = promised == 0 ? master_run_bytes(size, op->key.size) : 0;

	return op->parent != NULL && node_now(node) - op->began >= WAIT_STUCK_NS &&
	       !master_load_fits(&node->master, more, node_now(node));
}

/* Its time is over while the load is under way. */
static void get_late(struct node *node, struct op *op)
{
	bool in_room = op->load->state == LOADS_ROOM;
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	load_leave(node, op);
	if (in_room)
		get_no_room(node, op, FROM_DISK, "until the deadline");
	else
		op_error(node, op, ERR_TIMEOUT,
			"the object under the key %s was not read from the disk in time",
			key_text(op->key.data, op->key.size, key));
}

static void get_elsewhere(struct node *node, struct op *op);

void get_load(struct node *node, struct op *op, uint32_t entry)
{
	/* A batch is given what is there before it is asked what else fits beside that. */
	if (batch_is_starting(op)) {
		op_wake(node, op);
		return;
	}
	op->size = disk_entry(&node->master.disk, entry)->size;
	if (op->load != NULL && !load_is_of(node, op->load, entry))
		load_leave(node, op);
	if (op->load == NULL) {
		switch (load_join(node, op, entry)) {
		case LOAD_JOINED:
			op->began = node_now(node);
			break;
		case LOAD_ENDED:
			get_elsewhere(node, op);
			return;
		case LOAD_REFUSED:
			get_no_room(node, op, FROM_DISK, NOT_BESIDE);
			return;
		}
	}
	if (node_now(node) >= op->deadline) {
		get_late(node, op);
	} else if (op->load->state == LOADS_ROOM &&
		   get_is_stuck(node, op, op->load->promised, op->size)) {
		load_leave(node, op);
		node->stats.loads_refused++;
		get_no_room(node, op, FROM_DISK, NOT_BESIDE);
	} else {
		waiters_add_for_bytes(node, op);
	}
}

/* ---- on another node ----------------------------------------------------- */

/* op->number: the node that is to blame; 0: this one. */
static void fetch_failed(struct node *node, struct op *op, const char *key)
{
	switch (op->failure) {
	case ERR_LOST:
		op_error(node, op, ERR_LOST,
			"every copy of the object under the key %s is gone, generation "
			"%" PRIu64 ", the last on node %016" PRIx64,
			key, op->generation, op->number);
		return;
	case ERR_UNAVAILABLE:
		op_error(node, op, ERR_UNAVAILABLE,
			"the object under the key %s, generation %" PRIu64
			", is on node %016" PRIx64 ", which does not answer now",
			key, op->generation, op->number);
		return;
	default:
		break;
	}
	if (op->number != 0)
		op_error(node, op, op->failure,
			"the object under the key %s, generation %" PRIu64
			", could not be got from node %016" PRIx64 ": %s",
			key, op->generation, op->number, err_text(op->failure));
	else if (op->failure == ERR_NO_SPACE)
		get_no_room(node, op, FROM_NODE, NOT_BESIDE);
	else
		op_error(node, op, op->failure,
			"the object under the key %s, generation %" PRIu64 " and %" PRIu64
			" bytes large, could not be got from another node: %s",
			key, op->generation, op->size, err_text(op->failure));
}

/* Its time is over before it was there. */
static void fetch_late(struct node *node, struct op *op)
{
	bool in_room = op->fetch != NULL && op->fetch->state == FETCH_ROOM;
	char key[NODE_KEY_TEXT];

	node->stats.timeouts++;
	if (in_room)
		op->size = op->fetch->size;
	fetch_leave(node, op);
	if (in_room)
		get_no_room(node, op, FROM_NODE, "until the deadline");
	else
		op_error(node, op, ERR_TIMEOUT,
			"the object under the key %s was not got from another node in "
			"time",
			key_text(op->key.data, op->key.size, key));
}

/* Neither the directory nor all other nodes can be asked. */
static void get_unsettled(struct node *node, struct op *op)
{
	op->unreached = true;
	unsettled_wait(node, op);
}

/* Its time is over, and no question is under way. */
static void get_is_late(struct node *node, struct op *op)
{
	if (op->unreached)
		get_unsettled(node, op);
	else if (op->flags & GET_WAIT)
		get_absent(node, op);
	else
		fetch_late(node, op);
}

static void get_fetch(struct node *node, struct op *op)
{
	bool is_late = node_now(node) >= op->deadline;

	if (batch_is_starting(op)) {
		op_wake(node, op);
	} else if (op->fetch == NULL && is_late) {
		get_is_late(node, op);
	} else if (op->fetch == NULL) {
		op->unreached = false;
		(void)fetch_join(node, op);
	} else if (is_late) {
		fetch_late(node, op);
	} else if (op->fetch->state == FETCH_ROOM &&
		   get_is_stuck(node, op, op->fetch->promised, op->fetch->size)) {
		op->size = op->fetch->size;
		fetch_leave(node, op);
		node->cluster.stats.fetches_refused++;
		get_no_room(node, op, FROM_NODE, NOT_BESIDE);
	} else {
		waiters_add_for_bytes(node, op);
	}
}

/* It is not here. Another node that asks for it asks others itself. */
static void get_elsewhere(struct node *node, struct op *op)
{
	enum fetched fetched = op->fetched;

	if (!node->cluster.there || op->lane->link != NULL) {
		get_absent(node, op);
		return;
	}
	op->fetched = FETCHED_NOTHING;
	switch (fetched) {
	case FETCHED_NOTHING:
	case FETCHED_OBJECT:
		get_fetch(node, op);
		return;
	case FETCHED_ABSENT:
		get_absent(node, op);
		return;
	case FETCHED_UNSETTLED:
		get_unsettled(node, op);
		return;
	}
	NOT_REACHED("a fetch ended otherwise");
}

void get_failed(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	key_text(op->key.data, op->key.size, key);
	if (op->fetched == FETCHED_OBJECT)
		fetch_failed(node, op, key);
	else
		op_error(node, op, op->failure,
			"the object under the key %s could not be read from the disk: %s",
			key, err_text(op->failure));
}

/* ---- the flow ------------------------------------------------------------ */

static void get_look(struct node *node, struct op *op)
{
	uint32_t slot = master_find(&node->master, &op->key);
	uint32_t entry;

	if (slot != SLOT_NONE) {
		load_leave(node, op);
		fetch_leave(node, op);
		get_found(node, op, slot);
		return;
	}
	entry = master_disk_find(&node->master, &op->key);
	if (entry != DISK_NONE) {
		fetch_leave(node, op);
		get_load(node, op, entry);
		return;
	}
	load_leave(node, op);
	get_elsewhere(node, op);
}

static void get_unpin(struct node *node, struct op *op)
{
	lane_unpin(node, op->lane, op->slot, op->life);
	op->slot = SLOT_NONE;
}

/* The load, or the fetch, has pinned op->slot. */
static void get_loaded(struct node *node, struct op *op)
{
	struct msg_found msg = {.slot = op->slot, .life = op->life};
	bool is_ready = node_is_ready(node, op->slot);
	size_t size;

	hist_add(op->fetched == FETCHED_OBJECT ? &node->cluster.fetch_ns
					       : &node->load_wait_ns,
		node_now(node) - op->began);
	if (op->service->type != MSG_TYPE_LEASE) {
		op->slot = SLOT_NONE; /* the pin is the answer's */
		op_reply(node, op, msg_found_encode(node->out, sizeof(node->out), &msg));
		return;
	}
	size = is_ready ? lease_make(node, op, op->slot) : 0;
	get_unpin(node, op);
	if (is_ready)
		op_reply(node, op, size);
	else
		get_look(node, op); /* it was removed since */
}

void get_run(struct node *node, struct op *op)
{
	if (op->state == GETS_START) {
		op->deadline = time_after(node_now(node), op->deadline);
		op->state = GETS_LOOK;
	}
	waiters_del(op);
	if (op->slot != SLOT_NONE)
		get_loaded(node, op);
	else if (op->failure != 0)
		get_failed(node, op);
	else
		get_look(node, op);
}

void get_cancel(struct node *node, struct op *op)
{
	waiters_del(op);
	load_leave(node, op);
	fetch_leave(node, op);
	if (op->slot != SLOT_NONE)
		get_unpin(node, op);
}

/* ---- the end of a lease -------------------------------------------------- */

void lease_end_run(struct node *node, struct op *op)
{
	struct msg_lease_end msg;
	struct lease_token token;

	if (msg_lease_end_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	token = (struct lease_token){
		.epoch = msg.epoch,
		.life = msg.life,
		.slot = msg.slot,
		.grant = msg.grant,
	};
	if (master_lease_release(&node->master, &token, node_now(node)))
		op_done(node, op, 0);
	else
		op_error(node, op, ERR_NOT_FOUND,
			"no such lease is outstanding: it was released, its object is "
			"gone, or the daemon was started again");
}
