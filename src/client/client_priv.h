/*
 * client_priv.h - what libcenote is made of.
 *
 *   store       what cenote_connect() gave
 *   attachment  the store as one client of one pool: mapped segments, its own counts
 *   lane        a connection; a call that needs the daemon has one for itself
 *   call        one such call, from borrowing its lane to giving it back
 *
 * A hit needs the attachment alone. Everything else is: call_begin, then encode into
 * lane->out and call_exchange until it is not CALL_AGAIN, then read lane->in, call_end.
 *
 *   lane:  new --open--> joined --call--> idle --call--> ... --16 idle, lost--> gone
 *
 * A daemon that went away and came back is met in call_exchange: the lane is opened again
 * and the request repeated. Requests are such that a repeat is harmless. When the pool is
 * another one by then, the store attaches anew; old attachments stay mapped until
 * cenote_close(), since views may point into them.
 *
 * Units     deadlines in ns of CLOCK_BOOTTIME, UINT64_MAX = none.
 * Errors    whoever finds a failure names it by client_fail(); others pass it on.
 * Thread    any, unless it says otherwise. `lock` is never held across a system call that
 *           may wait.
 */
#ifndef CLIENT_CLIENT_PRIV_H
#define CLIENT_CLIENT_PRIV_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "fault/fault.h"
#include "ipc/socket.h"
#include "share/index.h"
#include "wire/msg.h"

/* All is compiled as hidden but what this header declares. */
#pragma GCC visibility push(default)
#include <cenote/cenote.h>
#pragma GCC visibility pop
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define CALL_ASK_MAX      (2 * MSG_TEXT_MAX + 128) /* bytes of a request of call_ask() */
#define CALL_TIMEOUT_MS   10000
#define CREATE_TIMEOUT_MS 60000
/* Pages of the pool are mapped for writing 256 KiB at a time. */
#define POPULATE_SHIFT 18

struct attachment {
	struct share share;
	struct holder holder; /* its tell() is for tries that fail; see struct give */
	struct cenote *store;
	struct attachment *older;
	uint64_t index_size, holds_size, pool_size;
	uint32_t cid, incarnation;
	uint32_t small_limit; /* values up to here go in one message */
	uint8_t token[16], pool_id[16];
	atomic_bool is_stale; /* the daemon does not know it any more */
	int tell_fd;         /* stays the same number; dup3() puts another socket there */
	atomic_flag telling; /* somebody opens the tell socket again */
	_Atomic uint64_t populated[]; /* a bit for each piece of the pool */
};

struct lane {
	int fd; /* -1: it was lost */
	struct attachment *attachment;
	struct list entry;     /* of store.idle */
	struct list all_entry; /* of store.lanes */
	unsigned char *out;    /* MSG_SIZE_MAX bytes */
	unsigned char *in;     /* the same, for replies */
};

/* A put that was begun and nobody will end: aborted when a daemon answers. */
struct orphan {
	struct attachment *attachment;
	uint32_t slot; /* SLOT_NONE: only its `op` is known, the answer never came */
	uint64_t life;
	uint64_t op;
};

struct cenote {
	_Atomic(struct attachment *) attachment; /* NULL in a forked child */
	atomic_bool is_forked;
	bool read_only;
	char socket_path[108];
	_Atomic uint64_t last_op;
	struct list registered; /* of all stores of the process, for fork() */

	pthread_mutex_t lock;           /* for all below */
	struct attachment *attachments; /* all there were, newest first */
	struct list lanes, idle;
	uint32_t idle_count;
	struct orphan *orphans;
	size_t orphans_size; /* allocated */
	_Atomic size_t orphan_count;
	struct list reads; /* reports that no daemon has heard yet, oldest first */
	uint64_t read_sequence;
	_Atomic size_t read_count;
	pthread_mutex_t reads_lock; /* held by who sends them; before `lock` */
};

struct call {
	struct cenote *store;
	struct lane *lane;
	uint64_t deadline;
	size_t reply_size; /* in lane->in */
	bool is_answered;  /* the daemon spoke; a failure is its own word */
	bool is_repeated; /* the daemon ended before it answered this, and may have done it */
};

/* ---- error.c ------------------------------------------------------------- */

