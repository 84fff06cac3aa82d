/*
 * oracle_disk.c - what may be true of objects that are on disk.
 */
#include "sim/sim.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <string.h>

static struct sim_object *object_of(struct sim *sim, uint64_t generation)
{
	list_for_each (at, &sim->oracle.objects) {
		struct sim_object *object = container_of(at, struct sim_object, entry);

		if (object->generation == generation)
			return object;
	}
	return NULL;
}

static const struct sim_record *record_of(
	const struct sim *sim, const struct sim_object *object)
{
	return sim_tier_find(&sim->tier.committed, object->generation);
}

/* ---- look ---------------------------------------------------------------- */

bool oracle_is_on_disk(const struct sim *sim, const struct sim_object *object)
{
	const struct oracle_key *there = &sim->oracle.keys[object->put->key];
	struct index_key key = {there->bytes, there->size, there->hash};
	const struct node *node = sim->daemon.node;
	uint32_t entry;

	if (!sim->has_disk)
		return false;
	if (node == NULL || sim->daemon.starting)
		return record_of(sim, object) != NULL;
	entry = master_disk_find(&node->master, &key);
	return entry != DISK_NONE &&
	       node->master.disk.entries[entry].generation == object->generation;
}

static bool bytes_are_right(
	const struct sim *sim, const struct sim_record *record, const struct put *put)
{
	return record->record.size == put->size &&
	       pattern_is(sim_tier_bytes(&sim->tier, record), 0, put->size, put->id);
}

void oracle_leaves_pool(struct sim *sim, struct sim_object *object)
{
	const struct sim_record *record = record_of(sim, object);

	if (record == NULL)
		sim_fail(sim, "key %" PRIu32 " left the pool, and is not on disk",
			object->put->key);
	if (!object->bad && !bytes_are_right(sim, record, object->put))
		sim_fail(sim, "key %" PRIu32 " left the pool, and is wrong on disk",
			object->put->key);
	object->moves++;
	sim_cover(sim, object->put->softpin ? COVER_LEFT_SOFTPIN : COVER_LEFT_CACHE);
	trace_event(&sim->trace, "key %" PRIu32 " is only on disk now", object->put->key);
}

void oracle_look_disk(struct sim *sim)
{
	for (uint32_t i = 0; sim->has_disk && i < SIM_KEYS; i++) {
		struct oracle_key *key = &sim->oracle.keys[i];

		if (key->object == NULL || key->object->places > 0)
			continue;
		if (oracle_is_on_disk(sim, key->object))
			key->away_at = sim->oracle.looks;
		else
			oracle_end(sim, SLOT_NONE, key->object);
	}
}

bool oracle_was_away(const struct oracle *oracle, uint32_t key, uint64_t since)
{
	return oracle->keys[key].away_at >= since && oracle->keys[key].away_at > 0;
}

bool oracle_may_be_bad(const struct oracle *oracle, uint32_t key, uint64_t since)
{
	list_for_each (at, &oracle->objects) {
		const struct sim_object *object = container_of(
			at, struct sim_object, entry);

		if (object->put->key == key && object->bad &&
			object_was_alive(object, since))
			return true;
	}
	return false;
}

/* ---- answers ------------------------------------------------------------- */

/* What was there when the question came, and has ended, is told to be gone: nothing of it
 * may come back. */
static void key_is_gone(struct sim *sim, const struct asked *asked)
{
	uint32_t key = asked->key;

	list_for_each (at, &sim->oracle.objects) {
		struct sim_object *object = container_of(at, struct sim_object, entry);

		if (object->put->key != key || object->ended == 0 || object->told_gone ||
			object->began > asked->since)
			continue;
		object->told_gone = true;
		if (sim->has_disk && record_of(sim, object) != NULL)
			sim_fail(sim,
				"key %" PRIu32 " is told gone, and its record is on disk",
				key);
	}
}

/* It was told that nothing was put. */
static void put_is_undone(struct sim *sim, const struct put *put)
{
	struct sim_object *object = put->object;

	if (object == NULL || object->reason != END_UNDONE)
		return;
	object->told_gone = true;
	if (record_of(sim, object) != NULL)
		sim_fail(
			sim, "key %" PRIu32 " is told not put, and is on disk", put->key);
}

