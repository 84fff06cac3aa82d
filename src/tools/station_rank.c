/*
 * station_rank.c - what one rank does, step by step.
 *
 * All ranks walk the objects of a step in the same order, each putting its own and
 * reading what is its to read. A rank waits only for objects that stand before, so
 * somebody can always go on.
 *
 * Within a step: removals, which the marks of what is stored tell apart; then gets and puts, of
 * which those already made are counted. A process in the place of one that died walks the step
 * again and leaves out what was made. Only the call in which that one died may find its deed
 * already done.
 */
#include "tools/station_rank.h"

#include "tools/pattern.h"
#include "tools/station_log.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INLINE_SIZE   (64u << 10) /* up to here a put is one call; else two steps */
#define AWAY_TERM_NS  (60ull * 1000 * 1000 * 1000) /* so long a node may be away */
#define AGAIN_TERM_NS (50l * 1000 * 1000)          /* between two tries to attach to it */

struct ring_entry {
	struct station_object *objects;
	_Atomic bool *stored; /* of the rank's place */
	uint32_t count;
};

struct rank {
	const struct station_job *job;
	const struct station_plan *plan;
	struct station_tally *tally;
	struct cenote *store;
	uint32_t number;
	struct station_place *place;
	struct ring_entry ring[STATION_RING];
	char *buffer; /* of INLINE_SIZE bytes */
	uint32_t step;
	uint32_t made; /* gets and puts of this step, and those that were left out */
	bool redone;   /* the next call is one in which a process before this one died */
	struct station_log log;
};

/* The first one is kept for the report; a failed put rather than the gets that then wait
 * for its object in vain. */
static void rank_failed(struct rank *rank, const char *verb, const char *key, int error)
{
	struct station_shared *shared = rank->job->shared;
	struct station_tally *tally = rank->tally;
	bool is_put = strcmp(verb, "put") == 0;

	if (tally->first_error[0] == '\0' || (is_put && tally->failed_puts == 1))
		(void)snprintf(tally->first_error, STATION_ERROR_MAX,
			"rank %u: %s \"%s\": %s: %.200s", rank->number, verb, key,
			cenote_error_name(error), cenote_error_detail());
	/* Without a daemon every call would take its whole time to fail. */
	if (atomic_fetch_add(&shared->failures, 1) + 1 >= STATION_FAILURES_MAX ||
		error == CENOTE_ERR_UNAVAILABLE)
		station_barrier_stop(&shared->barrier);
}

static void rank_took(struct rank *rank, unsigned work, uint64_t start_ns)
{
	hist_add(&rank->tally->latency[work], tool_now_ns() - start_ns);
}

/* ---- the place ----------------------------------------------------------- */

/* Whether the call is made now; else another process has made it. */
static bool rank_begin(struct rank *rank)
{
	if (rank->made < (uint32_t)atomic_load(&rank->place->at)) {
		rank->made++;
		return false;
	}
	atomic_store(&rank->place->busy, true);
	return true;
}

static void rank_end(struct rank *rank)
{
	rank->made++;
	atomic_store(&rank->place->at, (uint64_t)rank->step << 32 | rank->made);
	atomic_store(&rank->place->busy, false);
	rank->redone = false;
}

/* ---- put ----------------------------------------------------------------- */

static bool rank_is_flipped(const struct rank *rank, const struct station_object *object)
{
	const struct station_object *flipped = &rank->job->flipped;

	return rank->job->flip && object->step == flipped->step &&
	       object->owner == flipped->owner && object->sequence == flipped->sequence;
}

static void rank_write(
	struct rank *rank, const struct station_object *object, void *to, uint64_t seed)
{
	pattern_write(to, object->size, seed);
	if (rank_is_flipped(rank, object))
		((unsigned char *)to)[object->size / 2] ^= 0x10;
}

/* *ret_whole_ns: when the bytes were there, and nobody could read them. */
static int rank_put_bytes(struct rank *rank, const struct station_object *object,
	struct cenote_key key, uint64_t seed, uint64_t *ret_whole_ns)
{
	struct cenote_put_options options = {.softpin = true,
		.replicas = rank->job->replicas,
		.timeout_ms = rank->job->timeout_ms};
	struct cenote_writer writer;
	int result;

	if (object->size <= INLINE_SIZE) {
		rank_write(rank, object, rank->buffer, seed);
		*ret_whole_ns = tool_now_ns();
		return cenote_put(rank->store, key, rank->buffer, object->size, &options);
	}
	result = cenote_create(rank->store, key, object->size, &options, &writer);
	if (result != 0)
		return result;
	rank_write(rank, object, writer.data, seed);
	*ret_whole_ns = tool_now_ns();
	return cenote_seal(rank->store, &writer);
}

