/*
 * redis_script.c - what a server is given to load, and how it calls it.
 */
#include "dir/redis_script.h"

#include <ctype.h>
#include <string.h>

static const char *const texts[SCRIPT_COUNT] = {
	[SCRIPT_PUBLISH] = redis_lua_publish,
	[SCRIPT_CONFIRM] = redis_lua_confirm,
	[SCRIPT_JOIN] = redis_lua_join,
	[SCRIPT_LOADED] = redis_lua_loaded,
	[SCRIPT_LEAVE] = redis_lua_leave,
	[SCRIPT_TAKE_OUT] = redis_lua_take_out,
	[SCRIPT_HAND_OVER] = redis_lua_hand_over,
	[SCRIPT_ANNOUNCE] = redis_lua_announce,
	[SCRIPT_BURY] = redis_lua_bury,
	[SCRIPT_RENEW] = redis_lua_renew,
	[SCRIPT_EPOCH] = redis_lua_epoch,
};

void redis_scripts_init(struct redis_scripts *scripts)
{
	for (int i = 0; i < SCRIPT_COUNT; i++)
		scripts->scripts[i] = (struct redis_script){.text = texts[i]};
}

bool redis_script_learn(struct redis_script *script, const char *sha, size_t size)
{
	if (size != SCRIPT_SHA_SIZE - 1)
		return false;
	for (size_t i = 0; i < size; i++) {
		if (!isxdigit((unsigned char)sha[i]))
			return false;
	}
	memcpy(script->sha, sha, size);
	script->sha[size] = '\0';
	return true;
}
