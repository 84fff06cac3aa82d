#include "sim/oracle.h"

#include "sim/sim.h"

#include "base/check.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes --------------------------------------------------------------- */

static uint64_t pattern_word(uint64_t id, uint64_t at)
{
	uint64_t word = (id ^ (at * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;

	return word ^ word >> 32;
}

void pattern_fill(unsigned char *to, uint64_t off, uint64_t size, uint64_t id)
{
	for (uint64_t i = 0; i < size; i++) {
		uint64_t at = off + i;

		if (at % 8 == 0 && size - i >= 8) {
			uint64_t word = pattern_word(id, at / 8);

			memcpy(to + i, &word, 8);
			i += 7;
			continue;
		}
		to[i] = (unsigned char)(pattern_word(id, at / 8) >> at % 8 * 8);
	}
}

bool pattern_is(const unsigned char *bytes, uint64_t off, uint64_t size, uint64_t id)
{
	for (uint64_t i = 0; i < size; i++) {
		uint64_t at = off + i;
		uint64_t word = pattern_word(id, at / 8);

		if (at % 8 == 0 && size - i >= 8) {
			if (memcmp(bytes + i, &word, 8) != 0)
				return false;
			i += 7;
		} else if (bytes[i] != (unsigned char)(word >> at % 8 * 8)) {
			return false;
		}
	}
	return true;
}

/* ---- life ---------------------------------------------------------------- */

/* Short and long keys, at the edges of what lies in the slot; no two alike. */
static void key_init(struct sim *sim, uint32_t at)
{
	static const uint32_t sizes[] = {2, 3, 8, 17, 31, 32, 33, 40, 64, 100, 1024};
	struct oracle_key *key = &sim->oracle.keys[at];

	key->size = sizes[sim_pick(sim, ARRAY_LEN(sizes))];
	key->bytes[0] = at % 2 == 0 ? 'a' : 'b';
	key->bytes[1] = (uint8_t)(at + 1);
	for (uint32_t i = 2; i < key->size; i++)
		key->bytes[i] = (uint8_t)(1 + sim_pick(sim, 255));
}

void oracle_hash_keys(struct sim *sim)
{
	for (uint32_t at = 0; at < SIM_KEYS; at++) {
		struct oracle_key *key = &sim->oracle.keys[at];

		key->hash = hash_key(
			key->bytes, key->size, sim->world.share.header->hash_seed);
	}
}

void oracle_init(struct sim *sim)
{
	struct oracle *oracle = &sim->oracle;
	uint32_t limit = sim->world.share.header->slots_limit;

	list_init(&oracle->puts);
	list_init(&oracle->objects);
	oracle->slots = calloc(limit, sizeof(oracle->slots[0]));
	oracle->changed = calloc(limit, sizeof(oracle->changed[0]));
	oracle->ending = calloc(limit, sizeof(oracle->ending[0]));
	oracle->appeared = calloc(limit, sizeof(struct sim_object *));
	CHECK(oracle->slots != NULL && oracle->changed != NULL &&
		oracle->ending != NULL && oracle->appeared != NULL);
	for (uint32_t key = 0; key < SIM_KEYS; key++)
		key_init(sim, key);
	oracle_hash_keys(sim);
}

void oracle_fini(struct sim *sim)
{
	struct oracle *oracle = &sim->oracle;

	list_for_each_safe (at, &oracle->puts)
		free(container_of(at, struct put, entry));
	list_for_each_safe (at, &oracle->objects)
		free(container_of(at, struct sim_object, entry));
	free(oracle->slots);
	free(oracle->changed);
	free(oracle->ending);
	free(oracle->appeared);
}

struct put *oracle_put(struct sim *sim, uint32_t ref, uint64_t op, uint32_t key,
	uint64_t size, bool softpin, uint64_t ttl_ns)
{
	struct put *put = calloc(1, sizeof(*put));

	CHECK(put != NULL);
	*put = (struct put){.op = op,
		.ref = ref,
		.key = key,
		.id = ++sim->oracle.puts_made,
		.size = size,
		.ttl_ns = ttl_ns,
		.softpin = softpin};
	list_add_head(&sim->oracle.puts, &put->entry);
	return put;
}

static struct put *put_find(struct oracle *oracle, uint32_t ref, uint64_t op)
{
	list_for_each (at, &oracle->puts) {
		struct put *put = container_of(at, struct put, entry);

		if (put->ref == ref && put->op == op)
			return put;
	}
	return NULL;
}

struct sim_object *oracle_find(struct oracle *oracle, uint32_t key, uint64_t generation)
{
	list_for_each (at, &oracle->objects) {
		struct sim_object *object = container_of(at, struct sim_object, entry);

		if (object->generation == generation && object->put->key == key)
			return object;
	}
	return NULL;
}

/* ---- what was true ------------------------------------------------------- */

bool oracle_was_absent(const struct oracle *oracle, uint32_t key, uint64_t since)
{
	const struct oracle_key *there = &oracle->keys[key];

	return there->object == NULL || there->absent_at >= since;
}

bool oracle_was_present(const struct oracle *oracle, uint32_t key, uint64_t since)
{
	const struct oracle_key *there = &oracle->keys[key];

	return there->object != NULL || there->present_at >= since;
}

bool oracle_may_have_missed(const struct oracle *oracle, uint32_t key, uint64_t since)
{
	return oracle->keys[key].remove_at >= since;
}

bool object_was_alive(const struct sim_object *object, uint64_t since)
{
	return object->ended == 0 || object->ended > since;
}

bool oracle_is_asked(const struct sim *sim, const struct put *put, int kind)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		for (unsigned j = 0; conn->id != 0 && j < conn->asked_count; j++) {
			if ((int)conn->asked[j].kind == kind && conn->asked[j].put == put)
				return true;
		}
	}
	return false;
}

