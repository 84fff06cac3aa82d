/*
 * redis_job.c - calls on their way: to the server that has their slot, and again to another
 * where it must be, until there is something to tell.
 */
#include "base/err.h"
#include "dir/dir_call.h"
#include "dir/redis_priv.h"
#include "dir/redis_reply.h"

#include <stdlib.h>
#include <string.h>

/* ---- jobs ---------------------------------------------------------------- */

struct redis_job *redis_job_new(struct dir_redis *dir, struct dir_call *call)
{
	struct list *entry = list_first(&dir->free_jobs);
	struct redis_job *job;

	if (entry != NULL)
		list_del(entry);
	job = entry != NULL ? container_of(entry, struct redis_job, entry)
			    : malloc(sizeof(*job));
	if (job == NULL)
		return NULL;
	*job = (struct redis_job){
		.dir = dir,
		.call = call,
		.number = dir->job_numbers++,
		.deadline_ns = loop_boot_ns() + dir->timeout_ns,
	};
	list_init(&job->entry);
	list_add_tail(&dir->jobs, &job->by_age);
	redis_job_name_key(job);
	return job;
}

static void redis_job_free(struct redis_job *job)
{
	list_del(&job->by_age);
	list_del(&job->entry);
	list_add_head(&job->dir->free_jobs, &job->entry);
}

/* The call is its owner's again with the next report. */
static void redis_job_part(struct redis_job *job)
{
	struct dir_redis *dir = job->dir;

	dir->info.calls++;
	dir->info.unavailable += job->call->err == ERR_UNAVAILABLE;
	list_add_tail(&dir->finished, &job->call->list_entry);
	job->call = NULL;
}

void redis_job_finish(struct redis_job *job)
{
	redis_job_part(job);
	redis_job_free(job);
}

static void redis_job_fail(struct redis_job *job, int err)
{
	dir_call_fail(job->call, err);
	redis_job_finish(job);
}

/* Its time is over. */
static void redis_job_give_up(struct redis_job *job)
{
	if (job->state == JOB_ANSWERED) { /* but for the epoch, it is known */
		redis_job_finish(job);
		return;
	}
	if (job->state != JOB_SENT) {
		redis_job_fail(job, ERR_UNAVAILABLE);
		return;
	}
	dir_call_fail(job->call, ERR_UNAVAILABLE);
	redis_job_part(job);
	list_del(&job->by_age); /* it is free once its answer came */
}

/* What was begun first is sent first, though others have come back, or come, before. */
void redis_job_return(struct redis_job *job)
{
	struct list *before;

	job->state = JOB_WAITING;
	job->server = NULL;
	job->ask = NULL;
	list_del(&job->entry);
	before = job->dir->waiting.prev;
	while (before != &job->dir->waiting &&
		container_of(before, struct redis_job, entry)->number > job->number)
		before = before->prev;
	list_add_head(before, &job->entry);
	job->dir->dispatch = true;
}

/* The same after a while; `ask`: of whom then, or NULL. */
static void redis_job_delay(struct redis_job *job, struct server *ask)
{
	job->state = JOB_DELAYED;
	job->server = NULL;
	job->ask = ask;
	job->retry_ns = loop_boot_ns() + RETRY_NS;
	list_move_tail(&job->dir->delayed, &job->entry);
}

/* ---- answers ------------------------------------------------------------- */

/* Where the answer points to, as a server; NULL: it is not known yet. */
static struct server *redirect_target(
	struct redis_job *job, const redisReply *reply, bool may_add)
{
	struct dir_redis *dir = job->dir;
	struct address address;
	struct server *target;
	uint32_t slot;

	if (!redis_redirect_parse(reply, &slot, &address) || slot != job->slot)
		return NULL;
	if (address.host[0] == '\0')
		memcpy(address.host, job->server->conn.address.host,
			sizeof(address.host));
	target = map_find_address(dir, &address);
	return target == NULL && may_add ? map_add_guest(dir, &address) : target;
}

/* To be sent once more at once, unless it was already again and again. */
static void redis_job_redirect(struct redis_job *job, struct server *ask)
{
	if (++job->redirects % REDIRECTS == 0) {
		redis_job_delay(job, ask);
		return;
	}
	redis_job_return(job);
	job->ask = ask;
}

static void redis_job_moved(struct redis_job *job, const redisReply *reply)
{
	struct server *target = redirect_target(job, reply, false);

	job->dir->info.moved++;
	if (target != NULL)
		map_moved(job->dir, job->slot, target);
	map_want(job->dir, target);
	if (target != NULL)
		redis_job_redirect(job, NULL);
	else
		redis_job_delay(job, NULL);
}

