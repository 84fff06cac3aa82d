/*
 * get.c - hold an object in place: by the shared index, or through the daemon.
 *
 *   find in the index --there--> held --> view
 *     | not there                 ^
 *   GET --FOUND, pinned--> try ---' (then UNPIN)
 *          ^---- it was removed meanwhile: ask again
 *
 * The first line makes no system call and takes no lock.
 */
#include "client/client_priv.h"

#include <inttypes.h>

/* ---- the hit ------------------------------------------------------------- */

struct index_key attachment_key(
	const struct attachment *attachment, struct cenote_key key)
{
	return (struct index_key){
		.data = key.data,
		.size = (uint32_t)key.size,
		.hash = hash_key(key.data, key.size, attachment->share.header->hash_seed),
	};
}

enum hold_result held_find(struct attachment *attachment, struct cenote_key key,
	enum hold_heat heat, struct held *ret_held)
{
	struct index_key index_key;

	/* A key that is none is told by client_check_key() after the miss. */
	if (key.data == NULL || key.size == 0 || key.size > CENOTE_KEY_LIMIT)
		return HOLD_NO;
	index_key = attachment_key(attachment, key);
	ret_held->attachment = attachment;
	return index_find(&attachment->share, &attachment->holder, &index_key, heat,
		&ret_held->slot);
}

int held_too_many(struct cenote_key key)
{
	return client_fail(ERR_TOO_MANY,
		"this process has %u holds on the object with a key of %zu bytes, the "
		"limit",
		HOLD_LIMIT, key.size);
}

void held_give(const struct held *held)
{
	int fault = 0;

	(void)attachment_give(held->attachment, held->slot, &fault);
}

/* Where its bytes lie, if that is within the pool. */
static const unsigned char *held_bytes(const struct held *held, uint64_t *ret_size)
{
	const struct slot *slot = &held->attachment->share.slots[held->slot];
	uint64_t pool_size = held->attachment->pool_size;

	if (slot->off >= pool_size || slot->size > pool_size - slot->off)
		return NULL;
	*ret_size = slot->size;
	return held->attachment->share.pool + slot->off;
}

static int held_corrupt(const struct held *held)
{
	const struct slot *slot = &held->attachment->share.slots[held->slot];
	uint64_t off = slot->off, size = slot->size;

	held_give(held);
	return client_fail(ERR_CORRUPT,
		"slot %" PRIu32 ": %" PRIu64 " bytes at %" PRIu64
		" are not within the pool of %" PRIu64,
		held->slot, size, off, held->attachment->pool_size);
}

int held_view(const struct held *held, struct cenote_view *ret_view)
{
	uint64_t size;
	const unsigned char *data = held_bytes(held, &size);
	int err = client_fault(FAULT_CLIENT_AFTER_HOLD);

	if (data == NULL)
		return held_corrupt(held);
	if (err != 0) {
		held_give(held);
		return err;
	}
	*ret_view = (struct cenote_view){
		.data = data,
		.size = size,
		.generation = held->attachment->share.slots[held->slot].generation,
		.slot = held->slot,
	};
	return 0;
}

int held_copy(const struct held *held, void *buffer, uint64_t size, uint64_t *ret_size)
{
	struct cenote_view view = {.data = NULL};
	int err = held_view(held, &view);
	bool counted;

	if (err != 0)
		return err;
	if (view.size > size)
		err = client_fail(ERR_BUFFER_TOO_SMALL,
			"object of %" PRIu64 " bytes into a buffer of %" PRIu64,
			view.size, size);
	else
		copy_bytes(buffer, view.data, view.size);
	counted = err == 0 && read_note(held->attachment, held->slot);
	held_give(held);
	if (counted)
		reads_send(held->attachment->store);
	if (err == 0)
		*ret_size = view.size;
	return err;
}

/* ---- through the daemon -------------------------------------------------- */

int held_take_up(struct call *call, const void *reply, size_t size, struct cenote_key key,
	enum hold_heat heat, struct held *ret_held)
{
	struct attachment *attachment = call->lane->attachment;
	struct index_key index_key = attachment_key(attachment, key);
	unsigned char message[64];
	enum hold_result result = HOLD_NO;
	struct msg_unpin unpin;
	struct msg_found found;
	int err = reply_expect(reply, size, MSG_TYPE_FOUND);

