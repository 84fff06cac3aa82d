/*
 * Tests of net/peers.h: control connections in the clear, what goes over them, and what
 * strangers and broken nodes do to them.
 */
#include "net_fixture.h"

#include "base/rng.h"
#include "net/hush.h"

static struct rig rig;
static struct side *const a = &rig.a, *const b = &rig.b;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, PEERS_SECURE_NONE, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

/* a is connected to b at place 3, and b to a at place 9. */
static void connect_both(void)
{
	side_connect(a, 3, b);
	side_connect(b, 9, a);
	rig_until(&rig, a->ups[3] == 1 && b->ups[9] == 1);
	rig_until(&rig, a->link_count == 1 && b->link_count == 1);
}

/* ---- asking and answering ------------------------------------------------ */

static void test_both_connect_and_are_told_from_where(void **state)
{
	(void)state;
	connect_both();
	assert_int_equal(a->downs[3] + b->downs[9] + a->closes + b->closes, 0);
	assert_memory_equal(b->link_from, "127.0.0.1:", 10);
	assert_true(a->links[0].value != 0 && b->links[0].value != 0);
	assert_int_equal(peers_next(a->peers), UINT64_MAX);
}

static void test_many_channels_are_answered_both_ways(void **state)
{
	uint64_t sum = 0;

	(void)state;
	connect_both();
	a->echoes = b->echoes = true;
	for (uint32_t i = 0; i < 500; i++) {
		side_ask(a, 3, i * 1000003u, MSG_HEADER_SIZE + i % 300);
		side_ask(b, 9, i * 1000003u, MSG_HEADER_SIZE + i % 300);
		sum += (uint32_t)(i * 1000003u);
	}
	rig_until(&rig, a->answers == 500 && b->answers == 500);
	assert_true(a->answer_sum == sum && b->answer_sum == sum);
	assert_int_equal(a->last_channel, (uint32_t)(499 * 1000003u));
}

static void test_messages_of_every_size_come_whole(void **state)
{
	static unsigned char message[MSG_SIZE_MAX];
	static const size_t sizes[] = {MSG_HEADER_SIZE, MSG_HEADER_SIZE + 1, 65535, 65536,
		65537, MSG_SIZE_MAX - 1, MSG_SIZE_MAX};

	(void)state;
	connect_both();
	b->echoes = true;
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		side_ask(a, 3, i, sizes[i]);
		rig_until(&rig, a->answers == i + 1);
		(void)message_make(message, sizes[i], i);
		assert_int_equal(a->last_size, sizes[i]);
		assert_memory_equal(a->last, message, sizes[i]);
	}
}

/* ---- ends ---------------------------------------------------------------- */

static void test_closing_is_told_once_and_can_be_undone(void **state)
{
	(void)state;
	connect_both();
	side_hang_up(a, 3);
	side_hang_up(a, 3);
	assert_int_equal(a->downs[3], 0);
	assert_int_equal(peers_next(a->peers), 0);
	rig_until(&rig, b->closes == 1);
	assert_int_equal(a->downs[3], 1);
	assert_int_equal(a->down_err, ERR_UNAVAILABLE);
	assert_true(b->closed.value == b->links[0].value);
	side_ask(a, 3, 1, 100); /* to nobody */
	side_connect(a, 3, b);
	rig_until(&rig, a->ups[3] == 2 && b->link_count == 2);
	assert_true(b->links[1].value != b->links[0].value);
	b->echoes = true;
	side_ask(a, 3, 2, 100);
	rig_until(&rig, a->answers == 1);
	assert_int_equal(a->downs[3], 1);
	assert_int_equal(b->ups[9], 1); /* the other way stands all the while */
	assert_int_equal(b->downs[9], 0);
}

static void test_the_asked_one_closes(void **state)
{
	(void)state;
	connect_both();
	b->inside = true;
	b->env.close_link(b->env.ctx, b->links[0]);
	b->env.close_link(b->env.ctx, b->links[0]);
	b->env.answer(b->env.ctx, b->links[0], 1, "", 0); /* to nobody */
	b->inside = false;
	rig_until(&rig, a->downs[3] == 1 && b->closes == 1);
	assert_int_equal(a->down_err, ERR_UNAVAILABLE);
	rig_idle(&rig);
	assert_int_equal(a->downs[3], 1);
	assert_int_equal(b->closes, 1);
}

