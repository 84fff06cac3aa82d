/*
 * host.c - a node with its host: started, told, turned, stopped, and killed at any moment,
 * alone or with the host; its clocks.
 *
 *   down --host_start--> up --host_kill, or a death inside a call--> down
 *
 * A host that was off comes back with its disk or without, and without the pool. What it is
 * called follows: the id lies on the disk, else beside the pool, else is new.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "node/node_priv.h"

#include <stdio.h>
#include <string.h>

#define CHECK_EVERY     40u /* events between two calls of node_check() */
#define IDLE_TURNS_MOST 1000u
#define HOST_SEED       0x9e3779b97f4a7c15ull

/* ---- clocks -------------------------------------------------------------- */

uint64_t host_boot_ns(const struct host *host)
{
	return host->boot_ns + (host->sim->now_ns - host->true_ns) * host->rate / 1000;
}

/* When its CLOCK_BOOTTIME will be that. */
static uint64_t host_true_ns(const struct host *host, uint64_t boot_ns)
{
	if (boot_ns == UINT64_MAX)
		return UINT64_MAX;
	if (boot_ns <= host->boot_ns)
		return host->true_ns;
	return host->true_ns +
	       ((boot_ns - host->boot_ns) * 1000 + host->rate - 1) / host->rate;
}

void host_tick(struct host *host)
{
	host->world.now_ns = host_boot_ns(host);
	host->world.wall_us = (uint64_t)((int64_t)(host->world.now_ns / NS_US) +
					 host->wall_us);
}

static void clock_init(struct host *host)
{
	struct sim *sim = host->sim;

	host->true_ns = sim->now_ns;
	host->boot_ns = NS_S + sim_pick(sim, 1000000 * NS_S);
	host->rate = sim_chance(sim, 50) ? 1000 : 900 + sim_pick(sim, 201);
	host->wall_us = (int64_t)(SIM_WALL_US - host->boot_ns / NS_US +
				  sim_pick(sim, 60 * 1000000ull));
}

/* ---- begin and end ------------------------------------------------------- */

static _Noreturn void disk_fails(void *ctx, const char *text)
{
	sim_fail(((struct host *)ctx)->sim, "disk of host %u: %s",
		((struct host *)ctx)->index, text);
}

static void disk_open(struct host *host)
{
	uint64_t size = host->sim->profile.pool_sizes[host->index] * 4;
	struct sim_tier_setup setup = {
		.data_size = MAX(size, 1ull << 20),
		.object_limit = 512,
		.seed = rng_next(&host->sim->rng),
		.now_ns = &host->world.now_ns,
		.share = &host->world.share,
		.fail = disk_fails,
		.ctx = host,
	};

	sim_tier_open(&host->tier, &setup);
	host->world.tier = &host->tier;
}

static uint64_t new_id(struct sim *sim)
{
	return rng_next(&sim->rng) | 1;
}

static void host_log(void *ctx, const char *line, size_t length)
{
	struct host *host = ctx;

	trace_event(&host->sim->trace, "host %u: %.*s", host->index,
		(int)MIN(length - 1, 140u), line);
}

void host_init(struct sim *sim, unsigned index)
{
	struct host *host = &sim->hosts[index];
	struct sim_setup setup = {
		.pool_size = sim->profile.pool_sizes[index],
		.nslots = 32,
		.seed = sim->seed + HOST_SEED * (index + 1),
	};

	host->sim = sim;
	host->index = index;
	sim_world_open(&host->world, &setup);
	profile_tweak(sim, &host->world.config);
	host->log = (struct log){LOG_LEVEL_INFO, host_log, host};
	host->world.config.log = &host->log;
	clock_init(host);
	host->has_disk = sim->profile.has_disk[index];
	if (host->has_disk) {
		host->world.config.disk = "disk";
		disk_open(host);
	}
	host->id = new_id(sim);
	host->incarnation = new_id(sim);
	(void)snprintf(
		host->endpoint, sizeof(host->endpoint), "10.0.0.%u:7400", index + 1);
	host_env_init(host);
	proc_init(host);
}

void host_fini(struct host *host)
{
	for (unsigned i = 0; i < SIM_PROCS; i++)
		proc_fini(&host->procs[i]);
	if (host_is_up(host))
		registry_close(host);
	sim_world_close(&host->world);
	if (host->has_disk)
		sim_tier_close(&host->tier);
}

bool host_is_awake(const struct host *host)
{
	return host_is_up(host) && host->stopped_ns <= host->sim->now_ns;
}

/* ---- death --------------------------------------------------------------- */

/* The caller frees its memory, or has its stack end. */
void host_dies(struct host *host)
{
	registry_close(host);
	transfer_host_died(host);
	wire_host_died(host, host->loses_pool);
	host->is_dirty = false;
	host->leaves = false;
	host->kill_after = 0;
	host->stopped_ns = 0;
	trouble_ends(host->sim, TROUBLE_STOPPED, host->index, 0);
	trouble_begins(host->sim, TROUBLE_DOWN, host->index, 0);
}

static void host_loses(struct host *host)
{
	struct sim *sim = host->sim;

	host->lost_ns = sim->now_ns;
	trace_event(&sim->trace, "host %u is off; its pool is lost%s", host->index,
		host->loses_disk ? ", and its disk" : "");
	sim_cover(sim, host->loses_disk ? COVER_DISK_LOST : COVER_POOL_LOST);
	keepers_look(sim);
	procs_host_lost(host);
	if (host->has_disk) {
		sim_tier_lose_host(&host->tier);
		if (host->loses_disk) {
			sim_tier_close(&host->tier);
			disk_open(host);
		}
	}
	sim_world_lose(&host->world);
	keeper_lost(host);
	host->was_empty = false;
	if (host->loses_disk || !host->has_disk)
		host->id = new_id(sim);
	host->incarnation = new_id(sim);
	clock_init(host);
	host->loses_pool = host->loses_disk = false;
}

