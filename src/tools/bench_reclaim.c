/*
 * bench_reclaim.c - what reclaim does when leases keep the pool.
 *
 * Objects of 1 MiB are put at 1.1 times the rate at which leases, if they all run to their
 * end, let go of the pool; each is leased once as soon as it is there. In the first part
 * each lease is released when its transfer has ended, a thirtieth of its length later; in the
 * second they run out by themselves, so that puts wait for them all the time. What reclaim
 * examined and freed is taken from the node's counters, from the moment at which the pool is
 * full. One thread puts, since where several wait, an object would go for the next of them
 * before its lease can come. Meanwhile another asks for the existence of keys all the time,
 * which must protect nothing.
 *
 * In the third part all of the pool is under leases that outlast it, and one put waits: one
 * lease is released, and the time is taken until the put has its room.
 *
 * The length of the leases is a setting. Rate and transfers scale with it, so what is in the
 * pool, and under which leases, is the same for any length; only the node's own periods
 * (100 ms, 1 s) are not scaled.
 */
#include "tools/bench_reclaim.h"
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "tools/stats.h"

#include "base/attr.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RECLAIM_PROBE_NS 10000000 /* 14 questions in each: 1,400 a second */
#define RECLAIM_PROBES   14u
#define RECLAIM_EMPTY_NS 40000000000ull

/* ---- the node ------------------------------------------------------------ */

static int counts_read(struct micro *micro, struct reclaim_counts *ret)
{
	char *text = micro_stats(micro);
	bool good;

	if (text == NULL)
		return TOOL_FAILED;
	good = stats_u64(text, "counters.examined", &ret->examined) &&
	       stats_u64(text, "counters.freed", &ret->freed) &&
	       stats_u64(text, "counters.scans", &ret->scans) &&
	       stats_u64(text, "counters.scans_that_freed", &ret->scans_that_freed) &&
	       stats_u64(text, "counters.waits_room", &ret->waits) &&
	       stats_u64(text, "pool.free", &ret->free) &&
	       stats_u64(text, "pool.size", &ret->size);
	cenote_free(text);
	if (!good)
		tool_complain("bench: the daemon's statistics lack reclaim's counters");
	return good ? TOOL_OK : TOOL_FAILED;
}

int reclaim_waits(struct micro *micro, uint64_t *ret)
{
	struct reclaim_counts counts;
	int exit_code = counts_read(micro, &counts);

	*ret = counts.waits;
	return exit_code;
}

void reclaim_pause(uint64_t when_ns)
{
	uint64_t now = tool_now_ns();
	struct timespec pause;

	if (when_ns <= now)
		return;
	pause = (struct timespec){.tv_sec = (time_t)((when_ns - now) / 1000000000),
		.tv_nsec = (long)((when_ns - now) % 1000000000)};
	(void)nanosleep(&pause, NULL);
}

/* ---- one part ------------------------------------------------------------ */

static void part_failed(struct reclaim_part *part, const char *verb, int err)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&part->err, &none, err))
		(void)micro_failed(verb, err);
}

/* One put, its lease, and the note of it for who releases. */
static void part_put(struct reclaim_part *part, uint32_t number)
{
	const struct cenote_put_options options = {.timeout_ms = CENOTE_FOREVER};
	struct reclaim_put *put = &part->puts[number];
	struct cenote *store = part->bench->micro->store;
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, part->name, number);
	uint64_t start_ns = tool_now_ns();
	int err = cenote_put(store, key, part->bench->source, RECLAIM_SIZE, &options);

	put->took_ns = tool_now_ns() - start_ns;
	if (err != 0) {
		part_failed(part, "bench: put", err);
		return;
	}
	err = cenote_lease(store, key, part->bench->lease_ms, &put->lease);
	put->release_ns = tool_now_ns() +
			  (uint64_t)part->bench->lease_ms * 1000000 / RECLAIM_TRANSFER;
	if (err == CENOTE_ERR_NOT_FOUND)
		atomic_fetch_add(&part->unleased, 1);
	else if (err != 0)
		part_failed(part, "bench: lease", err);
	atomic_store(&put->state, err == 0 ? PUT_LEASED : PUT_UNLEASED);
}

static bool part_is_over(const struct reclaim_part *part)
{
	return atomic_load(&part->err) != 0 || interrupt_came();
}

/* Put number n is due n intervals after the start, however late those before were. */
static void *part_write(void *arg)
{
	struct reclaim_part *part = arg;

	for (uint32_t number = 0; number < part->count && !part_is_over(part); number++) {
		reclaim_pause(part->start_ns + number * part->interval_ns);
		part_put(part, number);
		atomic_store(&part->done, number + 1);
	}
	return NULL;
}

