/*
 * tier.c - the disk's jobs: what the core wants written, committed, read or given back.
 *
 * Jobs are numbered by kind, so that no kind takes those of another, and loads, for each of
 * which somebody waits, have most. One commit is under way at a time; the changes that come
 * meanwhile go together in the next, so that a thousand removals cost a few flushes. Values
 * that lie in the index are no write: their checksum is made at once.
 *
 * Faults delay or fail a job at its start, and again at its end, where the bytes may have
 * reached the disk although the job failed: as after an EIO, nobody relies on either.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/hash.h"

#include <inttypes.h>

#define TROUBLE_AGAIN_NS 60000000000ull
#define NO_POINT         FAULT_POINT_COUNT

static void save_call(struct node *node, struct job *job, uint32_t number);
static void save_done(struct node *node, struct job *job, int err);
static void commit_call(struct node *node, struct job *job, uint32_t number);
static void commit_done(struct node *node, struct job *job, int err);
static void punch_call(struct node *node, struct job *job, uint32_t number);
static void punch_done(struct node *node, struct job *job, int err);

/* A kind has the jobs from `first` on. */
static const struct {
	uint32_t first, count;
	enum fault_point before, after;
	void (*call)(struct node *node, struct job *job, uint32_t number);
	void (*done)(struct node *node, struct job *job, int err);
} kinds[JOB_KINDS] = {
	[JOB_SAVE] = {0, TIER_SAVES, FAULT_NODE_BEFORE_DISK_WRITE,
		FAULT_NODE_AFTER_DISK_WRITE, save_call, save_done},
	[JOB_COMMIT] = {TIER_SAVES, TIER_COMMITS, FAULT_NODE_BEFORE_DISK_COMMIT,
		FAULT_NODE_AFTER_DISK_COMMIT, commit_call, commit_done},
	[JOB_PUNCH] = {TIER_SAVES + TIER_COMMITS, TIER_PUNCHES, NO_POINT, NO_POINT,
		punch_call, punch_done},
	[JOB_KEYS] = {TIER_SAVES + TIER_COMMITS + TIER_PUNCHES, TIER_LISTS, NO_POINT,
		NO_POINT, keys_call, keys_job_done},
	[JOB_LOAD] = {TIER_SAVES + TIER_COMMITS + TIER_PUNCHES + TIER_LISTS,
		TIER_JOB_LIMIT - TIER_SAVES - TIER_COMMITS - TIER_PUNCHES - TIER_LISTS,
		FAULT_NODE_BEFORE_DISK_READ, FAULT_NODE_AFTER_DISK_READ, load_call,
		load_job_done},
};

/* ---- the life of a job --------------------------------------------------- */

static uint32_t job_number(const struct node *node, const struct job *job)
{
	return (uint32_t)(job - node->tier.jobs);
}

struct job *job_new(struct node *node, enum job_kind kind)
{
	for (uint32_t i = 0; i < kinds[kind].count; i++) {
		struct job *job = &node->tier.jobs[kinds[kind].first + i];

		if (job->stage == JOB_FREE)
			return job;
	}
	return NULL;
}

static void job_end(struct node *node, struct job *job, int err)
{
	kinds[job->kind].done(node, job, err);
	job->stage = JOB_FREE;
	job->load = NULL;
	job->op = NULL;
	node->tier.jobs_used--;
}

/* False: its gate sleeps. */
static bool job_gate(struct node *node, struct job *job, enum fault_point point)
{
	return point == NO_POINT ||
	       gate_pass(node, GATE_JOBS + job_number(node, job), point, &job->err);
}

void job_go_on(struct node *node, uint32_t number)
{
	struct job *job = &node->tier.jobs[number];

	switch (job->stage) {
	case JOB_BEFORE:
		if (!job_gate(node, job, kinds[job->kind].before))
			return;
		if (job->err != 0) {
			job_end(node, job, job->err);
			return;
		}
		job->stage = JOB_RUNNING;
		kinds[job->kind].call(node, job, number);
		return;
	case JOB_AFTER:
		if (job_gate(node, job, kinds[job->kind].after))
			job_end(node, job, job->err);
		return;
	case JOB_FREE:
	case JOB_RUNNING:
		break;
	}
	NOT_REACHED("a job goes on that is free, or with the disk");
}

void job_start(struct node *node, struct job *job)
{
	uint32_t number = job_number(node, job);

	CHECK(job->stage == JOB_FREE);
	job->stage = JOB_BEFORE;
	job->err = 0;
	job->began_ns = node_now(node);
	node->tier.jobs_used++;
	node->stats.jobs++;
	job_go_on(node, number);
}

