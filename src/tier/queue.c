/*
 * queue.c - jobs, the threads that do them, and how their ends reach the loop.
 *
 *   free --queue_job, queue_add--> reads, writes --the last part was taken--> (threads)
 *                               '-> index --the index thread--> (it)
 *   (threads) --all parts done--> done --the loop--> free
 *
 * A job in `reads` or `writes` gives one part of itself to each thread that asks; the two
 * take turns. A read goes to the back of its queue then, so that a large object does not
 * hold up small ones, for which somebody waits. A write stays until all of it was taken:
 * writes then end one after another, and what they make room for is used meanwhile.
 */
#include "base/check.h"
#include "base/err.h"
#include "tier/store_priv.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static struct store_job *job_of(struct list *entry)
{
	return container_of(entry, struct store_job, entry);
}

/* ---- ends ---------------------------------------------------------------- */

/* Under the lock. */
static void queue_end(struct queue *queue, struct store_job *job)
{
	uint64_t one = 1;

	if (list_is_empty(&queue->done))
		CHECK(write(queue->source.fd, &one, sizeof(one)) == sizeof(one));
	list_add_tail(&queue->done, &job->entry);
}

static struct store_job *queue_take_done(struct queue *queue)
{
	struct list *entry;

	(void)pthread_mutex_lock(&queue->lock);
	entry = list_first(&queue->done);
	if (entry != NULL)
		list_del(entry);
	(void)pthread_mutex_unlock(&queue->lock);
	return entry != NULL ? job_of(entry) : NULL;
}

static void queue_on_ready(struct loop_source *source)
{
	struct queue *queue = container_of(source, struct queue, source);
	struct store *store = container_of(queue, struct store, queue);
	struct store_job *job;
	uint64_t count;

	(void)!read(source->fd, &count, sizeof(count));
	while ((job = queue_take_done(queue)) != NULL) {
		uint32_t number = job->number;
		int err = job->err;

		list_add_tail(&queue->free, &job->entry);
		store->config.done(store->config.ctx, number, err);
	}
}

/* ---- moves --------------------------------------------------------------- */

/* The queue whose turn it is; NULL: both are empty. */
static struct list *queue_turn(struct queue *queue)
{
	bool reads = !list_is_empty(&queue->reads);

	if (!reads && list_is_empty(&queue->writes))
		return NULL;
	queue->read_last = reads && (!queue->read_last || list_is_empty(&queue->writes));
	return queue->read_last ? &queue->reads : &queue->writes;
}

/* Wait for a part to move, or a hole to punch; false: the queue is closed and empty. */
static bool queue_take_move(struct queue *queue, struct move *ret)
{
	struct store_job *job;
	struct list *from;

	while ((from = queue_turn(queue)) == NULL) {
		if (queue->is_closing)
			return false;
		(void)pthread_cond_wait(&queue->has_moves, &queue->lock);
	}
	job = job_of(list_first(from));
	job->running++;
	if (job->kind == JOB_PUNCH) {
		*ret = (struct move){.job = job};
		job->is_cut = true;
	} else {
		move_cut(job, ret);
	}
	if (job->is_cut)
		list_del(&job->entry);
	else if (job->kind == JOB_READ)
		list_move_tail(&queue->reads, &job->entry);
	return true;
}

/* What comes behind the last part. */
static void store_finish_moves(struct store *store, struct store_job *job)
{
	if (job->kind == JOB_PUNCH) {
		store_count_backed(store);
		return;
	}
	if (job->err == 0)
		move_finish(store, job);
	if (job->kind == JOB_WRITE)
		atomic_fetch_add(&store->writes_ended, 1);
}

/* Under the lock; after a failure the rest is not tried. True: it was the last part. */
static bool queue_end_move(struct store_job *job, int err)
{
	if (err != 0 && job->err == 0)
		job->err = err;
	if (job->err != 0) {
		job->is_cut = true;
		list_del(&job->entry);
	}
	return --job->running == 0 && job->is_cut;
}