/* Somebody puts under the key. */
static bool is_put_asked(const struct sim *sim, uint32_t key)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		for (unsigned j = 0; conn->id != 0 && j < conn->asked_count; j++) {
			if ((conn->asked[j].kind == ASKED_START ||
				    conn->asked[j].kind == ASKED_PUT) &&
				conn->asked[j].key == key)
				return true;
		}
	}
	return false;
}

static bool is_remove_asked(const struct sim *sim, uint32_t key)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		for (unsigned j = 0; conn->id != 0 && j < conn->asked_count; j++) {
			if (conn->asked[j].kind == ASKED_REMOVE &&
				conn->asked[j].key == key)
				return true;
		}
	}
	return false;
}

/* The take that ended the slot, among those that were asked for; it may have named the slot
 * in which the object was before. */
static const struct asked *take_asked(const struct sim *sim, uint32_t slot, uint32_t key)
{
	const struct slot *there = &sim->world.share.slots[slot];

	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];
		const struct asked *asked = &conn->asked[0];

		if (conn->id != 0 && conn->asked_count == 1 &&
			asked->kind == ASKED_TAKE && asked->key == key &&
			there->flags & SLOT_TAKEN && there->writer == asked->ref &&
			there->op == asked->op)
			return asked;
	}
	return NULL;
}

static bool is_read_reported(const struct sim *sim, const struct sim_object *object)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		if (conn->id != 0 && conn->asked_count == 1 &&
			conn->asked[0].kind == ASKED_READ &&
			conn->asked[0].object == object)
			return true;
	}
	return false;
}

/* ---- begin --------------------------------------------------------------- */

