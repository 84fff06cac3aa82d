/*
 * world.h - a world in memory for one node: segments, processes, connections and a clock
 * that only turns when told.
 *
 *	sim_world_open(&world, &setup);
 *	sim_world_start(&world);
 *	lane = sim_connect(&world, pid);
 *	sim_send(&world, lane, message, size);
 *	sim_settle(&world);
 *	size = sim_receive(&world, lane, reply, &grant);
 *	sim_kill_daemon(&world); sim_world_start(&world); ...
 *
 * The segments, the processes and the clock outlive the daemon. An event that follows
 * from the node's own call (a lane it closed) is told by sim_settle(), not from inside
 * that call. Count files and the index are checked to be allocated before they are used.
 *
 * Units     bytes; ns.
 * Memory    everything is allocated by sim_world_open() or grows with malloc, and goes
 *           with sim_world_close().
 * Errors    a broken rule of the env stops the program by CHECK.
 * Thread    one.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/rng.h"
#include "disk.h"
#include "node/node.h"

#include <setjmp.h>

#define SIM_LANES     4096u
#define SIM_PROCESSES 4096u

struct sim_message {
	struct sim_message *next;
	bool has_grant;
	struct env_grant grant;
	size_t size;
	unsigned char bytes[];
};

struct sim_lane {
	bool open;    /* the node knows it */
	bool closing; /* to be told by the next sim_settle() */
	uint32_t life;
	uint32_t pid;
	struct sim_message *first, **last; /* answers that the client has not taken */
};

struct sim_process {
	bool alive;
	uint32_t pid;
	uint32_t uid;
	uint64_t start_time;
};

/* A counts file. */
struct sim_holds {
	_Atomic uint16_t *counts; /* slots_limit of them; NULL: no file */
	uint32_t incarnation;
	uint32_t nslots; /* allocated */
};

struct sim_setup {
	uint64_t pool_size;
	uint32_t nslots; /* at first */
	uint64_t seed;
	void (*tweak)(struct node_config *config); /* after the defaults; may be NULL */
};

struct sim_world {
	struct sim_setup setup;
	struct rng rng;
	uint64_t now_ns, wall_us;

	struct share share;
	unsigned char *index;
	unsigned char *index_there; /* a byte for each page: allocated */
	struct sim_holds holds[CLIENT_LIMIT];
	bool disk_is_full;     /* no file can grow; new counts files can still be made */
	struct sim_tier *tier; /* the caller's, set before a start; NULL: no disk tier */

	struct sim_process processes[SIM_PROCESSES];
	uint32_t process_count;
	uint32_t watched[CLIENT_LIMIT]; /* pid, 0 = nobody */
	struct sim_lane lanes[SIM_LANES];
	uint32_t lane_count; /* that were ever open */

	/* Of who has more to give a daemon than this world. NULL: nothing. */
	void (*before_new)(struct sim_world *world, struct env *env);
	int (*before_start)(struct sim_world *world, struct node *node);

	struct node_config config;
	struct fault_table faults;
	struct node *node; /* NULL: no daemon runs */
	struct recovery recovery;
	bool dead;      /* a fault killed it; sim_settle() buries it */
	jmp_buf *death; /* where a killed daemon's stack ends */
	uint64_t sent;  /* messages from the node so far */
};

void sim_world_open(struct sim_world *world, const struct sim_setup *setup);
void sim_world_close(struct sim_world *world);
/* The host stops, while no daemon runs: the segments are made anew. */
void sim_world_lose(struct sim_world *world);
/* This world for a node, for who puts calls of its own before or in place of some. */
struct env sim_env(struct sim_world *world);
/* What clients may touch has been allocated before they could know of it. */
void sim_check_holes(const struct sim_world *world);

/* ---- the daemon ---------------------------------------------------------- */

int sim_start_daemon(struct sim_world *world);
/* Run `what` on the node, where a death of its own may be ordered. False: it died, or was not
 * there. */
bool sim_call(
	struct sim_world *world, void (*what)(struct sim_world *, void *arg), void *arg);
/* As by kill -9: the segments and the disk tier stay, every lane breaks. */
void sim_kill_daemon(struct sim_world *world);
/* Turn the node until it has nothing more to do now, and tell it what follows. False: it
 * died (a fault's kill) or was not there. */
bool sim_settle(struct sim_world *world);
/* One step of it and what follows; *ret_more: there is more to do. */
bool sim_step(struct sim_world *world, bool *ret_more);
/* Let time pass, turning the node at each moment at which it wants to be; settles. */
bool sim_advance(struct sim_world *world, uint64_t ns);

/* ---- clients ------------------------------------------------------------- */

/* A new process; its pid. */
uint32_t sim_process(struct sim_world *world, uint32_t uid);
/* It ends: its lanes close, who watches it is told. Settle afterwards. */
void sim_process_end(struct sim_world *world, uint32_t pid);
struct lane_id sim_connect(struct sim_world *world, uint32_t pid);
void sim_disconnect(struct sim_world *world, struct lane_id lane);
bool sim_lane_is_open(const struct sim_world *world, struct lane_id lane);
/* False: the lane is closed, nobody took it, or the daemon died of it. */
bool sim_send(
	struct sim_world *world, struct lane_id lane, const void *message, size_t size);
/* The next answer, to be freed; NULL: none. */
struct sim_message *sim_receive(struct sim_world *world, struct lane_id lane);
/* The counts file of a client as its process has it mapped. */
_Atomic uint16_t *sim_counts(struct sim_world *world, uint32_t cid, uint32_t incarnation);

#endif
