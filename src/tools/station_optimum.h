/*
 * station_optimum.h - ask bench/optimum.py how few bytes of a station's log had to be read
 * back from disk.
 *
 * The script lies beside this program (the build puts it there), or is installed in
 * ../share/cenote from there; it runs under /usr/bin/python3.
 *
 * Units     bytes.
 * Errors    false, and a line on stderr says what is missing.
 * Thread    one.
 */
#ifndef TOOLS_STATION_OPTIMUM_H
#define TOOLS_STATION_OPTIMUM_H

#include <stdbool.h>
#include <stdint.h>

struct station_optimum {
	uint64_t turning_bytes; /* the largest turning room that the node had */
	uint64_t read_bytes;
	uint64_t swapped_bytes;       /* beside that and the reserve */
	uint64_t swapped_bytes_whole; /* with all of the pool */
};

/* `fd`: the log as text, to be read from its beginning; `reserve`: of the pool, kept free. */
bool station_optimum_ask(
	int fd, uint64_t pool, uint64_t reserve, struct station_optimum *ret);

#endif
