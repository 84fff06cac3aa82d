/*
 * Tests of ipc/socket.h and ipc/process.h, over real sockets and processes.
 */
#include "ipc/socket.h"

#include "base/err.h"
#include "ipc/process.h"
#include "unit.h"
#include "wire/msg.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SECOND 1000000000ull

struct world {
	char dir[64], path[80], detail[256];
	int listener, client, server;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	(void)snprintf(world->dir, sizeof(world->dir), "/tmp/cenote-socket-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	(void)snprintf(world->path, sizeof(world->path), "%s/s", world->dir);
	assert_int_equal(socket_listen(world->path, 0660, &world->listener, world->detail,
				 sizeof(world->detail)),
		0);
	assert_int_equal(socket_connect(world->path, &world->client), 0);
	assert_int_equal(socket_accept(world->listener, &world->server), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	(void)close(world->client);
	(void)close(world->server);
	(void)close(world->listener);
	(void)unlink(world->path);
	(void)rmdir(world->dir);
	free(world);
	return 0;
}

static void test_listen(void **state)
{
	struct world *world = *state;
	struct stat file;
	int fd;

	assert_int_equal(stat(world->path, &file), 0);
	assert_int_equal(file.st_mode & 0777, 0660);
	assert_int_equal(socket_accept(world->listener, &fd), ERR_BUSY);
	/* Somebody answers. */
	assert_int_equal(socket_listen(world->path, 0660, &fd, world->detail,
				 sizeof(world->detail)),
		ERR_BUSY);
	assert_non_null(strstr(world->detail, world->path));
	/* Nobody does: the file is replaced. */
	(void)close(world->listener);
	assert_int_equal(socket_connect(world->path, &fd), ERR_UNAVAILABLE);
	assert_int_equal(socket_listen(world->path, 0600, &world->listener, world->detail,
				 sizeof(world->detail)),
		0);
	assert_int_equal(stat(world->path, &file), 0);
	assert_int_equal(file.st_mode & 0777, 0600);
}

static void test_listen_refused(void **state)
{
	struct world *world = *state;
	char path[200];
	int fd;

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(
		socket_listen(path, 0660, &fd, world->detail, sizeof(world->detail)),
		ERR_BAD_ARGUMENT);
	assert_non_null(strstr(world->detail, "199"));
	assert_int_equal(socket_connect(path, &fd), ERR_BAD_ARGUMENT);
	/* A file that is no socket stays. */
	(void)unlink(world->path);
	(void)close(open(world->path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
	assert_int_equal(socket_listen(world->path, 0660, &fd, world->detail,
				 sizeof(world->detail)),
		ERR_BAD_ARGUMENT);
	assert_int_equal(access(world->path, F_OK), 0);
	(void)unlink(world->path);
	assert_int_equal(socket_connect(world->path, &fd), ERR_UNAVAILABLE);
}

static void test_messages(void **state)
{
	struct world *world = *state;
	unsigned char *out = malloc(MSG_SIZE_MAX), *in = malloc(MSG_SIZE_MAX);

	memset(out, 7, MSG_SIZE_MAX);
	assert_int_equal(socket_size_check(world->client), 0);
	assert_int_equal(socket_size_check(world->server), 0);
	assert_int_equal(
		socket_receive(world->server, in, MSG_SIZE_MAX, 0, NULL), ERR_BUSY);
	assert_int_equal(socket_receive(world->server, in, MSG_SIZE_MAX,
				 socket_now() + SECOND / 100, NULL),
		ERR_TIMEOUT);
	assert_int_equal(socket_send(world->client, out, MSG_SIZE_MAX, NULL, 0, 0), 0);
	assert_int_equal(socket_send(world->server, out, 3, NULL, 0, 0), 0);
	assert_int_equal(
		socket_receive(world->server, in, MSG_SIZE_MAX, UINT64_MAX, NULL),
		MSG_SIZE_MAX);
	assert_memory_equal(in, out, MSG_SIZE_MAX);
	assert_int_equal(socket_receive(world->client, in, MSG_SIZE_MAX, 0, NULL), 3);
	/* Too large for the receiver's buffer. */
	assert_int_equal(socket_send(world->client, out, 100, NULL, 0, 0), 0);
	assert_int_equal(socket_receive(world->server, in, 99, 0, NULL), ERR_PROTOCOL);
	free(out);
	free(in);
}

static void test_full(void **state)
{
	struct world *world = *state;
	unsigned char *message = calloc(1, 65536);
	int sent = 0;

	while (socket_send(world->client, message, 65536, NULL, 0, 0) == 0)
		sent++;
	assert_true(sent >= 2);
	assert_int_equal(
		socket_send(world->client, message, 65536, NULL, 0, 0), ERR_BUSY);
	assert_int_equal(socket_send(world->client, message, 65536, NULL, 0,
				 socket_now() + SECOND / 100),
		ERR_TIMEOUT);
	for (int i = 0; i < sent; i++)
		assert_int_equal(
			socket_receive(world->server, message, 65536, 0, NULL), 65536);
	assert_int_equal(socket_send(world->client, message, 65536, NULL, 0,
				 socket_now() + SECOND),
		0);
	free(message);
}

static void test_away(void **state)
{
	struct world *world = *state;
	char byte = 0;

	(void)shutdown(world->server, SHUT_RDWR);
	assert_int_equal(socket_receive(world->client, &byte, 1, UINT64_MAX, NULL),
		ERR_UNAVAILABLE);
	assert_int_equal(socket_send(world->client, &byte, 1, NULL, 0, UINT64_MAX),
		ERR_UNAVAILABLE);
}

static void test_extra(void **state)
{
	struct world *world = *state;
	struct socket_extra extra;
	int fds[4] = {-1, -1, -1, -1};
	struct stat a, b;
	char byte = 1;

	for (int i = 0; i < 4; i++)
		fds[i] = open(world->dir, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fds[0], &a), 0);
	assert_int_equal(socket_send(world->client, &byte, 1, fds, 3, 0), 0);
	assert_int_equal(socket_receive(world->server, &byte, 1, 0, &extra), 1);
	assert_int_equal(extra.count, 3);
	assert_int_equal(extra.sender, getpid());
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fstat(extra.fds[i], &b), 0);
		assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
		assert_int_equal(fcntl(extra.fds[i], F_GETFD), FD_CLOEXEC);
		(void)close(extra.fds[i]);
	}
	/* Not asked for: dropped. */
	assert_int_equal(socket_send(world->client, &byte, 1, fds, 1, 0), 0);
	assert_int_equal(socket_receive(world->server, &byte, 1, 0, NULL), 1);

	for (int i = 0; i < 4; i++)
		(void)close(fds[i]);
}

static void test_peer(void **state)
{
	struct world *world = *state;
	struct socket_peer peer;
	uint64_t start_time, same;
	uint32_t pid;
	int pidfd, again;

	assert_int_equal(socket_peer(world->server, &peer), 0);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, getuid());
	assert_int_equal(process_open_peer(world->server, &pid, &start_time, &pidfd), 0);
	assert_int_equal(pid, getpid());
	assert_int_equal(process_start_time(pid, &same), 0);
	assert_true(same == start_time && start_time > 0);
	assert_false(process_has_ended(pidfd));
	assert_int_equal(process_open(pid, start_time, &again), 0);
	(void)close(again);
	assert_int_equal(process_open(pid, start_time + 1, &again), ERR_NOT_FOUND);
	(void)close(pidfd);
}

