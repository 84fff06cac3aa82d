/*
 * redis_epoch.c - whether a server may have forgotten something, and how all hear of it.
 *
 * A key of the server's own has its epoch: a random number, and the words by which the server
 * was known when the epoch began (struct redis_life): another process, or another time as a
 * master, has others. Whoever finds the key missing or of another life begins a new epoch, by
 * a script that changes nothing if somebody else was faster.
 *
 * Commands go out in pipelines that end with a read of that key, so an answer is told
 * together with an epoch that was read after it: had the server forgotten the key of an
 * object before the command, the epoch would be another by now.
 *
 *   read --right--> settled: what was answered before it is told
 *     | wrong
 *     '--> who is it now? and read --right--> settled
 *                                    '-wrong-> begin --> settled, or read again
 *
 * In a cluster the key lies in a slot of the server: the one that comes first by slot_rank(),
 * so that all nodes read the same key, and slots that come and go seldom change which. Where
 * a slot is another's without having migrated from it, as after a master was lost for good,
 * the new one's epoch says nothing of it: then another begins there (server.outdated).
 */
#include "base/check.h"
#include "base/err.h"
#include "dir/redis_priv.h"
#include "dir/redis_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t server_number(const struct server *server)
{
	return (uint32_t)(server - server->dir->servers);
}

/* ---- the key ------------------------------------------------------------- */

/* REDIS_SLOTS: it has none. */
static uint32_t choose_slot(const struct server *server)
{
	const struct dir_redis *dir = server->dir;
	uint32_t number = server_number(server), best = REDIS_SLOTS;

	for (uint32_t slot = 0; slot < REDIS_SLOTS; slot++) {
		if (dir->owner[slot] != number || dir->leaving[slot])
			continue;
		if (best == REDIS_SLOTS || slot_rank(slot) < slot_rank(best))
			best = slot;
	}
	return best;
}

void epoch_choose_key(struct server *server)
{
	const struct dir_redis *dir = server->dir;
	uint32_t slot = choose_slot(server);

	if (slot == server->tag_slot && server->tag_in_cluster == dir->is_cluster)
		return;
	server->stale = server->reads;
	server->tag_slot = slot;
	server->tag_in_cluster = dir->is_cluster;
	server->epoch_key[0] = '\0';
	if (slot == REDIS_SLOTS)
		return;
	if (dir->is_cluster)
		(void)snprintf(server->epoch_key, sizeof(server->epoch_key),
			"%s:e:{%" PRIu32 "}", dir->name, slot_tag(slot));
	else
		(void)snprintf(
			server->epoch_key, sizeof(server->epoch_key), "%s:e", dir->name);
	epoch_look_soon(server);
}

/* "epoch run_id replid" */
static void value_make(const struct redis_life *life, uint64_t epoch, char *ret)
{
	(void)snprintf(ret, REDIS_EPOCH_MAX, "%016" PRIx64 " %s %s", epoch, life->run_id,
		life->replid);
}

/* The epoch that is in the value, if it is of this life; else 0. */
static uint64_t value_epoch(const redisReply *reply, const struct redis_life *life)
{
	char wanted[REDIS_EPOCH_MAX];
	uint64_t epoch;

	if (!reply_is_text(reply) || reply->len < 16 || !parse_hex16(reply->str, &epoch))
		return 0;
	value_make(life, epoch, wanted);
	return strcmp(reply->str, wanted) == 0 ? epoch : 0;
}

/* ---- what was answered --------------------------------------------------- */

static void settle_job(struct redis_job *job, uint64_t epoch)
{
	struct dir_redis *dir = job->dir;
	struct server *server = job->server;
	struct dir_call *call = job->call;

	/* Where it was asked for once, no epoch covers it. */
	call->epoch = job->ask == NULL ? epoch : 0;
	call->domain = job->ask == NULL ? server_number(server) : dir->owner[job->slot];
	if (call->domain == NO_SERVER)
		call->domain = DIR_DOMAIN_NONE;
	if (job->ends_ms <= server->clock_ms) {
		call->entry = (struct dir_entry){.generation = 0};
		call->verdict = DIR_ABSENT;
	}
	redis_job_finish(job);
}

static void settle(struct server *server, uint64_t epoch)
{
	if (epoch != 0) {
		server->life_is_fresh = false;
		server->outdated = 0;
		server->epoch = epoch;
		server->is_settled = true;
		server->lost_ns = loop_boot_ns() + STALE_NS;
		redis_conn_is_good(&server->conn);
		epoch_set_news(server, epoch);
	}
	list_for_each_safe (at, &server->answered)
		settle_job(container_of(at, struct redis_job, entry), epoch);
}

/* ---- a new one ----------------------------------------------------------- */

/* An error in the place of an epoch. */
static void epoch_refused(struct server *server, const redisReply *reply)
{
	struct dir_redis *dir = server->dir;

	switch (redis_answer_of(reply)) {
	case ANSWER_MOVED:
		map_want(dir, NULL);
		break;
	case ANSWER_ASK:
		dir->leaving[server->tag_slot] = true;
		epoch_choose_key(server);
		break;
	case ANSWER_LOST:
		redis_conn_break(&server->conn, reply->str);
		return;
	case ANSWER_LATER:
		break;
	case ANSWER_FULL:
	case ANSWER_BAD:
	case ANSWER_NOSCRIPT:
	case ANSWER_DATA:
		redis_warn(dir, "%s: the epoch cannot be read: %s",
			server->conn.address.host,
			reply->type == REDIS_REPLY_ERROR ? reply->str : "it is no text");
		settle(server, 0);
		break;
	}
	epoch_look_soon(server);
}

