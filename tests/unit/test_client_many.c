/*
 * Tests of the client library against a daemon that a test scripts: what it sends where
 * many objects are meant, by prefix, by expression or page by page; how a put that replaces
 * is asked for; and what becomes of a put that the daemon could not publish.
 */
#include "client_script.h"

#define KEY(text) cenote_key(text)

/* ---- replace ------------------------------------------------------------- */

/* Answers a put, in a batch or alone; script.op counts those that replace. */
static size_t answer_put(struct script *script, const void *data, size_t size, void *out)
{
	const struct msg_done done = {.generation = 7};
	const struct msg_put_started started = {.slot = 3, .life = 9, .off = 8192};
	struct msg_put_start start;
	struct msg_put put;
	enum msg_type type;

	CHECK(msg_type(data, size, &type) == 0);
	script->step++;
	if (type == MSG_TYPE_PUT_START) {
		CHECK(msg_put_start_decode(data, size, &start) == 0);
		script->op += (start.flags & PUT_REPLACE) != 0;
		return msg_put_started_encode(out, 1024, &started);
	}
	if (type == MSG_TYPE_PUT) {
		CHECK(msg_put_decode(data, size, &put) == 0);
		script->op += (put.flags & PUT_REPLACE) != 0;
	}
	return msg_done_encode(out, 1024, &done);
}

static void serve_puts(struct request *request)
{
	struct script *script = request->script;
	unsigned char one[1024];
	struct msg_batch batch;
	struct msg_bytes next;
	struct msg_pack pack;
	size_t size;

	if (request->type != MSG_TYPE_BATCH) {
		size = answer_put(script, request->data, request->size, script->out);
		reply(request, size);
		return;
	}
	CHECK(msg_batch_decode(request->data, request->size, &batch) == 0);
	msg_pack_init(&pack, script->out, MSG_SIZE_MAX);
	while (msg_unpack(&batch.requests, &next) == 1) {
		size = answer_put(script, next.data, next.size, one);
		memcpy(msg_pack_tail(&pack), one, size);
		msg_pack_add(&pack, size);
	}
	reply(request, msg_pack_finish(&pack, MSG_TYPE_BATCH_DONE));
}

/* Puts of every kind: small and large, alone and in batches, in two steps. */
static void put_all(struct script *script, const struct cenote_put_options *options)
{
	static const char bytes[1000];
	struct cenote_part parts[] = {{bytes, 10}, {bytes, 1000}};
	struct cenote_put_item puts[] = {
		{.key = KEY("a"), .parts = &parts[0], .count = 1},
		{.key = KEY("b"), .parts = &parts[1], .count = 1}};
	struct cenote_create_item creates[] = {{.key = KEY("a"), .size = 5}};
	struct cenote_writer writer;

	assert_int_equal(cenote_put(script->store, KEY("k"), bytes, 10, options), 0);
	assert_int_equal(cenote_put(script->store, KEY("k"), bytes, 1000, options), 0);
	assert_int_equal(cenote_put_parts(script->store, KEY("k"), parts, 2, options), 0);
	assert_int_equal(cenote_create(script->store, KEY("k"), 10, options, &writer), 0);
	assert_int_equal(cenote_put_batch(script->store, puts, 2, options), 0);
	assert_int_equal(cenote_create_batch(script->store, creates, 1, options), 0);
}

static void test_replace_is_asked_for(void **state)
{
	struct script *script = *state;
	struct cenote_put_options options = {.softpin = true};

	script->serve = serve_puts;
	assert_int_equal(connect_to(script), 0);
	put_all(script, &options);
	assert_int_equal(script->op, 0);
	options.replace = true;
	put_all(script, &options);
	/* One a put; three puts were also ended. */
	assert_int_equal(script->op, 7);
	assert_int_equal(script->step, 2 * (7 + 3));
}

/* ---- a put that could not be published ----------------------------------- */

static void serve_no_directory(struct request *request)
{
	if (request->type == MSG_TYPE_PUT_START)
		reply_started(request, 8192);
	else if (request->type == MSG_TYPE_PUT_END)
		reply_error(request, CENOTE_ERR_UNAVAILABLE, "no directory");
	else
		reply_done(request);
}

