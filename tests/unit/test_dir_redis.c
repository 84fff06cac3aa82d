/*
 * Tests of dir/dir_redis.h on real servers of their own: passwords, TLS, what a server
 * forgets, who takes its place. Clusters are in test_dir_cluster.c.
 */
#include "base/attr.h"
#include "base/err.h"
#include "cert_fixture.h"
#include "dir_rig.h"

#include <string.h>

#define G1 0x100ull

static enum rig_kind own = RIG_OWN;
static struct redis_rig first, second;

static int setup(void **state)
{
	*state = &own;
	return rig_setup(state);
}

static int teardown(void **state)
{
	int err = rig_teardown(state);

	redis_rig_kill(&first);
	redis_rig_kill(&second);
	return err;
}

static struct dir_rig *begin(void **state)
{
	if (!redis_rig_can()) {
		print_message("SKIPPED: no redis-server on this machine\n");
		skip();
	}
	return *state;
}

/* The rig's URL is that of these servers. */
static void use(struct dir_rig *rig, const struct redis_rig *a, const struct redis_rig *b)
{
	struct redis_rig servers[2] = {*a};

	if (b != NULL)
		servers[1] = *b;
	rig_url(servers, b != NULL ? 2 : 1, rig->url, sizeof(rig->url));
}

static struct rig_node *begin_with_one(void **state)
{
	struct dir_rig *rig = begin(state);

	redis_rig_start(&first, NULL);
	use(rig, &first, NULL);
	return rig_add_node(rig);
}

static struct dir_call publish_call(const struct rig_node *node, struct dir_id id)
{
	struct dir_call call = rig_call(node, DIR_OP_PUBLISH, id, G1);

	call.size = 7;
	call.wanted = 1;
	return call;
}

static struct dir_id publish(struct rig_node *node)
{
	struct dir_id id = rig_id(node->rig);
	struct dir_call call = publish_call(node, id);

	rig_do(node, &call, DIR_DONE);
	return id;
}

static bool is_there(struct rig_node *node, struct dir_id id)
{
	struct dir_entry entry;

	return rig_look(node, id, &entry);
}

static struct dir_redis_info info_of(const struct rig_node *node)
{
	struct dir_redis_info info;

	dir_redis_info(node->redis, &info);
	return info;
}

struct expected {
	struct rig_node *node;
	const char *warning;
	uint64_t other_than;
};

static bool has_warned(struct dir_rig *rig, void *arg)
{
	const struct expected *expected = arg;

	(void)rig;
	return strstr(expected->node->warnings, expected->warning) != NULL;
}

static bool has_new_epoch(struct dir_rig *rig, void *arg)
{
	const struct expected *expected = arg;
	uint64_t epoch = expected->node->epoch[0];

	(void)rig;
	return epoch != 0 && epoch != expected->other_than;
}

static void await_warning(struct rig_node *node, const char *text)
{
	struct expected expected = {.node = node, .warning = text};

	rig_until(node->rig, has_warned, &expected);
}

static uint64_t await_epoch(struct rig_node *node, uint64_t other_than)
{
	struct expected expected = {.node = node, .other_than = other_than};

	rig_until(node->rig, has_new_epoch, &expected);
	return node->epoch[0];
}

/* ---- who may ------------------------------------------------------------- */

static void set_url(struct dir_rig *rig, const char *before_the_host)
{
	(void)snprintf(rig->url, sizeof(rig->url), "redis://%s127.0.0.1:%u",
		before_the_host, first.port);
}

static void start_with_password(void)
{
	static const char *const args[] = {"--requirepass", "right p@ss", NULL};

	redis_rig_start(&first, args);
	redis_rig_do(&first, "AUTH %s", "right p@ss");
	redis_rig_do(&first, "ACL SETUSER cenote on >other ~* +@all");
}

static void test_password_of_the_url(void **state)
{
	struct dir_rig *rig = begin(state);

	start_with_password();
	set_url(rig, ":right%20p%40ss@");
	(void)publish(rig_add_node(rig));
	set_url(rig, "cenote:other@");
	(void)publish(rig_add_node(rig));
}

