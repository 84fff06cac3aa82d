/*
 * bench_reclaim_room.c - how long a put that waits for room waits after the lease that was in
 * its way is released.
 *
 * The pool is full of objects under leases that last longer than this takes, and, at its end,
 * of puts that have not ended; so nothing can leave. A second thread begins a put and waits;
 * once the node says that a put waits, one lease is released. What is timed ends as that
 * thread has its room: cenote_create() has returned. Its put stays open, or the node, which
 * is below its watermark, might take the object for the next.
 */
#include "tools/bench_reclaim.h"
#include "tools/interrupt.h"

#include "base/attr.h"

#include <semaphore.h>
#include <stdlib.h>

#define ROOM_LEASE_MS 30000
#define ROOM_TERM_NS  25000000000ull /* all leases last longer */
#define ROOM_ROUNDS   1000u
#define ROOM_TRIP     128u       /* bytes each way */
#define ROOM_PAUSE_NS 1000000ull /* so that asking took nobody's turn of the CPU */
#define ROOM_OPEN     16 /* a part of the pool that is full of open puts; above --high */

struct room_part {
	struct reclaim_bench *bench;
	struct cenote_lease *leases;   /* of objects 0 .. leased - 1 */
	struct cenote_writer *writers; /* the open puts */
	uint32_t leased, open;
	sem_t go, done;
	uint64_t room_ns; /* when the last put had its room */
	int err;          /* of the last */
	bool ends;
};

static int room_lease(struct room_part *part)
{
	struct cenote *store = part->bench->micro->store;
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_key key = micro_key(text, "leased", part->leased);
	int err = cenote_put(store, key, part->bench->source, RECLAIM_SIZE, NULL);

	if (err == 0)
		err = cenote_lease(
			store, key, ROOM_LEASE_MS, &part->leases[part->leased]);
	part->leased += err == 0;
	return err;
}

static int room_open(struct room_part *part)
{
	const struct cenote_put_options options = {.timeout_ms = ROOM_LEASE_MS};
	char text[MICRO_KEY_SIZE + 1];
	int err = cenote_create(part->bench->micro->store,
		micro_key(text, "open", part->open), RECLAIM_SIZE, &options,
		&part->writers[part->open]);

	part->open += err == 0;
	return err;
}

/* The thread whose puts wait. */
static void *room_write(void *arg)
{
	struct room_part *part = arg;

	for (;;) {
		(void)sem_wait(&part->go);
		if (part->ends)
			return NULL;
		part->err = room_open(part);
		part->room_ns = tool_now_ns();
		(void)sem_post(&part->done);
	}
}

static int room_fill(struct room_part *part)
{
	uint32_t capacity = part->bench->capacity;
	int err = 0;

	while (part->leased < capacity - capacity / ROOM_OPEN && err == 0)
		err = room_lease(part);
	while (part->leased + part->open < capacity && err == 0)
		err = room_open(part);
	return err == 0 ? TOOL_OK : micro_failed("bench: put, lease", err);
}

/* The node has so many puts behind it that found no room. */
static int room_wait_for(struct room_part *part, uint64_t waits)
{
	uint64_t found = 0;
	int exit_code = TOOL_OK;

	while (exit_code == TOOL_OK && found < waits) {
		reclaim_pause(tool_now_ns() + ROOM_PAUSE_NS);
		exit_code = interrupt_came() ? TOOL_FAILED
					     : reclaim_waits(part->bench->micro, &found);
	}
	reclaim_pause(tool_now_ns() + ROOM_PAUSE_NS);
	return exit_code;
}

static int room_round(struct room_part *part, uint32_t oldest)
{
	struct reclaim_bench *bench = part->bench;
	uint64_t waits = 0, start_ns, trip_ns;
	int exit_code = reclaim_waits(bench->micro, &waits);
	int err;

	if (exit_code != TOOL_OK)
		return exit_code;
	(void)sem_post(&part->go);
	exit_code = room_wait_for(part, waits + 1);
	start_ns = tool_now_ns();
	err = cenote_lease_release(bench->micro->store, &part->leases[oldest]);
	(void)sem_wait(&part->done);
	if (exit_code != TOOL_OK)
		return exit_code;
	if (err != 0 || part->err != 0)
		return micro_failed("bench: release, put", err != 0 ? err : part->err);
	series_add(&bench->room, (double)(part->room_ns - start_ns));
	reclaim_pause(tool_now_ns() + ROOM_PAUSE_NS);
	trip_ns = echo_round(&bench->micro->echo, ROOM_TRIP, ROOM_TRIP);
	if (trip_ns == 0)
		return TOOL_FAILED;
	series_add(&bench->trip, (double)trip_ns);
	return TOOL_OK;
}

static int room_rounds(struct room_part *part, uint32_t rounds)
{
	uint64_t end_ns = tool_now_ns() + ROOM_TERM_NS;
	int exit_code = room_fill(part);

	for (uint32_t i = 0; i < MIN(rounds, part->leased) && exit_code == TOOL_OK; i++) {
		if (tool_now_ns() > end_ns)
			break;
		exit_code = room_round(part, i);
	}
	(void)series_end_run(&part->bench->room);
	(void)series_end_run(&part->bench->trip);
	return exit_code;
}

/* Leases that were not released would keep the pool for the rest of their time. */
static void room_clean(struct room_part *part)
{
	struct cenote *store = part->bench->micro->store;
	char text[MICRO_KEY_SIZE + 1];

	for (uint32_t i = 0; i < part->open; i++)
		(void)cenote_abort(store, &part->writers[i]);
	for (uint32_t i = 0; i < part->leased; i++) {
		(void)cenote_lease_release(store, &part->leases[i]);
		(void)cenote_remove(store, micro_key(text, "leased", i));
	}
}

int reclaim_room_run(struct reclaim_bench *bench)
{
	uint32_t rounds = micro_rounds(bench->micro, ROOM_ROUNDS);
	struct room_part part = {.bench = bench};
	pthread_t thread;
	int exit_code;

	part.leases = calloc(bench->capacity, sizeof(*part.leases));
	part.writers = calloc(bench->capacity + rounds, sizeof(*part.writers));
	if (part.leases == NULL || part.writers == NULL ||
		sem_init(&part.go, 0, 0) != 0 || sem_init(&part.done, 0, 0) != 0 ||
		pthread_create(&thread, NULL, room_write, &part) != 0) {
		tool_complain("bench: no memory, or no thread can be made");
		free(part.leases);
		free(part.writers);
		return TOOL_FAILED;
	}
	exit_code = room_rounds(&part, rounds);
	part.ends = true;
	(void)sem_post(&part.go);
	(void)pthread_join(thread, NULL);
	room_clean(&part);
	free(part.leases);
	free(part.writers);
	return exit_code == TOOL_OK ? reclaim_wait_empty(bench) : exit_code;
}
