/*
 * option_text.c - options as people and programs read them: --help, man page,
 * configuration.
 */
#include "base/option.h"

#include <stdbool.h>
#include <string.h>

#define HELP_COLUMN 28 /* where the sentences of --help begin */
#define HELP_WIDTH  80

static const char *option_value_name(const struct option_spec *spec)
{
	if (spec->value_name != NULL)
		return spec->value_name;
	switch (spec->type) {
	case OPTION_FLAG:
		return NULL;
	case OPTION_SIZE:
		return "SIZE";
	case OPTION_NUMBER:
	case OPTION_INTEGER:
		return "N";
	case OPTION_DURATION:
		return "TIME";
	case OPTION_PERMILLE:
		return "N%";
	case OPTION_TEXT:
		return "TEXT";
	case OPTION_CHOICE:
		return spec->choices;
	}
	return NULL;
}

/* ---- --help -------------------------------------------------------------- */

/* Words of `text` from column `at` on, going on at HELP_COLUMN. Returns the column. */
static int help_words(FILE *out, const char *text, int at)
{
	while (*text != '\0') {
		int length = (int)strcspn(text, " ");

		if (at > HELP_COLUMN && at + 1 + length > HELP_WIDTH) {
			(void)fprintf(out, "\n%*s", HELP_COLUMN, "");
			at = HELP_COLUMN;
		}
		at += fprintf(out, "%s%.*s", at > HELP_COLUMN ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	return at;
}

static void help_option(FILE *out, const struct option_spec *spec)
{
	const char *value = option_value_name(spec);
	char letter[8] = "    ";
	char note[160];
	int at;

	if (spec->letter != 0)
		(void)snprintf(letter, sizeof(letter), "-%c, ", spec->letter);
	at = fprintf(out, "  %s--%s%s%s", letter, spec->name, value != NULL ? " " : "",
		value != NULL ? value : "");
	if (at >= HELP_COLUMN) {
		(void)fprintf(out, "\n");
		at = 0;
	}
	at += fprintf(out, "%*s", HELP_COLUMN - at, "");
	at = help_words(out, spec->help, at);
	if (spec->default_text != NULL) {
		(void)snprintf(note, sizeof(note), "(default %s)", spec->default_text);
		(void)help_words(out, note, at);
	}
	(void)fprintf(out, "\n");
}

void option_help(FILE *out, struct option_table table)
{
	for (size_t i = 0; i < table.count; i++)
		help_option(out, &table.specs[i]);
}

/* ---- configuration ------------------------------------------------------- */

void option_print(FILE *out, struct option_table table, const void *options)
{
	char text[OPTION_VALUE_MAX];

	for (size_t i = 0; i < table.count; i++) {
		const struct option_spec *spec = &table.specs[i];

		(void)fprintf(out, "%s = %s\n", spec->name,
			option_value_text(spec, options, text, sizeof(text)));
	}
}

void option_json(struct json *json, struct option_table table, const void *options)
{
	char text[OPTION_VALUE_MAX];

	for (size_t i = 0; i < table.count; i++) {
		const struct option_spec *spec = &table.specs[i];
		const void *field = (const char *)options + spec->offset;

		switch (spec->type) {
		case OPTION_FLAG:
			json_bool(json, spec->name, *(const bool *)field);
			break;
		case OPTION_INTEGER:
			json_i64(json, spec->name, *(const int64_t *)field);
			break;
		case OPTION_TEXT:
		case OPTION_CHOICE:
			json_str(json, spec->name,
				option_value_text(spec, options, text, sizeof(text)));
			break;
		case OPTION_SIZE:
		case OPTION_NUMBER:
		case OPTION_DURATION:
		case OPTION_PERMILLE:
			json_u64(json, spec->name, *(const uint64_t *)field);
			break;
		}
	}
}

/* ---- man page ------------------------------------------------------------ */

/* Text as roff shows it unchanged. A line never begins with a control character, since
 * what is at a line's begin is written with \& before it. */
static void man_text(FILE *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\\')
			(void)fputs("\\e", out);
		else if (text[i] == '-')
			(void)fputs("\\-", out);
		else
			(void)fputc(text[i], out);
	}
}

static void man_line(FILE *out, const char *text, size_t length)
{
	if (length > 0 && (text[0] == '.' || text[0] == '\''))
		(void)fputs("\\&", out);
	man_text(out, text, length);
	(void)fputc('\n', out);
}

static void man_paragraphs(FILE *out, const char *text)
{
	bool verbatim = false;

	while (*text != '\0') {
		size_t length = strcspn(text, "\n");
		bool is_verbatim = length > 0 && text[0] == ' ';

		if (is_verbatim != verbatim)
			(void)fputs(is_verbatim ? ".nf\n" : ".fi\n", out);
		verbatim = is_verbatim;
		if (length == 0)
			(void)fputs(".PP\n", out);
		else
			man_line(out, text, length);
		text += length;
		text += *text == '\n';
	}
	if (verbatim)
		(void)fputs(".fi\n", out);
}

static void man_option(FILE *out, const struct option_spec *spec)
{
	const char *value = option_value_name(spec);

	(void)fprintf(out, ".TP\n%s \"", value != NULL ? ".BI" : ".B");
	if (spec->letter != 0)
		(void)fprintf(out, "\\-%c, ", spec->letter);
	(void)fputs("\\-\\-", out);
	man_text(out, spec->name, strlen(spec->name));
	if (value != NULL) {
		(void)fputs(" \" \"", out);
		man_text(out, value, strlen(value));
	}
	(void)fputs("\"\n", out);
	man_line(out, spec->help, strlen(spec->help));
	if (spec->default_text != NULL) {
		(void)fputs("Default: \\fB", out);
		man_text(out, spec->default_text, strlen(spec->default_text));
		(void)fputs("\\fR.\n", out);
	}
}

static void man_section(FILE *out, const struct option_section *section)
{
	(void)fprintf(out, "%s \"", section->is_part ? ".SS" : ".SH");
	man_text(out, section->title, strlen(section->title));
	(void)fputs("\"\n", out);
	if (section->text != NULL)
		man_paragraphs(out, section->text);
	for (size_t i = 0; i < section->table.count; i++)
		man_option(out, &section->table.specs[i]);
}

static void man_synopsis(FILE *out, const char *name, const char *forms)
{
	(void)fputs(".SH SYNOPSIS\n", out);
	for (bool first = true; *forms != '\0'; first = false) {
		size_t length = strcspn(forms, "\n");

		(void)fprintf(out, "%s.B %s\n", first ? "" : ".br\n", name);
		man_line(out, forms, length);
		forms += length;
		forms += *forms == '\n';
	}
}

void option_man(FILE *out, const struct option_page *page)
{
	(void)fprintf(out, ".TH \"%s\" \"%s\" \"\" \"%s %s\" \"Cenote\"\n", page->name,
		page->number, page->name, page->version);
	(void)fprintf(out, ".SH NAME\n%s \\- ", page->name);
	man_line(out, page->summary, strlen(page->summary));
	man_synopsis(out, page->name, page->synopsis);
	for (const struct option_section *at = page->sections; at->title != NULL; at++)
		man_section(out, at);
}
