/*
 * bench_hit.c - get and release of objects that are there: time, system calls, and what
 * other clients cost.
 */
#include "tools/bench_crowd.h"
#include "tools/bench_filter.h"
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "wire/msg.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIT_FEW      1000u
#define HIT_MANY     100000u
#define HIT_BLOCK    100u  /* hits that are timed together */
#define HIT_BLOCKS   4000u /* in a run */
#define HIT_ROUNDS   2000u /* round trips in a run */
#define HIT_SLICE    50u   /* blocks, and round trips, between two changes */
#define HIT_BYTES    64u
#define HIT_BATCH    64u
#define HIT_COUNTED  100000u /* hits under the filter */
#define CROWD_BLOCKS 400u
#define CROWD_HITS   1000u

/* ---- the objects --------------------------------------------------------- */

bool hit_set_init(struct hit_set *set, uint32_t count, uint64_t seed)
{
	char text[MICRO_KEY_SIZE + 1];
	struct rng rng;

	*set = (struct hit_set){
		.keys = malloc((size_t)count * MICRO_KEY_SIZE), .count = count};
	if (set->keys == NULL) {
		tool_complain("bench: no memory for %u keys", count);
		return false;
	}
	/* Shuffled here, so that a run reads the keys in line and the objects at random.
	 */
	rng_init(&rng, seed);
	for (uint32_t i = 0; i < count; i++) {
		size_t at = (size_t)rng_below(&rng, i + 1) * MICRO_KEY_SIZE;

		memcpy(set->keys + (size_t)i * MICRO_KEY_SIZE, set->keys + at,
			MICRO_KEY_SIZE);
		(void)micro_key(text, "hit", i);
		memcpy(set->keys + at, text, MICRO_KEY_SIZE);
	}
	return true;
}

void hit_set_fini(struct hit_set *set)
{
	free(set->keys);
	set->keys = NULL;
}

int hit_some(struct cenote *store, struct hit_set *set, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct cenote_key key = {
			.data = set->keys + (size_t)set->at * MICRO_KEY_SIZE,
			.size = MICRO_KEY_SIZE};
		struct cenote_view view;
		int err = cenote_get(store, key, NULL, &view);

		if (err == 0)
			err = cenote_release(store, &view);
		if (err != 0)
			return err;
		set->at = set->at + 1 == set->count ? 0 : set->at + 1;
	}
	return 0;
}

/* Keys of a batch of the numbers from `from` on. */
struct hit_keys {
	char text[HIT_BATCH][MICRO_KEY_SIZE + 1];
	struct cenote_key keys[HIT_BATCH];
	uint32_t count;
};

static void hit_keys_make(struct hit_keys *keys, uint64_t from, uint64_t to)
{
	keys->count = (uint32_t)MIN(to - from, (uint64_t)HIT_BATCH);
	for (uint32_t i = 0; i < keys->count; i++)
		keys->keys[i] = micro_key(keys->text[i], "hit", from + i);
}

int hit_put(struct cenote *store, uint64_t from, uint64_t to)
{
	static const char value[HIT_BYTES];
	const struct cenote_part part = {.data = value, .size = sizeof(value)};
	const struct cenote_put_options options = {.softpin = true};
	struct cenote_put_item items[HIT_BATCH];
	struct hit_keys keys;

	for (; from < to; from += keys.count) {
		hit_keys_make(&keys, from, to);
		for (uint32_t i = 0; i < keys.count; i++)
			items[i] = (struct cenote_put_item){
				.key = keys.keys[i], .parts = &part, .count = 1};
		if (cenote_put_batch(store, items, keys.count, &options) == 0)
			continue;
		for (uint32_t i = 0; i < keys.count; i++) {
			if (items[i].result != 0)
				return items[i].result;
		}
	}
	return 0;
}

int hit_remove(struct cenote *store, uint64_t from, uint64_t to)
{
	struct cenote_key_item items[HIT_BATCH];
	struct hit_keys keys;

	for (; from < to; from += keys.count) {
		hit_keys_make(&keys, from, to);
		for (uint32_t i = 0; i < keys.count; i++)
			items[i] = (struct cenote_key_item){.key = keys.keys[i]};
		if (cenote_remove_batch(store, items, keys.count) > 0)
			return items[0].result != 0 ? items[0].result
						    : CENOTE_ERR_INTERNAL;
	}
	return 0;
}

/* ---- beside a round trip ------------------------------------------------- */

struct hit_times {
	struct series hit, trip;
	char hit_name[24], trip_name[24];
	const char *figure;
	double at_least;
};

/* The question for a key, and its answer, as the store would send them on a miss. */
static void hit_message_sizes(size_t *ret_request, size_t *ret_answer)
{
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, "hit", 0);
	struct msg_get get = {.key = {.data = key.data, .size = key.size}};
	struct msg_found found = {.slot = 0};
	unsigned char buffer[256];

	*ret_request = msg_get_encode(buffer, sizeof(buffer), &get);
	*ret_answer = msg_found_encode(buffer, sizeof(buffer), &found);
}

