/*
 * config.h - the daemon's settings, out of config.def.
 *
 * Memory    texts are constants, in argv, or in the struct that config_finish() was
 *           given, which outlives its copies.
 * Errors    ERR_BAD_ARGUMENT, and then `message` (OPTION_MESSAGE_MAX bytes) names the
 *           setting, its value and what is allowed.
 */
#ifndef NODE_CONFIG_H
#define NODE_CONFIG_H

#include "base/attr.h"
#include "base/option.h"
#include "node/log.h"
#include "wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_UID_LIMIT 64u
#define CONFIG_PATH_MAX  512u

enum config_huge_pages {
	HUGE_PAGES_AUTO,
	HUGE_PAGES_REQUIRE,
	HUGE_PAGES_NEVER
};
enum swapout_first {
	SWAPOUT_FIRST_AUTO,
	SWAPOUT_FIRST_DISK,
	SWAPOUT_FIRST_PEER
};
enum config_on_exit {
	ON_EXIT_KEEP,
	ON_EXIT_FREE
};

struct node_config {
#define SETTING(type, field, ...) type field;
#define COMMAND(field, ...)       bool field;
#include "node/config.def"

	/* Set by config_finish(), with `socket`, `allow_uid` and `directory` as they are told. */
	uint32_t uids[CONFIG_UID_LIMIT];
	uint32_t uid_count;
	char uid_text[CONFIG_UID_LIMIT * 11];
	uint32_t socket_mode_bits;
	char socket_path[CONFIG_PATH_MAX];
	char shm_path[CONFIG_PATH_MAX];
	const char *directory_url; /* as it was given; `directory` has no password */
	char directory_text[CONFIG_PATH_MAX];

	const struct log *log; /* the caller's; NULL: silent */
};

/* All options; the settings alone, without the commands. */
struct option_table config_options(void);
struct option_table config_settings(void);

void config_defaults(struct node_config *config);

/* What follows from several settings; `own_uid` may attach
 * unless a list says otherwise. */
int config_finish(struct node_config *config, uint32_t own_uid, char *message) MUST_CHECK;

enum log_level config_log_level(const struct node_config *config);

#endif