static void job_has_run(struct node *node, uint32_t number, int err)
{
	struct job *job = &node->tier.jobs[number];

	CHECK(job->stage == JOB_RUNNING);
	job->stage = JOB_AFTER;
	job->err = err;
	job_go_on(node, number);
}

void node_on_tier(struct node *node, uint32_t number, int err)
{
	CHECK(number < TIER_JOB_LIMIT);
	node_tick(node);
	job_has_run(node, number, err);
}

/* ---- trouble ------------------------------------------------------------- */

void tier_trouble(struct node *node, struct trouble *trouble, const char *what, int err)
{
	uint64_t now = node_now(node);

	if (err == 0) {
		if (trouble->there)
			log_line(node->config.log, LOG_LEVEL_INFO, "disk_well",
				"msg=\"%s works again\"", what);
		trouble->there = false;
		return;
	}
	if (trouble->told_ns != 0 && now - trouble->told_ns < TROUBLE_AGAIN_NS)
		return;
	trouble->told_ns = now;
	trouble->there = true;
	log_line(node->config.log, LOG_LEVEL_WARNING, "disk_trouble",
		"error=%s msg=\"%s fails: %s\"", err_name(err), what, err_text(err));
}

/* ---- saves --------------------------------------------------------------- */

/* Take what the core wants written. False: nothing now. */
static bool save_take(struct node *node, struct job *job, uint64_t now)
{
	struct tier *tier = &node->tier;
	struct save_memory *memory = job->save;

	job->count = master_save_next(
		&node->master, now, tier->items, TIER_PIECES, &job->off);
	job->size = 0;
	for (uint32_t i = 0; i < job->count; i++) {
		const struct save_item *item = &tier->items[i];

		job->size += item->size;
		memory->entries[i] = item->entry;
		memory->pieces[i] = (struct tier_piece){
			.pool_off = item->pool_off,
			.size = item->size,
			.seed = item->seed,
		};
	}
	return job->count > 0;
}

static void save_call(struct node *node, struct job *job, uint32_t number)
{
	struct tier_piece *pieces = job->save->pieces;

	if (job->off != TIER_ON_INDEX) {
		node->env.tier.write(
			node->env.tier.ctx, number, job->off, pieces, job->count);
		return;
	}
	for (uint32_t i = 0; i < job->count; i++)
		pieces[i].checksum = hash_key(node->share->pool + pieces[i].pool_off,
			pieces[i].size, pieces[i].seed);
	job_has_run(node, number, 0);
}

static void wake_entries(struct node *node, const uint32_t *entries, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		waiters_wake(node, disk_entry(&node->master.disk, entries[i])->hash);
}

static void save_done(struct node *node, struct job *job, int err)
{
	struct save_memory *memory = job->save;

	for (uint32_t i = 0; i < job->count; i++)
		memory->checksums[i] = memory->pieces[i].checksum;
	if (err == 0 && job->off != TIER_ON_INDEX)
		speed_note(&node->tier.save_speed, job->size,
			node_now(node) - job->began_ns);
	/* Who wants one of them durable hears of the failure now. */
	if (err != 0)
		wake_entries(node, memory->entries, job->count);
	master_save_done(&node->master, memory->entries, job->count, memory->checksums,
		err, node_now(node));
	tier_trouble(node, &node->tier.writing, "writing to the disk", err);
}

/* True: there is more to do now. */
static bool saves_step(struct node *node, uint64_t now)
{
	for (uint32_t i = 0; i < TIER_SAVES; i++) {
		struct job *job = job_new(node, JOB_SAVE);

		if (job == NULL || !save_take(node, job, now))
			return false;
		job_start(node, job);
	}
	return true;
}

/* ---- commits ------------------------------------------------------------- */

static uint64_t ttl_left(uint64_t expires, uint64_t now)
{
	if (expires == UINT64_MAX)
		return 0;
	return expires > now ? expires - now : 1; /* 0 would be none */
}

static void commit_fill(
	const struct node *node, uint32_t entry, uint64_t now, struct tier_change *ret)
{
	const struct disk_entry *there = disk_entry(&node->master.disk, entry);
	struct disk_record record;
	uint64_t value;
	bool drop;

	master_change_get(&node->master, entry, &drop, &record, &value);
	*ret = (struct tier_change){
		.drop = drop,
		.value = value,
		.record =
			{
				.id = {{record.id.word[0], record.id.word[1]}},
				.off = record.off,
				.size = record.size,
				.generation = record.generation,
				.checksum = record.checksum,
				.ttl_ns = ttl_left(record.expires, now),
				.readers_left = record.readers_left,
				.klen = record.klen,
				.wanted = record.wanted,
				.flags = (record.softpin ? SLOT_SOFTPIN : 0u) |
					 (record.durable ? SLOT_DURABLE : 0u) |
					 (record.expires != UINT64_MAX ? SLOT_EXPIRES
								       : 0u) |
					 (record.counted ? TIER_COUNTED : 0u),
			},
	};
	/* While it is being saved it stays in the pool; later it may leave at any time. */
	if (!drop && there->state == DISK_SAVING)
		ret->record.key = slot_key(node->share, &node->share->slots[there->slot]);
}

