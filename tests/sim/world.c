/*
 * world.c - struct env in memory.
 *
 * A kill by a fault ends the daemon inside one of its own calls: the longjmp() leaves its
 * stack where it is, as SIGKILL would, and node_free() takes the memory.
 */
#include "world.h"

#include "base/check.h"
#include "base/err.h"
#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

#define SIM_PAGE 4096u

static struct sim_world *world_of(void *ctx)
{
	return ctx;
}

static void *sim_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	CHECK(memory != NULL);
	return memory;
}

/* ---- lanes and processes ------------------------------------------------- */

static struct lane_id lane_id_of(
	const struct sim_world *world, const struct sim_lane *lane)
{
	uint64_t index = (uint64_t)(lane - world->lanes);

	return (struct lane_id){(uint64_t)lane->life << 32 | (index + 1)};
}

static struct sim_lane *lane_of(struct sim_world *world, struct lane_id id)
{
	uint32_t index = (uint32_t)id.value - 1;

	CHECK(index < SIM_LANES);
	if (!world->lanes[index].open || world->lanes[index].life != id.value >> 32)
		return NULL;
	return &world->lanes[index];
}

static void lane_drop_answers(struct sim_lane *lane)
{
	while (lane->first != NULL) {
		struct sim_message *message = lane->first;

		lane->first = message->next;
		free(message);
	}
	lane->last = &lane->first;
}

static struct sim_process *process_of(struct sim_world *world, uint32_t pid)
{
	CHECK(pid > 0 && pid <= world->process_count);
	return &world->processes[pid - 1];
}

uint32_t sim_process(struct sim_world *world, uint32_t uid)
{
	struct sim_process *process = &world->processes[world->process_count];

	CHECK(world->process_count < SIM_PROCESSES);
	world->process_count++;
	*process = (struct sim_process){
		.alive = true,
		.pid = world->process_count,
		.uid = uid,
		.start_time = 1000 + world->process_count,
	};
	return process->pid;
}

/* ---- env_net ------------------------------------------------------------- */

static void net_send(void *ctx, struct lane_id id, const void *message, size_t size,
	const struct env_grant *grant)
{
	struct sim_world *world = world_of(ctx);
	struct sim_lane *lane = lane_of(world, id);
	struct sim_message *sent;

	CHECK(size > 0 && size <= MSG_SIZE_MAX);
	if (lane == NULL || lane->closing)
		return;
	sent = sim_alloc(1, sizeof(*sent) + size);
	sent->size = size;
	memcpy(sent->bytes, message, size);
	if (grant != NULL) {
		CHECK(world->holds[grant->cid].counts != NULL &&
			world->holds[grant->cid].incarnation == grant->incarnation);
		sent->has_grant = true;
		sent->grant = *grant;
	}
	*lane->last = sent;
	lane->last = &sent->next;
	world->sent++;
}

static void net_close(void *ctx, struct lane_id id)
{
	struct sim_lane *lane = lane_of(world_of(ctx), id);

	if (lane != NULL)
		lane->closing = true;
}

static int net_watch(
	struct sim_world *world, const struct sim_process *process, uint32_t cid)
{
	if (!process->alive)
		return ERR_NOT_FOUND;
	if (world->watched[cid] == 0)
		world->watched[cid] = process->pid;
	return 0;
}

static int net_watch_lane(
	void *ctx, struct lane_id id, uint32_t cid, struct env_process *ret_process)
{
	struct sim_world *world = world_of(ctx);
	struct sim_lane *lane = lane_of(world, id);
	const struct sim_process *process;
	int err;

	if (lane == NULL || lane->closing)
		return ERR_UNAVAILABLE;
	process = process_of(world, lane->pid);
	err = net_watch(world, process, cid);
	if (err == 0)
		*ret_process = (struct env_process){process->pid, process->start_time};
	return err;
}

static int net_watch_process(void *ctx, const struct env_process *wanted, uint32_t cid)
{
	struct sim_world *world = world_of(ctx);
	const struct sim_process *process = process_of(world, wanted->pid);

	if (process->start_time != wanted->start_time)
		return ERR_NOT_FOUND;
	return net_watch(world, process, cid);
}

static void net_unwatch(void *ctx, uint32_t cid)
{
	world_of(ctx)->watched[cid] = 0;
}

/* ---- env_disk ------------------------------------------------------------ */

static uint64_t index_size(const struct sim_world *world)
{
	return share_index_size(world->share.header->slots_limit);
}

static void index_allocate(struct sim_world *world, uint64_t offset, uint64_t bytes)
{
	uint64_t last = (offset + bytes + SIM_PAGE - 1) / SIM_PAGE;

	for (uint64_t page = offset / SIM_PAGE; page < last; page++)
		world->index_there[page] = 1;
}

