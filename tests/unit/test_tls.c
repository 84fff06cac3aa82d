/*
 * Tests of io/tls.h through streams: who is taken for whom, who is refused, and what is not
 * even a key.
 */
#include "cert_fixture.h"
#include "stream_fixture.h"

static struct cert_dir dir;
static struct loop loop;
static struct end a, b; /* the one who connects, the one who is connected to */
static struct tls *tls_a, *tls_b;
static char message[512];

static int setup(void **state)
{
	(void)state;
	(void)alarm(STUCK_AFTER);
	cert_open(&dir);
	end_init(&a, 16 * MIB);
	end_init(&b, 16 * MIB);
	tls_a = tls_b = NULL;
	return loop_open(&loop);
}

static int teardown(void **state)
{
	(void)state;
	end_fini(&a);
	end_fini(&b);
	tls_free(tls_a);
	tls_free(tls_b);
	loop_close(&loop);
	cert_close(&dir);
	return 0;
}

/* Names of files in the directory; NULL: not given. */
static int make(struct tls **ret, const char *key, const char *cert, const char *ca,
	const char *host)
{
	static char paths[4][CERT_PATH_MAX];
	char cert_key[64];

	(void)snprintf(cert_key, sizeof(cert_key), "%.*s.key",
		cert ? (int)strcspn(cert, ".") : 0, cert ? cert : "");
	return tls_new(ret,
		&(struct tls_config){
			.key_file = key ? cert_path(&dir, key, paths[0]) : NULL,
			.cert_file = cert ? cert_path(&dir, cert, paths[1]) : NULL,
			.cert_key_file = cert ? cert_path(&dir, cert_key, paths[2])
					      : NULL,
			.ca_file = ca ? cert_path(&dir, ca, paths[3]) : NULL,
			.host = host,
		},
		message, sizeof(message));
}

static void use_keys(const char *key_a, const char *key_b)
{
	assert_int_equal(make(&tls_a, key_a, NULL, NULL, NULL), 0);
	assert_int_equal(make(&tls_b, key_b, NULL, NULL, NULL), 0);
}

static void use_certs(
	const char *cert_a, const char *ca_a, const char *cert_b, const char *ca_b)
{
	assert_int_equal(make(&tls_a, NULL, cert_a, ca_a, NULL), 0);
	assert_int_equal(make(&tls_b, NULL, cert_b, ca_b, NULL), 0);
}

static void connect_pair(void)
{
	pair_open(&loop, &a, &b, tls_a, tls_b);
}

static void both_stand(void)
{
	size_t size = 3 * MIB + 1;
	unsigned char *bytes = pattern_new(size, 1);

	connect_pair();
	turn_until(&loop, a.ups == 1 && b.ups == 1);
	assert_int_equal(stream_send(&a.stream, bytes, size), 0);
	assert_int_equal(stream_send(&b.stream, bytes, size), 0);
	turn_until(&loop, a.got_size == size && b.got_size == size);
	assert_memory_equal(a.got, bytes, size);
	assert_memory_equal(b.got, bytes, size);
	assert_int_equal(a.downs + b.downs, 0);
	free(bytes);
}

/* The one who is connected to refuses; with certificates the other has no way to know of it
 * before its first answer. */
