/*
 * bench_micro.h - the small benches: one kind of work each, beside its baselines.
 *
 * Every bench alternates baseline and store within a run, so that what drifts on the
 * machine touches both, and makes several runs; its figures are medians over the runs.
 *
 * Memory    all is made and freed by cmd_bench.c around the bench's function.
 * Errors    TOOL_FAILED, and a line on stderr has said why.
 * Thread    one, but where a bench says otherwise.
 */
#ifndef TOOLS_BENCH_MICRO_H
#define TOOLS_BENCH_MICRO_H

#include "tools/bench.h"
#include "tools/bench_base.h"
#include "tools/bench_result.h"
#include "tools/own_cluster.h"

#define MICRO_KEY_SIZE 32

/* Where a bench runs. */
struct bench_place {
	const char *socket;
	const struct own_node *node; /* NULL: it was given */
	int cpu, other_cpu;          /* of a small bench; -1: none */
	/* Of remote: the node that is read from, the port of their directory. */
	const struct own_cluster *cluster; /* NULL: they were given */
	const char *peer_socket;
	uint16_t redis_port;
};

struct micro {
	const struct bench_options *options;
	const struct bench_place *place;
	const char *socket;
	const struct own_node *node; /* NULL: it was given */
	int other_cpu;               /* another one than result.cpu, or -1 */
	uint32_t runs;
	struct echo echo;
	struct cenote *store;
	struct bench_result result;
};

typedef int (*micro_fn)(struct micro *micro);

/* The bench of this name, or NULL. */
micro_fn micro_find(const char *name);
/* Make what every bench has, run it, print. */
int micro_run(micro_fn bench, const char *name, const struct bench_options *options,
	const struct bench_place *place);

int bench_hit(struct micro *micro);
int bench_put(struct micro *micro);
int bench_get(struct micro *micro);
int bench_batch(struct micro *micro);
int bench_clients(struct micro *micro);
int bench_growth(struct micro *micro);
int bench_reclaim(struct micro *micro);
int bench_disk(struct micro *micro);
int bench_remote(struct micro *micro);

/* `full`, or a part of it for a --quick run. */
uint32_t micro_rounds(const struct micro *micro, uint32_t full);

/* Say why a call of the library failed; TOOL_FAILED. */
int micro_failed(const char *verb, int error);

/* A key of MICRO_KEY_SIZE bytes; `text` has room for it and a NUL. */
struct cenote_key micro_key(char *text, const char *prefix, uint64_t number);

/* Map all of the pool for writing, in a node of our own: so that no copy meets a page for
 * the first time. TOOL_OK also where it cannot be done. */
int micro_touch_pool(struct micro *micro);

/* The statistics of the node, to be freed by cenote_free(); NULL: it failed. */
char *micro_stats(struct micro *micro);

/* ---- bench_hit.c --------------------------------------------------------- */

/* Objects whose keys lie in random order. */
struct hit_set {
	char *keys; /* count * MICRO_KEY_SIZE */
	uint32_t count, at;
};

/* Keys number first .. first + count - 1; false: no memory. */
bool hit_set_init(struct hit_set *set, uint32_t count, uint64_t seed);
void hit_set_fini(struct hit_set *set);
/* Get and release the next `count`: 0, or the error of one. */
int hit_some(struct cenote *store, struct hit_set *set, uint32_t count);
/* Put those of the numbers [from, to) that are to be hit. */
int hit_put(struct cenote *store, uint64_t from, uint64_t to);
int hit_remove(struct cenote *store, uint64_t from, uint64_t to);

/* ---- bench_copies.c ------------------------------------------------------ */

/* Raw copies between two places of the same kinds that the store copies between. Each
 * place is so large that what is copied next is in no cache. */
struct copies {
	struct series series[COPY_KINDS];
	char names[COPY_KINDS][32];
	unsigned char *to;
	const unsigned char *from;
	uint64_t span; /* of each place */
	uint64_t at;
};

/* Copy `size` bytes once of each kind. */
void copies_make(struct copies *copies, uint64_t size);
void copies_init(struct copies *copies, const char *what, uint64_t size);
/* Show them. */
void copies_row(struct copies *copies, struct micro *micro);
void copies_fini(struct copies *copies);
/* The median of this run, of the better kind. */
double copies_end_run(struct copies *copies);

#endif
