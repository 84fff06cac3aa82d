/*
 * pull.c - the reading half: data connections to other nodes, and the fetches that use them.
 *
 * What comes goes from the socket into the pool, where its checksum is computed a piece at a
 * time while it is in the cache. A fetch that fails closes its connection before its end is
 * told, so that nothing more can go to its place; only where the source has said itself that
 * it sends no more is the connection kept for the next.
 */
#include "base/check.h"
#include "base/err.h"
#include "net/bulk_priv.h"

#include <stdio.h>
#include <string.h>

static struct pull *pull_at(struct list *entry)
{
	return container_of(entry, struct pull, entry);
}

static struct job *job_at(struct list *entry)
{
	return container_of(entry, struct job, entry);
}

/* ---- ends ---------------------------------------------------------------- */

/* Close it; its job, if it has one, has none then. */
static struct job *pull_close(struct pull *pull)
{
	struct job *job = pull->job;

	stream_close(&pull->stream);
	list_del(&pull->again);
	list_move_tail(&pull->bulk->pulls_free, &pull->entry);
	pull->state = PULL_FREE;
	pull->job = NULL;
	if (job != NULL)
		job->pull = NULL;
	return job;
}

static void pull_fail(struct pull *pull, int err)
{
	struct bulk *bulk = pull->bulk;
	struct job *job = pull_close(pull);

	if (job != NULL)
		bulk_job_end(bulk, job, err, 0);
}

/* The source is done with this one, and ready for the next. */
static void pull_finish(struct pull *pull, int err, uint64_t checksum)
{
	struct job *job = pull->job;

	pull->state = PULL_IDLE;
	pull->job = NULL;
	job->pull = NULL;
	list_move_tail(&pull->bulk->pulls_idle, &pull->entry);
	bulk_job_end(pull->bulk, job, err, checksum);
}

/* ---- a transfer ---------------------------------------------------------- */

/* The connection stands and is idle: ask for the bytes. */
static void pull_begin(struct pull *pull, struct job *job)
{
	struct chunk_ask ask = {.seed = job->what.seed};
	unsigned char bytes[CHUNK_ASK_SIZE];

	memcpy(ask.ticket, job->what.ticket.bytes, sizeof(ask.ticket));
	chunk_ask_write(bytes, &ask);
	pull->job = job;
	job->pull = pull;
	pull->state = PULL_HEAD;
	pull->small_size = 0;
	pull->got = 0;
	hash_stream_init(&pull->hash, job->what.seed);
	list_move_tail(&pull->bulk->pulls_busy, &pull->entry);
	if (stream_send(&pull->stream, bytes, sizeof(bytes)) != 0)
		pull_fail(pull, ERR_TRANSFER_FAIL);
}

/* Have `size` bytes of a head or a tail; false: they have not all come. */
static bool pull_small(struct pull *pull, uint32_t size)
{
	int64_t got = stream_read(
		&pull->stream, pull->small + pull->small_size, size - pull->small_size);

	if (got <= 0)
		return false;
	pull->small_size += (uint32_t)got;
	if (pull->small_size < size)
		return false;
	pull->small_size = 0;
	return true;
}

/* False: nothing is left to do for now. */
static bool pull_head(struct pull *pull)
{
	const struct peer_fetch *what = &pull->job->what;
	struct chunk_head head;

	if (!pull_small(pull, CHUNK_HEAD_SIZE))
		return false;
	if (chunk_head_read(pull->small, &head) != 0) {
		bulk_tell(pull->bulk, &pull->job->address, "what came is no chunk");
		pull_fail(pull, ERR_TRANSFER_FAIL);
		return false;
	}
	if (head.status == CHUNK_NO_TICKET || head.status == CHUNK_OVER) {
		pull_finish(pull, ERR_LEASE_EXPIRED, 0);
		return true;
	}
	if (head.status != CHUNK_HOLDS || head.generation != what->generation ||
		head.size != MIN(PEER_CHUNK, what->size - pull->got)) {
		bulk_tell(pull->bulk, &pull->job->address,
			"the chunk that came is not of what was asked for");
		pull_fail(pull, ERR_TRANSFER_FAIL);
		return false;
	}
	pull->chunk_end = pull->got + head.size;
	pull->state = head.size > 0 ? PULL_BODY : PULL_TAIL;
	return true;
}

