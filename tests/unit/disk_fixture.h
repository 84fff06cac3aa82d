/*
 * disk_fixture.h - a drive for the master of core_fixture.h, whose jobs end when told.
 *
 * Its data file and index hold what real ones would. Bytes move at the end of a job, as
 * late as they may, so that a run or an extent that was given away too early shows in what
 * is read back. It refuses what core must never ask for: a write over bytes that a record
 * of the index names or that are being read, a record whose bytes are not there, a drop of
 * what is not there, unless a commit failed that may have been done all the same, or of
 * what another object has stored since.
 *
 * Memory    drive_open() to drive_close(). Index and data outlive the core: drive_restart()
 *           is that of the daemon, drive_reboot() that of the host.
 * Errors    a cmocka assertion.
 * Thread    one.
 */
#ifndef UNIT_DISK_FIXTURE_H
#define UNIT_DISK_FIXTURE_H

#include "core_fixture.h"

#define DRIVE_POOL    (256 * KIB)
#define DRIVE_DATA    MIB
#define DRIVE_ENTRIES 64u
#define DRIVE_RECORDS 128u
#define DRIVE_READS   4u
#define DRIVE_SLOTS   128u

/* One record of the index. */
struct drive_record {
	bool live;
	struct disk_record is;
	uint8_t value[DISK_INLINE]; /* of one that lies in the index */
};

struct drive_range {
	uint64_t off, size; /* of the data file; size 0: none */
};

struct drive {
	struct core core;
	uint64_t pool_size;
	struct disk_config config;
	uint8_t *data;
	struct drive_record index[DRIVE_RECORDS];
	struct drive_range reads[DRIVE_READS]; /* under way */
	struct disk_id unsure[DRIVE_RECORDS];  /* of changes that failed */
	uint32_t unsure_count;
	uint8_t byte; /* that the last object is full of */
};

static inline void drive_open(struct drive *drive, uint64_t pool_size, uint64_t data_size,
	uint32_t object_limit)
{
	memset(drive, 0, sizeof(*drive));
	drive->pool_size = pool_size;
	drive->config = (struct disk_config){data_size, object_limit, 500};
	drive->data = calloc(1, data_size);
	assert_non_null(drive->data);
	core_open_disk(&drive->core, pool_size, DRIVE_SLOTS, DRIVE_SLOTS, &drive->config);
	/* Nothing leaves but for a ticket. */
	drive->core.master.config.low_permille = 0;
}

static inline void drive_close(struct drive *drive)
{
	core_close(&drive->core);
	free(drive->data);
}

/* ---- objects ------------------------------------------------------------- */

static inline void drive_fill(struct drive *drive, uint32_t slot)
{
	const struct slot *there = core_slot(&drive->core, slot);

	memset(drive->core.share.pool + there->off, ++drive->byte, there->size);
}

/* A READY object full of a byte that no other one has. */
static inline uint32_t drive_put_like(struct drive *drive, const struct put_request *put)
{
	uint32_t slot = core_start(&drive->core, put);

	drive_fill(drive, slot);
	assert_int_equal(core_end(&drive->core, slot), 0);
	return slot;
}

static inline uint32_t drive_put(
	struct drive *drive, const char *key, uint64_t size, bool softpin)
{
	struct put_request put = core_request(&drive->core, key, size, softpin);

	return drive_put_like(drive, &put);
}

/* The last object's record is being deleted. */
static inline void drive_assert_put_waits(struct drive *drive, const char *key)
{
	struct put_request put = core_request(&drive->core, key, 100, CORE_SOFTPIN);
	uint32_t slot = 0;

	assert_int_equal(
		master_put_start(&drive->core.master, &put, NULL, &slot), PUT_BUSY);
	assert_int_equal(slot, SLOT_NONE);
	core_assert(&drive->core);
}

/* The object is in the pool, its bytes all `byte`, and its key is its own. */
static inline void drive_assert_bytes(struct drive *drive, const char *key, uint8_t byte)
{
	uint32_t slot = core_find(&drive->core, key);
	const struct slot *there;

	assert_int_not_equal(slot, SLOT_NONE);
	there = core_slot(&drive->core, slot);
	assert_int_equal(there->klen, strlen(key));
	assert_memory_equal(slot_key(&drive->core.share, there), key, there->klen);
	for (uint64_t i = 0; i < there->size; i++)
		assert_int_equal(drive->core.share.pool[there->off + i], byte);
}

