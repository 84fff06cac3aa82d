/*
 * join.c - from the settings to a directory and connections, and their events to the node.
 */
#include "node/join.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JOIN_OFFERS 16384u

/* ---- events -------------------------------------------------------------- */

static struct node *node_of(void *ctx)
{
	return ((struct join *)ctx)->node;
}

static void on_warn(void *ctx, const char *text)
{
	const struct join *join = ctx;
	char quoted[512];

	log_line(join->config->log, LOG_LEVEL_WARNING, "cluster", "msg=\"%s\"",
		log_quote(quoted, sizeof(quoted), text));
}

static void on_peer_up(void *ctx, uint32_t peer)
{
	node_on_peer_up(node_of(ctx), peer);
}

static void on_peer_down(void *ctx, uint32_t peer, int err, const char *why)
{
	const struct join *join = ctx;
	char quoted[512];

	log_line(join->config->log, LOG_LEVEL_DEBUG, "connection",
		"place=%" PRIu32 " error=%s msg=\"%s\"", peer, err_name(err),
		log_quote(quoted, sizeof(quoted), why));
	node_on_peer_down(node_of(ctx), peer, err);
}

static void on_peer_answer(
	void *ctx, uint32_t peer, uint32_t channel, const void *message, size_t size)
{
	node_on_peer_answer(node_of(ctx), peer, channel, message, size);
}

static void on_link(void *ctx, struct link_id link, const char *address)
{
	node_on_link(node_of(ctx), link, address);
}

static void on_link_message(void *ctx, struct link_id link, uint32_t channel,
	const void *message, size_t size)
{
	node_on_link_message(node_of(ctx), link, channel, message, size);
}

static void on_link_close(void *ctx, struct link_id link)
{
	node_on_link_close(node_of(ctx), link);
}

static void on_fetch(void *ctx, uint32_t fetch, int err, uint64_t checksum)
{
	node_on_fetch(node_of(ctx), fetch, err, checksum);
}

static void on_dir(void *ctx, struct dir_call *call)
{
	node_on_dir(node_of(ctx), call);
}

static void on_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	node_on_epoch(node_of(ctx), domain, epoch);
}

/* ---- open ---------------------------------------------------------------- */

static int open_tls(struct join *join, char *detail, size_t detail_size)
{
	const struct node_config *config = join->config;
	const struct tls_config wanted = {
		.key_file = config->peer_key,
		.cert_file = config->peer_cert,
		.cert_key_file = config->peer_cert_key,
		.ca_file = config->peer_ca,
	};

	if (config->insecure) {
		log_line(config->log, LOG_LEVEL_WARNING, "insecure",
			"msg=\"other nodes prove nothing, and whoever reaches %s may "
			"read and remove every object (--insecure)\"",
			config->peer_listen);
		return 0;
	}
	return tls_new(&join->tls, &wanted, detail, detail_size);
}

static int open_peers(struct join *join, struct loop *loop, const struct share *share,
	char *detail, size_t detail_size)
{
	const struct node_config *config = join->config;
	struct peers_config wanted = {
		.loop = loop,
		.secure = config->insecure   ? PEERS_SECURE_NONE
			  : config->peer_tls ? PEERS_SECURE_ALL
					     : PEERS_SECURE_CONTROL,
		.tls = join->tls,
		.share = share,
		.offers = JOIN_OFFERS,
		.events = {join, on_peer_up, on_peer_down, on_peer_answer, on_link,
			on_link_message, on_link_close, on_fetch, on_warn},
	};
	int err = address_parse_listen(
		config->peer_listen, &wanted.listen, detail, detail_size);

	if (err == 0)
		err = peers_open(&join->peers, &wanted, detail, detail_size);
	return err;
}

