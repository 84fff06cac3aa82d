/*
 * dir_redis.c - the directory's beginning and end, and its turns.
 *
 *   start --> job (redis_job.c) --> server (redis_map.c) --> answered, under an epoch
 *   (redis_epoch.c) --> finished --> done(), from here
 */
#include "dir/dir_redis.h"

#include "base/err.h"
#include "dir/dir_call.h"
#include "dir/redis_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- for the log --------------------------------------------------------- */

void redis_warn(struct dir_redis *dir, const char *format, ...)
{
	uint64_t now = loop_boot_ns();
	char text[REDIS_WHY_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *at = text; *at != '\0'; at++) {
		if ((unsigned char)*at < ' ')
			*at = ' '; /* a server may say anything */
	}
	for (uint32_t i = 0; i < WARN_TEXTS; i++) {
		if (dir->warned[i].when > now && strcmp(dir->warned[i].text, text) == 0)
			return;
	}
	memcpy(dir->warned[dir->warned_at].text, text, sizeof(text));
	dir->warned[dir->warned_at].when = now + WARN_NS;
	dir->warned_at = (dir->warned_at + 1) % WARN_TEXTS;
	if (dir->warn != NULL)
		dir->warn(dir->warn_ctx, text);
}

/* ---- begin and end ------------------------------------------------------- */

static bool name_is_good(const char *name)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_.-";
	size_t size = strlen(name);

	return size >= 1 && size <= DIR_REDIS_NAME_MAX && strspn(name, good) == size;
}

/* The file's first line is the password. */
static int read_password(
	struct dir_redis *dir, const char *path, char *detail, size_t detail_size)
{
	char *password = dir->url.password;
	FILE *file = fopen(path, "re");
	size_t size;

	if (file == NULL) {
		(void)snprintf(detail, detail_size, "%s: %s", path, strerror(errno));
		return ERR_IO;
	}
	size = fread(password, 1, sizeof(dir->url.password) - 1, file);
	(void)fclose(file);
	password[size] = '\0';
	password[strcspn(password, "\r\n")] = '\0';
	if (password[0] != '\0' && size < sizeof(dir->url.password) - 1)
		return 0;
	(void)snprintf(detail, detail_size,
		"%s: the first line must be a password of at most %zu bytes", path,
		sizeof(dir->url.password) - 3);
	return ERR_BAD_ARGUMENT;
}

/* False: no memory. */
static bool copy_text(struct dir_redis *dir, size_t at, const char **text)
{
	if (*text == NULL)
		return true;
	dir->tls_texts[at] = strdup(*text);
	*text = dir->tls_texts[at];
	return *text != NULL;
}

static int copy_tls(struct dir_redis *dir, char *detail, size_t detail_size)
{
	struct tls_config *config = &dir->access.tls;
	struct tls *tls;
	int err;

	if (!copy_text(dir, 0, &config->key_file) ||
		!copy_text(dir, 1, &config->cert_file) ||
		!copy_text(dir, 2, &config->cert_key_file) ||
		!copy_text(dir, 3, &config->ca_file) ||
		!copy_text(dir, 4, &config->host)) {
		(void)snprintf(detail, detail_size, "no memory for the directory");
		return ERR_NO_MEMORY;
	}
	if (!dir->url.tls)
		return 0;
	/* What is wrong with it now is worth a word at once. */
	err = tls_new(&tls, config, detail, detail_size);
	if (err == 0)
		tls_free(tls);
	return err;
}

static int redis_configure(struct dir_redis *dir, const struct dir_redis_config *config,
	char *detail, size_t detail_size)
{
	int err;

	if (!name_is_good(config->cluster)) {
		(void)snprintf(detail, detail_size,
			"the cluster's name has 1 to %u of A-Z a-z 0-9 _ . -, '%.80s' is "
			"none",
			DIR_REDIS_NAME_MAX, config->cluster);
		return ERR_BAD_ARGUMENT;
	}
	(void)snprintf(dir->name, sizeof(dir->name), "%s", config->cluster);
	err = redis_url_parse(config->url, &dir->url, detail, detail_size);
	if (err == 0 && config->password_file != NULL)
		err = read_password(dir, config->password_file, detail, detail_size);
	if (err != 0)
		return err;
	if (dir->url.user[0] != '\0' && dir->url.password[0] == '\0') {
		(void)snprintf(detail, detail_size, "the user %.64s has no password",
			dir->url.user);
		return ERR_BAD_ARGUMENT;
	}
	return copy_tls(dir, detail, detail_size);
}

static void redis_init(struct dir_redis *dir, const struct dir_redis_config *config)
{
	dir->loop = config->loop;
	dir->events = config->events;
	dir->warn = config->warn;
	dir->warn_ctx = config->warn_ctx;
	dir->timeout_ns = config->timeout_ns != 0 ? config->timeout_ns
						  : DIR_REDIS_TIMEOUT_NS;
	dir->access = (struct redis_access){
		.loop = config->loop,
		.user = dir->url.user,
		.password = dir->url.password,
		.tls = config->tls,
		.scripts = &dir->scripts,
		/* Time is left to do it elsewhere. */
		.silence_ns = dir->timeout_ns / 3 * 2,
	};
	redis_scripts_init(&dir->scripts);
	list_init(&dir->jobs);
	list_init(&dir->waiting);
	list_init(&dir->delayed);
	list_init(&dir->finished);
	list_init(&dir->free_jobs);
	map_init(dir);
}