static bool rank_put(struct rank *rank, const struct station_object *object)
{
	char key[STATION_KEY_MAX];
	size_t size = station_object_key(rank->plan, object, key);
	uint64_t seed = station_object_seed(rank->plan, object, key, size);
	uint64_t start_ns = tool_now_ns(), whole_ns = start_ns;
	int result = rank_put_bytes(
		rank, object, (struct cenote_key){key, size}, seed, &whole_ns);

	/* Whoever reads it compares it. */
	if (rank->redone && result == CENOTE_ERR_EXISTS)
		result = 0;
	if (result > 0)
		rank->tally->keepers[MIN(result, CENOTE_REPLICAS_MAX)]++;
	if (result < 0) {
		rank->tally->failed_puts++;
		rank_failed(rank, "put", key, result);
		return false;
	}
	rank_took(rank, STATION_PUT + object->kind, start_ns);
	station_log_add(&rank->log, rank->step, whole_ns, STATION_EVENT_PUT, object,
		object->size);
	rank->tally->puts++;
	rank->tally->put_bytes += object->size;
	return true;
}

/* ---- read ---------------------------------------------------------------- */

static uint64_t rank_wrong_bytes(const struct station_object *object,
	const struct cenote_view *view, uint64_t seed)
{
	if (view->size != object->size)
		return MAX(view->size, object->size);
	return pattern_wrong(view->data, view->size, seed);
}

/* A view of the object; waits for its put where it must. */
static int rank_get_view(struct rank *rank, const struct station_object *object,
	struct cenote_key key, struct cenote_view *ret_view)
{
	struct cenote_get_options options = {.timeout_ms = rank->job->timeout_ms};
	uint64_t start_ns = tool_now_ns();
	int result = cenote_get(rank->store, key, &options, ret_view);
	unsigned work = STATION_GET + object->kind;

	if (result == CENOTE_ERR_NOT_FOUND) {
		work = STATION_WAIT;
		options.wait = true;
		result = cenote_get(rank->store, key, &options, ret_view);
	}
	if (result == 0)
		rank_took(rank, work, start_ns);
	return result;
}

/* Whether the put of the object, by whomever, has ended. */
static bool rank_sees_put(const struct rank *rank, const struct station_object *object)
{
	const struct station_place *place = &rank->job->shared->places[object->owner];
	unsigned at = object->step % STATION_RING;

	if (object->kind == STATION_WEIGHTS)
		return atomic_load(&place->weights_stored) &&
		       place->weights.step == object->step;
	return atomic_load(&place->stored[at][object - rank->ring[at].objects]);
}

/* Others may see an object a little before its put ends. If that is cut by a death, it may be gone
 * again until it is put anew: nobody was promised it. */
static int rank_get_put(struct rank *rank, const struct station_object *object,
	struct cenote_key key, struct cenote_view *ret_view)
{
	const struct timespec pause = {.tv_nsec = AGAIN_TERM_NS};
	uint64_t end_ns = tool_now_ns() + AWAY_TERM_NS;

	for (;;) {
		bool promised = !rank->job->restart || rank_sees_put(rank, object);
		int result = rank_get_view(rank, object, key, ret_view);

		if (promised || tool_now_ns() > end_ns ||
			(result != CENOTE_ERR_UNAVAILABLE && result != CENOTE_ERR_LOST))
			return result;
		rank->tally->cut_gets++;
		(void)nanosleep(&pause, NULL);
	}
}

static void rank_get(struct rank *rank, const struct station_object *object)
{
	char key[STATION_KEY_MAX];
	size_t size = station_object_key(rank->plan, object, key);
	uint64_t seed = station_object_seed(rank->plan, object, key, size), wrong;
	struct cenote_view view;
	int result = rank_get_put(rank, object, (struct cenote_key){key, size}, &view);

	if (result != 0) {
		rank->tally->failed_gets++;
		rank_failed(rank, "get", key, result);
		return;
	}
	station_log_add(&rank->log, rank->step, tool_now_ns(), STATION_EVENT_READ, object,
		object->size);
	wrong = rank_wrong_bytes(object, &view, seed);
	if (wrong != 0 && rank->tally->first_error[0] == '\0')
		(void)snprintf(rank->tally->first_error, STATION_ERROR_MAX,
			"rank %u: get \"%s\": %" PRIu64 " of %" PRIu64 " bytes are wrong",
			rank->number, key, wrong, object->size);
	rank->tally->wrong_bytes += wrong;
	rank->tally->gets++;
	rank->tally->get_bytes += view.size;
	result = cenote_release(rank->store, &view);
	if (result != 0) {
		rank->tally->failed_gets++;
		rank_failed(rank, "release", key, result);
	}
}

