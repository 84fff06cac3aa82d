/*
 * e2e_disk.h - what tests of the disk tier share: a node with a disk, numbered objects, and
 * what lies in its directory.
 *
 * The object number i has the key "o/i" and the pattern i.
 *
 * Units     bytes; ms where a name says so.
 * Memory    texts are the harness's, until the case or role ends.
 * Errors    all fail the case on the spot.
 */
#ifndef E2E_E2E_DISK_H
#define E2E_E2E_DISK_H

#include "e2e.h"

struct e2e_number_key {
	char text[32];
};

/* The case's disk directory, which the daemon makes. */
const char *e2e_disk_dir(const struct e2e *t);
/* A daemon on it that is ready; sizes as on its command line. */
struct e2e_node *e2e_disk_start(struct e2e *t, const char *pool, const char *disk_size);

const struct e2e_number_key *e2e_number(struct e2e_number_key *key, uint64_t number);
/* Put it, softpin; the answer. */
int e2e_put_number(
	struct cenote *store, uint64_t number, uint64_t size, int64_t timeout_ms);
/* The same of `count` objects; each must work. */
void e2e_put_numbers(struct cenote *store, uint64_t first, uint64_t count, uint64_t size);
void e2e_verify_numbers(
	struct cenote *store, uint64_t first, uint64_t count, uint64_t size);
/* Put them durable. */
void e2e_put_durable_numbers(
	struct cenote *store, uint64_t first, uint64_t count, uint64_t size);
bool e2e_number_is_in_pool(struct cenote *store, uint64_t number);
/* One that has left the pool, of the `count` from `first` on; there must be one. */
uint64_t e2e_number_on_disk(struct cenote *store, uint64_t first, uint64_t count);

/* Until it is only on disk: read it, since what was read leaves first, and put others of
 * its size (64 KiB at least), which are removed again. */
void e2e_push_out(struct cenote *store, const char *key);

/* All that was decided for the disk is done, and it has nothing to do. */
void e2e_disk_settle(struct cenote *store);
/* Every object is gone, from pool and disk. */
void e2e_remove_all(struct cenote *store);
/* What is left then is nothing, in pool, table and files. */
void e2e_expect_disk_base(const struct e2e *t, struct cenote *store);

/* Bytes that a file of the disk directory takes of its file system; 0: there is none. */
uint64_t e2e_disk_file_backed(const struct e2e *t, const char *name);
/* Write `size` bytes of the pattern `seed` into it at `off`, as anybody could. */
void e2e_disk_damage(const struct e2e *t, const char *name, uint64_t off, uint64_t size,
	uint64_t seed);
/* What a reboot does to a node that does not run: its pool is gone. */
void e2e_lose_pool(const struct e2e_node *node);
/* How often `words` stand in the daemon's log. */
uint64_t e2e_log_count(const struct e2e_node *node, const char *words);

/* How often the point was hit in the daemon since it was armed or reset. */
uint64_t e2e_node_hits(struct cenote *store, const char *point);

#endif
