/*
 * rival_redis.c - the calls on Redis through hiredis, over its Unix socket: one command
 * and its answer, and pipelines. And a redis-server of our own.
 *
 * The answer's buffer is kept between calls (maxbuf 0), and a large value is written from
 * where it lies: hiredis would copy it twice, into fresh pages, which is not Redis' fault.
 */
#include "compare.h"

#include "base/attr.h"
#include "tools/interrupt.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- calls --------------------------------------------------------------- */

static void *redis_rival_open(const char *socket)
{
	redisContext *store = redisConnectUnix(socket);

	if (store != NULL && store->err == 0) {
		store->reader->maxbuf = 0;
		return store;
	}
	tool_complain("compare: Redis: %s", store == NULL ? "no memory" : store->errstr);
	redisFree(store);
	return NULL;
}

static void redis_rival_close(void *store)
{
	redisFree(store);
}

/* The answer is of this type; NULL: it is not, or did not come. */
static redisReply *answer_of(void *store, int type)
{
	redisContext *context = store;
	void *reply = NULL;
	redisReply *answer;

	if (redisGetReply(context, &reply) != REDIS_OK) {
		tool_complain("compare: Redis: %s", context->errstr);
		return NULL;
	}
	answer = reply;
	if (answer->type == type)
		return answer;
	tool_complain("compare: Redis answers %s",
		answer->type == REDIS_REPLY_ERROR ? answer->str : "something else");
	freeReplyObject(answer);
	return NULL;
}

static void send_set(
	void *store, const struct compare_key *key, const void *data, size_t size)
{
	const char *words[] = {"SET", key->text, data};
	const size_t sizes[] = {3, COMPARE_KEY_SIZE, size};

	(void)redisAppendCommandArgv(store, 3, words, sizes);
}

static void send_word(void *store, const char *word, const struct compare_key *key)
{
	const char *words[] = {word, key->text};
	const size_t sizes[] = {3, COMPARE_KEY_SIZE};

	(void)redisAppendCommandArgv(store, 2, words, sizes);
}

static bool hear_ok(void *store)
{
	redisReply *answer = answer_of(store, REDIS_REPLY_STATUS);
	bool right = answer != NULL && strcmp(answer->str, "OK") == 0;

	freeReplyObject(answer);
	return right;
}

static bool hear_one(void *store)
{
	redisReply *answer = answer_of(store, REDIS_REPLY_INTEGER);
	bool right = answer != NULL && answer->integer == 1;

	freeReplyObject(answer);
	return right;
}

static bool hear_value(void *store, const void *want, size_t size)
{
	redisReply *answer = answer_of(store, REDIS_REPLY_STRING);
	bool right = answer != NULL && (size_t)answer->len == size &&
		     (want == NULL || memcmp(answer->str, want, size) == 0);

	freeReplyObject(answer);
	return right;
}

/* All of it; the parts are used up. */
static bool write_all(int fd, struct iovec *parts, size_t count)
{
	while (count > 0) {
		ssize_t wrote = writev(fd, parts, (int)count);

		if (wrote < 0 && errno != EINTR)
			return false;
		for (size_t left = wrote > 0 ? (size_t)wrote : 0; count > 0;) {
			size_t taken = MIN(left, parts->iov_len);

			parts->iov_base = (unsigned char *)parts->iov_base + taken;
			parts->iov_len -= taken;
			left -= taken;
			if (parts->iov_len > 0)
				break;
			parts++;
			count--;
		}
	}
	return true;
}

static bool redis_rival_put(
	void *store, const struct compare_key *key, const void *data, size_t size)
{
	const redisContext *context = store;
	union {
		const void *from;
		void *base; /* writev() only reads */
	} value = {data};
	char head[96], tail[] = "\r\n";
	int length = snprintf(head, sizeof(head),
		"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", COMPARE_KEY_SIZE, key->text,
		size);
	struct iovec parts[] = {{head, (size_t)length}, {value.base, size}, {tail, 2}};

	if (write_all(context->fd, parts, ARRAY_LEN(parts)))
		return hear_ok(store);
	tool_complain("compare: Redis: %s", strerror(errno));
	return false;
}

