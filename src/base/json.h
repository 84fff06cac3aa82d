/*
 * json.h - write JSON into a buffer, front to back.
 *
 *     json_init(&json, buffer, sizeof(buffer));
 *     json_object_begin(&json, NULL);
 *     json_u64(&json, "failed_puts", 0);
 *     json_object_end(&json);
 *     length = json_finish(&json);
 *
 * Each value has a name inside an object, and NULL inside an array and at the top; a call
 * that breaks this is a bug, and CHECKed. What does not fit is counted, not written.
 *
 * Units     sizes and lengths are bytes; one level of nesting is one object or array.
 * Memory    the caller's buffer, which json_finish() ends with a NUL.
 * Errors    ERR_BUFFER_TOO_SMALL, once, from json_finish(); json.length + 1 bytes would
 *           do.
 * Thread    the owner's.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 32

struct json {
	char *text;
	size_t size;        /* of text, with room for the NUL */
	size_t length;      /* of all that was asked for, also beyond size */
	uint32_t in_object; /* bit d: level d is an object, not an array */
	uint32_t depth;     /* levels open now */
	bool comma;         /* the next value at this level needs one before it */
};

void json_init(struct json *json, char *text, size_t size);

void json_object_begin(struct json *json, const char *name);
void json_object_end(struct json *json);
void json_array_begin(struct json *json, const char *name);
void json_array_end(struct json *json);

void json_u64(struct json *json, const char *name, uint64_t value);
void json_i64(struct json *json, const char *name, int64_t value);
void json_f64(struct json *json, const char *name, double value); /* not finite = null */
void json_bool(struct json *json, const char *name, bool value);

/* Any bytes: UTF-8 stays as it is, each byte that is not part of valid UTF-8 becomes
 * \u00XX, and so do control characters. */
void json_str(struct json *json, const char *name, const char *value);
void json_str_n(struct json *json, const char *name, const void *bytes, size_t size);

/* The length of the text without the NUL, or ERR_BUFFER_TOO_SMALL. Everything is closed.
 */
int64_t json_finish(struct json *json) MUST_CHECK;

#endif
