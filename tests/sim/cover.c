#include "sim/cover.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
	const char *text;
	bool must;
} cover_texts[COVER_EVENTS] = {
#define COVER(name, text)       [COVER_##name] = {text, true},
#define COVER_EXTRA(name, text) [COVER_##name] = {text, false},
#include "sim/cover.def"
};

static bool point_counts(enum fault_point point)
{
	return FAULT_BUILD && !fault_point_is_client(point);
}

uint64_t cover_take_point(
	struct cover *cover, struct fault_table *faults, enum fault_point point)
{
	uint64_t hits = 0, fired = 0;

	if (!point_counts(point) ||
		fault_status(faults, fault_point_name(point), &hits, &fired) != 0)
		return 0;
	cover->hits[point] += hits;
	cover->fired[point] += fired;
	return fired;
}

void cover_add(struct cover *sum, const struct cover *cover)
{
	for (unsigned i = 0; i < COVER_EVENTS; i++)
		sum->events[i] += cover->events[i];
	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++) {
		sum->hits[i] += cover->hits[i];
		sum->fired[i] += cover->fired[i];
	}
}

void cover_print(const struct cover *cover)
{
	for (unsigned i = 0; i < COVER_EVENTS; i++)
		printf("%10" PRIu64 "  %s\n", cover->events[i], cover_texts[i].text);
	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++) {
		if (point_counts((enum fault_point)i))
			printf("%10" PRIu64 "  hits of %s, %" PRIu64 " fired\n",
				cover->hits[i], fault_point_name((enum fault_point)i),
				cover->fired[i]);
	}
}

unsigned cover_missing(const struct cover *cover)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < COVER_EVENTS; i++) {
		if (!cover_texts[i].must || cover->events[i] > 0)
			continue;
		/* Without faults in the build nothing can be late or failing. */
		if (!FAULT_BUILD && (i == COVER_FAULT_SLEPT || i == COVER_FAULT_FAILED ||
					    i == COVER_DAEMON_KILLED_AT_POINT))
			continue;
		printf("never seen: %s\n", cover_texts[i].text);
		missing++;
	}
	for (unsigned i = 0; i < FAULT_POINT_COUNT; i++) {
		if (!point_counts((enum fault_point)i) || cover->hits[i] > 0 ||
			fault_point_is_cluster((enum fault_point)i))
			continue;
		printf("never hit: %s\n", fault_point_name((enum fault_point)i));
		missing++;
	}
	return missing;
}
