/*
 * manual.h - what cenoted says about itself: --help and the man page.
 */
#ifndef NODE_MANUAL_H
#define NODE_MANUAL_H

#include <stdio.h>

void manual_help(FILE *out);
void manual_man(FILE *out);

#endif
