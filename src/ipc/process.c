/*
 * process.c - pidfds, and start times out of /proc.
 *
 * A pid alone may have passed to another process at any moment. Order makes it safe:
 * first the pidfd, then the start time, then a look whether the pidfd's process still
 * lives, so that what was read was its own.
 */
#include "ipc/process.h"

#include "base/err.h"
#include "ipc/ipc_priv.h"
#include "ipc/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define STAT_FIELDS_TO_START \
	20 /* from the state, which follows the name, to the start time */

int process_parse_stat(const char *text, size_t size, uint64_t *ret_start_time)
{
	/* The name may have spaces and parentheses, what follows it has none. */
	const char *at = memrchr(text, ')', size);
	const char *end = text + size;
	uint64_t value = 0;

	if (at == NULL)
		return ERR_PROTOCOL;
	for (int i = 0; i < STAT_FIELDS_TO_START; i++) {
		at = memchr(at, ' ', (size_t)(end - at));
		if (at == NULL)
			return ERR_PROTOCOL;
		at++;
	}
	if (at == end || *at < '0' || *at > '9')
		return ERR_PROTOCOL;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	*ret_start_time = value;
	return 0;
}

int process_start_time(uint32_t pid, uint64_t *ret_start_time)
{
	char path[32], text[1024];
	int size;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	size = ipc_read_file(path, text, sizeof(text));
	if (size < 0)
		return errno == ENOENT || errno == ESRCH ? ERR_NOT_FOUND : ERR_IO;
	return process_parse_stat(text, (size_t)size, ret_start_time);
}

bool process_has_ended(int pidfd)
{
	struct pollfd entry = {.fd = pidfd, .events = POLLIN};
	int ready;

	do {
		ready = poll(&entry, 1, 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

int process_open(uint32_t pid, uint64_t start_time, int *ret_pidfd)
{
	uint64_t found = 0;
	int pidfd = pidfd_open((pid_t)pid, 0);
	int err;

	if (pidfd < 0)
		return errno == ESRCH || errno == EINVAL ? ERR_NOT_FOUND : ERR_IO;
	err = process_start_time(pid, &found);
	if (err == 0 && (found != start_time || process_has_ended(pidfd)))
		err = ERR_NOT_FOUND;
	if (err != 0) {
		(void)close(pidfd);
		return err;
	}
	*ret_pidfd = pidfd;
	return 0;
}

/* A closed socket says that its process may have ended and given up its pid. */
static bool peer_is_connected(int socket)
{
	struct pollfd entry = {.fd = socket};
	int ready;

	do {
		ready = poll(&entry, 1, 0);
	} while (ready < 0 && errno == EINTR);
	return ready == 0 || (entry.revents & (POLLHUP | POLLERR)) == 0;
}

/* The kernel's own answer, or by the pid where it has none. */
static int peer_pidfd(int socket, uint32_t pid, int *ret_pidfd, bool *ret_is_sure)
{
	int pidfd = -1;
	socklen_t length = sizeof(pidfd);

	*ret_is_sure = true;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) != 0) {
		if (errno == ESRCH || errno == EINVAL)
			return ERR_NOT_FOUND;
		*ret_is_sure = false;
		pidfd = pidfd_open((pid_t)pid, 0);
	}
	if (pidfd < 0)
		return errno == ESRCH ? ERR_NOT_FOUND : ERR_IO;
	*ret_pidfd = pidfd;
	return 0;
}

int process_open_peer(
	int socket, uint32_t *ret_pid, uint64_t *ret_start_time, int *ret_pidfd)
{
	struct socket_peer peer;
	uint64_t start_time;
	bool is_sure;
	int pidfd, err;

	err = socket_peer(socket, &peer);
	if (err != 0)
		return err;
	if (peer.pid == 0)
		return ERR_IO; /* of a pid namespace that is not visible from here */
	err = peer_pidfd(socket, peer.pid, &pidfd, &is_sure);
	if (err != 0)
		return err;
	err = process_start_time(peer.pid, &start_time);
	if (err == 0 &&
		(process_has_ended(pidfd) || (!is_sure && !peer_is_connected(socket))))
		err = ERR_NOT_FOUND;
	if (err != 0) {
		(void)close(pidfd);
		return err;
	}
	*ret_pid = peer.pid;
	*ret_start_time = start_time;
	*ret_pidfd = pidfd;
	return 0;
}
