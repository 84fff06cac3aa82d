/*
 * bench_copies.c - the raw copy beside the store's, in the same slice of time.
 */
#include "tools/bench_micro.h"

#include "base/attr.h"

#include <stdio.h>

void copies_init(struct copies *copies, const char *what, uint64_t size)
{
	static const char *const kinds[COPY_KINDS] = {
		[COPY_MEMCPY] = "memcpy", [COPY_STREAM] = "stream"};

	for (int kind = 0; kind < COPY_KINDS; kind++) {
		(void)snprintf(copies->names[kind], sizeof(copies->names[kind]), "%s_%s",
			kinds[kind], what);
		copies->series[kind] = (struct series){
			.name = copies->names[kind], .bytes = size};
	}
}

void copies_make(struct copies *copies, uint64_t size)
{
	for (int kind = 0; kind < COPY_KINDS; kind++) {
		uint64_t ns;

		if (copies->at + size > copies->span)
			copies->at = 0;
		ns = copy_timed((enum copy_kind)kind, copies->to + copies->at,
			copies->from + copies->at, size);
		copies->at += size;
		series_add(&copies->series[kind], (double)ns);
	}
}

void copies_row(struct copies *copies, struct micro *micro)
{
	for (int kind = 0; kind < COPY_KINDS; kind++)
		result_row(&micro->result, &copies->series[kind]);
}

void copies_fini(struct copies *copies)
{
	for (int kind = 0; kind < COPY_KINDS; kind++)
		series_fini(&copies->series[kind]);
}

double copies_end_run(struct copies *copies)
{
	double memcpy_ns = series_end_run(&copies->series[COPY_MEMCPY]);
	double stream_ns = series_end_run(&copies->series[COPY_STREAM]);

	return MIN(memcpy_ns, stream_ns);
}
