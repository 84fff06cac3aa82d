/*
 * mem_domain.c - a table of keys that can go back.
 *
 * Before a change the key is copied whole into an undo record; to go back is to put the
 * copies back, the youngest first. What is over goes when its key is met, and each command
 * looks at a few other keys, so that a table with much that is over does not stay large.
 */
#include "dir/mem_domain.h"

#include "base/check.h"
#include "base/err.h"
#include "dir/mem_key.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP 2u /* other keys looked at by a command */

struct mem_entry {
	struct list entry;
	struct mem_entry *chain; /* of its bucket */
	struct mem_key key;
};

/* What was before a change. */
struct mem_undo {
	struct list entry;
	struct mem_key key;          /* empty: it was not there */
	struct mem_members *members; /* of theirs, else NULL; there is no key then */
};

/* ---- the table ----------------------------------------------------------- */

static struct mem_entry **table_place(
	const struct mem_domain *domain, const struct dir_id *id)
{
	uint64_t mixed = (id->word[0] ^ id->word[1]) * 0x9e3779b97f4a7c15ull;
	struct mem_entry **at = &domain->buckets[(mixed >> 40) % MEM_BUCKETS];

	while (*at != NULL && memcmp(&(*at)->key.id, id, sizeof(*id)) != 0)
		at = &(*at)->chain;
	return at;
}

static struct mem_entry *table_add(struct mem_domain *domain, const struct dir_id *id)
{
	struct mem_entry **place = table_place(domain, id);
	struct mem_entry *entry = *place;

	if (entry != NULL)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return NULL;
	mem_key_init(&entry->key, *id);
	list_add_tail(&domain->entries, &entry->entry);
	domain->entry_count++;
	*place = entry;
	return entry;
}

static void table_drop(struct mem_domain *domain, struct mem_entry *entry)
{
	struct mem_entry **place = table_place(domain, &entry->key.id);

	CHECK(*place == entry);
	*place = entry->chain;
	list_del(&entry->entry);
	domain->entry_count--;
	free(entry);
}

static void table_sweep(struct mem_domain *domain, uint64_t now)
{
	for (uint32_t i = 0; i < SWEEP && !list_is_empty(&domain->entries); i++) {
		struct mem_entry *entry = container_of(
			list_first(&domain->entries), struct mem_entry, entry);

		mem_key_tidy(&entry->key, now);
		if (mem_key_is_empty(&entry->key))
			table_drop(domain, entry);
		else
			list_move_tail(&domain->entries, &entry->entry);
	}
}

/* ---- undo ---------------------------------------------------------------- */

static void undo_free(struct mem_undo *undo)
{
	if (undo != NULL)
		free(undo->members);
	free(undo);
}

static void undo_drop(struct mem_domain *domain, struct mem_undo *undo)
{
	list_del(&undo->entry);
	domain->undo_count--;
	undo_free(undo);
}

static void undo_trim(struct mem_domain *domain, uint32_t limit)
{
	while (domain->undo_count > limit)
		undo_drop(domain,
			container_of(list_first(&domain->undo), struct mem_undo, entry));
}

static void undo_add(struct mem_domain *domain, struct mem_undo *undo)
{
	list_add_tail(&domain->undo, &undo->entry);
	domain->undo_count++;
	undo_trim(domain, domain->undo_limit);
}

/* False: no memory, and the change is not taken back. */
static bool undo_key(struct mem_domain *domain, const struct mem_key *before)
{
	struct mem_entry *entry = table_add(domain, &before->id);

	if (entry == NULL)
		return false;
	entry->key = *before;
	if (mem_key_is_empty(before))
		table_drop(domain, entry);
	return true;
}

uint32_t mem_domain_undo(struct mem_domain *domain, uint32_t count)
{
	uint32_t undone = 0;

	while (undone < count && !list_is_empty(&domain->undo)) {
		struct mem_undo *undo = container_of(
			list_last(&domain->undo), struct mem_undo, entry);

		if (undo->members != NULL)
			domain->members = *undo->members;
		else if (!undo_key(domain, &undo->key))
			break;
		undo_drop(domain, undo);
		undone++;
	}
	return undone;
}

/* ---- members ------------------------------------------------------------- */

static uint32_t members_find(const struct mem_members *members, uint64_t node)
{
	uint32_t at = 0;

	while (at < members->count && members->members[at].node != node)
		at++;
	return at;
}

static void members_drop(struct mem_members *members, uint32_t at)
{
	uint32_t behind = members->count - at - 1;

	memmove(&members->members[at], &members->members[at + 1],
		behind * sizeof(members->members[0]));
	memmove(&members->until[at], &members->until[at + 1],
		behind * sizeof(members->until[0]));
	members->count--;
}

static void members_tidy(struct mem_members *members, uint64_t now)
{
	for (uint32_t at = members->count; at-- > 0;) {
		if (members->until[at] <= now)
			members_drop(members, at);
	}
}

