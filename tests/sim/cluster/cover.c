#include "sim/cluster/cover.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
	const char *text;
	bool must;
} cover_texts[COVER_EVENTS] = {
#define COVER(name, text)       [COVER_##name] = {text, true},
#define COVER_EXTRA(name, text) [COVER_##name] = {text, false},
#include "sim/cluster/cover.def"
};

void cover_add(struct cover *sum, const struct cover *cover)
{
	for (unsigned i = 0; i < COVER_EVENTS; i++)
		sum->events[i] += cover->events[i];
}

void cover_print(const struct cover *cover)
{
	for (unsigned i = 0; i < COVER_EVENTS; i++)
		printf("%10" PRIu64 "  %s\n", cover->events[i], cover_texts[i].text);
}

unsigned cover_missing(const struct cover *cover)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < COVER_EVENTS; i++) {
		if (!cover_texts[i].must || cover->events[i] > 0)
			continue;
		printf("never seen: %s\n", cover_texts[i].text);
		missing++;
	}
	return missing;
}
