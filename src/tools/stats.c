/*
 * stats.c - a walk over JSON that knows no more of it than what values there are and
 * where.
 */
#include "tools/stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS_DEPTH_MAX 32

struct stats_walk {
	const char *at;
	stats_each_fn each;
	void *arg;
	char path[STATS_PATH_MAX];
	int ended; /* what `each` returned */
	int depth;
};

static bool stats_value(struct stats_walk *walk);

static void stats_skip_space(struct stats_walk *walk)
{
	walk->at += strspn(walk->at, " \t\r\n");
}

static bool stats_take(struct stats_walk *walk, char byte)
{
	stats_skip_space(walk);
	if (*walk->at != byte)
		return false;
	walk->at++;
	return true;
}

/* The inside of the string at `at`, which then points behind it. */
static bool stats_string(struct stats_walk *walk, const char **ret, size_t *ret_size)
{
	const char *at;

	if (!stats_take(walk, '"'))
		return false;
	for (at = walk->at; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		if (*at == '\0')
			return false;
	}
	*ret = walk->at;
	*ret_size = (size_t)(at - walk->at);
	walk->at = at + 1;
	return true;
}

/* Go one name deeper; the path's length before, to go back to. */
static size_t stats_push(struct stats_walk *walk, const char *name, size_t size)
{
	size_t length = strlen(walk->path);

	(void)snprintf(walk->path + length, sizeof(walk->path) - length, "%s%.*s",
		length > 0 ? "." : "", (int)size, name);
	return length;
}

static bool stats_members(struct stats_walk *walk, bool is_object)
{
	char closing = is_object ? '}' : ']', index[24];
	size_t name_size;
	const char *name;

	if (stats_take(walk, closing))
		return true;
	for (unsigned i = 0;; i++) {
		size_t length;

		if (is_object && (!stats_string(walk, &name, &name_size) ||
					 !stats_take(walk, ':')))
			return false;
		if (!is_object) {
			name_size = (size_t)snprintf(index, sizeof(index), "%u", i);
			name = index;
		}
		length = stats_push(walk, name, name_size);
		if (!stats_value(walk) || walk->ended != 0)
			return false;
		walk->path[length] = '\0';
		if (stats_take(walk, closing))
			return true;
		if (!stats_take(walk, ','))
			return false;
	}
}

static bool stats_value(struct stats_walk *walk)
{
	const char *value;
	size_t size;

	stats_skip_space(walk);
	if (*walk->at == '{' || *walk->at == '[') {
		bool is_object = *walk->at++ == '{', whole;

		if (++walk->depth > STATS_DEPTH_MAX)
			return false;
		whole = stats_members(walk, is_object);
		walk->depth--;
		return whole;
	}
	if (*walk->at == '"') {
		if (!stats_string(walk, &value, &size))
			return false;
	} else {
		value = walk->at;
		size = strcspn(value, ",]} \t\r\n");
		walk->at += size;
		if (size == 0)
			return false;
	}
	walk->ended = walk->each(walk->arg, walk->path, value, size);
	return true;
}

bool stats_walk(const char *json, stats_each_fn each, void *arg)
{
	struct stats_walk walk = {.at = json, .each = each, .arg = arg};
	bool whole = stats_value(&walk);

	stats_skip_space(&walk);
	return walk.ended != 0 || (whole && *walk.at == '\0');
}

struct stats_wanted {
	const char *path;
	uint64_t value;
	bool found;
};

static int stats_match(void *arg, const char *path, const char *value, size_t value_size)
{
	struct stats_wanted *wanted = arg;
	char digits[24], *end;

	if (strcmp(path, wanted->path) != 0 || value_size >= sizeof(digits))
		return 0;
	if (value_size == 0 || value[0] < '0' || value[0] > '9')
		return 1;
	memcpy(digits, value, value_size);
	digits[value_size] = '\0';
	errno = 0;
	wanted->value = strtoull(digits, &end, 10);
	wanted->found = errno == 0 && *end == '\0';
	return 1;
}

bool stats_u64(const char *json, const char *path, uint64_t *ret)
{
	struct stats_wanted wanted = {.path = path};

	(void)stats_walk(json, stats_match, &wanted);
	if (wanted.found)
		*ret = wanted.value;
	return wanted.found;
}

struct stats_text {
	const char *path, *text;
	bool is;
};

static int stats_match_text(
	void *arg, const char *path, const char *value, size_t value_size)
{
	struct stats_text *wanted = arg;

	if (strcmp(path, wanted->path) != 0)
		return 0;
	wanted->is = value_size == strlen(wanted->text) &&
		     memcmp(value, wanted->text, value_size) == 0;
	return 1;
}

bool stats_is(const char *json, const char *path, const char *text)
{
	struct stats_text wanted = {.path = path, .text = text};

	(void)stats_walk(json, stats_match_text, &wanted);
	return wanted.is;
}
