/*
 * station_plan.c - derive the station's plan, step by step, from its seed.
 *
 * Each step has a generator of its own, so that any step can be derived without those
 * before.
 */
#include "tools/station_plan.h"

#include "base/rng.h"
#include "tools/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB           1024ull
#define MIB           (1024 * KIB)
#define SCALE_ONE     (1ull << 32)
#define SCALE_MAX     (1ull << 62)
#define SEED_STRIDE   0xd1342543de82ef95ull
#define KEY_SLOTS     (STATION_LIFE_MAX + 1) /* of one owner and sequence, by step */
#define BISECTIONS    40
#define CLOSE_ENOUGH  1000 /* the peak may lie 1/1000 below what was asked */
#define RANK_PUTS_MAX (STATION_RANK_PUTS + 2)

static uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high)
{
	return low + rng_below(rng, high - low + 1);
}

static uint64_t permille_of(uint64_t whole, uint64_t permille)
{
	return (uint64_t)((unsigned __int128)whole * permille / 1000);
}

/* As the profile says, before the scale. */
static uint64_t plan_base_size(
	const struct station_plan *plan, enum station_kind kind, struct rng *rng)
{
	switch (kind) {
	case STATION_SMALL:
		return rng_between(rng, 256, 10 * KIB);
	case STATION_PAYLOAD:
		return rng_between(rng, 10 * MIB, 13 * MIB);
	case STATION_BATCH:
		return rng_between(
			rng, permille_of(plan->pool, 150), permille_of(plan->pool, 400));
	case STATION_WEIGHTS:
		return rng_between(
			rng, permille_of(plan->pool, 200), permille_of(plan->pool, 400));
	case STATION_KINDS:
		break;
	}
	NOT_REACHED("an object without a kind");
}

static uint64_t plan_size(
	const struct station_plan *plan, enum station_kind kind, struct rng *rng)
{
	unsigned __int128 size = plan_base_size(plan, kind, rng);
	uint64_t largest = permille_of(plan->pool, STATION_LARGEST);

	size = (size * plan->scale) >> 32;
	if (size > largest)
		return largest;
	return MAX((uint64_t)size, 1u);
}

static uint8_t plan_life(const struct station_plan *plan, enum station_kind kind,
	uint32_t step, struct rng *rng)
{
	if (kind == STATION_WEIGHTS)
		/* Two at least, for those who read it in the step after its put. */
		return (uint8_t)MAX(
			MIN(plan->steps - step, STATION_WEIGHTS_STEPS + 0u), 2u);
	return (uint8_t)rng_between(rng, plan->reads_once ? 2 : 1, STATION_LIFE_MAX);
}

static void plan_reader(struct station_reader *reader, uint32_t rank, uint32_t reads,
	uint8_t life, struct rng *rng)
{
	*reader = (struct station_reader){.rank = (uint16_t)rank};
	for (uint32_t i = 0; i < reads; i++)
		reader->reads[life > 1 ? rng_below(rng, 2) : 0]++;
}

/* All in the next step, so that the reads come in the order of the puts. */
static void plan_reader_once(struct station_reader *reader, uint32_t rank)
{
	*reader = (struct station_reader){.rank = (uint16_t)rank, .reads = {0, 1}};
}

/* Readers are neighbours from a random rank on, so that they differ. */
static void plan_readers(
	const struct station_plan *plan, struct station_object *object, struct rng *rng)
{
	uint32_t most = MIN(plan->ranks, (uint32_t)STATION_READERS_MAX);
	uint32_t count = plan->reads_once ? 1 : (uint32_t)rng_between(rng, 1, most);
	uint32_t first = (uint32_t)rng_below(rng, plan->ranks);

	object->reader_count = (uint8_t)count;
	if (plan->reads_once) {
		plan_reader_once(&object->readers[0], first);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		plan_reader(&object->readers[i], (first + i) % plan->ranks,
			(uint32_t)rng_between(rng, 1, 2), object->life, rng);
}

static void plan_object(const struct station_plan *plan, uint32_t step, uint32_t rank,
	uint32_t sequence, enum station_kind kind, struct rng *rng,
	struct station_object *object)
{
	*object = (struct station_object){
		.size = plan_size(plan, kind, rng),
		.step = step,
		.owner = (uint16_t)rank,
		.sequence = (uint16_t)sequence,
		.kind = (uint8_t)kind,
	};
	object->life = plan_life(plan, kind, step, rng);
	plan_readers(plan, object, rng);
}

/* What a rank puts in a step, in order; returns how many. */
static uint32_t plan_kinds(const struct station_plan *plan, uint32_t step, uint32_t rank,
	struct rng *rng, uint8_t kinds[RANK_PUTS_MAX])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < STATION_RANK_PUTS; i++)
		kinds[count++] = i < STATION_SMALL_PUTS ? STATION_SMALL : STATION_PAYLOAD;
	if (step % plan->ranks == rank)
		kinds[count++] = STATION_BATCH;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t other = (uint32_t)rng_below(rng, i + 1);
		uint8_t kind = kinds[i];

		kinds[i] = kinds[other];
		kinds[other] = kind;
	}
	if (step % STATION_WEIGHTS_STEPS == 0 &&
		step / STATION_WEIGHTS_STEPS % plan->ranks == rank) {
		memmove(kinds + 1, kinds, count++);
		kinds[0] = STATION_WEIGHTS;
	}
	return count;
}

