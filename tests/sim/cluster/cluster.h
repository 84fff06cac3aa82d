/*
 * cluster.h - one run of one seed: three to five nodes, their clients, the network between
 * them, a directory, and the one generator of numbers that decides everything.
 *
 * A run is a row of steps. Each lets one thing happen: a client takes one small step, a frame
 * arrives, a command of the directory takes effect or is answered, a piece of an object
 * crosses the network, a daemon turns, time passes, or something dies. The daemons are the
 * real node/ over core/, share/ and wire/, each over a sim_world of its own (sim/world.h) and
 * with a clock of its own; the directory is dir/dir_mem.h.
 *
 *   run.c       what happens next
 *   profile.c   what kind of world a seed has
 *   chaos.c     storms and calms: cuts, kills, stops, a directory that forgets
 *   hand.c      the keeper's role on its way, and what waits for it there
 *   drain.c     nodes that are emptied, and thrown away
 *   end.c, end_check.c   the quiet end, in which all that waits must end, and all agree
 *   host.c      a node with its host: clocks, start, kill, events
 *   host_env.c  what a daemon asks of its world
 *   wire.c      connections between nodes
 *   transfer.c  objects on their way
 *   registry.c  the directory, late, cut off, forgetful
 *   proc.c, proc_attach.c   clients: attach, ask, ask again
 *   task*.c     what clients do
 *   ledger.c, keep.c, replicas.c, trouble.c, judge*.c   what may be true
 *
 * Units     ns of true time, unless they are a host's; bytes.
 * Memory    all in struct sim or on its lists.
 * Errors    sim_fail() ends the program: whatever is wrong here is a bug.
 * Thread    one.
 */
#ifndef SIM_CLUSTER_CLUSTER_H
#define SIM_CLUSTER_CLUSTER_H

#include "sim/cluster/cover.h"
#include "sim/cluster/ledger.h"
#include "sim/cluster/trouble.h"
#include "sim/disk.h"
#include "sim/trace.h"
#include "sim/world.h"

#include "base/err.h"
#include "base/list.h"
#include "base/rng.h"
#include "dir/dir_mem.h"
#include "node/node.h"
#include "wire/msg.h"

#include <inttypes.h>

#define SIM_PROCS   3u /* of a host; the last comes in the end, to look after the others */
#define SIM_JANITOR (SIM_PROCS - 1)
#define SIM_VIEWS   3u
#define SIM_TELLS   8u
#define SIM_OFFERS  256u
#define SIM_UID     1000u
#define SIM_DOMAINS 3u /* of the directory, at most */

/* Planted bugs are to be found by what comes of them, not by what the node knows itself. */
#ifdef CENOTE_PLANTS
#define SIM_ASKS_NODE false
#else
#define SIM_ASKS_NODE true
#endif

#define SIM_WALL_US 1700000000000000ull /* the wall clock, at first */

#define NS_US 1000ull
#define NS_MS 1000000ull
#define NS_S  1000000000ull

/* After the last trouble: by then all connections stand again, and all that was put off is
 * done. */
#define SIM_SETTLE_NS (8 * NS_S)

struct sim;
struct host;

/* ---- the network --------------------------------------------------------- */

enum wire_end {
	WIRE_DIALER,
	WIRE_DIALED,
	WIRE_ENDS
};

enum frame_kind {
	FRAME_LINK, /* the connection is to be accepted */
	FRAME_UP,   /* it stands */
	FRAME_MESSAGE,
	FRAME_CLOSE
};

struct frame {
	struct list entry;
	enum frame_kind kind;
	bool is_local; /* what the end's own host tells: nothing cuts it off */
	uint64_t due_ns;
	uint32_t channel;
	size_t size;
	unsigned char bytes[];
};

/* One connection, from its dial until both ends know that it is over. */
struct wire {
	struct list entry;
	struct host *hosts[WIRE_ENDS];
	uint64_t lives[WIRE_ENDS]; /* of the daemons that have it */
	bool open[WIRE_ENDS];      /* the daemon has it, or will be told of its end */
	bool deaf[WIRE_ENDS];      /* the daemon has closed it, and waits to be told */
	uint32_t place;            /* of the other, at the dialer's */
	uint64_t link;             /* its number, at the dialed one's */
	struct list queues[WIRE_ENDS]; /* to each end, oldest first */
	uint64_t stuck_ns[WIRE_ENDS];  /* since when the first cannot arrive; 0: it can */
	uint64_t patience_ns;          /* after that much the connection breaks */
};

