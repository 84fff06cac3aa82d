/*
 * dir_call.c - calls come from this program, so a wrong one is a bug of it.
 */
#include "dir/dir_call.h"

#include "base/check.h"

static bool names_a_generation(const struct dir_call *call)
{
	switch (call->op) {
	case DIR_OP_PUBLISH:
	case DIR_OP_CONFIRM:
	case DIR_OP_LOADED:
	case DIR_OP_LEAVE:
	case DIR_OP_HAND_OVER:
	case DIR_OP_ANNOUNCE:
	case DIR_OP_BURY:
		return call->generation != 0;
	case DIR_OP_JOIN:
	case DIR_OP_LOOKUP:
	case DIR_OP_TAKE_OUT:
	case DIR_OP_RENEW:
	case DIR_OP_RESIGN:
		return true;
	}
	return false;
}

void dir_call_check(const struct dir_call *call)
{
	CHECK(names_a_generation(call));
	CHECK(call->node != 0);
	CHECK(call->op != DIR_OP_ANNOUNCE || call->role == DIR_KEEPER ||
		call->role == DIR_SECONDARY);
	CHECK(call->op != DIR_OP_RENEW ||
		(call->member != NULL && call->members != NULL));
}

void dir_call_clear(struct dir_call *call)
{
	call->err = 0;
	call->verdict = DIR_DONE;
	call->domain = DIR_DOMAIN_NONE;
	call->epoch = 0;
	call->entry = (struct dir_entry){.generation = 0};
	call->buried = 0;
	call->waiter_count = 0;
	call->member_count = 0;
}

void dir_call_fail(struct dir_call *call, int err)
{
	dir_call_clear(call);
	call->err = err;
}
