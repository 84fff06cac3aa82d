/*
 * socket.c - SOCK_SEQPACKET sockets of the file system.
 */
#include "ipc/socket.h"

#include "base/check.h"
#include "base/err.h"
#include "ipc/ipc_priv.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_BACKLOG 1024
/* The system's usual limit; it grants the double, which holds a message with its
 * overhead. */
#define SOCKET_BUFFER 212992
/* What a reply mostly takes less than: so long recv() itself waits on our end of a
 * connection, which saves a poll() for each reply. */
#define SOCKET_SHORT_WAIT_US 20000

uint64_t socket_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* What an errno of a socket call means to the caller. */
static int socket_error(int number)
{
	switch (number) {
	case EAGAIN:
		return ERR_BUSY;
	case EPIPE:
	case ECONNRESET:
	case ECONNREFUSED:
	case ECONNABORTED:
	case ENOTCONN:
	case ENOENT:
		return ERR_UNAVAILABLE;
	case EACCES:
	case EPERM:
		return ERR_NOT_PERMITTED;
	case EMSGSIZE:
		return ERR_TOO_LARGE;
	case ENOMEM:
	case ENOBUFS:
		return ERR_NO_MEMORY;
	default:
		return ERR_IO;
	}
}

static int socket_address(const char *path, struct sockaddr_un *ret_address)
{
	size_t length = strlen(path);

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (length == 0 || length >= sizeof(ret_address->sun_path))
		return ERR_BAD_ARGUMENT;
	memcpy(ret_address->sun_path, path, length + 1);
	return 0;
}

static int socket_new(int *ret_fd)
{
	int size = SOCKET_BUFFER;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return socket_error(errno);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	*ret_fd = fd;
	return 0;
}

int socket_size_check(int fd)
{
	int size = 0;
	socklen_t length = sizeof(size);

	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) != 0)
		return ERR_IO;
	/* The kernel asks for the message and 32 bytes. */
	return (uint64_t)size >= MSG_SIZE_MAX + 32u ? 0 : ERR_TOO_LARGE;
}

/* ---- listen, connect ----------------------------------------------------- */

/* Make way for our socket file: 0 when `path` is free then. */
static int socket_clear(const char *path, char *detail, size_t detail_size)
{
	struct stat file;
	int fd, err;

	if (lstat(path, &file) != 0)
		return 0;
	if (!S_ISSOCK(file.st_mode))
		return ipc_fail(ERR_BAD_ARGUMENT, detail, detail_size,
			"%s is there and is no socket: choose another --socket", path);
	err = socket_connect(path, &fd);
	if (err == 0)
		(void)close(fd);
	if (err == 0 || err == ERR_BUSY)
		return ipc_fail(ERR_BUSY, detail, detail_size,
			"another daemon listens at %s: choose another --socket", path);
	if (err != ERR_UNAVAILABLE)
		return ipc_fail(err, detail, detail_size, "connect to %s: %s", path,
			err_text(err));
	if (unlink(path) != 0 && errno != ENOENT)
		return ipc_fail(ERR_IO, detail, detail_size,
			"remove the stale socket %s: %s", path, strerror(errno));
	return 0;
}

/* The directory of `path`, if only it is missing. */
static void socket_make_directory(const char *path)
{
	char parent[sizeof(struct sockaddr_un)];
	char *slash;

	(void)snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash == NULL || slash == parent)
		return;
	*slash = '\0';
	(void)mkdir(parent, 0755);
}

/* The mode is set on the socket before it has a name, so that it never is wider; and that messages
 * tell their sender before it listens: connections inherit that as they are made, since Linux 6.16,
 * and not as they are accepted. */
static int socket_bind(int fd, const char *path, mode_t mode)
{
	struct sockaddr_un address;
	int err = socket_address(path, &address), on = 1;

	if (err != 0)
		return err;
	if (fchmod(fd, mode) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
		bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
		chmod(path, mode) != 0 || listen(fd, SOCKET_BACKLOG) != 0)
		return errno == EADDRINUSE ? ERR_BUSY : socket_error(errno);
	return 0;
}

