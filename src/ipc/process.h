/*
 * process.h - tell one process from every other that ever had its pid, and see it end.
 *
 * A pidfd is readable (poll, epoll) once its process has ended, whatever became of its
 * sockets.
 *
 * Units     start times in clock ticks since boot, as /proc/PID/stat has them.
 * Memory    the caller closes the descriptors.
 * Errors    ERR_NOT_FOUND: that process is gone. ERR_IO: it cannot be told.
 * Thread    any.
 */
#ifndef IPC_PROCESS_H
#define IPC_PROCESS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start time out of the text of /proc/PID/stat; the name in it may have any bytes.
 * ERR_PROTOCOL: it is no such text. */
int process_parse_stat(
	const char *text, size_t size, uint64_t *ret_start_time) MUST_CHECK;

int process_start_time(uint32_t pid, uint64_t *ret_start_time) MUST_CHECK;

/* A pidfd of the process that has this pid and start time. */
int process_open(uint32_t pid, uint64_t start_time, int *ret_pidfd) MUST_CHECK;

/* A pidfd of the process that made the connection `socket`, and what it is known by. */
int process_open_peer(int socket, uint32_t *ret_pid, uint64_t *ret_start_time,
	int *ret_pidfd) MUST_CHECK;

/* Whether the process of a pidfd has ended. */
bool process_has_ended(int pidfd);

#endif
