/*
 * env.h - the world behind four small tables, so that a node runs alike on a kernel and
 * in a simulation.
 *
 * The node calls these and nothing else that could block, wait or differ between two
 * runs. Events come the other way, through node_on_*() (node/node.h), never from inside a
 * call that the node made.
 *
 * Units     bytes; ns of CLOCK_BOOTTIME; µs of the wall clock.
 * Errors    0 or a negative number of base/err.def.
 * Thread    the loop thread.
 */
#ifndef IO_ENV_H
#define IO_ENV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct env_clock {
	void *ctx;
	uint64_t (*boot_ns)(void *ctx);
	uint64_t (*wall_us)(void *ctx);
};

/* A connection of a client's; 0 is none. A client may have several: one a busy thread. */
struct lane_id {
	uint64_t value;
};

/* What tells a process from every other that ever had its pid. */
struct env_process {
	uint32_t pid;
	uint64_t start_time; /* clock ticks since boot */
};

/* Which segments go with a message, as descriptors. */
struct env_grant {
	uint32_t cid;
	uint32_t incarnation;
	bool pool_writable;
};

struct env_net {
	void *ctx;
	/* Send one message, with descriptors if `grant` is not NULL. A lane that cannot
	 * take it is closed, and its close is reported like any other. */
	void (*send)(void *ctx, struct lane_id lane, const void *message, size_t size,
		const struct env_grant *grant);
	void (*close)(void *ctx, struct lane_id lane);
	/* Report the end of the process at the lane's other end as that of client `cid`;
	 * who is watched already stays so, and the process is only told. */
	int (*watch_lane)(void *ctx, struct lane_id lane, uint32_t cid,
		struct env_process *ret_process);
	/* The same for a process known from an earlier run. ERR_NOT_FOUND: it is gone. */
	int (*watch_process)(void *ctx, const struct env_process *process, uint32_t cid);
	void (*unwatch)(void *ctx, uint32_t cid);
};

/* The shared segments' files. */
struct env_disk {
	void *ctx;
	/* Allocate the index file up to `bytes` from `offset`, so that no one meets a
	 * hole. */
	int (*index_extend)(void *ctx, uint64_t offset, uint64_t bytes);
	/* Create a zeroed counts file for `nslots`, or open one of an earlier run. */
	int (*holds_make)(void *ctx, uint32_t cid, uint32_t incarnation, uint32_t nslots,
		_Atomic uint16_t **ret_counts);
	int (*holds_open)(void *ctx, uint32_t cid, uint32_t incarnation,
		_Atomic uint16_t **ret_counts);
	int (*holds_extend)(void *ctx, uint32_t cid, uint32_t nslots);
	void (*holds_drop)(void *ctx, uint32_t cid, uint32_t incarnation);
};

/* ---- the disk tier ------------------------------------------------------- */

#define TIER_BLOCK     4096u /* what an object's run on disk starts and ends on */
#define TIER_INLINE    1024u /* values up to this size lie in the index */
#define TIER_PIECES    1024u /* of one write, and changes of one commit */
#define TIER_ON_INDEX  UINT64_MAX
#define TIER_JOB_LIMIT 64u /* under way at once */

/* The bytes of one object, in the pool. */
struct tier_piece {
	uint64_t pool_off;
	uint64_t size;
	uint64_t seed;     /* of the checksum: the key's, so that it covers the key too */
	uint64_t checksum; /* returned: XXH3-64 of the bytes that were moved */
};

/* 128 bits of a key's hash: its name in the index. */
struct tier_id {
	uint64_t word[2];
};

/* What the index remembers of an object. */
struct tier_record {
	struct tier_id id;
	uint64_t off; /* in the data file, or TIER_ON_INDEX */
	uint64_t size, generation, checksum;
	uint64_t ttl_ns; /* rest of the time to live when it was written; 0 = none */
	uint16_t readers_left, klen;
	uint16_t wanted; /* nodes that are to keep it; 0 as 1 */
	uint32_t flags;  /* SLOT_SOFTPIN, SLOT_EXPIRES; TIER_COUNTED */
	const void *key;
};

#define TIER_COUNTED (1u << 31) /* readers_left counts */

/* One change of the index; a commit makes all of its changes or none. */
struct tier_change {
	bool drop;      /* the record of `record.id`, if there is one; else store it */
	uint64_t value; /* pool offset of the bytes of one that lies in the index */
	/* Without a key: its bytes are not in the pool any more. The record is there, and
	 * only its readers_left changes. */
	struct tier_record record;
};

/*
 * Files and index of the disk tier. Each call but adopt() starts a job and returns; its
 * end comes once, as node_on_tier(job, err), and until then what the call pointed to and
 * the pool's bytes stay in place. Jobs run side by side, only commits one after another.
 * A write's bytes are sure to outlive the host only after a commit that began after the
 * write's end: it flushes them before it writes the index. With the process every job has
 * ended, done or not: nothing is moved on behalf of a daemon that is gone.
 *
 * ERR_NO_SPACE: the file system or the index is full; ERR_IO: the device failed; ERR_CORRUPT:
 * what was to be read is not there any more.
 */
