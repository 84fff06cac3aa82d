/*
 * clients.c - who is attached: HELLO, BYE, the end of a process, and those of an earlier
 * run.
 *
 *   FREE --hello_attach--> LIVE --client_begin_end--> DYING --client_finish_end--> FREE
 *
 * The shared table is the truth, so that every instant can be taken up by the next
 * daemon: an entry names its counts file (incarnation) before the file is made and until
 * it is gone, and is LIVE before the client hears of it. A client whose lanes are all
 * closed stays until its process has ended: it may hold objects. Only the end of the
 * process, or its own BYE, ends a client that was heard after its WELCOME (the library
 * sends an empty TELL at once).
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <string.h>

#define INCARNATION_LIMIT (1u << 24)

static const uint8_t no_token[16];

static struct share_client *entry_of(const struct node *node, uint32_t cid)
{
	return &node->share->clients[cid];
}

static enum share_client_state entry_state(const struct node *node, uint32_t cid)
{
	return (enum share_client_state)atomic_load_explicit(
		&entry_of(node, cid)->state, memory_order_acquire);
}

static void entry_set(
	const struct node *node, uint32_t cid, enum share_client_state state)
{
	atomic_store_explicit(
		&entry_of(node, cid)->state, (uint32_t)state, memory_order_release);
}

uint32_t client_ref_of(const struct node *node, const struct client *client)
{
	return client_ref(client->cid, entry_of(node, client->cid)->incarnation);
}

/* ---- end ----------------------------------------------------------------- */

/* The last steps, for any entry that is not LIVE: its counts file, then the entry. */
static void entry_clear(struct node *node, uint32_t cid)
{
	struct share_client *entry = entry_of(node, cid);
	const struct env_disk *disk = &node->env.disk;

	if (entry->incarnation != 0)
		disk->holds_drop(disk->ctx, cid, entry->incarnation);
	entry_set(node, cid, SHARE_CLIENT_FREE);
	entry->incarnation = 0;
	memset(entry->token, 0, sizeof(entry->token));
}

static void client_wake_waiters(struct node *node, uint32_t cid)
{
	/* One that ends is on the list of its client until the client is gone. */
	uint32_t slot = master_client_put(&node->master, cid);

	while (slot != SLOT_NONE) {
		const struct slot *put = &node->share->slots[slot];
		uint64_t hash = put->hash;
		uint64_t life = slot_life_of(
			atomic_load_explicit(&put->state, memory_order_relaxed));

		publish_undo(node, slot);
		CHECK(master_put_abort(&node->master, slot, life, put->writer) == 0);
		waiters_wake(node, hash);
		slot = master_client_put(&node->master, cid);
	}
}

static void client_begin_end(struct node *node, struct client *client)
{
	client->leaving = true;
	entry_set(node, client->cid, SHARE_CLIENT_DYING);
}

static void client_finish_end(
	struct node *node, struct client *client, const struct op *except)
{
	uint32_t cid = client->cid;

	while (!list_is_empty(&client->lanes)) {
		struct lane *lane = container_of(
			list_first(&client->lanes), struct lane, client_entry);
		bool stays = except != NULL && except->lane == lane;

		lane_leave(node, lane, except);
		if (!stays)
			lane_close(node, lane);
	}
	client_wake_waiters(node, cid);
	master_client_gone(&node->master, cid, node_now(node));
	heap_remove(&node->timers, timer_of_client(node, cid));
	node->env.net.unwatch(node->env.net.ctx, cid);
	entry_clear(node, cid);
	client->live = client->leaving = false;
	client->counts = NULL;
	node->clients_live--;
	node->stats.gone++;
	log_line(node->config.log, LOG_LEVEL_DEBUG, "client_gone",
		"client=%" PRIu32 " pid=%" PRIu32, cid, client->process.pid);
}

void node_on_exit(struct node *node, uint32_t cid)
{
	struct client *client = &node->clients[cid];
	int64_t value = 0;

	if (cid >= CLIENT_LIMIT || !client->live || client->leaving)
		return;
	node_tick(node);
	client_begin_end(node, client);
	if (node_fault(node, FAULT_NODE_CLIENT_GONE, &value) == FAULT_SLEEP)
		heap_set(&node->timers, timer_of_client(node, cid),
			time_after(node_now(node), fault_ns(value)));
	else
		client_finish_end(node, client, NULL);
}

/* One that never got its WELCOME holds nothing, and would stay as long as its process. */
void client_lost_lane(struct node *node, struct client *client)
{
	if (client->live && !client->heard && list_is_empty(&client->lanes))
		node_on_exit(node, client->cid);
}

void client_on_timer(struct node *node, struct client *client)
{
	if (client->live && client->leaving)
		client_finish_end(node, client, NULL);
}

