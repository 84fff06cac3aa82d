/*
 * mem_domain.h - the keys of one domain of the directory in memory, and how to go back.
 *
 * Memory    each key and each undo record is on the heap, until mem_domain_free().
 * Errors    ERR_NO_SPACE: the domain is full, or the process has no memory; nothing has
 *           changed then.
 * Thread    one.
 */
#ifndef DIR_MEM_DOMAIN_H
#define DIR_MEM_DOMAIN_H

#include "base/attr.h"
#include "dir/dir.h"

#define MEM_BUCKETS 4096u

/* Who is there, and until when. */
struct mem_members {
	struct dir_member members[DIR_HOLDERS];
	uint64_t until[DIR_HOLDERS];
	uint32_t count;
};

struct mem_domain {
	uint64_t epoch; /* never 0 */
	bool away, full;
	struct mem_entry **buckets; /* [MEM_BUCKETS] */
	struct list entries;        /* all keys, the one looked at longest ago first, */
	uint32_t entry_count;       /* and how many */
	struct list undo;           /* records, the oldest first */
	uint32_t undo_count, undo_limit;
	struct mem_members members; /* used of domain 0 */
};

int mem_domain_init(struct mem_domain *domain, uint32_t undo_limit) MUST_CHECK;
void mem_domain_free(struct mem_domain *domain);

/* Do the call's command at `now`. */
int mem_domain_run(
	struct mem_domain *domain, struct dir_call *call, uint64_t now) MUST_CHECK;
/* Forget all. */
void mem_domain_clear(struct mem_domain *domain);
/* Take back the last changes; how many. */
uint32_t mem_domain_undo(struct mem_domain *domain, uint32_t count);

bool mem_domain_look(const struct mem_domain *domain, const struct dir_id *id,
	uint64_t now, struct dir_entry *ret);
/* NULL, or what is broken. */
const char *mem_domain_check(const struct mem_domain *domain);

#endif
