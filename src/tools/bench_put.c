/*
 * bench_put.c - puts of 4 KiB, 1 MiB and 64 MiB, in a batch and with 8 in flight.
 *
 * Objects come and go in a ring, the oldest removed before the next is put, so that they
 * lie where others lay before: no page is met for the first time. The caller's bytes come
 * from a buffer twice the ring's size, and the raw copies go to a run of the pool.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "wire/msg.h"

#include "base/attr.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUT_RING        64u /* objects of 1 MiB that live at once */
#define PUT_SOURCE      (128u << 20)
#define PUT_RUN         (64u << 20)
#define PUT_4K          4096u
#define PUT_1M          (1u << 20)
#define PUT_64M         (64u << 20)
#define PUT_SMALL_SLICE 32u
#define PUT_THREADS     8u
#define PUT_EACH        8u /* objects of a thread in one stream */

struct put_bench {
	struct micro *micro;
	unsigned char *source;
	uint64_t source_at;
	struct cenote_writer run; /* of the pool, where the raw copies go */
	struct copies copies_1m, copies_64m;
	struct series trip_4k, put_4k, trip_start, trip_end, put_1m, put_64m, batch,
		stream;
	uint64_t next; /* number of the next object of the ring */
	uint64_t next_4k, next_64m;
	size_t start_size, started_size, end_size, done_size, small_size;
};

static const struct cenote_put_options put_options = {.softpin = true};

/* ---- sizes of the messages ----------------------------------------------- */

static void put_message_sizes(struct put_bench *bench)
{
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, "put", 0);
	struct msg_put put = {.key = {.data = key.data, .size = key.size},
		.value = {.data = bench->source, .size = PUT_4K}};
	struct msg_put_start start = {.key = put.key};
	struct msg_put_started started = {.slot = 0};
	struct msg_put_end end = {.slot = 0};
	struct msg_done done = {.generation = 0};
	unsigned char buffer[PUT_4K + 512];

	bench->small_size = msg_put_encode(buffer, sizeof(buffer), &put);
	bench->start_size = msg_put_start_encode(buffer, sizeof(buffer), &start);
	bench->started_size = msg_put_started_encode(buffer, sizeof(buffer), &started);
	bench->end_size = msg_put_end_encode(buffer, sizeof(buffer), &end);
	bench->done_size = msg_done_encode(buffer, sizeof(buffer), &done);
}

/* ---- one of each --------------------------------------------------------- */

static const unsigned char *put_source(struct put_bench *bench, uint64_t size)
{
	if (bench->source_at + size > PUT_SOURCE)
		bench->source_at = 0;
	bench->source_at += size;
	return bench->source + bench->source_at - size;
}

/* `series` NULL: not timed. */
static int put_one(struct put_bench *bench, const char *prefix, uint64_t number,
	uint64_t size, struct series *series)
{
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, prefix, number);
	const unsigned char *source = put_source(bench, size);
	uint64_t start_ns = tool_now_ns();
	int err = cenote_put(bench->micro->store, key, source, size, &put_options);

	if (series != NULL && err == 0)
		series_add(series, (double)(tool_now_ns() - start_ns));
	return err == 0 ? TOOL_OK : micro_failed("bench: put", err);
}

static int put_remove(struct put_bench *bench, const char *prefix, uint64_t number)
{
	char text[MICRO_KEY_SIZE + 1];
	int err = cenote_remove(bench->micro->store, micro_key(text, prefix, number));

	return err == 0 ? TOOL_OK : micro_failed("bench: remove", err);
}

/* The next object of a ring: the oldest goes, the newest comes. */
static int put_next(struct put_bench *bench, const char *prefix, uint64_t *next,
	uint64_t ring, uint64_t size, struct series *series)
{
	int exit_code = TOOL_OK;

	if (*next >= ring)
		exit_code = put_remove(bench, prefix, *next - ring);
	if (exit_code == TOOL_OK)
		exit_code = put_one(bench, prefix, *next, size, series);
	*next += exit_code == TOOL_OK;
	return exit_code;
}

