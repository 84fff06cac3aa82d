/*
 * node.c - make a node, start it on what is in its pool, and turn it.
 *
 * One turn (node_step) does, each in a bounded piece: what the clock made due in the
 * core, room, jobs of the disk, deadlines of ops, and the ops that were woken. Room comes before deadlines,
 * so that a put whose time is over in the same moment as its room is free gets it.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "ipc/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------- */

/* Large ones cost nothing until they are touched. */
void *node_alloc(struct node *node, size_t count, size_t size, bool *failed)
{
	void *memory = calloc(count, size);

	if (memory != NULL)
		memory_hint_large(memory, count * size);
	for (size_t i = 0; memory != NULL && i < ARRAY_LEN(node->memory); i++) {
		if (node->memory[i] != NULL)
			continue;
		node->memory[i] = memory;
		return memory;
	}
	*failed = true;
	return NULL;
}

static void node_make_lists(struct node *node)
{
	list_init(&node->free_ops);
	list_init(&node->ready);
	list_init(&node->free_lanes);
	list_init(&node->free_pins);
	for (uint32_t i = 0; i < node->config.max_ops; i++) {
		struct op *op = &node->ops[i];

		list_init(&op->owner_entry);
		list_init(&op->wait_entry);
		list_init(&op->id_entry);
		list_init(&op->asks);
		list_init(&op->batch.ops);
		ticket_init(&op->ticket);
		list_add_tail(&node->free_ops, &op->entry);
	}
	for (uint32_t i = 0; i < node->config.max_lanes; i++)
		list_add_tail(&node->free_lanes, &node->lanes[i].entry);
	for (uint32_t i = 0; i < node->config.max_pins; i++)
		list_add_tail(&node->free_pins, &node->pins[i].entry);
	for (uint32_t i = 0; i < NODE_WAIT_BUCKETS; i++)
		list_init(&node->waiting[i]);
	for (uint32_t i = 0; i <= node->lane_mask; i++)
		list_init(&node->lane_buckets[i]);
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		node->clients[cid].cid = cid;
		list_init(&node->clients[cid].lanes);
	}
}

static struct disk_config node_disk_config(const struct node *node)
{
	const struct env_tier *tier = &node->env.tier;

	if (!tier_is_there(node))
		return (struct disk_config){.data_size = 0};
	return (struct disk_config){
		.data_size = tier->data_size,
		.object_limit = (uint32_t)MIN(
			node->config.disk_objects, tier->object_limit),
		.cache_permille = (uint32_t)node->config.disk_cache,
	};
}

static int node_allocate(
	struct node *node, const struct disk_config *disk, void **ret_master)
{
	const struct node_config *config = &node->config;
	struct heap_entry *entries;
	bool failed = false;
	uint32_t *pos, timers;

	node->gate_count = GATE_FETCHES;
	if (node->env.peer.ctx != NULL)
		node->gate_count += (uint32_t)config->max_ops + PEER_TRANSFERS;
	timers = (uint32_t)config->max_ops + CLIENT_LIMIT + node->gate_count;
	node->gates = node_alloc(node, node->gate_count, sizeof(struct gate), &failed);
	node->lane_mask = (uint32_t)round_up_pow2(config->max_lanes) - 1;
	node->ops = node_alloc(node, config->max_ops, sizeof(struct op), &failed);
	node->lanes = node_alloc(node, config->max_lanes, sizeof(struct lane), &failed);
	node->pins = node_alloc(node, config->max_pins, sizeof(struct pin), &failed);
	node->waiting = node_alloc(node, NODE_WAIT_BUCKETS, sizeof(struct list), &failed);
	node->lane_buckets = node_alloc(
		node, node->lane_mask + 1, sizeof(struct list), &failed);
	entries = node_alloc(node, timers, sizeof(struct heap_entry), &failed);
	pos = node_alloc(node, timers, sizeof(uint32_t), &failed);
	*ret_master = node_alloc(node,
		master_memory_size(node->share->header->slots_limit, disk), 1, &failed);
	if (failed || tier_allocate(node) != 0)
		return ERR_NO_MEMORY;
	heap_init(&node->timers, entries, pos, timers);
	node_make_lists(node);
	return 0;
}

static void node_init_master(
	struct node *node, const struct disk_config *disk, void *memory)
{
	struct master_config config = {
		.low_permille = (uint32_t)node->config.low,
		.high_permille = (uint32_t)node->config.high,
		.hash_seed = node->share->header->hash_seed,
		.disk = *disk,
		.clustered = node->env.peer.ctx != NULL,
	};

	node->env.random.fill(node->env.random.ctx, &config.generation_salt,
		sizeof(config.generation_salt));
	config.generation_salt &= (1u << GENERATION_SHIFT) - 1;
	master_init(&node->master, node->share, &config, memory);
}

int node_new(struct node **ret, const struct node_config *config, const struct env *env,
	struct share *share, struct fault_table *faults)
{
	struct node *node = calloc(1, sizeof(*node));
	struct disk_config disk;
	void *memory = NULL;
	int err;

