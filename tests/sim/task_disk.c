/*
 * task_disk.c - what a disk adds to the tasks: which keys are worth while, and which errors
 * are no lie.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

/* How long a failure of the disk may be felt after its last job failed. */
#define ILL_NS (2 * NS_S)

static bool is_worth_while(const struct sim *sim, const struct sim_object *object)
{
	const struct node *node = sim->daemon.node;

	if (object == NULL || node == NULL)
		return false;
	if (object->places == 0)
		return true;
	for (uint32_t slot = node->master.saving.head; slot != SLOT_NONE;
		slot = node->master.objects[slot].next) {
		if (sim->oracle.slots[slot].object == object)
			return true;
	}
	return false;
}

bool disk_choose_key(struct sim *sim, uint32_t *ret_key)
{
	uint32_t from = (uint32_t)sim_pick(sim, sim->profile.keys);

	for (uint32_t i = 0; i < sim->profile.keys; i++) {
		uint32_t key = (from + i) % sim->profile.keys;

		if (is_worth_while(sim, sim->oracle.keys[key].object)) {
			*ret_key = key;
			return true;
		}
	}
	return false;
}

bool away_is_explained(
	struct sim *sim, const struct call *call, uint32_t key, int code, bool in_batch)
{
	bool late = sim->world.now_ns - call->sent_ns >= call->timeout_ns;

	if (code == ERR_CORRUPT && oracle_may_be_bad(&sim->oracle, key, call->since)) {
		sim_cover(sim, COVER_CORRUPT_TOLD);
		return true;
	}
	if (!oracle_was_away(&sim->oracle, key, call->since))
		return false;
	/* A read may have failed before the call joined it, and be at its last gate. */
	if (code == ERR_IO && disk_error_is_explained(sim, call, code)) {
		sim_cover(sim, COVER_GET_IO);
		return true;
	}
	if (code == ERR_NO_SPACE && (late || in_batch)) {
		sim_cover(sim, in_batch ? COVER_LOAD_REFUSED : COVER_GET_NO_ROOM);
		return true;
	}
	if (code == ERR_TIMEOUT && late) {
		sim_cover(sim, COVER_GET_LATE);
		return true;
	}
	return false;
}

bool disk_error_is_explained(struct sim *sim, const struct call *call, int code)
{
	uint64_t at = code == ERR_IO ? sim->ill.io_at : sim->ill.full_at;

	if (!sim->has_disk || (code != ERR_IO && code != ERR_NO_SPACE))
		return false;
	return at > 0 &&
	       (at >= call->since || sim->world.now_ns - sim->ill.failed_ns <= ILL_NS);
}