struct offer {
	bool used;
	struct peer_ticket ticket;
	struct peer_offer what;
	uint32_t key;
};

/* A fetch of a destination's daemon, until its end is told. */
struct transfer {
	struct list entry;
	struct host *to, *from; /* from NULL: there is no connection */
	uint64_t to_life, from_life;
	uint32_t number;
	struct peer_fetch what;
	struct peer_offer offer;
	uint32_t key;
	bool admitted; /* the ticket was good */
	int err;       /* how it ends next; 0: it goes on */
	uint64_t moved, chunk_end;
	uint64_t due_ns;
};

/* ---- the directory ------------------------------------------------------- */

/* A call on its way there, or back. */
struct letter {
	struct list entry;
	struct host *host;
	struct dir_call *call;
	bool applied;
	bool lost; /* its answer */
	uint64_t due_ns;
};

struct registry {
	struct dir_mem *mem;
	unsigned domains;
	bool reorders, away, slow;
	struct list letters;
	uint64_t forgot_ns; /* when it last forgot something; 0: never */
};

/* A host's way there. */
struct office {
	struct dir_mem_port port;
	struct dir dir; /* below what counts the daemon's calls */
	bool cut;
	bool has_news[SIM_DOMAINS];
	uint64_t news_ns[SIM_DOMAINS]; /* when the daemon hears of it */
	uint64_t last_due_ns;
};

/* ---- clients ------------------------------------------------------------- */

/* A hold that is good. */
struct view {
	bool open;
	uint32_t key, slot;
	uint64_t life, off, size, generation;
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
	unsigned char *message;
	size_t size;
	struct sim_message *reply; /* NULL in CALL_ANSWERED: it will have none */
	bool repeats;              /* it is asked again */
	unsigned sends;
	uint64_t began_ns;   /* when it was first sent */
	uint64_t sent_ns;    /* last */
	uint64_t timeout_ns; /* that the daemon was told */
};

enum task_kind {
	TASK_NONE,
	TASK_ATTACH,
	TASK_GET,
	TASK_REREAD,
	TASK_RELEASE,
	TASK_TAKE,
	TASK_REPORT,
	TASK_PUT,
	TASK_REMOVE,
	TASK_REMOVE_PREFIX,
	TASK_STAT,
	TASK_LIST,
	TASK_DRAIN
};

struct task {
	enum task_kind kind;
	int stage;
	uint32_t key, flags;
	uint64_t timeout_ns;
	unsigned tries;
	bool by_message; /* no look into the shared index first */
	uint64_t began_ns;
	uint32_t slot;
	uint64_t life, off;
	struct view *view;
	struct put *put;
	struct ending *ending;
	int result; /* for who ordered the task, like `found` */
	struct put *found;
};

struct proc {
	struct host *host;
	unsigned index;
	bool alive;
	uint64_t born_ns; /* when its place is taken by a new process */
	uint32_t pid;
	struct lane_id lane;
	bool hello_sent, greeted; /* on the lane */
	bool attached;
	uint32_t cid, incarnation;
	uint8_t token[16];
	struct holder holder;
	uint64_t ops; /* numbers of puts and takes given out */
	uint64_t reports;
	uint64_t wait_ns; /* it does nothing until then */
	uint32_t tells[SIM_TELLS];
	unsigned tell_count;
	struct put *read; /* of which an end of a read is to be reported, */
	uint64_t read_generation;
	struct view views[SIM_VIEWS];
	struct call call;
	struct task task;
};

/* ---- hosts --------------------------------------------------------------- */

enum event_kind {
	EVENT_STEP,
	EVENT_PEER_UP,
	EVENT_PEER_DOWN,
	EVENT_PEER_ANSWER,
	EVENT_LINK,
	EVENT_LINK_MESSAGE,
	EVENT_LINK_CLOSE,
	EVENT_FETCH,
	EVENT_DIR_ANSWER,
	EVENT_DIR_LOST,
	EVENT_DIR_NEWS
};

struct event {
	enum event_kind kind;
	uint32_t number; /* place, fetch or domain */
	uint64_t link;
	uint32_t channel;
	const void *message;
	size_t size;
	int err;
	uint64_t checksum;
	struct dir_call *call;
};

