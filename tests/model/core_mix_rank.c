/*
 * core_mix_rank.c - the ranks of the station: each puts its objects in order and reads what
 * is its to read, the two mixed by chance.
 */
#include "core_mix.h"

#include "base/err.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIX_READS_MAX 4u /* of an object by all ranks, at most, as a mean */

static void on_tell(struct holder *holder, uint32_t slot)
{
	struct mix *mix = container_of(holder, struct mix_rank, holder)->mix;

	master_tell(&mix->master, slot, mix->now);
}

static uint32_t rank_ref(const struct mix *mix, const struct mix_rank *rank)
{
	return client_ref((uint32_t)(rank - mix->ranks), 1);
}

static uint32_t reads_most(const struct mix *mix)
{
	return station_plan_width(&mix->plan) * MIX_READS_MAX;
}

void mix_ranks_open(struct mix *mix)
{
	uint32_t slots = mix->share.header->slots_limit;

	for (uint32_t i = 0; i < MIX_RANKS; i++) {
		struct mix_rank *rank = &mix->ranks[i];

		rank->mix = mix;
		rank->holder.tell = on_tell;
		rank->holder.counts = calloc(slots, sizeof(rank->holder.counts[0]));
		rank->puts = calloc(
			station_plan_width(&mix->plan), sizeof(rank->puts[0]));
		rank->reads = calloc(reads_most(mix), sizeof(rank->reads[0]));
		CHECK(rank->holder.counts != NULL && rank->puts != NULL &&
			rank->reads != NULL);
		ticket_init(&rank->ticket);
		mix->share.clients[i].incarnation = 1;
		mix->share.clients[i].state = SHARE_CLIENT_LIVE;
		master_client_add(&mix->master, i, rank->holder.counts);
	}
	for (uint32_t i = 0; i < MIX_STEPS_KEPT; i++) {
		mix->steps[i].objects = calloc(
			station_plan_width(&mix->plan), sizeof(mix->steps[i].objects[0]));
		CHECK(mix->steps[i].objects != NULL);
	}
}

void mix_ranks_close(struct mix *mix)
{
	for (uint32_t i = 0; i < MIX_RANKS; i++) {
		free(mix->ranks[i].holder.counts);
		free(mix->ranks[i].puts);
		free(mix->ranks[i].reads);
	}
	for (uint32_t i = 0; i < MIX_STEPS_KEPT; i++)
		free(mix->steps[i].objects);
}

/* ---- a step -------------------------------------------------------------- */

static void object_remove(struct mix *mix, struct mix_object *object)
{
	int err = master_remove(&mix->master, &object->key, mix->now);

	if (err != 0)
		mix_fail(mix, "%s of step %u is lost: %d", object->name,
			object->plan.step, err);
	object->ready = false;
}

static void object_name(struct mix *mix, struct mix_object *object)
{
	size_t size = station_object_key(&mix->plan, &object->plan, object->name);

	object->key = (struct index_key){(const uint8_t *)object->name, (uint32_t)size,
		hash_key(object->name, size, mix->share.header->hash_seed)};
}

static void objects_make(struct mix *mix, uint32_t step)
{
	struct mix_step *kept = &mix->steps[step % MIX_STEPS_KEPT];

	kept->count = station_plan_step(&mix->plan, step, mix->plans);
	for (uint32_t i = 0; i < kept->count; i++) {
		kept->objects[i] = (struct mix_object){.plan = mix->plans[i]};
		object_name(mix, &kept->objects[i]);
	}
}

static void step_remove(struct mix *mix, uint32_t step)
{
	for (uint32_t back = 1; back <= STATION_LIFE_MAX && back <= step; back++) {
		struct mix_step *kept = &mix->steps[(step - back) % MIX_STEPS_KEPT];

		for (uint32_t i = 0; i < kept->count; i++) {
			struct mix_object *object = &kept->objects[i];

			if (object->plan.kind != STATION_WEIGHTS &&
				object->plan.step + object->plan.life == step)
				object_remove(mix, object);
		}
	}
	if (mix->weights.ready && mix->weights.plan.step + mix->weights.plan.life == step)
		object_remove(mix, &mix->weights);
}

static void step_give_reads(struct mix *mix, uint32_t step, uint32_t back)
{
	struct mix_step *kept;

	if (step < back)
		return;
	kept = &mix->steps[(step - back) % MIX_STEPS_KEPT];
	for (uint32_t i = 0; i < kept->count; i++) {
		struct mix_object *object = &kept->objects[i];

		for (uint32_t j = 0; j < object->plan.reader_count; j++) {
			const struct station_reader *reader = &object->plan.readers[j];
			struct mix_rank *rank = &mix->ranks[reader->rank];

			for (uint32_t n = 0; n < reader->reads[back]; n++) {
				CHECK(rank->read_count < reads_most(mix));
				rank->reads[rank->read_count++] = object;
			}
		}
	}
}