static void check_object(struct sim *sim, uint32_t at, const struct sim_object *object)
{
	const struct slot *slot = &sim->world.share.slots[at];
	const struct put *put = object->put;
	const struct oracle_key *key = &sim->oracle.keys[put->key];

	if (slot->size != put->size || slot->klen != key->size ||
		slot->hash != key->hash ||
		memcmp(slot_key(&sim->world.share, slot), key->bytes, key->size) != 0)
		sim_fail(
			sim, "slot %" PRIu32 " has another key or size than was put", at);
	if (((slot->flags & SLOT_SOFTPIN) != 0) != put->softpin ||
		((slot->flags & SLOT_EXPIRES) != 0) != (put->ttl_ns != 0) ||
		(put->ttl_ns != 0 && slot->expires != object->expires))
		sim_fail(sim, "slot %" PRIu32 " has other flags than were put", at);
	if (!pattern_is(sim->world.share.pool + slot->off, 0, put->size, put->id))
		sim_fail(sim, "slot %" PRIu32 " became READY with wrong bytes", at);
}

static struct sim_object *object_new(struct sim *sim, uint32_t at, struct put *put)
{
	const struct slot *slot = &sim->world.share.slots[at];
	struct sim_object *object = calloc(1, sizeof(*object));

	CHECK(object != NULL);
	object->put = put;
	object->generation = slot->generation;
	object->expires = slot->expires;
	object->began = sim->oracle.looks;
	object->host = sim->ill.lost;
	list_add_head(&sim->oracle.objects, &object->entry);
	if (put->objects++ > 0)
		sim_cover(sim, COVER_PUT_TWICE);
	put->object = object;
	return object;
}

static void check_is_new(struct sim *sim, uint64_t generation)
{
	list_for_each (at, &sim->oracle.objects) {
		const struct sim_object *object = container_of(
			at, struct sim_object, entry);

		/* What went with a host left no trace to keep clear of. */
		if (object->generation == generation &&
			(object->ended == 0 || object->host == sim->ill.lost))
			sim_fail(sim, "generation %" PRIx64 " is there a second time",
				generation);
		/* Of those that began in one look it is not known which was first. */
		if (object->ended == 0 && object->began < sim->oracle.looks &&
			object->generation > generation)
			sim_fail(sim, "generation %" PRIx64 " is below one that is there",
				generation);
	}
}

static struct sim_object *object_begin(struct sim *sim, uint32_t at)
{
	struct oracle *oracle = &sim->oracle;
	const struct slot *slot = &sim->world.share.slots[at];
	struct put *put = put_find(oracle, slot->writer, slot->op);
	struct sim_object *object;

	if (put == NULL || (!oracle_is_asked(sim, put, ASKED_PUT) &&
				   !oracle_is_asked(sim, put, ASKED_END)))
		sim_fail(sim, "slot %" PRIu32 " became READY, and nobody asked for that",
			at);
	check_is_new(sim, slot->generation);
	object = object_new(sim, at, put);
	trace_event(&sim->trace, "key %" PRIu32 " has an object in slot %" PRIu32,
		put->key, at);
	return object;
}

static void slot_begins(struct sim *sim, uint32_t at)
{
	struct oracle *oracle = &sim->oracle;
	const struct slot *slot = &sim->world.share.slots[at];
	struct sim_object *object = NULL;

	for (uint32_t key = 0; key < SIM_KEYS && object == NULL; key++) {
		if (oracle->keys[key].object != NULL &&
			oracle->keys[key].object->generation == slot->generation)
			object = oracle->keys[key].object;
	}
	if (object == NULL) {
		object = object_begin(sim, at);
	} else {
		object->moves++;
		oracle->moves++;
		trace_event(&sim->trace, "key %" PRIu32 " is copied to slot %" PRIu32,
			object->put->key, at);
	}
	check_object(sim, at, object);
	if (object->places++ == 0 && object->moves > 0)
		sim_cover(sim, COVER_LOADED);
	oracle->slots[at].object = object;
	oracle->appeared[oracle->appeared_count++] = object;
}

/* ---- end ----------------------------------------------------------------- */

static bool is_held(const struct sim *sim, uint32_t slot)
{
	for (unsigned i = 0; i < SIM_PROCS; i++) {
		for (unsigned j = 0; j < SIM_VIEWS; j++) {
			if (sim->procs[i].views[j].open &&
				sim->procs[i].views[j].slot == slot)
				return true;
		}
	}
	return false;
}

