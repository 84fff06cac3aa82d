/*
 * bulk_priv.h - what the two halves of struct bulk share: the loop thread's orders, and what
 * the helper thread has under way.
 *
 * Fields of struct bulk stand under what they belong to: `lock` guards those that both
 * threads use; the rest is the helper's alone once it runs.
 */
#ifndef NET_BULK_PRIV_H
#define NET_BULK_PRIV_H

#include "base/hash_stream.h"
#include "base/list.h"
#include "net/bulk.h"
#include "net/frame.h"
#include "net/offers.h"

#include <pthread.h>

#define PULLS      PEER_TRANSFERS /* connections to others */
#define PULLS_EACH 4u             /* of them, to one node */
#define PUSHES     (4 * PEER_LIMIT)
#define WARNS      16u

/* So much is read or sent at once, and its checksum computed while it is in the cache; the
 * reader is woken for so much alone, and with half of it a transfer takes a quarter longer. */
#define PIECE_SIZE (512u << 10)
/* So much of one transfer, then the others have their turn. */
#define TURN_SIZE PEER_CHUNK

/*
 * A fetch.
 *
 *   FREE --bulk_fetch--> ACTIVE: ordered, waiting, on a connection
 *    ^                     |
 *    '--done(), loop----- ENDED
 */
enum job_state {
	JOB_FREE,
	JOB_ACTIVE,
	JOB_ENDED
};

struct job {
	struct list entry; /* in bulk.ordered, waiting or ended, or on no list */
	/* constant while it is active */
	struct peer_fetch what;
	struct address address;
	uint32_t life; /* of the place when it was ordered */
	/* under the lock */
	enum job_state state;
	int stop; /* an error: have it end with this */
	int err;
	uint64_t checksum;
	/* the helper's */
	struct pull *pull; /* NULL: it waits for one */
};

/*
 * A data connection to another node, for one fetch at a time.
 *
 *   FREE --pull_open--> DIALING --up--> GREETING --welcome--> HEAD --> BODY --> TAIL ...
 *    ^                     |               |                   ^ |       |        |
 *    |                     |               |          the next | '-------'--------'
 *    |                     |               |                   '--- IDLE <--the end--'
 *    '---------------------'---------------'----- broken ----------------------------'
 */
enum pull_state {
	PULL_FREE,
	PULL_DIALING,
	PULL_GREETING,
	PULL_IDLE,
	PULL_HEAD,
	PULL_BODY,
	PULL_TAIL
};

struct pull {
	struct bulk *bulk;
	struct stream stream;
	enum pull_state state;
	uint32_t peer, life;
	struct job *job; /* NULL: idle */
	struct list
		entry; /* in bulk.pulls_free, pulls_idle (longest first), pulls_busy */
	struct list again; /* in bulk.again, or on no list */
	uint64_t deadline; /* of the greeting */

	unsigned char
		small[CHUNK_HEAD_SIZE]; /* greeting, head or tail, as far as it came */
	uint32_t small_size;
	uint64_t got;       /* bytes of the object */
	uint64_t chunk_end; /* those up to the end of this chunk */
	struct hash_stream hash;
};

/*
 * A data connection that another node made.
 *
 *   FREE --bulk_take--> TAKEN --the helper--> ASK --a good ticket--> MOVING
 *    ^                    |                   | ^                      |
 *    '--------------------'------- broken ----' '------the end---------'
 */
enum push_state {
	PUSH_FREE,
	PUSH_TAKEN,
	PUSH_ASK,
	PUSH_MOVING
};

enum push_part {
	PUSH_HEAD,
	PUSH_BODY,
	PUSH_TAIL
};

struct push {
	struct bulk *bulk;
	struct stream stream;
	enum push_state state;
	struct address from;
	struct list entry; /* in bulk.pushes_free, taken, pushes_open */

	unsigned char small[CHUNK_HEAD_SIZE]; /* what is asked, or a head or tail */
	uint32_t small_size, small_done;
	struct peer_offer offer;
	enum push_part part;
	enum chunk_status status; /* that this chunk has; any but HOLDS is the last */
	uint64_t sent;            /* bytes of the object */
	uint64_t chunk_end;       /* those up to the end of this chunk */
	struct hash_stream hash;
};

struct bulk_warning {
	char host[ADDRESS_HOST_MAX];
	char text[STREAM_WHY_MAX + ADDRESS_TEXT_MAX + 32];
};

struct bulk {
	struct bulk_config config;
	pthread_t thread;
	bool has_thread;
	struct loop loop;           /* the helper's */
	struct loop_source orders;  /* an eventfd in it: something is under the lock */
	struct loop_source reports; /* one in config.loop: the same for the other side */
	bool has_reports;

	pthread_mutex_t lock;
	bool is_closing;
	bool has_stops; /* some job.stop is set, or some life has changed */
	struct list ordered, ended;
	struct list pushes_free, taken;
	uint32_t
		lives[PEER_LIMIT]; /* of places: connections of an older one are closed */
	struct offers offers;
	struct bulk_warning warnings[WARNS];
	uint32_t warning_count;

	struct job jobs[PEER_TRANSFERS];
	struct list waiting;
	struct pull *pulls; /* [PULLS] */
	struct list pulls_free, pulls_idle, pulls_busy;
	struct list again;   /* pulls that may have bytes in hand */
	struct push *pushes; /* [PUSHES] */
	struct list pushes_open;
};

/* bulk.c: the helper's side of what both share */
void bulk_job_end(struct bulk *bulk, struct job *job, int err, uint64_t checksum);
void bulk_push_free(struct bulk *bulk, struct push *push);
void bulk_tell(struct bulk *bulk, const struct address *from, const char *why);
int bulk_use_ticket(struct bulk *bulk, const struct peer_ticket *ticket,
	struct peer_offer *ret_offer) MUST_CHECK;

/* pull.c */
void pull_serve(struct bulk *bulk); /* give waiting jobs what connections there are */
void pull_stop(struct bulk *bulk, struct job *job, int err);
/* Close the idle connections to places whose life is not that of `lives`. */
void pull_end_idle(struct bulk *bulk, const uint32_t *lives);
void pull_again(struct bulk *bulk);
void pull_due(struct bulk *bulk, uint64_t now);
uint64_t pull_next(const struct bulk *bulk);
void pull_close_all(struct bulk *bulk);

/* push.c */
void push_begin(struct push *push);
void push_close_all(struct bulk *bulk);

#endif