static void *mover_main(void *arg)
{
	struct mover *mover = arg;
	struct store *store = mover->store;
	struct queue *queue = &store->queue;
	struct move move;

	(void)pthread_mutex_lock(&queue->lock);
	while (queue_take_move(queue, &move)) {
		struct store_job *job = move.job;
		int err;

		(void)pthread_mutex_unlock(&queue->lock);
		err = job->kind == JOB_PUNCH ? move_punch(store, job)
					     : move_run(store, &move, mover->bounce);
		(void)pthread_mutex_lock(&queue->lock);
		if (!queue_end_move(job, err))
			continue;
		(void)pthread_mutex_unlock(&queue->lock);
		store_finish_moves(store, job);
		(void)pthread_mutex_lock(&queue->lock);
		queue_end(queue, job);
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return NULL;
}

/* ---- the index ----------------------------------------------------------- */

static int index_run(struct store *store, struct store_job *job)
{
	struct catalog *catalog = &store->catalog;
	int err;

	switch (job->kind) {
	case JOB_COMMIT:
		err = store_flush(store);
		if (err == 0)
			err = catalog_commit(
				catalog, store->config.pool, job->changes, job->count);
		store_count_backed(store);
		return err;
	case JOB_FETCH:
		return catalog_fetch(catalog, job->id, store->config.pool, job->pieces);
	case JOB_KEYS:
		return catalog_keys(
			catalog, job->ids, job->count, job->buffer, job->buffer_size);
	case JOB_WRITE:
	case JOB_READ:
	case JOB_PUNCH:
		break;
	}
	NOT_REACHED("a job of the movers");
}

/* Wait for a job; NULL: the queue is closed and empty. */
static struct store_job *queue_take_index(struct queue *queue)
{
	struct store_job *job;

	while (list_is_empty(&queue->index)) {
		if (queue->is_closing)
			return NULL;
		(void)pthread_cond_wait(&queue->has_index, &queue->lock);
	}
	job = job_of(list_first(&queue->index));
	list_del(&job->entry);
	return job;
}

static void *index_main(void *arg)
{
	struct store *store = arg;
	struct queue *queue = &store->queue;
	struct store_job *job;

	(void)pthread_mutex_lock(&queue->lock);
	while ((job = queue_take_index(queue)) != NULL) {
		(void)pthread_mutex_unlock(&queue->lock);
		job->err = index_run(store, job);
		(void)pthread_mutex_lock(&queue->lock);
		queue_end(queue, job);
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return NULL;
}

/* ---- jobs ---------------------------------------------------------------- */

struct store_job *queue_job(struct store *store, enum job_kind kind, uint32_t number)
{
	struct list *entry = list_first(&store->queue.free);
	struct store_job *job;

	CHECK(entry != NULL); /* TIER_JOB_LIMIT is the caller's to keep */
	list_del(entry);
	job = job_of(entry);
	*job = (struct store_job){.number = number, .kind = kind};
	list_init(&job->entry);
	return job;
}

static struct list *queue_of(struct queue *queue, enum job_kind kind)
{
	switch (kind) {
	case JOB_READ:
		return &queue->reads;
	case JOB_WRITE:
	case JOB_PUNCH:
		return &queue->writes;
	case JOB_COMMIT:
	case JOB_FETCH:
	case JOB_KEYS:
		break;
	}
	return &queue->index;
}

void queue_add(struct store *store, struct store_job *job)
{
	struct queue *queue = &store->queue;
	struct list *list = queue_of(queue, job->kind);

	job->next_off = job->off;
	(void)pthread_mutex_lock(&queue->lock);
	list_add_tail(list, &job->entry);
	(void)pthread_mutex_unlock(&queue->lock);
	(void)(list != &queue->index ? pthread_cond_broadcast(&queue->has_moves)
				     : pthread_cond_signal(&queue->has_index));
}

/* ---- open and close ------------------------------------------------------ */

/* Signals are the loop thread's. */
static int queue_start_thread(struct queue *queue, void *(*run)(void *), void *arg)
{
	pthread_t *thread = &queue->threads[queue->thread_count];
	sigset_t all, before;
	int number;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	number = pthread_create(thread, NULL, run, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (number != 0)
		return ERR_NO_MEMORY;
	queue->thread_count++;
	return 0;
}

static int queue_start_threads(struct store *store)
{
	struct queue *queue = &store->queue;
	int err = queue_start_thread(queue, index_main, store);

	for (uint32_t i = 0; i < store->config.threads && err == 0; i++) {
		queue->movers[i] = (struct mover){store, queue->bounce + i * MOVE_BYTES};
		err = queue_start_thread(queue, mover_main, &queue->movers[i]);
	}
	return err;
}

int queue_open(struct store *store)
{
	struct queue *queue = &store->queue;

	CHECK(store->config.threads > 0 && store->config.threads <= STORE_THREADS);
	(void)pthread_mutex_init(&queue->lock, NULL);
	(void)pthread_cond_init(&queue->has_moves, NULL);
	(void)pthread_cond_init(&queue->has_index, NULL);
	list_init(&queue->reads);
	list_init(&queue->writes);
	list_init(&queue->index);
	list_init(&queue->done);
	list_init(&queue->free);
	for (uint32_t i = 0; i < TIER_JOB_LIMIT; i++)
		list_add_tail(&queue->free, &queue->jobs[i].entry);
	queue->is_open = true;
	queue->source = (struct loop_source){
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .on_ready = queue_on_ready};
	queue->bounce = mmap(NULL, store->config.threads * MOVE_BYTES,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (queue->bounce == MAP_FAILED)
		queue->bounce = NULL;
	if (queue->source.fd < 0 || queue->bounce == NULL)
		return ERR_NO_MEMORY;
	if (loop_add(store->config.loop, &queue->source) != 0) {
		(void)close(queue->source.fd);
		queue->source.fd = -1;
		return ERR_NO_MEMORY;
	}
	return queue_start_threads(store);
}

void queue_close(struct store *store)
{
	struct queue *queue = &store->queue;

	if (!queue->is_open)
		return;
	(void)pthread_mutex_lock(&queue->lock);
	queue->is_closing = true;
	(void)pthread_mutex_unlock(&queue->lock);
	(void)pthread_cond_broadcast(&queue->has_moves);
	(void)pthread_cond_broadcast(&queue->has_index);
	for (uint32_t i = 0; i < queue->thread_count; i++)
		(void)pthread_join(queue->threads[i], NULL);
	if (queue->source.fd >= 0) {
		loop_remove(store->config.loop, &queue->source);
		(void)close(queue->source.fd);
	}
	if (queue->bounce != NULL)
		(void)munmap(queue->bounce, store->config.threads * MOVE_BYTES);
	(void)pthread_cond_destroy(&queue->has_moves);
	(void)pthread_cond_destroy(&queue->has_index);
	(void)pthread_mutex_destroy(&queue->lock);
	queue->is_open = false;
}
