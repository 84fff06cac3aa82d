/*
 * cmd_doctor.c - cenote doctor: whether a node is well, and what it guarantees as it is set up.
 */
#include "base/bytes.h"
#include "tools/guarantees.h"
#include "tools/stats.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TITLE_WIDTH 22
#define CELL_WIDTH  22
#define GAP         2

struct doctor_options {
	struct tool_common common;
	bool guarantees;
	bool json;
};

static const struct option_spec doctor_specs[] = {
	{.name = "guarantees",
		.type = OPTION_FLAG,
		.help = "What callers may rely on when something fails, for a node with "
			"this one's disk and peers.",
		.offset = offsetof(struct doctor_options, guarantees)},
	{.name = "json",
		.type = OPTION_FLAG,
		.help = "Print JSON.",
		.offset = offsetof(struct doctor_options, json)},
	TOOL_COMMON_OPTIONS,
};

/* ---- what the node says -------------------------------------------------- */

struct health {
	bool disk, cluster;
	char disk_error[64];
	char check[256];             /* "ok", or what is broken */
	uint64_t up, suspect, gone;  /* other nodes */
	uint64_t domains, unreached; /* parts of the directory */
	uint64_t up_ns, pool_free, pool_size;
};

static bool value_is(const char *value, size_t size, const char *text)
{
	return size == strlen(text) && memcmp(value, text, size) == 0;
}

static bool is_of(const char *path, const char *array, const char *field)
{
	const char *last = strrchr(path, '.');

	return last != NULL && strncmp(path, array, strlen(array)) == 0 &&
	       strcmp(last + 1, field) == 0;
}

static int health_take(void *arg, const char *path, const char *value, size_t size)
{
	struct health *health = arg;

	health->disk |= strcmp(path, "disk.size") == 0;
	health->cluster |= strcmp(path, "cluster.node") == 0;
	if (strcmp(path, "disk.error") == 0)
		(void)snprintf(health->disk_error, sizeof(health->disk_error), "%.*s",
			(int)size, value);
	if (is_of(path, "cluster.members.", "state")) {
		health->up += value_is(value, size, "up");
		health->suspect += value_is(value, size, "suspect");
		health->gone += value_is(value, size, "gone");
	}
	if (is_of(path, "cluster.directory.", "reached")) {
		health->domains++;
		health->unreached += !value_is(value, size, "true");
	}
	return 0;
}

static int health_ask(struct cenote *store, struct health *ret)
{
	struct health health = {.disk = false};
	char *text;
	int result = cenote_info(store, CENOTE_INFO_STATS, &text);

	if (result != 0)
		return result;
	(void)stats_walk(text, health_take, &health);
	(void)stats_u64(text, "node.up_ns", &health.up_ns);
	(void)stats_u64(text, "pool.free", &health.pool_free);
	(void)stats_u64(text, "pool.size", &health.pool_size);
	cenote_free(text);
	result = cenote_info(store, CENOTE_INFO_CHECK, &text);
	if (result != 0)
		return result;
	(void)snprintf(health.check, sizeof(health.check), "%s", text);
	cenote_free(text);
	*ret = health;
	return 0;
}

static unsigned health_facts(const struct health *health)
{
	return (health->disk ? FACT_DISK : 0u) | (health->cluster ? FACT_CLUSTER : 0u) |
	       (health->up > 0 ? FACT_PEERS : 0u);
}

/* ---- whether it is well -------------------------------------------------- */

static bool directory_is_well(const struct health *health)
{
	return !health->cluster || (health->domains > 0 && health->unreached == 0);
}

static bool is_well(const struct health *health)
{
	return strcmp(health->check, "ok") == 0 && health->disk_error[0] == '\0' &&
	       directory_is_well(health) && health->suspect == 0;
}

static void print_cluster(const struct health *health)
{
	if (!health->cluster) {
		(void)printf("cluster     none: the node is alone\n");
		return;
	}
	(void)printf("directory   %s\n",
		directory_is_well(health) ? "ok" : "a part of it cannot be reached");
	(void)printf("nodes       %" PRIu64 " others are up, %" PRIu64
		     " do not answer, %" PRIu64 " are gone\n",
		health->up, health->suspect, health->gone);
}

static int print_health(const struct health *health)
{
	char text[TEXT_MAX], size[TEXT_MAX];

	(void)printf("daemon      up for %s; its invariants: %s\n",
		format_duration(text, sizeof(text), health->up_ns), health->check);
	(void)printf("pool        %s of %s free\n",
		format_size(text, sizeof(text), health->pool_free),
		format_size(size, sizeof(size), health->pool_size));
	(void)printf("disk        %s\n", !health->disk ? "none"
					 : health->disk_error[0] == '\0'
						 ? "ok"
						 : health->disk_error);
	print_cluster(health);
	(void)printf("%s\n", is_well(health) ? "well" : "not well");
	return tool_flush();
}

