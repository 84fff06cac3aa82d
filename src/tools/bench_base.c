/*
 * bench_base.c - raw round trips and raw copies.
 *
 * The streaming copy is the benches' own: a baseline that were the library's code would
 * be as slow as the library.
 */
#include "tools/bench_base.h"

#include "tools/interrupt.h"
#include "tools/tool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ECHO_SIZE_MAX (256u << 10)
#define ECHO_BUFFER   212992 /* the system's usual limit of a socket's buffer */

/* ---- CPUs and memory ----------------------------------------------------- */

int cpu_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return -1;
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ? cpu : -1;
}

int cpu_highest(int except)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return -1;
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (cpu != except && CPU_ISSET(cpu, &set))
			return cpu;
	}
	return -1;
}

unsigned char *touched_new(size_t size)
{
	unsigned char *memory = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		tool_complain("bench: no memory for %zu bytes", size);
		return NULL;
	}
	memset(memory, 0x5a, size);
	return memory;
}

void touched_free(unsigned char *memory, size_t size)
{
	if (memory != NULL)
		(void)munmap(memory, size);
}

/* ---- the round trip ------------------------------------------------------ */

/* In the child, until the other end closes. A message's first word says how long its
 * answer is to be. */
_Noreturn static void echo_serve(int fd, unsigned char *buffer)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t answer;

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		_exit(1);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR)
			continue;
		if (recv(fd, buffer, ECHO_SIZE_MAX, MSG_DONTWAIT) <
			(ssize_t)sizeof(answer))
			_exit(0);
		memcpy(&answer, buffer, sizeof(answer));
		if (answer > ECHO_SIZE_MAX ||
			send(fd, buffer, answer, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			_exit(1);
	}
}

static bool echo_fork(struct echo *echo)
{
	pid_t parent = getpid();
	int size = ECHO_BUFFER, fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return false;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	echo->pid = fork();
	if (echo->pid == 0) {
		interrupt_forget();
		(void)signal(SIGINT, SIG_IGN);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(fds[0]);
		if (getppid() == parent)
			echo_serve(fds[1], echo->buffer);
		_exit(1);
	}
	(void)close(fds[1]);
	echo->fd = fds[0];
	return echo->pid > 0;
}

bool echo_start(struct echo *echo)
{
	*echo = (struct echo){.fd = -1, .buffer = calloc(1, ECHO_SIZE_MAX)};
	if (echo->buffer != NULL && echo_fork(echo))
		return true;
	tool_complain("bench: the peer of the round trip: %s", strerror(errno));
	echo_stop(echo);
	return false;
}

uint64_t echo_round(struct echo *echo, size_t request, size_t answer)
{
	uint32_t size = (uint32_t)answer;
	uint64_t start_ns;
	ssize_t got;

	memcpy(echo->buffer, &size, sizeof(size));
	start_ns = tool_now_ns();
	if (send(echo->fd, echo->buffer, request, MSG_NOSIGNAL) == (ssize_t)request) {
		do {
			got = recv(echo->fd, echo->buffer, ECHO_SIZE_MAX, 0);
		} while (got < 0 && errno == EINTR);
		if (got == (ssize_t)answer)
			return tool_now_ns() - start_ns;
	}
	tool_complain("bench: the peer of the round trip: %s", strerror(errno));
	return 0;
}

void echo_stop(struct echo *echo)
{
	if (echo->fd >= 0)
		(void)close(echo->fd);
	if (echo->pid > 0) {
		while (waitpid(echo->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	free(echo->buffer);
	*echo = (struct echo){.fd = -1};
}

/* ---- the copy ------------------------------------------------------------ */

#if defined(__x86_64__)
#include <immintrin.h>

#define STREAM_BLOCK 256u

/* Without prefetches: they were measured to cost more than they give. */
__attribute__((target("avx"))) static void stream_avx(
	unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t at = 0; at < size; at += STREAM_BLOCK) {
		for (size_t i = 0; i < STREAM_BLOCK; i += 32)
			_mm256_stream_si256((void *)(to + at + i),
				_mm256_loadu_si256((const void *)(from + at + i)));
	}
	_mm_sfence();
}

static void stream_sse2(unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t at = 0; at < size; at += 16)
		_mm_stream_si128(
			(void *)(to + at), _mm_loadu_si128((const void *)(from + at)));
	_mm_sfence();
}

/* `to` lies on a line, as every object of this size does. */
static void copy_streaming(unsigned char *to, const unsigned char *from, size_t size)
{
	size_t body = (uintptr_t)to % 64 == 0 ? size / STREAM_BLOCK * STREAM_BLOCK : 0;

	if (__builtin_cpu_supports("avx"))
		stream_avx(to, from, body);
	else
		stream_sse2(to, from, body);
	memcpy(to + body, from + body, size - body);
}

#else

static void copy_streaming(unsigned char *to, const unsigned char *from, size_t size)
{
	memcpy(to, from, size);
}

#endif

uint64_t copy_timed(enum copy_kind kind, void *to, const void *from, size_t size)
{
	uint64_t start_ns = tool_now_ns();

	if (kind == COPY_STREAM)
		copy_streaming(to, from, size);
	else
		memcpy(to, from, size);
	/* The copy is made, whoever reads it. */
	__asm__ volatile("" : : "r"(to) : "memory");
	return tool_now_ns() - start_ns;
}
