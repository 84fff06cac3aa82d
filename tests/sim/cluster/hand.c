/*
 * hand.c - the steps by which the keeper's role goes from one node to another, and what cuts
 * them.
 *
 *   ASKED --KEEP arrives--> TAKEN --the pull begins--> MOVING --the slot says so--> PULLED
 *     --the directory's step--> STEPPED --its answer--> TOLD --KEPT arrives--> KEPT
 *
 * Each is seen from outside, by what daemons say. A *snare* waits for one of them: as soon as
 * it is reached, and before anything else happens, something goes wrong for one of the two.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <string.h>

/* ---- what is reached ----------------------------------------------------- */

static const enum cover_event reached[HAND_STEPS] = {
	[HAND_ASKED] = COVER_HAND_ASKED,
	[HAND_TAKEN] = COVER_HAND_TAKEN,
	[HAND_MOVING] = COVER_HAND_MOVING,
	[HAND_PULLED] = COVER_HAND_PULLED,
	[HAND_STEPPED] = COVER_HAND_STEPPED,
	[HAND_TOLD] = COVER_HAND_TOLD,
	[HAND_KEPT] = COVER_HAND_KEPT,
};

static const enum cover_event cut_at[HAND_STEPS] = {
	[HAND_ASKED] = COVER_CUT_ASKED,
	[HAND_TAKEN] = COVER_CUT_TAKEN,
	[HAND_MOVING] = COVER_CUT_MOVING,
	[HAND_PULLED] = COVER_CUT_PULLED,
	[HAND_STEPPED] = COVER_CUT_STEPPED,
	[HAND_TOLD] = COVER_CUT_TOLD,
	[HAND_KEPT] = COVER_CUT_KEPT,
};

static void hand_reached(struct sim *sim, enum hand_step step, struct host *giver,
	struct host *taker, uint32_t key)
{
	struct snare *snare = &sim->snare;

	sim_cover(sim, reached[step]);
	if (!snare->is_set || snare->is_sprung || snare->step != step)
		return;
	snare->is_sprung = true;
	snare->giver = giver;
	snare->taker = taker;
	snare->key = key;
}

static uint32_t key_of_message(const struct sim *sim, const void *message, size_t size)
{
	struct msg_keep msg;
	uint32_t key = 0;

	if (msg_keep_decode(message, size, &msg) != 0)
		return SIM_KEYS;
	for (; key < sim->profile.keys; key++) {
		struct msg_bytes name = sim_key_bytes(sim, key);

		if (name.size == msg.key.size &&
			memcmp(name.data, msg.key.data, name.size) == 0)
			return key;
	}
	return SIM_KEYS;
}

void hand_message(const struct wire *wire, enum wire_end to, const void *message,
	size_t size, bool arrived)
{
	struct host *giver = wire->hosts[WIRE_DIALER], *taker = wire->hosts[WIRE_DIALED];
	struct sim *sim = giver->sim;
	enum msg_type type;

	if (msg_type(message, size, &type) != 0)
		return;
	if (to == WIRE_DIALED && type == MSG_TYPE_KEEP)
		hand_reached(sim, arrived ? HAND_TAKEN : HAND_ASKED, giver, taker,
			key_of_message(sim, message, size));
	if (to == WIRE_DIALER && type == MSG_TYPE_KEPT)
		hand_reached(
			sim, arrived ? HAND_KEPT : HAND_TOLD, giver, taker, SIM_KEYS);
}

void hand_pull(struct host *giver, struct host *taker, uint32_t key)
{
	if (taker->world.node->cluster.keeping > 0)
		hand_reached(taker->sim, HAND_MOVING, giver, taker, key);
}

void hand_call(struct host *taker, const struct dir_call *call, bool applied)
{
	struct sim *sim = taker->sim;

	if (call->op != DIR_OP_HAND_OVER)
		return;
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		if (sim->hosts[i].id == call->from)
			hand_reached(sim, applied ? HAND_STEPPED : HAND_PULLED,
				&sim->hosts[i], taker, SIM_KEYS);
	}
}

/* ---- what cuts it -------------------------------------------------------- */

void snare_set(struct sim *sim)
{
	if (sim->snare.is_set)
		return;
	sim->snare = (struct snare){
		.is_set = true, .step = (enum hand_step)sim_pick(sim, HAND_STEPS)};
}

bool snare_sprung(struct sim *sim, struct snare *ret)
{
	struct snare *snare = &sim->snare;

	if (!snare->is_sprung)
		return false;
	*ret = *snare;
	sim_cover(sim, cut_at[snare->step]);
	*snare = (struct snare){.is_set = false};
	return true;
}
