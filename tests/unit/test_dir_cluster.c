/*
 * Tests of dir/dir_redis.h on Redis Clusters of their own, while those change: slots move,
 * masters die, replicas take over.
 */
#include "base/attr.h"
#include "base/err.h"
#include "dir/redis_slots.h"
#include "dir_rig.h"

#include <string.h>

#define G1      0x100ull
#define G2      0x200ull
#define MASTERS 3u
#define EXTRA   3u /* the place of one more server */

static enum rig_kind own = RIG_OWN;
static struct redis_rig servers[MASTERS + 1];

static int setup(void **state)
{
	*state = &own;
	return rig_setup(state);
}

static int teardown(void **state)
{
	int err = rig_teardown(state);

	for (size_t i = 0; i < ARRAY_LEN(servers); i++)
		redis_rig_kill(&servers[i]);
	return err;
}

/* A cluster, and one more server that is none of it yet. */
static struct dir_rig *begin(void **state)
{
	struct dir_rig *rig = *state;

	if (!redis_rig_can()) {
		print_message("SKIPPED: no redis-server on this machine\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(servers); i++)
		redis_rig_start_in_cluster(&servers[i]);
	redis_rig_join(servers, MASTERS);
	rig_url(servers, MASTERS, rig->url, sizeof(rig->url));
	return rig;
}

/* ---- words --------------------------------------------------------------- */

static uint32_t slot_of(const struct dir_rig *rig, struct dir_id id)
{
	char key[128];
	int size = snprintf(key, sizeof(key), "%s:o:%016llx%016llx", rig->name,
		(unsigned long long)id.word[0], (unsigned long long)id.word[1]);

	return slot_of_key(key, (size_t)size);
}

/* A key of this slot, or of one in these. */
static struct dir_id id_within(struct dir_rig *rig, uint32_t from, uint32_t to)
{
	struct dir_id id;

	do {
		id = rig_id(rig);
	} while (slot_of(rig, id) < from || slot_of(rig, id) > to);
	return id;
}

static struct dir_id id_in(struct dir_rig *rig, uint32_t slot)
{
	return id_within(rig, slot, slot);
}

/* Of a master's slots, which are those that redis_rig_join() gave it. */
static struct dir_id id_at(struct dir_rig *rig, uint32_t master)
{
	return id_within(rig, REDIS_SLOTS * master / MASTERS,
		REDIS_SLOTS * (master + 1) / MASTERS - 1);
}

static struct dir_call publish_call(
	const struct rig_node *node, struct dir_id id, uint64_t generation)
{
	struct dir_call call = rig_call(node, DIR_OP_PUBLISH, id, generation);

	call.wanted = 1;
	return call;
}

static struct dir_call publish(struct rig_node *node, struct dir_id id)
{
	struct dir_call call = publish_call(node, id, G1);

	rig_do(node, &call, DIR_DONE);
	return call;
}

static struct dir_call look(struct rig_node *node, struct dir_id id)
{
	struct dir_call call = rig_call(node, DIR_OP_LOOKUP, id, 0);

	rig_try(node, &call);
	assert_int_equal(call.err, 0);
	return call;
}

static uint32_t domain_of(const struct rig_node *node, struct dir_id id)
{
	return node->dir.domain_of(node->dir.ctx, &id);
}

static struct dir_redis_info info_of(const struct rig_node *node)
{
	struct dir_redis_info info;

	dir_redis_info(node->redis, &info);
	return info;
}

/* ---- slots --------------------------------------------------------------- */

static void migration_begin(uint32_t slot, struct redis_rig *from, struct redis_rig *to)
{
	char id[64];

	redis_rig_do(to, "CLUSTER SETSLOT %d IMPORTING %s", (int)slot,
		redis_rig_node(from, id));
	redis_rig_do(from, "CLUSTER SETSLOT %d MIGRATING %s", (int)slot,
		redis_rig_node(to, id));
}

/* One key of the slot; false: there is none. */
static bool migrate_key(uint32_t slot, struct redis_rig *from, struct redis_rig *to)
{
	redisReply *keys = redis_rig_ask(from, "CLUSTER GETKEYSINSLOT %d 1", (int)slot);
	bool found = keys->elements == 1;

	if (found)
		redis_rig_do(from, "MIGRATE 127.0.0.1 %d %s 0 5000", (int)to->port,
			keys->element[0]->str);
	freeReplyObject(keys);
	return found;
}

static void migration_end(uint32_t slot, struct redis_rig *from, struct redis_rig *to)
{
	char id[64];

	while (migrate_key(slot, from, to))
		continue;
	(void)redis_rig_node(to, id);
	redis_rig_do(to, "CLUSTER SETSLOT %d NODE %s", (int)slot, id);
	redis_rig_do(from, "CLUSTER SETSLOT %d NODE %s", (int)slot, id);
}

struct expected {
	struct rig_node *node;
	uint32_t domain;
	uint64_t other_than;
	uint32_t told;
};

static bool has_new_epoch(struct dir_rig *rig, void *arg)
{
	const struct expected *expected = arg;
	uint64_t epoch = expected->node->epoch[expected->domain];

	(void)rig;
	return epoch != 0 && epoch != expected->other_than;
}

static bool was_told(struct dir_rig *rig, void *arg)
{
	const struct expected *expected = arg;

	(void)rig;
	return expected->node->told[expected->domain] >= expected->told;
}

static bool is_lost(struct dir_rig *rig, void *arg)
{
	const struct expected *expected = arg;

	(void)rig;
	return expected->node->epoch[expected->domain] == 0;
}

static uint64_t await_epoch(struct rig_node *node, uint32_t domain, uint64_t other_than)
{
	struct expected expected = {node, domain, other_than, 0};

	rig_until(node->rig, has_new_epoch, &expected);
	return node->epoch[domain];
}

static bool has_all_epochs(struct dir_rig *rig, void *arg)
{
	const struct rig_node *node = arg;

	(void)rig;
	for (uint32_t i = 0; i < MASTERS; i++) {
		if (node->epoch[i] == 0)
			return false;
	}
	return true;
}

/* ---- slots that move ----------------------------------------------------- */

static void test_slot_moves_while_in_use(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node = rig_add_node(rig);
	uint32_t slot = REDIS_SLOTS / 2;
	struct dir_id one = id_in(rig, slot), two = id_in(rig, slot),
		      new = id_in(rig, slot);
	uint32_t from = publish(node, one).domain, to;
	struct dir_call call;
	uint64_t epoch;

	(void)publish(node, two);
	to = publish(node, id_at(rig, 2)).domain;
	rig_until(rig, has_all_epochs, node);
	epoch = node->epoch[to];
	migration_begin(slot, &servers[1], &servers[2]);
	assert_true(migrate_key(slot, &servers[1], &servers[2]));
	/* One is here, one there; what is nowhere may be there. */
	assert_int_equal(look(node, one).entry.generation, G1);
	assert_int_equal(look(node, two).entry.generation, G1);
	assert_int_equal(info_of(node).asked, 1);
	assert_int_equal(info_of(node).moved, 0);
	call = look(node, new);
	assert_int_equal(call.verdict, DIR_ABSENT);
	assert_int_equal(call.epoch, 0);
	assert_int_equal(call.domain, from);
	call = publish(node, new);
	assert_int_equal(call.epoch, 0);
	assert_int_equal(look(node, new).entry.generation, G1);
	assert_int_equal(info_of(node).asked, 4);
	migration_end(slot, &servers[1], &servers[2]);
	call = look(node, new);
	assert_int_equal(call.entry.generation, G1);
	assert_int_equal(call.domain, to);
	assert_int_equal(call.epoch, epoch);
	assert_int_equal(info_of(node).moved, 1);
	assert_int_equal(domain_of(node, one), to);
	assert_int_equal(look(node, one).domain, to);
	assert_int_equal(look(node, two).domain, to);
	assert_int_equal(info_of(node).moved, 1);
	assert_int_equal(node->epoch[to], epoch); /* nothing was lost */
}

/* What was there may have been lost on its way, so all is announced again, under the same
 * epoch. */
static void test_new_slots_are_told_of(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node = rig_add_node(rig);
	uint32_t slot = REDIS_SLOTS / 2;
	struct dir_id id = id_in(rig, slot);
	struct expected expected = {node, publish(node, id_at(rig, 2)).domain, 0, 0};
	uint64_t epoch;

	(void)publish(node, id);
	rig_until(rig, has_all_epochs, node);
	epoch = node->epoch[expected.domain];
	expected.told = node->told[expected.domain] + 1;
	migration_begin(slot, &servers[1], &servers[2]);
	migration_end(slot, &servers[1], &servers[2]);
	assert_int_equal(look(node, id).entry.generation, G1);
	rig_until(rig, was_told, &expected);
	assert_int_equal(node->epoch[expected.domain], epoch);
}

/* Of a server that nobody knew. */
static void test_slot_moves_to_a_new_master(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node = rig_add_node(rig), *late;
	uint32_t slot = REDIS_SLOTS / 2;
	struct dir_id id = id_in(rig, slot), new = id_in(rig, slot);
	struct dir_call call;
	char name[64];

	(void)publish(node, id);
	redis_rig_do(&servers[EXTRA], "CLUSTER MEET 127.0.0.1 %d %d",
		(int)servers[0].port, (int)servers[0].bus_port);
	(void)redis_rig_node(&servers[1], name);
	redis_rig_await(&servers[EXTRA], name, "CLUSTER NODES");
	(void)redis_rig_node(&servers[EXTRA], name);
	redis_rig_await(&servers[1], name, "CLUSTER NODES");
	redis_rig_await(&servers[EXTRA], "cluster_state:ok", "CLUSTER INFO");
	migration_begin(slot, &servers[1], &servers[EXTRA]);
	assert_true(migrate_key(slot, &servers[1], &servers[EXTRA]));
	assert_int_equal(look(node, id).entry.generation, G1);
	assert_int_equal(publish(node, new).epoch, 0);
	assert_true(info_of(node).asked >= 2);
	assert_int_equal(info_of(node).domains, MASTERS);
	migration_end(slot, &servers[1], &servers[EXTRA]);
	call = look(node, new);
	assert_int_equal(call.entry.generation, G1);
	assert_int_not_equal(call.epoch, 0);
	assert_int_equal(call.domain, domain_of(node, id));
	assert_int_equal(await_epoch(node, call.domain, 0), call.epoch);
	assert_int_equal(info_of(node).domains, MASTERS + 1);
	late = rig_add_node(rig); /* one that sees the new map alone */
	assert_int_equal(look(late, id).epoch, call.epoch);
}

/* The slot of the epoch's own key, as a list of the keys has it. */
static uint32_t epoch_slot(const struct dir_rig *rig, struct redis_rig *server)
{
	redisReply *keys = redis_rig_ask(server, "KEYS %s:e:*", rig->name);
	uint32_t slot;

	assert_int_equal(keys->elements, 1);
	slot = slot_of_key(keys->element[0]->str, keys->element[0]->len);
	freeReplyObject(keys);
	return slot;
}

static void test_slot_of_an_epoch_moves(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node = rig_add_node(rig), *other = rig_add_node(rig);
	struct dir_id here = id_at(rig, 0), there = id_at(rig, 1);
	uint32_t from = publish(node, here).domain, to = publish(node, there).domain,
		 slot;
	struct dir_call call;

	rig_until(rig, has_all_epochs, node);
	rig_until(rig, has_all_epochs, other);
	slot = epoch_slot(rig, &servers[0]);
	migration_begin(slot, &servers[0], &servers[1]);
	assert_true(migrate_key(slot, &servers[0], &servers[1]));
	call = look(node, here); /* reads another key then */
	assert_int_equal(call.domain, from);
	assert_int_not_equal(call.epoch, 0);
	assert_int_equal(look(other, here).epoch, call.epoch);
	migration_end(slot, &servers[0], &servers[1]);
	assert_int_equal(look(node, here).epoch, call.epoch);
	call = look(node, id_in(rig, slot));
	assert_int_equal(call.domain, to);
	assert_int_equal(look(other, id_in(rig, slot)).epoch, look(node, there).epoch);
	assert_int_equal(look(node, here).epoch, look(other, here).epoch);
	assert_int_equal(node->epoch[from], other->epoch[from]);
	assert_int_equal(node->epoch[to], other->epoch[to]);
}

/* ---- masters that die ---------------------------------------------------- */

static void test_master_dies_and_its_replica_takes_over(void **state)
{
	enum {
		MANY = 20
	};
	static struct dir_call calls[MANY];
	struct dir_rig *rig = begin(state);
	struct rig_node *node, *quiet;
	struct dir_id id = id_at(rig, 0);
	struct dir_call call;
	uint32_t old;
	uint64_t epoch;

	rig->timeout_ns = 15000 * RIG_MS; /* the cluster takes its time */
	node = rig_add_node(rig);
	quiet = rig_add_node(rig);
	redis_rig_add_replica(&servers[EXTRA], &servers[0]);
	old = publish(node, id).domain;
	epoch = await_epoch(node, old, 0);
	assert_int_equal(await_epoch(quiet, old, 0), epoch);
	(void)publish(node, id_at(rig, 0));   /* behind which WAIT waits */
	redis_rig_do(&servers[0], "FLUSHDB"); /* the replica forgets, too */
	redis_rig_do(&servers[0], "WAIT 1 0");
	(void)publish(node, id);
	redis_rig_pause(&servers[0]); /* what is under way is not answered */
	for (uint32_t i = 0; i < MANY; i++) {
		calls[i] = publish_call(node, id_at(rig, 0), G1);
		rig_start(node, &calls[i]);
	}
	dir_redis_turn(node->redis, loop_boot_ns());
	redis_rig_stop(&servers[0]);
	(void)publish(node, id_at(rig, 1)); /* the others go on */
	rig_wait(rig);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(calls[i].err, 0);
		assert_int_equal(calls[i].verdict, DIR_DONE);
		assert_int_equal(look(node, calls[i].id).entry.generation, G1);
	}
	call = look(node, calls[0].id);
	assert_int_not_equal(call.domain, old);
	assert_int_not_equal(call.epoch, epoch);
	assert_int_equal(await_epoch(quiet, call.domain, 0), call.epoch);
	rig_until(rig, is_lost, &(struct expected){.node = quiet, .domain = old});
	assert_int_equal(info_of(node).domains, MASTERS);
}

static void test_cluster_that_is_down_is_lost(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;
	struct expected expected = {0};
	struct dir_call call;

	rig->timeout_ns = 300 * RIG_MS;
	node = rig_add_node(rig);
	expected.node = node;
	call = publish_call(node, id_at(rig, 1), G1);
	rig_insist(node, &call, DIR_DONE);
	expected.domain = call.domain;
	redis_rig_stop(&servers[0]);
	redis_rig_await(&servers[1], "cluster_state:fail", "CLUSTER INFO");
	call = publish_call(node, id_at(rig, 1), G1);
	rig_try(node, &call);
	assert_int_equal(call.err, ERR_UNAVAILABLE);
	rig_until(rig, is_lost, &expected);
}

/* Its slots are given to another, with nothing in them: what was announced there under the
 * other's epoch proves nothing for them. */
static void test_slots_of_a_lost_master_begin_an_epoch(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node = rig_add_node(rig), *quiet = rig_add_node(rig);
	struct dir_id id = id_at(rig, 0);
	uint32_t old = publish(node, id).domain,
		 heir = publish(node, id_at(rig, 1)).domain;
	uint64_t epoch = await_epoch(node, heir, 0);
	struct dir_call call;

	(void)await_epoch(quiet, old, 0);
	assert_int_equal(await_epoch(quiet, heir, 0), epoch);
	redis_rig_stop(&servers[0]);
	redis_rig_await(&servers[1], "cluster_state:fail", "CLUSTER INFO");
	for (size_t i = 1; i < MASTERS; i++)
		redis_rig_do(&servers[i], "CLUSTER DELSLOTSRANGE 0 %d",
			(int)(REDIS_SLOTS / MASTERS - 1));
	redis_rig_do(&servers[1], "CLUSTER ADDSLOTSRANGE 0 %d",
		(int)(REDIS_SLOTS / MASTERS - 1));
	redis_rig_do(&servers[1], "CLUSTER BUMPEPOCH");
	redis_rig_await(&servers[1], "cluster_state:ok", "CLUSTER INFO");
	redis_rig_await(&servers[2], "cluster_state:ok", "CLUSTER INFO");
	assert_int_not_equal(await_epoch(quiet, heir, epoch), epoch);
	call = look(node, id);
	assert_int_equal(call.verdict, DIR_ABSENT);
	assert_int_equal(call.domain, heir);
	assert_int_not_equal(call.epoch, epoch);
	assert_int_equal(await_epoch(node, heir, epoch), await_epoch(quiet, heir, epoch));
	assert_int_equal(
		info_of(node).epochs_begun + info_of(quiet).epochs_begun, MASTERS + 1);
}

/* The first address is of nobody; the one that was found dies later. */
static void test_one_good_address_is_enough(void **state)
{
	struct dir_rig *rig = begin(state);
	struct rig_node *node;

	(void)snprintf(rig->url, sizeof(rig->url), "redis://127.0.0.1:1,127.0.0.1:%u",
		servers[2].port);
	node = rig_add_node(rig);
	for (uint32_t i = 0; i < MASTERS; i++)
		(void)publish(node, id_at(rig, i));
	assert_int_equal(info_of(node).domains, MASTERS);
	assert_int_equal(info_of(node).ready, MASTERS);
	assert_true(info_of(node).is_cluster);
	assert_non_null(strstr(node->warnings, "127.0.0.1:1:"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_slot_moves_while_in_use),
	TEST(test_new_slots_are_told_of),
	TEST(test_slot_moves_to_a_new_master),
	TEST(test_slot_of_an_epoch_moves),
	TEST(test_master_dies_and_its_replica_takes_over),
	TEST(test_cluster_that_is_down_is_lost),
	TEST(test_slots_of_a_lost_master_begin_an_epoch),
	TEST(test_one_good_address_is_enough),
};

UNIT_MAIN(tests)