	if (node == NULL)
		return ERR_NO_MEMORY;
	node->config = *config;
	node->env = *env;
	node->share = share;
	node->faults = faults;
	cluster_init(node);
	disk = node_disk_config(node);
	err = node_allocate(node, &disk, &memory);
	if (err != 0) {
		node_free(node);
		return err;
	}
	node_init_master(node, &disk, memory);
	*ret = node;
	return 0;
}

void node_free(struct node *node)
{
	if (node == NULL)
		return;
	for (uint32_t i = 0; node->ops != NULL && i < node->config.max_ops; i++) {
		free(node->ops[i].kept);
		free(node->ops[i].own_key);
		free(node->ops[i].reply);
		free(node->ops[i].batch.replies);
	}
	cluster_free(node);
	for (size_t i = 0; i < ARRAY_LEN(node->memory); i++)
		free(node->memory[i]);
	free(node);
}

/* ---- start --------------------------------------------------------------- */

static void node_log_recovery(const struct node *node)
{
	const struct recovery *recovery = &node->recovery;
	uint64_t dropped = 0;
	char reasons[256] = "";
	size_t at = 0;

	for (int i = 0; i < DROP_REASONS; i++) {
		dropped += recovery->dropped[i];
		if (recovery->dropped[i] > 0 && at < sizeof(reasons))
			at += (size_t)snprintf(reasons + at, sizeof(reasons) - at,
				"%s %s %" PRIu64, at == 0 ? ":" : ",",
				drop_reason_text((enum drop_reason)i),
				recovery->dropped[i]);
	}
	log_line(node->config.log, LOG_LEVEL_INFO, "recovered",
		"msg=\"adopted %" PRIu64 " of %" PRIu64 " objects, dropped %" PRIu64
		"%s\" unfinished=%" PRIu64 " draining=%" PRIu64 " clients=%" PRIu32
		" epoch=%" PRIu64,
		recovery->adopted, recovery->found, dropped, reasons, recovery->writing,
		recovery->draining, node->clients_live,
		atomic_load_explicit(&node->share->header->epoch, memory_order_relaxed));
}

int node_start(struct node *node, struct recovery *ret)
{
	int err;

	node_tick(node);
	node->started_ns = node_now(node);
	atomic_fetch_add_explicit(&node->share->header->epoch, 1, memory_order_relaxed);
	err = clients_start(node);
	if (err != 0)
		return err;
	master_recover(&node->master, node->started_ns, node->config.put_timeout,
		&node->recovery);
	clients_finish_start(node);
	node_log_recovery(node);
	err = tier_start(node);
	if (err != 0)
		return err;
	cluster_start(node);
	*ret = node->recovery;
	return 0;
}

/* ---- turns --------------------------------------------------------------- */

/* The core's own timers. True: there may be more. */
static bool step_core(struct node *node, uint64_t now)
{
	for (uint32_t i = 0; i < NODE_TURN_LIMIT; i++) {
		uint32_t slot = master_advance(&node->master, now);
		uint64_t hash;

		if (slot != SLOT_NONE)
			hash = node->share->slots[slot].hash;
		else if (!master_disk_expire(&node->master, now, &hash))
			return false;
		waiters_wake(node, hash);
	}
	return true;
}

static void timer_is_due(struct node *node, uint32_t id)
{
	uint32_t ops = (uint32_t)node->config.max_ops;

	heap_remove(&node->timers, id);
	if (id < ops)
		op_on_timer(node, &node->ops[id]);
	else if (id < ops + CLIENT_LIMIT)
		client_on_timer(node, &node->clients[id - ops]);
	else
		gate_on_timer(node, id - ops - CLIENT_LIMIT);
}

static bool step_timers(struct node *node, uint64_t now)
{
	uint32_t id;

	for (uint32_t i = 0; i < NODE_TURN_LIMIT; i++) {
		if (heap_min(&node->timers, &id) > now)
			return false;
		timer_is_due(node, id);
	}
	return true;
}

/* True: some ran, which may have made room for others. */
static bool step_ready(struct node *node)
{
	bool any = false;

	for (uint32_t i = 0; i < NODE_TURN_LIMIT; i++) {
		struct list *entry = list_first(&node->ready);

		if (entry == NULL)
			break;
		list_del(entry);
		op_run(node, container_of(entry, struct op, entry));
		any = true;
	}
	node->running = NULL;
	return any;
}

bool node_step(struct node *node)
{
	uint64_t now;
	bool more;

	node_tick(node);
	now = node_now(node);
	more = step_core(node, now);
	more |= room_step(node, now);
	more |= tier_step(node, now);
	more |= cluster_step(node, now);
	more |= step_timers(node, now);
	more |= step_ready(node);
	more |= loads_look(node);
	return more;
}

