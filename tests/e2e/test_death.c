/*
 * Tests of death: clients killed at each of their fault points, the daemon at each of its
 * own, clients that are only stopped. What remains must be as if the call had been made,
 * or not made, and nothing else.
 */
#include "e2e.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define LARGE     (1ull << 20)
#define SMALL     1000ull

/* ---- the calls that are cut ---------------------------------------------- */

static const struct cenote_put_options patient_put = {
	.softpin = true, .timeout_ms = E2E_DEADLINE_MS};
static const struct cenote_get_options patient_get = {.timeout_ms = E2E_DEADLINE_MS};

static int put_of(struct cenote *store, const char *key, uint64_t size)
{
	static unsigned char data[48 << 20];

	E2E_TRUE(size <= sizeof(data));
	e2e_fill(data, size, 1);
	return cenote_put(store, KEY(key), data, size, &patient_put);
}

static int get_and_release(struct cenote *store, const char *key, bool wait)
{
	const struct cenote_get_options options = {
		.wait = wait, .timeout_ms = E2E_DEADLINE_MS};
	struct cenote_view view;
	int err = cenote_get(store, KEY(key), &options, &view);

	if (err == 0) {
		E2E_BYTES(view.data, view.size, 1);
		E2E_OK(cenote_release(store, &view));
	}
	return err;
}

static int take_and_release(struct cenote *store, const char *key)
{
	struct cenote_view view;
	int err = cenote_take(store, KEY(key), &patient_get, &view);

	if (err == 0) {
		E2E_BYTES(view.data, view.size, 1);
		E2E_OK(cenote_release(store, &view));
	}
	return err;
}

/* An object that ends with its first read. */
static void put_counted(struct cenote *store)
{
	const struct cenote_put_options options = {.softpin = true, .readers = 1};
	static unsigned char data[SMALL];

	e2e_fill(data, sizeof(data), 1);
	E2E_OK(cenote_put(store, KEY("counted"), data, sizeof(data), &options));
}

static int many_small_puts(struct cenote *store)
{
	char key[32];
	int err = 0;

	for (int i = 0; i < 2000 && err == 0; i++) {
		(void)snprintf(key, sizeof(key), "many %d", i);
		err = put_of(store, key, 10);
	}
	return err;
}

static int put_durable(struct cenote *store, const char *key)
{
	const struct cenote_put_options options = {
		.softpin = true, .durable = true, .timeout_ms = E2E_DEADLINE_MS};
	static unsigned char data[LARGE];

	e2e_fill(data, sizeof(data), 1);
	return cenote_put(store, KEY(key), data, sizeof(data), &options);
}

/* An object that has left the pool: one that was read goes before those that were not. */
static void put_cold(struct cenote *store)
{
	struct cenote_stat stat = {.in_pool = true};
	char key[32];

	e2e_put_softpin(store, "cold", LARGE, 1);
	E2E_OK(get_and_release(store, "cold", false));
	for (int i = 0; stat.in_pool; i++) {
		E2E_TRUE(i < 128);
		(void)snprintf(key, sizeof(key), "piece %d", i);
		e2e_put_softpin(store, key, LARGE, 1);
		E2E_OK(cenote_stat(store, KEY("cold"), &stat));
	}
}

static int remove_batch_of(struct cenote *store, const char *key)
{
	struct cenote_key_item item = {.key = KEY(key)};

	(void)cenote_remove_batch(store, &item, 1);
	return item.result;
}

static bool call_ends_old(const char *call)
{
	return strcmp(call, "take") == 0 || strcmp(call, "remove") == 0 ||
	       strcmp(call, "batch remove") == 0;
}

