/*
 * cluster_priv.h - what a node does with other nodes, and with the directory.
 *
 *   peer   a place for another node, whom this one asks; peer.c
 *   ask    one request to a peer, from ask_send() to its end; ask.c
 *   link   a connection from another node, over which this one is asked; link.c. What it
 *          asks is served as a client's requests are, each on a lane of its own
 *   query  one call of the directory; query.c
 *   errand a call of the directory that nobody waits for, repeated until it is done; errand.c
 *   fetch  an object on its way from a peer, for all who ask for it; flow_fetch.c
 *   swapout  an object that another node is to keep in this one's place; swapout.c
 *   drain  this node is being emptied; drain.c
 *   rebuild  an object that lost a keeper, and gets another; rebuild.c
 *   yield  the role of a keeper that another node has, too, is given up; yield.c
 *   leave  this node ends in order, and peers that do; leave.c
 *   replaced  a peer whose place in the network is another's: it is gone for good; replaced.c
 *   grave  what was removed, for those who could not be told; grave.c
 *   swept  a prefix of which nothing older is taken over, since it is being removed; swept.c
 *
 *   peer:  FREE --peer_meet--> DOWN --connect--> CONNECTING --up--> GREETING --WELCOME--> UP
 *            ^                  ^--- broken ------------'---------------'--------------'|
 *            |                  '--- broken --- CLOSING <--- SUSPECT_NS without an answer
 *            '--- not live, not a member, and its place is wanted
 *
 * A peer is *live* until it was not heard of for GONE_NS: until then it counts as having
 * whatever it may have. It is *up* while it can be asked; one that is live and not up is
 * suspect, and readers go elsewhere.
 *
 * Memory    all from node_join_cluster().
 * Thread    the loop thread.
 */
#ifndef NODE_CLUSTER_PRIV_H
#define NODE_CLUSTER_PRIV_H

#include "base/hist.h"
#include "base/list.h"
#include "base/rng.h"
#include "core/master.h"
#include "dir/dir.h"
#include "io/env.h"
#include "wire/msg.h"

#define BEAT_NS          250000000ull
#define SUSPECT_NS       1000000000ull
#define GONE_NS          3000000000ull
#define RENEW_NS         1000000000ull
#define RECONNECT_NS     100000000ull  /* the least time between two attempts, */
#define RECONNECT_MOST   1000000000ull /* and the most */
#define CLUSTER_RETRY    100000000ull  /* ns until the directory is asked once more */
#define TELL_AGAIN_NS    60000000000ull
#define GRAVE_NS         3600000000000ull
#define GRAVE_LIMIT      1048576u
#define ERRAND_LIMIT     65536u
#define ENTRY_REST_NS    1000000000ull
#define ERRANDS_AT_ONCE  64u
#define ERRAND_PAUSE_NS  1000000ull /* in which others may come */
#define ANNOUNCE_AT_ONCE 64u
#define ASK_LIMIT        16384u /* under way at once, to all peers */
#define FETCH_BUCKETS    1024u
#define KEEPS_AT_ONCE    8u             /* objects that this node takes over for others */
#define KEEPS_FEW_NS     10000000000ull /* so long after the start it is one */
#define SWAPOUT_PAUSE_NS 10000000ull    /* before one that is busy is asked once more */
#define SWAPOUT_WAIT_NS  10000000000ull /* until the peer gives up to take one over */
#define YIELDS_AT_ONCE   64u
#define LEAVE_WAIT_NS    2000000000ull /* for what a node that ends has begun */
#define LEAVE_TELL_NS    500000000ull  /* to tell the directory, then peers */
#define SPEED_LEAST      1048576u /* what is smaller tells nothing of bytes a second */
#define INLINE_LIMIT     65536u   /* a value up to this size comes with the answer */

struct node;
struct lane;
struct op;
struct ask;
struct query;

/* ---- peers --------------------------------------------------------------- */

enum peer_state {
	PEER_FREE,
	PEER_DOWN,
	PEER_CONNECTING,
	PEER_GREETING,
	PEER_UP,
	PEER_CLOSING /* until its end is reported */
};

struct peer {
	enum peer_state state;
	uint64_t id, incarnation;
	char endpoint[DIR_ENDPOINT_MAX];
	uint64_t
		heard_ns; /* last, over either connection; when it was met, before that */
	uint64_t answered_ns; /* the same for answers alone */
	uint64_t member_ns;   /* when the directory named it last */
	uint64_t retry_ns;    /* when to connect again, */
	uint64_t backoff_ns;  /* after that much */
	uint64_t beat_ns;     /* when it is to be told that we live */
	bool beating;         /* it has not answered the last time yet */
	uint64_t epochs_ns;   /* when it said the epochs below, or earlier */
	uint64_t
		refused_ns; /* when it was told last that this is not the peer; 0 = never */
	bool was_gone;      /* since it was up last */
	bool was_cut;   /* it was up, or the directory heard of it, and then it was not */
	bool left;      /* it said so, and neither was up nor has greeted since */
	bool replaced;  /* another node is at its endpoint: it is gone for good */
	bool overtaken; /* it may not know that it is a keeper no more, */
	uint64_t told_ns;    /* and was told so at that time over this connection */
	uint64_t free_bytes; /* that it would keep for others, when it last said so */
	bool no_disk;        /* it said so since it is up */
	uint64_t
		generation; /* the highest it knew when it said something last; 0: nothing yet */
	uint64_t epochs[DIR_DOMAINS]; /* under which it has announced all */
	uint32_t epoch_count;
	struct list asks;
};

/* ---- asks ---------------------------------------------------------------- */

/* The answer, or err with no message. Comes exactly once, never from inside ask_send(). */
typedef void (*ask_done_fn)(
	struct node *node, struct ask *ask, int err, const void *message, size_t size);

struct ask {
	struct list entry; /* of peer.asks, or free */
	uint32_t peer;
	uint32_t serial; /* tells a late answer to an earlier ask of this place */
	ask_done_fn done;
	struct op *op;        /* who waits for it, or NULL */
	void *owner;          /* the same for what is no op */
	struct list op_entry; /* of op.asks */
	uint64_t sent_ns;
};

