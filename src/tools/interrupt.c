/*
 * interrupt.c - the one flag of this program, since a signal handler can reach nothing
 * else.
 */
#include "tools/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void interrupt_note(int number)
{
	(void)number;
	interrupted = 1;
}

static void interrupt_set(void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	(void)sigemptyset(&action.sa_mask);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
}

void interrupt_catch(void)
{
	interrupt_set(interrupt_note, (int)SA_RESETHAND);
}

void interrupt_forget(void)
{
	interrupted = 0;
	interrupt_set(SIG_DFL, 0);
}

bool interrupt_came(void)
{
	return interrupted != 0;
}
