/*
 * tool.h - what every subcommand of `cenote` is made of, and what all of them share.
 *
 * A subcommand is a constant in its own file; main.c has the table of all, parses its
 * options into a fresh struct and calls run().
 *
 * Units     durations are ns here, ms at the library.
 * Errors    functions that talk to the user say what went wrong on stderr, once, and
 *           return the exit code.
 * Thread    one.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include "base/attr.h"
#include "base/json.h"
#include "base/option.h"

#include <cenote/cenote.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_exit {
	TOOL_OK = 0,
	TOOL_FAILED = 1, /* the operation failed */
	TOOL_USAGE = 2   /* the command line was wrong; nothing was done */
};

/* The first member of every subcommand's options. */
struct tool_common {
	const char *socket;
	uint64_t timeout_ns;
	bool help;
};

#define TOOL_COMMON_OPTIONS                                                             \
	{.name = "socket",                                                              \
		.type = OPTION_TEXT,                                                    \
		.value_name = "PATH",                                                   \
		.help = "Socket of the node's daemon; $CENOTE_SOCKET if not given, "    \
			"or /run/cenote/cenote.sock where that is unset or empty.",     \
		.offset = offsetof(struct tool_common, socket)},                        \
		{.name = "timeout",                                                     \
			.type = OPTION_DURATION,                                        \
			.default_text = "10s",                                          \
			.min = 1000 * 1000,                                             \
			.help = "How long to wait for the daemon at the start, and "    \
				"how long put, get, wait and the puts and gets of "     \
				"bench station and replay may take; other calls take "  \
				"up to 10 s. 'forever' waits for ever.",                \
			.offset = offsetof(struct tool_common, timeout_ns)},            \
	{                                                                               \
		.name = "help", .letter = 'h', .type = OPTION_FLAG,                     \
		.help = "Show this help.", .offset = offsetof(struct tool_common, help) \
	}

struct tool_command {
	const char *name;
	const char *operands; /* a line per form, as in the synopsis: "KEY [FILE]" */
	const char *summary;  /* one line, without a full stop */
	const char *text;     /* paragraphs for --help and the man page */
	int operand_min, operand_max;
	struct option_table options;
	size_t options_size; /* of the struct that `run` gets; begins with tool_common */
	/* `operands` end with NULL. Returns an enum tool_exit. */
	int (*run)(const void *options, int count, char **operands);
};

extern const struct tool_command tool_put, tool_get, tool_rm, tool_ls, tool_stat,
	tool_wait, tool_top, tool_doctor, tool_drain, tool_fault, tool_bench, tool_replay;

/* "cenote: " and the text, as a line on stderr. */
void tool_complain(const char *format, ...) PRINTF_LIKE(1, 2);

/* cenote: put "k": NO_SPACE: what the library says about it. `key` NULL: none.
 * TOOL_FAILED. */
int tool_failed(const char *verb, const char *key, int error);

/* Attach as the common options say; TOOL_OK or TOOL_FAILED. */
int tool_connect(
	const struct tool_common *common, bool read_only, struct cenote **ret_store);

/* For the library's timeout_ms. */
int64_t tool_timeout_ms(uint64_t timeout_ns);

/* Monotonic. */
uint64_t tool_now_ns(void);

/* The path of a file whose place is known from this program's: "cenoted" lies beside it. False:
 * there is none that we may read, or its path is too long. */
bool tool_find_beside(const char *name, char *path, size_t path_size);

/* The key as people can read it, cut to fit: bytes that do not print become \xNN. */
const char *tool_key_text(char *text, size_t text_size, const char *key, size_t key_size);
#define TOOL_KEY_TEXT_MAX 256

/* Print the finished JSON and a newline; TOOL_OK, or TOOL_FAILED if it cannot be written.
 */
int tool_print_json(struct json *json);

/* Whether everything printed has arrived: TOOL_OK or TOOL_FAILED. */
int tool_flush(void);

#endif
