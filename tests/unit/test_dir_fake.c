/*
 * Tests of dir/dir_redis.h against something that is no Redis: answers that make no sense,
 * and the parts that take answers and addresses to pieces.
 */
#include "base/attr.h"
#include "base/err.h"
#include "dir/redis_reply.h"
#include "dir/redis_slots.h"
#include "dir/redis_url.h"
#include "dir_rig.h"
#include "fake_redis.h"

#include <string.h>

static enum rig_kind own = RIG_OWN;
static struct fake_redis fake;
static struct rig_node *node;

/* A fake, and a node that knows it. Real servers are not needed. */
static int setup(void **state)
{
	struct dir_rig *rig;
	int err;

	*state = &own;
	err = rig_setup(state);
	rig = *state;
	rig->timeout_ns = 300 * RIG_MS;
	fake_open(&fake, &rig->loop);
	(void)snprintf(rig->url, sizeof(rig->url), "redis://127.0.0.1:%u", fake.port);
	node = rig_add_node(rig);
	return err;
}

static int teardown(void **state)
{
	fake_close(&fake);
	return rig_teardown(state);
}

/* ---- addresses ----------------------------------------------------------- */

static int parse(const char *text, struct redis_url *ret)
{
	char why[256] = "";
	int err = redis_url_parse(text, ret, why, sizeof(why));

	assert_int_equal(err != 0, why[0] != '\0');
	assert_null(strstr(why, "secret"));
	return err;
}

static void test_url_that_is_good(void **state)
{
	struct redis_url url;

	(void)state;
	assert_int_equal(parse("redis://a", &url), 0);
	assert_int_equal(url.seed_count, 1);
	assert_string_equal(url.seeds[0].host, "a");
	assert_int_equal(url.seeds[0].port, 6379);
	assert_false(url.tls);
	assert_string_equal(url.password, "");
	assert_int_equal(
		parse("rediss://me:s%40c%2fret:@x@10.0.0.1:1,[fe80::1%eth0]:65535,c/",
			&url),
		0);
	assert_true(url.tls);
	assert_string_equal(url.user, "me");
	assert_string_equal(url.password, "s@c/ret:@x");
	assert_int_equal(url.seed_count, 3);
	assert_string_equal(url.seeds[1].host, "fe80::1%eth0");
	assert_int_equal(url.seeds[1].port, 65535);
	assert_string_equal(url.seeds[2].host, "c");
	assert_int_equal(parse("redis://:pw@a:2", &url), 0);
	assert_string_equal(url.user, "");
	assert_string_equal(url.password, "pw");
	assert_int_equal(parse("redis://pw@a:2", &url), 0);
	assert_string_equal(url.user, "");
	assert_string_equal(url.password, "pw");
}

static void test_url_that_is_bad(void **state)
{
	static const char *const bad[] = {"", "redis:/a", "http://a", "redis://",
		"redis://a,", "redis://,a", "redis://a:0", "redis://a:65536",
		"redis://a:x", "redis://a/1", "redis://a?b", "redis://me:secret%@a",
		"redis://me:secret%4@a", "redis://me:secret%zz@a",
		"redis://me:secret%00@a", "redis://[::1",
		"redis://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"};
	struct redis_url url;
	char text[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (parse(bad[i], &url) != ERR_BAD_ARGUMENT)
			fail_msg("%s is taken", bad[i]);
	}
	(void)snprintf(text, sizeof(text), "redis://%0512d@a", 1);
	assert_int_equal(parse(text, &url), ERR_BAD_ARGUMENT);
	(void)snprintf(text, sizeof(text), "redis://%0300d", 1);
	assert_int_equal(parse(text, &url), ERR_BAD_ARGUMENT);
}

static int open_with(const char *url, const char *cluster, const char *password_file)
{
	struct dir_redis_config config;
	struct dir_redis *redis;
	char detail[256] = "";
	int err;

	rig_configure(node->rig, node, &config);
	config.url = url;
	config.cluster = cluster;
	config.password_file = password_file;
	err = dir_redis_open(&redis, &config, detail, sizeof(detail));
	if (err == 0)
		dir_redis_close(redis);
	else
		assert_true(detail[0] != '\0');
	return err;
}

