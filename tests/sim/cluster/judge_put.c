/*
 * judge_put.c - whether a put may have been acknowledged, or refused, as it was.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <string.h>

#define GONE_NS_TRUE (5 * NS_S)
/* Its name lasts for 3 s by a clock that may be fast, and was renewed up to 1 s before the trouble
 * began: who has just started knows nothing but names. */
#define GONE_NS_FAST (1600 * NS_MS)

/* ---- acknowledged -------------------------------------------------------- */

/* Who keeps it was in trouble for so long that it is no member any more: it may never be back, and
 * the key does not wait for it. */
static bool keeper_is_gone(const struct host *host, const struct put *put)
{
	const struct sim *sim = host->sim;
	uint64_t since = sim->now_ns - MIN(sim->now_ns, GONE_NS_FAST);

	return keepers_are_gone(sim, host->index, put, since);
}

/* Whether the host can have learned nothing of the put since another began there. */
static bool is_unknown(const struct host *host, const struct put *put, uint64_t began_ns)
{
	const struct sim *sim = host->sim;
	uint64_t since = began_ns - MIN(began_ns, GONE_NS_TRUE);

	return is_newcomer(host) || keeper_is_gone(host, put) ||
	       (sim->registry.forgot_ns > put->acked_ns &&
		       keeper_was_away(sim, host->index, put, since, sim->now_ns));
}

/* No put is acknowledged over a living one, unless nobody could know of both. */
static void check_alone(struct host *host, struct put *put)
{
	struct sim *sim = host->sim;

	list_for_each (at, &sim->ledger.keys[put->key].puts) {
		struct put *other = container_of(at, struct put, entry);

		if (other == put ||
			!put_must_be_there(sim, other, put->began_ns, sim->now_ns))
			continue;
		if (!is_unknown(host, other, put->began_ns))
			sim_fail(sim,
				"host %u: put %" PRIu64
				" of key %s is acknowledged, and put "
				"%" PRIu64 " of host %u is there",
				host->index, put->id, key_name(sim, put->key), other->id,
				other->host);
		other->contested = put->contested = true;
		sim_cover(sim, COVER_CONTESTED);
	}
}

/* READY there, though the put may not be answered yet: several are to keep it first, say. */
static bool has_later(const struct host *host, const struct put *put)
{
	const struct share *share = &host->world.share;
	struct index_key key = sim_key(host, put->key);
	uint32_t slot = master_find(&host->world.node->master, &key);

	return slot != SLOT_NONE && node_is_ready(host->world.node, slot) &&
	       share->slots[slot].generation > put->generation &&
	       (share->slots[slot].flags & SLOT_SECONDARY) == 0;
}

bool put_has_given_way(const struct sim *sim, const struct put *put)
{
	list_for_each (at, &sim->ledger.keys[put->key].puts) {
		const struct put *other = container_of(at, struct put, entry);
		const struct host *host = &sim->hosts[other->host];

		if (other != put && other->over_ns == 0 && host_is_up(host) &&
			has_later(host, put) && is_unknown(host, put, other->began_ns))
			return true;
	}
	return false;
}

/* Of a later object, which need not be there, a copy is: at a host that nobody could know of. When
 * that is back, the later one stays. */
static bool may_give_way(
	const struct host *host, const struct put *other, uint64_t generation)
{
	const struct sim *sim = host->sim;
	uint64_t since = sim->now_ns - MIN(sim->now_ns, GONE_NS_TRUE);
	/* One that was cut short may be there all the same. */
	uint64_t known_ns = MAX(other->acked_ns, other->began_ns);

	if (other->generation <= generation)
		return false;
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (i != host->index &&
			host_has_copy(&sim->hosts[i], other->generation) &&
			(is_newcomer(host) ||
				(sim->registry.forgot_ns > known_ns &&
					trouble_was_between(sim, host->index, i, since,
						sim->now_ns))))
			return true;
	}
	return false;
}

/* A host that nobody could ask has yet to say that something later was removed: that ends the put,
 * which knew of no number but its own clock's, and of some that were lower. */
static bool may_be_buried(const struct host *host, uint32_t key, uint64_t generation)
{
	const struct sim *sim = host->sim;
	uint64_t since = sim->now_ns - MIN(sim->now_ns, GONE_NS_TRUE);

	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (i != host->index && host_has_grave(&sim->hosts[i], key, generation) &&
			(is_newcomer(host) || trouble_was_dir(sim, since, sim->now_ns)) &&
			trouble_was_at(sim, i, since, sim->now_ns))
			return true;
	}
	return false;
}

static void check_no_later(struct host *host, struct put *put, uint64_t generation)
{
	list_for_each (at, &host->sim->ledger.keys[put->key].puts) {
		const struct put *other = container_of(at, struct put, entry);

		if (other != put && may_give_way(host, other, generation))
			put->contested = true;
	}
	put->contested |= may_be_buried(host, put->key, generation);
}

static void judge_acked(struct host *host, struct put *put, const struct call *call,
	const struct msg_done *done)
{
	uint64_t generation = done->generation;

	if (generation == 0)
		sim_fail(host->sim, "put %" PRIu64 " has no generation", put->id);
	if (put->generation != 0 && put->generation != generation && !put->repeated)
		sim_fail(host->sim, "put %" PRIu64 " has two generations", put->id);
	if (!put->replace)
		check_alone(host, put);
	check_no_later(host, put, generation);
	ledger_put_acked(host->sim, put, generation);
	judge_level(host, put, call, done->keepers);
	sim_cover(host->sim, put->replace ? COVER_PUT_REPLACING : COVER_PUT);
}