/* ---- what others have ---------------------------------------------------- */

struct other {
	uint64_t generation, size;
	uint32_t flags; /* DIR_SOFTPIN */
	bool secondary;
};

/* Who asks all other nodes, and where the asks go. */
struct everyone {
	struct list *asks;
	struct op *op;
	void *owner;
	ask_done_fn done;
	uint64_t skipped; /* places that are not asked, a bit each */
};

/* ---- links --------------------------------------------------------------- */

struct link {
	struct list entry; /* of cluster.links */
	struct link_id id;
	uint32_t peer; /* who it is; PEER_LIMIT: has not said HELLO yet */
	bool closing;
	struct list lanes; /* by link_entry: one a request under way */
	char address[DIR_ENDPOINT_MAX];
	bool told; /* in the log, that it is refused */
};

/* ---- the directory ------------------------------------------------------- */

typedef void (*query_done_fn)(struct node *node, struct query *query);

struct query {
	struct dir_call call;
	struct list entry; /* free */
	/* Who is woken at its end, and takes it by query_keep(). NULL: `done` is called, and
	 * then it is free. */
	struct op *op;
	query_done_fn done;
	void *owner;         /* the errand that it is of; malloc'ed, or NULL */
	struct fetch *fetch; /* that it is for */
	bool ended;
	uint64_t complete; /* the epoch, if that was complete when it was sent; else 0 */
	uint64_t live[PEER_LIMIT + 1]; /* for call.live */
	struct dir_member member;      /* for call.member */
	struct held held;              /* of an announcement, */
	uint64_t kept;                 /* and cluster.kept at its begin */
};

enum errand_kind {
	ERRAND_CONFIRM,
	ERRAND_LOADED,
	ERRAND_LEAVE,    /* `node` of it: who holds it no more */
	ERRAND_TAKE_OUT, /* and tell its holders, if the key is there */
	ERRAND_BURY,
	ERRAND_HAND_OVER, /* to this node, from `node` */
	ERRAND_ANNOUNCE,  /* what is here of it, and be told whether it is kept here */
	ERRAND_UNDO,  /* a put that replaces: what is older is over if it was published */
	ERRAND_SETTLE /* whether it was taken out, by a call that nobody answered */
};

struct errand {
	struct list entry;
	uint64_t number; /* rising: those of one key are done in their order */
	enum errand_kind kind;
	struct dir_id id;
	uint64_t generation;
	uint64_t node;
	uint64_t token;
	uint64_t hash;  /* of LEAVE: of the key, which may be known no more */
	bool at_once;   /* of LEAVE: though a fetch of this node may hold it, too */
	bool gives_way; /* of TAKE_OUT: no tombstone, for what may be older */
	bool older;     /* of BURY: whatever is older is to end as well */
	uint32_t key_size;
	const unsigned char *key; /* the caller's until errand_add(), which copies it */
};

struct domain {
	uint64_t epoch;        /* 0: cannot be reached */
	uint64_t finished;     /* under which this node has announced all */
	bool complete;         /* and every other live node too */
	bool wanted;           /* all is to be announced there, */
	bool walking;          /* and is being, since this walk began, */
	uint64_t walked_epoch; /* under that one */
	bool failed;           /* something of the walk could not be */
	bool doubtful; /* it named keepers before all had announced what they keep */
	bool nameless; /* of what is on the disk alone it has others as keepers: see yield.c */
};

struct announcer {
	bool busy;
	uint64_t cursor; /* of master_held_next(); UINT64_MAX: at the end */
	uint32_t under_way;
	uint64_t retry_ns;
};

/* ---- fetches ------------------------------------------------------------- */

enum fetch_state {
	FETCH_FREE,
	FETCH_LOOK,    /* the directory is asked */
	FETCH_HAVE,    /* every live peer is asked, since the directory does not know */
	FETCH_ROOM,    /* waits for a run */
	FETCH_GATE,    /* the run is there; a fault delays */
	FETCH_TURN,    /* waits until one of PEER_TRANSFERS is free */
	FETCH_ASK,     /* one who has it is asked */
	FETCH_MOVE,    /* the bytes are on their way; without waiters: and are stopped */
	FETCH_PAUSE,   /* a fault delays the next look */
	FETCH_REFRESH, /* the directory is asked once more */
	FETCH_CLEAR    /* the entry is wrong, and is being taken out */
};

/* One who is said to have it. */
struct source {
	uint8_t peer;
	bool may_leave; /* the entry does without it */
	bool tried;
};

/* Who is said to have an object, and what came of asking them. */
struct sources {
	struct source list[PEER_LIMIT];
	uint32_t count;
	bool away;      /* one cannot be asked now, and may have it */
	bool gone;      /* nobody has heard of one for long, nor is it a member */
	bool lost;      /* what one had went with its pool */
	bool missing;   /* one has it no more */
	bool strange;   /* one is a node that this one has not heard of yet, */
	bool unmet;     /* or has no connection to yet */
	bool corrupt;   /* of one the bytes were not those that were put */
	int error;      /* what else one answered */
	uint64_t named; /* one that does not have it, for who asks why */
};

/* What a source has promised. */
struct source_lease {
	bool there;
	uint32_t peer;
	uint64_t epoch, life;
	uint32_t slot, grant;
	struct peer_ticket ticket;
};

/* What a get has of its fetch, when that is over for it. */
enum fetched {
	FETCHED_NOTHING,
	FETCHED_OBJECT, /* op->slot is pinned, or op->failure says why not */
	FETCHED_ABSENT,
	FETCHED_UNSETTLED /* nobody can tell at the moment */
};