static void test_configuration_is_checked(void **state)
{
	static const char longest[] =
		"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff.-_Z";

	(void)state;
	assert_int_equal(open_with("redis://a", longest, NULL), 0);
	assert_int_equal(open_with("redis://a", "", NULL), ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("redis://a", "a{b}", NULL), ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("redis://a", "a b", NULL), ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("redis://a",
				 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffff"
				 "fffff.-_Z9",
				 NULL),
		ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("nothing", "a", NULL), ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("redis://me:@a", "a", NULL), ERR_BAD_ARGUMENT);
	assert_int_equal(open_with("redis://a", "a", "/nowhere/at/all"), ERR_IO);
	assert_int_equal(open_with("redis://a", "a", "/dev/null"), ERR_BAD_ARGUMENT);
}

/* ---- slots --------------------------------------------------------------- */

static uint32_t slot(const char *key)
{
	return slot_of_key(key, strlen(key));
}

static void test_slots_of_keys(void **state)
{
	(void)state;
	assert_int_equal(slot(""), 0);
	assert_int_equal(slot("123456789"), 0x31c3 % 16384); /* of the specification */
	assert_int_equal(slot("foo"), 12182);
	assert_int_equal(slot("{foo}.bar"), 12182);
	assert_int_equal(slot("x{foo}{bar}"), 12182);
	assert_int_equal(slot("{}foo"), slot_of_key("{}foo", 5));
	assert_int_not_equal(slot("{}foo"), 12182);
	assert_int_not_equal(slot("{foo"), 12182);
}

static void test_each_slot_has_a_tag_and_a_rank(void **state)
{
	static uint32_t ranks[REDIS_SLOTS];
	char tag[16];

	(void)state;
	for (uint32_t i = 0; i < REDIS_SLOTS; i += 97) {
		(void)snprintf(tag, sizeof(tag), "%u", slot_tag(i));
		assert_int_equal(slot(tag), i);
	}
	for (uint32_t i = 0; i < REDIS_SLOTS; i++)
		ranks[i] = slot_rank(i);
	for (uint32_t i = 0; i < REDIS_SLOTS; i++) {
		for (uint32_t j = 0; j < i; j += 1 + i / 64)
			assert_int_not_equal(ranks[i], ranks[j]);
	}
}

static redisReply *reply_of(const char *bytes)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

static bool map_of(const char *bytes, struct slot_map *ret)
{
	redisReply *reply = reply_of(bytes);
	bool good = slot_map_parse(reply, "asked", ret);

	freeReplyObject(reply);
	return good;
}

static void test_map_that_is_good(void **state)
{
	static struct slot_map map;

	(void)state;
	assert_true(map_of("*0\r\n", &map));
	assert_int_equal(map.master_count, 0);
	assert_int_equal(map.owner[0], SLOT_NONE);
	assert_true(map_of(
		"*3\r\n"
		"*4\r\n:0\r\n:99\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n"
		"*3\r\n$1\r\nr\r\n:8\r\n$1\r\nx\r\n"
		"*3\r\n:100\r\n:100\r\n*3\r\n$-1\r\n:9\r\n$1\r\nb\r\n"
		"*3\r\n:16383\r\n:16383\r\n*4\r\n$1\r\n?\r\n:7\r\n$1\r\na\r\n*0\r\n",
		&map));
	assert_int_equal(map.master_count, 2);
	assert_string_equal(map.masters[0].address.host, "h");
	assert_int_equal(map.masters[0].address.port, 7);
	assert_string_equal(map.masters[1].address.host, "asked");
	assert_int_equal(map.owner[99], 0);
	assert_int_equal(map.owner[100], 1);
	assert_int_equal(map.owner[101], SLOT_NONE);
	assert_int_equal(map.owner[16383], 0);
}

static const char *const bad_maps[] = {
	":1\r\n",
	"+OK\r\n",
	"-ERR This instance has cluster support disabled\r\n",
	"*1\r\n:1\r\n",
	"*1\r\n*2\r\n:0\r\n:1\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n",
	"*1\r\n*3\r\n:-1\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:2\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:0\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:65536\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n$1\r\n7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n:1\r\n:7\r\n$1\r\na\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$0\r\n\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n"
	"$41\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
	"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$120\r\n"
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
	":7\r\n$1\r\na\r\n",
};

