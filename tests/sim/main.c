/*
 * main.c - the simulator of one node, as a program (sim/seeds.h). Every seed is run twice.
 */
#include "sim/seeds.h"
#include "sim/sim.h"

static const struct simulator simulator = {
	.name = "sim",
	.seeds = "1-200",
	.steps = "40000",
	.print_option = "trace",
	.plant_lists = "base/plant.def",
	.cpu_seconds_most = 300,
	.twice_every = 1,
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