/* It is the daemon's own word, so there is nothing that could be sealed again. */
static void test_unavailable_of_a_daemon_is_the_end(void **state)
{
	struct script *script = *state;
	static const char bytes[1000];
	struct cenote_writer writer;

	script->serve = serve_no_directory;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_put(script->store, KEY("k"), bytes, 1000, NULL),
		CENOTE_ERR_UNAVAILABLE);
	assert_string_equal(cenote_error_detail(), "no directory");
	assert_int_equal(cenote_create(script->store, KEY("k"), 1000, NULL, &writer), 0);
	assert_int_equal(cenote_seal(script->store, &writer), CENOTE_ERR_UNAVAILABLE);
	assert_null(writer.data);
	assert_int_equal(cenote_seal(script->store, &writer), CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(script->aborts, 0);
}

/* In a batch there is no time to be published in; alone there is. */
static size_t answer_in_time(
	struct script *script, const void *data, size_t size, void *out)
{
	const struct msg_error error = {.code = CENOTE_ERR_UNAVAILABLE};
	const struct msg_done done = {.generation = 7};
	struct msg_put put;

	CHECK(msg_put_decode(data, size, &put) == 0);
	if (put.timeout_ns < 1000000000u)
		return msg_error_encode(out, 1024, &error);
	script->step++;
	return msg_done_encode(out, 1024, &done);
}

static void serve_slow_directory(struct request *request)
{
	struct script *script = request->script;
	unsigned char one[1024];
	struct msg_batch batch;
	struct msg_bytes next;
	struct msg_pack pack;
	size_t size;

	if (request->type != MSG_TYPE_BATCH) {
		reply(request, answer_in_time(script, request->data, request->size,
				       script->out));
		return;
	}
	CHECK(msg_batch_decode(request->data, request->size, &batch) == 0);
	msg_pack_init(&pack, script->out, MSG_SIZE_MAX);
	while (msg_unpack(&batch.requests, &next) == 1) {
		size = answer_in_time(script, next.data, next.size, one);
		memcpy(msg_pack_tail(&pack), one, size);
		msg_pack_add(&pack, size);
	}
	reply(request, msg_pack_finish(&pack, MSG_TYPE_BATCH_DONE));
}

static void test_puts_of_a_batch_have_time_to_be_published(void **state)
{
	struct script *script = *state;
	struct cenote_part part = {"value", 5};
	struct cenote_put_item puts[] = {{.key = KEY("a"), .parts = &part, .count = 1},
		{.key = KEY("b"), .parts = &part, .count = 1}};

	script->serve = serve_slow_directory;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_put_batch(script->store, puts, 2, NULL), 0);
	assert_int_equal(puts[0].result, 0);
	assert_int_equal(puts[1].result, 0);
	assert_int_equal(script->step, 2);
}

/* ---- list ---------------------------------------------------------------- */

#define FAR_CURSOR ((3ull << 40) + 7)

