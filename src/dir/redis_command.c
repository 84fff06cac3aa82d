/*
 * redis_command.c - calls as commands of Redis.
 *
 * The arguments of a script are in the order of its first line; numbers go as 16 hexadecimal
 * digits, spans of time as decimal ms, rounded up.
 */
#include "base/check.h"
#include "dir/redis_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- keys ---------------------------------------------------------------- */

static bool is_of_members(const struct dir_call *call)
{
	return call->op == DIR_OP_RENEW || call->op == DIR_OP_RESIGN;
}

static size_t name_object(
	const struct dir_redis *dir, const struct dir_id *id, char ret[REDIS_KEY_MAX])
{
	return (size_t)snprintf(ret, REDIS_KEY_MAX, "%s:o:%016" PRIx64 "%016" PRIx64,
		dir->name, id->word[0], id->word[1]);
}

void redis_job_name_key(struct redis_job *job)
{
	if (is_of_members(job->call))
		job->key_size = (size_t)snprintf(
			job->key, sizeof(job->key), "%s:members", job->dir->name);
	else
		job->key_size = name_object(job->dir, &job->call->id, job->key);
	job->slot = slot_of_key(job->key, job->key_size);
}

uint32_t slot_of_id(const struct dir_redis *dir, const struct dir_id *id)
{
	char key[REDIS_KEY_MAX];

	if (!dir->is_cluster)
		return 0;
	return slot_of_key(key, name_object(dir, id, key));
}

/* ---- arguments ----------------------------------------------------------- */

#define ARGS_MAX 16

struct args {
	const char *argv[ARGS_MAX];
	size_t sizes[ARGS_MAX];
	int count;
	char text[2048];
	size_t used;
};

static void add_bytes(struct args *args, const char *bytes, size_t size)
{
	CHECK(args->count < ARGS_MAX);
	args->argv[args->count] = bytes;
	args->sizes[args->count++] = size;
}

static void PRINTF_LIKE(2, 3) add(struct args *args, const char *format, ...)
{
	size_t room = sizeof(args->text) - args->used;
	va_list list;
	int size;

	va_start(list, format);
	size = vsnprintf(args->text + args->used, room, format, list);
	va_end(list);
	CHECK(size >= 0 && (size_t)size < room);
	add_bytes(args, args->text + args->used, (size_t)size);
	args->used += (size_t)size;
}

static void add_number(struct args *args, uint64_t number)
{
	add(args, "%016" PRIx64, number);
}

/* Ten thousand years will do for ever: sums of them stay whole in a script. */
#define SPAN_MOST_MS 315360000000000ull

static void add_span(struct args *args, uint64_t ns)
{
	uint64_t ms = ns / 1000000u + (ns % 1000000u != 0);

	add(args, "%" PRIu64, MIN(ms, (uint64_t)SPAN_MOST_MS));
}

/* Generation, node, incarnation: how most begin. */
static void add_caller(struct args *args, const struct dir_call *call)
{
	add_number(args, call->generation);
	add_number(args, call->node);
	add_number(args, call->incarnation);
}

static void add_content(struct args *args, const struct dir_call *call, uint32_t flags)
{
	add_number(args, call->size);
	add(args, "%" PRIu32, flags);
	add(args, "%" PRIu16, call->wanted);
	add_span(args, call->ttl_ns);
}

static void add_leave(struct args *args, const struct dir_call *call)
{
	bool is_own = call->from == 0;
	uint64_t incarnation = is_own ? call->incarnation : call->from_incarnation;

	add_number(args, call->generation);
	add_number(args, is_own ? call->node : call->from);
	if (incarnation != 0)
		add_number(args, incarnation);
	else
		add_bytes(args, "", 0);
	add(args, "%d", is_own);
}

/* Left out is as if it were not live, which only makes a tombstone last longer. */
#define LIVE_MOST 96u

/* The nodes that are live, parted so that no two of them make up a third. */
static void add_live(struct args *args, const struct dir_call *call)
{
	size_t at = args->used;
	uint32_t count = MIN(call->live_count, LIVE_MOST);

	CHECK(sizeof(args->text) - at > 17ul * count);
	for (uint32_t i = 0; i < count; i++)
		args->used += (size_t)snprintf(args->text + args->used,
			sizeof(args->text) - args->used, "%016" PRIx64 ",",
			call->live[i]);
	add_bytes(args, args->text + at, args->used - at);
}

