/*
 * net_base.h - what TCP over loopback can do, and how long a Redis takes for one command.
 *
 *   sender   a process that answers each request with so many bytes as it asks for, out of
 *            memory that it has touched, and waits in epoll meanwhile
 *
 * Units     bytes, ns of CLOCK_MONOTONIC.
 * Errors    0 or -1, and a line on stderr has said why, but for net_connect().
 * Thread    one.
 */
#ifndef TOOLS_NET_BASE_H
#define TOOLS_NET_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A port of loopback that nobody had a moment ago; 0: none. */
uint16_t net_free_port(void);
/* To loopback, without delay of small packets; -1: refused. */
int net_connect(uint16_t port);

struct sender {
	int fd; /* to it; -1: not running */
	pid_t pid;
};

bool sender_start(struct sender *sender);
/* Ask for `size` bytes into `to`: how long it took until the last was there, 0: it failed. */
uint64_t sender_fetch(struct sender *sender, void *to, size_t size);
void sender_stop(struct sender *sender);

/* Put a hash of an entry's size into the Redis at `fd`, for an hour. */
bool redis_begin(int fd);
/* How long it takes to read that and set a field of it in one script, with a plain read behind
 * it: what a get asks of a directory. 0: it failed. */
uint64_t redis_round(int fd);

/* Every thread of a process on one CPU, or with -1 on all. */
void cpu_pin_process(pid_t pid, int cpu);

#endif
