/*
 * cenote.h - put, get and remove large immutable objects in the shared memory of a node.
 *
 *	struct cenote *store;
 *	struct cenote_view view;
 *
 *	cenote_connect(&store, NULL);
 *	cenote_put(store, cenote_key("step/7/logits"), data, size, NULL);
 *	cenote_get(store, cenote_key("step/7/logits"), NULL, &view);
 *	... read view.data[0 .. view.size) in place ...
 *	cenote_release(store, &view);
 *	cenote_remove(store, cenote_key("step/7/logits"));
 *
 * Units     sizes in bytes, times in milliseconds.
 * Memory    a view's bytes stay as they are until cenote_release(), whatever happens to
 *           the object; a view of a process ends with it. Everything passed in is the
 *           caller's and is copied or done with when the call returns.
 * Errors    a negative CENOTE_ERR_*; cenote_error_detail() then names the thing, its value
 *           and the limit. Else 0; or 1 of cenote_exists(), and how many nodes keep the
 *           object of a put with `replicas`. A batch has such a result for each item, and
 *           returns how many failed. Out parameters are untouched on failure.
 * Thread    every call may be made by any thread at any time, on one store.
 * Fork      in a forked child every call answers CENOTE_ERR_FORKED but cenote_close(); a
 *           child connects anew. Touching an older view there ends the child.
 * Deadline  every call has one: 10 s (a put in two steps: 60 s to its end, which its seal
 *           keeps) unless `timeout_ms` says otherwise; CENOTE_FOREVER waits for ever.
 * Cluster   of nodes with one directory every call is about the objects of all of them;
 *           what another node has is fetched into this one's pool to be read. A node that
 *           is cut off from the others may serve a removed object to its own clients until
 *           it is heard from, and so may a pool whose daemon is down: this is the one
 *           staleness there is.
 *
 * A local hit (get and release, exists, touch) makes no system call.
 */
#ifndef CENOTE_H
#define CENOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CENOTE_VERSION_MAJOR 0
#define CENOTE_VERSION_MINOR 1
#define CENOTE_VERSION_PATCH 0

#define CENOTE_KEY_LIMIT 1024 /* bytes of a key; any bytes but NUL */
#define CENOTE_FOREVER   (-1) /* as a timeout_ms */

/* The numbers are those of the field where the meaning is the same. */
enum cenote_error {
	CENOTE_OK = 0,
	CENOTE_ERR_INTERNAL = -1,
	CENOTE_ERR_BUFFER_TOO_SMALL = -10,
	CENOTE_ERR_STALE = -103, /* the pool that this store had attached is gone */
	/* No room by the deadline in pool, disk or, if required, other nodes; or none in the
	 * directory. */
	CENOTE_ERR_NO_SPACE = -200,
	CENOTE_ERR_VERSION = -300, /* library and daemon speak other protocols */
	CENOTE_ERR_BAD_KEY = -400, /* empty, longer than 1,024 bytes, or with a NUL */
	CENOTE_ERR_BAD_ARGUMENT = -600,
	CENOTE_ERR_NOT_PERMITTED = -601, /* this user, or a put on a read-only store */
	CENOTE_ERR_NOT_READY = -703,
	CENOTE_ERR_NOT_FOUND = -704,
	CENOTE_ERR_EXISTS = -705,
	/* The bytes came from another node too slowly for its promise to keep them, and no
	 * other copy could be had; ask again. */
	CENOTE_ERR_LEASE_EXPIRED = -707,
	/* Like RPC_FAIL a number of the field, which no call answers. */
	CENOTE_ERR_BUSY = -714,
	CENOTE_ERR_TOO_LARGE = -715, /* can never fit into this pool */
	CENOTE_ERR_REMOVED = -716,   /* removed before its put ended */
	CENOTE_ERR_TOO_MANY = -717,  /* a limit on a number of things was reached */
	/* Every copy of a softpin object is gone; the detail names the generation and the last
	 * node that kept it. Answered for a day at least, until the key is put or removed, or the
	 * directory is emptied (then NOT_FOUND). */
	CENOTE_ERR_LOST = -718,
	CENOTE_ERR_FORKED = -719, /* this store belongs to the parent process */
	/* The bytes could not be moved from the nodes that have them, since connections broke
	 * on the way; ask again. */
	CENOTE_ERR_TRANSFER_FAIL = -800,
	CENOTE_ERR_CORRUPT = -801,
	CENOTE_ERR_RPC_FAIL = -900,
	CENOTE_ERR_TIMEOUT = -901,
	/* Before the deadline nobody was reached who must be: this node's daemon; the node that
	 * has the object; the directory or, in its place, all other nodes. Or the node is being
	 * drained or ended, or too few nodes came for `replicas_required`. What was to be put is
	 * not there then, unless the daemon ended during the put. */
	CENOTE_ERR_UNAVAILABLE = -1010,
	CENOTE_ERR_NOT_SUPPORTED = -1012,
	CENOTE_ERR_PROTOCOL = -1013,
	CENOTE_ERR_NO_MEMORY = -1014,
	CENOTE_ERR_IO = -1103
};

