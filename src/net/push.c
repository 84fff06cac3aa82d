/*
 * push.c - the sending half: data connections that other nodes made, and what they ask for.
 *
 * The bytes are sent from where they lie. Nothing holds them there but the lease, and the
 * loop thread may take their place as soon as that is over; so before and after each chunk
 * the slot is looked at, and only a chunk that was the object's all the while says so in its
 * tail. What has gone out of another counts nowhere.
 */
#include "base/check.h"
#include "base/err.h"
#include "net/bulk_priv.h"

#include <stdatomic.h>
#include <string.h>

/*
 * Whether the object was there until now, and is for a while. The loop thread writes
 * lease_end with a plain store, before the answer that names the ticket leaves; an atomic
 * load here keeps the compiler from reading it twice, and is all that is needed: an older
 * value is an earlier end. What was read of the bytes before was read before the slot is.
 */
static bool push_holds(const struct push *push)
{
	const struct slot *slot = &push->bulk->config.share->slots[push->offer.slot];
	uint64_t state, end;

	atomic_thread_fence(memory_order_acquire);
	state = atomic_load_explicit(&slot->state, memory_order_acquire);
	end = __atomic_load_n(&slot->lease_end, __ATOMIC_RELAXED);
	return slot_life_of(state) == push->offer.life &&
	       (slot_kind_of(state) == SLOT_READY ||
		       slot_kind_of(state) == SLOT_CONDEMNED) &&
	       end > loop_boot_ns();
}

/* ---- a chunk ------------------------------------------------------------- */

/* Begin with the head: of a chunk, or of none if it does not hold. */
static void push_head(struct push *push, enum chunk_status status)
{
	struct chunk_head head = {.status = status};

	push->status = status;
	if (status == CHUNK_HOLDS) {
		head.generation = push->offer.generation;
		head.size = MIN(PEER_CHUNK, push->offer.size - push->sent);
	}
	push->chunk_end = push->sent + head.size;
	chunk_head_write(push->small, &head);
	push->small_size = CHUNK_HEAD_SIZE;
	push->small_done = 0;
	push->part = PUSH_HEAD;
}

static void push_next_chunk(struct push *push)
{
	push_head(push, push_holds(push) ? CHUNK_HOLDS : CHUNK_OVER);
}

static void push_tail(struct push *push)
{
	struct chunk_tail tail = {.checksum = hash_stream_sum(&push->hash)};

	push->status = push_holds(push) ? CHUNK_HOLDS : CHUNK_OVER;
	tail.status = push->status;
	chunk_tail_write(push->small, &tail);
	push->small_size = CHUNK_TAIL_SIZE;
	push->small_done = 0;
	push->part = PUSH_TAIL;
}

/* ---- out ----------------------------------------------------------------- */

/* True: all of the head or tail went. */
static bool push_small(struct push *push, bool more)
{
	int64_t sent = stream_write(&push->stream, push->small + push->small_done,
		push->small_size - push->small_done, more);

	if (sent > 0)
		push->small_done += (uint32_t)sent;
	return push->small_done == push->small_size;
}

/* True: all bytes of the chunk went. Each piece is sent, which brings it into the cache, and
 * then its checksum computed there: bytes that change between the two make it a wrong one. */
static bool push_body(struct push *push)
{
	const struct share *share = push->bulk->config.share;
	const unsigned char *from = share->pool + push->offer.off;

	while (push->sent < push->chunk_end) {
		int64_t sent = stream_write(&push->stream, from + push->sent,
			MIN(PIECE_SIZE, push->chunk_end - push->sent), true);

		if (sent <= 0)
			return false;
		hash_stream_add(&push->hash, from + push->sent, (size_t)sent);
		push->sent += (uint64_t)sent;
	}
	return true;
}

/* What it was asked for is done with: the next may come. */
static void push_rest(struct push *push)
{
	push->state = PUSH_ASK;
	push->small_size = 0;
	stream_want(&push->stream, true, false);
}

/* A chunk at most, then the others have their turn. */
static void push_move(struct push *push)
{
	if (push->part == PUSH_HEAD) {
		if (!push_small(push, push->status == CHUNK_HOLDS))
			return;
		if (push->status != CHUNK_HOLDS) {
			push_rest(push);
			return;
		}
		push->part = PUSH_BODY;
	}
	if (push->part == PUSH_BODY) {
		if (!push_body(push))
			return;
		push_tail(push);
	}
	if (!push_small(push, false))
		return;
	if (push->status != CHUNK_HOLDS || push->sent == push->offer.size)
		push_rest(push);
	else
		push_next_chunk(push);
}

/* ---- in ------------------------------------------------------------------ */

static void push_asked(struct push *push)
{
	struct chunk_ask ask;
	struct peer_ticket ticket;
	int err;

	chunk_ask_read(push->small, &ask);
	memcpy(ticket.bytes, ask.ticket, sizeof(ticket.bytes));
	err = bulk_use_ticket(push->bulk, &ticket, &push->offer);
	push->state = PUSH_MOVING;
	push->sent = 0;
	hash_stream_init(&push->hash, ask.seed);
	if (err == 0)
		push_next_chunk(push);
	else
		push_head(push, CHUNK_NO_TICKET);
	stream_want(&push->stream, false, true);
	push_move(push);
}

static void push_ready(void *ctx)
{
	struct push *push = ctx;
	int64_t got;

	if (push->state == PUSH_MOVING) {
		push_move(push);
		return;
	}
	got = stream_read(&push->stream, push->small + push->small_size,
		CHUNK_ASK_SIZE - push->small_size);
	if (got <= 0)
		return;
	push->small_size += (uint32_t)got;
	if (push->small_size == CHUNK_ASK_SIZE)
		push_asked(push);
}

/* ---- begin and end ------------------------------------------------------- */

static size_t push_on_data(void *ctx, const void *bytes, size_t size)
{
	(void)ctx, (void)bytes, (void)size;
	NOT_REACHED("push_ready() reads");
}

static void push_on_down(void *ctx, int err, const char *why)
{
	struct push *push = ctx;

	if (err != ERR_UNAVAILABLE)
		bulk_tell(push->bulk, &push->from, why);
	bulk_push_free(push->bulk, push);
}

static const struct stream_events push_events = {
	.up = NULL, .data = push_on_data, .down = push_on_down};

void push_begin(struct push *push)
{
	const struct greeting greeting = {.version = NET_VERSION, .kind = NET_DATA};
	unsigned char bytes[GREETING_SIZE];

	greeting_write(bytes, &greeting);
	if (stream_join(&push->stream, &push->bulk->loop, &push_events, push) != 0 ||
		stream_send(&push->stream, bytes, sizeof(bytes)) != 0) {
		bulk_push_free(push->bulk, push);
		return;
	}
	push->state = PUSH_ASK;
	push->small_size = 0;
	stream_go_direct(&push->stream, push_ready);
}

void push_close_all(struct bulk *bulk)
{
	for (uint32_t i = 0; i < PUSHES; i++)
		stream_close(&bulk->pushes[i].stream);
}
