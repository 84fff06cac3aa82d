/*
 * bench_disk.c - objects that leave the pool for the disk and come back, beside plain
 * direct I/O of as many bytes, in requests of the same size, by as many threads as the
 * daemon has for its disk, to a file beside the daemon's.
 *
 *   plain      a file's blocks are written one behind the other, flushed, read again; each
 *              run begins with an empty one, so that blocks are found for it as for the
 *              daemon's new objects
 *   offload    the pool is full of softpin objects, and more are put: bytes that were saved
 *              over the time of these puts
 *   load       what is only on disk is got again, in order; bytes got over the time
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "tools/stats.h"

#include "base/attr.h"
#include "base/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DISK_DEPTH   4u  /* --disk-threads of the daemon, as it is by default */
#define DISK_CALLERS 16u /* so that its threads never wait for a client */
#define DISK_SIZES   2u
#define DISK_HUGE    (2u << 20)
#define DISK_FULL    5u / 4u /* of the pool, put before the clock starts: it is full then */

enum disk_kind {
	DISK_PLAIN_WRITE,
	DISK_PLAIN_READ,
	DISK_OFFLOAD,
	DISK_LOAD,
	DISK_KINDS
};

/* Objects of one size. */
struct disk_size {
	const char *prefix, *ratio_offload, *ratio_load;
	uint64_t bytes;
	double least; /* that the ratios should have */
	struct series series[DISK_KINDS];
	double rate[DISK_KINDS]; /* of this run, bytes a second */
};

struct disk_bench {
	struct micro *micro;
	struct disk_size sizes[DISK_SIZES];
	const struct disk_size *size; /* that is measured now */
	uint64_t total;        /* bytes moved in a part, whole objects of any size */
	unsigned char *source; /* of puts */
	int fd;                /* of the plain file */
	bool is_write;
	uint64_t *list; /* numbers of the objects that are only on disk */
	uint64_t listed;
	_Atomic uint64_t next;
	uint64_t end; /* numbers from `next` up to here are to be done */
	_Atomic int err;
};

/* ---- many at once -------------------------------------------------------- */

typedef int (*disk_fn)(struct disk_bench *bench, uint64_t number, unsigned char *buffer);

struct disk_caller {
	struct disk_bench *bench;
	disk_fn fn;
	unsigned char *buffer; /* of the size */
};

static void *caller_run(void *arg)
{
	struct disk_caller *caller = arg;
	struct disk_bench *bench = caller->bench;

	while (atomic_load(&bench->err) == 0 && !interrupt_came()) {
		uint64_t number = atomic_fetch_add(&bench->next, 1);
		int err;

		if (number >= bench->end)
			break;
		err = caller->fn(bench, number, caller->buffer);
		if (err != 0)
			atomic_store(&bench->err, err);
	}
	return NULL;
}

/* On huge pages, if there are any: the pool has them, and the kernel makes fewer and larger
 * requests of such memory. */
static unsigned char *buffer_new(uint64_t size)
{
	uint64_t whole = align_up_u64(size, DISK_HUGE);
	unsigned char *buffer = aligned_alloc(DISK_HUGE, whole);

	if (buffer == NULL)
		return NULL;
	(void)madvise(buffer, whole, MADV_HUGEPAGE);
	memset(buffer, 1, whole);
	return buffer;
}

/* Do numbers [from, to), so many at a time; how long it took, in *ret_ns. */
static int disk_many(struct disk_bench *bench, unsigned callers, disk_fn fn,
	uint64_t from, uint64_t to, uint64_t *ret_ns)
{
	struct disk_caller all[DISK_CALLERS];
	pthread_t threads[DISK_CALLERS];
	unsigned started = 0;
	uint64_t start_ns;

	for (unsigned i = 0; i < callers; i++) {
		all[i] = (struct disk_caller){bench, fn, buffer_new(bench->size->bytes)};
		if (all[i].buffer == NULL)
			atomic_store(&bench->err, CENOTE_ERR_NO_MEMORY);
	}
	bench->next = from;
	bench->end = to;
	start_ns = tool_now_ns();
	while (started < callers &&
		pthread_create(&threads[started], NULL, caller_run, &all[started]) == 0)
		started++;
	for (unsigned i = 0; i < started; i++)
		(void)pthread_join(threads[i], NULL);
	*ret_ns = tool_now_ns() - start_ns;
	for (unsigned i = 0; i < callers; i++)
		free(all[i].buffer);
	if (started < callers)
		tool_complain("bench: no thread can be made");
	return started == callers && atomic_load(&bench->err) == 0 ? TOOL_OK
								   : TOOL_FAILED;
}

