/*
 * fault.c - the fault table of a process.
 *
 * All that a hit must know in one step lies in one word: the order's version (20 bits),
 * its action (4) and the hits since it was given (40). A hit adds 1 and has all three, so
 * each hit has its own number, and whether it fires follows from that number alone; that
 * is also how the firings are counted.
 *
 * Value, from_hit and times lie beside the word. Whoever arms makes the version odd, then
 * writes them, then makes it even:
 *
 *     even, order A --exchange--> odd, no action --store--> even, order B
 *
 * A hit reads them after the word, and then looks whether the version still is the one it
 * saw. If not, what it read may be of two orders; its own is over, so it does nothing.
 * The acquire loads here pair with the release stores of the writer: a reader that saw
 * any new field sees the odd version too.
 */
#include "fault/fault.h"

#include "base/check.h"
#include "base/err.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#if FAULT_BUILD

#define FAULT_HITS_BITS   40
#define FAULT_ACTION_BITS 4
#define FAULT_HITS_MASK   ((1ull << FAULT_HITS_BITS) - 1)
#define FAULT_VERSION_ONE (1ull << (FAULT_HITS_BITS + FAULT_ACTION_BITS))

_Static_assert(FAULT_RESET < 1 << FAULT_ACTION_BITS, "an action fits its bits");

enum fault_side {
	SIDE_CLIENT,
	SIDE_NODE,
	SIDE_CLUSTER
};

struct fault_about {
	const char *name;
	const char *where;
	enum fault_side side;
};

static const struct fault_about fault_abouts[FAULT_POINT_COUNT] = {
#define FAULT_CLIENT_POINT(point, name, where) \
	[FAULT_##point] = {name, where, SIDE_CLIENT},
#define FAULT_NODE_POINT(point, name, where) [FAULT_##point] = {name, where, SIDE_NODE},
#define FAULT_CLUSTER_POINT(point, name, where) \
	[FAULT_##point] = {name, where, SIDE_CLUSTER},
#include "fault/points.def"
};

/* What was ordered at a point, read as one. */
struct fault_order {
	enum fault_action action;
	int64_t value;
	int64_t from_hit;
	int64_t times;
};

static uint64_t fault_version(uint64_t word)
{
	return word & ~(FAULT_VERSION_ONE - 1);
}

static enum fault_action fault_word_action(uint64_t word)
{
	return (enum fault_action)(
		word >> FAULT_HITS_BITS & ((1u << FAULT_ACTION_BITS) - 1));
}

/* The order that `word` was read with; false if it is being replaced, or was. */
static bool fault_read(
	struct fault_entry *entry, uint64_t word, struct fault_order *ret_order)
{
	struct fault_order order = {
		.action = fault_word_action(word),
		.value = atomic_load_explicit(&entry->value, memory_order_acquire),
		.from_hit = atomic_load_explicit(&entry->from_hit, memory_order_acquire),
		.times = atomic_load_explicit(&entry->times, memory_order_acquire),
	};
	uint64_t now = atomic_load_explicit(&entry->word, memory_order_acquire);

	if ((word & FAULT_VERSION_ONE) != 0 || fault_version(now) != fault_version(word))
		return false;
	*ret_order = order;
	return true;
}

/* How many of the first `hits` hits fire. */
static uint64_t fault_firings(const struct fault_order *order, uint64_t hits)
{
	uint64_t before = (uint64_t)order->from_hit - 1;
	uint64_t firings;

	if (order->action == FAULT_NONE || hits <= before)
		return 0;
	firings = hits - before;
	return order->times < 0 ? firings : MIN(firings, (uint64_t)order->times);
}

enum fault_action fault_hit(
	struct fault_table *table, enum fault_point point, int64_t *ret_value)
{
	struct fault_entry *entry = &table->entries[point];
	struct fault_order order;
	uint64_t word, hits;

	word = atomic_fetch_add_explicit(&entry->word, 1, memory_order_acq_rel);
	if (fault_word_action(word) == FAULT_NONE || !fault_read(entry, word, &order))
		return FAULT_NONE;
	hits = (word & FAULT_HITS_MASK) + 1;
	if (fault_firings(&order, hits) == fault_firings(&order, hits - 1))
		return FAULT_NONE;
	if (order.action != FAULT_KILL)
		*ret_value = order.value;
	return order.action;
}

/* Become the one who writes the entry; returns the odd version. Waits only for another
 * who arms the same point, which is a few stores. */
static uint64_t fault_lock(struct fault_entry *entry)
{
	uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);

	for (;;) {
		uint64_t odd = fault_version(word) + FAULT_VERSION_ONE;

		if ((word & FAULT_VERSION_ONE) != 0)
			word = atomic_load_explicit(&entry->word, memory_order_relaxed);
		else if (atomic_compare_exchange_weak_explicit(&entry->word, &word, odd,
				 memory_order_acq_rel, memory_order_relaxed))
			return odd;
	}
}

static void fault_write(struct fault_entry *entry, const struct fault_order *order)
{
	uint64_t even = fault_lock(entry) + FAULT_VERSION_ONE;

	atomic_store_explicit(&entry->value, order->value, memory_order_release);
	atomic_store_explicit(&entry->from_hit, order->from_hit, memory_order_release);
	atomic_store_explicit(&entry->times, order->times, memory_order_release);
	atomic_store_explicit(&entry->word,
		even | (uint64_t)order->action << FAULT_HITS_BITS, memory_order_release);
}

static bool fault_order_is_sane(const struct fault_order *order)
{
	if (order->from_hit < 1 || order->times < -1)
		return false;
	switch (order->action) {
	case FAULT_SLEEP:
		return order->value >= 0;
	case FAULT_RETURN_ERROR:
		return order->value < 0 && order->value >= INT_MIN;
	case FAULT_KILL:
	case FAULT_RESET:
		return true;
	case FAULT_NONE:
		break;
	}
	return false;
}

/* The points of a name, from `from` on: one, or one of each side. NULL: no more. */
static struct fault_entry *fault_find(
	struct fault_table *table, const char *name, int *from)
{
	for (int i = *from; i < FAULT_POINT_COUNT; i++) {
		if (strcmp(fault_abouts[i].name, name) != 0)
			continue;
		*from = i + 1;
		return &table->entries[i];
	}
	return NULL;
}

void fault_init(struct fault_table *table)
{
	for (int i = 0; i < FAULT_POINT_COUNT; i++) {
		struct fault_entry *entry = &table->entries[i];

		atomic_init(&entry->word, 0);
		atomic_init(&entry->value, 0);
		atomic_init(&entry->from_hit, 1);
		atomic_init(&entry->times, 1);
	}
}

int fault_arm(struct fault_table *table, const char *name, enum fault_action action,
	int64_t value, int64_t from_hit, int64_t times)
{
	int at = 0;
	struct fault_entry *entry = fault_find(table, name, &at);
	struct fault_order order = {
		.action = action,
		.value = value,
		.from_hit = from_hit == 0 ? 1 : from_hit,
		.times = times == 0 ? 1 : times,
	};

	if (entry == NULL || !fault_order_is_sane(&order))
		return ERR_BAD_ARGUMENT;
	if (action == FAULT_RESET)
		order.action = FAULT_NONE;
	for (; entry != NULL; entry = fault_find(table, name, &at))
		fault_write(entry, &order);
	return 0;
}

static void fault_count(
	struct fault_entry *entry, uint64_t *ret_hits, uint64_t *ret_fired)
{
	struct fault_order order;
	uint64_t word;

	do {
		word = atomic_load_explicit(&entry->word, memory_order_acquire);
	} while (!fault_read(entry, word, &order));
	*ret_hits = word & FAULT_HITS_MASK;
	*ret_fired = fault_firings(&order, *ret_hits);
}

int fault_status(struct fault_table *table, const char *name, uint64_t *ret_hits,
	uint64_t *ret_fired)
{
	int at = 0;
	struct fault_entry *entry = fault_find(table, name, &at);
	uint64_t hits, fired;

	if (entry == NULL)
		return ERR_BAD_ARGUMENT;
	/* A process meets the points of its own side alone. */
	*ret_hits = *ret_fired = 0;
	for (; entry != NULL; entry = fault_find(table, name, &at)) {
		fault_count(entry, &hits, &fired);
		*ret_hits += hits;
		*ret_fired += fired;
	}
	return 0;
}

int fault_action_parse(const char *text, enum fault_action *ret_action)
{
	static const struct {
		const char *name;
		enum fault_action action;
	} actions[] = {
		{"sleep", FAULT_SLEEP},
		{"return_error", FAULT_RETURN_ERROR},
		{"kill", FAULT_KILL},
		{"reset", FAULT_RESET},
	};

	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (strcmp(text, actions[i].name) != 0)
			continue;
		*ret_action = actions[i].action;
		return 0;
	}
	return ERR_BAD_ARGUMENT;
}