static int disk_index_extend(void *ctx, uint64_t offset, uint64_t bytes)
{
	struct sim_world *world = world_of(ctx);

	CHECK(offset + bytes <= index_size(world));
	if (world->disk_is_full)
		return ERR_NO_MEMORY;
	index_allocate(world, offset, bytes);
	return 0;
}

static int disk_holds_make(void *ctx, uint32_t cid, uint32_t incarnation, uint32_t nslots,
	_Atomic uint16_t **ret_counts)
{
	struct sim_world *world = world_of(ctx);
	struct sim_holds *holds = &world->holds[cid];

	CHECK(holds->counts == NULL);
	holds->counts = sim_alloc(
		world->share.header->slots_limit, sizeof(holds->counts[0]));
	holds->incarnation = incarnation;
	holds->nslots = nslots;
	*ret_counts = holds->counts;
	return 0;
}

static int disk_holds_open(
	void *ctx, uint32_t cid, uint32_t incarnation, _Atomic uint16_t **ret_counts)
{
	struct sim_world *world = world_of(ctx);
	struct sim_holds *holds = &world->holds[cid];

	if (holds->counts == NULL || holds->incarnation != incarnation)
		return ERR_NOT_FOUND;
	holds->nslots = MAX(holds->nslots, atomic_load(&world->share.header->nslots));
	*ret_counts = holds->counts;
	return 0;
}

static int disk_holds_extend(void *ctx, uint32_t cid, uint32_t nslots)
{
	struct sim_world *world = world_of(ctx);

	if (world->disk_is_full)
		return ERR_NO_MEMORY;
	CHECK(world->holds[cid].counts != NULL);
	world->holds[cid].nslots = MAX(world->holds[cid].nslots, nslots);
	return 0;
}

static void disk_holds_drop(void *ctx, uint32_t cid, uint32_t incarnation)
{
	struct sim_holds *holds = &world_of(ctx)->holds[cid];

	if (holds->counts == NULL || holds->incarnation != incarnation)
		return;
	free(holds->counts);
	*holds = (struct sim_holds){.counts = NULL};
}

_Atomic uint16_t *sim_counts(struct sim_world *world, uint32_t cid, uint32_t incarnation)
{
	struct sim_holds *holds = &world->holds[cid];

	return holds->incarnation == incarnation ? holds->counts : NULL;
}

void sim_check_holes(const struct sim_world *world)
{
	const struct share_header *header = world->share.header;
	uint32_t nslots = atomic_load(&header->nslots);
	uint32_t log2 = atomic_load(&header->log2_buckets);
	uint64_t slots_end = SHARE_SLOTS_OFFSET + (uint64_t)nslots * sizeof(struct slot);
	uint64_t buckets = share_buckets_offset(header->slots_limit, log2);
	uint64_t buckets_end = buckets + (sizeof(struct bucket) << log2);

	for (uint64_t page = 0; page < (slots_end + SIM_PAGE - 1) / SIM_PAGE; page++)
		CHECK(world->index_there[page]);
	for (uint64_t page = buckets / SIM_PAGE; page * SIM_PAGE < buckets_end; page++)
		CHECK(world->index_there[page]);
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		CHECK(world->holds[cid].counts == NULL ||
			world->holds[cid].nslots >= nslots);
}

/* ---- the rest of env ----------------------------------------------------- */

static uint64_t clock_boot_ns(void *ctx)
{
	return world_of(ctx)->now_ns;
}

static uint64_t clock_wall_us(void *ctx)
{
	return world_of(ctx)->wall_us;
}

static void random_fill(void *ctx, void *buffer, size_t size)
{
	struct sim_world *world = world_of(ctx);
	unsigned char *bytes = buffer;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)rng_next(&world->rng);
}

static void world_die(void *ctx)
{
	struct sim_world *world = world_of(ctx);

	CHECK(world->death != NULL);
	longjmp(*world->death, 1);
}

struct env sim_env(struct sim_world *world)
{
	return (struct env){
		.clock = {world, clock_boot_ns, clock_wall_us},
		.net = {world, net_send, net_close, net_watch_lane, net_watch_process,
			net_unwatch},
		.disk = {world, disk_index_extend, disk_holds_make, disk_holds_open,
			disk_holds_extend, disk_holds_drop},
		.tier = world->tier != NULL ? sim_tier_env(world->tier)
					    : (struct env_tier){.ctx = NULL},
		.random = {world, random_fill},
		.die = world_die,
		.die_ctx = world,
	};
}

/* ---- open, close --------------------------------------------------------- */

