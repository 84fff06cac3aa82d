/*
 * replicas.c - objects that several nodes are to keep: what their puts are told, and what is
 * left of it when nodes lose what they have.
 *
 * A put that is told that several nodes keep it outlives the loss of all of them but one: of
 * as many as it was told of, less those that have lost what they had since, some keep it at
 * any time, whoever they are. What is lacking is made up for, so that at rest as many keep it
 * as it asked for, or as can. One that had to be kept by several, and was not, is over when
 * that is answered, as if its owner had removed it.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "core/disk.h"
#include "node/node_priv.h"

#include <string.h>

#define SHORT_NS (500 * NS_MS) /* nobody can be demanded to take something over in less */

/* ---- what a put is told -------------------------------------------------- */

static uint64_t run_of_put(const struct sim *sim, const struct put *put)
{
	return master_run_bytes(put->size, sim->ledger.keys[put->key].size);
}

/* A copy in the room that is kept for loads, which nobody moves out of it. */
static bool is_lent(const struct host *host, const struct put *put)
{
	const struct master *master = &host->world.node->master;
	struct index_key key = sim_key(host, put->key);
	uint32_t slot = master_find(master, &key);

	return slot != SLOT_NONE && master->objects[slot].list == OBJECT_LENT;
}

/* Without others having to go. */
static bool has_hole(const struct host *host, uint64_t bytes)
{
	struct pool_use use;

	master_use(&host->world.node->master, &use);
	return use.largest_hole >= bytes;
}

/* The clock of who asked for that may be ahead, and not all have heard of it. */
uint64_t put_swept_until(const struct sim *sim, const struct put *put)
{
	const struct ledger_key *key = &sim->ledger.keys[put->key];
	uint64_t until = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!host_is_up(&sim->hosts[i]))
			continue;
		list_for_each (at, &sim->hosts[i].world.node->cluster.swept) {
			const struct swept *swept = container_of(at, struct swept, entry);

			if (put->generation < swept->before && key->size >= swept->size &&
				memcmp(key->bytes, swept->prefix, swept->size) == 0)
				until = MAX(until, swept->until_ns);
		}
	}
	return until;
}

/* Of a node that does not keep it yet. */
static bool could_keep(const struct host *host, const struct put *put)
{
	uint64_t bytes = run_of_put(host->sim, put);

	return host_is_up(host) && !host_is_drained(host) &&
	       (!put->durable || host->has_disk) && !is_lent(host, put) &&
	       keep_credit(host->world.node) >= bytes &&
	       (host_has_copy(host, put->generation) || has_hole(host, bytes));
}

static bool all_could_keep(const struct sim *sim, const struct put *put)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];

		if (!could_keep(host, put) || host_was_drained(host, put->began_ns))
			return false;
	}
	return put->replicas <= sim->profile.hosts;
}

/* Why fewer keep it than it asked for. */
static bool level_is_excused(
	const struct sim *sim, const struct put *put, const struct call *call)
{
	uint64_t since = put->began_ns - MIN(put->began_ns, SIM_SETTLE_NS);

	return put->repeated || call->timeout_ns < SHORT_NS || sim->profile.is_tight ||
	       sim->profile.short_leases || trouble_was(sim, since, sim->now_ns) ||
	       put_may_have_ended(sim, put, sim->now_ns) ||
	       put_may_have_expired(put, sim->now_ns) || !all_could_keep(sim, put) ||
	       put_swept_until(sim, put) > since;
}

void judge_level(
	struct host *host, struct put *put, const struct call *call, uint16_t keepers)
{
	struct sim *sim = host->sim;

	put->level = keepers;
	if ((keepers > 0) != (put->replicas > 1) || keepers > MAX(put->replicas, 1))
		sim_fail(sim, "host %u: put %" PRIu64 " asked for %u, and is told %u",
			host->index, put->id, put->replicas, keepers);
	if (put->replicas <= 1)
		return;
	sim_cover(sim, keepers > 1 ? COVER_PUT_SPREAD : COVER_PUT_LOWER);
	if (keepers >= put->replicas)
		return;
	/* One that gives way to another, which nobody could know of, is over before that. */
	if (put->required && !put->contested &&
		!put_may_have_ended(sim, put, sim->now_ns) &&
		!put_may_have_expired(put, sim->now_ns))
		sim_fail(sim,
			"host %u: put %" PRIu64
			" of key %s is acknowledged, and only %u keep it",
			host->index, put->id, key_name(sim, put->key), keepers);
	if (!level_is_excused(sim, put, call))
		sim_fail(sim,
			"host %u: put %" PRIu64 " of key %s asked for %u, and %u keep it",
			host->index, put->id, key_name(sim, put->key), put->replicas,
			keepers);
}

