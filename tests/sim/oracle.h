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

/* A put that a client asked for. */
struct put {
	struct list entry;
	uint64_t op;
	uint32_t ref; /* of the client */
	uint32_t key;
	uint64_t id; /* of its bytes */
	uint64_t size, ttl_ns;
	bool softpin;
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
	END_EVICTED
};

/* What a put made: bytes under a key from one look to another, maybe in several slots. */
struct sim_object {
	struct list entry;
	struct put *put;
	uint64_t generation;
	uint64_t expires;      /* 0: never */
	uint64_t began, ended; /* looks; ended 0: not yet */
	uint32_t places;       /* READY slots */
	uint64_t moves;        /* relocations of it */
	unsigned reports;      /* of ended reads, that were sent */
	unsigned reports_done; /* and answered as counted */
	enum end_reason reason;
	uint32_t taker;
	uint64_t take_op;
};

struct oracle_key {
	uint8_t bytes[KEY_LIMIT];
	uint32_t size;
	uint64_t hash;
	struct sim_object *object; /* that it has now */
	uint64_t remove_at;  /* the last look at which a remove of it was under way */
	uint64_t absent_at;  /* the last look without an object, before the current one */
	uint64_t present_at; /* the last look with one */
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

/* The bytes of a put. */
void pattern_fill(unsigned char *to, uint64_t off, uint64_t size, uint64_t id);
bool pattern_is(const unsigned char *bytes, uint64_t off, uint64_t size, uint64_t id);

#endif