/* The transfers end in the order in which they began, more or less. */
static void *part_release(void *arg)
{
	struct reclaim_part *part = arg;

	for (uint32_t at = 0; at < part->count && !part_is_over(part);) {
		struct reclaim_put *put = &part->puts[at];
		int state = atomic_load(&put->state);
		int err;

		if (state == PUT_NOT_YET) {
			reclaim_pause(tool_now_ns() + 1000000);
			continue;
		}
		at++;
		if (state == PUT_UNLEASED)
			continue;
		reclaim_pause(put->release_ns);
		err = cenote_lease_release(part->bench->micro->store, &put->lease);
		if (err != 0)
			part_failed(part, "bench: release of a lease", err);
	}
	return NULL;
}

static void *part_probe(void *arg)
{
	struct reclaim_part *part = arg;
	uint64_t at = 0;

	while (!atomic_load(&part->ended)) {
		uint32_t known = atomic_load(&part->done);

		for (uint32_t i = 0; i < RECLAIM_PROBES && known > 0; i++) {
			char text[MICRO_KEY_SIZE + 1];

			(void)cenote_exists(part->bench->micro->store,
				micro_key(text, part->name, at++ % known));
		}
		reclaim_pause(tool_now_ns() + RECLAIM_PROBE_NS);
	}
	return NULL;
}

/* Until so many puts are done. */
static void part_wait(struct reclaim_part *part, uint32_t count)
{
	while (atomic_load(&part->done) < count && !part_is_over(part))
		reclaim_pause(tool_now_ns() + 1000000);
}

static void part_start(struct reclaim_part *part, pthread_t *thread, void *(*run)(void *))
{
	if (pthread_create(thread, NULL, run, part) == 0)
		return;
	/* The others could not be ended in order. */
	tool_complain("bench: no thread can be made");
	exit(TOOL_FAILED);
}

static int part_threads(struct reclaim_part *part, struct reclaim_counts *before,
	struct reclaim_counts *after)
{
	pthread_t writer, prober, releaser;
	int exit_code;

	part_start(part, &writer, part_write);
	part_start(part, &prober, part_probe);
	if (part->releases)
		part_start(part, &releaser, part_release);
	part_wait(part, part->warm);
	exit_code = counts_read(part->bench->micro, before);
	part_wait(part, part->count);
	if (exit_code == TOOL_OK)
		exit_code = counts_read(part->bench->micro, after);
	(void)pthread_join(writer, NULL);
	if (part->releases)
		(void)pthread_join(releaser, NULL);
	atomic_store(&part->ended, true);
	(void)pthread_join(prober, NULL);
	return part_is_over(part) ? TOOL_FAILED : exit_code;
}

/* What the counters came to; figures[] in the order of enum reclaim_figure. */
static void part_figures(struct reclaim_part *part, const struct reclaim_counts *before,
	const struct reclaim_counts *after)
{
	struct bench_result *result = &part->bench->micro->result;
	double freed = (double)(after->freed - before->freed);
	double scans = (double)(after->scans - before->scans);
	double puts = part->count - part->warm;

	result_aimed(result, part->figures[FIGURE_EXAMINED],
		(double)(after->examined - before->examined) / freed, AIM_AT_MOST,
		part->releases ? 1.05 : 2.5);
	result_aimed(result, part->figures[FIGURE_SCANS],
		(double)(after->scans_that_freed - before->scans_that_freed) / scans,
		AIM_AT_LEAST, part->releases ? 0.99 : 0.85);
	result_figure(result, part->figures[FIGURE_WAITED],
		(double)(after->waits - before->waits) / puts);
	result_figure(result, part->figures[FIGURE_UNLEASED],
		atomic_load(&part->unleased) / (double)part->count);
	for (uint32_t i = part->warm; i < part->count; i++)
		series_add(part->series, (double)part->puts[i].took_ns);
	(void)series_end_run(part->series);
}

static void part_clean(struct reclaim_part *part)
{
	for (uint32_t i = 0; i < part->count; i++) {
		char text[MICRO_KEY_SIZE + 1];

		(void)cenote_remove(
			part->bench->micro->store, micro_key(text, part->name, i));
	}
}

/* Until the pool is empty: what was removed stays as long as its lease. */
int reclaim_wait_empty(struct reclaim_bench *bench)
{
	uint64_t end_ns = tool_now_ns() + RECLAIM_EMPTY_NS;
	struct reclaim_counts counts;

	do {
		if (counts_read(bench->micro, &counts) != TOOL_OK)
			return TOOL_FAILED;
		if (counts.free == bench->free_bytes)
			return TOOL_OK;
		reclaim_pause(tool_now_ns() + 10000000);
	} while (tool_now_ns() < end_ns && !interrupt_came());
	tool_complain("bench: %" PRIu64 " bytes of the pool are in use after all objects "
		      "were removed",
		bench->free_bytes - counts.free);
	return TOOL_FAILED;
}