/* "NOT_FOUND", "no such object": static strings. */
const char *cenote_error_name(int error);
const char *cenote_error_text(int error);
/* What exactly was wrong in this thread's last failed call; valid until its next call. */
const char *cenote_error_detail(void);

struct cenote; /* one attached node; from cenote_connect() */

struct cenote_key {
	const void *data; /* the caller's */
	size_t size;      /* 1 to CENOTE_KEY_LIMIT */
};

static inline struct cenote_key cenote_key(const char *text)
{
	struct cenote_key key;

	key.data = text;
	key.size = text ? strlen(text) : 0;
	return key;
}

struct cenote_part {
	const void *data;
	uint64_t size;
};

/* ---- attach -------------------------------------------------------------- */

/* All zero is the default. */
struct cenote_connect_options {
	/* NULL: $CENOTE_SOCKET, or /run/cenote/cenote.sock where that is unset or empty */
	const char *socket_path;
	bool read_only;     /* map the pool read-only; puts are refused */
	int64_t timeout_ms; /* 0 = 10 s: how long to wait for a daemon to answer */
};

/* Attach to the node's daemon; *ret_store ends with cenote_close(). UNAVAILABLE: no
 * daemon; VERSION, NOT_PERMITTED, TOO_MANY (256 clients a node): as the daemon says. */
int cenote_connect(
	struct cenote **ret_store, const struct cenote_connect_options *options);

/* Detach. Views of this store must not be used any more, writers are aborted. NULL is
 * fine. */
void cenote_close(struct cenote *store);

/* The pool as this process maps it, so that it can be registered with CUDA or a NIC. */
int cenote_pool_region(struct cenote *store, const void **ret_base, size_t *ret_size);

/* ---- put ----------------------------------------------------------------- */

/* All zero is the default. */
struct cenote_put_options {
	bool softpin; /* keep it until its owner removes it; else a cache object */
	/* 0 = none: removed, everywhere, so long after the end of the put. Counted by the node
	 * that keeps it; reads do not renew it. */
	uint64_t ttl_ms;
	int64_t timeout_ms; /* 0 = 10 s (cenote_create: 60 s, to the end of its seal): for
			       room, another put of the same key to end, disk and replicas */
	/* 0 = no limit: removed, everywhere, after so many ended reads (a release, or the end
	 * of a get_into, in any process of any node; the node that keeps it counts them). A
	 * read then costs one message more; one that a death ended does not count. */
	uint16_t readers;
	/* Acknowledged only after the bytes and their index entry are on disk, so that it
	 * outlives the host. NOT_SUPPORTED without a disk; NO_SPACE or IO if the disk cannot
	 * take it by the deadline: nothing was put then. */
	bool durable;
	/* Put it in the place of what the key has, if it has anything. Who reads the old
	 * object goes on reading it; every get finds either it or, from the end of the put on,
	 * the new one, whose generation is higher. Until then there must be room for both. It
	 * waits for no other put of the key: of those that replace, the last to end stays;
	 * one that does not ends with EXISTS then. If it is durable, and the disk does not
	 * take it, or `replicas_required`, and too few nodes come to keep it, the old one is
	 * gone all the same; so it may be in a cluster where it ends with UNAVAILABLE, as the
	 * directory may have done it and not have said so. */
	bool replace;
	/* softpin alone, in a cluster: nodes that are to keep it, this one and others, so that
	 * it outlives each but the last of them; 0 as 1, at most CENOTE_REPLICAS_MAX, and with
	 * more than one no `readers`. The put ends when so many keep it, or no other node will
	 * now, or at its deadline, and returns how many do, in place of 0 (a put in two steps:
	 * cenote_seal()); a copy that is lacking, or is lost later, is made in the background.
	 * With `durable` each has it on its own disk. */
	uint16_t replicas;
	/* Wait for them until the deadline; with fewer keepers then the object is removed again,
	 * and the put fails: NO_SPACE, UNAVAILABLE; NOT_SUPPORTED where a node has no disk for
	 * it, or this one is in no cluster. */
	bool replicas_required;
};
#define CENOTE_REPLICAS_MAX 8

