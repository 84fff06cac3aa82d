/*
 * sim.h - one run of one seed: a node, its clients, what lies between them, and the one
 * generator of numbers that decides everything.
 *
 * A run is a row of steps. Each lets one thing happen: a client's thread takes one small
 * step, a message arrives, the daemon turns, time passes, or something dies. Between any
 * two of them anything else may happen. The daemon is the real node/ over core/, share/
 * and wire/; the clients speak the real messages and hold with the real hold.h.
 *
 *   run.c      what happens next
 *   chaos.c, chaos_disk.c   kills, stops, faults, clock jumps, what befalls a disk
 *   end.c      the quiet end, in which all that waits must end
 *   daemon.c   start the node, call it, kill it between or inside its calls
 *   daemon_env.c, world.c, disk.c   the node's world
 *   conn.c     connections: messages on their way, late, lost with whoever dies
 *   proc.c     clients: processes with threads, attach, ask, be told, ask again
 *   task.c, task_*.c   what threads do: get, hold, read, release, take, put, remove, ...
 *   oracle.c, oracle_disk.c   what may be true, from what was asked for and what the
 *              memory and the disk show
 *
 * Units     ns of the world's clock, bytes.
 * Memory    all in struct sim or counted by it.
 * Errors    sim_fail() ends the program: whatever is wrong here is a bug.
 * Thread    one.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "sim/cover.h"
#include "sim/disk.h"
#include "sim/oracle.h"
#include "sim/trace.h"
#include "sim/world.h"

#include "base/err.h"
#include "base/rng.h"
#include "node/node.h"
#include "wire/msg.h"

#include <inttypes.h>
#include <setjmp.h>

#define SIM_PROCS   7u /* the last comes in the end, to look after the others */
#define SIM_JANITOR (SIM_PROCS - 1)
#define SIM_THREADS 2u
#define SIM_VIEWS   8u
#define SIM_CONNS   64u
#define SIM_BATCH   6u
#define SIM_TELLS   16u
#define SIM_ORPHANS 64u
#define SIM_READS   256u
#define SIM_LEASES  16u
#define SIM_UID     1000u

/* Planted bugs are to be found by what comes of them, not by what the node knows itself. */
#ifdef CENOTE_PLANTS
#define SIM_ASKS_NODE false
#else
#define SIM_ASKS_NODE true
#endif

#define SIM_INJECTED (-900) /* the number that injected failures answer */

#define NS_US 1000ull
#define NS_MS 1000000ull
#define NS_S  1000000000ull

struct sim;
struct proc;
struct thread;

/* ---- connections --------------------------------------------------------- */

enum packet_kind {
	PACKET_OPEN,
	PACKET_MESSAGE,
	PACKET_CLOSE
};

struct packet {
	struct list entry;
	enum packet_kind kind;
	bool with_grant;
	uint64_t due_ns;
	struct env_grant grant;
	size_t size;
	unsigned char bytes[];
};

/* One effect that the daemon may still have, for a request it has not answered. */
struct asked {
	enum asked_kind {
		ASKED_NOTHING,
		ASKED_PUT,   /* start and end in one */
		ASKED_START, /* of a put in two steps */
		ASKED_END,   /* of it */
		ASKED_REMOVE,
		ASKED_TAKE,
		ASKED_READ,
		ASKED_LOOK /* changes nothing: get, stat, lease */
	} kind;
	uint32_t key;
	struct put *put;
	struct sim_object *before; /* what the key had when it was first asked, */
	uint64_t since;            /* at this look */
	struct sim_object *object; /* of a read that ended */
	uint32_t slot;             /* of a take, like life and op */
	uint64_t life, op;
	uint32_t ref;
	bool is_get; /* of a look in a batch */
};

struct conn {
	uint64_t id; /* of the lane; 0: not in use */
	struct env_process process;
	struct thread *thread; /* at the client's end; NULL: closed there */
	bool node_open;        /* the daemon has it */
	struct list to_node, to_client;
	struct asked asked[SIM_BATCH]; /* the request that the daemon has, or gets */
	unsigned asked_count;
};

/* ---- clients ------------------------------------------------------------- */

