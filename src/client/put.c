/*
 * put.c - make objects: in one message, by copying into a run of the pool, or in two
 * steps by the caller.
 *
 *   small:  PUT -> DONE
 *   large:  PUT_START -> PUT_STARTED -> copy -> PUT_END -> DONE
 *                              '--anything fails--> PUT_ABORT, or an orphan
 *
 * What was started is ended in every case: a failure without the daemon's word leaves an
 * orphan, which is aborted when a daemon answers.
 */
#include "client/client_priv.h"

#include <inttypes.h>
#include <string.h>

#define ABORT_WAIT_NS 1000000000ull
#define SEAL_LEAST_NS 1000000000ull

/* ---- the object that is to be -------------------------------------------- */

static int put_options_read(struct put *put, const struct cenote_put_options *options)
{
	if (options == NULL)
		return 0;
	put->flags = (options->softpin ? PUT_SOFTPIN : 0u) |
		     (options->durable ? PUT_DURABLE : 0u) |
		     (options->replace ? PUT_REPLACE : 0u) |
		     (options->replicas_required ? PUT_REQUIRED : 0u);
	put->readers = options->readers;
	put->replicas = options->replicas;
	if (options->replicas > CENOTE_REPLICAS_MAX)
		return client_fail(ERR_BAD_ARGUMENT, "%u replicas: it takes up to %u",
			options->replicas, (unsigned)CENOTE_REPLICAS_MAX);
	if (options->replicas > 1 && !options->softpin)
		return client_fail(ERR_BAD_ARGUMENT,
			"%u replicas of a cache object: only one that is softpin is kept",
			options->replicas);
	if (__builtin_mul_overflow(options->ttl_ms, 1000000u, &put->ttl_ns))
		return client_fail(ERR_BAD_ARGUMENT,
			"time to live of %" PRIu64 " ms: it takes up to %" PRIu64,
			options->ttl_ms, UINT64_MAX / 1000000u);
	return 0;
}

int put_init(struct put *put, struct cenote *store, struct cenote_key key,
	const struct cenote_part *parts, size_t count,
	const struct cenote_put_options *options)
{
	int err = client_check_key(key);

	if (err != 0)
		return err;
	*put = (struct put){.key = key, .parts = parts, .count = count};
	for (size_t i = 0; i < count; i++) {
		if (parts[i].data == NULL && parts[i].size > 0)
			return client_fail(ERR_BAD_ARGUMENT,
				"part %zu of %" PRIu64 " bytes is NULL", i,
				parts[i].size);
		if (__builtin_add_overflow(put->size, parts[i].size, &put->size))
			return client_fail(
				ERR_TOO_LARGE, "the parts have 2^64 bytes and more");
	}
	put->op = store_next_op(store);
	return put_options_read(put, options);
}

int put_permit(struct cenote *store)
{
	int err = 0;

	if (store_attachment(store, &err) != NULL && store->read_only)
		err = client_fail(ERR_NOT_PERMITTED, "the store was connected read-only");
	return err;
}

/* Copy the bytes [from, to) of all parts laid end to end. */
static void put_gather(
	const struct put *put, unsigned char *out, uint64_t from, uint64_t to)
{
	uint64_t at = 0;

	for (size_t i = 0; i < put->count && at < to; i++) {
		uint64_t end = at + put->parts[i].size;
		uint64_t first = MAX(at, from), last = MIN(end, to);

		if (first < last)
			copy_bytes(out + first,
				(const unsigned char *)put->parts[i].data + (first - at),
				last - first);
		at = end;
	}
}

int put_copy(struct attachment *attachment, const struct put *put, uint64_t offset)
{
	unsigned char *out = attachment->share.pool + offset;
	int err = client_fault(FAULT_CLIENT_AFTER_PUT_START);

	if (err != 0)
		return err;
	attachment_populate(attachment, offset, put->size);
	if (FAULT_BUILD) {
		put_gather(put, out, 0, put->size / 2);
		err = client_fault(FAULT_CLIENT_LOCAL_COPY_AFTER_PUT_START);
		if (err == 0)
			put_gather(put, out, put->size / 2, put->size);
	} else {
		put_gather(put, out, 0, put->size);
	}
	return err == 0 ? client_fault(FAULT_CLIENT_AFTER_COPY) : err;
}

