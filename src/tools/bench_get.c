/*
 * bench_get.c - copying gets of objects of the pool into a buffer of the caller.
 *
 * Objects and buffer are larger than the caches; the raw copies read the same objects,
 * held in place, and write the same buffer.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

#define GET_RING 64u /* objects of 1 MiB */
#define GET_4K   4096u
#define GET_1M   (1u << 20)
#define GET_64M  (64u << 20)

struct get_bench {
	struct micro *micro;
	unsigned char *buffer; /* GET_64M bytes */
	uint64_t buffer_at;
	struct cenote_view views[2]; /* the object of 64 MiB and one of 4 KiB */
	struct copies copies_1m, copies_64m;
	struct series copy_4k, get_4k, get_1m, get_64m;
	uint64_t next;
};

static int get_put(
	struct get_bench *bench, const char *prefix, uint64_t count, uint64_t size)
{
	const struct cenote_put_options options = {.softpin = true};
	char text[MICRO_KEY_SIZE + 1];
	int err = 0;

	for (uint64_t i = 0; i < count && err == 0; i++)
		err = cenote_put(bench->micro->store, micro_key(text, prefix, i),
			bench->buffer, size, &options);
	return err == 0 ? TOOL_OK : micro_failed("bench: put", err);
}

static int get_one(struct get_bench *bench, const char *prefix, uint64_t number,
	uint64_t size, struct series *series)
{
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, prefix, number);
	uint64_t got = 0, start_ns;
	unsigned char *to;
	int err;

	if (bench->buffer_at + size > GET_64M)
		bench->buffer_at = 0;
	to = bench->buffer + bench->buffer_at;
	bench->buffer_at += size;
	start_ns = tool_now_ns();
	err = cenote_get_into(bench->micro->store, key, to, size, NULL, &got);
	if (err != 0 || got != size)
		return micro_failed("bench: get_into", err);
	series_add(series, (double)(tool_now_ns() - start_ns));
	return TOOL_OK;
}

/* ---- rounds -------------------------------------------------------------- */

static int get_round_4k(struct get_bench *bench)
{
	series_add(&bench->copy_4k, (double)copy_timed(COPY_MEMCPY, bench->buffer,
					    bench->views[1].data, GET_4K));
	bench->buffer_at = 0;
	return get_one(bench, "small", 0, GET_4K, &bench->get_4k);
}

static int get_round_1m(struct get_bench *bench)
{
	copies_make(&bench->copies_1m, GET_1M);
	return get_one(bench, "ring", bench->next++ % GET_RING, GET_1M, &bench->get_1m);
}

static int get_round_64m(struct get_bench *bench)
{
	copies_make(&bench->copies_64m, GET_64M);
	return get_one(bench, "large", 0, GET_64M, &bench->get_64m);
}

static int get_rounds(
	struct get_bench *bench, uint32_t full, int (*round)(struct get_bench *))
{
	uint32_t rounds = micro_rounds(bench->micro, full);
	int exit_code = TOOL_OK;

	for (uint32_t i = 0; i < rounds && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED : round(bench);
	return exit_code;
}

static int get_run(struct get_bench *bench)
{
	struct bench_result *result = &bench->micro->result;
	int exit_code = get_rounds(bench, 2000, get_round_4k);

	if (exit_code == TOOL_OK)
		exit_code = get_rounds(bench, 256, get_round_1m);
	if (exit_code == TOOL_OK)
		exit_code = get_rounds(bench, 10, get_round_64m);
	if (exit_code != TOOL_OK)
		return exit_code;
	result_figure(result, "ratio_4k",
		series_end_run(&bench->copy_4k) / series_end_run(&bench->get_4k));
	result_aimed(result, "ratio_1m",
		copies_end_run(&bench->copies_1m) / series_end_run(&bench->get_1m),
		AIM_AT_LEAST, 0.85);
	result_aimed(result, "ratio_64m",
		copies_end_run(&bench->copies_64m) / series_end_run(&bench->get_64m),
		AIM_AT_LEAST, 0.85);
	return TOOL_OK;
}

/* ---- the bench ----------------------------------------------------------- */

static int get_view(struct get_bench *bench, const char *prefix, struct cenote_view *ret)
{
	char text[MICRO_KEY_SIZE + 1];
	int err = cenote_get(bench->micro->store, micro_key(text, prefix, 0), NULL, ret);

	return err == 0 ? TOOL_OK : micro_failed("bench: get", err);
}

static int get_begin(struct get_bench *bench)
{
	int exit_code = TOOL_FAILED;

	copies_init(&bench->copies_1m, "1m", GET_1M);
	copies_init(&bench->copies_64m, "64m", GET_64M);
	bench->copy_4k = (struct series){.name = "memcpy_4k", .bytes = GET_4K};
	bench->get_4k = (struct series){.name = "get_into_4k", .bytes = GET_4K};
	bench->get_1m = (struct series){.name = "get_into_1m", .bytes = GET_1M};
	bench->get_64m = (struct series){.name = "get_into_64m", .bytes = GET_64M};
	bench->buffer = touched_new(GET_64M);
	if (bench->buffer != NULL)
		exit_code = micro_touch_pool(bench->micro);
	if (exit_code == TOOL_OK)
		exit_code = get_put(bench, "small", 1, GET_4K);
	if (exit_code == TOOL_OK)
		exit_code = get_put(bench, "ring", GET_RING, GET_1M);
	if (exit_code == TOOL_OK)
		exit_code = get_put(bench, "large", 1, GET_64M);
	if (exit_code == TOOL_OK)
		exit_code = get_view(bench, "large", &bench->views[0]);
	if (exit_code == TOOL_OK)
		exit_code = get_view(bench, "small", &bench->views[1]);
	bench->copies_1m.from = bench->copies_64m.from = bench->views[0].data;
	bench->copies_1m.to = bench->copies_64m.to = bench->buffer;
	bench->copies_1m.span = bench->copies_64m.span = GET_64M;
	return exit_code;
}

static void get_end(struct get_bench *bench)
{
	char text[MICRO_KEY_SIZE + 1];

	for (int i = 0; i < 2; i++) {
		if (bench->views[i].data != NULL)
			(void)cenote_release(bench->micro->store, &bench->views[i]);
	}
	for (uint64_t i = 0; i < GET_RING; i++)
		(void)cenote_remove(bench->micro->store, micro_key(text, "ring", i));
	(void)cenote_remove(bench->micro->store, micro_key(text, "large", 0));
	(void)cenote_remove(bench->micro->store, micro_key(text, "small", 0));
	touched_free(bench->buffer, GET_64M);
}

int bench_get(struct micro *micro)
{
	struct get_bench bench = {.micro = micro};
	struct series *list[] = {
		&bench.copy_4k, &bench.get_4k, &bench.get_1m, &bench.get_64m};
	int exit_code;

	result_note(&micro->result, "get_into a buffer whose pages were touched, as "
				    "those of the pool; 1m and "
				    "64m are in no cache, 4k is.");
	result_note(&micro->result, "ratios: copy / get_into.");
	exit_code = get_begin(&bench);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = get_run(&bench);
	copies_row(&bench.copies_1m, micro);
	copies_row(&bench.copies_64m, micro);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		result_row(&micro->result, list[i]);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	get_end(&bench);
	copies_fini(&bench.copies_1m);
	copies_fini(&bench.copies_64m);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		series_fini(list[i]);
	return exit_code;
}
