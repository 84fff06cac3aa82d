/*
 * address.h - "host:port" as people write it, and what it means.
 *
 * An IPv6 address stands in brackets, with a zone if it has one: [fe80::1%eth0]:7450.
 *
 * Errors    ERR_BAD_ARGUMENT, with a text that says what is wrong and how it is written.
 * Thread    any.
 */
#ifndef IO_ADDRESS_H
#define IO_ADDRESS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_HOST_MAX 112u
#define ADDRESS_TEXT_MAX 128u

struct address {
	char host[ADDRESS_HOST_MAX]; /* a name, or an address without brackets */
	uint16_t port;
};

/* `default_port` 0: there must be one. */
int address_parse(const char *text, uint16_t default_port, struct address *ret,
	char *message, size_t message_size) MUST_CHECK;
/* The same of one to be listened at: there must be a port, and 0 is any that is free. */
int address_parse_listen(const char *text, struct address *ret, char *message,
	size_t message_size) MUST_CHECK;
/* As it is written, in ADDRESS_TEXT_MAX bytes. */
const char *address_text(const struct address *address, char *text);

#endif
