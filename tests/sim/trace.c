#include "sim/trace.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void trace_bytes(struct trace *trace, const void *bytes, size_t size)
{
	trace->hash = hash_key(bytes, size, trace->hash);
}

void trace_event(struct trace *trace, const char *format, ...)
{
	char line[192];
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	trace->events++;
	trace_bytes(trace, trace->now_ns, sizeof(*trace->now_ns));
	trace_bytes(trace, line, size > 0 ? (size_t)size % sizeof(line) : 0);
	if (trace->print)
		printf("%6" PRIu64 " %13.6f  %s\n", trace->events,
			(double)*trace->now_ns / 1e9, line);
}
