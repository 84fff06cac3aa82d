/*
 * main.c - cenoted: options, segments, world, node; then the loop until a signal.
 *
 *   options -> segments (lock, adopt or make) -> disk (the same) -> node (adopt objects,
 *   watch clients) -> listen -> ready -> turn ... -> SIGTERM, SIGINT -> leave of other nodes
 *   -> disk closed, pool kept or freed
 */
#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/version.h"
#include "ipc/world.h"
#include "node/join.h"
#include "node/manual.h"
#include "node/node.h"
#include "tier/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXIT_USAGE      2
#define DETAIL_MAX      512
#define CONFIG_JSON_MAX 8192

struct daemon {
	struct node_config config;
	struct log log;
	struct fault_table faults;
	struct loop loop;
	struct segment_dir dir;
	struct world world;
	struct store *store; /* NULL: there is no disk */
	struct join join;    /* of a node among others */
	struct node *node;
	int listener;
	bool was_ready;
};

/* ---- command line -------------------------------------------------------- */

static void print_config(const struct node_config *config)
{
	char text[CONFIG_JSON_MAX];
	struct json json;

	if (!config->json) {
		option_print(stdout, config_settings(), config);
		return;
	}
	json_init(&json, text, sizeof(text));
	json_object_begin(&json, NULL);
	option_json(&json, config_settings(), config);
	json_object_end(&json);
	if (json_finish(&json) >= 0)
		(void)puts(text);
}

/* True: it was a command, and is done. */
static bool run_command(const struct node_config *config)
{
	if (config->help)
		manual_help(stdout);
	else if (config->man)
		manual_man(stdout);
	else if (config->version)
		(void)puts("cenoted " VERSION_TEXT);
	else if (config->print_config)
		print_config(config);
	else
		return false;
	return true;
}

static int read_options(int argc, char **argv, struct node_config *config)
{
	char message[OPTION_MESSAGE_MAX];
	int operands = 0;
	int err;

	config_defaults(config);
	err = option_parse(config_options(), argc, argv, config, &operands, message);
	if (err == 0 && operands > 0) {
		(void)snprintf(message, sizeof(message),
			"%.80s: there are no operands; --help lists the options",
			argv[1]);
		err = ERR_BAD_ARGUMENT;
	}
	if (err == 0)
		err = config_finish(config, geteuid(), message);
	if (err != 0)
		(void)fprintf(stderr, "cenoted: %s\n", message);
	return err;
}

/* ---- start --------------------------------------------------------------- */

/* Say why it cannot start, and return `err`. */
static int refuse(const struct daemon *daemon, int err, const char *text)
{
	char quoted[DETAIL_MAX];

	log_line(&daemon->log, LOG_LEVEL_ERROR, "start_refused", "error=%s msg=\"%s\"",
		err_name(err), log_quote(quoted, sizeof(quoted), text));
	return err;
}

/* A descriptor for each lane and each watched process, and some more. */
static void raise_file_limit(const struct daemon *daemon)
{
	uint64_t wanted = daemon->config.max_lanes + 2 * CLIENT_LIMIT + 64 +
			  (daemon->config.directory != NULL ? 16 * PEER_LIMIT : 0);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = MIN((rlim_t)wanted, limit.rlim_max);
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < wanted)
		log_line(&daemon->log, LOG_LEVEL_WARNING, "few_descriptors",
			"limit=%" PRIu64 " wanted=%" PRIu64
			" msg=\"fewer connections are possible than --max-lanes "
			"says; raise ulimit -n\"",
			(uint64_t)limit.rlim_cur, wanted);
}

/* Without the right to it the daemon is as quick as anyone. */
static void raise_priority(const struct daemon *daemon)
{
	int nice = -(int)daemon->config.priority;

	if (nice == 0 || setpriority(PRIO_PROCESS, 0, nice) == 0)
		return;
	log_line(&daemon->log, LOG_LEVEL_DEBUG, "priority",
		"nice=%d msg=\"not permitted; it stays as it was started\"", nice);
}

