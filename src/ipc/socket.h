/*
 * socket.h - the local socket: whole messages, descriptors with them, and who is there.
 *
 * SOCK_SEQPACKET: one send is one message of up to MSG_SIZE_MAX bytes. All descriptors
 * made here are close-on-exec. Who may wait says until when.
 *
 * Units     `deadline` in ns of CLOCK_BOOTTIME: 0 = do not wait, UINT64_MAX = for ever.
 * Memory    paths and buffers are the caller's, and descriptors once they are returned.
 * Errors    ERR_BUSY: with deadline 0, it would have had to wait. ERR_TIMEOUT.
 *           ERR_UNAVAILABLE: nobody is at the other end, or no longer.
 *           ERR_PROTOCOL: a message of more than `size` bytes, or of none.
 *           ERR_IO: anything else.
 * Thread    any.
 */
#ifndef IPC_SOCKET_H
#define IPC_SOCKET_H

#include "base/attr.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOCKET_FDS_MAX 3

/* What may come beside a message. The caller closes the descriptors. */
struct socket_extra {
	int fds[SOCKET_FDS_MAX];
	size_t count;
	uint32_t sender; /* pid; 0 unless a listener of socket_listen() has accepted it */
};

struct socket_peer {
	uint32_t pid; /* at the time of connect(); 0 = in another pid namespace */
	uint32_t uid;
	uint32_t gid;
};

uint64_t socket_now(void); /* CLOCK_BOOTTIME, ns */

/*
 * Listen at `path`, whose file gets `mode`. A socket file that nobody answers is
 * replaced; one that is answered is refused with ERR_BUSY. `detail` says in words what
 * failed.
 */
int socket_listen(const char *path, mode_t mode, int *ret_fd, char *detail,
	size_t detail_size) MUST_CHECK;

/* One more connection; ERR_BUSY: there is none waiting. */
int socket_accept(int listener, int *ret_fd) MUST_CHECK;

/* ERR_NOT_PERMITTED: the file's mode forbids it. */
int socket_connect(const char *path, int *ret_fd) MUST_CHECK;

/* Whether messages of MSG_SIZE_MAX bytes can be sent: the system may limit it. */
int socket_size_check(int fd) MUST_CHECK;

int socket_send(int fd, const void *message, size_t size, const int *fds, size_t fd_count,
	uint64_t deadline) MUST_CHECK;

/* Size of the message, or an error. `ret_extra` NULL: descriptors are dropped. */
int64_t socket_receive(int fd, void *buffer, size_t size, uint64_t deadline,
	struct socket_extra *ret_extra) MUST_CHECK;

int socket_peer(int fd, struct socket_peer *ret_peer) MUST_CHECK;

#endif