static void on_begun(void *ctx, const redisReply *reply)
{
	struct server *server = ctx;
	uint64_t epoch;

	server->beginning = false;
	if (reply == NULL)
		return;
	if (!reply_is_text(reply)) {
		epoch_refused(server, reply);
		return;
	}
	epoch = value_epoch(reply, &server->conn.life);
	if (epoch == 0) {
		epoch_look_soon(server);
		return;
	}
	server->dir->info.epochs_begun += epoch == server->proposed;
	settle(server, epoch);
}

/* In the place of `old`, a value or "". */
static void begin(struct server *server, const char *old)
{
	const struct redis_script *script = &server->dir->scripts.scripts[SCRIPT_EPOCH];
	char value[REDIS_EPOCH_MAX];
	const char *words[] = {
		"EVAL", script->text, "1", server->epoch_key, old, value, NULL};

	do {
		loop_random(&server->proposed, sizeof(server->proposed));
	} while (server->proposed == 0);
	value_make(&server->conn.life, server->proposed, value);
	server->beginning = redis_conn_add_words(&server->conn, words, on_begun, server);
}

static void on_life(void *ctx, const redisReply *reply)
{
	struct server *server = ctx;

	if (reply == NULL)
		return;
	redis_conn_learn(&server->conn, reply);
	if (server->conn.is_replica && server->slot_count > 0)
		redis_conn_break(&server->conn, "it is a replica now");
}

static void ask_life(struct server *server)
{
	static const char *const words[] = {"INFO", "replication", NULL};

	(void)!redis_conn_add_words(&server->conn, words, on_life, server);
}

/* The key is missing, or of another life, as far as is known. */
static void epoch_is_wrong(struct server *server, const redisReply *reply)
{
	if (server->beginning)
		return; /* its answer settles all */
	if (!server->life_is_fresh) {
		server->life_is_fresh = true;
		ask_life(server);
		server->is_open = true;
		return;
	}
	begin(server, reply_is_text(reply) ? reply->str : "");
}

/* ---- reading ------------------------------------------------------------- */

static void on_clock(void *ctx, const redisReply *reply)
{
	struct server *server = ctx;
	uint64_t seconds, us;

	if (reply == NULL)
		return;
	if (reply_is_array(reply, 2) && reply_is_text(reply->element[0]) &&
		reply_is_text(reply->element[1]) &&
		parse_decimal(reply->element[0]->str, reply->element[0]->len,
			UINT32_MAX * 16ull, &seconds) &&
		parse_decimal(
			reply->element[1]->str, reply->element[1]->len, 999999, &us))
		server->clock_ms = seconds * 1000 + us / 1000;
	if (server->epoch_key[0] == '\0' && server->reads == 0)
		settle(server, 0); /* it has no slots, and is only asked for once */
}

static void on_epoch(void *ctx, const redisReply *reply)
{
	struct server *server = ctx;
	uint64_t epoch;

	server->reads--;
	if (reply == NULL)
		return;
	if (server->stale > 0) {
		server->stale--;
		server->is_open = true;
		return;
	}
	if (reply->type != REDIS_REPLY_NIL && reply->type != REDIS_REPLY_STRING) {
		epoch_refused(server, reply);
		return;
	}
	epoch = value_epoch(reply, &server->conn.life);
	if (epoch == 0 || epoch == server->outdated)
		epoch_is_wrong(server, reply);
	else
		settle(server, epoch);
}

void epoch_read(struct server *server)
{
	static const char *const clock[] = {"TIME", NULL};
	const char *const get[] = {"GET", server->epoch_key, NULL};

	server->is_open = false;
	if (!redis_conn_add_words(&server->conn, clock, on_clock, server))
		return;
	if (server->epoch_key[0] != '\0' &&
		redis_conn_add_words(&server->conn, get, on_epoch, server))
		server->reads++;
}

void epoch_look_soon(struct server *server)
{
	server->ping_ns = MIN(server->ping_ns, loop_boot_ns() + RETRY_NS);
}

void epoch_ping(struct server *server, uint64_t now)
{
	server->ping_ns = now + PING_NS;
	ask_life(server);
	server->is_open = true;
}

/* ---- what the owner is told ---------------------------------------------- */

void epoch_set_news(struct server *server, uint64_t epoch)
{
	server->is_known = true;
	server->current = epoch;
}

void epoch_down(struct server *server, uint64_t now)
{
	server->stale = 0;
	server->life_is_fresh = false;
	server->is_open = false;
	if (server->is_settled)
		server->lost_ns = MIN(server->lost_ns, now + LOST_NS);
	else
		epoch_lost(server);
	server->is_settled = false;
}

void epoch_lost(struct server *server)
{
	server->is_settled = false;
	server->lost_ns = UINT64_MAX;
	if (server->slot_count > 0 || server->heard)
		epoch_set_news(server, 0);
}

void epoch_tell(struct server *server, uint64_t now)
{
	struct dir_redis *dir = server->dir;
	bool again = now >= server->again_ns;

	if (again)
		server->again_ns = UINT64_MAX;
	if (!server->is_known)
		return;
	if (server->heard && server->told == server->current &&
		(!again || server->current == 0))
		return;
	server->heard = true;
	server->told = server->current;
	dir->events.epoch(dir->events.ctx, server_number(server), server->current);
}