static int put_trip(
	struct put_bench *bench, size_t request, size_t answer, struct series *series)
{
	uint64_t ns = echo_round(&bench->micro->echo, request, answer);

	if (ns == 0)
		return TOOL_FAILED;
	series_add(series, (double)ns);
	return TOOL_OK;
}

/* ---- 4 KiB --------------------------------------------------------------- */

static int put_slice_4k(struct put_bench *bench)
{
	int exit_code = TOOL_OK;

	for (unsigned i = 0; i < PUT_SMALL_SLICE && exit_code == TOOL_OK; i++)
		exit_code = put_trip(
			bench, bench->small_size, bench->done_size, &bench->trip_4k);
	for (unsigned i = 0; i < PUT_SMALL_SLICE && exit_code == TOOL_OK; i++) {
		exit_code = put_one(
			bench, "small", bench->next_4k + i, PUT_4K, &bench->put_4k);
	}
	for (unsigned i = 0; i < PUT_SMALL_SLICE && exit_code == TOOL_OK; i++)
		exit_code = put_remove(bench, "small", bench->next_4k + i);
	bench->next_4k += PUT_SMALL_SLICE;
	return exit_code;
}

/* ---- 1 MiB, 64 MiB ------------------------------------------------------- */

static int put_round_1m(struct put_bench *bench)
{
	int exit_code = put_trip(
		bench, bench->start_size, bench->started_size, &bench->trip_start);

	if (exit_code == TOOL_OK)
		exit_code = put_trip(
			bench, bench->end_size, bench->done_size, &bench->trip_end);
	copies_make(&bench->copies_1m, PUT_1M);
	if (exit_code == TOOL_OK)
		exit_code = put_next(
			bench, "ring", &bench->next, PUT_RING, PUT_1M, &bench->put_1m);
	return exit_code;
}

struct put_keys {
	char text[PUT_RING][MICRO_KEY_SIZE + 1];
};

static int put_batch(struct put_bench *bench)
{
	struct cenote_put_item items[PUT_RING];
	struct cenote_part parts[PUT_RING];
	struct put_keys keys;
	uint64_t start_ns;

	for (unsigned i = 0; i < PUT_RING; i++) {
		parts[i] = (struct cenote_part){put_source(bench, PUT_1M), PUT_1M};
		items[i] = (struct cenote_put_item){
			.key = micro_key(keys.text[i], "batch", i),
			.parts = &parts[i],
			.count = 1};
	}
	start_ns = tool_now_ns();
	if (cenote_put_batch(bench->micro->store, items, PUT_RING, &put_options) > 0) {
		for (unsigned i = 0; i < PUT_RING; i++) {
			if (items[i].result != 0)
				return micro_failed("bench: put_batch", items[i].result);
		}
	}
	series_add(&bench->batch, (double)(tool_now_ns() - start_ns));
	for (unsigned i = 0; i < PUT_RING; i++) {
		if (put_remove(bench, "batch", i) != TOOL_OK)
			return TOOL_FAILED;
	}
	return TOOL_OK;
}

static int put_round_64m(struct put_bench *bench)
{
	int exit_code = put_next(
		bench, "large", &bench->next_64m, 1, PUT_64M, &bench->put_64m);

	copies_make(&bench->copies_64m, PUT_64M);
	return exit_code == TOOL_OK ? put_batch(bench) : exit_code;
}

/* ---- a stream with 8 in flight ------------------------------------------- */

struct put_stream {
	struct put_bench *bench;
	pthread_barrier_t *barrier;
	unsigned number;
	int err;
	uint64_t start_ns, end_ns;
};

