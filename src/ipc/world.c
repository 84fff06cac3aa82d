/*
 * world.c - struct env over sockets, pidfds and segments.
 *
 * A full table of lanes stops the listener, so that more who come wait in its backlog
 * instead of costing a turn each; the first lane that closes starts it again.
 */
#include "ipc/world.h"

#include "base/check.h"
#include "base/err.h"
#include "ipc/process.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORLD_ACCEPTS_A_TURN 16

static struct world *world_of(void *ctx)
{
	return ctx;
}

/* ---- lanes --------------------------------------------------------------- */

static struct lane_id lane_id_of(const struct world_lane *lane)
{
	uint32_t index = (uint32_t)(lane - lane->world->lanes);

	return (struct lane_id){(uint64_t)lane->life << 32 | (index + 1)};
}

/* NULL: it was closed already. */
static struct world_lane *lane_of(struct world *world, struct lane_id id)
{
	uint32_t index = (uint32_t)id.value - 1;
	struct world_lane *lane;

	if (index >= world->lane_limit)
		return NULL;
	lane = &world->lanes[index];
	if (lane->source.fd < 0 || lane->life != (uint32_t)(id.value >> 32))
		return NULL;
	return lane;
}

static bool lane_is_closing(const struct world_lane *lane)
{
	return !list_is_empty(&lane->entry);
}

/* Deaf and dumb from here on; told by world_turn(). */
static void lane_end(struct world_lane *lane)
{
	if (lane_is_closing(lane))
		return;
	loop_remove(lane->world->loop, &lane->source);
	list_add_tail(&lane->world->closing, &lane->entry);
}

/* One message a turn: a client waits for the answer to its last one, so there is seldom a
 * second, and a lane that sends many must not keep the others waiting. */
static void lane_on_ready(struct loop_source *source)
{
	struct world_lane *lane = container_of(source, struct world_lane, source);
	struct world *world = lane->world;
	struct socket_extra extra = {.count = 0};
	int64_t size = socket_receive(source->fd, world->buffer, MSG_SIZE_MAX, 0, &extra);

	if (size == ERR_BUSY)
		return;
	if (size < 0) {
		lane_end(lane);
		return;
	}
	while (extra.count > 0) /* nobody asked for descriptors */
		(void)close(extra.fds[--extra.count]);
	lane->sender = extra.sender;
	world->events.message(
		world->events.ctx, lane_id_of(lane), world->buffer, (size_t)size);
}

/* ---- connections come ---------------------------------------------------- */

static void listener_pause(struct world *world)
{
	if (world->listens)
		loop_remove(world->loop, &world->listener);
	world->listens = false;
}

static void listener_resume(struct world *world)
{
	if (!world->listens && world->listener.fd >= 0)
		world->listens = loop_add(world->loop, &world->listener) == 0;
}

static void lane_open(struct world *world, int fd)
{
	struct list *entry = list_first(&world->free);
	struct world_lane *lane = container_of(entry, struct world_lane, entry);

	lane->source.fd = fd;
	lane->sender = 0;
	if (socket_peer(fd, &lane->peer) != 0 ||
		loop_add(world->loop, &lane->source) != 0) {
		(void)close(fd);
		lane->source.fd = -1;
		return;
	}
	list_del(entry);
	lane->life++;
	world->lanes_open++;
	world->events.open(world->events.ctx, lane_id_of(lane), lane->peer.uid);
}

static void listener_on_ready(struct loop_source *source)
{
	struct world *world = container_of(source, struct world, listener);

	for (int i = 0; i < WORLD_ACCEPTS_A_TURN; i++) {
		int err, fd;

		if (list_is_empty(&world->free)) {
			listener_pause(world);
			return;
		}
		err = socket_accept(source->fd, &fd);
		if (err == ERR_BUSY)
			return;
		if (err != 0) {
			/* Out of descriptors or memory: a lane that closes gives some. */
			if (world->lanes_open > 0)
				listener_pause(world);
			return;
		}
		lane_open(world, fd);
	}
}

