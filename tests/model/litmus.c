/*
 * litmus.c - the two store-load races of the hold protocol on this machine's processors.
 *
 * take against condemn   both sure of the object = it is freed under a reader
 * give against ask       neither notices the other = a wake-up is lost
 *
 * Two threads, each on a processor of its own, meet over many slots. With share/hold.h as
 * it is neither race may ever show. Then the daemon's stores are weakened to release, and
 * both must show, or this test could not see them: where they do not within the time (one
 * processor, a machine that keeps these orders by itself) that half is skipped, not
 * passed.
 *
 * Thread    the reader runs reader_main(); the main thread plays the daemon.
 */
#include "base/attr.h"
#include "base/rng.h"
#include "share/hold.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	SLOTS = 1 << 14,
	LEADS = 7
};
enum race {
	TAKE_AGAINST_CONDEMN,
	GIVE_AGAINST_ASK
};

/* The daemon's two stores, as hold.h has them or weaker. */
struct stores {
	void (*condemn)(struct slot *slot);
	void (*ask)(struct slot *slot);
};

struct litmus {
	struct holder holder; /* first: told() finds us by it */
	struct slot *slots;
	struct hold_watch watch;
	uint32_t order[SLOTS]; /* the slots at random: neighbours share lines */
	/* What each side believes about a slot in this round; read when both are done. */
	bool holds[SLOTS], frees[SLOTS], told[SLOTS], saw[SLOTS];
	enum race race;
	int cpus[2];
	_Atomic uint32_t round;    /* raised by the daemon; 0 ends the reader */
	_Atomic uint32_t finished; /* the last round that the reader ended */
	_Atomic uint32_t at;       /* the reader's place in order[] */
};

struct outcome {
	uint64_t tries;
	uint64_t bad;
};

static void told(struct holder *holder, uint32_t slot)
{
	struct litmus *litmus = container_of(holder, struct litmus, holder);

	litmus->told[slot] = true;
}

static void condemn_weak(struct slot *slot)
{
	uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	atomic_store_explicit(&slot->state,
		SLOT_STATE(SLOT_CONDEMNED, slot_life_of(state)), memory_order_release);
}

static void ask_weak(struct slot *slot)
{
	atomic_store_explicit(&slot->want, 1, memory_order_release);
}

static void ask(struct slot *slot)
{
	slot_want(slot, true);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void reader_round(struct litmus *litmus)
{
	for (uint32_t place = 0; place < SLOTS; place++) {
		uint32_t slot = litmus->order[place];

		atomic_store_explicit(&litmus->at, place, memory_order_release);
		if (litmus->race == GIVE_AGAINST_ASK)
			hold_give(&litmus->holder, litmus->slots, slot);
		else
			litmus->holds[slot] = hold_try(&litmus->holder, litmus->slots,
						      slot, HOLD_COLD) == HOLD_OK;
	}
}

static void *reader_main(void *arg)
{
	struct litmus *litmus = arg;

	stay_on(litmus->cpus[0]);
	for (uint32_t last = 0;;) {
		uint32_t round = atomic_load(&litmus->round);

		if (round == last)
			continue;
		if (round == 0)
			return NULL;
		reader_round(litmus);
		atomic_store(&litmus->finished, round);
		last = round;
	}
}

static void set_up(struct litmus *litmus, uint32_t round)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		litmus->holds[i] = litmus->frees[i] = false;
		litmus->told[i] = litmus->saw[i] = false;
		slot_want(&litmus->slots[i], false);
		atomic_store(&litmus->slots[i].state, SLOT_STATE(SLOT_READY, round));
		atomic_store(&litmus->holder.counts[i],
			litmus->race == GIVE_AGAINST_ASK ? 1 : 0);
	}
}

/* Follow the reader closely, some slots behind or level with it: the races are narrow. */
static void daemon_round(
	struct litmus *litmus, const struct stores *stores, uint32_t round)
{
	uint32_t lead = round % LEADS;

	for (uint32_t place = 0; place < SLOTS; place++) {
		uint32_t slot = litmus->order[place];

		while (atomic_load_explicit(&litmus->at, memory_order_acquire) + lead <
				place &&
			atomic_load_explicit(&litmus->finished, memory_order_relaxed) !=
				round)
			continue;
		if (litmus->race == GIVE_AGAINST_ASK) {
			stores->ask(&litmus->slots[slot]);
			litmus->saw[slot] = hold_look(&litmus->watch, slot);
		} else {
			stores->condemn(&litmus->slots[slot]);
			litmus->frees[slot] = !hold_look(&litmus->watch, slot);
		}
	}
	while (atomic_load(&litmus->finished) != round)
		continue;
}