struct fetch {
	struct list entry; /* of its bucket, or free */
	struct list
		queue_entry; /* of cluster.fetch_room or .fetch_turn, in those states */
	enum fetch_state state;
	unsigned char *key; /* malloc'ed, or NULL */
	uint32_t key_size;
	uint64_t hash;
	struct dir_id id;
	uint32_t waiters; /* ops whose `fetch` it is */
	bool again;       /* what is absent may have been published since it looked */
	uint64_t ended;   /* a generation that was removed since it looked, or all */
	uint64_t looked;  /* ops that joined up to here share what it finds absent */
	uint64_t joined;  /* the generation of whose entry this node is a loader, or 0 */
	uint64_t listed;  /* that of the entry which names this node, or 0 */
	uint64_t owes_leave; /* the same, of an errand that would have said LEAVE */
	bool dir_knows;      /* the directory answered, */
	bool complete;       /* and what it does not have is absent */
	uint64_t dir_epoch;  /* of its answer before every live peer was asked */
	bool refreshed;      /* it was asked twice for this generation */
	bool asked_all;      /* every live peer was */
	bool unreached;      /* but some could not be */
	bool is_being_put;   /* on this node, and this node is its keeper */
	bool unkept;         /* the entry names copies alone */
	uint64_t keepers;    /* dir_keepers() of it */
	bool stopping;       /* of MOVE: nobody wants the bytes any more */
	uint64_t generation, size;
	uint32_t flags; /* DIR_SOFTPIN */
	struct sources sources;
	uint32_t source; /* its place there, of the one that is asked */
	uint32_t slot;   /* where it goes, from GATE on; else SLOT_NONE */
	struct ticket ticket;
	uint64_t
		promised; /* bytes of its run that a batch was promised; see flow_load.c */
	struct query *query;
	struct list asks; /* of FETCH_HAVE, by op_entry */
	struct ask *ask;
	uint32_t number;   /* of its transfer; PEER_TRANSFERS: it has none */
	uint64_t moved_ns; /* when that began */
	struct source_lease lease;
	uint64_t checksum; /* as the source says; 0: it does not know */
};

/* ---- swapouts ------------------------------------------------------------ */

/* By the number of master_hand_next(). */
struct swapout {
	bool busy;
	bool doubted;   /* the directory may have another keeper of it already */
	bool announced; /* meanwhile, as kept here */
	bool fewer;     /* who keeps it already will do */
	struct held held;
	uint32_t key_size;
	unsigned char key[KEY_LIMIT];
};

/* ---- drain --------------------------------------------------------------- */

enum drain_state {
	DRAIN_OFF,
	DRAIN_WALK, /* over all that is held */
	DRAIN_KEY,  /* the key of `held` is being read from the disk */
	DRAIN_EMPTY
};

struct drain {
	enum drain_state state;
	uint64_t cursor, before; /* of master_held_next(); and of the last look */
	bool any;                /* the walk has met something that is kept, */
	uint64_t need_disk;      /* so much that is durable, and no peer has a disk; */
	uint64_t needed_disk;    /* the last walk had met so much */
	uint64_t retry_ns;       /* no look before */
	struct held held;
};

/* ---- rebuild -------------------------------------------------------------- */

#define REBUILDS_AT_ONCE 8u
#define REBUILD_TRIES    4u /* peers that are asked for one object in one walk */
#define LENT_LIMIT       256u

enum rebuild_state {
	REBUILD_FREE,
	REBUILD_LOOK, /* the directory is asked who keeps it */
	REBUILD_WAIT, /* until retry_ns, and until the rate allows */
	REBUILD_KEY,  /* its key is being read from the disk */
	REBUILD_ASK   /* a peer is taking it over */
};

struct rebuild {
	enum rebuild_state state;
	struct held held;
	uint64_t from;    /* whose role is to be taken; 0: nobody's */
	uint64_t keepers; /* places of those that keep it, a bit each, */
	uint64_t copies;  /* of those that have a copy, */
	uint64_t refused; /* and of those that would not keep it: they are not asked */
	bool looked;      /* and these are known */
	uint64_t retry_ns, bytes;
	uint32_t tries;
	uint32_t key_size; /* 0: not known yet */
	unsigned char key[KEY_LIMIT];
};

enum rebuild_pass {
	REBUILD_OFF,
	REBUILD_CLAIMS,
	REBUILD_FILLS
};

struct rebuilder {
	enum rebuild_pass pass;
	bool claims, wanted; /* a pass of this kind is to begin, from retry_ns on */
	bool again;          /* this one leaves something to another */
	bool repeated;       /* and this is that other */
	bool in_doubt;       /* the core spares copies */
	uint64_t suspects; /* places of peers that were so at the last look, a bit each */
	uint64_t retry_ns;
	uint64_t cursor;           /* of master_held_next() */
	uint32_t looking;          /* copies that are being looked up */
	uint64_t spent_ns;         /* the rate allows nothing before */
	uint64_t left;             /* objects that this pass could not help */
	uint64_t rebuilt, claimed; /* counters at its begin */
	struct rebuild list[REBUILDS_AT_ONCE];
	struct rebuild *reading;      /* its key; or NULL */
	struct held lent[LENT_LIMIT]; /* copies without a keeper, in turning room */
	uint32_t lent_count;
	bool lent_lost;   /* there were more */
	uint64_t lent_ns; /* when they are looked at next */
};

/* ---- yields -------------------------------------------------------------- */

/* What is kept here, and said to be kept by the peers that are being asked. */
struct yielding {
	uint32_t asked; /* of whom no answer has come yet; 0: this place is free */
	uint32_t keepers, wanted; /* who have said that they keep it, of how many */
	bool silent;              /* one did not answer */
	struct held held;
	struct dir_id id;
	uint32_t domain; /* that says so, */
	uint64_t epoch;  /* under this one, which is complete */
	uint64_t kept;   /* cluster.kept when they were asked */
};

/* ---- leave --------------------------------------------------------------- */

enum leave_state {
	LEAVE_OFF,
	LEAVE_ENDING, /* what was begun with others ends */
	LEAVE_RESIGN, /* the directory is told, */
	LEAVE_TELL,   /* then all peers */
	LEAVE_OVER
};

struct leave {
	enum leave_state state;
	uint64_t until_ns; /* then the next state begins in any case */
	bool resigned;
	uint32_t telling; /* peers that have not answered yet */
};

