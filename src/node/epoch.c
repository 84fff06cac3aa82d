/*
 * epoch.c - what the directory may have forgotten is announced to it again.
 *
 * Under a new epoch of a domain every node walks all that it holds and announces what lies
 * there; when the last of that was answered, it says so with its beats. Until every live
 * node has, what is absent there counts for nothing (epoch_is_complete()).
 *
 *   node_on_epoch -> wanted --announcer is idle--> walking --end--> finished, told by beats
 *                      ^------- something could not be ------'
 *                      |------- keepers were named under it before it was complete
 *                      '------- a copy comes that the directory cannot name (epoch_reopen()),
 *                               told by beats
 *
 * Such a copy is not announced as the rest is: whether there is such an object the directory says.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define HELD_BUDGET 1024u

/* ---- whether all have ---------------------------------------------------- */

size_t epochs_pack(const struct node *node, uint8_t *bytes)
{
	size_t at = 0;

	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		uint64_t epoch = htole64(node->cluster.domains[i].finished);

		if (epoch == 0)
			continue;
		memcpy(bytes + at, &epoch, sizeof(epoch));
		at += sizeof(epoch);
	}
	return at;
}

static bool peer_has_finished(const struct peer *peer, uint64_t epoch)
{
	for (uint32_t i = 0; i < peer->epoch_count; i++) {
		if (peer->epochs[i] == epoch)
			return true;
	}
	return false;
}

static bool domain_is_complete(const struct node *node, const struct domain *domain)
{
	if (domain->epoch == 0 || domain->finished != domain->epoch)
		return false;
	if (PLANTED(EARLY_EPOCH))
		return true;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &node->cluster.peers[place];

		if (peer_is_live(node, peer) && !peer_has_finished(peer, domain->epoch))
			return false;
	}
	return node->cluster.members_known;
}

bool epoch_is_complete(const struct node *node, uint32_t domain, uint64_t epoch)
{
	if (domain >= DIR_DOMAINS || epoch == 0)
		return false;
	return node->cluster.domains[domain].complete &&
	       node->cluster.domains[domain].epoch == epoch;
}

uint64_t complete_epoch(const struct node *node, const struct dir_id *id)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t number = cluster->dir.domain_of(cluster->dir.ctx, id);

	return number < DIR_DOMAINS && cluster->domains[number].complete
		       ? cluster->domains[number].epoch
		       : 0;
}

bool directory_knows_all(const struct node *node, const struct dir_id *id)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t number = cluster->dir.domain_of(cluster->dir.ctx, id);

	if (number >= DIR_DOMAINS || !cluster->domains[number].complete)
		return false;
	/* It may not have heard yet of one that is cut off, if the directory has forgotten it. */
	if (node_now(node) - node->started_ns < GONE_NS)
		return false;
	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		const struct peer *peer = &cluster->peers[place];

		if (peer->state != PEER_FREE &&
			node_now(node) - peer->heard_ns < GRAVE_NS &&
			!peer_has_finished(peer, cluster->domains[number].epoch))
			return false;
	}
	return true;
}

bool directory_is_away(const struct node *node, const struct dir_id *id)
{
	const struct cluster *cluster = &node->cluster;
	uint32_t number = cluster->dir.domain_of(cluster->dir.ctx, id);

	return number < DIR_DOMAINS && cluster->domains[number].epoch == 0;
}

/* ---- who waits for a change ---------------------------------------------- */

void cluster_changed(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	for (uint32_t i = 0; i < DIR_DOMAINS; i++)
		cluster->domains[i].complete = domain_is_complete(
			node, &cluster->domains[i]);
	list_for_each_safe (at, &cluster->unsettled) {
		list_del(at);
		op_wake(node, container_of(at, struct op, wait_entry));
	}
}

void unsettled_add(struct node *node, struct op *op)
{
	uint64_t soon = node_now(node) + CLUSTER_RETRY;

	list_move_tail(&node->cluster.unsettled, &op->wait_entry);
	heap_set(&node->timers, timer_of_op(node, op), MIN(soon, op->deadline));
}

