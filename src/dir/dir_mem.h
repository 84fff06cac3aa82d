/*
 * dir_mem.h - a directory in this process: one server, and a port to it for each node.
 *
 * Nothing happens by itself. A call waits in its port until the owner has it take effect,
 * and then until the owner has its answer arrive, so that a simulator can delay, lose and
 * reorder both; dir_mem_run() does all at once.
 *
 *   start --> queued --dir_mem_apply--> applied --dir_mem_answer--> done()
 *                '------------------------'--------dir_mem_lose---> done(), ERR_UNAVAILABLE
 *
 * The same seed and the same calls give the same run.
 *
 * Units     ns of the owner's clock, given by dir_mem_set_now().
 * Memory    ports are embedded by their owner, who keeps them until dir_mem_close_port().
 * Errors    ERR_NO_MEMORY; those of dir.h.
 * Thread    one.
 */
#ifndef DIR_DIR_MEM_H
#define DIR_DIR_MEM_H

#include "base/attr.h"
#include "dir/dir.h"

struct dir_mem;

struct dir_mem_config {
	uint32_t domains; /* 1 .. DIR_DOMAINS; a key is in that of id.word[0] % domains */
	uint64_t seed;    /* of the epochs' numbers */
	uint32_t undo_limit; /* changes of a domain that a failover can lose */
};

/* A node's way to the server. */
struct dir_mem_port {
	struct list entry; /* of the server's */
	struct dir_mem *mem;
	struct dir_events events;
	/* Calls that wait for their effect, oldest first, and those that wait for their
	 * answer, by their list_entry. */
	struct list queued, applied;
	uint64_t told[DIR_DOMAINS]; /* epochs, as reported last, */
	bool heard[DIR_DOMAINS];    /* if that was */
	bool cut[DIR_DOMAINS];      /* this node cannot reach the domain */
};

int dir_mem_new(struct dir_mem **ret, const struct dir_mem_config *config) MUST_CHECK;
void dir_mem_free(struct dir_mem *mem); /* NULL is fine; without ports */

void dir_mem_open_port(struct dir_mem_port *port, struct dir_mem *mem,
	const struct dir_events *events, struct dir *ret_dir);
/* The node is gone: its calls are done with, and told to nobody. What waited for its effect
 * has none. */
void dir_mem_close_port(struct dir_mem_port *port);

/* It never goes back. */
void dir_mem_set_now(struct dir_mem *mem, uint64_t now);

/* ---- calls --------------------------------------------------------------- */

/* Have a queued call take effect, and read the epoch. ERR_UNAVAILABLE: its domain cannot be
 * reached; it stays queued. */
int dir_mem_apply(struct dir_mem_port *port, struct dir_call *call) MUST_CHECK;
/* The epoch is read only now, some time after the effect. */
void dir_mem_read_epoch(struct dir_mem_port *port, struct dir_call *call);
/* The answer to an applied call arrives; before it, the news of a new epoch that it brings. */
void dir_mem_answer(struct dir_mem_port *port, struct dir_call *call);
/* No answer arrives to a call, applied or not. */
void dir_mem_lose(struct dir_mem_port *port, struct dir_call *call);

/* The node hears of a domain's epoch, or that it cannot be reached. */
void dir_mem_tell(struct dir_mem_port *port, uint32_t domain);
/* It would be news. */
bool dir_mem_has_news(const struct dir_mem_port *port, uint32_t domain);

/* Apply and answer all calls in the order of their ports, tell all news, and so on with what
 * comes of it; calls to domains that cannot be reached are lost. False: more than `limit`
 * calls were there, the rest waits. */
bool dir_mem_run(struct dir_mem *mem, uint32_t limit);

/* ---- what befalls the server --------------------------------------------- */

/* All of the domain is forgotten, under a new epoch. Members belong to domain 0. */
void dir_mem_flush(struct dir_mem *mem, uint32_t domain);
/* A replica takes over that has not seen the last `lost` changes, under a new epoch. Returns
 * how many were undone: no more than the undo limit. */
uint32_t dir_mem_fail_over(struct dir_mem *mem, uint32_t domain, uint32_t lost);
/* Nobody reaches it, or everybody again; all that it knows stays. */
void dir_mem_set_away(struct dir_mem *mem, uint32_t domain, bool away);
/* The same for one node. */
void dir_mem_set_cut(struct dir_mem_port *port, uint32_t domain, bool cut);
/* Its memory is full. */
void dir_mem_set_full(struct dir_mem *mem, uint32_t domain, bool full);

/* ---- for those who look in from outside ---------------------------------- */

uint64_t dir_mem_epoch(const struct dir_mem *mem, uint32_t domain);
/* False: there is no entry, which is not the same as nothing. */
bool dir_mem_look(
	const struct dir_mem *mem, const struct dir_id *id, struct dir_entry *ret);
/* Keys of which anything is kept. */
uint32_t dir_mem_keys(const struct dir_mem *mem, uint32_t domain);
/* NULL, or what is broken. */
const char *dir_mem_check(const struct dir_mem *mem);

#endif
