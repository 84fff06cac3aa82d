/*
 * address.c - host and port parted, by the brackets of an IPv6 address or the one colon.
 */
#include "io/address.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PORT_MAX 65535u
/* Of a text that a message repeats. */
#define QUOTE_MAX "%.100s"

/* A message being made. */
struct refusal {
	char *message;
	size_t size;
};

static int PRINTF_LIKE(2, 3) refuse(const struct refusal *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(to->message, to->size, format, args);
	va_end(args);
	return ERR_BAD_ARGUMENT;
}

/* `digits` is all that stands behind the colon. */
static int port_parse(const struct refusal *to, const char *text, const char *digits,
	uint32_t least, uint16_t *ret)
{
	size_t count = strspn(digits, "0123456789");
	uint32_t port = 0;

	for (size_t i = 0; i < count && port <= PORT_MAX; i++)
		port = port * 10 + (uint32_t)(digits[i] - '0');
	if (count == 0 || digits[count] != '\0' || port < least || port > PORT_MAX)
		return refuse(to,
			QUOTE_MAX
			": the port must be a number from %u to %u, as in host:7450",
			text, least, PORT_MAX);
	*ret = (uint16_t)port;
	return 0;
}

/* What no name of a host has; mostly somebody wrote a URL. */
static bool host_has_strangers(const char *host, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)host[i];

		if (!isgraph(byte) || strchr("/@[]?#", byte) != NULL)
			return true;
	}
	return false;
}

static bool is_ipv6(const char *host)
{
	char plain[INET6_ADDRSTRLEN];
	size_t size = strcspn(host, "%");
	struct in6_addr address;

	if (size >= sizeof(plain))
		return false;
	memcpy(plain, host, size);
	plain[size] = '\0';
	return inet_pton(AF_INET6, plain, &address) == 1;
}

static int host_take(const struct refusal *to, const char *text, const char *host,
	size_t size, struct address *ret)
{
	if (size == 0)
		return refuse(to,
			QUOTE_MAX ": the host is missing; it is written host:port, or "
				  "[IPv6 address]:port",
			text);
	if (size >= ADDRESS_HOST_MAX)
		return refuse(to,
			QUOTE_MAX "...: the host has %zu bytes, at most %u can be", text,
			size, ADDRESS_HOST_MAX - 1);
	if (host_has_strangers(host, size))
		return refuse(to,
			QUOTE_MAX ": this is no name of a host; it is written host:port, "
				  "or [IPv6 address]:port",
			text);
	memcpy(ret->host, host, size);
	ret->host[size] = '\0';
	return 0;
}

/* "[v6]" and what follows. */
static int parse_bracketed(const struct refusal *to, const char *text,
	struct address *ret, const char **ret_rest)
{
	const char *end = strchr(text, ']');
	int err;

	if (end == NULL)
		return refuse(to,
			QUOTE_MAX ": the bracket is not closed; it is written "
				  "[IPv6 address]:port",
			text);
	err = host_take(to, text, text + 1, (size_t)(end - text - 1), ret);
	if (err == 0 && !is_ipv6(ret->host))
		err = refuse(to,
			QUOTE_MAX ": only an IPv6 address stands in brackets, as in "
				  "[fe80::1%%eth0]:7450",
			text);
	if (err == 0 && end[1] != '\0' && end[1] != ':')
		err = refuse(to,
			QUOTE_MAX ": after the bracket comes a colon and the port, as in "
				  "[::1]:7450",
			text);
	*ret_rest = end + 1;
	return err;
}

static int parse_plain(const struct refusal *to, const char *text, struct address *ret,
	const char **ret_rest)
{
	size_t size = strcspn(text, ":");

	*ret_rest = text + size;
	if (text[size] == ':' && strchr(text + size + 1, ':') != NULL)
		return refuse(to,
			QUOTE_MAX ": an IPv6 address stands in brackets, as in "
				  "[fe80::1%%eth0]:7450",
			text);
	return host_take(to, text, text, size, ret);
}

static int parse(const struct refusal *to, const char *text, uint16_t default_port,
	uint32_t least, struct address *ret)
{
	struct address address = {.port = default_port};
	const char *rest = text;
	int err;

	err = text[0] == '[' ? parse_bracketed(to, text, &address, &rest)
			     : parse_plain(to, text, &address, &rest);
	if (err != 0)
		return err;
	if (*rest == ':')
		err = port_parse(to, text, rest + 1, least, &address.port);
	else if (default_port == 0)
		err = refuse(to,
			QUOTE_MAX ": the port is missing, a number from 1 to %u, as in "
				  "host:7450",
			text, PORT_MAX);
	if (err == 0)
		*ret = address;
	return err;
}

int address_parse(const char *text, uint16_t default_port, struct address *ret,
	char *message, size_t message_size)
{
	const struct refusal to = {message, message_size};

	return parse(&to, text, default_port, 1, ret);
}

int address_parse_listen(
	const char *text, struct address *ret, char *message, size_t message_size)
{
	const struct refusal to = {message, message_size};

	return parse(&to, text, 0, 0, ret);
}

const char *address_text(const struct address *address, char *text)
{
	bool is_v6 = strchr(address->host, ':') != NULL;

	(void)snprintf(text, ADDRESS_TEXT_MAX, is_v6 ? "[%s]:%u" : "%s:%u", address->host,
		(unsigned)address->port);
	return text;
}