void judge_short(
	struct host *host, const struct put *put, const struct call *call, int code)
{
	struct sim *sim = host->sim;

	sim_cover(sim, COVER_PUT_UNDONE);
	if (!level_is_excused(sim, put, call))
		sim_fail(sim,
			"host %u: put %" PRIu64
			" of key %s is refused (%s), and all could keep it",
			host->index, put->id, key_name(sim, put->key), err_name(code));
}

/* ---- while it is there --------------------------------------------------- */

void judge_keepers(struct sim *sim, const struct put *put, unsigned keepers)
{
	if (put->level < 2 || keepers + put->losses >= put->level ||
		!put_must_be_there(sim, put, sim->now_ns, sim->now_ns))
		return;
	sim_fail(sim,
		"put %" PRIu64 " of key %s, generation %" PRIx64
		", was told that %u keep it; %u have lost it since, and %u have it",
		put->id, key_name(sim, put->key), put->generation, put->level,
		put->losses, keepers);
}

/* What is on the disk alone, while a directory that has forgotten has others as its keepers, stays
 * kept there until a reader comes (node/yield.c). */
static bool waits_for_reader(const struct sim *sim, const struct put *put)
{
	if (sim->registry.forgot_ns <= put->acked_ns)
		return false;
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];
		struct index_key key = sim_key(host, put->key);

		if (host_is_up(host) && host_keeps(host, put->key, put->generation) &&
			master_find(&host->world.node->master, &key) == SLOT_NONE)
			return true;
	}
	return false;
}

/* Who finds that there are enough gives the role up. */
void judge_excess(struct sim *sim, struct put *put, unsigned keepers)
{
	if (keepers <= MAX(put->replicas, 1u) || waits_for_reader(sim, put)) {
		put->many_ns = 0;
		return;
	}
	if (put->many_ns == 0)
		put->many_ns = sim->now_ns;
	if (sim->now_ns - put->many_ns > SIM_SETTLE_NS &&
		!trouble_was(sim, sim->now_ns - SIM_SETTLE_NS, sim->now_ns))
		sim_fail(sim,
			"put %" PRIu64 " of key %s, generation %" PRIx64
			", asked for %u keepers, and has had %u for %.1f s",
			put->id, key_name(sim, put->key), put->generation, put->replicas,
			keepers, (double)(sim->now_ns - put->many_ns) / 1e9);
}

/* ---- who becomes a keeper ------------------------------------------------ */

static struct put *put_find(
	const struct sim *sim, const struct dir_id *id, uint64_t generation)
{
	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		const struct ledger_key *there = &sim->ledger.keys[key];
		struct disk_id name = disk_id_of(there->bytes, there->size);

		if (name.word[0] != id->word[0] || name.word[1] != id->word[1])
			continue;
		list_for_each (at, &there->puts) {
			struct put *put = container_of(at, struct put, entry);

			if (put->generation == generation)
				return put;
		}
	}
	return NULL;
}

static struct host *host_find(struct sim *sim, uint64_t id)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].id == id)
			return &sim->hosts[i];
	}
	return NULL;
}

static bool was_keeper(const struct dir_call *call, uint64_t id)
{
	for (uint32_t i = 0; i < call->entry.holder_count; i++) {
		if (call->entry.holders[i].node == id)
			return call->entry.holders[i].role == DIR_KEEPER;
	}
	return false;
}

/* Whether the giver goes by that call. A directory that has forgotten it names it as no keeper, as
 * it does when the same call comes again. */
static bool gives_way(
	const struct host *giver, const struct put *put, const struct dir_call *call)
{
	if (was_keeper(call, call->from))
		return true;
	return giver != NULL && giver->sim->registry.forgot_ns > put->acked_ns &&
	       host_keeps(giver, put->key, put->generation) &&
	       (put->gave_way >> giver->index & 1) == 0;
}

/* A drained node leaves its role to one that keeps the object already: that is as if it had lost
 * it, which only one may that is to go, and that the others are too few to make up for. */