/* Store a copy of `size` bytes (0 is fine). EXISTS: the key has an object, on this node or
 * another, and nothing changed. NO_SPACE: no room until the deadline. TOO_LARGE: larger
 * than the pool. UNAVAILABLE: no daemon or no directory, the node is being drained or ended,
 * or too few came for `replicas_required`, and nothing was put; but where the daemon ended
 * during the put, it may be there when the daemon is back. */
int cenote_put(struct cenote *store, struct cenote_key key, const void *data,
	uint64_t size, const struct cenote_put_options *options);

/* The same of several pieces, stored one behind the other. */
int cenote_put_parts(struct cenote *store, struct cenote_key key,
	const struct cenote_part *parts, size_t count,
	const struct cenote_put_options *options);

/* A put in two steps: write `size` bytes at `data`, then seal or abort. Invisible until
 * then. */
struct cenote_writer {
	void *data;
	uint64_t size;
	uint64_t life, deadline; /* the library's own, like slot */
	uint32_t slot;
};

int cenote_create(struct cenote *store, struct cenote_key key, uint64_t size,
	const struct cenote_put_options *options, struct cenote_writer *ret_writer);

/* Show the object. It waits for the daemon, and a durable put for the disk, one with replicas
 * for the nodes that are to keep it, until the deadline of its cenote_create(), 1 s at least.
 * TIMEOUT: the put took longer than the daemon lets it, which is until that deadline, 60 s at
 * least (--put-timeout); REMOVED: it was removed meanwhile;
 * EXISTS: a put that replaces, or one of another node, was first. The writer is over then,
 * and writer->data NULL. UNAVAILABLE: no daemon, and the writer stays, to be sealed again;
 * or it is over: no directory, and nothing was put; or the daemon ended during the seal, and
 * it may be there. cenote_error_detail() says which. */
int cenote_seal(struct cenote *store, struct cenote_writer *writer);
int cenote_abort(struct cenote *store, struct cenote_writer *writer);

/* ---- get ----------------------------------------------------------------- */

/* All zero is the default. */
struct cenote_get_options {
	bool wait;          /* wait for the key to be put; else NOT_FOUND at once */
	int64_t timeout_ms; /* 0 = 10 s */
};

/* An object held in place. */
struct cenote_view {
	const void *data;
	uint64_t size;
	uint64_t generation; /* tells put, remove, put of one key apart */
	uint32_t slot;       /* the library's own */
};

/* What is only on disk, or on another node, is brought into the pool first, within the
 * deadline: NO_SPACE if nothing may leave memory for it; CORRUPT, IO; LOST, UNAVAILABLE,
 * LEASE_EXPIRED, TRANSFER_FAIL. */
int cenote_get(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct cenote_view *ret_view);

/* End a view: exactly once. Clears it. BAD_ARGUMENT: it was released already. */
int cenote_release(struct cenote *store, struct cenote_view *view);

/* Copy the whole object to `buffer`; BUFFER_TOO_SMALL names both sizes. */
int cenote_get_into(struct cenote *store, struct cenote_key key, void *buffer,
	uint64_t size, const struct cenote_get_options *options, uint64_t *ret_size);

