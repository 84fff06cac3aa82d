/*
 * progress.c - a bar on the terminal, or lines in a log.
 */
#include "tools/progress.h"

#include "base/attr.h"
#include "tools/tool.h"

#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH      30
#define REDRAW_TERM_NS (100ull * 1000 * 1000)

void progress_init(
	struct progress *progress, const char *label, uint64_t total, bool asked)
{
	bool terminal = isatty(STDERR_FILENO) == 1;

	*progress = (struct progress){.label = label,
		.total = MAX(total, 1u),
		.shown = terminal || asked,
		.terminal = terminal};
}

static void progress_draw(
	const struct progress *progress, uint64_t done, const char *note)
{
	char bar[BAR_WIDTH + 1];
	unsigned percent = (unsigned)(done * 100 / progress->total);

	for (unsigned i = 0; i < BAR_WIDTH; i++)
		bar[i] = i * 100 < percent * BAR_WIDTH ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	(void)fprintf(
		stderr, "\r%s [%s] %3u%%  %s\x1b[K", progress->label, bar, percent, note);
	(void)fflush(stderr);
}

void progress_update(struct progress *progress, uint64_t done, const char *note)
{
	uint64_t now = tool_now_ns();

	if (!progress->shown)
		return;
	done = MIN(done, progress->total);
	if (progress->terminal) {
		if (progress->drawn_ns != 0 && now - progress->drawn_ns < REDRAW_TERM_NS)
			return;
		progress->drawn_ns = now;
		progress_draw(progress, done, note);
	} else if (done * 10 / progress->total > progress->tenths) {
		progress->tenths = done * 10 / progress->total;
		(void)fprintf(stderr, "%s %3u%%  %s\n", progress->label,
			(unsigned)(done * 100 / progress->total), note);
	}
}

void progress_end(struct progress *progress)
{
	if (progress->shown && progress->terminal && progress->drawn_ns != 0) {
		(void)fputs("\r\x1b[K", stderr);
		(void)fflush(stderr);
	}
	progress->shown = false;
}