static void put_is_done(struct sim *sim, const struct put *put)
{
	struct sim_object *object = put->object;

	/* A cache object may be dropped there again, before a batch is answered. */
	if (!put->durable || !put->softpin || object == NULL || object->ended != 0)
		return;
	if (record_of(sim, object) == NULL)
		sim_fail(sim, "key %" PRIu32 " is told durable, and is not on disk",
			put->key);
	object->durable = true;
	sim_cover(sim, COVER_PUT_DURABLE);
}

static void answer_one(
	struct sim *sim, const struct asked *asked, const void *reply, size_t size)
{
	int code = reply_error(sim, reply, size);

	switch (asked->kind) {
	case ASKED_PUT:
	case ASKED_END:
		if (code == 0)
			put_is_done(sim, asked->put);
		/* An end that is asked for again: the daemon knows its key no more, and does
		 * not wait for its record. */
		else if (asked->kind == ASKED_PUT || code != ERR_NOT_FOUND)
			put_is_undone(sim, asked->put);
		return;
	case ASKED_REMOVE:
		if (code == 0 || code == ERR_NOT_FOUND)
			key_is_gone(sim, asked);
		return;
	case ASKED_TAKE:
		if (code == 0)
			key_is_gone(sim, asked);
		return;
	case ASKED_READ:
		if (code == 0 && asked->object->reason == END_READ)
			key_is_gone(sim, asked);
		return;
	case ASKED_NOTHING:
	case ASKED_START:
	case ASKED_LOOK:
		return;
	}
}

void oracle_answers(
	struct sim *sim, const struct conn *conn, const void *message, size_t size)
{
	struct msg_batch_done done;
	struct msg_bytes reply;

	if (msg_batch_done_decode(message, size, &done) != 0) {
		for (unsigned i = 0; i < conn->asked_count; i++) {
			if (conn->asked_count == 1)
				answer_one(sim, &conn->asked[i], message, size);
		}
		return;
	}
	for (unsigned i = 0;
		i < conn->asked_count && msg_unpack(&done.replies, &reply) == 1; i++)
		answer_one(sim, &conn->asked[i], reply.data, reply.size);
}

/* ---- deaths -------------------------------------------------------------- */

/* What the index has, and had ended: its end was not answered, so it may be back. */
static void revive(struct sim *sim, const struct sim_record *record)
{
	struct sim_object *object = object_of(sim, record->record.generation);
	struct oracle_key *key;

	if (object == NULL)
		sim_fail(sim, "the disk has what nobody put");
	key = &sim->oracle.keys[object->put->key];
	if (object->ended == 0)
		return;
	if (object->told_gone)
		sim_fail(sim, "key %" PRIu32 " was told gone, and is back on disk",
			object->put->key);
	if (key->object != NULL)
		return;
	trace_event(&sim->trace, "key %" PRIu32 " is back", object->put->key);
	sim_cover(sim, COVER_REVIVED);
	object->ended = 0;
	object->before = object->reason;
	object->reason = END_NONE;
	object->revived = true;
	object->reads_lost = true; /* its record may be from before they were counted */
	object->places = 0;
	object->moves++;
	key->object = object;
	key->absent_at = sim->oracle.looks;
}

static void revive_all(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->tier.committed.count; i++)
		revive(sim, sim->tier.committed.records[i]);
}

void oracle_check_disk(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->tier.committed.count; i++) {
		const struct sim_record *record = sim->tier.committed.records[i];
		const struct sim_object *object = object_of(
			sim, record->record.generation);

		if (object == NULL)
			sim_fail(sim, "the disk has what nobody put");
		if (!object->bad && !bytes_are_right(sim, record, object->put))
			sim_fail(sim, "key %" PRIu32 " has wrong bytes on disk",
				object->put->key);
	}
}

/* A report on what is only on disk is noted before its count is there: when it comes again
 * it is taken for counted. */
static void reads_in_doubt(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_PROCS * SIM_THREADS; i++) {
		const struct thread *thread =
			&sim->procs[i / SIM_THREADS].threads[i % SIM_THREADS];
		const struct call *call = &thread->call;

		if (thread->task.kind == TASK_REPORT && call->asked_count == 1 &&
			call->asked[0].object->places == 0)
			call->asked[0].object->reads_lost = true;
	}
}

