/*
 * redis_url.h - where the directory is, as people write it.
 *
 *	redis://[[user:]password@]host[:port][,host[:port]...][/]
 *	rediss://...                                                under TLS
 *
 * An IPv6 address stands in brackets. In user and password, %40 is '@' and so on.
 *
 * Errors    ERR_BAD_ARGUMENT, with a text that says what is wrong, without what stands before
 *           the last '@'.
 * Thread    any.
 */
#ifndef DIR_REDIS_URL_H
#define DIR_REDIS_URL_H

#include "base/attr.h"
#include "io/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_PORT         6379u
#define REDIS_SEEDS        16u
#define REDIS_USER_MAX     128u
#define REDIS_PASSWORD_MAX 512u

struct redis_url {
	struct address seeds[REDIS_SEEDS];
	uint32_t seed_count;
	bool tls;
	char user[REDIS_USER_MAX]; /* "": none */
	char password[REDIS_PASSWORD_MAX];
};

int redis_url_parse(const char *text, struct redis_url *ret, char *message,
	size_t message_size) MUST_CHECK;

#endif