/* Both kinds of JSON begin with it. */
static void json_health(struct json *json, const struct health *health)
{
	json_object_begin(json, "node");
	json_bool(json, "well", is_well(health));
	json_str(json, "check", health->check);
	json_bool(json, "disk", health->disk);
	json_str(json, "disk_error", health->disk_error);
	json_bool(json, "cluster", health->cluster);
	json_bool(json, "directory", health->cluster && directory_is_well(health));
	json_u64(json, "others_up", health->up);
	json_u64(json, "others_suspect", health->suspect);
	json_u64(json, "others_gone", health->gone);
	json_object_end(json);
}

static int print_health_json(const struct health *health)
{
	char text[1024];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_health(&json, health);
	json_object_end(&json);
	return tool_print_json(&json);
}

/* ---- what it guarantees -------------------------------------------------- */

/* As many words as fit into the width, from *at on, which then points behind them; how much of
 * the width is left. */
static int print_piece(const char **at, int width)
{
	const char *text = *at, *end = text + strlen(text);
	int count = (int)(end - text);

	if (count > width) {
		count = width;
		while (count > 0 && text[count] != ' ')
			count--;
		if (count == 0)
			count = width;
	}
	(void)printf("%.*s", count, text);
	*at = text + count;
	while (**at == ' ')
		(*at)++;
	return width - count;
}

static bool any_left(const char *const *cells)
{
	for (unsigned i = 0; i <= COLUMN_COUNT; i++) {
		if (*cells[i] != '\0')
			return true;
	}
	return false;
}

/* A row of the table, as many lines as its longest cell takes: the title, then each column. */
static void print_cells(const char *cells[COLUMN_COUNT + 1])
{
	do {
		int left = print_piece(&cells[0], TITLE_WIDTH);

		for (unsigned i = 1; i <= COLUMN_COUNT; i++) {
			left += GAP;
			if (*cells[i] != '\0')
				(void)printf("%*s", left, "");
			left = *cells[i] == '\0' ? left + CELL_WIDTH
						 : print_piece(&cells[i], CELL_WIDTH);
		}
		(void)putchar('\n');
	} while (any_left(cells));
}

static void print_facts(const struct health *health)
{
	char others[64];

	(void)snprintf(others, sizeof(others),
		"among others, %" PRIu64 " of which are up", health->up);
	(void)printf("This node: %s; %s.\n\n", health->disk ? "with a disk" : "no disk",
		health->cluster ? others : "alone");
}

static int print_guarantees(const struct health *health)
{
	unsigned facts = health_facts(health);
	const char *cells[COLUMN_COUNT + 1] = {"when"};

	print_facts(health);
	for (unsigned column = 0; column < COLUMN_COUNT; column++)
		cells[column + 1] = guarantee_column_title((enum guarantee_column)column);
	print_cells(cells);
	for (size_t i = 0; i < guarantee_count; i++) {
		(void)putchar('\n');
		cells[0] = guarantees[i].title;
		for (unsigned column = 0; column < COLUMN_COUNT; column++)
			cells[column + 1] = guarantee_text(
				&guarantees[i], (enum guarantee_column)column, facts);
		print_cells(cells);
	}
	return tool_flush();
}

static int print_guarantees_json(const struct health *health)
{
	unsigned facts = health_facts(health);
	char text[16384];
	struct json json;

	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	json_health(&json, health);
	json_array_begin(&json, "guarantees");
	for (size_t i = 0; i < guarantee_count; i++) {
		json_object_begin(&json, NULL);
		json_str(&json, "failure", guarantees[i].failure);
		json_str(&json, "title", guarantees[i].title);
		for (unsigned column = 0; column < COLUMN_COUNT; column++)
			json_str(&json,
				guarantee_column_name((enum guarantee_column)column),
				guarantee_text(&guarantees[i],
					(enum guarantee_column)column, facts));
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
	return tool_print_json(&json);
}

/* ---- the command --------------------------------------------------------- */

static int doctor_run(const void *arg, int count, char **operands)
{
	const struct doctor_options *options = arg;
	struct health health;
	struct cenote *store;
	int result;

	(void)count, (void)operands;
	if (tool_connect(&options->common, true, &store) != TOOL_OK)
		return TOOL_FAILED;
	result = health_ask(store, &health);
	cenote_close(store);
	if (result != 0)
		return tool_failed("doctor", NULL, result);
	if (options->guarantees)
		return options->json ? print_guarantees_json(&health)
				     : print_guarantees(&health);
	result = options->json ? print_health_json(&health) : print_health(&health);
	return result == TOOL_OK && !is_well(&health) ? TOOL_FAILED : result;
}

const struct tool_command tool_doctor = {
	.name = "doctor",
	.operands = "",
	.summary = "say whether the node is well, or what it guarantees",
	.text = "Ends with 1 if the daemon does not answer or is broken, its disk has "
		"trouble, a\npart of the directory cannot be reached, or another node "
		"has not answered for\n1 to 3 s. One that was not heard of for longer is "
		"gone, and only counted.\n\nA node that is full, drained, or without "
		"others, is well, and so is one whose\nobjects have too few keepers "
		"(cluster.rebuild of cenote stat).",
	.operand_min = 0,
	.operand_max = 0,
	.options = {doctor_specs, ARRAY_LEN(doctor_specs)},
	.options_size = sizeof(struct doctor_options),
	.run = doctor_run,
};