static void test_a_node_that_comes_back(void **state)
{
	struct peers_config config = side_config(b, PEERS_SECURE_NONE, NULL);

	(void)state;
	side_connect(a, 3, b);
	rig_until(&rig, a->ups[3] == 1);
	config.listen.port = peers_port(b->peers);
	peers_close(b->peers);
	b->peers = NULL;
	rig_until(&rig, a->downs[3] == 1);
	side_connect_port(a, 3, config.listen.port);
	rig_until(&rig, a->downs[3] == 2);
	assert_non_null(strstr(a->down_why, strerror(ECONNREFUSED)));
	assert_int_equal(side_start(b, &config), 0);
	side_connect(a, 3, b);
	rig_until(&rig, a->ups[3] == 2);
	assert_int_equal(a->warns, 0); /* that nobody is there is no news */
}

static void test_an_endpoint_that_is_none(void **state)
{
	(void)state;
	a->inside = true;
	a->env.connect(a->env.ctx, 0, "::1:7450");
	a->inside = false;
	rig_until(&rig, a->downs[0] == 1);
	assert_int_equal(a->down_err, ERR_BAD_ARGUMENT);
	assert_non_null(strstr(a->down_why, "brackets"));
}

static void test_who_does_not_read_is_given_up(void **state)
{
	uint16_t port;
	int listener = stranger_listen(&port), fd;
	unsigned sent = 0;

	(void)state;
	side_connect_port(a, 3, port);
	fd = stranger_accept(&rig, listener, NET_CONTROL);
	rig_until(&rig, a->ups[3] == 1);
	for (; sent < 2000 && peers_next(a->peers) == UINT64_MAX; sent++)
		side_ask(a, 3, sent, MSG_SIZE_MAX);
	assert_true(sent < 2000);
	assert_int_equal(a->downs[3], 0);
	rig_until(&rig, a->downs[3] == 1);
	assert_int_equal(a->down_err, ERR_UNAVAILABLE);
	(void)close(fd);
	(void)close(listener);
}

/* ---- strangers ----------------------------------------------------------- */

/* A link that says `size` bytes after its greeting loses its connection. */
static void refused_after(const void *bytes, size_t size)
{
	int fd = stranger_connect(peers_port(b->peers));
	unsigned before = b->closes;
	unsigned char welcome[GREETING_SIZE];

	stranger_greet(fd, NET_VERSION, NET_CONTROL, 0);
	assert_true(stranger_hear(&rig, fd, welcome, sizeof(welcome)));
	stranger_say(fd, bytes, size);
	assert_true(stranger_is_closed(&rig, fd));
	rig_until(&rig, b->closes == before + 1);
	(void)close(fd);
}

static void header_refused(uint32_t length, uint32_t type, uint32_t body)
{
	uint32_t words[4] = {length, 1, type, body};

	refused_after(words, sizeof(words));
}

static void test_frames_that_are_none_end_their_connection_alone(void **state)
{
	unsigned char noise[4096];
	struct rng rng;
	unsigned asked;

	(void)state;
	connect_both();
	b->echoes = true;
	header_refused(MSG_SIZE_MAX + 1, MSG_TYPE_INFO, 0);
	header_refused(UINT32_MAX, MSG_TYPE_INFO, 0);
	header_refused(0, MSG_TYPE_INFO, 0);
	header_refused(MSG_HEADER_SIZE - 1, MSG_TYPE_INFO, 0);
	header_refused(MSG_HEADER_SIZE, MSG_TYPE_INFO, 4);
	asked = b->asked;
	rng_init(&rng, 11);
	for (int i = 0; i < 50; i++) {
		for (size_t at = 0; at < sizeof(noise); at++)
			noise[at] = (unsigned char)rng_next(&rng);
		noise[3] |= 0x80; /* not a length that waits for more */
		refused_after(noise, sizeof(noise));
	}
	assert_int_equal(b->asked, asked);
	assert_int_equal(b->warns, 1); /* all from one host, in one minute */
	assert_non_null(strstr(b->warning, "127.0.0.1:"));
	assert_non_null(strstr(b->warning, "no frame"));
	side_ask(a, 3, 7, 100);
	rig_until(&rig, a->answers == 1);
	assert_int_equal(a->downs[3] + b->downs[9], 0);
}

static void test_a_frame_that_is_cut_off_is_none(void **state)
{
	unsigned char bytes[FRAME_HEADER_SIZE + 100], welcome[GREETING_SIZE];
	int fd = stranger_connect(peers_port(b->peers));

	(void)state;
	frame_write(bytes, 1, 100);
	(void)message_make(bytes + FRAME_HEADER_SIZE, 100, 1);
	stranger_greet(fd, NET_VERSION, NET_CONTROL, 0);
	assert_true(stranger_hear(&rig, fd, welcome, sizeof(welcome)));
	for (size_t at = 0; at < sizeof(bytes) - 1; at++) { /* byte by byte */
		stranger_say(fd, bytes + at, 1);
		rig_turn(&rig, false);
	}
	rig_idle(&rig);
	assert_int_equal(b->asked, 0);
	(void)close(fd);
	rig_until(&rig, b->closes == 1);
	assert_int_equal(b->asked, 0);
}

