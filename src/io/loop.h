/*
 * loop.h - wait for descriptors, one timer and signals on one thread.
 *
 *	loop_open(&loop);
 *	loop_add(&loop, &listener);
 *	while (running) {
 *		loop_set_timer(&loop, next);
 *		loop_turn(&loop, true, &signal);
 *	}
 *
 * Units     ns of CLOCK_BOOTTIME; µs of the wall clock.
 * Memory    sources are embedded by their owner, who keeps them until loop_remove(); any
 *           source may be removed from inside any on_ready().
 * Errors    ERR_IO, ERR_NO_MEMORY.
 * Thread    the one that opened it.
 */
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_EVENTS 64

struct loop_source {
	int fd;
	/* It can be read, or the other end is gone, or, where loop_want() asked for that, it
	 * can be written; called again while that holds. */
	void (*on_ready)(struct loop_source *source);
};

struct loop {
	int epoll_fd;
	struct loop_source timer, signals;
	uint64_t timer_when; /* as it is set; UINT64_MAX = off */
	int signal;          /* that came in this turn; 0 = none */
	/* Sources of this turn that were not called yet; NULL: removed meanwhile. */
	struct loop_source *pending[LOOP_EVENTS];
	size_t pending_count;
};

int loop_open(struct loop *loop) MUST_CHECK;
void loop_close(struct loop *loop); /* also after a failed open */

int loop_add(struct loop *loop, struct loop_source *source) MUST_CHECK;
void loop_remove(struct loop *loop, struct loop_source *source);
/* What a source that was added is called for from now on; at first it is reading. That the
 * other end is gone is told even to who wants nothing. */
void loop_want(struct loop *loop, struct loop_source *source, bool read, bool write);

/* Take the signals (0-ended) out of the usual way and report them by loop_turn(). */
int loop_take_signals(struct loop *loop, const int *signals) MUST_CHECK;

/* End a wait at `when`, if not before; UINT64_MAX: it need not end by time. */
void loop_set_timer(struct loop *loop, uint64_t when);

/* Call every source that is ready, once; `wait`: until one is. *ret_signal: one that was
 * taken and came, or 0. */
int loop_turn(struct loop *loop, bool wait, int *ret_signal) MUST_CHECK;

uint64_t loop_boot_ns(void);
uint64_t loop_wall_us(void);
/* From the kernel's generator. */
void loop_random(void *buffer, size_t size);

#endif
