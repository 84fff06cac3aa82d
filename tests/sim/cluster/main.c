/*
 * main.c - the simulator of a cluster, as a program (sim/seeds.h). One seed of eight is
 * run twice.
 */
#include "sim/cluster/cluster.h"
#include "sim/seeds.h"

static const struct simulator simulator = {
	.name = "sim_cluster",
	.seeds = "1-200",
	.steps = "40000",
	.print_option = "print",
	.plant_lists = "base/plant.def or base/plant_cluster.def",
	.cpu_seconds_most = 120,
	.twice_every = 8,
	.run = sim_run,
	.cover_size = sizeof(struct cover),
	.cover_add = cover_add,
	.cover_print = cover_print,
	.cover_missing = cover_missing,
};

int main(int argc, char **argv)
{
	return seeds_main(&simulator, argc, argv);
}