/* What a client there is to order next. */
enum drain_wish {
	DRAIN_WISH_NONE,
	DRAIN_WISH_BEGIN,
	DRAIN_WISH_END
};

struct host {
	struct sim *sim;
	unsigned index;
	struct sim_world world;
	bool has_disk;
	struct sim_tier tier;
	uint64_t id, incarnation;
	char endpoint[32];
	/* Its clocks: boot_ns at true_ns, and `rate` of a thousand since. */
	uint64_t boot_ns, true_ns, rate;
	int64_t wall_us;             /* from CLOCK_BOOTTIME to the wall clock */
	uint64_t life;               /* of its daemon: starts so far */
	uint64_t start_ns;           /* when the next one starts */
	uint64_t stopped_ns;         /* until when it does nothing */
	uint64_t next_ns;            /* when the daemon turns by itself */
	bool is_dirty;               /* it was told something since it turned */
	bool loses_pool, loses_disk; /* before the next start */
	uint64_t lost_ns;            /* when it lost its pool last; 0: never */
	bool was_empty;              /* it was drained, so that nothing is lost with it */
	enum drain_wish drain_wish;
	uint64_t drained_ns; /* when it was seen drained last; 0: never */
	uint64_t leave_ns;   /* when it is thrown away, being empty; 0: it is not */
	bool leaves;         /* its daemon is to end in order */
	uint64_t kill_after; /* calls to its world until its death; 0: not ordered */
	unsigned unchecked;  /* events since node_check() */
	uint64_t idle_turns;
	struct offer offers[SIM_OFFERS];
	uint64_t last_link;
	struct office office;
	struct proc procs[SIM_PROCS];
	struct log log;
	struct env below; /* of the world, under host_env.c */
};

/* ---- the keeper's role on its way ---------------------------------------- */

enum hand_step {
	HAND_ASKED,   /* KEEP is on its way */
	HAND_TAKEN,   /* and there */
	HAND_MOVING,  /* the bytes are being pulled */
	HAND_PULLED,  /* the taker's slot says that it keeps them */
	HAND_STEPPED, /* so does the directory */
	HAND_TOLD,    /* KEPT is on its way */
	HAND_KEPT,    /* and there */
	HAND_STEPS
};

/* Something goes wrong when that step is reached. */
struct snare {
	bool is_set, is_sprung;
	enum hand_step step;
	struct host *giver, *taker; /* once it is sprung, */
	uint32_t key;               /* and whose object it is; SIM_KEYS: not known */
};

/* ---- the run ------------------------------------------------------------- */

/* GATHER: no trouble, and nothing new begins. */
enum sim_phase {
	SIM_STORM,
	SIM_CALM,
	SIM_GATHER
};

struct sim_profile {
	unsigned hosts, procs, keys;
	uint64_t pool_sizes[SIM_HOSTS];
	bool is_tight; /* pools are full now and then */
	bool has_disk[SIM_HOSTS];
	bool hands;  /* what is kept has to move, and is cut on its way */
	bool drains; /* nodes are emptied */
	bool heirs;  /* those go that alone keep what others have copies of */
	uint64_t size_most;
	uint64_t think_ns; /* between two tasks of a client, on average */
	uint64_t far_ns;   /* from node to node, on average */
	unsigned softpin, ttl, readers, durable, replace; /* percent of puts */
	unsigned removes; /* percent of those removals that there are at most */
	unsigned large;   /* percent of sizes */
	uint64_t storm_ns, calm_ns, gust_ns; /* gust: between two troubles of a storm */
	unsigned
		noise; /* of 10,000 messages with a value, or pieces of one, are spoilt */
	bool short_leases;
	bool wild;      /* any number of troubles at a time; else one */
	uint64_t piece; /* bytes of a transfer's step */
};

