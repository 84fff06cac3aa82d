/*
 * list.c - the objects whose keys look alike, by their beginning or by a regular expression:
 * list them, remove them.
 *
 *   list           LIST -> LISTED, a page; the cursor of each asks for the next
 *   list_regex     the same, matched here
 *   remove_prefix  REMOVE_PREFIX -> DONE, with their number
 *   remove_regex   list_regex, then a batch of REMOVE for what it found
 *
 * What several nodes keep is on the pages of each of them, and told once.
 *
 * The daemon knows no expressions, so that nobody's pattern can keep it from its work.
 */
#include "client/batch_priv.h"

#include "base/hash.h"

#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_ITEMS 256u /* removed in one batch */
#define TOLD_LEAST  256u

typedef int (*list_each_fn)(void *arg, const struct cenote_list_entry *entry);

static int prefix_check(struct cenote_key prefix)
{
	if (prefix.data == NULL && prefix.size > 0)
		return client_fail(
			ERR_BAD_ARGUMENT, "a prefix of %zu bytes is NULL", prefix.size);
	return prefix.size > 0 ? client_check_key(prefix) : 0;
}

/* ---- what was told ------------------------------------------------------- */

/* Hashes of keys that several nodes keep, 0 for none. Two keys with one hash, of which the second
 * would be left out, nobody has met. */
struct told {
	uint64_t *hashes;
	size_t size, count; /* a power of two, of which less than half is used; or 0 */
};

static void told_place(struct told *told, uint64_t hash)
{
	size_t at = hash & (told->size - 1);

	while (told->hashes[at] != 0)
		at = (at + 1) & (told->size - 1);
	told->hashes[at] = hash;
	told->count++;
}

static bool told_has(const struct told *told, uint64_t hash)
{
	size_t at = hash & (told->size - 1);

	while (told->size > 0 && told->hashes[at] != 0 && told->hashes[at] != hash)
		at = (at + 1) & (told->size - 1);
	return told->size > 0 && told->hashes[at] == hash;
}

static int told_grow(struct told *told)
{
	struct told more = {.size = MAX(told->size * 2, TOLD_LEAST)};

	more.hashes = calloc(more.size, sizeof(*more.hashes));
	if (more.hashes == NULL)
		return client_fail(ERR_NO_MEMORY,
			"no memory to list %zu objects that several nodes keep",
			told->count);
	for (size_t i = 0; i < told->size; i++) {
		if (told->hashes[i] != 0)
			told_place(&more, told->hashes[i]);
	}
	free(told->hashes);
	*told = more;
	return 0;
}

/* 1: it is new; 0: it was told; or an error. */
static int told_add(struct told *told, struct msg_bytes key)
{
	uint64_t hash = hash_key(key.data, key.size, 0) | 1;
	int err = 0;

	if (told_has(told, hash))
		return 0;
	if (told->count * 2 >= told->size)
		err = told_grow(told);
	if (err == 0)
		told_place(told, hash);
	return err == 0 ? 1 : err;
}

/* ---- list ---------------------------------------------------------------- */

/* Whom a list is told. */
struct listing {
	list_each_fn each;
	void *arg;
	struct told told;
};

/* Tell one page. A non-zero return ends the list. */
static int list_page(struct msg_bytes entries, struct listing *listing)
{
	char key[CENOTE_KEY_LIMIT + 1];
	struct msg_entry entry;
	int got, err = 0;

	while (err == 0 && (got = msg_entry_next(&entries, &entry)) != 0) {
		struct cenote_list_entry told;

		if (got < 0)
			return reply_broken(MSG_TYPE_LISTED);
		got = entry.flags & ENTRY_REPLICATED ? told_add(&listing->told, entry.key)
						     : 1;
		if (got < 0)
			return got;
		if (got == 0)
			continue;
		memcpy(key, entry.key.data, entry.key.size);
		key[entry.key.size] = '\0';
		told = (struct cenote_list_entry){
			.key = key,
			.key_size = entry.key.size,
			.size = entry.size,
			.softpin = (entry.flags & PUT_SOFTPIN) != 0,
		};
		err = listing->each(listing->arg, &told);
	}
	return err;
}

