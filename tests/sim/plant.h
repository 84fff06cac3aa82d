/*
 * plant.h - choose the bug that this run has (base/plant.h). Only in sim_plants.
 */
#ifndef SIM_PLANT_H
#define SIM_PLANT_H

#include <stdbool.h>

/* False: there is no such bug. */
bool plant_arm(const char *name);

#endif
