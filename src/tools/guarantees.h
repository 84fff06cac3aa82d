/*
 * guarantees.h - what callers may rely on when something fails, as it holds for one node.
 *
 * Memory    texts are constants.
 * Thread    any.
 */
#ifndef TOOLS_GUARANTEES_H
#define TOOLS_GUARANTEES_H

#include <stddef.h>

/* What the node has. */
enum guarantee_fact {
	FACT_DISK = 1,
	FACT_CLUSTER = 2, /* it has a directory */
	FACT_PEERS = 4    /* another node of it is up */
};

enum guarantee_column {
	COLUMN_CACHE,
	COLUMN_SOFTPIN,
	COLUMN_REPLICAS,
	COLUMN_DURABLE,
	COLUMN_COUNT
};

struct guarantee {
	const char *failure; /* its name; with a column's, that of a test */
	const char *title;
	/* The text for the node's facts: the first of those whose facts it has. */
	struct guarantee_text {
		unsigned facts;
		const char *text;
	} texts[COLUMN_COUNT][4];
};

extern const struct guarantee guarantees[];
extern const size_t guarantee_count;

const char *guarantee_column_name(enum guarantee_column column);
const char *guarantee_column_title(enum guarantee_column column);
const char *guarantee_text(
	const struct guarantee *guarantee, enum guarantee_column column, unsigned facts);

#endif