const char *fault_point_name(enum fault_point point)
{
	CHECK(point < FAULT_POINT_COUNT);
	return fault_abouts[point].name;
}

const char *fault_point_where(enum fault_point point)
{
	CHECK(point < FAULT_POINT_COUNT);
	return fault_abouts[point].where;
}

bool fault_point_is_client(enum fault_point point)
{
	CHECK(point < FAULT_POINT_COUNT);
	return fault_abouts[point].side == SIDE_CLIENT;
}

bool fault_point_is_cluster(enum fault_point point)
{
	CHECK(point < FAULT_POINT_COUNT);
	return fault_abouts[point].side == SIDE_CLUSTER;
}

#else

void fault_init(struct fault_table *table)
{
	table->nothing = 0;
}

int fault_arm(struct fault_table *table, const char *name, enum fault_action action,
	int64_t value, int64_t from_hit, int64_t times)
{
	(void)table, (void)name, (void)action, (void)value, (void)from_hit, (void)times;
	return ERR_NOT_SUPPORTED;
}

int fault_status(struct fault_table *table, const char *name, uint64_t *ret_hits,
	uint64_t *ret_fired)
{
	(void)table, (void)name, (void)ret_hits, (void)ret_fired;
	return ERR_NOT_SUPPORTED;
}

int fault_action_parse(const char *text, enum fault_action *ret_action)
{
	(void)text, (void)ret_action;
	return ERR_NOT_SUPPORTED;
}

const char *fault_point_name(enum fault_point point)
{
	(void)point;
	return NULL;
}

const char *fault_point_where(enum fault_point point)
{
	(void)point;
	return NULL;
}

bool fault_point_is_client(enum fault_point point)
{
	(void)point;
	return false;
}

bool fault_point_is_cluster(enum fault_point point)
{
	(void)point;
	return false;
}

#endif
