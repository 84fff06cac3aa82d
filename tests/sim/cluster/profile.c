/*
 * profile.c - what kind of world a seed has: how many nodes, how large their pools, what
 * clients do, how bad the weather is.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

/* Objects above what rides in an answer cross the network in pieces. */
#define LARGE_LEAST (66u << 10)
#define TIGHT_POOL  (512ull << 10)
#define WIDE_POOL   (2ull << 20)
#define HANDS_EVERY 4u /* of so many seeds one */
#define HEIRS_EVERY 4u

static void choose_clients(struct sim *sim)
{
	struct sim_profile *profile = &sim->profile;

	profile->procs = 1 + (unsigned)sim_pick(sim, SIM_PROCS - 1);
	profile->keys = 3 + (unsigned)sim_pick(sim, SIM_KEYS - 2);
	profile->think_ns = 10 * NS_MS + sim_pick(sim, 120 * NS_MS);
	profile->softpin = sim_chance(sim, 80) ? 60 + (unsigned)sim_pick(sim, 41)
					       : (unsigned)sim_pick(sim, 60);
	profile->ttl = sim_chance(sim, 40) ? (unsigned)sim_pick(sim, 20) : 0;
	profile->readers = sim_chance(sim, 40) ? (unsigned)sim_pick(sim, 40) : 0;
	profile->replace = sim_chance(sim, 60) ? (unsigned)sim_pick(sim, 50) : 0;
	profile->removes = 100;
}

/* Mostly wide pools, in which an object leaves by somebody's word alone. */
static void choose_pools(struct sim *sim)
{
	struct sim_profile *profile = &sim->profile;
	bool has_disk;

	profile->is_tight = sim_chance(sim, 25);
	has_disk = sim_chance(sim, 35);
	profile->durable = has_disk && sim_chance(sim, 60) ? (unsigned)sim_pick(sim, 40)
							   : 0;
	profile->large = (unsigned)sim_pick(sim, 35);
	profile->size_most = LARGE_LEAST + sim_pick(sim, 128u << 10);
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		profile->has_disk[i] = has_disk;
		profile->pool_sizes[i] = profile->is_tight ? TIGHT_POOL : WIDE_POOL;
	}
	profile->piece = (4u << 10) + sim_pick(sim, 28u << 10);
}

/* One node may have room for much of what the others keep. */
static void choose_full_pools(struct sim *sim)
{
	struct sim_profile *profile = &sim->profile;
	bool has_disks = sim_chance(sim, 40);
	bool has_one_wide = sim_chance(sim, 40);

	profile->is_tight = true;
	for (unsigned i = 0; i < SIM_HOSTS; i++) {
		profile->has_disk[i] = has_disks && sim_chance(sim, 50);
		profile->pool_sizes[i] = (3 + sim_pick(sim, 4)) * (TIGHT_POOL / 4);
	}
	if (has_one_wide)
		profile->pool_sizes[sim_pick(sim, profile->hosts)] = WIDE_POOL;
	profile->durable = has_disks ? (unsigned)sim_pick(sim, 30) : 0;
	profile->softpin = 85 + (unsigned)sim_pick(sim, 16);
	profile->large = 40 + (unsigned)sim_pick(sim, 50);
	profile->ttl /= 4;
	profile->removes = 20 + (unsigned)sim_pick(sim, 60);
	profile->keys = 10 + (unsigned)sim_pick(sim, SIM_KEYS - 9);
}

/* Nodes of which one takes over what another keeps, by the seed's number, so that these worlds
 * leave the others as they are. */
static void choose_hands(struct sim *sim)
{
	struct sim_profile *profile = &sim->profile;

	profile->heirs = sim->seed % HEIRS_EVERY == 1;
	profile->hands = sim->seed % HANDS_EVERY == HANDS_EVERY - 1;
	if (!profile->hands)
		return;
	profile->short_leases = false; /* with which nothing large moves for long */
	profile->drains = sim_chance(sim, 60);
	if (!profile->drains || sim_chance(sim, 60))
		choose_full_pools(sim);
}

static void choose_weather(struct sim *sim)
{
	struct sim_profile *profile = &sim->profile;

	profile->far_ns = 50 * NS_US + sim_pick(sim, 2 * NS_MS);
	profile->storm_ns = NS_S + sim_pick(sim, 9 * NS_S);
	profile->calm_ns = SIM_SETTLE_NS + NS_S + sim_pick(sim, 5 * NS_S);
	profile->gust_ns = 50 * NS_MS + sim_pick(sim, 1500 * NS_MS);
	profile->wild = sim_chance(sim, 50);
	profile->noise = sim_chance(sim, 40) ? (unsigned)sim_pick(sim, 500) : 0;
	profile->short_leases = sim_chance(sim, 20);
	if (profile->short_leases) {
		profile->large = 40;
		profile->piece = (2u << 10) + sim_pick(sim, 6u << 10);
	}
}

void profile_choose(struct sim *sim)
{
	uint64_t roll = sim_pick(sim, 100);

	sim->profile.hosts = roll < 65 ? 3 : roll < 88 ? 4 : SIM_HOSTS;
	choose_clients(sim);
	choose_pools(sim);
	choose_weather(sim);
	choose_hands(sim);
}

void profile_tweak(struct sim *sim, struct node_config *config)
{
	config->uids[config->uid_count++] = SIM_UID;
	config->put_timeout = NS_S + sim_pick(sim, 5 * NS_S);
	config->max_ops = 64;
	config->max_pins = 64;
	config->max_lanes = 128;
	config->lease_min = 5 * NS_MS + sim_pick(sim, 2 * NS_S);
	config->lease_max = config->lease_min + sim_pick(sim, 2 * NS_S);
	if (sim->profile.short_leases) {
		config->lease_max = 5 * NS_MS + sim_pick(sim, 80 * NS_MS);
		config->lease_min = MIN(config->lease_min, config->lease_max);
	}
}