/* ---- plain --------------------------------------------------------------- */

static int plain_one(struct disk_bench *bench, uint64_t number, unsigned char *buffer)
{
	size_t size = bench->size->bytes;
	off_t at = (off_t)(number * size);
	ssize_t moved = bench->is_write ? pwrite(bench->fd, buffer, size, at)
					: pread(bench->fd, buffer, size, at);

	if (moved == (ssize_t)size)
		return 0;
	tool_complain("bench: plain %s: %s", bench->is_write ? "write" : "read",
		moved < 0 ? strerror(errno) : "it was short");
	return CENOTE_ERR_IO;
}

/* A file without a name; direct, unless the file system has no such thing. */
static int plain_open(struct disk_bench *bench)
{
	const char *dir = bench->micro->options->disk;

	bench->fd = open(dir, O_RDWR | O_TMPFILE | O_DIRECT | O_CLOEXEC, 0600);
	if (bench->fd < 0 && errno == EINVAL) {
		bench->fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
		result_note(&bench->micro->result,
			"This file system has no direct I/O: the plain file went through "
			"the page cache, like the daemon's.");
	}
	if (bench->fd >= 0)
		return TOOL_OK;
	tool_complain("bench: a file in %s: %s", dir, strerror(errno));
	return TOOL_FAILED;
}

static int plain_part(struct disk_bench *bench, bool is_write, uint64_t *ret_ns)
{
	uint64_t count = bench->total / bench->size->bytes, start_ns = tool_now_ns();
	int exit_code;

	bench->is_write = is_write;
	if (is_write && (ftruncate(bench->fd, 0) != 0 ||
				ftruncate(bench->fd, (off_t)bench->total) != 0)) {
		tool_complain("bench: the plain file: %s", strerror(errno));
		return TOOL_FAILED;
	}
	exit_code = disk_many(bench, DISK_DEPTH, plain_one, 0, count, ret_ns);
	if (exit_code != TOOL_OK || !is_write)
		return exit_code;
	start_ns = tool_now_ns();
	if (fdatasync(bench->fd) != 0) {
		tool_complain("bench: the plain file: %s", strerror(errno));
		return TOOL_FAILED;
	}
	*ret_ns += tool_now_ns() - start_ns;
	return TOOL_OK;
}

/* ---- the node ------------------------------------------------------------ */

static int disk_put(struct disk_bench *bench, uint64_t number, unsigned char *buffer)
{
	const struct cenote_put_options options = {.softpin = true, .timeout_ms = 60000};
	char text[MICRO_KEY_SIZE + 1];
	int err = cenote_put(bench->micro->store,
		micro_key(text, bench->size->prefix, number), bench->source,
		bench->size->bytes, &options);

	(void)buffer;
	if (err != 0)
		(void)micro_failed("bench: put", err);
	return err;
}

static int disk_get(struct disk_bench *bench, uint64_t number, unsigned char *buffer)
{
	const struct cenote_get_options options = {.timeout_ms = 60000};
	char text[MICRO_KEY_SIZE + 1];
	struct cenote_view view;
	int err = cenote_get(bench->micro->store,
		micro_key(text, bench->size->prefix, bench->list[number]), &options,
		&view);

	(void)buffer;
	if (err == 0)
		err = cenote_release(bench->micro->store, &view);
	if (err != 0)
		(void)micro_failed("bench: get", err);
	return err;
}

static int disk_remove(struct disk_bench *bench, uint64_t number, unsigned char *buffer)
{
	char text[MICRO_KEY_SIZE + 1];
	int err = cenote_remove(bench->micro->store,
		micro_key(text, bench->size->prefix, bench->list[number]));

	(void)buffer;
	if (err != 0)
		(void)micro_failed("bench: remove", err);
	return err;
}

static int disk_counter(struct disk_bench *bench, const char *path, uint64_t *ret)
{
	char *text = micro_stats(bench->micro);
	bool good;

	if (text == NULL)
		return TOOL_FAILED;
	good = stats_u64(text, path, ret);
	cenote_free(text);
	if (!good)
		tool_complain("bench: the daemon's statistics lack %s", path);
	return good ? TOOL_OK : TOOL_FAILED;
}

