/*
 * lease.c - leases, as readers on other nodes will have them: the local call that plays one.
 *
 *   LEASE -> LEASED (an object that is only on disk is loaded first); LEASE_END -> DONE
 *
 * A lease ends by itself; what is not released, or whose release is lost, costs time.
 */
#include "client/client_priv.h"

static int leased_decode(const struct call *call, struct cenote_lease *ret_lease)
{
	struct msg_leased msg;

	if (msg_leased_decode(call->lane->in, call->reply_size, &msg) != 0)
		return reply_broken(MSG_TYPE_LEASED);
	*ret_lease = (struct cenote_lease){
		.generation = msg.generation,
		.length_ms = (int64_t)(msg.length_ns / 1000000),
		.epoch = msg.epoch,
		.life = msg.life,
		.slot = msg.slot,
		.grant = msg.grant,
	};
	return 0;
}

int cenote_lease(struct cenote *store, struct cenote_key key, int64_t length_ms,
	struct cenote_lease *ret_lease)
{
	struct msg_lease msg = {.key = {.data = key.data, .size = key.size}};
	struct call call;
	int err;

	if (length_ms < 0 || length_ms > INT64_MAX / 1000000)
		return client_fail(ERR_BAD_ARGUMENT,
			"a lease of %lld ms: it takes 0 to %lld", (long long)length_ms,
			(long long)(INT64_MAX / 1000000));
	msg.length_ns = (uint64_t)length_ms * 1000000;
	err = key_call_begin(&call, store, key);
	if (err != 0)
		return err;
	do {
		msg.timeout_ns = call_rest(&call);
		err = call_exchange(&call,
			msg_lease_encode(call.lane->out, MSG_SIZE_MAX, &msg),
			CALL_DAEMON);
	} while (err == CALL_AGAIN);
	if (err == 0)
		err = call_expect(&call, MSG_TYPE_LEASED);
	if (err == 0)
		err = leased_decode(&call, ret_lease);
	call_end(&call);
	return err;
}

int cenote_lease_release(struct cenote *store, const struct cenote_lease *lease)
{
	unsigned char request[CALL_ASK_MAX];
	struct msg_lease_end msg;

	if (lease == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the lease is NULL");
	msg = (struct msg_lease_end){
		.epoch = lease->epoch,
		.life = lease->life,
		.slot = lease->slot,
		.grant = lease->grant,
	};
	return call_do(store, request,
		msg_lease_end_encode(request, sizeof(request), &msg), CALL_CLIENT);
}
