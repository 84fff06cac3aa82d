/*
 * redis_result.c - answers as what came of a call.
 *
 * All of an answer is looked at before anything of it is believed; src/dir/lua/common.lua has
 * the fields.
 */
#include "base/err.h"
#include "dir/dir_entry.h"
#include "dir/redis_priv.h"
#include "dir/redis_reply.h"

#include <string.h>

/* ---- the fields of a key ------------------------------------------------- */

#define FIELD_NODE  17u /* a letter and 16 digits */
#define HOLDER_SIZE 17u
#define TIME_MOST   (1ull << 53)

/* What HGETALL of a key says, as far as callers are told of it; common.lua has the list. */
struct fields {
	struct dir_entry entry;
	uint64_t ends_ms; /* UINT64_MAX = not by time */
	uint64_t buried, buried_until;
	uint64_t waiters[DIR_HOLDERS], waits_until[DIR_HOLDERS];
	uint32_t waiter_count;
};

static bool take_small(const redisReply *value, uint64_t most, uint64_t *ret)
{
	return parse_decimal(value->str, value->len, most, ret);
}

static bool take_time(const redisReply *value, uint64_t *ret)
{
	return take_small(value, TIME_MOST, ret);
}

static bool take_end(const redisReply *value, struct fields *fields)
{
	uint64_t ends;

	if (!take_time(value, &ends))
		return false;
	fields->ends_ms = MIN(fields->ends_ms, ends);
	return true;
}

static bool take_number(const redisReply *value, uint64_t *ret)
{
	return value->len == 16 && parse_hex16(value->str, ret);
}

static bool take_flags(const redisReply *value, struct fields *fields)
{
	uint64_t flags;

	if (!take_small(value, DIR_SOFTPIN | DIR_PROVISIONAL, &flags))
		return false;
	fields->entry.flags = (uint32_t)flags;
	return true;
}

static bool take_wanted(const redisReply *value, struct fields *fields)
{
	uint64_t wanted;

	if (!take_small(value, UINT16_MAX, &wanted))
		return false;
	fields->entry.wanted = (uint16_t)wanted;
	return true;
}

static bool take_holder(
	const redisReply *name, const redisReply *value, struct fields *fields)
{
	struct dir_holder holder;
	int role;

	if (value->len != HOLDER_SIZE || !parse_hex16(name->str + 1, &holder.node) ||
		!parse_hex16(value->str, &holder.incarnation))
		return false;
	role = value->str[HOLDER_SIZE - 1] - '0';
	if (role < DIR_LOADING || role > DIR_KEEPER)
		return false;
	holder.role = (enum dir_role)role;
	return dir_entry_set(&fields->entry, &holder);
}

static bool take_waiter(
	const redisReply *name, const redisReply *value, struct fields *fields)
{
	uint32_t at = fields->waiter_count;

	if (at == DIR_HOLDERS || !parse_hex16(name->str + 1, &fields->waiters[at]) ||
		!take_time(value, &fields->waits_until[at]))
		return false;
	fields->waiter_count++;
	return true;
}

/* What it does not know is of a newer version, and no harm. */
static bool take_field(
	const redisReply *name, const redisReply *value, struct fields *fields)
{
	struct dir_entry *entry = &fields->entry;

	if (!reply_is_text(name) || value->type != REDIS_REPLY_STRING)
		return false;
	if (name->len == FIELD_NODE && name->str[0] == 'h')
		return take_holder(name, value, fields);
	if (name->len == FIELD_NODE && name->str[0] == 'q')
		return take_waiter(name, value, fields);
	if (strcmp(name->str, "tx") == 0)
		return take_time(value, &fields->buried_until);
	if (name->len != 1)
		return true;
	switch (name->str[0]) {
	case 'g':
		return take_number(value, &entry->generation) && entry->generation != 0;
	case 's':
		return take_number(value, &entry->size);
	case 'f':
		return take_flags(value, fields);
	case 'w':
		return take_wanted(value, fields);
	case 'x':
	case 'l':
		return take_end(value, fields);
	case 't':
		return take_number(value, &fields->buried);
	default:
		return true;
	}
}

static bool fields_parse(const redisReply *reply, struct fields *ret)
{
	*ret = (struct fields){.ends_ms = UINT64_MAX};
	if (!reply_is_array(reply, 0) || reply->elements % 2 != 0)
		return false;
	for (size_t i = 0; i < reply->elements; i += 2) {
		if (!take_field(reply->element[i], reply->element[i + 1], ret))
			return false;
	}
	return ret->entry.generation != 0 || ret->entry.holder_count == 0;
}

/* ---- results ------------------------------------------------------------- */

#define BIT(verdict) (1u << (verdict))
#define VERDICT_FULL 7 /* of a script: the entry names DIR_HOLDERS already */

