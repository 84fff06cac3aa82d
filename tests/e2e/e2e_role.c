/*
 * e2e_role.c - client processes, and the channel between one and its test.
 *
 * The channel is a pair of SOCK_SEQPACKET sockets: a text is a packet. When one side has
 * ended, the other reads an end: a role then ends too, a test fails with how the role
 * ended.
 */
#include "e2e_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANNEL_FD 3

/* The text that comes next; false: there is none, the other side has ended. */
static bool channel_hear(int fd, int limit_ms, char *text)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	ssize_t length;
	int count;

	do {
		count = poll(&ready, 1, limit_ms);
	} while (count < 0 && errno == EINTR);
	if (count == 0)
		e2e_fail(__FILE__, __LINE__, "nothing was said for %d ms", limit_ms);
	length = recv(fd, text, E2E_TEXT_MAX - 1, 0);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

/* ---- the test's side ----------------------------------------------------- */

_Noreturn static void role_exec(int channel, char **argv)
{
	if ((channel == CHANNEL_FD ? fcntl(channel, F_SETFD, 0)
				   : dup2(channel, CHANNEL_FD)) < 0)
		_exit(127);
	(void)execv("/proc/self/exe", argv);
	_exit(127);
}

struct e2e_role *e2e_role_start(
	struct e2e *t, const struct e2e_node *node, const char *name, ...)
{
	struct e2e_role *role = &t->roles[t->role_count];
	char program[] = "e2e", flag[] = "--role", none[] = E2E_SOCKET_ARG;
	char *argv[E2E_WORDS_MAX + 1] = {program, flag};
	pid_t parent = getpid();
	int pair[2];
	va_list args;
	size_t argc = 2;

	E2E_TRUE(t->role_count < E2E_ROLES_MAX);
	t->role_count++;
	va_start(args, name);
	argv[argc++] = strdup(name);
	argv[argc++] = node != NULL ? strdup(node->socket) : strdup(none);
	while (argc < E2E_WORDS_MAX) {
		const char *arg = va_arg(args, const char *);

		if (arg == NULL)
			break;
		argv[argc++] = strdup(arg);
	}
	va_end(args);
	E2E_TRUE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	(void)fflush(stdout);
	role->pid = fork();
	E2E_TRUE(role->pid >= 0);
	if (role->pid == 0) {
		e2e_end_with_parent(parent);
		role_exec(pair[1], argv);
	}
	(void)close(pair[1]);
	for (size_t i = 2; i < argc; i++)
		free(argv[i]);
	role->name = name;
	role->channel = pair[0];
	return role;
}

static int role_reap(struct e2e_role *role)
{
	int status = 0;

	E2E_TRUE(role->pid != 0);
	if (!e2e_reap(role->pid, &status))
		e2e_fail(__FILE__, __LINE__, "role %s did not end", role->name);
	role->pid = 0;
	(void)close(role->channel);
	return status;
}

const char *e2e_role_hear(struct e2e_role *role)
{
	char text[64];

	if (!channel_hear(role->channel, E2E_DEADLINE_MS, role->heard))
		e2e_fail(__FILE__, __LINE__,
			"role %s ended before it said a word more: %s", role->name,
			e2e_status_text(role_reap(role), text, sizeof(text)));
	return role->heard;
}

void e2e_role_expect(struct e2e_role *role, const char *text)
{
	if (strcmp(e2e_role_hear(role), text) != 0)
		e2e_fail(__FILE__, __LINE__, "role %s said \"%s\", not \"%s\"",
			role->name, role->heard, text);
}

void e2e_role_tell(struct e2e_role *role, const char *text)
{
	if (send(role->channel, text, strlen(text), MSG_NOSIGNAL) < 0)
		e2e_fail(__FILE__, __LINE__, "role %s cannot be told \"%s\"", role->name,
			text);
}

void e2e_role_end(struct e2e_role *role)
{
	char text[64];
	int status = role_reap(role);

	if (status != 0)
		e2e_fail(__FILE__, __LINE__, "role %s ended with %s", role->name,
			e2e_status_text(status, text, sizeof(text)));
}

void e2e_role_dies(struct e2e_role *role, int signal)
{
	char text[64];
	int status = role_reap(role);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
		e2e_fail(__FILE__, __LINE__, "role %s ended with %s, not SIG%s",
			role->name, e2e_status_text(status, text, sizeof(text)),
			sigabbrev_np(signal));
}

void e2e_role_signal(struct e2e_role *role, int signal)
{
	E2E_TRUE(role->pid != 0);
	(void)kill(role->pid, signal);
	if (signal == SIGKILL)
		e2e_role_dies(role, SIGKILL);
}

pid_t e2e_role_pid(const struct e2e_role *role)
{
	return role->pid;
}

void e2e_roles_end(struct e2e *t)
{
	for (size_t i = 0; i < t->role_count; i++) {
		if (t->roles[i].pid == 0)
			continue;
		(void)kill(t->roles[i].pid, SIGKILL);
		(void)role_reap(&t->roles[i]);
	}
}

/* ---- the role's side ----------------------------------------------------- */

int e2e_self_main(
	int argc, char **argv, const struct e2e_role_spec *roles, size_t role_count)
{
	struct e2e_self self = {.channel = CHANNEL_FD};

	E2E_TRUE(argc >= 4);
	(void)fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC);
	self.socket = strcmp(argv[3], E2E_SOCKET_ARG) != 0 ? argv[3] : NULL;
	self.argc = argc - 4;
	self.argv = argv + 4;
	for (size_t i = 0; i < role_count; i++) {
		if (strcmp(roles[i].name, argv[2]) == 0) {
			roles[i].run(&self);
			return 0;
		}
	}
	e2e_fail(__FILE__, __LINE__, "no role %s", argv[2]);
}

const char *e2e_self_socket(const struct e2e_self *self)
{
	return self->socket;
}

const char *e2e_self_arg(const struct e2e_self *self, int index)
{
	if (index >= self->argc)
		e2e_fail(__FILE__, __LINE__, "the role has no argument %d", index);
	return self->argv[index];
}

uint64_t e2e_self_number(const struct e2e_self *self, int index)
{
	return strtoull(e2e_self_arg(self, index), NULL, 10);
}

struct cenote *e2e_self_connect(const struct e2e_self *self)
{
	return e2e_connect_path(self->socket);
}

void e2e_self_say(struct e2e_self *self, const char *format, ...)
{
	char text[E2E_TEXT_MAX];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (send(self->channel, text, (size_t)length, MSG_NOSIGNAL) != length)
		_exit(E2E_EXIT_FAIL);
}

const char *e2e_self_hear(struct e2e_self *self)
{
	if (!channel_hear(self->channel, -1, self->heard))
		_exit(E2E_EXIT_FAIL);
	return self->heard;
}

void e2e_self_await(struct e2e_self *self, const char *text)
{
	if (strcmp(e2e_self_hear(self), text) != 0)
		e2e_fail(__FILE__, __LINE__, "told \"%s\" instead of \"%s\"", self->heard,
			text);
}