/* ---- parts of a run ------------------------------------------------------ */

static void disk_note(
	struct disk_size *size, enum disk_kind kind, uint64_t bytes, uint64_t ns)
{
	size->rate[kind] = (double)bytes * 1e9 / (double)ns;
	series_add(&size->series[kind], (double)ns * (double)size->bytes / (double)bytes);
}

static int disk_plain(struct disk_bench *bench, struct disk_size *size)
{
	uint64_t ns;
	int exit_code = plain_part(bench, true, &ns);

	if (exit_code != TOOL_OK)
		return exit_code;
	disk_note(size, DISK_PLAIN_WRITE, bench->total, ns);
	exit_code = plain_part(bench, false, &ns);
	if (exit_code == TOOL_OK)
		disk_note(size, DISK_PLAIN_READ, bench->total, ns);
	return exit_code;
}

/* Number `full` and those behind it push out as many bytes from the front. */
static int disk_offload(
	struct disk_bench *bench, struct disk_size *size, uint64_t full, uint64_t count)
{
	uint64_t ns, before = 0, after = 0;
	int exit_code = disk_many(bench, DISK_CALLERS, disk_put, 0, full, &ns);

	if (exit_code == TOOL_OK)
		exit_code = disk_counter(bench, "counters.saved_bytes", &before);
	if (exit_code == TOOL_OK)
		exit_code = disk_many(
			bench, DISK_CALLERS, disk_put, full, full + count, &ns);
	if (exit_code == TOOL_OK)
		exit_code = disk_counter(bench, "counters.saved_bytes", &after);
	if (exit_code != TOOL_OK)
		return exit_code;
	if (after - before < bench->total / 2) {
		tool_complain("bench: only %" PRIu64 " bytes were saved for %" PRIu64
			      " bytes put into a full pool",
			after - before, bench->total);
		return TOOL_FAILED;
	}
	disk_note(size, DISK_OFFLOAD, after - before, ns);
	return TOOL_OK;
}

/* Remove what is in the pool, so that reads are not held up by writes; list the rest. */
static int disk_sort_out(struct disk_bench *bench, uint64_t count)
{
	bench->listed = 0;
	for (uint64_t number = 0; number < count; number++) {
		char text[MICRO_KEY_SIZE + 1];
		struct cenote_key key = micro_key(text, bench->size->prefix, number);
		struct cenote_stat stat;
		int err = cenote_stat(bench->micro->store, key, &stat);

		if (err == 0 && stat.in_pool)
			err = cenote_remove(bench->micro->store, key);
		else
			bench->list[bench->listed++] = number;
		if (err != 0)
			return micro_failed("bench: stat", err);
	}
	return TOOL_OK;
}

/* What is only on disk is read in the order in which it was put. */
static int disk_load(struct disk_bench *bench, struct disk_size *size, uint64_t count)
{
	uint64_t ns, before = 0, after = 0, bytes;
	int exit_code = disk_sort_out(bench, count);

	bytes = bench->listed * size->bytes;
	if (exit_code == TOOL_OK)
		exit_code = disk_counter(bench, "counters.loaded_bytes", &before);
	if (exit_code == TOOL_OK)
		exit_code = disk_many(
			bench, DISK_CALLERS, disk_get, 0, bench->listed, &ns);
	if (exit_code == TOOL_OK)
		exit_code = disk_counter(bench, "counters.loaded_bytes", &after);
	if (exit_code != TOOL_OK)
		return exit_code;
	if (after - before != bytes || bytes < bench->total / 2) {
		tool_complain("bench: %" PRIu64 " bytes were loaded of %" PRIu64
			      " that are only on disk",
			after - before, bytes);
		return TOOL_FAILED;
	}
	disk_note(size, DISK_LOAD, bytes, ns);
	return disk_many(bench, DISK_CALLERS, disk_remove, 0, bench->listed, &ns);
}