static inline uint32_t drive_find(struct drive *drive, const char *key)
{
	struct index_key at = core_key(key);

	return master_disk_find(&drive->core.master, &at);
}

static inline bool drive_ends(struct drive *drive, const char *key)
{
	struct index_key at = core_key(key);

	return master_disk_ends(&drive->core.master, &at);
}

static inline struct disk_use drive_use(struct drive *drive)
{
	struct disk_use use;

	master_disk_use(&drive->core.master, &use);
	return use;
}

static inline uint64_t drive_checksum(const void *bytes, uint64_t size, const char *key)
{
	return hash_key(bytes, size, hash_key(key, strlen(key), 0));
}

/* ---- the index ----------------------------------------------------------- */

static inline struct drive_record *drive_record(
	struct drive *drive, const struct disk_id *id)
{
	for (uint32_t i = 0; i < DRIVE_RECORDS; i++) {
		struct drive_record *record = &drive->index[i];

		if (record->live && memcmp(&record->is.id, id, sizeof(*id)) == 0)
			return record;
	}
	return NULL;
}

static inline uint32_t drive_records(const struct drive *drive)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < DRIVE_RECORDS; i++)
		count += drive->index[i].live;
	return count;
}

/* The one record that there is. */
static inline struct drive_record *drive_only_record(struct drive *drive)
{
	struct drive_record *found = NULL;

	assert_int_equal(drive_records(drive), 1);
	for (uint32_t i = 0; i < DRIVE_RECORDS; i++) {
		if (drive->index[i].live)
			found = &drive->index[i];
	}
	return found;
}

static inline bool drive_overlaps(
	const struct disk_record *record, uint64_t off, uint64_t size)
{
	return record->off != DISK_ON_INDEX && off < record->off + record->size &&
	       record->off < off + size;
}

/* Nobody needs the bytes that lie there. */
static inline void drive_assert_unused(struct drive *drive, uint64_t off, uint64_t size)
{
	assert_int_equal(off % DISK_GRANULE, 0);
	assert_true(
		off <= drive->config.data_size && size <= drive->config.data_size - off);
	for (uint32_t i = 0; i < DRIVE_RECORDS; i++)
		assert_false(drive->index[i].live &&
			     drive_overlaps(&drive->index[i].is, off, size));
	for (uint32_t i = 0; i < DRIVE_READS; i++)
		assert_false(drive->reads[i].size > 0 &&
			     off < drive->reads[i].off + drive->reads[i].size &&
			     drive->reads[i].off < off + size);
}

/* ---- writes -------------------------------------------------------------- */

struct drive_write {
	struct save_item items[DRIVE_RECORDS];
	uint32_t count;
	uint64_t off;
};

/* False: there is nothing to write now. */
static inline bool drive_write_begin(struct drive *drive, struct drive_write *write)
{
	uint64_t at;

	write->count = master_save_next(&drive->core.master, drive->core.now,
		write->items, DRIVE_RECORDS, &write->off);
	core_assert(&drive->core);
	at = write->off;
	for (uint32_t i = 0; i < write->count && at != DISK_ON_INDEX; i++) {
		drive_assert_unused(drive, at, write->items[i].size);
		at += align_up_u64(write->items[i].size, DISK_GRANULE);
	}
	return write->count > 0;
}

static inline void drive_write_end(
	struct drive *drive, const struct drive_write *write, int err)
{
	uint32_t entries[DRIVE_RECORDS];
	uint64_t checksums[DRIVE_RECORDS];
	uint64_t at = write->off;

	for (uint32_t i = 0; i < write->count; i++) {
		const struct save_item *item = &write->items[i];
		const uint8_t *bytes = drive->core.share.pool + item->pool_off;

		entries[i] = item->entry;
		checksums[i] = hash_key(bytes, item->size, item->seed);
		if (at == DISK_ON_INDEX) {
			assert_true(item->size <= DISK_INLINE);
			continue;
		}
		if (err == 0)
			memcpy(drive->data + at, bytes, item->size);
		at += align_up_u64(item->size, DISK_GRANULE);
	}
	master_save_done(&drive->core.master, entries, write->count, checksums, err,
		drive->core.now);
	core_assert(&drive->core);
}