static void test_what_answers_no_frame_is_given_up(void **state)
{
	uint16_t port;
	int listener = stranger_listen(&port), fd;

	(void)state;
	side_connect_port(a, 3, port);
	fd = stranger_accept(&rig, listener, NET_CONTROL);
	rig_until(&rig, a->ups[3] == 1);
	stranger_say(fd, "this is no frame at all", 23);
	rig_until(&rig, a->downs[3] == 1);
	assert_int_equal(a->down_err, ERR_PROTOCOL);
	assert_int_equal(a->warns, 1);
	(void)close(fd);
	(void)close(listener);
}

static void test_who_begins_otherwise_gets_nothing(void **state)
{
	static const char *const beginnings[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "PING\r\nPING\r\n",
		"Cenp\1\0\1\0"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
		int fd = stranger_connect(peers_port(b->peers));
		unsigned char byte;

		stranger_say(fd, beginnings[i], 8);
		assert_false(stranger_hear(&rig, fd, &byte, 1));
		(void)close(fd);
	}
	assert_int_equal(b->link_count, 0);
	assert_int_equal(b->warns, 1);
}

/* What b answers to a greeting, and that it closes then. */
static struct greeting verdict_on(uint16_t version, uint8_t kind)
{
	int fd = stranger_connect(peers_port(b->peers));
	struct greeting greeting = {0};
	unsigned char bytes[GREETING_SIZE];

	stranger_greet(fd, version, kind, 0);
	assert_true(stranger_hear(&rig, fd, bytes, sizeof(bytes)));
	assert_int_equal(greeting_read(bytes, &greeting), 0);
	assert_true(stranger_is_closed(&rig, fd));
	(void)close(fd);
	return greeting;
}

static void test_another_version_is_told_ours(void **state)
{
	struct greeting greeting = verdict_on(NET_VERSION + 1, NET_CONTROL);

	(void)state;
	assert_int_equal(greeting.version, NET_VERSION);
	assert_int_equal(greeting.verdict, NET_OTHER_VERSION);
	assert_non_null(strstr(b->warning, "version 2"));
	assert_int_equal(b->link_count, 0);
}

static void test_a_kind_that_is_none_is_refused(void **state)
{
	(void)state;
	assert_int_equal(verdict_on(NET_VERSION, 0).verdict, NET_REFUSED);
	assert_int_equal(verdict_on(NET_VERSION, 200).verdict, NET_REFUSED);
	assert_int_equal(b->link_count, 0);
}

/* What a says of one who answers its greeting so. */
static void answered_with(uint16_t version, uint8_t verdict, int err, const char *word)
{
	unsigned char bytes[GREETING_SIZE];
	unsigned before = a->downs[3];
	uint16_t port;
	int listener = stranger_listen(&port), fd;

	side_connect_port(a, 3, port);
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		rig_turn(&rig, false);
	assert_true(stranger_hear(&rig, fd, bytes, sizeof(bytes)));
	stranger_greet(fd, version, NET_CONTROL, verdict);
	rig_until(&rig, a->downs[3] == before + 1);
	assert_int_equal(a->down_err, err);
	if (strstr(a->down_why, word) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", a->down_why, word);
	(void)close(fd);
	(void)close(listener);
}

static void test_verdicts_are_told_to_people(void **state)
{
	(void)state;
	answered_with(9, NET_OTHER_VERSION, ERR_VERSION, "version 9");
	answered_with(9, NET_WELCOME, ERR_VERSION, "version 9");
	answered_with(NET_VERSION, NET_REFUSED, ERR_NOT_PERMITTED, "TLS");
	answered_with(NET_VERSION, NET_FULL, ERR_TOO_MANY, "no more");
	answered_with(NET_VERSION, 77, ERR_PROTOCOL, "refuses");
	assert_int_equal(a->ups[3], 0);
	assert_int_equal(a->warns, 1);
}

/* ---- time ---------------------------------------------------------------- */

static void test_who_never_greets_back_is_given_up(void **state)
{
	uint16_t port;
	int listener = stranger_listen(&port);
	uint64_t due;

	(void)state;
	side_connect_port(a, 3, port);
	while (peers_next(a->peers) == UINT64_MAX ||
		accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0)
		rig_turn(&rig, false);
	rig_idle(&rig);
	due = peers_next(a->peers);
	(void)peers_turn(a->peers, due - 1);
	assert_int_equal(a->downs[3], 0);
	(void)peers_turn(a->peers, due);
	assert_int_equal(a->downs[3], 1);
	assert_int_equal(a->down_err, ERR_TIMEOUT);
	assert_int_equal(peers_next(a->peers), UINT64_MAX);
	(void)close(listener);
}

static void test_who_says_nothing_is_not_kept(void **state)
{
	int fd = stranger_connect(peers_port(b->peers));
	uint64_t due;

	(void)state;
	rig_until(&rig, peers_next(b->peers) != UINT64_MAX);
	due = peers_next(b->peers);
	assert_true(due <= loop_boot_ns() + 3000000000ull);
	(void)peers_turn(b->peers, due - 1);
	assert_int_equal(peers_next(b->peers), due);
	(void)peers_turn(b->peers, due);
	assert_true(stranger_is_closed(&rig, fd));
	assert_int_equal(b->link_count + b->closes, 0);
	(void)close(fd);
}

static void test_a_crowd_of_strangers_keeps_nobody_out(void **state)
{
	static int fds[PEERS_LINKS + 20];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = stranger_connect(peers_port(b->peers));
		rig_idle(&rig);
	}
	assert_true(stranger_is_closed(&rig, fds[0])); /* who came first goes first */
	side_connect(a, 3, b);
	rig_until(&rig, a->ups[3] == 1 && b->link_count == 1);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	rig_idle(&rig);
	b->echoes = true;
	side_ask(a, 3, 1, 10);
	rig_until(&rig, a->answers == 1);
}