static bool redis_rival_get(void *store, const struct compare_key *keys, size_t count,
	const void *want, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		send_word(store, "GET", &keys[i]);
		if (!hear_value(store, want, size)) {
			tool_complain("compare: Redis gave another value");
			return false;
		}
	}
	return true;
}

static bool redis_rival_put_all(void *store, const struct compare_key *keys, size_t count,
	const void *data, size_t size)
{
	bool right = true;

	for (size_t i = 0; i < count; i++)
		send_set(store, &keys[i], data, size);
	for (size_t i = 0; i < count && right; i++)
		right = hear_ok(store);
	return right;
}

static bool redis_rival_remove_all(
	void *store, const struct compare_key *keys, size_t count)
{
	bool right = true;

	for (size_t i = 0; i < count; i++)
		send_word(store, "DEL", &keys[i]);
	for (size_t i = 0; i < count && right; i++)
		right = hear_one(store);
	return right;
}

const struct rival rival_redis = {
	.name = "redis",
	.open = redis_rival_open,
	.close = redis_rival_close,
	.put = redis_rival_put,
	.get = redis_rival_get,
	.put_all = redis_rival_put_all,
	.remove_all = redis_rival_remove_all,
};

/* ---- the server ---------------------------------------------------------- */

/* In the child. Nothing is written to a disk, and no port is opened. */
_Noreturn static void redis_exec(const struct own_redis *redis, int log_fd, pid_t parent)
{
	interrupt_forget();
	(void)dup2(log_fd, STDOUT_FILENO);
	(void)dup2(log_fd, STDERR_FILENO);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent)
		(void)execlp("redis-server", "redis-server", "--save", "", "--appendonly",
			"no", "--port", "0", "--dir", redis->directory, "--unixsocket",
			redis->socket, "--logfile", "", NULL);
	_exit(127);
}

/* Its log says when it listens. */
static bool redis_wait_ready(const struct own_redis *redis)
{
	FILE *log = fdopen(dup(redis->log_fd), "r");
	bool ready = false;
	char line[512];

	while (log != NULL && !ready && fgets(line, sizeof(line), log) != NULL)
		ready = strstr(line, "ccept connections") != NULL ||
			strstr(line, "accepting connections") != NULL;
	if (log != NULL)
		(void)fclose(log);
	return ready;
}

bool own_redis_start(struct own_redis *redis)
{
	pid_t parent = getpid();
	int fds[2];

	*redis = (struct own_redis){.log_fd = -1, .directory = "/tmp/compare-XXXXXX"};
	if (mkdtemp(redis->directory) == NULL || pipe2(fds, O_CLOEXEC) != 0) {
		tool_complain("compare: %s", strerror(errno));
		return false;
	}
	(void)snprintf(
		redis->socket, sizeof(redis->socket), "%s/redis.sock", redis->directory);
	redis->pid = fork();
	if (redis->pid == 0)
		redis_exec(redis, fds[1], parent);
	(void)close(fds[1]);
	redis->log_fd = fds[0];
	if (redis->pid > 0 && redis_wait_ready(redis))
		return true;
	tool_complain("compare: redis-server did not start");
	return false;
}

void own_redis_stop(struct own_redis *redis)
{
	if (redis->pid > 0) {
		(void)kill(redis->pid, SIGTERM);
		while (waitpid(redis->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	if (redis->log_fd >= 0)
		(void)close(redis->log_fd);
	if (redis->socket[0] != '\0')
		(void)unlink(redis->socket);
	if (redis->directory[0] != '\0')
		(void)rmdir(redis->directory);
	*redis = (struct own_redis){.log_fd = -1};
}
