/*
 * Tests of the way in: who may attach, what is said at attach, and what a stranger's
 * frames do. Frames are made here by hand, over a plain socket.
 */
#include "e2e.h"

#include "wire/msg.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)

/* ---- a connection without the library ------------------------------------ */

struct wire {
	int fd;
	unsigned char out[MSG_SIZE_MAX], in[MSG_SIZE_MAX];
	size_t size; /* of what is in `in` */
};

static struct wire *wire_open(const struct e2e_node *node)
{
	struct wire *wire = malloc(sizeof(*wire));
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	E2E_TRUE(wire != NULL);
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "%s", e2e_node_socket(node));
	wire->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	E2E_TRUE(wire->fd >= 0);
	E2E_TRUE(connect(wire->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return wire;
}

static void wire_close(struct wire *wire)
{
	(void)close(wire->fd);
	free(wire);
}

static void wire_send(struct wire *wire, size_t size)
{
	E2E_TRUE(send(wire->fd, wire->out, size, MSG_NOSIGNAL) == (ssize_t)size);
}

/* False: the daemon closed the connection. Descriptors that come are lost. */
static bool wire_receive(struct wire *wire)
{
	struct pollfd ready = {.fd = wire->fd, .events = POLLIN};
	ssize_t size;

	E2E_TRUE(poll(&ready, 1, E2E_DEADLINE_MS) == 1);
	size = recv(wire->fd, wire->in, sizeof(wire->in), 0);
	wire->size = size > 0 ? (size_t)size : 0;
	return size > 0;
}

static void wire_expect(struct wire *wire, enum msg_type want)
{
	enum msg_type type;

	E2E_TRUE(wire_receive(wire));
	E2E_TRUE(msg_type(wire->in, wire->size, &type) == 0);
	if (type != want)
		e2e_fail(__FILE__, __LINE__, "a %s came, not a %s", msg_name(type),
			msg_name(want));
}

/* An ERROR of this code comes, with these words in its text. */
static void wire_expect_error(struct wire *wire, int code, const char *words)
{
	struct msg_error error;
	char text[MSG_TEXT_MAX + 1];

	wire_expect(wire, MSG_TYPE_ERROR);
	E2E_TRUE(msg_error_decode(wire->in, wire->size, &error) == 0);
	memcpy(text, error.text.data, error.text.size);
	text[error.text.size] = '\0';
	if (error.code != code || strstr(text, words) == NULL)
		e2e_fail(__FILE__, __LINE__, "error %d (%s), not %d (%s)", error.code,
			text, code, words);
}

static void wire_hello(struct wire *wire, uint32_t version)
{
	struct msg_hello hello = {.version = version};

	wire_send(wire, msg_hello_encode(wire->out, sizeof(wire->out), &hello));
}

static void wire_attach(struct wire *wire)
{
	wire_hello(wire, WIRE_VERSION);
	wire_expect(wire, MSG_TYPE_WELCOME);
}

/* A good question, to see that the connection is whole. */
static void wire_ask(struct wire *wire)
{
	struct msg_stat stat = {.key = {"key", 3}};

	wire_send(wire, msg_stat_encode(wire->out, sizeof(wire->out), &stat));
	wire_expect(wire, MSG_TYPE_STATED);
}

/* The head of a message, by hand. */
static void wire_head(struct wire *wire, uint16_t type, uint32_t body)
{
	unsigned char head[MSG_HEADER_SIZE] = {(unsigned char)type,
		(unsigned char)(type >> 8), 0, 0, (unsigned char)body,
		(unsigned char)(body >> 8), (unsigned char)(body >> 16),
		(unsigned char)(body >> 24)};

	memcpy(wire->out, head, sizeof(head));
}

/* ---- versions and frames ------------------------------------------------- */

static void k4_05_another_version_is_refused_and_both_are_named(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct wire *wire;

	for (uint32_t version = 4711; version <= 4712; version++) {
		char theirs[16], ours[16];

		(void)snprintf(theirs, sizeof(theirs), "%u", version);
		(void)snprintf(ours, sizeof(ours), "%u", WIRE_VERSION);
		wire = wire_open(node);
		wire_hello(wire, version);
		wire_expect_error(wire, CENOTE_ERR_VERSION, theirs);
		E2E_TRUE(memmem(wire->in, wire->size, ours, strlen(ours)) != NULL);
		wire_close(wire);
	}
	wire = wire_open(node);
	wire_hello(wire, 0);
	wire_expect_error(wire, CENOTE_ERR_VERSION, "");
	wire_close(wire);
}

static void k4_05_an_unknown_message_leaves_the_connection_usable(struct e2e *t)
{
	static const uint16_t types[] = {0, 5, 999, 1000, 65535, MSG_TYPE_WELCOME,
		MSG_TYPE_FOUND, MSG_TYPE_DONE, MSG_TYPE_BATCH_DONE};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct wire *wire = wire_open(node);

	e2e_put(store, "key", 10, 1);
	wire_attach(wire);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		wire_head(wire, types[i], 16);
		memset(wire->out + MSG_HEADER_SIZE, 7, 16);
		wire_send(wire, MSG_HEADER_SIZE + 16);
		wire_expect_error(wire, CENOTE_ERR_PROTOCOL, "");
		wire_ask(wire);
	}
	wire_close(wire);
	cenote_close(store);
}