/* A child that connects and lives until it is killed. */
static void test_peer_ends(void **state)
{
	struct world *world = *state;
	uint64_t start_time;
	pid_t child = fork();
	uint32_t pid;
	int fd, pidfd;
	char byte;

	if (child == 0) {
		if (socket_connect(world->path, &fd) == 0 &&
			socket_send(fd, "x", 1, NULL, 0, 0) == 0)
			(void)pause();
		_exit(1);
	}
	while (socket_accept(world->listener, &fd) == ERR_BUSY)
		(void)sched_yield();
	assert_int_equal(socket_receive(fd, &byte, 1, UINT64_MAX, NULL), 1);
	assert_int_equal(process_open_peer(fd, &pid, &start_time, &pidfd), 0);
	assert_int_equal(pid, child);
	assert_false(process_has_ended(pidfd));
	(void)kill(child, SIGKILL);
	assert_int_equal(socket_receive(fd, &byte, 1, UINT64_MAX, NULL), ERR_UNAVAILABLE);
	/* Also while it is a zombie. */
	while (!process_has_ended(pidfd))
		(void)sched_yield();
	(void)close(pidfd);
	assert_int_equal(process_open(pid, start_time, &pidfd), ERR_NOT_FOUND);
	assert_int_equal(process_open_peer(fd, &pid, &start_time, &pidfd), ERR_NOT_FOUND);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(process_open(pid, start_time, &pidfd), ERR_NOT_FOUND);
	assert_int_equal(process_start_time(pid, &start_time), ERR_NOT_FOUND);
	(void)close(fd);
}

static void test_parse_stat(void **state)
{
	static const char good[] =
		"12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 "
		"18 4567 20\n";
	uint64_t start_time = 0;

	(void)state;
	assert_int_equal(process_parse_stat(good, sizeof(good) - 1, &start_time), 0);
	assert_int_equal(start_time, 4567);
	for (size_t size = 0; size < sizeof(good) - 8; size++)
		assert_int_equal(
			process_parse_stat(good, size, &start_time), ERR_PROTOCOL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_listen),
	CASE(test_listen_refused),
	CASE(test_messages),
	CASE(test_full),
	CASE(test_away),
	CASE(test_extra),
	CASE(test_peer),
	CASE(test_peer_ends),
	cmocka_unit_test(test_parse_stat),
};

UNIT_MAIN(tests)
