/*
 * bench_batch.c - 64 objects in one call, against one call each.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

#define BATCH_COUNT  64u
#define BATCH_SIZES  4
#define BATCH_KINDS  6
#define BATCH_BUFFER (64u << 20)

enum batch_kind {
	BATCH_PUT_EACH,
	BATCH_REMOVE_EACH,
	BATCH_PUT,
	BATCH_GET, /* in place, and released */
	BATCH_GET_INTO,
	BATCH_REMOVE
};

struct batch_size {
	const char *name;
	uint64_t bytes;
	uint32_t rounds;
	char names[BATCH_KINDS][32];
	struct series series[BATCH_KINDS];
	struct copies copies; /* of all 64 */
	char copies_name[16];
	char figures[3][40];
};

struct batch_bench {
	struct micro *micro;
	unsigned char *source, *target;
	struct cenote_writer run;
	char text[BATCH_COUNT][MICRO_KEY_SIZE + 1];
	struct cenote_key keys[BATCH_COUNT];
	struct batch_size sizes[BATCH_SIZES];
};

static const struct cenote_put_options batch_options = {.softpin = true};

/* ---- calls --------------------------------------------------------------- */

static int batch_put_each(struct batch_bench *bench, uint64_t bytes)
{
	int err = 0;

	for (unsigned i = 0; i < BATCH_COUNT && err == 0; i++)
		err = cenote_put(bench->micro->store, bench->keys[i],
			bench->source + i * bytes, bytes, &batch_options);
	return err;
}

static int batch_remove_each(struct batch_bench *bench)
{
	int err = 0;

	for (unsigned i = 0; i < BATCH_COUNT && err == 0; i++)
		err = cenote_remove(bench->micro->store, bench->keys[i]);
	return err;
}

/* A batch that fails in part is one that fails. */
static int batch_result(size_t failed)
{
	return failed == 0 ? 0 : CENOTE_ERR_INTERNAL;
}

static int batch_put(struct batch_bench *bench, uint64_t bytes)
{
	struct cenote_put_item items[BATCH_COUNT];
	struct cenote_part parts[BATCH_COUNT];

	for (unsigned i = 0; i < BATCH_COUNT; i++) {
		parts[i] = (struct cenote_part){bench->source + i * bytes, bytes};
		items[i] = (struct cenote_put_item){
			.key = bench->keys[i], .parts = &parts[i], .count = 1};
	}
	return batch_result(cenote_put_batch(
		bench->micro->store, items, BATCH_COUNT, &batch_options));
}

static int batch_get(struct batch_bench *bench)
{
	struct cenote_get_item items[BATCH_COUNT];
	int err;

	for (unsigned i = 0; i < BATCH_COUNT; i++)
		items[i] = (struct cenote_get_item){.key = bench->keys[i]};
	err = batch_result(
		cenote_get_batch(bench->micro->store, items, BATCH_COUNT, NULL));
	for (unsigned i = 0; i < BATCH_COUNT; i++) {
		if (items[i].result == 0)
			(void)cenote_release(bench->micro->store, &items[i].view);
	}
	return err;
}

static int batch_get_into(struct batch_bench *bench, uint64_t bytes)
{
	struct cenote_get_into_item items[BATCH_COUNT];

	for (unsigned i = 0; i < BATCH_COUNT; i++)
		items[i] = (struct cenote_get_into_item){.key = bench->keys[i],
			.buffer = bench->target + i * bytes,
			.buffer_size = bytes};
	return batch_result(
		cenote_get_into_batch(bench->micro->store, items, BATCH_COUNT, NULL));
}

static int batch_remove(struct batch_bench *bench)
{
	struct cenote_key_item items[BATCH_COUNT];

	for (unsigned i = 0; i < BATCH_COUNT; i++)
		items[i] = (struct cenote_key_item){.key = bench->keys[i]};
	return batch_result(cenote_remove_batch(bench->micro->store, items, BATCH_COUNT));
}

static int batch_do(struct batch_bench *bench, enum batch_kind kind, uint64_t bytes)
{
	switch (kind) {
	case BATCH_PUT_EACH:
		return batch_put_each(bench, bytes);
	case BATCH_REMOVE_EACH:
		return batch_remove_each(bench);
	case BATCH_PUT:
		return batch_put(bench, bytes);
	case BATCH_GET:
		return batch_get(bench);
	case BATCH_GET_INTO:
		return batch_get_into(bench, bytes);
	case BATCH_REMOVE:
		return batch_remove(bench);
	}
	return CENOTE_ERR_INTERNAL;
}

/* ---- runs ---------------------------------------------------------------- */

static int batch_round(struct batch_bench *bench, struct batch_size *size)
{
	for (int kind = 0; kind < BATCH_KINDS; kind++) {
		uint64_t start_ns = tool_now_ns();
		int err = batch_do(bench, (enum batch_kind)kind, size->bytes);

		if (err != 0)
			return micro_failed("bench: batch", err);
		series_add(&size->series[kind],
			(double)(tool_now_ns() - start_ns) / BATCH_COUNT);
	}
	copies_make(&size->copies, size->bytes * BATCH_COUNT);
	return TOOL_OK;
}

