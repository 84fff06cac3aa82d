/*
 * judge.c - whether what a client was told, or read, may be true.
 *
 * An object must be found, by whoever asks later, once its put is answered, as long as
 * nothing that may have ended it has begun and its keeper has its pool; an object must not be
 * found any more once something that ended it for certain is answered. Trouble excuses a node
 * that cannot know better, until it had none for SIM_SETTLE_NS.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "model/core_pattern.h"

#include <string.h>

/* A node counts as away once nothing was heard of it for 3 s, by a clock that may be slow. */
#define GONE_NS_TRUE (5 * NS_S)
/* No answer can be demanded in less. */
#define SHORT_NS (100 * NS_MS)

/* ---- bytes --------------------------------------------------------------- */

static bool begins_as(const unsigned char *bytes, const struct put *put)
{
	uint64_t word = pattern_word(put->id, 0);

	return memcmp(bytes, &word, sizeof(word)) == 0;
}

struct put *judge_bytes(struct sim *sim, uint32_t key, const unsigned char *bytes,
	uint64_t size, uint64_t generation)
{
	list_for_each (at, &sim->ledger.keys[key].puts) {
		struct put *put = container_of(at, struct put, entry);

		if (put->size != size || !begins_as(bytes, put))
			continue;
		if (!pattern_is(bytes, size, put->id))
			sim_fail(sim,
				"bytes under key %s are mixed: they begin as put "
				"%" PRIu64,
				key_name(sim, key), put->id);
		if (put->generation == 0)
			put->generation = generation;
		if (put->generation != generation && !put->repeated)
			sim_fail(sim,
				"put %" PRIu64 " of key %s has generation %" PRIx64
				", and is found with %" PRIx64,
				put->id, key_name(sim, key), put->generation, generation);
		return put;
	}
	sim_fail(sim, "bytes under key %s are no put's", key_name(sim, key));
}

/* ---- what must not be found ---------------------------------------------- */

/* The host may not have heard of the ending yet. */
static bool is_behind(const struct sim *sim, uint32_t host, const struct ending *ending,
	uint64_t began_ns)
{
	uint64_t before = MIN(ending->began_ns, SIM_SETTLE_NS);

	return trouble_cut_off(
		       sim, host, ending->began_ns - before, ending->answered_ns) &&
	       !trouble_paused_at(
		       sim, host, ending->answered_ns, began_ns, SIM_SETTLE_NS);
}

/* Whoever was to tell the others died before it could, and the directory forgot it too, or never
 * heard of it. */
static bool is_forgotten(const struct sim *sim, const struct ending *ending)
{
	uint64_t before = MIN(ending->began_ns, SIM_SETTLE_NS);

	return (sim->registry.forgot_ns > ending->began_ns ||
		       trouble_cut_off(sim, ending->host, ending->began_ns - before,
			       ending->answered_ns)) &&
	       trouble_was_between(
		       sim, SIM_HOSTS, ending->host, ending->began_ns, sim->now_ns);
}

/* Some host was down or stopped: until it has announced all, others ask all. */
static bool somebody_was_away(const struct sim *sim, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < sim->profile.hosts; i++) {
		if (trouble_was_between(sim, SIM_HOSTS, i, from, to))
			return true;
	}
	return false;
}

static bool stale_is_excused(
	const struct host *host, const struct ending *ending, uint64_t began_ns)
{
	const struct sim *sim = host->sim;
	uint64_t before = MIN(ending->began_ns, SIM_SETTLE_NS);
	/* Others may find it there, too. */
	bool any = ending->kind == ENDING_PREFIX ||
		   trouble_was_dir(sim, ending->began_ns - before, sim->now_ns) ||
		   somebody_was_away(sim, ending->answered_ns, sim->now_ns);

	for (uint32_t i = 0; i < sim->profile.hosts; i++) {
		bool was_away = trouble_was_at(
			sim, i, ending->began_ns - before, ending->answered_ns);

		if ((i == host->index || any) && is_behind(sim, i, ending, began_ns))
			return true;
		if (was_away && is_forgotten(sim, ending))
			return true;
	}
	return false;
}