void mix_step_begin(struct mix *mix, uint32_t step)
{
	struct mix_step *kept = &mix->steps[step % MIX_STEPS_KEPT];

	step_remove(mix, step);
	objects_make(mix, step);
	for (uint32_t i = 0; i < MIX_RANKS; i++) {
		struct mix_rank *rank = &mix->ranks[i];

		rank->put_at = rank->read_at = rank->put_count = rank->read_count = 0;
	}
	for (uint32_t i = 0; i < kept->count; i++) {
		struct mix_rank *rank = &mix->ranks[kept->objects[i].plan.owner];

		rank->puts[rank->put_count++] = &kept->objects[i];
	}
	step_give_reads(mix, step, 1);
	step_give_reads(mix, step, 0);
}

/* ---- put ----------------------------------------------------------------- */

static void put_started(struct mix *mix, struct mix_rank *rank)
{
	if (rank->since != mix->turn)
		hist_add(&mix->wait_turns, mix->turn - rank->since);
	rank->life = slot_life_of(mix->share.slots[rank->slot].state);
	rank->until = mix->turn + mix_turns(mix, rank->object->plan.size, MIX_COPY_RATE);
	rank->doing = MIX_PUT_COPIES;
}

static void put_try(struct mix *mix, struct mix_rank *rank)
{
	const struct mix_object *object = rank->object;
	struct put_request put = {
		.key = object->key,
		.size = object->plan.size,
		.softpin = true,
		.writer = rank_ref(mix, rank),
		.op = ++mix->op,
		.deadline = UINT64_MAX,
	};
	struct ticket *ticket = rank->granted ? &rank->ticket : NULL;
	enum put_verdict verdict = master_put_start(
		&mix->master, &put, ticket, &rank->slot);

	rank->granted = false;
	rank->doing = MIX_PUT_WAITS;
	if (verdict == PUT_STARTED) {
		put_started(mix, rank);
	} else if (verdict == PUT_NO_ROOM) {
		mix->waited++;
		master_room_wait(&mix->master, &rank->ticket, put.size, object->key.size);
	} else if (verdict != PUT_BUSY || mix->config->disk == 0) {
		mix_fail(mix, "put of %s: verdict %d", object->name, (int)verdict);
	}
}

static void put_wait(struct mix *mix, struct mix_rank *rank)
{
	if (mix->turn - rank->since > mix->config->wait_limit)
		mix_fail(mix,
			"put of %" PRIu64 " bytes has no room after %" PRIu64 " turns",
			rank->object->plan.size, mix->turn - rank->since);
	if (rank->ticket.state != TICKET_WAITING)
		put_try(mix, rank);
}

static void put_end(struct mix *mix, struct mix_rank *rank)
{
	uint64_t generation;
	int err = master_put_end(&mix->master, rank->slot, rank->life,
		rank_ref(mix, rank), mix->now, mix->now / 1000, &generation);

	if (err != 0)
		mix_fail(mix, "end of put of %s: %d", rank->object->name, err);
	rank->object->ready = true;
	rank->doing = MIX_IDLE;
	mix->puts++;
	if (rank->object->plan.kind == STATION_WEIGHTS) {
		mix->weights = *rank->object;
		mix->weights.key.data = (const uint8_t *)mix->weights.name;
	}
}

/* ---- read ---------------------------------------------------------------- */

static void read_start(struct mix *mix, struct mix_rank *rank, uint32_t slot)
{
	if (mix->share.slots[slot].size != rank->object->plan.size)
		mix_fail(mix, "%s has %" PRIu64 " bytes, not %" PRIu64,
			rank->object->name, mix->share.slots[slot].size,
			rank->object->plan.size);
	rank->slot = slot;
	rank->until = mix->turn + mix_turns(mix, rank->object->plan.size, MIX_COPY_RATE);
	rank->doing = MIX_READS;
	rank->read_at++;
	mix->gets++;
}

