/*
 * redis_map.c - which server has which slot, and how that is found out.
 *
 * While a server of the map is connected, the map is asked of one: at times, at once after a
 * redirection, often while a server is away. While none is, the scout looks for one.
 */
#include "base/check.h"
#include "base/err.h"
#include "dir/redis_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t number_of(const struct server *server)
{
	return (uint8_t)(server - server->dir->servers);
}

static const char *name_of(const struct redis_conn *conn, char *text)
{
	return address_text(&conn->address, text);
}

static bool is_at(const struct server *server, const struct address *address)
{
	return server->used && server->conn.address.port == address->port &&
	       strcmp(server->conn.address.host, address->host) == 0;
}

/* ---- servers ------------------------------------------------------------- */

static void server_up(void *ctx)
{
	struct server *server = ctx;
	struct dir_redis *dir = server->dir;
	const struct redis_conn *conn = &server->conn;
	char name[ADDRESS_TEXT_MAX];

	if (conn->is_cluster != dir->is_cluster ||
		(conn->is_replica && server->slot_count > 0)) {
		map_want(dir, NULL);
		redis_conn_break(&server->conn, "it is not a master now");
		return;
	}
	if (conn->policy[0] != '\0' && strcmp(conn->policy, "noeviction") != 0)
		redis_warn(dir,
			"redis %s evicts when its memory is full (maxmemory-policy %s), "
			"and entries would be lost unnoticed: set noeviction",
			name_of(conn, name), conn->policy);
	dir->info.connections++;
	dir->dispatch = true;
	server->life_is_fresh = true;
	server->ping_ns = 0;
}

static void server_down(void *ctx, const char *why)
{
	struct server *server = ctx;
	char name[ADDRESS_TEXT_MAX];

	redis_warn(server->dir, "redis %s: %s", name_of(&server->conn, name), why);
	list_for_each_safe (at, &server->answered)
		redis_job_return(container_of(at, struct redis_job, entry));
	epoch_down(server, loop_boot_ns());
	map_want(server->dir, NULL);
}

static const struct redis_conn_events server_events = {
	.up = server_up, .down = server_down};

static void server_begin(
	struct dir_redis *dir, struct server *server, const struct address *address)
{
	*server = (struct server){
		.dir = dir,
		.used = true,
		.tag_slot = REDIS_SLOTS,
		.lost_ns = UINT64_MAX,
		.again_ns = UINT64_MAX,
		.guest_ns = loop_boot_ns(),
	};
	list_init(&server->answered);
	redis_conn_init(&server->conn, &dir->access, &server_events, server);
	redis_conn_aim(&server->conn, address);
}

/* It has no slots: its jobs go elsewhere, and the owner hears that it is away. */
static void server_end(struct server *server)
{
	struct dir_redis *dir = server->dir;

	redis_conn_fini(&server->conn);
	list_for_each_safe (at, &server->answered)
		redis_job_return(container_of(at, struct redis_job, entry));
	list_for_each (at, &dir->jobs) {
		struct redis_job *job = container_of(at, struct redis_job, by_age);

		if (job->ask == server)
			job->ask = NULL;
	}
	if (dir->map_from == server)
		dir->map_from = NULL;
	if (server->heard) {
		epoch_set_news(server, 0);
		epoch_tell(server, 0);
	}
	server->used = false;
}

static struct server *server_free_place(struct dir_redis *dir)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (!dir->servers[i].used)
			return &dir->servers[i];
	}
	return NULL;
}

struct server *map_route(struct dir_redis *dir, uint32_t slot)
{
	uint8_t owner = dir->owner[slot];

	return owner != NO_SERVER ? &dir->servers[owner] : NULL;
}

struct server *map_find_address(struct dir_redis *dir, const struct address *address)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (is_at(&dir->servers[i], address))
			return &dir->servers[i];
	}
	return NULL;
}

struct server *map_add_guest(struct dir_redis *dir, const struct address *address)
{
	struct server *server = server_free_place(dir);

	if (server != NULL)
		server_begin(dir, server, address);
	return server;
}

/* Connected, and with slots. */
static bool is_ready(const struct server *server)
{
	return server->used && server->slot_count > 0 &&
	       redis_conn_is_ready(&server->conn);
}

static bool any_is_ready(const struct dir_redis *dir)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (is_ready(&dir->servers[i]))
			return true;
	}
	return false;
}

/* ---- the map is taken over ----------------------------------------------- */

/* A server that had slots has one more. If it did not get it from a living one, its epoch
 * says nothing of what was there. */
static void server_gained(struct server *server, const struct server *old)
{
	server->again_ns = loop_boot_ns() + LOST_NS;
	if (old == NULL || !redis_conn_is_ready(&old->conn)) {
		server->outdated = server->epoch;
		epoch_look_soon(server);
	}
}

static void slot_assign(struct dir_redis *dir, uint32_t slot, uint8_t number)
{
	struct server *old = map_route(dir, slot), *server;

	dir->leaving[slot] = false;
	if (dir->owner[slot] == number)
		return;
	dir->owner[slot] = number;
	if (old != NULL)
		old->slot_count--;
	if (number == NO_SERVER)
		return;
	server = &dir->servers[number];
	server->slot_count++;
	if (server->epoch != 0)
		server_gained(server, old);
}

static struct server *find_node(struct dir_redis *dir, const struct slot_master *master)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		struct server *server = &dir->servers[i];

		if (server->used && strcmp(server->node, master->node) == 0 &&
			(master->node[0] != '\0' || server->slot_count > 0))
			return server;
	}
	return NULL;
}

/* Its server, a guest of this address, or a new one; NULL: there are too many. */
static struct server *take_master(struct dir_redis *dir, const struct slot_master *master)
{
	struct server *server = find_node(dir, master);