static void test_one_line_a_minute_for_each_host(void **state)
{
	static struct hush hush;
	uint64_t now = 5, kept = 99;
	char host[16];

	(void)state;
	assert_true(hush_may_tell(&hush, "a", now, &kept));
	assert_int_equal(kept, 0);
	for (unsigned i = 0; i < 10; i++)
		assert_false(hush_may_tell(&hush, "a", now + i, &kept));
	assert_true(hush_may_tell(&hush, "b", now, &kept));
	assert_false(hush_may_tell(&hush, "a", now + HUSH_NS - 1, &kept));
	assert_true(hush_may_tell(&hush, "a", now + HUSH_NS, &kept));
	assert_int_equal(kept, 11);
	assert_false(hush_may_tell(&hush, "a", now + HUSH_NS + 1, &kept));
	for (unsigned i = 0; i < HUSH_HOSTS; i++) { /* the table is full: the oldest go */
		(void)snprintf(host, sizeof(host), "host %u", i);
		assert_true(hush_may_tell(&hush, host, now + 2 * HUSH_NS + i, &kept));
	}
	assert_true(hush_may_tell(&hush, "a", now + HUSH_NS + 2, &kept));
	assert_int_equal(kept, 0);
}

/* ---- begin --------------------------------------------------------------- */

static void test_what_cannot_be_opened_is_refused_with_a_text(void **state)
{
	struct peers_config config = side_config(a, PEERS_SECURE_NONE, NULL);
	struct peers *peers = NULL;
	char message[256];

	(void)state;
	config.listen.port = peers_port(b->peers);
	assert_int_equal(
		peers_open(&peers, &config, message, sizeof(message)), ERR_UNAVAILABLE);
	assert_non_null(strstr(message, "127.0.0.1"));
	config.listen.port = 0;
	config.secure = PEERS_SECURE_CONTROL;
	assert_int_equal(
		peers_open(&peers, &config, message, sizeof(message)), ERR_BAD_ARGUMENT);
	assert_non_null(strstr(message, "key"));
	config.secure = PEERS_SECURE_NONE;
	config.offers = 0;
	assert_int_equal(
		peers_open(&peers, &config, message, sizeof(message)), ERR_BAD_ARGUMENT);
	assert_null(peers);
	peers_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_both_connect_and_are_told_from_where),
	TEST(test_many_channels_are_answered_both_ways),
	TEST(test_messages_of_every_size_come_whole),
	TEST(test_closing_is_told_once_and_can_be_undone),
	TEST(test_the_asked_one_closes),
	TEST(test_a_node_that_comes_back),
	TEST(test_an_endpoint_that_is_none),
	TEST(test_who_does_not_read_is_given_up),
	TEST(test_frames_that_are_none_end_their_connection_alone),
	TEST(test_a_frame_that_is_cut_off_is_none),
	TEST(test_what_answers_no_frame_is_given_up),
	TEST(test_who_begins_otherwise_gets_nothing),
	TEST(test_another_version_is_told_ours),
	TEST(test_a_kind_that_is_none_is_refused),
	TEST(test_verdicts_are_told_to_people),
	TEST(test_who_never_greets_back_is_given_up),
	TEST(test_who_says_nothing_is_not_kept),
	TEST(test_a_crowd_of_strangers_keeps_nobody_out),
	TEST(test_one_line_a_minute_for_each_host),
	TEST(test_what_cannot_be_opened_is_refused_with_a_text),
};

UNIT_MAIN(tests)