static void test_map_that_is_bad(void **state)
{
	static struct slot_map map;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_maps); i++) {
		if (map_of(bad_maps[i], &map))
			fail_msg("%s is taken", bad_maps[i]);
	}
}

static bool redirects(const char *bytes, uint32_t *slot_number, struct address *address)
{
	redisReply *reply = reply_of(bytes);
	bool good = redis_redirect_parse(reply, slot_number, address);

	freeReplyObject(reply);
	return good;
}

static void test_redirections(void **state)
{
	static const char *const bad[] = {"-MOVED\r\n", "-MOVED 1\r\n", "-MOVED 1 \r\n",
		"-MOVED 1 a\r\n", "-MOVED 1 a:\r\n", "-MOVED 1 a:0\r\n",
		"-MOVED 1 a:65536\r\n", "-MOVED x a:1\r\n", "-MOVED 16384 a:1\r\n",
		"-MOVED -1 a:1\r\n"};
	struct address address;
	uint32_t number;

	(void)state;
	assert_true(redirects("-MOVED 3999 127.0.0.1:6381\r\n", &number, &address));
	assert_int_equal(number, 3999);
	assert_string_equal(address.host, "127.0.0.1");
	assert_int_equal(address.port, 6381);
	assert_true(redirects("-ASK 1 fe80::1:1\r\n", &number, &address));
	assert_string_equal(address.host, "fe80::1");
	assert_true(redirects("-MOVED 1 :5\r\n", &number, &address));
	assert_string_equal(address.host, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(redirects(bad[i], &number, &address));
}

/* ---- answers ------------------------------------------------------------- */

static struct dir_call call_of(enum dir_op op)
{
	static struct dir_member members[DIR_HOLDERS];
	static const struct dir_member member = {.node = 1, .endpoint = "a:1"};
	struct dir_call call = rig_call(node, op, rig_id(node->rig), 0x100);

	call.member = &member;
	call.members = members;
	call.role = DIR_KEEPER;
	call.from = 2;
	return call;
}

#define FIELD_G "$1\r\ng\r\n$16\r\n0000000000000100\r\n"

/* What makes no sense of any key. */
static const char *const bad_fields[] = {
	"*1\r\n$1\r\ng\r\n",
	"*2\r\n$1\r\ng\r\n$15\r\n000000000000010\r\n",
	"*2\r\n$1\r\ng\r\n$16\r\n000000000000010g\r\n",
	"*2\r\n$1\r\ng\r\n$16\r\n000000000000010A\r\n",
	"*2\r\n$1\r\ng\r\n$16\r\n0000000000000000\r\n",
	"*2\r\n$1\r\ng\r\n:256\r\n",
	"*2\r\n:1\r\n$16\r\n0000000000000100\r\n",
	"*2\r\n$1\r\ng\r\n$-1\r\n",
	"*2\r\n$1\r\ng\r\n*0\r\n",
	"*4\r\n" FIELD_G "$1\r\nf\r\n$1\r\n4\r\n",
	"*4\r\n" FIELD_G "$1\r\nf\r\n$2\r\n-1\r\n",
	"*4\r\n" FIELD_G "$1\r\nw\r\n$5\r\n65536\r\n",
	"*4\r\n" FIELD_G "$1\r\nw\r\n$0\r\n\r\n",
	"*4\r\n" FIELD_G "$1\r\ns\r\n$1\r\n1\r\n",
	"*4\r\n" FIELD_G "$1\r\nx\r\n$3\r\n1e9\r\n",
	"*4\r\n" FIELD_G "$1\r\nx\r\n$20\r\n99999999999999999999\r\n",
	"*4\r\n" FIELD_G "$17\r\nh0000000000000001\r\n$17\r\n00000000000000010\r\n",
	"*4\r\n" FIELD_G "$17\r\nh0000000000000001\r\n$17\r\n00000000000000014\r\n",
	"*4\r\n" FIELD_G "$17\r\nh0000000000000001\r\n$16\r\n0000000000000001\r\n",
	"*4\r\n" FIELD_G "$17\r\nh000000000000000x\r\n$17\r\n00000000000000011\r\n",
	"*2\r\n$17\r\nh0000000000000001\r\n$17\r\n00000000000000011\r\n",
	"*2\r\n$17\r\nq0000000000000001\r\n$2\r\n-5\r\n",
	"*2\r\n$17\r\nq000000000000000y\r\n$1\r\n5\r\n",
	"*2\r\n$2\r\ntx\r\n$1\r\nt\r\n",
	"*2\r\n$1\r\nt\r\n$1\r\nt\r\n",
};

static const char *const bad_replies[] = {
	"+OK\r\n",
	"$-1\r\n",
	"*-1\r\n",
	"$3\r\nabc\r\n",
	"-ERR something\r\n",
	"-WRONGTYPE Operation against a key\r\n",
	"-\r\n",
	"-MOVEDNOT 1 a:1\r\n",
	"-NOPERM no\r\n",
	"-ERR user_script:1: \x01\x02\x1b[31m\r\n",
};

/* Fields as the answer of a script. */
static const char *in_script(
	const char *fields, const char *verdict, char *text, size_t size)
{
	(void)snprintf(text, size, "*3\r\n%s:1700000000000\r\n%s", verdict, fields);
	return text;
}

/* It fails, and neither the connection nor the next call is the worse for it. */
static void assert_refused(enum dir_op op, const char *command, const char *bytes)
{
	struct dir_call call = call_of(op), next = call_of(DIR_OP_LOOKUP);
	uint32_t connections;

	rig_insist(node, &next, DIR_ABSENT);
	connections = fake.connections;
	node->warnings[0] = '\0';
	fake_says(&fake, command, bytes);
	rig_try(node, &call);
	fake_says(&fake, command, NULL);
	if (call.err != ERR_UNAVAILABLE)
		fail_msg("op %d takes %s", op, bytes);
	assert_int_equal(call.entry.generation, 0);
	assert_int_equal(call.member_count, 0);
	for (const char *at = node->warnings; *at != '\0'; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= ' ');
	rig_insist(node, &next, DIR_ABSENT);
	assert_int_equal(fake.connections, connections);
}

static void test_fields_that_make_no_sense(void **state)
{
	char text[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_fields); i++) {
		assert_refused(DIR_OP_LOOKUP, "HGETALL", bad_fields[i]);
		assert_refused(DIR_OP_JOIN, "EVALSHA",
			in_script(bad_fields[i], ":0\r\n", text, sizeof(text)));
	}
}