static int open_segments(struct daemon *daemon)
{
	const struct node_config *config = &daemon->config;
	struct segment_config wanted = {
		.path = config->shm_path,
		.pool_size = config->pool_size,
		.own_mount = config->shm_dir == NULL,
		.huge_pages = config->huge_pages != HUGE_PAGES_NEVER,
	};
	char detail[DETAIL_MAX] = "";
	int err = segment_open(&daemon->dir, &wanted, detail, sizeof(detail));

	if (err != 0)
		return refuse(daemon, err, detail);
	if (daemon->dir.warning[0] != '\0')
		log_line(&daemon->log, LOG_LEVEL_WARNING, "segments", "msg=\"%s\"",
			log_quote(detail, sizeof(detail), daemon->dir.warning));
	return 0;
}

/* What the pool lies on, and what that costs each client that maps it. */
static int tell_pages(const struct daemon *daemon)
{
	uint64_t page = segment_page_size(&daemon->dir);
	uint64_t tables = daemon->dir.pool_size / page * 8;
	char pool[TEXT_MAX], cost[TEXT_MAX];

	daemon->dir.share.header->page_size = page; /* as it is, not as it was hoped */
	log_line(&daemon->log, LOG_LEVEL_INFO, "pool",
		"path=%s bytes=%" PRIu64 " page_bytes=%" PRIu64
		" new=%d slots_limit=%" PRIu32 " msg=\"pool of %s on pages of %s; each "
		"client costs up to %s of page tables\"",
		daemon->dir.path, daemon->dir.pool_size, page, daemon->dir.is_new,
		daemon->dir.slots_limit,
		format_size(pool, sizeof(pool), daemon->dir.pool_size),
		page == SEGMENT_PAGE ? "4 KiB" : "2 MiB",
		format_size(cost, sizeof(cost), tables));
	if (daemon->config.huge_pages == HUGE_PAGES_REQUIRE && page == SEGMENT_PAGE)
		return refuse(daemon, ERR_NOT_SUPPORTED,
			"--huge-pages=require, but the pool has pages of 4 KiB: it "
			"takes a tmpfs with huge=within_size, which root mounts by "
			"itself if the kernel lets it, and enough free memory in one "
			"piece; or --huge-pages=auto");
	return 0;
}

static void on_tier(void *ctx, uint32_t job, int err)
{
	node_on_tier(((struct daemon *)ctx)->node, job, err);
}

static void on_tier_warning(void *ctx, const char *text)
{
	const struct daemon *daemon = ctx;
	char quoted[DETAIL_MAX];

	log_line(&daemon->log, LOG_LEVEL_WARNING, "disk", "msg=\"%s\"",
		log_quote(quoted, sizeof(quoted), text));
}

static void tell_disk(const struct daemon *daemon)
{
	char size[TEXT_MAX], index[TEXT_MAX], free_text[TEXT_MAX];
	struct store_info info;

	store_info(daemon->store, &info);
	log_line(&daemon->log, LOG_LEVEL_INFO, "disk",
		"path=%s new=%d direct=%d objects=%" PRIu64 " skipped=%" PRIu64
		" bytes=%" PRIu64 " msg=\"up to %s of objects and %s of index; the file "
		"system has %s free\"",
		daemon->config.disk, info.is_new, info.direct, info.objects, info.skipped,
		info.backed, format_size(size, sizeof(size), info.data_size),
		format_size(index, sizeof(index), info.index_size),
		format_size(free_text, sizeof(free_text), info.free_bytes));
}

static int open_disk(struct daemon *daemon)
{
	const struct node_config *config = &daemon->config;
	struct store_config wanted = {
		.path = config->disk,
		.disk_size = config->disk_size,
		/* Smaller ones on average would not fit into the index anyway. */
		.object_limit = MIN(config->disk_objects, config->disk_size / 512),
		.threads = (uint32_t)config->disk_threads,
		.pool = daemon->dir.share.pool,
		.pool_size = daemon->dir.pool_size,
		.loop = &daemon->loop,
		.ctx = daemon,
		.done = on_tier,
		.warn = on_tier_warning,
	};
	char detail[DETAIL_MAX] = "";
	int err;

	if (config->disk == NULL)
		return 0;
	err = store_open(&daemon->store, &wanted, detail, sizeof(detail));
	if (err != 0)
		return refuse(daemon, err, detail);
	tell_disk(daemon);
	return 0;
}

