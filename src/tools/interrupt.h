/*
 * interrupt.h - Ctrl-C and SIGTERM as a question that long work asks now and then, so
 * that it can end what it started. A second one ends the process at once.
 *
 * Thread    the signal is the process's, and so is the answer.
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);

/* For a child that was forked from a process that catches: as if it never did. */
void interrupt_forget(void);

bool interrupt_came(void);

#endif