/* ---- what gave way ------------------------------------------------------- */

/* What an announcement has replaced, while the key is being read from the disk. */
struct superseded {
	struct list entry;
	struct held held; /* which was announced */
	struct dir_entry old;
};

/* ---- graves -------------------------------------------------------------- */

enum grave_kind {
	GRAVE_OBJECT,
	GRAVE_KEY, /* the same, by who removed the key: what is older is over as well */
	GRAVE_PREFIX, /* of all whose keys begin so and that are older than `generation` */
	GRAVE_GAVE_WAY, /* a put, to an older object, that a tombstone would end as well */
	GRAVE_OLDER,    /* whatever of the key is older than `generation` */
};

struct grave {
	struct list entry; /* oldest first */
	uint64_t made_ns;
	uint64_t generation;
	enum grave_kind kind;
	bool kept; /* for a directory that forgets, though all have heard of it */
	uint64_t
		unreached; /* places of peers, a bit each, that hear of it when they are up */
	uint64_t telling; /* of these, who is being asked now */
	uint32_t key_size;
	unsigned char key[];
};

/* What one peer is still to hear of. */
struct teller {
	struct grave *next; /* from here on; NULL: nothing more */
	uint32_t under_way;
	uint64_t
		retry_ns; /* when all that it refused is told again; 0: it refused nothing */
};

/* ---- removed by prefix --------------------------------------------------- */

struct swept {
	struct list entry; /* the one to be forgotten first is the first */
	uint64_t before;   /* generations below */
	uint64_t until_ns;
	uint32_t size;
	unsigned char prefix[];
};

/* ---- all of it ----------------------------------------------------------- */

struct cluster_stats {
	uint64_t asked, asks_failed, asks_served;
	uint64_t queries, queries_failed, errands, errands_lost;
	uint64_t announced, epochs, conflicts;
	uint64_t fetches, fetched_bytes, fetches_joined, fetch_retries, fetch_errors;
	uint64_t fetches_refused; /* of batches: that did not fit */
	uint64_t replicas, replicas_inline, suspects, refused;
	uint64_t swapouts_refused, swapouts_failed, keeps_refused;
	uint64_t spread; /* keepers more that puts have come to */
	uint64_t rebuilt, rebuilt_bytes, rebuilds_refused, claimed;
	uint64_t graves, graves_told, graves_lost; /* lost: somebody did not hear of it */
};

struct cluster {
	bool there; /* the node is not alone */
	uint64_t id, incarnation;
	const char *name, *endpoint;
	struct dir dir;
	struct peer peers[PEER_LIMIT];
	struct ask *asks;
	struct list free_asks;
	uint32_t asks_used;
	bool asks_hopeless;    /* some are to peers that are not up */
	uint64_t peers_due_ns; /* when peers_step() has something to do */
	struct list links;
	struct query *queries;
	struct list free_queries;
	uint32_t queries_used, query_limit;
	struct domain domains[DIR_DOMAINS];
	struct announcer announcer;
	struct list superseded;
	bool superseded_is_read; /* the key of the first is */
	struct list errands;     /* that wait for their turn, oldest first */
	struct list errands_out; /* those that are under way */
	uint32_t errand_count, errands_under_way;
	uint64_t errand_numbers;
	uint64_t errand_retry_ns, errand_pause_ns; /* not before the later of both */
	struct list
		unsettled; /* ops that look again when a peer or an epoch has changed */
	struct list *waiting_ids; /* FETCH_BUCKETS: gets that wait for a key, by its id */
	struct dir_member *members; /* of the last answer to RENEW */
	bool members_known;         /* the directory has said who they are */
	bool renewing;
	uint64_t renew_ns;   /* when to renew next */
	uint64_t naming_ns;  /* when this node's name was sent last, */
	uint64_t named_ns;   /* and that of the last that was answered */
	uint64_t renewed_ns; /* when the directory named the members last */
	uint64_t
		stepped_ns; /* when this node looked last: its own stall is nobody's death */
	uint64_t next_token;
	struct rng rng;      /* whom to ask first */
	uint32_t lanes_used; /* of links */
	struct fetch *fetches;
	struct list free_fetches, fetch_room, fetch_turn;
	struct list *fetch_buckets; /* FETCH_BUCKETS, by id */
	uint32_t fetches_used, fetch_limit;
	struct fetch *moving[PEER_TRANSFERS]; /* by the number of env_peer.fetch() */
	uint64_t fetch_speed; /* bytes a second, of large transfers lately; 0: none yet */
	uint64_t joins;       /* ops that joined a fetch so far */
	bool giving_turns;    /* places of moving[] are being given to who waits */
	struct swapout swapouts[HAND_LIMIT];
	uint64_t swapout_speed;    /* as fetch_speed, of objects that were handed over */
	uint64_t swapout_retry_ns; /* none begins before */
	struct drain drain;
	struct rebuilder rebuilder;
	struct leave leave;
	uint32_t keeping;       /* KEEPs under way */
	uint64_t keeping_bytes; /* their runs */
	uint64_t kept;          /* objects of which the directory said so, so far */
	struct yielding yieldings[YIELDS_AT_ONCE];
	struct list graves;
	uint32_t grave_count;
	struct teller tellers[PEER_LIMIT];
	struct grave *burying; /* the next that the directory is told of again */
	struct list swept;
	uint32_t swept_count;
	struct cluster_stats stats;
	struct hist fetch_ns;
};

/* ---- cluster.c: begin, turn, check --------------------------------------- */

void cluster_init(struct node *node);
void cluster_start(struct node *node);
void cluster_free(struct node *node);
/* True: there is more to do now. */
bool cluster_step(struct node *node, uint64_t now);
uint64_t cluster_next(const struct node *node);
const char *cluster_check(const struct node *node);
/* Number that no other ask for a removal of this node ever had. */
uint64_t cluster_token(struct node *node);
/* A moving mean, in bytes a second, of what took its time. */
void speed_note(uint64_t *speed, uint64_t bytes, uint64_t took_ns);
/* Above this node's highest, and above what it would give now. */
uint64_t generation_of_now(struct node *node);
/* For how long the directory has an entry whose object has that much time left; 0: for ever. It
 * outlasts the object, by whatever clock: who ends that takes the entry out, and needs it to know
 * whom to tell. Its own end is for what is kept by nobody any more. */
