/*
 * keep.c - who keeps what, by what lies in the pools and on the disks.
 *
 * A node keeps an object if a READY one in its pool says so, or if the object lies on its disk
 * alone. That must be true of one node at least as long as the object must be there: copies
 * that may leave a pool at any time do not count, nor does what others believe. So an object
 * is lost when the last who keeps it loses pool and disk, and by nothing else.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "core/disk.h"
#include "node/node_priv.h"

#include <string.h>

/* ---- what a host keeps --------------------------------------------------- */

/* The slot in its pool where it is READY, or NULL. */
static const struct slot *slot_in_pool(const struct host *host, uint64_t generation)
{
	const struct share *share = &host->world.share;
	uint32_t nslots = atomic_load(&share->header->nslots);

	for (uint32_t at = 0; at < nslots; at++) {
		const struct slot *slot = &share->slots[at];

		if (slot->generation == generation &&
			slot_kind_of(atomic_load(&slot->state)) == SLOT_READY)
			return slot;
	}
	return NULL;
}

/* As a copy that may go. */
static bool has_copy(const struct host *host, uint64_t generation)
{
	const struct slot *slot = slot_in_pool(host, generation);

	return slot != NULL && slot->flags & SLOT_SECONDARY;
}

static bool keeps_in_pool(const struct host *host, uint64_t generation)
{
	const struct slot *slot = slot_in_pool(host, generation);

	return slot != NULL &&
	       (slot->flags & (SLOT_SOFTPIN | SLOT_SECONDARY)) == SLOT_SOFTPIN;
}

/* While its daemon is down, what a start would adopt: a record goes after the mark. */
static bool keeps_on_disk(const struct host *host, uint32_t key, uint64_t generation)
{
	const struct master *master;
	struct index_key name;
	uint32_t entry;

	if (!host->has_disk)
		return false;
	if (!host_is_up(host))
		return sim_tier_find(&host->tier.committed, generation) != NULL &&
		       !has_copy(host, generation);
	master = &host->world.node->master;
	name = sim_key(host, key);
	entry = master_disk_find(master, &name);
	return entry != DISK_NONE &&
	       disk_entry(&master->disk, entry)->generation == generation;
}

bool host_keeps(const struct host *host, uint32_t key, uint64_t generation)
{
	return keeps_in_pool(host, generation) || keeps_on_disk(host, key, generation);
}

bool host_has_copy(const struct host *host, uint64_t generation)
{
	return slot_in_pool(host, generation) != NULL ||
	       (host->has_disk &&
		       sim_tier_find(&host->tier.committed, generation) != NULL);
}

static bool has_name(
	const struct host *host, uint32_t key, const void *bytes, uint32_t size)
{
	const struct ledger_key *name = &host->sim->ledger.keys[key];

	return size == name->size && memcmp(bytes, name->bytes, size) == 0;
}

bool host_has_grave(const struct host *host, uint32_t key, uint64_t above)
{
	const struct cluster *cluster;

	if (!host_is_up(host))
		return false;
	cluster = &host->world.node->cluster;
	list_for_each (at, &cluster->graves) {
		const struct grave *grave = container_of(at, struct grave, entry);

		if ((grave->kind == GRAVE_OBJECT || grave->kind == GRAVE_KEY ||
			    grave->kind == GRAVE_OLDER) &&
			grave->generation > above &&
			has_name(host, key, grave->key, grave->key_size))
			return true;
	}
	list_for_each (at, &cluster->errands) {
		const struct errand *errand = container_of(at, struct errand, entry);

		if (errand->kind == ERRAND_BURY && errand->generation > above &&
			has_name(host, key, errand->key, errand->key_size))
			return true;
	}
	return false;
}

/* ---- of a put ------------------------------------------------------------ */

/* How many keep it. */
static unsigned look_at(struct sim *sim, struct put *put)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!host_keeps(&sim->hosts[i], put->key, put->generation))
			continue;
		count++;
		put->kept_ns[i] = sim->now_ns;
	}
	return count;
}

static void nobody_keeps(struct sim *sim, struct put *put)
{
	if (put_must_be_there(sim, put, sim->now_ns, sim->now_ns))
		sim_fail(sim,
			"put %" PRIu64 " of key %s, generation %" PRIx64
			", is kept by nobody",
			put->id, key_name(sim, put->key), put->generation);
	put->unkept = put->over_ns != 0;
}

