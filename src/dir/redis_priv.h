/*
 * redis_priv.h - the directory on Redis, inside.
 *
 *   server  a master, or one to be: its connection, its epoch, the jobs it has; redis_epoch.c
 *   job     a call under way; redis_job.c
 *   map     which server has which slot; redis_map.c. A single Redis has them all
 *   scout   the connection that asks for the map while no server can; redis_scout.c
 *
 *   job:  WAITING --its server is ready--> SENT --its answer--> ANSWERED --the epoch--> done
 *            ^ ^-- moved, broken ----------' |
 *            '---- DELAYED <-- not now ------'
 *
 * A domain is a server that has slots, by its index in dir.servers[]. Events for the owner
 * are collected and told from dir_redis_turn() alone.
 *
 * Memory    servers lie in the directory, jobs on the heap. The map is taken over in
 *           dir_redis_turn() only, since that ends servers, whose connections may be on the
 *           stack elsewhere.
 */
#ifndef DIR_REDIS_PRIV_H
#define DIR_REDIS_PRIV_H

#include "base/list.h"
#include "dir/dir_redis.h"
#include "dir/redis_conn.h"
#include "dir/redis_slots.h"
#include "dir/redis_url.h"

#define REDIS_SERVERS   DIR_DOMAINS
#define REDIS_KEY_MAX   128u
#define REDIS_EPOCH_MAX 160u        /* of the value of an epoch's key */
#define RETRY_NS        20000000ull /* until a job is tried again */
#define PING_NS         1000000000ull
#define LOST_NS         1000000000ull /* without a connection, until the owner is told, */
#define STALE_NS        3000000000ull /* and with one over which no epoch can be read */
#define WARN_NS         60000000000ull
#define WARN_TEXTS      8u
#define REDIRECTS       5u             /* that are followed at once */
#define MAP_NS          10000000000ull /* between two looks at the map, */
#define MAP_SOON_NS     200000000ull   /* while something is wrong with it, */
#define MAP_LEAST_NS    20000000ull    /* and at the least */
#define GUEST_NS        10000000000ull /* without slots and use, a server is left */

_Static_assert(REDIS_SERVERS <= UINT8_MAX, "an owner is one byte");
#define NO_SERVER UINT8_MAX

enum redis_job_state {
	JOB_WAITING,
	JOB_DELAYED,
	JOB_SENT,
	JOB_ANSWERED
};

struct redis_job {
	struct list
		entry; /* of dir.waiting, dir.delayed, server.answered; none if SENT */
	struct list by_age; /* of dir.jobs */
	uint64_t number;    /* rising: who waits is sent in this order */
	struct dir_redis *dir;
	struct dir_call *call; /* NULL: given up, but its answer is still to come */
	enum redis_job_state state;
	uint64_t deadline_ns, retry_ns;
	char key[REDIS_KEY_MAX];
	size_t key_size;
	uint32_t slot;
	struct server *server; /* that it was sent to */
	struct server *ask;    /* that is to be asked for once, or NULL */
	uint32_t redirects, attempts;
	bool as_text;     /* the server had not got the script */
	uint64_t ends_ms; /* of a look-up: when the entry goes, by the server's clock */
};

struct server {
	struct dir_redis *dir;
	bool used;
	char node
		[REDIS_NODE_SIZE]; /* id in the cluster; "": of a single Redis, or unknown */
	struct redis_conn conn;
	uint32_t slot_count;
	struct list answered; /* jobs */
	uint64_t guest_ns;    /* without slots: when it was last asked for a key */
	/* its epoch: redis_epoch.c */
	char epoch_key[REDIS_KEY_MAX]; /* "": it has no slot to have one */
	uint32_t tag_slot;             /* REDIS_SLOTS: none */
	bool tag_in_cluster;
	bool is_open;          /* commands were added since the epoch was last read */
	uint32_t reads, stale; /* of it, under way; of those, of a key not current */
	bool life_is_fresh;    /* asked for since the epoch's key was found wrong */
	bool beginning;        /* of a new one is under way */
	uint64_t epoch;        /* as it was last read; 0 = not yet */
	uint64_t proposed;     /* of this node, the last */
	uint64_t outdated;     /* an epoch that does not count any more, or 0 */
	uint64_t clock_ms;     /* the server's, read before it */
	uint64_t ping_ns;
	/* what the owner is told */
	bool is_settled; /* the epoch was read, and it has not been lost since */
	bool is_known;   /* there is `current` to be told */
	bool heard;      /* `told` was */
	uint64_t current, told;
	uint64_t lost_ns;  /* when it counts as lost; UINT64_MAX: it does already */
	uint64_t again_ns; /* when to tell of it again; UINT64_MAX = not at all */
};

struct scout {
	struct redis_conn conn;
	uint32_t at; /* whose turn it is, of the seeds and then of the servers */
	uint64_t when, backoff_ns;
};