static void redis_job_asked(struct redis_job *job, const redisReply *reply)
{
	struct server *target = redirect_target(job, reply, true);

	job->dir->info.asked++;
	if (target == NULL) {
		redis_job_delay(job, NULL);
		return;
	}
	target->guest_ns = loop_boot_ns();
	redis_job_redirect(job, target);
}

static void redis_job_is_bad(struct redis_job *job, const redisReply *reply)
{
	redis_warn(job->dir, "redis %s: an answer makes no sense: %.300s",
		job->server->conn.address.host,
		reply->type == REDIS_REPLY_ERROR ? reply->str : "not of the right form");
	redis_job_fail(job, ERR_UNAVAILABLE);
}

static void redis_job_take(struct redis_job *job, const redisReply *reply)
{
	dir_call_clear(job->call);
	if (!redis_job_take_data(job, reply)) {
		redis_job_is_bad(job, reply);
		return;
	}
	job->state = JOB_ANSWERED;
	list_move_tail(&job->server->answered, &job->entry);
}

/* An error that is no fault of ours, and may need somebody to look at the server. */
static void redis_job_is_refused(struct redis_job *job, const redisReply *reply)
{
	redis_warn(
		job->dir, "redis %s: %.300s", job->server->conn.address.host, reply->str);
}

static void redis_job_answered(struct redis_job *job, const redisReply *reply)
{
	struct server *server;

	switch (redis_answer_of(reply)) {
	case ANSWER_DATA:
		redis_job_take(job, reply);
		break;
	case ANSWER_LATER:
		redis_job_is_refused(job, reply);
		map_want(job->dir, NULL);
		redis_job_delay(job, NULL);
		break;
	case ANSWER_LOST:
		server = job->server;
		redis_job_return(job);
		redis_conn_break(&server->conn, reply->str);
		break;
	case ANSWER_MOVED:
		redis_job_moved(job, reply);
		break;
	case ANSWER_ASK:
		redis_job_asked(job, reply);
		break;
	case ANSWER_NOSCRIPT:
		job->as_text = true;
		redis_job_redirect(job, job->ask);
		break;
	case ANSWER_FULL:
		redis_job_is_refused(job, reply);
		redis_job_fail(job, ERR_NO_SPACE);
		break;
	case ANSWER_BAD:
		redis_job_is_bad(job, reply);
		break;
	}
}

static void on_reply(void *ctx, const redisReply *reply)
{
	struct redis_job *job = ctx;

	if (job->call == NULL)
		redis_job_free(job);
	else if (reply == NULL)
		redis_job_return(job);
	else
		redis_job_answered(job, reply);
}

/* ---- on their way -------------------------------------------------------- */

static void on_asking(void *ctx, const redisReply *reply)
{
	(void)ctx;
	(void)reply; /* the command behind it says whether it was understood */
}

/* False: its server is not ready. */
static bool redis_job_send(struct redis_job *job)
{
	static const char *const asking[] = {"ASKING", NULL};
	struct server *server = job->ask != NULL ? job->ask
						 : map_route(job->dir, job->slot);

	if (server == NULL || !redis_conn_is_ready(&server->conn))
		return false;
	if (job->ask != NULL &&
		!redis_conn_add_words(&server->conn, asking, on_asking, NULL))
		return false;
	if (!redis_job_add_command(job, &server->conn, on_reply))
		return false;
	job->dir->info.repeated += job->attempts++ > 0;
	job->state = JOB_SENT;
	job->server = server;
	list_del(&job->entry);
	server->is_open = true;
	return true;
}

/* Send what can be. Who is to be asked and does not come up is asked no more. */
void jobs_dispatch(struct dir_redis *dir)
{
	dir->dispatch = false;
	list_for_each_safe (at, &dir->waiting) {
		struct redis_job *job = container_of(at, struct redis_job, entry);

		if (redis_job_send(job) || job->ask == NULL)
			continue;
		redis_job_delay(job, ++job->redirects % REDIRECTS != 0 ? job->ask : NULL);
	}
}

/* ---- time ---------------------------------------------------------------- */

void jobs_due(struct dir_redis *dir, uint64_t now)
{
	struct list *first;

	while ((first = list_first(&dir->jobs)) != NULL) {
		struct redis_job *job = container_of(first, struct redis_job, by_age);

		if (job->deadline_ns > now)
			break;
		redis_job_give_up(job);
	}
	while ((first = list_first(&dir->delayed)) != NULL) {
		struct redis_job *job = container_of(first, struct redis_job, entry);
		struct server *ask = job->ask;

		if (job->retry_ns > now)
			break;
		redis_job_return(job);
		job->ask = ask;
	}
}
