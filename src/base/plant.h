/*
 * plant.h - bugs on order, to test the tests.
 *
 * if (PLANTED(NAME)) does what must not be done. It is 0, and leaves no trace, in every
 * build but that of tests/sim/sim_plants, which defines CENOTE_PLANTS and arms one of
 * plant.def at its start.
 *
 * Thread    set before anything runs.
 */
#ifndef BASE_PLANT_H
#define BASE_PLANT_H

#ifdef CENOTE_PLANTS

enum plant {
	PLANT_NONE,
#define PLANT(name, from, to, text) PLANT_##name,
#include "base/plant.def"
	PLANT_COUNT
};

extern enum plant plant_armed;

#define PLANTED(name) (plant_armed == PLANT_##name)

#else
#define PLANTED(name) 0
#endif

#endif