static void *put_stream_run(void *arg)
{
	struct put_stream *stream = arg;
	struct put_bench *bench = stream->bench;

	(void)pthread_barrier_wait(stream->barrier);
	stream->start_ns = tool_now_ns();
	for (unsigned i = 0; i < PUT_EACH && stream->err == 0; i++) {
		unsigned number = stream->number * PUT_EACH + i;
		char text[MICRO_KEY_SIZE + 1];

		stream->err = cenote_put(bench->micro->store,
			micro_key(text, "stream", number),
			bench->source + (size_t)number * PUT_1M, PUT_1M, &put_options);
	}
	stream->end_ns = tool_now_ns();
	return NULL;
}

/* From the first thread's start to the last one's end. */
static int put_stream_note(struct put_bench *bench, const struct put_stream *streams)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0;

	for (unsigned i = 0; i < PUT_THREADS; i++) {
		if (streams[i].err != 0)
			return streams[i].err;
		start_ns = MIN(start_ns, streams[i].start_ns);
		end_ns = MAX(end_ns, streams[i].end_ns);
	}
	series_add(&bench->stream, (double)(end_ns - start_ns) / PUT_RING);
	return 0;
}

/* Start the threads, and let them go at once. */
static int put_stream_threads(
	struct put_bench *bench, struct put_stream *streams, pthread_barrier_t *barrier)
{
	pthread_t threads[PUT_THREADS];

	for (unsigned i = 0; i < PUT_THREADS; i++) {
		streams[i] = (struct put_stream){
			.bench = bench, .barrier = barrier, .number = i};
		if (pthread_create(&threads[i], NULL, put_stream_run, &streams[i]) != 0) {
			/* The others wait at the barrier for good. */
			tool_complain("bench: no thread can be made");
			exit(TOOL_FAILED);
		}
	}
	for (unsigned i = 0; i < PUT_THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	return put_stream_note(bench, streams);
}

static int put_round_stream(struct put_bench *bench)
{
	struct put_stream streams[PUT_THREADS];
	pthread_barrier_t barrier;
	int exit_code = TOOL_OK, err;

	if (pthread_barrier_init(&barrier, NULL, PUT_THREADS) != 0)
		return TOOL_FAILED;
	err = put_stream_threads(bench, streams, &barrier);
	(void)pthread_barrier_destroy(&barrier);
	if (err != 0)
		return micro_failed("bench: put", err);
	for (unsigned i = 0; i < PUT_RING && exit_code == TOOL_OK; i++)
		exit_code = put_remove(bench, "stream", i);
	return exit_code;
}

/* ---- runs ---------------------------------------------------------------- */

static int put_rounds(
	struct put_bench *bench, uint32_t full, int (*round)(struct put_bench *))
{
	uint32_t rounds = micro_rounds(bench->micro, full);
	int exit_code = TOOL_OK;