/* A hold that is good. */
struct view {
	bool open;
	bool busy;  /* a thread is at it */
	bool ended; /* the object has ended since */
	uint32_t key, slot;
	uint64_t life, off, size;
	struct sim_object *object;
};

/* A put's run, between its start and its end. */
struct run {
	bool open;
	uint32_t slot, epoch;
	uint64_t life, off;
	struct put *put;
};

enum call_stage {
	CALL_NONE,
	CALL_CONNECT, /* to be sent, once there is a connection that was greeted */
	CALL_SENT,
	CALL_ANSWERED
};

/* A request until its answer: asked again over a new connection if the last one broke. */
struct call {
	enum call_stage stage;
	unsigned char *message; /* NULL: attaching is all */
	size_t size;
	unsigned char *reply;
	size_t reply_size;
	struct asked asked[SIM_BATCH];
	unsigned asked_count;
	unsigned sends;
	uint64_t since;      /* the oracle's count when it was first sent */
	uint64_t sent_ns;    /* last */
	uint64_t timeout_ns; /* that the daemon was told */
	uint64_t give_up_ns;
	bool patient; /* never given up */
	bool gave_up; /* the caller has gone on; the answer only must be tidied up */
	bool stale;   /* the daemon knows this client no more */
};

enum task_kind {
	TASK_NONE,
	TASK_ATTACH,
	TASK_GET,
	TASK_TAKE,
	TASK_TOUCH,
	TASK_EXISTS,
	TASK_STAT,
	TASK_READ,
	TASK_RELEASE,
	TASK_PUT,
	TASK_REMOVE,
	TASK_LIST,
	TASK_BATCH,
	TASK_INFO,
	TASK_ORPHAN,
	TASK_REPORT,
	TASK_LEASE,
	TASK_LEASE_END,
	TASK_BYE
};

struct task {
	enum task_kind kind;
	bool begun;
	int stage, then; /* `then`: the stage behind a detour */
	uint32_t key;
	uint32_t flags;
	uint64_t timeout_ns;
	unsigned tries, rounds;
	enum hold_heat heat;
	uint32_t slot;
	uint64_t life, state;
	bool taking; /* its count stands, unproven */
	bool pinned; /* the daemon's pin is to be given back */
	bool giving; /* its count is back, `want` not looked at */
	struct conn *pin_conn;
	uint64_t pin_conn_id;
	struct view *view;
	bool keep; /* the view, behind the task */
	struct put *put;
	struct sim_lease *lease;
	uint64_t done; /* bytes written */
	uint64_t cursor;
	struct {
		struct sim_object *object; /* when the list began */
		uint64_t moves;            /* of it, then */
		unsigned seen;
	} listed[SIM_KEYS];
};

struct thread {
	struct proc *proc;
	unsigned index;
	struct conn *conn;
	bool hello_sent, greeted; /* on conn; greeted: WELCOME came */
	uint64_t wait_until_ns;
	uint32_t tells[SIM_TELLS]; /* slots of releases to be told */
	unsigned tell_count;
	struct call call;
	struct task task;
	struct run run;
};

struct proc {
	struct sim *sim;
	unsigned index;
	bool alive;
	uint64_t stopped_until_ns;
	uint64_t gone_ns;       /* dead, when that can be seen */
	uint64_t born_again_ns; /* when its place is taken by a new process */
	struct env_process process;
	bool attached, leaving, read_only;
	struct thread *attaching;
	uint32_t ref, cid, incarnation, epoch;
	uint8_t token[16];
	struct holder holder;
	uint64_t ops;             /* numbers of puts and takes given out */
	uint32_t hints[SIM_KEYS]; /* the slot in which it last met the key */
	struct put
		*orphans[SIM_ORPHANS]; /* puts that may be under way, and nobody ends */
	unsigned orphan_count;
	struct sim_object
		*reads[SIM_READS]; /* that ended and are to be reported, oldest first */
	unsigned read_count;
	struct thread
		*reporting; /* one thread at a time, so that they keep their order */
	uint64_t read_sequence;
	struct view views[SIM_VIEWS];
	struct thread threads[SIM_THREADS];
};