static int part_run(struct reclaim_bench *bench, bool releases)
{
	struct reclaim_part part = {
		.bench = bench,
		.releases = releases,
		.name = releases ? "release" : "ttl",
		.figures = releases ? bench->release_names : bench->ttl_names,
		.series = releases ? &bench->put_release : &bench->put_ttl,
		.warm = bench->capacity + bench->capacity / 4,
		.count = bench->capacity * (bench->micro->options->quick ? 2 : 3),
		/* Nine tenths and a bit: 1.1 times as fast as leases end. */
		.interval_ns = (uint64_t)bench->lease_ms * 1000000 * 10 /
			       (11ull * bench->capacity),
		.start_ns = tool_now_ns(),
	};
	struct reclaim_counts before, after;
	int exit_code;

	part.puts = calloc(part.count, sizeof(*part.puts));
	if (part.puts == NULL) {
		tool_complain("bench: no memory for %" PRIu32 " puts", part.count);
		return TOOL_FAILED;
	}
	exit_code = part_threads(&part, &before, &after);
	if (exit_code == TOOL_OK)
		part_figures(&part, &before, &after);
	part_clean(&part);
	free(part.puts);
	return exit_code == TOOL_OK ? reclaim_wait_empty(bench) : exit_code;
}

/* ---- the bench ----------------------------------------------------------- */

/* How many objects the pool has room for: by the room that one of them takes. */
static int reclaim_measure(struct reclaim_bench *bench)
{
	struct reclaim_counts empty, one;
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, "one", 0);
	int exit_code = counts_read(bench->micro, &empty);
	int err;

	if (exit_code != TOOL_OK)
		return exit_code;
	if (empty.free != empty.size) {
		tool_complain("bench: reclaim needs an empty node, this one has %" PRIu64
			      " bytes in use",
			empty.size - empty.free);
		return TOOL_FAILED;
	}
	err = cenote_put(bench->micro->store, key, bench->source, RECLAIM_SIZE, NULL);
	if (err != 0)
		return micro_failed("bench: put", err);
	exit_code = counts_read(bench->micro, &one);
	(void)cenote_remove(bench->micro->store, key);
	if (exit_code != TOOL_OK)
		return exit_code;
	bench->free_bytes = empty.free;
	bench->capacity = (uint32_t)(empty.free / (empty.free - one.free));
	return TOOL_OK;
}

static int reclaim_begin(struct reclaim_bench *bench)
{
	bench->source = touched_new(RECLAIM_SIZE);
	if (bench->source == NULL || micro_touch_pool(bench->micro) != TOOL_OK)
		return TOOL_FAILED;
	return reclaim_measure(bench);
}

static int reclaim_run(struct reclaim_bench *bench)
{
	int exit_code = part_run(bench, true);

	if (exit_code == TOOL_OK)
		exit_code = part_run(bench, false);
	if (exit_code == TOOL_OK)
		exit_code = reclaim_room_run(bench);
	return exit_code;
}

int bench_reclaim(struct micro *micro)
{
	struct reclaim_bench bench = {
		.micro = micro,
		.lease_ms = (int64_t)(micro->options->lease_ns / 1000000),
		.release_names = {"examined_per_freed_release",
			"scans_that_freed_release", "waited_release", "unleased_release"},
		.ttl_names = {"examined_per_freed_ttl", "scans_that_freed_ttl",
			"waited_ttl", "unleased_ttl"},
		.put_release = {.name = "put_release", .bytes = RECLAIM_SIZE},
		.put_ttl = {.name = "put_ttl", .bytes = RECLAIM_SIZE},
		.room = {.name = "room_after_release"},
		.trip = {.name = "round_trip"},
	};
	struct series *list[] = {
		&bench.put_release, &bench.put_ttl, &bench.room, &bench.trip};
	int exit_code;

	result_note(&micro->result,
		"1 MiB objects, each leased once; puts at 1.1 times the rate at which "
		"such leases let go of the pool.");
	result_note(&micro->result,
		"release: each lease is released after a thirtieth of its length; ttl: "
		"they run out by themselves.");
	exit_code = reclaim_begin(&bench);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = reclaim_run(&bench);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		result_row(&micro->result, list[i]);
	if (exit_code == TOOL_OK) {
		result_figure(&micro->result, "lease_ms", (double)bench.lease_ms);
		result_aimed(&micro->result, "room_after_release_p99_to_rtt_p99",
			series_percentile(&bench.room, 99) /
				series_percentile(&bench.trip, 99),
			AIM_AT_MOST, 10);
		exit_code = result_print(&micro->result, micro->options->json);
	}
	touched_free(bench.source, RECLAIM_SIZE);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		series_fini(list[i]);
	return exit_code;
}