static bool pull_body(struct pull *pull, uint64_t *budget)
{
	const struct share *share = pull->bulk->config.share;
	unsigned char *to = share->pool + pull->job->what.pool_off + pull->got;
	size_t wanted = MIN(PIECE_SIZE, pull->chunk_end - pull->got);
	int64_t got = stream_read(&pull->stream, to, wanted);

	if (got <= 0) {
		stream_want_bytes(&pull->stream,
			MIN(PIECE_SIZE, pull->chunk_end - pull->got + CHUNK_TAIL_SIZE));
		return false;
	}
	hash_stream_add(&pull->hash, to, (size_t)got);
	pull->got += (uint64_t)got;
	*budget -= MIN(*budget, (uint64_t)got);
	if (pull->got == pull->chunk_end) {
		pull->state = PULL_TAIL;
		stream_want_bytes(&pull->stream, 1);
	}
	return true;
}

static bool pull_tail(struct pull *pull)
{
	struct chunk_tail tail;

	if (!pull_small(pull, CHUNK_TAIL_SIZE))
		return false;
	if (chunk_tail_read(pull->small, &tail) != 0) {
		bulk_tell(pull->bulk, &pull->job->address, "what came is no chunk's end");
		pull_fail(pull, ERR_TRANSFER_FAIL);
		return false;
	}
	if (tail.status != CHUNK_HOLDS) {
		pull_finish(pull, ERR_LEASE_EXPIRED, 0);
		return true;
	}
	if (hash_stream_sum(&pull->hash) != tail.checksum) {
		bulk_tell(pull->bulk, &pull->job->address,
			"the bytes that came do not match their checksum");
		pull_fail(pull, ERR_CORRUPT);
		return false;
	}
	if (pull->got == pull->job->what.size)
		pull_finish(pull, 0, tail.checksum);
	else
		pull->state = PULL_HEAD;
	return true;
}

/* Nothing is to come: that it is closed, or broken, is all that can be read. */
static bool pull_idle(struct pull *pull)
{
	unsigned char byte;

	if (stream_read(&pull->stream, &byte, 1) > 0)
		(void)pull_close(pull);
	return false;
}

static bool pull_step(struct pull *pull, uint64_t *budget)
{
	switch (pull->state) {
	case PULL_IDLE:
		return pull_idle(pull);
	case PULL_HEAD:
		return pull_head(pull);
	case PULL_BODY:
		return pull_body(pull, budget);
	case PULL_TAIL:
		return pull_tail(pull);
	case PULL_FREE:
	case PULL_DIALING:
	case PULL_GREETING:
		break;
	}
	NOT_REACHED("nothing is read there");
}

static void pull_ready(void *ctx)
{
	struct pull *pull = ctx;
	uint64_t budget = TURN_SIZE;

	while (pull_step(pull, &budget)) {
		if (budget > 0)
			continue;
		/* Of what TLS has in hand the loop does not tell. */
		if (pull->bulk->config.tls != NULL)
			list_move_tail(&pull->bulk->again, &pull->again);
		return;
	}
}

/* Each that had its turn, and may have more. */
void pull_again(struct bulk *bulk)
{
	struct list turn;

	list_init(&turn);
	while (!list_is_empty(&bulk->again))
		list_move_tail(&turn, bulk->again.next);
	while (!list_is_empty(&turn)) {
		struct pull *pull = container_of(turn.next, struct pull, again);

		list_del(&pull->again);
		pull_ready(pull);
	}
}

/* ---- the way up ---------------------------------------------------------- */

static void pull_on_up(void *ctx)
{
	struct pull *pull = ctx;
	const struct greeting greeting = {.version = NET_VERSION, .kind = NET_DATA};
	unsigned char bytes[GREETING_SIZE];

	pull->state = PULL_GREETING;
	pull->deadline = loop_boot_ns() + STREAM_OPEN_NS;
	greeting_write(bytes, &greeting);
	if (stream_send(&pull->stream, bytes, sizeof(bytes)) != 0)
		pull_fail(pull, ERR_TRANSFER_FAIL);
}

static size_t pull_on_data(void *ctx, const void *bytes, size_t size)
{
	struct pull *pull = ctx;
	struct greeting greeting;

	if (size < GREETING_SIZE)
		return 0;
	if (size > GREETING_SIZE || greeting_read(bytes, &greeting) != 0 ||
		greeting.version != NET_VERSION || greeting.verdict != NET_WELCOME) {
		bulk_tell(pull->bulk, &pull->job->address, "it does not welcome it");
		pull_fail(pull, ERR_TRANSFER_FAIL);
		return size;
	}
	stream_go_direct(&pull->stream, pull_ready);
	pull_begin(pull, pull->job);
	return size;
}