/* ---- the daemon ---------------------------------------------------------- */

/* Of the disk, after the last call. */
struct disk_seen {
	uint64_t joined, turning, lent;
	bool error;
};

enum daemon_event {
	DAEMON_START,
	DAEMON_OPEN,
	DAEMON_MESSAGE,
	DAEMON_CLOSE,
	DAEMON_EXIT,
	DAEMON_TIER,
	DAEMON_STEP
};

/* How the daemon is to die in a call: at which of its calls to the world. */
struct daemon {
	struct node *node; /* NULL: none runs */
	struct fault_table faults;
	bool in_call, starting, has_more, dirty;
	bool in_hook;        /* somebody else's step, inside the daemon's call */
	bool hooked;         /* there was one in this call */
	uint64_t start_ns;   /* when the next one starts */
	uint64_t kill_after; /* calls to the world until its death; 0: not ordered */
	uint64_t idle_steps; /* turns without anything to do */
	jmp_buf death;
	struct env_process watched[CLIENT_LIMIT]; /* pid 0: nobody */
	enum fault_action armed[FAULT_POINT_COUNT];
	struct disk_seen seen;
	struct master_stats stats; /* as they were after the last call */
	uint64_t waits, timeouts;
	uint32_t condemned, nslots;
};

/* ---- leases -------------------------------------------------------------- */

/* As a reader on another node has it, whoever asked for it here. */
struct sim_lease {
	bool open;
	bool busy;           /* a thread ends it */
	bool ended;          /* an end of it was answered */
	unsigned ends_asked; /* of one, the answer may have been lost */
	struct msg_leased token;
	uint32_t key;
	uint64_t off, size;
	struct sim_object *object;
	uint64_t good_ns; /* its reader trusts it until then */
	uint64_t over_ns; /* it may be over then */
};

/* ---- the run ------------------------------------------------------------- */

/* GATHER: nothing new begins; HEAL: and what is held is released. */
enum sim_phase {
	SIM_CHAOS,
	SIM_GATHER,
	SIM_HEAL,
	SIM_LEAVE
};

struct sim_profile {
	unsigned softpin; /* percent of puts */
	unsigned ttl;
	unsigned readers;
	unsigned split; /* of hits are done step by step */
	unsigned kills, stops, closes, daemon_kills, faults, drops; /* per 10,000 steps */
	unsigned lost_tells;                                        /* percent */
	uint64_t size_most; /* of an ordinary object */
	unsigned procs;
	unsigned views; /* that a client keeps at most */
	unsigned keys;
	bool all_small;
	uint64_t put_timeout_ns;
	bool disk;
	unsigned durable, leases;             /* percent */
	unsigned troubles, rots, host_losses; /* per 10,000 steps */
};

/* What befell the disk, for those who must explain an error. */
struct sim_ill {
	uint64_t io_at, full_at; /* the last look at which a job failed so */
	uint64_t failed_ns;      /* when one failed last */
	uint64_t lost;           /* hosts */
};

struct sim {
	uint64_t seed, steps;
	struct rng rng;
	struct trace trace;
	struct cover *cover;
	struct sim_world world;
	bool has_disk;
	struct sim_tier tier;
	struct sim_ill ill;
	struct sim_lease leases[SIM_LEASES];
	struct oracle oracle;
	struct daemon daemon;
	struct node_config config;
	struct sim_profile profile;
	enum sim_phase phase;
	uint64_t step;
	struct conn conns[SIM_CONNS];
	uint64_t last_conn, last_start_time;
	struct proc procs[SIM_PROCS];
	struct thread *running; /* whose step it is */
	bool tell_lost; /* since everything that waits for a release was last looked at */
	bool errors_armed, disk_was_full;
	uint32_t errors_seen;
	unsigned char out[MSG_SIZE_MAX];
};

_Noreturn void sim_fail(struct sim *sim, const char *format, ...) PRINTF_LIKE(2, 3);

/* Run it; the hash of all that happened. */
uint64_t sim_run(uint64_t seed, uint64_t steps, bool print, struct cover *cover);

static inline void sim_cover(struct sim *sim, enum cover_event event)
{
	sim->cover->events[event]++;
}