struct sim {
	uint64_t seed, steps, step;
	struct rng rng;
	struct trace trace;
	struct cover *cover;
	uint64_t now_ns;
	struct sim_profile profile;
	enum sim_phase phase;
	uint64_t phase_end_ns, gust_ns;
	struct host *hosts;             /* [profile.hosts] */
	bool cut[SIM_HOSTS][SIM_HOSTS]; /* from, to */
	struct list wires, transfers;
	uint64_t last_wire;
	struct registry registry;
	struct ledger ledger;
	struct troubles trouble;
	struct snare snare;
	uint32_t crowded_key;
	uint64_t drain_ns;   /* when a node is to be drained, or not any more */
	struct list repairs; /* of troubles that are there; chaos.c */
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

/* Something about `mean` long: mostly shorter, sometimes much longer. */
uint64_t sim_about(struct sim *sim, uint64_t mean);

/* One thing happens. */
void sim_turn(struct sim *sim);

/* ---- profile.c, chaos.c, end.c ------------------------------------------- */

void profile_choose(struct sim *sim);
void profile_tweak(struct sim *sim, struct node_config *config);
void chaos_init(struct sim *sim);
void chaos_fini(struct sim *sim);
void chaos_step(struct sim *sim);
/* When the next trouble begins or ends. */
uint64_t chaos_next(const struct sim *sim);
/* Bytes are to be spoilt on their way now. */
bool noise_is_due(struct sim *sim);
/* No trouble is left. */
void chaos_heal(struct sim *sim);
void end_run(struct sim *sim);
/* With all at rest: every node and the directory agree. `is_read`: each node has asked for
 * every key since. */
void end_check(struct sim *sim, bool is_read);

/* ---- hand.c -------------------------------------------------------------- */

/* A message between daemons, sent or `arrived`. */
void hand_message(const struct wire *wire, enum wire_end to, const void *message,
	size_t size, bool arrived);
/* An object's bytes are about to go from one to the other. */
void hand_pull(struct host *giver, struct host *taker, uint32_t key);
/* A call of the directory is on its way, or has taken effect. */
void hand_call(struct host *taker, const struct dir_call *call, bool applied);
/* Some step is waited for. */
void snare_set(struct sim *sim);
/* It was reached, just now. */
bool snare_sprung(struct sim *sim, struct snare *ret);

/* ---- drain.c ------------------------------------------------------------- */

bool host_is_drained(const struct host *host);
/* At that time, or later. */
bool host_was_drained(const struct host *host, uint64_t since);
/* A client there orders it, or its end. */
void drain_plan(struct host *host);
/* The client has done so. */
bool drain_choose(struct proc *proc);
void drain_task_step(struct proc *proc);
/* Those that say that they are empty must be, and go. */
void drains_look(struct sim *sim);
uint64_t drains_next(const struct sim *sim);

/* ---- host.c -------------------------------------------------------------- */

void host_init(struct sim *sim, unsigned index);
void host_fini(struct host *host);
static inline bool host_is_up(const struct host *host)
{
	return host->world.node != NULL;
}

/* It runs, and is not stopped. */
bool host_is_awake(const struct host *host);
/* CLOCK_BOOTTIME there, now. */
uint64_t host_boot_ns(const struct host *host);
/* Set the world's clocks, before anything is called there. */
void host_tick(struct host *host);
void host_start(struct host *host);
/* As by kill -9; `with_host`: and its host is off, with all clients and maybe its pool. */
void host_kill(struct host *host, bool with_host);
/* It takes its leave of the others, and then its daemon ends. */
void host_leave(struct host *host);
void host_tell(struct host *host, const struct event *event);
/* After any other call of its world: it may have died of it. */
void host_called(struct host *host);
/* It dies inside a call, and what others had of it is gone. Before its memory is. */
void host_dies(struct host *host);
bool host_is_due(const struct host *host);
uint64_t host_next(const struct host *host);

/* ---- host_env.c ---------------------------------------------------------- */

void host_env_init(struct host *host);

/* ---- wire.c -------------------------------------------------------------- */

void wire_dial(struct host *host, uint32_t place, const char *endpoint);
void wire_send(struct host *host, uint32_t place, uint32_t channel, const void *message,
	size_t size);
void wire_answer(struct host *host, uint64_t link, uint32_t channel, const void *message,
	size_t size);
/* The daemon closes its end. */
void wire_hang_up(struct host *host, uint32_t place);
void wire_hang_up_link(struct host *host, uint64_t link);
/* The connection that the daemon dialed to the place; NULL. */
struct wire *wire_find(const struct host *host, uint32_t place);
/* It breaks in the middle: both ends are told. */
void wire_break(struct sim *sim, struct wire *wire);
/* The daemon is gone; with its host, nobody is told soon. */
void wire_host_died(struct host *host, bool with_host);
/* The first frame to an end, if it can arrive now. */
bool wire_is_due(const struct sim *sim, const struct wire *wire, enum wire_end end);
void wire_deliver(struct sim *sim, struct wire *wire, enum wire_end end);
/* Cuts came or went: what is stuck, and since when. */
void wires_look(struct sim *sim);
/* One whose patience is over breaks. True: there was one. */
bool wires_lose_patience(struct sim *sim);
uint64_t wires_next(const struct sim *sim);
bool wires_are_quiet(const struct sim *sim);
void wires_free(struct sim *sim);
/* Neither way is cut. */
bool hosts_are_joined(const struct sim *sim, const struct host *a, const struct host *b);

/* ---- transfer.c ---------------------------------------------------------- */

int transfer_offer(struct host *host, const struct peer_offer *offer,
	struct peer_ticket *ret_ticket);
void transfer_withdraw(struct host *host, const struct peer_ticket *ticket);
void transfer_begin(struct host *host, uint32_t number, const struct peer_fetch *what);
void transfer_stop(struct host *host, uint32_t number);
/* All over that connection end. */
void transfers_break(struct sim *sim, const struct wire *wire);
/* Those of its daemon are no more; what it offered neither. */
void transfer_host_died(struct host *host);
bool transfer_is_due(const struct sim *sim, const struct transfer *transfer);
void transfer_step(struct sim *sim, struct transfer *transfer);
uint64_t transfers_next(const struct sim *sim);
void transfers_free(struct sim *sim);

/* ---- registry.c ---------------------------------------------------------- */

void registry_init(struct sim *sim);
void registry_fini(struct sim *sim);
struct dir registry_open(struct host *host);
/* Before the daemon's memory is gone. */
void registry_close(struct host *host);
void registry_call(struct host *host, struct dir_call *call);
bool letter_is_due(const struct sim *sim, const struct letter *letter);
void letter_step(struct sim *sim, struct letter *letter);
bool office_is_due(const struct host *host);
void office_step(struct host *host);
uint64_t registry_next(const struct sim *sim);
/* Of a host, or of all (NULL). */
void registry_cut(struct sim *sim, struct host *host, bool cut);
/* It forgets all of a domain, or the last changes. */
void registry_forget(struct sim *sim, unsigned domain, bool all);
/* Notice what is news to each node. */
void registry_look(struct sim *sim);

/* ---- proc.c -------------------------------------------------------------- */

void proc_init(struct host *host);
void proc_start(struct proc *proc);
void proc_kill(struct proc *proc);
void procs_host_lost(struct host *host);
bool proc_can_step(const struct proc *proc);
void proc_step(struct proc *proc);
uint64_t proc_next(const struct proc *proc);
/* What is held stays where it is, and nobody waits for ever. */
void procs_check(struct sim *sim);
/* All bytes that are held are their put's. */
void view_read(struct proc *proc, const struct view *view);
void proc_fini(struct proc *proc);

/* Ask; the message of `size` bytes is in sim->out. Size 0: only attach. */
void call_begin(struct proc *proc, size_t size, uint64_t timeout_ns, bool repeats);
void call_end(struct proc *proc);
/* The code of the answer, 0 if it is no ERROR, ERR_RPC_FAIL if there is none. */
int call_code(const struct proc *proc);
/* A one-way message, if there is a connection. */
void proc_send(struct proc *proc, size_t size);

/* ---- proc_attach.c ------------------------------------------------------- */

/* On the way to a connection that was greeted; true: there is one. */
bool proc_connect(struct proc *proc);
/* The answer to its HELLO, if it is there. */
void proc_greeting(struct proc *proc);
bool proc_has_lane(const struct proc *proc);
bool proc_has_answer(const struct proc *proc);

/* ---- task.c, task_get.c, task_put.c, task_more.c ------------------------- */

void task_choose(struct proc *proc);
void task_begin(struct proc *proc, enum task_kind kind, uint32_t key);
void task_step(struct proc *proc);
void task_end(struct proc *proc);
struct index_key sim_key(const struct host *host, uint32_t key);
struct msg_bytes sim_key_bytes(const struct sim *sim, uint32_t key);
/* Whose object the slot has; SIM_KEYS: none's. */
uint32_t sim_key_of(const struct host *host, uint32_t slot);

void get_step(struct proc *proc);
void reread_step(struct proc *proc);
void release_step(struct proc *proc);
void take_step(struct proc *proc);
void report_step(struct proc *proc);
void put_begin(struct proc *proc);
void put_step(struct proc *proc);
void remove_step(struct proc *proc);
void remove_prefix_step(struct proc *proc);
void stat_step(struct proc *proc);
void list_step(struct proc *proc);
void view_close(struct proc *proc, struct view *view);

/* ---- judge.c, judge_put.c ------------------------------------------------ */

/* Whose bytes these are; fails if they are no one put's of the key. */
struct put *judge_bytes(struct sim *sim, uint32_t key, const unsigned char *bytes,
	uint64_t size, uint64_t generation);
/* A read that began then found this put, on the host. */
void judge_found(
	struct host *host, const struct put *put, uint64_t generation, uint64_t began_ns);
/* It was over, and the host may find it all the same. */
bool ending_is_excused(const struct host *host, const struct ending *ending,
	const struct put *put, uint64_t generation, uint64_t began_ns);
/* The answer is that there is none, or that it cannot be had. */
void judge_not_found(struct host *host, uint32_t key, uint64_t began_ns, int code);
bool is_newcomer(const struct host *host);
/* A refusal that only trouble, or want of room, explains. */
void judge_refused(struct host *host, uint32_t key, uint64_t began_ns,
	uint64_t timeout_ns, int code, const char *what);
void judge_put(struct host *host, struct put *put, const struct call *call, int code,
	const struct msg_done *done);
/* It is over, for one that was put while nobody could know of both, and is not acknowledged yet. */
bool put_has_given_way(const struct sim *sim, const struct put *put);

/* ---- replicas.c ---------------------------------------------------------- */

/* It was put, and so many keep it. */
void judge_level(
	struct host *host, struct put *put, const struct call *call, uint16_t keepers);
/* It was refused after it was there, since too few came to keep it. */
void judge_short(
	struct host *host, const struct put *put, const struct call *call, int code);
/* `keepers` keep it now: not too few, nor too many for long. */
void judge_keepers(struct sim *sim, const struct put *put, unsigned keepers);
void judge_excess(struct sim *sim, struct put *put, unsigned keepers);
/* One that alone keeps an object of which several others have copies; NULL: there is none. */
struct host *host_find_only_keeper(struct sim *sim);
/* A call of a node that is to become a keeper has taken effect. */
void replicas_call(struct host *taker, const struct dir_call *call);
/* With all at rest: as many are wanted as its put asked for. */
void judge_entry(struct sim *sim, const struct dir_id *id, const struct dir_entry *entry);
/* An object that fewer nodes keep than are to; `helped`: though others could. NULL: there is
 * none. */
const struct put *put_find_short(const struct sim *sim, bool helped);
/* Until when a node takes it for one that is being removed by its prefix; 0: none does. */
uint64_t put_swept_until(const struct sim *sim, const struct put *put);

/* ---- keep.c -------------------------------------------------------------- */

/* Not as a copy that may go: in its pool, or on its disk. */
bool host_keeps(const struct host *host, uint32_t key, uint64_t generation);
/* READY in its pool, or on its disk, whoever keeps it. */
bool host_has_copy(const struct host *host, uint64_t generation);
/* It still has to tell others, or the directory, that a later one than that was removed. */
bool host_has_grave(const struct host *host, uint32_t key, uint64_t above);
/* Every object that must be there is kept by somebody; note by whom. */
void keepers_look(struct sim *sim);
/* Who has kept the put at `from` or later was down or stopped, or cut off from the asker. */
bool keeper_was_away(const struct sim *sim, uint32_t asker, const struct put *put,
	uint64_t from, uint64_t to);
/* All who have, whoever put it, and without a break from then on. */
bool keepers_are_gone(
	const struct sim *sim, uint32_t asker, const struct put *put, uint64_t from);
/* Who has kept it had that trouble, or any other. */
bool keeper_was_troubled(
	const struct sim *sim, const struct put *put, uint64_t from, uint64_t to);
/* The host has not met who keeps it, which cannot say to the directory that it is there. */
bool keeper_is_strange(const struct host *asker, const struct put *put);
/* Its pool is gone, and maybe its disk: what it alone kept is lost. */
void keeper_lost(struct host *host);

#endif
