/*
 * listener.c - sockets that others connect to.
 */
#include "io/listener.h"

#include "base/err.h"
#include "io/resolve_priv.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTENER_BACKLOG 256

static int listener_error(int number)
{
	switch (number) {
	case EACCES:
	case EPERM:
		return ERR_NOT_PERMITTED;
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return ERR_UNAVAILABLE;
	case ENOMEM:
	case ENOBUFS:
		return ERR_NO_MEMORY;
	default:
		return ERR_IO;
	}
}

/* The descriptor; else -1 and errno. */
static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, number;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->ai_family == AF_INET6) /* [::] is IPv4 too */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
		listen(fd, LISTENER_BACKLOG) == 0)
		return fd;
	number = errno;
	(void)close(fd);
	errno = number;
	return -1;
}

int listener_open(
	const struct address *address, int *ret_fd, char *message, size_t message_size)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	char text[ADDRESS_TEXT_MAX], port[8];
	int error, fd = -1, number = 0;

	(void)snprintf(port, sizeof(port), "%u", (unsigned)address->port);
	error = getaddrinfo(address->host, port, &hints, &list);
	if (error != 0) {
		(void)snprintf(message, message_size, "%s: the host is not found: %s",
			address_text(address, text), gai_strerror(error));
		return ERR_UNAVAILABLE;
	}
	for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
		fd = listen_at(at);
		number = errno;
	}
	freeaddrinfo(list);
	if (fd < 0) {
		(void)snprintf(message, message_size, "%s: cannot be listened at: %s",
			address_text(address, text), strerror(number));
		return listener_error(number);
	}
	*ret_fd = fd;
	return 0;
}

uint16_t listener_port(int fd)
{
	union socket_address at = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t size = sizeof(at);

	if (getsockname(fd, &at.any, &size) != 0)
		return 0;
	return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/* Whom an IPv4 host is to [::], is who it is. */
static void from_fill(const union socket_address *at, struct address *ret)
{
	static const char mapped[] = "::ffff:";

	*ret = (struct address){.port = 0};
	if (getnameinfo(&at->any, socket_address_size(at), ret->host, sizeof(ret->host),
		    NULL, 0, NI_NUMERICHOST) != 0)
		(void)snprintf(ret->host, sizeof(ret->host), "unknown");
	if (strncmp(ret->host, mapped, strlen(mapped)) == 0 &&
		strchr(ret->host, '.') != NULL)
		memmove(ret->host, ret->host + strlen(mapped),
			strlen(ret->host + strlen(mapped)) + 1);
	ret->port = ntohs(
		at->any.sa_family == AF_INET6 ? at->v6.sin6_port : at->v4.sin_port);
}

int listener_accept(int fd, int *ret_fd, struct address *ret_from)
{
	for (;;) {
		union socket_address at = {.any = {.sa_family = AF_UNSPEC}};
		socklen_t size = sizeof(at);
		int got = accept4(fd, &at.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (got >= 0) {
			from_fill(&at, ret_from);
			*ret_fd = got;
			return 0;
		}
		if (errno == EAGAIN)
			return ERR_BUSY;
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			errno == ENOBUFS)
			return ERR_NO_MEMORY;
		/* Else it was this one that failed, and is gone. */
	}
}