/* ---- refused ------------------------------------------------------------- */

/* Something ended it for certain, before the put began, and the host knows. */
static bool was_over(const struct host *host, const struct put *other, uint64_t began_ns)
{
	const struct sim *sim = host->sim;

	list_for_each (at, &sim->ledger.keys[other->key].endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (ending->answered_ns != 0 && ending->answered_ns < began_ns &&
			ending_is_certain(ending, other, other->generation) &&
			!ending_is_excused(
				host, ending, other, other->generation, began_ns))
			return true;
	}
	return false;
}

static void judge_exists(struct host *host, const struct put *put)
{
	struct sim *sim = host->sim;

	sim_cover(sim, COVER_PUT_EXISTS);
	if (put->replace)
		sim_fail(sim,
			"host %u: put %" PRIu64 " of key %s replaces, and is told EXISTS",
			host->index, put->id, key_name(sim, put->key));
	list_for_each (at, &sim->ledger.keys[put->key].puts) {
		const struct put *other = container_of(at, struct put, entry);
		bool overlapped = other->over_ns == 0 || other->over_ns > put->began_ns;

		if (other != put && (overlapped || !other->failed) &&
			!was_over(host, other, put->began_ns))
			return;
	}
	if (!trouble_was(
		    sim, put->began_ns - MIN(put->began_ns, SIM_SETTLE_NS), sim->now_ns))
		sim_fail(sim,
			"host %u: put %" PRIu64
			" of key %s is told EXISTS, and nothing is",
			host->index, put->id, key_name(sim, put->key));
}

/* The host hears late of a removal by prefix, and ends all that is being put there. */
static bool may_hear_late(
	const struct sim *sim, const struct ending *ending, const struct put *put)
{
	return ending->kind == ENDING_PREFIX &&
	       trouble_was_at(sim, put->host, ending->began_ns, sim->now_ns);
}

/* One that replaces has ended it before it is answered itself, if it ever is. */
static bool may_be_replaced(const struct sim *sim, const struct put *put)
{
	list_for_each (at, &sim->ledger.keys[put->key].puts) {
		const struct put *other = container_of(at, struct put, entry);

		if (other != put && other->replace && (!other->failed || other->unsure) &&
			(other->over_ns == 0 || other->over_ns > put->began_ns))
			return true;
	}
	return false;
}

/* The directory has forgotten, and what the put was to replace is announced again before the put
 * is confirmed: the object that was there first stays. */
static bool may_be_outrun(const struct sim *sim, const struct put *put)
{
	return put->replace && sim->registry.forgot_ns != 0 &&
	       sim->registry.forgot_ns + SIM_SETTLE_NS > put->began_ns;
}

static void judge_removed(struct host *host, const struct put *put)
{
	struct sim *sim = host->sim;

	sim_cover(sim, COVER_PUT_REMOVED);
	list_for_each (at, &sim->ledger.keys[put->key].endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (ending->kind != ENDING_TAKE && ending->began_ns < sim->now_ns &&
			(ending->answered_ns == 0 ||
				ending->answered_ns > put->began_ns ||
				may_hear_late(sim, ending, put)))
			return;
	}
	if (may_be_replaced(sim, put) || may_be_outrun(sim, put))
		return;
	sim_fail(sim, "host %u: put %" PRIu64 " of key %s is told REMOVED, by nobody",
		host->index, put->id, key_name(sim, put->key));
}

/* A put in two steps that a daemon finds at its start has as long from then on as all such have. */
static bool has_another_deadline(const struct sim *sim, const struct put *put)
{
	return trouble_was_between(sim, SIM_HOSTS, put->host, put->began_ns, sim->now_ns);
}

/* What failed only the text tells. */
static bool says(const struct call *call, const char *what)
{
	struct msg_error error;

	return call->reply != NULL &&
	       msg_error_decode(call->reply->bytes, call->reply->size, &error) == 0 &&
	       memmem(error.text.data, error.text.size, what, strlen(what)) != NULL;
}

/* It may have been readable until it failed. */
static void judge_undone(const struct host *host, struct put *put)
{
	put->unsure = true;
	if (!put->repeated)
		ledger_put_undone(host->sim, put);
}

void judge_put(struct host *host, struct put *put, const struct call *call, int code,
	const struct msg_done *done)
{
	put->repeated |= call->sends > 1;
	if (code == 0) {
		judge_acked(host, put, call, done);
		return;
	}
	put->over_ns = host->sim->now_ns;
	if (says(call, "not put, since ")) {
		judge_undone(host, put);
	} else {
		put->failed |= !put->repeated;
		put->unsure = code == ERR_UNAVAILABLE || code == ERR_TIMEOUT ||
			      code == ERR_REMOVED;
	}
	if (says(call, " nodes came to keep ")) {
		judge_short(host, put, call, code);
		return;
	}
	if (put->repeated)
		return; /* the first may have been done, and ended since */
	if (code == ERR_UNAVAILABLE && host_was_drained(host, put->began_ns)) {
		sim_cover(host->sim, COVER_DRAINED_REFUSED);
		return;
	}
	switch (code) {
	case ERR_EXISTS:
		judge_exists(host, put);
		return;
	case ERR_REMOVED:
		judge_removed(host, put);
		return;
	default:
		if (code == ERR_TIMEOUT && has_another_deadline(host->sim, put))
			return;
		judge_refused(
			host, put->key, put->began_ns, call->timeout_ns, code, "a put");
		return;
	}
}
