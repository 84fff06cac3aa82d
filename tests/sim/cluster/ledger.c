#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rates of clocks are 0.9 to 1.1. */
#define RATE_SLOW 90u
#define RATE_FAST 111u

/* ---- begin and end ------------------------------------------------------- */

/* Short and long keys, of two first letters; no two alike. */
static void key_init(struct sim *sim, uint32_t at)
{
	static const uint32_t sizes[] = {2, 5, 8, 31, 32, 33, KEY_MOST};
	struct ledger_key *key = &sim->ledger.keys[at];

	key->size = sizes[sim_pick(sim, ARRAY_LEN(sizes))];
	key->bytes[0] = at % 2 == 0 ? 'a' : 'b';
	key->bytes[1] = (uint8_t)('A' + at);
	for (uint32_t i = 2; i < key->size; i++)
		key->bytes[i] = (uint8_t)('0' + sim_pick(sim, 10));
	list_init(&key->puts);
	list_init(&key->endings);
}

void ledger_init(struct sim *sim)
{
	for (uint32_t key = 0; key < SIM_KEYS; key++)
		key_init(sim, key);
}

void ledger_fini(struct sim *sim)
{
	for (uint32_t at = 0; at < SIM_KEYS; at++) {
		struct ledger_key *key = &sim->ledger.keys[at];

		list_for_each_safe (put, &key->puts)
			free(container_of(put, struct put, entry));
		list_for_each_safe (ending, &key->endings)
			free(container_of(ending, struct ending, entry));
	}
}

const char *key_name(const struct sim *sim, uint32_t key)
{
	static const char names[SIM_KEYS][8] = {"aA", "bB", "aC", "bD", "aE", "bF", "aG",
		"bH", "aI", "bJ", "aK", "bL", "aM", "bN", "aO", "bP"};

	(void)sim;
	return names[key];
}

/* ---- entries ------------------------------------------------------------- */

struct put *ledger_put(struct sim *sim, uint32_t key, unsigned host)
{
	struct put *put = calloc(1, sizeof(*put));

	CHECK(put != NULL);
	put->id = ++sim->ledger.puts;
	put->key = key;
	put->host = host;
	put->began_ns = sim->now_ns;
	list_add_head(&sim->ledger.keys[key].puts, &put->entry);
	return put;
}

struct ending *ledger_ending(
	struct sim *sim, enum ending_kind kind, uint32_t key, unsigned host)
{
	struct ending *ending = calloc(1, sizeof(*ending));

	CHECK(ending != NULL);
	ending->kind = kind;
	ending->key = key;
	ending->host = host;
	ending->began_ns = sim->now_ns;
	list_add_head(&sim->ledger.keys[key].endings, &ending->entry);
	return ending;
}

/* What was there before it is not there any more. */
void ledger_put_acked(struct sim *sim, struct put *put, uint64_t generation)
{
	struct ending *ending = ledger_ending(sim, ENDING_PUT, put->key, put->host);

	put->acked_ns = put->over_ns = sim->now_ns;
	put->generation = generation;
	ending->put = put;
	ending->began_ns = put->began_ns;
	if (!put->contested)
		ending->answered_ns = sim->now_ns;
}

void ledger_put_undone(struct sim *sim, struct put *put)
{
	struct ending *ending = ledger_ending(sim, ENDING_UNDO, put->key, put->host);

	ending->put = put;
	ending->began_ns = put->began_ns;
	ending->answered_ns = sim->now_ns;
}

/* ---- what follows -------------------------------------------------------- */

/* Whether the ending is about this put at all. */
static bool concerns(const struct ending *ending, const struct put *put)
{
	if (ending->refused)
		return false;
	switch (ending->kind) {
	case ENDING_TAKE:
	case ENDING_UNDO:
		return ending->put == put;
	case ENDING_PUT:
		return ending->put != put;
	case ENDING_REMOVE:
	case ENDING_PREFIX:
		return true;
	}
	NOT_REACHED("no such ending");
}

/* Who could not be told is told later, and cannot tell what it has put since. */
static bool may_come_late(
	const struct sim *sim, const struct ending *ending, const struct put *put)
{
	uint64_t since = ending->began_ns - MIN(ending->began_ns, SIM_SETTLE_NS);

	return ending->kind == ENDING_PREFIX &&
	       trouble_was_at(sim, put->host, since, ending->answered_ns) &&
	       !trouble_paused_at(
		       sim, put->host, ending->answered_ns, put->began_ns, SIM_SETTLE_NS);
}

bool put_may_have_ended(const struct sim *sim, const struct put *put, uint64_t ns)
{
	const struct ledger_key *key = &sim->ledger.keys[put->key];

	list_for_each (at, &key->endings) {
		const struct ending *ending = container_of(at, struct ending, entry);

		if (concerns(ending, put) && ending->began_ns < ns &&
			(ending->answered_ns == 0 ||
				ending->answered_ns > put->began_ns ||
				may_come_late(sim, ending, put)))
			return true;
	}
	/* One that replaces may have done so before it is answered. */
	list_for_each (at, &key->puts) {
		const struct put *other = container_of(at, struct put, entry);

		if (other != put && other->replace && (!other->failed || other->unsure) &&
			other->began_ns < ns &&
			(other->acked_ns == 0 || other->acked_ns > put->began_ns))
			return true;
	}
	return put->readers > 0 && put->reports >= put->readers;
}

bool put_may_have_expired(const struct put *put, uint64_t ns)
{
	return put->ttl_ns > 0 && ns >= put->began_ns + put->ttl_ns / 100 * RATE_SLOW;
}

bool put_has_expired(const struct put *put, uint64_t ns)
{
	return put->ttl_ns > 0 && put->acked_ns > 0 && !put->repeated &&
	       ns > put->acked_ns + put->ttl_ns / 100 * RATE_FAST;
}

bool put_must_be_there(
	const struct sim *sim, const struct put *put, uint64_t began_ns, uint64_t ns)
{
	return put->softpin && put->acked_ns > 0 && put->acked_ns < began_ns &&
	       put->lost_ns == 0 && !put->contested && !put_may_have_expired(put, ns) &&
	       !put_may_have_ended(sim, put, ns);
}

bool ending_is_certain(
	const struct ending *ending, const struct put *put, uint64_t generation)
{
	if (ending->answered_ns == 0 || !concerns(ending, put))
		return false;
	if (ending->kind == ENDING_UNDO)
		return true;
	if (ending->generation != 0 && ending->generation == generation)
		return true;
	return put->acked_ns > 0 && put->acked_ns < ending->began_ns &&
	       (put->generation == 0 || put->generation == generation);
}