static int do_call(struct cenote *store, const char *call)
{
	struct cenote_stat stat;

	if (strcmp(call, "put") == 0)
		return put_of(store, "new", LARGE);
	if (strcmp(call, "small put") == 0)
		return put_of(store, "new", SMALL);
	if (strcmp(call, "huge put") == 0)
		return put_of(store, "huge", 16 << 20);
	if (strcmp(call, "durable put") == 0)
		return put_durable(store, "new");
	if (strcmp(call, "cold get") == 0)
		return get_and_release(store, "cold", false);
	if (strcmp(call, "many puts") == 0)
		return many_small_puts(store);
	if (strcmp(call, "get") == 0)
		return get_and_release(store, "old", false);
	if (strcmp(call, "get absent") == 0)
		return get_and_release(store, "absent", false);
	if (strcmp(call, "get later") == 0)
		return get_and_release(store, "later", true);
	if (strcmp(call, "last read") == 0)
		return get_and_release(store, "counted", false);
	if (strcmp(call, "take") == 0)
		return take_and_release(store, "old");
	if (strcmp(call, "remove") == 0)
		return cenote_remove(store, KEY("old"));
	if (strcmp(call, "batch remove") == 0)
		return remove_batch_of(store, "old");
	if (strcmp(call, "stat") == 0)
		return cenote_stat(store, KEY("old"), &stat);
	if (strcmp(call, "attach") == 0)
		return 0;
	e2e_fail(__FILE__, __LINE__, "no such call: %s", call);
}

static int drop_entry(void *arg, const struct cenote_list_entry *entry)
{
	struct cenote_key key = {entry->key, entry->key_size};

	E2E_OK(cenote_remove(arg, key));
	return 0;
}

/* All is as new once the objects are gone. */
static void expect_base(struct cenote *store)
{
	E2E_OK(cenote_list(store, KEY(""), drop_entry, store));
	e2e_expect_in_use(store, 0);
	E2E_UNTIL(e2e_stat(store, "node.pins") == 0, e2e_second_ms());
	e2e_check(store);
}

/* ---- clients ------------------------------------------------------------- */

struct cut {
	const char *point;
	const char *call;
};

/* Which call comes by which point. */
static const struct cut client_cuts[] = {
	{"ClientBeforePutStartSend", "put"},
	{"ClientAfterPutStart", "put"},
	{"ClientLocalCopyAfterPutStart", "put"},
	{"ClientAfterCopy", "put"},
	{"ClientBeforePutEndSend", "put"},
	{"ClientAfterPutEnd", "put"},
	{"ClientBeforeSmallPutSend", "small put"},
	{"ClientAfterSmallPut", "small put"},
	{"ClientBeforeGetSend", "get absent"},
	{"ClientAfterHold", "get"},
	{"ClientBeforeRelease", "get"},
	{"ClientAfterRelease", "get"},
	{"ClientBeforeUnpin", "get later"},
	{"ClientBeforeTakeSend", "take"},
	{"ClientAfterTakeHold", "take"},
	{"ClientAfterTake", "take"},
	{"ClientBeforeRemoveSend", "remove"},
	{"ClientAfterRemove", "remove"},
	{"ClientBeforeAttach", "attach"},
	{"ClientAfterAttach", "attach"},
};

static const struct cut node_cuts[] = {
	{"NodeOnMessage", "stat"},
	{"NodeBeforeReply", "stat"},
	{"NodeBeforeReply", "put"},
	{"NodeBeforeReply", "small put"},
	{"NodeBeforeReply", "take"},
	{"NodeBeforeReply", "remove"},
	{"NodeBeforePutStartPublish", "put"},
	{"NodeAfterPutStartPublish", "put"},
	{"NodeBeforePutEndPublish", "put"},
	{"NodeAfterPutEndPublish", "put"},
	{"NodeBeforePutStartPublish", "small put"},
	{"NodeAfterPutStartPublish", "small put"},
	{"NodeBeforePutEndPublish", "small put"},
	{"NodeAfterPutEndPublish", "small put"},
	{"NodeBeforeCondemn", "remove"},
	{"NodeAfterCondemn", "remove"},
	{"NodeBeforeCondemn", "batch remove"},
	{"NodeAfterCondemn", "batch remove"},
	{"NodeBeforeTakeCondemn", "take"},
	{"NodeAfterTakeCondemn", "take"},
	{"NodeBeforeReadCount", "last read"},
	{"NodeAfterReadCount", "last read"},
	{"NodeBeforeRoomWait", "huge put"},
	{"NodeAfterRoomGrant", "huge put"},
	{"NodeBeforeMovePublish", "huge put"},
	{"NodeAfterMovePublish", "huge put"},
	{"NodeBeforeAttachAnswer", "attach"},
	{"NodeAfterAttachAnswer", "attach"},
	{"NodeClientGone", "die"},
	{"NodeGrowSlots", "many puts"},
};