static int hit_slice(struct micro *micro, struct hit_set *set, struct hit_times *times,
	uint32_t blocks, uint32_t trips)
{
	size_t request, answer;

	hit_message_sizes(&request, &answer);
	for (uint32_t i = 0; i < trips; i++) {
		uint64_t ns = echo_round(&micro->echo, request, answer);

		if (ns == 0)
			return TOOL_FAILED;
		series_add(&times->trip, (double)ns);
	}
	for (uint32_t i = 0; i < blocks; i++) {
		uint64_t start_ns = tool_now_ns();
		int err = hit_some(micro->store, set, HIT_BLOCK);

		if (err != 0)
			return micro_failed("bench: get", err);
		series_add(&times->hit, (double)(tool_now_ns() - start_ns) / HIT_BLOCK);
	}
	return TOOL_OK;
}

static int hit_run(struct micro *micro, struct hit_set *set, struct hit_times *times)
{
	uint32_t blocks = micro_rounds(micro, HIT_BLOCKS);
	uint32_t trips = micro_rounds(micro, HIT_ROUNDS);
	uint32_t slices = MAX(blocks, trips) / HIT_SLICE;
	int exit_code = TOOL_OK;
	double hit, trip;

	for (uint32_t i = 0; i < slices && exit_code == TOOL_OK; i++)
		exit_code = interrupt_came() ? TOOL_FAILED
					     : hit_slice(micro, set, times,
						       blocks / slices, trips / slices);
	trip = series_end_run(&times->trip);
	hit = series_end_run(&times->hit);
	if (exit_code == TOOL_OK)
		result_aimed(&micro->result, times->figure, trip / hit, AIM_AT_LEAST,
			times->at_least);
	return exit_code;
}

/* All runs at one number of objects, after one pass that warms up. */
static int hit_measure(struct micro *micro, uint32_t objects, struct hit_times *times)
{
	struct hit_set set;
	int exit_code = TOOL_OK, err;

	if (!hit_set_init(&set, objects, objects))
		return TOOL_FAILED;
	err = hit_some(micro->store, &set, objects);
	if (err != 0)
		exit_code = micro_failed("bench: get", err);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = hit_run(micro, &set, times);
	hit_set_fini(&set);
	result_row(&micro->result, &times->trip);
	result_row(&micro->result, &times->hit);
	return exit_code;
}

static int hit_put_and_measure(
	struct micro *micro, uint32_t from, uint32_t to, struct hit_times *times)
{
	int err = hit_put(micro->store, from, to);

	times->hit.name = times->hit_name;
	times->trip.name = times->trip_name;
	(void)snprintf(times->hit_name, sizeof(times->hit_name), "hit_%uk", to / 1000);
	(void)snprintf(
		times->trip_name, sizeof(times->trip_name), "round_trip_%uk", to / 1000);
	return err != 0 ? micro_failed("bench: put", err) : hit_measure(micro, to, times);
}

/* ---- system calls -------------------------------------------------------- */

struct hit_counted {
	const char *socket;
	struct cenote *store;
	struct hit_set set;
};

static int counted_prepare(void *arg)
{
	struct hit_counted *counted = arg;
	struct cenote_connect_options options = {.socket_path = counted->socket};
	int err = cenote_connect(&counted->store, &options);

	if (err == 0)
		err = hit_some(counted->store, &counted->set, counted->set.count);
	return err == 0 ? 0 : micro_failed("bench: get", err);
}

static int counted_work(void *arg)
{
	struct hit_counted *counted = arg;

	return hit_some(counted->store, &counted->set, HIT_COUNTED);
}

static int hit_count_calls(struct micro *micro)
{
	struct hit_counted counted = {.socket = micro->socket};
	const struct filter_work work = {counted_prepare, counted_work, &counted};
	struct filter_count count;
	int exit_code;

	if (!hit_set_init(&counted.set, HIT_FEW, 1))
		return TOOL_FAILED;
	exit_code = filter_run(&work, &count);
	hit_set_fini(&counted.set);
	if (exit_code != TOOL_OK)
		return exit_code;
	if (count.calls > 0)
		tool_complain("bench: %llu system calls in %u hits; the first was "
			      "number %lld",
			(unsigned long long)count.calls, HIT_COUNTED,
			(long long)count.first);
	else if (count.result != 0)
		return micro_failed("bench: get under the filter", count.result);
	result_aimed(&micro->result, "syscalls_per_hit",
		(double)count.calls / HIT_COUNTED, AIM_AT_MOST, 0);
	return TOOL_OK;
}

/* ---- attached clients ---------------------------------------------------- */