/* After the disk, which has the node's identity if there is one. */
static int open_cluster(struct daemon *daemon)
{
	const uint8_t *content = daemon->dir.share.header->pool_id;
	struct store_info info = {.objects = 0};
	char detail[DETAIL_MAX] = "";
	int err;

	if (daemon->store != NULL)
		store_info(daemon->store, &info);
	err = join_open(&daemon->join, &daemon->config, &daemon->loop, &daemon->dir.share,
		daemon->store != NULL ? info.uuid : content, content, detail,
		sizeof(detail));
	return err == 0 ? 0 : refuse(daemon, err, detail);
}

static int start_node(struct daemon *daemon)
{
	struct recovery recovery;
	struct env env;
	int err;

	err = world_open(&daemon->world, &daemon->loop, &daemon->dir,
		(uint32_t)daemon->config.max_lanes);
	if (err != 0)
		return refuse(daemon, err, "no memory for the connections (--max-lanes)");
	err = open_disk(daemon);
	if (err != 0)
		return err;
	world_env(&daemon->world, &env);
	if (daemon->store != NULL)
		store_env(daemon->store, &env.tier);
	err = open_cluster(daemon);
	if (err != 0)
		return err;
	join_env(&daemon->join, &env);
	err = node_new(&daemon->node, &daemon->config, &env, &daemon->dir.share,
		&daemon->faults);
	if (err != 0)
		return refuse(daemon, err,
			"no memory for the tables of the node (--pool, --max-ops, "
			"--disk-objects)");
	err = join_node(&daemon->join, daemon->node);
	if (err != 0)
		return refuse(daemon, err, "no memory for the tables of a cluster");
	err = node_start(daemon->node, &recovery);
	if (err != 0)
		return refuse(daemon, err,
			"what is in the pool, or on the disk, cannot be adopted");
	return 0;
}

/* ---- events -------------------------------------------------------------- */

static struct node *node_of(void *ctx)
{
	return ((struct daemon *)ctx)->node;
}

static void on_open(void *ctx, struct lane_id lane, uint32_t uid)
{
	node_on_open(node_of(ctx), lane, uid);
}

static void on_message(void *ctx, struct lane_id lane, const void *message, size_t size)
{
	node_on_message(node_of(ctx), lane, message, size);
}

static void on_close(void *ctx, struct lane_id lane)
{
	node_on_close(node_of(ctx), lane);
}

static void on_exit_of_client(void *ctx, uint32_t cid)
{
	node_on_exit(node_of(ctx), cid);
}

static int start_listening(struct daemon *daemon)
{
	const struct world_events events = {
		daemon, on_open, on_message, on_close, on_exit_of_client};
	const struct node_config *config = &daemon->config;
	char detail[DETAIL_MAX] = "";
	int err = socket_listen(config->socket_path, config->socket_mode_bits,
		&daemon->listener, detail, sizeof(detail));

	if (err != 0)
		return refuse(daemon, err, detail);
	err = world_listen(&daemon->world, daemon->listener, &events);
	if (err != 0)
		return refuse(daemon, err, "the socket cannot be listened at");
	return 0;
}

static void tell_ready(struct daemon *daemon)
{
	const struct node_config *config = &daemon->config;
	int fd = (int)config->ready_fd;

	daemon->was_ready = true;
	log_line(&daemon->log, LOG_LEVEL_INFO, "ready", "socket=%s pid=%d",
		config->socket_path, (int)getpid());
	if (fd < 0)
		return;
	if (dprintf(fd, "ready\n%s\n", config->socket_path) < 0)
		log_line(&daemon->log, LOG_LEVEL_WARNING, "ready_not_told", "fd=%d", fd);
	(void)close(fd);
}

/* ---- loop, stop ---------------------------------------------------------- */

static int turn(struct daemon *daemon, int *signal)
{
	bool more = node_step(daemon->node);
	int err;

	more |= world_turn(&daemon->world);
	more |= join_turn(&daemon->join);
	loop_set_timer(
		&daemon->loop, MIN(node_next(daemon->node), join_next(&daemon->join)));
	err = loop_turn(&daemon->loop, !more, signal);
	(void)world_turn(&daemon->world);
	(void)join_turn(&daemon->join);
	return err;
}

/* Until it has, or a second signal says that it is to end now. */
static int leave(struct daemon *daemon)
{
	int err = 0, signal = 0;

	node_leave(daemon->node);
	while (err == 0 && signal == 0 && !node_has_left(daemon->node))
		err = turn(daemon, &signal);
	return err;
}