static void commit_call(struct node *node, struct job *job, uint32_t number)
{
	node->env.tier.commit(
		node->env.tier.ctx, number, job->commit->changes, job->count);
}

static void commit_done(struct node *node, struct job *job, int err)
{
	struct commit_memory *memory = job->commit;

	/* Those that end are gone from the core's table after it. */
	for (uint32_t i = 0; i < job->count; i++)
		memory->hashes[i] =
			disk_entry(&node->master.disk, memory->entries[i])->hash;
	master_changes_done(
		&node->master, memory->entries, job->count, err, node_now(node));
	for (uint32_t i = 0; i < job->count; i++)
		waiters_wake(node, memory->hashes[i]);
	tier_trouble(node, &node->tier.writing, "writing to the disk", err);
}

static void commit_step(struct node *node, uint64_t now)
{
	struct job *job = job_new(node, JOB_COMMIT);

	if (job == NULL)
		return;
	job->count = master_changes(
		&node->master, job->commit->entries, TIER_PIECES, now);
	if (job->count == 0)
		return;
	for (uint32_t i = 0; i < job->count; i++)
		commit_fill(node, job->commit->entries[i], now, &job->commit->changes[i]);
	job_start(node, job);
}

/* ---- space given back ---------------------------------------------------- */

static void punch_call(struct node *node, struct job *job, uint32_t number)
{
	node->env.tier.punch(node->env.tier.ctx, number, job->off, job->size);
}

static void punch_done(struct node *node, struct job *job, int err)
{
	master_trim_done(&node->master, job->run);
	tier_trouble(node, &node->tier.writing, "writing to the disk", err);
}

static void punch_step(struct node *node)
{
	struct job *job = job_new(node, JOB_PUNCH);
	uint64_t backed;

	if (job == NULL)
		return;
	backed = node->env.tier.backed(node->env.tier.ctx);
	if (master_trim_next(&node->master, backed, &job->off, &job->size, &job->run))
		job_start(node, job);
}

/* ---- turns --------------------------------------------------------------- */

bool tier_step(struct node *node, uint64_t now)
{
	bool more;

	if (!tier_is_there(node))
		return false;
	loads_step(node);
	keys_step(node);
	more = saves_step(node, now);
	commit_step(node, now);
	punch_step(node);
	return more;
}

/* The disk is tried again some time after an error; nothing else here is due by itself. */
uint64_t tier_next(const struct node *node)
{
	const struct disk *disk = &node->master.disk;

	if (disk->error == 0 || disk->retry_ns <= node_now(node))
		return UINT64_MAX;
	return disk->retry_ns;
}

/* ---- start --------------------------------------------------------------- */

int tier_allocate(struct node *node)
{
	struct tier *tier = &node->tier;
	uint32_t loads = (uint32_t)node->config.max_ops + TIER_JOB_LIMIT;
	bool failed = false;

	list_init(&tier->queue);
	list_init(&tier->in_room);
	list_init(&tier->listing);
	list_init(&tier->free_loads);
	for (uint32_t kind = 0; kind < JOB_KINDS; kind++) {
		for (uint32_t i = 0; i < kinds[kind].count; i++)
			tier->jobs[kinds[kind].first + i].kind = (enum job_kind)kind;
	}
	if (!tier_is_there(node))
		return 0;
	tier->saves = node_alloc(node, TIER_SAVES, sizeof(*tier->saves), &failed);
	tier->commits = node_alloc(node, TIER_COMMITS, sizeof(*tier->commits), &failed);
	tier->keys = node_alloc(node, TIER_LISTS, sizeof(*tier->keys), &failed);
	tier->loads = node_alloc(node, loads, sizeof(*tier->loads), &failed);
	tier->load_buckets = node_alloc(
		node, NODE_LOAD_BUCKETS, sizeof(struct list), &failed);
	if (failed)
		return ERR_NO_MEMORY;
	for (uint32_t i = 0; i < TIER_SAVES; i++)
		tier->jobs[kinds[JOB_SAVE].first + i].save = &tier->saves[i];
	for (uint32_t i = 0; i < TIER_COMMITS; i++)
		tier->jobs[kinds[JOB_COMMIT].first + i].commit = &tier->commits[i];
	for (uint32_t i = 0; i < TIER_LISTS; i++)
		tier->jobs[kinds[JOB_KEYS].first + i].keys = &tier->keys[i];
	for (uint32_t i = 0; i < NODE_LOAD_BUCKETS; i++)
		list_init(&tier->load_buckets[i]);
	for (uint32_t i = 0; i < loads; i++) {
		list_init(&tier->loads[i].queue_entry);
		ticket_init(&tier->loads[i].ticket);
		list_add_tail(&tier->free_loads, &tier->loads[i].entry);
	}
	return 0;
}

