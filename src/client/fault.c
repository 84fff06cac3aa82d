/*
 * fault.c - the fault points of this process, and those of the daemon by message.
 *
 * The table is state of the library: a point is in the process, not in a store.
 */
#include "client/client_priv.h"

#include <string.h>

#if FAULT_BUILD

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static struct fault_table client_faults;

/* Before main(): a point may be armed before the first store is attached. */
__attribute__((constructor)) static void client_fault_start(void)
{
	fault_init(&client_faults);
}

static void fault_sleep(int64_t ms)
{
	struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
		;
}

int client_fault(enum fault_point point)
{
	int64_t value = 0;

	switch (fault_hit(&client_faults, point, &value)) {
	case FAULT_SLEEP:
		fault_sleep(value);
		return 0;
	case FAULT_RETURN_ERROR:
		return client_fail(
			(int)value, "fault ordered at %s", fault_point_name(point));
	case FAULT_KILL:
		(void)kill(getpid(), SIGKILL);
		return 0;
	case FAULT_NONE:
	case FAULT_RESET:
		break;
	}
	return 0;
}

/* Points of the daemon are never met here: an order for one is a mistake. */
static int fault_check_name(const char *name)
{
	for (int i = 0; name != NULL && i < FAULT_POINT_COUNT; i++) {
		if (strcmp(fault_point_name((enum fault_point)i), name) == 0)
			return fault_point_is_client((enum fault_point)i)
				       ? 0
				       : client_fail(ERR_BAD_ARGUMENT,
						 "fault point %s is in the daemon", name);
	}
	return client_fail(ERR_BAD_ARGUMENT, "no fault point %s", name ? name : "(none)");
}

int cenote_inject_fault(const char *name, const char *action, int64_t value,
	uint64_t from_hit, int64_t times)
{
	enum fault_action parsed;
	int err = fault_check_name(name);

	if (err != 0)
		return err;
	if (action == NULL || fault_action_parse(action, &parsed) != 0)
		return client_fail(ERR_BAD_ARGUMENT,
			"fault action %s: it takes sleep, return_error, kill, reset",
			action ? action : "(none)");
	err = fault_arm(&client_faults, name, parsed, value,
		from_hit > INT64_MAX ? INT64_MAX : (int64_t)from_hit, times);
	return err == 0 ? 0
			: client_fail(err,
				  "fault %s %s: value %" PRId64 ", from hit %" PRIu64
				  ", %" PRId64 " times: sleep takes a value from 0 on, "
				  "return_error one from %d to -1; times is from -1 on",
				  name, action, value, from_hit, times, INT_MIN);
}

int cenote_get_fault_status(const char *name, uint64_t *ret_hits, uint64_t *ret_fired)
{
	int err = fault_check_name(name);

	if (err == 0)
		err = fault_status(&client_faults, name, ret_hits, ret_fired);
	return err;
}

#else

static int fault_refuse(void)
{
	return client_fail(ERR_NOT_SUPPORTED, "this build of the library has no faults");
}

int cenote_inject_fault(const char *name, const char *action, int64_t value,
	uint64_t from_hit, int64_t times)
{
	(void)name, (void)action, (void)value, (void)from_hit, (void)times;
	return fault_refuse();
}

int cenote_get_fault_status(const char *name, uint64_t *ret_hits, uint64_t *ret_fired)
{
	(void)name, (void)ret_hits, (void)ret_fired;
	return fault_refuse();
}

#endif

static struct msg_bytes fault_text(const char *text)
{
	return (struct msg_bytes){.data = text, .size = text ? strlen(text) : 0};
}

int cenote_inject_fault_local_master(struct cenote *store, const char *name,
	const char *action, int64_t value, uint64_t from_hit, int64_t times)
{
	struct msg_fault msg = {
		.name = fault_text(name),
		.action = fault_text(action),
		.value = value,
		.from_hit = from_hit,
		.times = times,
	};
	unsigned char request[CALL_ASK_MAX];

	return call_do(store, request, msg_fault_encode(request, sizeof(request), &msg),
		CALL_CLIENT);
}

int cenote_get_fault_status_local_master(
	struct cenote *store, const char *name, uint64_t *ret_hits, uint64_t *ret_fired)
{
	struct msg_fault_status msg = {.name = fault_text(name)};
	unsigned char request[CALL_ASK_MAX];
	struct msg_fault_counts counts;
	struct call call;
	int err = call_ask(&call, store, request,
		msg_fault_status_encode(request, sizeof(request), &msg), CALL_CLIENT,
		MSG_TYPE_FAULT_COUNTS);

	if (err != 0)
		return err;
	if (msg_fault_counts_decode(call.lane->in, call.reply_size, &counts) != 0)
		err = reply_broken(MSG_TYPE_FAULT_COUNTS);
	call_end(&call);
	if (err == 0) {
		*ret_hits = counts.hits;
		*ret_fired = counts.fired;
	}
	return err;
}
