/*
 * store_priv.h - the parts of a store, each in a file of its own.
 *
 *   home      the directory: lock, data file, what is adopted and what is refused
 *   record    an object's record as it lies in the index
 *   walk      the index file read as bytes, before anybody trusts it
 *   found     the records of the start, for adopt()
 *   catalog   the index in use, over LMDB
 *   queue     jobs, threads, completions
 *   move      bytes between the pool and the data file
 */
#ifndef TIER_STORE_PRIV_H
#define TIER_STORE_PRIV_H

#include "base/list.h"
#include "tier/store.h"

#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <sys/types.h>

#define STORE_VERSION 1u /* of the directory: files, records */
#define STORE_UUID    16
#define STORE_INDEX   "index"
#define STORE_THREADS 32u

/* ---- home.c -------------------------------------------------------------- */

/* Whom to tell what, while a store opens. */
struct tell {
	char *detail;
	size_t detail_size;
	void *ctx;
	void (*warn)(void *ctx, const char *text);
};

/* Write the detail, and return `err`, so that a refusal is one statement. */
int tell_fail(const struct tell *tell, int err, const char *format, ...)
	PRINTF_LIKE(3, 4);
void tell_warn(const struct tell *tell, const char *format, ...) PRINTF_LIKE(2, 3);

struct home {
	char path[PATH_MAX - 16]; /* absolute; a file's name fits behind it */
	int dir_fd, lock_fd, data_fd;
	uint8_t uuid[STORE_UUID]; /* of data file and index */
	uint64_t index_size, data_size;
	bool has_data;  /* the data file has a header, else it is to be made */
	bool has_index; /* there is a file of that name */
	bool direct;
};

/* Take the directory; find out what is in it. */
int home_open(struct home *home, const struct store_config *config,
	const struct tell *tell) MUST_CHECK;
void home_close(struct home *home);
/* Whether `data_end` bytes of objects and `index_end` of index fit into the sizes. */
int home_check_sizes(const struct home *home, uint64_t disk_size, uint64_t data_end,
	uint64_t index_end, const struct tell *tell) MUST_CHECK;
/* An empty data file with a new uuid; the index is to follow. */
int home_reset(struct home *home, const struct tell *tell) MUST_CHECK;
/* Move the damaged index aside. */
int home_set_aside(
	struct home *home, uint64_t disk_size, const struct tell *tell) MUST_CHECK;
/* Give the data file its length. */
int home_set_length(struct home *home, const struct tell *tell) MUST_CHECK;
/* Where the data file's byte 0 of objects lies. */
#define HOME_DATA_AT ((off_t)TIER_BLOCK)

uint64_t file_backed(int fd); /* bytes that the file system gave it */
/* 0, ERR_NO_SPACE or ERR_IO. */
int file_error(int number);

/* ---- record.c ------------------------------------------------------------ */

#define RECORD_KEY_MAX 1024u
#define RECORD_ID_SIZE 16u
#define RECORD_MAX     (56u + 32u + RECORD_KEY_MAX + TIER_INLINE)

/* By which a time to live goes on, if the host did not start anew. */
struct record_clock {
	uint64_t boot_ns;
	uint8_t boot_id[16];
};

/* From the kernel; a boot id of zeros, where it has none, is never that of a record. */
void record_clock_read(struct record_clock *clock);

void record_id_encode(unsigned char bytes[RECORD_ID_SIZE], struct tier_id id);
struct tier_id record_id_decode(const unsigned char bytes[RECORD_ID_SIZE]);

/* Returns its size, at most RECORD_MAX. `value` counts if record->off is TIER_ON_INDEX. */
size_t record_encode(unsigned char *buffer, const struct tier_record *record,
	const void *value, const struct record_clock *clock);
/* False: it is not a record of this id. Key and value point into `bytes`. */
bool record_decode(const unsigned char *bytes, size_t size, struct tier_id id,
	const struct record_clock *clock, struct tier_record *ret,
	const unsigned char **ret_value) MUST_CHECK;

/* ---- walk.c -------------------------------------------------------------- */

/* Non-zero ends the walk and is its result. */
typedef int (*walk_fn)(void *ctx, const unsigned char *key, size_t key_size,
	const unsigned char *value, size_t size);

struct walk_end {
	uint64_t index_end; /* bytes up to the last page in use */
	const char *why;    /* with ERR_CORRUPT */
	uint64_t page;
};

/*
 * Call `fn` for each entry by rising key. 0: LMDB can use the file without harm;
 * ERR_CORRUPT: it could crash on it; ERR_IO: it cannot be read; ERR_NO_MEMORY.
 */
int walk_index(int fd, walk_fn fn, void *ctx, struct walk_end *ret) MUST_CHECK;

/* ---- found.c ------------------------------------------------------------- */

struct found {
	struct tier_record *records; /* sorted by found_sort() */
	uint64_t count, room;
	char *keys; /* the newest chunk; it begins with a pointer to the one before */
	size_t keys_used;
	unsigned char *skipped; /* ids of records that did not decode */
	uint64_t skipped_count;
	uint64_t data_end; /* behind the last object in the data file */
	struct record_clock clock;
	uint8_t uuid[STORE_UUID]; /* that the index has */
	bool has_head;
	uint32_t version;
};