/* `later`: steps since the put. */
static void rank_read(
	struct rank *rank, const struct station_object *object, unsigned later)
{
	for (unsigned i = 0; i < object->reader_count; i++) {
		const struct station_reader *reader = &object->readers[i];

		if (reader->rank != rank->number)
			continue;
		for (unsigned at = 0; at < reader->reads[later]; at++) {
			if (!rank_begin(rank))
				continue;
			rank_get(rank, object);
			rank_end(rank);
		}
	}
}

/* ---- remove -------------------------------------------------------------- */

/* Whether it is worth going on. */
static bool rank_remove(struct rank *rank, const struct station_object *object)
{
	char key[STATION_KEY_MAX];
	size_t size = station_object_key(rank->plan, object, key);
	uint64_t start_ns = tool_now_ns();
	int result = cenote_remove(rank->store, (struct cenote_key){key, size});

	if (rank->redone && result == CENOTE_ERR_NOT_FOUND)
		result = 0;
	if (result == 0) {
		rank_took(rank, STATION_REMOVE, start_ns);
		station_log_add(&rank->log, rank->step, start_ns, STATION_EVENT_REMOVE,
			object, object->size);
		rank->tally->removes++;
		return true;
	}
	if (result == CENOTE_ERR_NOT_FOUND)
		rank->tally->lost_objects++;
	else
		rank->tally->failed_removes++;
	rank_failed(rank, "remove", key, result);
	return !station_barrier_is_stopped(&rank->job->shared->barrier);
}

/* Whether it is worth going on. `stored` is its mark. */
static bool rank_remove_stored(
	struct rank *rank, const struct station_object *object, _Atomic bool *stored)
{
	bool goes_on;

	atomic_store(&rank->place->busy, true);
	goes_on = rank_remove(rank, object);
	*stored = false;
	atomic_store(&rank->place->busy, false);
	rank->redone = false;
	return goes_on;
}

/* What this rank stored and what ends at `step`, or all of it. */
static void rank_remove_ended(struct rank *rank, uint32_t step, bool all)
{
	struct station_place *place = rank->place;

	for (unsigned i = 0; i < STATION_RING; i++) {
		struct ring_entry *entry = &rank->ring[i];

		for (uint32_t at = 0; at < entry->count; at++) {
			const struct station_object *object = &entry->objects[at];

			if (!entry->stored[at] ||
				(!all && object->step + object->life > step))
				continue;
			if (!rank_remove_stored(rank, object, &entry->stored[at]))
				return;
		}
	}
	if (place->weights_stored &&
		(all || place->weights.step + place->weights.life <= step))
		(void)rank_remove_stored(rank, &place->weights, &place->weights_stored);
}

/* ---- steps --------------------------------------------------------------- */

static void rank_put_own(
	struct rank *rank, const struct station_object *object, _Atomic bool *stored)
{
	bool done;

	if (!rank_begin(rank))
		return;
	done = rank_put(rank, object);
	if (object->kind == STATION_WEIGHTS) {
		rank->place->weights = *object;
		rank->place->weights_stored = done;
	} else {
		*stored = done;
	}
	rank_end(rank);
}

/* What of the pool is kept for loads: for the log, by one rank. */
static void rank_log_turning(struct rank *rank)
{
	uint64_t bytes = 0;
	char *text;

	if (rank->number != 0 || rank->log.fd < 0 ||
		cenote_info(rank->store, CENOTE_INFO_STATS, &text) != 0)
		return;
	if (stats_u64(text, "pool.turning", &bytes))
		station_log_add(&rank->log, rank->step, tool_now_ns(),
			STATION_EVENT_TURNING, NULL, bytes);
	cenote_free(text);
}

static void rank_plan_step(struct rank *rank, uint32_t step)
{
	struct ring_entry *entry = &rank->ring[step % STATION_RING];

	entry->count = 0;
	if (step < atomic_load(&rank->job->shared->steps_wanted))
		entry->count = station_plan_step(rank->plan, step, entry->objects);
}

/* The step in which the time is up is the last in which anything is put: all learn of it when
 * they have waited for each other at its end. */
static void rank_look_at_clock(struct rank *rank, uint32_t step)
{
	struct station_shared *shared = rank->job->shared;

	if (rank->number == 0 && step < atomic_load(&shared->steps_wanted) &&
		tool_now_ns() - shared->start_ns >= rank->job->span_ns)
		atomic_store(&shared->steps_wanted, step + 1);
}

