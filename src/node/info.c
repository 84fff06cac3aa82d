/*
 * info.c - what a node tells about itself, as JSON.
 *
 * All numbers of one text are of one moment: it is made in one go on the loop thread.
 */
#include "node/node_priv.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

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
#define COPY_COUNTER(name)                                         \
	{                                                          \
#name, offsetof(struct master_cluster_stats, name) \
	}
#define CLUSTER_COUNTER(name)                               \
	{                                                   \
#name, offsetof(struct cluster_stats, name) \
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

static const struct counter copy_counters[] = {
	COPY_COUNTER(copies),
	COPY_COUNTER(copied_bytes),
	COPY_COUNTER(spared),
	COPY_COUNTER(spared_bytes),
	COPY_COUNTER(handed),
	COPY_COUNTER(handed_bytes),
	COPY_COUNTER(kept),
	COPY_COUNTER(kept_bytes),
	COPY_COUNTER(clocks_refused),
};
_Static_assert(sizeof(copy_counters) / sizeof(copy_counters[0]) * sizeof(uint64_t) ==
		       sizeof(struct master_cluster_stats),
	"every counter is shown");

static const struct counter cluster_counters[] = {
	CLUSTER_COUNTER(asked),
	CLUSTER_COUNTER(asks_failed),
	CLUSTER_COUNTER(asks_served),
	CLUSTER_COUNTER(queries),
	CLUSTER_COUNTER(queries_failed),
	CLUSTER_COUNTER(errands),
	CLUSTER_COUNTER(errands_lost),
	CLUSTER_COUNTER(announced),
	CLUSTER_COUNTER(epochs),
	CLUSTER_COUNTER(conflicts),
	CLUSTER_COUNTER(fetches),
	CLUSTER_COUNTER(fetched_bytes),
	CLUSTER_COUNTER(fetches_joined),
	CLUSTER_COUNTER(fetch_retries),
	CLUSTER_COUNTER(fetch_errors),
	CLUSTER_COUNTER(fetches_refused),
	CLUSTER_COUNTER(replicas),
	CLUSTER_COUNTER(replicas_inline),
	CLUSTER_COUNTER(suspects),
	CLUSTER_COUNTER(refused),
	CLUSTER_COUNTER(swapouts_refused),
	CLUSTER_COUNTER(swapouts_failed),
	CLUSTER_COUNTER(spread),
	CLUSTER_COUNTER(rebuilt),
	CLUSTER_COUNTER(rebuilt_bytes),
	CLUSTER_COUNTER(rebuilds_refused),
	CLUSTER_COUNTER(claimed),
	CLUSTER_COUNTER(keeps_refused),
	CLUSTER_COUNTER(graves),
	CLUSTER_COUNTER(graves_told),
	CLUSTER_COUNTER(graves_lost),
};
_Static_assert(
	sizeof(cluster_counters) / sizeof(cluster_counters[0]) * sizeof(uint64_t) ==
		sizeof(struct cluster_stats),
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
	json_u64(json, "save_bytes_per_second", node->tier.save_speed);
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

/* Numbers of 64 random bits, which JSON's own would round. */
static void info_id(struct json *json, const char *name, uint64_t id)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, id);
	json_str(json, name, text);
}

static const char *peer_state_text(const struct node *node, const struct peer *peer)
{
	if (peer_is_up(peer))
		return "up";
	return peer_is_live(node, peer) ? "suspect" : "gone";
}

static void info_members(const struct node *node, struct json *json)
{
	json_array_begin(json, "members");
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];

		if (peer->state == PEER_FREE)
			continue;
		json_object_begin(json, NULL);
		info_id(json, "node", peer->id);
		json_str(json, "state", peer_state_text(node, peer));
		json_str(json, "endpoint", peer->endpoint);
		json_u64(json, "free_bytes", peer->free_bytes);
		json_u64(json, "silent_ns", node_now(node) - peer->heard_ns);
		json_object_end(json);
	}
	json_array_end(json);
}

static void info_domains(const struct node *node, struct json *json)
{
	json_array_begin(json, "directory");
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		const struct domain *domain = &node->cluster.domains[i];

		if (domain->epoch == 0 && domain->finished == 0)
			continue;
		json_object_begin(json, NULL);
		json_u64(json, "domain", i);
		info_id(json, "epoch", domain->epoch);
		json_bool(json, "reached", domain->epoch != 0);
		json_bool(json, "complete", domain->complete);
		json_object_end(json);
	}
	json_array_end(json);
}

/* What is left is counted only while that matters: it takes a look at every slot. */
static void info_drain(const struct node *node, struct json *json)
{
	json_object_begin(json, "drain");
	json_str(json, "state", drain_state_text(node));
	if (node->cluster.drain.state != DRAIN_OFF) {
		json_u64(json, "kept_in_pool", drain_left(node));
		json_u64(json, "only_on_disk", node->master.disk.only);
		json_u64(json, "durable_and_no_disk", node->cluster.drain.needed_disk);
	}
	json_object_end(json);
}

static void info_cluster(const struct node *node, struct json *json)
{
	const struct cluster *cluster = &node->cluster;

	if (!cluster->there)
		return;
	json_object_begin(json, "cluster");
	info_id(json, "node", cluster->id);
	json_str(json, "name", cluster->name);
	json_str(json, "endpoint", cluster->endpoint);
	info_members(node, json);
	info_domains(node, json);
	info_counters(
		json, cluster_counters, ARRAY_LEN(cluster_counters), &cluster->stats);
	info_counters(
		json, copy_counters, ARRAY_LEN(copy_counters), &node->master.cluster);
	info_drain(node, json);
	json_object_begin(json, "rebuild");
	json_str(json, "state", rebuild_state_text(node));
	json_u64(json, "left", cluster->rebuilder.left);
	json_object_end(json);
	json_u64(json, "leases_outstanding", node->master.leases.count);
	json_u64(json, "fetches_under_way", cluster->fetches_used);
	json_u64(json, "fetch_bytes_per_second", cluster->fetch_speed);
	json_u64(json, "swapout_bytes_per_second", cluster->swapout_speed);
	json_bool(json, "swapout_to_peers_first", node->master.hand.first);
	json_u64(json, "keeps_under_way", cluster->keeping);
	json_u64(json, "asks_under_way", cluster->asks_used);
	json_u64(json, "queries_under_way", cluster->queries_used);
	json_u64(json, "errands_waiting", cluster->errand_count);
	info_hist(json, "fetch_wait_ns", &cluster->fetch_ns);
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
	info_cluster(node, &json);
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
