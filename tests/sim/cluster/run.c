/*
 * run.c - one run: who goes next, and when time passes.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT_EVERY 256u /* steps between two looks at all that must be kept */

void sim_fail(struct sim *sim, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)fflush(stdout);
	(void)fprintf(stderr,
		"seed %" PRIu64 ", step %" PRIu64 ", event %" PRIu64 ", at %.6f: %s\n",
		sim->seed, sim->step, sim->trace.events, (double)sim->now_ns / 1e9, text);
	_exit(1);
}

uint64_t sim_about(struct sim *sim, uint64_t mean)
{
	uint64_t roll = sim_pick(sim, 100);

	if (roll < 70)
		return sim_pick(sim, mean + 1);
	return sim_pick(sim, (roll < 97 ? 3 : 10) * mean + 1);
}

/* ---- who can go ---------------------------------------------------------- */

enum choice_kind {
	CHOICE_HOST,
	CHOICE_PROC,
	CHOICE_WIRE,
	CHOICE_TRANSFER,
	CHOICE_LETTER,
	CHOICE_OFFICE
};

struct choice {
	enum choice_kind kind;
	void *what;
	enum wire_end end;
};

#define CHOICES_MOST 256u

struct choices {
	struct choice all[CHOICES_MOST];
	unsigned count;
};

static void choice_add(
	struct choices *choices, enum choice_kind kind, void *what, enum wire_end end)
{
	if (choices->count < CHOICES_MOST)
		choices->all[choices->count++] = (struct choice){kind, what, end};
}

static void choices_of_host(struct choices *choices, struct host *host)
{
	/* Twice: a daemon is at least as quick as a client. */
	for (int i = 0; i < 2 && host_is_due(host); i++)
		choice_add(choices, CHOICE_HOST, host, WIRE_DIALER);
	if (office_is_due(host))
		choice_add(choices, CHOICE_OFFICE, host, WIRE_DIALER);
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		if (proc_can_step(&host->procs[i]))
			choice_add(choices, CHOICE_PROC, &host->procs[i], WIRE_DIALER);
	}
}

static void choices_of_network(struct sim *sim, struct choices *choices)
{
	list_for_each (at, &sim->wires) {
		struct wire *wire = container_of(at, struct wire, entry);

		for (int end = 0; end < WIRE_ENDS; end++) {
			if (wire_is_due(sim, wire, (enum wire_end)end))
				choice_add(
					choices, CHOICE_WIRE, wire, (enum wire_end)end);
		}
	}
	list_for_each (at, &sim->transfers) {
		struct transfer *transfer = container_of(at, struct transfer, entry);

		if (transfer_is_due(sim, transfer))
			choice_add(choices, CHOICE_TRANSFER, transfer, WIRE_DIALER);
	}
	list_for_each (at, &sim->registry.letters) {
		struct letter *letter = container_of(at, struct letter, entry);

		if (letter_is_due(sim, letter))
			choice_add(choices, CHOICE_LETTER, letter, WIRE_DIALER);
	}
}

static void find_choices(struct sim *sim, struct choices *choices)
{
	choices->count = 0;
	for (unsigned i = 0; i < sim->profile.hosts; i++)
		choices_of_host(choices, &sim->hosts[i]);
	choices_of_network(sim, choices);
}

static void go(struct sim *sim, const struct choice *choice)
{
	struct event turn = {.kind = EVENT_STEP};

	switch (choice->kind) {
	case CHOICE_HOST:
		host_tell(choice->what, &turn);
		return;
	case CHOICE_PROC:
		proc_step(choice->what);
		return;
	case CHOICE_WIRE:
		wire_deliver(sim, choice->what, choice->end);
		return;
	case CHOICE_TRANSFER:
		transfer_step(sim, choice->what);
		return;
	case CHOICE_LETTER:
		letter_step(sim, choice->what);
		return;
	case CHOICE_OFFICE:
		office_step(choice->what);
		return;
	}
	NOT_REACHED("no such choice");
}

