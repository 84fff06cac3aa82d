/*
 * Tests of a store as a whole: the pool's region, texts about the node, read-only stores,
 * a daemon that is away, errors and faults.
 */
#include "e2e.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

/* ---- the node ------------------------------------------------------------ */

static void pool_region_holds_every_view(struct e2e *t)
{
	struct cenote *store = start(t);
	const unsigned char *base = NULL;
	const void *start_of_pool = NULL;
	struct cenote_view view;
	size_t size = 0;

	E2E_OK(cenote_pool_region(store, &start_of_pool, &size));
	base = start_of_pool;
	E2E_TRUE(size >= 64u << 20 && size % 4096 == 0);
	E2E_EQ(size, e2e_stat(store, "pool.size"));
	e2e_put(store, "key", 100000, 1);
	E2E_OK(cenote_get(store, KEY("key"), NULL, &view));
	E2E_TRUE((const unsigned char *)view.data >= base &&
		 (const unsigned char *)view.data + view.size <= base + size);
	E2E_OK(cenote_release(store, &view));
	cenote_close(store);
}

static void info_has_three_texts(struct e2e *t)
{
	struct cenote *store = start(t);
	char *text = NULL;

	E2E_EQ(e2e_stat(store, "node.clients"), 1);
	e2e_check(store);
	E2E_OK(cenote_info(store, CENOTE_INFO_CONFIG, &text));
	E2E_TRUE(strstr(text, "\"pool\":67108864") != NULL);
	E2E_TRUE(strstr(text, "\"small-limit\":65536") != NULL);
	cenote_free(text);
	cenote_free(NULL);
	E2E_ERR(cenote_info(store, (enum cenote_info)77, &text), CENOTE_ERR_BAD_ARGUMENT);
	cenote_close(store);
}

static void role_write_read_only(struct e2e_self *self)
{
	const struct cenote_connect_options options = {
		.socket_path = e2e_self_socket(self), .read_only = true};
	struct cenote *store;
	const void *base;
	size_t size;

	e2e_default_signals();
	E2E_OK(cenote_connect(&store, &options));
	E2E_OK(cenote_pool_region(store, &base, &size));
	*(volatile unsigned char *)(uintptr_t)base = 1;
	e2e_self_say(self, "wrote");
}

static void read_only_store_cannot_put(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	const struct cenote_connect_options options = {
		.socket_path = e2e_node_socket(node), .read_only = true};
	struct cenote *store = e2e_connect(node), *reader;
	const struct cenote_part part = {"x", 1};
	struct cenote_put_item item = {.key = KEY("c"), .parts = &part, .count = 1};
	struct cenote_writer writer;

	E2E_OK(cenote_connect(&reader, &options));
	e2e_put(store, "key", 100000, 1);
	e2e_verify(reader, "key", 100000, 1);
	E2E_ERR(cenote_put(reader, KEY("a"), "x", 1, NULL), CENOTE_ERR_NOT_PERMITTED);
	E2E_DETAIL("read-only");
	E2E_ERR(cenote_create(reader, KEY("b"), 1 << 20, NULL, &writer),
		CENOTE_ERR_NOT_PERMITTED);
	E2E_EQ(cenote_put_batch(reader, &item, 1, NULL), 1);
	E2E_EQ(item.result, CENOTE_ERR_NOT_PERMITTED);
	e2e_role_dies(e2e_role_start(t, node, "write_read_only", NULL), SIGSEGV);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	cenote_close(reader);
	cenote_close(store);
}

static void connect_without_a_daemon_is_unavailable(struct e2e *t)
{
	char path[300];
	struct cenote_connect_options options = {.socket_path = path, .timeout_ms = 200};
	struct cenote *store = NULL;

	(void)snprintf(path, sizeof(path), "%s/nobody.sock", e2e_dir(t));
	E2E_ERR(cenote_connect(&store, &options), CENOTE_ERR_UNAVAILABLE);
	E2E_DETAIL("nobody.sock");
	E2E_TRUE(store == NULL);
}

static void connect_finds_the_socket_in_the_environment(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote_connect_options options = {.timeout_ms = 200};
	struct cenote *store = NULL;

	E2E_TRUE(setenv("CENOTE_SOCKET", e2e_node_socket(node), 1) == 0);
	E2E_OK(cenote_connect(&store, NULL));
	e2e_put(store, "key", 10, 1);
	cenote_close(store);
	E2E_TRUE(setenv("CENOTE_SOCKET", "/nowhere/at/all", 1) == 0);
	E2E_ERR(cenote_connect(&store, &options), CENOTE_ERR_UNAVAILABLE);
	E2E_DETAIL("/nowhere/at/all");
	/* What is said outright counts more. */
	store = e2e_connect(node);
	e2e_verify(store, "key", 10, 1);
	cenote_close(store);
}

