/*
 * Tests of what waits: for a key, for another put of the key, for time.
 */
#include "e2e.h"

#include <pthread.h>
#include <string.h>

#define KEY(text) cenote_key(text)

/* Another process that waits for a key, by cenote_wait() or by a get. */
static void role_wait(struct e2e_self *self)
{
	const struct cenote_get_options options = {
		.wait = true, .timeout_ms = CENOTE_FOREVER};
	struct cenote *store = e2e_self_connect(self);
	struct cenote_key key = KEY(e2e_self_arg(self, 0));
	const char *how = e2e_self_arg(self, 1);
	struct cenote_view view;

	e2e_self_say(self, "attached");
	if (strcmp(how, "wait") == 0) {
		E2E_OK(cenote_wait(store, key, CENOTE_FOREVER));
		e2e_self_say(self, "woken");
	}
	if (strcmp(how, "take") == 0)
		E2E_OK(cenote_take(store, key, &options, &view));
	else
		E2E_OK(cenote_get(store, key, &options, &view));
	e2e_self_say(self, "size %llu", (unsigned long long)view.size);
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	cenote_close(store);
}

/* A put of another process, which says how it ended. */
static void role_put(struct e2e_self *self)
{
	struct cenote_put_options options = {
		.timeout_ms = (int64_t)e2e_self_number(self, 2)};
	struct cenote *store = e2e_self_connect(self);
	unsigned char data[1000];
	int err;

	e2e_self_say(self, "attached");
	e2e_fill(data, sizeof(data), e2e_self_number(self, 1));
	err = cenote_put(store, KEY(e2e_self_arg(self, 0)), data, sizeof(data), &options);
	e2e_self_say(self, "%s", cenote_error_name(err));
	cenote_close(store);
}

static void role_create(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY(e2e_self_arg(self, 0)), 1 << 20, NULL, &writer));
	e2e_self_say(self, "created");
	e2e_self_await(self, "never told");
}

/* Start a role and see that it waits for a key, of another put or at all. */
static struct e2e_role *start_waiting(struct e2e *t, const struct e2e_node *node,
	struct cenote *store, const char *role_name, const char *how, const char *timeout)
{
	uint64_t waits = e2e_stat(store, "counters.waits_key");
	struct e2e_role *role = e2e_role_start(
		t, node, role_name, "key", how, timeout, NULL);

	e2e_role_expect(role, "attached");
	E2E_UNTIL(e2e_stat(store, "counters.waits_key") > waits, E2E_DEADLINE_MS);
	return role;
}

static struct e2e_node *start_node(struct e2e *t)
{
	return e2e_node_start(t, "--pool", "64M", "--put-timeout", "1s", NULL);
}

/* ---- a key --------------------------------------------------------------- */

static void wait_ends_when_another_process_puts(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role = start_waiting(t, node, store, "wait", "wait", "0");

	e2e_put(store, "other", 1000, 1);
	e2e_put(store, "key", 1000, 1);
	e2e_role_expect(role, "woken");
	e2e_role_expect(role, "size 1000");
	e2e_role_end(role);
	cenote_close(store);
}

static void get_waits_while_a_put_is_open(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 2000, NULL, &writer));
	role = start_waiting(t, node, store, "wait", "get", "0");
	e2e_fill(writer.data, writer.size, 1);
	E2E_OK(cenote_seal(store, &writer));
	e2e_role_expect(role, "size 2000");
	e2e_role_end(role);
	cenote_close(store);
}

static void get_waits_on_when_the_put_is_aborted(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 2000, NULL, &writer));
	role = start_waiting(t, node, store, "wait", "get", "0");
	E2E_OK(cenote_abort(store, &writer));
	e2e_put(store, "key", 3000, 1);
	e2e_role_expect(role, "size 3000");
	e2e_role_end(role);
	cenote_close(store);
}