/* ---- time ---------------------------------------------------------------- */

/* The next moment at which anything can go on. */
static uint64_t next_ns(const struct sim *sim)
{
	uint64_t next = MIN(wires_next(sim), transfers_next(sim));

	next = MIN(next, registry_next(sim));
	next = MIN(next, chaos_next(sim));
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];

		next = MIN(next, host_next(host));
		for (unsigned j = 0; j < SIM_PROCS; j++)
			next = MIN(next, proc_next(&host->procs[j]));
	}
	return next;
}

/* No two steps are at one time. */
static void pass_some(struct sim *sim)
{
	sim->now_ns += 1 + sim_pick(sim, 20 * NS_US);
}

static void pass_to_next(struct sim *sim)
{
	uint64_t next = next_ns(sim);

	if (next != UINT64_MAX && next > sim->now_ns)
		sim->now_ns = next;
	else
		sim->now_ns += 1 + sim_pick(sim, NS_MS);
}

/* ---- one step ------------------------------------------------------------ */

static void start_what_is_due(struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct host *host = &sim->hosts[i];

		if (!host_is_up(host) && host->start_ns <= sim->now_ns)
			host_start(host);
		if (host->stopped_ns != 0 && host->stopped_ns <= sim->now_ns) {
			host->stopped_ns = 0;
			trouble_ends(sim, TROUBLE_STOPPED, i, 0);
		}
	}
}

static void look(struct sim *sim)
{
	chaos_step(sim);
	start_what_is_due(sim);
	wires_look(sim);
	while (wires_lose_patience(sim))
		;
	registry_look(sim);
}

void sim_turn(struct sim *sim)
{
	struct choices choices;

	sim->step++;
	pass_some(sim);
	look(sim);
	find_choices(sim, &choices);
	for (unsigned tries = 0; choices.count == 0 && tries < 20; tries++) {
		pass_to_next(sim);
		look(sim);
		find_choices(sim, &choices);
	}
	if (choices.count == 0)
		return;
	go(sim, &choices.all[sim_pick(sim, choices.count)]);
	procs_check(sim);
	if (sim->step % KEPT_EVERY == 0)
		keepers_look(sim);
	trace_bytes(&sim->trace, &sim->rng.state[0], sizeof(sim->rng.state[0]));
}

/* ---- a run --------------------------------------------------------------- */

static void sim_open(
	struct sim *sim, uint64_t seed, uint64_t steps, bool print, struct cover *cover)
{
	sim->seed = seed;
	sim->steps = steps;
	sim->cover = cover;
	sim->now_ns = NS_S;
	rng_init(&sim->rng, seed);
	list_init(&sim->wires);
	list_init(&sim->transfers);
	list_init(&sim->repairs);
	sim->trace.now_ns = &sim->now_ns;
	sim->trace.print = print;
	profile_choose(sim);
	ledger_init(sim);
	registry_init(sim);
	sim->hosts = calloc(sim->profile.hosts, sizeof(*sim->hosts));
	CHECK(sim->hosts != NULL);
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		host_init(sim, i);
		sim->hosts[i].start_ns = sim->now_ns + sim_pick(sim, NS_S);
		trouble_begins(sim, TROUBLE_DOWN, i, 0);
	}
	chaos_init(sim);
}

static void sim_close(struct sim *sim)
{
	transfers_free(sim);
	for (unsigned i = 0; i < sim->profile.hosts; i++)
		host_fini(&sim->hosts[i]);
	wires_free(sim);
	registry_fini(sim);
	ledger_fini(sim);
	chaos_fini(sim);
	free(sim->hosts);
}

uint64_t sim_run(uint64_t seed, uint64_t steps, bool print, struct cover *cover)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	uint64_t hash;

	CHECK(sim != NULL);
	sim_open(sim, seed, steps, print, cover);
	while (sim->step < steps)
		sim_turn(sim);
	end_run(sim);
	hash = sim->trace.hash;
	sim_close(sim);
	free(sim);
	return hash;
}
