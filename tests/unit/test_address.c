/*
 * Tests of io/address.h: what is taken, what is refused, and that the text says why.
 */
#include "io/address.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

static char message[256];

static void takes(
	const char *text, uint16_t default_port, const char *host, uint16_t port)
{
	struct address address;

	assert_int_equal(
		address_parse(text, default_port, &address, message, sizeof(message)), 0);
	assert_string_equal(address.host, host);
	assert_int_equal(address.port, port);
}

/* Refused, untouched, with a text that has `word` and what was written. */
static void refuses(const char *text, uint16_t default_port, const char *word)
{
	struct address address = {.host = "as before", .port = 1};

	message[0] = '\0';
	assert_int_equal(
		address_parse(text, default_port, &address, message, sizeof(message)),
		ERR_BAD_ARGUMENT);
	assert_string_equal(address.host, "as before");
	if (strstr(message, word) == NULL || strstr(message, text) == NULL)
		fail_msg("%s: \"%s\" says nothing of \"%s\"", text, message, word);
}

static void test_names_and_addresses_are_taken(void **state)
{
	(void)state;
	takes("host:7450", 0, "host", 7450);
	takes("node-3.rack_2.example:1", 0, "node-3.rack_2.example", 1);
	takes("10.0.0.1:65535", 0, "10.0.0.1", 65535);
	takes("[::1]:7450", 0, "::1", 7450);
	takes("[fe80::1%eth0]:7450", 0, "fe80::1%eth0", 7450);
	takes("[::ffff:10.0.0.1]:80", 0, "::ffff:10.0.0.1", 80);
	takes("host:0080", 0, "host", 80);
}

static void test_default_port_is_for_who_names_none(void **state)
{
	(void)state;
	takes("host", 7450, "host", 7450);
	takes("[::1]", 7450, "::1", 7450);
	takes("host:1", 7450, "host", 1);
	refuses("host", 0, "port is missing");
	refuses("[::1]", 0, "port is missing");
}

static void test_ipv6_without_brackets_is_refused_with_a_hint(void **state)
{
	(void)state;
	refuses("::1", 7450, "in brackets");
	refuses("fe80::1%eth0:7450", 0, "in brackets");
	refuses("2001:db8::1", 0, "in brackets");
	refuses("host:1:2", 0, "in brackets");
}

static void test_ports_out_of_range_are_refused_with_the_limit(void **state)
{
	(void)state;
	refuses("host:0", 0, "1 to 65535");
	refuses("host:65536", 0, "1 to 65535");
	refuses("host:4294967297", 0, "1 to 65535");
	refuses("host:99999999999999999999999", 0, "1 to 65535");
	refuses("host:-1", 0, "1 to 65535");
	refuses("host:", 7450, "1 to 65535");
	refuses("host:80 ", 0, "1 to 65535");
	refuses("host:http", 0, "1 to 65535");
	refuses("[::1]:", 7450, "1 to 65535");
	refuses("[::1]:0", 0, "1 to 65535");
}

static void test_any_free_port_is_for_who_listens(void **state)
{
	struct address address;

	(void)state;
	assert_int_equal(
		address_parse_listen("[::1]:0", &address, message, sizeof(message)), 0);
	assert_string_equal(address.host, "::1");
	assert_int_equal(address.port, 0);
	refuses("[::1]:0", 7450, "1 to 65535");
	assert_int_equal(address_parse_listen("host", &address, message, sizeof(message)),
		ERR_BAD_ARGUMENT);
	assert_non_null(strstr(message, "port is missing"));
	assert_int_equal(
		address_parse_listen("host:65536", &address, message, sizeof(message)),
		ERR_BAD_ARGUMENT);
	assert_non_null(strstr(message, "0 to 65535"));
}

static void test_hosts_that_are_none_are_refused(void **state)
{
	(void)state;
	refuses("", 7450, "host is missing");
	refuses(":7450", 0, "host is missing");
	refuses("[]:7450", 0, "host is missing");
	refuses("redis://host", 0, "port must be");
	refuses("a/b:80", 0, "no name of a host");
	refuses("a b:80", 0, "no name of a host");
	refuses("user@host:80", 0, "no name of a host");
	refuses("h\x01:80", 0, "no name of a host");
}

static void test_brackets_are_for_ipv6_and_closed(void **state)
{
	(void)state;
	refuses("[::1", 7450, "not closed");
	refuses("[host]:80", 0, "only an IPv6 address");
	refuses("[10.0.0.1]:80", 0, "only an IPv6 address");
	refuses("[::1]80", 0, "a colon and the port");
	refuses("::1]:80", 0, "in brackets");
}

static void test_long_hosts_are_refused_with_the_limit(void **state)
{
	char text[ADDRESS_HOST_MAX + 8], host[ADDRESS_HOST_MAX + 1];
	struct address address;

	(void)state;
	memset(host, 'h', sizeof(host));
	(void)snprintf(text, sizeof(text), "%.*s:80", (int)ADDRESS_HOST_MAX - 1, host);
	host[ADDRESS_HOST_MAX - 1] = '\0';
	takes(text, 0, host, 80);
	host[ADDRESS_HOST_MAX - 1] = 'h';
	(void)snprintf(text, sizeof(text), "%.*s:80", (int)ADDRESS_HOST_MAX, host);
	assert_int_equal(address_parse(text, 0, &address, message, sizeof(message)),
		ERR_BAD_ARGUMENT);
	assert_non_null(strstr(message, "112 bytes, at most 111"));
	assert_int_equal(address_parse(text, 0, &address, message, 20), ERR_BAD_ARGUMENT);
	assert_int_equal(strlen(message), 19);
}

static void test_text_reads_as_it_was_written(void **state)
{
	static const char *const texts[] = {
		"host:7450", "10.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:7450"};
	char text[ADDRESS_TEXT_MAX];
	struct address address;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(
			address_parse(texts[i], 0, &address, message, sizeof(message)),
			0);
		assert_string_equal(address_text(&address, text), texts[i]);
	}
	memset(address.host, 'h', sizeof(address.host) - 1);
	address.host[1] = ':';
	address.host[sizeof(address.host) - 1] = '\0';
	assert_true(strlen(address_text(&address, text)) < ADDRESS_TEXT_MAX);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_names_and_addresses_are_taken),
	cmocka_unit_test(test_default_port_is_for_who_names_none),
	cmocka_unit_test(test_ipv6_without_brackets_is_refused_with_a_hint),
	cmocka_unit_test(test_ports_out_of_range_are_refused_with_the_limit),
	cmocka_unit_test(test_any_free_port_is_for_who_listens),
	cmocka_unit_test(test_hosts_that_are_none_are_refused),
	cmocka_unit_test(test_brackets_are_for_ipv6_and_closed),
	cmocka_unit_test(test_long_hosts_are_refused_with_the_limit),
	cmocka_unit_test(test_text_reads_as_it_was_written),
};

UNIT_MAIN(tests)