static inline uint64_t sim_pick(struct sim *sim, uint64_t below)
{
	return rng_below(&sim->rng, below);
}

static inline bool sim_chance(struct sim *sim, unsigned percent)
{
	return rng_chance(&sim->rng, percent);
}

/* A delay as the world has them: mostly short, sometimes long. */
uint64_t sim_delay(struct sim *sim);

/* One thing happens. */
void sim_step_once(struct sim *sim);

/* ---- chaos.c, end.c ------------------------------------------------------ */

void chaos_step(struct sim *sim);
/* Nothing fails any more, who was stopped goes on. */
void chaos_end(struct sim *sim);
void end_run(struct sim *sim);

/* ---- chaos_disk.c -------------------------------------------------------- */

void disk_open(struct sim *sim);
/* A job goes on, and maybe ends. */
void disk_step(struct sim *sim);
bool disk_is_due(const struct sim *sim);
/* The daemon's jobs end with it. */
void disk_daemon_dies(struct sim *sim);
void disk_chaos_step(struct sim *sim);
void disk_chaos_end(struct sim *sim);

/* ---- cover_disk.c -------------------------------------------------------- */

void disk_cover_call(struct sim *sim);
void disk_cover_death(struct sim *sim);

/* ---- end_disk.c ---------------------------------------------------------- */

/* Nothing of the disk is under way. */
bool disk_is_quiet(const struct sim *sim);
/* With everything at rest: the index is what the core says, and what was put. */
void disk_check_rest(struct sim *sim);
void disk_check_empty(struct sim *sim);

/* ---- conn.c -------------------------------------------------------------- */

void conn_init(struct sim *sim);
void conn_fini(struct sim *sim);
struct conn *conn_open(struct sim *sim, struct thread *thread);
/* The client's end is closed: by its will, or with its process. */
void conn_leave(struct sim *sim, struct conn *conn);
/* From client to daemon. */
void conn_send(struct sim *sim, struct conn *conn, const void *message, size_t size);
/* The host stops: all of them are gone. */
void conn_host_lost(struct sim *sim);
/* From daemon to client. */
void conn_answer(struct sim *sim, struct conn *conn, const void *message, size_t size,
	const struct env_grant *grant);
/* The first packet in one direction, if it is due; NULL. */
struct packet *conn_due(const struct sim *sim, const struct list *queue);
/* The same towards the daemon, if it is this one's turn. */
struct packet *conn_due_to_node(const struct sim *sim, const struct conn *conn);
void conn_deliver_to_node(struct sim *sim, struct conn *conn);
void conn_deliver_to_client(struct sim *sim, struct conn *conn);
/* The daemon's end of all is gone. */
void conn_daemon_died(struct sim *sim);
/* The daemon's side of one breaks, as if its socket were full. */
void conn_break(struct sim *sim, struct conn *conn);
struct conn *conn_find(struct sim *sim, uint64_t id);
/* When the first packet is due. */
uint64_t conn_next(const struct sim *sim);

/* ---- daemon.c ------------------------------------------------------------ */

void daemon_init(struct sim *sim);
void daemon_fini(struct sim *sim);
void daemon_start(struct sim *sim);
void daemon_kill(struct sim *sim);
void daemon_open(struct sim *sim, struct conn *conn);
void daemon_message(struct sim *sim, struct conn *conn, const void *message, size_t size);
void daemon_close(struct sim *sim, struct conn *conn);
/* A job of the disk has ended. */
void daemon_tier(struct sim *sim, uint32_t job, int err);
void daemon_step(struct sim *sim);
/* Report the end of one process that is watched and gone, if there is one. */
bool daemon_report_exit(struct sim *sim);
/* Add what the point counted, and order something new there. */
void daemon_arm(struct sim *sim, enum fault_point point, enum fault_action action,
	int64_t value, int64_t from_hit, int64_t times);
/* Whether a turn is due. */
bool daemon_is_due(const struct sim *sim);

/* ---- daemon_env.c -------------------------------------------------------- */

struct env daemon_env(struct sim *sim);

/* ---- proc.c -------------------------------------------------------------- */

