/*
 * check.h - stop the program when one of its own invariants is broken.
 *
 * Never for what a client, a peer, the directory or the disk wrote: that is input, and a
 * wrong one is an error to return.
 *
 * Errors    none come back: check_failed() says where on stderr, and aborts.
 * Thread    any.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *file, int line, const char *what);

/* A broken invariant is a bug in this program; it stops here, in every build. */
#define CHECK(cond)      ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
#define NOT_REACHED(why) check_failed(__FILE__, __LINE__, why)

/* For what is too slow to ask in production: tests and the simulator switch it on.
 * Otherwise the condition is compiled, so that it cannot rot, but not evaluated. */
#ifdef CENOTE_CHECK_SLOW
#define CHECK_SLOW(cond) CHECK(cond)
#else
#define CHECK_SLOW(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

#endif
