/*
 * naive.h - what the local master must answer, by the plainest means: one array of
 * records, one current record a key, no lists, no bytes, no room.
 *
 * It does not know evictions: a cache object, and a copy of what another node keeps, may be
 * gone at any time, which the caller reports by naive_evict() when the master says so. All
 * else must be as it says here.
 *
 * Units     times in ns; keys and records are numbers of the caller's and of ours.
 * Memory    naive_init() to naive_fini(). A record that ended lives on while somebody
 *           refers to it (naive_ref()), so that its bytes can still be checked.
 * Errors    as core/master.h has them.
 * Thread    one.
 */
#ifndef MODEL_NAIVE_H
#define MODEL_NAIVE_H

#include "core/master.h"

#define NAIVE_NONE UINT32_MAX

enum naive_state {
	NAIVE_FREE, /* the record is unused */
	NAIVE_PUT,  /* under way */
	NAIVE_COPY, /* the same, from another node */
	NAIVE_READY,
	NAIVE_GONE
};

struct naive_object {
	enum naive_state state;
	uint32_t key;
	uint32_t refs;
	uint64_t number; /* of all puts; names the bytes */
	uint64_t size;
	bool softpin, secondary;
	bool late, doomed, outrun; /* of a put that lost its key, or has none yet */
	bool replaces;             /* a put that ends what the key has by then */
	uint64_t ttl_ns, expires, deadline;
	uint64_t generation; /* of a put: once it has a name */
	uint32_t writer, taker;
	uint64_t op, take_op;
};

struct naive {
	struct naive_object *objects;
	uint32_t *current; /* by key: the put or the object that has it, or NAIVE_NONE */
	uint32_t limit, keys;
	uint64_t last_number;
};

void naive_init(struct naive *naive, uint32_t keys, uint32_t limit);
void naive_fini(struct naive *naive);

static inline struct naive_object *naive_at(const struct naive *naive, uint32_t id)
{
	return &naive->objects[id];
}

void naive_ref(struct naive *naive, uint32_t id);
void naive_unref(struct naive *naive, uint32_t id);

/* The READY object of the key. */
uint32_t naive_find(const struct naive *naive, uint32_t key);

/* What a put may be told but for room; PUT_STARTED: nothing is in its way. *ret_id is the
 * record that is. */
enum put_verdict naive_verdict(const struct naive *naive, uint32_t key, uint32_t writer,
	uint64_t op, bool replace, uint32_t *ret_id);
uint32_t naive_start(struct naive *naive, uint32_t key, const struct put_request *put);
int naive_end(struct naive *naive, uint32_t id, uint64_t now, uint64_t generation);
void naive_abort(struct naive *naive, uint32_t id);
/* What a put is told that asks for its generation. */
int naive_name(const struct naive *naive, uint32_t id);

uint32_t naive_copy(struct naive *naive, uint32_t key, const struct copy_request *copy);
/* A copy of the key is on its way, and may become its object. */
bool naive_is_coming(const struct naive *naive, uint32_t key);
int naive_copy_done(struct naive *naive, uint32_t id, int err);

int naive_remove(struct naive *naive, uint32_t key);
/* Of this generation; 0: any. */
int naive_end_key(struct naive *naive, uint32_t key, uint64_t generation);
/* What is under way for the keys of which number % of == rest. */
uint32_t naive_doom(struct naive *naive, uint32_t of, uint32_t rest);
int naive_take(struct naive *naive, uint32_t id, uint32_t taker, uint64_t op);
/* False: the key has nothing that may be evicted. */
bool naive_evict(struct naive *naive, uint32_t key);

/* Deadlines and ends that are due. `moving`: a record whose end must wait. */
void naive_advance(struct naive *naive, uint64_t now, uint32_t moving);
void naive_client_gone(struct naive *naive, uint32_t writer);
void naive_restart(struct naive *naive, uint64_t now, uint64_t put_timeout_ns);

#endif
