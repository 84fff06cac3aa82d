/*
 * json.c - JSON, written front to back.
 *
 * All output goes through json_bytes(), which counts what it cannot write, so that no
 * other function here has to think of the end of the buffer.
 */
#include "base/json.h"

#include "base/check.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(JSON_DEPTH_MAX <= 32, "struct json has a bit for each level");

static void json_bytes(struct json *json, const char *bytes, size_t size)
{
	/* One byte stays free for the NUL. A text once cut is not written to again. */
	if (json->length < json->size && size < json->size - json->length)
		memcpy(json->text + json->length, bytes, size);
	json->length += size;
}

static void json_text(struct json *json, const char *text)
{
	json_bytes(json, text, strlen(text));
}

static bool json_is_continuation(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* The length of the UTF-8 character at the front of `size` > 0 bytes; 0 if there is none:
 * cut short, longer than it need be, a surrogate, or above U+10FFFF. */
static size_t json_utf8_length(const unsigned char *at, size_t size)
{
	if (at[0] < 0x80)
		return 1;
	if (size < 2 || !json_is_continuation(at[1]))
		return 0;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		return 2;
	if (size < 3 || !json_is_continuation(at[2]))
		return 0;
	if (at[0] == 0xe0)
		return at[1] >= 0xa0 ? 3 : 0;
	if (at[0] == 0xed)
		return at[1] <= 0x9f ? 3 : 0;
	if (at[0] >= 0xe1 && at[0] <= 0xef)
		return 3;
	if (size < 4 || !json_is_continuation(at[3]))
		return 0;
	if (at[0] == 0xf0)
		return at[1] >= 0x90 ? 4 : 0;
	if (at[0] == 0xf4)
		return at[1] <= 0x8f ? 4 : 0;
	return at[0] >= 0xf1 && at[0] <= 0xf3 ? 4 : 0;
}

static void json_escape(struct json *json, unsigned char byte)
{
	char text[8];

	switch (byte) {
	case '"':
		json_text(json, "\\\"");
		return;
	case '\\':
		json_text(json, "\\\\");
		return;
	case '\n':
		json_text(json, "\\n");
		return;
	case '\t':
		json_text(json, "\\t");
		return;
	default:
		(void)snprintf(text, sizeof(text), "\\u%04x", byte);
		json_text(json, text);
	}
}

static bool json_is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\';
}

static void json_quoted(struct json *json, const char *bytes, size_t size)
{
	json_text(json, "\"");
	for (size_t i = 0; i < size;) {
		const unsigned char *at = (const unsigned char *)bytes + i;
		size_t length = json_utf8_length(at, size - i);

		if (length != 0 && json_is_plain(*at)) {
			json_bytes(json, bytes + i, length);
			i += length;
		} else {
			json_escape(json, *at);
			i++;
		}
	}
	json_text(json, "\"");
}

static bool json_is_in_object(const struct json *json)
{
	return json->depth > 0 && (json->in_object >> (json->depth - 1) & 1) != 0;
}

/* What stands before every value: a comma, and its name inside an object. */
static void json_lead(struct json *json, const char *name)
{
	CHECK(json->depth > 0 || !json->comma);
	CHECK(json_is_in_object(json) == (name != NULL));

	if (json->comma)
		json_text(json, ",");
	json->comma = true;
	if (name != NULL) {
		json_quoted(json, name, strlen(name));
		json_text(json, ":");
	}
}

static void json_open(struct json *json, const char *name, bool is_object)
{
	json_lead(json, name);
	CHECK(json->depth < JSON_DEPTH_MAX);
	if (is_object)
		json->in_object |= 1u << json->depth;
	else
		json->in_object &= ~(1u << json->depth);
	json->depth++;
	json->comma = false;
	json_text(json, is_object ? "{" : "[");
}

static void json_close(struct json *json, bool is_object)
{
	CHECK(json->depth > 0 && json_is_in_object(json) == is_object);
	json->depth--;
	json->comma = true;
	json_text(json, is_object ? "}" : "]");
}

void json_init(struct json *json, char *text, size_t size)
{
	memset(json, 0, sizeof(*json));
	json->text = text;
	json->size = size;
}

void json_object_begin(struct json *json, const char *name)
{
	json_open(json, name, true);
}

void json_object_end(struct json *json)
{
	json_close(json, true);
}

void json_array_begin(struct json *json, const char *name)
{
	json_open(json, name, false);
}

void json_array_end(struct json *json)
{
	json_close(json, false);
}

void json_u64(struct json *json, const char *name, uint64_t value)
{
	char text[24];

	json_lead(json, name);
	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	json_text(json, text);
}

void json_i64(struct json *json, const char *name, int64_t value)
{
	char text[24];

	json_lead(json, name);
	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	json_text(json, text);
}

/* The shorter of two forms that reads back as the same number. */
static void json_f64_text(char *text, size_t size, double value)
{
	(void)snprintf(text, size, "%.15g", value);
	if (strtod(text, NULL) != value)
		(void)snprintf(text, size, "%.17g", value);
	/* The host program's locale may have another decimal point. */
	for (; *text != '\0'; text++) {
		if (strchr("0123456789+-e", *text) == NULL)
			*text = '.';
	}
}

void json_f64(struct json *json, const char *name, double value)
{
	char text[40];

	json_lead(json, name);
	if (__builtin_isfinite(value))
		json_f64_text(text, sizeof(text), value);
	else
		(void)snprintf(text, sizeof(text), "null");
	json_text(json, text);
}

void json_bool(struct json *json, const char *name, bool value)
{
	json_lead(json, name);
	json_text(json, value ? "true" : "false");
}

void json_str(struct json *json, const char *name, const char *value)
{
	json_str_n(json, name, value, strlen(value));
}

void json_str_n(struct json *json, const char *name, const void *bytes, size_t size)
{
	json_lead(json, name);
	json_quoted(json, bytes, size);
}

int64_t json_finish(struct json *json)
{
	CHECK(json->depth == 0);
	if (json->length >= json->size) {
		if (json->size > 0)
			json->text[0] = '\0';
		return ERR_BUFFER_TOO_SMALL;
	}
	json->text[json->length] = '\0';
	return (int64_t)json->length;
}