static void arguments_out_of_range_are_refused(struct e2e *t)
{
	const struct cenote_put_options put = {.timeout_ms = -2};
	const struct cenote_put_options long_put = {.ttl_ms = UINT64_MAX};
	const struct cenote_get_options get = {.wait = true, .timeout_ms = INT64_MIN};
	const struct cenote_part part = {NULL, 5};
	struct cenote *store = start(t);
	struct cenote_writer writer;
	struct cenote_view view = {0};
	uint64_t size;

	E2E_ERR(cenote_put(store, KEY("k"), "x", 1, &put), CENOTE_ERR_BAD_ARGUMENT);
	E2E_DETAIL("-2");
	E2E_ERR(cenote_put(store, KEY("k"), "x", 1, &long_put), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_create(store, KEY("k"), 10, &put, &writer),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_get(store, KEY("k"), &get, &view), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_wait(store, KEY("k"), -7), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_put(store, KEY("k"), NULL, 1, NULL), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_put_parts(store, KEY("k"), &part, 1, NULL),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_put_parts(store, KEY("k"), NULL, 1, NULL),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_get_into(store, KEY("k"), NULL, 1, NULL, &size),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_release(store, NULL), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_release(store, &view), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_seal(store, NULL), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_abort(store, NULL), CENOTE_ERR_BAD_ARGUMENT);
	E2E_EQ(e2e_in_use(store), 0);
	/* The longest that there is. */
	E2E_OK(cenote_put(store, KEY("k"), "x", 1,
		&(struct cenote_put_options){
			.ttl_ms = UINT64_MAX / 1000000, .timeout_ms = INT64_MAX}));
	E2E_OK(cenote_wait(store, KEY("k"), INT64_MAX));
	E2E_EQ(cenote_exists(store, KEY("k")), 1);
	cenote_close(store);
}

static void views_and_writers_of_another_store_are_refused(struct e2e *t)
{
	struct cenote *one = start(t), *other = start(t);
	struct cenote_writer writer;
	struct cenote_view view;

	e2e_put(one, "key", 1000, 1);
	E2E_OK(cenote_get(one, KEY("key"), NULL, &view));
	E2E_OK(cenote_create(one, KEY("open"), 1000, NULL, &writer));
	E2E_ERR(cenote_release(other, &view), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_seal(other, &writer), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_abort(other, &writer), CENOTE_ERR_BAD_ARGUMENT);
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_abort(one, &writer));
	E2E_OK(cenote_release(one, &view));
	cenote_close(one);
	cenote_close(other);
}

static void calls_without_a_daemon_end_at_their_deadline(struct e2e *t)
{
	const struct cenote_put_options options = {.timeout_ms = 300};
	const struct cenote_get_options get = {.timeout_ms = 300};
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view view;

	e2e_put(store, "key", 1000, 1);
	e2e_node_kill(node);
	E2E_ERR(cenote_put(store, KEY("a"), "x", 1, &options), CENOTE_ERR_UNAVAILABLE);
	E2E_ERR(cenote_get(store, KEY("b"), &get, &view), CENOTE_ERR_UNAVAILABLE);
	e2e_verify(store, "key", 1000, 1);
	e2e_node_restart(node);
	e2e_put(store, "a", 10, 2);
	e2e_verify(store, "key", 1000, 1);
	cenote_close(store);
}

/* ---- errors and faults --------------------------------------------------- */

static void each_error_has_a_name_and_a_text(struct e2e *t)
{
	static const struct {
		int number;
		const char *name;
	} errors[] = {
		{CENOTE_OK, "OK"},
		{CENOTE_ERR_INTERNAL, "INTERNAL"},
		{CENOTE_ERR_BUFFER_TOO_SMALL, "BUFFER_TOO_SMALL"},
		{CENOTE_ERR_STALE, "STALE"},
		{CENOTE_ERR_NO_SPACE, "NO_SPACE"},
		{CENOTE_ERR_VERSION, "VERSION"},
		{CENOTE_ERR_BAD_KEY, "BAD_KEY"},
		{CENOTE_ERR_BAD_ARGUMENT, "BAD_ARGUMENT"},
		{CENOTE_ERR_NOT_PERMITTED, "NOT_PERMITTED"},
		{CENOTE_ERR_NOT_READY, "NOT_READY"},
		{CENOTE_ERR_NOT_FOUND, "NOT_FOUND"},
		{CENOTE_ERR_EXISTS, "EXISTS"},
		{CENOTE_ERR_LEASE_EXPIRED, "LEASE_EXPIRED"},
		{CENOTE_ERR_BUSY, "BUSY"},
		{CENOTE_ERR_TOO_LARGE, "TOO_LARGE"},
		{CENOTE_ERR_REMOVED, "REMOVED"},
		{CENOTE_ERR_TOO_MANY, "TOO_MANY"},
		{CENOTE_ERR_LOST, "LOST"},
		{CENOTE_ERR_FORKED, "FORKED"},
		{CENOTE_ERR_TRANSFER_FAIL, "TRANSFER_FAIL"},
		{CENOTE_ERR_CORRUPT, "CORRUPT"},
		{CENOTE_ERR_RPC_FAIL, "RPC_FAIL"},
		{CENOTE_ERR_TIMEOUT, "TIMEOUT"},
		{CENOTE_ERR_UNAVAILABLE, "UNAVAILABLE"},
		{CENOTE_ERR_NOT_SUPPORTED, "NOT_SUPPORTED"},
		{CENOTE_ERR_PROTOCOL, "PROTOCOL"},
		{CENOTE_ERR_NO_MEMORY, "NO_MEMORY"},
		{CENOTE_ERR_IO, "IO"},
	};

	(void)t;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		E2E_TRUE(
			strcmp(cenote_error_name(errors[i].number), errors[i].name) == 0);
		E2E_TRUE(strlen(cenote_error_text(errors[i].number)) > 0);
	}
	E2E_TRUE(
		cenote_error_name(-123456) != NULL && cenote_error_text(-123456) != NULL);
}