static void test_password_of_a_file(void **state)
{
	char path[] = "/tmp/cenote-password-XXXXXX";
	struct dir_rig *rig = begin(state);
	struct dir_redis_config config;
	struct rig_node *node;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "right p@ss\n", 11), 11);
	(void)close(fd);
	start_with_password();
	set_url(rig, ":ignored@");
	node = rig_add_node(rig);
	dir_redis_close(node->redis);
	rig_configure(rig, node, &config);
	config.password_file = path;
	rig_open_redis(node, &config);
	(void)unlink(path);
	(void)publish(node);
}

static void test_wrong_password_is_said(void **state)
{
	static const struct {
		const char *user, *warning;
	} wrong[] = {
		{":secret@", "WRONGPASS"},
		{"nobody:secret@", "WRONGPASS"},
		{"", "NOAUTH"},
	};
	struct dir_rig *rig = begin(state);

	start_with_password();
	rig->timeout_ns = 200 * RIG_MS;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct rig_node *node;
		struct dir_call call;

		set_url(rig, wrong[i].user);
		node = rig_add_node(rig);
		call = publish_call(node, rig_id(rig));
		rig_try(node, &call);
		assert_int_equal(call.err, ERR_UNAVAILABLE);
		await_warning(node, wrong[i].warning);
		assert_null(strstr(node->warnings, "secret"));
	}
}

static void test_tls(void **state)
{
	struct dir_rig *rig = begin(state);
	char ca[CERT_PATH_MAX], cert[CERT_PATH_MAX], key[CERT_PATH_MAX];
	char other[CERT_PATH_MAX], port[8];
	const char *args[] = {"--tls-port", port, "--tls-cert-file", NULL,
		"--tls-key-file", NULL, "--tls-ca-cert-file", NULL, "--tls-auth-clients",
		"no", NULL};
	struct dir_redis_config config;
	struct rig_node *node;
	struct cert_dir certs;
	struct dir_call call;

	cert_open(&certs);
	args[3] = cert_path(&certs, "node.pem", cert);
	args[5] = cert_path(&certs, "node.key", key);
	args[7] = cert_path(&certs, "ca.pem", ca);
	(void)cert_path(&certs, "other_ca.pem", other);
	(void)snprintf(port, sizeof(port), "%u", redis_rig_free_port());
	redis_rig_start(&first, args);
	(void)snprintf(rig->url, sizeof(rig->url), "rediss://127.0.0.1:%s", port);
	rig->timeout_ns = 500 * RIG_MS;
	node = rig_add_node(rig);
	dir_redis_close(node->redis);
	rig_configure(rig, node, &config);
	config.tls.ca_file = other;
	rig_open_redis(node, &config);
	call = publish_call(node, rig_id(rig));
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	assert_true(node->warnings[0] != '\0');
	dir_redis_close(node->redis);
	config.tls.ca_file = ca;
	config.tls.host = "other.test";
	rig_open_redis(node, &config);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	dir_redis_close(node->redis);
	config.tls.host = NULL;
	config.timeout_ns = 0;
	rig_open_redis(node, &config);
	rig_do(node, &call, DIR_DONE);
	cert_close(&certs);
}

/* ---- what a server forgets ----------------------------------------------- */

static void test_restart_begins_an_epoch(void **state)
{
	struct rig_node *node = begin_with_one(state), *quiet = rig_add_node(*state);
	struct dir_id id = publish(node);
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);
	uint64_t before = await_epoch(node, 0);

	assert_int_equal(await_epoch(quiet, 0), before);
	redis_rig_restart(&first);
	rig_do(node, &call, DIR_ABSENT); /* over a new connection, in its time */
	assert_int_not_equal(call.epoch, before);
	assert_int_equal(await_epoch(node, before), call.epoch);
	assert_int_equal(await_epoch(quiet, before), call.epoch);
	assert_int_equal(info_of(node).epochs_begun + info_of(quiet).epochs_begun, 2);
}