static int run(struct daemon *daemon)
{
	int err = 0, signal = 0;

	while (err == 0 && signal == 0)
		err = turn(daemon, &signal);
	if (err != 0)
		return err;
	log_line(&daemon->log, LOG_LEVEL_INFO, "stopping", "signal=%s",
		signal == SIGTERM ? "SIGTERM" : "SIGINT");
	return leave(daemon);
}

static bool any_client_lives(const struct daemon *daemon)
{
	const struct share_client *clients = daemon->dir.share.clients;

	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++) {
		if (atomic_load_explicit(&clients[cid].state, memory_order_relaxed) !=
			SHARE_CLIENT_FREE)
			return true;
	}
	return false;
}

/* A pool that no client ever saw goes with a failed start; any other is kept then. */
static bool pool_is_to_go(const struct daemon *daemon, bool in_order)
{
	if (!in_order)
		return daemon->dir.is_new && !daemon->was_ready;
	return daemon->config.on_exit == ON_EXIT_FREE;
}

static void close_pool(struct daemon *daemon, bool in_order)
{
	bool has_clients;

	if (!pool_is_to_go(daemon, in_order)) {
		segment_close(&daemon->dir);
		return;
	}
	has_clients = any_client_lives(daemon);
	if (has_clients)
		log_line(&daemon->log, LOG_LEVEL_WARNING, "pool_in_use",
			"msg=\"the pool's memory goes when the last client has ended\"");
	segment_free(&daemon->dir, has_clients);
	(void)rmdir(daemon->config.shm_path); /* if nothing else is in it */
}

static void stop(struct daemon *daemon, bool in_order)
{
	if (daemon->listener >= 0) {
		(void)unlink(daemon->config.socket_path);
		world_stop_listening(&daemon->world);
		(void)close(daemon->listener);
	}
	store_close(daemon->store); /* its threads write to what the node has */
	join_close(&daemon->join);
	node_free(daemon->node);
	world_close(&daemon->world);
	close_pool(daemon, in_order);
	loop_close(&daemon->loop);
	log_line(&daemon->log, LOG_LEVEL_INFO, "stopped", "pid=%d", (int)getpid());
}

static int start(struct daemon *daemon)
{
	static const int signals[] = {SIGTERM, SIGINT, 0};
	int err;

	raise_file_limit(daemon);
	raise_priority(daemon);
	err = start_node(daemon);
	if (err == 0)
		err = tell_pages(daemon);
	if (err == 0)
		err = loop_take_signals(&daemon->loop, signals);
	if (err == 0)
		err = start_listening(daemon);
	if (err == 0)
		tell_ready(daemon);
	return err;
}

/* Before any is opened: under its number there would be one of our own. */
static int check_ready_fd(const struct daemon *daemon)
{
	int fd = (int)daemon->config.ready_fd;
	char detail[DETAIL_MAX];

	if (fd < 0 || fcntl(fd, F_GETFD) >= 0)
		return 0;
	(void)snprintf(detail, sizeof(detail),
		"--ready-fd=%d: a descriptor is needed that was open at the start: %s",
		fd, strerror(errno));
	return refuse(daemon, ERR_BAD_ARGUMENT, detail);
}

static int serve(struct daemon *daemon)
{
	int err;

	daemon->listener = -1;
	daemon->log.level = config_log_level(&daemon->config);
	daemon->config.log = &daemon->log;
	err = check_ready_fd(daemon);
	if (err != 0)
		return err;
	fault_init(&daemon->faults);
	err = loop_open(&daemon->loop);
	if (err != 0) {
		loop_close(&daemon->loop);
		return refuse(daemon, err, "no event loop can be made");
	}
	err = open_segments(daemon);
	if (err != 0) {
		loop_close(&daemon->loop);
		return err;
	}
	err = start(daemon);
	if (err == 0)
		err = run(daemon);
	stop(daemon, err == 0);
	return err;
}

int main(int argc, char **argv)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int err;

	if (daemon == NULL || read_options(argc, argv, &daemon->config) != 0) {
		free(daemon);
		return EXIT_USAGE;
	}
	if (run_command(&daemon->config)) {
		free(daemon);
		return EXIT_SUCCESS;
	}
	err = serve(daemon);
	free(daemon);
	return err == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