/* Pages one behind the other; the cursor is the daemon's own and outlives it. */
static int list_pages(struct call *call, struct msg_list *msg, struct listing *listing)
{
	struct msg_listed listed = {.next = 0};
	int err = 0;

	while (err == 0 && listed.next != UINT64_MAX) {
		msg->cursor = listed.next;
		do {
			err = call_exchange(call,
				msg_list_encode(call->lane->out, MSG_SIZE_MAX, msg),
				CALL_CLIENT);
		} while (err == CALL_AGAIN);
		if (err == 0)
			err = call_expect(call, MSG_TYPE_LISTED);
		if (err == 0 &&
			msg_listed_decode(call->lane->in, call->reply_size, &listed) != 0)
			err = reply_broken(MSG_TYPE_LISTED);
		if (err == 0)
			err = list_page(listed.entries, listing);
	}
	return err;
}

static int list_until(struct cenote *store, uint64_t deadline, struct cenote_key prefix,
	list_each_fn each, void *arg)
{
	struct msg_list msg = {.prefix = {.data = prefix.data, .size = prefix.size}};
	struct listing listing = {.each = each, .arg = arg};
	struct call call;
	int err = prefix_check(prefix);

	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	err = list_pages(&call, &msg, &listing);
	free(listing.told.hashes);
	call_end(&call);
	return err;
}

int cenote_list(struct cenote *store, struct cenote_key prefix,
	int (*each)(void *arg, const struct cenote_list_entry *entry), void *arg)
{
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (each == NULL)
		err = client_fail(ERR_BAD_ARGUMENT, "each() is NULL");
	return err == 0 ? list_until(store, deadline, prefix, each, arg) : err;
}

/* ---- list_regex ---------------------------------------------------------- */

/* Who is told of the keys that match. */
struct match {
	regex_t regex;
	list_each_fn each;
	void *arg;
};

static int match_init(
	struct match *match, const char *pattern, list_each_fn each, void *arg)
{
	char text[256];
	int code;

