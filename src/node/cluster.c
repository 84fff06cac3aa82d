/*
 * cluster.c - a node among others: begin, membership, the turn, what must hold.
 *
 * Membership is the directory's: each node renews its name there every RENEW_NS for GONE_NS,
 * and reads who else does. While the directory is away the nodes that are known stay known,
 * and prove by their beats that they live.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things -------------------------------------------------------- */

struct dir_id dir_id_of_key(const void *key, uint32_t size)
{
	struct disk_id id = disk_id_of(key, size);

	return dir_id_of(&id);
}

struct dir_id dir_id_of(const struct disk_id *id)
{
	return (struct dir_id){{id->word[0], id->word[1]}};
}

struct index_key key_of(const struct node *node, const void *key, uint32_t size)
{
	return (struct index_key){
		.data = key,
		.size = size,
		.hash = hash_key(key, size, node->share->header->hash_seed),
	};
}

uint64_t cluster_token(struct node *node)
{
	return node->cluster.next_token++;
}

void speed_note(uint64_t *speed, uint64_t bytes, uint64_t took_ns)
{
	uint64_t this_one;

	if (bytes < SPEED_LEAST || took_ns == 0)
		return;
	this_one = (uint64_t)((double)bytes * 1e9 / (double)took_ns);
	*speed = *speed == 0 ? this_one : *speed - *speed / 4 + this_one / 4;
}

uint64_t generation_of_now(struct node *node)
{
	uint64_t now = node_wall_us(node) << GENERATION_SHIFT;

	return MAX(node->master.last_generation, now) + (1u << GENERATION_SHIFT);
}

/* ---- begin and end ------------------------------------------------------- */

static void cluster_make_lists(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	for (uint32_t i = 0; i < ASK_LIMIT; i++) {
		list_init(&cluster->asks[i].op_entry);
		list_add_tail(&cluster->free_asks, &cluster->asks[i].entry);
	}
	for (uint32_t i = 0; i < cluster->query_limit; i++)
		list_add_tail(&cluster->free_queries, &cluster->queries[i].entry);
	for (uint32_t i = 0; i < cluster->fetch_limit; i++) {
		struct fetch *fetch = &cluster->fetches[i];

		list_init(&fetch->queue_entry);
		list_init(&fetch->asks);
		ticket_init(&fetch->ticket);
		fetch->slot = SLOT_NONE;
		fetch->number = PEER_TRANSFERS;
		list_add_tail(&cluster->free_fetches, &fetch->entry);
	}
	for (uint32_t i = 0; i < FETCH_BUCKETS; i++) {
		list_init(&cluster->fetch_buckets[i]);
		list_init(&cluster->waiting_ids[i]);
	}
}

void cluster_init(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	list_init(&cluster->free_asks);
	list_init(&cluster->free_queries);
	list_init(&cluster->links);
	list_init(&cluster->errands);
	list_init(&cluster->errands_out);
	list_init(&cluster->unsettled);
	list_init(&cluster->free_fetches);
	list_init(&cluster->fetch_room);
	list_init(&cluster->fetch_turn);
	list_init(&cluster->graves);
	list_init(&cluster->superseded);
	list_init(&cluster->swept);
	for (uint32_t place = 0; place < PEER_LIMIT; place++)
		list_init(&cluster->peers[place].asks);
}

int node_join_cluster(struct node *node, const struct node_cluster *join)
{
	struct cluster *cluster = &node->cluster;
	uint32_t ops = (uint32_t)node->config.max_ops;
	bool failed = false;

	CHECK(node->env.peer.ctx != NULL && join->id != 0 && join->incarnation != 0);
	cluster->id = join->id;
	cluster->incarnation = join->incarnation;
	cluster->name = join->name;
	cluster->endpoint = join->endpoint;
	cluster->dir = join->dir;
	cluster->query_limit = ops + ERRANDS_AT_ONCE + ANNOUNCE_AT_ONCE + 16;
	cluster->fetch_limit = ops +
			       PEER_TRANSFERS; /* each has an op, or is being stopped */
	cluster->asks = node_alloc(node, ASK_LIMIT, sizeof(struct ask), &failed);
	cluster->queries = node_alloc(
		node, cluster->query_limit, sizeof(struct query), &failed);
	cluster->fetches = node_alloc(
		node, cluster->fetch_limit, sizeof(struct fetch), &failed);
	cluster->fetch_buckets = node_alloc(
		node, FETCH_BUCKETS, sizeof(struct list), &failed);
	cluster->waiting_ids = node_alloc(
		node, FETCH_BUCKETS, sizeof(struct list), &failed);
	cluster->members = node_alloc(
		node, DIR_HOLDERS, sizeof(struct dir_member), &failed);
	if (failed)
		return ERR_NO_MEMORY;
	cluster_make_lists(node);
	cluster->there = true;
	return 0;
}