static void requests_before_hello_are_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct wire *wire = wire_open(node);
	struct msg_remove request = {.key = {"key", 3}};

	wire_send(wire, msg_remove_encode(wire->out, sizeof(wire->out), &request));
	wire_expect_error(wire, CENOTE_ERR_PROTOCOL, "HELLO");
	wire_attach(wire);
	wire_hello(wire, WIRE_VERSION);
	wire_expect_error(wire, CENOTE_ERR_PROTOCOL, "HELLO");
	wire_close(wire);
}

/* Requests of every type whose body is cut short or filled with anything: an answer each
 * time, or the end of this connection, and never harm to others. */
static void k4_05_broken_bodies_are_answered(struct e2e *t)
{
	static const uint16_t types[] = {MSG_TYPE_PUT_START, MSG_TYPE_PUT_END,
		MSG_TYPE_PUT_ABORT, MSG_TYPE_PUT, MSG_TYPE_GET, MSG_TYPE_REMOVE,
		MSG_TYPE_TAKE, MSG_TYPE_STAT, MSG_TYPE_LIST, MSG_TYPE_INFO,
		MSG_TYPE_FAULT, MSG_TYPE_FAULT_STATUS, MSG_TYPE_BATCH};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct wire *wire = wire_open(node);
	uint64_t seed = 0;

	e2e_put(store, "key", 10, 1);
	wire_attach(wire);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		for (uint32_t body = 0; body < 64; body++) {
			wire_head(wire, types[i], body);
			e2e_fill(wire->out + MSG_HEADER_SIZE, body, ++seed);
			/* Not for ever: a key that is no key is refused at once. */
			wire_send(wire, MSG_HEADER_SIZE + body);
			E2E_TRUE(wire_receive(wire));
		}
		wire_ask(wire);
	}
	wire_close(wire);
	e2e_verify(store, "key", 10, 1);
	e2e_check(store);
	cenote_close(store);
}

static void one_way_messages_of_nonsense_do_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct wire *wire = wire_open(node);
	struct cenote_view view;
	uint64_t seed = 0;

	e2e_put(store, "key", 1000, 1);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &view));
	wire_attach(wire);
	for (uint32_t slot = 0; slot < 2000; slot++) {
		struct msg_tell tell = {.slot = slot < 1000 ? slot : UINT32_MAX - slot};
		struct msg_unpin unpin = {.slot = tell.slot, .life = slot % 3};

		wire_send(wire, msg_tell_encode(wire->out, sizeof(wire->out), &tell));
		wire_send(wire, msg_unpin_encode(wire->out, sizeof(wire->out), &unpin));
	}
	for (uint32_t body = 0; body < 32; body++) {
		wire_head(wire, body % 2 == 0 ? MSG_TYPE_TELL : MSG_TYPE_UNPIN, body);
		e2e_fill(wire->out + MSG_HEADER_SIZE, body, ++seed);
		wire_send(wire, MSG_HEADER_SIZE + body);
	}
	wire_ask(wire);
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_TRUE(e2e_in_use(store) > 0);
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	e2e_expect_in_use(store, 0);
	wire_close(wire);
	cenote_close(store);
}

