/*
 * chaos_disk.c - a seed's disk, how its jobs get their turns, and what befalls it: phases in
 * which jobs fail, are slow or lie, bytes that rot, and the loss of the host.
 */
#include "sim/sim.h"

#include "base/check.h"

static _Noreturn void disk_fails(void *ctx, const char *text)
{
	sim_fail(ctx, "disk: %s", text);
}

/* Mostly room for all; sometimes so little, of bytes or of records, that it is full. */
void disk_open(struct sim *sim)
{
	uint64_t pool = sim->world.setup.pool_size;
	uint64_t size = MAX(pool * 8, 4ull << 20);
	struct sim_tier_setup setup = {
		.object_limit = 1024,
		.seed = rng_next(&sim->rng),
		.now_ns = &sim->world.now_ns,
		.share = &sim->world.share,
		.fail = disk_fails,
		.ctx = sim,
	};

	if (sim_chance(sim, 30))
		size = pool / 2 + sim_pick(sim, pool);
	if (sim_chance(sim, 20))
		setup.object_limit = 4 + sim_pick(sim, 40);
	setup.data_size = sim_tier_blocks(MIN(size, 16ull << 20)) * TIER_BLOCK;
	sim_tier_open(&sim->tier, &setup);
	sim->has_disk = true;
}

/* ---- jobs ---------------------------------------------------------------- */

bool disk_is_due(const struct sim *sim)
{
	return sim->has_disk && sim->daemon.node != NULL &&
	       sim_tier_next(&sim->tier) <= sim->world.now_ns;
}

void disk_step(struct sim *sim)
{
	uint32_t job;
	int err;

	if (!sim_tier_step(&sim->tier, &job, &err))
		return;
	if (err == ERR_IO)
		sim->ill.io_at = sim->oracle.looks;
	if (err == ERR_NO_SPACE)
		sim->ill.full_at = sim->oracle.looks;
	if (err == ERR_IO || err == ERR_NO_SPACE)
		sim->ill.failed_ns = sim->world.now_ns;
	daemon_tier(sim, job, err);
}

void disk_daemon_dies(struct sim *sim)
{
	struct sim_tier *tier = &sim->tier;
	uint64_t writes = tier->cut_writes, reads = tier->cut_reads;

	if (!sim->has_disk)
		return;
	sim_tier_kill(tier);
	sim->cover->events[COVER_WRITE_CUT] += tier->cut_writes - writes;
	sim->cover->events[COVER_READ_CUT] += tier->cut_reads - reads;
}

/* ---- trouble ------------------------------------------------------------- */

static bool due(struct sim *sim, unsigned per_10000)
{
	return sim_pick(sim, 10000) < per_10000;
}

static bool is_troubled(const struct sim_trouble *trouble)
{
	return trouble->io + trouble->full + trouble->slow > 0 || trouble->lying;
}

static void trouble_begin(struct sim *sim)
{
	struct sim_trouble *trouble = &sim->tier.trouble;

	if (sim_chance(sim, 50))
		trouble->io = (unsigned)(sim_chance(sim, 50) ? 100 : sim_pick(sim, 60));
	if (sim_chance(sim, 30))
		trouble->full = (unsigned)(50 + sim_pick(sim, 51));
	if (sim_chance(sim, 40))
		trouble->slow = (unsigned)sim_pick(sim, 101);
	trouble->lying = sim_chance(sim, 15);
	trace_event(&sim->trace, "disk: errors %u, full %u, slow %u, lies %d",
		trouble->io, trouble->full, trouble->slow, trouble->lying);
}

static void trouble_end(struct sim *sim)
{
	sim->tier.trouble = (struct sim_trouble){.io = 0};
	trace_event(&sim->trace, "disk: well again");
}

static void rot(struct sim *sim)
{
	uint64_t generation = sim_tier_rot(&sim->tier);

	list_for_each (at, &sim->oracle.objects) {
		struct sim_object *object = container_of(at, struct sim_object, entry);

		if (object->generation != generation || generation == 0)
			continue;
		object->bad = true;
		sim_cover(sim, COVER_ROTTEN);
		trace_event(&sim->trace, "disk: a byte of key %" PRIu32 " flips",
			object->put->key);
	}
}

/* ---- the host ------------------------------------------------------------ */

static void processes_end(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		struct proc *proc = &sim->procs[i];

		if (proc->alive)
			proc_kill(sim, proc);
		proc->gone_ns = MIN(proc->gone_ns, sim->world.now_ns);
	}
}

static void lose_host(struct sim *sim)
{
	bool lied = sim->tier.lied;

	if (sim->daemon.node != NULL)
		daemon_kill(sim);
	trace_event(&sim->trace, "the host is lost%s", lied ? ", with a lie" : "");
	sim_cover(sim, COVER_HOST_LOST);
	sim->ill.lost++;
	processes_end(sim);
	conn_host_lost(sim);
	lease_forget_all(sim);
	sim_tier_lose_host(&sim->tier);
	sim_world_lose(&sim->world);
	oracle_host_lost(sim, lied);
	sim->daemon.nslots = 0;
	sim->daemon.start_ns = sim->world.now_ns + sim_pick(sim, NS_S);
}

void disk_chaos_step(struct sim *sim)
{
	const struct sim_profile *profile = &sim->profile;
	bool troubled = is_troubled(&sim->tier.trouble);

	if (!sim->has_disk)
		return;
	if (troubled && due(sim, 60))
		trouble_end(sim);
	else if (!troubled && due(sim, profile->troubles))
		trouble_begin(sim);
	if (due(sim, profile->rots))
		rot(sim);
	if (due(sim, profile->host_losses))
		lose_host(sim);
}

void disk_chaos_end(struct sim *sim)
{
	if (sim->has_disk)
		trouble_end(sim);
}
