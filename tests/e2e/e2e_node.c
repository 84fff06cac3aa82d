/*
 * e2e_node.c - daemons of this build, each in a directory of its own.
 */
#include "e2e_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_FD 3

static char *path_in(const char *dir, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		E2E_TRUE(false);
	return path;
}

char *e2e_product(const char *name)
{
	const char *build = getenv("CENOTE_BUILD");
	char own[E2E_PATH_MAX] = "";

	/* Not told: the build directory that this program lies in, as tests/e2e/test_x.
	 */
	if (build == NULL && readlink("/proc/self/exe", own, sizeof(own) - 1) > 0) {
		for (int i = 0; i < 3 && strrchr(own, '/') != NULL; i++)
			*strrchr(own, '/') = '\0';
		build = own;
	}
	return path_in(build, name);
}

/* ---- start --------------------------------------------------------------- */

static struct e2e_node *node_new(struct e2e *t, va_list options)
{
	struct e2e_node *node = &t->nodes[t->node_count];
	const char *option;
	char number[16];

	E2E_TRUE(t->node_count < E2E_NODES_MAX);
	(void)snprintf(number, sizeof(number), "%zu", t->node_count++);
	node->dir = path_in(t->dir, number);
	node->log = path_in(node->dir, "log");
	node->socket = path_in(node->dir, "cenote.sock");
	node->shm = path_in(node->dir, "shm");
	if (mkdir(node->dir, 0755) != 0)
		e2e_fail(__FILE__, __LINE__, "%s: %s", node->dir, strerror(errno));
	while ((option = va_arg(options, const char *)) != NULL) {
		E2E_TRUE(node->option_count < E2E_WORDS_MAX);
		node->options[node->option_count++] = strdup(option);
	}
	return node;
}

struct e2e_node *e2e_node_new(struct e2e *t, ...)
{
	struct e2e_node *node;
	va_list options;

	va_start(options, t);
	node = node_new(t, options);
	va_end(options);
	return node;
}

_Noreturn static void node_exec(struct e2e_node *node, int ready)
{
	char ready_option[] = "--ready-fd=3";
	char *argv[E2E_WORDS_MAX + 8], *path = e2e_product("cenoted");
	int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	size_t argc = 0;

	argv[argc++] = path;
	argv[argc++] = ready_option;
	if (asprintf(&argv[argc++], "--run-dir=%s", node->dir) < 0)
		_exit(127);
	for (size_t i = 0; i < node->option_count; i++)
		argv[argc++] = node->options[i];
	argv[argc] = NULL;
	/* The pipe's end may be 3 already: then only its flag has to go. */
	if (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
		(ready == READY_FD ? fcntl(ready, F_SETFD, 0) : dup2(ready, READY_FD)) <
			0)
		_exit(127);
	(void)execv(path, argv);
	(void)dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

/* True: the pipe said so. False: it ended before. */
static bool node_await_ready(int fd)
{
	char text[256];
	size_t length = 0;
	ssize_t count;

	while ((count = read(fd, text + length, sizeof(text) - 1 - length)) > 0) {
		length += (size_t)count;
		text[length] = '\0';
		if (strstr(text, "ready") != NULL && strchr(text, '\n') != NULL)
			return true;
	}
	return false;
}

bool e2e_node_up(struct e2e_node *node)
{
	pid_t parent = getpid();
	int ready[2];
	bool is_up;

	E2E_TRUE(node->pid == 0);
	E2E_TRUE(pipe2(ready, O_CLOEXEC) == 0);
	(void)fflush(stdout);
	node->pid = fork();
	E2E_TRUE(node->pid >= 0);
	if (node->pid == 0) {
		e2e_end_with_parent(parent);
		node_exec(node, ready[1]);
	}
	(void)close(ready[1]);
	is_up = node_await_ready(ready[0]);
	(void)close(ready[0]);
	return is_up;
}

void e2e_node_restart(struct e2e_node *node)
{
	if (!e2e_node_up(node))
		e2e_fail(__FILE__, __LINE__, "the daemon did not get ready");
}

struct e2e_node *e2e_node_start(struct e2e *t, ...)
{
	struct e2e_node *node;
	va_list options;

	va_start(options, t);
	node = node_new(t, options);
	va_end(options);
	e2e_node_restart(node);
	return node;
}

/* ---- end ----------------------------------------------------------------- */

int e2e_node_wait(struct e2e_node *node)
{
	int status = 0;

	E2E_TRUE(node->pid != 0);
	if (!e2e_reap(node->pid, &status))
		e2e_fail(__FILE__, __LINE__, "the daemon did not end");
	node->pid = 0;
	return status;
}

void e2e_node_kill(struct e2e_node *node)
{
	int status;
	char text[64];

	(void)kill(node->pid, SIGKILL);
	status = e2e_node_wait(node);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		e2e_fail(__FILE__, __LINE__, "the daemon had ended before: %s",
			e2e_status_text(status, text, sizeof(text)));
}

void e2e_node_stop(struct e2e_node *node)
{
	int status;
	char text[64];

	(void)kill(node->pid, SIGTERM);
	status = e2e_node_wait(node);
	if (status != 0)
		e2e_fail(__FILE__, __LINE__, "the daemon ended with %s",
			e2e_status_text(status, text, sizeof(text)));
}

void e2e_nodes_end(struct e2e *t)
{
	for (size_t i = 0; i < t->node_count; i++) {
		struct e2e_node *node = &t->nodes[i];

		if (node->pid != 0)
			e2e_node_stop(node);
		for (size_t j = 0; j < node->option_count; j++)
			free(node->options[j]);
		free(node->dir);
		free(node->log);
		free(node->socket);
		free(node->shm);
	}
}

/* ---- what there is to know ----------------------------------------------- */

pid_t e2e_node_pid(const struct e2e_node *node)
{
	return node->pid;
}

const char *e2e_node_socket(const struct e2e_node *node)
{
	return node->socket;
}

const char *e2e_node_shm(const struct e2e_node *node)
{
	return node->shm;
}

char *e2e_node_log(const struct e2e_node *node)
{
	return e2e_read_file(node->log);
}

struct cenote *e2e_connect_path(const char *socket_path)
{
	struct cenote_connect_options options = {.socket_path = socket_path};
	struct cenote *store = NULL;

	E2E_OK(cenote_connect(&store, &options));
	return store;
}

struct cenote *e2e_connect(const struct e2e_node *node)
{
	return e2e_connect_path(node->socket);
}
