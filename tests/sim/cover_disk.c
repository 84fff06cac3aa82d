/*
 * cover_disk.c - what a call of the daemon did with its disk, and what its death cut.
 */
#include "sim/sim.h"

#include "node/node_priv.h"

static void cover_rise(struct sim *sim, enum cover_event event, uint64_t was, uint64_t is)
{
	sim->cover->events[event] += is - was;
}

void disk_cover_call(struct sim *sim)
{
	const struct node *node = sim->daemon.node;
	const struct master *master = &node->master;
	const struct master_stats *was = &sim->daemon.stats;
	const struct master_stats *is = &master->stats;
	struct disk_seen *seen = &sim->daemon.seen;
	bool error = master->disk.error != 0;

	cover_rise(sim, COVER_SAVED, was->saves, is->saves);
	cover_rise(sim, COVER_SAVE_FAILED, was->save_errors, is->save_errors);
	cover_rise(sim, COVER_LOAD_FAILED, was->load_errors, is->load_errors);
	cover_rise(sim, COVER_CORRUPT_FOUND, was->corrupt, is->corrupt);
	cover_rise(sim, COVER_PARKED_LEASE, was->parked_lease, is->parked_lease);
	cover_rise(sim, COVER_PARKED_IO, was->parked_io, is->parked_io);
	cover_rise(sim, COVER_LOAD_JOINED, seen->joined, node->stats.loads_joined);
	if (seen->error && !error)
		sim_cover(sim, COVER_DISK_WELL_AGAIN);
	if (seen->turning == 0 && master->room.turning.size > 0)
		sim_cover(sim, COVER_TURNING);
	if (master->bytes_of[OBJECT_LENT] > seen->lent)
		sim_cover(sim, COVER_TURNING_USED);
	if (master->large.count > 0)
		sim_cover(sim, COVER_TURNING_GROWS);
	seen->joined = node->stats.loads_joined;
	seen->error = error;
	seen->turning = master->room.turning.size;
	seen->lent = master->bytes_of[OBJECT_LENT];
	for (uint32_t i = 0; sim->has_disk && i < master->disk.used; i++) {
		const struct disk_entry *entry = &master->disk.entries[i];

		if (entry->state == DISK_SAVING && entry->doomed)
			sim_cover(sim, COVER_SAVE_DOOMED);
		if (entry->loading && entry->state == DISK_ENDING)
			sim_cover(sim, COVER_LOAD_DOOMED);
	}
}

void disk_cover_death(struct sim *sim)
{
	if (!sim->has_disk)
		return;
	if (sim_tier_has(&sim->tier, SIM_JOB_WRITE))
		sim_cover(sim, COVER_DAEMON_KILLED_SAVING);
	if (sim_tier_has(&sim->tier, SIM_JOB_READ))
		sim_cover(sim, COVER_DAEMON_KILLED_LOADING);
	if (sim_tier_has(&sim->tier, SIM_JOB_COMMIT))
		sim_cover(sim, COVER_DAEMON_KILLED_COMMITTING);
}
