/*
 * flow_load.c - read an object back from the disk, once for all who ask.
 *
 *   (asked) --no hole--> ROOM --granted--> QUEUE --job--> READ --> READY, a pin for each
 *      '--a hole-------------------------->'  |             '--> an error for each
 *                                             '--nobody waits any more: given up
 *
 * Whoever asks waits in the bucket of its key, with its own deadline, and has the load as
 * op->load. The pins are taken in the step that makes the object READY, so that nothing can
 * evict it before they are taken up. Errors are not kept: the next who asks has it tried
 * again. What was removed meanwhile is looked for again by those who wait, and not found.
 * A read that nobody waits for any more still ends, and leaves the object in the pool, free
 * for the asking.
 *
 * The items of a batch take no part in the queue for room with more than can be there at
 * once: each is promised its bytes, beside what is held and was promised before, or refused.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/plant.h"

#include <inttypes.h>

static struct disk_entry *entry_of(const struct node *node, const struct load *load)
{
	return disk_entry(&node->master.disk, load->disk);
}

static struct list *load_bucket(const struct node *node, uint32_t entry)
{
	return &node->tier.load_buckets[entry % NODE_LOAD_BUCKETS];
}

/* ---- begin and end ------------------------------------------------------- */

bool load_is_of(const struct node *node, const struct load *load, uint32_t entry)
{
	return load->disk == entry &&
	       load->generation == entry_of(node, load)->generation;
}

static struct load *load_find(const struct node *node, uint32_t entry)
{
	list_for_each (at, load_bucket(node, entry)) {
		struct load *load = container_of(at, struct load, entry);

		if (load_is_of(node, load, entry) && !PLANTED(SECOND_LOAD))
			return load;
	}
	return NULL;
}

static struct load *load_new(struct node *node, uint32_t entry)
{
	struct list *free = list_first(&node->tier.free_loads);
	struct load *load;

	/* Each has an op that waits for it, or a job. */
	CHECK(free != NULL);
	load = container_of(free, struct load, entry);
	list_move_tail(load_bucket(node, entry), &load->entry);
	load->disk = entry;
	load->generation = entry_of(node, load)->generation;
	load->hash = entry_of(node, load)->hash;
	load->slot = SLOT_NONE;
	load->waiters = 0;
	load->promised = 0;
	node->tier.loads_used++;
	return load;
}

/* It has its run now, or will never have it. */
static void load_unpromise(struct node *node, struct load *load)
{
	if (load->promised > 0)
		master_load_promise(&node->master, -(int64_t)load->promised);
	load->promised = 0;
}

static void load_free(struct node *node, struct load *load)
{
	CHECK(load->ticket.state == TICKET_IDLE);
	load_unpromise(node, load);
	load->state = LOADS_FREE;
	list_del(&load->queue_entry);
	list_move_tail(&node->tier.free_loads, &load->entry);
	node->tier.loads_used--;
}

/* ---- ROOM, QUEUE --------------------------------------------------------- */

/* Who waits for it first. */
static struct op *load_first_waiter(struct node *node, const struct load *load)
{
	list_for_each (at, waiters_bucket(node, load->hash)) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->load == load)
			return op;
	}
	return NULL;
}

/* False: there is no such object any more. */
static bool load_place(struct node *node, struct load *load, const struct index_key *key,
	struct ticket *ticket)
{
	switch (master_load_start(&node->master, load->disk, key->data, ticket,
		node_now(node), &load->slot)) {
	case LOAD_STARTED:
		load_unpromise(node, load);
		load->state = LOADS_QUEUE;
		list_move_tail(&node->tier.queue, &load->queue_entry);
		return true;
	case LOAD_NO_ROOM:
		load->state = LOADS_ROOM;
		list_move_tail(&node->tier.in_room, &load->queue_entry);
		node->stats.waits_room++;
		master_room_wait_load(&node->master, &load->ticket,
			entry_of(node, load)->size, key->size);
		return true;
	case LOAD_GONE:
		return false;
	}
	NOT_REACHED("no such verdict");
}

void load_has_room(struct node *node, struct load *load)
{
	struct op *op = load_first_waiter(node, load);

	CHECK(op != NULL && load->state == LOADS_ROOM);
	if (!load_is_of(node, load, master_disk_find(&node->master, &op->key)) ||
		!load_place(node, load, &op->key, &load->ticket))
		waiters_wake(node, load->hash); /* they look again, and leave it */
}

/* ---- who waits ----------------------------------------------------------- */

/* A batch's items ask for no more than can be there at once. */
static bool load_is_promised(struct node *node, struct load *load, const struct op *op)
{
	const struct disk_entry *entry = entry_of(node, load);
	uint64_t bytes = master_run_bytes(entry->size, entry->klen);

	if (op->parent == NULL)
		return true;
	if (!master_load_fits(&node->master, bytes, node_now(node)))
		return false;
	load->promised = bytes;
	master_load_promise(&node->master, (int64_t)load->promised);
	return true;
}

enum load_begin load_join(struct node *node, struct op *op, uint32_t entry)
{
	struct load *load = load_find(node, entry);

	if (load != NULL) {
		node->stats.loads_joined++;
	} else {
		load = load_new(node, entry);
		if (!load_is_promised(node, load, op)) {
			load_free(node, load);
			node->stats.loads_refused++;
			return LOAD_REFUSED;
		}
		if (!load_place(node, load, &op->key, NULL)) {
			load_free(node, load);
			return LOAD_ENDED;
		}
	}
	load->waiters++;
	op->load = load;
	return LOAD_JOINED;
}