int socket_listen(
	const char *path, mode_t mode, int *ret_fd, char *detail, size_t detail_size)
{
	struct sockaddr_un address;
	int fd, err;

	if (socket_address(path, &address) != 0)
		return ipc_fail(ERR_BAD_ARGUMENT, detail, detail_size,
			"socket path of %zu bytes: 1 to %zu are possible", strlen(path),
			sizeof(address.sun_path) - 1);
	err = socket_clear(path, detail, detail_size);
	if (err != 0)
		return err;
	err = socket_new(&fd);
	if (err != 0)
		return ipc_fail(err, detail, detail_size, "socket: %s", strerror(errno));
	socket_make_directory(path);
	err = socket_bind(fd, path, mode);
	if (err == 0 && socket_size_check(fd) != 0) {
		(void)unlink(path);
		err = ipc_fail(ERR_TOO_LARGE, detail, detail_size,
			"the system limits socket buffers to less than a message of %u "
			"bytes: "
			"raise net.core.wmem_max to %d",
			MSG_SIZE_MAX, SOCKET_BUFFER);
	} else if (err != 0) {
		(void)ipc_fail(err, detail, detail_size, "listen at %s: %s", path,
			strerror(errno));
	}
	if (err != 0) {
		(void)close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

int socket_accept(int listener, int *ret_fd)
{
	int size = SOCKET_BUFFER;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno == ECONNABORTED ? ERR_BUSY : socket_error(errno);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	*ret_fd = fd;
	return 0;
}

int socket_connect(const char *path, int *ret_fd)
{
	static const struct timeval short_wait = {.tv_usec = SOCKET_SHORT_WAIT_US};
	struct sockaddr_un address;
	int fd, err;

	err = socket_address(path, &address);
	if (err == 0)
		err = socket_new(&fd);
	if (err != 0)
		return err;
	/* No wait, also where many are to be accepted; from then on recv() may. */
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
		fcntl(fd, F_SETFL, O_RDWR) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &short_wait,
			sizeof(short_wait)) != 0) {
		err = socket_error(errno);
		(void)close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- messages ------------------------------------------------------------ */

/* Wait until `events` may be done: 0, or ERR_TIMEOUT. A hang-up counts as done. */
static int socket_wait(int fd, short events, uint64_t deadline)
{
	struct pollfd entry = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = deadline == UINT64_MAX ? 0 : socket_now();
		uint64_t rest = deadline > now ? deadline - now : 0;
		struct timespec span = {
			.tv_sec = (time_t)(rest / 1000000000u),
			.tv_nsec = (long)(rest % 1000000000u),
		};
		int ready = ppoll(&entry, 1, deadline == UINT64_MAX ? NULL : &span, NULL);

		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return ERR_IO;
		if (ready == 0 && rest == 0)
			return ERR_TIMEOUT;
	}
}

/* Room for the descriptors and for the sender's credentials. */
union socket_control {
	char bytes[CMSG_SPACE(SOCKET_FDS_MAX * sizeof(int)) +
		   CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

static void socket_attach_fds(
	struct msghdr *head, union socket_control *control, const int *fds, size_t count)
{
	struct cmsghdr *part;

	CHECK(count <= SOCKET_FDS_MAX);
	if (count == 0)
		return;
	memset(control, 0, sizeof(*control));
	head->msg_control = control->bytes;
	head->msg_controllen = CMSG_SPACE(count * sizeof(int));
	part = CMSG_FIRSTHDR(head);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(part), fds, count * sizeof(int));
}

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

int socket_send(int fd, const void *message, size_t size, const int *fds, size_t fd_count,
	uint64_t deadline)
{
	/* The message is only read; struct iovec has no const. */
	struct iovec body = {.iov_base = (void *)(uintptr_t)message, .iov_len = size};
	struct msghdr head = {.msg_iov = &body, .msg_iovlen = 1};
	union socket_control control;

	socket_attach_fds(&head, &control, fds, fd_count);
	for (;;) {
		/* send() is the cheaper one, and most messages carry nothing. */
		ssize_t sent = fd_count == 0 ? send(fd, message, size, SEND_FLAGS)
					     : sendmsg(fd, &head, SEND_FLAGS);
		int err;

		if (sent >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || deadline == 0)
			return socket_error(errno);
		err = socket_wait(fd, POLLOUT, deadline);
		if (err != 0)
			return err;
	}
}

static void socket_drop_fds(struct socket_extra *extra)
{
	while (extra->count > 0)
		(void)close(extra->fds[--extra->count]);
}

/* What came beside a message. Control data that was cut (more descriptors than are ever
 * sent) is told by the caller's look at MSG_CTRUNC. */
static void socket_take_extra(struct msghdr *head, struct socket_extra *extra)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(head);

	for (; part != NULL; part = CMSG_NXTHDR(head, part)) {
		size_t size = part->cmsg_len - CMSG_LEN(0);
		struct ucred sender;

		if (part->cmsg_level != SOL_SOCKET)
			continue;
		if (part->cmsg_type == SCM_RIGHTS && size <= sizeof(extra->fds)) {
			memcpy(extra->fds, CMSG_DATA(part), size);
			extra->count = size / sizeof(int);
		} else if (part->cmsg_type == SCM_CREDENTIALS && size >= sizeof(sender)) {
			memcpy(&sender, CMSG_DATA(part), sizeof(sender));
			extra->sender = (uint32_t)sender.pid;
		}
	}
}

/* One try, without what comes beside the message, which is dropped. */
static int64_t socket_receive_plain(int fd, void *buffer, size_t size, int flags)
{
	ssize_t got = recv(fd, buffer, size, flags | MSG_TRUNC);

	if (got < 0)
		return errno == EINTR ? ERR_BUSY : socket_error(errno);
	if (got == 0)
		return ERR_UNAVAILABLE;
	return (size_t)got > size ? ERR_PROTOCOL : got;
}

/* One try; ERR_BUSY: nothing is there. With `flags` 0 it may wait a little. */
static int64_t socket_receive_once(
	int fd, void *buffer, size_t size, int flags, struct socket_extra *ret_extra)
{
	struct iovec body = {.iov_base = buffer, .iov_len = size};
	union socket_control control;
	struct msghdr head = {
		.msg_iov = &body,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct socket_extra extra = {.count = 0};
	ssize_t got;

	if (ret_extra == NULL)
		return socket_receive_plain(fd, buffer, size, flags);
	got = recvmsg(fd, &head, flags | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EINTR ? ERR_BUSY : socket_error(errno);
	socket_take_extra(&head, &extra);
	if (got == 0 || (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		socket_drop_fds(&extra);
		return got == 0 ? ERR_UNAVAILABLE : ERR_PROTOCOL;
	}
	*ret_extra = extra;
	return got;
}

int64_t socket_receive(int fd, void *buffer, size_t size, uint64_t deadline,
	struct socket_extra *ret_extra)
{
	bool is_near = deadline != UINT64_MAX &&
		       deadline < socket_now() + SOCKET_SHORT_WAIT_US * 1000ull;
	int64_t got = socket_receive_once(
		fd, buffer, size, is_near ? MSG_DONTWAIT : 0, ret_extra);

	while (got == ERR_BUSY && deadline != 0) {
		int err = socket_wait(fd, POLLIN, deadline);

		if (err != 0)
			return err;
		got = socket_receive_once(fd, buffer, size, MSG_DONTWAIT, ret_extra);
	}
	return got;
}

/* ---- who is there -------------------------------------------------------- */

int socket_peer(int fd, struct socket_peer *ret_peer)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
		return ERR_IO;
	*ret_peer = (struct socket_peer){
		.pid = (uint32_t)peer.pid,
		.uid = peer.uid,
		.gid = peer.gid,
	};
	return 0;
}