static void count(const struct litmus *litmus, struct outcome *outcome)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (litmus->race == GIVE_AGAINST_ASK)
			outcome->bad += litmus->saw[i] && !litmus->told[i];
		else
			outcome->bad += litmus->holds[i] && litmus->frees[i];
	outcome->tries += SLOTS;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Rounds until the time is over; with `first` the first sight of the race is enough. */
static struct outcome run(struct litmus *litmus, enum race race,
	const struct stores *stores, double seconds, bool first)
{
	struct outcome outcome = {0, 0};
	double end = now_s() + seconds;

	litmus->race = race;
	do {
		uint32_t round = atomic_load(&litmus->finished) + 1;

		set_up(litmus, round);
		atomic_store(&litmus->at, 0);
		atomic_store(&litmus->round, round);
		daemon_round(litmus, stores, round);
		count(litmus, &outcome);
	} while (now_s() < end && !(first && outcome.bad > 0));
	return outcome;
}

static bool two_cpus(int cpus[2])
{
	cpu_set_t set;
	int found = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[found++] = cpu;
	return found == 2;
}

static struct litmus *litmus_new(void)
{
	struct litmus *litmus = calloc(1, sizeof(*litmus));
	struct rng rng;

	CHECK(litmus != NULL);
	litmus->slots = aligned_alloc(sizeof(struct slot), SLOTS * sizeof(struct slot));
	litmus->holder.counts = calloc(SLOTS, sizeof(litmus->holder.counts[0]));
	CHECK(litmus->slots != NULL && litmus->holder.counts != NULL);
	memset(litmus->slots, 0, SLOTS * sizeof(struct slot));
	litmus->holder.tell = told;
	hold_watch_add(&litmus->watch, 0, litmus->holder.counts);
	rng_init(&rng, 1);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t other = (uint32_t)rng_below(&rng, i + 1);

		litmus->order[i] = litmus->order[other];
		litmus->order[other] = i;
	}
	return litmus;
}

static void litmus_free(struct litmus *litmus)
{
	free(litmus->holder.counts);
	free(litmus->slots);
	free(litmus);
}

struct tally {
	unsigned passed, failed, skipped;
};

/* Each strong race for its share of the time. A weak one ends at its first sight; the
 * limit is for machines that never show it. */
static void run_all(struct litmus *litmus, double seconds, struct tally *tally)
{
	static const char *const names[] = {"take against condemn", "give against ask"};
	static const struct stores strong = {slot_condemn, ask};
	static const struct stores weak = {condemn_weak, ask_weak};

	for (enum race race = TAKE_AGAINST_CONDEMN; race <= GIVE_AGAINST_ASK; race++) {
		struct outcome kept = run(litmus, race, &strong, seconds * 0.45, false);
		struct outcome broken = run(litmus, race, &weak, seconds, true);

		printf("%-6s %s: %lu tries, %lu wrong\n", kept.bad == 0 ? "ok" : "FAILED",
			names[race], (unsigned long)kept.tries, (unsigned long)kept.bad);
		if (broken.bad > 0)
			printf("ok     %s, weakened: wrong %lu times in %lu tries, as it "
			       "must\n",
				names[race], (unsigned long)broken.bad,
				(unsigned long)broken.tries);
		else
			printf("skip   %s, weakened: weak orders not seen in %lu tries\n",
				names[race], (unsigned long)broken.tries);
		*(kept.bad == 0 ? &tally->passed : &tally->failed) += 1;
		*(broken.bad > 0 ? &tally->passed : &tally->skipped) += 1;
	}
}

int main(int argc, char **argv)
{
	struct tally tally = {0, 0, 0};
	struct litmus *litmus = litmus_new();
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	pthread_t reader;

	if (two_cpus(litmus->cpus)) {
		CHECK(pthread_create(&reader, NULL, reader_main, litmus) == 0);
		stay_on(litmus->cpus[1]);
		run_all(litmus, seconds, &tally);
		atomic_store(&litmus->round, 0);
		pthread_join(reader, NULL);
	} else {
		printf("skip   both races: one processor shows none of them\n");
		tally.skipped = 4;
	}
	litmus_free(litmus);
	printf("%u passed, %u failed, %u skipped\n", tally.passed, tally.failed,
		tally.skipped);
	return tally.failed == 0 ? 0 : 1;
}