static void add_member(struct args *args, const struct dir_call *call)
{
	add_number(args, call->node);
	add(args, "%016" PRIx64 " %016" PRIx64 " %s", call->member->incarnation,
		call->member->free_bytes, call->member->endpoint);
	add_span(args, call->bury_ns);
}

static void add_arguments(struct args *args, const struct dir_call *call)
{
	switch (call->op) {
	case DIR_OP_PUBLISH:
		add_caller(args, call);
		add_content(args, call, (call->flags & DIR_SOFTPIN) | DIR_PROVISIONAL);
		add(args, "%d", call->replace);
		break;
	case DIR_OP_ANNOUNCE:
		add_caller(args, call);
		add(args, "%d", (int)call->role);
		add_content(args, call, call->flags & DIR_SOFTPIN);
		break;
	case DIR_OP_CONFIRM:
		add_number(args, call->generation);
		break;
	case DIR_OP_JOIN:
		add_number(args, call->node);
		add_number(args, call->incarnation);
		add_span(args, call->wait_ns);
		break;
	case DIR_OP_LOADED:
		add_caller(args, call);
		break;
	case DIR_OP_LEAVE:
		add_leave(args, call);
		break;
	case DIR_OP_TAKE_OUT:
		add_number(args, call->generation);
		add_number(args, call->token);
		add_span(args, call->bury_ns);
		add_live(args, call);
		add(args, "%d", call->lost);
		if (call->asked)
			add(args, "%" PRIu64, call->keepers);
		else
			add(args, "-");
		break;
	case DIR_OP_HAND_OVER:
		add_caller(args, call);
		add_number(args, call->from);
		add(args, "%d", call->fewer);
		break;
	case DIR_OP_BURY:
		add_number(args, call->generation);
		add_span(args, call->bury_ns);
		break;
	case DIR_OP_RENEW:
		add_member(args, call);
		break;
	case DIR_OP_LOOKUP:
	case DIR_OP_RESIGN:
		break;
	}
}

/* ---- commands ------------------------------------------------------------ */

static enum redis_script_number script_of(enum dir_op op)
{
	static const enum redis_script_number scripts[] = {
		[DIR_OP_PUBLISH] = SCRIPT_PUBLISH,
		[DIR_OP_CONFIRM] = SCRIPT_CONFIRM,
		[DIR_OP_JOIN] = SCRIPT_JOIN,
		[DIR_OP_LOOKUP] = SCRIPT_COUNT,
		[DIR_OP_LOADED] = SCRIPT_LOADED,
		[DIR_OP_LEAVE] = SCRIPT_LEAVE,
		[DIR_OP_TAKE_OUT] = SCRIPT_TAKE_OUT,
		[DIR_OP_HAND_OVER] = SCRIPT_HAND_OVER,
		[DIR_OP_ANNOUNCE] = SCRIPT_ANNOUNCE,
		[DIR_OP_BURY] = SCRIPT_BURY,
		[DIR_OP_RENEW] = SCRIPT_RENEW,
		[DIR_OP_RESIGN] = SCRIPT_COUNT,
	};

	return scripts[op];
}

static void add_script(struct args *args, const struct redis_job *job)
{
	const struct redis_script *script =
		&job->dir->scripts.scripts[script_of(job->call->op)];

	if (job->as_text) {
		add_bytes(args, "EVAL", 4);
		add_bytes(args, script->text, strlen(script->text));
	} else {
		add_bytes(args, "EVALSHA", 7);
		add_bytes(args, script->sha, SCRIPT_SHA_SIZE - 1);
	}
	add_bytes(args, "1", 1);
	add_bytes(args, job->key, job->key_size);
	add_arguments(args, job->call);
}

bool redis_job_add_command(
	struct redis_job *job, struct redis_conn *conn, redis_reply_fn fn)
{
	struct args args = {.count = 0};

	if (job->call->op == DIR_OP_LOOKUP) {
		add_bytes(&args, "HGETALL", 7);
		add_bytes(&args, job->key, job->key_size);
	} else if (job->call->op == DIR_OP_RESIGN) {
		add_bytes(&args, "HDEL", 4);
		add_bytes(&args, job->key, job->key_size);
		add_number(&args, job->call->node);
	} else {
		add_script(&args, job);
	}
	return redis_conn_add(conn, args.count, args.argv, args.sizes, fn, job);
}