/* ---- commits ------------------------------------------------------------- */

struct drive_commit {
	uint32_t entries[DRIVE_RECORDS];
	uint32_t count;
	struct {
		bool drop;
		struct disk_record record;
		uint64_t value;
	} changes[DRIVE_RECORDS];
};

/* False: there is nothing to commit now. */
static inline bool drive_commit_begin(struct drive *drive, struct drive_commit *commit)
{
	struct master *master = &drive->core.master;

	commit->count = master_changes(
		master, commit->entries, DRIVE_RECORDS, drive->core.now);
	for (uint32_t i = 0; i < commit->count; i++)
		master_change_get(master, commit->entries[i], &commit->changes[i].drop,
			&commit->changes[i].record, &commit->changes[i].value);
	core_assert(&drive->core);
	return commit->count > 0;
}

static inline void drive_store(
	struct drive *drive, const struct disk_record *record, uint64_t value)
{
	struct drive_record *at = drive_record(drive, &record->id);

	for (uint32_t i = 0; at == NULL && i < DRIVE_RECORDS; i++) {
		if (!drive->index[i].live)
			at = &drive->index[i];
	}
	assert_non_null(at);
	if (record->off != DISK_ON_INDEX) {
		bool was = at->live && at->is.off == record->off;

		at->live = false;
		if (!was)
			drive_assert_unused(drive, record->off, record->size);
	} else if (value != UINT64_MAX) {
		memcpy(at->value, drive->core.share.pool + value, record->size);
	} else {
		/* The value stays as it is. */
		assert_true(at->live && at->is.generation == record->generation);
	}
	at->is = *record;
	at->live = true;
}

static inline bool drive_is_unsure(const struct drive *drive, const struct disk_id *id)
{
	for (uint32_t i = 0; i < drive->unsure_count; i++) {
		if (memcmp(&drive->unsure[i], id, sizeof(*id)) == 0)
			return true;
	}
	return false;
}

/* Whether the index has done it nobody knows. */
static inline void drive_doubt(struct drive *drive, const struct drive_commit *commit)
{
	for (uint32_t i = 0; i < commit->count; i++) {
		const struct disk_id *id = &commit->changes[i].record.id;

		if (drive_is_unsure(drive, id))
			continue;
		assert_true(drive->unsure_count < DRIVE_RECORDS);
		drive->unsure[drive->unsure_count++] = *id;
	}
}

static inline void drive_drop(struct drive *drive, const struct disk_record *is)
{
	struct drive_record *record = drive_record(drive, &is->id);

	if (!drive_is_unsure(drive, &is->id)) {
		assert_non_null(record);
		assert_int_equal(record->is.generation, is->generation);
		assert_int_equal(record->is.off, is->off);
	}
	if (record != NULL)
		record->live = false;
}

/* The index has all of the commit's changes. */
static inline void drive_apply(struct drive *drive, const struct drive_commit *commit)
{
	for (uint32_t i = 0; i < commit->count; i++) {
		const struct disk_record *record = &commit->changes[i].record;

		if (commit->changes[i].drop)
			drive_drop(drive, record);
		else
			drive_store(drive, record, commit->changes[i].value);
	}
}

static inline void drive_commit_end(
	struct drive *drive, const struct drive_commit *commit, int err)
{
	if (err == 0)
		drive_apply(drive, commit);
	else
		drive_doubt(drive, commit);
	master_changes_done(&drive->core.master, commit->entries, commit->count, err,
		drive->core.now);
	core_assert(&drive->core);
}

/* All that is to be written and committed, until nothing is, with the loop's turns. */
static inline void drive_sync(struct drive *drive)
{
	static struct drive_write write;
	static struct drive_commit commit;
	bool more = true;

	for (uint32_t i = 0; more; i++) {
		assert_true(i < 1000);
		more = false;
		core_run(&drive->core);
		while (drive_write_begin(drive, &write)) {
			drive_write_end(drive, &write, 0);
			more = true;
		}
		while (drive_commit_begin(drive, &commit)) {
			drive_commit_end(drive, &commit, 0);
			more = true;
		}
	}
}

