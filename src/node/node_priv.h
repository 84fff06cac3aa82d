/*
 * node_priv.h - what a node is made of.
 *
 *   lane    a connection; several belong to one client, a stranger's to none
 *   client  the node's side of an entry of the shared client table
 *   op      one message being served; it lives from its arrival to its answer
 *   job, load   what is under way on the disk: tier_priv.h
 *
 * An op is run, and each run ends in one of: it answered (and is gone), it waits for a
 * key, for room or for a timer, or, as a batch, for its items. What it waits for wakes it
 * by op_wake(), which only queues it: nothing runs an op from inside another's run.
 *
 *   node_on_message -> [ARRIVED] -> run ... wait ... run -> [REPLYING] -> answer, free
 *                          \____________ lane closed ____________/-> cancel, free
 *
 * Memory    all from node_new(), but for copies of messages that must outlast their call.
 * Thread    the loop thread.
 */
#ifndef NODE_NODE_PRIV_H
#define NODE_NODE_PRIV_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/list.h"
#include "node/cluster_priv.h"
#include "node/log.h"
#include "node/node.h"
#include "node/tier_priv.h"
#include "wire/msg.h"

#define NODE_COPY_SLICE    (4ull << 20) /* bytes of a move that one step copies */
#define NODE_ROOM_BUDGET   256u         /* objects that one step judges */
#define NODE_TURN_LIMIT    256u         /* ops, and things due, that one step does */
#define NODE_SLOTS_STEP    65536u
#define NODE_GROW_RETRY_NS 1000000000ull
#define NODE_WAIT_BUCKETS  1024u
#define NODE_KEY_TEXT      80u /* a key as people read it, cut to fit */
#define BATCH_LIMIT        4096u

struct pin {
	struct list entry; /* of the lane, or free */
	uint32_t slot;
	uint64_t life;
};

struct lane {
	struct lane_id id;
	struct list entry;        /* of its bucket, or free */
	struct list client_entry; /* of client.lanes; empty: a stranger's */
	struct client *client;    /* NULL: nobody said HELLO on it */
	struct op *request;       /* the one that is to be answered */
	struct list ops;          /* the request and one-way messages */
	struct list pins;
	uint32_t uid;
	bool closing; /* asked to close; nothing goes in or out */
	struct link *
		link; /* one request of another node's; NULL: a client's, or a stranger's */
	uint32_t channel;       /* of it, there */
	struct list link_entry; /* of link.lanes */
};

struct client {
	uint32_t cid;
	bool live;    /* known to the master */
	bool leaving; /* gone, its end is being delayed or done */
	bool looked;  /* it attached in this epoch */
	bool repeats; /* answers to it may have been lost */
	bool heard;   /* it said something after WELCOME, so it has its token */
	_Atomic uint16_t *counts;
	struct env_process process;
	struct list lanes;
};

enum op_stage {
	OP_FREE,
	OP_ARRIVED,
	OP_RUNNING,
	OP_REPLYING
};

/* What a batch has so far. `replies` are in the order in which they came. */
struct batch {
	uint32_t count, left;
	size_t used;
	struct batch_reply {
		uint32_t off, size;
	} * replies;
	unsigned char *bytes; /* behind the replies, MSG_SIZE_MAX of them */
	struct list ops;      /* items that wait; of a removal by prefix too */
};

struct op {
	struct list entry;       /* in node.ready, or free */
	struct list owner_entry; /* in lane.ops or batch.ops */
	struct list wait_entry; /* in a bucket of node.waiting, or in cluster.unsettled */
	struct list id_entry;   /* in a bucket of cluster.waiting_ids */
	struct list asks;       /* to peers, whose ends it waits for */
	struct ticket ticket;
	struct batch batch;
	void *kept;
	void *own_key; /* key.data, when no message has it */
	void *reply;   /* the finished answer, while a fault delays it */
	size_t reply_size;