/* Nobody waits for it: what it has goes back, unless its bytes are on their way. */
static void load_give_up(struct node *node, struct load *load)
{
	switch (load->state) {
	case LOADS_ROOM:
		if (load->ticket.state != TICKET_IDLE)
			master_room_cancel(&node->master, &load->ticket);
		break;
	case LOADS_QUEUE:
		(void)master_load_done(
			&node->master, load->slot, ERR_TIMEOUT, 0, node_now(node));
		break;
	case LOADS_READ:
		return;
	case LOADS_FREE:
		NOT_REACHED("a free load was waited for");
	}
	load_free(node, load);
}

void load_leave(struct node *node, struct op *op)
{
	struct load *load = op->load;

	if (load == NULL)
		return;
	op->load = NULL;
	CHECK(load->waiters > 0);
	if (--load->waiters == 0)
		load_give_up(node, load);
}

/* ---- ended meanwhile ----------------------------------------------------- */

static bool load_is_moot(const struct node *node, const struct load *load)
{
	return entry_of(node, load)->state != DISK_STORED ||
	       entry_of(node, load)->generation != load->generation;
}

static bool wake_moot(struct node *node, const struct list *loads)
{
	bool any = false;

	list_for_each (at, loads) {
		const struct load *load = container_of(at, struct load, queue_entry);

		if (!load_is_moot(node, load))
			continue;
		waiters_wake(node, load->hash);
		any = true;
	}
	return any;
}

bool loads_look(struct node *node)
{
	bool any = wake_moot(node, &node->tier.in_room);

	any |= wake_moot(node, &node->tier.queue);
	return any;
}

/* ---- READ ---------------------------------------------------------------- */

void loads_step(struct node *node)
{
	struct list *first;
	struct job *job;

	while ((first = list_first(&node->tier.queue)) != NULL &&
		(job = job_new(node, JOB_LOAD)) != NULL) {
		struct load *load = container_of(first, struct load, queue_entry);
		const struct disk_entry *entry = entry_of(node, load);
		const struct slot *slot = &node->share->slots[load->slot];

		list_del(first);
		load->state = LOADS_READ;
		job->load = load;
		job->off = entry->block == EXTENT_NONE
				   ? TIER_ON_INDEX
				   : extent_off_bytes(
					     &node->master.disk.extents, entry->block);
		job->piece = (struct tier_piece){
			.pool_off = slot->off,
			.size = slot->size,
			.seed = hash_key(slot_key(node->share, slot), slot->klen, 0),
		};
		job_start(node, job);
	}
}

void load_call(struct node *node, struct job *job, uint32_t number)
{
	const struct env_tier *env = &node->env.tier;
	const struct disk_entry *entry = entry_of(node, job->load);
	struct tier_id id = {{entry->id.word[0], entry->id.word[1]}};

	if (job->off == TIER_ON_INDEX)
		env->fetch(env->ctx, number, id, &job->piece);
	else
		env->read(env->ctx, number, job->off, &job->piece);
}

/* Each that waits has the pin, or the error, when it runs. */
static void load_settle_waiters(
	struct node *node, const struct load *load, uint32_t slot, int err)
{
	list_for_each (at, waiters_bucket(node, load->hash)) {
		struct op *op = container_of(at, struct op, wait_entry);
		uint64_t limit;

		if (op->load != load)
			continue;
		op->load = NULL;
		if (err == 0 && lane_pin(node, op->lane, slot, &limit) == 0) {
			op->slot = slot;
			op->life = slot_life_of(atomic_load_explicit(
				&node->share->slots[slot].state, memory_order_relaxed));
		} else if (err != 0 && err != ERR_NOT_FOUND) {
			op->failure = err;
		}
		op_wake(node, op);
	}
}

/* A cache object whose bytes are spoiled is a miss, and so is one that other nodes keep, too; any
 * other stays, for its owner to see. */
static int load_is_corrupt(
	struct node *node, const struct load *load, const struct disk_entry *what)
{
	const struct op *op = load_first_waiter(node, load);
	struct errand errand = {
		.kind = ERRAND_LEAVE,
		.generation = what->generation,
		/* By its name, so that the fetch which follows does not have it left out. */
		.node = node->cluster.id,
	};

	tier_trouble(
		node, &node->tier.corrupt, "the checksum of what was read", ERR_CORRUPT);
	if (op == NULL || (what->softpin && (what->wanted < 2 || !node->cluster.there)))
		return ERR_CORRUPT;
	if (what->softpin) {
		errand.id = dir_id_of_key(op->key.data, op->key.size);
		errand.key = op->key.data;
		errand.key_size = op->key.size;
		errand_add(node, &errand);
	}
	return master_remove(&node->master, &op->key, node_now(node)) == 0 ? ERR_NOT_FOUND
									   : ERR_CORRUPT;
}

void load_job_done(struct node *node, struct job *job, int err)
{
	struct load *load = job->load;
	struct disk_entry what = *entry_of(node, load);
	uint32_t slot = load->slot;

	if (err == ERR_NOT_FOUND) /* of the index: it has lost what it was told to keep */
		err = ERR_CORRUPT;
	tier_trouble(node, &node->tier.reading, "reading from the disk", err);
	err = master_load_done(
		&node->master, slot, err, job->piece.checksum, node_now(node));
	if (err == ERR_CORRUPT)
		err = load_is_corrupt(node, load, &what);
	else if (err == 0)
		yield_loaded(node, slot);
	load_settle_waiters(node, load, slot, err);
	load->waiters = 0;
	load_free(node, load);
}