struct hit_crowd {
	struct series times;
	char name[32];
	uint32_t clients; /* attached in all, this process among them */
};

/* CPU time of a hit, the mean of the two processes that run. */
static int crowd_measure(struct micro *micro, struct crowd *crowd, struct hit_set *set,
	struct hit_crowd *at, double *ret_ns)
{
	uint32_t blocks = micro_rounds(micro, CROWD_BLOCKS);
	bool has_other = at->clients > 1;
	double other = 0;
	int err = 0;

	if (crowd_grow(crowd, at->clients - 1) != TOOL_OK)
		return TOOL_FAILED;
	if (has_other && crowd_run(crowd) != TOOL_OK)
		return TOOL_FAILED;
	for (uint32_t i = 0; i < blocks && err == 0; i++) {
		uint64_t start_ns = crowd_cpu_ns();

		err = hit_some(micro->store, set, CROWD_HITS);
		series_add(&at->times, (double)(crowd_cpu_ns() - start_ns) / CROWD_HITS);
	}
	if (has_other)
		other = crowd_stop(crowd);
	if (err != 0)
		return micro_failed("bench: get", err);
	if (has_other && other == 0)
		return TOOL_FAILED;
	*ret_ns = series_end_run(&at->times);
	if (has_other)
		*ret_ns = (*ret_ns + other) / 2;
	return TOOL_OK;
}

static int hit_crowd_run(struct micro *micro, struct crowd *crowd, struct hit_set *set,
	struct hit_crowd *at)
{
	double ns[3];
	int exit_code = TOOL_OK;

	for (uint32_t i = 0; i < 3 && exit_code == TOOL_OK; i++)
		exit_code = crowd_measure(micro, crowd, set, &at[i], &ns[i]);
	crowd_end(crowd);
	if (exit_code != TOOL_OK)
		return exit_code;
	result_figure(&micro->result, "hit_cpu_ns_1_client", ns[0]);
	result_figure(&micro->result, "hit_cpu_ns_8_clients", ns[1]);
	result_figure(&micro->result, "hit_cpu_ns_64_clients", ns[2]);
	result_figure(&micro->result, "ratio_hit_8_to_1_clients", ns[1] / ns[0]);
	result_aimed(&micro->result, "ratio_hit_64_to_1_clients", ns[2] / ns[0],
		AIM_AT_MOST, 1.5);
	return TOOL_OK;
}

static int hit_crowds(struct micro *micro, struct hit_crowd *at)
{
	struct crowd crowd;
	struct hit_set set;
	int exit_code;

	if (!hit_set_init(&set, HIT_FEW, 7))
		return TOOL_FAILED;
	exit_code = crowd_init(&crowd, micro->socket, micro->other_cpu, HIT_FEW);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = interrupt_came() ? TOOL_FAILED
					     : hit_crowd_run(micro, &crowd, &set, at);
	crowd_fini(&crowd);
	hit_set_fini(&set);
	for (uint32_t i = 0; i < 3; i++)
		result_row(&micro->result, &at[i].times);
	return exit_code;
}

/* ---- the bench ----------------------------------------------------------- */

static int hit_all(struct micro *micro, struct hit_times *few, struct hit_times *many,
	struct hit_crowd *at)
{
	int exit_code = hit_put_and_measure(micro, 0, HIT_FEW, few);

	if (exit_code == TOOL_OK)
		exit_code = hit_count_calls(micro);
	if (exit_code == TOOL_OK)
		exit_code = hit_crowds(micro, at);
	if (exit_code == TOOL_OK)
		exit_code = hit_put_and_measure(micro, HIT_FEW, HIT_MANY, many);
	return exit_code;
}

int bench_hit(struct micro *micro)
{
	struct hit_times few = {.figure = "ratio_rtt_to_hit_1k", .at_least = 200};
	struct hit_times many = {.figure = "ratio_rtt_to_hit_100k", .at_least = 30};
	struct hit_crowd at[3] = {{.clients = 1}, {.clients = 8}, {.clients = 64}};
	int exit_code;

	for (int i = 0; i < 3; i++) {
		(void)snprintf(at[i].name, sizeof(at[i].name), "hit_cpu_%u_client%s",
			at[i].clients, i == 0 ? "" : "s");
		at[i].times.name = at[i].name;
	}
	result_note(&micro->result,
		"A hit is get and release under a 32-byte key, at random; 100 are timed "
		"together.");
	result_note(&micro->result,
		"With 8 and 64 clients attached two hit at once, on two CPUs where there "
		"are.");
	exit_code = hit_all(micro, &few, &many, at);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	(void)hit_remove(micro->store, 0, HIT_MANY);
	series_fini(&few.hit);
	series_fini(&few.trip);
	series_fini(&many.hit);
	series_fini(&many.trip);
	for (int i = 0; i < 3; i++)
		series_fini(&at[i].times);
	return exit_code;
}
