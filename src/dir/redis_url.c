/*
 * redis_url.c - the parts of a URL, each copied before it is looked at.
 */
#include "dir/redis_url.h"

#include "base/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FORM "redis://[user:password@]host:port[,host:port...]"

/* Where what is wrong is said. */
struct complaint {
	char *message;
	size_t size;
};

static int PRINTF_LIKE(2, 3) refuse(const struct complaint *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(to->message, to->size, format, args);
	va_end(args);
	return ERR_BAD_ARGUMENT;
}

/* The rest behind the prefix, or NULL. */
static const char *behind(const char *text, const char *prefix)
{
	size_t size = strlen(prefix);

	return strncmp(text, prefix, size) == 0 ? text + size : NULL;
}

/* ---- user and password --------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo the %XX; false: that is none, a NUL, or it does not fit. */
static bool decode(const char *text, size_t size, char *ret, size_t ret_size)
{
	size_t at = 0;

	for (size_t i = 0; i < size; i++) {
		int value = (unsigned char)text[i];

		if (text[i] == '%') {
			int high = i + 2 < size ? hex_digit(text[i + 1]) : -1;
			int low = i + 2 < size ? hex_digit(text[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			value = high * 16 + low;
			i += 2;
		}
		if (value == 0 || at + 1 >= ret_size)
			return false;
		ret[at++] = (char)value;
	}
	ret[at] = '\0';
	return true;
}

/* "user:password", ":password", "password" or "user:". */
static int parse_user(
	const char *text, size_t size, struct redis_url *url, const struct complaint *to)
{
	const char *colon = memchr(text, ':', size);
	size_t user = colon != NULL ? (size_t)(colon - text) : 0;
	const char *password = colon != NULL ? colon + 1 : text;

	if (!decode(text, user, url->user, sizeof(url->user)))
		return refuse(to, "the user before '@' is not written as it must be");
	if (!decode(password, size - (size_t)(password - text), url->password,
		    sizeof(url->password)))
		return refuse(to, "the password before '@' is not written as it must be "
				  "(a '%%' is %%25)");
	return 0;
}

/* ---- hosts --------------------------------------------------------------- */

static int parse_host(
	const char *text, size_t size, struct redis_url *url, const struct complaint *to)
{
	char host[ADDRESS_TEXT_MAX], why[256];

	if (url->seed_count == REDIS_SEEDS)
		return refuse(to, "more than %u addresses", REDIS_SEEDS);
	if (size == 0 || size >= sizeof(host))
		return refuse(to, "an address is %s: " FORM,
			size == 0 ? "missing" : "too long");
	memcpy(host, text, size);
	host[size] = '\0';
	if (address_parse(host, REDIS_PORT, &url->seeds[url->seed_count], why,
		    sizeof(why)) != 0)
		return refuse(to, "%s", why);
	url->seed_count++;
	return 0;
}

static int parse_hosts(
	const char *text, struct redis_url *url, const struct complaint *to)
{
	size_t end = strcspn(text, "/?#");
	int err = 0;

	if (text[end] != '\0' && strcmp(text + end, "/") != 0)
		return refuse(to,
			"nothing can follow the addresses, there is '%.64s': " FORM,
			text + end);
	while (err == 0) {
		size_t size = strcspn(text, ",/");

		err = parse_host(text, size, url, to);
		if (text[size] != ',')
			break;
		text += size + 1;
	}
	return err;
}

int redis_url_parse(
	const char *text, struct redis_url *ret, char *message, size_t message_size)
{
	const struct complaint to = {message, message_size};
	struct redis_url url = {.seed_count = 0};
	const char *rest = behind(text, "redis://"), *at;
	int err = 0;

	if (rest == NULL) {
		rest = behind(text, "rediss://");
		url.tls = true;
	}
	if (rest == NULL)
		return refuse(&to, "it begins with redis:// or rediss://, as in " FORM);
	at = strrchr(rest, '@');
	if (at != NULL) {
		err = parse_user(rest, (size_t)(at - rest), &url, &to);
		rest = at + 1;
	}
	if (err == 0)
		err = parse_hosts(rest, &url, &to);
	if (err == 0)
		*ret = url;
	return err;
}
