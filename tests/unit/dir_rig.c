/*
 * dir_rig.c - nodes without anything but their directory.
 */
#include "dir_rig.h"

#include "base/attr.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static struct redis_rig single, masters[RIG_MASTERS];

/* ---- servers ------------------------------------------------------------- */

struct redis_rig *rig_servers(enum rig_kind kind, size_t *ret_count)
{
	struct redis_rig *servers = kind == RIG_SINGLE ? &single : masters;
	size_t count = kind == RIG_SINGLE ? 1 : RIG_MASTERS;

	*ret_count = count;
	if (servers[0].pid != 0)
		return servers;
	for (size_t i = 0; i < count; i++) {
		if (kind == RIG_SINGLE)
			redis_rig_start(&servers[i], NULL);
		else
			redis_rig_start_in_cluster(&servers[i]);
	}
	if (kind == RIG_CLUSTER)
		redis_rig_join(servers, count);
	return servers;
}

void rig_url(const struct redis_rig *servers, size_t count, char *url, size_t size)
{
	int used = snprintf(url, size, "redis://");

	for (size_t i = 0; i < count; i++)
		used += snprintf(url + used, size - (size_t)used, "%s127.0.0.1:%u",
			i > 0 ? "," : "", servers[i].port);
}

/* ---- nodes --------------------------------------------------------------- */

static void on_done(void *ctx, struct dir_call *call)
{
	struct rig_node *node = ctx;

	assert_true(node->under_way > 0);
	assert_true(list_is_empty(&call->list_entry));
	node->under_way--;
}

static void on_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	struct rig_node *node = ctx;

	assert_true(domain < DIR_DOMAINS);
	node->epoch[domain] = epoch;
	node->told[domain]++;
}

static void on_warn(void *ctx, const char *text)
{
	struct rig_node *node = ctx;
	size_t used = strlen(node->warnings);

	(void)snprintf(
		node->warnings + used, sizeof(node->warnings) - used, "%s\n", text);
}

void rig_configure(
	struct dir_rig *rig, struct rig_node *node, struct dir_redis_config *ret)
{
	*ret = (struct dir_redis_config){
		.url = rig->url,
		.cluster = rig->name,
		/* A machine with much else to do is no failure of the directory. */
		.timeout_ns = rig->timeout_ns != 0 ? rig->timeout_ns : 30000 * RIG_MS,
		.loop = &rig->loop,
		.events = {node, on_done, on_epoch},
		.warn = on_warn,
		.warn_ctx = node,
	};
}

void rig_open_redis(struct rig_node *node, const struct dir_redis_config *config)
{
	char detail[256];

	if (dir_redis_open(&node->redis, config, detail, sizeof(detail)) != 0)
		fail_msg("%s: %s", config->url, detail);
	dir_redis_dir(node->redis, &node->dir);
}

static struct rig_node *new_node(struct dir_rig *rig)
{
	struct rig_node *node = &rig->nodes[rig->node_count];

	assert_true(rig->node_count++ < RIG_NODES);
	*node = (struct rig_node){.rig = rig};
	return node;
}

struct rig_node *rig_add_node(struct dir_rig *rig)
{
	struct rig_node *node = new_node(rig);
	const struct dir_events events = {node, on_done, on_epoch};
	struct dir_redis_config config;

	if (rig->kind == RIG_MEM) {
		dir_mem_open_port(&node->port, rig->mem, &events, &node->dir);
		return node;
	}
	rig_configure(rig, node, &config);
	rig_open_redis(node, &config);
	return node;
}

void rig_drop_node(struct rig_node *node)
{
	if (node->port.mem != NULL)
		dir_mem_close_port(&node->port);
	dir_redis_close(node->redis);
	node->port.mem = NULL;
	node->redis = NULL;
}

/* ---- tests --------------------------------------------------------------- */

int rig_setup(void **state)
{
	static uint32_t serial;
	const struct dir_mem_config mem = {.domains = 3, .seed = 7, .undo_limit = 16};
	struct dir_rig *rig = calloc(1, sizeof(*rig));
	const struct redis_rig *servers;
	size_t count;

	assert_non_null(rig);
	rig->kind = *(const enum rig_kind *)*state;
	rig->now = 1;
	(void)snprintf(
		rig->name, sizeof(rig->name), "test-%d.%u", (int)getpid(), serial++);
	assert_int_equal(loop_open(&rig->loop), 0);
	*state = rig;
	if (rig->kind == RIG_MEM)
		return dir_mem_new(&rig->mem, &mem);
	if (rig->kind == RIG_OWN || !redis_rig_can())
		return 0;
	servers = rig_servers(rig->kind, &count);
	rig_url(servers, count, rig->url, sizeof(rig->url));
	return 0;
}

struct dir_rig *rig_begin(void **state)
{
	struct dir_rig *rig = *state;

