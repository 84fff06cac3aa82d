#include "sim/plant.h"

#include "base/plant.h"

#include <string.h>

enum plant plant_armed;

static const char *const plant_names[PLANT_COUNT] = {
	[PLANT_NONE] = "NONE",
#define PLANT(name, from, to, text) [PLANT_##name] = #name,
#include "base/plant.def"
#define PLANT(name, from, to, text) [PLANT_##name] = #name,
#include "base/plant_cluster.def"
};

bool plant_arm(const char *name)
{
	for (unsigned i = 0; i < PLANT_COUNT; i++) {
		if (strcmp(plant_names[i], name) == 0) {
			plant_armed = (enum plant)i;
			return true;
		}
	}
	return false;
}
