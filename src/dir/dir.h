/*
 * dir.h - the directory of the cluster: which nodes hold which generation of a key.
 *
 * The nodes are the authority for what they hold; an entry only says where to ask. So the
 * directory may lose everything: each part of it that has a life of its own, a *domain*
 * (the one Redis, or one master of a Redis Cluster), carries an epoch, a number that a new
 * life of the domain does not share. When an epoch begins, every node announces all it
 * holds there again, and until all have, what is absent may only not have been announced
 * yet (node/epoch.c).
 *
 *   call   one command, the caller's from dir.start() until dir_events.done(), which comes
 *          exactly once and never from inside start()
 *
 * Each command is atomic on its key. Publish, join, hand over, take out and announce answer
 * a repeat of themselves, by generation and node, within DIR_REPEAT_NS as they answered the
 * first time, since an answer may be lost. (What a repeated announcement says of the caller's
 * incarnation is taken over all the same. One that asks for another role is no repeat; but what the
 * first has replaced it is told once more.)
 *
 * Units     bytes; durations in ns.
 * Memory    the caller owns the call and what it points to until done().
 * Errors    ERR_UNAVAILABLE: not answered, or not in a way that makes sense, which does not
 *           mean not done; ERR_NO_SPACE: the directory's memory is full, or the entry names
 *           DIR_HOLDERS nodes already. No others. Commands that need no more room than there
 *           was (leave, take out, confirm, hand over, renew ...) go on in a full directory.
 * Thread    the loop thread.
 */
#ifndef DIR_DIR_H
#define DIR_DIR_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIR_HOLDERS      64u /* nodes of a cluster; an entry may name them all */
#define DIR_DOMAINS      64u
#define DIR_ENDPOINT_MAX 128u
#define DIR_DOMAIN_NONE  UINT32_MAX
#define DIR_REPEAT_NS    10000000000ull
#define DIR_LOST_NS      86400000000000ull /* so long an entry without bytes is remembered */
#define DIR_TOKENS       64u /* of the last removals of a key, within DIR_REPEAT_NS */

enum dir_role {
	DIR_LOADING = 1, /* gets the bytes; no source, but told of removals */
	DIR_SECONDARY,   /* has them, and may drop them */
	DIR_KEEPER       /* has them, and keeps them until they are removed */
};

struct dir_holder {
	uint64_t node;
	uint64_t incarnation; /* of the content of the node's pool */
	enum dir_role role;
};

enum dir_flag {
	DIR_SOFTPIN = 1,
	DIR_PROVISIONAL = 2 /* published, and not confirmed yet */
};

struct dir_entry {
	uint64_t generation; /* 0: there is no entry */
	uint64_t size;
	uint32_t flags;
	uint16_t wanted; /* keepers */
	uint32_t holder_count;
	struct dir_holder holders[DIR_HOLDERS];
};

static inline uint16_t dir_keeper_count(const struct dir_entry *entry)
{
	uint16_t count = 0;

	for (uint32_t i = 0; i < entry->holder_count; i++)
		if (entry->holders[i].role == DIR_KEEPER)
			count++;
	return count;
}

/* Tells one set of keepers from another: the sum of as much of their ids as a script can add up
 * without loss, since its numbers have 53 bits. */
static inline uint64_t dir_keepers(const struct dir_entry *entry)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < entry->holder_count; i++)
		if (entry->holders[i].role == DIR_KEEPER)
			sum += entry->holders[i].node & 0xfffffffffffull;
	return sum;
}

/* The name of a key: 128 bits of its hash, the same on every node (core/disk.h). Of two keys
 * with one name, which nobody has met, one would be absent. */
struct dir_id {
	uint64_t word[2];
};

static inline bool dir_id_is(const struct dir_id *id, const struct dir_id *other)
{
	return id->word[0] == other->word[0] && id->word[1] == other->word[1];
}

struct dir_member {
	uint64_t node, incarnation;
	uint64_t free_bytes;
	char endpoint[DIR_ENDPOINT_MAX]; /* "host:port"; an IPv6 address in brackets */
};

/* `call` means the caller's node, incarnation, generation and so on; `entry` what is there.
 * What each returns in `entry` is as it was before, unless it says otherwise. */
