/*
 * manual.h - what `cenote` tells about itself, all of it out of the table of commands.
 */
#ifndef TOOLS_MANUAL_H
#define TOOLS_MANUAL_H

#include "tools/tool.h"

#include <stdio.h>

#define MANUAL_TEXT_(x) #x
#define MANUAL_TEXT(x)  MANUAL_TEXT_(x)
#define MANUAL_VERSION                    \
	MANUAL_TEXT(CENOTE_VERSION_MAJOR) \
	"." MANUAL_TEXT(CENOTE_VERSION_MINOR) "." MANUAL_TEXT(CENOTE_VERSION_PATCH)

/* Options that need no command. */
struct manual_options {
	bool help;
	bool man;
	bool version;
};

extern const struct option_table manual_table;

/* cenote --help */
void manual_overview(FILE *out, const struct tool_command *const *commands, size_t count);

/* cenote COMMAND --help */
void manual_help(FILE *out, const struct tool_command *command);

/* cenote --man: one page with all commands. */
void manual_page(FILE *out, const struct tool_command *const *commands, size_t count);

#endif
