/*
 * dir_rig.h - nodes at a directory, whichever it is: in memory, one Redis, a Redis Cluster.
 *
 * The servers are started when a test first needs them, and serve all tests of a program;
 * each test has a cluster's name of its own. A test waits for answers by turning the loop,
 * and for what time brings by rig_await(); both fail after RIG_WAIT_NS.
 */
#ifndef UNIT_DIR_RIG_H
#define UNIT_DIR_RIG_H

#include "dir/dir_mem.h"
#include "dir/dir_redis.h"
#include "io/loop.h"
#include "redis_rig.h"
#include "unit.h"

#define RIG_NODES   4u
#define RIG_MASTERS 3u
#define RIG_WAIT_NS 20000000000ull
#define RIG_MS      1000000ull

enum rig_kind {
	RIG_MEM,
	RIG_SINGLE,
	RIG_CLUSTER,
	RIG_OWN /* the test brings its servers, and sets rig->url */
};

/* One node's end. */
struct rig_node {
	struct dir_rig *rig;
	struct dir dir;
	struct dir_mem_port port;
	struct dir_redis *redis;
	uint32_t under_way;          /* calls */
	uint64_t epoch[DIR_DOMAINS]; /* as told last */
	uint32_t told[DIR_DOMAINS];  /* how often */
	char warnings[4096];
};

struct dir_rig {
	enum rig_kind kind;
	struct dir_mem *mem;
	uint64_t now; /* of mem */
	struct loop loop;
	struct rig_node nodes[RIG_NODES];
	uint32_t node_count;
	char name[32], url[256];
	uint64_t timeout_ns; /* of calls, 0 = as usual */
	uint64_t next_id;
};

/* Of tests: *state is an enum rig_kind before, the rig after. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* The test's rig, with one node but if RIG_OWN; without servers the test ends here, skipped. */
struct dir_rig *rig_begin(void **state);

/* The servers of this kind: one, or RIG_MASTERS. */
struct redis_rig *rig_servers(enum rig_kind kind, size_t *ret_count);
/* The directory's URL there. */
void rig_url(const struct redis_rig *servers, size_t count, char *url, size_t size);

/* One more node, by its place: rig->nodes[]. */
struct rig_node *rig_add_node(struct dir_rig *rig);
/* The same, of a configuration that the test has changed. */
void rig_configure(
	struct dir_rig *rig, struct rig_node *node, struct dir_redis_config *ret);
void rig_open_redis(struct rig_node *node, const struct dir_redis_config *config);
void rig_drop_node(struct rig_node *node);

/* A key that no other test has. */
struct dir_id rig_id(struct dir_rig *rig);
/* A call of a node: its number and incarnation filled in. */
struct dir_call rig_call(const struct rig_node *node, enum dir_op op, struct dir_id id,
	uint64_t generation);
#define rig_number(node)      (0xa000000000000001ull + (uint64_t)((node) - (node)->rig->nodes))
#define rig_incarnation(node) (0xf0ull + rig_number(node))

void rig_start(struct rig_node *node, struct dir_call *call);
/* Until all that was started has ended. */
void rig_wait(struct dir_rig *rig);
/* Turn the loop once, waiting for something to happen, or until `deadline`. */
void rig_turn(struct dir_rig *rig, uint64_t deadline);
/* Start, wait; it has to end without an error, with this verdict. */
void rig_do(struct rig_node *node, struct dir_call *call, enum dir_verdict verdict);
/* The same where calls have little time: until one has been in time. */
void rig_insist(struct rig_node *node, struct dir_call *call, enum dir_verdict verdict);
/* Start, wait; whatever comes. */
void rig_try(struct rig_node *node, struct dir_call *call);

/* `fn` has to be so once `ns` have passed for the directory: the clock of that in memory is
 * turned, a real one is asked again and again. */
void rig_await(struct dir_rig *rig, uint64_t ns,
	bool (*fn)(struct dir_rig *rig, void *arg), void *arg);
/* Turn until `fn` says so. */
void rig_until(
	struct dir_rig *rig, bool (*fn)(struct dir_rig *rig, void *arg), void *arg);

/* What is there; false: nothing. */
bool rig_look(struct rig_node *node, struct dir_id id, struct dir_entry *ret);
/* 0: it is none. */
enum dir_role rig_role(const struct dir_entry *entry, uint64_t node);

#endif
