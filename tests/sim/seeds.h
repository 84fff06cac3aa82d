/*
 * seeds.h - the program around a simulator: run seeds, each in a process of its own, and
 * some of them twice.
 *
 * Both simulators are this program, and tests/run.py and tests/plants.py read what it
 * prints; a simulator only tells how one of its seeds is run and what had to be seen.
 *
 * A seed whose two runs do not have equal traces has failed like one that broke a rule:
 * without that no failure could be repeated.
 *
 * Memory    a struct cover for each seed, which the processes share.
 * Errors    of the command line: a line on stderr, and status 2; of a seed: status 1.
 * Thread    one.
 */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cover; /* each simulator has its own */

struct simulator {
	const char *name;
	const char *seeds, *steps; /* by default, as a user would write them */
	const char *print_option;  /* the option that prints everything, without dashes */
	const char *plant_lists;   /* where the bugs of --plant are */
	unsigned cpu_seconds_most; /* of one seed: then it hangs */
	unsigned twice_every;      /* a seed of so many is run twice */

	/* The hash of the run's trace; a broken rule ends the process. */
	uint64_t (*run)(uint64_t seed, uint64_t steps, bool print, struct cover *cover);

	size_t cover_size;
	void (*cover_add)(struct cover *sum, const struct cover *cover);
	void (*cover_print)(const struct cover *cover);
	/* The number of events that had to be seen and were not; each is named. */
	unsigned (*cover_missing)(const struct cover *cover);
};

/* All of main(). */
int seeds_main(const struct simulator *simulator, int argc, char **argv);

#endif
