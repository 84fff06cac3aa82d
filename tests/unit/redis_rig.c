/*
 * redis_rig.c - processes of redis-server.
 */
#include "redis_rig.h"

#include "base/attr.h"
#include "io/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define RIGS         16
#define ARGS         48
#define SLOTS        16384u
#define RIG_PATH_MAX 256u

/* For the program's end. */
static struct redis_rig *rigs_running[RIGS];

/* ---- processes ----------------------------------------------------------- */

bool redis_rig_can(void)
{
	static const char *const paths[] = {
		"/usr/bin/redis-server", "/usr/local/bin/redis-server"};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (access(paths[i], X_OK) == 0)
			return true;
	}
	return false;
}

uint16_t redis_rig_free_port(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	(void)close(fd);
	return ntohs(address.sin_port);
}

static void remove_directory(const struct redis_rig *rig)
{
	static const char *const names[] = {"nodes.conf", "log", "dump.rdb"};
	char path[RIG_PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", rig->path, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(rig->path);
}

static void kill_all(void)
{
	for (size_t i = 0; i < RIGS; i++) {
		if (rigs_running[i] != NULL)
			redis_rig_kill(rigs_running[i]);
	}
}

static void note_running(struct redis_rig *rig)
{
	static bool at_exit;
	size_t i = 0;

	if (!at_exit)
		assert_int_equal(atexit(kill_all), 0);
	at_exit = true;
	while (rigs_running[i] != NULL && rigs_running[i] != rig)
		assert_true(++i < RIGS);
	rigs_running[i] = rig;
}

static void run_server(const struct redis_rig *rig, pid_t parent)
{
	char port[16], bus_port[16], *argv[ARGS];
	const char *usual[] = {"redis-server", "--port", port, "--bind", "127.0.0.1",
		"--dir", rig->path, "--logfile", "log", "--save", "", "--appendonly",
		"no", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0",
		"--repl-diskless-load", "swapdb"};
	const char *cluster[] = {"--cluster-enabled", "yes", "--cluster-port", bus_port,
		"--cluster-node-timeout", "1500", "--cluster-config-file", "nodes.conf",
		"--cluster-replica-validity-factor", "0"};
	size_t count = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	(void)snprintf(port, sizeof(port), "%u", rig->port);
	(void)snprintf(bus_port, sizeof(bus_port), "%u", rig->bus_port);
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		argv[count++] = strdup(usual[i]);
	for (size_t i = 0; rig->in_cluster && i < ARRAY_LEN(cluster); i++)
		argv[count++] = strdup(cluster[i]);
	for (size_t i = 0; rig->args[i] != NULL; i++)
		argv[count++] = strdup(rig->args[i]);
	argv[count] = NULL;
	(void)execvp(argv[0], argv);
	_exit(127);
}

static void path_of_log(const struct redis_rig *rig, char path[RIG_PATH_MAX])
{
	(void)snprintf(path, RIG_PATH_MAX, "%s/log", rig->path);
}

/* It says so itself: at its port another might answer. */
static bool says_ready(const struct redis_rig *rig)
{
	char path[RIG_PATH_MAX], text[8192] = "";
	FILE *log;

	path_of_log(rig, path);
	log = fopen(path, "re");
	if (log == NULL)
		return false;
	text[fread(text, 1, sizeof(text) - 1, log)] = '\0';
	(void)fclose(log);
	return strstr(text, "Ready to accept connections") != NULL;
}

/* Until it takes connections; what it answers then is for the test. False: it has ended, since
 * somebody has taken one of its ports. */
static bool wait_until_up(struct redis_rig *rig)
{
	uint64_t deadline = loop_boot_ns() + REDIS_RIG_WAIT_NS;

	while (!says_ready(rig)) {
		if (waitpid(rig->pid, NULL, WNOHANG) == rig->pid) {
			rig->pid = 0;
			return false;
		}
		assert_true(loop_boot_ns() < deadline);
		(void)poll(NULL, 0, 5);
	}
	rig->admin = redisConnect("127.0.0.1", rig->port);
	assert_non_null(rig->admin);
	assert_int_equal(rig->admin->err, 0);
	return true;
}

static bool launch(struct redis_rig *rig)
{
	pid_t parent = getpid();
	char path[RIG_PATH_MAX];

	path_of_log(rig, path);
	(void)unlink(path);
	rig->pid = fork();
	assert_true(rig->pid >= 0);
	if (rig->pid == 0)
		run_server(rig, parent);
	note_running(rig);
	return wait_until_up(rig);
}

static void choose_ports(struct redis_rig *rig)
{
	rig->port = redis_rig_free_port();
	do {
		rig->bus_port = redis_rig_free_port();
	} while (rig->bus_port == rig->port);
}

static void start(struct redis_rig *rig, const char *const *args, bool in_cluster)
{
	const char *tmp = getenv("TMPDIR");
	size_t count = 0;

	*rig = (struct redis_rig){.in_cluster = in_cluster};
	for (; args != NULL && args[count] != NULL; count++) {
		assert_true(count + 1 < REDIS_RIG_ARGS);
		rig->args[count] = args[count];
	}
	(void)snprintf(rig->path, sizeof(rig->path), "%s/cenote-redis-XXXXXX",
		tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(rig->path));
	do {
		choose_ports(rig);
	} while (!launch(rig));
}

void redis_rig_start(struct redis_rig *rig, const char *const *args)
{
	start(rig, args, false);
}

void redis_rig_start_in_cluster(struct redis_rig *rig)
{
	start(rig, NULL, true);
}

void redis_rig_stop(struct redis_rig *rig)
{
	if (rig->admin != NULL)
		redisFree(rig->admin);
	rig->admin = NULL;
	if (rig->pid > 0) {
		(void)kill(rig->pid, SIGKILL);
		(void)waitpid(rig->pid, NULL, 0);
	}
	rig->pid = 0;
}

void redis_rig_restart(struct redis_rig *rig)
{
	redis_rig_stop(rig);
	assert_true(launch(rig));
}

void redis_rig_kill(struct redis_rig *rig)
{
	redis_rig_stop(rig);
	if (rig->path[0] != '\0')
		remove_directory(rig);
	for (size_t i = 0; i < RIGS; i++) {
		if (rigs_running[i] == rig)
			rigs_running[i] = NULL;
	}
}

void redis_rig_pause(struct redis_rig *rig)
{
	int status;

	assert_int_equal(kill(rig->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(rig->pid, &status, WUNTRACED), rig->pid);
	assert_true(WIFSTOPPED(status));
}

void redis_rig_go_on(struct redis_rig *rig)
{
	assert_int_equal(kill(rig->pid, SIGCONT), 0);
}

/* ---- commands ------------------------------------------------------------ */

static redisReply *ask(struct redis_rig *rig, const char *format, va_list args)
{
	redisReply *reply = redisvCommand(rig->admin, format, args);

	if (reply == NULL)
		fail_msg("redis %u: %s: %s", rig->port, format, rig->admin->errstr);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("redis %u: %s: %s", rig->port, format, reply->str);
	return reply;
}

redisReply *redis_rig_ask(struct redis_rig *rig, const char *format, ...)
{
	redisReply *reply;
	va_list args;

	va_start(args, format);
	reply = ask(rig, format, args);
	va_end(args);
	return reply;
}

void redis_rig_do(struct redis_rig *rig, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	freeReplyObject(ask(rig, format, args));
	va_end(args);
}

bool redis_rig_says(struct redis_rig *rig, const char *text, const char *format, ...)
{
	redisReply *reply;
	va_list args;
	bool found;

	va_start(args, format);
	reply = redisvCommand(rig->admin, format, args);
	va_end(args);
	assert_non_null(reply);
	found = reply->str != NULL && strstr(reply->str, text) != NULL;
	freeReplyObject(reply);
	return found;
}

bool redis_rig_counts(struct redis_rig *rig, long long count, const char *format, ...)
{
	redisReply *reply;
	va_list args;
	bool same;

	va_start(args, format);
	reply = ask(rig, format, args);
	va_end(args);
	same = reply->type == REDIS_REPLY_INTEGER && reply->integer == count;
	freeReplyObject(reply);
	return same;
}

void redis_rig_await(struct redis_rig *rig, const char *text, const char *command)
{
	uint64_t deadline = loop_boot_ns() + REDIS_RIG_WAIT_NS;

	while (!redis_rig_says(rig, text, command)) {
		if (loop_boot_ns() >= deadline)
			fail_msg("redis %u: %s never said %s", rig->port, command, text);
		(void)poll(NULL, 0, 5);
	}
}

/* ---- clusters ------------------------------------------------------------ */

const char *redis_rig_node(struct redis_rig *rig, char id[64])
{
	redisReply *reply = redis_rig_ask(rig, "CLUSTER MYID");

	(void)snprintf(id, 64, "%s", reply->str);
	freeReplyObject(reply);
	return id;
}

static void meet(struct redis_rig *rig, const struct redis_rig *other)
{
	redis_rig_do(rig, "CLUSTER MEET 127.0.0.1 %d %d", (int)other->port,
		(int)other->bus_port);
}

void redis_rig_join(struct redis_rig *rigs, size_t count)
{
	char known[64];

	for (size_t i = 0; i < count; i++) {
		redis_rig_do(&rigs[i], "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
		redis_rig_do(&rigs[i], "CLUSTER ADDSLOTSRANGE %d %d",
			(int)(SLOTS * i / count), (int)(SLOTS * (i + 1) / count - 1));
		if (i > 0)
			meet(&rigs[0], &rigs[i]);
	}
	(void)snprintf(known, sizeof(known), "cluster_known_nodes:%zu", count);
	for (size_t i = 0; i < count; i++) {
		redis_rig_await(&rigs[i], known, "CLUSTER INFO");
		redis_rig_await(&rigs[i], "cluster_state:ok", "CLUSTER INFO");
	}
}

void redis_rig_add_replica(struct redis_rig *replica, struct redis_rig *master)
{
	char id[64];

	meet(replica, master);
	redis_rig_node(master, id);
	redis_rig_await(replica, id, "CLUSTER NODES");
	redis_rig_await(replica, "cluster_state:ok", "CLUSTER INFO");
	redis_rig_do(replica, "CLUSTER REPLICATE %s", id);
	redis_rig_await(replica, "master_link_status:up", "INFO replication");
	redis_rig_await(master, "state=online", "INFO replication");
}