uint64_t entry_ttl(uint64_t rest_ns);
/* Tell the directory what left this node; not of this generation of a key (NULL: none), which
 * has just ended and is being removed everywhere. */
void left_take(struct node *node, const struct dir_id *ended, uint64_t generation);
/* This node knows the generations that members gave before its start, so that it gives none below
 * one that was removed; for a member that is never heard it waits as long as makes it gone. */
bool peers_are_heard(const struct node *node);
/* This node was cut off for so long that it is no member any more: to who meets what it publishes
 * it would be gone. It is being named again. */
bool name_has_lapsed(const struct node *node);
struct index_key key_of(const struct node *node, const void *key, uint32_t size);
struct dir_id dir_id_of_key(const void *key, uint32_t size);
struct dir_id dir_id_of(const struct disk_id *id);

/* ---- peer.c -------------------------------------------------------------- */

static inline bool peer_is_up(const struct peer *peer)
{
	return peer->state == PEER_UP;
}

/* It may have anything: it was heard of within GONE_NS. */
bool peer_is_live(const struct node *node, const struct peer *peer);
/* The first connection to it is being made: whether it answers is not known yet, and soon is. */
bool peer_is_being_met(const struct node *node, const struct peer *peer);
/* PEER_LIMIT: none has this id. */
uint32_t peer_find(const struct node *node, uint64_t id);
/* The place of a node that the directory or the node itself named; PEER_LIMIT: none is free. */
uint32_t peer_meet(
	struct node *node, uint64_t id, uint64_t incarnation, const char *endpoint);
/* The same for one of which an entry tells and nobody has said where it is: it can be told of
 * things once somebody does. It does not count as live. */
uint32_t peer_note(struct node *node, uint64_t id, uint64_t incarnation);
void peer_heard(struct node *node, uint32_t place);
/* It knows of this generation: what it puts is higher from now on, and what this node puts. */
void peer_note_generation(struct node *node, uint32_t place, uint64_t generation);
/* It has said that it ends. */
void peer_leaves(struct node *node, uint32_t place);
void peers_step(struct node *node, uint64_t now);
/* Nodes that are up, and this one, in `nodes`; how many. */
uint32_t peers_live_ids(const struct node *node, uint64_t *nodes);
/* How many nodes other than this one are up. */
uint32_t peers_up(const struct node *node);
/* All that are known are, also those that may never be back. */
bool peers_are_up(const struct node *node);
/* Places of those that said that they have none, a bit each. */
uint64_t peers_without_disk(const struct node *node);
/* One is up that is not at these places. */
bool peers_any_beside(const struct node *node, uint64_t places);
/* Places of those that are live and cannot be asked now, a bit each. */
uint64_t peers_suspect(const struct node *node);
/* All that are up are told of this node, now. */
void peers_beat(struct node *node);
/* What a BEAT or BEATEN brought. */
void peer_take_beat(
	struct node *node, uint32_t place, uint64_t free_bytes, uint64_t generation);
/* It said so at that time or later. */
void peer_take_epochs(struct node *node, uint32_t place, uint64_t since_ns,
	const void *epochs, size_t size);

/* ---- replaced.c: nodes that are gone for good ---------------------------- */

/* Look whether another is where the peer was. */
void peer_look_replaced(struct node *node, uint32_t place);
/* The peer is up: it is told of all that are gone for good. */
void replaced_tell(struct node *node, uint32_t place);
void replaced_run(struct node *node, struct op *op);
/* A role passed from the peer by a step that it may not have heard of: it is told when it is up. */
void peer_is_overtaken(struct node *node, uint32_t place);
/* It is up. */
void overtaken_tell(struct node *node, uint32_t place);
/* It has answered this. */
void overtaken_heard(struct node *node, const struct ask *beat);

/* ---- ask.c --------------------------------------------------------------- */

/* Send the message of `size` bytes in node->out; NULL: too many are under way. To a peer that
 * is not up it ends with ERR_UNAVAILABLE, in the node's next step. */
struct ask *ask_send(struct node *node, uint32_t peer, size_t size, ask_done_fn done);
/* The same, for an op: it is on op->asks until done() or the op's end. */
struct ask *ask_send_for(
	struct node *node, struct op *op, uint32_t peer, size_t size, ask_done_fn done);
/* Nobody waits for it any more; done() is not called. */
void ask_forget(struct node *node, struct ask *ask);
void asks_forget_all(struct node *node, struct op *op);
/* All to the peer end with err. */
void asks_fail(struct node *node, uint32_t peer, int err);
/* End those to peers that are not up. */
void asks_step(struct node *node);
/* The code of an ERROR, 0 for any other message, ERR_PROTOCOL for none. */
int ask_error_of(int err, const void *message, size_t size);

/* ---- everyone.c ---------------------------------------------------------- */

/* Send the message of `size` bytes in node->out to all peers that are up. False: some are
 * live and could not be asked, a bit for the place of each, or who there is is not known. */
bool everyone_send(struct node *node, const struct everyone *everyone, size_t size,
	uint64_t *ret_unreached);
/* For an op: who has this generation of the key, 0: any. True: it waits, and the last answer wakes
 * it: then list_is_empty(&op->asks), op->found tells whether one has it, op->other which, the
 * highest, and op->unreached and op->unreached_peers who could not be asked or did not answer.
 * False: there was nobody to ask, and these are so now. */
bool everyone_have(struct node *node, struct op *op, const struct index_key *key,
	uint64_t generation);
/* Not of the peers at these places, a bit each. */
bool everyone_have_but(struct node *node, struct op *op, const struct index_key *key,
	uint64_t generation, uint64_t skipped);