uint32_t station_plan_width(const struct station_plan *plan)
{
	return plan->ranks * STATION_RANK_PUTS + 2;
}

uint32_t station_plan_step(
	const struct station_plan *plan, uint32_t step, struct station_object *objects)
{
	uint8_t kinds[STATION_RANKS_MAX][RANK_PUTS_MAX];
	uint32_t puts[STATION_RANKS_MAX];
	struct rng rng;
	uint32_t count = 0;

	if (step >= plan->steps)
		return 0;
	rng_init(&rng, plan->seed + (step + 1ull) * SEED_STRIDE);
	for (uint32_t rank = 0; rank < plan->ranks; rank++)
		puts[rank] = plan_kinds(plan, step, rank, &rng, kinds[rank]);
	for (uint32_t sequence = 0; sequence < RANK_PUTS_MAX; sequence++) {
		for (uint32_t rank = 0; rank < plan->ranks; rank++) {
			if (sequence < puts[rank])
				plan_object(plan, step, rank, sequence,
					kinds[rank][sequence], &rng, &objects[count++]);
		}
	}
	return count;
}

/* ---- the scale ----------------------------------------------------------- */

/* The peak of live bytes at the plan's scale. `live` has a place for each step and for
 * the longest life. */
static uint64_t plan_peak(
	const struct station_plan *plan, struct station_object *objects, uint64_t *live)
{
	uint64_t peak = 0;

	memset(live, 0, (plan->steps + STATION_WEIGHTS_STEPS) * sizeof(*live));
	for (uint32_t step = 0; step < plan->steps; step++) {
		uint32_t count = station_plan_step(plan, step, objects);

		for (uint32_t i = 0; i < count; i++) {
			for (uint32_t at = 0; at < objects[i].life; at++)
				live[step + at] += objects[i].size;
		}
		peak = MAX(peak, live[step]);
	}
	return peak;
}

/* The largest scale whose peak is not above `target`. */
static void plan_fit(struct station_plan *plan, uint64_t target,
	struct station_object *objects, uint64_t *live)
{
	uint64_t low = 0, high;

	plan->scale = SCALE_ONE;
	plan->peak = plan_peak(plan, objects, live);
	/* Right at once where no object is as large as it may be. */
	plan->scale = (uint64_t)((unsigned __int128)SCALE_ONE * target / plan->peak);
	plan->peak = plan_peak(plan, objects, live);
	for (high = plan->scale; plan->peak <= target && high < SCALE_MAX; high *= 2) {
		if (target - plan->peak <= target / CLOSE_ENOUGH)
			return;
		low = high;
		plan->scale = high * 2;
		plan->peak = plan_peak(plan, objects, live);
	}
	for (int i = 0; i < BISECTIONS && high - low > 1; i++) {
		plan->scale = low + (high - low) / 2;
		plan->peak = plan_peak(plan, objects, live);
		if (plan->peak > target)
			high = plan->scale;
		else
			low = plan->scale;
	}
	plan->scale = low;
	plan->peak = plan_peak(plan, objects, live);
}

bool station_plan_init(struct station_plan *plan)
{
	uint64_t target = permille_of(plan->pool, plan->live);
	struct station_object *objects = calloc(
		station_plan_width(plan), sizeof(*objects));
	uint64_t *live = calloc(plan->steps + STATION_WEIGHTS_STEPS, sizeof(*live));

	plan->peak = UINT64_MAX;
	if (objects != NULL && live != NULL)
		plan_fit(plan, target, objects, live);
	free(objects);
	free(live);
	return plan->peak <= target;
}

/* ---- objects ------------------------------------------------------------- */

size_t station_object_key(const struct station_plan *plan,
	const struct station_object *object, char key[STATION_KEY_MAX])
{
	int length;

	if (object->kind == STATION_WEIGHTS)
		length = snprintf(
			key, STATION_KEY_MAX, "station/%" PRIx64 "/weights", plan->run);
	else
		length = snprintf(key, STATION_KEY_MAX, "station/%" PRIx64 "/%u/%u/%u",
			plan->run, object->owner, object->sequence,
			object->step % KEY_SLOTS);
	return (size_t)length;
}

uint64_t station_object_seed(const struct station_plan *plan,
	const struct station_object *object, const char *key, size_t key_size)
{
	return pattern_seed(
		key, key_size, plan->seed + (object->step + 1ull) * SEED_STRIDE);
}

static bool object_is_single(const struct station_object *object)
{
	return object->reader_count == 1 &&
	       object->readers[0].reads[0] + object->readers[0].reads[1] == 1;
}

bool station_plan_find_single(const struct station_plan *plan, struct station_object *ret)
{
	struct station_object *objects = calloc(
		station_plan_width(plan), sizeof(*objects));
	bool found = false;

	if (objects == NULL)
		return false;
	for (uint32_t i = 0; i < plan->steps && !found; i++) {
		/* Step 0 comes last. */
		uint32_t count = station_plan_step(plan, (i + 1) % plan->steps, objects);

		for (uint32_t at = 0; at < count && !found; at++) {
			found = object_is_single(&objects[at]);
			if (found)
				*ret = objects[at];
		}
	}
	free(objects);
	return found;
}
