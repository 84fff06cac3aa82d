/*
 * main.c - `cenote`, the command: its subcommands, its help, its man page.
 */
#include "tools/manual.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tool_command *const commands[] = {
	&tool_put,
	&tool_get,
	&tool_rm,
	&tool_ls,
	&tool_stat,
	&tool_wait,
	&tool_top,
	&tool_doctor,
	&tool_drain,
	&tool_fault,
	&tool_bench,
	&tool_replay,
};

static const struct tool_command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int command_unknown(const char *name)
{
	tool_complain("%s: no such command; 'cenote --help' lists them", name);
	return TOOL_USAGE;
}

static int command_usage(const struct tool_command *command, const char *message)
{
	tool_complain("%s: %s", command->name, message);
	(void)fprintf(stderr, "'cenote %s --help' tells more.\n", command->name);
	return TOOL_USAGE;
}

static int command_help(const struct tool_command *command)
{
	manual_help(stdout, command);
	return tool_flush();
}

/* argv[0] is the command's name. */
static int command_run(const struct tool_command *command, int argc, char **argv)
{
	void *options = calloc(1, command->options_size);
	char message[OPTION_MESSAGE_MAX];
	int count = 0, result;

	if (options == NULL) {
		tool_complain("%s: no memory", command->name);
		return TOOL_FAILED;
	}
	result = option_parse(command->options, argc, argv, options, &count, message);
	argv[count + 1] = NULL;
	if (result != 0)
		result = command_usage(command, message);
	else if (((const struct tool_common *)options)->help)
		result = command_help(command);
	else if (count < command->operand_min)
		result = command_usage(command, "an operand is missing");
	else if (count > command->operand_max)
		result = command_usage(command, "too many operands");
	else
		result = command->run(options, count, argv + 1);
	free(options);
	return result;
}

static int help_run(int argc, char **argv)
{
	const struct tool_command *command = argc > 1 ? command_find(argv[1]) : NULL;

	if (argc > 1 && command == NULL)
		return command_unknown(argv[1]);
	if (command != NULL)
		return command_help(command);
	manual_overview(stdout, commands, ARRAY_LEN(commands));
	return tool_flush();
}

/* Options without a command before them. */
static int main_options(int argc, char **argv)
{
	struct manual_options options;
	char message[OPTION_MESSAGE_MAX];
	int count = 0;

	if (option_parse(manual_table, argc, argv, &options, &count, message) != 0) {
		tool_complain("%s", message);
		return TOOL_USAGE;
	}
	if (options.man) {
		manual_page(stdout, commands, ARRAY_LEN(commands));
		return tool_flush();
	}
	if (options.version) {
		(void)printf("cenote %s\n", MANUAL_VERSION);
		return tool_flush();
	}
	argv[count + 1] = NULL;
	return help_run(count + 1, argv);
}

int main(int argc, char **argv)
{
	const struct tool_command *command;

	if (argc < 2) {
		manual_overview(stderr, commands, ARRAY_LEN(commands));
		return TOOL_USAGE;
	}
	if (argv[1][0] == '-')
		return main_options(argc, argv);
	if (strcmp(argv[1], "help") == 0)
		return help_run(argc - 1, argv + 1);
	command = command_find(argv[1]);
	if (command == NULL)
		return command_unknown(argv[1]);
	return command_run(command, argc - 1, argv + 1);
}