/* What was under way when it died is done by the one that comes. */
static void test_calls_outlive_a_server(void **state)
{
	enum {
		MANY = 50
	};
	static struct dir_call calls[MANY];
	struct rig_node *node = begin_with_one(state);

	(void)publish(node);
	redis_rig_pause(&first); /* so that none of them is answered */
	for (uint32_t i = 0; i < MANY; i++) {
		calls[i] = publish_call(node, rig_id(node->rig));
		rig_start(node, &calls[i]);
	}
	dir_redis_turn(node->redis, loop_boot_ns());
	redis_rig_restart(&first);
	rig_wait(node->rig);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(calls[i].err, 0);
		assert_int_equal(calls[i].verdict, DIR_DONE);
		assert_true(is_there(node, calls[i].id));
	}
	assert_int_equal(info_of(node).repeated, MANY);
}

static bool is_lost(struct dir_rig *rig, void *arg)
{
	(void)rig;
	return ((struct rig_node *)arg)->epoch[0] == 0;
}

static void test_no_server_is_told_and_one_that_comes(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;
	struct dir_call call;
	struct dir_id id;
	uint64_t before;

	rig->timeout_ns = 200 * RIG_MS;
	node = begin_with_one(state);
	id = rig_id(rig);
	call = publish_call(node, id);
	rig_insist(node, &call, DIR_DONE);
	before = await_epoch(node, 0);
	redis_rig_stop(&first);
	call = rig_call(node, DIR_OP_LOOKUP, id, 0);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	rig_until(rig, is_lost, node);
	assert_true(strstr(node->warnings, "refused") != NULL);
	assert_int_not_equal(node->dir.domain_of(node->dir.ctx, &id), DIR_DOMAIN_NONE);
	redis_rig_restart(&first);
	(void)await_epoch(node, before);
}

static void test_server_that_comes_late(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;
	struct dir_call call;

	redis_rig_start(&first, NULL);
	use(rig, &first, NULL);
	redis_rig_stop(&first);
	node = rig_add_node(rig);
	call = publish_call(node, rig_id(rig));
	assert_int_equal(node->dir.domain_of(node->dir.ctx, &call.id), DIR_DOMAIN_NONE);
	rig_start(node, &call);
	await_warning(node, "refused");
	redis_rig_restart(&first);
	rig_wait(rig);
	assert_int_equal(call.err, 0);
	assert_int_equal(node->dir.domain_of(node->dir.ctx, &call.id), 0);
}

static void test_scripts_that_are_forgotten(void **state)
{
	struct rig_node *node = begin_with_one(state);
	struct dir_id id = publish(node);

	redis_rig_do(&first, "SCRIPT FLUSH");
	(void)publish(node);
	assert_int_equal(info_of(node).repeated, 1);
	assert_true(is_there(node, id));
	assert_int_equal(info_of(node).connections, 1);
}

/* The same process, and another time as a master: it may have taken over what a replica of
 * it had. All find out, and agree. */
static void test_another_life_of_the_same_process(void **state)
{
	struct rig_node *node = begin_with_one(state), *other = rig_add_node(*state);
	struct dir_id id = publish(node);
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);
	uint64_t before = await_epoch(node, 0), after, begun;

	assert_int_equal(await_epoch(other, 0), before);
	begun = info_of(node).epochs_begun;
	redis_rig_do(&first, "DEBUG CHANGE-REPL-ID");
	rig_drop_node(other); /* one that connects anew sees it at once */
	other = rig_add_node(*state);
	after = await_epoch(other, before);
	rig_do(node, &call, DIR_DONE); /* which may know the old life alone until now */
	assert_int_equal(call.epoch, after);
	assert_int_equal(await_epoch(node, before), after);
	assert_true(is_there(other, id));
	/* Neither had reason for one more. */
	assert_int_equal(
		info_of(node).epochs_begun + info_of(other).epochs_begun, begun + 1);
	assert_int_equal(node->epoch[0], other->epoch[0]);
}

static void test_eviction_is_warned_of(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;

	redis_rig_start(&first, NULL);
	use(rig, &first, NULL);
	redis_rig_do(&first, "CONFIG SET maxmemory-policy allkeys-lru");
	node = rig_add_node(rig);
	(void)publish(node);
	assert_non_null(strstr(node->warnings, "noeviction"));
}