static void pull_on_down(void *ctx, int err, const char *why)
{
	struct pull *pull = ctx;

	if (err != ERR_UNAVAILABLE && err != ERR_TIMEOUT && pull->job != NULL)
		bulk_tell(pull->bulk, &pull->job->address, why);
	pull_fail(pull, ERR_TRANSFER_FAIL);
}

static const struct stream_events pull_events = {
	.up = pull_on_up, .data = pull_on_data, .down = pull_on_down};

/* ---- connections for those who wait -------------------------------------- */

static bool pull_is_for(const struct pull *pull, const struct job *job)
{
	return pull->peer == job->what.peer && pull->life == job->life;
}

static struct pull *pull_idle_for(struct bulk *bulk, const struct job *job)
{
	list_for_each (entry, &bulk->pulls_idle) {
		if (pull_is_for(pull_at(entry), job))
			return pull_at(entry);
	}
	return NULL;
}

/* One to open; NULL: it must wait for one that is busy. */
static struct pull *pull_new_for(struct bulk *bulk, const struct job *job)
{
	uint32_t count = 0;

	list_for_each (entry, &bulk->pulls_busy)
		count += pull_is_for(pull_at(entry), job);
	if (count >= PULLS_EACH)
		return NULL;
	if (list_is_empty(&bulk->pulls_free) && !list_is_empty(&bulk->pulls_idle))
		(void)pull_close(pull_at(list_first(&bulk->pulls_idle)));
	if (list_is_empty(&bulk->pulls_free))
		return NULL;
	return pull_at(list_first(&bulk->pulls_free));
}

static void pull_open(struct pull *pull, struct job *job)
{
	struct bulk *bulk = pull->bulk;

	pull->state = PULL_DIALING;
	pull->peer = job->what.peer;
	pull->life = job->life;
	pull->job = job;
	job->pull = pull;
	list_move_tail(&bulk->pulls_busy, &pull->entry);
	if (stream_open(&pull->stream, &bulk->loop, &job->address, bulk->config.tls,
		    &pull_events, pull) != 0)
		pull_fail(pull, ERR_TRANSFER_FAIL);
}

void pull_serve(struct bulk *bulk)
{
	list_for_each_safe (entry, &bulk->waiting) {
		struct job *job = job_at(entry);
		struct pull *pull = pull_idle_for(bulk, job);

		if (pull != NULL) {
			list_del(entry);
			pull_begin(pull, job);
			continue;
		}
		pull = pull_new_for(bulk, job);
		if (pull != NULL) {
			list_del(entry);
			pull_open(pull, job);
		}
	}
}

/* ---- early ends ---------------------------------------------------------- */

void pull_stop(struct bulk *bulk, struct job *job, int err)
{
	if (job->pull != NULL)
		(void)pull_close(job->pull);
	bulk_job_end(bulk, job, err, 0);
}

void pull_end_idle(struct bulk *bulk, const uint32_t *lives)
{
	list_for_each_safe (entry, &bulk->pulls_idle) {
		struct pull *pull = pull_at(entry);

		if (pull->life != lives[pull->peer])
			(void)pull_close(pull);
	}
}

void pull_close_all(struct bulk *bulk)
{
	for (uint32_t i = 0; i < PULLS; i++)
		stream_close(&bulk->pulls[i].stream);
}

/* ---- time ---------------------------------------------------------------- */

static uint64_t pull_when(const struct pull *pull)
{
	uint64_t when = pull->job->what.deadline_ns;

	if (pull->state == PULL_DIALING)
		return MIN(when, stream_next(&pull->stream));
	return pull->state == PULL_GREETING ? MIN(when, pull->deadline) : when;
}

uint64_t pull_next(const struct bulk *bulk)
{
	uint64_t next = UINT64_MAX;

	list_for_each (entry, &bulk->waiting)
		next = MIN(next, job_at(entry)->what.deadline_ns);
	list_for_each (entry, &bulk->pulls_busy)
		next = MIN(next, pull_when(pull_at(entry)));
	return next;
}

void pull_due(struct bulk *bulk, uint64_t now)
{
	list_for_each_safe (entry, &bulk->waiting) {
		if (now >= job_at(entry)->what.deadline_ns)
			pull_stop(bulk, job_at(entry), ERR_TIMEOUT);
	}
	list_for_each_safe (entry, &bulk->pulls_busy) {
		struct pull *pull = pull_at(entry);

		if (now >= pull->job->what.deadline_ns)
			pull_stop(bulk, pull->job, ERR_TIMEOUT);
		else if (pull->state == PULL_DIALING)
			stream_due(&pull->stream, now);
		else if (pull->state == PULL_GREETING && now >= pull->deadline)
			pull_fail(pull, ERR_TRANSFER_FAIL);
	}
}
