/*
 * redis_scout.c - the connection that looks for the directory while no server of it is
 * connected: round the configured addresses and the servers known, one after another.
 *
 * Of a Redis Cluster anyone will do, who is asked for the map; a single Redis must be a
 * master, and then has all slots.
 */
#include "dir/redis_priv.h"

#include <string.h>

/* ---- where --------------------------------------------------------------- */

/* The address of this turn; returns how many there are. */
static uint32_t scout_address(struct dir_redis *dir, uint32_t at, struct address *ret)
{
	uint32_t count = dir->url.seed_count;

	*ret = dir->url.seeds[at < count ? at : 0];
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		const struct server *server = &dir->servers[i];

		if (!server->used || server->slot_count == 0)
			continue;
		if (count == at)
			*ret = server->conn.address;
		count++;
	}
	return count;
}

static void scout_rest(struct dir_redis *dir, uint64_t for_ns)
{
	dir->scout.when = loop_boot_ns() + for_ns;
	redis_conn_aim(&dir->scout.conn, NULL);
}

static void scout_failed(struct dir_redis *dir)
{
	struct scout *scout = &dir->scout;

	scout->at++;
	scout_rest(dir, scout->backoff_ns);
	scout->backoff_ns = MIN(2 * scout->backoff_ns, REDIS_BACKOFF_MOST_NS);
}

static void scout_found(struct dir_redis *dir)
{
	struct server *server = map_find_address(dir, &dir->scout.conn.address);

	if (server != NULL)
		redis_conn_hurry(&server->conn);
	dir->scout.backoff_ns = REDIS_BACKOFF_LEAST_NS;
	scout_rest(dir, MAP_SOON_NS);
}

/* ---- what it finds ------------------------------------------------------- */

static void scout_on_slots(void *ctx, const redisReply *reply)
{
	struct dir_redis *dir = ctx;

	if (reply == NULL)
		return; /* down() says it */
	if (map_take(dir, &dir->scout.conn, reply))
		scout_found(dir);
	else
		scout_failed(dir);
}

/* It has all slots. */
static void map_take_single(struct dir_redis *dir, const struct address *address)
{
	dir->is_cluster = false;
	dir->map->master_count = 1;
	dir->map->masters[0] = (struct slot_master){.address = *address};
	memset(dir->map->owner, 0, sizeof(dir->map->owner));
	dir->map_came = true;
	scout_found(dir);
}

static void scout_down(void *ctx, const char *why)
{
	struct dir_redis *dir = ctx;
	char name[ADDRESS_TEXT_MAX];

	redis_warn(
		dir, "redis %s: %s", address_text(&dir->scout.conn.address, name), why);
	scout_failed(dir);
}

static void scout_up(void *ctx)
{
	struct dir_redis *dir = ctx;
	struct redis_conn *conn = &dir->scout.conn;

	if (conn->is_cluster) {
		if (redis_conn_add_words(conn, map_words, scout_on_slots, dir))
			redis_conn_flush(conn);
		else
			redis_conn_break(conn, "no memory");
	} else if (conn->is_replica) {
		redis_conn_break(conn, "it is a replica");
	} else {
		map_take_single(dir, &conn->address);
	}
}

static const struct redis_conn_events scout_events = {.up = scout_up, .down = scout_down};

/* ---- turns --------------------------------------------------------------- */

void scout_turn(struct dir_redis *dir, uint64_t now)
{
	struct scout *scout = &dir->scout;
	struct address address;

	if (scout->conn.state == REDIS_CONN_IDLE) {
		if (now < scout->when)
			return;
		if (scout->at >= scout_address(dir, scout->at, &address))
			scout->at = 0; /* `address` is that already */
		redis_conn_aim(&scout->conn, &address);
	}
	redis_conn_due(&scout->conn, now);
}

void scout_init(struct dir_redis *dir)
{
	dir->scout.backoff_ns = REDIS_BACKOFF_LEAST_NS;
	redis_conn_init(&dir->scout.conn, &dir->access, &scout_events, dir);
}

void scout_fini(struct dir_redis *dir)
{
	redis_conn_fini(&dir->scout.conn);
}

uint64_t scout_next(const struct dir_redis *dir)
{
	const struct scout *scout = &dir->scout;

	return scout->conn.state == REDIS_CONN_IDLE ? scout->when
						    : redis_conn_next(&scout->conn);
}

void scout_stop(struct dir_redis *dir)
{
	if (dir->scout.conn.state != REDIS_CONN_IDLE)
		scout_rest(dir, 0);
}