static void take_waits_for_the_key(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role = start_waiting(t, node, store, "wait", "take", "0");

	e2e_put(store, "key", 1000, 1);
	e2e_role_expect(role, "size 1000");
	e2e_role_end(role);
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void a_wait_that_is_over_says_timeout_and_never_not_found(struct e2e *t)
{
	const struct cenote_get_options options = {.wait = true, .timeout_ms = 200};
	struct cenote *store = e2e_connect(start_node(t));
	uint64_t began = e2e_now_ms();
	struct cenote_view view;
	unsigned char byte;
	uint64_t size;

	E2E_ERR(cenote_wait(store, KEY("key"), 200), CENOTE_ERR_TIMEOUT);
	E2E_DETAIL("key");
	E2E_TRUE(e2e_now_ms() - began >= 199);
	began = e2e_now_ms();
	E2E_ERR(cenote_get(store, KEY("key"), &options, &view), CENOTE_ERR_TIMEOUT);
	E2E_TRUE(e2e_now_ms() - began >= 199);
	E2E_ERR(cenote_get_into(store, KEY("key"), &byte, 1, &options, &size),
		CENOTE_ERR_TIMEOUT);
	E2E_ERR(cenote_take(store, KEY("key"), &options, &view), CENOTE_ERR_TIMEOUT);
	for (int i = 0; i < 100; i++)
		E2E_ERR(cenote_wait(store, KEY("key"), 1 + i % 3), CENOTE_ERR_TIMEOUT);
	E2E_ERR(cenote_get(store, KEY("key"), NULL, &view), CENOTE_ERR_NOT_FOUND);
	E2E_EQ(e2e_stat(store, "node.operations"), 1); /* the one that asks */
	e2e_check(store);
	cenote_close(store);
}

static void *wait_in_thread(void *arg)
{
	const struct cenote_get_options options = {.wait = true, .timeout_ms = 60000};
	struct cenote *store = arg;
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("key"), &options, &view));
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	return NULL;
}

static void all_who_wait_for_one_key_get_it(struct e2e *t)
{
	struct cenote *store = e2e_connect(start_node(t));
	pthread_t threads[48];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		E2E_TRUE(pthread_create(&threads[i], NULL, wait_in_thread, store) == 0);
	E2E_UNTIL(e2e_stat(store, "counters.waits_key") >= ARRAY_LEN(threads),
		E2E_DEADLINE_MS);
	e2e_put(store, "key", 100000, 1);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		E2E_TRUE(pthread_join(threads[i], NULL) == 0);
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	E2E_EQ(e2e_stat(store, "node.pins"), 0);
	cenote_close(store);
}

/* ---- put meets put ------------------------------------------------------- */

static void second_put_gets_exists_when_the_first_is_sealed(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 5000, NULL, &writer));
	role = start_waiting(t, node, store, "put", "2", "0");
	e2e_fill(writer.data, writer.size, 1);
	E2E_OK(cenote_seal(store, &writer));
	e2e_role_expect(role, "EXISTS");
	e2e_role_end(role);
	e2e_verify(store, "key", 5000, 1);
	cenote_close(store);
}

static void second_put_takes_over_when_the_first_is_aborted(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 5000, NULL, &writer));
	role = start_waiting(t, node, store, "put", "2", "0");
	E2E_OK(cenote_abort(store, &writer));
	e2e_role_expect(role, "OK");
	e2e_role_end(role);
	e2e_verify(store, "key", 1000, 2);
	cenote_close(store);
}

static void k3_01_second_put_takes_over_when_the_first_writer_is_killed(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *writer = e2e_role_start(t, node, "create", "key", NULL), *role;
	uint64_t began;

	e2e_role_expect(writer, "created");
	role = start_waiting(t, node, store, "put", "2", "0");
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	began = e2e_now_ms();
	e2e_role_signal(writer, SIGKILL);
	e2e_role_expect(role, "OK");
	E2E_TRUE(e2e_now_ms() - began < e2e_second_ms());
	e2e_role_end(role);
	e2e_verify(store, "key", 1000, 2);
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void second_put_waits_no_longer_than_its_deadline(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 5000, NULL, &writer));
	role = start_waiting(t, node, store, "put", "2", "200");
	e2e_role_expect(role, "TIMEOUT");
	e2e_role_end(role);
	e2e_fill(writer.data, writer.size, 1);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "key", 5000, 1);
	cenote_close(store);
}

