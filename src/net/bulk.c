/*
 * bulk.c - orders to the helper thread, its reports, its life.
 *
 * Both ways things go through lists under one lock, with an eventfd for each side to wake it.
 * An order to stop names a job by its number, and such a number may be in use again by the
 * time the helper looks; so it is a mark on the job, which bulk_fetch() clears.
 */
#include "net/bulk.h"

#include "base/check.h"
#include "base/err.h"
#include "net/bulk_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct job *job_of(struct list *entry)
{
	return container_of(entry, struct job, entry);
}

static void wake(const struct loop_source *side)
{
	uint64_t one = 1;

	CHECK(write(side->fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void hear(const struct loop_source *side)
{
	uint64_t count;

	(void)!read(side->fd, &count, sizeof(count));
}

static void lock(struct bulk *bulk)
{
	CHECK(pthread_mutex_lock(&bulk->lock) == 0);
}

static void unlock(struct bulk *bulk)
{
	CHECK(pthread_mutex_unlock(&bulk->lock) == 0);
}

/* ---- orders -------------------------------------------------------------- */

void bulk_fetch(struct bulk *bulk, uint32_t number, const struct peer_fetch *what,
	const struct address *address)
{
	const struct share_header *header = bulk->config.share->header;
	struct job *job = &bulk->jobs[number];

	CHECK(number < PEER_TRANSFERS && what->peer < PEER_LIMIT);
	CHECK(what->pool_off <= header->pool_size &&
		what->size <= header->pool_size - what->pool_off);
	lock(bulk);
	CHECK(job->state == JOB_FREE);
	job->what = *what;
	job->address = *address;
	job->life = bulk->lives[what->peer];
	job->state = JOB_ACTIVE;
	job->stop = 0;
	list_add_tail(&bulk->ordered, &job->entry);
	unlock(bulk);
	wake(&bulk->orders);
}

void bulk_stop(struct bulk *bulk, uint32_t number)
{
	CHECK(number < PEER_TRANSFERS);
	lock(bulk);
	if (bulk->jobs[number].state == JOB_ACTIVE) {
		bulk->jobs[number].stop = ERR_TRANSFER_FAIL;
		bulk->has_stops = true;
	}
	unlock(bulk);
	wake(&bulk->orders);
}

void bulk_end_peer(struct bulk *bulk, uint32_t peer)
{
	lock(bulk);
	bulk->lives[peer]++;
	bulk->has_stops = true;
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		struct job *job = &bulk->jobs[i];

		if (job->state == JOB_ACTIVE && job->what.peer == peer)
			job->stop = ERR_TRANSFER_FAIL;
	}
	unlock(bulk);
	wake(&bulk->orders);
}

int bulk_offer(
	struct bulk *bulk, const struct peer_offer *offer, struct peer_ticket *ret_ticket)
{
	const struct share_header *header = bulk->config.share->header;
	int err;

	CHECK(offer->slot < header->slots_limit && offer->off <= header->pool_size &&
		offer->size <= header->pool_size - offer->off);
	lock(bulk);
	err = offers_make(&bulk->offers, offer, ret_ticket);
	unlock(bulk);
	return err;
}

void bulk_withdraw(struct bulk *bulk, const struct peer_ticket *ticket)
{
	struct peer_offer offer;

	lock(bulk);
	(void)!offers_take(&bulk->offers, ticket, &offer); /* used already, or not */
	unlock(bulk);
}

int bulk_take(struct bulk *bulk, struct stream *stream, const struct address *from)
{
	struct list *entry;
	struct push *push;

	lock(bulk);
	entry = list_first(&bulk->pushes_free);
	if (entry != NULL) {
		push = container_of(entry, struct push, entry);
		stream_leave(stream, &push->stream);
		push->state = PUSH_TAKEN;
		push->from = *from;
		list_move_tail(&bulk->taken, entry);
	}
	unlock(bulk);
	if (entry == NULL)
		return ERR_TOO_MANY;
	wake(&bulk->orders);
	return 0;
}

/* ---- what the helper tells ----------------------------------------------- */

void bulk_job_end(struct bulk *bulk, struct job *job, int err, uint64_t checksum)
{
	lock(bulk);
	CHECK(job->state == JOB_ACTIVE && job->pull == NULL);
	job->state = JOB_ENDED;
	job->err = err;
	job->checksum = checksum;
	list_move_tail(&bulk->ended, &job->entry);
	unlock(bulk);
	wake(&bulk->reports);
}

void bulk_tell(struct bulk *bulk, const struct address *from, const char *why)
{
	char address[ADDRESS_TEXT_MAX];
	bool is_first = false;

	lock(bulk);
	if (bulk->warning_count <
		WARNS) { /* the rest would be kept from the log anyway */
		struct bulk_warning *warning = &bulk->warnings[bulk->warning_count++];

		(void)snprintf(warning->host, sizeof(warning->host), "%s", from->host);
		(void)snprintf(warning->text, sizeof(warning->text),
			"the data connection with %s is closed: %s",
			address_text(from, address), why);
		is_first = true;
	}
	unlock(bulk);
	if (is_first)
		wake(&bulk->reports);
}

int bulk_use_ticket(
	struct bulk *bulk, const struct peer_ticket *ticket, struct peer_offer *ret_offer)
{
	int err;

	lock(bulk);
	err = offers_take(&bulk->offers, ticket, ret_offer);
	unlock(bulk);
	return err;
}

void bulk_push_free(struct bulk *bulk, struct push *push)
{
	stream_close(&push->stream);
	lock(bulk);
	push->state = PUSH_FREE;
	list_move_tail(&bulk->pushes_free, &push->entry);
	unlock(bulk);
}

/* ---- and the loop thread hears ------------------------------------------- */

static struct job *take_ended(struct bulk *bulk, int *ret_err, uint64_t *ret_checksum)
{
	struct job *job = NULL;

	lock(bulk);
	if (!list_is_empty(&bulk->ended)) {
		job = job_of(list_first(&bulk->ended));
		list_del(&job->entry);
		job->state = JOB_FREE;
		*ret_err = job->err;
		*ret_checksum = job->checksum;
	}
	unlock(bulk);
	return job;
}

static bool take_warning(struct bulk *bulk, struct bulk_warning *ret)
{
	bool any;

	lock(bulk);
	any = bulk->warning_count > 0;
	if (any)
		*ret = bulk->warnings[--bulk->warning_count];
	unlock(bulk);
	return any;
}

static void on_reports(struct loop_source *source)
{
	struct bulk *bulk = container_of(source, struct bulk, reports);
	const struct bulk_config *config = &bulk->config;
	struct bulk_warning warning;
	struct job *job;
	uint64_t checksum;
	int err;

	hear(source);
	while (take_warning(bulk, &warning))
		config->warn(config->ctx, warning.host, warning.text);
	while ((job = take_ended(bulk, &err, &checksum)) != NULL)
		config->done(config->ctx, (uint32_t)(job - bulk->jobs), err, checksum);
}

/* ---- the helper ---------------------------------------------------------- */

/* What was ordered to stop, and which connections are to go. */
struct stops {
	int jobs[PEER_TRANSFERS];
	uint32_t lives[PEER_LIMIT];
};

/* Under the lock. */
static void stops_take(struct bulk *bulk, struct stops *ret)
{
	bulk->has_stops = false;
	memcpy(ret->lives, bulk->lives, sizeof(ret->lives));
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		ret->jobs[i] = bulk->jobs[i].state == JOB_ACTIVE ? bulk->jobs[i].stop : 0;
		bulk->jobs[i].stop = 0;
	}
}

static void stops_follow(struct bulk *bulk, const struct stops *stops)
{
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		if (stops->jobs[i] != 0)
			pull_stop(bulk, &bulk->jobs[i], stops->jobs[i]);
	}
	pull_end_idle(bulk, stops->lives);
}