void unsettled_wait(struct node *node, struct op *op)
{
	char key[NODE_KEY_TEXT];

	if (node_now(node) < op->deadline) {
		unsettled_add(node, op);
		return;
	}
	node->stats.timeouts++;
	op_error(node, op, ERR_UNAVAILABLE,
		"whether there is an object under the key %s cannot be told: the "
		"directory, or a node, does not answer",
		key_text(op->key.data, op->key.size, key));
}

/* ---- announcements ------------------------------------------------------- */

static void domain_failed(struct node *node, uint32_t number)
{
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		if (number == DIR_DOMAIN_NONE || number == i)
			node->cluster.domains[i].failed = true;
	}
}

/* Another generation stays, or this one was removed: it ends here as well. */
static void held_is_over(
	struct node *node, const struct query *query, struct msg_bytes key)
{
	const struct held *held = &query->held;
	const struct dir_call *call = &query->call;
	char text[NODE_KEY_TEXT] = "(on disk)";

	if (key.data != NULL)
		key_text(key.data, key.size, text);
	if (call->verdict == DIR_OLDER) {
		node->cluster.stats.conflicts++;
		log_line(node->config.log, LOG_LEVEL_WARNING, "older_generation",
			"key=%s generation=%" PRIu64 " other=%" PRIu64
			" msg=\"a newer object has the key; this one is dropped\"",
			text, held->generation, call->entry.generation);
	}
	master_held_end(&node->master, held, node_now(node));
}

/* An older object, or a put that was not confirmed, has given way: whoever holds it is told. */
static void held_has_replaced(
	struct node *node, const struct query *query, struct msg_bytes key)
{
	node->cluster.stats.conflicts++;
	superseded_add(node, &query->held, &query->call.entry, key);
}

/* No entry has it. What has come to be kept here since it was asked for is announced. */
static void unlisted_is_gone(
	struct node *node, const struct query *query, struct msg_bytes key)
{
	uint32_t slot;

	if (master_held_find(&node->master, &query->held, &slot) && slot != SLOT_NONE &&
		(node->share->slots[slot].flags & SLOT_SECONDARY) != 0)
		held_is_over(node, query, key);
	else
		domain_failed(node, query->call.domain);
}

/* It has come to be kept here meanwhile, and the directory may have heard of that before. */
static void announced_as_copy(
	struct node *node, const struct query *query, struct msg_bytes key)
{
	uint32_t slot;

	if (key.data != NULL && master_held_find(&node->master, &query->held, &slot) &&
		slot != SLOT_NONE &&
		(node->share->slots[slot].flags & SLOT_SECONDARY) == 0)
		errand_announce(node, &query->call.id, key, query->held.generation);
}

static void announced(struct node *node, const struct query *query, struct msg_bytes key)
{
	const struct held *held = &query->held;
	const struct dir_call *call = &query->call;

	if (PLANTED(RESURRECTED) && call->verdict == DIR_REMOVED)
		return;
	switch (call->verdict) {
	case DIR_OLDER:
	case DIR_REMOVED:
		held_is_over(node, query, key);
		return;
	case DIR_REPLACED:
		held_has_replaced(node, query, key);
		break;
	case DIR_GONE:
		unlisted_is_gone(node, query, key);
		return;
	case DIR_DONE:
	case DIR_ABSENT:
	case DIR_EXISTS:
		master_held_list(&node->master, held);
		if (held->secondary) {
			announced_as_copy(node, query, key);
		} else {
			swapout_overtaken(node, query);
			yield_run(node, query, key);
		}
		/* It is READY, and its put may not have lived to say so. */
		if (call->entry.generation == held->generation &&
			call->entry.flags & DIR_PROVISIONAL)
			errand_simple(node, ERRAND_CONFIRM, &call->id, held->generation);
		break;
	}
	tell_waiters(node, call);
}