static void replicas_fewer(struct host *giver, const struct host *taker, struct put *put,
	const struct dir_call *call)
{
	struct sim *sim = taker->sim;

	if (!gives_way(giver, put, call) || !host_keeps(taker, put->key, put->generation))
		return;
	put->losses++;
	if (giver != NULL)
		put->gave_way |= 1u << giver->index;
	sim_cover(sim, COVER_GAVE_WAY);
	if (giver != NULL && host_is_up(giver) && put->replicas < sim->profile.hosts &&
		!trouble_was(
			sim, sim->now_ns - MIN(sim->now_ns, SIM_SETTLE_NS), sim->now_ns))
		sim_fail(sim,
			"host %u leaves put %" PRIu64
			" of key %s to one that keeps it, and others could take it",
			giver->index, put->id, key_name(sim, put->key));
	if (giver != NULL && !host_was_drained(giver, put->began_ns))
		sim_fail(sim,
			"host %u leaves put %" PRIu64
			" of key %s to one that keeps it, and is to stay",
			giver->index, put->id, key_name(sim, put->key));
}

/* Somebody else keeps it than this node and the one whose role it wants. */
static bool another_keeps(const struct dir_call *call)
{
	for (uint32_t i = 0; i < call->entry.holder_count; i++) {
		const struct dir_holder *holder = &call->entry.holders[i];

		if (holder->role == DIR_KEEPER && holder->node != call->node &&
			holder->node != call->from)
			return true;
	}
	return false;
}

void replicas_call(struct host *taker, const struct dir_call *call)
{
	struct sim *sim = taker->sim;
	struct host *giver;
	struct put *put;
	bool claims;

	if (call->op != DIR_OP_HAND_OVER || call->err != 0)
		return;
	giver = host_find(sim, call->from);
	put = put_find(sim, &call->id, call->generation);
	if (put != NULL && call->fewer && call->verdict == DIR_DONE)
		replicas_fewer(giver, taker, put, call);
	if (giver != NULL && host_is_up(giver))
		return;
	claims = errand_is_there(
		taker->world.node, ERRAND_HAND_OVER, &call->id, call->generation);
	if (put == NULL || put->acked_ns == 0)
		return;
	if (claims && call->verdict == DIR_DONE)
		sim_cover(sim, COVER_CLAIMED);
	else if (claims && another_keeps(call))
		sim_cover(sim, COVER_CLAIMED_IN_VAIN);
	else if (call->verdict == DIR_DONE && put->replicas > 1)
		sim_cover(sim, COVER_REBUILT);
}

/* The only one that keeps it, and others have copies; NULL: it is not so. */
static struct host *only_keeper(struct sim *sim, const struct put *put)
{
	struct host *keeper = NULL;
	unsigned copies = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct host *host = &sim->hosts[i];

		if (host_keeps(host, put->key, put->generation) && keeper != NULL)
			return NULL;
		if (host_keeps(host, put->key, put->generation))
			keeper = host;
		else
			copies += host_is_up(host) &&
				  host_has_copy(host, put->generation);
	}
	return copies > 1 ? keeper : NULL;
}

struct host *host_find_only_keeper(struct sim *sim)
{
	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			const struct put *put = container_of(at, struct put, entry);
			struct host *host = put->generation != 0 && put->softpin
						    ? only_keeper(sim, put)
						    : NULL;

			if (host != NULL)
				return host;
		}
	}
	return NULL;
}

/* ---- at rest ------------------------------------------------------------- */

void judge_entry(struct sim *sim, const struct dir_id *id, const struct dir_entry *entry)
{
	const struct put *put = put_find(sim, id, entry->generation);

	if (put != NULL && MAX(put->replicas, 1) != MAX(entry->wanted, 1))
		sim_fail(sim,
			"put %" PRIu64
			" of key %s asked for %u keepers, and the directory "
			"has %u",
			put->id, key_name(sim, put->key), put->replicas, entry->wanted);
}

static unsigned keepers_of(const struct sim *sim, const struct put *put)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sim->profile.hosts; i++)
		count += host_keeps(&sim->hosts[i], put->key, put->generation);
	return count;
}

static bool is_short(const struct sim *sim, const struct put *put)
{
	unsigned keepers = put->replicas > 1 && put->generation != 0
				   ? keepers_of(sim, put)
				   : 0;

	return keepers > 0 && keepers < put->replicas;
}

static bool has_help(const struct sim *sim, const struct put *put)
{
	/* Its bytes may never get there in time. */
	if (sim->profile.short_leases && put->size > INLINE_LIMIT)
		return false;
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (!host_keeps(&sim->hosts[i], put->key, put->generation) &&
			could_keep(&sim->hosts[i], put))
			return true;
	}
	return false;
}

const struct put *put_find_short(const struct sim *sim, bool helped)
{
	for (uint32_t key = 0; key < sim->profile.keys; key++) {
		list_for_each (at, &sim->ledger.keys[key].puts) {
			const struct put *put = container_of(at, struct put, entry);

			if (is_short(sim, put) && (!helped || has_help(sim, put)))
				return put;
		}
	}
	return NULL;
}