/* Its memory is gone: a kill, or a death inside a call. */
static void host_is_dead(struct host *host)
{
	struct sim *sim = host->sim;

	host->start_ns = sim->now_ns + sim_about(sim, 300 * NS_MS);
	if (sim_chance(sim, 10))
		host->start_ns += sim_pick(sim, 6 * NS_S);
	if (host->loses_pool)
		host_loses(host);
}

void host_kill(struct host *host, bool with_host)
{
	trace_event(&host->sim->trace, "host %u: daemon killed", host->index);
	sim_cover(host->sim, COVER_KILLED);
	host->loses_pool = with_host;
	host->loses_disk = with_host && host->has_disk &&
			   (host->was_empty || sim_chance(host->sim, 40));
	host_dies(host);
	sim_kill_daemon(&host->world);
	host_is_dead(host);
}

void host_leave(struct host *host)
{
	trace_event(&host->sim->trace, "host %u: daemon is to end", host->index);
	trouble_begins(host->sim, TROUBLE_STOPPED, host->index, 0);
	host->leaves = true;
	host_tick(host);
	node_leave(host->world.node);
	host_called(host);
}

/* ---- life ---------------------------------------------------------------- */

void host_start(struct host *host)
{
	struct sim *sim = host->sim;
	int err;

	trace_event(&sim->trace, "host %u: daemon starts", host->index);
	host->life++;
	host_tick(host);
	err = sim_start_daemon(&host->world);
	if (!host_is_up(host) && err == ERR_UNAVAILABLE) {
		host_is_dead(host);
		return;
	}
	if (err != 0)
		sim_fail(sim, "the daemon of host %u does not start: %s", host->index,
			err_name(err));
	if (host->world.recovery.adopted > 0)
		sim_cover(sim, COVER_ADOPTED);
	trouble_ends(sim, TROUBLE_DOWN, host->index, 0);
	host->idle_turns = 0;
	host_called(host);
}

static void host_check(struct host *host)
{
	const char *broken;

	if (!SIM_ASKS_NODE || ++host->unchecked < CHECK_EVERY)
		return;
	host->unchecked = 0;
	broken = node_check(host->world.node);
	if (broken != NULL)
		sim_fail(host->sim, "node_check of host %u: %s", host->index, broken);
}

static void host_plan(struct host *host)
{
	uint64_t next = node_next(host->world.node);

	if (host->has_disk)
		next = MIN(next, sim_tier_next(&host->tier));
	host->next_ns = host_true_ns(host, next);
}

void host_called(struct host *host)
{
	if (!host_is_up(host)) {
		host_is_dead(host);
		return;
	}
	host->is_dirty = true;
	host_check(host);
	host_plan(host);
}

/* ---- events -------------------------------------------------------------- */

static void do_event(struct sim_world *world, void *arg)
{
	struct host *host = container_of(world, struct host, world);
	const struct event *event = arg;
	struct link_id link = {event->link};
	struct node *node = world->node;

	switch (event->kind) {
	case EVENT_PEER_UP:
		node_on_peer_up(node, event->number);
		return;
	case EVENT_PEER_DOWN:
		node_on_peer_down(node, event->number, event->err);
		return;
	case EVENT_PEER_ANSWER:
		node_on_peer_answer(
			node, event->number, event->channel, event->message, event->size);
		return;
	case EVENT_LINK:
		node_on_link(node, link, "10.0.0.0:1");
		return;
	case EVENT_LINK_MESSAGE:
		node_on_link_message(
			node, link, event->channel, event->message, event->size);
		return;
	case EVENT_LINK_CLOSE:
		node_on_link_close(node, link);
		return;
	case EVENT_FETCH:
		node_on_fetch(node, event->number, event->err, event->checksum);
		return;
	case EVENT_DIR_ANSWER:
		dir_mem_answer(&host->office.port, event->call);
		return;
	case EVENT_DIR_LOST:
		dir_mem_lose(&host->office.port, event->call);
		return;
	case EVENT_DIR_NEWS:
		dir_mem_tell(&host->office.port, event->number);
		return;
	case EVENT_STEP:
		break;
	}
	NOT_REACHED("a turn is no event of the node");
}

static void host_turn(struct host *host)
{
	bool was_asked = host->is_dirty, more;

	host->is_dirty = false;
	if (!sim_step(&host->world, &more)) {
		host_is_dead(host);
		return;
	}
	host_check(host);
	if (host->leaves && node_has_left(host->world.node)) {
		sim_cover(host->sim, COVER_LEFT);
		host_kill(host, false);
		return;
	}
	host_plan(host);
	host->is_dirty = more;
	host->idle_turns = was_asked || host->next_ns > host->sim->now_ns
				   ? 0
				   : host->idle_turns + 1;
	if (host->idle_turns > IDLE_TURNS_MOST)
		sim_fail(host->sim,
			"the daemon of host %u turns and turns and has nothing to do",
			host->index);
}

void host_tell(struct host *host, const struct event *event)
{
	struct event copy = *event;

	host_tick(host);
	if (event->kind == EVENT_STEP) {
		host_turn(host);
		return;
	}
	(void)sim_call(&host->world, do_event, &copy);
	host_called(host);
}

/* ---- time ---------------------------------------------------------------- */

bool host_is_due(const struct host *host)
{
	return host_is_awake(host) &&
	       (host->is_dirty || host->next_ns <= host->sim->now_ns);
}

uint64_t host_next(const struct host *host)
{
	if (!host_is_up(host))
		return host->start_ns;
	return MAX(host->is_dirty ? host->sim->now_ns : host->next_ns, host->stopped_ns);
}
