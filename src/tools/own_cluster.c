/*
 * own_cluster.c - start a redis-server and two `cenoted` beside this program, and end them.
 */
#include "tools/own_cluster.h"

#include "tools/interrupt.h"
#include "tools/net_base.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define REDIS_TRIES   200 /* each a connection that is refused at once */
#define REDIS_WAIT_MS 25
#define SECRET_SIZE   32

/* ---- the secret ---------------------------------------------------------- */

static int secret_make(struct own_cluster *cluster)
{
	unsigned char bytes[SECRET_SIZE];
	ssize_t wrote = -1;
	int fd;

	if (own_directory_make(cluster->directory) != TOOL_OK)
		return TOOL_FAILED;
	(void)snprintf(cluster->key_path, sizeof(cluster->key_path), "%s/key",
		cluster->directory);
	fd = open(cluster->key_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && getrandom(bytes, sizeof(bytes), 0) == SECRET_SIZE)
		wrote = write(fd, bytes, sizeof(bytes));
	if (fd >= 0)
		(void)close(fd);
	if (wrote == SECRET_SIZE)
		return TOOL_OK;
	tool_complain("%s: %s", cluster->key_path, strerror(errno));
	return TOOL_FAILED;
}

static void secret_remove(struct own_cluster *cluster)
{
	if (cluster->directory[0] == '\0')
		return;
	(void)unlink(cluster->key_path);
	(void)rmdir(cluster->directory);
	cluster->directory[0] = '\0';
}

/* ---- the directory ------------------------------------------------------- */

_Noreturn static void redis_exec(uint16_t port, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char text[8];

	(void)snprintf(text, sizeof(text), "%u", port);
	interrupt_forget();
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (null >= 0)
		(void)dup2(null, STDOUT_FILENO);
	if (getppid() == parent)
		(void)execlp("redis-server", "redis-server", "--port", text, "--bind",
			"127.0.0.1", "--save", "", "--appendonly", "no", NULL);
	_exit(127);
}

static int redis_start(struct own_cluster *cluster)
{
	pid_t parent = getpid();

	cluster->redis_port = net_free_port();
	cluster->redis = cluster->redis_port == 0 ? -1 : fork();
	if (cluster->redis == 0)
		redis_exec(cluster->redis_port, parent);
	if (cluster->redis < 0) {
		cluster->redis = 0;
		tool_complain("redis-server: %s", strerror(errno));
		return TOOL_FAILED;
	}
	(void)snprintf(cluster->url, sizeof(cluster->url), "redis://127.0.0.1:%u",
		cluster->redis_port);
	for (int i = 0; i < REDIS_TRIES && !interrupt_came(); i++) {
		int fd = net_connect(cluster->redis_port);

		if (fd >= 0) {
			(void)close(fd);
			return TOOL_OK;
		}
		if (waitpid(cluster->redis, NULL, WNOHANG) == cluster->redis) {
			cluster->redis = 0;
			break;
		}
		(void)usleep(REDIS_WAIT_MS * 1000);
	}
	tool_complain(
		"redis-server, which is the cluster's directory, did not start: is it "
		"installed?");
	return TOOL_FAILED;
}

static void redis_stop(struct own_cluster *cluster)
{
	if (cluster->redis <= 0)
		return;
	(void)kill(cluster->redis, SIGTERM);
	while (waitpid(cluster->redis, NULL, 0) < 0 && errno == EINTR)
		continue;
	cluster->redis = 0;
}

/* ---- all of it ----------------------------------------------------------- */

static int node_start(struct own_cluster *cluster, int number, uint64_t pool_bytes)
{
	char directory[96], secure[112] = "--insecure";
	const char *more[] = {directory, secure, "--peer-listen=127.0.0.1:0", NULL};

	(void)snprintf(directory, sizeof(directory), "--directory=%s", cluster->url);
	if (cluster->directory[0] != '\0')
		(void)snprintf(
			secure, sizeof(secure), "--peer-key=%s", cluster->key_path);
	return own_node_start(&cluster->nodes[number],
		&(struct own_node_options){.pool_bytes = pool_bytes, .more = more});
}

int own_cluster_start(struct own_cluster *cluster, uint64_t pool_bytes, bool tls)
{
	int result = TOOL_OK;

	*cluster = (struct own_cluster){.redis = 0};
	interrupt_catch();
	if (tls)
		result = secret_make(cluster);
	if (result == TOOL_OK)
		result = redis_start(cluster);
	for (int i = 0; i < OWN_CLUSTER_NODES && result == TOOL_OK; i++)
		result = node_start(cluster, i, pool_bytes);
	return result;
}

int own_cluster_stop(struct own_cluster *cluster)
{
	int result = TOOL_OK;

	for (int i = 0; i < OWN_CLUSTER_NODES; i++) {
		if (own_node_stop(&cluster->nodes[i]) != TOOL_OK)
			result = TOOL_FAILED;
	}
	redis_stop(cluster);
	secret_remove(cluster);
	return result;
}