static void faults_fire_where_they_are_armed(struct e2e *t)
{
	struct cenote *store;
	uint64_t hits = 0, fired = 0;

	e2e_need_faults();
	store = start(t);
	E2E_OK(cenote_inject_fault(
		"ClientBeforeSmallPutSend", "return_error", -4242, 2, 1));
	E2E_OK(cenote_put(store, KEY("a"), "x", 1, NULL));
	E2E_EQ(cenote_put(store, KEY("b"), "x", 1, NULL), -4242);
	E2E_OK(cenote_put(store, KEY("c"), "x", 1, NULL));
	E2E_OK(cenote_get_fault_status("ClientBeforeSmallPutSend", &hits, &fired));
	E2E_EQ(hits, 3);
	E2E_EQ(fired, 1);
	E2E_EQ(cenote_exists(store, KEY("b")), 0);
	E2E_OK(cenote_inject_fault_local_master(
		store, "NodeBeforeCondemn", "return_error", -900, 0, 0));
	E2E_ERR(cenote_remove(store, KEY("a")), CENOTE_ERR_RPC_FAIL);
	E2E_OK(cenote_remove(store, KEY("a")));
	E2E_OK(cenote_get_fault_status_local_master(
		store, "NodeBeforeCondemn", &hits, &fired));
	E2E_EQ(hits, 2);
	E2E_EQ(fired, 1);
	E2E_ERR(cenote_inject_fault("ClientBeforeGetSend", "sleep", -1, 2, 3),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_DETAIL("value -1, from hit 2, 3 times: sleep takes a value from 0 on");
	E2E_ERR(cenote_inject_fault("NoSuchPoint", "sleep", 1, 0, 0),
		CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_inject_fault_local_master(store, "NoSuchPoint", "sleep", 1, 0, 0),
		CENOTE_ERR_BAD_ARGUMENT);
	cenote_close(store);
}

static void a_build_without_faults_says_so(struct e2e *t)
{
	struct cenote *store;
	uint64_t hits, fired;

	if (e2e_has_faults())
		e2e_skip("this build has fault points");
	store = start(t);
	E2E_ERR(cenote_inject_fault("ClientBeforeSmallPutSend", "sleep", 1, 0, 0),
		CENOTE_ERR_NOT_SUPPORTED);
	E2E_ERR(cenote_get_fault_status("ClientBeforeSmallPutSend", &hits, &fired),
		CENOTE_ERR_NOT_SUPPORTED);
	E2E_ERR(cenote_inject_fault_local_master(
			store, "NodeBeforeCondemn", "sleep", 1, 0, 0),
		CENOTE_ERR_NOT_SUPPORTED);
	E2E_ERR(cenote_get_fault_status_local_master(
			store, "NodeBeforeCondemn", &hits, &fired),
		CENOTE_ERR_NOT_SUPPORTED);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(write_read_only)};

static const struct e2e_case cases[] = {
	E2E_CASE(pool_region_holds_every_view),
	E2E_CASE(info_has_three_texts),
	E2E_CASE(read_only_store_cannot_put),
	E2E_CASE(connect_without_a_daemon_is_unavailable),
	E2E_CASE(connect_finds_the_socket_in_the_environment),
	E2E_CASE(arguments_out_of_range_are_refused),
	E2E_CASE(views_and_writers_of_another_store_are_refused),
	E2E_CASE(calls_without_a_daemon_end_at_their_deadline),
	E2E_CASE(each_error_has_a_name_and_a_text),
	E2E_CASE(faults_fire_where_they_are_armed),
	E2E_CASE(a_build_without_faults_says_so),
};

E2E_MAIN(cases, roles)
