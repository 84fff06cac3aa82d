/*
 * batch_priv.h - many requests in few messages, for all kinds of items.
 *
 * The public items differ, but each begins with its key and has a result. A batch goes
 * over those that are still to be asked for, in messages of as many requests as fit, and
 * hands each item its reply.
 *
 * Memory    `todo` is the caller's.
 * Thread    the calling thread.
 */
#ifndef CLIENT_BATCH_PRIV_H
#define CLIENT_BATCH_PRIV_H

#include "client/client_priv.h"

#define BATCH_ITEMS 64u           /* in one message */
#define BATCH_BYTES (100u * 1024) /* of one message */

/* The items of a public call, whatever their type. */
struct items {
	unsigned char *base;
	size_t stride, result_offset, count;
};

#define ITEMS(array, n)                                                  \
	((struct items){.base = (unsigned char *)(array),                \
		.stride = sizeof(*(array)),                              \
		.result_offset = offsetof(__typeof__(*(array)), result), \
		.count = (n)})

static inline void *items_at(const struct items *items, size_t index)
{
	return items->base + index * items->stride;
}

static inline struct cenote_key *items_key(const struct items *items, size_t index)
{
	return items_at(items, index);
}

static inline int *items_result(const struct items *items, size_t index)
{
	return (int *)(void *)(items->base + index * items->stride +
			       items->result_offset);
}

/* Items that are to be asked for, by index. */
struct todo {
	size_t *indices;
	size_t count;
};

/* Check what a batch is given; on failure it is every item's result. */
struct attachment *items_begin(struct cenote *store, const struct items *items);
/* Give all items, or those of a todo, the same result. */
void items_fail(const struct items *items, int err);
void todo_fail(const struct todo *todo, const struct items *items, int err);
size_t items_failed(const struct items *items);

int todo_init(struct todo *todo, const struct items *items) MUST_CHECK;
void todo_fini(struct todo *todo);
/* Meet the point for each; those it fails are not to be asked for. */
void todo_drop_faulty(
	struct todo *todo, const struct items *items, enum fault_point point);

struct batch;

struct batch_ops {
	/* Encode the request of item `index`: its size, 0 if it does not fit, or cannot
	 * be any more and batch.err says why. */
	size_t (*encode)(struct batch *batch, size_t index, void *buffer, size_t size);
	/* The item's reply. */
	void (*reply)(struct batch *batch, size_t index, const void *reply, size_t size);
};

struct batch {
	const struct items *items;
	const struct batch_ops *ops;
	struct call call;
	enum call_judge judge;
	uint64_t rest; /* of the deadline, when the message in hand was begun */
	int err;       /* why an item could not be encoded */
	void *arg;
};

/* Ask for the items of `todo`, in as many messages as it takes. 0: each had its reply;
 * else those without one have the error as their result. */
int batch_ask(struct batch *batch, const struct todo *todo);

/* cenote_remove_batch() with a deadline. */
size_t remove_all(struct cenote *store, struct cenote_key_item *items, size_t count,
	uint64_t deadline);

#endif
