/*
 * resolve.c - getaddrinfo() on a thread, its end told by an eventfd.
 *
 * The question belongs to the one who asked and to the thread, and goes with the later of
 * the two: getaddrinfo() cannot be ended, and who asked may be gone long before it is.
 */
#include "io/resolve_priv.h"

#include "base/check.h"
#include "base/err.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct resolve {
	struct address address;
	int fd;
	_Atomic uint32_t owners;
	struct resolved result; /* the thread's until fd can be read */
};

void resolve_drop(struct resolve *resolve)
{
	if (resolve == NULL || atomic_fetch_sub(&resolve->owners, 1) > 1)
		return;
	(void)close(resolve->fd);
	free(resolve);
}

static void resolve_tell(struct resolve *resolve)
{
	uint64_t one = 1;

	CHECK(write(resolve->fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void result_fill(struct resolved *result, const struct addrinfo *list)
{
	for (; list != NULL && result->count < RESOLVE_MAX; list = list->ai_next) {
		if (list->ai_addrlen > sizeof(result->at[0]))
			continue;
		memcpy(&result->at[result->count++], list->ai_addr, list->ai_addrlen);
	}
}

static bool resolve_ask(struct resolve *resolve, int flags)
{
	/* Not AI_ADDRCONFIG: it would forget ::1 where only the loopback has IPv6. */
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags | AI_NUMERICSERV,
	};
	struct addrinfo *list = NULL;
	char port[8];
	int error;

	(void)snprintf(port, sizeof(port), "%u", (unsigned)resolve->address.port);
	error = getaddrinfo(resolve->address.host, port, &hints, &list);
	if (error == 0) {
		result_fill(&resolve->result, list);
		freeaddrinfo(list);
	}
	resolve->result.why = error != 0 ? gai_strerror(error) : "it has no address";
	return resolve->result.count > 0;
}

static void *resolve_main(void *arg)
{
	struct resolve *resolve = arg;

	(void)resolve_ask(resolve, 0);
	resolve_tell(resolve);
	resolve_drop(resolve);
	return NULL;
}

/* With every signal blocked: they are the loop's. */
static int resolve_thread(struct resolve *resolve)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int error;

	if (pthread_attr_init(&attr) != 0)
		return ERR_NO_MEMORY;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_fetch_add(&resolve->owners, 1);
	error = pthread_create(&thread, &attr, resolve_main, resolve);
	if (error != 0)
		atomic_fetch_sub(&resolve->owners, 1);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return error != 0 ? ERR_NO_MEMORY : 0;
}

int resolve_start(struct resolve **ret, const struct address *address, int *ret_fd)
{
	struct resolve *resolve = calloc(1, sizeof(*resolve));
	int err = 0;

	if (resolve == NULL)
		return ERR_NO_MEMORY;
	resolve->address = *address;
	resolve->owners = 1;
	resolve->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (resolve->fd < 0) {
		free(resolve);
		return ERR_IO;
	}
	if (resolve_ask(resolve, AI_NUMERICHOST))
		resolve_tell(resolve);
	else
		err = resolve_thread(resolve);
	if (err != 0) {
		resolve_drop(resolve);
		return err;
	}
	*ret = resolve;
	*ret_fd = resolve->fd;
	return 0;
}

void resolve_result(const struct resolve *resolve, struct resolved *ret)
{
	uint64_t count;

	/* The read orders the thread's writes before ours. */
	CHECK(read(resolve->fd, &count, sizeof(count)) == (ssize_t)sizeof(count));
	*ret = resolve->result;
}

const char *socket_address_text(const union socket_address *at, char *text)
{
	char host[ADDRESS_HOST_MAX] = "?", port[8] = "?";

	(void)getnameinfo(&at->any, socket_address_size(at), host, sizeof(host), port,
		sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	(void)snprintf(text, ADDRESS_TEXT_MAX,
		at->any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	return text;
}

socklen_t socket_address_size(const union socket_address *at)
{
	return at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
}
