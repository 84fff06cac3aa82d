/*
 * life.c - the rest of an object's life: exists, stat, touch, wait, remove, take.
 */
#include "client/client_priv.h"

#include <stdlib.h>
#include <string.h>

static struct msg_bytes key_bytes(struct cenote_key key)
{
	return (struct msg_bytes){.data = key.data, .size = key.size};
}

int key_call_begin(struct call *call, struct cenote *store, struct cenote_key key)
{
	uint64_t deadline;
	int err = client_check_key(key);

	if (err == 0)
		err = client_deadline(0, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(call, store, deadline);
	return err;
}

/* ---- stat, exists -------------------------------------------------------- */

int stat_decode(const void *reply, size_t size, struct cenote_stat *ret_stat)
{
	struct msg_stated msg;
	int err = reply_expect(reply, size, MSG_TYPE_STATED);

	if (err != 0)
		return err;
	if (msg_stated_decode(reply, size, &msg) != 0)
		return reply_broken(MSG_TYPE_STATED);
	*ret_stat = (struct cenote_stat){
		.size = msg.size,
		.generation = msg.generation,
		.expires_in_ms = msg.expires_in_ns == UINT64_MAX
					 ? -1
					 : (int64_t)(msg.expires_in_ns / 1000000),
		.holds = msg.holds,
		.softpin = (msg.flags & PUT_SOFTPIN) != 0,
		.readers_left = msg.readers_left,
		.in_pool = (msg.flags & STAT_IN_POOL) != 0,
		.on_disk = (msg.flags & STAT_ON_DISK) != 0,
	};
	return 0;
}

static int stat_ask(
	struct call *call, struct cenote_key key, struct cenote_stat *ret_stat)
{
	struct msg_stat msg = {.key = key_bytes(key)};
	int err;

	do {
		err = call_exchange(call,
			msg_stat_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_CLIENT);
	} while (err == CALL_AGAIN);
	return err == 0 ? stat_decode(call->lane->in, call->reply_size, ret_stat) : err;
}

int cenote_stat(struct cenote *store, struct cenote_key key, struct cenote_stat *ret_stat)
{
	struct call call;
	int err = key_call_begin(&call, store, key);

	if (err != 0)
		return err;
	err = stat_ask(&call, key, ret_stat);
	call_end(&call);
	return err;
}

int cenote_exists(struct cenote *store, struct cenote_key key)
{
	int err = 0;
	struct attachment *attachment = store_attachment(store, &err);
	struct cenote_stat stat;
	struct held held;

	if (attachment == NULL)
		return err;
	if (held_find(attachment, key, HOLD_COLD, &held) == HOLD_OK) {
		held_give(&held);
		return 1;
	}
	err = cenote_stat(store, key, &stat);
	if (err == ERR_NOT_FOUND)
		return 0;
	return err == 0 ? 1 : err;
}

/* ---- touch, wait --------------------------------------------------------- */

int cenote_touch(struct cenote *store, struct cenote_key key)
{
	int err = 0;
	struct attachment *attachment = store_attachment(store, &err);
	struct held held;
	struct call call;

	if (attachment == NULL)
		return err;
	if (held_find(attachment, key, HOLD_HEAT, &held) == HOLD_OK) {
		held_give(&held);
		return 0;
	}
	err = key_call_begin(&call, store, key);
	if (err != 0)
		return err;
	err = held_ask(&call, key, false, HOLD_HEAT, &held);
	call_end(&call);
	if (err == 0)
		held_give(&held);
	return err;
}

int cenote_wait(struct cenote *store, struct cenote_key key, int64_t timeout_ms)
{
	int err = 0;
	struct attachment *attachment = store_attachment(store, &err);
	struct held held = {.attachment = NULL};
	struct cenote_stat stat;
	struct call call;
	uint64_t deadline;

	if (attachment != NULL)
		err = client_check_timeout(timeout_ms);
	if (err != 0)
		return err;
	if (held_find(attachment, key, HOLD_COLD, &held) == HOLD_OK) {
		held_give(&held);
		return 0;
	}
	err = client_check_key(key);
	if (err == 0)
		err = client_deadline(timeout_ms, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	err = stat_ask(&call, key, &stat); /* one that is on disk stays there */
	if (err == ERR_NOT_FOUND) {
		err = held_ask(&call, key, true, HOLD_COLD, &held);
		if (err == 0)
			held_give(&held);
	}
	call_end(&call);
	return err;
}

/* ---- remove, take -------------------------------------------------------- */

int removed(const struct call *call, int err)
{
	/* It may have been there the first time. */
	return err == ERR_NOT_FOUND && call->is_repeated ? 0 : err;
}

int cenote_remove(struct cenote *store, struct cenote_key key)
{
	struct msg_remove msg = {.key = key_bytes(key)};
	struct call call;
	int err = key_call_begin(&call, store, key);

	if (err != 0)
		return err;
	err = client_fault(FAULT_CLIENT_BEFORE_REMOVE_SEND);
	if (err == 0) {
		do {
			err = call_exchange(&call,
				msg_remove_encode(call.lane->out, MSG_SIZE_MAX, &msg),
				CALL_DAEMON); /* it waits for the disk */
		} while (err == CALL_AGAIN);
		if (err == 0)
			err = removed(&call, call_expect(&call, MSG_TYPE_DONE));
		if (err == 0)
			err = client_fault(FAULT_CLIENT_AFTER_REMOVE);
	}
	call_end(&call);
	return err;
}

size_t take_encode(const struct held *held, uint64_t op, void *buffer, size_t size)
{
	/* Under the hold the life stays, and the kind may only turn to CONDEMNED. */
	uint64_t state = atomic_load_explicit(
		&held->attachment->share.slots[held->slot].state, memory_order_relaxed);
	struct msg_take msg = {.slot = held->slot, .life = slot_life_of(state), .op = op};

	return msg_take_encode(buffer, size, &msg);
}

/* Remove what is held, as its one taker; the hold is given on failure. */
static int take_end(struct call *call, const struct held *held, uint64_t op)
{
	int err = client_fault(FAULT_CLIENT_AFTER_TAKE_HOLD);

	if (err == 0) {
		do {
			/* Another pool by now: this object cannot be taken any more. */
			if (call->lane->attachment != held->attachment)
				err = client_fail_plain(ERR_STALE);
			else
				err = call_exchange(call,
					take_encode(
						held, op, call->lane->out, MSG_SIZE_MAX),
					CALL_DAEMON);
		} while (err == CALL_AGAIN);
		if (err == 0)
			err = call_expect(call, MSG_TYPE_DONE);
		if (err == 0)
			err = client_fault(FAULT_CLIENT_AFTER_TAKE);
	}
	if (err != 0)
		held_give(held);
	return err;
}

/* One round: hold it, then try to be the one who ends it. */
static int take_once(
	struct call *call, struct cenote_key key, bool wait, struct held *ret_held)
{
	int err = client_fault(FAULT_CLIENT_BEFORE_TAKE_SEND);

	if (err == 0 &&
		held_find(call->lane->attachment, key, HOLD_HEAT, ret_held) != HOLD_OK)
		err = held_ask(call, key, wait, HOLD_HEAT, ret_held);
	if (err == 0)
		err = take_end(call, ret_held, store_next_op(call->store));
	return err;
}

int cenote_take(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct cenote_view *ret_view)
{
	bool wait = options && options->wait;
	struct held held;
	struct call call;
	uint64_t deadline;
	int err = client_check_key(key);

	if (err == 0)
		err = client_deadline(
			options ? options->timeout_ms : 0, CALL_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	do {
		err = take_once(&call, key, wait, &held);
	} while (err == ERR_NOT_FOUND && wait && call_rest(&call) > 0);
	call_end(&call);
	if (err == ERR_NOT_FOUND && wait)
		err = client_fail(ERR_TIMEOUT, "others took what was put under the key");
	return err == 0 ? held_view(&held, ret_view) : err;
}

/* ---- the node ------------------------------------------------------------ */

/* The daemon sends at most one message of it, which is what fits into the reply. */
static int info_text(const struct call *call, char **ret_text)
{
	struct msg_info_text msg;
	char *text;

	if (msg_info_text_decode(call->lane->in, call->reply_size, &msg) != 0)
		return reply_broken(MSG_TYPE_INFO_TEXT);
	text = malloc(msg.text.size + 1);
	if (text == NULL)
		return client_fail(ERR_NO_MEMORY, "no memory for a text of %zu bytes",
			msg.text.size);
	memcpy(text, msg.text.data, msg.text.size);
	text[msg.text.size] = '\0';
	*ret_text = text;
	return 0;
}

int cenote_drain(struct cenote *store, bool begin)
{
	const struct msg_drain msg = {.begin = begin};
	unsigned char request[CALL_ASK_MAX];

	return call_do(store, request, msg_drain_encode(request, sizeof(request), &msg),
		CALL_DAEMON);
}

int cenote_info(struct cenote *store, enum cenote_info what, char **ret_text)
{
	const struct msg_info msg = {.what = (uint32_t)what};
	unsigned char request[CALL_ASK_MAX];
	struct call call;
	int err = call_ask(&call, store, request,
		msg_info_encode(request, sizeof(request), &msg), CALL_CLIENT,
		MSG_TYPE_INFO_TEXT);

	if (err != 0)
		return err;
	err = info_text(&call, ret_text);
	call_end(&call);
	return err;
}
