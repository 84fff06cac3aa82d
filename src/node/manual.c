/*
 * manual.c - the texts of cenoted; its options come from config.def.
 */
#include "node/manual.h"

#include "base/version.h"
#include "node/config.h"

#define SUMMARY "the daemon of a Cenote node: objects in shared memory"

static const char description[] =
	"cenoted owns one pool of shared memory on a node and is the "
	"authority for every object in it. Programs attach over its socket "
	"with libcenote and then read and write objects in place.\n"
	"\n"
	"Killed and started again, it adopts the pool that is there: every "
	"object whose put was acknowledged, the puts that living programs "
	"have under way, and the objects that they hold. Programs go on "
	"reading while no daemon runs. The line event=recovered says how "
	"many objects were adopted, and how many were dropped and why.\n"
	"\n"
	"Without --shm-dir the shared memory lies in shm in the run "
	"directory, on which root mounts a tmpfs with huge pages. Where that "
	"is not mounted, the directory should be on a tmpfs already.";

static const char limits[] =
	"A node has 256 attached processes at most. Keys have 1 to 1,024 "
	"bytes, of any value but NUL. An object has 0 bytes up to the size "
	"of the pool. A pool has at most one object for each 1,024 bytes of "
	"it. A cluster has 64 other nodes at most.";

static const char logging[] =
	"A line an event on standard error, as in <6>event=ready "
	"socket=/run/cenote/cenote.sock pid=77: the number in front is the "
	"priority as journald reads it.";

static const char signals[] =
	"SIGTERM and SIGINT stop the daemon in order. In a cluster it first "
	"takes no more puts, lets transfers and hand-overs end, for 2 s at "
	"most, and takes its leave of the directory and the other nodes; a "
	"second signal ends it at once. Then it takes no more connections, "
	"closes those it has, and leaves the pool as --on-exit says. With the "
	"pool kept, programs that are attached keep what "
	"they hold and attach again by themselves.";

static const char exits[] =
	"0 after an orderly stop, 1 if it could not start or go on, 2 for a "
	"wrong option.";

static const char files[] =
	" /run/cenote/cenote.sock  the socket\n"
	" /run/cenote/shm          index, pool and one file for each attached process";

void manual_help(FILE *out)
{
	(void)fprintf(out, "Usage: cenoted [OPTION]...\n%s.\n\n", SUMMARY);
	option_help(out, config_options());
}

void manual_man(FILE *out)
{
	const struct option_section sections[] = {
		{.title = "DESCRIPTION", .text = description},
		{.title = "OPTIONS", .table = config_options()},
		{.title = "LIMITS", .text = limits},
		{.title = "LOG", .text = logging},
		{.title = "SIGNALS", .text = signals},
		{.title = "EXIT STATUS", .text = exits},
		{.title = "FILES", .text = files},
		{.title = NULL},
	};
	const struct option_page page = {
		.name = "cenoted",
		.number = "8",
		.version = VERSION_TEXT,
		.summary = SUMMARY,
		.synopsis = "[OPTION]...",
		.sections = sections,
	};

	option_man(out, &page);
}