/* ---- the rest of an object's life ---------------------------------------- */

struct cenote_stat {
	uint64_t size;
	uint64_t generation;
	int64_t expires_in_ms; /* -1: no time to live */
	uint32_t holds;        /* of all clients of this node, now */
	uint16_t readers_left; /* ended reads until it is removed; 0 = not counted */
	bool softpin;
	bool in_pool, on_disk; /* where its bytes are on this node, now */
};

/* 1 or 0, or an error. Protects and heats nothing, like stat and list. */
int cenote_exists(struct cenote *store, struct cenote_key key);
/* Of an object that only other nodes have it tells size, generation and softpin alone. */
int cenote_stat(
	struct cenote *store, struct cenote_key key, struct cenote_stat *ret_stat);

struct cenote_list_entry {
	const char *key; /* NUL-terminated, valid during the call */
	size_t key_size;
	uint64_t size;
	bool softpin;
};

/* Call `each` for every object whose key starts with `prefix` (size 0: all), in no order;
 * one put or removed meanwhile may be seen or not, and one that moves between memory and
 * disk, or nodes, meanwhile twice, or not at all. Of a cluster it is told what every node
 * keeps that can be reached. A non-zero return of `each` ends the list and is returned. */
int cenote_list(struct cenote *store, struct cenote_key prefix,
	int (*each)(void *arg, const struct cenote_list_entry *entry), void *arg);

/* The same of those whose key the POSIX extended regular expression `pattern` also matches,
 * in any part of it: "^a" and "z$" say where. It is matched in this process, in its locale.
 * BAD_ARGUMENT: it is none, for the reason that the detail gives. */
int cenote_list_regex(struct cenote *store, struct cenote_key prefix, const char *pattern,
	int (*each)(void *arg, const struct cenote_list_entry *entry), void *arg);

/* Mark as used, so that reclaim takes others first. Protects nothing. */
int cenote_touch(struct cenote *store, struct cenote_key key);

/* Wait until the key has an object. */
int cenote_wait(struct cenote *store, struct cenote_key key, int64_t timeout_ms);

/* End the object, whoever reads it: running reads finish. When this returns no node that
 * can be reached finds it any more; one that cannot learns of it when it is back.
 * NOT_FOUND: there was none, which counts as done; but 0 if the daemon ended meanwhile and
 * there is none after, as this call may have ended it. UNAVAILABLE: a node that has it did
 * not say in time that it is ended there, and is told again; or nobody can tell whether
 * there is one. A put of the key under way ends with REMOVED. */
int cenote_remove(struct cenote *store, struct cenote_key key);

/* The same of every object whose key starts with `prefix` (size 0: all), on all nodes, in
 * one call. A put under way of such a key ends with REMOVED. *ret_count (NULL: not asked
 * for) is how many there were, 0 is no error; fewer, if the daemon was started again
 * meanwhile. On failure some may be left: call it again. */
int cenote_remove_prefix(
	struct cenote *store, struct cenote_key prefix, uint64_t *ret_count);

/* Remove the objects that cenote_list_regex() finds, one by one: what is gone by then is
 * done, and not counted. A put of a key that has none yet goes on. On failure as many as
 * could be are removed. */
int cenote_remove_regex(struct cenote *store, const char *pattern, uint64_t *ret_count);

/* Get and remove in one; of all who try, in the whole cluster, exactly one gets it, the
 * others NOT_FOUND. */
int cenote_take(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct cenote_view *ret_view);

/* ---- leases -------------------------------------------------------------- */

/*
 * What a reader on another node has while it fetches an object: a promise that the bytes
 * stay where they are, which ends by itself. Readers on this node need none, they hold;
 * this call plays the remote one, for tests and benches.
 */
struct cenote_lease {
	uint64_t generation;
	int64_t length_ms;    /* from the moment of the call */
	uint64_t epoch, life; /* the daemon's own, like slot and grant */
	uint32_t slot, grant;
};

/* `length_ms` 0: as the object's size asks for. */
int cenote_lease(struct cenote *store, struct cenote_key key, int64_t length_ms,
	struct cenote_lease *ret_lease);