static void test_replies_that_make_no_sense(void **state)
{
	static const enum dir_op ops[] = {DIR_OP_PUBLISH, DIR_OP_CONFIRM, DIR_OP_JOIN,
		DIR_OP_LOADED, DIR_OP_LEAVE, DIR_OP_TAKE_OUT, DIR_OP_HAND_OVER,
		DIR_OP_ANNOUNCE, DIR_OP_BURY, DIR_OP_RENEW};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_replies); i++) {
		assert_refused(DIR_OP_LOOKUP, "HGETALL", bad_replies[i]);
		assert_refused(DIR_OP_RESIGN, "HDEL", bad_replies[i]);
		for (size_t op = 0; op < ARRAY_LEN(ops); op++)
			assert_refused(ops[op], "EVALSHA", bad_replies[i]);
	}
	assert_int_not_equal(node->told[0], 0);
}

static void test_verdicts_that_make_no_sense(void **state)
{
	static const struct {
		enum dir_op op;
		const char *verdict;
	} bad[] = {
		{DIR_OP_PUBLISH, ":1\r\n"},
		{DIR_OP_PUBLISH, ":7\r\n"},
		{DIR_OP_CONFIRM, ":2\r\n"},
		{DIR_OP_JOIN, ":3\r\n"},
		{DIR_OP_JOIN, ":8\r\n"},
		{DIR_OP_JOIN, ":-1\r\n"},
		{DIR_OP_JOIN, ":4294967296\r\n"},
		{DIR_OP_JOIN, "$1\r\n0\r\n"},
		{DIR_OP_LOADED, ":1\r\n"},
		{DIR_OP_TAKE_OUT, ":3\r\n"},
		{DIR_OP_ANNOUNCE, ":1\r\n"},
		{DIR_OP_BURY, ":1\r\n"},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_refused(bad[i].op, "EVALSHA",
			in_script("*0\r\n", bad[i].verdict, text, sizeof(text)));
	assert_refused(DIR_OP_JOIN, "EVALSHA", "*3\r\n:0\r\n:-1\r\n*0\r\n");
	assert_refused(DIR_OP_JOIN, "EVALSHA", "*3\r\n:0\r\n$1\r\n1\r\n*0\r\n");
	assert_refused(DIR_OP_JOIN, "EVALSHA", "*2\r\n:0\r\n:1\r\n");
	assert_refused(DIR_OP_JOIN, "EVALSHA", "*3\r\n:0\r\n:1\r\n:1\r\n");
}

static void test_members_that_make_no_sense(void **state)
{
#define MEMBER "*2\r\n$16\r\n0000000000000001\r\n"
	static const char *const bad[] = {
		"*1\r\n$1\r\na\r\n",
		"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		MEMBER "$-1\r\n",
		MEMBER "$0\r\n\r\n",
		MEMBER "$1\r\n \r\n",
		MEMBER "$36\r\n1 0000000000000001 0000000000000001 \r\n",
		MEMBER "$37\r\n1 000000000000000x 0000000000000001 a\r\n",
		MEMBER "$37\r\n1 0000000000000001-0000000000000001 a\r\n",
		MEMBER "$37\r\n1 0000000000000001 0000000000000001-a\r\n",
		MEMBER "$37\r\n123456789012345678901234567890123456 \r\n",
		":8\r\n",
	};
	char text[1024];
	int size;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_refused(DIR_OP_RENEW, "EVALSHA", bad[i]);
	size = snprintf(text, sizeof(text),
		MEMBER "$164\r\n1 0000000000000001 0000000000000001 %0128d\r\n", 1);
	assert_true(size > 0 && (size_t)size < sizeof(text));
	assert_refused(DIR_OP_RENEW, "EVALSHA", text);
	fake_says(&fake, "EVALSHA", "*130\r\n");
}

/* More than an entry can have: no room is written beyond. */
static void test_too_many_of_all(void **state)
{
	static char text[65536];
	int size = 0;

	(void)state;
	size += snprintf(text, sizeof(text), "*132\r\n" FIELD_G);
	for (uint32_t i = 0; i < 65; i++)
		size += snprintf(text + size, sizeof(text) - (size_t)size,
			"$17\r\nh%016x\r\n$17\r\n00000000000000012\r\n", i);
	assert_refused(DIR_OP_LOOKUP, "HGETALL", text);
	size = snprintf(text, sizeof(text), "*3\r\n:0\r\n:1\r\n*130\r\n");
	for (uint32_t i = 0; i < 65; i++)
		size += snprintf(text + size, sizeof(text) - (size_t)size,
			"$17\r\nq%016x\r\n$1\r\n9\r\n", i);
	assert_refused(DIR_OP_PUBLISH, "EVALSHA", text);
	size = snprintf(text, sizeof(text), "*130\r\n");
	for (uint32_t i = 0; i < 65; i++)
		size += snprintf(text + size, sizeof(text) - (size_t)size,
			"$16\r\n%016x\r\n"
			"$37\r\n1 0000000000000001 0000000000000001 a\r\n",
			i);
	assert_refused(DIR_OP_RENEW, "EVALSHA", text);
}

static void test_bytes_with_a_nul(void **state)
{
	static const char with_nul[] = "*2\r\n$1\r\n\0\r\n$16\r\n0000000000000100\r\n";
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	fake_says_bytes(&fake, "HGETALL", with_nul, sizeof(with_nul) - 1);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	fake_says(&fake, "HGETALL", NULL);
	rig_insist(node, &call, DIR_ABSENT);
}

static void test_unknown_fields_are_no_harm(void **state)
{
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	fake_says(&fake, "HGETALL",
		"*8\r\n" FIELD_G "$1\r\ns\r\n$16\r\n0000000000000007\r\n"
		"$4\r\nnext\r\n$1\r\n?\r\n$1\r\nz\r\n$0\r\n\r\n");
	rig_insist(node, &call, DIR_DONE);
	assert_int_equal(call.entry.generation, 0x100);
	assert_int_equal(call.entry.size, 7);
}

/* What is no protocol, or no end of it, breaks the connection; the call goes on over the
 * next, here to its deadline. */
static void test_what_is_no_answer_breaks_the_connection(void **state)
{
	static const char *const bad[] = {"garbage\r\n", "*2147483647\r\n", "*70000\r\n",
		"*99999999999999999999\r\n", "$-2\r\n", "$99999999999999999999\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n"};
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint32_t connections = fake.connections;

		fake_says(&fake, "HGETALL", bad[i]);
		rig_try(node, &call);
		assert_int_equal(call.err, ERR_UNAVAILABLE);
		if (fake.connections < connections + 2)
			fail_msg("%s breaks nothing", bad[i]);
		fake_says(&fake, "HGETALL", NULL);
		rig_insist(node, &call, DIR_ABSENT);
	}
}

