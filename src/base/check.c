/*
 * check.c - the last words of a program that found itself broken.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *what)
{
	(void)fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
	abort();
}
