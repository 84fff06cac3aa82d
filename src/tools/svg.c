/*
 * svg.c - axes, lines and legends as text.
 *
 * Texts of charts are constants of the program and hold no markup.
 */
#include "tools/svg.h"

#include "base/attr.h"

#include <stdio.h>

#define WIDTH   760.0
#define HEIGHT  330.0
#define LEFT    80.0
#define RIGHT   40.0
#define TOP     44.0
#define BOTTOM  56.0
#define Y_STEPS 5

static const char *const colors[SVG_LINES_MAX] = {
	"#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#555555"};

/* What a chart covers. x in powers of ten. */
struct frame {
	double x_first, x_last; /* exponents */
	double y_last;
	double top; /* of the plot, on the page */
};

double svg_round_up(double value)
{
	static const double steps[] = {1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10};
	double power = 1;

	if (!(value > 0))
		return 1;
	while (power > value)
		power /= 10;
	while (power * 10 <= value)
		power *= 10;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		/* Powers below 1 are not exact. */
		if (steps[i] * power >= value * (1 - 1e-9))
			return steps[i] * power;
	}
	return 10 * power;
}

/* log10, exact enough for a place on paper: the mantissa's part by halving the square. */
static double log_ten(double value)
{
	double log = 0, part = 1;

	while (value >= 10) {
		value /= 10;
		log++;
	}
	while (value < 1) {
		value *= 10;
		log--;
	}
	for (int i = 0; i < 20; i++) {
		part /= 2;
		value *= value;
		if (value >= 10) {
			value /= 10;
			log += part;
		}
	}
	return log;
}

static double frame_x(const struct frame *frame, double x)
{
	double span = frame->x_last - frame->x_first;

	return LEFT + (log_ten(x) - frame->x_first) / span * (WIDTH - LEFT - RIGHT);
}

static double frame_y(const struct frame *frame, double y)
{
	double height = HEIGHT - TOP - BOTTOM;

	return frame->top + height - y / frame->y_last * height;
}

static struct frame frame_of(const struct svg_chart *chart, double top)
{
	double x_least = 0, x_most = 1, y_most = 0;
	struct frame frame;

	for (size_t i = 0; i < chart->count; i++) {
		for (size_t at = 0; at < chart->lines[i].count; at++) {
			double x = chart->lines[i].x[at], y = chart->lines[i].y[at];

			x_least = x_least == 0 || x < x_least ? x : x_least;
			x_most = x > x_most ? x : x_most;
			y_most = y > y_most ? y : y_most;
		}
	}
	frame.x_first = log_ten(x_least > 0 ? x_least : 1);
	frame.x_last = log_ten(x_most);
	if (frame.x_last <= frame.x_first)
		frame.x_last = frame.x_first + 1;
	frame.y_last = svg_round_up(y_most);
	frame.top = top + TOP;
	return frame;
}

static void draw_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
	(void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n",
		x, y, anchor, text);
}

static void draw_rule(FILE *out, double x1, double y1, double x2, double y2)
{
	(void)fprintf(out,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
		"stroke=\"#d0d0d0\"/>\n",
		x1, y1, x2, y2);
}

static void draw_axes(FILE *out, const struct svg_chart *chart, const struct frame *frame)
{
	double bottom = frame_y(frame, 0);
	char text[32];

	for (int i = 0; i <= Y_STEPS; i++) {
		double y = frame->y_last * i / Y_STEPS;

		draw_rule(out, LEFT, frame_y(frame, y), WIDTH - RIGHT, frame_y(frame, y));
		(void)snprintf(text, sizeof(text), "%g", y);
		draw_text(out, LEFT - 8, frame_y(frame, y) + 4, "end", text);
	}
	for (double x = 1; log_ten(x) <= frame->x_last + 1e-9; x *= 10) {
		if (log_ten(x) < frame->x_first - 1e-9)
			continue;
		draw_rule(out, frame_x(frame, x), frame->top, frame_x(frame, x), bottom);
		(void)snprintf(text, sizeof(text), "%.0f", x);
		draw_text(out, frame_x(frame, x), bottom + 18, "middle", text);
	}
	draw_text(out, (LEFT + WIDTH - RIGHT) / 2, bottom + 38, "middle", chart->x_name);
	draw_text(out, LEFT - 60, frame->top - 10, "start", chart->y_name);
	(void)fprintf(out,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
		"font-weight=\"bold\">%s</text>\n",
		WIDTH / 2, frame->top - 26, chart->title);
}

static void draw_line(FILE *out, const struct svg_line *line, const struct frame *frame,
	const char *color)
{
	(void)fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
		"points=\"",
		color);
	for (size_t i = 0; i < line->count; i++)
		(void)fprintf(out, "%.1f,%.1f ", frame_x(frame, line->x[i]),
			frame_y(frame, line->y[i]));
	(void)fprintf(out, "\"/>\n");
	for (size_t i = 0; i < line->count; i++)
		(void)fprintf(out,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
			frame_x(frame, line->x[i]), frame_y(frame, line->y[i]), color);
}

static void draw_chart(FILE *out, const struct svg_chart *chart, double top)
{
	struct frame frame = frame_of(chart, top);
	double x = WIDTH - RIGHT;

	draw_axes(out, chart, &frame);
	for (size_t i = 0; i < chart->count; i++) {
		draw_line(out, &chart->lines[i], &frame, colors[i % SVG_LINES_MAX]);
		(void)fprintf(out,
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" "
			"fill=\"%s\">%s</text>\n",
			x - 130 * (double)(chart->count - 1 - i), frame.top - 10,
			colors[i % SVG_LINES_MAX], chart->lines[i].name);
	}
}

bool svg_write(const char *path, const struct svg_chart *charts, size_t count)
{
	FILE *out = fopen(path, "we");
	bool failed;

	if (out == NULL)
		return false;
	(void)fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		WIDTH, HEIGHT * (double)count);
	for (size_t i = 0; i < count; i++)
		draw_chart(out, &charts[i], HEIGHT * (double)i);
	(void)fprintf(out, "</svg>\n");
	failed = ferror(out) != 0;
	return fclose(out) == 0 && !failed;
}