	/* Above: nothing, when the op is free. From here on: zeroed by op_new(). */
	struct lane *lane;
	struct op *parent; /* the batch, or the removal by prefix, it is an item of */
	uint32_t item;     /* its place there */
	const struct service *service;
	enum op_stage stage;
	int state;       /* of its flow */
	bool asleep;     /* a fault delays it */
	bool slept;      /* and has done so: the next gate is open */
	bool failed;     /* cancelled to be answered with an ordered error */
	bool with_grant; /* the answer carries the descriptors */
	uint64_t deadline;
	uint64_t began; /* when the wait that is measured began */

	const void *message; /* the caller's, or `kept` */
	size_t message_size;
	struct msg_bytes value; /* in the message, like key.data */
	struct index_key key;
	uint64_t size;
	uint32_t flags;
	uint64_t ttl_ns, length_ns; /* of a put; of a lease */
	uint16_t readers;
	uint64_t number; /* the client's, of a put, a take or a report */
	uint32_t slot;   /* SLOT_NONE: none. Of a get or a lease: pinned */
	uint64_t life;
	uint64_t generation;
	bool saves;  /* a put that is answered once it is on disk */
	bool fewer;  /* of KEEP: the giver may go even if this node keeps it already */
	int failure; /* what it will answer, once it may */
	struct load *load;   /* that it waits for; it is in the bucket of its key then */
	struct job *job;     /* that looks up keys for it */
	struct fetch *fetch; /* the same as load, from a peer */
	uint64_t fetch_joined; /* its number among those who joined one */
	enum fetched fetched;  /* what came of it */
	struct query *query;   /* of the directory, that it waits for or is to look at */
	struct dir_id id;      /* of its key, in a cluster */
	int cluster_state;     /* of the directory's part of its flow */
	bool replaces, ending; /* of a put: another object, whose end it waits for */
	bool publishing;       /* of a put: it has begun */
	bool confirmed;        /* and is not provisional any more */
	struct query *published;    /* what the directory said then */
	uint64_t met_generation;    /* what has the key instead, */
	uint64_t met_keepers;       /* and dir_keepers() of it */
	bool met_softpin, met_away; /* it is to stay; one that holds it cannot be asked */
	bool found;                 /* one of those who were asked has it */
	bool dir_answered;          /* before they were, */
	uint64_t dir_epoch;         /* under this one */
	bool unreached;             /* one of them could not be asked: */
	uint64_t unreached_peers;   /* their places, a bit each */
	uint64_t unheard_peers;     /* that may have ended what they had */
	struct other other;         /* what was found */
	uint64_t ends; /* the generation that is to end, 0: any; of a prefix: all below */
	uint64_t before;     /* of any that a node ends, or of a prefix: those below */
	uint64_t token;      /* by which the directory knows this removal again */
	uint64_t epoch;      /* that was complete when it was taken out; 0: none was */
	uint64_t unheard;    /* under which the directory may have published a put that
			      * replaces, and has not said so; 0: none */
	uint64_t to_tell;    /* places of peers that are still to be asked to end it */
	uint32_t silent;     /* peers that were told, and did not answer in time */
	uint64_t tell_until; /* then it is left to graves */
	uint64_t cursor;     /* of a walk, */
	uint32_t walks;      /* and how many there were */
	bool any;            /* a remove by key: unfinished puts end as well */
	bool sole;           /* a take: one of all who ask has it */
	bool had;            /* one who was told had what was to end */
	bool confirms;       /* nobody had it, and the directory is asked once more */
	bool unsure;         /* the directory may have done it and lost the answer */
	bool cuts_short;     /* its put replaced one that died before that was over */
	bool keeperless;     /* the entry did not name who keeps what is removed */
	bool disk_late; /* a record on another node's disk could not be deleted yet */
	uint16_t replicas, keepers; /* of a put: nodes that are to keep it, and that do */
	bool required;              /* so many, or it fails */
	bool undoing;               /* it failed when it was READY, and ends again */
	bool gives_way;   /* what is removed, to what may be older: no tombstone */
	bool spread_busy; /* one who was asked has others to take over first */
	int put_failure; /* why it fails when it was READY, or the last that refused did */
	uint64_t refused;      /* places of those, a bit each */
	uint64_t spread_until; /* its deadline, while others count */
	uint64_t pause_ns;     /* none is asked before */
	uint64_t from;         /* of KEEP: whose role this node takes; 0: nobody's */
	bool begun;            /* and it is counted, */
	uint64_t promised; /* with so many bytes of room; 0: it is kept here already */
};

