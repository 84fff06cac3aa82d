/*
 * station_plan.h - the station profile as a plan: who puts what, who reads it when, and
 * when it is removed. Every rank derives the same plan from the same numbers, so that
 * nothing has to be told while the work runs.
 *
 * In each step every rank puts 31 small objects and 3 payloads, and one rank a batch of
 * 15 to 40 % of the pool; each WEIGHTS_STEPS steps the weight set, of 20 to 40 %, is
 * replaced. One scale for all sizes brings the peak of live bytes to the share that was
 * asked for.
 *
 * A step goes: remove what ends now; all wait; put and read; all wait. So the live bytes
 * of a step are those of all objects with step <= s < step + life.
 *
 * Units     bytes; steps from 0; shares in permille of the pool.
 * Memory    plain values; copy as you like.
 * Thread    any; a plan does not change after its init.
 */
#ifndef TOOLS_STATION_PLAN_H
#define TOOLS_STATION_PLAN_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATION_SMALL_PUTS    31 /* per rank and step */
#define STATION_PAYLOAD_PUTS  3
#define STATION_RANK_PUTS     (STATION_SMALL_PUTS + STATION_PAYLOAD_PUTS)
#define STATION_LIFE_MAX      3 /* steps from put to remove; weights live longer */
#define STATION_WEIGHTS_STEPS 20
#define STATION_RANKS_MAX     250 /* a node takes 256 clients */
#define STATION_READERS_MAX   8
#define STATION_LARGEST       400 /* no object is larger, permille of the pool */
#define STATION_KEY_MAX       64

enum station_kind {
	STATION_SMALL,
	STATION_PAYLOAD,
	STATION_BATCH,
	STATION_WEIGHTS,
	STATION_KINDS
};

struct station_reader {
	uint16_t rank;
	uint8_t reads[2]; /* in the put's step, and in the next */
};

struct station_object {
	uint64_t size;
	uint32_t step;     /* of its put */
	uint16_t owner;    /* the rank that puts and removes it */
	uint16_t sequence; /* among its owner's puts of the step */
	uint8_t kind;      /* enum station_kind */
	uint8_t life;      /* removed at the start of step + life */
	uint8_t reader_count;
	struct station_reader readers[STATION_READERS_MAX];
};

struct station_plan {
	/* given */
	uint64_t pool;
	uint64_t seed;
	uint64_t run;   /* in the keys, so that two runs on one node do not meet */
	uint32_t ranks; /* 1 to STATION_RANKS_MAX */
	uint32_t steps; /* 1 or more */
	uint32_t live;  /* permille of the pool, at the peak */
	bool reads_once; /* one read each, in the order of the puts, in the step after; else
			    by 1 to 8 readers, 1 or 2 reads each, in this step or the next */
	/* derived */
	uint64_t scale; /* of all sizes, 32 bits behind the point */
	uint64_t peak;  /* live bytes */
};

/* Derive scale and peak from what is given. False: so little cannot be divided so. */
bool station_plan_init(struct station_plan *plan) MUST_CHECK;

/* The most objects that one step puts. */
uint32_t station_plan_width(const struct station_plan *plan);

/* The objects put in `step`, in the order of the puts; returns how many, 0 behind the
 * last. */
uint32_t station_plan_step(
	const struct station_plan *plan, uint32_t step, struct station_object *objects);

/* NUL-terminated; returns its length. A key comes back, for another object, once its
 * first object is removed. */
size_t station_object_key(const struct station_plan *plan,
	const struct station_object *object, char key[STATION_KEY_MAX]);

/* Of its bytes, for pattern.h. */
uint64_t station_object_seed(const struct station_plan *plan,
	const struct station_object *object, const char *key, size_t key_size);

/* The first object, from step 1 on if there is one, of which exactly one read is made. */
bool station_plan_find_single(
	const struct station_plan *plan, struct station_object *ret) MUST_CHECK;

#endif