/* The deadline of a put is its own or --put-timeout, whichever is later: here 1 s. */
static void a_late_put_passes_the_key_on_and_its_seal_says_timeout(struct e2e *t)
{
	const struct cenote_put_options options = {.timeout_ms = 100};
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 1 << 20, &options, &writer));
	role = start_waiting(t, node, store, "put", "2", "0");
	e2e_role_expect(role, "OK");
	e2e_role_end(role);
	e2e_verify(store, "key", 1000, 2);
	/* The late writer may still write: its run is nobody else's. */
	E2E_TRUE(e2e_in_use(store) > 1 << 20);
	e2e_fill(writer.data, writer.size, 3);
	e2e_verify(store, "key", 1000, 2);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_TIMEOUT);
	e2e_verify(store, "key", 1000, 2);
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* ---- remove meets put ---------------------------------------------------- */

static void a_put_that_was_removed_says_so_at_its_end(struct e2e *t)
{
	struct e2e_node *node = start_node(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;

	E2E_OK(cenote_create(store, KEY("key"), 1 << 20, NULL, &writer));
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_ERR(cenote_remove(store, KEY("key")), CENOTE_ERR_NOT_FOUND);
	e2e_fill(writer.data, writer.size, 1);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	E2E_EQ(cenote_exists(store, KEY("key")), 0);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void a_removed_put_passes_the_key_on(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *role;

	E2E_OK(cenote_create(store, KEY("key"), 1 << 20, NULL, &writer));
	role = start_waiting(t, node, store, "put", "2", "0");
	E2E_OK(cenote_remove(store, KEY("key")));
	e2e_role_expect(role, "OK");
	e2e_role_end(role);
	e2e_fill(writer.data, writer.size, 1);
	E2E_ERR(cenote_seal(store, &writer), CENOTE_ERR_REMOVED);
	e2e_verify(store, "key", 1000, 2);
	cenote_close(store);
}

/* ---- a client in a long call --------------------------------------------- */

static void role_idle(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("held"), NULL, &view));
	e2e_self_say(self, "held");
	e2e_self_await(self, "go on");
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	e2e_put(store, "after", 1000, 2);
	cenote_close(store);
}

static void k4_01_idle_clients_stay_while_another_is_in_a_long_call(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *idle;
	uint64_t began = e2e_now_ms();

	e2e_put(store, "held", 100000, 1);
	idle = e2e_role_start(t, node, "idle", NULL);
	e2e_role_expect(idle, "held");
	E2E_OK(cenote_remove(store, KEY("held")));
	E2E_ERR(cenote_wait(store, KEY("never"), 15000), CENOTE_ERR_TIMEOUT);
	E2E_TRUE(e2e_now_ms() - began >= 15000);
	E2E_EQ(e2e_stat(store, "node.clients"), 2);
	E2E_TRUE(e2e_in_use(store) >= 100000);
	e2e_role_tell(idle, "go on");
	e2e_role_end(idle);
	e2e_verify(store, "after", 1000, 2);
	E2E_OK(cenote_remove(store, KEY("after")));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(wait),
	E2E_ROLE(put),
	E2E_ROLE(create),
	E2E_ROLE(idle),
};

static const struct e2e_case cases[] = {
	E2E_CASE(wait_ends_when_another_process_puts),
	E2E_CASE(get_waits_while_a_put_is_open),
	E2E_CASE(get_waits_on_when_the_put_is_aborted),
	E2E_CASE(take_waits_for_the_key),
	E2E_CASE(a_wait_that_is_over_says_timeout_and_never_not_found),
	E2E_CASE(all_who_wait_for_one_key_get_it),
	E2E_CASE(second_put_gets_exists_when_the_first_is_sealed),
	E2E_CASE(second_put_takes_over_when_the_first_is_aborted),
	E2E_CASE(k3_01_second_put_takes_over_when_the_first_writer_is_killed),
	E2E_CASE(second_put_waits_no_longer_than_its_deadline),
	E2E_CASE(a_late_put_passes_the_key_on_and_its_seal_says_timeout),
	E2E_CASE(a_put_that_was_removed_says_so_at_its_end),
	E2E_CASE(a_removed_put_passes_the_key_on),
	E2E_CASE(k4_01_idle_clients_stay_while_another_is_in_a_long_call),
};

E2E_MAIN(cases, roles)