/* Who removed could not tell the keeper: had not met it, or may be behind it, so that what was
 * put there seems to come later. A put that replaces is published past a keeper that is gone, if
 * the directory has forgotten what that has. */
static bool was_unknown(
	const struct sim *sim, const struct ending *ending, const struct put *put)
{
	uint64_t since = ending->began_ns - MIN(ending->began_ns, SIM_SETTLE_NS);

	if (ending->kind == ENDING_PUT)
		return sim->registry.forgot_ns > put->acked_ns &&
		       keeper_was_away(
			       sim, ending->host, put, since, ending->answered_ns);
	return ending->kind == ENDING_PREFIX &&
	       keeper_was_troubled(sim, put, since, ending->answered_ns);
}

/* Who removed was cut off from the directory and the keeper, and knew of an older object. */
static bool ended_another(const struct sim *sim, const struct ending *ending,
	const struct put *put, uint64_t generation)
{
	uint64_t since = ending->began_ns - MIN(ending->began_ns, SIM_SETTLE_NS);

	return ending->generation != 0 && ending->generation < generation &&
	       trouble_was_dir(sim, since, ending->answered_ns) &&
	       keeper_was_away(sim, ending->host, put, since, ending->answered_ns);
}

/* It has just begun, or who does it stood still or died, or waits for the directory's answer. */
static bool ending_is_under_way(
	const struct sim *sim, const struct ending *ending, uint64_t began_ns)
{
	return began_ns - ending->began_ns < SHORT_NS ||
	       (trouble_was_at(sim, ending->host, ending->began_ns, began_ns) &&
		       !trouble_paused_at(sim, ending->host, ending->began_ns, began_ns,
			       SIM_SETTLE_NS));
}

/* Somebody was ending it, too, and not all have heard of that: an entry that is taken out makes
 * room for the next put at once. */
static bool is_half_ended(const struct sim *sim, const struct put *put, uint64_t began_ns)
{
	list_for_each (at, &sim->ledger.keys[put->key].endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (ending->answered_ns == 0 && !ending->refused &&
			ending->kind != ENDING_PUT && ending->began_ns < began_ns &&
			(ending->put == NULL || ending->put == put) &&
			ending_is_under_way(sim, ending, began_ns))
			return true;
	}
	return false;
}

/* A put that ended nothing itself: a removal that is excused had made room for it. */
static bool was_removed_before(const struct host *host, const struct ending *ending,
	const struct put *put, uint64_t generation, uint64_t began_ns)
{
	list_for_each (at, &host->sim->ledger.keys[put->key].endings) {
		const struct ending *other = container_of(at, struct ending, entry);

		if (other->kind != ENDING_PUT && other->answered_ns < ending->began_ns &&
			ending_is_certain(other, put, generation) &&
			stale_is_excused(host, other, began_ns))
			return true;
	}
	return false;
}

/* Its time was over: a put has the key as soon as the entry is out, and the holders, whose clocks
 * differ, are just being told. */
static bool is_expiring(
	const struct ending *ending, const struct put *put, uint64_t began_ns)
{
	return put_may_have_expired(put, ending->answered_ns) &&
	       began_ns - ending->answered_ns < SHORT_NS;
}

bool ending_is_excused(const struct host *host, const struct ending *ending,
	const struct put *put, uint64_t generation, uint64_t began_ns)
{
	const struct sim *sim = host->sim;

	return stale_is_excused(host, ending, began_ns) ||
	       was_unknown(sim, ending, put) ||
	       ended_another(sim, ending, put, generation) ||
	       (ending->kind == ENDING_PUT &&
		       (is_half_ended(sim, put, began_ns) ||
			       is_expiring(ending, put, began_ns) ||
			       was_removed_before(
				       host, ending, put, generation, began_ns)));
}

static void check_not_ended(
	struct host *host, const struct put *put, uint64_t generation, uint64_t began_ns)
{
	struct sim *sim = host->sim;