static void test_key_of_another_type_is_an_error(void **state)
{
	struct rig_node *node = begin_with_one(state);
	struct dir_rig *rig = *state;
	struct dir_id id = publish(node);
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);

	redis_rig_do(&first, "SET %s:o:%016llx%016llx x", rig->name,
		(unsigned long long)id.word[0], (unsigned long long)id.word[1]);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	assert_non_null(strstr(node->warnings, "WRONGTYPE"));
	call.op = DIR_OP_JOIN;
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	(void)publish(node);
}

/* It leaves alone what is not its own. */
static void test_clusters_share_a_server(void **state)
{
	struct rig_node *node = begin_with_one(state), *stranger;
	struct dir_rig *rig = *state;
	struct dir_redis_config config;
	struct dir_id id = publish(node);

	stranger = rig_add_node(rig);
	dir_redis_close(stranger->redis);
	rig_configure(rig, stranger, &config);
	config.cluster = "another";
	rig_open_redis(stranger, &config);
	assert_false(is_there(stranger, id));
	assert_int_not_equal(await_epoch(stranger, 0), await_epoch(node, 0));
	assert_true(redis_rig_counts(&first, 3, "DBSIZE")); /* an entry, two epochs */
}

static void test_keys_end_by_themselves(void **state)
{
	struct rig_node *node = begin_with_one(state);
	struct dir_rig *rig = *state;
	struct dir_id id = publish(node);
	struct dir_call call = rig_call(node, DIR_OP_TAKE_OUT, id, 0);
	char key[128];

	(void)snprintf(key, sizeof(key), "%s:o:%016llx%016llx", rig->name,
		(unsigned long long)id.word[0], (unsigned long long)id.word[1]);
	assert_true(redis_rig_counts(&first, -1, "TTL %s", key)); /* never */
	call.bury_ns = 3600000 * RIG_MS;
	call.token = 5;
	rig_do(node, &call, DIR_DONE);
	assert_true(redis_rig_counts(&first, 3600, "TTL %s", key));
	call = rig_call(node, DIR_OP_PUBLISH, id, G1 + 1);
	call.flags = DIR_SOFTPIN;
	rig_do(node, &call, DIR_DONE);
	assert_true(redis_rig_counts(&first, -1, "TTL %s", key));
	call.op = DIR_OP_LEAVE; /* what is lost is remembered for a day, */
	call.from = rig_number(node);
	rig_do(node, &call, DIR_DONE);
	assert_true(redis_rig_counts(&first, 86400, "TTL %s", key));
	call.op = DIR_OP_ANNOUNCE; /* unless it is found */
	call.from = 0;
	call.role = DIR_KEEPER;
	rig_do(node, &call, DIR_DONE);
	assert_true(redis_rig_counts(&first, -1, "TTL %s", key));
}

/* ---- who takes its place ------------------------------------------------- */

static void test_a_replica_is_no_server(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;

	redis_rig_start(&first, NULL);
	redis_rig_start(&second, NULL);
	redis_rig_do(&second, "REPLICAOF 127.0.0.1 %d", (int)first.port);
	redis_rig_await(&second, "master_link_status:up", "INFO replication");
	use(rig, &second, &first);
	node = rig_add_node(rig);
	(void)publish(node);
	assert_non_null(strstr(node->warnings, "replica"));
	assert_true(redis_rig_counts(&first, 2, "DBSIZE"));
}