void bye_run(struct node *node, struct op *op)
{
	struct client *client = op->lane->client;

	if (!op_gate(node, op, FAULT_NODE_CLIENT_GONE))
		return;
	if (!client->leaving)
		client_begin_end(node, client);
	client_finish_end(node, client, op);
	op_done(node, op, 0);
}

/* ---- attach -------------------------------------------------------------- */

enum hello_state {
	HELLO_START,
	HELLO_ATTACHED,
	HELLO_JOINED
};

int hello_decode(struct op *op)
{
	struct msg_hello msg;
	int err = msg_hello_decode(op->message, op->message_size, &msg);

	if (err == 0)
		op->flags = msg.flags;
	return err;
}

static bool uid_is_allowed(const struct node *node, uint32_t uid)
{
	for (uint32_t i = 0; i < node->config.uid_count; i++) {
		if (node->config.uids[i] == uid)
			return true;
	}
	return false;
}

static uint32_t client_find_free(const struct node *node)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (!node->clients[cid].live &&
			entry_state(node, cid) == SHARE_CLIENT_FREE)
			return cid;
	}
	return CLIENT_LIMIT;
}

static uint32_t incarnation_next(struct share_header *header)
{
	header->last_incarnation = (header->last_incarnation + 1) % INCARNATION_LIMIT;
	if (header->last_incarnation == 0)
		header->last_incarnation = 1;
	return header->last_incarnation;
}

static void entry_fill(struct node *node, uint32_t cid, const struct env_process *process,
	bool read_only)
{
	struct share_client *entry = entry_of(node, cid);

	entry->pid = process->pid;
	entry->start_time = process->start_time;
	entry->read_only = read_only;
	entry->read_sequence = 0;
	do {
		node->env.random.fill(
			node->env.random.ctx, entry->token, sizeof(entry->token));
	} while (memcmp(entry->token, no_token, sizeof(no_token)) == 0);
}

static void client_enter(struct node *node, uint32_t cid,
	const struct env_process *process, _Atomic uint16_t *counts)
{
	struct client *client = &node->clients[cid];

	client->live = true;
	client->leaving = client->looked = client->repeats = client->heard = false;
	client->counts = counts;
	client->process = *process;
	node->clients_live++;
	master_client_add(&node->master, cid, counts);
}

static void client_join_lane(struct node *node, struct client *client, struct lane *lane)
{
	lane->client = client;
	list_add_tail(&client->lanes, &lane->client_entry);
	if (!client->looked)
		master_look_all(&node->master, node_now(node));
	client->looked = true;
}

/* A new client of the process at the lane's other end. It may have answered. */
static int hello_attach(struct node *node, struct op *op)
{
	const struct env *env = &node->env;
	uint32_t cid = client_find_free(node);
	struct env_process process;
	_Atomic uint16_t *counts;
	int err;

	if (cid == CLIENT_LIMIT) {
		op_error(node, op, ERR_TOO_MANY,
			"%u clients are attached to this node, which is the limit",
			CLIENT_LIMIT);
		return ERR_TOO_MANY;
	}
	err = env->net.watch_lane(env->net.ctx, op->lane->id, cid, &process);
	if (err != 0) {
		op_error(node, op, err,
			"the process at the other end cannot be watched: %s",
			err_text(err));
		return err;
	}
	entry_of(node, cid)->incarnation = incarnation_next(node->share->header);
	err = env->disk.holds_make(env->disk.ctx, cid, entry_of(node, cid)->incarnation,
		node_slots(node), &counts);
	if (err != 0) {
		env->net.unwatch(env->net.ctx, cid);
		entry_clear(node, cid);
		op_error(node, op, err,
			"no counts file of %" PRIu32 " slots can be made: %s",
			node_slots(node), err_text(err));
		return err;
	}
	entry_fill(node, cid, &process, op->flags & HELLO_READ_ONLY);
	client_enter(node, cid, &process, counts);
	entry_set(node, cid, SHARE_CLIENT_LIVE);
	client_join_lane(node, &node->clients[cid], op->lane);
	node->stats.attached++;
	log_line(node->config.log, LOG_LEVEL_DEBUG, "attached",
		"client=%" PRIu32 " pid=%" PRIu32 " uid=%" PRIu32, cid, process.pid,
		op->lane->uid);
	return 0;
}

static struct client *client_find_token(struct node *node, const uint8_t *token)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		struct client *client = &node->clients[cid];

		if (client->live && !client->leaving &&
			memcmp(entry_of(node, cid)->token, token, 16) == 0)
			return client;
	}
	return NULL;
}

