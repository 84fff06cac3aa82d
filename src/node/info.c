/*
 * info.c - what a node tells about itself, as JSON.
 *
 * All numbers of one text are of one moment: it is made in one go on the loop thread.
 */
#include "node/node_priv.h"

#include "base/json.h"

struct counter {
	const char *name;
	size_t offset;
};

#define MASTER_COUNTER(name)                               \
	{                                                  \
#name, offsetof(struct master_stats, name) \
	}
#define NODE_COUNTER(name)                               \
	{                                                \
#name, offsetof(struct node_stats, name) \
	}
#define USE(name)                                      \
	{                                              \
#name, offsetof(struct pool_use, name) \
	}
#define DISK_USE(name)                                 \
	{                                              \
#name, offsetof(struct disk_use, name) \
	}

static const struct counter master_counters[] = {
	MASTER_COUNTER(puts),
	MASTER_COUNTER(removes),
	MASTER_COUNTER(takes),
	MASTER_COUNTER(expired),
	MASTER_COUNTER(evicted),
	MASTER_COUNTER(evicted_bytes),
	MASTER_COUNTER(scans),
	MASTER_COUNTER(scans_that_freed),
	MASTER_COUNTER(examined),
	MASTER_COUNTER(freed),
	MASTER_COUNTER(parked_lease),
	MASTER_COUNTER(parked_hold),
	MASTER_COUNTER(parked_both),
	MASTER_COUNTER(parked_pin),
	MASTER_COUNTER(parked_io),
	MASTER_COUNTER(woken),
	MASTER_COUNTER(told),
	MASTER_COUNTER(sweeps),
	MASTER_COUNTER(reads_counted),
	MASTER_COUNTER(ghost_hits),
	MASTER_COUNTER(relocated),
	MASTER_COUNTER(relocated_bytes),
	MASTER_COUNTER(windows),
	MASTER_COUNTER(windows_given_up),
	MASTER_COUNTER(writes),
	MASTER_COUNTER(saves),
	MASTER_COUNTER(saved_bytes),
	MASTER_COUNTER(loads),
	MASTER_COUNTER(loaded_bytes),
	MASTER_COUNTER(dropped),
	MASTER_COUNTER(dropped_bytes),
	MASTER_COUNTER(save_errors),
	MASTER_COUNTER(load_errors),
	MASTER_COUNTER(corrupt),
	MASTER_COUNTER(leases),
	MASTER_COUNTER(leases_released),
	MASTER_COUNTER(leases_ignored),
};
_Static_assert(sizeof(master_counters) / sizeof(master_counters[0]) * sizeof(uint64_t) ==
		       sizeof(struct master_stats),
	"every counter is shown");

static const struct counter node_counters[] = {
	NODE_COUNTER(messages),
	NODE_COUNTER(one_way),
	NODE_COUNTER(batches),
	NODE_COUNTER(errors),
	NODE_COUNTER(attached),
	NODE_COUNTER(gone),
	NODE_COUNTER(faults),
	NODE_COUNTER(waits_room),
	NODE_COUNTER(waits_key),
	NODE_COUNTER(timeouts),
	NODE_COUNTER(loads_joined),
	NODE_COUNTER(loads_refused),
	NODE_COUNTER(jobs),
};
_Static_assert(sizeof(node_counters) / sizeof(node_counters[0]) * sizeof(uint64_t) ==
		       sizeof(struct node_stats),
	"every counter is shown");

static const struct counter uses[] = {
	USE(size),
	USE(free),
	USE(withheld),
	USE(granted),
	USE(writing),
	USE(inactive),
	USE(active),
	USE(dirty),
	USE(spent),
	USE(clean),
	USE(lent),
	USE(large),
	USE(saving),
	USE(parked),
	USE(moving),
	USE(condemned),
	USE(largest_hole),
	USE(turning),
	USE(objects),
};
_Static_assert(
	sizeof(uses) / sizeof(uses[0]) * sizeof(uint64_t) == sizeof(struct pool_use),
	"every number is shown");

static const struct counter disk_uses[] = {
	DISK_USE(size),
	DISK_USE(used),
	DISK_USE(free),
	DISK_USE(largest_hole),
	DISK_USE(bytes),
	DISK_USE(cache_bytes),
	DISK_USE(only_bytes),
	DISK_USE(saving_bytes),
	DISK_USE(objects),
	DISK_USE(objects_only),
	DISK_USE(object_limit),
	DISK_USE(changes),
};
_Static_assert(sizeof(disk_uses) / sizeof(disk_uses[0]) * sizeof(uint64_t) ==
		       offsetof(struct disk_use, error),
	"every number is shown");

static void info_counters(
	struct json *json, const struct counter *counters, size_t count, const void *from)
{
	for (size_t i = 0; i < count; i++) {
		const unsigned char *at = (const unsigned char *)from +
					  counters[i].offset;

		json_u64(json, counters[i].name, *(const uint64_t *)(const void *)at);
	}
}

/* Puts and loads that wait for room. */
static uint64_t tickets_waiting(const struct node *node)
{
	uint64_t count = 0;

	list_for_each (at, &node->master.room.waiting)
		count++;
	return count;
}

static void info_pool(const struct node *node, struct json *json)
{
	const struct share_header *header = node->share->header;
	struct pool_use use;

	master_use(&node->master, &use);
	json_object_begin(json, "pool");
	info_counters(json, uses, ARRAY_LEN(uses), &use);
	json_u64(json, "page_size", header->page_size);
	json_u64(json, "slots", node_slots(node));
	json_u64(json, "slots_limit", header->slots_limit);
	json_u64(json, "largest_object", master_largest(&node->master, 1));
	json_u64(json, "waiting", tickets_waiting(node));
	json_u64(json, "leases", node->master.leases.count);
	json_u64(
		json, "removed_but_held", master_held_bytes(&node->master, CLIENT_LIMIT));
	json_object_end(json);
}

