/*
 * Tests of the client library against a daemon that a test scripts: what it sends is
 * wrong, late, lost, or of another pool.
 */
#include "client_script.h"

/* ---- attach -------------------------------------------------------------- */

static void test_welcome_lies(void **state)
{
	struct script *script = *state;
	const struct msg_welcome honest = script->welcome;

	script->welcome.version = WIRE_VERSION + 1;
	assert_int_equal(connect_to(script), CENOTE_ERR_VERSION);
	script->welcome = honest;
	script->welcome.pool_size *= 2;
	assert_int_equal(connect_to(script), CENOTE_ERR_PROTOCOL);
	script->welcome = honest;
	script->welcome.index_size -= 4096;
	assert_int_equal(connect_to(script), CENOTE_ERR_PROTOCOL);
	script->welcome = honest;
	script->welcome.holds_size = 0;
	assert_int_equal(connect_to(script), CENOTE_ERR_PROTOCOL);
	script->welcome = honest;
	script->dir.share.header->version = 9;
	assert_int_equal(connect_to(script), CENOTE_ERR_VERSION);
	script->dir.share.header->version = SHARE_VERSION;
	assert_int_equal(connect_to(script), 0);
}

static void serve_hanging_up(struct request *request)
{
	hang_up(request);
}

static void expect_detail(const char *part)
{
	if (strstr(cenote_error_detail(), part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", cenote_error_detail(), part);
}

static void test_a_welcome_that_is_broken_is_told_in_words(void **state)
{
	struct script *script = *state;

	script->serve = serve_hanging_up;
	script->long_welcome = true;
	assert_int_equal(connect_to(script), CENOTE_ERR_PROTOCOL);
	expect_detail("sent a broken message");
	script->long_welcome = false;
	assert_int_equal(connect_to(script), 0);
	/* The same where a connection is made anew. */
	script->long_welcome = true;
	assert_int_equal(
		cenote_remove(script->store, cenote_key("")), CENOTE_ERR_BAD_KEY);
	assert_int_equal(
		cenote_remove(script->store, cenote_key("k")), CENOTE_ERR_PROTOCOL);
	expect_detail("sent a broken message");
}

/* ---- get ----------------------------------------------------------------- */

static void serve_found(struct request *request)
{
	if (request->type == MSG_TYPE_REMOVE) {
		reply_done(request);
		return;
	}
	switch (request->script->step++) {
	case 0: /* no such slot */
		reply_found(request, 1u << 20, 5);
		return;
	case 1: /* bytes outside the pool */
		reply_found(request, 2, 5);
		return;
	case 2: /* gone again, and then there */
		reply_found(request, 4, 5);
		return;
	default:
		reply_found(request, 3, 5);
		return;
	}
}

static void test_found(void **state)
{
	struct script *script = *state;
	struct cenote_view view = {.size = 99};

	script->serve = serve_found;
	assert_int_equal(connect_to(script), 0);
	place(script, 2, "k", POOL_SIZE - 100, 101, SLOT_READY);
	place(script, 3, "k", 4096, 5, SLOT_READY);
	place(script, 4, "k", 0, 5, SLOT_CONDEMNED);
	memcpy(script->dir.share.pool + 4096, "hello", 5);

	assert_int_equal(cenote_get(script->store, cenote_key("k"), NULL, &view),
		CENOTE_ERR_PROTOCOL);
	assert_int_equal(cenote_get(script->store, cenote_key("k"), NULL, &view),
		CENOTE_ERR_CORRUPT);
	assert_int_equal(counts_of(script), 0);
	assert_int_equal(view.size, 99);
	assert_int_equal(cenote_get(script->store, cenote_key("k"), NULL, &view), 0);
	assert_int_equal(script->step, 4);
	assert_int_equal(view.size, 5);
	assert_int_equal(view.generation, 77);
	assert_memory_equal(view.data, "hello", 5);
	assert_int_equal(counts_of(script), 1);
	assert_int_equal(cenote_release(script->store, &view), 0);
	assert_int_equal(counts_of(script), 0);
	/* One-way messages are served before what is sent behind them. */
	assert_int_equal(cenote_remove(script->store, cenote_key("k")), 0);
	assert_int_equal(script->unpins, 3);
}

static void serve_error(struct request *request)
{
	if (request->script->step++ == 0)
		reply_error(request, -12345, "words of the daemon");
	else
		reply_error(request, 5, "no error");
}

static void test_error_is_passed_on(void **state)
{
	struct script *script = *state;

	script->serve = serve_error;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_remove(script->store, cenote_key("k")), -12345);
	assert_string_equal(cenote_error_detail(), "words of the daemon");
	assert_int_equal(
		cenote_remove(script->store, cenote_key("k")), CENOTE_ERR_PROTOCOL);
}

/* ---- put ----------------------------------------------------------------- */

/* Every first answer is lost; what is repeated must be the same. */
static void serve_losing(struct request *request)
{
	struct script *script = request->script;
	struct msg_put_start start;
	struct msg_put_end end;

	switch (script->step++) {
	case 0:
		CHECK(msg_put_start_decode(request->data, request->size, &start) == 0);
		script->op = start.op;
		hang_up(request);
		return;
	case 1:
		CHECK(msg_put_start_decode(request->data, request->size, &start) == 0);
		CHECK(start.op == script->op && start.size == 1000);
		reply_started(request, 8192);
		return;
	case 2:
		hang_up(request);
		return;
	default:
		CHECK(msg_put_end_decode(request->data, request->size, &end) == 0);
		CHECK(end.slot == 3 && end.life == 9);
		reply_done(request);
		return;
	}
}

static void test_lost_answers(void **state)
{
	struct script *script = *state;
	char bytes[1000];

	memset(bytes, 6, sizeof(bytes));
	script->serve = serve_losing;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(
		cenote_put(script->store, cenote_key("k"), bytes, 1000, NULL), 0);
	assert_int_equal(script->step, 4);
	assert_memory_equal(script->dir.share.pool + 8192, bytes, 1000);
	assert_int_equal(script->aborts, 0);
}

/* The daemon ends as it is told of the end, and knows nothing of the put then. */
static void serve_forgetting(struct request *request)
{
	struct script *script = request->script;

	if (request->type == MSG_TYPE_PUT_START)
		reply_started(request, 8192);
	else if (request->type == MSG_TYPE_PUT_END && script->step++ == 0)
		hang_up(request);
	else
		reply_error(request, CENOTE_ERR_NOT_FOUND, "no put");
}

static void test_put_of_unknown_end(void **state)
{
	struct script *script = *state;
	char bytes[1000] = {0};

	script->serve = serve_forgetting;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_put(script->store, cenote_key("k"), bytes, 1000, NULL),
		CENOTE_ERR_UNAVAILABLE);
	assert_non_null(strstr(cenote_error_detail(), "not known"));
	/* That was its own word. */
	assert_int_equal(cenote_put(script->store, cenote_key("k"), bytes, 1000, NULL),
		CENOTE_ERR_NOT_FOUND);
	assert_int_equal(script->aborts, 0);
}

