/*
 * host_env.c - the world as a daemon of the cluster has it: that of world.c, and behind it the
 * network and the directory. Each call there is a moment at which the daemon may die.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

static struct host *host_of(void *ctx)
{
	return ctx;
}

/* By a fault, or by its fate. */
static void env_die(void *ctx)
{
	struct host *host = host_of(ctx);

	trace_event(&host->sim->trace, "host %u: daemon dies inside", host->index);
	sim_cover(host->sim, COVER_KILLED_INSIDE);
	host_dies(host);
	host->below.die(host->below.die_ctx);
}

static struct host *called(void *ctx)
{
	struct host *host = host_of(ctx);

	if (host->kill_after > 0 && --host->kill_after == 0)
		env_die(host);
	return host;
}

/* ---- clients ------------------------------------------------------------- */

static void env_send(void *ctx, struct lane_id lane, const void *message, size_t size,
	const struct env_grant *grant)
{
	struct env_net *net = &called(ctx)->below.net;

	net->send(net->ctx, lane, message, size, grant);
}

static void env_close(void *ctx, struct lane_id lane)
{
	struct env_net *net = &host_of(ctx)->below.net;

	net->close(net->ctx, lane);
}

static int env_watch_lane(
	void *ctx, struct lane_id lane, uint32_t cid, struct env_process *ret_process)
{
	struct env_net *net = &called(ctx)->below.net;

	return net->watch_lane(net->ctx, lane, cid, ret_process);
}

static int env_watch_process(void *ctx, const struct env_process *process, uint32_t cid)
{
	struct env_net *net = &host_of(ctx)->below.net;

	return net->watch_process(net->ctx, process, cid);
}

static void env_unwatch(void *ctx, uint32_t cid)
{
	struct env_net *net = &host_of(ctx)->below.net;

	net->unwatch(net->ctx, cid);
}

/* ---- other nodes --------------------------------------------------------- */

static void env_connect(void *ctx, uint32_t place, const char *endpoint)
{
	wire_dial(called(ctx), place, endpoint);
}

static void env_peer_send(
	void *ctx, uint32_t place, uint32_t channel, const void *message, size_t size)
{
	wire_send(called(ctx), place, channel, message, size);
}

static void env_peer_close(void *ctx, uint32_t place)
{
	wire_hang_up(called(ctx), place);
}

static void env_answer(void *ctx, struct link_id link, uint32_t channel,
	const void *message, size_t size)
{
	wire_answer(called(ctx), link.value, channel, message, size);
}

static void env_close_link(void *ctx, struct link_id link)
{
	wire_hang_up_link(called(ctx), link.value);
}

static int env_offer(
	void *ctx, const struct peer_offer *offer, struct peer_ticket *ret_ticket)
{
	return transfer_offer(called(ctx), offer, ret_ticket);
}

static void env_withdraw(void *ctx, const struct peer_ticket *ticket)
{
	transfer_withdraw(called(ctx), ticket);
}

static void env_fetch(void *ctx, uint32_t fetch, const struct peer_fetch *what)
{
	transfer_begin(called(ctx), fetch, what);
}

static void env_stop_fetch(void *ctx, uint32_t fetch)
{
	transfer_stop(called(ctx), fetch);
}

/* ---- the directory ------------------------------------------------------- */

static void env_dir_start(void *ctx, struct dir_call *call)
{
	registry_call(called(ctx), call);
}

static uint32_t env_domain_of(void *ctx, const struct dir_id *id)
{
	const struct dir *dir = &host_of(ctx)->office.dir;

	return dir->domain_of(dir->ctx, id);
}

/* ---- a daemon's start ---------------------------------------------------- */

static void before_new(struct sim_world *world, struct env *env)
{
	struct host *host = container_of(world, struct host, world);

	host->below = *env;
	env->net = (struct env_net){host, env_send, env_close, env_watch_lane,
		env_watch_process, env_unwatch};
	env->peer = (struct env_peer){host, env_connect, env_peer_send, env_peer_close,
		env_answer, env_close_link, env_offer, env_withdraw, env_fetch,
		env_stop_fetch};
	env->die = env_die;
	env->die_ctx = host;
}

static int before_start(struct sim_world *world, struct node *node)
{
	struct host *host = container_of(world, struct host, world);
	struct node_cluster cluster = {
		.id = host->id,
		.incarnation = host->incarnation,
		.name = "sim",
		.endpoint = host->endpoint,
	};

	(void)registry_open(host);
	cluster.dir = (struct dir){
		.ctx = host, .start = env_dir_start, .domain_of = env_domain_of};
	return node_join_cluster(node, &cluster);
}

void host_env_init(struct host *host)
{
	host->world.before_new = before_new;
	host->world.before_start = before_start;
}