/* False: it is to end. */
static bool take_orders(struct bulk *bulk)
{
	struct stops stops;
	struct list fresh;
	bool has_stops, goes_on;

	list_init(&fresh);
	lock(bulk);
	goes_on = !bulk->is_closing;
	while (!list_is_empty(&bulk->ordered))
		list_move_tail(&bulk->waiting, bulk->ordered.next);
	while (!list_is_empty(&bulk->taken))
		list_move_tail(&fresh, bulk->taken.next);
	has_stops = bulk->has_stops;
	if (has_stops)
		stops_take(bulk, &stops);
	unlock(bulk);
	if (has_stops)
		stops_follow(bulk, &stops);
	while (!list_is_empty(&fresh)) {
		struct push *push = container_of(fresh.next, struct push, entry);

		list_move_tail(&bulk->pushes_open, &push->entry);
		push_begin(push);
	}
	return goes_on;
}

static void on_orders(struct loop_source *source)
{
	hear(source);
}

static void *bulk_main(void *arg)
{
	struct bulk *bulk = arg;
	int signal;

	while (take_orders(bulk)) {
		pull_serve(bulk);
		pull_again(bulk);
		loop_set_timer(&bulk->loop, pull_next(bulk));
		CHECK(loop_turn(&bulk->loop, list_is_empty(&bulk->again), &signal) == 0);
		pull_due(bulk, loop_boot_ns());
	}
	return NULL;
}

