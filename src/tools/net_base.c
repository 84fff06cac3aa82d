/*
 * net_base.c - raw TCP beside the transfers of the store, and raw commands to a Redis.
 */
#include "tools/net_base.h"

#include "tools/bench_base.h"
#include "tools/interrupt.h"
#include "tools/tool.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Larger than the caches, as the objects of a pool are. */
#define SENDER_MEMORY (64u << 20)

/* ---- sockets ------------------------------------------------------------- */

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static int listen_somewhere(uint16_t *ret_port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		listen(fd, 1) == 0 &&
		getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
		*ret_port = ntohs(address.sin_port);
		return fd;
	}
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

uint16_t net_free_port(void)
{
	uint16_t port = 0;
	int fd = listen_somewhere(&port);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0 ? port : 0;
}

int net_connect(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

static bool receive_all(int fd, void *to, size_t size)
{
	unsigned char *bytes = to;

	while (size > 0) {
		ssize_t got = recv(fd, bytes, size, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		bytes += got;
		size -= (size_t)got;
	}
	return true;
}

static bool send_all(int fd, const void *from, size_t size)
{
	const unsigned char *bytes = from;

	while (size > 0) {
		ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		size -= (size_t)sent;
	}
	return true;
}

/* ---- the sender ---------------------------------------------------------- */

/* In the child, until the other end closes. */
_Noreturn static void sender_serve(int listener)
{
	unsigned char *memory = touched_new(SENDER_MEMORY);
	struct epoll_event event = {.events = EPOLLIN};
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	size_t at = 0;
	int on = 1;

	if (memory == NULL || fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		_exit(1);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (;;) {
		uint64_t size;

		if (epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR)
			continue;
		if (!receive_all(fd, &size, sizeof(size)) || size > SENDER_MEMORY)
			_exit(0);
		if (at + size > SENDER_MEMORY)
			at = 0;
		if (!send_all(fd, memory + at, size))
			_exit(1);
		at += size;
	}
}

bool sender_start(struct sender *sender)
{
	pid_t parent = getpid();
	uint16_t port;
	int listener = listen_somewhere(&port);

	*sender = (struct sender){.fd = -1};
	if (listener >= 0)
		sender->pid = fork();
	if (listener >= 0 && sender->pid == 0) {
		interrupt_forget();
		(void)signal(SIGINT, SIG_IGN);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			sender_serve(listener);
		_exit(1);
	}
	if (listener >= 0) {
		sender->fd = net_connect(port);
		(void)close(listener);
	}
	if (sender->fd >= 0)
		return true;
	tool_complain("bench: the peer of the raw TCP stream: %s", strerror(errno));
	sender_stop(sender);
	return false;
}

uint64_t sender_fetch(struct sender *sender, void *to, size_t size)
{
	uint64_t start_ns = tool_now_ns(), wanted = size;

	if (send_all(sender->fd, &wanted, sizeof(wanted)) &&
		receive_all(sender->fd, to, size))
		return tool_now_ns() - start_ns;
	tool_complain("bench: the peer of the raw TCP stream: %s", strerror(errno));
	return 0;
}

void sender_stop(struct sender *sender)
{
	if (sender->fd >= 0)
		(void)close(sender->fd);
	if (sender->pid > 0) {
		while (waitpid(sender->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	*sender = (struct sender){.fd = -1};
}

/* ---- Redis --------------------------------------------------------------- */

#define REDIS_KEY "cenote:bench"

/* Appended to `to`, of REDIS_SIZE bytes. */
#define REDIS_SIZE 1024u
static void redis_add(char *to, const char *const *words)
{
	size_t used = strlen(to), count = 0;

	while (words[count] != NULL)
		count++;
	used += (size_t)snprintf(to + used, REDIS_SIZE - used, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(to + used, REDIS_SIZE - used, "$%zu\r\n%s\r\n",
			strlen(words[i]), words[i]);
}

/* True: the answer came, and ends as it should. */
static bool redis_ask(int fd, const char *command, const char *end)
{
	size_t size = 0, tail = strlen(end);
	char reply[REDIS_SIZE];

	if (!send_all(fd, command, strlen(command)))
		return false;
	while (size < tail || memcmp(reply + size - tail, end, tail) != 0) {
		ssize_t got = recv(fd, reply + size, sizeof(reply) - size, 0);

		if (got <= 0 || reply[0] == '-')
			return false;
		size += (size_t)got;
	}
	return true;
}

bool redis_begin(int fd)
{
	static const char *const entry[] = {"HSET", REDIS_KEY, "g", "0000000000000001",
		"s", "0000000000001000", "f", "00000001", "w", "1", "h0000000000000001",
		"00000000000000013", NULL};
	static const char *const end[] = {"EXPIRE", REDIS_KEY, "3600", NULL};
	char command[REDIS_SIZE] = "";

	redis_add(command, entry);
	redis_add(command, end);
	if (redis_ask(fd, command, "\r\n:1\r\n"))
		return true;
	tool_complain("bench: the directory does not answer as a Redis does");
	return false;
}

uint64_t redis_round(int fd)
{
	static const char *const script[] = {"EVAL",
		"local raw = redis.call('HGETALL', KEYS[1]) "
		"redis.call('HSET', KEYS[1], raw[9], raw[10]) return raw",
		"1", REDIS_KEY, NULL};
	static const char *const read[] = {"GET", REDIS_KEY ":none", NULL};
	char command[REDIS_SIZE] = "";
	uint64_t start_ns;

	redis_add(command, script);
	redis_add(command, read);
	start_ns = tool_now_ns();
	if (redis_ask(fd, command, "$-1\r\n"))
		return tool_now_ns() - start_ns;
	tool_complain("bench: the directory does not answer as a Redis does");
	return 0;
}

/* ---- CPUs ---------------------------------------------------------------- */

void cpu_pin_process(pid_t pid, int cpu)
{
	char path[64];
	struct dirent *entry;
	cpu_set_t set;
	DIR *tasks;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (cpu < 0 || i == cpu)
			CPU_SET(i, &set);
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		int task = atoi(entry->d_name);

		if (task > 0)
			(void)sched_setaffinity(task, sizeof(set), &set);
	}
	if (tasks != NULL)
		(void)closedir(tasks);
}