static int members_renew(struct mem_members *members, struct dir_call *call, uint64_t now)
{
	uint32_t own = members_find(members, call->node);

	if (own == DIR_HOLDERS)
		return ERR_NO_SPACE;
	members->members[own] = *call->member;
	members->until[own] = now + call->bury_ns;
	members->count = MAX(members->count, own + 1);
	for (uint32_t i = 0; i < members->count; i++) {
		if (i != own)
			call->members[call->member_count++] = members->members[i];
	}
	return 0;
}

static int run_members(struct mem_domain *domain, struct dir_call *call, uint64_t now)
{
	struct mem_undo *undo = calloc(1, sizeof(*undo));
	struct mem_members *members = &domain->members;
	uint32_t own;
	int err = 0;

	if (undo != NULL)
		undo->members = malloc(sizeof(*undo->members));
	if (undo == NULL || undo->members == NULL) {
		undo_free(undo);
		return ERR_NO_SPACE;
	}
	*undo->members = *members;
	members_tidy(members, now);
	if (call->op == DIR_OP_RENEW)
		err = members_renew(members, call, now);
	own = members_find(members, call->node);
	if (call->op == DIR_OP_RESIGN && own < members->count)
		members_drop(members, own);
	if (err != 0)
		undo_free(undo);
	else
		undo_add(domain, undo);
	return err;
}

/* ---- commands ------------------------------------------------------------ */

static int run_key(struct mem_domain *domain, struct dir_call *call, uint64_t now)
{
	struct mem_entry *entry = table_add(domain, &call->id);
	struct mem_undo *undo = calloc(1, sizeof(*undo));
	bool changed = false;
	int err = ERR_NO_SPACE;

	if (entry != NULL && undo != NULL) {
		undo->key = entry->key;
		err = mem_key_run(&entry->key, call, now, domain->full, &changed);
	}
	if (changed) {
		undo_add(domain, undo);
		undo = NULL;
	}
	undo_free(undo);
	if (entry != NULL && mem_key_is_empty(&entry->key))
		table_drop(domain, entry);
	return err;
}

bool mem_domain_look(const struct mem_domain *domain, const struct dir_id *id,
	uint64_t now, struct dir_entry *ret)
{
	const struct mem_entry *entry = *table_place(domain, id);

	return entry != NULL && mem_key_look(&entry->key, now, ret);
}

int mem_domain_run(struct mem_domain *domain, struct dir_call *call, uint64_t now)
{
	bool found;

	table_sweep(domain, now);
	if (call->op == DIR_OP_RENEW || call->op == DIR_OP_RESIGN)
		return run_members(domain, call, now);
	if (call->op != DIR_OP_LOOKUP)
		return run_key(domain, call, now);
	found = mem_domain_look(domain, &call->id, now, &call->entry);
	call->verdict = found ? DIR_DONE : DIR_ABSENT;
	return 0;
}

/* ---- begin and end ------------------------------------------------------- */

int mem_domain_init(struct mem_domain *domain, uint32_t undo_limit)
{
	*domain = (struct mem_domain){.undo_limit = undo_limit};
	list_init(&domain->entries);
	list_init(&domain->undo);
	domain->buckets = calloc(MEM_BUCKETS, sizeof(*domain->buckets));
	return domain->buckets != NULL ? 0 : ERR_NO_MEMORY;
}

void mem_domain_clear(struct mem_domain *domain)
{
	list_for_each_safe (at, &domain->entries)
		free(container_of(at, struct mem_entry, entry));
	list_init(&domain->entries);
	domain->entry_count = 0;
	memset(domain->buckets, 0, MEM_BUCKETS * sizeof(*domain->buckets));
	undo_trim(domain, 0);
	domain->members.count = 0;
}

void mem_domain_free(struct mem_domain *domain)
{
	if (domain->buckets == NULL)
		return;
	mem_domain_clear(domain);
	free(domain->buckets);
	domain->buckets = NULL;
}

const char *mem_domain_check(const struct mem_domain *domain)
{
	uint32_t undo_count = 0, entry_count = 0;

	list_for_each (at, &domain->entries) {
		const struct mem_entry *entry = container_of(at, struct mem_entry, entry);
		const char *broken = mem_key_check(&entry->key);

		entry_count++;
		if (broken != NULL)
			return broken;
		if (*table_place(domain, &entry->key.id) != entry)
			return "a key is not where it is looked for";
		if (mem_key_is_empty(&entry->key))
			return "nothing is kept of a key";
	}
	if (entry_count != domain->entry_count)
		return "the number of keys is wrong";
	list_for_each (at, &domain->undo)
		undo_count++;
	if (undo_count != domain->undo_count || undo_count > domain->undo_limit)
		return "the number of changes that can be undone is wrong";
	if (domain->members.count > DIR_HOLDERS)
		return "there are too many members";
	return domain->epoch != 0 ? NULL : "a domain has no epoch";
}