	if (pattern == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the regular expression is NULL");
	*match = (struct match){.each = each, .arg = arg};
	code = regcomp(&match->regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (code == 0)
		return 0;
	(void)regerror(code, &match->regex, text, sizeof(text));
	return client_fail(code == REG_ESPACE ? ERR_NO_MEMORY : ERR_BAD_ARGUMENT,
		"%s, in the regular expression \"%s\"", text, pattern);
}

static void match_fini(struct match *match)
{
	regfree(&match->regex);
}

static int match_each(void *arg, const struct cenote_list_entry *entry)
{
	const struct match *match = arg;

	switch (regexec(&match->regex, entry->key, 0, NULL, 0)) {
	case 0:
		return match->each(match->arg, entry);
	case REG_NOMATCH:
		return 0;
	default:
		return client_fail(ERR_NO_MEMORY, "no memory to match a key of %zu bytes",
			entry->key_size);
	}
}

/* The whole of it, from the pattern on. */
static int match_list(struct cenote *store, uint64_t deadline, struct cenote_key prefix,
	const char *pattern, list_each_fn each, void *arg)
{
	struct match match;
	int err = match_init(&match, pattern, each, arg);

	if (err != 0)
		return err;
	err = list_until(store, deadline, prefix, match_each, &match);
	match_fini(&match);
	return err;
}

int cenote_list_regex(struct cenote *store, struct cenote_key prefix, const char *pattern,
	int (*each)(void *arg, const struct cenote_list_entry *entry), void *arg)
{
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (each == NULL)
		err = client_fail(ERR_BAD_ARGUMENT, "each() is NULL");
	return err == 0 ? match_list(store, deadline, prefix, pattern, each, arg) : err;
}

/* ---- remove_prefix ------------------------------------------------------- */

static int prefix_ask(struct call *call, struct cenote_key prefix, uint64_t *ret_count)
{
	struct msg_remove_prefix msg = {
		.prefix = {.data = prefix.data, .size = prefix.size}};
	struct msg_done done;
	int err = client_fault(FAULT_CLIENT_BEFORE_REMOVE_SEND);

	if (err != 0)
		return err;
	do {
		err = call_exchange(call,
			msg_remove_prefix_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_DAEMON); /* it waits for the disk, and for other nodes */
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = call_expect(call, MSG_TYPE_DONE);
	if (err == 0 && msg_done_decode(call->lane->in, call->reply_size, &done) != 0)
		err = reply_broken(MSG_TYPE_DONE);
	if (err == 0)
		err = client_fault(FAULT_CLIENT_AFTER_REMOVE);
	if (err == 0 && ret_count != NULL)
		*ret_count = done.generation;
	return err;
}

int cenote_remove_prefix(
	struct cenote *store, struct cenote_key prefix, uint64_t *ret_count)
{
	struct call call;
	uint64_t deadline;
	int err = prefix_check(prefix);

	if (err == 0)
		err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	err = prefix_ask(&call, prefix, ret_count);
	call_end(&call);
	return err;
}

/* ---- remove_regex -------------------------------------------------------- */

/* Keys that were listed, gathered before the first of them is removed: a list is asked for
 * over one connection, and keeps it. */
struct sweep {
	char *keys; /* one behind the other, each with a NUL */
	size_t used, size;
	uint64_t count, removed, failed;
	int err; /* the first */
};

static int sweep_add(void *arg, const struct cenote_list_entry *entry)
{
	struct sweep *sweep = arg;
	size_t need = sweep->used + entry->key_size + 1;
	char *keys;

	if (need > sweep->size) {
		keys = realloc(sweep->keys, need * 2);
		if (keys == NULL)
			return client_fail(ERR_NO_MEMORY,
				"no memory for %zu bytes of keys", need * 2);
		sweep->keys = keys;
		sweep->size = need * 2;
	}
	memcpy(sweep->keys + sweep->used, entry->key, entry->key_size + 1);
	sweep->used = need;
	sweep->count++;
	return 0;
}

static void sweep_count(
	struct sweep *sweep, const struct cenote_key_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int err = items[i].result;

		sweep->removed += err == 0;
		if (err == 0 || err == ERR_NOT_FOUND)
			continue;
		sweep->failed++;
		if (sweep->err == 0)
			sweep->err = err;
	}
}

static void sweep_remove(struct sweep *sweep, struct cenote *store, uint64_t deadline)
{
	struct cenote_key_item items[SWEEP_ITEMS];
	size_t at = 0, count = 0;

	while (at < sweep->used) {
		items[count] = (struct cenote_key_item){
			.key = cenote_key(sweep->keys + at)};
		at += items[count++].key.size + 1;
		if (count < SWEEP_ITEMS && at < sweep->used)
			continue;
		remove_all(store, items, count, deadline);
		sweep_count(sweep, items, count);
		count = 0;
	}
}

int cenote_remove_regex(struct cenote *store, const char *pattern, uint64_t *ret_count)
{
	struct sweep sweep = {.keys = NULL};
	uint64_t deadline;
	int err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);

	if (err == 0)
		err = match_list(
			store, deadline, cenote_key(""), pattern, sweep_add, &sweep);
	if (err == 0)
		sweep_remove(&sweep, store, deadline);
	free(sweep.keys);
	/* What absent keys were answered since then is no reason. */
	if (sweep.err != 0)
		err = client_fail(sweep.err,
			"%s: %" PRIu64 " of %" PRIu64
			" objects that match \"%s\" were not removed",
			err_text(sweep.err), sweep.failed, sweep.count, pattern);
	if (err == 0 && ret_count != NULL)
		*ret_count = sweep.removed;
	return err;
}