/* Every cut of a good message, and every length that is not its own. */
static void frames_of_a_wrong_length_end_their_connection_alone(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct msg_hello hello = {.version = WIRE_VERSION};
	size_t whole;

	e2e_put(store, "key", 10, 1);
	whole = msg_hello_encode((unsigned char[128]){0}, 128, &hello);
	for (size_t size = 1; size <= whole + 8; size++) {
		struct wire *wire = wire_open(node);

		memset(wire->out, 0, whole + 8);
		E2E_EQ(msg_hello_encode(wire->out, sizeof(wire->out), &hello), whole);
		wire_send(wire, size);
		if (size == whole) {
			wire_expect(wire, MSG_TYPE_WELCOME);
		} else {
			while (wire_receive(wire))
				E2E_TRUE(wire->size > 0);
		}
		wire_close(wire);
	}
	e2e_verify(store, "key", 10, 1);
	e2e_check(store);
	cenote_close(store);
}

static void garbage_ends_its_connection_alone(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);

	e2e_put(store, "key", 10, 1);
	for (uint64_t seed = 0; seed < 200; seed++) {
		size_t size = seed * 331 % 60000 + 1;
		struct wire *wire = wire_open(node);

		if (seed % 2 == 1)
			wire_attach(wire);
		e2e_fill(wire->out, size, seed);
		wire_send(wire, size);
		while (wire_receive(wire))
			E2E_TRUE(wire->size > 0);
		wire_close(wire);
	}
	e2e_verify(store, "key", 10, 1);
	/* Those that had attached are this process, which still lives, and hold nothing.
	 */
	e2e_check(store);
	cenote_close(store);
}

/* A batch in a batch, a batch of too many, a batch that lies about its count. */
static void batches_that_lie_are_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct wire *wire = wire_open(node);
	struct msg_stat stat = {.key = {"key", 3}};
	struct msg_batch batch = {.count = 2};
	unsigned char one[64];

	e2e_put(store, "key", 10, 1);
	wire_attach(wire);
	batch.requests.data = one;
	batch.requests.size = msg_stat_encode(one, sizeof(one), &stat);
	wire_send(wire, msg_batch_encode(wire->out, sizeof(wire->out), &batch));
	wire_expect_error(wire, CENOTE_ERR_PROTOCOL, "");
	batch.count = UINT32_MAX;
	wire_send(wire, msg_batch_encode(wire->out, sizeof(wire->out), &batch));
	E2E_TRUE(wire_receive(wire));
	batch.count = 1;
	batch.requests.size -= 1;
	wire_send(wire, msg_batch_encode(wire->out, sizeof(wire->out), &batch));
	wire_expect_error(wire, CENOTE_ERR_PROTOCOL, "");
	wire_ask(wire);
	wire_close(wire);
	e2e_check(store);
	cenote_close(store);
}

/* ---- users --------------------------------------------------------------- */

#define NOBODY 65534