/* A durable put that is not answered yet takes back what could not be written. */
static bool is_undone(const struct sim *sim, const struct sim_object *object)
{
	return object->put->durable &&
	       (oracle_is_asked(sim, object->put, ASKED_PUT) ||
		       oracle_is_asked(sim, object->put, ASKED_END));
}

static enum end_reason object_why(struct sim *sim, uint32_t at, struct sim_object *object)
{
	const struct asked *take = at == SLOT_NONE
					   ? NULL
					   : take_asked(sim, at, object->put->key);

	/* It had ended before it came back, and the start knows of that. */
	if (object->revived && sim->oracle.adopting)
		return object->before;
	if (take != NULL) {
		object->taker = take->ref;
		object->take_op = take->op;
		return END_TAKEN;
	}
	if (is_remove_asked(sim, object->put->key)) {
		sim_cover(sim, COVER_REMOVED);
		return END_REMOVED;
	}
	if (object->put->readers > 0 && is_read_reported(sim, object) &&
		object->reports >= object->put->readers) {
		sim_cover(sim, COVER_READ_OUT);
		return END_READ;
	}
	if (object->expires != 0 && object->put->ttl_ns != 0 &&
		object->expires <= sim->world.now_ns) {
		sim_cover(sim, COVER_EXPIRED);
		return END_EXPIRED;
	}
	if (!object->put->softpin && (!sim->daemon.starting || at == SLOT_NONE))
		return END_EVICTED;
	if (object->bad && is_put_asked(sim, object->put->key)) {
		sim_cover(sim, COVER_PUT_OVER_CORRUPT);
		return END_OLDER;
	}
	if (is_undone(sim, object)) {
		sim_cover(sim, COVER_PUT_UNDONE);
		return END_UNDONE;
	}
	sim_fail(sim,
		"key %" PRIu32 " in slot %" PRIu32
		" was dropped, and nobody asked for that",
		object->put->key, at);
}

static void slot_ends(struct sim *sim, uint32_t at, struct sim_object *object)
{
	if (--object->places > 0) {
		if (is_held(sim, at))
			sim_cover(sim, COVER_MOVED_UNDER_HOLD);
	} else if (oracle_is_on_disk(sim, object)) {
		oracle_leaves_pool(sim, object);
	} else {
		oracle_end(sim, at, object);
	}
}

void oracle_end(struct sim *sim, uint32_t at, struct sim_object *object)
{
	struct oracle *oracle = &sim->oracle;
	struct oracle_key *key = &oracle->keys[object->put->key];

	object->reason = object_why(sim, at, object);
	object->ended = oracle->looks;
	trace_event(&sim->trace, "key %" PRIu32 " in slot %" PRIu32 " ends, reason %d",
		object->put->key, at, (int)object->reason);
	if (key->object == object) {
		key->object = NULL;
		key->present_at = oracle->looks - 1;
	}
}

/* ---- look ---------------------------------------------------------------- */

/* A slot that is being written: whose it is, and what became of the put. */
static void slot_is_written(struct sim *sim, uint32_t at, bool is_new)
{
	const struct slot *slot = &sim->world.share.slots[at];
	struct put *put;

	if (slot->flags & SLOT_COPY)
		return;
	put = put_find(&sim->oracle, slot->writer, slot->op);
	if (put == NULL)
		sim_fail(sim, "slot %" PRIu32 " is being written by nobody", at);
	if (is_new && !oracle_is_asked(sim, put, ASKED_PUT) &&
		!oracle_is_asked(sim, put, ASKED_START))
		sim_fail(sim,
			"slot %" PRIu32 " is being written, and nobody asked for that",
			at);
	if (slot->flags & SLOT_DOOMED && !put->was_doomed) {
		if (!is_remove_asked(sim, put->key) && !sim->daemon.starting)
			sim_fail(sim, "a put was doomed, and nobody removed its key");
		put->was_doomed = true;
		trace_event(&sim->trace, "the put in slot %" PRIu32 " is doomed", at);
	}
	if (slot->flags & SLOT_LATE && !put->was_late) {
		put->was_late = true;
		trace_event(&sim->trace, "the put in slot %" PRIu32 " is late", at);
	}
	if (put->started_ns == 0)
		put->started_ns = sim->world.now_ns;
	if (is_new)
		trace_event(&sim->trace, "key %" PRIu32 " is being put in slot %" PRIu32,
			put->key, at);
}