enum proc_life {
	PROC_LIVES,
	PROC_DIES,
	PROC_GONE
};

/* What the system knows of a process; *ret_gone_ns: when one that dies will be gone. */
enum proc_life proc_life_of(
	const struct sim *sim, const struct env_process *process, uint64_t *ret_gone_ns);
void proc_init(struct sim *sim);
void proc_fini(struct sim *sim);
void proc_start(struct sim *sim, struct proc *proc);
void proc_kill(struct sim *sim, struct proc *proc);
bool thread_can_step(const struct sim *sim, const struct thread *thread);
void thread_step(struct sim *sim, struct thread *thread);
/* What came on the thread's connection; NULL: it is closed. */
void thread_receive(struct sim *sim, struct thread *thread, const struct packet *packet);
/* The client closes its connection, whatever is under way on it. */
void thread_close(struct sim *sim, struct thread *thread);
/* Ask; the message of `size` bytes is in sim->out. Size 0: only attach. */
void call_begin(struct sim *sim, struct thread *thread, size_t size, uint64_t timeout_ns);
struct asked *call_asks(
	struct sim *sim, struct thread *thread, enum asked_kind kind, uint32_t key);
void call_end(struct thread *thread);
/* Ask the same once more, whatever the answer was. */
void call_again(struct thread *thread);
/* A one-way message, if there is a connection to send it on. */
bool thread_send(struct sim *sim, struct thread *thread, size_t size);
/* The holds and runs of all living clients are as they must be. */
void proc_check_all(struct sim *sim);
/* The next time at which a thread or process does something by itself. */
uint64_t proc_next(const struct sim *sim);

/* ---- task.c, task_get.c, task_put.c -------------------------------------- */

void task_choose(struct sim *sim, struct thread *thread);
void task_step(struct sim *sim, struct thread *thread);
void task_end(struct sim *sim, struct thread *thread);

/* The code of an ERROR answer, 0 for any other. */
int reply_error(const struct sim *sim, const void *reply, size_t size);
/* Whether an injected failure, or a limit, explains the code. */
bool error_is_explained(struct sim *sim, int code);

/* ---- task_disk.c --------------------------------------------------------- */

/* A key that is worth while: its object is on disk, or on its way. */
bool disk_choose_key(struct sim *sim, uint32_t *ret_key);
/* Whether the error may be the answer to who wants bytes that are on disk. */
bool away_is_explained(
	struct sim *sim, const struct call *call, uint32_t key, int code, bool in_batch);
/* Whether the disk's state is a reason not to store, or not to delete. */
bool disk_error_is_explained(struct sim *sim, const struct call *call, int code);

/* ---- task_lease.c -------------------------------------------------------- */

/* False: there is none to end, or no place for one more. */
bool lease_begin(struct sim *sim, struct thread *thread);
void lease_step(struct sim *sim, struct thread *thread);
void lease_check_all(struct sim *sim);
/* Its daemon and pool are gone. */
void lease_forget_all(struct sim *sim);
/* The thread's process dies. */
void lease_drop(struct thread *thread);

/* ---- task_get.c, task_put.c, task.c -------------------------------------- */

void get_step(struct sim *sim, struct thread *thread);
void view_read(struct sim *sim, struct view *view);
void put_step(struct sim *sim, struct thread *thread);
void put_begin(struct sim *sim, struct thread *thread);
/* A put that is given. */
void put_begin_as(
	struct sim *sim, struct thread *thread, struct put *put, uint64_t timeout_ns);
/* A read of the object has ended, which counts. */
void read_ended(struct proc *proc, struct sim_object *object);
/* The put is not known to be over: it will be looked for, and aborted. */
void put_is_orphan(struct thread *thread, struct put *put);
/* The next of them. */
void orphan_begin(struct sim *sim, struct thread *thread);
/* Judge the answer to a put in one message. */
void put_judge_small(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size);
void get_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size);
/* Whether the error says that a remove, a take or a report waited for the disk in vain. */
bool end_is_late(struct sim *sim, const struct call *call, int code);
void remove_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size);
void stat_judge(struct sim *sim, const struct call *call, const struct asked *asked,
	const void *reply, size_t size);

#endif
