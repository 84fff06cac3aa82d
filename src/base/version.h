/*
 * version.h - the version of the programs; cenote.h and meson.build have the same.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define VERSION_TEXT "0.1.0"

#endif
