/*
 * station_log.c - gather events, sort them, write them as text.
 */
#include "tools/station_log.h"

#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kind_names[] = {
	[STATION_EVENT_PUT] = "put",
	[STATION_EVENT_READ] = "read",
	[STATION_EVENT_REMOVE] = "remove",
	[STATION_EVENT_TURNING] = "turning",
};

int station_log_open(void)
{
	int fd = memfd_create("station-log", MFD_CLOEXEC);

	/* So that what ranks write at once lies one behind the other. */
	if (fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) == 0)
		return fd;
	tool_complain("bench: no file for the log: %s", strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

/* ---- a rank's side ------------------------------------------------------- */

void station_log_flush(struct station_log *log)
{
	size_t size = log->count * sizeof(log->events[0]);

	if (log->fd < 0 || log->count == 0)
		return;
	log->count = 0;
	if (write(log->fd, log->events, size) == (ssize_t)size)
		return;
	tool_complain("bench: the log: %s", strerror(errno));
	log->fd = -1;
}

void station_log_add(struct station_log *log, uint32_t step, uint64_t time_ns,
	enum station_event_kind kind, const struct station_object *object, uint64_t bytes)
{
	struct station_event *event = &log->events[log->count];

	if (log->fd < 0)
		return;
	*event = (struct station_event){
		.time_ns = time_ns, .bytes = bytes, .step = step, .kind = kind};
	if (object != NULL) {
		event->object_step = object->step;
		event->owner = object->owner;
		event->sequence = object->sequence;
	}
	if (++log->count == STATION_LOG_BATCH)
		station_log_flush(log);
}

/* ---- the parent's side --------------------------------------------------- */

/* What stands at one moment in the order of an object's life. */
static int event_order(const void *a, const void *b)
{
	const struct station_event *left = a, *right = b;

	if (left->time_ns != right->time_ns)
		return left->time_ns < right->time_ns ? -1 : 1;
	return (left->kind > right->kind) - (left->kind < right->kind);
}

static struct station_event *log_read(int fd, size_t *ret_count)
{
	struct station_event *events = NULL;
	struct stat file;
	size_t size;

	if (fstat(fd, &file) != 0)
		return NULL;
	size = (size_t)file.st_size;
	events = malloc(size + 1);
	if (events != NULL && pread(fd, events, size, 0) == (ssize_t)size) {
		*ret_count = size / sizeof(*events);
		return events;
	}
	free(events);
	return NULL;
}

static void event_print(const struct station_event *event, FILE *out)
{
	(void)fprintf(out, "%" PRIu32 " %" PRIu64 " %s ", event->step, event->time_ns,
		kind_names[event->kind]);
	if (event->kind == STATION_EVENT_TURNING)
		(void)fprintf(out, "-");
	else
		(void)fprintf(out, "%" PRIu32 ".%u.%u", event->object_step, event->owner,
			event->sequence);
	(void)fprintf(out, " %" PRIu64 "\n", event->bytes);
}

int station_log_print(int fd, FILE *out)
{
	size_t count = 0;
	struct station_event *events = log_read(fd, &count);

	if (events == NULL) {
		tool_complain("bench: no memory for the log");
		return TOOL_FAILED;
	}
	qsort(events, count, sizeof(*events), event_order);
	for (size_t i = 0; i < count; i++)
		event_print(&events[i], out);
	free(events);
	if (fflush(out) == 0 && ferror(out) == 0)
		return TOOL_OK;
	tool_complain("bench: the log: %s", strerror(errno));
	return TOOL_FAILED;
}
