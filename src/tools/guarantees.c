/*
 * guarantees.c - the table of failures and of what they do to each kind of object.
 *
 * Each cell has a test of its name, or the reason why it has none, in
 * tests/e2e/test_cluster_guarantees.py, which compares the two.
 */
#include "tools/guarantees.h"

#include "base/attr.h"
#include "base/bytes.h"

#define ALL(text)               \
	{                       \
		{               \
			0, text \
		}               \
	}
#define SAME(text)                                         \
	{                                                  \
		ALL(text), ALL(text), ALL(text), ALL(text) \
	}
/* For nodes among others, and for one that is alone. */
#define AMONG_OTHERS(cluster, alone)     \
	{                                \
		{FACT_CLUSTER, cluster}, \
		{                        \
			0, alone         \
		}                        \
	}

#define NO_OTHERS "cannot happen: it is alone"

const struct guarantee guarantees[] = {
	{"producer_dies", "a producer dies before its put ends",
		SAME("never visible; its space is back within 1 s")},
	{"client_dies", "a client dies later", SAME("kept")},
	{"daemon_killed", "the daemon is killed or upgraded",
		{ALL("kept, if its checks pass"), ALL("kept"), ALL("kept"), ALL("kept")}},
	{"host_reboot", "the host reboots, or loses power",
		{{{FACT_DISK, "a miss, unless it was on disk"}, {0, "a miss"}},
			{{FACT_DISK | FACT_CLUSTER,
				 "LOST, unless it is on disk or a peer has it"},
				{FACT_DISK, "gone, unless it is on disk: NOT_FOUND"},
				{FACT_CLUSTER, "LOST, unless a peer has it"},
				{0, "gone: NOT_FOUND"}},
			ALL("readable from the peer; the second keeper is made anew"),
			ALL("readable, also after all hosts lost power")}},
	{"keeper_lost", "the node that keeps it is lost",
		{AMONG_OTHERS("a miss", NO_OTHERS),
			AMONG_OTHERS("readable if a peer has a copy; else UNAVAILABLE; "
				     "LOST, once the node is back without it; back "
				     "with it",
				NO_OTHERS),
			ALL("readable from the peer; the second keeper is made anew"),
			AMONG_OTHERS("readable from a second keeper, or when the node "
				     "is back",
				NO_OTHERS)}},
	{"disk_full", "the disk is full, or fails",
		{{{FACT_DISK, "dropped"}, {0, "no disk"}},
			{{FACT_DISK, "kept; NO_SPACE at a put, never after it"},
				{0, "no disk"}},
			{{FACT_DISK, "kept; NO_SPACE at a put, never after it"},
				{0, "no disk"}},
			ALL("kept; NO_SPACE or IO at a put, never after it")}},
	{"pool_full", "the pool is full",
		{ALL("the coldest are dropped"),
			{{FACT_DISK | FACT_PEERS,
				 "goes to disk or to a peer; else puts wait, then "
				 "NO_SPACE"},
				{FACT_DISK,
					"goes to disk; else puts wait, then NO_SPACE"},
				{FACT_PEERS,
					"goes to a peer; else puts wait, then NO_SPACE"},
				{0, "stays; puts wait in order, then NO_SPACE"}},
			ALL("as with one keeper"),
			ALL("on disk already; puts wait for it")}},
	{"bit_rot", "bit rot, a torn write",
		{{{FACT_DISK, "a miss"}, {FACT_CLUSTER, "a miss"},
			 {0, "memory is trusted"}},
			{{FACT_DISK, "CORRUPT, never wrong bytes"},
				{FACT_CLUSTER, "CORRUPT, never wrong bytes"},
				{0, "memory is trusted"}},
			ALL("the other copy is served"),
			{{FACT_PEERS, "CORRUPT; with a second keeper its copy is served"},
				{0, "CORRUPT, never wrong bytes"}}}},
	{"partition", "the network is parted",
		{AMONG_OTHERS("each side serves what it has", NO_OTHERS),
			AMONG_OTHERS("its keeper's side serves it; the other: "
				     "UNAVAILABLE at once",
				NO_OTHERS),
			ALL("each side with a copy serves it"),
			AMONG_OTHERS("each side with a copy serves it", NO_OTHERS)}},
	{"directory_away", "the directory is away",
		{AMONG_OTHERS("reads and removals go on; puts wait, then UNAVAILABLE",
			 "no directory"),
			AMONG_OTHERS("reads and removals go on; puts wait, then "
				     "UNAVAILABLE",
				"no directory"),
			ALL("reads and removals go on; puts wait, then UNAVAILABLE"),
			AMONG_OTHERS("reads and removals go on; puts wait, then "
				     "UNAVAILABLE",
				"no directory")}},
	{"clock_jump", "the wall clock jumps", SAME("nothing")},
	{"remove_during_read", "it is removed while it is read",
		SAME("the read finishes")},
};

const size_t guarantee_count = ARRAY_LEN(guarantees);

const char *guarantee_column_name(enum guarantee_column column)
{
	static const char *const names[COLUMN_COUNT] = {
		"cache", "softpin_one_keeper", "softpin_replicas_2", "durable"};

	return names[column];
}

const char *guarantee_column_title(enum guarantee_column column)
{
	static const char *const titles[COLUMN_COUNT] = {
		"cache object", "softpin, one keeper", "softpin, replicas=2", "durable"};

	return titles[column];
}

const char *guarantee_text(
	const struct guarantee *guarantee, enum guarantee_column column, unsigned facts)
{
	const struct guarantee_text *text = guarantee->texts[column];

	if (column == COLUMN_REPLICAS && !(facts & FACT_PEERS))
		return facts & FACT_CLUSTER
			       ? "no other node is up: as one keeper"
			       : "alone: as one keeper; NOT_SUPPORTED if required";
	if (column == COLUMN_DURABLE && !(facts & FACT_DISK))
		return "NOT_SUPPORTED: no disk";
	while ((text->facts & ~facts) != 0)
		text++;
	return text->text;
}
