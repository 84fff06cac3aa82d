/*
 * oracle.h - what may be true, from what was asked for and from what the memory shows.
 *
 * After each call of the daemon, and before each of its calls to the world, the oracle
 * looks at all slots. What has appeared since must have been asked for and not answered
 * yet, what has ended must have had a reason, and its bytes must be those that were
 * written. So every object's life is known by the number of the look in which it began
 * and ended, and an answer is right if it was true at some look between question and
 * answer.
 *
 * An object lives on where it is only on disk: there the daemon's table shows it, and
 * without a daemon the index that the next one will find. What ended, and was not yet told
 * to be gone, may come back with the daemon's death; what was told must not. After a loss of
 * the host only what was sure to be on disk must be there.
 *
 * Memory    of struct oracle; objects and puts last as long as it.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "base/list.h"
#include "share/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_KEYS 96u

struct sim;
struct conn;

/* A put that a client asked for. */
struct put {
	struct list entry;
	uint64_t op;
	uint32_t ref; /* of the client */
	uint32_t key;
	uint64_t id; /* of its bytes */
	uint64_t size, ttl_ns;
	bool softpin, durable;
	uint16_t readers;          /* ended reads that end it; 0: not counted */
	bool was_doomed, was_late; /* seen in its slot */
	uint64_t started_ns;       /* when its slot was first seen */
	unsigned objects;          /* that it has made */
	struct sim_object *object; /* the last of them */
};

enum end_reason {
	END_NONE,
	END_REMOVED,
	END_TAKEN,
	END_EXPIRED,
	END_READ,
	END_EVICTED,
	END_UNDONE, /* of a durable put, that could not be written */
	END_OLDER,  /* wrong on disk, or back there, and a newer one comes */
	END_LOST    /* with the host */
};

/* What a put made: bytes under a key from one look to another, maybe in several slots. */
struct sim_object {
	struct list entry;
	struct put *put;
	uint64_t generation;
	uint64_t expires;               /* 0: never */
	uint64_t began, ended;          /* looks; ended 0: not yet */
	uint32_t places;                /* READY slots */
	uint64_t moves;                 /* relocations, and to the disk and back */
	uint64_t host;                  /* on which it began, by the hosts lost before */
	unsigned reports;               /* of ended reads, that were sent */
	unsigned reports_done;          /* and answered as counted */
	enum end_reason reason, before; /* before: it came back */
	uint32_t taker;
	uint64_t take_op;
	bool durable;    /* softpin, and told so */
	bool told_gone;  /* its end was answered to who asked for it */
	bool revived;    /* it had ended, and came back with a daemon's death */
	bool bad;        /* its bytes on disk may be wrong */
	bool reads_lost; /* some reports may not be counted any more */
};

struct oracle_key {
	uint8_t bytes[KEY_LIMIT];
	uint32_t size;
	uint64_t hash;
	struct sim_object *object; /* that it has now */
	uint64_t remove_at;  /* the last look at which a remove of it was under way */
	uint64_t absent_at;  /* the last look without an object, before the current one */
	uint64_t present_at; /* the last look with one */
	uint64_t away_at;    /* the last look with one that was only on disk */
};

struct oracle_slot {
	uint64_t state;
	struct sim_object *object; /* if READY */
};

struct oracle {
	uint64_t looks;
	uint64_t puts_made;
	struct list puts, objects; /* newest first */
	struct oracle_key keys[SIM_KEYS];
	struct oracle_slot *slots;
	uint64_t moves; /* relocations seen */
	bool adopting;  /* a start has judged what it found on disk */

	/* Of the look that is being made; by change. */
	uint32_t *changed;
	struct sim_object **ending;
	struct sim_object **appeared;
	unsigned appeared_count;
};

void oracle_init(struct sim *sim);
void oracle_fini(struct sim *sim);
void oracle_look(struct sim *sim);

struct put *oracle_put(struct sim *sim, uint32_t ref, uint64_t op, uint32_t key,
	uint64_t size, bool softpin, uint64_t ttl_ns);

/* Whether the key had no object, or one, at some look from `since` on. */
bool oracle_was_absent(const struct oracle *oracle, uint32_t key, uint64_t since);
bool oracle_was_present(const struct oracle *oracle, uint32_t key, uint64_t since);
/* Whether the key may have had an object from `since` on that no look saw: made and removed
 * between two of them. */
bool oracle_may_have_missed(const struct oracle *oracle, uint32_t key, uint64_t since);
/* Whether the object was there at some look from `since` on. */
bool object_was_alive(const struct sim_object *object, uint64_t since);
struct sim_object *oracle_find(struct oracle *oracle, uint32_t key, uint64_t generation);
/* It ends. `slot`: where it was last, or SLOT_NONE if that was the disk. */
void oracle_end(struct sim *sim, uint32_t slot, struct sim_object *object);
/* What the daemon was asked and has not answered. */
bool oracle_is_asked(const struct sim *sim, const struct put *put, int kind);
void oracle_hash_keys(struct sim *sim);

/* ---- oracle_disk.c ------------------------------------------------------- */

/* Whether the daemon, or the one that will come, has it on disk. */
bool oracle_is_on_disk(const struct sim *sim, const struct sim_object *object);
/* It is in the pool no more, and on disk. */
void oracle_leaves_pool(struct sim *sim, struct sim_object *object);
/* The part of a look that is about objects only on disk. */
void oracle_look_disk(struct sim *sim);
/* The key had an object that was only on disk at some look from `since` on. */
bool oracle_was_away(const struct oracle *oracle, uint32_t key, uint64_t since);
/* Whether an object of the key, there from `since` on, may have wrong bytes on disk. */
bool oracle_may_be_bad(const struct oracle *oracle, uint32_t key, uint64_t since);
/* The daemon sends the answer to what it was asked on the connection. */
void oracle_answers(
	struct sim *sim, const struct conn *conn, const void *message, size_t size);
void oracle_daemon_died(struct sim *sim);
void oracle_daemon_started(struct sim *sim);
void oracle_host_lost(struct sim *sim, bool lied);
/* All of the committed index is what was put. */
void oracle_check_disk(struct sim *sim);

/* The bytes of a put. */
void pattern_fill(unsigned char *to, uint64_t off, uint64_t size, uint64_t id);
bool pattern_is(const unsigned char *bytes, uint64_t off, uint64_t size, uint64_t id);

#endif