/* HAVE in node->out. */
size_t have_message(struct node *node, const struct index_key *key, uint64_t generation);
/* What came back: 0, ERR_NOT_FOUND, or why nothing is known. */
int had_read(int err, const void *message, size_t size, struct other *ret);
/* The same of a KEEP of this generation. */
int kept_read(int err, const void *message, size_t size, uint64_t generation,
	struct msg_kept *ret);

/* ---- link.c -------------------------------------------------------------- */

void link_answer(struct node *node, struct lane *lane, const void *message, size_t size);
/* The lane's one request was answered. */
void link_lane_done(struct node *node, struct lane *lane);
void peer_hello_run(struct node *node, struct op *op);
void beat_run(struct node *node, struct op *op);
void published_run(struct node *node, struct op *op);

/* ---- query.c ------------------------------------------------------------- */

/* NULL: all are under way. The call is zeroed but for op, id, node and incarnation. */
struct query *query_new(struct node *node, enum dir_op kind, const struct dir_id *id);
/* Its end wakes the op, whose op->query it is until then. */
void query_start_for(struct node *node, struct op *op, struct query *query);
void query_start(struct node *node, struct query *query, query_done_fn done);
/* What its answer does not have is absent: all live members had announced what they have before it
 * was sent, and the directory has forgotten nothing since. */
bool query_knows_all(const struct node *node, const struct query *query);
/* What the query's owner left with it. */
void query_free_owner(struct query *query);
/* A copy of the key goes with the query, as its owner; without memory none does. The call has
 * only the key's id, and whoever asked may be gone at its end. */
void query_own_key(struct query *query, const void *key, uint32_t size);
/* {NULL, 0}: none. */
struct msg_bytes query_key(const struct query *query);
/* What came stays, though the op waits for others: until query_free(). */
struct query *query_keep(struct op *op);
/* The op has looked at what came. */
void query_free(struct node *node, struct query *query);
/* The op ends first: `done`, if not NULL, is called in its place. */
void query_leave(struct node *node, struct op *op, query_done_fn done);
/* The call names who can be told. */
void query_set_live(struct node *node, struct query *query);

/* ---- errand.c ------------------------------------------------------------ */

/* Done as soon as the directory can be reached; what does not fit into ERRAND_LIMIT is
 * counted and left to whoever meets the stale entry. */
void errand_add(struct node *node, const struct errand *like);
/* What this node has of the key, which is copied, is announced. */
void errand_announce(struct node *node, const struct dir_id *id, struct msg_bytes key,
	uint64_t generation);
/* This node has it no more, unless it is back by then; `hash`: of its key. */
void errand_leave(
	struct node *node, const struct dir_id *id, uint64_t hash, uint64_t generation);
/* The usual: of this node's. */
void errand_simple(struct node *node, enum errand_kind kind, const struct dir_id *id,
	uint64_t generation);
/* This node keeps now what the other one (0: nobody) kept, and so says the directory. */
void role_is_taken(struct node *node, uint64_t from);
bool errand_is_there(const struct node *node, enum errand_kind kind,
	const struct dir_id *id, uint64_t generation);
void errands_step(struct node *node, uint64_t now);
uint64_t errands_next(const struct node *node);
/* The nodes that waited for the key are told that it was published. */
void tell_waiters(struct node *node, const struct dir_call *call);

/* ---- epoch.c ------------------------------------------------------------- */

/* The epochs under which this node has announced all, for a BEAT: 8 bytes each, in bytes of
 * BEAT_EPOCHS_SIZE. */
#define BEAT_EPOCHS_SIZE (DIR_DOMAINS * 8u)
size_t epochs_pack(const struct node *node, uint8_t *bytes);
/* All is announced again, everywhere. */
void announce_all(struct node *node);
/* Whether what is absent there is so: all live members have announced all under it. */
bool epoch_is_complete(const struct node *node, uint32_t domain, uint64_t epoch);
/* The epoch of the part with this key, if it is complete; else 0. */
uint64_t complete_epoch(const struct node *node, const struct dir_id *id);
/* All who were heard of within GRAVE_NS have announced to the part with this key, so that none
 * of them brings back what is removed now. */
bool directory_knows_all(const struct node *node, const struct dir_id *id);
/* The directory's part with this key cannot be reached, so that it need not be waited for. */
bool directory_is_away(const struct node *node, const struct dir_id *id);
/* What the directory cannot name may come here from now on: all others ask and tell this node, too,
 * until it has announced all. They hear of it before whatever else they are asked. */
void epoch_reopen(struct node *node, const struct dir_id *id);
/* The query announces this, which is here. */
void announce_fill(struct node *node, struct query *query, const struct held *held);
/* What came of that; `key`: {NULL, 0} if it is not known. */
void announce_settle(struct node *node, const struct query *query, struct msg_bytes key);
bool epochs_step(struct node *node, uint64_t now);
uint64_t epochs_next(const struct node *node);
/* Peers or epochs have changed: what depends on them is looked at again. */
void cluster_changed(struct node *node);
/* The op waits for one, for CLUSTER_RETRY at most, and not beyond its deadline. */
void unsettled_add(struct node *node, struct op *op);
/* Nobody can tell now whether op->key has an object: the same, and UNAVAILABLE at its deadline. */
void unsettled_wait(struct node *node, struct op *op);

/* ---- superseded.c: who holds what an announcement has replaced --------------- */

/* They are told; without a key, once that was read. */
void superseded_add(struct node *node, const struct held *held,
	const struct dir_entry *old, struct msg_bytes key);
void superseded_step(struct node *node);

/* ---- flow_publish.c: the directory's part of a put ----------------------- */

/* Go on with op's publishing; false: it waits, or the op has answered. True: the put may end,
 * as master_put_end() says. */
bool publish_run(struct node *node, struct op *op);
/* It has ended, READY. */
void publish_done(struct node *node, struct op *op);
/* The op ends first. `dropped`: and its put with it. */
void publish_cancel(struct node *node, struct op *op, bool dropped);
/* A put of this node, of this generation, was ended, and has replaced another that is not over
 * everywhere yet: whoever is told that this one is over takes that for over as well. Who waits
 * for the key is woken when it is. */
