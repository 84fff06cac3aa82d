/*
 * err.c - names and texts of errors, out of err.def.
 */
#include "base/err.h"

const char *err_name(int err)
{
	/* Not a switch over enum err: the number may be any. */
	switch (err) {
#define ERR(name, number, text) \
	case number:            \
		return #name;
#include "base/err.def"
#undef ERR
	default:
		return "UNKNOWN";
	}
}

const char *err_text(int err)
{
	switch (err) {
#define ERR(name, number, text) \
	case number:            \
		return text;
#include "base/err.def"
#undef ERR
	default:
		return "unknown error";
	}
}