	if (err != 0)
		return err;
	if (msg_found_decode(reply, size, &found) != 0 ||
		found.slot >= atomic_load_explicit(&attachment->share.header->nslots,
				      memory_order_acquire))
		return reply_broken(MSG_TYPE_FOUND);
	result = index_try(
		&attachment->share, &attachment->holder, &index_key, found.slot, heat);
	err = client_fault(FAULT_CLIENT_BEFORE_UNPIN);
	unpin = (struct msg_unpin){.slot = found.slot, .life = found.life};
	call_send(call, message, msg_unpin_encode(message, sizeof(message), &unpin));
	*ret_held = (struct held){.attachment = attachment, .slot = found.slot};
	if (err != 0 && result == HOLD_OK)
		held_give(ret_held);
	if (err != 0)
		return err;
	if (result == HOLD_TOO_MANY)
		return held_too_many(key);
	return result == HOLD_OK ? 0 : ERR_NOT_READY;
}

int held_ask(struct call *call, struct cenote_key key, bool wait, enum hold_heat heat,
	struct held *ret_held)
{
	struct msg_get get = {
		.key = {.data = key.data, .size = key.size},
		.flags = wait ? GET_WAIT : 0,
	};
	int err = client_fault(FAULT_CLIENT_BEFORE_GET_SEND);

	if (err != 0)
		return err;
	do {
		do {
			get.timeout_ns = call_rest(call);
			err = call_exchange(call,
				msg_get_encode(call->lane->out, MSG_SIZE_MAX, &get),
				CALL_DAEMON); /* it may have to read it from disk */
		} while (err == CALL_AGAIN);
		if (err == 0)
			err = held_take_up(call, call->lane->in, call->reply_size, key,
				heat, ret_held);
	} while (err == ERR_NOT_READY && call_rest(call) > 0);
	if (err == ERR_NOT_READY)
		return client_fail(
			ERR_TIMEOUT, "the key was removed as often as it was put");
	return err;
}

int held_get(struct cenote *store, struct cenote_key key, bool wait, int64_t timeout_ms,
	enum hold_heat heat, struct held *ret_held)
{
	struct attachment *attachment;
	struct call call;
	uint64_t deadline;
	int err = 0;

	attachment = store_attachment(store, &err);
	if (attachment != NULL)
		err = client_check_timeout(timeout_ms);
	if (err != 0)
		return err;
	switch (held_find(attachment, key, heat, ret_held)) {
	case HOLD_OK:
		return 0;
	case HOLD_TOO_MANY:
		return held_too_many(key);
	case HOLD_NO:
		break;
	}
	err = client_check_key(key);
	if (err == 0)
		err = client_deadline(timeout_ms, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	err = held_ask(&call, key, wait, heat, ret_held);
	call_end(&call);
	return err;
}

/* ---- get, release -------------------------------------------------------- */

static int get_held(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct held *ret_held)
{
	return held_get(store, key, options && options->wait,
		options ? options->timeout_ms : 0, HOLD_HEAT, ret_held);
}

int cenote_get(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct cenote_view *ret_view)
{
	struct held held;
	int err = get_held(store, key, options, &held);

	return err == 0 ? held_view(&held, ret_view) : err;
}

int cenote_get_into(struct cenote *store, struct cenote_key key, void *buffer,
	uint64_t size, const struct cenote_get_options *options, uint64_t *ret_size)
{
	struct held held;
	int err;

	if (buffer == NULL && size > 0)
		return client_fail(ERR_BAD_ARGUMENT, "the buffer is NULL");
	err = get_held(store, key, options, &held);
	return err == 0 ? held_copy(&held, buffer, size, ret_size) : err;
}

/* The attachment that a view is of: nearly always the store's present one. */
static struct attachment *view_owner(struct cenote *store, struct attachment *attachment,
	const struct cenote_view *view)
{
	if ((uintptr_t)view->data - (uintptr_t)attachment->share.pool >=
		attachment->pool_size)
		attachment = store_owner(store, view->data);
	if (attachment == NULL ||
		view->slot >= atomic_load_explicit(&attachment->share.header->nslots,
				      memory_order_relaxed))
		return NULL;
	return attachment;
}

int cenote_release(struct cenote *store, struct cenote_view *view)
{
	int err = 0;
	struct attachment *attachment = store_attachment(store, &err);
	bool counted;

	if (attachment == NULL)
		return err;
	if (view == NULL || view->data == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the view was released already");
	attachment = view_owner(store, attachment, view);
	if (attachment == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the view is not of this store");
	err = client_fault(FAULT_CLIENT_BEFORE_RELEASE);
	if (err != 0)
		return err;
	/* A copy of a view that was released must not end the hold of what came after. */
	if (attachment->share.slots[view->slot].generation != view->generation)
		return client_fail(ERR_BAD_ARGUMENT, "the view was released already");
	counted = attachment->share.slots[view->slot].counted &&
		  read_note(attachment, view->slot);
	if (!attachment_give(attachment, view->slot, &err))
		return client_fail(ERR_BAD_ARGUMENT, "the view was released already");
	if (counted)
		reads_send(store);
	*view = (struct cenote_view){.data = NULL};
	return err;
}
