/*
 * trace.c - read a trace: strict in what it takes, and no more JSON than traces have.
 */
#include "tools/trace.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 1024u

/* Room for one more of `size` bytes. */
static bool trace_grow(void **array, size_t count, size_t *room, size_t size)
{
	size_t more = MAX(*room * 2, (size_t)ROOM_FIRST);
	void *grown;

	if (count < *room)
		return true;
	grown = reallocarray(*array, more, size);
	if (grown == NULL)
		return false;
	*array = grown;
	*room = more;
	return true;
}

static bool trace_add_id(struct trace *trace, uint64_t id)
{
	void *ids = trace->ids;

	if (!trace_grow(&ids, trace->id_count, &trace->id_room, sizeof(*trace->ids)))
		return false;
	trace->ids = ids;
	trace->ids[trace->id_count++] = id;
	return true;
}

static bool trace_add_request(struct trace *trace, size_t first)
{
	void *requests = trace->requests;

	if (!trace_grow(&requests, trace->request_count, &trace->request_room,
		    sizeof(*trace->requests)))
		return false;
	trace->requests = requests;
	trace->requests[trace->request_count++] = (struct trace_request){
		first, trace->id_count - first};
	return true;
}

/* ---- one line ------------------------------------------------------------ */

static const char *skip_space(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* Each of these returns where it ended, or NULL. */
static const char *take(const char *at, char byte)
{
	at = skip_space(at);
	return *at == byte ? at + 1 : NULL;
}

static const char *take_string(const char *at, const char **ret, size_t *ret_size)
{
	at = take(at, '"');
	if (at == NULL)
		return NULL;
	*ret = at;
	for (; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		if (*at == '\0')
			return NULL;
	}
	*ret_size = (size_t)(at - *ret);
	return at + 1;
}

static const char *take_id(const char *at, uint64_t *ret)
{
	uint64_t id = 0;

	at = skip_space(at);
	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(id, 10, &id) ||
			__builtin_add_overflow(id, (uint64_t)(*at - '0'), &id))
			return NULL;
	}
	*ret = id;
	return at;
}

static const char *take_ids(struct trace *trace, const char *at)
{
	const char *end;
	uint64_t id;

	at = take(at, '[');
	if (at == NULL)
		return NULL;
	end = take(at, ']');
	if (end != NULL)
		return end;
	for (;;) {
		at = take_id(at, &id);
		if (at == NULL || !trace_add_id(trace, id))
			return NULL;
		end = take(at, ']');
		if (end != NULL)
			return end;
		at = take(at, ',');
		if (at == NULL)
			return NULL;
	}
}

static const char *skip_scalar(const char *at)
{
	const char *text;
	size_t size;

	at = skip_space(at);
	if (*at == '"')
		return take_string(at, &text, &size);
	size = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	return size > 0 ? at + size : NULL;
}

static bool trace_line(struct trace *trace, const char *at)
{
	size_t first = trace->id_count;
	bool found = false;

	at = take(at, '{');
	while (at != NULL) {
		const char *name, *end;
		size_t size;

		at = take_string(at, &name, &size);
		at = at != NULL ? take(at, ':') : NULL;
		if (at == NULL)
			return false;
		if (size == 8 && memcmp(name, "hash_ids", 8) == 0) {
			if (found)
				return false;
			found = true;
			at = take_ids(trace, at);
		} else {
			at = skip_scalar(at);
		}
		end = at != NULL ? take(at, '}') : NULL;
		if (end != NULL)
			return found && *skip_space(end) == '\0' &&
			       trace_add_request(trace, first);
		at = at != NULL ? take(at, ',') : NULL;
	}
	return false;
}

/* ---- the file ------------------------------------------------------------ */

bool trace_read(struct trace *trace, FILE *file, char *message)
{
	char *line = NULL;
	size_t room = 0, number = 0;
	bool good = true;

	*trace = (struct trace){0};
	while (good && getline(&line, &room, file) >= 0) {
		number++;
		if (*skip_space(line) != '\0')
			good = trace_line(trace, line);
	}
	free(line);
	if (!good)
		(void)snprintf(message, TRACE_MESSAGE_MAX,
			"line %zu: not an object with \"hash_ids\": [whole numbers]",
			number);
	else if (ferror(file))
		(void)snprintf(message, TRACE_MESSAGE_MAX, "line %zu: cannot be read",
			number + 1);
	else if (trace->id_count == 0)
		(void)snprintf(message, TRACE_MESSAGE_MAX, "has no block ids");
	return good && !ferror(file) && trace->id_count > 0;
}

void trace_fini(struct trace *trace)
{
	free(trace->ids);
	free(trace->requests);
	*trace = (struct trace){0};
}

static int id_order(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

uint64_t trace_distinct(const struct trace *trace)
{
	uint64_t *sorted = malloc(trace->id_count * sizeof(*sorted) + 1), distinct = 0;

	if (sorted == NULL)
		return UINT64_MAX;
	memcpy(sorted, trace->ids, trace->id_count * sizeof(*sorted));
	qsort(sorted, trace->id_count, sizeof(*sorted), id_order);
	for (size_t i = 0; i < trace->id_count; i++)
		distinct += i == 0 || sorted[i] != sorted[i - 1];
	free(sorted);
	return distinct;
}