int world_listen(struct world *world, int listener, const struct world_events *events)
{
	world->events = *events;
	world->listener.fd = listener;
	listener_resume(world);
	return world->listens ? 0 : ERR_IO;
}

void world_stop_listening(struct world *world)
{
	listener_pause(world);
	world->listener.fd = -1;
}

bool world_turn(struct world *world)
{
	struct list *entry;
	bool any = false;

	while ((entry = list_first(&world->closing)) != NULL) {
		struct world_lane *lane = container_of(entry, struct world_lane, entry);
		struct lane_id id = lane_id_of(lane);

		(void)close(lane->source.fd);
		lane->source.fd = -1;
		list_move_tail(&world->free, entry);
		world->lanes_open--;
		world->events.close(world->events.ctx, id);
		listener_resume(world);
		any = true;
	}
	return any;
}

/* ---- env_net ------------------------------------------------------------- */

static void world_send(void *ctx, struct lane_id id, const void *message, size_t size,
	const struct env_grant *grant)
{
	struct world *world = world_of(ctx);
	struct world_lane *lane = lane_of(world, id);
	int fds[SEGMENT_FDS] = {-1, -1, -1};
	int err = 0;

	if (lane == NULL || lane_is_closing(lane))
		return;
	if (grant != NULL)
		err = segment_grant(world->dir, grant->cid, grant->incarnation,
			grant->pool_writable, fds);
	if (err == 0) {
		err = socket_send(lane->source.fd, message, size, fds,
			grant != NULL ? SEGMENT_FDS : 0, 0);
		for (int i = 0; grant != NULL && i < SEGMENT_FDS; i++)
			(void)close(fds[i]);
	}
	if (err != 0)
		lane_end(lane);
}

static void world_close_lane(void *ctx, struct lane_id id)
{
	struct world_lane *lane = lane_of(world_of(ctx), id);

	if (lane != NULL)
		lane_end(lane);
}

static void process_on_ready(struct loop_source *source)
{
	struct world_process *watched = container_of(
		source, struct world_process, source);
	struct world *world = watched->world;
	uint32_t cid = (uint32_t)(watched - world->processes);

	/* Ready for good from here on. */
	loop_remove(world->loop, source);
	(void)close(source->fd);
	source->fd = -1;
	world->events.exit(world->events.ctx, cid);
}

static int process_watch(
	struct world *world, uint32_t cid, int pidfd, const struct env_process *process)
{
	struct world_process *watched = &world->processes[cid];
	int err;

	if (watched->source.fd >= 0) {
		(void)close(pidfd);
		return 0;
	}
	watched->source.fd = pidfd;
	watched->process = *process;
	err = loop_add(world->loop, &watched->source);
	if (err != 0) {
		(void)close(pidfd);
		watched->source.fd = -1;
	}
	return err;
}

static int world_watch_lane(
	void *ctx, struct lane_id id, uint32_t cid, struct env_process *ret_process)
{
	struct world *world = world_of(ctx);
	struct world_lane *lane = lane_of(world, id);
	struct env_process process;
	int pidfd, err;

	if (lane == NULL || lane_is_closing(lane))
		return ERR_UNAVAILABLE;
	/* A descriptor that was passed on: who uses it is not whom we would watch. */
	if (lane->sender != lane->peer.pid)
		return ERR_NOT_PERMITTED;
	err = process_open_peer(
		lane->source.fd, &process.pid, &process.start_time, &pidfd);
	if (err == 0)
		err = process_watch(world, cid, pidfd, &process);
	if (err == 0)
		*ret_process = process;
	return err;
}

static int world_watch_process(void *ctx, const struct env_process *process, uint32_t cid)
{
	int pidfd;
	int err = process_open(process->pid, process->start_time, &pidfd);

	return err != 0 ? err : process_watch(world_of(ctx), cid, pidfd, process);
}

