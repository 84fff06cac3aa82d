/*
 * resolve_priv.h - the addresses of a host, found without keeping the loop.
 *
 * An address is there at once; a name is asked for by a thread of its own that lives as
 * long as the question, since the C library only has a call that waits.
 *
 * Memory    resolve_drop() at any time; what the thread still needs goes with it.
 * Errors    ERR_NO_MEMORY, ERR_IO. That there is no such host is a result: no address.
 * Thread    the loop's.
 */
#ifndef IO_RESOLVE_PRIV_H
#define IO_RESOLVE_PRIV_H

#include "base/attr.h"
#include "io/address.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define RESOLVE_MAX 8u /* addresses of a host that are tried */

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct resolved {
	union socket_address at[RESOLVE_MAX];
	uint32_t count;
	const char *why; /* there is none; a constant text */
};

struct resolve;

/* *ret_fd can be read once there is a result. */
int resolve_start(
	struct resolve **ret, const struct address *address, int *ret_fd) MUST_CHECK;
void resolve_result(const struct resolve *resolve, struct resolved *ret);
void resolve_drop(struct resolve *resolve);

/* As they are printed, "127.0.0.1:7450", in ADDRESS_TEXT_MAX bytes. */
const char *socket_address_text(const union socket_address *at, char *text);
socklen_t socket_address_size(const union socket_address *at);

#endif