static inline void drive_save_first(struct drive *drive, const char *key)
{
	master_save_first(&drive->core.master, core_find(&drive->core, key));
	core_assert(&drive->core);
}

/* The object is on disk, and still in the pool. */
static inline uint32_t drive_save(struct drive *drive, const char *key)
{
	uint32_t slot = core_find(&drive->core, key);

	drive_save_first(drive, key);
	drive_sync(drive);
	assert_int_equal(core_find(&drive->core, key), slot);
	assert_true(master_is_saved(&drive->core.master, slot));
	return slot;
}

/* A ticket of so many bytes: what is on disk makes room for it. */
static inline void drive_crowd(struct drive *drive, uint64_t size)
{
	struct ticket ticket;

	ticket_init(&ticket);
	master_room_wait(&drive->core.master, &ticket, size, 1);
	core_assert(&drive->core);
	core_run(&drive->core);
	assert_ptr_equal(master_room_granted(&drive->core.master), &ticket);
	master_room_cancel(&drive->core.master, &ticket);
	core_assert(&drive->core);
}

/* ---- loads --------------------------------------------------------------- */

struct drive_load {
	const char *key;
	struct disk_record is; /* as the index has it at the start */
	uint32_t entry, slot, read;
};

static inline void drive_load_read(struct drive *drive, struct drive_load *load)
{
	struct master *master = &drive->core.master;
	const struct disk_entry *entry = disk_entry(&master->disk, load->entry);

	assert_non_null(drive_record(drive, &entry->id));
	load->is = drive_record(drive, &entry->id)->is;
	load->read = DRIVE_READS;
	if (load->is.off == DISK_ON_INDEX)
		return;
	for (uint32_t i = 0; i < DRIVE_READS; i++) {
		if (drive->reads[i].size == 0)
			load->read = i;
	}
	assert_int_not_equal(load->read, DRIVE_READS);
	drive->reads[load->read] = (struct drive_range){load->is.off, load->is.size};
}

/* Begin to read the object back, which is only on disk. */
static inline enum load_verdict drive_load_begin(struct drive *drive, const char *key,
	struct ticket *ticket, struct drive_load *load)
{
	enum load_verdict verdict;

	load->key = key;
	load->entry = drive_find(drive, key);
	assert_int_not_equal(load->entry, DISK_NONE);
	verdict = master_load_start(&drive->core.master, load->entry, key, ticket,
		drive->core.now, &load->slot);
	core_assert(&drive->core);
	if (verdict == LOAD_STARTED)
		drive_load_read(drive, load);
	return verdict;
}

/* As the index or the data file has the bytes now; NULL: the record is gone. */
static inline const uint8_t *drive_bytes(
	struct drive *drive, const struct disk_record *is)
{
	const struct drive_record *record = drive_record(drive, &is->id);

	if (is->off != DISK_ON_INDEX)
		return drive->data + is->off;
	return record != NULL ? record->value : NULL;
}

static inline int drive_load_end(struct drive *drive, struct drive_load *load, int err)
{
	uint8_t *to = drive->core.share.pool + core_slot(&drive->core, load->slot)->off;
	const uint8_t *bytes = drive_bytes(drive, &load->is);
	uint64_t checksum = 0;

	if (err == 0 && bytes == NULL)
		err = ERR_NOT_FOUND;
	if (err == 0) {
		memcpy(to, bytes, load->is.size);
		checksum = drive_checksum(to, load->is.size, load->key);
	}
	if (load->read < DRIVE_READS)
		drive->reads[load->read].size = 0;
	err = master_load_done(
		&drive->core.master, load->slot, err, checksum, drive->core.now);
	core_assert(&drive->core);
	return err;
}