bool publish_holds_up(
	struct node *node, const struct index_key *key, uint64_t generation);
/* A put that may have been published has ended otherwise. */
void publish_undo(struct node *node, uint32_t slot);
/* What the directory says to ERRAND_UNDO. */
void publish_undone(
	struct node *node, const struct errand *errand, const struct query *query);

/* ---- flow_fetch.c -------------------------------------------------------- */

/* The op waits for what other nodes have under its key: as op->fetch, in the bucket of its
 * key. Once that is NULL again, it has op->slot pinned or op->failure, or knows that it is
 * absent or that nobody can tell now (op->fetched), or is to look again. False: it cannot
 * wait, and has answered. */
bool fetch_join(struct node *node, struct op *op);
void fetch_leave(struct node *node, struct op *op);
const char *fetches_check(const struct node *node);
/* A ticket of a fetch was granted. */
bool fetch_owns(const struct node *node, const struct ticket *ticket);
void fetch_has_room(struct node *node, struct ticket *ticket);
/* This generation was removed, 0: any; or all under a prefix that are older than `before`. What
 * is on its way is not to be had any more, and who waits looks again. */
void fetches_end(struct node *node, const struct index_key *key, uint64_t generation);
void fetches_end_prefix(
	struct node *node, const void *prefix, uint32_t prefix_size, uint64_t before);
/* Instead of an errand that says that this node has left: a fetch of the key is under way, and
 * sees to it at its end. */
bool fetch_takes_leave(struct node *node, const struct dir_id *id, uint64_t generation);
/* Gets that wait for a key ask the directory once more. */
void fetches_look_again(struct node *node);
void fetches_published(struct node *node, const struct dir_id *id);
void fetch_go_on(struct node *node, uint32_t index); /* its gate is open again */

/* ---- flow_replica.c: what peers ask -------------------------------------- */

int replica_ask_decode(struct op *op);
void replica_run(struct node *node, struct op *op);
void replica_cancel(struct node *node, struct op *op);
/* It was not sent: what it promised ends. */
void replica_undo(struct node *node, const struct msg_replica *msg);
void unlease_run(struct node *node, struct op *op);
int have_decode(struct op *op);
void have_run(struct node *node, struct op *op);

/* ---- flow_keep.c: what peers want kept here ------------------------------ */

/* Bytes that this node would keep for others now. */
uint64_t keep_credit(const struct node *node);
int keep_decode(struct op *op);
void keep_run(struct node *node, struct op *op);
void keep_cancel(struct node *node, struct op *op);
/* The directory has been, or will be, asked to name this node as its keeper. */
bool keep_is_under_way(
	const struct node *node, const struct dir_id *id, uint64_t generation);

/* ---- flow_spread.c: a put with several replicas --------------------------- */

void spread_begin(struct op *op);
/* Go on until op->replicas nodes keep it, or no more will; it has answered then. */
void spread_run(struct node *node, struct op *op);
/* The op ends first. */
void spread_cancel(struct node *node, struct op *op);

/* ---- yield.c ------------------------------------------------------------- */

/* The announcement was answered: as far as the directory knows, enough others keep it. */
void yield_run(struct node *node, const struct query *query, struct msg_bytes key);
/* What was on the disk alone is in the pool, and its key is known: it is announced again if such a
 * thing may be one that others keep. */
void yield_loaded(struct node *node, uint32_t slot);

/* ---- swapout.c ----------------------------------------------------------- */

/* One that is up and would keep so many bytes: of two at random the one with more credit, and
 * none at the places `skipped`, a bit each. PEER_LIMIT: none would. */
uint32_t taker_choose(struct node *node, uint64_t bytes, uint64_t skipped);
/* It was asked to keep so many, or would not for `err`: that counts until its next beat. */
void taker_asked(struct node *node, uint32_t place, uint64_t bytes);
void taker_refused(struct node *node, uint32_t place, uint64_t bytes, int err);

/* Offer to peers what the core wants to be rid of. */
void swapouts_step(struct node *node, uint64_t now);
uint64_t swapouts_next(const struct node *node);
const char *swapouts_check(const struct node *node);
/* Offer this object to a peer: in the slot, or with SLOT_NONE one that is only on disk, with a
 * run of so many bytes. False: none would take it, or as many as may be are under way. */
bool swapout_offer(struct node *node, const struct held *held, uint32_t slot,
	struct msg_bytes key, uint64_t bytes);
/* It is durable, and no peer that is up is known to have a disk, or may have one. */
bool swapout_needs_disk(const struct node *node, const struct held *held);
/* It is being offered. */
bool swapout_has(const struct node *node, const struct held *held);
/* The same; and if nobody takes it over, it is announced once more. */
bool swapout_doubt(struct node *node, const struct held *held);
/* The directory was told that it is kept here, and so it may say once somebody has taken it over:
 * then it is announced once more. */
void swapout_overtaken(struct node *node, const struct query *query);
/* Any is. */
bool swapouts_under_way(const struct node *node);
/* One more could be. */
bool swapout_is_free(const struct node *node);

/* ---- keepers.c ----------------------------------------------------------- */

enum life {
	LIFE_LIVES,
	LIFE_GONE,
	LIFE_UNKNOWN /* of this one nobody has heard yet */
};

enum life holder_life(const struct node *node, const struct dir_holder *holder);

/* The keepers of an entry. */
struct keepers {
	uint32_t living;
	uint64_t first;  /* the lowest id of a living one */
	uint64_t dead;   /* of one that is gone; 0: none is */
	uint64_t places; /* of the living ones, a bit each, */
	uint64_t copies; /* and of those that have a copy */
	bool unknown, own;
};

/* The bit of its place; 0: it is no peer's. */
uint64_t holder_bit(const struct node *node, const struct dir_holder *holder);
void keepers_find(
	const struct node *node, const struct dir_entry *entry, struct keepers *ret);
/* Of an entry whose keepers are all gone, one of them; 0: some live, or may, or there are none. */
uint64_t keepers_dead(const struct node *node, const struct dir_entry *entry);

/* ---- rebuild.c ----------------------------------------------------------- */