	list_for_each (at, &sim->ledger.keys[put->key].endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (ending->answered_ns >= began_ns ||
			!ending_is_certain(ending, put, generation))
			continue;
		if (!ending_is_excused(host, ending, put, generation, began_ns))
			sim_fail(sim,
				"host %u: key %s has put %" PRIu64 ", generation %" PRIx64
				", which was over by %.6f (kind %d, begun %.6f on host "
				"%u)",
				host->index, key_name(sim, put->key), put->id, generation,
				(double)ending->answered_ns / 1e9, (int)ending->kind,
				(double)ending->began_ns / 1e9, ending->host);
		sim_cover(sim, COVER_STALE);
	}
}

void judge_found(
	struct host *host, const struct put *put, uint64_t generation, uint64_t began_ns)
{
	struct sim *sim = host->sim;

	if (put->failed)
		sim_fail(sim, "host %u: key %s has put %" PRIu64 ", which was refused",
			host->index, key_name(sim, put->key), put->id);
	check_not_ended(host, put, generation, began_ns);
	if (began_ns > 2 * SIM_SETTLE_NS &&
		put_has_expired(put, began_ns - SIM_SETTLE_NS) &&
		!trouble_was(sim, put->acked_ns, sim->now_ns))
		sim_fail(sim,
			"host %u: put %" PRIu64 " of key %s is past its time to live",
			host->index, put->id, key_name(sim, put->key));
}

/* ---- what must be found -------------------------------------------------- */

/* It has just started, and the directory has just forgotten who the others are. */
bool is_newcomer(const struct host *host)
{
	const struct sim *sim = host->sim;
	uint64_t since = sim->now_ns - MIN(sim->now_ns, GONE_NS_TRUE);

	return sim->registry.forgot_ns >= since &&
	       trouble_was_between(sim, SIM_HOSTS, host->index, since, sim->now_ns);
}

/* Whether it is no wonder that the host does not know of the put. */
static bool unknown_is_excused(
	const struct host *host, const struct put *put, uint64_t began_ns)
{
	const struct sim *sim = host->sim;

	uint64_t since = began_ns - MIN(began_ns, GONE_NS_TRUE);
	bool asked_all = sim->registry.forgot_ns > put->acked_ns ||
			 trouble_was_dir(sim, since, sim->now_ns);

	return asked_all && (keeper_was_away(sim, host->index, put, since, sim->now_ns) ||
				    (sim->registry.forgot_ns > put->acked_ns &&
					    keeper_is_strange(host, put)));
}

static bool has_lost(const struct sim *sim, uint32_t key)
{
	list_for_each (at, &sim->ledger.keys[key].puts) {
		if (container_of(at, struct put, entry)->lost_ns != 0)
			return true;
	}
	return false;
}

/* A directory that went back names a pool that is lost since: it may have kept it to the last. */
static bool may_seem_lost(const struct sim *sim, const struct put *put)
{
	if (sim->registry.forgot_ns <= put->began_ns)
		return false;
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].lost_ns > put->began_ns)
			return true;
	}
	return false;
}

static bool is_over(const struct host *host, const struct put *put, uint64_t began_ns)
{
	if (!put->softpin || (put->failed && !put->unsure) ||
		put_has_expired(put, began_ns))
		return true;
	list_for_each (at, &host->sim->ledger.keys[put->key].endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (ending->answered_ns < began_ns &&
			ending_is_certain(ending, put, put->generation) &&
			!ending_is_excused(host, ending, put, put->generation, began_ns))
			return true;
	}
	return false;
}

/* What was removed is absent, and not lost. */
static bool all_are_over(const struct host *host, uint32_t key, uint64_t began_ns)
{
	list_for_each (at, &host->sim->ledger.keys[key].puts) {
		const struct put *put = container_of(at, struct put, entry);

		if (!is_over(host, put, began_ns) || may_seem_lost(host->sim, put))
			return false;
	}
	return true;
}

