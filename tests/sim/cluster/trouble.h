/*
 * trouble.h - what was not as it should be, from when to when, to explain what nodes say.
 *
 * Memory    of struct trouble, in one piece; the oldest are forgotten when it is full, which
 *           no run comes to.
 */
#ifndef SIM_CLUSTER_TROUBLE_H
#define SIM_CLUSTER_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

#define TROUBLES_MOST 4096u

struct sim;

enum trouble_kind {
	TROUBLE_DOWN, /* the daemon, or its host */
	TROUBLE_STOPPED,
	TROUBLE_CUT, /* between two hosts, one way or both, or a connection that broke */
	TROUBLE_DIR  /* the directory, for one host or for all (TROUBLE_ALL) */
};

#define TROUBLE_ALL UINT32_MAX

struct span {
	enum trouble_kind kind;
	uint32_t a, b;           /* hosts; b: of TROUBLE_CUT */
	uint64_t from_ns, to_ns; /* to: UINT64_MAX while it lasts */
};

struct troubles {
	struct span spans[TROUBLES_MOST];
	uint32_t count;
};

void trouble_begins(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b);
void trouble_ends(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b);
/* Both at once. */
void trouble_note(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b);

/* Any, anywhere, at some time from `from` to `to`. */
bool trouble_was(const struct sim *sim, uint64_t from, uint64_t to);
/* Of the host, of its connections, or of its way to the directory. */
bool trouble_was_at(const struct sim *sim, uint32_t host, uint64_t from, uint64_t to);
/* Of the host or of its connections: who is without the directory alone hears of all. */
bool trouble_cut_off(const struct sim *sim, uint32_t host, uint64_t from, uint64_t to);
/* The host itself was down or stopped, or cut off from the other. */
bool trouble_was_between(const struct sim *sim, uint32_t asker, uint32_t asked,
	uint64_t from, uint64_t to);
/* Of the directory. */
bool trouble_was_dir(const struct sim *sim, uint64_t from, uint64_t to);
/* The host had no trouble for `ns` on end, within from..to. */
bool trouble_paused_at(
	const struct sim *sim, uint32_t host, uint64_t from, uint64_t to, uint64_t ns);

#endif