struct env_tier {
	void *ctx; /* NULL: there is no disk */
	uint64_t
		data_size; /* bytes that the data file may have, a multiple of TIER_BLOCK */
	uint64_t object_limit; /* records that the index may have */
	/* Record number `at` of those that the start found, by rising offset, those in the
	 * index last. False: there are no more. The key stays until the next call. */
	bool (*adopt)(void *ctx, uint64_t at, struct tier_record *ret);
	/* Write the pieces, each from the next multiple of TIER_BLOCK, from `off` on. */
	void (*write)(void *ctx, uint32_t job, uint64_t off, struct tier_piece *pieces,
		uint32_t count);
	/* Read one object's bytes. Nothing behind its size in the pool is touched. */
	void (*read)(void *ctx, uint32_t job, uint64_t off, struct tier_piece *piece);
	/* The same for a value that lies in the index. ERR_NOT_FOUND: no such record. */
	void (*fetch)(
		void *ctx, uint32_t job, struct tier_id id, struct tier_piece *piece);
	void (*commit)(void *ctx, uint32_t job, const struct tier_change *changes,
		uint32_t count);
	/* The keys of records, packed as {u16 length, bytes} in `buffer` in the order of
	 * `ids`; length 0: no such record, or it did not fit. */
	void (*keys)(void *ctx, uint32_t job, const struct tier_id *ids, uint32_t count,
		void *buffer, size_t size);
	/* Give the file system back what nobody uses. */
	void (*punch)(void *ctx, uint32_t job, uint64_t off, uint64_t size);
	/* Bytes that the data file takes on the file system, as of the last commit or punch
	 * that ended. */
	uint64_t (*backed)(void *ctx);
};

/* ---- other nodes --------------------------------------------------------- */

#define PEER_LIMIT \
	64u /* other nodes known at once; their places are numbered by the node */
#define PEER_TRANSFERS 64u        /* fetches under way at once */
#define PEER_CHUNK     (1u << 20) /* bytes that are verified together */

/* A connection that another node made to this one; 0 is none. */
struct link_id {
	uint64_t value;
};

/* Lets its bearer read one object once. */
struct peer_ticket {
	uint8_t bytes[16];
};

/* What a ticket is for. `slot` and `life` are looked at before and after each chunk is sent:
 * it counts only if the slot still has that life and its lease_end has not come. */
struct peer_offer {
	uint32_t slot;
	uint64_t life, generation;
	uint64_t off, size; /* in the pool */
};

struct peer_fetch {
	uint32_t peer; /* who has it */
	struct peer_ticket ticket;
	uint64_t generation;
	uint64_t pool_off, size; /* where the bytes go */
	uint64_t seed;           /* of the checksum that is returned: the key's */
	uint64_t deadline_ns;    /* CLOCK_BOOTTIME */
};

/*
 * Connections between nodes. A node has one to each other node, over which it asks, and one
 * from each, over which it is asked. A frame is a channel and a message (wire/msg.h); an
 * answer bears the channel of its request. Order is kept within a connection. Both ends are
 * proven by the keys that the world was given before a frame goes either way.
 *
 * Each call but the answers begins something and returns; the rest comes by node_on_*().
 */
struct env_peer {
	void *ctx; /* NULL: the node is alone */
	/* Make the connection to place `peer`; node_on_peer_up() or node_on_peer_down()
	 * follows, and node_on_peer_down() whenever it breaks later. */
	void (*connect)(void *ctx, uint32_t peer, const char *endpoint);
	/* Ask; nothing happens if there is no connection. */
	void (*send)(void *ctx, uint32_t peer, uint32_t channel, const void *message,
		size_t size);
	/* End the connection, and every fetch over it; both are reported. */
	void (*close)(void *ctx, uint32_t peer);
	/* Answer over a connection that was made to this node. */
	void (*answer)(void *ctx, struct link_id link, uint32_t channel,
		const void *message, size_t size);
	void (*close_link)(void *ctx, struct link_id link);
	/* Make a ticket; it ends when it was used or withdrawn. ERR_TOO_MANY. */
	int (*offer)(void *ctx, const struct peer_offer *offer,
		struct peer_ticket *ret_ticket);
	void (*withdraw)(void *ctx, const struct peer_ticket *ticket);
	/* Fetch number `fetch`; its end comes once, as node_on_fetch(): only then is its
	 * place in the pool nobody's again. */
	void (*fetch)(void *ctx, uint32_t fetch, const struct peer_fetch *what);
	/* Have it end soon. */
	void (*stop_fetch)(void *ctx, uint32_t fetch);
};

struct env_random {
	void *ctx;
	void (*fill)(void *ctx, void *buffer, size_t size);
};

struct env {
	struct env_clock clock;
	struct env_net net;
	struct env_disk disk;
	struct env_tier tier;
	struct env_peer peer;
	struct env_random random;
	/* End this process as by SIGKILL; does not return. For faults, else NULL. */
	void (*die)(void *ctx);
	void *die_ctx;
};

#endif