/* A page of these keys, up to NULL, with the rest of the list at `next`. */
static void reply_page(struct request *request, const char *const *keys, uint64_t next)
{
	unsigned char entries[4096];
	struct msg_listed msg = {.next = next};
	size_t used = 0;

	for (; *keys != NULL; keys++, msg.count++) {
		const struct msg_entry entry = {.key = {*keys, strlen(*keys)}, .size = 9};

		used += msg_entry_encode(entries + used, sizeof(entries) - used, &entry);
	}
	msg.entries = (struct msg_bytes){entries, used};
	reply(request, msg_listed_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static const char *const page_1[] = {"a/1", "a/2", "b/10", NULL};
static const char *const page_2[] = {NULL};
static const char *const page_3[] = {"c/1\n2", "\xff/1", NULL};

/* Cursors of more than 32 bits, one of which is all ones in the low half. */
static void serve_pages(struct request *request)
{
	struct msg_list list;

	CHECK(msg_list_decode(request->data, request->size, &list) == 0);
	switch (list.cursor) {
	case 0:
		reply_page(request, page_1, UINT32_MAX);
		return;
	case UINT32_MAX:
		reply_page(request, page_2, FAR_CURSOR);
		return;
	case FAR_CURSOR:
		reply_page(request, page_3, UINT64_MAX);
		return;
	default:
		reply_error(request, CENOTE_ERR_INTERNAL, "no such cursor");
	}
}

struct seen {
	char keys[256];
	unsigned count, stop_at;
};

static int see(void *arg, const struct cenote_list_entry *entry)
{
	struct seen *seen = arg;

	assert_int_equal(entry->key_size, strlen(entry->key));
	assert_int_equal(entry->size, 9);
	(void)strcat(strcat(seen->keys, entry->key), " ");
	return ++seen->count == seen->stop_at ? 42 : 0;
}

static void test_list_goes_on_at_the_cursor(void **state)
{
	struct script *script = *state;
	struct seen seen = {.count = 0};

	script->serve = serve_pages;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_list(script->store, KEY(""), see, &seen), 0);
	assert_string_equal(seen.keys, "a/1 a/2 b/10 c/1\n2 \xff/1 ");
	seen = (struct seen){.stop_at = 2};
	assert_int_equal(cenote_list(script->store, KEY(""), see, &seen), 42);
	assert_string_equal(seen.keys, "a/1 a/2 ");
}

static void expect_match(struct script *script, const char *pattern, const char *keys)
{
	struct seen seen = {.count = 0};

	assert_int_equal(
		cenote_list_regex(script->store, KEY(""), pattern, see, &seen), 0);
	assert_string_equal(seen.keys, keys);
}

static void test_list_regex_matches_any_part(void **state)
{
	struct script *script = *state;
	struct seen seen = {.stop_at = 1};

	script->serve = serve_pages;
	assert_int_equal(connect_to(script), 0);
	expect_match(script, "", "a/1 a/2 b/10 c/1\n2 \xff/1 ");
	expect_match(script, "1", "a/1 b/10 c/1\n2 \xff/1 ");
	expect_match(script, "^a", "a/1 a/2 ");
	expect_match(script, "1$", "a/1 \xff/1 ");
	expect_match(script, "^[ab]/[0-9]+$", "a/1 a/2 b/10 ");
	expect_match(script, "/2$|c", "a/2 c/1\n2 ");
	expect_match(script, "1.2", "c/1\n2 "); /* a newline is a byte as any other */
	expect_match(script, "x", "");
	assert_int_equal(cenote_list_regex(script->store, KEY(""), "a", see, &seen), 42);
	assert_string_equal(seen.keys, "a/1 ");
}

static void serve_never(struct request *request)
{
	request->script->step++;
	reply_error(request, CENOTE_ERR_INTERNAL, "nothing was to be asked");
}

static void test_bad_patterns_and_prefixes_are_told(void **state)
{
	static const char *const bad[] = {"(", "[a", "a{2,1}", "a\\"};
	static char long_text[CENOTE_KEY_LIMIT + 1];
	struct script *script = *state;
	struct cenote_key nul = {"a\0b", 3}, null = {NULL, 3};
	struct cenote_key too_long = {long_text, sizeof(long_text)};
	struct seen seen = {.count = 0};
	uint64_t count = 77;

	memset(long_text, 'k', sizeof(long_text));
	script->serve = serve_never;
	assert_int_equal(connect_to(script), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(cenote_remove_regex(script->store, bad[i], &count),
			CENOTE_ERR_BAD_ARGUMENT);
		assert_non_null(strstr(cenote_error_detail(), bad[i]));
		assert_int_equal(
			cenote_list_regex(script->store, KEY(""), bad[i], see, &seen),
			CENOTE_ERR_BAD_ARGUMENT);
	}
	assert_int_equal(cenote_remove_regex(script->store, NULL, &count),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_list_regex(script->store, KEY(""), "a", NULL, NULL),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(
		cenote_list(script->store, null, see, &seen), CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_remove_prefix(script->store, null, &count),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(
		cenote_remove_prefix(script->store, nul, &count), CENOTE_ERR_BAD_KEY);
	assert_int_equal(cenote_remove_prefix(script->store, too_long, &count),
		CENOTE_ERR_BAD_KEY);
	assert_int_equal(script->step, 0);
	assert_int_equal(count, 77);
	assert_int_equal(seen.count, 0);
}

/* ---- remove many --------------------------------------------------------- */

/* The first answer is lost: it is asked again. */
static void serve_prefix(struct request *request)
{
	const struct msg_done done = {.generation = 1ull << 33};
	struct msg_remove_prefix msg;

	CHECK(msg_remove_prefix_decode(request->data, request->size, &msg) == 0);
	CHECK(msg.prefix.size == 2 && memcmp(msg.prefix.data, "a/", 2) == 0);
	if (request->script->step++ == 0)
		hang_up(request);
	else if (request->script->step < 4)
		reply(request,
			msg_done_encode(request->script->out, MSG_SIZE_MAX, &done));
	else
		reply_error(request, CENOTE_ERR_UNAVAILABLE, "a node is away");
}

static void test_remove_prefix_is_one_call(void **state)
{
	struct script *script = *state;
	uint64_t count = 77;

	script->serve = serve_prefix;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_remove_prefix(script->store, KEY("a/"), &count), 0);
	assert_true(count == 1ull << 33);
	assert_int_equal(script->step, 2);
	assert_int_equal(cenote_remove_prefix(script->store, KEY("a/"), NULL), 0);
	assert_int_equal(cenote_remove_prefix(script->store, KEY("a/"), &count),
		CENOTE_ERR_UNAVAILABLE);
	assert_string_equal(cenote_error_detail(), "a node is away");
	assert_true(count == 1ull << 33);
}

/* The second key vanished since it was listed; what the third is answered is the test's. */
static void serve_matches(struct request *request)
{
	const struct msg_error absent = {.code = CENOTE_ERR_NOT_FOUND};
	const struct msg_error broken = {.code = CENOTE_ERR_IO};
	const struct msg_done done = {.generation = 7};
	struct script *script = request->script;
	struct msg_batch batch;
	struct msg_pack pack;

	if (request->type == MSG_TYPE_LIST) {
		serve_pages(request);
		return;
	}
	CHECK(msg_batch_decode(request->data, request->size, &batch) == 0);
	msg_pack_init(&pack, script->out, MSG_SIZE_MAX);
	for (uint32_t i = 0; i < batch.count; i++) {
		void *tail = msg_pack_tail(&pack);
		size_t room = msg_pack_room(&pack);

		msg_pack_add(&pack, i == 1 || i == 3
					    ? msg_error_encode(tail, room, &absent)
				    : i == 2 && script->op == 1
					    ? msg_error_encode(tail, room, &broken)
					    : msg_done_encode(tail, room, &done));
	}
	script->step += (int)batch.count;
	reply(request, msg_pack_finish(&pack, MSG_TYPE_BATCH_DONE));
}

static void test_remove_regex_counts_what_it_removed(void **state)
{
	struct script *script = *state;
	uint64_t count = 77;

	script->serve = serve_matches;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_remove_regex(script->store, "1", &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(script->step, 4);
	assert_int_equal(cenote_remove_regex(script->store, "nothing", &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(script->step, 4);
}

static void test_remove_regex_tells_what_it_left(void **state)
{
	struct script *script = *state;
	uint64_t count = 77;

	script->op = 1;
	script->serve = serve_matches;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_remove_regex(script->store, "1", &count), CENOTE_ERR_IO);
	assert_non_null(strstr(cenote_error_detail(), "1 of 4"));
	assert_int_equal(count, 77);
	assert_int_equal(script->step, 4);
}

static const struct CMUnitTest tests[] = {
	CASE(test_replace_is_asked_for),
	CASE(test_unavailable_of_a_daemon_is_the_end),
	CASE(test_puts_of_a_batch_have_time_to_be_published),
	CASE(test_list_goes_on_at_the_cursor),
	CASE(test_list_regex_matches_any_part),
	CASE(test_bad_patterns_and_prefixes_are_told),
	CASE(test_remove_prefix_is_one_call),
	CASE(test_remove_regex_counts_what_it_removed),
	CASE(test_remove_regex_tells_what_it_left),
};

UNIT_MAIN(tests)
