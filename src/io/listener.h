/*
 * listener.h - listen at an address, and take who comes.
 *
 * Units     -
 * Memory    descriptors are the caller's.
 * Errors    ERR_UNAVAILABLE: no such host or address here, or it is taken; ERR_NOT_PERMITTED;
 *           ERR_IO; with a text that names the address. Of listener_accept(): ERR_BUSY,
 *           there is none waiting; ERR_NO_MEMORY, no descriptor or memory for it: it goes on
 *           waiting.
 * Thread    any. listener_open() looks a name up and waits for that: for a start.
 */
#ifndef IO_LISTENER_H
#define IO_LISTENER_H

#include "base/attr.h"
#include "io/address.h"

/* Port 0: any that is free. */
int listener_open(const struct address *address, int *ret_fd, char *message,
	size_t message_size) MUST_CHECK;
/* The port of a listener, 0 if it is none. */
uint16_t listener_port(int fd);
/* One more connection, which does not block, and where it comes from. */
int listener_accept(int fd, int *ret_fd, struct address *ret_from) MUST_CHECK;

#endif