uint64_t node_next(const struct node *node)
{
	uint64_t next = heap_min(&node->timers, NULL);

	if (!list_is_empty(&node->ready))
		return 0;
	next = MIN(next, master_next(&node->master));
	next = MIN(next, tier_next(node));
	next = MIN(next, cluster_next(node));
	return MIN(next, room_next(node));
}

struct master *node_master(struct node *node)
{
	return &node->master;
}

/* ---- check --------------------------------------------------------------- */

static const char *check_lane(
	const struct node *node, const struct lane *lane, uint32_t *pins)
{
	bool found = lane->request == NULL;

	list_for_each (at, &lane->ops) {
		const struct op *op = container_of(at, struct op, owner_entry);

		if (op->stage == OP_FREE || op->lane != lane || op->parent != NULL)
			return "an op on a lane's list is not that lane's";
		found |= op == lane->request;
	}
	if (!found)
		return "a lane's request is not on its list";
	if ((lane->client != NULL) == list_is_empty(&lane->client_entry))
		return "a lane and its client disagree";
	list_for_each (at, &lane->pins) {
		const struct pin *pin = container_of(at, struct pin, entry);

		if (!master_is_life(&node->master, pin->slot, pin->life))
			return "a pinned object is gone";
		(*pins)++;
	}
	return NULL;
}

static const char *check_lanes(const struct node *node)
{
	uint32_t lanes = 0, pins = 0;

	for (uint32_t i = 0; i <= node->lane_mask; i++) {
		list_for_each (at, &node->lane_buckets[i]) {
			const char *broken = check_lane(
				node, container_of(at, struct lane, entry), &pins);

			if (broken != NULL)
				return broken;
			lanes++;
		}
	}
	if (lanes != node->lanes_used)
		return "the number of lanes is wrong";
	list_for_each (at, &node->cluster.links) {
		const struct link *link = container_of(at, struct link, entry);

		list_for_each (at_lane, &link->lanes) {
			const char *broken = check_lane(node,
				container_of(at_lane, struct lane, link_entry), &pins);

			if (broken != NULL)
				return broken;
		}
	}
	if (pins != node->pins_used || pins != node->master.pinned)
		return "the number of pins is wrong";
	return NULL;
}

/* Each op in use waits for exactly something that will come. */
static const char *check_op(const struct node *node, const struct op *op)
{
	uint32_t timer = timer_of_op(node, op);
	bool has_timer = heap_has(&node->timers, timer);
	bool waits = !list_is_empty(&op->wait_entry);
	bool in_room = op->ticket.state != TICKET_IDLE;

	if (op->stage == OP_FREE)
		return has_timer || waits || in_room ? "a free op waits" : NULL;
	if (op->load != NULL && (!waits || op->load->state == LOADS_FREE))
		return "an op has a load that it does not wait for";
	if (op->fetch != NULL && (!waits || op->fetch->state == FETCH_FREE))
		return "an op has a fetch that it does not wait for";
	if (op->asleep && !has_timer)
		return "an op sleeps for ever";
	if (waits && in_room && op->ticket.state == TICKET_WAITING)
		return "an op waits for a key and for room";
	if (op->query != NULL && op->query->op != op)
		return "an op and its query disagree";
	if (op != node->running && list_is_empty(&op->entry) && !op->asleep && !waits &&
		!in_room && list_is_empty(&op->batch.ops) && op->query == NULL &&
		list_is_empty(&op->asks))
		return "an op waits for nothing";
	return NULL;
}

static const char *check_ops(const struct node *node)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < node->config.max_ops; i++) {
		const char *broken = check_op(node, &node->ops[i]);

		if (broken != NULL)
			return broken;
		used += node->ops[i].stage != OP_FREE;
	}
	return used == node->ops_used ? NULL : "the number of ops is wrong";
}

static const char *check_clients(const struct node *node)
{
	uint32_t live = 0;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		const struct client *client = &node->clients[cid];
		uint32_t state = atomic_load_explicit(
			&node->share->clients[cid].state, memory_order_relaxed);
		uint32_t want = client->leaving ? SHARE_CLIENT_DYING
				: client->live  ? SHARE_CLIENT_LIVE
						: SHARE_CLIENT_FREE;

		if (state != want)
			return "a client and its entry in the shared table disagree";
		if (!client->live && !list_is_empty(&client->lanes))
			return "a client that is gone has lanes";
		live += client->live;
	}
	return live == node->clients_live ? NULL : "the number of clients is wrong";
}

const char *node_check(const struct node *node)
{
	const char *broken = check_clients(node);

	if (broken == NULL)
		broken = check_lanes(node);
	if (broken == NULL)
		broken = check_ops(node);
	if (broken == NULL)
		broken = tier_check(node);
	if (broken == NULL)
		broken = cluster_check(node);
	if (broken == NULL && !heap_check(&node->timers))
		broken = "the node's timers are out of order";
	if (broken == NULL)
		broken = core_check(
			&node->master, node->env.clock.boot_ns(node->env.clock.ctx));
	return broken;
}