static void test_roles_are_exchanged(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node, *quiet;
	struct dir_id id, lost;
	uint64_t before, after;

	redis_rig_start(&first, NULL);
	redis_rig_start(&second, NULL);
	use(rig, &first, &second);
	node = rig_add_node(rig);
	quiet = rig_add_node(rig);
	id = publish(node);
	before = await_epoch(node, 0);
	assert_int_equal(await_epoch(quiet, 0), before);
	redis_rig_do(&second, "REPLICAOF 127.0.0.1 %d", (int)first.port);
	redis_rig_await(&second, "master_link_status:up", "INFO replication");
	redis_rig_await(&first, "state=online", "INFO replication");
	redis_rig_do(&second, "REPLICAOF NO ONE");
	lost = publish(node); /* at the old one, which will forget it */
	redis_rig_do(&first, "REPLICAOF 127.0.0.1 %d", (int)second.port);
	assert_true(is_there(node, publish(node)));
	after = await_epoch(node, before);
	assert_int_equal(await_epoch(quiet, before), after);
	assert_true(is_there(node, id));
	assert_false(is_there(node, lost));
}

static void test_master_dies_and_a_replica_takes_over(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;
	struct dir_call call;
	struct dir_id id;
	uint64_t before;

	redis_rig_start(&first, NULL);
	redis_rig_start(&second, NULL);
	redis_rig_do(&second, "REPLICAOF 127.0.0.1 %d", (int)first.port);
	redis_rig_await(&second, "master_link_status:up", "INFO replication");
	redis_rig_await(&first, "state=online", "INFO replication");
	use(rig, &first, &second);
	node = rig_add_node(rig);
	id = publish(node);
	before = await_epoch(node, 0);
	redis_rig_do(&first, "SET x 1");
	redis_rig_do(&first, "WAIT 1 0"); /* the replica has it, and what came before */
	redis_rig_kill(&first);
	call = rig_call(node, DIR_OP_LOOKUP, id, 0);
	rig_start(node, &call);
	await_warning(node, "replica");
	redis_rig_do(&second, "REPLICAOF NO ONE");
	rig_wait(rig);
	assert_int_equal(call.err, 0);
	assert_int_equal(call.verdict, DIR_DONE);
	assert_int_not_equal(call.epoch, before);
	assert_int_equal(call.epoch, await_epoch(node, before));
	assert_int_equal(node->told[1], 0); /* it is still the one domain */
}

/* A script of somebody else's runs for too long, and is ended. */
static void test_busy_server_is_waited_for(void **state)
{
	struct rig_node *node = begin_with_one(state);
	redisContext *busy = redisConnect("127.0.0.1", first.port);
	struct dir_call call = publish_call(node, rig_id(node->rig));
	void *reply;

	(void)publish(node);
	redis_rig_do(&first, "CONFIG SET busy-reply-threshold 1");
	assert_true(busy != NULL && busy->err == 0);
	assert_int_equal(redisAppendCommand(busy, "EVAL %s 0", "while true do end"), 0);
	for (int done = 0; done == 0;)
		assert_int_equal(redisBufferWrite(busy, &done), REDIS_OK);
	redis_rig_await(&first, "BUSY", "GET x");
	rig_start(node, &call);
	while (info_of(node).repeated == 0)
		rig_turn(node->rig, loop_boot_ns() + RIG_WAIT_NS);
	redis_rig_do(&first, "SCRIPT KILL");
	rig_wait(node->rig);
	assert_int_equal(call.err, 0);
	assert_int_equal(call.verdict, DIR_DONE);
	assert_int_equal(redisGetReply(busy, &reply), REDIS_OK);
	freeReplyObject(reply);
	redisFree(busy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_password_of_the_url),
	TEST(test_password_of_a_file),
	TEST(test_wrong_password_is_said),
	TEST(test_tls),
	TEST(test_restart_begins_an_epoch),
	TEST(test_calls_outlive_a_server),
	TEST(test_no_server_is_told_and_one_that_comes),
	TEST(test_server_that_comes_late),
	TEST(test_scripts_that_are_forgotten),
	TEST(test_another_life_of_the_same_process),
	TEST(test_eviction_is_warned_of),
	TEST(test_key_of_another_type_is_an_error),
	TEST(test_clusters_share_a_server),
	TEST(test_keys_end_by_themselves),
	TEST(test_a_replica_is_no_server),
	TEST(test_roles_are_exchanged),
	TEST(test_master_dies_and_a_replica_takes_over),
	TEST(test_busy_server_is_waited_for),
};

UNIT_MAIN(tests)