enum dir_op {
	/* Make an entry with the caller as keeper, DIR_PROVISIONAL, if there is none. There
	 * being one of another generation: DIR_EXISTS, and nothing changes, unless `replace`:
	 * DIR_DONE, the new stands in its place and `entry` is the old, whose holders are to be
	 * told; a tombstone of it stays for DIR_REPEAT_NS. Only a lower one is replaced: one
	 * that is higher, or that another node gave this number, is DIR_EXISTS all the same,
	 * and the caller takes a generation above it. A tombstone of a lower generation is no
	 * hindrance; of the same or a higher one: DIR_REMOVED. Clears and returns the waiters. */
	DIR_OP_PUBLISH,
	/* The entry of this generation is not provisional any more. DIR_GONE: it is not there. */
	DIR_OP_CONFIRM,
	/* Read the entry and, if there is one, add the caller as DIR_LOADING (a role that its
	 * incarnation has already stays; `entry` never has the caller as DIR_LOADING).
	 * DIR_ABSENT, and with wait_ns > 0 the caller is a waiter from then on, for so long. */
	DIR_OP_JOIN,
	/* Read only. DIR_DONE or DIR_ABSENT. */
	DIR_OP_LOOKUP,
	/* The caller is no more DIR_LOADING but DIR_SECONDARY (a keeper stays one). DIR_GONE:
	 * the entry has another generation, or there is none; the copy must go. */
	DIR_OP_LOADED,
	/* The caller (or `from`, if not 0; and only with from_incarnation, if that is not 0)
	 * holds this generation no more. The entry goes with its last holder that is not
	 * DIR_LOADING; a softpin one stays for DIR_LOST_NS, to say that it is lost. Where the
	 * only keeper leaves by its own word it is none any more: what that pool had was removed,
	 * say. DIR_GONE: it was not a holder. */
	DIR_OP_LEAVE,
	/* The entry goes, and a tombstone of its generation stays: for bury_ns if `live` does
	 * not name all of its holders, else for DIR_REPEAT_NS, by which a repeat with the same
	 * `token` is known and answered DIR_DONE again, though without holders.
	 * `generation` 0: whichever is there. DIR_ABSENT: there is none, or none of that
	 * generation. Of all who ask with another token, one is told DIR_DONE. With token 0 a
	 * repeat is not known. With `lost` set no tombstone stays: nobody has it, and what is
	 * older may not have been announced yet. With `asked` set those who kept it have said that
	 * they have it not: DIR_EXISTS, and nothing changes, if it has not these `keepers`. */
	DIR_OP_TAKE_OUT,
	/* The keeper `from` gives its role to the caller, and is DIR_SECONDARY from then on: it
	 * has the bytes until it says otherwise, and must be told of a removal. Only where
	 * DIR_HOLDERS others are named it is a holder no more. `from` 0: nobody gives it, and
	 * the caller is one keeper more if there are fewer than `wanted`. DIR_EXISTS, and
	 * nothing changes: the caller keeps it beside `from`, or there are enough; with `fewer`
	 * set `from` gives its role up to a caller that keeps it already, too. DIR_GONE:
	 * the entry has another generation, or `from` is not its keeper, or there is no room
	 * for one holder more. DIR_DONE: the caller is a keeper, now or before. */
	DIR_OP_HAND_OVER,
	/* The caller holds this generation, READY, as `role`. No entry: it makes one. The same
	 * generation: it is a holder; a keeper becomes DIR_SECONDARY if there are `wanted`
	 * others, at least 1 (`entry` is as it is after); of a softpin object it makes the entry
	 * one of such. A provisional entry of another generation, or one of a lower: replaced,
	 * DIR_REPLACED, and `entry` is the old. A higher one: DIR_OLDER, nothing changes. A
	 * tombstone of this or a higher generation: DIR_REMOVED. Clears and returns the
	 * waiters. */
	DIR_OP_ANNOUNCE,
	/* Leave a tombstone for bury_ns. An entry of this generation goes; of another: stays,
	 * DIR_DONE all the same. A key has one tombstone, of the highest generation and for as
	 * long as the longest. */
	DIR_OP_BURY,
	/* Say that this member lives, for bury_ns, and read who else does: `members` has the
	 * others. */
	DIR_OP_RENEW,
	/* This member leaves. */
	DIR_OP_RESIGN
};

enum dir_verdict {
	DIR_DONE,
	DIR_ABSENT,
	DIR_EXISTS,
	DIR_GONE,
	DIR_REMOVED,
	DIR_OLDER,
	DIR_REPLACED
};

struct dir_call {
	struct list list_entry; /* the directory's, while it has the call */
	enum dir_op op;
	/* what is asked; zeroed where it does not matter */
	struct dir_id id;
	uint64_t node, incarnation, generation, size;
	uint32_t flags; /* DIR_SOFTPIN */
	uint16_t wanted;
	enum dir_role role;
	bool replace, lost, fewer;
	uint64_t from, from_incarnation, token;
	uint64_t wait_ns, bury_ns;
	uint64_t ttl_ns; /* of a publish or an announcement: the entry's; 0: for ever */
	const uint64_t *live; /* nodes that can be told */
	uint32_t live_count;
	bool asked;       /* of a take out; else it goes, whoever keeps it */
	uint64_t keepers; /* dir_keepers() of the entry by which they were */
	const struct dir_member *member;
	/* what came of it */
	int err;
	enum dir_verdict verdict;
	uint32_t domain; /* that answered, */
	uint64_t epoch; /* and its epoch, read after the command was done; 0: not known */
	struct dir_entry entry;
	/* Of a publish or an announcement: what is not above it is DIR_REMOVED, and the caller
	 * takes a generation that is. Of a take out: as it was before. 0: there is no
	 * tombstone. */
	uint64_t buried;
	uint64_t waiters[DIR_HOLDERS]; /* nodes */
	uint32_t waiter_count;
	struct dir_member *members; /* [DIR_HOLDERS], the caller's */
	uint32_t member_count;
};

struct dir_events {
	void *ctx;
	void (*done)(void *ctx, struct dir_call *call);
	/* The domain's epoch is this from now on; 0: the domain cannot be reached. Comes at
	 * least once for each domain, and again when anything but its epoch's number says that
	 * it may have forgotten something. */
	void (*epoch)(void *ctx, uint32_t domain, uint64_t epoch);
};

struct dir {
	void *ctx; /* NULL: there is none, the node is alone */
	void (*start)(void *ctx, struct dir_call *call);
	/* Which domain has the key, or DIR_DOMAIN_NONE while that is not known. */
	uint32_t (*domain_of)(void *ctx, const struct dir_id *id);
};

#endif
