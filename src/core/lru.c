#include "core/lru.h"

static uint32_t print_of(uint64_t hash)
{
	uint32_t print = (uint32_t)(hash >> 32);

	return print != 0 ? print : 1;
}

static struct ghost_bucket *bucket_of(struct lru *lru, uint32_t print)
{
	return &lru->ghost[print & ((1u << lru->ghost_log2) - 1)];
}

uint32_t lru_ghost_log2(uint32_t nslots)
{
	uint32_t log2 = 4;

	while ((1ull << log2) * GHOST_WAYS < nslots * 4ull)
		log2++;
	return log2;
}

void lru_init(struct lru *lru, struct ghost_bucket *ghost, uint32_t nslots)
{
	object_queue_init(&lru->active);
	object_queue_init(&lru->inactive);
	lru->ghost = ghost;
	lru->ghost_log2 = lru_ghost_log2(nslots);
	lru->evicted = 0;
}

/* Double the buckets: an entry stays, or goes to the bucket one more bit names. */
static void ghost_split(struct lru *lru)
{
	uint32_t half = 1u << lru->ghost_log2;

	for (uint32_t at = 0; at < half; at++)
		for (uint32_t way = 0; way < GHOST_WAYS; way++) {
			struct ghost_entry *entry = &lru->ghost[at].entries[way];

			if (!(entry->print & half))
				continue;
			lru->ghost[at + half].entries[way] = *entry;
			entry->print = 0;
		}
	lru->ghost_log2++;
}

void lru_ghost_grow(struct lru *lru, uint32_t nslots)
{
	while (lru->ghost_log2 < lru_ghost_log2(nslots))
		ghost_split(lru);
}

bool lru_ghost_take(struct lru *lru, uint64_t hash, uint64_t cached)
{
	uint32_t print = print_of(hash);
	struct ghost_bucket *bucket = bucket_of(lru, print);

	for (uint32_t way = 0; way < GHOST_WAYS; way++) {
		struct ghost_entry *entry = &bucket->entries[way];

		if (entry->print != print)
			continue;
		entry->print = 0;
		return (uint32_t)(lru->evicted - entry->when) <= cached;
	}
	return false;
}

void lru_ghost_put(struct lru *lru, uint64_t hash, uint32_t granules)
{
	uint32_t print = print_of(hash);
	struct ghost_bucket *bucket = bucket_of(lru, print);
	struct ghost_entry *best = &bucket->entries[0];

	lru->evicted += granules;
	for (uint32_t way = 0; way < GHOST_WAYS; way++) {
		struct ghost_entry *entry = &bucket->entries[way];

		if (entry->print == print || entry->print == 0) {
			best = entry;
			if (entry->print == print)
				break;
			continue;
		}
		if (best->print != 0 &&
			lru->evicted - entry->when > lru->evicted - best->when)
			best = entry;
	}
	best->print = print;
	best->when = lru->evicted;
}
