/*
 * redis_conn.c - one connection: its way up, commands out, answers in, its end.
 *
 * hiredis only writes commands and reads replies; it never sees the socket. What is read is
 * limited: an answer of more elements or bytes than any of ours has breaks the connection
 * before it takes memory.
 */
#include "dir/redis_conn.h"

#include "base/check.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_ELEMENTS 65536
#define REPLY_SIZE     (16u << 20) /* of which no answer was complete */

/* ---- memory -------------------------------------------------------------- */

static bool waits_add(struct redis_conn *conn, redis_reply_fn fn, void *ctx)
{
	if (conn->wait_count == conn->wait_limit) {
		uint32_t limit = conn->wait_limit > 0 ? 2 * conn->wait_limit : 64;
		struct redis_wait *waits = calloc(limit, sizeof(*waits));

		if (waits == NULL)
			return false;
		for (uint32_t i = 0; i < conn->wait_count; i++)
			waits[i] = conn->waits[(conn->wait_first + i) &
					       (conn->wait_limit - 1)];
		free(conn->waits);
		conn->waits = waits;
		conn->wait_first = 0;
		conn->wait_limit = limit;
	}
	if (conn->wait_count == 0)
		conn->heard_ns = loop_boot_ns();
	conn->waits[(conn->wait_first + conn->wait_count++) & (conn->wait_limit - 1)] =
		(struct redis_wait){fn, ctx};
	return true;
}

static struct redis_wait waits_take(struct redis_conn *conn)
{
	struct redis_wait wait = conn->waits[conn->wait_first];

	conn->wait_first = (conn->wait_first + 1) & (conn->wait_limit - 1);
	conn->wait_count--;
	return wait;
}

static bool out_add(struct redis_conn *conn, const char *bytes, size_t size)
{
	if (conn->out_size + size > conn->out_limit) {
		size_t limit = MAX(2 * conn->out_limit, conn->out_size + size);
		char *out = realloc(conn->out, limit);

		if (out == NULL)
			return false;
		conn->out = out;
		conn->out_limit = limit;
	}
	memcpy(conn->out + conn->out_size, bytes, size);
	conn->out_size += size;
	return true;
}

/* ---- the reader ---------------------------------------------------------- */

/* As hiredis makes it, if it is not too large to be one of ours. */
static void *make_array(const redisReadTask *task, int elements)
{
	struct redis_conn *conn = task->privdata;

	if (elements < 0 || elements > REPLY_ELEMENTS)
		return NULL;
	return conn->make_array(task, elements);
}

static bool reader_open(struct redis_conn *conn)
{
	conn->reader = redisReaderCreate();
	if (conn->reader == NULL)
		return false;
	conn->functions = *conn->reader->fn;
	conn->make_array = conn->functions.createArray;
	conn->functions.createArray = make_array;
	conn->reader->fn = &conn->functions;
	conn->reader->privdata = conn;
	return true;
}

static void reader_close(struct redis_conn *conn)
{
	if (conn->reader != NULL)
		redisReaderFree(conn->reader);
	conn->reader = NULL;
}

/* ---- the end ------------------------------------------------------------- */

static void conn_drop(struct redis_conn *conn)
{
	/* The system would go on trying to deliver: a command that comes long after others, which
	 * went over the next connection, say. */
	stream_abort(&conn->stream);
	tls_free(conn->tls);
	conn->tls = NULL;
	/* Inside an answer's function the reader is in use: on_data() frees it then. */
	if (!conn->reading)
		reader_close(conn);
	conn->out_size = 0;
	conn->greetings = 0;
	while (conn->wait_count > 0) {
		struct redis_wait wait = waits_take(conn);

		wait.fn(wait.ctx, NULL);
	}
}