/* ---- messages ------------------------------------------------------------ */

size_t put_small_encode(const struct put *put, struct lane *lane, void *buffer,
	size_t size, uint64_t timeout_ns)
{
	struct msg_put msg = {
		.key = {.data = put->key.data, .size = put->key.size},
		.flags = put->flags,
		.readers = put->readers,
		.replicas = put->replicas,
		.ttl_ns = put->ttl_ns,
		.op = put->op,
		.timeout_ns = timeout_ns,
		.value = {.size = put->size},
	};

	/* Replies are not there yet: their buffer is free to lay the pieces together. */
	if (put->count == 1) {
		msg.value.data = put->parts[0].data;
	} else {
		msg.value.data = lane->in;
		put_gather(put, lane->in, 0, put->size);
	}
	return msg_put_encode(buffer, size, &msg);
}

size_t put_start_encode(
	const struct put *put, void *buffer, size_t size, uint64_t timeout_ns)
{
	struct msg_put_start msg = {
		.key = {.data = put->key.data, .size = put->key.size},
		.size = put->size,
		.flags = put->flags,
		.readers = put->readers,
		.replicas = put->replicas,
		.ttl_ns = put->ttl_ns,
		.op = put->op,
		.timeout_ns = timeout_ns,
	};

	return msg_put_start_encode(buffer, size, &msg);
}

int put_started(const struct attachment *attachment, const void *reply, size_t reply_size,
	uint64_t size, struct msg_put_started *ret_started)
{
	struct msg_put_started msg;
	int err = reply_expect(reply, reply_size, MSG_TYPE_PUT_STARTED);

	if (err != 0)
		return err;
	if (msg_put_started_decode(reply, reply_size, &msg) != 0 ||
		msg.off >= attachment->pool_size ||
		size > attachment->pool_size - msg.off)
		return reply_broken(MSG_TYPE_PUT_STARTED);
	*ret_started = msg;
	return 0;
}

/* ---- steps --------------------------------------------------------------- */

void put_abort(
	struct call *call, struct attachment *attachment, uint32_t slot, uint64_t life)
{
	struct msg_put_abort msg = {.slot = slot, .life = life};
	const struct orphan orphan = {
		.attachment = attachment, .slot = slot, .life = life};
	struct call abort = *call;
	int err = ERR_UNAVAILABLE;

	/* Not over a connection that must first be made again: the caller has waited
	 * enough. */
	if (call->lane->fd >= 0 && call->lane->attachment == attachment)
		err = call_exchange(&abort,
			msg_put_abort_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_CLIENT);
	if (err != 0)
		orphan_add(call->store, &orphan);
}

int put_start(struct call *call, const struct put *put, struct msg_put_started *ret)
{
	int err = client_fault(FAULT_CLIENT_BEFORE_PUT_START_SEND);

	if (err != 0)
		return err;
	do {
		err = call_exchange(call,
			put_start_encode(
				put, call->lane->out, MSG_SIZE_MAX, call_rest(call)),
			CALL_DAEMON);
	} while (err == CALL_AGAIN);
	if (err == 0) {
		err = put_started(call->lane->attachment, call->lane->in,
			call->reply_size, put->size, ret);
	} else {
		struct orphan orphan = {
			.attachment = call->lane->attachment,
			.slot = SLOT_NONE,
			.op = put->op,
		};

		if (orphan.attachment != NULL)
			orphan_add(call->store, &orphan);
	}
	return err;
}

int put_done(const void *reply, size_t size, uint16_t *ret_keepers)
{
	struct msg_done msg;
	int err = reply_expect(reply, size, MSG_TYPE_DONE);

	if (err == 0 && msg_done_decode(reply, size, &msg) != 0)
		err = reply_broken(MSG_TYPE_DONE);
	if (err == 0)
		*ret_keepers = msg.keepers;
	return err;
}