/* With a disk. */
static const struct cut disk_cuts[] = {
	{"NodeBeforeDiskWrite", "durable put"},
	{"NodeAfterDiskWrite", "durable put"},
	{"NodeBeforeDiskCommit", "durable put"},
	{"NodeAfterDiskCommit", "durable put"},
	{"NodeBeforeDiskRead", "cold get"},
	{"NodeAfterDiskRead", "cold get"},
};

static bool is_cut(const struct cut *cuts, size_t count, const char *point)
{
	bool found = false;

	for (size_t i = 0; i < count; i++)
		found |= strcmp(cuts[i].point, point) == 0;
	return found;
}

/* Every point there is has its cut: a new one must come into the tables above. */
static void every_point_is_cut(struct e2e *t)
{
	static const struct {
		const char *name;
		bool node;
	} points[] = {
#define FAULT_CLIENT_POINT(point, name, where) {name, false},
#define FAULT_NODE_POINT(point, name, where)   {name, true},
#define FAULT_CLUSTER_POINT(point, name, where)
#include "fault/points.def"
	};

	(void)t;
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		const char *name = points[i].name;
		bool found = points[i].node
				     ? is_cut(node_cuts, ARRAY_LEN(node_cuts), name) ||
					       is_cut(disk_cuts, ARRAY_LEN(disk_cuts),
						       name)
				     : is_cut(client_cuts, ARRAY_LEN(client_cuts), name);

		if (!found)
			e2e_fail(__FILE__, __LINE__, "nothing is killed at %s", name);
	}
}

static void role_victim(struct e2e_self *self)
{
	const char *point = e2e_self_arg(self, 0);
	const char *call = e2e_self_arg(self, 1);
	bool attach = strcmp(call, "attach") == 0;
	struct cenote *store = NULL;

	if (!attach)
		store = e2e_self_connect(self);
	E2E_OK(cenote_inject_fault(point, "kill", 0, 0, 0));
	e2e_self_say(self, "armed");
	if (attach)
		store = e2e_self_connect(self);
	(void)do_call(store, call);
	e2e_self_say(self, "survived");
}

static void cut_client(struct e2e *t, struct e2e_node *node, const struct cut *cut)
{
	struct cenote *store = e2e_connect(node);
	struct e2e_role *victim;

	e2e_put_softpin(store, "old", LARGE, 1);
	victim = e2e_role_start(t, node, "victim", cut->point, cut->call, NULL);
	e2e_role_expect(victim, "armed");
	if (strcmp(cut->call, "get later") == 0) {
		E2E_UNTIL(e2e_stat(store, "node.operations") > 1, E2E_DEADLINE_MS);
		e2e_put_softpin(store, "later", LARGE, 1);
	}
	e2e_role_dies(victim, SIGKILL);

	/* Its unfinished put is nobody's: the same key can be put at once, or is there.
	 */
	if (strstr(cut->call, "put") != NULL) {
		int err = put_of(store, "new", LARGE);

		E2E_TRUE(err == 0 || err == CENOTE_ERR_EXISTS);
		E2E_EQ(cenote_exists(store, KEY("new")), 1);
	}
	E2E_UNTIL(e2e_stat(store, "node.clients") == 1, e2e_second_ms());
	expect_base(store);
	cenote_close(store);
}

static void k3_01_clients_die_at_each_of_their_points(struct e2e *t)
{
	struct e2e_node *node;

	e2e_need_faults();
	node = e2e_node_start(t, "--pool", "64M", NULL);
	for (size_t i = 0; i < ARRAY_LEN(client_cuts); i++) {
		(void)printf("at %s in %s\n", client_cuts[i].point, client_cuts[i].call);
		cut_client(t, node, &client_cuts[i]);
	}
}

/* ---- the daemon ---------------------------------------------------------- */

