/*
 * fake_redis.h - something that speaks as a Redis does, in the test's own loop, and says what
 * the test wants it to.
 *
 * It takes one connection at a time. To what dir_redis asks while it connects it answers as
 * a server would; to a command whose name is in `says` with the bytes there, instead.
 */
#ifndef UNIT_FAKE_REDIS_H
#define UNIT_FAKE_REDIS_H

#include "io/loop.h"
#include "io/stream.h"

#include <hiredis/hiredis.h>

#define FAKE_SAYS 4u

struct fake_redis {
	struct loop *loop;
	struct loop_source listener;
	struct stream stream;
	redisReader *reader;
	uint16_t port;
	bool in_cluster, is_replica;
	struct {
		const char *command; /* NULL: unused */
		const char *bytes;
		size_t size;
	} says[FAKE_SAYS];
	char epoch[256];              /* "": there is none yet */
	uint32_t connections, resets; /* of those, as far as it was told */
	char heard[512];              /* the first letters of what came, in order */
};

void fake_open(struct fake_redis *fake, struct loop *loop);
void fake_close(struct fake_redis *fake);
/* From now on, to this command; NULL: as a server would; "": nothing. */
void fake_says(struct fake_redis *fake, const char *command, const char *bytes);
void fake_says_bytes(
	struct fake_redis *fake, const char *command, const char *bytes, size_t size);

#endif