/* It was removed here meanwhile, say; by nobody's word the entry has it now. */
static void announced_in_vain(
	struct node *node, const struct query *query, struct msg_bytes key)
{
	const struct dir_call *call = &query->call;

	if (call->verdict == DIR_REPLACED)
		held_has_replaced(node, query, key);
	errand_leave(node, &call->id, query->held.hash, call->generation);
}

void announce_settle(struct node *node, const struct query *query, struct msg_bytes key)
{
	uint32_t slot;

	if (master_held_find(&node->master, &query->held, &slot))
		announced(node, query, key);
	else
		announced_in_vain(node, query, key);
}

static void announce_done(struct node *node, struct query *query)
{
	struct announcer *announcer = &node->cluster.announcer;

	announcer->under_way--;
	node->cluster.stats.announced++;
	if (query->call.err != 0)
		domain_failed(node, DIR_DOMAIN_NONE);
	else
		announce_settle(node, query, query_key(query));
	query_free_owner(query);
}

static void announce_own_key(const struct node *node, struct query *query)
{
	const struct slot *there;
	uint32_t slot;

	if (!master_held_find(&node->master, &query->held, &slot) || slot == SLOT_NONE)
		return;
	there = &node->share->slots[slot];
	query_own_key(query, slot_key(node->share, there), there->klen);
}

void announce_fill(struct node *node, struct query *query, const struct held *held)
{
	uint64_t now = node_now(node);

	query->held = *held;
	query->kept = node->cluster.kept;
	query->call.generation = held->generation;
	query->call.size = held->size;
	query->call.flags = held->softpin ? DIR_SOFTPIN : 0;
	query->call.wanted = held->wanted;
	query->call.role = held->secondary ? DIR_SECONDARY : DIR_KEEPER;
	if (held->expires != UINT64_MAX)
		query->call.ttl_ns = entry_ttl(
			held->expires > now ? held->expires - now : 1);
}

static bool announce(struct node *node, const struct held *held)
{
	struct dir_id id = dir_id_of(&held->id);
	/* What no entry has named is not to make one: it may have been removed. */
	struct query *query = query_new(
		node, held->unlisted ? DIR_OP_LOADED : DIR_OP_ANNOUNCE, &id);

	if (query == NULL)
		return false;
	announce_fill(node, query, held);
	announce_own_key(node, query);
	node->cluster.announcer.under_way++;
	query_start(node, query, announce_done);
	return true;
}

/* ---- the walk ------------------------------------------------------------ */

static bool walk_wants(struct node *node, const struct held *held)
{
	const struct cluster *cluster = &node->cluster;
	struct dir_id id = dir_id_of(&held->id);
	uint32_t number = cluster->dir.domain_of(cluster->dir.ctx, &id);

	if (number == DIR_DOMAIN_NONE)
		domain_failed(node, DIR_DOMAIN_NONE);
	return number < DIR_DOMAINS && cluster->domains[number].walking;
}

static void walk_begin(struct node *node)
{
	struct cluster *cluster = &node->cluster;
	bool any = false;

	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		struct domain *domain = &cluster->domains[i];

		domain->walking = domain->wanted && domain->epoch != 0;
		domain->walked_epoch = domain->epoch;
		domain->failed = false;
		domain->nameless = domain->nameless && !domain->walking;
		domain->wanted = domain->wanted && !domain->walking;
		any |= domain->walking;
	}
	if (!any)
		return;
	cluster->announcer.busy = true;
	cluster->announcer.cursor = 0;
	graves_announce(node);
}

static void walk_end(struct node *node)
{
	struct cluster *cluster = &node->cluster;

	cluster->announcer.busy = false;
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		struct domain *domain = &cluster->domains[i];

		if (!domain->walking)
			continue;
		domain->walking = false;
		if (domain->doubtful)
			cluster->announcer.retry_ns = node_now(node) + CLUSTER_RETRY;
		if (domain->failed) {
			domain->wanted = true;
			cluster->announcer.retry_ns = node_now(node) + CLUSTER_RETRY;
		} else if (domain->epoch == domain->walked_epoch && !domain->wanted) {
			domain->finished = domain->epoch;
		}
	}
	cluster_changed(node);
}

