/*
 * plant.h - bugs on order, to test the tests.
 *
 * if (PLANTED(NAME)) does what must not be done. It is 0, and leaves no trace, in every
 * build but those of the simulators for plants, which define CENOTE_PLANTS and arm one of
 * plant.def or plant_cluster.def at their start.
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
#define PLANT(name, from, to, text) PLANT_##name,
#include "base/plant_cluster.def"
	PLANT_COUNT
};

extern enum plant plant_armed;

#define PLANTED(name) (plant_armed == PLANT_##name)

#else
#define PLANTED(name) 0
#endif

#endif
