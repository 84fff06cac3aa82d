/*
 * option.h - the options of a program as one table, from which come the parser, the text
 * of --help, the man page and the printed configuration, so that they cannot disagree.
 *
 *	static const struct option_spec specs[] = {
 *		{"pool", 'p', OPTION_SIZE, .default_text = "1G", .help = "Size.",
 *			.min = 1 << 20, .offset = offsetof(struct settings, pool_bytes)},
 *		{"json", 0, OPTION_FLAG, .help = "Print JSON.",
 *			.offset = offsetof(struct settings, json)},
 *	};
 *
 * Units     sizes are bytes, durations ns, shares permille; all of them uint64_t fields.
 * Memory    tables are constants of the program; text values point into argv or the
 *           table.
 * Errors    ERR_BAD_ARGUMENT, with a message that names option, value and what is
 *           allowed.
 * Thread    parsing: one thread of the process at a time, as getopt_long() has globals.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include "base/attr.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The field at `offset` has the type named here. */
enum option_type {
	OPTION_FLAG,     /* bool; takes no value */
	OPTION_SIZE,     /* uint64_t: "640M" */
	OPTION_NUMBER,   /* uint64_t: "200" */
	OPTION_INTEGER,  /* int64_t: "-1" */
	OPTION_DURATION, /* uint64_t: "10s"; "forever" is OPTION_FOREVER */
	OPTION_PERMILLE, /* uint64_t: "70%", "0.5%" */
	OPTION_TEXT,     /* const char *; NULL if neither given nor with a default */
	OPTION_CHOICE    /* uint64_t: the index of the word in `choices` */
};

#define OPTION_FOREVER     UINT64_MAX
#define OPTION_MESSAGE_MAX 320
#define OPTION_VALUE_MAX   128 /* of a value as text, but for OPTION_TEXT */

struct option_spec {
	const char *name; /* without the dashes */
	char letter;      /* 0: none */
	enum option_type type;
	const char *value_name;   /* NULL: that of the type, such as SIZE */
	const char *default_text; /* as a user would write it; NULL: 0, NULL, false */
	const char *help;         /* whole sentences */
	const char *choices;      /* OPTION_CHOICE: "auto|always|never" */
	/* Of what is a number; max 0: none. Of OPTION_INTEGER both are int64_t, and 0, 0: none. */
	uint64_t min, max;
	size_t offset; /* of the field in the options struct */
};

struct option_table {
	const struct option_spec *specs;
	size_t count;
};

#define OPTION_TABLE(array) ((struct option_table){(array), ARRAY_LEN(array)})

/* ---- option.c: values ---------------------------------------------------- */

/* Set every field of the table. */
void option_defaults(struct option_table table, void *options);

/*
 * Defaults, then the options of argv[1 ..]; those may stand before, between and behind
 * the operands, "--" ends them, and a negative number is an operand. The operands are
 * left in argv[1 .. *ret_count]. On failure `message` (OPTION_MESSAGE_MAX bytes) is one
 * line without the program's name.
 */
int option_parse(struct option_table table, int argc, char **argv, void *options,
	int *ret_count, char *message) MUST_CHECK;

/* One value, as by --NAME=TEXT. */
int option_set(const struct option_spec *spec, const char *text, void *options,
	char *message) MUST_CHECK;

/* "640M", "10s", "1.5%": what option_set() reads back as the same value. */
const char *option_value_text(const struct option_spec *spec, const void *options,
	char *text, size_t text_size);

/* ---- option_text.c: what is printed -------------------------------------- */

/* "  -p, --pool SIZE   Size of the pool. (default 1G)", each option wrapped at 80
 * columns. */
void option_help(FILE *out, struct option_table table);

/* "pool = 1G", a line per option; of a flag "yes" or "no". */
void option_print(FILE *out, struct option_table table, const void *options);

/* The same as members of the JSON object that is open now, in the base units. */
void option_json(struct json *json, struct option_table table, const void *options);

/* A piece of a man page. Paragraphs are parted by empty lines; a line that begins with a
 * space is shown as it stands. */
struct option_section {
	const char *title;         /* "EXIT STATUS"; NULL ends a list of sections */
	const char *text;          /* may be NULL */
	struct option_table table; /* may be empty */
	bool is_part;              /* a sub-section of the one before */
};

struct option_page {
	const char *name;     /* "cenoted" */
	const char *number;   /* "8" */
	const char *version;  /* "0.1.0" */
	const char *summary;  /* without a full stop */
	const char *synopsis; /* a line per form: "[OPTION]..." */
	/* DESCRIPTION first; the last has no title. */
	const struct option_section *sections;
};

/* A whole page for man(1). */
void option_man(FILE *out, const struct option_page *page);

#endif