int put_ended(const struct call *call, int err)
{
	/* It may have been done the first time, and have left the pool since. */
	if (err == ERR_NOT_FOUND && call->is_repeated)
		err = client_fail(ERR_UNAVAILABLE,
			"the daemon ended during the put: whether it was done is not "
			"known");
	return err;
}

static int put_expect_done(struct call *call, uint16_t *ret_keepers)
{
	int err = call_expect(call, MSG_TYPE_DONE);

	return err == 0 ? put_done(call->lane->in, call->reply_size, ret_keepers) : err;
}

/* The end of a put; on failure `call` tells whether it is the daemon's word. */
static int put_end(struct call *call, struct attachment *attachment, uint32_t slot,
	uint64_t life, uint16_t *ret_keepers)
{
	struct msg_put_end msg = {.slot = slot, .life = life};
	int err;

	do {
		if (call->lane->attachment != attachment)
			return client_fail(ERR_STALE,
				"the pool that this put was started in is gone");
		msg.timeout_ns = call_rest(call);
		err = call_exchange(call,
			msg_put_end_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_DAEMON); /* a durable one waits for the disk */
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = put_expect_done(call, ret_keepers);
	return put_ended(call, err);
}

static int put_small(struct call *call, struct put *put)
{
	int err = client_fault(FAULT_CLIENT_BEFORE_SMALL_PUT_SEND);

	if (err != 0)
		return err;
	do {
		err = call_exchange(call,
			put_small_encode(put, call->lane, call->lane->out, MSG_SIZE_MAX,
				call_rest(call)),
			CALL_DAEMON);
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = put_expect_done(call, &put->keepers);
	return err == 0 ? client_fault(FAULT_CLIENT_AFTER_SMALL_PUT) : err;
}

static int put_large(struct call *call, struct put *put)
{
	struct msg_put_started started;
	struct attachment *attachment;
	int err = put_start(call, put, &started);

	if (err != 0)
		return err;
	attachment = call->lane->attachment;
	err = put_copy(attachment, put, started.off);
	if (err == 0)
		err = client_fault(FAULT_CLIENT_BEFORE_PUT_END_SEND);
	if (err != 0) {
		put_abort(call, attachment, started.slot, started.life);
		return err;
	}
	err = put_end(call, attachment, started.slot, started.life, &put->keepers);
	if (err == 0)
		return client_fault(FAULT_CLIENT_AFTER_PUT_END);
	if (!call->is_answered)
		put_abort(call, attachment, started.slot, started.life);
	return err;
}

int put_run(struct put *put, struct cenote *store, uint64_t deadline)
{
	struct call call;
	int err = call_begin(&call, store, deadline);

	if (err != 0)
		return err;
	if (put->size <= call.lane->attachment->small_limit)
		err = put_small(&call, put);
	else
		err = put_large(&call, put);
	call_end(&call);
	return err == 0 ? put->keepers : err;
}

/* ---- public -------------------------------------------------------------- */

int cenote_put_parts(struct cenote *store, struct cenote_key key,
	const struct cenote_part *parts, size_t count,
	const struct cenote_put_options *options)
{
	struct put put;
	uint64_t deadline;
	int err = put_permit(store);

	if (err == 0 && parts == NULL && count > 0)
		err = client_fail(ERR_BAD_ARGUMENT, "%zu parts at NULL", count);
	if (err == 0)
		err = put_init(&put, store, key, parts, count, options);
	if (err == 0)
		err = client_deadline(
			options ? options->timeout_ms : 0, CALL_TIMEOUT_MS, &deadline);
	return err == 0 ? put_run(&put, store, deadline) : err;
}

int cenote_put(struct cenote *store, struct cenote_key key, const void *data,
	uint64_t size, const struct cenote_put_options *options)
{
	const struct cenote_part part = {.data = data, .size = size};

	return cenote_put_parts(store, key, &part, 1, options);
}

int put_writer(struct call *call, struct attachment *attachment,
	const struct msg_put_started *started, uint64_t size,
	struct cenote_writer *ret_writer)
{
	int err = client_fault(FAULT_CLIENT_AFTER_PUT_START);

	if (err != 0) {
		put_abort(call, attachment, started->slot, started->life);
		return err;
	}
	attachment_populate(attachment, started->off, size);
	*ret_writer = (struct cenote_writer){
		.data = attachment->share.pool + started->off,
		.size = size,
		.slot = started->slot,
		.life = started->life,
		.deadline = call->deadline,
	};
	return 0;
}

int cenote_create(struct cenote *store, struct cenote_key key, uint64_t size,
	const struct cenote_put_options *options, struct cenote_writer *ret_writer)
{
	struct msg_put_started started;
	struct call call;
	struct put put;
	uint64_t deadline;
	int err = put_permit(store);

	if (err == 0)
		err = put_init(&put, store, key, NULL, 0, options);
	if (err == 0)
		err = client_deadline(
			options ? options->timeout_ms : 0, CREATE_TIMEOUT_MS, &deadline);
	if (err == 0)
		err = call_begin(&call, store, deadline);
	if (err != 0)
		return err;
	put.size = size;
	err = put_start(&call, &put, &started);
	if (err == 0)
		err = put_writer(
			&call, call.lane->attachment, &started, size, ret_writer);
	call_end(&call);
	return err;
}

/* The attachment of a writer; NULL: it is none, or its end has come. */
static int writer_owner(struct cenote *store, const struct cenote_writer *writer,
	struct attachment **ret_attachment)
{
	int err = 0;

	if (store_attachment(store, &err) == NULL)
		return err;
	if (writer == NULL || writer->data == NULL)
		return client_fail(
			ERR_BAD_ARGUMENT, "the writer was sealed or aborted already");
	*ret_attachment = store_owner(store, writer->data);
	if (*ret_attachment == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the writer is not of this store");
	return 0;
}

static int writer_seal(
	struct call *call, struct attachment *attachment, struct cenote_writer *writer)
{
	int err = client_fault(FAULT_CLIENT_BEFORE_PUT_END_SEND);
	uint16_t keepers = 0;

	if (err == 0)
		err = put_end(call, attachment, writer->slot, writer->life, &keepers);
	else
		call->is_answered = false;
	/* Unless the daemon itself says so, for want of a directory. */
	if (err == ERR_UNAVAILABLE && !call->is_answered)
		return err;
	/* Over, also where nobody answered. */
	if (err != 0 && err != ERR_STALE && !call->is_answered)
		put_abort(call, attachment, writer->slot, writer->life);
	*writer = (struct cenote_writer){.data = NULL};
	if (err == 0)
		err = client_fault(FAULT_CLIENT_AFTER_PUT_END);
	return err == 0 ? keepers : err;
}

int cenote_seal(struct cenote *store, struct cenote_writer *writer)
{
	struct attachment *attachment;
	struct call call;
	int err = writer_owner(store, writer, &attachment);

	/* The daemon may give a late writer more time than it asked for. */
	if (err == 0)
		err = call_begin(&call, store,
			MAX(writer->deadline, socket_now() + SEAL_LEAST_NS));
	if (err != 0)
		return err;
	err = writer_seal(&call, attachment, writer);
	call_end(&call);
	return err;
}

int cenote_abort(struct cenote *store, struct cenote_writer *writer)
{
	struct attachment *attachment;
	struct call call;
	int err = writer_owner(store, writer, &attachment);

	if (err != 0)
		return err;
	/* If no daemon is there the abort waits for one, not the caller. */
	err = call_begin(&call, store, socket_now());
	if (err == 0) {
		call.deadline = socket_now() + ABORT_WAIT_NS;
		put_abort(&call, attachment, writer->slot, writer->life);
		call_end(&call);
	} else {
		orphan_add(store, &(struct orphan){.attachment = attachment,
					  .slot = writer->slot,
					  .life = writer->life});
	}
	*writer = (struct cenote_writer){.data = NULL};
	return 0;
}