static void server_refuses(const char *word)
{
	connect_pair();
	turn_until(&loop, end_is_down(&b) && end_is_down(&a));
	assert_int_equal(b.ups, 0);
	assert_int_equal(b.err, ERR_NOT_PERMITTED);
	assert_int_equal(a.err, ERR_NOT_PERMITTED);
	if (strstr(b.why, word) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", b.why, word);
}

/* The one who connects refuses. */
static void client_refuses(const char *word)
{
	connect_pair();
	turn_until(&loop, end_is_down(&b) && end_is_down(&a));
	assert_int_equal(a.ups + b.ups, 0);
	assert_int_equal(a.err, ERR_NOT_PERMITTED);
	if (strstr(a.why, word) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", a.why, word);
}

/* ---- one key ------------------------------------------------------------- */

static void test_the_same_key_stands(void **state)
{
	(void)state;
	use_keys("a.psk", "a.psk");
	both_stand();
}

static void test_another_key_is_refused_by_both(void **state)
{
	(void)state;
	use_keys("a.psk", "b.psk");
	server_refuses("same key");
	assert_int_equal(a.ups, 0);
	assert_non_null(strstr(a.why, "same key"));
}

static void test_no_key_against_a_key_is_refused(void **state)
{
	(void)state;
	assert_int_equal(make(&tls_a, NULL, NULL, "ca.pem", NULL), 0);
	assert_int_equal(make(&tls_b, "a.psk", NULL, NULL, NULL), 0);
	server_refuses("TLS");
	assert_int_equal(a.ups, 0);
}

static void test_a_certificate_is_no_key(void **state)
{
	(void)state;
	assert_int_equal(make(&tls_a, "a.psk", NULL, NULL, NULL), 0);
	assert_int_equal(make(&tls_b, NULL, "node.pem", "ca.pem", NULL), 0);
	connect_pair();
	turn_until(&loop, end_is_down(&b) && end_is_down(&a));
	assert_int_equal(a.ups + b.ups, 0);
}

/* ---- certificates -------------------------------------------------------- */

static void test_certificates_of_one_authority_stand(void **state)
{
	(void)state;
	use_certs("node.pem", "ca.pem", "node.pem", "ca.pem");
	both_stand();
}

static void test_no_certificate_is_refused(void **state)
{
	(void)state;
	use_certs(NULL, "ca.pem", "node.pem", "ca.pem");
	server_refuses("certificate");
}

static void test_strange_authority_of_who_connects(void **state)
{
	(void)state;
	use_certs("other.pem", "ca.pem", "node.pem", "ca.pem");
	server_refuses("certificate");
}

static void test_strange_authority_of_who_is_connected_to(void **state)
{
	(void)state;
	use_certs("node.pem", "ca.pem", "other.pem", "ca.pem");
	client_refuses("certificate");
}

static void test_certificate_whose_time_is_over(void **state)
{
	(void)state;
	use_certs("node.pem", "ca.pem", "old.pem", "ca.pem");
	client_refuses("expired");
}

static void test_certificate_of_who_connects_whose_time_is_over(void **state)
{
	(void)state;
	use_certs("old.pem", "ca.pem", "node.pem", "ca.pem");
	server_refuses("expired");
}

/* ---- the server's alone -------------------------------------------------- */

/* Made with OpenSSL by hand: a server that asks for no certificate, as Redis may. */
static void server_alone(const char *host, bool stands)
{
	struct tls *asking;

	assert_int_equal(make(&tls_a, NULL, NULL, "ca.pem", host), 0);
	assert_int_equal(make(&asking, NULL, "node.pem", "ca.pem", NULL), 0);
	tls_b = asking;
	connect_pair();
	turn_until(&loop, end_is_down(&b));
	assert_int_equal(a.ups, stands);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_NOT_PERMITTED);
	if (!stands)
		assert_non_null(strstr(a.why, "mismatch"));
}

static void test_the_server_is_who_was_meant(void **state)
{
	(void)state;
	server_alone("node.test", true); /* and then it asks for ours */
}

static void test_the_server_has_the_address_that_was_meant(void **state)
{
	(void)state;
	server_alone("127.0.0.1", true);
}

static void test_the_server_is_another(void **state)
{
	(void)state;
	server_alone("other.test", false);
}

static void test_the_server_has_another_address(void **state)
{
	(void)state;
	server_alone("127.0.0.2", false);
}

static void test_without_own_certificate_nobody_can_be_taken(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(make(&tls_a, NULL, NULL, "ca.pem", NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(stream_take(&a.stream, &loop, fds[0], tls_a, &end_events, &a),
		ERR_BAD_ARGUMENT);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* ---- strangers ----------------------------------------------------------- */

static void test_plain_text_is_refused(void **state)
{
	uint16_t port;
	int listener = listen_at(AF_INET, 8, &port), fd;
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)state;
	assert_int_equal(make(&tls_b, "a.psk", NULL, NULL, NULL), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (void *)&at, sizeof(at)), 0);
	assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	assert_int_equal(stream_take(&b.stream, &loop, accept_at(listener), tls_b,
				 &end_events, &b),
		0);
	turn_until(&loop, end_is_down(&b));
	assert_int_equal(b.ups, 0);
	assert_int_equal(b.err, ERR_NOT_PERMITTED);
	(void)close(fd);
	(void)close(listener);
}

static void test_who_answers_in_the_clear_is_refused(void **state)
{
	(void)state;
	assert_int_equal(make(&tls_a, "a.psk", NULL, NULL, NULL), 0);
	connect_pair();
	turn_until(&loop, b.ups == 1);
	assert_int_equal(stream_send(&b.stream, "-ERR unknown command\r\n", 22), 0);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.ups, 0);
	assert_int_equal(a.err, ERR_NOT_PERMITTED);
}

static void test_who_says_nothing_is_given_up(void **state)
{
	uint64_t due;

	(void)state;
	assert_int_equal(make(&tls_b, "a.psk", NULL, NULL, NULL), 0);
	connect_pair(); /* the one who connects thinks that it is in the clear */
	turn_until(&loop, a.ups == 1);
	turn_idle(&loop);
	due = stream_next(&b.stream);
	stream_due(&b.stream, due - 1);
	assert_int_equal(b.downs, 0);
	stream_due(&b.stream, due);
	assert_int_equal(b.err, ERR_TIMEOUT);
}

static void test_sending_to_who_is_gone_is_no_signal(void **state)
{
	unsigned char *bytes = pattern_new(MIB, 4);

	(void)state;
	use_keys("a.psk", "a.psk");
	connect_pair();
	turn_until(&loop, a.ups == 1 && b.ups == 1);
	assert_int_equal(stream_send(&a.stream, bytes, 100), 0);
	stream_close(&b.stream);
	for (int i = 0; i < 8; i++)
		assert_int_equal(stream_send(&a.stream, bytes, MIB), 0);
	assert_int_equal(a.downs, 0);
	turn_until(&loop, end_is_down(&a));
	assert_int_equal(a.err, ERR_UNAVAILABLE);
	free(bytes);
}

/* ---- what is no key ------------------------------------------------------ */

/* A key of `size` bytes is refused, with a text that names the file and `word`. */
static void key_refused(size_t size, const char *word)
{
	unsigned char *bytes = pattern_new(size + 8, 1);

	cert_write(&dir, "x", bytes, size);
	assert_int_equal(make(&tls_a, "x", NULL, NULL, NULL), ERR_BAD_ARGUMENT);
	if (strstr(message, "/x: ") == NULL || strstr(message, word) == NULL ||
		strstr(message, "32 to 4096 bytes") == NULL)
		fail_msg("\"%s\"", message);
	free(bytes);
}

static void test_keys_of_a_wrong_size_are_refused(void **state)
{
	(void)state;
	key_refused(0, "has 0");
	key_refused(31, "has 31");
	key_refused(4097, "at least 4097");
}

static void test_all_bytes_of_a_key_count(void **state)
{
	unsigned char bytes[TLS_KEY_MAX] = {0};

	(void)state;
	cert_write(&dir, "x", bytes, sizeof(bytes));
	assert_int_equal(make(&tls_a, "x", NULL, NULL, NULL), 0);
	bytes[sizeof(bytes) - 1] = 1;
	cert_write(&dir, "x", bytes, sizeof(bytes));
	assert_int_equal(make(&tls_b, "x", NULL, NULL, NULL), 0);
	server_refuses("same key");
}

static void refused(int expected, const char *word, int err)
{
	assert_int_equal(err, expected);
	if (strstr(message, word) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", message, word);
}

static void test_files_that_are_not_what_they_must_be(void **state)
{
	char path[CERT_PATH_MAX], other[CERT_PATH_MAX];
	struct tls_config config = {.cert_file = cert_path(&dir, "node.pem", path)};

	(void)state;
	refused(ERR_IO, "none.psk: No such file",
		make(&tls_a, "none.psk", NULL, NULL, NULL));
	refused(ERR_IO, "none.pem", make(&tls_a, NULL, "none.pem", "ca.pem", NULL));
	refused(ERR_IO, "none.pem", make(&tls_a, NULL, "node.pem", "none.pem", NULL));
	refused(ERR_BAD_ARGUMENT, "ca.key",
		make(&tls_a, NULL, "node.pem", "ca.key", NULL));
	refused(ERR_BAD_ARGUMENT, "a.psk", make(&tls_a, NULL, "a.psk", "ca.pem", NULL));
	refused(ERR_BAD_ARGUMENT, "must be named",
		make(&tls_a, NULL, "node.pem", NULL, NULL));
	refused(ERR_BAD_ARGUMENT, "not both",
		make(&tls_a, "a.psk", NULL, "ca.pem", NULL));
	refused(ERR_BAD_ARGUMENT, "one is missing",
		tls_new(&tls_a, &config, message, sizeof(message)));
	config.cert_key_file = cert_path(&dir, "other.key", other);
	config.ca_file = path;
	refused(ERR_BAD_ARGUMENT, "other.key",
		tls_new(&tls_a, &config, message, sizeof(message)));
	assert_null(tls_a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_the_same_key_stands),
	TEST(test_another_key_is_refused_by_both),
	TEST(test_no_key_against_a_key_is_refused),
	TEST(test_a_certificate_is_no_key),
	TEST(test_certificates_of_one_authority_stand),
	TEST(test_no_certificate_is_refused),
	TEST(test_strange_authority_of_who_connects),
	TEST(test_strange_authority_of_who_is_connected_to),
	TEST(test_certificate_whose_time_is_over),
	TEST(test_certificate_of_who_connects_whose_time_is_over),
	TEST(test_the_server_is_who_was_meant),
	TEST(test_the_server_has_the_address_that_was_meant),
	TEST(test_the_server_is_another),
	TEST(test_the_server_has_another_address),
	TEST(test_without_own_certificate_nobody_can_be_taken),
	TEST(test_plain_text_is_refused),
	TEST(test_who_answers_in_the_clear_is_refused),
	TEST(test_who_says_nothing_is_given_up),
	TEST(test_sending_to_who_is_gone_is_no_signal),
	TEST(test_keys_of_a_wrong_size_are_refused),
	TEST(test_all_bytes_of_a_key_count),
	TEST(test_files_that_are_not_what_they_must_be),
};

UNIT_MAIN(tests)