void redis_conn_break(struct redis_conn *conn, const char *why)
{
	char text[REDIS_WHY_MAX]; /* `why` may lie in what is freed */

	if (conn->state <= REDIS_CONN_DOWN)
		return;
	(void)snprintf(text, sizeof(text), "%s", why);
	conn->state = REDIS_CONN_DOWN;
	conn->retry_ns = loop_boot_ns() + conn->backoff_ns;
	conn->backoff_ns = MIN(2 * conn->backoff_ns, REDIS_BACKOFF_MOST_NS);
	conn_drop(conn);
	conn->events->down(conn->ctx, text);
}

void redis_conn_aim(struct redis_conn *conn, const struct address *address)
{
	if (address == NULL) {
		conn->state = REDIS_CONN_IDLE;
		conn_drop(conn);
		return;
	}
	redis_conn_break(conn, "its address has changed");
	conn->address = *address;
	conn->state = REDIS_CONN_DOWN;
	conn->backoff_ns = REDIS_BACKOFF_LEAST_NS;
	conn->retry_ns = 0;
}

void redis_conn_is_good(struct redis_conn *conn)
{
	conn->backoff_ns = REDIS_BACKOFF_LEAST_NS;
}

void redis_conn_hurry(struct redis_conn *conn)
{
	conn->retry_ns = 0;
}

void redis_conn_init(struct redis_conn *conn, const struct redis_access *access,
	const struct redis_conn_events *events, void *ctx)
{
	*conn = (struct redis_conn){.access = access,
		.events = events,
		.ctx = ctx,
		.backoff_ns = REDIS_BACKOFF_LEAST_NS};
}

void redis_conn_fini(struct redis_conn *conn)
{
	conn->state = REDIS_CONN_IDLE;
	conn_drop(conn);
	free(conn->waits);
	free(conn->out);
	conn->waits = NULL;
	conn->out = NULL;
	conn->wait_limit = 0;
	conn->out_limit = 0;
}

/* ---- commands ------------------------------------------------------------ */

static bool conn_add(struct redis_conn *conn, int argc, const char **argv,
	const size_t *sizes, struct redis_wait wait)
{
	char *bytes = NULL;
	int size = redisFormatCommandArgv(&bytes, argc, argv, sizes);
	bool done = size >= 0 && out_add(conn, bytes, (size_t)size);

	if (size >= 0)
		redisFreeCommand(bytes);
	if (done && !waits_add(conn, wait.fn, wait.ctx)) {
		conn->out_size -= (size_t)size;
		done = false;
	}
	return done;
}

bool redis_conn_add(struct redis_conn *conn, int argc, const char **argv,
	const size_t *sizes, redis_reply_fn fn, void *ctx)
{
	return redis_conn_is_ready(conn) &&
	       conn_add(conn, argc, argv, sizes, (struct redis_wait){fn, ctx});
}

#define WORDS_MAX 8

static bool conn_add_words(
	struct redis_conn *conn, const char *const *words, struct redis_wait wait)
{
	const char *argv[WORDS_MAX];
	size_t sizes[WORDS_MAX];
	int argc = 0;

	for (; words[argc] != NULL; argc++) {
		CHECK(argc < WORDS_MAX);
		argv[argc] = words[argc];
		sizes[argc] = strlen(words[argc]);
	}
	return conn_add(conn, argc, argv, sizes, wait);
}

bool redis_conn_add_words(
	struct redis_conn *conn, const char *const *words, redis_reply_fn fn, void *ctx)
{
	return redis_conn_is_ready(conn) &&
	       conn_add_words(conn, words, (struct redis_wait){fn, ctx});
}

static void conn_send(struct redis_conn *conn)
{
	size_t size = conn->out_size;
	int err;

	if (size == 0)
		return;
	conn->out_size = 0;
	err = stream_send(&conn->stream, conn->out, size);
	if (err != 0)
		redis_conn_break(conn, err_text(err));
}

void redis_conn_flush(struct redis_conn *conn)
{
	if (redis_conn_is_ready(conn))
		conn_send(conn);
}

/* ---- who it is ----------------------------------------------------------- */

