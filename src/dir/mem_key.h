/*
 * mem_key.h - what the directory in memory knows of one key, and the commands that change it.
 *
 * The same commands are the scripts of src/dir/lua; tests/unit/test_dir.c holds both to the
 * same cases.
 *
 * Units     ns of the owner's clock; what is until `now` is over.
 * Memory    plain data, copied freely; nothing here allocates.
 * Errors    ERR_NO_SPACE, and then nothing has changed.
 * Thread    the owner's.
 */
#ifndef DIR_MEM_KEY_H
#define DIR_MEM_KEY_H

#include "base/attr.h"
#include "dir/dir.h"

struct mem_waiter {
	uint64_t node, until;
};

/* A removal whose answer may have been lost. */
struct mem_token {
	uint64_t token, generation, until;
};

/* What the entry replaced when it was made, for a repeat of that command. */
struct mem_memo {
	uint64_t until; /* 0: nothing */
	enum dir_op op;
	uint64_t node;
	enum dir_role role; /* that an announcement asked for */
	enum dir_verdict verdict;
	struct dir_entry old;
	uint64_t waiters[DIR_HOLDERS];
	uint32_t waiter_count;
};

struct mem_key {
	struct dir_id id;
	struct dir_entry there;
	uint64_t expires; /* its time to live ends; UINT64_MAX = never */
	uint64_t
		lost_until; /* when it is forgotten; UINT64_MAX: somebody has its bytes */
	struct mem_memo memo;
	uint64_t buried, buried_until; /* tombstone; generation 0: none */
	struct mem_waiter waiters[DIR_HOLDERS];
	uint32_t waiter_count;
	struct mem_token tokens[DIR_TOKENS];
	uint32_t token_count;
};

void mem_key_init(struct mem_key *key, struct dir_id id);
/* What is over goes. */
void mem_key_tidy(struct mem_key *key, uint64_t now);
bool mem_key_is_empty(const struct mem_key *key);
/* The entry that is there at `now`; false: none. */
bool mem_key_look(const struct mem_key *key, uint64_t now, struct dir_entry *ret);
/* Do the command at `now`, and say in the call what came of it. `full`: nothing may be added.
 * *ret_changed: the key is not as it was. */
int mem_key_run(struct mem_key *key, struct dir_call *call, uint64_t now, bool full,
	bool *ret_changed) MUST_CHECK;
/* NULL, or what is broken. */
const char *mem_key_check(const struct mem_key *key);

#endif
