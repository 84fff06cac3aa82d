/*
 * bench_filter.h - how many system calls a piece of work makes, as the kernel sees it.
 *
 * A child process does the work under a seccomp filter that stops every system call and
 * signals it; the handler counts. A stopped call does nothing, so work that needs one
 * fails, and is counted all the same. Before the work some calls are made on purpose: the
 * count is believed only if it has them.
 *
 * Thread    one.
 */
#ifndef TOOLS_BENCH_FILTER_H
#define TOOLS_BENCH_FILTER_H

#include <stdint.h>

struct filter_work {
	/* Before the filter is there: 0, or it failed and has said why. */
	int (*prepare)(void *arg);
	/* Under the filter: 0, or an error. */
	int (*work)(void *arg);
	void *arg;
};

struct filter_count {
	uint64_t planted; /* calls made on purpose and seen */
	uint64_t calls;   /* of the work */
	int64_t first;    /* the number of the first of these; -1: none */
	int result;       /* of the work */
};

/* TOOL_OK, or TOOL_FAILED: it could not be counted. */
int filter_run(const struct filter_work *work, struct filter_count *ret);

#endif