enum service_flag {
	SERVICE_STRANGER = 1, /* also before HELLO */
	SERVICE_ITEM = 2,     /* also in a batch */
	SERVICE_ONE_WAY = 4,  /* never answered */
	SERVICE_PUTS = 8,     /* not for read-only clients */
	SERVICE_QUIET = 16,   /* passes no gate: what arms faults is not hit by them */
	SERVICE_PEER = 32,    /* for other nodes; without SERVICE_LOCAL for them alone */
	SERVICE_LOCAL = 64    /* for clients too */
};

/* One type of message, and what serves it. */
struct service {
	enum msg_type type;
	uint32_t flags;
	/* Read op->message into op: 0, or an error to answer.
	 * NULL: nothing to read here. */
	int (*decode)(struct op *op);
	void (*run)(struct node *node, struct op *op);
	/* Give back what an op that will not be answered has and waits for. NULL:
	 * nothing. */
	void (*cancel)(struct node *node, struct op *op);
};

struct room_driver {
	bool copying;
	uint64_t copied; /* bytes of the move in hand */
	struct relocation move;
	uint64_t grow_after; /* not before, after a failure */
};

/* A place at which a fault may delay what is no op. */
struct gate {
	bool asleep;
	bool slept; /* it has done so: the gate is open once */
};

enum gate_number {
	GATE_MOVE,
	GATE_GROW,
	GATE_JOBS, /* the first job's */
	GATE_FETCHES = GATE_JOBS +
		       TIER_JOB_LIMIT /* the first fetch's; one for each follow */
};

/* Beside master_stats. */
struct node_stats {
	uint64_t messages, one_way, batches, errors, attached, gone, faults;
	uint64_t waits_room, waits_key, timeouts;
	uint64_t loads_joined, loads_refused; /* gets that met a load; that did not fit */
	uint64_t jobs;                        /* of the disk */
};

struct node {
	struct node_config config;
	struct env env;
	struct share *share;
	struct fault_table *faults;
	struct master master;
	struct node_stats stats;
	struct hist room_wait_ns, load_wait_ns;
	struct recovery recovery;

	struct op *ops;
	struct list free_ops, ready;
	uint32_t ops_used;
	struct op *arriving;  /* its message is still the caller's */
	struct op *running;   /* the last that began to run */
	struct list *waiting; /* NODE_WAIT_BUCKETS of them */

	struct lane *lanes;
	struct list free_lanes;
	struct list *lane_buckets;
	uint32_t lane_mask, lanes_used;
	struct pin *pins;
	struct list free_pins;
	uint32_t pins_used;

	struct client clients[CLIENT_LIMIT];
	uint32_t clients_live;
	struct heap timers; /* ops by index, then clients, then gates */
	struct room_driver room;
	struct gate *gates; /* gate_count of them */
	uint32_t gate_count;
	struct tier tier;
	struct cluster cluster;
	void *memory[32]; /* to be freed */
	uint64_t started_ns;
	uint64_t now, wall_us; /* of the event or turn in hand; wall_us 0: not asked */
	unsigned char out[MSG_SIZE_MAX];  /* the message being made */
	unsigned char page[MSG_SIZE_MAX]; /* what goes into it */
};