static int open_redis(
	struct join *join, struct loop *loop, char *detail, size_t detail_size)
{
	const struct node_config *config = join->config;
	const struct dir_redis_config wanted = {
		.url = config->directory_url,
		.password_file = config->directory_password,
		.cluster = config->cluster,
		.tls = {.ca_file = config->directory_ca},
		.loop = loop,
		.events = {join, on_dir, on_epoch},
		.warn = on_warn,
		.warn_ctx = join,
	};
	int err = dir_redis_open(&join->redis, &wanted, detail, detail_size);

	if (err == 0)
		dir_redis_dir(join->redis, &join->cluster.dir);
	return err;
}

/* ---- who it is ----------------------------------------------------------- */

static bool is_every_address(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Where others are told to connect to. */
static int find_endpoint(struct join *join, char *detail, size_t detail_size)
{
	const char *given = join->config->peer_endpoint != NULL
				    ? join->config->peer_endpoint
				    : join->config->peer_listen;
	struct address address;
	int err = given == join->config->peer_listen
			  ? address_parse_listen(given, &address, detail, detail_size)
			  : address_parse(given, peers_port(join->peers), &address,
				    detail, detail_size);

	if (err != 0)
		return err;
	if (given == join->config->peer_listen)
		address.port = peers_port(join->peers);
	if (is_every_address(address.host) &&
		gethostname(address.host, sizeof(address.host)) != 0) {
		(void)snprintf(detail, detail_size,
			"--peer-listen=%s: the host's name is not known; say "
			"--peer-endpoint",
			join->config->peer_listen);
		return ERR_BAD_ARGUMENT;
	}
	(void)address_text(&address, join->endpoint);
	return 0;
}

/* Never 0. */
static uint64_t number_of(const uint8_t *bytes, size_t size, uint64_t seed)
{
	return hash_key(bytes, size, seed) | 1;
}

static void take_identity(
	struct join *join, const uint8_t *identity, const uint8_t *content)
{
	uint8_t both[32];

	memcpy(both, identity, 16);
	memcpy(both + 16, content, 16);
	join->cluster.id = number_of(identity, 16, 1);
	join->cluster.incarnation = number_of(both, sizeof(both), 2);
	join->cluster.name = join->config->cluster;
	join->cluster.endpoint = join->endpoint;
}

int join_open(struct join *join, const struct node_config *config, struct loop *loop,
	const struct share *share, const uint8_t *identity, const uint8_t *content,
	char *detail, size_t detail_size)
{
	int err;

	join->config = config;
	if (config->directory == NULL)
		return 0;
	err = open_tls(join, detail, detail_size);
	if (err == 0)
		err = open_peers(join, loop, share, detail, detail_size);
	if (err == 0)
		err = find_endpoint(join, detail, detail_size);
	if (err == 0)
		err = open_redis(join, loop, detail, detail_size);
	if (err != 0)
		return err;
	take_identity(join, identity, content);
	log_line(config->log, LOG_LEVEL_INFO, "cluster",
		"name=%s node=%016" PRIx64 " endpoint=%s directory=%s", config->cluster,
		join->cluster.id, join->endpoint, config->directory);
	return 0;
}

void join_env(struct join *join, struct env *env)
{
	if (join->peers != NULL)
		peers_env(join->peers, &env->peer);
}

int join_node(struct join *join, struct node *node)
{
	join->node = node;
	return join->peers == NULL ? 0 : node_join_cluster(node, &join->cluster);
}

/* ---- turns, end ---------------------------------------------------------- */

bool join_turn(struct join *join)
{
	uint64_t now;

	if (join->peers == NULL)
		return false;
	now = loop_boot_ns();
	dir_redis_turn(join->redis, now);
	return peers_turn(join->peers, now);
}

uint64_t join_next(const struct join *join)
{
	if (join->peers == NULL)
		return UINT64_MAX;
	return MIN(dir_redis_next(join->redis), peers_next(join->peers));
}

void join_close(struct join *join)
{
	dir_redis_close(join->redis);
	peers_close(join->peers);
	tls_free(join->tls);
	join->redis = NULL;
	join->peers = NULL;
	join->tls = NULL;
}