	if (server == NULL) {
		server = map_find_address(dir, &master->address);
		if (server != NULL && server->node[0] != '\0')
			server = NULL;
	}
	if (server == NULL)
		server = map_add_guest(dir, &master->address);
	if (server == NULL) {
		redis_warn(dir,
			"the Redis Cluster has more than %u masters: the keys of the "
			"others cannot be reached",
			REDIS_SERVERS);
		return NULL;
	}
	memcpy(server->node, master->node, sizeof(server->node));
	if (!is_at(server, &master->address))
		redis_conn_aim(&server->conn, &master->address);
	return server;
}

static void end_idle_servers(struct dir_redis *dir, uint64_t now)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		struct server *server = &dir->servers[i];
		bool is_guest = server->node[0] == '\0' &&
				now < server->guest_ns + GUEST_NS;

		if (server->used && server->slot_count == 0 && !is_guest)
			server_end(server);
	}
}

static void map_apply(struct dir_redis *dir, uint64_t now)
{
	const struct slot_map *map = dir->map;
	uint8_t numbers[SLOT_MASTERS];

	for (uint32_t i = 0; i < map->master_count; i++) {
		const struct server *server = take_master(dir, &map->masters[i]);

		numbers[i] = server != NULL ? number_of(server) : NO_SERVER;
	}
	for (uint32_t slot = 0; slot < REDIS_SLOTS; slot++) {
		uint16_t owner = map->owner[slot];

		slot_assign(dir, slot, owner != SLOT_NONE ? numbers[owner] : NO_SERVER);
	}
	end_idle_servers(dir, now);
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			epoch_choose_key(&dir->servers[i]);
	}
	dir->info.maps++;
	dir->info.is_cluster = dir->is_cluster;
	dir->map_came = false;
	dir->map_ns = now + MAP_NS;
	dir->dispatch = true;
}

void map_moved(struct dir_redis *dir, uint32_t slot, struct server *to)
{
	struct server *from = map_route(dir, slot);

	if (from == to)
		return;
	slot_assign(dir, slot, number_of(to));
	if (from != NULL)
		epoch_choose_key(from);
	epoch_choose_key(to);
}

/* ---- the map is asked for ------------------------------------------------ */

const char *const map_words[] = {"CLUSTER", "SLOTS", NULL};

bool map_take(struct dir_redis *dir, struct redis_conn *conn, const redisReply *reply)
{
	char name[ADDRESS_TEXT_MAX];

	if (!slot_map_parse(reply, conn->address.host, dir->map)) {
		redis_warn(dir, "redis %s: CLUSTER SLOTS: %.200s", name_of(conn, name),
			reply->type == REDIS_REPLY_ERROR ? reply->str : "not understood");
		return false;
	}
	dir->is_cluster = true;
	dir->map_came = true;
	return true;
}

static void on_slots(void *ctx, const redisReply *reply)
{
	struct server *server = ctx;
	struct dir_redis *dir = server->dir;

	dir->map_asked = false;
	if (reply == NULL || !map_take(dir, &server->conn, reply))
		dir->map_ns = loop_boot_ns() + MAP_SOON_NS;
}

/* Whom to ask: who is said to know, or the next in turn. */
static struct server *map_source(struct dir_redis *dir)
{
	struct server *from = dir->map_from;

	dir->map_from = NULL;
	if (from != NULL && from->used && redis_conn_is_ready(&from->conn))
		return from;
	do {
		dir->map_at = (dir->map_at + 1) % REDIS_SERVERS;
	} while (!is_ready(&dir->servers[dir->map_at]));
	return &dir->servers[dir->map_at];
}

static void map_ask(struct dir_redis *dir, uint64_t now)
{
	struct server *from = map_source(dir);

	dir->map_asked_ns = now;
	dir->map_ns = now + MAP_SOON_NS;
	dir->map_asked = redis_conn_add_words(&from->conn, map_words, on_slots, from);
}

void map_want(struct dir_redis *dir, struct server *from)
{
	dir->map_ns = MIN(dir->map_ns, dir->map_asked_ns + MAP_LEAST_NS);
	if (from != NULL)
		dir->map_from = from;
}

/* Some slots have no server, or one that is not connected. */
static bool map_is_lame(const struct dir_redis *dir)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (is_ready(&dir->servers[i]))
			count += dir->servers[i].slot_count;
	}
	return count < REDIS_SLOTS;
}

/* ---- turns --------------------------------------------------------------- */

void map_init(struct dir_redis *dir)
{
	memset(dir->owner, NO_SERVER, sizeof(dir->owner));
	dir->map_ns = UINT64_MAX;
	scout_init(dir);
}

void map_fini(struct dir_redis *dir)
{
	scout_fini(dir);
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			redis_conn_fini(&dir->servers[i].conn);
	}
}

void map_turn(struct dir_redis *dir, uint64_t now)
{
	bool ready;

	if (dir->map_came)
		map_apply(dir, now);
	ready = any_is_ready(dir);
	if (!ready)
		scout_turn(dir, now);
	else
		scout_stop(dir);
	if (!ready || !dir->is_cluster)
		return;
	if (map_is_lame(dir))
		dir->map_ns = MIN(dir->map_ns, dir->map_asked_ns + MAP_SOON_NS);
	if (!dir->map_asked && !dir->map_came && now >= dir->map_ns)
		map_ask(dir, now);
}

uint64_t map_next(const struct dir_redis *dir)
{
	if (dir->map_came)
		return 0;
	if (!any_is_ready(dir))
		return scout_next(dir);
	return dir->is_cluster && !dir->map_asked ? dir->map_ns : UINT64_MAX;
}