/* Something has fewer keepers than it is to have, and nobody took it when it was offered. */
void rebuild_is_short(struct node *node);
/* By that call this node has become a keeper: in the place of another, which may have found nobody
 * for what is lacking beside it, and sees to that no more; or of what nobody is left to see to. */
void rebuild_has_taken(struct node *node, const struct dir_call *call);
/* A peer can be asked, which may take what is short. */
void rebuild_peer_is_up(struct node *node);
/* A peer is gone, or is back without what it had. */
void rebuild_peer_is_gone(struct node *node);
/* What this node kept of it was spoiled, and the directory knows: so do the others. */
void lacking_tell(struct node *node, const struct errand *errand);
void lacking_run(struct node *node, struct op *op);
/* True: there is more to do now. */
bool rebuild_step(struct node *node, uint64_t now);
uint64_t rebuild_next(const struct node *node);
const char *rebuild_state_text(const struct node *node);

/* ---- drain.c ------------------------------------------------------------- */

void drain_run(struct node *node, struct op *op);
/* True: there is more to do now. */
bool drain_step(struct node *node);
uint64_t drain_next(const struct node *node);
/* It takes nothing new: no puts, and nothing that others would have it keep. So does one that
 * ends. */
bool node_is_drained(const struct node *node);
const char *drain_state_text(const struct node *node);
/* Objects in the pool that are kept here. */
uint64_t drain_left(const struct node *node);

/* ---- leave.c ------------------------------------------------------------- */

bool node_is_leaving(const struct node *node);
/* True: there is more to do now. */
bool leave_step(struct node *node, uint64_t now);
/* It has taken its leave of others: it says nothing to them any more. */
bool leave_is_silent(const struct node *node);
uint64_t leave_next(const struct node *node);
void leaving_run(struct node *node, struct op *op);

/* ---- swept.c ------------------------------------------------------------- */

/* All under the prefix that is below this generation is being removed, everywhere. */
void swept_add(struct node *node, struct msg_bytes prefix, uint64_t before);
/* It is of that: who keeps it ends it, and nobody else may come to. */
bool swept_has(struct node *node, const struct index_key *key, uint64_t generation);

/* ---- grave.c ------------------------------------------------------------- */

/* What was removed is told to the peers at these places, a bit each, at once or when they are
 * up, and of GRAVE_OBJECT, GRAVE_KEY and GRAVE_OLDER to a directory that forgot. */
void grave_dig(struct node *node, const void *key, uint32_t key_size, uint64_t generation,
	enum grave_kind kind, uint64_t unreached);
/* The same of a key with an object that somebody keeps whom this node has not met: kept, as for a directory
 * that does not know all. */
void grave_keep(struct node *node, const void *key, uint32_t key_size,
	uint64_t generation, uint64_t unreached);
/* Its place is another's now. */
void graves_forget_peer(struct node *node, uint32_t peer);
/* The peer can be told now. */
void graves_tell(struct node *node, uint32_t peer);
/* The directory gets a tombstone once it can be reached; who has announced the object there
 * meanwhile is told. */
void bury_later(struct node *node, const void *key, uint32_t key_size,
	uint64_t generation, enum grave_kind kind);
/* The directory had this when it was given the tombstone. */
void bury_settle(struct node *node, struct msg_bytes key, uint64_t generation,
	enum grave_kind kind, const struct dir_entry *found);
/* The directory forgot: bury all again. */
void graves_announce(struct node *node);
void graves_step(struct node *node, uint64_t now);
uint64_t graves_next(const struct node *node);
const char *graves_check(const struct node *node);

/* ---- removal.c: an object ends in the whole cluster ---------------------- */

/* Go on with the removal of op->ends of op->key, from op->cluster_state 0 on. True: it is over,
 * and op->failure and op->generation say what came of it. False: it waits, or has answered. */
bool removal_run(struct node *node, struct op *op);
/* The op ends first; what it has begun is done without it. */
void removal_cancel(struct node *node, struct op *op);

/* ---- holders.c: who holds an object is told to end it -------------------- */

/* Places of the entry's holders, but for this node; with none named: of all there are.
 * *ret_unknown: one is no peer. */
uint64_t drop_places(struct node *node, const struct dir_entry *entry, bool *ret_unknown);
/* DROP in node->out, for the peer at this place. */
size_t drop_message(struct node *node, uint32_t place, const void *key, uint32_t key_size,
	uint64_t generation);
/* The same of what gave way to an older object: nobody keeps a tombstone of it. */
size_t gave_way_message(
	struct node *node, const void *key, uint32_t key_size, uint64_t generation);
/* The holders of an entry that was replaced are told to end its generation of op->key. True:
 * the op waits, for list_is_empty(&op->asks). */
bool holders_tell(struct node *node, struct op *op, const struct dir_entry *entry);
/* In place of asks_forget_all(), for an op that has told holders: graves do the rest. */
void holders_leave(struct node *node, struct op *op);
/* Tell the holders of an entry that was taken out to end its generation, without waiting. */
void holders_drop(struct node *node, const void *key, uint32_t key_size,
	const struct dir_entry *entry);
/* The same for one that gave way to an older object: the directory gets no tombstone. */
void holders_give_way(struct node *node, const void *key, uint32_t key_size,
	const struct dir_entry *entry);
/* What a TAKE_OUT took out. With no tombstone in the directory nobody keeps one: who keeps the object
 * may be away, and unknown to it. */
void holders_end(struct node *node, const void *key, uint32_t key_size,
	const struct dir_call *call);
/* All are told to end what is older than this generation of the key, whoever has it, and so does
 * this node. */
void older_drop(
	struct node *node, const void *key, uint32_t key_size, uint64_t generation);
/* All that is up is to end whatever has the key, and so does this node. */
void drop_everywhere(struct node *node, const void *key, uint32_t key_size);

/* ---- orphan.c ------------------------------------------------------------ */

/* Whether an entry was taken out was not known: this is what the directory says now. */
void drop_settle(
	struct node *node, const struct errand *errand, const struct query *query);

#endif