static void sim_make_index(struct sim_world *world)
{
	const struct sim_setup *setup = &world->setup;
	uint32_t limit = share_slots_limit(setup->pool_size);
	uint32_t nslots = MIN(setup->nslots, limit);
	uint32_t log2 = share_log2_buckets(nslots);
	uint64_t size = share_index_size(limit);
	struct share_header *header;

	world->index = sim_alloc(1, size);
	world->index_there = sim_alloc(size / SIM_PAGE + 2, 1);
	share_init(&world->share, world->index, sim_alloc(1, setup->pool_size));
	header = world->share.header;
	header->magic = SHARE_MAGIC;
	header->version = SHARE_VERSION;
	header->slots_limit = limit;
	header->pool_size = setup->pool_size;
	header->page_size = SIM_PAGE;
	header->hash_seed = rng_next(&world->rng);
	random_fill(world, header->pool_id, sizeof(header->pool_id));
	atomic_store(&header->nslots, nslots);
	atomic_store(&header->log2_buckets, log2);
	index_allocate(
		world, 0, SHARE_SLOTS_OFFSET + (uint64_t)nslots * sizeof(struct slot));
	index_allocate(
		world, share_buckets_offset(limit, log2), sizeof(struct bucket) << log2);
}

void sim_world_open(struct sim_world *world, const struct sim_setup *setup)
{
	char message[OPTION_MESSAGE_MAX];

	memset(world, 0, sizeof(*world));
	world->setup = *setup;
	world->now_ns = 1000000000ull;
	world->wall_us = 1700000000000000ull;
	rng_init(&world->rng, setup->seed);
	sim_make_index(world);
	for (uint32_t i = 0; i < SIM_LANES; i++)
		world->lanes[i].last = &world->lanes[i].first;
	config_defaults(&world->config);
	if (setup->tweak != NULL)
		setup->tweak(&world->config);
	CHECK(config_finish(&world->config, 0, message) == 0);
	fault_init(&world->faults);
}

void sim_world_lose(struct sim_world *world)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		free(world->holds[cid].counts);
		world->holds[cid] = (struct sim_holds){.counts = NULL};
	}
	free(world->index);
	free(world->index_there);
	free(world->share.pool);
	sim_make_index(world);
}

void sim_world_close(struct sim_world *world)
{
	if (world->tier != NULL)
		sim_tier_kill(world->tier);
	node_free(world->node);
	for (uint32_t i = 0; i < SIM_LANES; i++)
		lane_drop_answers(&world->lanes[i]);
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		free(world->holds[cid].counts);
	free(world->index);
	free(world->index_there);
	free(world->share.pool);
	memset(world, 0, sizeof(*world));
}

/* ---- the daemon ---------------------------------------------------------- */

void sim_kill_daemon(struct sim_world *world)
{
	if (world->tier != NULL)
		sim_tier_kill(world->tier);
	node_free(world->node);
	world->node = NULL;
	world->dead = false;
	memset(world->watched, 0, sizeof(world->watched));
	for (uint32_t i = 0; i < world->lane_count; i++) {
		world->lanes[i].open = world->lanes[i].closing = false;
		lane_drop_answers(&world->lanes[i]);
	}
}

bool sim_call(
	struct sim_world *world, void (*what)(struct sim_world *, void *arg), void *arg)
{
	jmp_buf death;

	if (world->node == NULL || world->dead)
		return false;
	world->death = &death;
	if (setjmp(death) == 0)
		what(world, arg);
	else
		world->dead = true;
	world->death = NULL;
	if (world->dead)
		sim_kill_daemon(world);
	else
		sim_check_holes(world);
	return world->node != NULL;
}

static void do_start(struct sim_world *world, void *arg)
{
	*(int *)arg = node_start(world->node, &world->recovery);
}

int sim_start_daemon(struct sim_world *world)
{
	struct env env = sim_env(world);
	int err;

	CHECK(world->node == NULL);
	if (world->before_new != NULL)
		world->before_new(world, &env);
	err = node_new(&world->node, &world->config, &env, &world->share, &world->faults);
	if (err == 0 && world->before_start != NULL)
		err = world->before_start(world, world->node);
	if (err != 0)
		return err;
	if (!sim_call(world, do_start, &err))
		return ERR_UNAVAILABLE;
	if (err != 0)
		sim_kill_daemon(world);
	return err;
}

/* Let the disk go on, and tell the job that ends of it. False: nothing is due there. */
static bool sim_tell_tier(struct sim_world *world)
{
	struct sim_tier *tier = world->tier;
	uint32_t job;
	int err;

	if (tier == NULL || sim_tier_next(tier) > world->now_ns)
		return false;
	if (sim_tier_step(tier, &job, &err))
		node_on_tier(world->node, job, err);
	return true;
}