/* The value of a line "name:value" of INFO. */
static void info_line(const char *text, const char *name, char *ret, size_t ret_size)
{
	size_t size = strlen(name);
	const char *at = text;

	while (strncmp(at, name, size) != 0 || at[size] != ':') {
		at = strchr(at, '\n');
		if (at == NULL)
			return;
		at++;
	}
	at += size + 1;
	(void)snprintf(ret, ret_size, "%.*s", (int)strcspn(at, "\r\n"), at);
}

void redis_conn_learn(struct redis_conn *conn, const redisReply *reply)
{
	char word[REDIS_WORD_MAX] = "";

	if (reply->type != REDIS_REPLY_STRING)
		return;
	info_line(reply->str, "run_id", conn->life.run_id, sizeof(conn->life.run_id));
	info_line(reply->str, "master_replid", conn->life.replid,
		sizeof(conn->life.replid));
	info_line(reply->str, "maxmemory_policy", conn->policy, sizeof(conn->policy));
	info_line(reply->str, "redis_mode", word, sizeof(word));
	if (word[0] != '\0')
		conn->is_cluster = strcmp(word, "cluster") == 0;
	word[0] = '\0';
	info_line(reply->str, "role", word, sizeof(word));
	if (word[0] != '\0')
		conn->is_replica = strcmp(word, "master") != 0;
}

/* ---- greeting ------------------------------------------------------------ */

static void greeting_end(struct redis_conn *conn)
{
	if (--conn->greetings > 0)
		return;
	if (conn->life.run_id[0] == '\0' || conn->life.replid[0] == '\0' ||
		strchr(conn->life.run_id, ' ') != NULL ||
		strchr(conn->life.replid, ' ') != NULL) {
		redis_conn_break(conn, "it does not say its run_id and master_replid");
		return;
	}
	conn->state = REDIS_CONN_READY;
	conn->events->up(conn->ctx);
}

/* An error in the greeting ends the connection, in the server's words. */
static bool greeting_is_good(struct redis_conn *conn, const redisReply *reply)
{
	if (reply == NULL)
		return false;
	if (reply->type != REDIS_REPLY_ERROR)
		return true;
	redis_conn_break(conn, reply->str);
	return false;
}

static void on_auth(void *ctx, const redisReply *reply)
{
	if (greeting_is_good(ctx, reply))
		greeting_end(ctx);
}

static void on_info(void *ctx, const redisReply *reply)
{
	struct redis_conn *conn = ctx;

	if (!greeting_is_good(conn, reply))
		return;
	redis_conn_learn(conn, reply);
	greeting_end(conn);
}

static void on_script(void *ctx, const redisReply *reply)
{
	struct redis_conn *conn = ctx;
	struct redis_script *script;

	if (!greeting_is_good(conn, reply))
		return;
	script = &conn->access->scripts->scripts[conn->scripts_loaded++];
	if (reply->type != REDIS_REPLY_STRING ||
		!redis_script_learn(script, reply->str, reply->len))
		redis_conn_break(conn, "it loads no scripts");
	else
		greeting_end(conn);
}

static bool greet(struct redis_conn *conn, const char *const *words, redis_reply_fn fn)
{
	conn->greetings++;
	return conn_add_words(conn, words, (struct redis_wait){fn, conn});
}

static bool greet_auth(struct redis_conn *conn)
{
	const struct redis_access *access = conn->access;
	const char *plain[] = {"AUTH", access->password, NULL};
	const char *named[] = {"AUTH", access->user, access->password, NULL};

	if (access->password == NULL || access->password[0] == '\0')
		return true;
	return greet(conn,
		access->user != NULL && access->user[0] != '\0' ? named : plain, on_auth);
}