void found_init(struct found *found);
void found_free(struct found *found);
int found_add(void *ctx, const unsigned char *key, size_t key_size,
	const unsigned char *value, size_t size); /* a walk_fn */
void found_sort(struct found *found);
/* As env_tier.adopt. */
bool found_get(struct found *found, uint64_t at, struct tier_record *ret);

/* The entry that tells whose index it is. */
#define FOUND_HEAD_KEY  "cenote"
#define FOUND_HEAD_SIZE 32u
void found_head_encode(
	unsigned char bytes[FOUND_HEAD_SIZE], const uint8_t uuid[STORE_UUID]);

/* ---- catalog.c ----------------------------------------------------------- */

struct catalog {
	MDB_env *env; /* NULL after a failure: opened again by the next job */
	char path[PATH_MAX];
	uint64_t size; /* of the map, and of the file */
	uint64_t
		allocated; /* bytes from 0 on that the file system is known to have given */
	struct record_clock clock;
};

int catalog_make(const struct home *home, const struct tell *tell) MUST_CHECK;
int catalog_open(struct catalog *catalog, const struct home *home,
	const struct tell *tell) MUST_CHECK;
void catalog_close(struct catalog *catalog);
int catalog_commit(struct catalog *catalog, const unsigned char *pool,
	const struct tier_change *changes, uint32_t count) MUST_CHECK;
int catalog_fetch(struct catalog *catalog, struct tier_id id, unsigned char *pool,
	struct tier_piece *piece) MUST_CHECK;
int catalog_keys(struct catalog *catalog, const struct tier_id *ids, uint32_t count,
	unsigned char *buffer, size_t size) MUST_CHECK;
/* Delete entries that do not decode. */
int catalog_purge(
	struct catalog *catalog, const unsigned char *ids, uint64_t count) MUST_CHECK;
uint64_t catalog_backed(const struct catalog *catalog);

/* ---- queue.c ------------------------------------------------------------- */

enum job_kind {
	JOB_WRITE,
	JOB_READ,
	JOB_PUNCH,
	JOB_COMMIT,
	JOB_FETCH,
	JOB_KEYS
};

struct store_job {
	struct list entry; /* of one of the queue's lists, or of none */
	uint32_t number;   /* the caller's */
	enum job_kind kind;
	int err;
	uint64_t off, size; /* in the data file; `size`: of a punch */
	struct tier_piece *pieces;
	uint32_t count; /* of pieces, ids or changes */
	struct tier_id id;
	const struct tier_id *ids;
	const struct tier_change *changes;
	void *buffer;
	size_t buffer_size;

	/* Under the queue's lock: what of it the next thread takes. */
	uint32_t next_piece;
	uint64_t next_from; /* byte within that piece */
	uint64_t next_off;
	uint32_t running; /* parts that threads work on */
	bool is_cut;      /* there is nothing left to take */
};

struct mover {
	struct store *store;
	unsigned char *bounce;
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t has_moves, has_index;
	struct list reads, writes, index, done, free;
	bool read_last; /* a part of a read was taken last, so it is a write's turn */
	struct store_job jobs[TIER_JOB_LIMIT];
	struct loop_source source; /* an eventfd: `done` is not empty */
	bool is_open, is_closing;
	unsigned char *bounce; /* MOVE_BYTES for each mover */
	struct mover movers[STORE_THREADS];
	pthread_t threads[STORE_THREADS + 1];
	uint32_t thread_count;
};

struct store {
	struct store_config config;
	struct home home;
	struct catalog catalog;
	struct found found;
	struct store_info info;
	struct queue queue;
	_Atomic uint64_t backed;
	_Atomic uint64_t writes_ended; /* jobs; the index thread flushed up to: */
	uint64_t writes_flushed;
};

int queue_open(struct store *store) MUST_CHECK;
void queue_close(struct store *store);
/* A job to be filled and then added; loop thread. */
struct store_job *queue_job(struct store *store, enum job_kind kind, uint32_t number);
void queue_add(struct store *store, struct store_job *job);

/* What the file system gave to both files. */
void store_count_backed(struct store *store);
/* Flush the data file if a write ended since the last time. Index thread. */
int store_flush(struct store *store) MUST_CHECK;

/* ---- move.c -------------------------------------------------------------- */

#define MOVE_BYTES (4ull << 20) /* at most, by one call */

/* Whole pieces, or a part of one. */
struct move {
	struct store_job *job;
	uint32_t first, count;
	uint64_t from, size; /* of the one piece, in bytes */
	uint64_t off;        /* in the data file */
};

/* Take the next part off the job; under the queue's lock. */
void move_cut(struct store_job *job, struct move *ret);
int move_run(
	struct store *store, const struct move *move, unsigned char *bounce) MUST_CHECK;
/* Checksums of pieces that were moved in parts. */
void move_finish(const struct store *store, const struct store_job *job);
int move_punch(struct store *store, const struct store_job *job) MUST_CHECK;

#endif