int dir_redis_open(struct dir_redis **ret, const struct dir_redis_config *config,
	char *detail, size_t detail_size)
{
	struct dir_redis *dir = calloc(1, sizeof(*dir));
	int err = ERR_NO_MEMORY;

	(void)snprintf(detail, detail_size, "no memory for the directory");
	if (dir == NULL)
		return err;
	redis_init(dir, config);
	dir->map = calloc(1, sizeof(*dir->map));
	if (dir->map != NULL)
		err = redis_configure(dir, config, detail, detail_size);
	if (err != 0) {
		dir_redis_close(dir);
		return err;
	}
	dir->access.use_tls = dir->url.tls;
	*ret = dir;
	return 0;
}

static void free_jobs(struct list *jobs)
{
	list_for_each_safe (at, jobs)
		free(container_of(at, struct redis_job, entry));
}

void dir_redis_close(struct dir_redis *dir)
{
	if (dir == NULL)
		return;
	map_fini(dir); /* what was sent waits, or is free, after it */
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			free_jobs(&dir->servers[i].answered);
	}
	free_jobs(&dir->waiting);
	free_jobs(&dir->delayed);
	free_jobs(&dir->free_jobs);
	for (size_t i = 0; i < ARRAY_LEN(dir->tls_texts); i++)
		free(dir->tls_texts[i]);
	free(dir->map);
	free(dir);
}

/* ---- struct dir ---------------------------------------------------------- */

static void redis_start(void *ctx, struct dir_call *call)
{
	struct dir_redis *dir = ctx;
	struct redis_job *job;

	dir_call_check(call);
	dir_call_clear(call);
	job = redis_job_new(dir, call);
	if (job == NULL) {
		dir_call_fail(call, ERR_UNAVAILABLE);
		list_add_tail(&dir->finished, &call->list_entry);
		return;
	}
	redis_job_return(job);
}

static uint32_t redis_domain_of(void *ctx, const struct dir_id *id)
{
	struct dir_redis *dir = ctx;
	uint8_t owner = dir->owner[slot_of_id(dir, id)];

	return owner != NO_SERVER ? owner : DIR_DOMAIN_NONE;
}

void dir_redis_dir(struct dir_redis *dir, struct dir *ret_dir)
{
	*ret_dir = (struct dir){
		.ctx = dir, .start = redis_start, .domain_of = redis_domain_of};
}

void dir_redis_info(const struct dir_redis *dir, struct dir_redis_info *ret)
{
	*ret = dir->info;
	ret->domains = ret->ready = 0;
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		const struct server *server = &dir->servers[i];

		if (!server->used || server->slot_count == 0)
			continue;
		ret->domains++;
		ret->ready += redis_conn_is_ready(&server->conn);
	}
}

/* ---- turns --------------------------------------------------------------- */

static uint64_t server_next(const struct server *server)
{
	uint64_t next = redis_conn_next(&server->conn);

	if (redis_conn_is_ready(&server->conn)) {
		if (server->is_open || server->conn.out_size > 0)
			return 0;
		next = MIN(next, server->ping_ns);
	}
	next = MIN(next, server->lost_ns);
	next = MIN(next, server->again_ns);
	return server->is_known && (!server->heard || server->told != server->current)
		       ? 0
		       : next;
}

uint64_t dir_redis_next(const struct dir_redis *dir)
{
	struct list *oldest = list_first(&dir->jobs);
	struct list *delayed = list_first(&dir->delayed);
	uint64_t next = map_next(dir);

	if (dir->dispatch || !list_is_empty(&dir->finished))
		return 0;
	if (oldest != NULL)
		next = MIN(next,
			container_of(oldest, struct redis_job, by_age)->deadline_ns);
	if (delayed != NULL)
		next = MIN(
			next, container_of(delayed, struct redis_job, entry)->retry_ns);
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			next = MIN(next, server_next(&dir->servers[i]));
	}
	return next;
}

static void server_due(struct server *server, uint64_t now)
{
	redis_conn_due(&server->conn, now);
	if (redis_conn_is_ready(&server->conn) && now >= server->ping_ns)
		epoch_ping(server, now);
	if (now >= server->lost_ns)
		epoch_lost(server);
}

static void servers_flush(struct dir_redis *dir)
{
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		struct server *server = &dir->servers[i];

		if (!server->used || !redis_conn_is_ready(&server->conn))
			continue;
		if (server->is_open)
			epoch_read(server);
		redis_conn_flush(&server->conn);
	}
}

/* What has come of it all; that may start new calls. */
static void report(struct dir_redis *dir, uint64_t now)
{
	struct list *first;

	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			epoch_tell(&dir->servers[i], now);
	}
	while ((first = list_first(&dir->finished)) != NULL) {
		list_del(first);
		dir->events.done(dir->events.ctx,
			container_of(first, struct dir_call, list_entry));
	}
}

void dir_redis_turn(struct dir_redis *dir, uint64_t now)
{
	jobs_due(dir, now);
	for (uint32_t i = 0; i < REDIS_SERVERS; i++) {
		if (dir->servers[i].used)
			server_due(&dir->servers[i], now);
	}
	map_turn(dir, now);
	report(dir, now);
	if (dir->dispatch)
		jobs_dispatch(dir);
	servers_flush(dir);
}