/* Fewer keep it than must. */
static void note_given_way(struct sim *sim, struct put *put, unsigned keepers)
{
	bool is_short = keepers == 0 || keepers + put->losses < put->level;

	if (!is_short || !put_must_be_there(sim, put, sim->now_ns, sim->now_ns) ||
		!put_has_given_way(sim, put))
		return;
	put->contested = true;
	sim_cover(sim, COVER_CONTESTED);
}

void keepers_look(struct sim *sim)
{
	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			struct put *put = container_of(at, struct put, entry);
			unsigned keepers;

			if (put->generation == 0 || !put->softpin || put->unkept ||
				put->lost_ns != 0)
				continue;
			keepers = look_at(sim, put);
			note_given_way(sim, put, keepers);
			judge_keepers(sim, put, keepers);
			judge_excess(sim, put, keepers);
			if (keepers == 0)
				nobody_keeps(sim, put);
		}
	}
}

static bool was_keeper(const struct put *put, unsigned host, uint64_t since)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < SIM_HOSTS; i++)
		last = MAX(last, put->kept_ns[i]);
	/* Nobody has looked yet, or nobody keeps what may go. */
	if (last == 0)
		return put->host == host;
	return put->kept_ns[host] != 0 && put->kept_ns[host] >= MIN(since, last);
}

bool keeper_was_away(const struct sim *sim, uint32_t asker, const struct put *put,
	uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (was_keeper(put, i, from) &&
			trouble_was_between(sim, asker, i, from, to))
			return true;
	}
	return false;
}

bool keepers_are_gone(
	const struct sim *sim, uint32_t asker, const struct put *put, uint64_t from)
{
	bool any = false;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!was_keeper(put, i, from))
			continue;
		if (!trouble_was_between(sim, asker, i, from, sim->now_ns) ||
			trouble_paused_at(sim, i, from, sim->now_ns, 1))
			return false;
		any = true;
	}
	return any;
}

bool keeper_was_troubled(
	const struct sim *sim, const struct put *put, uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (was_keeper(put, i, from) && trouble_was_at(sim, i, from, to))
			return true;
	}
	return false;
}

bool keeper_is_strange(const struct host *asker, const struct put *put)
{
	const struct sim *sim = asker->sim;
	bool any = false;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];

		if (!host_is_up(host) || !host_keeps(host, put->key, put->generation))
			continue;
		if (!host->office.cut ||
			peer_find(asker->world.node, host->world.node->cluster.id) !=
				PEER_LIMIT)
			return false;
		any = true;
	}
	return any;
}

/* ---- loss ---------------------------------------------------------------- */

static void put_is_lost(struct host *host, struct put *put)
{
	struct sim *sim = host->sim;

	if (host->was_empty && put_must_be_there(sim, put, sim->now_ns, sim->now_ns))
		sim_fail(sim,
			"host %u was drained and empty, and put %" PRIu64
			" of key %s was kept there alone",
			host->index, put->id, key_name(sim, put->key));
	if (put->softpin && put->acked_ns > 0)
		sim_cover(sim, COVER_LAST_KEEPER_LOST);
	put->lost_ns = sim->now_ns;
}

/* It had it a moment ago, or nobody could know so far. */
static bool has_just_lost(const struct host *host, const struct put *put)
{
	bool is_known = put->generation != 0;

	return put->over_ns == 0 ||
	       (is_known && put->kept_ns[host->index] == host->sim->now_ns &&
		       !host_keeps(host, put->key, put->generation));
}

void keeper_lost(struct host *host)
{
	struct sim *sim = host->sim;

	for (uint32_t key = 0; key < SIM_KEYS; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			struct put *put = container_of(at, struct put, entry);
			bool had = put->host == host->index ||
				   put->kept_ns[host->index] != 0;

			put->losses += has_just_lost(host, put);
			if (!had || put->lost_ns != 0)
				continue;
			if (put->softpin && put->acked_ns > 0 && look_at(sim, put) > 0) {
				if (put->level > 1)
					sim_cover(sim, COVER_ONE_OF_SEVERAL_LOST);
				continue;
			}
			judge_keepers(sim, put, 0);
			put_is_lost(host, put);
		}
	}
}