static int batch_run(struct batch_bench *bench, struct batch_size *size)
{
	uint32_t rounds = micro_rounds(bench->micro, size->rounds);
	struct bench_result *result = &bench->micro->result;
	double ns[BATCH_KINDS], copy;
	int exit_code = TOOL_OK;

	for (uint32_t i = 0; i < rounds && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED : batch_round(bench, size);
	for (int kind = 0; kind < BATCH_KINDS; kind++)
		ns[kind] = series_end_run(&size->series[kind]);
	copy = copies_end_run(&size->copies) / BATCH_COUNT;
	if (exit_code != TOOL_OK)
		return exit_code;
	result_figure(result, size->figures[0], ns[BATCH_PUT_EACH] / ns[BATCH_PUT]);
	if (size->bytes >= 1u << 20) {
		result_aimed(result, size->figures[1], copy / ns[BATCH_PUT], AIM_AT_LEAST,
			0.85);
		result_figure(result, size->figures[2], copy / ns[BATCH_GET_INTO]);
	}
	return TOOL_OK;
}

/* ---- the bench ----------------------------------------------------------- */

static void batch_name(struct batch_bench *bench, struct batch_size *size)
{
	static const char *const kinds[BATCH_KINDS] = {
		[BATCH_PUT_EACH] = "put_each",
		[BATCH_REMOVE_EACH] = "remove_each",
		[BATCH_PUT] = "put_batch",
		[BATCH_GET] = "get_batch",
		[BATCH_GET_INTO] = "get_into_batch",
		[BATCH_REMOVE] = "remove_batch",
	};

	for (int kind = 0; kind < BATCH_KINDS; kind++) {
		bool moves = kind == BATCH_PUT_EACH || kind == BATCH_PUT ||
			     kind == BATCH_GET_INTO;

		(void)snprintf(size->names[kind], sizeof(size->names[kind]), "%s_%s",
			kinds[kind], size->name);
		size->series[kind] = (struct series){
			.name = size->names[kind], .bytes = moves ? size->bytes : 0};
	}
	(void)snprintf(size->figures[0], sizeof(size->figures[0]),
		"ratio_put_%s_each_to_batch", size->name);
	(void)snprintf(size->figures[1], sizeof(size->figures[1]), "ratio_put_64x%s",
		size->name);
	(void)snprintf(size->figures[2], sizeof(size->figures[2]), "ratio_get_into_64x%s",
		size->name);
	(void)snprintf(size->copies_name, sizeof(size->copies_name), "64x%s", size->name);
	copies_init(&size->copies, size->copies_name, size->bytes * BATCH_COUNT);
	size->copies.to = bench->run.data;
	size->copies.from = bench->source;
	size->copies.span = BATCH_BUFFER;
}

static int batch_begin(struct batch_bench *bench)
{
	char text[MICRO_KEY_SIZE + 1];
	int err;

	bench->source = touched_new(BATCH_BUFFER);
	bench->target = touched_new(BATCH_BUFFER);
	if (bench->source == NULL || bench->target == NULL ||
		micro_touch_pool(bench->micro) != TOOL_OK)
		return TOOL_FAILED;
	for (unsigned i = 0; i < BATCH_COUNT; i++)
		bench->keys[i] = micro_key(bench->text[i], "batch", i);
	err = cenote_create(bench->micro->store, micro_key(text, "run", 0), BATCH_BUFFER,
		NULL, &bench->run);
	if (err != 0)
		return micro_failed("bench: create", err);
	memset(bench->run.data, 1, BATCH_BUFFER);
	return TOOL_OK;
}

static void batch_end(struct batch_bench *bench)
{
	if (bench->run.data != NULL)
		(void)cenote_abort(bench->micro->store, &bench->run);
	touched_free(bench->source, BATCH_BUFFER);
	touched_free(bench->target, BATCH_BUFFER);
	for (int i = 0; i < BATCH_SIZES; i++) {
		copies_fini(&bench->sizes[i].copies);
		for (int kind = 0; kind < BATCH_KINDS; kind++)
			series_fini(&bench->sizes[i].series[kind]);
	}
}

int bench_batch(struct micro *micro)
{
	struct batch_bench bench = {.micro = micro,
		.sizes = {{.name = "1k", .bytes = 1u << 10, .rounds = 100},
			{.name = "4k", .bytes = 4u << 10, .rounds = 100},
			{.name = "64k", .bytes = 64u << 10, .rounds = 40},
			{.name = "1m", .bytes = 1u << 20, .rounds = 8}}};
	int exit_code = batch_begin(&bench);

	result_note(&micro->result,
		"Times are of one object of 64; 'each' is a call for each object. The "
		"copies go into the pool.");
	for (int i = 0; i < BATCH_SIZES; i++) {
		batch_name(&bench, &bench.sizes[i]);
		copies_row(&bench.sizes[i].copies, micro);
		for (int kind = 0; kind < BATCH_KINDS; kind++)
			result_row(&micro->result, &bench.sizes[i].series[kind]);
	}
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++) {
		for (int i = 0; i < BATCH_SIZES && exit_code == TOOL_OK; i++)
			exit_code = batch_run(&bench, &bench.sizes[i]);
	}
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	batch_end(&bench);
	return exit_code;
}
