/*
 * bench_base.h - what the machine can do, measured beside what the store does.
 *
 *   round trip  a message and its answer over a raw pair of SOCK_SEQPACKET Unix sockets;
 *               the other end is a process that waits in epoll. Both on one CPU.
 *   copy        memcpy() and streaming stores between memory that was touched before.
 *
 * Units     bytes, ns of CLOCK_MONOTONIC.
 * Errors    false or 0, and a line on stderr has said why.
 * Thread    one.
 */
#ifndef TOOLS_BENCH_BASE_H
#define TOOLS_BENCH_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Pin this process, and what it starts from now on; the CPU, or -1 if it may not be. */
int cpu_pin(int cpu);
/* The highest CPU that this process may run on, `except` left out; -1: none. */
int cpu_highest(int except);

/* Memory of this process with every page written to; NULL: none. */
unsigned char *touched_new(size_t size);
void touched_free(unsigned char *memory, size_t size);

/* ---- the round trip ------------------------------------------------------ */

struct echo {
	int fd; /* -1: not running */
	pid_t pid;
	unsigned char *buffer;
};

bool echo_start(struct echo *echo);
/* Send `request` bytes, wait for `answer` bytes: how long it took, 0: it failed. */
uint64_t echo_round(struct echo *echo, size_t request, size_t answer);
void echo_stop(struct echo *echo);

/* ---- the copy ------------------------------------------------------------ */

enum copy_kind {
	COPY_MEMCPY,
	COPY_STREAM, /* stores past the cache, with a fence at the end */
	COPY_KINDS
};

/* How long it took. */
uint64_t copy_timed(enum copy_kind kind, void *to, const void *from, size_t size);

#endif