/* What the server has not received yet it never will. */
static void test_connection_that_breaks_is_cut(void **state)
{
	struct dir_call call = call_of(DIR_OP_LOOKUP);
	uint32_t before;

	(void)state;
	rig_insist(node, &call, DIR_ABSENT);
	before = fake.resets; /* of who found out where to connect to */
	fake_says(&fake, "HGETALL", "garbage\r\n");
	rig_try(node, &call);
	assert_true(fake.resets > before);
}

static void add_node_with_time(struct dir_rig *rig)
{
	rig->timeout_ns = 0;
	rig_drop_node(node);
	rig->node_count--;
	node = rig_add_node(rig);
}

static bool has_heard(struct dir_rig *rig, void *arg)
{
	(void)rig;
	return strstr(fake.heard, arg) != NULL;
}

static bool is_down(void)
{
	struct dir_redis_info info;

	dir_redis_info(node->redis, &info);
	return info.ready == 0;
}

static char two_joins[] = "EETG", a_lookup[] = "H";

/* What was answered, but under no epoch yet, what was sent, and what was not. */
static void test_what_is_repeated_comes_in_its_order(void **state)
{
	struct dir_call answered[] = {call_of(DIR_OP_JOIN), call_of(DIR_OP_JOIN)};
	struct dir_call sent = call_of(DIR_OP_LOOKUP), unsent = call_of(DIR_OP_JOIN);
	struct dir_rig *rig = *state;
	char text[64];
	int signal;

	add_node_with_time(rig);
	rig_do(node, &sent, DIR_ABSENT);
	fake_says(&fake, "EVALSHA", in_script("*0\r\n", ":1\r\n", text, sizeof(text)));
	fake_says(&fake, "GET", "");
	fake_says(&fake, "HGETALL", "garbage\r\n");
	memset(fake.heard, 0, sizeof(fake.heard));
	for (size_t i = 0; i < ARRAY_LEN(answered); i++)
		rig_start(node, &answered[i]);
	rig_until(rig, has_heard, two_joins);
	rig_start(node, &sent);
	rig_until(rig, has_heard, a_lookup);
	rig_start(node, &unsent);
	while (!is_down())
		assert_int_equal(loop_turn(&rig->loop, true, &signal), 0);
	fake_says(&fake, "GET", NULL);
	fake_says(&fake, "HGETALL", NULL);
	memset(fake.heard, 0, sizeof(fake.heard));
	rig_wait(rig);
	assert_non_null(strstr(fake.heard, "EEHE"));
	assert_int_equal(answered[0].err, 0);
	assert_int_equal(unsent.err, 0);
}

