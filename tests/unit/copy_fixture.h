/*
 * copy_fixture.h - what another node has, and the master of core_fixture.h or
 * disk_fixture.h fetches; and what left it.
 *
 * Thread    one.
 */
#ifndef UNIT_COPY_FIXTURE_H
#define UNIT_COPY_FIXTURE_H

#include "disk_fixture.h"

/* Of another node: another salt than the fixture's. */
#define COPY_GENERATION(us) ((uint64_t)(us) << GENERATION_SHIFT | 9)
#define COPY_CHECKSUM       0x1234u

static inline struct copy_request copy_request(
	const char *key, uint64_t size, uint64_t generation)
{
	return (struct copy_request){
		.key = core_key(key),
		.size = size,
		.generation = generation,
		.expires = UINT64_MAX,
		.softpin = true,
	};
}

static inline enum load_verdict copy_try(struct core *core,
	const struct copy_request *copy, struct ticket *ticket, uint32_t *ret_slot)
{
	enum load_verdict verdict = master_copy_start(
		&core->master, copy, ticket, core->now, ret_slot);

	core_assert(core);
	return verdict;
}

/* It is on its way. */
static inline uint32_t copy_start_like(struct core *core, const struct copy_request *copy)
{
	uint32_t slot = SLOT_NONE;

	assert_int_equal(copy_try(core, copy, NULL, &slot), LOAD_STARTED);
	return slot;
}

static inline uint32_t copy_start(
	struct core *core, const char *key, uint64_t size, uint64_t generation)
{
	struct copy_request copy = copy_request(key, size, generation);

	return copy_start_like(core, &copy);
}

/* Its bytes, all of them the slot's number, have come; or have not. */
static inline int copy_end(struct core *core, uint32_t slot, int err)
{
	const struct slot *there = core_slot(core, slot);

	if (err == 0)
		memset(core->share.pool + there->off, (int)slot, there->size);
	err = master_copy_done(&core->master, slot, err, COPY_CHECKSUM, core->now);
	core_assert(core);
	return err;
}

/* A READY copy of a softpin object. */
static inline uint32_t copy_of(struct core *core, const char *key, uint64_t size)
{
	uint32_t slot = copy_start(core, key, size, COPY_GENERATION(500));

	assert_int_equal(copy_end(core, slot, 0), 0);
	assert_int_equal(core_find(core, key), slot);
	return slot;
}

static inline bool is_secondary(struct core *core, uint32_t slot)
{
	return (core_slot(core, slot)->flags & SLOT_SECONDARY) != 0;
}

static inline int copy_remove(
	struct core *core, const char *key, uint64_t generation, uint64_t *ret_generation)
{
	struct index_key at = core_key(key);
	int err = master_end_generation(
		&core->master, &at, generation, core->now, ret_generation);

	core_assert(core);
	return err;
}

/* The next that left is this one. */
static inline void assert_left(
	struct core *core, const char *key, uint64_t generation, bool ended)
{
	struct disk_id id = disk_id_of(key, (uint32_t)strlen(key));
	struct left left;

	assert_true(master_left_next(&core->master, &left));
	assert_memory_equal(&left.id, &id, sizeof(id));
	assert_int_equal(left.generation, generation);
	assert_int_equal(left.ended, ended);
}

static inline void assert_none_left(struct core *core)
{
	struct left left;

	assert_false(master_left_next(&core->master, &left));
	assert_false(master_left_lost(&core->master));
}

/* A ticket for so many bytes gets them. */
static inline void core_crowd(struct core *core, uint64_t size)
{
	struct ticket ticket;

	ticket_init(&ticket);
	master_room_wait(&core->master, &ticket, size, 1);
	core_assert(core);
	core_run(core);
	assert_ptr_equal(master_room_granted(&core->master), &ticket);
	master_room_cancel(&core->master, &ticket);
	core_assert(core);
}

#endif