/* Attach as the user nobody, and say what came of it. */
static void role_nobody(struct e2e_self *self)
{
	struct cenote_connect_options options = {.socket_path = e2e_self_socket(self)};
	struct cenote *store = NULL;
	int err;

	E2E_TRUE(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	(void)prctl(PR_SET_DUMPABLE, 1); /* else the leak check cannot look */
	err = cenote_connect(&store, &options);
	if (err != 0) {
		e2e_self_say(
			self, "%s: %s", cenote_error_name(err), cenote_error_detail());
		return;
	}
	e2e_put(store, "nobody's", 100000, 2);
	e2e_verify(store, "key", 100000, 1);
	cenote_close(store);
	e2e_self_say(self, "OK");
}

static void expect_nobody(
	struct e2e *t, const struct e2e_node *node, const char *want, const char *words)
{
	struct e2e_role *role = e2e_role_start(t, node, "nobody", NULL);
	const char *said = e2e_role_hear(role);

	if (strncmp(said, want, strlen(want)) != 0 || strstr(said, words) == NULL)
		e2e_fail(__FILE__, __LINE__, "\"%s\", not %s with \"%s\"", said, want,
			words);
	e2e_role_end(role);
}

static void a_user_who_is_not_on_the_list_is_refused(struct e2e *t)
{
	struct e2e_node *node;
	struct cenote *store;

	if (geteuid() != 0)
		e2e_skip("needs root, to become another user");
	node = e2e_node_start(t, "--pool", "64M", "--socket-mode", "0666", NULL);
	store = e2e_connect(node);
	expect_nobody(t, node, "NOT_PERMITTED", "65534");
	E2E_EQ(e2e_stat(store, "node.clients"), 1);
	cenote_close(store);
}

static void a_user_whom_the_socket_keeps_out_is_refused(struct e2e *t)
{
	struct e2e_node *node;

	if (geteuid() != 0)
		e2e_skip("needs root, to become another user");
	node = e2e_node_start(t, "--pool", "64M", "--socket-mode", "0600", "--allow-uid",
		"0,65534", NULL);
	expect_nobody(t, node, "NOT_PERMITTED", "");
}

static void a_user_on_the_list_may_put_and_get(struct e2e *t)
{
	struct e2e_node *node;
	struct cenote *store;

	if (geteuid() != 0)
		e2e_skip("needs root, to become another user");
	node = e2e_node_start(t, "--pool", "64M", "--socket-mode", "0666", "--allow-uid",
		"0,65534", NULL);
	store = e2e_connect(node);
	e2e_put(store, "key", 100000, 1);
	expect_nobody(t, node, "OK", "");
	e2e_verify(store, "nobody's", 100000, 2);
	cenote_close(store);
}

/* ---- daemons and their files --------------------------------------------- */

static void a_stale_socket_is_replaced(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store;

	e2e_node_kill(node);
	E2E_TRUE(access(e2e_node_socket(node), F_OK) == 0);
	e2e_node_restart(node);
	store = e2e_connect(node);
	e2e_put(store, "key", 10, 1);
	cenote_close(store);
}

/* A second daemon that must not start, and what it says. */
static void expect_refused(struct e2e *t, const char *option, const char *value,
	const char *words, const char *more_words)
{
	struct e2e_node *second = e2e_node_new(t, option, value, "--pool", "64M", NULL);
	int status;
	char *log;

	E2E_TRUE(!e2e_node_up(second));
	status = e2e_node_wait(second);
	E2E_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	log = e2e_node_log(second);
	if (strstr(log, words) == NULL || strstr(log, more_words) == NULL)
		e2e_fail(__FILE__, __LINE__, "no \"%s\" and \"%s\" in: %s", words,
			more_words, log);
	free(log);
}

static void a_second_daemon_on_the_same_files_is_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	char pid[32];

	(void)snprintf(pid, sizeof(pid), "pid %d", (int)e2e_node_pid(node));
	e2e_put(store, "key", 100000, 1);
	expect_refused(t, "--shm-dir", e2e_node_shm(node), pid, "--shm-dir");
	expect_refused(t, "--socket", e2e_node_socket(node), e2e_node_socket(node), "");
	e2e_verify(store, "key", 100000, 1);
	cenote_close(store);
	store = e2e_connect(node);
	e2e_verify(store, "key", 100000, 1);
	cenote_close(store);
}

static void more_clients_than_there_may_be_are_refused(struct e2e *t)
{
	enum {
		LIMIT = 256
	};
	struct e2e_node *node = e2e_node_start(t, "--pool", "4M", NULL);
	struct cenote_connect_options options = {.socket_path = e2e_node_socket(node)};
	static struct cenote *stores[LIMIT];
	struct cenote *one_more = NULL;

	for (unsigned i = 0; i < LIMIT; i++)
		stores[i] = e2e_connect(node);
	E2E_ERR(cenote_connect(&one_more, &options), CENOTE_ERR_TOO_MANY);
	E2E_DETAIL("256");
	cenote_close(stores[7]);
	stores[7] = e2e_connect(node);
	e2e_put(stores[255], "key", 1000, 1);
	e2e_verify(stores[7], "key", 1000, 1);
	e2e_check(stores[0]);
	for (unsigned i = 0; i < LIMIT; i++)
		cenote_close(stores[i]);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(nobody)};

static const struct e2e_case cases[] = {
	E2E_CASE(k4_05_another_version_is_refused_and_both_are_named),
	E2E_CASE(k4_05_an_unknown_message_leaves_the_connection_usable),
	E2E_CASE(requests_before_hello_are_refused),
	E2E_CASE(k4_05_broken_bodies_are_answered),
	E2E_CASE(one_way_messages_of_nonsense_do_nothing),
	E2E_CASE(frames_of_a_wrong_length_end_their_connection_alone),
	E2E_CASE(garbage_ends_its_connection_alone),
	E2E_CASE(batches_that_lie_are_refused),
	E2E_CASE(a_user_who_is_not_on_the_list_is_refused),
	E2E_CASE(a_user_whom_the_socket_keeps_out_is_refused),
	E2E_CASE(a_user_on_the_list_may_put_and_get),
	E2E_CASE(a_stale_socket_is_replaced),
	E2E_CASE(a_second_daemon_on_the_same_files_is_refused),
	E2E_CASE(more_clients_than_there_may_be_are_refused),
};

E2E_MAIN(cases, roles)