void judge_not_found(struct host *host, uint32_t key, uint64_t began_ns, int code)
{
	struct sim *sim = host->sim;

	sim_cover(sim, code == ERR_LOST ? COVER_LOST : COVER_NOT_FOUND);
	if (is_newcomer(host))
		return;
	if (code == ERR_LOST && !has_lost(sim, key) && sim->registry.forgot_ns == 0)
		sim_fail(sim, "host %u: key %s is LOST, and no pool of it was",
			host->index, key_name(sim, key));
	if (code == ERR_LOST && all_are_over(host, key, began_ns))
		sim_fail(sim, "host %u: key %s is LOST, and was removed", host->index,
			key_name(sim, key));
	list_for_each (at, &sim->ledger.keys[key].puts) {
		const struct put *put = container_of(at, struct put, entry);

		if (!put_must_be_there(sim, put, began_ns, sim->now_ns))
			continue;
		/* Of what a directory forgot it may know the copies alone, and that they went. */
		if ((code == ERR_LOST && sim->registry.forgot_ns <= put->acked_ns) ||
			!unknown_is_excused(host, put, began_ns))
			sim_fail(sim,
				"host %u: key %s is %s, and has put %" PRIu64
				" of host %u, generation %" PRIx64,
				host->index, key_name(sim, key), err_name(code), put->id,
				put->host, put->generation);
		sim_cover(sim, COVER_UNKNOWN);
	}
}

/* ---- refusals ------------------------------------------------------------ */

/* Somebody put meanwhile; `before`: and began to before this did. */
static bool is_being_put(
	const struct sim *sim, uint32_t key, uint64_t began_ns, bool before)
{
	list_for_each (at, &sim->ledger.keys[key].puts) {
		const struct put *put = container_of(at, struct put, entry);

		if (before && put->began_ns >= began_ns)
			continue; /* this one, or a later one */
		if (put->over_ns == 0 || put->over_ns > began_ns)
			return true;
	}
	return false;
}

static void cover_refusal(struct sim *sim, int code)
{
	if (code == ERR_UNAVAILABLE)
		sim_cover(sim, COVER_UNAVAILABLE);
	if (code == ERR_TIMEOUT)
		sim_cover(sim, COVER_TIMEOUT);
	if (code == ERR_NO_SPACE)
		sim_cover(sim, COVER_NO_SPACE);
	if (code == ERR_CORRUPT)
		sim_cover(sim, COVER_CORRUPT_TOLD);
}

/* `is_late`: the caller's time was over. */
static bool refusal_is_excused(
	const struct sim *sim, uint32_t key, uint64_t began_ns, bool is_late, int code)
{
	uint64_t since = began_ns - MIN(began_ns, SIM_SETTLE_NS);
	bool troubled = trouble_was(sim, since, sim->now_ns);
	bool was_short = is_late && sim->now_ns - began_ns < SHORT_NS;

	switch (code) {
	case ERR_UNAVAILABLE:
		/* Whose keeper is gone, and may come back one day. */
		return troubled || was_short || has_lost(sim, key);
	case ERR_TRANSFER_FAIL:
	case ERR_CORRUPT:
		return troubled || was_short;
	case ERR_LEASE_EXPIRED:
		return troubled || sim->profile.short_leases;
	case ERR_TIMEOUT:
		if (sim->profile.short_leases)
			return true;
		return is_late && (troubled || was_short || sim->profile.is_tight ||
					  is_being_put(sim, key, began_ns, true));
	case ERR_NOT_READY:
		return is_being_put(sim, key, began_ns, false);
	case ERR_NO_SPACE:
		return sim->profile.is_tight;
	default:
		return false;
	}
}

void judge_refused(struct host *host, uint32_t key, uint64_t began_ns,
	uint64_t timeout_ns, int code, const char *what)
{
	struct sim *sim = host->sim;
	uint64_t waited = sim->now_ns - began_ns;
	bool is_late = timeout_ns != UINT64_MAX && waited >= timeout_ns / 10 * 9;

	cover_refusal(sim, code);
	if (!refusal_is_excused(sim, key, began_ns, is_late, code))
		sim_fail(sim, "host %u: %s of key %s failed: %s, after %.6f s of %.6f",
			host->index, what, key_name(sim, key), err_name(code),
			(double)waited / 1e9,
			timeout_ns == UINT64_MAX ? 0 : (double)timeout_ns / 1e9);
}
