/*
 * Tests of a process that forks: the child has nothing of the parent's store, and says
 * so.
 */
#include "e2e.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)

struct parent {
	struct cenote *store;
	const struct e2e_node *node;
	struct cenote_view view;
	struct cenote_writer writer;
};

/* Run fn in a forked child, which ends with 0; how it ended, as of waitpid(). */
static int in_child(void (*fn)(struct parent *parent), struct parent *parent)
{
	int status = 0;
	pid_t pid = fork();

	E2E_TRUE(pid >= 0);
	if (pid == 0) {
		fn(parent);
		_exit(0);
	}
	E2E_TRUE(waitpid(pid, &status, 0) == pid);
	return status;
}

static void parent_start(struct e2e *t, struct parent *parent)
{
	parent->node = e2e_node_start(t, "--pool", "64M", NULL);
	parent->store = e2e_connect(parent->node);
	e2e_put(parent->store, "key", 100000, 1);
	E2E_OK(cenote_get(parent->store, KEY("key"), NULL, &parent->view));
	E2E_OK(cenote_create(parent->store, KEY("open"), 200000, NULL, &parent->writer));
}

/* All that the parent had is as it was, and still its own. */
static void parent_goes_on(struct parent *parent)
{
	struct cenote *store = parent->store;

	e2e_verify(store, "key", 100000, 1);
	E2E_BYTES(parent->view.data, parent->view.size, 1);
	e2e_fill(parent->writer.data, parent->writer.size, 2);
	E2E_OK(cenote_seal(store, &parent->writer));
	e2e_verify(store, "open", 200000, 2);
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_TRUE(e2e_in_use(store) >= 300000);
	E2E_OK(cenote_release(store, &parent->view));
	E2E_OK(cenote_remove(store, KEY("open")));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- in the child -------------------------------------------------------- */

#define FORKED(call) E2E_ERR(call, CENOTE_ERR_FORKED)

static void child_calls_one_by_one(struct parent *parent)
{
	struct cenote *store = parent->store;
	struct cenote_view view = parent->view;
	struct cenote_writer writer = parent->writer;
	struct cenote_stat stat;
	unsigned char buffer[16];
	uint64_t size;
	const void *base;
	char *text;

	FORKED(cenote_put(store, KEY("a"), "x", 1, NULL));
	FORKED(cenote_put_parts(store, KEY("a"), NULL, 0, NULL));
	FORKED(cenote_seal(store, &writer));
	FORKED(cenote_abort(store, &writer));
	FORKED(cenote_create(store, KEY("a"), 10, NULL, &writer));
	FORKED(cenote_release(store, &view));
	FORKED(cenote_get(store, KEY("key"), NULL, &view));
	FORKED(cenote_get_into(store, KEY("key"), buffer, 16, NULL, &size));
	FORKED(cenote_exists(store, KEY("key")));
	FORKED(cenote_stat(store, KEY("key"), &stat));
	FORKED(cenote_touch(store, KEY("key")));
	FORKED(cenote_wait(store, KEY("key"), 100));
	FORKED(cenote_remove(store, KEY("key")));
	FORKED(cenote_remove_prefix(store, KEY("key"), &size));
	FORKED(cenote_remove_regex(store, "key", &size));
	FORKED(cenote_take(store, KEY("key"), NULL, &view));
	FORKED(cenote_pool_region(store, &base, &size));
	FORKED(cenote_info(store, CENOTE_INFO_STATS, &text));
	FORKED(cenote_drain(store, true));
}

static int never_called(void *arg, const struct cenote_list_entry *entry)
{
	(void)arg, (void)entry;
	E2E_TRUE(false);
	return 1;
}

static void child_calls_batches(struct parent *parent)
{
	struct cenote *store = parent->store;
	const struct cenote_part part = {"x", 1};
	struct cenote_put_item put = {.key = KEY("a"), .parts = &part, .count = 1};
	struct cenote_create_item create = {.key = KEY("a"), .size = 1};
	struct cenote_get_item get = {.key = KEY("key")};
	struct cenote_get_into_item into = {.key = KEY("key")};
	struct cenote_key_item key = {.key = KEY("key")};
	struct cenote_stat_item stat = {.key = KEY("key")};

	FORKED(cenote_list(store, KEY(""), never_called, NULL));
	FORKED(cenote_list_regex(store, KEY(""), "key", never_called, NULL));
	E2E_EQ(cenote_put_batch(store, &put, 1, NULL), 1);
	FORKED(put.result);
	E2E_EQ(cenote_create_batch(store, &create, 1, NULL), 1);
	FORKED(create.result);
	E2E_EQ(cenote_get_batch(store, &get, 1, NULL), 1);
	FORKED(get.result);
	E2E_EQ(cenote_take_batch(store, &get, 1, NULL), 1);
	FORKED(get.result);
	E2E_EQ(cenote_get_into_batch(store, &into, 1, NULL), 1);
	FORKED(into.result);
	E2E_EQ(cenote_exists_batch(store, &key, 1), 1);
	FORKED(key.result);
	E2E_EQ(cenote_touch_batch(store, &key, 1), 1);
	FORKED(key.result);
	E2E_EQ(cenote_remove_batch(store, &key, 1), 1);
	FORKED(key.result);
	E2E_EQ(cenote_stat_batch(store, &stat, 1), 1);
	FORKED(stat.result);
}

static void child_arms_faults(struct parent *parent)
{
	uint64_t hits, fired;

	FORKED(cenote_inject_fault_local_master(
		parent->store, "NodeBeforeCondemn", "sleep", 1, 0, 0));
	FORKED(cenote_get_fault_status_local_master(
		parent->store, "NodeBeforeCondemn", &hits, &fired));
}

static void child_reads_view(struct parent *parent)
{
	e2e_default_signals();
	(void)*(const volatile unsigned char *)parent->view.data;
}

static void child_writes_run(struct parent *parent)
{
	e2e_default_signals();
	*(volatile unsigned char *)parent->writer.data = 1;
}

static void child_closes(struct parent *parent)
{
	cenote_close(parent->store);
}

static void child_connects(struct parent *parent)
{
	struct cenote *store = e2e_connect(parent->node);

	e2e_verify(store, "key", 100000, 1);
	e2e_put(store, "child's", 70000, 3);
	E2E_EQ(cenote_exists(store, KEY("open")), 0);
	child_calls_one_by_one(parent);
	cenote_close(parent->store);
	e2e_verify(store, "child's", 70000, 3);
	E2E_OK(cenote_remove(store, KEY("child's")));
	cenote_close(store);
}

/* A child of the child is no less forked, of either store. */
static void child_connects_and_forks(struct parent *parent)
{
	struct parent child = *parent;

	child.store = e2e_connect(parent->node);
	E2E_OK(cenote_get(child.store, KEY("key"), NULL, &child.view));
	E2E_EQ(in_child(child_calls_batches, &child), 0);
	E2E_EQ(in_child(child_calls_batches, parent), 0);
	E2E_EQ(WTERMSIG(in_child(child_reads_view, &child)), SIGSEGV);
	E2E_OK(cenote_release(child.store, &child.view));
	cenote_close(child.store);
}

/* ---- cases --------------------------------------------------------------- */

static void expect_child(struct e2e *t, void (*fn)(struct parent *parent))
{
	struct parent parent;

	parent_start(t, &parent);
	E2E_EQ(in_child(fn, &parent), 0);
	parent_goes_on(&parent);
}

static void expect_segv(struct e2e *t, void (*fn)(struct parent *parent))
{
	struct parent parent;
	int status;

	parent_start(t, &parent);
	status = in_child(fn, &parent);
	E2E_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	parent_goes_on(&parent);
}

static void each_call_in_the_child_says_forked(struct e2e *t)
{
	expect_child(t, child_calls_one_by_one);
}

static void each_batch_in_the_child_says_forked(struct e2e *t)
{
	expect_child(t, child_calls_batches);
}

static void faults_of_the_daemon_in_the_child_say_forked(struct e2e *t)
{
	e2e_need_faults();
	expect_child(t, child_arms_faults);
}

static void reading_a_view_ends_the_child(struct e2e *t)
{
	expect_segv(t, child_reads_view);
}

static void writing_an_open_put_ends_the_child(struct e2e *t)
{
	expect_segv(t, child_writes_run);
}

static void closing_in_the_child_is_no_end_for_the_parent(struct e2e *t)
{
	expect_child(t, child_closes);
}

static void the_child_connects_anew(struct e2e *t)
{
	expect_child(t, child_connects);
}

static void the_child_of_the_child_is_forked_too(struct e2e *t)
{
	expect_child(t, child_connects_and_forks);
}

/* The child keeps the parent's sockets open; the parent's end must be seen all the same.
 */
static void role_fork_and_hold(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("key"), NULL, &view));
	if (fork() == 0) {
		(void)pause();
		_exit(0);
	}
	e2e_self_say(self, "held");
	e2e_self_await(self, "never told");
}

