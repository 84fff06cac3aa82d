/*
 * layout.h - the memory that a daemon and its clients both see, byte by byte.
 *
 * Three kinds of files, in one directory on tmpfs:
 *   index                  header, client table, slots, bucket arrays; the daemon writes,
 *                          clients map it read-only
 *   holds.<cid>.<inc>      one count per slot, written by that client alone
 *   pool                   the bytes of the objects
 *
 * A file has its full length from the start and is sparse: only what is in use
 * (share_header.nslots slots, as many counts, the current bucket array) has been
 * allocated, so that a client never meets a hole. Nothing is ever cut off again.
 *
 * Units     offsets and sizes in bytes; times in ns of CLOCK_BOOTTIME.
 * Thread    one writer per word: the daemon's loop thread, or the client that owns the
 *           counts file. Which order makes a field visible stands in hold.h.
 */
#ifndef SHARE_LAYOUT_H
#define SHARE_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHARE_MAGIC   0x65746f6e65634357ull
#define SHARE_VERSION 1u

#define CLIENT_LIMIT 256u  /* attached processes of one node */
#define KEY_LIMIT    1024u /* bytes of a key */
#define KEY_INLINE   32u   /* longer keys lie behind the object's bytes in its run */
#define SLOT_NONE    UINT32_MAX

#define KEEPERS_LIMIT 8u /* nodes that a put can ask to keep its object */

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "hold words must be lock-free");

struct share_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots_limit; /* address space is reserved for so many */
	uint8_t pool_id[16];  /* random, new with every new pool */
	uint64_t pool_size;
	uint64_t hash_seed;
	uint64_t page_size;            /* that the pool's pages are expected to have */
	_Atomic uint64_t epoch;        /* raised by each start of the daemon */
	_Atomic uint32_t nslots;       /* allocated slots; only rises */
	_Atomic uint32_t log2_buckets; /* of the current bucket array; only rises */
	uint32_t last_incarnation; /* of the client table; a new client gets the next */
	uint32_t spare;
	/* No generation above this was given (core/generation.c); 0: none, or by a daemon that
	 * did not store it. And when the wall clock may be where it stands. */
	uint64_t generation_bound;
	uint64_t generation_ns;
};

enum share_client_state {
	SHARE_CLIENT_FREE,
	SHARE_CLIENT_LIVE,
	SHARE_CLIENT_DYING
};

/* One attached process; the entry's index is the client's `cid`. */
struct share_client {
	_Atomic uint32_t state;
	uint32_t pid;
	uint64_t start_time;  /* of the process, clock ticks since boot: tells reused pids
				 apart */
	uint8_t token[16];    /* known to this client only; proves who re-attaches */
	uint32_t incarnation; /* names the counts file */
	uint32_t read_only;
	/* Its last ended read that was counted (core/read.c): valid while the low bits of
	 * read_sequence are read_valid. */
	uint64_t read_sequence; /* reports up to here were counted */
	uint64_t read_life;
	uint32_t read_slot;
	uint16_t read_left;
	uint16_t read_valid;
};
_Static_assert(sizeof(struct share_client) == 64, "client entry");

/* FREE -> WRITING -> READY -> CONDEMNED -> FREE, never back; FREE raises the life. */
enum slot_kind {
	SLOT_FREE,
	SLOT_WRITING,
	SLOT_READY,
	SLOT_CONDEMNED
};

enum slot_flag {
	SLOT_SOFTPIN = 1u << 0, /* stays readable until its owner removes it */
	SLOT_SEALED =
		1u << 1, /* under WRITING: the bytes are whole; a restart completes it */
	SLOT_EXPIRES = 1u << 2, /* `expires` counts */
	SLOT_LATE = 1u << 3,   /* under WRITING: past its deadline, never becomes READY */
	SLOT_DOOMED = 1u << 4, /* under WRITING: removed meanwhile, never becomes READY */
	SLOT_TAKEN = 1u << 5,  /* ended by take: `writer` and `op` name the winner */
	SLOT_DURABLE =
		1u << 7,     /* its put's end is answered once it is on disk, and whoever
				 * comes to keep it has it on disk, too */
	SLOT_COPY = 1u << 6, /* under WRITING: the daemon's, no client writes it: what is
			      * moved, read from the disk or fetched from another node */
	SLOT_SECONDARY = 1u << 8, /* another node keeps the object: this copy may go */
	SLOT_OUTRUN = 1u << 9, /* under WRITING: another object of the key came first */
	SLOT_REPLACES = 1u << 10, /* under WRITING: and its end will end that one */
	SLOT_REQUIRED =
		1u << 11, /* its put fails unless `wanted` nodes come to keep it */
	SLOT_UNLISTED =
		1u << 12, /* a copy that came while the directory could not name this
			   * node: whether there is such an object it is to say */
};

/*
 * An object's place. Before it holds the slot a reader reads `state` alone; under a hold
 * everything but `state` and `want` is constant to it (off, size, klen, key, generation).
 * What stands behind `generation` is the daemon's own.
 */
struct slot {
	_Atomic uint64_t state; /* life << 3 | kind */
	uint64_t off;           /* of the bytes in the pool */
	uint64_t size;
	_Atomic uint8_t
		want;    /* the daemon asks to be told when a client's last hold ends */
	uint8_t counted; /* reads that end are reported, see readers_left */
	uint16_t klen;
	uint32_t spare1;
	uint8_t key[KEY_INLINE]; /* if klen fits; else the key lies at off + size */