static bool has_repeated(struct dir_rig *rig, void *arg)
{
	const uint64_t *before = arg;
	struct dir_redis_info info;

	(void)rig;
	dir_redis_info(node->redis, &info);
	return info.repeated > *before + 1; /* not just once */
}

/* A server that cannot now is asked again, and the call is none the worse. */
static void test_errors_that_pass(void **state)
{
	static const char *const errors[] = {"-LOADING Redis is loading\r\n",
		"-BUSY Redis is busy\r\n", "-TRYAGAIN Multiple keys\r\n",
		"-CLUSTERDOWN The cluster is down\r\n", "-NOREPLICAS Not enough\r\n",
		"-MISCONF Redis is configured\r\n"};
	struct dir_rig *rig = *state;
	struct dir_call call;

	add_node_with_time(rig);
	call = call_of(DIR_OP_LOOKUP);
	rig_do(node, &call, DIR_ABSENT);
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct dir_redis_info info;
		uint32_t connections = fake.connections;

		dir_redis_info(node->redis, &info);
		fake_says(&fake, "HGETALL", errors[i]);
		rig_start(node, &call);
		rig_until(rig, has_repeated, &info.repeated);
		fake_says(&fake, "HGETALL", NULL);
		rig_wait(rig);
		assert_int_equal(call.err, 0);
		assert_int_equal(fake.connections, connections);
	}
}

