/*
 * lane.c - connections, and calls over them.
 *
 * A thread has a lane for itself during a call, so that a reply needs no owner written on
 * it, and giving up is simply to close the lane: the daemon then drops what it was doing
 * for it.
 */
#include "client/client_priv.h"

#include "base/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LANES_IDLE 16
/* Between two looks whether a daemon is back. */
#define LANE_RETRY_NS 15000000ull
/* For the answer of a daemon that judges the time. */
#define CALL_GRACE_NS 1000000000ull

/* ---- lanes --------------------------------------------------------------- */

static struct lane *lane_new(struct cenote *store)
{
	struct lane *lane = malloc(sizeof(*lane));
	unsigned char *buffers = malloc(2 * (size_t)MSG_SIZE_MAX);

	if (lane == NULL || buffers == NULL) {
		free(lane);
		free(buffers);
		return NULL;
	}
	*lane = (struct lane){.fd = -1, .out = buffers, .in = buffers + MSG_SIZE_MAX};
	list_init(&lane->entry);
	pthread_mutex_lock(&store->lock);
	list_add_tail(&store->lanes, &lane->all_entry);
	pthread_mutex_unlock(&store->lock);
	return lane;
}

/* A forked child may have the socket too: shutdown() ends it all the same. */
void lane_close(struct lane *lane)
{
	if (lane->fd < 0)
		return;
	(void)shutdown(lane->fd, SHUT_RDWR);
	(void)close(lane->fd);
	lane->fd = -1;
}

void lane_free(struct lane *lane)
{
	list_del(&lane->all_entry);
	free(lane->out);
	free(lane);
}

/* One try to join the daemon as what `attachment` is. ERR_STALE: it does not know it. */
static int lane_try(struct cenote *store, struct lane *lane, uint64_t deadline)
{
	struct attachment *attachment = lane->attachment;
	struct msg_welcome welcome;
	int err = socket_connect(store->socket_path, &lane->fd);

	if (err != 0)
		return client_fail_socket(store, err);
	err = attach_hello(store, lane->fd, attachment->token, deadline, &welcome, NULL);
	if (err == 0 && memcmp(welcome.pool_id, attachment->pool_id, 16) != 0)
		err = client_fail_plain(ERR_STALE);
	if (err == ERR_STALE)
		atomic_store(&attachment->is_stale, true);
	if (err != 0)
		lane_close(lane);
	return err;
}

/* Sleep a little, at most to the deadline: false if that has come. */
static bool lane_wait(uint64_t deadline)
{
	uint64_t now = socket_now();
	uint64_t span = MIN(LANE_RETRY_NS, deadline > now ? deadline - now : 0);
	struct timespec rest = {.tv_nsec = (long)span};

	if (span == 0)
		return false;
	(void)nanosleep(&rest, NULL);
	return true;
}

/* Join, whatever it takes until the deadline. */
static int lane_open(struct cenote *store, struct lane *lane, uint64_t deadline)
{
	int err;

	do {
		err = store_attach(store, deadline, &lane->attachment);
		if (err == 0)
			err = lane_try(store, lane, deadline);
	} while ((err == ERR_UNAVAILABLE || err == ERR_BUSY || err == ERR_STALE) &&
		 lane_wait(deadline));
	if (err == ERR_UNAVAILABLE || err == ERR_BUSY)
		return client_fail(
			ERR_UNAVAILABLE, "no daemon answers at %s", store->socket_path);
	return err;
}

/* ---- calls --------------------------------------------------------------- */

static struct lane *lane_take_idle(struct cenote *store)
{
	struct list *entry;
	struct lane *lane = NULL;

	pthread_mutex_lock(&store->lock);
	entry = list_last(&store->idle);
	if (entry != NULL) {
		list_del(entry);
		store->idle_count--;
		lane = container_of(entry, struct lane, entry);
	}
	pthread_mutex_unlock(&store->lock);
	return lane;
}

int call_open(struct call *call, struct cenote *store, uint64_t deadline)
{
	int err = 0;

	*call = (struct call){.store = store, .deadline = deadline};
	call->lane = lane_take_idle(store);
	if (call->lane == NULL) {
		call->lane = lane_new(store);
		if (call->lane == NULL)
			return client_fail(ERR_NO_MEMORY, "no memory for a connection");
	}
	if (call->lane->fd < 0)
		err = lane_open(store, call->lane, deadline);
	if (err != 0)
		call_end(call);
	return err;
}

int call_begin(struct call *call, struct cenote *store, uint64_t deadline)
{
	int err = 0;

	if (store_attachment(store, &err) != NULL)
		err = call_open(call, store, deadline);
	if (err == 0 &&
		atomic_load_explicit(&store->orphan_count, memory_order_relaxed) > 0)
		orphans_flush(call);
	if (err == 0 &&
		atomic_load_explicit(&store->read_count, memory_order_relaxed) > 0)
		reads_flush(call);
	call->is_repeated = false;
	return err;
}