void cluster_start(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	if (!cluster->there)
		return;
	node->env.random.fill(
		node->env.random.ctx, &cluster->next_token, sizeof(cluster->next_token));
	cluster->next_token |= 1; /* 0 is no token */
	rng_init(&cluster->rng, cluster->next_token);
	cluster->stepped_ns = node_now(node);
}

static void free_entries(struct list *list, size_t offset)
{
	struct list *first;

	while ((first = list_first(list)) != NULL) {
		list_del(first);
		free((unsigned char *)first - offset);
	}
}

void cluster_free(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	free_entries(&cluster->links, offsetof(struct link, entry));
	free_entries(&cluster->errands, offsetof(struct errand, entry));
	free_entries(&cluster->graves, offsetof(struct grave, entry));
	free_entries(&cluster->superseded, offsetof(struct superseded, entry));
	free_entries(&cluster->swept, offsetof(struct swept, entry));
	for (uint32_t i = 0; i < cluster->query_limit; i++)
		query_free_owner(&cluster->queries[i]);
	for (uint32_t i = 0; i < cluster->fetch_limit; i++)
		free(cluster->fetches[i].key);
}

/* ---- membership ---------------------------------------------------------- */

static void members_taken(struct node *node, const struct dir_call *call)
{
	struct cluster *cluster = &node->cluster;
	char other[32];

	for (uint32_t i = 0; i < call->member_count; i++) {
		const struct dir_member *member = &call->members[i];
		uint32_t place;

		if (member->node == cluster->id)
			continue;
		place = peer_meet(
			node, member->node, member->incarnation, member->endpoint);
		if (place != PEER_LIMIT) {
			cluster->peers[place].member_ns = node_now(node);
			continue;
		}
		(void)snprintf(other, sizeof(other), "%016" PRIx64, member->node);
		log_line(node->config.log, LOG_LEVEL_WARNING, "too_many_nodes",
			"node=%s limit=%u", other, PEER_LIMIT);
	}
	cluster->peers_due_ns = 0;
	cluster->renewed_ns = node_now(node);
	if (!cluster->members_known) {
		cluster->members_known = true;
		cluster_changed(node);
	}
}

bool peers_are_heard(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	if (node_now(node) - node->started_ns >= GONE_NS)
		return true;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &cluster->peers[place];

		if (peer->state != PEER_FREE && !peer_is_up(peer) &&
			peer->generation == 0)
			return false;
	}
	return cluster->members_known;
}

/* Members are in the first domain; while that is away nobody is gone for not being one. */
bool name_has_lapsed(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	return cluster->domains[0].epoch != 0 &&
	       (cluster->named_ns == 0 || node_now(node) - cluster->named_ns >= GONE_NS);
}

static void members_renewed(struct node *node, struct query *query)
{
	struct cluster *cluster = &node->cluster;
	bool had_lapsed = name_has_lapsed(node);

	cluster->renewing = false;
	if (query->call.err != 0) {
		cluster->renew_ns = node_now(node) + CLUSTER_RETRY;
		return;
	}
	cluster->named_ns = cluster->naming_ns;
	members_taken(node, &query->call);
	if (had_lapsed)
		cluster_changed(node);
}

static void members_step(struct node *node, uint64_t now)
{
	struct cluster *cluster = &node->cluster;
	struct query *query;

	if (cluster->renewing || now < cluster->renew_ns || node_is_leaving(node))
		return;
	cluster->renew_ns = now + RENEW_NS;
	query = query_new(node, DIR_OP_RENEW, NULL);
	if (query == NULL)
		return;
	query->member = (struct dir_member){
		.node = cluster->id,
		.incarnation = cluster->incarnation,
		.free_bytes = keep_credit(node),
	};
	(void)snprintf(query->member.endpoint, sizeof(query->member.endpoint), "%s",
		cluster->endpoint);
	query->call.member = &query->member;
	query->call.members = cluster->members;
	query->call.bury_ns = GONE_NS;
	cluster->renewing = true;
	cluster->naming_ns = now;
	query_start(node, query, members_renewed);
}