struct dir_redis {
	struct loop *loop;
	struct dir_events events;
	void (*warn)(void *ctx, const char *text);
	void *warn_ctx;
	char name[DIR_REDIS_NAME_MAX + 1];
	struct redis_url url;
	char *tls_texts[5]; /* what access.tls points to */
	struct redis_scripts scripts;
	struct redis_access access;
	uint64_t timeout_ns;

	struct list jobs; /* all that have a call, the oldest first */
	struct list waiting, delayed;
	struct list finished; /* calls, until they are told */
	struct list free_jobs;
	uint64_t job_numbers;
	bool dispatch; /* waiting jobs may go on */

	struct server servers[REDIS_SERVERS];
	uint8_t owner[REDIS_SLOTS];   /* index of servers[], or NO_SERVER */
	uint8_t leaving[REDIS_SLOTS]; /* it migrates: no place for an epoch */
	bool is_cluster;
	struct scout scout;
	struct slot_map *map;    /* as it came, */
	bool map_came;           /* and not taken over yet */
	bool map_asked;          /* it is under way */
	uint64_t map_asked_ns;   /* when it was asked for last, */
	uint64_t map_ns;         /* and is to be again */
	struct server *map_from; /* whom to ask first, or NULL */
	uint32_t map_at;         /* whom next */

	struct dir_redis_info info;
	struct {
		char text[REDIS_WHY_MAX];
		uint64_t when;
	} warned[WARN_TEXTS];
	uint32_t warned_at;
};

/* ---- dir_redis.c --------------------------------------------------------- */

void PRINTF_LIKE(2, 3) redis_warn(struct dir_redis *dir, const char *format, ...);

/* ---- redis_job.c --------------------------------------------------------- */

/* NULL: no memory. */
struct redis_job *redis_job_new(struct dir_redis *dir, struct dir_call *call);
/* Its server cannot go on with it: back to WAITING. */
void redis_job_return(struct redis_job *job);
/* The call has ended with what is in it. */
void redis_job_finish(struct redis_job *job);
/* Send what waits and can be sent. */
void jobs_dispatch(struct dir_redis *dir);
/* Whose time has come. */
void jobs_due(struct dir_redis *dir, uint64_t now);

/* ---- redis_command.c, redis_result.c ------------------------------------- */

/* Name its key, and so its slot. */
void redis_job_name_key(struct redis_job *job);
uint32_t slot_of_id(const struct dir_redis *dir, const struct dir_id *id);
/* Add its command to what the connection sends. */
bool redis_job_add_command(
	struct redis_job *job, struct redis_conn *conn, redis_reply_fn fn) MUST_CHECK;
/* What a result says, into the call. False: it makes no sense. */
bool redis_job_take_data(struct redis_job *job, const redisReply *reply) MUST_CHECK;

/* ---- redis_epoch.c ------------------------------------------------------- */

/* The server's set of slots, or which of them can have an epoch, has changed. */
void epoch_choose_key(struct server *server);
/* End a pipeline: the reads that settle what was answered in it. */
void epoch_read(struct server *server);
/* The next look has to be sooner. */
void epoch_look_soon(struct server *server);
void epoch_ping(struct server *server, uint64_t now);
/* What the owner is told of it from now on. */
void epoch_set_news(struct server *server, uint64_t epoch);
/* Its connection broke; it cannot be reached. */
void epoch_down(struct server *server, uint64_t now);
void epoch_lost(struct server *server);
void epoch_tell(struct server *server, uint64_t now);

/* ---- redis_map.c --------------------------------------------------------- */

void map_init(struct dir_redis *dir);
void map_fini(struct dir_redis *dir);
struct server *map_route(struct dir_redis *dir, uint32_t slot);
/* NULL: none is at this address. */
struct server *map_find_address(struct dir_redis *dir, const struct address *address);
/* One that is not in the map yet; NULL: there is no place for it. */
struct server *map_add_guest(struct dir_redis *dir, const struct address *address);
/* A server has said that it is not its slot any more. */
void map_moved(struct dir_redis *dir, uint32_t slot, struct server *to);
/* Ask for the map, of `from` if it is not NULL. */
void map_want(struct dir_redis *dir, struct server *from);
/* What asks for the map, and what came of it: false, it makes no sense. */
extern const char *const map_words[];
bool map_take(struct dir_redis *dir, struct redis_conn *conn, const redisReply *reply);
/* Take over a map that came, ask for one, look for a server where none is ready. */
void map_turn(struct dir_redis *dir, uint64_t now);
uint64_t map_next(const struct dir_redis *dir);

/* ---- redis_scout.c ------------------------------------------------------- */

void scout_init(struct dir_redis *dir);
void scout_fini(struct dir_redis *dir);
void scout_turn(struct dir_redis *dir, uint64_t now);
void scout_stop(struct dir_redis *dir); /* a server is connected */
uint64_t scout_next(const struct dir_redis *dir);

#endif
