/*
 * end_check.c - with all at rest: the bytes of every copy are their put's, and the directory
 * names who has them, and nobody else.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "core/disk.h"
#include "node/node_priv.h"

#include <string.h>

/* ---- what a host has ----------------------------------------------------- */

static uint32_t slot_find(const struct host *host, uint32_t key)
{
	uint32_t nslots = atomic_load(&host->world.share.header->nslots);

	for (uint32_t at = 0; at < nslots; at++) {
		if (slot_kind_of(atomic_load(&host->world.share.slots[at].state)) ==
				SLOT_READY &&
			sim_key_of(host, at) == key)
			return at;
	}
	return SLOT_NONE;
}

/* The generation that the host has of the key, in its pool or on its disk; 0: none. */
static uint64_t host_generation(const struct host *host, uint32_t key)
{
	const struct master *master = &host->world.node->master;
	struct index_key name = sim_key(host, key);
	uint32_t slot = slot_find(host, key);
	uint32_t entry;

	if (slot != SLOT_NONE)
		return host->world.share.slots[slot].generation;
	entry = master_disk_find(master, &name);
	return entry == DISK_NONE ? 0 : disk_entry(&master->disk, entry)->generation;
}

/* ---- entries ------------------------------------------------------------- */

static const struct dir_holder *holder_find(
	const struct dir_entry *entry, const struct host *host)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].node == host->id)
			return &entry->holders[i];
	}
	return NULL;
}

/* Those of nodes that are no more tell who could have it; they do no harm. */
static const struct host *host_find(
	const struct sim *sim, const struct dir_holder *holder)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].id == holder->node &&
			sim->hosts[i].incarnation == holder->incarnation)
			return &sim->hosts[i];
	}
	return NULL;
}

static bool has_holder(const struct sim *sim, const struct dir_entry *entry)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (host_find(sim, &entry->holders[i]) != NULL)
			return true;
	}
	return false;
}

/* Its daemon died before it had the bytes, or the lack of them, to tell of; with its pool it has the
 * same incarnation, and does not know what it was at. That does no harm, and is over as soon as it
 * looks for the key again. */
static bool loading_is_excused(
	struct sim *sim, const struct host *host, uint32_t key, uint64_t generation)
{
	list_for_each (at, &sim->ledger.keys[key].puts) {
		const struct put *put = container_of(at, struct put, entry);

		if (put->generation == generation)
			return trouble_was_between(
				sim, SIM_HOSTS, host->index, put->began_ns, sim->now_ns);
	}
	return false;
}

/* What a directory that went back remembers may be over; who asks finds out, and clears it. */
static void check_holders(
	struct sim *sim, uint32_t key, const struct dir_entry *entry, bool is_read)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		const struct dir_holder *holder = &entry->holders[i];
		const struct host *host = host_find(sim, holder);

		if (host == NULL || (sim->registry.forgot_ns != 0 && !is_read))
			continue;
		if (holder->role == DIR_LOADING && !is_read &&
			loading_is_excused(sim, host, key, entry->generation))
			continue;
		if (holder->role == DIR_LOADING)
			sim_fail(sim, "the directory has host %u loading key %s for ever",
				host->index, key_name(sim, key));
		if (host_generation(host, key) != entry->generation)
			sim_fail(sim,
				"the directory has host %u with key %s, generation "
				"%" PRIx64 ", and it has %" PRIx64,
				host->index, key_name(sim, key), entry->generation,
				host_generation(host, key));
	}
}

static void check_copy(struct sim *sim, const struct host *host, uint32_t key,
	const struct dir_entry *entry)
{
	uint32_t slot = slot_find(host, key);
	uint64_t generation = host_generation(host, key);
	const struct share *share = &host->world.share;

	if (generation == 0)
		return;
	if (entry->generation != generation)
		sim_fail(sim,
			"host %u has generation %" PRIx64
			" of key %s, and the directory has %" PRIx64,
			host->index, generation, key_name(sim, key), entry->generation);
	if (holder_find(entry, host) == NULL)
		sim_fail(sim, "host %u has key %s, and the directory does not know",
			host->index, key_name(sim, key));
	if (slot != SLOT_NONE)
		(void)judge_bytes(sim, key, share->pool + share->slots[slot].off,
			share->slots[slot].size, generation);
}

/* ---- keepers ------------------------------------------------------------- */

/* Of those that live, the keepers that the directory names. */
static uint32_t count_keepers(const struct sim *sim, const struct dir_entry *entry)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < entry->holder_count; i++)
		count += entry->holders[i].role == DIR_KEEPER &&
			 host_find(sim, &entry->holders[i]) != NULL;
	return count;
}

/* What the directory has of the role is what the nodes have: nobody keeps what others keep, and
 * nobody leaves to another what that one takes for a copy. */
static void check_keepers(struct sim *sim, uint32_t key, const struct dir_entry *entry)
{
	uint32_t keepers = count_keepers(sim, entry);

	if (keepers > MAX((uint32_t)entry->wanted, 1u))
		sim_fail(sim, "key %s has %" PRIu32 " keepers, and %u are wanted",
			key_name(sim, key), keepers, (unsigned)entry->wanted);
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];
		const struct dir_holder *holder = holder_find(entry, host);
		bool keeps = host_keeps(host, key, entry->generation);
		bool is_named = holder != NULL && holder->role == DIR_KEEPER &&
				holder->incarnation == host->incarnation;

		if (is_named && !keeps)
			sim_fail(sim,
				"the directory has host %u as the keeper of key %s, and "
				"it has a copy, or nothing",
				i, key_name(sim, key));
		if (keeps && !is_named)
			sim_fail(sim,
				"host %u keeps key %s, and the directory has others as "
				"its keepers, or none",
				i, key_name(sim, key));
	}
}

static void check_key(struct sim *sim, uint32_t key, bool is_read)
{
	struct disk_id name = disk_id_of(
		sim->ledger.keys[key].bytes, sim->ledger.keys[key].size);
	struct dir_id id = {{name.word[0], name.word[1]}};
	struct dir_entry entry = {.generation = 0};
	bool there = dir_mem_look(sim->registry.mem, &id, &entry);

	for (unsigned i = 0; i < sim->profile.hosts; i++)
		check_copy(sim, &sim->hosts[i], key, &entry);
	if (!there)
		return;
	check_holders(sim, key, &entry, is_read);
	judge_entry(sim, &id, &entry);
	if (entry.flags & DIR_SOFTPIN && (is_read || sim->registry.forgot_ns == 0))
		check_keepers(sim, key, &entry);
	if (entry.flags & DIR_PROVISIONAL && has_holder(sim, &entry) &&
		(is_read || sim->registry.forgot_ns == 0))
		sim_fail(sim, "the entry of key %s is provisional for ever",
			key_name(sim, key));
}

void end_check(struct sim *sim, bool is_read)
{
	const char *broken = dir_mem_check(sim->registry.mem);

	if (broken != NULL)
		sim_fail(sim, "directory: %s", broken);
	dir_mem_set_now(sim->registry.mem, sim->now_ns);
	for (uint32_t key = 0; key < sim->profile.keys; key++)
		check_key(sim, key, is_read);
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		broken = SIM_ASKS_NODE ? node_check(sim->hosts[i].world.node) : NULL;
		if (broken != NULL)
			sim_fail(sim, "node_check of host %u: %s", i, broken);
	}
	keepers_look(sim);
}
