/*
 * config.c - the table of settings, and what follows from them.
 */
#include "node/config.h"

#include "base/err.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SETTING(ctype, field, option, kind, value, text, words, least, most, about) \
	{.name = (option),                                                          \
		.type = (kind),                                                     \
		.value_name = (value),                                              \
		.default_text = (text),                                             \
		.choices = (words),                                                 \
		.min = (least),                                                     \
		.max = (most),                                                      \
		.help = (about),                                                    \
		.offset = offsetof(struct node_config, field)},
#define COMMAND(field, option, about) \
	{.name = (option),            \
		.type = OPTION_FLAG,  \
		.help = (about),      \
		.offset = offsetof(struct node_config, field)},

static const struct option_spec config_specs[] = {
#include "node/config.def"
};

enum {
#define SETTING(type, field, ...) CONFIG_PLACE_##field,
#define COMMAND(field, ...)
#include "node/config.def"
	CONFIG_SETTINGS
};

struct option_table config_options(void)
{
	return OPTION_TABLE(config_specs);
}

struct option_table config_settings(void)
{
	return (struct option_table){config_specs, CONFIG_SETTINGS};
}

void config_defaults(struct node_config *config)
{
	memset(config, 0, sizeof(*config));
	option_defaults(config_options(), config);
}

static int config_refuse(
	char *message, const char *option, const char *text, const char *needed)
{
	(void)snprintf(message, OPTION_MESSAGE_MAX, "--%s=%.80s: %s is needed", option,
		text, needed);
	return ERR_BAD_ARGUMENT;
}

static void config_show_uids(struct node_config *config)
{
	size_t at = 0;

	for (uint32_t i = 0; i < config->uid_count; i++)
		at += (size_t)snprintf(config->uid_text + at,
			sizeof(config->uid_text) - at, "%s%" PRIu32, i > 0 ? "," : "",
			config->uids[i]);
	config->allow_uid = config->uid_text;
}

/* Digits of `base` up to one of `ends` or the end; NULL: there are none, or too large. */
static const char *parse_u32(const char *text, unsigned base, char end, uint32_t *ret)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at < (char)('0' + base); at++) {
		value = value * base + (uint64_t)(*at - '0');
		if (value > UINT32_MAX)
			return NULL;
	}
	if (at == text || (*at != '\0' && *at != end))
		return NULL;
	*ret = (uint32_t)value;
	return at;
}

static int config_finish_uids(struct node_config *config, uint32_t own_uid, char *message)
{
	const char *at = config->allow_uid;

	config->uid_count = 0;
	if (at == NULL) {
		config->uids[config->uid_count++] = 0;
		if (own_uid != 0)
			config->uids[config->uid_count++] = own_uid;
		return 0;
	}
	for (;;) {
		if (config->uid_count == CONFIG_UID_LIMIT)
			return config_refuse(message, "allow-uid", config->allow_uid,
				"a list of at most 64 user ids");
		at = parse_u32(at, 10, ',', &config->uids[config->uid_count]);
		if (at == NULL)
			return config_refuse(message, "allow-uid", config->allow_uid,
				"a list such as 0,1000");
		config->uid_count++;
		if (*at == '\0')
			return 0;
		at++;
	}
}

static int config_finish_path(char *path, const char *given, const char *run_dir,
	const char *name, const char *option, char *message)
{
	int length = given != NULL
			     ? snprintf(path, CONFIG_PATH_MAX, "%s", given)
			     : snprintf(path, CONFIG_PATH_MAX, "%s/%s", run_dir, name);

	if (length > 0 && length < (int)CONFIG_PATH_MAX)
		return 0;
	return config_refuse(message, option, given != NULL ? given : run_dir,
		"a path of 1 to 511 bytes");
}

/* A password in the URL is nobody's business. */
static void config_show_directory(struct node_config *config)
{
	const char *begin = strstr(config->directory, "://");
	const char *end = strrchr(config->directory, '@');

	config->directory_url = config->directory;
	if (begin == NULL || end == NULL)
		return;
	(void)snprintf(config->directory_text, sizeof(config->directory_text),
		"%.*s***%s", (int)(begin + 3 - config->directory), config->directory,
		end);
	config->directory = config->directory_text;
}

static int config_finish_cluster(struct node_config *config, char *message)
{
	bool has_cert = config->peer_cert != NULL || config->peer_cert_key != NULL ||
			config->peer_ca != NULL;

	if (config->directory == NULL)
		return 0;
	if (strlen(config->directory) >= sizeof(config->directory_text) - 4)
		return config_refuse(message, "directory", config->directory,
			"a URL of at most 507 bytes");
	config_show_directory(config);
	if (has_cert && (config->peer_cert == NULL || config->peer_cert_key == NULL ||
				config->peer_ca == NULL)) {
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"--peer-cert, --peer-cert-key and --peer-ca go together");
		return ERR_BAD_ARGUMENT;
	}
	if ((config->peer_key != NULL) + has_cert + config->insecure != 1) {
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"--directory=%.80s: other nodes must prove who they are: one of "
			"--peer-key, --peer-cert with --peer-cert-key and --peer-ca, or "
			"--insecure is needed",
			config->directory);
		return ERR_BAD_ARGUMENT;
	}
	return 0;
}

int config_finish(struct node_config *config, uint32_t own_uid, char *message)
{
	int err = config_finish_uids(config, own_uid, message);

	if (err == 0)
		err = config_finish_path(config->socket_path, config->socket,
			config->run_dir, "cenote.sock", "socket", message);
	if (err == 0)
		err = config_finish_path(config->shm_path, config->shm_dir,
			config->run_dir, "shm", "shm-dir", message);
	if (err != 0)
		return err;
	if (parse_u32(config->socket_mode, 8, '\0', &config->socket_mode_bits) == NULL ||
		config->socket_mode_bits > 0777)
		return config_refuse(message, "socket-mode", config->socket_mode,
			"an octal number such as 0660");
	config->socket = config->socket_path;
	config_show_uids(config);
	if (config->low > config->high) {
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"--low=%" PRIu64 ".%" PRIu64 "%% is above --high=%" PRIu64
			".%" PRIu64 "%%",
			config->low / 10, config->low % 10, config->high / 10,
			config->high % 10);
		return ERR_BAD_ARGUMENT;
	}
	err = config_finish_cluster(config, message);
	if (err != 0)
		return err;
	if (config->lease_min > config->lease_max) {
		(void)snprintf(message, OPTION_MESSAGE_MAX,
			"--lease-min=%" PRIu64 "ms is above --lease-max=%" PRIu64 "ms",
			config->lease_min / 1000000, config->lease_max / 1000000);
		return ERR_BAD_ARGUMENT;
	}
	return 0;
}

enum log_level config_log_level(const struct node_config *config)
{
	static const enum log_level levels[] = {
		LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG};

	return levels[config->log_level];
}