static int disk_round(struct disk_bench *bench, struct disk_size *size)
{
	struct bench_result *result = &bench->micro->result;
	uint64_t full = result->pool_bytes * DISK_FULL / size->bytes;
	uint64_t count = bench->total / size->bytes;
	int exit_code;

	bench->size = size;
	exit_code = disk_plain(bench, size);
	if (exit_code == TOOL_OK)
		exit_code = disk_offload(bench, size, full, count);
	if (exit_code == TOOL_OK)
		exit_code = disk_load(bench, size, full + count);
	if (exit_code != TOOL_OK || interrupt_came())
		return TOOL_FAILED;
	result_aimed(result, size->ratio_offload,
		size->rate[DISK_OFFLOAD] / size->rate[DISK_PLAIN_WRITE], AIM_AT_LEAST,
		size->least);
	result_aimed(result, size->ratio_load,
		size->rate[DISK_LOAD] / size->rate[DISK_PLAIN_READ], AIM_AT_LEAST,
		size->least);
	return TOOL_OK;
}

/* ---- the bench ----------------------------------------------------------- */

static void disk_names(struct disk_bench *bench)
{
	static const char *const names[DISK_SIZES][DISK_KINDS] = {
		{"plain_write_16m", "plain_read_16m", "offload_16m", "load_16m"},
		{"plain_write_256k", "plain_read_256k", "offload_256k", "load_256k"}};

	bench->sizes[0] = (struct disk_size){.prefix = "16m",
		.ratio_offload = "ratio_offload_16m",
		.ratio_load = "ratio_load_16m",
		.bytes = 16u << 20,
		.least = 0.85};
	bench->sizes[1] = (struct disk_size){.prefix = "256k",
		.ratio_offload = "ratio_offload_256k",
		.ratio_load = "ratio_load_256k",
		.bytes = 256u << 10,
		.least = 0.7};
	for (unsigned i = 0; i < DISK_SIZES; i++) {
		for (unsigned kind = 0; kind < DISK_KINDS; kind++)
			bench->sizes[i].series[kind] = (struct series){
				.name = names[i][kind], .bytes = bench->sizes[i].bytes};
	}
}

static int disk_begin(struct disk_bench *bench)
{
	struct micro *micro = bench->micro;
	uint64_t largest = bench->sizes[0].bytes;
	uint64_t pool = micro->result.pool_bytes;

	if (micro->node == NULL || micro->options->disk == NULL) {
		tool_complain("bench: disk goes with a node of its own");
		return TOOL_USAGE;
	}
	if (pool < 16 * largest || micro->options->disk_bytes < 4 * pool) {
		tool_complain("bench: disk takes a --pool of 256 MiB or more, and four "
			      "times as much of --disk-size");
		return TOOL_USAGE;
	}
	/* More than the pool, so that what was loaded has to go again. */
	bench->total = 2 * pool / largest * largest;
	if (micro->options->quick)
		bench->total = pool / largest * largest;
	bench->source = touched_new(largest);
	bench->list = calloc(
		(pool + bench->total) / bench->sizes[1].bytes, sizeof(bench->list[0]));
	if (bench->source == NULL || bench->list == NULL || plain_open(bench) != TOOL_OK)
		return TOOL_FAILED;
	return micro_touch_pool(micro);
}

static void disk_show(struct disk_bench *bench)
{
	for (unsigned i = 0; i < DISK_SIZES; i++) {
		for (unsigned kind = 0; kind < DISK_KINDS; kind++)
			result_row(&bench->micro->result, &bench->sizes[i].series[kind]);
	}
}

static void disk_end(struct disk_bench *bench)
{
	if (bench->fd >= 0)
		(void)close(bench->fd);
	touched_free(bench->source, bench->sizes[0].bytes);
	free(bench->list);
	for (unsigned i = 0; i < DISK_SIZES; i++) {
		for (unsigned kind = 0; kind < DISK_KINDS; kind++)
			series_fini(&bench->sizes[i].series[kind]);
	}
}

int bench_disk(struct micro *micro)
{
	struct disk_bench bench = {.micro = micro, .fd = -1};
	int exit_code;

	disk_names(&bench);
	result_note(&micro->result,
		"A row's time is that of one object in the stream: total over count. "
		"plain: direct, sequential, 4 threads.");
	result_note(&micro->result, "ratio_offload: offload / plain write, ratio_load: "
				    "load / plain read, in bytes a second.");
	exit_code = disk_begin(&bench);
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++) {
		for (unsigned i = 0; i < DISK_SIZES && exit_code == TOOL_OK; i++)
			exit_code = disk_round(&bench, &bench.sizes[i]);
	}
	disk_show(&bench);
	if (exit_code == TOOL_OK)
		exit_code = result_print(&micro->result, micro->options->json);
	disk_end(&bench);
	return exit_code;
}