static void serve_beyond(struct request *request)
{
	reply_started(request, POOL_SIZE - 999);
}

static void test_run_outside_pool(void **state)
{
	struct script *script = *state;
	char bytes[1000] = {0};

	script->serve = serve_beyond;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_put(script->store, cenote_key("k"), bytes, 1000, NULL),
		CENOTE_ERR_PROTOCOL);
}

/* A put that is never answered, though it was begun. */
static void serve_silent(struct request *request)
{
	struct slot *slot = &request->script->dir.share.slots[6];
	struct msg_put_start start;

	if (request->type == MSG_TYPE_REMOVE) {
		reply_done(request);
		return;
	}
	CHECK(msg_put_start_decode(request->data, request->size, &start) == 0);
	slot->writer = client_ref(0, 1);
	slot->op = start.op;
	place(request->script, 6, "k", 0, 1000, SLOT_WRITING);
}

static void test_orphan(void **state)
{
	struct script *script = *state;
	struct cenote_put_options options = {.timeout_ms = 1};
	char bytes[1000] = {0};

	script->serve = serve_silent;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_put(script->store, cenote_key("k"), bytes, sizeof(bytes),
				 &options),
		CENOTE_ERR_TIMEOUT);
	assert_int_equal(script->aborts, 0);
	/* The next call that works has it aborted before. */
	assert_int_equal(cenote_remove(script->store, cenote_key("x")), 0);
	assert_int_equal(script->aborts, 1);
	assert_int_equal(cenote_remove(script->store, cenote_key("x")), 0);
	assert_int_equal(script->aborts, 1);
}

