/*
 * extent.h - hands out runs of one space by offset: the pool, or a disk file.
 *
 * The space itself is never touched. Every block of it, used or free, is one 32-byte
 * record in an array that the owner gives, and a run is named by its record's index
 * from the alloc to the free. The owner rebuilds the map after a restart with
 * extent_alloc_at().
 *
 * A run starts on a multiple of the alignment asked for, and its size is rounded up to
 * the granule only. The pool's rule, that objects of 16 KiB and more lie on 4 KiB and
 * are sized in 4 KiB, is extent_round(): its caller passes both results on.
 *
 * Units     bytes where a name says so, granules inside records. A space has less than
 *           2^32 - 1 granules: about 1 TiB at 256 B, 16 TiB at 4 KiB.
 * Memory    the owner embeds the map and keeps `records` alive as long as it. Records
 *           that were never needed are never written, so a sparse array stays sparse.
 *           EXTENT_RECORDS(n) of them carry n runs in any layout; one more is refused.
 * Errors    EXTENT_NONE: no hole, or no records for one more run; nothing has changed.
 *           A broken precondition stops the program.
 * Promise   extent_alloc(size, align), size > 0, succeeds if and only if
 *           extent_largest_fit(align) >= size.
 * Thread    the loop thread.
 */
#ifndef CORE_EXTENT_H
#define CORE_EXTENT_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

#define EXTENT_NONE UINT32_MAX

/* Free blocks are listed by size: 32 bins for each power of two, in one sequence. */
#define EXTENT_FANOUT 32
#define EXTENT_LEVELS 28
#define EXTENT_BINS   (EXTENT_LEVELS * EXTENT_FANOUT)

/* Between n runs lie at most n + 1 holes, and each edge of a window cuts one of them. */
#define EXTENT_RECORDS(runs) (2 * (runs) + 1 + 2 * EXTENT_WINDOWS)

/* Ranges kept from extent_alloc(), each for a purpose of its own. */
enum extent_window {
	EXTENT_CLEARING, /* emptied for one run, which is then claimed */
	EXTENT_TURNING,  /* kept for runs that are taken in it by place */
	EXTENT_WINDOWS
};

enum extent_kind {
	EXTENT_SPARE,    /* the record is unused */
	EXTENT_FREE,     /* a hole that extent_alloc() may take */
	EXTENT_USED,     /* a run, until extent_free() */
	EXTENT_WITHHELD, /* a hole in a window */
};

#define EXTENT_KINDS 4

struct extent {
	uint32_t off;       /* granules */
	uint32_t size;      /* granules */
	uint32_t prev;      /* by address; EXTENT_NONE at the ends */
	uint32_t next;      /* by address; in a spare record the next spare one */
	uint32_t free_prev; /* in its bin, while free */
	uint32_t free_next;
	uint32_t owner; /* what the owner said, while used */
	uint8_t kind;   /* enum extent_kind */
	uint8_t pad[3];
};

_Static_assert(sizeof(struct extent) == 32, "two records a cache line");

struct extent_total {
	uint64_t granules;
	uint32_t count;
};

/* The place of a window; empty while it is closed. */
struct extent_range {
	uint32_t off; /* granules */
	uint32_t end;
	uint32_t first; /* the block at `off` */
	uint32_t used;  /* granules of used runs in it */
};

struct extent_map {
	struct extent *records; /* [limit], the owner's; the first block is records[0] */
	uint32_t limit;
	uint32_t run_limit; /* used runs that `limit` records carry */
	uint32_t high;      /* records below were used at least once */
	uint32_t spare;     /* the spare ones below `high`, linked by `next` */
	uint32_t last;      /* the block with the highest address */
	uint32_t granule_count;
	uint32_t granule_shift;
	struct extent_total totals[EXTENT_KINDS]; /* of SPARE nothing is counted */

	/* No free block has room for this request: it need not be looked for again. */
	uint32_t refused_size; /* granules; EXTENT_NONE = nothing is known */
	uint64_t refused_align;

	struct extent_range windows[EXTENT_WINDOWS];

	uint32_t levels;              /* bit l: bins[l] is not 0 */
	uint32_t bins[EXTENT_LEVELS]; /* bit i: bin l * 32 + i has a block */
	uint32_t heads[EXTENT_BINS];  /* valid where the bit is set */
};

/* One free block of `size_bytes`, rounded down to `granule_bytes`, a power of two. */
void extent_map_init(struct extent_map *map, struct extent *records, uint32_t limit,
	uint64_t size_bytes, uint32_t granule_bytes);

/* A run of `size_bytes` (0 counts as 1) on a multiple of `align_bytes`, a power of 2. */
uint32_t extent_alloc(struct extent_map *map, uint64_t size_bytes, uint64_t align_bytes,
	uint32_t owner);

/* The run at exactly `off_bytes`, if the space is there and wholly free. Any values may
 * come in. Ascending offsets cost O(1) each, others a walk down from the end. */
uint32_t extent_alloc_at(
	struct extent_map *map, uint64_t off_bytes, uint64_t size_bytes, uint32_t owner);

/* Give the run back; `rec` and its free neighbours become one block. */
void extent_free(struct extent_map *map, uint32_t rec);