/* False: broken off. */
static bool rank_step(struct rank *rank, uint32_t step)
{
	struct station_barrier *barrier = &rank->job->shared->barrier;
	struct ring_entry *entry = &rank->ring[step % STATION_RING];
	const struct ring_entry *before =
		&rank->ring[(step + STATION_RING - 1) % STATION_RING];

	rank->step = step;
	rank->made = 0;
	rank_remove_ended(rank, step, false);
	if (!station_barrier_wait(barrier, rank->number, 1 + 2 * step))
		return false;
	rank_log_turning(rank);
	rank_plan_step(rank, step);
	for (uint32_t i = 0;
		(uint32_t)atomic_load(&rank->place->at) == 0 && i < entry->count; i++)
		atomic_store(&entry->stored[i], false);
	for (uint32_t i = 0; i < before->count; i++) {
		rank_read(rank, &before->objects[i], 1);
		if (station_barrier_is_stopped(barrier))
			return false;
	}
	for (uint32_t i = 0; i < entry->count; i++) {
		if (entry->objects[i].owner == rank->number)
			rank_put_own(rank, &entry->objects[i], &entry->stored[i]);
		rank_read(rank, &entry->objects[i], 0);
		if (station_barrier_is_stopped(barrier))
			return false;
	}
	rank_look_at_clock(rank, step);
	return station_barrier_wait(barrier, rank->number, 2 + 2 * step);
}

static void rank_clock_step(struct rank *rank, uint32_t step)
{
	struct station_shared *shared = rank->job->shared;

	if (rank->number != 0)
		return;
	shared->end_ns = tool_now_ns();
	if (step < rank->plan->steps && shared->step_end_ns[step] == 0)
		shared->step_end_ns[step] = shared->end_ns;
	atomic_store(&shared->steps_done, step + 1);
}

/* Those behind the last wanted only remove. */
static void rank_steps(struct rank *rank)
{
	struct station_shared *shared = rank->job->shared;
	uint32_t step = (uint32_t)(atomic_load(&rank->place->at) >> 32);

	for (uint32_t before = MIN(step, STATION_LIFE_MAX + 0u); before > 0; before--)
		rank_plan_step(rank, step - before);
	if (!station_barrier_wait(&shared->barrier, rank->number, 0))
		return;
	if (rank->number == 0 && shared->start_ns == 0)
		shared->start_ns = tool_now_ns();
	for (; step < atomic_load(&shared->steps_wanted) + STATION_LIFE_MAX; step++) {
		if (!rank_step(rank, step))
			return;
		rank_clock_step(rank, step);
		atomic_store(&rank->place->at, (step + 1ull) << 32);
	}
}

static bool rank_init(struct rank *rank, const struct station_job *job, uint32_t number)
{
	uint32_t width = station_plan_width(job->plan);
	bool whole;

	*rank = (struct rank){.job = job,
		.plan = job->plan,
		.tally = &job->shared->tallies[number],
		.place = &job->shared->places[number],
		.number = number,
		.log = {.fd = job->log_fd}};
	rank->buffer = malloc(INLINE_SIZE);
	whole = rank->buffer != NULL;
	for (unsigned i = 0; i < STATION_RING; i++) {
		rank->ring[i].objects = calloc(width, sizeof(*rank->ring[i].objects));
		rank->ring[i].stored = rank->place->stored[i];
		whole = whole && rank->ring[i].objects != NULL;
	}
	return whole;
}

static void rank_fini(struct rank *rank)
{
	cenote_close(rank->store);
	station_log_flush(&rank->log);
	for (unsigned i = 0; i < STATION_RING; i++)
		free(rank->ring[i].objects);
	free(rank->buffer);
}

/* `again`: the node may have been killed as well, and come back later. */
static int rank_connect(struct rank *rank, bool again)
{
	const struct station_job *job = rank->job;
	const struct timespec pause = {.tv_nsec = AGAIN_TERM_NS};
	uint64_t end_ns = tool_now_ns() + AWAY_TERM_NS;
	struct cenote_connect_options options = {
		.socket_path = job->sockets[rank->number % job->nodes],
		.timeout_ms = job->timeout_ms};
	int result;

	while ((result = cenote_connect(&rank->store, &options)) != 0 && again &&
		!station_barrier_is_stopped(&job->shared->barrier) &&
		tool_now_ns() < end_ns)
		(void)nanosleep(&pause, NULL);
	return result;
}

int station_rank_run(const struct station_job *job, uint32_t number, bool again)
{
	struct rank rank;
	int result;

	if (!rank_init(&rank, job, number)) {
		rank_failed(&rank, "start", "", CENOTE_ERR_NO_MEMORY);
		rank_fini(&rank);
		return 1;
	}
	rank.redone = again && atomic_load(&rank.place->busy);
	result = rank_connect(&rank, again);
	if (result != 0) {
		rank.store = NULL;
		rank_failed(&rank, "connect", "", result);
	} else {
		rank_steps(&rank);
		/* Nothing is left here unless the run was broken off. */
		rank_remove_ended(&rank, 0, true);
	}
	rank_fini(&rank);
	return result != 0;
}