void oracle_daemon_died(struct sim *sim)
{
	if (!sim->has_disk)
		return;
	reads_in_doubt(sim);
	oracle_check_disk(sim);
	revive_all(sim);
	oracle_look_disk(sim);
}

/* A time to live goes on from what was left of it when the record was written: it may have
 * become longer, never shorter. */
static void expires_again(struct sim *sim, struct sim_object *object)
{
	const struct oracle_key *there = &sim->oracle.keys[object->put->key];
	struct index_key key = {there->bytes, there->size, there->hash};
	const struct master *master = node_master(sim->daemon.node);
	uint32_t entry = master_disk_find(master, &key);
	uint64_t expires;

	if (entry == DISK_NONE)
		return;
	expires = master->disk.entries[entry].expires;
	if (expires < object->expires ||
		expires > sim->world.now_ns + object->put->ttl_ns)
		sim_fail(sim, "key %" PRIu32 " has another time to live after a start",
			object->put->key);
	object->expires = expires;
}

void oracle_daemon_started(struct sim *sim)
{
	sim->oracle.adopting = true;
	oracle_look_disk(sim);
	sim->oracle.adopting = false;
	for (uint32_t i = 0; sim->has_disk && i < SIM_KEYS; i++) {
		struct sim_object *object = sim->oracle.keys[i].object;

		if (object == NULL || object->places > 0)
			continue;
		sim_cover(sim, COVER_ADOPTED_FROM_DISK);
		if (object->put->ttl_ns != 0)
			expires_again(sim, object);
	}
}

/* ---- the host ------------------------------------------------------------ */

static void object_is_lost(struct sim *sim, struct sim_object *object, bool lied)
{
	struct oracle_key *key = &sim->oracle.keys[object->put->key];

	if (object->durable && !lied)
		sim_fail(sim, "key %" PRIu32 " was durable, and is lost with the host",
			object->put->key);
	trace_event(&sim->trace, "key %" PRIu32 " is lost", object->put->key);
	sim_cover(sim, COVER_HOST_LOST_OBJECT);
	object->reason = END_LOST;
	object->ended = sim->oracle.looks;
	key->object = NULL;
	key->present_at = sim->oracle.looks;
}

static void object_survives(struct sim *sim, struct sim_object *object, bool lied)
{
	const struct sim_record *record = record_of(sim, object);

	object->places = 0;
	object->moves++;
	object->reads_lost = true;
	if (!lied && object->durable)
		sim_cover(sim, COVER_HOST_LOST_DURABLE);
	if (!bytes_are_right(sim, record, object->put)) {
		if (!lied && !object->bad)
			sim_fail(sim, "key %" PRIu32 " is garbled, and was on disk",
				object->put->key);
		object->bad = true;
	}
}

/* A flush that lied takes back what was told: ends, and that all is well on disk. */
static void doubt_all(struct sim *sim)
{
	sim_cover(sim, COVER_HOST_LOST_LIED);
	list_for_each (at, &sim->oracle.objects) {
		struct sim_object *object = container_of(at, struct sim_object, entry);

		object->told_gone = false;
		if (record_of(sim, object) != NULL &&
			!bytes_are_right(sim, record_of(sim, object), object->put))
			object->bad = true;
	}
}

void oracle_host_lost(struct sim *sim, bool lied)
{
	struct oracle *oracle = &sim->oracle;

	oracle->looks++;
	memset(oracle->slots, 0,
		sim->world.share.header->slots_limit * sizeof(oracle->slots[0]));
	if (lied)
		doubt_all(sim);
	for (uint32_t i = 0; i < SIM_KEYS; i++) {
		struct sim_object *object = oracle->keys[i].object;

		if (object == NULL)
			continue;
		if (sim->has_disk && record_of(sim, object) != NULL)
			object_survives(sim, object, lied);
		else
			object_is_lost(sim, object, lied);
	}
	if (sim->has_disk)
		revive_all(sim);
	oracle_hash_keys(sim);
}