static bool has_warned(struct dir_rig *rig, void *arg)
{
	(void)rig;
	return strstr(node->warnings, arg) != NULL;
}

static char nobody_asked[] = "nobody has asked";

static void test_more_answers_than_questions(void **state)
{
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	fake_says(&fake, "GET", "$-1\r\n+what else\r\n");
	rig_start(node, &call);
	rig_until(*state, has_warned, nobody_asked);
	fake_says(&fake, "GET", NULL);
	rig_wait(*state);
	rig_insist(node, &call, DIR_ABSENT);
}

static void test_silence_breaks_the_connection(void **state)
{
	static const char *const commands[] = {"HGETALL", "TIME", "GET"};
	struct dir_call call = call_of(DIR_OP_LOOKUP);
	uint32_t connections;

	(void)state;
	rig_insist(node, &call, DIR_ABSENT);
	connections = fake.connections;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fake_says(&fake, commands[i], "");
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	assert_true(fake.connections > connections);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fake_says(&fake, commands[i], NULL);
	rig_insist(node, &call, DIR_ABSENT);
}

/* ---- greeting ------------------------------------------------------------ */

static void test_greetings_that_make_no_sense(void **state)
{
	static const struct {
		const char *command, *bytes;
	} bad[] = {
		{"INFO", "+OK\r\n"},
		{"INFO", "$0\r\n\r\n"},
		{"INFO", "$8\r\nrun_id:a\r\n"},
		{"INFO", "$28\r\nrun_id:a b\r\nmaster_replid:c\r\n\r\n"},
		{"INFO", "-NOAUTH Authentication required.\r\n"},
		{"SCRIPT", "+OK\r\n"},
		{"SCRIPT", "$3\r\nabc\r\n"},
		{"SCRIPT", "$40\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"},
		{"SCRIPT", "-ERR Error compiling script\r\n"},
	};
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fake_says(&fake, bad[i].command, bad[i].bytes);
		rig_drop_node(node);
		node->rig->node_count--;
		node = rig_add_node(node->rig);
		rig_try(node, &call);
		assert_int_equal(call.err, ERR_UNAVAILABLE);
		fake_says(&fake, bad[i].command, NULL);
		rig_insist(node, &call, DIR_ABSENT);
	}
}

static void test_maps_that_make_no_sense(void **state)
{
	struct dir_call call = call_of(DIR_OP_LOOKUP);
	char good[128];

	(void)state;
	fake.in_cluster = true;
	for (size_t i = 0; i < ARRAY_LEN(bad_maps); i++) {
		uint32_t connections = fake.connections;

		fake_says(&fake, "CLUSTER", bad_maps[i]);
		node->rig->timeout_ns = 50 * RIG_MS;
		rig_drop_node(node);
		node->rig->node_count--;
		node = rig_add_node(node->rig);
		rig_try(node, &call);
		assert_int_equal(call.err, ERR_UNAVAILABLE);
		assert_true(fake.connections > connections);
	}
	(void)snprintf(good, sizeof(good),
		"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$0\r\n\r\n:%u\r\n$1\r\na\r\n",
		fake.port);
	fake_says(&fake, "CLUSTER", good);
	node->rig->timeout_ns = 5000 * RIG_MS;
	rig_drop_node(node);
	node->rig->node_count--;
	node = rig_add_node(node->rig);
	rig_insist(node, &call, DIR_ABSENT);
}

/* ---- epochs -------------------------------------------------------------- */

static void test_epochs_that_make_no_sense(void **state)
{
	static const char *const bad[] = {"$5\r\nepoch\r\n",
		"$22\r\n0000000000000007 a b c\r\n",
		"$26\r\n0000000000000000 aa11 bb22\r\n"};
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	rig_insist(node, &call, DIR_ABSENT);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fake_says(&fake, "GET", bad[i]);
		rig_insist(node, &call, DIR_ABSENT);
		assert_int_not_equal(call.epoch, 0); /* the fake takes a new one */
		fake_says(&fake, "GET", NULL);
		rig_insist(node, &call, DIR_ABSENT);
		assert_int_equal(call.epoch, node->epoch[0]);
	}
}