/* `backed`: what the data file takes of the file system; the rest counts values. */
static void info_disk(const struct node *node, struct json *json)
{
	struct disk_use use;

	if (!tier_is_there(node))
		return;
	master_disk_use(&node->master, &use);
	json_object_begin(json, "disk");
	info_counters(json, disk_uses, ARRAY_LEN(disk_uses), &use);
	json_u64(json, "backed", node->env.tier.backed(node->env.tier.ctx));
	json_str(json, "error", use.error != 0 ? err_name(use.error) : "");
	json_u64(json, "jobs_under_way", node->tier.jobs_used);
	json_u64(json, "loads_under_way", node->tier.loads_used);
	json_u64(json, "adopted_at_start", node->tier.adopted);
	json_u64(json, "dropped_at_start", node->tier.dropped);
	json_u64(json, "refused_at_start", node->tier.refused);
	json_object_end(json);
}

static void info_holds(const struct node *node, struct json *json, uint32_t cid)
{
	const _Atomic uint16_t *counts = node->clients[cid].counts;
	uint64_t holds = 0, objects = 0, bytes = 0;

	for (uint32_t slot = 0; slot < node_slots(node); slot++) {
		uint32_t count = atomic_load_explicit(
					 &counts[slot], memory_order_relaxed) &
				 HOLD_COUNT;

		holds += count;
		objects += count > 0;
		bytes += count > 0 ? node->share->slots[slot].size : 0;
	}
	json_u64(json, "holds", holds);
	json_u64(json, "held_objects", objects);
	json_u64(json, "held_bytes", bytes);
}

static uint64_t lanes_of(const struct client *client)
{
	uint64_t count = 0;

	list_for_each (at, &client->lanes)
		count++;
	return count;
}

/* What the page tables of a process cost that has used all of the pool. */
static uint64_t page_tables(const struct node *node)
{
	const struct share_header *header = node->share->header;

	return header->pool_size / header->page_size * sizeof(uint64_t);
}

static void info_clients(const struct node *node, struct json *json)
{
	json_array_begin(json, "clients");
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		const struct client *client = &node->clients[cid];

		if (!client->live)
			continue;
		json_object_begin(json, NULL);
		json_u64(json, "client", cid);
		json_u64(json, "pid", client->process.pid);
		json_bool(json, "read_only", node->share->clients[cid].read_only);
		json_u64(json, "connections", lanes_of(client));
		json_u64(json, "puts_under_way", node->master.writing[cid].count);
		info_holds(node, json, cid);
		json_u64(json, "removed_but_held_bytes",
			master_held_bytes(&node->master, cid));
		json_u64(json, "page_table_bytes", page_tables(node));
		json_object_end(json);
	}
	json_array_end(json);
}

static void info_recovery(const struct node *node, struct json *json)
{
	const struct recovery *recovery = &node->recovery;

	json_object_begin(json, "start");
	json_u64(json, "found", recovery->found);
	json_u64(json, "adopted", recovery->adopted);
	json_u64(json, "writing", recovery->writing);
	json_u64(json, "draining", recovery->draining);
	json_array_begin(json, "dropped");
	for (int reason = 0; reason < DROP_REASONS; reason++) {
		if (recovery->dropped[reason] == 0)
			continue;
		json_object_begin(json, NULL);
		json_str(json, "reason", drop_reason_text((enum drop_reason)reason));
		json_u64(json, "count", recovery->dropped[reason]);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
}

static void info_now(const struct node *node, struct json *json)
{
	json_object_begin(json, "node");
	json_u64(json, "protocol", WIRE_VERSION);
	json_u64(json, "epoch",
		atomic_load_explicit(&node->share->header->epoch, memory_order_relaxed));
	json_u64(json, "up_ns", node_now(node) - node->started_ns);
	json_u64(json, "clients", node->clients_live);
	json_u64(json, "connections", node->lanes_used);
	json_u64(json, "operations", node->ops_used);
	json_u64(json, "pins", node->pins_used);
	json_object_end(json);
}

static void info_hist(struct json *json, const char *name, const struct hist *hist)
{
	json_object_begin(json, name);
	json_u64(json, "count", hist_count(hist));
	json_u64(json, "p50", hist_percentile(hist, 50));
	json_u64(json, "p99", hist_percentile(hist, 99));
	json_u64(json, "max", hist_max(hist));
	json_object_end(json);
}

int64_t info_stats(const struct node *node, char *text, size_t size)
{
	struct json json;

	json_init(&json, text, size);
	json_object_begin(&json, NULL);
	info_now(node, &json);
	info_pool(node, &json);
	info_disk(node, &json);
	json_object_begin(&json, "counters");
	info_counters(
		&json, master_counters, ARRAY_LEN(master_counters), &node->master.stats);
	info_counters(&json, node_counters, ARRAY_LEN(node_counters), &node->stats);
	json_object_end(&json);
	info_hist(&json, "room_wait_ns", &node->room_wait_ns);
	info_hist(&json, "load_wait_ns", &node->load_wait_ns);
	info_hist(&json, "lease_left_ns", &node->master.lease_end_ns);
	info_recovery(node, &json);
	info_clients(node, &json);
	json_object_end(&json);
	return json_finish(&json);
}

int64_t info_config(const struct node *node, char *text, size_t size)
{
	struct json json;

	json_init(&json, text, size);
	json_object_begin(&json, NULL);
	option_json(&json, config_settings(), &node->config);
	json_object_end(&json);
	return json_finish(&json);
}