static void load_try(struct mix *mix, struct mix_rank *rank)
{
	const struct mix_object *object = rank->object;
	struct ticket *ticket = rank->granted ? &rank->ticket : NULL;
	uint32_t entry = master_disk_find(&mix->master, &object->key);

	rank->granted = false;
	rank->doing = MIX_IDLE; /* it looks again */
	if (entry == DISK_NONE) {
		if (ticket != NULL)
			master_room_cancel(&mix->master, ticket);
		else if (master_find(&mix->master, &object->key) == SLOT_NONE)
			mix_fail(mix, "%s of step %u is lost", object->name,
				object->plan.step);
		return;
	}
	switch (master_load_start(
		&mix->master, entry, object->key.data, ticket, mix->now, &rank->slot)) {
	case LOAD_STARTED:
		rank->until = mix->turn +
			      mix_turns(mix, object->plan.size, MIX_DISK_RATE);
		rank->doing = MIX_LOADS;
		return;
	case LOAD_NO_ROOM:
		master_room_wait_load(
			&mix->master, &rank->ticket, object->plan.size, object->key.size);
		rank->doing = MIX_LOAD_WAITS;
		return;
	case LOAD_GONE:
		return;
	}
}

static void load_end(struct mix *mix, struct mix_rank *rank)
{
	uint32_t entry = mix->master.objects[rank->slot].disk;
	uint64_t checksum = disk_entry(&mix->master.disk, entry)->checksum;
	int err = master_load_done(&mix->master, rank->slot, 0, checksum, mix->now);

	if (err != 0)
		mix_fail(mix, "load of %s: %d", rank->object->name, err);
	if (mix->turn - rank->since > mix->longest)
		mix->longest = mix->turn - rank->since;
	master_pin(&mix->master, rank->slot);
	if (index_try(&mix->share, &rank->holder, &rank->object->key, rank->slot,
		    HOLD_HEAT) != HOLD_OK)
		mix_fail(mix, "%s was loaded and cannot be held", rank->object->name);
	master_unpin(&mix->master, rank->slot, mix->now);
	read_start(mix, rank, rank->slot);
}

static void load_wait(struct mix *mix, struct mix_rank *rank)
{
	if (mix->turn - rank->since > mix->config->wait_limit)
		mix_fail(mix,
			"load of %" PRIu64 " bytes has no room after %" PRIu64 " turns",
			rank->object->plan.size, mix->turn - rank->since);
	if (rank->granted)
		load_try(mix, rank);
}

static void read_try(struct mix *mix, struct mix_rank *rank)
{
	uint32_t slot;

	if (index_find(&mix->share, &rank->holder, &rank->object->key, HOLD_HEAT,
		    &slot) == HOLD_OK)
		read_start(mix, rank, slot);
	else
		load_try(mix, rank);
}

static void read_end(struct mix *mix, struct mix_rank *rank)
{
	if (!hold_give(&rank->holder, mix->share.slots, rank->slot))
		mix_fail(mix, "a hold of %s was not counted", rank->object->name);
	rank->doing = MIX_IDLE;
}

/* ---- turns --------------------------------------------------------------- */

static void rank_choose(struct mix *mix, struct mix_rank *rank)
{
	bool may_put = rank->put_at < rank->put_count;
	bool may_read = rank->read_at < rank->read_count &&
			rank->reads[rank->read_at]->ready;

	rank->since = mix->turn;
	if (may_put && (!may_read || rng_chance(&mix->rng, 50))) {
		rank->object = rank->puts[rank->put_at++];
		put_try(mix, rank);
	} else if (may_read) {
		rank->object = rank->reads[rank->read_at];
		read_try(mix, rank);
	}
}

void mix_rank_turn(struct mix *mix, struct mix_rank *rank)
{
	bool over = mix->turn >= rank->until;

	switch (rank->doing) {
	case MIX_IDLE:
		rank_choose(mix, rank);
		return;
	case MIX_PUT_WAITS:
		put_wait(mix, rank);
		return;
	case MIX_PUT_COPIES:
		if (over)
			put_end(mix, rank);
		return;
	case MIX_LOAD_WAITS:
		load_wait(mix, rank);
		return;
	case MIX_LOADS:
		if (over)
			load_end(mix, rank);
		return;
	case MIX_READS:
		if (over)
			read_end(mix, rank);
		return;
	}
}

bool mix_rank_is_done(const struct mix_rank *rank)
{
	return rank->doing == MIX_IDLE && rank->put_at == rank->put_count &&
	       rank->read_at == rank->read_count;
}

void mix_end(struct mix *mix)
{
	for (uint32_t i = 0; i < MIX_STEPS_KEPT; i++)
		for (uint32_t j = 0; j < mix->steps[i].count; j++) {
			struct mix_object *object = &mix->steps[i].objects[j];

			if (object->ready && object->plan.kind != STATION_WEIGHTS)
				object_remove(mix, object);
		}
	if (mix->weights.ready)
		object_remove(mix, &mix->weights);
}