/* ---- deadlines ----------------------------------------------------------- */

static _Atomic uint64_t end_timeout_ns;

static void serve_two_steps(struct request *request)
{
	struct msg_put_end end;

	if (request->type == MSG_TYPE_PUT_START) {
		reply_started(request, 0);
		return;
	}
	CHECK(msg_put_end_decode(request->data, request->size, &end) == 0);
	end_timeout_ns = end.timeout_ns;
	reply_done(request);
}

/* What the daemon is told at the seal, of a put with this deadline. */
static uint64_t seal_timeout_of(struct script *script, int64_t timeout_ms)
{
	const struct cenote_put_options options = {.timeout_ms = timeout_ms};
	struct cenote_writer writer;

	assert_int_equal(
		cenote_create(script->store, cenote_key("w"), 100, &options, &writer), 0);
	assert_int_equal(cenote_seal(script->store, &writer), 0);
	return end_timeout_ns;
}

static void test_a_seal_has_the_deadline_of_its_put(void **state)
{
	struct script *script = *state;
	const uint64_t second = 1000000000u;

	script->serve = serve_two_steps;
	assert_int_equal(connect_to(script), 0);
	assert_in_range(seal_timeout_of(script, 0), 11 * second, 60 * second);
	assert_in_range(seal_timeout_of(script, 3600000), 61 * second, 3600 * second);
	assert_true(seal_timeout_of(script, CENOTE_FOREVER) == UINT64_MAX);
	assert_in_range(seal_timeout_of(script, 1), 1, second);
}

/* ---- another pool -------------------------------------------------------- */

static void serve_other_pool(struct request *request)
{
	if (request->type == MSG_TYPE_PUT_START) {
		reply_started(request, 0);
	} else if (request->type == MSG_TYPE_GET) {
		reply_found(request, 3, 5);
	} else if (request->type == MSG_TYPE_PUT_END) {
		/* The daemon is another one from here on. */
		request->script->welcome.pool_id[0] ^= 1;
		hang_up(request);
	} else {
		reply_done(request);
	}
}

static void test_other_pool(void **state)
{
	struct script *script = *state;
	struct cenote_writer writer;
	struct cenote_view view;

	script->serve = serve_other_pool;
	assert_int_equal(connect_to(script), 0);
	place(script, 3, "k", 4096, 5, SLOT_READY);
	memcpy(script->dir.share.pool + 4096, "hello", 5);
	assert_int_equal(cenote_get(script->store, cenote_key("k"), NULL, &view), 0);
	assert_int_equal(
		cenote_create(script->store, cenote_key("w"), 100, NULL, &writer), 0);
	assert_int_equal(cenote_seal(script->store, &writer), CENOTE_ERR_STALE);
	assert_null(writer.data);
	/* Attached anew; the old view is still whole, and ends where it began. */
	assert_int_equal(cenote_remove(script->store, cenote_key("x")), 0);
	assert_memory_equal(view.data, "hello", 5);
	assert_int_equal(counts_of(script), 1);
	assert_int_equal(cenote_release(script->store, &view), 0);
	assert_int_equal(counts_of(script), 0);
}

/* ---- batches, lists ------------------------------------------------------ */

/* Answers for all requests but the last. */
static void serve_short_batch(struct request *request)
{
	struct msg_done done = {.generation = 1};
	struct msg_batch batch;
	struct msg_pack pack;

	CHECK(msg_batch_decode(request->data, request->size, &batch) == 0);
	msg_pack_init(&pack, request->script->out, MSG_SIZE_MAX);
	for (uint32_t i = 0; i + 1 < batch.count; i++)
		msg_pack_add(&pack, msg_done_encode(msg_pack_tail(&pack),
					    msg_pack_room(&pack), &done));
	reply(request, msg_pack_finish(&pack, MSG_TYPE_BATCH_DONE));
}