/* ---- begin and end ------------------------------------------------------- */

static int side_open(struct loop_source *side, struct loop *loop,
	void (*on_ready)(struct loop_source *source))
{
	int err;

	*side = (struct loop_source){
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .on_ready = on_ready};
	if (side->fd < 0)
		return ERR_IO;
	err = loop_add(loop, side);
	if (err != 0) {
		(void)close(side->fd);
		side->fd = -1;
	}
	return err;
}

/* With every signal blocked: they are the loop thread's. */
static int thread_start(struct bulk *bulk)
{
	sigset_t all, before;
	int error;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&bulk->thread, NULL, bulk_main, bulk);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	bulk->has_thread = error == 0;
	return error == 0 ? 0 : ERR_NO_MEMORY;
}

static void bulk_init(struct bulk *bulk)
{
	struct list *lists[] = {&bulk->ordered, &bulk->ended, &bulk->pushes_free,
		&bulk->taken, &bulk->waiting, &bulk->pulls_free, &bulk->pulls_idle,
		&bulk->pulls_busy, &bulk->again, &bulk->pushes_open};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		list_init(lists[i]);
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++)
		list_init(&bulk->jobs[i].entry);
	for (uint32_t i = 0; i < PULLS; i++) {
		bulk->pulls[i].bulk = bulk;
		list_init(&bulk->pulls[i].again);
		list_add_tail(&bulk->pulls_free, &bulk->pulls[i].entry);
	}
	for (uint32_t i = 0; i < PUSHES; i++) {
		bulk->pushes[i].bulk = bulk;
		list_add_tail(&bulk->pushes_free, &bulk->pushes[i].entry);
	}
}

static int bulk_allocate(struct bulk *bulk)
{
	bulk->pulls = aligned_alloc(
		_Alignof(struct pull), (size_t)PULLS * sizeof(bulk->pulls[0]));
	bulk->pushes = aligned_alloc(
		_Alignof(struct push), (size_t)PUSHES * sizeof(bulk->pushes[0]));
	if (bulk->pulls == NULL || bulk->pushes == NULL)
		return ERR_NO_MEMORY;
	memset(bulk->pulls, 0, (size_t)PULLS * sizeof(bulk->pulls[0]));
	memset(bulk->pushes, 0, (size_t)PUSHES * sizeof(bulk->pushes[0]));
	bulk_init(bulk);
	return offers_init(&bulk->offers, bulk->config.offers);
}

int bulk_open(struct bulk **ret, const struct bulk_config *config)
{
	struct bulk *bulk = calloc(1, sizeof(*bulk));
	int err;

	if (bulk == NULL)
		return ERR_NO_MEMORY;
	bulk->config = *config;
	bulk->orders.fd = bulk->reports.fd = -1;
	CHECK(pthread_mutex_init(&bulk->lock, NULL) == 0);
	err = loop_open(&bulk->loop);
	if (err == 0)
		err = bulk_allocate(bulk);
	if (err == 0)
		err = side_open(&bulk->orders, &bulk->loop, on_orders);
	if (err == 0)
		err = side_open(&bulk->reports, config->loop, on_reports);
	if (err == 0)
		err = thread_start(bulk);
	if (err != 0) {
		bulk_close(bulk);
		return err;
	}
	*ret = bulk;
	return 0;
}

static void thread_join(struct bulk *bulk)
{
	if (!bulk->has_thread)
		return;
	lock(bulk);
	bulk->is_closing = true;
	unlock(bulk);
	wake(&bulk->orders);
	CHECK(pthread_join(bulk->thread, NULL) == 0);
	pull_close_all(bulk);
	push_close_all(bulk);
}

void bulk_close(struct bulk *bulk)
{
	if (bulk == NULL)
		return;
	thread_join(bulk);
	if (bulk->reports.fd >= 0) {
		loop_remove(bulk->config.loop, &bulk->reports);
		(void)close(bulk->reports.fd);
	}
	if (bulk->orders.fd >= 0)
		(void)close(bulk->orders.fd);
	loop_close(&bulk->loop);
	offers_fini(&bulk->offers);
	free(bulk->pulls);
	free(bulk->pushes);
	(void)pthread_mutex_destroy(&bulk->lock);
	free(bulk);
}