/* One more lane of a client. It may have answered. */
static int hello_join(struct node *node, struct op *op, const uint8_t *token)
{
	struct client *client = client_find_token(node, token);
	const struct env_net *net = &node->env.net;
	struct env_process process;
	int err;

	if (client == NULL) {
		op_error(node, op, ERR_STALE,
			"no client has this token: the pool is another one, or that "
			"process has ended; attach again");
		return ERR_STALE;
	}
	err = net->watch_lane(net->ctx, op->lane->id, client->cid, &process);
	if (err == 0 && (process.pid != client->process.pid ||
				process.start_time != client->process.start_time))
		err = ERR_NOT_PERMITTED;
	if (err != 0) {
		op_error(node, op, err,
			"client %" PRIu32 " is process %" PRIu32
			", not the one that asks",
			client->cid, client->process.pid);
		return err;
	}
	client_join_lane(node, client, op->lane);
	return 0;
}

static void hello_answer(struct node *node, struct op *op)
{
	const struct share_header *header = node->share->header;
	const struct share_client *entry = entry_of(node, op->lane->client->cid);
	struct msg_welcome msg = {
		.version = WIRE_VERSION,
		.cid = op->lane->client->cid,
		.incarnation = entry->incarnation,
		.small_limit = (uint32_t)node->config.small_limit,
		.epoch = atomic_load_explicit(&header->epoch, memory_order_relaxed),
		.pool_size = header->pool_size,
		.index_size = share_index_size(header->slots_limit),
		.holds_size = share_holds_size(header->slots_limit),
		.page_size = header->page_size,
	};

	memcpy(msg.token, entry->token, sizeof(msg.token));
	memcpy(msg.pool_id, header->pool_id, sizeof(msg.pool_id));
	op->with_grant = op->state == HELLO_ATTACHED;
	op_reply(node, op, msg_welcome_encode(node->out, sizeof(node->out), &msg));
}

/* 0, or it has answered. */
static int hello_check(struct node *node, struct op *op, const struct msg_hello *msg)
{
	if (msg->version != WIRE_VERSION) {
		op_error(node, op, ERR_VERSION,
			"the client speaks protocol %" PRIu32 ", this daemon %u",
			msg->version, WIRE_VERSION);
		return ERR_VERSION;
	}
	if (!uid_is_allowed(node, op->lane->uid)) {
		op_error(node, op, ERR_NOT_PERMITTED,
			"user id %" PRIu32 " is not in the daemon's list (--allow-uid)",
			op->lane->uid);
		return ERR_NOT_PERMITTED;
	}
	return 0;
}

void hello_run(struct node *node, struct op *op)
{
	struct msg_hello msg;

	if (op->state == HELLO_START) {
		if (msg_hello_decode(op->message, op->message_size, &msg) != 0)
			NOT_REACHED("it was decoded when it came");
		if (hello_check(node, op, &msg) != 0)
			return;
		if (memcmp(msg.token, no_token, sizeof(no_token)) == 0) {
			if (hello_attach(node, op) != 0)
				return;
			op->state = HELLO_ATTACHED;
		} else {
			if (hello_join(node, op, msg.token) != 0)
				return;
			op->state = HELLO_JOINED;
		}
	}
	if (op_gate(node, op, FAULT_NODE_BEFORE_ATTACH_ANSWER))
		hello_answer(node, op);
}

/* The client never heard its token, so nobody else can end it. */
void hello_cancel(struct node *node, struct op *op)
{
	struct client *client = op->lane->client;

	if (op->state != HELLO_ATTACHED || client == NULL || client->leaving)
		return;
	client_begin_end(node, client);
	client_finish_end(node, client, op);
}

/* ---- start --------------------------------------------------------------- */

/* 0: it lives and is entered, or it is marked DYING. */
static int client_adopt(struct node *node, uint32_t cid)
{
	const struct share_client *entry = entry_of(node, cid);
	struct env_process process = {.pid = entry->pid, .start_time = entry->start_time};
	const struct env *env = &node->env;
	_Atomic uint16_t *counts;
	int err = env->net.watch_process(env->net.ctx, &process, cid);

	if (err == ERR_NOT_FOUND) {
		entry_set(node, cid, SHARE_CLIENT_DYING);
		return 0;
	}
	if (err == 0)
		err = env->disk.holds_open(
			env->disk.ctx, cid, entry->incarnation, &counts);
	if (err == 0) {
		client_enter(node, cid, &process, counts);
		node->clients[cid].repeats = node->clients[cid].heard = true;
		return 0;
	}
	log_line(node->config.log, LOG_LEVEL_ERROR, "start_refused",
		"client=%" PRIu32 " pid=%" PRIu32 " incarnation=%" PRIu32
		" msg=\"the holds of a living client cannot be known: %s; "
		"end that process first\"",
		cid, entry->pid, entry->incarnation, err_text(err));
	return err;
}

int clients_start(struct node *node)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		int err = 0;

		if (entry_state(node, cid) == SHARE_CLIENT_LIVE)
			err = client_adopt(node, cid);
		if (err != 0)
			return err;
	}
	return 0;
}

void clients_finish_start(struct node *node)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (entry_state(node, cid) != SHARE_CLIENT_LIVE)
			entry_clear(node, cid);
	}
}
