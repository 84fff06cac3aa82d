/*
 * redis_script.h - the Lua scripts of src/dir/lua, by number.
 *
 * Memory    the texts are constants.
 * Errors    none: what is no hash is false.
 * Thread    the loop thread.
 */
#ifndef DIR_REDIS_SCRIPT_H
#define DIR_REDIS_SCRIPT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

/* As src/dir/lua/embed.py writes them. */
extern const char redis_lua_announce[], redis_lua_bury[], redis_lua_confirm[],
	redis_lua_epoch[], redis_lua_hand_over[], redis_lua_join[], redis_lua_leave[],
	redis_lua_loaded[], redis_lua_publish[], redis_lua_renew[], redis_lua_take_out[];

enum redis_script_number {
	SCRIPT_PUBLISH,
	SCRIPT_CONFIRM,
	SCRIPT_JOIN,
	SCRIPT_LOADED,
	SCRIPT_LEAVE,
	SCRIPT_TAKE_OUT,
	SCRIPT_HAND_OVER,
	SCRIPT_ANNOUNCE,
	SCRIPT_BURY,
	SCRIPT_RENEW,
	SCRIPT_EPOCH,
	SCRIPT_COUNT
};

#define SCRIPT_SHA_SIZE 41u

struct redis_script {
	const char *text;
	char sha[SCRIPT_SHA_SIZE]; /* as a server gave it, "" before that */
};

struct redis_scripts {
	struct redis_script scripts[SCRIPT_COUNT];
};

void redis_scripts_init(struct redis_scripts *scripts);
/* By which hash a server calls it. False: that is none. */
bool redis_script_learn(
	struct redis_script *script, const char *sha, size_t size) MUST_CHECK;

#endif