	if (rig->kind != RIG_MEM && !redis_rig_can()) {
		print_message("SKIPPED: no redis-server on this machine\n");
		skip();
	}
	if (rig->kind != RIG_OWN)
		(void)rig_add_node(rig);
	return rig;
}

int rig_teardown(void **state)
{
	struct dir_rig *rig = *state;

	for (uint32_t i = 0; i < rig->node_count; i++)
		rig_drop_node(&rig->nodes[i]);
	if (rig->mem != NULL)
		assert_null(dir_mem_check(rig->mem));
	dir_mem_free(rig->mem);
	loop_close(&rig->loop);
	free(rig);
	return 0;
}

/* ---- calls --------------------------------------------------------------- */

struct dir_id rig_id(struct dir_rig *rig)
{
	uint64_t number = ++rig->next_id * 0x9e3779b97f4a7c15ull;

	return (struct dir_id){{number, ~number}};
}

struct dir_call rig_call(const struct rig_node *node, enum dir_op op, struct dir_id id,
	uint64_t generation)
{
	struct dir_call call = {
		.op = op,
		.id = id,
		.node = rig_number(node),
		.incarnation = rig_incarnation(node),
		.generation = generation,
	};

	return call;
}

void rig_start(struct rig_node *node, struct dir_call *call)
{
	uint32_t before = ++node->under_way;

	list_init(&call->list_entry);
	node->dir.start(node->dir.ctx, call);
	assert_int_equal(node->under_way, before); /* never from inside */
}

void rig_turn(struct dir_rig *rig, uint64_t deadline)
{
	uint64_t next = deadline;
	int signal;

	if (rig->kind == RIG_MEM) {
		dir_mem_set_now(rig->mem, rig->now);
		assert_true(dir_mem_run(rig->mem, 100000));
		return;
	}
	for (uint32_t i = 0; i < rig->node_count; i++) {
		struct dir_redis *redis = rig->nodes[i].redis;

		if (redis == NULL)
			continue;
		dir_redis_turn(redis, loop_boot_ns());
		next = MIN(next, dir_redis_next(redis));
	}
	loop_set_timer(&rig->loop, next);
	assert_int_equal(loop_turn(&rig->loop, true, &signal), 0);
	for (uint32_t i = 0; i < rig->node_count; i++) {
		if (rig->nodes[i].redis != NULL)
			dir_redis_turn(rig->nodes[i].redis, loop_boot_ns());
	}
}

void rig_until(struct dir_rig *rig, bool (*fn)(struct dir_rig *rig, void *arg), void *arg)
{
	uint64_t deadline = loop_boot_ns() + RIG_WAIT_NS;

	while (!fn(rig, arg)) {
		if (loop_boot_ns() >= deadline)
			fail_msg("it took too long");
		rig_turn(rig, deadline);
	}
}

static bool is_quiet(struct dir_rig *rig, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < rig->node_count; i++) {
		if (rig->nodes[i].under_way > 0)
			return false;
	}
	return true;
}

void rig_wait(struct dir_rig *rig)
{
	rig_until(rig, is_quiet, NULL);
}

void rig_try(struct rig_node *node, struct dir_call *call)
{
	rig_start(node, call);
	rig_wait(node->rig);
}

void rig_do(struct rig_node *node, struct dir_call *call, enum dir_verdict verdict)
{
	rig_try(node, call);
	assert_int_equal(call->err, 0);
	assert_int_equal(call->verdict, verdict);
}

void rig_insist(struct rig_node *node, struct dir_call *call, enum dir_verdict verdict)
{
	uint64_t deadline = loop_boot_ns() + RIG_WAIT_NS;

	do {
		rig_try(node, call);
	} while (call->err == ERR_UNAVAILABLE && loop_boot_ns() < deadline);
	assert_int_equal(call->err, 0);
	assert_int_equal(call->verdict, verdict);
}

/* ---- time ---------------------------------------------------------------- */

void rig_await(struct dir_rig *rig, uint64_t ns,
	bool (*fn)(struct dir_rig *rig, void *arg), void *arg)
{
	uint64_t deadline = loop_boot_ns() + RIG_WAIT_NS;

	rig->now += ns;
	while (!fn(rig, arg))
		assert_true(rig->kind != RIG_MEM && loop_boot_ns() < deadline);
}

/* ---- looking ------------------------------------------------------------- */

bool rig_look(struct rig_node *node, struct dir_id id, struct dir_entry *ret)
{
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);

	rig_try(node, &call);
	assert_int_equal(call.err, 0);
	*ret = call.entry;
	assert_int_equal(
		call.verdict, call.entry.generation != 0 ? DIR_DONE : DIR_ABSENT);
	return call.verdict == DIR_DONE;
}

enum dir_role rig_role(const struct dir_entry *entry, uint64_t node)
{
	for (uint32_t i = 0; i < entry->holder_count; i++) {
		if (entry->holders[i].node == node)
			return entry->holders[i].role;
	}
	return 0;
}