/* At the start of each event and turn: its steps all happen at one time, as two looks at
 * the clock for each item of a batch would cost more than its work. */
static inline void node_tick(struct node *node)
{
	node->now = node->env.clock.boot_ns(node->env.clock.ctx);
	node->wall_us = 0;
}

static inline uint64_t node_now(const struct node *node)
{
	return node->now;
}

static inline uint64_t node_wall_us(struct node *node)
{
	if (node->wall_us == 0)
		node->wall_us = node->env.clock.wall_us(node->env.clock.ctx);
	return node->wall_us;
}

static inline uint32_t node_slots(const struct node *node)
{
	return atomic_load_explicit(&node->share->header->nslots, memory_order_relaxed);
}

/* A point in time `after` ns from `now`, at most UINT64_MAX = never. */
static inline uint64_t time_after(uint64_t now, uint64_t after)
{
	return after > UINT64_MAX - now ? UINT64_MAX : now + after;
}

/* How long a FAULT_SLEEP of `ms` lasts. */
static inline uint64_t fault_ns(int64_t ms)
{
	return ms > INT64_MAX / 1000000 ? UINT64_MAX : (uint64_t)ms * 1000000;
}

static inline uint64_t node_life(const struct node *node, uint32_t slot)
{
	return slot_life_of(atomic_load_explicit(
		&node->share->slots[slot].state, memory_order_relaxed));
}

static inline bool node_is_ready(const struct node *node, uint32_t slot)
{
	return slot_kind_of(atomic_load_explicit(&node->share->slots[slot].state,
		       memory_order_relaxed)) == SLOT_READY;
}

static inline bool tier_is_there(const struct node *node)
{
	return node->env.tier.ctx != NULL;
}

/* ---- node.c -------------------------------------------------------------- */

/* Zeroed, until the node's end; NULL is remembered in *failed. */
void *node_alloc(struct node *node, size_t count, size_t size, bool *failed);

/* ---- gate.c -------------------------------------------------------------- */

/* Do what an armed point orders that no flow is needed for: kill. Else tell it. */
enum fault_action node_fault(
	struct node *node, enum fault_point point, int64_t *ret_value);

/* False: it sleeps, and its timer goes on. True: go on, with *ret_err set if an error was
 * ordered. */
bool gate_pass(struct node *node, uint32_t gate, enum fault_point point, int *ret_err);
void gate_on_timer(struct node *node, uint32_t gate);

/* ---- op.c: the life of a message being served ---------------------------- */

/* NULL: all are in use. */
struct op *op_new(struct node *node, struct lane *lane, const struct service *service,
	const void *message, size_t size);
void op_run(struct node *node, struct op *op);
void op_wake(struct node *node, struct op *op);
void op_on_timer(struct node *node, struct op *op);
/* The message is about to be the caller's again. */
void op_keep(struct node *node, struct op *op);
/* Run again at op->deadline at the latest. */
void op_set_deadline(struct node *node, struct op *op);
void op_clear_deadline(struct node *node, struct op *op);
/* Give back all it has, and end it without an answer. */
void op_cancel(struct node *node, struct op *op);

/* A place where a fault may be armed. True: go on. False: the run is over, because the op
 * sleeps (and will come by here again) or has ended with the error that was ordered. */
bool op_gate(struct node *node, struct op *op, enum fault_point point);

/* Each answers and ends the op. op_reply(): the message of `size` bytes in node->out. */
void op_reply(struct node *node, struct op *op, size_t size);
void op_done(struct node *node, struct op *op, uint64_t generation);
void op_error(struct node *node, struct op *op, int code, const char *format, ...)
	PRINTF_LIKE(4, 5);
/* Bytes that op_reply() can send at least. */
size_t op_reply_room(const struct op *op);

