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

bool station_barrier_wait(struct station_barrier *barrier)
{
	uint32_t round = atomic_load(&barrier->word);

	if ((round & STOPPED) != 0)
		return false;
	if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->ranks) {
		atomic_store(&barrier->arrived, 0);
		atomic_fetch_add(&barrier->word, 1);
		futex_wake_all(&barrier->word);
	} else {
		while (atomic_load(&barrier->word) == round)
			futex_wait(&barrier->word, round);
	}
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