/* Read it back, if need be with a ticket. */
static inline uint32_t drive_load(struct drive *drive, const char *key)
{
	struct drive_load load;
	struct ticket ticket;
	enum load_verdict verdict = drive_load_begin(drive, key, NULL, &load);

	if (verdict == LOAD_NO_ROOM) {
		const struct disk_entry *entry = disk_entry(
			&drive->core.master.disk, load.entry);

		ticket_init(&ticket);
		master_room_wait_load(
			&drive->core.master, &ticket, entry->size, entry->klen);
		core_run(&drive->core);
		assert_ptr_equal(master_room_granted(&drive->core.master), &ticket);
		verdict = drive_load_begin(drive, key, &ticket, &load);
	}
	assert_int_equal(verdict, LOAD_STARTED);
	assert_int_equal(drive_load_end(drive, &load, 0), 0);
	assert_int_equal(core_find(&drive->core, key), load.slot);
	return load.slot;
}

/* Saved and read, and then out of the pool. */
static inline void drive_move(struct drive *drive, const char *key)
{
	(void)drive_save(drive, key);
	core_read(&drive->core, 0, key);
	drive_crowd(drive, drive->pool_size - drive->core.master.room.turning.size);
	assert_int_equal(core_find(&drive->core, key), SLOT_NONE);
	assert_int_not_equal(drive_find(drive, key), DISK_NONE);
}

/* ---- starts -------------------------------------------------------------- */

/* Adopt all records, by rising offset, those in the index last. `errors`: how often each
 * is refused is counted. */
static inline uint32_t drive_adopt(struct drive *drive)
{
	bool done[DRIVE_RECORDS] = {false};
	uint32_t refused = 0;

	for (;;) {
		uint32_t next = DRIVE_RECORDS;

		for (uint32_t i = 0; i < DRIVE_RECORDS; i++) {
			if (drive->index[i].live && !done[i] &&
				(next == DRIVE_RECORDS ||
					drive->index[i].is.off <
						drive->index[next].is.off))
				next = i;
		}
		if (next == DRIVE_RECORDS)
			break;
		done[next] = true;
		refused += master_disk_adopt(&drive->core.master, &drive->index[next].is,
				   drive->core.now) != 0;
	}
	master_disk_adopted(&drive->core.master);
	core_assert(&drive->core);
	return refused;
}

static inline void drive_end_jobs(struct drive *drive)
{
	memset(drive->reads, 0, sizeof(drive->reads));
}

/* The daemon is killed, with its jobs, and starts again on the same pool. Returns how many
 * records were refused. */
static inline uint32_t drive_restart(struct drive *drive, struct recovery *ret)
{
	drive_end_jobs(drive);
	core_restart(&drive->core, ret);
	drive->core.master.config.low_permille = 0;
	return drive_adopt(drive);
}

/* The host goes down: the pool is new. */
static inline uint32_t drive_reboot(struct drive *drive)
{
	drive_end_jobs(drive);
	core_close(&drive->core);
	core_open_disk(
		&drive->core, drive->pool_size, DRIVE_SLOTS, DRIVE_SLOTS, &drive->config);
	drive->core.master.config.low_permille = 0;
	return drive_adopt(drive);
}

/* ---- in most cases ------------------------------------------------------- */

static inline void drive_open_usual(struct drive *drive)
{
	drive_open(drive, DRIVE_POOL, DRIVE_DATA, DRIVE_ENTRIES);
}

/* Nothing is left anywhere; the turning room may stay withheld. */
static inline void drive_assert_nothing(struct drive *drive)
{
	struct pool_use pool;
	struct disk_use disk;

	drive_sync(drive);
	pool = core_use(&drive->core);
	disk = drive_use(drive);
	assert_int_equal(pool.objects, 0);
	assert_int_equal(pool.free + pool.withheld, DRIVE_POOL);
	assert_int_equal(disk.objects, 0);
	assert_int_equal(disk.used, 0);
	assert_int_equal(disk.changes, 0);
	assert_int_equal(disk.saving_bytes, 0);
	assert_int_equal(drive_records(drive), 0);
}

static inline void drive_must_write(struct drive *drive, struct drive_write *write)
{
	assert_true(drive_write_begin(drive, write));
}

static inline void drive_must_commit(struct drive *drive, struct drive_commit *commit)
{
	assert_true(drive_commit_begin(drive, commit));
}

/* The write of `key` has ended, its change is queued. */
static inline void drive_write_out(struct drive *drive, const char *key)
{
	struct drive_write write;

	drive_save_first(drive, key);
	drive_must_write(drive, &write);
	drive_write_end(drive, &write, 0);
}

#endif