/* Have op->key be a copy of the slot's, which may be another's later. ERR_NO_MEMORY. */
int op_own_key(struct op *op, const struct share *share, uint32_t slot) MUST_CHECK;
uint32_t op_client_ref(const struct node *node, const struct op *op);
/* The key as text for people, in NODE_KEY_TEXT bytes. */
const char *key_text(const void *key, size_t size, char *text);

/* ---- batch.c ------------------------------------------------------------- */

void batch_run(struct node *node, struct op *op);
void batch_cancel(struct node *node, struct op *op);
/* The op is an item of a batch of which not all have begun. */
bool batch_is_starting(const struct op *op);
/* The answer of the item at `item`, and how long it may be. */
void batch_add_reply(
	struct node *node, struct op *op, uint32_t item, const void *reply, size_t size);
size_t batch_reply_room(const struct batch *batch);

/* ---- lane.c: connections and pins ---------------------------------------- */

struct lane *lane_find(struct node *node, struct lane_id id);
void lane_close(struct node *node, struct lane *lane);
void lane_drop_pins(struct node *node, struct lane *lane);
/* It is its client's no more; what it had under way is cancelled but for `except`. */
void lane_leave(struct node *node, struct lane *lane, const struct op *except);
/* 0, or ERR_TOO_MANY with *ret_limit. */
int lane_pin(struct node *node, struct lane *lane, uint32_t slot, uint64_t *ret_limit);
void lane_unpin(struct node *node, struct lane *lane, uint32_t slot, uint64_t life);
/* Send what is no op's answer. */
void lane_error(struct node *node, struct lane *lane, int code, const char *text);

/* ---- serve.c ------------------------------------------------------------- */

const struct service *service_find(enum msg_type type);
/* Serve one request, which is the caller's again on return. */
void serve_message(struct node *node, struct lane *lane, const struct service *service,
	const void *message, size_t size);
/* Check whether the op may be served and read it; false: it has answered. */
bool service_begin(struct node *node, struct op *op);
/* An answer that was not sent: end what it promised. */
void reply_undo(struct node *node, struct lane *lane, const void *reply, size_t size);

/* ---- clients.c ----------------------------------------------------------- */

int hello_decode(struct op *op);
void hello_run(struct node *node, struct op *op);
void hello_cancel(struct node *node, struct op *op);
void bye_run(struct node *node, struct op *op);
int clients_start(struct node *node);
void clients_finish_start(struct node *node);
void client_on_timer(struct node *node, struct client *client);
/* Its last lane may be closed. */
void client_lost_lane(struct node *node, struct client *client);
uint32_t client_ref_of(const struct node *node, const struct client *client);

/* ---- flows --------------------------------------------------------------- */

int put_start_decode(struct op *op);
int put_decode(struct op *op);
void put_run(struct node *node, struct op *op);
void put_cancel(struct node *node, struct op *op);
int put_end_decode(struct op *op);
void put_end_run(struct node *node, struct op *op);
void put_end_cancel(struct node *node, struct op *op);
int put_abort_decode(struct op *op);
void put_abort_run(struct node *node, struct op *op);

/* ---- put_refusal.c: each answers and ends the op */

void put_refuse_large(struct node *node, struct op *op);
/* `slot` SLOT_NONE: the object is only on disk. */
void put_answer_exists(struct node *node, struct op *op, uint32_t slot);
/* Leaves the queue for room. */
void put_no_room(struct node *node, struct op *op);
/* The key was another's until the deadline. */
void put_is_late(struct node *node, struct op *op);
void put_end_failed(struct node *node, struct op *op, int err);

/* A put is READY, and on disk if it is durable: it goes on to other nodes, or is answered. */
void put_is_saved(struct node *node, struct op *op);
/* A put that is READY fails with `err`: nobody was told that it is there. */
void put_undo(struct node *node, struct op *op, int err);
/* Go on with that. True: it has ended everywhere, and the op is to answer. False: it waits, or has
 * answered otherwise. */
