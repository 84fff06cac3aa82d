/*
 * bench_clients.c - what attached clients cost: the attach, page tables, a hit, a remove.
 *
 * A remove looks at one count of every client, which is the one price of a client that
 * others pay.
 */
#include "tools/bench_crowd.h"
#include "tools/bench_micro.h"
#include "tools/interrupt.h"

#include "base/attr.h"

#include <stdio.h>

#define CLIENTS_STEPS   4
#define CLIENTS_OBJECTS 1000u
#define CLIENTS_BLOCKS  200u
#define CLIENTS_HITS    1000u /* timed together */
#define CLIENTS_REMOVES 500u

/* What is measured with so many clients attached. */
struct clients_step {
	uint32_t count;
	struct series attach, hit, remove;
	char names[3][32];
	char figures[2][40];
};

struct clients_bench {
	struct micro *micro;
	struct crowd crowd;
	struct hit_set set;
	struct clients_step steps[CLIENTS_STEPS];
	uint64_t number; /* of the next object that is put to be removed */
};

static int clients_hit(struct clients_bench *bench, struct clients_step *step)
{
	uint32_t blocks = micro_rounds(bench->micro, CLIENTS_BLOCKS);

	for (uint32_t i = 0; i < blocks; i++) {
		uint64_t start_ns = crowd_cpu_ns();
		int err = hit_some(bench->micro->store, &bench->set, CLIENTS_HITS);

		if (err != 0)
			return micro_failed("bench: get", err);
		series_add(
			&step->hit, (double)(crowd_cpu_ns() - start_ns) / CLIENTS_HITS);
	}
	return TOOL_OK;
}

static int clients_remove(struct clients_bench *bench, struct clients_step *step)
{
	uint32_t rounds = micro_rounds(bench->micro, CLIENTS_REMOVES);

	for (uint32_t i = 0; i < rounds; i++) {
		char text[MICRO_KEY_SIZE + 1];
		struct cenote_key key = micro_key(text, "clients", bench->number++);
		int err = cenote_put(bench->micro->store, key, text, 1, NULL);
		uint64_t start_ns = tool_now_ns();

		if (err == 0)
			err = cenote_remove(bench->micro->store, key);
		if (err != 0)
			return micro_failed("bench: put, remove", err);
		series_add(&step->remove, (double)(tool_now_ns() - start_ns));
	}
	return TOOL_OK;
}

/* Attach up to the step's number, this process among them; measure there. */
static int clients_step(struct clients_bench *bench, struct clients_step *step)
{
	struct crowd *crowd = &bench->crowd;
	uint32_t before = crowd->count;
	int exit_code = crowd_grow(crowd, step->count - 1);

	for (uint32_t i = before; i < crowd->count; i++)
		series_add(
			&step->attach, (double)atomic_load(&crowd->shared->attach_ns[i]));
	if (before == 0 && crowd->count > 0)
		result_figure(&bench->micro->result, "page_table_bytes_attached",
			(double)atomic_load(&crowd->shared->table_bytes[0]));
	if (exit_code == TOOL_OK)
		exit_code = clients_hit(bench, step);
	if (exit_code == TOOL_OK)
		exit_code = clients_remove(bench, step);
	(void)series_end_run(&step->attach);
	if (exit_code != TOOL_OK)
		return exit_code;
	result_figure(
		&bench->micro->result, step->figures[0], series_end_run(&step->hit));
	result_figure(
		&bench->micro->result, step->figures[1], series_end_run(&step->remove));
	return TOOL_OK;
}

static int clients_run(struct clients_bench *bench)
{
	int exit_code = TOOL_OK;

	for (int i = 0; i < CLIENTS_STEPS && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED
					     : clients_step(bench, &bench->steps[i]);
	crowd_end(&bench->crowd);
	return exit_code;
}

/* ---- the bench ----------------------------------------------------------- */

static void clients_name(struct clients_step *step)
{
	static const char *const works[3] = {"attach", "hit_cpu", "remove"};
	struct series *series[3] = {&step->attach, &step->hit, &step->remove};

	for (int i = 0; i < 3; i++) {
		(void)snprintf(step->names[i], sizeof(step->names[i]), "%s_%u_clients",
			works[i], step->count);
		series[i]->name = step->names[i];
	}
	(void)snprintf(step->figures[0], sizeof(step->figures[0]),
		"hit_cpu_ns_%u_clients", step->count);
	(void)snprintf(step->figures[1], sizeof(step->figures[1]), "remove_ns_%u_clients",
		step->count);
}

static void clients_rows(struct clients_bench *bench)
{
	struct bench_result *result = &bench->micro->result;

	for (int i = 0; i < CLIENTS_STEPS; i++) {
		if (bench->steps[i].attach.count > 0)
			result_row(result, &bench->steps[i].attach);
	}
	for (int i = 0; i < CLIENTS_STEPS; i++)
		result_row(result, &bench->steps[i].hit);
	for (int i = 0; i < CLIENTS_STEPS; i++)
		result_row(result, &bench->steps[i].remove);
}

/* The page tables of a process that has all of the pool mapped. */
static int clients_touch(struct clients_bench *bench)
{
	uint64_t before = crowd_status_bytes("VmPTE:");
	int exit_code = micro_touch_pool(bench->micro);

	if (bench->micro->node != NULL && exit_code == TOOL_OK)
		result_figure(&bench->micro->result, "page_table_bytes_pool_touched",
			(double)(crowd_status_bytes("VmPTE:") - before));
	return exit_code;
}

static int clients_begin(struct clients_bench *bench)
{
	struct micro *micro = bench->micro;
	int exit_code = clients_touch(bench);
	int err = hit_put(micro->store, 0, CLIENTS_OBJECTS);

	if (err != 0)
		return micro_failed("bench: put", err);
	if (exit_code == TOOL_OK && !hit_set_init(&bench->set, CLIENTS_OBJECTS, 3))
		exit_code = TOOL_FAILED;
	return exit_code == TOOL_OK
		       ? crowd_init(&bench->crowd, micro->socket, -1, CLIENTS_OBJECTS)
		       : exit_code;
}

int bench_clients(struct micro *micro)
{
	struct clients_bench bench = {.micro = micro,
		.steps = {{.count = 1}, {.count = 8}, {.count = 64}, {.count = 250}}};
	int exit_code;

	result_note(&micro->result,
		"With so many processes attached, this one among them: their attach, and "
		"what this one's hit and remove cost.");
	for (int i = 0; i < CLIENTS_STEPS; i++)
		clients_name(&bench.steps[i]);
	exit_code = clients_begin(&bench);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = clients_run(&bench);
	clients_rows(&bench);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	(void)hit_remove(micro->store, 0, CLIENTS_OBJECTS);
	crowd_fini(&bench.crowd);
	hit_set_fini(&bench.set);
	for (int i = 0; i < CLIENTS_STEPS; i++) {
		series_fini(&bench.steps[i].attach);
		series_fini(&bench.steps[i].hit);
		series_fini(&bench.steps[i].remove);
	}
	return exit_code;
}
