/*
 * station_barrier.c - a barrier of processes over one futex word.
 *
 * Both a finished round and a stop change the word that the others wait on, so neither
 * can slip in between looking at it and falling asleep.
 */
#include "tools/station_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STOPPED (1u << 31)

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool barrier_all_came(const struct station_barrier *barrier, uint32_t round)
{
	for (uint32_t rank = 0; rank < barrier->ranks; rank++) {
		if (atomic_load(&barrier->arrived[rank]) <= round)
			return false;
	}
	return true;
}

bool station_barrier_wait(struct station_barrier *barrier, uint32_t rank, uint32_t round)
{
	uint32_t expected = round;

	atomic_store(&barrier->arrived[rank], round + 1);
	/* Two may find that they are the last; and what a dead one had not yet done is done
	 * by the one that comes in its place. */
	if (barrier_all_came(barrier, round) &&
		atomic_compare_exchange_strong(&barrier->word, &expected, round + 1))
		futex_wake_all(&barrier->word);
	while (atomic_load(&barrier->word) == round)
		futex_wait(&barrier->word, round);
	return !station_barrier_is_stopped(barrier);
}

void station_barrier_stop(struct station_barrier *barrier)
{
	atomic_fetch_or(&barrier->word, STOPPED);
	futex_wake_all(&barrier->word);
}

bool station_barrier_is_stopped(const struct station_barrier *barrier)
{
	return (atomic_load(&barrier->word) & STOPPED) != 0;
}
