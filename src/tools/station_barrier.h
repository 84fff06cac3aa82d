/*
 * station_barrier.h - where processes wait for each other, and which one of them, or
 * their parent, can open for good when somebody is missing.
 *
 * Memory    in memory shared by all; all zero but `ranks` at the start.
 * Thread    any process; `word` is a futex.
 */
#ifndef TOOLS_STATION_BARRIER_H
#define TOOLS_STATION_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct station_barrier {
	_Atomic uint32_t word;     /* rounds done; the top bit: stopped */
	_Atomic uint32_t *arrived; /* of each rank: rounds that it came to */
	uint32_t ranks;
};

/* Wait for all in `round`, from 0; that it is over already is fine, and so is to come again,
 * in the place of a process that has died. False: stopped, nobody waits here any more. */
bool station_barrier_wait(struct station_barrier *barrier, uint32_t rank, uint32_t round);

/* Let go all who wait, now and later. */
void station_barrier_stop(struct station_barrier *barrier);

bool station_barrier_is_stopped(const struct station_barrier *barrier);

#endif