/* One look at what is held. False: not now. */
static bool walk_step(struct node *node)
{
	struct announcer *announcer = &node->cluster.announcer;
	struct held held;

	if (announcer->cursor == UINT64_MAX || announcer->under_way >= ANNOUNCE_AT_ONCE)
		return false;
	if (!master_held_next(&node->master, &announcer->cursor, HELD_BUDGET, &held))
		return true;
	if (walk_wants(node, &held) && !announce(node, &held))
		domain_failed(node, DIR_DOMAIN_NONE);
	return true;
}

static bool is_to_be_cleared_up(const struct domain *domain)
{
	return domain->doubtful && domain->complete;
}

/* What was doubtful is announced again, once the answers count. */
static void doubts_step(struct node *node)
{
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		struct domain *domain = &node->cluster.domains[i];

		if (!is_to_be_cleared_up(domain))
			continue;
		domain->doubtful = false;
		domain->wanted = true;
	}
}

bool epochs_step(struct node *node, uint64_t now)
{
	struct announcer *announcer = &node->cluster.announcer;

	if (!announcer->busy && now >= announcer->retry_ns)
		doubts_step(node);
	if (!announcer->busy && now >= announcer->retry_ns)
		walk_begin(node);
	if (!announcer->busy)
		return false;
	for (uint32_t i = 0; i < ANNOUNCE_AT_ONCE; i++) {
		if (!walk_step(node))
			break;
	}
	if (announcer->cursor == UINT64_MAX && announcer->under_way == 0)
		walk_end(node);
	return announcer->busy && announcer->cursor != UINT64_MAX &&
	       announcer->under_way < ANNOUNCE_AT_ONCE;
}

uint64_t epochs_next(const struct node *node)
{
	const struct cluster *cluster = &node->cluster;

	if (cluster->announcer.busy)
		return UINT64_MAX; /* an answer is what it waits for */
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		const struct domain *domain = &cluster->domains[i];

		if ((domain->wanted && domain->epoch != 0) || is_to_be_cleared_up(domain))
			return cluster->announcer.retry_ns;
	}
	return UINT64_MAX;
}

static void domain_reopen(struct node *node, struct domain *domain)
{
	bool was_finished = domain->finished != 0;

	domain->finished = 0;
	domain->wanted |= domain->epoch != 0;
	if (!was_finished)
		return;
	peers_beat(node);
	cluster_changed(node);
}

void epoch_reopen(struct node *node, const struct dir_id *id)
{
	struct cluster *cluster = &node->cluster;
	uint32_t number = cluster->dir.domain_of(cluster->dir.ctx, id);

	if (PLANTED(UNTOLD_REOPENED))
		return;
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		if (i == number || number >= DIR_DOMAINS)
			domain_reopen(node, &cluster->domains[i]);
	}
}

void announce_all(struct node *node)
{
	for (uint32_t i = 0; i < DIR_DOMAINS; i++) {
		struct domain *domain = &node->cluster.domains[i];

		domain->wanted |= domain->epoch != 0;
	}
}

void node_on_epoch(struct node *node, uint32_t number, uint64_t epoch)
{
	struct domain *domain = &node->cluster.domains[number];

	CHECK(number < DIR_DOMAINS);
	node_tick(node);
	if (epoch != domain->epoch)
		log_line(node->config.log, LOG_LEVEL_INFO, "directory_epoch",
			"domain=%" PRIu32 " epoch=%016" PRIx64 "%s", number, epoch,
			epoch == 0 ? " msg=\"it cannot be reached\"" : "");
	/* Others are to find this node among the members before what it publishes. */
	if (domain->epoch == 0 && epoch != 0)
		node->cluster.renew_ns = 0;
	domain->epoch = epoch;
	domain->wanted = epoch != 0;
	node->cluster.stats.epochs++;
	cluster_changed(node);
	fetches_look_again(node);
}
