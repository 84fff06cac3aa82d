/*
 * ledger.h - what was asked for and what was answered, key by key: puts, and what ends them.
 *
 * All times are true time, which no two events share. An answer's time is when the client
 * took it, so what it tells of was done before.
 *
 * Memory    puts and endings last as long as the ledger.
 */
#ifndef SIM_CLUSTER_LEDGER_H
#define SIM_CLUSTER_LEDGER_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_KEYS  16u
#define SIM_HOSTS 5u
#define KEY_MOST  64u

struct sim;

struct put {
	struct list entry; /* of its key, newest first */
	uint64_t id;       /* of its bytes */
	uint32_t key;
	unsigned host; /* where it was put: its first keeper */
	uint64_t
		kept_ns[SIM_HOSTS]; /* when the host was last seen to keep it; 0: never */
	bool unkept;                /* it is over, and nobody keeps it any more */
	uint64_t size, ttl_ns;
	bool softpin, durable, replace;
	uint16_t readers, replicas;  /* replicas: nodes that are to keep it; 0 as 1 */
	bool required;               /* so many, or nothing of it stays */
	uint64_t began_ns, acked_ns; /* acked: 0, or when it was answered DONE */
	uint64_t over_ns; /* when nobody asks for it any more; 0: somebody does */
	bool failed; /* answered with an error, and asked for once: nobody ever reads it */
	bool unsure;   /* though it failed, it may have ended what it was to replace */
	bool repeated; /* asked for more than once: it may have been made twice */
	uint64_t generation; /* 0: not known */
	uint64_t reports;    /* of ended reads, that were sent */
	uint64_t reports_done;
	uint64_t read_out_ns; /* when the last of its reads was reported; 0: not yet */
	unsigned level;       /* of replicas, that the answer told of; 0: not known */
	unsigned losses;   /* hosts that kept it, or may have, and lost what they had */
	uint32_t gave_way; /* of these, a bit each: left it to another keeper */
	uint64_t many_ns;  /* since when more keep it than are wanted; 0: they do not */
	uint64_t lost_ns;  /* its last keeper's bytes are gone; 0: they are not */
	uint64_t
		taken_ns; /* when somebody asked who was told that it is his; 0: nobody */
	bool contested; /* another was acknowledged beside it, as nobody could know of both */
};

enum ending_kind {
	ENDING_REMOVE,
	ENDING_PREFIX,
	ENDING_TAKE,
	ENDING_PUT, /* another put of the key was acknowledged */
	ENDING_UNDO /* the put itself was refused, as too few would keep it, or its disk would not */
};

/* Something after which the key's earlier objects are gone. */
struct ending {
	struct list entry; /* of its key, newest first */
	enum ending_kind kind;
	uint32_t key;
	unsigned host;
	struct put *put; /* that it ends; of ENDING_PUT: that comes. NULL: any */
	uint64_t began_ns;
	uint64_t answered_ns; /* 0: not answered, or not with a success */
	bool refused;         /* answered that nothing was there: it has ended nothing */
	uint64_t generation;  /* that it ended; 0: not known */
	bool forgotten;       /* the remover died before all had heard of it */
};

struct ledger_key {
	uint8_t bytes[KEY_MOST];
	uint32_t size;
	struct list puts, endings;
};

struct ledger {
	struct ledger_key keys[SIM_KEYS];
	uint64_t puts;
};

void ledger_init(struct sim *sim);
void ledger_fini(struct sim *sim);

struct put *ledger_put(struct sim *sim, uint32_t key, unsigned host);
void ledger_put_acked(struct sim *sim, struct put *put, uint64_t generation);
/* Some may have read it until now. */
void ledger_put_undone(struct sim *sim, struct put *put);
struct ending *ledger_ending(
	struct sim *sim, enum ending_kind kind, uint32_t key, unsigned host);

/* Whether the put may have been ended by something that began before `ns`. */
bool put_may_have_ended(const struct sim *sim, const struct put *put, uint64_t ns);
/* Its time to live may be, or must be, over at `ns`. */
bool put_may_have_expired(const struct put *put, uint64_t ns);
bool put_has_expired(const struct put *put, uint64_t ns);
/* It must be found by who asks from `began_ns` to `ns`, if its keeper can be asked. */
bool put_must_be_there(
	const struct sim *sim, const struct put *put, uint64_t began_ns, uint64_t ns);
/* The ending leaves nothing of the put. */
bool ending_is_certain(
	const struct ending *ending, const struct put *put, uint64_t generation);

/* "key 3" with its first letter, for messages. */
const char *key_name(const struct sim *sim, uint32_t key);

#endif