/* The order on which all that an epoch proves depends. */
static void test_epoch_is_read_behind_all_commands(void **state)
{
	struct dir_call calls[] = {
		call_of(DIR_OP_LOOKUP), call_of(DIR_OP_RESIGN), call_of(DIR_OP_LOOKUP)};
	struct dir_call other = call_of(DIR_OP_LOOKUP);

	rig_insist(node, &other, DIR_ABSENT);
	memset(fake.heard, 0, sizeof(fake.heard));
	fake_says(&fake, "HDEL", ":1\r\n");
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		rig_start(node, &calls[i]);
	rig_wait(*state);
	/* HGETALL, HDEL, HGETALL, TIME, GET; perhaps between two others. */
	assert_non_null(strstr(fake.heard, "HHHTG"));
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		assert_int_equal(calls[i].err, 0);
}

/* It began between a command and the read: the answer is told with what was read. */
static void test_epoch_is_the_one_that_was_read(void **state)
{
	struct dir_call call = call_of(DIR_OP_LOOKUP);
	uint64_t before;

	(void)state;
	rig_insist(node, &call, DIR_ABSENT);
	before = call.epoch;
	(void)snprintf(fake.epoch, sizeof(fake.epoch), "%016x aa11 bb22", 77);
	rig_insist(node, &call, DIR_ABSENT);
	assert_int_equal(call.epoch, 77);
	assert_int_not_equal(before, 77);
	assert_int_equal(node->epoch[0], 77);
	(void)snprintf(fake.epoch, sizeof(fake.epoch), "%016x aa11 bb23", 78);
	rig_insist(node, &call, DIR_ABSENT); /* of another life: it does not count */
	assert_int_not_equal(call.epoch, 77);
	assert_int_not_equal(call.epoch, 78);
	assert_int_equal(node->epoch[0], call.epoch);
}

/* It is known what was done, but under no epoch. */
static void test_epochs_that_cannot_be_read(void **state)
{
	static const char *const bad[] = {"-ERR no\r\n", ":5\r\n", "*0\r\n", "+x\r\n"};
	struct dir_call call = call_of(DIR_OP_LOOKUP);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fake_says(&fake, "GET", bad[i]);
		rig_insist(node, &call, DIR_ABSENT);
		assert_int_equal(call.epoch, 0);
	}
	fake_says(&fake, "GET", NULL);
	fake.epoch[0] = '\0';
	fake_says(&fake, "EVAL", "-ERR no\r\n");
	rig_insist(node, &call, DIR_ABSENT);
	assert_int_equal(call.epoch, 0);
	fake_says(&fake, "EVAL", "$1\r\nx\r\n"); /* until the call's time is over */
	rig_insist(node, &call, DIR_ABSENT);
	assert_int_equal(call.epoch, 0);
	fake_says(&fake, "EVAL", NULL);
	rig_insist(node, &call, DIR_ABSENT);
	assert_int_not_equal(call.epoch, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_url_that_is_good),
	cmocka_unit_test(test_url_that_is_bad),
	TEST(test_configuration_is_checked),
	cmocka_unit_test(test_slots_of_keys),
	cmocka_unit_test(test_each_slot_has_a_tag_and_a_rank),
	cmocka_unit_test(test_map_that_is_good),
	cmocka_unit_test(test_map_that_is_bad),
	cmocka_unit_test(test_redirections),
	TEST(test_fields_that_make_no_sense),
	TEST(test_replies_that_make_no_sense),
	TEST(test_verdicts_that_make_no_sense),
	TEST(test_members_that_make_no_sense),
	TEST(test_too_many_of_all),
	TEST(test_bytes_with_a_nul),
	TEST(test_unknown_fields_are_no_harm),
	TEST(test_what_is_no_answer_breaks_the_connection),
	TEST(test_connection_that_breaks_is_cut),
	TEST(test_what_is_repeated_comes_in_its_order),
	TEST(test_errors_that_pass),
	TEST(test_more_answers_than_questions),
	TEST(test_silence_breaks_the_connection),
	TEST(test_greetings_that_make_no_sense),
	TEST(test_maps_that_make_no_sense),
	TEST(test_epoch_is_read_behind_all_commands),
	TEST(test_epoch_is_the_one_that_was_read),
	TEST(test_epochs_that_make_no_sense),
	TEST(test_epochs_that_cannot_be_read),
};

UNIT_MAIN(tests)