/* Each report counted once: no less than were answered, no more than were sent. */
static void check_reads(struct sim *sim, uint32_t at)
{
	const struct slot *slot = &sim->world.share.slots[at];
	const struct sim_object *object = sim->oracle.slots[at].object;
	unsigned counted = (unsigned)object->put->readers - slot->readers_left;
	unsigned least = object->reads_lost ? 0 : object->reports_done;

	if (slot->counted != (object->put->readers > 0) || counted < least ||
		counted > object->reports)
		sim_fail(sim,
			"slot %" PRIu32
			" counted %u reads, of %u reports %u were answered",
			at, counted, object->reports, object->reports_done);
}

static uint32_t find_changed(struct sim *sim)
{
	struct oracle *oracle = &sim->oracle;
	uint32_t nslots = atomic_load(&sim->world.share.header->nslots);
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < nslots; slot++) {
		uint64_t state = atomic_load(&sim->world.share.slots[slot].state);

		if (state != oracle->slots[slot].state)
			oracle->changed[count++] = slot;
		if (slot_kind_of(state) == SLOT_WRITING)
			slot_is_written(sim, slot, state != oracle->slots[slot].state);
	}
	return count;
}

/* The objects that began are their keys'; no key has two. */
static void keys_settle(struct sim *sim)
{
	struct oracle *oracle = &sim->oracle;

	for (unsigned i = 0; i < oracle->appeared_count; i++) {
		struct sim_object *object = oracle->appeared[i];
		struct oracle_key *key = &oracle->keys[object->put->key];

		if (object->ended != 0 || key->object == object)
			continue;
		if (key->object != NULL && key->object->revived &&
			key->object->places == 0 &&
			key->object->generation < object->generation)
			oracle_end(sim, SLOT_NONE, key->object);
		if (key->object != NULL)
			sim_fail(
				sim, "key %" PRIu32 " has two objects", object->put->key);
		key->object = object;
		key->absent_at = oracle->looks - 1;
	}
	oracle->appeared_count = 0;
}

static void note_removes(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_CONNS; i++) {
		const struct conn *conn = &sim->conns[i];

		for (unsigned j = 0; conn->id != 0 && j < conn->asked_count; j++) {
			if (conn->asked[j].kind == ASKED_REMOVE)
				sim->oracle.keys[conn->asked[j].key].remove_at =
					sim->oracle.looks;
		}
	}
}

void oracle_look(struct sim *sim)
{
	struct oracle *oracle = &sim->oracle;
	uint32_t count;

	oracle->looks++;
	note_removes(sim);
	count = find_changed(sim);
	/* What begins first: a copy begins before its source ends. */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t slot = oracle->changed[i];
		uint64_t state = atomic_load(&sim->world.share.slots[slot].state);
		struct oracle_slot *seen = &oracle->slots[slot];

		oracle->ending[i] = seen->object;
		seen->object = NULL;
		seen->state = state;
		if (slot_kind_of(state) == SLOT_READY)
			slot_begins(sim, slot);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (oracle->ending[i] != NULL)
			slot_ends(sim, oracle->changed[i], oracle->ending[i]);
	}
	keys_settle(sim);
	oracle_look_disk(sim);
	for (uint32_t slot = 0; slot < atomic_load(&sim->world.share.header->nslots);
		slot++) {
		if (oracle->slots[slot].object != NULL &&
			oracle->slots[slot].object->put->readers > 0)
			check_reads(sim, slot);
	}
}
