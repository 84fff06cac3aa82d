/*
 * svg.h - line charts as one SVG file that needs nothing else.
 *
 * Each chart has a logarithmic x axis; its y axis begins at 0.
 *
 * Memory    everything is the caller's.
 * Errors    svg_write(): false, errno says why.
 * Thread    any.
 */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SVG_LINES_MAX  6
#define SVG_POINTS_MAX 32

struct svg_line {
	const char *name;
	double x[SVG_POINTS_MAX], y[SVG_POINTS_MAX];
	size_t count;
};

struct svg_chart {
	const char *title, *x_name, *y_name;
	struct svg_line lines[SVG_LINES_MAX];
	size_t count;
};

/* A number not much above `value` that has few digits, also a fifth of it; 1 for 0. */
double svg_round_up(double value);

/* The charts, one below the other. */
bool svg_write(const char *path, const struct svg_chart *charts, size_t count);

#endif