	for (uint32_t i = 0; i < rounds && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED : round(bench);
	return exit_code;
}

static void put_end_run(struct put_bench *bench)
{
	struct bench_result *result = &bench->micro->result;
	double copy_1m = copies_end_run(&bench->copies_1m);
	double copy_64m = copies_end_run(&bench->copies_64m);
	double trips = series_end_run(&bench->trip_start) +
		       series_end_run(&bench->trip_end);

	result_aimed(result, "ratio_1m",
		(copy_1m + trips) / series_end_run(&bench->put_1m), AIM_AT_LEAST, 0.85);
	result_aimed(result, "ratio_64m", copy_64m / series_end_run(&bench->put_64m),
		AIM_AT_LEAST, 0.85);
	result_aimed(result, "ratio_batch_64x1m",
		copy_64m / series_end_run(&bench->batch), AIM_AT_LEAST, 0.85);
	result_aimed(result, "ratio_4k_to_rtt",
		series_end_run(&bench->put_4k) / series_end_run(&bench->trip_4k),
		AIM_AT_MOST, 1.3);
	result_aimed(result, "ratio_stream_8", copy_1m / series_end_run(&bench->stream),
		AIM_AT_LEAST, 0.75);
}

static int put_run(struct put_bench *bench)
{
	int exit_code = put_rounds(bench, 60, put_slice_4k);

	if (exit_code == TOOL_OK)
		exit_code = put_rounds(bench, 256, put_round_1m);
	if (exit_code == TOOL_OK)
		exit_code = put_rounds(bench, 16, put_round_64m);
	if (exit_code == TOOL_OK)
		exit_code = put_rounds(bench, 12, put_round_stream);
	return exit_code;
}

/* ---- the bench ----------------------------------------------------------- */

static void put_names(struct put_bench *bench)
{
	copies_init(&bench->copies_1m, "1m", PUT_1M);
	copies_init(&bench->copies_64m, "64m", PUT_64M);
	bench->trip_4k = (struct series){.name = "round_trip_4k"};
	bench->put_4k = (struct series){.name = "put_4k", .bytes = PUT_4K};
	bench->trip_start = (struct series){.name = "round_trip_start"};
	bench->trip_end = (struct series){.name = "round_trip_end"};
	bench->put_1m = (struct series){.name = "put_1m", .bytes = PUT_1M};
	bench->put_64m = (struct series){.name = "put_64m", .bytes = PUT_64M};
	bench->batch = (struct series){.name = "put_batch_64x1m", .bytes = PUT_64M};
	bench->stream = (struct series){.name = "put_1m_stream_8", .bytes = PUT_1M};
}

static struct series *const *put_series(struct put_bench *bench, struct series *list[8])
{
	struct series *all[8] = {&bench->trip_4k, &bench->put_4k, &bench->trip_start,
		&bench->trip_end, &bench->put_1m, &bench->put_64m, &bench->batch,
		&bench->stream};

	memcpy(list, all, sizeof(all));
	return list;
}

static int put_begin(struct put_bench *bench)
{
	char text[MICRO_KEY_SIZE + 1];
	int err;

	bench->source = touched_new(PUT_SOURCE);
	if (bench->source == NULL || micro_touch_pool(bench->micro) != TOOL_OK)
		return TOOL_FAILED;
	err = cenote_create(bench->micro->store, micro_key(text, "run", 0), PUT_RUN, NULL,
		&bench->run);
	if (err != 0)
		return micro_failed("bench: create", err);
	memset(bench->run.data, 1, PUT_RUN);
	bench->copies_1m.to = bench->copies_64m.to = bench->run.data;
	bench->copies_1m.from = bench->copies_64m.from = bench->source;
	bench->copies_1m.span = bench->copies_64m.span = PUT_RUN;
	put_message_sizes(bench);
	return TOOL_OK;
}

/* Objects of a ring that are still there. */
static void put_end(struct put_bench *bench)
{
	for (uint64_t i = 0; i < PUT_RING && i < bench->next; i++)
		(void)put_remove(bench, "ring", bench->next - 1 - i);
	if (bench->next_64m > 0)
		(void)put_remove(bench, "large", bench->next_64m - 1);
	if (bench->run.data != NULL)
		(void)cenote_abort(bench->micro->store, &bench->run);
	touched_free(bench->source, PUT_SOURCE);
}

int bench_put(struct micro *micro)
{
	struct put_bench bench = {.micro = micro};
	struct series *list[8];
	int exit_code;

	put_names(&bench);
	result_note(&micro->result, "Steady state: objects lie where others lay, all "
				    "pages were touched; what "
				    "is copied is in no cache.");
	result_note(&micro->result, "ratio_1m: (copy + two round trips) / put; "
				    "ratio_64m, batch, stream: copy "
				    "/ put; 4k: put / round trip.");
	exit_code = put_begin(&bench);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++) {
		exit_code = put_run(&bench);
		if (exit_code == TOOL_OK)
			put_end_run(&bench);
	}
	copies_row(&bench.copies_1m, micro);
	copies_row(&bench.copies_64m, micro);
	put_series(&bench, list);
	for (int i = 0; i < 8; i++)
		result_row(&micro->result, list[i]);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	put_end(&bench);
	copies_fini(&bench.copies_1m);
	copies_fini(&bench.copies_64m);
	for (int i = 0; i < 8; i++)
		series_fini(list[i]);
	return exit_code;
}