bool put_undo_run(struct node *node, struct op *op);
/* The last step of a put that is durable; op->key is its own or the message's. */
void durable_run(struct node *node, struct op *op);

int get_decode(struct op *op);
int lease_decode(struct op *op);
void get_run(struct node *node, struct op *op);
void get_cancel(struct node *node, struct op *op);
void lease_end_run(struct node *node, struct op *op);
/* Wait for the load of what is on disk, or answer. */
void get_load(struct node *node, struct op *op, uint32_t entry);
/* Answer that op->failure came of the load or fetch. */
void get_failed(struct node *node, struct op *op);
/* How long a lease of an object is to be; `wanted_ns` 0: as its size asks for. */
uint64_t lease_length(const struct node *node, uint64_t wanted_ns, uint64_t size);

/* How long an op waits at most for the disk to forget an object that was ended. */
#define END_WAIT_NS 10000000000ull
/* Whether what was ended under op->key may still come back from the disk. True: the op waits
 * for the last of it, or, at its deadline, has answered that this takes too long. */
bool end_waits(struct node *node, struct op *op);

int remove_decode(struct op *op);
void remove_run(struct node *node, struct op *op);
void remove_cancel(struct node *node, struct op *op);
int take_decode(struct op *op);
void take_run(struct node *node, struct op *op);

int read_decode(struct op *op);
void read_run(struct node *node, struct op *op);

/* ---- flow_drop.c: what other nodes ask to end ---------------------------- */

int drop_decode(struct op *op);
void drop_run(struct node *node, struct op *op);
int read_at_decode(struct op *op);
void read_at_run(struct node *node, struct op *op);

/* ---- flow_prefix.c */

void remove_prefix_run(struct node *node, struct op *op);
void remove_prefix_cancel(struct node *node, struct op *op);
/* What came of the removal of one of its objects. */
void prefix_item_done(struct node *node, struct op *op, const void *reply, size_t size);

int stat_decode(struct op *op);
void stat_run(struct node *node, struct op *op);
void stat_cancel(struct node *node, struct op *op);
void list_run(struct node *node, struct op *op);
void list_cancel(struct node *node, struct op *op);
void info_run(struct node *node, struct op *op);
void fault_run(struct node *node, struct op *op);
void fault_status_run(struct node *node, struct op *op);
/* Answer that the message's fields are not those of its type. */
void refuse_broken(struct node *node, struct op *op);

/* The JSON texts of INFO; the length, or ERR_BUFFER_TOO_SMALL. */
int64_t info_stats(const struct node *node, char *text, size_t size);
int64_t info_config(const struct node *node, char *text, size_t size);

/* ---- waiters.c: who waits for a key -------------------------------------- */

/* Where ops with a key of this hash wait. */
struct list *waiters_bucket(const struct node *node, uint64_t hash);
void waiters_add(struct node *node, struct op *op);
/* For what is read or copied since op->began: an item of a batch looks again, more and more
 * seldom, whether what the batch holds meanwhile is in its own way. */
#define WAIT_STUCK_NS 100000000ull
void waiters_add_for_bytes(struct node *node, struct op *op);
void waiters_del(struct op *op);
void waiters_wake(struct node *node, uint64_t hash);
/* Who waits for any key. */
void waiters_wake_all(struct node *node);

/* ---- room.c -------------------------------------------------------------- */

bool room_step(struct node *node, uint64_t now);
uint64_t room_next(const struct node *node);

/* ---- timers: ids of node.timers ------------------------------------------ */

static inline uint32_t timer_of_op(const struct node *node, const struct op *op)
{
	return (uint32_t)(op - node->ops);
}

static inline uint32_t timer_of_client(const struct node *node, uint32_t cid)
{
	return (uint32_t)node->config.max_ops + cid;
}

static inline uint32_t timer_of_gate(const struct node *node, uint32_t gate)
{
	return (uint32_t)node->config.max_ops + CLIENT_LIMIT + gate;
}

#endif