static void test_short_batch(void **state)
{
	struct script *script = *state;
	struct cenote_key_item items[4] = {{.key = cenote_key("a")},
		{.key = cenote_key("")}, {.key = cenote_key("b")},
		{.key = cenote_key("c")}};

	script->serve = serve_short_batch;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_remove_batch(script->store, items, 4), 4);
	assert_int_equal(items[1].result, CENOTE_ERR_BAD_KEY);
	assert_int_equal(items[3].result, CENOTE_ERR_PROTOCOL);
}

static void serve_list(struct request *request)
{
	struct msg_listed msg = {.next = 5, .count = 1, .entries = {"\3\0abc", 5}};
	struct msg_list list;
	unsigned char entry[64];
	struct msg_entry good = {.key = {"abc", 3}, .size = 9};

	CHECK(msg_list_decode(request->data, request->size, &list) == 0);
	if (list.cursor == 0)
		msg.entries = (struct msg_bytes){
			entry, msg_entry_encode(entry, sizeof(entry), &good)};
	reply(request, msg_listed_encode(request->script->out, MSG_SIZE_MAX, &msg));
}

static int count_entry(void *arg, const struct cenote_list_entry *entry)
{
	assert_string_equal(entry->key, "abc");
	assert_int_equal(entry->size, 9);
	(*(int *)arg)++;
	return 0;
}

static void test_broken_list(void **state)
{
	struct script *script = *state;
	int count = 0;

	script->serve = serve_list;
	assert_int_equal(connect_to(script), 0);
	assert_int_equal(cenote_list(script->store, cenote_key(""), count_entry, &count),
		CENOTE_ERR_PROTOCOL);
	assert_int_equal(count, 1);
}

/* ---- arguments ----------------------------------------------------------- */

static void test_arguments(void **state)
{
	struct script *script = *state;
	struct cenote_get_options get = {.timeout_ms = -2};
	struct cenote_put_options put = {.ttl_ms = UINT64_MAX};
	struct cenote_part part = {.data = NULL, .size = 1};
	struct cenote_view view = {.data = NULL};
	struct cenote_writer writer = {.data = NULL};
	int on_stack = 0;

	assert_int_equal(connect_to(script), 0);
	assert_int_equal(
		cenote_get(NULL, cenote_key("k"), NULL, &view), CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_get(script->store, cenote_key("k"), &get, &view),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_put(script->store, cenote_key("k"), "", 0, &put),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_put_parts(script->store, cenote_key("k"), &part, 1, NULL),
		CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_put(script->store, cenote_key(NULL), "", 0, NULL),
		CENOTE_ERR_BAD_KEY);
	assert_int_equal(cenote_release(script->store, &view), CENOTE_ERR_BAD_ARGUMENT);
	view.data = &on_stack;
	assert_int_equal(cenote_release(script->store, &view), CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_seal(script->store, &writer), CENOTE_ERR_BAD_ARGUMENT);
	writer.data = &on_stack;
	assert_int_equal(cenote_abort(script->store, &writer), CENOTE_ERR_BAD_ARGUMENT);
	assert_int_equal(cenote_put_batch(script->store, NULL, 0, NULL), 0);
	assert_int_equal(cenote_get_batch(script->store, NULL, 3, NULL), 3);
	expect_detail("3 items at NULL");
}

static const struct CMUnitTest tests[] = {
	CASE(test_welcome_lies),
	CASE(test_a_welcome_that_is_broken_is_told_in_words),
	CASE(test_found),
	CASE(test_error_is_passed_on),
	CASE(test_lost_answers),
	CASE(test_put_of_unknown_end),
	CASE(test_run_outside_pool),
	CASE(test_orphan),
	CASE(test_a_seal_has_the_deadline_of_its_put),
	CASE(test_other_pool),
	CASE(test_short_batch),
	CASE(test_broken_list),
	CASE(test_arguments),
};

UNIT_MAIN(tests)