/* Note what exactly is wrong for this thread; returns `err`. */
int client_fail(int err, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same with the standing text of `err`. */
int client_fail_plain(int err);
int client_check_key(struct cenote_key key) MUST_CHECK;
/* What socket.h answered on the way to the daemon, in words; errno is of that call. */
int client_fail_socket(const struct cenote *store, int err);
int client_bad_timeout(int64_t timeout_ms);

/* For who does not know yet whether he needs a deadline. */
static inline int client_check_timeout(int64_t timeout_ms)
{
	return timeout_ms < CENOTE_FOREVER ? client_bad_timeout(timeout_ms) : 0;
}

/* The deadline of a call that begins now. 0 ms = default_ms. */
int client_deadline(
	int64_t timeout_ms, int64_t default_ms, uint64_t *ret_deadline) MUST_CHECK;

/* ---- fault.c ------------------------------------------------------------- */

#if FAULT_BUILD
/* Do what is ordered for this point: 0, or the error that the caller is to get. */
int client_fault(enum fault_point point) MUST_CHECK;
#else
static inline int client_fault(enum fault_point point)
{
	(void)point;
	return 0;
}
#endif

/* ---- attach.c ------------------------------------------------------------ */

/* Say why there is none. */
int store_refuse(const struct cenote *store);

/* The store's attachment for a call without the daemon; NULL with the error to give. */
static inline struct attachment *store_attachment(struct cenote *store, int *ret_err)
{
	struct attachment *attachment = NULL;

	if (store != NULL)
		attachment = atomic_load_explicit(
			&store->attachment, memory_order_acquire);
	if (attachment == NULL)
		*ret_err = store_refuse(store);
	return attachment;
}

/* The same for one with it: attach anew if the last one is stale. */
int store_attach(
	struct cenote *store, uint64_t deadline, struct attachment **ret) MUST_CHECK;
/* The attachment whose pool has this address, or NULL. */
struct attachment *store_owner(struct cenote *store, const void *data);
/* Say HELLO on a connected socket, and read the WELCOME. */
int attach_hello(struct cenote *store, int fd, const uint8_t *token, uint64_t deadline,
	struct msg_welcome *ret_welcome, struct socket_extra *ret_extra) MUST_CHECK;
/* Map the bytes for writing, so that the copy does not fault page by page. */
void attachment_populate(struct attachment *attachment, uint64_t offset, uint64_t size);

/* ---- tell.c -------------------------------------------------------------- */

/* Have the daemon look at a slot. Never waits, may do nothing. */
void attachment_tell(struct attachment *attachment, uint32_t slot);
/* One message over the tell socket, which is renewed if its daemon is gone. */
int attachment_send(struct attachment *attachment, const void *message, size_t size,
	uint64_t deadline);
/* End a hold, with the fault point before the tell. False: there was none. */
bool attachment_give(struct attachment *attachment, uint32_t slot, int *ret_fault);

/* ---- lane.c -------------------------------------------------------------- */

/* The connection was lost and is there again: encode and exchange once more. */
enum call_result {
	CALL_AGAIN = 1
};

/* Who judges the time: the daemon by a timeout in the request, or only the client. */
enum call_judge {
	CALL_DAEMON,
	CALL_CLIENT
};

int call_begin(struct call *call, struct cenote *store, uint64_t deadline) MUST_CHECK;
/* The same for a store that has no attachment yet. */
int call_open(struct call *call, struct cenote *store, uint64_t deadline) MUST_CHECK;
/* Send lane->out, wait for the reply. 0, CALL_AGAIN or an error, never the daemon's. */
int call_exchange(struct call *call, size_t size, enum call_judge judge) MUST_CHECK;
/* All of a call with the standing deadline: `request`, encoded by its caller, until it was
 * answered by a message of this type, which is in lane->in until call_end(). On failure the call
 * has ended. */
int call_ask(struct call *call, struct cenote *store, const void *request, size_t size,
	enum call_judge judge, enum msg_type answer) MUST_CHECK;
/* The same of what is answered by DONE; the call has ended. */
int call_do(struct cenote *store, const void *request, size_t size,
	enum call_judge judge) MUST_CHECK;
/* Send what is not answered; what cannot be sent is lost. */
void call_send(struct call *call, const void *message, size_t size);
void call_end(struct call *call);

/* For the request: how long is left. */
uint64_t call_rest(const struct call *call);
/* 0 if the reply has this type; the daemon's error if it is one. */
int call_expect(struct call *call, enum msg_type type) MUST_CHECK;
/* The same of any message. */
int reply_expect(const void *reply, size_t size, enum msg_type type) MUST_CHECK;
/* After a decoder failed. */
int reply_broken(enum msg_type type);

void lane_close(struct lane *lane);
void lane_free(struct lane *lane);

/* ---- orphan.c ------------------------------------------------------------ */

void orphan_add(struct cenote *store, const struct orphan *orphan);
/* Abort some over this call's lane. */
void orphans_flush(struct call *call);

/* ---- read.c -------------------------------------------------------------- */

/* Note that a read of the slot ends, while its hold still stands. False: nobody counts. */
bool read_note(struct attachment *attachment, uint32_t slot);
/* Send what is noted over this call's lane. */
void reads_flush(struct call *call);
/* Send it now, if a daemon is there. */
void reads_send(struct cenote *store);
void reads_free(struct cenote *store);

/* ---- copy.c -------------------------------------------------------------- */

/* memcpy(), past the cache where `size` is large. */
void copy_bytes(void *to, const void *from, size_t size);

/* ---- get.c --------------------------------------------------------------- */

struct index_key attachment_key(
	const struct attachment *attachment, struct cenote_key key);

/* A hold that stands. */
struct held {
	struct attachment *attachment;
	uint32_t slot;
};

/* Look into the index: HOLD_OK with *ret_held. */
enum hold_result held_find(struct attachment *attachment, struct cenote_key key,
	enum hold_heat heat, struct held *ret_held);
/* Ask the daemon over `call`, and hold what it names. */
int held_ask(struct call *call, struct cenote_key key, bool wait, enum hold_heat heat,
	struct held *ret_held) MUST_CHECK;
/* Turn a FOUND reply into a hold, and unpin. ERR_NOT_READY: it went, ask again. */
int held_take_up(struct call *call, const void *reply, size_t size, struct cenote_key key,
	enum hold_heat heat, struct held *ret_held) MUST_CHECK;
/* Both: find, else ask, which takes at most `timeout_ms`. */
int held_get(struct cenote *store, struct cenote_key key, bool wait, int64_t timeout_ms,
	enum hold_heat heat, struct held *ret_held) MUST_CHECK;
void held_give(const struct held *held);
/* Make a view of it; on failure the hold is given. */
int held_view(const struct held *held, struct cenote_view *ret_view) MUST_CHECK;
int held_too_many(struct cenote_key key);
/* Copy it out and give it. */
int held_copy(const struct held *held, void *buffer, uint64_t size,
	uint64_t *ret_size) MUST_CHECK;

/* ---- life.c -------------------------------------------------------------- */

size_t take_encode(const struct held *held, uint64_t op, void *buffer, size_t size);
/* Check the key, and begin a call with the standing deadline. */
int key_call_begin(
	struct call *call, struct cenote *store, struct cenote_key key) MUST_CHECK;
int stat_decode(const void *reply, size_t size, struct cenote_stat *ret_stat) MUST_CHECK;
/* What the answer to REMOVE means for who called. */
int removed(const struct call *call, int err) MUST_CHECK;

/* ---- put.c --------------------------------------------------------------- */

/* One object to be put. */
struct put {
	struct cenote_key key;
	const struct cenote_part *parts;
	size_t count;
	uint64_t size; /* of all parts */
	uint32_t flags;
	uint16_t readers, replicas;
	uint16_t keepers; /* at its end */
	uint64_t ttl_ns;
	uint64_t op;
};

int put_init(struct put *put, struct cenote *store, struct cenote_key key,
	const struct cenote_part *parts, size_t count,
	const struct cenote_put_options *options) MUST_CHECK;
/* 0: this store may put. */
int put_permit(struct cenote *store) MUST_CHECK;
/* What DONE says of it. */
int put_done(const void *reply, size_t size, uint16_t *ret_keepers) MUST_CHECK;
/* What the answer to PUT_END means for who called. */
int put_ended(const struct call *call, int err) MUST_CHECK;
/* The whole put, over a call of its own; put->keepers or an error. */
int put_run(struct put *put, struct cenote *store, uint64_t deadline) MUST_CHECK;
size_t put_small_encode(const struct put *put, struct lane *lane, void *buffer,
	size_t size, uint64_t timeout_ns);
size_t put_start_encode(
	const struct put *put, void *buffer, size_t size, uint64_t timeout_ns);
/* Read a PUT_STARTED; checks that its run lies in the pool. */
int put_started(const struct attachment *attachment, const void *reply, size_t reply_size,
	uint64_t size, struct msg_put_started *ret_started) MUST_CHECK;
/* Write the parts to their run. */
int put_copy(
	struct attachment *attachment, const struct put *put, uint64_t offset) MUST_CHECK;
int put_start(
	struct call *call, const struct put *put, struct msg_put_started *ret) MUST_CHECK;
/* Hand a started put to the caller; on failure it is given up. */
int put_writer(struct call *call, struct attachment *attachment,
	const struct msg_put_started *started, uint64_t size,
	struct cenote_writer *ret_writer) MUST_CHECK;
/* Give up a put that was started: at once over this call, or when a daemon answers. */
void put_abort(
	struct call *call, struct attachment *attachment, uint32_t slot, uint64_t life);

static inline uint64_t store_next_op(struct cenote *store)
{
	return atomic_fetch_add_explicit(&store->last_op, 1, memory_order_relaxed) + 1;
}

#endif