/* What a command can answer. */
static uint32_t verdicts_of(enum dir_op op)
{
	switch (op) {
	case DIR_OP_PUBLISH:
		return BIT(DIR_DONE) | BIT(DIR_EXISTS) | BIT(DIR_REMOVED);
	case DIR_OP_CONFIRM:
	case DIR_OP_LEAVE:
		return BIT(DIR_DONE) | BIT(DIR_GONE);
	case DIR_OP_HAND_OVER:
		return BIT(DIR_DONE) | BIT(DIR_GONE) | BIT(DIR_EXISTS);
	case DIR_OP_LOADED:
		return BIT(DIR_DONE) | BIT(DIR_GONE) | BIT(VERDICT_FULL);
	case DIR_OP_JOIN:
		return BIT(DIR_DONE) | BIT(DIR_ABSENT) | BIT(VERDICT_FULL);
	case DIR_OP_TAKE_OUT:
		return BIT(DIR_DONE) | BIT(DIR_ABSENT) | BIT(DIR_EXISTS);
	case DIR_OP_ANNOUNCE:
		return BIT(DIR_DONE) | BIT(DIR_REMOVED) | BIT(DIR_OLDER) |
		       BIT(DIR_REPLACED) | BIT(VERDICT_FULL);
	case DIR_OP_BURY:
		return BIT(DIR_DONE);
	case DIR_OP_LOOKUP:
	case DIR_OP_RENEW:
	case DIR_OP_RESIGN:
		return 0;
	}
	return 0;
}

static bool brings_waiters(const struct dir_call *call)
{
	return (call->op == DIR_OP_PUBLISH || call->op == DIR_OP_ANNOUNCE) &&
	       (call->verdict == DIR_DONE || call->verdict == DIR_REPLACED);
}

/* The fields as they count at `now_ms`. */
static void tell_fields(
	struct dir_call *call, const struct fields *fields, uint64_t now_ms)
{
	if (fields->ends_ms > now_ms)
		call->entry = fields->entry;
	if (call->op == DIR_OP_JOIN)
		dir_entry_hide_loader(&call->entry, call->node);
	if ((call->op == DIR_OP_PUBLISH || call->op == DIR_OP_ANNOUNCE ||
		    call->op == DIR_OP_TAKE_OUT) &&
		fields->buried_until > now_ms)
		call->buried = fields->buried;
	for (uint32_t i = 0; brings_waiters(call) && i < fields->waiter_count; i++) {
		if (fields->waits_until[i] > now_ms)
			call->waiters[call->waiter_count++] = fields->waiters[i];
	}
}

/* [verdict, the server's time, fields] */
static bool take_script(struct dir_call *call, const redisReply *reply)
{
	const redisReply *verdict, *now;
	struct fields fields;

	if (!reply_is_array(reply, 3) || !fields_parse(reply->element[2], &fields))
		return false;
	verdict = reply->element[0];
	now = reply->element[1];
	if (verdict->type != REDIS_REPLY_INTEGER || verdict->integer < 0 ||
		verdict->integer > VERDICT_FULL ||
		(verdicts_of(call->op) & BIT(verdict->integer)) == 0 ||
		now->type != REDIS_REPLY_INTEGER || now->integer < 0)
		return false;
	if (verdict->integer == VERDICT_FULL) {
		call->err = ERR_NO_SPACE;
		return true;
	}
	call->verdict = (enum dir_verdict)verdict->integer;
	tell_fields(call, &fields, (uint64_t)now->integer);
	return true;
}

/* When it ends is looked at once the server's time is known. */
static bool take_lookup(struct redis_job *job, const redisReply *reply)
{
	struct fields fields;

	if (!fields_parse(reply, &fields))
		return false;
	job->ends_ms = fields.ends_ms;
	tell_fields(job->call, &fields, 0);
	job->call->verdict = job->call->entry.generation != 0 ? DIR_DONE : DIR_ABSENT;
	return true;
}

/* "until incarnation free endpoint" */
static bool take_member(
	const redisReply *name, const redisReply *value, struct dir_member *ret)
{
	const char *at;
	size_t size;

	*ret = (struct dir_member){.node = 0};
	if (!reply_is_text(name) || name->len != 16 || !reply_is_text(value) ||
		!parse_hex16(name->str, &ret->node))
		return false;
	at = strchr(value->str, ' ');
	if (at == NULL || strlen(at) < 35 || !parse_hex16(at + 1, &ret->incarnation) ||
		at[17] != ' ' || !parse_hex16(at + 18, &ret->free_bytes) || at[34] != ' ')
		return false;
	at += 35;
	size = strlen(at);
	if (size == 0 || size >= sizeof(ret->endpoint))
		return false;
	memcpy(ret->endpoint, at, size);
	return true;
}

static bool take_members(struct dir_call *call, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_INTEGER && reply->integer == VERDICT_FULL) {
		call->err = ERR_NO_SPACE;
		return true;
	}
	if (!reply_is_array(reply, 0) || reply->elements % 2 != 0 ||
		reply->elements / 2 > DIR_HOLDERS)
		return false;
	for (size_t i = 0; i < reply->elements; i += 2) {
		if (!take_member(reply->element[i], reply->element[i + 1],
			    &call->members[call->member_count++]))
			return false;
	}
	return true;
}

bool redis_job_take_data(struct redis_job *job, const redisReply *reply)
{
	struct dir_call *call = job->call;

	job->ends_ms = UINT64_MAX;
	switch (call->op) {
	case DIR_OP_LOOKUP:
		return take_lookup(job, reply);
	case DIR_OP_RENEW:
		return take_members(call, reply);
	case DIR_OP_RESIGN:
		return reply->type == REDIS_REPLY_INTEGER;
	case DIR_OP_PUBLISH:
	case DIR_OP_CONFIRM:
	case DIR_OP_JOIN:
	case DIR_OP_LOADED:
	case DIR_OP_LEAVE:
	case DIR_OP_TAKE_OUT:
	case DIR_OP_HAND_OVER:
	case DIR_OP_ANNOUNCE:
	case DIR_OP_BURY:
		return take_script(call, reply);
	}
	return false;
}
