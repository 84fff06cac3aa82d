/*
 * lease.h - which promises to remote readers are outstanding.
 *
 * A lease protects one transfer of one replica. The slot's `lease_end`, the latest end
 * granted, is the only judge of whether it may be evicted or freed; the book is there to
 * end it early. Per slot it has a base and a 64-bit map of the grants from there on that
 * are outstanding, so that a release is O(1), harmless when it is lost, and ignored when it
 * is late or comes twice. When the 65th grant after the oldest comes, the oldest is
 * forgotten and runs to its end. After a restart ends still count, and tokens of before are
 * ignored (their epoch differs).
 *
 * Memory    an array of struct lease_grants, by slot, zeroed, given at init; a sparse one
 *           stays so.
 * Errors    none.
 * Thread    the loop thread.
 */
#ifndef CORE_LEASE_H
#define CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define LEASE_GRANTS 64u

/* Names one grant; what comes from outside is compared, never trusted. */
struct lease_token {
	uint64_t epoch; /* of the node's start */
	uint64_t life;  /* of the slot */
	uint32_t slot;
	uint32_t grant;
};

struct lease_grants {
	uint64_t life; /* that the rest is about */
	uint64_t
		outstanding; /* bit i: grant base + i; bit 0 is set unless all are clear */
	uint32_t base;       /* the oldest that can be released */
	uint8_t span;        /* the next grant is base + span; up to LEASE_GRANTS */
	bool forgotten;      /* one that was may still run */
};

_Static_assert(sizeof(struct lease_grants) == 24, "memory for each slot");

struct lease_book {
	struct lease_grants *grants; /* [slots_limit] */
	uint32_t slots_limit;
	uint64_t epoch;
	uint64_t count; /* outstanding, of all slots */
};

void lease_book_init(struct lease_book *book, struct lease_grants *grants,
	uint32_t slots_limit, uint64_t epoch);

struct lease_token lease_grant(struct lease_book *book, uint32_t slot, uint64_t life);

enum lease_release {
	LEASE_IGNORED,       /* another epoch or life, or not outstanding */
	LEASE_RELEASED,      /* others are outstanding, or were forgotten */
	LEASE_LAST_RELEASED, /* none is, and none was forgotten: the lease is over now */
};

/* Any values may come in. */
enum lease_release lease_release(
	struct lease_book *book, const struct lease_token *token);

/* The slot's object is gone, or all that was granted has come to its end: nothing is
 * outstanding or forgotten, and the tokens so far are ignored. A grant after the slot's
 * `lease_end` begins with it, or one forgotten grant would count for as long as the object
 * lives. */
void lease_forget(struct lease_book *book, uint32_t slot);

/* Outstanding grants of the slot's object. */
uint32_t lease_outstanding(const struct lease_book *book, uint32_t slot, uint64_t life);

#endif