	uint64_t hash;         /* of the key, seeded by the pool */
	uint64_t generation;   /* 0 until it is given, at the latest with SLOT_SEALED */
	uint64_t checksum;     /* 0 = not computed yet */
	uint64_t expires;      /* end of the time to live, set when the bytes are whole */
	uint64_t lease_end;    /* the latest end granted to a remote reader; 0 = none.
			      * Under WRITING it keeps the time to live. */
	uint32_t writer;       /* client_ref() of who puts, or took */
	uint16_t readers_left; /* ended reads until the object is removed, if counted */
	uint16_t namespace_id;
	uint32_t flags;
	uint16_t wanted; /* nodes that are to keep it; 0 as 1 */
	uint16_t spare2;
	uint64_t
		op; /* the client's number of that put or take: makes a repeat harmless */
};
_Static_assert(sizeof(struct slot) == 128, "slot");
_Static_assert(
	offsetof(struct slot, hash) == 64, "a hit with a short key reads one line");

#define SLOT_STATE(kind, life) ((uint64_t)(life) << 3 | (uint64_t)(kind))

static inline enum slot_kind slot_kind_of(uint64_t state)
{
	return (enum slot_kind)(state & 7);
}

static inline uint64_t slot_life_of(uint64_t state)
{
	return state >> 3;
}

/* A client and its incarnation in one number, never 0: cid in the low 8 bits. */
static inline uint32_t client_ref(uint32_t cid, uint32_t incarnation)
{
	return incarnation << 8 | cid;
}

/*
 * Eight entries of a 16-bit tag (0 = empty) and a slot number. A tag and its slot number
 * may be read torn: the slot's own validation rejects what does not fit.
 */
struct bucket {
	_Atomic uint64_t tags[2]; /* four tags a word */
	_Atomic uint32_t slots[8];
	uint64_t spare[2];
};
_Static_assert(sizeof(struct bucket) == 64, "bucket");

/* ---- places in the index file -------------------------------------------- */

#define SHARE_CLIENTS_OFFSET   4096u
#define SHARE_SLOTS_OFFSET     65536u
#define SHARE_LOG2_BUCKETS_MIN 4u
#define SHARE_BYTES_PER_SLOT   1024u /* of the pool: the most slots a pool can have */

_Static_assert(sizeof(struct share_header) <= SHARE_CLIENTS_OFFSET, "header");
_Static_assert(SHARE_CLIENTS_OFFSET + CLIENT_LIMIT * sizeof(struct share_client) <=
		       SHARE_SLOTS_OFFSET,
	"client table");

/* Where the array of 2^log2 buckets lies: behind the slots, each array behind the
 * smaller. */
static inline uint64_t share_buckets_offset(uint32_t slots_limit, uint32_t log2)
{
	uint64_t before = (1ull << log2) - (1ull << SHARE_LOG2_BUCKETS_MIN);

	return SHARE_SLOTS_OFFSET + (uint64_t)slots_limit * sizeof(struct slot) +
	       before * sizeof(struct bucket);
}

/* The smallest bucket array for nslots: about 6 slots a bucket, load 0.38 to 0.75. */
static inline uint32_t share_log2_buckets(uint32_t nslots)
{
	uint32_t log2 = SHARE_LOG2_BUCKETS_MIN;

	while ((1ull << log2) * 6 < nslots)
		log2++;
	return log2;
}

static inline uint64_t share_index_size(uint32_t slots_limit)
{
	return share_buckets_offset(slots_limit, share_log2_buckets(slots_limit) + 1);
}

static inline uint64_t share_holds_size(uint32_t slots_limit)
{
	return (uint64_t)slots_limit * sizeof(uint16_t);
}

static inline uint32_t share_slots_limit(uint64_t pool_size)
{
	uint64_t limit = pool_size / SHARE_BYTES_PER_SLOT;

	if (limit < 64)
		limit = 64;
	return limit > (1u << 30) ? 1u << 30 : (uint32_t)limit;
}

/* The mapped segments of one node as one process sees them. Not in the memory itself. */
struct share {
	struct share_header *header;
	struct share_client *clients; /* CLIENT_LIMIT of them */
	struct slot *slots;           /* header->slots_limit of them */
	unsigned char *index;         /* base of the index file */
	unsigned char *pool;
};

static inline void share_init(struct share *share, void *index, void *pool)
{
	share->index = (unsigned char *)index;
	share->header = (struct share_header *)index;
	share->clients = (struct share_client *)(void *)(share->index +
							 SHARE_CLIENTS_OFFSET);
	share->slots = (struct slot *)(void *)(share->index + SHARE_SLOTS_OFFSET);
	share->pool = (unsigned char *)pool;
}

static inline struct bucket *share_buckets(const struct share *share, uint32_t log2)
{
	uint64_t offset = share_buckets_offset(share->header->slots_limit, log2);

	return (struct bucket *)(void *)(share->index + offset);
}

/* A number of keepers as it can be; for what comes from outside. */
static inline uint16_t keepers_wanted(uint16_t wanted)
{
	if (wanted > KEEPERS_LIMIT)
		return KEEPERS_LIMIT;
	return wanted > 0 ? wanted : 1;
}

/* Where a slot's key lies: in the slot, or behind the object's bytes. */
static inline const uint8_t *slot_key(const struct share *share, const struct slot *slot)
{
	return slot->klen <= KEY_INLINE ? slot->key
					: share->pool + slot->off + slot->size;
}

/* Bytes of the pool that an object of `size` under a key of `klen` bytes needs; never 0.
 */
static inline uint64_t slot_run_size(uint64_t size, uint16_t klen)
{
	uint64_t bytes = size + (klen > KEY_INLINE ? klen : 0u);

	return bytes > 0 ? bytes : 1;
}

#endif
