/*
 * fake_redis.c - a listener, a stream, and one answer a command.
 */
#include "fake_redis.h"

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define SHA "0123456789abcdef0123456789abcdef01234567"

static void say_bytes(struct fake_redis *fake, const char *bytes, size_t size)
{
	assert_int_equal(stream_send(&fake->stream, bytes, size), 0);
}

static void say(struct fake_redis *fake, const char *text)
{
	say_bytes(fake, text, strlen(text));
}

static void say_bulk(struct fake_redis *fake, const char *text)
{
	char head[32];

	(void)snprintf(head, sizeof(head), "$%zu\r\n", strlen(text));
	say(fake, head);
	say(fake, text);
	say(fake, "\r\n");
}

static void say_info(struct fake_redis *fake)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"# Server\r\nrun_id:aa11\r\nredis_mode:%s\r\nrole:%s\r\n"
		"master_replid:bb22\r\nmaxmemory_policy:noeviction\r\n",
		fake->in_cluster ? "cluster" : "standalone",
		fake->is_replica ? "slave" : "master");
	say_bulk(fake, text);
}

static void answer(struct fake_redis *fake, const redisReply *command)
{
	const char *name = command->element[0]->str;
	size_t heard = strlen(fake->heard);

	if (heard + 1 < sizeof(fake->heard))
		fake->heard[heard] = name[0];
	for (size_t i = 0; i < FAKE_SAYS; i++) {
		if (fake->says[i].command == NULL ||
			strcmp(fake->says[i].command, name) != 0)
			continue;
		say_bytes(fake, fake->says[i].bytes, fake->says[i].size);
		return;
	}
	if (strcmp(name, "INFO") == 0) {
		say_info(fake);
	} else if (strcmp(name, "SCRIPT") == 0) {
		say_bulk(fake, SHA);
	} else if (strcmp(name, "TIME") == 0) {
		say(fake, "*2\r\n$10\r\n1700000000\r\n$1\r\n5\r\n");
	} else if (strcmp(name, "GET") == 0 && fake->epoch[0] == '\0') {
		say(fake, "$-1\r\n");
	} else if (strcmp(name, "GET") == 0) {
		say_bulk(fake, fake->epoch);
	} else if (strcmp(name, "EVAL") == 0) { /* an epoch begins */
		(void)snprintf(fake->epoch, sizeof(fake->epoch), "%s",
			command->element[command->elements - 1]->str);
		say_bulk(fake, fake->epoch);
	} else {
		say(fake, "*0\r\n");
	}
}

/* ---- the connection ------------------------------------------------------ */

static void drop_stream(struct fake_redis *fake)
{
	stream_close(&fake->stream);
	if (fake->reader != NULL)
		redisReaderFree(fake->reader);
	fake->reader = NULL;
}

static void on_up(void *ctx)
{
	(void)ctx;
}

static size_t on_data(void *ctx, const void *bytes, size_t size)
{
	struct fake_redis *fake = ctx;

	assert_int_equal(redisReaderFeed(fake->reader, bytes, size), REDIS_OK);
	for (;;) {
		void *command = NULL;

		assert_int_equal(redisReaderGetReply(fake->reader, &command), REDIS_OK);
		if (command == NULL)
			return size;
		answer(fake, command);
		freeReplyObject(command);
	}
}

static void on_down(void *ctx, int err, const char *why)
{
	struct fake_redis *fake = ctx;

	(void)err;
	fake->resets += strcmp(why, strerror(ECONNRESET)) == 0;
	drop_stream(fake);
}

static const struct stream_events events = {on_up, on_data, on_down};

static void on_connection(struct loop_source *source)
{
	struct fake_redis *fake = container_of(source, struct fake_redis, listener);
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	assert_true(fd >= 0);
	drop_stream(fake);
	fake->reader = redisReaderCreate();
	assert_int_equal(
		stream_take(&fake->stream, fake->loop, fd, NULL, &events, fake), 0);
	fake->connections++;
}

/* ---- begin and end ------------------------------------------------------- */

void fake_open(struct fake_redis *fake, struct loop *loop)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*fake = (struct fake_redis){.loop = loop, .listener = {fd, on_connection}};
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(loop_add(loop, &fake->listener), 0);
	fake->port = ntohs(address.sin_port);
}

void fake_close(struct fake_redis *fake)
{
	drop_stream(fake);
	loop_remove(fake->loop, &fake->listener);
	(void)close(fake->listener.fd);
}

void fake_says_bytes(
	struct fake_redis *fake, const char *command, const char *bytes, size_t size)
{
	size_t at = FAKE_SAYS;

	for (size_t i = 0; i < FAKE_SAYS; i++) {
		const char *name = fake->says[i].command;

		if (name == NULL ? at == FAKE_SAYS : strcmp(name, command) == 0)
			at = i;
	}
	assert_true(at < FAKE_SAYS);
	fake->says[at].command = bytes != NULL ? command : NULL;
	fake->says[at].bytes = bytes;
	fake->says[at].size = size;
}

void fake_says(struct fake_redis *fake, const char *command, const char *bytes)
{
	fake_says_bytes(fake, command, bytes, bytes != NULL ? strlen(bytes) : 0);
}