/* ---- what left ----------------------------------------------------------- */

uint64_t entry_ttl(uint64_t rest_ns)
{
	return rest_ns == 0 ? 0 : time_after(rest_ns, rest_ns / 8 + ENTRY_REST_NS);
}

/* The key of what has ended, if that is still where it was: by it the holders are told, whose
 * clocks differ. */
static void left_find_key(
	const struct node *node, const struct left *left, struct errand *errand)
{
	const struct slot *there;
	struct disk_id id;

	if (!left->ended || left->slot == SLOT_NONE)
		return;
	there = &node->share->slots[left->slot];
	if (there->klen == 0 || there->klen > KEY_LIMIT)
		return;
	id = disk_id_of(slot_key(node->share, there), there->klen);
	if (id.word[0] != left->id.word[0] || id.word[1] != left->id.word[1])
		return;
	errand->key = slot_key(node->share, there);
	errand->key_size = there->klen;
}

void left_take(struct node *node, const struct dir_id *ended, uint64_t generation)
{
	struct left left;

	/* Copies that are here no more are no place to ask. */
	while (node->cluster.errand_count < ERRAND_LIMIT / 2 &&
		master_left_next(&node->master, &left)) {
		struct dir_id id = dir_id_of(&left.id);
		struct errand errand = {
			.kind = left.ended ? ERRAND_TAKE_OUT : ERRAND_LEAVE,
			.id = id,
			.generation = left.generation,
			.hash = left.hash,
			.at_once = left.undone,
		};

		left_find_key(node, &left, &errand);
		if (ended == NULL || !left.ended || left.generation != generation ||
			!dir_id_is(&id, ended))
			errand_add(node, &errand);
	}
	/* Who meets what could not be told finds it out by asking this node. */
	node->cluster.stats.errands_lost += master_left_lost(&node->master);
}

/* ---- the turn ------------------------------------------------------------ */

bool cluster_step(struct node *node, uint64_t now)
{
	bool more;

	if (!node->cluster.there)
		return false;
	if (leave_is_silent(node)) {
		asks_step(node);
		return leave_step(node, now);
	}
	members_step(node, now);
	peers_step(node, now);
	left_take(node, NULL, 0);
	swapouts_step(node, now);
	errands_step(node, now);
	more = drain_step(node);
	more |= rebuild_step(node, now);
	more |= epochs_step(node, now);
	superseded_step(node);
	graves_step(node, now);
	asks_step(node);
	more |= leave_step(node, now);
	return more;
}

uint64_t cluster_next(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;
	uint64_t next;

	if (!cluster->there)
		return UINT64_MAX;
	if (cluster->asks_hopeless)
		return 0;
	if (leave_is_silent(node))
		return leave_next(node);
	next = leave_next(node);
	if (!cluster->renewing && !node_is_leaving(node))
		next = MIN(next, cluster->renew_ns);
	next = MIN(next, cluster->peers_due_ns);
	next = MIN(next, errands_next(node));
	next = MIN(next, swapouts_next(node));
	next = MIN(next, drain_next(node));
	next = MIN(next, rebuild_next(node));
	next = MIN(next, epochs_next(node));
	return MIN(next, graves_next(node));
}

/* ---- check --------------------------------------------------------------- */

static uint32_t list_count(const struct list *list)
{
	uint32_t count = 0;

	list_for_each (at, list)
		count++;
	return count;
}

static const char *check_asks(const struct cluster *cluster)
{
	uint32_t used = 0;

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		list_for_each (at, &cluster->peers[place].asks) {
			const struct ask *ask = container_of(at, struct ask, entry);

			if (ask->peer != place || ask->done == NULL)
				return "an ask on a peer's list is not that peer's";
			used++;
		}
	}
	return used == cluster->asks_used ? NULL : "the number of asks is wrong";
}

const char *cluster_check(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;
	const char *broken;

	if (!cluster->there)
		return NULL;
	broken = check_asks(cluster);
	if (broken == NULL)
		broken = fetches_check(node);
	if (broken == NULL &&
		list_count(&cluster->errands) + cluster->errands_under_way !=
			cluster->errand_count)
		broken = "the number of errands is wrong";
	if (broken == NULL)
		broken = swapouts_check(node);
	if (broken == NULL)
		broken = graves_check(node);
	return broken;
}