static void the_end_of_the_parent_is_seen_while_a_child_lives(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role;

	e2e_put(store, "key", 100000, 1);
	role = e2e_role_start(t, node, "fork_and_hold", NULL);
	e2e_role_expect(role, "held");
	E2E_OK(cenote_remove(store, KEY("key")));
	E2E_TRUE(e2e_in_use(store) >= 100000);
	e2e_role_signal(role, SIGKILL);
	e2e_expect_in_use(store, 0);
	E2E_EQ(e2e_stat(store, "node.clients"), 1);
	cenote_close(store);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(fork_and_hold)};

static const struct e2e_case cases[] = {
	E2E_CASE(each_call_in_the_child_says_forked),
	E2E_CASE(each_batch_in_the_child_says_forked),
	E2E_CASE(faults_of_the_daemon_in_the_child_say_forked),
	E2E_CASE(reading_a_view_ends_the_child),
	E2E_CASE(writing_an_open_put_ends_the_child),
	E2E_CASE(closing_in_the_child_is_no_end_for_the_parent),
	E2E_CASE(the_child_connects_anew),
	E2E_CASE(the_child_of_the_child_is_forked_too),
	E2E_CASE(the_end_of_the_parent_is_seen_while_a_child_lives),
};

E2E_MAIN(cases, roles)