/* Cut a run in two: `rec` keeps the first `size_bytes`, a multiple of the granule and less
 * than it has. Returns the rest, a run of `owner`. */
uint32_t extent_split(
	struct extent_map *map, uint32_t rec, uint64_t size_bytes, uint32_t owner);

/* The largest size for which extent_alloc() would succeed now; 0 = none. It walks
 * the largest bins: to learn whether one request fits, try it. */
uint64_t extent_largest_fit(const struct extent_map *map, uint64_t align_bytes);

/*
 * A window: a range kept from extent_alloc(). Free space in it is withheld at once, runs
 * freed in it later too. There is one of each kind at most, and they share no granule.
 *
 * Both edges lie on granules and not inside a used run; free blocks are cut there, and
 * holes on the two sides of an edge stay two. `near` is any block; the walk from it to the
 * window's start is the cost.
 */
void extent_window_open(struct extent_map *map, enum extent_window which, uint32_t near,
	uint64_t off_bytes, uint64_t size_bytes);

/* Bytes in the window that are still used. */
uint64_t extent_window_missing(const struct extent_map *map, enum extent_window which);

/* With nothing missing in EXTENT_CLEARING: take its first aligned run, which must fit, and
 * close it; the rest becomes free. Without records for the run the window stays open. */
uint32_t extent_window_claim(struct extent_map *map, uint64_t size_bytes,
	uint64_t align_bytes, uint32_t owner);

/* The run at exactly `off_bytes` of an open window, if all of it is withheld there; the
 * window stays open. Any values may come in. The walk from the window's start is the cost.
 */
uint32_t extent_window_take(struct extent_map *map, enum extent_window which,
	uint64_t off_bytes, uint64_t size_bytes, uint32_t owner);

/* What is withheld becomes free, what is used stays. */
void extent_window_close(struct extent_map *map, enum extent_window which);

/* All invariants; for tests and the simulator, after every step. */
bool extent_map_check(const struct extent_map *map);

/* The pool's rule for an object of `size_bytes`: what to ask extent_alloc() for. */
static inline uint64_t extent_round(uint64_t size_bytes, uint64_t *ret_align_bytes)
{
	uint64_t align = size_bytes < 16384 ? 256 : 4096;

	*ret_align_bytes = align;
	if (size_bytes > UINT64_MAX - align)
		return UINT64_MAX; /* more than any space: refused as it is */
	return align_up_u64(size_bytes, align);
}

/* A block as it stands; valid until the next call that changes the map. */
static inline const struct extent *extent_record(
	const struct extent_map *map, uint32_t rec)
{
	CHECK(rec < map->high && map->records[rec].kind != EXTENT_SPARE);
	return &map->records[rec];
}

/* Hand a used run to another owner. */
static inline void extent_set_owner(struct extent_map *map, uint32_t rec, uint32_t owner)
{
	CHECK(extent_record(map, rec)->kind == EXTENT_USED);
	map->records[rec].owner = owner;
}

/* Walk all blocks by address; EXTENT_NONE past the ends. */
static inline uint32_t extent_first(const struct extent_map *map)
{
	(void)map;
	return 0;
}

static inline uint32_t extent_next(const struct extent_map *map, uint32_t rec)
{
	return extent_record(map, rec)->next;
}

static inline uint32_t extent_prev(const struct extent_map *map, uint32_t rec)
{
	return extent_record(map, rec)->prev;
}

static inline uint64_t extent_off_bytes(const struct extent_map *map, uint32_t rec)
{
	return (uint64_t)extent_record(map, rec)->off << map->granule_shift;
}

static inline uint64_t extent_size_bytes(const struct extent_map *map, uint32_t rec)
{
	return (uint64_t)extent_record(map, rec)->size << map->granule_shift;
}

/* Bytes and number of the blocks of one kind. */
static inline uint64_t extent_total_bytes(
	const struct extent_map *map, enum extent_kind kind)
{
	return map->totals[kind].granules << map->granule_shift;
}

static inline uint32_t extent_total_count(
	const struct extent_map *map, enum extent_kind kind)
{
	return map->totals[kind].count;
}

static inline bool extent_window_is_open(
	const struct extent_map *map, enum extent_window which)
{
	return map->windows[which].off != map->windows[which].end;
}

/* Blocks lie wholly in a window or wholly outside. */
static inline bool extent_in_window(
	const struct extent_map *map, enum extent_window which, uint32_t rec)
{
	uint32_t off = extent_record(map, rec)->off;

	return off >= map->windows[which].off && off < map->windows[which].end;
}

/* Where an open window lies; both 0 while it is closed. */
static inline uint64_t extent_window_off(
	const struct extent_map *map, enum extent_window which)
{
	return (uint64_t)map->windows[which].off << map->granule_shift;
}

static inline uint64_t extent_window_end(
	const struct extent_map *map, enum extent_window which)
{
	return (uint64_t)map->windows[which].end << map->granule_shift;
}

/* The block at the start of an open window. */
static inline uint32_t extent_window_first(
	const struct extent_map *map, enum extent_window which)
{
	CHECK(extent_window_is_open(map, which));
	return map->windows[which].first;
}

#endif
