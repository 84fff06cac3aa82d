/*
 * manual.c - the help texts and the man page cenote(1).
 */
#include "tools/manual.h"

#include <stdlib.h>
#include <string.h>

#define COMMANDS_MAX 16

static const char summary[] =
	"put, get and remove objects in the shared memory of a node";

static const struct option_spec manual_specs[] = {
	{.name = "help",
		.letter = 'h',
		.type = OPTION_FLAG,
		.help = "Show the commands; 'cenote COMMAND --help' shows one.",
		.offset = offsetof(struct manual_options, help)},
	{.name = "man",
		.type = OPTION_FLAG,
		.help = "Print the man page, for man(1): cenote --man | man -l -",
		.offset = offsetof(struct manual_options, man)},
	{.name = "version",
		.type = OPTION_FLAG,
		.help = "Print the version.",
		.offset = offsetof(struct manual_options, version)},
};

const struct option_table manual_table = {manual_specs, ARRAY_LEN(manual_specs)};

static const char description[] =
	"Works on the objects of one node, through the daemon cenoted(8) on it. An "
	"object is a\n"
	"row of bytes under a key; it never changes, and is put, read and removed as a "
	"whole.\n"
	"A softpin object stays until it is removed. Any other is a cache object, which "
	"may be\n"
	"dropped when the room is needed.\n"
	"\n"
	"The commands bench and replay start a node of their own if neither --socket "
	"nor\n"
	"$CENOTE_SOCKET names one, and end it when they are done.";

static const char limits[] =
	"Keys have 1 to 1,024 bytes, any bytes but NUL. Objects have 0 bytes (stored, "
	"and\n"
	"readable as empty) up to the size of the pool; sizes have 64 bits from end to "
	"end.\n"
	"A node takes 256 clients, and at most one object for each 1,024 bytes of its "
	"pool.\n"
	"\n"
	"Beside the pool a node takes at most 288 bytes for an object, plus its key "
	"beyond 32\n"
	"bytes, plus 2 bytes for each object and attached client, plus one growth step.";

static const char exit_status[] =
	"0: done. 1: the operation failed; a line on standard error names the command, "
	"the key,\n"
	"the error and its reason. 2: the command line was wrong, and nothing was done.";

static const char environment[] =
	"CENOTE_SOCKET: the socket of the node's daemon, where "
	"--socket does not name one; empty is as unset.\n"
	"\n"
	"TMPDIR: where bench and replay put the files of a node of their own, and its "
	"pool\n"
	"where they may not mount a tmpfs; if not set, /dev/shm, or /tmp if that may not "
	"be\n"
	"written.";

static const char examples[] =
	"    cenote put --softpin weights/7 model.safetensors\n"
	"    cenote get weights/7 -o copy.safetensors\n"
	"    cenote ls weights/\n"
	"    cenote put --replace --softpin latest model.safetensors\n"
	"    cenote ls --regex '^weights/[0-9]+$'\n"
	"    cenote rm --prefix weights/\n"
	"    cenote stat --json\n"
	"    cenote bench station --pool 1G --steps 100";

/* One line per form of the operands, each with `lead` before it. */
static void manual_forms(FILE *out, const struct tool_command *command, const char *lead)
{
	const char *form = command->operands;

	do {
		size_t length = strcspn(form, "\n");

		(void)fprintf(out, "%s%s [OPTION]... %.*s\n", lead, command->name,
			(int)length, form);
		form += length;
		form += *form == '\n';
	} while (*form != '\0');
}

void manual_overview(FILE *out, const struct tool_command *const *commands, size_t count)
{
	(void)fprintf(out,
		"Usage: cenote COMMAND [OPTION]... [OPERAND]...\ncenote - %s\n\n",
		summary);
	for (size_t i = 0; i < count; i++)
		(void)fprintf(
			out, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
	(void)fputs("  help      show this, or the help of a command\n\n", out);
	option_help(out, manual_table);
}

void manual_help(FILE *out, const struct tool_command *command)
{
	(void)fprintf(out, "cenote %s - %s\n\nUsage:\n", command->name, command->summary);
	manual_forms(out, command, "  cenote ");
	(void)fprintf(out, "\n%s\n\n", command->text);
	option_help(out, command->options);
}

/* The synopsis and the text of a command, to be freed. */
static char *manual_command_text(const struct tool_command *command)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return NULL;
	manual_forms(out, command, "    cenote ");
	(void)fprintf(out, "\n%s\n", command->text);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

void manual_page(FILE *out, const struct tool_command *const *commands, size_t count)
{
	struct option_section sections[COMMANDS_MAX + 10] = {{0}};
	char titles[COMMANDS_MAX][120];
	size_t at = 0, first;
	const struct option_page page = {
		.name = "cenote",
		.number = "1",
		.version = MANUAL_VERSION,
		.summary = summary,
		.synopsis =
			"COMMAND [OPTION]... [OPERAND]...\n--help | --man | --version",
		.sections = sections,
	};

	sections[at++] = (struct option_section){
		.title = "DESCRIPTION", .text = description};
	sections[at++] = (struct option_section){
		.title = "OPTIONS", .table = manual_table};
	sections[at++] = (struct option_section){.title = "COMMANDS"};
	first = at;
	for (size_t i = 0; i < count && i < COMMANDS_MAX; i++) {
		(void)snprintf(titles[i], sizeof(titles[i]), "%s: %s", commands[i]->name,
			commands[i]->summary);
		sections[at++] = (struct option_section){.title = titles[i],
			.text = manual_command_text(commands[i]),
			.table = commands[i]->options,
			.is_part = true};
	}
	sections[at++] = (struct option_section){.title = "LIMITS", .text = limits};
	sections[at++] = (struct option_section){
		.title = "EXIT STATUS", .text = exit_status};
	sections[at++] = (struct option_section){
		.title = "ENVIRONMENT", .text = environment};
	sections[at++] = (struct option_section){.title = "EXAMPLES", .text = examples};
	sections[at++] = (struct option_section){
		.title = "SEE ALSO", .text = "cenoted(8)"};
	option_man(out, &page);
	for (size_t i = 0; i < count && i < COMMANDS_MAX; i++) {
		/* Our own memory; the table holds it as a constant text. */
		free((void *)(uintptr_t)sections[first + i].text);
	}
}