/* Tell one thing that happened; false: nothing is left to tell. */
static bool sim_tell(struct sim_world *world)
{
	for (uint32_t i = 0; i < world->lane_count; i++) {
		struct sim_lane *lane = &world->lanes[i];
		struct lane_id id = lane_id_of(world, lane);

		if (!lane->open || !lane->closing)
			continue;
		lane->open = lane->closing = false;
		node_on_close(world->node, id);
		return true;
	}
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		uint32_t pid = world->watched[cid];

		if (pid == 0 || process_of(world, pid)->alive)
			continue;
		world->watched[cid] = 0;
		node_on_exit(world->node, cid);
		return true;
	}
	return sim_tell_tier(world);
}

static void do_step(struct sim_world *world, void *arg)
{
	bool more = sim_tell(world);

	more |= node_step(world->node);
	*(bool *)arg = more;
}

bool sim_step(struct sim_world *world, bool *ret_more)
{
	*ret_more = false;
	return sim_call(world, do_step, ret_more);
}

bool sim_settle(struct sim_world *world)
{
	bool more = true;

	while (more) {
		if (!sim_step(world, &more))
			return false;
	}
	return true;
}

bool sim_advance(struct sim_world *world, uint64_t ns)
{
	uint64_t end = world->now_ns + ns;

	while (sim_settle(world)) {
		uint64_t next = node_next(world->node);

		if (world->tier != NULL)
			next = MIN(next, sim_tier_next(world->tier));
		if (next > end)
			break;
		/* What is due now and was not done would never be: do not stand still. */
		next = MAX(next, world->now_ns + 1);
		world->wall_us += (next - world->now_ns) / 1000;
		world->now_ns = next;
	}
	if (world->now_ns < end) {
		world->wall_us += (end - world->now_ns) / 1000;
		world->now_ns = end;
	}
	return sim_settle(world);
}

/* ---- clients ------------------------------------------------------------- */

void sim_process_end(struct sim_world *world, uint32_t pid)
{
	process_of(world, pid)->alive = false;
	for (uint32_t i = 0; i < world->lane_count; i++) {
		if (world->lanes[i].open && world->lanes[i].pid == pid)
			world->lanes[i].closing = true;
	}
}

static void do_open(struct sim_world *world, void *arg)
{
	struct sim_lane *lane = arg;

	node_on_open(
		world->node, lane_id_of(world, lane), process_of(world, lane->pid)->uid);
}

struct lane_id sim_connect(struct sim_world *world, uint32_t pid)
{
	struct sim_lane *lane = world->lanes;

	while (lane->open) {
		lane++;
		CHECK(lane < world->lanes + SIM_LANES);
	}
	if (world->node == NULL)
		return (struct lane_id){0};
	lane_drop_answers(lane);
	world->lane_count = MAX(world->lane_count, (uint32_t)(lane - world->lanes) + 1);
	lane->open = true;
	lane->closing = false;
	lane->life++;
	lane->pid = pid;
	(void)sim_call(world, do_open, lane);
	return lane_id_of(world, lane);
}

void sim_disconnect(struct sim_world *world, struct lane_id id)
{
	struct sim_lane *lane = lane_of(world, id);

	if (lane != NULL)
		lane->closing = true;
}

bool sim_lane_is_open(const struct sim_world *world, struct lane_id id)
{
	const struct sim_lane *lane = &world->lanes[(uint32_t)id.value - 1];

	return id.value != 0 && lane->open && !lane->closing &&
	       lane->life == id.value >> 32;
}

struct sim_sending {
	struct lane_id lane;
	void *message;
	size_t size;
};

/* From a buffer that is gone when the call returns, as the loop's is overwritten. */
static void do_message(struct sim_world *world, void *arg)
{
	const struct sim_sending *sending = arg;

	node_on_message(world->node, sending->lane, sending->message, sending->size);
}

bool sim_send(
	struct sim_world *world, struct lane_id id, const void *message, size_t size)
{
	struct sim_sending sending = {.lane = id, .size = size};
	bool alive;

	if (!sim_lane_is_open(world, id))
		return false;
	sending.message = sim_alloc(1, size + (size == 0));
	memcpy(sending.message, message, size);
	alive = sim_call(world, do_message, &sending);
	free(sending.message);
	return alive;
}

struct sim_message *sim_receive(struct sim_world *world, struct lane_id id)
{
	struct sim_lane *lane = lane_of(world, id);
	struct sim_message *message;

	if (lane == NULL || lane->first == NULL)
		return NULL;
	message = lane->first;
	lane->first = message->next;
	if (lane->first == NULL)
		lane->last = &lane->first;
	return message;
}