/* What comes from the disk is checked before it is believed: here the key, in the core the
 * rest. */
static int adopt_record(struct node *node, const struct tier_record *from, uint64_t now)
{
	struct disk_record record = {
		.id = {{from->id.word[0], from->id.word[1]}},
		.off = from->off,
		.size = from->size,
		.generation = from->generation,
		.checksum = from->checksum,
		.expires = from->flags & SLOT_EXPIRES ? time_after(now, from->ttl_ns)
						      : UINT64_MAX,
		.readers_left = from->readers_left,
		.klen = from->klen,
		.wanted = keepers_wanted(from->wanted),
		.softpin = (from->flags & SLOT_SOFTPIN) != 0,
		.counted = (from->flags & TIER_COUNTED) != 0,
		.durable = (from->flags & SLOT_DURABLE) != 0,
	};

	if (from->key == NULL || msg_key_check(from->key, from->klen) != 0)
		return ERR_CORRUPT;
	record.hash = hash_key(from->key, from->klen, node->share->header->hash_seed);
	return master_disk_adopt(&node->master, &record, now);
}

/* Their room would be given to others, whose records then stand beside theirs. */
static int adopt_refuse(const struct node *node, uint64_t too_many)
{
	uint32_t limit = node->master.disk.config.object_limit;

	log_line(node->config.log, LOG_LEVEL_ERROR, "start_refused",
		"objects=%" PRIu64 " limit=%" PRIu32
		" msg=\"the disk has more objects than may be there: raise "
		"--disk-objects, or --disk-size, of which each takes 512 bytes\"",
		limit + too_many, limit);
	return ERR_TOO_MANY;
}

int tier_start(struct node *node)
{
	const struct env_tier *env = &node->env.tier;
	struct tier *tier = &node->tier;
	uint64_t now = node_now(node), too_many = 0;
	struct tier_record record;

	if (!tier_is_there(node))
		return 0;
	for (uint64_t at = 0; env->adopt(env->ctx, at, &record); at++) {
		int err = adopt_record(node, &record, now);

		tier->adopted += err == 0;
		tier->refused += err == ERR_CORRUPT;
		too_many += err == ERR_TOO_MANY;
	}
	if (too_many > 0)
		return adopt_refuse(node, too_many);
	/* What is older than the pool's, and about to go. */
	tier->dropped = node->master.disk.changes.count;
	tier->adopted -= MIN(tier->adopted, tier->dropped);
	master_disk_adopted(&node->master);
	log_line(node->config.log, tier->refused > 0 ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
		"disk_adopted",
		"adopted=%" PRIu64 " dropped=%" PRIu64 " corrupt=%" PRIu64
		" bytes=%" PRIu64 " size=%" PRIu64,
		tier->adopted, tier->dropped, tier->refused, node->master.disk.bytes,
		node->master.disk.config.data_size);
	return 0;
}

/* ---- check --------------------------------------------------------------- */

const char *tier_check(const struct node *node)
{
	const struct tier *tier = &node->tier;
	uint32_t used = 0, queued = 0;

	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++) {
		const struct job *job = &tier->jobs[i];

		used += job->stage != JOB_FREE;
		if (node->gates[GATE_JOBS + i].asleep && job->stage != JOB_BEFORE &&
			job->stage != JOB_AFTER)
			return "a job sleeps that is not at a gate";
		if (job->load != NULL &&
			(job->stage == JOB_FREE || job->load->state != LOADS_READ))
			return "a job and its load disagree";
	}
	if (used != tier->jobs_used)
		return "the number of jobs is wrong";
	if (!tier_is_there(node))
		return NULL;
	for (uint32_t i = 0; i < node->config.max_ops + TIER_JOB_LIMIT; i++) {
		const struct load *load = &tier->loads[i];

		if (load->ticket.state != TICKET_IDLE && load->state != LOADS_ROOM)
			return "a load has a ticket that it does not wait with";
		if (load->state != LOADS_READ && load->state != LOADS_FREE &&
			load->waiters == 0)
			return "a load waits that nobody waits for";
		queued += load->state == LOADS_QUEUE;
	}
	list_for_each (at, &tier->queue)
		queued--;
	return queued == 0 ? NULL : "the queue of loads is wrong";
}
