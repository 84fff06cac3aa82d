/*
 * bench_growth.c - whether an operation stays as cheap, and an object as small beside the
 * pool, from a thousand objects to a million.
 *
 * The node grows through all points, is emptied, and grows again for the next run. Memory
 * beside the pool is looked at while it grows for the first time: the index and the
 * counts, and the daemon's own memory.
 */
#include "tools/bench_micro.h"
#include "tools/interrupt.h"
#include "tools/svg.h"

#include "base/attr.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROWTH_POINTS 10
#define GROWTH_QUICK  4 /* points of a quick run */
#define GROWTH_OPS    1000u
#define GROWTH_BATCH  64u
#define GROWTH_HITS   100u /* timed together */
#define GROWTH_BYTES  64u

enum growth_work {
	GROWTH_PUT,
	GROWTH_PUT_BATCH, /* of one object */
	GROWTH_HIT,
	GROWTH_REMOVE,
	GROWTH_WORKS
};

static const char *const work_names[GROWTH_WORKS] = {
	[GROWTH_PUT] = "put",
	[GROWTH_PUT_BATCH] = "put_batch",
	[GROWTH_HIT] = "hit",
	[GROWTH_REMOVE] = "remove",
};

struct growth_point {
	uint64_t objects;
	struct series works[GROWTH_WORKS];
	char names[GROWTH_WORKS][32];
	double medians[GROWTH_WORKS][BENCH_RUNS_MAX];
	double beside; /* bytes beside the pool that came since the start */
};

struct growth {
	struct micro *micro;
	struct growth_point points[GROWTH_POINTS];
	int point_count;
	uint64_t beside_start;
};

/* ---- memory beside the pool ---------------------------------------------- */

static uint64_t growth_files(const struct own_node *node)
{
	DIR *directory = opendir(node->shm);
	struct dirent *entry;
	uint64_t bytes = 0;

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		struct stat file;

		if (strcmp(entry->d_name, "pool") != 0 &&
			fstatat(dirfd(directory), entry->d_name, &file, 0) == 0 &&
			S_ISREG(file.st_mode))
			bytes += (uint64_t)file.st_blocks * 512;
	}
	if (directory != NULL)
		(void)closedir(directory);
	return bytes;
}

static uint64_t growth_daemon(const struct own_node *node)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *status;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)node->pid);
	status = fopen(path, "re");
	while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtoull(line + 8, NULL, 10);
	}
	if (status != NULL)
		(void)fclose(status);
	return kib << 10;
}

static uint64_t growth_beside(const struct growth *growth)
{
	const struct own_node *node = growth->micro->node;

	return node == NULL ? 0 : growth_files(node) + growth_daemon(node);
}

/* ---- the work at one point ----------------------------------------------- */

static int growth_put_one(struct growth *growth, uint64_t number)
{
	const struct cenote_put_options options = {.softpin = true};
	static const char value[GROWTH_BYTES];
	char text[MICRO_KEY_SIZE + 1];

	return cenote_put(growth->micro->store, micro_key(text, "hit", number), value,
		sizeof(value), &options);
}

/* The last objects before the point are put and removed one by one. */
static int growth_singles(struct growth *growth, struct growth_point *point)
{
	uint32_t count = micro_rounds(growth->micro, GROWTH_OPS);
	char text[MICRO_KEY_SIZE + 1];
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++) {
		uint64_t start_ns = tool_now_ns();

		err = growth_put_one(growth, point->objects + i);
		series_add(&point->works[GROWTH_PUT], (double)(tool_now_ns() - start_ns));
	}
	for (uint32_t i = 0; i < count && err == 0; i++) {
		struct cenote_key key = micro_key(text, "hit", point->objects + i);
		uint64_t start_ns = tool_now_ns();

		err = cenote_remove(growth->micro->store, key);
		series_add(
			&point->works[GROWTH_REMOVE], (double)(tool_now_ns() - start_ns));
	}
	return err;
}

static int growth_hits(struct growth *growth, struct growth_point *point)
{
	uint32_t blocks = micro_rounds(growth->micro, GROWTH_OPS);
	struct hit_set set;
	int err = 0;

	if (!hit_set_init(&set, (uint32_t)point->objects, point->objects))
		return CENOTE_ERR_NO_MEMORY;
	for (uint32_t i = 0; i < blocks && err == 0; i++) {
		uint64_t start_ns = tool_now_ns();

		err = hit_some(growth->micro->store, &set, GROWTH_HITS);
		series_add(&point->works[GROWTH_HIT],
			(double)(tool_now_ns() - start_ns) / GROWTH_HITS);
	}
	hit_set_fini(&set);
	return err;
}

static int growth_to(struct growth *growth, uint64_t from, struct growth_point *point)
{
	int err = 0;

	for (uint64_t at = from; at < point->objects && err == 0; at += GROWTH_BATCH) {
		uint64_t to = MIN(at + GROWTH_BATCH, point->objects);
		uint64_t start_ns = tool_now_ns();

		err = hit_put(growth->micro->store, at, to);
		series_add(&point->works[GROWTH_PUT_BATCH],
			(double)(tool_now_ns() - start_ns) / (double)(to - at));
	}
	if (err == 0 && point->beside == 0)
		point->beside = (double)growth_beside(growth) -
				(double)growth->beside_start;
	if (err == 0)
		err = growth_singles(growth, point);
	return err == 0 ? growth_hits(growth, point) : err;
}

/* ---- runs ---------------------------------------------------------------- */