/* The transfer has ended. NOT_FOUND: no such lease is outstanding, any more. */
int cenote_lease_release(struct cenote *store, const struct cenote_lease *lease);

/* ---- batches: each key has its own result -------------------------------- */

struct cenote_put_item {
	struct cenote_key key;
	const struct cenote_part *parts;
	size_t count;
	int result;
};

struct cenote_create_item {
	struct cenote_key key;
	uint64_t size;
	struct cenote_writer writer; /* valid where result is 0 */
	int result;
};

struct cenote_get_item {
	struct cenote_key key;
	struct cenote_view view; /* valid, and to be released, where result is 0 */
	int result;
};

struct cenote_get_into_item {
	struct cenote_key key;
	void *buffer;
	uint64_t buffer_size;
	uint64_t size; /* of the object, where result is 0 */
	int result;
};

struct cenote_key_item {
	struct cenote_key key;
	int result;
};

struct cenote_stat_item {
	struct cenote_key key;
	struct cenote_stat stat;
	int result;
};

/* Each returns how many items failed (their `result` is negative). The deadline is one
 * for the whole batch. A batch holds no room that it waits for others to give up. */
size_t cenote_put_batch(struct cenote *store, struct cenote_put_item *items, size_t count,
	const struct cenote_put_options *options);
size_t cenote_create_batch(struct cenote *store, struct cenote_create_item *items,
	size_t count, const struct cenote_put_options *options);
size_t cenote_get_batch(struct cenote *store, struct cenote_get_item *items, size_t count,
	const struct cenote_get_options *options);
size_t cenote_get_into_batch(struct cenote *store, struct cenote_get_into_item *items,
	size_t count, const struct cenote_get_options *options);
/* result: 1 exists, 0 does not */
size_t cenote_exists_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count);
size_t cenote_stat_batch(
	struct cenote *store, struct cenote_stat_item *items, size_t count);
size_t cenote_touch_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count);
size_t cenote_remove_batch(
	struct cenote *store, struct cenote_key_item *items, size_t count);
size_t cenote_take_batch(struct cenote *store, struct cenote_get_item *items,
	size_t count, const struct cenote_get_options *options);

/* ---- the node ------------------------------------------------------------ */

enum cenote_info {
	CENOTE_INFO_STATS,  /* JSON: bytes by state, counters, clients */
	CENOTE_INFO_CONFIG, /* JSON: the daemon's settings as they are in force */
	CENOTE_INFO_CHECK   /* "ok", or what core_check() found broken */
};

/* A text about the node; *ret_text is NUL-terminated and freed by cenote_free(). */
int cenote_info(struct cenote *store, enum cenote_info what, char **ret_text);
void cenote_free(void *memory);

/* Empty the node, so that it can be taken away from its cluster: it refuses puts from now on
 * (UNAVAILABLE), and hands all softpin objects that it keeps to other nodes; or, with `begin`
 * false, let it take puts again. Returns at once; "cluster.drain.state" of the statistics is
 * "empty" in the end. NOT_SUPPORTED: it is in no cluster. */
int cenote_drain(struct cenote *store, bool begin);

/* ---- faults, in debug builds; elsewhere NOT_SUPPORTED -------------------- */

/*
 * Arm a named point of the caller's own process: from its hit number `from_hit` (0 = 1)
 * on, `times` times (0 = 1, -1 = for ever), do `action`: "sleep" (`value` ms),
 * "return_error"
 * (`value`, any negative number, reaches the caller unchanged), "kill" (the process ends
 * as by SIGKILL), "reset" (disarm, counts to 0).
 */
int cenote_inject_fault(const char *name, const char *action, int64_t value,
	uint64_t from_hit, int64_t times);
int cenote_get_fault_status(const char *name, uint64_t *ret_hits, uint64_t *ret_fired);
/* The same in the daemon's process. */
int cenote_inject_fault_local_master(struct cenote *store, const char *name,
	const char *action, int64_t value, uint64_t from_hit, int64_t times);
int cenote_get_fault_status_local_master(
	struct cenote *store, const char *name, uint64_t *ret_hits, uint64_t *ret_fired);

#ifdef __cplusplus
}
#endif

#endif