static void on_up(void *ctx)
{
	static const char *const sections[][3] = {{"INFO", "server", NULL},
		{"INFO", "replication", NULL}, {"INFO", "memory", NULL}};
	struct redis_conn *conn = ctx;
	bool done;

	conn->state = REDIS_CONN_GREETING;
	conn->life = (struct redis_life){.run_id = ""};
	conn->scripts_loaded = 0;
	done = greet_auth(conn);
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		done = done && greet(conn, sections[i], on_info);
	for (size_t i = 0; i < SCRIPT_COUNT; i++) {
		const char *load[] = {
			"SCRIPT", "LOAD", conn->access->scripts->scripts[i].text, NULL};

		done = done && greet(conn, load, on_script);
	}
	if (done)
		conn_send(conn);
	else
		redis_conn_break(conn, "no memory");
}

/* ---- answers ------------------------------------------------------------- */

/* False: it broke. */
static bool take_reply(struct redis_conn *conn, redisReply *reply)
{
	struct redis_wait wait;

	conn->heard_ns = loop_boot_ns();
	if (conn->wait_count == 0) {
		redis_conn_break(conn, "it says what nobody has asked");
		return false;
	}
	wait = waits_take(conn);
	wait.fn(wait.ctx, reply);
	return conn->state >= REDIS_CONN_GREETING;
}

static void take_replies(struct redis_conn *conn)
{
	bool stands = true;

	while (stands) {
		void *reply = NULL;

		if (redisReaderGetReply(conn->reader, &reply) != REDIS_OK) {
			redis_conn_break(conn, conn->reader->errstr);
			return;
		}
		if (reply == NULL)
			break;
		stands = take_reply(conn, reply);
		freeReplyObject(reply);
	}
	if (stands && conn->reader->len - conn->reader->pos > REPLY_SIZE)
		redis_conn_break(conn, "its answer is too large");
}

static size_t on_data(void *ctx, const void *bytes, size_t size)
{
	struct redis_conn *conn = ctx;

	conn->reading = true;
	if (redisReaderFeed(conn->reader, bytes, size) != REDIS_OK)
		redis_conn_break(conn, conn->reader->errstr);
	else
		take_replies(conn);
	conn->reading = false;
	if (conn->state <= REDIS_CONN_DOWN)
		reader_close(conn);
	return size;
}

static void on_down(void *ctx, int err, const char *why)
{
	(void)err;
	redis_conn_break(ctx, why);
}

/* ---- time ---------------------------------------------------------------- */

static const struct stream_events stream_events = {
	.up = on_up, .data = on_data, .down = on_down};

static void conn_open(struct redis_conn *conn)
{
	const struct redis_access *access = conn->access;
	struct tls_config config = access->tls;
	char why[256] = "no memory";
	int err = 0;

	conn->state = REDIS_CONN_OPENING;
	if (config.host == NULL)
		config.host = conn->address.host;
	if (access->use_tls)
		err = tls_new(&conn->tls, &config, why, sizeof(why));
	if (err == 0 && !reader_open(conn))
		err = ERR_NO_MEMORY;
	if (err == 0) {
		err = stream_open(&conn->stream, access->loop, &conn->address, conn->tls,
			&stream_events, conn);
		(void)snprintf(why, sizeof(why), "%s", err_text(err));
	}
	if (err != 0)
		redis_conn_break(conn, why);
}

uint64_t redis_conn_next(const struct redis_conn *conn)
{
	uint64_t next = stream_next(&conn->stream);

	if (conn->state == REDIS_CONN_DOWN)
		next = MIN(next, conn->retry_ns);
	if (conn->wait_count > 0)
		next = MIN(next, conn->heard_ns + conn->access->silence_ns);
	return next;
}

void redis_conn_due(struct redis_conn *conn, uint64_t now)
{
	stream_due(&conn->stream, now);
	if (conn->state == REDIS_CONN_DOWN && now >= conn->retry_ns)
		conn_open(conn);
	else if (conn->wait_count > 0 && now >= conn->heard_ns + conn->access->silence_ns)
		redis_conn_break(conn, "it does not answer");
}