static void world_unwatch(void *ctx, uint32_t cid)
{
	struct world *world = world_of(ctx);
	struct loop_source *source = &world->processes[cid].source;

	if (source->fd < 0)
		return;
	loop_remove(world->loop, source);
	(void)close(source->fd);
	source->fd = -1;
}

/* ---- env_disk, env_clock, env_random ------------------------------------- */

static int world_index_extend(void *ctx, uint64_t offset, uint64_t bytes)
{
	return segment_index_extend(world_of(ctx)->dir, offset, bytes);
}

static int world_holds_make(void *ctx, uint32_t cid, uint32_t incarnation,
	uint32_t nslots, _Atomic uint16_t **ret_counts)
{
	return segment_holds_make(
		world_of(ctx)->dir, cid, incarnation, nslots, ret_counts);
}

static int world_holds_open(
	void *ctx, uint32_t cid, uint32_t incarnation, _Atomic uint16_t **ret_counts)
{
	return segment_holds_open(world_of(ctx)->dir, cid, incarnation, ret_counts);
}

static int world_holds_extend(void *ctx, uint32_t cid, uint32_t nslots)
{
	return segment_holds_extend(world_of(ctx)->dir, cid, nslots);
}

static void world_holds_drop(void *ctx, uint32_t cid, uint32_t incarnation)
{
	segment_holds_drop(world_of(ctx)->dir, cid, incarnation);
}

static uint64_t world_boot_ns(void *ctx)
{
	(void)ctx;
	return loop_boot_ns();
}

static uint64_t world_wall_us(void *ctx)
{
	(void)ctx;
	return loop_wall_us();
}

static void world_random(void *ctx, void *buffer, size_t size)
{
	(void)ctx;
	loop_random(buffer, size);
}

static void world_die(void *ctx)
{
	(void)ctx;
	(void)kill(getpid(), SIGKILL);
	for (;;)
		(void)pause();
}

void world_env(struct world *world, struct env *ret_env)
{
	*ret_env = (struct env){
		.clock = {world, world_boot_ns, world_wall_us},
		.net = {world, world_send, world_close_lane, world_watch_lane,
			world_watch_process, world_unwatch},
		.disk = {world, world_index_extend, world_holds_make, world_holds_open,
			world_holds_extend, world_holds_drop},
		.random = {world, world_random},
		.die = world_die,
	};
}

/* ---- begin and end ------------------------------------------------------- */

int world_open(struct world *world, struct loop *loop, struct segment_dir *dir,
	uint32_t lane_limit)
{
	memset(world, 0, sizeof(*world));
	world->loop = loop;
	world->dir = dir;
	world->listener = (struct loop_source){.fd = -1, .on_ready = listener_on_ready};
	list_init(&world->free);
	list_init(&world->closing);
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		world->processes[cid].world = world;
		world->processes[cid].source = (struct loop_source){
			.fd = -1, .on_ready = process_on_ready};
	}
	world->buffer = malloc(MSG_SIZE_MAX);
	world->lanes = calloc(lane_limit, sizeof(world->lanes[0]));
	if (world->buffer == NULL || world->lanes == NULL) {
		world_close(world);
		return ERR_NO_MEMORY;
	}
	world->lane_limit = lane_limit;
	for (uint32_t i = 0; i < lane_limit; i++) {
		struct world_lane *lane = &world->lanes[i];

		lane->world = world;
		lane->source = (struct loop_source){.fd = -1, .on_ready = lane_on_ready};
		list_add_tail(&world->free, &lane->entry);
	}
	return 0;
}

void world_close(struct world *world)
{
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		world_unwatch(world, cid);
	for (uint32_t i = 0; i < world->lane_limit; i++) {
		struct world_lane *lane = &world->lanes[i];

		if (lane->source.fd < 0)
			continue;
		lane_end(lane);
		(void)close(lane->source.fd);
		lane->source.fd = -1;
	}
	listener_pause(world);
	free(world->lanes);
	free(world->buffer);
	world->lanes = NULL;
	world->buffer = NULL;
	world->lane_limit = 0;
}
