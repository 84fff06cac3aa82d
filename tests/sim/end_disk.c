/*
 * end_disk.c - what must be true of the disk in a run's quiet end.
 */
#include "sim/sim.h"

#include "node/node_priv.h"

bool disk_is_quiet(const struct sim *sim)
{
	return !sim->has_disk || sim_tier_is_quiet(&sim->tier);
}

/* The core's table and the index say the same. */
static void check_table(struct sim *sim)
{
	const struct disk *disk = &node_master(sim->daemon.node)->disk;
	uint32_t stored = 0;

	for (uint32_t i = 0; i < disk->used; i++) {
		const struct disk_entry *entry = &disk->entries[i];
		const struct sim_record *record;

		if (entry->state == DISK_FREE)
			continue;
		record = sim_tier_find(&sim->tier.committed, entry->generation);
		if (entry->state != DISK_STORED || record == NULL ||
			record->record.size != entry->size)
			sim_fail(sim,
				"entry %" PRIu32 " of the disk is not as its record", i);
		stored++;
	}
	if (stored != sim->tier.committed.count)
		sim_fail(sim,
			"%" PRIu32 " objects on disk, and %" PRIu32
			" records in the index",
			stored, sim->tier.committed.count);
}

void disk_check_rest(struct sim *sim)
{
	if (!sim->has_disk)
		return;
	oracle_check_disk(sim);
	check_table(sim);
}

void disk_check_empty(struct sim *sim)
{
	struct disk_use use;

	if (!sim->has_disk)
		return;
	master_disk_use(node_master(sim->daemon.node), &use);
	if (use.objects != 0 || use.bytes != 0 || use.used != 0 ||
		sim->tier.committed.count != 0)
		sim_fail(sim,
			"everything was removed, and %" PRIu64 " objects with %" PRIu64
			" bytes, and %" PRIu32 " records, are on disk",
			use.objects, use.used, sim->tier.committed.count);
}