void call_end(struct call *call)
{
	struct cenote *store = call->store;
	struct lane *lane = call->lane;

	pthread_mutex_lock(&store->lock);
	if (lane->fd >= 0 && store->idle_count < LANES_IDLE) {
		list_add_tail(&store->idle, &lane->entry);
		store->idle_count++;
		lane = NULL;
	} else {
		list_del(&lane->all_entry);
	}
	pthread_mutex_unlock(&store->lock);
	if (lane != NULL) {
		lane_close(lane);
		lane_free(lane);
	}
}

uint64_t call_rest(const struct call *call)
{
	uint64_t now;

	if (call->deadline == UINT64_MAX)
		return UINT64_MAX;
	now = socket_now();
	return call->deadline > now ? call->deadline - now : 0;
}

/* Until when an answer is waited for. */
static uint64_t call_until(const struct call *call, enum call_judge judge)
{
	uint64_t until = call->deadline, now;

	if (until == UINT64_MAX || judge == CALL_CLIENT)
		return until;
	now = socket_now();
	if (until < now)
		until = now; /* a batch goes on beyond it, to give each key its answer */
	return __builtin_add_overflow(until, CALL_GRACE_NS, &until) ? UINT64_MAX : until;
}

static int call_lost(struct call *call, int err)
{
	(void)client_fail_socket(call->store, err);
	lane_close(call->lane);
	if (err != ERR_UNAVAILABLE)
		return err;
	/* Also a daemon that answers HELLO and nothing else comes to an end. */
	if (call_rest(call) == 0)
		return client_fail(
			err, "the daemon at %s hung up", call->store->socket_path);
	err = lane_open(call->store, call->lane, call->deadline);
	return err == 0 ? CALL_AGAIN : err;
}

int call_exchange(struct call *call, size_t size, enum call_judge judge)
{
	struct lane *lane = call->lane;
	uint64_t until = call_until(call, judge);
	int64_t got;
	int err;

	if (call->is_answered)
		call->is_repeated = false;
	call->is_answered = false;
	if (store_attachment(call->store, &err) == NULL)
		return err; /* forked in a callback: the lane is the parent's */
	if (size == 0)
		return client_fail(ERR_BAD_ARGUMENT,
			"a name is too long for its message, or all of it for %u bytes",
			MSG_SIZE_MAX);
	if (lane->fd < 0)
		return call_lost(call, ERR_UNAVAILABLE);
	err = socket_send(lane->fd, lane->out, size, NULL, 0, until);
	if (err != 0)
		return call_lost(call, err);
	got = socket_receive(lane->fd, lane->in, MSG_SIZE_MAX, until, NULL);
	if (got < 0) {
		call->is_repeated = true;
		return call_lost(call, (int)got);
	}
	call->reply_size = (size_t)got;
	call->is_answered = true;
	return 0;
}

int call_ask(struct call *call, struct cenote *store, const void *request, size_t size,
	enum call_judge judge, enum msg_type answer)
{
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (err == 0)
		err = call_begin(call, store, deadline);
	if (err != 0)
		return err;
	do {
		memcpy(call->lane->out, request, size);
		err = call_exchange(call, size, judge);
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = call_expect(call, answer);
	if (err != 0)
		call_end(call);
	return err;
}

int call_do(struct cenote *store, const void *request, size_t size, enum call_judge judge)
{
	struct call call;
	int err = call_ask(&call, store, request, size, judge, MSG_TYPE_DONE);

	if (err == 0)
		call_end(&call);
	return err;
}

void call_send(struct call *call, const void *message, size_t size)
{
	CHECK(size > 0);
	if (call->lane->fd >= 0 &&
		socket_send(call->lane->fd, message, size, NULL, 0, call->deadline) != 0)
		lane_close(call->lane);
}

/* ---- replies ------------------------------------------------------------- */

int reply_broken(enum msg_type type)
{
	return client_fail(ERR_PROTOCOL, "the daemon's answer is no valid %s message",
		msg_name(type));
}

int reply_expect(const void *reply, size_t size, enum msg_type type)
{
	struct msg_error error;
	enum msg_type found;

	if (msg_type(reply, size, &found) != 0)
		return reply_broken(type);
	if (found == type)
		return 0;
	if (found != MSG_TYPE_ERROR || msg_error_decode(reply, size, &error) != 0 ||
		error.code >= 0)
		return reply_broken(type);
	return client_fail(
		error.code, "%.*s", (int)error.text.size, (const char *)error.text.data);
}

int call_expect(struct call *call, enum msg_type type)
{
	int err = reply_expect(call->lane->in, call->reply_size, type);

	if (err == ERR_PROTOCOL) {
		lane_close(call->lane);
		call->is_answered = false;
	}
	return err;
}