static void role_worker(struct e2e_self *self)
{
	const char *call = e2e_self_arg(self, 0);
	struct cenote *store = NULL;
	int err;

	if (strcmp(call, "attach") != 0)
		store = e2e_self_connect(self);
	e2e_self_say(self, "attached");
	e2e_self_await(self, "go");
	if (strcmp(call, "die") == 0) {
		e2e_self_await(self, "never told");
		return;
	}
	if (store == NULL) {
		const struct cenote_connect_options options = {
			.socket_path = e2e_self_socket(self),
			.timeout_ms = E2E_DEADLINE_MS};

		E2E_OK(cenote_connect(&store, &options));
	}
	err = do_call(store, call);
	e2e_self_say(self, "%s", cenote_error_name(err));
	cenote_close(store);
}

/* A pool in which a large put needs a window, and relocations in it: every other object
 * of a full pool is removed. */
static void fragment(struct cenote *store)
{
	char key[32];

	for (int i = 0; i < 60; i++) {
		(void)snprintf(key, sizeof(key), "piece %d", i);
		e2e_put_softpin(store, key, LARGE, 1);
	}
	for (int i = 0; i < 60; i += 2) {
		(void)snprintf(key, sizeof(key), "piece %d", i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
}

static void expect_outcome(struct e2e_role *worker, const char *call)
{
	const char *said = e2e_role_hear(worker);

	if (strcmp(said, cenote_error_name(0)) != 0)
		e2e_fail(__FILE__, __LINE__, "%s across the daemon's death: %s", call,
			said);
}

static void cut_node(struct e2e *t, struct e2e_node *node, const struct cut *cut)
{
	struct cenote *store = e2e_connect(node);
	struct e2e_role *worker = e2e_role_start(t, node, "worker", cut->call, NULL);
	bool dies = strcmp(cut->call, "die") == 0;

	e2e_put_softpin(store, "old", LARGE, 1);
	if (strcmp(cut->call, "huge put") == 0)
		fragment(store);
	if (strcmp(cut->call, "last read") == 0)
		put_counted(store);
	if (strcmp(cut->call, "cold get") == 0)
		put_cold(store);
	e2e_role_expect(worker, "attached");
	E2E_OK(cenote_inject_fault_local_master(store, cut->point, "kill", 0, 0, 0));
	e2e_role_tell(worker, "go");
	if (dies)
		e2e_role_signal(worker, SIGKILL);
	E2E_EQ(e2e_node_wait(node), SIGKILL);
	e2e_node_restart(node);

	if (!dies) {
		expect_outcome(worker, cut->call);
		e2e_role_end(worker);
	}
	if (strcmp(cut->call, "last read") == 0)
		E2E_EQ(cenote_exists(store, KEY("counted")), 0);
	if (call_ends_old(cut->call))
		E2E_EQ(cenote_exists(store, KEY("old")), 0);
	else
		e2e_verify(store, "old", LARGE, 1);
	E2E_UNTIL(e2e_stat(store, "node.clients") == 1, e2e_second_ms());
	expect_base(store);
	cenote_close(store);
}

static void the_daemon_dies_at_each_of_its_points(struct e2e *t)
{
	struct e2e_node *node;

	e2e_need_faults();
	node = e2e_node_start(t, "--pool", "64M", NULL);
	for (size_t i = 0; i < ARRAY_LEN(node_cuts); i++) {
		(void)printf("at %s in %s\n", node_cuts[i].point, node_cuts[i].call);
		cut_node(t, node, &node_cuts[i]);
	}
}

static void the_daemon_dies_at_each_of_its_points_on_disk(struct e2e *t)
{
	struct e2e_node *node;
	char disk[512];

	e2e_need_faults();
	(void)snprintf(disk, sizeof(disk), "%s/disk", e2e_dir(t));
	node = e2e_node_start(
		t, "--pool", "64M", "--disk", disk, "--disk-size", "512M", NULL);
	for (size_t i = 0; i < ARRAY_LEN(disk_cuts); i++) {
		(void)printf("at %s in %s\n", disk_cuts[i].point, disk_cuts[i].call);
		cut_node(t, node, &disk_cuts[i]);
	}
}

/* ---- others -------------------------------------------------------------- */

static void role_holder(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;
	struct cenote_view view;

	E2E_OK(cenote_get(store, KEY("old"), NULL, &view));
	E2E_OK(cenote_create(store, KEY("open"), LARGE, &patient_put, &writer));
	e2e_self_say(self, "holds");
	e2e_self_await(self, "go on");
	E2E_BYTES(view.data, view.size, 1);
	E2E_OK(cenote_release(store, &view));
	e2e_fill(writer.data, writer.size, 2);
	E2E_OK(cenote_seal(store, &writer));
	e2e_self_say(self, "done");
	cenote_close(store);
}

/* Work enough for a daemon that mistook silence for death to notice it. */
static void churn(struct cenote *store, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		e2e_put(store, "churn", LARGE, (uint64_t)i);
		E2E_OK(cenote_remove(store, KEY("churn")));
	}
}

static void k3_07_a_stopped_client_is_not_dead(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *holder;

	e2e_put_softpin(store, "old", LARGE, 1);
	holder = e2e_role_start(t, node, "holder", NULL);
	e2e_role_expect(holder, "holds");
	e2e_role_signal(holder, SIGSTOP);
	E2E_OK(cenote_remove(store, KEY("old")));
	churn(store, 500);
	E2E_EQ(e2e_stat(store, "pool.condemned"), LARGE);
	E2E_EQ(e2e_stat(store, "pool.writing"), LARGE);
	e2e_role_signal(holder, SIGCONT);
	e2e_role_tell(holder, "go on");
	e2e_role_expect(holder, "done");
	e2e_role_end(holder);
	e2e_verify(store, "open", LARGE, 2);
	expect_base(store);
	cenote_close(store);
}

static void k3_03_a_death_leaves_the_puts_of_others_alone(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_writer writer;
	struct e2e_role *holder;

	e2e_put_softpin(store, "old", LARGE, 1);
	E2E_OK(cenote_create(store, KEY("mine"), LARGE, &patient_put, &writer));
	holder = e2e_role_start(t, node, "holder", NULL);
	e2e_role_expect(holder, "holds");
	e2e_role_signal(holder, SIGKILL);
	E2E_UNTIL(e2e_stat(store, "node.clients") == 1, e2e_second_ms());
	e2e_fill(writer.data, writer.size, 3);
	E2E_OK(cenote_seal(store, &writer));
	e2e_verify(store, "mine", LARGE, 3);
	e2e_verify(store, "old", LARGE, 1);
	E2E_EQ(cenote_exists(store, KEY("open")), 0);
	expect_base(store);
	cenote_close(store);
}

static void *call_stat(void *arg)
{
	struct cenote_stat stat;

	E2E_OK(cenote_stat(arg, KEY("old"), &stat));
	return NULL;
}

static void k4_03_a_stopped_daemon_takes_nobody_for_dead(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *holder;
	pthread_t thread;

	e2e_put_softpin(store, "old", LARGE, 1);
	holder = e2e_role_start(t, node, "holder", NULL);
	e2e_role_expect(holder, "holds");
	E2E_EQ(kill(e2e_node_pid(node), SIGSTOP), 0);
	/* Hits go on; a call that needs the daemon waits for it. */
	for (int i = 0; i < 1000; i++)
		e2e_verify(store, "old", LARGE, 1);
	E2E_EQ(pthread_create(&thread, NULL, call_stat, store), 0);
	E2E_EQ(kill(e2e_node_pid(node), SIGCONT), 0);
	E2E_EQ(pthread_join(thread, NULL), 0);
	e2e_role_tell(holder, "go on");
	e2e_role_expect(holder, "done");
	e2e_role_end(holder);
	expect_base(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(every_point_is_cut),
	E2E_CASE(k3_01_clients_die_at_each_of_their_points),
	E2E_CASE(the_daemon_dies_at_each_of_its_points),
	E2E_CASE(the_daemon_dies_at_each_of_its_points_on_disk),
	E2E_CASE(k3_07_a_stopped_client_is_not_dead),
	E2E_CASE(k3_03_a_death_leaves_the_puts_of_others_alone),
	E2E_CASE(k4_03_a_stopped_daemon_takes_nobody_for_dead),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(victim),
	E2E_ROLE(worker),
	E2E_ROLE(holder),
};

E2E_MAIN(cases, roles)