static int growth_run(struct growth *growth, uint32_t run)
{
	uint64_t objects = 0;
	int err = 0;

	for (int i = 0; i < growth->point_count && err == 0; i++) {
		struct growth_point *point = &growth->points[i];

		if (interrupt_came())
			return TOOL_FAILED;
		err = growth_to(growth, objects, point);
		objects = point->objects;
		for (int work = 0; work < GROWTH_WORKS; work++)
			point->medians[work][run] = series_end_run(&point->works[work]);
	}
	if (err == 0)
		err = hit_remove(growth->micro->store, 0, objects);
	return err == 0 ? TOOL_OK : micro_failed("bench: growth", err);
}

/* ---- what it came to ----------------------------------------------------- */

static void growth_figures(struct growth *growth)
{
	struct bench_result *result = &growth->micro->result;
	const struct growth_point *first = &growth->points[0];
	const struct growth_point *last = &growth->points[growth->point_count - 1];
	static const char *const names[GROWTH_WORKS] = {
		[GROWTH_PUT] = "ratio_put_last_to_first",
		[GROWTH_PUT_BATCH] = "ratio_put_batch_last_to_first",
		[GROWTH_HIT] = "ratio_hit_last_to_first",
		[GROWTH_REMOVE] = "ratio_remove_last_to_first",
	};

	for (uint32_t run = 0; run < growth->micro->runs; run++) {
		for (int work = 0; work < GROWTH_WORKS; work++)
			result_figure(result, names[work],
				last->medians[work][run] / first->medians[work][run]);
	}
	result_figure(result, "objects", (double)last->objects);
	if (growth->micro->node != NULL)
		result_figure(result, "bytes_beside_per_object",
			last->beside / (double)last->objects);
}

static void growth_line(
	struct growth *growth, struct svg_line *line, enum growth_work work, double unit)
{
	*line = (struct svg_line){.name = work_names[work]};
	for (int i = 0; i < growth->point_count; i++) {
		struct growth_point *point = &growth->points[i];

		line->x[line->count] = (double)point->objects;
		line->y[line->count++] = median_of(point->medians[work],
						 growth->micro->runs) /
					 unit;
	}
}

static void growth_line_beside(struct growth *growth, struct svg_line *line)
{
	*line = (struct svg_line){.name = "MiB"};
	for (int i = 0; i < growth->point_count; i++) {
		line->x[line->count] = (double)growth->points[i].objects;
		line->y[line->count++] = growth->points[i].beside / (1 << 20);
	}
}

static int growth_chart(struct growth *growth)
{
	struct svg_chart charts[3] = {
		{.title = "Puts and removes",
			.x_name = "objects",
			.y_name = "us for one",
			.count = 3},
		{.title = "Hits: get and release",
			.x_name = "objects",
			.y_name = "ns for one",
			.count = 1},
		{.title = "Memory beside the pool, since the start",
			.x_name = "objects",
			.y_name = "MiB",
			.count = 1},
	};
	const char *path = growth->micro->options->svg;

	growth_line(growth, &charts[0].lines[0], GROWTH_PUT, 1000);
	growth_line(growth, &charts[0].lines[1], GROWTH_PUT_BATCH, 1000);
	growth_line(growth, &charts[0].lines[2], GROWTH_REMOVE, 1000);
	growth_line(growth, &charts[1].lines[0], GROWTH_HIT, 1);
	growth_line_beside(growth, &charts[2].lines[0]);
	if (svg_write(path, charts, growth->micro->node != NULL ? 3 : 2))
		return TOOL_OK;
	tool_complain("bench: %s: %s", path, strerror(errno));
	return TOOL_FAILED;
}

/* ---- the bench ----------------------------------------------------------- */

static void growth_init(struct growth *growth)
{
	static const uint64_t objects[GROWTH_POINTS] = {
		1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};

	growth->point_count = growth->micro->options->quick ? GROWTH_QUICK
							    : GROWTH_POINTS;
	for (int i = 0; i < growth->point_count; i++) {
		struct growth_point *point = &growth->points[i];

		point->objects = objects[i];
		for (int work = 0; work < GROWTH_WORKS; work++) {
			(void)snprintf(point->names[work], sizeof(point->names[work]),
				"%s_%" PRIu64, work_names[work], objects[i]);
			point->works[work].name = point->names[work];
		}
	}
	growth->beside_start = growth_beside(growth);
}

static void growth_rows(struct growth *growth)
{
	for (int work = 0; work < GROWTH_WORKS; work++) {
		for (int i = 0; i < growth->point_count; i++)
			result_row(
				&growth->micro->result, &growth->points[i].works[work]);
	}
}

static void growth_free(struct growth *growth)
{
	for (int i = 0; i < growth->point_count; i++) {
		for (int work = 0; work < GROWTH_WORKS; work++)
			series_fini(&growth->points[i].works[work]);
	}
	free(growth);
}

int bench_growth(struct micro *micro)
{
	struct growth *growth = calloc(1, sizeof(*growth));
	int exit_code = TOOL_OK;

	if (growth == NULL) {
		tool_complain("bench: no memory");
		return TOOL_FAILED;
	}
	growth->micro = micro;
	growth_init(growth);
	result_note(&micro->result,
		"Objects of 64 bytes; put_batch is one object of a batch of 64; hits are "
		"at random over all objects.");
	for (uint32_t run = 0; run < micro->runs && exit_code == TOOL_OK; run++)
		exit_code = growth_run(growth, run);
	if (exit_code == TOOL_OK) {
		growth_figures(growth);
		growth_rows(growth);
		exit_code = result_print(&micro->result, micro->options->json);
	}
	if (exit_code == TOOL_OK && micro->options->svg != NULL)
		exit_code = growth_chart(growth);
	growth_free(growth);
	return exit_code;
}
